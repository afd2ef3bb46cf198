//! The fast path: what is small and needed for a client to go on goes ahead of
//! all flows, within bounds that hold whatever came before (TOCS03 2.2.3).
//!
//! A guard watches how many come, against their moving average; a lasting flood
//! becomes that average, so a share of the link bounds them as well. What may
//! not go ahead waits in a lane of its own, first come first served. While
//! flows wait too, lane and flows take turns by bytes: neither starves.

use super::allowance::Allowance;
use super::{AtCapacity, Egress, FlowId, FlowSpec};
use crate::guard::Guard;
use crate::queue::{Rank, RankQueue};
use crate::{Pacer, Time};

/// Of the link's time, percent that may be taken without waiting for it.
const AHEAD_PERCENT: u64 = 50;

/// What goes ahead, and what waits to.
#[derive(Clone, Debug)]
pub(super) struct Express {
    guard: Guard,
    allowance: Allowance,
    lane: RankQueue,
    /// Wire bytes that the lane was granted more than the flows were, while
    /// both waited. The lane is next unless it leads.
    lead: i64,
    /// Payload bytes that its open flows have left.
    pub(super) unsent_bytes: u128,
}

impl Express {
    /// A fast path that nothing has come to.
    pub(super) fn new(guard_factor: f64, link: &Pacer) -> Self {
        Self {
            guard: Guard::new(guard_factor),
            allowance: Allowance::new(AHEAD_PERCENT, link),
            lane: RankQueue::default(),
            lead: 0,
            unsent_bytes: 0,
        }
    }

    pub(super) fn set_guard_factor(&mut self, factor: f64) {
        self.guard.set_factor(factor);
    }

    pub(super) fn set_link(&mut self, now: Time, link: &Pacer) {
        self.allowance.set_link(now, link);
    }

    pub(super) fn guard_trips(&self) -> u64 {
        self.guard.trips()
    }

    /// Flows that wait in the lane.
    pub(super) fn len(&self) -> usize {
        self.lane.len()
    }

    /// Counts an arrival that wants to go ahead; whether it may. Nothing
    /// overtakes what waits in the lane.
    fn admit(&mut self, now: Time, wire_bytes: u64) -> bool {
        let admitted =
            self.guard.admit(now) && self.lane.len() == 0 && self.allowance.room(now) >= wire_bytes;
        if admitted {
            self.allowance.take(now, wire_bytes);
        }
        admitted
    }

    /// Puts a flow at the end of the lane; one that is in stays where it is.
    pub(super) fn join(&mut self, slot: u32, seq: u64) {
        let rank = Rank {
            level: 0,
            band: 0,
            key: 0,
            seq,
        };
        self.lane.insert(slot, rank);
    }

    /// Takes a flow out of the lane, if it is in.
    pub(super) fn leave(&mut self, slot: u32) {
        self.lane.remove(slot);
    }

    /// Takes the lane's first out, if it is the lane's turn.
    pub(super) fn take_turn(&mut self) -> Option<u32> {
        if self.lead > 0 {
            return None;
        }
        self.take()
    }

    /// Takes the lane's first out.
    pub(super) fn take(&mut self) -> Option<u32> {
        let (_, slot) = self.lane.first()?;
        self.lane.remove(slot);
        Some(slot)
    }

    /// The lane was granted `wire_bytes`, in its turn or because no flow could
    /// take theirs.
    pub(super) fn served(&mut self, wire_bytes: u64) {
        self.lead = signed(wire_bytes).saturating_add(self.lead.min(0));
    }

    /// A flow was granted `wire_bytes`. A lane that is empty saves up nothing.
    pub(super) fn passed(&mut self, wire_bytes: u64) {
        let lead = self.lead.saturating_sub(signed(wire_bytes));
        self.lead = match self.lane.len() {
            0 => lead.max(0),
            _ => lead,
        };
    }
}

fn signed(wire_bytes: u64) -> i64 {
    i64::try_from(wire_bytes).unwrap_or(i64::MAX)
}

impl Egress {
    /// Something small wants to go ahead of everything: a handshake, an interim
    /// or bodiless response, a local reply, a head whose size is not yet known.
    /// True if it may, and is then debited; if not (TOCS03 2.2.3), it waits
    /// for its turn in a flow of [`Egress::open_express`].
    ///
    /// What goes ahead takes half of the link at most, and a burst of 100 ms.
    pub fn fast_path(&mut self, now: Time, wire_bytes: u64) -> bool {
        let ahead = self.express.admit(now, wire_bytes);
        self.stats.guard_trips = self.express.guard_trips();
        if ahead {
            self.debit(now, wire_bytes);
        } else {
            self.stats.fast_path_refusals += 1;
        }
        ahead
    }

    /// A connection has been set up, which the kernel did: nothing can hold it
    /// back. It is debited, and counts as an arrival on the fast path.
    pub fn connect(&mut self, now: Time, wire_bytes: u64) {
        self.express.guard.admit(now);
        self.stats.guard_trips = self.express.guard_trips();
        self.debit(now, wire_bytes);
    }

    /// A flow for what the fast path refused: it waits in the fast path's lane,
    /// which has half of what is granted while other flows wait. Neither its
    /// class nor its size counts.
    pub fn open_express(&mut self, now: Time, spec: FlowSpec) -> Result<FlowId, AtCapacity> {
        self.open_flow(now, spec, true)
    }
}
