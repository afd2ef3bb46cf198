//! A portion of what is granted, for some of the flows that wait. It goes to the first of them in
//! place of the first in order, as soon as they are owed bytes.

use crate::queue::{Rank, RankQueue};

/// The millionths of a whole.
const MILLION: i64 = 1_000_000;

/// The most bytes that are counted of one grant, so that a million times as many fit in an `i64`.
const MAX_COUNTED: i64 = 1 << 40;

/// Wire bytes that a grant takes, or gives back.
#[derive(Clone, Copy)]
pub(super) enum Moved {
    Out(u64),
    Back(u64),
}

/// The flows or clients that have the portion, by lane, and what is owed to them.
#[derive(Clone, Debug, Default)]
pub(super) struct Portion {
    millionths: i64,
    lanes: Vec<PortionLane>,
}

/// The flows or clients that share the portion of one lane.
#[derive(Clone, Debug, Default)]
struct PortionLane {
    waiting: RankQueue,
    debt: Debt,
    /// The number of flows that may wait in the lane.
    members: usize,
}

/// The bytes that the order owes to the flows that a portion is for.
#[derive(Clone, Debug, Default)]
pub(super) struct Debt {
    /// The wire bytes owed to the portion, times a million; negative if it has had more.
    owed: i64,
    /// Wire bytes of the largest grant.
    largest: i64,
}

impl Debt {
    /// Returns whether bytes are owed, so that the portion is to be served.
    pub(super) fn is_due(&self) -> bool {
        self.owed > 0
    }

    /// Counts bytes that were granted, or given back, for a portion of so many millionths. Flows
    /// that have had more than their portion are behind by at most a grant, or by their portion
    /// of the `remembered` bytes if that is more.
    pub(super) fn count(&mut self, millionths: i64, remembered: u64, moved: Moved, by: By) {
        let bounded = |bytes| i64::try_from(bytes).map_or(MAX_COUNTED, |b| b.min(MAX_COUNTED));
        let wire_bytes = match moved {
            Moved::Out(bytes) => bounded(bytes),
            Moved::Back(bytes) => -bounded(bytes),
        };
        let owed = match by {
            By::Portion => {
                self.largest = self.largest.max(wire_bytes);
                self.owed - wire_bytes * (MILLION - millionths)
            }
            By::Others => self.owed.saturating_add(wire_bytes * millionths),
            By::OthersMeanwhile => {
                let owed = self.owed.saturating_add(wire_bytes * millionths);
                owed.min(self.largest.max(wire_bytes) * MILLION)
            }
            By::OthersAlone => self.owed.min(0),
        };
        let most = (self.largest * MILLION).max(bounded(remembered) * millionths);
        self.owed = owed.max(-most);
    }
}

/// The side that bytes were granted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// A flow that the portion is for.
    Portion,
    /// Another flow, while some waited that the portion is for.
    Others,
    /// Another flow, while those that the portion is for waited and were not allowed to be
    /// served: a grant is saved up for them, and no more.
    OthersMeanwhile,
    /// Another flow, while none waited that the portion is for: nothing is saved up for them.
    OthersAlone,
}

impl Portion {
    /// Returns a portion of so many millionths; 0 is none.
    pub(super) fn new(millionths: u32) -> Self {
        Self {
            millionths: i64::from(millionths).min(MILLION),
            lanes: Vec::new(),
        }
    }

    /// Returns whether there is no portion.
    pub(super) fn is_off(&self) -> bool {
        self.millionths == 0
    }

    /// Puts a flow or client that the portion is for in its place, or moves it.
    pub(super) fn insert(&mut self, lane: usize, slot: u32, rank: Rank) {
        if self.lanes.len() <= lane {
            self.lanes.resize_with(lane + 1, PortionLane::default);
        }
        self.lanes[lane].waiting.insert(slot, rank);
    }

    /// Makes room for a flow that may wait in the lane later.
    pub(super) fn open(&mut self, lane: usize, slot: u32) {
        if self.lanes.len() <= lane {
            self.lanes.resize_with(lane + 1, PortionLane::default);
        }
        let lane = &mut self.lanes[lane];
        lane.members += 1;
        lane.waiting.make_room(slot, lane.members);
    }

    /// Gives up the room for a flow.
    pub(super) fn close(&mut self, lane: usize) {
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.members = lane.members.saturating_sub(1);
        }
    }

    /// Takes a flow or client out, if it is there.
    pub(super) fn remove(&mut self, lane: usize, slot: u32) {
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.waiting.remove(slot);
        }
    }

    /// Returns the first flow or client that waits in a lane.
    pub(super) fn first(&self, lane: usize) -> Option<(Rank, u32)> {
        self.lanes.get(lane)?.waiting.first()
    }

    /// Returns the first flow or client that waits in a lane, if it is to be served in place of
    /// the first in order.
    pub(super) fn due(&self, lane: usize) -> Option<(Rank, u32)> {
        let lane = self.lanes.get(lane).filter(|lane| lane.debt.is_due())?;
        lane.waiting.first()
    }

    /// Counts bytes that were granted in a lane, or given back.
    pub(super) fn count(&mut self, lane: usize, moved: Moved, by: By) {
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.debt.count(self.millionths, 0, moved, by);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what is owed after each of these moves, for a portion of a tenth.
    fn owed(moves: &[(Moved, By)]) -> Vec<i64> {
        let mut debt = Debt::default();
        let counted = moves.iter().map(|&(moved, by)| {
            debt.count(MILLION / 10, 0, moved, by);
            debt.owed
        });
        counted.collect()
    }

    #[test]
    fn a_grant_is_saved_up_for_those_that_may_not_be_served_and_no_more() {
        let grant = 3_000_000;
        let out = (Moved::Out(3), By::OthersMeanwhile);
        let saved = owed(&[out; 12]);
        let tenth = grant / 10;
        let expected: Vec<_> = (1..=12).map(|n| (n * tenth).min(grant)).collect();
        assert_eq!(saved, expected);
        // The portion's own largest grant counts as well, and what comes back is taken off.
        let own = (Moved::Out(8), By::Portion);
        let back = (Moved::Back(2), By::OthersMeanwhile);
        assert_eq!(
            owed(&[own, out, back]),
            [-7_200_000, -6_900_000, -7_100_000]
        );
        let many = [vec![own], vec![out; 60]].concat();
        assert_eq!(owed(&many).last(), Some(&8_000_000));
    }

    #[test]
    fn what_it_had_is_remembered_for_its_part_of_so_many_bytes_or_for_a_grant() {
        let mut debt = Debt::default();
        let mut had = |remembered| {
            debt.count(MILLION / 10, remembered, Moved::Out(5), By::Portion);
            debt.owed
        };
        assert_eq!([had(0), had(0)], [-4_500_000, -5_000_000]);
        assert_eq!([had(80), had(80)], [-8_000_000, -8_000_000]);
        assert_eq!([had(1_000), had(u64::MAX)], [-12_500_000, -17_000_000]);
        assert_eq!(had(60), -6_000_000);
    }
}
