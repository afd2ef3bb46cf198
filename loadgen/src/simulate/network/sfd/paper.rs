//! SFD02's experiments for the reproduction, with a name for each value.

use sprat_scheduler::marking::Variant;

use super::findings::Latencies;
use super::routes;
use super::traffic::{SessionLoad, pages};
use super::{AVERAGE, MeasuredWay, SfdArgs, SfdTcp, SfdWay, calibrate, measure};
use crate::simulate::cores::on_all_cores;
use crate::simulate::experiment::{Experiment, Measured, PlotSpec, Scale};

/// Specifies a plot over the size of flows.
const fn plot(name: &'static str, title: &'static str) -> PlotSpec {
    PlotSpec {
        name,
        title,
        x: "flow size (KB)",
        y: "mean latency (ms)",
        linear_x: false,
    }
}

/// The experiments of SFD02's figures 3 to 13 and tables 4 to 7.
pub(crate) const EXPERIMENTS: [Experiment; 7] = [
    Experiment {
        paper: "SFD02",
        name: "medium",
        about: "The dumbbell with sessions 15 s apart, every queue with the same sessions. TCP is \
                that of the paper's simulator in 2002: Reno without SACK, a first window of 2, \
                20 packets at most, timeouts of a second, and of 6 s before a round trip. OUT's \
                average counts both classes; `decoupled` are queues where it counts its own.",
        plots: &[
            plot(
                "figure-03",
                "Short flows: DT, no long flows, long ones in pieces",
            ),
            plot("figure-07", "All sizes: DT, RED, SFD"),
            plot("figure-08a", "SFD, P-SFD, S-SFD"),
            plot("figure-08b", "S-SFD by threshold"),
            PlotSpec {
                name: "figure-09",
                title: "Pages by how much faster S-SFD is",
                x: "improvement",
                y: "share of pages with less",
                linear_x: true,
            },
        ],
        expected_s: (280.0, 560.0),
        parameters: |scale| format!("{:?}, {AVERAGE:?}", of_medium(scale)),
        run: |scale| medium(&of_medium(scale)),
    },
    Experiment {
        paper: "SFD02",
        name: "medium-today",
        about: "The dumbbell with today's TCP, a first window of 10 segments, RACK and probes, at the \
                utilisation that the paper prints.",
        plots: &[plot("today-07", "All sizes, today's first window")],
        expected_s: (40.0, 200.0),
        parameters: |scale| format!("{:?}, {AVERAGE:?}", args(scale, SessionLoad::Medium, 10)),
        run: today,
    },
    Experiment {
        paper: "SFD02",
        name: "light",
        about: "The dumbbell with sessions 25 s apart.",
        plots: &[plot("figure-10a", "Light load")],
        expected_s: (20.0, 100.0),
        parameters: |scale| format!("{:?}, {AVERAGE:?}", args(scale, SessionLoad::Light, 2)),
        run: |scale| other_load(&args(scale, SessionLoad::Light, 2), "figure-10a"),
    },
    Experiment {
        paper: "SFD02",
        name: "heavy",
        about: "The dumbbell with sessions 9 s apart.",
        plots: &[plot("figure-10b", "Heavy load")],
        expected_s: (40.0, 200.0),
        parameters: |scale| format!("{:?}, {AVERAGE:?}", args(scale, SessionLoad::Heavy, 2)),
        run: |scale| other_load(&args(scale, SessionLoad::Heavy, 2), "figure-10b"),
    },
    Experiment {
        paper: "SFD02",
        name: "two-tiers",
        about: "Ten clients behind links of their own, 1.5 Mbit/s and 5 to 50 ms, and a file \
                transfer among the web pages: what the second tier is the paper only draws.",
        plots: &[plot("figure-12", "Two tiers of clients")],
        expected_s: (40.0, 200.0),
        parameters: |scale| {
            format!(
                "{:?}, {AVERAGE:?}, {:?}",
                args(scale, SessionLoad::Medium, 2),
                routes::TIERS
            )
        },
        run: routes::two_tiers,
    },
    Experiment {
        paper: "SFD02",
        name: "network-limited",
        about: "Server processors in the servers of the dumbbell, at a tenth of their load: first come \
                first served, or shortest first.",
        plots: &[plot(
            "figure-13a",
            "From the request, the network is the limit",
        )],
        expected_s: (40.0, 200.0),
        parameters: |scale| {
            format!(
                "{:?}, {AVERAGE:?}, {:?}",
                args(scale, SessionLoad::Medium, 2),
                routes::NETWORK
            )
        },
        run: |scale| routes::end_to_end(scale, &routes::NETWORK, "figure-13a"),
    },
    Experiment {
        paper: "SFD02",
        name: "server-limited",
        about: "The same with processors loaded to 0.8.",
        plots: &[plot(
            "figure-13b",
            "From the request, the servers are the limit",
        )],
        expected_s: (40.0, 200.0),
        parameters: |scale| {
            format!(
                "{:?}, {AVERAGE:?}, {:?}",
                args(scale, SessionLoad::Medium, 2),
                routes::SERVERS
            )
        },
        run: |scale| routes::end_to_end(scale, &routes::SERVERS, "figure-13b"),
    },
];

