//! Allowances: how much of the link may go to bytes outside grants.
//!
//! Set-ups, acknowledgements and what else a kernel sends of its own accord can only be counted
//! after the event. While they are few, the link's clock waits for each of their bytes. When they
//! are more than the link carries, a clock that waited for all of them would never be free, and
//! every response would wait as long as they come. So the clock takes a bounded part of them, and
//! forgets the rest: they have left, or stand in a queue that no scheduler orders any more.

use std::time::Duration;

use crate::{Pacer, Time};

/// The time whose bytes on the link may go at once: more than a burst of small things takes, and
/// less than a client notices.
const BURST: Duration = Duration::from_millis(100);

/// The least burst on slow links: an initial window of TCP (RFC 6928), headers included,
/// which a kernel may send at once for a single connection.
const BURST_MIN_BYTES: u64 = 10 * 1514;

/// A part of the link's rate, and a burst on top of it.
#[derive(Clone, Debug)]
pub(super) struct LinkAllowance {
    /// The part of the link, in percent.
    percent: u64,
    /// The clock of a link that has that part of the rate.
    clock: Pacer,
    burst_bytes: u64,
}

impl LinkAllowance {
    /// Returns an allowance of `percent` of `link`'s rate, none of it used.
    pub(super) fn new(percent: u64, link: &Pacer) -> Self {
        let mut allowance = Self {
            percent,
            clock: Pacer::exact(link.rate_bits_per_s()),
            burst_bytes: 0,
        };
        allowance.set_link(Time::ZERO, link);
        allowance
    }

    /// Follows a change of the link's rate.
    pub(super) fn set_link(&mut self, now: Time, link: &Pacer) {
        let rate = u128::from(link.rate_bits_per_s()) * u128::from(self.percent) / 100;
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        self.clock.change_rate(now, rate);
        self.burst_bytes = link.bytes_in(BURST).max(BURST_MIN_BYTES);
    }

    /// Returns the bytes that may go now.
    pub(super) fn room(&self, now: Time) -> u64 {
        self.burst_bytes.saturating_sub(self.clock.backlog(now))
    }

    /// Uses up to `wire_bytes` of what may go now, and returns how many it used.
    pub(super) fn take(&mut self, now: Time, wire_bytes: u64) -> u64 {
        let taken = wire_bytes.min(self.room(now));
        self.clock.debit(now, taken);
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MBIT: u64 = 1_000_000;

    fn ms(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn a_burst_is_a_tenth_of_a_second_or_an_initial_window() {
        let burst = |rate| LinkAllowance::new(80, &Pacer::exact(rate)).room(ms(0));
        assert_eq!(burst(8 * MBIT), 100_000);
        assert_eq!(burst(80 * MBIT), 1_000_000);
        assert_eq!(burst(MBIT), 15_140);
        assert_eq!(burst(0), 15_140);
    }

    #[test]
    fn what_is_used_comes_back_at_the_parts_rate() {
        let mut allowance = LinkAllowance::new(80, &Pacer::exact(8 * MBIT));
        assert_eq!(allowance.take(ms(0), 60_000), 60_000);
        assert_eq!(allowance.take(ms(0), 60_000), 40_000);
        assert_eq!(allowance.take(ms(0), 60_000), 0);
        // 800 bytes a millisecond.
        assert_eq!(allowance.room(ms(10)), 8_000);
        assert_eq!(allowance.take(ms(20), u64::MAX), 16_000);
        assert_eq!(allowance.room(ms(1000)), 100_000, "and no more is saved up");
    }

    #[test]
    fn it_follows_the_link() {
        let mut allowance = LinkAllowance::new(50, &Pacer::exact(8 * MBIT));
        allowance.take(ms(0), 100_000);
        allowance.set_link(ms(0), &Pacer::exact(80 * MBIT));
        assert_eq!(allowance.room(ms(0)), 900_000, "what was used stays used");
        assert_eq!(allowance.room(ms(10)), 950_000);
    }
}
