//! Counters of one worker.
//!
//! Every worker owns its counters, so that counting never makes two threads
//! share a cache line; whoever reads them (`metrics`) sums over the workers.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::error::Reason;

/// A number with one writer and any number of readers.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds; by the owning worker only.
    pub fn add(&self, amount: u64) {
        // One writer, so no read-modify-write across threads is needed.
        self.0
            .store(self.0.load(Relaxed).wrapping_add(amount), Relaxed);
    }

    /// Adds one; by the owning worker only.
    pub fn increment(&self) {
        self.add(1);
    }

    /// Takes one away, for a gauge; by the owning worker only.
    pub fn decrement(&self) {
        self.0.store(self.0.load(Relaxed).wrapping_sub(1), Relaxed);
    }

    /// Returns the present value.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Size classes of responses, by upper bound in bytes; one more lies above.
pub const SIZE_CLASSES: [(&str, u64); 4] = [
    ("<=1K", 1 << 10),
    ("<=10K", 10 << 10),
    ("<=100K", 100 << 10),
    ("<=1M", 1 << 20),
];

/// The name of the size class above the last of [`SIZE_CLASSES`].
pub const LARGEST_SIZE_CLASS: &str = ">1M";

/// The index of the size class of a response.
pub fn size_class(bytes: u64) -> usize {
    SIZE_CLASSES
        .iter()
        .position(|&(_, bound)| bytes <= bound)
        .unwrap_or(SIZE_CLASSES.len())
}

/// Upper bounds of the duration histogram, seconds.
pub const DURATION_BOUNDS_S: [f64; 16] = [
    0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    60.0,
];

/// Upper bounds of the slowdown histogram (ratio).
pub const SLOWDOWN_BOUNDS: [f64; 16] = [
    1.0, 1.25, 1.5, 2.0, 3.0, 5.0, 7.5, 10.0, 20.0, 35.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 5000.0,
];

/// A histogram with fixed bounds; its counts are not cumulative.
#[derive(Debug, Default)]
pub struct Histogram {
    /// One for each bound, and one for what lies above.
    pub(crate) counts: [Counter; 17],
    /// Sum of the values in millionths.
    pub(crate) sum_millionths: Counter,
}

impl Histogram {
    /// Adds a value; by the owning worker only.
    pub fn observe(&self, bounds: &[f64; 16], value: f64) {
        let bucket = bounds.partition_point(|&bound| bound < value);
        self.counts[bucket].increment();
        self.sum_millionths.add((value * 1e6) as u64);
    }
}

/// A counter for each [`Reason::index`].
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
        let histogram = Histogram::default();
        for value in [1.0, 1.1, 5000.0, 5001.0] {
            histogram.observe(&SLOWDOWN_BOUNDS, value);
        }
        let counts: Vec<_> = histogram.counts.iter().map(Counter::get).collect();
        assert_eq!(counts[0], 1);
        assert_eq!(counts[1], 1);
        assert_eq!(counts[15], 1);
        assert_eq!(counts[16], 1);
    }
}
