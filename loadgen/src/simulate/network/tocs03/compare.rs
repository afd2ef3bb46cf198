//! The comparison of two policies with the same requests: by size, by percentile, and in the whole.

use super::run::{Policy, PolicyResults, TimedResponse, Tocs03Setup};
use crate::simulate::cores::on_all_cores;

/// The divisor that gives the part of the requests, at the start, that is left out.
const WARM_UP: usize = 10;

/// The number of buckets, each of half a percentile of size (TOCS03 3.3).
const BUCKETS: usize = 200;

/// The ratio of bins of size, each a fifth wider than the one before (TOCS03 3.3).
const BIN: f64 = 1.2;

/// The counts of a run that are no response times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PolicyCounts {
    /// The part of the packets that was dropped or lost.
    pub(super) loss: f64,
    /// SYN-ACKs sent again, for each request.
    pub(super) syn_acks_again: f64,
    /// The mean number of open connections.
    pub(super) open_connections: f64,
    /// SYNs that found the listen queue full, for each request.
    pub(super) syns_dropped: f64,
    /// The most connections in the listen queue, if that is bounded.
    pub(super) backlog: u32,
}

/// Response times of a run: those of the workload in the order of their sizes, and those of
/// the probes apart.
pub(super) struct PolicyTimes {
    sorted: Vec<TimedResponse>,
    probes_ms: Vec<f64>,
    pub(super) counts: PolicyCounts,
}

impl PolicyTimes {
    /// Orders the served responses by size; the first tenth is left out.
    pub(super) fn new(served: &[TimedResponse], counts: PolicyCounts) -> Self {
        let settled = &served[served.len() / WARM_UP..];
        let (probes, mut sorted): (Vec<TimedResponse>, Vec<TimedResponse>) =
            settled.iter().copied().partition(|own| own.is_probe);
        // Stable: equal sizes stay in the order of the requests.
        sorted.sort_by_key(|own| own.bytes);
        Self {
            sorted,
            probes_ms: probes.iter().map(|own| own.ms).collect(),
            counts,
        }
    }

    pub(super) fn mean_ms(&self) -> f64 {
        mean(self.sorted.iter().map(|own| own.ms))
    }

    pub(super) fn slowdown(&self) -> f64 {
        mean(self.sorted.iter().map(|own| own.ms / own.alone_ms))
    }

    /// Returns the mean response time of the smallest part, in ms.
    pub(super) fn smallest(&self, part: f64) -> f64 {
        let count = (self.sorted.len() as f64 * part) as usize;
        mean(self.sorted[..count].iter().map(|own| own.ms))
    }

    /// Returns the mean response time of the largest part, in ms.
    pub(super) fn largest(&self, part: f64) -> f64 {
        let count = (self.sorted.len() as f64 * part) as usize;
        let from = self.sorted.len() - count;
        mean(self.sorted[from..].iter().map(|own| own.ms))
    }

    /// Returns the mean response time of the workload's files above a size, in ms.
    pub(super) fn above(&self, bytes: u64) -> f64 {
        let from = self.sorted.partition_point(|own| own.bytes <= bytes);
        mean(self.sorted[from..].iter().map(|own| own.ms))
    }

    /// Returns the mean response time of the largest file, in ms.
    pub(super) fn probes_ms(&self) -> f64 {
        mean(self.probes_ms.iter().copied())
    }

    /// Returns the mean response time of a client's requests, in ms.
    pub(super) fn of_client(&self, client: u32) -> f64 {
        let own = self.sorted.iter().filter(|own| own.client == client);
        mean(own.map(|own| own.ms))
    }

    /// Returns the mean response times of half percentiles of size, in ms.
    pub(super) fn by_percentile(&self) -> Vec<f64> {
        by_percentile(&self.sorted)
    }

    /// Returns the mean response times of half percentiles of the sizes that a client asks for, in
    /// ms.
    pub(super) fn of_client_by_percentile(&self, client: u32) -> Vec<f64> {
        let own = self.sorted.iter().filter(|own| own.client == client);
        by_percentile(&own.copied().collect::<Vec<_>>())
    }

    /// Returns the mean response times of bins of size, in ms, each after the middle of its bin in
    /// bytes, smallest first.
    pub(super) fn by_size(&self) -> Vec<(f64, f64)> {
        let mut bins = Vec::new();
        let mut from = 0;
        while let Some(first) = self.sorted.get(from) {
            let low = (first.bytes as f64).max(1.0);
            let to = (self.sorted).partition_point(|own| (own.bytes as f64) < low * BIN);
            let to = to.max(from + 1);
            let bin = &self.sorted[from..to];
            bins.push((low * BIN.sqrt(), mean(bin.iter().map(|own| own.ms))));
            from = to;
        }
        bins
    }
}

