//! nginx's upstreams as clusters: one for each way in which routes speak to the same servers.

use std::collections::BTreeMap;
use std::time::Duration;

use super::parse::Directive;
use super::scope::Scope;
use crate::document::Part;
use crate::endpoints::{Endpoint, Endpoints};
use crate::ledger::{Id, Ledger};
use crate::sessions::{self, Cookie};
use crate::sockets::{BAD_PATH, is_path};
use crate::units::{time, time_value, whole};
use crate::yaml::{Map, Value, map, text, word};

/// The way in which a route speaks to an upstream; each way has a cluster of its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Way {
    /// The upstream's name, or a host and a port.
    pub(super) target: String,
    pub(super) tls: Option<Tls>,
    pub(super) http2: bool,
    pub(super) connect_timeout: Option<Duration>,
    pub(super) resolvers: Vec<String>,
}

/// The way in which a route speaks TLS with an upstream.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Tls {
    pub(super) sni: Option<String>,
    pub(super) trusted_ca: Option<String>,
    pub(super) certificate: Option<(String, String)>,
}

/// The clusters that routes have asked for.
pub(super) struct Clusters<'a> {
    upstreams: BTreeMap<&'a str, &'a Directive>,
    names: BTreeMap<Way, String>,
    parts: Vec<Part>,
}

impl<'a> Clusters<'a> {
    pub(super) fn new(http: &'a [Directive]) -> Self {
        let blocks = http.iter().filter(|own| own.name == "upstream");
        Self {
            upstreams: blocks.map(|own| (own.arg(0), own)).collect(),
            names: BTreeMap::new(),
            parts: Vec::new(),
        }
    }

    pub(super) fn is_upstream(&self, name: &str) -> bool {
        self.upstreams.contains_key(name)
    }

    pub(super) fn into_parts(self) -> Vec<Part> {
        self.parts
    }

    /// Returns the cluster for a way to an upstream; none if no server of the upstream can be an
    /// endpoint. `from` is the directive that names the upstream.
    pub(super) fn lead(&mut self, way: &Way, from: Id, ledger: &mut Ledger) -> Option<String> {
        if let Some(name) = self.names.get(way) {
            return Some(name.clone());
        }
        let Some(upstream) = self.upstreams.get(&*way.target).copied() else {
            let endpoint = text(with_port(&way.target, way.tls.is_some()));
            let keys = vec![("endpoints".to_owned(), Value::List(vec![endpoint]))];
            return Some(self.add(way, from, way.target.clone(), keys));
        };
        ledger.carried(upstream.id);
        let own = Upstream::read(upstream, way.tls.is_some(), ledger);
        let Some(endpoints) = own.endpoints.written(ledger) else {
            ledger.not(upstream.id, "no server is left, so its routes answer 502");
            return None;
        };
        let title = format!("{}: upstream {}", upstream.place, upstream.arg(0));
        let mut keys = vec![("endpoints".to_owned(), endpoints)];
        keys.extend(upstream_keys(upstream, &own, ledger));
        Some(self.add(way, upstream.id, title, keys))
    }

    fn add(&mut self, way: &Way, from: Id, title: String, keys: Map) -> String {
        let valid = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let mut base: String = way
            .target
            .chars()
            .map(|c| if valid(c) { c } else { '-' })
            .collect();
        base.truncate(48);
        if base.is_empty() {
            base.push_str("backend");
        }
        // Keys of YAML: what reads as a number or a word would be none.
        if !base.starts_with(|c: char| c.is_ascii_alphabetic()) || is_word(&base) {
            base.insert_str(0, "to-");
        }
        let mut name = base.clone();
        let mut count = 2;
        while self.parts.iter().any(|own| own.name == name) {
            name = format!("{base}-{count}");
            count += 1;
        }
        let mut keys = keys;
        keys.extend(way_keys(way));
        self.parts.push(Part {
            from,
            title,
            name: name.clone(),
            keys,
        });
        self.names.insert(way.clone(), name.clone());
        name
    }
}

fn is_word(text: &str) -> bool {
    let words = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    words.contains(&&*text.to_ascii_lowercase())
}

/// Returns whether a target is a Unix socket, which nginx calls `localhost`.
pub(super) fn is_unix(target: &str) -> bool {
    target.starts_with("unix:")
}

