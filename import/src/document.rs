//! The configuration that an import makes: listeners, clusters, classes and routes, each with the
//! directive that it comes from. Directives that could not be carried over are written beside them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};

use crate::files::{Fault, Place};
use crate::ledger::{Id, Ledger, Note, Outcome, Summary};
use crate::yaml::{Map, Value, map, text, texts, word, write_map};

/// A configuration of Sprat, and the outcome of each directive that it was made from.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The configuration in YAML, which `sprat check` accepts.
    pub yaml: String,
    /// The outcome of each directive, in the order of the files.
    pub summary: Summary,
}

/// The paths that a route takes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum PathIs {
    #[default]
    Any,
    Exact(String),
    /// The path and all below it. The path ends with a slash, or is read as if it did.
    Prefix(String),
    Regex(String),
}

/// The requests that a route takes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Match {
    pub(crate) hosts: Vec<String>,
    pub(crate) path: PathIs,
    pub(crate) methods: Vec<String>,
    pub(crate) headers: Vec<Value>,
    pub(crate) parameters: Vec<Value>,
    pub(crate) cookies: Vec<Value>,
    pub(crate) clients: Vec<String>,
}

impl Match {
    fn to_map(&self) -> Map {
        let mut out = Vec::new();
        let mut put = |key: &str, value: Value| out.push((key.to_owned(), value));
        if !self.hosts.is_empty() {
            put("hosts", texts(&self.hosts));
        }
        match &self.path {
            PathIs::Any => {}
            PathIs::Exact(path) => put("path", text(path)),
            PathIs::Prefix(path) => put("prefix", text(path)),
            PathIs::Regex(regex) => put("safe_regex", text(regex)),
        }
        if !self.methods.is_empty() {
            put("methods", texts(&self.methods));
        }
        let lists = [
            ("headers", &self.headers),
            ("query_parameters", &self.parameters),
            ("cookies", &self.cookies),
        ];
        for (key, list) in lists {
            if !list.is_empty() {
                put(key, Value::List(list.clone()));
            }
        }
        if !self.clients.is_empty() {
            put("clients", texts(&self.clients));
        }
        out
    }
}

/// A route of the configuration that is made.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    /// The directive that the route comes from, with a title for a comment.
    pub(crate) from: Id,
    pub(crate) title: String,
    pub(crate) matches: Match,
    /// The keys of the route: one action, and the keys that belong to it.
    pub(crate) keys: Map,
    /// Whether the route takes only requests that came in plain text.
    pub(crate) is_for_plain: bool,
}

impl Route {
    fn to_map(&self) -> Map {
        let matches = self.matches.to_map();
        let mut out = Vec::new();
        if !matches.is_empty() {
            out.push(("match".to_owned(), Value::Map(matches)));
        }
        out.extend(self.keys.clone());
        out
    }

    /// Returns the status that the route answers, if it answers and has no other keys yet.
    pub(crate) fn answers(&self) -> Option<u16> {
        let [(_, Value::Map(response))] = &self.keys[..] else {
            return None;
        };
        let status = response.iter().find(|(key, _)| key == "status");
        match status.filter(|_| self.keys[0].0 == "direct_response") {
            Some((_, Value::Word(status))) => status.parse().ok(),
            _ => None,
        }
    }

    /// Returns the clusters that the route names.
    fn clusters(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        collect(&self.keys, &mut found);
        found
    }

    /// Replaces the route's action by an answer of 403 to all requests.
    pub(crate) fn refuse(&mut self) {
        self.keys = vec![("direct_response".to_owned(), map([("status", word(403))]))];
        self.is_for_plain = false;
    }
}

/// Collects the names of clusters, which are the values of `cluster`, at any depth.
fn collect(keys: &Map, found: &mut BTreeSet<String>) {
    for (key, value) in keys {
        match value {
            Value::Text(name) if key == "cluster" => {
                found.insert(name.clone());
            }
            Value::Map(inner) => collect(inner, found),
            Value::List(list) => {
                for item in list {
                    if let Value::Map(inner) = item {
                        collect(inner, found);
                    }
                }
            }
            _ => {}
        }
    }
}

/// A listener or a cluster of the configuration that is made.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) from: Id,
    pub(crate) title: String,
    pub(crate) name: String,
    pub(crate) keys: Map,
}

impl Part {
    /// Returns the IP address that a listener has; none if it has a Unix socket.
    fn address(&self) -> Option<SocketAddr> {
        match self.keys.iter().find(|(key, _)| key == "address")? {
            (_, Value::Text(own)) => own.parse().ok(),
            _ => None,
        }
    }
}

/// The port of the admin listener, which is at 127.0.0.1 unless the configuration says otherwise.
const ADMIN_PORT: u16 = 9900;

/// All parts of the configuration that is made.
#[derive(Debug, Default)]
pub(crate) struct Document {
    pub(crate) listeners: Vec<Part>,
    pub(crate) clusters: Vec<Part>,
    pub(crate) routes: Vec<Route>,
    /// The classes, by name.
    pub(crate) classes: Map,
    pub(crate) class_rules: Vec<Value>,
    /// The other keys at the top of the file.
    pub(crate) top: Map,
}

