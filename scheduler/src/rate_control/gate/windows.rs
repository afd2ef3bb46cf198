//! Windows of the recent past: the rates of delivery, and the delays.

use std::collections::VecDeque;
use std::time::Duration;

use crate::Time;

/// The time over which a rate of delivery is measured.
const BIN: Duration = Duration::from_millis(250);

/// The shortest measurement, which will do where there is no other.
const BIN_LEAST: Duration = Duration::from_millis(100);

/// The longest measurement: a longer one holds a pause, and does not count.
const BIN_MOST: Duration = Duration::from_secs(1);

/// The most measurements kept: those of ten seconds and a little.
const BINS_MAX: usize = 44;

/// The rates at which bytes were delivered of late.
#[derive(Clone, Debug, Default)]
pub(super) struct Delivered {
    since: Time,
    bytes: u64,
    /// The end of each measurement, and its bits per second.
    bins: VecDeque<(Time, f64)>,
}

impl Delivered {
    /// Notes that `bytes` more have arrived.
    pub(super) fn add(&mut self, now: Time, bytes: u64) {
        let passed = now.since(self.since);
        if passed >= BIN {
            self.bins.extend(self.rate(now).map(|rate| (now, rate)));
            if self.bins.len() > BINS_MAX {
                self.bins.pop_front();
            }
            self.since = now;
            self.bytes = 0;
        }
        self.bytes += bytes;
    }

    /// Returns the highest rate of delivery in the last `time`, in bits per second, if any was
    /// measured.
    pub(super) fn most(&self, now: Time, time: Duration) -> Option<f64> {
        let recent = self.bins.iter().filter(|(at, _)| now.since(*at) <= time);
        let most = recent.map(|(_, rate)| *rate).max_by(f64::total_cmp);
        most.or_else(|| self.rate(now))
    }

    /// Returns the rate of the present measurement in bits per second, unless that is too short or
    /// too long.
    fn rate(&self, now: Time) -> Option<f64> {
        let passed = now.since(self.since);
        let is_known = (BIN_LEAST..=BIN_MOST).contains(&passed);
        is_known.then(|| self.bytes as f64 * 8.0 / passed.as_secs_f64())
    }
}

/// The most delays kept; each counts for [`DELAY_LIFETIME`].
const DELAYS_MAX: usize = 128;
const DELAY_LIFETIME: Duration = Duration::from_secs(10);

/// The fewest delays that say how long a queue can get.
const DELAYS_LEAST: usize = 30;

/// The delays of recent acknowledgements.
#[derive(Clone, Debug, Default)]
pub(super) struct DelayWindow {
    delays: VecDeque<(Time, f32)>,
    clip_s: Option<f32>,
    added: usize,
}

impl DelayWindow {
    /// Notes that an acknowledgement was `delay_s` seconds late.
    pub(super) fn add(&mut self, now: Time, delay_s: f32) {
        self.delays.push_back((now, delay_s));
        while let Some(&(at, _)) = self.delays.front()
            && (self.delays.len() > DELAYS_MAX || now.since(at) > DELAY_LIFETIME)
        {
            self.delays.pop_front();
        }
        self.added += 1;
        if self.added.is_multiple_of(16) {
            self.clip_s = self.measure_clip();
        }
    }

    /// Returns how long a queue may get before it drops packets, in seconds: a little above all but
    /// the longest delays. Infinite until enough delays are known.
    pub(super) fn clip_s(&self) -> f32 {
        self.clip_s.unwrap_or(f32::INFINITY)
    }

    fn measure_clip(&self) -> Option<f32> {
        if self.delays.len() < DELAYS_LEAST {
            return None;
        }
        let mut delays: Vec<f32> = self.delays.iter().map(|(_, delay)| *delay).collect();
        let place = delays.len() * 95 / 100;
        let (_, delay_s, _) = delays.select_nth_unstable_by(place, f32::total_cmp);
        Some((1.1 * *delay_s).max(0.003))
    }

