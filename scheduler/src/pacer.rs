//! The pacer: a virtual clock that says when the uplink is free again.

use std::time::Duration;

use crate::Time;

/// The bits of fraction in [`Pacer::nanos_per_byte`].
const FRACTION: u32 = 20;

/// A link of a given rate, seen from its sender: everything sent is debited,
/// and the next quantum may go when the link has (all but) drained.
///
/// This is a virtual clock rather than a bucket of tokens: `free_at` is when
/// the last byte handed over will have left.
#[derive(Clone, Debug)]
pub struct Pacer {
    rate_bits_per_s: u64,
    /// The link's time for a byte in nanoseconds: fixed point with [`FRACTION`] bits of fraction.
    nanos_per_byte: u64,
    free_at: Time,
    /// The time by which the next quantum may go before `free_at`. It keeps a link busy
    /// that would else idle while a timer fires late; what it costs is that much queue in
    /// the kernel.
    ahead: Duration,
    /// The most unused time that an idle link keeps, and that a refund brings back. More than the
    /// lateness of timers would let bursts queue up after idle times.
    credit: Duration,
    /// The most unused time that a debit makes up for, at least `credit`. More is right only for
    /// an owner that [skips](Self::skip) idle times.
    makes_up: Duration,
}

impl Pacer {
    /// The lateness that wake-ups of a user-space timer stay below on a busy machine.
    const TIMER_LATENESS: Duration = Duration::from_micros(200);

    /// Returns a link that is free now.
    ///
    /// `rate_bits_per_s` counts what is on the wire; at least 1.
    pub fn new(rate_bits_per_s: u64) -> Self {
        let mut pacer = Self {
            rate_bits_per_s: 0,
            nanos_per_byte: 0,
            free_at: Time::ZERO,
            ahead: Self::TIMER_LATENESS / 2,
            credit: Self::TIMER_LATENESS,
            makes_up: Self::TIMER_LATENESS,
        };
        pacer.set_rate(rate_bits_per_s);
        pacer
    }

    /// Returns a link whose next quantum goes at the exact moment it is free, for callers whose
    /// timers are never late (the simulator).
    pub fn exact(rate_bits_per_s: u64) -> Self {
        Self {
            ahead: Duration::ZERO,
            credit: Duration::ZERO,
            makes_up: Duration::ZERO,
            ..Self::new(rate_bits_per_s)
        }
    }

    /// Returns the same link for a driver whose timers are late by up to `lateness`: the pacer may
    /// run ahead by half of it, and makes up for all of it.
    #[must_use]
    pub fn with_lateness(self, lateness: Duration) -> Self {
        Self {
            ahead: lateness / 2,
            credit: lateness,
            makes_up: lateness,
            ..self
        }
    }

    /// Returns the same link, which makes up for at most `credit` of the time in which something
    /// waited and nothing was sent.
    #[must_use]
    pub(crate) fn with_credit(self, credit: Duration) -> Self {
        Self {
            credit,
            makes_up: credit,
            ..self
        }
    }

    /// Sets the most time that is made up for if a driver was late, and something waited. Exact
    /// timers are never late.
    pub(crate) fn make_up(&mut self, most: Duration) {
        if self.ahead > Duration::ZERO {
            self.makes_up = most.max(self.credit);
        }
    }

    /// Forgets `idle`, a time in which nothing waited, so that it is not made up for. The credit
    /// for timers that fire late stays.
    pub(crate) fn skip(&mut self, now: Time, idle: Duration) {
        let lateness = 2 * self.ahead;
        self.free_at = (self.free_at + idle).min(now - lateness).max(self.free_at);
    }

    /// Returns when all that is debited will have left.
    pub fn free_at(&self) -> Time {
        self.free_at
    }

    /// Sets when the link will be free, as another pacer of the same link has debited it.
    pub fn resume_at(&mut self, free_at: Time) {
        self.free_at = free_at;
    }

    /// Returns the rate, in bits per second on the wire.
    pub fn rate_bits_per_s(&self) -> u64 {
        self.rate_bits_per_s
    }

