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
    /// Whether the flow has been granted any bytes.
    pub(super) begun: bool,
    /// Whether the driver has said that all of the flow has been offered.
    pub(super) is_complete: bool,
    /// Whether the flow waits in the fast path's lane.
    pub(super) is_express: bool,
    pub(super) cost: WireCost,
    /// The number of the client that the flow belongs to, if the driver has told it.
    pub(super) client: Option<u64>,
    /// The number by which the driver knows the flow in a survey.
    pub(super) origin: u32,
    /// The flow as the discipline sees it.
    pub(super) view: FlowView,
    /// The payload bytes that went out before the last pause after which the flow began anew. The
    /// view counts from there.
    before_pause: u64,
    /// The flow's part in the sum of all that is unsent, in payload bytes.
    pub(super) unsent_bytes: u64,
    /// The payload bytes that the flow could write as soon as they are granted.
    pub(super) offered_bytes: u64,
    /// The payload bytes granted, of which the driver has not said that they are written.
    pub(super) granted_bytes: u64,
    /// The state that the flow's marks follow from.
    pub(super) marks: FlowMarks,
    /// The mark of the flow's last grant, where flows are marked.
    pub(super) granted_mark: Option<Mark>,
    /// The reason for the flow's last grant.
    pub(super) granted: Granted,
    /// Whether the flow's last grant was marked OUT, and made while IN waited.
    pub(super) is_against_in: bool,
    /// The time of the flow's last grant, or else of its beginning.
    pub(super) served_at: Time,
    /// The time since which the flow has had something to write.
    pub(super) offered_since: Time,
    /// The pauses of the flow's source.
    pauses: Pauses,
}

/// The reason why a flow got its last grant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Granted {
    /// The flow was the first in order.
    #[default]
    InOrder,
    /// The flow had waited longest in its lane of the floor.
    LongestInLane,
    /// The flow had waited longest of the levels below the first in order.
    LongestBelow,
}

impl Flow {
    /// Returns the index of the flow's class.
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
            before_pause: 0,
            unsent_bytes: 0,
            offered_bytes: 0,
            granted_bytes: 0,
            marks: FlowMarks::default(),
            granted_mark: None,
            granted: Granted::InOrder,
            is_against_in: false,
            served_at: now,
            offered_since: now,
            pauses: Pauses::new(now),
        }
    }

    /// Returns whether the flow waits for a grant; a closed flow has nothing to write.
    pub(super) fn waits(&self) -> bool {
        self.offered_bytes > 0
    }

    /// Returns the size of what follows the last pause that made it a response of its own, where
    /// the whole response has this `size`.
    pub(super) fn size_since_pause(&self, size: Size) -> Size {
        match size {
            Size::Exact(bytes) => Size::Exact(bytes.saturating_sub(self.before_pause)),
            Size::Estimate { bytes, confidence } => Size::Estimate {
                bytes: bytes.saturating_sub(self.before_pause),
                confidence,
            },
            Size::Unknown => Size::Unknown,
        }
    }

    /// Notes that the flow's source has nothing to write for now.
    pub(super) fn pause(&mut self, now: Time) {
        if !self.is_express && !matches!(self.view.size, Size::Exact(_)) {
            self.pauses.begin(now);
        }
    }

    /// Notes that the flow has something to write, perhaps after a pause. Returns whether the
    /// pause makes what follows a response of its own, which then has the number `seq`.
    pub(super) fn end_pause(&mut self, now: Time, link: &Pacer, seq: u64) -> bool {
        if !self.pauses.end(now, link, &self.cost, &self.view) {
            return false;
        }
        let sent = std::mem::take(&mut self.view.attained);
        self.before_pause = self.before_pause.saturating_add(sent);
        self.view.size = match self.view.size {
            // It has become known in the pause.
            Size::Exact(bytes) => Size::Exact(bytes.saturating_sub(sent)),
            // What the source takes before its first byte says nothing of the size.
            estimate if sent == 0 => estimate,
            _ => Size::Unknown,
        };
        self.view.arrival = now;
        self.is_complete = false;
        self.view.seq = seq;
        self.served_at = now;
        true
    }
}

/// The open flows of an uplink, by their slots.
#[derive(Clone, Debug, Default)]
pub(super) struct Flows(Slots<Flow>);

impl Flows {
    /// Counts the open flows.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Gives a flow a slot, and returns the flow's id.
    pub(super) fn insert(&mut self, flow: Flow) -> FlowId {
        FlowId(self.0.insert(flow))
    }

    /// Frees a flow's slot for the next flow.
    pub(super) fn remove(&mut self, slot: u32) {
        self.0.remove(slot);
    }

    /// Returns the open flow of this id, to be changed.
    pub(super) fn get_mut(&mut self, id: FlowId) -> Option<&mut Flow> {
        self.0.get_mut(id.0)
    }

    /// Returns the open flow of this id, to look at.
    pub(super) fn get(&self, id: FlowId) -> Option<&Flow> {
        self.0.get(id.0)
    }

    /// Returns the id of the flow in a slot.
    pub(super) fn id(&self, slot: u32) -> FlowId {
        FlowId(self.0.key(slot))
    }

    /// Returns whether the flow in a slot is open.
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
