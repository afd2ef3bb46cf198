//! Samples of the link's rate, from spans in which it never ran dry.

use std::collections::VecDeque;
use std::time::Duration;

use crate::Time;

/// The number of points kept of a span, about.
const POINTS: u32 = 64;

/// A point of the link's progress: by about `departed_at`, it had carried all bytes up to
/// `position`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) departed_at: Time,
    pub(super) position: u64,
}

/// A span in which the link was busy all the time.
#[derive(Clone, Debug, Default)]
pub(super) struct BusySpan {
    points: VecDeque<Point>,
}

impl BusySpan {
    /// Begins anew at a point before which the link may have been idle.
    pub(super) fn restart(&mut self, point: Point) {
        self.points.clear();
        self.points.push_back(point);
    }

    /// Returns how many points the span has, for tests.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.points.len()
    }

    /// Notes that the link was busy up to this point. Once the span is as long as `length`,
    /// returns the rate over it in bits per second, and goes on with its second half.
    ///
    /// A point can only be late (a poll, a delayed acknowledgement). So each end is the earliest
    /// point of a quarter of the span, as seen from a link of `rate_bits_per_s`.
    pub(super) fn extend(
        &mut self,
        point: Point,
        length: Duration,
        rate_bits_per_s: f64,
    ) -> Option<f64> {
        let late =
            |p: &Point| p.departed_at.as_nanos() as f64 - p.position as f64 * 8e9 / rate_bits_per_s;
        let Some(&first) = self.points.front() else {
            self.restart(point);
            return None;
        };
        let last = self.points.back_mut().filter(|_| first != point)?;
        if point.departed_at.since(last.departed_at) >= length / POINTS || *last == first {
            self.points.push_back(point);
        } else if late(&point) < late(last) {
            *last = point;
        }
        if self.points.len() > 4 * POINTS as usize {
            self.points.pop_front();
        }
        let quarter = length / 4;
        let end = self.points.back()?.departed_at;
        if end.since(first.departed_at) < length {
            return None;
        }
        let earliest = |points: &mut dyn Iterator<Item = &Point>| {
            points.copied().min_by(|a, b| late(a).total_cmp(&late(b)))
        };
        let from = earliest(
            &mut self
                .points
                .iter()
                .filter(|p| p.departed_at.since(first.departed_at) <= quarter),
        )?;
        let to = earliest(
            &mut self
                .points
                .iter()
                .filter(|p| end.since(p.departed_at) <= quarter),
        )?;
        while let Some(p) = self.points.front()
            && end.since(p.departed_at) > length / 2
        {
            self.points.pop_front();
        }
        let seconds = to.departed_at.since(from.departed_at).as_secs_f64();
        let bits = to.position.saturating_sub(from.position) as f64 * 8.0;
        (seconds > 0.0).then(|| bits / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A link's rate at which a byte takes a microsecond.
    const RATE: f64 = 8e6;
    /// A span's length, of which 1 ms is a 64th.
    const LENGTH: Duration = Duration::from_millis(64);

    /// Returns a point that departed at `us`, which is `late_us` later than from a link that never
    /// rests.
    fn late(us: u64, late_us: u64) -> Point {
        Point {
            departed_at: Time::from_nanos(us * 1000),
            position: us - late_us,
        }
    }

    #[test]
    fn a_rate_is_taken_from_the_earliest_point_of_each_end() {
        let mut span = BusySpan::default();
        for us in (0..=64_000).step_by(2000) {
            let by_us = match us {
                4000 => 100,
                16_000 | 54_000 => 200,
                // In neither end.
                20_000 => 50,
                _ => 500,
            };
            let rate = span.extend(late(us + 500, by_us), LENGTH, RATE);
            if us < 64_000 {
                assert_eq!(rate, None, "{us}");
                continue;
            }
            // From 4 to 54 ms: 49,900 bytes in 50 ms.
            let rate = rate.unwrap();
            assert!((rate - 7_984_000.0).abs() < 1.0, "{rate}");
        }
        // It goes on with its second half.
        let first = span.points.front().unwrap();
        assert_eq!(first.departed_at, Time::from_nanos(32_500_000));
        assert_eq!(span.points.len(), 17);
    }

    #[test]
    fn of_points_close_together_the_earlier_one_stays() {
        let mut span = BusySpan::default();
        let kept = |span: &BusySpan| span.points.iter().copied().collect::<Vec<_>>();
        let first = late(0, 0);
        span.restart(first);
        span.extend(late(500, 100), LENGTH, RATE);
        assert_eq!(kept(&span), [first, late(500, 100)]);
        // Later, and as late.
        span.extend(late(800, 150), LENGTH, RATE);
        span.extend(late(900, 100), LENGTH, RATE);
        assert_eq!(kept(&span), [first, late(500, 100)]);
        span.extend(late(1000, 50), LENGTH, RATE);
        assert_eq!(kept(&span), [first, late(1000, 50)]);
        span.extend(late(2000, 900), LENGTH, RATE);
        assert_eq!(kept(&span), [first, late(1000, 50), late(2000, 900)]);
    }

    #[test]
    fn the_points_are_bounded() {
        let points = (0..255).map(|us| late(us, 0)).collect();
        let mut span = BusySpan { points };
        assert_eq!(span.extend(late(2000, 0), LENGTH, RATE), None);
        assert_eq!((span.points.len(), span.points[0]), (256, late(0, 0)));
        assert_eq!(span.extend(late(4000, 0), LENGTH, RATE), None);
        assert_eq!((span.points.len(), span.points[0]), (256, late(1, 0)));
    }

    #[test]
    fn no_time_shows_no_rate() {
        let mut span = BusySpan::default();
        span.restart(late(1000, 900));
        assert_eq!(span.extend(late(1000, 0), Duration::ZERO, RATE), None);
    }
}
