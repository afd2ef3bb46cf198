//! A set of the table: 16 entries under a small S3-FIFO (Yang et al., SOSP 2023).
//!
//! A new entry goes on probation, a queue of a tenth of the set. It leaves that for the main
//! queue only if it was asked for again; otherwise the next new entries push it out. So entries
//! that are asked for once never touch the main queue. The main queue gives an entry that was hit
//! another turn. A ghost queue remembers the keys that were pushed out of probation: one that
//! comes back goes straight to the main queue.

use super::entry::{COUNT_MAX, Entry, Packed};
use super::key::Key;

/// The number of entries in a set.
pub(super) const WAYS: usize = 16;

/// The number of entries on probation once the set is full: a tenth, rounded up.
const PROBATION: usize = 2;

/// The number of keys remembered after they were pushed out of probation: about as many as the
/// main queue holds.
const GHOSTS: usize = 12;

/// The number of ghosts, hashes of 16 bits, in a word.
const GHOSTS_PER_WORD: usize = 4;

/// The number of words of a set: one of counts, two for each entry, the ghosts. The counts stand
/// in front, beside the first entries, which saves a wait for a line of the processor's cache.
pub(super) const SET_WORDS: usize = GHOST_WORDS + GHOSTS / GHOSTS_PER_WORD;

const ENTRY_WORDS: usize = 1;
const GHOST_WORDS: usize = ENTRY_WORDS + 2 * WAYS;

/// The counts of a set, which its first word holds.
#[derive(Clone, Copy)]
struct Counts {
    /// The number of entries of the main queue, which come first, the oldest in front.
    main: usize,
    /// The number of entries on probation, which follow those of the main queue.
    probation: usize,
    /// The index of the ghost to be overwritten next.
    next_ghost: usize,
}

/// The effect of an insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inserted {
    /// There was room for the entry.
    Added,
    /// Another entry gave way to it.
    Evicted,
}

/// A set, on the words that hold it. All zero is an empty set, so that fresh memory will do.
pub(super) struct Set<'a>(pub(super) &'a mut [u64]);

