//! The order in which heads of responses are released.

use std::time::Duration;

use proptest::prelude::*;

use crate::host::{Did, Shared, Worker};

const PACED: &str = "{catalogue: off, uplink: {rate: 10mbit}}";

/// Begins a response of so many bytes; returns its stream, and whether its head is held.
fn response(worker: &mut Worker, bytes: u64) -> (u64, bool) {
    let (id, _) = worker.get("/", &[]);
    let held = worker.head(id, bytes);
    (id, held)
}

#[test]
fn small_ones_go_as_fast_as_the_link_carries_them_the_smallest_first() {
    let mut worker = Worker::new(PACED);
    // 6 ms of the link each: 8 are made up for, and 4 lent.
    assert!(!response(&mut worker, 7_000).1);
    assert!(!response(&mut worker, 7_000).1);
    let (second, held) = response(&mut worker, 6_000);
    assert!(held);
    let (third, held) = response(&mut worker, 100);
    assert!(held);
    assert!(worker.filter.next_wakeup().unwrap() > worker.now);
    worker.did();
    for next in [third, second] {
        worker.now = worker.filter.next_wakeup().unwrap();
        worker.tick();
        assert_eq!(worker.did(), [Did::Response(next)]);
    }
    assert_eq!(worker.filter.next_wakeup(), None);
}

#[test]
fn of_large_ones_one_at_a_time_and_small_ones_beside_it() {
    let mut worker = Worker::new(PACED);
    let (first, held) = response(&mut worker, 1 << 20);
    assert!(!held);
    let (largest, held) = response(&mut worker, 4 << 20);
    assert!(held);
    let (larger, held) = response(&mut worker, 2 << 20);
    assert!(held);
    let (_, held) = response(&mut worker, 1_000);
    assert!(!held, "the link is not busy yet");
    worker.did();
    worker.finish(first, 1 << 20);
    assert_eq!(worker.did(), [Did::Response(larger)]);
    worker.filter.done(worker.now, larger, &mut worker.host);
    assert_eq!(worker.did(), [Did::Response(largest)]);
}

/// Returns after how many smaller responses of its lane the largest one begins, if that is within
/// three seconds in which they keep the lane taken.
fn begins_after(floor: &str) -> Option<usize> {
    let uplink = format!("uplink: {{rate: 10mbit, hold: heads, floor: {floor}}}");
    let mut worker = Worker::new(&format!("{{catalogue: off, {uplink}}}"));
    let (mut under_way, held) = response(&mut worker, 100_000);
    assert!(!held);
    let (largest, held) = response(&mut worker, 8 << 20);
    assert!(held);
    for begun in 1..=30 {
        let (next, held) = response(&mut worker, 100_000);
        assert!(held, "the lane is taken");
        worker.now = worker.now + Duration::from_millis(100);
        worker.did();
        worker.finish(under_way, 100_000);
        let did = worker.did();
        let [Did::Response(began)] = did[..] else {
            panic!("{did:?}");
        };
        if began == largest {
            return Some(begun);
        }
        assert_eq!(began, next);
        under_way = next;
    }
    None
}

/// The largest takes part once it is a second old; the floor is owed from the next one on.
#[test]
fn what_has_waited_for_a_second_has_its_part_of_its_lane() {
    assert_eq!(begins_after("5%"), Some(11));
    assert_eq!(begins_after("0%"), None);
}

#[test]
fn workers_share_the_link_and_the_places_of_large_ones() {
    let shared = Shared::default();
    let mut first = Worker::sharing(PACED, 1, shared.clone());
    let mut second = Worker::sharing(PACED, 2, shared);
    let (large, held) = response(&mut first, 1 << 20);
    assert!(!held);
    let (waits, held) = response(&mut second, 1 << 20);
    assert!(held);
    for _ in 0..4 {
        response(&mut first, 8_000);
    }
    let (_, held) = response(&mut second, 1_000);
    assert!(held, "the other worker has filled the link");
    second.did();
    first.filter.done(first.now, large, &mut first.host);
    second.now = second.now + Duration::from_secs(1);
    second.tick();
    assert!(second.did().contains(&Did::Response(waits)));
}

