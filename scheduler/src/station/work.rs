//! The work that an endpoint has, as a request that comes now would feel it.
//!
//! Where an endpoint serves in order, a request waits for all that came before.
//! Where it serves all at once, each with an equal share, what another has left
//! holds a request up for no longer than the request itself takes: of a
//! response ten times as large it feels a tenth. Which of the two a cluster
//! does shows in the order in which its responses end.

use std::collections::BTreeSet;

/// The number of lanes of sizes, two to each power of two from 1 byte up. What is in the lane of
/// the request itself is known to within a fifth of a request.
const LANES: usize = 96;

/// The number of ends of responses over which overtaking is averaged, about.
const OVERTAKES_OVER: f64 = 32.0;

/// The share of overtaking responses above which endpoints are taken to share their
/// capacity. Such a response overtakes one that has been overtaken before; counted are
/// those that end while others are served. In order there are none: two that end
/// together may be seen in either order, but seldom three. Three in a row are enough.
const SHARES_ABOVE: f64 = 1.0 / 16.0;

/// The evidence that a cluster's endpoints share their capacity: they are taken
/// to be alike, for one that is left alone with a large response shows nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sharing {
    /// The share of responses that overtake one that was overtaken before.
    overtakes: f64,
}

impl Sharing {
    /// Returns whether the endpoints are seen to share their capacity.
    pub(super) fn is_seen(self) -> bool {
        self.overtakes > SHARES_ABOVE
    }

    fn observe(&mut self, overtakes: bool) {
        let sample = f64::from(u8::from(overtakes));
        self.overtakes += (sample - self.overtakes) / OVERTAKES_OVER;
    }
}

/// An endpoint's outstanding work.
#[derive(Clone, Debug)]
pub(super) struct Work {
    total_bytes: u64,
    lanes: Vec<SizeLane>,
    /// The requests in service, by when they were started.
    running: BTreeSet<u64>,
    /// The request that the last response overtook, if any.
    overtaken: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct SizeLane {
    bytes: u64,
    requests: u64,
}

impl Work {
    /// Creates an account without work. Sizes are told apart, and serving in
    /// order from sharing, only if the dispatch wants to know (`detailed`).
    pub(super) fn new(detailed: bool) -> Self {
        let lanes = if detailed { LANES } else { 0 };
        Self {
            total_bytes: 0,
            lanes: vec![SizeLane::default(); lanes],
            running: BTreeSet::new(),
            overtaken: None,
        }
    }

    /// Returns the bytes of all the work.
    pub(super) fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    pub(super) fn add(&mut self, bytes: u64) {
        // What is added is taken away once, so wrapping cancels out.
        self.total_bytes = self.total_bytes.wrapping_add(bytes);
        if let Some(lane) = self.lanes.get_mut(lane(bytes)) {
            lane.bytes = lane.bytes.wrapping_add(bytes);
            lane.requests += 1;
        }
    }

    pub(super) fn remove(&mut self, bytes: u64) {
        self.total_bytes = self.total_bytes.wrapping_sub(bytes);
        if let Some(lane) = self.lanes.get_mut(lane(bytes)) {
            lane.bytes = lane.bytes.wrapping_sub(bytes);
            lane.requests -= 1;
        }
    }

    /// Notes that a request's service begins; `order` grows from one request to the next.
    pub(super) fn started(&mut self, order: u64) {
        if !self.lanes.is_empty() {
            self.running.insert(order);
        }
    }

    /// Notes that a request is over. A response that was cut short, not `whole`, says nothing of
    /// overtaking.
    pub(super) fn ended(&mut self, order: u64, whole: bool, sharing: &mut Sharing) {
        if whole && self.running.len() > 1 {
            let first = self.running.first().copied();
            let overtaken = first.filter(|&first| first < order);
            sharing.observe(overtaken.is_some() && overtaken == self.overtaken);
            self.overtaken = overtaken;
        }
        self.running.remove(&order);
    }

