//! Clusters: their endpoints, their dispatch, and the requests that wait.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use sprat_scheduler::dispatch::Intervals;

use super::values::{bytes, count, file, maybe, optional_file, size, small, time};
use super::{dns, health, sessions, srq, tls};
use crate::containers::Or;
use crate::decode::Field;
use crate::diagnostic::Reporter;
use crate::raw;
use crate::resolved::*;
use crate::words::Auto;

/// Resolves the clusters in the order of the file; none in the place of one with an error.
pub(super) fn resolve(
    file: &raw::File,
    reporter: &mut Reporter<'_>,
) -> Option<Vec<Option<Arc<Cluster>>>> {
    let clusters = file.clusters.get()?.0.iter();
    let resolved = clusters.map(|(name, raw)| {
        let cluster = cluster(name.get().map_or("", String::as_str), raw.get()?, reporter)?;
        name.value.is_some().then(|| Arc::new(cluster))
    });
    Some(resolved.collect())
}

fn cluster(name: &str, raw: &raw::Cluster, reporter: &mut Reporter<'_>) -> Option<Cluster> {
    let source = source(name, raw, reporter);
    let (endpoints, endpoints_file) = match source {
        Some((endpoints, file)) => (Some(endpoints), file),
        None => (None, None),
    };
    let dns = dns::resolve(&raw.dns, endpoints.as_deref(), reporter);
    let max_connections = count(&raw.max_connections);
    let max_idle = count(&raw.max_idle_connections);
    idle_fits(raw, max_connections, max_idle, reporter)?;
    let max_connections = max_connections?;
    let endpoints = endpoints?;
    let dns = dns?;
    let is_listed = endpoints_file.is_some();
    let (dispatch, hash_key) = dispatch_of(raw, &endpoints, is_listed, &dns, reporter)?;
    let stateful_session = sessions::resolve(&raw.stateful_session, reporter)?;
    let binds = match stateful_session {
        Some(_) => Some("`stateful_session`"),
        None => dispatch.has_affinity().then_some("this `dispatch`"),
    };
    let max_requests = raw.max_requests.get()?.value();
    let max_requests = max_requests.map(|bound| size(bound.0));
    let mut wait_queue = wait_queue(&raw.wait_queue, binds, reporter)?;
    let places = srq::Places {
        max_requests,
        max_carried: max_carried(raw, max_connections)?,
    };
    srq::fit_places(&mut wait_queue.order, &raw.wait_queue, places, reporter);
    let http2 = raw.http2.get()?.value().is_some();
    let proxy_protocol = raw.proxy_protocol.get()?.value().copied();
    if http2 && proxy_protocol.is_some() {
        let message = "a connection of HTTP/2 carries the requests of many clients: the PROXY protocol cannot tell whose";
        let help = "remove `http2` or `proxy_protocol`".to_owned();
        reporter.error(&raw.proxy_protocol.span, message.to_owned(), Some(help));
        return None;
    }
    Some(Cluster {
        name: name.to_owned(),
        read_ahead: maybe(raw.read_ahead.get()?.value(), |raw| {
            Some(ReadAhead {
                per_response: bytes(&raw.per_response)?,
                total: bytes(&raw.total)?,
            })
        })?,
        wait_queue,
        stateful_session,
        wait_for_endpoint: raw.wait_for_endpoint.get()?.value().map(|time| time.0),
        dns,
        dispatch,
        hash_key,
        max_requests: max_requests.unwrap_or(usize::MAX),
        slow_start: raw
            .slow_start
            .get()?
            .value()
            .map_or(Duration::ZERO, |time| time.0),
        resilience: health::resilience(raw, reporter)?,
        overload_page: optional_file(&raw.overload_page)?,
        connect_timeout: time(&raw.connect_timeout)?,
        max_connections,
        max_idle_connections: max_idle?.min(max_connections),
        idle_timeout: time(&raw.idle_timeout)?,
        max_response_headers: bytes(&raw.max_response_headers)?,
        http2: maybe(raw.http2.get()?.value(), |http2| {
            Some(UpstreamHttp2 {
                max_streams: count(&http2.max_concurrent_streams)?,
                stream_window_bytes: small(bytes(&http2.initial_stream_window_size)?),
            })
        })?,
        tls: tls_with_name(raw, &endpoints, http2, reporter)?,
        endpoints,
        endpoints_file,
        proxy_protocol,
    })
}

