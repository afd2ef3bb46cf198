use std::path::Path;

use proptest::prelude::*;
use sprat_measure::text::significant;
use sprat_measure::wire::Connection;
use tempfile::TempDir;

use super::measure::Measures;
use super::summary::cells;
use super::*;
use crate::results::{self, ClientInfo, Failure, Mode, Outcome, RunInfo};

/// The link's rate, 8 Mbit/s: a byte takes a microsecond.
const UPLINK: u64 = 8_000_000;

/// Makes outcomes of pairs (bytes, response time in ms), one a second.
fn outcomes(rows: &[(u64, f64)]) -> Vec<Outcome> {
    let outcome = |(index, &(bytes, response_ms)): (usize, &(u64, f64))| Outcome {
        t_s: index as f64,
        bytes,
        path: format!("/size/{bytes}/{index}").into(),
        start_s: index as f64,
        response_ms,
        received: bytes,
        status: 200,
        error: None,
    };
    rows.iter().enumerate().map(outcome).collect()
}

fn info(name: &str, load: f64) -> RunInfo {
    RunInfo {
        name: name.to_owned(),
        uplink_bits_per_s: Some(UPLINK),
        load_wire: Some(load),
        ..RunInfo::default()
    }
}

fn run(name: &str, load: f64, rows: &[(u64, f64)]) -> Run {
    let outcomes = outcomes(rows);
    let mut info = info(name, load);
    info.count(&outcomes);
    Run {
        file: format!("{name}.csv").into(),
        info,
        outcomes,
    }
}

/// The sizes of five responses. 100 B costs 100 + 220 + 66 + 330 = 716 us, 2452 B costs 2452 + 220
/// + 2 x 66 + 330 = 3134 us.
const SIZES: [u64; 5] = [2452, 100, 100, 100, 100];

fn rows_of(times_ms: [f64; 5]) -> Vec<(u64, f64)> {
    SIZES.into_iter().zip(times_ms).collect()
}

fn three_systems() -> Vec<Run> {
    vec![
        run("nginx", 0.9, &rows_of([31.34, 7.16, 7.16, 14.32, 14.32])),
        run("sprat", 0.9, &rows_of([31.34, 3.58, 3.58, 3.58, 7.16])),
        run(
            "ideal-srpt",
            0.9,
            &rows_of([3.134, 0.716, 0.716, 0.716, 0.716]),
        ),
    ]
}

fn close(found: f64, expected: f64) {
    assert!(
        (found / expected - 1.0).abs() < 1e-9,
        "{found}, not {expected}"
    );
}

#[test]
fn a_tiny_comparison_has_exact_numbers() {
    let comparison = Comparison::new(three_systems(), None).unwrap();
    assert_eq!(comparison.baseline, "nginx");
    assert_eq!(comparison.groups[0].by_size, [1, 2, 3, 4, 0]);
    let loads = summary::rows(&comparison);
    let nginx = &loads[0].rows[0].measures;
    close(nginx.mean_ms, (31.34 + 2.0 * 7.16 + 2.0 * 14.32) / 5.0);
    close(nginx.slowdown, (10.0 + 2.0 * 10.0 + 2.0 * 20.0) / 5.0);
    close(nginx.smallest80_ms, 10.74);
    close(nginx.largest1_ms, 31.34);
    assert_eq!((nginx.p50_ms, nginx.p99_ms), (14.32, 31.34));
    // From the first start at 0 s to the last end at 4 s + 14.32 ms.
    close(nginx.goodput_bytes_per_s, 2852.0 / 4.01432);

    let sprat = &loads[0].rows[1];
    close(sprat.measures.slowdown, (10.0 + 3.0 * 5.0 + 10.0) / 5.0);
    close(sprat.of_ideal.unwrap(), 49.24 / 5.998);
    let against = sprat.against.unwrap();
    close(against.mean, 74.3 / 49.24);
    close(against.slowdown, 70.0 / 35.0);
    close(against.smallest80, 10.74 / 4.475);
    close(against.largest1, 1.0);
    close(against.goodput, 4.01432 / 4.00716);
    // Five requests fill five buckets; the largest is no faster.
    assert_eq!((against.buckets_faster, against.buckets), (4, 5));
    let ideal = &loads[0].rows[2];
    close(ideal.measures.slowdown, 1.0);
    assert_eq!(ideal.of_ideal, Some(1.0));
}

