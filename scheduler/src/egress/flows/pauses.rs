//! Streams: responses whose source pauses (event streams, long polling, gRPC streams, live
//! media).
//!
//! What comes after a pause is a response of its own, whatever went before. So an event does not
//! wait because its stream has had megabytes before, and how much is to come is not known. A
//! stream that asks for little of the link is treated so after pauses of 10 ms already.

use std::time::Duration;

use crate::discipline::FlowView;
use crate::{Pacer, Size, Time, WireCost};

/// The time without bytes after which a source has paused: longer than a server takes between two
/// writes of one page, and less than a reader of events notices.
const PAUSE: Duration = Duration::from_millis(100);

/// The time without bytes after which a source may have paused: a message of a stream has ended,
/// or the server is slow.
const SHORT_PAUSE: Duration = Duration::from_millis(10);

/// The percentage of the link up to which a source that pauses sends messages rather than a
/// download, from one pause to the next.
const LITTLE_PERCENT: u64 = 10;

/// A flow's burst: what it has sent since a pause.
#[derive(Clone, Copy, Debug)]
struct Burst {
    /// The time at which the pause ended, or the flow was opened.
    since: Time,
    /// The payload bytes that the flow had sent by then.
    attained: u64,
}

/// The pauses of a flow's source.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pauses {
    /// The time since which the source has had nothing, if the driver has said so.
    since: Option<Time>,
    /// The flow's burst since the last pause.
    burst: Burst,
}

impl Pauses {
    /// Returns the pauses of a flow that has just been opened.
    pub(super) fn new(now: Time) -> Self {
        Self {
            since: None,
            burst: Burst {
                since: now,
                attained: 0,
            },
        }
    }

    /// Notes that the source has nothing for now.
    pub(super) fn begin(&mut self, now: Time) {
        self.since.get_or_insert(now);
    }

    /// Ends the pause, if there is one, and returns whether it makes what follows in the flow a
    /// response of its own. `cost` is that of the flow's bytes on the wire. Most flows have no
    /// pause, and cost nothing here.
    pub(super) fn end(
        &mut self,
        now: Time,
        link: &Pacer,
        cost: &WireCost,
        flow: &FlowView,
    ) -> bool {
        let Some(since) = self.since.take() else {
            return false;
        };
        let pause = now.since(since);
        if pause < SHORT_PAUSE {
            return false;
        }
        let begun = Burst {
            since: now,
            attained: flow.attained,
        };
        let burst = std::mem::replace(&mut self.burst, begun);
        let sent = cost.bytes(flow.attained - burst.attained);
        let link_bytes = link.bytes_in(now.since(burst.since));
        let is_little = sent.saturating_mul(100) <= link_bytes.saturating_mul(LITTLE_PERCENT);
        let is_message = is_little && flow.size == Size::Unknown;
        if pause < PAUSE && !is_message {
            return false;
        }
        self.burst.attained = 0;
        true
    }
}
