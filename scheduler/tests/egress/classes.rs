//! Classes on the uplink: exact orders and shares.

use std::time::Duration;

use sprat_scheduler::{
    ClassSpec, Discipline, Egress, FlowSpec, Grant, Pacer, Size, Time, WireCost,
};

use crate::driver::{Driver, UNIT, egress_of, ms, plain, segments_of};

fn class(level: u8, change: impl FnOnce(&mut ClassSpec)) -> ClassSpec {
    let mut class = ClassSpec {
        level,
        ..ClassSpec::default()
    };
    change(&mut class);
    class
}

fn weight(level: u8, weight: u32) -> ClassSpec {
    class(level, |class| class.weight = weight)
}

/// A response of each class, of so many bytes, in `fcfs`.
fn all_at_once(classes: Vec<ClassSpec>, bytes: &[u64]) -> Driver {
    let mut driver = Driver::with_classes(Discipline::Fcfs, UNIT, classes);
    for (class, &bytes) in bytes.iter().enumerate() {
        driver.arrive_as(class, Size::Exact(bytes), bytes);
    }
    driver
}

#[test]
fn classes_of_one_level_share_by_weight() {
    let classes = || vec![weight(1, 1), weight(1, 2), weight(1, 1)];
    let mut driver = all_at_once(classes(), &[3, 6, 3]);
    assert_eq!(driver.serve_all(), "ABCBABCBABCB");
    // What one leaves, the others get.
    let mut driver = all_at_once(classes(), &[4, 2, 0]);
    assert_eq!(driver.serve_all(), "ABBAAA");
}

#[test]
fn the_discipline_orders_inside_a_class() {
    let classes = vec![weight(1, 1), weight(1, 1)];
    let mut driver = Driver::with_classes(Discipline::Srpt, UNIT, classes);
    driver.arrive_as(0, Size::Exact(2), 2);
    driver.arrive_as(0, Size::Exact(1), 1);
    driver.arrive_as(1, Size::Exact(3), 3);
    assert_eq!(driver.serve_all(), "BCACAC");
}

#[test]
fn levels_come_before_weights() {
    let mut driver = all_at_once(
        vec![weight(2, 1), weight(1, 1), weight(2, 9), weight(0, 1)],
        &[1, 2, 1, 1],
    );
    assert_eq!(driver.serve_all(), "DBBAC");
}

#[test]
fn a_class_that_was_away_gets_nothing_back() {
    let mut driver = Driver::with_classes(
        Discipline::Fcfs,
        UNIT,
        vec![weight(1, 1), weight(1, 1), weight(0, 1)],
    );
    driver.arrive_as(0, Size::Exact(8), 8);
    assert_eq!(driver.serve(4), "AAAA");
    driver.arrive_as(1, Size::Exact(4), 4);
    assert_eq!(driver.serve_all(), "BABABABA");
}

#[test]
fn shares_are_of_bytes_not_of_responses() {
    let classes = vec![weight(1, 1), weight(1, 1)];
    let link = segments_of(100);
    let mut driver = Driver::with_classes(Discipline::Fcfs, link, classes);
    // Segments of 100 bytes against responses of 10.
    driver.arrive_as(0, Size::Exact(300), 300);
    for _ in 0..30 {
        driver.arrive_as(1, Size::Exact(10), 10);
    }
    for _ in 0..13 {
        driver.serve_one();
    }
    let sent = |class: usize| driver.egress.class_stats()[class].granted_bytes;
    assert_eq!((sent(0), sent(1)), (200, 110));
}

/// A first level, and a second of a tenth of the link.
fn a_tenth_below() -> Driver {
    let tenth = class(1, |class| class.rate_bits_per_s = Some(800));
    Driver::with_classes(Discipline::Fcfs, UNIT, vec![weight(0, 1), tenth])
}

/// The bytes that a flow has been granted.
fn bytes_of(driver: &Driver, flow: usize) -> usize {
    let own = driver.services.iter().filter(|own| own.flow == flow);
    own.count()
}

#[test]
fn a_rate_makes_up_for_what_the_link_was_taken_for() {
    let mut driver = a_tenth_below();
    driver.arrive(500);
    let low = driver.arrive_as(1, Size::Exact(1_000), 1_000);
    driver.run_until(ms(400));
    // Another of the class that comes takes nothing from that.
    driver.arrive_as(1, Size::Exact(1_000), 1_000);
    driver.run_until(ms(500));
    assert_eq!(bytes_of(&driver, low), 0);
    // What it could have sent by now, in a burst, and the next in its time.
    driver.run_until(ms(550));
    assert_eq!(bytes_of(&driver, low), 50);
    driver.run_until(ms(1_000));
    assert_eq!(bytes_of(&driver, low), 100);
}

