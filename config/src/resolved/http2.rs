//! HTTP/2, checked.

/// HTTP/2 with backends.
#[derive(Clone, Debug, PartialEq)]
pub struct UpstreamHttp2 {
    /// Requests in progress on one connection.
    pub max_streams: usize,
    /// Bytes of one response that may come before the client takes them.
    pub stream_window_bytes: u32,
}

/// HTTP/2 with clients.
#[derive(Clone, Debug, PartialEq)]
pub struct Http2 {
    /// Requests in progress on one connection.
    pub max_streams: u32,
    /// Bytes of one request's body that may come before they are wanted.
    pub stream_window_bytes: u32,
    /// The same for all of a connection.
    pub connection_window_bytes: u32,
    /// Nothing else is spoken.
    pub required: bool,
}
