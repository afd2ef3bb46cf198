//! Responses as requests with deadlines and values: exact orders and shares of `edf`, `vrd`
//! and `srq` on the uplink.

use std::time::Duration;

use sprat_scheduler::srq::{self, Trigger};
use sprat_scheduler::{ClassSpec, Discipline, Egress, FlowId, FlowSpec, Grant, Pacer, Size, Time};

use crate::driver::{Driver, UNIT, egress_of, levels, ms, plain, segments_of};

const MS: Duration = Duration::from_millis(1);

/// A class of level 0 with deadlines in milliseconds.
fn class(soft_ms: u32, hard_ms: u32, value: u32) -> ClassSpec {
    ClassSpec {
        deadline: Some(hard_ms * MS),
        soft_deadline: Some(soft_ms * MS),
        value,
        ..ClassSpec::default()
    }
}

/// Serves classes that share a level and a weight: they are compared by their deadlines and
/// values.
fn driver(discipline: Discipline, classes: Vec<ClassSpec>) -> Driver {
    Driver::with_classes(discipline, UNIT, classes)
}

fn queues(change: impl FnOnce(&mut srq::Config)) -> Discipline {
    let mut config = srq::Config {
        quanta: vec![3, 6],
        quantum_bounds: (1, 1 << 40),
        ..srq::Config::bytes()
    };
    change(&mut config);
    Discipline::Srq(Box::new(config))
}

#[test]
fn edf_goes_by_soft_deadlines_also_when_they_are_past() {
    let mut driver = driver(Discipline::Edf, vec![class(5, 900, 1)]);
    driver.arrive(3);
    driver.run_until(ms(1));
    driver.arrive(2);
    // A class at a time, a deadline is as old as its request: the first is first still.
    driver.run_until(ms(1));
    assert_eq!(driver.serve_all(), "AABB");
}

#[test]
fn those_without_a_deadline_come_last() {
    for discipline in [Discipline::Edf, Discipline::Vrd] {
        let none = ClassSpec::default();
        let mut egress = egress_of(
            discipline,
            Pacer::exact(8_000),
            vec![
                none,
                ClassSpec {
                    level: 1,
                    ..class(5, 9, 1)
                },
            ],
        );
        let mut open = |class| {
            let spec = FlowSpec::new(class, Size::Exact(9), plain(1, 0));
            let flow = egress.open(Time::ZERO, spec).unwrap();
            egress.offer(Time::ZERO, flow, 9);
            flow
        };
        let (late, soon) = (open(1), open(0));
        // Levels come first, and of one level the class with a deadline would.
        let first = egress.grant(Time::ZERO);
        assert_eq!(
            first,
            Grant::Send {
                flow: soon,
                bytes: 1
            }
        );
        egress.close(Time::ZERO, soon);
        let second = egress.grant(ms(1));
        assert_eq!(
            second,
            Grant::Send {
                flow: late,
                bytes: 1
            }
        );
    }
}

/// Checks that classes of one level are compared by their deadlines, not served in turns; a
/// weight of its own has a class take turns.
#[test]
fn deadlines_are_compared_across_classes_of_one_level() {
    for discipline in [Discipline::Edf, Discipline::Vrd] {
        let (far, near) = (class(50, 90, 1), class(5, 9, 1));
        let both = vec![far.clone(), near.clone()];
        let mut driver = driver(discipline.clone(), both);
        driver.arrive_as(0, Size::Exact(3), 3);
        driver.arrive_as(1, Size::Exact(3), 3);
        assert_eq!(driver.serve_all(), "BBBAAA");
        let heavy = ClassSpec { weight: 2, ..near };
        let mut driver = self::driver(discipline, vec![far, heavy]);
        driver.arrive_as(0, Size::Exact(3), 3);
        driver.arrive_as(1, Size::Exact(3), 3);
        assert_ne!(driver.serve_all(), "BBBAAA");
    }
}

#[test]
fn vrd_has_the_late_wait_for_all_that_are_in_time() {
    let mut driver = driver(Discipline::Vrd, vec![class(4, 4, 1)]);
    driver.arrive(6); // A, late after 4 ms
    driver.run_until(ms(2));
    driver.arrive(4); // B, late after 6 ms
    // A is first until it is late, then B until that is.
    assert_eq!(driver.serve_all(), "AABBAABB");
    assert!(
        driver
            .clients
            .iter()
            .all(|client| client.finished_at.is_some())
    );
}

#[test]
fn a_value_that_falls_by_steps_moves_what_waits() {
    // From 8 to 24 ms the value falls by a sixteenth each millisecond.
    let mut driver = driver(Discipline::Vrd, vec![class(8, 24, 4)]);
    driver.arrive(40);
    driver.run_until(ms(7));
    driver.arrive(2);
    // Whole are both at 7 and 8 ms; from 9 on the first has less of its value.
    assert_eq!(driver.serve(4), "AABB");
    assert_eq!(driver.serve(2), "AA");
}

