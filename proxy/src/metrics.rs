//! `/metrics`: sums what the workers have counted, in Prometheus' text format.
//!
//! Labels are bounded by the configuration and by the code: never a URL, a
//! host or a client.

mod classes;
mod health;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use sprat_config::resolved::{Cluster, Config};

use crate::catalogue::{Catalogue, CatalogueView};
use crate::error::{Fault, Reason};
use crate::proxy_protocol::HEADER_RESULTS;
use crate::stats::{
    Counter, DURATION_BOUNDS_S, EndpointStats, Histogram, LARGEST_SIZE_CLASS, SIZE_CLASSES,
    SLOWDOWN_BOUNDS, WorkerStats,
};
use crate::tls::{ListenerTls, TlsView};
use crate::uplink::{SharedUplink, UplinkView};
use crate::upstream::{Breaker, Shared, SharedCluster, SharedStation};

/// Classes of status codes, by [`crate::stats::ClusterStats::responses`].
const CODE_CLASSES: [&str; 6] = ["1xx", "2xx", "3xx", "4xx", "5xx", "none"];

/// Everything that can be scraped.
pub(crate) struct Metrics {
    registry: Registry,
    clusters: Arc<[ClusterView]>,
    catalogue: Arc<CatalogueView>,
}

impl Metrics {
    /// Of workers with these counters.
    pub(crate) fn new(
        config: &Config,
        workers: Vec<Arc<WorkerStats>>,
        shared: &[SharedCluster],
        catalogue: &Arc<Catalogue>,
        uplink: &SharedUplink,
        tls: Vec<Arc<ListenerTls>>,
    ) -> Self {
        let clusters = config.clusters.iter().zip(shared).map(|(cluster, shared)| {
            let endpoints = cluster.endpoints.iter().zip(&shared.endpoints);
            ClusterView {
                name: cluster.name.clone(),
                config: Arc::clone(cluster),
                breaker: Arc::clone(&shared.breaker),
                station: Arc::clone(&shared.station),
                endpoints: endpoints
                    .map(|(endpoint, shared)| (endpoint.address.to_string(), Arc::clone(shared)))
                    .collect(),
            }
        });
        let names = config.classes.list.iter().map(|class| class.name.clone());
        let names: Vec<String> = names.collect();
        let mut registry = Registry::with_prefix("sprat");
        let catalogue = Arc::new(CatalogueView::new(catalogue, &workers));
        let clusters: Arc<[ClusterView]> = clusters.collect();
        if !tls.is_empty() {
            registry.register_collector(Box::new(TlsView::new(&workers, tls)));
        }
        registry.register_collector(Box::new(View {
            clusters: Arc::clone(&clusters),
            classes: names.clone(),
            workers,
            catalogue: Arc::clone(&catalogue),
            announced: config
                .listeners
                .iter()
                .any(|own| own.proxy_protocol.is_some()),
        }));
        if let SharedUplink::Paced(link) = uplink {
            registry.register_collector(Box::new(UplinkView::new(link, names)));
        }
        Self {
            registry,
            clusters,
            catalogue,
        }
    }

    /// The catalogue and its counters.
    pub(crate) fn catalogue(&self) -> &CatalogueView {
        &self.catalogue
    }

    /// Which endpoints are used, and why the others are not, as JSON.
    pub(crate) fn endpoints(&self) -> String {
        let clusters: Vec<_> = self.clusters.iter().map(ClusterView::health_json).collect();
        serde_json::to_string_pretty(&clusters).unwrap_or_default() + "\n"
    }

    /// The present values.
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        if text::encode(&mut out, &self.registry).is_err() {
            tracing::error!("the metrics cannot be encoded");
        }
        out
    }
}

#[derive(Debug)]
struct ClusterView {
    name: String,
    config: Arc<Cluster>,
    breaker: Arc<Breaker>,
    endpoints: Vec<(String, Arc<Shared>)>,
    station: Arc<SharedStation>,
}

#[derive(Debug)]
struct View {
    clusters: Arc<[ClusterView]>,
    /// Names of the priority classes.
    classes: Vec<String>,
    workers: Vec<Arc<WorkerStats>>,
    catalogue: Arc<CatalogueView>,
    /// Whether a listener is told whose its connections are.
    announced: bool,
}

