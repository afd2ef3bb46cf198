//! A watch over incoming requests for faults that hyper silently corrects.
//!
//! hyper takes a request with both `Transfer-Encoding` and `Content-Length` and drops the
//! latter, takes a line that ends in a bare LF (in a head, and in trailers), drops a target's
//! fragment, and passes over whatever follows a chunk's size. Other servers read such messages
//! in another way, which is how requests are smuggled (RFC 9112 11.2): this proxy refuses them.
//! The watch therefore sees the bytes itself, and knows where each head begins, also behind a
//! body.

// The paths are for the fuzz target, which takes this file by its own.
#[path = "framing/chunk_line.rs"]
mod chunk_line;
#[path = "framing/version.rs"]
mod version;

use std::collections::VecDeque;

use memchr::{memchr, memchr_iter};

use self::chunk_line::ChunkLine;
use self::version::VersionWatch;

/// The most heads that have been read and not yet been asked for: hyper's buffer holds no more
/// heads than that.
const HEADS_MAX: usize = 64 * 1024;

/// The most bytes that are kept of a field's name or value. No name that is looked for is
/// longer, nor a valid length.
const KEPT_MAX: usize = 32;

/// The most bytes of a request line that are kept for the log.
const LINE_KEPT_MAX: usize = 256;

/// The error that hyper gets in the place of a body's rest, so that it does not read on.
const BARE_LINE_FEED: &str = "a line of the trailers ends in a bare LF";
const BAD_CHUNK: &str = "a chunk's line is not what RFC 9112 7.1.1 has";

/// Faults of a head that hyper would take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slips {
    /// Whether the head has both `Transfer-Encoding` and `Content-Length`.
    pub both_lengths: bool,
    /// Whether a line of the head, or of trailers that came with it, ends in a bare LF.
    pub bare_line_feed: bool,
    /// Whether the target has a fragment, which RFC 9112 3.2 does not allow.
    pub fragment: bool,
    /// Whether a chunk's line is malformed, in a body that came with the head.
    pub bad_chunk: bool,
    /// Whether the major version is not 1.
    pub other_version: bool,
    /// Whether the request line has three slashes, which is no fault. A target in absolute form
    /// has no path then, which the URI library makes `/`.
    pub three_slashes: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum MessagePlace {
    /// The place before a request; empty lines are passed over (RFC 9112 2.2).
    #[default]
    Between,
    RequestLine,
    /// The name of a field.
    Name,
    Value(FramingField),
    /// A body of known length, or a chunk and its line end.
    Data {
        left: u64,
        chunked: bool,
    },
    /// The line before a chunk, and the size as read so far.
    ChunkSize {
        size: u64,
        line: ChunkLine,
    },
    /// The trailer fields. `empty` says that the present line has no byte so far.
    Trailer {
        empty: bool,
    },
}

