//! The order: which of the flows that have something to write is next.
//!
//! The flows stand in a queue ([`Ready`]). One flow stands there for all of its connection's
//! group ([`FlowGroups`]), and one for all of its client where clients share the link
//! ([`Shares`]). A grant is charged to the flow's turn, or to its client's ([`Turns`]). A part of
//! what is granted goes to the flows that have waited longest ([`Floor`]), another to those
//! marked OUT ([`Marks`]). The flows that the fast path has refused take turns with all of them
//! ([`Express`]).

mod arbiter;
mod express;
mod floor;
mod front;
mod groups;
mod held;
mod marks;
mod place;
mod portion;
mod ready;
mod requests;
mod shares;
mod turns;
mod urgency;

use super::flows::{Flow, Flows, Granted};
use super::link::Link;
use super::types::{EgressPolicy, GroupId, Lane};
use crate::classes::ClassSpec;
use crate::discipline::Ranker;
use crate::queue::{Rank, RankQueue};
use crate::{Pacer, Size, Time, WireCost};
use express::Express;
pub use floor::MAX_FLOOR_PERCENT;
use floor::{Floor, rank_by_age};
use front::FrontChange;
use groups::{FlowGroups, LaneKey, Member};
use marks::Marks;
use place::Place;
use portion::Moved;
pub(super) use ready::Next;
use ready::Ready;
use shares::Shares;
use turns::{Newcomer, Turns};
pub use urgency::Urgency;

/// The most bands within a level.
const MAX_BANDS: usize = crate::cutoffs::MAX_CLASSES;

/// The flows that wait, in order.
#[derive(Clone, Debug)]
pub(super) struct FlowOrder {
    ranker: Ranker,
    /// The place of each flow, by slot.
    places: Vec<Place>,
    ready: Ready,
    express: Express,
    groups: FlowGroups,
    turns: Turns,
    shares: Shares,
    floor: Floor,
    marks: Marks,
    /// The classes' settings: whether each takes what the others leave, and its level.
    classes: Vec<(bool, u8)>,
    /// The number of responses that are going to come, see [`FlowOrder::announce`].
    announced: usize,
    /// The waiting flows whose keys change by themselves, ordered by when they do.
    changes: RankQueue,
}

impl FlowOrder {
    /// Returns an order of no flows. The policy has a class at least.
    pub(super) fn new(policy: &EgressPolicy, link: &Pacer) -> Self {
        let ranker = Ranker::new(policy.discipline.clone(), &policy.classes);
        let ready = ready(policy, &ranker, link);
        Self {
            places: Vec::new(),
            express: Express::default(),
            groups: FlowGroups::default(),
            turns: Turns::new(policy.classes.len() * MAX_BANDS),
            shares: shares(policy, &ranker),
            floor: floor(policy, &ranker, &ready),
            marks: Marks::new(policy, ready.is_arbited()),
            ready,
            classes: levels(&policy.classes),
            announced: 0,
            changes: RankQueue::default(),
            ranker,
        }
    }

    /// Orders by another policy from now on, which has all former classes. What the discipline
    /// has learnt is kept if it is the same. The flows that wait take their places, and rounds
    /// begin anew.
    pub(super) fn renew(
        &mut self,
        now: Time,
        flows: &mut Flows,
        link: &Link,
        policy: &EgressPolicy,
    ) {
        let is_same = *self.ranker.discipline() == policy.discipline;
        if !is_same {
            self.ranker = Ranker::new(policy.discipline.clone(), &policy.classes);
        } else if let Some(requests) = self.ranker.requests_mut() {
            requests.set_classes(&policy.classes);
        }
        let mut unused = link.pacer().clone();
        unused.resume_at(Time::ZERO);
        let mut ready = ready(policy, &self.ranker, &unused);
        ready.take_over(now, &self.ready);
        self.ready = ready;
        self.groups.clear();
        self.turns = Turns::new(policy.classes.len() * MAX_BANDS);
        self.shares = shares(policy, &self.ranker);
        self.floor = floor(policy, &self.ranker, &self.ready);
        self.marks = Marks::new(policy, self.ready.is_arbited());
        self.classes = levels(&policy.classes);
        for _ in 0..self.announced {
            self.ready.announce(now);
        }
        self.changes = RankQueue::default();
        for slot in flows.slots() {
            if flows.is_open(slot) {
                self.reopen(now, flows, slot);
                if !is_same {
                    self.enter_queues(&mut flows[slot]);
                }
            }
        }
        for slot in flows.slots() {
            if flows[slot].waits() {
                self.insert(now, flows, link, slot);
            }
        }
    }