#[test]
fn a_new_response_goes_before_one_that_has_used_up_its_quantum() {
    let mut driver = driver(queues(|_| {}), levels(1));
    driver.arrive(20);
    assert_eq!(driver.serve(3), "AAA");
    driver.arrive(3);
    // Three bytes take A to the second queue, where it has a tenth.
    assert_eq!(driver.serve(4), "BBBA");
}

#[test]
fn nine_tenths_go_to_the_first_queue_and_the_rest_to_the_others() {
    let mut driver = driver(
        queues(|config| config.quanta = vec![1_000, 4_000]),
        levels(1),
    );
    driver.arrive(1 << 30);
    assert_eq!(driver.serve(1_000).len(), 1_000);
    // B is never through its quantum: it is replaced.
    let mut order = String::new();
    let mut first = driver.arrive(20);
    for _ in 0..20 {
        if driver.clients[first].finished_at.is_some() {
            first = driver.arrive(20);
        }
        order.push(if driver.serve_one() == Some(0) {
            'a'
        } else {
            'b'
        });
    }
    assert_eq!(order, "bbbbbabbbbbbbbbabbbb");
}

/// Serves a link with flows in each of three queues for a while; the bytes of each queue.
fn shares_of_three(mss: u32) -> [u64; 3] {
    let config = |config: &mut srq::Config| {
        config.quanta = vec![100 * u64::from(mss), 1_000_000 * u64::from(mss)];
        config.interval = Duration::from_secs(1 << 20);
    };
    let mut driver = Driver::with_classes(queues(config), segments_of(mss), levels(1));
    // Into the last queue, into the second; then those that are always new.
    let many = 1 << 50;
    driver.arrive(many);
    assert_eq!(driver.serve(1_000_100).len(), 1_000_100);
    driver.arrive(many);
    assert_eq!(driver.serve(130).len(), 130);
    driver.arrive(many);
    driver.arrive(many);
    driver.services.clear();
    let mut bytes = [0; 3];
    let mut new = driver.arrive(u64::from(mss) * 50 + 7);
    for _ in 0..20_000 {
        if driver.clients[new].finished_at.is_some() {
            new = driver.arrive(u64::from(mss) * 50 + 7);
        }
        driver.serve_one();
        let service = driver.services.last().expect("it was served");
        let queue = match service.flow {
            0 => 2,
            1 => 1,
            _ => 0,
        };
        bytes[queue] += service.bytes;
    }
    bytes
}

#[test]
fn shares_are_of_bytes_to_within_one_percent() {
    let bytes = shares_of_three(100);
    let total: u64 = bytes.iter().sum();
    let percent = bytes.map(|bytes| 100.0 * bytes as f64 / total as f64);
    // Two that never end take the first queue's part until they are demoted.
    assert!((percent[0] - 90.0).abs() < 1.0, "{percent:?}");
    assert!((percent[1] + percent[2] - 10.0).abs() < 1.0, "{percent:?}");
}

#[test]
fn what_is_late_is_four_seconds_behind() {
    // A grant of one byte takes a second.
    let slow = crate::driver::Link {
        rate_bits_per_s: 8,
        ..UNIT
    };
    let order = |gap_s: u64| {
        let config = |config: &mut srq::Config| config.quanta = vec![1_000, 2_000];
        let mut driver = Driver::with_classes(queues(config), slow, levels(1));
        driver.arrive(30); // A, late after 2 s
        driver.run_until(ms(1_000 * gap_s));
        driver.arrive(2); // B
        driver.serve(2)
    };
    assert_eq!(order(3), "BB");
    assert_eq!(order(1), "AB", "both in time, then A is late");
    // In time against late: the late come first once they are over 4 s older.
    assert_eq!(order(5), "AA");
}

#[test]
fn off_it_is_fair_and_on_it_is_srq() {
    let trigger = Trigger::Waiting(2);
    let mut driver = driver(queues(|config| config.trigger = trigger), levels(1));
    driver.arrive(9_000);
    driver.arrive(9_000);
    assert_eq!(driver.serve(6), "ABABAB");
    assert_eq!(driver.egress.queues().map(|(_, is_on)| is_on), Some(false));
    driver.arrive(9_000);
    // More than two wait, but not yet for a second.
    assert_eq!(driver.serve(6), "CABCAB");
    driver.run_until(driver.now + Duration::from_secs(1));
    assert_eq!(driver.egress.queues().map(|(_, is_on)| is_on), Some(true));
    // All three are in the last queue, by arrival.
    assert_eq!(driver.serve(3), "AAA");
    driver.arrive(4);
    assert_eq!(driver.serve(3), "DDD");
    // Below half of two none waits but the one: off after five seconds.
    for flow in 1..4 {
        driver.pause(flow);
    }
    driver.pause(0);
    driver.run_until(driver.now + Duration::from_millis(5_100));
    driver.resume(0);
    driver.serve(1);
    driver.run_until(driver.now + Duration::from_millis(10));
    driver.resume(1);
    assert_eq!(driver.egress.queues().map(|(_, is_on)| is_on), Some(false));
}