    /// Returns the least delay of the last `time`, if there were `least` of them.
    pub(super) fn least_s(&self, now: Time, time: Duration, least: usize) -> Option<f32> {
        let recent = self.delays.iter().rev();
        let recent = recent.take_while(|(at, _)| now.since(*at) <= time);
        let (count, delay_s) = recent.fold((0, f32::INFINITY), |(count, least), (_, delay)| {
            (count + 1, least.min(*delay))
        });
        (count >= least).then_some(delay_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn delivery_is_the_best_quarter_of_a_second() {
        let mut delivered = Delivered::default();
        for ms in 0..=2000 {
            // 1 Mbit/s, for a second in the middle 8.
            let bytes = if (500..1500).contains(&ms) { 1000 } else { 125 };
            delivered.add(at(ms), bytes);
        }
        let most = delivered.most(at(2000), Duration::from_secs(10)).unwrap();
        assert!((7.9e6..8.1e6).contains(&most), "{most}");
        let late = delivered.most(at(2000), Duration::from_millis(300));
        let late = late.unwrap();
        assert!((0.9e6..1.2e6).contains(&late), "{late}");
    }

    #[test]
    fn a_pause_is_not_what_was_delivered() {
        let most = |times: [u64; 3]| {
            let mut delivered = Delivered::default();
            for ms in times {
                delivered.add(at(ms), 1000);
            }
            delivered.most(at(times[2]), SECOND)
        };
        const SECOND: Duration = Duration::from_secs(1);
        assert_eq!(most([10, 20, 250]), Some(64_000.0));
        assert_eq!(most([10, 20, 1000]), Some(16_000.0));
        assert_eq!(most([10, 20, 1001]), None);
        assert_eq!(most([5000, 5249, 5250]), Some(64_000.0));
        // Before the first quarter of a second is over.
        assert_eq!(most([10, 20, 99]), None);
        assert_eq!(most([10, 20, 100]), Some(240_000.0));
        assert_eq!(most([10, 20, 200]), Some(120_000.0));
    }

    #[test]
    fn queues_are_cut_a_little_above_the_longest_delays() {
        let mut window = DelayWindow::default();
        for ms in 0..20 {
            window.add(at(ms), 0.1);
        }
        assert_eq!(window.clip_s(), f32::INFINITY, "too few");
        for ms in 20..200 {
            let outlier = ms % 50 == 0;
            window.add(at(ms), if outlier { 9.0 } else { 0.1 });
        }
        assert!((window.clip_s() - 0.11).abs() < 1e-6);
        let least_s = window.least_s(at(199), Duration::from_millis(10), 6);
        assert_eq!(least_s, Some(0.1));
        assert_eq!(window.least_s(at(199), Duration::from_millis(4), 6), None);
    }

    #[test]
    fn measurements_of_ten_seconds_are_kept() {
        let mut delivered = Delivered::default();
        for bin in 1..=100 {
            delivered.add(at(250 * bin), 1);
        }
        assert_eq!(delivered.bins.len(), BINS_MAX);
    }

    #[test]
    fn delays_are_kept_for_ten_seconds_and_bounded() {
        let mut window = DelayWindow::default();
        for _ in 0..200 {
            window.add(at(0), 0.1);
        }
        assert_eq!(window.delays.len(), DELAYS_MAX);
        window.add(at(10_000), 0.1);
        assert_eq!(window.delays.len(), DELAYS_MAX);
        window.add(at(10_001), 0.1);
        assert_eq!(window.delays.len(), 2);
        window.add(at(30_000), 0.1);
        assert_eq!(window.delays.len(), 1);
    }

    #[test]
    fn a_clip_is_measured_at_each_sixteenth_of_thirty() {
        let mut window = DelayWindow::default();
        for _ in 0..31 {
            window.add(at(0), 0.1);
        }
        assert_eq!(window.clip_s(), f32::INFINITY);
        window.add(at(0), 0.1);
        assert!((window.clip_s() - 0.11).abs() < 1e-6);
        // The two of long ago are forgotten.
        let mut window = DelayWindow::default();
        for delay in 0..32 {
            window.add(at(if delay < 2 { 0 } else { 11_000 }), 0.1);
        }
        assert_eq!(window.delays.len(), DELAYS_LEAST);
        assert!((window.clip_s() - 0.11).abs() < 1e-6);
    }
}
