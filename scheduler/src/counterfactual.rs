//! What the same responses would have got without an order by size.
//!
//! What arrives at an [`Egress`] is shown to a second one, which has the same rate, classes
//! and costs on the wire, serves by [`Discipline::Fair`] in virtual time, and has nothing
//! written. So each response ends twice: when the link has its last byte, and when the
//! virtual link would have had it. [`Tally`] sums both up.
//!
//! Arrivals are taken as they were. A client that would have asked later, because what it
//! had asked for before would have come later, is not modelled: where clients wait for one
//! answer before they ask for the next, `fair` would have had fewer responses at a time than
//! it is shown.
//!
//! A response is never further on the virtual link than there was something to send: see
//! `Response::available_bytes`.

mod networks;
mod response;
mod tally;

use std::collections::VecDeque;
use std::time::Duration;

use crate::{
    Discipline, Egress, EgressPolicy, FlowId, FlowSpec, Grant, GroupId, Lane, Pacer, Time, WireCost,
};
pub use networks::{Network, Networks};
use response::{End, Response};
use tally::Took;
pub use tally::{LeftOut, Span, Tally, Times};

/// The most responses that are on the virtual link at a time. With their places in its
/// order they take some 8 MB.
const FLOWS_MAX: usize = 16_384;

/// The most grants that are made up for at once, some 3 s of the link. The virtual link has
/// that much to do while nothing happens on the real one only where responses were cut short
/// for which it had let others wait.
const STEPS_MAX: u32 = 10_000;

/// The time after which a response that its client slows down is looked at again.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The most responses that are looked at so. Others are looked at when something happens to
/// them on the real link.
const LOOKS_MAX: usize = 512;

/// A link of the same rate under `fair`, in virtual time, and the responses that are on it.
#[derive(Clone, Debug)]
pub struct Counterfactual {
    egress: Egress,
    /// The time that the virtual link has come to.
    at: Time,
    due: VirtualDue,
    /// The responses, by [`FlowId::index`] of the virtual link.
    responses: Vec<Response>,
    /// The flow of each on the virtual link, by [`FlowId::index`] of the real one.
    flows: Vec<Option<Twins<FlowId>>>,
    /// The groups on both links, by [`GroupId::index`] of the real one.
    groups: Vec<Option<Twins<GroupId>>>,
    /// Flows of the virtual link that time alone lets go on, and when they are looked at; the
    /// earliest first, [`LOOKS_MAX`] at most. Some have ended.
    watched: VecDeque<(Time, FlowId)>,
    tally: Tally,
}

/// The names of one and the same thing on both links.
#[derive(Clone, Copy, Debug)]
struct Twins<T> {
    real: T,
    fair: T,
}

/// The time at which the virtual link's next grant is due.
#[derive(Clone, Copy, Debug)]
enum VirtualDue {
    At(Time),
    Never,
    /// Something has happened since that was asked.
    Unknown,
}

/// Calls that tell of flows on the real link. A time that lies before one that was told
/// already counts as that.
impl Counterfactual {
    /// Returns the counterfactual of an uplink on which nothing is under way. Its sums are
    /// kept by size of the response: up to each of `bounds` in bytes, ascending, and above.
    pub fn new(now: Time, link: &Pacer, policy: &EgressPolicy, bounds: &[u64]) -> Self {
        let mut pacer = Pacer::exact(link.rate_bits_per_s());
        pacer.resume_at(link.free_at());
        Self {
            egress: Egress::new(pacer, fair(policy)),
            at: now,
            due: VirtualDue::Never,
            responses: Vec::new(),
            flows: Vec::new(),
            groups: Vec::new(),
            watched: VecDeque::new(),
            tally: Tally::new(bounds),
        }
    }

    /// Keeps sums by the clients' networks, too, for so many of them: those with the most
    /// responses. 0 tells none apart.
    pub fn tell_networks(&mut self, most: usize) {
        self.tally.networks.set_most(most);
    }

