//! One endpoint of bounded concurrency, and the order of the requests that wait for it.

use std::time::Duration;

use sprat_scheduler::ClassSpec;
use sprat_scheduler::dispatch::Dispatch;
use sprat_scheduler::station::{Order, StationConfig};

use super::farm::{self, EndpointService, FarmRunPlan, endpoint};
use super::measure::{ServedRequest, SimulatedMeasures, settled};
use super::options::{Common, load, share};
use super::output::Report;
use super::row::SimulationRow;
use super::sizes::{Grid, SizeDistribution};
use super::theory::{self, Expected};

/// One endpoint of bounded concurrency behind the core's station: the order
/// in which waiting requests are served.
///
/// A request takes time in proportion to its size plus a share of the mean.
/// Requests are of three classes of the same level, whatever their size: 20%
/// to begin within 2 mean service times (value 3), 50% within 10 (value 2), 30%
/// within 50 (value 1).
#[derive(Clone, Debug, clap::Args)]
pub(super) struct WaitingArgs {
    #[command(flatten)]
    common: Common,
    /// Number of requests to simulate
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(100..=20_000_000))]
    requests: u32,
    /// Loads of the endpoint, below 1
    #[arg(long, value_name = "LOAD", value_delimiter = ',', default_value = "0.9", value_parser = load)]
    load: Vec<f64>,
    /// Requests in service at a time
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    concurrency: u32,
    /// Fixed work of each request beside its size, as a share of the mean size
    #[arg(long, value_name = "SHARE", default_value = "0.1", value_parser = share)]
    fixed: f64,
    /// Mean service time, in milliseconds, with no other request there
    #[arg(long, value_name = "MS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    service_ms: u32,
}

const ORDERS: [(Order, &str); 5] = [
    (Order::Fcfs, "fcfs"),
    (Order::Value, "value"),
    (Order::Edf, "edf"),
    (Order::Vrd, "vrd"),
    (Order::Size, "size"),
];

/// The classes, each with its share, deadline in mean service times, value and name.
const CLASSES: [(f64, u32, u32, &str); 3] = [
    (0.2, 2, 3, "tight"),
    (0.5, 10, 2, "ordinary"),
    (0.3, 50, 1, "loose"),
];

/// Runs the command `simulate waiting`.
pub(super) fn run(args: &WaitingArgs) -> anyhow::Result<()> {
    let grid = args.common.sizes.grid();
    let mut rows = Vec::new();
    for &load in &args.load {
        for (order, name) in ORDERS {
            let expected = expected(args, &grid, load, &order);
            let plan = plan(args, &grid, load, order);
            let served = farm::simulate(&plan)?;
            rows.push(SimulationRow {
                system: name.to_owned(),
                load,
                measures: SimulatedMeasures::of(&served, &args.common.sizes),
                theory_ms: expected.map(|e| e.response_bytes / plan.service.bytes_per_s * 1e3),
                theory_slowdown: expected.map(|e| e.slowdown),
                late_percent: Some(late_percent(&served)),
                classes: by_class(&served),
            });
        }
    }
    let report = Report {
        name: "waiting",
        title: "Order of the waiting",
        about: format!(
            "one endpoint, {} at a time, {} ms each on average, {} sizes, fixed share {}, {} \
             requests a run, seed {}",
            args.concurrency,
            args.service_ms,
            args.common.sizes,
            args.fixed,
            args.requests,
            args.common.seed,
        ),
        baseline: Some("fcfs"),
        rows,
    };
    report.write(args.common.output.as_deref())
}

fn plan(args: &WaitingArgs, grid: &Grid, load: f64, order: Order) -> FarmRunPlan {
    let service_s = f64::from(args.service_ms) / 1e3;
    let request_bytes = grid.mean_bytes() * args.fixed;
    let class = |&(_, deadline, value, _): &(f64, u32, u32, &str)| ClassSpec {
        deadline: Some(Duration::from_secs_f64(service_s) * deadline),
        value,
        ..ClassSpec::default()
    };
    FarmRunPlan {
        station: StationConfig {
            max_requests: args.concurrency as usize,
            order,
            ..StationConfig::new(
                Dispatch::LeastRequest,
                vec![endpoint(0)],
                CLASSES.iter().map(class).collect(),
                args.requests as usize,
            )
        },
        service: EndpointService {
            request_bytes,
            bytes_per_s: (grid.mean_bytes() + request_bytes) / service_s,
            shares: false,
        },
        seed: args.common.seed,
        requests: args.requests as usize,
        sizes: args.common.sizes,
        gap_s: service_s / (load * f64::from(args.concurrency)),
        class_shares: CLASSES.iter().map(|class| class.0).collect(),
    }
}

/// Returns the means that theory expects where it has an exact formula: one at a time, or
/// exponential service first come, first served.
fn expected(args: &WaitingArgs, grid: &Grid, load: f64, order: &Order) -> Option<Expected> {
    let work = grid.shifted(grid.mean_bytes() * args.fixed);
    let exponential = matches!(args.common.sizes, SizeDistribution::Exponential { .. });
    match order {
        Order::Fcfs if args.concurrency == 1 => Some(theory::first_come_first_served(&work, load)),
        Order::Size if args.concurrency == 1 => Some(theory::shortest_job(&work, load)),
        Order::Fcfs if exponential && args.fixed == 0.0 => {
            let mean = work.mean_bytes();
            let wait = theory::erlang_wait(args.concurrency, load) * mean;
            Some(Expected {
                response_bytes: mean + wait,
                slowdown: 1.0 + wait * work.mean_of(|x| 1.0 / x),
            })
        }
        _ => None,
    }
}

fn late_percent(served: &[ServedRequest]) -> f64 {
    let served = settled(served);
    let late = served.iter().filter(|one| one.late).count();
    100.0 * late as f64 / served.len() as f64
}

/// Returns the mean response time of each class in milliseconds.
fn by_class(served: &[ServedRequest]) -> Vec<(&'static str, f64)> {
    let mean = |class| {
        let of_class = settled(served).iter().filter(|one| one.class == class);
        let (sum_s, count) = of_class.fold((0.0, 0), |(sum, n), one| (sum + one.response_s, n + 1));
        sum_s / f64::from(count) * 1e3
    };
    let classes = CLASSES.iter().enumerate();
    classes
        .map(|(class, (.., name))| (*name, mean(class)))
        .collect()
}

#[cfg(test)]
#[path = "waiting/tests.rs"]
mod tests;
