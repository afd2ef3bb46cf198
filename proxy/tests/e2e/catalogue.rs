//! Tests of the catalogue: sizes, their sources, and how they survive restarts.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use crate::common::binary::sprat;
use crate::common::*;
use sprat_config::resolved::*;

/// Starts an origin that never announces a size: `/<bytes>` is sent in chunks.
fn chunked() -> Origin {
    Origin::http(|request| {
        let path = request.start.split(' ').nth(1).unwrap();
        let digits = path.trim_start_matches('/').split(['.', '/', '?']).next();
        let bytes: usize = digits.unwrap().parse().unwrap();
        let body = "x".repeat(bytes);
        format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{bytes:x}\r\n{body}\r\n0\r\n\r\n"
        )
    })
}

fn with_snapshot(origin: &Origin, path: &Path) -> Config {
    let mut config = config(&[origin.address]);
    config.catalogue.snapshot = Some(Snapshot {
        path: path.to_owned(),
        span: Span::default(),
        interval: Duration::from_secs(3600),
    });
    config
}

/// Returns the source and the size that the log has for each response.
fn sizes(proxy: &Proxy, count: usize) -> Vec<(String, Option<u64>)> {
    let lines = proxy.log_lines(count);
    let size = |line: &serde_json::Value| {
        let layer = line["size_layer"].as_str();
        let source = layer.or(line["size_source"].as_str()).unwrap();
        (source.to_owned(), line["size"].as_u64())
    };
    lines.iter().map(size).collect()
}

#[test]
fn sizes_survive_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sizes");
    let origin = chunked();
    let config = with_snapshot(&origin, &path);
    let proxy = Proxy::logging(config.clone());
    assert_eq!(proxy.connect().ask(get("/300")).body.len(), 300);
    assert_eq!(sizes(&proxy, 1), [("unknown".to_owned(), None)]);
    proxy.stop();
    let proxy = Proxy::logging(config.clone());
    assert_eq!(proxy.connect().ask(get("/300")).body.len(), 300);
    assert_eq!(sizes(&proxy, 1), [("learnt".to_owned(), Some(300))]);
    proxy.stop();
    // A damaged one is not used, and does no harm.
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 3]).unwrap();
    let proxy = Proxy::logging(config);
    assert_eq!(proxy.connect().ask(get("/300")).body.len(), 300);
    assert_eq!(sizes(&proxy, 1), [("unknown".to_owned(), None)]);
    proxy.stop();
}

/// Checks that event streams teach no size: where one client stops listening says nothing of the
/// next.
#[test]
fn event_streams_teach_nothing_and_have_no_slowdown() {
    let origin = Origin::start(|mut peer| {
        while let Some(request) = peer.try_message(true) {
            peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
            // What comes before the first event is no pause of the stream's.
            std::thread::sleep(Duration::from_millis(150));
            peer.send("5\r\nevent\r\n");
            if request.start.contains("/events") {
                std::thread::sleep(Duration::from_millis(150));
            }
            peer.send("5\r\nevent\r\n0\r\n\r\n");
        }
    });
    let mut config = config(&[origin.address]);
    config.uplink.rate = Rate::Fixed(10_000_000);
    let proxy = Proxy::logging(config);
    for path in ["/events", "/events", "/page", "/page"] {
        assert_eq!(proxy.connect().ask(get(path)).body.len(), 10);
    }
    let expected = ["unknown", "unknown", "unknown", "learnt"].map(str::to_owned);
    let sources: Vec<String> = sizes(&proxy, 4)
        .into_iter()
        .map(|(source, _)| source)
        .collect();
    assert_eq!(sources, expected);
    let has_slowdown = |line: &serde_json::Value| !line["slowdown"].is_null();
    let slowdowns: Vec<bool> = proxy.log_lines(4).iter().map(has_slowdown).collect();
    assert_eq!(slowdowns, [false, false, true, true]);
    proxy.stop();
}

