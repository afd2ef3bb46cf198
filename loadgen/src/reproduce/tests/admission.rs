//! The experiment `lab-admission`: the configurations and traces of its script, and its rows.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use sprat_config::Config;
use sprat_config::resolved::{Dispatch, QueueTimeout, WaitOrder, WaitQueue, WaitScope};

use super::super::lab::{self, LabScript};
use super::super::record::{Record, file_of};
use super::super::verdict::Verdict;
use super::super::{plots, reference, rows, run};
use crate::content::Content;
use crate::results::{self, Failure, Outcome};
use crate::simulate::experiment::Point;
use crate::trace::Trace;

fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Runs a command in the checkout, and returns what it prints.
fn printed(program: &str, args: &[&str]) -> String {
    let output = Command::new(program)
        .args(args)
        .current_dir(checkout())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

fn configuration(system: &str) -> Config {
    let script = "scripts/compare-admission.sh";
    let text = printed("bash", &[script, "configuration", "3", system]);
    let loaded = sprat_config::parse(&text, system, &|_| None).unwrap();
    assert!(loaded.warnings.is_empty(), "{}", loaded.warnings);
    loaded.config
}

/// The parts of a configuration in which systems differ.
#[derive(Debug, PartialEq)]
struct Differences {
    dispatch: Dispatch,
    high_level: u8,
    low_thresholds: (f64, f64),
    timeout: Duration,
}

#[test]
fn every_system_has_a_configuration_that_sprat_takes() {
    let differences = |dispatch, high_level, low_thresholds, timeout_s| Differences {
        dispatch,
        high_level,
        low_thresholds,
        timeout: Duration::from_secs(timeout_s),
    };
    let (never, early) = ((1.0, 1.0), (0.5, 0.75));
    for (system, expected) in [
        (
            "unprotected",
            differences(Dispatch::LeastRequest, 3, never, 60),
        ),
        (
            "discarding",
            differences(Dispatch::LeastRequest, 3, early, 60),
        ),
        (
            "displacing",
            differences(Dispatch::LeastRequest, 1, never, 60),
        ),
        ("psqf", differences(Dispatch::Psqf, 1, early, 60)),
        ("timeout", differences(Dispatch::LeastRequest, 1, early, 2)),
    ] {
        let config = configuration(system);
        let class = |name: &str| {
            let mut classes = config.classes.list.iter();
            classes.find(|own| own.name == name).unwrap()
        };
        let (high, low, cluster) = (class("high"), class("low"), &config.clusters[0]);
        let found = Differences {
            dispatch: cluster.dispatch.clone(),
            high_level: high.spec.level,
            low_thresholds: low.spec.drop_thresholds,
            timeout: config.routes[0].timeout.unwrap(),
        };
        assert_eq!(found, expected, "{system}");
        assert_eq!(low.spec.level, 3, "{system}");
        assert_eq!(high.spec.drop_thresholds, never, "{system}");
        let timeout = Some(expected.timeout);
        for class in [high, low] {
            assert_eq!(class.queue_timeout, QueueTimeout::Own(timeout), "{system}");
        }
        let queue = WaitQueue {
            order: WaitOrder::Fcfs,
            scope: WaitScope::Endpoint,
            max_requests: 100,
            timeout,
        };
        assert_eq!(cluster.wait_queue, queue, "{system}");
        assert_eq!((cluster.endpoints.len(), cluster.max_requests), (4, 1));
        assert!(cluster.resilience.outlier_detection.is_none(), "{system}");
    }
}

/// The time that the trace's requests are told to take less than their service.
const OVERHEAD_MS: f64 = 1.5;

/// Returns a trace of the script's at 0.9 of the capacity.
fn trace(ratio: &str, arrivals: &str) -> Trace {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("trace.csv.gz");
    let name = file.to_str().unwrap();
    let overhead = OVERHEAD_MS.to_string();
    let script = "scripts/admission.py";
    let args = [
        script,
        "trace",
        name,
        "0.9",
        ratio,
        "20",
        "7",
        overhead.as_str(),
        arrivals,
        "traffic",
    ];
    printed("python3", &args);
    Trace::read(&file).unwrap()
}

/// Returns the path of a request without its class and its delay, its class, and its delay in
/// milliseconds.
fn parts(path: &str) -> (&str, &str, f64) {
    let (path, query) = path.split_once('?').unwrap();
    let (stem, class) = path.rsplit_once('.').unwrap();
    let delay = query.strip_prefix("delay=").unwrap();
    (
        stem,
        class,
        delay.strip_suffix("ms").unwrap().parse().unwrap(),
    )
}

#[test]
fn a_trace_asks_for_exactly_the_load() {
    for arrivals in ["bursts", "poisson"] {
        let trace = trace("0.3", arrivals);
        let mut work_ms = 0.0;
        for request in &trace.requests {
            let content = Content::of_path(&request.path).unwrap();
            assert_eq!(content.bytes, request.bytes);
            work_ms += parts(&request.path).2 + OVERHEAD_MS;
        }
        // Four servers; the last request comes a little before the end.
        let ends_s = work_ms / 1e3 / 4.0 / 0.9;
        let part = trace.duration_s() / ends_s;
        assert!((0.98..=1.0).contains(&part), "{arrivals}: {part}");
    }
}

#[test]
fn another_ratio_changes_classes_alone() {
    let (few, many) = (trace("0.3", "bursts"), trace("0.9", "bursts"));
    assert_eq!(few.requests.len(), many.requests.len());
    let mut high = [0; 2];
    for (one, other) in few.requests.iter().zip(&many.requests) {
        assert_eq!((one.t_s, one.bytes), (other.t_s, other.bytes));
        let (one, other) = (parts(&one.path), parts(&other.path));
        assert_eq!((one.0, one.2), (other.0, other.2));
        assert!(one.1 == other.1 || (one.1, other.1) == ("low", "high"));
        for (count, class) in high.iter_mut().zip([one.1, other.1]) {
            *count += usize::from(class == "high");
        }
    }
    let share = high.map(|count| count as f64 / few.requests.len() as f64);
    assert!((0.27..0.33).contains(&share[0]), "{share:?}");
    assert!((0.87..0.93).contains(&share[1]), "{share:?}");
}

/// A request as its client and the access log saw it.
#[derive(Clone, Copy, Debug)]
struct Seen {
    priority: &'static str,
    response_ms: f64,
    /// The reason of the access log, if the request failed.
    reason: Option<&'static str>,
}

const fn seen(priority: &'static str, response_ms: f64, reason: Option<&'static str>) -> Seen {
    Seen {
        priority,
        response_ms,
        reason,
    }
}

/// Writes a run as the script leaves it. Its first request is part of the warm-up.
fn write_run(directory: &Path, name: &str, requests: &[Seen]) {
    let warm_up = seen("high", 1.0, Some("queue_full"));
    let mut log = "/size/10/probe.high -\n".to_owned();
    let mut outcomes = Vec::new();
    for (number, own) in std::iter::once(&warm_up).chain(requests).enumerate() {
        let path = format!("/size/1/{number}.{}", own.priority);
        log.push_str(&format!("{path} {}\n", own.reason.unwrap_or("-")));
        let at_s = if number == 0 { 0.0 } else { 10.0 };
        outcomes.push(Outcome {
            t_s: at_s,
            bytes: 1,
            path: format!("{path}?delay=9ms").into(),
            start_s: at_s,
            response_ms: own.response_ms,
            received: 1,
            status: 200,
            error: own.reason.map(|_| Failure::Status),
        });
    }
    results::write(&outcomes, &directory.join(format!("{name}.csv.gz"))).unwrap();
    std::fs::write(directory.join(format!("{name}.log")), log).unwrap();
}

/// Writes the runs of figure 12: beyond the capacity a quarter, then half of low priority is
/// refused, and without protection as much of high.
fn write_rejections(directory: &Path, runs: &mut String) {
    for (load, refused) in [("0.8", 0), ("1.25", 1), ("1.5", 2)] {
        for system in ["unprotected", "discarding", "displacing", "psqf"] {
            let requests = [("high", "unprotected"), ("low", system)].map(|(priority, refuses)| {
                [0, 1, 2, 3].map(|index| {
                    let is_refused = index < refused && system == refuses;
                    seen(priority, 500.0, is_refused.then_some("early_discard"))
                })
            });
            let name = format!("12-{load}-{system}");
            write_run(directory, &name, &requests.concat());
            runs.push_str(&format!("12,{load},{system},{name}\n"));
        }
    }
}

/// Writes the runs of figure 13: one of four is late, of nine in ten one is aborted below the
/// capacity; at it, one of low priority.
fn write_timeouts(directory: &Path, runs: &mut String) {
    for load in ["0.5", "1.0", "1.25"] {
        for ratio in ["0.5", "0.9"] {
            let is_aborted = ratio == "0.9" && load == "0.5";
            // Beyond the capacity nothing counts.
            let is_refused = load == "1.25";
            let requests = [
                seen("high", 2500.0, None),
                seen("high", 100.0, is_aborted.then_some("route_timeout")),
                seen("high", 100.0, is_refused.then_some("queue_full")),
                seen("high", 100.0, None),
                seen("low", 2000.0, (load == "1.0").then_some("queue_timeout")),
                seen("low", 100.0, None),
            ];
            let name = format!("13-{load}-{ratio}");
            write_run(directory, &name, &requests);
            runs.push_str(&format!("13,{load},{ratio},{name}\n"));
        }
    }
}

fn lab_admission() -> LabScript {
    lab::all().find(|own| own.name == "lab-admission").unwrap()
}

/// Returns the record of the runs above, as the script and the experiment make it of them.
fn record(directory: &Path) -> Record {
    let mut runs = "figure,load,system,name\n".to_owned();
    write_rejections(directory, &mut runs);
    write_timeouts(directory, &mut runs);
    std::fs::write(directory.join("runs.csv"), runs).unwrap();
    let name = directory.to_str().unwrap();
    printed("python3", &["scripts/admission.py", "summary", name]);
    Record {
        code: "code".to_owned(),
        scale: "full".to_owned(),
        parameters: String::new(),
        took_s: 1.0,
        measured: lab_admission().read(directory).unwrap(),
    }
}

#[test]
fn values_and_points_are_made_of_what_clients_and_the_log_saw() {
    let directory = tempfile::tempdir().unwrap();
    let measured = record(directory.path()).measured;
    let expected = [
        ("rejection slope of high over low", 1.0),
        ("early discard keeps high in", 1.0),
        ("high within 2 s", 0.625),
        ("high refused", 0.0),
        ("high aborted", 0.125),
        ("high aborted at capacity over below", 0.0),
        ("low aborted grows", 1.0),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), value));
    assert_eq!(measured.values, BTreeMap::from(expected));
    for (plot, line, x, y) in [
        ("figure-12-sockets", "unprotected: high", 1.5, 50.0),
        ("figure-12-sockets", "discarding: high", 1.5, 0.0),
        ("figure-12-sockets", "discarding: low", 1.25, 25.0),
        ("figure-13-sockets", "0.9: high aborted", 0.5, 25.0),
        ("figure-13-sockets", "0.5: low aborted", 1.0, 50.0),
        ("figure-13-sockets", "0.5: high rejected", 1.25, 25.0),
    ] {
        let point = Point {
            plot: plot.to_owned(),
            line: line.to_owned(),
            x,
            y,
        };
        assert!(measured.points.contains(&point), "{point:?}");
    }
}

