//! A response as it comes off the wire: framing, length and content, checked
//! byte by byte, without a socket.

use super::received::Received;
use crate::results::Failure;

/// The longest head, or line of trailers, that is read.
const HEAD_BYTES_MAX: usize = 64 * 1024;
const HEADERS_MAX: usize = 256;

/// The longest line that announces a chunk.
const CHUNK_LINE_BYTES_MAX: usize = 1024;

/// A reader of one response, to be fed what the socket gives until it is done.
#[derive(Debug)]
pub(super) struct ResponseReader {
    state: ResponseState,
    /// The head, chunk line or trailers so far.
    partial: Vec<u8>,
    received: Received,
    keep: bool,
    begun: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum ResponseState {
    Head,
    /// A body with a Content-Length, of which so many bytes are left.
    Sized(u64),
    ChunkLine,
    Chunk(u64),
    /// The line end after a chunk.
    ChunkEnd,
    Trailers,
    /// A body with neither length nor chunks, which ends with the connection.
    UntilClose,
    Done,
}

/// The end of a response.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ResponseEnd {
    /// Whether the connection can be used again.
    pub(super) keep: bool,
}

impl ResponseReader {
    /// Makes a reader that reads a response into `received`, which has nothing yet.
    pub(super) fn new(received: Received) -> Self {
        Self {
            state: ResponseState::Head,
            partial: Vec::new(),
            received,
            keep: true,
            begun: false,
        }
    }

    /// Returns the status of the final head; 0 before it has come.
    pub(super) fn status(&self) -> u16 {
        self.received.status
    }

    /// Returns the bytes of the body so far.
    pub(super) fn received(&self) -> u64 {
        self.received.bytes
    }

    /// Returns whether any byte has come.
    pub(super) fn has_begun(&self) -> bool {
        self.begun
    }

    /// Takes bytes that the socket gave; returns `Some` once the response is complete.
    ///
    /// # Errors
    /// `Corrupt` if this is not HTTP, or more than a response; once complete,
    /// what is wrong with it.
    pub(super) fn feed(&mut self, mut input: &[u8]) -> Result<Option<ResponseEnd>, Failure> {
        self.begun |= !input.is_empty();
        while !input.is_empty() {
            input = match self.state {
                ResponseState::Head => self.head(input)?,
                ResponseState::Sized(left) => {
                    let (body, rest) = split(input, left);
                    self.received.body(body);
                    self.state = match left - body.len() as u64 {
                        0 => ResponseState::Done,
                        left => ResponseState::Sized(left),
                    };
                    rest
                }
                ResponseState::Chunk(left) => {
                    let (body, rest) = split(input, left);
                    self.received.body(body);
                    self.state = match left - body.len() as u64 {
                        0 => ResponseState::ChunkEnd,
                        left => ResponseState::Chunk(left),
                    };
                    rest
                }
                ResponseState::ChunkLine | ResponseState::ChunkEnd | ResponseState::Trailers => {
                    self.line(input)?
                }
                ResponseState::UntilClose => {
                    self.received.body(input);
                    &[]
                }
                // Nothing was asked for after this response.
                ResponseState::Done => return Err(Failure::Corrupt),
            };
        }
        if self.state == ResponseState::Done {
            self.verdict().map(Some)
        } else {
            Ok(None)
        }
    }

    /// Notes that the connection was closed, and judges the response.
    pub(super) fn closed(&mut self) -> Result<ResponseEnd, Failure> {
        self.keep = false;
        match self.state {
            ResponseState::UntilClose | ResponseState::Done => self.verdict(),
            ResponseState::Head if !self.begun => Err(Failure::Reset),
            _ => Err(Failure::Short),
        }
    }

    fn verdict(&self) -> Result<ResponseEnd, Failure> {
        self.received.verdict()?;
        Ok(ResponseEnd { keep: self.keep })
    }

