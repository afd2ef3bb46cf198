//! The command as it is called: what it prints, and what it refuses.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::path::{Path, PathBuf};

use clap::Parser as _;
use serde_json::Value;
use sprat_whatif::Args;

#[derive(clap::Parser)]
struct Command {
    #[command(flatten)]
    args: Args,
}

fn log(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/logs")
        .join(name);
    path.display().to_string()
}

/// What the command prints, given options and standard input.
fn run(options: &[&str], mut stdin: &[u8]) -> Result<String, String> {
    let words = ["whatif"].iter().chain(options);
    let command = Command::try_parse_from(words).map_err(|error| error.to_string())?;
    let mut out = Vec::new();
    let run = sprat_whatif::run(&command.args, &mut stdin, &mut out);
    run.map_err(|error| format!("{error:#}"))?;
    Ok(String::from_utf8(out).unwrap())
}

fn json(options: &[&str], stdin: &[u8]) -> Value {
    let text = run(&[options, &["--json"]].concat(), stdin).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn policy<'a>(report: &'a Value, name: &str) -> &'a Value {
    let mut parts = report["policies"].as_array().unwrap().iter();
    parts.find(|part| part["policy"] == name).unwrap()
}

/// A log of Sprat's own with responses of `bytes` at so many milliseconds.
fn own_log(responses: &[(u64, u64)]) -> Vec<u8> {
    let line = |(ms, bytes): &(u64, u64)| {
        let (seconds, ms) = (ms / 1000, ms % 1000);
        format!(
            "{{\"time\":\"2026-11-24T11:00:{seconds:02}.{ms:03}Z\",\"status\":200,\
             \"bytes\":{bytes},\"size_source\":\"exact\"}}\n"
        )
    };
    responses.iter().map(line).collect::<String>().into_bytes()
}

/// Steady traffic: a large response each second, and small ones between.
fn busy() -> Vec<u8> {
    let mut responses = Vec::new();
    for second in 0..50 {
        responses.push((second * 1000, 60_000));
        responses.extend((1..20).map(|n| (second * 1000 + n * 13, 500)));
    }
    own_log(&responses)
}

#[test]
fn a_response_alone_takes_what_its_bytes_take() {
    // 1,228 bytes with the head, a segment's 66 and a connection's 330: 1,624 on the wire,
    // at 1 byte for each microsecond.
    let options = ["-", "--uplink", "8mbit", "--rates", "1"];
    let report = json(&options, &own_log(&[(0, 1008), (1000, 1008)]));
    for name in sprat_config::policy_names() {
        let figures = &policy(&report, name)["rates"][0]["figures"];
        let ms = figures["all"]["response_ms"]["mean"].as_f64().unwrap();
        assert!((ms - 1.624).abs() < 1e-6, "{name}: {ms}");
        let slowdown = figures["all"]["slowdown"]["mean"].as_f64().unwrap();
        assert!((slowdown - 1.0).abs() < 1e-6, "{name}: {slowdown}");
        assert_eq!(figures["largest_1_percent"]["responses"], 1, "{name}");
    }
    let kept = [&options[..], &["--connection", "keep"]].concat();
    let report = json(&kept, &own_log(&[(0, 1008), (500, 1008)]));
    let ms = &policy(&report, "srpt")["rates"][0]["figures"]["all"]["response_ms"]["mean"];
    assert!((ms.as_f64().unwrap() - 1.294).abs() < 1e-6, "{ms}");
}

#[test]
fn the_order_by_size_is_worth_clients() {
    let report = json(&["-", "--uplink", "1mbit"], &busy());
    let mean = |name| {
        let today = policy(&report, name)["rates"].as_array().unwrap();
        let today = today.iter().find(|at| at["rate"] == 1.0).unwrap();
        today["figures"]["all"]["response_ms"]["mean"]
            .as_f64()
            .unwrap()
    };
    let (fcfs, fair, srpt) = (mean("fcfs"), mean("fair"), mean("srpt"));
    assert!(srpt < fair && fair < fcfs, "{srpt} {fair} {fcfs}");
    let clients = |name| policy(&report, name)["clients"].clone();
    // Of `fair` itself just as many.
    assert_eq!(clients("fair")["times"], 1.0);
    let more = clients("srpt");
    let more = more["times"].as_f64().or(more["at_least"].as_f64());
    assert!(more.unwrap() > 1.0, "{more:?}");
    let load = report["link"]["load"].as_f64().unwrap();
    assert!((0.5..1.0).contains(&load), "{load}");
}

