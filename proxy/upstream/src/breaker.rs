//! How many connections there are to all endpoints of a cluster.

use sprat_net::permit::Count;

/// Counts the connections to all endpoints of a cluster. The bound comes with each
/// question: a reload may change it, the count goes on.
#[derive(Debug, Default)]
pub struct Breaker {
    connections: Count,
    /// Requests that wait for an idle connection to be closed, to any endpoint.
    wanted: Count,
}

impl Breaker {
    /// Counts one more connection of at most `bound`; false if there may be
    /// none.
    pub(super) fn take(&self, bound: usize) -> bool {
        self.connections.take(1, bound)
    }

    /// Counts one more that is open already.
    pub(super) fn add(&self) {
        self.connections.add(1);
    }

    /// Takes back the place of a connection that is closed.
    pub(super) fn give_back(&self) {
        self.connections.give_back(1);
    }

    /// Returns whether there are as many connections as `bound` allows.
    pub fn is_open(&self, bound: usize) -> bool {
        self.connections.used() >= bound
    }

    /// Returns whether a request waits for one to be closed.
    pub(super) fn is_wanted(&self) -> bool {
        self.wanted.used() > 0
    }

    /// Returns the count of requests that wait for a connection to be closed.
    pub(super) fn wanted(&self) -> &Count {
        &self.wanted
    }
}
