//! What is settled after a grant: what was not written, or beyond it, and what was asked
//! for meanwhile.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::time::Duration;

use sprat_scheduler::marking::Variant;
use sprat_scheduler::{
    ClassSpec, Discipline, Egress, EgressPolicy, FlowId, FlowSpec, Grant, Lane, Mark, Marking,
    Pacer, Precedence, Size, Survey, Time, WireCost,
};

use crate::driver::{
    Driver, UNIT, egress, egress_of, levels, ms, plain, segments_of, set_floor, sfd_of, share, srq,
};

/// Opens a flow of so many bytes, all of which it offers.
fn open(egress: &mut Egress, now: Time, spec: FlowSpec) -> FlowId {
    let bytes = spec.size.bytes().unwrap_or(1 << 30);
    let flow = egress.open(now, spec).unwrap();
    egress.offer(now, flow, bytes);
    flow
}

fn unit(size: u64) -> FlowSpec {
    FlowSpec::new(0, Size::Exact(size), plain(1, 0))
}

/// Whose turn it is as soon as the link is free.
fn next(egress: &mut Egress, now: Time) -> FlowId {
    match egress.grant(now) {
        Grant::Send { flow, .. } => flow,
        other => panic!("{other:?}"),
    }
}

/// A link whose flows are marked, in segments of 1,000 bytes without headers.
fn marked(variant: Variant, threshold_bytes: u64) -> (Egress, FlowId) {
    let policy = EgressPolicy {
        marking: Some(Marking {
            variant,
            threshold_bytes,
            idle: Duration::from_secs(9),
            k: 3,
        }),
        ..EgressPolicy::new(Discipline::Srpt)
    };
    let mut egress = Egress::new(Pacer::exact(8_000_000), policy);
    let spec = FlowSpec::new(0, Size::Unknown, plain(1_000, 0));
    let flow = open(&mut egress, ms(0), spec);
    (egress, flow)
}

/// The marks of grants of which so much is written each time.
fn marks(egress: &mut Egress, flow: FlowId, written: &[u64]) -> String {
    let mark = |&bytes: &u64| {
        let now = egress.pacer().next_grant_at();
        assert_eq!(next(egress, now), flow);
        let mark = egress.granted_mark(flow);
        egress.written(now, flow, bytes);
        // Nothing is settled twice.
        egress.written(now, flow, 0);
        egress.offer(now, flow, 1 << 30);
        if mark == Some(Mark::In) { 'i' } else { 'o' }
    };
    written.iter().map(mark).collect()
}

#[test]
fn marks_go_by_what_was_written() {
    // 400 and 1,000 are beyond 1,300, and 1,000 are not.
    let (mut egress, flow) = marked(Variant::Sfd, 1_300);
    assert_eq!(marks(&mut egress, flow, &[400, 1_000, 1_000]), "iio");
    // As 1,600 and 1,000 are beyond 2,500; what is beyond a grant counts once.
    let (mut egress, flow) = marked(Variant::Sfd, 2_500);
    assert_eq!(marks(&mut egress, flow, &[1_600, 1_000, 1_000]), "iio");
}

#[test]
fn one_of_three_is_promoted_of_those_of_which_something_was_written() {
    let (mut egress, flow) = marked(Variant::SSfd, 0);
    assert_eq!(marks(&mut egress, flow, &[1_000; 7]), "iooiooi");
    assert_eq!(marks(&mut egress, flow, &[1; 6]), "ooiooi");
    // One of which nothing was written is made again.
    assert_eq!(marks(&mut egress, flow, &[9, 0, 0, 9, 9, 9]), "ooooio");
}

#[test]
fn a_closed_flow_has_no_mark() {
    let (mut egress, flow) = marked(Variant::Sfd, 9);
    next(&mut egress, ms(0));
    assert_eq!(egress.granted_mark(flow), Some(Mark::In));
    egress.close(ms(0), flow);
    assert_eq!(egress.granted_mark(flow), None);
}

/// A flow that has waited long, and one that is smaller and new, at 1.5 s on a link whose
/// floor is half of it.
fn old_and_new() -> (Egress, Time, [FlowId; 2]) {
    let mut egress = egress(Discipline::Srpt, Pacer::exact(8_000));
    set_floor(&mut egress, ms(0), 50);
    let old = egress.open(ms(0), unit(1_000)).unwrap();
    let now = ms(1_500);
    egress.offer(now, old, 1_000);
    let new = open(&mut egress, now, unit(10));
    assert_eq!(next(&mut egress, now), new);
    (egress, now, [old, new])
}

