//! The board of one system: its responses under way, and how long responses took.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use serde::Serialize;

/// The span that recent figures cover, in seconds.
pub(super) const RECENT_S: f64 = 30.0;

/// The most responses under way that a snapshot lists, the oldest first.
const FLOWS_SHOWN_MAX: usize = 400;

/// The most ended responses that recent figures cover; beyond it the oldest are forgotten.
const RECENT_MAX: usize = 20_000;

/// The most ended responses that a snapshot lists one by one.
const POINTS_MAX: usize = 200;

/// The responses of one system: those under way, and those that have ended.
#[derive(Debug, Default)]
pub(super) struct Board {
    under_way: BTreeMap<u64, OpenFlow>,
    next_id: u64,
    recent: VecDeque<Ended>,
    points: Vec<(u64, f64)>,
    whole: u64,
    failed: u64,
    sum_ms: f64,
}

/// A response under way.
#[derive(Debug)]
struct OpenFlow {
    bytes: u64,
    received: Rc<Cell<u64>>,
    since_s: f64,
}

/// A response that came in whole.
#[derive(Debug)]
struct Ended {
    at_s: f64,
    bytes: u64,
    took_ms: f64,
}

/// The state of a system that the page shows.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Snapshot {
    /// The number of requests whose response is not yet whole.
    pub(super) open: usize,
    /// The oldest responses under way.
    pub(super) flows: Vec<ShownFlow>,
    /// Mean response times over the last [`RECENT_S`] seconds.
    pub(super) recent: Means,
    /// The mean response time since the start.
    pub(super) all: Mean,
    /// Requests that failed since the start.
    pub(super) failed: u64,
    /// The responses that ended since the last snapshot, each as bytes and response time in ms.
    pub(super) points: Vec<(u64, f64)>,
}

/// A response under way as the page shows it, which gets an array: there may be many.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(into = "[u64; 3]")]
pub(super) struct ShownFlow {
    pub(super) bytes: u64,
    /// The bytes that are to come.
    pub(super) left_bytes: u64,
    pub(super) age_ms: u64,
}

impl From<ShownFlow> for [u64; 3] {
    fn from(flow: ShownFlow) -> Self {
        [flow.bytes, flow.left_bytes, flow.age_ms]
    }
}

/// A mean response time in ms over a number of responses; `None` if there are no responses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Mean {
    pub(super) count: u64,
    pub(super) mean_ms: Option<f64>,
}

/// Mean response times by size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Means {
    pub(super) all: Mean,
    /// The mean of responses that are not large.
    pub(super) small: Mean,
    /// The mean of responses that are large.
    pub(super) large: Mean,
}

impl Board {
    /// Notes that a client has asked for a response of `bytes`. Returns its number, and the cell
    /// that is to count the bytes received.
    pub(super) fn begin(&mut self, now_s: f64, bytes: u64) -> (u64, Rc<Cell<u64>>) {
        let id = self.next_id;
        self.next_id += 1;
        let received = Rc::new(Cell::new(0));
        let flow = OpenFlow {
            bytes,
            received: received.clone(),
            since_s: now_s,
        };
        self.under_way.insert(id, flow);
        (id, received)
    }

    /// Notes that response `id` has ended, in whole or not.
    pub(super) fn end(&mut self, now_s: f64, id: u64, whole: bool) {
        let Some(flow) = self.under_way.remove(&id) else {
            return;
        };
        if !whole {
            self.failed += 1;
            return;
        }
        let took_ms = (now_s - flow.since_s) * 1e3;
        self.whole += 1;
        self.sum_ms += took_ms;
        if self.points.len() < POINTS_MAX {
            self.points.push((flow.bytes, took_ms));
        }
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(Ended {
            at_s: now_s,
            bytes: flow.bytes,
            took_ms,
        });
    }

    /// Counts as failed a request that was not made because too many were open.
    pub(super) fn refuse(&mut self) {
        self.failed += 1;
    }

    /// Returns how many requests are under way.
    pub(super) fn open(&self) -> usize {
        self.under_way.len()
    }

