//! The lane of the fast path: what wanted to go ahead of all flows, and may not, waits
//! here, first come first served. While flows wait too, lane and flows take turns by
//! bytes: neither starves.

use crate::queue::{Rank, RankQueue};

/// The lane of flows that wait to go ahead.
#[derive(Clone, Debug, Default)]
pub(super) struct Express {
    lane: RankQueue,
    /// Wire bytes that the lane was granted more than the flows were, while
    /// both waited. The lane is next unless it leads.
    lead: i64,
}

impl Express {
    /// Counts the flows that wait in the lane.
    pub(super) fn len(&self) -> usize {
        self.lane.len()
    }

    /// Puts a flow at the end of the lane; one that is in stays where it is.
    pub(super) fn join(&mut self, slot: u32, seq: u64) {
        self.lane.insert(slot, Self::rank(seq));
    }

    /// Returns a flow's place in the lane.
    pub(super) fn rank(seq: u64) -> Rank {
        Rank {
            level: 0,
            band: 0,
            key: 0,
            seq,
        }
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

    /// Notes that the lane was granted `wire_bytes`, in its turn or because no flow could
    /// take theirs.
    pub(super) fn served(&mut self, wire_bytes: u64) {
        self.lead = signed(wire_bytes).saturating_add(self.lead.min(0));
    }

    /// Notes that a flow was granted `wire_bytes`. A lane that is empty saves up nothing.
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
