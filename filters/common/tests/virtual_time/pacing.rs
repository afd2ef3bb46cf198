//! The order in which bodies go that the host holds.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use crate::host::{Did, Shared, Worker};

const PACED: &str = "{catalogue: off, uplink: {rate: 10mbit, hold: bodies}}";

/// Begins a response of so many bytes; returns its stream, and whether its head is held.
fn response(worker: &mut Worker, bytes: u64) -> (u64, bool) {
    let (id, _) = worker.get("/", &[]);
    let held = worker.head(id, bytes);
    (id, held)
}

/// Hands over a part of a body; returns whether it is held.
fn part(worker: &mut Worker, id: u64, bytes: u64, end: bool) -> bool {
    let now = worker.now;
    worker
        .filter
        .response_body(now, id, bytes, end, &mut worker.host)
}

/// Occupies the link with a response whose next part is held.
fn busy(worker: &mut Worker, bytes: u64) -> u64 {
    let (id, held) = response(worker, bytes);
    assert!(!held, "the link is free");
    assert!(
        !part(worker, id, 16 << 10, false),
        "what follows a head goes with it"
    );
    assert!(part(worker, id, 2_000, false));
    worker.did();
    id
}

/// Returns the streams that are let go, tick by tick, until none waits.
fn order(worker: &mut Worker) -> Vec<u64> {
    let mut order = Vec::new();
    for _ in 0..10_000 {
        let Some(at) = worker.filter.next_wakeup() else {
            return order;
        };
        worker.now = at.max(worker.now + Duration::from_millis(1));
        worker.tick();
        order.extend(worker.did().into_iter().map(|did| match did {
            Did::Response(id) => id,
            other => panic!("{other:?}"),
        }));
    }
    panic!("{order:?}, and no end");
}

#[test]
fn the_least_remaining_goes_first_and_what_has_come_goes_together() {
    let mut worker = Worker::new(PACED);
    let large = busy(&mut worker, 1 << 20);
    let (middle, held) = response(&mut worker, 50_000);
    assert!(held);
    let (small, held) = response(&mut worker, 900);
    assert!(held);
    assert!(
        part(&mut worker, large, 2_000, false),
        "it joins what is held"
    );
    assert_eq!(order(&mut worker), [small, middle, large]);
    // The body of the small one was paid for with its head.
    assert!(!part(&mut worker, small, 900, true));
    assert!(
        !part(&mut worker, large, 0, true),
        "nothing is nothing to hold"
    );
    assert_eq!(worker.counted("sprat.held"), 2);
    assert_eq!(worker.counted("sprat.held_chunks"), 2);
}

/// Returns whether a large response is let go within three seconds in which smaller ones ask for
/// more than the link carries.
fn moves_under_overload(floor: &str) -> bool {
    let uplink = format!("uplink: {{rate: 1mbit, hold: bodies, floor: {floor}}}");
    let mut worker = Worker::new(&format!("{{catalogue: off, {uplink}}}"));
    let large = busy(&mut worker, 1 << 20);
    for _ in 0..300 {
        worker.now = worker.now + Duration::from_millis(10);
        response(&mut worker, 1_400);
        worker.tick();
        for did in worker.did() {
            match did {
                Did::Response(id) if id == large => return true,
                Did::Response(id) => assert!(!part(&mut worker, id, 1_400, true)),
                other => panic!("{other:?}"),
            }
        }
    }
    false
}

#[test]
fn what_has_waited_for_a_second_has_its_part_of_a_link_that_is_overloaded() {
    assert!(moves_under_overload("5%"));
    assert!(!moves_under_overload("0%"));
}

#[test]
fn a_response_that_has_come_further_goes_before_one_of_its_size() {
    let mut worker = Worker::new(PACED);
    let first = busy(&mut worker, 40_000);
    let (second, held) = response(&mut worker, 25_000);
    assert!(
        held,
        "18 KB of the first have gone: it is the smaller one now"
    );
    assert_eq!(order(&mut worker), [first, second]);
}

#[test]
fn trailers_wait_with_the_body_before_them() {
    let mut worker = Worker::new(PACED);
    let id = busy(&mut worker, 1 << 20);
    let now = worker.now;
    assert!(worker.filter.response_trailers(now, id, &mut worker.host));
    assert_eq!(order(&mut worker), [id]);
    worker.now = worker.now + Duration::from_secs(1);
    let (id, _) = response(&mut worker, 100);
    assert!(!part(&mut worker, id, 100, false));
    let now = worker.now;
    assert!(!worker.filter.response_trailers(now, id, &mut worker.host));
}

