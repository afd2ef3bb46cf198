//! Tests of how many requests each endpoint gets, by weight, by level and by work.

use super::*;

/// Returns how many of 120 requests that come at once each of two endpoints gets.
fn shares(station: &mut Station, now: u64) -> [usize; 2] {
    let mut served = [0; 2];
    for _ in 0..120 {
        served[started(station.arrive(at(now), &sized(1))).1] += 1;
    }
    served
}

/// Creates a station of two endpoints in turn, whose slow start takes two seconds.
fn in_turn() -> Station {
    Station::new(StationConfig {
        dispatch: Dispatch::RoundRobin,
        max_requests: usize::MAX,
        slow_start: ms(2_000),
        ..config(2)
    })
}

#[test]
fn weights_are_shares() {
    let weighted = |identity, weight| EndpointSpec {
        weight,
        ..spec(identity)
    };
    let mut station = Station::new(StationConfig {
        endpoints: vec![weighted(0, 1), weighted(1, 3)],
        dispatch: Dispatch::RoundRobin,
        max_requests: usize::MAX,
        ..config(2)
    });
    assert_eq!(shares(&mut station, 0), [30, 90]);
}

#[test]
fn one_that_is_back_has_a_tenth_then_as_much_as_has_passed_of_its_start() {
    for (now, expected) in [(0, 11), (100, 11), (1_000, 40), (1_500, 51), (2_000, 60)] {
        let mut station = in_turn();
        station.set_out(at(0), 1, true);
        station.set_out(at(0), 1, false);
        let [_, served] = shares(&mut station, now);
        assert!(served.abs_diff(expected) <= 1, "{now}: {served}");
    }
}

#[test]
fn one_that_was_never_away_does_not_start_slowly() {
    let mut station = in_turn();
    station.set_out(at(0), 1, false);
    station.set_draining(at(0), 1, false);
    assert_eq!(shares(&mut station, 0), [60, 60]);
}

#[test]
fn one_that_has_drained_starts_slowly() {
    let mut station = in_turn();
    station.set_draining(at(0), 1, true);
    station.set_draining(at(0), 1, false);
    let [_, served] = shares(&mut station, 0);
    assert!(served.abs_diff(11) <= 1, "{served}");
}

#[test]
fn one_that_was_gone_with_no_request_starts_slowly() {
    let mut station = in_turn();
    station.set_endpoints(at(0), &[spec(0)]);
    station.set_endpoints(at(0), &[spec(0), spec(1)]);
    let [_, served] = shares(&mut station, 0);
    assert!(served.abs_diff(11) <= 1, "{served}");
}

#[test]
fn what_has_ended_is_before_no_request_of_its_level() {
    let mut station = Station::new(StationConfig {
        dispatch: Dispatch::Psqf,
        max_requests: 10,
        ..config(2)
    });
    let begun = [0; 4].map(|_| started(station.arrive(at(0), &sized(1))));
    for (ticket, endpoint) in begun {
        if endpoint == 0 {
            station.finish(at(1), ticket, 1);
        }
    }
    // None is left there, two are at the other.
    for _ in 0..2 {
        assert_eq!(started(station.arrive(at(1), &sized(1))).1, 0);
    }
}

#[test]
fn those_of_a_lower_level_are_not_before_a_request_and_no_level_is_too_low() {
    let mut station = Station::new(StationConfig {
        dispatch: Dispatch::Psqf,
        classes: vec![level(0), level(200)],
        max_requests: 10,
        ..config(2)
    });
    let (_, low) = started(station.arrive(at(0), &of_class(1)));
    let (_, high) = started(station.arrive(at(0), &of_class(0)));
    let (_, next) = started(station.arrive(at(0), &of_class(0)));
    // By the level alone each endpoint has one of the high ones.
    assert_ne!(high, next);
    // One before it here, two there.
    let (_, last) = started(station.arrive(at(0), &of_class(1)));
    assert_ne!(last, low);
}

