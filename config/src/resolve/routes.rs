//! Routes: the clusters that they name, and the requests that earlier ones leave to later ones.

use std::sync::Arc;

use super::access::access;
use super::actions::{self, EditLists, action, conditions, error_pages, header_edits, maintenance};
use super::buffer;
use super::catalogue::{document_root, head_probe};
use super::cluster_names::Known;
use super::compressor::compressor;
use super::health::retry_policy;
use super::limits::rate_limit;
use super::reach::Earlier;
use super::values::{bytes, each, each_given, maybe, time};
use crate::addresses::UrlPath;
use crate::containers::Or;
use crate::decode::Field;
use crate::diagnostic::Reporter;
use crate::raw;
use crate::resolved::{
    Access, Action, BodyBound, Cluster, Conditions, Maintenance, PathPattern, Route, RouteBuffer,
    RouteMatch, Upgrade,
};

/// Resolves the routes, in the order of the file.
pub(super) fn resolve(
    file: &raw::File,
    clusters: Option<&[Option<Arc<Cluster>>]>,
    reporter: &mut Reporter<'_>,
) -> Option<Vec<Route>> {
    let raw_routes = &file.routes.get()?.0;
    let closed = file.maintenance.get().and_then(maintenance);
    let compressed = file.compressor.get().and_then(compressor);
    let buffered = file.buffer.get().and_then(buffer::of_file);
    let mut known = Known::new(file, clusters);
    let mut out = Some(Vec::new());
    let mut earlier = Earlier::new();
    for field in raw_routes {
        let raw = field.get();
        let looks = raw.and_then(|raw| {
            let raw = raw.matches.get()?;
            let conditions = conditions(raw, reporter);
            let matches = route_match(raw, reporter)?;
            Some((matches, conditions?))
        });
        let action = raw.and_then(|raw| action(raw, &field.span, &mut known, reporter));
        if let Some((matches, conditions)) = &looks {
            let is_left_some = earlier.check("route", matches, conditions, &field.span, reporter);
            // It takes what came in plain text, and leaves the rest to those after it.
            let leaves_tls = matches!(&action, Some(Action::Redirect(own)) if own.https);
            if is_left_some && !leaves_tls {
                earlier.keep(matches, conditions, field.span.start);
            }
        }
        let access = raw.and_then(|raw| access(raw, &mut known, reporter));
        if raw.is_none() {
            known.note_unread();
        }
        if let (Some(raw), Some(action)) = (raw, &action) {
            actions::warn_unused(raw, action, reporter);
        }
        let resolved = raw.and_then(|raw| {
            let (matches, conditions) = looks?;
            let route = route(raw, matches, action, closed.as_ref()?, reporter)?;
            Some(Route {
                conditions,
                access: access?,
                compressor: match raw.compressor.optional()? {
                    Some(own) => compressor(own)?,
                    None => compressed.clone()?,
                },
                buffer: buffer::of_route(raw.buffer.get()?, buffered.as_ref()?)?,
                ..route
            })
        });
        match (resolved, &mut out) {
            (Some(route), Some(list)) => list.push(route),
            _ => out = None,
        }
    }
    known.warn_unused(reporter);
    out
}

