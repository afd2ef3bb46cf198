//! Messages with transfer codings that are unknown, hidden, or more than one.

use super::{CODINGS, FINE, REFUSED, SERVED, SMUGGLED, Table};

pub(super) fn codings(table: &mut Table) {
    table.posts(
        "TE.TE",
        &[501],
        CODINGS,
        &[
            (
                "chunked twice in one field",
                b"Transfer-Encoding: chunked, chunked",
                SMUGGLED,
            ),
            (
                "chunked in two fields",
                b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
                SMUGGLED,
            ),
            (
                "gzip, then chunked",
                b"Transfer-Encoding: gzip, chunked",
                SMUGGLED,
            ),
            (
                "chunked after an unknown field of its own",
                b"Transfer-Encoding: x\r\nTransfer-Encoding: chunked",
                SMUGGLED,
            ),
            ("an empty member", b"Transfer-Encoding: , chunked", SMUGGLED),
        ],
    );
    table.posts(
        "TE.TE",
        REFUSED,
        CODINGS,
        &[
            (
                "an unknown coding",
                b"Transfer-Encoding: xchunked",
                SMUGGLED,
            ),
            (
                "chunked, then an unknown one",
                b"Transfer-Encoding: chunked, x",
                SMUGGLED,
            ),
            (
                "chunked, then identity",
                b"Transfer-Encoding: chunked, identity",
                SMUGGLED,
            ),
            (
                "chunked before an unknown field of its own",
                b"Transfer-Encoding: chunked\r\nTransfer-Encoding: x",
                SMUGGLED,
            ),
            ("identity", b"Transfer-Encoding: identity", SMUGGLED),
            ("an empty coding", b"Transfer-Encoding:", SMUGGLED),
            (
                "chunked in quotes",
                b"Transfer-Encoding: \"chunked\"",
                SMUGGLED,
            ),
            (
                "chunked with a parameter",
                b"Transfer-Encoding: chunked;q=1",
                SMUGGLED,
            ),
            (
                "chunked after a vertical tab",
                b"Transfer-Encoding: \x0bchunked",
                SMUGGLED,
            ),
            (
                "chunked after a form feed",
                b"Transfer-Encoding: \x0cchunked",
                SMUGGLED,
            ),
            (
                "chunked after a NUL",
                b"Transfer-Encoding: \0chunked",
                SMUGGLED,
            ),
            (
                "chunked and a NUL",
                b"Transfer-Encoding: chunked\0",
                SMUGGLED,
            ),
            (
                "chunked after a no-break space",
                b"Transfer-Encoding: \xa0chunked",
                SMUGGLED,
            ),
            (
                "a space before the colon",
                b"Transfer-Encoding : chunked",
                SMUGGLED,
            ),
            (
                "a tab before the colon",
                b"Transfer-Encoding\t: chunked",
                SMUGGLED,
            ),
            (
                "a name that is folded away",
                b"X: y\r\n Transfer-Encoding: chunked",
                SMUGGLED,
            ),
            (
                "a coding on a folded line",
                b"Transfer-Encoding:\r\n chunked",
                SMUGGLED,
            ),
            (
                "a coding after a bare CR",
                b"X: y\rTransfer-Encoding: chunked",
                SMUGGLED,
            ),
            (
                "a coding after a bare LF",
                b"X: y\nTransfer-Encoding: chunked",
                SMUGGLED,
            ),
            ("two colons", b"Transfer-Encoding:: chunked", SMUGGLED),
            (
                "a NUL in the name",
                b"Transfer\0-Encoding: chunked",
                SMUGGLED,
            ),
        ],
    );
    table.posts(
        "TE.TE",
        SERVED,
        FINE,
        &[
            (
                "an underscore in the name: another field",
                b"Transfer_Encoding: chunked",
                b"",
            ),
            (
                "another field that begins like it",
                b"Transfer-Encodings: chunked",
                b"",
            ),
        ],
    );
    table.add(
        "TE.TE",
        REFUSED,
        "RFC 9112 6.1: HTTP/1.0 knows no codings",
        &[(
            "chunked in HTTP/1.0",
            b"POST /p HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        )],
    );
}