#[test]
fn a_rate_makes_up_for_a_second_and_no_more() {
    let mut driver = a_tenth_below();
    driver.arrive(5_000);
    let low = driver.arrive_as(1, Size::Exact(1_000), 1_000);
    driver.run_until(ms(5_100));
    assert_eq!(bytes_of(&driver, low), 100);
    driver.run_until(ms(6_000));
    assert_eq!(bytes_of(&driver, low), 200);
}

#[test]
fn a_rate_makes_up_for_nothing_while_its_class_has_nothing_to_send() {
    let mut driver = a_tenth_below();
    driver.run_until(ms(5_000));
    let low = driver.arrive_as(1, Size::Exact(1_000), 1_000);
    driver.run_until(ms(6_000));
    assert_eq!(bytes_of(&driver, low), 100);
    driver.pause(low);
    driver.run_until(ms(9_000));
    driver.resume(low);
    driver.run_until(ms(10_000));
    assert_eq!(bytes_of(&driver, low), 200);
    // What waited and is no longer there has no claim.
    driver.arrive(300);
    driver.run_until(ms(10_300));
    driver.pause(low);
    driver.run_until(ms(12_000));
    driver.resume(low);
    driver.run_until(ms(13_000));
    assert_eq!(bytes_of(&driver, low), 300);
}

#[test]
fn a_rate_is_kept_and_the_others_take_what_it_leaves() {
    // A quarter of the link.
    let limited = class(0, |class| class.rate_bits_per_s = Some(2000));
    let mut driver = all_at_once(vec![limited, weight(1, 1)], &[4, 6]);
    assert_eq!(driver.serve(9), "ABBBABBBA");
    // Alone, it still has its rate and no more.
    assert_eq!(
        driver.egress.grant(driver.now),
        Grant::Wait { until: ms(9) }
    );
    driver.now = ms(9);
    assert_eq!(driver.egress.grant(ms(9)), Grant::Wait { until: ms(12) });
    assert_eq!(driver.egress.next_wakeup(), Some(ms(12)));
    assert_eq!(driver.serve_all(), "A");
    assert_eq!(driver.services[9].at, ms(12));
}

#[test]
fn a_pool_has_so_many_responses_begun() {
    let limited = class(0, |class| class.max_concurrency = 2);
    let classes = vec![limited, weight(1, 1)];
    let mut driver = Driver::with_classes(Discipline::Fair, UNIT, classes);
    for bytes in [2, 2, 1] {
        driver.arrive_as(0, Size::Exact(bytes), bytes);
    }
    // C waits for a place; round robin between the two that have one.
    assert_eq!(driver.serve(2), "AB");
    // One that cannot send keeps its place.
    driver.pause(0);
    assert_eq!(driver.serve(1), "B");
    assert_eq!(driver.serve(1), "C");
    driver.resume(0);
    assert_eq!(driver.serve_all(), "A");
}

#[test]
fn a_place_in_a_full_pool_is_wanted_while_another_waits_for_it() {
    let limited = class(0, |class| class.max_concurrency = 2);
    let mut driver = Driver::with_classes(Discipline::Fcfs, UNIT, vec![limited, weight(1, 1)]);
    let wanted = |driver: &Driver| -> Vec<bool> {
        let ids = driver.clients.iter().map(|client| client.id);
        ids.map(|id| driver.egress.is_place_wanted(id)).collect()
    };
    for class in [0, 1, 0] {
        driver.arrive_as(class, Size::Exact(9), 9);
    }
    assert_eq!(driver.serve(1), "A");
    driver.pause(0);
    assert_eq!(wanted(&driver), [false; 3], "another place is free");
    assert_eq!(driver.serve(1), "C");
    assert_eq!(wanted(&driver), [false; 3], "nobody waits");
    driver.arrive_as(0, Size::Exact(1), 1);
    assert_eq!(wanted(&driver), [true, false, true, false]);
    driver.pause(3);
    assert_eq!(wanted(&driver), [false; 4], "it has nothing to send");
    driver.resume(3);
    driver.egress.close(driver.now, driver.clients[0].id);
    assert_eq!(wanted(&driver), [false; 4], "there is a place for it");
    assert!(driver.egress.is_limited(0) && !driver.egress.is_limited(1));
}

#[test]
fn who_waited_for_a_place_joins_the_round_where_it_stands() {
    let limited = class(0, |class| class.max_concurrency = 2);
    let mut driver = Driver::with_classes(Discipline::Fair, UNIT, vec![limited]);
    for bytes in [10, 90, 90] {
        driver.arrive(bytes);
    }
    // C gets the place that A leaves, and no more of the link than B.
    assert_eq!(driver.serve(19), "AB".repeat(9) + "A");
    let next = driver.serve(20);
    assert!(next.starts_with("CB") || next.starts_with("BC"), "{next}");
    for flow in ["B", "C"] {
        assert_eq!(next.matches(flow).count(), 10, "{next}");
    }
}

