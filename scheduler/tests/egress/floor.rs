//! What has waited longest gets a part of the link.

use std::time::Duration;

use crate::driver::{Driver, Link, UNIT, levels, ms, plain, segments_of, set_floor, share};
use proptest::prelude::*;
use sprat_scheduler::{ClassSpec, Cutoffs, Discipline, Precedence};

const MANY: u64 = 1 << 40;

fn floored(discipline: Discipline, link: Link, classes: Vec<ClassSpec>, percent: u8) -> Driver {
    let mut driver = Driver::with_classes(discipline, link, classes);
    set_floor(&mut driver.egress, driver.now, percent);
    driver
}

fn srpt(percent: u8) -> Driver {
    floored(Discipline::Srpt, UNIT, levels(16), percent)
}

/// Bytes of a flow from a time on.
fn bytes_since(driver: &Driver, flow: usize, from: u64) -> u64 {
    let services = driver.services.iter();
    let own = services.filter(|service| service.flow == flow && service.at >= ms(from));
    own.map(|service| service.bytes).sum()
}

#[test]
fn of_two_equal_downloads_the_second_gets_the_floor() {
    let mut driver = srpt(10);
    driver.arrive(MANY);
    driver.arrive(MANY);
    assert_eq!(driver.serve(1000), "A".repeat(1000));
    assert_eq!(driver.serve(21), "ABAAAAAAAAABAAAAAAAAA");
    driver.run_until(ms(11_000));
    assert_eq!(bytes_since(&driver, 1, 1_000), 1_000);
}

#[test]
fn what_is_over_within_a_second_keeps_its_order() {
    let mut with = srpt(50);
    let mut without = srpt(0);
    for driver in [&mut with, &mut without] {
        for bytes in [300, 200, 100, 50] {
            driver.arrive(bytes);
        }
    }
    assert_eq!(with.serve_all(), without.serve_all());
}

#[test]
fn several_share_it() {
    let mut driver = srpt(20);
    for more in 0..5 {
        driver.arrive(MANY + more);
    }
    driver.run_until(ms(101_000));
    assert_eq!(bytes_since(&driver, 0, 1_000), 80_000);
    for flow in 1..5 {
        assert_eq!(bytes_since(&driver, flow, 1_000), 5_000, "{flow}");
    }
}

#[test]
fn a_download_moves_under_lasting_overload() {
    for discipline in [
        Discipline::Srpt,
        Discipline::SrptAged {
            ageing_bytes_per_s: 1,
        },
        Discipline::Bands(Cutoffs::Fixed(vec![100])),
    ] {
        let mut driver = floored(discipline, segments_of(100), levels(1), 5);
        let download = driver.arrive(MANY);
        // 99 bytes a millisecond on a link of 100.
        for at in 0..10_000 {
            driver.run_until(ms(at));
            driver.arrive(99);
        }
        let got = bytes_since(&driver, download, 1_000);
        assert!((44_500..=45_500).contains(&got), "{got}");
    }
}

#[test]
fn a_floor_that_was_not_needed_is_not_saved_up() {
    let mut driver = srpt(10);
    driver.arrive(MANY);
    driver.run_until(ms(60_000));
    driver.arrive(MANY + 1);
    assert_eq!(driver.serve(1_000), "A".repeat(1_000));
    assert_eq!(driver.serve(12), "ABAAAAAAAAAB");
}

#[test]
fn levels_have_it_too_and_classes_with_a_rate_among_themselves() {
    let mut driver = srpt(10);
    driver.arrive_as(0, sprat_scheduler::Size::Exact(MANY), MANY);
    let low = driver.arrive_as(3, sprat_scheduler::Size::Exact(5_000), 5_000);
    driver.run_until(ms(11_000));
    assert_eq!(bytes_since(&driver, low, 0), 1_000);

    // A class of a tenth of the link, with two downloads.
    let classes = vec![ClassSpec::default(), capped(0, UNIT.rate_bits_per_s / 10)];
    let mut driver = floored(Discipline::Srpt, UNIT, classes, 10);
    driver.arrive(MANY);
    for more in 0..2 {
        let bytes = MANY + more;
        driver.arrive_as(1, sprat_scheduler::Size::Exact(bytes), bytes);
    }
    driver.run_until(ms(101_000));
    let got = |flow| bytes_since(&driver, flow, 1_000);
    assert_eq!(got(0) + got(1) + got(2), 100_000);
    assert!((8_990..=9_010).contains(&got(1)), "{}", got(1));
    assert!((990..=1_010).contains(&got(2)), "{}", got(2));
}

