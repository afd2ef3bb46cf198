//! A cluster's endpoints as a queueing system: which requests are served, wait
//! or are refused.
//!
//! A driver reports that a request has come ([`Station::arrive`]), that one is over
//! ([`Station::finish`]), that its client has gone ([`Station::cancel`]) or that it is to be tried
//! again ([`Station::step_back`]). After each it takes the events of waiting requests from
//! [`Station::poll`], and calls [`Station::expire`] when [`Station::next_wakeup`] says so.
//! Endpoints come and go ([`Station::set_endpoints`]), and are taken out of use and back in
//! ([`Station::set_out`]).
//!
//! Admission is SDIS02's (section 3.2): early discard on the averaged length of the queues, lower
//! classes first; then each endpoint's own thresholds, where other endpoints are tried before a
//! request is refused. The client is told why.

mod admission;
mod arrival;
mod attempts;
mod changes;
mod config;
mod endpoints;
mod measures;
mod places;
mod priorities;
mod repeats;
mod sessions;
mod srq;
mod srq_part;
mod transitions;
mod waiting;
mod work;

use std::collections::VecDeque;

pub use admission::{Admission, ChannelRule, Refusal, RefusalReason};
pub use arrival::{Arrival, ChannelBacklog};
pub use attempts::Again;
pub use config::{Measured, Order, Scope, SrqOrder, StationConfig};
pub use endpoints::EndpointLoad;
use endpoints::{Endpoints, Tried};
use measures::{AveragedLength, DrainRate, MeanSize};
use repeats::Repeats;
pub use repeats::RetryBudget;
pub use sessions::Session;
use srq::SrqState;
use srq_part::SrqPart;
use waiting::WaitingQueues;

pub use crate::classes::ClassSpec;
use crate::dispatch::{Balancer, Dispatch};
use crate::limits::Shortage;
use crate::slots::{SlotKey, Slots};
use crate::{Size, Time};

/// A request's place at a station, from its admission to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket(SlotKey);

impl Ticket {
    /// Returns a small integer, unique among the present requests, for the
    /// driver's tables.
    pub fn index(self) -> usize {
        self.0.index()
    }

    /// Returns the number of the ticket's slot.
    fn slot(self) -> u32 {
        self.0.slot()
    }
}

/// The station's decision on a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// The request goes to this endpoint now.
    Start {
        /// The ticket, to be given back by `finish`, `cancel` or `step_back`.
        ticket: Ticket,
        /// The slot of the endpoint.
        endpoint: usize,
    },
    /// The request waits; `poll` tells when that ends.
    Wait {
        /// The ticket, to be given back by `cancel`, unless `poll` ends it.
        ticket: Ticket,
    },
    /// The request is turned away.
    Refuse(Refusal),
}

/// The end of a request's wait.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// The request goes to this endpoint now.
    Started {
        /// The ticket of the request that starts.
        ticket: Ticket,
        /// The slot of the endpoint that it starts at.
        endpoint: usize,
    },
    /// The request is turned away; the ticket is void.
    Refused {
        /// The ticket of the request that is refused.
        ticket: Ticket,
        /// The reason for the refusal.
        refusal: Refusal,
    },
}

/// The counters of the requests of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassStats {
    /// The number of requests that have arrived.
    pub arrived: u64,
    /// The number of times that a request started without a wait.
    pub started: u64,
    /// The number of times that a request joined a queue.
    pub waited: u64,
    /// The number of requests that wait now.
    pub waiting: usize,
    /// The number of requests in service now.
    pub running: usize,
    /// The number of requests turned away, by [`RefusalReason::index`].
    pub refused: [u64; RefusalReason::ALL.len()],
}

/// The queues and endpoints of a cluster; the module says how a driver uses them.
#[derive(Clone, Debug)]
pub struct Station {
    endpoints: Endpoints,
    dispatch: Dispatch,
    balancer: Balancer,
    classes: Vec<ClassSpec>,
    highest_level: u8,
    limited: bool,
    scope: Scope,
    queues: WaitingQueues,
    admission: Admission,
    slots: Slots<Slot>,
    next_seq: u64,
    events: VecDeque<Event>,
    sizes: MeanSize,
    length: AveragedLength,
    drain: DrainRate,
    stats: Vec<ClassStats>,
    max_active: usize,
    repeats: Repeats,
    /// The shortage of places: whether requests found none at once a short while ago.
    shortage: Shortage,
    /// The queues of SRQ, if that orders.
    srq: Option<SrqPart<SrqState>>,
}

