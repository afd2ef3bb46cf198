//! Short flows first in routers: the dumbbell of SFD02, section 4, with its queues.

mod dumbbell;
mod findings;
mod pages;
mod paper;
mod reno;
mod routes;
mod sampled;
mod sessions;
mod traffic;

use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use sprat_scheduler::marking::Variant;
use sprat_scheduler::{Discipline, Marking};

use super::congestion::Algorithm;
use super::habits::Habits;
use super::plan::{ClientPlan, PlannedRequest, RunPlan};
use super::system::System;
use super::world;
use crate::links::{Average, LinkSettings, QueueSettings};
use crate::simulate::output::{aligned, print};
use crate::table;
use findings::{Latencies, findings};
use traffic::{SessionLoad, requests};

pub(crate) use paper::EXPERIMENTS;
pub(crate) use sampled::SAMPLE;

/// The paper's routers: short flows first by marks, its figures 3, 6, 7 and 8a.
///
/// Five clients and servers on both sides of a link of 3 Mbit/s, with the paper's web
/// sessions. With today's TCP the gap between sessions is calibrated so that a drop-tail
/// queue has the paper's load; then each queue serves the same requests. With TCP as of 2002
/// sessions are as far apart as the paper says, their users wait for one page before the
/// next, and connections are those of the simulator that it was run on.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct SfdArgs {
    /// The load on the link
    #[arg(long, value_enum, default_value_t = SessionLoad::Medium)]
    load: SessionLoad,
    /// Seconds between sessions [default: the paper's 25, 15 and 9 with TCP as of 2002; else so
    /// many that a drop-tail queue has the paper's utilisation]
    #[arg(long, value_name = "S", value_parser = gap)]
    gap: Option<f64>,
    /// Segments of a connection's first window with today's TCP; as of 2002 it is 2
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=100))]
    first_window: u32,
    /// How TCP repairs losses
    #[arg(long, value_enum, default_value_t = SfdTcp::Today)]
    tcp: SfdTcp,
    /// Seconds of each run that are measured, after a warm-up of 60 seconds, or of a fifth of the
    /// measured time with TCP as of 2002
    #[arg(long, value_name = "S", default_value_t = 600, value_parser = clap::value_parser!(u32).range(10..=20_000))]
    seconds: u32,
    /// Number of runs of each variant, with seeds from --seed on
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// Seed of the first run
    #[arg(long, default_value_t = 7)]
    seed: u64,
    /// Directory for sfd.csv and sfd.md
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// Parses the seconds between two sessions.
fn gap(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (1.0..=10_000.0).contains(&seconds) => Ok(seconds),
        _ => Err("a gap is from 1 to 10000 seconds, such as 15".to_owned()),
    }
}

/// How TCP repairs losses, and how much a client lets a sender have on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum SfdTcp {
    /// By SACK, RACK and probes.
    Today,
    /// By three duplicates and timeouts of a second or more, as Reno in ns-2 of July 2002.
    #[value(name = "2002")]
    Of2002,
}

/// The packets that OUT's average counts in the paper's queue. The paper's words are of averages
/// apart. The simulator that it ran on counts both classes unless told otherwise, and the paper's
/// numbers are nearer with that (decision 217).
const AVERAGE: Average = Average::Coupled;

/// A variant of the experiment: the routers' queue and marks, and the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SfdWay {
    /// A drop-tail queue (DT).
    Droptail,
    /// Plain random early detection.
    Red,
    /// Virtual queues, with this variant of marks.
    Virtual(Variant),
    /// Virtual queues, with S-SFD's marks beyond so many KB.
    Threshold(u64),
    /// Virtual queues, with OUT's average over its own packets alone.
    Decoupled(Variant),
    /// Two queues, IN strictly first (PQ).
    Priority,
    /// A drop-tail queue without the long flows (NL).
    NoLong,
    /// A drop-tail queue with the long flows in pieces (L2S).
    Pieces,
}

