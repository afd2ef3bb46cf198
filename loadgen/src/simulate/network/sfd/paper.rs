//! SFD02's experiments for the reproduction, with a name for each value.

use sprat_scheduler::marking::Variant;

use super::findings::{Latencies, largest, least};
use super::pages::{PLOT as PAGES_PLOT, PageQueues, improvements, retrieval};
use super::routes;
use super::traffic::{SessionLoad, pages};
use super::{AVERAGE, MeasuredWay, SfdArgs, SfdTcp, SfdWay, calibrate, measure};
use crate::simulate::cores::on_all_cores;
use crate::simulate::experiment::{Experiment, Measured, PlotAxes, PlotSpec, Scale};

/// Specifies a plot over the size of flows.
const fn plot(name: &'static str, title: &'static str) -> PlotSpec {
    PlotSpec {
        name,
        title,
        x: "flow size (KB)",
        y: "mean latency (ms)",
        axes: PlotAxes::LogLog,
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
            plot("figure-03", "Short flows: DT, NL and L2S"),
            PlotSpec {
                axes: PlotAxes::Linear,
                ..plot("figure-06a", "Short flows: mean")
            },
            PlotSpec {
                y: "standard deviation (ms)",
                axes: PlotAxes::Linear,
                ..plot("figure-06b", "Short flows: standard deviation")
            },
            plot("figure-07", "All sizes: DT, RED, SFD"),
            plot("figure-08a", "SFD, P-SFD, S-SFD"),
            plot("figure-08b", "S-SFD by threshold"),
            PAGES_PLOT,
        ],
        // The middle one of five runs, which took 172 to 2,053 s by what else ran.
        expected_s: (610.0, 1_220.0),
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
        plots: &[plot("figure-13a", "From the request: network-limited")],
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
        plots: &[plot("figure-13b", "From the request: server-limited")],
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
pub(super) fn of_medium(scale: Scale) -> SfdArgs {
    SfdArgs {
        runs: scale.pick(1, 10, 20),
        ..args(scale, SessionLoad::Medium, 2)
    }
}

pub(super) fn found(args: &SfdArgs, ways: &[SfdWay]) -> anyhow::Result<Vec<MeasuredWay>> {
    let gap_s = calibrate(args)?;
    on_all_cores(ways, |&way| measure(args, way, gap_s))
}

pub(super) const S_SFD: SfdWay = SfdWay::Virtual(Variant::SSfd);
const SFD: SfdWay = SfdWay::Virtual(Variant::Sfd);
const P_SFD: SfdWay = SfdWay::Virtual(Variant::PSfd);

/// The thresholds of figure 8b: 15, 25 and 35 KB.
const THRESHOLDS: [SfdWay; 3] = [S_SFD, SfdWay::Threshold(25), SfdWay::Threshold(35)];

/// Returns the share by which a way takes less than drop-tail, as a mean over sizes.
pub(super) fn less(own: &Latencies, dt: &Latencies) -> f64 {
    let by_size = own.reductions(dt);
    by_size.iter().sum::<f64>() / by_size.len().max(1) as f64
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

pub(super) fn of(all: &[MeasuredWay], way: SfdWay) -> &MeasuredWay {
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
    let by_threshold = THRESHOLDS.map(|way| less(&of(&all, way).latencies, dt));
    measured.value(
        "thresholds apart",
        largest(&by_threshold) - least(&by_threshold),
    );
    let queues = PageQueues { dt, s_sfd };
    retrieval(queues, &mut measured);
    // Pages of the paper's web model, in place of those of its trace.
    improvements(queues, &pages(7, 5_000), PAGES_PLOT.name, &mut measured);
    draw_medium(&all, &mut measured);
    Ok(measured)
}

/// Adds figures 3 to 8.
fn draw_medium(all: &[MeasuredWay], measured: &mut Measured) {
    const PIECES: [SfdWay; 3] = [SfdWay::Droptail, SfdWay::NoLong, SfdWay::Pieces];
    const QUEUES: [SfdWay; 3] = [SfdWay::Droptail, SfdWay::Red, SFD];
    draw(measured, "figure-03", all, &PIECES, 15.0);
    for way in QUEUES {
        for (kb, spread) in of(all, way).latencies.short_by_kb() {
            measured.point("figure-06a", way.name(), kb, 1e3 * spread.mean);
            measured.point("figure-06b", way.name(), kb, 1e3 * spread.deviation);
        }
    }
    draw(measured, "figure-07", all, &QUEUES, 1_100.0);
    let marks = [SfdWay::Droptail, SFD, P_SFD, S_SFD];
    draw(measured, "figure-08a", all, &marks, 1_100.0);
    draw(measured, "figure-08b", all, &THRESHOLDS, 1_100.0);
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
