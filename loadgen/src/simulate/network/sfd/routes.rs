//! SFD02's other systems: two tiers of clients (figure 12), and server processors in front
//! of the network (figure 13).

use std::time::Duration;

use super::dumbbell::{self, DumbbellSetup, FinishedFlow, Processor};
use super::findings::Latencies;
use super::paper::{S_SFD, args, less};
use super::sessions::offered_packets_per_s;
use super::traffic::{CLIENTS, SessionLoad};
use super::{SfdArgs, SfdWay, calibrate, setup};
use crate::simulate::cores::on_all_cores;
use crate::simulate::experiment::{Measured, Scale};

/// The second tier of clients, of which the paper's text says nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tiers {
    clients: u32,
    rate_bits_per_s: u64,
    delays_ms: (u64, u64),
    /// The packets of a transfer, and the seconds between two.
    transfer: (u32, f64),
}

pub(super) const TIERS: Tiers = Tiers {
    clients: 10,
    rate_bits_per_s: 1_500_000,
    delays_ms: (5, 50),
    transfer: (2 << 10, 30.0),
};

/// The results of one queue in two tiers.
struct Tiered {
    latencies: Latencies,
    /// The latencies of each client of the second tier.
    each: Vec<Latencies>,
    /// The mean rate of the transfers, in bits per second.
    goodput: f64,
}

/// Runs drop-tail and S-SFD in two tiers.
pub(super) fn two_tiers(scale: Scale) -> anyhow::Result<Measured> {
    let args = args(scale, SessionLoad::Medium, 2);
    let gap_s = calibrate(&args)?;
    let both = on_all_cores(&[SfdWay::Droptail, S_SFD], |&way| tiered(&args, way, gap_s))?;
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

/// Returns the delay of a client's own link, in ms; the clients' are even between the bounds.
fn delay_ms(client: u32) -> u64 {
    let (least, most) = TIERS.delays_ms;
    least + u64::from(client) * (most - least) / u64::from(TIERS.clients - 1)
}

fn tiered(args: &SfdArgs, way: SfdWay, gap_s: f64) -> anyhow::Result<Tiered> {
    let mut found = Tiered {
        latencies: Latencies::default(),
        each: vec![Latencies::default(); TIERS.clients as usize],
        goodput: 0.0,
    };
    let mut transfers = 0.0;
    for run in 0..u64::from(args.runs) {
        // A link of its own behind the client's of the dumbbell, with a router's queue.
        let tail = |client| {
            let delay = dumbbell::ACCESS + Duration::from_millis(delay_ms(client));
            (TIERS.rate_bits_per_s, delay)
        };
        let setup = DumbbellSetup {
            clients: (0..TIERS.clients).map(tail).collect(),
            transfer: Some(TIERS.transfer),
            ..setup(args, way, args.seed + run, gap_s)
        };
        for flow in dumbbell::run(&setup)?.flows {
            let bytes = u64::from(flow.packets) << 10;
            if flow.is_transfer {
                found.goodput += bytes as f64 * 8.0 / flow.transmission_s;
                transfers += 1.0;
                continue;
            }
            found.latencies.add(bytes, flow.transmission_s);
            found.each[flow.client].add(bytes, flow.transmission_s);
        }
    }
    found.goodput /= transfers;
    Ok(found)
}

/// Computes Pearson's coefficient of correlation of pairs.
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
    link: SessionLoad,
}

/// The loads at which the network is the limit (figure 13a).
pub(super) const NETWORK: Limit = Limit {
    processors: 0.1,
    link: SessionLoad::Medium,
};

/// The loads at which the servers' processors are the limit (figure 13b). The link's load is
/// medium, as it is in the paper unless it says otherwise (4.1).
pub(super) const SERVERS: Limit = Limit {
    processors: 0.8,
    link: SessionLoad::Medium,
};

/// Runs processors with first come first served and shortest task first, before drop-tail and
/// S-SFD.
pub(super) fn end_to_end(scale: Scale, limit: &Limit, plot: &str) -> anyhow::Result<Measured> {
    let args = args(scale, limit.link, 2);
    let gap_s = calibrate(&args)?;
    let orders = [("FCFS", false), ("STF", true)];
    let mut measured = Measured::default();
    let mut means = Vec::new();
    for (order_name, shortest) in orders {
        let ways = [SfdWay::Droptail, S_SFD];
        let run = |&way: &SfdWay| served(&args, limit, shortest, way, gap_s);
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

/// Returns the latencies from the request on: the processor's, and then the network's. The rate of
/// the processors is such that the mean demand of the sessions makes the load.
fn served(
    args: &SfdArgs,
    limit: &Limit,
    shortest: bool,
    way: SfdWay,
    gap_s: f64,
) -> anyhow::Result<Latencies> {
    let mut latencies = Latencies::default();
    let offered = offered_packets_per_s(gap_s) / f64::from(CLIENTS);
    for run in 0..u64::from(args.runs) {
        let setup = DumbbellSetup {
            processor: Some(Processor {
                packets_per_s: offered / limit.processors,
                shortest,
            }),
            ..setup(args, way, args.seed + run, gap_s)
        };
        let add =
            |flow: FinishedFlow| latencies.add(u64::from(flow.packets) << 10, flow.response_s);
        dumbbell::run(&setup)?.flows.into_iter().for_each(add);
    }
    Ok(latencies)
}