impl Set<'_> {
    fn counts(&self) -> Counts {
        let word = self.0[0];
        let byte = |n: u32| usize::from((word >> (8 * n)) as u8);
        Counts {
            main: byte(0),
            probation: byte(1),
            next_ghost: byte(2),
        }
    }

    fn set_counts(&mut self, counts: Counts) {
        self.0[0] = (counts.main | (counts.probation << 8) | (counts.next_ghost << 16)) as u64;
    }

    /// Returns the number of entries in use.
    pub(super) fn len(&self) -> usize {
        let counts = self.counts();
        counts.main + counts.probation
    }

    fn entry(&self, way: usize) -> Packed {
        let at = word_of(way);
        Packed([self.0[at], self.0[at + 1]])
    }

    fn put(&mut self, way: usize, packed: Packed) {
        let at = word_of(way);
        self.0[at..at + 2].copy_from_slice(&packed.0);
    }

    fn find(&self, key: Key) -> Option<usize> {
        (0..self.len()).find(|&way| self.entry(way).key() == key)
    }

    /// Returns the entry of a key, and counts the hit.
    pub(super) fn get(&mut self, key: Key) -> Option<Entry> {
        let way = self.find(key)?;
        let mut entry = self.entry(way).unpack();
        if entry.hits < COUNT_MAX {
            entry.hits += 1;
            self.put(way, entry.pack());
        }
        Some(entry)
    }

    /// Changes the entry of a key, and returns whether there is one.
    pub(super) fn update(&mut self, key: Key, change: impl FnOnce(&mut Entry)) -> bool {
        let Some(way) = self.find(key) else {
            return false;
        };
        let mut entry = self.entry(way).unpack();
        change(&mut entry);
        self.put(way, entry.pack());
        true
    }

    /// Removes the entry of a key, and returns whether there was one.
    pub(super) fn remove(&mut self, key: Key) -> bool {
        let way = self.find(key);
        way.inspect(|&way| self.take(way)).is_some()
    }

    /// Adds an entry whose key is not in the set; a full set evicts another.
    pub(super) fn insert(&mut self, entry: &Entry, now_s: u32, ttl_s: u32) -> Inserted {
        let inserted = match self.len() < WAYS {
            true => Inserted::Added,
            false => {
                self.make_room(now_s, ttl_s);
                Inserted::Evicted
            }
        };
        let to_main = self.take_ghost(entry.key);
        self.push(entry.pack(), to_main);
        inserted
    }

    /// Adds an entry of a snapshot to the queue that it was in. Returns false if there is no
    /// room, or the key is there already.
    pub(super) fn restore(&mut self, packed: Packed, to_main: bool) -> bool {
        let room = self.len() < WAYS && self.find(packed.key()).is_none();
        if room {
            self.push(packed, to_main);
        }
        room
    }

    /// Iterates over the entries, each with whether it is in the main queue.
    pub(super) fn entries(&self) -> impl Iterator<Item = (Packed, bool)> {
        let main = self.counts().main;
        (0..self.len()).map(move |way| (self.entry(way), way < main))
    }

    /// Evicts one entry of a full set.
    fn make_room(&mut self, now_s: u32, ttl_s: u32) {
        let expired = |way: &usize| self.entry(*way).unpack().is_expired(now_s, ttl_s);
        if let Some(way) = (0..WAYS).find(expired) {
            return self.take(way);
        }
        // Each turn of the loop takes a hit from an entry, or moves one to the
        // main queue: there are at most 16 of them with 3 hits each.
        loop {
            let counts = self.counts();
            let from_probation = counts.probation >= PROBATION || counts.main == 0;
            let way = if from_probation { counts.main } else { 0 };
            let mut entry = self.entry(way).unpack();
            self.take(way);
            match (from_probation, entry.hits) {
                (true, 0) => return self.push_ghost(entry.key),
                (false, 0) => return,
                (true, _) => entry.hits = 0,
                (false, _) => entry.hits -= 1,
            }
            self.push(entry.pack(), true);
        }
    }

    /// Takes the entry at a place out of its queue.
    fn take(&mut self, way: usize) {
        let (end, mut counts) = (word_of(self.len()), self.counts());
        self.0.copy_within(word_of(way + 1)..end, word_of(way));
        match way < counts.main {
            true => counts.main -= 1,
            false => counts.probation -= 1,
        }
        self.set_counts(counts);
    }

    /// Puts an entry at the back of a queue. There must be room.
    fn push(&mut self, packed: Packed, to_main: bool) {
        let (len, mut counts) = (self.len(), self.counts());
        let way = match to_main {
            true => counts.main,
            false => len,
        };
        let moved = word_of(way)..word_of(len);
        self.0.copy_within(moved, word_of(way + 1));
        match to_main {
            true => counts.main += 1,
            false => counts.probation += 1,
        }
        self.set_counts(counts);
        self.put(way, packed);
    }

    fn ghost(&self, index: usize) -> u16 {
        let word = self.0[GHOST_WORDS + index / GHOSTS_PER_WORD];
        (word >> (16 * (index % GHOSTS_PER_WORD))) as u16
    }

    fn set_ghost(&mut self, index: usize, ghost: u16) {
        let shift = 16 * (index % GHOSTS_PER_WORD);
        let word = &mut self.0[GHOST_WORDS + index / GHOSTS_PER_WORD];
        *word = (*word & !(0xffff << shift)) | (u64::from(ghost) << shift);
    }

    fn push_ghost(&mut self, key: Key) {
        let mut counts = self.counts();
        self.set_ghost(counts.next_ghost, ghost_of(key));
        counts.next_ghost = (counts.next_ghost + 1) % GHOSTS;
        self.set_counts(counts);
    }

    /// Removes the key's ghost, and returns whether there was one.
    fn take_ghost(&mut self, key: Key) -> bool {
        let found = (0..GHOSTS).find(|&index| self.ghost(index) == ghost_of(key));
        found.inspect(|&index| self.set_ghost(index, 0)).is_some()
    }
}

/// Returns the index of the word at which an entry begins.
const fn word_of(way: usize) -> usize {
    ENTRY_WORDS + 2 * way
}

