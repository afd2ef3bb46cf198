//! The uplink: who may send next, how much, and when.
//!
//! A driver opens a flow for each response, says when the flow has bytes that
//! it could write at once ([`Egress::ready`]), asks whose turn it is
//! ([`Egress::grant`]), writes, and says what was written ([`Egress::sent`]).
//! A flow that cannot send, because its client's window is closed or its
//! backend is slow, is not ready, and is passed over rather than waited for.

use std::time::Duration;

use crate::discipline::{FlowView, Ranker};
use crate::guard::Guard;
use crate::pacer::Pacer;
use crate::queue::RankQueue;
use crate::{Discipline, Size, Time, WireCost};

/// Priority levels at most.
pub const MAX_LEVELS: usize = 16;

/// Bands at most, within a level.
const MAX_BANDS: usize = crate::cutoffs::MAX_CLASSES;

/// A quantum occupies the link about this long: what a small response that
/// arrives just after the grant has to wait.
const QUANTUM: Duration = Duration::from_micros(300);

/// A quantum never exceeds this, so that no flow puts more in flight.
const QUANTUM_MAX_BYTES: u64 = 256 << 10;

/// An open flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowId {
    slot: u32,
    generation: u32,
}

impl FlowId {
    /// A small integer, unique among the open flows, for the driver's tables.
    pub fn index(self) -> usize {
        self.slot as usize
    }
}

/// What a driver says of a flow when it opens it.
#[derive(Clone, Copy, Debug)]
pub struct FlowSpec {
    /// Priority level, below [`MAX_LEVELS`]; 0 is served first.
    pub level: u8,
    /// Bytes that the flow is going to write, response head included.
    pub size: Size,
    /// What its bytes cost on the wire.
    pub cost: WireCost,
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// `flow` writes `bytes` now. It has left the queue: call
    /// [`Egress::sent`], then [`Egress::ready`] if it has more.
    Send {
        /// The flow.
        flow: FlowId,
        /// At least 1, at most what it said was ready.
        bytes: u64,
    },
    /// The link is busy: ask again at `until`.
    Wait {
        /// In the future.
        until: Time,
    },
    /// No flow is ready: ask again after the next [`Egress::ready`].
    Idle,
}

/// As many flows are open as may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{max_flows} flows are open, as many as `max_flows` allows")]
pub struct AtCapacity {
    /// The bound.
    pub max_flows: usize,
}

/// An uplink's parameters.
#[derive(Clone, Debug)]
pub struct EgressConfig {
    /// Whom to serve first.
    pub discipline: Discipline,
    /// The link.
    pub pacer: Pacer,
    /// Flows open at a time.
    pub max_flows: usize,
    /// See [`Guard::new`].
    pub guard_factor: f64,
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EgressStats {
    /// Grants made.
    pub grants: u64,
    /// Payload bytes granted, less what was refunded.
    pub granted_bytes: u64,
    /// Wire bytes debited outside grants: set-up, heads, acknowledgements.
    pub overhead_bytes: u64,
    /// All wire bytes debited, less what was refunded: how far the uplink has
    /// come. [`RateControl`](crate::RateControl) measures the link in it.
    pub wire_bytes: u64,
    /// Times that the fast path's guard tripped.
    pub guard_trips: u64,
}

/// The flows of one uplink, in order.
#[derive(Clone, Debug)]
pub struct Egress {
    ranker: Ranker,
    pacer: Pacer,
    guard: Guard,
    max_flows: usize,
    slots: Vec<Flow>,
    /// Slots of closed flows, to be used again.
    vacant: Vec<u32>,
    ready: RankQueue,
    next_seq: u64,
    /// By level and band: the turn of the flow served last there, so that a
    /// flow that comes or comes back joins the round where it stands.
    round: Vec<u64>,
    /// Wire bytes that the open flows have left, as far as known. Wider than
    /// any sum of theirs.
    outstanding_bytes: u128,
    stats: EgressStats,
}

#[derive(Clone, Debug)]
struct Flow {
    generation: u32,
    open: bool,
    cost: WireCost,
    view: FlowView,
    /// Index in [`Egress::round`] that `view.turn` belongs to.
    lane: usize,
    /// Payload bytes that may be written as soon as they are granted.
    ready_bytes: u64,
    /// Granted and not yet said to be sent.
    granted_bytes: u64,
    /// What it counts for in [`Egress::outstanding_bytes`].
    outstanding_bytes: u64,
}

impl Egress {
    /// An uplink with no flows.
    pub fn new(config: EgressConfig) -> Self {
        Self {
            ranker: Ranker::new(config.discipline),
            pacer: config.pacer,
            guard: Guard::new(config.guard_factor),
            max_flows: config.max_flows.min(u32::MAX as usize - 1),
            slots: Vec::new(),
            vacant: Vec::new(),
            ready: RankQueue::default(),
            next_seq: 0,
            round: vec![0; MAX_LEVELS * MAX_BANDS],
            outstanding_bytes: 0,
            stats: EgressStats::default(),
        }
    }

