//! Streams: responses whose source pauses (event streams, long polling, gRPC streams,
//! live media).
//!
//! What comes after a pause is a response of its own, whatever went before: an event
//! waits behind nothing for the megabytes that its stream has had, and nothing is known
//! of how much is to come. A stream that asks for little of the link is always treated so,
//! however short its pauses are.

use std::time::Duration;

use super::{Egress, FlowId, flow_mut};
use crate::{Size, Time};

/// A source that has had nothing for so long has paused: longer than a server takes
/// between two writes of one page, and less than a reader of events notices.
const PAUSE: Duration = Duration::from_millis(100);

/// One that has had nothing for so long may have: a message of a stream has ended, or the
/// server is slow.
const SHORT_PAUSE: Duration = Duration::from_millis(10);

/// A source that pauses, and from one pause to the next asks for less than this part of
/// the link, sends messages rather than a download.
const LITTLE_PERCENT: u64 = 10;

/// What a flow has sent since a pause.
#[derive(Clone, Copy, Debug)]
pub(super) struct Burst {
    /// When the pause ended, or the flow was opened.
    since: Time,
    /// Payload bytes that it had sent by then.
    attained: u64,
}

impl Burst {
    /// Returns the burst of a flow that is opened.
    pub(super) fn new(now: Time) -> Self {
        Self {
            since: now,
            attained: 0,
        }
    }
}

impl Egress {
    /// The flow's source has nothing to write for now: not that its client takes no
    /// more. What comes after a pause of 100 ms is ranked as a flow of unknown size that
    /// has just been opened; if the size is unknown and a pause of 10 ms before it was
    /// followed by less than a tenth of what the link carries, so is what comes after 10 ms.
    /// One whose size is known exactly is no stream.
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
        let paused = flow.paused_at.take().map(|at| now.since(at));
        let Some(pause) = paused.filter(|&pause| pause >= SHORT_PAUSE && !flow.is_express) else {
            return;
        };
        let burst = std::mem::replace(
            &mut flow.burst,
            Burst {
                since: now,
                attained: flow.view.attained,
            },
        );
        let sent = flow.cost.bytes(flow.view.attained - burst.attained);
        let link_bytes = self.pacer.bytes_in(now.since(burst.since));
        let is_little = sent.saturating_mul(100) <= link_bytes.saturating_mul(LITTLE_PERCENT);
        let is_message = is_little && flow.view.size == Size::Unknown;
        if pause < PAUSE && !is_message {
            return;
        }
        flow.burst.attained = 0;
        flow.view.attained = 0;
        flow.view.size = Size::Unknown;
        flow.view.arrival = now;
        flow.view.seq = self.next_seq;
        flow.served_at = None;
        self.next_seq += 1;
        self.recount(slot);
    }
}