/// Returns the mean response times of half percentiles of size, in ms, of responses by size.
fn by_percentile(sorted: &[TimedResponse]) -> Vec<f64> {
    let place = |index: usize| index * sorted.len() / BUCKETS;
    (0..BUCKETS)
        .map(|index| {
            let bucket = &sorted[place(index)..place(index + 1)];
            mean(bucket.iter().map(|own| own.ms))
        })
        .collect()
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    sum / count
}

/// Compares FAIR with SRPT in each of the setups.
pub(super) fn compare(setups: &[Tocs03Setup]) -> anyhow::Result<Vec<PolicyComparison>> {
    on_all_cores(setups, |setup| PolicyComparison::of(setup, Policy::Srpt))
}

/// The gain of a half percentile of size.
#[derive(Clone, Copy, Debug)]
pub(super) struct BucketGain {
    /// The percentile at which the half ends.
    pub(super) percentile: f64,
    pub(super) gain: f64,
}

/// The results of FAIR and another policy with the same requests.
pub(super) struct PolicyComparison {
    pub(super) fair: PolicyTimes,
    pub(super) other: PolicyTimes,
    pub(super) payload_load: f64,
    pub(super) wire_load: f64,
    throughput: (f64, f64),
    clients: u32,
}

impl PolicyComparison {
    /// Runs FAIR and another policy with the same requests.
    ///
    /// # Errors
    /// A response is missing, or the core broke a promise.
    pub(super) fn of(setup: &Tocs03Setup, policy: Policy) -> anyhow::Result<Self> {
        let fair = setup.run(Policy::Fair)?;
        let other = setup.run(policy)?;
        let PolicyResults {
            payload_load,
            wire_load,
            ..
        } = fair;
        let clients = fair.times.sorted.iter().map(|own| own.client).max();
        Ok(Self {
            throughput: (fair.throughput, other.throughput),
            fair: fair.times,
            other: other.times,
            payload_load,
            wire_load,
            clients: clients.map_or(0, |most| most + 1),
        })
    }

    /// Returns FAIR's mean response time over the other policy's.
    pub(super) fn gain(&self) -> f64 {
        self.fair.mean_ms() / self.other.mean_ms()
    }

    /// Returns FAIR's mean number of open connections over the other policy's.
    pub(super) fn open_gain(&self) -> f64 {
        self.fair.counts.open_connections / self.other.counts.open_connections
    }

    pub(super) fn slowdown_gain(&self) -> f64 {
        self.fair.slowdown() / self.other.slowdown()
    }

    /// Returns the other policy's throughput over FAIR's.
    pub(super) fn goodput_ratio(&self) -> f64 {
        self.throughput.1 / self.throughput.0
    }

    /// Returns the gain of each client.
    pub(super) fn gains_of_clients(&self) -> Vec<f64> {
        let gain = |client| self.fair.of_client(client) / self.other.of_client(client);
        (0..self.clients).map(gain).collect()
    }

    /// Returns the share of half percentiles of size that are faster than under FAIR.
    pub(super) fn buckets_that_gain(&self) -> f64 {
        let both = self.fair.by_percentile().into_iter();
        let both = both.zip(self.other.by_percentile());
        both.filter(|(fair, own)| own < fair).count() as f64 / BUCKETS as f64
    }

    /// Returns the gain of the half percentile of size that gains least.
    pub(super) fn least_gain(&self) -> BucketGain {
        let both = self.fair.by_percentile().into_iter();
        let gains = both
            .zip(self.other.by_percentile())
            .map(|(fair, own)| fair / own);
        let mut least = BucketGain {
            percentile: f64::NAN,
            gain: f64::NAN,
        };
        for (index, gain) in gains.enumerate() {
            if least.gain.is_nan() || gain < least.gain {
                least = BucketGain {
                    percentile: 100.0 * (index + 1) as f64 / BUCKETS as f64,
                    gain,
                };
            }
        }
        least
    }

    /// Returns the share of the bins of size that are faster than under FAIR.
    pub(super) fn sizes_that_gain(&self) -> f64 {
        let both: Vec<(f64, f64)> = (self.fair.by_size().into_iter())
            .zip(self.other.by_size())
            .map(|((_, fair), (_, own))| (fair, own))
            .collect();
        both.iter().filter(|(fair, own)| own < fair).count() as f64 / both.len() as f64
    }
}
