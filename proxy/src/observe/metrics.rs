//! `/metrics`: sums what the workers have counted, in the formats that Prometheus
//! reads.
//!
//! Labels are bounded by the configuration and by the code: never a URL, a
//! host or a client.

mod classes;
mod connections;
mod dns;
mod endpoints;
mod exposition;
mod health;
mod process;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use arc_swap::ArcSwap;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use sprat_config::Shown;
use sprat_config::resolved::{Cluster, Config};
use sprat_net::counters::{
    Counter, DURATION_BOUNDS_S, Histogram, LARGEST_SIZE_CLASS, SIZE_CLASSES, SLOWDOWN_BOUNDS,
};
use sprat_net::encoding::{count, gauge, histogram};
use sprat_net::error::{Fault, Reason};
use sprat_net::tls::{ListenerTls, TlsView};
use sprat_scheduler::Mark;
use sprat_sizes::{Catalogue, CatalogueView};
use sprat_uplink::{SharedUplink, UplinkView};
use sprat_upstream::{Breaker, SharedCluster, SharedStation};

pub(crate) use self::exposition::Exposition;
use self::exposition::PlainText;
use self::process::ProcessView;
use crate::observe::reloads::Reloads;
use crate::observe::stats::{NamedStats, WorkerStats};

/// Classes of status codes, by [`sprat_upstream::ClusterStats::responses`].
const CODE_CLASSES: [&str; 6] = ["1xx", "2xx", "3xx", "4xx", "5xx", "none"];

/// Everything that can be scraped.
pub(crate) struct Metrics {
    workers: Vec<Arc<WorkerStats>>,
    reloads: Arc<Reloads>,
    /// What is the same whatever is configured.
    process: Registry,
    present: ArcSwap<Present>,
}

/// What the present configuration names.
struct Present {
    registry: Registry,
    clusters: Arc<[ClusterView]>,
    catalogue: Arc<CatalogueView>,
    /// The configuration, as the admin listener shows it.
    shown: Shown,
}

/// What a configuration has become, as far as the metrics tell of it.
pub(crate) struct Sources<'a> {
    pub(crate) config: &'a Config,
    /// In the order of the configuration's clusters.
    pub(crate) clusters: &'a [Arc<SharedCluster>],
    pub(crate) catalogue: &'a Arc<Catalogue>,
    pub(crate) uplink: &'a SharedUplink,
    /// The counters of each worker.
    pub(crate) stats: &'a [NamedStats],
    /// The TLS of the listeners that have it.
    pub(crate) tls: Vec<Arc<ListenerTls>>,
}

impl Metrics {
    /// Of workers with these counters.
    pub(crate) fn new(
        workers: Vec<Arc<WorkerStats>>,
        reloads: &Arc<Reloads>,
        sources: Sources<'_>,
    ) -> Self {
        let present = Present::new(&workers, reloads, sources);
        let mut process = Registry::default();
        process.register_collector(Box::new(ProcessView));
        Self {
            workers,
            reloads: Arc::clone(reloads),
            process,
            present: ArcSwap::from_pointee(present),
        }
    }

    /// Another configuration is served by.
    pub(crate) fn follow(&self, sources: Sources<'_>) {
        let present = Present::new(&self.workers, &self.reloads, sources);
        self.present.store(Arc::new(present));
    }

    /// The catalogue and its counters.
    pub(crate) fn catalogue(&self) -> Arc<CatalogueView> {
        Arc::clone(&self.present.load().catalogue)
    }

    /// Which endpoints are used, and why the others are not, as JSON.
    pub(crate) fn endpoints(&self) -> String {
        let present = self.present.load();
        let clusters = present.clusters.iter().map(ClusterView::health_json);
        let clusters: Vec<_> = clusters.collect();
        serde_json::to_string_pretty(&clusters).unwrap_or_default() + "\n"
    }

