//! The transitions of a request from state to state.

use super::sessions::Belongs;
use super::waiting::WaitingRequest;
use super::{
    Arrival, ClassSpec, ClassStats, Event, Refusal, RefusalReason, RequestState, Scope, Slot,
    Station, Ticket, Tried, Verdict,
};
use crate::dispatch::Asked;
use crate::mix::mix;
use crate::{Size, Time};

/// The most requests that are passed over at a time, because they have tried every endpoint that
/// has room or belong to one without.
const ASIDE_MAX: usize = 16;

/// A priority of endpoints, and its place among all that there are.
#[derive(Clone, Copy)]
struct PriorityAt {
    place: usize,
    priority: u8,
}

/// Returns whether a class may have one more request in service.
fn open_classes<'a>(
    classes: &'a [ClassSpec],
    stats: &'a [ClassStats],
) -> impl Fn(usize) -> bool + 'a {
    |class| stats[class].running < classes[class].max_concurrency
}

impl Station {
    pub(super) fn state(&self, ticket: Ticket) -> RequestState {
        self.slots
            .get(ticket.0)
            .map_or(RequestState::Vacant, |slot| slot.state)
    }

    pub(super) fn ticket(&self, slot: u32) -> Ticket {
        Ticket(self.slots.key(slot))
    }

    pub(super) fn seat(&mut self, now: Time, arrival: &Arrival) -> Ticket {
        let slot = Slot {
            state: RequestState::Vacant,
            class: arrival.class,
            bytes: self.sizes.expected(arrival.size),
            hash: arrival.hash,
            random: arrival.random,
            arrived: now,
            placed: now,
            seq: 0,
            tried: Tried::default(),
            unreached: Tried::default(),
            session: None,
            repeated: false,
            learnt: false,
            is_large: self
                .srq
                .as_ref()
                .is_some_and(|srq| srq.is_large(arrival.size)),
        };
        self.sit(slot)
    }

    /// Gives a request a slot.
    pub(super) fn sit(&mut self, slot: Slot) -> Ticket {
        Ticket(self.slots.insert(slot))
    }

    /// Lets the balancer learn a request's size once, as soon as it is known for certain: estimates
    /// are all alike where sizes are not. Learning from finished requests alone would see too few
    /// large ones where these are slow, give their endpoint more of them, and slow them further.
    pub(super) fn learn(&mut self, ticket: Ticket, size: Size) {
        let slot = &mut self.slots[ticket.slot()];
        if let (Size::Exact(bytes), false) = (size, slot.learnt) {
            slot.learnt = true;
            self.balancer.observe(bytes);
        }
    }

    /// Starts a request or has it wait; refuses it if there is no endpoint or no room.
    pub(super) fn place(&mut self, now: Time, ticket: Ticket) -> Verdict {
        let class = self.slots[ticket.slot()].class;
        let in_limit = self.stats[class].running < self.classes[class].max_concurrency;
        match self.scope {
            Scope::Cluster => {
                if in_limit && let Some(endpoint) = self.pick(now, ticket, true) {
                    return self.start_now(now, ticket, endpoint);
                }
                if self.pick(now, ticket, false).is_none() {
                    return self.turn_away(ticket, self.without_endpoint(ticket));
                }
                self.wait(now, ticket, 0)
            }
            Scope::Endpoint => {
                let Some(endpoint) = self.pick(now, ticket, false) else {
                    let reason = match self.has_untried(ticket) {
                        true => RefusalReason::QueueFull,
                        false => self.without_endpoint(ticket),
                    };
                    return self.turn_away(ticket, reason);
                };
                if in_limit && self.endpoints.has_room(endpoint) {
                    return self.start_now(now, ticket, endpoint);
                }
                self.wait(now, ticket, endpoint)
            }
        }
    }

    /// Returns where a request may go at present by its session.
    pub(super) fn belongs(&self, ticket: Ticket) -> Belongs {
        let slot = &self.slots[ticket.slot()];
        match slot.session {
            None => Belongs::Anywhere,
            Some(session) => session.belongs(&self.endpoints, &slot.tried),
        }
    }

    /// Returns the reason why there is no endpoint for a request at all.
    pub(super) fn without_endpoint(&self, ticket: Ticket) -> RefusalReason {
        let mut present = self.endpoints.present().iter();
        let healthy = match self.belongs(ticket) {
            Belongs::Nowhere => false,
            Belongs::At(_) => true,
            Belongs::Anywhere => present.any(|&slot| self.endpoints.is_usable(slot)),
        };
        match healthy || !self.slots[ticket.slot()].tried.is_empty() {
            true => RefusalReason::NoEndpoint,
            false => RefusalReason::NoHealthyEndpoint,
        }
    }