#[test]
fn the_table_says_it_in_words_and_csv() {
    let comparison = Comparison::new(three_systems(), None).unwrap();
    let loads = summary::rows(&comparison);
    let mut text = Vec::new();
    summary::write_text(&comparison, &loads, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[0],
        "load 0.90 of 8 Mbit/s, 5 requests; x2 = half of nginx's"
    );
    let words: Vec<&str> = lines[3].split_whitespace().collect();
    assert_eq!(
        words.join(" "),
        "sprat 0 0.006 (1.002) 9.85 (x1.51) 8.21 7.00 (x2.00) 4.47 (x2.40) 31.3 (x1.00) \
         3.58 31.3 4 of 5"
    );
    assert!(lines[1..5].iter().all(|line| line.len() == lines[1].len()));

    let mut csv = Vec::new();
    summary::write_csv(&loads, &mut csv).unwrap();
    let csv = String::from_utf8(csv).unwrap();
    assert_eq!(
        csv.lines().nth(2).unwrap(),
        "sprat,0.90,5,0,711.7260,1.0018,9.8480,1.5089,8.2094,7.0000,2.0000,4.4750,2.4000,\
         31.3400,1.0000,3.5800,31.3400,4,5"
    );
}

#[test]
fn a_failed_request_keeps_its_rank_but_not_its_time() {
    let mut runs = three_systems();
    runs[1].outcomes[0].error = Some(Failure::Short);
    runs[1].outcomes[4].error = Some(Failure::Timeout);
    let loads = summary::rows(&Comparison::new(runs, None).unwrap());
    let sprat = &loads[0].rows[1];
    assert_eq!((sprat.measures.requests, sprat.measures.failed), (5, 2));
    close(sprat.measures.mean_ms, 3.58);
    assert!(sprat.measures.largest1_ms.is_nan());
    let against = sprat.against.unwrap();
    assert_eq!((against.buckets_faster, against.buckets), (3, 5));
    assert_eq!(cells(sprat, "nginx")[7].value, "-");
}

#[test]
fn a_kept_connection_costs_no_packets_of_its_own() {
    let mut runs = three_systems();
    runs[1].info.client = Some(ClientInfo {
        mode: Mode::Open,
        connection: Connection::Keep,
        http2: None,
        clients: None,
        timeout_ms: 1000,
        warmup: 0,
        max_open: 1,
    });
    let loads = summary::rows(&Comparison::new(runs, None).unwrap());
    let alone_ms = [2.804, 0.386, 0.386, 0.386, 0.386];
    let times_ms = [31.34, 3.58, 3.58, 3.58, 7.16];
    let slowdowns = times_ms
        .iter()
        .zip(alone_ms)
        .map(|(time, alone)| time / alone);
    close(
        loads[0].rows[1].measures.slowdown,
        slowdowns.sum::<f64>() / 5.0,
    );
}

#[test]
fn a_thousand_requests_fill_two_hundred_buckets_of_five() {
    let rows: Vec<_> = (0..1000u32)
        .rev()
        .map(|rank| (u64::from(rank) + 41, f64::from(rank)))
        .collect();
    let comparison = Comparison::new(vec![run("a", 0.9, &rows)], None).unwrap();
    let group = &comparison.groups[0];
    let measures = Measures::of(&group.runs[0], group, UPLINK);
    for (bucket, ms) in measures.buckets_ms.iter().enumerate() {
        assert_eq!(*ms, Some(bucket as f64 * 5.0 + 2.0));
    }
    assert_eq!(measures.smallest80_ms, 399.5);
    assert_eq!(measures.largest1_ms, 994.5);
    assert_eq!((measures.p50_ms, measures.p99_ms), (499.0, 989.0));
    // All but the least took longer than it, and one of a hundred than the 99th percentile.
    assert_eq!(measures.slower.len(), 25);
    assert_eq!(measures.slower[0], (0.0, 100.0));
    assert_eq!(measures.slower[16].0, 989.0);
    close(measures.slower[16].1, 1.0);
    let points = figures::thinned(&measures.buckets_ms);
    assert_eq!(points.len(), 48 + 8);
    assert_eq!(points[0], (1.0, 9.5));
    assert_eq!(points[55], (99.75, 997.0));
    // [41, 49.2) holds the first nine sizes.
    close(measures.bins_ms[0].0, 41.0 * 1.2f64.sqrt());
    assert_eq!(measures.bins_ms[0].1, 4.0);
    assert_eq!(measures.bins_ms.len(), 18);
}