    /// Returns the present values in this format.
    pub(crate) fn text(&self, format: Exposition) -> String {
        let mut out = String::new();
        let present = self.present.load();
        let registries = [&self.process, &present.registry];
        let encoded = match format {
            Exposition::OpenMetrics => encode(&mut out, registries),
            Exposition::Text => encode(&mut PlainText::new(&mut out), registries),
        };
        if encoded.is_err() {
            tracing::error!("the metrics cannot be encoded");
        }
        out
    }

    /// The configuration that is served by, and how reloads went, as JSON.
    pub(crate) fn config(&self) -> String {
        self.reloads.json(&self.present.load().shown)
    }
}

fn encode(out: &mut impl fmt::Write, registries: [&Registry; 2]) -> fmt::Result {
    for registry in registries {
        text::encode_registry(out, registry)?;
    }
    text::encode_eof(out)
}

impl Present {
    fn new(workers: &[Arc<WorkerStats>], reloads: &Arc<Reloads>, sources: Sources<'_>) -> Self {
        let Sources {
            config,
            catalogue,
            tls,
            ..
        } = sources;
        let clusters = config
            .clusters
            .iter()
            .zip(sources.clusters)
            .map(|(cluster, shared)| ClusterView {
                name: cluster.name.clone(),
                config: Arc::clone(cluster),
                breaker: Arc::clone(&shared.breaker),
                read_ahead: Arc::clone(&shared.read_ahead),
                station: Arc::clone(&shared.station),
            });
        let clusters: Arc<[ClusterView]> = clusters.collect();
        let names = config.classes.list.iter().map(|class| class.name.clone());
        let names: Vec<String> = names.collect();
        let mut registry = Registry::with_prefix("sprat");
        let catalogue = Arc::new(CatalogueView::new(
            catalogue,
            workers
                .iter()
                .map(|worker| Arc::clone(&worker.catalogue))
                .collect(),
        ));
        if !tls.is_empty() {
            let handshakes = workers.iter().map(|worker| Arc::clone(&worker.handshakes));
            registry.register_collector(Box::new(TlsView::new(handshakes.collect(), tls)));
        }
        registry.register_collector(Box::new(View {
            clusters: Arc::clone(&clusters),
            classes: names.clone(),
            workers: workers.to_vec(),
            named: sources.stats.to_vec(),
            catalogue: Arc::clone(&catalogue),
            announced: (config.listeners.iter()).any(|own| own.proxy_protocol.is_some()),
        }));
        if let SharedUplink::Paced(link) = sources.uplink {
            registry.register_collector(Box::new(UplinkView::new(link, names)));
        }
        registry.register_collector(Box::new(Arc::clone(reloads)));
        Self {
            registry,
            clusters,
            catalogue,
            shown: config.shown.clone(),
        }
    }
}

#[derive(Debug)]
struct ClusterView {
    name: String,
    config: Arc<Cluster>,
    breaker: Arc<Breaker>,
    read_ahead: Arc<AtomicUsize>,
    station: Arc<SharedStation>,
}

#[derive(Debug)]
struct View {
    clusters: Arc<[ClusterView]>,
    /// Names of the priority classes.
    classes: Vec<String>,
    workers: Vec<Arc<WorkerStats>>,
    /// By worker.
    named: Vec<NamedStats>,
    catalogue: Arc<CatalogueView>,
    /// Whether a listener is told whose its connections are.
    announced: bool,
}

impl Collector for View {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.requests(&mut encoder)?;
        self.connections(&mut encoder)?;
        self.failures(&mut encoder)?;
        let conditions: Vec<_> = self
            .clusters
            .iter()
            .map(|cluster| cluster.station.condition())
            .collect();
        self.endpoints(&mut encoder, &conditions)?;
        self.stations(&mut encoder)?;
        self.health(&mut encoder, &conditions)?;
        self.names(&mut encoder)?;
        self.classes(&mut encoder)?;
        self.histograms(&mut encoder)?;
        self.catalogue.encode(&mut encoder)
    }
}

impl View {
    fn sum(&self, counter: impl Fn(&WorkerStats) -> &Counter) -> u64 {
        self.workers
            .iter()
            .map(|worker| counter(worker).get())
            .sum()
    }

