//! The bounds of HTTP/2 with clients and with backends, after every check.

/// The bounds of HTTP/2 with backends.
#[derive(Clone, Debug, PartialEq)]
pub struct UpstreamHttp2 {
    /// The most requests in progress on one connection.
    pub max_streams: usize,
    /// The most bytes of one response that a backend may send before the client takes them.
    pub stream_window_bytes: u32,
}

/// The bounds of HTTP/2 with clients.
#[derive(Clone, Debug, PartialEq)]
pub struct Http2 {
    /// The most requests in progress on one connection.
    pub max_streams: u32,
    /// The most bytes of one request's body that a client may send before Sprat takes them.
    pub stream_window_bytes: u32,
    /// The most bytes of the bodies of all of a connection's requests that a client may send before
    /// Sprat takes them.
    pub connection_window_bytes: u32,
    /// The part of clients' priorities that counts for the order of their responses.
    pub priorities: Priorities,
    /// Whether connections speak HTTP/2 alone.
    pub required: bool,
}

/// The part of a client's priorities (RFC 9218) that counts on its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priorities {
    /// The urgency counts, and whether a response is incremental.
    All,
    /// The urgency counts, `incremental` does not.
    Urgency,
    /// Neither counts: the policy's order also holds on each connection.
    None,
}
