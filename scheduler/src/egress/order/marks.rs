//! Marks: which flows are short so far, and OUT's part of the link.
//!
//! A waiting flow has the mark of its next grant. Only what happens to the flow changes that, not
//! the time for which it waits. Under the discipline of short flows first the mark ranks the
//! flow, and OUT has a portion of the bytes for as long as IN waits as well.

use super::portion::{By, Moved, Portion};
use super::ready::Ready;
use crate::egress::flows::Flow;
use crate::egress::link::Link;
use crate::egress::types::EgressPolicy;
use crate::{Discipline, Mark, Marking, Rank, Sfd, Size, Time};

/// The rule that marks flows, and the portion of those marked OUT.
#[derive(Clone, Debug)]
pub(super) struct Marks {
    marking: Option<Marking>,
    use_size: bool,
    /// Whether OUT has its portion within each class rather than each level.
    is_by_class: bool,
    /// The flows that stand in the queue marked OUT, by class where classes take turns, by
    /// level otherwise.
    out: Portion,
}

impl Marks {
    /// Creates the marks of short flows first, or those that the policy wants under another
    /// discipline. `is_arbited` says that classes take turns.
    pub(super) fn new(policy: &EgressPolicy, is_arbited: bool) -> Self {
        match policy.discipline {
            Discipline::Sfd(sfd) => Self {
                marking: Some(sfd.marking),
                use_size: sfd.use_size,
                is_by_class: is_arbited,
                out: Portion::new(millionths(sfd.out_share)),
            },
            _ => Self {
                marking: policy.marking,
                use_size: false,
                is_by_class: is_arbited,
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

/// The calls that keep the flows' marks.
impl Marks {
    /// Counts a flow that has something to write again as new, if it was idle for too long.
    pub(super) fn wake(&self, now: Time, flow: &mut Flow) {
        if let Some(marking) = &self.marking {
            marking.wake(&mut flow.marks, now);
        }
    }

    /// Gives a flow the mark of its next grant.
    pub(super) fn mark(&self, ready: &Ready, link: &Link, flow: &mut Flow) {
        let Some(marking) = &self.marking else {
            return;
        };
        let known = match flow.view.size {
            Size::Exact(bytes) | Size::Estimate { bytes, .. } if self.use_size => bytes,
            _ => 0,
        };
        flow.marks.know(known);
        let quantum = ready.quantum(link.pacer(), flow.class(), flow.cost);
        let quantum = quantum.min(self.markable(flow));
        let bytes = flow.offered_bytes.min(quantum);
        let draw = flow.marks.draw(flow.view.seq);
        flow.view.mark = marking.next(&flow.marks, bytes, draw);
    }

    /// Returns the most payload bytes that a flow's mark leaves its next grant, which ends with
    /// the segment that crosses the threshold.
    pub(super) fn markable(&self, flow: &Flow) -> u64 {
        let marking = self.marking.as_ref();
        let Some(bytes) = marking.and_then(|marking| marking.bytes_within(&flow.marks)) else {
            return u64::MAX;
        };
        let stream = flow.cost.stream_bytes(bytes);
        let segments = stream.div_ceil(u64::from(flow.cost.mss.max(1)));
        flow.cost.payload_in(segments)
    }

    /// Marks the bytes that a flow is granted.
    pub(super) fn pass(&self, now: Time, flow: &mut Flow, bytes: u64) {
        let Some(marking) = &self.marking else {
            flow.granted_mark = None;
            return;
        };
        flow.granted_mark = Some(flow.view.mark);
        marking.pass(&mut flow.marks, now, bytes);
    }

    /// Takes back `bytes` of a flow's grant that it has not written; with `is_whole` they are the
    /// whole grant.
    pub(super) fn unpass(&self, flow: &mut Flow, bytes: u64, is_whole: bool) {
        if let (Some(marking), Some(_)) = (&self.marking, flow.granted_mark) {
            marking.take_back(&mut flow.marks, bytes, is_whole);
        }
    }

    /// Counts bytes that a flow has written under no grant.
    pub(super) fn count_unmarked(&self, flow: &mut Flow, bytes: u64) {
        if self.marking.is_some() {
            flow.marks.count(bytes);
        }
    }
}

/// The part of the link for flows marked OUT.
impl Marks {
    /// Returns whether OUT has no part of its own.
    pub(super) fn is_out_off(&self) -> bool {
        self.out.is_off()
    }

    fn out_lane(&self, flow: &Flow) -> usize {
        match self.is_by_class {
            true => flow.class(),
            false => usize::from(flow.view.level),
        }
    }

    /// Makes room for a flow that may be marked OUT.
    pub(super) fn open_out(&mut self, flow: &Flow, slot: u32) {
        if !self.out.is_off() {
            let lane = self.out_lane(flow);
            self.out.open(lane, slot);
        }
    }

    /// Gives up the room for a flow that might have been marked OUT.
    pub(super) fn close_out(&mut self, flow: &Flow) {
        if !self.out.is_off() {
            let lane = self.out_lane(flow);
            self.out.close(lane);
        }
    }

    /// Puts a flow that stands in the queue among those marked OUT, or takes it from there, by
    /// its mark.
    pub(super) fn join_out(&mut self, ready: &Ready, flow: &Flow, slot: u32, rank: Rank) {
        if self.out.is_off() {
            return;
        }
        let lane = self.out_lane(flow);
        match is_out(ready, flow, slot) {
            true => self.out.insert(lane, slot, rank),
            false => self.out.remove(lane, slot),
        }
    }

    pub(super) fn leave_out(&mut self, flow: &Flow, slot: u32) {
        if !self.out.is_off() {
            let lane = self.out_lane(flow);
            self.out.remove(lane, slot);
        }
    }

    /// Returns the flow marked OUT that is served in place of the first in order, which is
    /// marked IN, if OUT is behind its part.
    pub(super) fn out_due(&self, first: &Flow) -> Option<u32> {
        if first.view.mark != Mark::In {
            return None;
        }
        let (_, slot) = self.out.due(self.out_lane(first))?;
        Some(slot)
    }

    /// Returns whether a chosen flow is marked OUT and goes before one of its lane that is marked
    /// IN.
    pub(super) fn goes_against_in(&self, before: &Flow, chosen: &Flow) -> bool {
        before.view.mark == Mark::In
            && chosen.view.mark == Mark::Out
            && self.out_lane(before) == self.out_lane(chosen)
    }

    /// Counts bytes that a flow was granted, or has given back, towards what is owed to OUT.
    /// Bytes marked OUT count only if they were granted while IN waited.
    pub(super) fn count_out(&mut self, flow: &Flow, moved: Moved) {
        let lane = self.out_lane(flow);
        let by = match flow.granted_mark {
            Some(Mark::Out) if flow.is_against_in => By::Portion,
            Some(Mark::Out) | None => return,
            Some(Mark::In) if self.out.first(lane).is_some() => By::Others,
            Some(Mark::In) => By::OthersAlone,
        };
        self.out.count(lane, moved, by);
    }
}

/// Returns whether a flow that stands in the queue is marked OUT.
fn is_out(ready: &Ready, flow: &Flow, slot: u32) -> bool {
    // Without a place in its class's pool it waits for that.
    flow.view.mark == Mark::Out && !ready.lacks_place(flow.class(), slot)
}
