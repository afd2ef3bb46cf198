//! Routes: the clusters that they name, and what they leave to each other.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::catalogue::{document_root, head_probe};
use super::health::retry_policy;
use super::limits::rate_limit;
use super::{bytes, each, time};
use crate::decode::similar;
use crate::diagnostic::Reporter;
use crate::raw;
use crate::resolved::{Cluster, HostPattern, PathPattern, Route, RouteMatch, Upgrade};
use crate::wording::listed;

/// In the order of the file.
pub(super) fn resolve(
    file: &raw::File,
    clusters: Option<&[Option<Arc<Cluster>>]>,
    reporter: &mut Reporter<'_>,
) -> Option<Vec<Route>> {
    let raw_routes = &file.routes.get()?.0;
    let known: Vec<(&str, &Range<usize>)> = file
        .clusters
        .get()
        .into_iter()
        .flat_map(|named| &named.0)
        .filter_map(|(name, _)| Some((name.get()?.as_str(), &name.span)))
        .collect();
    let places: HashMap<&str, usize> = known.iter().map(|(name, _)| *name).zip(0..).collect();
    let by_name = clusters.into_iter().flatten().flatten();
    let by_name: HashMap<&str, &Arc<Cluster>> = by_name.map(|own| (&*own.name, own)).collect();
    let mut used = vec![false; known.len()];
    let mut all_named = true;
    let mut out = Some(Vec::new());
    let mut reachable: Vec<(RouteMatch, usize)> = Vec::new();
    for field in raw_routes {
        let raw = field.get();
        let matches = raw.and_then(|raw| route_match(raw.matches.get()?, reporter));
        if let Some(matches) = &matches {
            check_reachable("route", matches, &field.span, &mut reachable, reporter);
        }
        let name = raw.and_then(|raw| Some((raw.cluster.get()?, &raw.cluster.span)));
        let index = name.and_then(|(name, span)| {
            let index = places.get(&*name.0).copied();
            // Without any cluster that was read there is nothing to point at.
            if index.is_none() && !known.is_empty() {
                dangling(&name.0, span, &known, reporter);
            }
            index
        });
        match index {
            Some(index) => used[index] = true,
            None => all_named = false,
        }
        let target = || by_name.get(known[index?].0).copied().cloned();
        let resolved = raw.and_then(|raw| route(raw, matches?, target()?, reporter));
        match (resolved, &mut out) {
            (Some(route), Some(list)) => list.push(route),
            _ => out = None,
        }
    }
    // A route that could not be read may be the one that uses it.
    if all_named {
        for ((name, span), _) in known.iter().zip(&used).filter(|(_, used)| !**used) {
            let message = format!("no route leads to the cluster `{name}`");
            let help = "add a route with `cluster: ".to_owned() + name + "`, or remove it";
            reporter.warning(span, message, Some(help));
        }
    }
    out
}

pub(super) fn dangling(
    name: &str,
    span: &Range<usize>,
    known: &[(&str, &Range<usize>)],
    reporter: &mut Reporter<'_>,
) {
    // A suggestion is not worth comparing thousands of names.
    let names = || known.iter().take(100).map(|(name, _)| *name);
    let message = format!("there is no cluster `{name}`");
    let help = match similar(name, names()) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("the clusters are {}", listed(names().take(10))),
    };
    reporter.error(span, message, Some(help));
}