#[test]
fn shares_hold_however_much_has_been_sent() {
    let mut egress = egress_of(
        Discipline::Fcfs,
        Pacer::exact(u64::MAX),
        vec![weight(0, 1), weight(0, 1)],
    );
    let (size, cost) = (Size::Unknown, plain(1, 0));
    let flows = [0, 1].map(|class| {
        let id = egress.open(ms(0), FlowSpec::new(class, size, cost));
        id.expect("there is room")
    });
    // Each has sent an exbibyte: three years at 100 Gbit/s.
    let far = Time::from_nanos(u64::MAX);
    for flow in flows {
        egress.offer(far, flow, 1);
        assert!(matches!(egress.grant(far), Grant::Send { .. }));
        egress.written(far, flow, 1 << 60);
    }
    let mut order = String::new();
    flows.iter().for_each(|&flow| egress.offer(far, flow, 1));
    for _ in 0..6 {
        let Grant::Send { flow, .. } = egress.grant(far) else {
            panic!("{order}: and then?");
        };
        order.push(if flow == flows[0] { 'A' } else { 'B' });
        egress.offer(far, flow, 1);
    }
    assert_eq!(order, "ABABAB");
}

#[test]
fn a_full_pool_leaves_the_link_to_others() {
    let limited = class(0, |class| class.max_concurrency = 1);
    let mut driver = all_at_once(vec![limited, weight(1, 1)], &[2, 2]);
    driver.arrive_as(0, Size::Exact(1), 1);
    assert_eq!(driver.serve(1), "A");
    driver.pause(0);
    assert_eq!(driver.serve_all(), "BB");
    assert_eq!(driver.egress.grant(driver.now), Grant::Idle);
    driver.resume(0);
    assert_eq!(driver.serve_all(), "AC");
}

fn background() -> ClassSpec {
    class(15, |class| class.idle_only = true)
}

#[test]
fn idle_only_waits_for_what_has_begun() {
    let mut driver = all_at_once(vec![weight(0, 1), background()], &[3, 3]);
    assert_eq!(driver.serve(2), "AA");
    driver.pause(0);
    // A may be back at any moment: 5 ms without a sign of it, from the last.
    let last = driver.services[1].at;
    assert_eq!(driver.serve(1), "B");
    assert_eq!(driver.services[2].at, last + Duration::from_millis(5));
    driver.resume(0);
    // It is done: nothing to wait for.
    assert_eq!(driver.serve_all(), "ABB");
    assert_eq!(
        driver.services[4].at,
        driver.services[3].at + Duration::from_millis(1)
    );
}

#[test]
fn idle_only_waits_for_what_is_announced() {
    let mut driver = all_at_once(vec![weight(0, 1), background()], &[0, 3]);
    driver.egress.close(ms(0), driver.clients[0].id);
    driver.egress.announce(ms(0));
    assert_eq!(driver.egress.grant(ms(0)), Grant::Wait { until: ms(5) });
    driver.egress.retract();
    assert_eq!(driver.serve(1), "B");
}

#[test]
fn idle_only_goes_after_every_level_whatever_its_own() {
    let first = class(0, |class| class.idle_only = true);
    let mut driver = all_at_once(vec![first, weight(15, 1)], &[2, 2]);
    assert_eq!(driver.serve_all(), "BBAA");
}

#[test]
fn a_limited_class_does_not_hold_idle_only_back() {
    let limited = class(0, |class| class.rate_bits_per_s = Some(2000));
    let mut driver = all_at_once(vec![limited, background()], &[2, 3]);
    assert_eq!(driver.serve_all(), "ABBBA");
    assert_eq!(driver.services[3].at, ms(3));
}

/// Whatever the foreground does, the background keeps nine tenths of what it
/// leaves, after a start of 50 ms.
#[test]
fn the_background_is_held_back_for_a_tenth_of_its_own_time_at_most() {
    let mut driver = all_at_once(vec![weight(0, 1), background()], &[1_000_000, 1_000_000]);
    driver.pause(0);
    for now in 0..11_050 {
        // Never ready for long, always alive.
        driver.egress.offer(driver.now, driver.clients[0].id, 1);
        driver.pause(0);
        driver.run_until(ms(now + 1));
    }
    let sent = driver.egress.class_stats()[1].granted_bytes;
    assert!((9_990..10_010).contains(&sent), "{sent} of 11,050");
}

