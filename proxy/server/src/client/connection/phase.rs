//! What a request and its response are in the midst of.

use std::time::Duration;

use tokio::time::Instant;

/// The state that a connection is in: what it is waiting for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Phase {
    /// The connection was accepted, or a request has begun: its head is waited for.
    Head {
        /// The moment that it began.
        since: Instant,
        /// Whether any byte came.
        begun: bool,
    },
    /// The head was read: the answer is worked on.
    Waiting {
        /// The time at which the handler wants to be polled again; `None` if it has
        /// timers of its own.
        until: Option<Instant>,
    },
    /// The head of the response went out: its body follows.
    Responding,
    /// The response went out: the next request is waited for.
    Idle {
        /// The moment that it began.
        since: Instant,
    },
}

/// Bounds on the response in progress.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResponseBounds {
    /// The longest pause between two chunks of the upstream's body.
    pub(crate) upstream_idle: Duration,
    /// The time by which the exchange must be over.
    pub(crate) deadline: Option<Instant>,
    /// Whether the upstream is judged by how it ends.
    pub(crate) is_judged: bool,
}
