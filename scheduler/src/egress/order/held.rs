//! A client's flows: a single one held in place, as most clients have, or several in heaps.

use super::front::{Front, FrontChange};
use crate::queue::{Positions, Rank, RankHeap};

/// The places of flows in the heaps of their clients.
#[derive(Clone, Debug, Default)]
pub(super) struct Standing {
    ready: Positions,
    aged: Positions,
}

/// A client's open flows: which of them are ready, and which take part in the floor.
#[derive(Clone, Debug)]
pub(super) enum Held {
    /// A single flow, which needs no order.
    One {
        slot: u32,
        is_ready: bool,
        is_aged: bool,
    },
    Many(Box<Many>),
}

#[derive(Clone, Debug)]
pub(super) struct Many {
    /// The number of open flows.
    flows: u32,
    /// The exclusive or of the open flows' slots: the slot of the last flow when it is alone.
    slots: u32,
    front: Front,
    /// The flows that take part in the floor, the one that has waited longest first.
    aged: RankHeap,
}

impl Held {
    /// Returns a client's first flow, which has nothing to send yet.
    pub(super) fn one(slot: u32) -> Self {
        Self::One {
            slot,
            is_ready: false,
            is_aged: false,
        }
    }

    /// Takes in another flow that is opened. `ranks` gives the ranks of an open flow: in the
    /// discipline's order, and by age.
    pub(super) fn enter(
        &mut self,
        standing: &mut Standing,
        new: u32,
        ranks: impl FnOnce(u32) -> (Rank, Rank),
    ) {
        match self {
            Self::Many(many) => {
                many.flows += 1;
                many.slots ^= new;
            }
            &mut Self::One {
                slot,
                is_ready,
                is_aged,
            } => {
                let mut many = Box::new(Many {
                    flows: 2,
                    slots: slot ^ new,
                    front: Front::default(),
                    aged: RankHeap::default(),
                });
                let (rank, age) = ranks(slot);
                if is_ready {
                    many.front.insert(&mut standing.ready, slot, rank);
                }
                if is_aged {
                    many.aged.insert(&mut standing.aged, slot, age);
                }
                *self = Self::Many(many);
            }
        }
    }

    /// Lets go of a flow that is over, and not ready. Returns whether it was the client's last.
    pub(super) fn leave(&mut self, standing: &mut Standing, gone: u32) -> bool {
        let Self::Many(many) = self else {
            return true;
        };
        many.flows -= 1;
        many.slots ^= gone;
        if many.flows == 1 {
            let slot = many.slots;
            let is_ready = !many.front.is_empty();
            many.front.remove(&mut standing.ready, slot);
            let is_aged = many.aged.remove(&mut standing.aged, slot);
            *self = Self::One {
                slot,
                is_ready,
                is_aged,
            };
        } else {
            // Heaps that grew with flows that are over would be bounded by no number
            // of open ones.
            many.front.fit(many.flows as usize);
            many.aged.fit(many.flows as usize);
        }
        false
    }

    /// Makes a flow ready, or gives it another rank in the discipline's order.
    pub(super) fn insert(&mut self, standing: &mut Standing, slot: u32, rank: Rank) -> FrontChange {
        match self {
            Self::Many(many) => many.front.insert(&mut standing.ready, slot, rank),
            Self::One { is_ready, .. } => {
                *is_ready = true;
                FrontChange {
                    out: None,
                    into: Some(slot),
                }
            }
        }
    }

    /// Removes a flow from the ready ones, if it is among them.
    pub(super) fn remove(&mut self, standing: &mut Standing, slot: u32) -> FrontChange {
        match self {
            Self::Many(many) => many.front.remove(&mut standing.ready, slot),
            Self::One { is_ready, .. } => FrontChange {
                out: std::mem::take(is_ready).then_some(slot),
                into: None,
            },
        }
    }

    /// Removes a flow from the ready ones, as [`Front::take`] does.
    pub(super) fn take(&mut self, standing: &mut Standing, slot: u32) {
        match self {
            Self::Many(many) => many.front.take(&mut standing.ready, slot),
            Self::One { is_ready, .. } => *is_ready = false,
        }
    }

    /// Makes the first of the ready flows the one in the queue.
    pub(super) fn show(&mut self) {
        if let Self::Many(many) = self {
            many.front.show(None);
        }
    }

    /// Returns the flow that stands in the queue, if one does.
    pub(super) fn shown(&self) -> Option<u32> {
        match self {
            Self::Many(many) => many.front.shown(),
            Self::One { slot, is_ready, .. } => is_ready.then_some(*slot),
        }
    }

    /// Counts the flows that are ready and not in the queue.
    pub(super) fn hidden(&self) -> usize {
        match self {
            Self::Many(many) => many.front.hidden(),
            Self::One { .. } => 0,
        }
    }

    /// Returns whether no flow is ready.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Many(many) => many.front.is_empty(),
            Self::One { is_ready, .. } => !is_ready,
        }
    }

    /// Lets a flow take part in the floor, with this rank by age.
    pub(super) fn join_age(&mut self, standing: &mut Standing, slot: u32, rank: Rank) {
        match self {
            Self::Many(many) => many.aged.insert(&mut standing.aged, slot, rank),
            Self::One { is_aged, .. } => *is_aged = true,
        }
    }

    /// Takes a flow out of the floor. Returns whether it took part.
    pub(super) fn leave_age(&mut self, standing: &mut Standing, slot: u32) -> bool {
        match self {
            Self::Many(many) => many.aged.remove(&mut standing.aged, slot),
            Self::One { is_aged, .. } => std::mem::take(is_aged),
        }
    }

    /// Returns the flow that has waited longest of those that take part in the floor.
    pub(super) fn oldest(&self) -> Option<u32> {
        match self {
            Self::Many(many) => many.aged.first().map(|(_, slot)| slot),
            Self::One { slot, is_aged, .. } => is_aged.then_some(*slot),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_many_flows_is_one_again_and_the_last_says_so() {
        let mut standing = Standing::default();
        let rank = |slot| Rank {
            level: 0,
            band: 0,
            key: 0,
            seq: u64::from(slot),
        };
        let mut held = Held::one(4);
        for new in [7, 9] {
            held.enter(&mut standing, new, |slot| (rank(slot), rank(slot)));
        }
        held.insert(&mut standing, 7, rank(7));
        for gone in [4, 9] {
            assert!(matches!(held, Held::Many(_)));
            assert!(!held.leave(&mut standing, gone));
        }
        let expected = Held::One {
            slot: 7,
            is_ready: true,
            is_aged: false,
        };
        assert_eq!(format!("{held:?}"), format!("{expected:?}"));
        held.remove(&mut standing, 7);
        assert!(held.leave(&mut standing, 7));
    }
}