    /// Returns whether there is a difference to measure: `fair` is `fair`, and `fcfs` asks
    /// for no size either.
    pub fn is_of_use(discipline: &Discipline) -> bool {
        !matches!(discipline, Discipline::Fair | Discipline::Fcfs)
    }

    /// Opens a response's flow: from now on its time counts.
    pub fn open(&mut self, now: Time, id: FlowId, spec: FlowSpec) {
        self.advance(now);
        if let Some(fair) = self.enter(spec) {
            put(&mut self.flows, id.index(), Twins { real: id, fair });
        }
    }

    /// Opens the flow of a response on the virtual link, if that has a place.
    fn enter(&mut self, spec: FlowSpec) -> Option<FlowId> {
        let spec = FlowSpec {
            lane: self.lane(spec.lane),
            ..spec
        };
        let Ok(flow) = self.egress.open(self.at, spec) else {
            self.tally.left_out.crowded += 1;
            return None;
        };
        let response = Response::new(flow, self.at, &spec);
        match self.responses.get_mut(flow.index()) {
            Some(place) => *place = response,
            None => self.responses.push(response),
        }
        Some(flow)
    }

    /// Notes a response that was served at once on the real link, which has carried its
    /// `bytes` and all before at `free_at`; see [`Egress::serve_at_once`]. Where the virtual
    /// link serves it at once, too, it needs no flow there.
    pub fn serve_at_once(&mut self, now: Time, spec: FlowSpec, bytes: u64, free_at: Time) {
        self.advance(now);
        let sent_by = self.sent_by(spec.cost, bytes, free_at);
        if self.egress.serve_at_once(self.at, &spec, bytes) {
            let fair_by = self.egress.pacer().free_at();
            let took = Took {
                actual: sent_by.since(self.at),
                fair: fair_by.since(self.at),
            };
            return self.tally.add(self.at, bytes, spec.network, took);
        }
        let Some(flow) = self.enter(spec) else {
            return;
        };
        let response = &mut self.responses[flow.index()];
        response.grant(self.at, bytes, sent_by);
        response.complete();
        response.close(0);
        self.ask(flow);
    }

    /// Returns the lane on the virtual link, where a connection's group is opened with the
    /// first of its flows.
    fn lane(&mut self, lane: Lane) -> Lane {
        let Lane::Grouped(real, precedence) = lane else {
            return lane;
        };
        let known = self.groups.get(real.index()).copied().flatten();
        let group = match known.filter(|twins| twins.real == real) {
            Some(twins) => twins.fair,
            None => {
                let fair = self.egress.open_group();
                put(&mut self.groups, real.index(), Twins { real, fair });
                fair
            }
        };
        Lane::Grouped(group, precedence)
    }

    /// Ends a group of flows on both links; see [`Egress::close_group`].
    pub fn close_group(&mut self, now: Time, group: GroupId) {
        let place = self.groups.get_mut(group.index());
        if let Some(twins) = place.and_then(|place| place.take_if(|it| it.real == group)) {
            self.advance(now);
            self.egress.close_group(self.at, twins.fair);
            self.due = VirtualDue::Unknown;
        }
    }

    /// Notes that a flow waits for its turn, with `bytes` in hand.
    pub fn offer(&mut self, now: Time, id: FlowId, bytes: u64) {
        if let Some(flow) = self.find(now, id) {
            self.responses[flow.index()].offer(self.at, bytes);
            self.ask(flow);
        }
    }

    /// Notes what a flow is granted on the real link, which has carried all that it was
    /// given before at `free_at`.
    pub fn grant(&mut self, now: Time, id: FlowId, bytes: u64, free_at: Time) {
        let Some(flow) = self.find(now, id) else {
            return;
        };
        let cost = self.responses[flow.index()].cost;
        let sent_by = self.sent_by(cost, bytes, free_at);
        self.responses[flow.index()].grant(self.at, bytes, sent_by);
        self.ask(flow);
    }

