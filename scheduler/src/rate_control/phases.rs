//! Growing, draining, and doubting that a delay is the uplink's.

use std::time::Duration;

use super::{BusySpan, DOUBT_GAIN, GAIN_MAX, GAIN_MIN, Growth, Held, RateControl, UNSEEN_STEPS};
use crate::Time;

impl RateControl {
    /// What to send at, over the anchor.
    pub(super) fn gain(&mut self, now: Time, passed: f64) -> f64 {
        let gain = 1.0 + (self.target() - self.queue) / self.reaction(now);
        self.doubt(now, passed, gain < DOUBT_GAIN);
        if now < self.drain.until {
            return if gain > GAIN_MIN {
                GAIN_MIN
            } else {
                GAIN_MIN / 2.0
            };
        }
        gain.clamp(GAIN_MIN, if self.config.cautious { 1.0 } else { GAIN_MAX })
    }

    /// A queue of ours falls when less is sent. A delay that does not fall is
    /// another queue's (delayed acknowledgements, the clients' own links, a
    /// new route), and is to be left out of account.
    pub(super) fn doubt(&mut self, now: Time, passed: f64, holding_back: bool) {
        let passed = passed.min(0.01);
        if holding_back {
            self.held.time += passed;
        } else {
            self.held.time -= passed;
        }
        if self.held.time <= 0.0 {
            self.held.time = 0.0;
            if self.held.test.is_none() {
                self.held.anchor = self.anchor;
            }
            return;
        }
        if self.held.test.is_none() && self.held.time > 0.3 + 4.0 * self.queue {
            self.drain_now(now);
        }
    }

    pub(super) fn judge(&mut self) {
        let anchor = self.held.anchor;
        if let Some((delay, until)) = self.held.test
            && self.confirmed_sent_at >= until
        {
            self.held = Held {
                foreign: self.held.foreign,
                anchor: self.anchor,
                ..Held::default()
            };
            if self.least_delay() > 0.7 * delay {
                self.held.foreign = self.least_delay();
                self.set_anchor(anchor.min(4.0 * self.anchor));
                self.span = BusySpan::default();
            }
        }
    }

    pub(super) fn grow(&mut self, now: Time, passed: f64, backlogged: bool) {
        if self.queue >= self.target() {
            self.growth.steps = 0;
            self.growth.unqueued = 0.0;
            self.growth.backlogged = 0.0;
            return;
        }
        self.growth.backlogged = if backlogged {
            self.growth.backlogged + passed.min(0.01)
        } else {
            0.0
        };
        let settled = self.delay_window() + 2.0 * self.target();
        if self.growth.backlogged < settled || self.queue >= self.target() / 2.0 {
            return;
        }
        let carried = self.frontier.map_or(0, |f| f.position);
        if self.growth.unqueued == 0.0 {
            self.growth.carried_from = carried;
            self.growth.began_at = now;
        }
        self.growth.unqueued += passed.min(0.01);
        let enough = (32.0 * self.segment()).max(0.01);
        let nothing_sent = self.written_at <= self.growth.began_at;
        let heard = nothing_sent || self.confirmed_sent_at > self.growth.stepped_at;
        // A link that drops most of what it is given has no long queue either.
        // Of another network's clients less may have been heard than of those before.
        let bits = carried.saturating_sub(self.growth.carried_from) as f64 * 8.0;
        let took_it = bits > 0.4 * self.anchor * self.growth.unqueued;
        if self.growth.unqueued >= enough
            && heard
            && (took_it || nothing_sent && self.growth.steps < UNSEEN_STEPS)
        {
            // Behind a step too far stands a queue until that is seen.
            let gain = match (self.growth.steps, self.config.cautious) {
                (0..4, true) => 1.02,
                (4..6, true) => 1.06,
                (0..2, false) | (6..8, true) => 1.25,
                (2, false) | (8, true) => 1.5,
                _ => 2.0,
            };
            self.growth = Growth {
                unqueued: 0.0,
                began_at: now,
                carried_from: carried,
                backlogged: 0.0,
                steps: self.growth.steps + 1,
                stepped_at: now,
            };
            self.set_anchor(self.anchor * gain);
        }
    }

    pub(super) fn drain(&mut self, now: Time, backlogged: bool) {
        let empty = self.probes.is_empty() && !backlogged;
        if empty || self.queue < self.target() / 4.0 {
            self.drain.empty_at = now;
        }
        if self.held.test.is_some() {
            return;
        }
        let every = if self.drain.found_lower { 0.1 } else { 5.0 };
        let due = self.drain.empty_at.max(self.drain.until) + Duration::from_secs_f64(every);
        if now >= due {
            self.drain_now(now);
        }
    }

    fn drain_now(&mut self, now: Time) {
        let time = 2.0 * (self.queue + self.target());
        self.drain.found_lower = false;
        self.drain.until = now + Duration::from_secs_f64(time.min(0.5));
        self.held.test = Some((self.least_delay(), self.drain.until));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rate_control::RateControlConfig;
    use crate::rate_control::span::Point;

    /// A round trip of another network moves the frontier on in time and back in bytes.
    #[test]
    fn a_frontier_that_falls_back_shows_no_growth() {
        let mut control = RateControl::new(RateControlConfig::default());
        let anchor = control.anchor;
        let now = Time::from_nanos(10_000_000_000);
        control.frontier = Some(Point {
            departed_at: now,
            position: 1000,
        });
        control.growth = Growth {
            unqueued: 10.0,
            carried_from: 2000,
            backlogged: 10.0,
            ..Growth::default()
        };
        control.written_at = now;
        control.confirmed_sent_at = now;
        control.grow(now, 0.01, true);
        assert_eq!(control.anchor, anchor);
    }
}
