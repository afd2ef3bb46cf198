//! Pulses: now and then the pacer sends a little more, to see whether the link carries it.
//!
//! Where the search has settled below the link's rate, no queue forms at the link, and no packet
//! can refute what is believed: a client's own queue holds the search down. For a moment at a
//! higher rate, the believed link would queue. If the packets come sooner, that link is refuted,
//! and the floor rises.

use std::time::Duration;

use super::bank::SEGMENT;
use crate::Time;
use crate::rate_control::RateControl;

/// The rate of a pulse, as a multiple of the anchor.
const GAIN: f64 = 1.25;

/// The time with a backlog between two pulses after one that raised the floor. After each that did
/// not the time is doubled, within `EVERY` and `EVERY_MOST`.
const SOON: Duration = Duration::from_millis(300);
const EVERY: Duration = Duration::from_secs(1);
const EVERY_MOST: Duration = Duration::from_secs(4);

/// The least and the greatest length of a pulse, in seconds, unless it would send too much.
const LENGTH: (f32, f32) = (0.016, 0.2);

/// The most segments that a pulse sends beyond what the link is believed to carry. Many queues hold
/// a hundred packets, and bursts stand in them as well: at 300 Mbit/s 24 ms are 150 segments, and
/// their losses cost small responses more than all queues did.
const EXCESS_SEGMENTS: f32 = 32.0;

/// The schedule of pulses: when the last one was sent, and when the next is due.
#[derive(Clone, Debug)]
pub(super) struct Pulses {
    /// The time at which the last pulse began; `until` is its end.
    from: Time,
    until: Time,
    /// The time for which there has been a backlog since the last pulse.
    backlogged: Duration,
    polled_at: Time,
    every: Duration,
    /// The anchor at the last pulse.
    anchor: f64,
    on: bool,
}

impl Default for Pulses {
    fn default() -> Self {
        Self {
            from: Time::ZERO,
            until: Time::ZERO,
            backlogged: Duration::ZERO,
            polled_at: Time::ZERO,
            every: SOON,
            anchor: 0.0,
            on: false,
        }
    }
}

impl Pulses {
    /// Notes a poll, and returns whether a pulse begins. `anchor` is the rate of the search and
    /// `floor` the highest rate that is refuted, both in bits per second.
    pub(super) fn on_poll(
        &mut self,
        now: Time,
        backlogged: bool,
        anchor: f64,
        floor: f64,
        noise_s: f32,
    ) -> bool {
        let passed = now.since(self.polled_at).min(Duration::from_millis(10));
        self.polled_at = now;
        if !backlogged {
            self.on = false;
            return false;
        }
        if now < self.until {
            return false;
        }
        self.on = false;
        self.backlogged += passed;
        if self.backlogged < self.every {
            return false;
        }
        // The rates next below the link's are refuted all the time: a floor that has raised
        // nothing is below what was believed.
        let raised = floor > self.anchor || anchor < 0.8 * self.anchor;
        self.every = match raised {
            true => SOON,
            false => (self.every * 2).clamp(EVERY, EVERY_MOST),
        };
        let segment_s = SEGMENT * 8.0 / anchor as f32;
        let notable_s = (1.5 * segment_s).max(0.002).max(2.0 * noise_s);
        let gain = GAIN as f32 - 1.0;
        let length_s = (3.0 * notable_s / gain).clamp(LENGTH.0, LENGTH.1);
        let most_s = EXCESS_SEGMENTS * segment_s / gain;
        self.from = now;
        self.until = now + Duration::from_secs_f32(length_s.min(most_s));
        self.backlogged = Duration::ZERO;
        self.anchor = anchor;
        self.on = true;
        true
    }

    /// Returns whether a time lies within the last pulse.
    pub(super) fn sent(&self, at: Time) -> bool {
        (self.from..self.until).contains(&at)
    }

    /// Returns the queue that the last pulse made on the link that was believed in, in seconds.
    pub(super) fn queue_s(&self) -> f32 {
        self.until.since(self.from).as_secs_f32() * (GAIN as f32 - 1.0)
    }