#[test]
fn a_floor_that_is_owed_stays_so_when_a_grant_is_written_whole() {
    let (mut egress, now, [old, new]) = old_and_new();
    // It can take nothing for a moment.
    egress.offer(now, old, 0);
    egress.written(now, new, 1);
    egress.offer(now, old, 1_000);
    egress.offer(now, new, 9);
    assert_eq!(next(&mut egress, ms(1_501)), old);
}

#[test]
fn the_floor_is_not_owed_what_was_given_back() {
    let (mut egress, now, [_, new]) = old_and_new();
    egress.written(now, new, 0);
    egress.offer(now, new, 10);
    assert_eq!(next(&mut egress, now), new);
    egress.written(now, new, 1);
    egress.offer(now, new, 9);
    assert_ne!(next(&mut egress, ms(1_501)), new);
}

#[test]
fn the_floor_does_not_go_before_what_the_fast_path_refused() {
    let (mut egress, now, [old, new]) = old_and_new();
    egress.written(now, new, 1);
    egress.offer(now, new, 9);
    let head = open(&mut egress, now, unit(1).in_lane(Lane::Express));
    assert_eq!(next(&mut egress, ms(1_501)), head);
    assert_eq!(next(&mut egress, ms(1_502)), old);
}

#[test]
fn one_that_waits_for_a_place_has_no_floor() {
    let limited = ClassSpec {
        max_concurrency: 1,
        ..ClassSpec::default()
    };
    let mut driver = Driver::with_classes(Discipline::Srpt, UNIT, vec![limited]);
    set_floor(&mut driver.egress, ms(0), 50);
    driver.arrive(2_000);
    driver.arrive(5_000);
    assert_eq!(driver.serve(2_000), "A".repeat(2_000));
    assert_eq!(driver.serve(2), "BB");
}

#[test]
fn the_fast_paths_lane_saves_nothing_up_while_it_is_empty() {
    let mut egress = egress(Discipline::Srpt, Pacer::exact(8_000));
    let flow = open(&mut egress, ms(0), unit(100));
    let mut sent = 0;
    let mut serve = |egress: &mut Egress, at: u64| {
        let granted = next(egress, ms(at));
        egress.written(ms(at), granted, 1);
        sent += 1;
        egress.offer(ms(at), granted, 100 - sent);
        granted
    };
    for at in 0..9 {
        assert_eq!(serve(&mut egress, at), flow);
    }
    let head = open(&mut egress, ms(9), unit(50).in_lane(Lane::Express));
    let order = [9, 10, 11, 12].map(|at| serve(&mut egress, at));
    assert_eq!(order, [head, flow, head, flow]);
}

#[test]
fn a_class_has_the_turn_back_of_which_it_wrote_nothing() {
    let mut driver = Driver::with_classes(Discipline::Fcfs, UNIT, vec![ClassSpec::default(); 2]);
    for class in 0..2 {
        driver.arrive_as(class, Size::Exact(9), 9);
    }
    for _ in 0..3 {
        assert_eq!(driver.serve_in_part(0), Some(0));
    }
    assert_eq!(driver.serve(4), "ABAB");
}

/// Queues of SRQ of 1,000 and 4,000 bytes: A is in the second, B in the first.
fn two_queues(classes: Vec<ClassSpec>) -> Driver {
    let config = sprat_scheduler::srq::Config {
        quanta: vec![1_000, 4_000],
        quantum_bounds: (1, 1 << 40),
        ..sprat_scheduler::srq::Config::bytes()
    };
    let discipline = Discipline::Srq(Box::new(config));
    let mut driver = Driver::with_classes(discipline, UNIT, classes);
    driver.arrive(1 << 30);
    assert_eq!(driver.serve(1_000).len(), 1_000);
    driver.arrive(1_000);
    driver
}

#[test]
fn a_queue_has_its_part_of_what_is_written() {
    // In one class, and in one of two that take turns.
    let one = ClassSpec::default();
    let heavier = ClassSpec {
        weight: 2,
        ..ClassSpec::default()
    };
    for classes in [vec![one.clone()], vec![one, heavier]] {
        let mut driver = two_queues(classes.clone());
        assert_eq!(driver.serve(10), "BBBBBABBBB", "{classes:?}");
        let mut driver = two_queues(classes.clone());
        for _ in 0..20 {
            assert_eq!(driver.serve_in_part(0), Some(1), "{classes:?}");
        }
    }
}

