//! The uplink: which flow may send next, how much, and when.
//!
//! A driver opens a flow for each response, says how much of it could be written at once
//! ([`Egress::offer`]), asks whose turn it is ([`Egress::grant`]), writes, and says what was
//! written ([`Egress::written`]). A flow that cannot send, because its client's window is closed
//! or its backend is slow, offers nothing, and is passed over rather than waited for.
//! [`Desk`](crate::Desk) does this for drivers whose writers wait for their turns.
//!
//! It has layers, each of which knows only those before it: `flows` has what is known of each
//! flow; `link` has the clock, and what may go past the queue; `order` finds the next flow;
//! `ledger` counts what has been granted and is left.

mod flows;
mod ledger;
mod link;
mod order;
mod survey;
mod types;

use std::time::Duration;

use crate::discipline::FlowView;
use crate::srq::{Progress, Queues};
#[cfg(doc)]
use crate::{ClassSpec, Discipline};
use crate::{Mark, Pacer, Size, Time, WireCost};
use flows::{Flow, Flows};
use ledger::Ledger;
use link::Link;
pub use link::MADE_UP_MAX;
use order::{FlowOrder, Next};
pub use order::{MAX_FLOOR_PERCENT, Urgency};
pub use survey::{FlowState, Survey, SurveyedFlow};
pub use types::{
    AtCapacity, EgressClassStats, EgressPolicy, EgressStats, FlowId, FlowSpec, Grant, Grants,
    GroupId, Lane, Precedence,
};

/// The scheduler of one uplink: its flows, their order, the link's clock and the ledger.
#[derive(Clone, Debug)]
pub struct Egress {
    flows: Flows,
    link: Link,
    order: FlowOrder,
    ledger: Ledger,
    policy: EgressPolicy,
    /// The number of the next flow, by which ties are decided.
    next_seq: u64,
    /// The flow that was granted bytes last.
    granted_last: Option<FlowId>,
}

/// The calls for a flow, from its opening to its end.
impl Egress {
    /// Returns an uplink with no flows.
    pub fn new(link: Pacer, policy: EgressPolicy) -> Self {
        let policy = policy.bounded(0);
        Self {
            flows: Flows::default(),
            order: FlowOrder::new(&policy, &link),
            link: Link::new(link, policy.guard_factor),
            ledger: Ledger::new(policy.classes.len()),
            policy,
            next_seq: 0,
            granted_last: None,
        }
    }

    /// Opens a flow for a new response, which is in no queue until [`Egress::offer`].
    ///
    /// # Errors
    ///
    /// As many flows are open as [`EgressPolicy::max_flows`] allows.
    pub fn open(&mut self, now: Time, spec: FlowSpec) -> Result<FlowId, AtCapacity> {
        let max_flows = self.policy.max_flows;
        if self.open_flows() >= max_flows {
            return Err(AtCapacity { max_flows });
        }
        let class = self.order.class(spec.class);
        let view = FlowView {
            level: self.order.level(class),
            seq: self.next_seq,
            arrival: now,
            size: spec.size,
            attained: 0,
            turn: 0,
            // Classes are few.
            class: class as u8,
            progress: Progress::default(),
            mark: Mark::In,
        };
        self.next_seq += 1;
        let flow = Flow::new(now, &spec, view);
        let id = self.flows.insert(flow);
        self.order.open(now, &mut self.flows, id.slot(), spec.lane);
        self.ledger.open(&mut self.flows[id.slot()]);
        Ok(id)
    }

    /// Puts a flow in the queue with the `bytes` that it could write at once, all together and
    /// not in addition to earlier ones. With 0 it waits no longer. Bytes that it was granted
    /// before count as written.
    pub fn offer(&mut self, now: Time, id: FlowId, bytes: u64) {
        let Some(flow) = self.flows.get_mut(id) else {
            return;
        };
        if self.granted_last == Some(id) {
            self.link.end_turn();
        }
        let written = std::mem::take(&mut flow.granted_bytes);
        flow.view.attained = flow.view.attained.saturating_add(written);
        if flow.offered_bytes == 0 {
            flow.offered_since = now;
            self.order.wake(now, flow);
        }
        flow.offered_bytes = bytes;
        let (progress, attained) = (flow.view.progress, flow.view.attained);
        if bytes > 0 && flow.end_pause(now, self.link.pacer(), self.next_seq) {
            self.next_seq += 1;
            self.order.begin_anew(flow, progress, attained);
        }
        self.ledger.recount(flow);
        match bytes {
            0 => self.order.remove(now, &mut self.flows, id.slot()),
            _ => self.enqueue(now, id.slot()),
        }
        self.observe(now);
    }

