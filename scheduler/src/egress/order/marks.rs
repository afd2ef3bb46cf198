//! Marks: which flows are short so far, and OUT's part of the link.
//!
//! A flow that waits has the mark of its next grant, which only what happens to the flow
//! changes: no time passes in it while it waits. In the discipline of short flows first the
//! mark ranks it, and OUT has a portion of the bytes for as long as IN waits as well.

use super::portion::{By, Portion};
use super::{Link, Moved, Order};
use crate::egress::flows::{Flow, Flows, Granted};
use crate::egress::types::EgressPolicy;
use crate::{Discipline, Mark, Marking, Rank, Sfd, Size, Time};

/// The rule that marks flows, and the portion of those marked OUT.
#[derive(Clone, Debug)]
pub(super) struct Marks {
    marking: Option<Marking>,
    use_size: bool,
    /// The flows that stand in the queue marked OUT, by class where classes take turns, by
    /// level otherwise.
    out: Portion,
}

impl Marks {
    /// Returns the discipline's marks, or those that the policy wants beside another.
    pub(super) fn new(policy: &EgressPolicy) -> Self {
        match policy.discipline {
            Discipline::Sfd(sfd) => Self {
                marking: Some(sfd.marking),
                use_size: sfd.use_size,
                out: Portion::new(millionths(sfd.out_share)),
            },
            _ => Self {
                marking: policy.marking,
                use_size: false,
                out: Portion::new(0),
            },
        }
    }

    /// Returns whether no flow is marked.
    pub(super) fn is_off(&self) -> bool {
        self.marking.is_none()
    }
}

fn millionths(share: f64) -> u32 {
    // Less than 2^32; what is no number is none.
    (share.clamp(0.0, Sfd::MAX_OUT_SHARE) * 1e6).round() as u32
}

/// The marks of flows.
impl Order {
    /// Counts a flow that has something to write again as new, if it was idle for too long.
    pub(in crate::egress) fn wake(&self, now: Time, flow: &mut Flow) {
        if let Some(marking) = &self.marks.marking {
            marking.wake(&mut flow.marks, now);
        }
    }

    /// Gives a flow the mark of its next grant.
    pub(super) fn mark(&self, link: &Link, flow: &mut Flow) {
        let Some(marking) = &self.marks.marking else {
            return;
        };
        let known = match flow.view.size {
            Size::Exact(bytes) | Size::Estimate { bytes, .. } if self.marks.use_size => bytes,
            _ => 0,
        };
        flow.marks.know(known);
        let bytes = flow.offered_bytes.min(self.quantum(link, flow));
        let draw = flow.marks.draw(flow.view.seq);
        flow.view.mark = marking.next(&flow.marks, bytes, draw);
    }

    /// Returns the payload bytes of a flow's next grant, at most, that its mark leaves: the
    /// grant ends with the segment that crosses the threshold.
    pub(super) fn markable(&self, flow: &Flow) -> u64 {
        let marking = self.marks.marking.as_ref();
        let Some(bytes) = marking.and_then(|marking| marking.bytes_within(&flow.marks)) else {
            return u64::MAX;
        };
        let stream = flow.cost.stream_bytes(bytes);
        let segments = stream.div_ceil(u64::from(flow.cost.mss.max(1)));
        flow.cost.payload_in(segments)
    }

    /// Marks what a flow is granted.
    pub(in crate::egress) fn pass(&self, now: Time, flow: &mut Flow, bytes: u64) {
        let Some(marking) = &self.marks.marking else {
            flow.granted_mark = None;
            return;
        };
        flow.granted_mark = Some(flow.view.mark);
        marking.pass(&mut flow.marks, now, bytes);
    }

    /// Takes back `bytes` that a flow has not written of what was granted; with `is_whole`
    /// that is all of it.
    pub(in crate::egress) fn unpass(&self, flow: &mut Flow, bytes: u64, is_whole: bool) {
        if let (Some(marking), Some(_)) = (&self.marks.marking, flow.granted_mark) {
            marking.take_back(&mut flow.marks, bytes, is_whole);
        }
    }