/// Returns how many requests the connections to an endpoint carry at a time.
fn max_carried(raw: &raw::Cluster, max_connections: usize) -> Option<usize> {
    let streams = match raw.http2.get()?.value() {
        Some(http2) => count(&http2.max_concurrent_streams)?,
        None => 1,
    };
    Some(max_connections.saturating_mul(streams))
}

/// Reports a bound on idle connections that is above the bound on open ones.
fn idle_fits(
    raw: &raw::Cluster,
    max: Option<usize>,
    idle: Option<usize>,
    reporter: &mut Reporter<'_>,
) -> Option<()> {
    if let (Some(max), Some(idle)) = (max, idle)
        && idle > max
        && raw.max_idle_connections.given
    {
        let message = format!("more idle connections than the {max} that may be open");
        let help = "lower it, or raise `max_connections`".to_owned();
        reporter.error(&raw.max_idle_connections.span, message, Some(help));
        return None;
    }
    Some(())
}

/// Resolves the dispatch of a cluster. Names, or a file of endpoints, may change how many there
/// are.
fn dispatch_of(
    raw: &raw::Cluster,
    endpoints: &[Endpoint],
    is_listed: bool,
    dns: &Dns,
    reporter: &mut Reporter<'_>,
) -> Option<(Dispatch, HashKey)> {
    if is_listed && matches!(raw.dispatch.get(), Some(raw::Dispatch::Sita(_))) {
        let message =
            "`sita` gives each endpoint an interval of sizes, and those of a file come and go";
        let help = "use another dispatch, such as least_work, or give `endpoints`";
        let span = &raw.dispatch.span;
        reporter.error(span, message.to_owned(), Some(help.to_owned()));
        return None;
    }
    let ranges: Vec<_> = endpoints.iter().map(|e| e.size_range).collect();
    let is_name = |own: &Endpoint| matches!(own.address, EndpointAddress::Name { .. });
    let has_names = dns.discovery == DnsType::Strict && endpoints.iter().any(is_name);
    let chosen = dispatch(&raw.dispatch, &ranges, is_listed || has_names, reporter)?;
    priorities_fit(&raw.dispatch, &chosen.0, endpoints, reporter)?;
    Some(chosen)
}

/// Resolves the TLS of a cluster. It needs `sni` if an endpoint has no name of its own.
fn tls_with_name(
    raw: &raw::Cluster,
    endpoints: &[Endpoint],
    http2: bool,
    reporter: &mut Reporter<'_>,
) -> Option<Option<ClusterTls>> {
    let tls = tls::cluster(&raw.tls, http2, reporter)?;
    if tls.as_ref().is_some_and(|tls| tls.sni.is_none()) && endpoints.iter().any(is_nameless) {
        reporter.error(&raw.tls.span, NAMELESS.to_owned(), Some(NAME_IT.to_owned()));
        return None;
    }
    Some(tls)
}

const NAMELESS: &str = "a Unix socket has no name that a certificate could be for";
const NAME_IT: &str = "give `sni`, the name in the endpoints' certificates, in `tls`";

fn is_nameless(own: &Endpoint) -> bool {
    matches!(own.address, EndpointAddress::Unix(_))
}

