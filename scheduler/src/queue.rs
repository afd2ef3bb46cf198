//! An indexed heap that finds the ready flow with the least rank: in O(log n), with no allocation
//! once it has grown to the number of flows.

/// The place of a flow in the order: the least goes first.
///
/// The order of the fields *is* the policy, and `seq` makes it total.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// The priority level of the flow's class; 0 is served before 1.
    pub level: u8,
    /// The size class, for disciplines that have them, or the queue of SRQ.
    pub band: u8,
    /// The number that the discipline orders by inside a level and band.
    pub key: u64,
    /// The flow's number in the order of arrival, which is unique.
    pub seq: u64,
}

/// The position of a slot that is not in the heap.
const ABSENT: u32 = u32::MAX;

/// The number of a node's children. Four make half the depth of a binary heap, and the four ranks
/// compared on the way down share two cache lines.
const WIDTH: usize = 4;

/// The home of a slot that is in none of its owner's heaps.
const NO_HOME: u16 = u16::MAX;

/// The place of each slot in the heap that it is in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Positions {
    places: Vec<u32>,
    /// The number of the heap that each slot is in, for owners that have several.
    homes: Vec<u16>,
}

impl Positions {
    fn get(&self, slot: u32) -> Option<usize> {
        let at = self.places.get(slot as usize).filter(|&&at| at != ABSENT)?;
        Some(*at as usize)
    }

    fn set(&mut self, slot: u32, at: u32) {
        let index = slot as usize;
        if self.places.len() <= index {
            self.places.resize(index + 1, ABSENT);
        }
        self.places[index] = at;
    }

    /// Returns the number of the heap that a slot is in, if its owner has noted that.
    pub(crate) fn home(&self, slot: u32) -> Option<u16> {
        let home = self.homes.get(slot as usize);
        home.copied().filter(|&home| home != NO_HOME)
    }

    /// Notes in which heap a slot is.
    pub(crate) fn set_home(&mut self, slot: u32, home: Option<u16>) {
        let index = slot as usize;
        if self.homes.len() <= index {
            self.homes.resize(index + 1, NO_HOME);
        }
        self.homes[index] = home.unwrap_or(NO_HOME);
    }
}

/// A heap of slots (small integers), ordered by rank. Several heaps may share their [`Positions`]:
/// a slot is in one of them at most.
#[derive(Clone, Debug, Default)]
pub(crate) struct RankHeap(Vec<(Rank, u32)>);

impl RankHeap {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn first(&self) -> Option<(Rank, u32)> {
        self.0.first().copied()
    }

    /// Gives memory back if the heap has room for far more than `most` slots.
    pub(crate) fn fit(&mut self, most: usize) {
        let room = 2 * most.max(2);
        if self.0.capacity() > 2 * room {
            self.0.shrink_to(room);
        }
    }

    /// Puts `slot` into the heap, or moves it to a new rank. The slot must be in no other heap.
    pub(crate) fn insert(&mut self, positions: &mut Positions, slot: u32, rank: Rank) {
        let Some(at) = positions.get(slot) else {
            let last = self.0.len();
            self.0.push((rank, slot));
            positions.set(slot, last as u32);
            self.sift_up(positions, last);
            return;
        };
        let before = std::mem::replace(&mut self.0[at].0, rank);
        if rank < before {
            self.sift_up(positions, at);
        } else {
            self.sift_down(positions, at);
        }
    }

    /// Takes `slot`, which must be in no other heap, out of this one. Returns false if it was not
    /// in.
    pub(crate) fn remove(&mut self, positions: &mut Positions, slot: u32) -> bool {
        let Some(at) = positions.get(slot) else {
            return false;
        };
        positions.set(slot, ABSENT);
        self.0.swap_remove(at);
        if at < self.0.len() {
            self.place(positions, at);
            self.sift_up(positions, at);
            self.sift_down(positions, at);
        }
        true
    }

    fn place(&self, positions: &mut Positions, at: usize) {
        let slot = self.0[at].1 as usize;
        positions.places[slot] = at as u32;
    }