#[test]
fn the_same_log_gives_the_same_figures() {
    let one = json(&["-", "--uplink", "1mbit", "--threads", "1"], &busy());
    assert_eq!(
        one,
        json(&["-", "--uplink", "1mbit", "--threads", "3"], &busy())
    );
    // In another order it is the same traffic.
    let mut lines: Vec<_> = busy()
        .split_inclusive(|byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect();
    lines.swap(3, 700);
    let other = json(&["-", "--uplink", "1mbit"], &lines.concat());
    assert!(other["log"]["out_of_order"].as_u64().unwrap() > 0);
    let bytes = &one["log"]["bytes"];
    assert_eq!(&other["log"]["bytes"], bytes);
}

#[test]
fn the_table_fits_and_says_all_that_is_asked_of_it() {
    let text = run(&[&log("clf.log"), "--uplink", "1mbit"], b"").unwrap();
    let own: Vec<&str> = text
        .lines()
        .filter(|line| !line.contains("/tests/logs/"))
        .collect();
    for line in &own {
        assert!(line.chars().count() <= 80, "{line}");
    }
    for name in sprat_config::policy_names() {
        let rows = own
            .iter()
            .filter(|line| line.starts_with(&format!("{name} ")));
        // As it is, by size, by rate, and the largest by rate.
        assert_eq!(rows.count(), 4, "{name}:\n{text}");
    }
    assert!(
        text.contains("largest 1%") && text.contains("The largest 1% "),
        "{text}"
    );
    assert!(text.contains("1 line could not be read"), "{text}");
    assert!(text.contains("clf.log:4: there is no time stamp"), "{text}");
    assert!(text.contains("4 requests, format clf\n"), "{text}");
}

#[test]
fn a_link_that_is_asked_for_too_much_has_no_figures() {
    let report = json(&["-", "--uplink", "1kbit", "--rates", "0.01"], &busy());
    let today = &policy(&report, "srpt")["rates"][1];
    assert_eq!(today["figures"], Value::Null);
    assert_eq!(
        today["overloaded"],
        "the link carries less than is asked of it"
    );
    assert_eq!(policy(&report, "srpt")["clients"], Value::Null);
    let text = run(&["-", "--uplink", "1kbit"], &busy()).unwrap();
    assert!(
        text.contains("more than it carries, whatever the order"),
        "{text}"
    );
}

#[test]
fn an_overload_is_told_whichever_policies_are_asked_for() {
    let options = ["-", "--uplink", "1kbit", "--rates", "1", "--policy", "fcfs"];
    let text = run(&options, &busy()).unwrap();
    let why = "more than it carries, whatever the order";
    assert!(text.contains(why), "{text}");
}

#[test]
fn a_link_on_which_too_many_wait_is_not_said_to_carry_too_little() {
    let mut responses = vec![(0, 1); 66_000];
    responses.push((59_000, 1));
    let options = [
        "-", "--uplink", "10mbit", "--rates", "1", "--policy", "srpt",
    ];
    let text = run(&options, &own_log(&responses)).unwrap();
    let why = "of the link, but more than 65,536 responses wait at a time. Look at ";
    assert!(text.contains(why), "{text}");
}

#[test]
fn the_page_needs_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("page.html");
    let name = file.display().to_string();
    let policy = "{name: bands, cutoffs: [1KB, 50KB]}";
    let options = [
        "-", "--uplink", "1mbit", "--html", &name, "--policy", policy,
    ];
    run(&options, &busy()).unwrap();
    let page = std::fs::read_to_string(&file).unwrap();
    assert_eq!(
        page.matches("<svg ").count(),
        8,
        "four figures, each wide and narrow"
    );
    assert!(page.contains("<th scope=\"row\">{name: bands, cutoffs: [1KB, 50KB]}</th>"));
    for reference in ["src=", "href=", "url(", "@import", "<script"] {
        assert!(!page.contains(reference), "{reference}");
    }
    let gone: PathBuf = directory.path().join("gone/page.html");
    let gone = gone.display().to_string();
    let error = run(&["-", "--uplink", "1mbit", "--html", &gone], &busy()).unwrap_err();
    assert!(error.starts_with("cannot write the page "), "{error}");
}

#[test]
fn wrong_options_say_what_is_right() {
    let of = |options: &[&str]| run(options, b"x\n").unwrap_err();
    assert!(of(&["-"]).contains("--uplink <RATE>"));
    assert!(of(&["-", "--uplink", "10"]).contains("such as 512kbit"));
    assert!(of(&["-", "--uplink", "0mbit"]).contains("such as 10mbit"));
    assert!(of(&["-", "--uplink", "1mbit", "--rates", "0"]).contains("such as 1.5"));
    let error = of(&["-", "--uplink", "1mbit", "--policy", "sprt"]);
    assert!(error.contains("did you mean `srpt`?"), "{error}");
    assert!(of(&["-", "--uplink", "1mbit", "--format", "w3c"]).contains("haproxy"));
    assert!(of(&["-", "--uplink", "1mbit"]).contains("tried the formats clf,"));
}