impl Collector for View {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.requests(&mut encoder)?;
        self.connections(&mut encoder)?;
        self.failures(&mut encoder)?;
        self.endpoints(&mut encoder)?;
        self.stations(&mut encoder)?;
        self.health(&mut encoder)?;
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
                let value = self.sum(|worker| &worker.clusters[index].responses[class]);
                one(&cluster.name, value)?;
            }
        }
        let help = "Requests in progress";
        let open = self.sum(|worker| &worker.open_requests);
        gauge(encoder, "open_requests", help, open)?;
        let help = "Bytes of response bodies handed to clients";
        self.counter(encoder, "response_bytes", help, |w| &w.response_bytes)?;
        let help = "Responses that ended before their end";
        self.counter(encoder, "aborted_responses", help, |w| &w.aborted)
    }

    fn connections(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Client connections accepted";
        self.counter(encoder, "connections", help, |w| &w.connections)?;
        let help = "Client connections open";
        let open = self.sum(|worker| &worker.open_connections);
        gauge(encoder, "open_connections", help, open)?;
        let help = "Client connections closed at once because of the listener's bound";
        self.counter(encoder, "refused_connections", help, |w| {
            &w.refused_connections
        })?;
        let help = "Client connections closed at once because of the bound on each client";
        self.counter(encoder, "client_refused_connections", help, |w| {
            &w.client_connections
        })?;
        let help = "Client connections closed at once because memory was short";
        self.counter(encoder, "overload_refused_connections", help, |w| {
            &w.overload_connections
        })?;
        let help = "Client connections that could not be accepted";
        self.counter(encoder, "accept_errors", help, |w| &w.accept_errors)?;
        if self.announced {
            let help = "Headers of the PROXY protocol, by result";
            let kind = MetricType::Counter;
            let mut metric = encoder.encode_descriptor("proxy_headers", help, None, kind)?;
            for (index, result) in HEADER_RESULTS.into_iter().enumerate() {
                let labels = [("result", result)];
                let value = self.sum(|worker| worker.proxy_headers.of(index));
                count(&mut metric.encode_family(&labels)?, value)?;
            }
        }
        let help = "Lines of the access log that found no room";
        self.counter(encoder, "access_log_dropped_lines", help, |w| {
            &w.log_lines_dropped
        })
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

    fn endpoints(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        type Of = fn(&EndpointStats) -> &Counter;
        let counters: [(&str, &str, Of); 5] = [
            ("upstream_requests", "Requests sent to an endpoint", |e| {
                &e.requests
            }),
            (
                "upstream_connects",
                "Connections opened to an endpoint",
                |e| &e.connects,
            ),
            ("upstream_reuses", "Requests over a kept connection", |e| {
                &e.reuses
            }),
            (
                "upstream_retries",
                "Requests sent again, there or elsewhere, after an attempt there failed",
                |e| &e.retries,
            ),
            (
                "upstream_hedges",
                "Attempts made beside one elsewhere that was slow",
                |e| &e.hedges,
            ),
        ];
        for (name, help, of) in counters {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            self.each_endpoint(|labels, cluster, endpoint, _| {
                let value = self.sum(|worker| of(&worker.clusters[cluster].endpoints[endpoint]));
                count(&mut metric.encode_family(labels)?, value)
            })?;
        }
        let help = "Failures of an endpoint, by reason";
        let kind = MetricType::Counter;
        let mut metric = encoder.encode_descriptor("upstream_errors", help, None, kind)?;
        self.each_endpoint(|labels, cluster, endpoint, _| {
            for reason in Reason::ALL {
                let errors = |worker: &WorkerStats| -> u64 {
                    worker.clusters[cluster].endpoints[endpoint].errors[reason.index()].get()
                };
                let value: u64 = self.workers.iter().map(|worker| errors(worker)).sum();
                if reason.facts().fault == Fault::Upstream {
                    let labels = [labels[0], labels[1], ("reason", reason.name())];
                    count(&mut metric.encode_family(&labels)?, value)?;
                }
            }
            Ok(())
        })?;
        type Now = fn(&Shared) -> u64;
        let gauges: [(&str, &str, Now); 3] = [
            (
                "upstream_outstanding",
                "Requests in progress at an endpoint",
                |s| s.outstanding.load(Relaxed) as u64,
            ),
            (
                "upstream_connections",
                "Connections open to an endpoint",
                |s| s.connections.load(Relaxed) as u64,
            ),
            (
                "upstream_idle_connections",
                "Idle connections to an endpoint",
                |s| s.idle.load(Relaxed) as u64,
            ),
        ];
        for (name, help, now) in gauges {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            self.each_endpoint(|labels, _, _, shared| {
                metric.encode_family(labels)?.encode_gauge(&now(shared))
            })?;
        }
        Ok(())
    }

    fn each_endpoint(
        &self,
        mut each: impl FnMut(&[(&str, &str); 2], usize, usize, &Shared) -> fmt::Result,
    ) -> fmt::Result {
        for (cluster_index, cluster) in self.clusters.iter().enumerate() {
            for (index, (address, shared)) in cluster.endpoints.iter().enumerate() {
                let labels = [("cluster", cluster.name.as_str()), ("endpoint", address)];
                each(&labels, cluster_index, index, shared)?;
            }
        }
        Ok(())
    }

    fn histograms(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        type Of = fn(&WorkerStats) -> &[Histogram; 5];
        let histograms: [(&str, &str, &[f64; 16], Of); 2] = [
            (
                "response_duration_seconds",
                "From the end of the request's head to the response's last byte, by size class",
                &DURATION_BOUNDS_S,
                |worker| &worker.durations,
            ),
            (
                "response_slowdown_ratio",
                "Duration over the ideal on an idle uplink, by size class (only if it has a rate)",
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

pub(crate) fn count(metric: &mut MetricEncoder<'_>, value: u64) -> fmt::Result {
    metric.encode_counter::<NoLabelSet, u64, u64>(&value, None)
}

pub(crate) fn gauge(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: u64,
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    metric.encode_gauge(&value)
}

pub(crate) fn histogram<'a>(
    metric: &mut MetricEncoder<'_>,
    bounds: &[f64; 16],
    parts: impl Iterator<Item = &'a Histogram>,
) -> fmt::Result {
    let mut buckets: Vec<(f64, u64)> = bounds.iter().map(|&bound| (bound, 0)).collect();
    buckets.push((f64::MAX, 0));
    let mut sum = 0;
    for part in parts {
        sum += part.sum_millionths.get();
        for (bucket, count) in buckets.iter_mut().zip(&part.counts) {
            bucket.1 += count.get();
        }
    }
    let count = buckets.iter().map(|&(_, count)| count).sum();
    metric.encode_histogram::<NoLabelSet>(sum as f64 / 1e6, count, &buckets, None)
}