/// Returns why a cluster cannot have these endpoints of a file, and the help; none if it can.
pub(crate) fn fits_cluster(
    found: &[Endpoint],
    cluster: &Cluster,
) -> Option<(String, &'static str)> {
    let is_name = |own: &&Endpoint| matches!(own.address, EndpointAddress::Name { .. });
    if let Some(named) = found.iter().find(is_name) {
        let message = format!(
            "{} is a name, and a file has addresses alone",
            named.address
        );
        let help = "write its addresses, or give names under `endpoints`, where they are resolved";
        return Some((message, help));
    }
    let has_sni = cluster.tls.as_ref().is_none_or(|tls| tls.sni.is_some());
    if !has_sni && found.iter().any(is_nameless) {
        return Some((NAMELESS.to_owned(), NAME_IT));
    }
    let first = found.first().map_or(0, |own| own.priority);
    let stands_by = found.iter().any(|own| own.priority != first);
    (stands_by && matches!(cluster.dispatch, Dispatch::Rpsq { .. }))
        .then(|| (APART.to_owned(), NOT_APART))
}

/// The default interval at which a file of endpoints is checked for changes.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Resolves a cluster's endpoints, or the file that has them.
fn source(
    name: &str,
    raw: &raw::Cluster,
    reporter: &mut Reporter<'_>,
) -> Option<(Vec<Endpoint>, Option<EndpointsFile>)> {
    let named = raw.endpoints_file.optional()?;
    if !raw.endpoints.given && named.is_none() {
        let message = format!("the cluster `{name}` has no endpoints");
        let help = "give `endpoints`, a list such as [127.0.0.1:8000], or `endpoints_file`";
        reporter.error(&raw.endpoints.span, message, Some(help.to_owned()));
        return None;
    }
    let Some(named) = named else {
        return Some((endpoints(&raw.endpoints.get()?.0, reporter)?, None));
    };
    if raw.endpoints.given {
        let message = "a cluster has its endpoints here or in a file, not both";
        let help = "remove `endpoints` or `endpoints_file`";
        let span = &raw.endpoints_file.span;
        reporter.error(span, message.to_owned(), Some(help.to_owned()));
        return None;
    }
    let (path, interval) = match named {
        raw::EndpointsFileAt::Path(path) => (path, LOOK_AGAIN),
        raw::EndpointsFileAt::Full(own) => (&own.path, time(&own.interval)?),
    };
    let at = file(path)?;
    Some((Vec::new(), Some(EndpointsFile { at, interval })))
}

/// Reports different priorities under a dispatch that gives each endpoint a part of its own.
fn priorities_fit(
    raw: &Field<raw::Dispatch>,
    dispatch: &Dispatch,
    endpoints: &[Endpoint],
    reporter: &mut Reporter<'_>,
) -> Option<()> {
    let first = endpoints.first().map_or(0, |own| own.priority);
    let are_alike = endpoints.iter().all(|own| own.priority == first);
    if are_alike || !matches!(dispatch, Dispatch::Sita(_) | Dispatch::Rpsq { .. }) {
        return Some(());
    }
    reporter.error(&raw.span, APART.to_owned(), Some(NOT_APART.to_owned()));
    None
}

const APART: &str = "this `dispatch` gives each endpoint its part: none can stand by for others";
const NOT_APART: &str = "use another, such as least_work, or leave `priority` out";