#[test]
fn a_system_looks_the_same_in_every_report() {
    let comparison = |names: &[&str]| {
        let runs = names.iter().map(|name| run(name, 0.9, &rows_of([1.0; 5])));
        Comparison::new(runs.collect(), None).unwrap()
    };
    let few = comparison(&["nginx", "sprat-srpt", "sprat-auto"]);
    let many = [
        "nginx",
        "haproxy",
        "caddy",
        "sprat-auto",
        "sprat-bands",
        "sprat-two-class",
        "sprat-fair",
        "sprat-kernel",
        "sprat-srpt",
        "traefik",
    ];
    let all = comparison(&many);
    for name in ["nginx", "sprat-srpt", "sprat-auto"] {
        assert_eq!(figures::style(&few, name), figures::style(&all, name));
    }
    for (index, name) in many.iter().enumerate() {
        for other in &many[..index] {
            let styles = (figures::style(&all, name), figures::style(&all, other));
            assert_ne!(styles.0, styles.1, "{name} and {other}");
        }
    }
}

#[test]
fn the_papers_sizes_make_sixty_bins() {
    let rows: Vec<_> = (0..4000)
        .map(|step| {
            (
                (41.0 * 1.2f64.powf(f64::from(step) / 66.7)).round() as u64,
                1.0,
            )
        })
        .collect();
    let comparison = Comparison::new(vec![run("a", 0.9, &rows)], None).unwrap();
    let group = &comparison.groups[0];
    let bins = Measures::of(&group.runs[0], group, UPLINK).bins_ms;
    assert_eq!(bins.len(), 60);
    for pair in bins.windows(2) {
        close(pair[1].0 / pair[0].0, 1.2);
    }
}

fn refusal(runs: Vec<Run>, baseline: Option<&str>) -> String {
    Comparison::new(runs, baseline).unwrap_err().to_string()
}

#[test]
fn what_cannot_be_compared_is_refused_by_file() {
    let mut runs = three_systems();
    runs[1].outcomes.pop();
    assert!(refusal(runs, None).starts_with("sprat.csv: 4 requests where nginx.csv holds 5: "));

    let mut runs = three_systems();
    runs[2].outcomes[3].bytes = 101;
    let message = refusal(runs, None);
    assert!(
        message.starts_with("ideal-srpt.csv: request 4 is "),
        "{message}"
    );

    let mut runs = three_systems();
    runs[1].outcomes[3].t_s += 2e-6;
    assert!(refusal(runs, None).starts_with("sprat.csv: request 4 is "));

    let mut runs = three_systems();
    runs[1].info.name = "nginx".to_owned();
    let message = refusal(runs, None);
    assert!(
        message.starts_with("nginx.csv and sprat.csv are both named `nginx`"),
        "{message}"
    );

    let mut runs = three_systems();
    runs[2].info.uplink_bits_per_s = Some(1);
    assert!(refusal(runs, None).contains("one report for each link"));
    let mut runs = three_systems();
    runs[1].info.uplink_bits_per_s = None;
    assert!(refusal(runs, None).starts_with("sprat.json: no uplink_bits_per_s"));

    let message = refusal(three_systems(), Some("haproxy"));
    assert!(message.contains("`haproxy`") && message.contains("nginx, sprat, ideal-srpt"));
}

