//! Counts of an endpoint over all workers: requests, connections and checks.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use sprat_net::permit::{Count, Counted, Permits};
use tokio::sync::Notify;

/// The counts of an endpoint that all workers share.
#[derive(Debug, Default)]
pub struct EndpointCounts {
    /// The number of requests in progress.
    pub outstanding: Count,
    /// The open connections, idle ones included.
    pub connections: Permits,
    /// The open connections that have switched to another protocol, and are no request's any
    /// more.
    pub(super) tunnels: Permits,
    /// The number of idle connections.
    pub idle: Count,
    /// The number of active checks that passed, and of those that failed.
    pub checks: [AtomicU64; 2],
    /// The requests that wait for another worker's idle connection to be closed, because no
    /// further one may be opened.
    pub(super) wanted: Permits,
    /// The signal that wakes a waiting request when a connection is closed.
    pub(super) freed: Notify,
}

impl EndpointCounts {
    /// Returns whether fewer than `bound` connections are in use, so that the others are idle or
    /// being closed.
    pub(super) fn is_closing(&self, bound: usize) -> bool {
        self.busy() < bound
    }

    /// Returns whether some of the connections are idle, or being closed.
    pub(super) fn has_spare(&self) -> bool {
        self.idle.used() > 0 || self.connections.used() > self.busy()
    }

    /// Counts the connections in use by requests and tunnels, or streams if one carries several.
    /// Requests that wait for a connection use none.
    fn busy(&self) -> usize {
        let outstanding = self.outstanding.used();
        let waiting = self.wanted.used();
        outstanding.saturating_sub(waiting) + self.tunnels.used()
    }
}

/// A handle on the number of idle connections.
pub(super) struct IdleConnections(pub(super) Arc<EndpointCounts>);

impl Counted for IdleConnections {
    fn count(&self) -> &Count {
        &self.0.idle
    }
}