/// The beginning of a chunk's line.
const CHUNK: MessagePlace = MessagePlace::ChunkSize {
    size: 0,
    line: ChunkLine::Size,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FramingField {
    ContentLength,
    TransferEncoding,
    Other,
}

/// The watch over one connection's requests.
#[derive(Clone, Debug, Default)]
pub struct RequestWatch {
    place: MessagePlace,
    /// Whether the byte before was a CR.
    after_cr: bool,
    /// A field's name or value so far, in lower case.
    kept: Vec<u8>,
    version: VersionWatch,
    /// The number of slashes in the request line so far.
    slashes: usize,
    /// The beginning of the request line whose head is to be asked for next.
    line: Vec<u8>,
    slips: Slips,
    length: Option<u64>,
    codings: bool,
    heads: VecDeque<Slips>,
    /// The fault of a body that must not be read on, and whose head has been asked for already.
    broken: Option<&'static str>,
}

impl RequestWatch {
    /// Reads the next bytes from the socket. A minor version later than 1.1 is overwritten with
    /// 1.1.
    pub fn read(&mut self, mut bytes: &mut [u8]) {
        while !bytes.is_empty() {
            let used = match self.place {
                MessagePlace::Data { left, chunked } => self.data(left, chunked, bytes.len()),
                MessagePlace::RequestLine | MessagePlace::Value(FramingField::Other) => {
                    self.rest_of_line(bytes)
                }
                _ => {
                    self.step(bytes[0]);
                    1
                }
            };
            bytes = &mut bytes[used..];
        }
    }

    /// Ends the watch: the bytes that come from now on are no requests.
    pub fn stop(&mut self) {
        self.place = MessagePlace::Data {
            left: u64::MAX,
            chunked: false,
        };
    }

    /// Takes the slips of the next head that was read.
    pub fn next_head(&mut self) -> Slips {
        self.line.clear();
        self.heads.pop_front().unwrap_or_default()
    }

    /// Returns the fault of the body that is being read, if it has one that hyper would accept
    /// and other servers read in another way.
    pub fn broken(&self) -> Option<&'static str> {
        self.broken
    }

    /// Returns the beginning of the request line that became no head. It is empty if there is
    /// none, or if the line came behind another request.
    pub fn unread_line(&self) -> &[u8] {
        self.line.strip_suffix(b"\r").unwrap_or(&self.line)
    }

    /// Returns whether the watch stands within a request's head.
    pub fn in_head(&self) -> bool {
        matches!(
            self.place,
            MessagePlace::RequestLine | MessagePlace::Name | MessagePlace::Value(_)
        )
    }

    /// Returns whether a head was read and not yet asked for.
    pub fn has_head(&self) -> bool {
        !self.heads.is_empty()
    }

    /// Returns whether the bytes read so far are whole requests.
    pub fn is_between(&self) -> bool {
        self.place == MessagePlace::Between
    }

    fn data(&mut self, left: u64, chunked: bool, available: usize) -> usize {
        let used = left.min(available as u64);
        let left = left - used;
        self.place = match (left, chunked) {
            (0, true) => CHUNK,
            (0, false) => MessagePlace::Between,
            _ => MessagePlace::Data { left, chunked },
        };
        used as usize
    }

    /// Reads on to the line's end, where not every byte counts; returns how many bytes were
    /// read.
    fn rest_of_line(&mut self, bytes: &mut [u8]) -> usize {
        let end = memchr(b'\n', bytes);
        let length = end.unwrap_or(bytes.len());
        let line = &mut bytes[..length];
        if self.place == MessagePlace::RequestLine {
            self.request_line(line);
        }
        if let Some(&last) = line.last() {
            self.after_cr = last == b'\r';
        }
        if end.is_some() {
            self.line_end();
            self.place = MessagePlace::Name;
            self.kept.clear();
        }
        line.len() + usize::from(end.is_some())
    }

    fn request_line(&mut self, line: &mut [u8]) {
        if self.heads.is_empty() {
            let room = LINE_KEPT_MAX.saturating_sub(self.line.len());
            self.line.extend_from_slice(&line[..line.len().min(room)]);
        }
        if line.contains(&b'#') {
            self.slips.fragment = true;
        }
        self.slashes += memchr_iter(b'/', line).count();
        self.slips.three_slashes = self.slashes == 3;
        if self.version.correct(line) {
            self.slips.other_version = true;
        }
    }

    /// Ends a line at its LF, and notes if the CR is missing.
    fn line_end(&mut self) {
        if !std::mem::take(&mut self.after_cr) {
            self.slips.bare_line_feed = true;
        }
    }

    fn step(&mut self, byte: u8) {
        match self.place {
            MessagePlace::Between if byte == b'\r' || byte == b'\n' => {}
            MessagePlace::Between => {
                self.place = MessagePlace::RequestLine;
                self.slips.fragment = byte == b'#';
                self.after_cr = false;
                self.version = VersionWatch::begin(byte);
                self.slashes = usize::from(byte == b'/');
                if self.heads.is_empty() {
                    self.line.clear();
                    self.line.push(byte);
                }
            }
            MessagePlace::Name => self.name(byte),
            MessagePlace::Value(field) => self.value(field, byte),
            MessagePlace::ChunkSize { size, line } => self.chunk_line(size, line, byte),
            MessagePlace::Trailer { empty } => self.trailer(empty, byte),
            MessagePlace::RequestLine | MessagePlace::Data { .. } => {}
        }
    }

    fn name(&mut self, byte: u8) {
        match byte {
            b'\n' => {
                self.line_end();
                match self.kept.is_empty() {
                    true => self.head_end(),
                    // No colon: hyper refuses it.
                    false => self.kept.clear(),
                }
            }
            b':' => {
                let field = match self.kept.as_slice() {
                    b"content-length" => FramingField::ContentLength,
                    b"transfer-encoding" => FramingField::TransferEncoding,
                    _ => FramingField::Other,
                };
                self.kept.clear();
                self.after_cr = false;
                self.place = MessagePlace::Value(field);
            }
            b'\r' => self.after_cr = true,
            // Of no interest: the whole line is passed over.
            _ if self.kept.is_empty() && !matches!(byte | 0x20, b'c' | b't') => {
                self.after_cr = false;
                self.place = MessagePlace::Value(FramingField::Other);
            }
            _ => self.keep(byte),
        }
    }

    fn value(&mut self, field: FramingField, byte: u8) {
        match byte {
            b'\n' => {
                self.line_end();
                match field {
                    FramingField::ContentLength => {
                        let text = std::str::from_utf8(&self.kept).unwrap_or_default();
                        self.length = Some(text.trim().parse().unwrap_or(0));
                    }
                    FramingField::TransferEncoding => self.codings = true,
                    FramingField::Other => {}
                }
                self.kept.clear();
                self.place = MessagePlace::Name;
            }
            b'\r' => self.after_cr = true,
            // Neither is part of it; there may be many.
            b' ' | b'\t' if self.kept.is_empty() => self.after_cr = false,
            b'0' if field == FramingField::ContentLength && self.kept.is_empty() => {
                self.after_cr = false;
            }
            _ => self.keep(byte),
        }
    }

    /// Keeps a byte of a name or value, in lower case, up to [`KEPT_MAX`]. A value with more is
    /// refused, and a name with more is of no interest.
    fn keep(&mut self, byte: u8) {
        self.after_cr = false;
        if self.kept.len() < KEPT_MAX {
            self.kept.push(byte.to_ascii_lowercase());
        }
    }

    fn head_end(&mut self) {
        let mut slips = std::mem::take(&mut self.slips);
        let length = self.length.take();
        let codings = std::mem::take(&mut self.codings);
        slips.both_lengths = codings && length.is_some();
        if self.heads.len() < HEADS_MAX {
            self.heads.push_back(slips);
        }
        self.place = match (codings, length.unwrap_or(0)) {
            // What is not chunked in the end is refused by hyper, whatever comes before.
            (true, _) => CHUNK,
            (false, 0) => MessagePlace::Between,
            (false, left) => MessagePlace::Data {
                left,
                chunked: false,
            },
        };
    }

    /// Reads a byte of the trailers. hyper takes a bare LF for a part of the line, and may so
    /// read the next request for trailers.
    fn trailer(&mut self, empty: bool, byte: u8) {
        if byte == b'\n' && !self.after_cr {
            match self.heads.back_mut() {
                Some(head) => head.bare_line_feed = true,
                None => self.broken = Some(BARE_LINE_FEED),
            }
        }
        self.after_cr = byte == b'\r';
        self.place = match (byte, empty) {
            (b'\n', true) => MessagePlace::Between,
            (b'\n', false) => MessagePlace::Trailer { empty: true },
            (b'\r', _) => MessagePlace::Trailer { empty },
            _ => MessagePlace::Trailer { empty: false },
        };
    }

    fn chunk_line(&mut self, size: u64, line: ChunkLine, byte: u8) {
        let next = line.read(byte);
        // hyper refuses a bare LF here, and what is no size.
        if next.is_none() && byte != b'\n' && line != ChunkLine::Size {
            match self.heads.back_mut() {
                Some(head) => head.bad_chunk = true,
                None => self.broken = Some(BAD_CHUNK),
            }
        }
        let digit = char::from(byte).to_digit(16);
        let digit = digit.filter(|_| line == ChunkLine::Size);
        self.place = match (byte, digit) {
            (b'\n', _) if size == 0 => {
                self.after_cr = false;
                MessagePlace::Trailer { empty: true }
            }
            (b'\n', _) => MessagePlace::Data {
                left: size.saturating_add(2),
                chunked: true,
            },
            (_, Some(digit)) => MessagePlace::ChunkSize {
                size: size.saturating_mul(16).saturating_add(u64::from(digit)),
                line,
            },
            // After what is none, no digit is one of the size's.
            _ => MessagePlace::ChunkSize {
                size,
                line: next.unwrap_or(ChunkLine::Name),
            },
        };
    }
}