/// The bytes that each of the classes' downloads has in 10 s, of 10,000, behind a first class
/// that fills the link, with a floor of a tenth.
fn shares_of_downloads(discipline: Discipline, classes: &[ClassSpec], each: usize) -> Vec<u64> {
    let count = classes.len();
    let mut driver = floored(discipline, UNIT, classes.to_vec(), 10);
    for class in 0..count {
        for _ in 0..each {
            driver.arrive_as(class, sprat_scheduler::Size::Exact(MANY), MANY);
        }
    }
    driver.run_until(ms(11_000));
    let of_class =
        |class| (class * each..(class + 1) * each).map(|flow| bytes_since(&driver, flow, 1_000));
    (0..count).map(|class| of_class(class).sum()).collect()
}

/// Checks these bytes under disciplines of each kind, with two downloads of each class.
fn assert_shares(classes: &[ClassSpec], expected: &[u64]) {
    for discipline in [Discipline::Srpt, Discipline::Fair, Discipline::Fcfs] {
        near(&shares_of_downloads(discipline, classes, 2), expected);
    }
}

fn at_level(level: u8) -> ClassSpec {
    ClassSpec {
        level,
        ..ClassSpec::default()
    }
}

fn capped(level: u8, rate_bits_per_s: u64) -> ClassSpec {
    ClassSpec {
        rate_bits_per_s: Some(rate_bits_per_s),
        ..at_level(level)
    }
}

fn idle() -> ClassSpec {
    ClassSpec {
        idle_only: true,
        ..at_level(9)
    }
}

fn near(got: &[u64], expected: &[u64]) {
    let far = got
        .iter()
        .zip(expected)
        .find(|(got, expected)| got.abs_diff(**expected) > 30);
    assert!(
        far.is_none() && got.len() == expected.len(),
        "{got:?}, not {expected:?}"
    );
}

#[test]
fn a_lower_level_has_it_by_level_alone() {
    for discipline in [Discipline::Srpt, Discipline::Fair, Discipline::Fcfs] {
        let classes = [at_level(0), at_level(1)];
        near(
            &shares_of_downloads(discipline, &classes, 1),
            &[9_000, 1_000],
        );
    }
}

#[test]
fn a_lower_level_has_it_beside_weights() {
    let weighed = |weight| ClassSpec {
        weight,
        ..at_level(0)
    };
    // They hold among those of one level.
    assert_shares(
        &[weighed(3), weighed(1), at_level(1)],
        &[6_750, 2_250, 1_000],
    );
}

#[test]
fn all_lower_levels_have_it_together() {
    let three = [at_level(0), at_level(1), at_level(2), idle()];
    assert_shares(&three, &[9_000, 500, 500, 0]);
    assert_shares(&[at_level(0), idle()], &[10_000, 0]);
}

#[test]
fn a_lower_level_with_a_pool_has_it_for_a_place_of_it() {
    let pool = |level| ClassSpec {
        max_concurrency: 1,
        ..at_level(level)
    };
    assert_shares(&[at_level(0), pool(1)], &[9_000, 1_000]);
    assert_shares(&[pool(0), at_level(1)], &[9_000, 1_000]);
}

#[test]
fn what_waits_for_a_place_has_it_after_a_second_as_well() {
    let pool = ClassSpec {
        max_concurrency: 1,
        ..at_level(1)
    };
    let mut driver = floored(Discipline::Srpt, UNIT, vec![at_level(0), pool], 10);
    for class in 0..2 {
        driver.arrive_as(class, sprat_scheduler::Size::Exact(MANY), MANY);
    }
    driver.run_until(ms(999));
    assert_eq!(bytes_since(&driver, 1, 0), 0);
    driver.run_until(ms(2_000));
    near(&[bytes_since(&driver, 1, 0)], &[100]);
}

/// Checks that a response that was given its place, and then the floor went before it, has the
/// floor itself.
#[test]
fn what_has_a_place_and_had_no_turn_has_it_after_a_second() {
    let pool = ClassSpec {
        max_concurrency: 1,
        ..at_level(1)
    };
    let classes = vec![at_level(0), pool, at_level(2)];
    let mut driver = floored(Discipline::Srpt, UNIT, classes, 50);
    let arrive = |driver: &mut Driver, class, bytes| {
        driver.arrive_as(class, sprat_scheduler::Size::Exact(bytes), bytes)
    };
    arrive(&mut driver, 2, MANY);
    arrive(&mut driver, 0, 1_001);
    // With the last byte the floor is owed one.
    assert_eq!(driver.serve(1_001), "B".repeat(1_001));
    let own = arrive(&mut driver, 1, MANY);
    assert_eq!(driver.serve(1), "A");
    arrive(&mut driver, 0, MANY);
    driver.run_until(ms(12_000));
    // It shares the floor with the level below.
    near(&[bytes_since(&driver, own, 2_000)], &[2_500]);
}