/// The beginning of a file in which one part is tried.
const HEAD: &str = "version: 1\nadmin: off\n";

/// Returns the first fault of a configuration, in a line; none if Sprat accepts it.
fn refused(yaml: &str) -> Option<String> {
    let told = sprat_config::parse(yaml, "", &|_| None).err()?;
    let told = told.to_string();
    let first = told.lines().next().unwrap_or_default();
    let first = first.trim_start_matches(|c: char| c == ':' || c == ' ' || c.is_ascii_digit());
    Some(first.trim_start_matches("error: ").to_owned())
}

/// Returns whether the request of a health check can have this value of a key.
pub(crate) fn is_of_check(key: &str, value: &str) -> bool {
    let request = map([(key, text(value))]).inline();
    let yaml = format!(
        "{HEAD}listeners: [{{address: 127.0.0.1:1}}]\nroutes: [{{cluster: a}}]\n\
         clusters: {{a: {{endpoints: ['127.0.0.1:1'], \
         health_checks: {{http_health_check: {request}}}}}}}\n"
    );
    refused(&yaml).is_none()
}

impl Document {
    /// Changes each part until Sprat accepts it, and writes them all.
    pub(crate) fn finish(
        mut self,
        ledger: &mut Ledger,
        program: &str,
        path: &str,
    ) -> Result<Imported, Fault> {
        let begin = Place {
            file: path.into(),
            line: 1,
        };
        self.repair_parts(ledger);
        if self.listeners.is_empty() {
            let told = "nothing here listens for HTTP: expected an address and a port";
            return Err(Fault::at(&begin, told));
        }
        self.move_admin(ledger);
        self.repair_routes(ledger);
        self.drop_unused(ledger);
        if self.routes.is_empty() {
            return Err(Fault::at(
                &begin,
                "nothing here is served: expected a server",
            ));
        }
        let summary = ledger.summary();
        let yaml = self.write(ledger, program, path);
        match refused(&yaml) {
            None => Ok(Imported { yaml, summary }),
            Some(told) => {
                let told = format!("what would come out is not a configuration of Sprat's: {told}");
                Err(Fault::at(&begin, told))
            }
        }
    }

    fn repair_parts(&mut self, ledger: &mut Ledger) {
        self.listeners.retain_mut(|part| {
            let wrong = |part: &Part| {
                let mut yaml = format!(
                    "{HEAD}routes: [{{direct_response: {{status: 404}}}}]\n\
                     clusters: {{a: {{endpoints: ['127.0.0.1:1']}}}}\nlisteners:\n"
                );
                write_map(&mut yaml, &part.keys, 4, "  - ");
                refused(&yaml)
            };
            repair(part, ledger, &wrong, "address")
        });
        self.clusters.retain_mut(|part| {
            let wrong = |part: &Part| {
                let mut yaml = format!(
                    "{HEAD}listeners: [{{address: 127.0.0.1:1}}]\n\
                     routes: [{{cluster: {0}}}]\nclusters:\n  {0}:\n",
                    part.name
                );
                write_map(&mut yaml, &part.keys, 4, "");
                refused(&yaml)
            };
            repair(part, ledger, &wrong, "endpoints")
        });
    }

    /// Moves the admin listener to another port, if a listener has its address.
    fn move_admin(&mut self, ledger: &mut Ledger) {
        let overlaps = |part: &&Part| {
            part.address().is_some_and(|own| {
                let ip = own.ip().to_canonical();
                own.port() == ADMIN_PORT && (ip.is_unspecified() || ip == Ipv4Addr::LOCALHOST)
            })
        };
        let Some(from) = self.listeners.iter().find(overlaps).map(|own| own.from) else {
            return;
        };
        let addresses = self.listeners.iter().filter_map(Part::address);
        let taken: BTreeSet<u16> = addresses.map(|own| own.port()).collect();
        let free = (ADMIN_PORT..=u16::MAX).find(|port| !taken.contains(port));
        let admin = match free {
            Some(port) => text(format!("127.0.0.1:{port}")),
            None => word("off"),
        };
        let told = format!(
            "the admin listener would be at port {ADMIN_PORT}, too: see `admin`, which is {}",
            admin.inline()
        );
        ledger.nearly(from, told);
        self.top.push(("admin".to_owned(), admin));
    }

    /// Makes routes that Sprat does not accept refuse the requests that they are for.
    fn repair_routes(&mut self, ledger: &mut Ledger) {
        let known: BTreeSet<String> = self.clusters.iter().map(|own| own.name.clone()).collect();
        self.routes.retain_mut(|route| {
            let missing = route
                .clusters()
                .into_iter()
                .find(|name| !known.contains(name));
            if missing.is_some() {
                // No endpoint is left: what nginx and HAProxy answer themselves.
                route.keys = vec![("direct_response".to_owned(), map([("status", word(502))]))];
            }
            let Some(told) = wrong_route(route) else {
                return true;
            };
            let told = format!("Sprat would not accept this ({told}), so it answers 403");
            ledger.not(route.from, told);
            route.refuse();
            if wrong_route(route).is_none() {
                return true;
            }
            route.matches = Match {
                hosts: std::mem::take(&mut route.matches.hosts),
                ..Match::default()
            };
            wrong_route(route).is_none()
        });
    }

