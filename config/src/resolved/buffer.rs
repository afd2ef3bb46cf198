//! Buffers of requests and responses, after every check.

use super::FileAt;

/// The bounds on what the bodies of all routes take together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferTotals {
    /// The most bytes of all bodies in memory.
    pub memory_bytes: usize,
    /// The most bytes of all bodies in files.
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
    /// The bounds on a request's body, which is read before the request takes a place at a backend.
    /// None passes the body on as it comes.
    pub request: Option<BufferedBody>,
    /// The buffering of responses, while their clients take them.
    pub response: ResponseBuffer,
}

/// The buffering of responses.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ResponseBuffer {
    /// The bounds of the cluster's `read_ahead`, if a bound limits the requests in service.
    #[default]
    Auto,
    /// Responses are not kept.
    Off,
    /// Each response is kept within these bounds.
    On(BufferedBody),
}

/// The bounds on what is kept of a body.
#[derive(Clone, Debug, PartialEq)]
pub struct BufferedBody {
    /// The most bytes in memory, at least 1.
    pub memory_bytes: usize,
    /// The file that takes the rest; none passes the rest on as it comes.
    pub file: Option<BufferFile>,
}

/// A temporary file for the part of a body that memory does not take.
#[derive(Clone, Debug, PartialEq)]
pub struct BufferFile {
    /// The directory of the file.
    pub directory: FileAt,
    /// The most bytes of each body in its file, at least 1.
    pub max_bytes: u64,
}
