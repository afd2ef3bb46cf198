//! The uplink: who may send next, how much, and when.
//!
//! A driver opens a flow for each response, says when the flow has bytes that
//! it could write at once ([`Egress::ready`]), asks whose turn it is
//! ([`Egress::grant`]), writes, and says what was written ([`Egress::sent`]).
//! A flow that cannot send, because its client's window is closed or its
//! backend is slow, is not ready, and is passed over rather than waited for.

mod allowance;
mod change;
mod coarse;
mod express;
mod floor;
mod front;
mod groups;
mod held;
mod order;
mod pauses;
mod peers;
mod ready;
mod shares;
mod turns;
mod types;

use std::time::Duration;

use crate::classes::{ClassSpec, MAX_CLASSES};
use crate::discipline::{FlowView, Ranker};
use crate::pacer::Pacer;
use crate::{Size, Time, WireCost};
use allowance::Allowance;
use express::Express;
use floor::Floor;
pub use floor::MAX_FLOOR_PERCENT;
pub use groups::{GroupId, Precedence};
use groups::{Groups, Member};
use pauses::Burst;
pub use peers::Urgency;
use ready::{Next, Ready};
use shares::Shares;
use turns::{Part, Turns};
pub use types::{
    AtCapacity, EgressChange, EgressClassStats, EgressConfig, EgressStats, FlowId, FlowSpec, Grant,
};

/// Bands at most, within a level.
const MAX_BANDS: usize = crate::cutoffs::MAX_CLASSES;

/// Of the link's time, percent that debits outside grants may take. Where
/// every response has a connection of its own, with TLS, set-ups are most of
/// what is sent; the rest is what a flood of them leaves to responses.
const UNGRANTED_PERCENT: u64 = 80;

/// The flows of one uplink, in order.
#[derive(Clone, Debug)]
pub struct Egress {
    ranker: Ranker,
    pacer: Pacer,
    /// For what no grant covers.
    ungranted: Allowance,
    express: Express,
    max_flows: usize,
    slots: Vec<Flow>,
    /// Slots of closed flows, to be used again.
    vacant: Vec<u32>,
    ready: Ready,
    /// Connections with several flows.
    groups: Groups,
    /// By class: whether it takes what the others leave, and its level.
    orders: Vec<(bool, u8)>,
    class_stats: Vec<EgressClassStats>,
    /// By class: payload bytes that its open flows have left, as far as known.
    unsent_bytes: Vec<u128>,
    next_seq: u64,
    /// See [`Egress::announce`].
    announced: usize,
    turns: Turns,
    /// Clients that share the link, if they do.
    shares: Shares,
    /// See [`Egress::share_between_clients`].
    wants_shares: bool,
    floor: Floor,
    /// See [`Egress::set_floor`].
    floor_percent: u8,
    stats: EgressStats,
}

#[derive(Clone, Debug)]
struct Flow {
    generation: u32,
    open: bool,
    /// It has been granted something.
    begun: bool,
    /// It waits in the fast path's lane.
    is_express: bool,
    cost: WireCost,
    class: usize,
    /// Whose it is, if the driver has said.
    client: Option<u64>,
    /// Its client's place, where clients share the link.
    share: Option<u32>,
    /// Its place among those of its connection, if there are any.
    member: Option<Member>,
    view: FlowView,
    /// Its part of its class's [`Egress::unsent_bytes`].
    unsent_bytes: u64,
    /// Its part in the round that `view.turn` belongs to; its client's when the
    /// last grant was made, where clients share the link.
    part: Part,
    /// Payload bytes that may be written as soon as they are granted.
    ready_bytes: u64,
    /// Granted and not yet said to be sent.
    granted_bytes: u64,
    /// Its last grant was the floor's.
    by_floor: bool,
    /// When it was granted something last.
    served_at: Option<Time>,
    /// Since when it has had something to write.
    ready_since: Time,
    /// Since when its source has had nothing, if the driver has said so.
    paused_at: Option<Time>,
    /// What it has sent since the last pause.
    burst: Burst,
}

