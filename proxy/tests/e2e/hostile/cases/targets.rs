//! Messages with odd hosts and targets.

use super::{FINE, HOSTS, REFUSED, SERVED, TARGETS, Table};

pub(super) fn hosts(table: &mut Table) {
    table.add(
        "Host",
        REFUSED,
        HOSTS,
        &[
            ("none", b"GET /p HTTP/1.1\r\nX: y\r\n\r\n"),
            ("two", b"GET /p HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
            (
                "twice the same",
                b"GET /p HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
            ),
            ("two in one field", b"GET /p HTTP/1.1\r\nHost: a, b\r\n\r\n"),
            (
                "a space before the colon, after another",
                b"GET /p HTTP/1.1\r\nHost: a\r\nHost : b\r\n\r\n",
            ),
            ("a space inside", b"GET /p HTTP/1.1\r\nHost: a b\r\n\r\n"),
            ("a user", b"GET /p HTTP/1.1\r\nHost: user@a\r\n\r\n"),
            ("a path", b"GET /p HTTP/1.1\r\nHost: a/b\r\n\r\n"),
            ("a scheme", b"GET /p HTTP/1.1\r\nHost: http://a\r\n\r\n"),
            ("a question mark", b"GET /p HTTP/1.1\r\nHost: a?b\r\n\r\n"),
            ("a number sign", b"GET /p HTTP/1.1\r\nHost: a#b\r\n\r\n"),
            ("a backslash", b"GET /p HTTP/1.1\r\nHost: a\\b\r\n\r\n"),
            (
                "a port that is no number",
                b"GET /p HTTP/1.1\r\nHost: a:b\r\n\r\n",
            ),
            (
                "a port over 65535",
                b"GET /p HTTP/1.1\r\nHost: a:65536\r\n\r\n",
            ),
            ("two ports", b"GET /p HTTP/1.1\r\nHost: a:80:80\r\n\r\n"),
            (
                "an IPv6 address without brackets",
                b"GET /p HTTP/1.1\r\nHost: ::1\r\n\r\n",
            ),
            (
                "brackets that are not closed",
                b"GET /p HTTP/1.1\r\nHost: [::1\r\n\r\n",
            ),
            (
                "an address that is none",
                b"GET /p HTTP/1.1\r\nHost: [::g]\r\n\r\n",
            ),
            ("high bytes", b"GET /p HTTP/1.1\r\nHost: \xc3\xa4\r\n\r\n"),
            ("a NUL", b"GET /p HTTP/1.1\r\nHost: a\0b\r\n\r\n"),
            ("angle brackets", b"GET /p HTTP/1.1\r\nHost: <a>\r\n\r\n"),
            ("a quote", b"GET /p HTTP/1.1\r\nHost: \"a\"\r\n\r\n"),
            (
                "a percent sign without digits",
                b"GET /p HTTP/1.1\r\nHost: a%zz\r\n\r\n",
            ),
            ("half an encoding", b"GET /p HTTP/1.1\r\nHost: a%4\r\n\r\n"),
        ],
    );
    table.add(
        "Host",
        SERVED,
        FINE,
        &[
            ("a port", b"GET /p HTTP/1.1\r\nHost: a:8080\r\n\r\n"),
            (
                "an IPv6 address and a port",
                b"GET /p HTTP/1.1\r\nHost: [::1]:80\r\n\r\n",
            ),
            ("a dot at the end", b"GET /p HTTP/1.1\r\nHost: a.\r\n\r\n"),
            (
                "another than the absolute target's, which counts",
                b"GET http://b/p HTTP/1.1\r\nHost: a\r\n\r\n",
            ),
        ],
    );
}

pub(super) fn targets(table: &mut Table) {
    table.add(
        "target",
        REFUSED,
        TARGETS,
        &[
            ("a relative path", b"GET p HTTP/1.1\r\nHost: a\r\n\r\n"),
            (
                "an asterisk without OPTIONS",
                b"GET * HTTP/1.1\r\nHost: a\r\n\r\n",
            ),
            (
                "an authority without CONNECT",
                b"GET a:80 HTTP/1.1\r\nHost: a\r\n\r\n",
            ),
            ("a fragment", b"GET /p#q HTTP/1.1\r\nHost: a\r\n\r\n"),
            (
                "another scheme",
                b"GET ftp://a/p HTTP/1.1\r\nHost: a\r\n\r\n",
            ),
            (
                "a file",
                b"GET file:///etc/passwd HTTP/1.1\r\nHost: a\r\n\r\n",
            ),
            (
                "a user in the authority",
                b"GET http://user:pw@a/p HTTP/1.1\r\nHost: a\r\n\r\n",
            ),
            ("no authority", b"GET http:///p HTTP/1.1\r\nHost: a\r\n\r\n"),
            (
                "a bad port in the authority",
                b"GET http://a:b/p HTTP/1.1\r\nHost: a\r\n\r\n",
            ),
            ("a NUL", b"GET /p\0q HTTP/1.1\r\nHost: a\r\n\r\n"),
            (
                "a control character",
                b"GET /p\x01q HTTP/1.1\r\nHost: a\r\n\r\n",
            ),
            ("a DEL", b"GET /p\x7fq HTTP/1.1\r\nHost: a\r\n\r\n"),
            ("high bytes", b"GET /\xc3\xa4 HTTP/1.1\r\nHost: a\r\n\r\n"),
            ("a quote", b"GET /\"p HTTP/1.1\r\nHost: a\r\n\r\n"),
            ("angle brackets", b"GET /<p> HTTP/1.1\r\nHost: a\r\n\r\n"),
            ("a backslash", b"GET /p\\q HTTP/1.1\r\nHost: a\r\n\r\n"),
            (
                "a percent sign alone",
                b"GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n",
            ),
            ("an encoded NUL", b"GET /p%00q HTTP/1.1\r\nHost: a\r\n\r\n"),
        ],
    );
    table.add(
        "target",
        SERVED,
        FINE,
        &[
            (
                "an encoded line end",
                b"GET /p%0d%0aHost:%20b HTTP/1.1\r\nHost: a\r\n\r\n",
            ),
            (
                "a caret, a bar and braces, which browsers send",
                b"GET /p^q|{r} HTTP/1.1\r\nHost: a\r\n\r\n",
            ),
            ("two slashes", b"GET //b/p HTTP/1.1\r\nHost: a\r\n\r\n"),
            ("dots", b"GET /p/../q HTTP/1.1\r\nHost: a\r\n\r\n"),
            (
                "encoded dots",
                b"GET /p/%2e%2e/q HTTP/1.1\r\nHost: a\r\n\r\n",
            ),
            (
                "a target in absolute form",
                b"GET http://a/p HTTP/1.1\r\nHost: a\r\n\r\n",
            ),
            (
                "the scheme in capitals",
                b"GET HTTP://a/p HTTP/1.1\r\nHost: a\r\n\r\n",
            ),
            (
                "an absolute target without a path",
                b"GET http://a HTTP/1.1\r\nHost: a\r\n\r\n",
            ),
            (
                "an asterisk with OPTIONS",
                b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
            ),
        ],
    );
}
