//! Streams: responses whose source pauses (event streams, long polling, gRPC streams,
//! live media).
//!
//! What comes after a pause is a response of its own, whatever went before: an event
//! waits behind nothing for the megabytes that its stream has had, and nothing is known
//! of how much is to come. A stream that asks for little of the link is always treated so,
//! however short its pauses are.

use std::time::Duration;

use super::Flow;
use crate::{Pacer, Size, Time};

/// A source that has had nothing for so long has paused: longer than a server takes
/// between two writes of one page, and less than a reader of events notices.
const PAUSE: Duration = Duration::from_millis(100);

/// The time after which a source that has had nothing may have paused: a message of a
/// stream has ended, or the server is slow.
const SHORT_PAUSE: Duration = Duration::from_millis(10);

/// A source that pauses, and from one pause to the next asks for less than this part of
/// the link, sends messages rather than a download.
const LITTLE_PERCENT: u64 = 10;

/// A flow's burst: what it has sent since a pause.
#[derive(Clone, Copy, Debug)]
pub(super) struct Burst {
    /// The end of the pause, or the opening of the flow.
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

impl Flow {
    /// Notes that the flow's source has nothing to write for now.
    pub(in crate::egress) fn pause(&mut self, now: Time) {
        if !matches!(self.view.size, Size::Exact(_)) {
            self.paused_at.get_or_insert(now);
        }
    }

    /// Notes that the flow has something to write, after a pause perhaps. If that makes it
    /// a response of its own, it is the one that `seq` numbers; returns whether it does.
    pub(in crate::egress) fn end_pause(&mut self, now: Time, link: &Pacer, seq: u64) -> bool {
        let paused = self.paused_at.take().map(|at| now.since(at));
        let Some(pause) = paused.filter(|&pause| pause >= SHORT_PAUSE && !self.is_express) else {
            return false;
        };
        let begun = Burst {
            since: now,
            attained: self.view.attained,
        };
        let burst = std::mem::replace(&mut self.burst, begun);
        let sent = self.cost.bytes(self.view.attained - burst.attained);
        let link_bytes = link.bytes_in(now.since(burst.since));
        let is_little = sent.saturating_mul(100) <= link_bytes.saturating_mul(LITTLE_PERCENT);
        let is_message = is_little && self.view.size == Size::Unknown;
        if pause < PAUSE && !is_message {
            return false;
        }
        self.burst.attained = 0;
        self.view.attained = 0;
        self.view.size = Size::Unknown;
        self.view.arrival = now;
        self.is_complete = false;
        self.view.seq = seq;
        self.served_at = None;
        true
    }
}
