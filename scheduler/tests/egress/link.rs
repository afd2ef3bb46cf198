//! How much is granted at once, when, and what goes ahead of the queue.

use std::time::Duration;

use crate::driver::{Driver, egress, ms, plain, seconds_of_calm, segments_of};
use sprat_scheduler::{Discipline, Egress, FlowId, FlowSpec, Grant, Pacer, Size, Time, WireCost};

const KBIT: u64 = 1_000;
const MBIT: u64 = 1_000 * KBIT;
const GBIT: u64 = 1_000 * MBIT;

fn first_grant(rate_bits_per_s: u64, cost: WireCost, ready: u64) -> u64 {
    let mut egress = egress(Discipline::Srpt, Pacer::exact(rate_bits_per_s));
    let spec = FlowSpec::new(0, Size::Unknown, cost);
    let flow = egress.open(ms(0), spec).expect("room for another flow");
    egress.offer(ms(0), flow, ready);
    match egress.grant(ms(0)) {
        Grant::Send { bytes, .. } => bytes,
        other => panic!("{other:?}"),
    }
}

/// About 300 us of the link in whole segments: one at least, 448 KB at most.
#[test]
fn a_quantum_grows_with_the_rate() {
    let segments = |rate| {
        let bytes = first_grant(rate, WireCost::ETHERNET_IPV4, u64::MAX);
        assert_eq!(bytes % 1448, 0, "whole segments at {rate}");
        bytes / 1448
    };
    assert_eq!(segments(0), 1);
    assert_eq!(segments(KBIT), 1);
    assert_eq!(segments(10 * MBIT), 1);
    assert_eq!(segments(100 * MBIT), 2);
    assert_eq!(segments(GBIT), 24);
    assert_eq!(segments(100 * GBIT), 303);
    assert_eq!(segments(u64::MAX), 303);
}

#[test]
fn a_quantum_is_no_more_than_what_is_ready() {
    for rate in [KBIT, 10 * MBIT, 100 * GBIT] {
        assert_eq!(first_grant(rate, WireCost::ETHERNET_IPV4, 1), 1);
    }
    assert_eq!(first_grant(GBIT, WireCost::ETHERNET_IPV4, 34_751), 34_751);
    assert_eq!(first_grant(GBIT, WireCost::ETHERNET_IPV4, 34_753), 34_752);
}

#[test]
fn odd_wires_still_get_something() {
    assert_eq!(first_grant(10 * MBIT, plain(0, 0), 1000), 375);
    assert_eq!(first_grant(10 * MBIT, plain(1, u32::MAX), 1000), 1);
    assert_eq!(first_grant(10 * MBIT, plain(u32::MAX, 0), 1000), 1000);
}

#[test]
fn the_next_grant_is_when_the_link_is_free() {
    let mut egress = egress(Discipline::Srpt, Pacer::exact(8 * MBIT));
    assert_eq!(egress.next_wakeup(), None);
    let spec = FlowSpec::new(0, Size::Exact(934 + 1000), plain(1000, 66));
    let flow = egress.open(ms(5), spec).unwrap();
    assert_eq!(egress.next_wakeup(), None);
    egress.offer(ms(5), flow, 1934);
    assert!(egress.next_wakeup().is_some_and(|at| at <= ms(5)));
    assert!(matches!(
        egress.grant(ms(5)),
        Grant::Send { bytes: 1000, .. }
    ));
    assert_eq!(egress.next_wakeup(), None);

    egress.offer(ms(5), flow, 934);
    let until = Time::from_nanos(6_066_000);
    assert_eq!(egress.next_wakeup(), Some(until));
    assert_eq!(egress.grant(ms(6)), Grant::Wait { until });
    assert!(matches!(
        egress.grant(until),
        Grant::Send { bytes: 934, .. }
    ));
    assert_eq!(egress.pacer().next_grant_at(), Time::from_nanos(7_066_000));
}

