//! A part of the link for what has waited longest, so that nothing starves.
//!
//! An order by size lets small responses pass large ones for as long as they come; a
//! link that is offered more than it carries then gives the largest nothing. So a part
//! of what is granted goes, in place of the first in order, to the flow that has gone
//! longest without a grant. A flow takes part once it has been open for a second: what
//! is over by then needs no help, and the order between small responses stays exact.

use std::time::Duration;

use super::portion::{By, Portion};
use super::{Moved, Order};
use crate::Time;
use crate::egress::flows::{Flow, Flows};
use crate::queue::Rank;

/// The time from its opening after which a flow takes part.
const TAKES_PART_AFTER: Duration = Duration::from_secs(1);

/// Percent of the link at most.
pub const MAX_FLOOR_PERCENT: u8 = 50;

/// Flows that wait, by when they were served last, and what is owed to the first.
///
/// The lane is that of all of them, or a class's where classes take turns. The key is when
/// a flow takes part, or was served after that. Where clients share the link their places
/// stand here in the place of flows.
#[derive(Clone, Debug, Default)]
pub(super) struct Floor(Portion);

impl Floor {
    /// Returns a floor of `percent` of the link, [`MAX_FLOOR_PERCENT`] at most; 0 is none.
    pub(super) fn new(percent: u8) -> Self {
        Self(Portion::new(
            u32::from(percent.min(MAX_FLOOR_PERCENT)) * 10_000,
        ))
    }

    pub(super) fn is_off(&self) -> bool {
        self.0.is_off()
    }

    /// Puts a flow, or a client, among those that wait, with this rank by age.
    pub(super) fn insert(&mut self, lane: usize, slot: u32, rank: Rank) {
        self.0.insert(lane, slot, rank);
    }

    pub(super) fn remove(&mut self, lane: usize, slot: u32) {
        self.0.remove(lane, slot);
    }

    /// Returns the flow or client that is served now in place of the first in order, if one is.
    pub(super) fn due(&self, lane: usize, now: Time) -> Option<u32> {
        let (rank, slot) = self.0.due(lane)?;
        (rank.key <= now.as_nanos()).then_some(slot)
    }

    /// Counts what a flow was granted or has given back, for the floor or by order. A
    /// floor that no flow waits for saves nothing up.
    pub(super) fn count(&mut self, lane: usize, now: Time, moved: Moved, by_floor: bool) {
        let first = self.0.first(lane);
        let by = match first.is_some_and(|(rank, _)| rank.key <= now.as_nanos()) {
            _ if by_floor => By::Portion,
            true => By::Others,
            false => By::OthersAlone,
        };
        self.0.count(lane, moved, by);
    }
}

/// Returns a flow's rank by age: when it takes part, or was served after that.
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

/// The floor, which is for clients in turn where they share the link: one with many flows
/// that wait has no more of it than one with a single one.
impl Order {
    /// Returns the floor's lane of a class.
    pub(super) fn floor_lane(&self, class: usize) -> usize {
        if self.ready.is_arbited() { class } else { 0 }
    }

    /// Puts a flow among those that wait for the floor. One that has no place in its
    /// class's pool waits for that.
    pub(super) fn join_floor(&mut self, flows: &Flows, slot: u32) {
        let flow = &flows[slot];
        if self.floor.is_off() || (self.ready.is_limited(flow.class()) && !flow.begun) {
            return;
        }
        let rank = rank_by_age(flow);
        match self.share(slot) {
            None => (self.floor).insert(self.floor_lane(flow.class()), slot, rank),
            Some(share) => {
                self.shares.join_age(share, slot, rank);
                self.renew_age(flows, share);
            }
        }
    }

    pub(super) fn leave_floor(&mut self, flows: &Flows, slot: u32) {
        if self.floor.is_off() {
            return;
        }
        let flow = &flows[slot];
        match self.share(slot) {
            None => self.floor.remove(self.floor_lane(flow.class()), slot),
            Some(share) => {
                if self.shares.leave_age(share, slot) {
                    self.renew_age(flows, share);
                }
            }
        }
    }

    /// Ranks a client by when it was served last, or its oldest flow takes part.
    pub(super) fn renew_age(&mut self, flows: &Flows, share: u32) {
        if self.floor.is_off() {
            return;
        }
        let lane = self.floor_lane(self.shares.class(share));
        match self.shares.oldest(share) {
            None => self.floor.remove(lane, share),
            Some((slot, served_at)) => {
                let rank = rank_by_age(&flows[slot]);
                let key = rank.key.max(served_at.as_nanos());
                self.floor.insert(lane, share, Rank { key, ..rank });
            }
        }
    }

    /// Returns the flow to serve where `first` is the first in order, and has been taken
    /// out of the queue.
    pub(super) fn or_longest_waiting(&mut self, now: Time, flows: &mut Flows, first: u32) -> u32 {
        if self.floor.is_off() {
            return first;
        }
        self.leave_floor(flows, first);
        let flow = &mut flows[first];
        flow.by_floor = false;
        let due = self.floor.due(self.floor_lane(flow.class()), now);
        // All that wait in a lane are flows, or all are clients.
        let due = match self.share(first) {
            None => due,
            Some(_) => due.and_then(|client| self.shares.oldest(client).map(|(slot, _)| slot)),
        };
        let Some(other) = due else {
            return first;
        };
        self.stand(now, flows, first);
        self.step_out(now, flows, other);
        flows[other].by_floor = true;
        other
    }

    /// Takes what a flow was granted into what is owed to the floor, or takes it back.
    pub(super) fn count_for_floor(&mut self, now: Time, flow: &Flow, moved: Moved) {
        let lane = self.floor_lane(flow.class());
        self.floor.count(lane, now, moved, flow.by_floor);
    }
}
