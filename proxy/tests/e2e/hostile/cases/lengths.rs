//! Messages whose length is given twice, or not as a number.

use super::{FINE, LENGTHS, NUMBER, REFUSED, SERVED, SMUGGLED, Table};

pub(super) fn both_lengths(table: &mut Table) {
    table.posts("CL.TE and TE.CL", REFUSED, LENGTHS, &[
        ("Content-Length, then chunked", b"Content-Length: 44\r\nTransfer-Encoding: chunked", SMUGGLED),
        ("chunked, then Content-Length", b"Transfer-Encoding: chunked\r\nContent-Length: 44", SMUGGLED),
        ("chunked with a short Content-Length", b"Transfer-Encoding: chunked\r\nContent-Length: 4", b"5c\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\nContent-Length: 15\r\n\r\nx=1\r\n0\r\n\r\n"),
        ("chunked with Content-Length 0", b"Transfer-Encoding: chunked\r\nContent-Length: 0", SMUGGLED),
        ("the names in other cases", b"CONTENT-length: 44\r\ntransfer-ENCODING: chunked", SMUGGLED),
        ("chunked in capitals", b"Content-Length: 44\r\nTransfer-Encoding: CHUNKED", SMUGGLED),
        ("a space before the coding's line end", b"Content-Length: 44\r\nTransfer-Encoding: chunked ", SMUGGLED),
        ("a tab before the coding", b"Content-Length: 44\r\nTransfer-Encoding:\tchunked", SMUGGLED),
        ("no space before the coding", b"Content-Length: 44\r\nTransfer-Encoding:chunked", SMUGGLED),
        ("both, with matching lengths", b"Content-Length: 5\r\nTransfer-Encoding: chunked", b"0\r\n\r\n"),
        ("a Content-Length that is no number beside chunked", b"Content-Length: x\r\nTransfer-Encoding: chunked", SMUGGLED),
        ("an empty Content-Length beside chunked", b"Content-Length:\r\nTransfer-Encoding: chunked", SMUGGLED),
        ("identity beside Content-Length", b"Content-Length: 44\r\nTransfer-Encoding: identity", SMUGGLED),
        ("an unknown coding beside Content-Length", b"Content-Length: 44\r\nTransfer-Encoding: xchunked", SMUGGLED),
        ("fields between the two", b"Content-Length: 44\r\nX-A: b\r\nX-C: d\r\nTransfer-Encoding: chunked", SMUGGLED),
        ("three lengths", b"Content-Length: 4\r\nContent-Length: 44\r\nTransfer-Encoding: chunked", SMUGGLED),
    ]);
    table.add("CL.TE and TE.CL", REFUSED, LENGTHS, &[
        ("both on a GET", b"GET /p HTTP/1.1\r\nHost: a\r\nContent-Length: 44\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("both in HTTP/1.0", b"POST /p HTTP/1.0\r\nHost: a\r\nContent-Length: 44\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"),
    ]);
}

pub(super) fn content_lengths(table: &mut Table) {
    table.posts(
        "Content-Length",
        REFUSED,
        LENGTHS,
        &[
            (
                "two that differ",
                b"Content-Length: 3\r\nContent-Length: 5",
                b"abcde",
            ),
            (
                "a list of two that differ",
                b"Content-Length: 3, 5",
                b"abcde",
            ),
            (
                "two, one of them empty",
                b"Content-Length: 3\r\nContent-Length:",
                b"abc",
            ),
        ],
    );
    table.posts(
        "Content-Length",
        REFUSED,
        NUMBER,
        &[
            ("a plus sign", b"Content-Length: +3", b"abc"),
            ("negative", b"Content-Length: -3", b"abc"),
            ("hexadecimal", b"Content-Length: 0x3", b"abc"),
            ("a fraction", b"Content-Length: 3.0", b"abc"),
            ("an exponent", b"Content-Length: 1e1", b"abc"),
            ("letters", b"Content-Length: abc", b"abc"),
            ("empty", b"Content-Length:", b""),
            ("a space inside", b"Content-Length: 1 2", b"abc"),
            ("quotes", b"Content-Length: \"3\"", b"abc"),
            ("an underscore", b"Content-Length: 1_0", b"abc"),
            ("a semicolon", b"Content-Length: 3;x", b"abc"),
            ("a NUL after it", b"Content-Length: 3\0", b"abc"),
            ("a vertical tab before it", b"Content-Length: \x0b3", b"abc"),
            ("2^64", b"Content-Length: 18446744073709551616", b"abc"),
            ("2^64 + 3", b"Content-Length: 18446744073709551619", b"abc"),
            (
                "forty digits",
                b"Content-Length: 1000000000000000000000000000000000000003",
                b"abc",
            ),
            (
                "Arabic digits",
                "Content-Length: \u{663}".as_bytes(),
                b"abc",
            ),
            ("a space before the colon", b"Content-Length : 3", b"abc"),
            ("on a folded line", b"Content-Length:\r\n 3", b"abc"),
            ("a list with an empty member", b"Content-Length: 3,", b"abc"),
        ],
    );
    table.posts(
        "Content-Length",
        REFUSED,
        NUMBER,
        &[("a list of twice the same", b"Content-Length: 3, 3", b"abc")],
    );
    table.posts(
        "Content-Length",
        SERVED,
        "RFC 9110 8.6: the same number twice may be taken for one, and is passed on once",
        &[(
            "twice the same",
            b"Content-Length: 3\r\nContent-Length: 3",
            b"abc",
        )],
    );
    table.posts(
        "Content-Length",
        SERVED,
        FINE,
        &[
            ("leading zeros", b"Content-Length: 003", b"abc"),
            (
                "forty leading zeros",
                b"Content-Length: 000000000000000000000000000000000000000040",
                SMUGGLED,
            ),
            (
                "forty spaces before it",
                b"Content-Length:                                         40",
                SMUGGLED,
            ),
            (
                "an underscore in the name: another field",
                b"Content_Length: 3",
                b"",
            ),
            ("spaces around it", b"Content-Length:   3  ", b"abc"),
        ],
    );
    table.add("CL.0", SERVED, "RFC 9110 9.3.1: a GET may have a body, and its end is known", &[
        ("a GET with a body that looks like a request", b"GET /p HTTP/1.1\r\nHost: a\r\nContent-Length: 38\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: abc\r\n\r\n\r\n"),
        ("a HEAD with a body", b"HEAD /p HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"),
        ("a DELETE with a body", b"DELETE /p HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"),
        ("an OPTIONS with a chunked body", b"OPTIONS /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"),
    ]);
}
