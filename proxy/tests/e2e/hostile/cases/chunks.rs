//! Messages with chunked bodies that cannot be parsed, or that hold the likeness of a request.

use super::{CHUNK_LINES, CHUNKS, FINE, REFUSED, SERVED, Table};

pub(super) fn chunks(table: &mut Table) {
    const CHUNKED: &[u8] = b"Transfer-Encoding: chunked";
    let broken: &[(&'static str, &[u8])] = &[
        ("a size that is no number", b"x\r\nabc\r\n0\r\n\r\n"),
        ("a negative size", b"-3\r\nabc\r\n0\r\n\r\n"),
        ("a size with a plus sign", b"+3\r\nabc\r\n0\r\n\r\n"),
        ("a size with 0x", b"0x3\r\nabc\r\n0\r\n\r\n"),
        ("an empty size", b"\r\nabc\r\n0\r\n\r\n"),
        ("a space before the size", b" 3\r\nabc\r\n0\r\n\r\n"),
        (
            "a size of 2^64 + 3",
            b"10000000000000003\r\nabc\r\n0\r\n\r\n",
        ),
        ("an underscore in the size", b"0_3\r\nabc\r\n0\r\n\r\n"),
        ("data longer than its chunk", b"3\r\nabcd\r\n0\r\n\r\n"),
        ("data shorter than its chunk", b"4\r\nabc\r\n0\r\n\r\n"),
        ("no line end after the data", b"3\r\nabc0\r\n\r\n"),
        ("two line ends after the data", b"3\r\nabc\r\n\r\n0\r\n\r\n"),
        ("a bare LF after the size", b"3\nabc\r\n0\r\n\r\n"),
        ("a bare LF after the data", b"3\r\nabc\n0\r\n\r\n"),
        ("a bare CR after the size", b"3\rabc\r\n0\r\n\r\n"),
        ("a bare LF in an extension", b"3;a\nb\r\nabc\r\n0\r\n\r\n"),
        ("a bare CR in an extension", b"3;a\rb\r\nabc\r\n0\r\n\r\n"),
        ("a NUL after the size", b"3\0\r\nabc\r\n0\r\n\r\n"),
        ("a bare LF after the last chunk", b"3\r\nabc\r\n0\n\r\n"),
        (
            "a trailer that is no field",
            b"3\r\nabc\r\n0\r\nno field\r\n\r\n",
        ),
        (
            "a trailer with a space before the colon",
            b"3\r\nabc\r\n0\r\nX : y\r\n\r\n",
        ),
        (
            "a bare LF after a trailer",
            b"3\r\nabc\r\n0\r\nX: y\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        (
            "a bare LF after the trailers",
            b"3\r\nabc\r\n0\r\nX: y\r\n\n",
        ),
        (
            "a bare LF in place of trailers",
            b"3\r\nabc\r\n0\r\n\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n",
        ),
        ("a folded trailer", b"3\r\nabc\r\n0\r\nX: y\r\n z\r\n\r\n"),
    ];
    for &(name, body) in broken {
        table.posts("chunks", REFUSED, CHUNKS, &[(name, CHUNKED, body)]);
    }
    let lines: &[(&'static str, &[u8])] = &[
        (
            "a semicolon without an extension",
            b"3;\r\nabc\r\n0\r\n\r\n",
        ),
        ("a space after the size", b"3 \r\nabc\r\n0\r\n\r\n"),
        ("a tab after the size", b"3\t\r\nabc\r\n0\r\n\r\n"),
        ("a space after the last size", b"3\r\nabc\r\n0 \r\n\r\n"),
        ("a NUL in an extension", b"3;\0ext\r\nabc\r\n0\r\n\r\n"),
        (
            "a control character in an extension",
            b"3;\x01\r\nabc\r\n0\r\n\r\n",
        ),
        (
            "a control character in a quoted extension",
            b"3;a=\"\x7f\"\r\nabc\r\n0\r\n\r\n",
        ),
        ("an extension without a name", b"3;=b\r\nabc\r\n0\r\n\r\n"),
        ("an extension without a value", b"3;a=\r\nabc\r\n0\r\n\r\n"),
        (
            "an extension whose quotes do not end",
            b"3;a=\"b\r\nabc\r\n0\r\n\r\n",
        ),
        ("a space after an extension", b"3;a \r\nabc\r\n0\r\n\r\n"),
    ];
    for &(name, body) in lines {
        table.posts("chunks", REFUSED, CHUNK_LINES, &[(name, CHUNKED, body)]);
    }
    let fine: &[(&'static str, &[u8])] = &[
        ("an extension", b"3;a=b\r\nabc\r\n0\r\n\r\n"),
        ("an extension in quotes", b"3;a=\"b;c\"\r\nabc\r\n0\r\n\r\n"),
        (
            "white space around an extension's marks",
            b"3 ; a\t= b\r\nabc\r\n0\r\n\r\n",
        ),
        (
            "a size with 39 zeros before it",
            b"0000000000000000000000000000000000000003\r\nabc\r\n0\r\n\r\n",
        ),
        ("a size with zeros before it", b"003\r\nabc\r\n0\r\n\r\n"),
        (
            "sizes in capitals and small letters",
            b"a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n",
        ),
        ("a last chunk of many zeros", b"3\r\nabc\r\n0000\r\n\r\n"),
        (
            "a body that looks like a request",
            b"28\r\nGET /smuggled HTTP/1.1\r\nHost: abcdef\r\n\r\n\r\n0\r\n\r\n",
        ),
        (
            "a trailer that would set a length",
            b"3\r\nabc\r\n0\r\nContent-Length: 5\r\n\r\n",
        ),
        (
            "a trailer that would set a host",
            b"3\r\nabc\r\n0\r\nHost: b\r\n\r\n",
        ),
    ];
    for &(name, body) in fine {
        table.posts("chunks", SERVED, FINE, &[(name, CHUNKED, body)]);
    }
}