    /// Changes the rate, also for what is debited and has not left at `now`.
    pub fn change_rate(&mut self, now: Time, rate_bits_per_s: u64) {
        let backlog = self.backlog(now);
        self.set_rate(rate_bits_per_s);
        if backlog > 0 {
            self.free_at = now + self.time_for(backlog);
        }
    }

    fn set_rate(&mut self, rate_bits_per_s: u64) {
        let rate = rate_bits_per_s.max(1);
        self.rate_bits_per_s = rate;
        let nanos = (8_000_000_000u128 << FRACTION) / u128::from(rate);
        self.nanos_per_byte = u64::try_from(nanos).unwrap_or(u64::MAX).max(1);
    }

    /// Returns how long the link takes for `wire_bytes`.
    pub fn time_for(&self, wire_bytes: u64) -> Duration {
        let nanos = (u128::from(wire_bytes) * u128::from(self.nanos_per_byte)) >> FRACTION;
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Returns the bytes that the link carries in `time`.
    pub fn bytes_in(&self, time: Duration) -> u64 {
        let bytes = (time.as_nanos() << FRACTION) / u128::from(self.nanos_per_byte);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// Debits `wire_bytes`: the link is free later by the time that they take.
    pub fn debit(&mut self, now: Time, wire_bytes: u64) {
        self.free_at = self.free_at.max(now - self.makes_up) + self.time_for(wire_bytes);
    }

    /// Gives back what was debited and not sent. The link is free now at the
    /// earliest, with the credit of one that was idle: a refund that comes late,
    /// when the bytes' time has passed, is no licence for a burst. If the driver is late
    /// even with the bytes debited, the link is as late as without them, within what is made up
    /// for.
    pub fn refund(&mut self, now: Time, wire_bytes: u64) {
        let kept = match self.is_late(now) {
            true => self.makes_up,
            false => self.credit,
        };
        let earliest = self.free_at.min(now - kept);
        self.free_at = (self.free_at - self.time_for(wire_bytes)).max(earliest);
    }

    /// Returns when the next quantum may go; in the past if it may go now.
    pub fn next_grant_at(&self) -> Time {
        self.free_at - self.ahead
    }

    /// Returns whether the driver is so late at `now` that more is owed than an idle link keeps,
    /// and that is made up for.
    pub(crate) fn is_late(&self, now: Time) -> bool {
        self.makes_up > self.credit && now.since(self.free_at) > self.credit
    }

    /// Returns how late timers are at most.
    pub(crate) fn lateness(&self) -> Duration {
        self.credit
    }

    /// Returns the time from which a link with something to send loses capacity for good: its
    /// driver is then later than the pacer makes up for.
    pub fn loses_from(&self) -> Time {
        self.free_at + self.makes_up
    }

    /// Returns the bytes debited that cannot have left yet.
    pub fn backlog(&self, now: Time) -> u64 {
        self.bytes_in(self.free_at.since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MBIT: u64 = 1_000_000;

    fn at(micros: u64) -> Time {
        Time::from_nanos(micros * 1000)
    }

    #[test]
    fn a_full_segment_takes_1_2112_ms_at_10_mbit() {
        let pacer = Pacer::new(10 * MBIT);
        assert_eq!(pacer.time_for(1514), Duration::from_nanos(1_211_200));
        assert_eq!(pacer.bytes_in(Duration::from_nanos(1_211_200)), 1514);
    }

    #[test]
    fn an_exact_link_is_free_when_the_last_byte_has_left() {
        let mut pacer = Pacer::exact(8 * MBIT);
        pacer.debit(at(100), 1000);
        assert_eq!(pacer.next_grant_at(), at(1100));
        pacer.debit(at(200), 500);
        assert_eq!(pacer.next_grant_at(), at(1600));
        assert_eq!(pacer.backlog(at(1100)), 500);
        pacer.refund(at(1100), 500);
        assert_eq!(pacer.next_grant_at(), at(1100));
        pacer.debit(at(5000), 1000);
        assert_eq!(pacer.next_grant_at(), at(6000), "idle time is not saved up");
    }

    #[test]
    fn a_refund_gives_back_no_more_than_what_has_not_left() {
        let mut pacer = Pacer::new(8 * MBIT);
        pacer.debit(at(10_000), 1000);
        assert_eq!(pacer.free_at(), at(10_800));
        pacer.refund(at(10_000), 1_000_000);
        assert_eq!(pacer.free_at(), at(9_800), "200 us of credit, as when idle");
        // A link that has long been idle is not taken further back either.
        pacer.refund(at(50_000), 1_000_000);
        assert_eq!(pacer.free_at(), at(9_800));
    }

    #[test]
    fn lateness_is_made_up_for_and_no_more() {
        let mut pacer = Pacer::new(8 * MBIT);
        pacer.debit(at(1000), 1000);
        let first = pacer.next_grant_at();
        // The timer fires 60 us late: the next grant is not.
        pacer.debit(first + Duration::from_micros(160), 1000);
        assert_eq!(pacer.next_grant_at(), first + Duration::from_millis(1));
        // A second of silence leaves 200 us of credit, not a second.
        pacer.debit(at(1_000_000), 1000);
        assert_eq!(pacer.next_grant_at(), at(1_000_700));
    }

    #[test]
    fn time_in_which_nothing_waited_is_forgotten() {
        let mut pacer = Pacer::new(8 * MBIT).with_credit(Duration::from_secs(1));
        pacer.debit(at(2_000_000), 0);
        assert_eq!(pacer.free_at(), at(1_000_000));
        pacer.skip(at(2_000_000), Duration::from_millis(400));
        assert_eq!(pacer.free_at(), at(1_400_000));
        pacer.skip(at(2_000_000), Duration::from_millis(700));
        assert_eq!(
            pacer.free_at(),
            at(1_999_800),
            "200 us of credit, for timers"
        );
        pacer.debit(at(2_000_000), 1_000);
        pacer.skip(at(2_000_500), Duration::from_millis(400));
        assert_eq!(pacer.free_at(), at(2_000_800), "a debt is not made larger");
    }

    #[test]
    fn what_is_not_made_up_for_is_lost() {
        let mut pacer = Pacer::new(8 * MBIT);
        pacer.debit(at(1000), 1000);
        assert_eq!(pacer.free_at(), at(1800));
        assert_eq!(pacer.loses_from(), at(2000));
        pacer.debit(at(2500), 1000);
        assert_eq!(pacer.free_at(), at(1800 + 1000 + 500));
    }

    #[test]
    fn one_link_in_two_hands() {
        let lateness = Duration::from_millis(8);
        let mut first = Pacer::new(8 * MBIT).with_lateness(lateness);
        let mut second = first.clone();
        first.debit(at(100_000), 10_000);
        assert_eq!(first.free_at(), at(102_000), "8 ms late are made up for");
        second.resume_at(first.free_at());
        second.debit(at(100_000), 10_000);
        assert_eq!(second.free_at(), at(112_000));
        assert_eq!(second.next_grant_at(), at(108_000), "4 ms ahead");
    }

    #[test]
    fn debt_is_in_bytes_not_in_time() {
        let mut pacer = Pacer::exact(8 * MBIT);
        pacer.debit(at(0), 1000);
        pacer.change_rate(at(500), 80 * MBIT);
        assert_eq!(pacer.next_grant_at(), at(550));
        pacer.change_rate(at(10_000), 8 * MBIT);
        assert_eq!(pacer.next_grant_at(), at(550), "an idle link owes nothing");
    }

    #[test]
    fn extreme_rates_neither_overflow_nor_stall() {
        let mut slow = Pacer::new(0);
        slow.debit(at(0), u64::MAX);
        assert!(slow.next_grant_at() > at(1_000_000));
        let mut fast = Pacer::new(u64::MAX);
        fast.debit(at(0), 1 << 40);
        assert!(fast.next_grant_at() > Time::ZERO);
    }
}
