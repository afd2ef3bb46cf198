//! What one worker counts.
//!
//! Every worker owns its counters, so that counting never makes two threads
//! share a cache line; whoever reads them ([`crate::metrics`]) sums over the
//! workers. A [`Counter`] has one writer, its worker.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use sprat_config::resolved::{Class, Cluster, Config};
use tokio::time::Instant;

use crate::catalogue::LayerStats;
use crate::error::Reason;
use crate::proxy_protocol::HeaderStats;
use crate::tls::HandshakeStats;

/// A number with one writer and any number of readers.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds; by the owning worker only.
    pub(crate) fn add(&self, amount: u64) {
        // One writer, so no read-modify-write across threads is needed.
        self.0
            .store(self.0.load(Relaxed).wrapping_add(amount), Relaxed);
    }

    /// Adds one; by the owning worker only.
    pub(crate) fn increment(&self) {
        self.add(1);
    }

    /// Takes one away, for a gauge; by the owning worker only.
    pub(crate) fn decrement(&self) {
        self.0.store(self.0.load(Relaxed).wrapping_sub(1), Relaxed);
    }

    /// The present value.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Size classes of responses, by upper bound in bytes; one more lies above.
pub(crate) const SIZE_CLASSES: [(&str, u64); 4] = [
    ("<=1K", 1 << 10),
    ("<=10K", 10 << 10),
    ("<=100K", 100 << 10),
    ("<=1M", 1 << 20),
];

/// The name of the size class above the last of [`SIZE_CLASSES`].
pub(crate) const LARGEST_SIZE_CLASS: &str = ">1M";

/// The index of the size class of a response.
pub(crate) fn size_class(bytes: u64) -> usize {
    SIZE_CLASSES
        .iter()
        .position(|&(_, bound)| bytes <= bound)
        .unwrap_or(SIZE_CLASSES.len())
}

/// Upper bounds of the duration histogram, seconds.
pub(crate) const DURATION_BOUNDS_S: [f64; 16] = [
    0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    60.0,
];

/// Upper bounds of the slowdown histogram (ratio).
pub(crate) const SLOWDOWN_BOUNDS: [f64; 16] = [
    1.0, 1.25, 1.5, 2.0, 3.0, 5.0, 7.5, 10.0, 20.0, 35.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 5000.0,
];

/// A histogram with fixed bounds; its counts are not cumulative.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    /// One for each bound, and one for what lies above.
    pub(crate) counts: [Counter; 17],
    /// Sum of the values in millionths.
    pub(crate) sum_millionths: Counter,
}

impl Histogram {
    /// Adds a value; by the owning worker only.
    pub(crate) fn observe(&self, bounds: &[f64; 16], value: f64) {
        let bucket = bounds.partition_point(|&bound| bound < value);
        self.counts[bucket].increment();
        self.sum_millionths.add((value * 1e6) as u64);
    }
}

/// A counter for each [`Reason::index`].
#[derive(Debug)]
pub(crate) struct ByReason([Counter; Reason::ALL.len()]);

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

/// What is counted for an endpoint.
#[derive(Debug, Default)]
pub(crate) struct EndpointStats {
    /// Requests sent to it.
    pub(crate) requests: Counter,
    /// Connections opened.
    pub(crate) connects: Counter,
    /// Requests that went over a kept connection.
    pub(crate) reuses: Counter,
    /// Requests sent again, there or elsewhere, after an attempt there failed.
    pub(crate) retries: Counter,
    /// Attempts made there beside one elsewhere that was slow.
    pub(crate) hedges: Counter,
    /// Failures by [`Reason::index`].
    pub(crate) errors: ByReason,
}

/// What is counted for a cluster. Clones count together.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClusterStats {
    /// Responses by hundreds of the status, from 1xx; the last is a response
    /// that never got a status.
    pub(crate) responses: Arc<[Counter; 6]>,
    /// Seconds that requests waited for an endpoint, of those that had to.
    pub(crate) queue_waits: Arc<Histogram>,
}

impl ClusterStats {
    /// A request waited for an endpoint.
    pub(crate) fn waited(&self, wait: Duration) {
        let waits = &self.queue_waits;
        waits.observe(&DURATION_BOUNDS_S, wait.as_secs_f64());
    }
}

/// What is counted for a priority class.
#[derive(Debug, Default)]
pub(crate) struct ClassCounters {
    /// As [`ClusterStats::responses`].
    pub(crate) responses: [Counter; 6],
    /// Bytes of bodies that went out whole.
    pub(crate) bytes: Counter,
    /// Seconds from the end of the head to the last byte.
    pub(crate) durations: Histogram,
}

impl ClassCounters {
    /// A response that went out whole.
    pub(crate) fn observe(&self, bytes: u64, duration: Duration) {
        self.bytes.add(bytes);
        let seconds = duration.as_secs_f64();
        self.durations.observe(&DURATION_BOUNDS_S, seconds);
    }
}

/// What one worker counts of what a configuration names.
#[derive(Clone, Debug, Default)]
pub(crate) struct NamedStats {
    /// In the order of the configuration.
    pub(crate) clusters: Vec<ClusterStats>,
    /// In the order of the configuration.
    pub(crate) classes: Vec<Arc<ClassCounters>>,
}

