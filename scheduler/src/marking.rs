//! Marking: which bytes of a flow are IN its profile, and which are OUT (SFD02 3.2, 3.3).
//!
//! The first bytes of each flow are IN, so that what is short goes ahead of what is long,
//! though no size is known. A flow that was idle is new again. Two variants have some of
//! the rest go IN as well, so that long flows lose less.
//!
//! [`Marking`] is the rule, [`FlowMarks`] what it knows of one flow, and [`Marker`] the
//! table of a router, which meets packets of many. The discipline
//! [`Sfd`](crate::Discipline::Sfd), the proxy's code points and the simulated routers
//! are all driven by it.

mod marker;

use std::time::Duration;

use crate::Time;
use crate::mix::mix;

pub use marker::Marker;

/// A packet's mark: IN of its flow's profile, or OUT (SFD02 3.2). What bears no mark is
/// IN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mark {
    /// The first bytes of a flow, and what is promoted of the others.
    #[default]
    In,
    /// The bytes that follow them.
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

/// The marks of a flow's packets beyond the threshold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Variant {
    /// All are OUT (SFD02 3.2).
    Sfd,
    /// Each is IN with the probability threshold / bytes sent (P-SFD, SFD02 3.3).
    PSfd,
    /// One of every `k` is IN (S-SFD, SFD02 3.3; the paper's choice from 4.3 on).
    #[default]
    SSfd,
}

/// The rule by which flows are marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marking {
    /// The marks of packets beyond the threshold.
    pub variant: Variant,
    /// A packet is IN while no more bytes than this went before it: the packet that
    /// crosses the threshold still is.
    pub threshold_bytes: u64,
    /// A flow that has sent nothing for longer than this is new again.
    pub idle: Duration,
    /// S-SFD has one of so many packets beyond the threshold go IN; 0 counts as 1.
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

    /// Counts a flow that comes, or comes back, as new if it was idle for too long.
    pub fn wake(&self, flow: &mut FlowMarks, now: Time) {
        if flow.has_sent && now.since(flow.last) > self.idle {
            flow.sent_bytes = 0;
            flow.demoted = 0;
        }
    }

    /// Returns the mark of a flow's next packet, of `bytes`, if it leaves while the flow is
    /// as it is.
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

    /// Takes back what did not leave of the packet that passed last; with `is_whole` that
    /// is all of it.
    pub fn take_back(&self, flow: &mut FlowMarks, bytes: u64, is_whole: bool) {
        flow.sent_bytes = flow.sent_bytes.saturating_sub(bytes);
        if is_whole && !self.is_within(flow) {
            flow.demoted = flow.demoted.checked_sub(1).unwrap_or(self.k.max(1) - 1);
        }
    }

    /// Returns how many bytes of a flow are still to go until what follows is beyond the
    /// threshold; none if it is already.
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
    /// Bytes sent since the flow was new.
    sent_bytes: u64,
    /// Bytes that the flow is known to have, if they count as sent from its beginning.
    known_bytes: u64,
    /// Packets beyond the threshold since one of them went IN (S-SFD).
    demoted: u32,
    /// Whether it has sent anything with a mark.
    has_sent: bool,
    /// The time at which it last sent with a mark. A flag beside it, not an option, makes a table
    /// of flows the smaller.
    last: Time,
}

impl FlowMarks {
    /// Counts the size of a response as sent from its beginning: one above the threshold is
    /// never within it.
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
