//! A set of ready flows, of which the first in order stands in the queue for all.

use crate::queue::{Positions, Rank, RankHeap};

/// A change of the flow that stands in the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FrontChange {
    /// The flow that is no longer in the queue.
    pub(super) out: Option<u32>,
    /// The flow that is in the queue from now on, or has another rank there.
    pub(super) into: Option<u32>,
}

/// The flows that are ready, and which of them is shown to the queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Front {
    ready: RankHeap,
    shown: Option<u32>,
}

impl Front {
    /// Makes a flow ready, or gives it another rank.
    pub(super) fn insert(
        &mut self,
        positions: &mut Positions,
        slot: u32,
        rank: Rank,
    ) -> FrontChange {
        self.ready.insert(positions, slot, rank);
        self.show(Some(slot))
    }

    /// Removes a flow from the ready ones, if it is among them.
    pub(super) fn remove(&mut self, positions: &mut Positions, slot: u32) -> FrontChange {
        match self.ready.remove(positions, slot) {
            true => self.show(None),
            false => FrontChange::default(),
        }
    }

    /// Removes a flow from the ready ones. If it stood in the queue, none does until
    /// [`Front::show`].
    pub(super) fn take(&mut self, positions: &mut Positions, slot: u32) {
        self.ready.remove(positions, slot);
        self.shown = self.shown.filter(|&shown| shown != slot);
    }

    /// Makes the first of the ready flows the one in the queue, and returns the change. `moved`
    /// is a flow whose rank may be another.
    pub(super) fn show(&mut self, moved: Option<u32>) -> FrontChange {
        let first = self.ready.first().map(|(_, slot)| slot);
        let before = std::mem::replace(&mut self.shown, first);
        FrontChange {
            out: before.filter(|_| before != first),
            into: first.filter(|_| before != first || moved == first),
        }
    }

    /// Removes all ready flows, and returns those that were not in the queue.
    pub(super) fn clear(&mut self, positions: &mut Positions) -> Vec<u32> {
        let shown = self.shown.take();
        let mut hidden = Vec::with_capacity(self.ready.len());
        while let Some((_, slot)) = self.ready.first() {
            self.ready.remove(positions, slot);
            hidden.extend(Some(slot).filter(|_| shown != Some(slot)));
        }
        hidden
    }

    /// Returns the flow that stands in the queue, if one does.
    pub(super) fn shown(&self) -> Option<u32> {
        self.shown
    }

    /// Gives up memory beyond what about so many flows need.
    pub(super) fn fit(&mut self, flows: usize) {
        self.ready.fit(flows);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ready.len() == 0
    }

    /// Counts the flows that are ready and not in the queue.
    pub(super) fn hidden(&self) -> usize {
        self.ready.len() - usize::from(self.shown.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_many_flows_needed_is_given_back() {
        let (mut front, mut positions) = (Front::default(), Positions::default());
        let rank = |slot| Rank {
            level: 0,
            band: 0,
            key: 0,
            seq: u64::from(slot),
        };
        for slot in 0..100 {
            front.insert(&mut positions, slot, rank(slot));
        }
        for slot in 1..100 {
            front.remove(&mut positions, slot);
        }
        assert!(front.ready.room() >= 100);
        front.fit(1);
        assert!(front.ready.room() <= 8, "{}", front.ready.room());
        assert_eq!(front.shown(), Some(0));
    }
}
