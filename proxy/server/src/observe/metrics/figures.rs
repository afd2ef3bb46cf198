//! The present figures as JSON: what the admin listener's `/stats` and `/flows` tell, and
//! the dashboard draws.
//!
//! Lists are bounded: clusters, endpoints and flows, each with its number in all beside.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::{Map, Value, json};
use sprat_config::resolved::{Config, Rate};
use sprat_net::counters::{Counter, Histogram, SIZE_CLASS_NAMES, Scale, Seconds, Slowdowns, Total};
use sprat_net::error::{Fault, Reason};
use sprat_scheduler::station::RefusalReason;
use sprat_scheduler::{FlowState, Size, SurveyedFlow, Time};
use sprat_uplink::ClassFigures;
use sprat_upstream::{Condition, EndpointCondition, EndpointStats, Member};

use super::Metrics;
use super::labels::CODES;
use super::snapshot::Snapshot;
use crate::observe::origin::origin;
use crate::observe::stage::Stage;
use crate::observe::stats::ListenerStats;
use crate::observe::version;

/// The most clusters that the figures tell of, the first of the configuration.
const MOST_CLUSTERS: usize = 256;

/// The most endpoints that the figures tell of: those out of use come first, then those of
/// the first clusters.
const MOST_ENDPOINTS: usize = 256;

/// The settings of a configuration that are told with the figures.
pub(super) struct FigureFacts {
    policy: &'static str,
    rate: &'static str,
    levels: Vec<u8>,
}

impl FigureFacts {
    pub(super) fn of(config: &Config) -> Self {
        let classes = config.classes.list.iter();
        Self {
            policy: config.uplink.policy.name(),
            rate: match config.uplink.rate {
                Rate::Fixed(_) => "fixed",
                Rate::Auto => "auto",
                Rate::Unlimited => "unlimited",
            },
            levels: classes.map(|class| class.spec.level).collect(),
        }
    }
}

impl Metrics {
    /// Returns a server's present figures, as JSON.
    pub(crate) fn figures(&self, stage: Stage) -> Value {
        let present = self.present.load();
        let now = Snapshot::new(&present.view);
        let figures = present.uplink.figures();
        let class_figures = figures.as_ref().map(|own| own.classes.as_slice());
        let uplink = json!({
            "policy": present.facts.policy,
            "rate": present.facts.rate,
            "is_paced": figures.is_some(),
            "rate_bits_per_s": figures.as_ref().and_then(|own| own.rate_bits_per_s),
            "standing_queue_ms": figures.as_ref().map(|own| ms(own.queue)),
            "backlog_ms": figures.as_ref().map(|own| ms(own.backlog)),
            "open_flows": figures.as_ref().map(|own| own.open_flows),
            "waiting_flows": figures.as_ref().map(|own| own.waiting_flows),
            "wire_bytes": figures.as_ref().map(|own| own.wire_bytes),
            "response_bytes": now.sum(|worker| &worker.response_bytes),
        });
        let catalogue = serde_json::to_value(present.catalogue.summary());
        json!({
            "at_unix_ms": unix_ms(),
            "version": version::VERSION,
            "stage": match stage {
                Stage::Serving => "serving",
                Stage::Draining | Stage::Replaced | Stage::Cut => "draining",
            },
            "uplink": uplink,
            "connections": now.connection_figures(),
            "requests": now.request_figures(),
            "failures": now.failure_figures(),
            "refusals": now.refusal_figures(),
            "sizes": now.size_figures(),
            "duration_bounds_s": Seconds::BOUNDS,
            "slowdown_bounds": Slowdowns::BOUNDS,
            "classes": now.class_figures(&present.facts.levels, class_figures),
            "clusters_in_all": now.conditions.len(),
            "clusters": now.cluster_figures(),
            "endpoints_in_all": now.told_conditions().map(|own| own.endpoints.len()).sum::<usize>(),
            "endpoints": now.endpoint_figures(),
            "catalogue": catalogue.unwrap_or_default(),
            "gain": present.uplink.gain(),
        })
    }

