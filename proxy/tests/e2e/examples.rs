//! Tests that every example configuration serves, and that the documents agree with the program.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::binary::sprat;
use crate::common::tls::Authority;
use crate::common::*;
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

/// The variables of the directories in examples: for certificates, pages, files to serve, saved
/// state, sizes and logs.
const DIRECTORIES: [&str; 6] = [
    "TLS_DIR",
    "PAGES_DIR",
    "WWW_DIR",
    "STATE_DIR",
    "SIZES_DIR",
    "LOG_DIR",
];

/// Creates the files that examples name, below [`DIRECTORIES`].
fn files() -> Authority {
    let authority = Authority::new();
    authority.issue("site", &["www.example.org"]);
    std::fs::write(authority.directory().join("busy.html"), "<h1>Busy</h1>").unwrap();
    let key = authority.directory().join("session.key");
    std::fs::write(key, "0123456789abcdef0123456789abcdef\n").unwrap();
    let sizes = authority.directory().join("sizes.csv");
    std::fs::write(sizes, "host,path,bytes\nwww.example.org,/a,10\n").unwrap();
    let hook = authority.directory().join("dns-hook");
    std::fs::write(&hook, "#!/bin/sh\nexit 1\n").unwrap();
    std::fs::set_permissions(&hook, PermissionsExt::from_mode(0o755)).unwrap();
    authority.revoke("clients", &[]);
    authority
}

/// Returns the configuration with this test's own ports in place of the example's.
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
    if let Some(acme) = &mut config.acme {
        acme.directory_url = "https://127.0.0.1:1/directory".to_owned();
    }
    // The memory of this process is that of all tests which run at the time.
    config.overload_manager = None;
    config.runtime.workers = 1;
    config
}

/// Returns a request that matches the route; none if the route has a regular expression.
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
            eprintln!("{path:?}: {request}");
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

/// Returns the Markdown pages in a directory and below it.
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

/// Checks that documents name counters as `/metrics` does: with `_total`.
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

/// Returns the text of a page in `docs/`.
fn page(name: &str) -> String {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    std::fs::read_to_string(docs.join(name)).unwrap()
}

/// Returns the complete configurations on a page.
fn configurations(text: &str) -> impl Iterator<Item = &str> {
    let blocks = text.split("```yaml\n").skip(1);
    let blocks = blocks.filter_map(|rest| rest.split("```").next());
    blocks.filter(|block| block.lines().any(|line| line.starts_with("version: 1")))
}

/// Checks that `sprat check` accepts each configuration in the documents, once the files that they
/// name exist. Also checks that `explain` answers each request that the cookbook shows.
#[test]
fn check_accepts_the_configurations_of_documents() {
    let files = files();
    let directory = files.directory();
    let file = directory.join("sprat.yaml");
    let explained = page("cookbook.md");
    let explained = explained.lines().filter_map(|line| {
        let (_, request) = line
            .strip_prefix("sprat explain ")?
            .split_once("--request '")?;
        request.split('\'').next()
    });
    let explained: Vec<_> = explained.collect();
    assert_eq!(explained.len(), 2);
    let pages = pages(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs"));
    let mut seen = 0;
    // One page has topologies of `sprat-loadgen network`.
    for path in pages.iter().filter(|path| !path.ends_with("networks.md")) {
        let text = std::fs::read_to_string(path).unwrap();
        for block in configurations(&text) {
            let own = format!("{}/", directory.display());
            // Files that it includes are not here.
            let lines = block.lines().filter(|line| !line.starts_with("include:"));
            let block = lines.fold(String::new(), |text, line| text + line + "\n");
            let block = ["/etc/tls/", "/var/lib/sprat/"]
                .iter()
                .fold(block, |text, place| text.replace(place, &own));
            std::fs::write(&file, &block).unwrap();
            let run = |arguments: &[&str]| {
                let output = sprat(arguments).current_dir(directory).output().unwrap();
                assert!(output.status.success(), "{path:?}: {block}\n{output:?}");
            };
            run(&["check", "sprat.yaml"]);
            if path.ends_with("cookbook.md") {
                for request in &explained {
                    run(&["explain", "-c", "sprat.yaml", "--request", request]);
                }
            }
            seen += 1;
        }
    }
    assert!(seen > 15, "{seen}");
}

/// Checks that the examples of other proxies' configurations are imported whole: `--strict` fails
/// if anything is lost.
#[test]
fn examples_of_other_proxies_are_imported_whole() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("theirs.conf");
    for (name, before, after) in [("nginx", "events {}\nhttp {\n", "}\n"), ("haproxy", "", "")] {
        let text = page(&format!("from-{name}.md"));
        let (_, rest) = text.split_once(&format!("```{name}\n")).unwrap();
        let (block, _) = rest.split_once("```").unwrap();
        std::fs::write(&file, format!("{before}{block}{after}")).unwrap();
        let mut import = sprat(&["import", "--strict", name, file.to_str().unwrap()]);
        let output = import.output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}

#[test]
fn the_page_of_log_fields_has_each() {
    let origin = Origin::http(|_| ok("fine"));
    let proxy = Proxy::logging(config(&[origin.address]));
    let mut client = proxy.connect();
    assert_eq!(client.ask(get("/a")).status(), 200);
    let line = proxy.log_lines(1).remove(0);
    let text = page("log-fields.md");
    let rows = text.lines().filter_map(|line| {
        let (names, _) = line.strip_prefix("| `")?.split_once(" | ")?;
        Some(names.split('`').step_by(2))
    });
    let told: Vec<&str> = rows.flatten().collect();
    let fields = line.as_object().unwrap().keys();
    let missing: Vec<_> = fields
        .filter(|field| !told.contains(&field.as_str()))
        .collect();
    assert!(missing.is_empty(), "{missing:?} of {told:?}");
}

/// Checks that an operator finds each of Sprat's reasons for a 5xx among the symptoms in the
/// troubleshooting page.
#[test]
fn troubleshooting_has_every_reason_of_5xx() {
    let text = page("troubleshooting.md");
    let reasons = sprat_net::error::Reason::ALL.iter();
    let own = reasons.filter(|reason| reason.facts().status.is_server_error());
    let missing: Vec<_> = own
        .map(|reason| reason.name())
        .filter(|name| !text.contains(&format!("`{name}`")))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}
