//! Counters of one worker.
//!
//! Every worker owns its counters, so that counting never makes two threads
//! share a cache line; their reader (`metrics`) sums over the workers.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::error::Reason;

/// A number with one writer and any number of readers.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds an amount to the counter. Only the owning worker may call this.
    pub fn add(&self, amount: u64) {
        // One writer, so no read-modify-write across threads is needed.
        self.0
            .store(self.0.load(Relaxed).wrapping_add(amount), Relaxed);
    }

    /// Adds one to the counter. Only the owning worker may call this.
    pub fn increment(&self) {
        self.add(1);
    }

    /// Takes one from the counter, which is a gauge then. Only the owning worker may call this.
    pub fn decrement(&self) {
        self.0.store(self.0.load(Relaxed).wrapping_sub(1), Relaxed);
    }

    /// Returns the present value.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// The size classes of responses: their names, and upper bounds in bytes. One more lies above.
pub const SIZE_CLASSES: [(&str, u64); 4] = [
    ("<=1K", 1 << 10),
    ("<=10K", 10 << 10),
    ("<=100K", 100 << 10),
    ("<=1M", 1 << 20),
];

/// The names of the size classes, by [`size_class`].
pub const SIZE_CLASS_NAMES: [&str; SIZE_CLASSES.len() + 1] = [
    SIZE_CLASSES[0].0,
    SIZE_CLASSES[1].0,
    SIZE_CLASSES[2].0,
    SIZE_CLASSES[3].0,
    ">1M",
];

/// Returns the index of a response's size class in [`SIZE_CLASS_NAMES`].
pub fn size_class(bytes: u64) -> usize {
    SIZE_CLASSES
        .iter()
        .position(|&(_, bound)| bytes <= bound)
        .unwrap_or(SIZE_CLASSES.len())
}

/// The quantity that a histogram measures, and where its buckets end.
pub trait Scale {
    /// The upper bounds of the buckets, ascending: at most [`MOST_BOUNDS`].
    const BOUNDS: &'static [f64];
}

/// The most bounds that a histogram may have.
pub const MOST_BOUNDS: usize = 16;

/// The scale of durations, in seconds.
#[derive(Debug, Default)]
pub struct Seconds;

impl Scale for Seconds {
    const BOUNDS: &'static [f64] = &[
        0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
        30.0, 60.0,
    ];
}

/// A coarser scale of durations, in seconds, for uses with many histograms. Its bounds are some
/// of those of [`Seconds`].
#[derive(Debug, Default)]
pub struct CoarseSeconds;

impl Scale for CoarseSeconds {
    const BOUNDS: &'static [f64] = &[0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];
}

/// The scale of slowdowns: response time over the time that the response alone would take on the
/// uplink.
#[derive(Debug, Default)]
pub struct Slowdowns;

impl Scale for Slowdowns {
    const BOUNDS: &'static [f64] = &[
        1.0, 1.25, 1.5, 2.0, 3.0, 5.0, 7.5, 10.0, 20.0, 35.0, 50.0, 100.0, 200.0, 500.0, 1000.0,
        5000.0,
    ];
}

/// A histogram with fixed bounds; its counts are not cumulative.
#[derive(Debug, Default)]
pub struct Histogram<S> {
    /// The counts of the buckets: one for each bound, and one for what lies above.
    counts: [Counter; MOST_BOUNDS + 1],
    /// The sum of the values, in millionths.
    sum_millionths: Counter,
    scale: PhantomData<S>,
}

impl<S: Scale> Histogram<S> {
    /// Adds a value to its bucket and to the sum. Only the owning worker may call this.
    pub fn observe(&self, value: f64) {
        const { assert!(S::BOUNDS.len() <= MOST_BOUNDS) }
        let bucket = S::BOUNDS.partition_point(|&bound| bound < value);
        self.counts[bucket].increment();
        self.sum_millionths.add((value * 1e6) as u64);
    }

    /// Adds a duration, as seconds. Only the owning worker may call this.
    pub fn took(&self, duration: Duration) {
        self.observe(duration.as_secs_f64());
    }
}

/// A histogram summed up over the workers.
#[derive(Clone, Debug)]
pub struct Total {
    /// The buckets' upper bounds and counts, which are not cumulative; the last bound is
    /// infinite.
    buckets: Vec<(f64, u64)>,
    sum_millionths: u64,
}

impl Total {
    /// Returns the sum of the workers' `parts`.
    pub fn of<'a, S: Scale + 'a>(parts: impl IntoIterator<Item = &'a Histogram<S>>) -> Self {
        // Without one that is named `+Inf`, Prometheus knows no percentile.
        let bounds = S::BOUNDS.iter().chain(&[f64::INFINITY]);
        let mut own = Self {
            buckets: bounds.map(|&bound| (bound, 0)).collect(),
            sum_millionths: 0,
        };
        for part in parts {
            own.sum_millionths += part.sum_millionths.get();
            for (bucket, count) in own.buckets.iter_mut().zip(&part.counts) {
                bucket.1 += count.get();
            }
        }
        own
    }

    /// Returns the buckets' upper bounds and counts, which are not cumulative.
    pub(crate) fn buckets(&self) -> &[(f64, u64)] {
        &self.buckets
    }

    /// Returns whether the buckets end at these bounds, and one more at infinity.
    pub(crate) fn is_of(&self, bounds: &[f64]) -> bool {
        let own = self.buckets.iter().map(|&(bound, _)| bound);
        own.eq(bounds.iter().copied().chain([f64::INFINITY]))
    }

    /// Returns how many values are in each bucket: one for each bound, and one above.
    pub fn counts(&self) -> impl Iterator<Item = u64> {
        self.buckets.iter().map(|&(_, count)| count)
    }

    /// Returns the sum of the observed values.
    pub fn sum(&self) -> f64 {
        self.sum_millionths as f64 / 1e6
    }

    /// Returns how many values were observed.
    pub(crate) fn count(&self) -> u64 {
        self.counts().sum()
    }
}

/// A counter for each reason, found by [`Reason::index`].
#[derive(Debug)]
pub struct ByReason([Counter; Reason::ALL.len()]);

impl Default for ByReason {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Counter::default()))
    }
}

impl std::ops::Index<usize> for ByReason {
    type Output = Counter;

    fn index(&self, index: usize) -> &Counter {
        &self.0[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_classes_include_their_bounds() {
        let bytes = [0, 1024, 1025, 10_240, 102_400, 1 << 20, (1 << 20) + 1];
        assert_eq!(bytes.map(size_class), [0, 0, 1, 1, 2, 3, 4]);
    }

    #[test]
    fn a_value_on_a_bound_counts_below_it() {
        let histogram = Histogram::<Slowdowns>::default();
        for value in [1.0, 1.1, 5000.0, 5001.0] {
            histogram.observe(value);
        }
        let total = Total::of([&histogram]);
        let counts: Vec<_> = total.buckets().iter().map(|&(_, count)| count).collect();
        assert_eq!((counts[0], counts[1], counts[15], counts[16]), (1, 1, 1, 1));
        assert_eq!((total.count(), total.sum()), (4, 10_003.1));
    }

    #[test]
    fn what_lies_above_fewer_bounds_counts_too() {
        let histogram = Histogram::<CoarseSeconds>::default();
        for value in [0.0, 10.0, 10.1] {
            histogram.observe(value);
        }
        let total = Total::of([&histogram, &histogram]);
        assert_eq!(total.buckets()[7..], [(10.0, 2), (f64::INFINITY, 2)]);
        assert_eq!(total.count(), 6);
    }
}