/// Returns a host with a port, by default that of its scheme; a Unix socket as it is.
fn with_port(target: &str, tls: bool) -> String {
    if is_unix(target) {
        return target.to_owned();
    }
    let has_port = match target.rsplit_once(':') {
        Some((_, port)) => !port.ends_with(']'),
        None => false,
    };
    match has_port {
        true => target.to_owned(),
        false => format!("{target}:{}", if tls { 443 } else { 80 }),
    }
}

fn way_keys(way: &Way) -> Map {
    let mut out = Map::new();
    let mut put = |key: &str, value: Value| out.push((key.to_owned(), value));
    if let Some(time) = way.connect_timeout {
        put("connect_timeout", time_value(time));
    }
    if let Some(own) = &way.tls {
        let mut tls = Map::new();
        if let Some(sni) = &own.sni {
            tls.push(("sni".to_owned(), text(sni)));
        }
        if let Some(authority) = &own.trusted_ca {
            tls.push(("trusted_ca".to_owned(), text(authority)));
        }
        if let Some((chain, key)) = &own.certificate {
            let certificate = [
                ("certificate_chain", text(chain)),
                ("private_key", text(key)),
            ];
            tls.push(("client_certificate".to_owned(), map(certificate)));
        }
        put("tls", Value::Map(tls));
    }
    if way.http2 {
        put("http2", Value::Map(Map::new()));
    }
    if !way.resolvers.is_empty() {
        let list = way.resolvers.iter().map(text).collect();
        put("dns", map([("resolvers", Value::List(list))]));
    }
    out
}

/// The servers of an upstream, and the settings that their lines give for all.
#[derive(Default)]
struct Upstream {
    endpoints: Endpoints,
    max_conns: Option<u64>,
    max_fails: Option<u64>,
    fail_timeout: Option<Duration>,
}

impl Upstream {
    fn read(upstream: &Directive, tls: bool, ledger: &mut Ledger) -> Self {
        let mut out = Self::default();
        for server in upstream.inner().iter().filter(|own| own.name == "server") {
            out.add(server, tls, ledger);
        }
        out
    }

    fn add(&mut self, server: &Directive, tls: bool, ledger: &mut Ledger) {
        let target = server.arg(0);
        if target.is_empty() {
            return ledger.not(server.id, "it names no server");
        }
        if target
            .strip_prefix("unix:")
            .is_some_and(|path| !is_path(path))
        {
            return ledger.not(server.id, BAD_PATH);
        }
        let flags: Vec<&str> = server.args.iter().skip(1).map(String::as_str).collect();
        let value = |name: &str| {
            let mut values = flags.iter().filter_map(|own| own.strip_prefix(name));
            values.find_map(|own| own.strip_prefix('='))
        };
        if flags.contains(&"down") {
            return ledger.nearly(server.id, "it is down, so it is left out");
        }
        let number = |name| value(name).and_then(whole);
        // Of several the least holds for all.
        let least = |own: Option<u64>, other: Option<u64>| match (own, other) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (own, other) => own.or(other),
        };
        let fails = number("max_fails");
        self.max_conns = least(self.max_conns, number("max_conns").filter(|own| *own > 0));
        self.max_fails = least(self.max_fails, fails);
        let span = value("fail_timeout").and_then(|own| time(own, 1000));
        self.fail_timeout = self.fail_timeout.max(span);
        let weight = number("weight").unwrap_or(1);
        let told = match () {
            () if weight > 1000 => Some("a weight is at most 1000"),
            () if value("slow_start").is_some() => Some("`slow_start` is a key of the cluster"),
            () if fails == Some(0) => {
                Some("without `max_fails` its failures count as those of the others")
            }
            () => None,
        };
        match told {
            Some(told) => ledger.nearly(server.id, told),
            None => ledger.carried(server.id),
        }
        self.endpoints.add(Endpoint {
            id: server.id,
            address: with_port(target, tls),
            weight: weight.clamp(1, 1000),
            is_backup: flags.contains(&"backup"),
        });
    }
}

