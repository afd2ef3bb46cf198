//! Resolves an Envoy filter's configuration.

use std::collections::HashMap;

use super::policy::policy;
use super::reach::Few;
use super::values::{bytes, count, each, maybe, size, time};
use super::{catalogue, classes, clusters, routes, srq};
use crate::containers::Or;
use crate::decode::Field;
use crate::diagnostic::Reporter;
use crate::raw;
use crate::resolved::*;

/// Resolves a filter's whole configuration; none if there is an error in it, which is reported.
/// Every part is checked, whatever is wrong with the others.
pub(crate) fn filter(raw: &raw::Filter, reporter: &mut Reporter<'_>) -> Option<Filter> {
    let classes = classes::resolve(&raw.classes, &raw.class_rules, reporter);
    let rules = raw.class_rules.get().map_or(&[][..], |rules| &rules.0);
    let help = "Envoy's own filters find that out: match a header that they set";
    classes::warn_unknown_users(rules, false, help, reporter);
    warn_unseen(rules, reporter);
    let catalogue = match raw.catalogue.get().map(Or::value) {
        None => None,
        Some(None) => Some(None),
        Some(Some(own)) => sizes(own, reporter).map(Some),
    };
    let uplink = raw.uplink.get().and_then(|own| uplink(own, reporter));
    let admission = raw.admission.get().and_then(classes::admission);
    let clusters = groups(raw, reporter);
    if let (Some(uplink), Some(admission)) = (&uplink, &admission) {
        warn_unpaced(raw, uplink, admission, reporter);
    }
    if let (Some(uplink), Some(classes), Some(own)) = (&uplink, &classes, raw.uplink.get()) {
        srq::warn_deadlines(&own.policy, &uplink.policy, classes, reporter);
    }
    Some(Filter {
        classes: classes?,
        catalogue: catalogue?,
        uplink: uplink?,
        admission: admission?,
        clusters: clusters?,
        response_header: raw.response_header.get()?.value().map(|n| n.0.clone()),
    })
}

fn uplink(raw: &raw::FilterUplink, reporter: &mut Reporter<'_>) -> Option<FilterUplink> {
    let policy = raw.policy.get().and_then(|own| policy(own, reporter));
    Some(FilterUplink {
        rate_bits_per_s: raw.rate.get()?.value().map(|rate| rate.0),
        policy: policy?,
        hold: raw.hold.get()?.value().copied(),
        max_flows: count(&raw.max_flows)?,
        floor_percent: raw.floor.copied()?.0,
    })
}

/// Warns of rules that match properties of a connection that a filter does not see.
fn warn_unseen(rules: &[Field<raw::ClassRule>], reporter: &mut Reporter<'_>) {
    let matches = rules.iter().filter_map(|rule| rule.get()?.matches.get());
    for own in matches {
        let marks = ("dscp", own.dscp.given, &own.dscp.span);
        let certificate = &own.client_certificate;
        let certificate = ("client_certificate", certificate.given, &certificate.span);
        for (key, given, span) in [marks, certificate] {
            if given {
                let message = format!("a filter does not see `{key}`");
                let help = "this rule matches nothing: match a header that Envoy sets";
                reporter.warning(span, message, Some(help.to_owned()));
            }
        }
    }
}

/// Warns of keys that order the uplink, if the uplink is not paced.
fn warn_unpaced(
    raw: &raw::Filter,
    uplink: &FilterUplink,
    admission: &Admission,
    reporter: &mut Reporter<'_>,
) {
    if uplink.rate_bits_per_s.is_some() {
        return;
    }
    let help = "give `uplink.rate` the link's rate, such as 10mbit";
    classes::warn_keys(&raw.classes, help, reporter);
    if admission.channel.is_some()
        && let Some(own) = raw.admission.get()
    {
        let message = "`channel` has no effect on this uplink".to_owned();
        reporter.warning(&own.channel.span, message, Some(help.to_owned()));
    }
}

fn sizes(raw: &raw::FilterCatalogue, reporter: &mut Reporter<'_>) -> Option<FilterCatalogue> {
    let vary = catalogue::vary(&raw.vary, reporter);
    let listed = |own: &raw::ListedSize| {
        Some(ListedSize {
            host: own.host.optional()?.map(|host| host.0.clone()),
            target: own.path.get()?.0.clone(),
            bytes: own.bytes.copied()?.0,
        })
    };
    Some(FilterCatalogue {
        max_bytes: bytes(&raw.max_size)?,
        ttl: time(&raw.ttl)?,
        vary: vary?,
        manifest: each(&raw.manifest, listed)?,
        estimator: catalogue::estimator(&raw.estimator)?,
    })
}

