//! Tests of endpoints that come and go, and of requests that are tried again.

use super::*;

/// Returns the parameters for one queue at each endpoint.
fn bound(endpoints: u64) -> StationConfig {
    StationConfig {
        scope: Scope::Endpoint,
        ..config(endpoints)
    }
}

fn starts(station: &mut Station) -> Vec<(Ticket, usize)> {
    std::iter::from_fn(|| station.poll())
        .map(|event| match event {
            Event::Started { ticket, endpoint } => (ticket, endpoint),
            other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn what_is_out_gets_nothing_and_is_back_at_once() {
    let mut station = Station::new(StationConfig {
        max_requests: 10,
        ..config(3)
    });
    station.set_out(at(0), 1, true);
    let endpoints: Vec<_> = (0..4)
        .map(|_| started(station.arrive(at(0), &sized(1))).1)
        .collect();
    assert_eq!(endpoints, [0, 2, 0, 2]);
    station.set_out(at(1), 1, false);
    assert_eq!(started(station.arrive(at(1), &sized(1))).1, 1);
}

#[test]
fn who_waits_for_an_endpoint_goes_elsewhere_when_it_is_out() {
    let mut station = Station::new(bound(3));
    let running = [0, 1, 2].map(|_| started(station.arrive(at(0), &sized(1))).0);
    let waiting = [0, 1, 2].map(|_| waits(station.arrive(at(0), &sized(1))));
    station.set_out(at(1), 0, true);
    assert_eq!(starts(&mut station), []);
    assert_eq!(station.load(0).requests, 1, "the one in service stays");
    assert_eq!(station.load(1).requests + station.load(2).requests, 5);
    station.finish(at(2), running[0], 1);
    assert_eq!(starts(&mut station), [], "nobody is sent there");
    station.finish(at(2), running[1], 1);
    station.finish(at(2), running[2], 1);
    let begun = starts(&mut station);
    assert_eq!(begun.len(), 2);
    // Back: it is there for the next one.
    station.set_out(at(3), 0, false);
    assert_eq!(started(station.arrive(at(3), &sized(1))).1, 0);
    for (ticket, _) in begun {
        station.finish(at(4), ticket, 1);
    }
    let last = starts(&mut station);
    assert_eq!(last.len(), 1);
    assert!(waiting.contains(&last[0].0));
}

#[test]
fn in_one_queue_who_waits_is_started_when_an_endpoint_returns() {
    let mut station = Station::new(config(2));
    station.set_out(at(0), 0, true);
    started(station.arrive(at(0), &sized(1)));
    let waiting = waits(station.arrive(at(0), &sized(1)));
    station.set_out(at(1), 0, false);
    assert_eq!(starts(&mut station), [(waiting, 0)]);
}

#[test]
fn with_too_few_left_all_are_used() {
    for scope in [Scope::Cluster, Scope::Endpoint] {
        let mut station = Station::new(StationConfig {
            healthy_panic_percent: 50,
            max_requests: 10,
            scope,
            ..config(4)
        });
        let used = |station: &mut Station| {
            let picks = (0..8).map(|_| started(station.arrive(at(0), &sized(1))));
            let picks: Vec<_> = picks.collect();
            for (ticket, _) in &picks {
                station.finish(at(0), *ticket, 1);
            }
            let mut used: Vec<_> = picks.into_iter().map(|(_, endpoint)| endpoint).collect();
            used.sort_unstable();
            used.dedup();
            used
        };
        station.set_out(at(0), 0, true);
        station.set_out(at(0), 1, true);
        assert_eq!(used(&mut station), [2, 3]);
        station.set_out(at(0), 2, true);
        assert!(station.panics());
        assert_eq!(used(&mut station), [0, 1, 2, 3]);
        station.set_out(at(0), 2, false);
        assert_eq!(used(&mut station), [2, 3]);
    }
}

#[test]
fn without_a_panic_nobody_is_sent_where_all_are_out() {
    for scope in [Scope::Cluster, Scope::Endpoint] {
        let mut station = Station::new(StationConfig { scope, ..config(2) });
        station.set_out(at(0), 0, true);
        station.set_out(at(0), 1, true);
        let refusal = refused(station.arrive(at(0), &sized(1)));
        assert_eq!(refusal, RefusalReason::NoHealthyEndpoint, "{scope:?}");
        assert!(!station.has_room(at(0)));
    }
}

#[test]
fn an_endpoint_that_returns_or_joins_starts_slowly() {
    let round_robin = StationConfig {
        dispatch: Dispatch::RoundRobin,
        max_requests: usize::MAX,
        slow_start: ms(1000),
        ..config(2)
    };
    let share = |station: &mut Station, of, now| {
        let picks = (0..110).map(|_| started(station.arrive(at(now), &sized(1))).1);
        picks.filter(|&endpoint| endpoint == of).count()
    };
    let mut station = Station::new(round_robin);
    station.set_out(at(0), 0, true);
    assert_eq!(share(&mut station, 0, 0), 0);
    station.set_out(at(0), 0, false);
    assert!(share(&mut station, 0, 0).abs_diff(10) <= 1);
    assert!(share(&mut station, 0, 1000).abs_diff(55) <= 1);
    station.start_slowly(at(1000), 0);
    assert!(share(&mut station, 0, 1000).abs_diff(10) <= 1);
    let slots = station.set_endpoints(at(2000), &[spec(1), spec(7)]);
    assert_eq!(slots, [1, 2], "the first still has requests");
    assert!(share(&mut station, 2, 2000).abs_diff(10) <= 1);
    assert_eq!(share(&mut station, 0, 2000), 0);
}

#[test]
fn a_slot_is_given_to_another_once_its_requests_are_over() {
    let mut station = Station::new(config(2));
    let (ticket, endpoint) = started(station.arrive(at(0), &sized(1)));
    assert_eq!(endpoint, 0);
    assert_eq!(station.set_endpoints(at(0), &[spec(1), spec(2)]), [1, 2]);
    assert_eq!(station.load(0).running, 1);
    station.finish(at(0), ticket, 1);
    assert_eq!(station.set_endpoints(at(0), &[spec(2), spec(3)]), [2, 0]);
    assert_eq!(
        station.set_endpoints(at(0), &[spec(1), spec(3), spec(2)]),
        [1, 0, 2]
    );
}

#[test]
fn one_that_leaves_and_is_back_keeps_its_requests_and_is_in_use() {
    let mut station = Station::new(config(2));
    started(station.arrive(at(0), &sized(1)));
    station.set_out(at(0), 0, true);
    station.set_endpoints(at(0), &[spec(1)]);
    assert_eq!(station.set_endpoints(at(0), &[spec(0), spec(1)]), [0, 1]);
    assert_eq!(station.load(0).running, 1);
    assert!(
        station.is_usable(0),
        "it is a new one as far as health goes"
    );
}

#[test]
fn who_waits_for_one_that_is_removed_goes_elsewhere() {
    let mut station = Station::new(StationConfig {
        dispatch: Dispatch::Maglev,
        ..bound(2)
    });
    let hashed = |hash| Arrival { hash, ..sized(1) };
    let of_first = (0..).find(|&hash| {
        let mut fresh = station.clone();
        started(fresh.arrive(at(0), &hashed(hash))).1 == 0
    });
    let arrival = hashed(of_first.expect("there is one"));
    started(station.arrive(at(0), &arrival));
    let waiting = waits(station.arrive(at(0), &arrival));
    station.set_endpoints(at(0), &[spec(1)]);
    assert_eq!(starts(&mut station), [(waiting, 1)]);
}

#[test]
fn learnt_intervals_outlive_their_endpoints() {
    let mut station = Station::new(StationConfig {
        dispatch: Dispatch::Sita(Intervals::Learnt),
        scope: Scope::Endpoint,
        max_requests: 10,
        ..config(2)
    });
    for n in 0..1024 {
        let (ticket, _) = started(station.arrive(at(n), &sized(100 + n % 10)));
        station.finish(at(n), ticket, 100 + n % 10);
    }
    let learnt = station.intervals().unwrap()[0];
    assert!(learnt.1 < 200, "{learnt:?}");
    station.set_endpoints(at(2000), &[spec(1), spec(5)]);
    assert_eq!(station.intervals().unwrap()[0], learnt);
}

#[test]
fn an_endpoint_that_starts_slowly_gets_its_share_of_single_requests() {
    let mut station = Station::new(StationConfig {
        slow_start: Duration::from_millis(1000),
        ..config(2)
    });
    station.start_slowly(at(0), 1);
    // Of each 110: a tenth of the other's, half of it, as much.
    for (now, expected) in [(0, 10), (500, 37), (1000, 55)] {
        let served = (0..110).filter(|_| {
            let (ticket, endpoint) = started(station.arrive(at(now), &sized(1)));
            station.finish(at(now), ticket, 1);
            endpoint == 1
        });
        assert!(served.count().abs_diff(expected) <= 1, "{now}");
    }
}

#[test]
fn a_request_is_tried_elsewhere_then_where_it_was() {
    let mut station = Station::new(config(2));
    let (ticket, first) = started(station.arrive(at(0), &sized(1)));
    assert_eq!(station.step_back(at(0), ticket, true), Again::Elsewhere);
    assert_eq!(station.load(first), EndpointLoad::default());
    let (same, second) = started(station.again(at(0), ticket));
    assert_eq!((same, second), (ticket, 1 - first));
    assert_eq!(station.step_back(at(0), ticket, true), Again::Here);
    assert_eq!(station.active(), 1, "it is there, and holds no place");
    assert!(station.has_room(at(0)));
    started(station.again(at(9), ticket));
    station.finish(at(9), ticket, 1);
    assert_eq!((station.active(), station.repeated()), (0, 0));
}

#[test]
fn an_endpoint_that_could_not_be_reached_is_not_tried_again() {
    let mut station = Station::new(config(2));
    let (ticket, first) = started(station.arrive(at(0), &sized(1)));
    assert_eq!(station.step_back(at(0), ticket, true), Again::Elsewhere);
    started(station.again(at(0), ticket));
    assert_eq!(station.step_back(at(0), ticket, false), Again::Here);
    for now in 1..4 {
        assert_eq!(started(station.again(at(now), ticket)).1, first);
        assert_eq!(station.step_back(at(now), ticket, true), Again::Here);
    }
    started(station.again(at(4), ticket));
    assert_eq!(station.step_back(at(4), ticket, false), Again::Nowhere);
    assert_eq!(station.active(), 0);
}

#[test]
fn a_request_between_two_attempts_may_be_cancelled() {
    let mut station = Station::new(config(1));
    let (ticket, _) = started(station.arrive(at(0), &sized(1)));
    assert_eq!(station.step_back(at(0), ticket, true), Again::Here);
    station.cancel(at(0), ticket);
    assert_eq!((station.active(), station.repeated()), (0, 0));
    assert!(matches!(station.again(at(0), ticket), Verdict::Refuse(_)));
}

#[test]
fn who_has_tried_all_that_are_left_does_not_wait_for_them() {
    for scope in [Scope::Cluster, Scope::Endpoint] {
        let mut station = Station::new(StationConfig { scope, ..config(2) });
        let (ticket, first) = started(station.arrive(at(0), &sized(1)));
        started(station.arrive(at(0), &sized(1)));
        assert_eq!(station.step_back(at(0), ticket, true), Again::Elsewhere);
        waits(station.again(at(0), ticket));
        station.set_out(at(1), 1 - first, true);
        match station.poll() {
            Some(Event::Refused {
                ticket: own,
                refusal,
            }) => {
                assert_eq!((own, refusal.reason), (ticket, RefusalReason::NoEndpoint));
            }
            other => panic!("{scope:?}: {other:?}"),
        }
        assert_eq!((station.waiting(), station.repeated()), (0, 0));
        assert_eq!(started(station.arrive(at(1), &sized(1))).1, first);
    }
}

#[test]
fn who_waits_hears_as_who_comes_that_no_endpoint_is_left() {
    for scope in [Scope::Cluster, Scope::Endpoint] {
        let full = |healthy_panic_percent| {
            let mut station = Station::new(StationConfig {
                scope,
                healthy_panic_percent,
                ..config(2)
            });
            started(station.arrive(at(0), &sized(1)));
            started(station.arrive(at(0), &sized(1)));
            let waiting = waits(station.arrive(at(0), &sized(1)));
            (station, waiting)
        };
        let (mut station, waiting) = full(0);
        let mut changed = station.clone();
        station.set_out(at(1), 0, true);
        assert_eq!(station.poll(), None, "{scope:?}: one is left");
        station.set_out(at(1), 1, true);
        changed.set_endpoints(at(1), &[]);
        for station in [&mut station, &mut changed] {
            match station.poll() {
                Some(Event::Refused { ticket, refusal }) => {
                    let expected = (waiting, RefusalReason::NoHealthyEndpoint);
                    assert_eq!((ticket, refusal.reason), expected, "{scope:?}");
                }
                other => panic!("{scope:?}: {other:?}"),
            }
            assert_eq!(station.poll(), None);
            assert_eq!((station.waiting(), station.active()), (0, 2));
        }
        // In a panic all are used.
        let (mut station, _) = full(50);
        station.set_out(at(1), 0, true);
        station.set_out(at(1), 1, true);
        assert_eq!(station.poll(), None, "{scope:?}: a panic");
        assert_eq!(station.waiting(), 1);
    }
}

#[test]
fn each_of_two_hundred_endpoints_is_tried_once() {
    let mut station = Station::new(config(200));
    for slot in 0..150 {
        station.set_out(at(0), slot, true);
    }
    let (ticket, first) = started(station.arrive(at(0), &sized(1)));
    let mut tried = vec![first];
    while station.step_back(at(0), ticket, false) == Again::Elsewhere {
        tried.push(started(station.again(at(0), ticket)).1);
    }
    tried.sort_unstable();
    assert!(tried.iter().copied().eq(150..200), "{tried:?}");
    assert_eq!(station.active(), 0);
}

#[test]
fn a_new_endpoint_in_the_slot_of_one_that_was_tried_is_untried() {
    let mut station = Station::new(config(1));
    let (ticket, slot) = started(station.arrive(at(0), &sized(1)));
    assert_eq!(station.step_back(at(0), ticket, true), Again::Here);
    started(station.again(at(0), ticket));
    station.set_endpoints(at(1), &[spec(0), spec(1)]);
    assert_eq!(station.step_back(at(1), ticket, true), Again::Elsewhere);
    assert_eq!(station.set_endpoints(at(2), &[spec(2)]), [slot]);
    assert_eq!(started(station.again(at(2), ticket)), (ticket, slot));
}

#[test]
fn a_place_that_is_left_goes_to_who_waits() {
    let mut station = Station::new(config(1));
    let (ticket, _) = started(station.arrive(at(0), &sized(1)));
    let other = waits(station.arrive(at(0), &sized(1)));
    station.step_back(at(0), ticket, true);
    assert_eq!(starts(&mut station), [(other, 0)]);
    waits(station.again(at(0), ticket));
}

#[test]
fn the_budget_bounds_repetitions_but_not_what_was_never_sent() {
    let mut station = Station::new(StationConfig {
        max_requests: 100,
        retry_budget: RetryBudget {
            percent: 20,
            min: 1,
            max: 3,
        },
        ..config(2)
    });
    let mut tickets: Vec<_> = (0..10)
        .map(|_| started(station.arrive(at(0), &sized(1))).0)
        .collect();
    // 20% of ten.
    for &ticket in &tickets[..2] {
        assert_eq!(station.step_back(at(0), ticket, true), Again::Elsewhere);
    }
    assert!(!station.may_repeat());
    assert_eq!(station.step_back(at(0), tickets[2], true), Again::Denied);
    assert_eq!(
        station.step_back(at(0), tickets[3], false),
        Again::Elsewhere
    );
    assert_eq!((station.repeated(), station.repeats_denied()), (2, 1));
    // A second repetition of the same request is not one more.
    started(station.again(at(0), tickets[0]));
    assert_eq!(station.step_back(at(0), tickets[0], true), Again::Here);
    // One in any case, and three at most.
    tickets.extend((0..90).map(|_| started(station.arrive(at(0), &sized(1))).0));
    assert_eq!(
        station.step_back(at(0), tickets[50], true),
        Again::Elsewhere
    );
    assert_eq!(station.step_back(at(0), tickets[51], true), Again::Denied);
    for &ticket in &tickets {
        station.cancel(at(0), ticket);
    }
    assert_eq!((station.active(), station.repeated()), (0, 0));
    let (ticket, _) = started(station.arrive(at(0), &sized(1)));
    assert_ne!(station.step_back(at(0), ticket, true), Again::Denied);
}

#[test]
fn a_hedge_is_at_another_endpoint_with_room() {
    let mut station = Station::new(StationConfig {
        retry_budget: RetryBudget {
            percent: 0,
            min: 1,
            max: 1,
        },
        ..config(2)
    });
    let (first, endpoint) = started(station.arrive(at(0), &sized(7)));
    let (second, other) = station.hedge(at(1), first).expect("there is room");
    assert_eq!(other, 1 - endpoint);
    assert_eq!(station.load(other).work_bytes, 7);
    assert!(station.hedge(at(1), first).is_none(), "no room, no budget");
    station.cancel(at(2), first);
    assert!(station.hedge(at(2), second).is_none(), "no budget");
    station.finish(at(3), second, 7);
    assert_eq!((station.active(), station.repeated()), (0, 0));
    let (first, _) = started(station.arrive(at(4), &sized(1)));
    assert!(station.hedge(at(4), first).is_some());
}

#[test]
fn breakers_bound_all_and_those_who_wait() {
    let mut station = Station::new(StationConfig {
        max_active: 3,
        max_pending: 1,
        ..bound(2)
    });
    started(station.arrive(at(0), &sized(1)));
    started(station.arrive(at(0), &sized(1)));
    waits(station.arrive(at(0), &sized(1)));
    let refusal = refused(station.arrive(at(0), &sized(1)));
    assert_eq!(refusal, RefusalReason::MaxRequests);
    let mut station = Station::new(StationConfig {
        max_pending: 1,
        ..bound(2)
    });
    for _ in 0..2 {
        started(station.arrive(at(0), &sized(1)));
    }
    waits(station.arrive(at(0), &sized(1)));
    let refusal = refused(station.arrive(at(0), &sized(1)));
    assert_eq!(refusal, RefusalReason::QueueFull);
}
