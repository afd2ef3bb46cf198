//! The model and the experiments of SDIS02 (Chen and Mohapatra 2002).

mod channel;
mod checks;
mod figures;
mod model;
mod paper;
mod points;
mod setup;
mod workload;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use sprat_scheduler::dispatch::Dispatch;

use super::findings::told;
use super::output::print;
use crate::{cli, table};
use checks::{Curves, STATIC_CAPACITY};
use points::Curve;
use setup::Setup;
use workload::{Media, Tasks};

pub(super) use paper::EXPERIMENTS;

/// The paper's service-differentiating server: figures 2 to 13.
///
/// A dispatcher for 4,000 requests a second, four task servers with a queue
/// each, two classes, the mix of objects of the paper's table 2. Prints each of
/// the paper's findings and whether it is found here.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Sdis02Args {
    /// Seed of arrivals and tasks
    #[arg(long, default_value_t = 7)]
    seed: u64,
    /// Requests at each point of each curve
    #[arg(long, value_name = "N", default_value_t = 200_000, value_parser = clap::value_parser!(u32).range(1_000..=20_000_000))]
    requests: u32,
    /// Share of the files up to 32 KB that the servers have in memory; the paper takes it from
    /// elsewhere and does not give it
    #[arg(long, value_name = "SHARE", default_value = "0.8", value_parser = hits)]
    cache_hits: f64,
    /// Which of the paper's contradicting figures for audio and video to use
    #[arg(long, value_enum, default_value_t = Media::Traffic)]
    media: Media,
    /// Bandwidth of each server's channel
    #[arg(long, value_name = "RATE", default_value = "80mbit", value_parser = cli::rate)]
    channel: u64,
    /// Time over which the length of the servers' queues is averaged for early discard
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = cli::span)]
    averaging: Duration,
    /// Share of the servers' queues that may be taken before all requests of low priority are
    /// discarded; from a half on, some of them are
    #[arg(long, value_name = "SHARE", default_value = "0.75", value_parser = second_threshold)]
    discard_all: f64,
    /// Directory for a CSV and figures
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

fn hits(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("a share is from 0 to 1, such as 0.8".to_owned()),
    }
}

fn second_threshold(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (FIRST_THRESHOLD..=1.0).contains(&share) => Ok(share),
        _ => Err("a share is from 0.5 to 1, such as 0.75".to_owned()),
    }
}

/// The rates of a curve, as shares of the capacity for static objects: closer where the knees are,
/// and beyond what the servers can do.
const RATES: [f64; 15] = [
    0.05, 0.1, 0.2, 0.25, 0.3, 0.35, 0.375, 0.4, 0.425, 0.45, 0.5, 0.55, 0.6, 0.8, 1.0,
];

/// The ratios of high-priority requests that are compared.
const RATIOS: [f64; 6] = [0.1, 0.3, 0.5, 0.7, 0.8, 0.9];

/// The places in a server's queue (SDIS02 4.1); [`SHORT_QUEUE`] are those of section 5.5.
const LONG_QUEUE: usize = 1024;
const SHORT_QUEUE: usize = 100;

/// The share of the buffer at which early discard of low priority begins (SDIS02 5.5).
const FIRST_THRESHOLD: f64 = 0.5;

/// Runs the command `simulate sdis02`.
pub(super) fn run(args: &Sdis02Args) -> anyhow::Result<()> {
    let base = base(args);
    let capacity = base.capacity();
    let rates = RATES.map(|share| share * STATIC_CAPACITY);
    let curves = curves(&base, args.discard_all, &rates)?;
    let findings = checks::findings(&curves);
    let mut text = format!(
        "SDIS02: capacity {capacity:.0} tasks a second, {:.2} of that for static objects; {} \
         requests a point, seed {}\n",
        capacity / STATIC_CAPACITY,
        args.requests,
        args.seed,
    );
    text.push_str(&told(&findings));
    if let Some(directory) = &args.output {
        table::create(&directory.join("sdis02.csv"), |out| {
            figures::write_csv(&curves, out)
        })?;
        for (name, svg) in figures::draw(&curves)? {
            let file = directory.join(format!("sdis02-{name}.svg"));
            table::create(&file, |out| out.write_all(svg.as_bytes()))?;
        }
        writeln!(text, "written: {}", directory.display())?;
    }
    print(&text)
}

