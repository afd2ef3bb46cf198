//! The parts that a configuration makes, by which requests are served. All workers share
//! them; each makes its [`Generation`](crate::setup::generation::Generation) of them.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use anyhow::Context as _;
use sprat_config::classify::Classifier;
use sprat_config::resolved::{Cluster, Config, Listener, Route};
use sprat_net::buffer::Buffers;
use sprat_net::tls::{ClusterTls, ListenerTls};
use sprat_scheduler::catalogue::KeyHasher;
use sprat_sizes::Catalogue;
use sprat_traces::{TraceStats, Tracer};
use sprat_uplink::SharedUplink;
use sprat_upstream::SharedCluster;
use sprat_upstream::dns::Names;

use crate::observe::access_log::Logs;
use crate::observe::metrics::Sources;
use crate::observe::stats::NamedStats;
use crate::setup::limits::{Overload, RateLimiter};
use crate::setup::listener::{ListenerShared, ListenerState, kept};
use crate::setup::routing::Routes;
use sprat_config::identity::Identity;

/// The number of the next listening address, which no other has had.
static NEXT_LISTENER: AtomicU64 = AtomicU64::new(0);

/// The parts that a configuration makes, by which requests are served.
pub(crate) struct Assembly {
    pub(crate) config: Config,
    pub(crate) routes: Arc<Routes>,
    /// The clusters, in the order of the configuration.
    pub(crate) clusters: Vec<Arc<SharedCluster>>,
    /// The names of endpoints, kept resolved.
    names: Arc<Names>,
    /// The listeners, in the order of the configuration.
    pub(crate) listeners: Vec<Arc<ListenerState>>,
    pub(crate) classifier: Arc<Classifier>,
    pub(crate) catalogue: Arc<Catalogue>,
    pub(crate) log: Option<Logs>,
    pub(crate) tracer: Option<Tracer>,
    /// The counts of spans, which go on with another collector.
    pub(crate) trace_stats: Arc<TraceStats>,
    pub(crate) uplink: SharedUplink,
    /// The watch over memory; none if the configuration has none.
    pub(crate) overload: Option<Arc<Overload>>,
    /// The state of certificates that are issued.
    pub(crate) acme: Arc<sprat_acme::Shared>,
    /// The room for bodies that are buffered.
    pub(crate) buffers: Arc<Buffers>,
    /// The counters of each worker.
    pub(crate) stats: Vec<NamedStats>,
}

/// The log and the tracer that are told of requests; they have threads of their own.
pub(crate) struct Outlets {
    pub(crate) log: Option<Logs>,
    pub(crate) tracer: Option<Tracer>,
    pub(crate) trace_stats: Arc<TraceStats>,
}

impl Assembly {
    /// Assembles a server that starts.
    ///
    /// # Errors
    ///
    /// Fails if what the configuration names cannot be had.
    pub(crate) fn new(config: &Config, outlets: Outlets) -> anyhow::Result<Self> {
        let uplink = SharedUplink::new(&config.uplink, &config.classes)
            .context("cannot start the search for the rate")?;
        let random = RandomState::new();
        let hasher = KeyHasher::new(random.hash_one(0), random.hash_one(1));
        let catalogue = Catalogue::new(config, hasher)?;
        let names = Arc::new(Names::default());
        let _resolved = names.resolve(&config.clusters)?;
        let cluster = |cluster| SharedCluster::new(cluster, config, &names).map(Arc::new);
        let clusters = config.clusters.iter().map(cluster);
        let workers = 0..config.runtime.workers.max(1);
        Ok(Self {
            routes: Routes::new(config, &rates(config, None))?.into(),
            clusters: clusters.collect::<Result<_, _>>()?,
            names,
            listeners: listeners(config, &[])?,
            classifier: Arc::new(Classifier::new(&config.classes)),
            catalogue: Arc::new(catalogue),
            log: outlets.log,
            tracer: outlets.tracer,
            trace_stats: outlets.trace_stats,
            uplink,
            overload: Overload::of(config),
            acme: Arc::default(),
            buffers: Buffers::new(config.buffer),
            stats: workers.map(|_| NamedStats::new(config, None)).collect(),
            config: config.clone(),
        })
    }

