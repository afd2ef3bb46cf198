//! The distributions of sizes that are simulated.

use std::fmt;
use std::str::FromStr;

use sprat_config::units;

use crate::workload;

/// The distribution of the sizes of responses, in whole bytes, at least 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SizeDistribution {
    /// The generated workload, as [`workload::quantile_bytes`] has it.
    Workload,
    /// Sizes of the exponential distribution.
    Exponential {
        /// The mean in bytes.
        mean_bytes: f64,
    },
    /// Bounded Pareto: density in proportion to x^(-alpha - 1) between two
    /// bounds.
    BoundedPareto {
        /// The exponent of the distribution's tail.
        alpha: f64,
        /// The smallest size, in bytes.
        low_bytes: f64,
        /// The largest size, in bytes.
        high_bytes: f64,
    },
}

/// The mean of `exponential` without a colon; [`PARETO`] are the parameters of `pareto`. Both have
/// a mean of about 5 KB, and Pareto's tail is heavier than the 1.2 that TOCS03 finds (3.1.3).
const EXPONENTIAL_MEAN_BYTES: f64 = 5_000.0;
const PARETO: (f64, f64, f64) = (1.1, 840.0, 2_000_000.0);

impl SizeDistribution {
    /// Returns the size below which the share `p` (0 to 1) of the responses lies.
    pub fn quantile_bytes(&self, p: f64) -> u64 {
        self.exceeded_by(1.0 - p)
    }

    /// Returns the size that the share `q` of the responses exceeds. Far out in the tail
    /// `q` is exact, where 1 - p would be rounded to zero.
    fn exceeded_by(&self, q: f64) -> u64 {
        let bytes = match *self {
            Self::Workload => return workload::quantile_bytes(1.0 - q),
            Self::Exponential { mean_bytes } => -mean_bytes * q.ln(),
            Self::BoundedPareto {
                alpha,
                low_bytes,
                high_bytes,
            } => {
                let span = 1.0 - (low_bytes / high_bytes).powf(alpha);
                low_bytes / (1.0 - (1.0 - q) * span).powf(1.0 / alpha)
            }
        };
        // Saturates.
        (bytes.round() as u64).max(1)
    }

    /// Returns the distribution as cells for numerical integration.
    pub fn grid(&self) -> Grid {
        let cells = (0..CELLS).map(|index| {
            let u = (index as f64 + 0.5) / CELLS as f64;
            // Cells become narrow towards the tail, where sizes grow fast:
            // q = (1 - u)^4.
            let q = (1.0 - u).powi(4);
            let share = 4.0 * (1.0 - u).powi(3) / CELLS as f64;
            (self.exceeded_by(q) as f64, share)
        });
        let mut cells: Vec<(f64, f64)> = cells.collect();
        // The midpoint rule is off by some 1e-10 of the whole.
        let total: f64 = cells.iter().map(|(_, share)| share).sum();
        cells.iter_mut().for_each(|(_, share)| *share /= total);
        Grid { cells }
    }
}

/// The number of cells of a [`Grid`].
const CELLS: usize = 200_000;

/// A distribution as ascending sizes, with the share of the responses that each stands for.
#[derive(Clone, Debug)]
pub struct Grid {
    /// The cells, as (bytes, share).
    pub(super) cells: Vec<(f64, f64)>,
}

impl Grid {
    /// Returns the mean of a function of the size.
    pub fn mean_of(&self, value: impl Fn(f64) -> f64) -> f64 {
        let terms = self
            .cells
            .iter()
            .map(|&(bytes, share)| value(bytes) * share);
        terms.sum()
    }

    /// Returns the mean size in bytes.
    pub fn mean_bytes(&self) -> f64 {
        self.mean_of(|bytes| bytes)
    }

    /// Returns the same distribution with `bytes` more for each size.
    pub fn shifted(&self, bytes: f64) -> Self {
        let cells = self.cells.iter();
        let cells = cells.map(|&(size, share)| (size + bytes, share)).collect();
        Self { cells }
    }

    /// Returns the sizes that cut the load into `parts` equal parts: one fewer than parts.
    pub fn equal_load(&self, parts: usize, work: impl Fn(f64) -> f64) -> Vec<u64> {
        let total = self.mean_of(&work);
        let mut cutoffs = Vec::new();
        let mut below = 0.0;
        for &(bytes, share) in &self.cells {
            below += work(bytes) * share;
            let done = (cutoffs.len() + 1) as f64 / parts as f64;
            if cutoffs.len() + 1 < parts && below >= total * done {
                cutoffs.push(bytes as u64);
            }
        }
        cutoffs
    }
}

