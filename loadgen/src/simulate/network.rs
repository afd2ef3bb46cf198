//! Networks in virtual time: TCP senders behind the core's egress and its search for
//! the rate, over links that clients share and links of their own.

mod auto;
mod bound;
mod congestion;
mod connection;
mod events;
mod judge;
mod networks;
mod outcome;
mod plan;
mod receiver;
mod sender;
mod server;
mod system;
mod table;
mod world;

use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, bail};

use networks::Network;
use outcome::Outcome;
use system::System;
use table::Table;

/// TCP over networks of shared and own links, for each way to serve: mean response
/// time, goodput, and where the search for the rate does harm.
///
/// Bytes are conserved and all responses complete, or the run fails and names the
/// command that repeats it. What the search for the rate must not do is listed as a
/// breach.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct NetworkArgs {
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
    /// Ways to serve: fair, unlimited, named, auto, gate, or a rate
    #[arg(long, value_name = "SYSTEM", value_delimiter = ',', default_values_t = System::USUAL)]
    systems: Vec<System>,
    /// How many requests a run
    #[arg(long, value_name = "N", default_value_t = 4000, value_parser = clap::value_parser!(u32).range(10..=5_000_000))]
    requests: u32,
    /// Seed of the arrivals at networks with names
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    seed: u64,
    /// Runs at a time [default: one for each core]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Directory for networks.csv and networks.md
    #[arg(short, long, value_name = "DIR", visible_alias = "out")]
    output: Option<PathBuf>,
}

/// A network and what each system made of it.
#[derive(Clone, Debug)]
struct Measured {
    name: String,
    seed: u64,
    bound_ms: Option<f64>,
    /// In the order of the systems.
    outcomes: Vec<(System, Outcome)>,
}

/// Runs the command.
pub(super) fn run(args: &NetworkArgs) -> anyhow::Result<()> {
    let requests = args.requests as usize;
    let work: Vec<(Network, u64)> = match &args.seeds {
        Some(seeds) => {
            let made = seeds
                .clone()
                .map(|seed| (networks::random(seed, requests), seed));
            made.collect()
        }
        None => {
            let chosen = chosen(&args.networks, networks::named(requests))?;
            chosen
                .into_iter()
                .map(|network| (network, args.seed))
                .collect()
        }
    };
    let measured = measure_all(args, &work)?;
    let table = Table::new(&args.systems, &measured);
    table.write(args.output.as_deref())
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

/// Runs all, as many at a time as there are cores.
fn measure_all(args: &NetworkArgs, work: &[(Network, u64)]) -> anyhow::Result<Vec<Measured>> {
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
                        let Some((network, seed)) = work.get(place) else {
                            return Ok(());
                        };
                        let measured = measure(args, network, *seed)?;
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

fn measure(args: &NetworkArgs, network: &Network, seed: u64) -> anyhow::Result<Measured> {
    let plan = network.plan(seed);
    let mut outcomes = Vec::new();
    for &system in &args.systems {
        let outcome = world::run(&plan, system).with_context(|| {
            let which = match args.seeds {
                Some(_) => format!("--seeds {seed}..{}", seed + 1),
                None => format!("--networks '{}' --seed {seed}", network.name),
            };
            format!(
                "repeat it with: sprat-loadgen simulate network {which} --systems {system} \
                 --requests {}",
                args.requests
            )
        })?;
        outcomes.push((system, outcome));
    }
    Ok(Measured {
        name: network.name.clone(),
        seed,
        bound_ms: bound::srpt_ms(&plan),
        outcomes,
    })
}

/// A range of seeds.
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
