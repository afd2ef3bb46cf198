//! The measures of one run, in numbers.

use sprat_measure::wire;

use super::runs::{LoadGroup, Run};
use crate::results::Outcome;

/// The number of half-percentile buckets of size, as in TOCS03's figure 9 (right).
pub(crate) const BUCKETS: usize = 200;

/// The ratio of a size bin's end to its start, as in TOCS03's figure 9 (left). From 41 B to 2 MB
/// that makes the paper's 60 bins.
const BIN_RATIO: f64 = 1.2;

/// The most points of a distribution: from all requests down to one of a thousand, eight for each
/// factor of ten.
const SHARES_SLOWER: i32 = 25;

/// The measures of one system at one load. Times are over answered requests only; size ranks are
/// over all requests of the trace, so that they mean the same for all systems.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Measures {
    /// The number of all requests.
    pub(crate) requests: usize,
    /// The number of requests without a whole answer.
    pub(crate) failed: usize,
    /// The payload received over the time from the first start to the last completion.
    pub(crate) goodput_bytes_per_s: f64,
    /// The mean response time; NaN if no request was answered, here and below.
    pub(crate) mean_ms: f64,
    /// Mean of response time over the time that the response needs alone.
    pub(crate) slowdown: f64,
    /// Mean response time of the smallest 80%.
    pub(crate) smallest80_ms: f64,
    /// Mean response time of the largest 1%.
    pub(crate) largest1_ms: f64,
    /// Median response time, by nearest rank.
    pub(crate) p50_ms: f64,
    /// 99th percentile of response time, by nearest rank.
    pub(crate) p99_ms: f64,
    /// Mean response time of each half-percentile of size; `None` where a
    /// bucket holds no answered request.
    pub(crate) buckets_ms: Vec<Option<f64>>,
    /// The points of the distribution, the shortest time first, at most [`SHARES_SLOWER`]. Each is
    /// a response time in ms, and the percentage of the answered requests that took longer.
    pub(crate) slower: Vec<(f64, f64)>,
    /// The mean of each bin that holds an answered request, as the geometric middle of the bin in
    /// bytes and the mean response time in ms.
    pub(crate) bins_ms: Vec<(f64, f64)>,
}

impl Measures {
    /// Measures `run`, which is one of `group`.
    pub(crate) fn of(run: &Run, group: &LoadGroup, uplink_bits_per_s: u64) -> Self {
        let by_size: Vec<&Outcome> = group.by_size.iter().map(|&i| &run.outcomes[i]).collect();
        let buckets = (0..BUCKETS).map(|k| &by_size[cut(k, &by_size)..cut(k + 1, &by_size)]);
        let buckets_ms = buckets.map(|bucket| mean(answered_ms(bucket)));
        let mut sorted_ms: Vec<f64> = answered_ms(&by_size).collect();
        sorted_ms.sort_by(f64::total_cmp);
        let answered = by_size.iter().filter(|outcome| outcome.error.is_none());
        let slowdowns = answered.map(|outcome| {
            outcome.response_ms / wire::alone_ms(outcome.bytes, run.connection(), uplink_bits_per_s)
        });
        let or_nan = |mean: Option<f64>| mean.unwrap_or(f64::NAN);
        // 80% and 99% in half-percentiles.
        let (small, large) = (cut(160, &by_size), cut(198, &by_size));
        Self {
            requests: by_size.len(),
            failed: by_size.len() - sorted_ms.len(),
            goodput_bytes_per_s: run.info.goodput_bytes_per_s,
            mean_ms: or_nan(mean(sorted_ms.iter().copied())),
            slowdown: or_nan(mean(slowdowns)),
            smallest80_ms: or_nan(mean(answered_ms(&by_size[..small]))),
            largest1_ms: or_nan(mean(answered_ms(&by_size[large..]))),
            p50_ms: percentile(&sorted_ms, 0.50),
            p99_ms: percentile(&sorted_ms, 0.99),
            buckets_ms: buckets_ms.collect(),
            slower: slower(&sorted_ms),
            bins_ms: bins(&by_size),
        }
    }

    /// Counts the half-percentiles of size that are faster here than under
    /// `baseline`, and those that `baseline` has answered. A bucket that only
    /// the baseline answered counts as not faster.
    pub(crate) fn buckets_faster_than(&self, baseline: &Self) -> (usize, usize) {
        let mut faster = 0;
        let mut compared = 0;
        for (ours, theirs) in self.buckets_ms.iter().zip(&baseline.buckets_ms) {
            let Some(theirs) = theirs else { continue };
            compared += 1;
            faster += usize::from(ours.is_some_and(|ours| ours < *theirs));
        }
        (faster, compared)
    }
}

/// Returns the index at which half-percentile `k` begins.
fn cut<T>(k: usize, by_size: &[T]) -> usize {
    by_size.len() * k / BUCKETS
}

fn answered_ms(outcomes: &[&Outcome]) -> impl Iterator<Item = f64> {
    let answered = outcomes.iter().filter(|outcome| outcome.error.is_none());
    answered.map(|outcome| outcome.response_ms)
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum) = values.fold((0u64, 0.0), |(count, sum), value| (count + 1, sum + value));
    (count > 0).then(|| sum / count as f64)
}

/// Returns the least value that `share` of the values do not exceed.
fn percentile(sorted: &[f64], share: f64) -> f64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    let value = sorted.get(rank.saturating_sub(1));
    value.copied().unwrap_or(f64::NAN)
}

/// Returns times, and for each the percentage of times that are longer. Shares that the number of
/// times does not tell apart are left out.
fn slower(sorted: &[f64]) -> Vec<(f64, f64)> {
    let shares = (0..SHARES_SLOWER).map(|step| 10f64.powf(-f64::from(step) / 8.0));
    let told = shares.filter(|share| share * sorted.len() as f64 >= 1.0);
    told.map(|share| (percentile(sorted, 1.0 - share), share * 100.0))
        .collect()
}

/// Returns the middle and the mean response time of bins `[x, 1.2 x]` from the smallest size on;
/// empty bodies count as one byte.
fn bins(by_size: &[&Outcome]) -> Vec<(f64, f64)> {
    let size = |outcome: &Outcome| outcome.bytes.max(1) as f64;
    let Some(smallest) = by_size.first().map(|outcome| size(outcome)) else {
        return Vec::new();
    };
    // Forgives rounding, so that a size on an edge opens its own bin.
    let bin = |outcome: &Outcome| {
        ((size(outcome) / smallest).ln() / BIN_RATIO.ln() + 1e-9).floor() as i32
    };
    let point = |outcomes: &[&Outcome]| {
        let middle = smallest * BIN_RATIO.powf(f64::from(bin(outcomes[0])) + 0.5);
        Some((middle, mean(answered_ms(outcomes))?))
    };
    let same_bin = by_size.chunk_by(|a, b| bin(a) == bin(b));
    same_bin.filter_map(point).collect()
}