#[test]
fn rows_and_plots_are_made_of_the_record() {
    use Verdict::{Differs, Reproduced};
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path();
    let record = record(output);
    record
        .write(&file_of(output, "SDIS02", "lab-admission"))
        .unwrap();
    let (papers, runs) = (reference::all().unwrap(), run::all(None));
    let found = rows::judge(&papers, &runs, output).unwrap();
    let ours = found
        .iter()
        .filter(|own| own.source == "lab: lab-admission");
    let verdicts: Vec<(&str, Verdict)> =
        ours.map(|own| (own.figure.as_str(), own.verdict)).collect();
    let expected = [
        ("12", Reproduced),
        ("12", Reproduced),
        ("13", Differs),
        ("13", Reproduced),
        ("13", Differs),
        ("13", Reproduced),
        ("13", Reproduced),
    ];
    assert_eq!(verdicts, expected);
    let drawn = plots::all(&runs, output).unwrap();
    let captions: Vec<&str> = drawn.iter().map(|own| own.caption.as_str()).collect();
    assert_eq!(captions.len(), 2, "{captions:?}");
    for (caption, figure) in captions.iter().zip(["12", "13"]) {
        let begins = format!("Figure {figure}, sockets: ");
        assert!(caption.starts_with(&begins), "{captions:?}");
    }
}

#[test]
fn what_the_lab_makes_of_namespaces_needs_root_and_nothing_else() {
    let all = lab::all().filter(|own| !own.needs_root);
    let names: Vec<&str> = all.map(|own| own.name).collect();
    assert_eq!(names, ["lab-admission"]);
}