#[derive(Clone, Debug)]
struct Slot {
    state: RequestState,
    class: usize,
    /// The bytes that the request counts for at its endpoint.
    bytes: u64,
    hash: u64,
    random: u64,
    arrived: Time,
    /// The time at which the request came, or was to be tried again.
    placed: Time,
    /// The order in which requests came to the queue; once at an endpoint, that in which they came
    /// there.
    seq: u64,
    tried: Tried,
    /// The tried endpoints that gave the request no connection: it does not try them again.
    unreached: Tried,
    /// The endpoint that the request belongs to, if it belongs to one.
    session: Option<Session>,
    /// Whether the request counts towards the retry budget.
    repeated: bool,
    /// Whether the balancer has learnt the request's size.
    learnt: bool,
    /// Whether SRQ has the request begin in its second queue.
    is_large: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum RequestState {
    Vacant,
    /// The request waits in this queue.
    Waiting(usize),
    /// The request is served at this endpoint.
    Running(usize),
    /// The request has no place, between two attempts.
    Away,
}

impl Station {
    /// Creates a station that no request has come to.
    pub fn new(config: StationConfig) -> Self {
        let count = config.endpoints.len();
        let queues = match config.scope {
            Scope::Cluster => 1,
            Scope::Endpoint => count,
        };
        let classes = &config.classes;
        let levels = classes.iter().map(|class| class.level);
        let srq = match &config.order {
            Order::Srq(order) => {
                SrqPart::new(|| SrqState::new(order, config.max_requests, classes))
            }
            _ => None,
        };
        let mut endpoints = Endpoints::new(&config);
        endpoints.set_overcommit(srq.as_deref().and_then(SrqState::overcommit));
        Self {
            balancer: Balancer::new(&config.dispatch, &config.endpoints),
            endpoints,
            dispatch: config.dispatch.clone(),
            highest_level: levels.min().unwrap_or(0),
            limited: classes.iter().any(|c| c.max_concurrency < usize::MAX),
            scope: config.scope,
            queues: WaitingQueues::new(queues, &config),
            length: AveragedLength::new(config.admission.averaging),
            max_active: config.max_active,
            repeats: Repeats::new(config.retry_budget),
            slots: Slots::default(),
            next_seq: 0,
            events: VecDeque::new(),
            shortage: Shortage::default(),
            srq,
            sizes: MeanSize::default(),
            drain: DrainRate::default(),
            stats: vec![ClassStats::default(); classes.len()],
            admission: config.admission,
            classes: config.classes,
        }
    }

    /// Takes in a request that has come, and decides on it. `arrival.class` must be the index of a
    /// class.
    pub fn arrive(&mut self, now: Time, arrival: &Arrival) -> Verdict {
        self.arrive_in(now, arrival, None)
    }

    /// Takes in a request that has come and, if `session` says so, belongs to an endpoint.
    pub fn arrive_in(&mut self, now: Time, arrival: &Arrival, session: Option<Session>) -> Verdict {
        self.stats[arrival.class].arrived += 1;
        let verdict = self.take_in(now, arrival, session);
        if !matches!(verdict, Verdict::Start { .. }) {
            self.shortage.miss(now);
        }
        verdict
    }

    fn take_in(&mut self, now: Time, arrival: &Arrival, session: Option<Session>) -> Verdict {
        self.catch_up(now);
        if self.active() >= self.max_active {
            return Verdict::Refuse(self.refuse(arrival.class, RefusalReason::MaxRequests));
        }
        self.renew_places(now);
        let length = self.length.update(now, self.queues.total());
        let share = length / self.queues.capacity() as f64;
        let class = &self.classes[arrival.class];
        if let Err(reason) = (self.admission).admit(class, arrival, &self.sizes, share) {
            return Verdict::Refuse(self.refuse(arrival.class, reason));
        }
        let ticket = self.seat(now, arrival);
        self.slots[ticket.slot()].session = session;
        let verdict = self.place(now, ticket);
        if !matches!(verdict, Verdict::Refuse(_)) {
            self.learn(ticket, arrival.size);
        }
        verdict
    }

