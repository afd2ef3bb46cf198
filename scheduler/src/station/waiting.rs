//! The requests that wait at a station, in order.

use super::config::{Order, StationConfig};
use super::srq_part::SrqPart;
use crate::Time;
use crate::classes::MAX_LEVELS;
use crate::queue::{Rank, RankQueue};
use crate::srq::{Credits, MAX_QUEUES, Terms};

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
    /// The place that SRQ gives the request, if that orders.
    pub(super) placing: Option<Placing>,
}

/// The place that SRQ gives a waiting request among those of its level.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placing {
    /// The queue of SRQ that the request will start in.
    pub(super) band: u8,
    pub(super) key: u64,
    /// The time at which the key changes by itself, if it does.
    pub(super) changes_at: Option<Time>,
}

/// The queues of a station: one for the cluster, or one for each endpoint.
#[derive(Clone, Debug)]
pub(super) struct WaitingQueues {
    order: Order,
    max_waiting: usize,
    /// The most requests that wait in all queues together.
    max_pending: usize,
    queues: Vec<Queue>,
    /// A queue without requests, as each begins.
    empty: Queue,
    /// The requests whose wait is bounded, by the time at which it ends.
    expiries: RankQueue,
    /// The requests whose places change by themselves, by the time at which
    /// they do.
    changes: RankQueue,
    total: usize,
}

/// One queue, with parts for each class: a class at its limit is passed over.
#[derive(Clone, Debug)]
struct Queue {
    /// The parts of the classes one after the other, each with as many as there are bands.
    parts: Vec<RankQueue>,
    /// All requests of the queue, the last in order first.
    worst: RankQueue,
    /// The credits of SRQ's first two queues in each level, if waiting requests may be in both.
    credits: Option<SrqPart<Vec<Credits>>>,
}

/// The first request of a part, and its rank.
type First = (Rank, u32);

impl Queue {
    fn new(config: &StationConfig) -> Self {
        let credits = match &config.order {
            Order::Srq(srq) if srq.large_bytes.is_some() => SrqPart::new(|| {
                let share = srq.queues.first_share_percent;
                Some(vec![Credits::new(share); MAX_LEVELS])
            }),
            _ => None,
        };
        let mut own = Self {
            parts: Vec::new(),
            worst: RankQueue::default(),
            credits,
        };
        let parts = config.classes.len() * own.bands();
        own.parts.resize(parts, RankQueue::default());
        own
    }

    /// Returns the number of SRQ's queues that waiting requests may be in.
    fn bands(&self) -> usize {
        if self.credits.is_some() { 2 } else { 1 }
    }

    /// Returns the parts of the classes that are open, each with its band.
    fn open(&self, open: impl Fn(usize) -> bool) -> impl Iterator<Item = (usize, &RankQueue)> {
        let parts = self.parts.iter().enumerate();
        let bands = self.bands();
        let is_open = move |(index, _): &(usize, &RankQueue)| open(index / bands);
        parts
            .filter(is_open)
            .map(move |(index, part)| (index % bands, part))
    }

    /// Returns the numbers of requests of a level in each of SRQ's queues.
    fn members(&self, level: u8, open: impl Fn(usize) -> bool) -> [usize; MAX_QUEUES] {
        let mut members = [0; MAX_QUEUES];
        for (band, part) in self.open(open) {
            if part.first().is_some_and(|(rank, _)| rank.level == level) {
                members[band] += part.len();
            }
        }
        members
    }

    fn credits(&self, level: u8) -> Option<&Credits> {
        self.credits.as_ref()?.get(usize::from(level))
    }

    /// Returns the first request among those whose class is open.
    fn first(&self, open: impl Fn(usize) -> bool) -> Option<First> {
        let firsts = || self.open(&open).filter_map(|(_, part)| part.first());
        let least = firsts().min()?;
        let level = least.0.level;
        let Some(credits) = self.credits(level) else {
            return Some(least);
        };
        let band = credits.pick(&self.members(level, &open))?;
        let is_of_band = |(rank, _): &First| rank.level == level && usize::from(rank.band) == band;
        firsts().filter(is_of_band).min()
    }

