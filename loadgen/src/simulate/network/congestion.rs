//! The congestion window, in segments that a sender may have on the way: slow start with HyStart,
//! CUBIC (RFC 9438) and Reno (RFC 5681), in whole segments as Linux counts them.

use std::time::Duration;

use sprat_scheduler::Time;

/// Segments that a new connection may send at once (RFC 6928).
pub(super) const INITIAL_WINDOW: u32 = 10;

/// The least window, but for that after a timeout.
const LEAST_WINDOW: u32 = 2;

/// CUBIC's constant, in segments per second cubed (RFC 9438 5).
const CUBIC_C: f64 = 0.4;

/// The part of its window that CUBIC keeps after a loss, of 1024 (RFC 9438 4.6: 0.7).
const CUBIC_BETA: u32 = 717;

/// The window, in segments, below which HyStart does nothing.
const HYSTART_LOW: u32 = 16;

/// The number of round trips in a round of which HyStart takes the least.
const HYSTART_SAMPLES: u32 = 8;

/// The longest time between two acknowledgements of one train.
const HYSTART_TRAIN_GAP: Duration = Duration::from_millis(2);

/// The rule by which a window grows and falls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Algorithm {
    /// RFC 9438, with HyStart: Linux's default.
    #[default]
    Cubic,
    /// Reno, as in RFC 5681.
    Reno,
    /// BBR version 1, whose model sets the window from outside.
    Bbr,
}

/// A sender's congestion window.
#[derive(Clone, Debug)]
pub(super) struct Congestion {
    algorithm: Algorithm,
    window: u32,
    /// The window up to which slow start doubles it in each round trip.
    threshold: u32,
    /// The segments acknowledged towards the window's next segment.
    count: u32,
    cubic: Cubic,
    start: HyStart,
}

/// CUBIC's state since its last loss.
#[derive(Clone, Debug, Default)]
struct Cubic {
    last_max: u32,
    epoch: Option<Time>,
    origin: f64,
    k_s: f64,
    /// Reno's window over the same time, which CUBIC does not fall behind.
    reno_window: u32,
    reno_acked: u32,
    least_rtt: Option<Duration>,
}

/// The state of a round of HyStart.
#[derive(Clone, Debug, Default)]
struct HyStart {
    ends_at: u64,
    began_at: Time,
    acked_at: Time,
    least_rtt: Option<Duration>,
    samples: u32,
}

impl Congestion {
    /// Makes the window of a new connection.
    pub(super) fn new(algorithm: Algorithm) -> Self {
        Self {
            algorithm,
            window: INITIAL_WINDOW,
            threshold: u32::MAX,
            count: 0,
            cubic: Cubic::default(),
            start: HyStart::default(),
        }
    }

    /// Returns the number of segments that may be on the way.
    pub(super) fn window(&self) -> u32 {
        self.window
    }

    /// Returns the window at which slow start ends, or ended.
    pub(super) fn threshold(&self) -> u32 {
        self.threshold
    }

    /// Returns whether the window doubles in each round trip.
    pub(super) fn is_slow_start(&self) -> bool {
        self.window < self.threshold
    }

    /// Sets the window during a recovery, which has a rule of its own.
    pub(super) fn set_window(&mut self, window: u32) {
        self.window = window.max(1);
    }

    /// Takes back the effect of a loss that was none, whose window and threshold were these before.
    pub(super) fn undo(&mut self, window: u32, threshold: u32) {
        self.window = self.window.max(window);
        self.threshold = self.threshold.max(threshold);
    }