    fn sift_up(&mut self, positions: &mut Positions, mut at: usize) {
        while at > 0 {
            let parent = (at - 1) / WIDTH;
            if self.0[parent].0 <= self.0[at].0 {
                break;
            }
            self.0.swap(parent, at);
            self.place(positions, at);
            at = parent;
        }
        self.place(positions, at);
    }

    fn sift_down(&mut self, positions: &mut Positions, mut at: usize) {
        loop {
            let first = at * WIDTH + 1;
            let last = (first + WIDTH).min(self.0.len());
            let Some(least) = (first..last).min_by_key(|&child| self.0[child].0) else {
                break;
            };
            if self.0[at].0 <= self.0[least].0 {
                break;
            }
            self.0.swap(at, least);
            self.place(positions, at);
            at = least;
        }
        self.place(positions, at);
    }
}

/// A heap with positions of its own; a slot is in it at most once.
#[derive(Clone, Debug, Default)]
pub(crate) struct RankQueue {
    heap: RankHeap,
    positions: Positions,
}

impl RankQueue {
    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    pub(crate) fn first(&self) -> Option<(Rank, u32)> {
        self.heap.first()
    }

    /// Returns all slots, the least rank first.
    pub(crate) fn sorted(&self) -> Vec<u32> {
        let mut all = self.heap.0.clone();
        all.sort_unstable();
        all.into_iter().map(|(_, slot)| slot).collect()
    }

    /// Puts `slot` into the queue, or moves it to a new rank.
    pub(crate) fn insert(&mut self, slot: u32, rank: Rank) {
        self.heap.insert(&mut self.positions, slot, rank);
    }

    /// Makes room for `most` slots, the largest of which is `slot`, so that inserting them
    /// allocates nothing.
    pub(crate) fn make_room(&mut self, slot: u32, most: usize) {
        let slots = slot as usize + 1;
        // Twice as many would be twice the memory.
        let ample = |count: usize| count + count / 8 + 8;
        let (positions, heap) = (&mut self.positions.places, &mut self.heap.0);
        if positions.capacity() < slots {
            positions.reserve_exact(ample(slots) - positions.len());
        }
        positions.resize(positions.len().max(slots), ABSENT);
        if heap.capacity() < most {
            heap.reserve_exact(ample(most) - heap.len());
        }
    }

    /// Takes `slot` out of the queue. Returns false if it was not in.
    pub(crate) fn remove(&mut self, slot: u32) -> bool {
        self.heap.remove(&mut self.positions, slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    impl RankHeap {
        /// Returns the number of slots that the heap has memory for.
        pub(crate) fn room(&self) -> usize {
            self.0.capacity()
        }
    }

    fn rank(key: u64, slot: u32) -> Rank {
        Rank {
            level: 0,
            band: 0,
            key,
            seq: u64::from(slot),
        }
    }

    #[test]
    fn memory_is_given_back_when_four_times_too_much() {
        for (room, most, left) in [(40, 10, 40), (41, 10, 20), (8, 0, 8), (9, 0, 4)] {
            let mut heap = RankHeap::default();
            heap.0.reserve_exact(room);
            heap.fit(most);
            assert_eq!(heap.0.capacity(), left, "{room} for {most}");
        }
    }

    #[test]
    fn room_is_made_with_an_eighth_and_eight_to_spare() {
        let mut queue = RankQueue::default();
        let room = |queue: &RankQueue| {
            let places = &queue.positions.places;
            (places.len(), places.capacity(), queue.heap.0.capacity())
        };
        queue.make_room(15, 17);
        assert_eq!(room(&queue), (16, 26, 27));
        queue.insert(3, rank(1, 3));
        // There is room for these.
        queue.make_room(25, 27);
        assert_eq!(room(&queue), (26, 26, 27));
        queue.make_room(26, 28);
        assert_eq!(room(&queue), (27, 38, 39));
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
        /// Checks against a sorted map: the same slot is first after any operations.
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
