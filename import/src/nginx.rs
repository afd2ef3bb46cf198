//! nginx's configuration: the conversion of its directives to Sprat's.

mod access_log;
mod authz;
mod bounds;
mod buffers;
mod clusters;
mod conditions;
mod content;
mod converter;
mod framing;
mod guards;
mod heads;
mod here;
mod known;
mod listeners;
mod locations;
mod parse;
mod pass;
mod redirects;
mod replacements;
mod rewrites;
mod scope;
mod servers;
mod steps;
mod variables;

use self::clusters::Clusters;
use self::converter::Converter;
use self::parse::{Directive, Parser};
pub(crate) use self::redirects::read as read_redirect;
use self::scope::Scope;
use crate::document::{Document, Imported};
use crate::files::{Fault, Files, Place, Reader};
use crate::ledger::{Ledger, Outcome};
use crate::limits::MAX_ROUTES;
use crate::networks::normal_network;
use crate::options::Options;
use crate::units::{size, size_value};
use crate::yaml::{Map, Value, texts, word};

/// The bound on bodies that nginx has by default.
const DEFAULT_BODY: &str = "1m";

pub(crate) fn import(
    path: &str,
    files: &mut dyn Files,
    options: &Options,
) -> Result<Imported, Fault> {
    let begin = Place {
        file: path.into(),
        line: 1,
    };
    let mut ledger = Ledger::default();
    let all = Parser::new(Reader::new(files), &mut ledger, path).file(path, &begin, 0, None)?;
    let blocks: Vec<&Directive> = all.iter().filter(|own| own.name == "http").collect();
    // A file of `conf.d` has what stands in the block.
    let http = match &blocks[..] {
        [] => &all[..],
        [one] => one.inner(),
        [_, second, ..] => return Err(Fault::at(&second.place, "there is a second `http`")),
    };
    let mut document = Document::default();
    if !convert(http, &mut document, &mut ledger, options) {
        let told = format!("more than {MAX_ROUTES} routes would come of it");
        return Err(Fault::at(&begin, told));
    }
    settle(&all, &mut ledger);
    ledger.close("`sprat import` does not know it");
    document.finish(&mut ledger, "nginx", path)
}

/// Puts what the block `http` asks for into a document; returns whether that kept within the
/// bounds.
fn convert(
    http: &[Directive],
    document: &mut Document,
    ledger: &mut Ledger,
    options: &Options,
) -> bool {
    let servers = listeners::servers(http, ledger);
    let servers = listeners::choose(servers, &options.ports, ledger);
    let scope = Scope::new(http);
    // What most servers say, the listeners say.
    let first = servers.first().map_or(&scope, |own| &own.scope);
    let body = first.one("client_max_body_size");
    let max_body = size(body.map_or(DEFAULT_BODY, |own| own.arg(0))).filter(|own| *own > 0);
    let (trusted, takes_addresses) = real_addresses(http, ledger);
    let has_forwarding = http.iter().any(tells_of_clients);
    let zones = http.iter().filter(|own| own.name == "limit_req_zone");
    let zones = zones.filter_map(|own| {
        let named = own.args.iter().find_map(|arg| arg.strip_prefix("zone="))?;
        Some((named.split(':').next().unwrap_or_default(), own))
    });
    let zones = zones.collect();
    let mut converter = Converter {
        ledger,
        clusters: Clusters::new(http),
        http,
        max_body,
        x_forwarded: has_forwarding,
        takes_addresses,
        zones,
        classes: Map::new(),
        class_rules: Vec::new(),
        steps: 0,
    };
    document.routes = servers::routes(&servers, &mut converter);
    if converter.steps > MAX_ROUTES || document.routes.len() > MAX_ROUTES {
        return false;
    }
    document.classes = converter.classes;
    document.class_rules = converter.class_rules;
    document.clusters = converter.clusters.into_parts();
    let common = listeners::CommonSettings {
        max_body,
        x_forwarded: has_forwarding,
        trusted,
    };
    document.listeners = listeners::parts(&servers, &common, ledger);
    let scope = servers.first().map_or(&scope, |own| &own.scope);
    document
        .top
        .extend(access_log::convert(http, scope, ledger));
    document.top.extend(compressor(scope, ledger));
    true
}

