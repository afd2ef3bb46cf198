//! What one worker counts of endpoints and clusters.

use sprat_net::counters::{ByReason, CoarseSeconds, Counter, Histogram, Seconds};

use super::sessions::SessionOutcome;

/// A worker's counters of an endpoint.
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
    /// The times that requests waited for the head of its answer, from when they were sent.
    pub heads: Histogram<CoarseSeconds>,
}

/// A worker's counters of a cluster.
#[derive(Debug, Default)]
pub struct ClusterStats {
    /// Responses by hundreds of the status, from 1xx; the last is a response
    /// that never got a status.
    pub responses: [Counter; 6],
    /// The outcomes of requests for their sessions, by [`SessionOutcome::index`].
    pub sessions: [Counter; SessionOutcome::ALL.len()],
    /// The times that requests waited for an endpoint, of those that had to.
    pub queue_waits: Histogram<Seconds>,
    /// The times from the end of the request's head to the head of an endpoint's answer.
    pub heads: Histogram<Seconds>,
    /// The times from the end of the request's head to the response's last byte.
    pub durations: Histogram<Seconds>,
}
