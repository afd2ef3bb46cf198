//! A response on both links: the real one, and the one in virtual time.

use std::time::Duration;

use super::networks::Network;
use super::tally::Took;
use crate::{FlowId, FlowSpec, Lane, Size, Time, WireCost};

/// The time without bytes after which a source has paused: its response is a stream, whose end no
/// order can hasten. It is as long as for [`Egress::pause`](crate::Egress::pause).
const PAUSE: Duration = Duration::from_millis(100);

/// A response that has not ended on both links.
#[derive(Clone, Debug)]
pub(super) struct Response {
    /// The response's flow on the virtual link.
    pub(super) flow: FlowId,
    pub(super) cost: WireCost,
    /// The network that the response's client is in, if that is known.
    pub(super) network: Option<Network>,
    kind: Kind,
    /// Whether the response is among those that are looked at again after a time.
    pub(super) is_watched: bool,
    /// The bytes that the response waits with on the virtual link.
    pub(super) asked_bytes: u64,
    opened: Time,
    /// The response's size, if that is known exactly; 0 otherwise.
    known_bytes: u64,
    actual: Carried,
    fair: Carried,
    supply: Supply,
    /// The total time for which the response has been held ([`Supply::Held`]).
    held: Duration,
    /// Whether all of the response has been offered.
    is_complete: bool,
    paused_at: Option<Time>,
}

/// The kind of bytes that a flow sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The bytes of a response, whose times count.
    Response,
    /// The bytes of a response whose source has paused, so that its times do not count.
    Stream,
    /// Bytes that go ahead of all responses on both links.
    Ahead,
}

/// The bytes granted on a link, and when it has carried them.
#[derive(Clone, Copy, Debug)]
struct Carried {
    bytes: u64,
    /// The time at which the link has carried them.
    by: Time,
}

impl Carried {
    fn add(&mut self, bytes: u64, by: Time) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.by = self.by.max(by);
    }
}

/// The bytes that a response has to send beyond what it was granted on the real link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Supply {
    /// The response waits for the link with so many bytes in hand, 1 at least.
    Waits(u64),
    /// The response has had nothing to send since this time: granted bytes are on their way into
    /// the client's socket, or its client or its source keeps it waiting.
    Held(Time),
    /// The response is over, and sends no more than it was granted.
    Over,
}

/// The end of a response on the real link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The response was sent as a whole.
    Whole,
    /// The response was sent as a whole, but its source had paused.
    Stream,
    /// The response ended before it was complete.
    Cut,
    /// The end of bytes that went ahead of all responses.
    Ahead,
}

impl Response {
    pub(super) fn new(flow: FlowId, now: Time, spec: &FlowSpec) -> Self {
        let nothing = Carried { bytes: 0, by: now };
        Self {
            flow,
            cost: spec.cost,
            network: spec.network,
            kind: match spec.lane {
                Lane::Express => Kind::Ahead,
                Lane::Ordered | Lane::Grouped(..) => Kind::Response,
            },
            is_watched: false,
            asked_bytes: 0,
            opened: now,
            known_bytes: match spec.size {
                Size::Exact(bytes) => bytes,
                Size::Estimate { .. } | Size::Unknown => 0,
            },
            actual: nothing,
            fair: nothing,
            supply: Supply::Held(now),
            held: Duration::ZERO,
            is_complete: false,
            paused_at: None,
        }
    }

    /// Returns the bytes that the response could send on the virtual link now.
    ///
    /// A response that is held has had all that there was: on the virtual link it gets no further
    /// than on the real one. One that waits for the real link could have sent what it has in
    /// hand. If its size is known exactly, it could have sent all of it, but no faster than it
    /// comes and is taken while the link does not keep it waiting.
    pub(super) fn available_bytes(&self, now: Time) -> u64 {
        let sent = self.actual.bytes;
        let bytes = match self.supply {
            Supply::Waits(bytes) => {
                let could = self.known_bytes.min(self.unhindered_bytes(now));
                sent.saturating_add(bytes).max(could)
            }
            Supply::Held(_) | Supply::Over => sent,
        };
        bytes.saturating_sub(self.fair.bytes)
    }

    /// Returns the bytes that the response would have sent by now on a link that never keeps it
    /// waiting: at the rate at which it was sent while the real link did not.
    fn unhindered_bytes(&self, now: Time) -> u64 {
        let (held, age) = (self.held.as_nanos(), now.since(self.opened).as_nanos());
        if held == 0 || self.actual.bytes == 0 {
            return u64::MAX;
        }
        let bytes = u128::from(self.actual.bytes).saturating_mul(age) / held;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// Returns whether time alone will let the response send more on the virtual link.
    pub(super) fn is_slowed(&self) -> bool {
        let could = matches!(self.supply, Supply::Waits(_)) && self.asked_bytes == 0;
        could && self.fair.bytes < self.known_bytes
    }

    pub(super) fn offer(&mut self, now: Time, bytes: u64) {
        let paused = self.paused_at.take().map(|at| now.since(at));
        if paused.is_some_and(|pause| pause >= PAUSE) && self.kind == Kind::Response {
            self.kind = Kind::Stream;
        }
        if let Supply::Held(since) = self.supply {
            self.held += now.since(since);
        }
        self.supply = match bytes {
            0 => Supply::Held(now),
            _ => Supply::Waits(bytes),
        };
    }

    pub(super) fn grant(&mut self, now: Time, bytes: u64, sent_by: Time) {
        self.actual.add(bytes, sent_by);
        self.supply = Supply::Held(now);
    }

    /// Notes that `bytes` were written instead of those that were granted.
    pub(super) fn settle(&mut self, granted: u64, bytes: u64) {
        let before = self.actual.bytes.saturating_sub(granted);
        self.actual.bytes = before.saturating_add(bytes);
    }

    pub(super) fn pause(&mut self, now: Time) {
        if self.known_bytes == 0 {
            self.paused_at.get_or_insert(now);
        }
    }

    pub(super) fn complete(&mut self) {
        self.is_complete = true;
    }

    /// Ends the response on the real link, with `unused` bytes that were granted and not written.
    pub(super) fn close(&mut self, unused: u64) -> End {
        let is_settled = unused == 0 && !matches!(self.supply, Supply::Waits(_));
        let is_whole =
            self.is_complete || (self.known_bytes > 0 && self.actual.bytes >= self.known_bytes);
        self.settle(unused, 0);
        self.supply = Supply::Over;
        match self.kind {
            Kind::Ahead => End::Ahead,
            _ if !(is_settled && is_whole) => End::Cut,
            Kind::Response => End::Whole,
            Kind::Stream => End::Stream,
        }
    }

    pub(super) fn grant_fairly(&mut self, bytes: u64, sent_by: Time) {
        self.asked_bytes = 0;
        if bytes > 0 {
            self.fair.add(bytes, sent_by);
        }
    }

    /// Returns whether the response has ended on both links.
    pub(super) fn is_over(&self) -> bool {
        self.supply == Supply::Over && self.fair.bytes >= self.actual.bytes
    }

    /// Returns the bytes of a response that is over, and the times that the links took for it;
    /// none if its times do not count.
    pub(super) fn times(&self) -> Option<(u64, Took)> {
        let counts = self.kind == Kind::Response && self.actual.bytes > 0;
        let took = Took {
            actual: self.actual.by.since(self.opened),
            fair: self.fair.by.since(self.opened),
        };
        counts.then_some((self.actual.bytes, took))
    }
}
