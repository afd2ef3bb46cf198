//! HAProxy's backends as clusters, and their settings for requests.

use std::time::Duration;

use super::parse::{Line, Section};
use super::server::{Checks, ServerLine, Speech};
use crate::document::{Part, is_of_check};
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
    /// The protocols of the last server.
    speaks: Option<Speech>,
    slow_start: Option<Duration>,
    checks: Option<Checks>,
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
        let server = ServerLine::of(line, defaults);
        let path = unix_path(address);
        if path.is_none() && (address.starts_with(['@', '*']) || !address.contains(':')) {
            let told = "an endpoint is a host and a port, or a Unix socket with a path";
            return ledger.not(line.id, told);
        }
        if path.is_some_and(|path| !is_path(path)) {
            return ledger.not(line.id, BAD_PATH);
        }
        let address = path.map_or_else(|| address.to_owned(), |path| format!("unix:{path}"));
        if server.has("disabled") {
            return ledger.nearly(line.id, "it is disabled, so it is left out");
        }
        let mut doubts = Vec::new();
        let weight = server.after("weight").and_then(whole).unwrap_or(1);
        if weight == 0 {
            return ledger.nearly(line.id, "its weight is 0, so it is left out");
        }
        if let Some(count) = server
            .after("maxconn")
            .and_then(whole)
            .filter(|count| *count > 0)
        {
            self.max_conn = Some(self.max_conn.map_or(count, |own| own.min(count)));
        }
        if server.has("ssl") {
            doubts.extend(server.tls_doubts());
        }
        if !self.takes_tls(server.has("ssl").then(|| server.tls())) {
            doubts.push("the servers of a cluster have the same TLS: it is that of the last one");
        }
        let speech = server.speech();
        let before = self.speaks.replace(speech);
        if before.is_some_and(|other| other != speech) {
            doubts.push(
                "the servers of a cluster have the same `http2` and `proxy_protocol`: they are \
                 those of the last one",
            );
        }
        self.slow_start = self.slow_start.max(server.time("slowstart"));
        self.checks = server.checks().or(self.checks.take());
        // Its name in a cookie is of no use: Sprat's names no endpoint.
        if server.has("track") || server.has("addr") || server.has("port") {
            doubts.push("`track`, `addr` and `port` are left out");
        }
        if weight > 1000 {
            doubts.push("a weight is at most 1000");
        }
        let mut told: Vec<String> = doubts.into_iter().map(str::to_owned).collect();
        told.extend(server.remarks());
        match told.is_empty() {
            true => ledger.carried(line.id),
            false => ledger.nearly(line.id, told.join("; ")),
        }
        self.endpoints.add(Endpoint {
            id: line.id,
            address,
            weight: weight.min(1000),
            is_backup: server.has("backup"),
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
    if let Some(span) = servers.slow_start {
        put("slow_start", time_value(span));
    }
    let speech = servers.speaks.unwrap_or_default();
    if speech.http2 {
        put("http2", Value::Map(Map::new()));
    }
    if let Some(version) = speech.proxy_protocol {
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

/// The method of checks, if none is given.
const DEFAULT_METHOD: &str = "OPTIONS";

/// The request of a health check, as far as Sprat's checks can send it.
struct CheckRequest<'l> {
    method: String,
    path: &'l str,
    host: Option<&'l str>,
}

impl<'l> CheckRequest<'l> {
    /// Reads `option httpchk`, after whose version fields may stand, and then the host by itself.
    fn of(line: &'l Line, ledger: &mut Ledger) -> Self {
        let (method, path) = match line.words.len() {
            0..=2 => (DEFAULT_METHOD, "/"),
            3 => (DEFAULT_METHOD, line.word(2)),
            _ => (line.word(2), line.word(3)),
        };
        let mut own = Self {
            method: DEFAULT_METHOD.to_owned(),
            path: "/",
            host: None,
        };
        let mut is_whole = own.takes_method(method);
        is_whole &= own.takes_path(path);
        let fields = line.word(4).lines().skip(1);
        for field in fields.filter(|field| !field.is_empty()) {
            let (name, value) = field.split_once(':').unwrap_or((field, ""));
            is_whole &= own.takes(name, value);
        }
        if !line.word(5).is_empty() {
            is_whole &= own.takes("host", line.word(5));
        }
        tell_of_request(line, is_whole, ledger);
        own
    }

    /// Reads `http-check send`, which replaces what `option httpchk` says.
    fn send(&mut self, line: &'l Line, ledger: &mut Ledger) {
        let mut is_whole = true;
        let mut words = line.words.iter().skip(2).map(String::as_str);
        while let Some(name) = words.next() {
            let value = words.next().unwrap_or_default();
            match name {
                "meth" => is_whole &= self.takes_method(value),
                "uri" => is_whole &= self.takes_path(value),
                "hdr" => is_whole &= self.takes(value, words.next().unwrap_or_default()),
                "ver" | "comment" => {}
                _ => is_whole = false,
            }
        }
        tell_of_request(line, is_whole, ledger);
    }

    /// Takes a method over, in upper case. Returns whether checks can send it as it is written.
    fn takes_method(&mut self, method: &str) -> bool {
        let upper = method.to_ascii_uppercase();
        self.method = match is_of_check("method", &upper) {
            true => upper,
            false => DEFAULT_METHOD.to_owned(),
        };
        self.method == method
    }

    /// Takes a path over, and returns whether checks can ask for it; if not, they ask for `/`.
    fn takes_path(&mut self, path: &'l str) -> bool {
        let is_sent = is_of_check("path", path);
        self.path = if is_sent { path } else { "/" };
        is_sent
    }

    /// Takes a field over, and returns whether checks can send it: a fixed `Host`.
    fn takes(&mut self, name: &str, value: &'l str) -> bool {
        let value = value.trim();
        let is_host = name.trim().eq_ignore_ascii_case("host");
        let is_sent = is_host && is_of_check("host", value);
        if is_sent {
            self.host = Some(value);
        }
        is_sent
    }
}

/// Notes whether checks send all that a line asks for.
fn tell_of_request(line: &Line, is_whole: bool, ledger: &mut Ledger) {
    match is_whole {
        true => ledger.carried(line.id),
        false => ledger.nearly(
            line.id,
            "a check has a method in upper case, a fixed path that begins with `/`, a fixed \
             `Host`, no other fields and no body: the rest is left out",
        ),
    }
}

/// Returns the keys of a check by HTTP, as `option httpchk` and `http-check` have it.
fn http_check(section: &Section, option: &Line, ledger: &mut Ledger) -> Map {
    let mut request = CheckRequest::of(option, ledger);
    let mut sent = section.all(&["http-check", "send"]).into_iter();
    if let Some(line) = sent.next() {
        request.send(line, ledger);
    }
    for line in sent {
        ledger.not(line.id, "a check is one request: the first one counts");
    }
    let mut statuses = None;
    for line in section.all(&["http-check", "expect"]) {
        let found = match line.word(2) {
            "status" if statuses.is_none() => status_ranges(line.word(3)),
            _ => None,
        };
        match found {
            Some(_) => {
                ledger.carried(line.id);
                statuses = found;
            }
            None => ledger.not(
                line.id,
                "checks look at the status, by one list: see `expected_statuses`",
            ),
        }
    }
    // Those that HAProxy expects of its own accord.
    let statuses = statuses.unwrap_or_else(|| vec![word("200-399")]);
    let mut out = vec![
        ("path".to_owned(), text(request.path)),
        ("method".to_owned(), text(request.method)),
    ];
    out.extend(request.host.map(|own| ("host".to_owned(), text(own))));
    out.push(("expected_statuses".to_owned(), Value::List(statuses)));
    out
}

/// Returns the statuses and ranges of a list with commas; none if checks expect no such statuses.
fn status_ranges(list: &str) -> Option<Vec<Value>> {
    let is_status = |code: &u64| (200..=599).contains(code);
    let each = list.split(',').map(|own| {
        let (from, to) = own.split_once('-').unwrap_or((own, own));
        let from = whole(from).filter(is_status)?;
        let to = whole(to).filter(is_status)?;
        match from == to {
            true => Some(word(from)),
            false => (from < to).then(|| word(format!("{from}-{to}"))),
        }
    });
    each.collect()
}

fn health_checks(section: &Section, servers: &Backend, ledger: &mut Ledger) -> Option<Value> {
    let option = section.option("httpchk");
    let http = option.map(|line| http_check(section, line, ledger));
    let checks = servers.checks.as_ref()?;
    let mut out = Map::new();
    out.push(match http {
        Some(http) => ("http_health_check".to_owned(), Value::Map(http)),
        None => ("tcp_health_check".to_owned(), Value::Map(Map::new())),
    });
    let interval = checks.interval.unwrap_or(Duration::from_secs(2));
    out.push(("interval".to_owned(), time_value(interval)));
    // What HAProxy has as the time of a whole check, unless `timeout check` says otherwise.
    let mut span = interval;
    if let Some(line) = section.one(&["timeout", "check"]) {
        ledger.carried(line.id);
        let given = time(line.word(2), 1).filter(|own| !own.is_zero());
        span = given.unwrap_or(span);
    }
    out.push(("timeout".to_owned(), time_value(span)));
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