impl Egress {
    /// An uplink with no flows.
    pub fn new(config: EgressConfig) -> Self {
        let mut classes = config.classes;
        classes.truncate(MAX_CLASSES);
        if classes.is_empty() {
            classes.push(ClassSpec::default());
        }
        Self {
            ranker: Ranker::new(config.discipline),
            ready: Ready::new(&classes, &config.pacer),
            groups: Groups::default(),
            orders: classes.iter().map(|c| (c.idle_only, c.level)).collect(),
            class_stats: vec![EgressClassStats::default(); classes.len()],
            unsent_bytes: vec![0; classes.len()],
            turns: Turns::new(classes.len() * MAX_BANDS),
            shares: Shares::new(false, classes.len()),
            wants_shares: false,
            ungranted: Allowance::new(UNGRANTED_PERCENT, &config.pacer),
            express: Express::new(config.guard_factor, &config.pacer),
            pacer: config.pacer,
            max_flows: config.max_flows.min(u32::MAX as usize - 1),
            slots: Vec::new(),
            vacant: Vec::new(),
            next_seq: 0,
            announced: 0,
            floor: Floor::default(),
            floor_percent: 0,
            stats: EgressStats::default(),
        }
    }

    /// A new response. It is not in the queue until [`Egress::ready`].
    pub fn open(&mut self, now: Time, spec: FlowSpec) -> Result<FlowId, AtCapacity> {
        self.open_flow(now, spec, false)
    }

