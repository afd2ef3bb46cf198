//! The link that workers share without a lock or memory in common. A shared record has the time at
//! which the link is free, and the urgency of the first response that waits in each worker.
//!
//! A worker that changes the record writes it back if no other has in the meantime, or else begins
//! again. Its entries are believed for a moment only, so that a worker that is gone holds no other
//! up.

use std::time::Duration;

use sprat_scheduler::{Pacer, Time, Urgency};

use crate::clock::{is_recent, latest};
use crate::host::Host;
use crate::metrics::Counter;

/// The lateness that the pacer allows for: of a host's tick, or of the callbacks between ticks.
const LATENESS: Duration = Duration::from_millis(4);

/// The time for which a worker believes another worker's entry.
const BELIEVED: Duration = Duration::from_millis(30);

/// The time after which a worker with a waiting response renews its entry.
const REPEATED: Duration = Duration::from_millis(10);

/// The least time between two calls of other workers by one worker.
const RUNG: Duration = Duration::from_millis(1);

/// The most workers in the record; those beyond are ordered by the link alone.
const WORKERS: usize = 64;

/// The most attempts at one write, while other workers' writes come before it.
const ATTEMPTS: usize = 4;

/// The key that the record is shared under.
const KEY: &str = "sprat.link";
const ENTRY_BYTES: usize = 8 + 4 + 1 + 1 + 8 + 8;

/// The link as one worker sees it.
#[derive(Debug)]
pub(super) struct Link {
    clock: Pacer,
    worker: u64,
    /// The number by which other workers have this one called.
    bell: Option<u32>,
    /// The entries of the other workers, as last read.
    peers: Vec<Peer>,
    /// The urgency in this worker's last entry, and the time of it.
    said: Option<(Urgency, Time)>,
    rung: Time,
}

/// A worker's entry in the record: the urgency of its first waiting response, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Peer {
    worker: u64,
    bell: u32,
    urgency: Urgency,
    since: Time,
}

impl Link {
    pub(super) fn new(rate_bits_per_s: u64, worker: u64, bell: Option<u32>) -> Self {
        Self {
            clock: Pacer::new(rate_bits_per_s).with_lateness(LATENESS),
            worker,
            bell,
            peers: Vec::new(),
            said: None,
            rung: Time::ZERO,
        }
    }

    pub(super) fn clock(&self) -> &Pacer {
        &self.clock
    }

    /// Returns whether the link may be free, as far as this worker knows. Debits of others that it
    /// does not know only make that later. If the clock has been set back, this worker knows
    /// nothing.
    pub(super) fn may_be_free(&self, now: Time) -> bool {
        self.clock.next_grant_at() <= now || self.clock.free_at() > latest(&self.clock, now)
    }

    /// Reads the record of all workers, and returns its version.
    pub(super) fn look(&mut self, now: Time, host: &mut dyn Host) -> u32 {
        let (record, version) = host.shared(KEY);
        self.read(&record.unwrap_or_default());
        let free_at = self.clock.free_at().min(latest(&self.clock, now));
        self.clock.resume_at(free_at);
        version
    }

    /// Returns whether another worker has a more urgent response. If so, that worker is called.
    pub(super) fn yields(&mut self, now: Time, own: Urgency, host: &mut dyn Host) -> bool {
        let believed = |peer: &&Peer| is_recent(now, peer.since, BELIEVED);
        let first = self
            .peers
            .iter()
            .filter(believed)
            .min_by_key(|peer| peer.urgency);
        let Some(first) = first.filter(|first| first.urgency < own) else {
            return false;
        };
        if now.since(self.rung) >= RUNG {
            self.rung = now;
            host.ring(first.bell);
        }
        true
    }

    /// Debits the bytes that go, and records the urgency of the next response that waits here.
    pub(super) fn send(
        &mut self,
        now: Time,
        wire_bytes: u64,
        next: Option<Urgency>,
        host: &mut dyn Host,
    ) {
        for _ in 0..ATTEMPTS {
            let version = self.look(now, host);
            let free_at = self.clock.free_at();
            self.clock.debit(now, wire_bytes);
            if host.set_shared(KEY, &self.written(now, next), version) {
                self.said = next.map(|next| (next, now));
                return;
            }
            self.clock.resume_at(free_at);
            host.count(Counter::Conflicts, 1);
        }
        // Not lost: what is written next has it.
        self.clock.debit(now, wire_bytes);
    }

    /// Records the urgency of the first response that waits here, unless the record has it.
    pub(super) fn tell(&mut self, now: Time, first: Option<Urgency>, host: &mut dyn Host) {
        let known = match (first, self.said) {
            (None, None) => true,
            (Some(first), Some((said, at))) => first == said && is_recent(now, at, REPEATED),
            _ => false,
        };
        if !known {
            self.send(now, 0, first, host);
        }
    }

    /// Takes over the entries of a record, up to one that is cut short.
    fn read(&mut self, record: &[u8]) {
        let mut rest = Rest(record);
        self.peers.clear();
        let Some(free_at) = rest.number() else {
            return;
        };
        // Not earlier than what this worker has debited and could not write.
        let free_at = Time::from_nanos(free_at).max(self.clock.free_at());
        self.clock.resume_at(free_at);
        while let Some(peer) = rest.peer() {
            if peer.worker != self.worker && self.peers.len() < WORKERS {
                self.peers.push(peer);
            }
        }
    }

    fn written(&self, now: Time, own: Option<Urgency>) -> Vec<u8> {
        let listed = self.peers.len().min(WORKERS - 1) + 1;
        let mut record = Vec::with_capacity(8 + listed * ENTRY_BYTES);
        record.extend(self.clock.free_at().as_nanos().to_le_bytes());
        let own = own.zip(self.bell).map(|(urgency, bell)| Peer {
            worker: self.worker,
            bell,
            urgency,
            since: now,
        });
        let believed = |peer: &&Peer| is_recent(now, peer.since, BELIEVED);
        let peers = self.peers.iter().filter(believed).copied();
        for peer in own.into_iter().chain(peers).take(WORKERS) {
            record.extend(peer.worker.to_le_bytes());
            record.extend(peer.bell.to_le_bytes());
            record.extend([peer.urgency.level, peer.urgency.band]);
            record.extend(peer.urgency.key.to_le_bytes());
            record.extend(peer.since.as_nanos().to_le_bytes());
        }
        record
    }
}

/// The part of a record that is still to be read.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn number(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn peer(&mut self) -> Option<Peer> {
        let worker = self.number()?;
        let bell = u32::from_le_bytes(self.take()?);
        let [level, band] = self.take()?;
        let key = self.number()?;
        Some(Peer {
            worker,
            bell,
            urgency: Urgency { level, band, key },
            since: Time::from_nanos(self.number()?),
        })
    }
}
