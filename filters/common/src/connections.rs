//! The memory of client connections, so that the opening of each is debited once.

use std::collections::BTreeSet;

/// A bounded memory of connections: those of the largest numbers, which are the newest. A host
/// gives no number twice, and larger ones later.
#[derive(Clone, Debug)]
pub struct Connections {
    numbers: BTreeSet<u64>,
    most: usize,
}

impl Connections {
    /// Creates an empty memory of at most so many connections.
    pub fn new(most: usize) -> Self {
        Self {
            numbers: BTreeSet::new(),
            most,
        }
    }

    /// Notes that a request has come on a connection, and returns whether the connection is new. A
    /// connection older than all that are remembered is not new: it was forgotten.
    pub fn is_new(&mut self, connection: u64) -> bool {
        let is_full = self.numbers.len() >= self.most;
        let oldest = self.numbers.first().copied().filter(|_| is_full);
        if oldest.is_some_and(|oldest| connection < oldest) {
            return false;
        }
        if !self.numbers.insert(connection) {
            return false;
        }
        if self.numbers.len() > self.most {
            self.numbers.pop_first();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_new_once_and_the_number_is_bounded() {
        let mut connections = Connections::new(3);
        for number in [5, 1, 7, 9] {
            assert!(connections.is_new(number));
            assert!(!connections.is_new(number));
        }
        assert_eq!(connections.numbers.len(), 3);
        // Not all have a request as soon as they are open.
        assert!(connections.is_new(8));
        assert_eq!(connections.numbers.len(), 3);
    }

    /// Guards against charging a connection that is kept alive while many others come and go.
    #[test]
    fn one_that_is_forgotten_is_not_new_again() {
        let mut connections = Connections::new(3);
        for number in 1..10 {
            assert!(connections.is_new(number));
        }
        assert!(!connections.is_new(1));
        assert!(!connections.is_new(1), "nor later");
        assert!(connections.is_new(10));
    }
}