#[test]
fn those_of_a_merged_queue_are_in_the_one_before() {
    let config = sprat_scheduler::srq::Config {
        quanta: vec![3, 6],
        quantum_bounds: (1, 1 << 40),
        interval: Duration::from_secs(1),
        ..sprat_scheduler::srq::Config::bytes()
    };
    let discipline = Discipline::Srq(Box::new(config));
    let mut driver = Driver::with_classes(discipline, UNIT, levels(1));
    driver.arrive(1_000);
    assert_eq!(driver.serve(9), "AAAAAAAAA");
    driver.arrive(1_000);
    // A is in the last queue, B in the second and has nine tenths.
    assert_eq!(driver.serve(4), "BBBB");
    driver.now = ms(1_000);
    // Nothing has ended in the last: in one queue the first to come is due.
    assert_eq!(driver.serve(5), "AAAAA");
    assert_eq!(driver.egress.queues().map(|(own, _)| own.count()), Some(2));
}

#[test]
fn what_comes_after_a_pause_begins_in_the_first_queue() {
    let trigger = sprat_scheduler::srq::Trigger::Always;
    let mut egress = egress_of(srq(trigger), Pacer::exact(8_000), levels(1));
    let spec = FlowSpec::new(0, Size::Unknown, plain(1, 0));
    let flow = egress.open(ms(0), spec).unwrap();
    for at in 0..3 {
        egress.offer(ms(at), flow, 1);
        assert_eq!(next(&mut egress, ms(at)), flow);
    }
    egress.offer(ms(3), flow, 0);
    egress.offer(ms(3), flow, 1);
    egress.offer(ms(3), flow, 0);
    let members = |egress: &Egress| egress.queues().unwrap().0.stats().members[..2].to_vec();
    assert_eq!(members(&egress), [0, 1]);
    egress.pause(ms(3), flow);
    egress.offer(ms(103), flow, 1);
    assert_eq!(members(&egress), [1, 0]);
    assert_eq!(egress.queues().unwrap().0.stats().done[1], 1);
}

/// A stream of no known size that has sent five bytes in 200 ms, and then pauses for so
/// long beside a download of three bytes: whose turn it is.
fn after_a_pause(pause_ms: u64) -> char {
    let mut driver = Driver::new(Discipline::Srpt, UNIT);
    let stream = driver.arrive_as(0, Size::Unknown, 100);
    driver.serve(5);
    driver.pause(stream);
    driver.now = ms(200);
    driver.egress.pause(driver.now, driver.clients[stream].id);
    driver.now = ms(200 + pause_ms);
    driver.arrive(3);
    driver.resume(stream);
    driver.serve(1).chars().next().unwrap()
}

#[test]
fn a_message_of_a_stream_begins_after_10_ms_at_least() {
    assert_eq!(after_a_pause(9), 'B');
    assert_eq!(after_a_pause(10), 'A');
}

/// A stream that has sent 50 bytes as fast as the link goes, and pauses for so long, in
/// the midst of which it says once more that it has nothing.
fn after_a_burst(pause_ms: u64) -> char {
    let mut driver = Driver::new(Discipline::Srpt, UNIT);
    let stream = driver.arrive_as(0, Size::Unknown, 100);
    driver.serve(50);
    driver.pause(stream);
    let begun = driver.now;
    driver.egress.pause(begun, driver.clients[stream].id);
    driver.now = begun + Duration::from_millis(pause_ms / 2);
    driver.pause(stream);
    driver.now = begun + Duration::from_millis(pause_ms);
    driver.arrive(30);
    driver.resume(stream);
    driver.serve(1).chars().next().unwrap()
}

#[test]
fn a_pause_is_of_100_ms_at_least_and_ends_with_bytes() {
    assert_eq!(after_a_burst(99), 'B');
    assert_eq!(after_a_burst(100), 'A');
}

#[test]
fn what_begins_anew_has_a_number_of_its_own() {
    let mut egress = egress(Discipline::Srpt, Pacer::exact(8_000));
    let spec = FlowSpec::new(0, Size::Unknown, plain(1, 0));
    let flow = egress.open(ms(0), spec).unwrap();
    egress.pause(ms(0), flow);
    egress.offer(ms(100), flow, 1);
    open(&mut egress, ms(100), unit(9));
    let mut survey = Survey::new(9);
    egress.survey(ms(100), &mut survey);
    let found = survey.finish();
    let numbers: Vec<_> = found.iter().map(|flow| flow.number).collect();
    assert_eq!(numbers, [1, 2]);
}