/// Resolves a list of endpoints, and reports one that is listed twice.
pub(crate) fn endpoints(
    raw: &[Field<raw::Endpoint>],
    reporter: &mut Reporter<'_>,
) -> Option<Vec<Endpoint>> {
    let mut seen: HashMap<EndpointAddress, usize> = HashMap::new();
    let mut good = true;
    let mut resolved = Vec::new();
    for field in raw {
        let (address, parameters) = match field.get() {
            Some(raw::Endpoint::Address(address)) => (address, Some(EndpointParameters::BARE)),
            Some(raw::Endpoint::Weighted(endpoint)) => {
                (&endpoint.address, parameters(endpoint, reporter))
            }
            None => {
                good = false;
                continue;
            }
        };
        let (Some(backend), Some(parameters)) = (address.get(), parameters) else {
            good = false;
            continue;
        };
        if let Some(first) = seen.insert(backend.0.clone(), address.span.start) {
            let line = reporter.line_of(first);
            let message = format!("the endpoint {} is given twice", backend.0);
            let help = format!(
                "it is first given on line {line}: use {{address, weight}} for a larger share"
            );
            reporter.error(&address.span, message, Some(help));
            good = false;
        }
        resolved.push(Endpoint {
            address: backend.0.clone(),
            weight: parameters.weight,
            size_range: parameters.size_range,
            reserved: parameters.reserved,
            priority: parameters.priority,
        });
    }
    good.then_some(resolved)
}

/// The parameters of an endpoint, beside its address.
struct EndpointParameters {
    weight: u32,
    size_range: Option<(u64, u64)>,
    reserved: bool,
    priority: u8,
}

impl EndpointParameters {
    /// The parameters of an endpoint that is given as an address alone.
    const BARE: Self = Self {
        weight: 1,
        size_range: None,
        reserved: false,
        priority: 0,
    };
}

fn parameters(
    raw: &raw::WeightedEndpoint,
    reporter: &mut Reporter<'_>,
) -> Option<EndpointParameters> {
    Some(EndpointParameters {
        weight: u32::try_from(raw.weight.copied()?.0).ok()?,
        size_range: size_range(&raw.size_range, reporter)?,
        priority: u8::try_from(raw.priority.copied()?.0).ok()?,
        reserved: raw.reserved.copied()?.0,
    })
}

/// Resolves an interval of sizes; `Some(None)` if it is absent.
pub(super) fn size_range(
    raw: &Field<raw::SizeRange>,
    reporter: &mut Reporter<'_>,
) -> Option<Option<(u64, u64)>> {
    let Some(range) = raw.optional()? else {
        return Some(None);
    };
    let from = range.from.copied()?.0;
    let to = range.to.get()?.value().map_or(u64::MAX, |to| to.0);
    if from > to {
        let message = "the smallest size is above the largest".to_owned();
        let help = "write `{from: 0B, to: 10KB}`, or leave out `to` for all above `from`";
        reporter.error(&raw.span, message, Some(help.to_owned()));
        return None;
    }
    Some(Some((from, to)))
}

/// Resolves a dispatch among endpoints or pools. `ranges` has the interval of sizes of each, if it
/// says one. If the number `grows`, each may stand for several endpoints.
pub(super) fn dispatch(
    raw: &Field<raw::Dispatch>,
    ranges: &[Option<(u64, u64)>],
    grows: bool,
    reporter: &mut Reporter<'_>,
) -> Option<(Dispatch, HashKey)> {
    let mut hash_key = HashKey::Url;
    let dispatch = match raw.get()? {
        raw::Dispatch::RoundRobin(_) => Dispatch::RoundRobin,
        raw::Dispatch::Random(_) => Dispatch::Random,
        raw::Dispatch::P2c(_) => Dispatch::P2c,
        raw::Dispatch::LeastRequest(_) => Dispatch::LeastRequest,
        raw::Dispatch::Psqf(_) => Dispatch::Psqf,
        raw::Dispatch::LeastWork(_) => Dispatch::LeastWork,
        raw::Dispatch::Rpsq(rpsq) => {
            let reserved = count(&rpsq.reserved)?;
            if reserved >= ranges.len() && !grows {
                let message = format!(
                    "{reserved} of {} endpoints are reserved: none is left for other classes",
                    ranges.len()
                );
                let help = "reserve fewer, or add endpoints".to_owned();
                reporter.error(&raw.span, message, Some(help));
                return None;
            }
            Dispatch::Rpsq { reserved }
        }
        raw::Dispatch::Sita(sita) => Dispatch::Sita(intervals(raw, sita, ranges, reporter)?),
        raw::Dispatch::RingHash(affinity) => {
            hash_key = affinity.key.copied()?;
            Dispatch::RingHash
        }
        raw::Dispatch::Maglev(affinity) => {
            hash_key = affinity.key.copied()?;
            Dispatch::Maglev
        }
    };
    Some((dispatch, hash_key))
}

