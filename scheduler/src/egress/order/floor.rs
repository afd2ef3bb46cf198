//! The floor: a part of the link for what has waited longest, so that nothing starves.
//!
//! An order by size lets small responses pass large ones for as long as they come. A link that is
//! offered more than it carries then gives the largest nothing. So a part of what is granted
//! goes, in place of the first in order, to the flow that has gone longest without a grant. A
//! flow takes part once it has been open for a second: what is over by then needs no help, and
//! the order between small responses stays exact.

use std::time::Duration;

use super::FlowOrder;
use super::portion::{By, Debt, Moved, Portion};
use crate::Time;
use crate::egress::flows::{Flow, Flows, Granted};
use crate::queue::Rank;

/// The time since its opening after which a flow takes part in the floor.
const TAKES_PART_AFTER: Duration = Duration::from_secs(1);

/// The time for which what lower levels get in their turn counts as part of their floor.
const OVER: Duration = Duration::from_secs(1);

/// The largest floor, as a percentage of the link.
pub const MAX_FLOOR_PERCENT: u8 = 50;

/// The waiting flows by when they were served last, and the bytes owed to the first of them.
///
/// Classes that take turns have a lane each; other classes share one for their level. The floor
/// goes to lower levels as well: a level is strict, and turns do not reach the next. What lower
/// levels get in their turn is part of it: if the levels above leave them as much, the floor
/// takes nothing from those. The key is the time at which a flow takes part, or was served after
/// that. Where clients share the link, their places stand here in the place of flows.
#[derive(Clone, Debug, Default)]
pub(super) struct Floor {
    /// The waiting flows, and what is owed within a lane.
    lanes: Portion,
    is_by_class: bool,
    /// The bytes owed to lower levels, whose part of the link is `below_millionths`.
    below: Debt,
    below_millionths: i64,
    /// The highest level of those that have a part in the floor.
    first_level: u8,
    lately: Lately,
}

/// The bytes that were granted of late.
#[derive(Clone, Debug, Default)]
struct Lately {
    since: Time,
    wire_bytes: u64,
    /// The wire bytes of the period before this one.
    before: u64,
}

impl Lately {
    /// Counts bytes, and returns those of about one period of [`OVER`]: of the present period or
    /// of the last, whichever had more.
    fn count(&mut self, now: Time, moved: Moved) -> u64 {
        let periods = now.since(self.since).as_nanos() / OVER.as_nanos();
        if periods > 0 {
            self.before = if periods == 1 { self.wire_bytes } else { 0 };
            self.wire_bytes = 0;
            self.since = now;
        }
        self.wire_bytes = match moved {
            Moved::Out(bytes) => self.wire_bytes.saturating_add(bytes),
            Moved::Back(bytes) => self.wire_bytes.saturating_sub(bytes),
        };
        self.wire_bytes.max(self.before)
    }
}

impl Floor {
    /// Creates the policy's floor, [`MAX_FLOOR_PERCENT`] of the link at most. Within a lane it is
    /// off if the discipline leaves no flow waiting for ever (`may_starve`).
    pub(super) fn new(
        percent: u8,
        may_starve: bool,
        is_arbited: bool,
        classes: &[(bool, u8)],
    ) -> Self {
        let percent = u32::from(percent.min(MAX_FLOOR_PERCENT));
        let levels = classes.iter().filter(|(idle_only, _)| !idle_only);
        let levels = levels.map(|&(_, level)| level);
        let first_level = levels.clone().min().unwrap_or_default();
        let has_levels = levels.max() > Some(first_level);
        let part = |is_on| if is_on { percent * 10_000 } else { 0 };
        Self {
            lanes: Portion::new(part(may_starve)),
            is_by_class: is_arbited,
            below: Debt::default(),
            below_millionths: i64::from(part(has_levels)),
            first_level,
            lately: Lately::default(),
        }
    }

