//! What `/metrics` says of each endpoint.

use std::fmt;
use std::sync::atomic::Ordering::Relaxed;

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;

use super::{View, count};
use crate::error::{Fault, Reason};
use crate::stats::{Counter, EndpointStats};
use crate::upstream::Shared;

impl View {
    /// What was sent to each, and what came of it.
    pub(super) fn endpoints(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
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
                let value =
                    self.sum_named(|worker| of(&worker.clusters[cluster].endpoints[endpoint]));
                count(&mut metric.encode_family(labels)?, value)
            })?;
        }
        let help = "Failures of an endpoint, by reason";
        let kind = MetricType::Counter;
        let mut metric = encoder.encode_descriptor("upstream_errors", help, None, kind)?;
        self.each_endpoint(|labels, cluster, endpoint, _| {
            for reason in Reason::ALL {
                let value = self.sum_named(|worker| {
                    &worker.clusters[cluster].endpoints[endpoint].errors[reason.index()]
                });
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

    /// With its labels, its cluster's index, and its own.
    pub(super) fn each_endpoint(
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
}
