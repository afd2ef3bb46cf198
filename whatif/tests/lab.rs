//! The prediction held against what was measured: the lab's traces as access logs, and
//! the mean response times of `make compare` (results/10mbit).
//!
//! `cargo test -p sprat-whatif --test lab -- --nocapture` prints the table of
//! docs/whatif.md.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Parser as _;
use serde_json::Value;
use sprat_whatif::Args;

/// How far a prediction may be off, as a share of what was measured.
const BAR: f64 = 0.20;

/// Systems of the lab, and the policies that predict them.
const SYSTEMS: [(&str, &str); 4] = [
    ("sprat-fair", "fair"),
    ("sprat-srpt", "srpt"),
    ("sprat-bands", "bands"),
    ("sprat-two-class", "{name: bands, cutoffs: two-class}"),
];

/// Servers that schedule nothing, behind the kernel's queue.
const OTHERS: [&str; 2] = ["nginx", "haproxy"];

#[derive(clap::Parser)]
struct Command {
    #[command(flatten)]
    args: Args,
}

fn results() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../results/10mbit")
}

/// A trace as the access log that Sprat would have written of it. `digits` are those of
/// its seconds.
fn access_log(load: &str, digits: usize) -> Vec<u8> {
    let file = results().join(format!("load-{load}/trace.csv.gz"));
    let mut trace = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(file).unwrap())
        .read_to_string(&mut trace)
        .unwrap();
    let mut log = String::new();
    for line in trace.lines().skip(1) {
        let mut fields = line.split(',');
        let t_s: f64 = fields.next().unwrap().parse().unwrap();
        let (minute, second) = (t_s as u64 / 60, t_s % 60.0);
        let unit = 10f64.powi(digits as i32);
        let second = (second * unit).floor() / unit;
        let width = if digits == 0 { 2 } else { 3 + digits };
        let (bytes, path) = (fields.next().unwrap(), fields.next().unwrap());
        writeln!(
            log,
            "{{\"time\":\"2026-01-01T00:{minute:02}:{second:0width$.digits$}Z\",\"status\":200,\
             \"path\":\"{path}\",\"bytes\":{bytes},\"size_source\":\"exact\"}}"
        )
        .unwrap();
    }
    log.into_bytes()
}

/// What is predicted of each policy: mean, smallest mean slowdown and the largest 1%, in ms.
fn predicted(load: &str, digits: usize) -> Vec<(String, Times)> {
    let mut options = vec![
        "whatif", "-", "--uplink", "10mbit", "--json", "--rates", "1",
    ];
    for (_, policy) in SYSTEMS {
        options.extend(["--policy", policy]);
    }
    let command = Command::try_parse_from(options).unwrap();
    let mut out = Vec::new();
    let log = access_log(load, digits);
    sprat_whatif::run(&command.args, &mut &log[..], &mut out).unwrap();
    let report: Value = serde_json::from_slice(&out).unwrap();
    let parts = report["policies"].as_array().unwrap().iter();
    let part = |part: &Value| {
        let figures = &part["rates"][0]["figures"];
        let ms = |of: &str| figures[of]["response_ms"]["mean"].as_f64().unwrap();
        let times = Times {
            mean_ms: ms("all"),
            largest_ms: ms("largest_1_percent"),
        };
        (part["policy"].as_str().unwrap().to_owned(), times)
    };
    parts.map(part).collect()
}

#[derive(Clone, Copy, Debug)]
struct Times {
    mean_ms: f64,
    largest_ms: f64,
}

/// What was measured of a system, if it was at that load.
fn measured(system: &str, load: &str) -> Option<Times> {
    let text = std::fs::read_to_string(results().join("summary.csv")).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let names = lines.next().unwrap();
    let column = |name: &str| names.iter().position(|other| *other == name).unwrap();
    let load = format!("{:.2}", load.parse::<f64>().unwrap());
    let line = lines.find(|line| line[0] == system && line[1] == load)?;
    let number = |name| line[column(name)].parse().unwrap();
    Some(Times {
        mean_ms: number("mean_ms"),
        largest_ms: number("largest1_ms"),
    })
}

#[test]
fn predictions_are_near_what_was_measured() {
    let mut compared = 0;
    for load in ["0.5", "0.7", "0.9"] {
        let predicted = predicted(load, 6);
        let of = |policy: &str| predicted.iter().find(|(name, _)| name == policy).unwrap().1;
        let others = OTHERS.map(|system| (system, "fair"));
        for (system, policy) in SYSTEMS.into_iter().chain(others) {
            let Some(measured) = measured(system, load) else {
                continue;
            };
            let predicted = of(policy);
            let off = predicted.mean_ms / measured.mean_ms - 1.0;
            let largest_off = predicted.largest_ms / measured.largest_ms - 1.0;
            println!(
                "{load} {system:16} mean {:6.2} predicted {:6.2} ({:+.1}%), largest 1% {:6.1} \
                 predicted {:6.1} ({:+.1}%)",
                measured.mean_ms,
                predicted.mean_ms,
                off * 100.0,
                measured.largest_ms,
                predicted.largest_ms,
                largest_off * 100.0,
            );
            // What stands in the kernel's queue is no part of the prediction.
            if OTHERS.contains(&system) {
                assert!(off < 0.0, "{system} at {load} is better than `fair`");
                continue;
            }
            compared += 1;
            assert!(off.abs() < BAR, "{system} at {load}: {off}");
            assert!(largest_off.abs() < BAR, "{system} at {load}: {largest_off}");
        }
    }
    assert_eq!(compared, 6);
}

/// A log of whole seconds gives the same figures, nearly: its requests are put within
/// their seconds as a Poisson process would have had them.
#[test]
fn whole_seconds_are_enough() {
    for load in ["0.5", "0.7", "0.9"] {
        let exact = predicted(load, 6);
        for ((policy, exact), (_, rounded)) in exact.into_iter().zip(predicted(load, 0)) {
            let off = rounded.mean_ms / exact.mean_ms - 1.0;
            println!("{load} {policy}: {:+.1}%", off * 100.0);
            assert!(off.abs() < BAR, "{policy} at {load}: {off}");
        }
    }
}
