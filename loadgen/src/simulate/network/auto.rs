//! The search for the rate, as the proxy's thread drives it: which sockets it
//! follows, when it asks the kernel about them, and what it is told.

use std::collections::BTreeMap;
use std::time::Duration;

use sprat_scheduler::rate_control::gate::{Gate, GateConfig, GateSample, Sent};
use sprat_scheduler::{RateControl, RateControlConfig, SocketSample, Time, Write};

use super::connection::Connection;
use super::wire::BARE_BYTES;
use crate::workload::Dice;

/// Between two polls while anything is unacknowledged.
const POLL_INTERVAL: Duration = Duration::from_micros(700);

/// The time that a thread oversleeps, least and most in microseconds, with the
/// time that a poll takes.
const LATE_US: (f64, f64) = (60.0, 150.0);

/// A thread that follows nothing looks up this often.
const IDLE_INTERVAL: Duration = Duration::from_secs(1);

/// A thread that is woken by a write is there after this.
const WAKE: Duration = Duration::from_micros(50);

/// Sockets followed at a time.
const SOCKETS_MAX: usize = 1024;

/// A socket that was last written to so long ago is given up.
const GIVE_UP: Duration = Duration::from_secs(5);

/// Sockets asked about in a poll beside those that the gate wants to know of.
const OTHERS_MAX: usize = 32;

/// A socket not written to for so long is asked about in its turn.
const SEEN_TO_AFTER: Duration = Duration::from_millis(50);

/// The search that decides.
#[expect(clippy::large_enum_variant, reason = "there is one of it in a run")]
enum Search {
    Alone(RateControl),
    Gated(Gate),
}

/// The search for the rate.
pub(super) struct AutoRate {
    search: Search,
    /// The position written, and the time of the last write, of each followed connection.
    followed: BTreeMap<u64, (u64, Time)>,
    sleeps_until: Time,
    /// The time before which the thread tells the search nothing.
    rests_until: Time,
    /// The socket from which the turns of the others go on.
    turn: u64,
    wanted: Vec<u64>,
    dice: Dice,
}

impl AutoRate {
    /// Makes a search without a gate, which has heard of nothing yet.
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
            wanted: Vec::new(),
            dice: Dice::new(seed ^ 0xa070),
        }
    }

    /// Returns the rate to begin with, in bits per second.
    pub(super) fn rate_bits_per_s(&self) -> u64 {
        match &self.search {
            Search::Alone(control) => control.control().rate_bits_per_s,
            Search::Gated(gate) => gate.control().rate_bits_per_s,
        }
    }

    /// Packets of a set-up or of an end have left.
    pub(super) fn overhead(&mut self, now: Time, wire_bytes: u64) {
        if let Search::Gated(gate) = &mut self.search
            && now >= self.rests_until
        {
            gate.on_overhead(now, wire_bytes);
        }
    }

    /// Bytes were written to a connection's socket; when the thread looks, if that
    /// wakes it.
    pub(super) fn wrote(
        &mut self,
        now: Time,
        c: u32,
        connection: &mut Connection,
        position: u64,
    ) -> Option<Time> {
        if now < self.rests_until {
            // What leaves meanwhile is no news later.
            connection.outlet.told = wire_bytes(connection);
            return None;
        }
        let socket = u64::from(c);
        let slept = self.followed.is_empty();
        if self.followed.len() >= SOCKETS_MAX && !self.followed.contains_key(&socket) {
            return None;
        }
        let written = connection.sender.written();
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

    /// Asks about the connections that the controller wants to know of: the rate,
    /// and when to ask again.
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
                    let sender = &connections[socket as usize].sender;
                    GateSample {
                        socket,
                        bytes_acked: sender.acked(),
                        min_rtt: sender.min_rtt(),
                        repeated: sender.counters().again as u32,
                    }
                });
                let samples: Vec<GateSample> = samples.collect();
                gate.on_poll(now, &samples, backlogged).rate_bits_per_s
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

    /// Follows nothing for a while, if nothing is late.
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

    /// Lets go of those that have acknowledged everything, and of those that have been
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

/// Returns the bytes that the wire has carried of a connection's segments.
fn wire_bytes(connection: &Connection) -> u64 {
    let counters = connection.sender.counters();
    counters.bytes_sent + counters.segments * BARE_BYTES
}

/// Tells a gate what of a connection has left since it was last told.
fn report(gate: &mut Gate, now: Time, c: u32, connection: &mut Connection) {
    let counters = connection.sender.counters();
    connection.outlet.is_held = connection.sender.unsent() > 0;
    let wire_bytes = wire_bytes(connection);
    let told = std::mem::replace(&mut connection.outlet.told, wire_bytes);
    gate.on_sent(
        now,
        Sent {
            socket: u64::from(c),
            network: u64::from(connection.client),
            first_sent: counters.bytes_sent - counters.bytes_again,
            bytes_acked: connection.sender.acked(),
            repeated: counters.again as u32,
            wire_bytes: wire_bytes - told,
        },
    );
}

/// Adds connections that hold bytes back, and those not written to of late, a few at a
/// time in turns.
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