    /// Takes in an open flow after a change of the policy. One that has begun keeps its place in
    /// its class's pool.
    fn reopen(&mut self, now: Time, flows: &mut Flows, slot: u32) {
        let flow = &mut flows[slot];
        flow.view.level = self.level(flow.class());
        flow.granted = Granted::InOrder;
        flow.is_against_in = false;
        let place = &mut self.places[slot as usize];
        place.leave_round();
        place.share = None;
        self.ready.open(now, flow.class());
        if self.ready.is_limited(flow.class()) && !flow.is_express {
            place.member = None;
            if flow.begun {
                self.ready.seat(flow.class(), slot);
            }
        }
        self.enter_share(flows, slot);
        self.marks.open_out(&flows[slot], slot);
    }

    /// Returns the class that a driver means by a number: the last one if the number is past it.
    pub(super) fn class(&self, class: usize) -> usize {
        class.min(self.classes.len() - 1)
    }

    /// Returns a class's level.
    pub(super) fn level(&self, class: usize) -> u8 {
        self.classes[class].1
    }

    /// Returns whether `other` goes before a class, or with it.
    pub(super) fn is_ahead(&self, other: usize, class: usize) -> bool {
        self.classes[other] <= self.classes[class]
    }

    /// Takes in a flow that is opened.
    pub(super) fn open(&mut self, now: Time, flows: &mut Flows, slot: u32, lane: Lane) {
        let flow = &mut flows[slot];
        self.note_size(flow.view.size);
        self.ready.open(now, flow.class());
        let mut place = Place::default();
        match lane {
            Lane::Express => flow.is_express = true,
            Lane::Grouped(group, precedence) if !self.ready.is_limited(flow.class()) => {
                place.member = self.groups.member(group, precedence);
            }
            Lane::Ordered | Lane::Grouped(..) => {}
        }
        match self.places.get_mut(slot as usize) {
            Some(former) => *former = place,
            None => self.places.push(place),
        }
        self.enter_queues(&mut flows[slot]);
        self.enter_share(flows, slot);
        self.marks.open_out(&flows[slot], slot);
    }

    /// Lets go of a flow that is closed.
    pub(super) fn close(&mut self, now: Time, flows: &mut Flows, slot: u32) {
        let flow = &flows[slot];
        // Nothing sent, nothing learnt: the client left before its turn.
        if !matches!(flow.view.size, Size::Exact(_)) && flow.view.attained > 0 {
            self.ranker.observe(flow.view.attained);
        }
        self.remove(now, flows, slot);
        self.leave_queues(&mut flows[slot]);
        let flow = &mut flows[slot];
        if let Some(share) = self.places[slot as usize].share.take() {
            self.shares.leave(share, flow.client, slot);
        }
        self.ready.close(flow.class(), slot);
        self.marks.close_out(flow);
    }

    /// Learns the size of a response, if it is exact.
    pub(super) fn note_size(&mut self, size: Size) {
        if let Size::Exact(bytes) = size {
            self.ranker.observe(bytes);
        }
    }

    pub(super) fn open_group(&mut self) -> GroupId {
        self.groups.open()
    }

    pub(super) fn close_group(
        &mut self,
        now: Time,
        flows: &mut Flows,
        link: &Link,
        group: GroupId,
    ) {
        for slot in self.groups.close(group) {
            self.insert(now, flows, link, slot);
        }
    }

    /// Notes that a response is going to come, of a class that takes more than what others leave.
    pub(super) fn announce(&mut self, now: Time) {
        self.announced += 1;
        self.ready.announce(now);
    }