pub(super) fn args(scale: Scale, load: SessionLoad, first_window: u32) -> SfdArgs {
    let tcp = match first_window {
        2 => SfdTcp::Of2002,
        _ => SfdTcp::Today,
    };
    SfdArgs {
        load,
        gap: None,
        first_window,
        tcp,
        seconds: match tcp {
            SfdTcp::Today => scale.pick(20, 1_000, 3_000),
            // The paper's.
            SfdTcp::Of2002 => scale.pick(200, 10_000, 10_000),
        },
        runs: scale.pick(1, 4, 20),
        seed: 7,
        output: None,
    }
}

/// Returns the paper's main experiment, with more runs than the others: sizes are so
/// heavy-tailed that what SFD gains differs by some points between four runs and other four.
fn of_medium(scale: Scale) -> SfdArgs {
    SfdArgs {
        runs: scale.pick(1, 10, 20),
        ..args(scale, SessionLoad::Medium, 2)
    }
}

fn found(args: &SfdArgs, ways: &[SfdWay]) -> anyhow::Result<Vec<MeasuredWay>> {
    let gap_s = calibrate(args)?;
    on_all_cores(ways, |&way| measure(args, way, gap_s))
}

pub(super) const S_SFD: SfdWay = SfdWay::Virtual(Variant::SSfd);
const SFD: SfdWay = SfdWay::Virtual(Variant::Sfd);
const P_SFD: SfdWay = SfdWay::Virtual(Variant::PSfd);

/// Returns the share by which a way takes less than drop-tail, as a mean over sizes.
pub(super) fn less(own: &Latencies, dt: &Latencies) -> f64 {
    let by_size = own.reductions(dt);
    by_size.iter().sum::<f64>() / by_size.len().max(1) as f64
}

fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NAN, f64::max)
}

fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NAN, f64::min)
}

/// Adds the means by size of some ways to a plot.
fn draw(measured: &mut Measured, plot: &str, all: &[MeasuredWay], ways: &[SfdWay], most_kb: f64) {
    for own in all.iter().filter(|own| ways.contains(&own.way)) {
        for (kb, seconds) in own.latencies.by_kb() {
            if kb <= most_kb {
                measured.point(plot, own.way.name(), kb, 1e3 * seconds);
            }
        }
    }
}

fn of(all: &[MeasuredWay], way: SfdWay) -> &MeasuredWay {
    let found = all.iter().find(|own| own.way == way);
    found.unwrap_or(&all[0])
}

/// Returns the mean of flows of about `kb` KB in `own`, over that in `other`.
fn ratio(own: &Latencies, other: &Latencies, kb: u64) -> f64 {
    let both = own.around(kb << 10).zip(other.around(kb << 10));
    both.map_or(f64::NAN, |(own, other)| own / other)
}

