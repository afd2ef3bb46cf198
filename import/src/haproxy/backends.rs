//! HAProxy's backends as clusters, and their settings for requests.

use std::time::Duration;

use super::parse::{Line, Section};
use crate::document::Part;
use crate::endpoints::{Endpoint, Endpoints};
use crate::ledger::Ledger;
use crate::sessions::{self, Cookie};
use crate::sockets::{BAD_PATH, is_path};
use crate::units::{time, time_value, whole};
use crate::yaml::{Map, Value, map, text, word};

/// The servers of a backend, and the settings that their lines give for all.
#[derive(Default)]
struct Backend {
    endpoints: Endpoints,
    max_conn: Option<u64>,
    /// The TLS of the last server that speaks it.
    tls: Option<Map>,
    /// Whether a server without TLS has been read.
    has_plain: bool,
    http2: bool,
    proxy_protocol: Option<&'static str>,
    checks: Option<Checks>,
}

#[derive(Clone, Debug, Default)]
struct Checks {
    interval: Option<Duration>,
    rise: Option<u64>,
    fall: Option<u64>,
}

/// Returns the cluster of a backend; none if no server of it can be an endpoint.
pub(super) fn part(section: &Section, name: &str, ledger: &mut Ledger) -> Option<Part> {
    let mut own = Backend::default();
    let defaults: Vec<String> = section
        .all(&["default-server"])
        .iter()
        .flat_map(|line| {
            ledger.carried(line.id);
            line.words[1..].iter().cloned()
        })
        .collect();
    for line in section.all(&["server"]) {
        own.add(line, &defaults, ledger);
    }
    for line in section.all(&["server-template"]) {
        ledger.not(
            line.id,
            "list the servers, or a name of which DNS tells the addresses",
        );
    }
    let Some(endpoints) = own.endpoints.written(ledger) else {
        ledger.not(section.id, "no server is left, so its routes answer 503");
        return None;
    };
    let mut keys = vec![("endpoints".to_owned(), endpoints)];
    keys.extend(cluster_keys(section, &own, ledger));
    Some(Part {
        from: section.id,
        title: format!("{}: {} {}", section.place, section.kind, section.name),
        name: name.to_owned(),
        keys,
    })
}

/// Returns the path of a Unix socket, as `bind` and `server` write it; none for other addresses.
pub(super) fn unix_path(address: &str) -> Option<&str> {
    let path = address.strip_prefix("unix@").unwrap_or(address);
    path.starts_with('/').then_some(path)
}

impl Backend {
    fn add(&mut self, line: &Line, defaults: &[String], ledger: &mut Ledger) {
        let address = line.word(2);
        let rest = line.words.get(3..).unwrap_or_default();
        let words: Vec<&str> = defaults.iter().chain(rest).map(String::as_str).collect();
        let after = |name: &str| {
            let at = words.iter().rposition(|word| *word == name)?;
            words.get(at + 1).copied()
        };
        // Of `ssl` and `no-ssl` the last one counts, if `default-server` has one of them.
        let has = |name: &str| {
            let last = |is: &dyn Fn(&str) -> bool| words.iter().rposition(|word| is(word));
            let off = last(&|word| word.strip_prefix("no-") == Some(name));
            last(&|word| word == name) > off
        };
        let path = unix_path(address);
        if path.is_none() && (address.starts_with(['@', '*']) || !address.contains(':')) {
            let told = "an endpoint is a host and a port, or a Unix socket with a path";
            return ledger.not(line.id, told);
        }
        if path.is_some_and(|path| !is_path(path)) {
            return ledger.not(line.id, BAD_PATH);
        }
        let address = path.map_or_else(|| address.to_owned(), |path| format!("unix:{path}"));
        if has("disabled") {
            return ledger.nearly(line.id, "it is disabled, so it is left out");
        }
        let mut doubts = Vec::new();
        let weight = after("weight").and_then(whole).unwrap_or(1);
        if weight == 0 {
            return ledger.nearly(line.id, "its weight is 0, so it is left out");
        }
        if let Some(count) = after("maxconn").and_then(whole).filter(|count| *count > 0) {
            self.max_conn = Some(self.max_conn.map_or(count, |own| own.min(count)));
        }
        if has("ssl") {
            doubts.extend(tls_doubts(&after));
        }
        if !self.takes_tls(has("ssl").then(|| tls(&after))) {
            doubts.push("the servers of a cluster have the same TLS: it is that of the last one");
        }
        self.http2 |= after("proto") == Some("h2") || after("alpn") == Some("h2");
        if has("send-proxy") {
            self.proxy_protocol = Some("v1");
        } else if words.iter().any(|word| word.starts_with("send-proxy-v2")) {
            self.proxy_protocol = Some("v2");
        }
        if has("check") {
            let span = after("inter").and_then(|own| time(own, 1));
            self.checks = Some(Checks {
                interval: span.filter(|own| !own.is_zero()),
                rise: after("rise").and_then(whole),
                fall: after("fall").and_then(whole),
            });
        }
        // Its name in a cookie is of no use: Sprat's names no endpoint.
        if has("track") || has("addr") || has("port") || has("slowstart") {
            doubts.push("`track`, `addr`, `port` and `slowstart` are left out");
        }
        if weight > 1000 {
            doubts.push("a weight is at most 1000");
        }
        match doubts.is_empty() {
            true => ledger.carried(line.id),
            false => ledger.nearly(line.id, doubts.join("; ")),
        }
        self.endpoints.add(Endpoint {
            id: line.id,
            address,
            weight: weight.min(1000),
            is_backup: has("backup"),
        });
    }

