//! Tests of SRQ for the places of endpoints: exact orders and times.

mod calls;

use super::super::places::{Overcommit, PlaceBound};
use super::*;
use crate::srq::{MAX_QUEUES, Trigger};

/// Returns the parameters of one endpoint with so many places, under SRQ with half of the service
/// for the first queue, quanta of 50 and 500 ms, and what else `change` says.
fn srq(max_requests: usize, change: impl FnOnce(&mut SrqOrder)) -> StationConfig {
    let mut order = SrqOrder::default();
    order.queues.first_share_percent = 50;
    change(&mut order);
    StationConfig {
        max_requests,
        order: Order::Srq(Box::new(order)),
        ..config(1)
    }
}

/// Lets `count` requests come that start at once.
fn start(station: &mut Station, now: Time, count: usize) -> Vec<Ticket> {
    let start = |_| started(station.arrive(now, &sized(1))).0;
    (0..count).map(start).collect()
}

/// Lets `count` requests come that wait.
fn wait(station: &mut Station, now: Time, count: usize) -> Vec<Ticket> {
    let wait = |_| waits(station.arrive(now, &sized(1)));
    (0..count).map(wait).collect()
}

/// Returns which of the waiting requests have started.
fn starts(station: &mut Station, waiting: &[Ticket]) -> Vec<usize> {
    let mut places = Vec::new();
    while let Some(event) = station.poll() {
        match event {
            Event::Started { ticket, .. } => {
                places.push(waiting.iter().position(|&own| own == ticket).unwrap());
            }
            Event::Refused { .. } => panic!("{event:?}"),
        }
    }
    places
}

/// Calls the station at each time at which it wants to be called, up to `until`; returns what
/// starts when, in milliseconds.
fn run(station: &mut Station, until: Time, waiting: &[Ticket]) -> Vec<(u64, usize)> {
    let mut all = Vec::new();
    while let Some(next) = station.next_wakeup().filter(|&next| next <= until) {
        station.expire(next);
        let starts = starts(station, waiting).into_iter();
        all.extend(starts.map(|place| (next.as_nanos() / 1_000_000, place)));
    }
    all
}

#[test]
fn a_place_frees_although_those_that_wait_have_changed_since_the_last_call() {
    let mut station = Station::new(srq(1, |_| {}));
    let served = start(&mut station, at(0), 1);
    let waiting = wait(&mut station, at(0), 2);
    // Their value falls after two seconds, which no timer tells.
    station.cancel(at(3_000), served[0]);
    assert_eq!(starts(&mut station, &waiting), [0]);
}

fn members(station: &Station) -> [u64; 4] {
    let (queues, _) = station.queues().expect("SRQ has queues");
    std::array::from_fn(|queue| queues.stats().members[queue])
}

#[test]
fn a_start_needs_a_place_that_no_active_request_has_and_room_beyond() {
    let bound = |first_share_percent, max_overcommit| {
        let mut order = SrqOrder {
            max_overcommit,
            ..SrqOrder::default()
        };
        order.queues.first_share_percent = first_share_percent;
        let state = SrqState::new(&order, 10, &[ClassSpec::default()]);
        state.unwrap().overcommit().unwrap()
    };
    assert_eq!(
        bound(90, None),
        Overcommit {
            rest: 1,
            beyond: 10
        }
    );
    // Rounded up.
    assert_eq!(bound(85, Some(3)), Overcommit { rest: 2, beyond: 3 });
    assert_eq!(bound(100, Some(0)), Overcommit { rest: 0, beyond: 0 });
    assert_eq!(bound(1, None).rest, 10);
    let admits = |overcommit, active: usize, demoted| {
        let bound = PlaceBound {
            max_requests: 10,
            overcommit,
        };
        bound.admits(active + demoted, demoted)
    };
    let over = Some(bound(90, None));
    for (active, demoted, expected) in [
        (9, 0, true),
        (10, 0, false),
        // One of the places is the demoted requests', however many they are.
        (8, 1, true),
        (9, 1, false),
        (8, 5, true),
        (9, 5, false),
        // 20 in all are the most.
        (8, 11, true),
        (8, 12, false),
        (0, 19, true),
        (0, 20, false),
    ] {
        assert_eq!(
            admits(over, active, demoted),
            expected,
            "{active} {demoted}"
        );
    }
    // Without it demoted requests are like the others.
    assert!(admits(None, 4, 5) && !admits(None, 5, 5));
}

