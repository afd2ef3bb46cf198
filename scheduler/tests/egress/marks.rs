//! Short flows first by their marks, OUT's part of the link, and least attained service.

use crate::driver::{Driver, UNIT, levels, ms, plain, segments_of, set_floor, sfd, sfd_of};
use proptest::prelude::*;
use sprat_scheduler::marking::Variant::{self, PSfd, SSfd};
use sprat_scheduler::{
    ClassSpec, Discipline, Egress, EgressPolicy, FlowSpec, Grant, Mark, Marking, Pacer, Precedence,
    Sfd, Size, Time, WireCost,
};

const MANY: u64 = 1 << 40;

/// Who is served when all arrive at once, one byte a grant.
fn order(discipline: Discipline, sizes: &[u64]) -> String {
    let mut driver = Driver::new(discipline, UNIT);
    for &bytes in sizes {
        driver.arrive(bytes);
    }
    driver.serve_all()
}

#[test]
fn las_serves_whoever_has_had_the_least() {
    assert_eq!(order(Discipline::Las, &[3, 1, 2]), "ABCACA");
    let mut driver = Driver::new(Discipline::Las, UNIT);
    driver.arrive(6);
    assert_eq!(driver.serve(3), "AAA");
    driver.arrive(MANY);
    driver.arrive(2);
    assert_eq!(driver.serve(9), "BCBCBABAB");
}

#[test]
fn the_first_bytes_of_each_go_before_the_rest_and_take_turns() {
    // Of one byte each, the first two are within a threshold of one.
    assert_eq!(order(sfd(Variant::Sfd, 1, 0.0), &[4, 4, 2]), "ABCABCABAB");
    // What comes meanwhile goes ahead of what is beyond, but in its turn.
    let mut driver = Driver::new(sfd(Variant::Sfd, 1, 0.0), UNIT);
    driver.arrive(6);
    assert_eq!(driver.serve(3), "AAA");
    driver.arrive(4);
    assert_eq!(driver.serve(2), "BB");
    driver.arrive(1);
    assert_eq!(driver.serve_all(), "CBABAA");
}

#[test]
fn levels_come_before_marks() {
    let mut driver = Driver::new(sfd(Variant::Sfd, 1, 0.5), UNIT);
    driver.arrive_as(1, Size::Exact(3), 3);
    driver.arrive_as(0, Size::Exact(4), 4);
    assert_eq!(driver.serve_all(), "BBBBAAA");
}

#[test]
fn one_of_every_k_is_promoted() {
    // A is in the midst; B's first two are IN. Of A's next, each third is IN.
    let mut driver = Driver::new(sfd(SSfd, 1, 0.0), UNIT);
    driver.arrive(20);
    assert_eq!(driver.serve(2), "AA");
    for _ in 0..3 {
        driver.arrive(2);
    }
    // OUT twice after all that is IN, then IN beside what comes.
    assert_eq!(driver.serve(8), "BCDBCDAA");
    driver.arrive(2);
    assert_eq!(driver.serve(5), "AEEAA");
}

#[test]
fn p_sfd_promotes_by_the_hash_of_the_flow() {
    let run = || {
        let mut driver = Driver::new(sfd(PSfd, 1_000, 0.0), segments_of(10));
        driver.arrive(MANY);
        driver.run_until(ms(200));
        // Beside an endless run of short ones, A has what is promoted alone.
        let from = driver.services.len();
        for _ in 0..100_000 {
            driver.arrive(10);
            driver.serve_one();
        }
        let own = driver.services[from..].iter();
        own.filter(|service| service.flow == 0).count()
    };
    let promoted = run();
    assert_eq!(promoted, run(), "it is no matter of chance");
    // n promotions of ten bytes each after 2,000: at each place n's turn comes at once
    // where the draw has it, and never again where it has not.
    assert!((1..40).contains(&promoted), "{promoted}");
}

#[test]
fn out_has_its_part_while_both_wait() {
    let mut driver = Driver::new(sfd(Variant::Sfd, 1, 0.25), UNIT);
    driver.arrive(MANY);
    driver.arrive(MANY);
    assert_eq!(driver.serve(6), "ABABAB");
    for _ in 0..12 {
        driver.arrive(2);
    }
    // One of four, by turns of those beyond; the rest to those who are new.
    assert_eq!(driver.serve(16), "ACDEBFGHAIJKBLMN");
    // Nothing is saved up while none is new.
    driver.serve(200);
    driver.arrive(2);
    driver.arrive(2);
    assert_eq!(driver.serve(5).matches(['A', 'B']).count(), 2);
}