    fn drop_unused(&mut self, ledger: &mut Ledger) {
        let used: BTreeSet<String> = self.routes.iter().flat_map(Route::clusters).collect();
        self.clusters.retain(|part| {
            let is_used = used.contains(&part.name);
            if !is_used {
                ledger.nearly(part.from, "no route leads there, so it is left out");
            }
            is_used
        });
        if self.clusters.is_empty() {
            // A file has clusters, if it needs none.
            self.clusters.push(Part {
                from: usize::MAX,
                title: "no route leads to a backend; a configuration has at least one".to_owned(),
                name: "none".to_owned(),
                keys: vec![("endpoints".to_owned(), texts(["127.0.0.1:9"]))],
            });
        }
    }

    fn write(&self, ledger: &Ledger, program: &str, path: &str) -> String {
        let parts = self.listeners.iter().chain(&self.clusters);
        let shown: BTreeSet<Id> = parts
            .map(|part| part.from)
            .chain(self.routes.iter().map(|route| route.from))
            .collect();
        let mut notes = Notes {
            by_block: ledger.exceptions(&|id| shown.contains(&id)),
        };
        let mut out = format!(
            "# Made by `sprat import {program} {}`. Lines that begin with a place in that\n\
             # file tell what Sprat does otherwise, or not at all: go through them.\n",
            path.replace(char::is_control, " ")
        );
        notes.write(&mut out, None, 0);
        out.push_str("version: 1\n");
        write_map(&mut out, &self.top, 0, "");
        out.push_str("\nlisteners:\n");
        for part in &self.listeners {
            let _ = writeln!(out, "  # {}", part.title);
            notes.write(&mut out, Some(part.from), 2);
            write_map(&mut out, &part.keys, 4, "  - ");
        }
        out.push_str("\nclusters:\n");
        for part in &self.clusters {
            let _ = writeln!(out, "  # {}", part.title);
            notes.write(&mut out, Some(part.from), 2);
            let _ = writeln!(out, "  {}:", part.name);
            write_map(&mut out, &part.keys, 4, "");
        }
        if !self.classes.is_empty() {
            out.push_str("\nclasses:\n");
            write_map(&mut out, &self.classes, 2, "");
            out.push_str("class_rules:\n");
            for rule in &self.class_rules {
                let _ = writeln!(out, "  - {}", rule.inline());
            }
        }
        out.push_str("\nroutes:\n");
        let mut last = "";
        for route in &self.routes {
            if route.title != last {
                let _ = writeln!(out, "  # {}", route.title);
            }
            last = &route.title;
            notes.write(&mut out, Some(route.from), 2);
            write_map(&mut out, &route.to_map(), 4, "  - ");
        }
        out
    }
}

/// Returns the fault of a route by itself; none if Sprat accepts it.
fn wrong_route(route: &Route) -> Option<String> {
    let mut clusters = route.clusters();
    clusters.insert("a".to_owned());
    let mut yaml = format!("{HEAD}listeners: [{{address: 127.0.0.1:1}}]\nclusters:\n");
    for name in clusters {
        let _ = writeln!(yaml, "  {name}: {{endpoints: ['127.0.0.1:1']}}");
    }
    yaml.push_str("routes:\n");
    write_map(&mut yaml, &route.to_map(), 4, "  - ");
    refused(&yaml)
}

/// The keys of a part that keep it closed: without them more clients could reach it, or read what
/// it sends.
const CLOSES: [&str; 5] = ["tls", "proxy_protocol", "mode", "owner", "group"];

/// Repairs a part that Sprat refuses: takes away all keys but `needed` and those that keep it
/// closed. Returns whether Sprat accepts what stays; if not, the part is left out.
fn repair(
    part: &mut Part,
    ledger: &mut Ledger,
    wrong: &dyn Fn(&Part) -> Option<String>,
    needed: &str,
) -> bool {
    let Some(told) = wrong(part) else {
        return true;
    };
    let stays = |key: &str| key == needed || CLOSES.contains(&key);
    part.keys.retain(|(key, _)| stays(key));
    let is_accepted = wrong(part).is_none();
    let end = if is_accepted { "" } else { "; it is left out" };
    let told = format!("Sprat would not accept all of this: {told}{end}");
    ledger.not(part.from, told);
    is_accepted
}

/// The notes that are still to be written, by the block that each stands in.
struct Notes {
    by_block: BTreeMap<Option<Id>, Vec<Note>>,
}

impl Notes {
    /// Writes the notes of a block, if they have not been written yet.
    fn write(&mut self, out: &mut String, block: Option<Id>, indent: usize) {
        for note in self.by_block.remove(&block).unwrap_or_default() {
            debug_assert!(note.outcome != Outcome::Carried);
            let line = note.to_string().replace(char::is_control, " ");
            let _ = writeln!(out, "{:indent$}# {line}", "");
        }
    }
}