    /// Returns the bytes that are served before a request of `bytes` that comes now.
    pub(super) fn ahead_of(&self, bytes: u64, shared: bool) -> u64 {
        if !shared {
            return self.total_bytes;
        }
        let own = lane(bytes);
        let sum = |(index, lane): (usize, &SizeLane)| match index.cmp(&own) {
            std::cmp::Ordering::Less => lane.bytes,
            std::cmp::Ordering::Equal => lane.bytes.min(lane.requests.saturating_mul(bytes)),
            std::cmp::Ordering::Greater => lane.requests.saturating_mul(bytes),
        };
        let lanes = self.lanes.iter().enumerate().map(sum);
        lanes.fold(0, u64::saturating_add)
    }
}

/// Returns the lane that a size is in: two to each power of two.
fn lane(bytes: u64) -> usize {
    let bytes = bytes.max(1);
    let power = bytes.ilog2() as usize;
    let half = power.checked_sub(1).map_or(0, |bit| bytes >> bit & 1);
    (2 * power + half as usize).min(LANES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_grow_with_the_size_and_are_two_to_a_power() {
        let lanes: Vec<usize> = [0, 1, 2, 3, 4, 6, 8, 1024, 1536, u64::MAX]
            .map(lane)
            .to_vec();
        assert_eq!(lanes, [0, 0, 2, 3, 4, 5, 6, 20, 21, LANES - 1]);
    }

    #[test]
    fn in_order_all_work_is_ahead() {
        let (mut work, mut sharing) = (Work::new(true), Sharing::default());
        for (order, bytes) in [(0, 100), (1, 1_000_000)] {
            work.add(bytes);
            work.started(order);
        }
        assert_eq!(work.ahead_of(10, false), 1_000_100);
        work.ended(0, true, &mut sharing);
        work.remove(100);
        assert!(!sharing.is_seen());
        assert_eq!(work.ahead_of(10, false), 1_000_000);
    }

    #[test]
    fn where_small_ones_overtake_only_as_much_as_ones_own_size_is_ahead() {
        let (mut work, mut sharing) = (Work::new(true), Sharing::default());
        work.add(1_000_000);
        work.started(0);
        for order in 1..=4 {
            assert!(!sharing.is_seen());
            work.add(100);
            work.started(order);
            work.ended(order, true, &mut sharing);
            work.remove(100);
        }
        assert!(sharing.is_seen());
        work.add(100);
        assert_eq!(work.ahead_of(10, true), 20);
        assert_eq!(work.ahead_of(100, true), 200);
        assert_eq!(work.ahead_of(5000, true), 5100);
        assert_eq!(work.ahead_of(1 << 30, true), 1_000_100);
    }

    #[test]
    fn more_than_a_sixteenth_overtake_where_capacity_is_shared() {
        let seen = |overtakes| Sharing { overtakes }.is_seen();
        assert!(!seen(SHARES_ABOVE));
        assert!(seen(SHARES_ABOVE + 1e-9));
        // What ends alone at an endpoint takes nothing of that away.
        let mut sharing = Sharing { overtakes: 0.5 };
        let mut work = Work::new(true);
        for order in 0..100 {
            work.started(order);
            work.ended(order, true, &mut sharing);
        }
        assert!(sharing.is_seen());
    }

    #[test]
    fn two_that_end_together_may_be_seen_in_either_order() {
        let (mut work, mut sharing) = (Work::new(true), Sharing::default());
        for first in (0..300).step_by(3) {
            for order in [0, 1, 2] {
                work.started(first + order);
            }
            for order in [1, 0, 2] {
                work.ended(first + order, true, &mut sharing);
            }
        }
        assert!(!sharing.is_seen());
    }

    #[test]
    fn what_is_cut_short_or_alone_says_nothing() {
        let (mut work, mut sharing) = (Work::new(true), Sharing::default());
        work.started(0);
        for order in 1..100 {
            work.started(order);
            work.ended(order, false, &mut sharing);
        }
        work.ended(0, true, &mut sharing);
        assert!(!sharing.is_seen());
        assert!(work.running.is_empty());
    }
}