/// The part of the bytes that a long flow has while short ones always wait.
fn share_of_out(discipline: Discipline, floor_percent: u8, classes: Vec<ClassSpec>) -> f64 {
    let mut driver = Driver::with_classes(discipline, segments_of(100), classes);
    driver.arrive(MANY);
    driver.run_until(ms(2_000));
    set_floor(&mut driver.egress, driver.now, floor_percent);
    let from = driver.services.len();
    driver.arrive(700);
    while driver.services.len() < from + 10_000 {
        if driver.egress.waiting_flows() < 3 {
            driver.arrive(700);
        }
        driver.serve_one();
    }
    let served = driver.services[from..].iter();
    let bytes = |of: &dyn Fn(usize) -> bool| -> u64 {
        let own = served.clone().filter(|service| of(service.flow));
        own.map(|service| service.bytes).sum()
    };
    bytes(&|flow| flow == 0) as f64 / bytes(&|_| true) as f64
}

#[test]
fn its_part_is_exact_within_a_hundredth() {
    for share in [0.0, 0.01, 0.3, 0.5, 0.9] {
        for classes in [levels(1), weighted()] {
            let found = share_of_out(sfd(Variant::Sfd, 1_000, share), 0, classes);
            assert!((found - share).abs() <= 0.01 * share, "{found} of {share}");
        }
    }
    // More than the most is the most.
    let found = share_of_out(sfd(Variant::Sfd, 1_000, 1.0), 0, levels(1));
    assert!((found - Sfd::MAX_OUT_SHARE).abs() <= 0.01, "{found}");
}

/// Classes of which each has a part of the link by weight.
fn weighted() -> Vec<ClassSpec> {
    let class = |weight| ClassSpec {
        weight,
        ..ClassSpec::default()
    };
    vec![class(1), class(2)]
}

#[test]
fn what_the_floor_gives_is_part_of_it() {
    let found = share_of_out(sfd(Variant::Sfd, 1_000, 0.3), 10, levels(1));
    assert!((found - 0.3).abs() <= 0.003, "{found}");
    // And a floor above it is no debt for long.
    let found = share_of_out(sfd(Variant::Sfd, 1_000, 0.1), 40, levels(1));
    assert!((0.39..=0.41).contains(&found), "{found}");
    let mut driver = Driver::new(sfd(Variant::Sfd, 1, 0.25), UNIT);
    driver.arrive(MANY);
    driver.serve(1_500);
    set_floor(&mut driver.egress, driver.now, 50);
    for _ in 0..900 {
        driver.arrive(1);
    }
    driver.run_until(ms(2_500));
    set_floor(&mut driver.egress, driver.now, 0);
    let served: Vec<_> = (0..8).filter_map(|_| driver.serve_one()).collect();
    assert!(served.contains(&0), "{served:?}");
}

#[test]
fn a_flow_is_new_after_it_was_idle_but_not_for_waiting() {
    // The last grant of A is at 2 ms.
    for (back_ms, expected) in [(22, "ABAB"), (23, "AAAB")] {
        let mut driver = Driver::new(sfd(Variant::Sfd, 1, 0.0), UNIT);
        let first = driver.arrive(MANY);
        driver.serve(3);
        driver.pause(first);
        driver.arrive(MANY);
        driver.run_until(ms(back_ms));
        driver.resume(first);
        // B has come in the meantime, and A back: it is due. New, it has two ahead.
        assert_eq!(driver.serve(4), expected, "{back_ms}");
    }
    // One that waits for long, because others are always new, stays beyond.
    let mut driver = Driver::new(sfd(Variant::Sfd, 1, 0.0), UNIT);
    driver.arrive(MANY);
    driver.serve(3);
    for _ in 0..200 {
        driver.arrive(1);
        assert_ne!(driver.serve_one(), Some(0));
    }
    driver.arrive(2);
    let served: Vec<_> = (0..3).filter_map(|_| driver.serve_one()).collect();
    assert_eq!(served, [201, 201, 0]);
}

#[test]
fn a_size_that_is_known_counts_if_it_is_wanted() {
    let by_size = |use_size| {
        let sfd = Sfd {
            use_size,
            ..sfd_of(Variant::Sfd, 2, 0.0)
        };
        let mut driver = Driver::new(Discipline::Sfd(sfd), UNIT);
        driver.arrive_as(0, Size::Exact(9), 9);
        driver.arrive_as(0, Size::Unknown, 9);
        driver.arrive_as(0, Size::Exact(2), 2);
        driver.serve(8)
    };
    assert_eq!(by_size(false), "ABCABCAB");
    assert_eq!(by_size(true), "BCBCBABA");
}

/// A link with several segments to a grant.
fn fast(discipline: Discipline) -> Egress {
    Egress::new(Pacer::exact(1_000_000_000), EgressPolicy::new(discipline))
}