#[test]
fn it_is_told_how_many_clients_share_and_how_many_flows_there_were() {
    let mut driver = Driver::with_classes(Discipline::Srpt, UNIT, levels(1));
    assert_eq!(driver.egress.clients(), None);
    share(&mut driver.egress, ms(0), true);
    assert_eq!(driver.egress.clients(), Some(0));
    for owner in [1, 2, 3, 2] {
        driver.owner = Some(owner);
        driver.arrive(9);
    }
    assert_eq!(driver.egress.clients(), Some(3));
    let gone = driver.clients[0].id;
    driver.egress.close(ms(0), gone);
    assert_eq!(driver.egress.clients(), Some(2));
    let stats = driver.egress.class_stats()[0];
    assert_eq!((stats.opened, stats.open_flows), (4, 3));
}

#[test]
fn a_client_is_charged_with_what_is_written_beyond_a_grant() {
    let mut egress = egress(Discipline::Srpt, Pacer::exact(8_000));
    share(&mut egress, ms(0), true);
    let flows = [5, 7].map(|client| open(&mut egress, ms(0), unit(100).of_client(Some(client))));
    assert_eq!(next(&mut egress, ms(0)), flows[0]);
    egress.written(ms(0), flows[0], 4);
    egress.offer(ms(0), flows[0], 96);
    let order = [4, 5, 6, 7, 8].map(|at| {
        let flow = next(&mut egress, ms(at));
        egress.written(ms(at), flow, 1);
        egress.offer(ms(at), flow, 90);
        flow
    });
    let [one, other] = flows;
    assert_eq!(order, [other, other, other, other, one]);
}

#[test]
fn quanta_are_told_and_those_of_the_background_leave_room_for_a_record() {
    let idle = ClassSpec {
        idle_only: true,
        ..ClassSpec::default()
    };
    let classes = || vec![ClassSpec::default(), idle.clone()];
    let quantum = |rate, class, cost| {
        let egress = egress_of(Discipline::Srpt, Pacer::exact(rate), classes());
        egress.quantum_bytes(class, cost)
    };
    let plain = WireCost::ETHERNET_IPV4;
    assert_eq!(quantum(100_000_000, 0, plain), 2 * 1_448);
    // 300 us of 30 Mbit/s are 1,125 bytes: less than a segment.
    assert_eq!(quantum(30_000_000, 0, plain), 1_448);
    assert_eq!(quantum(30_000_000, 1, plain), 1_125 - 66);
    let tls = WireCost {
        record_overhead: 22,
        ..plain
    };
    assert_eq!(quantum(30_000_000, 1, tls), 1_125 - 66 - 22);
}

#[test]
fn rounds_of_all_classes_begin_anew_with_another_policy() {
    let mut driver = Driver::with_classes(Discipline::Fair, UNIT, levels(3));
    for _ in 0..2 {
        driver.arrive_as(2, Size::Exact(100), 100);
    }
    assert_eq!(driver.serve(4), "ABAB");
    let policy = driver.egress.policy().clone();
    driver.egress.reconfigure(driver.now, policy);
    assert_eq!(driver.serve(4), "ABAB");
}

#[test]
fn rounds_of_all_classes_begin_anew_when_srq_turns() {
    let trigger = sprat_scheduler::srq::Trigger::Waiting(2);
    let mut driver = Driver::with_classes(srq(trigger), UNIT, levels(3));
    for _ in 0..3 {
        driver.arrive_as(2, Size::Exact(90_000), 90_000);
    }
    assert_eq!(driver.serve(6), "ABCABC");
    driver.run_until(ms(1_500));
    let is_on = |driver: &Driver| driver.egress.queues().map(|(_, is_on)| is_on);
    assert_eq!(is_on(&driver), Some(true));
    // None waits for five seconds.
    (0..3).for_each(|flow| driver.pause(flow));
    driver.run_until(ms(7_000));
    (0..2).for_each(|flow| driver.resume(flow));
    assert_eq!(is_on(&driver), Some(false));
    let order = driver.serve(6);
    assert_eq!(order.matches('A').count(), 3, "{order}");
}

