//! Further attempts at a request: repetitions and hedges.

use super::sessions::Belongs;
use super::{Refusal, RefusalReason, RequestState, Station, Ticket, Verdict};
use crate::Time;

/// The place where a request may be tried again, if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// The request may be tried at an endpoint that it has not tried.
    Elsewhere,
    /// All endpoints were tried; those that the request could reach may be tried again, after a
    /// while.
    Here,
    /// All endpoints were tried, and none could be reached; the ticket is void.
    Nowhere,
    /// The budget allows no more repetitions; the ticket is void.
    Denied,
}

impl Station {
    /// Takes a request from its endpoint after an attempt that has failed; it holds no place until
    /// [`Station::again`]. A request that was `sent` may have cost its endpoint something, and
    /// counts towards the budget; a request that found no connection does not. If the endpoint
    /// could not be reached, the driver calls [`Station::unreached`] before.
    pub fn step_back(&mut self, now: Time, ticket: Ticket, sent: bool) -> Again {
        let RequestState::Running(endpoint) = self.state(ticket) else {
            return Again::Denied;
        };
        self.catch_up(now);
        self.release(now, ticket, endpoint, false);
        self.slots[ticket.slot()].state = RequestState::Away;
        let slot = &mut self.slots[ticket.slot()];
        slot.tried.add(endpoint);
        if !sent {
            slot.unreached.add(endpoint);
        }
        let allowed = !sent || self.count_repeat(ticket);
        let again = if !allowed {
            self.vacate(ticket);
            Again::Denied
        } else if self.has_untried(ticket) {
            Again::Elsewhere
        } else {
            let slot = &mut self.slots[ticket.slot()];
            slot.tried.clone_from(&slot.unreached);
            if sent || self.has_untried(ticket) {
                Again::Here
            } else {
                self.vacate(ticket);
                Again::Nowhere
            }
        };
        self.fill(now, Some(endpoint));
        again
    }

    /// Sends a request to another endpoint, or into a queue, after [`Station::step_back`].
    pub fn again(&mut self, now: Time, ticket: Ticket) -> Verdict {
        if self.state(ticket) != RequestState::Away {
            return Verdict::Refuse(Refusal::without_delay(RefusalReason::NoEndpoint));
        }
        self.catch_up(now);
        self.slots[ticket.slot()].placed = now;
        self.place(now, ticket)
    }

    /// Makes a second attempt beside the first, at another endpoint, if one has room now and the
    /// budget allows it. Both tickets are to be given back.
    pub fn hedge(&mut self, now: Time, ticket: Ticket) -> Option<(Ticket, usize)> {
        let RequestState::Running(endpoint) = self.state(ticket) else {
            return None;
        };
        self.catch_up(now);
        // A faster answer from elsewhere would move the session there.
        if self.belongs(ticket) != Belongs::Anywhere {
            return None;
        }
        let first = &self.slots[ticket.slot()];
        let class = first.class;
        if self.stats[class].running >= self.classes[class].max_concurrency
            || self.active() >= self.max_active
        {
            return None;
        }
        let mut copy = first.clone();
        copy.state = RequestState::Away;
        copy.repeated = false;
        copy.placed = now;
        copy.tried.add(endpoint);
        let ticket = self.sit(copy);
        let picked = self.pick(now, ticket, true);
        match picked.filter(|_| self.count_repeat(ticket)) {
            Some(endpoint) => {
                self.start(now, ticket, endpoint);
                Some((ticket, endpoint))
            }
            None => {
                self.vacate(ticket);
                None
            }
        }
    }

    /// Returns whether there is an endpoint in use that the request has not tried. The balancer is
    /// not asked, for it would take that for a turn.
    pub(super) fn has_untried(&self, ticket: Ticket) -> bool {
        match self.belongs(ticket) {
            Belongs::At(_) => return true,
            Belongs::Nowhere => return false,
            Belongs::Anywhere => {}
        }
        let tried = &self.slots[ticket.slot()].tried;
        let mut present = self.endpoints.present().iter();
        present.any(|&slot| self.endpoints.is_usable(slot) && !tried.has(slot))
    }

    /// Counts a request as repeated, once, if the budget allows it; returns false if not.
    fn count_repeat(&mut self, ticket: Ticket) -> bool {
        let active = self.active();
        let slot = &mut self.slots[ticket.slot()];
        if !slot.repeated {
            slot.repeated = self.repeats.begin(active);
        }
        slot.repeated
    }

    /// Returns the number of requests that are being repeated.
    pub fn repeated(&self) -> usize {
        self.repeats.active()
    }

    /// Returns the number of repetitions so far that the budget did not allow.
    pub fn repeats_denied(&self) -> u64 {
        self.repeats.denied()
    }

    /// Returns whether one more repetition would be allowed.
    pub fn may_repeat(&self) -> bool {
        self.repeats.may_begin(self.active())
    }
}
