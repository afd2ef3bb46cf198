//! Buffers of requests and responses, after every check.

use super::FileAt;

/// What the bodies of all routes may take together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferTotals {
    /// How many bytes are in memory.
    pub memory_bytes: usize,
    /// How many bytes are in files.
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

/// What a route keeps of bodies.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RouteBuffer {
    /// What is kept of requests, before a place at the backend is taken; none passes them on as they
    /// come.
    pub request: Option<BufferedBody>,
    /// What is kept of responses, while their clients take them.
    pub response: ResponseBuffer,
}

/// What is kept of responses.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ResponseBuffer {
    /// As much as the cluster's `read_ahead` says, where places are bounded.
    #[default]
    Auto,
    /// Nothing is kept of them.
    Off,
    /// So much is kept of each.
    On(BufferedBody),
}

/// How much is kept of a body.
#[derive(Clone, Debug, PartialEq)]
pub struct BufferedBody {
    /// Bytes in memory, at least 1.
    pub memory_bytes: usize,
    /// Where the rest goes; none passes it on as it comes.
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
