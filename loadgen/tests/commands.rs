//! The binary's commands, as one types them.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use sprat_loadgen::results::{self, RunInfo};
use sprat_loadgen::trace::Trace;

fn loadgen(dir: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sprat-loadgen"))
        .args(args)
        .current_dir(dir)
        .output()
        .unwrap()
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn gen_writes_a_trace_and_its_files() {
    let dir = tempfile::tempdir().unwrap();
    let args = [
        "gen",
        "--requests",
        "500",
        "--files",
        "50",
        "--load",
        "0.7",
        "-o",
        "t.csv.gz",
        "--tree",
        "www",
    ];
    let told = stdout(&loadgen(dir.path(), &args));
    assert!(told.contains("500 requests in "), "{told}");
    assert!(told.contains("load 0.700 on the wire"), "{told}");
    let trace = Trace::read(&dir.path().join("t.csv.gz")).unwrap();
    assert_eq!(trace.requests.len(), 500);
    for request in &trace.requests {
        let file = dir.path().join("www").join(&request.path[1..]);
        assert_eq!(std::fs::metadata(file).unwrap().len(), request.bytes);
    }
    let first = std::fs::read(dir.path().join("t.csv.gz")).unwrap();
    stdout(&loadgen(dir.path(), &args));
    assert_eq!(std::fs::read(dir.path().join("t.csv.gz")).unwrap(), first);
}

#[test]
fn replay_writes_results_and_their_json() {
    let dir = tempfile::tempdir().unwrap();
    let address = sprat_loadgen::origin::start(&Default::default())
        .unwrap()
        .addresses[0];
    stdout(&loadgen(
        dir.path(),
        &[
            "gen",
            "--requests",
            "300",
            "--uplink",
            "100mbit",
            "-o",
            "t.csv",
        ],
    ));
    let target = format!("http://{address}");
    let told = stdout(&loadgen(
        dir.path(),
        &[
            "replay",
            "--trace",
            "t.csv",
            "--target",
            &target,
            "--name",
            "origin",
            "--limit",
            "200",
            "--warmup",
            "50",
            "--seed",
            "7",
            "--load",
            "0.9",
            "--uplink",
            "100mbit",
            "--commit",
            "abc",
            "-o",
            "out/r.csv",
        ],
    ));
    assert!(
        told.starts_with("origin: 150 requests, 0 failed, mean "),
        "{told}"
    );
    let file = dir.path().join("out/r.csv");
    let outcomes = results::read(&file).unwrap();
    let trace = Trace::read(&dir.path().join("t.csv")).unwrap();
    assert_eq!(outcomes.len(), 150);
    assert_eq!(outcomes[0].path, trace.requests[50].path);
    let info = RunInfo::read_beside(&file).unwrap();
    assert_eq!(
        (info.name.as_str(), info.seed, info.failed),
        ("origin", Some(7), 0)
    );
    assert_eq!(info.commit.as_deref(), Some("abc"));
    assert!(info.load_wire.unwrap() > info.load_payload.unwrap());
    assert!(info.goodput_bytes_per_s > 0.0);
    assert_eq!(info.client.unwrap().warmup, 50);
}

#[test]
fn mistakes_are_told_with_file_and_line() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(
        dir.path().join("bad.csv"),
        "t_s,bytes,path\n0,1,/a\n0,x,/a\n",
    )
    .unwrap();
    let target = "http://127.0.0.1:1";
    for (args, expected) in [
        (
            vec![
                "replay", "--trace", "bad.csv", "--target", target, "-o", "r.csv",
            ],
            "bad.csv:3: `x` in column `bytes`",
        ),
        (
            vec![
                "replay",
                "--trace",
                "bad.csv",
                "--target",
                "http://127.0.0.1/x",
                "-o",
                "r.csv",
            ],
            "a target is written http://host:port",
        ),
        (
            vec!["gen", "--uplink", "10", "-o", "t.csv"],
            "`10` is not a rate",
        ),
        (
            vec!["gen", "--load", "0", "-o", "t.csv"],
            "a load is a share of the link",
        ),
        (vec!["gen"], "--output"),
        (
            vec!["origin", "--header", "x"],
            "a header is written `Name: value`",
        ),
        (vec!["origin", "--concurrency", "1"], "--bandwidth"),
    ] {
        let output = loadgen(dir.path(), &args);
        assert!(!output.status.success(), "{args:?}");
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(told.contains(expected), "{args:?}: {told}");
    }
}

#[test]
fn recorded_traces_become_replayable() {
    let dir = tempfile::tempdir().unwrap();
    let recorded =
        "t_s,bytes,status,url\n4,0,304,/a\n5,1000,200,/a\n5,2000,200,/b\n9,3000,200,/c\n";
    std::fs::write(dir.path().join("day.csv"), recorded).unwrap();
    let told = stdout(&loadgen(
        dir.path(),
        &[
            "gen",
            "--recorded",
            "day.csv",
            "--load",
            "0.5",
            "-o",
            "t.csv",
        ],
    ));
    assert!(
        told.contains("3 requests") && told.contains("load 0.500"),
        "{told}"
    );
    assert_eq!(
        Trace::read(&dir.path().join("t.csv"))
            .unwrap()
            .payload_bytes(),
        6000
    );
}

