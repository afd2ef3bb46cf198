//! The parameters of a replay.

use std::time::Duration;

use sprat_measure::wire::Connection;

use super::target::Target;

/// The parameters of a replay.
#[derive(Clone, Debug)]
pub struct Replay {
    /// The server to ask.
    pub target: Target,
    /// Whether each request has a new connection, or connections are kept.
    pub connection: Connection,
    /// The number of HTTP/2 connections whose streams the requests are; `None` over HTTP/1.1.
    pub http2: Option<u32>,
    /// Further header fields of each request, each with its line end.
    pub fields: String,
    /// The time after which a request fails if its response is not whole.
    pub timeout: Duration,
    /// The most requests open at once; one more fails.
    pub open_max: u32,
    /// The source of the pace of requests.
    pub pace: Pace,
}

/// The source of the pace of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// The arrivals of the trace, or those of its users.
    Trace,
    /// A number of clients, each with one request after the other.
    Closed(u32),
}