    /// Tells the order how much waits, if it depends on that.
    fn observe(&mut self, now: Time) {
        if self.order.observes() {
            let backlog = self.backlog(now);
            (self.order).observe(now, &mut self.flows, &self.link, backlog);
        }
    }

    fn enqueue(&mut self, now: Time, slot: u32) {
        self.order.insert(now, &mut self.flows, &self.link, slot);
    }

    /// Makes the next grant, to the flow whose turn it is. Call this until it returns something
    /// other than [`Grant::Send`].
    pub fn grant(&mut self, now: Time) -> Grant {
        self.observe(now);
        if self.link.has_turn(now) && self.order.len() > 0 {
            let until = self.link.next_grant_at();
            return Grant::Wait { until };
        }
        let slot = match self.order.take(now, &mut self.flows, &self.link) {
            Next::Slot(slot) => slot,
            Next::At(until) => {
                self.link.rest(now, Some(until));
                return Grant::Wait { until };
            }
            Next::Idle => {
                self.link.rest(now, None);
                return Grant::Idle;
            }
        };
        let flow = &mut self.flows[slot];
        let bytes = match self.policy.grants {
            Grants::Quanta => flow.offered_bytes.min(self.order.quantum(&self.link, flow)),
            Grants::Whole => flow.offered_bytes,
        };
        let wire_bytes = flow.cost.bytes(bytes);
        let has_rest = flow.offered_bytes > bytes;
        flow.granted_bytes = bytes;
        flow.offered_bytes = 0;
        flow.begun = true;
        flow.served_at = now;
        self.order.pass(now, flow, bytes);
        self.link.take_awaited(now, wire_bytes);
        (self.order).charge(now, &mut self.flows, &self.link, slot, wire_bytes);
        (self.ledger).grant(&mut self.flows[slot], bytes, wire_bytes);
        if !has_rest && self.flows[slot].unsent_bytes == 0 {
            // As far as known it does not ask again.
            self.link.end_turn();
        }
        let flow = self.flows.id(slot);
        self.granted_last = Some(flow);
        Grant::Send { flow, bytes }
    }

    /// Serves a response at once without a flow, if it may, and returns whether it did. The
    /// response must be of exact size and have all of its `bytes` in hand. No flow may wait, the
    /// link must be free, and one grant must cover the bytes.
    ///
    /// What comes later finds the same as if the response had had a flow that is closed. Only a
    /// round is not moved on where flows take turns, since no flow was in it.
    pub fn serve_at_once(&mut self, now: Time, spec: &FlowSpec, bytes: u64) -> bool {
        let class = self.order.class(spec.class);
        let is_covered = || match self.policy.grants {
            Grants::Quanta => bytes <= self.order.quantum_of(&self.link, class, spec.cost),
            Grants::Whole => true,
        };
        let may = bytes > 0
            && matches!(spec.size, Size::Exact(_))
            && self.order.is_free()
            && spec.lane != Lane::Express
            && self.link.next_grant_at() <= now
            && self.open_flows() < self.policy.max_flows
            && is_covered();
        if may {
            let wire_bytes = spec.cost.bytes(bytes);
            self.order.note_size(spec.size);
            self.link.take(now, wire_bytes);
            self.order.charge_at_once(now, class, wire_bytes);
            self.ledger.count_at_once(class, bytes, wire_bytes);
        }
        may
    }

