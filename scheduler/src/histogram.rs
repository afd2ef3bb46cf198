//! A histogram of sizes, in a fixed amount of memory.

/// The number of steps per doubling of the size: a step's bound is at most an
/// eighth above the sizes in it.
pub(crate) const STEPS: usize = 8;

/// The number of sizes at which all counts are halved.
pub(crate) const HALVE_AT: u64 = 1 << 16;

/// Counts of sizes in logarithmic steps; recent sizes count more.
#[derive(Clone, Debug)]
pub(crate) struct SizeHistogram {
    counts: Vec<u64>,
    total: u64,
    halve_at: u64,
}

impl SizeHistogram {
    /// The bytes of memory that the counts take.
    pub(crate) const BYTES: usize = 64 * STEPS * size_of::<u64>();

    pub(crate) fn new() -> Self {
        Self::halving_at(HALVE_AT)
    }

    /// Creates a histogram whose counts are halved whenever they add up to
    /// `halve_at`.
    pub(crate) fn halving_at(halve_at: u64) -> Self {
        Self {
            counts: vec![0; 64 * STEPS],
            total: 0,
            halve_at,
        }
    }

    pub(crate) fn observe(&mut self, bytes: u64) {
        self.counts[step(bytes)] += 1;
        self.total += 1;
        if self.total >= self.halve_at {
            self.counts.iter_mut().for_each(|count| *count /= 2);
            self.total = self.counts.iter().sum();
        }
    }

    /// Returns the upper bound of the step that holds the quantile, in bytes.
    pub(crate) fn quantile_per_mille(&self, per_mille: u64) -> u64 {
        let wanted = (self.total * per_mille).div_ceil(1000);
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return upper_bound(index);
            }
        }
        upper_bound(self.counts.len() - 1)
    }

    /// Returns the share of sizes from `low` to `high`, as far as the steps
    /// tell; zero if there is none.
    pub(crate) fn share_between(&self, low: u64, high: u64) -> f64 {
        let within: u64 = self.counts[step(low)..=step(high)].iter().sum();
        within as f64 / self.total.max(1) as f64
    }

    /// Returns the sizes that divide the load in proportion to `shares`, one
    /// fewer than shares. A request's load is its bytes and `each` more.
    pub(crate) fn equal_load(&self, shares: &[u64], each: u64) -> Vec<u64> {
        let loads = self.counts.iter().enumerate().map(|(index, &count)| {
            let bytes = upper_bound(index).saturating_add(each);
            count as f64 * bytes as f64
        });
        let loads: Vec<f64> = loads.collect();
        let total: f64 = loads.iter().sum();
        let weights: u64 = shares.iter().sum();
        let (mut bounds, mut index, mut below, mut share) = (Vec::new(), 0, 0.0, 0);
        for weight in shares.iter().take(shares.len().saturating_sub(1)) {
            share += weight;
            let wanted = total * share as f64 / weights as f64;
            // The step that crosses the bound goes to the nearer side.
            while index + 1 < loads.len() && below + loads[index] / 2.0 < wanted {
                below += loads[index];
                index += 1;
            }
            bounds.push(upper_bound(index.saturating_sub(1)));
        }
        bounds
    }
}

/// Returns the step of the histogram that holds `bytes`; each doubling has
/// [`STEPS`] of equal width.
pub(crate) fn step(bytes: u64) -> usize {
    let bytes = bytes.max(STEPS as u64);
    let octave = bytes.ilog2() as usize;
    let within = (bytes >> (octave - STEPS.ilog2() as usize)) as usize - STEPS;
    octave * STEPS + within
}

/// Returns the largest size in a step, in bytes.
pub(crate) fn upper_bound(step: usize) -> u64 {
    let (octave, within) = (step / STEPS, step % STEPS);
    let width_log2 = octave.saturating_sub(STEPS.ilog2() as usize);
    let next = (STEPS + within + 1) as u128;
    u64::try_from((next << width_log2) - 1).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_ends_where_the_next_begins() {
        assert_eq!([0, 1, 8, 9, 15, 16].map(step), [24, 24, 24, 25, 31, 32]);
        // Below the first step that is used, each is a byte of the same width.
        assert_eq!([0, 24, 31, 32].map(upper_bound), [8, 8, 15, 17]);
        for index in 24..64 * STEPS - 1 {
            assert_eq!(step(upper_bound(index)), index);
            assert_eq!(step(upper_bound(index) + 1), index + 1);
        }
        assert_eq!(upper_bound(64 * STEPS - 1), u64::MAX);
    }

    #[test]
    fn quantiles_and_shares_are_of_what_was_seen() {
        let mut sizes = SizeHistogram::new();
        assert_eq!(sizes.share_between(0, u64::MAX), 0.0);
        for bytes in [1000, 1000, 1000, 100_000] {
            sizes.observe(bytes);
        }
        assert_eq!(sizes.quantile_per_mille(750), 1023);
        assert_eq!(sizes.quantile_per_mille(751), 106_495);
        assert_eq!(sizes.share_between(1000, 1000), 0.75);
        assert_eq!(sizes.share_between(1024, u64::MAX), 0.25);
    }

    #[test]
    fn old_sizes_count_half() {
        let mut sizes = SizeHistogram::halving_at(4);
        for bytes in [1000, 1000, 1000, 1000, 100_000, 100_000] {
            sizes.observe(bytes);
        }
        // Of the four two are left when the others come, and then half of all again.
        assert_eq!(sizes.share_between(1000, 1000), 0.5);
        assert_eq!(sizes.total, 2);
    }

    #[test]
    fn the_step_on_the_bound_goes_to_the_nearer_side() {
        let mut sizes = SizeHistogram::new();
        sizes.observe(1000);
        assert_eq!(sizes.equal_load(&[1, 1], 0), [959]);
        assert_eq!(sizes.equal_load(&[3, 1], 0), [1023]);
        // The last step has none after it.
        let mut sizes = SizeHistogram::new();
        sizes.observe(u64::MAX);
        assert_eq!(sizes.equal_load(&[3, 1], 0), [(15 << 60) - 1]);
        // A request that costs much itself makes small ones weigh as much as large ones.
        let mut sizes = SizeHistogram::new();
        for bytes in [10, 10, 10, 10, 100_000] {
            sizes.observe(bytes);
        }
        assert_eq!(sizes.equal_load(&[1, 1], 0), [98_303]);
        assert_eq!(sizes.equal_load(&[1, 1], 1 << 30), [10]);
    }

    #[test]
    fn load_is_divided_in_proportion() {
        let mut sizes = SizeHistogram::new();
        // As many bytes in ones of 1000 as in ones of 100,000.
        for n in 0..10_100 {
            sizes.observe(if n % 101 == 100 { 100_000 } else { 1000 });
        }
        let bounds = sizes.equal_load(&[1, 1], 0);
        assert!((1000..100_000).contains(&bounds[0]), "{bounds:?}");
        let uneven = sizes.equal_load(&[1, 3], 0);
        assert!(uneven[0] <= 1100, "{uneven:?}");
        assert!(sizes.equal_load(&[1], 0).is_empty());
    }
}
