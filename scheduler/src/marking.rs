//! Marking: which bytes of a flow are IN its profile, and which are OUT (SFD02 3.2, 3.3).
//!
//! The first bytes of each flow are IN, so that what is short goes ahead of what is long,
//! though no size is known. A flow that was idle is new again. Two variants have some of
//! the rest go IN as well, so that long flows lose less.
//!
//! [`Marking`] is the rule, [`FlowMarks`] what it knows of one flow, and [`Marker`] the table of a
//! router, which meets packets of many. The discipline [`Sfd`](crate::Discipline::Sfd), the proxy's
//! code points and the simulated routers all use it.

mod marker;

use std::time::Duration;

use crate::Time;
use crate::mix::mix;

pub use marker::Marker;

/// A packet's mark: IN its flow's profile, or OUT (SFD02 3.2). A packet without a mark is IN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mark {
    /// IN: the first bytes of a flow, and packets beyond the threshold that are promoted.
    #[default]
    In,
    /// OUT: the other packets beyond the threshold.
    Out,
}

impl Mark {
    /// The two marks, in the order of counters.
    pub const ALL: [Self; 2] = [Self::In, Self::Out];

    /// Returns the mark's place in an array of both.
    pub const fn index(self) -> usize {
        match self {
            Self::In => 0,
            Self::Out => 1,
        }
    }

    /// Returns the mark's name in output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::In => "in",
            Self::Out => "out",
        }
    }
}

/// The rule for a flow's packets beyond the threshold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Variant {
    /// SFD: all packets beyond the threshold are OUT (SFD02 3.2).
    Sfd,
    /// P-SFD: each packet beyond the threshold is IN with the probability threshold / bytes sent
    /// (SFD02 3.3).
    PSfd,
    /// S-SFD: one of every `k` packets beyond the threshold is IN (SFD02 3.3; the paper's choice
    /// from 4.3 on).
    #[default]
    SSfd,
}

/// The rule by which flows are marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marking {
    /// The rule for packets beyond the threshold.
    pub variant: Variant,
    /// The threshold: a packet is IN if no more bytes of its flow went before it. So the packet
    /// that crosses the threshold is still IN.
    pub threshold_bytes: u64,
    /// The longest silence of a flow that does not make it new again.
    pub idle: Duration,
    /// The period of S-SFD: one of every `k` packets beyond the threshold is IN; 0 counts as 1.
    pub k: u32,
}

impl Marking {
    /// SFD02's parameters: S-SFD, 15 KB, 1 s (3.2) and K = 4 (4.3).
    pub const PAPER: Self = Self {
        variant: Variant::SSfd,
        threshold_bytes: 15 << 10,
        idle: Duration::from_secs(1),
        k: 4,
    };

    /// Marks a packet of `bytes`, which leaves at `now`. `draw` is uniform in [0, 1), and
    /// decides in P-SFD.
    pub fn mark(&self, flow: &mut FlowMarks, now: Time, bytes: u64, draw: f64) -> Mark {
        self.wake(flow, now);
        let mark = self.next(flow, bytes, draw);
        self.pass(flow, now, bytes);
        mark
    }

    /// Makes a flow new again if it was idle for too long.
    pub fn wake(&self, flow: &mut FlowMarks, now: Time) {
        if flow.has_sent && now.since(flow.last) > self.idle {
            flow.sent_bytes = 0;
            flow.demoted = 0;
        }
    }

    /// Returns the mark that a packet of `bytes` would have if it were the flow's next.
    pub fn next(&self, flow: &FlowMarks, bytes: u64, draw: f64) -> Mark {
        let is_promoted = match self.variant {
            _ if self.is_within(flow) => true,
            Variant::Sfd => false,
            Variant::PSfd => {
                let sent_bytes = flow.counted_bytes().saturating_add(bytes);
                draw * (sent_bytes as f64) < self.threshold_bytes as f64
            }
            Variant::SSfd => flow.demoted + 1 >= self.k,
        };
        match is_promoted {
            true => Mark::In,
            false => Mark::Out,
        }
    }

    /// Notes that a packet of `bytes` leaves.
    pub fn pass(&self, flow: &mut FlowMarks, now: Time, bytes: u64) {
        if !self.is_within(flow) {
            flow.demoted = (flow.demoted + 1) % self.k.max(1);
        }
        flow.sent_bytes = flow.sent_bytes.saturating_add(bytes);
        (flow.has_sent, flow.last) = (true, now);
    }

    /// Takes back `bytes` of the packet noted last, which did not leave; with `is_whole`, they are
    /// all of the packet.
    pub fn take_back(&self, flow: &mut FlowMarks, bytes: u64, is_whole: bool) {
        flow.sent_bytes = flow.sent_bytes.saturating_sub(bytes);
        if is_whole && !self.is_within(flow) {
            flow.demoted = flow.demoted.checked_sub(1).unwrap_or(self.k.max(1) - 1);
        }
    }

    /// Returns the number of bytes after which a flow's next packet is beyond the threshold; `None`
    /// if it is already.
    pub fn bytes_within(&self, flow: &FlowMarks) -> Option<u64> {
        let left = self.threshold_bytes.checked_sub(flow.counted_bytes())?;
        Some(left.saturating_add(1))
    }

    fn is_within(&self, flow: &FlowMarks) -> bool {
        flow.counted_bytes() <= self.threshold_bytes
    }
}

/// The state of one flow that its marks follow from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowMarks {
    /// The bytes sent since the flow was new.
    sent_bytes: u64,
    /// The known size of the flow in bytes, if it counts as sent from the beginning; else 0.
    known_bytes: u64,
    /// The packets beyond the threshold since the last of them that went IN (S-SFD).
    demoted: u32,
    /// Whether the flow has sent anything with a mark.
    has_sent: bool,
    /// The time at which the flow last sent with a mark. With a flag beside it, not as an option,
    /// it takes less memory in a table of flows.
    last: Time,
}

impl FlowMarks {
    /// Counts a response's known size as sent from its beginning, so that a response larger than
    /// the threshold is never within it.
    pub fn know(&mut self, bytes: u64) {
        self.known_bytes = bytes;
    }

    /// Counts bytes that went out without a mark of their own, ahead of the others.
    pub fn count(&mut self, bytes: u64) {
        self.sent_bytes = self.sent_bytes.saturating_add(bytes);
    }

    /// Returns a draw in [0, 1) for the next packet of the flow of this number: a hash of
    /// the number and of what was sent.
    pub fn draw(&self, number: u64) -> f64 {
        let hash = mix(number ^ mix(self.sent_bytes));
        (hash >> 11) as f64 / (1u64 << 53) as f64
    }

    fn counted_bytes(&self) -> u64 {
        self.sent_bytes.max(self.known_bytes)
    }
}

#[cfg(test)]
mod tests;
