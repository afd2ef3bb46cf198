//! A server with a process for each connection, and a bounded queue of those that have none.

use std::collections::VecDeque;

/// The bounds of a server that has a process for each connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ListenBounds {
    /// The most connections that are half open, or wait for a process: SYNs beyond are dropped.
    pub(super) backlog: u32,
    /// The most connections that are served at a time. Each has its process until it closes.
    pub(super) processes: u32,
}

/// The connections before and in a server's processes.
#[derive(Clone, Debug)]
pub(super) struct ListenQueue {
    bounds: ListenBounds,
    /// Connections whose SYN was answered, and whose handshake is not over.
    half_open: u32,
    /// Connections whose handshake is over, and that wait for a process, in order.
    waiting: VecDeque<u32>,
    /// Processes that have a connection.
    busy: u32,
    counts: ListenCounts,
}

/// The counts of a listen queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ListenCounts {
    /// SYNs that found the queue full.
    pub(super) syns_dropped: u64,
    /// The most connections that the queue had.
    pub(super) most: u32,
}

impl ListenQueue {
    /// Makes an empty queue.
    pub(super) fn new(bounds: ListenBounds) -> Self {
        Self {
            bounds,
            half_open: 0,
            waiting: VecDeque::new(),
            busy: 0,
            counts: ListenCounts::default(),
        }
    }

    /// Takes a SYN, unless the queue is full. Returns whether the SYN is to be answered.
    pub(super) fn take_syn(&mut self) -> bool {
        let length = self.half_open + self.waiting.len() as u32;
        if length >= self.bounds.backlog {
            self.counts.syns_dropped += 1;
            return false;
        }
        self.half_open += 1;
        self.counts.most = self.counts.most.max(length + 1);
        true
    }

    /// Notes that the handshake of a connection is over. Returns whether a process takes the
    /// connection now; else it waits for one.
    pub(super) fn establish(&mut self, c: u32) -> bool {
        self.half_open -= 1;
        if self.busy < self.bounds.processes {
            self.busy += 1;
            return true;
        }
        self.waiting.push_back(c);
        false
    }

    /// Notes that a connection has closed. Returns the one that its process takes next.
    pub(super) fn close(&mut self) -> Option<u32> {
        let next = self.waiting.pop_front();
        if next.is_none() {
            self.busy -= 1;
        }
        next
    }

    /// Returns what was counted so far.
    pub(super) fn counts(&self) -> ListenCounts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syns_beyond_the_backlog_are_dropped_and_processes_taken_in_order() {
        let mut queue = ListenQueue::new(ListenBounds {
            backlog: 2,
            processes: 1,
        });
        assert!(queue.take_syn() && queue.take_syn());
        assert!(!queue.take_syn(), "two are half open");
        assert!(queue.establish(7));
        assert!(queue.take_syn());
        assert!(!queue.establish(8) && !queue.establish(9));
        assert!(!queue.take_syn(), "two wait for the process");
        assert_eq!(queue.close(), Some(8));
        assert!(queue.take_syn());
        assert_eq!(queue.close(), Some(9));
        assert_eq!(queue.close(), None);
        assert!(queue.establish(10), "the process is free");
        let expected = ListenCounts {
            syns_dropped: 2,
            most: 2,
        };
        assert_eq!(queue.counts(), expected);
    }
}
