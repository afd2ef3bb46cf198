//! How many connections there are to all endpoints of a cluster.

use sprat_net::permit::{Permit, Permits};

/// Counts the connections to all endpoints of a cluster. The bound comes with each
/// question: a reload may change it, the count goes on.
#[derive(Debug, Default)]
pub struct Breaker {
    connections: Permits,
    /// Requests that wait for an idle connection to be closed, to any endpoint.
    wanted: Permits,
}

impl Breaker {
    /// Returns a place for one more connection of at most `bound`, if there may be one.
    pub(super) fn take(&self, bound: usize) -> Option<Permit> {
        self.connections.take(1, bound)
    }

    /// Returns a place for one more that is open already.
    pub(super) fn add(&self) -> Permit {
        self.connections.add(1)
    }

    /// Returns whether there are as many connections as `bound` allows.
    pub fn is_open(&self, bound: usize) -> bool {
        self.connections.used() >= bound
    }

    /// Returns whether a request waits for one to be closed.
    pub(super) fn is_wanted(&self) -> bool {
        self.wanted.used() > 0
    }

    /// Counts a request that waits for a connection to be closed, as long as it does.
    pub(super) fn want(&self) -> Permit {
        self.wanted.add(1)
    }
}