    /// Charges the queue of SRQ that a request of this rank is in with its start.
    fn charge(&mut self, rank: &Rank, open: impl Fn(usize) -> bool) {
        if self.credits.is_none() {
            return;
        }
        let members = self.members(rank.level, open);
        let credits = self.credits.as_mut();
        if let Some(credits) = credits.and_then(|own| own.get_mut(usize::from(rank.level))) {
            credits.charge(usize::from(rank.band), &members, 1);
        }
    }
}

impl WaitingQueues {
    pub(super) fn new(queues: usize, config: &StationConfig) -> Self {
        let empty = Queue::new(config);
        Self {
            order: config.order.clone(),
            max_waiting: config.max_waiting,
            max_pending: config.max_pending,
            queues: vec![empty.clone(); queues],
            empty,
            expiries: RankQueue::default(),
            changes: RankQueue::default(),
            total: 0,
        }
    }

    /// Adds queues until there are `queues` at least.
    pub(super) fn grow(&mut self, queues: usize) {
        while self.queues.len() < queues {
            self.queues.push(self.empty.clone());
        }
    }

    /// Returns how many queues there are.
    pub(super) fn count(&self) -> usize {
        self.queues.len()
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
        let part = entry.class * queue.bands() + usize::from(rank.band);
        queue.parts[part].insert(slot, rank);
        let reversed = Rank {
            level: u8::MAX - rank.level,
            band: u8::MAX - rank.band,
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
        let bands = queue.bands();
        let mut parts = queue.parts[class * bands..][..bands].iter_mut();
        if parts.any(|part| part.remove(slot)) {
            queue.worst.remove(slot);
            self.expiries.remove(slot);
            self.changes.remove(slot);
            self.total -= 1;
        }
    }

    /// Notes when a request's place next changes by itself, if it does.
    fn await_change(&mut self, now: Time, slot: u32, entry: &WaitingRequest) {
        let by_value = matches!(self.order, Order::Vrd);
        let terms = entry.terms.filter(|_| by_value);
        let at = match entry.placing {
            Some(placing) => placing.changes_at,
            None => terms.and_then(|terms| terms.changes_at(entry.arrived, now)),
        };
        if let Some(at) = at {
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
        let key = match &self.order {
            Order::Size => entry.bytes,
            Order::Fcfs => 0,
            Order::Edf => of_terms(&|terms| terms.edf(entry.arrived)),
            Order::Vrd => of_terms(&|terms| terms.vrd(entry.arrived, now)),
            Order::Value => u64::MAX - u64::from(entry.value),
            Order::Srq(_) => entry.placing.map_or(0, |placing| placing.key),
        };
        Rank {
            level: entry.level,
            band: entry.placing.map_or(0, |placing| placing.band),
            key,
            seq: entry.seq,
        }
    }

    /// Returns the first request of a queue among those whose class is open, and its rank.
    pub(super) fn first(&self, queue: usize, open: impl Fn(usize) -> bool) -> Option<First> {
        self.queues[queue].first(open)
    }

    /// Notes that the request of this rank, which is the first of a queue, is to start.
    pub(super) fn charge(&mut self, queue: usize, rank: &Rank, open: impl Fn(usize) -> bool) {
        self.queues[queue].charge(rank, open);
    }

    /// Returns the last request of a queue, if it is of a lower level than `level`.
    pub(super) fn worst_below(&self, queue: usize, level: u8) -> Option<u32> {
        let (rank, slot) = self.queues[queue].worst.first()?;
        (u8::MAX - rank.level > level).then_some(slot)
    }

    /// Returns the number of requests of a queue that are of `level` or above.
    pub(super) fn ahead(&self, queue: usize, level: u8) -> usize {
        let parts = self.queues[queue].parts.iter();
        let ahead = parts.filter(|queue| queue.first().is_some_and(|(r, _)| r.level <= level));
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