    fn open_flow(
        &mut self,
        now: Time,
        spec: FlowSpec,
        is_express: bool,
    ) -> Result<FlowId, AtCapacity> {
        if self.open_flows() >= self.max_flows {
            return Err(AtCapacity {
                max_flows: self.max_flows,
            });
        }
        if let Size::Exact(bytes) = spec.size {
            self.ranker.observe(bytes);
        }
        let class = spec.class.min(self.orders.len() - 1);
        let flow = Flow {
            generation: 0,
            open: true,
            begun: false,
            is_express,
            cost: spec.cost,
            class,
            client: spec.client,
            share: None,
            member: None,
            unsent_bytes: 0,
            view: FlowView {
                level: self.orders[class].1,
                seq: self.next_seq,
                arrival: now,
                size: spec.size,
                attained: 0,
                turn: 0,
            },
            part: Part::NONE,
            ready_bytes: 0,
            granted_bytes: 0,
            by_floor: false,
            served_at: None,
            ready_since: now,
            paused_at: None,
            burst: Burst::new(now),
        };
        self.next_seq += 1;
        let slot = match self.vacant.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push(flow.clone());
                self.slots.len() as u32 - 1
            }
        };
        let place = &mut self.slots[slot as usize];
        let generation = place.generation.wrapping_add(1);
        *place = Flow { generation, ..flow };
        self.class_stats[class].open_flows += 1;
        self.class_stats[class].opened += 1;
        self.ready.open(now, class);
        self.enter_share(slot);
        self.recount(slot);
        Ok(FlowId { slot, generation })
    }

    /// The flow could write `bytes` at once (all together, not in addition).
    ///
    /// Bytes still granted count as sent. With 0 the flow leaves the queue.
    pub fn ready(&mut self, now: Time, id: FlowId, bytes: u64) {
        self.sent(now, id, u64::MAX);
        let Some(flow) = flow_mut(&mut self.slots, id) else {
            return;
        };
        if flow.ready_bytes == 0 {
            flow.ready_since = now;
        }
        flow.ready_bytes = bytes;
        self.recount(id.slot);
        if bytes == 0 {
            self.dequeue(now, id.slot);
            return;
        }
        self.end_pause(now, id.slot);
        self.enqueue(now, id.slot);
    }

    /// Whose turn it is now. Call until it answers something other than
    /// [`Grant::Send`].
    pub fn grant(&mut self, now: Time) -> Grant {
        let slot = match self.next(now) {
            Next::Slot(slot) if self.slots[slot as usize].is_express => slot,
            Next::Slot(first) => self.or_longest_waiting(now, first),
            Next::At(until) => return Grant::Wait { until },
            Next::Nobody => return Grant::Idle,
        };
        self.take_from_client(slot);
        self.leave_group(now, slot);
        let flow = &mut self.slots[slot as usize];
        let quantum = self.ready.quantum(&self.pacer, flow.class, flow.cost);
        let bytes = flow.ready_bytes.min(quantum);
        let wire_bytes = flow.cost.bytes(bytes);
        flow.granted_bytes = bytes;
        flow.ready_bytes = 0;
        flow.begun = true;
        flow.served_at = Some(now);
        self.pacer.debit(now, wire_bytes);
        if flow.is_express {
            self.express.served(wire_bytes);
        } else {
            self.express.passed(wire_bytes);
            self.ready.debit(now, flow.class, wire_bytes, &self.pacer);
            self.charge(now, slot, wire_bytes);
            self.count_for_floor(now, slot, wire_bytes, false);
        }
        let flow = &self.slots[slot as usize];
        self.class_stats[flow.class].granted_bytes += bytes;
        let generation = flow.generation;
        self.recount(slot);
        self.stats.grants += 1;
        self.stats.granted_bytes += bytes;
        self.stats.wire_bytes = self.stats.wire_bytes.saturating_add(wire_bytes);
        Grant::Send {
            flow: FlowId { slot, generation },
            bytes,
        }
    }

    /// Who is next: the lane of the fast path in its turn, or when no flow can
    /// take theirs.
    fn next(&mut self, now: Time) -> Next {
        let free_at = self.pacer.next_grant_at();
        if free_at > now && self.waiting_flows() > 0 {
            return Next::At(free_at);
        }
        if let Some(slot) = self.express.take_turn() {
            return Next::Slot(slot);
        }
        match self.ready.next(now, free_at) {
            Next::Slot(slot) => Next::Slot(slot),
            other => self.express.take().map_or(other, Next::Slot),
        }
    }

    /// Of what was granted, `bytes` have been written; the rest was not and is
    /// refunded to the link.
    pub fn sent(&mut self, now: Time, id: FlowId, bytes: u64) {
        let Some(flow) = flow_mut(&mut self.slots, id) else {
            return;
        };
        let granted = std::mem::take(&mut flow.granted_bytes);
        let sent = granted.min(bytes);
        flow.view.attained += sent;
        if sent < granted {
            let unused = flow.cost.bytes(granted) - flow.cost.bytes(sent);
            self.pacer.refund(now, unused);
            let is_express = flow.is_express;
            let class = flow.class;
            self.class_stats[class].granted_bytes -= granted - sent;
            self.discharge(now, id.slot, unused);
            if !is_express {
                self.ready.refund(now, class, unused);
                self.count_for_floor(now, id.slot, unused, true);
            }
            self.stats.wire_bytes = self.stats.wire_bytes.saturating_sub(unused);
            self.stats.granted_bytes -= granted - sent;
            self.recount(id.slot);
        }
    }

    /// More is known about the flow's size, or something else than before.
    pub fn resize(&mut self, now: Time, id: FlowId, size: Size) {
        let Some(flow) = flow_mut(&mut self.slots, id) else {
            return;
        };
        if let (Size::Exact(bytes), false) = (size, matches!(flow.view.size, Size::Exact(_))) {
            self.ranker.observe(bytes);
        }
        flow.view.size = size;
        let is_ready = flow.ready_bytes > 0;
        self.recount(id.slot);
        if is_ready {
            self.enqueue(now, id.slot);
        }
    }

    /// The response is over, whether complete or cut short. What was granted
    /// and not sent is refunded.
    pub fn close(&mut self, now: Time, id: FlowId) {
        self.sent(now, id, 0);
        let Some(flow) = flow_mut(&mut self.slots, id) else {
            return;
        };
        // Nothing sent, nothing learnt: the client left before its turn.
        if !matches!(flow.view.size, Size::Exact(_)) && flow.view.attained > 0 {
            let attained = flow.view.attained;
            self.ranker.observe(attained);
        }
        flow.open = false;
        flow.ready_bytes = 0;
        let class = flow.class;
        self.dequeue(now, id.slot);
        self.leave_share(id.slot);
        self.ready.close(class, id.slot);
        self.class_stats[class].open_flows -= 1;
        self.recount(id.slot);
        self.vacant.push(id.slot);
    }

    /// A response of a class that is not `idle_only` is going to come: a
    /// connection has been accepted, or a request is with a backend. Idle-only
    /// classes wait for it as they do for one that has begun; until
    /// [`Egress::retract`], or for as long as nothing is heard of it.
    pub fn announce(&mut self, now: Time) {
        self.announced += 1;
        self.ready.announce(now);
    }

    /// What was announced has come (its flow is open), or will not.
    pub fn retract(&mut self) {
        self.announced = self.announced.saturating_sub(1);
        self.ready.retract();
    }

    /// `wire_bytes` went out that no grant covered, such as the kernel's own
    /// acknowledgements.
    ///
    /// The link waits for them, within bounds: such debits never move its clock
    /// further ahead than 100 ms, or 10 full segments where these take longer,
    /// and take four fifths of its time at most. What is beyond is counted
    /// as overhead and otherwise forgotten.
    pub fn debit(&mut self, now: Time, wire_bytes: u64) {
        let taken = self.ungranted.take(now, wire_bytes);
        self.pacer.debit(now, taken);
        self.stats.overhead_bytes = self.stats.overhead_bytes.saturating_add(wire_bytes);
        self.stats.wire_bytes = self.stats.wire_bytes.saturating_add(taken);
    }

    /// Of what was debited, `wire_bytes` did not go out.
    pub fn refund(&mut self, now: Time, wire_bytes: u64) {
        self.pacer.refund(now, wire_bytes);
        self.stats.overhead_bytes = self.stats.overhead_bytes.saturating_sub(wire_bytes);
        self.stats.wire_bytes = self.stats.wire_bytes.saturating_sub(wire_bytes);
    }

    /// When to call [`Egress::grant`] again if nothing else happens.
    pub fn next_wakeup(&self) -> Option<Time> {
        let at = match self.express.len() {
            0 => self.ready.next_at()?,
            _ => Time::ZERO,
        };
        Some(self.pacer.next_grant_at().max(at))
    }

    /// How long what the open flows have left, as far as known, would occupy
    /// the link: its load (SDIS02 3.2, for overload of the channel).
    pub fn backlog(&self, now: Time) -> Duration {
        self.backlog_of(now, |_| true)
    }

    /// The part of [`Egress::backlog`] that goes before a class or with it.
    pub fn backlog_ahead(&self, now: Time, class: usize) -> Duration {
        let own = self.orders[class.min(self.orders.len() - 1)];
        self.backlog_of(now, |other| other <= own)
    }

    fn backlog_of(&self, now: Time, counts: impl Fn((bool, u8)) -> bool) -> Duration {
        let classes = self.orders.iter().zip(&self.unsent_bytes);
        let counted = classes.filter(|&(&order, _)| counts(order));
        let bytes: u128 = counted.map(|(_, bytes)| bytes).sum();
        let bytes = bytes + self.express.unsent_bytes;
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let queued = self.pacer.time_for(WireCost::ETHERNET_IPV4.bytes(bytes));
        queued.saturating_add(self.pacer.next_grant_at().since(now))
    }

    /// The link.
    pub fn pacer(&self) -> &Pacer {
        &self.pacer
    }

    /// Changes the link's rate, in bits per second on the wire.
    pub fn set_rate(&mut self, now: Time, rate_bits_per_s: u64) {
        self.pacer.change_rate(now, rate_bits_per_s);
        self.ungranted.set_link(now, &self.pacer);
        self.express.set_link(now, &self.pacer);
    }

    /// Flows open.
    pub fn open_flows(&self) -> usize {
        self.slots.len() - self.vacant.len()
    }

    /// Flows that wait for a grant.
    pub fn waiting_flows(&self) -> usize {
        self.ready.len() + self.groups.hidden() + self.shares.hidden() + self.express.len()
    }

    /// The cutoffs between size classes, in bytes, ascending; empty for
    /// disciplines without classes.
    pub fn cutoffs(&self) -> &[u64] {
        self.ranker.cutoffs()
    }

    /// What happened so far.
    pub fn stats(&self) -> EgressStats {
        self.stats
    }

    /// What happened so far, by class.
    pub fn class_stats(&self) -> &[EgressClassStats] {
        &self.class_stats
    }

    /// Takes what a flow has left into the sum.
    fn recount(&mut self, slot: u32) {
        let flow = &mut self.slots[slot as usize];
        let left = match flow.view.size.bytes() {
            _ if !flow.open => 0,
            Some(bytes) => bytes.saturating_sub(flow.view.attained + flow.granted_bytes),
            None => 0,
        };
        let unsent_bytes = left.max(flow.ready_bytes);
        let sum = match flow.is_express {
            true => &mut self.express.unsent_bytes,
            false => &mut self.unsent_bytes[flow.class],
        };
        *sum += u128::from(unsent_bytes);
        *sum -= u128::from(std::mem::replace(&mut flow.unsent_bytes, unsent_bytes));
    }
}

fn flow_mut(slots: &mut [Flow], id: FlowId) -> Option<&mut Flow> {
    slots
        .get_mut(id.slot as usize)
        .filter(|flow| flow.open && flow.generation == id.generation)
}