#[test]
fn a_reserved_endpoint_is_for_the_highest_level() {
    let mut station = Station::new(StationConfig {
        dispatch: Dispatch::Rpsq { reserved: 1 },
        classes: vec![level(2), level(3)],
        max_requests: 10,
        ..config(2)
    });
    for _ in 0..2 {
        assert_eq!(started(station.arrive(at(0), &of_class(1))).1, 1);
    }
    for _ in 0..2 {
        station.arrive(at(0), &of_class(0));
    }
    assert_eq!(station.load(1).requests, 3);
    assert_eq!(station.load(0).requests, 1);
}

/// Checks that dispatch by work sends a request where the least work is before it. Where small
/// responses overtake a large one, what a large one has left is no longer before a small one.
#[test]
fn that_responses_overtake_is_seen_in_the_order_in_which_they_came() {
    let mut station = Station::new(StationConfig {
        dispatch: Dispatch::LeastWork,
        max_requests: 10,
        ..config(2)
    });
    // 10 MB at one endpoint, three times 3 MB at the other.
    let large = [10, 3, 3, 3].map(|mb| {
        let arrival = sized(mb * 1_000_000);
        started(station.arrive(at(0), &arrival)).1
    });
    assert_eq!(large, [0, 1, 1, 1]);
    // The first shows whom it overtakes, and with the fourth they are three.
    for _ in 0..4 {
        let (ticket, endpoint) = started(station.arrive(at(0), &sized(100)));
        assert_eq!(endpoint, 1);
        station.finish(at(0), ticket, 100);
    }
    assert_eq!(started(station.arrive(at(0), &sized(100))).1, 0);
}

#[test]
fn sizes_that_are_known_are_learnt_when_requests_come() {
    let mut station = learning();
    let before = station.intervals().unwrap().to_vec();
    for _ in 0..256 {
        let (small, _) = started(station.arrive(at(0), &sized(1000)));
        station.finish(at(0), small, 1000);
        started(station.arrive(at(0), &sized(100_000)));
    }
    assert_ne!(station.intervals().unwrap(), before);
}

#[test]
fn with_one_priority_too_few_that_are_well_are_a_panic() {
    let mut station = Station::new(StationConfig {
        healthy_panic_percent: 90,
        ..config(10)
    });
    station.set_out(at(0), 0, true);
    assert!(!station.panics());
    station.set_out(at(0), 1, true);
    assert!(station.panics());
}

#[test]
fn what_waits_is_refused_as_what_comes_once_all_are_out() {
    let mut station = Station::new(config(2));
    let first = started(station.arrive(at(0), &sized(1))).0;
    started(station.arrive(at(0), &sized(1)));
    let waiting = waits(station.arrive(at(0), &sized(1)));
    station.set_out(at(1), 0, true);
    assert_eq!(station.poll(), None);
    station.set_out(at(1), 1, true);
    let Some(Event::Refused { ticket, refusal }) = station.poll() else {
        panic!("the request waits on");
    };
    assert_eq!(
        (ticket, refusal.reason),
        (waiting, RefusalReason::NoHealthyEndpoint)
    );
    station.finish(at(2), first, 1);
    assert_eq!((station.poll(), station.waiting()), (None, 0));
}

#[test]
fn it_is_told_whether_there_is_none_or_none_is_well() {
    let mut station = Station::new(config(2));
    let (tried, _) = started(station.arrive(at(0), &sized(1)));
    assert_eq!(station.step_back(at(0), tried, false), Again::Elsewhere);
    station.set_out(at(0), 0, true);
    station.set_out(at(0), 1, true);
    assert_eq!(
        refused(station.again(at(1), tried)),
        RefusalReason::NoEndpoint
    );
    assert_eq!(
        refused(station.arrive(at(1), &sized(1))),
        RefusalReason::NoHealthyEndpoint
    );
    station.set_endpoints(at(2), &[]);
    assert_eq!(
        refused(station.arrive(at(2), &sized(1))),
        RefusalReason::NoHealthyEndpoint
    );
}
