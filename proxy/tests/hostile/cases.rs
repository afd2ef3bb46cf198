//! Messages that servers have disagreed about, or that no client should send.

/// One message.
pub(crate) struct Case {
    pub(crate) group: &'static str,
    /// Unique; what is wrong with it.
    pub(crate) name: &'static str,
    pub(crate) bytes: Vec<u8>,
    /// The status of each answer that Sprat gives; the last one is that of a
    /// harmless request that follows on the same connection, if the message
    /// leaves it usable.
    pub(crate) answers: &'static [u16],
    /// Why it answers so.
    pub(crate) why: &'static str,
}

/// Refused, and the connection is closed: what follows is not believed.
const REFUSED: &[u16] = &[400];
/// Served, and so is what follows.
const SERVED: &[u16] = &[200, 200];
/// Served; then the connection is closed.
const ONCE: &[u16] = &[200];
/// Closed without an answer.
const CLOSED: &[u16] = &[];

const LENGTHS: &str =
    "RFC 9112 6.1, 6.3: both lengths, or two that differ, are how requests are smuggled";
const CODINGS: &str = "RFC 9112 6.1: a coding that is not understood ends where nobody knows";
const NUMBER: &str = "RFC 9110 8.6: digits and nothing else";
const CHUNKS: &str = "RFC 9112 7.1: after a chunk that cannot be read nothing can";
const NAMES: &str = "RFC 9110 5.1: a name is a token, and the colon follows it";
const VALUES: &str = "RFC 9110 5.5: a value that could end a line elsewhere";
const LINES: &str = "RFC 9112 2.2, 3: a line that others would read in another way";
const FOLDS: &str = "RFC 9112 5.2: a folded line is a field of its own for some";
const HOSTS: &str = "RFC 9112 3.2: one valid Host, or who is asked depends on who reads";
const TARGETS: &str = "RFC 9112 3.2: no form of target";
const FINE: &str = "harmless: it is passed on as it was understood";

struct Table(Vec<Case>);

impl Table {
    fn add(
        &mut self,
        group: &'static str,
        answers: &'static [u16],
        why: &'static str,
        messages: &[(&'static str, &[u8])],
    ) {
        for &(name, bytes) in messages {
            let bytes = bytes.to_vec();
            self.0.push(Case {
                group,
                name,
                bytes,
                answers,
                why,
            });
        }
    }

    /// Messages that are a POST with these fields, and then this.
    fn posts(
        &mut self,
        group: &'static str,
        answers: &'static [u16],
        why: &'static str,
        messages: &[(&'static str, &[u8], &[u8])],
    ) {
        for &(name, fields, rest) in messages {
            let bytes = [
                b"POST /p HTTP/1.1\r\nHost: a\r\n",
                fields,
                b"\r\n\r\n",
                rest,
            ]
            .concat();
            self.0.push(Case {
                group,
                name,
                bytes,
                answers,
                why,
            });
        }
    }

    /// Messages that are a GET with this field.
    fn fields(
        &mut self,
        group: &'static str,
        answers: &'static [u16],
        why: &'static str,
        messages: &[(&'static str, &[u8])],
    ) {
        for &(name, field) in messages {
            let bytes = [b"GET /p HTTP/1.1\r\nHost: a\r\n", field, b"\r\n\r\n"].concat();
            self.0.push(Case {
                group,
                name,
                bytes,
                answers,
                why,
            });
        }
    }
}

/// All of them.
pub(crate) fn all() -> Vec<Case> {
    let mut table = Table(Vec::new());
    both_lengths(&mut table);
    codings(&mut table);
    content_lengths(&mut table);
    chunks(&mut table);
    names_and_values(&mut table);
    lines(&mut table);
    hosts(&mut table);
    targets(&mut table);
    methods_and_versions(&mut table);
    connections(&mut table);
    table.0
}

const SMUGGLED: &[u8] = b"0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";

fn both_lengths(table: &mut Table) {
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

fn codings(table: &mut Table) {
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

fn content_lengths(table: &mut Table) {
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

fn chunks(table: &mut Table) {
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
        ("a folded trailer", b"3\r\nabc\r\n0\r\nX: y\r\n z\r\n\r\n"),
    ];
    for &(name, body) in broken {
        table.posts("chunks", REFUSED, CHUNKS, &[(name, CHUNKED, body)]);
    }
    let fine: &[(&'static str, &[u8])] = &[
        ("an extension", b"3;a=b\r\nabc\r\n0\r\n\r\n"),
        ("an extension in quotes", b"3;a=\"b;c\"\r\nabc\r\n0\r\n\r\n"),
        (
            "a control character in an extension, which ends here",
            b"3;\x01\r\nabc\r\n0\r\n\r\n",
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

fn names_and_values(table: &mut Table) {
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

fn lines(table: &mut Table) {
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

fn hosts(table: &mut Table) {
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

fn targets(table: &mut Table) {
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

fn methods_and_versions(table: &mut Table) {
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
            ("CONNECT", b"CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n"),
        ],
    );
    table.add(
        "version",
        REFUSED,
        "RFC 9112 2.3: one digit, a dot, one digit, and of those 1.0 and 1.1",
        &[
            ("2.0", b"GET /p HTTP/2.0\r\nHost: a\r\n\r\n"),
            ("1.2", b"GET /p HTTP/1.2\r\nHost: a\r\n\r\n"),
            ("0.9", b"GET /p HTTP/0.9\r\nHost: a\r\n\r\n"),
            ("1.10", b"GET /p HTTP/1.10\r\nHost: a\r\n\r\n"),
            ("01.1", b"GET /p HTTP/01.1\r\nHost: a\r\n\r\n"),
            ("1,1", b"GET /p HTTP/1,1\r\nHost: a\r\n\r\n"),
            ("1", b"GET /p HTTP/1\r\nHost: a\r\n\r\n"),
            ("small letters", b"GET /p http/1.1\r\nHost: a\r\n\r\n"),
            ("another protocol", b"GET /p ICAP/1.0\r\nHost: a\r\n\r\n"),
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

fn connections(table: &mut Table) {
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