#[test]
fn a_request_beyond_its_quantum_lets_another_start() {
    let mut station = Station::new(srq(2, |_| {}));
    start(&mut station, at(0), 1);
    start(&mut station, at(10), 1);
    assert_eq!(station.next_wakeup(), None, "nobody waits");
    let waiting = wait(&mut station, at(20), 4);
    // The first is beyond 50 ms, then the second, for which a third starts; and at 110 ms this
    // one. Then there are two beyond the two places.
    assert_eq!(station.next_wakeup(), Some(at(50)));
    assert_eq!(run(&mut station, at(500), &waiting), [(60, 0), (110, 1)]);
    assert_eq!(station.load(0).running, 4);
    assert_eq!(station.load(0).demoted, 4);
    assert_eq!(members(&station), [0, 4, 0, 0]);
    let (queues, is_on) = station.queues().unwrap();
    assert!(is_on);
    assert_eq!(queues.stats().moved[0], 4);
}

#[test]
fn nothing_is_demoted_before_its_quantum_is_used_up() {
    let nano = Duration::from_nanos(1);
    let mut station = Station::new(srq(1, |order| order.queues.first_share_percent = 100));
    start(&mut station, at(0), 1);
    let waiting = wait(&mut station, at(0), 1);
    station.expire(at(50) - nano);
    assert_eq!(starts(&mut station, &waiting), []);
    station.expire(at(50));
    assert_eq!(starts(&mut station, &waiting), [0]);
}

#[test]
fn one_place_alone_is_never_overcommitted() {
    // The first queue's part of one place is none.
    let mut station = Station::new(srq(1, |order| order.queues.first_share_percent = 90));
    let first = start(&mut station, at(0), 1);
    let waiting = wait(&mut station, at(0), 1);
    assert_eq!(run(&mut station, at(5_000), &waiting), []);
    station.finish(at(5_000), first[0], 1);
    assert_eq!(starts(&mut station, &waiting), [0]);
}

#[test]
fn no_more_start_beyond_the_places_than_may() {
    for (most, expected) in [
        (0, vec![]),
        (1, vec![(50, 0)]),
        (2, vec![(50, 0), (100, 1)]),
    ] {
        let mut station = Station::new(srq(2, |order| order.max_overcommit = Some(most)));
        start(&mut station, at(0), 2);
        let waiting = wait(&mut station, at(0), 4);
        assert_eq!(run(&mut station, at(9_000), &waiting), expected, "{most}");
        assert_eq!(station.load(0).running, 2 + most);
    }
}

#[test]
fn a_driver_that_is_late_moves_no_quantum() {
    let run_late = |calls: &[u64]| {
        let mut station = Station::new(srq(2, |_| {}));
        let first = start(&mut station, at(0), 1);
        for &ms in calls {
            station.expire(at(ms));
        }
        station.finish(at(560), first[0], 1);
        let (queues, _) = station.queues().unwrap();
        (queues.stats().moved, queues.stats().done)
    };
    let punctual = run_late(&[50, 550]);
    assert_eq!(punctual.0[..3], [1, 1, 0]);
    assert_eq!(punctual.1[..3], [0, 0, 1]);
    // What it had beyond 50 ms by 120 is of the second quantum.
    assert_eq!(run_late(&[120]), punctual);
    assert_eq!(run_late(&[]), punctual);
}

#[test]
fn within_a_queue_deadlines_and_values_decide() {
    let due = |after, value| ClassSpec {
        deadline: Some(ms(after)),
        value,
        ..ClassSpec::default()
    };
    let order = |alpha| {
        let mut station = Station::new(StationConfig {
            classes: vec![due(1_000, 1), due(500, 1), due(1_000, 3), level(1)],
            ..srq(1, |order| {
                order.queues.alpha = crate::srq::Weight::from_ratio(alpha);
            })
        });
        let (first, _) = started(station.arrive(at(0), &of_class(0)));
        let waiting = [3, 0, 1, 2].map(|class| waits(station.arrive(at(0), &of_class(class))));
        served(&mut station, first, &waiting)
    };
    // The lower level last in any case.
    assert_eq!(order(1.0), [2, 1, 3, 0], "the earliest deadline");
    assert_eq!(order(0.0), [3, 1, 2, 0], "the highest value");
}