impl NamedStats {
    /// Of a configuration; what has the same name in the one before counts on.
    pub(crate) fn new<'a>(config: &Config, before: Option<(&'a Config, &'a Self)>) -> Self {
        let named = |(config, own): (&'a Config, &'a Self)| {
            let names = config.clusters.iter().map(|old| &*old.name);
            names.zip(&own.clusters).collect::<HashMap<&str, _>>()
        };
        let known = before.map(named).unwrap_or_default();
        let cluster = |cluster: &Arc<Cluster>| known.get(&*cluster.name).copied().cloned();
        let class = |class: &Class| {
            let (config, stats) = before?;
            let mut names = config.classes.list.iter().map(|class| &class.name);
            let at = names.position(|name| *name == class.name)?;
            Some(Arc::clone(&stats.classes[at]))
        };
        let clusters = config.clusters.iter();
        let classes = config.classes.list.iter();
        Self {
            clusters: clusters.map(|c| cluster(c).unwrap_or_default()).collect(),
            classes: classes.map(|c| class(c).unwrap_or_default()).collect(),
        }
    }
}

/// What one worker counts.
#[derive(Debug, Default)]
pub(crate) struct WorkerStats {
    /// Responses without a cluster (no route, bad requests).
    pub(crate) unrouted: [Counter; 6],
    /// Bytes of bodies handed to clients.
    pub(crate) response_bytes: Counter,
    /// Connections accepted.
    pub(crate) connections: Counter,
    /// Connections open (gauge).
    pub(crate) open_connections: Counter,
    /// Requests in progress (gauge).
    pub(crate) open_requests: Counter,
    /// Connections closed at once because the listener's bound was reached.
    pub(crate) refused_connections: Counter,
    /// Those closed at once because their client had as many as it may.
    pub(crate) client_connections: Counter,
    /// Those closed at once because memory was short.
    pub(crate) overload_connections: Counter,
    /// Failed accepts.
    pub(crate) accept_errors: Counter,
    /// Requests that failed, by [`Reason::index`].
    pub(crate) failures: ByReason,
    /// Responses that ended before their end.
    pub(crate) aborted: Counter,
    /// Lines that the access log had no room for.
    pub(crate) log_lines_dropped: Counter,
    /// Seconds from the end of the head to the last byte, by size class.
    pub(crate) durations: [Histogram; 5],
    /// Seconds from the end of the head until the client had acknowledged it all, by size
    /// class.
    pub(crate) acknowledged: [Histogram; 5],
    /// Time over what the uplink alone needs, by size class.
    pub(crate) slowdowns: [Histogram; 5],
    /// Headers of the PROXY protocol.
    pub(crate) proxy_headers: HeaderStats,
    /// TLS handshakes.
    pub(crate) handshakes: HandshakeStats,
    /// Look-ups of sizes.
    pub(crate) catalogue: LayerStats,
    /// Connections that have switched to another protocol so far.
    pub(crate) tunnels: Counter,
    /// Those that are open (gauge).
    pub(crate) open_tunnels: Counter,
    /// Bytes through them, to clients.
    pub(crate) tunnel_bytes_down: Counter,
    /// Bytes through them, from clients.
    pub(crate) tunnel_bytes_up: Counter,
    /// Rounds of its housekeeping, one a second.
    pub(crate) rounds: Counter,
}

/// Whether the workers' event loops go on.
pub(crate) struct Heartbeat {
    workers: Arc<[Arc<WorkerStats>]>,
    /// By worker: its rounds when they last went on, and since when they have
    /// not.
    seen: Vec<(u64, Instant)>,
}

impl Heartbeat {
    /// A worker that is busy is late; one that is as late as this is stuck.
    const LATEST: Duration = Duration::from_secs(3);

    pub(crate) fn new(workers: Arc<[Arc<WorkerStats>]>) -> Self {
        let now = Instant::now();
        let seen = workers.iter().map(|worker| (worker.rounds.get(), now));
        Self {
            seen: seen.collect(),
            workers,
        }
    }

    /// Whether every worker has gone on lately.
    pub(crate) fn goes_on(&mut self) -> bool {
        let now = Instant::now();
        let each = self.workers.iter().zip(&mut self.seen);
        let mut all = true;
        for (worker, (rounds, at)) in each {
            let present = worker.rounds.get();
            if std::mem::replace(rounds, present) != present {
                *at = now;
            }
            all &= now.duration_since(*at) < Self::LATEST;
        }
        all
    }
}

impl WorkerStats {
    /// A response that went out whole.
    pub(crate) fn observe(&self, bytes: u64, duration: Duration, slowdown: Option<f64>) {
        let class = size_class(bytes);
        self.durations[class].observe(&DURATION_BOUNDS_S, duration.as_secs_f64());
        if let Some(slowdown) = slowdown {
            self.slowdowns[class].observe(&SLOWDOWN_BOUNDS, slowdown);
        }
    }

    /// The client has acknowledged all of a response so long after its request.
    pub(crate) fn observe_acknowledged(&self, bytes: u64, took: Duration) {
        self.acknowledged[size_class(bytes)].observe(&DURATION_BOUNDS_S, took.as_secs_f64());
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
