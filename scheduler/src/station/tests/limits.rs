//! Tests of what holds exactly at a bound, and no sooner or later.

use super::*;

/// Returns rules for the lengths of queues as they are, not averaged.
fn unaveraged(displace: bool) -> Admission {
    Admission {
        averaging: Duration::ZERO,
        displace,
        channel: None,
    }
}

#[test]
fn a_refusal_says_when_to_ask_again_in_whole_seconds() {
    let after = |retry_after| {
        let reason = RefusalReason::Late;
        Refusal {
            reason,
            retry_after,
        }
        .retry_after_s()
    };
    assert_eq!(after(None), 1);
    assert_eq!(after(Some(Duration::ZERO)), 1);
    assert_eq!(after(Some(ms(2_000))), 2);
    assert_eq!(after(Some(ms(2_001))), 3);
    assert_eq!(after(Some(ms(3_600_001))), 3_600);
}

#[test]
fn refusals_have_names_of_their_own() {
    assert_eq!(RefusalReason::Timeout.name(), "queue_timeout");
    assert_eq!(
        RefusalReason::Timeout.detail(),
        "no endpoint became free in time"
    );
    let names: std::collections::BTreeSet<_> =
        RefusalReason::ALL.iter().map(|own| own.name()).collect();
    assert_eq!(names.len(), RefusalReason::ALL.len());
}

#[test]
fn one_is_told_to_wait_for_all_that_wait_and_itself() {
    let mut station = Station::new(StationConfig {
        max_waiting: 2,
        ..config(1)
    });
    for n in 0..3 {
        let (ticket, _) = started(station.arrive(at(n * 10), &sized(1)));
        station.finish(at(n * 10 + 10), ticket, 1);
    }
    started(station.arrive(at(30), &sized(1)));
    waits(station.arrive(at(30), &sized(1)));
    waits(station.arrive(at(30), &sized(1)));
    let Verdict::Refuse(refusal) = station.arrive(at(30), &sized(1)) else {
        panic!("the queue is full");
    };
    // One every 10 ms: the two that wait, and this one.
    assert_eq!(refusal.retry_after, Some(ms(30)));
}

#[test]
fn a_full_queue_is_no_early_discard_where_there_is_none() {
    let mut station = Station::new(StationConfig {
        max_waiting: 2,
        admission: unaveraged(true),
        ..config(1)
    });
    started(station.arrive(at(0), &sized(1)));
    waits(station.arrive(at(0), &sized(1)));
    waits(station.arrive(at(0), &sized(1)));
    assert_eq!(
        refused(station.arrive(at(1), &sized(1))),
        RefusalReason::QueueFull
    );
}

#[test]
fn early_discard_takes_the_draws_below_its_share() {
    let low = ClassSpec {
        drop_thresholds: (0.25, 0.75),
        ..level(1)
    };
    let mut station = Station::new(StationConfig {
        classes: vec![level(0), low],
        max_waiting: 4,
        admission: unaveraged(true),
        ..config(1)
    });
    for _ in 0..3 {
        station.arrive(at(0), &of_class(0));
    }
    // Two of four wait, half way between the thresholds: half of the draws.
    let mut drawn = |random| {
        let arrival = Arrival {
            random,
            ..of_class(1)
        };
        station.arrive(at(1), &arrival)
    };
    // Draws have 53 bits.
    let half = 1 << 63;
    assert_eq!(refused(drawn(half - 1)), RefusalReason::EarlyDiscard);
    waits(drawn(half));
}

#[test]
fn one_more_look_at_the_same_endpoints_makes_no_room_in_queues() {
    let low = ClassSpec {
        drop_thresholds: (0.5, 0.5),
        ..level(1)
    };
    let mut station = Station::new(StationConfig {
        classes: vec![level(0), low],
        scope: Scope::Endpoint,
        max_waiting: 4,
        admission: unaveraged(true),
        ..config(1)
    });
    station.set_endpoints(at(0), &[spec(0)]);
    for _ in 0..3 {
        station.arrive(at(0), &of_class(0));
    }
    // Two of four.
    let low = station.arrive(at(1), &of_class(1));
    assert_eq!(refused(low), RefusalReason::EarlyDiscard);
}

#[test]
fn a_class_displaces_none_in_an_endpoints_queue_that_is_closed_to_it() {
    let bounded = |all| {
        let high = ClassSpec {
            drop_thresholds: (all, all),
            ..level(0)
        };
        let mut station = Station::new(StationConfig {
            classes: vec![high, level(1)],
            scope: Scope::Endpoint,
            max_waiting: 2,
            ..config(1)
        });
        started(station.arrive(at(0), &of_class(1)));
        waits(station.arrive(at(0), &of_class(1)));
        (station.arrive(at(0), &of_class(0)), station)
    };
    // Half of two is one, and that one waits.
    let (verdict, _) = bounded(0.5);
    assert_eq!(refused(verdict), RefusalReason::QueueFull);
    let (verdict, mut station) = bounded(1.0);
    waits(verdict);
    // With all of the queue open to it, one of a lower level gives way.
    waits(station.arrive(at(0), &of_class(0)));
    assert!(
        matches!(station.poll(), Some(Event::Refused { refusal, .. }) if refusal.reason == RefusalReason::Displaced)
    );
    assert_eq!(station.waiting(), 2);
}

