//! SFD02's other systems: two tiers of clients (figure 12), and server processors in front
//! of the network (figure 13).

use std::time::Duration;

use anyhow::Context as _;
use sprat_scheduler::dispatch::Dispatch;
use sprat_scheduler::station::{Order, Scope, StationConfig};
use sprat_scheduler::{ClassSpec, Time};

use super::findings::Latencies;
use super::paper::{S_SFD, args, less};
use super::traffic::{CLIENTS, Load, requests};
use super::{SfdArgs, WARM_UP, Way, calibrate, plan};
use crate::links::LinkSettings;
use crate::simulate::arrivals;
use crate::simulate::farm::{self, Service, endpoint};
use crate::simulate::network::plan::{ClientPlan, Request};
use crate::simulate::network::system::System;
use crate::simulate::network::world;
use crate::simulate::papers::{Measured, Scale, on_all_cores};
use crate::simulate::sizes::Sizes;

/// The second tier of clients, of which the paper's text says nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tiers {
    clients: u32,
    rate_bits_per_s: u64,
    delays_ms: (u64, u64),
    /// The bytes of a transfer, and the seconds between two.
    transfer: (u64, f64),
}

pub(super) const TIERS: Tiers = Tiers {
    clients: 10,
    rate_bits_per_s: 1_500_000,
    delays_ms: (5, 50),
    transfer: (2 << 20, 30.0),
};

/// A long transfer is told from a page's object by its size.
const TRANSFER_CLIENT: u32 = TIERS.clients;

/// What one queue came to in two tiers.
struct Tiered {
    latencies: Latencies,
    /// By client of the second tier.
    each: Vec<Latencies>,
    /// Mean bits per second of the transfers.
    goodput: f64,
}

/// Runs drop-tail and S-SFD in two tiers.
pub(super) fn two_tiers(scale: Scale) -> anyhow::Result<Measured> {
    let args = args(scale, Load::Medium, 2);
    let gap_s = calibrate(&args)?;
    let both = on_all_cores(&[Way::Droptail, S_SFD], |&way| tiered(&args, way, gap_s))?;
    let (dt, own) = (&both[0], &both[1]);
    let mut measured = Measured::default();
    measured.value("reduction", less(&own.latencies, &dt.latencies));
    let by_size = own.latencies.reductions(&dt.latencies);
    measured.value(
        "best size",
        by_size.iter().copied().fold(f64::NAN, f64::max),
    );
    measured.value(
        "worst size",
        by_size.iter().copied().fold(f64::NAN, f64::min),
    );
    let around = |tiers: &Tiered| tiers.latencies.around(1000 << 10).unwrap_or(f64::NAN);
    measured.value("1,000 KB over DT", around(own) / around(dt));
    measured.value("transfer goodput over DT", own.goodput / dt.goodput);
    let gains = own.each.iter().zip(&dt.each).enumerate();
    let gains = gains.map(|(index, (own, dt))| (delay_ms(index as u32) as f64, less(own, dt)));
    measured.value("correlation", correlation(&gains.collect::<Vec<_>>()));
    for (name, tiers) in [("DT", dt), ("S-SFD", own)] {
        for (kb, seconds) in tiers.latencies.by_kb() {
            if kb <= 1_100.0 {
                measured.point("figure-12", name, kb, 1e3 * seconds);
            }
        }
    }
    Ok(measured)
}

/// The delay of a client's own link, evenly between the bounds.
fn delay_ms(client: u32) -> u64 {
    let (least, most) = TIERS.delays_ms;
    least + u64::from(client) * (most - least) / u64::from(TIERS.clients - 1)
}

