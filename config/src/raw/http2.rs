//! HTTP/2 as it is written, with clients and with backends.

use crate::record::{choices, record};
use crate::resolved::Priorities;
use crate::scalars::{Bytes, Count, Flag};

/// Bytes of a flow-control window (RFC 9113 6.9.1).
type Window = Bytes<65_535, 0x7fff_ffff>;

record! {
    /// How HTTP/2 is spoken with clients.
    closed struct Http2 {
        /// Requests in progress on one connection.
        default("100") max_concurrent_streams: Count<1, 10_000>,
        /// Bytes of one request's body that may come before they are wanted.
        default("64KB") initial_stream_window_size: Window,
        /// The same for all requests of a connection together: what one
        /// connection may have in memory.
        default("1MB") initial_connection_window_size: Window,
        /// What counts of what clients say of their responses' priorities.
        default("urgency") priorities: Priorities,
        /// Speak nothing else: what does not begin with the preface is not
        /// taken for HTTP/1.1, and TLS offers `h2` alone.
        default("false") required: Flag,
    }

    /// How HTTP/2 is spoken with backends.
    closed struct UpstreamHttp2 {
        /// Requests in progress on one connection; for more, another one is
        /// opened. Not more than the backend allows: what is over that waits.
        default("100") max_concurrent_streams: Count<1, 10_000>,
        /// Bytes of one response that may come before the client takes them;
        /// a connection has room for that many of each.
        default("256KB") initial_stream_window_size: Window,
    }
}

choices! {
    Priorities as "Priorities": "what counts" {
        /// Urgency and `i` (RFC 9218).
        "all" => Self::All,
        /// Urgency; those of the same are ordered as if none were incremental.
        "urgency" => Self::Urgency,
        /// Priorities of clients are ignored.
        "none" => Self::None,
    }
}