impl SfdWay {
    const ALL: [Self; 10] = [
        Self::Droptail,
        Self::Red,
        Self::NoLong,
        Self::Pieces,
        Self::Virtual(Variant::Sfd),
        Self::Virtual(Variant::PSfd),
        Self::Virtual(Variant::SSfd),
        Self::Decoupled(Variant::Sfd),
        Self::Decoupled(Variant::SSfd),
        Self::Priority,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Droptail => "DT",
            Self::Red => "RED",
            Self::NoLong => "NL",
            Self::Pieces => "L2S",
            Self::Virtual(Variant::Sfd) => "SFD",
            Self::Virtual(Variant::PSfd) => "P-SFD",
            Self::Virtual(Variant::SSfd) => "S-SFD",
            Self::Threshold(25) => "S-SFD, 25 KB",
            Self::Threshold(_) => "S-SFD, 35 KB",
            Self::Decoupled(Variant::Sfd) => "SFD, decoupled",
            Self::Decoupled(Variant::PSfd) => "P-SFD, decoupled",
            Self::Decoupled(Variant::SSfd) => "S-SFD, decoupled",
            Self::Priority => "SFD, PQ",
        }
    }

    fn queue(self) -> QueueSettings {
        match self {
            Self::Droptail | Self::NoLong | Self::Pieces => QueueSettings::default(),
            Self::Red => QueueSettings::sfd_red(),
            Self::Virtual(_) | Self::Threshold(_) => QueueSettings::sfd_virtual(AVERAGE),
            Self::Decoupled(_) => QueueSettings::sfd_virtual(Average::Decoupled),
            Self::Priority => QueueSettings::sfd_priority(),
        }
    }

    fn marking(self) -> Option<Marking> {
        let variant = match self {
            Self::Virtual(variant) | Self::Decoupled(variant) => variant,
            Self::Threshold(kb) => {
                return Some(Marking {
                    threshold_bytes: kb << 10,
                    ..Marking::PAPER
                });
            }
            Self::Priority => Variant::Sfd,
            Self::Droptail | Self::Red | Self::NoLong | Self::Pieces => return None,
        };
        Some(Marking {
            variant,
            ..Marking::PAPER
        })
    }

    /// Returns the requests as this way has them. The pieces of a long flow follow one another: a
    /// file of 10 MB in pieces that all come at once would be a burst of 700 connections.
    fn asked(self, requests: &[PlannedRequest]) -> Vec<PlannedRequest> {
        let most = traffic::THRESHOLD_BYTES;
        match self {
            Self::NoLong => {
                let short = requests.iter().filter(|own| own.bytes <= most);
                short.copied().collect()
            }
            Self::Pieces => {
                let mut pieces = Vec::new();
                for request in requests {
                    for index in 0..request.bytes.div_ceil(most).max(1) {
                        let before = pieces.len().checked_sub(1).map(|before| before as u32);
                        pieces.push(PlannedRequest {
                            bytes: (request.bytes - index * most).min(most),
                            after: before.filter(|_| index > 0),
                            ..*request
                        });
                    }
                }
                pieces
            }
            _ => requests.to_vec(),
        }
    }
}

/// The results of one way, over all runs.
#[derive(Clone, Debug)]
struct MeasuredWay {
    way: SfdWay,
    latencies: Latencies,
    /// The part of the link's capacity that was used.
    utilisation: f64,
    /// The part of the packets that was dropped.
    loss: f64,
}

/// The rate of the bottleneck, in bits per second.
const BOTTLENECK: u64 = 3_000_000;

/// The beginning of a run that is not measured.
const WARM_UP: Duration = Duration::from_secs(60);