    /// Collects the head and, when it is whole, settles the framing. Returns
    /// what comes after it.
    fn head<'a>(&mut self, input: &'a [u8]) -> Result<&'a [u8], Failure> {
        let before = self.partial.len();
        let room = HEAD_BYTES_MAX - before;
        self.partial
            .extend_from_slice(&input[..input.len().min(room)]);
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut head = httparse::Response::new(&mut headers);
        match head.parse(&self.partial) {
            Ok(httparse::Status::Complete(length)) => {
                let status = head.code.unwrap_or(0);
                let framing = Framing::of(&head)?;
                if status >= 200 {
                    self.received.encoding(content_encoding(head.headers));
                }
                self.partial.clear();
                match status {
                    100 | 102..=199 => {} // Interim: the final head follows.
                    200..=599 => {
                        self.received.status = status;
                        self.keep = framing.keep;
                        self.state = framing.state(status);
                    }
                    _ => return Err(Failure::Corrupt),
                }
                Ok(&input[length - before..])
            }
            Ok(httparse::Status::Partial) if self.partial.len() < HEAD_BYTES_MAX => Ok(&[]),
            _ => Err(Failure::Corrupt),
        }
    }

    /// Collects a line of the chunked framing and acts on it. Returns what
    /// comes after it.
    fn line<'a>(&mut self, input: &'a [u8]) -> Result<&'a [u8], Failure> {
        let max = match self.state {
            ResponseState::Trailers => HEAD_BYTES_MAX,
            _ => CHUNK_LINE_BYTES_MAX,
        };
        let end = input.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(input.len(), |end| end + 1);
        if self.partial.len() + taken > max {
            return Err(Failure::Corrupt);
        }
        self.partial.extend_from_slice(&input[..taken]);
        if end.is_some() {
            let line = self.partial.strip_suffix(b"\r\n").ok_or(Failure::Corrupt)?;
            self.state = match self.state {
                ResponseState::ChunkLine => match chunk_bytes(line)? {
                    0 => ResponseState::Trailers,
                    bytes => ResponseState::Chunk(bytes),
                },
                ResponseState::ChunkEnd if line.is_empty() => ResponseState::ChunkLine,
                ResponseState::Trailers if line.is_empty() => ResponseState::Done,
                ResponseState::Trailers => ResponseState::Trailers,
                _ => return Err(Failure::Corrupt),
            };
            self.partial.clear();
        }
        Ok(&input[taken..])
    }
}

/// Splits off at most `left` bytes, and returns them and the rest.
fn split(input: &[u8], left: u64) -> (&[u8], &[u8]) {
    input.split_at(usize::try_from(left).map_or(input.len(), |left| left.min(input.len())))
}

/// Parses the size that a chunk line announces, without its extensions.
fn chunk_bytes(line: &[u8]) -> Result<u64, Failure> {
    let digits = line.split(|byte| *byte == b';').next().unwrap_or(line);
    std::str::from_utf8(digits.trim_ascii_end())
        .ok()
        .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
        .and_then(|digits| u64::from_str_radix(digits, 16).ok())
        .ok_or(Failure::Corrupt)
}

/// Returns the value of a head's `Content-Encoding`; empty if there is none.
fn content_encoding<'a>(headers: &[httparse::Header<'a>]) -> &'a str {
    headers
        .iter()
        .find(|header| header.name.eq_ignore_ascii_case("content-encoding"))
        .map_or("", |header| {
            std::str::from_utf8(header.value).unwrap_or("?")
        })
}

/// The facts that a head states about its body and connection.
struct Framing {
    length: Option<u64>,
    chunked: bool,
    keep: bool,
}