fn tiered(args: &SfdArgs, way: Way, gap_s: f64) -> anyhow::Result<Tiered> {
    let length = WARM_UP + Duration::from_secs(args.seconds.into());
    let mut found = Tiered {
        latencies: Latencies::default(),
        each: vec![Latencies::default(); TIERS.clients as usize],
        goodput: 0.0,
    };
    let mut transfers = 0.0;
    for run in 0..u64::from(args.runs) {
        let seed = args.seed + run;
        let mut plan = plan(seed, way, &with_transfers(seed, length, gap_s), args);
        let wide = plan.clients[0].clone();
        let client = |index| tier_client(&wide, index);
        plan.clients = (0..TIERS.clients).map(client).collect();
        plan.clients.push(wide);
        let again = || format!("two tiers, {} with seed {seed}", way.name());
        let (_, took) = world::run_each(&plan, System::Fair).with_context(again)?;
        for (request, took) in plan.requests.iter().zip(took.transmission) {
            let seconds = took.as_secs_f64();
            if request.at.as_nanos() < WARM_UP.as_nanos() as u64 {
                continue;
            }
            if request.client == TRANSFER_CLIENT {
                found.goodput += request.bytes as f64 * 8.0 / seconds;
                transfers += 1.0;
                continue;
            }
            found.latencies.add(request.bytes, seconds);
            found.each[request.client as usize].add(request.bytes, seconds);
        }
    }
    found.goodput /= transfers;
    Ok(found)
}

/// A client of the second tier, with a queue of the router's size before its own link.
fn tier_client(wide: &ClientPlan, index: u32) -> ClientPlan {
    let delay = Duration::from_millis(delay_ms(index));
    ClientPlan {
        link: LinkSettings {
            rate_bits_per_s: Some(TIERS.rate_bits_per_s),
            delay: wide.link.delay + delay,
            ..wide.link.clone()
        },
        up_delay: wide.up_delay + delay,
        ..wide.clone()
    }
}

/// The web's requests over the clients of the second tier, and the transfers.
fn with_transfers(seed: u64, length: Duration, gap_s: f64) -> Vec<Request> {
    let mut asked = requests(seed, length, gap_s);
    for (index, request) in asked.iter_mut().enumerate() {
        // Two clients of the second tier for each of the dumbbell's.
        request.client += CLIENTS * (index as u32 % (TIERS.clients / CLIENTS));
    }
    let (bytes, every_s) = TIERS.transfer;
    let count = (length.as_secs_f64() / every_s) as u64;
    asked.extend((0..count).map(|index| Request {
        at: Time::from_nanos((index as f64 * every_s * 1e9) as u64),
        client: TRANSFER_CLIENT,
        bytes,
        after: None,
    }));
    asked.sort_by_key(|request| request.at);
    asked
}

/// Pearson's coefficient of pairs.
fn correlation(pairs: &[(f64, f64)]) -> f64 {
    let count = pairs.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|pair| pair.0), mean(|pair| pair.1));
    let sum = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
        pairs.iter().map(|&(a, b)| of(a - x, b - y)).sum()
    };
    sum(&|a, b| a * b) / (sum(&|a, _| a * a) * sum(&|_, b| b * b)).sqrt()
}

/// The load on the servers' processors and on the link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    processors: f64,
    link: Load,
}

/// The network is the limit.
pub(super) const NETWORK: Limit = Limit {
    processors: 0.1,
    link: Load::Medium,
};

/// The servers' processors are the limit.
pub(super) const SERVERS: Limit = Limit {
    processors: 0.8,
    link: Load::Light,
};

