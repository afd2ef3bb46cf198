//! What has come of a response, whatever the protocol, and whether it is right.

use crate::content::Content;
use crate::results::Failure;

/// Checks status, length and, for the origin's paths, every byte.
#[derive(Debug)]
pub(crate) struct Received {
    expected_bytes: u64,
    content: Option<Content>,
    /// Status of the final head; 0 before it has come.
    pub(crate) status: u16,
    /// Bytes of the body so far.
    pub(crate) bytes: u64,
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
            wrong: false,
        }
    }

    /// More of the body has come. Bodies of other statuses than 200 are not
    /// the origin's content.
    pub(crate) fn body(&mut self, bytes: &[u8]) {
        if self.status == 200
            && let Some(content) = &self.content
        {
            self.wrong |= !content.matches(self.bytes, bytes);
        }
        self.bytes += bytes.len() as u64;
    }

    /// Whether a byte of the body was another than it had to be.
    pub(crate) fn is_wrong(&self) -> bool {
        self.wrong || (self.status == 200 && self.bytes > self.expected_bytes)
    }

    /// The judgement of a response that has ended.
    ///
    /// # Errors
    /// What is wrong with it.
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