    /// Takes the TLS of a server, none if it speaks plain text. Returns whether it is that of all
    /// servers before.
    fn takes_tls(&mut self, own: Option<Map>) -> bool {
        let Some(own) = own else {
            self.has_plain = true;
            return self.tls.is_none();
        };
        let is_same = self.tls.as_ref().is_none_or(|other| *other == own);
        self.tls = Some(own);
        is_same && !self.has_plain
    }
}

/// Returns the keys of TLS to an endpoint; `after` returns the word after a parameter's name.
fn tls<'w>(after: &dyn Fn(&str) -> Option<&'w str>) -> Map {
    let mut tls = Map::new();
    if let Some(file) = after("ca-file").filter(|own| *own != "@system-ca") {
        tls.push(("trusted_ca".to_owned(), text(file)));
    }
    if let Some(name) = fixed_sni(after).or(after("verifyhost")) {
        tls.push(("sni".to_owned(), text(name)));
    }
    if let Some(file) = after("crt") {
        // A file of HAProxy's holds both.
        let certificate = [
            ("certificate_chain", text(file)),
            ("private_key", text(file)),
        ];
        tls.push(("client_certificate".to_owned(), map(certificate)));
    }
    tls
}

/// Returns the name that a server is asked for in TLS, if it is the same for all requests.
fn fixed_sni<'w>(after: &dyn Fn(&str) -> Option<&'w str>) -> Option<&'w str> {
    after("sni")?.strip_prefix("str(")?.strip_suffix(')')
}

/// Returns what Sprat does otherwise in TLS to a server.
fn tls_doubts<'w>(after: &dyn Fn(&str) -> Option<&'w str>) -> Vec<&'static str> {
    let mut out = Vec::new();
    if after("verify") != Some("required") {
        out.push("Sprat verifies certificates: see `trusted_ca` of the cluster's `tls`");
    }
    let (name, host) = (fixed_sni(after), after("verifyhost"));
    if after("sni").is_some() && name.is_none() {
        out.push("no request tells the name that is asked for in TLS: see `sni`");
    }
    if name.zip(host).is_some_and(|(name, host)| name != host) {
        out.push("certificates have to be for `sni`, not for the name in `verifyhost`");
    }
    if after("crl-file").is_some() {
        out.push("`crl-file` is left out, so revoked certificates of servers are accepted");
    }
    out
}

