//! The outcome of a run, and the checks that each run must pass.

use std::time::Duration;

use anyhow::ensure;
use sprat_measure::wire::RESPONSE_HEAD_BYTES;
use sprat_scheduler::Time;

use super::auto::AutoRate;
use super::connection::{Connection, PacketContent, SimulatedClient};
use super::listen::ListenCounts;
use super::open::OpenConnections;
use super::plan::{PlannedRequest, RunPlan};
use super::server::Paced;
use crate::links::{Link, Mark};
use crate::simulate::statistics::percentile;

/// The counts of a run under way.
#[derive(Debug)]
pub(super) struct Counted {
    /// The time at which each request was asked for.
    asked: Vec<Time>,
    /// The response time of each request; zero until it is complete.
    response: Vec<Duration>,
    /// The time at which each response's first data left, from which `transmission` runs.
    began: Vec<Option<Time>>,
    transmission: Vec<Duration>,
    pub(super) completed: usize,
    /// Payload bytes that clients have received, heads included.
    pub(super) received: u64,
    /// The value of `received` when the last request came.
    pub(super) received_by_last: u64,
    /// The connections that the server has accepted and not closed yet. It closes one once the
    /// client has acknowledged all of the last response.
    pub(super) open: OpenConnections,
    /// The mean number of them until the last request came.
    pub(super) open_by_last: f64,
    pub(super) sent_packets: u64,
    pub(super) syn_acks_again: u64,
    pub(super) events: u64,
}

impl Counted {
    pub(super) fn new(requests: &[PlannedRequest]) -> Self {
        let asked = requests.iter().map(|request| request.at).collect();
        let requests = requests.len();
        Self {
            asked,
            response: vec![Duration::ZERO; requests],
            began: vec![None; requests],
            transmission: vec![Duration::ZERO; requests],
            completed: 0,
            received: 0,
            received_by_last: 0,
            open: OpenConnections::default(),
            open_by_last: 0.0,
            sent_packets: 0,
            syn_acks_again: 0,
            events: 0,
        }
    }

    /// Notes that a client asks for `request`, at its own time or after another.
    pub(super) fn ask(&mut self, request: usize, now: Time) {
        self.asked[request] = now;
    }

    /// Notes that a response is complete.
    pub(super) fn done(&mut self, request: usize, now: Time) {
        self.response[request] = now.since(self.asked[request]);
        self.transmission[request] = now.since(self.began[request].unwrap_or(now));
        self.completed += 1;
    }

    /// Notes that data of a response leaves the server, of which the first time counts.
    pub(super) fn begin(&mut self, request: usize, now: Time) {
        self.began[request].get_or_insert(now);
    }

    /// Returns the times that each response took.
    pub(super) fn into_times(self) -> RequestTimes {
        RequestTimes {
            response: self.response,
            transmission: self.transmission,
        }
    }
}

/// The times that each request took, by its number.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RequestTimes {
    /// The times from the request to the last byte of the response.
    pub(super) response: Vec<Duration>,
    /// The times from the first packet of the response to its last.
    pub(super) transmission: Vec<Duration>,
}

/// The parts of the network at the end of a run.
pub(super) struct Ends<'a> {
    pub(super) shared: Option<&'a Link<PacketContent>>,
    pub(super) clients: &'a [SimulatedClient],
    pub(super) connections: &'a [Connection],
    pub(super) paced: &'a [Paced],
    /// The counts of the listen queue, if it is bounded.
    pub(super) listen: Option<ListenCounts>,
}

