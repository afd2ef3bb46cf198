//! The sizes that earlier responses taught.
//!
//! A table of fixed size, so that no client can make it grow: sets of
//! [`WAYS`] entries, the set chosen by the key's hash, the oldest entry of a
//! full set giving way. An entry holds a hash of the resource, never its name.

use std::hash::Hasher;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use siphasher::sip128::{Hasher128, SipHasher13};
use sprat_scheduler::Size;

/// Entries in a set.
const WAYS: usize = 8;

/// Sets are spread over this many locks.
const SHARDS: usize = 64;

/// How far a size learnt from an earlier response of the same resource is
/// trusted.
const CONFIDENCE: f32 = 0.9;

/// A resource: a keyed 128-bit hash of its cluster, host, path and query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key(u128);

/// 32 bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    key: u128,
    bytes: u64,
    /// Seconds after the catalogue's start when it was learnt, plus one; zero
    /// for an empty entry.
    learnt_s: u32,
}

/// A table of entries, without a clock.
#[derive(Debug)]
struct Table {
    entries: Vec<Entry>,
    used: usize,
}

impl Table {
    fn new(sets: usize) -> Self {
        Self {
            // Zeroed memory: pages that no entry touches cost nothing.
            entries: vec![Entry::default(); sets * WAYS],
            used: 0,
        }
    }

    fn set(&mut self, key: Key) -> &mut [Entry] {
        let sets = self.entries.len() / WAYS;
        // The low bits chose the shard.
        let set = (key.0 >> 64) as u64 % sets as u64;
        let start = set as usize * WAYS;
        &mut self.entries[start..start + WAYS]
    }

    /// The size learnt after `oldest_s`.
    fn get(&mut self, key: Key, oldest_s: u32) -> Option<u64> {
        let set = self.set(key);
        let entry = set.iter().find(|entry| entry.key == key.0)?;
        (entry.learnt_s > oldest_s).then_some(entry.bytes)
    }

    fn put(&mut self, key: Key, bytes: u64, now_s: u32) {
        let set = self.set(key);
        let known = set
            .iter()
            .position(|entry| entry.learnt_s > 0 && entry.key == key.0);
        let slot = known.unwrap_or_else(|| {
            let oldest = set.iter().enumerate().min_by_key(|(_, e)| e.learnt_s);
            oldest.map_or(0, |(slot, _)| slot)
        });
        let fresh = set[slot].learnt_s == 0;
        set[slot] = Entry {
            key: key.0,
            bytes,
            learnt_s: now_s.saturating_add(1),
        };
        self.used += usize::from(fresh);
    }
}

/// The sizes that earlier responses taught, shared by all workers.
#[derive(Debug)]
pub(crate) struct Catalogue {
    /// Empty if the catalogue is switched off.
    shards: Vec<Mutex<Table>>,
    hash_keys: (u64, u64),
    ttl_s: u32,
    hits: AtomicU64,
    misses: AtomicU64,
}

impl Catalogue {
    /// A catalogue of at most `max_bytes` that believes a size for `ttl`.
    /// `hash_keys` keep clients from aiming at one set; they are drawn once.
    pub(crate) fn new(max_bytes: usize, ttl: Duration, hash_keys: (u64, u64)) -> Self {
        let sets = max_bytes / (WAYS * size_of::<Entry>());
        let shards = sets.min(SHARDS);
        Self {
            shards: (0..shards)
                .map(|_| Mutex::new(Table::new(sets / shards)))
                .collect(),
            hash_keys,
            ttl_s: u32::try_from(ttl.as_secs()).unwrap_or(u32::MAX),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// The key of a resource; none if the catalogue is switched off.
    pub(crate) fn key(&self, cluster: usize, host: &[u8], path_and_query: &str) -> Option<Key> {
        if self.shards.is_empty() {
            return None;
        }
        let mut hasher = SipHasher13::new_with_keys(self.hash_keys.0, self.hash_keys.1);
        hasher.write_usize(cluster);
        hasher.write_usize(host.len());
        hasher.write(host);
        hasher.write(path_and_query.as_bytes());
        Some(Key(hasher.finish128().as_u128()))
    }

    fn shard(&self, key: Key) -> &Mutex<Table> {
        &self.shards[key.0 as u64 as usize % self.shards.len()]
    }

    /// What is believed at `now_s` (seconds after a fixed start).
    pub(crate) fn size(&self, key: &Key, now_s: u32) -> Size {
        // Entries hold their time plus one, so that zero means empty; with
        // `now_s + 1 - ttl` as the bound, one learnt `ttl` ago has expired.
        let oldest_s = now_s.saturating_add(1).saturating_sub(self.ttl_s);
        let found = lock(self.shard(*key)).get(*key, oldest_s);
        match found {
            Some(bytes) => {
                self.hits.fetch_add(1, Relaxed);
                Size::Estimate {
                    bytes,
                    confidence: CONFIDENCE,
                }
            }
            None => {
                self.misses.fetch_add(1, Relaxed);
                Size::Unknown
            }
        }
    }

    /// Remembers a size seen at `now_s`.
    pub(crate) fn learn(&self, key: &Key, bytes: u64, now_s: u32) {
        lock(self.shard(*key)).put(*key, bytes, now_s);
    }

    /// Look-ups that found a size, and that did not.
    pub(crate) fn hits_and_misses(&self) -> (u64, u64) {
        (self.hits.load(Relaxed), self.misses.load(Relaxed))
    }

    /// Entries in use (expired ones too, until they are overwritten).
    pub(crate) fn entries(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).used).sum()
    }
}