    /// Returns the responses in progress, `most` of them.
    pub(crate) fn flows(&self, most: usize) -> Value {
        let present = self.present.load();
        let Some(surveyed) = present.uplink.survey(most) else {
            return json!({
                "at_unix_ms": unix_ms(),
                "is_paced": false,
                "open": 0,
                "waiting": 0,
                "flows": [],
            });
        };
        let clusters = present.view.clusters.iter();
        let clusters: Vec<(u32, &str)> = clusters
            .map(|cluster| (origin(&cluster.name), cluster.name.as_str()))
            .collect();
        let flow = |flow: &SurveyedFlow| {
            let class = present.view.classes.get(flow.class);
            let cluster = clusters.iter().find(|(own, _)| *own == flow.origin);
            flow_figures(flow, surveyed.at, class, cluster.map(|(_, name)| *name))
        };
        json!({
            "at_unix_ms": unix_ms(),
            "is_paced": true,
            "open": surveyed.open_flows,
            "waiting": surveyed.waiting_flows,
            "flows": surveyed.flows.iter().map(flow).collect::<Vec<_>>(),
        })
    }
}

fn flow_figures(
    flow: &SurveyedFlow,
    now: Time,
    class: Option<&String>,
    cluster: Option<&str>,
) -> Value {
    json!({
        "number": flow.number,
        "class": class,
        "cluster": cluster,
        "state": match flow.state {
            FlowState::Sending => "sending",
            FlowState::Waiting => "waiting",
            FlowState::Idle => "idle",
        },
        "is_express": flow.is_express,
        "size_bytes": flow.size.bytes(),
        "size_is_exact": matches!(flow.size, Size::Exact(_)),
        "sent_bytes": flow.sent_bytes,
        "left_bytes": flow.left_bytes,
        "age_ms": ms(now.since(flow.opened_at)),
        "waits_ms": flow.waits_since.map(|since| ms(now.since(since))),
    })
}

fn ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

fn unix_ms() -> u64 {
    let unix = SystemTime::UNIX_EPOCH.elapsed();
    unix.map_or(0, |elapsed| elapsed.as_millis() as u64)
}

/// Sums histograms up, with their counts as they are: one for each bound, and one above.
fn sum<'a, S: Scale + 'a>(parts: impl IntoIterator<Item = &'a Histogram<S>>) -> Value {
    let total = Total::of(parts);
    json!({"counts": total.counts().collect::<Vec<_>>(), "sum": total.sum()})
}

impl Snapshot {
    /// Returns the conditions of the clusters that the figures tell of.
    fn told_conditions(&self) -> impl Iterator<Item = &Condition> {
        self.conditions.iter().take(MOST_CLUSTERS)
    }

    fn connection_figures(&self) -> Value {
        let listeners = || self.view.listeners.iter().flat_map(|own| own.stats.iter());
        let refused = |own: &ListenerStats| own.refused.iter().map(Counter::get).sum::<u64>();
        json!({
            "open": self.sum(|w| &w.open_connections),
            "accepted": listeners().map(|own| own.connections.get()).sum::<u64>(),
            "refused": listeners().map(|own| refused(own)).sum::<u64>(),
            "open_tunnels": self.sum(|w| &w.open_tunnels),
        })
    }

    fn request_figures(&self) -> Value {
        let code = |(class, code): (usize, &str)| {
            let unrouted = self.sum(|worker| &worker.unrouted[class]);
            let named = self.view.named.iter().flat_map(|worker| &worker.clusters);
            let routed = named.map(|own| own.responses[class].get()).sum::<u64>();
            (code.to_owned(), Value::from(unrouted + routed))
        };
        let by_code: Map<_, _> = CODES.into_iter().enumerate().map(code).collect();
        json!({
            "open": self.sum(|w| &w.open_requests),
            "aborted": self.sum(|w| &w.aborted),
            "by_code": by_code,
        })
    }

    /// Returns the reasons for which requests failed, and how often.
    fn failure_figures(&self) -> Value {
        let reasons = Reason::ALL.iter().filter_map(|reason| {
            let count = self.sum(|worker| &worker.failures[reason.index()]);
            let facts = reason.facts();
            let fault = match facts.fault {
                Fault::Client => "client",
                Fault::Upstream => "upstream",
                Fault::Proxy => "proxy",
            };
            let told = json!({"reason": facts.name, "fault": fault, "count": count});
            (count > 0).then_some(told)
        });
        reasons.collect()
    }

    /// Returns the reasons for which requests were turned away before an endpoint, and how often.
    fn refusal_figures(&self) -> Value {
        let reasons = RefusalReason::ALL.iter().filter_map(|reason| {
            let classes = self.decisions.iter().flatten();
            let count: u64 = classes.map(|own| own.refused[reason.index()]).sum();
            let told = json!({"reason": reason.name(), "count": count});
            (count > 0).then_some(told)
        });
        reasons.collect()
    }

