//! The line of flows that are ready: in order of rank, or in queues that share by credit.

use super::MAX_QUEUES;
use super::credits::{Credits, Members};
use crate::classes::MAX_LEVELS;
use crate::queue::{Positions, Rank, RankHeap};

/// A line of flows that are ready, of one class or of all.
#[derive(Clone, Debug)]
pub(crate) enum Line {
    /// A line in which the least rank is first.
    Ranked(RankHeap),
    /// A line in which the least level is first; in it, the queue (a rank's band) with the most
    /// credit; and in that, the least rank.
    Shared(Box<Shared>),
}

/// The levels of a line that shares, each with its queues.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    first_share_percent: u8,
    levels: Vec<Level>,
    len: usize,
}

#[derive(Clone, Debug)]
struct Level {
    queues: Vec<RankHeap>,
    members: Members,
    credits: Credits,
}

/// A level and a queue in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Home {
    level: usize,
    queue: usize,
}

impl Home {
    fn of(rank: &Rank) -> Self {
        Self {
            level: usize::from(rank.level).min(MAX_LEVELS - 1),
            queue: usize::from(rank.band).min(MAX_QUEUES - 1),
        }
    }

    fn number(self) -> u16 {
        // Both are below 16.
        (self.level * MAX_QUEUES + self.queue) as u16
    }

    fn numbered(number: u16) -> Self {
        let number = usize::from(number);
        Self {
            level: number / MAX_QUEUES,
            queue: number % MAX_QUEUES,
        }
    }
}

impl Line {
    /// Returns an empty line: in order of rank, or, if the first queue's share is given, of queues.
    pub(crate) fn new(first_share_percent: Option<u8>) -> Self {
        match first_share_percent {
            None => Self::Ranked(RankHeap::default()),
            Some(first_share_percent) => Self::Shared(Box::new(Shared {
                first_share_percent,
                levels: Vec::new(),
                len: 0,
            })),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Ranked(heap) => heap.len(),
            Self::Shared(shared) => shared.len,
        }
    }

    /// Returns the rank and the slot of the flow that is next.
    pub(crate) fn first(&self) -> Option<(Rank, u32)> {
        match self {
            Self::Ranked(heap) => heap.first(),
            Self::Shared(shared) => {
                let levels = shared.levels.iter();
                levels.filter_map(Level::first).next()
            }
        }
    }

    /// Puts `slot` into the line, or moves it to a new rank. The slot must be in no other line.
    pub(crate) fn insert(&mut self, positions: &mut Positions, slot: u32, rank: Rank) {
        match self {
            Self::Ranked(heap) => heap.insert(positions, slot, rank),
            Self::Shared(shared) => shared.insert(positions, slot, rank),
        }
    }

    /// Takes `slot`, which must be in no other line, out of this one. Returns false if it was not
    /// in.
    pub(crate) fn remove(&mut self, positions: &mut Positions, slot: u32) -> bool {
        match self {
            Self::Ranked(heap) => heap.remove(positions, slot),
            Self::Shared(shared) => shared.remove(positions, slot),
        }
    }

    /// Charges the queue of a flow of this rank with `wire_bytes`.
    pub(crate) fn charge(&mut self, rank: &Rank, wire_bytes: u64) {
        if let Some((level, queue)) = self.level(rank) {
            level.credits.charge(queue, &level.members, wire_bytes);
        }
    }

    /// Takes back `wire_bytes` of what the queue of a flow of this rank was charged.
    pub(crate) fn refund(&mut self, rank: &Rank, wire_bytes: u64) {
        if let Some((level, queue)) = self.level(rank) {
            level.credits.refund(queue, &level.members, wire_bytes);
        }
    }

    fn level(&mut self, rank: &Rank) -> Option<(&mut Level, usize)> {
        let Self::Shared(shared) = self else {
            return None;
        };
        let home = Home::of(rank);
        Some((shared.level(home.level), home.queue))
    }
}

impl Shared {
    fn level(&mut self, level: usize) -> &mut Level {
        while self.levels.len() <= level {
            self.levels.push(Level {
                queues: vec![RankHeap::default(); MAX_QUEUES],
                members: [0; MAX_QUEUES],
                credits: Credits::new(self.first_share_percent),
            });
        }
        &mut self.levels[level]
    }

    fn insert(&mut self, positions: &mut Positions, slot: u32, rank: Rank) {
        let home = Home::of(&rank);
        if positions.home(slot).is_some_and(|own| own != home.number()) {
            self.remove(positions, slot);
        }
        let level = self.level(home.level);
        level.queues[home.queue].insert(positions, slot, rank);
        let len = level.queues[home.queue].len();
        let before = std::mem::replace(&mut level.members[home.queue], len);
        self.len += len - before;
        positions.set_home(slot, Some(home.number()));
    }

