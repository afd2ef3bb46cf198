//! A survey of the open flows, for people who watch the queue.
//!
//! A driver makes a survey piece by piece ([`Egress::survey`]), so that no grant waits for all of
//! it: the driver's lock is held for one piece at a time.

use super::Egress;
use crate::queue::Rank;
use crate::{Size, Time};

/// The number of slots that are looked at in one piece, which takes some 0.1 ms.
const PIECE_SLOTS: u32 = 4096;

/// A survey in progress, which collects the open flows and keeps the first in its order.
#[derive(Clone, Debug)]
pub struct Survey {
    /// The most flows that are kept.
    most: usize,
    next_slot: u32,
    /// The flows found, in no order; twice `most` at most.
    found: Vec<(SurveyStanding, SurveyedFlow)>,
}

/// A flow's place in the survey, which is sorted by these fields in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SurveyStanding {
    state: FlowState,
    /// Whether the discipline orders the flow: the fast path's lane comes first.
    is_ordered: bool,
    rank: Rank,
}

/// The state of an open flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FlowState {
    /// The link is busy with bytes that the flow was granted. At most one flow at a time is in
    /// this state, whatever it has offered since.
    Sending,
    /// The flow has offered bytes, and its turn comes by its rank.
    Waiting,
    /// The flow was just opened, or its last grant has left; its source or its client is waited
    /// for.
    Idle,
}

/// An open flow as it was when it was looked at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SurveyedFlow {
    /// A number that no other flow of this uplink has or had.
    pub number: u64,
    /// The index of the flow's class.
    pub class: usize,
    /// The number by which the driver knows the flow, see
    /// [`FlowSpec::origin`](crate::FlowSpec::origin).
    pub origin: u32,
    /// The flow's state: sending, waiting or idle.
    pub state: FlowState,
    /// Whether the flow waits in the fast path's lane, in which neither class nor size counts.
    pub is_express: bool,
    /// The flow's size, as far as it is known.
    pub size: Size,
    /// Payload bytes granted so far.
    pub sent_bytes: u64,
    /// The payload bytes left; none if the size is unknown, or was estimated and has turned out
    /// too small.
    pub left_bytes: Option<u64>,
    /// The time at which the flow was opened, or began anew after a pause (with another number).
    pub opened_at: Time,
    /// The time since which the flow has waited for a turn; none if it does not wait.
    pub waits_since: Option<Time>,
}

impl Survey {
    /// Creates a survey that keeps so many flows at most, the first in the order of
    /// [`Survey::finish`].
    pub fn new(most: usize) -> Self {
        Self {
            most,
            next_slot: 0,
            found: Vec::new(),
        }
    }

    fn add(&mut self, standing: SurveyStanding, flow: SurveyedFlow) {
        if self.most == 0 {
            return;
        }
        self.found.push((standing, flow));
        if self.found.len() >= 2 * self.most {
            self.found
                .select_nth_unstable_by_key(self.most - 1, |&(standing, _)| standing);
            self.found.truncate(self.most);
        }
    }

    /// Returns the flows that were found: those that are sending, then those that wait, in the
    /// discipline's order, then those that have nothing to send. The order leaves out what
    /// classes' shares, clients' shares and the floor change in it.
    pub fn finish(mut self) -> Vec<SurveyedFlow> {
        self.found.sort_unstable_by_key(|&(standing, _)| standing);
        self.found.truncate(self.most);
        self.found.into_iter().map(|(_, flow)| flow).collect()
    }
}

impl Egress {
    /// Adds the next open flows to a survey, 4,096 at most; returns whether there are more. Each
    /// flow is found once, as it is then; one that is opened meanwhile may be missed.
    pub fn survey(&self, now: Time, survey: &mut Survey) -> bool {
        let end = self.flows.slots().end;
        let last = survey.next_slot.saturating_add(PIECE_SLOTS).min(end);
        for slot in survey.next_slot..last {
            let flow = &self.flows[slot];
            if self.flows.is_open(slot) {
                let seen = self.look(now, slot);
                let standing = SurveyStanding {
                    state: seen.state,
                    is_ordered: !flow.is_express,
                    rank: self.order.rank(flow),
                };
                survey.add(standing, seen);
            }
        }
        survey.next_slot = last;
        last < end
    }

    fn look(&self, now: Time, slot: u32) -> SurveyedFlow {
        let flow = &self.flows[slot];
        let is_busy = self.pacer().next_grant_at() > now;
        let is_last = self.granted_last == Some(self.flows.id(slot));
        let state = match (is_busy && is_last, flow.offered_bytes) {
            (true, _) => FlowState::Sending,
            (false, 1..) => FlowState::Waiting,
            (false, 0) => FlowState::Idle,
        };
        let sent_bytes = flow.view.attained.saturating_add(flow.granted_bytes);
        let left_bytes = match flow.view.size {
            Size::Exact(bytes) => Some(bytes.saturating_sub(sent_bytes)),
            Size::Estimate { bytes, .. } => bytes.checked_sub(sent_bytes).filter(|&left| left > 0),
            Size::Unknown => None,
        };
        let waits = state == FlowState::Waiting;
        let waits_since = waits.then(|| flow.served_at.max(flow.offered_since));
        SurveyedFlow {
            number: flow.view.seq,
            class: flow.class(),
            origin: flow.origin,
            state,
            is_express: flow.is_express,
            size: flow.view.size,
            sent_bytes,
            left_bytes,
            opened_at: flow.view.arrival,
            waits_since,
        }
    }
}