    /// Returns the system's state at `now_s`; responses above `large_bytes` count as large.
    pub(super) fn snapshot(&mut self, now_s: f64, large_bytes: u64) -> Snapshot {
        while (self.recent.front()).is_some_and(|ended| ended.at_s < now_s - RECENT_S) {
            self.recent.pop_front();
        }
        let of = |wanted: &dyn Fn(u64) -> bool| {
            let took = self.recent.iter().filter(|ended| wanted(ended.bytes));
            let (count, sum_ms) = took.fold((0, 0.0), |(count, sum), ended| {
                (count + 1, sum + ended.took_ms)
            });
            Mean::of(count, sum_ms)
        };
        Snapshot {
            open: self.under_way.len(),
            flows: self
                .under_way
                .values()
                .take(FLOWS_SHOWN_MAX)
                .map(|flow| flow.shown(now_s))
                .collect(),
            recent: Means {
                all: of(&|_| true),
                small: of(&|bytes| bytes <= large_bytes),
                large: of(&|bytes| bytes > large_bytes),
            },
            all: Mean::of(self.whole, self.sum_ms),
            failed: self.failed,
            points: std::mem::take(&mut self.points),
        }
    }
}

impl OpenFlow {
    fn shown(&self, now_s: f64) -> ShownFlow {
        let age_ms = (now_s - self.since_s).max(0.0) * 1e3;
        ShownFlow {
            bytes: self.bytes,
            left_bytes: self.bytes.saturating_sub(self.received.get()),
            age_ms: age_ms as u64,
        }
    }
}

impl Mean {
    fn of(count: u64, sum_ms: f64) -> Self {
        Self {
            count,
            mean_ms: (count > 0).then(|| sum_ms / count as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the flows of a snapshot as the page gets them: bytes, bytes to come, and age in ms.
    fn flows(snapshot: &Snapshot) -> serde_json::Value {
        serde_json::to_value(&snapshot.flows).unwrap()
    }

    #[test]
    fn what_is_under_way_is_shown_with_what_is_left_of_it() {
        let mut board = Board::default();
        let (first, received) = board.begin(1.0, 1000);
        board.begin(1.5, 10);
        received.set(400);
        let snapshot = board.snapshot(2.0, 100);
        let expected = serde_json::json!([[1000, 600, 1000], [10, 10, 500]]);
        assert_eq!(flows(&snapshot), expected);
        assert_eq!(snapshot.open, 2);
        board.end(3.0, first, true);
        let snapshot = board.snapshot(3.0, 100);
        assert_eq!(flows(&snapshot), serde_json::json!([[10, 10, 1500]]));
        assert_eq!(snapshot.points, [(1000, 2000.0)]);
        // Each response is told once.
        assert_eq!(board.snapshot(3.0, 100).points, []);
    }

    #[test]
    fn means_are_by_size_and_recent_ones_forget() {
        let mut board = Board::default();
        for (bytes, begun_s, ended_s) in [(10, 0.0, 0.1), (20, 0.0, 0.3), (5000, 0.0, 2.0)] {
            let (id, _) = board.begin(begun_s, bytes);
            board.end(ended_s, id, true);
        }
        let means = board.snapshot(2.0, 100).recent;
        assert_eq!(means.small, Mean::of(2, 400.0));
        assert_eq!(means.large, Mean::of(1, 2000.0));
        assert_eq!(means.all, Mean::of(3, 2400.0));
        let later = board.snapshot(RECENT_S + 1.0, 100);
        assert_eq!(later.recent.small, Mean::of(0, 0.0));
        assert_eq!(later.recent.large.count, 1);
        assert_eq!(later.all.count, 3);
    }

    #[test]
    fn a_failed_request_is_in_no_mean() {
        let mut board = Board::default();
        let (id, _) = board.begin(0.0, 10);
        board.end(1.0, id, false);
        board.refuse();
        let snapshot = board.snapshot(1.0, 100);
        assert_eq!((snapshot.failed, snapshot.all.count), (2, 0));
        assert_eq!(board.open(), 0);
    }
}