fn groups(raw: &raw::Filter, reporter: &mut Reporter<'_>) -> Option<Vec<FilterCluster>> {
    let mut out = Some(Vec::new());
    let mut earlier = Few::default();
    for (name, field) in raw.clusters.optional()?.map_or(&[][..], |named| &named.0) {
        let own = field.get();
        let matches = own.and_then(|own| routes::route_match(own.matches.get()?, reporter));
        if let Some(matches) = &matches {
            earlier.check("cluster", matches, &name.span, reporter);
        }
        let resolved = own.and_then(|own| group(name, own, matches?, reporter));
        match (resolved, &mut out) {
            (Some(group), Some(list)) => list.push(group),
            _ => out = None,
        }
    }
    out
}

fn group(
    name: &Field<String>,
    raw: &raw::FilterCluster,
    matches: RouteMatch,
    reporter: &mut Reporter<'_>,
) -> Option<FilterCluster> {
    let pools = pools(raw, reporter)?;
    let ranges: Vec<_> = pools.iter().map(|pool| pool.size_range).collect();
    let (dispatch, hash_key) = clusters::dispatch(&raw.dispatch, &ranges, false, reporter)?;
    let binds = dispatch.has_affinity().then_some("this `dispatch`");
    let wait_queue = wait_queue(raw.wait_queue.get()?, binds, reporter)?;
    let max_requests = raw.max_requests.get()?.value();
    Some(FilterCluster {
        name: name.get()?.clone(),
        matches,
        header: raw.header.get()?.0.clone(),
        metadata_key: raw.metadata_key.optional()?.map(|key| key.0.clone()),
        wait_queue,
        dispatch,
        hash_key,
        max_requests: max_requests.map_or(usize::MAX, |bound| size(bound.0)),
        head_probe: maybe(raw.head_probe.get()?.value(), |own| probe(own, &pools))?,
        pools,
    })
}

fn wait_queue(
    raw: &raw::FilterWaitQueue,
    binds: Option<&str>,
    reporter: &mut Reporter<'_>,
) -> Option<WaitQueue> {
    let scope = clusters::wait_scope(&raw.scope, binds, reporter)?;
    Some(WaitQueue {
        order: raw.order.get()?.0.clone(),
        scope,
        max_requests: count(&raw.max_requests)?,
        timeout: raw.timeout.get()?.value().map(|time| time.0),
    })
}

fn probe(raw: &raw::FilterProbe, pools: &[Pool]) -> Option<FilterProbe> {
    let cluster = raw.cluster.optional()?.map(|name| name.0.clone());
    Some(FilterProbe {
        cluster: cluster.or_else(|| Some(pools.first()?.name.clone()))?,
        bounds: HeadProbe {
            budget: time(&raw.budget)?,
            timeout: time(&raw.timeout)?,
            max_concurrent: count(&raw.max_concurrent)?,
            negative_ttl: raw.negative_ttl.copied()?.0,
            max_bytes: bytes(&raw.max_size)?,
        },
    })
}

fn pools(raw: &raw::FilterCluster, reporter: &mut Reporter<'_>) -> Option<Vec<Pool>> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut out = Some(Vec::new());
    for field in &raw.pools.get()?.0 {
        let resolved = field.get().and_then(|own| pool(own, &mut seen, reporter));
        match (resolved, &mut out) {
            (Some(pool), Some(list)) => list.push(pool),
            _ => out = None,
        }
    }
    out
}

fn pool(
    raw: &raw::Pool,
    seen: &mut HashMap<String, usize>,
    reporter: &mut Reporter<'_>,
) -> Option<Pool> {
    let (name, parameters) = match raw {
        raw::Pool::Name(name) => (name, None),
        raw::Pool::Parameters(own) => (&own.name, Some(own)),
    };
    let pool = Pool {
        name: name.get()?.0.clone(),
        weight: parameters.map_or(Some(1), |own| u32::try_from(own.weight.copied()?.0).ok())?,
        size_range: parameters.map_or(Some(None), |own| {
            clusters::size_range(&own.size_range, reporter)
        })?,
        reserved: parameters.map_or(Some(false), |own| Some(own.reserved.copied()?.0))?,
    };
    if let Some(first) = seen.insert(pool.name.clone(), name.span.start) {
        let line = reporter.line_of(first);
        let message = format!("the pool {} is given twice", pool.name);
        let help = format!("it is first given on line {line}: use `weight` for a larger share");
        reporter.error(&name.span, message, Some(help));
        return None;
    }
    Some(pool)
}
