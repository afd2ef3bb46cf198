//! The table of sizes that earlier responses taught: the core's, in parts with a lock each.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sprat_scheduler::catalogue::{Known, Packed, Resource, Table, TableStats};

/// The number of the table's parts, each behind a lock: so many that two workers seldom want the
/// same one.
const PARTS: usize = 64;

/// The table of learnt sizes, shared by all workers.
#[derive(Debug)]
pub(super) struct Learnt {
    /// The parts of the table; empty if it is switched off.
    parts: Vec<Mutex<Table>>,
}

impl Learnt {
    /// Creates a table of at most `max_bytes`, the locks included. Too few bytes for a single entry
    /// switch it off.
    pub(super) fn new(max_bytes: usize, ttl: Duration) -> Self {
        let room = max_bytes.saturating_sub(PARTS * size_of::<Mutex<Table>>());
        let parts = Table::split(room, PARTS, seconds(ttl));
        let parts = parts.into_iter().filter(|part| part.capacity() > 0);
        Self {
            parts: parts.map(Mutex::new).collect(),
        }
    }

    pub(super) fn is_off(&self) -> bool {
        self.parts.is_empty()
    }

    pub(super) fn parts(&self) -> usize {
        self.parts.len()
    }

    fn part(&self, resource: &Resource) -> Option<MutexGuard<'_, Table>> {
        let part = Table::part_of(resource.url, PARTS);
        self.parts.get(part).map(lock)
    }

    pub(super) fn look_up(&self, resource: &Resource, now_s: u32) -> Option<Known> {
        self.part(resource)?.look_up(resource, now_s)
    }

    pub(super) fn learn(&self, resource: &Resource, bytes: u64, fields: u8, now_s: u32) {
        if let Some(mut part) = self.part(resource) {
            part.learn(resource, bytes, fields, now_s);
        }
    }

    /// Returns the entries of one part, and whether each was asked for again since it was learnt.
    pub(super) fn entries(&self, part: usize, now_s: u32) -> Vec<(Packed, bool)> {
        lock(&self.parts[part]).entries(now_s).collect()
    }

    pub(super) fn restore(&self, packed: Packed, asked_again: bool, now_s: u32) -> bool {
        let part = self.parts.get(Table::part_of(packed.key(), PARTS));
        part.is_some_and(|part| lock(part).restore(packed, asked_again, now_s))
    }

    pub(super) fn stats(&self) -> TableStats {
        let mut all = TableStats::default();
        for part in &self.parts {
            all += lock(part).stats();
        }
        all
    }

    /// Returns the bytes that the table occupies, and the number of entries that it has room for.
    pub(super) fn bytes_and_capacity(&self) -> (usize, usize) {
        let parts = self.parts.iter().map(lock);
        parts.fold((0, 0), |(bytes, capacity), part| {
            let own = part.bytes() + size_of::<Mutex<Table>>();
            (bytes + own, capacity + part.capacity())
        })
    }
}

/// Locks a part of the table. A panic in the middle of a change leaves it sound: its entries are
/// plain numbers.
fn lock(part: &Mutex<Table>) -> MutexGuard<'_, Table> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns a duration in whole seconds, as the tables count time.
pub(super) fn seconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_secs()).unwrap_or(u32::MAX)
}
