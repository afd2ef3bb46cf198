//! The health of endpoints, and the breakers that are open, as `/endpoints` tells them.

use serde_json::{Value, json};
use sprat_upstream::Condition;

use super::snapshot::ClusterView;

impl ClusterView {
    /// Returns the cluster's circuit breakers by name, and whether each is open: there is
    /// as much as may be.
    pub(super) fn breakers(&self, condition: &Condition) -> [(&'static str, bool); 4] {
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

    /// Returns the cluster's endpoints, and why they are used or not, for people.
    pub(super) fn health_json(&self) -> Value {
        let condition = self.station.condition();
        let endpoints = condition.endpoints.iter().map(|(member, endpoint)| {
            let shared = &member.counts;
            json!({
                "address": member.label,
                "used": endpoint.is_used,
                "draining": endpoint.drains,
                "weight": endpoint.weight,
                "configured_weight": endpoint.configured_weight,
                "ejected_for_ms": endpoint.ejected_for.map(|time| time.as_millis() as u64),
                "passes_checks": endpoint.passes_checks,
                "outstanding": shared.outstanding.used(),
                "connections": shared.connections.used(),
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
