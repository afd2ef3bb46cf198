//! Tests of the table of metrics: it matches what is scraped, with bounds on the number of series,
//! its document is made from it, and a real Prometheus accepts both.
//!
//! With `UPDATE=1`, `cargo test -p sprat --test e2e metrics` writes `docs/metrics.md` anew.

mod dashboard;
mod document;
mod full;
mod prometheus;
mod queries;

use std::collections::BTreeSet;

use crate::common::*;
use full::Full;
use sprat_net::metrics::{About, Kind, Per};

/// Returns every row of the table.
fn rows() -> impl Iterator<Item = &'static About> {
    sprat_server::metrics_table()
        .into_iter()
        .flat_map(|chapter| chapter.rows)
}

/// Returns the names of a row's series.
fn series_names(row: &About) -> Vec<String> {
    match row.kind {
        Kind::Counter | Kind::Gauge => vec![row.name.to_owned()],
        Kind::Histogram(_) => {
            let suffixes = ["_bucket", "_sum", "_count"].iter();
            suffixes.map(|end| format!("{}{end}", row.name)).collect()
        }
    }
}

/// Returns the series of a scrape: their names, and the names of their labels except `le`.
fn series(text: &str) -> Vec<(&str, Vec<&str>)> {
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let series = samples.map(|line| {
        let (series, _) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        // No value of a label in these tests has a comma.
        let labels = labels.trim_end_matches('}').split(',');
        let labels = labels.filter_map(|label| Some(label.split_once('=')?.0));
        (name, labels.filter(|label| *label != "le").collect())
    });
    series.collect()
}

/// Returns the bound on a row's series, for so many of each thing.
fn bound(row: &About, count: impl Fn(Per) -> usize) -> usize {
    let bound = row.labels.bound();
    let each: usize = bound.per.into_iter().map(count).product();
    (each * bound.times + bound.plus) * row.series_each()
}

#[test]
fn what_is_scraped_is_what_the_table_says() {
    let known: BTreeSet<_> = rows().flat_map(series_names).collect();
    let mut scraped = BTreeSet::new();
    for full in [Full::sharing(), Full::with_queues()] {
        let text = full.scrape();
        for (name, labels) in series(&text) {
            let row = rows().find(|row| series_names(row).iter().any(|own| own == name));
            let row = row.unwrap_or_else(|| panic!("{name} is not in the table"));
            assert_eq!(labels, row.labels.names().collect::<Vec<_>>(), "{name}");
            let kind = format!("# TYPE {} {}\n", row.name, row.kind.name());
            let help = format!("# HELP {} {}\n", row.name, row.help);
            assert!(text.contains(&kind) && text.contains(&help), "{kind}{help}");
            scraped.insert(name.to_owned());
        }
    }
    let silent: Vec<_> = known.difference(&scraped).collect();
    assert!(silent.is_empty(), "no configuration tells of {silent:?}");
}

#[test]
fn there_are_as_many_series_as_the_formula_says() {
    for full in [Full::sharing(), Full::with_queues()] {
        let text = full.scrape();
        let all = series(&text);
        for row in rows() {
            let names = series_names(row);
            let own = all
                .iter()
                .filter(|(name, _)| names.iter().any(|n| n == name));
            let own = own.count();
            let most = bound(row, |per| full.count(per));
            // Of queues of `srq` there may be more than there are, of networks as many as
            // have asked, and of clusters those that have no file.
            let of_files = row.name.starts_with("sprat_endpoints_file_");
            let grows = ["queue", "network"];
            let grows = row.labels.names().any(|label| grows.contains(&label));
            let may_be_fewer = own == 0 || of_files || grows;
            assert!(
                own == most || (own < most && may_be_fewer),
                "{}: {own} of {most}",
                row.name
            );
        }
    }
}