fn cluster_keys(section: &Section, servers: &Backend, ledger: &mut Ledger) -> Map {
    let mut out = vec![("dispatch".to_owned(), dispatch(section, ledger))];
    let mut put = |key: &str, value: Value| out.push((key.to_owned(), value));
    if let Some(count) = servers.max_conn {
        put("max_requests", word(count.min(10_000_000)));
    }
    for (name, key) in [("connect", "connect_timeout"), ("queue", "")] {
        let Some(line) = section.one(&["timeout", name]) else {
            continue;
        };
        let Some(span) = time(line.word(2), 1).filter(|own| !own.is_zero()) else {
            ledger.not(line.id, "times are above 0");
            continue;
        };
        ledger.carried(line.id);
        match key {
            "" => put("wait_queue", map([("timeout", time_value(span))])),
            key => put(key, time_value(span)),
        }
    }
    if let Some(session) = section
        .one(&["cookie"])
        .and_then(|own| session(own, ledger))
    {
        put(sessions::KEY, session);
    }
    if let Some(checks) = health_checks(section, servers, ledger) {
        put("health_checks", checks);
    }
    if let Some(tls) = &servers.tls {
        put("tls", Value::Map(tls.clone()));
    }
    if servers.http2 {
        put("http2", Value::Map(Map::new()));
    }
    if let Some(version) = servers.proxy_protocol {
        put("proxy_protocol", word(version));
    }
    out
}

/// Returns a cluster's sessions, as `cookie NAME insert` keeps them; none for other cookies.
fn session(line: &Line, ledger: &mut Ledger) -> Option<Value> {
    let rest = line.words.get(2..).unwrap_or_default();
    let words: Vec<&str> = rest.iter().map(String::as_str).collect();
    if !words.contains(&"insert") || line.word(1).is_empty() {
        let told = "Sprat edits no cookies of backends: see `stateful_session`";
        ledger.not(line.id, told);
        return None;
    }
    let after = |name: &str| {
        let at = words.iter().position(|word| *word == name)?;
        words.get(at + 1).copied()
    };
    let cookie = Cookie {
        name: line.word(1),
        domain: after("domain"),
        secure: words.contains(&"secure"),
        ..Cookie::default()
    };
    let differs = [
        "indirect", "maxidle", "maxlife", "postonly", "preserve", "dynamic", "attr",
    ];
    match words.iter().any(|word| differs.contains(word)) {
        true => ledger.nearly(
            line.id,
            "the cookie goes on to backends, and lasts as long as `ttl` says",
        ),
        false => ledger.carried(line.id),
    }
    Some(cookie.value())
}

fn dispatch(section: &Section, ledger: &mut Ledger) -> Value {
    let Some(line) = section.one(&["balance"]) else {
        return word("round_robin");
    };
    let by = |key: &str| map([("name", word("maglev")), ("key", word(key))]);
    let found = match line.word(1) {
        "roundrobin" | "static-rr" => word("round_robin"),
        "leastconn" => word("least_request"),
        "source" => by("client"),
        "uri" => {
            ledger.nearly(line.id, hash_doubt(line));
            by("url")
        }
        "random" | "random(2)" => word("p2c"),
        "random(1)" => word("random"),
        _ => {
            ledger.not(
                line.id,
                "hashes are of the client or the URL: dispatch is in turn",
            );
            return word("round_robin");
        }
    };
    ledger.carried(line.id);
    found
}

/// Returns how Sprat's hash of the URL differs from that of a `balance uri`.
fn hash_doubt(line: &Line) -> String {
    let more = match line.has("whole") {
        true => "the host",
        false => "the host and the query",
    };
    let cut = match line.has("len") || line.has("depth") {
        true => ", and of the whole path",
        false => "",
    };
    format!("the hash is of {more}, too{cut}")
}

