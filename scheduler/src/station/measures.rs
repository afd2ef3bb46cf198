//! The measures that a station takes of itself: mean size, length of the queues, drain rate.

use std::time::Duration;

use crate::{Size, Time};

/// The mean size of responses, which stands for an unknown size. Not the median: a large response
/// mistaken for a small one delays many.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MeanSize {
    bytes: f64,
    count: u32,
}

/// The number of responses over which the mean is taken, about.
const MEAN_OVER: u32 = 1024;

impl MeanSize {
    pub(super) fn observe(&mut self, bytes: u64) {
        self.count = (self.count + 1).min(MEAN_OVER);
        self.bytes += (bytes as f64 - self.bytes) / f64::from(self.count);
    }

    pub(super) fn expected(&self, size: Size) -> u64 {
        size.bytes().unwrap_or(self.bytes as u64)
    }
}

/// The length of the queues, averaged over time.
#[derive(Clone, Copy, Debug)]
pub(super) struct AveragedLength {
    over_s: f64,
    average: f64,
    /// The length since the last update; `updated` is when that was.
    length: usize,
    updated: Time,
}

impl AveragedLength {
    pub(super) fn new(over: Duration) -> Self {
        Self {
            over_s: over.as_secs_f64(),
            average: 0.0,
            length: 0,
            updated: Time::ZERO,
        }
    }

    /// Updates the average and returns it. The length counts as unchanged from the last update
    /// until `now`, when it is `length`: so the caller reports each change.
    pub(super) fn update(&mut self, now: Time, length: usize) -> f64 {
        if self.over_s <= 0.0 {
            self.average = length as f64;
        } else if now > self.updated {
            let passed_s = now.since(self.updated).as_secs_f64();
            let since = self.length as f64;
            self.average = since + (self.average - since) * (-passed_s / self.over_s).exp();
            self.updated = now;
        }
        self.length = length;
        self.average
    }
}

/// The rate at which requests have been served of late.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DrainRate {
    /// The mean time between two requests that ended, in seconds, without the time in which none
    /// was in service.
    interval_s: f64,
    count: u32,
    /// The time at which a request last ended, or began while no other was in service.
    last: Time,
}

/// The number of requests over which `interval_s` is averaged, about.
const DRAIN_OVER: u32 = 64;

impl DrainRate {
    /// Notes that a request begins while no other is in service, so that the idle time before it
    /// does not count.
    pub(super) fn resumed(&mut self, now: Time) {
        self.last = now;
    }

    pub(super) fn finished(&mut self, now: Time) {
        if self.count > 0 {
            let interval_s = now.since(self.last).as_secs_f64();
            self.interval_s += (interval_s - self.interval_s) / f64::from(self.count);
        }
        self.count = (self.count + 1).min(DRAIN_OVER);
        self.last = now;
    }

    /// Returns the time that `requests` requests take; `None` before two have ended.
    pub(super) fn time_for(&self, requests: usize) -> Option<Duration> {
        if self.count < 2 {
            return None;
        }
        Duration::try_from_secs_f64(self.interval_s * requests as f64).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn unknown_sizes_are_taken_for_the_mean() {
        let mut mean = MeanSize::default();
        assert_eq!(mean.expected(Size::Unknown), 0);
        mean.observe(100);
        mean.observe(300);
        assert_eq!(mean.expected(Size::Unknown), 200);
        assert_eq!(mean.expected(Size::Exact(7)), 7);
    }

    #[test]
    fn the_length_is_averaged_over_time() {
        let mut length = AveragedLength::new(Duration::from_millis(100));
        assert_eq!(length.update(at(0), 10), 0.0);
        // One time constant at 10: 63% of the way.
        let average = length.update(at(100), 0);
        assert!((average - 6.32).abs() < 0.01, "{average}");
        assert!(length.update(at(1100), 0) < 0.001);
        let mut now = AveragedLength::new(Duration::ZERO);
        assert_eq!(now.update(at(5), 3), 3.0);
    }

    #[test]
    fn a_length_that_lasted_for_no_time_does_not_count() {
        let mut length = AveragedLength::new(Duration::from_millis(100));
        length.update(at(0), 10);
        let average = length.update(at(100), 7);
        // Of several changes at a time, or told late, the last is what there is from then on.
        // To the last bit: so large a length would leave nothing of the average.
        for other in [usize::MAX, 1000] {
            assert_eq!(length.update(at(100), other), average);
        }
        assert_eq!(length.update(at(99), 0), average);
        assert!(length.update(at(200), 0) < average);
    }

    #[test]
    fn the_drain_rate_tells_waits() {
        let mut drain = DrainRate::default();
        drain.finished(at(0));
        assert_eq!(drain.time_for(5), None);
        drain.finished(at(10));
        assert_eq!(drain.time_for(4), Some(Duration::from_millis(40)));
        drain.finished(at(30));
        // Intervals of 10 and 20 ms.
        assert_eq!(drain.time_for(4), Some(Duration::from_millis(60)));
    }

    #[test]
    fn idle_time_is_no_part_of_the_drain_rate() {
        let mut drain = DrainRate::default();
        for began in [0, 10, 28_800_000] {
            drain.resumed(at(began));
            drain.finished(at(began + 10));
        }
        assert_eq!(drain.time_for(1), Some(Duration::from_millis(10)));
    }
}