/// Resolves the intervals of `sita`: one cutoff for each gap between endpoints, unless every
/// endpoint has an interval of its own.
fn intervals(
    raw: &Field<raw::Dispatch>,
    sita: &raw::Sita,
    ranges: &[Option<(u64, u64)>],
    reporter: &mut Reporter<'_>,
) -> Option<Intervals> {
    let ranged = ranges.iter().flatten().count();
    let list = match sita.cutoffs.get()? {
        Or::Word(_) if ranged == ranges.len() => {
            let ranges = ranges.iter().flatten();
            return Some(Intervals::Fixed(ranges.map(|(_, to)| *to).collect()));
        }
        Or::Word(_) if ranged == 0 => return Some(Intervals::Learnt),
        Or::Word(_) => {
            let message = "some endpoints have a `size_range` and some have none".to_owned();
            let help = "give each endpoint one, or none and let the intervals be learnt";
            reporter.error(&raw.span, message, Some(help.to_owned()));
            return None;
        }
        Or::Value(list) => list,
    };
    let given: Option<Vec<u64>> = list
        .0
        .iter()
        .map(|cutoff| Some(cutoff.copied()?.0))
        .collect();
    let given = given?;
    let wanted = ranges.len() - 1;
    if given.len() != wanted {
        let message = format!(
            "{} cutoffs for {} endpoints, where {wanted} are needed",
            given.len(),
            ranges.len()
        );
        let help = "write one fewer than there are endpoints, or `cutoffs: learnt`";
        reporter.error(&sita.cutoffs.span, message, Some(help.to_owned()));
        return None;
    }
    if !given.is_sorted_by(|low, high| low < high) {
        let message = "the cutoffs do not ascend".to_owned();
        let help = "write them from small to large, each once, such as [1KB, 10KB]";
        reporter.error(&sita.cutoffs.span, message, Some(help.to_owned()));
        return None;
    }
    Some(Intervals::Fixed(given))
}

/// Resolves the wait queue before endpoints. `binds` is the setting that binds requests to an
/// endpoint, for the error's text; none if requests may go to any.
fn wait_queue(
    raw: &Field<raw::WaitQueue>,
    binds: Option<&str>,
    reporter: &mut Reporter<'_>,
) -> Option<WaitQueue> {
    let raw = raw.get()?;
    let scope = wait_scope(&raw.scope, binds, reporter)?;
    Some(WaitQueue {
        order: srq::wait_order(raw.order.get()?, reporter)?,
        scope,
        max_requests: count(&raw.max_requests)?,
        timeout: raw.timeout.get()?.value().map(|time| time.0),
    })
}

/// Resolves what a request waits for; `binds` as for a wait queue.
pub(super) fn wait_scope(
    raw: &Field<Or<Auto, WaitScope>>,
    binds: Option<&str>,
    reporter: &mut Reporter<'_>,
) -> Option<WaitScope> {
    Some(match (raw.copied()?, binds) {
        (Or::Word(_), Some(_)) => WaitScope::Endpoint,
        (Or::Word(_), None) => WaitScope::Cluster,
        (Or::Value(WaitScope::Cluster), Some(what)) => {
            let message = format!("{what} binds requests to endpoints: they cannot wait for any");
            let help = match what {
                "this `dispatch`" => "use `scope: endpoint`, or a dispatch such as least_work",
                _ => "use `scope: endpoint`, or leave it out",
            };
            reporter.error(&raw.span, message, Some(help.to_owned()));
            return None;
        }
        (Or::Value(scope), _) => scope,
    })
}