/// Runs first come first served and shortest task first before drop-tail and S-SFD.
pub(super) fn end_to_end(scale: Scale, limit: &Limit, plot: &str) -> anyhow::Result<Measured> {
    let args = args(scale, limit.link, 2);
    let gap_s = calibrate(&args)?;
    let orders = [("FCFS", Order::Fcfs), ("STF", Order::Size)];
    let mut measured = Measured::default();
    let mut means = Vec::new();
    for (order_name, order) in orders {
        let ways = [Way::Droptail, S_SFD];
        let run = |&way: &Way| served(&args, limit, order, way, gap_s);
        for (name, own) in ["DT", "SFD"].iter().zip(on_all_cores(&ways, run)?) {
            let name = format!("{name}+{order_name}");
            for (kb, seconds) in own.by_kb() {
                if kb <= 15.0 {
                    measured.point(plot, &name, kb, 1e3 * seconds);
                }
            }
            means.push((name, own));
        }
    }
    let worst = means[0].1.clone();
    for (name, own) in &means[1..] {
        measured.value(format!("{name} reduction"), less(own, &worst));
    }
    let short: Vec<f64> = means.iter().map(|(_, own)| own.short().mean).collect();
    let best = short.iter().copied().fold(f64::MAX, f64::min);
    let most = short.iter().copied().fold(0.0, f64::max);
    measured.holds(
        "both best, neither worst",
        best == short[3] && most == short[0],
    );
    Ok(measured)
}

/// Returns the latencies from the request on: the processor's, and then the network's.
fn served(
    args: &SfdArgs,
    limit: &Limit,
    order: Order,
    way: Way,
    gap_s: f64,
) -> anyhow::Result<Latencies> {
    let length = WARM_UP + Duration::from_secs(args.seconds.into());
    let mut latencies = Latencies::default();
    for run in 0..u64::from(args.runs) {
        let seed = args.seed + run;
        let asked = requests(seed, length, gap_s);
        let processed = process(&asked, limit.processors, order, length)?;
        let mut later: Vec<(usize, Request)> = (asked.iter().zip(&processed))
            .map(|(request, took)| Request {
                at: request.at + *took,
                ..*request
            })
            .enumerate()
            .collect();
        later.sort_by_key(|(_, request)| request.at);
        let sorted: Vec<Request> = later.iter().map(|(_, request)| *request).collect();
        let plan = plan(seed, way, &sorted, args);
        let again = || format!("{} after processors, seed {seed}", way.name());
        let (_, took) = world::run_each(&plan, System::Fair).with_context(again)?;
        for ((index, _), took) in later.iter().zip(took.response) {
            let request = &asked[*index];
            if request.at.as_nanos() >= WARM_UP.as_nanos() as u64 {
                let whole = processed[*index] + took;
                latencies.add(request.bytes, whole.as_secs_f64());
            }
        }
    }
    Ok(latencies)
}

/// Returns how long each request takes at the processor of its server, which serves one at a
/// time, at a rate that makes the load.
fn process(
    asked: &[Request],
    load: f64,
    order: Order,
    length: Duration,
) -> anyhow::Result<Vec<Duration>> {
    let bytes: u64 = asked.iter().map(|request| request.bytes).sum();
    let offered = bytes as f64 / length.as_secs_f64() / f64::from(CLIENTS);
    let mut took = vec![Duration::ZERO; asked.len()];
    for server in 0..CLIENTS {
        let own = || {
            asked
                .iter()
                .enumerate()
                .filter(|(_, own)| own.client == server)
        };
        let arrivals = own().map(|(_, request)| arrivals::Request {
            at: request.at,
            bytes: request.bytes,
            resource: 0.0,
            class: 0.0,
            random: 0,
        });
        let requests = own().count().max(1);
        let station = StationConfig {
            max_requests: 1,
            order,
            scope: Scope::Cluster,
            ..StationConfig::new(
                Dispatch::LeastRequest,
                vec![endpoint(0)],
                vec![ClassSpec::default()],
                requests,
            )
        };
        let plan = farm::Plan {
            station,
            service: Service {
                request_bytes: 0.0,
                bytes_per_s: offered / load,
                shares: false,
            },
            seed: 0,
            requests,
            sizes: Sizes::Workload,
            gap_s: 0.0,
            class_shares: vec![1.0],
        };
        let served = farm::serve(&plan, arrivals)?;
        for ((index, _), served) in own().zip(served) {
            took[index] = Duration::from_secs_f64(served.response_s);
        }
    }
    Ok(took)
}
