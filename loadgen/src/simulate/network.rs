//! Networks in virtual time: TCP senders behind the core's egress and its search for
//! the rate, over links that clients share and links of their own.

mod auto;
mod bbr;
mod bound;
mod congestion;
mod connection;
mod delivery;
mod events;
mod habits;
mod judge;
mod listen;
mod measured;
mod networks;
mod open;
mod outcome;
mod pacing;
mod plan;
mod receiver;
mod repeats;
mod sender;
mod server;
pub(super) mod sfd;
mod system;
mod table;
pub(super) mod tocs03;
mod topology;
mod wire;
mod world;

use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, bail};
use sprat_config::units::parse_bit_rate;

use measured::MeasuredNetwork;
use networks::Network;
use plan::RunPlan;
use system::System;
use table::Table;

/// TCP over networks of shared and own links, for each way to serve: mean response
/// time, goodput, and where the search for the rate does harm.
///
/// Bytes are conserved and all responses complete, or the run fails and names the
/// command that repeats it. If the search for the rate does what it must not do, that is
/// listed as a breach.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct SimulatedNetworkArgs {
    /// Networks by name, or by a part of it [default: all]
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ';',
        conflicts_with = "seeds"
    )]
    networks: Vec<String>,
    /// Random networks of these seeds, such as 0..200, instead of those with names
    #[arg(long, value_name = "A..B", value_parser = seeds)]
    seeds: Option<Range<u64>>,
    /// A topology of `sprat-loadgen network`, and with --trace the run that a replay would
    /// make there
    #[arg(long, value_name = "FILE", requires = "trace", conflicts_with_all = ["networks", "seeds", "requests"])]
    topology: Option<PathBuf>,
    /// Trace of the requests at a --topology
    #[arg(long, value_name = "FILE", requires = "topology")]
    trace: Option<PathBuf>,
    /// The rate that is given to the systems `named` and `watched` at a --topology
    #[arg(long, value_name = "RATE", requires = "topology", value_parser = parse_bit_rate)]
    named: Option<u64>,
    /// Ways to serve: fair, unlimited, named, watched, auto, search, a rate such as 11mbit,
    /// watched-11mbit, clients-100 (per cent of each client's own rate), or clients-auto
    #[arg(long, value_name = "SYSTEM", value_delimiter = ',', default_values_t = System::USUAL)]
    systems: Vec<System>,
    /// Number of requests in a run
    #[arg(long, value_name = "N", default_value_t = 4000, value_parser = clap::value_parser!(u32).range(10..=5_000_000))]
    requests: u32,
    /// Seed of the arrivals at networks with names; at a --topology, seed of which client sends
    /// which request
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    seed: u64,
    /// Runs at the same time [default: one for each core]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Fail if there is a breach, and name the command that repeats it
    #[arg(long)]
    strict: bool,
    /// Directory for networks.csv and networks.md
    #[arg(short, long, value_name = "DIR", visible_alias = "out")]
    output: Option<PathBuf>,
}

/// A network to be run, and the arguments that run it again.
struct NetworkRun {
    name: String,
    seed: u64,
    again: String,
    source: NetworkSource,
}

/// The source of a network's plan. Plans are large: each is made when it is run.
enum NetworkSource {
    Network(Box<Network>),
    Topology { topology: PathBuf, trace: PathBuf },
}

impl NetworkRun {
    fn named(network: Network, seed: u64) -> Self {
        Self {
            name: network.name.clone(),
            seed,
            again: format!("--networks '{}' --seed {seed}", network.name),
            source: NetworkSource::Network(Box::new(network)),
        }
    }

    fn random(seed: u64, requests: usize) -> Self {
        let network = networks::random(seed, requests);
        Self {
            again: format!("--seeds {seed}..{}", seed + 1),
            ..Self::named(network, seed)
        }
    }

    fn of_files(topology: &Path, trace: &Path, seed: u64) -> Self {
        let (topology, trace) = (topology.to_owned(), trace.to_owned());
        let shown = [topology.display(), trace.display()];
        let name = topology.file_stem().map(|name| name.to_string_lossy());
        Self {
            name: name.unwrap_or_default().into_owned(),
            seed,
            again: format!("--topology {} --trace {} --seed {seed}", shown[0], shown[1]),
            source: NetworkSource::Topology { topology, trace },
        }
    }

    fn plan(&self, named_bits_per_s: Option<u64>) -> anyhow::Result<RunPlan> {
        match &self.source {
            NetworkSource::Network(network) => Ok(network.plan(self.seed)),
            NetworkSource::Topology { topology, trace } => {
                topology::plan(topology, trace, named_bits_per_s, self.seed)
            }
        }
    }
}

