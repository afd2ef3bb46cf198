//! The lane of the fast path, for flows that wanted to go ahead of all others and may not. They
//! wait here, first come first served. While other flows wait too, lane and flows take turns by
//! bytes, so that neither starves.

use crate::queue::{Rank, RankQueue};

/// The lane of flows that wait to go ahead.
#[derive(Clone, Debug, Default)]
pub(super) struct Express {
    lane: RankQueue,
    /// The wire bytes granted to the lane beyond those granted to other flows while both waited.
    /// The lane is next unless this is more than 0.
    lead: i64,
}

impl Express {
    /// Counts the flows that wait in the lane.
    pub(super) fn len(&self) -> usize {
        self.lane.len()
    }

    /// Puts a flow at the end of the lane; one that is in the lane already keeps its place.
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

    /// Takes a flow out of the lane, if it is there.
    pub(super) fn leave(&mut self, slot: u32) {
        self.lane.remove(slot);
    }

    /// Takes the first flow out of the lane, if it is the lane's turn.
    pub(super) fn take_turn(&mut self) -> Option<u32> {
        if self.lead > 0 {
            return None;
        }
        self.take()
    }

    /// Takes the first flow out of the lane.
    pub(super) fn take(&mut self) -> Option<u32> {
        let (_, slot) = self.lane.first()?;
        self.lane.remove(slot);
        Some(slot)
    }

    /// Notes that the lane was granted `wire_bytes`, in its turn or because no other flow could
    /// be granted any.
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