    /// Counts what a flow has written under no grant.
    pub(in crate::egress) fn count_unmarked(&self, flow: &mut Flow, bytes: u64) {
        if self.marks.marking.is_some() {
            flow.marks.count(bytes);
        }
    }
}

/// OUT's part of the link.
impl Order {
    fn out_lane(&self, flow: &Flow) -> usize {
        match self.ready.is_arbited() {
            true => flow.class(),
            false => usize::from(flow.view.level),
        }
    }

    fn is_out(&self, flow: &Flow) -> bool {
        // Without a place in its class's pool it waits for that.
        flow.view.mark == Mark::Out && (flow.begun || !self.ready.is_limited(flow.class()))
    }

    /// Makes room for a flow that may be marked OUT.
    pub(super) fn open_out(&mut self, flows: &Flows, slot: u32) {
        if !self.marks.out.is_off() {
            let lane = self.out_lane(&flows[slot]);
            self.marks.out.open(lane, slot);
        }
    }

    /// Lets a flow go that might have been.
    pub(super) fn close_out(&mut self, flows: &Flows, slot: u32) {
        if !self.marks.out.is_off() {
            let lane = self.out_lane(&flows[slot]);
            self.marks.out.close(lane);
        }
    }

    /// Puts a flow that stands in the queue among those marked OUT, if it is.
    pub(super) fn join_out(&mut self, flows: &Flows, slot: u32, rank: Rank) {
        if self.marks.out.is_off() {
            return;
        }
        let flow = &flows[slot];
        let lane = self.out_lane(flow);
        match self.is_out(flow) {
            true => self.marks.out.insert(lane, slot, rank),
            false => self.marks.out.remove(lane, slot),
        }
    }

    pub(super) fn leave_out(&mut self, flows: &Flows, slot: u32) {
        if !self.marks.out.is_off() {
            let lane = self.out_lane(&flows[slot]);
            self.marks.out.remove(lane, slot);
        }
    }

    /// Returns the flow to serve where `first` is the first in order, and has been taken
    /// out of the queue: it, or the first that is marked OUT if that is behind its part.
    /// `displaced` is the one in whose place `first` goes already.
    pub(super) fn or_marked_out(
        &mut self,
        now: Time,
        flows: &mut Flows,
        (first, displaced): (u32, u32),
    ) -> u32 {
        if self.marks.out.is_off() {
            return first;
        }
        self.leave_out(flows, first);
        let mut slot = first;
        if first == displaced
            && flows[first].view.mark == Mark::In
            && let Some((_, other)) = self.marks.out.due(self.out_lane(&flows[first]))
        {
            self.stand(now, flows, first);
            self.step_out(now, flows, other);
            flows[other].granted = Granted::InOrder;
            slot = other;
        }
        let (before, chosen) = (if slot == first { displaced } else { first }, &flows[slot]);
        let before = &flows[before];
        let is_against = before.view.mark == Mark::In
            && chosen.view.mark == Mark::Out
            && self.out_lane(before) == self.out_lane(chosen);
        flows[slot].is_against_in = is_against;
        slot
    }

    /// Takes what a flow was granted into what is owed to OUT, or takes it back. OUT pays
    /// for what it has while IN waits.
    pub(super) fn count_for_out(&mut self, flow: &Flow, moved: Moved) {
        let lane = self.out_lane(flow);
        let by = match flow.granted_mark {
            Some(Mark::Out) if flow.is_against_in => By::Portion,
            Some(Mark::Out) | None => return,
            Some(Mark::In) if self.marks.out.first(lane).is_some() => By::Others,
            Some(Mark::In) => By::OthersAlone,
        };
        self.marks.out.count(lane, moved, by);
    }
}