impl fmt::Display for SizeDistribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Workload => f.write_str("workload"),
            Self::Exponential { mean_bytes } => write!(f, "exponential:{mean_bytes}"),
            Self::BoundedPareto {
                alpha,
                low_bytes,
                high_bytes,
            } => write!(f, "pareto:{alpha},{low_bytes},{high_bytes}"),
        }
    }
}

impl FromStr for SizeDistribution {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const EXPECTED: &str = "expected `workload`, `exponential:MEAN` such as exponential:5KB, \
                                or `pareto:ALPHA,LOW,HIGH` such as pareto:1.1,700,2MB";
        let (name, parameters) = text.split_once(':').unwrap_or((text, ""));
        let parameters: Vec<&str> = parameters.split(',').filter(|p| !p.is_empty()).collect();
        let bytes = |text: &str| match units::parse_bytes(text) {
            Ok(0) => Err("sizes begin at 1 byte".to_owned()),
            Ok(bytes) => Ok(bytes as f64),
            Err(error) => Err(error.to_string()),
        };
        match (name, parameters.as_slice()) {
            ("workload", []) => Ok(Self::Workload),
            ("exponential", []) => Ok(Self::Exponential {
                mean_bytes: EXPONENTIAL_MEAN_BYTES,
            }),
            ("exponential", [mean]) => Ok(Self::Exponential {
                mean_bytes: bytes(mean)?,
            }),
            ("pareto", []) => {
                let (alpha, low_bytes, high_bytes) = PARETO;
                Ok(Self::BoundedPareto {
                    alpha,
                    low_bytes,
                    high_bytes,
                })
            }
            ("pareto", [alpha, low, high]) => {
                let alpha = alpha.parse().ok().filter(|a| (0.01..=100.0).contains(a));
                let alpha = alpha.ok_or("alpha is a number from 0.01 to 100")?;
                let (low_bytes, high_bytes) = (bytes(low)?, bytes(high)?);
                if low_bytes >= high_bytes {
                    return Err("the lower bound must be below the upper one".to_owned());
                }
                Ok(Self::BoundedPareto {
                    alpha,
                    low_bytes,
                    high_bytes,
                })
            }
            _ => Err(EXPECTED.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grid_has_the_moments_of_the_exponential() {
        let grid = "exponential:5000"
            .parse::<SizeDistribution>()
            .unwrap()
            .grid();
        assert!((grid.mean_bytes() / 5000.0 - 1.0).abs() < 1e-4);
        let second = grid.mean_of(|bytes| bytes * bytes);
        assert!((second / 5e7 - 1.0).abs() < 1e-4, "{second}");
    }

    #[test]
    fn the_grid_has_the_moments_of_the_bounded_pareto() {
        let (a, l, h) = PARETO;
        let grid = "pareto".parse::<SizeDistribution>().unwrap().grid();
        // In closed form.
        let moment = |n: f64| {
            let scale = a * l.powf(a) / (1.0 - (l / h).powf(a));
            scale * (h.powf(n - a) - l.powf(n - a)) / (n - a)
        };
        assert!((grid.mean_bytes() / moment(1.0) - 1.0).abs() < 1e-4);
        assert!((4_500.0..5_500.0).contains(&moment(1.0)), "{}", moment(1.0));
        let second = grid.mean_of(|bytes| bytes * bytes);
        assert!((second / moment(2.0) - 1.0).abs() < 1e-4, "{second}");
    }

    #[test]
    fn equal_load_halves_the_bytes() {
        let sizes = SizeDistribution::Workload;
        let [cutoff] = sizes.grid().equal_load(2, |bytes| bytes)[..] else {
            panic!("one cutoff for two parts")
        };
        // DESIGN: the largest 3% carry half of the bytes.
        let share = sizes.quantile_bytes(0.97) as f64;
        assert!((cutoff as f64 / share - 1.0).abs() < 0.1, "{cutoff}");
    }

    #[test]
    fn what_is_shown_is_read_back() {
        for text in ["workload", "exponential:5000", "pareto:1.1,840,2000000"] {
            assert_eq!(text.parse::<SizeDistribution>().unwrap().to_string(), text);
        }
        let wrong = [
            "normal",
            "pareto:1.1,2MB,1KB",
            "exponential:0",
            "pareto:x,1,2",
        ];
        for text in wrong {
            assert!(text.parse::<SizeDistribution>().is_err(), "{text}");
        }
    }
}