#[test]
fn a_grant_ends_with_the_segment_that_crosses_the_threshold() {
    for (record_overhead, first) in [(0, 11 * 1448), (22, 11 * 1448 - 22)] {
        let mut egress = fast(Discipline::Sfd(Sfd::PAPER));
        let cost = WireCost {
            record_overhead,
            ..WireCost::ETHERNET_IPV4
        };
        let spec = FlowSpec::new(0, Size::Unknown, cost);
        let id = egress.open(Time::ZERO, spec).unwrap();
        let mut now = Time::ZERO;
        let mut grants = Vec::new();
        for _ in 0..7 {
            egress.offer(now, id, MANY);
            let Grant::Send { flow, bytes } = egress.grant(now) else {
                panic!("the link is free");
            };
            grants.push((bytes, egress.granted_mark(flow).unwrap()));
            now = egress
                .next_wakeup()
                .unwrap_or(egress.pacer().next_grant_at());
        }
        // 300 us of a gigabit are 24 segments.
        let whole = cost.payload_in(24);
        let expected = [
            (first, Mark::In),
            (whole, Mark::Out),
            (whole, Mark::Out),
            (whole, Mark::Out),
            (whole, Mark::In),
            (whole, Mark::Out),
            (whole, Mark::Out),
        ];
        assert_eq!(grants, expected);
        assert_eq!(egress.marked_bytes(), [first + whole, 5 * whole]);
    }
}

#[test]
fn flows_are_marked_beside_an_order_that_does_not_ask() {
    let mut egress = fast(Discipline::Srpt);
    let marking = Some(Marking {
        variant: Variant::Sfd,
        ..Marking::PAPER
    });
    let policy = egress.policy().clone();
    let spec = FlowSpec::new(0, Size::Exact(30_000), plain(1_000, 0));
    let mut now = Time::ZERO;
    let mut next = |egress: &mut Egress, id, bytes| {
        egress.offer(now, id, bytes);
        let Grant::Send { bytes, .. } = egress.grant(now) else {
            panic!("the link is free");
        };
        now = egress.pacer().next_grant_at();
        (bytes, egress.granted_mark(id))
    };
    let id = egress.open(Time::ZERO, spec).unwrap();
    assert_eq!(next(&mut egress, id, 1_000), (1_000, None));
    egress.reconfigure(Time::ZERO, EgressPolicy { marking, ..policy });
    // What went out unmarked is not known.
    assert_eq!(next(&mut egress, id, 29_000), (16_000, Some(Mark::In)));
    assert_eq!(next(&mut egress, id, 13_000), (13_000, Some(Mark::Out)));
    assert_eq!(egress.marked_bytes(), [16_000, 13_000]);
    // Of the last nothing was written, and it is the last that is taken back.
    egress.written(Time::ZERO, id, 3_000);
    assert_eq!(egress.marked_bytes(), [16_000, 3_000]);
    // A head that went ahead counts.
    let other = egress.open(Time::ZERO, spec).unwrap();
    egress.count_ahead(Time::ZERO, other, 15_000);
    assert_eq!(next(&mut egress, other, 5_000), (1_000, Some(Mark::In)));
    assert_eq!(next(&mut egress, other, 4_000), (4_000, Some(Mark::Out)));
}

#[test]
fn a_connections_flows_keep_what_its_client_says() {
    let mut driver = Driver::new(sfd(Variant::Sfd, 1, 0.25), UNIT);
    driver.arrive(MANY);
    driver.serve(3);
    let group = driver.egress.open_group();
    let first = Precedence {
        urgency: 1,
        ..Precedence::default()
    };
    driver.arrive_in(group, Precedence::default(), 0, 2);
    driver.arrive_in(group, first, 0, 4);
    // C stands for B until it is over, though it is beyond after two, and B is not.
    assert_eq!(driver.serve(9), "CACCACBBA");
}

proptest! {
    /// Whatever comes and goes, both marks are served: OUT has its part of any stretch in
    /// which both wait, to two grants.
    #[test]
    fn out_never_falls_behind(
        sizes in prop::collection::vec(1u64..60, 100..300),
        share in prop::sample::select(vec![0.1, 0.3, 0.5]),
        long in 1usize..4,
    ) {
        let mut driver = Driver::new(sfd(Variant::Sfd, 10, share), UNIT);
        for _ in 0..long {
            driver.arrive(MANY);
        }
        driver.serve(long * 11);
        // While two at least wait beside the long ones some of them are new, or beyond.
        let (mut out, mut both) = (0u64, 0u64);
        for bytes in sizes {
            driver.arrive(bytes.min(11));
            while driver.egress.waiting_flows() > long + 1 {
                let flow = driver.serve_one().unwrap();
                both += 1;
                out += u64::from(flow < long);
                let due = (both as f64 * share).floor() as u64;
                prop_assert!(out + 2 >= due, "{out} of {both}");
                prop_assert!(out <= due + 2, "{out} of {both}");
            }
        }
    }
}