/// Returns a key's ghost: the 16 lowest bits, on which the choice of the set does not depend. It
/// is 1 where they are 0, which stands for no ghost.
fn ghost_of(key: Key) -> u16 {
    (key.bits() as u16).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL_S: u32 = 1000;

    fn key(n: u64) -> Key {
        Key::from_bits(n + 1)
    }

    fn insert(set: &mut Set<'_>, n: u64, now_s: u32) -> Inserted {
        set.insert(&Entry::new(key(n), n, 0, now_s), now_s, TTL_S)
    }

    fn held(set: &Set<'_>) -> Vec<u64> {
        set.entries().map(|(packed, _)| packed.bytes()).collect()
    }

    #[test]
    fn what_passes_by_once_pushes_out_its_like_alone() {
        let mut words = [0; SET_WORDS];
        let mut set = Set(&mut words);
        for n in 0..16 {
            assert_eq!(insert(&mut set, n, 0), Inserted::Added);
        }
        for n in 0..10 {
            assert!(set.get(key(n)).is_some());
        }
        for n in 100..1000 {
            assert_eq!(insert(&mut set, n, 0), Inserted::Evicted);
        }
        for n in 0..10 {
            assert!(set.get(key(n)).is_some(), "{n}");
        }
        assert_eq!(set.len(), WAYS);
    }

    #[test]
    fn one_that_comes_back_goes_to_the_main_queue() {
        let mut words = [0; SET_WORDS];
        let mut set = Set(&mut words);
        for n in 0..17 {
            insert(&mut set, n, 0);
        }
        // 0 was on probation the longest, and gave way.
        assert_eq!(set.find(key(0)), None);
        insert(&mut set, 0, 0);
        assert_eq!(set.find(key(0)), Some(0));
        assert_eq!(set.counts().main, 1);
        // Its ghost is gone: the next time it would be new again.
        assert!(set.remove(key(0)));
        insert(&mut set, 0, 0);
        assert_eq!(set.counts().main, 0);
    }

    #[test]
    fn the_main_queue_gives_what_was_hit_another_turn() {
        let mut words = [0; SET_WORDS];
        let mut set = Set(&mut words);
        for n in 0..16 {
            assert!(set.restore(Entry::new(key(n), n, 0, 0).pack(), true));
        }
        assert!(!set.restore(Entry::new(key(99), 99, 0, 0).pack(), true));
        set.get(key(0));
        set.get(key(1));
        insert(&mut set, 50, 0);
        insert(&mut set, 51, 0);
        // 2 and 3 gave way; 0 and 1 stand at the back.
        let expected = [4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 50, 51];
        assert_eq!(held(&set), expected);
    }

    #[test]
    fn the_expired_go_first() {
        let mut words = [0; SET_WORDS];
        let mut set = Set(&mut words);
        for n in 0..16 {
            insert(&mut set, n, if n == 7 { 0 } else { 500 });
        }
        insert(&mut set, 50, TTL_S);
        let expected = [0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 14, 15, 50];
        assert_eq!(held(&set), expected);
    }

    #[test]
    fn entries_tell_the_main_queue_from_probation() {
        let mut words = [0; SET_WORDS];
        let mut set = Set(&mut words);
        for (n, to_main) in [(0, true), (1, false), (2, true), (3, false), (4, false)] {
            assert!(set.restore(Entry::new(key(n), n, 0, 0).pack(), to_main));
        }
        let entries: Vec<_> = set
            .entries()
            .map(|(packed, is_main)| (packed.bytes(), is_main))
            .collect();
        let expected = [(0, true), (2, true), (1, false), (3, false), (4, false)];
        assert_eq!(entries, expected);
    }

    #[test]
    fn a_turn_in_the_main_queue_costs_a_hit() {
        let mut words = [0; SET_WORDS];
        let mut set = Set(&mut words);
        for n in 0..16 {
            assert!(set.restore(Entry::new(key(n), n, 0, 0).pack(), true));
            set.get(key(n));
        }
        set.get(key(0));
        // All but 0 lose their only hit, and 0 its second one; 1 is the first without any.
        insert(&mut set, 50, 0);
        let expected = [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0, 50];
        assert_eq!(held(&set), expected);
        let left = set.entries().map(|(packed, _)| packed.unpack());
        assert!(
            left.into_iter()
                .all(|entry| (entry.hits, entry.fields) == (0, 0))
        );
    }
}
