//! What `/metrics` and `/endpoints` say of endpoints' health, breakers and
//! retries.

use std::fmt;
use std::sync::atomic::Ordering::Relaxed;

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use serde_json::{Value, json};
use sprat_net::encoding::count;
use sprat_scheduler::health::Ejection;
use sprat_upstream::{Condition, EndpointCondition};

use super::{ClusterView, View};

impl View {
    /// Endpoints' health, and what follows from it.
    pub(super) fn health(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        conditions: &[Condition],
    ) -> fmt::Result {
        self.endpoint_states(encoder, conditions)?;
        self.ejections(encoder, conditions)?;
        self.breakers(encoder, conditions)
    }

    fn endpoint_states(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        conditions: &[Condition],
    ) -> fmt::Result {
        type Is = fn(&EndpointCondition) -> bool;
        let states: [(&str, &str, Is); 3] = [
            ("endpoint_used", "Whether an endpoint gets requests", |e| {
                e.is_used
            }),
            (
                "endpoint_ejected",
                "Whether an endpoint is out of use for its answers",
                |e| e.ejected_for.is_some(),
            ),
            (
                "endpoint_unhealthy",
                "Whether an endpoint is out of use for its health checks",
                |e| e.passes_checks == Some(false),
            ),
        ];
        for (name, help, is) in states {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            self.each_endpoint(conditions, |labels, _, state| {
                let value = u64::from(is(state));
                metric.encode_family(labels)?.encode_gauge(&value)
            })?;
        }
        let help = "Health checks of an endpoint, by result";
        let kind = MetricType::Counter;
        let mut metric = encoder.encode_descriptor("health_checks", help, None, kind)?;
        self.each_endpoint(conditions, |labels, member, _| {
            let checks = &member.counts.checks;
            for (result, checks) in ["passed", "failed"].into_iter().zip(checks) {
                let labels = [labels[0], labels[1], ("result", result)];
                count(&mut metric.encode_family(&labels)?, checks.load(Relaxed))?;
            }
            Ok(())
        })
    }

    fn ejections(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        conditions: &[Condition],
    ) -> fmt::Result {
        let help = "Endpoints taken out of use for their answers, by cause";
        let kind = MetricType::Counter;
        let mut metric = encoder.encode_descriptor("ejections", help, None, kind)?;
        for (cluster, condition) in self.clusters.iter().zip(conditions) {
            for cause in Ejection::ALL {
                let labels = [("cluster", cluster.name.as_str()), ("cause", cause.name())];
                let value = condition.ejections[cause.index()];
                count(&mut metric.encode_family(&labels)?, value)?;
            }
        }
        let help = "Ejections that max_ejection_percent has prevented";
        let mut metric = encoder.encode_descriptor("ejections_prevented", help, None, kind)?;
        for (cluster, condition) in self.clusters.iter().zip(conditions) {
            let labels = [("cluster", cluster.name.as_str())];
            count(
                &mut metric.encode_family(&labels)?,
                condition.ejections_prevented,
            )?;
        }
        let help = "Whether so few endpoints are well that all are used";
        let mut metric =
            encoder.encode_descriptor("cluster_panic", help, None, MetricType::Gauge)?;
        for (cluster, condition) in self.clusters.iter().zip(conditions) {
            let labels = [("cluster", cluster.name.as_str())];
            let value = u64::from(condition.panics);
            metric.encode_family(&labels)?.encode_gauge(&value)?;
        }
        Ok(())
    }

    fn breakers(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        conditions: &[Condition],
    ) -> fmt::Result {
        let help = "Whether a cluster has as many of these as it may";
        let kind = MetricType::Gauge;
        let mut metric = encoder.encode_descriptor("circuit_breaker_open", help, None, kind)?;
        for (cluster, condition) in self.clusters.iter().zip(conditions) {
            for (breaker, is_open) in cluster.breakers(condition) {
                let labels = [("cluster", cluster.name.as_str()), ("breaker", breaker)];
                let mut metric = metric.encode_family(&labels)?;
                metric.encode_gauge(&u64::from(is_open))?;
            }
        }
        let help = "Bytes of responses that have been read ahead of their clients";
        let mut metric = encoder.encode_descriptor("read_ahead_bytes", help, None, kind)?;
        for cluster in self.clusters.iter() {
            let labels = [("cluster", cluster.name.as_str())];
            let value = cluster.read_ahead.load(Relaxed) as u64;
            metric.encode_family(&labels)?.encode_gauge(&value)?;
        }
        let help = "Requests that are being repeated";
        let mut metric = encoder.encode_descriptor("repeated_requests", help, None, kind)?;
        for (cluster, condition) in self.clusters.iter().zip(conditions) {
            let labels = [("cluster", cluster.name.as_str())];
            let value = condition.repeated as u64;
            metric.encode_family(&labels)?.encode_gauge(&value)?;
        }
        let help = "Requests not repeated because the budget was spent";
        let kind = MetricType::Counter;
        let mut metric = encoder.encode_descriptor("retries_denied", help, None, kind)?;
        for (cluster, condition) in self.clusters.iter().zip(conditions) {
            let labels = [("cluster", cluster.name.as_str())];
            count(
                &mut metric.encode_family(&labels)?,
                condition.repeats_denied,
            )?;
        }
        Ok(())
    }
}

impl ClusterView {
    fn breakers(&self, condition: &Condition) -> [(&'static str, bool); 4] {
        let bounds = &self.config.resilience;
        [
            (
                "max_connections",
                self.breaker.is_open(bounds.max_connections),
            ),
            (
                "max_pending_requests",
                condition.waiting >= bounds.max_pending_requests,
            ),
            ("max_requests", condition.active >= bounds.max_requests),
            ("max_retries", !condition.may_repeat),
        ]
    }

    /// The cluster's endpoints and why they are used or not, for a human.
    pub(super) fn health_json(&self) -> Value {
        let condition = self.station.condition();
        let endpoints = condition.endpoints.iter().map(|(member, endpoint)| {
            let shared = &member.counts;
            json!({
                "address": member.label,
                "used": endpoint.is_used,
                "ejected_for_ms": endpoint.ejected_for.map(|time| time.as_millis() as u64),
                "passes_checks": endpoint.passes_checks,
                "outstanding": shared.outstanding.load(Relaxed),
                "connections": shared.connections.load(Relaxed),
            })
        });
        let breakers = self.breakers(&condition).into_iter();
        let open = breakers.filter(|(_, is_open)| *is_open);
        let names = self.station.names().into_iter().map(|name| {
            json!({
                "name": name.host(),
                "addresses": name.addresses().iter().map(|ip| ip.to_string()).collect::<Vec<_>>(),
                "failures_in_a_row": name.failures(),
            })
        });
        json!({
            "cluster": self.name,
            "names": names.collect::<Vec<_>>(),
            "panic": condition.panics,
            "endpoints": endpoints.collect::<Vec<_>>(),
            "circuit_breakers_open": open.map(|(name, _)| name).collect::<Vec<_>>(),
        })
    }
}