/// Runs every queue at medium load.
fn medium(args: &SfdArgs) -> anyhow::Result<Measured> {
    let mut ways = SfdWay::ALL.to_vec();
    ways.extend([SfdWay::Threshold(25), SfdWay::Threshold(35)]);
    let all = found(args, &ways)?;
    let mut measured = Measured::default();
    let droptail = of(&all, SfdWay::Droptail);
    measured.value("utilisation", droptail.utilisation);
    measured.value("loss", droptail.loss);
    let dt = &droptail.latencies;
    for own in &all {
        let name = own.way.name();
        let short = own.latencies.short();
        measured.value(format!("{name} reduction"), less(&own.latencies, dt));
        measured.value(
            format!("{name} deviation"),
            short.deviation / dt.short().deviation,
        );
        measured.value(
            format!("{name} short over DT"),
            short.mean / dt.short().mean,
        );
        for kb in [40, 100, 300, 1_000] {
            measured.value(
                format!("{name} {kb} KB over DT"),
                ratio(&own.latencies, dt, kb),
            );
        }
    }
    let sfd = &of(&all, SFD).latencies;
    let s_sfd = &of(&all, S_SFD).latencies;
    let by_size = sfd.reductions(dt);
    measured.value("SFD best size", largest(&by_size));
    measured.value("SFD worst size", least(&by_size));
    let no_long = less(&of(&all, SfdWay::NoLong).latencies, dt);
    measured.value("SFD of NL's reduction", less(sfd, dt) / no_long);
    measured.value("1,000 KB S-SFD over SFD", ratio(s_sfd, sfd, 1_000));
    let thresholds = [S_SFD, SfdWay::Threshold(25), SfdWay::Threshold(35)];
    let by_threshold = thresholds.map(|way| less(&of(&all, way).latencies, dt));
    measured.value(
        "thresholds apart",
        largest(&by_threshold) - least(&by_threshold),
    );
    retrieval(dt, s_sfd, &mut measured);
    improvements(dt, s_sfd, &mut measured);
    draw(
        &mut measured,
        "figure-03",
        &all,
        &[SfdWay::Droptail, SfdWay::NoLong, SfdWay::Pieces],
        15.0,
    );
    draw(
        &mut measured,
        "figure-07",
        &all,
        &[SfdWay::Droptail, SfdWay::Red, SFD],
        1_100.0,
    );
    draw(
        &mut measured,
        "figure-08a",
        &all,
        &[SfdWay::Droptail, SFD, P_SFD, S_SFD],
        1_100.0,
    );
    draw(&mut measured, "figure-08b", &all, &thresholds, 1_100.0);
    Ok(measured)
}

/// Ranges of sizes in KB, and how many objects of a page are in each.
type Objects = &'static [(f64, f64, usize)];

/// The pages of the paper's table 5: sizes in KB, and how many objects have them.
const PAGES: [(&str, Objects); 5] = [
    ("text", &[(29.0, 29.0, 1), (7.0, 13.0, 3)]),
    ("map", &[(5.0, 5.0, 1), (1.0, 3.0, 3), (67.0, 67.0, 1)]),
    ("graphics", &[(7.0, 7.0, 1), (1.0, 3.0, 9), (9.0, 12.0, 4)]),
    (
        "frames",
        &[
            (1.0, 2.0, 4),
            (7.0, 7.0, 1),
            (83.0, 83.0, 1),
            (1.0, 3.0, 14),
            (5.0, 19.0, 7),
        ],
    ),
    (
        "java",
        &[
            (8.0, 8.0, 1),
            (1.0, 2.0, 7),
            (4.0, 11.0, 3),
            (1.0, 3.0, 14),
            (4.0, 18.0, 11),
        ],
    ),
];

/// Returns the seconds that a page takes: in parallel those of its slowest object, in sequence
/// their sum.
fn page_s(latencies: &Latencies, sizes: &[u64]) -> Option<(f64, f64)> {
    let each = sizes.iter().map(|&bytes| latencies.near(bytes));
    let each: Vec<f64> = each.collect::<Option<_>>()?;
    Some((each.iter().copied().fold(0.0, f64::max), each.iter().sum()))
}