    fn sum_named(&self, counter: impl Fn(&NamedStats) -> &Counter) -> u64 {
        self.named.iter().map(|worker| counter(worker).get()).sum()
    }

    fn counter(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        name: &str,
        help: &str,
        of: impl Fn(&WorkerStats) -> &Counter,
    ) -> fmt::Result {
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        count(&mut metric, self.sum(of))
    }

    fn requests(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Requests, by cluster (empty if none matched) and class of status code";
        let mut metric = encoder.encode_descriptor("requests", help, None, MetricType::Counter)?;
        for (class, code) in CODE_CLASSES.into_iter().enumerate() {
            let mut one = |cluster: &str, value| {
                let labels = [("cluster", cluster), ("code", code)];
                count(&mut metric.encode_family(&labels)?, value)
            };
            one("", self.sum(|worker| &worker.unrouted[class]))?;
            for (index, cluster) in self.clusters.iter().enumerate() {
                let value = self.sum_named(|worker| &worker.clusters[index].responses[class]);
                one(&cluster.name, value)?;
            }
        }
        let help = "Requests in progress";
        let open = self.sum(|worker| &worker.open_requests);
        gauge(encoder, "open_requests", help, open)?;
        let help = "Bytes of response bodies handed to clients";
        self.counter(encoder, "response_bytes", help, |w| &w.response_bytes)?;
        let help = "Bytes written to clients whose packets bear the code point of a mark";
        let mut metric =
            encoder.encode_descriptor("marked_bytes", help, None, MetricType::Counter)?;
        for mark in Mark::ALL {
            let bytes = self.sum(|worker| &worker.marked_bytes[mark.index()]);
            count(&mut metric.encode_family(&[("mark", mark.name())])?, bytes)?;
        }
        let help = "Responses that were cut short: by the client, the backend or a time-out";
        self.counter(encoder, "aborted_responses", help, |w| &w.aborted)
    }

    /// Bad requests, and every other reason why a request failed.
    fn failures(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        for (name, help, bad) in [
            (
                "bad_requests",
                "Requests that were wrong, or whose client went, by reason",
                true,
            ),
            (
                "failed_requests",
                "Requests that failed otherwise, by reason",
                false,
            ),
        ] {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for reason in Reason::ALL {
                let facts = reason.facts();
                if (facts.fault == Fault::Client) == bad {
                    let value = self.sum(|worker| &worker.failures[reason.index()]);
                    count(&mut metric.encode_family(&[("reason", facts.name)])?, value)?;
                }
            }
        }
        Ok(())
    }

    fn histograms(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        type Of = fn(&WorkerStats) -> &[Histogram; 5];
        let histograms: [(&str, &str, &[f64; 16], Of); 3] = [
            (
                "response_duration_seconds",
                "From the end of the request's head to the response's last byte, by size class",
                &DURATION_BOUNDS_S,
                |worker| &worker.durations,
            ),
            (
                "response_acknowledged_seconds",
                "From the end of the request's head until the client's TCP had acknowledged all of the response, by size class (only if responses are paced)",
                &DURATION_BOUNDS_S,
                |worker| &worker.acknowledged,
            ),
            (
                "response_slowdown_ratio",
                "From the response's head to its last byte, over what the uplink alone needs, by size class (only if it has a rate)",
                &SLOWDOWN_BOUNDS,
                |worker| &worker.slowdowns,
            ),
        ];
        let classes = SIZE_CLASSES.iter().map(|&(name, _)| name);
        for (name, help, bounds, of) in histograms {
            let kind = MetricType::Histogram;
            let mut metric = encoder.encode_descriptor(name, help, None, kind)?;
            for (class, size) in classes.clone().chain([LARGEST_SIZE_CLASS]).enumerate() {
                let parts = self.workers.iter().map(|worker| &of(worker)[class]);
                let labels = [("size", size)];
                histogram(&mut metric.encode_family(&labels)?, bounds, parts)?;
            }
        }
        Ok(())
    }
}
