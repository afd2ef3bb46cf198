//! Every example configuration serves.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::binary::sprat;
use common::tls::Authority;
use common::*;
use sprat_config::resolved::*;

fn examples() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/examples");
    let entries = std::fs::read_dir(directory).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "yaml")
        })
        .collect()
}

/// Where examples look for certificates, pages, files to serve, what Sprat has
/// saved, and sizes.
const DIRECTORIES: [&str; 5] = ["TLS_DIR", "PAGES_DIR", "WWW_DIR", "STATE_DIR", "SIZES_DIR"];

/// The files that examples name, below [`DIRECTORIES`].
fn files() -> Authority {
    let authority = Authority::new();
    authority.issue("site", &["www.example.org"]);
    std::fs::write(authority.directory().join("busy.html"), "<h1>Busy</h1>").unwrap();
    let sizes = authority.directory().join("sizes.csv");
    std::fs::write(sizes, "host,path,bytes\nwww.example.org,/a,10\n").unwrap();
    authority
}

/// The configuration with this test's own ports in place of the example's.
fn on_own_ports(mut config: Config, origin: &Origin) -> Config {
    for listener in &mut config.listeners {
        listener.address = "127.0.0.1:0".parse().unwrap();
    }
    if let Some(admin) = &mut config.admin {
        admin.address = "127.0.0.1:0".parse().unwrap();
    }
    for cluster in &mut config.clusters {
        let mut own = (**cluster).clone();
        // The origin here speaks HTTP/1.1 in plain text.
        own.tls = None;
        own.http2 = None;
        for endpoint in &mut own.endpoints {
            endpoint.address = EndpointAddress::Ip(origin.address);
        }
        *cluster = Arc::new(own);
    }
    let same = |name: &str| {
        let cluster = config.clusters.iter().find(|own| own.name == name);
        Arc::clone(cluster.unwrap())
    };
    for route in &mut config.routes {
        if let Action::Forward(forward) = &mut route.action {
            for own in &mut forward.clusters {
                own.cluster = same(&own.cluster.name);
            }
            for own in &mut forward.mirrors {
                own.cluster = same(&own.cluster.name);
            }
            forward.fallback = forward.fallback.take().map(|own| same(&own.name));
        }
    }
    // Of whoever has Sprat in use on this machine.
    if let Some(snapshot) = &mut config.catalogue.snapshot {
        snapshot.path = PathBuf::from("/nowhere/at/all");
    }
    if let Some(shared) = &mut config.catalogue.shared {
        shared.url = "redis://127.0.0.1:1/0".to_owned();
    }
    config.runtime.workers = 1;
    config
}

/// A request that the route is meant for; none if a regular expression says which.
fn request_for(route: &Route) -> Option<String> {
    let conditions = &route.conditions;
    if conditions.path.is_some() {
        return None;
    }
    let host = match route.matches.hosts.last() {
        None => "any.example".to_owned(),
        Some(HostPattern::Exact(name)) => name.clone(),
        Some(HostPattern::Suffix(suffix)) => format!("a{suffix}"),
    };
    let path = match &route.matches.path {
        PathPattern::Any => "/any",
        PathPattern::Exact(path) | PathPattern::Prefix(path) => path,
    };
    let method = conditions.methods.first().map_or("GET", String::as_str);
    let pair = |own: &ValueMatch| match &own.value {
        ValueIs::Text(TextPattern::Exact(text) | TextPattern::Prefix(text)) => {
            (own.name.clone(), text.clone())
        }
        _ => (own.name.clone(), "1".to_owned()),
    };
    let headers = conditions.headers.iter().map(pair);
    let headers: String = headers
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let query = conditions.query_parameters.iter().map(pair);
    let query: String = query
        .map(|(name, value)| format!("?{name}={value}"))
        .collect();
    Some(format!(
        "{method} {path}{query} HTTP/1.1\r\nHost: {host}\r\n{headers}\r\n"
    ))
}

#[test]
fn check_accepts_every_example() {
    assert!(!examples().is_empty());
    let files = files();
    for path in examples() {
        let mut check = sprat(&["check", path.to_str().unwrap()]);
        check.envs(DIRECTORIES.map(|name| (name, files.directory())));
        let output = check.output().unwrap();
        assert!(output.status.success(), "{path:?}: {output:?}");
    }
}

#[test]
fn every_route_of_every_example_serves() {
    let origin = Origin::http(|request| ok(&request.start));
    let files = files();
    let directory = files.directory().display().to_string();
    let env = |name: &str| DIRECTORIES.contains(&name).then(|| directory.clone());
    for path in examples() {
        let loaded = sprat_config::load(&path, &env).unwrap();
        let config = on_own_ports(loaded.config, &origin);
        let proxy = Proxy::logging(config.clone());
        let mut client = proxy.connect();
        let asked = config
            .routes
            .iter()
            .filter_map(|route| Some((request_for(route)?, route)));
        let asked: Vec<_> = asked.collect();
        for (request, route) in &asked {
            let answer = client.ask(request);
            let served = match &route.action {
                Action::Forward(_) => answer.status() == 200 && answer.text().contains(" /"),
                Action::Redirect(redirect) => answer.status() == redirect.status,
                Action::Respond(direct) => answer.status() == direct.status,
            };
            assert!(served, "{path:?}: {request}: {answer:?}");
        }
        let log = proxy.log_lines(asked.len());
        for (line, (_, route)) in log.iter().zip(&asked) {
            let clusters = route.clusters().iter().map(|own| own.cluster.name.as_str());
            let clusters: Vec<_> = clusters.collect();
            let named = line["cluster"].as_str();
            let is_its = named.map_or(clusters.is_empty(), |own| clusters.contains(&own));
            assert!(is_its, "{path:?}: {line}");
        }
        drop(client);
        proxy.assert_no_leak();
        proxy.stop();
    }
}

/// The Markdown pages below the directory.
fn pages(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut pages = Vec::new();
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            pages.extend(self::pages(&path));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
    pages
}

/// The name of a counter in a document is what `/metrics` has: with `_total`.
#[test]
fn documents_name_counters_as_they_are_printed() {
    let origin = Origin::http(|_| ok("fine"));
    let mut config = config(&[origin.address]);
    config.uplink.rate = Rate::Fixed(100_000_000);
    let metrics = Proxy::start(&config).server.as_ref().unwrap().metrics();
    let counters: Vec<&str> = metrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix("_total counter"))
        .collect();
    assert!(counters.contains(&"sprat_requests"), "{counters:?}");
    let pages = pages(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs"));
    assert!(pages.len() > 10, "{pages:?}");
    for path in pages {
        let text = std::fs::read_to_string(&path).unwrap();
        let mut words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let short = words.find(|word| counters.contains(word));
        assert_eq!(short, None, "{path:?}");
    }
}
