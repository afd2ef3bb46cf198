//! Networks with names: where the shared link is the bottleneck, where the clients'
//! own links are, both, and neither.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::{
    Algorithm, ClientGroup, DOWNLOAD_BYTES, DOWNLOADS_MAX, LinkSettings, MBIT, Network, SEGMENT,
    Traffic, link, queue_bytes, queue_packets, rates,
};
use crate::links::{QueueBound, QueueSettings, RedSettings};

/// A queue of 100 packets, as in the lab.
const LAB_PACKETS: u64 = 100;

/// The queue of a client's own link, in bytes.
const OWN_QUEUE: u64 = 64 << 10;

/// Lists all networks with names, each for `count` requests.
pub(crate) fn named(count: usize) -> Vec<Network> {
    let mut all = shared(count);
    all.extend(varied(count));
    all.extend(changing(count));
    all.extend(own(count));
    all.extend(mixed(count));
    all
}

/// Makes a network of a shared link of `mbit` Mbit/s at a load of `load`, and 8 clients near to it.
fn near(name: &str, mbit: f64, load: f64, count: usize) -> Network {
    Network {
        name: name.to_owned(),
        shared: link(mbit, queue_packets(LAB_PACKETS)),
        groups: vec![ClientGroup {
            clients: 8,
            weight: 1.0,
            rtt_ms: 0.1..=0.3,
            own: LinkSettings::default(),
            quick_acks: 16,
            keeps: false,
        }],
        traffic: Traffic {
            offered_bits_per_s: mbit * MBIT * load,
            on_off: None,
            requests: count,
            largest_bytes: u64::MAX,
            back_to_back_bytes: None,
        },
        algorithm: Algorithm::Cubic,
        is_shared: true,
        local_packets: None,
    }
}

/// Makes the network of [`near`] with another round trip, in ms.
fn at_rtt(name: &str, mbit: f64, load: f64, rtt_ms: RangeInclusive<f64>, count: usize) -> Network {
    let mut network = near(name, mbit, load, count);
    network.groups[0].rtt_ms = rtt_ms;
    network
}

/// Makes the lab: the limit is the server's own queue, as `tc` puts it there,
/// and one client is next to it.
fn lab(name: &str, mbit: f64, load: f64, count: usize) -> Network {
    let mut network = at_rtt(name, mbit, load, 0.1..=0.1, count);
    network.groups[0].clients = 1;
    network.shared.queue = queue_packets(2 * LAB_PACKETS);
    network.local_packets = Some(LAB_PACKETS);
    network
}

/// Makes the lab with 8 clients that download back to back, so that the server's own queue is full
/// from the start.
fn downloads(name: &str, mbit: f64, count: usize) -> Network {
    let mut network = lab(name, mbit, 1.0, count);
    network.groups[0].clients = 8;
    network.traffic.requests = count.min(DOWNLOADS_MAX);
    network.traffic.back_to_back_bytes = Some(DOWNLOAD_BYTES);
    network
}

/// Makes a network of clients behind links of their own; the farm's link is idle.
fn behind(name: &str, clients: usize, own: LinkSettings, offered: f64, count: usize) -> Network {
    let mut network = at_rtt(name, 1000.0, 0.0, 40.0..=40.0, count);
    network.groups[0].clients = clients;
    network.groups[0].own = own;
    network.traffic.offered_bits_per_s = offered * MBIT;
    network.shared.queue = queue_packets(1000);
    network.is_shared = false;
    network
}

fn with(mut network: Network, change: impl FnOnce(&mut Network)) -> Network {
    change(&mut network);
    network
}

