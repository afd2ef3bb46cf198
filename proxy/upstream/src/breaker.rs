//! How many connections there are to all endpoints of a cluster.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::take_one;

/// Counts the connections to all endpoints of a cluster. The bound comes with each
/// question: a reload may change it, the count goes on.
#[derive(Debug, Default)]
pub struct Breaker {
    connections: AtomicUsize,
    /// Requests that wait for an idle connection to be closed, to any endpoint.
    wanted: AtomicUsize,
}

impl Breaker {
    /// Counts one more connection of at most `bound`; false if there may be
    /// none.
    pub(super) fn take(&self, bound: usize) -> bool {
        take_one(&self.connections, bound)
    }

    /// Counts one more that is open already.
    pub(super) fn add(&self) {
        self.connections.fetch_add(1, Relaxed);
    }

    /// Takes back the place of a connection that is closed.
    pub(super) fn give_back(&self) {
        self.connections.fetch_sub(1, Relaxed);
    }

    /// Whether as many are open as may be.
    pub fn is_open(&self, bound: usize) -> bool {
        self.connections.load(Relaxed) >= bound
    }

    /// Returns whether a request waits for one to be closed.
    pub(super) fn is_wanted(&self) -> bool {
        self.wanted.load(Relaxed) > 0
    }

    /// Requests that wait for one.
    pub(super) fn wanted(&self) -> &AtomicUsize {
        &self.wanted
    }
}