    pub(super) fn start_now(&mut self, now: Time, ticket: Ticket, endpoint: usize) -> Verdict {
        let class = self.slots[ticket.slot()].class;
        self.stats[class].started += 1;
        self.start(now, ticket, endpoint);
        Verdict::Start { ticket, endpoint }
    }

    pub(super) fn start(&mut self, now: Time, ticket: Ticket, endpoint: usize) {
        if self.stats.iter().all(|class| class.running == 0) {
            self.drain.resumed(now);
        }
        let slot = &mut self.slots[ticket.slot()];
        slot.state = RequestState::Running(endpoint);
        slot.seq = self.next_seq;
        self.next_seq += 1;
        self.stats[slot.class].running += 1;
        let level = self.classes[slot.class].level;
        self.endpoints
            .start(now, endpoint, level, slot.bytes, slot.seq);
        if let Some(srq) = &mut self.srq
            && srq.start(now, ticket.slot(), slot)
        {
            self.endpoints.demote(endpoint);
        }
    }

    pub(super) fn wait(&mut self, now: Time, ticket: Ticket, queue: usize) -> Verdict {
        let class = &self.classes[self.slots[ticket.slot()].class];
        let (level, drop_late) = (class.level, class.drop_late);
        // First of all: no request gives way to one that is turned away.
        if drop_late && self.is_late(queue, ticket) {
            return self.turn_away(ticket, RefusalReason::Late);
        }
        if self.queues.is_full(queue) {
            let worst = self.queues.worst_below(queue, level);
            let Some(worst) = worst.filter(|_| self.admission.displace) else {
                return self.turn_away(ticket, RefusalReason::QueueFull);
            };
            let worst = self.ticket(worst);
            self.turn_out(now, worst, RefusalReason::Displaced);
        }
        let slot = &mut self.slots[ticket.slot()];
        slot.state = RequestState::Waiting(queue);
        slot.seq = self.next_seq;
        self.next_seq += 1;
        self.stats[slot.class].waited += 1;
        self.stats[slot.class].waiting += 1;
        if self.scope == Scope::Endpoint {
            self.endpoints.expect(queue, level, slot.bytes);
        }
        self.queues
            .insert(now, queue, ticket.slot(), &self.entry(ticket.slot()));
        self.follow_length(now);
        self.observe_waiting(now);
        Verdict::Wait { ticket }
    }

    /// Updates the averaged length after a change of the queues. If only arrivals did so, the
    /// length that one saw would count until the next one, however long ago all were served.
    fn follow_length(&mut self, now: Time) {
        self.length.update(now, self.queues.total());
    }

    /// Returns what a waiting request's place in its queue depends on.
    pub(super) fn entry(&self, slot: u32) -> WaitingRequest {
        let slot = &self.slots[slot];
        let class = &self.classes[slot.class];
        WaitingRequest {
            class: slot.class,
            level: class.level,
            bytes: slot.bytes,
            arrived: slot.arrived,
            terms: class.terms(None),
            value: class.value,
            seq: slot.seq,
            expires: class.timeout.map(|after| slot.placed + after),
            placing: self.srq.as_ref().map(|srq| srq.placing(slot)),
        }
    }

    /// Returns whether a request that joins this queue would begin past its
    /// deadline, as fast as requests have been served of late.
    pub(super) fn is_late(&self, queue: usize, ticket: Ticket) -> bool {
        let class = &self.classes[self.slots[ticket.slot()].class];
        let ahead = self.queues.ahead(queue, class.level);
        let drain = match self.scope {
            Scope::Cluster => &self.drain,
            // The endpoint alone serves its queue.
            Scope::Endpoint => self.endpoints.drain(queue),
        };
        let wait = drain.time_for(ahead);
        class
            .deadline
            .zip(wait)
            .is_some_and(|(deadline, wait)| wait > deadline)
    }

    /// Returns the endpoint for a request; if `with_room`, one with room to start it now. Where
    /// endpoints have priorities, one priority is drawn by what its endpoints can take. Then come
    /// the others that serve, and last, if all endpoints of those have been tried, the rest.
    pub(super) fn pick(&mut self, now: Time, ticket: Ticket, with_room: bool) -> Option<usize> {
        let belongs = self.belongs(ticket);
        if self.endpoints.priorities().are_alike() || belongs != Belongs::Anywhere {
            return self.choose(now, ticket, with_room, belongs, None);
        }
        let drawn = (self.endpoints.priorities()).draw(mix(self.slots[ticket.slot()].random));
        let count = self.endpoints.priorities().len();
        let places = std::iter::once(drawn).chain((0..count).filter(|&place| place != drawn));
        let has_left = self.has_untried_serving(ticket);
        for serving in [true, false] {
            if !serving && has_left {
                break;
            }
            for place in places.clone() {
                let (priority, share) = self.endpoints.priorities().at(place);
                if (share > 0) != serving {
                    continue;
                }
                let within = Some(PriorityAt { place, priority });
                if let Some(endpoint) = self.choose(now, ticket, with_room, belongs, within) {
                    return Some(endpoint);
                }
            }
        }
        None
    }