#[test]
fn a_client_that_leaves_is_not_waited_for() {
    let mut worker = Worker::new(PACED);
    let large = busy(&mut worker, 1 << 20);
    let (gone, held) = response(&mut worker, 900);
    assert!(held);
    worker.filter.done(worker.now, gone, &mut worker.host);
    assert_eq!(order(&mut worker), [large]);
    worker.filter.done(worker.now, large, &mut worker.host);
    assert_eq!(worker.filter.next_wakeup(), None);
}

#[test]
fn higher_classes_go_first() {
    let mut worker = Worker::new(
        "{catalogue: off, uplink: {rate: 10mbit, hold: bodies}, classes: {gold: {level: 0}}, \
          class_rules: [{match: {headers: [{name: x-gold}]}, class: gold}]}",
    );
    let large = busy(&mut worker, 1 << 20);
    let (small, held) = response(&mut worker, 900);
    assert!(held);
    let (gold, _) = worker.get("/", &[("x-gold", "1")]);
    assert!(worker.head(gold, 90_000));
    assert_eq!(order(&mut worker), [gold, small, large]);
}

#[test]
fn a_worker_lets_a_more_urgent_one_of_another_go_first_and_rings_it() {
    let shared = Shared::default();
    let mut first = Worker::sharing(PACED, 1, shared.clone());
    let mut second = Worker::sharing(PACED, 2, shared);
    let large = busy(&mut first, 1 << 20);
    let (small, held) = response(&mut second, 900);
    assert!(held, "the first worker has filled the link");
    let free_at = second.filter.next_wakeup().unwrap();
    (first.now, second.now) = (free_at, free_at);
    first.tick();
    assert_eq!(first.did(), [Did::Ring(2)]);
    first.tick();
    assert_eq!(first.did(), [], "once is enough");
    second.tick();
    assert_eq!(second.did(), [Did::Response(small)]);
    assert_eq!(order(&mut first), [large]);
}

#[test]
fn a_worker_that_is_gone_holds_nobody_up_for_long() {
    let shared = Shared::default();
    let mut first = Worker::sharing(PACED, 1, shared.clone());
    let mut gone = Worker::sharing(PACED, 2, shared);
    let large = busy(&mut first, 1 << 20);
    assert!(response(&mut gone, 900).1);
    drop(gone);
    first.now = first.now + Duration::from_millis(29);
    first.tick();
    assert_eq!(first.did(), [Did::Ring(2)]);
    first.now = first.now + Duration::from_millis(2);
    first.tick();
    assert_eq!(first.did(), [Did::Response(large)]);
}

#[test]
fn a_clock_that_is_set_back_does_not_stop_the_link() {
    let mut worker = Worker::new(PACED);
    let large = busy(&mut worker, 1 << 20);
    worker.now = worker.now - Duration::from_secs(600);
    worker.tick();
    let waits = worker.filter.next_wakeup().unwrap().since(worker.now);
    assert!(waits < Duration::from_secs(1), "{waits:?}");
    assert_eq!(order(&mut worker), [large]);
}

#[test]
fn what_others_have_written_is_no_danger() {
    for record in [
        vec![1; 7],
        vec![0xff; 8],
        vec![0; 8 + 29],
        vec![0xff; 8 + 100 * 30],
    ] {
        let shared = Shared::default();
        let key = "sprat.link".to_owned();
        shared.borrow_mut().insert(key, (record, 1));
        let mut worker = Worker::sharing(PACED, 1, shared);
        let (id, _) = response(&mut worker, 1 << 20);
        worker.now = worker.now + Duration::from_secs(2);
        worker.tick();
        assert!(!part(&mut worker, id, 1000, false));
    }
}

#[test]
fn bodiless_responses_those_over_the_bound_and_tunnels_pass() {
    let mut worker =
        Worker::new("{catalogue: off, uplink: {rate: 1kbit, hold: bodies, max_flows: 1}}");
    let (open, _) = response(&mut worker, 1_000_000);
    assert!(!response(&mut worker, 0).1);
    let (over, held) = response(&mut worker, 1_000_000);
    assert!(!held);
    assert!(!part(&mut worker, over, 1_000_000, true));
    assert_eq!(worker.counted("sprat.unscheduled"), 1);
    worker.filter.done(worker.now, open, &mut worker.host);
    let (tunnel, _) = worker.get("/", &[]);
    assert!(!worker.switch(tunnel));
    assert!(!part(&mut worker, tunnel, 1_000_000, false));
}

/// A response as its backend and its client see it.
#[derive(Debug, Default)]
struct Seen {
    size: u64,
    came: u64,
    /// The bytes that have come and are held.
    held: u64,
    head_held: bool,
    ended: bool,
}

