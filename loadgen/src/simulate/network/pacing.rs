//! Pacing by TCP itself: bursts of segments, each as far from the next as its bytes take at a rate.

use std::time::Duration;

use sprat_scheduler::Time;

use super::wire::MSS;

/// The first segments of a connection, which Linux does not pace.
const UNPACED: u32 = 10;

/// The bursts in a second, if the rate is high enough for more than the least burst.
const BURSTS_PER_S: f64 = 1024.0;

/// The rate below which a burst may be a single segment (1.2 Mbit/s), in bytes per second.
const SLOW_BYTES_PER_S: f64 = 150_000.0;

/// The most segments of a burst: 64 KB.
const BURST_MAX: u32 = (65_536 / MSS) as u32;

/// The pacing of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pacing {
    bytes_per_s: f64,
    /// The time before which no burst begins.
    next_at: Time,
    /// The time of the last burst.
    burst_at: Time,
    /// The segments that may still go with the last burst, at its time.
    burst_left: u32,
    unpaced_left: u32,
}

impl Pacing {
    /// The pacing of a new connection, which holds nothing back until it has a rate.
    pub(super) const NEW: Self = Self {
        bytes_per_s: f64::INFINITY,
        next_at: Time::ZERO,
        burst_at: Time::ZERO,
        burst_left: 0,
        unpaced_left: UNPACED,
    };

    /// Returns the rate, in bytes of payload per second.
    pub(super) fn bytes_per_s(&self) -> f64 {
        self.bytes_per_s
    }

    /// Sets the rate of the segments that are sent from now on.
    pub(super) fn set_bytes_per_s(&mut self, bytes_per_s: f64) {
        self.bytes_per_s = bytes_per_s;
    }

    /// Returns the number of segments that go at once.
    pub(super) fn burst_segments(&self) -> u32 {
        let least = if self.bytes_per_s < SLOW_BYTES_PER_S {
            1
        } else {
            2
        };
        let segments = self.bytes_per_s / BURSTS_PER_S / MSS as f64;
        (segments as u32).clamp(least, BURST_MAX)
    }

    /// Returns the time until which no segment may go, if that is later than now.
    pub(super) fn held_until(&self, now: Time) -> Option<Time> {
        (now < self.next_at && !self.is_in_burst(now)).then_some(self.next_at)
    }

    /// Notes that a segment with `bytes` of payload was sent; one that was not held back by
    /// [`Pacing::held_until`] delays those after it as well.
    pub(super) fn on_sent(&mut self, now: Time, bytes: u64) {
        if self.unpaced_left > 0 {
            self.unpaced_left -= 1;
            return;
        }
        if !self.is_in_burst(now) {
            self.burst_at = now;
            self.burst_left = if now < self.next_at {
                1
            } else {
                self.burst_segments()
            };
        }
        self.burst_left -= 1;
        let nanos = bytes as f64 * 1e9 / self.bytes_per_s;
        self.next_at = self.next_at.max(now) + Duration::from_nanos(nanos as u64);
    }

    fn is_in_burst(&self, now: Time) -> bool {
        self.burst_left > 0 && self.burst_at == now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    /// Makes a pacing of a full segment in each `ms` milliseconds, past the first segments.
    fn each(ms: f64) -> Pacing {
        let mut pacing = Pacing::NEW;
        pacing.set_bytes_per_s(MSS as f64 * 1e3 / ms);
        for _ in 0..UNPACED {
            assert_eq!(pacing.held_until(at(0)), None);
            pacing.on_sent(at(0), MSS);
        }
        pacing
    }

    /// Sends at `now` until the pacing holds, and returns how many segments went.
    fn burst(pacing: &mut Pacing, now: Time) -> u32 {
        let mut count = 0;
        while pacing.held_until(now).is_none() {
            pacing.on_sent(now, MSS);
            count += 1;
        }
        count
    }

    #[test]
    fn two_segments_go_at_once_and_the_next_after_both() {
        let mut pacing = each(4.0);
        assert_eq!(burst(&mut pacing, at(10)), 2);
        assert_eq!(pacing.held_until(at(17)), Some(at(18)));
        assert_eq!(burst(&mut pacing, at(18)), 2);
        // Later is not made up for.
        assert_eq!(burst(&mut pacing, at(100)), 2);
        assert_eq!(pacing.held_until(at(100)), Some(at(108)));
    }

    #[test]
    fn slow_ones_are_single_and_fast_ones_a_millisecond() {
        assert_eq!(burst(&mut each(10.0), at(10)), 1);
        assert_eq!(each(0.25).burst_segments(), 3);
        assert_eq!(each(0.001).burst_segments(), BURST_MAX);
    }

    #[test]
    fn a_burst_that_was_cut_short_does_not_go_on_later() {
        let mut pacing = each(4.0);
        pacing.on_sent(at(10), MSS);
        assert_eq!(pacing.held_until(at(10)), None);
        assert_eq!(pacing.held_until(at(11)), Some(at(14)));
        // A probe is not held.
        pacing.on_sent(at(11), MSS);
        assert_eq!(pacing.held_until(at(11)), Some(at(18)));
    }
}