    /// Returns whether there is an endpoint in use, of a priority that serves, that a request
    /// has not tried.
    fn has_untried_serving(&self, ticket: Ticket) -> bool {
        let (endpoints, tried) = (&self.endpoints, &self.slots[ticket.slot()].tried);
        let serves = |slot: usize| endpoints.priorities().serves(endpoints.priority(slot));
        let mut present = endpoints.present().iter();
        present.any(|&slot| endpoints.is_usable(slot) && !tried.has(slot) && serves(slot))
    }

    /// Returns the endpoint for a request, `within` a priority if one is given.
    fn choose(
        &mut self,
        now: Time,
        ticket: Ticket,
        with_room: bool,
        belongs: Belongs,
        within: Option<PriorityAt>,
    ) -> Option<usize> {
        let slot = &self.slots[ticket.slot()];
        let class = &self.classes[slot.class];
        let bound = self.queues.bound_for(class.drop_thresholds.1);
        let by_endpoint = self.scope == Scope::Endpoint;
        let (tried, queues) = (&slot.tried, &self.queues);
        let displaces = self.admission.displace && queues.bound_for(1.0) == bound;
        let class_level = class.level;
        let usable = |endpoint: usize, has_room: bool| {
            let queue_open = || {
                queues.len(endpoint) < bound
                    || (displaces && queues.worst_below(endpoint, class_level).is_some())
            };
            !tried.has(endpoint) && (has_room || (!with_room && (!by_endpoint || queue_open())))
        };
        match belongs {
            Belongs::At(endpoint) => {
                let has_room = self.endpoints.has_room(endpoint);
                return usable(endpoint, has_room).then_some(endpoint);
            }
            Belongs::Nowhere => return None,
            Belongs::Anywhere => {}
        }
        let (level, priority) = (class.level, within.map(|own| own.priority));
        let views = (self.endpoints).views(now, level, slot.bytes, priority, usable);
        let asked = Asked {
            bytes: slot.bytes,
            highest: class.level == self.highest_level,
            hash: slot.hash,
            random: slot.random,
            rotation: within.map_or(0, |own| own.place),
        };
        let place = self.balancer.pick(views, &asked)?;
        Some(self.endpoints.slot(place))
    }

    /// Takes a request out, wherever it is, and gives its place to others. Its response was
    /// `whole`, or cut short.
    pub(super) fn leave(&mut self, now: Time, ticket: Ticket, whole: bool) {
        match self.state(ticket) {
            RequestState::Vacant => return,
            RequestState::Away => {}
            RequestState::Waiting(queue) => self.unqueue(now, ticket, queue),
            RequestState::Running(endpoint) => {
                self.release(now, ticket, endpoint, whole);
                self.vacate(ticket);
                return self.fill(now, Some(endpoint));
            }
        }
        self.vacate(ticket);
    }

    /// Takes a request from its endpoint; its response was `whole`, or cut short.
    pub(super) fn release(&mut self, now: Time, ticket: Ticket, endpoint: usize, whole: bool) {
        let slot = &mut self.slots[ticket.slot()];
        slot.state = RequestState::Vacant;
        let level = self.classes[slot.class].level;
        self.stats[slot.class].running -= 1;
        self.endpoints
            .finish(endpoint, level, slot.bytes, slot.seq, whole);
        if let Some(srq) = &mut self.srq
            && srq.end(now, ticket.slot(), slot.arrived, whole)
        {
            self.endpoints.forget_demoted(endpoint);
        }
    }

    /// Takes a request out of its queue.
    pub(super) fn unqueue(&mut self, now: Time, ticket: Ticket, queue: usize) {
        let slot = &mut self.slots[ticket.slot()];
        slot.state = RequestState::Vacant;
        let level = self.classes[slot.class].level;
        self.stats[slot.class].waiting -= 1;
        if self.scope == Scope::Endpoint {
            self.endpoints.unexpect(queue, level, slot.bytes);
        }
        self.queues.remove(queue, slot.class, ticket.slot());
        self.follow_length(now);
    }

    pub(super) fn vacate(&mut self, ticket: Ticket) {
        let slot = &mut self.slots[ticket.slot()];
        slot.state = RequestState::Vacant;
        if std::mem::take(&mut slot.repeated) {
            self.repeats.ended();
        }
        self.slots.remove(ticket.slot());
    }

