//! The parameters of a replay.

use std::time::Duration;

use sprat_measure::wire::Connection;

use super::target::Target;

/// The parameters of a replay.
#[derive(Clone, Debug)]
pub struct Replay {
    /// The server to ask.
    pub target: Target,
    /// A new connection for each request, or kept ones.
    pub connection: Connection,
    /// So many HTTP/2 connections, whose streams the requests are.
    pub http2: Option<u32>,
    /// Further header fields, each with its line end.
    pub fields: String,
    /// A request fails after this long.
    pub timeout: Duration,
    /// The most requests open at once; one more fails.
    pub open_max: u32,
    /// The source of the pace.
    pub pace: Pace,
}

/// The source of the pace of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// The trace: its arrivals, or those of its users.
    Trace,
    /// So many clients back to back.
    Closed(u32),
}
