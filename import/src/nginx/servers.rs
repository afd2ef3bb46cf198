//! The order of nginx's servers: exact names, then the longest wildcard, then expressions, and then
//! the default of the address.
//!
//! nginx does so for each address by itself, Sprat for all of them together. So a server that is
//! reached over TLS alone gets a route before its own that redirects requests in plain text. Hosts
//! that are served differently in plain text and over TLS are noted.

use std::collections::BTreeSet;

use super::converter::Converter;
use super::known;
use super::listeners::Server;
use super::parse::Directive;
use crate::document::{Match, PathIs, Route};
use crate::ledger::Ledger;
use crate::limits::MAX_ROUTES;
use crate::patterns::{self, Pattern, escaped};
use crate::restrict::covers;
use crate::yaml::{map, word};

/// A server with some of its names, or as a default.
struct Unit<'s, 'a> {
    server: &'s Server<'a>,
    names: Names,
}

/// The names of a unit, in the order in which nginx looks for them.
#[derive(Clone, Debug)]
enum Names {
    Hosts(Vec<String>),
    Wildcard(String),
    /// An expression that the host fits, and whether it stands for `name.*`.
    Field(Pattern, bool),
    /// All hosts that no other server is named for.
    Any,
}

impl Unit<'_, '_> {
    fn hosts(&self) -> &[String] {
        match &self.names {
            Names::Hosts(hosts) => hosts,
            Names::Wildcard(host) => std::slice::from_ref(host),
            Names::Field(..) | Names::Any => &[],
        }
    }

    fn is_plain_only(&self) -> bool {
        !self.server.is_on(true)
    }

    fn is_tls_only(&self) -> bool {
        !self.server.is_on(false)
    }

    fn rank(&self) -> UnitRank {
        let (kind, length) = match &self.names {
            Names::Hosts(_) => (0, 0),
            // The longest first.
            Names::Wildcard(host) => (1, usize::MAX - host.len()),
            Names::Field(pattern, true) => (2, usize::MAX - pattern.text.len()),
            Names::Field(_, false) => (3, 0),
            Names::Any => (4, 0),
        };
        UnitRank {
            kind,
            length,
            has_tls: !self.is_plain_only(),
            id: self.server.directive.id,
        }
    }
}

/// The rank of a unit in the order in which units are asked: the least goes first. The order of
/// the fields is the policy.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct UnitRank {
    kind: u8,
    /// A number that is smaller the longer the names are, for the kinds in which that counts.
    length: usize,
    /// Whether the server is reached over TLS. One in plain text alone is asked before others of
    /// its names.
    has_tls: bool,
    /// The place of the server in the configuration.
    id: usize,
}

/// The names of a server, by kind.
#[derive(Default)]
struct Named {
    hosts: Vec<String>,
    fields: Vec<(Pattern, bool)>,
}

fn named(server: &Server<'_>, ledger: &mut Ledger) -> Named {
    let mut out = Named::default();
    for own in server.scope.here("server_name") {
        let mut is_known = true;
        for name in &own.args {
            let name = name.to_ascii_lowercase();
            if let Some(text) = name.strip_prefix('~') {
                // `Host` may have a port, which is no part of the name.
                let with_port = match text.strip_suffix('$') {
                    Some(bare) if !bare.ends_with('\\') => format!("{bare}(:[0-9]+)?$"),
                    _ => text.to_owned(),
                };
                let pattern = Pattern::new(&with_port, true);
                match patterns::check(&pattern.whole()) {
                    Ok(()) => out.fields.push((pattern, false)),
                    Err(_) => {
                        ledger.not(own.id, "Sprat has no words for that expression");
                        is_known = false;
                    }
                }
            } else if let Some(start) = name.strip_suffix(".*").filter(|own| is_host(own)) {
                let text = format!(r"^{}\.[^:]*(:[0-9]+)?$", escaped(start));
                out.fields.push((Pattern::new(&text, true), true));
            } else if let Some(domain) = name.strip_prefix('.').filter(|own| is_host(own)) {
                out.hosts.extend([domain.to_owned(), format!("*.{domain}")]);
            } else if is_host(name.strip_prefix("*.").unwrap_or(&name)) {
                out.hosts.push(name);
            }
            // Others, such as `_`, are no names that a client could ask for.
        }
        if is_known {
            ledger.carried(own.id);
        }
    }
    out
}

/// Returns whether a text is a host's name or an address that Sprat takes.
fn is_host(text: &str) -> bool {
    let label = |own: &str| {
        let valid = |b: u8| b.is_ascii_alphanumeric() || b"_-".contains(&b);
        (1..=63).contains(&own.len()) && own.bytes().all(valid)
    };
    let last = text.rsplit('.').next().unwrap_or_default();
    let is_name = text.len() <= 253
        && text.split('.').all(label)
        && !last.bytes().all(|b| b.is_ascii_digit())
        && text != "_";
    is_name || text.parse::<std::net::Ipv4Addr>().is_ok()
}