    fn remove(&mut self, positions: &mut Positions, slot: u32) -> bool {
        let Some(home) = positions.home(slot).map(Home::numbered) else {
            return false;
        };
        let level = self.level(home.level);
        let is_in = level.queues[home.queue].remove(positions, slot);
        level.members[home.queue] -= usize::from(is_in);
        self.len -= usize::from(is_in);
        positions.set_home(slot, None);
        is_in
    }
}

impl Level {
    fn first(&self) -> Option<(Rank, u32)> {
        let queue = self.credits.pick(&self.members)?;
        self.queues[queue].first()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn rank(level: u8, band: u8, key: u64, slot: u32) -> Rank {
        Rank {
            level,
            band,
            key,
            seq: u64::from(slot),
        }
    }

    #[test]
    fn levels_come_first_then_credit_then_keys() {
        let mut positions = Positions::default();
        let mut line = Line::new(Some(90));
        for (slot, level, band, key) in [(0, 1, 0, 9), (1, 1, 1, 1), (2, 1, 1, 0), (3, 0, 5, 9)] {
            line.insert(&mut positions, slot, rank(level, band, key, slot));
        }
        assert_eq!(line.first().unwrap().1, 3);
        line.remove(&mut positions, 3);
        let mut order = String::new();
        for _ in 0..20 {
            let (rank, slot) = line.first().unwrap();
            line.charge(&rank, 1_000);
            order += &slot.to_string();
        }
        assert_eq!(order, "00000200000000020000");
        // What changes its queue is in the new one alone.
        line.insert(&mut positions, 2, rank(1, 0, 0, 2));
        assert_eq!((line.len(), line.first().unwrap().1), (3, 2));
    }

    #[test]
    fn what_is_past_the_last_level_or_queue_is_of_the_last() {
        let mut positions = Positions::default();
        let mut line = Line::new(Some(90));
        line.insert(&mut positions, 0, rank(15, 0, 0, 0));
        line.insert(&mut positions, 1, rank(200, 200, 0, 1));
        let mut order = String::new();
        for _ in 0..20 {
            let (rank, slot) = line.first().unwrap();
            line.charge(&rank, 1_000);
            order += &slot.to_string();
        }
        // One level, of which the second has a tenth.
        assert_eq!(order, "00000100000000010000");
        line.insert(&mut positions, 2, rank(15, 15, 0, 2));
        line.remove(&mut positions, 0);
        assert_eq!(line.first().map(|(_, slot)| slot), Some(2), "of one queue");
    }

    #[test]
    fn what_is_given_back_was_not_taken() {
        let mut positions = Positions::default();
        let mut line = Line::new(Some(90));
        line.insert(&mut positions, 0, rank(0, 0, 0, 0));
        line.insert(&mut positions, 1, rank(0, 1, 0, 1));
        for _ in 0..20 {
            let (rank, slot) = line.first().unwrap();
            assert_eq!(slot, 0);
            line.charge(&rank, 1_000);
            line.refund(&rank, 1_000);
        }
    }

    proptest! {
        /// Checks that as many slots are in as were put in and not taken out, and that the first is
        /// the least of its queue.
        #[test]
        fn it_holds_what_was_put_in(
            ops in prop::collection::vec((0u32..30, 0u8..3, 0u8..16, 0u64..20, 0u8..4), 1..300),
        ) {
            let mut positions = Positions::default();
            let mut line = Line::new(Some(90));
            let mut model: BTreeMap<u32, Rank> = BTreeMap::new();
            for (slot, level, band, key, op) in ops {
                let own = rank(level, band, key, slot);
                match op {
                    0 => prop_assert_eq!(
                        line.remove(&mut positions, slot),
                        model.remove(&slot).is_some()
                    ),
                    1 => {
                        if let Some((rank, _)) = line.first() {
                            line.charge(&rank, key);
                        }
                    }
                    _ => {
                        line.insert(&mut positions, slot, own);
                        model.insert(slot, own);
                    }
                }
                prop_assert_eq!(line.len(), model.len());
                let Some((first, slot)) = line.first() else {
                    prop_assert!(model.is_empty());
                    continue;
                };
                prop_assert_eq!(model.get(&slot), Some(&first));
                let level = model.values().map(|rank| rank.level).min();
                prop_assert_eq!(Some(first.level), level);
                let alike = model.values().filter(|own| {
                    (own.level, own.band) == (first.level, first.band)
                });
                prop_assert_eq!(alike.min(), Some(&first));
            }
        }
    }
}
