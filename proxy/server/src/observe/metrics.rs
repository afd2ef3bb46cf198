//! `/metrics`: sums what the workers have counted, in the formats that Prometheus
//! reads.
//!
//! Labels are bounded by the configuration and by the code: never a URL, a
//! host or a client.

mod clusters;
mod connections;
mod endpoints;
mod exposition;
mod figures;
mod gain;
mod health;
mod labels;
mod process;
mod requests;
mod snapshot;
mod table;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use sprat_acme::{ACME, AcmeView};
use sprat_config::Shown;
use sprat_config::resolved::Config;
use sprat_net::buffer::Buffers;
use sprat_net::metrics::Scraped;
use sprat_net::tls::{ListenerTls, TLS, TlsView};
use sprat_sizes::{CATALOGUE, Catalogue, CatalogueView};
use sprat_traces::{TRACES, TraceStats};
use sprat_uplink::{LinkView, SharedUplink};
use sprat_upstream::{SharedCluster, SharedStation};

pub(crate) use self::exposition::Exposition;
use self::exposition::PlainText;
use self::figures::FigureFacts;
use self::snapshot::{ClusterView, Snapshot, View};
pub use self::table::metrics_table;
use crate::observe::reloads::Reloads;
use crate::observe::stats::{ListenerView, NamedStats, WorkerStats};

/// The metrics of a server: all that can be scraped.
pub(crate) struct Metrics {
    workers: Vec<Arc<WorkerStats>>,
    reloads: Arc<Reloads>,
    present: ArcSwap<PresentMetrics>,
    /// The lock under which the operator changes an endpoint, and other stations take over: no
    /// change gets lost between a station and the next.
    endpoints: Mutex<()>,
}

/// The present configuration, as the metrics tell of it.
struct PresentMetrics {
    scraped: Scraped,
    view: Arc<View>,
    catalogue: Arc<CatalogueView>,
    uplink: SharedUplink,
    /// The settings that are told with the figures.
    facts: FigureFacts,
    /// The configuration, as the admin listener shows it.
    shown: Shown,
}

/// The parts of a server that the metrics of a configuration tell of.
pub(crate) struct Sources<'a> {
    pub(crate) config: &'a Config,
    /// The clusters, in the order of the configuration.
    pub(crate) clusters: &'a [Arc<SharedCluster>],
    pub(crate) catalogue: &'a Arc<Catalogue>,
    pub(crate) uplink: &'a SharedUplink,
    /// The room for bodies that are buffered.
    pub(crate) buffers: &'a Arc<Buffers>,
    /// The counters of each worker.
    pub(crate) stats: &'a [NamedStats],
    /// The listeners, in the order of the configuration.
    pub(crate) listeners: Vec<ListenerView>,
    /// The TLS of the listeners that have it.
    pub(crate) tls: Vec<Arc<ListenerTls>>,
    /// The counts of certificates that are issued; none where no authority is configured.
    pub(crate) acme: Option<AcmeView>,
    /// The counts of spans; none where requests have no traces.
    pub(crate) traces: Option<Arc<TraceStats>>,
}

impl Metrics {
    /// Makes the metrics of workers with these counters.
    pub(crate) fn new(
        workers: Vec<Arc<WorkerStats>>,
        reloads: &Arc<Reloads>,
        sources: Sources<'_>,
    ) -> Self {
        let present = PresentMetrics::new(&workers, reloads, sources);
        Self {
            workers,
            reloads: Arc::clone(reloads),
            present: ArcSwap::from_pointee(present),
            endpoints: Mutex::new(()),
        }
    }

    /// Makes the metrics tell of another configuration from now on. Its stations take over from
    /// those before, so this comes before they serve.
    pub(crate) fn commit(&self, sources: Sources<'_>) {
        let clusters = sources.clusters;
        let next = PresentMetrics::new(&self.workers, &self.reloads, sources);
        let _changes = self.hold_changes();
        let present = self.present.load();
        let known = present.view.clusters.iter();
        let known: HashMap<&str, _> = known.map(|own| (&*own.name, &own.station)).collect();
        for cluster in clusters {
            if let Some(before) = known.get(&*cluster.config.name) {
                cluster.station.take_over(before);
            }
        }
        self.present.store(Arc::new(next));
    }

    /// Returns the catalogue and its counters.
    pub(crate) fn catalogue(&self) -> Arc<CatalogueView> {
        Arc::clone(&self.present.load().catalogue)
    }

