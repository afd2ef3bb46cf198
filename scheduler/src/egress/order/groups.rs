//! Groups: flows that share a connection, whose client says which of them it wants first (RFC
//! 9218).
//!
//! What a client says counts among the flows of its connection alone. A group stands in the queue
//! with the rank of the one flow that would be its next, so that no connection gets ahead of
//! another by what its client says.

use super::front::{Front, FrontChange};
use crate::egress::types::{GroupId, Precedence};
use crate::queue::{Positions, Rank};
use crate::slots::Slots;

/// Returns a flow's rank within its group, from its `precedence`, its rank by the `discipline`
/// and the `attained` bytes that it has sent. All flows that are compared are of one class, so
/// its level does not count.
fn rank(precedence: Precedence, discipline: Rank, attained: u64) -> Rank {
    let level = precedence.urgency.min(7) * 2 + u8::from(precedence.incremental);
    if precedence.incremental {
        return Rank {
            level,
            band: 0,
            key: attained,
            seq: discipline.seq,
        };
    }
    Rank {
        level,
        ..discipline
    }
}

/// A flow's place in its group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    group: GroupId,
    precedence: Precedence,
}

/// The groups of an uplink.
#[derive(Clone, Debug, Default)]
pub(super) struct FlowGroups {
    slots: Slots<FlowGroup>,
    positions: Positions,
    /// The number of flows that are ready and not in the queue.
    hidden: usize,
}

#[derive(Clone, Debug, Default)]
struct FlowGroup {
    /// The group's lanes, one for each class that its flows have had: an operator's classes come
    /// before what a client says. Where clients share the link, there is one for each client with
    /// ready flows: a proxy in front may have several clients on one connection, and what one
    /// says is no concern of another's.
    lanes: Vec<GroupLane>,
}

/// The class and the client whose flows are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LaneKey {
    pub(super) class: usize,
    /// The place of the client among those that share the link, if they do.
    pub(super) share: Option<u32>,
}

#[derive(Clone, Debug)]
struct GroupLane {
    key: LaneKey,
    front: Front,
}

impl FlowGroups {
    pub(super) fn open(&mut self) -> GroupId {
        GroupId(self.slots.insert_left())
    }

    /// Closes a group, whose open flows stand by themselves from then on. Returns those that are
    /// ready and were not in the queue.
    pub(super) fn close(&mut self, id: GroupId) -> Vec<u32> {
        let Some(group) = self.slots.get_mut(id.0) else {
            return Vec::new();
        };
        let mut freed = Vec::new();
        for lane in &mut group.lanes {
            self.hidden -= lane.front.hidden();
            freed.extend(lane.front.clear(&mut self.positions));
        }
        group.lanes.clear();
        self.slots.remove(id.0.slot());
        freed
    }

    /// Removes all ready flows, which the caller inserts anew.
    pub(super) fn clear(&mut self) {
        for group in self.slots.all_mut() {
            for lane in &mut group.lanes {
                lane.front.clear(&mut self.positions);
            }
            group.lanes.retain(|lane| lane.key.share.is_none());
        }
        self.hidden = 0;
    }

    /// Returns a flow's place in a group; none if the group is not open.
    pub(super) fn member(&self, group: GroupId, precedence: Precedence) -> Option<Member> {
        self.slots.get(group.0)?;
        Some(Member { group, precedence })
    }

    /// Counts the flows that are ready and not in the queue.
    pub(super) fn hidden(&self) -> usize {
        self.hidden
    }

    /// Makes a flow ready, or gives it another rank. Returns none if its group is gone.
    pub(super) fn insert(
        &mut self,
        member: Member,
        key: LaneKey,
        slot: u32,
        rank: Rank,
        attained: u64,
    ) -> Option<FrontChange> {
        let group = self.slots.get_mut(member.group.0)?;
        let at = match group.lanes.iter().position(|lane| lane.key == key) {
            Some(at) => at,
            None => {
                let front = Front::default();
                group.lanes.push(GroupLane { key, front });
                group.lanes.len() - 1
            }
        };
        let front = &mut group.lanes[at].front;
        let before = front.hidden();
        let rank = self::rank(member.precedence, rank, attained);
        let change = front.insert(&mut self.positions, slot, rank);
        self.hidden = self.hidden + front.hidden() - before;
        Some(change)
    }

    /// Removes a flow from the ready ones. Returns none if its group is gone.
    pub(super) fn remove(
        &mut self,
        member: Member,
        key: LaneKey,
        slot: u32,
    ) -> Option<FrontChange> {
        let group = self.slots.get_mut(member.group.0)?;
        let Some(at) = group.lanes.iter().position(|lane| lane.key == key) else {
            return Some(FrontChange::default());
        };
        let front = &mut group.lanes[at].front;
        let before = front.hidden();
        let change = front.remove(&mut self.positions, slot);
        self.hidden = self.hidden + front.hidden() - before;
        // Classes are few; clients of a connection may be many, over time.
        if key.share.is_some() && front.is_empty() {
            group.lanes.swap_remove(at);
        }
        Some(change)
    }
}