#[test]
fn simulations_write_tables_and_figures() {
    let dir = tempfile::tempdir().unwrap();
    let run = |args: &str| {
        let args: Vec<&str> = args.split_whitespace().collect();
        stdout(&loadgen(dir.path(), &args))
    };
    let link = "simulate link --requests 2000 --load 0.5,0.8 -o out";
    let told = run(link);
    assert!(told.contains("srpt-aged"), "{told}");
    assert!(told.contains("off %"), "{told}");
    assert_eq!(run(link), told, "the seed decides everything");
    let told = run("simulate waiting --requests 2000 -o out");
    assert!(told.contains("times less than fcfs"), "{told}");
    let told = run("simulate dispatch --requests 2000 -o out");
    assert!(told.contains("sita, learnt"), "{told}");
    let told = run("simulate sdis02 --requests 1000 -o out");
    assert!(told.contains("figure 13; 5.5"), "{told}");

    let rows = |name: &str| {
        // Scripts split lines at commas: a quote hides none from them.
        let mut reader = csv::ReaderBuilder::new();
        let rows = reader
            .quoting(false)
            .from_path(dir.path().join("out").join(name));
        let rows: Result<Vec<_>, _> = rows.unwrap().into_records().collect();
        rows.unwrap_or_else(|error| panic!("{name}: {error}")).len()
    };
    assert_eq!(rows("link.csv"), 2 * 11);
    assert_eq!(rows("waiting.csv"), 5);
    assert_eq!(rows("dispatch.csv"), 12);
    // 23 curves of 15 rates: high, low and all.
    assert_eq!(rows("sdis02.csv"), 23 * 15 * 3);
    let mut figures = vec!["link-time".to_owned(), "dispatch-slowdown".to_owned()];
    figures.extend((2..=13).map(|figure| format!("sdis02-figure-{figure:02}")));
    for figure in figures {
        let svg = std::fs::read_to_string(dir.path().join(format!("out/{figure}.svg"))).unwrap();
        assert!(
            svg.starts_with("<svg ") && svg.ends_with("</svg>\n"),
            "{figure}"
        );
    }
}

#[test]
fn simulations_refuse_what_makes_no_sense() {
    let dir = tempfile::tempdir().unwrap();
    for (args, complaint) in [
        ("simulate link --load 1.0", "above 0 and below 1"),
        ("simulate link --sizes normal", "expected `workload`"),
        ("simulate link --quantum 0", "from 1 byte"),
        ("simulate sdis02 --cache-hits 2", "from 0 to 1"),
        ("simulate waiting --fixed -1", "unexpected argument"),
    ] {
        let args: Vec<&str> = args.split_whitespace().collect();
        let output = loadgen(dir.path(), &args);
        assert!(!output.status.success(), "{args:?}");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(told.contains(complaint), "{args:?}: {told}");
    }
}

/// Asks for a page as a browser does, and returns what has come after `until` has.
fn page(address: &str, path: &str, until: &str) -> String {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let (mut got, mut buffer) = (String::new(), [0; 16_384]);
    while !got.contains(until) {
        let length = stream.read(&mut buffer).unwrap();
        assert_ne!(length, 0, "it ended before `{until}`: {got}");
        got.push_str(&String::from_utf8_lossy(&buffer[..length]));
    }
    got
}

#[test]
fn a_demo_shows_two_systems_and_says_how_they_did() {
    use std::io::{BufRead, BufReader, Read};
    let origin = sprat_loadgen::origin::start(&Default::default()).unwrap();
    let url = format!("http://{}", origin.addresses[0]);
    let mut demo = Command::new(env!("CARGO_BIN_EXE_sprat-loadgen"))
        .args(["demo", "--listen", "127.0.0.1:0", "--requests", "50"])
        .args(["--uplink", "10mbit", "--duration", "3s"])
        .args([
            "--system",
            &format!("one={url}"),
            "--system",
            &format!("two={url}"),
        ])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(demo.stdout.take().unwrap());
    let mut line = String::new();
    told.read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("The page: http://").unwrap();
    assert!(page(address, "/", "</html>").contains("demo.js"));
    assert!(page(address, "/demo.css", "footer {").contains("text/css"));
    assert!(page(address, "/demo.js", "EventSource").contains("text/javascript"));
    assert!(page(address, "/x", "not here").starts_with("HTTP/1.1 404"));
    let events = page(address, "/events", "\"name\":\"two\"");
    assert!(events.contains("text/event-stream"), "{events}");
    assert!(events.contains("\"name\":\"one\"") && events.contains("\"name\":\"two\""));
    assert!(demo.wait().unwrap().success());
    let mut summary = String::new();
    told.read_to_string(&mut summary).unwrap();
    let lines: Vec<_> = summary.lines().collect();
    assert!(
        lines[0].starts_with("one: ") && lines[1].starts_with("two: "),
        "{summary}"
    );
    assert!(
        lines.iter().all(|line| line.ends_with(" ms, 0 failed")),
        "{summary}"
    );
    assert!(
        lines.iter().all(|line| !line.contains(": 0 requests")),
        "{summary}"
    );
}

/// The origin serves one connection at a time, so the second client is answered only if
/// it has seen that the first one left.
#[test]
fn an_origin_that_waits_sees_that_a_client_has_left_within_its_body() {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    let origin = sprat_loadgen::origin::start(&sprat_loadgen::origin::Origin {
        connections_max: 1,
        ..Default::default()
    })
    .unwrap();
    let ask = |text: &str| {
        let mut stream = TcpStream::connect(origin.addresses[0]).unwrap();
        let patience = Some(Duration::from_secs(30));
        stream.set_read_timeout(patience).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        stream
    };
    let post = "POST /size/1/a?delay=1h HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\nhalf";
    drop(ask(post));
    let mut answer = String::new();
    ask("GET /size/1/a HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        .read_to_string(&mut answer)
        .unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}