#[test]
fn a_new_rate_holds_at_once_also_for_what_has_not_left() {
    let mut egress = egress(Discipline::Srpt, Pacer::exact(8 * MBIT));
    let spec = FlowSpec::new(0, Size::Unknown, plain(1000, 0));
    let flow = egress.open(ms(0), spec).unwrap();
    egress.offer(ms(0), flow, u64::MAX);
    assert!(matches!(
        egress.grant(ms(0)),
        Grant::Send { bytes: 1000, .. }
    ));
    // Of the 1000 bytes, 500 are left, and leave ten times as fast.
    let half = Time::from_nanos(500_000);
    egress.set_rate(half, 80 * MBIT);
    egress.offer(half, flow, u64::MAX);
    let until = Time::from_nanos(550_000);
    assert_eq!(egress.grant(half), Grant::Wait { until });
    assert!(matches!(
        egress.grant(ms(1)),
        Grant::Send { bytes: 3000, .. }
    ));
    assert_eq!(egress.pacer().next_grant_at(), Time::from_nanos(1_300_000));
}

#[test]
fn what_no_grant_covers_delays_the_next_grant() {
    let mut egress = egress(Discipline::Srpt, Pacer::exact(8 * MBIT));
    egress.debit(ms(0), 500);
    assert!(egress.fast_path(ms(0), 300));
    assert_eq!(egress.pacer().next_grant_at(), Time::from_nanos(800_000));
    egress.refund(ms(0), 200);
    assert_eq!(egress.pacer().next_grant_at(), Time::from_nanos(600_000));
    assert_eq!(egress.stats().overhead_bytes, 600);
    egress.refund(ms(0), u64::MAX);
    assert_eq!(egress.stats().overhead_bytes, 0);
    egress.debit(ms(0), u64::MAX);
    egress.debit(ms(0), u64::MAX);
    assert_eq!(egress.stats().overhead_bytes, u64::MAX);
}

/// Acknowledgements of an upload that are told of all at once, a minute of
/// retransmissions: what left long ago does not stop the responses of now.
#[test]
fn a_debit_never_moves_the_clock_further_than_a_tenth_of_a_second() {
    let mut egress = egress(Discipline::Srpt, Pacer::exact(8 * MBIT));
    let free_at = |egress: &Egress| egress.pacer().next_grant_at();
    egress.debit(ms(0), 1_600_000);
    assert_eq!(free_at(&egress), ms(100));
    // Nor does the next, while the first has not left.
    egress.debit(ms(0), 1_600_000);
    assert_eq!(free_at(&egress), ms(100));
    assert_eq!(egress.stats().overhead_bytes, 3_200_000);
    assert_eq!(egress.stats().wire_bytes, 100_000, "the link's clock");
    // The link's position is believed by those who measure its rate.
    egress.debit(ms(200), 1_600_000);
    assert_eq!(free_at(&egress), ms(300));
    assert_eq!(egress.stats().wire_bytes, 200_000);
}

/// A link of 40 kbit/s takes 3 s for ten full segments.
#[test]
fn on_a_slow_link_a_debit_is_bounded_by_an_initial_window() {
    let mut egress = egress(Discipline::Srpt, Pacer::exact(40 * KBIT));
    egress.debit(ms(0), 1_000_000);
    assert_eq!(egress.pacer().next_grant_at(), ms(3028));
}

/// Whatever a kernel sends of its own accord, responses have their fifth.
#[test]
fn debits_leave_a_fifth_of_the_link_to_responses() {
    let mut driver = Driver::new(Discipline::Srpt, segments_of(1000));
    driver.arrive(1 << 30);
    for at in 0..10_000 {
        driver.run_until(ms(at));
        driver.egress.debit(ms(at), 5_000);
    }
    // Of 10,000 segments in 10 s a fifth, less the burst at the beginning.
    let served = driver.services.len();
    assert!((1_850..=2_000).contains(&served), "{served}");
}

/// What is on the fast path never waits: not for the link, nor for the queue.
#[test]
fn the_fast_path_goes_ahead_of_a_busy_link() {
    let mut egress = egress(Discipline::Srpt, Pacer::exact(8 * KBIT));
    egress.debit(ms(0), 1_000_000);
    assert!(egress.fast_path(ms(0), 66));
}

#[test]
fn a_flood_on_the_fast_path_is_neither_ahead_nor_debited() {
    let mut egress = egress(Discipline::Srpt, Pacer::exact(8 * MBIT));
    let begun = seconds_of_calm(&mut egress);
    let calm = egress.stats().overhead_bytes;
    let at = |ms| begun + Duration::from_millis(ms);
    let ahead = (0..500).filter(|_| egress.fast_path(at(1), 10)).count();
    assert_eq!(ahead, 100, "a quiet site wakes up, no more");
    assert_eq!(egress.stats().overhead_bytes - calm, 1000);
    assert_eq!(egress.stats().guard_trips, 1);
    // A second in which little comes ends it.
    assert!(!egress.fast_path(at(1500), 10));
    assert!(egress.fast_path(at(2500), 10));
    assert_eq!(egress.stats().overhead_bytes - calm, 1010);
    assert_eq!(egress.stats().guard_trips, 1);
}

