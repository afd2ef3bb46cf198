//! A token bucket for each of many keys, in a fixed number of bytes.

use std::time::Duration;

use crate::Time;

/// The number of entries in which a key can lie.
const WAYS: usize = 8;

/// The bound on the requests of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bucket {
    /// The number of requests that may come at once; at least 1.
    pub max_tokens: u32,
    /// The time in which one more request is allowed; not zero.
    pub interval: Duration,
}

/// The refusal of a request that came too soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exceeded {
    /// The time after which the next request would be allowed; not zero.
    pub retry_after: Duration,
}

/// A key, and when its bucket would be full again.
#[derive(Clone, Copy, Debug, Default)]
struct RateEntry {
    key: u64,
    /// The theoretical arrival time of the generic cell rate algorithm (ITU-T
    /// I.371, annex A); once it has passed, the entry says nothing.
    full_at: Time,
}

/// Token buckets by key, as the generic cell rate algorithm has them: one
/// instant for each.
///
/// A key lies in one of eight entries that its hash points at. Where all eight
/// are in use, the one closest to a full bucket gives way. It is forgiven
/// little, and a flood of other keys does not make the table forget those in
/// debt.
#[derive(Clone, Debug)]
pub struct RateTable {
    bucket: Bucket,
    sets: Box<[[RateEntry; WAYS]]>,
}

impl RateTable {
    /// Creates a table for `max_keys` keys at a time, 16 bytes each.
    pub fn new(bucket: Bucket, max_keys: usize) -> Self {
        let sets = max_keys.div_ceil(WAYS).max(1);
        Self {
            bucket,
            sets: vec![[RateEntry::default(); WAYS]; sets].into(),
        }
    }

    /// Takes a token of a key's bucket, and returns the number of tokens left.
    /// The key must be a hash that clients cannot aim at an entry.
    ///
    /// # Errors
    ///
    /// The bucket is empty. Nothing is taken.
    pub fn take(&mut self, key: u64, now: Time) -> Result<u32, Exceeded> {
        let interval = self.bucket.interval;
        let tokens = self.bucket.max_tokens;
        let room = interval.saturating_mul(tokens);
        let entry = self.entry(key);
        let before = if entry.key == key {
            entry.full_at.max(now)
        } else {
            now
        };
        let full_at = before + interval;
        let used = full_at.since(now);
        if used > room {
            return Err(Exceeded {
                retry_after: used - room,
            });
        }
        *entry = RateEntry { key, full_at };
        let left = (room - used).as_nanos() / interval.as_nanos().max(1);
        Ok(u32::try_from(left).unwrap_or(tokens))
    }

    /// Returns the key's entry, or the one that gives way to it.
    fn entry(&mut self, key: u64) -> &mut RateEntry {
        let sets = self.sets.len() as u128;
        // The product's high half: each set gets an equal part of the keys.
        let index = ((u128::from(key) * sets) >> 64) as usize;
        let set = &mut self.sets[index];
        let found = set.iter().position(|entry| entry.key == key);
        let way = found.unwrap_or_else(|| {
            let soonest = set.iter().enumerate().min_by_key(|(_, e)| e.full_at);
            soonest.map_or(0, |(way, _)| way)
        });
        &mut set[way]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BUCKET: Bucket = Bucket {
        max_tokens: 3,
        interval: Duration::from_millis(100),
    };

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    fn wait(ms: u64) -> Result<u32, Exceeded> {
        Err(Exceeded {
            retry_after: Duration::from_millis(ms),
        })
    }

    #[test]
    fn a_burst_then_the_rate() {
        let mut table = RateTable::new(BUCKET, 8);
        let taken = [0, 0, 0, 0, 99, 100, 100, 150, 300].map(|ms| table.take(7, at(ms)));
        assert_eq!(
            taken,
            [
                Ok(2),
                Ok(1),
                Ok(0),
                wait(100),
                wait(1),
                Ok(0),
                wait(100),
                wait(50),
                Ok(1)
            ]
        );
        // Full again, and not more than full.
        assert_eq!(table.take(7, at(1_000_000)), Ok(2));
    }

    #[test]
    fn keys_do_not_share() {
        let mut table = RateTable::new(BUCKET, 8);
        for key in 1..=8 {
            assert_eq!(table.take(key, at(0)), Ok(2));
        }
        for key in 1..=8 {
            assert_eq!(table.take(key, at(0)), Ok(1));
        }
    }

    #[test]
    fn a_flood_of_keys_does_not_forgive_who_is_in_debt() {
        let mut table = RateTable::new(BUCKET, 8);
        for _ in 0..3 {
            table.take(1, at(0)).unwrap();
        }
        for key in 2..10_000 {
            assert_eq!(table.take(key, at(1)), Ok(2));
        }
        assert_eq!(table.take(1, at(1)), wait(99));
    }

    #[test]
    fn each_set_has_an_equal_part_of_the_keys() {
        // Two sets: a key's highest bit says which.
        let mut table = RateTable::new(BUCKET, 16);
        let keys = || (1..=8).flat_map(|key| [key, key | 1 << 63]);
        for key in keys() {
            assert_eq!(table.take(key, at(0)), Ok(2));
        }
        for key in keys() {
            assert_eq!(table.take(key, at(0)), Ok(1));
        }
        let first = table.sets[0].iter().map(|entry| entry.key);
        assert!(first.into_iter().eq(1..=8));
    }

    proptest! {
        /// Checks that in any span of time one key's requests stay within the
        /// burst and what the rate adds.
        #[test]
        fn no_span_has_more_than_the_bucket_allows(
            gaps in prop::collection::vec(0_u64..250, 1..300),
        ) {
            let mut table = RateTable::new(BUCKET, 64);
            let mut now = 0;
            let mut taken = Vec::new();
            for gap in gaps {
                now += gap;
                match table.take(u64::MAX, at(now)) {
                    Ok(_) => taken.push(now),
                    Err(exceeded) => {
                        let then = now + exceeded.retry_after.as_millis() as u64;
                        let mut later = table.clone();
                        prop_assert_eq!(later.take(u64::MAX, at(then)), Ok(0));
                        prop_assert!(table.clone().take(u64::MAX, at(then - 1)).is_err());
                    }
                }
            }
            for (first, start) in taken.iter().enumerate() {
                for (last, end) in taken.iter().enumerate().skip(first) {
                    let allowed = 3 + (end - start) / 100;
                    prop_assert!(((last - first) as u64) < allowed);
                }
            }
        }
    }
}
