//! The open flows of an uplink, each in a slot that is used again.

mod pauses;

use std::ops::{Index, IndexMut, Range};

use super::types::{FlowId, FlowSpec};
use crate::discipline::FlowView;
use crate::marking::FlowMarks;
use crate::slots::Slots;
use crate::{Mark, Pacer, Size, Time, WireCost};
use pauses::Pauses;

/// An open flow and what it has left to send.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    /// Whether it has been granted anything.
    pub(super) begun: bool,
    /// Whether its driver has said that all of it has been offered.
    pub(super) is_complete: bool,
    /// Whether it waits in the fast path's lane.
    pub(super) is_express: bool,
    pub(super) cost: WireCost,
    /// Number of the client that it belongs to, if the driver has said.
    pub(super) client: Option<u64>,
    /// The number by which its driver knows the flow in a survey.
    pub(super) origin: u32,
    /// The flow as the discipline sees it.
    pub(super) view: FlowView,
    /// The flow's part in the sum of all that is unsent, in payload bytes.
    pub(super) unsent_bytes: u64,
    /// Payload bytes that it could write as soon as they are granted.
    pub(super) offered_bytes: u64,
    /// Payload bytes granted, of which the driver has not said that they are written.
    pub(super) granted_bytes: u64,
    /// The state that its marks follow from.
    pub(super) marks: FlowMarks,
    /// Mark of what it was granted last, where flows are marked.
    pub(super) granted_mark: Option<Mark>,
    /// The reason for its last grant.
    pub(super) granted: Granted,
    /// Whether its last grant was marked OUT, and made while IN waited.
    pub(super) is_against_in: bool,
    /// The time of its last grant.
    pub(super) served_at: Option<Time>,
    /// The time since which it has had something to write.
    pub(super) offered_since: Time,
    /// The pauses of its source.
    pauses: Pauses,
}

/// The reason why a flow got its last grant: it was this flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Granted {
    /// The first in order.
    #[default]
    InOrder,
    /// The flow that has waited longest in its lane of the floor.
    LongestInLane,
    /// The flow that has waited longest of the levels below the first in order.
    LongestBelow,
}

impl Flow {
    /// Returns the index of its class.
    pub(super) fn class(&self) -> usize {
        usize::from(self.view.class)
    }

    /// Returns a flow that has nothing to write yet.
    pub(super) fn new(now: Time, spec: &FlowSpec, view: FlowView) -> Self {
        Self {
            begun: false,
            is_complete: false,
            is_express: false,
            cost: spec.cost,
            client: spec.client,
            origin: spec.origin,
            view,
            unsent_bytes: 0,
            offered_bytes: 0,
            granted_bytes: 0,
            marks: FlowMarks::default(),
            granted_mark: None,
            granted: Granted::InOrder,
            is_against_in: false,
            served_at: None,
            offered_since: now,
            pauses: Pauses::new(now),
        }
    }

    /// Returns whether it waits for a grant; a closed flow has nothing to write.
    pub(super) fn waits(&self) -> bool {
        self.offered_bytes > 0
    }

    /// Notes that the flow's source has nothing to write for now.
    pub(super) fn pause(&mut self, now: Time) {
        if !self.is_express && !matches!(self.view.size, Size::Exact(_)) {
            self.pauses.begin(now);
        }
    }

    /// Notes that the flow has something to write, after a pause perhaps. If that makes it
    /// a response of its own, it is the one that `seq` numbers; returns whether it does.
    pub(super) fn end_pause(&mut self, now: Time, link: &Pacer, seq: u64) -> bool {
        if !self.pauses.end(now, link, &self.cost, &self.view) {
            return false;
        }
        self.view.attained = 0;
        self.view.size = Size::Unknown;
        self.view.arrival = now;
        self.is_complete = false;
        self.view.seq = seq;
        self.served_at = None;
        true
    }
}

/// The flows by their slots.
#[derive(Clone, Debug, Default)]
pub(super) struct Flows(Slots<Flow>);

impl Flows {
    /// Counts the open flows.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Gives a flow a slot.
    pub(super) fn insert(&mut self, flow: Flow) -> FlowId {
        FlowId(self.0.insert(flow))
    }

    /// Gives a flow's slot to the next one.
    pub(super) fn remove(&mut self, slot: u32) {
        self.0.remove(slot);
    }

    /// Returns the open flow of that name.
    pub(super) fn get_mut(&mut self, id: FlowId) -> Option<&mut Flow> {
        self.0.get_mut(id.0)
    }

    /// Returns the open flow of that name, to look at.
    pub(super) fn get(&self, id: FlowId) -> Option<&Flow> {
        self.0.get(id.0)
    }

    /// Returns the name of a slot's flow.
    pub(super) fn id(&self, slot: u32) -> FlowId {
        FlowId(self.0.key(slot))
    }

    /// Returns whether a slot's flow is open.
    pub(super) fn is_open(&self, slot: u32) -> bool {
        self.0.is_taken(slot)
    }

    /// Iterates over all slots, those of closed flows too.
    pub(super) fn slots(&self) -> Range<u32> {
        self.0.numbers()
    }

    /// Iterates over the open flows.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Flow> {
        self.0.iter()
    }
}

impl Index<u32> for Flows {
    type Output = Flow;

    fn index(&self, slot: u32) -> &Flow {
        &self.0[slot]
    }
}

impl IndexMut<u32> for Flows {
    fn index_mut(&mut self, slot: u32) -> &mut Flow {
        &mut self.0[slot]
    }
}