#[test]
fn names_follow_the_rules_of_prometheus() {
    let mut names = BTreeSet::new();
    for row in rows() {
        let About { name, help, .. } = row;
        assert!(names.insert(*name), "{name} is there twice");
        assert!(
            name.starts_with("sprat_") || name.starts_with("process_"),
            "{name}"
        );
        let is_counter = matches!(row.kind, Kind::Counter);
        assert_eq!(name.ends_with("_total"), is_counter, "{name}");
        let words = || name.split('_');
        // Base units, and none but at the end.
        for unit in
            "ns us ms micros millis microseconds milliseconds minutes hours days kb mb bits percent"
                .split(' ')
        {
            assert!(!words().any(|word| word == unit), "{name}");
        }
        let has_unit = words().any(|word| matches!(word, "seconds" | "bytes" | "ratio"));
        assert_eq!(
            has_unit,
            row.unit().is_some_and(|unit| unit != "doublings"),
            "{name}"
        );
        for label in row.labels.names() {
            let is_plain = label.bytes().all(|byte| byte.is_ascii_lowercase());
            assert!(
                is_plain && label != "le" && label != "job" && label != "instance",
                "{name}"
            );
        }
        assert!(
            !help.ends_with('.') && help.len() > 5 && !help.contains(['\n', '|']),
            "{name}"
        );
        if let Kind::Histogram(bounds) = row.kind {
            assert!(bounds.is_sorted_by(|a, b| a < b), "{name}");
        }
    }
    assert!(names.len() > 90, "{}", names.len());
}

/// Checks the counters of listeners, clusters and endpoints after one good request and one that
/// finds no endpoint.
#[test]
fn listeners_clusters_and_endpoints_are_told_apart() {
    let full = Full::sharing();
    let proxy = full.proxy();
    assert_eq!(proxy.connect().ask(get("/")).status(), 200);
    assert_eq!(proxy.connect().ask(get("/dead/")).status(), 502);
    let of = |parts: &[&str]| proxy.metric(parts);
    proxy.wait_metric(&["sprat_listener_requests_total", "listener=\"test\""], 2.0);
    for (parts, value) in [
        (
            ["sprat_listener_requests_total", "\"test\",code=\"5xx\""],
            1.0,
        ),
        (
            ["sprat_listener_requests_total", "listener=\"announced\""],
            0.0,
        ),
        (["sprat_connections_total", "listener=\"test\""], 2.0),
        (["sprat_connections_total", "listener=\"announced\""], 0.0),
        (
            ["sprat_cluster_duration_seconds_count", "cluster=\"farm\""],
            1.0,
        ),
        (
            ["sprat_cluster_duration_seconds_count", "cluster=\"dead\""],
            1.0,
        ),
        (
            ["sprat_cluster_head_seconds_count", "cluster=\"farm\""],
            1.0,
        ),
        // There was no answer, and no head.
        (
            ["sprat_cluster_head_seconds_count", "cluster=\"dead\""],
            0.0,
        ),
        (
            ["sprat_upstream_head_seconds_count", "cluster=\"farm\""],
            1.0,
        ),
        (
            ["sprat_upstream_head_seconds_count", "cluster=\"dead\""],
            0.0,
        ),
    ] {
        assert_eq!(of(&parts), value, "{parts:?}");
    }
    // An endpoint's answer comes before the client has all of it.
    let sum = |name: &str| of(&[name, "cluster=\"farm\""]);
    let endpoint = sum("sprat_upstream_head_seconds_sum");
    let head = sum("sprat_cluster_head_seconds_sum");
    let whole = sum("sprat_cluster_duration_seconds_sum");
    assert!(
        0.0 < endpoint && endpoint <= head && head <= whole,
        "{endpoint} {head} {whole}"
    );
    let open = ["sprat_listener_open_connections", "listener=\"test\""];
    let mut client = proxy.connect();
    assert_eq!(client.ask(get("/")).status(), 200);
    proxy.wait_metric(&open, 1.0);
    drop(client);
    proxy.wait_metric(&open, 0.0);
}