    /// Prepares the assembly of another configuration, with all parts of this one that stay
    /// as they are. Nothing changes for what uses this one.
    ///
    /// # Errors
    ///
    /// Fails if what the configuration names cannot be had.
    pub(crate) fn prepare(&self, config: Config, outlets: Outlets) -> anyhow::Result<Self> {
        let own = &self.config;
        let uplink = self
            .uplink
            .prepare_successor(&own.uplink, &config.uplink, &config.classes)?;
        let _resolved = self.names.resolve(&config.clusters)?;
        let named = |own: &'_ Arc<SharedCluster>| (own.config.name.clone(), Arc::clone(own));
        let known: HashMap<_, _> = self.clusters.iter().map(named).collect();
        let cluster = |cluster: &Arc<Cluster>| match known.get(&cluster.name) {
            Some(before) => before.prepare(cluster, &config, &self.names),
            None => SharedCluster::new(cluster, &config, &self.names).map(Arc::new),
        };
        let clusters = config.clusters.iter().map(cluster);
        let stats = self.stats.iter();
        let stats = stats.map(|stats| NamedStats::new(&config, Some((own, stats))));
        Ok(Self {
            routes: Routes::new(&config, &rates(&config, Some(self)))?.into(),
            clusters: clusters.collect::<Result<_, _>>()?,
            names: Arc::clone(&self.names),
            listeners: listeners(&config, &self.listeners)?,
            classifier: Arc::new(Classifier::new(&config.classes)),
            catalogue: Arc::new(self.catalogue.prepare(own, &config)?),
            log: outlets.log,
            tracer: outlets.tracer,
            trace_stats: outlets.trace_stats,
            uplink,
            overload: self.overload.clone(),
            acme: Arc::clone(&self.acme),
            buffers: Arc::clone(&self.buffers),
            stats: stats.collect(),
            config,
        })
    }
}

impl Assembly {
    /// Returns the TLS of the clusters that have it.
    pub(crate) fn cluster_tls(&self) -> Vec<Arc<ClusterTls>> {
        let all = self.clusters.iter();
        all.filter_map(|cluster| cluster.tls.clone()).collect()
    }

    /// Returns the parts that the metrics tell of.
    pub(crate) fn sources(&self) -> Sources<'_> {
        Sources {
            config: &self.config,
            clusters: &self.clusters,
            catalogue: &self.catalogue,
            uplink: &self.uplink,
            buffers: &self.buffers,
            stats: &self.stats,
            listeners: self.listeners.iter().map(|own| own.view()).collect(),
            tls: self.tls(),
            acme: self.acme.view(&self.config),
            traces: self.tracer.as_ref().map(|_| Arc::clone(&self.trace_stats)),
        }
    }

    /// Returns the TLS of the listeners that have it.
    pub(crate) fn tls(&self) -> Vec<Arc<ListenerTls>> {
        let all = self.listeners.iter();
        all.filter_map(|listener| listener.shared.tls.clone())
            .collect()
    }
}

/// Makes the rate limiter of each route; a route that wants the same limit as before keeps
/// its limiter. That cannot fail, and changes nothing of what was before, so that a reload
/// prepares by it.
fn rates(config: &Config, before: Option<&Assembly>) -> Vec<Option<Arc<RateLimiter>>> {
    let mut known = HashMap::new();
    if let Some(own) = before {
        for (at, old) in own.config.routes.iter().enumerate() {
            let wanted = (Identity::of(old), &old.rate_limit);
            known
                .entry(wanted)
                .or_insert_with(|| own.routes.at(at).rate.as_ref());
        }
    }
    let rate = |route: &Route| {
        let known = known.get(&(Identity::of(route), &route.rate_limit));
        let known = known.copied().flatten().map(Arc::clone);
        known.or_else(|| RateLimiter::of_route(route))
    };
    config.routes.iter().map(rate).collect()
}

/// Makes a configuration's listeners. One that is kept has its sockets and the count of
/// its connections from before.
fn listeners(
    config: &Config,
    before: &[Arc<ListenerState>],
) -> anyhow::Result<Vec<Arc<ListenerState>>> {
    let workers = config.runtime.workers.max(1);
    let known: Vec<_> = before.iter().map(|own| &own.config).collect();
    let kept = kept(&known, &config.listeners);
    let listener = |(listener, kept): (&Listener, Option<usize>)| match kept {
        Some(own) if before[own].config == *listener => Ok(Arc::clone(&before[own])),
        Some(own) => before[own].prepare(listener),
        None => {
            let id = NEXT_LISTENER.fetch_add(1, Relaxed);
            ListenerState::new(listener, id, ListenerShared::new(listener, workers)?)
        }
    };
    config.listeners.iter().zip(kept).map(listener).collect()
}
