//! The phases of the rate control: growing, draining, and doubting that a delay is the uplink's.

use std::time::Duration;

use super::{
    BusySpan, DOUBT_GAIN, GAIN_MAX, GAIN_MAX_CAUTIOUS, GAIN_MIN, Growth, HoldingBack,
    MEASURED_PATIENCE, RateControl, UNSEEN_STEPS,
};
use crate::Time;

impl RateControl {
    /// Returns the gain, which is the pacer's rate as a multiple of the anchor.
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
        gain.clamp(GAIN_MIN, self.gain_most(now))
    }

    /// Returns the most that the gain may be. A search behind a gate exceeds the rate that it
    /// believes in only for the queue that it keeps.
    fn gain_most(&self, now: Time) -> f64 {
        if self.config.cautious {
            (1.0 + self.kept() / self.reaction(now)).min(GAIN_MAX_CAUTIOUS)
        } else {
            GAIN_MAX
        }
    }

    /// Tests a delay that the pacer has held back against for long. The uplink's queue falls when
    /// less is sent. A delay that does not fall is another queue's (delayed acknowledgements, the
    /// clients' own links, a new route), and is to be left out of account.
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
            self.held = HoldingBack {
                foreign: self.held.foreign,
                anchor: self.anchor,
                ..HoldingBack::default()
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
        let mut enough = (32.0 * self.segment()).max(0.01);
        if self.is_measured(now) {
            enough *= MEASURED_PATIENCE;
        }
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
    use crate::rate_control::span::Point;
    use crate::rate_control::tests::control;
    use crate::rate_control::{RateControlConfig, Write};

    /// The time of a segment at the rate of `control()`, in seconds; target and reaction follow
    /// from it.
    const SEGMENT_S: f64 = 1.0 / 1024.0;
    const TARGET_S: f64 = 3.0 / 2048.0;
    const REACTION_S: f64 = 1.0 / 16.0;

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    /// Returns the gain where the queue is longer than the target by `over` reaction times.
    fn gain(control: &mut RateControl, ms: u64, over: f64) -> f64 {
        control.queue = TARGET_S + over * REACTION_S;
        control.gain(at(ms), 0.001)
    }

    #[test]
    fn the_gain_corrects_a_queue_within_limits() {
        let mut control = control();
        assert_eq!(gain(&mut control, 1, 0.0), 1.0);
        assert_eq!(gain(&mut control, 1, 0.25), 0.75);
        assert_eq!(gain(&mut control, 1, 0.5), 0.5);
        assert_eq!(gain(&mut control, 1, 4.0), GAIN_MIN);
        control.queue = 0.0;
        assert_eq!(control.gain(at(1), 0.001), 1.0 + TARGET_S / REACTION_S);
        // Of the target the least that there is, corrected fast: 1.3.
        control.anchor *= 1000.0;
        control.poll_interval = 0.000_05;
        assert_eq!(control.gain(at(1), 0.001), GAIN_MAX);
        control.config.cautious = true;
        assert_eq!(control.gain(at(1), 0.001), 1.0);
    }

    #[test]
    fn a_proven_link_keeps_a_fifth_of_a_round_trip_waiting() {
        let mut control = control();
        control.base_s = 0.01;
        assert_eq!(control.target(), TARGET_S);
        control.config.cautious = true;
        assert_eq!(control.target(), TARGET_S + 0.002);
        assert_eq!(control.gain_most(at(1)), 1.0 + 0.002 / REACTION_S);
        control.base_s = 0.1;
        assert_eq!(control.gain_most(at(1)), GAIN_MAX_CAUTIOUS);
    }

    #[test]
    fn a_drain_sends_half_and_less_of_a_long_queue() {
        let mut control = control();
        control.drain.until = at(10);
        assert_eq!(gain(&mut control, 9, 0.0), 0.5);
        assert_eq!(gain(&mut control, 9, 0.49), 0.5);
        assert_eq!(gain(&mut control, 9, 0.5), 0.25);
        assert_eq!(gain(&mut control, 9, 0.9), 0.25);
        assert_eq!(gain(&mut control, 10, 0.25), 0.75);
    }

    #[test]
    fn holding_back_by_more_than_a_tenth_is_counted() {
        let mut control = control();
        assert_eq!(gain(&mut control, 1, 0.1), DOUBT_GAIN);
        assert_eq!(control.held.time, 0.0);
        gain(&mut control, 1, 0.11);
        gain(&mut control, 1, 0.11);
        assert_eq!(control.held.time, 0.002);
        gain(&mut control, 1, 0.09);
        assert_eq!(control.held.time, 0.001);
    }

    #[test]
    fn held_time_rises_and_falls_and_the_anchor_before_it_is_kept() {
        let mut control = control();
        let anchor = control.anchor;
        control.doubt(at(1), 0.5, true);
        assert_eq!(control.held.time, 0.01);
        control.anchor = 1e6;
        control.doubt(at(1), 0.004, false);
        assert_eq!(control.held.time, 0.006);
        assert_eq!(control.held.anchor, 0.0);
        control.doubt(at(1), 0.5, false);
        assert_eq!((control.held.time, control.held.anchor), (0.0, 1e6));
        control.anchor = anchor;
        control.doubt(at(1), 0.0, false);
        assert_eq!(control.held.anchor, anchor);
        // Not while it is tested.
        control.held.test = Some((0.1, at(2)));
        control.anchor = 1e6;
        control.doubt(at(1), 0.5, false);
        assert_eq!(control.held.anchor, anchor);
    }

    #[test]
    fn a_delay_is_tested_after_a_while_of_holding_back() {
        // A queue of 50 ms: after 0.5 s.
        let tested = |time: f64, test: Option<(f64, Time)>| {
            let mut control = control();
            control.queue = 0.05;
            control.held.time = time;
            control.held.test = test;
            control.delays.push_back((at(1), 0.06));
            control.doubt(at(1000), 0.0, true);
            (control.held.test, control.drain.until)
        };
        assert_eq!(tested(0.45, None), (None, Time::ZERO));
        assert_eq!(tested(0.3 + 4.0 * 0.05, None), (None, Time::ZERO));
        let (test, until) = tested(0.51, None);
        assert_eq!(test, Some((0.06, until)));
        let drain_s = until.since(at(1000)).as_secs_f64();
        assert!((drain_s - 2.0 * (0.05 + TARGET_S)).abs() < 1e-8);
        let under_way = Some((0.1, at(2000)));
        assert_eq!(tested(0.51, under_way), (under_way, Time::ZERO));
    }

    #[test]
    fn a_drain_is_half_a_second_at_most() {
        let mut control = control();
        control.queue = 3.0;
        control.drain_now(at(1000));
        assert_eq!(control.drain.until, at(1500));
    }

    /// Judges a delay of 100 ms by a drain that ended at 1 s and left `least`. Returns whether
    /// the test is still under way, the foreign delay, and the anchor in parts of the one at
    /// the drain's end; `before` is the one before the drain, in the same parts.
    fn judged(confirmed_ms: u64, least: f64, before: f64) -> (bool, f64, f64) {
        let mut control = control();
        let anchor = control.anchor;
        control.held.test = Some((0.1, at(1000)));
        control.held.foreign = 0.01;
        control.held.anchor = before * anchor;
        control.confirmed_sent_at = at(confirmed_ms);
        control.delays.push_back((at(1), least));
        control.judge();
        let is_under_way = control.held.test.is_some();
        (is_under_way, control.held.foreign, control.anchor / anchor)
    }

    #[test]
    fn a_delay_that_a_drain_leaves_is_foreign() {
        assert_eq!(judged(999, 0.1, 2.0), (true, 0.01, 1.0));
        assert_eq!(judged(1000, 0.1, 2.0), (false, 0.1, 2.0));
        assert_eq!(judged(1001, 0.08, 2.0), (false, 0.08, 2.0));
        assert_eq!(judged(1000, 0.071, 10.0), (false, 0.071, 4.0));
        assert_eq!(judged(1000, 0.7 * 0.1, 2.0), (false, 0.01, 1.0));
        assert_eq!(judged(1000, 0.06, 2.0), (false, 0.01, 1.0));
    }

    /// Returns the control of a link that was without a queue for `unqueued` seconds, and carried
    /// `carried` bytes in that time.
    fn growing(unqueued: f64, carried: u64) -> RateControl {
        let mut control = control();
        control.frontier = Some(Point {
            departed_at: at(5000),
            position: 1000 + carried,
        });
        control.growth = Growth {
            unqueued,
            began_at: at(4000),
            carried_from: 1000,
            backlogged: 10.0,
            steps: 0,
            stepped_at: at(3000),
        };
        control.written_at = at(5000);
        control.confirmed_sent_at = at(5000);
        control
    }

    /// Returns the factor by which the anchor grows in one call.
    fn growth(control: &mut RateControl) -> f64 {
        let anchor = control.anchor;
        control.grow(at(5000), 0.0, true);
        control.anchor / anchor
    }

    #[test]
    fn a_link_that_takes_two_fifths_grows() {
        // 0.4 of the anchor in 0.3125 s.
        assert_eq!(growth(&mut growing(0.3125, 193_792)), 1.0);
        assert_eq!(growth(&mut growing(0.3125, 193_793)), 1.25);
        // 32 segments.
        assert_eq!(growth(&mut growing(32.0 * SEGMENT_S, 1_000_000)), 1.25);
        assert_eq!(growth(&mut growing(31.9 * SEGMENT_S, 1_000_000)), 1.0);
    }

    #[test]
    fn growth_waits_for_what_was_sent_after_the_last_step() {
        let mut control = growing(1.0, 10_000_000);
        control.confirmed_sent_at = at(3000);
        assert_eq!(growth(&mut control), 1.0);
        control.confirmed_sent_at = at(3001);
        assert_eq!(growth(&mut control), 1.25);
        assert_eq!(control.growth.steps, 1);
        assert_eq!(control.growth.stepped_at, at(5000));
        assert_eq!(control.growth.backlogged, 0.0);
    }

    #[test]
    fn a_rate_that_was_measured_of_late_takes_longer_to_outgrow() {
        let grown = |unqueued: f64, measured_ms: u64| {
            let mut control = growing(unqueued, 1_000_000_000);
            control.config.cautious = true;
            control.measured = Some((at(measured_ms), control.anchor));
            growth(&mut control)
        };
        assert_eq!(grown(3200.0 * SEGMENT_S, 1000), 1.02);
        assert_eq!(grown(3199.0 * SEGMENT_S, 1000), 1.0);
        assert_eq!(grown(32.0 * SEGMENT_S, 0), 1.02, "long ago");
    }

    #[test]
    fn where_nothing_could_be_sent_it_grows_four_times() {
        for (steps, gain) in [(0, 1.25), (3, 2.0), (4, 1.0), (5, 1.0)] {
            let mut control = growing(1.0, 0);
            control.written_at = at(4000);
            control.growth.steps = steps;
            assert_eq!(growth(&mut control), gain, "{steps}");
        }
    }

    #[test]
    fn steps_are_small_at_first() {
        let steps = |cautious: bool| {
            let gain = |steps: u32| {
                let mut control = growing(1.0, 10_000_000);
                control.config.cautious = cautious;
                control.growth.steps = steps;
                (growth(&mut control) * 100.0).round()
            };
            (0..10).map(gain).collect::<Vec<f64>>()
        };
        let bold = [125, 125, 150, 200, 200, 200, 200, 200, 200, 200];
        let cautious = [102, 102, 102, 102, 106, 106, 125, 125, 150, 200];
        assert_eq!(steps(false), bold.map(f64::from));
        assert_eq!(steps(true), cautious.map(f64::from));
    }

    #[test]
    fn a_backlog_is_to_last_before_it_shows_anything() {
        // A window of 2^-5 s and two targets.
        let settled = 1.0 / 32.0 + 2.0 * TARGET_S;
        let began_at = |backlogged: f64, queue: f64| {
            let mut control = growing(0.0, 500);
            control.growth.backlogged = backlogged;
            control.queue = queue;
            control.grow(at(5000), 0.0, true);
            (control.growth.began_at, control.growth.carried_from)
        };
        assert_eq!(began_at(settled, 0.0), (at(5000), 1500));
        assert_eq!(began_at(settled - 0.001, 0.0), (at(4000), 1000));
        assert_eq!(began_at(settled, TARGET_S / 2.0), (at(4000), 1000));
        assert_eq!(began_at(settled, TARGET_S / 2.1), (at(5000), 1500));
    }

    #[test]
    fn a_queue_ends_growth() {
        let mut control = growing(1.0, 10_000_000);
        control.growth.steps = 3;
        control.queue = TARGET_S;
        assert_eq!(growth(&mut control), 1.0);
        let left = &control.growth;
        assert_eq!((left.steps, left.unqueued, left.backlogged), (0, 0.0, 0.0));
    }

    #[test]
    fn an_empty_link_needs_no_drain() {
        let empty_at = |probes: u64, backlogged: bool, queue: f64| {
            let mut control = control();
            for number in 0..probes {
                let write = Write {
                    socket: 1,
                    network: 1,
                    written: number,
                    position: number,
                };
                control.on_write(at(1), write);
            }
            control.queue = queue;
            control.drain(at(1000), backlogged);
            control.drain.empty_at == at(1000)
        };
        assert!(empty_at(0, false, 1.0));
        assert!(!empty_at(0, true, 1.0));
        assert!(!empty_at(1, false, 1.0));
        assert!(!empty_at(1, true, 1.0));
        // A quarter of the target, and less.
        assert!(!empty_at(1, true, TARGET_S / 2.0));
        assert!(!empty_at(1, true, TARGET_S / 4.0));
        assert!(empty_at(1, true, TARGET_S / 4.1));
    }

    #[test]
    fn a_standing_queue_is_drained_after_five_seconds() {
        let drained = |found_lower: bool, until: u64, now: u64| {
            let mut control = control();
            control.queue = 1.0;
            control.drain.empty_at = at(1000);
            control.drain.until = at(until);
            control.drain.found_lower = found_lower;
            control.drain(at(now), true);
            control.drain.until == at(now + 500) && control.held.test.is_some()
        };
        assert!(!drained(false, 0, 5999));
        assert!(drained(false, 0, 6000));
        assert!(!drained(false, 2000, 6999));
        assert!(drained(false, 2000, 7000));
        assert!(!drained(true, 0, 1099));
        assert!(drained(true, 0, 1100));
    }

    /// Checks that no growth is seen where a round trip of another network moves the frontier
    /// on in time and back in bytes.
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