    /// Notes a measured round trip. HyStart ends slow start where round trips grow, or where the
    /// acknowledgements of one train last for half a round trip.
    pub(super) fn on_rtt(&mut self, now: Time, rtt: Duration, acked: u64, sent: u64) {
        if self.algorithm != Algorithm::Cubic {
            return;
        }
        let least = self.cubic.least_rtt.map_or(rtt, |least| least.min(rtt));
        self.cubic.least_rtt = Some(least);
        if !self.is_slow_start() || self.window < HYSTART_LOW {
            return;
        }
        let round = &mut self.start;
        if acked > round.ends_at {
            *round = HyStart {
                ends_at: sent,
                began_at: now,
                acked_at: now,
                ..HyStart::default()
            };
        }
        if now.since(round.acked_at) <= HYSTART_TRAIN_GAP {
            round.acked_at = now;
            if now.since(round.began_at) > least / 2 {
                self.threshold = self.window;
            }
        }
        round.least_rtt = Some(round.least_rtt.map_or(rtt, |least| least.min(rtt)));
        if round.samples < HYSTART_SAMPLES {
            round.samples += 1;
            return;
        }
        let margin = (least / 8).clamp(Duration::from_millis(4), Duration::from_millis(16));
        if round.least_rtt.is_some_and(|rtt| rtt > least + margin) {
            self.threshold = self.window;
        }
    }

    /// Notes that `segments` were acknowledged while the window was what held the sender back.
    pub(super) fn on_acked(&mut self, now: Time, segments: u32) {
        let mut segments = segments;
        if self.is_slow_start() {
            let grown = self.window.saturating_add(segments).min(self.threshold);
            segments -= grown - self.window;
            self.window = grown;
            if segments == 0 {
                return;
            }
        }
        let each = match self.algorithm {
            Algorithm::Reno => self.window,
            Algorithm::Bbr => return,
            Algorithm::Cubic => self.cubic.acked_per_segment(now, self.window, segments),
        };
        if self.count >= each {
            self.count = 0;
            self.window += 1;
        }
        self.count += segments;
        if self.count >= each {
            self.window += self.count / each;
            self.count %= each;
        }
    }

    /// Notes that segments were lost: sets the threshold and leaves the window to the recovery.
    pub(super) fn on_loss(&mut self) {
        self.threshold = match self.algorithm {
            Algorithm::Reno => self.window / 2,
            Algorithm::Bbr => return,
            Algorithm::Cubic => self.cubic.on_loss(self.window),
        }
        .max(LEAST_WINDOW);
        self.count = 0;
    }

    /// Notes that a retransmission timer fired, and begins again with one segment.
    pub(super) fn on_timeout(&mut self) {
        self.on_loss();
        self.window = 1;
        let least_rtt = self.cubic.least_rtt;
        self.cubic = Cubic {
            least_rtt,
            ..Cubic::default()
        };
        self.start = HyStart::default();
    }

    /// Notes that nothing was sent for `idle`. The window halves for each `timeout` in it, but not
    /// below the initial window (RFC 2861).
    pub(super) fn on_idle(&mut self, idle: Duration, timeout: Duration) {
        if self.algorithm == Algorithm::Bbr {
            return;
        }
        self.threshold = self.threshold.max(self.window / 4 * 3);
        let restart = self.window.min(INITIAL_WINDOW);
        let mut left = idle;
        while left > timeout && self.window > restart {
            self.window /= 2;
            left -= timeout;
        }
        self.window = self.window.max(restart);
        self.count = 0;
        if let Some(epoch) = &mut self.cubic.epoch {
            *epoch = *epoch + idle;
        }
    }
}

impl Cubic {
    /// Returns the number of segments to be acknowledged for each that the window grows by.
    fn acked_per_segment(&mut self, now: Time, window: u32, segments: u32) -> u32 {
        let epoch = match self.epoch {
            Some(epoch) => epoch,
            None => {
                self.epoch = Some(now);
                self.reno_acked = 0;
                self.reno_window = window;
                let below = f64::from(self.last_max) - f64::from(window);
                self.k_s = (below.max(0.0) / CUBIC_C).cbrt();
                self.origin = f64::from(window.max(self.last_max));
                now
            }
        };
        self.reno_acked += segments;
        let rtt = self.least_rtt.unwrap_or_default();
        let t_s = (now.since(epoch) + rtt).as_secs_f64() - self.k_s;
        let target = self.origin + CUBIC_C * t_s.powi(3);
        let above = target - f64::from(window);
        let mut each = if above >= 1.0 {
            (f64::from(window) / above) as u32
        } else {
            window.saturating_mul(100)
        };
        if self.last_max == 0 {
            each = each.min(20);
        }
        // Reno's window with CUBIC's factor (RFC 9438 4.3).
        let scale = 8 * (1024 + CUBIC_BETA) / 3 / (1024 - CUBIC_BETA);
        let per_segment = (window * scale / 8).max(1);
        self.reno_window += self.reno_acked / per_segment;
        self.reno_acked %= per_segment;
        if self.reno_window > window {
            each = each.min(window / (self.reno_window - window));
        }
        each.max(2)
    }