/// Checks that an event stream teaches no size, and has no slowdown, although the answer to a
/// pipelined request begins as it ends.
#[test]
fn an_event_stream_before_a_pipelined_request_is_one() {
    let origin = Origin::start(|mut peer| {
        peer.message();
        peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nevent\r\n");
        std::thread::sleep(Duration::from_secs(1));
        peer.send("5\r\nevent\r\n0\r\n\r\n");
    });
    let mut config = config(&[origin.address]);
    config.uplink.rate = Rate::Fixed(10_000_000);
    let proxy = Proxy::logging(config);
    let mut client = proxy.connect();
    let own = "OPTIONS / HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\n\r\n";
    client.send(get("/events") + own);
    assert_eq!(client.message().text(), "eventevent");
    assert_eq!(client.message().status(), 200);
    let lines = proxy.log_lines(2);
    let events = lines.iter().find(|line| line["path"] == "/events");
    assert!(events.unwrap()["slowdown"].is_null(), "{lines:?}");
    assert_eq!(proxy.metric(&["sprat_catalogue_insertions_total"]), 0.0);
    proxy.stop();
}

#[test]
fn a_directory_that_is_not_there_stops_nothing() {
    let origin = chunked();
    let config = with_snapshot(&origin, Path::new("/nowhere/at/all"));
    let proxy = Proxy::logging(config);
    assert_eq!(proxy.connect().ask(get("/3")).text(), "xxx");
    proxy.stop();
}

fn run(arguments: &[&str], input: &str) -> (bool, String) {
    let mut child = sprat(&[&["catalogue"], arguments].concat())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

#[test]
fn snapshots_are_dumped_loaded_and_summed_up() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sizes");
    let file = path.to_str().unwrap();
    // What an operator knows is there before the first request.
    let line = r#"{"cluster": "farm", "host": "test.example", "path": "/700", "bytes": 700}"#;
    let (done, said) = run(&["load", file], &format!("{line}\n\n"));
    assert!(done && said.ends_with("1 entries\n"), "{said}");
    let origin = chunked();
    let proxy = Proxy::logging(with_snapshot(&origin, &path));
    assert_eq!(proxy.connect().ask(get("/700")).body.len(), 700);
    assert_eq!(sizes(&proxy, 1), [("learnt".to_owned(), Some(700))]);
    proxy.stop();

    let (done, dumped) = run(&["dump", file], "");
    assert!(done, "{dumped}");
    assert_eq!(dumped.lines().count(), 2, "{dumped}");
    assert!(dumped.contains(r#""bytes":700"#), "{dumped}");
    let copy = directory.path().join("copy");
    let (done, said) = run(&["load", copy.to_str().unwrap()], &dumped);
    assert!(done, "{said}");
    assert_eq!(run(&["dump", copy.to_str().unwrap()], ""), (true, dumped));
    let before = std::fs::read(&path).unwrap();
    let (done, said) = run(&["stats", file], "");
    assert!(done && said.contains("entries      1\n"), "{said}");
    assert!(said.contains("mean size    700\n"), "{said}");

    for (arguments, input, complaint) in [
        (["load", file], "{\"bytes\": 1}\n", "line 1: it is neither"),
        (["load", file], &format!("{line}\nx\n"), "line 2: "),
        (["dump", "/nowhere"], "", "/nowhere: there is no such file"),
        (["stats", "/dev/null"], "", "/dev/null: it is cut short"),
    ] {
        let (done, said) = run(&arguments, input);
        assert!(!done && said.contains(complaint), "{said}");
    }
    // What could not be loaded has replaced nothing.
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sizes");
    let file = path.to_str().unwrap();
    let line = r#"{"cluster": "farm", "host": "test.example", "path": "/700", "bytes": 700}"#;
    let (done, said) = run(&["load", file], line);
    assert!(done, "{said}");
    for action in ["dump", "stats"] {
        // The reading end of this pipe is closed.
        let closed = std::io::pipe().unwrap().1;
        let mut command = sprat(&["catalogue", action, file]);
        let output = command.stdout(closed).output().unwrap();
        assert!(output.status.success(), "{action}: {output:?}");
    }
}

#[test]
fn the_admin_listener_tells_what_is_known() {
    let origin = chunked();
    let mut config = config(&[origin.address]);
    config.admin = Some(admin());
    let proxy = Proxy::start(&config);
    for path in ["/5", "/70", "/5"] {
        proxy.connect().ask(get(path));
    }
    proxy.wait_metric(&["sprat_catalogue_entries"], 2.0);
    let admin = proxy.server.as_ref().unwrap().admin_address().unwrap();
    let ask = |path| Peer::connect(admin).ask(get(path)).text();
    let summary: serde_json::Value = serde_json::from_str(&ask("/catalogue")).unwrap();
    assert_eq!(summary["entries"], 2);
    assert_eq!(summary["layers"][0]["layer"], "learnt");
    assert_eq!(summary["layers"][0]["hits"], 1);
    assert_eq!(summary["layers"][0]["misses"], 2);
    let dump = ask("/catalogue/dump");
    let mut bytes: Vec<u64> = dump
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|line| line["bytes"].as_u64().unwrap())
        .collect();
    bytes.sort_unstable();
    assert_eq!(bytes, [5, 70]);
    proxy.stop();
}

#[test]
fn a_manifest_is_believed_until_a_response_knows_better_and_is_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sizes.csv");
    std::fs::write(&path, "path,bytes\n/40,44\n").unwrap();
    let origin = chunked();
    let mut config = config(&[origin.address]);
    // Listed for two, it is read once, and told of once.
    let listed = [Some("farm".to_owned()), None].map(|cluster| Manifest {
        path: path.clone(),
        span: Span::default(),
        format: ManifestFormat::Csv,
        cluster,
        max_bytes: 1000,
        reload_interval: Duration::from_millis(20),
    });
    config.catalogue.manifests = listed.into();
    let proxy = Proxy::logging(config);
    let mut client = proxy.connect();
    for path in ["/40?v=2", "/40?v=2", "/50"] {
        client.ask(get(path));
    }
    let log = sizes(&proxy, 3);
    assert_eq!(log[0], ("manifest".to_owned(), Some(44)));
    assert_eq!(log[1], ("learnt".to_owned(), Some(40)));
    assert_eq!(log[2].0, "unknown");
    // A tenth is less than a quarter of a doubling.
    let off = [
        "catalogue_error_doublings_bucket",
        "\"manifest\"",
        "le=\"0.25\"",
    ];
    proxy.wait_metric(&off, 1.0);
    let loads = |result| ["catalogue_manifest_loads_total", result];
    std::fs::write(&path, "path,bytes\n/50,many\n").unwrap();
    proxy.wait_metric(&loads("bad"), 1.0);
    proxy.wait_metric(&["catalogue_manifest_entries"], 1.0);
    std::fs::write(&path, "path,bytes\n/50,50\n/60,60\n/70,70\n").unwrap();
    proxy.wait_metric(&loads("good"), 2.0);
    client.ask(get("/60"));
    assert_eq!(sizes(&proxy, 4)[3], ("manifest".to_owned(), Some(60)));
    proxy.stop();
}

