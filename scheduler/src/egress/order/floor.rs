//! A part of the link for what has waited longest, so that nothing starves.
//!
//! An order by size lets small responses pass large ones for as long as they come; a
//! link that is offered more than it carries then gives the largest nothing. So a part
//! of what is granted goes, in place of the first in order, to the flow that has gone
//! longest without a grant. A flow takes part once it has been open for a second: what
//! is over by then needs no help, and the order between small responses stays exact.

use std::time::Duration;

use super::Moved;
use crate::Time;
use crate::egress::flows::Flow;
use crate::queue::{Rank, RankQueue};

/// So long after it was opened a flow takes part.
const TAKES_PART_AFTER: Duration = Duration::from_secs(1);

/// Percent of the link at most.
pub const MAX_FLOOR_PERCENT: u8 = 50;

/// Bytes that are counted of one grant.
const MAX_COUNTED: i64 = 1 << 40;

/// Flows that wait, by when they were served last, and what is owed to the first.
#[derive(Clone, Debug, Default)]
pub(super) struct Floor {
    percent: u8,
    lanes: Vec<Lane>,
}

/// The flows that share a floor: all of them, or a class's where classes take turns.
#[derive(Clone, Debug, Default)]
struct Lane {
    /// The key is when a flow takes part, or was served after that. Where clients share
    /// the link their places stand here in the place of flows.
    waiting: RankQueue,
    /// Wire bytes, times 100, that the order is ahead of its part; less than none if the
    /// floor has had more.
    owed: i64,
}

impl Floor {
    /// Returns a floor of `percent` of the link, [`MAX_FLOOR_PERCENT`] at most; 0 is none.
    pub(super) fn new(percent: u8) -> Self {
        Self {
            percent: percent.min(MAX_FLOOR_PERCENT),
            lanes: Vec::new(),
        }
    }

    fn lane(&mut self, lane: usize) -> &mut Lane {
        if self.lanes.len() <= lane {
            self.lanes.resize_with(lane + 1, Lane::default);
        }
        &mut self.lanes[lane]
    }

    pub(super) fn is_off(&self) -> bool {
        self.percent == 0
    }

    /// A flow waits, or a client, with this rank by age.
    pub(super) fn insert(&mut self, lane: usize, slot: u32, rank: Rank) {
        self.lane(lane).waiting.insert(slot, rank);
    }

    pub(super) fn remove(&mut self, lane: usize, slot: u32) {
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.waiting.remove(slot);
        }
    }

    /// The flow that is served now in place of the first in order, if one is.
    pub(super) fn due(&self, lane: usize, now: Time) -> Option<u32> {
        let lane = self.lanes.get(lane).filter(|lane| lane.owed > 0)?;
        let (rank, slot) = lane.waiting.first()?;
        (rank.key <= now.as_nanos()).then_some(slot)
    }

    /// Counts what a flow was granted or has given back, for the floor or by order. A
    /// floor that no flow waits for saves nothing up.
    pub(super) fn count(&mut self, lane: usize, now: Time, moved: Moved, by_floor: bool) {
        let percent = i64::from(self.percent);
        let Some(lane) = self.lanes.get_mut(lane) else {
            return;
        };
        // No grant is near the bound; a hundredth of the type's range.
        let bounded = |bytes| i64::try_from(bytes).map_or(MAX_COUNTED, |b| b.min(MAX_COUNTED));
        let wire_bytes = match moved {
            Moved::Out(bytes) => bounded(bytes),
            Moved::Back(bytes) => -bounded(bytes),
        };
        let waits = (lane.waiting.first()).is_some_and(|(rank, _)| rank.key <= now.as_nanos());
        lane.owed = match by_floor {
            true => lane.owed - wire_bytes * (100 - percent),
            false if waits => lane.owed + wire_bytes * percent,
            false => lane.owed.min(0),
        };
    }
}

/// By age: when a flow takes part, or was served after that.
pub(super) fn rank_by_age(flow: &Flow) -> Rank {
    let opened = flow.view.arrival;
    let since = flow.served_at.unwrap_or(opened);
    Rank {
        level: 0,
        band: 0,
        key: since.max(opened + TAKES_PART_AFTER).as_nanos(),
        seq: flow.view.seq,
    }
}