/// Makes the dumbbell, seen from a server: the way to the router by the servers has its
/// delay and no queue, for three of them could send no faster than the bottleneck.
fn plan(seed: u64, way: SfdWay, requests: &[PlannedRequest], args: &SfdArgs) -> RunPlan {
    const ACCESS: Duration = Duration::from_millis(10);
    const MIDDLE: Duration = Duration::from_millis(20);
    let client = ClientPlan {
        link: LinkSettings {
            rate_bits_per_s: Some(10_000_000),
            delay: ACCESS,
            ..LinkSettings::default()
        },
        up_delay: 2 * ACCESS + MIDDLE,
        up_loss: 0.0,
        quick_acks: 0,
        keeps: false,
    };
    RunPlan {
        seed,
        shared: Some(LinkSettings {
            rate_bits_per_s: Some(BOTTLENECK),
            delay: ACCESS + MIDDLE,
            queue: way.queue(),
            ..LinkSettings::default()
        }),
        clients: vec![client; traffic::CLIENTS as usize],
        requests: way.asked(requests),
        users_keep: false,
        algorithm: Algorithm::Reno,
        listen: None,
        named_bits_per_s: None,
        local_packets: None,
        marking: way.marking(),
        first_window: args.first_window,
        tcp: Habits::TODAY,
        discipline: Discipline::Srpt,
        floor_percent: 0,
    }
}

/// Runs a way once for each seed, all ways with the same sessions.
fn measure(args: &SfdArgs, way: SfdWay, gap_s: f64) -> anyhow::Result<MeasuredWay> {
    match args.tcp {
        SfdTcp::Today => measure_today(args, way, gap_s),
        SfdTcp::Of2002 => measure_2002(args, way, gap_s),
    }
}

/// Measures a way with TCP as of 2002. The simulator's packets of 1,000 bytes are the paper's KB.
fn measure_2002(args: &SfdArgs, way: SfdWay, gap_s: f64) -> anyhow::Result<MeasuredWay> {
    let mut measured = MeasuredWay {
        way,
        latencies: Latencies::default(),
        utilisation: 0.0,
        loss: 0.0,
    };
    for run in 0..u64::from(args.runs) {
        let own = dumbbell::run(&setup(args, way, args.seed + run, gap_s))?;
        measured.utilisation += own.utilisation / f64::from(args.runs);
        measured.loss += own.loss / f64::from(args.runs);
        for flow in own.flows {
            let bytes = u64::from(flow.packets) << 10;
            measured.latencies.add(bytes, flow.transmission_s);
        }
    }
    Ok(measured)
}

/// Makes the setup of a run on the paper's dumbbell: of its 12,000 s the first 2,000 are
/// not measured.
fn setup(args: &SfdArgs, way: SfdWay, seed: u64, gap_s: f64) -> dumbbell::DumbbellSetup {
    let measured = Duration::from_secs(args.seconds.into());
    let client = (dumbbell::ACCESS_BITS_PER_S, dumbbell::ACCESS);
    dumbbell::DumbbellSetup {
        seed,
        way,
        gap_s,
        sessions: args.load.sessions(),
        warm_up: measured / 5,
        measured,
        clients: vec![client; traffic::CLIENTS as usize],
        processor: None,
        transfer: None,
    }
}

fn measure_today(args: &SfdArgs, way: SfdWay, gap_s: f64) -> anyhow::Result<MeasuredWay> {
    let length = WARM_UP + Duration::from_secs(args.seconds.into());
    let mut latencies = Latencies::default();
    let (mut carried, mut dropped, mut sent) = (0.0, 0, 0);
    for run in 0..u64::from(args.runs) {
        let seed = args.seed + run;
        let asked = requests(seed, length, gap_s);
        let plan = plan(seed, way, &asked, args);
        let again = || format!("{} with seed {seed}", way.name());
        let (outcome, took) = world::run_each(&plan, System::Fair).with_context(again)?;
        carried += outcome.shared_bytes as f64 * 8.0 / length.as_secs_f64();
        dropped += outcome.dropped;
        sent += outcome.sent;
        for (request, took) in plan.requests.iter().zip(took.transmission) {
            if request.at.as_nanos() >= WARM_UP.as_nanos() as u64 {
                latencies.add(request.bytes, took.as_secs_f64());
            }
        }
    }
    Ok(MeasuredWay {
        way,
        latencies,
        utilisation: carried / f64::from(args.runs) / BOTTLENECK as f64,
        loss: dropped as f64 / sent as f64,
    })
}