/// The results of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct NetworkOutcome {
    /// The mean response time in milliseconds.
    pub(super) mean_ms: f64,
    /// The median response time in milliseconds.
    pub(super) median_ms: f64,
    pub(super) p99_ms: f64,
    /// The mean response time of the smallest 80% by size; `largest1_ms` is that of the largest 1%,
    /// and of all if they have one size.
    pub(super) smallest80_ms: f64,
    pub(super) largest1_ms: f64,
    /// The payload received until the last request came, over that time; the throughput if clients
    /// ask for one response after the other.
    pub(super) goodput_mbit_per_s: f64,
    /// Bytes of all bodies over the time from the first request to the last response's
    /// end: what a replay tells.
    pub(super) throughput_mbit_per_s: f64,
    /// Wire bytes that the shared link has carried.
    pub(super) shared_bytes: u64,
    /// Packets that came to the shared link marked OUT.
    pub(super) marked_out: u64,
    /// Packets dropped by queues and lost on links, of those sent.
    pub(super) dropped: u64,
    pub(super) sent: u64,
    /// The number of segments sent again.
    pub(super) again: u64,
    /// The number of SYN-ACKs sent again.
    pub(super) syn_acks_again: u64,
    /// The mean number of connections that the server has open, over the time until the last request
    /// came by itself.
    pub(super) open_connections: f64,
    /// The counts of the server's listen queue, if it is bounded.
    pub(super) listen: Option<ListenCounts>,
    /// The pacer's rate at the end.
    pub(super) rate_mbit_per_s: Option<f64>,
    /// The time at which a link was first found, in seconds.
    pub(super) found_s: Option<f64>,
    /// The rate of the link that is believed in at the end.
    pub(super) found_mbit_per_s: Option<f64>,
    pub(super) events: u64,
}

impl NetworkOutcome {
    /// Checks a run and sums it up.
    ///
    /// # Errors
    /// When bytes are missing, or a response is not complete.
    pub(super) fn of(
        plan: &RunPlan,
        now: Time,
        counted: &Counted,
        ends: &Ends<'_>,
    ) -> anyhow::Result<Self> {
        let dropped = check_links(counted, ends)?;
        check_bytes(plan, now, counted, ends)?;
        let times_ms: Vec<f64> = counted
            .response
            .iter()
            .map(|took| took.as_secs_f64() * 1e3)
            .collect();
        let count = times_ms.len();
        let mut by_size: Vec<usize> = (0..count).collect();
        by_size.sort_by_key(|&index| (plan.requests[index].bytes, index));
        // Of responses of one size none is the largest.
        let sizes = plan.requests.iter().map(|request| request.bytes);
        let is_one_size = sizes.clone().min() == sizes.max();
        let largest = if is_one_size {
            count
        } else {
            count.div_ceil(100)
        };
        let mean = |indices: &[usize]| {
            let sum: f64 = indices.iter().map(|&index| times_ms[index]).sum();
            sum / indices.len() as f64
        };
        let last = plan.requests.last().map_or(Time::ZERO, |r| r.at);
        let bits = counted.received_by_last as f64 * 8.0;
        let again = ends.connections.iter().map(|c| c.sender.counters().again);
        let throughput_mbit_per_s = throughput_mbit_per_s(plan, counted);
        // Clients that ask for the next response when they have the last one ask all the time.
        // Where all ask at once, nothing has come before the last request.
        let goodput_mbit_per_s = match plan.is_closed_loop() || last == Time::ZERO {
            true => throughput_mbit_per_s,
            false => bits / last.since(Time::ZERO).as_secs_f64() / 1e6,
        };
        let auto = ends.paced.first().and_then(Paced::auto);
        Ok(Self {
            mean_ms: mean(&by_size),
            median_ms: percentile(times_ms.clone(), 0.5),
            p99_ms: percentile(times_ms.clone(), 0.99),
            smallest80_ms: mean(&by_size[..(count * 4 / 5).max(1)]),
            largest1_ms: mean(&by_size[count - largest..]),
            throughput_mbit_per_s,
            goodput_mbit_per_s,
            shared_bytes: ends.shared.map_or(0, |own| own.counters().delivered.bytes),
            marked_out: ends
                .shared
                .map_or(0, |own| own.counters().mark(Mark::Out).arrived.packets),
            dropped,
            sent: counted.sent_packets,
            again: again.sum(),
            syn_acks_again: counted.syn_acks_again,
            open_connections: counted.open_by_last,
            listen: ends.listen,
            rate_mbit_per_s: ends.paced.first().map(|p| p.rate_bits_per_s() as f64 / 1e6),
            found_s: auto
                .and_then(AutoRate::found_at)
                .map(|at| at.since(Time::ZERO).as_secs_f64()),
            found_mbit_per_s: auto
                .and_then(AutoRate::found_bits_per_s)
                .map(|rate| rate as f64 / 1e6),
            events: counted.events,
        })
    }
}

