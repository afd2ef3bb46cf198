//! The measures of a simulated run.

use super::sizes::SizeDistribution;
use super::statistics::{Estimate, percentile};

/// A request that was served.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ServedRequest {
    pub(super) bytes: u64,
    /// The seconds that the request takes when it is alone.
    pub(super) alone_s: f64,
    /// The seconds from the request's arrival to its end.
    pub(super) response_s: f64,
    pub(super) class: usize,
    /// Whether the request began after its deadline.
    pub(super) late: bool,
}

/// The measures of a run, over all requests but those that warm the system up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct SimulatedMeasures {
    /// The mean response time in milliseconds.
    pub(super) mean_ms: Estimate,
    /// Response time over that of the same request alone.
    pub(super) slowdown: Estimate,
    pub(super) p95_ms: f64,
    /// Mean response time of the largest 1%.
    pub(super) largest1_ms: f64,
}

/// The divisor that gives the part of the requests, at the start, that is left out.
const WARMUP: usize = 10;

/// Returns the part of a run that is measured.
pub(super) fn settled(served: &[ServedRequest]) -> &[ServedRequest] {
    &served[served.len() / WARMUP..]
}

impl SimulatedMeasures {
    pub(super) fn of(served: &[ServedRequest], sizes: &SizeDistribution) -> Self {
        let served = settled(served);
        let large = sizes.quantile_bytes(0.99);
        let (mut largest_s, mut largest) = (0.0, 0);
        for one in served.iter().filter(|one| one.bytes >= large) {
            largest_s += one.response_s;
            largest += 1;
        }
        let times_ms = || served.iter().map(|one| one.response_s * 1e3);
        let slowdowns = served.iter().map(|one| one.response_s / one.alone_s);
        Self {
            mean_ms: Estimate::of(times_ms()),
            slowdown: Estimate::of(slowdowns),
            p95_ms: percentile(times_ms().collect(), 0.95),
            largest1_ms: largest_s / f64::from(largest) * 1e3,
        }
    }
}