/// Opens two flows under `fcfs` that have much to send, on a link that has been idle.
fn two_flows(rate_bits_per_s: u64) -> (Egress, [FlowId; 2]) {
    let mut egress = egress(Discipline::Fcfs, Pacer::new(rate_bits_per_s));
    let spec = FlowSpec::new(0, Size::Unknown, WireCost::ETHERNET_IPV4);
    let flows = [(); 2].map(|()| egress.open(ms(1000), spec).expect("room for another flow"));
    for flow in flows {
        egress.offer(ms(1000), flow, u64::MAX);
    }
    (egress, flows)
}

/// Makes a grant at `now`, and checks whose it is.
fn grant_to(egress: &mut Egress, now: Time, expected: FlowId) {
    let granted = egress.grant(now);
    assert!(
        matches!(granted, Grant::Send { flow, .. } if flow == expected),
        "{granted:?}"
    );
}

/// Checks that the credit of a link that was idle is no lateness: no flow waits for the one that
/// is the first.
#[test]
fn the_driver_of_a_link_that_was_idle_is_not_late() {
    let (mut egress, flows) = two_flows(GBIT);
    for flow in flows {
        grant_to(&mut egress, ms(1000), flow);
    }
}

/// Checks that no flow waits for a late driver's flow that, as far as known, has no more.
#[test]
fn a_late_link_waits_for_no_flow_that_has_no_more() {
    for size in [Size::Unknown, Size::Exact(1000)] {
        let mut egress = egress(Discipline::Fcfs, Pacer::new(10 * MBIT));
        let spec = FlowSpec::new(0, size, WireCost::ETHERNET_IPV4);
        let flows = [(); 3].map(|()| egress.open(ms(1000), spec).expect("room for another flow"));
        for flow in flows {
            egress.offer(ms(1000), flow, 1000);
        }
        grant_to(&mut egress, ms(1000), flows[0]);
        assert!(matches!(egress.grant(ms(1000)), Grant::Wait { .. }));
        grant_to(&mut egress, ms(1005), flows[1]);
        grant_to(&mut egress, ms(1005), flows[2]);
    }
}

/// Checks that a late driver has the time back of which nothing was sent, within what is made up
/// for, and that a link that has rested is no late one.
#[test]
fn what_a_late_driver_gives_back_is_not_lost() {
    let (mut egress, [first, second]) = two_flows(10 * MBIT);
    grant_to(&mut egress, ms(1000), first);
    let now = ms(1005);
    egress.offer(now, first, u64::MAX);
    let before = egress.pacer().free_at();
    grant_to(&mut egress, now, first);
    assert!(egress.pacer().free_at() > before);
    egress.written(now, first, 0);
    assert_eq!(egress.pacer().free_at(), before);
    egress.refund(now, u64::MAX);
    assert_eq!(egress.pacer().free_at(), ms(995));
    for flow in [first, second] {
        egress.offer(now, flow, 0);
    }
    assert_eq!(egress.grant(now), Grant::Idle);
    egress.refund(ms(2000), u64::MAX);
    let credit = Duration::from_micros(200);
    assert_eq!(egress.pacer().free_at(), ms(2000) - credit);
}

/// Checks that a driver is told when those who wait for another flow's turn may go: when the turn
/// ends, and no sooner than the link is free.
#[test]
fn the_next_grant_is_when_a_turn_ends_and_the_link_is_free() {
    let (mut egress, [first, _]) = two_flows(10 * MBIT);
    grant_to(&mut egress, ms(1000), first);
    let now = ms(1005);
    // Four grants are due; the link is not free after the last.
    let turn_ends = now + Duration::from_micros(200);
    let free_at = now + Duration::from_micros(756);
    for until in [turn_ends, turn_ends, turn_ends, free_at] {
        egress.offer(now, first, u64::MAX);
        grant_to(&mut egress, now, first);
        assert_eq!(egress.next_wakeup(), Some(until));
        assert_eq!(egress.grant(now), Grant::Wait { until });
    }
}