#[test]
fn a_worker_that_is_gone_keeps_no_place() {
    let shared = Shared::default();
    let mut gone = Worker::sharing(PACED, 1, shared.clone());
    let mut worker = Worker::sharing(PACED, 2, shared);
    assert!(!response(&mut gone, 1 << 20).1);
    drop(gone);
    let (id, held) = response(&mut worker, 1 << 20);
    assert!(held);
    worker.now = worker.now + Duration::from_secs(1);
    worker.tick();
    assert!(worker.did().is_empty());
    worker.now = worker.now + Duration::from_secs(1);
    worker.tick();
    assert_eq!(worker.did(), [Did::Response(id)]);
}

/// Lets so many seconds pass, in which this many bytes of a response pass each tenth of one;
/// returns the streams that are let go.
fn passes(worker: &mut Worker, id: u64, bytes: u64, seconds: u64) -> Vec<Did> {
    for _ in 0..10 * seconds {
        worker.now = worker.now + Duration::from_millis(100);
        worker
            .filter
            .response_body(worker.now, id, bytes, false, &mut worker.host);
        worker.tick();
    }
    worker.did()
}

/// 10 Mbit/s are 125 KB in a tenth of a second.
#[test]
fn a_response_that_trickles_keeps_no_lane() {
    let mut worker = Worker::new(PACED);
    let (slow, held) = response(&mut worker, 4 << 20);
    assert!(!held);
    let (next, held) = response(&mut worker, 8 << 20);
    assert!(held);
    let (last, held) = response(&mut worker, 16 << 20);
    assert!(held);
    worker.did();
    assert_eq!(passes(&mut worker, slow, 40_000, 5), [], "it uses the link");
    assert_eq!(passes(&mut worker, slow, 1_000, 1), [], "for a moment");
    assert_eq!(passes(&mut worker, slow, 1_000, 2), [Did::Response(next)]);
    // The lane is the other one's now: what the slow one does, changes nothing.
    worker.finish(slow, 1_000);
    assert_eq!(worker.did(), []);
    assert_eq!(passes(&mut worker, next, 100_000, 5), []);
    worker.finish(next, 1_000);
    assert_eq!(worker.did(), [Did::Response(last)]);
}

const LIMITED: &str = "
classes: {slow: {rate: 8kbit}, one: {max_concurrency: 1}}
class_rules:
  - {match: {headers: [{name: x-class, value: slow}]}, class: slow}
  - {match: {headers: [{name: x-class, value: one}]}, class: one}
catalogue: off
uplink: {rate: 10mbit}
";

/// Begins a response of a class; returns its stream, and whether its head is held.
fn response_of(worker: &mut Worker, class: &str, bytes: u64) -> (u64, bool) {
    let (id, _) = worker.get("/", &[("x-class", class)]);
    let held = worker.head(id, bytes);
    (id, held)
}

#[test]
fn a_class_that_waits_for_its_own_rate_or_pool_holds_up_no_other() {
    for class in ["slow", "one"] {
        let mut worker = Worker::new(LIMITED);
        let (first, held) = response_of(&mut worker, class, 1_000);
        assert!(!held, "{class}");
        let (second, held) = response_of(&mut worker, class, 1_000);
        assert!(held, "{class}: its limit is reached");
        let (large, held) = response(&mut worker, 1 << 20);
        assert!(!held, "{class}: another class's, in another lane");
        worker.did();
        worker.filter.done(worker.now, first, &mut worker.host);
        worker.filter.done(worker.now, large, &mut worker.host);
        worker.now = worker.now + Duration::from_secs(2);
        worker.tick();
        assert_eq!(worker.did(), [Did::Response(second)], "{class}");
    }
}

