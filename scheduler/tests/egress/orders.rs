//! Who is served when, to the grant, under each discipline.

use crate::driver::{Driver, UNIT, disciplines, ms, segments_of};
use sprat_scheduler::{Cutoffs, Discipline, Size, Time};

fn estimate(bytes: u64) -> Size {
    Size::Estimate {
        bytes,
        confidence: 0.5,
    }
}

/// Who is served when all arrive at once, one byte a grant.
fn order(discipline: Discipline, sizes: &[u64]) -> String {
    let mut driver = Driver::new(discipline, UNIT);
    for &bytes in sizes {
        driver.arrive(bytes);
    }
    driver.serve_all()
}

#[test]
fn fcfs_serves_in_order_of_arrival() {
    assert_eq!(order(Discipline::Fcfs, &[3, 1, 2]), "AAABCC");
}

#[test]
fn fcfs_keeps_the_place_of_a_flow_that_pauses() {
    let mut driver = Driver::new(Discipline::Fcfs, UNIT);
    let first = driver.arrive(3);
    driver.arrive(3);
    assert_eq!(driver.serve(1), "A");
    driver.pause(first);
    assert_eq!(driver.serve(1), "B");
    driver.resume(first);
    assert_eq!(driver.serve_all(), "AABB");
}

#[test]
fn fair_takes_turns() {
    assert_eq!(order(Discipline::Fair, &[3, 3, 3]), "ABCABCABC");
    assert_eq!(order(Discipline::Fair, &[3, 1, 2]), "ABCACA");
}

#[test]
fn srpt_serves_the_shortest_first() {
    assert_eq!(order(Discipline::Srpt, &[5, 3, 1]), "CBBBAAAAA");
}

#[test]
fn srpt_breaks_ties_by_arrival() {
    assert_eq!(order(Discipline::Srpt, &[2, 2, 1, 1]), "CDAABB");
}

#[test]
fn srpt_preempts_between_quanta() {
    let mut driver = Driver::new(Discipline::Srpt, UNIT);
    driver.arrive(5);
    assert_eq!(driver.serve(2), "AA");
    driver.arrive(1);
    assert_eq!(driver.serve_all(), "BAAA");
}

#[test]
fn srpt_compares_what_remains_not_what_was() {
    let mut driver = Driver::new(Discipline::Srpt, UNIT);
    driver.arrive(5);
    assert_eq!(driver.serve(2), "AA");
    driver.arrive(3);
    driver.arrive(2);
    assert_eq!(driver.serve_all(), "CCAAABBB");
}

#[test]
fn srpt_never_interrupts_a_quantum() {
    let mut driver = Driver::new(Discipline::Srpt, UNIT);
    driver.arrive(2);
    driver.run_until(Time::from_nanos(500_000));
    driver.arrive(1);
    assert_eq!(driver.serve_all(), "AB");
    // A's second byte and B's first tie: A's came first.
    let starts: Vec<Time> = driver.services.iter().map(|service| service.at).collect();
    assert_eq!(starts, [ms(0), ms(1), ms(2)]);
}

#[test]
fn flows_of_unknown_size_are_ranked_by_what_they_attained() {
    let mut driver = Driver::new(Discipline::Srpt, UNIT);
    driver.arrive_as(0, Size::Unknown, 3);
    driver.arrive_as(0, Size::Unknown, 3);
    assert_eq!(driver.serve_all(), "ABABAB");

    let mut driver = Driver::new(Discipline::Srpt, UNIT);
    driver.arrive_as(0, Size::Unknown, 4);
    driver.arrive(2);
    assert_eq!(driver.serve_all(), "AAABBA");
}

#[test]
fn a_flow_that_outgrows_its_estimate_never_jumps_ahead_again() {
    let mut driver = Driver::new(Discipline::Srpt, UNIT);
    driver.arrive_as(0, estimate(2), 7);
    driver.arrive(3);
    // Keys of A: 2, 1, then what it attained: 2, 3 (a tie), 4.
    assert_eq!(driver.serve(7), "AAAABBB");
    driver.arrive(3);
    assert_eq!(driver.serve_all(), "CCCAAA");

    // It has outgrown its estimate as soon as it has more than that to send.
    let mut driver = Driver::new(Discipline::Srpt, UNIT);
    driver.arrive_as(0, estimate(3), 5);
    assert_eq!(driver.serve(3), "AAA");
    driver.arrive(2);
    assert_eq!(driver.serve_all(), "BBAA");
}

/// An exact size that is not: the flow must not be ahead of all for ever.
#[test]
fn a_flow_that_outgrows_its_exact_size_never_jumps_ahead_again() {
    let mut driver = Driver::new(Discipline::Srpt, UNIT);
    driver.arrive_as(0, Size::Exact(1), 6);
    driver.arrive(2);
    assert_eq!(driver.serve_all(), "AAABBAAA");
}

#[test]
fn an_estimate_that_becomes_exact_takes_its_place() {
    let mut driver = Driver::new(Discipline::Srpt, UNIT);
    let first = driver.arrive_as(0, estimate(9), 2);
    driver.arrive(3);
    driver.resize(first, Size::Exact(2));
    assert_eq!(driver.serve_all(), "AABBB");
}

#[test]
fn a_flow_resized_while_it_waits_moves_at_once() {
    let mut driver = Driver::new(Discipline::Srpt, UNIT);
    let first = driver.arrive(4);
    driver.arrive(5);
    driver.arrive(6);
    driver.resize(first, Size::Exact(50));
    assert_eq!(driver.serve(11), "BBBBBCCCCCC");
    driver.resize(first, Size::Unknown);
    assert_eq!(driver.serve_all(), "AAAA");
}