    /// Settles a grant, of which `bytes` have been written. Bytes that were not are given back. A
    /// flow that has written more, because it cannot cut what it has, is charged with the rest.
    pub fn written(&mut self, now: Time, id: FlowId, bytes: u64) {
        let Some(flow) = self.flows.get_mut(id) else {
            return;
        };
        if self.granted_last == Some(id) {
            self.link.end_turn();
        }
        let granted = std::mem::take(&mut flow.granted_bytes);
        flow.view.attained = flow.view.attained.saturating_add(bytes);
        let (was, is) = (flow.cost.bytes(granted), flow.cost.bytes(bytes));
        if bytes < granted {
            let unused = was - is;
            (self.order).unpass(flow, granted - bytes, bytes == 0);
            self.link.give_back(now, unused);
            (self.order).give_back(now, &mut self.flows, id.slot(), unused);
            let flow = &mut self.flows[id.slot()];
            self.ledger.give_back(flow, granted - bytes, unused);
        } else if bytes > granted {
            let beyond = is - was;
            self.order.count_unmarked(flow, bytes - granted);
            self.link.take(now, beyond);
            (self.order).charge_more(now, &mut self.flows, &self.link, id.slot(), beyond);
            let flow = &mut self.flows[id.slot()];
            self.ledger.extend(flow, bytes - granted, beyond);
            if flow.waits() {
                self.enqueue(now, id.slot());
            }
        }
    }

    /// Ranks a flow anew by the size of its whole response, which has become known, or known
    /// better. What was sent before a pause that began the flow anew is no part of what it ranks
    /// by.
    pub fn resize(&mut self, now: Time, id: FlowId, size: Size) {
        let Some(flow) = self.flows.get_mut(id) else {
            return;
        };
        let size = flow.size_since_pause(size);
        if !matches!(flow.view.size, Size::Exact(_)) {
            self.order.note_size(size);
        }
        flow.view.size = size;
        self.ledger.recount(flow);
        if flow.waits() {
            self.enqueue(now, id.slot());
        }
    }

    /// Notes that a flow's source has nothing to write for now; a client that takes no more is no
    /// pause.
    ///
    /// What comes after a pause of 100 ms is ranked as a flow of unknown size that has just been
    /// opened. So is what comes after 10 ms, if the size is unknown and the flow has had at most
    /// a tenth of what the link carries since the pause before. A flow whose size is known
    /// exactly is no stream, and has no pauses. A size that becomes known exactly in a pause stays
    /// so, and an estimate outlasts a pause before the first byte.
    pub fn pause(&mut self, now: Time, id: FlowId) {
        if let Some(flow) = self.flows.get_mut(id) {
            flow.pause(now);
        }
    }

    /// Notes that all of a response has been offered: it is complete once that is written. A
    /// response whose size is known exactly is complete without this call, when it has sent as
    /// much. A response that ends before it is complete is in no statistics of
    /// [`Discipline::Srq`]'s.
    pub fn complete(&mut self, id: FlowId) {
        if let Some(flow) = self.flows.get_mut(id) {
            flow.is_complete = true;
        }
    }

    /// Counts towards a flow's mark `bytes` of its response that went out ahead of it, under no
    /// grant of its own.
    pub fn count_ahead(&mut self, now: Time, id: FlowId, bytes: u64) {
        let Some(flow) = self.flows.get_mut(id) else {
            return;
        };
        self.order.count_unmarked(flow, bytes);
        if flow.waits() {
            self.enqueue(now, id.slot());
        }
    }

    /// Ends a response, whether complete or cut short. What was granted and not written is
    /// given back.
    pub fn close(&mut self, now: Time, id: FlowId) {
        if let Some(flow) = self.flows.get_mut(id) {
            flow.is_complete &= flow.offered_bytes == 0 && flow.granted_bytes == 0;
        }
        self.written(now, id, 0);
        let Some(flow) = self.flows.get_mut(id) else {
            return;
        };
        flow.offered_bytes = 0;
        self.order.close(now, &mut self.flows, id.slot());
        self.flows.remove(id.slot());
        self.ledger.close(&mut self.flows[id.slot()]);
        self.observe(now);
    }

    /// Opens a group for a connection whose client says which of its responses it wants
    /// first; see [`Lane::Grouped`].
    pub fn open_group(&mut self) -> GroupId {
        self.order.open_group()
    }

    /// Ends the group of a connection that is gone. Its flows stand by themselves from then on.
    pub fn close_group(&mut self, now: Time, group: GroupId) {
        (self.order).close_group(now, &mut self.flows, &self.link, group);
    }

