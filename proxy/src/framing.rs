//! Watches request heads for what hyper silently corrects.
//!
//! A request with both `Transfer-Encoding` and `Content-Length` is how
//! requests are smuggled (RFC 9112 6.1). hyper drops the `Content-Length` and
//! goes on; this proxy refuses such a request, so it has to see the field
//! names itself.

const CONTENT_LENGTH: &[u8] = b"content-length";
const TRANSFER_ENCODING: &[u8] = b"transfer-encoding";

/// How much of the line's field name has matched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Line {
    /// The request line, or a field that is neither.
    #[default]
    Other,
    /// At the start of a line; a bare CR may have come.
    Start,
    ContentLength(u8),
    TransferEncoding(u8),
}

/// The state of a watch over one head.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HeadWatch {
    line: Line,
    content_length: bool,
    transfer_encoding: bool,
    ended: bool,
}

impl HeadWatch {
    /// The next bytes from the socket; what follows the head is not looked at.
    pub(crate) fn read(&mut self, mut bytes: &[u8]) {
        while !self.ended && !bytes.is_empty() {
            if self.line == Line::Other {
                let Some(end) = bytes.iter().position(|&byte| byte == b'\n') else {
                    return;
                };
                self.line = Line::Start;
                bytes = &bytes[end + 1..];
            } else {
                self.step(bytes[0]);
                bytes = &bytes[1..];
            }
        }
    }

    fn step(&mut self, byte: u8) {
        let lower = byte.to_ascii_lowercase();
        self.line = match (self.line, lower) {
            (_, b'\n') => {
                self.ended = true;
                Line::Start
            }
            (Line::Start, b'\r') => Line::Start,
            (Line::Start, b'c') => Line::ContentLength(1),
            (Line::Start, b't') => Line::TransferEncoding(1),
            (Line::ContentLength(n), b':') if usize::from(n) == CONTENT_LENGTH.len() => {
                self.content_length = true;
                Line::Other
            }
            (Line::TransferEncoding(n), b':') if usize::from(n) == TRANSFER_ENCODING.len() => {
                self.transfer_encoding = true;
                Line::Other
            }
            (Line::ContentLength(n), _) if CONTENT_LENGTH.get(usize::from(n)) == Some(&lower) => {
                Line::ContentLength(n + 1)
            }
            (Line::TransferEncoding(n), _)
                if TRANSFER_ENCODING.get(usize::from(n)) == Some(&lower) =>
            {
                Line::TransferEncoding(n + 1)
            }
            _ => Line::Other,
        };
    }

    /// Whether the head had both fields.
    pub(crate) fn saw_both_lengths(self) -> bool {
        self.content_length && self.transfer_encoding
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(text: &str, chunk: usize) -> bool {
        let mut watch = HeadWatch::default();
        for bytes in text.as_bytes().chunks(chunk) {
            watch.read(bytes);
        }
        watch.saw_both_lengths()
    }

    #[test]
    fn sees_both_fields_however_the_bytes_arrive() {
        let text = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nX: y\r\n\
                    content-LENGTH: 3\r\n\r\nabc";
        for chunk in [1, 2, 3, 7, 16, 1000] {
            assert!(both(text, chunk), "chunks of {chunk}");
            assert!(
                both(&text.replace("\r\n", "\n"), chunk),
                "chunks of {chunk}"
            );
        }
    }

    #[test]
    fn one_field_or_a_lookalike_is_fine() {
        for text in [
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST /\ncontent-length HTTP/1.1\r\nContent-Length: 3\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Lengthy: 3\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Lengt: 3\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nX-Content-Length: 3\r\n\r\n",
            // In the body.
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n15\r\nContent-Length: 3\r\n",
        ] {
            for chunk in [1, 5, 1000] {
                assert!(!both(text, chunk), "{text:?} in {chunk}");
            }
        }
    }
}
