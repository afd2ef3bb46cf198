//! An indexed heap: the ready flow with the least rank, in O(log n), with no
//! allocation once it has grown to the number of flows.

/// Where a flow stands in the order: the least goes first.
///
/// The order of the fields *is* the policy, and `seq` makes it total.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// Priority level of the flow's class; 0 is served before 1.
    pub level: u8,
    /// Size class, for disciplines that have them.
    pub band: u8,
    /// What the discipline orders by inside a level and band.
    pub key: u64,
    /// Order of arrival, unique.
    pub seq: u64,
}

/// Position of a slot that is not in the heap.
const ABSENT: u32 = u32::MAX;

/// Children of a node. Four wide: half the depth of a binary heap, and the
/// four ranks compared on the way down share two cache lines.
const WIDTH: usize = 4;

/// Slots (small integers) ordered by rank; a slot is in it at most once.
#[derive(Clone, Debug, Default)]
pub(crate) struct RankQueue {
    heap: Vec<(Rank, u32)>,
    /// By slot: its index in `heap`, or [`ABSENT`].
    position: Vec<u32>,
}

impl RankQueue {
    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    pub(crate) fn first(&self) -> Option<(Rank, u32)> {
        self.heap.first().copied()
    }

    /// Puts `slot` in, or moves it to a new rank.
    pub(crate) fn insert(&mut self, slot: u32, rank: Rank) {
        let index = slot as usize;
        if self.position.len() <= index {
            self.position.resize(index + 1, ABSENT);
        }
        let at = self.position[index];
        if at == ABSENT {
            self.position[index] = self.heap.len() as u32;
            self.heap.push((rank, slot));
            self.sift_up(self.heap.len() - 1);
            return;
        }
        let at = at as usize;
        let before = std::mem::replace(&mut self.heap[at].0, rank);
        if rank < before {
            self.sift_up(at);
        } else {
            self.sift_down(at);
        }
    }

    /// Takes `slot` out; false if it was not in.
    pub(crate) fn remove(&mut self, slot: u32) -> bool {
        let Some(at) = self.position.get_mut(slot as usize) else {
            return false;
        };
        if *at == ABSENT {
            return false;
        }
        let at = std::mem::replace(at, ABSENT) as usize;
        self.heap.swap_remove(at);
        if at < self.heap.len() {
            self.place(at);
            self.sift_up(at);
            self.sift_down(at);
        }
        true
    }

    fn place(&mut self, at: usize) {
        let slot = self.heap[at].1 as usize;
        self.position[slot] = at as u32;
    }

    fn sift_up(&mut self, mut at: usize) {
        while at > 0 {
            let parent = (at - 1) / WIDTH;
            if self.heap[parent].0 <= self.heap[at].0 {
                break;
            }
            self.heap.swap(parent, at);
            self.place(at);
            at = parent;
        }
        self.place(at);
    }

    fn sift_down(&mut self, mut at: usize) {
        loop {
            let first = at * WIDTH + 1;
            let last = (first + WIDTH).min(self.heap.len());
            let Some(least) = (first..last).min_by_key(|&child| self.heap[child].0) else {
                break;
            };
            if self.heap[at].0 <= self.heap[least].0 {
                break;
            }
            self.heap.swap(at, least);
            self.place(at);
            at = least;
        }
        self.place(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn rank(key: u64, slot: u32) -> Rank {
        Rank {
            level: 0,
            band: 0,
            key,
            seq: u64::from(slot),
        }
    }

    #[test]
    fn rank_orders_by_level_then_band_then_key_then_arrival() {
        let base = Rank {
            level: 1,
            band: 1,
            key: 1,
            seq: 1,
        };
        assert!(
            Rank {
                level: 0,
                band: 9,
                key: 9,
                seq: 9
            } < base
        );
        assert!(
            Rank {
                band: 0,
                key: 9,
                seq: 9,
                ..base
            } < base
        );
        assert!(
            Rank {
                key: 0,
                seq: 9,
                ..base
            } < base
        );
        assert!(Rank { seq: 0, ..base } < base);
    }

    proptest! {
        /// Against a sorted map: the same first, after any operations.
        #[test]
        fn behaves_like_a_sorted_map(ops in prop::collection::vec((0u32..40, 0u64..50, 0u8..3), 1..400)) {
            let mut queue = RankQueue::default();
            let mut model: BTreeMap<u32, Rank> = BTreeMap::new();
            for (slot, key, op) in ops {
                match op {
                    0 => prop_assert_eq!(queue.remove(slot), model.remove(&slot).is_some()),
                    _ => {
                        queue.insert(slot, rank(key, slot));
                        model.insert(slot, rank(key, slot));
                    }
                }
                let first = model.iter().map(|(&slot, &rank)| (rank, slot)).min();
                prop_assert_eq!(queue.first(), first);
                prop_assert_eq!(queue.len(), model.len());
            }
        }
    }
}