#[test]
fn loads_are_kept_apart_and_in_order() {
    let mut runs = three_systems();
    runs.push(run("sprat", 0.5, &rows_of([1.0; 5])[..3]));
    let comparison = Comparison::new(runs, Some("sprat")).unwrap();
    let loads = summary::rows(&comparison);
    let texts: Vec<_> = loads.iter().map(|load| load.load().unwrap()).collect();
    assert_eq!(texts, ["0.50", "0.90"]);
    // No ideal at 0.5, no baseline but itself.
    assert_eq!(loads[0].rows[0].of_ideal, None);
    assert_eq!(comparison.systems, ["nginx", "sprat", "ideal-srpt"]);
    // Without the default baseline the first stands in.
    let alone = Comparison::new(vec![run("x", 0.5, &[(1, 1.0)])], None).unwrap();
    assert_eq!(alone.baseline, "x");
}

/// Writes results and a JSON for each run, and reports on them.
fn report_on(runs: &[Run], title: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    for (index, run) in runs.iter().enumerate() {
        let file = dir.path().join(format!("{index}.csv"));
        results::write(&run.outcomes, &file).unwrap();
        run.info.write_beside(&file).unwrap();
        files.push(file);
    }
    let text = write_report(&ReportArgs {
        results: files,
        output: dir.path().join("out"),
        baseline: None,
        summary: false,
        title: title.to_owned(),
    })
    .unwrap();
    assert!(text.trim_end().ends_with("index.html"), "{text}");
    dir
}

fn text_of(svg: &str) -> Vec<String> {
    let tree = roxmltree::Document::parse(svg).unwrap();
    let texts = tree
        .descendants()
        .filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", "text")));
    texts
        .filter_map(|node| Some(node.text()?.trim().to_owned()))
        .collect()
}

#[test]
fn a_report_is_whole() {
    let mut runs = three_systems();
    runs[1].info.name = "sprat <&\"bands\u{7}\">".to_owned();
    runs.push(run("nginx", 0.7, &rows_of([5.0; 5])));
    let dir = report_on(&runs, "Ours & <theirs>");
    let out = dir.path().join("out");
    let lines = [
        "time-by-load",
        "slowdown-by-load",
        "time-by-size-load-0.90",
        "time-by-percentile-load-0.90",
        "distribution-load-0.90",
    ];
    for name in lines
        .into_iter()
        .chain(["means-load-0.90", "means-load-0.70"])
    {
        let svg = std::fs::read_to_string(out.join(format!("{name}.svg"))).unwrap();
        let texts = text_of(&svg);
        assert!(texts.contains(&"nginx".to_owned()), "{name}: {texts:?}");
        if lines.contains(&name) {
            assert!(
                texts.contains(&"sprat <&\"bands \">".to_owned()),
                "{name}: {texts:?}"
            );
            assert!(
                texts.contains(&"ideal-srpt".to_owned()),
                "{name}: {texts:?}"
            );
        }
        assert!(
            texts
                .iter()
                .any(|text| text.contains("mean ") || text.contains("took longer")),
            "{name}: {texts:?}"
        );
        assert!(!svg.contains("NaN") && !svg.contains("href"), "{name}");
        let png = std::fs::read(out.join(format!("{name}.png"))).unwrap();
        assert_eq!(&png[..8], b"\x89PNG\r\n\x1a\n", "{name}");
    }
    let bars = std::fs::read_to_string(out.join("means-load-0.90.svg")).unwrap();
    let texts = text_of(&bars);
    for expected in ["14.9 ms", "9.85 ms", "ideal SRPT 1.20 ms"] {
        assert!(texts.contains(&expected.to_owned()), "{texts:?}");
    }
    let page = std::fs::read_to_string(out.join("index.html")).unwrap();
    for outside in [
        "http:", "https:", "src=", "href", "@import", "url(", "<script",
    ] {
        assert!(!page.contains(outside), "the page refers to {outside}");
    }
    assert!(page.contains("<h1>Ours &amp; &lt;theirs&gt;</h1>"));
    assert!(page.contains("sprat &lt;&amp;&quot;bands"));
    // Two against load, and four at each of two loads; each for a telephone, too.
    assert_eq!(page.matches("<svg ").count(), 20);
    for narrow in page.split("<div class=\"narrow\"><svg ").skip(1) {
        assert!(narrow[..60].contains("width=\"420\""), "{}", &narrow[..60]);
    }
    assert_eq!(
        std::fs::read_to_string(out.join("summary.csv"))
            .unwrap()
            .lines()
            .count(),
        5
    );
}