impl Framing {
    fn of(head: &httparse::Response<'_, '_>) -> Result<Self, Failure> {
        let mut framing = Self {
            length: None,
            chunked: false,
            keep: head.version == Some(1),
        };
        for header in head.headers.iter() {
            let value = std::str::from_utf8(header.value).unwrap_or("").trim();
            if header.name.eq_ignore_ascii_case("content-length") {
                let length = value.parse().map_err(|_| Failure::Corrupt)?;
                if framing.length.is_some_and(|other| other != length) {
                    return Err(Failure::Corrupt);
                }
                framing.length = Some(length);
            } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
                if !value.eq_ignore_ascii_case("chunked") || framing.chunked {
                    return Err(Failure::Corrupt);
                }
                framing.chunked = true;
            } else if header.name.eq_ignore_ascii_case("connection") {
                let mut options = value.split(',').map(str::trim);
                framing.keep &= !options.any(|option| option.eq_ignore_ascii_case("close"));
            }
        }
        if framing.chunked && framing.length.is_some() {
            return Err(Failure::Corrupt);
        }
        Ok(framing)
    }

    fn state(&self, status: u16) -> ResponseState {
        match self.length {
            _ if matches!(status, 204 | 304) => ResponseState::Done,
            _ if self.chunked => ResponseState::ChunkLine,
            Some(0) => ResponseState::Done,
            Some(length) => ResponseState::Sized(length),
            None => ResponseState::UntilClose,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::content::Content;

    const PATH: &str = "/size/10/a";

    fn content(bytes: u64) -> Vec<u8> {
        Content::of_path(&format!("/size/{bytes}/a"))
            .unwrap()
            .slice(0, bytes as usize)
            .to_vec()
    }

    fn message(head: &str, body: &[u8]) -> Vec<u8> {
        [head.as_bytes(), b"\r\n\r\n", body].concat()
    }

    /// Feeds the message in pieces of `piece` bytes, then closes.
    fn read(message: &[u8], piece: usize) -> Result<ResponseEnd, Failure> {
        let mut reader = ResponseReader::new(Received::new(PATH, 10));
        let mut end = None;
        for part in message.chunks(piece) {
            end = reader.feed(part)?;
        }
        end.map_or_else(|| reader.closed(), Ok)
    }

    fn chunked() -> Vec<u8> {
        let body = content(10);
        [
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\n",
            &body[..3],
            b"\r\n7 \r\n",
            &body[3..],
            b"\r\n0\r\nA: b\r\n\r\n",
        ]
        .concat()
    }

    #[test]
    fn each_framing_is_read_in_pieces_of_any_size() {
        let body = content(10);
        let sized = message("HTTP/1.1 200 OK\r\nContent-Length: 10", &body);
        let interim = message(
            "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 10\r\nConnection: x, Close",
            &body,
        );
        let until_close = message("HTTP/1.1 200 OK", &body);
        for piece in 1..200 {
            assert_eq!(read(&sized, piece), Ok(ResponseEnd { keep: true }));
            assert_eq!(read(&chunked(), piece), Ok(ResponseEnd { keep: true }));
            assert_eq!(read(&interim, piece), Ok(ResponseEnd { keep: false }));
            assert_eq!(read(&until_close, piece), Ok(ResponseEnd { keep: false }));
        }
    }

    #[test]
    fn what_is_wrong_is_told() {
        let body = content(10);
        let cases: [(&str, &[u8], Failure); 17] = [
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 10",
                &body[..9],
                Failure::Short,
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 9",
                &body[..9],
                Failure::Short,
            ),
            ("HTTP/1.1 200 OK", &body[..9], Failure::Short),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 10",
                b"0123456789",
                Failure::Corrupt,
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 10",
                &content(11),
                Failure::Corrupt,
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 10, 10",
                &body,
                Failure::Corrupt,
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 10\r\nContent-Length: 9",
                &body,
                Failure::Corrupt,
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 10\r\nTransfer-Encoding: chunked",
                &body,
                Failure::Corrupt,
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip",
                &body,
                Failure::Corrupt,
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked",
                b"g\r\n",
                Failure::Corrupt,
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked",
                b"1\r\nxyz\r\n",
                Failure::Corrupt,
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked",
                b"1\n",
                Failure::Corrupt,
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked",
                b"0\r\n\r\n",
                Failure::Short,
            ),
            (
                "HTTP/1.1 503 No\r\nContent-Length: 10",
                &body,
                Failure::Status,
            ),
            ("HTTP/1.1 304 Not Modified", b"", Failure::Status),
            ("HTTP/1.1 101 Switching", b"", Failure::Corrupt),
            ("GARBAGE", b"", Failure::Corrupt),
        ];
        for (head, body, failure) in cases {
            assert_eq!(read(&message(head, body), 4096), Err(failure), "{head}");
        }
        assert_eq!(read(b"", 1), Err(Failure::Reset));
        assert_eq!(read(b"HTTP/1.1 2", 100), Err(Failure::Short));
        let flood = format!("HTTP/1.1 200 OK\r\n{}", "a: b\r\n".repeat(20_000));
        assert_eq!(read(flood.as_bytes(), 4096), Err(Failure::Corrupt));
        let line = format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;{}",
            "x".repeat(2000)
        );
        assert_eq!(read(line.as_bytes(), 100), Err(Failure::Corrupt));
    }

    #[test]
    fn a_response_to_something_else_is_only_measured() {
        let mut reader = ResponseReader::new(Received::new("/logo.gif", 4));
        let end = reader.feed(b"HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\nabcd");
        assert_eq!(end, Ok(Some(ResponseEnd { keep: false })));
        assert_eq!((reader.status(), reader.received()), (200, 4));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..400), piece in 1usize..50) {
            let _ = read(&bytes, piece);
            let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
            let _ = read(&[&head[..], &bytes].concat(), piece);
        }

        #[test]
        fn a_flipped_byte_of_the_body_is_seen(at in 0usize..10, bit in 0u8..8) {
            let mut body = content(10);
            body[at] ^= 1 << bit;
            let sized = message("HTTP/1.1 200 OK\r\nContent-Length: 10", &body);
            prop_assert_eq!(read(&sized, 7), Err(Failure::Corrupt));
        }
    }
}
