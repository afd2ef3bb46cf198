//! The way in which endpoints' names are resolved.

use std::net::SocketAddr;
use std::time::Duration;

use super::values::{count, time};
use crate::addresses::DnsServer;
use crate::containers::{List, Or};
use crate::decode::Field;
use crate::diagnostic::Reporter;
use crate::raw;
use crate::resolved::*;

/// The most DNS servers of a cluster.
const RESOLVERS_MAX: usize = 8;

/// Resolves the DNS settings of a cluster; `endpoints` is none if one of them is wrong.
pub(super) fn resolve(
    field: &Field<raw::Dns>,
    endpoints: Option<&[Endpoint]>,
    reporter: &mut Reporter<'_>,
) -> Option<Dns> {
    let raw = field.get()?;
    let is_name = |endpoint: &Endpoint| matches!(endpoint.address, EndpointAddress::Name { .. });
    if field.given && endpoints.is_some_and(|all| !all.iter().any(is_name)) {
        let message = "no endpoint of this cluster has a name to resolve".to_owned();
        let help = "leave `dns` out, or write an endpoint as host:port";
        reporter.warning(&field.span, message, Some(help.to_owned()));
    }
    let failure = raw.failure_refresh_rate.get();
    let in_order = [
        ordered(
            TimeKey::new("min_ttl", &raw.min_ttl),
            TimeKey::new("max_ttl", &raw.max_ttl),
            reporter,
        ),
        failure.and_then(|failure| {
            let base = TimeKey::new("base_interval", &failure.base_interval);
            let max = TimeKey::new("max_interval", &failure.max_interval);
            ordered(base, max, reporter)
        }),
    ];
    let resolvers = resolvers(&raw.resolvers, reporter);
    let [ttl, interval] = in_order;
    let ((min_ttl, max_ttl), (base, max)) = (ttl?, interval?);
    Some(Dns {
        discovery: raw.discovery.copied()?,
        resolvers: resolvers?,
        lookup_family: raw.lookup_family.copied()?,
        respect_dns_ttl: raw.respect_dns_ttl.copied()?.0,
        refresh_rate: time(&raw.refresh_rate)?,
        min_ttl,
        max_ttl,
        jitter_percent: u8::try_from(raw.jitter_percent.copied()?.0).ok()?,
        failure_base_interval: base,
        failure_max_interval: max,
        max_stale: raw.max_stale.get()?.value().map(|time| time.0),
        timeout: time(&raw.timeout)?,
        max_addresses: count(&raw.max_addresses)?,
    })
}

/// A key with a time, and its name.
#[derive(Clone, Copy)]
struct TimeKey<'a> {
    name: &'static str,
    field: &'a Field<raw::Timeout>,
}

impl<'a> TimeKey<'a> {
    fn new(name: &'static str, field: &'a Field<raw::Timeout>) -> Self {
        Self { name, field }
    }
}

/// Resolves a shortest and a longest time. If only one is given and passes the other's default, it
/// stands for both.
fn ordered(
    low: TimeKey<'_>,
    high: TimeKey<'_>,
    reporter: &mut Reporter<'_>,
) -> Option<(Duration, Duration)> {
    let (shortest, longest) = (time(low.field)?, time(high.field)?);
    if shortest <= longest {
        return Some((shortest, longest));
    }
    match (low.field.given, high.field.given) {
        (true, false) => Some((shortest, shortest)),
        (false, true) => Some((longest, longest)),
        _ => {
            let message = format!("`{}` is above `{}`", low.name, high.name);
            let help = format!("lower it, or raise `{}`", high.name);
            reporter.error(&low.field.span, message, Some(help));
            None
        }
    }
}

/// Resolves the DNS servers to ask; `Some(None)` for the system's.
fn resolvers(
    field: &Field<Or<raw::System, List<DnsServer, 1>>>,
    reporter: &mut Reporter<'_>,
) -> Option<Option<Vec<SocketAddr>>> {
    let Some(list) = field.get()?.value() else {
        return Some(None);
    };
    if let Some(extra) = list.0.get(RESOLVERS_MAX) {
        let message = format!("there are more than {RESOLVERS_MAX} servers");
        let help = "remove this one and those after it".to_owned();
        reporter.error(&extra.span, message, Some(help));
        return None;
    }
    let servers = list.0.iter().map(|server| Some(server.copied()?.0));
    servers.collect::<Option<_>>().map(Some)
}
