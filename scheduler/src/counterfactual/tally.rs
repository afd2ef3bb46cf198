//! Sums of the times that responses took, and would have taken, by size and by the clients'
//! networks.

use std::iter::Sum;
use std::time::Duration;

use super::networks::{Network, Networks};
use crate::Time;

/// The least weight of the responses in a window for which a mean is told: that of one response
/// that ended three windows ago (e⁻³).
const LEAST_RESPONSES: f64 = 0.05;

/// The time that sums cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// The last minute, with weights: a response counts for less the longer ago it ended, about a
    /// third after a minute.
    Minute,
    /// The last ten minutes, with weights: a response counts for about a third after ten minutes.
    TenMinutes,
    /// The whole time since the counting began.
    Start,
}

/// Sums of response times, by size of the response and by network.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Upper bounds of the size classes but the last, in bytes.
    bounds: Vec<u64>,
    sizes: Vec<Sums>,
    pub(super) networks: Networks,
    pub(super) left_out: LeftOut,
}

/// The numbers of responses that are left out of all sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Responses that ended before they were complete, and tunnels.
    pub cut: u64,
    /// Responses whose source paused for 100 ms or more.
    pub streams: u64,
    /// Responses that came while the virtual link had as many as it may, or was too far behind.
    pub crowded: u64,
}

/// Sums over the responses that ended on both links in a span.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Times {
    /// The number of responses; in a window, the sum of their weights.
    pub responses: f64,
    /// The sum of the times that they took on the real link, in seconds.
    pub actual_s: f64,
    /// The sum of the times that they would have taken under `fair`, in seconds.
    pub fair_s: f64,
}

/// Sums of response times over each [`Span`].
#[derive(Clone, Debug, Default)]
pub(super) struct Sums {
    responses: u64,
    actual: Duration,
    fair: Duration,
    minute: Decayed,
    ten_minutes: Decayed,
}

/// The times that a response took on the real link, and on the virtual one under `fair`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Took {
    pub(super) actual: Duration,
    pub(super) fair: Duration,
}

/// Sums that decay exponentially with time.
#[derive(Clone, Copy, Debug, Default)]
struct Decayed {
    at: Time,
    times: Times,
}

impl Tally {
    pub(super) fn new(bounds: &[u64]) -> Self {
        Self {
            bounds: bounds.to_vec(),
            sizes: vec![Sums::default(); bounds.len() + 1],
            networks: Networks::default(),
            left_out: LeftOut::default(),
        }
    }

    /// Counts a response of `bytes` that has ended on both links, with the time that it took on
    /// each.
    pub(super) fn add(&mut self, now: Time, bytes: u64, network: Option<Network>, took: Took) {
        let size = self.bounds.partition_point(|&bound| bound < bytes);
        self.sizes[size].add(now, took);
        self.networks.add(now, network, took);
    }

    /// Returns the times in a span up to `now`, by size: up to each bound, and above.
    pub fn times(&self, now: Time, span: Span) -> impl Iterator<Item = Times> {
        self.sizes.iter().map(move |sums| sums.times(now, span))
    }

    /// Returns the sums by the clients' networks.
    pub fn networks(&self) -> &Networks {
        &self.networks
    }

    /// Returns the numbers of responses that are left out of all sums.
    pub fn left_out(&self) -> LeftOut {
        self.left_out
    }
}

impl Sums {
    /// Adds the times that a response took.
    pub(super) fn add(&mut self, now: Time, took: Took) {
        let Took { actual, fair } = took;
        self.responses += 1;
        self.actual = self.actual.saturating_add(actual);
        self.fair = self.fair.saturating_add(fair);
        let times = Times {
            responses: 1.0,
            actual_s: actual.as_secs_f64(),
            fair_s: fair.as_secs_f64(),
        };
        self.minute.add(now, Span::MINUTE, times);
        self.ten_minutes.add(now, Span::TEN_MINUTES, times);
    }

