//! A client's repetitions of a SYN or a request that the server did not get.

use std::time::Duration;

use sprat_scheduler::Time;

use super::connection::Upward;

/// The longest time before a packet is sent again, as in Linux.
const WAIT_MAX: Duration = Duration::from_secs(120);

/// The most that the first wait is doubled.
const DOUBLINGS_MAX: u32 = 7;

/// The packet of a client that is to be sent again, and the waits before that.
#[derive(Clone, Copy, Debug)]
pub(super) struct Repeats {
    missed: Option<Upward>,
    /// The number of times that the packet was missed.
    times: u32,
    /// The wait before the packet is first sent again, twice as long each time after.
    timeout: Duration,
}

impl Repeats {
    /// Makes the repetitions of a SYN.
    pub(super) fn new(timeout: Duration) -> Self {
        Self {
            missed: None,
            times: 0,
            timeout,
        }
    }

    /// Notes that the server did not get what was sent at `sent_at`. Returns when it is sent again.
    pub(super) fn miss(&mut self, what: Upward, sent_at: Time) -> Time {
        let doubled = self.timeout * (1 << self.times.min(DOUBLINGS_MAX));
        self.missed = Some(what);
        self.times += 1;
        sent_at + doubled.min(WAIT_MAX)
    }

    /// Takes what is to be sent again.
    pub(super) fn take(&mut self) -> Option<Upward> {
        self.missed.take()
    }

    /// Notes that the server got the packet. Returns whether it was the first that was sent.
    pub(super) fn got(&mut self) -> bool {
        std::mem::take(&mut self.times) == 0
    }

    /// Sets the wait before a request is sent again, from a round trip (RFC 6298 2.2).
    pub(super) fn measure(&mut self, round_trip: Duration, least: Duration) {
        self.timeout = round_trip + (2 * round_trip).max(least);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_syn_is_sent_again_after_3_9_and_21_seconds() {
        let mut repeats = Repeats::new(Duration::from_secs(3));
        let mut sent_at = Time::ZERO;
        let waits = [3, 9, 21, 45].map(|s| Time::from_nanos(s * 1_000_000_000));
        for expected in waits {
            sent_at = repeats.miss(Upward::Syn, sent_at);
            assert_eq!(sent_at, expected);
            assert!(matches!(repeats.take(), Some(Upward::Syn)));
            assert!(repeats.take().is_none());
        }
        assert!(!repeats.got());
        assert!(repeats.got());
    }

    #[test]
    fn a_request_waits_by_the_round_trip_and_no_longer_than_two_minutes() {
        let ms = Duration::from_millis;
        let mut repeats = Repeats::new(Duration::from_secs(3));
        repeats.measure(ms(20), ms(200));
        assert_eq!(
            repeats.miss(Upward::Request, Time::ZERO),
            Time::ZERO + ms(220)
        );
        assert_eq!(
            repeats.miss(Upward::Request, Time::ZERO),
            Time::ZERO + ms(440)
        );
        repeats.measure(ms(40_000), ms(200));
        assert_eq!(
            repeats.miss(Upward::Request, Time::ZERO),
            Time::ZERO + WAIT_MAX
        );
    }
}
