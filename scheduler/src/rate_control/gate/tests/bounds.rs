//! The least rate of the search: what was delivered, refuted or explained.

use super::*;

#[test]
fn the_least_rate_is_above_what_was_refuted_and_delivered() {
    let mut gate = gate();
    let now = at(20_000);
    assert_eq!(gate.least_rate(now), 0);
    // Links are 6% apart: less a twentieth it is between two of them.
    deliver(&mut gate, now, 1.01 * rate_of(40));
    assert_eq!(gate.least_rate(now), 40);
    gate.floors = vec![(now, 37), (now, 47), (now, 42)];
    assert_eq!(gate.least_rate(now), 47);
}

#[test]
fn queues_of_the_bank_are_shortened_each_second() {
    let mut gate = gate();
    let now = at(10_000);
    gate.shortened_at = now - SECOND;
    gate.on_overhead(now, 5000);
    delay(&mut gate, now, 0.004);
    gate.shorten(now - NANO);
    assert!(gate.bank.delays()[0] > 0.09);
    gate.shorten(now);
    assert!((gate.bank.delays()[0] - 0.006).abs() < 1e-6);
}

#[test]
fn a_floor_counts_for_ten_seconds() {
    let floors = |after: Duration| {
        let mut gate = gate();
        gate.floors = vec![(at(1000), 5)];
        gate.decide(at(1000) + after);
        gate.floors.len()
    };
    assert_eq!(floors(10 * SECOND - NANO), 1);
    assert_eq!(floors(10 * SECOND), 0);
    assert_eq!(floors(11 * SECOND), 0);
}

#[test]
fn a_floor_takes_the_place_of_lower_ones() {
    let mut gate = gate();
    let now = at(5000);
    gate.decided_at = now;
    gate.floors = vec![(at(4000), 5), (at(4000), 10), (at(4000), 20)];
    observe(&mut gate, now, 9, 10, 0.0);
    gate.decide(now);
    assert_eq!(gate.floors, [(at(4000), 20), (now, 10)]);
}

/// Gives the gate `count` acknowledgements that the bank's link of about 10 Mbit/s explains,
/// where little was delivered, and returns the rate of that link.
fn explained(mut gate: Gate, count: usize) -> (Gate, f64) {
    let link = index_of(1e7);
    deliver(&mut gate, at(100_000), 1e6);
    gate.decided_at = at(100_000);
    observe(&mut gate, at(100_000), count, link, 0.1);
    (gate, rate_of(link))
}

#[test]
fn the_search_stays_above_a_quarter_of_what_explains_the_delays() {
    let (mut gate, link) = explained(engaged(1e6, 1e6), 30);
    gate.decide(at(100_000));
    assert_eq!(gate.control.anchor_bits_per_s(), (0.25 * link) as u64);
}

#[test]
fn each_mistake_doubles_what_is_needed() {
    for (fails, count, engages) in [
        (0, 24, false),
        (0, 25, true),
        (1, 49, false),
        (1, 50, true),
        (2, 99, false),
        (2, 100, true),
        (4, 399, false),
        (9, 400, true),
    ] {
        let (mut gate, link) = explained(gate(), count);
        gate.fails = fails;
        gate.decide(at(100_000));
        assert_eq!(gate.is_engaged(), engages, "{fails}: {count}");
        if engages {
            assert_eq!(gate.control.anchor_bits_per_s(), link as u64);
        }
    }
}

#[test]
fn a_link_explains_the_delays_of_as_many_clients_as_were_heard() {
    let now = at(100_000);
    let (mut gate, link) = explained(gate(), 30);
    assert_eq!(gate.explained(now, NEEDED), Some(link));
    for client in 1..=2 {
        let client = gate.clients.get(now, client);
        client.delay_s(now, MS, Duration::MAX, None);
    }
    // One of two.
    assert_eq!(gate.explained(now, NEEDED), None);
    let later = now + 3 * SECOND;
    deliver(&mut gate, later, 1e6);
    assert_eq!(gate.explained(later, NEEDED), None);
    assert_eq!(gate.explained(later + NANO, NEEDED), Some(link));
}

#[test]
fn a_link_that_explains_the_delays_is_not_slower_than_what_was_delivered() {
    let now = at(100_250);
    for (part, explains) in [(1.03, true), (1.5, false)] {
        let (mut gate, link) = explained(gate(), 30);
        deliver(&mut gate, now, part * link);
        assert_eq!(gate.explained(now, NEEDED).is_some(), explains, "{part}");
        // What was delivered before tells no more, and nothing does.
        let later = now + 1101 * MS;
        assert_eq!(gate.explained(later, NEEDED), None);
        deliver(&mut gate, later, 1e6);
        assert_eq!(gate.explained(later, NEEDED), Some(link));
    }
}

#[test]
fn the_search_stays_above_what_is_refuted_while_there_is_no_queue() {
    for (least_s, raised) in [(0.009, true), (0.01, false), (0.02, false)] {
        let mut gate = engaged(500_000.0, 500_000.0);
        observe(&mut gate, at(100_000), 9, 10, 0.0);
        delay(&mut gate, at(100_000), least_s);
        assert!(lasts(&mut gate, Duration::ZERO, false));
        let floor = if raised { rate_of(10) } else { 500_000.0 };
        assert_eq!(gate.control.anchor_bits_per_s(), floor as u64, "{least_s}");
    }
}

#[test]
fn the_anchor_at_first_follows_slowly_after_five_seconds() {
    for (after, expected) in [
        (4 * SECOND, 1e7),
        (5 * SECOND, 1e7),
        (5 * SECOND + NANO, 1.001e7),
        (6 * SECOND, 1.001e7),
    ] {
        let mut gate = engaged(1e7, 2e7);
        assert!(lasts(&mut gate, after, false));
        let GateState::Engaged { anchor, .. } = gate.state else {
            panic!("open");
        };
        assert!((anchor - expected).abs() < 1e-3, "{after:?}: {anchor}");
    }
}
