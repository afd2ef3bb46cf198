//! The bounds of HTTP/2, checked.

/// The bounds of HTTP/2 with backends.
#[derive(Clone, Debug, PartialEq)]
pub struct UpstreamHttp2 {
    /// Requests in progress on one connection.
    pub max_streams: usize,
    /// Bytes of one response that may come before the client takes them.
    pub stream_window_bytes: u32,
}

/// The bounds of HTTP/2 with clients.
#[derive(Clone, Debug, PartialEq)]
pub struct Http2 {
    /// Requests in progress on one connection.
    pub max_streams: u32,
    /// Bytes of one request's body that may come before they are wanted.
    pub stream_window_bytes: u32,
    /// Bytes of the bodies of all of a connection's requests that may come before they are wanted.
    pub connection_window_bytes: u32,
    /// The part of clients' priorities for their responses that counts.
    pub priorities: Priorities,
    /// Whether HTTP/2 is spoken and nothing else.
    pub required: bool,
}

/// The part of a client's priorities (RFC 9218) that counts on its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priorities {
    /// Urgency, and whether a response is incremental.
    All,
    /// The urgency is honoured, `incremental` is not.
    Urgency,
    /// Neither counts: the policy's order is that of each connection, too.
    None,
}
