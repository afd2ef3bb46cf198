//! The search for the rate, as the proxy's thread drives it: the sockets that it follows, the times
//! at which it asks the kernel about them, and what it tells the search.

use std::collections::BTreeMap;
use std::time::Duration;

use sprat_scheduler::rate_control::gate::{
    Gate, GateConfig, GateSample, Gone, HostSample, Sent, Told,
};
use sprat_scheduler::{RateControl, RateControlConfig, SocketSample, Time, WireCost, Write};

use super::connection::Connection;
use super::wire::BARE_BYTES;
use crate::workload::Dice;

/// The time between two polls while a followed socket has bytes to be acknowledged.
const POLL_INTERVAL: Duration = Duration::from_micros(700);

/// The time that a thread oversleeps, least and most in microseconds, with the
/// time that a poll takes.
const LATE_US: (f64, f64) = (60.0, 150.0);

/// The time between two polls of a thread that follows no socket.
const IDLE_INTERVAL: Duration = Duration::from_secs(1);

/// The time from a write to the poll of the thread that it wakes.
const WAKE: Duration = Duration::from_micros(50);

/// The most sockets followed at a time.
const SOCKETS_MAX: usize = 1024;

/// The time since a socket's last write after which it is no longer followed.
const GIVE_UP: Duration = Duration::from_secs(5);

/// The most sockets that a poll asks about beside those that the gate wants to know of.
const OTHERS_MAX: usize = 32;

/// The time since a socket's last write after which it is asked about in its turn.
const SEEN_TO_AFTER: Duration = Duration::from_millis(50);

/// The kernel's memory for a packet of one full segment, in bytes.
const PACKET_MEMORY_BYTES: u64 = 2728;

/// The search that sets the rate, with or without a gate.
#[expect(clippy::large_enum_variant, reason = "there is one of it in a run")]
enum Search {
    Alone(RateControl),
    Gated(Gate),
}

/// The search for the rate, with the proxy's thread that drives it.
pub(super) struct AutoRate {
    search: Search,
    /// The position written, and the time of the last write, of each followed connection.
    followed: BTreeMap<u64, (u64, Time)>,
    sleeps_until: Time,
    /// The time before which the thread tells the search nothing.
    rests_until: Time,
    /// The socket with which the turns of the other sockets go on.
    turn: u64,
    /// The time at which a gate first found a link.
    found_at: Option<Time>,
    wanted: Vec<u64>,
    dice: Dice,
}

impl AutoRate {
    /// Makes a search without a gate, which has been told of no write yet.
    pub(super) fn alone(seed: u64) -> Self {
        let control = RateControl::new(RateControlConfig::default());
        Self::new(Search::Alone(control), seed)
    }

    /// Makes a search that acts only while a gate lets it.
    pub(super) fn gated(seed: u64, config: &GateConfig) -> Self {
        Self::new(Search::Gated(Gate::new(config)), seed)
    }

    fn new(search: Search, seed: u64) -> Self {
        Self {
            search,
            followed: BTreeMap::new(),
            sleeps_until: Time::ZERO,
            rests_until: Time::ZERO,
            turn: 0,
            found_at: None,
            wanted: Vec::new(),
            dice: Dice::new(seed ^ 0xa070),
        }
    }

    /// Returns the search's present rate, in bits per second.
    pub(super) fn rate_bits_per_s(&self) -> u64 {
        match &self.search {
            Search::Alone(control) => control.control().rate_bits_per_s,
            Search::Gated(gate) => gate.control().rate_bits_per_s,
        }
    }

    /// Returns when a gate first found a link, if it has.
    pub(super) fn found_at(&self) -> Option<Time> {
        self.found_at
    }

    /// Returns the rate of the link that a gate believes in, in bits per second, if it does.
    pub(super) fn found_bits_per_s(&self) -> Option<u64> {
        match &self.search {
            Search::Alone(_) => None,
            Search::Gated(gate) => gate.found().map(|found| found.rate_bits_per_s),
        }
    }

    /// Notes that packets of a connection's set-up or end have left.
    pub(super) fn overhead(&mut self, now: Time, wire_bytes: u64) {
        if let Search::Gated(gate) = &mut self.search
            && now >= self.rests_until
        {
            gate.on_overhead(now, wire_bytes);
        }
    }

    /// Notes that `bytes` were written to a connection's socket. Returns the time of the thread's
    /// next poll, if the write wakes it.
    pub(super) fn wrote(
        &mut self,
        now: Time,
        c: u32,
        connection: &mut Connection,
        bytes: u64,
        position: u64,
    ) -> Option<Time> {
        if now < self.rests_until {
            return None;
        }
        let socket = u64::from(c);
        let slept = self.followed.is_empty();
        let written = connection.sender.written();
        if !self.followed.contains_key(&socket) {
            let cost = WireCost::ETHERNET_IPV4;
            let passed_over = &mut connection.outlet.passed_over;
            if self.followed.len() >= SOCKETS_MAX {
                *passed_over = written;
                self.overhead(now, cost.segment_bytes(bytes));
                return None;
            }
            let passed_over = *passed_over;
            connection.outlet.told =
                Told::begin(cost, gone(connection), written, bytes, passed_over);
        }
        self.followed.insert(socket, (written, now));
        let write = Write {
            socket,
            network: u64::from(connection.client),
            written,
            position,
        };
        match &mut self.search {
            Search::Alone(control) => control.on_write(now, write),
            Search::Gated(gate) => {
                gate.on_write(now, write);
                report(gate, now, c, connection);
            }
        }
        slept.then(|| self.sleeps_until.max(now + WAKE))
    }