/// Adds table 6: the times of the pages of table 5, by the mean latencies of their sizes.
fn retrieval(dt: &Latencies, s_sfd: &Latencies, measured: &mut Measured) {
    for (name, objects) in PAGES {
        let sizes = objects.iter().flat_map(|&(low, high, count)| {
            let step = (high - low) / count as f64;
            (0..count).map(move |index| ((low + (index as f64 + 0.5) * step) * 1024.0) as u64)
        });
        let sizes: Vec<u64> = sizes.collect();
        let both = page_s(dt, &sizes).zip(page_s(s_sfd, &sizes));
        let Some((dt, own)) = both else { continue };
        for (how, dt_s, own_s) in [("parallel", dt.0, own.0), ("sequential", dt.1, own.1)] {
            measured.value(format!("{name} {how} DT s"), dt_s);
            measured.value(format!("{name} {how} S-SFD s"), own_s);
            measured.value(format!("{name} {how} reduction"), 1.0 - own_s / dt_s);
        }
    }
    for how in ["parallel", "sequential"] {
        let names = PAGES.map(|(name, _)| format!("{name} {how} reduction"));
        let found = names.iter().filter_map(|name| measured.values.get(name));
        let found: Vec<f64> = found.copied().collect();
        measured.value(format!("{how} reduction least"), least(&found));
        measured.value(format!("{how} reduction most"), largest(&found));
    }
}

/// Adds figure 9, with pages of the paper's web model in place of those of its trace.
fn improvements(dt: &Latencies, s_sfd: &Latencies, measured: &mut Measured) {
    let mut gains = Vec::new();
    for sizes in pages(7, 5_000) {
        if let Some((dt, own)) = page_s(dt, &sizes).zip(page_s(s_sfd, &sizes)) {
            gains.push(1.0 - own.0 / dt.0);
        }
    }
    gains.sort_by(f64::total_cmp);
    let below =
        |bound: f64| gains.partition_point(|&gain| gain < bound) as f64 / gains.len().max(1) as f64;
    measured.value("pages 30% faster", 1.0 - below(0.3));
    measured.value("pages slower", below(0.0));
    for step in -10..=20 {
        let bound = f64::from(step) * 0.05;
        measured.point("figure-09", "parallel", bound, below(bound));
    }
}

/// Runs the queues with today's first window.
fn today(scale: Scale) -> anyhow::Result<Measured> {
    let decoupled = SfdWay::Decoupled(Variant::Sfd);
    let ways = [SfdWay::Droptail, SFD, S_SFD, decoupled];
    let all = found(&args(scale, SessionLoad::Medium, 10), &ways)?;
    let mut measured = Measured::default();
    let dt = &of(&all, SfdWay::Droptail).latencies;
    for way in &ways[1..] {
        let name = way.name();
        let own = &of(&all, *way).latencies;
        measured.value(format!("{name} reduction"), less(own, dt));
        measured.value(format!("{name} 1000 KB over DT"), ratio(own, dt, 1_000));
    }
    draw(
        &mut measured,
        "today-07",
        &all,
        &[SfdWay::Droptail, SFD, S_SFD],
        1_100.0,
    );
    Ok(measured)
}

/// Runs drop-tail and S-SFD at another load.
fn other_load(args: &SfdArgs, plot: &str) -> anyhow::Result<Measured> {
    let decoupled = SfdWay::Decoupled(Variant::SSfd);
    let all = found(args, &[SfdWay::Droptail, S_SFD, decoupled])?;
    let mut measured = Measured::default();
    let droptail = of(&all, SfdWay::Droptail);
    let dt = &droptail.latencies;
    let own = &of(&all, S_SFD).latencies;
    measured.value("utilisation", droptail.utilisation);
    measured.value("loss", droptail.loss);
    let over = |own: &Latencies| dt.short().mean / own.short().mean;
    measured.value("DT over S-SFD", over(own));
    measured.value(
        "DT over S-SFD, decoupled",
        over(&of(&all, decoupled).latencies),
    );
    measured.value("reduction", less(own, dt));
    draw(
        &mut measured,
        plot,
        &all,
        &[SfdWay::Droptail, S_SFD],
        1_100.0,
    );
    Ok(measured)
}