fn throughput_mbit_per_s(plan: &RunPlan, counted: &Counted) -> f64 {
    let bytes: u64 = plan.requests.iter().map(|request| request.bytes).sum();
    let ends = counted.asked.iter().zip(&counted.response);
    let last = ends.map(|(&asked, &took)| asked + took).max();
    let first = plan
        .requests
        .first()
        .map_or(Time::ZERO, |request| request.at);
    let took = last.unwrap_or(first).since(first);
    bytes as f64 * 8e-6 / took.as_secs_f64()
}

/// Checks that every packet sent was delivered, dropped or lost, or is on a link. Returns how many
/// were dropped or lost.
fn check_links(counted: &Counted, ends: &Ends<'_>) -> anyhow::Result<u64> {
    let mut dropped = 0;
    let mut check = |link: &Link<PacketContent>, offered: u64| {
        let counters = link.counters();
        let arrived: u64 = counters.marks.iter().map(|m| m.arrived.packets).sum();
        let refused: u64 = counters.marks.iter().map(|m| m.dropped().packets).sum();
        let gone = refused + counters.lost.packets + counters.crowded.packets;
        let there = counters.length.now().packets + link.under_way() as u64;
        dropped += gone;
        ensure!(
            arrived == counters.delivered.packets + gone + there && arrived <= offered,
            "a link was given {arrived} packets of {offered}, delivered {}, dropped {gone} and \
             holds {there}",
            counters.delivered.packets
        );
        Ok(counters.delivered.packets)
    };
    let offered = match ends.shared {
        Some(shared) => check(shared, counted.sent_packets)?,
        None => counted.sent_packets,
    };
    for client in ends.clients {
        check(&client.down, offered)?;
    }
    Ok(dropped)
}

/// Checks that every response is complete, and made of the bytes that were asked for.
fn check_bytes(
    plan: &RunPlan,
    now: Time,
    counted: &Counted,
    ends: &Ends<'_>,
) -> anyhow::Result<()> {
    ensure!(
        counted.completed == plan.requests.len(),
        "{} of {} responses were complete after {:.0} s",
        counted.completed,
        plan.requests.len(),
        now.since(Time::ZERO).as_secs_f64()
    );
    let asked: u64 = plan
        .requests
        .iter()
        .map(|request| request.bytes + RESPONSE_HEAD_BYTES)
        .sum();
    let mut received = 0;
    for connection in ends.connections {
        let sender = &connection.sender;
        let counters = sender.counters();
        received += connection.receiver.received();
        ensure!(
            connection.receiver.received() == connection.ends_at
                && sender.written() == connection.ends_at
                && sender.acked() <= connection.ends_at
                && counters.bytes_sent - counters.bytes_again == connection.ends_at,
            "of {} bytes {} were written, {} sent and {} received",
            connection.ends_at,
            sender.written(),
            counters.bytes_sent - counters.bytes_again,
            connection.receiver.received()
        );
    }
    ensure!(
        received == asked && counted.received == asked,
        "of {asked} bytes {received} were received"
    );
    if !ends.paced.is_empty() {
        let each = ends.paced.iter();
        let granted = each.map(|paced| paced.desk.egress().stats().granted_bytes);
        let granted = granted.sum::<u64>();
        ensure!(granted == asked, "of {asked} bytes {granted} were granted");
    }
    Ok(())
}