    /// Returns the rate that the pacer is to send at, in bits per second.
    pub(super) fn rate(&self, control: &RateControl) -> u64 {
        let rate = control.control().rate_bits_per_s;
        match self.on {
            true => rate.max((GAIN * control.anchor_bits_per_s() as f64) as u64),
            false => rate,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rate_control::RateControlConfig;

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn a_pulse_begins_after_a_while_of_backlog_and_ends() {
        let control = RateControl::new(RateControlConfig {
            initial_rate_bits_per_s: 8_000_000,
            ..RateControlConfig::default()
        });
        let mut pulses = Pulses::default();
        // A poll counts for 10 ms at most: the first one, after 50 ms, does.
        for poll in 0..29 {
            assert!(!pulses.on_poll(at(50 + 10 * poll), true, 1e7, 0.0, 0.0));
        }
        // What is not backlogged does not count.
        assert!(!pulses.on_poll(at(340), false, 1e7, 0.0, 0.0));
        assert_eq!(pulses.rate(&control), 8_000_000);
        assert!(pulses.on_poll(at(350), true, 1e7, 0.0, 0.0));
        assert_eq!(pulses.rate(&control), 10_000_000);
        // 3 x 2 ms over a quarter are 24 ms.
        assert!(!pulses.on_poll(at(360), true, 1e7, 0.0, 0.0));
        assert_eq!(pulses.rate(&control), 10_000_000);
        assert_eq!(pulses.backlogged, Duration::ZERO);
        let (from, until) = (pulses.from, pulses.until);
        assert_eq!(from, at(350));
        assert!(pulses.sent(from) && pulses.sent(at(373)));
        assert!(!pulses.sent(until) && !pulses.sent(at(349)) && !pulses.sent(at(375)));
        assert!(!pulses.on_poll(until, true, 1e7, 0.0, 0.0));
        assert_eq!(pulses.rate(&control), 8_000_000);
        assert!(pulses.backlogged > Duration::ZERO);
    }

    #[test]
    fn a_pulse_ends_with_the_backlog() {
        let mut pulses = Pulses {
            backlogged: SOON,
            ..Pulses::default()
        };
        assert!(pulses.on_poll(at(100), true, 1e7, 0.0, 0.0));
        assert!(!pulses.on_poll(at(101), false, 1e7, 0.0, 0.0));
        assert!(!pulses.on);
    }

    #[test]
    fn a_pulse_is_as_long_as_a_delay_takes_to_show() {
        let length_ms = |anchor: f64, noise_s: f32| {
            let mut pulses = Pulses {
                backlogged: SOON,
                ..Pulses::default()
            };
            assert!(pulses.on_poll(at(1000), true, anchor, 0.0, noise_s));
            pulses.until.since(pulses.from).as_secs_f64() * 1e3
        };
        for (anchor, noise_s, expected) in [
            // 1.5 segments of 10 ms each.
            (1_211_200.0, 0.0, 180.0),
            (1e7, 0.0, 24.0),
            (1e7, 0.004, 96.0),
            (3e6, 0.1, 200.0),
            (100_000.0, 0.0, 200.0),
            // 32 segments of 121 and 12 us over a quarter.
            (1e8, 0.0, 15.503),
            (1e8, 0.1, 15.503),
            (1e9, 0.0, 1.550),
        ] {
            let length = length_ms(anchor, noise_s);
            assert!((length - expected).abs() < 0.01, "{anchor}: {length}");
        }
    }

    #[test]
    fn pulses_are_seldom_while_they_raise_nothing() {
        // The last was at 10 Mbit/s.
        let every = |every: Duration, anchor: f64, floor: f64| {
            let mut pulses = Pulses {
                backlogged: every,
                anchor: 1e7,
                every,
                ..Pulses::default()
            };
            assert!(pulses.on_poll(at(1000), true, anchor, floor, 0.0));
            assert_eq!(pulses.anchor, anchor);
            pulses.every
        };
        let second = Duration::from_secs(1);
        assert_eq!(every(SOON, 1e7, 0.0), second);
        assert_eq!(every(second, 1e7, 0.0), 2 * second);
        assert_eq!(every(3 * second, 1e7, 0.0), 4 * second);
        // Refuted, or at a rate much lower.
        assert_eq!(every(second, 1e7, 1e7), 2 * second);
        assert_eq!(every(second, 1e7, 1e7 + 1.0), SOON);
        assert_eq!(every(second, 8_000_000.0, 0.0), 2 * second);
        assert_eq!(every(second, 7_999_999.0, 0.0), SOON);
    }
}
