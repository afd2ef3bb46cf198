//! How sizes are distributed, in a fixed amount of memory.

/// Steps per doubling: a bound is right within 9%.
pub(crate) const STEPS: usize = 8;

/// Sizes after which old ones count half.
pub(crate) const HALVE_AT: u64 = 1 << 16;

/// Counts of sizes in logarithmic steps; recent ones count more.
#[derive(Clone, Debug)]
pub(crate) struct SizeHistogram {
    counts: Vec<u64>,
    total: u64,
    halve_at: u64,
}

impl SizeHistogram {
    /// Memory of its counts.
    pub(crate) const BYTES: usize = 64 * STEPS * size_of::<u64>();

    pub(crate) fn new() -> Self {
        Self::halving_at(HALVE_AT)
    }

    /// One in which old sizes count half after so many new ones.
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

    /// The upper bound of the step that holds the quantile.
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

    /// The share of sizes from `low` to `high`, as far as the steps tell; zero
    /// if there is none.
    pub(crate) fn share_between(&self, low: u64, high: u64) -> f64 {
        let within: u64 = self.counts[step(low)..=step(high)].iter().sum();
        within as f64 / self.total.max(1) as f64
    }

    /// Bounds that divide the bytes, with `each` more for a request, in
    /// proportion to `shares`: as many as there are shares, less one.
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

/// The step of the histogram that holds `bytes`: [`STEPS`] equal ones to each
/// doubling.
pub(crate) fn step(bytes: u64) -> usize {
    let bytes = bytes.max(STEPS as u64);
    let octave = bytes.ilog2() as usize;
    let within = (bytes >> (octave - STEPS.ilog2() as usize)) as usize - STEPS;
    octave * STEPS + within
}

/// The largest size in a step.
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