/// Lists networks with shared links of many rates, loads and round trips.
fn shared(n: usize) -> Vec<Network> {
    vec![
        lab("lab 10M, load 0.7", 10.0, 0.7, n),
        lab("lab 10M, load 0.8", 10.0, 0.8, n),
        lab("lab 10M, load 0.9", 10.0, 0.9, n),
        lab("lab 100M, load 0.8", 100.0, 0.8, n),
        lab("lab 100M, load 0.9", 100.0, 0.9, n),
        downloads("10M, 8 downloads at the host", 10.0, n),
        downloads("100M, 8 downloads at the host", 100.0, n),
        near("1M near", 1.0, 0.8, n),
        near("3M near", 3.0, 0.8, n),
        near("10M near", 10.0, 0.9, n),
        near("10M near, load 0.5", 10.0, 0.5, n),
        near("10M near, load 0.7", 10.0, 0.7, n),
        near("30M near", 30.0, 0.9, n),
        near("100M near", 100.0, 0.9, n),
        near("100M near, load 0.8", 100.0, 0.8, n),
        near("300M near", 300.0, 0.9, n),
        at_rtt("1M rtt 40", 1.0, 0.8, 40.0..=40.0, n),
        at_rtt("3M rtt 40", 3.0, 0.9, 40.0..=40.0, n),
        at_rtt("10M rtt 10", 10.0, 0.9, 10.0..=10.0, n),
        at_rtt("10M rtt 40", 10.0, 0.9, 40.0..=40.0, n),
        at_rtt("10M rtt 100", 10.0, 0.9, 100.0..=100.0, n),
        at_rtt("10M rtt 0.1 to 300", 10.0, 0.9, 0.1..=300.0, n),
        at_rtt("10M rtt 50 to 240", 10.0, 0.9, 50.0..=240.0, n),
        at_rtt("100M rtt 40", 100.0, 0.9, 40.0..=40.0, n),
    ]
}

/// Lists networks that vary the clients, queues and habits on the shared link.
fn varied(n: usize) -> Vec<Network> {
    let far = |name: &str| at_rtt(name, 10.0, 0.9, 20.0..=60.0, n);
    let addresses = |network: &mut Network| network.groups[0].clients = 500;
    vec![
        with(far("10M, 500 addresses"), addresses),
        with(
            at_rtt("100M, 500 addresses", 100.0, 0.9, 20.0..=60.0, n),
            addresses,
        ),
        with(far("10M, one address"), |w| w.groups[0].clients = 1),
        with(far("10M, Reno"), |w| w.algorithm = Algorithm::Reno),
        with(near("10M near, BBR", 10.0, 0.9, n), |w| {
            w.algorithm = Algorithm::Bbr;
        }),
        with(far("10M, kept connections"), |w| w.groups[0].keeps = true),
        with(far("10M, delayed acknowledgements"), |w| {
            w.groups[0].quick_acks = 0;
        }),
        with(far("10M, 1% lost"), |w| w.groups[0].own.loss = 0.01),
        with(far("10M, RED"), |w| {
            w.shared.queue = QueueSettings::Red {
                bound: QueueBound::packets(LAB_PACKETS),
                red: RedSettings::SFD_OUT,
            };
        }),
        with(
            at_rtt("20M, 10-packet queue", 20.0, 0.9, 20.0..=60.0, n),
            |w| w.shared.queue = queue_packets(10),
        ),
        with(
            at_rtt("20M, 1000-packet queue", 20.0, 0.9, 20.0..=60.0, n),
            |w| w.shared.queue = queue_packets(1000),
        ),
        with(far("10M, overload"), |w| {
            w.traffic.offered_bits_per_s = 13.0 * MBIT;
        }),
    ]
}

/// Lists networks whose rate or load changes.
fn changing(n: usize) -> Vec<Network> {
    let second = Duration::from_secs(1);
    vec![
        with(at_rtt("10 to 100M", 10.0, 0.9, 20.0..=60.0, n), |w| {
            w.traffic.offered_bits_per_s = 12.0 * MBIT;
            w.shared.schedule = rates(&[(10.0, 100.0)], None);
        }),
        with(at_rtt("20 to 6 to 20M", 20.0, 0.0, 20.0..=60.0, n), |w| {
            w.traffic.offered_bits_per_s = 12.0 * MBIT;
            w.shared.schedule = rates(&[(10.0, 6.0), (20.0, 20.0)], None);
        }),
        with(
            downloads("100 to 10 to 100M, 8 downloads at the host", 100.0, n),
            |w| w.shared.schedule = rates(&[(3.0, 10.0), (8.0, 100.0)], None),
        ),
        with(at_rtt("10M on-off", 10.0, 1.4, 20.0..=60.0, n), |w| {
            w.traffic.on_off = Some((second, second));
        }),
        with(at_rtt("50M on-off", 50.0, 1.4, 5.0..=60.0, n), |w| {
            w.traffic.on_off = Some((second, second * 3));
        }),
    ]
}