#[test]
fn a_value_that_is_gone_sends_a_request_back() {
    let order = |finished| {
        let mut station = Station::new(StationConfig {
            classes: vec![ClassSpec {
                deadline: Some(ms(100)),
                ..ClassSpec::default()
            }],
            ..srq(1, |_| {})
        });
        let (first, _) = started(station.arrive(at(0), &sized(1)));
        let waiting = [0, 10].map(|ms| waits(station.arrive(at(ms), &sized(1))));
        station.finish(at(finished), first, 1);
        starts(&mut station, &waiting)
    };
    assert_eq!(order(99), [0]);
    assert_eq!(order(100), [1], "of the second there is still some value");
    assert_eq!(order(110), [0]);
}

#[test]
fn while_the_trigger_is_off_the_first_to_come_is_the_first_served() {
    let classes = || {
        let due = |after| ClassSpec {
            deadline: Some(ms(after)),
            ..ClassSpec::default()
        };
        vec![due(9_000), due(5_000)]
    };
    let station = || {
        let config = srq(2, |order| {
            order.queues.trigger = Trigger::Waiting(2);
            order.large_bytes = Some(1_000_000);
        });
        Station::new(StationConfig {
            classes: classes(),
            ..config
        })
    };
    let mut quiet = station();
    let first = start(&mut quiet, at(0), 2);
    let waiting = [0, 1].map(|class| waits(quiet.arrive(at(0), &of_class(class))));
    // Two are not more than two.
    assert_eq!(quiet.next_wakeup(), None);
    quiet.expire(at(4_000));
    assert_eq!(starts(&mut quiet, &waiting), []);
    assert_eq!(members(&quiet), [0, 0, 2, 0], "statistics go on");
    quiet.finish(at(4_000), first[0], 1);
    assert_eq!(starts(&mut quiet, &waiting), [0]);

    let mut busy = station();
    start(&mut busy, at(0), 2);
    let waiting = [0, 1, 0].map(|class| waits(busy.arrive(at(100), &of_class(class))));
    // A second above the bound, and the two that are under way are demoted.
    assert_eq!(busy.next_wakeup(), Some(at(1_100)));
    busy.expire(at(1_099));
    assert_eq!(starts(&mut busy, &waiting), []);
    assert_eq!(run(&mut busy, at(1_100), &waiting), [(1_100, 1)]);
    assert!(busy.queues().unwrap().1);
}

#[test]
fn the_trigger_counts_those_that_were_passed_over_as_waiting() {
    let config = srq(1, |order| order.queues.trigger = Trigger::Waiting(1));
    let mut station = Station::new(StationConfig {
        endpoints: vec![spec(0), spec(1)],
        ..config
    });
    let (tried, first) = started(station.arrive(at(0), &sized(1)));
    let (_, second) = started(station.arrive(at(0), &sized(1)));
    assert_eq!(station.step_back(at(0), tried, true), Again::Elsewhere);
    let (served, endpoint) = started(station.arrive(at(0), &sized(1)));
    assert_eq!((endpoint, second), (first, 1 - first));
    // It cannot go where it was, and stands before the others.
    assert_eq!(waits(station.again(at(0), tried)), tried);
    let waiting = wait(&mut station, at(0), 2);
    assert_eq!(station.next_wakeup(), Some(at(1_000)));
    station.finish(at(500), served, 1);
    assert_eq!(starts(&mut station, &waiting), [0]);
    // Two wait still.
    assert_eq!(station.next_wakeup(), Some(at(1_000)));
    station.expire(at(1_000));
    assert!(station.queues().unwrap().1);
}

#[test]
fn those_whose_time_is_up_turn_no_trigger() {
    let mut station = Station::new(StationConfig {
        classes: vec![ClassSpec {
            timeout: Some(ms(500)),
            ..ClassSpec::default()
        }],
        ..srq(1, |order| order.queues.trigger = Trigger::Waiting(1))
    });
    start(&mut station, at(0), 1);
    wait(&mut station, at(0), 2);
    station.expire(at(500));
    assert_eq!(station.waiting(), 0);
    station.expire(at(2_000));
    assert!(!station.queues().unwrap().1);
}

