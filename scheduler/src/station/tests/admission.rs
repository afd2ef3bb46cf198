//! Tests of refusals: which requests are turned away, when, and in whose place.

use super::*;

#[test]
fn full_queues_refuse_or_displace() {
    let mut station = Station::new(StationConfig {
        classes: vec![level(0), level(1)],
        max_waiting: 2,
        ..config(1)
    });
    started(station.arrive(at(0), &of_class(1)));
    let low = [10, 20].map(|bytes| {
        let arrival = Arrival {
            class: 1,
            ..sized(bytes)
        };
        waits(station.arrive(at(0), &arrival))
    });
    let another = station.arrive(at(0), &of_class(1));
    assert_eq!(refused(another), RefusalReason::QueueFull);
    // The last of the lowest level gives way to a higher level, not to its own.
    waits(station.arrive(at(0), &of_class(0)));
    match station.poll() {
        Some(Event::Refused { ticket, refusal }) => {
            assert_eq!((ticket, refusal.reason), (low[1], RefusalReason::Displaced));
        }
        other => panic!("{other:?}"),
    }
    waits(station.arrive(at(0), &of_class(0)));
    assert!(station.poll().is_some());
    let full = station.arrive(at(0), &of_class(0));
    assert_eq!(refused(full), RefusalReason::QueueFull);
    assert_eq!(station.waiting(), 2);
    let counted = station.stats();
    assert_eq!(counted[1].refused[RefusalReason::Displaced.index()], 2);
    assert_eq!(counted[1].refused[RefusalReason::QueueFull.index()], 1);
}

#[test]
fn places_are_short_while_all_are_taken_and_one_was_missed() {
    let mut station = Station::new(StationConfig {
        max_waiting: 1,
        max_active: 3,
        ..config(2)
    });
    let (first, _) = started(station.arrive(at(0), &of_class(0)));
    let (second, _) = started(station.arrive(at(0), &of_class(0)));
    // All are taken, and no request needed one.
    assert!(!station.is_short_of_places(at(1)));
    let waiting = waits(station.arrive(at(1), &of_class(0)));
    assert!(station.is_short_of_places(at(100_000)));
    station.cancel(at(100_000), waiting);
    assert!(!station.is_short_of_places(at(100_000)));
    // One that was turned away asks again soon, but not for ever.
    waits(station.arrive(at(200_000), &of_class(0)));
    refused(station.arrive(at(200_000), &of_class(0)));
    station.finish(at(200_000), first, 10);
    assert!(station.is_short_of_places(at(209_999)));
    assert!(!station.is_short_of_places(at(210_000)));
    // Nor is one short of places where there is room.
    let waiting = waits(station.arrive(at(300_000), &of_class(0)));
    station.cancel(at(300_000), waiting);
    assert!(station.is_short_of_places(at(300_001)));
    station.cancel(at(300_002), second);
    assert!(!station.is_short_of_places(at(300_002)));
}