/// Returns the compression of responses, which Sprat has once for all servers.
fn compressor(scope: &Scope<'_>, ledger: &mut Ledger) -> Map {
    let mut algorithms = Vec::new();
    for (name, coding) in [("brotli", "br"), ("gzip", "gzip")] {
        let Some(own) = scope.one(name) else { continue };
        ledger.carried(own.id);
        if own.arg(0) == "on" {
            algorithms.push(word(coding));
        }
    }
    if algorithms.is_empty() {
        return Map::new();
    }
    let mut out = vec![("algorithms".to_owned(), Value::List(algorithms))];
    if let Some(own) = scope.one("gzip_min_length") {
        match size(own.arg(0)).filter(|bytes| *bytes <= 1 << 30) {
            Some(bytes) => {
                ledger.carried(own.id);
                out.push(("min_content_length".to_owned(), size_value(bytes)));
            }
            None => ledger.not(own.id, "`min_content_length` is at its default"),
        }
    }
    let is_type = |own: &&String| {
        let valid = |b: u8| b.is_ascii_alphanumeric() || b"_.+-".contains(&b);
        let parts = own.split_once('/');
        parts.is_some_and(|(kind, rest)| {
            !kind.is_empty() && !rest.is_empty() && kind.bytes().chain(rest.bytes()).all(valid)
        })
    };
    let mut listed: Vec<String> = vec!["text/html".to_owned()];
    for own in scope.all(&["gzip_types", "brotli_types"]) {
        match own.args.iter().all(|own| is_type(&own)) {
            true => ledger.carried(own.id),
            false => ledger.nearly(own.id, "types are given one by one: others are left out"),
        }
        let new = |own: &&String| own.len() < 100 && *own != "text/html";
        listed.extend(own.args.iter().filter(is_type).filter(new).cloned());
    }
    listed.sort();
    listed.dedup();
    out.push(("content_types".to_owned(), texts(listed)));
    vec![("compressor".to_owned(), Value::Map(out))]
}

/// Returns whether a directive, or one within it, tells backends the addresses of clients.
fn tells_of_clients(own: &Directive) -> bool {
    let names = ["proxy_set_header", "grpc_set_header"];
    let tells = names.contains(&&*own.name)
        && own.arg(0).eq_ignore_ascii_case("x-forwarded-for")
        && own.arg(1).contains('$');
    tells || own.inner().iter().any(tells_of_clients)
}

/// Returns the proxies that nginx trusts to name their clients, and whether nginx takes clients'
/// addresses from a field.
fn real_addresses(http: &[Directive], ledger: &mut Ledger) -> (Vec<String>, bool) {
    fn all<'a>(list: &'a [Directive], name: &str, out: &mut Vec<&'a Directive>) {
        for own in list {
            if own.name == name {
                out.push(own);
            }
            all(own.inner(), name, out);
        }
    }
    let (mut networks, mut fields) = (Vec::new(), Vec::new());
    all(http, "set_real_ip_from", &mut networks);
    all(http, "real_ip_header", &mut fields);
    let by_connection =
        fields.iter().all(|own| own.arg(0) == "proxy_protocol") && !fields.is_empty();
    for own in &fields {
        match own.arg(0) {
            "proxy_protocol" => ledger.carried(own.id),
            _ => {
                let told = "backends are told what the field says; Sprat itself goes by the \
                            address of the connection";
                ledger.nearly(own.id, told);
            }
        }
    }
    let mut trusted = Vec::new();
    for own in &networks {
        match normal_network(own.arg(0)) {
            Some(network) if !trusted.contains(&network) => {
                ledger.carried(own.id);
                trusted.push(network);
            }
            Some(_) => ledger.carried(own.id),
            None => ledger.not(own.id, "`trusted` takes networks alone"),
        }
    }
    let takes = !networks.is_empty() && !by_connection;
    (trusted, takes)
}

/// Returns whether a directive switches the compression of responses on or off.
fn compresses(name: &str) -> bool {
    matches!(name, "gzip" | "brotli" | "zstd")
}

/// Settles the outcomes of all directives that no other module has settled.
fn settle(list: &[Directive], ledger: &mut Ledger) {
    const DATA: [&str; 6] = ["map", "geo", "types", "split_clients", "events", "match"];
    for own in list {
        if own.name == "upstream" && !ledger.is_settled(own.id) {
            ledger.nearly(own.id, "no route leads there, so it is left out");
            for inner in own.inner() {
                ledger.carried(inner.id);
            }
        }
        if own.name == "map" && own.arg(0) == "$http_upgrade" {
            ledger.carried(own.id);
        }
        if !ledger.is_settled(own.id) {
            match (known::is_needless(&own.name), known::advice(&own.name)) {
                (true, _) => ledger.carried(own.id),
                // Sprat does no such thing.
                (false, Some(_)) if own.arg(0) == "off" && !compresses(&own.name) => {
                    ledger.carried(own.id);
                }
                (false, None) if known::is_used(&own.name) => {
                    ledger.nearly(own.id, "no route that is carried over goes by it");
                }
                (false, Some(told)) => ledger.not(own.id, told),
                (false, None) if own.name == "location" => {
                    ledger.nearly(own.id, "nothing leads there but what is not carried over");
                }
                (false, None) => {}
            }
        }
        if DATA.contains(&&*own.name) || matches!(&*own.name, "stream" | "mail") {
            // What stands in these are data, or told of with them.
            for inner in own.inner() {
                ledger.set(inner.id, Outcome::Carried, "");
                settle_all(inner.inner(), ledger);
            }
            continue;
        }
        settle(own.inner(), ledger);
    }
}

fn settle_all(list: &[Directive], ledger: &mut Ledger) {
    for own in list {
        ledger.carried(own.id);
        settle_all(own.inner(), ledger);
    }
}