#[cfg(test)]
mod oracle;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the slips of each head, the bytes having come in parts of `part`.
    fn slips(text: &str, part: usize) -> Vec<Slips> {
        let mut watch = RequestWatch::default();
        for bytes in text.as_bytes().to_vec().chunks_mut(part) {
            watch.read(bytes);
        }
        assert!(!watch.in_head(), "{text:?}");
        watch.heads.into()
    }

    const FINE: Slips = Slips {
        both_lengths: false,
        bare_line_feed: false,
        fragment: false,
        bad_chunk: false,
        other_version: false,
        three_slashes: false,
    };
    const BOTH: Slips = Slips {
        both_lengths: true,
        ..FINE
    };
    const LINE_FEED: Slips = Slips {
        bare_line_feed: true,
        ..FINE
    };
    const FRAGMENT: Slips = Slips {
        fragment: true,
        ..FINE
    };

    fn assert_slips(text: &str, expected: &[Slips]) {
        for part in [1, 2, 3, 7, 16, 10_000] {
            assert_eq!(slips(text, part), expected, "{text:?} in parts of {part}");
        }
    }

    #[test]
    fn both_lengths_are_seen() {
        let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nX: y\r\n\
                    content-LENGTH: 3\r\n\r\n";
        assert_slips(&format!("{head}0\r\n\r\n"), &[BOTH]);
        assert_slips(&format!("\r\n\r\n{head}3\r\nabc\r\n0\r\n\r\n"), &[BOTH]);
    }

    #[test]
    fn a_bare_line_feed_and_a_fragment_are_seen() {
        assert_slips("GET / HTTP/1.1\r\nHost: a\r\n\r\n", &[FINE]);
        assert_slips("GET / HTTP/1.1\nHost: a\r\n\r\n", &[LINE_FEED]);
        assert_slips("GET / HTTP/1.1\r\nHost: a\n\r\n", &[LINE_FEED]);
        assert_slips("GET / HTTP/1.1\r\nHost: a\r\n\n", &[LINE_FEED]);
        assert_slips("GET / HTTP/1.1\r\nContent-Length: 0\n\r\n", &[LINE_FEED]);
        assert_slips("GET /#a HTTP/1.1\r\nHost: a\r\n\r\n", &[FRAGMENT]);
        assert_slips("GET / HTTP/1.1\r\nHost: a#b\r\n\r\n", &[FINE]);
    }

    #[test]
    fn a_bare_line_feed_in_trailers_is_seen_wherever_its_head_is() {
        let head = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
        let before = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        for end in [
            "0\r\nX: y\n\r\n",
            "0\r\nX: y\r\n\n",
            "0\r\n\n",
            "1\r\na\r\n0\r\n\n",
        ] {
            let text = format!("{before}{head}{end}");
            assert_slips(&text, &[FINE, LINE_FEED]);
            let mut watch = RequestWatch::default();
            watch.read(&mut head.as_bytes().to_vec());
            assert_eq!(watch.next_head(), FINE);
            assert_eq!(watch.broken(), None);
            end.bytes().for_each(|byte| watch.read(&mut [byte]));
            assert_eq!(watch.broken(), Some(BARE_LINE_FEED), "{end:?}");
        }
    }

    #[test]
    fn a_bad_chunk_line_is_seen_wherever_its_head_is() {
        const BAD: Slips = Slips {
            bad_chunk: true,
            ..FINE
        };
        let head = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
        for line in ["3;", "3 ", "3;\0a", "3;a=\"\x01\"", "3;a b"] {
            let body = format!("{line}\r\nabc\r\n0\r\n\r\n");
            assert_slips(&format!("{head}{body}"), &[BAD]);
            let mut watch = RequestWatch::default();
            watch.read(&mut head.as_bytes().to_vec());
            assert_eq!(watch.next_head(), FINE);
            watch.read(&mut body.into_bytes());
            assert_eq!(watch.broken(), Some(BAD_CHUNK), "{line:?}");
        }
        assert_slips(&format!("{head}3 ;a=b\r\nabc\r\n0;c\r\n\r\n"), &[FINE]);
    }

    #[test]
    fn an_absolute_target_without_a_path_is_told_from_one_with_a_path() {
        const BARE: Slips = Slips {
            three_slashes: true,
            ..FINE
        };
        let bare = "OPTIONS http://a HTTP/1.1\r\nHost: a/b/c\r\n\r\n";
        let root = "OPTIONS http://a/ HTTP/1.1\r\nHost: a\r\n\r\n";
        assert_slips(&format!("{bare}{root}{bare}"), &[BARE, FINE, BARE]);
    }

    #[test]
    fn another_major_version_is_seen() {
        const OTHER: Slips = Slips {
            other_version: true,
            ..FINE
        };
        assert_slips("GET / HTTP/1.7\r\nHost: a\r\n\r\n", &[FINE]);
        assert_slips("GET / HTTP/2.0\r\nHost: a\r\n\r\n", &[OTHER]);
        let both = "GET / HTTP/3.0\r\n\r\nGET / HTTP/1.0\r\n\r\n";
        assert_slips(both, &[OTHER, FINE]);
    }

    #[test]
    fn the_line_of_a_head_that_was_not_asked_for_is_kept() {
        let line = format!("GET /{} HTTP/1.7", "a".repeat(300));
        for part in [1, 7, 10_000] {
            let mut watch = RequestWatch::default();
            assert_eq!(watch.unread_line(), b"");
            let text = format!("\r\n{line}\r\nHost");
            for bytes in text.into_bytes().chunks_mut(part) {
                watch.read(bytes);
            }
            assert_eq!(watch.unread_line(), &line.as_bytes()[..LINE_KEPT_MAX]);
            watch.read(&mut b": a\r\n\r\nBAD\r\n".to_vec());
            watch.next_head();
            // It came behind another one.
            assert_eq!(watch.unread_line(), b"");
        }
        let mut watch = RequestWatch::default();
        watch.read(&mut b"GET / HTTP/1.7\r\n".to_vec());
        assert_eq!(watch.unread_line(), b"GET / HTTP/1.7");
    }

    #[test]
    fn lengths_are_read_however_they_are_padded() {
        let bad = "GET /#a HTTP/1.1\r\nHost: a\r\n\r\n";
        let (zeros, blanks) = ("0".repeat(40), " \t".repeat(40));
        for field in [
            format!("Content-Length: {zeros}{}", bad.len()),
            format!("Content-Length:{blanks}{}{blanks}", bad.len()),
        ] {
            let text = format!("POST / HTTP/1.1\r\n{field}\r\n\r\n{bad}{bad}");
            assert_slips(&text, &[FINE, FRAGMENT]);
        }
        let head = format!("POST / HTTP/1.1\r\nTransfer-Encoding:{blanks}chunked\r\n\r\n");
        let text = format!("{head}{:x}\r\n{bad}\r\n0\r\n\r\n{bad}", bad.len());
        assert_slips(&text, &[FINE, FRAGMENT]);
        // However many codings there are before, hyper goes by the last.
        let codings = "gzip, ".repeat(20);
        let head = format!("POST / HTTP/1.1\r\nTransfer-Encoding: {codings}chunked\r\n\r\n");
        let text = format!("{head}{:x}\r\n{bad}\r\n0\r\n\r\n{bad}", bad.len());
        assert_slips(&text, &[FINE, FRAGMENT]);
        let both = format!("POST / HTTP/1.1\r\nContent-Length: {zeros}\r\n");
        let text = format!("{both}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
        assert_slips(&text, &[BOTH]);
    }

    #[test]
    fn one_length_or_a_lookalike_is_fine() {
        for fields in [
            "Transfer-Encoding: chunked\r\nContent-Lengthy: 3\r\n\r\n0\r\n\r\n",
            "Transfer-Encoding: chunked\r\nX-Content-Length: 3\r\n\r\n0\r\n\r\n",
            "X: Content-Length: 3\r\n\r\n",
            // In the body.
            "Transfer-Encoding: chunked\r\n\r\n15\r\nContent-Length: 3\r\n\r\n\r\n0\r\n\r\n",
        ] {
            assert_slips(&format!("POST / HTTP/1.1\r\n{fields}"), &[FINE]);
        }
    }

    #[test]
    fn heads_behind_bodies_are_found() {
        let bad = "GET /#a HTTP/1.1\r\nHost: a\r\n\r\n";
        for body in [
            "Content-Length: 7\r\n\r\na\n\n#\r\n\r",
            "Transfer-Encoding: chunked\r\n\r\n3;x=y\r\n\r\n#\r\n0A\r\n0123456789\r\n0\r\n\r\n",
            "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX: y\r\nZ: \r\n\r\n",
            "X: y\r\n\r\n",
        ] {
            let text = format!("POST / HTTP/1.1\r\n{body}{bad}\r\n{bad}");
            assert_slips(&text, &[FINE, FRAGMENT, FRAGMENT]);
        }
    }

    #[test]
    fn a_strict_parser_has_seen_the_same_in_the_fuzzers_corpus() {
        crate::corpus::each("request_heads", oracle::run);
    }

    fn line() -> impl Strategy<Value = String> {
        const FIELDS: &[&str] = &["Content-Length: 3", "transfer-encoding:chunked", "X: #"];
        prop_oneof![
            "[ -~]{0,20}",
            prop::sample::select(FIELDS).prop_map(str::to_owned)
        ]
    }

    proptest! {
        #[test]
        fn a_strict_parser_has_seen_the_same(
            part: u8,
            lines in prop::collection::vec(line(), 0..6),
        ) {
            let text = format!("POST /a HTTP/1.1\r\n{}\r\n\r\n", lines.join("\r\n"));
            oracle::run(&[&[part], text.as_bytes()].concat());
        }
    }
}
