//! What `/metrics` says of the endpoints that there are at present: at most as
//! many as the configuration has, times the addresses that a name may have.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use sprat_net::counters::Counter;
use sprat_net::encoding::count;
use sprat_net::error::{Fault, Reason};
use sprat_upstream::EndpointStats;
use sprat_upstream::{Condition, EndpointCondition, Member, Shared};

use super::View;

impl View {
    /// What goes on at the endpoints that there are at present.
    pub(super) fn endpoints(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        conditions: &[Condition],
    ) -> fmt::Result {
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
            self.each_endpoint(conditions, |labels, member, _| {
                let value = member.stats.iter().map(|own| of(own).get()).sum();
                count(&mut metric.encode_family(labels)?, value)
            })?;
        }
        let help = "Failures of an endpoint, by reason";
        let kind = MetricType::Counter;
        let mut metric = encoder.encode_descriptor("upstream_errors", help, None, kind)?;
        self.each_endpoint(conditions, |labels, member, _| {
            for reason in Reason::ALL {
                let errors = |own: &Arc<EndpointStats>| own.errors[reason.index()].get();
                let value = member.stats.iter().map(errors).sum();
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
            self.each_endpoint(conditions, |labels, member, _| {
                let value = now(&member.counts);
                metric.encode_family(labels)?.encode_gauge(&value)
            })?;
        }
        Ok(())
    }

    /// For each endpoint, by its labels.
    pub(super) fn each_endpoint(
        &self,
        conditions: &[Condition],
        mut each: impl FnMut(&[(&str, &str); 2], &Member, &EndpointCondition) -> fmt::Result,
    ) -> fmt::Result {
        for (cluster, condition) in self.clusters.iter().zip(conditions) {
            for (member, state) in &condition.endpoints {
                let endpoint = member.label.as_str();
                let labels = [("cluster", cluster.name.as_str()), ("endpoint", endpoint)];
                each(&labels, member, state)?;
            }
        }
        Ok(())
    }
}