#[test]
fn a_lane_is_not_taken_for_a_class_that_may_not_send() {
    let shared = Shared::default();
    let mut first = Worker::sharing(LIMITED, 1, shared.clone());
    let mut second = Worker::sharing(LIMITED, 2, shared);
    let (large, held) = response_of(&mut first, "slow", 1 << 20);
    assert!(!held);
    let (_, held) = response_of(&mut first, "slow", 1 << 20);
    assert!(held);
    // The lane is free, and the class's rate is used up for long: the end gives nothing back.
    first.filter.done(first.now, large, &mut first.host);
    first.tick();
    assert_eq!(first.did(), []);
    let (_, held) = response(&mut second, 1 << 20);
    assert!(!held);
}

#[test]
fn a_clock_that_is_set_back_holds_no_head() {
    let mut worker = Worker::new(PACED);
    let (large, held) = response(&mut worker, 1 << 20);
    assert!(!held);
    let mut waiting = Vec::new();
    for bytes in [8_000, 8_000, 7_000, 6_000, 2 << 20] {
        let (id, held) = response(&mut worker, bytes);
        waiting.extend(Some(id).filter(|_| held));
    }
    assert_eq!(waiting.len(), 3, "the link is filled");
    worker.did();
    worker.now = worker.now - Duration::from_secs(600);
    let (id, held) = response(&mut worker, 100);
    waiting.extend(Some(id).filter(|_| held));
    // The large one shows signs of life, by the clock as it is.
    let bytes = 1 << 10;
    worker
        .filter
        .response_body(worker.now, large, bytes, false, &mut worker.host);
    let mut released = 0;
    for _ in 0..100 {
        worker.now = worker.now + Duration::from_millis(10);
        worker.tick();
        released += worker.did().len();
    }
    assert_eq!(released, waiting.len() - 1, "all but the second large one");
    worker.filter.done(worker.now, large, &mut worker.host);
    assert_eq!(worker.did().len(), 1);
}

#[test]
fn bodiless_responses_and_those_over_the_bound_pass() {
    let mut worker = Worker::new("{catalogue: off, uplink: {rate: 1kbit, max_flows: 1}}");
    assert!(!response(&mut worker, 1_000_000).1);
    assert!(!response(&mut worker, 0).1);
    assert!(!response(&mut worker, 1_000_000).1);
    assert_eq!(worker.counted("sprat.unscheduled"), 1);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(128) })]

    /// Whatever comes, goes and is reset: each held head is let go once, if its
    /// client stays; and nothing is left waiting.
    #[test]
    fn no_head_is_held_for_ever(
        steps in prop::collection::vec((0u64..300_000, 0u64..20, 0u8..8), 1..120),
    ) {
        let mut worker = Worker::new(PACED);
        let mut held: Vec<(u64, u64)> = Vec::new();
        let mut open: Vec<(u64, u64)> = Vec::new();
        let settle = |worker: &mut Worker, held: &mut Vec<(u64, u64)>, open: &mut Vec<(u64, u64)>| {
            for did in worker.did() {
                if let Did::Response(id) = did {
                    let at = held.iter().position(|(own, _)| *own == id);
                    open.push(held.remove(at.expect("it was held")));
                }
            }
        };
        for (bytes, later, what) in steps {
            worker.now = worker.now + Duration::from_millis(later);
            match what {
                0 if !held.is_empty() => {
                    let (id, _) = held.swap_remove(0);
                    worker.filter.done(worker.now, id, &mut worker.host);
                }
                1..=3 if !open.is_empty() => {
                    let (id, bytes) = open.swap_remove(0);
                    worker.finish(id, bytes);
                }
                _ => {
                    let (id, is_held) = response(&mut worker, bytes);
                    if is_held { &mut held } else { &mut open }.push((id, bytes));
                }
            }
            settle(&mut worker, &mut held, &mut open);
        }
        for _ in 0..2_000 {
            worker.now = worker.now + Duration::from_millis(10);
            worker.tick();
            settle(&mut worker, &mut held, &mut open);
            for (id, bytes) in std::mem::take(&mut open) {
                worker.finish(id, bytes);
            }
            settle(&mut worker, &mut held, &mut open);
        }
        prop_assert!(held.is_empty(), "{held:?}");
        prop_assert_eq!(worker.filter.next_wakeup(), None);
    }
}