fn upstream_keys(upstream: &Directive, servers: &Upstream, ledger: &mut Ledger) -> Map {
    let mut out = Map::new();
    let mut put = |key: &str, value: Value| out.push((key.to_owned(), value));
    put("dispatch", dispatch(upstream, ledger));
    let scope = Scope::new(upstream.inner());
    if let Some(own) = scope.one("keepalive") {
        match whole(own.arg(0)).filter(|count| (1..=1024).contains(count)) {
            Some(count) => {
                ledger.carried(own.id);
                put("max_idle_connections", word(count));
            }
            None => ledger.nearly(
                own.id,
                "`max_idle_connections` of the cluster is at its default",
            ),
        }
    }
    if let Some(own) = scope.one("keepalive_timeout") {
        match time(own.arg(0), 1000).filter(|own| !own.is_zero()) {
            Some(time) => {
                ledger.carried(own.id);
                put("idle_timeout", time_value(time));
            }
            None => ledger.not(own.id, "`idle_timeout` of the cluster takes a time above 0"),
        }
    }
    if let Some(session) = scope.one("sticky").and_then(|own| session(own, ledger)) {
        put(sessions::KEY, session);
    }
    if let Some(count) = servers.max_conns {
        put("max_requests", word(count.min(10_000_000)));
    }
    let fails = servers.max_fails.filter(|own| *own > 0);
    if fails.is_some() || servers.fail_timeout.is_some_and(|own| !own.is_zero()) {
        let span = servers.fail_timeout.unwrap_or(Duration::from_secs(10));
        put(
            "outlier_detection",
            map([
                ("consecutive_local_origin_failure", word(fails.unwrap_or(1))),
                ("consecutive_gateway_failure", word("off")),
                ("consecutive_5xx", word("off")),
                ("success_rate_stdev_factor", word("off")),
                ("base_ejection_time", time_value(span)),
                ("max_ejection_time", time_value(span)),
            ]),
        );
    }
    out
}

/// Returns a cluster's sessions, as `sticky cookie` keeps them; none for other kinds of `sticky`.
fn session(own: &Directive, ledger: &mut Ledger) -> Option<Value> {
    if own.arg(0) != "cookie" || own.arg(1).is_empty() {
        let told = "sessions are kept by a cookie of Sprat's own: see `stateful_session`";
        ledger.not(own.id, told);
        return None;
    }
    let mut cookie = Cookie {
        name: own.arg(1),
        ..Cookie::default()
    };
    let mut is_whole = true;
    for argument in own.args.iter().skip(2) {
        match argument.split_once('=').unwrap_or((argument, "")) {
            ("expires", "max") => cookie.ttl = Some(Duration::from_secs(365 * 24 * 3600)),
            ("expires", span) => cookie.ttl = time(span, 1000),
            ("path", path) => cookie.path = Some(path),
            ("domain", domain) => cookie.domain = Some(domain),
            ("secure", _) => cookie.secure = true,
            ("samesite", value) => cookie.same_site = sessions::same_site(value),
            ("httponly", _) => {}
            _ => is_whole = false,
        }
    }
    match is_whole {
        true => ledger.carried(own.id),
        false => ledger.nearly(own.id, "of the cookie's attributes some are unknown here"),
    }
    Some(cookie.value())
}

fn dispatch(upstream: &Directive, ledger: &mut Ledger) -> Value {
    let mut found = word("round_robin");
    for own in upstream.inner() {
        let by = |name: &str, key: &str| map([("name", word(name)), ("key", word(key))]);
        let consistent = own.args.iter().any(|arg| arg == "consistent");
        let name = if consistent { "ring_hash" } else { "maglev" };
        found = match (&*own.name, own.arg(0)) {
            ("least_conn", _) => word("least_request"),
            ("ip_hash", _) => by("maglev", "client"),
            ("random", "two") => word("p2c"),
            ("random", _) => word("random"),
            ("hash", "$remote_addr" | "$binary_remote_addr") => by(name, "client"),
            (
                "hash",
                "$request_uri" | "$uri" | "$host$request_uri" | "$scheme$proxy_host$request_uri",
            ) => by(name, "url"),
            ("hash", _) => {
                ledger.not(
                    own.id,
                    "hashes are of the client or the URL: dispatch is in turn",
                );
                continue;
            }
            ("zone" | "queue", _) => {
                ledger.carried(own.id);
                continue;
            }
            _ => continue,
        };
        match hash_doubt(own) {
            Some(told) => ledger.nearly(own.id, told),
            None => ledger.carried(own.id),
        }
    }
    found
}

/// Returns how Sprat's hash differs from that of a directive; none if it is of the same.
fn hash_doubt(own: &Directive) -> Option<&'static str> {
    Some(match (&*own.name, own.arg(0)) {
        ("ip_hash", _) => "nginx takes the first three bytes of IPv4 alone",
        ("hash", "$uri") => "the hash is of the host and the query, too",
        ("hash", "$request_uri") => "the hash is of the host, too",
        ("hash", "$scheme$proxy_host$request_uri") => {
            "the hash is of the host that clients ask for, and not of the scheme"
        }
        _ => return None,
    })
}