    fn size_figures(&self) -> Value {
        let sizes = SIZE_CLASS_NAMES.iter().enumerate();
        let workers = || self.view.workers.iter();
        let sizes = sizes.map(|(size, name)| {
            json!({
                "size": name,
                "durations_s": sum(workers().map(|worker| &worker.durations[size])),
                "acknowledged_s": sum(workers().map(|worker| &worker.acknowledged[size])),
                "slowdowns": sum(workers().map(|worker| &worker.slowdowns[size])),
            })
        });
        sizes.collect()
    }

    fn class_figures(&self, levels: &[u8], uplink: Option<&[ClassFigures]>) -> Value {
        let names = self.view.classes.iter().zip(levels).enumerate();
        let classes = names.map(|(class, (name, level))| {
            let responses = |codes: std::ops::Range<usize>| {
                let codes = codes
                    .map(|code| self.sum_named(|worker| &worker.classes[class].responses[code]));
                codes.sum::<u64>()
            };
            let stats = self
                .decisions
                .iter()
                .filter_map(|cluster| cluster.get(class));
            let (waiting, refused) = stats.fold((0, 0), |(waiting, refused), own| {
                let own_refused = own.refused.iter().sum::<u64>();
                (waiting + own.waiting, refused + own_refused)
            });
            json!({
                "class": name,
                "level": level,
                "requests": responses(0..CODES.len()),
                "bytes": self.sum_named(|worker| &worker.classes[class].bytes),
                "waiting": waiting,
                "refused": refused,
                "open_flows": uplink.and_then(|own| own.get(class)).map(|own| own.open_flows),
                "durations_s": sum(self.view.named.iter().map(|w| &w.classes[class].durations)),
            })
        });
        classes.collect()
    }

    fn cluster_figures(&self) -> Value {
        let clusters = self.clusters().take(MOST_CLUSTERS).enumerate();
        let clusters = clusters.map(|(index, (cluster, condition))| {
            let code = |(class, code): (usize, &str)| {
                let count = self.sum_named(|worker| &worker.clusters[index].responses[class]);
                (code.to_owned(), Value::from(count))
            };
            let by_code: Map<_, _> = CODES.into_iter().enumerate().map(code).collect();
            let open = cluster.breakers(condition).into_iter();
            let open = open.filter(|(_, is_open)| *is_open).map(|(name, _)| name);
            let used = condition.endpoints.iter().filter(|(_, own)| own.is_used);
            json!({
                "cluster": cluster.name,
                "by_code": by_code,
                "active": condition.active,
                "waiting": condition.waiting,
                "panic": condition.panics,
                "endpoints": condition.endpoints.len(),
                "endpoints_used": used.count(),
                "circuit_breakers_open": open.collect::<Vec<_>>(),
            })
        });
        clusters.collect()
    }

    fn endpoint_figures(&self) -> Value {
        let clusters = self.clusters().take(MOST_CLUSTERS);
        let mut all: Vec<_> = clusters
            .flat_map(|(cluster, condition)| {
                let endpoints = condition.endpoints.iter();
                endpoints.map(move |(member, state)| (cluster, member, state))
            })
            .collect();
        all.sort_by_key(|(_, _, state)| state.is_used);
        all.truncate(MOST_ENDPOINTS);
        let all = all.into_iter();
        all.map(|(cluster, member, state)| endpoint(&cluster.name, member, state))
            .collect()
    }
}

fn endpoint(cluster: &str, member: &Member, state: &EndpointCondition) -> Value {
    let stats = member.stats.iter();
    let requests: u64 = stats.map(|own| own.requests.get()).sum();
    let errors = |own: &Arc<EndpointStats>| {
        let reasons = Reason::ALL.iter();
        let upstream = reasons.filter(|reason| reason.facts().fault == Fault::Upstream);
        upstream
            .map(|reason| own.errors[reason.index()].get())
            .sum::<u64>()
    };
    json!({
        "cluster": cluster,
        "address": member.label,
        "used": state.is_used,
        "draining": state.drains,
        "weight": state.weight,
        "configured_weight": state.configured_weight,
        "ejected_for_ms": state.ejected_for.map(|time| time.as_millis() as u64),
        "passes_checks": state.passes_checks,
        "outstanding": member.counts.outstanding.used(),
        "connections": member.counts.connections.used(),
        "requests": requests,
        "errors": member.stats.iter().map(errors).sum::<u64>(),
    })
}