    /// Notes that an announced response has come, or will not.
    pub(super) fn retract(&mut self) {
        self.announced = self.announced.saturating_sub(1);
        self.ready.retract();
    }

    /// Returns the payload bytes of a flow's next grant, at most.
    pub(super) fn quantum(&self, link: &Link, flow: &Flow) -> u64 {
        let bytes = self.quantum_of(link, flow.class(), flow.cost);
        bytes.min(self.marks.markable(flow))
    }

    /// Returns the payload bytes of a grant in a class, at such a cost, at most.
    pub(super) fn quantum_of(&self, link: &Link, class: usize, cost: WireCost) -> u64 {
        self.ready.quantum(link.pacer(), class, cost)
    }

    /// Counts the flows that wait.
    pub(super) fn len(&self) -> usize {
        self.ready.len() + self.groups.hidden() + self.shares.hidden() + self.express.len()
    }

    /// Counts the clients that share the link, if they do.
    pub(super) fn clients(&self) -> Option<usize> {
        self.shares.clients()
    }

    /// Returns a flow's present rank: in the fast path's lane by its arrival alone.
    pub(super) fn rank(&self, flow: &Flow) -> Rank {
        match flow.is_express {
            true => Express::rank(flow.view.seq),
            false => self.ranker.rank(&flow.view),
        }
    }

    pub(super) fn cutoffs(&self) -> &[u64] {
        self.ranker.cutoffs()
    }

    /// Returns the earliest time at which a flow may be granted bytes on a link that is free.
    pub(super) fn next_at(&self) -> Option<Time> {
        match self.express.len() {
            0 => self.ready.next_at(),
            _ => Some(Time::ZERO),
        }
    }

    /// Returns whether a class bounds how many of its flows are served at a time.
    pub(super) fn is_limited(&self, class: usize) -> bool {
        self.ready.is_limited(class)
    }

    /// Returns whether a flow has a place in its class's pool that another one waits for.
    pub(super) fn is_place_wanted(&self, class: usize, slot: u32) -> bool {
        self.ready.is_place_wanted(class, slot)
    }

    /// Returns whether no flow waits in the fast path's lane.
    pub(super) fn is_express_empty(&self) -> bool {
        self.express.len() == 0
    }
}

/// The queue, in which a flow stands by itself, or for others of its connection and of its
/// client.
impl FlowOrder {
    /// Puts a flow that has something to write in its place, or moves it there.
    pub(super) fn insert(&mut self, now: Time, flows: &mut Flows, link: &Link, slot: u32) {
        let flow = &mut flows[slot];
        if flow.is_express {
            self.express.join(slot, flow.view.seq);
            return;
        }
        self.advance(now, flow);
        self.marks.mark(&self.ready, link, flow);
        if self.ranker.takes_turns() {
            let round = flow.class() * MAX_BANDS + usize::from(self.ranker.band(&flow.view));
            let bytes = flow.offered_bytes.min(self.quantum(link, flow));
            let least = (self.ready).least_turn(flow.class(), self.ranker.rank(&flow.view));
            let newcomer = Newcomer {
                turn: flow.view.turn,
                wire_bytes: flow.cost.bytes(bytes),
                least,
            };
            let part = &mut self.places[slot as usize].part;
            flow.view.turn = self.turns.join(part, newcomer, round);
        }
        self.await_change(&flows[slot], slot);
        let flow = &flows[slot];
        let rank = self.ranker.rank(&flow.view);
        let attained = flow.view.attained;
        let (member, key) = self.membership(flow, slot);
        let change =
            member.and_then(|member| self.groups.insert(member, key, slot, rank, attained));
        match change {
            None => self.stand(now, flows, slot),
            Some(change) => self.follow_group(now, flows, change),
        }
    }

    /// Takes a flow that has nothing to write out of its place, if it has one.
    pub(super) fn remove(&mut self, now: Time, flows: &mut Flows, slot: u32) {
        self.turns.leave(&mut self.places[slot as usize].part);
        if flows[slot].is_express {
            self.express.leave(slot);
            return;
        }
        self.forget_change(slot);
        self.step_out(now, flows, slot);
        self.leave_group(now, flows, slot);
        // A client that has no other flow ready is out of its round.
        if let Some(share) = self.share(slot) {
            self.shares.rest(share);
        }
    }

