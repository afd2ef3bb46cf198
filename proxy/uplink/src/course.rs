//! The stream that a response goes out on, as the uplink sees it.

use http::HeaderMap;
use sprat_scheduler::Precedence;

use super::flush::FlushGate;

/// The stream that a response goes out on, as the uplink sees it.
pub trait Course: Clone {
    /// Returns whether the stream is one of several on its connection, in frames.
    fn is_http2(&self) -> bool;
    /// Returns the precedence that the client gives the response (RFC 9218), if that counts.
    fn precedence(&self, response: &HeaderMap) -> Option<Precedence>;
    /// Returns the gate that opens once the stream's frames are in the socket; `None` if its
    /// connection's gate does.
    fn gate(&self) -> Option<&FlushGate>;
    /// Notes that the endpoint has something to send.
    fn upstream_sent(&self);
    /// Notes that the endpoint is waited for.
    fn upstream_silent(&self);
}