#[test]
fn of_equals_the_last_to_come_gives_way() {
    let mut station = Station::new(StationConfig {
        classes: vec![level(0), level(1)],
        max_waiting: 2,
        ..config(1)
    });
    started(station.arrive(at(0), &of_class(1)));
    waits(station.arrive(at(0), &of_class(1)));
    let last = waits(station.arrive(at(0), &of_class(1)));
    waits(station.arrive(at(0), &of_class(0)));
    assert!(matches!(station.poll(), Some(Event::Refused { ticket, .. }) if ticket == last));
}

#[test]
fn at_its_deadline_a_request_is_not_late() {
    let media = |after| ClassSpec {
        deadline: Some(ms(after)),
        drop_late: true,
        ..level(0)
    };
    let mut station = Station::new(StationConfig {
        classes: vec![media(20)],
        ..config(1)
    });
    for n in 0..3 {
        let (ticket, _) = started(station.arrive(at(n * 10), &sized(1)));
        station.finish(at(n * 10 + 10), ticket, 1);
    }
    started(station.arrive(at(30), &sized(1)));
    // One every 10 ms: those with none, one and two before them are in time.
    for _ in 0..3 {
        waits(station.arrive(at(30), &sized(1)));
    }
    assert_eq!(
        refused(station.arrive(at(30), &sized(1))),
        RefusalReason::Late
    );

    for (now, is_in_time) in [(125, true), (126, false)] {
        let mut station = Station::new(StationConfig {
            classes: vec![media(25)],
            ..config(1)
        });
        let (first, _) = started(station.arrive(at(100), &sized(1)));
        let second = waits(station.arrive(at(100), &sized(1)));
        station.finish(at(now), first, 1);
        let begins =
            matches!(station.poll(), Some(Event::Started { ticket, .. }) if ticket == second);
        assert_eq!(begins, is_in_time, "{now}");
    }
}

#[test]
fn what_is_worth_nothing_comes_last_by_value() {
    let worth = |value| ClassSpec {
        value,
        ..ClassSpec::default()
    };
    let values = vec![worth(0), worth(1), worth(9)];
    assert_eq!(order(Order::Value, values, [0, 1, 2, 0]), [2, 1, 0, 3]);
}

/// Checks that sixteen requests that wait for an endpoint of their own are
/// passed over for one that does not, and no more.
#[test]
fn so_many_are_passed_over_at_a_time() {
    for (passed_over, is_started) in [(16, true), (17, false)] {
        let mut station = Station::new(config(2));
        let belongs = Some(Session {
            identity: 0,
            strict: true,
        });
        let (_, own) = started(station.arrive_in(at(0), &sized(1), belongs));
        let (other, _) = started(station.arrive(at(0), &sized(1)));
        assert_eq!(own, 0);
        for _ in 0..passed_over {
            waits(station.arrive_in(at(0), &sized(1), belongs));
        }
        let free = waits(station.arrive(at(0), &sized(1)));
        station.finish(at(1), other, 1);
        let begins = matches!(station.poll(), Some(Event::Started { ticket, endpoint: 1 }) if ticket == free);
        assert_eq!(begins, is_started, "{passed_over}");
        let left = passed_over + usize::from(!is_started);
        assert_eq!(station.waiting(), left, "{passed_over}");
    }
}

#[test]
fn a_hedge_is_bounded_by_its_class_and_by_all_that_are_active() {
    let hedged = |max_concurrency, max_active| {
        let class = ClassSpec {
            max_concurrency,
            ..level(0)
        };
        let mut station = Station::new(StationConfig {
            classes: vec![class],
            max_active,
            ..config(2)
        });
        let (first, _) = started(station.arrive(at(0), &sized(1)));
        station.hedge(at(1), first).is_some()
    };
    assert!(hedged(2, 2));
    assert!(!hedged(1, 2));
    assert!(!hedged(2, 1));
}

#[test]
fn it_is_told_what_the_budget_leaves_and_denies() {
    let mut station = Station::new(StationConfig {
        retry_budget: RetryBudget {
            max: 1,
            ..RetryBudget::default()
        },
        ..config(4)
    });
    let tickets = [0; 3].map(|_| started(station.arrive(at(0), &sized(1))).0);
    assert!(station.may_repeat());
    assert_eq!(station.repeats_denied(), 0);
    station.step_back(at(1), tickets[0], true);
    assert!(!station.may_repeat());
    for ticket in &tickets[1..] {
        assert_eq!(station.step_back(at(1), *ticket, true), Again::Denied);
    }
    assert_eq!(station.repeats_denied(), 2);
}

#[test]
fn a_void_ticket_is_not_the_next_ones() {
    let mut station = Station::new(config(1));
    let (before, _) = started(station.arrive(at(0), &sized(1)));
    station.finish(at(0), before, 1);
    let (ticket, _) = started(station.arrive(at(0), &sized(1)));
    assert_eq!(before.index(), ticket.index());
    station.cancel(at(1), before);
    assert_eq!(station.load(0).running, 1);
}
