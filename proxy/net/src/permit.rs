//! Counts that have a bound, over all threads: of connections, of handshakes, of bytes.
//!
//! The bound comes with each question, for a reload may change it; what is taken beyond it
//! stays taken until it is given back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The amount of something that is taken. What has no handle of its own is given back by hand.
#[derive(Debug, Default)]
pub struct Count(AtomicUsize);

impl Count {
    /// Takes so much, if no more than `bound` is taken then; false if it would be.
    pub fn take(&self, amount: usize, bound: usize) -> bool {
        let taken = self.0.fetch_update(Relaxed, Relaxed, |used| {
            used.checked_add(amount).filter(|sum| *sum <= bound)
        });
        taken.is_ok()
    }

    /// Takes so much, whatever is taken.
    pub fn add(&self, amount: usize) {
        self.0.fetch_add(amount, Relaxed);
    }

    /// Gives back what was taken.
    pub fn give_back(&self, amount: usize) {
        self.0.fetch_sub(amount, Relaxed);
    }

    /// Returns how much is taken.
    pub fn used(&self) -> usize {
        self.0.load(Relaxed)
    }
}

/// Something of which there is a bounded amount.
#[derive(Clone, Debug, Default)]
pub struct Permits(Arc<Count>);

impl Permits {
    /// Takes so much, if no more than `bound` is taken then.
    pub fn take(&self, amount: usize, bound: usize) -> Option<Permit> {
        let mut permit = self.none(bound);
        permit.extend(amount).then_some(permit)
    }

    /// Returns a permit for nothing so far, which takes more as long as no more than `bound`
    /// is taken.
    pub fn none(&self, bound: usize) -> Permit {
        Permit {
            of: Arc::clone(&self.0),
            bound,
            amount: 0,
        }
    }

    /// Returns how much is taken.
    pub fn used(&self) -> usize {
        self.0.used()
    }

    /// Returns the count itself.
    pub fn count(&self) -> Arc<Count> {
        Arc::clone(&self.0)
    }
}

/// An amount that is taken, until this is dropped.
#[derive(Debug)]
pub struct Permit {
    of: Arc<Count>,
    bound: usize,
    amount: usize,
}

impl Permit {
    /// Takes so much more; false if that would be beyond the bound.
    pub fn extend(&mut self, amount: usize) -> bool {
        let is_taken = self.of.take(amount, self.bound);
        if is_taken {
            self.amount += amount;
        }
        is_taken
    }

    /// Gives back a part of it.
    pub fn shrink(&mut self, amount: usize) {
        self.of.give_back(amount);
        self.amount -= amount;
    }

    /// Parts with so much of it, which stays taken.
    pub fn split(&mut self, amount: usize) -> Self {
        self.amount -= amount;
        Self {
            of: Arc::clone(&self.of),
            bound: self.bound,
            amount,
        }
    }

    /// Takes over what is another's share of the same.
    pub fn join(&mut self, mut other: Self) {
        self.amount += std::mem::take(&mut other.amount);
    }

    /// Returns how much this has taken.
    pub fn amount(&self) -> usize {
        self.amount
    }

    /// Returns whether less than the bound is taken, over all permits.
    pub fn has_room(&self) -> bool {
        self.of.used() < self.bound
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.of.give_back(self.amount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_comes_back_when_it_is_dropped() {
        let permits = Permits::default();
        let first = permits.take(2, 3).unwrap();
        assert!(permits.take(2, 3).is_none());
        let second = permits.take(1, 3).unwrap();
        assert!(permits.take(1, 3).is_none());
        assert!(permits.take(usize::MAX, usize::MAX).is_none());
        drop(first);
        assert_eq!(permits.used(), 1);
        drop(second);
        assert_eq!(permits.used(), 0);
    }

    #[test]
    fn parts_of_a_permit_come_back_apart() {
        let permits = Permits::default();
        let mut whole = permits.none(10);
        assert!(whole.has_room() && whole.extend(10) && !whole.extend(1));
        assert!(!whole.has_room());
        let part = whole.split(4);
        whole.shrink(1);
        assert_eq!(permits.used(), 9);
        drop(whole);
        assert_eq!(permits.used(), 4);
        let mut other = permits.none(10);
        other.join(part);
        assert_eq!(permits.used(), 4);
        drop(other);
        assert_eq!(permits.used(), 0);
    }
}
