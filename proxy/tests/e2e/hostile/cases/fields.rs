//! Messages with odd names and values of fields, and with fields of the connection.

use super::{CLOSED, FINE, FOLDS, LINES, NAMES, ONCE, REFUSED, SERVED, Table, VALUES};

pub(super) fn names_and_values(table: &mut Table) {
    table.fields(
        "fields",
        REFUSED,
        NAMES,
        &[
            ("a space before the colon", b"X : y"),
            ("a space in the name", b"X Y: z"),
            ("a space before the name, after the Host", b" X: y"),
            ("a tab before the name", b"\tX: y"),
            ("no name", b": y"),
            ("no colon", b"X"),
            ("a slash in the name", b"X/Y: z"),
            ("parentheses in the name", b"X(Y): z"),
            ("a quote in the name", b"X\"Y: z"),
            ("a control character in the name", b"X\x01Y: z"),
            ("a DEL in the name", b"X\x7fY: z"),
            ("a high byte in the name", b"X\xffY: z"),
            ("a NUL in the name", b"X\0Y: z"),
        ],
    );
    table.fields(
        "fields",
        REFUSED,
        VALUES,
        &[
            ("a NUL in the value", b"X: y\0z"),
            ("a bare CR in the value", b"X: y\rz"),
            ("a bare CR and a field in the value", b"X: y\rHost: b"),
            ("a control character in the value", b"X: y\x01z"),
            ("a DEL in the value", b"X: y\x7fz"),
            ("an escape character in the value", b"X: \x1b[31m"),
            ("a bare CR at the end of the value", b"X: y\r"),
        ],
    );
    table.fields(
        "fields",
        REFUSED,
        FOLDS,
        &[
            ("a folded value", b"X: y\r\n z"),
            ("a folded value with a tab", b"X: y\r\n\tz"),
            ("a line of spaces", b"X: y\r\n  "),
            ("a fold that looks like a field", b"X: y\r\n Host: b"),
        ],
    );
    table.fields(
        "fields",
        REFUSED,
        LINES,
        &[
            ("a bare LF between fields", b"X: y\nZ: z"),
            ("a bare LF after the last field", b"X: y\n"),
        ],
    );
    table.fields(
        "fields",
        SERVED,
        FINE,
        &[
            ("a high byte in the value", b"X: \xff\xfe"),
            ("an empty value", b"X:"),
            ("a tab in the value", b"X: y\tz"),
            (
                "every character that a name may have",
                b"!#$%&'*+-.^_`|~09AZaz: y",
            ),
            ("the same field many times", b"X: a\r\nX: b\r\nX: c"),
            ("a line end in an encoding", b"X: %0d%0aHost: b"),
        ],
    );
}

pub(super) fn connections(table: &mut Table) {
    const HOP: &str =
        "RFC 9110 7.6.1: for this connection alone, and not to be used against the message";
    table.fields("Connection", SERVED, HOP, &[
        ("it names Host", b"Connection: Host"),
        ("it names Via", b"Connection: Via"),
        ("it names X-Forwarded-For", b"X-Forwarded-For: 192.0.2.1\r\nConnection: X-Forwarded-For"),
        ("it names Connection", b"Connection: Connection"),
        ("it has no token", b"Connection: ,,,"),
        ("it has what is no token", b"Connection: a b, \"c\""),
        ("Keep-Alive and Proxy-Connection", b"Keep-Alive: timeout=5\r\nProxy-Connection: keep-alive"),
        ("TE with an unknown coding", b"TE: gzip, x\r\nConnection: TE"),
        ("an Upgrade to HTTP/2", b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nConnection: Upgrade, HTTP2-Settings"),
    ]);
    table.posts(
        "Connection",
        SERVED,
        HOP,
        &[
            (
                "it names Content-Length",
                b"Content-Length: 3\r\nConnection: Content-Length",
                b"abc",
            ),
            (
                "it names Transfer-Encoding",
                b"Transfer-Encoding: chunked\r\nConnection: Transfer-Encoding",
                b"3\r\nabc\r\n0\r\n\r\n",
            ),
        ],
    );
    table.add("Connection", ONCE, "RFC 9112 9.6: the client has said that it is the last", &[
        ("close, and more requests", b"GET /p HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"),
    ]);
    table.add(
        "Expect",
        &[417],
        "RFC 9110 10.1.1: an expectation that cannot be met",
        &[(
            "an unknown expectation",
            b"GET /p HTTP/1.1\r\nHost: a\r\nExpect: wonders\r\n\r\n",
        )],
    );
    table.add(
        "truncated",
        CLOSED,
        "there is no request to answer",
        &[("nothing", b""), ("a part of a line", b"GE")],
    );
}
