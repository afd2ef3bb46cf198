//! Streams: responses whose source pauses (event streams, long polling, gRPC streams,
//! live media).
//!
//! What comes after a pause is a response of its own, whatever went before: an event
//! waits behind nothing for the megabytes that its stream has had, and nothing is known
//! of how much is to come.

use std::time::Duration;

use super::{Egress, FlowId, flow_mut};
use crate::{Size, Time};

/// A source that has had nothing for so long has paused: longer than a server takes
/// between two writes of one page, and less than a reader of events notices.
const PAUSE: Duration = Duration::from_millis(100);

impl Egress {
    /// The flow's source has nothing to write for now: not that its client takes no
    /// more. What comes after a pause of 100 ms is ranked as a flow of unknown size that
    /// has just been opened. One whose size is known exactly is no stream.
    pub fn pause(&mut self, now: Time, id: FlowId) {
        if let Some(flow) = flow_mut(&mut self.slots, id)
            && !matches!(flow.view.size, Size::Exact(_))
        {
            flow.paused_at.get_or_insert(now);
        }
    }

    /// The flow has something to write, after a pause perhaps.
    pub(super) fn end_pause(&mut self, now: Time, slot: u32) {
        let flow = &mut self.slots[slot as usize];
        let paused = flow
            .paused_at
            .take()
            .is_some_and(|at| now.since(at) >= PAUSE);
        if !paused || flow.is_express {
            return;
        }
        flow.view.attained = 0;
        flow.view.size = Size::Unknown;
        flow.view.arrival = now;
        flow.view.seq = self.next_seq;
        flow.served_at = None;
        self.next_seq += 1;
        self.recount(slot);
    }
}
