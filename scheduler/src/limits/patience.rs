//! The least rate at which a client must move bytes while the proxy waits for it.

use std::time::Duration;

use crate::Time;

/// The rate that a client must keep to while the proxy waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MinRate {
    /// The rate, averaged over a window; at least 1.
    pub bytes_per_s: u64,
    /// The time of waiting that makes a window; not zero.
    pub window: Duration,
}

/// The time for which a client has kept the proxy waiting, and the bytes that it moved.
///
/// Only time in which the proxy waits for the client counts, so that a client that is paced, or
/// whose endpoint is slow, uses nothing up. Once the waiting adds up to a window, the bytes moved
/// since the window began are judged; then the next window begins. An average over the whole
/// exchange would let a client that took much at first dribble for hours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Patience {
    /// The time waited in this window, before `since`.
    waited: Duration,
    /// The time since which the proxy waits for the client, if it does.
    since: Option<Time>,
    /// The bytes that the client has moved in this window.
    bytes: u64,
}

impl Patience {
    /// Notes that the proxy waits for the client, from now on if it did not before.
    pub fn wait(&mut self, now: Time) {
        self.since.get_or_insert(now);
    }

    /// Notes that the proxy no longer waits for the client.
    pub fn resume(&mut self, now: Time) {
        if let Some(since) = self.since.take() {
            self.waited += now.since(since);
        }
    }

    /// Notes that the client has moved `bytes` more bytes.
    pub fn moved(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Returns how long the proxy has waited for the client in this window.
    pub fn waited(&self, now: Time) -> Duration {
        self.waited + self.since.map_or(Duration::ZERO, |since| now.since(since))
    }

    /// Returns when the window will be full if the proxy goes on waiting; `None` while it does not
    /// wait.
    pub fn due(&self, rule: &MinRate) -> Option<Time> {
        Some(self.since? + rule.window.saturating_sub(self.waited))
    }

    /// Returns whether the client has been too slow, once the window is full; begins the next
    /// window if it has not.
    pub fn is_too_slow(&mut self, now: Time, rule: &MinRate) -> bool {
        let waited = self.waited(now);
        if waited < rule.window {
            return false;
        }
        let owed = u128::from(rule.bytes_per_s) * waited.as_nanos();
        if u128::from(self.bytes) * 1_000_000_000 < owed {
            return true;
        }
        *self = Self {
            since: self.since.map(|_| now),
            ..Self::default()
        };
        false
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RULE: MinRate = MinRate {
        bytes_per_s: 100,
        window: Duration::from_secs(10),
    };

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn a_client_that_moves_nothing_is_too_slow_when_the_window_is_full() {
        let mut patience = Patience::default();
        patience.wait(at(1000));
        patience.wait(at(5000));
        assert_eq!(patience.due(&RULE), Some(at(11_000)));
        assert!(!patience.is_too_slow(at(10_999), &RULE));
        assert!(patience.is_too_slow(at(11_000), &RULE));
    }

    #[test]
    fn what_is_moved_must_reach_the_rate_in_every_window() {
        let mut patience = Patience::default();
        patience.wait(at(0));
        patience.moved(1_000_000);
        assert!(!patience.is_too_slow(at(10_000), &RULE));
        // The million is forgotten.
        patience.moved(999);
        assert_eq!(patience.due(&RULE), Some(at(20_000)));
        assert!(patience.is_too_slow(at(20_000), &RULE));
        patience.moved(1);
        assert!(!patience.is_too_slow(at(20_000), &RULE));
    }

    #[test]
    fn time_in_which_nobody_waits_for_it_does_not_count() {
        let mut patience = Patience::default();
        patience.wait(at(0));
        patience.resume(at(9_000));
        assert_eq!(patience.due(&RULE), None);
        assert!(!patience.is_too_slow(at(1_000_000), &RULE));
        patience.wait(at(1_000_000));
        assert_eq!(patience.due(&RULE), Some(at(1_001_000)));
        assert!(patience.is_too_slow(at(1_001_000), &RULE));
    }

    proptest! {
        /// Checks that a client that dribbles below the rate is found out within two windows of
        /// waiting, and that a client that keeps to the rate in each wait never is.
        #[test]
        fn dribbling_is_found_out_and_keeping_up_is_not(
            waits in prop::collection::vec((1_u64..3_000, 0_u64..5_000), 1..200),
            dribbles: bool,
        ) {
            let (mut now, mut waited) = (0, 0);
            let mut patience = Patience::default();
            for (wait_ms, pause_ms) in waits {
                patience.wait(at(now));
                now += wait_ms;
                waited += wait_ms;
                // 100 bytes per second are one in 10 ms.
                patience.moved(if dribbles { wait_ms / 20 } else { wait_ms.div_ceil(10) });
                if patience.is_too_slow(at(now), &RULE) {
                    prop_assert!(dribbles);
                    prop_assert!(waited >= 10_000);
                    return Ok(());
                }
                patience.resume(at(now));
                now += pause_ms;
            }
            prop_assert!(!dribbles || waited <= 13_000);
        }
    }
}
