//! Networks: links, the clients behind them, and the clients' requests.

#[cfg(test)]
mod harmed;
mod named;
mod random;

use std::ops::RangeInclusive;
use std::time::Duration;

#[cfg(test)]
pub(super) use harmed::harmed;
pub(super) use named::named;
pub(super) use random::random;

use super::congestion::{Algorithm, INITIAL_WINDOW};
use super::habits::Habits;
use super::plan::{ClientPlan, FLOOR_PERCENT, RunPlan, Traffic, requests};
use crate::links::{Change, LinkSettings, QueueBound, QueueSettings, Schedule};
use crate::workload::Dice;

/// The wire bytes of a full segment.
const SEGMENT: u64 = 1514;

const MBIT: f64 = 1e6;

/// The bytes of each download of a client that asks for one after the other, and the most downloads
/// of a run.
const DOWNLOAD_BYTES: u64 = 500_000;
const DOWNLOADS_MAX: usize = 400;

/// A network, before a seed decides which client asks when.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Network {
    pub(super) name: String,
    pub(super) shared: LinkSettings,
    pub(super) groups: Vec<ClientGroup>,
    pub(super) traffic: Traffic,
    pub(super) algorithm: Algorithm,
    /// Whether the shared link is the bottleneck, so that its rate can be named.
    pub(super) is_shared: bool,
    /// The bound in packets of the server's own queue, if the shared link's queue is that.
    pub(super) local_packets: Option<u64>,
}

/// Clients of one kind.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ClientGroup {
    pub(super) clients: usize,
    /// The group's part of the requests, for all its clients together.
    pub(super) weight: f64,
    /// The bounds of the clients' round trips, which are even on a logarithmic scale.
    pub(super) rtt_ms: RangeInclusive<f64>,
    /// The link of each client, without its delay.
    pub(super) own: LinkSettings,
    pub(super) quick_acks: u32,
    pub(super) keeps: bool,
}

impl Network {
    /// Makes the network with its requests, from a seed.
    pub(super) fn plan(&self, seed: u64) -> RunPlan {
        let mut dice = Dice::new(seed ^ 0xc11e);
        let mut clients = Vec::new();
        let mut weights = Vec::new();
        for group in &self.groups {
            for _ in 0..group.clients {
                let rtt_ms = log_uniform(&mut dice, &group.rtt_ms);
                let delay = Duration::from_nanos((rtt_ms * 0.5e6) as u64);
                clients.push(ClientPlan {
                    link: LinkSettings {
                        delay,
                        ..group.own.clone()
                    },
                    up_delay: delay,
                    up_loss: 0.0,
                    quick_acks: group.quick_acks,
                    keeps: group.keeps,
                });
                weights.push(group.weight / group.clients as f64);
            }
        }
        let requests = requests(seed, &self.traffic, &clients, &weights);
        RunPlan {
            seed,
            shared: Some(self.shared.clone()),
            clients,
            requests,
            users_keep: false,
            algorithm: self.algorithm,
            listen: None,
            named_bits_per_s: self.shared.rate_bits_per_s.filter(|_| self.is_shared),
            local_packets: self.local_packets,
            marking: None,
            first_window: INITIAL_WINDOW,
            tcp: Habits {
                is_small_queue_timed: self.traffic.back_to_back_bytes.is_some(),
                ..Habits::TODAY
            },
            discipline: sprat_scheduler::Discipline::Srpt,
            floor_percent: FLOOR_PERCENT,
        }
    }
}

fn log_uniform(dice: &mut Dice, range: &RangeInclusive<f64>) -> f64 {
    range.start() * (range.end() / range.start()).powf(dice.uniform())
}

/// Makes a FIFO with a bound in bytes.
fn queue_bytes(bytes: u64) -> QueueSettings {
    QueueSettings::Droptail {
        bound: QueueBound::bytes(bytes),
    }
}

/// Makes a FIFO with a bound in packets.
fn queue_packets(packets: u64) -> QueueSettings {
    QueueSettings::Droptail {
        bound: QueueBound::packets(packets),
    }
}

/// Makes a link of `mbit` Mbit/s.
fn link(mbit: f64, queue: QueueSettings) -> LinkSettings {
    LinkSettings {
        rate_bits_per_s: Some((mbit * MBIT) as u64),
        queue,
        ..LinkSettings::default()
    }
}

/// Makes a schedule of rates from pairs (seconds since the start, Mbit/s from then on).
fn rates(changes: &[(f64, f64)], repeat_s: Option<f64>) -> Schedule {
    let change = |&(at_s, mbit): &(f64, f64)| Change {
        at: Duration::from_secs_f64(at_s),
        rate_bits_per_s: Some((mbit * MBIT) as u64),
        delay: None,
    };
    Schedule {
        changes: changes.iter().map(change).collect(),
        repeat: repeat_s.map(Duration::from_secs_f64),
    }
}