    /// Returns when the real link has carried what it grants now, which says `free_at`: one that
    /// was idle has credit, and may say that it has carried the bytes before they were granted.
    fn sent_by(&self, cost: WireCost, bytes: u64, free_at: Time) -> Time {
        let alone = self.egress.pacer().time_for(cost.bytes(bytes));
        free_at.max(self.at + alone)
    }

    /// Settles a grant, of which `bytes` have been written; see [`Egress::written`].
    pub fn written(&mut self, now: Time, id: FlowId, granted: u64, bytes: u64) {
        if let Some(flow) = self.find(now, id) {
            self.responses[flow.index()].settle(granted, bytes);
            self.ask(flow);
        }
    }

    /// Notes that a source has nothing for now; see [`Egress::pause`].
    pub fn pause(&mut self, now: Time, id: FlowId) {
        if let Some(flow) = self.find(now, id) {
            self.responses[flow.index()].pause(self.at);
        }
    }

    /// Notes that all of a response has been offered; see [`Egress::complete`].
    pub fn complete(&mut self, id: FlowId) {
        if let Some(flow) = self.known(id) {
            self.responses[flow.index()].complete();
        }
    }

    /// Ends a response on the real link, with `unused` bytes that it was granted and has not
    /// written. If it is complete, it goes on on the virtual one until that has sent as much.
    pub fn close(&mut self, now: Time, id: FlowId, unused: u64) {
        let Some(flow) = self.find(now, id) else {
            return;
        };
        self.flows[id.index()] = None;
        match self.responses[flow.index()].close(unused) {
            End::Whole | End::Ahead => {}
            End::Stream => self.tally.left_out.streams += 1,
            End::Cut => {
                self.tally.left_out.cut += 1;
                return self.end(flow);
            }
        }
        // What it has left to send there it waits with already.
        self.finish(flow);
    }

    /// Returns the flow's name on the virtual link at `now`, if that has it.
    fn find(&mut self, now: Time, id: FlowId) -> Option<FlowId> {
        self.advance(now);
        self.known(id)
    }

    fn known(&self, id: FlowId) -> Option<FlowId> {
        let twins = self.flows.get(id.index()).copied().flatten()?;
        (twins.real == id).then_some(twins.fair)
    }
}

/// Calls that tell of the real link itself, and questions.
impl Counterfactual {
    /// Takes bytes off the link that went out under no grant; see [`Egress::debit`].
    pub fn debit(&mut self, now: Time, wire_bytes: u64) {
        self.advance(now);
        self.egress.debit(self.at, wire_bytes);
    }

    /// Gives back what was debited and did not go out; see [`Egress::refund`].
    pub fn refund(&mut self, now: Time, wire_bytes: u64) {
        self.advance(now);
        self.egress.refund(self.at, wire_bytes);
        self.due = VirtualDue::Unknown;
    }

    /// Changes the rate of both links; see [`Egress::set_rate`].
    pub fn set_rate(&mut self, now: Time, rate_bits_per_s: u64) {
        self.advance(now);
        self.egress.set_rate(self.at, rate_bits_per_s);
        self.due = VirtualDue::Unknown;
    }

    /// Takes time off the virtual link that the real one has lost, because its driver was late
    /// while something waited: that is no order's doing.
    pub fn lose(&mut self, from: Time, until: Time) {
        self.advance(from);
        let free_at = self.egress.pacer().free_at().max(self.at);
        self.egress.resume_at(free_at + until.since(self.at));
    }

    /// Announces a response on both links; see [`Egress::announce`].
    pub fn announce(&mut self, now: Time) {
        self.advance(now);
        self.egress.announce(self.at);
        self.due = VirtualDue::Unknown;
    }

    /// Retracts what was announced; see [`Egress::retract`].
    pub fn retract(&mut self, now: Time) {
        self.advance(now);
        self.egress.retract();
        self.due = VirtualDue::Unknown;
    }

