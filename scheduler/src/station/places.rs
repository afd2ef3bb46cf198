//! The places of an endpoint: how many requests it may have in service.

/// The requests that an endpoint may have beyond its places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Overcommit {
    /// The most places that demoted requests take.
    pub(super) rest: usize,
    /// The most requests in service beyond the number of places.
    pub(super) beyond: usize,
}

/// The bound on the requests in service at an endpoint.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlaceBound {
    pub(super) max_requests: usize,
    /// The overcommitment; none unless SRQ's queues order.
    pub(super) overcommit: Option<Overcommit>,
}

impl PlaceBound {
    /// Returns whether one more request may start beside those in service, some of them demoted.
    pub(super) fn admits(&self, running: usize, demoted: usize) -> bool {
        let Some(over) = self.overcommit else {
            return running < self.max_requests;
        };
        let active = running - demoted;
        active < self.max_requests - demoted.min(over.rest)
            && running < self.max_requests.saturating_add(over.beyond)
    }
}