    /// Puts a flow in the queue by its present rank, or among those of its client.
    fn stand(&mut self, now: Time, flows: &Flows, slot: u32) {
        let flow = &flows[slot];
        let rank = self.ranker.rank(&flow.view);
        match self.share(slot) {
            None => self.ready.insert(now, flow.class(), slot, rank),
            Some(share) => {
                let change = self.shares.insert(share, slot, rank);
                self.follow_client(now, flows, share, change);
            }
        }
        self.join_floor(flows, slot);
        self.marks.join_out(&self.ready, flow, slot, rank);
    }

    /// Takes a flow out of the queue, but not out of its group.
    fn step_out(&mut self, now: Time, flows: &Flows, slot: u32) {
        let flow = &flows[slot];
        match self.share(slot) {
            None => self.ready.remove(flow.class(), slot),
            Some(share) => {
                let change = self.shares.remove(share, slot);
                self.follow_client(now, flows, share, change);
            }
        }
        self.leave_floor(flows, slot);
        self.marks.leave_out(flow, slot);
    }

    /// Takes a flow that is not in the queue out of its group, where another may take its place
    /// in the queue.
    fn leave_group(&mut self, now: Time, flows: &mut Flows, slot: u32) {
        let (member, key) = self.membership(&flows[slot], slot);
        let change = member.and_then(|member| self.groups.remove(member, key, slot));
        if let Some(change) = change {
            self.follow_group(now, flows, change);
        }
    }

    /// Follows a change of the flow that stands in the queue for its group.
    fn follow_group(&mut self, now: Time, flows: &mut Flows, change: FrontChange) {
        if let Some(out) = change.out {
            self.step_out(now, flows, out);
        }
        if let Some(slot) = change.into {
            let flow = &mut flows[slot];
            flow.view.turn = (self.turns).show(&self.places[slot as usize].part, flow.view.turn);
            self.stand(now, flows, slot);
        }
    }

    /// Returns the place of a flow's client, where clients share the link.
    fn share(&self, slot: u32) -> Option<u32> {
        self.places[slot as usize].share
    }

    /// Returns a flow's place in its connection's group, if it is in one, and the key of the
    /// flows in the group with which it is compared.
    fn membership(&self, flow: &Flow, slot: u32) -> (Option<Member>, LaneKey) {
        let place = &self.places[slot as usize];
        let (class, share) = (flow.class(), place.share);
        (place.member, LaneKey { class, share })
    }

    /// Gives a flow that has been opened its client's place, if the flow's class has such places.
    fn enter_share(&mut self, flows: &Flows, slot: u32) {
        let flow = &flows[slot];
        if self.shares.is_on() && !flow.is_express && !self.ready.is_limited(flow.class()) {
            let ranks = |other| {
                let other: &Flow = &flows[other];
                (self.ranker.rank(&other.view), rank_by_age(other))
            };
            let share = (self.shares).enter(flow.class(), flow.client, slot, ranks);
            self.places[slot as usize].share = Some(share);
        }
    }

    /// Follows a change of the flow that stands in the queue for its client.
    fn follow_client(&mut self, now: Time, flows: &Flows, share: u32, change: FrontChange) {
        if let Some(out) = change.out {
            self.ready.remove(flows[out].class(), out);
        }
        if change.into.is_some() {
            self.show_client(now, flows, share);
        }
    }

    /// Puts a client's first flow in the queue, at the client's present turn.
    fn show_client(&mut self, now: Time, flows: &Flows, share: u32) {
        let Some((slot, turn)) = self.shares.shown(share) else {
            return;
        };
        let flow = &flows[slot];
        let rank = Rank {
            level: flow.view.level,
            band: 0,
            key: turn,
            seq: flow.view.seq,
        };
        self.ready.insert(now, flow.class(), slot, rank);
    }
}