/// The link is busy for 200 ms; a flow of 100 bytes has waited since 0, and
/// ageing gives a byte each millisecond: one that arrives with one byte before
/// 99 ms goes ahead of it, one that arrives at 99 ms does not.
#[test]
fn srpt_aged_crosses_exactly_at_remaining_over_ageing() {
    let order = |late_at: Time| {
        let aged = Discipline::SrptAged {
            ageing_bytes_per_s: 1000,
        };
        let mut driver = Driver::new(aged, UNIT);
        driver.egress.debit(ms(0), 200);
        driver.arrive(100);
        driver.run_until(late_at);
        driver.arrive(1);
        driver.serve_one()
    };
    assert_eq!(order(ms(98)), Some(1));
    assert_eq!(order(Time::from_nanos(98_999_999)), Some(1));
    assert_eq!(order(ms(99)), Some(0));
    assert_eq!(order(ms(150)), Some(0));
}

/// Small flows that fill the link starve a large one under SRPT; with ageing
/// it goes ahead of each that arrives more than its bytes' worth after it.
#[test]
fn srpt_aged_ends_starvation() {
    let finish = |discipline: Discipline| {
        let mut driver = Driver::new(discipline, UNIT);
        driver.arrive(50);
        for i in 0..500 {
            driver.run_until(ms(i));
            driver.arrive(1);
        }
        driver.serve_the_rest();
        driver.clients[0].finished_at.unwrap()
    };
    assert_eq!(finish(Discipline::Srpt), ms(550));
    // 50 bytes at 0 and 1 byte at 49 ms rank the same. Till then 49 small
    // ones (arrived at 0 to 48 ms) have gone first; then come its 50.
    let aged = Discipline::SrptAged {
        ageing_bytes_per_s: 1000,
    };
    assert_eq!(finish(aged), ms(99));
}

#[test]
fn srpt_aged_without_ageing_is_srpt() {
    let aged = Discipline::SrptAged {
        ageing_bytes_per_s: 0,
    };
    assert_eq!(order(aged, &[5, 3, 1, 3]), "CBBBDDDAAAAA");
}

/// Keys past the range of 64 bits all tie: order of arrival, no wrap-around.
#[test]
fn srpt_aged_at_an_extreme_rate_is_fcfs() {
    let aged = Discipline::SrptAged {
        ageing_bytes_per_s: u64::MAX,
    };
    let mut driver = Driver::new(aged, UNIT);
    driver.run_until(ms(10_000));
    driver.arrive(3);
    driver.run_until(ms(10_001));
    driver.arrive(1);
    assert_eq!(driver.serve_all(), "AAB");
}

#[test]
fn bands_are_strict_and_a_flow_moves_up_as_it_shrinks() {
    let paper = Discipline::Bands(Cutoffs::paper());
    let mut driver = Driver::new(paper.clone(), segments_of(512));
    driver.arrive(1536);
    driver.arrive(1536);
    driver.arrive(1024);
    // C alone has at most 1K. A's first segment takes it there too.
    assert_eq!(driver.serve_all(), "CCAAABBB");

    let mut driver = Driver::new(paper, segments_of(512));
    driver.arrive(8192);
    driver.arrive(8192);
    // Turns in the class up to 20K, until A has 5K left and passes B for good.
    let expected = ["AB".repeat(5), "A".repeat(11), "B".repeat(11)].concat();
    assert_eq!(driver.serve_all(), expected);
}

#[test]
fn a_band_preempts_those_below_between_quanta() {
    let mut driver = Driver::new(Discipline::Bands(Cutoffs::paper()), segments_of(512));
    driver.arrive(100 << 10);
    driver.arrive(100 << 10);
    assert_eq!(driver.serve(4), "ABAB");
    driver.arrive(5 << 10);
    driver.arrive(1);
    assert_eq!(driver.serve(1), "D");
    assert_eq!(driver.serve(10), "C".repeat(10));
    assert_eq!(driver.serve(4), "ABAB");
}

#[test]
fn two_classes() {
    let mut driver = Driver::new(Discipline::Bands(Cutoffs::two_class()), segments_of(512));
    driver.arrive(2048);
    driver.arrive(1024);
    driver.arrive(2048);
    assert_eq!(driver.serve_all(), "BBACAAACCC");
}

#[test]
fn a_flow_of_unknown_size_moves_down_through_the_bands() {
    let cutoffs = Cutoffs::Fixed(vec![1, 3]);
    let mut driver = Driver::new(Discipline::Bands(cutoffs), UNIT);
    driver.arrive_as(0, Size::Unknown, 6);
    driver.arrive(3);
    // With 0 and 1 attained A is in the first class; from 2 on it shares the
    // second with B, until B has one byte left; from 4 on it is in the third.
    assert_eq!(driver.serve_all(), "AAABABBAA");
}

#[test]
fn a_lower_level_goes_before_everything() {
    for discipline in disciplines() {
        let mut driver = Driver::new(discipline.clone(), UNIT);
        driver.arrive_as(2, Size::Exact(1), 1);
        driver.arrive_as(1, Size::Exact(1), 1);
        assert_eq!(driver.egress.waiting_flows(), 2);
        driver.run_until(ms(1));
        driver.arrive_as(0, Size::Exact(4), 4);
        assert_eq!(driver.serve_all(), "CCCCA", "{discipline:?}");
        assert_eq!(driver.services[0].flow, 1, "{discipline:?}");
    }
}

#[test]
fn classes_past_the_last_are_the_last() {
    let mut driver = Driver::new(Discipline::Fcfs, UNIT);
    driver.arrive_as(255, Size::Exact(1), 1);
    driver.arrive_as(15, Size::Exact(1), 1);
    driver.arrive_as(14, Size::Exact(1), 1);
    assert_eq!(driver.serve_all(), "CAB");
}
