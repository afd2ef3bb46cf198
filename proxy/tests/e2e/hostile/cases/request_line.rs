//! Messages with lines that others would read differently, and with odd methods and versions.

use super::{FINE, LENGTHS, LINES, ONCE, REFUSED, SERVED, Table};

pub(super) fn lines(table: &mut Table) {
    table.add(
        "request line",
        REFUSED,
        LINES,
        &[
            (
                "two spaces before the target",
                b"GET  /p HTTP/1.1\r\nHost: a\r\n\r\n",
            ),
            (
                "two spaces before the version",
                b"GET /p  HTTP/1.1\r\nHost: a\r\n\r\n",
            ),
            (
                "a tab before the target",
                b"GET\t/p HTTP/1.1\r\nHost: a\r\n\r\n",
            ),
            (
                "a tab before the version",
                b"GET /p\tHTTP/1.1\r\nHost: a\r\n\r\n",
            ),
            ("a space at the end", b"GET /p HTTP/1.1 \r\nHost: a\r\n\r\n"),
            (
                "a space before the method",
                b" GET /p HTTP/1.1\r\nHost: a\r\n\r\n",
            ),
            (
                "a space in the target",
                b"GET /p q HTTP/1.1\r\nHost: a\r\n\r\n",
            ),
            ("a bare LF at its end", b"GET /p HTTP/1.1\nHost: a\r\n\r\n"),
            ("bare LFs everywhere", b"GET /p HTTP/1.1\nHost: a\n\n"),
            (
                "a bare LF at the end of the head",
                b"GET /p HTTP/1.1\r\nHost: a\r\n\n",
            ),
            ("a bare CR in it", b"GET /p\r HTTP/1.1\r\nHost: a\r\n\r\n"),
            (
                "a vertical tab in it",
                b"GET /p\x0bHTTP/1.1\r\nHost: a\r\n\r\n",
            ),
            (
                "a NUL before the method",
                b"\0GET /p HTTP/1.1\r\nHost: a\r\n\r\n",
            ),
            ("no target", b"GET HTTP/1.1\r\nHost: a\r\n\r\n"),
            ("no version: HTTP/0.9", b"GET /p\r\n\r\n"),
            ("nothing but a method", b"GET\r\n\r\n"),
            (
                "a response",
                b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            ),
            (
                "a TLS hello",
                b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03\r\n\r\n",
            ),
            (
                "the mark of a byte order",
                b"\xef\xbb\xbfGET /p HTTP/1.1\r\nHost: a\r\n\r\n",
            ),
        ],
    );
    table.add("request line", &[200, 400], LENGTHS, &[
        ("a pipelined request with both lengths", b"GET /p HTTP/1.1\r\nHost: a\r\n\r\nPOST /q HTTP/1.1\r\nHost: a\r\nContent-Length: 44\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("empty lines, then a request with both lengths, behind a body", b"POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc\r\n\r\nPOST /q HTTP/1.1\r\nHost: a\r\nContent-Length: 44\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"),
    ]);
    table.add(
        "request line",
        SERVED,
        "RFC 9112 2.2: an empty line before a request is passed over",
        &[(
            "an empty line before it",
            b"\r\nGET /p HTTP/1.1\r\nHost: a\r\n\r\n",
        )],
    );
}

pub(super) fn methods_and_versions(table: &mut Table) {
    table.add(
        "method",
        REFUSED,
        "RFC 9110 9.1: a method is a token",
        &[
            ("none", b" /p HTTP/1.1\r\nHost: a\r\n\r\n"),
            ("parentheses", b"G(E)T /p HTTP/1.1\r\nHost: a\r\n\r\n"),
            ("a colon", b"GET: /p HTTP/1.1\r\nHost: a\r\n\r\n"),
            ("a NUL", b"GE\0T /p HTTP/1.1\r\nHost: a\r\n\r\n"),
            ("high bytes", b"G\xc3\xa4T /p HTTP/1.1\r\nHost: a\r\n\r\n"),
        ],
    );
    table.add(
        "method",
        SERVED,
        FINE,
        &[
            ("an unknown one", b"BREW /p HTTP/1.1\r\nHost: a\r\n\r\n"),
            (
                "small letters: another method",
                b"get /p HTTP/1.1\r\nHost: a\r\n\r\n",
            ),
        ],
    );
    table.add(
        "method",
        &[405, 200],
        "tunnels and loops are not for a reverse proxy",
        &[
            ("TRACE", b"TRACE /p HTTP/1.1\r\nHost: a\r\n\r\n"),
            (
                "TRACE that may go no further",
                b"TRACE /p HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\n\r\n",
            ),
            ("CONNECT", b"CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n"),
        ],
    );
    table.add(
        "version",
        REFUSED,
        "RFC 9112 2.3: one digit, a dot, one digit",
        &[
            ("1.10", b"GET /p HTTP/1.10\r\nHost: a\r\n\r\n"),
            ("2", b"GET /p HTTP/2\r\nHost: a\r\n\r\n"),
            ("01.1", b"GET /p HTTP/01.1\r\nHost: a\r\n\r\n"),
            ("1,1", b"GET /p HTTP/1,1\r\nHost: a\r\n\r\n"),
            ("1", b"GET /p HTTP/1\r\nHost: a\r\n\r\n"),
            ("small letters", b"GET /p http/1.1\r\nHost: a\r\n\r\n"),
            ("another protocol", b"GET /p ICAP/1.0\r\nHost: a\r\n\r\n"),
        ],
    );
    table.add(
        "version",
        &[505],
        "RFC 9110 2.5, 15.6.6: a major version that is not spoken",
        &[
            ("2.0", b"GET /p HTTP/2.0\r\nHost: a\r\n\r\n"),
            ("0.9", b"GET /p HTTP/0.9\r\nHost: a\r\n\r\n"),
        ],
    );
    table.add(
        "version",
        SERVED,
        "RFC 9110 2.5: a later minor version is read as the latest known",
        &[
            ("1.2", b"GET /p HTTP/1.2\r\nHost: a\r\n\r\n"),
            ("1.7", b"GET /p HTTP/1.7\r\nHost: a\r\n\r\n"),
        ],
    );
    table.add(
        "version",
        ONCE,
        "RFC 9112 9.3: HTTP/1.0 ends with its connection",
        &[
            ("1.0", b"GET /p HTTP/1.0\r\nHost: a\r\n\r\n"),
            ("1.0 without a Host", b"GET /p HTTP/1.0\r\n\r\n"),
        ],
    );
}