#[test]
fn a_lower_level_has_it_within_its_own_rate() {
    let rate = UNIT.rate_bits_per_s;
    assert_shares(&[at_level(0), capped(1, rate / 5)], &[9_000, 1_000]);
    // Of a smaller rate it gets all, and what it could not send in the first second.
    assert_shares(&[at_level(0), capped(1, rate / 20)], &[9_450, 550]);
    // One that has what the others leave needs no floor.
    assert_shares(&[capped(0, rate / 2), at_level(1)], &[5_000, 5_000]);
}

#[test]
fn what_has_only_what_the_others_leave_owes_them_nothing() {
    let rate = UNIT.rate_bits_per_s;
    let idle = ClassSpec { level: 0, ..idle() };
    let classes = vec![at_level(0), capped(1, rate / 20), idle];
    let mut driver = floored(Discipline::Srpt, UNIT, classes, 10);
    for class in [1, 2] {
        driver.arrive_as(class, sprat_scheduler::Size::Exact(MANY), MANY);
    }
    driver.run_until(ms(5_000));
    while driver.serve_one() != Some(0) {}
    // Until the first may have its next byte.
    driver.run_until(driver.now + Duration::from_millis(20));
    assert!(
        driver
            .services
            .iter()
            .rev()
            .take(19)
            .all(|own| own.flow == 1)
    );
    // It has had its part, and the other's bytes owe it nothing.
    driver.arrive(MANY);
    assert_eq!(driver.serve(40), "C".repeat(40));
}

/// A download of the second of two levels, with a floor of a tenth, and what comes of the
/// first: so many bytes every 100 ms, of the 100 that the link carries; and none at its end.
fn beside_a_download(percent: u8, bytes: u64, second: ClassSpec, until_s: u64) -> Driver {
    let classes = vec![at_level(0), second];
    let mut driver = floored(Discipline::Srpt, UNIT, classes, percent);
    driver.arrive_as(1, sprat_scheduler::Size::Exact(MANY), MANY);
    for at in 0..until_s * 10 {
        driver.run_until(ms(at * 100));
        if bytes > 0 {
            driver.arrive(bytes);
        }
    }
    driver.run_until(ms(until_s * 1_000));
    driver
}

#[test]
fn a_lower_level_that_gets_as_much_in_its_turn_takes_nothing_from_the_first() {
    for second in [at_level(1), capped(1, UNIT.rate_bits_per_s / 10)] {
        let with = beside_a_download(10, 80, second.clone(), 30);
        let without = beside_a_download(0, 80, second, 30);
        assert_eq!(with.services, without.services);
    }
    // It gets a twentieth in its turn, and has the other from the floor.
    let driver = beside_a_download(10, 95, at_level(1), 31);
    let got = bytes_since(&driver, 0, 1_000);
    assert!((2_900..=3_100).contains(&got), "{got}");
}

#[test]
fn what_a_lower_level_got_in_its_turn_is_its_part_for_a_second() {
    let mut driver = beside_a_download(10, 80, at_level(1), 30);
    driver.arrive(MANY);
    driver.run_until(ms(30_900));
    assert_eq!(bytes_since(&driver, 0, 30_000), 0);
    driver.run_until(ms(32_000));
    near(&[bytes_since(&driver, 0, 31_000)], &[100]);
}

#[test]
fn what_a_faster_link_carried_is_forgotten_with_it() {
    let mut driver = beside_a_download(10, 0, at_level(1), 30);
    let rate = UNIT.rate_bits_per_s / 10;
    driver.egress.set_rate(driver.now, rate);
    driver.arrive(MANY);
    driver.run_until(ms(32_000));
    assert_eq!(bytes_since(&driver, 0, 30_001), 0);
    // A credit of ten seconds would last until 40.
    driver.run_until(ms(42_000));
    near(&[bytes_since(&driver, 0, 32_000)], &[100]);
}

#[test]
fn clients_that_share_the_link_have_the_floor_of_a_lower_level_in_turn() {
    let classes = vec![at_level(0), capped(1, UNIT.rate_bits_per_s)];
    let mut driver = floored(Discipline::Srpt, UNIT, classes, 10);
    share(&mut driver.egress, driver.now, true);
    for (client, class) in [(1, 0), (2, 1), (2, 1), (2, 1), (3, 1)] {
        driver.owner = Some(client);
        driver.arrive_as(class, sprat_scheduler::Size::Exact(MANY), MANY);
    }
    driver.run_until(ms(101_000));
    let got: Vec<u64> = (0..5)
        .map(|flow| bytes_since(&driver, flow, 1_000))
        .collect();
    near(
        &[got[0], got[1..4].iter().sum(), got[4]],
        &[90_000, 5_000, 5_000],
    );
}