fn route(
    raw: &raw::Route,
    matches: RouteMatch,
    action: Option<Action>,
    closed: &Option<Maintenance>,
    reporter: &mut Reporter<'_>,
) -> Option<Route> {
    let request_headers = EditLists {
        add: &raw.request_headers_to_add,
        set: &raw.request_headers_to_set,
        remove: &raw.request_headers_to_remove,
    };
    let response_headers = EditLists {
        add: &raw.response_headers_to_add,
        set: &raw.response_headers_to_set,
        remove: &raw.response_headers_to_remove,
    };
    let request_headers = header_edits(request_headers, true, reporter);
    let response_headers = header_edits(response_headers, false, reporter);
    let error_pages = error_pages(&raw.error_pages, reporter);
    if raw.prefix_rewrite.given && raw.regex_rewrite.given {
        let message = "a route takes `prefix_rewrite` or `regex_rewrite`, not both".to_owned();
        let help = "remove one of them".to_owned();
        reporter.error(&raw.regex_rewrite.span, message, Some(help));
        return None;
    }
    let regex_rewrite = maybe(raw.regex_rewrite.optional()?, |rewrite| {
        actions::regex_rewrite(rewrite, reporter)
    })?;
    Some(Route {
        matches,
        conditions: Conditions::default(),
        access: Access::default(),
        compressor: None,
        buffer: RouteBuffer::default(),
        action: action?,
        timeout: raw.timeout.get()?.value().map(|time| time.0),
        response_timeout: time(&raw.response_timeout)?,
        idle_timeout: time(&raw.idle_timeout)?,
        retry: retry_policy(raw, reporter)?,
        rate_limit: rate_limit(&raw.rate_limit)?,
        max_request_body: match raw.max_request_body.optional()? {
            None => None,
            Some(Or::Word(_)) => Some(BodyBound::Unlimited),
            Some(Or::Value(bytes)) => Some(BodyBound::Bytes(bytes.0)),
        },
        prefix_rewrite: raw.prefix_rewrite.optional()?.map(|path| path.0.clone()),
        regex_rewrite,
        host_rewrite: raw.host_rewrite.optional()?.map(|host| host.0.clone()),
        request_headers: request_headers?,
        response_headers: response_headers?,
        error_pages: error_pages?,
        maintenance: match raw.maintenance.optional()? {
            Some(own) => maintenance(own)?,
            None => closed.clone(),
        },
        document_root: maybe(raw.document_root.get()?.value(), |own| document_root(own))?,
        head_probe: maybe(raw.head_probe.get()?.value(), |own| head_probe(own))?,
        upgrade: maybe(raw.upgrade.get()?.value(), |upgrade| {
            Some(Upgrade {
                protocols: each(&upgrade.protocols, |protocol| Some(protocol.0.clone()))?,
                idle_timeout: time(&upgrade.idle_timeout)?,
                buffer_bytes: bytes(&upgrade.buffer_size)?,
            })
        })?,
    })
}

/// The keys of hosts and paths, which routes and groups of a filter share.
pub(super) trait HostsAndPaths {
    /// Returns the values of the keys.
    fn keys(&self) -> HostAndPathKeys<'_>;
}

/// The values of the keys `hosts`, `path` and `prefix`.
pub(super) struct HostAndPathKeys<'r> {
    hosts: &'r Field<Hosts>,
    path: &'r Field<UrlPath>,
    prefix: &'r Field<UrlPath>,
}

type Hosts = crate::containers::List<crate::addresses::Host, 1>;

impl HostsAndPaths for raw::Match {
    fn keys(&self) -> HostAndPathKeys<'_> {
        HostAndPathKeys {
            hosts: &self.hosts,
            path: &self.path,
            prefix: &self.prefix,
        }
    }
}

impl HostsAndPaths for raw::RouteMatch {
    fn keys(&self) -> HostAndPathKeys<'_> {
        HostAndPathKeys {
            hosts: &self.hosts,
            path: &self.path,
            prefix: &self.prefix,
        }
    }
}

/// Resolves the hosts and the path that a request must have.
pub(super) fn route_match(
    raw: &impl HostsAndPaths,
    reporter: &mut Reporter<'_>,
) -> Option<RouteMatch> {
    let raw = raw.keys();
    if raw.path.given && raw.prefix.given {
        let message = "a route takes `path` or `prefix`, not both".to_owned();
        let help = "make two routes of it, or remove one of them".to_owned();
        reporter.error(&raw.prefix.span, message, Some(help));
        return None;
    }
    let hosts = each_given(raw.hosts, |host| Some(host.0.clone()))?;
    let path = match (raw.path.optional()?, raw.prefix.optional()?) {
        (Some(path), _) => PathPattern::Exact(path.0.clone()),
        (None, Some(prefix)) => PathPattern::Prefix(prefix.0.clone()),
        (None, None) => PathPattern::Any,
    };
    Some(RouteMatch { hosts, path })
}
