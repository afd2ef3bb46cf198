//! Tests of the admin listener's figures, events and changes, against `docs/openapi.yaml`.

use std::collections::BTreeSet;
use std::io::{BufRead as _, Read as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex};

use crate::common::binary::{self, Running};
use crate::common::*;
use rustix::fs::{Mode, OFlags};
use serde_json::{Value, json};
use sprat_config::resolved::*;

fn admin_of(proxy: &Proxy) -> SocketAddr {
    proxy.server.as_ref().unwrap().admin_address().unwrap()
}

fn start(origin: &Origin, change: impl FnOnce(&mut Config)) -> Proxy {
    let mut config = config(&[origin.address]);
    config.admin = Some(admin());
    config.uplink.rate = Rate::Fixed(10_000_000);
    change(&mut config);
    Proxy::start(&config)
}

fn ask(address: SocketAddr, path: &str, fields: &str) -> Message {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n");
    Peer::connect(address).ask(request)
}

fn read(address: SocketAddr, path: &str) -> Value {
    let answer = ask(address, path, "");
    assert_eq!(answer.status(), 200, "{path}: {}", answer.text());
    serde_json::from_slice(&answer.body).unwrap()
}

fn post(address: SocketAddr, path: &str, fields: &str, body: &str) -> Message {
    let length = body.len();
    Peer::connect(address).ask(format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n{fields}\r\n{body}"
    ))
}

const JSON: &str = "Content-Type: application/json\r\n";

fn described() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/openapi.yaml");
    serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Checks a value against a schema of the description, which may refer to other schemas.