fn route(
    raw: &raw::Route,
    matches: RouteMatch,
    cluster: Arc<Cluster>,
    reporter: &mut Reporter<'_>,
) -> Option<Route> {
    Some(Route {
        matches,
        cluster,
        timeout: raw.timeout.get()?.value().map(|time| time.0),
        response_timeout: time(&raw.response_timeout)?,
        idle_timeout: time(&raw.idle_timeout)?,
        retry: retry_policy(raw, reporter)?,
        rate_limit: rate_limit(&raw.rate_limit)?,
        prefix_rewrite: raw.prefix_rewrite.optional()?.map(|path| path.0.clone()),
        host_rewrite: raw.host_rewrite.optional()?.map(|host| host.0.clone()),
        document_root: match raw.document_root.get()?.value() {
            None => None,
            Some(root) => Some(document_root(root)?),
        },
        head_probe: match raw.head_probe.get()?.value() {
            None => None,
            Some(probe) => Some(head_probe(probe)?),
        },
        upgrade: match raw.upgrade.get()?.value() {
            None => None,
            Some(upgrade) => Some(Upgrade {
                protocols: each(&upgrade.protocols, |protocol| Some(protocol.0.clone()))?,
                idle_timeout: time(&upgrade.idle_timeout)?,
                buffer_bytes: bytes(&upgrade.buffer_size)?,
            }),
        },
    })
}

/// What a request must look like.
pub(super) fn route_match(raw: &raw::Match, reporter: &mut Reporter<'_>) -> Option<RouteMatch> {
    if raw.path.given && raw.prefix.given {
        let message = "a route takes `path` or `prefix`, not both".to_owned();
        let help = "make two routes of it, or remove one of them".to_owned();
        reporter.error(&raw.prefix.span, message, Some(help));
        return None;
    }
    let hosts = match raw.hosts.optional()? {
        Some(_) => each(&raw.hosts, |host| Some(host.0.clone()))?,
        None => Vec::new(),
    };
    let path = match (raw.path.optional()?, raw.prefix.optional()?) {
        (Some(path), _) => PathPattern::Exact(path.0.clone()),
        (None, Some(prefix)) => PathPattern::Prefix(prefix.0.clone()),
        (None, None) => PathPattern::Any,
    };
    Some(RouteMatch { hosts, path })
}

/// Routes compared with those before them; a longer table is not checked, as
/// the cost is quadratic.
const MAX_COMPARED: usize = 1000;

/// Warns of a route (or other `what`) that an earlier one leaves nothing to.
pub(super) fn check_reachable(
    what: &str,
    matches: &RouteMatch,
    span: &Range<usize>,
    earlier: &mut Vec<(RouteMatch, usize)>,
    reporter: &mut Reporter<'_>,
) {
    match earlier.iter().find(|(other, _)| covers(other, matches)) {
        Some((_, first)) => {
            let line = reporter.line_of(*first);
            let message = format!("this {what} can never match");
            let help =
                format!("the {what} on line {line} takes all its requests: put this one before it");
            reporter.warning(span, message, Some(help));
        }
        None if earlier.len() < MAX_COMPARED => earlier.push((matches.clone(), span.start)),
        None => {}
    }
}

/// Whether every request that `b` matches is matched by `a`.
fn covers(a: &RouteMatch, b: &RouteMatch) -> bool {
    let below = |path: &str, prefix: &str| {
        path.strip_prefix(prefix)
            .is_some_and(|rest| rest.is_empty() || prefix.ends_with('/') || rest.starts_with('/'))
    };
    let path = match (&a.path, &b.path) {
        (PathPattern::Any, _) => true,
        (PathPattern::Prefix(a), PathPattern::Any) => a == "/",
        (PathPattern::Prefix(a), PathPattern::Exact(b) | PathPattern::Prefix(b)) => below(b, a),
        (PathPattern::Exact(a), PathPattern::Exact(b)) => a == b,
        (PathPattern::Exact(_), _) => false,
    };
    let host = |b: &HostPattern| {
        a.hosts.iter().any(|a| match (a, b) {
            (HostPattern::Exact(a), HostPattern::Exact(b)) => a == b,
            (HostPattern::Suffix(a), HostPattern::Exact(b)) => {
                b.len() > a.len() && b.ends_with(a.as_str())
            }
            (HostPattern::Suffix(a), HostPattern::Suffix(b)) => b.ends_with(a.as_str()),
            (HostPattern::Exact(_), HostPattern::Suffix(_)) => false,
        })
    };
    path && (a.hosts.is_empty() || (!b.hosts.is_empty() && b.hosts.iter().all(host)))
}