/// Opens a flow that has so much to send and is of no known size.
fn open(egress: &mut Egress, now: Time, bytes: u64) -> FlowId {
    let spec = FlowSpec::new(0, Size::Unknown, plain(1, 0));
    let flow = egress.open(now, spec).expect("room for a flow");
    egress.offer(now, flow, bytes);
    flow
}

/// Has a flow sent so many bytes.
fn send(egress: &mut Egress, now: &mut Time, flow: FlowId, bytes: u64) {
    for _ in 0..bytes {
        *now = egress.pacer().next_grant_at().max(*now);
        assert_eq!(egress.grant(*now), Grant::Send { flow, bytes: 1 });
        egress.offer(*now, flow, 1);
    }
}

#[test]
fn what_ends_early_is_in_no_statistics() {
    let mut egress = egress_of(queues(|_| {}), Pacer::exact(8_000), levels(1));
    let stats = |egress: &Egress| *egress.queues().unwrap().0.stats();
    let fresh = stats(&egress);
    let mut now = Time::ZERO;
    let gone = open(&mut egress, now, 1);
    send(&mut egress, &mut now, gone, 5);
    assert_eq!(stats(&egress).moved[0], 1);
    assert_eq!(stats(&egress).members[..2], [0, 1]);
    egress.close(now, gone);
    assert_eq!(stats(&egress).members, fresh.members);
    assert_eq!(stats(&egress).done, fresh.done);
    // One whose driver says that it is complete, and one that could not be written.
    for (offers, done) in [(false, 1), (true, 1)] {
        let flow = open(&mut egress, now, 1);
        send(&mut egress, &mut now, flow, 5);
        egress.complete(flow);
        egress.offer(now, flow, u64::from(offers));
        egress.close(now, flow);
        assert_eq!(stats(&egress).done[1], done);
    }
    // One whose size is known is complete when it has sent as much.
    let spec = FlowSpec::new(0, Size::Exact(2), plain(1, 0));
    let known = egress.open(now, spec).unwrap();
    egress.offer(now, known, 2);
    send(&mut egress, &mut now, known, 2);
    egress.offer(now, known, 0);
    egress.close(now, known);
    assert_eq!(stats(&egress).done[..2], [1, 1]);
    assert_eq!(stats(&egress).members, fresh.members);
}

#[test]
fn quanta_follow_what_passes() {
    let config = |config: &mut srq::Config| {
        config.samples_min = 4;
        config.interval = Duration::from_secs(1);
    };
    let mut driver = driver(queues(config), levels(1));
    let quanta = |driver: &Driver| driver.egress.queues().unwrap().0.quanta().to_vec();
    for _ in 0..5 {
        driver.arrive(5);
    }
    driver.serve_all();
    assert_eq!(quanta(&driver), [3, 6]);
    driver.run_until(ms(1_100));
    driver.arrive(1);
    driver.serve_all();
    // All five failed the first queue, and none came to the last. Twice 3 bytes are less
    // than a grant of a segment is.
    assert_eq!(quanta(&driver), [1448]);
    assert_eq!(driver.egress.queues().unwrap().0.stats().merges, 1);
}

#[test]
fn a_change_of_the_order_places_flows_by_what_they_have_had() {
    let mut driver = driver(Discipline::Fcfs, levels(1));
    driver.arrive(40);
    assert_eq!(driver.serve(10), "A".repeat(10));
    let policy = sprat_scheduler::EgressPolicy {
        discipline: queues(|_| {}),
        ..driver.egress.policy().clone()
    };
    driver.egress.reconfigure(driver.now, policy);
    assert_eq!(
        driver.egress.queues().unwrap().0.stats().members[..3],
        [0, 0, 1]
    );
    driver.arrive(2);
    assert_eq!(driver.serve(3), "BBA");
}

#[test]
fn within_classes_that_take_turns_there_are_queues_too() {
    let heavy = ClassSpec {
        weight: 2,
        ..ClassSpec::default()
    };
    let mut driver = driver(queues(|_| {}), vec![ClassSpec::default(), heavy]);
    driver.arrive(20);
    assert_eq!(driver.serve(3), "AAA");
    driver.arrive_as(0, Size::Exact(3), 3);
    driver.arrive_as(1, Size::Exact(9), 9);
    let order = driver.serve(6);
    // Two thirds for the heavier class; of the first class's part the new one has it.
    assert_eq!(order.matches('C').count(), 4, "{order}");
    assert_eq!(order.matches('B').count(), 2, "{order}");
}