    pub(super) fn is_off(&self) -> bool {
        self.lanes.is_off() && self.below_millionths == 0
    }

    /// Puts a flow, or a client, among those that wait for the floor, with this rank by age.
    pub(super) fn insert(&mut self, lane: usize, slot: u32, rank: Rank) {
        self.lanes.insert(lane, slot, rank);
    }

    pub(super) fn remove(&mut self, lane: usize, slot: u32) {
        self.lanes.remove(lane, slot);
    }

    /// Returns the flow or client that is served now in place of the first in order of its lane,
    /// if the floor is due.
    pub(super) fn due(&self, lane: usize, now: Time) -> Option<u32> {
        let (rank, slot) = self.lanes.due(lane)?;
        (rank.key <= now.as_nanos()).then_some(slot)
    }

    /// Returns the flow or client of a lane that has waited longest, if it takes part by now.
    fn longest(&self, lane: usize, now: Time) -> Option<(Rank, u32)> {
        let first = self.lanes.first(lane);
        first.filter(|(rank, _)| rank.key <= now.as_nanos())
    }

    /// Counts what a flow was granted or has given back. A floor that no flow waits for
    /// saves nothing up.
    pub(super) fn count(&mut self, lane: usize, now: Time, moved: Moved, granted: Granted) {
        let by = match self.longest(lane, now) {
            _ if granted != Granted::InOrder => By::Portion,
            Some(_) => By::Others,
            None => By::OthersAlone,
        };
        self.lanes.count(lane, moved, by);
    }

    /// Returns how a grant to a level counts for the floor of lower ones, if none of them waits.
    fn while_none_waits(&self, level: u8) -> By {
        match level > self.first_level {
            true => By::Portion,
            false => By::OthersAlone,
        }
    }

    fn count_below(&mut self, now: Time, moved: Moved, by: By) {
        let remembered = self.lately.count(now, moved);
        (self.below).count(self.below_millionths, remembered, moved, by);
    }
}

/// Returns a flow's rank by age: by the time at which it takes part, or was served after that.
pub(super) fn rank_by_age(flow: &Flow) -> Rank {
    let opened = flow.view.arrival;
    Rank {
        level: 0,
        band: 0,
        key: flow.served_at.max(opened + TAKES_PART_AFTER).as_nanos(),
        seq: flow.view.seq,
    }
}

/// The floor in the order. Where clients share the link, it is for clients in turn: one with many
/// waiting flows has no more of it than one with a single flow.
impl FlowOrder {
    /// Returns the index of a class's lane in the floor.
    pub(super) fn floor_lane(&self, class: usize) -> usize {
        match self.floor.is_by_class {
            true => class,
            false => usize::from(self.classes[class].1),
        }
    }