#[test]
fn a_document_root_says_what_the_backend_will_send() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("30"), "x".repeat(30)).unwrap();
    let origin = chunked();
    let mut config = config(&[origin.address]);
    config.routes[0].matches.path = PathPattern::Prefix("/static".to_owned());
    config.routes[0].prefix_rewrite = Some("/".to_owned());
    config.routes[0].document_root = Some(DocumentRoot {
        path: directory.path().to_owned(),
        span: Span::default(),
        index: "index.html".to_owned(),
        budget: PATIENCE,
        ttl: Duration::from_secs(60),
        max_bytes: 10_000,
    });
    let proxy = Proxy::logging(config);
    for path in ["/static/30?x", "/static/31"] {
        assert_eq!(proxy.connect().ask(get(path)).status(), 200);
    }
    let log = sizes(&proxy, 2);
    assert_eq!(log[0], ("document_root".to_owned(), Some(30)));
    assert_eq!(log[1].0, "unknown");
    proxy.stop();
}

#[test]
fn kinds_are_estimated_where_nothing_else_is_known() {
    let origin = chunked();
    let mut config = config(&[origin.address]);
    config.catalogue.estimator = Some(EstimatorConfig {
        max_bytes: 1 << 20,
        quantile_per_mille: 500,
        observations_min: 3,
    });
    let proxy = Proxy::logging(config);
    let mut client = proxy.connect();
    for n in 0..4 {
        client.ask(get(&format!("/100.css?{n}")));
        client.ask(get(&format!("/9000.jpg?{n}")));
        // The catalogue learns when the response has gone out.
        proxy.wait_metric(&["sprat_catalogue_entries"], f64::from(2 * n + 2));
    }
    let log = sizes(&proxy, 8);
    assert_eq!(log[0].0, "unknown");
    assert_eq!(log[6], ("estimator".to_owned(), Some(100)));
    assert_eq!(log[7], ("estimator".to_owned(), Some(9000)));
    let exact = [
        "catalogue_error_doublings_bucket",
        "\"estimator\"",
        "le=\"0.0\"",
    ];
    assert_eq!(proxy.metric(&exact), 2.0);
    proxy.stop();
}