#[test]
fn after_a_quiet_time_there_is_nothing_beyond_the_places() {
    let mut station = Station::new(srq(2, |order| {
        order.queues.trigger = Trigger::Waiting(2);
    }));
    let mut served = start(&mut station, at(0), 2);
    let waiting = wait(&mut station, at(0), 3);
    assert_eq!(
        run(&mut station, at(1_050), &waiting),
        [(1_000, 0), (1_050, 1)]
    );
    assert_eq!(station.load(0).running, 4);
    // None waits from now on.
    served.extend([waiting[0], waiting[1]]);
    station.cancel(at(1_050), waiting[2]);
    station.expire(at(6_049));
    assert!(station.queues().unwrap().1);
    station.expire(at(6_050));
    assert!(!station.queues().unwrap().1);
    let next = wait(&mut station, at(6_050), 1);
    for (&ticket, expected) in served.iter().zip([vec![], vec![], vec![0], vec![]]) {
        station.finish(at(6_100), ticket, 1);
        assert_eq!(starts(&mut station, &next), expected);
    }
}

#[test]
fn a_known_large_request_begins_in_the_second_queue() {
    let mut station = Station::new(srq(10, |order| {
        order.large_bytes = Some(1_000);
        order.queues.first_share_percent = 75;
    }));
    for (size, queue) in [
        (Size::Exact(999), 0),
        (Size::Exact(1_000), 1),
        (Size::Unknown, 0),
    ] {
        let arrival = Arrival { size, ..sized(0) };
        let (ticket, _) = started(station.arrive(at(0), &arrival));
        let mut expected = [0; 4];
        expected[queue] = 1;
        assert_eq!(members(&station), expected, "{size:?}");
        assert_eq!(station.load(0).demoted, queue);
        station.finish(at(0), ticket, 1);
    }
    assert_eq!(station.load(0), EndpointLoad::default());
}

#[test]
fn a_large_request_has_all_of_the_second_quantum() {
    let mut station = Station::new(srq(10, |order| order.large_bytes = Some(1)));
    start(&mut station, at(0), 1);
    station.expire(at(499));
    assert_eq!(members(&station), [0, 1, 0, 0]);
    station.expire(at(500));
    assert_eq!(members(&station), [0, 0, 1, 0]);
    assert_eq!(station.load(0).demoted, 1);
}

#[test]
fn large_and_other_requests_that_wait_share_the_starts() {
    let mut station = Station::new(srq(1, |order| {
        order.large_bytes = Some(1_000);
        order.queues.first_share_percent = 75;
    }));
    let (first, _) = started(station.arrive(at(0), &sized(1)));
    let large = [true, true, true, false, false, false, false, false, false];
    let waiting = large.map(|is_large| {
        let bytes = if is_large { 1_000 } else { 999 };
        waits(station.arrive(at(0), &sized(bytes)))
    });
    // Three of four starts are of the first queue.
    assert_eq!(
        served(&mut station, first, &waiting),
        [3, 4, 0, 5, 6, 7, 1, 8, 2]
    );
}

#[test]
fn a_request_that_is_cancelled_leaves_no_trace() {
    let mut station = Station::new(srq(2, |order| {
        order.queues.samples_min = 1;
        order.queues.interval = Duration::from_secs(1);
    }));
    let all = start(&mut station, at(0), 2);
    let waiting = wait(&mut station, at(0), 2);
    assert_eq!(run(&mut station, at(60), &waiting), [(50, 0)]);
    station.cancel(at(60), waiting[1]);
    station.cancel(at(60), waiting[0]);
    for ticket in all {
        station.cancel(at(600), ticket);
    }
    assert_eq!(members(&station), [0; 4]);
    assert_eq!(station.load(0), EndpointLoad::default());
    // Nothing has left a queue: the quanta stay.
    station.expire(at(5_000));
    let (queues, _) = station.queues().unwrap();
    assert_eq!(queues.quanta(), [50_000_000, 500_000_000]);
    assert_eq!(queues.stats().done, [0; MAX_QUEUES]);
    assert_eq!(station.next_wakeup(), None);
    // And both places are free, but no more.
    start(&mut station, at(5_000), 2);
    wait(&mut station, at(5_000), 1);
}

#[test]
fn one_that_is_cancelled_when_it_may_start_is_not_started() {
    let mut station = Station::new(srq(2, |_| {}));
    start(&mut station, at(0), 2);
    let waiting = wait(&mut station, at(0), 2);
    // The driver was late, and the first would have started at 50 ms.
    station.cancel(at(70), waiting[0]);
    assert_eq!(starts(&mut station, &waiting), [1]);
}