    /// Follows a change of the classes; the discipline stays `fair`.
    pub fn reconfigure(&mut self, now: Time, policy: &EgressPolicy) {
        self.advance(now);
        self.egress.reconfigure(self.at, fair(policy));
        self.due = VirtualDue::Unknown;
    }

    /// Returns the sums of the responses that have ended on both links by `now`.
    pub fn tally(&mut self, now: Time) -> &Tally {
        self.advance(now);
        &self.tally
    }

    /// Returns the virtual link.
    pub fn egress(&self) -> &Egress {
        &self.egress
    }
}

/// An event on the real link.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LinkEvent<'a> {
    Open(Time, FlowId, FlowSpec),
    Offer(Time, FlowId, u64),
    AtOnce(Time, FlowSpec, u64, Time),
    Grant(Time, FlowId, u64, Time),
    Written(Time, FlowId, u64, u64),
    Pause(Time, FlowId),
    Complete(FlowId),
    Close(Time, FlowId, u64),
    CloseGroup(Time, GroupId),
    Debit(Time, u64),
    Refund(Time, u64),
    Announce(Time),
    Retract(Time),
    Lose(Time, Time),
    SetRate(Time, u64),
    Reconfigure(Time, &'a EgressPolicy),
}

/// A counterfactual that a desk tells of what happens. Told by a pointer to the code: a
/// program that compares nothing does not carry it.
#[derive(Clone, Debug)]
pub(crate) struct Compared {
    link: Box<Counterfactual>,
    tell: fn(&mut Counterfactual, LinkEvent<'_>),
}

impl Compared {
    pub(crate) fn new(link: Counterfactual) -> Self {
        Self {
            link: Box::new(link),
            tell: Counterfactual::hear,
        }
    }

    pub(crate) fn link(&mut self) -> &mut Counterfactual {
        &mut self.link
    }

    pub(crate) fn tell(&mut self, event: LinkEvent<'_>) {
        (self.tell)(&mut self.link, event);
    }
}

impl Counterfactual {
    fn hear(&mut self, event: LinkEvent<'_>) {
        match event {
            LinkEvent::Open(now, id, spec) => self.open(now, id, spec),
            LinkEvent::Offer(now, id, bytes) => self.offer(now, id, bytes),
            LinkEvent::AtOnce(now, spec, bytes, free_at) => {
                self.serve_at_once(now, spec, bytes, free_at);
            }
            LinkEvent::Grant(now, id, bytes, free_at) => self.grant(now, id, bytes, free_at),
            LinkEvent::Written(now, id, granted, bytes) => self.written(now, id, granted, bytes),
            LinkEvent::Pause(now, id) => self.pause(now, id),
            LinkEvent::Complete(id) => self.complete(id),
            LinkEvent::Close(now, id, unused) => self.close(now, id, unused),
            LinkEvent::CloseGroup(now, group) => self.close_group(now, group),
            LinkEvent::Debit(now, wire_bytes) => self.debit(now, wire_bytes),
            LinkEvent::Refund(now, wire_bytes) => self.refund(now, wire_bytes),
            LinkEvent::Announce(now) => self.announce(now),
            LinkEvent::Retract(now) => self.retract(now),
            LinkEvent::Lose(now, from) => self.lose(from, now),
            LinkEvent::SetRate(now, rate_bits_per_s) => self.set_rate(now, rate_bits_per_s),
            LinkEvent::Reconfigure(now, policy) => self.reconfigure(now, policy),
        }
    }
}

/// The virtual link, which is always behind the clock.
impl Counterfactual {
    /// Makes all grants that are due by `now`.
    fn advance(&mut self, now: Time) {
        for _ in 0..STEPS_MAX {
            let grant = match self.due {
                VirtualDue::At(at) => Some(at),
                VirtualDue::Never => None,
                VirtualDue::Unknown => self.egress.next_wakeup(),
            };
            let look = self.watched.front().map(|&(at, _)| at);
            let is_grant = grant.is_some_and(|grant| look.is_none_or(|look| grant <= look));
            let next = if is_grant { grant } else { look };
            let Some(next) = next.filter(|&next| next <= now) else {
                self.at = self.at.max(now);
                return;
            };
            self.at = self.at.max(next);
            match is_grant {
                true => self.step(),
                false => self.look(),
            }
        }
        self.at = self.at.max(now);
        self.give_up();
    }