/// Lists networks in which only the clients' own links queue, or no link does.
fn own(n: usize) -> Vec<Network> {
    let of = |mbit: f64| link(mbit, queue_bytes(OWN_QUEUE));
    let jitter = |mut own: LinkSettings, ms: u64| {
        own.jitter = Duration::from_millis(ms);
        own
    };
    let lossy = |loss: f64| LinkSettings {
        loss,
        ..LinkSettings::default()
    };
    vec![
        behind("8 x own 2M, idle link", 8, of(2.0), 9.6, n),
        behind(
            "8 x own 2M, 20 KB, idle link",
            8,
            link(2.0, queue_bytes(20 << 10)),
            9.6,
            n,
        ),
        with(
            behind("8 x own 2M, BBR, idle link", 8, of(2.0), 9.6, n),
            |w| w.algorithm = Algorithm::Bbr,
        ),
        behind("32 x own 10M, idle link", 32, of(10.0), 160.0, n),
        behind("20 x own 1M, idle link", 20, of(1.0), 10.0, n),
        behind(
            "jitter 4 ms, idle link",
            8,
            jitter(LinkSettings::default(), 4),
            20.0,
            n,
        ),
        behind(
            "wireless 20M, jitter 8 ms, idle link",
            8,
            LinkSettings {
                loss: 0.005,
                ..jitter(of(20.0), 8)
            },
            40.0,
            n,
        ),
        behind(
            "own 2 to 20M in turns, idle link",
            8,
            LinkSettings {
                schedule: rates(&[(1.0, 2.0), (2.0, 20.0)], Some(2.0)),
                ..of(20.0)
            },
            40.0,
            n,
        ),
        behind("2% lost, idle link", 8, lossy(0.02), 20.0, n),
        behind("nothing queues", 8, LinkSettings::default(), 20.0, n),
    ]
}

/// Lists networks in which both the shared link and the clients' own links matter.
fn mixed(n: usize) -> Vec<Network> {
    let queued = |mbit: f64| link(mbit, queue_bytes(OWN_QUEUE));
    let hundred = |name: &str| at_rtt(name, 100.0, 0.9, 40.0..=40.0, n);
    let own = |mbit: f64, clients: usize| {
        move |w: &mut Network| {
            w.groups[0].clients = clients;
            w.groups[0].own = queued(mbit);
        }
    };
    let jitter =
        |ms: u64| move |w: &mut Network| w.groups[0].own.jitter = Duration::from_millis(ms);
    let half_behind = |w: &mut Network| {
        let mut slow = w.groups[0].clone();
        slow.own = queued(2.0);
        slow.weight = 0.5;
        w.groups.push(slow);
    };
    let deep = |w: &mut Network| {
        w.groups[0].own = link(4.0, queue_bytes(400 * SEGMENT));
    };
    vec![
        with(hundred("100M, own 2M x 32"), |w| {
            own(2.0, 32)(w);
            w.traffic.offered_bits_per_s = 38.0 * MBIT;
        }),
        with(hundred("100M, own 10M x 32"), own(10.0, 32)),
        with(
            at_rtt("10M, own 2M x 8", 10.0, 0.8, 40.0..=40.0, n),
            own(2.0, 8),
        ),
        with(
            at_rtt("10M, own 4M x 8, deep", 10.0, 0.9, 40.0..=40.0, n),
            deep,
        ),
        with(
            at_rtt("10M, both kinds", 10.0, 0.9, 40.0..=40.0, n),
            half_behind,
        ),
        with(
            at_rtt("10M, jitter 3 ms", 10.0, 0.9, 20.0..=60.0, n),
            jitter(3),
        ),
        with(
            at_rtt("50M, jitter 3 ms", 50.0, 0.9, 20.0..=60.0, n),
            jitter(3),
        ),
    ]
}