    /// Adds other sums to these.
    pub(super) fn merge(&mut self, other: &Self) {
        self.responses += other.responses;
        self.actual = self.actual.saturating_add(other.actual);
        self.fair = self.fair.saturating_add(other.fair);
        self.minute.merge(other.minute, Span::MINUTE);
        self.ten_minutes.merge(other.ten_minutes, Span::TEN_MINUTES);
    }

    /// Returns the times in a span up to `now`.
    pub(super) fn times(&self, now: Time, span: Span) -> Times {
        match span {
            Span::Minute => self.minute.at(now, Span::MINUTE),
            Span::TenMinutes => self.ten_minutes.at(now, Span::TEN_MINUTES),
            Span::Start => Times {
                responses: self.responses as f64,
                actual_s: self.actual.as_secs_f64(),
                fair_s: self.fair.as_secs_f64(),
            },
        }
    }
}

impl Span {
    const MINUTE: Duration = Duration::from_secs(60);
    const TEN_MINUTES: Duration = Duration::from_secs(600);
}

impl Times {
    /// Returns the mean response time on the real link, in seconds; none if too few responses
    /// count.
    pub fn mean_s(&self) -> Option<f64> {
        (self.responses >= LEAST_RESPONSES).then(|| self.actual_s / self.responses)
    }

    /// Returns the mean response time under `fair`, in seconds; none if too few responses count.
    pub fn fair_mean_s(&self) -> Option<f64> {
        (self.responses >= LEAST_RESPONSES).then(|| self.fair_s / self.responses)
    }

    /// Returns how many times as long responses would have taken under `fair`; none if too few
    /// count.
    pub fn gain(&self) -> Option<f64> {
        (self.responses >= LEAST_RESPONSES && self.actual_s > 0.0)
            .then(|| self.fair_s / self.actual_s)
    }

    fn and(self, other: Self) -> Self {
        Self {
            responses: self.responses + other.responses,
            actual_s: self.actual_s + other.actual_s,
            fair_s: self.fair_s + other.fair_s,
        }
    }

    fn scaled(self, factor: f64) -> Self {
        Self {
            responses: self.responses * factor,
            actual_s: self.actual_s * factor,
            fair_s: self.fair_s * factor,
        }
    }
}

impl Sum for Times {
    fn sum<I: Iterator<Item = Self>>(times: I) -> Self {
        times.fold(Self::default(), Self::and)
    }
}

impl Decayed {
    fn at(&self, now: Time, window: Duration) -> Times {
        let past = now.since(self.at).as_secs_f64() / window.as_secs_f64();
        self.times.scaled((-past).exp())
    }

    /// Adds the times of a response that ends now. Within a thousandth of the window it counts as
    /// if it had ended with those before: decaying the sums for each of many responses costs too
    /// much.
    fn add(&mut self, now: Time, window: Duration, times: Times) {
        if now.since(self.at) >= window / 1_000 {
            self.times = self.at(now, window);
            self.at = now;
        }
        self.times = self.times.and(times);
    }