/// Hosts of several workers, and what they hold.
struct Hosts {
    workers: Vec<Worker>,
    seen: Vec<BTreeMap<u64, Seen>>,
    /// Bytes of bodies that were let go.
    sent: u64,
    passed: Duration,
}

impl Hosts {
    fn new(workers: u64) -> Self {
        let shared = Shared::default();
        let workers: Vec<_> = (1..=workers)
            .map(|number| Worker::sharing(PACED, number, shared.clone()))
            .collect();
        Self {
            seen: workers.iter().map(|_| BTreeMap::new()).collect(),
            workers,
            sent: 0,
            passed: Duration::ZERO,
        }
    }

    fn respond(&mut self, at: usize, size: u64) {
        let (id, head_held) = response(&mut self.workers[at], size);
        let seen = Seen {
            size,
            head_held,
            ..Seen::default()
        };
        self.seen[at].insert(id, seen);
        self.settle();
    }

    /// Hands over more of a body, unless its head is held: then the host waits.
    fn more(&mut self, at: usize, id: u64, bytes: u64) {
        let worker = &mut self.workers[at];
        let Some(seen) = self.seen[at].get_mut(&id) else {
            return;
        };
        if seen.head_held || seen.ended {
            return;
        }
        let bytes = bytes.min(seen.size - seen.came);
        seen.came += bytes;
        seen.ended = seen.came == seen.size;
        seen.held += bytes;
        if !part(worker, id, bytes, seen.ended) {
            self.sent += std::mem::take(&mut seen.held);
        }
        self.settle();
    }

    fn leave(&mut self, at: usize, id: u64) {
        self.seen[at].remove(&id);
        let worker = &mut self.workers[at];
        worker.filter.done(worker.now, id, &mut worker.host);
        self.settle();
    }

    /// Hosts do what workers have them do.
    fn settle(&mut self) {
        loop {
            let mut idle = true;
            for at in 0..self.workers.len() {
                for did in self.workers[at].did() {
                    idle = false;
                    match did {
                        Did::Response(id) => {
                            let seen = self.seen[at].get_mut(&id).expect("whose client stays");
                            assert!(seen.head_held || seen.held > 0, "it was held");
                            seen.head_held = false;
                            self.sent += std::mem::take(&mut seen.held);
                        }
                        Did::Ring(bell) => self.workers[bell as usize - 1].tick(),
                        other => panic!("{other:?}"),
                    }
                }
            }
            if idle {
                return;
            }
        }
    }

    /// Lets `time` pass on all workers, and ticks them.
    fn pass(&mut self, time: Duration) {
        self.passed += time;
        for at in 0..self.workers.len() {
            self.workers[at].now = self.workers[at].now + time;
        }
        for at in 0..self.workers.len() {
            self.workers[at].tick();
            self.settle();
        }
    }

    fn ids(&self, at: usize) -> Vec<u64> {
        self.seen[at].keys().copied().collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(96) })]

    /// Whatever comes, goes and stalls, on whichever worker: what is held is let go once and in
    /// whole, nothing is let go faster than the link carries it, and no stream is left waiting.
    #[test]
    fn every_body_comes_to_its_end(
        workers in 1..4_u64,
        steps in prop::collection::vec(
            (0..4_usize, 1..60_000_u64, 0..8_u64, 0..10_u8), 1..80),
    ) {
        let mut hosts = Hosts::new(workers);
        let most = 16 << 10;
        // A chunk for each of the heads that are let go at once, and one more.
        let ahead = 4 * most;
        for (at, bytes, later, what) in steps {
            let at = at % hosts.workers.len();
            let ids = hosts.ids(at);
            let id = ids.get(bytes as usize % ids.len().max(1)).copied();
            hosts.pass(Duration::from_millis(later));
            match (what, id) {
                (0, Some(id)) => hosts.leave(at, id),
                (1..=6, Some(id)) => hosts.more(at, id, bytes.min(most)),
                _ => hosts.respond(at, bytes),
            }
            let carried = 1_250_000 * u64::try_from(hosts.passed.as_millis()).unwrap() / 1000;
            prop_assert!(hosts.sent <= carried + ahead, "{} in {:?}", hosts.sent, hosts.passed);
        }
        for _ in 0..4_000 {
            hosts.pass(Duration::from_millis(4));
            for at in 0..hosts.workers.len() {
                for id in hosts.ids(at) {
                    hosts.more(at, id, 2_000);
                }
            }
        }
        for (at, seen) in hosts.seen.iter().enumerate() {
            for own in seen.values() {
                prop_assert!(own.ended && own.held == 0 && !own.head_held, "{:?}", own);
            }
            prop_assert_eq!(hosts.workers[at].filter.next_wakeup(), None);
        }
    }
}
