//! Buffers of requests and responses, after every check.

use super::FileAt;

/// The bounds that the bodies of all routes share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferTotals {
    /// Bytes of all bodies in memory.
    pub memory_bytes: usize,
    /// Bytes of all bodies in files.
    pub file_bytes: u64,
}

impl Default for BufferTotals {
    fn default() -> Self {
        Self {
            memory_bytes: 64 << 20,
            file_bytes: 1 << 30,
        }
    }
}

/// The buffering of a route's bodies.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RouteBuffer {
    /// The buffer that takes a request's body before a place at the backend is taken; none passes
    /// the body on as it comes.
    pub request: Option<BufferedBody>,
    /// The buffering of responses, while their clients take them.
    pub response: ResponseBuffer,
}

/// The buffering of responses.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ResponseBuffer {
    /// The bounds of the cluster's `read_ahead`, where places are bounded.
    #[default]
    Auto,
    /// Responses are not kept.
    Off,
    /// So many bytes are kept of each response.
    On(BufferedBody),
}

/// The bounds on what is kept of a body.
#[derive(Clone, Debug, PartialEq)]
pub struct BufferedBody {
    /// Bytes in memory, at least 1.
    pub memory_bytes: usize,
    /// The file that takes the rest; none passes the rest on as it comes.
    pub file: Option<BufferFile>,
}

/// A temporary file for what memory does not take.
#[derive(Clone, Debug, PartialEq)]
pub struct BufferFile {
    /// The directory that it is made in.
    pub directory: FileAt,
    /// Bytes of each body, at least 1.
    pub max_bytes: u64,
}
