//! A part of the link for what has waited longest, so that nothing starves.
//!
//! An order by size lets small responses pass large ones for as long as they come; a
//! link that is offered more than it carries then gives the largest nothing. So a part
//! of what is granted goes, in place of the first in order, to the flow that has gone
//! longest without a grant. A flow takes part once it has been open for a second: what
//! is over by then needs no help, and the order between small responses stays exact.

use std::time::Duration;

use super::{Egress, Flow};
use crate::Time;
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
    fn due(&self, lane: usize, now: Time) -> Option<u32> {
        let lane = self.lanes.get(lane).filter(|lane| lane.owed > 0)?;
        let (rank, slot) = lane.waiting.first()?;
        (rank.key <= now.as_nanos()).then_some(slot)
    }

    /// A flow was granted so many bytes more, or less if negative, for the floor or by
    /// order. A floor that no flow waits for saves nothing up.
    fn count(&mut self, lane: usize, now: Time, wire_bytes: i64, by_floor: bool) {
        let percent = i64::from(self.percent);
        let Some(lane) = self.lanes.get_mut(lane) else {
            return;
        };
        let waits = (lane.waiting.first()).is_some_and(|(rank, _)| rank.key <= now.as_nanos());
        lane.owed = match by_floor {
            true => lane.owed - wire_bytes * (100 - percent),
            false if waits => lane.owed + wire_bytes * percent,
            false => lane.owed.min(0),
        };
    }

    fn clear(&mut self) {
        self.lanes.clear();
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

impl Egress {
    /// Gives `percent` of the link, [`MAX_FLOOR_PERCENT`] at most, to the flow that has
    /// gone longest without a grant; 0 is the discipline's order alone. Where classes
    /// have rates, weights or pools of their own it is that part of each class's share.
    /// Under `fcfs` and `fair` it changes nothing.
    pub fn set_floor(&mut self, now: Time, percent: u8) {
        self.floor_percent = percent.min(MAX_FLOOR_PERCENT);
        self.renew_floor(now);
    }

    /// Follows a change of the floor, the discipline or the classes.
    pub(super) fn renew_floor(&mut self, now: Time) {
        self.floor.clear();
        self.forget_ages();
        self.floor.percent = match self.ranker.may_starve() {
            true => self.floor_percent,
            false => 0,
        };
        for slot in 0..self.slots.len() as u32 {
            let flow = &mut self.slots[slot as usize];
            flow.by_floor = false;
            if flow.open && flow.ready_bytes > 0 && !flow.is_express {
                // A flow that stands for others of its connection, or for itself.
                self.enqueue(now, slot);
            }
        }
    }

    /// How long the flow of each class that has gone longest without a grant has waited
    /// for one; zero if none waits.
    pub fn longest_waits(&self, now: Time) -> Vec<Duration> {
        let mut waits = vec![Duration::ZERO; self.orders.len()];
        for flow in &self.slots {
            if flow.open && flow.ready_bytes > 0 {
                let since = flow.served_at.unwrap_or(flow.view.arrival);
                let wait = &mut waits[flow.class];
                *wait = (*wait).max(now.since(since.max(flow.ready_since)));
            }
        }
        waits
    }

    /// The floor's lane of a flow.
    pub(super) fn floor_lane(&self, class: usize) -> usize {
        if self.ready.is_arbited() { class } else { 0 }
    }

    /// Puts a flow among those that wait for the floor. One that has no place in its
    /// class's pool waits for that.
    pub(super) fn join_floor(&mut self, slot: u32) {
        let flow = &self.slots[slot as usize];
        if self.floor.percent == 0 || (self.ready.is_limited(flow.class) && !flow.begun) {
            return;
        }
        let rank = rank_by_age(flow);
        match flow.share {
            Some(share) => self.join_age(share, slot, rank),
            None => self.floor.insert(self.floor_lane(flow.class), slot, rank),
        }
    }

    pub(super) fn leave_floor(&mut self, slot: u32) {
        if self.floor.percent == 0 {
            return;
        }
        let flow = &self.slots[slot as usize];
        match flow.share {
            Some(share) => self.leave_age(share, slot),
            None => self.floor.remove(self.floor_lane(flow.class), slot),
        }
    }

    /// The flow to serve where `first` is the first in order, and has been taken out of
    /// the queue.
    pub(super) fn or_longest_waiting(&mut self, now: Time, first: u32) -> u32 {
        if self.floor.percent == 0 {
            return first;
        }
        self.leave_floor(first);
        let flow = &mut self.slots[first as usize];
        flow.by_floor = false;
        let (class, share) = (flow.class, flow.share);
        let due = self.floor.due(self.floor_lane(class), now);
        // All that wait in a lane are flows, or all are clients.
        let due = match share {
            Some(_) => due.and_then(|client| self.oldest_of_client(client)),
            None => due,
        };
        let Some(other) = due else {
            return first;
        };
        self.stand(now, first);
        self.step_out(now, other);
        self.slots[other as usize].by_floor = true;
        other
    }

    /// Takes what a flow was granted into what is owed to the floor, or takes it back.
    pub(super) fn count_for_floor(&mut self, now: Time, slot: u32, wire_bytes: u64, back: bool) {
        if self.floor.percent == 0 {
            return;
        }
        let flow = &self.slots[slot as usize];
        let (by_floor, lane) = (flow.by_floor, self.floor_lane(flow.class));
        // No grant is near this; a hundredth of the type's range.
        let bytes = i64::try_from(wire_bytes).map_or(MAX_COUNTED, |bytes| bytes.min(MAX_COUNTED));
        let bytes = if back { -bytes } else { bytes };
        self.floor.count(lane, now, bytes, by_floor);
    }
}