#[test]
fn a_report_of_failures_alone_is_drawn_and_warns() {
    let mut runs = vec![run("nginx", 0.9, &rows_of([1.0; 5]))];
    for outcome in &mut runs[0].outcomes {
        outcome.error = Some(Failure::Connect);
    }
    let dir = report_on(&runs, "Nothing");
    let page = std::fs::read_to_string(dir.path().join("out/index.html")).unwrap();
    assert!(page.contains("Some requests failed"));
    let svg = std::fs::read_to_string(dir.path().join("out/means.svg")).unwrap();
    assert!(!svg.contains("NaN"));
    text_of(&svg);
}

#[test]
fn text_reaches_the_png_without_a_font_of_the_machine() {
    let picture = |text: &str| {
        let svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"80\" height=\"20\">\
             <text x=\"2\" y=\"15\" font-family=\"sans-serif\">{text}</text></svg>"
        );
        png::Renderer::new().png(&svg).unwrap()
    };
    assert_ne!(picture("sprat"), picture(""));
}

#[test]
fn results_without_a_json_or_rows_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("r.csv");
    results::write(&[], &file).unwrap();
    let read = |file: &Path| Run::read(file).unwrap_err().to_string();
    assert!(read(&file).contains("r.csv: the results hold no request"));
    results::write(&outcomes(&[(1, 1.0)]), &file).unwrap();
    assert!(read(&file).contains("r.json"));
}

#[test]
fn results_in_order_of_completion_are_put_in_trace_order() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("r.csv");
    let in_order = outcomes(&rows_of([1.0, 2.0, 3.0, 4.0, 5.0]));
    let reversed: Vec<Outcome> = in_order.iter().rev().cloned().collect();
    results::write(&reversed, &file).unwrap();
    info("a", 0.9).write_beside(&file).unwrap();
    assert_eq!(Run::read(&file).unwrap().outcomes, in_order);
}

#[test]
fn numbers_keep_three_digits() {
    let cases = [
        (0.123, "0.12"),
        (9.994, "9.99"),
        (9.995, "10.0"),
        (99.96, "100"),
        (1239.4, "1239"),
    ];
    for (value, text) in cases {
        assert_eq!(significant(value), text);
    }
    assert_eq!(significant(f64::NAN), "-");
}

proptest! {
    #[test]
    fn any_comparison_is_measured(
        rows in prop::collection::vec((0u64..3_000_000, 0.0f64..1e6, any::<bool>()), 1..300),
    ) {
        let plain: Vec<_> = rows.iter().map(|&(bytes, ms, _)| (bytes, ms)).collect();
        let mut one = run("a", 0.9, &plain);
        for (outcome, &(_, _, failed)) in one.outcomes.iter_mut().zip(&rows) {
            outcome.error = failed.then_some(Failure::Reset);
        }
        let comparison = Comparison::new(vec![one, run("b", 0.9, &plain)], Some("b")).unwrap();
        let loads = summary::rows(&comparison);
        let (a, b) = (&loads[0].rows[0], &loads[0].rows[1]);
        prop_assert!(a.measures.failed <= a.measures.requests);
        prop_assert_eq!(a.measures.requests, rows.len());
        let filled = b.measures.buckets_ms.iter().flatten().count();
        prop_assert_eq!(filled, rows.len().min(measure::BUCKETS));
        let against = b.against.unwrap();
        prop_assert_eq!((against.buckets_faster, against.buckets), (0, filled));
        prop_assert!(b.measures.p50_ms <= b.measures.p99_ms);
    }
}
