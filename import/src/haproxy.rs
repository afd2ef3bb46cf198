//! HAProxy's configuration: the conversion of its sections to Sprat's.

mod acls;
mod backends;
mod bind_options;
mod formats;
mod listeners;
mod options;
mod parse;
mod replacements;
mod rules;
mod server;
mod spot;

use std::collections::BTreeMap;

use self::acls::Acls;
use self::parse::{Line, Section};
use self::rules::Rules;
use self::spot::Spot;
use crate::document::{Document, Imported, Part, PathIs, Route};
use crate::files::{Fault, Files, Place, Reader};
use crate::ledger::Ledger;
use crate::limits::MAX_ROUTES;
use crate::options::Options;
use crate::transports::Transports;
use crate::units::{rate_value, size};
use crate::yaml::{Map, map, text, word};

pub(crate) fn import(
    path: &str,
    files: &mut dyn Files,
    options: &Options,
) -> Result<Imported, Fault> {
    let mut ledger = Ledger::default();
    let sections = parse::read(path, Reader::new(files), &mut ledger)?;
    let begin = Place {
        file: path.into(),
        line: 1,
    };
    let mut document = Document::default();
    if !convert(&sections, &mut document, &mut ledger, options) {
        let told = format!("more than {MAX_ROUTES} routes would come of it");
        return Err(Fault::at(&begin, told));
    }
    settle(&sections, &mut ledger);
    ledger.close("`sprat import` does not know it");
    document.finish(&mut ledger, "haproxy", path)
}

/// Returns whether a section serves HTTP: HAProxy's default is TCP.
fn is_http(section: &Section) -> bool {
    section
        .one(&["mode"])
        .is_some_and(|line| line.word(1) == "http")
}

/// Puts what the sections ask for into a document; returns whether that kept within the bounds.
fn convert(
    sections: &[Section],
    document: &mut Document,
    ledger: &mut Ledger,
    options: &Options,
) -> bool {
    let frontends = choose(sections, options, ledger);
    let forwards = |own: &&Section| own.option("forwardfor").is_some();
    let x_forwarded = sections
        .iter()
        .filter(|own| own.kind != "defaults")
        .any(|own| forwards(&own));
    for line in sections.iter().filter_map(|own| own.option("forwardfor")) {
        let told = "what clients say there themselves is left out, unless `trusted` of the \
                    listener's `forwarding` has them";
        ledger.nearly(line.id, told);
    }
    let by_name = sections
        .iter()
        .filter(|own| matches!(&*own.kind, "backend" | "listen"));
    let mut backends = Backends {
        sections: by_name.map(|own| (own.name.as_str(), own)).collect(),
        made: BTreeMap::new(),
        parts: Vec::new(),
        depth: 0,
    };
    let mut rules = Rules {
        ledger,
        x_forwarded,
        steps: 0,
    };
    let mut found: Vec<(&Section, Vec<Route>)> = Vec::new();
    for section in frontends {
        let routes = frontend(section, &mut rules, &mut backends);
        found.push((section, routes));
    }
    let is_few = rules.steps <= MAX_ROUTES;
    merge(found, document, ledger);
    document.clusters = backends.parts;
    let chosen = frontends_of(sections, options);
    document.listeners = listeners::parts(&chosen, x_forwarded, ledger);
    for section in chosen {
        limits(section, document, ledger);
    }
    is_few && document.routes.len() <= MAX_ROUTES
}

/// Returns the sections that clients connect to: one in plain text, and one over TLS.
fn frontends_of<'s>(sections: &'s [Section], options: &Options) -> Vec<&'s Section> {
    let all: Vec<&Section> = sections
        .iter()
        .filter(|own| matches!(&*own.kind, "frontend" | "listen") && is_http(own))
        .filter(|own| listeners::listens(own))
        .collect();
    let is_wanted = |own: &&&Section| {
        let ports = listeners::ports(own);
        match options.ports.is_empty() {
            true => ports.iter().any(|port| [80, 443].contains(port)),
            false => ports.iter().any(|port| options.ports.contains(port)),
        }
    };
    let mut wanted: Vec<&Section> = all.iter().filter(is_wanted).copied().collect();
    if wanted.is_empty() && options.ports.is_empty() {
        wanted.extend(all.first());
    }
    let plain = wanted.iter().find(|own| !listeners::speaks(own).tls);
    let tls = wanted.iter().find(|own| listeners::speaks(own).tls);
    plain.into_iter().chain(tls).copied().collect()
}

