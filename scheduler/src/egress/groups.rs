//! Flows that share a connection. Of these the client says which it wants
//! first (RFC 9218), and what it says counts among them alone: a group stands
//! in the queue with the rank of the one flow that would be its next, so that
//! no connection gets ahead of another by what it says.

use crate::queue::{Positions, Rank, RankHeap};

/// What a client says of a response (RFC 9218 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Precedence {
    /// 0 is served before 7; more than that counts as 7.
    pub urgency: u8,
    /// Of use before it is complete: those of the same urgency share, byte by
    /// byte, and come after those that are not.
    pub incremental: bool,
}

impl Default for Precedence {
    /// Of a response of which nothing is said.
    fn default() -> Self {
        Self {
            urgency: 3,
            incremental: false,
        }
    }
}

impl Precedence {
    /// The rank within its group of a flow that the discipline ranks so, and
    /// that has sent `attained` bytes. All flows that are compared are of one
    /// class, whose level is of no interest.
    fn rank(self, discipline: Rank, attained: u64) -> Rank {
        let level = self.urgency.min(7) * 2 + u8::from(self.incremental);
        if self.incremental {
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
}

/// An open group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupId {
    slot: u32,
    generation: u32,
}

/// A flow's place in its group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    group: GroupId,
    precedence: Precedence,
}

/// Whom the queue has in place of whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    /// No longer in the queue.
    pub(super) out: Option<u32>,
    /// In the queue from now on, or with another rank.
    pub(super) into: Option<u32>,
}

/// The groups of an uplink.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups {
    slots: Vec<Group>,
    vacant: Vec<u32>,
    positions: Positions,
    /// Flows that are ready and not in the queue.
    hidden: usize,
}

#[derive(Clone, Debug, Default)]
struct Group {
    generation: u32,
    open: bool,
    /// One for each class that a flow of the group has had: an operator's
    /// classes come before what a client says.
    lanes: Vec<Lane>,
}

#[derive(Clone, Debug)]
struct Lane {
    class: usize,
    ready: RankHeap,
    /// The one of them that is in the queue.
    shown: Option<u32>,
}

impl Lane {
    /// Shows the first of those that are ready, of which one may be `moved`.
    fn show(&mut self, moved: Option<u32>) -> Change {
        let first = self.ready.first().map(|(_, slot)| slot);
        let before = std::mem::replace(&mut self.shown, first);
        Change {
            out: before.filter(|_| before != first),
            into: first.filter(|_| before != first || moved == first),
        }
    }

    fn hidden(&self) -> usize {
        self.ready.len() - usize::from(self.shown.is_some())
    }
}

impl Groups {
    pub(super) fn open(&mut self) -> GroupId {
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(Group::default());
            self.slots.len() as u32 - 1
        });
        let group = &mut self.slots[slot as usize];
        group.generation = group.generation.wrapping_add(1);
        group.open = true;
        GroupId {
            slot,
            generation: group.generation,
        }
    }

    /// Flows that are still open then are by themselves; those that are ready
    /// and were not in the queue.
    pub(super) fn close(&mut self, id: GroupId) -> Vec<u32> {
        let Some(group) = group_mut(&mut self.slots, id) else {
            return Vec::new();
        };
        group.open = false;
        let mut freed = Vec::new();
        for lane in &mut group.lanes {
            self.hidden -= lane.hidden();
            while let Some((_, slot)) = lane.ready.first() {
                lane.ready.remove(&mut self.positions, slot);
                freed.extend(Some(slot).filter(|_| lane.shown != Some(slot)));
            }
        }
        group.lanes.clear();
        self.vacant.push(id.slot);
        freed
    }

    /// A flow's place; none if the group is not open.
    pub(super) fn member(&self, group: GroupId, precedence: Precedence) -> Option<Member> {
        let open = self.slots.get(group.slot as usize);
        open.filter(|found| found.open && found.generation == group.generation)?;
        Some(Member { group, precedence })
    }

    /// Flows that are ready and not in the queue.
    pub(super) fn hidden(&self) -> usize {
        self.hidden
    }

    /// A flow is ready, or has another rank. None if its group is gone.
    pub(super) fn insert(
        &mut self,
        member: Member,
        class: usize,
        slot: u32,
        (rank, attained): (Rank, u64),
    ) -> Option<Change> {
        let group = group_mut(&mut self.slots, member.group)?;
        let at = match group.lanes.iter().position(|lane| lane.class == class) {
            Some(at) => at,
            None => {
                group.lanes.push(Lane {
                    class,
                    ready: RankHeap::default(),
                    shown: None,
                });
                group.lanes.len() - 1
            }
        };
        let lane = &mut group.lanes[at];
        let before = lane.hidden();
        let rank = member.precedence.rank(rank, attained);
        lane.ready.insert(&mut self.positions, slot, rank);
        let change = lane.show(Some(slot));
        self.hidden = self.hidden + lane.hidden() - before;
        Some(change)
    }

    /// A flow is no longer ready. None if its group is gone.
    pub(super) fn remove(&mut self, member: Member, class: usize, slot: u32) -> Option<Change> {
        let group = group_mut(&mut self.slots, member.group)?;
        let lane = group.lanes.iter_mut().find(|lane| lane.class == class);
        let Some(lane) = lane else {
            return Some(Change::default());
        };
        let before = lane.hidden();
        let change = match lane.ready.remove(&mut self.positions, slot) {
            true => lane.show(None),
            false => Change::default(),
        };
        self.hidden = self.hidden + lane.hidden() - before;
        Some(change)
    }
}

fn group_mut(slots: &mut [Group], id: GroupId) -> Option<&mut Group> {
    slots
        .get_mut(id.slot as usize)
        .filter(|group| group.open && group.generation == id.generation)
}
