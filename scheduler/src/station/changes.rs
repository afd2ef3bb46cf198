//! Endpoints that come and go, and that are taken out of use.

use super::{Event, RequestState, Scope, Station, Verdict};
use crate::Time;
use crate::dispatch::EndpointSpec;

impl Station {
    /// Makes `specs` the station's endpoints, and returns the slot of each. Endpoints that it had
    /// already (by their identity, which must be unique) keep their slot and their requests; the
    /// others start slowly. Requests that wait for an endpoint that is gone go elsewhere, or are
    /// refused where none is left. Requests in service there end as they may, and its slot is not
    /// given to another endpoint before.
    pub fn set_endpoints(&mut self, now: Time, specs: &[EndpointSpec]) -> Vec<usize> {
        self.catch_up(now);
        let new = self.endpoints.replace(now, specs);
        for slot in self.slots.all_mut() {
            slot.tried.forget(&new);
            slot.unreached.forget(&new);
        }
        self.balancer.replace(&self.dispatch, specs);
        if self.scope == Scope::Endpoint {
            self.queues.grow(self.endpoints.slots());
        }
        self.move_waiting(now);
        self.endpoints.present().to_vec()
    }

    /// Takes an endpoint out of use, or back in; an endpoint that comes back starts slowly.
    /// Requests that wait for it go elsewhere, or are refused where none is left; those in service
    /// stay.
    pub fn set_out(&mut self, now: Time, endpoint: usize, out: bool) {
        self.catch_up(now);
        self.endpoints.set_out(now, endpoint, out);
        self.move_waiting(now);
    }

    /// Makes an endpoint drain, so that it gets no requests but those of strict sessions, or ends
    /// its drain, after which it starts slowly. Requests that wait for it go elsewhere, or are
    /// refused where none is left; those in service stay.
    pub fn set_draining(&mut self, now: Time, endpoint: usize, drains: bool) {
        self.catch_up(now);
        self.endpoints.set_draining(now, endpoint, drains);
        self.move_waiting(now);
    }

    /// Returns whether an endpoint drains.
    pub fn is_draining(&self, endpoint: usize) -> bool {
        self.endpoints.is_draining(endpoint)
    }

    /// Makes an endpoint start slowly, such as one that the driver had not used before.
    pub fn start_slowly(&mut self, now: Time, endpoint: usize) {
        self.endpoints.start_slowly(now, endpoint);
    }

    /// Returns whether so few endpoints are healthy that all are used.
    pub fn panics(&self) -> bool {
        self.endpoints.panics()
    }

    /// Returns whether requests may be sent to an endpoint.
    pub fn is_usable(&self, endpoint: usize) -> bool {
        self.endpoints.is_usable(endpoint)
    }

    /// Moves the requests that wait for an endpoint out of use, and starts those that can be
    /// started now.
    pub(super) fn move_waiting(&mut self, now: Time) {
        match self.scope {
            Scope::Cluster => self.turn_out_stranded(now),
            Scope::Endpoint => {
                for queue in 0..self.endpoints.slots() {
                    if !self.endpoints.is_usable(queue) {
                        self.empty(now, queue);
                    }
                }
            }
        }
        self.fill_all(now);
    }

    /// Refuses the requests in the cluster's one queue for which no endpoint is left: all are out
    /// of use, or the request has tried them. A request that comes now would be refused as well,
    /// and a request that stays without an endpoint would stand in others' way.
    fn turn_out_stranded(&mut self, now: Time) {
        for slot in self.queues.members(0) {
            let ticket = self.ticket(slot);
            if !self.has_untried(ticket) {
                let reason = self.without_endpoint(ticket);
                self.turn_out(now, ticket, reason);
            }
        }
    }

    fn empty(&mut self, now: Time, queue: usize) {
        for slot in self.queues.members(queue) {
            let ticket = self.ticket(slot);
            // Another may have displaced it meanwhile.
            if self.state(ticket) != RequestState::Waiting(queue) {
                continue;
            }
            self.unqueue(now, ticket, queue);
            self.slots[ticket.slot()].state = RequestState::Away;
            let event = match self.place(now, ticket) {
                Verdict::Start { ticket, endpoint } => Event::Started { ticket, endpoint },
                Verdict::Wait { .. } => continue,
                Verdict::Refuse(refusal) => Event::Refused { ticket, refusal },
            };
            self.events.push_back(event);
        }
    }
}