#[test]
fn another_attempt_begins_in_the_first_queue() {
    let mut station = Station::new(StationConfig {
        endpoints: vec![spec(0), spec(1), spec(2)],
        ..srq(2, |_| {})
    });
    let (ticket, endpoint) = started(station.arrive(at(0), &sized(1)));
    station.expire(at(60));
    assert_eq!(members(&station), [0, 1, 0, 0]);
    assert_eq!(station.step_back(at(60), ticket, true), Again::Elsewhere);
    assert_eq!(members(&station), [0; 4]);
    assert_eq!(station.load(endpoint), EndpointLoad::default());
    let (ticket, _) = started(station.again(at(70), ticket));
    assert_eq!(members(&station), [1, 0, 0, 0]);
    station.expire(at(119));
    assert_eq!(members(&station), [1, 0, 0, 0]);
    station.expire(at(120));
    assert_eq!(members(&station), [0, 1, 0, 0]);
    // A hedge is an attempt of its own.
    let (hedge, other) = station.hedge(at(130), ticket).unwrap();
    assert_eq!(members(&station), [1, 1, 0, 0]);
    assert_eq!(station.load(other).demoted, 0);
    station.finish(at(131), hedge, 1);
    station.cancel(at(131), ticket);
    assert_eq!(members(&station), [0; 4]);
}

/// Adapts once a second, by one request at least.
fn adaptable(order: &mut SrqOrder) {
    order.queues.interval = Duration::from_secs(1);
    order.queues.samples_min = 1;
}

#[test]
fn a_queue_that_is_merged_takes_those_under_way_along() {
    let mut station = Station::new(srq(10, adaptable));
    let long = start(&mut station, at(0), 1);
    let short = start(&mut station, at(0), 1);
    station.finish(at(10), short[0], 1);
    station.expire(at(600));
    assert_eq!(members(&station), [0, 0, 1, 0]);
    // None has ended in the last queue.
    station.expire(at(1_000));
    let (queues, _) = station.queues().unwrap();
    assert_eq!((queues.count(), queues.stats().merges), (2, 1));
    assert_eq!(members(&station), [0, 1, 0, 0]);
    assert_eq!(station.load(0).demoted, 1);
    station.finish(at(1_100), long[0], 1);
    let (queues, _) = station.queues().unwrap();
    assert_eq!(queues.stats().done[..3], [1, 1, 0]);
    assert_eq!(station.load(0), EndpointLoad::default());
}

#[test]
fn a_queue_that_is_split_moves_those_that_have_used_up_its_quantum() {
    let mut station = Station::new(srq(10, |order| {
        adaptable(order);
        order.queues.quanta = vec![50_000_000];
        order.queues.t_split = 0.1;
    }));
    let all = start(&mut station, at(0), 3);
    // They have had 150 and 450 ms in the last queue, 300 on average.
    station.finish(at(200), all[0], 1);
    station.finish(at(500), all[1], 1);
    let late = start(&mut station, at(900), 1);
    station.expire(at(1_000));
    let (queues, _) = station.queues().unwrap();
    assert_eq!((queues.count(), queues.stats().splits), (3, 1));
    // The first quantum has doubled, for all went on from its queue.
    assert_eq!(queues.quanta(), [100_000_000, 300_000_000]);
    // The one that was there for longer than that goes on at once, the other after it.
    assert_eq!(members(&station), [0, 1, 1, 0]);
    station.expire(at(1_249));
    assert_eq!(members(&station), [0, 1, 1, 0]);
    station.expire(at(1_250));
    assert_eq!(members(&station), [0, 0, 2, 0]);
    station.finish(at(1_250), late[0], 1);
    station.finish(at(1_250), all[2], 1);
    assert_eq!(members(&station), [0; 4]);
}

#[test]
fn a_quantum_that_has_grown_demotes_later() {
    let mut station = Station::new(srq(2, adaptable));
    let first = start(&mut station, at(0), 1);
    station.finish(at(100), first[0], 1);
    start(&mut station, at(970), 2);
    let waiting = wait(&mut station, at(990), 1);
    // A quantum that shrinks would free a place.
    assert_eq!(station.next_wakeup(), Some(at(1_000)));
    station.expire(at(1_000));
    assert_eq!(station.queues().unwrap().0.quanta()[0], 100_000_000);
    assert_eq!(station.next_wakeup(), Some(at(1_070)));
    assert_eq!(run(&mut station, at(2_000), &waiting), [(1_070, 0)]);
}