    /// Returns which endpoints are used, and why the others are not, as JSON.
    pub(crate) fn endpoints(&self) -> String {
        let present = self.present.load();
        let clusters = present.view.clusters.iter().map(ClusterView::health_json);
        let clusters: Vec<_> = clusters.collect();
        serde_json::to_string_pretty(&clusters).unwrap_or_default() + "\n"
    }

    /// Makes an endpoint drain, or serve again; returns false if there is no such endpoint.
    pub(crate) fn set_draining(&self, cluster: &str, endpoint: &str, drains: bool) -> bool {
        self.change(cluster, |station| station.set_draining(endpoint, drains))
    }

    /// Gives an endpoint another weight; returns false if there is no such endpoint.
    pub(crate) fn set_weight(&self, cluster: &str, endpoint: &str, weight: u32) -> bool {
        self.change(cluster, |station| station.set_weight(endpoint, weight))
    }

    /// Holds back changes of endpoints until the guard is dropped.
    fn hold_changes(&self) -> MutexGuard<'_, ()> {
        let changes = self.endpoints.lock();
        changes.unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes an endpoint at the present station of a cluster; returns false if there is no such
    /// cluster, or no such endpoint.
    fn change(&self, cluster: &str, change: impl FnOnce(&SharedStation) -> bool) -> bool {
        let _changes = self.hold_changes();
        let present = self.present.load();
        let mut clusters = present.view.clusters.iter();
        let found = clusters.find(|own| own.name == cluster);
        found.is_some_and(|own| change(&own.station))
    }

    /// Returns the present values in this format.
    pub(crate) fn text(&self, format: Exposition) -> String {
        let mut out = String::new();
        let scraped = &self.present.load().scraped;
        let encoded = match format {
            Exposition::OpenMetrics => scraped.encode(&mut out),
            Exposition::Text => scraped.encode(&mut PlainText::new(&mut out)),
        };
        if encoded.is_err() {
            tracing::error!("the metrics cannot be encoded");
        }
        out
    }

    /// Returns the configuration that is served by, and how reloads went, as JSON.
    pub(crate) fn config(&self) -> String {
        self.reloads.json(&self.present.load().shown)
    }

    /// Returns all values of the configuration that is served by as YAML, each with its origin.
    pub(crate) fn effective(&self) -> String {
        self.reloads.effective(&self.present.load().shown)
    }
}

impl PresentMetrics {
    fn new(workers: &[Arc<WorkerStats>], reloads: &Arc<Reloads>, sources: Sources<'_>) -> Self {
        let (config, reloads) = (sources.config, Arc::clone(reloads));
        let catalogue = Arc::new(CatalogueView::new(
            sources.catalogue,
            workers
                .iter()
                .map(|own| Arc::clone(&own.catalogue))
                .collect(),
        ));
        let handshakes = workers.iter().map(|own| Arc::clone(&own.handshakes));
        let tls = TlsView::new(handshakes.collect(), sources.tls);
        let link = match sources.uplink {
            SharedUplink::Paced(link) => Some(Arc::clone(link)),
            _ => None,
        };
        let view = Arc::new(View {
            clusters: ClusterView::all(config, sources.clusters),
            classes: (config.classes.list.iter())
                .map(|class| class.name.clone())
                .collect(),
            workers: workers.to_vec(),
            named: sources.stats.to_vec(),
            listeners: sources.listeners,
            buffers: Arc::clone(sources.buffers),
            announced: (config.listeners.iter()).any(|own| own.proxy_protocol.is_some()),
        });
        let mut scraped = Scraped::default();
        let (all, classes) = (Arc::clone(&view), view.classes.clone());
        scraped.add(table::OWN, move || Some(Snapshot::new(&all)));
        scraped.add([&TLS], move || tls.clone());
        let acme = sources.acme;
        scraped.add([&ACME], move || acme.clone());
        let traces = sources.traces;
        scraped.add([&TRACES], move || traces.clone());
        scraped.add(sprat_uplink::TOPICS, move || {
            link.as_ref().map(|link| LinkView::new(link, &classes))
        });
        let sizes = Arc::clone(&catalogue);
        scraped.add([&CATALOGUE], move || Some(sizes.now()));
        scraped.add([&table::CONFIGURATION], move || Some(reloads.status()));
        scraped.add([&process::BUILD], || Some(process::Build));
        scraped.add([&process::PROCESS], || process::ProcessFacts::ask().ok());
        Self {
            scraped,
            view,
            catalogue,
            uplink: sources.uplink.clone(),
            facts: FigureFacts::of(config),
            shown: config.shown.clone(),
        }
    }
}
