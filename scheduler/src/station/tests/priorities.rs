//! Tests of endpoints that stand by for others.

use super::*;

/// Creates a station of two endpoints, and two that stand by.
fn station(change: impl FnOnce(&mut StationConfig)) -> Station {
    let mut config = config(4);
    config.max_requests = usize::MAX;
    config.healthy_panic_percent = 60;
    for (index, spec) in config.endpoints.iter_mut().enumerate() {
        spec.priority = u8::from(index >= 2);
    }
    change(&mut config);
    Station::new(config)
}

/// Returns how many requests with evenly spread random numbers each endpoint gets.
fn spread(station: &mut Station, now: u64) -> [usize; 4] {
    let mut counts = [0; 4];
    let mut seed = 7_u64;
    for _ in 0..2000 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let arrival = Arrival {
            random: seed,
            ..sized(1)
        };
        let (ticket, endpoint) = started(station.arrive(at(now), &arrival));
        counts[endpoint] += 1;
        station.finish(at(now), ticket, 1);
    }
    counts
}

#[test]
fn those_that_stand_by_get_what_the_others_cannot_take() {
    let mut station = station(|_| {});
    assert_eq!(spread(&mut station, 0), [1000, 1000, 0, 0]);
    station.set_out(at(1), 0, true);
    // One of two is well: 70 percent, and 30 for the others (Envoy's overprovisioning).
    let [gone, first, third, fourth] = spread(&mut station, 1);
    assert_eq!((gone, first + third + fourth), (0, 2000));
    assert!((1340..1460).contains(&first), "{first}");
    assert!(third.abs_diff(fourth) <= 1, "{third} {fourth}");
    station.set_out(at(2), 1, true);
    // Half are out; those that stand by take all, which is no panic.
    assert!(!station.panics());
    assert_eq!(spread(&mut station, 2), [0, 0, 1000, 1000]);
    station.set_out(at(3), 2, true);
    station.set_out(at(3), 3, true);
    assert!(station.panics());
    // None is well: all are used, the first priority.
    assert_eq!(spread(&mut station, 3), [1000, 1000, 0, 0]);
}

#[test]
fn one_that_drains_leaves_its_share_as_one_that_is_out() {
    let mut station = station(|_| {});
    station.set_draining(at(0), 0, true);
    station.set_draining(at(0), 1, true);
    assert_eq!(spread(&mut station, 0), [0, 0, 1000, 1000]);
}

#[test]
fn a_request_that_has_tried_all_others_goes_to_one_that_stands_by() {
    let mut station = station(|_| {});
    let (ticket, first) = started(station.arrive(at(0), &sized(1)));
    assert_eq!(first, 0);
    assert_eq!(started(fail(&mut station, at(0), ticket)).1, 1);
    let third = started(fail(&mut station, at(0), ticket)).1;
    assert!(third >= 2);
    // The next request begins where it would have.
    assert!(started(station.arrive(at(0), &sized(1))).1 < 2);
}

#[test]
fn a_request_waits_for_those_that_serve_while_others_stand_by() {
    for scope in [Scope::Cluster, Scope::Endpoint] {
        let mut station = station(|config| {
            config.max_requests = 1;
            config.scope = scope;
        });
        let (ticket, first) = started(station.arrive(at(0), &sized(1)));
        started(station.arrive(at(0), &sized(1)));
        let waiting = waits(station.arrive(at(0), &sized(1)));
        station.finish(at(1), ticket, 1);
        let next = Event::Started {
            ticket: waiting,
            endpoint: first,
        };
        assert_eq!(station.poll(), Some(next), "{scope:?}");
    }
}