#[test]
fn what_a_client_says_of_its_flows_outlives_a_policy() {
    let mut driver = Driver::new(Discipline::Srpt, UNIT);
    let group = driver.egress.open_group();
    let urgency = |urgency| Precedence {
        urgency,
        incremental: false,
    };
    driver.arrive_in(group, urgency(0), 0, 5);
    driver.arrive_in(group, urgency(7), 0, 2);
    let policy = driver.egress.policy().clone();
    driver.egress.reconfigure(driver.now, policy);
    assert_eq!(driver.serve_all(), "AAAAABB");
}

#[test]
fn a_connection_moves_with_the_first_of_its_flows() {
    let mut driver = Driver::new(Discipline::Srpt, UNIT);
    let group = driver.egress.open_group();
    let first = driver.arrive_in(group, Precedence::default(), 0, 10);
    driver.arrive_in(group, Precedence::default(), 0, 20);
    driver.arrive(5);
    driver.resize(first, Size::Exact(2));
    assert_eq!(driver.serve(2), "AA");
}

#[test]
fn one_that_is_known_to_be_long_has_outs_part_though_it_has_not_begun() {
    let sfd = sprat_scheduler::Sfd {
        use_size: true,
        ..sfd_of(Variant::Sfd, 5, 0.5)
    };
    let mut driver = Driver::new(Discipline::Sfd(sfd), UNIT);
    driver.arrive(100);
    for _ in 0..4 {
        driver.arrive(3);
    }
    assert_eq!(driver.serve(6), "BACADA");
}

#[test]
fn one_that_has_begun_in_a_pool_has_outs_part() {
    let limited = ClassSpec {
        max_concurrency: 5,
        ..ClassSpec::default()
    };
    let sfd = Discipline::Sfd(sfd_of(Variant::Sfd, 1, 0.5));
    let mut driver = Driver::with_classes(sfd, UNIT, vec![limited]);
    driver.arrive(100);
    assert_eq!(driver.serve(3), "AAA");
    for _ in 0..3 {
        driver.arrive(2);
    }
    assert_eq!(driver.serve(6), "BACADA");
}

#[test]
fn the_guards_factor_is_that_of_the_policy() {
    for (factor, trips) in [(2.0, 1), (9.0, 0)] {
        let mut egress = egress(Discipline::Srpt, Pacer::exact(8_000_000));
        // 100 each second, then 500.
        for second in 0..8 {
            for _ in 0..100 {
                egress.fast_path(ms(second * 1_000), 1);
            }
        }
        let policy = EgressPolicy {
            guard_factor: factor,
            ..egress.policy().clone()
        };
        egress.reconfigure(ms(8_000), policy);
        for _ in 0..500 {
            egress.fast_path(ms(8_000), 1);
        }
        assert_eq!(egress.stats().guard_trips, trips, "{factor}");
    }
    // Eight times 100 was the bound before.
    let mut egress = egress(Discipline::Srpt, Pacer::exact(8_000_000));
    for second in 0..8 {
        for _ in 0..100 {
            egress.fast_path(ms(second * 1_000), 1);
        }
    }
    for _ in 0..500 {
        egress.fast_path(ms(8_000), 1);
    }
    assert_eq!(egress.stats().guard_trips, 0);
}

#[test]
fn a_size_that_becomes_known_is_learnt() {
    let cutoffs = sprat_scheduler::Cutoffs::Learnt { classes: 2 };
    let mut egress = egress(Discipline::Bands(cutoffs), Pacer::exact(8_000_000));
    for _ in 0..512 {
        assert_eq!(egress.cutoffs().len(), 5);
        let spec = FlowSpec::new(0, Size::Unknown, plain(1, 0));
        let flow = egress.open(ms(0), spec).unwrap();
        egress.resize(ms(0), flow, Size::Exact(5_000));
        egress.close(ms(0), flow);
    }
    assert_eq!(egress.cutoffs().len(), 1);
}

/// A flow of a class that shares its level is behind the first of its class, and so is one
/// that comes later.
#[test]
fn a_newcomer_is_a_grant_behind_the_first_of_its_class() {
    for classes in [1, 2] {
        let link = segments_of(100);
        let classes = vec![ClassSpec::default(); classes];
        let mut driver = Driver::with_classes(Discipline::Fair, link, classes);
        for _ in 0..2 {
            driver.arrive(10_000);
        }
        assert_eq!(driver.serve(4), "ABAB");
        driver.pause(1);
        // A alone.
        assert_eq!(driver.serve(5), "AAAAA");
        driver.resume(1);
        driver.arrive(1);
        let order = driver.serve(4);
        assert_eq!(order, "BCAB", "one of a byte");
    }
}