/// Returns the routes of all servers, in the order in which they are asked.
pub(super) fn routes<'a>(servers: &[Server<'a>], converter: &mut Converter<'a, '_>) -> Vec<Route> {
    let names: Vec<Named> = servers
        .iter()
        .map(|own| named(own, converter.ledger))
        .collect();
    let mut units = units(servers, &names);
    units.sort_by_key(Unit::rank);
    let has_plain = servers.iter().any(|own| own.is_on(false));
    let mut out: Vec<Route> = Vec::new();
    for unit in &units {
        if converter.steps > MAX_ROUTES || out.len() > MAX_ROUTES {
            break;
        }
        let field = match &unit.names {
            Names::Field(pattern, _) => Some(pattern),
            _ => None,
        };
        let mut routes = converter.server(unit.server, servers, unit.hosts().to_vec(), field);
        if unit.is_plain_only() && routes.iter().any(serves) && opens(unit, &units) {
            let told = "over TLS another server guards its hosts, and routes do not tell ports \
                        apart: requests in plain text are sent to TLS";
            converter.ledger.not(unit.server.directive.id, told);
            let sent = routes.first().map(|first| guard(unit, first));
            routes = sent.into_iter().collect();
        }
        if unit.is_tls_only() && has_plain {
            tell_of_plain(unit, &out, converter.ledger);
            if !is_sent_on(unit, &out) {
                out.extend(routes.first().map(|first| guard(unit, first)));
            }
        }
        out.extend(routes);
    }
    out
}

fn units<'s, 'a>(servers: &'s [Server<'a>], names: &[Named]) -> Vec<Unit<'s, 'a>> {
    let defaults = defaults(servers);
    let mut units = Vec::new();
    for (index, (server, own)) in servers.iter().zip(names).enumerate() {
        let is_default = defaults.contains(&index);
        let others = || {
            names
                .iter()
                .enumerate()
                .filter(move |(other, _)| *other != index)
        };
        let is_wild = |host: &&String| host.starts_with("*.");
        let takes_others = own.hosts.iter().filter(is_wild).any(|wild| {
            let mut hosts = others().flat_map(|(_, other)| &other.hosts);
            hosts.any(|host| covers(wild, host))
        });
        let is_taken = others().any(|(_, other)| {
            let fits = |wild: &String| own.hosts.iter().any(|host| covers(wild, host));
            !other.fields.is_empty() || other.hosts.iter().any(fits)
        });
        let mut put = |names: Names| units.push(Unit { server, names });
        // The default takes its own names with all the others, unless another comes first.
        if !is_default || is_taken || defaults.len() > 1 {
            let (wild, exact): (Vec<String>, Vec<String>) = own
                .hosts
                .iter()
                .cloned()
                .partition(|host| takes_others && host.starts_with("*."));
            if !exact.is_empty() {
                put(Names::Hosts(exact));
            }
            for host in wild {
                put(Names::Wildcard(host));
            }
            for (pattern, is_start) in &own.fields {
                put(Names::Field(pattern.clone(), *is_start));
            }
        }
        if is_default {
            put(Names::Any);
        }
    }
    units
}

/// Returns the indices of servers that are the default of one of their addresses.
fn defaults(servers: &[Server<'_>]) -> Vec<usize> {
    let mut found: Vec<usize> = Vec::new();
    let addresses: Vec<_> = servers.iter().flat_map(|own| &own.listens).collect();
    for address in addresses {
        let on_it = |own: &Server<'_>| {
            let mut listens = own.listens.iter();
            listens
                .find(|own| own.address == address.address)
                .map(|own| own.is_default)
        };
        let all: Vec<(usize, bool)> = servers
            .iter()
            .enumerate()
            .filter_map(|(index, own)| Some((index, on_it(own)?)))
            .collect();
        let chosen = all
            .iter()
            .find(|(_, is_default)| *is_default)
            .or(all.first());
        if let Some((index, _)) = chosen
            && !found.contains(index)
        {
            found.push(*index);
        }
    }
    found
}

/// Returns whether a route leads to a backend. A route for challenges of ACME does not count,
/// because all clients may see those.
fn serves(route: &Route) -> bool {
    let (PathIs::Exact(path) | PathIs::Prefix(path) | PathIs::Regex(path)) = &route.matches.path
    else {
        return leads(route);
    };
    let known = ["/.well-known/", "/\\.well-known/"];
    leads(route) && !known.iter().any(|own| path.starts_with(own))
}

fn leads(route: &Route) -> bool {
    let names = ["cluster", "weighted_clusters"];
    route.keys.iter().any(|(key, _)| names.contains(&&**key))
}

