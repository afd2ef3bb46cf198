//! Places for a bounded number of things on one thread.

use std::cell::Cell;
use std::rc::Rc;

/// A number of places, some of which are taken.
#[derive(Clone, Debug, Default)]
pub struct Places(Rc<Cell<usize>>);

/// A place that stays taken until this is dropped.
#[derive(Debug)]
pub struct Place(Rc<Cell<usize>>);

impl Places {
    /// Takes one of at most `bound` places; none if all are taken.
    pub fn take(&self, bound: usize) -> Option<Place> {
        let taken = self.0.get();
        (taken < bound).then(|| {
            self.0.set(taken + 1);
            Place(Rc::clone(&self.0))
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_comes_free_when_it_is_dropped() {
        let places = Places::default();
        let first = places.take(2).unwrap();
        let _second = places.take(2).unwrap();
        assert!(places.take(2).is_none());
        drop(first);
        assert!(places.take(2).is_some());
    }
}