    /// Notes that the response to a request, of `bytes`, is over.
    pub fn finish(&mut self, now: Time, ticket: Ticket, bytes: u64) {
        let RequestState::Running(endpoint) = self.state(ticket) else {
            return;
        };
        self.catch_up(now);
        self.sizes.observe(bytes);
        self.learn(ticket, Size::Exact(bytes));
        self.drain.finished(now);
        self.endpoints.drained(now, endpoint);
        self.leave(now, ticket, true);
    }

    /// Frees the place of a request that has failed, or whose client has gone.
    pub fn cancel(&mut self, now: Time, ticket: Ticket) {
        // If it waits, first of all: it must not be told of a start.
        if let RequestState::Waiting(_) = self.state(ticket) {
            self.leave(now, ticket, false);
        }
        self.catch_up(now);
        self.leave(now, ticket, false);
    }

    /// Notes that the ticket's endpoint has been reached (a connection was opened to it). An
    /// endpoint that could not be reached before starts slowly.
    pub fn reached(&mut self, now: Time, ticket: Ticket) {
        if let RequestState::Running(endpoint) = self.state(ticket) {
            self.endpoints.reached(now, endpoint);
        }
    }

    /// Notes that the ticket's endpoint could not be reached: it is not there, or not well. (If the
    /// proxy may open no connection to it for the moment, this says nothing of the endpoint.)
    pub fn unreached(&mut self, ticket: Ticket) {
        if let RequestState::Running(endpoint) = self.state(ticket) {
            self.endpoints.failed(endpoint);
        }
    }

    /// Notes that more is known of the response's size.
    pub fn resize(&mut self, ticket: Ticket, size: Size) {
        let RequestState::Running(endpoint) = self.state(ticket) else {
            return;
        };
        let bytes = self.sizes.expected(size);
        let slot = &mut self.slots[ticket.slot()];
        let before = std::mem::replace(&mut slot.bytes, bytes);
        self.endpoints.resize(endpoint, before, bytes);
        self.learn(ticket, size);
    }

    /// Turns away the requests whose time in the queue is up, after SRQ has demoted those whose
    /// quanta are.
    pub fn expire(&mut self, now: Time) {
        self.catch_up(now);
        while let Some(slot) = self.queues.expired(now) {
            let ticket = self.ticket(slot);
            self.turn_out(now, ticket, RefusalReason::Timeout);
        }
        self.observe_waiting(now);
    }

    /// Returns when to call [`Station::expire`] next.
    pub fn next_wakeup(&self) -> Option<Time> {
        let expiry = self.queues.next_expiry();
        expiry.into_iter().chain(self.next_demotion()).min()
    }

    /// Returns the next event of a waiting request, if any. A driver calls it after each other
    /// call, until it returns `None`. A call that refuses one request may give its
    /// [`Ticket::index`] to another, so a driver hears the events before it notes a new ticket.
    pub fn poll(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns the counters of each class.
    pub fn stats(&self) -> &[ClassStats] {
        &self.stats
    }

    /// Returns the load of an endpoint: requests in service, and all its requests and expected
    /// bytes, those that wait for it included.
    pub fn load(&self, endpoint: usize) -> EndpointLoad {
        self.endpoints.load(endpoint)
    }

    /// Returns each endpoint's interval of sizes, from and to, inclusive; `None` if dispatch has
    /// none.
    pub fn intervals(&self) -> Option<&[(u64, u64)]> {
        self.balancer.intervals()
    }

    /// Returns whether a request that comes now need not wait, as far as endpoints go.
    pub fn has_room(&mut self, now: Time) -> bool {
        self.catch_up(now);
        let open = |&slot: &usize| self.endpoints.is_usable(slot) && self.endpoints.has_room(slot);
        self.queues.total() == 0 && self.endpoints.present().iter().any(open)
    }

    /// Returns whether requests need the places that others hold: all are taken, and a request
    /// waits, or a short while ago had to wait or was turned away.
    pub fn is_short_of_places(&mut self, now: Time) -> bool {
        let is_full = !self.has_room(now) || self.active() >= self.max_active;
        is_full && (self.shortage.lasts(now) || self.queues.total() > 0)
    }

    /// Returns the number of requests in service, waiting, or between two attempts.
    pub fn active(&self) -> usize {
        self.slots.len()
    }

    /// Returns the number of requests that wait.
    pub fn waiting(&self) -> usize {
        self.queues.total()
    }
}

#[cfg(test)]
mod tests;
