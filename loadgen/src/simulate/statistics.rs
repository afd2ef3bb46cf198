//! Means of correlated samples, and how far they can be trusted.

/// A mean with half the width of its 95% confidence interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// The mean of the samples.
    pub mean: f64,
    /// The half of the interval's width: 95% of such intervals hold the true mean. NaN for too few
    /// samples.
    pub half_width: f64,
}

/// The number of batches. The responses of one queue are correlated, the means of long batches all
/// but independent.
const BATCHES: usize = 30;

/// Student's t for 95% with 29 degrees of freedom.
const STUDENT_T: f64 = 2.045;

impl Estimate {
    /// Estimates the mean of `samples` in order of arrival, with an interval by
    /// batch means (Law and Kelton, "Simulation Modeling and Analysis", 9.5.3).
    pub fn of(samples: impl ExactSizeIterator<Item = f64>) -> Self {
        let count = samples.len();
        let mut sums = [(0.0, 0_usize); BATCHES];
        for (index, sample) in samples.enumerate() {
            let (sum, batched) = &mut sums[index * BATCHES / count];
            *sum += sample;
            *batched += 1;
        }
        let mean = sums.iter().map(|(sum, _)| sum).sum::<f64>() / count as f64;
        if count < 2 * BATCHES {
            let half_width = f64::NAN;
            return Self { mean, half_width };
        }
        let squares = sums.iter().map(|&(sum, n)| (sum / n as f64 - mean).powi(2));
        let variance = squares.sum::<f64>() / (BATCHES - 1) as f64;
        Self {
            mean,
            half_width: STUDENT_T * (variance / BATCHES as f64).sqrt(),
        }
    }

    /// Returns the difference from `expected`, in per cent of that.
    pub fn difference_percent(&self, expected: f64) -> Self {
        Self {
            mean: 100.0 * (self.mean / expected - 1.0),
            half_width: 100.0 * self.half_width / expected,
        }
    }
}

/// Returns the percentile `p` (0 to 1) by nearest rank; NaN if there are no values.
pub fn percentile(mut values: Vec<f64>, p: f64) -> f64 {
    if values.is_empty() {
        return f64::NAN;
    }
    let rank = ((values.len() as f64 * p).ceil() as usize).clamp(1, values.len()) - 1;
    *values.select_nth_unstable_by(rank, f64::total_cmp).1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Dice;

    #[test]
    fn the_interval_holds_the_mean_about_19_times_in_20() {
        let held = (0..400).filter(|&seed| {
            let mut dice = Dice::new(seed);
            let estimate = Estimate::of((0..3000).map(|_| dice.exponential()));
            (estimate.mean - 1.0).abs() < estimate.half_width
        });
        let held = held.count();
        assert!((365..=394).contains(&held), "{held} of 400");
    }

    #[test]
    fn differences_are_relative() {
        let estimate = Estimate {
            mean: 12.0,
            half_width: 1.0,
        };
        let difference = estimate.difference_percent(10.0);
        assert!((difference.mean - 20.0).abs() < 1e-9);
        assert!((difference.half_width - 10.0).abs() < 1e-9);
        assert!(Estimate::of([1.0, 3.0].into_iter()).half_width.is_nan());
    }

    #[test]
    fn percentiles_are_by_nearest_rank() {
        let values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(percentile(values.clone(), 0.95), 95.0);
        assert_eq!(percentile(values.clone(), 0.0), 1.0);
        assert_eq!(percentile(values, 1.0), 100.0);
        assert!(percentile(vec![], 0.5).is_nan());
    }
}