/// Runs the command `simulate network`.
pub(super) fn run(args: &SimulatedNetworkArgs) -> anyhow::Result<()> {
    let requests = args.requests as usize;
    let work: Vec<NetworkRun> = match (&args.seeds, &args.topology, &args.trace) {
        (Some(seeds), ..) => {
            let made = seeds.clone().map(|seed| NetworkRun::random(seed, requests));
            made.collect()
        }
        (None, Some(topology), Some(trace)) => {
            vec![NetworkRun::of_files(topology, trace, args.seed)]
        }
        (None, ..) => {
            let chosen = chosen(&args.networks, networks::named(requests))?;
            let runs = chosen
                .into_iter()
                .map(|own| NetworkRun::named(own, args.seed));
            runs.collect()
        }
    };
    let measured = measure_all(args, &work)?;
    let table = Table::new(&args.systems, &measured);
    table.write(args.output.as_deref())?;
    match args.strict {
        true => ensure_unbroken(args, &work, &measured),
        false => Ok(()),
    }
}

/// Fails if a system broke a bound in a network, and names the command that repeats the first.
fn ensure_unbroken(
    args: &SimulatedNetworkArgs,
    work: &[NetworkRun],
    measured: &[MeasuredNetwork],
) -> anyhow::Result<()> {
    let broken: Vec<&NetworkRun> = work
        .iter()
        .zip(measured)
        .filter(|(_, one)| table::has_breach(one))
        .map(|(run, _)| run)
        .collect();
    let Some(first) = broken.first() else {
        return Ok(());
    };
    let systems: Vec<String> = args.systems.iter().map(ToString::to_string).collect();
    bail!(
        "a bound is broken in {} of {} networks; repeat the first with: {}",
        broken.len(),
        work.len(),
        again(args, first, &systems.join(","))
    )
}

/// Returns the command that runs a network again, under these systems.
fn again(args: &SimulatedNetworkArgs, run: &NetworkRun, systems: &str) -> String {
    let requests = match run.source {
        NetworkSource::Network(_) => format!(" --requests {}", args.requests),
        NetworkSource::Topology { .. } => String::new(),
    };
    format!(
        "sprat-loadgen simulate network {} --systems {systems}{requests}",
        run.again
    )
}

fn chosen(names: &[String], all: Vec<Network>) -> anyhow::Result<Vec<Network>> {
    let known: Vec<String> = all.iter().map(|network| network.name.clone()).collect();
    let is_chosen = |name: &String, part: &String| {
        // A whole name is that network alone.
        name == part || (!known.contains(part) && name.contains(part.as_str()))
    };
    if let Some(name) = names
        .iter()
        .find(|part| !known.iter().any(|name| is_chosen(name, part)))
    {
        bail!(
            "no network is called `{name}`; there are {}",
            known.join("; ")
        );
    }
    let keep = |network: &Network| {
        names.is_empty() || names.iter().any(|part| is_chosen(&network.name, part))
    };
    Ok(all.into_iter().filter(keep).collect())
}

/// Runs all networks, as many at a time as the arguments say or as there are cores.
fn measure_all(
    args: &SimulatedNetworkArgs,
    work: &[NetworkRun],
) -> anyhow::Result<Vec<MeasuredNetwork>> {
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let threads = args
        .threads
        .map_or(cores, NonZeroUsize::get)
        .min(work.len());
    let next = AtomicUsize::new(0);
    let done = Mutex::new(vec![None; work.len()]);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| -> anyhow::Result<()> {
                    loop {
                        let place = next.fetch_add(1, Ordering::Relaxed);
                        let Some(run) = work.get(place) else {
                            return Ok(());
                        };
                        let measured = measure(args, run)?;
                        done.lock().unwrap_or_else(PoisonError::into_inner)[place] = Some(measured);
                    }
                })
            })
            .collect();
        for worker in workers {
            match worker.join() {
                Ok(result) => result?,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        anyhow::Ok(())
    })?;
    let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(done.into_iter().flatten().collect())
}

fn measure(args: &SimulatedNetworkArgs, run: &NetworkRun) -> anyhow::Result<MeasuredNetwork> {
    let plan = run.plan(args.named)?;
    let mut outcomes = Vec::new();
    for &system in &args.systems {
        let outcome = world::run(&plan, system).with_context(|| {
            let again = again(args, run, &system.to_string());
            format!("repeat it with: {again}")
        })?;
        outcomes.push((system, outcome));
    }
    Ok(MeasuredNetwork {
        name: run.name.clone(),
        seed: run.seed,
        bound_ms: bound::srpt_ms(&plan),
        outcomes,
    })
}

/// Parses a range of seeds.
fn seeds(text: &str) -> Result<Range<u64>, String> {
    let range = text.split_once("..").and_then(|(from, to)| {
        let range = from.parse().ok()?..to.parse().ok()?;
        (range.start < range.end).then_some(range)
    });
    range.ok_or_else(|| "expected two numbers, the second one larger, such as 0..200".to_owned())
}

#[cfg(test)]
#[path = "network/tests.rs"]
mod tests;
