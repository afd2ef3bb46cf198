//! The requests that wait at a station, in order.

use super::config::{Order, StationConfig};
use crate::Time;
use crate::queue::{Rank, RankQueue};
use crate::srq::Terms;

/// The properties of a request that the order may depend on.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitingRequest {
    pub(super) class: usize,
    pub(super) level: u8,
    pub(super) bytes: u64,
    pub(super) arrived: Time,
    /// The deadlines and value of the request, if its class has a deadline.
    pub(super) terms: Option<Terms>,
    pub(super) value: u32,
    pub(super) seq: u64,
    pub(super) expires: Option<Time>,
}

/// The queues of a station: one for the cluster, or one for each endpoint.
#[derive(Clone, Debug)]
pub(super) struct WaitingQueues {
    order: Order,
    max_waiting: usize,
    /// The most requests that wait in all queues together.
    max_pending: usize,
    queues: Vec<Queue>,
    /// The requests whose wait is bounded, by the time at which it ends.
    expiries: RankQueue,
    /// The requests whose places change by themselves, by the time at which
    /// they do.
    changes: RankQueue,
    total: usize,
}

/// One queue, with a part for each class: a class at its limit is passed over.
#[derive(Clone, Debug)]
struct Queue {
    by_class: Vec<RankQueue>,
    /// All requests of the queue, the last in order first.
    worst: RankQueue,
}

impl WaitingQueues {
    pub(super) fn new(queues: usize, config: &StationConfig) -> Self {
        let queue = Queue {
            by_class: vec![RankQueue::default(); config.classes.len()],
            worst: RankQueue::default(),
        };
        Self {
            order: config.order,
            max_waiting: config.max_waiting,
            max_pending: config.max_pending,
            queues: vec![queue; queues],
            expiries: RankQueue::default(),
            changes: RankQueue::default(),
            total: 0,
        }
    }

    /// Adds queues until there are `queues` at least.
    pub(super) fn grow(&mut self, queues: usize) {
        let classes = self.queues.first().map_or(0, |queue| queue.by_class.len());
        while self.queues.len() < queues {
            self.queues.push(Queue {
                by_class: vec![RankQueue::default(); classes],
                worst: RankQueue::default(),
            });
        }
    }

    /// Returns all requests of a queue, in the order in which they go.
    pub(super) fn members(&self, queue: usize) -> Vec<u32> {
        let mut members = self.queues[queue].worst.sorted();
        members.reverse();
        members
    }

    /// Puts a request into a queue, at the place that it has at `now`.
    pub(super) fn insert(&mut self, now: Time, queue: usize, slot: u32, entry: &WaitingRequest) {
        let rank = self.rank(now, entry);
        self.await_change(now, slot, entry);
        let queue = &mut self.queues[queue];
        queue.by_class[entry.class].insert(slot, rank);
        let reversed = Rank {
            level: u8::MAX - rank.level,
            band: 0,
            key: !rank.key,
            seq: !rank.seq,
        };
        queue.worst.insert(slot, reversed);
        if let Some(expires) = entry.expires {
            let rank = Rank {
                level: 0,
                band: 0,
                key: expires.as_nanos(),
                seq: entry.seq,
            };
            self.expiries.insert(slot, rank);
        }
        self.total += 1;
    }

    pub(super) fn remove(&mut self, queue: usize, class: usize, slot: u32) {
        let queue = &mut self.queues[queue];
        if queue.by_class[class].remove(slot) {
            queue.worst.remove(slot);
            self.expiries.remove(slot);
            self.changes.remove(slot);
            self.total -= 1;
        }
    }

    /// Notes when a request's place next changes by itself, if it does.
    fn await_change(&mut self, now: Time, slot: u32, entry: &WaitingRequest) {
        let terms = entry.terms.filter(|_| self.order == Order::Vrd);
        if let Some(at) = terms.and_then(|terms| terms.changes_at(entry.arrived, now)) {
            let rank = Rank {
                level: 0,
                band: 0,
                key: at.as_nanos(),
                seq: entry.seq,
            };
            self.changes.insert(slot, rank);
        }
    }

    /// Returns a request whose place has changed by `now`, if there is one.
    pub(super) fn changed(&self, now: Time) -> Option<u32> {
        let (rank, slot) = self.changes.first()?;
        (Time::from_nanos(rank.key) <= now).then_some(slot)
    }

    fn rank(&self, now: Time, entry: &WaitingRequest) -> Rank {
        let of_terms = |key: &dyn Fn(Terms) -> u64| entry.terms.map_or(u64::MAX, key);
        let key = match self.order {
            Order::Size => entry.bytes,
            Order::Fcfs => 0,
            Order::Edf => of_terms(&|terms| terms.edf(entry.arrived)),
            Order::Vrd => of_terms(&|terms| terms.vrd(entry.arrived, now)),
            Order::Value => u64::MAX - u64::from(entry.value),
        };
        Rank {
            level: entry.level,
            band: 0,
            key,
            seq: entry.seq,
        }
    }

    /// Returns the first request of a queue among those whose class is open.
    pub(super) fn first(&self, queue: usize, open: impl Fn(usize) -> bool) -> Option<u32> {
        let by_class = self.queues[queue].by_class.iter().enumerate();
        let firsts = by_class.filter(|&(class, _)| open(class));
        let firsts = firsts.filter_map(|(_, queue)| queue.first());
        firsts.min().map(|(_, slot)| slot)
    }

    /// Returns the last request of a queue, if it is of a lower level than `level`.
    pub(super) fn worst_below(&self, queue: usize, level: u8) -> Option<u32> {
        let (rank, slot) = self.queues[queue].worst.first()?;
        (u8::MAX - rank.level > level).then_some(slot)
    }

    /// Returns the number of requests of a queue that are of `level` or above.
    pub(super) fn ahead(&self, queue: usize, level: u8) -> usize {
        let by_class = self.queues[queue].by_class.iter();
        let ahead = by_class.filter(|queue| queue.first().is_some_and(|(r, _)| r.level <= level));
        ahead.map(RankQueue::len).sum()
    }

    pub(super) fn is_full(&self, queue: usize) -> bool {
        self.len(queue) >= self.max_waiting || self.total >= self.max_pending
    }

    pub(super) fn len(&self, queue: usize) -> usize {
        self.queues[queue].worst.len()
    }

    /// Returns the length that a queue may have for a class with this threshold.
    pub(super) fn bound_for(&self, threshold: f64) -> usize {
        // Saturates.
        (self.max_waiting as f64 * threshold) as usize
    }

    /// Returns the number of requests that may wait in all queues; at least 1.
    pub(super) fn capacity(&self) -> usize {
        self.max_waiting.saturating_mul(self.queues.len()).max(1)
    }

    /// Returns the number of requests that wait in all queues.
    pub(super) fn total(&self) -> usize {
        self.total
    }

    pub(super) fn next_expiry(&self) -> Option<Time> {
        let (rank, _) = self.expiries.first()?;
        Some(Time::from_nanos(rank.key))
    }

    /// Returns a request whose time in the queue is up by `now`, if there is
    /// one.
    pub(super) fn expired(&self, now: Time) -> Option<u32> {
        let (rank, slot) = self.expiries.first()?;
        (Time::from_nanos(rank.key) <= now).then_some(slot)
    }
}