    /// Puts a flow among those that wait for the floor. A flow that has no place in its class's
    /// pool waits for that instead. A flow that got its place, but whose turn the floor took,
    /// waits with the others.
    pub(super) fn join_floor(&mut self, flows: &Flows, slot: u32) {
        let flow = &flows[slot];
        if self.floor.is_off() || self.ready.lacks_place(flow.class(), slot) {
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

    /// Ranks a client by when it was served last, or when its oldest flow takes part if that is
    /// later.
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

    /// Returns the flow to serve in place of `first`, the first in order, which has been taken
    /// out of the queue: `first` itself if the floor is not due.
    pub(super) fn or_longest_waiting(&mut self, now: Time, flows: &mut Flows, first: u32) -> u32 {
        if self.floor.is_off() {
            return first;
        }
        self.leave_floor(flows, first);
        flows[first].granted = Granted::InOrder;
        let class = flows[first].class();
        let Some((other, granted)) = self.due(now, flows, class) else {
            return first;
        };
        self.stand(now, flows, first);
        self.step_out(now, flows, other);
        self.ready.seat(flows[other].class(), other);
        flows[other].granted = granted;
        other
    }

    /// Returns the flow that the floor serves now in place of a class's first, and the reason.
    fn due(&self, now: Time, flows: &Flows, class: usize) -> Option<(u32, Granted)> {
        if self.floor.below.is_due()
            && let Some(slot) = self.longest_below(now, flows, class)
        {
            return Some((slot, Granted::LongestBelow));
        }
        let entry = self.floor.due(self.floor_lane(class), now)?;
        Some((self.flow_of(class, entry)?, Granted::LongestInLane))
    }

    /// Returns the flow that an entry of a class's lane stands for. The entries are all flows, or
    /// all clients, which stand for their oldest flows.
    fn flow_of(&self, class: usize, entry: u32) -> Option<u32> {
        match self.shares.is_on() && !self.ready.is_limited(class) {
            true => self.shares.oldest(entry).map(|(slot, _)| slot),
            false => Some(entry),
        }
    }

    /// Returns the classes of the levels below this one's, but for those that take only what the
    /// others leave: they have no part in the floor.
    fn below(&self, class: usize) -> impl Iterator<Item = usize> {
        let (_, own_level) = self.classes[class];
        let others = self.classes.iter().enumerate();
        others.filter_map(move |(other, &(idle_only, level))| {
            (!idle_only && level > own_level).then_some(other)
        })
    }

    /// Returns the flow of a class that has waited longest and takes part, with its rank by age.
    fn longest(&self, now: Time, flows: &Flows, class: usize) -> Option<(Rank, u32)> {
        let waits = self.floor.longest(self.floor_lane(class), now);
        let waits = waits.and_then(|(rank, entry)| Some((rank, self.flow_of(class, entry)?)));
        // Those that wait for a place in the class's pool have an order of their own.
        let next = self.ready.next_for_pool(class);
        let next = next.map(|slot| (rank_by_age(&flows[slot]), slot));
        let next = next.filter(|(rank, _)| rank.key <= now.as_nanos());
        waits.into_iter().chain(next).min()
    }

    /// Returns the flow that has waited longest of the levels below a class's, and may send.
    fn longest_below(&self, now: Time, flows: &Flows, class: usize) -> Option<u32> {
        let may_send = self
            .below(class)
            .filter(|&other| self.ready.may_send(other, now));
        let longest = may_send.filter_map(|other| self.longest(now, flows, other));
        longest.min().map(|(_, slot)| slot)
    }

    /// Counts bytes that a flow was granted, or has given back, towards what is owed to the
    /// floor.
    pub(super) fn count_for_floor(&mut self, now: Time, flows: &Flows, slot: u32, moved: Moved) {
        let flow = &flows[slot];
        let (class, granted) = (flow.class(), flow.granted);
        (self.floor).count(self.floor_lane(class), now, moved, granted);
        if !self.counts_below(class) {
            return;
        }
        let mut below = self.below(class);
        let by = if granted == Granted::LongestBelow {
            By::Portion
        } else if self.longest_below(now, flows, class).is_some() {
            By::Others
        } else if below.any(|other| self.longest(now, flows, other).is_some()) {
            By::OthersMeanwhile
        } else {
            self.floor.while_none_waits(self.classes[class].1)
        };
        drop(below);
        self.floor.count_below(now, moved, by);
    }

    /// Counts bytes granted to a class towards what is owed to the floor, if no flow waits.
    pub(super) fn count_alone_for_floor(&mut self, now: Time, class: usize, wire_bytes: u64) {
        let moved = Moved::Out(wire_bytes);
        let lane = self.floor_lane(class);
        self.floor.lanes.count(lane, moved, By::OthersAlone);
        if self.counts_below(class) {
            let by = self.floor.while_none_waits(self.classes[class].1);
            self.floor.count_below(now, moved, by);
        }
    }

    /// Returns whether grants to a class count for the floor of lower levels.
    fn counts_below(&self, class: usize) -> bool {
        self.floor.below_millionths != 0 && !self.classes[class].0
    }
}