fn validate(described: &Value, schema: &Value, value: &Value, what: &str) {
    let mut whole = schema.clone();
    whole["components"] = described["components"].clone();
    let validator = jsonschema::validator_for(&whole).unwrap();
    let errors: Vec<_> = (validator.iter_errors(value))
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{what}: {errors:#?}\n{value:#}");
}

/// The means to hold a response half way, until this is dropped.
struct Held(Arc<(Mutex<bool>, Condvar)>);

impl Held {
    fn origin() -> (Origin, Self) {
        let gate = Arc::new((Mutex::new(false), Condvar::new()));
        let own = Arc::clone(&gate);
        let origin = Origin::start(move |mut peer| {
            while let Some(request) = peer.try_message(true) {
                if !request.start.contains("/held") {
                    peer.send(ok("hello"));
                    continue;
                }
                peer.send("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n");
                peer.send([b'x'; 1000]);
                let (open, opened) = &*own;
                let waited = opened.wait_while(open.lock().unwrap(), |open| !*open);
                drop(waited.unwrap());
                peer.send([b'x'; 99_000]);
            }
        });
        (origin, Self(gate))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let (open, opened) = &*self.0;
        *open.lock().unwrap() = true;
        opened.notify_all();
    }
}

#[test]
fn every_page_is_described_and_is_as_described() {
    let (origin, held) = Held::origin();
    let proxy = start(&origin, |_| {});
    let admin = admin_of(&proxy);
    assert_eq!(proxy.connect().ask(get("/")).status(), 200);
    let mut client = proxy.connect();
    client.send(get("/held"));
    assert_eq!(client.head().unwrap().status(), 200);
    let described = described();
    let paths = described["paths"].as_object().unwrap();
    // The index has all but the parts of the dashboard, of which a test of its own knows.
    let index = ask(admin, "/", "").text();
    let listed = index
        .split_whitespace()
        .filter(|word| word.starts_with('/'));
    for path in listed {
        assert!(paths.contains_key(path), "{path} is not described");
    }
    for (path, methods) in paths {
        let Some(page) = methods.get("get") else {
            continue;
        };
        if path == "/events" {
            continue;
        }
        let answer = ask(admin, path, "");
        assert_eq!(answer.status(), 200, "{path}");
        let content_type = answer.field("content-type").unwrap();
        let content_type = content_type.split(';').next().unwrap();
        let schema = &page["responses"]["200"]["content"][content_type]["schema"];
        assert!(
            schema.is_object(),
            "{path}: {content_type} is not described"
        );
        let text = answer.text();
        let value = match content_type {
            "application/json" => serde_json::from_str(&text).unwrap(),
            _ => Value::from(text),
        };
        validate(&described, schema, &value, path);
        let is_listed = index.contains(path) || path.contains('.');
        assert!(is_listed, "{path} is not in the index");
    }
    drop(held);
}

#[test]
fn a_response_in_progress_is_told_of() {
    let (origin, held) = Held::origin();
    let proxy = start(&origin, |_| {});
    let admin = admin_of(&proxy);
    assert_eq!(read(admin, "/flows")["flows"], json!([]));
    let mut client = proxy.connect();
    client.send(get("/held"));
    assert_eq!(client.head().unwrap().status(), 200);
    // What has come of it has left: its origin is waited for.
    let patience = std::time::Instant::now() + PATIENCE;
    let flows = loop {
        let flows = read(admin, "/flows");
        if flows["flows"][0]["state"] == "idle" || std::time::Instant::now() > patience {
            break flows;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    };
    let (flow, count) = (&flows["flows"][0], flows["flows"].as_array().unwrap().len());
    assert_eq!(
        (count, &flows["open"], &flows["waiting"]),
        (1, &json!(1), &json!(0))
    );
    assert_eq!(flow["state"], "idle");
    assert_eq!(
        (&flow["class"], &flow["cluster"]),
        (&json!("default"), &json!("farm"))
    );
    assert_eq!(flow["size_is_exact"], true);
    let bytes = |name: &str| flow[name].as_u64().unwrap();
    assert_eq!(
        bytes("sent_bytes") + bytes("left_bytes"),
        bytes("size_bytes")
    );
    assert!(
        bytes("left_bytes") == 99_000 && bytes("size_bytes") > 100_000,
        "{flow}"
    );
    let stats = read(admin, "/stats");
    assert_eq!(stats["uplink"]["open_flows"], 1);
    assert_eq!(stats["requests"]["open"], 1);
    assert_eq!(stats["endpoints"][0]["outstanding"], 1);
    drop(held);
    let mut rest = vec![0; 100_000];
    client.reader.read_exact(&mut rest).unwrap();
    let counted = "sprat_requests_total{cluster=\"farm\",code=\"2xx\"}";
    proxy.wait_metric(&[counted], 1.0);
    assert_eq!(read(admin, "/stats")["requests"]["by_code"]["2xx"], 1);
}

#[test]
fn an_uplink_without_a_queue_says_so() {
    let origin = Origin::http(|_| ok("hello"));
    let proxy = start(&origin, |config| config.uplink.rate = Rate::Unlimited);
    let admin = admin_of(&proxy);
    let described = described();
    for (path, name) in [("/flows", "Flows"), ("/stats", "Stats")] {
        let value = read(admin, path);
        let is_paced = value
            .get("is_paced")
            .unwrap_or(&value["uplink"]["is_paced"]);
        assert_eq!(is_paced, false, "{path}");
        validate(
            &described,
            &described["components"]["schemas"][name],
            &value,
            path,
        );
    }
}

/// Opens a stream of events, and checks the head of its answer.
fn watch(admin: SocketAddr) -> Peer {
    let mut peer = Peer::connect(admin);
    peer.send("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let head = peer.head().unwrap();
    assert_eq!(head.status(), 200);
    assert_eq!(head.field("content-type"), Some("text/event-stream"));
    peer
}

/// Reads the next event of a stream, out of its chunks.
fn event(peer: &mut Peer) -> (String, Value) {
    let mut line = || {
        let mut line = String::new();
        peer.reader.read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "the stream has ended");
        line.trim_end().to_owned()
    };
    let mut find = |prefix: &str| loop {
        if let Some(rest) = line().strip_prefix(prefix) {
            return rest.to_owned();
        }
    };
    let name = find("event: ");
    (name, serde_json::from_str(&find("data: ")).unwrap())
}

#[test]
fn watchers_hear_of_figures_and_of_the_queue_and_are_bounded() {
    let origin = Origin::http(|_| ok("hello"));
    let proxy = start(&origin, |_| {});
    let admin = admin_of(&proxy);
    let described = described();
    let mut first = watch(admin);
    let heard: Vec<_> = (0..8).map(|_| event(&mut first)).collect();
    let names = heard.iter().map(|(name, _)| name.as_str());
    let expected = [
        "stats", "flows", "flows", "flows", "flows", "flows", "stats", "flows",
    ];
    assert_eq!(names.collect::<Vec<_>>(), expected);
    for (name, value) in &heard {
        let schema = if name == "stats" { "Stats" } else { "Flows" };
        validate(
            &described,
            &described["components"]["schemas"][schema],
            value,
            name,
        );
    }
    let others: Vec<_> = (1..16).map(|_| watch(admin)).collect();
    assert_eq!(ask(admin, "/events", "").status(), 503);
    // They hold up no probe, though there are more connections than places.
    let _silent: Vec<_> = (0..100).map(|_| Peer::connect(admin)).collect();
    assert_eq!(ask(admin, "/livez", "").status(), 200);
    event(&mut first);
    drop(others);
    let patience = std::time::Instant::now() + PATIENCE;
    loop {
        let mut peer = Peer::connect(admin);
        peer.send("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
        if peer.head().unwrap().status() == 200 {
            break;
        }
        assert!(
            std::time::Instant::now() < patience,
            "no place is free again"
        );
    }
}

#[test]
fn watchers_do_not_hold_up_a_drain() {
    let origin = Origin::http(|_| ok("hello"));
    let mut proxy = start(&origin, |_| {});
    let mut watcher = watch(admin_of(&proxy));
    assert_eq!(event(&mut watcher).1["stage"], "serving");
    let server = proxy.server.take().unwrap();
    server.control().drain();
    server.join().unwrap();
    assert!(watcher.is_closed());
}

#[test]
fn a_drain_can_be_asked_for() {
    let origin = Origin::http(|_| ok("hello"));
    let mut proxy = start(&origin, |_| {});
    let admin = admin_of(&proxy);
    assert_eq!(ask(admin, "/drain", "").status(), 405);
    assert_eq!(post(admin, "/drain", "", "").status(), 415);
    let foreign = format!("{JSON}Origin: http://other.example\r\n");
    assert_eq!(post(admin, "/drain", &foreign, "{}").status(), 403);
    assert_eq!(ask(admin, "/readyz", "").status(), 200);
    let large = " ".repeat(5000);
    assert_eq!(post(admin, "/drain", JSON, &large).status(), 413);
    assert_eq!(post(admin, "/stats", JSON, "{}").status(), 405);
    let asked = post(admin, "/drain", JSON, "{}");
    assert_eq!(asked.status(), 202);
    let described = described();
    let schema = &described["paths"]["/drain"]["post"]["responses"]["202"];
    let schema = &schema["content"]["application/json"]["schema"];
    let value = serde_json::from_slice(&asked.body).unwrap();
    validate(&described, schema, &value, "/drain");
    proxy.server.take().unwrap().join().unwrap();
}

#[test]
fn every_change_is_answered_as_described() {
    let origin = Origin::http(|_| ok("hello"));
    let proxy = start(&origin, |_| {});
    let admin = admin_of(&proxy);
    let foreign = format!("{JSON}Origin: http://other.example\r\n");
    let large = " ".repeat(5000);
    let described = described();
    let mut changes = 0;
    for (path, methods) in described["paths"].as_object().unwrap() {
        let Some(change) = methods.get("post") else {
            continue;
        };
        changes += 1;
        let is_described = |status: u16| change["responses"].get(status.to_string()).is_some();
        for (fields, body, expected) in [
            (JSON, &*large, 413),
            ("", "{}", 415),
            (&*foreign, "{}", 403),
        ] {
            let status = post(admin, path, fields, body).status();
            assert_eq!(status, expected, "{path}");
            assert!(is_described(status), "{path}: {status}");
        }
        if path != "/drain" {
            let status = post(admin, path, JSON, "{\"level\": \"info\"}").status();
            assert!(is_described(status), "{path}: {status}");
        }
    }
    assert_eq!(changes, 5);
}

#[test]
fn the_token_opens_what_it_guards() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("token");
    std::fs::write(&path, "0123456789abcdef\n").unwrap();
    let origin = Origin::http(|_| ok("hello"));
    let proxy = start(&origin, |config| {
        let token_file = Some(FileAt {
            path,
            span: Span::default(),
        });
        config.admin = Some(Admin {
            token_file,
            ..admin()
        });
    });
    let admin = admin_of(&proxy);
    let token = "Authorization: Bearer 0123456789abcdef\r\n";
    let described = described();
    for (path, methods) in described["paths"].as_object().unwrap() {
        if let Some(page) = methods.get("get") {
            let is_guarded = page.get("security").is_some();
            let expected = if is_guarded { 401 } else { 200 };
            assert_eq!(ask(admin, path, "").status(), expected, "{path}");
            if path != "/events" {
                assert_eq!(ask(admin, path, token).status(), 200, "{path}");
            }
        } else {
            assert_eq!(post(admin, path, JSON, "{}").status(), 401, "{path}");
        }
    }
}

#[test]
fn the_dashboard_is_for_browsers_and_is_not_sent_twice() {
    let origin = Origin::http(|_| ok("hello"));
    let proxy = start(&origin, |_| {});
    let admin = admin_of(&proxy);
    let html = "Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n";
    let page = ask(admin, "/", html);
    assert_eq!(page.field("content-type"), Some("text/html; charset=utf-8"));
    let policy = page.field("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none';") && !policy.contains("unsafe"));
    let text = page.text();
    // All that it names is there, and described.
    let quoted = text
        .split('"')
        .filter(|part| part.contains('.') && !part.contains(' '));
    let mut parts: BTreeSet<_> = quoted.map(|part| format!("/{part}")).collect();
    parts.insert("/".to_owned());
    assert!(parts.len() >= 4, "{parts:?}");
    for path in parts {
        let part = ask(admin, &path, html);
        assert_eq!(part.status(), 200, "{path}");
        assert_eq!(part.field("x-content-type-options"), Some("nosniff"));
        let tag = part.field("etag").unwrap();
        let known = ask(admin, &path, &format!("{html}If-None-Match: {tag}\r\n"));
        assert_eq!((known.status(), known.body.len()), (304, 0), "{path}");
        assert!(described()["paths"].get(&path).is_some(), "{path}");
    }
    let index = ask(admin, "/", "Accept: */*\r\n");
    assert_eq!(
        index.field("content-type"),
        Some("text/plain; charset=utf-8")
    );
}

/// Returns the address of a process's admin listener, from its log.
fn admin_of_process(sprat: &Running) -> SocketAddr {
    sprat.says("admin address=");
    let lines = sprat.lines();
    let line = lines
        .iter()
        .find_map(|line| line.split("admin address=").nth(1));
    line.unwrap().trim().parse().unwrap()
}

#[test]
fn a_process_ends_that_is_asked_to_drain() {
    let (origin, held) = Held::origin();
    let directory = tempfile::tempdir().unwrap();
    let configuration = binary::write(directory.path(), origin.address, "");
    let mut sprat = Running::start(&configuration);
    let admin = admin_of_process(&sprat);
    let mut client = Peer::connect(sprat.address);
    client.send(get("/held"));
    assert_eq!(client.head().unwrap().status(), 200);
    assert_eq!(post(admin, "/drain", JSON, "{}").status(), 202);
    sprat.says("draining; a second signal cuts what is open");
    assert_eq!(ask(admin, "/readyz", "").status(), 503);
    assert_eq!(read(admin, "/stats")["stage"], "draining");
    drop(held);
    let mut body = vec![0; 100_000];
    client.reader.read_exact(&mut body).unwrap();
    assert!(sprat.child.wait().unwrap().success());
}

#[test]
fn the_log_says_as_much_as_it_is_asked_to() {
    let origin = Origin::http(|_| ok("hello"));
    let directory = tempfile::tempdir().unwrap();
    let configuration = binary::write(directory.path(), origin.address, "");
    let sprat = Running::start(&configuration);
    let admin = admin_of_process(&sprat);
    let set = |level: &str| {
        post(
            admin,
            "/log-level",
            JSON,
            &format!("{{\"level\": \"{level}\"}}"),
        )
    };
    for wrong in ["loud", ""] {
        assert_eq!(set(wrong).status(), 422, "{wrong}");
    }
    assert_eq!(set("error").status(), 200);
    // It is told of where that is to be told.
    assert_eq!(set("debug").status(), 200);
    sprat.says("level=debug");
    assert!(
        !sprat
            .lines()
            .iter()
            .any(|line| line.contains("level=error"))
    );
    assert_eq!(set("off").status(), 200);
    assert_eq!(set("info").status(), 200);
    sprat.says("level=info");
}

#[test]
fn an_endpoint_is_given_another_weight_as_described() {
    let [a, b] = ["a", "b"].map(|name| Origin::http(move |_| ok(name)));
    let mut started = None;
    let proxy = start(&a, |config| {
        with_cluster(config, |cluster| {
            cluster.endpoints = vec![endpoint(a.address), endpoint(b.address)];
        });
        started = Some(config.clone());
    });
    let admin = admin_of(&proxy);
    let described = described();
    let path = "/endpoints/weight";
    let named = |weight: &str| {
        let address = a.address;
        format!("{{\"cluster\": \"farm\", \"endpoint\": \"{address}\", \"weight\": {weight}}}")
    };
    let share = || {
        let mut client = proxy.connect();
        let answers = (0..40).map(|_| client.ask(get("/")).text());
        answers.filter(|answer| answer == "a").count()
    };
    let weight = || read(admin, "/endpoints")[0]["endpoints"][0]["weight"].clone();
    assert_eq!((share(), weight()), (20, json!(1)));
    for (given, expected) in [("3", 30), ("1", 20), ("9", 36)] {
        let answer = post(admin, path, JSON, &named(given));
        assert_eq!(answer.status(), 200);
        let value: Value = serde_json::from_slice(&answer.body).unwrap();
        let schema = &described["paths"][path]["post"]["responses"]["200"];
        let schema = &schema["content"]["application/json"]["schema"];
        validate(&described, schema, &value, path);
        assert_eq!(share(), expected, "{given}");
        assert_eq!(weight().to_string(), given);
        let parts = ["sprat_endpoint_weight", &a.address.to_string()];
        assert_eq!(proxy.metric(&parts).to_string(), given);
        // Where people watch, beside what the configuration says.
        let stats = read(admin, "/stats");
        let told = |key: &str| stats["endpoints"][0][key].to_string();
        assert_eq!(told("weight"), given);
        assert_eq!(told("configured_weight"), "1");
    }
    for (body, status) in [
        (named("0"), 422),
        (named("1001"), 422),
        (named("-1"), 422),
        (named("\"3\""), 422),
        ("{}".to_owned(), 422),
        (named("3").replace("farm", "x"), 404),
        (named("3").replace("127.0.0.1", "127.0.0.2"), 404),
    ] {
        assert_eq!(post(admin, path, JSON, &body).status(), status, "{body}");
    }
    // It holds over reloads, and where another station is made.
    let control = proxy.server.as_ref().unwrap().control();
    let mut config = started.unwrap();
    control.reload(&config).unwrap();
    assert_eq!((share(), weight()), (36, json!(9)));
    with_cluster(&mut config, |cluster| cluster.max_requests = 77);
    control.reload(&config).unwrap();
    assert_eq!((share(), weight()), (36, json!(9)));
    // The configuration has another word: that is later.
    with_cluster(&mut config, |cluster| cluster.endpoints[0].weight = 4);
    control.reload(&config).unwrap();
    assert_eq!((share(), weight()), (32, json!(4)));
}

#[test]
fn one_endpoint_is_drained_as_described() {
    let origin = Origin::http(|_| ok("hello"));
    let proxy = start(&origin, |_| {});
    let admin = admin_of(&proxy);
    let described = described();
    let body = format!(
        "{{\"cluster\": \"farm\", \"endpoint\": \"{}\"}}",
        origin.address
    );
    for (what, is_drained) in [("drain", true), ("drain", true), ("undrain", false)] {
        let path = format!("/endpoints/{what}");
        let answer = post(admin, &path, JSON, &body);
        assert_eq!(answer.status(), 200, "{path}");
        let value: Value = serde_json::from_slice(&answer.body).unwrap();
        let schema = described.pointer("/components/responses/Draining/content");
        let schema = &schema.unwrap()["application/json"]["schema"];
        validate(&described, schema, &value, &path);
        assert_eq!(value, json!({"draining": is_drained}));
        let endpoint = &read(admin, "/endpoints")[0]["endpoints"][0];
        assert_eq!(endpoint["draining"], is_drained);
        assert_eq!(endpoint["used"], !is_drained);
        assert_eq!(
            read(admin, "/stats")["endpoints"][0]["draining"],
            is_drained
        );
    }
    let path = "/endpoints/drain";
    for (fields, body, status) in [
        (JSON, "{}", 422),
        (JSON, "{\"cluster\": \"farm\"}", 422),
        (JSON, "{\"cluster\": \"farm\", \"endpoint\": \"a:1\"}", 404),
        (JSON, "{\"cluster\": \"x\", \"endpoint\": \"a:1\"}", 404),
        ("", &*body, 415),
        (
            "Content-Type: application/json\r\nOrigin: http://other.example\r\n",
            &*body,
            403,
        ),
    ] {
        assert_eq!(post(admin, path, fields, body).status(), status, "{body}");
    }
    let asked = ask(admin, path, "");
    assert_eq!((asked.status(), asked.field("allow")), (405, Some("POST")));
    // All of it was for nothing.
    assert_eq!(read(admin, "/endpoints")[0]["endpoints"][0]["used"], true);
}

#[test]
fn changes_of_an_endpoint_while_a_reload_is_prepared_are_kept() {
    let origin = Origin::http(|_| ok("hello"));
    let mut config = config(&[origin.address]);
    config.admin = Some(admin());
    let proxy = Proxy::start(&config);
    let admin = admin_of(&proxy);
    // The farm gets another station; then another cluster's page is read, which is a pipe.
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("page");
    let made = Command::new("mkfifo").arg(&page).status().unwrap();
    assert!(made.success());
    with_cluster(&mut config, |cluster| cluster.max_requests = 77);
    let other = Cluster {
        name: "other".to_owned(),
        overload_page: Some(tls::file(&page)),
        ..Cluster::clone(&config.clusters[0])
    };
    config.clusters.push(Arc::new(other));
    let control = proxy.server.as_ref().unwrap().control();
    let reload = std::thread::spawn(move || control.reload(&config));
    let mut pipe = None;
    wait_for("the reload to read the page", || {
        let flags = OFlags::WRONLY | OFlags::NONBLOCK;
        pipe = rustix::fs::open(page.as_path(), flags, Mode::empty()).ok();
        pipe.is_some()
    });
    let endpoint = origin.address;
    let body = format!("{{\"cluster\": \"farm\", \"endpoint\": \"{endpoint}\"}}");
    assert_eq!(post(admin, "/endpoints/drain", JSON, &body).status(), 200);
    let body = body.replace('}', ", \"weight\": 9}");
    assert_eq!(post(admin, "/endpoints/weight", JSON, &body).status(), 200);
    // The page ends.
    drop(pipe);
    let waiting = reload.join().unwrap().unwrap();
    assert!(waiting.is_empty(), "{waiting:?}");
    let stats = read(admin, "/stats");
    let endpoints = stats["endpoints"].as_array().unwrap();
    assert_eq!(endpoints.len(), 2);
    let farms = endpoints
        .iter()
        .find(|own| own["cluster"] == "farm")
        .unwrap();
    assert_eq!(
        (&farms["draining"], &farms["weight"]),
        (&json!(true), &json!(9))
    );
}