    fn merge(&mut self, other: Self, window: Duration) {
        let now = self.at.max(other.at);
        self.add(now, window, other.at(now, window));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn at(seconds: u32) -> Time {
        Time::ZERO + seconds * S
    }

    fn times(responses: f64, actual_s: f64, fair_s: f64) -> Times {
        Times {
            responses,
            actual_s,
            fair_s,
        }
    }

    fn took(actual: Duration, fair: Duration) -> Took {
        Took { actual, fair }
    }

    #[test]
    fn a_sum_of_many_is_that_of_each_to_a_thousandth() {
        let mut sum = Decayed::default();
        let (mut exact, ms) = (0.0, Duration::from_millis(1));
        for number in 0..120_000 {
            sum.add(Time::ZERO + number * ms, 60 * S, times(1.0, 0.5, 1.0));
            exact = exact * (-1.0 / 60_000_f64).exp() + 1.0;
        }
        let told = sum.at(Time::ZERO + 119_999 * ms, 60 * S);
        assert!((told.responses / exact - 1.0).abs() < 1e-3, "{told:?}");
        assert_eq!(told.actual_s * 2.0, told.fair_s);
    }

    #[test]
    fn sums_are_by_size_and_a_bound_belongs_to_what_is_below() {
        let mut tally = Tally::new(&[1000, 2000]);
        for (bytes, fair) in [(1, 2), (1000, 4), (1001, 6), (2001, 8)] {
            tally.add(at(1), bytes, None, took(S, fair * S));
        }
        let sizes: Vec<_> = tally.times(at(1), Span::Start).collect();
        let wanted = [
            times(2.0, 2.0, 6.0),
            times(1.0, 1.0, 6.0),
            times(1.0, 1.0, 8.0),
        ];
        assert_eq!(sizes, wanted);
        let total: Times = sizes.into_iter().sum();
        assert_eq!(total, times(4.0, 4.0, 20.0));
        assert_eq!(total.mean_s(), Some(1.0));
        assert_eq!(total.fair_mean_s(), Some(5.0));
        assert_eq!(total.gain(), Some(5.0));
    }

    #[test]
    fn a_window_forgets() {
        let mut tally = Tally::new(&[]);
        let in_span = |tally: &Tally, now, span| tally.times(now, span).sum::<Times>();
        assert_eq!(in_span(&tally, at(0), Span::Start).gain(), None);
        tally.add(at(0), 1, None, took(S, 4 * S));
        let minute = in_span(&tally, at(60), Span::Minute);
        assert!((minute.responses - 1.0 / std::f64::consts::E).abs() < 1e-12);
        assert!((minute.gain().unwrap() - 4.0).abs() < 1e-12);
        // e^-1 of the first, and the second: (4/e + 1) / (1/e + 1).
        tally.add(at(60), 1, None, took(S, S));
        let minute = in_span(&tally, at(60), Span::Minute);
        assert!((minute.gain().unwrap() - 1.806_824).abs() < 1e-6);
        let longer = in_span(&tally, at(60), Span::TenMinutes);
        assert!((longer.gain().unwrap() - 2.425_062).abs() < 1e-6);
        assert_eq!(in_span(&tally, at(300), Span::Minute).gain(), None);
        assert!(in_span(&tally, at(300), Span::TenMinutes).gain().is_some());
        assert_eq!(in_span(&tally, at(3000), Span::Start).gain(), Some(2.5));
    }

    #[test]
    fn means_and_the_gain_are_of_responses_to_speak_of() {
        let few = times(0.049, 1.0, 2.0);
        assert_eq!(
            (few.mean_s(), few.fair_mean_s(), few.gain()),
            (None, None, None)
        );
        let some = times(4.0, 10.0, 6.0);
        let means = (some.mean_s(), some.fair_mean_s(), some.gain());
        assert_eq!(means, (Some(2.5), Some(1.5), Some(0.6)));
        assert_eq!(times(1.0, 0.0, 1.0).gain(), None, "no time at all");
    }

    #[test]
    fn sums_that_are_merged_count_from_the_later_of_the_two() {
        let mut sums = Sums::default();
        sums.add(at(0), took(S, 2 * S));
        let mut later = Sums::default();
        later.add(at(60), took(3 * S, 5 * S));
        sums.merge(&later);
        assert_eq!(sums.times(at(60), Span::Start), times(2.0, 4.0, 7.0));
        let e = (-1.0_f64).exp();
        let minute = sums.times(at(60), Span::Minute);
        assert!((minute.responses - (e + 1.0)).abs() < 1e-12);
        assert!((minute.actual_s - (e + 3.0)).abs() < 1e-12);
        assert!((minute.fair_s - (2.0 * e + 5.0)).abs() < 1e-12);
        let longer = sums.times(at(60), Span::TenMinutes);
        assert!((longer.responses - ((-0.1_f64).exp() + 1.0)).abs() < 1e-12);
    }
}
