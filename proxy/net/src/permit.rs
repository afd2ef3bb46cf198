//! Counts with a bound, over all threads: of connections, of handshakes, of bytes.
//!
//! The bound comes with each call, for a reload may change it. What was taken beyond a lower
//! bound stays taken until it is given back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The amount of something that is taken. Only a [`Permit`] takes more or gives back.
#[derive(Debug, Default)]
pub struct Count(AtomicUsize);

impl Count {
    /// Takes an amount, if no more than `bound` is taken then; returns whether it did.
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

    /// Returns the amount that is taken.
    pub fn used(&self) -> usize {
        self.0.load(Relaxed)
    }
}

/// A handle on a count, which stands by itself or is a part of something shared.
pub trait Counted {
    /// Returns the count that this is a handle on.
    fn count(&self) -> &Count;
}

impl Counted for Arc<Count> {
    fn count(&self) -> &Count {
        self
    }
}

/// Something of which a bounded amount can be taken.
#[derive(Clone, Debug, Default)]
pub struct Permits(Arc<Count>);

impl Permits {
    /// Takes an amount, if no more than `bound` is taken then.
    pub fn take(&self, amount: usize, bound: usize) -> Option<Permit> {
        Permit::take(self.count(), amount, bound)
    }

    /// Takes an amount, without a bound.
    pub fn add(&self, amount: usize) -> Permit {
        Permit::add(self.count(), amount)
    }

    /// Returns a permit that holds nothing so far. It can take more as long as no more than
    /// `bound` is taken.
    pub fn none(&self, bound: usize) -> Permit {
        Permit::none(self.count(), bound)
    }

    /// Returns the amount that is taken.
    pub fn used(&self) -> usize {
        self.0.used()
    }

    /// Returns a handle on the count.
    pub fn count(&self) -> Arc<Count> {
        Arc::clone(&self.0)
    }
}

/// An amount that stays taken until this is dropped.
#[derive(Debug)]
pub struct Permit<C: Counted = Arc<Count>> {
    of: C,
    bound: usize,
    amount: usize,
}

impl<C: Counted> Permit<C> {
    /// Takes an amount of a count, if no more than `bound` is taken then.
    pub fn take(of: C, amount: usize, bound: usize) -> Option<Self> {
        let mut permit = Self::none(of, bound);
        permit.extend(amount).then_some(permit)
    }

    /// Takes an amount of a count, without a bound.
    pub fn add(of: C, amount: usize) -> Self {
        let mut permit = Self::none(of, usize::MAX);
        permit.grow(amount);
        permit
    }

    fn none(of: C, bound: usize) -> Self {
        let amount = 0;
        Self { of, bound, amount }
    }

    /// Takes more; returns false, and takes nothing, if that would go beyond the bound.
    pub fn extend(&mut self, amount: usize) -> bool {
        let is_taken = self.of.count().take(amount, self.bound);
        if is_taken {
            self.amount += amount;
        }
        is_taken
    }

    /// Takes more, without a bound.
    pub fn grow(&mut self, amount: usize) {
        self.of.count().add(amount);
        self.amount += amount;
    }

    /// Gives back a part of the amount.
    pub fn shrink(&mut self, amount: usize) {
        self.of.count().give_back(amount);
        self.amount -= amount;
    }

    /// Takes over the amount of another permit of the same count.
    pub fn join(&mut self, mut other: Self) {
        self.amount += std::mem::take(&mut other.amount);
    }

    /// Returns the handle on the count that this permit is taken from.
    pub fn of(&self) -> &C {
        &self.of
    }

    /// Returns the amount that this permit holds.
    pub fn amount(&self) -> usize {
        self.amount
    }

    /// Returns whether less than the bound is taken, over all permits.
    pub fn has_room(&self) -> bool {
        self.of.count().used() < self.bound
    }
}

impl<C: Counted + Clone> Permit<C> {
    /// Splits off a permit for a part of the amount, which stays taken.
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
