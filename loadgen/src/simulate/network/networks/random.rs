//! Networks that are drawn from a seed.

use std::time::Duration;

use super::{
    Algorithm, ClientGroup, DOWNLOAD_BYTES, DOWNLOADS_MAX, LinkSettings, MBIT, Network, SEGMENT,
    Traffic, link, log_uniform, queue_bytes, queue_packets, rates,
};
use crate::links::{QueueBound, QueueSettings, RedSettings};
use crate::workload::Dice;

/// The most that clients behind links of their own ask for together, in Mbit/s.
const OFFERED_MOST_MBIT: f64 = 500.0;

/// The place where queues form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bottleneck {
    Shared,
    Own,
    Both,
    Nowhere,
}

/// Draws a network for `count` requests that follows from `seed`.
pub(crate) fn random(seed: u64, count: usize) -> Network {
    let mut dice = Dice::new(seed ^ 0x0e17_0000);
    let bottleneck = match dice.uniform() {
        u if u < 0.55 => Bottleneck::Shared,
        u if u < 0.75 => Bottleneck::Own,
        u if u < 0.90 => Bottleneck::Both,
        _ => Bottleneck::Nowhere,
    };
    let mbit = log_uniform(&mut dice, &(1.0..=300.0));
    let load = match dice.uniform() {
        u if u < 0.1 => 1.2,
        u => 0.3 + 0.7 * (u - 0.1) / 0.9,
    };
    let groups = 1 + dice.below(3);
    let groups: Vec<ClientGroup> = (0..groups)
        .map(|_| group(&mut dice, bottleneck, mbit))
        .collect();
    let idle = matches!(bottleneck, Bottleneck::Own | Bottleneck::Nowhere);
    let offered = match bottleneck {
        Bottleneck::Own => own_mbit(&groups).min(OFFERED_MOST_MBIT) * load.min(0.95),
        Bottleneck::Both => own_mbit(&groups).min(mbit) * load,
        Bottleneck::Shared | Bottleneck::Nowhere => mbit * load,
    };
    let mut shared = match idle {
        true => link(10.0 * offered + 1000.0, queue_bytes(1000 * SEGMENT)),
        false => link(mbit, queue(&mut dice, mbit)),
    };
    // A tenth to ten times as much, a third of the way through.
    let factor = (!idle && dice.uniform() < 0.1).then(|| log_uniform(&mut dice, &(0.1..=10.0)));
    let on_off = (dice.uniform() < 0.15).then(|| bursts(&mut dice));
    let algorithm = match dice.uniform() {
        u if u < 0.7 => Algorithm::Cubic,
        u if u < 0.85 => Algorithm::Reno,
        _ => Algorithm::Bbr,
    };
    let is_local = bottleneck == Bottleneck::Shared && dice.uniform() < 0.3;
    let local_packets = is_local.then(|| log_uniform(&mut dice, &(50.0..=1000.0)) as u64);
    if let Some(packets) = local_packets {
        // The sender stops before it drops any.
        shared.queue = queue_packets(2 * packets);
    }
    let downloads = is_local && dice.uniform() < 0.3;
    let (requests, length_s) = if downloads {
        let requests = count.min(DOWNLOADS_MAX);
        (
            requests,
            requests as f64 * DOWNLOAD_BYTES as f64 * 8.0 / (mbit * MBIT),
        )
    } else {
        (count, count as f64 * 6200.0 * 8.0 / (offered * MBIT))
    };
    if let Some(factor) = factor {
        let changes = [
            (length_s / 3.0, mbit * factor),
            (length_s * 2.0 / 3.0, mbit),
        ];
        shared.schedule = rates(&changes, None);
    }
    Network {
        name: format!("seed {seed}"),
        shared,
        groups,
        traffic: Traffic {
            offered_bits_per_s: offered * MBIT,
            on_off,
            requests,
            largest_bytes: u64::MAX,
            back_to_back_bytes: downloads.then_some(DOWNLOAD_BYTES),
        },
        algorithm,
        is_shared: !idle,
        local_packets,
    }
}

/// Draws how long requests come, and how long none does.
fn bursts(dice: &mut Dice) -> (Duration, Duration) {
    let mut draw = || Duration::from_secs_f64(log_uniform(dice, &(0.2..=5.0)));
    (draw(), draw())
}

/// Returns the rate of all requests at which the clients' own links of some group are full, in
/// Mbit/s.
fn own_mbit(groups: &[ClientGroup]) -> f64 {
    let weights: f64 = groups.iter().map(|group| group.weight).sum();
    let full = |group: &ClientGroup| {
        let each = group
            .own
            .rate_bits_per_s
            .map_or(f64::MAX, |rate| rate as f64);
        each / MBIT * group.clients as f64 * weights / group.weight
    };
    groups.iter().map(full).fold(f64::MAX, f64::min)
}

fn group(dice: &mut Dice, bottleneck: Bottleneck, mbit: f64) -> ClientGroup {
    let clients = log_uniform(dice, &(1.0..=300.0)) as usize;
    let least_ms = log_uniform(dice, &(0.2..=200.0));
    let most_ms = (least_ms * log_uniform(dice, &(1.0..=10.0))).min(400.0);
    let mut own = match bottleneck {
        Bottleneck::Shared | Bottleneck::Nowhere => LinkSettings::default(),
        Bottleneck::Own | Bottleneck::Both => {
            // Each has less than the shared link, and all of them may have more.
            let each = mbit * log_uniform(dice, &(0.05..=0.7));
            link(each, queue(dice, each))
        }
    };
    if dice.uniform() < 0.4 {
        own.jitter = Duration::from_secs_f64(log_uniform(dice, &(0.2e-3..=8e-3)));
    }
    if dice.uniform() < 0.3 {
        own.loss = log_uniform(dice, &(0.0005..=0.03));
    }
    ClientGroup {
        clients,
        weight: 0.2 + dice.uniform(),
        rtt_ms: least_ms..=most_ms,
        own,
        quick_acks: if dice.uniform() < 0.8 { 16 } else { 0 },
        keeps: dice.uniform() < 0.4,
    }
}

/// Draws a queue of 5 to 400 ms, 10 segments at least; one in eight with RED.
fn queue(dice: &mut Dice, mbit: f64) -> QueueSettings {
    let bytes = mbit * MBIT / 8.0 * log_uniform(dice, &(0.005..=0.4));
    let bytes = (bytes as u64).max(10 * SEGMENT);
    if dice.uniform() < 0.125 {
        return QueueSettings::Red {
            bound: QueueBound::bytes(bytes),
            red: RedSettings::SFD_OUT,
        };
    }
    queue_bytes(bytes)
}
