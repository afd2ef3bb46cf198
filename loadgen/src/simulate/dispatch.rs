//! Several endpoints, and the choice of the one that gets a request.

use sprat_scheduler::ClassSpec;
use sprat_scheduler::dispatch::{Dispatch, Intervals};
use sprat_scheduler::station::{Order, Scope, StationConfig};

use super::farm::{self, EndpointService, FarmRunPlan, endpoint};
use super::measure::SimulatedMeasures;
use super::options::{Common, load, share};
use super::output::Report;
use super::row::SimulationRow;
use super::sizes::Grid;

/// Several endpoints behind the core's station, under every way to choose one.
///
/// A request goes to its endpoint when it comes, and waits there, as in SDIS02
/// and in the literature on task assignment; `one queue` lets all endpoints
/// take from one queue instead. Each endpoint serves one at a time, or shares
/// its capacity among all it has.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct DispatchArgs {
    #[command(flatten)]
    common: Common,
    /// Number of requests to simulate
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(100..=20_000_000))]
    requests: u32,
    /// Loads of the farm, below 1
    #[arg(long, value_name = "LOAD", value_delimiter = ',', default_value = "0.8", value_parser = load)]
    load: Vec<f64>,
    /// Number of endpoints in the farm
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..=100))]
    endpoints: u32,
    /// Endpoints share their capacity among all their requests
    #[arg(long)]
    sharing: bool,
    /// Requests wait in order of their size, not first come, first served
    #[arg(long, conflicts_with = "sharing")]
    by_size: bool,
    /// Fixed work of each request beside its size, as a share of the mean size
    #[arg(long, value_name = "SHARE", default_value = "0.1", value_parser = share)]
    fixed: f64,
    /// Mean service time, in milliseconds, with no other request there
    #[arg(long, value_name = "MS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    service_ms: u32,
}

/// A rule of dispatch, and the scope in which requests wait under it.
struct DispatchSystem {
    name: &'static str,
    dispatch: Dispatch,
    scope: Scope,
}

impl DispatchSystem {
    /// Makes a system in which a request waits at its endpoint.
    fn apart(name: &'static str, dispatch: Dispatch) -> Self {
        Self {
            name,
            dispatch,
            scope: Scope::Endpoint,
        }
    }
}

/// Lists the systems that are compared.
fn systems(args: &DispatchArgs, grid: &Grid) -> Vec<DispatchSystem> {
    let request_bytes = grid.mean_bytes() * args.fixed;
    let cutoffs = grid.equal_load(args.endpoints as usize, |bytes| bytes + request_bytes);
    let fixed = Dispatch::Sita(Intervals::Fixed(cutoffs));
    let mut systems = vec![
        DispatchSystem::apart("round_robin", Dispatch::RoundRobin),
        DispatchSystem::apart("random", Dispatch::Random),
        DispatchSystem::apart("ring_hash", Dispatch::RingHash),
        DispatchSystem::apart("maglev", Dispatch::Maglev),
        DispatchSystem::apart("p2c", Dispatch::P2c),
        DispatchSystem::apart("least_request", Dispatch::LeastRequest),
        DispatchSystem::apart("psqf", Dispatch::Psqf),
        DispatchSystem::apart("rpsq", Dispatch::Rpsq { reserved: 1 }),
        DispatchSystem::apart("least_work", Dispatch::LeastWork),
        DispatchSystem::apart("sita", fixed),
        DispatchSystem::apart("sita, learnt", Dispatch::Sita(Intervals::Learnt)),
    ];
    // With room for all at once no request waits for another.
    if !args.sharing {
        systems.push(DispatchSystem {
            name: "one queue",
            dispatch: Dispatch::LeastRequest,
            scope: Scope::Cluster,
        });
    }
    systems
}

/// Runs the command `simulate dispatch`.
pub(super) fn run(args: &DispatchArgs) -> anyhow::Result<()> {
    let grid = args.common.sizes.grid();
    let mut rows = Vec::new();
    for &load in &args.load {
        for system in systems(args, &grid) {
            let plan = plan(args, &grid, load, system.dispatch, system.scope);
            let served = farm::simulate(&plan)?;
            rows.push(SimulationRow {
                system: system.name.to_owned(),
                load,
                measures: SimulatedMeasures::of(&served, &args.common.sizes),
                ..SimulationRow::default()
            });
        }
    }
    let serving = match (args.sharing, args.by_size) {
        (true, _) => "sharing",
        (_, true) => "one at a time, by size",
        _ => "one at a time, first come first served",
    };
    let report = Report {
        name: "dispatch",
        title: "Which endpoint",
        about: format!(
            "{} endpoints, {serving}, {} ms each on average, {} sizes, fixed share {}, {} \
             requests a run, seed {}",
            args.endpoints,
            args.service_ms,
            args.common.sizes,
            args.fixed,
            args.requests,
            args.common.seed,
        ),
        baseline: Some("round_robin"),
        rows,
    };
    report.write(args.common.output.as_deref())
}

fn plan(
    args: &DispatchArgs,
    grid: &Grid,
    load: f64,
    dispatch: Dispatch,
    scope: Scope,
) -> FarmRunPlan {
    let service_s = f64::from(args.service_ms) / 1e3;
    let request_bytes = grid.mean_bytes() * args.fixed;
    // SDIS02's two classes, half and half; of one level, the reserved endpoint
    // would be everybody's.
    let level = |level| ClassSpec {
        level,
        ..ClassSpec::default()
    };
    let differentiates = matches!(dispatch, Dispatch::Psqf | Dispatch::Rpsq { .. });
    let (classes, class_shares) = if differentiates {
        (vec![level(0), level(1)], vec![0.5, 0.5])
    } else {
        (vec![level(0)], vec![1.0])
    };
    let requests = args.requests as usize;
    FarmRunPlan {
        station: StationConfig {
            max_requests: if args.sharing { requests } else { 1 },
            order: if args.by_size {
                Order::Size
            } else {
                Order::Fcfs
            },
            scope,
            ..StationConfig::new(
                dispatch,
                (0..args.endpoints as usize).map(endpoint).collect(),
                classes,
                requests,
            )
        },
        service: EndpointService {
            request_bytes,
            bytes_per_s: (grid.mean_bytes() + request_bytes) / service_s,
            shares: args.sharing,
        },
        seed: args.common.seed,
        requests,
        sizes: args.common.sizes,
        gap_s: service_s / (load * f64::from(args.endpoints)),
        class_shares,
    }
}

#[cfg(test)]
#[path = "dispatch/tests.rs"]
mod tests;
