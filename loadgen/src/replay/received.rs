//! The part of a response that has come, whatever the protocol, and whether it is right.

use std::cell::Cell;
use std::io::Write;
use std::rc::Rc;

use flate2::write::GzDecoder;

use crate::content::Content;
use crate::results::Failure;

/// The part of a response that has come. Status, length and, for the origin's paths, every byte of
/// it are checked.
#[derive(Debug)]
pub(crate) struct Received {
    expected_bytes: u64,
    content: Option<Content>,
    /// Status of the final head; 0 before it has come.
    pub(crate) status: u16,
    /// The bytes of the body so far, after decoding.
    pub(crate) bytes: u64,
    decoder: Option<Box<GzDecoder<Vec<u8>>>>,
    progress: Option<Rc<Cell<u64>>>,
    wrong: bool,
}

impl Received {
    /// Expects the body that `path` promises, if it is an origin's, and
    /// `bytes` bytes of it in any case.
    pub(crate) fn new(path: &str, bytes: u64) -> Self {
        Self {
            expected_bytes: bytes,
            content: Content::of_path(path),
            status: 0,
            bytes: 0,
            decoder: None,
            progress: None,
            wrong: false,
        }
    }

    /// Keeps `progress` at the number of bytes so far, for a caller that watches it.
    pub(crate) fn watched(self, progress: Rc<Cell<u64>>) -> Self {
        Self {
            progress: Some(progress),
            ..self
        }
    }

    /// Takes the head's `Content-Encoding`, by which the body is decoded.
    pub(crate) fn encoding(&mut self, content_encoding: &str) {
        match content_encoding.trim() {
            "gzip" => self.decoder = Some(Box::new(GzDecoder::new(Vec::new()))),
            "" | "identity" => {}
            // Something that was not asked for.
            _ => self.wrong = true,
        }
    }

    /// Takes more of the body as it came off the wire, and decodes and checks it.
    pub(crate) fn body(&mut self, bytes: &[u8]) {
        let Some(decoder) = &mut self.decoder else {
            return self.decoded(bytes);
        };
        // Its buffer is emptied each time. What goes in is all taken, or refused.
        let taken = decoder.write_all(bytes).and_then(|()| decoder.flush());
        let decoded = std::mem::take(decoder.get_mut());
        self.wrong |= taken.is_err();
        self.decoded(&decoded);
    }

    /// Checks more of the decoded body. Bodies of other statuses than 200 are not the origin's
    /// content.
    fn decoded(&mut self, bytes: &[u8]) {
        if self.status == 200
            && let Some(content) = &self.content
        {
            self.wrong |= !content.matches(self.bytes, bytes);
        }
        self.bytes += bytes.len() as u64;
        if let Some(progress) = &self.progress {
            progress.set(self.bytes);
        }
    }

    /// Returns whether the body is wrong: in a byte, in its encoding, or longer than expected.
    pub(crate) fn is_wrong(&self) -> bool {
        self.wrong || (self.status == 200 && self.bytes > self.expected_bytes)
    }

    /// Judges a response that has ended.
    ///
    /// # Errors
    /// The way in which the response is wrong.
    pub(crate) fn verdict(&self) -> Result<(), Failure> {
        if self.status != 200 {
            Err(Failure::Status)
        } else if self.bytes < self.expected_bytes {
            Err(Failure::Short)
        } else if self.is_wrong() {
            Err(Failure::Corrupt)
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "/size/100000/a?text=1";

    fn zipped() -> Vec<u8> {
        let content = Content::of_path(PATH).unwrap();
        let mut coder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
        for offset in [0, 65_536] {
            coder.write_all(&content.slice(offset, 65_536)).unwrap();
        }
        coder.finish().unwrap()
    }

    fn verdict(encoding: &str, body: &[u8]) -> Result<(), Failure> {
        let mut received = Received::new(PATH, 100_000);
        received.status = 200;
        received.encoding(encoding);
        for chunk in body.chunks(999) {
            received.body(chunk);
        }
        received.verdict()
    }

    #[test]
    fn a_zipped_body_is_checked_as_it_is_once_unpacked() {
        let whole = zipped();
        assert!(whole.len() < 50_000);
        assert_eq!(verdict("gzip", &whole), Ok(()));
        assert_eq!(verdict("gzip", &whole[..30_000]), Err(Failure::Short));
        let mut broken = whole.clone();
        broken[20_000] ^= 1;
        assert!(verdict("gzip", &broken).is_err());
        // The bytes of another encoding, or of one that was not asked for.
        assert!(verdict("", &whole).is_err());
        assert_eq!(verdict("br", &whole), Err(Failure::Short));
    }
}