#[test]
fn time_is_up_for_those_who_wait_too_long() {
    let patient = ClassSpec {
        timeout: Some(ms(500)),
        ..level(0)
    };
    let mut station = Station::new(StationConfig {
        classes: vec![patient, level(0)],
        ..config(1)
    });
    let (first, _) = started(station.arrive(at(0), &of_class(0)));
    let early = waits(station.arrive(at(100), &of_class(0)));
    waits(station.arrive(at(200), &of_class(0)));
    waits(station.arrive(at(0), &of_class(1)));
    assert_eq!(station.next_wakeup(), Some(at(600)));
    station.expire(at(599));
    assert_eq!(station.poll(), None);
    station.expire(at(600));
    match station.poll() {
        Some(Event::Refused { ticket, refusal }) => {
            assert_eq!((ticket, refusal.reason), (early, RefusalReason::Timeout));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(station.next_wakeup(), Some(at(700)));
    assert_eq!(station.waiting(), 2);
    // A void ticket changes nothing.
    station.cancel(at(600), early);
    station.finish(at(600), early, 1);
    assert_eq!(station.waiting(), 2);
    station.finish(at(601), first, 1);
    assert!(station.poll().is_some());
}

#[test]
fn late_ones_are_dropped_not_delayed() {
    let media = ClassSpec {
        deadline: Some(ms(25)),
        drop_late: true,
        ..level(0)
    };
    let mut station = Station::new(StationConfig {
        classes: vec![media],
        ..config(1)
    });
    // One every 10 ms.
    for n in 0..10 {
        let (ticket, _) = started(station.arrive(at(n * 10), &of_class(0)));
        station.finish(at(n * 10 + 10), ticket, 1);
    }
    let (first, _) = started(station.arrive(at(100), &of_class(0)));
    for _ in 0..3 {
        waits(station.arrive(at(100), &of_class(0)));
    }
    // Three before it: 30 ms.
    let late = station.arrive(at(100), &of_class(0));
    assert_eq!(refused(late), RefusalReason::Late);
    // The server stalls: a request that has missed the deadline is not started.
    station.finish(at(126), first, 1);
    for _ in 0..3 {
        match station.poll() {
            Some(Event::Refused { refusal, .. }) => {
                assert_eq!(refusal.reason, RefusalReason::Late);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(station.poll(), None);
    assert_eq!(station.load(0), EndpointLoad::default());
}

#[test]
fn a_queue_of_one_endpoint_is_served_by_it_alone() {
    let media = ClassSpec {
        deadline: Some(ms(25)),
        drop_late: true,
        ..level(0)
    };
    let mut station = Station::new(StationConfig {
        classes: vec![media],
        scope: Scope::Endpoint,
        ..config(2)
    });
    // One every 10 ms at each.
    for n in 0..10 {
        let both = [0; 2].map(|_| started(station.arrive(at(n * 10), &of_class(0))).0);
        for ticket in both {
            station.finish(at(n * 10 + 10), ticket, 1);
        }
    }
    for _ in 0..2 {
        started(station.arrive(at(100), &of_class(0)));
    }
    for _ in 0..6 {
        waits(station.arrive(at(100), &of_class(0)));
    }
    assert_eq!(
        [0, 1].map(|endpoint| station.load(endpoint).requests),
        [4, 4]
    );
    // Three wait at each: 30 ms there, though both together serve one every 5 ms.
    let late = station.arrive(at(100), &of_class(0));
    assert_eq!(refused(late), RefusalReason::Late);
}

#[test]
fn nobody_gives_way_to_one_who_would_be_late() {
    let media = ClassSpec {
        deadline: Some(ms(15)),
        drop_late: true,
        ..level(0)
    };
    let mut station = Station::new(StationConfig {
        classes: vec![media, level(1)],
        max_waiting: 3,
        ..config(1)
    });
    // One every 10 ms.
    for n in 0..10 {
        let (ticket, _) = started(station.arrive(at(n * 10), &of_class(0)));
        station.finish(at(n * 10 + 10), ticket, 1);
    }
    started(station.arrive(at(100), &of_class(0)));
    waits(station.arrive(at(100), &of_class(0)));
    waits(station.arrive(at(100), &of_class(0)));
    waits(station.arrive(at(100), &of_class(1)));
    // The queue is full, and two before it are 20 ms.
    let late = station.arrive(at(100), &of_class(0));
    assert_eq!(refused(late), RefusalReason::Late);
    assert_eq!(station.poll(), None, "the low one waits on");
}

#[test]
fn without_displacement_a_full_queue_is_full_for_all() {
    for scope in [Scope::Cluster, Scope::Endpoint] {
        let mut station = Station::new(StationConfig {
            classes: vec![level(0), level(1)],
            max_waiting: 2,
            scope,
            admission: Admission {
                displace: false,
                ..Admission::default()
            },
            ..config(1)
        });
        started(station.arrive(at(0), &of_class(1)));
        waits(station.arrive(at(0), &of_class(1)));
        waits(station.arrive(at(0), &of_class(1)));
        let high = station.arrive(at(0), &of_class(0));
        assert_eq!(refused(high), RefusalReason::QueueFull);
        assert_eq!(station.poll(), None);
        assert_eq!(station.waiting(), 2);
    }
}

#[test]
fn early_discard_takes_low_levels_first() {
    let low = ClassSpec {
        drop_thresholds: (0.25, 0.5),
        ..level(1)
    };
    let mut station = Station::new(StationConfig {
        classes: vec![level(0), low],
        admission: Admission {
            averaging: Duration::ZERO,
            ..Admission::default()
        },
        ..config(1)
    });
    started(station.arrive(at(0), &of_class(0)));
    let drawn = |station: &mut Station, random| {
        let arrival = Arrival {
            random,
            ..of_class(1)
        };
        station.arrive(at(1), &arrival)
    };
    for _ in 0..25 {
        waits(drawn(&mut station, 0));
    }
    // 37 of 100 wait: half way from the first threshold to the second.
    for _ in 0..12 {
        waits(station.arrive(at(1), &of_class(0)));
    }
    let below_half = u64::MAX / 100 * 47;
    let above_half = u64::MAX / 100 * 53;
    let discarded = drawn(&mut station, below_half);
    assert_eq!(refused(discarded), RefusalReason::EarlyDiscard);
    waits(drawn(&mut station, above_half));
    for _ in 0..12 {
        waits(station.arrive(at(1), &of_class(0)));
    }
    // 50: all of the low level, none of the high one.
    let discarded = drawn(&mut station, u64::MAX);
    assert_eq!(refused(discarded), RefusalReason::EarlyDiscard);
    for _ in 0..50 {
        waits(station.arrive(at(1), &of_class(0)));
    }
    assert_eq!(station.waiting(), 100);
}

#[test]
fn the_averaged_length_falls_while_no_request_comes() {
    let low = ClassSpec {
        drop_thresholds: (0.25, 0.5),
        ..level(1)
    };
    let mut station = Station::new(StationConfig {
        classes: vec![level(0), low],
        ..config(1)
    });
    let (mut running, _) = started(station.arrive(at(0), &of_class(0)));
    for _ in 0..60 {
        waits(station.arrive(at(0), &of_class(0)));
    }
    let mut twin = station.clone();
    let discarded = twin.arrive(at(2_000), &of_class(1));
    assert_eq!(refused(discarded), RefusalReason::EarlyDiscard);
    // All are served within two seconds; a minute later none waits.
    for now in 0..60 {
        running = served_from(&mut station, at(now * 30), running);
    }
    station.finish(at(1_800), running, 100);
    let (last, _) = started(station.arrive(at(60_000), &of_class(1)));
    station.cancel(at(60_000), last);
    assert!(station.length.update(at(60_000), 0) < 1e-9);
}

/// Checks that each change of the queues updates the averaged length, whatever
/// changes them.
#[test]
fn the_averaged_length_is_that_of_the_queues_from_each_change_on() {
    let patient = ClassSpec {
        timeout: Some(ms(500)),
        ..level(0)
    };
    // A time constant of 500 ms: of what differs, this much is left after it.
    let left = f64::exp(-1.0);
    for scope in [Scope::Cluster, Scope::Endpoint] {
        let mut station = Station::new(StationConfig {
            classes: vec![patient.clone(), level(0)],
            scope,
            ..config(1)
        });
        let mut expected = 0.0_f64;
        let mut averages = |station: &Station, now: u64, before: f64| {
            expected = before + (expected - before) * left;
            let mut length = station.length;
            let average = length.update(at(now), 0);
            assert!(
                (average - expected).abs() < 1e-9,
                "{scope:?} at {now}: {average} for {expected}"
            );
        };
        let (first, _) = started(station.arrive(at(0), &of_class(1)));
        let [second, third] = [0; 2].map(|_| waits(station.arrive(at(0), &of_class(1))));
        waits(station.arrive(at(0), &of_class(0)));
        averages(&station, 500, 3.0);
        station.expire(at(500));
        averages(&station, 1_000, 2.0);
        station.finish(at(1_000), first, 1);
        averages(&station, 1_500, 1.0);
        assert_eq!(station.step_back(at(1_500), second, true), Again::Here);
        averages(&station, 2_000, 0.0);
        waits(station.again(at(2_000), second));
        averages(&station, 2_500, 1.0);
        station.cancel(at(2_500), second);
        averages(&station, 3_000, 0.0);
        station.finish(at(3_000), third, 1);
        assert_eq!(station.active(), 0);
    }
}

#[test]
fn those_that_are_passed_over_count_towards_the_averaged_length() {
    let mut station = Station::new(config(2));
    let belongs = Some(Session {
        identity: 0,
        strict: true,
    });
    started(station.arrive_in(at(0), &sized(1), belongs));
    let (other, _) = started(station.arrive(at(0), &sized(1)));
    waits(station.arrive_in(at(0), &sized(1), belongs));
    waits(station.arrive(at(0), &sized(1)));
    // The second of the two starts, past the first.
    station.finish(at(0), other, 1);
    assert_eq!(station.waiting(), 1);
    let average = station.length.update(at(500), 1);
    let expected = 1.0 - f64::exp(-1.0);
    assert!((average - expected).abs() < 1e-9, "{average}");
}

#[test]
fn idle_time_makes_no_request_late() {
    let media = ClassSpec {
        deadline: Some(ms(25)),
        drop_late: true,
        ..level(0)
    };
    let mut station = Station::new(StationConfig {
        classes: vec![media],
        max_waiting: 2,
        ..config(1)
    });
    // Each takes 10 ms; for eight hours there is none.
    let morning = 8 * 3_600_000;
    for begun in [0, 10, morning] {
        let (ticket, _) = started(station.arrive(at(begun), &of_class(0)));
        station.finish(at(begun + 10), ticket, 1);
    }
    let now = at(morning + 10);
    started(station.arrive(now, &of_class(0)));
    waits(station.arrive(now, &of_class(0)));
    waits(station.arrive(now, &of_class(0)));
    let Verdict::Refuse(refusal) = station.arrive(now, &of_class(0)) else {
        panic!("the queue is full");
    };
    let expected = (RefusalReason::QueueFull, Some(ms(30)));
    assert_eq!((refusal.reason, refusal.retry_after), expected);
}

#[test]
fn time_in_which_another_is_served_is_not_idle() {
    let mut station = Station::new(config(2));
    let (first, _) = started(station.arrive(at(0), &sized(1)));
    let (second, _) = started(station.arrive(at(5), &sized(1)));
    station.finish(at(10), first, 1);
    started(station.arrive(at(25), &sized(1)));
    station.finish(at(30), second, 1);
    assert_eq!(station.drain.time_for(1), Some(ms(20)));
}

/// Creates a station that looks at how busy the channel to the clients is.
fn with_channel(classes: Vec<ClassSpec>) -> Station {
    Station::new(StationConfig {
        classes,
        max_requests: 10,
        admission: Admission {
            channel: Some(ChannelRule {
                max_backlog: ms(100),
                large_bytes: 10_000,
                level: 3,
            }),
            ..Admission::default()
        },
        ..config(1)
    })
}

#[test]
fn an_overloaded_channel_refuses_large_ones_of_low_priority() {
    let mut station = with_channel(vec![level(0), level(5)]);
    let mut ask = |class, bytes, backlog| {
        let arrival = Arrival {
            class,
            channel_backlog: ms(backlog),
            ..sized(bytes)
        };
        station.arrive(at(0), &arrival)
    };
    assert_eq!(refused(ask(1, 10_000, 101)), RefusalReason::ChannelOverload);
    started(ask(1, 9_999, 101));
    started(ask(1, 10_000, 100));
    started(ask(0, 10_000, 101));
}

#[test]
fn an_overloaded_channel_refuses_what_would_be_late() {
    let media = ClassSpec {
        deadline: Some(ms(50)),
        drop_late: true,
        ..level(1)
    };
    let mut station = with_channel(vec![media]);
    let mut ask = |backlog, ahead| {
        let arrival = Arrival {
            channel_backlog: ms(backlog),
            channel_ahead: ms(ahead),
            ..sized(10)
        };
        station.arrive(at(0), &arrival)
    };
    assert_eq!(refused(ask(101, 51)), RefusalReason::Late);
    started(ask(101, 50));
    started(ask(100, 51));
}

#[test]
fn others_are_tried_before_a_request_is_refused() {
    let mut station = Station::new(StationConfig {
        max_requests: 2,
        ..config(3)
    });
    let (ticket, first) = started(station.arrive(at(0), &sized(1)));
    let (same, second) = started(fail(&mut station, at(0), ticket));
    assert_eq!(same, ticket);
    let (_, third) = started(fail(&mut station, at(0), ticket));
    let mut tried = [first, second, third];
    tried.sort_unstable();
    assert_eq!(tried, [0, 1, 2]);
    assert_eq!(
        refused(fail(&mut station, at(0), ticket)),
        RefusalReason::NoEndpoint
    );
    for endpoint in 0..3 {
        assert_eq!(station.load(endpoint), EndpointLoad::default());
    }
}

#[test]
fn a_full_endpoint_redirects() {
    let mut station = Station::new(StationConfig {
        dispatch: Dispatch::RingHash,
        scope: Scope::Endpoint,
        max_waiting: 1,
        ..config(2)
    });
    // All have one hash: one endpoint, its queue, then the other one.
    let (_, first) = started(station.arrive(at(0), &sized(1)));
    waits(station.arrive(at(0), &sized(1)));
    let (_, other) = started(station.arrive(at(0), &sized(1)));
    assert_ne!(first, other);
    waits(station.arrive(at(0), &sized(1)));
    let full = station.arrive(at(0), &sized(1));
    assert_eq!(refused(full), RefusalReason::QueueFull);
}