/// The calls that keep the flows' marks.
impl FlowOrder {
    /// Counts a flow that has something to write again as new, if it was idle for too long.
    pub(super) fn wake(&self, now: Time, flow: &mut Flow) {
        self.marks.wake(now, flow);
    }

    /// Marks the bytes that a flow is granted.
    pub(super) fn pass(&self, now: Time, flow: &mut Flow, bytes: u64) {
        self.marks.pass(now, flow, bytes);
    }

    /// Takes back `bytes` of a flow's grant that it has not written; with `is_whole` they are the
    /// whole grant.
    pub(super) fn unpass(&self, flow: &mut Flow, bytes: u64, is_whole: bool) {
        self.marks.unpass(flow, bytes, is_whole);
    }

    /// Counts bytes that a flow has written under no grant.
    pub(super) fn count_unmarked(&self, flow: &mut Flow, bytes: u64) {
        self.marks.count_unmarked(flow, bytes);
    }
}

/// The choice of the next flow, and what a grant costs.
impl FlowOrder {
    /// Takes the next flow out of the queue to be granted something.
    pub(super) fn take(&mut self, now: Time, flows: &mut Flows, link: &Link) -> Next {
        self.catch_up(now, flows, link);
        let slot = match self.next(now, link.pacer().next_grant_at()) {
            Next::Slot(slot) if flows[slot].is_express => slot,
            Next::Slot(first) => {
                let slot = self.or_longest_waiting(now, flows, first);
                self.or_marked_out(now, flows, slot, first)
            }
            other => return other,
        };
        if let Some(share) = self.share(slot) {
            self.shares.take(share, slot);
        }
        self.forget_change(slot);
        self.leave_group(now, flows, slot);
        Next::Slot(slot)
    }

    /// Returns the flow to serve in place of `first`, which is to be served and has been taken
    /// out of the queue: `first` itself, or the first flow marked OUT if OUT is behind its part.
    /// `displaced` is the flow in whose place `first` goes already, or `first` itself.
    fn or_marked_out(&mut self, now: Time, flows: &mut Flows, first: u32, displaced: u32) -> u32 {
        if self.marks.is_out_off() {
            return first;
        }
        self.marks.leave_out(&flows[first], first);
        let (mut slot, mut before) = (first, displaced);
        if first == displaced
            && let Some(other) = self.marks.out_due(&flows[first])
        {
            self.stand(now, flows, first);
            self.step_out(now, flows, other);
            flows[other].granted = Granted::InOrder;
            (slot, before) = (other, first);
        }
        flows[slot].is_against_in = self.marks.goes_against_in(&flows[before], &flows[slot]);
        slot
    }

    /// Finds the next flow: that of the fast path's lane in its turn, or when no other flow can
    /// take its own.
    fn next(&mut self, now: Time, free_at: Time) -> Next {
        if free_at > now && self.len() > 0 {
            return Next::At(free_at);
        }
        if let Some(slot) = self.express.take_turn() {
            return Next::Slot(slot);
        }
        match self.ready.next(now) {
            Next::Slot(slot) => Next::Slot(slot),
            other => self.express.take().map_or(other, Next::Slot),
        }
    }

    /// Charges a flow that was taken with its grant.
    pub(super) fn charge(
        &mut self,
        now: Time,
        flows: &mut Flows,
        link: &Link,
        slot: u32,
        wire_bytes: u64,
    ) {
        let flow = &mut flows[slot];
        if flow.is_express {
            self.express.served(wire_bytes);
            return;
        }
        self.express.passed(wire_bytes);
        (self.ready).debit(now, flow.class(), wire_bytes, link.pacer());
        (self.ready).charge(flow.class(), &self.ranker.rank(&flow.view), wire_bytes);
        match self.share(slot) {
            None => {
                let part = &mut self.places[slot as usize].part;
                flow.view.turn = self.turns.grant(part, flow.view.turn, wire_bytes);
            }
            Some(share) => {
                let is_early = flow.granted != Granted::InOrder;
                let part = self.shares.grant(now, share, wire_bytes, is_early);
                self.places[slot as usize].part = part;
                self.show_client(now, flows, share);
                self.renew_age(flows, share);
            }
        }
        self.count_moved(now, flows, slot, Moved::Out(wire_bytes));
    }