fn health_checks(section: &Section, servers: &Backend, ledger: &mut Ledger) -> Option<Value> {
    let option = section.option("httpchk");
    let sends = section.all(&["http-check", "send"]);
    let expects = section.all(&["http-check", "expect"]);
    let mut http = Map::new();
    if let Some(line) = option {
        ledger.carried(line.id);
        let (method, path) = match line.words.len() {
            0..=2 => ("OPTIONS", "/"),
            3 => ("GET", line.word(2)),
            _ => (line.word(2), line.word(3)),
        };
        http.push(("path".to_owned(), text(path)));
        http.push(("method".to_owned(), text(method)));
    }
    for line in sends {
        ledger.carried(line.id);
        let mut set = |key: &str, value: Option<&str>| {
            let Some(value) = value else { return };
            http.retain(|(own, _)| own != key);
            http.push((key.to_owned(), text(value)));
        };
        set("path", line.after("uri"));
        set("method", line.after("meth"));
        if line
            .words
            .windows(2)
            .any(|pair| pair[0] == "hdr" && pair[1].eq_ignore_ascii_case("host"))
        {
            let host = line
                .words
                .iter()
                .position(|own| own.eq_ignore_ascii_case("host"));
            set(
                "host",
                host.and_then(|at| line.words.get(at + 1))
                    .map(String::as_str),
            );
        }
    }
    for line in expects {
        match (line.word(2), line.word(3)) {
            ("status", codes) if !line.has("!") => {
                ledger.carried(line.id);
                let codes = codes.split(',').map(text).collect();
                http.push(("expected_statuses".to_owned(), Value::List(codes)));
            }
            _ => ledger.not(
                line.id,
                "checks look at the status: see `expected_statuses`",
            ),
        }
    }
    let checks = servers.checks.as_ref()?;
    let mut out = Map::new();
    match option.is_some() {
        true => out.push(("http_health_check".to_owned(), Value::Map(http))),
        false => out.push(("tcp_health_check".to_owned(), Value::Map(Map::new()))),
    }
    let interval = checks.interval.unwrap_or(Duration::from_secs(2));
    out.push(("interval".to_owned(), time_value(interval)));
    if let Some(line) = section.one(&["timeout", "check"]) {
        ledger.carried(line.id);
        if let Some(span) = time(line.word(2), 1).filter(|own| !own.is_zero()) {
            out.push(("timeout".to_owned(), time_value(span)));
        }
    }
    let counts = [
        ("healthy_threshold", checks.rise),
        ("unhealthy_threshold", checks.fall),
    ];
    for (key, count) in counts {
        if let Some(count) = count.filter(|own| (1..=1000).contains(own)) {
            out.push((key.to_owned(), word(count)));
        }
    }
    Some(Value::Map(out))
}

/// Returns the keys that a backend's section gives a route to it.
pub(super) fn route_keys(section: &Section, ledger: &mut Ledger) -> Map {
    let mut out = Map::new();
    let mut put = |key: &str, value: Value| out.push((key.to_owned(), value));
    let mut span = |name: &str| {
        let line = section.one(&["timeout", name])?;
        ledger.carried(line.id);
        time(line.word(2), 1).filter(|own| !own.is_zero())
    };
    if let Some(span) = span("server") {
        put("response_timeout", time_value(span));
        put("idle_timeout", time_value(span));
    }
    if let Some(span) = span("tunnel") {
        put("upgrade", map([("idle_timeout", time_value(span))]));
    }
    let retries = section.one(&["retries"]);
    let reasons = section.one(&["retry-on"]);
    let mut policy = Map::new();
    if let Some(line) = reasons {
        let mut own = Vec::new();
        for reason in &line.words[1..] {
            own.push(match reason.as_str() {
                "none" => {
                    own.clear();
                    break;
                }
                "all-retryable-errors" => {
                    own.extend([
                        "connect-failure",
                        "refused-stream",
                        "reset",
                        "gateway-error",
                    ]);
                    continue;
                }
                "conn-failure" => "connect-failure",
                "empty-response" | "junk-response" | "response-timeout" => "reset",
                "0rtt-rejected" => continue,
                "500" | "502" | "503" | "504" => "5xx",
                _ => continue,
            });
        }
        own.dedup();
        match own.is_empty() {
            true => ledger.not(line.id, "see `retry_on` of the route's `retry_policy`"),
            false => {
                match own.contains(&"5xx") {
                    true => ledger.nearly(line.id, "any response of 5xx is a reason, then"),
                    false => ledger.carried(line.id),
                }
                policy.push(("retry_on".to_owned(), crate::yaml::texts(own)));
            }
        }
    }
    if let Some(line) = retries {
        ledger.carried(line.id);
        if let Some(count) = whole(line.word(1)) {
            policy.push(("num_retries".to_owned(), word(count.min(100))));
        }
    }
    if !policy.is_empty() {
        put("retry_policy", Value::Map(policy));
    }
    out
}