fn choose<'s>(sections: &'s [Section], options: &Options, ledger: &mut Ledger) -> Vec<&'s Section> {
    let chosen = frontends_of(sections, options);
    for section in sections
        .iter()
        .filter(|own| matches!(&*own.kind, "frontend" | "listen"))
    {
        if chosen.iter().any(|own| own.id == section.id) {
            ledger.carried(section.id);
            continue;
        }
        let told = match (is_http(section), listeners::ports(section).first()) {
            (false, _) => "Sprat is a proxy for HTTP alone (`mode http`)".to_owned(),
            (true, Some(port)) => format!(
                "Sprat's routes are those of all its listeners: import it by itself, with \
                 `--port {port}`, for another Sprat"
            ),
            (true, None) if section.kind == "listen" => continue,
            (true, None) => "it listens nowhere that Sprat could".to_owned(),
        };
        ledger.not(section.id, told);
        for line in &section.lines {
            ledger.not(line.id, "left out with the section that it stands in");
        }
    }
    chosen
}

/// Returns the rules of a section, in the order in which HAProxy applies them.
fn rules_of(section: &Section) -> Vec<&Line> {
    let mut out: Vec<&Line> = Vec::new();
    // What is done with backends' responses is not done with answers given before.
    let kinds: [&[&str]; 9] = [
        &["http-after-response"],
        &["tcp-request", "connection"],
        &["tcp-request", "session"],
        &["tcp-request", "content"],
        &["block"],
        &["http-request"],
        &["redirect"],
        &["tcp-response", "content"],
        &["http-response"],
    ];
    for kind in kinds {
        let is_asked = |line: &&Line| line.has("if") || line.has("unless");
        // What a response tells no route goes by; some of them must not get out.
        let is_left_out = |line: &&Line| {
            kind[0].ends_with("response") && is_asked(line) && !rules::keeps_responses(line)
        };
        let lines = section.all(kind);
        out.extend(lines.into_iter().filter(|line| !is_left_out(line)));
    }
    out
}

fn frontend(section: &Section, rules: &mut Rules<'_>, backends: &mut Backends<'_>) -> Vec<Route> {
    let acls = Acls::of(section, rules.ledger);
    let title = format!("{}: {} {}", section.place, section.kind, section.name);
    let mut spot = Spot::new(section.id, title, listeners::speaks(section));
    spot.is_proxied = section
        .all(&["bind"])
        .iter()
        .any(|line| line.has("accept-proxy"));
    let mut list = rules_of(section);
    list.extend(section.all(&["use_backend"]));
    let default = section.one(&["default_backend"]);
    if let Some(line) = default {
        rules.ledger.carried(line.id);
    }
    let mut out = Vec::new();
    if let Some(line) = section.one(&["monitor-uri"]) {
        rules.ledger.carried(line.id);
        let mut own = spot.clone();
        own.matches.path = PathIs::Exact(line.word(1).to_owned());
        // Only what is asked of connections comes before it.
        let mut first = section.all(&["tcp-request", "connection"]);
        first.extend(section.all(&["tcp-request", "session"]));
        let found = rules.go(&own, &first, &acls, &mut |_, spot, _| {
            vec![spot.respond(200)]
        });
        out.extend(found);
    }
    let routes = rules.go(
        &spot,
        &list,
        &acls,
        &mut |rules, spot, line| match line.or(default) {
            Some(line) => backends.lead(spot, line, rules),
            None if section.kind == "listen" => backends.forward(spot, section, rules),
            None => vec![spot.respond(503)],
        },
    );
    out.extend(routes);
    out
}

/// The backends, and the clusters that have been made of them.
struct Backends<'s> {
    sections: BTreeMap<&'s str, &'s Section>,
    /// The cluster of each backend, by the backend's name; none if it has no cluster.
    made: BTreeMap<String, Option<String>>,
    parts: Vec<Part>,
    depth: usize,
}

