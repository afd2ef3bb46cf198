//! What one worker counts of endpoints and clusters.

use std::sync::Arc;
use std::time::Duration;

use sprat_net::counters::{ByReason, Counter, DURATION_BOUNDS_S, Histogram};

/// What is counted for an endpoint.
#[derive(Debug, Default)]
pub struct EndpointStats {
    /// Requests sent to it.
    pub requests: Counter,
    /// The number of connections opened.
    pub connects: Counter,
    /// Requests that went over a kept connection.
    pub reuses: Counter,
    /// Requests sent again, there or elsewhere, after an attempt there failed.
    pub retries: Counter,
    /// Attempts made there beside one elsewhere that was slow.
    pub hedges: Counter,
    /// The failures, by [`sprat_net::error::Reason::index`].
    pub errors: ByReason,
}

/// What is counted for a cluster. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct ClusterStats {
    /// Responses by hundreds of the status, from 1xx; the last is a response
    /// that never got a status.
    pub responses: Arc<[Counter; 6]>,
    /// Seconds that requests waited for an endpoint, of those that had to.
    pub queue_waits: Arc<Histogram>,
}

impl ClusterStats {
    /// A request waited for an endpoint.
    pub fn waited(&self, wait: Duration) {
        let waits = &self.queue_waits;
        waits.observe(&DURATION_BOUNDS_S, wait.as_secs_f64());
    }
}
