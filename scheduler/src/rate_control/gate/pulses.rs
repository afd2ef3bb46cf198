//! Sends a little more now and then, to see whether the link carries it.
//!
//! Where the search has settled below the link's rate no queue forms at the link, and no
//! packet can refute what is believed: a client's own queue holds the search down. For a
//! moment at a higher rate the believed link would queue; if the packets come sooner, it
//! is refuted, and the floor rises.

use std::time::Duration;

use super::bank::SEGMENT;
use crate::Time;
use crate::rate_control::RateControl;

/// A pulse sends so much more.
const GAIN: f64 = 1.25;

/// Between two pulses while there is a backlog: after one that raised the floor, and
/// twice as long after each that did not.
const SOON: Duration = Duration::from_millis(300);
const EVERY: Duration = Duration::from_secs(1);
const EVERY_MOST: Duration = Duration::from_secs(4);

/// A pulse lasts so long at least and at most.
const LENGTH: (f32, f32) = (0.016, 0.2);

/// When pulses are sent.
#[derive(Clone, Debug)]
pub(super) struct Pulses {
    /// When the last pulse began, and ends.
    from: Time,
    until: Time,
    /// How long there has been a backlog since the last pulse.
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
    /// The kernel was asked, and the search is at `anchor`; what is refuted is `floor`,
    /// both in bits per second. Whether a pulse begins.
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
        // Refuted: at what was believed at the last pulse, or nearly.
        let raised = floor > 0.95 * self.anchor || anchor < 0.8 * self.anchor;
        self.every = match raised {
            true => SOON,
            false => (self.every * 2).clamp(EVERY, EVERY_MOST),
        };
        let segment_s = SEGMENT * 8.0 / anchor as f32;
        let notable_s = (1.5 * segment_s).max(0.002).max(2.0 * noise_s);
        let length_s = 3.0 * notable_s / (GAIN as f32 - 1.0);
        self.from = now;
        self.until = now + Duration::from_secs_f32(length_s.clamp(LENGTH.0, LENGTH.1));
        self.backlogged = Duration::ZERO;
        self.anchor = anchor;
        self.on = true;
        true
    }

    /// Whether something was sent in the last pulse.
    pub(super) fn sent(&self, at: Time) -> bool {
        (self.from..self.until).contains(&at)
    }

    /// What the pacer is to send at.
    pub(super) fn rate(&self, control: &RateControl) -> u64 {
        let rate = control.control().rate_bits_per_s;
        match self.on {
            true => rate.max((GAIN * control.anchor_bits_per_s() as f64) as u64),
            false => rate,
        }
    }
}