impl Backends<'_> {
    /// Returns the routes of requests that go to the backend named in a line.
    fn lead(&mut self, spot: &Spot, line: &Line, rules: &mut Rules<'_>) -> Vec<Route> {
        let name = line.word(1);
        let Some(section) = self.sections.get(name).copied() else {
            let told = match name.contains("%[") {
                true => {
                    "routes name their clusters: have a `use_backend` for each value; until \
                     then it answers 503"
                }
                false => "there is no such backend, so it answers 503",
            };
            rules.ledger.not(line.id, told);
            return vec![spot.respond(503)];
        };
        rules.ledger.carried(section.id);
        let acls = Acls::of(section, rules.ledger);
        let list = rules_of(section);
        let mut spot = spot.clone();
        spot.from = section.id;
        spot.title = format!("{}, {} {}", spot.title, section.kind, section.name);
        self.depth += 1;
        let routes = rules.go(&spot, &list, &acls, &mut |rules, spot, _| {
            self.forward(spot, section, rules)
        });
        self.depth -= 1;
        routes
    }

    fn forward(&mut self, spot: &Spot, section: &Section, rules: &mut Rules<'_>) -> Vec<Route> {
        let made = match self.made.get(&section.name) {
            Some(made) => made.clone(),
            None => {
                let name = self.name_for(&section.name);
                let made = backends::part(section, &name, rules.ledger);
                self.parts.extend(made.clone());
                let made = made.map(|own| own.name);
                self.made.insert(section.name.clone(), made.clone());
                made
            }
        };
        let Some(cluster) = made else {
            return vec![spot.respond(503)];
        };
        let mut keys = vec![("cluster".to_owned(), text(cluster))];
        keys.extend(backends::route_keys(section, rules.ledger));
        spot.put_edits(&mut keys);
        vec![spot.route(keys)]
    }

    fn name_for(&self, name: &str) -> String {
        let valid = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let mut base: String = name
            .chars()
            .map(|c| if valid(c) { c } else { '-' })
            .take(48)
            .collect();
        let words = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
        let is_word = words.contains(&&*base.to_ascii_lowercase());
        if is_word || !base.starts_with(|c: char| c.is_ascii_alphabetic()) {
            base.insert_str(0, "to-");
        }
        let mut name = base.clone();
        let mut count = 2;
        while self.parts.iter().any(|own| own.name == name) {
            name = format!("{base}-{count}");
            count += 1;
        }
        name
    }
}

/// Puts the routes of the frontends together: those in plain text, then those over TLS.
fn merge(found: Vec<(&Section, Vec<Route>)>, document: &mut Document, ledger: &mut Ledger) {
    let mut found = found.into_iter();
    let Some((first, routes)) = found.next() else {
        return;
    };
    document.routes = routes;
    let Some((second, routes)) = found.next() else {
        return;
    };
    let does = |list: &[Route]| -> Vec<(crate::document::Match, Map)> {
        list.iter()
            .map(|own| (own.matches.clone(), own.keys.clone()))
            .collect()
    };
    if does(&document.routes) == does(&routes) {
        return;
    }
    if document.routes.iter().any(|own| !own.is_for_plain) {
        let told = format!(
            "what it serves in plain text is not what `{}` serves over TLS, and routes do not \
             tell ports apart: its clients are sent to TLS",
            second.name
        );
        ledger.not(first.id, told);
        document.routes.clear();
    }
    let redirect = map([("https_redirect", word("true"))]);
    let all = Spot::new(
        first.id,
        format!("{}: {} {}", first.place, first.kind, first.name),
        Transports::PLAIN,
    );
    let last = document.routes.last();
    let is_open = last.is_none_or(|own| own.matches != all.matches);
    if is_open {
        let mut guard = all.route(vec![("redirect".to_owned(), redirect)]);
        guard.is_for_plain = true;
        document.routes.push(guard);
    }
    document.routes.extend(routes);
}

/// Puts all responses into a class with a rate, if a filter bounds their rate.
fn limits(section: &Section, document: &mut Document, ledger: &mut Ledger) {
    for line in section.all(&["filter", "bwlim-out"]) {
        let rate = line
            .after("default-limit")
            .or(line.after("limit"))
            .and_then(size);
        let Some(rate) = rate.filter(|rate| *rate > 0) else {
            ledger.not(line.id, "the rate of a class is a fixed one");
            continue;
        };
        let told = "the class has the rate for all of its responses together, not for each; it \
                    counts where the uplink is paced";
        ledger.nearly(line.id, told);
        let name = "limit".to_owned();
        if document.classes.is_empty() {
            document
                .classes
                .push((name.clone(), map([("rate", rate_value(rate))])));
            let all = map([("prefix", text("/"))]);
            document
                .class_rules
                .push(map([("match", all), ("class", text(name))]));
        }
    }
}

