//! A table of sizes by resource, in a fixed number of bytes.

use super::entry::{COUNT_MAX, Entry, Packed};
use super::key::{Key, Resource};
use super::set::{Inserted, SET_WORDS, Set, WAYS};
use crate::Size;

/// The number of bytes of a set.
const SET_BYTES: usize = SET_WORDS * size_of::<u64>();

/// The most parts that a table may be split into; a resource and its variants
/// lie in the same one.
pub const WIDEST_SPLIT: usize = 1 << 16;

/// The trust in a size, 0 to 1, by how often in a row it was seen again.
const CONFIDENCE: [f32; COUNT_MAX as usize + 1] = [0.8, 0.9, 0.95, 0.98];

/// The trust in the size of another variant of the resource, 0 to 1.
const OTHER_VARIANT: f32 = 0.4;

/// A size that a response is believed to have, and the trust in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Known {
    /// The size of the response in bytes.
    pub bytes: u64,
    /// The trust in that size, 0 to 1.
    pub confidence: f32,
}

impl From<Known> for Size {
    fn from(known: Known) -> Self {
        Self::Estimate {
            bytes: known.bytes,
            confidence: known.confidence,
        }
    }
}

/// The counters of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableStats {
    /// The number of entries in use, expired ones included.
    pub entries: usize,
    /// The number of entries added so far.
    pub insertions: u64,
    /// The number of entries that gave way to another.
    pub evictions: u64,
    /// The number of look-ups that found a size too old to be believed.
    pub expired: u64,
}

impl std::ops::AddAssign for TableStats {
    fn add_assign(&mut self, other: Self) {
        self.entries += other.entries;
        self.insertions += other.insertions;
        self.evictions += other.evictions;
        self.expired += other.expired;
    }
}

/// A table of sizes by resource, in sets of 16 entries; the key chooses the set. An entry takes
/// 18 bytes, the set's counts and ghosts included.
///
/// A flood of resources that are asked for once pushes out only others of its kind (see
/// `set.rs`).
#[derive(Clone, Debug)]
pub struct Table {
    words: Vec<u64>,
    /// The number of sets in all parts of a split table.
    all_sets: u64,
    /// The number of sets in the parts before this one.
    sets_before: u64,
    ttl_s: u32,
    stats: TableStats,
}

impl Table {
    /// Creates a table of at most `max_bytes` that believes a size for `ttl_s`
    /// seconds. With less than a set's 288 bytes it never learns.
    pub fn new(max_bytes: usize, ttl_s: u32) -> Self {
        let mut parts = Self::split(max_bytes, 1, ttl_s);
        parts.remove(0)
    }

    /// Creates a table in `parts` of equal size, at most [`WIDEST_SPLIT`] and a power of two. A
    /// resource belongs to the part [`Table::part_of`]; for the rest see [`Table::new`].
    pub fn split(max_bytes: usize, parts: usize, ttl_s: u32) -> Vec<Self> {
        debug_assert!(parts.is_power_of_two() && parts <= WIDEST_SPLIT);
        let sets = sets_of_a_part(max_bytes, parts);
        let part = |index| Self {
            // Zeroed memory: pages that no entry touches cost nothing.
            words: vec![0; sets * SET_WORDS],
            all_sets: (parts * sets) as u64,
            sets_before: (index * sets) as u64,
            ttl_s,
            stats: TableStats::default(),
        };
        (0..parts).map(part).collect()
    }

    /// Returns the index of the part that a key belongs to, of `parts` in all.
    pub fn part_of(key: Key, parts: usize) -> usize {
        key.part(parts as u64) as usize
    }

    /// Returns the bytes that the table occupies.
    pub fn bytes(&self) -> usize {
        self.words.len() * size_of::<u64>()
    }

    /// Returns the number of entries that the table has room for.
    pub fn capacity(&self) -> usize {
        self.words.len() / SET_WORDS * WAYS
    }

    /// Returns the counters of the table.
    pub fn stats(&self) -> TableStats {
        self.stats
    }

