//! Bounded counts by key of what each client, or other owner, has open.

use std::collections::BTreeMap;

/// Counts by key, each bounded. A key with nothing open takes no memory.
///
/// A tree rather than a hash table: its cost has a bound also where an attacker
/// picks the keys.
#[derive(Clone, Debug)]
pub struct Tallies<K> {
    open: BTreeMap<K, usize>,
    max_each: usize,
}

impl<K: Ord> Tallies<K> {
    /// Creates tallies of up to `max_each` for each key.
    pub fn new(max_each: usize) -> Self {
        Self {
            open: BTreeMap::new(),
            max_each,
        }
    }

    /// Counts one more of this key, unless the key has as many as it may.
    /// Returns whether it was counted, and so has to be [taken
    /// away](Self::leave) again.
    #[must_use]
    pub fn enter(&mut self, key: K) -> bool {
        if self.max_each == 0 {
            return false;
        }
        let open = self.open.entry(key).or_default();
        let fits = *open < self.max_each;
        *open += usize::from(fits);
        fits
    }

    /// Counts one less of a key.
    pub fn leave(&mut self, key: &K) {
        if let Some(open) = self.open.get_mut(key) {
            *open -= 1;
            if *open == 0 {
                self.open.remove(key);
            }
        }
    }

    /// Returns the number of keys that have something open.
    pub fn keys(&self) -> usize {
        self.open.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_a_bound_of_its_own() {
        let mut tallies = Tallies::new(2);
        let entered = ["a", "a", "a", "b"].map(|key| tallies.enter(key));
        assert_eq!(entered, [true, true, false, true]);
        tallies.leave(&"a");
        assert!(tallies.enter("a"));
        assert!(!tallies.enter("a"));
        assert_eq!(tallies.keys(), 2);
    }

    #[test]
    fn what_is_not_open_takes_nothing() {
        let mut tallies = Tallies::new(1);
        for key in 0..1000 {
            assert!(tallies.enter(key));
            assert!(!tallies.enter(key));
            tallies.leave(&key);
        }
        assert_eq!(tallies.keys(), 0);
        // One that never came.
        tallies.leave(&7);
        assert!(!Tallies::new(0).enter(7));
    }
}