    /// Notes a loss at `window`, and returns the threshold after it.
    fn on_loss(&mut self, window: u32) -> u32 {
        self.epoch = None;
        // Fast convergence: a window that fell makes room for others.
        self.last_max = if window < self.last_max {
            window * (1024 + CUBIC_BETA) / 2048
        } else {
            window
        };
        window * CUBIC_BETA / 1024
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    /// Makes a window in congestion avoidance after a loss at `window`.
    fn after_loss(algorithm: Algorithm, window: u32) -> Congestion {
        let mut congestion = Congestion::new(algorithm);
        congestion.window = window;
        congestion.on_loss();
        congestion.window = congestion.threshold;
        congestion
    }

    #[test]
    fn slow_start_grows_by_what_is_acknowledged() {
        let mut congestion = Congestion::new(Algorithm::Cubic);
        congestion.on_acked(at(1), 10);
        assert_eq!(congestion.window(), 20);
        congestion.on_acked(at(2), 20);
        assert_eq!(congestion.window(), 40);
    }

    #[test]
    fn a_loss_leaves_seven_tenths_to_cubic_and_half_to_reno() {
        assert_eq!(after_loss(Algorithm::Cubic, 100).window(), 70);
        assert_eq!(after_loss(Algorithm::Reno, 100).window(), 50);
        let mut congestion = after_loss(Algorithm::Reno, 3);
        assert_eq!(congestion.window(), 2);
        congestion.on_timeout();
        assert_eq!((congestion.window(), congestion.threshold()), (1, 2));
    }

    #[test]
    fn reno_grows_by_a_segment_in_a_window() {
        let mut congestion = after_loss(Algorithm::Reno, 100);
        for _ in 0..50 {
            congestion.on_acked(at(1), 1);
        }
        assert_eq!(congestion.window(), 51);
    }

    #[test]
    fn cubic_is_back_at_its_window_after_k() {
        // K = cbrt(300 / 0.4) = 9.09 s from 1000 down to 700. A round trip of
        // 100 ms leaves Reno's window behind.
        let mut congestion = after_loss(Algorithm::Cubic, 1000);
        let mut windows = Vec::new();
        for round in 0..=120 {
            congestion.on_rtt(at(100 * round), Duration::from_millis(100), 0, 0);
            for _ in 0..congestion.window() / 2 {
                congestion.on_acked(at(100 * round), 2);
            }
            windows.push(congestion.window());
        }
        let at_half = 1000.0 - 0.4 * f64::powi(9.086 - 4.6, 3);
        assert!(
            (f64::from(windows[45]) - at_half).abs() < 4.0,
            "{windows:?}"
        );
        assert!((997..=1001).contains(&windows[90]), "{windows:?}");
        assert!(windows[120] > 1005, "{windows:?}");
    }

    #[test]
    fn hystart_ends_slow_start_where_round_trips_grow() {
        let mut congestion = Congestion::new(Algorithm::Cubic);
        congestion.window = 20;
        for ack in 1..=9 {
            congestion.on_rtt(at(50 + 3 * ack), Duration::from_millis(50), ack, 100);
        }
        assert!(congestion.is_slow_start());
        for ack in 1..=9 {
            let now = at(200 + 3 * ack);
            congestion.on_rtt(now, Duration::from_millis(57), 100 + ack, 200);
        }
        assert_eq!(congestion.threshold(), 20, "6.25 ms are too many");
    }

    #[test]
    fn the_window_of_bbr_is_set_from_outside() {
        let mut congestion = Congestion::new(Algorithm::Bbr);
        congestion.set_window(50);
        congestion.on_loss();
        congestion.on_idle(Duration::from_secs(60), Duration::from_secs(1));
        assert_eq!(
            (congestion.window(), congestion.threshold()),
            (50, u32::MAX)
        );
    }
}