    fn set(&mut self, key: Key) -> Option<Set<'_>> {
        let set = key.part(self.all_sets).checked_sub(self.sets_before)?;
        let start = usize::try_from(set).ok()? * SET_WORDS;
        self.words.get_mut(start..start + SET_WORDS).map(Set)
    }

    fn get(&mut self, key: Key, now_s: u32) -> Option<Entry> {
        let ttl_s = self.ttl_s;
        let entry = self.set(key)?.get(key)?;
        if entry.is_expired(now_s, ttl_s) {
            self.stats.expired += 1;
            return None;
        }
        Some(entry)
    }

    /// Returns the size that is believed of a resource: that of the same variant, or else, with
    /// less trust, that of another.
    pub fn look_up(&mut self, resource: &Resource, now_s: u32) -> Option<Known> {
        let entry = self.get(resource.url, now_s)?;
        let known = |entry: Entry| Known {
            bytes: entry.bytes,
            confidence: CONFIDENCE[usize::from(entry.agreements)],
        };
        if entry.fields == 0 {
            return Some(known(entry));
        }
        match self.get(resource.variant(entry.fields), now_s) {
            Some(variant) => Some(known(variant)),
            None => Some(Known {
                bytes: entry.bytes,
                confidence: OTHER_VARIANT,
            }),
        }
    }

    /// Remembers the size of a response whose `Vary` names the fields in `fields` (bit `n` for
    /// the `n`-th).
    pub fn learn(&mut self, resource: &Resource, bytes: u64, fields: u8, now_s: u32) {
        let fields = self.note(resource.url, bytes, fields, now_s);
        if fields != 0 {
            self.note(resource.variant(fields), bytes, 0, now_s);
        }
    }

    /// Notes the size of a key, and returns the fields that tell its variants apart:
    /// those that any response has named, since origins leave `Vary` out of some.
    fn note(&mut self, key: Key, bytes: u64, fields: u8, now_s: u32) -> u8 {
        let (ttl_s, mut all) = (self.ttl_s, fields);
        let Some(mut set) = self.set(key) else {
            return 0;
        };
        let known = set.update(key, |entry| {
            all |= entry.fields;
            entry.learn(bytes, all, now_s);
        });
        if !known {
            let inserted = set.insert(&Entry::new(key, bytes, fields, now_s), now_s, ttl_s);
            self.stats.insertions += 1;
            match inserted {
                Inserted::Added => self.stats.entries += 1,
                Inserted::Evicted => self.stats.evictions += 1,
            }
        }
        all
    }

    /// Removes the entry of a URL, without which its variants are not found either.
    pub fn forget(&mut self, url: Key) {
        if self.set(url).is_some_and(|mut set| set.remove(url)) {
            self.stats.entries -= 1;
        }
    }

    /// Iterates over the entries that are not expired, each with whether it was asked for again
    /// (is in the main queue).
    pub fn entries(&mut self, now_s: u32) -> impl Iterator<Item = (Packed, bool)> {
        let ttl_s = self.ttl_s;
        let sets = self.words.chunks_exact_mut(SET_WORDS).map(Set);
        sets.flat_map(|set| set.entries().collect::<Vec<_>>())
            .filter(move |(packed, _)| !packed.unpack().is_expired(now_s, ttl_s))
    }

    /// Adds an entry of another table whose keys have the same secret. Returns false if the entry
    /// is expired, is there already or finds no room.
    pub fn restore(&mut self, packed: Packed, asked_again: bool, now_s: u32) -> bool {
        let expired = packed.unpack().is_expired(now_s, self.ttl_s);
        let restored = !expired
            && self
                .set(packed.key())
                .is_some_and(|mut set| set.restore(packed, asked_again));
        self.stats.entries += usize::from(restored);
        restored
    }
}

/// Returns the number of sets in each part of a table: no more in all than keys can tell apart,
/// since further ones would stay empty.
fn sets_of_a_part(max_bytes: usize, parts: usize) -> usize {
    (max_bytes / parts / SET_BYTES).min(u32::MAX as usize / parts)
}

#[cfg(test)]
mod tests;
