//! Tests of sessions, and of endpoints that drain.

use super::*;

/// Creates a station of three endpoints with room for one request each, a queue at each.
fn station(max_waiting: usize) -> Station {
    Station::new(StationConfig {
        scope: Scope::Endpoint,
        max_waiting,
        ..config(3)
    })
}

fn of(identity: u64) -> Option<Session> {
    Some(Session {
        identity,
        strict: false,
    })
}

fn strictly_of(identity: u64) -> Option<Session> {
    Some(Session {
        identity,
        strict: true,
    })
}

#[test]
fn a_session_comes_before_dispatch() {
    let mut station = station(100);
    for now in 0..5 {
        let verdict = station.arrive_in(at(now), &sized(1), of(2));
        let (ticket, endpoint) = started(verdict);
        assert_eq!(endpoint, 2);
        station.finish(at(now), ticket, 1);
    }
    // Those of none take their turns as if there had been no session.
    let turns = [0, 1, 2].map(|_| started(station.arrive(at(9), &sized(1))).1);
    assert_eq!(turns, [0, 1, 2]);
}

#[test]
fn a_session_waits_for_its_endpoint_while_others_are_idle() {
    let mut station = station(1);
    let (first, _) = started(station.arrive_in(at(0), &sized(1), of(1)));
    let second = waits(station.arrive_in(at(0), &sized(1), of(1)));
    let full = station.arrive_in(at(0), &sized(1), of(1));
    assert_eq!(refused(full), RefusalReason::QueueFull);
    station.finish(at(1), first, 1);
    let event = station.poll();
    let expected = Event::Started {
        ticket: second,
        endpoint: 1,
    };
    assert_eq!(event, Some(expected));
}

#[test]
fn a_session_moves_where_its_endpoint_is_out_or_gone() {
    let mut station = station(100);
    let (running, _) = started(station.arrive_in(at(0), &sized(1), of(0)));
    let waiting = waits(station.arrive_in(at(0), &sized(1), of(0)));
    station.set_out(at(1), 0, true);
    let moved = Event::Started {
        ticket: waiting,
        endpoint: 1,
    };
    assert_eq!(station.poll(), Some(moved));
    assert_eq!(started(station.arrive_in(at(1), &sized(1), of(0))).1, 2);
    station.set_out(at(2), 0, false);
    station.finish(at(2), running, 1);
    assert_eq!(started(station.arrive_in(at(2), &sized(1), of(0))).1, 0);
    // No endpoint has this identity.
    let mut idle = self::station(100);
    assert_eq!(started(idle.arrive_in(at(0), &sized(1), of(77))).1, 0);
}

#[test]
fn a_strict_session_is_refused_where_its_endpoint_is_out_or_gone() {
    let mut station = station(100);
    let (running, _) = started(station.arrive_in(at(0), &sized(1), strictly_of(0)));
    let waiting = waits(station.arrive_in(at(0), &sized(1), strictly_of(0)));
    station.set_out(at(1), 0, true);
    let event = station.poll();
    let Some(Event::Refused { ticket, refusal }) = event else {
        panic!("{event:?}");
    };
    let expected = (waiting, RefusalReason::NoHealthyEndpoint);
    assert_eq!((ticket, refusal.reason), expected);
    for identity in [0, 77] {
        let verdict = station.arrive_in(at(1), &sized(1), strictly_of(identity));
        assert_eq!(refused(verdict), RefusalReason::NoHealthyEndpoint);
    }
    station.finish(at(2), running, 1);
    station.set_out(at(2), 0, false);
    assert_eq!(
        started(station.arrive_in(at(2), &sized(1), strictly_of(0))).1,
        0
    );
}

#[test]
fn an_attempt_of_a_session_is_repeated_elsewhere_unless_it_is_strict() {
    let mut station = station(100);
    let (ticket, _) = started(station.arrive_in(at(0), &sized(1), of(1)));
    assert_eq!(station.step_back(at(0), ticket, false), Again::Elsewhere);
    assert_eq!(started(station.again(at(0), ticket)).1, 0);
    let (ticket, _) = started(station.arrive_in(at(1), &sized(1), strictly_of(1)));
    // It got there, and may get there again.
    assert_eq!(station.step_back(at(1), ticket, true), Again::Here);
    assert_eq!(started(station.again(at(1), ticket)).1, 1);
    assert_eq!(station.step_back(at(1), ticket, false), Again::Nowhere);
}

#[test]
fn a_session_is_not_hedged() {
    let mut station = station(100);
    let (ticket, _) = started(station.arrive_in(at(0), &sized(1), of(1)));
    assert_eq!(station.hedge(at(0), ticket), None);
    let (ticket, _) = started(station.arrive(at(0), &sized(1)));
    assert!(station.hedge(at(0), ticket).is_some());
}

#[test]
fn one_that_drains_keeps_strict_sessions_alone() {
    let mut station = station(100);
    let (running, _) = started(station.arrive(at(0), &sized(1)));
    let strict = waits(station.arrive_in(at(0), &sized(1), strictly_of(0)));
    let loose = waits(station.arrive_in(at(0), &sized(1), of(0)));
    station.set_draining(at(1), 0, true);
    assert!(station.is_draining(0) && !station.is_usable(0));
    let moved = Event::Started {
        ticket: loose,
        endpoint: 1,
    };
    assert_eq!(station.poll(), Some(moved));
    assert_eq!(station.poll(), None);
    assert_eq!(started(station.arrive(at(1), &sized(1))).1, 2);
    // What it has it ends; then comes the strict one that waited.
    station.finish(at(2), running, 1);
    let stayed = Event::Started {
        ticket: strict,
        endpoint: 0,
    };
    assert_eq!(station.poll(), Some(stayed));
    station.finish(at(3), strict, 1);
    // The endpoint gets no other request, though it is idle and the others are not.
    let waiting = waits(station.arrive(at(3), &sized(1)));
    station.set_draining(at(4), 0, false);
    station.cancel(at(4), waiting);
    assert_eq!(started(station.arrive(at(4), &sized(1))).1, 0);
}

#[test]
fn no_panic_uses_or_counts_one_that_drains() {
    let mut station = Station::new(StationConfig {
        healthy_panic_percent: 60,
        ..config(3)
    });
    station.set_draining(at(0), 0, true);
    assert!(!station.panics());
    // One of the two that stay is well: too few.
    station.set_out(at(0), 1, true);
    assert!(station.panics());
    let used = [0, 1, 2].map(|slot| station.is_usable(slot));
    assert_eq!(used, [false, true, true]);
    for slot in [1, 2] {
        station.set_draining(at(1), slot, true);
    }
    let verdict = station.arrive(at(1), &sized(1));
    assert_eq!(refused(verdict), RefusalReason::NoHealthyEndpoint);
}

#[test]
fn one_that_drains_does_so_as_long_as_it_stays() {
    let mut station = station(100);
    station.set_draining(at(0), 1, true);
    let specs = [4, 1].map(spec);
    let slots = station.set_endpoints(at(1), &specs);
    assert!(station.is_draining(slots[1]) && !station.is_draining(slots[0]));
    // One that is gone and has a request left keeps its slot, and comes back as others do.
    let strict = station.arrive_in(at(1), &sized(1), strictly_of(1));
    assert_eq!(started(strict).1, slots[1]);
    station.set_endpoints(at(2), &[spec(4)]);
    let again = station.set_endpoints(at(3), &specs);
    assert_eq!(again[1], slots[1]);
    assert!(!station.is_draining(again[1]));
}
