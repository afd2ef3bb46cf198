//! The sources that the metrics are read from: the workers' counters and the stations, at
//! one moment.

use std::sync::Arc;

use sprat_config::resolved::{Cluster, Config};
use sprat_net::buffer::Buffers;
use sprat_net::counters::Counter;
use sprat_net::permit::Permits;
use sprat_scheduler::station::ClassStats;
use sprat_upstream::{Breaker, Condition, Listing, SharedCluster, SharedStation};

use crate::observe::stats::{ListenerView, NamedStats, WorkerStats};

/// A cluster, as the metrics tell of it.
#[derive(Debug)]
pub(super) struct ClusterView {
    pub(super) name: String,
    pub(super) config: Arc<Cluster>,
    pub(super) breaker: Arc<Breaker>,
    pub(super) read_ahead: Permits,
    pub(super) station: Arc<SharedStation>,
    pub(super) listing: Arc<Listing>,
}

impl ClusterView {
    /// Makes the view of every cluster of a configuration.
    pub(super) fn all(config: &Config, clusters: &[Arc<SharedCluster>]) -> Vec<Self> {
        let each = config.clusters.iter().zip(clusters);
        let view = |(cluster, shared): (&Arc<Cluster>, &Arc<SharedCluster>)| Self {
            name: cluster.name.clone(),
            config: Arc::clone(cluster),
            breaker: Arc::clone(&shared.breaker),
            read_ahead: shared.read_ahead.clone(),
            station: Arc::clone(&shared.station),
            listing: Arc::clone(&shared.listing),
        };
        each.map(view).collect()
    }
}

/// The parts of the sources that stay the same from one reload to the next.
#[derive(Debug)]
pub(super) struct View {
    pub(super) clusters: Vec<ClusterView>,
    /// Names of the priority classes.
    pub(super) classes: Vec<String>,
    pub(super) workers: Vec<Arc<WorkerStats>>,
    /// The counters of each worker.
    pub(super) named: Vec<NamedStats>,
    pub(super) listeners: Vec<ListenerView>,
    pub(super) buffers: Arc<Buffers>,
    /// Whether a listener expects the PROXY protocol.
    pub(super) announced: bool,
}

/// The workers' counters and the stations at the moment of a scrape.
pub(super) struct Snapshot {
    pub(super) view: Arc<View>,
    /// The condition of each cluster, in the order of the configuration.
    pub(super) conditions: Vec<Condition>,
    /// The counts of what happened to requests, by cluster and then by class.
    pub(super) decisions: Vec<Vec<ClassStats>>,
}

impl Snapshot {
    /// Makes a snapshot of the present: asks the stations.
    pub(super) fn new(view: &Arc<View>) -> Self {
        let stations = || view.clusters.iter().map(|cluster| &cluster.station);
        Self {
            conditions: stations().map(|station| station.condition()).collect(),
            decisions: stations().map(|station| station.stats()).collect(),
            view: Arc::clone(view),
        }
    }

    /// Returns the sum of a counter over all workers.
    pub(super) fn sum(&self, counter: impl Fn(&WorkerStats) -> &Counter) -> u64 {
        let workers = self.view.workers.iter();
        workers.map(|worker| counter(worker).get()).sum()
    }

    /// Returns the sum over all workers of a counter that belongs to a name of the configuration.
    pub(super) fn sum_named(&self, counter: impl Fn(&NamedStats) -> &Counter) -> u64 {
        let workers = self.view.named.iter();
        workers.map(|worker| counter(worker).get()).sum()
    }
}