/// The options that Sprat needs no setting for.
const NEEDLESS_OPTIONS: &str = "\
    abortonclose accept-invalid-http-request clitcpka contstats dontlog-normal dontlognull \
    forceclose http-buffer-request http-keep-alive http-no-delay http-server-close http-use-htx \
    httpclose httplog log-health-checks log-separate-errors nolinger prefer-last-server \
    redispatch socket-stats splice-auto splice-request splice-response srvtcpka tcp-smart-accept \
    tcp-smart-connect tcpka tcplog";

/// The lines that Sprat needs no setting for, by their first words.
const NEEDLESS: &str = "\
    chroot cpu-map daemon description group id log log-format log-tag maxconn mode nbproc \
    nbthread node pidfile stats ulimit-n user";

/// The lines that other modules carry over where they count, by their first words.
const USED: &str = "\
    acl balance bind block default-server default_backend filter http-check http-request \
    maxconn monitor-uri option redirect retries retry-on server tcp-request timeout use_backend";

/// Settles the outcomes of all lines that no other module has settled.
fn settle(sections: &[Section], ledger: &mut Ledger) {
    for section in sections {
        match &*section.kind {
            "global" | "defaults" => ledger.carried(section.id),
            "frontend" | "listen" | "backend" => {
                if !ledger.is_settled(section.id) {
                    ledger.nearly(section.id, "no route leads there, so it is left out");
                }
            }
            _ => {
                ledger.not(section.id, "Sprat has no such section");
                // They are told of with it.
                section
                    .lines
                    .iter()
                    .for_each(|line| ledger.carried(line.id));
            }
        }
        for line in &section.lines {
            if !ledger.is_settled(line.id) {
                settle_line(section, line, ledger);
            }
        }
    }
}

fn settle_line(section: &Section, line: &Line, ledger: &mut Ledger) {
    let first = line.word(0);
    let is_in = |list: &str, word: &str| list.split_whitespace().any(|own| own == word);
    let is_global = section.kind == "global";
    let is_needless = match first {
        "option" => is_in(NEEDLESS_OPTIONS, line.word(1)),
        "no" => true,
        _ if is_global => is_in(NEEDLESS, first) || first.starts_with("tune."),
        _ => is_in("mode log log-format log-tag description id", first),
    };
    match advice(line) {
        _ if is_needless => ledger.carried(line.id),
        Some(told) => ledger.not(line.id, told),
        None if is_in(USED, first) => {
            ledger.nearly(line.id, "no route that is carried over goes by it");
        }
        None => {}
    }
}

/// Returns the advice about a line that Sprat has no setting for.
fn advice(line: &Line) -> Option<&'static str> {
    Some(match (line.word(0), line.word(1)) {
        ("crt-base" | "ca-base" | "key-base", _) => "give `certificates` whole paths",
        (own, _) if own.starts_with("ssl-default-") => {
            "Sprat's ciphers are those with forward secrecy and AEAD, of TLS 1.2 and 1.3"
        }
        ("lua-load" | "lua-load-per-thread", _) => "Sprat runs no scripts",
        ("compression", _) => "see `compressor`, for all or for a route",
        ("errorfile" | "errorloc" | "errorloc302" | "errorloc303" | "errorfiles", _) => {
            "`error_pages` of a route takes a page without its head"
        }
        ("stick-table" | "stick", _) => {
            "see `rate_limit`, `per_client`, and `dispatch: {name: maglev, key: client}`"
        }
        ("cookie", _) => "see `stateful_session` of the cluster",
        ("stats", _) => "the admin listener tells of Sprat, at `/metrics`",
        ("http-check" | "option", "httpchk") => "a server has `check` to be checked",
        ("http-response" | "http-after-response", _) => "routes go by requests alone",
        ("tcp-request", "inspect-delay") => "see `request_headers_timeout` of the listener",
        ("tcp-response", _) => "routes go by requests alone",
        ("capture", _) => "the access log has its own fields",
        ("use-server", _) => "have a cluster of that server, and a route lead there",
        ("filter", _) => "Sprat runs no filters",
        ("fullconn", _) => "see `max_requests` of the cluster",
        ("email-alert", _) => "the admin listener's metrics tell of endpoints that are out",
        (
            "reqadd" | "reqrep" | "reqdel" | "rspadd" | "rspdel" | "rsprep" | "reqirep" | "reqidel",
            _,
        ) => "write it as `http-request` or `http-response`, and import it again",
        _ => return None,
    })
}