    /// Polls the connections that the search wants to know of. Returns the rate in bits per second,
    /// and the time of the next poll.
    pub(super) fn poll(
        &mut self,
        now: Time,
        connections: &mut [Connection],
        backlogged: bool,
    ) -> (u64, Time) {
        match &self.search {
            Search::Alone(control) => control.wanted(now, &mut self.wanted),
            Search::Gated(gate) => gate.wanted(now, &mut self.wanted),
        }
        let followed = &self.followed;
        self.wanted.retain(|socket| followed.contains_key(socket));
        let rate = match &mut self.search {
            Search::Alone(control) => {
                let samples = self.wanted.iter().map(|&socket| {
                    let sender = &connections[socket as usize].sender;
                    SocketSample {
                        socket,
                        bytes_acked: sender.acked(),
                        min_rtt: sender.min_rtt(),
                    }
                });
                let samples: Vec<SocketSample> = samples.collect();
                control.on_poll(now, &samples, backlogged).rate_bits_per_s
            }
            Search::Gated(gate) => {
                self.turn = add_others(now, connections, followed, self.turn, &mut self.wanted);
                for &socket in &self.wanted {
                    report(gate, now, socket as u32, &mut connections[socket as usize]);
                }
                let samples = self.wanted.iter().map(|&socket| {
                    let connection = &connections[socket as usize];
                    let sender = &connection.sender;
                    GateSample {
                        socket,
                        bytes_acked: sender.acked(),
                        min_rtt: sender.min_rtt(),
                        repeated: sender.counters().again as u32,
                        host: HostSample {
                            waiting_memory_bytes: u64::from(connection.queued)
                                * PACKET_MEMORY_BYTES,
                            unsent_bytes: sender.unsent(),
                            pacing_bytes_per_s: sender.pacing_bytes_per_s(),
                            sacked_bytes: sender.sacked_bytes(),
                        },
                    }
                });
                let samples: Vec<GateSample> = samples.collect();
                let control = gate.on_poll(now, &samples, backlogged);
                if gate.is_engaged() {
                    self.found_at.get_or_insert(now);
                }
                control.rate_bits_per_s
            }
        };
        self.let_go(now, connections);
        let (from, to) = LATE_US;
        let late_us = from + (to - from) * self.dice.uniform();
        let sleep = self.rest(now).unwrap_or(POLL_INTERVAL);
        self.sleeps_until = now + sleep + Duration::from_nanos((late_us * 1e3) as u64);
        let next = if self.followed.is_empty() {
            self.sleeps_until + IDLE_INTERVAL
        } else {
            self.sleeps_until
        };
        (rate, next)
    }

    /// Stops following sockets for a while, if the gate lets it, and returns for how long.
    fn rest(&mut self, now: Time) -> Option<Duration> {
        let Search::Gated(gate) = &mut self.search else {
            return None;
        };
        let rest = gate.rest(now)?;
        self.rests_until = now + rest;
        for socket in std::mem::take(&mut self.followed).into_keys() {
            gate.on_close(socket);
        }
        Some(rest)
    }

    /// Stops following the sockets that have acknowledged everything, and those that have been
    /// silent for long.
    fn let_go(&mut self, now: Time, connections: &[Connection]) {
        for socket in &self.wanted {
            let acked = connections[*socket as usize].sender.acked();
            let written = self.followed.get(socket);
            if written.is_some_and(|&(written, _)| acked >= written) {
                self.followed.remove(socket);
            }
        }
        let search = &mut self.search;
        self.followed.retain(|&socket, &mut (_, at)| {
            let keep = now.since(at) < GIVE_UP;
            if !keep {
                match search {
                    Search::Alone(control) => control.on_close(socket),
                    Search::Gated(gate) => gate.on_close(socket),
                }
            }
            keep
        });
    }
}

/// Returns what has left a connection's socket.
fn gone(connection: &Connection) -> Gone {
    let counters = connection.sender.counters();
    Gone {
        first_sent: counters.bytes_sent - counters.bytes_again,
        wire_bytes: counters.bytes_sent + counters.segments * BARE_BYTES,
    }
}

/// Tells a gate which bytes of a connection have left since it was last told.
fn report(gate: &mut Gate, now: Time, c: u32, connection: &mut Connection) {
    connection.outlet.is_held = connection.sender.unsent() > 0;
    let gone = gone(connection);
    let Some(news) = connection.outlet.told.report(gone) else {
        return;
    };
    gate.on_sent(
        now,
        Sent {
            socket: u64::from(c),
            network: u64::from(connection.client),
            first_sent: gone.first_sent,
            bytes_acked: connection.sender.acked(),
            repeated: connection.sender.counters().again as u32,
            news,
        },
    );
}

/// Adds to `asked` the connections that hold bytes back or were not written to of late, a few at a
/// time in turns. Returns the socket with which the turns go on.
fn add_others(
    now: Time,
    connections: &[Connection],
    followed: &BTreeMap<u64, (u64, Time)>,
    turn: u64,
    asked: &mut Vec<u64>,
) -> u64 {
    let due = |socket: u64, written_at: Time| {
        connections[socket as usize].outlet.is_held || now.since(written_at) >= SEEN_TO_AFTER
    };
    let others = followed
        .range(turn..)
        .map(|(&socket, &(_, at))| (socket, at));
    let others = others.filter(|&(socket, at)| due(socket, at));
    let others: Vec<u64> = others.map(|(socket, _)| socket).take(OTHERS_MAX).collect();
    for &socket in &others {
        if !asked.contains(&socket) {
            asked.push(socket);
        }
    }
    match others.last() {
        Some(last) if others.len() == OTHERS_MAX => last + 1,
        _ => 0,
    }
}
