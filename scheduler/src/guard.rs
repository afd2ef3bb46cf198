//! The guard of the fast path (TOCS03 2.2.3).
//!
//! What is needed to set a connection up goes ahead of everything, which makes a server more
//! vulnerable to floods of set-ups. So the guard watches the rate of arrivals there. While it is
//! far above its moving average, arrivals wait for their turns. A flood that lasts teaches the
//! average; then the share of the link that the fast path has at most holds the flood.

use std::time::Duration;

use crate::Time;

/// The length of the window whose count of arrivals is compared with the average.
const WINDOW: Duration = Duration::from_secs(1);

/// The moving average's time constant, in windows. Before so many have passed, the average is the
/// mean of all.
const AVERAGE_WINDOWS: u64 = 32;

/// The number of windows before which no rate is a flood: a server that starts under load, as by
/// an upgrade, has nothing yet to compare that load with.
const FIRST_WINDOWS: u64 = 4;

/// The number of bits of fraction in the moving average.
const FRACTION: u32 = 16;

/// The arrivals in a window below which there is never a flood, whatever the average: a quiet
/// site must be able to wake up.
const FLOOD_MIN: u64 = 100;

/// A guard that watches arrivals on the fast path, and trips in a flood.
#[derive(Clone, Debug)]
pub struct Guard {
    /// The multiple of the average at which the guard trips, in sixteenths, so that comparing
    /// needs no floats.
    factor_x16: u64,
    window_start: Time,
    count: u64,
    /// The moving average of arrivals in a window, as a fixed-point number.
    average: u64,
    /// The number of windows that have passed, up to [`AVERAGE_WINDOWS`].
    windows: u64,
    tripped: bool,
    trips: u64,
}

impl Guard {
    /// Returns a guard that trips when a window holds more than `factor` times the average.
    pub fn new(factor: f64) -> Self {
        let mut guard = Self {
            factor_x16: 0,
            window_start: Time::ZERO,
            count: 0,
            average: 0,
            windows: 0,
            tripped: false,
            trips: 0,
        };
        guard.set_factor(factor);
        guard
    }

    /// Sets the multiple of the average at which the guard trips from now on.
    pub fn set_factor(&mut self, factor: f64) {
        self.factor_x16 = (factor.clamp(1.0, 1e6) * 16.0) as u64;
    }

    /// Counts an arrival, and returns whether it may go ahead.
    pub fn admit(&mut self, now: Time) -> bool {
        self.roll(now);
        self.count += 1;
        if !self.tripped && self.count > self.limit() {
            self.tripped = true;
            self.trips += 1;
        }
        !self.tripped
    }

    /// Returns whether arrivals wait for their turns.
    pub fn is_tripped(&self) -> bool {
        self.tripped
    }

    /// Returns how often the guard has tripped.
    pub fn trips(&self) -> u64 {
        self.trips
    }

    fn limit(&self) -> u64 {
        if self.windows < FIRST_WINDOWS {
            return u64::MAX;
        }
        ((self.average.saturating_mul(self.factor_x16) / 16) >> FRACTION).max(FLOOD_MIN)
    }

    /// Closes the windows that have passed. A window within the limit ends a
    /// flood; one above it still teaches the average, so that a lasting rise
    /// becomes the new normal.
    fn roll(&mut self, now: Time) {
        let window = WINDOW.as_nanos() as u64;
        let passed = now.since(self.window_start).as_nanos() as u64 / window;
        if passed == 0 {
            return;
        }
        if self.count <= self.limit() {
            self.tripped = false;
        }
        self.learn(self.count);
        // After this many empty windows the average is gone anyway.
        for _ in 1..passed.min(AVERAGE_WINDOWS * 20) {
            self.tripped = false;
            self.learn(0);
        }
        self.count = 0;
        self.window_start = self.window_start + Duration::from_nanos(passed * window);
    }

    fn learn(&mut self, count: u64) {
        let count = count.min(u64::from(u32::MAX)) << FRACTION;
        self.windows = (self.windows + 1).min(AVERAGE_WINDOWS);
        self.average = self.average - self.average / self.windows + count / self.windows;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows `count` arrivals in second `second`, and returns how many of them went ahead.
    fn second(guard: &mut Guard, second: u64, count: u64) -> u64 {
        (0..count)
            .filter(|i| {
                guard.admit(Time::from_nanos(
                    second * 1_000_000_000 + i * 999_999_999 / count,
                ))
            })
            .count() as u64
    }

    #[test]
    fn steady_arrivals_go_ahead() {
        let mut guard = Guard::new(8.0);
        for s in 0..300 {
            assert_eq!(second(&mut guard, s, 90), 90);
        }
        assert_eq!(guard.trips(), 0);
    }

    #[test]
    fn a_flood_goes_in_the_ordinary_order_until_it_has_passed() {
        let mut guard = Guard::new(8.0);
        for s in 0..300 {
            second(&mut guard, s, 50);
        }
        assert!(!guard.is_tripped());
        let ahead = second(&mut guard, 300, 5000);
        assert!((390..=400).contains(&ahead), "{ahead} went ahead");
        assert_eq!(second(&mut guard, 301, 5000), 0);
        assert!(guard.is_tripped());
        // The window after the flood is seen to be calm when it closes.
        assert_eq!(second(&mut guard, 302, 50), 0);
        assert_eq!(second(&mut guard, 303, 50), 50);
        assert_eq!(guard.trips(), 1);
    }

    #[test]
    fn a_start_under_load_is_no_flood() {
        let mut guard = Guard::new(4.0);
        // The first window has the probe of the tool that starts the server, no more.
        assert_eq!(second(&mut guard, 0, 1), 1);
        for s in 1..100 {
            assert_eq!(second(&mut guard, s, 1000), 1000, "second {s}");
        }
        // From then on it is compared with what has been.
        assert!(second(&mut guard, 100, 9000) < 4100);
        assert_eq!(guard.trips(), 1);
    }

    #[test]
    fn a_young_guard_compares_with_the_mean_of_all_that_was() {
        let mut guard = Guard::new(2.0);
        for (s, count) in [100, 300, 100, 300, 200].into_iter().enumerate() {
            assert_eq!(second(&mut guard, s as u64, count), count);
        }
        assert_eq!(second(&mut guard, 5, 1000), 400);
    }

    #[test]
    fn a_lasting_rise_becomes_normal() {
        let mut guard = Guard::new(4.0);
        for s in 0..100 {
            second(&mut guard, s, 100);
        }
        for s in 100..160 {
            second(&mut guard, s, 1000);
        }
        assert_eq!(second(&mut guard, 160, 1000), 1000);
    }

    #[test]
    fn a_long_silence_forgets() {
        let mut guard = Guard::new(4.0);
        for s in 0..100 {
            second(&mut guard, s, 1000);
        }
        let ahead = second(&mut guard, 10_000, 1000);
        assert_eq!(ahead, FLOOD_MIN);
    }
}
