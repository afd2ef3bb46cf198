//! The search for the rate, as the proxy's thread drives it: which sockets it
//! follows, when it asks the kernel about them, and what it is told.

use std::collections::BTreeMap;
use std::time::Duration;

use sprat_scheduler::{RateControl, RateControlConfig, SocketSample, Time, Write};

use super::connection::Connection;
use crate::workload::Dice;

/// Between two polls while anything is unacknowledged.
const POLL_INTERVAL: Duration = Duration::from_micros(700);

/// What a thread sleeps longer than it asked for, in microseconds, with the time
/// that a poll takes.
const LATE_US: (f64, f64) = (60.0, 150.0);

/// A thread that follows nothing looks up this often.
const IDLE_INTERVAL: Duration = Duration::from_secs(1);

/// A thread that is woken by a write is there after this.
const WAKE: Duration = Duration::from_micros(50);

/// Sockets followed at a time.
const SOCKETS_MAX: usize = 1024;

/// A socket that was last written to so long ago is given up.
const GIVE_UP: Duration = Duration::from_secs(5);

/// The search for the rate.
pub(super) struct AutoRate {
    control: RateControl,
    /// By connection: what was written, and when.
    followed: BTreeMap<u64, (u64, Time)>,
    sleeps_until: Time,
    wanted: Vec<u64>,
    samples: Vec<SocketSample>,
    dice: Dice,
}

impl AutoRate {
    /// A search that has heard of nothing.
    pub(super) fn new(seed: u64) -> Self {
        Self {
            control: RateControl::new(RateControlConfig::default()),
            followed: BTreeMap::new(),
            sleeps_until: Time::ZERO,
            wanted: Vec::new(),
            samples: Vec::new(),
            dice: Dice::new(seed ^ 0xa070),
        }
    }

    /// Bytes were written to a connection's socket; when the thread looks, if that
    /// wakes it.
    pub(super) fn wrote(
        &mut self,
        now: Time,
        c: u32,
        connection: &Connection,
        position: u64,
    ) -> Option<Time> {
        let socket = u64::from(c);
        let slept = self.followed.is_empty();
        if self.followed.len() >= SOCKETS_MAX && !self.followed.contains_key(&socket) {
            return None;
        }
        let written = connection.sender.written();
        self.followed.insert(socket, (written, now));
        self.control.on_write(
            now,
            Write {
                socket,
                network: u64::from(connection.client),
                written,
                position,
            },
        );
        slept.then(|| self.sleeps_until.max(now + WAKE))
    }

    /// Asks about the connections that the controller wants to know of: the rate,
    /// and when to ask again.
    pub(super) fn poll(
        &mut self,
        now: Time,
        connections: &[Connection],
        backlogged: bool,
    ) -> (u64, Time) {
        self.control.wanted(now, &mut self.wanted);
        self.samples.clear();
        for &socket in &self.wanted {
            if self.followed.contains_key(&socket) {
                let sender = &connections[socket as usize].sender;
                self.samples.push(SocketSample {
                    socket,
                    bytes_acked: sender.acked(),
                    min_rtt: sender.min_rtt(),
                });
            }
        }
        let control = self.control.on_poll(now, &self.samples, backlogged);
        for sample in &self.samples {
            let written = self.followed.get(&sample.socket);
            if written.is_some_and(|&(written, _)| sample.bytes_acked >= written) {
                self.followed.remove(&sample.socket);
            }
        }
        let control_of_lost = &mut self.control;
        self.followed.retain(|&socket, &mut (_, at)| {
            let keep = now.since(at) < GIVE_UP;
            if !keep {
                control_of_lost.on_close(socket);
            }
            keep
        });
        let (from, to) = LATE_US;
        let late_us = from + (to - from) * self.dice.uniform();
        self.sleeps_until = now + POLL_INTERVAL + Duration::from_nanos((late_us * 1e3) as u64);
        let next = if self.followed.is_empty() {
            self.sleeps_until + IDLE_INTERVAL
        } else {
            self.sleeps_until
        };
        (control.rate_bits_per_s, next)
    }
}