    /// Returns whether a response that comes may be served at once and leave nothing behind that
    /// concerns later flows. That is so if no flow waits, and no bound or portion is kept for
    /// classes, clients, queues or marks.
    pub(super) fn is_free(&self) -> bool {
        self.len() == 0
            && !self.ready.is_arbited()
            && !self.shares.is_on()
            && self.ranker.requests().is_none()
            && self.marks.is_off()
    }

    /// Charges a class with a response that is served at once.
    pub(super) fn charge_at_once(&mut self, now: Time, class: usize, wire_bytes: u64) {
        self.express.passed(wire_bytes);
        self.count_alone_for_floor(now, class, wire_bytes);
    }

    /// Charges a flow with what it has written beyond its grant.
    pub(super) fn charge_more(
        &mut self,
        now: Time,
        flows: &mut Flows,
        link: &Link,
        slot: u32,
        wire_bytes: u64,
    ) {
        let flow = &mut flows[slot];
        if flow.is_express {
            return;
        }
        (self.ready).debit(now, flow.class(), wire_bytes, link.pacer());
        (self.ready).charge(flow.class(), &self.ranker.rank(&flow.view), wire_bytes);
        let (share, part) = (self.share(slot), &self.places[slot as usize].part);
        match share {
            None => flow.view.turn = self.turns.extend(part, flow.view.turn, wire_bytes),
            Some(share) => {
                self.shares.extend(share, part, wire_bytes);
                self.show_client(now, flows, share);
            }
        }
        self.count_moved(now, flows, slot, Moved::Out(wire_bytes));
    }

    /// Gives back bytes that a flow was charged with and did not write.
    pub(super) fn give_back(&mut self, now: Time, flows: &mut Flows, slot: u32, wire_bytes: u64) {
        let flow = &mut flows[slot];
        if flow.is_express {
            return;
        }
        self.ready.refund(now, flow.class(), wire_bytes);
        (self.ready).refund_queue(flow.class(), &self.ranker.rank(&flow.view), wire_bytes);
        let (share, part) = (self.share(slot), &self.places[slot as usize].part);
        match share {
            None => flow.view.turn = self.turns.refund(part, flow.view.turn, wire_bytes),
            Some(share) => {
                self.shares.refund(share, part, wire_bytes);
                self.show_client(now, flows, share);
            }
        }
        self.count_moved(now, flows, slot, Moved::Back(wire_bytes));
    }

    /// Counts bytes that a flow was granted, or has given back, towards what is owed to portions.
    fn count_moved(&mut self, now: Time, flows: &Flows, slot: u32, moved: Moved) {
        self.count_for_floor(now, flows, slot, moved);
        self.marks.count_out(&flows[slot], moved);
    }
}

fn levels(classes: &[ClassSpec]) -> Vec<(bool, u8)> {
    classes.iter().map(|c| (c.idle_only, c.level)).collect()
}

/// Returns the set of ready flows that the policy needs, which is empty.
fn ready(policy: &EgressPolicy, ranker: &Ranker, link: &Pacer) -> Ready {
    let by_terms = ranker.requests().is_some();
    Ready::new(&policy.classes, by_terms, link, first_share(ranker))
}

/// Returns the percentage of the link for the first of SRQ's queues, if the discipline has
/// queues.
fn first_share(ranker: &Ranker) -> Option<u8> {
    let (queues, _) = ranker.requests()?.queues()?;
    Some(queues.config().first_share_percent)
}

/// Returns the policy's shares, which are off under disciplines that have flows take turns.
fn shares(policy: &EgressPolicy, ranker: &Ranker) -> Shares {
    let is_on = policy.share_between_clients && ranker.discipline().knows_clients();
    Shares::new(is_on, policy.classes.len())
}

/// Returns the policy's floor.
fn floor(policy: &EgressPolicy, ranker: &Ranker, ready: &Ready) -> Floor {
    Floor::new(
        policy.floor_percent,
        ranker.may_starve(),
        ready.is_arbited(),
        &levels(&policy.classes),
    )
}
