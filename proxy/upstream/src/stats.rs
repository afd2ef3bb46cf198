//! One worker's counters of endpoints and clusters.

use sprat_net::counters::{ByReason, CoarseSeconds, Counter, Histogram, Seconds};

use super::sessions::SessionOutcome;

/// A worker's counters of an endpoint.
#[derive(Debug, Default)]
pub struct EndpointStats {
    /// The number of requests sent to the endpoint.
    pub requests: Counter,
    /// The number of connections opened.
    pub connects: Counter,
    /// The number of requests that went over a kept connection.
    pub reuses: Counter,
    /// The number of requests sent again, here or elsewhere, after an attempt here failed.
    pub retries: Counter,
    /// The number of attempts made here beside one elsewhere that was slow.
    pub hedges: Counter,
    /// The failures, by [`sprat_net::error::Reason::index`].
    pub errors: ByReason,
    /// The times from a request's sending to the head of the endpoint's answer.
    pub heads: Histogram<CoarseSeconds>,
}

/// A worker's counters of a cluster.
#[derive(Debug, Default)]
pub struct ClusterStats {
    /// The responses by hundreds of the status, from 1xx; the last counts those that never got a
    /// status.
    pub responses: [Counter; 6],
    /// The outcomes of requests for their sessions, by [`SessionOutcome::index`].
    pub sessions: [Counter; SessionOutcome::ALL.len()],
    /// The times that requests waited for an endpoint, if they had to.
    pub queue_waits: Histogram<Seconds>,
    /// The times from the end of the request's head to the head of an endpoint's answer.
    pub heads: Histogram<Seconds>,
    /// The times from the end of the request's head to the response's last byte.
    pub durations: Histogram<Seconds>,
}