    /// A new response. It is not in the queue until [`Egress::ready`].
    pub fn open(&mut self, now: Time, spec: FlowSpec) -> Result<FlowId, AtCapacity> {
        if self.open_flows() >= self.max_flows {
            return Err(AtCapacity {
                max_flows: self.max_flows,
            });
        }
        if let Size::Exact(bytes) = spec.size {
            self.ranker.observe(bytes);
        }
        let flow = Flow {
            generation: 0,
            open: true,
            cost: spec.cost,
            view: FlowView {
                level: spec.level.min(MAX_LEVELS as u8 - 1),
                seq: self.next_seq,
                arrival: now,
                size: spec.size,
                attained: 0,
                turn: 0,
            },
            lane: usize::MAX,
            ready_bytes: 0,
            granted_bytes: 0,
            outstanding_bytes: 0,
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
        flow.ready_bytes = bytes;
        if bytes == 0 {
            self.ready.remove(id.slot);
            return;
        }
        self.enqueue(id.slot);
    }

    /// Whose turn it is now. Call until it answers something other than
    /// [`Grant::Send`].
    pub fn grant(&mut self, now: Time) -> Grant {
        let Some((_, slot)) = self.ready.first() else {
            return Grant::Idle;
        };
        let until = self.pacer.next_grant_at();
        if until > now {
            return Grant::Wait { until };
        }
        self.ready.remove(slot);
        let flow = &mut self.slots[slot as usize];
        let bytes = flow.ready_bytes.min(quantum(&self.pacer, flow.cost));
        let wire_bytes = flow.cost.bytes(bytes);
        flow.granted_bytes = bytes;
        flow.ready_bytes = 0;
        self.pacer.debit(now, wire_bytes);
        if let Some(round) = self.round.get_mut(flow.lane) {
            *round = flow.view.turn;
            flow.view.turn += wire_bytes;
        }
        self.stats.grants += 1;
        self.stats.granted_bytes += bytes;
        self.stats.wire_bytes = self.stats.wire_bytes.saturating_add(wire_bytes);
        Grant::Send {
            flow: FlowId {
                slot,
                generation: flow.generation,
            },
            bytes,
        }
    }

    /// Of what was granted, `bytes` have been written; the rest was not and is
    /// refunded to the link.
    pub fn sent(&mut self, _now: Time, id: FlowId, bytes: u64) {
        let Some(flow) = flow_mut(&mut self.slots, id) else {
            return;
        };
        let granted = std::mem::take(&mut flow.granted_bytes);
        let sent = granted.min(bytes);
        flow.view.attained += sent;
        if sent < granted {
            let unused = flow.cost.bytes(granted) - flow.cost.bytes(sent);
            self.pacer.refund(unused);
            flow.view.turn = flow.view.turn.saturating_sub(unused);
            self.stats.wire_bytes = self.stats.wire_bytes.saturating_sub(unused);
            self.stats.granted_bytes -= granted - sent;
        }
        self.recount(id.slot);
    }

    /// More is known about the flow's size, or something else than before.
    pub fn resize(&mut self, _now: Time, id: FlowId, size: Size) {
        let Some(flow) = flow_mut(&mut self.slots, id) else {
            return;
        };
        if let (Size::Exact(bytes), false) = (size, matches!(flow.view.size, Size::Exact(_))) {
            self.ranker.observe(bytes);
        }
        flow.view.size = size;
        if flow.ready_bytes > 0 {
            self.enqueue(id.slot);
        }
        self.recount(id.slot);
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
        self.outstanding_bytes -= u128::from(std::mem::take(&mut flow.outstanding_bytes));
        self.ready.remove(id.slot);
        self.vacant.push(id.slot);
    }

    /// Something small wants to go ahead of everything: connection set-up, an
    /// interim or bodiless response, a local reply, a head whose size is not
    /// yet known. True if it may, and is then debited; if the guard says no
    /// (TOCS03 2.2.3), open a flow for it.
    pub fn fast_path(&mut self, now: Time, wire_bytes: u64) -> bool {
        let ahead = self.guard.admit(now);
        self.stats.guard_trips = self.guard.trips();
        if ahead {
            self.debit(now, wire_bytes);
        }
        ahead
    }

    /// `wire_bytes` went out that no grant covered, such as the kernel's own
    /// acknowledgements.
    pub fn debit(&mut self, now: Time, wire_bytes: u64) {
        self.pacer.debit(now, wire_bytes);
        self.stats.overhead_bytes = self.stats.overhead_bytes.saturating_add(wire_bytes);
        self.stats.wire_bytes = self.stats.wire_bytes.saturating_add(wire_bytes);
    }

    /// Of what was debited outside grants, `wire_bytes` did not go out.
    pub fn refund(&mut self, wire_bytes: u64) {
        self.pacer.refund(wire_bytes);
        self.stats.overhead_bytes = self.stats.overhead_bytes.saturating_sub(wire_bytes);
        self.stats.wire_bytes = self.stats.wire_bytes.saturating_sub(wire_bytes);
    }

    /// When to call [`Egress::grant`] again if nothing else happens.
    pub fn next_wakeup(&self) -> Option<Time> {
        self.ready.first().map(|_| self.pacer.next_grant_at())
    }

    /// The link.
    pub fn pacer(&self) -> &Pacer {
        &self.pacer
    }

    /// Changes the link's rate, in bits per second on the wire.
    pub fn set_rate(&mut self, now: Time, rate_bits_per_s: u64) {
        self.pacer.change_rate(now, rate_bits_per_s);
    }

    /// Flows open.
    pub fn open_flows(&self) -> usize {
        self.slots.len() - self.vacant.len()
    }

    /// Flows that wait for a grant.
    pub fn waiting_flows(&self) -> usize {
        self.ready.len()
    }

    /// How long the open flows would occupy the link, by what is known of
    /// their sizes: the channel's load for
    /// [`ChannelRule`](crate::station::ChannelRule).
    pub fn backlog(&self) -> Duration {
        let bytes = u64::try_from(self.outstanding_bytes).unwrap_or(u64::MAX);
        self.pacer.time_for(bytes)
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

    /// Brings what a flow counts for up to what it has left.
    fn recount(&mut self, slot: u32) {
        let flow = &mut self.slots[slot as usize];
        let left = flow.view.size.bytes().unwrap_or(0);
        let left = flow.cost.bytes(left.saturating_sub(flow.view.attained));
        let before = std::mem::replace(&mut flow.outstanding_bytes, left);
        self.outstanding_bytes = self.outstanding_bytes - u128::from(before) + u128::from(left);
    }

    /// Puts a flow with bytes to write in its place in the queue.
    fn enqueue(&mut self, slot: u32) {
        let flow = &mut self.slots[slot as usize];
        if self.ranker.takes_turns() {
            let band = usize::from(self.ranker.band(&flow.view));
            let lane = usize::from(flow.view.level) * MAX_BANDS + band;
            let round = self.round[lane];
            flow.view.turn = if flow.lane == lane {
                flow.view.turn.max(round)
            } else {
                round
            };
            flow.lane = lane;
        }
        self.ready.insert(slot, self.ranker.rank(&flow.view));
    }
}

fn flow_mut(slots: &mut [Flow], id: FlowId) -> Option<&mut Flow> {
    slots
        .get_mut(id.slot as usize)
        .filter(|flow| flow.open && flow.generation == id.generation)
}

/// Payload bytes of one grant: whole segments, at least one.
fn quantum(pacer: &Pacer, cost: WireCost) -> u64 {
    let mss = u64::from(cost.mss.max(1));
    let wire_segment = mss + u64::from(cost.segment_overhead);
    let bytes = pacer.bytes_in(QUANTUM).min(QUANTUM_MAX_BYTES);
    mss * (bytes / wire_segment).max(1)
}
