//! A counterfactual: the times that the same responses would have had without an order by size.
//!
//! Each arrival at an [`Egress`] is shown to a second one, which has the same rate, classes and
//! costs on the wire. The second one serves by [`Discipline::Fair`] in virtual time, and writes
//! nothing. So each response ends twice: when the link has its last byte, and when the virtual
//! link would have had it. [`Tally`] sums both times up.
//!
//! Arrivals are taken as they were. Where clients wait for one answer before they ask for the
//! next, they would have asked later under `fair`, and fewer responses would have been under way
//! at a time than the virtual link is shown. That is not modelled.
//!
//! A response gets no further on the virtual link than it had bytes to send: see
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

/// The most grants that the virtual link catches up with at once, some 3 s of the link. It falls
/// that far behind an idle real link only if responses were cut short on that one for which it
/// had let others wait.
const STEPS_MAX: u32 = 10_000;

/// The time after which the virtual link looks again at a response that its client slows down.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The most responses that are looked at again in this way. Others are looked at when an event on
/// the real link concerns them.
const LOOKS_MAX: usize = 512;

/// A link of the same rate under `fair`, in virtual time, and the responses that are on it.
#[derive(Clone, Debug)]
pub struct Counterfactual {
    egress: Egress,
    /// The time that the virtual link has reached.
    at: Time,
    due: VirtualDue,
    /// The responses, by [`FlowId::index`] of the virtual link.
    responses: Vec<Response>,
    /// The flows of the responses on both links, by [`FlowId::index`] of the real one.
    flows: Vec<Option<Twins<FlowId>>>,
    /// The groups on both links, by [`GroupId::index`] of the real one.
    groups: Vec<Option<Twins<GroupId>>>,
    /// The flows of the virtual link that only time lets go on, each with when it is looked at:
    /// the earliest first, at most [`LOOKS_MAX`]. Some have ended.
    watched: VecDeque<(Time, FlowId)>,
    tally: Tally,
}

/// The names of the same flow or group on both links.
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
    /// The time is to be asked for again, since something has happened.
    Unknown,
}

/// Calls that report events of flows on the real link. A time before that of an earlier call
/// counts as that one.
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

    /// Keeps sums by the client's network, too, for the `most` networks with the most responses.
    /// With 0 no networks are told apart.
    pub fn tell_networks(&mut self, most: usize) {
        self.tally.networks.set_most(most);
    }

    /// Returns whether a discipline can differ from `fair` by an order by size: `fair` itself
    /// does not, and `fcfs` asks for no size either.
    pub fn is_of_use(discipline: &Discipline) -> bool {
        !matches!(discipline, Discipline::Fair | Discipline::Fcfs)
    }

    /// Opens a response's flow, whose time counts from now on.
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

    /// Notes a response that was served at once on the real link, which has carried its `bytes`
    /// and all before at `free_at`; see [`Egress::serve_at_once`]. If the virtual link serves it
    /// at once, too, it needs no flow there.
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

    /// Returns a flow's lane on the virtual link. A connection's group is opened there with the
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

    /// Ends a group of flows on the virtual link, as on the real one; see
    /// [`Egress::close_group`].
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

    /// Notes a grant to a flow on the real link, which has carried it and all before at
    /// `free_at`.
    pub fn grant(&mut self, now: Time, id: FlowId, bytes: u64, free_at: Time) {
        let Some(flow) = self.find(now, id) else {
            return;
        };
        let cost = self.responses[flow.index()].cost;
        let sent_by = self.sent_by(cost, bytes, free_at);
        self.responses[flow.index()].grant(self.at, bytes, sent_by);
        self.ask(flow);
    }

    /// Returns when the real link has carried the bytes that it grants now: at `free_at`, but not
    /// before it could carry them alone. A link that was idle has credit, so its `free_at` may
    /// lie before the grant.
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

    /// Notes that a response's source has nothing for now; see [`Egress::pause`].
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
    /// written. A complete response goes on on the virtual link until that has sent as much.
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

    /// Advances to `now`, and returns the flow's name on the virtual link, if that has it.
    fn find(&mut self, now: Time, id: FlowId) -> Option<FlowId> {
        self.advance(now);
        self.known(id)
    }

    fn known(&self, id: FlowId) -> Option<FlowId> {
        let twins = self.flows.get(id.index()).copied().flatten()?;
        (twins.real == id).then_some(twins.fair)
    }
}

/// Calls that report events of the real link itself, and queries.
impl Counterfactual {
    /// Debits the virtual link with bytes that went out under no grant; see [`Egress::debit`].
    pub fn debit(&mut self, now: Time, wire_bytes: u64) {
        self.advance(now);
        self.egress.debit(self.at, wire_bytes);
    }

    /// Gives the virtual link back what was debited and did not go out; see [`Egress::refund`].
    pub fn refund(&mut self, now: Time, wire_bytes: u64) {
        self.advance(now);
        self.egress.refund(self.at, wire_bytes);
        self.due = VirtualDue::Unknown;
    }

    /// Changes the rate of the virtual link with that of the real one; see [`Egress::set_rate`].
    pub fn set_rate(&mut self, now: Time, rate_bits_per_s: u64) {
        self.advance(now);
        self.egress.set_rate(self.at, rate_bits_per_s);
        self.due = VirtualDue::Unknown;
    }

    /// Takes the time between `from` and `until` off the virtual link. The real link has lost it
    /// because its driver was late while a flow waited, which is no order's doing.
    pub fn lose(&mut self, from: Time, until: Time) {
        self.advance(from);
        let free_at = self.egress.pacer().free_at().max(self.at);
        self.egress.resume_at(free_at + until.since(self.at));
    }

    /// Announces a response on the virtual link, as on the real one; see [`Egress::announce`].
    pub fn announce(&mut self, now: Time) {
        self.advance(now);
        self.egress.announce(self.at);
        self.due = VirtualDue::Unknown;
    }

    /// Retracts an announcement on the virtual link, as on the real one; see [`Egress::retract`].
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

    /// Returns the egress of the virtual link.
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

/// A desk's counterfactual, with the function that tells it of events. The desk calls that by a
/// pointer, so a program that compares nothing does not carry its code.
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

/// The grants of the virtual link, which are made when the next event is told.
impl Counterfactual {
    /// Makes all grants and looks that are due by `now`.
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

    /// Makes a grant on the virtual link, whose flow writes all that it has.
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

    /// Looks again at a flow that its client slows down.
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

    /// Offers on the virtual link the bytes that a flow could send there. If they are fewer than
    /// before, the flow keeps its place: most flows that are held go on in a moment.
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

    /// Ends a response on the virtual link if it is over on both, and returns whether it is.
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

    /// Leaves out all responses that are under way, since the virtual link is too far behind.
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
