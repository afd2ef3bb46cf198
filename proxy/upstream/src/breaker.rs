//! The number of connections to all endpoints of a cluster, and its bound.

use sprat_net::permit::{Permit, Permits};

/// The count of connections to all endpoints of a cluster. The bound comes with each call, since
/// a reload may change it; the count goes on.
#[derive(Debug, Default)]
pub struct Breaker {
    connections: Permits,
    /// The requests that wait for an idle connection, to any endpoint, to be closed.
    wanted: Permits,
}

impl Breaker {
    /// Returns a place for one more connection, if no more than `bound` are open then.
    pub(super) fn take(&self, bound: usize) -> Option<Permit> {
        self.connections.take(1, bound)
    }

    /// Returns a place for one more connection, which is open already.
    pub(super) fn add(&self) -> Permit {
        self.connections.add(1)
    }

    /// Returns whether there are as many connections as `bound` allows.
    pub fn is_open(&self, bound: usize) -> bool {
        self.connections.used() >= bound
    }

    /// Returns whether a request waits for a connection to be closed.
    pub(super) fn is_wanted(&self) -> bool {
        self.wanted.used() > 0
    }

    /// Counts a request that waits for a connection to be closed, until the permit is dropped.
    pub(super) fn want(&self) -> Permit {
        self.wanted.add(1)
    }
}