    /// Orders by another policy from now on. Open flows stay, each in the class of its
    /// number; those that wait get their place in the new order, and a round robin begins
    /// anew, of flows or of clients. Nothing that was debited is forgotten.
    pub fn reconfigure(&mut self, now: Time, policy: EgressPolicy) {
        self.policy = policy.bounded(self.policy.classes.len());
        self.link.set_guard_factor(self.policy.guard_factor);
        self.ledger.resize(self.policy.classes.len());
        (self.order).renew(now, &mut self.flows, &self.link, &self.policy);
    }
}

/// Bytes that go past the queue, and changes of the link.
impl Egress {
    /// Decides whether something small may go ahead of everything: a handshake, an interim or
    /// bodiless response, a local reply, a head whose size is not yet known. If so, its
    /// `wire_bytes` are debited. If not (TOCS03 2.2.3), it waits for its turn in a flow of
    /// [`Lane::Express`], as all do that come while one waits there.
    ///
    /// What goes ahead takes half of the link at most, and a burst of 100 ms.
    pub fn fast_path(&mut self, now: Time, wire_bytes: u64) -> bool {
        let admitted = self.note_arrival(now);
        let ahead =
            admitted && self.order.is_express_empty() && self.link.take_ahead(now, wire_bytes);
        if ahead {
            self.debit(now, wire_bytes);
        } else {
            self.ledger.stats.fast_path_refusals += 1;
        }
        ahead
    }

    /// Debits the set-up of a connection, which the kernel has done and nothing can hold back. It
    /// counts as an arrival on the fast path.
    pub fn connect(&mut self, now: Time, wire_bytes: u64) {
        self.note_arrival(now);
        self.debit(now, wire_bytes);
    }

    /// Shows an arrival to the guard, and returns whether the guard lets it go ahead.
    fn note_arrival(&mut self, now: Time) -> bool {
        let admitted = self.link.note_arrival(now);
        self.ledger.stats.guard_trips = self.link.guard_trips();
        admitted
    }

    /// Debits `wire_bytes` that went out under no grant, such as the kernel's own
    /// acknowledgements.
    ///
    /// The link waits for them, within bounds: such debits never move its clock
    /// further ahead than 100 ms, or 10 full segments where these take longer,
    /// and take four fifths of its time at most. What is beyond is counted
    /// as overhead and otherwise forgotten.
    pub fn debit(&mut self, now: Time, wire_bytes: u64) {
        let taken = self.link.take_ungranted(now, wire_bytes);
        self.ledger.debit(wire_bytes, taken);
    }

    /// Gives back `wire_bytes` of what was debited, which did not go out.
    pub fn refund(&mut self, now: Time, wire_bytes: u64) {
        self.link.give_back(now, wire_bytes);
        self.ledger.refund(wire_bytes);
    }

    /// Announces a response of a class that is not `idle_only`: a connection has been accepted,
    /// or a request is with a backend. Idle-only classes wait for it as they do for one that has
    /// begun: until [`Egress::retract`], or until no response has shown a sign of life for 5 ms.
    pub fn announce(&mut self, now: Time) {
        self.order.announce(now);
    }

    /// Retracts the announcement of a response, whose flow is open or will not be.
    pub fn retract(&mut self) {
        self.order.retract();
    }

    /// Changes the link's rate, in bits per second on the wire.
    pub fn set_rate(&mut self, now: Time, rate_bits_per_s: u64) {
        self.link.set_rate(now, rate_bits_per_s);
    }

    /// Sets the time at which all that is debited will have left, taken over from another driver
    /// that debits the same link.
    pub fn resume_at(&mut self, free_at: Time) {
        self.link.resume_at(free_at);
    }
}

/// Queries of the egress's state, which change nothing.
impl Egress {
    /// Returns when to call [`Egress::grant`] again if nothing else happens.
    pub fn next_wakeup(&self) -> Option<Time> {
        let at = self.order.next_at()?;
        Some(self.link.next_grant_at().max(at))
    }

    /// Returns the time for which all that the open flows have left, as far as known, would
    /// occupy the link: its load (SDIS02 3.2, for overload of the channel).
    pub fn backlog(&self, now: Time) -> Duration {
        self.time_until_sent(now, |_| true)
    }

    /// Returns the part of [`Egress::backlog`] that goes before a class or with it.
    pub fn backlog_ahead(&self, now: Time, class: usize) -> Duration {
        let class = self.order.class(class);
        self.time_until_sent(now, |other| self.order.is_ahead(other, class))
    }