fn base(args: &Sdis02Args) -> Setup {
    Setup {
        dispatch: Dispatch::RoundRobin,
        queue: LONG_QUEUE,
        high_ratio: 0.5,
        prioritized: true,
        thresholds: None,
        averaging: args.averaging,
        timeout: Duration::from_secs(60),
        displace: false,
        tasks: Tasks {
            cache_hits: args.cache_hits,
            media: args.media,
        },
        channel_bits_per_s: args.channel,
        rate: 0.0,
        requests: args.requests as usize,
        seed: args.seed,
    }
}

/// Runs all curves that the figures need. Where low priority is discarded early, all of it is from
/// `discard_all` of a queue on.
fn curves(base: &Setup, discard_all: f64, rates: &[f64]) -> anyhow::Result<Curves> {
    let thresholds = (FIRST_THRESHOLD, discard_all);
    let plain = Setup {
        prioritized: false,
        ..base.clone()
    };
    let displacing = Setup {
        queue: SHORT_QUEUE,
        dispatch: Dispatch::LeastRequest,
        displace: true,
        ..base.clone()
    };
    let groups = [
        vec![("no priorities".to_owned(), plain)],
        by_ratio(base),
        assignments(base),
        discards(base, discard_all),
        by_ratio(&Setup {
            thresholds: Some(thresholds),
            timeout: Duration::from_secs(2),
            dispatch: Dispatch::LeastRequest,
            queue: SHORT_QUEUE,
            ..base.clone()
        }),
        vec![("sqf, displacing".to_owned(), displacing)],
    ];
    let mut results = groups
        .into_iter()
        .map(|group| points::run(group, rates))
        .collect::<anyhow::Result<Vec<Vec<Curve>>>>()?
        .into_iter();
    let mut next = || results.next().unwrap_or_default();
    let single = |curves: Vec<Curve>| {
        let curve = curves.into_iter().next();
        curve.ok_or_else(|| anyhow::anyhow!("a curve is missing"))
    };
    Ok(Curves {
        plain: single(next())?,
        ratios: next(),
        assignments: next(),
        discards: next(),
        timeouts: next(),
        displacing: single(next())?,
    })
}

fn by_ratio(base: &Setup) -> Vec<(String, Setup)> {
    let setup = |high_ratio: f64| {
        let setup = Setup {
            high_ratio,
            ..base.clone()
        };
        (format!("{high_ratio}"), setup)
    };
    RATIOS.into_iter().map(setup).collect()
}

/// Lists the setups of the schemes for task assignment (SDIS02 5.4).
fn assignments(base: &Setup) -> Vec<(String, Setup)> {
    let schemes = [
        ("rr", Dispatch::RoundRobin),
        ("sqf", Dispatch::LeastRequest),
        ("psqf", Dispatch::Psqf),
        ("rpsq, 1", Dispatch::Rpsq { reserved: 1 }),
        ("rpsq, 2", Dispatch::Rpsq { reserved: 2 }),
    ];
    let setup = |(name, dispatch): (&str, Dispatch)| {
        let setup = Setup {
            dispatch,
            ..base.clone()
        };
        (name.to_owned(), setup)
    };
    schemes.into_iter().map(setup).collect()
}

/// Lists the setups with short queues, without early discard and with it (SDIS02 5.5, figure 12).
fn discards(base: &Setup, discard_all: f64) -> Vec<(String, Setup)> {
    let thresholds = Some((FIRST_THRESHOLD, discard_all));
    let setup = |name: &str, dispatch, thresholds| {
        let setup = Setup {
            dispatch,
            thresholds,
            queue: SHORT_QUEUE,
            ..base.clone()
        };
        (name.to_owned(), setup)
    };
    vec![
        setup("sqf", Dispatch::LeastRequest, None),
        setup("psqf", Dispatch::Psqf, None),
        setup("sqf, EDAC", Dispatch::LeastRequest, thresholds),
        setup("psqf, EDAC", Dispatch::Psqf, thresholds),
    ]
}

#[cfg(test)]
#[path = "sdis02/tests.rs"]
mod tests;
