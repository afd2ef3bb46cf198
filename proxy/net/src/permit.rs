//! Counts that have a bound, over all threads: of connections, of handshakes, of bytes.
//!
//! The bound comes with each question, for a reload may change it; what is taken beyond it
//! stays taken until it is given back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The amount of something that is taken. A [`Permit`] alone takes of it and gives back.
#[derive(Debug, Default)]
pub struct Count(AtomicUsize);

impl Count {
    /// Takes so much, if no more than `bound` is taken then; false if it would be.
    fn take(&self, amount: usize, bound: usize) -> bool {
        let taken = self.0.fetch_update(Relaxed, Relaxed, |used| {
            used.checked_add(amount).filter(|sum| *sum <= bound)
        });
        taken.is_ok()
    }

    fn add(&self, amount: usize) {
        self.0.fetch_add(amount, Relaxed);
    }

    fn give_back(&self, amount: usize) {
        self.0.fetch_sub(amount, Relaxed);
    }

    /// Returns how much is taken.
    pub fn used(&self) -> usize {
        self.0.load(Relaxed)
    }
}

/// A handle on a count, which stands by itself or is a part of something that is shared.
pub trait Counted {
    /// Returns the count that this is a handle on.
    fn count(&self) -> &Count;
}

impl Counted for Arc<Count> {
    fn count(&self) -> &Count {
        self
    }
}

/// Something of which there is a bounded amount.
#[derive(Clone, Debug, Default)]
pub struct Permits(Arc<Count>);

impl Permits {
    /// Takes so much, if no more than `bound` is taken then.
    pub fn take(&self, amount: usize, bound: usize) -> Option<Permit> {
        Permit::take(self.count(), amount, bound)
    }

    /// Takes so much, whatever is taken.
    pub fn add(&self, amount: usize) -> Permit {
        Permit::add(self.count(), amount)
    }

    /// Returns a permit for nothing so far, which takes more as long as no more than `bound`
    /// is taken.
    pub fn none(&self, bound: usize) -> Permit {
        Permit::none(self.count(), bound)
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
pub struct Permit<C: Counted = Arc<Count>> {
    of: C,
    bound: usize,
    amount: usize,
}

impl<C: Counted> Permit<C> {
    /// Takes so much of a count, if no more than `bound` is taken then.
    pub fn take(of: C, amount: usize, bound: usize) -> Option<Self> {
        let mut permit = Self::none(of, bound);
        permit.extend(amount).then_some(permit)
    }

    /// Takes so much of a count, whatever is taken.
    pub fn add(of: C, amount: usize) -> Self {
        let mut permit = Self::none(of, usize::MAX);
        permit.grow(amount);
        permit
    }

    fn none(of: C, bound: usize) -> Self {
        let amount = 0;
        Self { of, bound, amount }
    }

    /// Takes so much more; false if that would be beyond the bound.
    pub fn extend(&mut self, amount: usize) -> bool {
        let is_taken = self.of.count().take(amount, self.bound);
        if is_taken {
            self.amount += amount;
        }
        is_taken
    }

    /// Takes so much more, whatever is taken.
    pub fn grow(&mut self, amount: usize) {
        self.of.count().add(amount);
        self.amount += amount;
    }

    /// Gives back a part of it.
    pub fn shrink(&mut self, amount: usize) {
        self.of.count().give_back(amount);
        self.amount -= amount;
    }

    /// Takes over what is another's share of the same.
    pub fn join(&mut self, mut other: Self) {
        self.amount += std::mem::take(&mut other.amount);
    }

    /// Returns the handle on what this is taken of.
    pub fn of(&self) -> &C {
        &self.of
    }

    /// Returns how much this has taken.
    pub fn amount(&self) -> usize {
        self.amount
    }

    /// Returns whether less than the bound is taken, over all permits.
    pub fn has_room(&self) -> bool {
        self.of.count().used() < self.bound
    }
}

impl<C: Counted + Clone> Permit<C> {
    /// Parts with so much of it, which stays taken.
    pub fn split(&mut self, amount: usize) -> Self {
        self.amount -= amount;
        Self {
            of: self.of.clone(),
            bound: self.bound,
            amount,
        }
    }
}

impl<C: Counted> Drop for Permit<C> {
    fn drop(&mut self) {
        self.of.count().give_back(self.amount);
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

    #[test]
    fn what_is_added_has_no_bound_and_comes_back_too() {
        struct Shared {
            places: Count,
        }
        struct Places(Arc<Shared>);
        impl Counted for Places {
            fn count(&self) -> &Count {
                &self.0.places
            }
        }
        let shared = Arc::new(Shared {
            places: Count::default(),
        });
        let places = || Places(Arc::clone(&shared));
        let first = Permit::take(places(), 1, 1).unwrap();
        assert!(Permit::take(places(), 1, 1).is_none());
        let mut more = Permit::add(places(), 2);
        more.grow(3);
        assert_eq!((more.amount(), shared.places.used()), (5, 6));
        drop(more);
        assert_eq!(first.of().0.places.used(), 1);
        drop(first);
        assert_eq!(shared.places.used(), 0);
    }
}
