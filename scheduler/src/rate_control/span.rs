//! Samples of the link's rate, from spans in which it never ran dry.

use std::collections::VecDeque;
use std::time::Duration;

use crate::Time;

/// Points kept of a span, about.
const POINTS: u32 = 64;

/// The link had carried all bytes up to `position` at about `departed_at`.
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
    /// The link may have been idle since the last point.
    pub(super) fn restart(&mut self, point: Point) {
        self.points.clear();
        self.points.push_back(point);
    }

    /// The link was busy up to this point. Once the span is as long as
    /// `length`, answers the rate over it in bits per second, and goes on with
    /// its second half.
    ///
    /// A point can only be late (a poll, a delayed acknowledgement), so each
    /// end is the earliest of a quarter of the span, as seen from a link of
    /// `rate_bits_per_s`.
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