#[test]
fn the_background_sends_less_at_a_time() {
    let mut egress = egress_of(
        Discipline::Srpt,
        Pacer::exact(10_000_000),
        vec![
            weight(0, 1),
            background(),
            class(3, |class| class.rate_bits_per_s = Some(1_000_000)),
            class(3, |class| class.rate_bits_per_s = Some(90_000_000)),
        ],
    );
    let mut grant = |class| {
        let cost = WireCost::ETHERNET_IPV4;
        let size = Size::Exact(10_000);
        let flow = egress
            .open(ms(0), FlowSpec::new(class, size, cost))
            .unwrap();
        egress.offer(ms(0), flow, 10_000);
        let now = egress.pacer().next_grant_at();
        let Grant::Send { bytes, .. } = egress.grant(now) else {
            panic!("the link is free");
        };
        egress.close(now, flow);
        bytes
    };
    assert_eq!(grant(0), 1448);
    assert_eq!(grant(1), 512);
    assert_eq!(grant(2), 512);
    assert_eq!(grant(3), 512);
}

#[test]
fn the_backlog_is_what_is_left_to_send() {
    let mut driver = Driver::new(Discipline::Fcfs, segments_of(1000));
    assert_eq!(driver.egress.backlog(ms(0)), Duration::ZERO);
    driver.arrive(100_000);
    driver.arrive_as(0, Size::Unknown, 50_000);
    let left = |driver: &Driver| driver.egress.backlog(driver.now).as_millis();
    // With the headers that Ethernet would add, and 1 MB/s.
    let expected = u128::from(WireCost::ETHERNET_IPV4.bytes(150_000) / 1000);
    assert_eq!(left(&driver), expected);
    driver.run_until(ms(50));
    let expected = u128::from(WireCost::ETHERNET_IPV4.bytes(100_000) / 1000);
    assert_eq!(left(&driver), expected);
    driver.egress.close(ms(50), driver.clients[0].id);
    assert_eq!(
        left(&driver),
        u128::from(WireCost::ETHERNET_IPV4.bytes(50_000) / 1000)
    );
    driver.serve_the_rest();
    assert_eq!(
        driver.egress.backlog(driver.now + Duration::from_millis(1)),
        Duration::ZERO
    );
}

#[test]
fn the_backlog_ahead_of_a_class_is_what_goes_before_it() {
    let classes = vec![weight(3, 1), weight(1, 1), background(), weight(3, 1)];
    let driver = all_at_once(classes, &[3000, 5000, 7000, 9000]);
    let ms_of = |bytes| Duration::from_millis(WireCost::ETHERNET_IPV4.bytes(bytes));
    let ahead = |class| driver.egress.backlog_ahead(ms(0), class);
    assert_eq!(ahead(1), ms_of(5000));
    assert_eq!(ahead(0), ms_of(5000 + 3000 + 9000));
    assert_eq!(ahead(2), ms_of(24_000));
    assert_eq!(driver.egress.backlog(ms(0)), ms_of(24_000));
    // Past the last is the last.
    assert_eq!(ahead(4), ahead(3));
    assert_eq!(ahead(usize::MAX), ms_of(5000 + 3000 + 9000));
}

/// To the byte, at every step of a flow's life.
#[test]
fn what_is_unsent_is_neither_sent_nor_granted() {
    let classes = vec![weight(0, 1)];
    let mut egress = egress_of(Discipline::Fcfs, Pacer::exact(8_000_000), classes);
    let spec = |size| FlowSpec::new(0, size, plain(1000, 0));
    let grant = |egress: &mut Egress| {
        let now = egress.pacer().next_grant_at();
        assert!(matches!(egress.grant(now), Grant::Send { .. }));
    };
    let flow = egress.open(ms(0), spec(Size::Exact(10_000))).unwrap();
    assert_eq!(egress.unsent_bytes(), 10_000);
    egress.offer(ms(0), flow, 3_000);
    assert_eq!(egress.unsent_bytes(), 10_000, "more is to come");
    grant(&mut egress);
    assert_eq!(egress.unsent_bytes(), 9_000, "granted");
    egress.offer(ms(0), flow, 3_000);
    grant(&mut egress);
    assert_eq!(egress.unsent_bytes(), 8_000, "sent, and granted");
    egress.written(ms(0), flow, 400);
    assert_eq!(egress.unsent_bytes(), 8_600, "refunded");
    egress.offer(ms(0), flow, 20_000);
    assert_eq!(egress.unsent_bytes(), 20_000, "more than was said");
    let other = egress.open(ms(0), spec(Size::Unknown)).unwrap();
    assert_eq!(egress.unsent_bytes(), 20_000, "as far as known");
    egress.offer(ms(0), other, 70);
    assert_eq!(egress.unsent_bytes(), 20_070);
    egress.resize(ms(0), other, Size::Exact(500));
    assert_eq!(egress.unsent_bytes(), 20_500);
    egress.close(ms(0), flow);
    assert_eq!(egress.unsent_bytes(), 500);
    egress.close(ms(0), other);
    assert_eq!(egress.unsent_bytes(), 0);
}