/// Returns whether the routes of a server in plain text would let requests over TLS pass by the
/// guards of the server that has its hosts there.
fn opens(plain: &Unit<'_, '_>, units: &[Unit<'_, '_>]) -> bool {
    let own = guards(plain.server.directive);
    let lacks = |unit: &&Unit<'_, '_>| {
        let others = guards(unit.server.directive);
        let lets_in = |guard: &String| guard.contains("/allow ") || guard.ends_with(" off");
        let lets_more_in = own.difference(&others).any(lets_in);
        lets_more_in || others.difference(&own).next().is_some()
    };
    // Servers that are asked before have their own routes before.
    let is_later = |own: &&Unit<'_, '_>| own.server.is_on(true) && own.rank() > plain.rank();
    let later = units.iter().filter(is_later);
    let mut later = later.filter(|own| shares_names(plain, own));
    // What serves nothing has nothing to guard.
    later.any(|own| passes_on(own.server.directive.inner()) && lacks(&own))
}

fn passes_on(block: &[Directive]) -> bool {
    let names = ["proxy_pass", "grpc_pass"];
    block
        .iter()
        .any(|own| names.contains(&&*own.name) || passes_on(own.inner()))
}

/// Returns whether a unit may have hosts of a unit that is asked later.
fn shares_names(own: &Unit<'_, '_>, later: &Unit<'_, '_>) -> bool {
    let meet = |one: &String, other: &String| covers(one, other) || covers(other, one);
    match (own.hosts(), later.hosts()) {
        ([], []) => true,
        // What has no server of its name over TLS has one in plain text alone.
        (_, []) | ([], _) => false,
        (hosts, others) => {
            let is_shared = |one: &String| others.iter().any(|other| meet(one, other));
            hosts.iter().any(is_shared)
        }
    }
}

/// Returns the directives of a server that keep requests out or let them in, with the blocks around
/// them.
fn guards(server: &Directive) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    collect_guards(server.inner(), "", &mut out);
    out
}

fn collect_guards(block: &[Directive], around: &str, out: &mut BTreeSet<String>) {
    let names = ["allow", "deny", "internal", "satisfy"];
    for own in block {
        let text = format!("{around}/{} {}", own.name, own.args.join(" "));
        let refuses = own.name == "return" && own.arg(0).starts_with(['4', '5']);
        if refuses || names.contains(&&*own.name) || known::is_guard(&own.name) {
            out.insert(text);
        } else if matches!(&*own.name, "location" | "if" | "limit_except") {
            collect_guards(own.inner(), &text, out);
        }
    }
}

/// Returns whether a route takes all requests for its hosts that came in plain text.
fn takes_all_plain(route: &Route) -> bool {
    let bare = Match {
        hosts: route.matches.hosts.clone(),
        ..Match::default()
    };
    route.matches == bare || {
        let path = PathIs::Any;
        let is_root = route.matches.path == PathIs::Prefix("/".to_owned());
        is_root
            && bare
                == Match {
                    path,
                    ..route.matches.clone()
                }
    }
}

/// Returns whether earlier routes take all requests in plain text for a unit's hosts.
fn is_sent_on(unit: &Unit<'_, '_>, before: &[Route]) -> bool {
    let sent = |host: Option<&String>| {
        before.iter().filter(|own| takes_all_plain(own)).any(|own| {
            let hosts = &own.matches.hosts;
            hosts.is_empty() || host.is_some_and(|host| hosts.iter().any(|one| covers(one, host)))
        })
    };
    match unit.hosts() {
        [] => sent(None),
        hosts => hosts.iter().all(|host| sent(Some(host))),
    }
}

/// Notes that another server in plain text has the hosts of a server.
fn tell_of_plain(unit: &Unit<'_, '_>, before: &[Route], ledger: &mut Ledger) {
    let shares = |own: &&Route| {
        let hosts = &own.matches.hosts;
        let any = hosts.is_empty() && unit.hosts().is_empty();
        any || unit.hosts().iter().any(|host| hosts.contains(host))
    };
    let mut found = before.iter().filter(shares).filter(|own| !own.is_for_plain);
    let directive = unit.server.directive;
    if found.clone().any(takes_all_plain) {
        let told = "its hosts are served in plain text by another server, and routes do not \
                    tell ports apart: that one takes these requests, too";
        ledger.not(directive.id, told);
    } else if found.next().is_some() {
        let told = "what its hosts have in plain text is served so over TLS, too: routes do \
                    not tell ports apart";
        ledger.nearly(directive.id, told);
    }
}

/// Returns the route that redirects requests in plain text to TLS.
fn guard(unit: &Unit<'_, '_>, first: &Route) -> Route {
    let matches = Match {
        hosts: unit.hosts().to_vec(),
        headers: match &unit.names {
            Names::Field(..) => first.matches.headers.clone(),
            _ => Vec::new(),
        },
        ..Match::default()
    };
    let redirect = map([("https_redirect", word("true"))]);
    Route {
        from: unit.server.directive.id,
        title: format!(
            "{}: it is served over TLS alone",
            unit.server.directive.place
        ),
        matches,
        keys: vec![("redirect".to_owned(), redirect)],
        is_for_plain: true,
    }
}