    /// Refuses a request that has no place at an endpoint or in a queue.
    pub(super) fn turn_away(&mut self, ticket: Ticket, reason: RefusalReason) -> Verdict {
        let class = self.slots[ticket.slot()].class;
        self.vacate(ticket);
        Verdict::Refuse(self.refuse(class, reason))
    }

    /// Refuses a request that waits.
    pub(super) fn turn_out(&mut self, now: Time, ticket: Ticket, reason: RefusalReason) {
        let class = self.slots[ticket.slot()].class;
        self.leave(now, ticket, false);
        let refusal = self.refuse(class, reason);
        self.events.push_back(Event::Refused { ticket, refusal });
    }

    pub(super) fn refuse(&mut self, class: usize, reason: RefusalReason) -> Refusal {
        self.stats[class].refused[reason.index()] += 1;
        Refusal {
            reason,
            retry_after: self.drain.time_for(self.queues.total() + 1),
        }
    }

    /// Starts the requests that may start, after a place has become free at an
    /// endpoint (or anywhere, if `None`).
    pub(super) fn fill(&mut self, now: Time, freed: Option<usize>) {
        match (self.scope, freed) {
            (Scope::Cluster, _) => self.fill_queue(now, 0),
            // A class's limit may have held back others elsewhere.
            (Scope::Endpoint, Some(endpoint)) if !self.limited => self.fill_queue(now, endpoint),
            (Scope::Endpoint, _) => self.fill_all(now),
        }
    }

    /// Starts the requests that may start, in all queues.
    pub(super) fn fill_all(&mut self, now: Time) {
        let queues = match self.scope {
            Scope::Cluster => 1,
            Scope::Endpoint => self.endpoints.slots(),
        };
        for queue in 0..queues {
            self.fill_queue(now, queue);
        }
    }

    /// Moves waiting requests whose values have changed by `now` to their new places.
    pub(super) fn renew_places(&mut self, now: Time) {
        // By an earlier time, a place that has changed would be given again and again.
        if let Some(srq) = &mut self.srq {
            srq.set_now(now);
        }
        while let Some(slot) = self.queues.changed(now) {
            let RequestState::Waiting(queue) = self.slots[slot].state else {
                return;
            };
            let entry = self.entry(slot);
            self.queues.remove(queue, entry.class, slot);
            self.queues.insert(now, queue, slot, &entry);
        }
    }

    pub(super) fn fill_queue(&mut self, now: Time, queue: usize) {
        self.renew_places(now);
        let mut aside = Vec::new();
        self.start_from(now, queue, &mut aside);
        if !aside.is_empty() {
            for slot in aside {
                self.queues.insert(now, queue, slot, &self.entry(slot));
            }
            // Those that started meanwhile have told of a length without these.
            self.follow_length(now);
        }
        self.observe_waiting(now);
    }

    /// Starts the requests of a queue that may start. Requests that have tried every endpoint with
    /// room, or belong to one without, are put `aside`, so that they hold back no other.
    pub(super) fn start_from(&mut self, now: Time, queue: usize, aside: &mut Vec<u32>) {
        loop {
            let open = open_classes(&self.classes, &self.stats);
            let Some((rank, slot)) = self.queues.first(queue, open) else {
                return;
            };
            let ticket = self.ticket(slot);
            let endpoint = match self.scope {
                Scope::Cluster => self.pick(now, ticket, true),
                Scope::Endpoint => self.endpoints.has_room(queue).then_some(queue),
            };
            let Some(endpoint) = endpoint else {
                let slot = &self.slots[ticket.slot()];
                let is_free = slot.tried.is_empty() && slot.session.is_none();
                if is_free || aside.len() == ASIDE_MAX {
                    return;
                }
                self.queues.remove(queue, slot.class, ticket.slot());
                aside.push(ticket.slot());
                continue;
            };
            if self.has_missed(now, ticket) {
                self.turn_out(now, ticket, RefusalReason::Late);
                continue;
            }
            let open = open_classes(&self.classes, &self.stats);
            self.queues.charge(queue, &rank, open);
            self.unqueue(now, ticket, queue);
            self.start(now, ticket, endpoint);
            self.events.push_back(Event::Started { ticket, endpoint });
        }
    }

    /// Returns whether a request that is dropped when late is late now.
    pub(super) fn has_missed(&self, now: Time, ticket: Ticket) -> bool {
        let slot = &self.slots[ticket.slot()];
        let class = &self.classes[slot.class];
        let deadline = class.deadline.filter(|_| class.drop_late);
        deadline.is_some_and(|after| now > slot.arrived + after)
    }
}