/// Returns the bytes that a large response has got when a small one is complete that began at the
/// same time. Neither announces its size; `learnt` says whether both were seen before.
fn head_start_of_the_large(learnt: bool) -> usize {
    const LARGE: &str = "/300000";
    const SMALL: &str = "/30000";
    let together = Arc::new((AtomicBool::new(false), Barrier::new(2)));
    let gate = Arc::clone(&together);
    let origin = Origin::http(move |request| {
        let path = request.start.split(' ').nth(1).unwrap();
        let bytes: usize = path[1..].parse().unwrap();
        if gate.0.load(SeqCst) {
            gate.1.wait();
        }
        let body = "x".repeat(bytes);
        format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{bytes:x}\r\n{body}\r\n0\r\n\r\n"
        )
    });
    let directory = tempfile::tempdir().unwrap();
    let snapshot = directory.path().join("sizes");
    let mut config = with_snapshot(&origin, &snapshot);
    if learnt {
        // At full speed, for the next who starts.
        let proxy = Proxy::start(&config);
        for path in [LARGE, SMALL] {
            assert_eq!(proxy.connect().ask(get(path)).status(), 200);
        }
        proxy.stop();
    }
    config.uplink.rate = Rate::Fixed(800_000);
    let cutoffs = sprat_scheduler::Cutoffs::Fixed(vec![50_000]);
    config.uplink.policy = sprat_scheduler::Discipline::Bands(cutoffs);
    let proxy = Proxy::start(&config);
    together.0.store(true, SeqCst);
    let (mut large, mut small) = (proxy.connect(), proxy.connect());
    let seen = Arc::new(AtomicUsize::new(0));
    large.send(get(LARGE));
    let count = Arc::clone(&seen);
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(bytes @ 1..) = large.reader.read(&mut buffer) {
            count.fetch_add(bytes, SeqCst);
        }
    });
    assert_eq!(small.ask(get(SMALL)).body.len(), 30_000);
    let seen = seen.load(SeqCst);
    proxy.stop();
    seen
}

#[test]
fn what_is_learnt_decides_the_order_on_the_uplink() {
    // Of unknown size, both are in the class of the small at first, and get as
    // much as each other.
    let unknown = head_start_of_the_large(false);
    assert!(unknown > 20_000, "{unknown}");
    let learnt = head_start_of_the_large(true);
    assert!(learnt < 10_000, "{learnt}");
}

#[test]
fn explain_says_where_a_size_is_known_from() {
    let directory = tempfile::tempdir().unwrap();
    let [yaml, csv, www] =
        ["sprat.yaml", "sizes.csv", "www"].map(|name| directory.path().join(name));
    std::fs::write(&csv, "path,bytes\n/a,1234\n").unwrap();
    std::fs::create_dir(&www).unwrap();
    std::fs::write(www.join("b"), "12345").unwrap();
    let text = format!(
        "version: 1\nlisteners: [{{address: 127.0.0.1:8080}}]\n\
         clusters: {{farm: {{endpoints: [127.0.0.1:1]}}}}\n\
         routes: [{{cluster: farm, document_root: {{path: {www:?}, budget: 20s}}}}]\n\
         catalogue: {{manifests: [{{path: {csv:?}}}]}}\n"
    );
    std::fs::write(&yaml, text).unwrap();
    let explained = |path: &str| {
        let request = format!("GET http://any.example{path}");
        let arguments = [
            "explain",
            "-c",
            yaml.to_str().unwrap(),
            "--request",
            &request,
        ];
        let output = sprat(&arguments).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        String::from_utf8(said).unwrap()
    };
    let said = explained("/a?v=1");
    assert!(said.contains("1234 bytes, estimate: manifest"), "{said}");
    let said = explained("/b");
    assert!(said.contains("5 bytes, estimate: document_root"), "{said}");
    let said = explained("/c");
    assert!(said.contains("unknown"), "{said}");
}
