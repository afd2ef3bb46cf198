//! Surge's sizes (Barford and Crovella 1998): a lognormal body, and a Pareto tail.
//!
//! TOCS03 repeats its experiments with Surge (3.1.3) and prints of its sizes that the mean is 7
//! KB. Surge's own file sizes have a mean of some 30 KB with the same largest file. So here all
//! sizes are a fifth of Surge's: the mean is then the 7 KB, and the shapes are Surge's.

/// The parameters of the body: mean and deviation of the logarithm of the bytes.
const BODY_MU: f64 = 9.357;
const BODY_SIGMA: f64 = 1.318;

/// The bytes at which the tail begins, and the exponent of the tail.
const TAIL_BYTES: f64 = 133.0 * 1024.0;
const TAIL_ALPHA: f64 = 1.1;

/// The factor on all of Surge's sizes.
const SCALE: f64 = 0.2;

/// The largest file, as in TOCS03's trace.
const LARGEST_BYTES: f64 = 2.0 * 1024.0 * 1024.0;

/// The share of the lognormal distribution that is above the tail's beginning. It is the tail's
/// share, so that the two pieces join.
const TAIL: f64 = 0.030_733;

/// Returns the size, in bytes, below which the share `p` (0 to 1) of the requests lies.
pub(super) fn quantile_bytes(p: f64) -> u64 {
    let low = SCALE * TAIL_BYTES;
    let bytes = if p < 1.0 - TAIL {
        // The quantile is an approximation, which may be a little above where the tail begins.
        (SCALE * (BODY_MU + BODY_SIGMA * normal_quantile(p)).exp()).min(low)
    } else {
        let within = (p - (1.0 - TAIL)) / TAIL;
        let span = 1.0 - (low / LARGEST_BYTES).powf(TAIL_ALPHA);
        low / (1.0 - within * span).powf(1.0 / TAIL_ALPHA)
    };
    (bytes.round() as u64).max(1)
}

/// Returns the value below which the share `p` of the standard normal distribution lies, to 0.0005
/// (Abramowitz and Stegun, 26.2.23).
fn normal_quantile(p: f64) -> f64 {
    let outside = p.min(1.0 - p).max(1e-12);
    let t = (-2.0 * outside.ln()).sqrt();
    let above = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let below = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    let z = t - above / below;
    if p < 0.5 { -z } else { z }
}

#[cfg(test)]
mod tests {
    use super::super::{SizeSummary, Sizes, summarise};
    use super::*;

    #[test]
    fn normal_quantiles_are_those_of_the_tables() {
        for (p, z) in [
            (0.5, 0.0),
            (0.841_345, 1.0),
            (0.158_655, -1.0),
            (0.975, 1.959_964),
            (0.001, -3.090_232),
        ] {
            assert!((normal_quantile(p) - z).abs() < 5e-4, "{p}");
        }
    }

    #[test]
    fn sizes_have_the_mean_that_tocs03_prints() {
        let sizes = Sizes::Surge.of_files(100_000);
        assert!(sizes.is_sorted());
        let SizeSummary {
            mean_bytes,
            median_bytes,
            largest_3_percent_share,
        } = summarise(sizes).unwrap();
        assert!((mean_bytes / 1024.0 - 7.0).abs() < 0.1, "{mean_bytes}");
        // A fifth of e^9.357.
        assert!((2_300..=2_325).contains(&median_bytes), "{median_bytes}");
        // Nearly the half that the trace's largest have.
        assert!(
            (0.42..0.49).contains(&largest_3_percent_share),
            "{largest_3_percent_share}"
        );
    }

    #[test]
    fn the_body_joins_the_tail() {
        let [below, above] = [-1e-6, 1e-6].map(|more| quantile_bytes(1.0 - TAIL + more) as f64);
        assert!((below / above - 1.0).abs() < 2e-3, "{below} {above}");
        assert_eq!(quantile_bytes(1.0), 2 << 20);
        assert_eq!(quantile_bytes(0.0), 1);
    }
}