/// Finds the gap between sessions at which a drop-tail queue has the load, unless a gap is given.
/// With the paper's TCP the gap is the paper's: with it the paper's losses come out, while its
/// utilisations contradict both (table 3).
fn calibrate(args: &SfdArgs) -> anyhow::Result<f64> {
    if let Some(gap_s) = args.gap {
        return Ok(gap_s);
    }
    if args.tcp == SfdTcp::Of2002 {
        return Ok(args.load.gap_s());
    }
    let (wanted, mut gap_s) = (args.load.utilisation(), args.load.gap_s());
    for _ in 0..6 {
        let found = measure(args, SfdWay::Droptail, gap_s)?.utilisation;
        // The probes' part stays as it is.
        let probes = traffic::probes_bits_per_s() / BOTTLENECK as f64;
        let ratio = (found - probes).max(0.01) / (wanted - probes);
        gap_s *= ratio;
        if (ratio - 1.0).abs() < 0.01 {
            break;
        }
    }
    Ok(gap_s)
}

/// Runs the command `simulate sfd`.
pub(crate) fn run(args: &SfdArgs) -> anyhow::Result<()> {
    let gap_s = calibrate(args)?;
    let measured: Vec<MeasuredWay> = SfdWay::ALL
        .into_iter()
        .map(|way| measure(args, way, gap_s))
        .collect::<Result<_, _>>()?;
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{} load (sessions {gap_s:.1} s apart), first window {}, {} runs of {} s, seed {}; \
         transmission latency in ms",
        args.load.name(),
        args.first_window,
        args.runs,
        args.seconds,
        args.seed
    );
    let (rows, findings) = (table_of(&measured), findings(&measured, args.load));
    text.push_str(&aligned(&rows, 1));
    text.push('\n');
    text.push_str(&aligned(&findings, 1));
    if let Some(directory) = &args.output {
        let name = args.load.name();
        for (file, rows) in [("sfd", &rows), ("sfd-findings", &findings)] {
            let path = directory.join(format!("{file}-{name}-w{}.csv", args.first_window));
            table::create(&path, |out| write_csv(rows, out))?;
        }
        let _ = writeln!(text, "written: {}", directory.display());
    }
    print(&text)
}

/// Writes the rows of the printed table as CSV. Its columns are those of that table: one for each
/// size of the probes, or the findings'.
fn write_csv(rows: &[Vec<String>], out: impl io::Write) -> io::Result<()> {
    let mut csv = csv::WriterBuilder::new()
        .has_headers(false)
        .quote_style(csv::QuoteStyle::Always)
        .from_writer(out);
    for row in rows {
        csv.serialize(row)?;
    }
    csv.flush()
}

/// Makes a table with a line for each way.
fn table_of(measured: &[MeasuredWay]) -> Vec<Vec<String>> {
    let mut head: Vec<String> = ["queue", "used", "dropped", "short", "sd"]
        .map(str::to_owned)
        .into();
    head.extend(traffic::PROBES_BYTES.map(|bytes| format!("{} KB", bytes >> 10)));
    let mut rows = vec![head];
    for own in measured {
        let short = own.latencies.short();
        let ms = |seconds: f64| format!("{:.0}", seconds * 1e3);
        let mut row = vec![
            own.way.name().to_owned(),
            format!("{:.3}", own.utilisation),
            format!("{:.4}", own.loss),
            ms(short.mean),
            ms(short.deviation),
        ];
        let is_whole = !matches!(own.way, SfdWay::NoLong | SfdWay::Pieces);
        row.extend(traffic::PROBES_BYTES.map(|bytes| {
            let mean = own.latencies.around(bytes);
            mean.filter(|_| is_whole).map_or(String::new(), ms)
        }));
        rows.push(row);
    }
    rows
}

#[cfg(test)]
mod tests;