#[test]
fn a_driver_that_is_late_past_the_end_of_an_interval_changes_nothing() {
    let run = |calls: &[u64]| {
        let mut station = Station::new(srq(2, adaptable));
        let first = start(&mut station, at(0), 1);
        station.finish(at(100), first[0], 1);
        start(&mut station, at(960), 1);
        for &ms in calls {
            station.expire(at(ms));
        }
        let (queues, _) = station.queues().unwrap();
        (queues.quanta().to_vec(), *queues.stats())
    };
    // The quantum has doubled at a second, before 50 ms were used up.
    let punctual = run(&[1_000, 1_030]);
    assert_eq!(punctual.1.members[..2], [1, 0]);
    assert_eq!(run(&[1_030]), punctual);
    let punctual = run(&[1_000, 1_060]);
    assert_eq!(punctual.1.members[..2], [0, 1]);
    assert_eq!(run(&[1_100]), punctual);
    // Intervals in which nothing happens do nothing, however many they are.
    let punctual = run(&[1_000, 1_060, 2_000, 3_000, 4_000]);
    assert_eq!(run(&[4_000]), punctual);
    let year = 365 * 24 * 3_600 * 1_000;
    assert_eq!(run(&[4_000, year]), punctual);
}

#[test]
fn a_quantum_that_shrinks_frees_a_place_at_the_end_of_the_interval() {
    let mut station = Station::new(srq(2, |order| {
        adaptable(order);
        order.queues.adj_d = 1.0;
        order.queues.t_desc = 0.0;
        order.queues.quanta = vec![100_000_000, 500_000_000];
    }));
    // They have had 30 and 70 ms: the quantum is 50 ms less.
    let first = start(&mut station, at(0), 2);
    station.finish(at(30), first[0], 1);
    station.finish(at(70), first[1], 1);
    start(&mut station, at(940), 2);
    let waiting = wait(&mut station, at(940), 1);
    assert_eq!(run(&mut station, at(1_020), &waiting), [(1_000, 0)]);
    assert_eq!(station.queues().unwrap().0.quanta()[0], 50_000_000);
}

#[test]
fn whether_there_is_room_is_told_by_the_present_time() {
    let mut station = Station::new(srq(2, |_| {}));
    start(&mut station, at(0), 2);
    assert!(!station.has_room(at(49)));
    assert!(station.has_room(at(50)));
    start(&mut station, at(50), 1);
    assert!(!station.has_room(at(50)));
    let waiting = wait(&mut station, at(50), 1);
    assert!(station.is_short_of_places(at(99)));
    assert_eq!(starts(&mut station, &waiting), []);
    // It starts, and there is none left beyond the two places.
    assert!(station.is_short_of_places(at(100)));
    assert_eq!(starts(&mut station, &waiting), [0]);
}

#[test]
fn elapsed_time_is_measured_with_the_wait() {
    let quantum = |statistics| {
        let mut station = Station::new(srq(1, |order| {
            adaptable(order);
            order.statistics = statistics;
            order.queues.samples_min = 2;
            order.queues.t_desc = 0.0;
        }));
        let first = start(&mut station, at(0), 1);
        let waiting = wait(&mut station, at(0), 1);
        station.finish(at(20), first[0], 1);
        station.finish(at(30), waiting[0], 1);
        station.expire(at(1_000));
        station.queues().unwrap().0.quanta()[0]
    };
    // A fifth of the mean less: of 20 and 10 ms, or of 20 and 30.
    assert_eq!(quantum(Measured::Attained), 47_000_000);
    assert_eq!(quantum(Measured::Elapsed), 45_000_000);
}

#[test]
fn a_station_that_takes_over_goes_on_with_the_quanta() {
    let quanta = |station: &Station| station.queues().unwrap().0.quanta().to_vec();
    let mut before = Station::new(srq(2, adaptable));
    let first = start(&mut before, at(0), 1);
    before.finish(at(100), first[0], 1);
    before.expire(at(1_000));
    // The first has doubled, and the last two are one.
    assert_eq!(quanta(&before), [100_000_000]);
    let mut next = Station::new(StationConfig {
        max_waiting: 7,
        ..srq(3, adaptable)
    });
    next.inherit_queues(&before);
    assert_eq!(quanta(&next), [100_000_000]);
    // Not under other parameters, and not if there is a request.
    let other = |order: &mut SrqOrder| {
        adaptable(order);
        order.queues.adj_i = 3.0;
    };
    let mut next = Station::new(srq(2, other));
    next.inherit_queues(&before);
    assert_eq!(quanta(&next), [50_000_000, 500_000_000]);
    let mut next = Station::new(srq(2, adaptable));
    start(&mut next, at(0), 1);
    next.inherit_queues(&before);
    assert_eq!(quanta(&next), [50_000_000, 500_000_000]);
}