    fn time_until_sent(&self, now: Time, counts: impl Fn(usize) -> bool) -> Duration {
        let bytes = self.ledger.unsent_bytes(counts);
        let wire_bytes = WireCost::ETHERNET_IPV4.bytes(bytes);
        self.link.time_until_sent(now, wire_bytes)
    }

    /// Returns the payload bytes of a quantum: the most that one grant covers of a flow in the
    /// class, at that cost, under [`Grants::Quanta`].
    pub fn quantum_bytes(&self, class: usize, cost: WireCost) -> u64 {
        let class = self.order.class(class);
        self.order.quantum_of(&self.link, class, cost)
    }

    /// Returns the payload bytes that the open flows have left, as far as known.
    pub fn unsent_bytes(&self) -> u64 {
        self.ledger.unsent_bytes(|_| true)
    }

    /// Returns the urgency of the flow that a grant would go to once the link is free. It is for
    /// several uplinks of one policy that send on one link.
    pub fn urgency(&self, now: Time) -> Option<Urgency> {
        self.order.urgency(now)
    }

    /// Returns for each class the longest time that a waiting flow has gone without a grant; zero
    /// if none waits.
    pub fn longest_waits(&self, now: Time) -> Vec<Duration> {
        let mut waits = vec![Duration::ZERO; self.policy.classes.len()];
        for flow in self.flows.iter().filter(|flow| flow.waits()) {
            let since = flow.served_at.max(flow.offered_since);
            let wait = &mut waits[flow.class()];
            *wait = (*wait).max(now.since(since));
        }
        waits
    }

    /// Returns whether a class bounds how many of its flows are served at a time
    /// ([`ClassSpec::max_concurrency`]).
    pub fn is_limited(&self, class: usize) -> bool {
        self.order.is_limited(self.order.class(class))
    }

    /// Returns whether a flow has one of its class's places where these are bounded, all are
    /// taken, and another flow waits for one. A flow has its place from its first turn, even if
    /// the floor takes that turn, until it is closed.
    pub fn is_place_wanted(&self, id: FlowId) -> bool {
        let flow = self.flows.get(id);
        flow.is_some_and(|flow| self.order.is_place_wanted(flow.class(), id.slot()))
    }

    /// Returns the policy in force, with its bounds applied.
    pub fn policy(&self) -> &EgressPolicy {
        &self.policy
    }

    /// Returns the time from which a link with something to send loses capacity for good.
    pub fn loses_from(&self) -> Time {
        self.link.loses_from()
    }

    /// Returns the link's clock.
    pub fn pacer(&self) -> &Pacer {
        self.link.pacer()
    }

    /// Counts the open flows.
    pub fn open_flows(&self) -> usize {
        self.flows.len()
    }

    /// Counts the flows that wait for a grant.
    pub fn waiting_flows(&self) -> usize {
        self.order.len()
    }

    /// Counts the clients that have flows open and share the link, once in each class; none
    /// if they do not share it.
    pub fn clients(&self) -> Option<usize> {
        self.order.clients()
    }

    /// Returns the cutoffs between size classes, in bytes, ascending; empty for
    /// disciplines without classes.
    pub fn cutoffs(&self) -> &[u64] {
        self.order.cutoffs()
    }

    /// Returns the queues of [`Discipline::Srq`], and whether they order: they do not while
    /// its trigger is off. None under another discipline.
    pub fn queues(&self) -> Option<(&Queues, bool)> {
        self.order.queues()
    }

    /// Returns the counts of what the uplink has granted and debited so far.
    pub fn stats(&self) -> EgressStats {
        self.ledger.stats
    }

    /// Returns the mark of a flow's last grant; none if flows are not marked, or the flow had no
    /// grant.
    pub fn granted_mark(&self, id: FlowId) -> Option<Mark> {
        self.flows.get(id)?.granted_mark
    }

    /// Returns the payload bytes granted so far, less what was refunded, by mark: IN, then OUT.
    pub fn marked_bytes(&self) -> [u64; 2] {
        self.ledger.marked_bytes
    }

    /// Returns the counts of each class's flows and grants so far.
    pub fn class_stats(&self) -> &[EgressClassStats] {
        &self.ledger.classes
    }
}
