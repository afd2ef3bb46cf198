//! The plan of a run: a network with all its requests, the same for all systems.

use std::time::Duration;

use sprat_scheduler::{Discipline, Marking, Time};

use super::congestion::Algorithm;
use super::habits::Habits;
use super::listen::ListenBounds;
use super::wire::wire_bytes;
use crate::links::LinkSettings;
use crate::workload::{self, Dice};

/// The floor of a configuration that names none, in percent of the link.
pub(super) const FLOOR_PERCENT: u8 = 5;

/// A request of a client.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PlannedRequest {
    pub(super) at: Time,
    pub(super) client: u32,
    /// The bytes of the body.
    pub(super) bytes: u64,
    /// The request that has to be complete before this one is asked for: `at` is then the
    /// time of its session.
    pub(super) after: Option<u32>,
}

/// A client, and the link to it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ClientPlan {
    /// The link towards the client.
    pub(super) link: LinkSettings,
    /// The time that a packet takes from the client to the server.
    pub(super) up_delay: Duration,
    /// The part of the client's packets that is lost on the way to the server, each by itself.
    pub(super) up_loss: f64,
    /// Segments acknowledged at once before acknowledgements are delayed.
    pub(super) quick_acks: u32,
    /// Whether the client keeps its connections.
    pub(super) keeps: bool,
}

/// Everything that a run needs beside the system.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RunPlan {
    pub(super) seed: u64,
    /// The link that all responses share.
    pub(super) shared: Option<LinkSettings>,
    pub(super) clients: Vec<ClientPlan>,
    /// The requests, in the order of their times.
    pub(super) requests: Vec<PlannedRequest>,
    /// Whether a request that follows another is made on the connection of that one, which closes
    /// after the last of them, also where the client keeps no connections.
    pub(super) users_keep: bool,
    pub(super) algorithm: Algorithm,
    /// The bounds of a server with a process for each connection, and a listen queue before them.
    /// Connections have to close, or the processes are never free.
    pub(super) listen: Option<ListenBounds>,
    /// The rate to name, if one describes the network.
    pub(super) named_bits_per_s: Option<u64>,
    /// The bound in packets of the server's own queue, if the shared link's queue is that.
    pub(super) local_packets: Option<u64>,
    /// The marking by the router before the shared link, if it marks packets.
    pub(super) marking: Option<Marking>,
    /// Segments of a connection's first window.
    pub(super) first_window: u32,
    /// The habits of TCP, by its time.
    pub(super) tcp: Habits,
    /// The discipline of a server that paces.
    pub(super) discipline: Discipline,
    /// The part of the link for the response that has waited longest, in percent.
    pub(super) floor_percent: u8,
}

impl RunPlan {
    /// Returns whether no client asks for anything by itself after the start.
    pub(super) fn is_closed_loop(&self) -> bool {
        let mut later = self.requests.iter().filter(|one| one.after.is_none());
        self.requests.iter().any(|one| one.after.is_some()) && later.all(|one| one.at == Time::ZERO)
    }
}

/// The requests of the clients: how many, how large, and at which rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Traffic {
    /// The offered load in wire bytes, as bits per second.
    pub(super) offered_bits_per_s: f64,
    /// The spans, in turns, with requests at that rate and with no requests; the mean rate is less.
    pub(super) on_off: Option<(Duration, Duration)>,
    pub(super) requests: usize,
    /// The largest body, in bytes; larger ones are cut to it.
    pub(super) largest_bytes: u64,
    /// The bytes of each body, if each client asks for one after the other from the start on, rather
    /// than at times of its own. Nothing of the above but the number of requests counts then.
    pub(super) back_to_back_bytes: Option<u64>,
}

/// Makes Poisson arrivals from clients chosen by their weights. Sizes lie on the quantiles of the
/// workload, in random order. The load is exact for these very sizes, so that seeds differ in the
/// order alone.
pub(super) fn requests(
    seed: u64,
    traffic: &Traffic,
    clients: &[ClientPlan],
    weights: &[f64],
) -> Vec<PlannedRequest> {
    if let Some(bytes) = traffic.back_to_back_bytes {
        return back_to_back(bytes, traffic.requests, clients.len());
    }
    let mut dice = Dice::new(seed);
    let count = traffic.requests;
    let size = |index: usize| {
        let bytes = workload::quantile_bytes((index as f64 + 0.5) / count as f64);
        bytes.min(traffic.largest_bytes)
    };
    let mut sizes: Vec<u64> = (0..count).map(size).collect();
    for last in (1..count).rev() {
        sizes.swap(last, dice.below(last + 1));
    }
    let total: f64 = weights.iter().sum();
    let mut chosen: Vec<u32> = Vec::with_capacity(count);
    for _ in 0..count {
        let mut left = dice.uniform() * total;
        let place = weights.iter().position(|weight| {
            left -= weight;
            left < 0.0
        });
        chosen.push(place.unwrap_or(weights.len() - 1) as u32);
    }
    let wire: u64 = sizes
        .iter()
        .zip(&chosen)
        .map(|(&bytes, &client)| wire_bytes(bytes, clients[client as usize].keeps))
        .sum();
    let gap_s = wire as f64 * 8.0 / traffic.offered_bits_per_s / count as f64;
    let mut gaps: Vec<f64> = (0..count).map(|_| dice.exponential()).collect();
    let scale = count as f64 / gaps.iter().sum::<f64>();
    gaps.iter_mut().for_each(|gap| *gap *= scale * gap_s);
    let mut at_s = 0.0;
    let times = gaps.into_iter().map(|gap| {
        at_s += gap;
        match traffic.on_off {
            None => at_s,
            Some((on, off)) => {
                let rounds = (at_s / on.as_secs_f64()).floor();
                at_s + rounds * off.as_secs_f64()
            }
        }
    });
    times
        .zip(sizes)
        .zip(chosen)
        .map(|((at_s, bytes), client)| PlannedRequest {
            at: Time::from_nanos((at_s * 1e9) as u64),
            client,
            bytes,
            after: None,
        })
        .collect()
}

/// Makes each client ask for `bytes` as soon as it has those before.
fn back_to_back(bytes: u64, count: usize, clients: usize) -> Vec<PlannedRequest> {
    let request = |index: usize| PlannedRequest {
        at: Time::ZERO,
        client: (index % clients) as u32,
        bytes,
        after: index.checked_sub(clients).map(|before| before as u32),
    };
    (0..count).map(request).collect()
}