    /// Makes a grant on the virtual link, where all is written that there is.
    fn step(&mut self) {
        let (flow, bytes) = match self.egress.grant(self.at) {
            Grant::Send { flow, bytes } => (flow, bytes),
            Grant::Wait { until } => return self.due = VirtualDue::At(until),
            Grant::Idle => return self.due = VirtualDue::Never,
        };
        self.due = VirtualDue::Unknown;
        let response = &mut self.responses[flow.index()];
        let bytes = bytes.min(response.available_bytes(self.at));
        self.egress.written(self.at, flow, bytes);
        response.grant_fairly(bytes, self.egress.pacer().free_at());
        if !self.finish(flow) {
            self.ask(flow);
        }
    }

    /// Looks at a flow again, which its client slows down.
    fn look(&mut self) {
        let Some((_, flow)) = self.watched.pop_front() else {
            return;
        };
        let response = &mut self.responses[flow.index()];
        if response.flow == flow {
            response.is_watched = false;
            self.ask(flow);
        }
    }

    /// Offers on the virtual link what a flow could send there. Where that is less than
    /// before it keeps its place: most of those that are held are back in a moment.
    fn ask(&mut self, flow: FlowId) {
        let response = &mut self.responses[flow.index()];
        let bytes = response.available_bytes(self.at);
        if bytes > response.asked_bytes {
            response.asked_bytes = bytes;
            self.egress.offer(self.at, flow, bytes);
            self.due = VirtualDue::Unknown;
        }
        let may_look = !response.is_watched && self.watched.len() < LOOKS_MAX;
        if may_look && response.is_slowed() {
            response.is_watched = true;
            self.watched.push_back((self.at + LOOK_EVERY, flow));
        }
    }

    /// Ends a response that is over on both links; returns whether it is.
    fn finish(&mut self, flow: FlowId) -> bool {
        let response = &self.responses[flow.index()];
        let is_over = response.is_over();
        if is_over {
            if let Some((bytes, took)) = response.times() {
                self.tally.add(self.at, bytes, response.network, took);
            }
            self.end(flow);
        }
        is_over
    }

    fn end(&mut self, flow: FlowId) {
        self.egress.close(self.at, flow);
        self.due = VirtualDue::Unknown;
    }

    /// Leaves out all responses that are under way: too much is to be made up for.
    fn give_up(&mut self) {
        self.tally.left_out.crowded += self.egress.open_flows() as u64;
        let policy = self.egress.policy().clone();
        let pacer = Pacer::exact(self.egress.pacer().rate_bits_per_s());
        self.egress = Egress::new(pacer, policy);
        self.due = VirtualDue::Never;
        self.responses.clear();
        self.flows.clear();
        self.groups.clear();
        self.watched.clear();
    }
}

/// Returns the policy of the virtual link: the same classes, each with its part of the link.
fn fair(policy: &EgressPolicy) -> EgressPolicy {
    EgressPolicy {
        max_flows: policy.max_flows.min(FLOWS_MAX),
        classes: policy.classes.clone(),
        ..EgressPolicy::new(Discipline::Fair)
    }
}

fn put<T: Clone>(places: &mut Vec<Option<T>>, index: usize, value: T) {
    if places.len() <= index {
        places.resize(index + 1, None);
    }
    places[index] = Some(value);
}

#[cfg(test)]
mod tests;
