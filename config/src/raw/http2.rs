//! HTTP/2 as it is written, with clients and with backends.

use crate::containers::Or;
use crate::record::{choices, record};
use crate::resolved::Priorities;
use crate::scalars::{Bytes, Count, Flag};
use crate::words::Auto;

/// Bytes of a flow-control window (RFC 9113 6.9.1).
type Window = Bytes<65_535, 0x7fff_ffff>;

record! {
    /// How HTTP/2 is spoken with clients.
    closed struct Http2 {
        /// Requests in progress on one connection. One over it is refused (`REFUSED_STREAM`).
        default("100") max_concurrent_streams: Count<1, 10_000>,
        /// Flow-control window of one request: bytes of its body that the client may send
        /// before Sprat takes them.
        default("64KB") initial_stream_window_size: Window,
        /// Flow-control window of all requests of a connection together: the bytes of bodies
        /// that one connection may have in memory. `auto` has room for the window of each of
        /// its requests. In a smaller window, the bodies of requests that wait can take all the
        /// room, so that no other request's body comes.
        default("auto") initial_connection_window_size: Or<Auto, Window>,
        /// Which of the priorities that clients ask for order the responses of a connection.
        default("urgency") priorities: Priorities,
        /// Speak only HTTP/2. A connection that does not begin with the preface is closed, and
        /// TLS offers `h2` alone.
        default("false") required: Flag,
    }

    /// How HTTP/2 is spoken with backends.
    closed struct UpstreamHttp2 {
        /// Requests in progress on one connection; for more, Sprat opens another one. Set it no
        /// higher than the backend's own limit, because requests over that limit wait.
        default("100") max_concurrent_streams: Count<1, 10_000>,
        /// Flow-control window of one response: bytes that the backend may send before the
        /// client takes them. A connection has room for that many bytes of each of its
        /// responses.
        default("256KB") initial_stream_window_size: Window,
    }
}

choices! {
    Priorities as "Priorities": "what counts" {
        /// Urgency and incremental (`i`) count (RFC 9218).
        "all" => Self::All,
        /// Urgency counts. Responses of the same urgency are ordered as if none were
        /// incremental.
        "urgency" => Self::Urgency,
        /// Priorities of clients are ignored.
        "none" => Self::None,
    }
}
