//! Counters of what queues and links did with packets.

use serde::Serialize;
use sprat_scheduler::Time;

use super::{Mark, Refusal};

/// A number of packets, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Amount {
    /// The number of packets.
    pub packets: u64,
    /// The bytes of all packets.
    pub bytes: u64,
}

impl Amount {
    pub(super) fn add(&mut self, bytes: u32) {
        self.packets += 1;
        self.bytes += u64::from(bytes);
    }

    pub(super) fn remove(&mut self, bytes: u32) {
        self.packets -= 1;
        self.bytes -= u64::from(bytes);
    }

    /// Returns the sum of both amounts.
    pub fn plus(self, other: Self) -> Self {
        Self {
            packets: self.packets + other.packets,
            bytes: self.bytes + other.bytes,
        }
    }
}

/// A queue's length over time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LengthCounters {
    now: Amount,
    max: Amount,
    packet_s: f64,
    byte_s: f64,
    from: Time,
    last: Time,
}

impl LengthCounters {
    pub(super) fn new(now: Time) -> Self {
        Self {
            now: Amount::default(),
            max: Amount::default(),
            packet_s: 0.0,
            byte_s: 0.0,
            from: now,
            last: now,
        }
    }

    pub(super) fn add(&mut self, now: Time, bytes: u32) {
        self.pass(now);
        self.now.add(bytes);
        self.max.packets = self.max.packets.max(self.now.packets);
        self.max.bytes = self.max.bytes.max(self.now.bytes);
    }

    pub(super) fn remove(&mut self, now: Time, bytes: u32) {
        self.pass(now);
        self.now.remove(bytes);
    }

    fn pass(&mut self, now: Time) {
        let passed_s = now.since(self.last).as_secs_f64();
        self.packet_s += passed_s * self.now.packets as f64;
        self.byte_s += passed_s * self.now.bytes as f64;
        self.last = self.last.max(now);
    }

    /// Returns the packets and bytes that are queued now.
    pub fn now(&self) -> Amount {
        self.now
    }

    /// Returns the most packets, and the most bytes, that were queued at once.
    pub fn max(&self) -> Amount {
        self.max
    }

    /// Returns the mean length over the time until `now`, in packets and in bytes.
    pub fn mean(&self, now: Time) -> (f64, f64) {
        let mut until = *self;
        until.pass(now);
        let time_s = until.last.since(until.from).as_secs_f64();
        if time_s > 0.0 {
            (until.packet_s / time_s, until.byte_s / time_s)
        } else {
            (0.0, 0.0)
        }
    }
}

/// The packets of one mark, counted by what a queue did with them.
///
/// `arrived = departed + early + forced + overflow + length.now()`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MarkCounters {
    /// Packets that were offered to the queue.
    pub arrived: Amount,
    /// Packets that the link took from the queue.
    pub departed: Amount,
    /// Packets that RED's draw dropped.
    pub early: Amount,
    /// Packets dropped because RED's average was at its upper threshold.
    pub forced: Amount,
    /// Packets dropped because the queue was full.
    pub overflow: Amount,
    /// The length of the queue in packets of this mark.
    pub length: LengthCounters,
}

impl MarkCounters {
    pub(super) fn new(now: Time) -> Self {
        Self {
            arrived: Amount::default(),
            departed: Amount::default(),
            early: Amount::default(),
            forced: Amount::default(),
            overflow: Amount::default(),
            length: LengthCounters::new(now),
        }
    }

    pub(super) fn refused(&mut self, why: Refusal, bytes: u32) {
        match why {
            Refusal::Early => self.early.add(bytes),
            Refusal::Forced => self.forced.add(bytes),
            Refusal::Overflow => self.overflow.add(bytes),
        }
    }

    /// Returns the packets that the queue dropped, whatever the reason.
    pub fn dropped(&self) -> Amount {
        self.early.plus(self.forced).plus(self.overflow)
    }
}

/// The packets that were offered to a link, counted by what the link did with them.
///
/// Each packet that departed from the queue was delivered, lost or crowded out, is on its way, or
/// has not been taken by the caller yet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkCounters {
    /// The queue's counters of IN and of OUT.
    pub marks: [MarkCounters; 2],
    /// The length of the whole queue, whatever the mark.
    pub length: LengthCounters,
    /// Packets that the caller took at the far end.
    pub delivered: Amount,
    /// Packets that the draw of losses took on their way.
    pub lost: Amount,
    /// Packets dropped because too many were on their way at once.
    pub crowded: Amount,
}

impl LinkCounters {
    /// Returns the queue's counters of one mark.
    pub fn mark(&self, mark: Mark) -> &MarkCounters {
        &self.marks[mark.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_length_is_over_time() {
        let at_s = |s: u64| Time::from_nanos(s * 1_000_000_000);
        let mut length = LengthCounters::new(at_s(10));
        length.add(at_s(11), 100);
        length.add(at_s(12), 300);
        length.remove(at_s(14), 100);
        // One second empty, one with 100 bytes, two with 400, one with 300.
        assert_eq!(length.mean(at_s(15)), (6.0 / 5.0, 1200.0 / 5.0));
        assert_eq!(length.mean(at_s(15)), (6.0 / 5.0, 1200.0 / 5.0));
        assert_eq!(
            (length.max(), length.now().packets),
            (
                Amount {
                    packets: 2,
                    bytes: 400
                },
                1
            )
        );
        assert_eq!(LengthCounters::new(at_s(1)).mean(at_s(1)), (0.0, 0.0));
    }
}
