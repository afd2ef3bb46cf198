//! The metrics of the endpoints and names that there are at present: as many as the
//! configuration has, times the addresses that a name may have.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use sprat_net::counters::{CoarseSeconds, Counter, Total};
use sprat_net::error::{Fault, Reason};
use sprat_net::metrics::{Labels, Per, Row, Series, Topic, Value};
use sprat_upstream::dns::{Name, RESULTS};
use sprat_upstream::{EndpointCondition, EndpointStats, Member};

use super::snapshot::Snapshot;

const ENDPOINT: Labels = Labels::NONE
    .and("cluster", 1)
    .per("endpoint", Per::Endpoint);
const NAME: Labels = Labels::NONE.and("cluster", 1).per("name", Per::Name);

#[rustfmt::skip]
pub(super) static ENDPOINTS: Topic<Snapshot> = Topic { title: "Endpoints", rows: &[
    Row::counter("sprat_upstream_requests_total", ENDPOINT,
        "Requests sent to an endpoint",
        |now, out| each(now, out, |own, _| sum(own, |e| &e.requests))),
    Row::histogram::<CoarseSeconds>("sprat_upstream_head_seconds", ENDPOINT,
        "From when a request was sent to an endpoint to the head of its answer; the request's body, if it has one, is sent meanwhile",
        |now, out| each(now, out, |own, _| Total::of(own.stats.iter().map(|own| &own.heads)))),
    Row::counter("sprat_upstream_errors_total", ENDPOINT.and("reason", Fault::Upstream.reasons()),
        "Failed requests to an endpoint, by reason",
        |now, out| for PresentEndpoint { cluster, member, .. } in now.endpoints() {
            for reason in Reason::ALL.into_iter().filter(|own| own.facts().fault == Fault::Upstream) {
                out.put(&[cluster, &member.label, reason.name()], sum(member, |e| &e.errors[reason.index()]));
            }
        }),
    Row::counter("sprat_upstream_retries_total", ENDPOINT,
        "Requests sent again, to the same or another endpoint, after an attempt at this endpoint failed",
        |now, out| each(now, out, |own, _| sum(own, |e| &e.retries))),
    Row::counter("sprat_upstream_hedges_total", ENDPOINT,
        "Second attempts at this endpoint, made while another endpoint was slow to answer (hedge_policy)",
        |now, out| each(now, out, |own, _| sum(own, |e| &e.hedges))),
    Row::counter("sprat_upstream_connects_total", ENDPOINT,
        "Connections opened to an endpoint",
        |now, out| each(now, out, |own, _| sum(own, |e| &e.connects))),
    Row::counter("sprat_upstream_reuses_total", ENDPOINT,
        "Requests sent over a connection that was kept open",
        |now, out| each(now, out, |own, _| sum(own, |e| &e.reuses))),
    Row::gauge("sprat_upstream_outstanding", ENDPOINT,
        "Requests in progress at an endpoint",
        |now, out| each(now, out, |own, _| own.counts.outstanding.used())),
    Row::gauge("sprat_upstream_connections", ENDPOINT,
        "Connections open to an endpoint",
        |now, out| each(now, out, |own, _| own.counts.connections.used())),
    Row::gauge("sprat_upstream_idle_connections", ENDPOINT,
        "Idle connections to an endpoint",
        |now, out| each(now, out, |own, _| own.counts.idle.used())),
    Row::gauge("sprat_endpoint_used", ENDPOINT,
        "Whether an endpoint gets requests",
        |now, out| each(now, out, |_, state| state.is_used)),
    Row::gauge("sprat_endpoint_ejected", ENDPOINT,
        "Whether an endpoint is ejected because of its responses (outlier detection)",
        |now, out| each(now, out, |_, state| state.ejected_for.is_some())),
    Row::gauge("sprat_endpoint_unhealthy", ENDPOINT,
        "Whether an endpoint is out of use because of its health checks",
        |now, out| each(now, out, |_, state| state.passes_checks == Some(false))),
    Row::gauge("sprat_endpoint_draining", ENDPOINT,
        "Whether an endpoint is drained through the admin listener: it gets no requests except those of strict sessions",
        |now, out| each(now, out, |_, state| state.drains)),
    Row::gauge("sprat_endpoint_weight", ENDPOINT,
        "An endpoint's weight, relative to the others: the configuration's, or the one set through the admin listener",
        |now, out| each(now, out, |_, state| u64::from(state.weight))),
    Row::counter("sprat_health_checks_total", ENDPOINT.and("result", 2),
        "Health checks of an endpoint: passed or failed",
        |now, out| for PresentEndpoint { cluster, member, .. } in now.endpoints() {
            for (result, checks) in ["passed", "failed"].into_iter().zip(&member.counts.checks) {
                out.put(&[cluster, &member.label, result], checks.load(Relaxed));
            }
        }),
] };

#[rustfmt::skip]
pub(super) static NAMES: Topic<Snapshot> = Topic { title: "Names of endpoints", rows: &[
    Row::counter("sprat_dns_lookups_total", NAME.and("result", RESULTS.len()),
        "DNS look-ups of a name, by result: an answer, no_address, or a failure (for one kind of address, or for all)",
        |now, out| for (cluster, name) in now.names() {
            for (result, lookups) in RESULTS.into_iter().zip(&name.lookups) {
                out.put(&[cluster, name.host(), result], lookups.load(Relaxed));
            }
        }),
    Row::gauge("sprat_dns_addresses", NAME,
        "Addresses of a name that are in use",
        |now, out| now.names().for_each(|(cluster, name)| out.put(&[cluster, name.host()], name.addresses().len()))),
    Row::gauge("sprat_dns_failures_in_a_row", NAME,
        "Failed DNS look-ups since the last one that gave an address (of each kind, with lookup_family all)",
        |now, out| now.names().for_each(|(cluster, name)| out.put(&[cluster, name.host()], u64::from(name.failures())))),
] };

/// An endpoint that there is at present.
struct PresentEndpoint<'s> {
    /// The name of the endpoint's cluster.
    cluster: &'s str,
    member: &'s Member,
    condition: &'s EndpointCondition,
}

impl Snapshot {
    /// Returns the endpoints of all clusters.
    fn endpoints(&self) -> impl Iterator<Item = PresentEndpoint<'_>> {
        self.clusters().flat_map(|(cluster, condition)| {
            let each = condition.endpoints.iter();
            each.map(|(member, condition)| PresentEndpoint {
                cluster: &cluster.name,
                member,
                condition,
            })
        })
    }

    /// Returns each name of endpoints, and that of its cluster.
    fn names(&self) -> impl Iterator<Item = (&str, &Arc<Name>)> {
        self.view.clusters.iter().flat_map(|cluster| {
            let names = cluster.station.names().into_iter();
            names.map(|name| (&*cluster.name, name))
        })
    }
}

fn each<T: Into<Value>>(
    now: &Snapshot,
    out: &mut Series<'_, '_>,
    of: impl Fn(&Member, &EndpointCondition) -> T,
) {
    for own in now.endpoints() {
        out.put(
            &[own.cluster, &own.member.label],
            of(own.member, own.condition),
        );
    }
}

fn sum(member: &Member, of: impl Fn(&EndpointStats) -> &Counter) -> u64 {
    member.stats.iter().map(|own| of(own).get()).sum()
}