#[test]
fn a_flow_stands_for_its_connection() {
    let mut driver = srpt(10);
    driver.arrive(MANY);
    let group = driver.egress.open_group();
    let first = Precedence::default();
    driver.arrive_in(group, first, 0, MANY + 1);
    driver.arrive_in(group, first, 0, MANY + 2);
    driver.run_until(ms(11_000));
    let of_group = bytes_since(&driver, 1, 1_000) + bytes_since(&driver, 2, 1_000);
    assert_eq!(of_group, 1_000);
}

#[test]
fn it_can_be_changed_while_flows_wait() {
    let mut driver = srpt(0);
    driver.arrive(MANY);
    driver.arrive(MANY);
    driver.run_until(ms(5_000));
    set_floor(&mut driver.egress, driver.now, 10);
    driver.run_until(ms(15_000));
    assert_eq!(bytes_since(&driver, 1, 0), 1_000);
    set_floor(&mut driver.egress, driver.now, 0);
    driver.run_until(ms(25_000));
    assert_eq!(bytes_since(&driver, 1, 0), 1_000);
    // More than half is no floor.
    set_floor(&mut driver.egress, driver.now, 99);
    driver.run_until(ms(35_000));
    assert_eq!(bytes_since(&driver, 1, 0), 6_000);
}

#[test]
fn the_longest_wait_is_told_by_class() {
    let mut driver = srpt(0);
    driver.arrive(MANY);
    driver.run_until(ms(100));
    driver.arrive_as(2, sprat_scheduler::Size::Exact(10), 10);
    driver.arrive_as(2, sprat_scheduler::Size::Exact(20), 20);
    driver.run_until(ms(400));
    let waits = driver.egress.longest_waits(driver.now);
    assert_eq!(waits[2], Duration::from_millis(300));
    assert!(waits[0] <= Duration::from_millis(1));
    driver.pause(1);
    driver.pause(2);
    assert_eq!(driver.egress.longest_waits(driver.now)[2], Duration::ZERO);
}

proptest! {
    /// Whatever flows come, what has waited for a second has its part of the floor: of
    /// any thousand grants, as many as the floor has among those that wait, less two.
    #[test]
    fn nothing_starves(
        sizes in prop::collection::vec(1u64..400, 200..400),
        gap_ms in 1u64..40,
        large in 1usize..5,
        percent in 1u8..=50,
    ) {
        let mut driver = floored(Discipline::Srpt, segments_of(10), levels(1), percent);
        let downloads: Vec<_> = (0..large).map(|_| driver.arrive(MANY)).collect();
        for (at, bytes) in (0..).zip(&sizes) {
            driver.run_until(ms(at * gap_ms));
            driver.arrive(*bytes * 10);
        }
        driver.run_until(ms(1_000 + sizes.len() as u64 * gap_ms));
        let grants: Vec<_> = driver.services.iter().filter(|own| own.at >= ms(1_000)).collect();
        for window in grants.chunks_exact(1_000) {
            for download in &downloads {
                let own = window.iter().filter(|service| service.flow == *download).count();
                // Small ones may wait for longer than a second as well.
                let waiting = driver.clients.iter().filter(|client| {
                    client.finished_at.is_none_or(|at| at.since(client.arrived_at) > Duration::from_secs(1))
                }).count();
                let due = 10 * usize::from(percent) / waiting;
                prop_assert!(own + 2 >= due, "{own} of {due}, {waiting} wait");
            }
        }
    }

    /// All bytes arrive, whatever the floor: it changes the order alone.
    #[test]
    fn it_moves_no_work(sizes in prop::collection::vec(1u64..3_000, 1..40), percent in 0u8..=50) {
        let mut driver = floored(Discipline::Srpt, Link {
            rate_bits_per_s: 8_000,
            cost: plain(10, 3),
        }, levels(4), percent);
        for (class, bytes) in (0..).zip(&sizes) {
            driver.arrive_as(class % 4, sprat_scheduler::Size::Exact(*bytes), *bytes);
        }
        driver.serve_the_rest();
        let sent: u64 = driver.services.iter().map(|service| service.bytes).sum();
        prop_assert_eq!(sent, sizes.iter().sum::<u64>());
        let wire: u64 = driver.services.iter().map(|service| driver.wire_bytes(service)).sum();
        prop_assert_eq!(driver.egress.stats().wire_bytes, wire);
        prop_assert_eq!(driver.egress.waiting_flows(), 0);
    }
}
