//! Requests that belong to an endpoint, whatever dispatch would choose.

use super::{Station, Ticket};
use crate::Time;

/// The endpoint that a request belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// The identity of the endpoint, see
    /// [`EndpointSpec`](crate::dispatch::EndpointSpec).
    pub identity: u64,
    /// Whether the request is refused where its endpoint is gone or out of use. Otherwise
    /// it goes where dispatch has it.
    pub strict: bool,
}

/// The endpoints that a request may go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Belongs {
    /// The request goes to any endpoint that dispatch chooses.
    Anywhere,
    /// The request goes to the endpoint in this slot alone.
    At(usize),
    /// The request goes to no endpoint: that of the session is not to be had, and no other will do.
    Nowhere,
}

impl Station {
    /// Returns where a request may go at present, as far as its session goes. An endpoint
    /// that drains keeps the strict sessions that it has; others go elsewhere.
    pub(super) fn belongs(&self, ticket: Ticket) -> Belongs {
        let slot = &self.slots[ticket.slot()];
        let Some(session) = slot.session else {
            return Belongs::Anywhere;
        };
        let endpoints = &self.endpoints;
        let may_stay = |&at: &usize| session.strict || !endpoints.is_draining(at);
        let at = endpoints.well(session.identity).filter(may_stay);
        match at.filter(|&at| !slot.tried.has(at)) {
            Some(at) => Belongs::At(at),
            None if session.strict => Belongs::Nowhere,
            None => Belongs::Anywhere,
        }
    }

    /// Makes an endpoint drain, so that it gets no requests but those of strict sessions,
    /// or ends its drain: then it starts slowly. Requests that wait for it go elsewhere, or
    /// are refused where none is left; those in service stay.
    pub fn set_draining(&mut self, now: Time, endpoint: usize, drains: bool) {
        self.endpoints.set_draining(now, endpoint, drains);
        self.move_waiting(now);
    }

    /// Returns whether an endpoint drains.
    pub fn is_draining(&self, endpoint: usize) -> bool {
        self.endpoints.is_draining(endpoint)
    }
}