/// A table is sound after a panic in the middle of a change: its entries are
/// plain numbers.
fn lock(shard: &Mutex<Table>) -> std::sync::MutexGuard<'_, Table> {
    shard
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalogue(max_bytes: usize, ttl_s: u64) -> Catalogue {
        Catalogue::new(max_bytes, Duration::from_secs(ttl_s), (1, 2))
    }

    fn bytes(catalogue: &Catalogue, path: &str, now_s: u32) -> Option<u64> {
        let key = catalogue.key(0, b"host", path).unwrap();
        catalogue.size(&key, now_s).bytes()
    }

    #[test]
    fn learns_forgets_and_counts() {
        let catalogue = catalogue(1 << 20, 60);
        let key = catalogue.key(0, b"host", "/a").unwrap();
        assert_eq!(bytes(&catalogue, "/a", 0), None);
        catalogue.learn(&key, 100, 0);
        assert_eq!(bytes(&catalogue, "/a", 0), Some(100));
        assert_eq!(bytes(&catalogue, "/a", 59), Some(100));
        assert_eq!(bytes(&catalogue, "/a", 60), None);
        catalogue.learn(&key, 200, 60);
        assert_eq!(bytes(&catalogue, "/a", 61), Some(200));
        assert_eq!(catalogue.hits_and_misses(), (3, 2));
        assert_eq!(catalogue.entries(), 1);
    }

    #[test]
    fn cluster_host_and_path_make_the_key() {
        let catalogue = catalogue(1 << 20, 60);
        let keys = [
            catalogue.key(0, b"host", "/a"),
            catalogue.key(1, b"host", "/a"),
            catalogue.key(0, b"hos", "t/a"),
            catalogue.key(0, b"host", "/a?"),
        ];
        for (index, key) in keys.iter().enumerate() {
            assert!(keys[index + 1..].iter().all(|other| other != key));
        }
    }

    #[test]
    fn never_outgrows_its_bytes() {
        let catalogue = catalogue(100_000, 60);
        let capacity = 100_000 / size_of::<Entry>();
        for n in 0..10_000 {
            let key = catalogue.key(0, b"host", &format!("/{n}")).unwrap();
            catalogue.learn(&key, n, (n / 100) as u32);
        }
        assert!(catalogue.entries() <= capacity);
        assert!(catalogue.entries() > capacity / 2);
        let allocated: usize = catalogue
            .shards
            .iter()
            .map(|shard| lock(shard).entries.capacity() * size_of::<Entry>())
            .sum();
        assert!(allocated <= 100_000, "{allocated}");
        // The newest is still there.
        assert_eq!(bytes(&catalogue, "/9999", 100), Some(9999));
    }

    #[test]
    fn the_oldest_of_a_full_set_gives_way() {
        let mut table = Table::new(1);
        for n in 0..WAYS as u32 {
            table.put(Key(u128::from(n)), u64::from(n), n);
        }
        table.put(Key(0), 42, 100);
        table.put(Key(77), 7, 101);
        assert_eq!(table.get(Key(0), 0), Some(42));
        assert_eq!(table.get(Key(1), 0), None);
        assert_eq!(table.get(Key(2), 0), Some(2));
        assert_eq!(table.get(Key(77), 0), Some(7));
        assert_eq!(table.used, WAYS);
    }

    #[test]
    fn zero_bytes_switch_it_off() {
        let catalogue = catalogue(0, 60);
        assert!(catalogue.key(0, b"host", "/a").is_none());
        assert_eq!(catalogue.entries(), 0);
    }
}
