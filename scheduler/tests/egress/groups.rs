//! Responses of one connection, of which the client says which it wants first.

use crate::driver::{Driver, UNIT, disciplines, levels};
use proptest::prelude::*;
use sprat_scheduler::{ClassSpec, Cutoffs, Discipline, Precedence};

const fn urgency(urgency: u8) -> Precedence {
    Precedence {
        urgency,
        incremental: false,
    }
}

const fn incremental(urgency: u8) -> Precedence {
    Precedence {
        urgency,
        incremental: true,
    }
}

/// The order on one connection.
fn order(discipline: Discipline, flows: &[(Precedence, u64)]) -> String {
    let mut driver = Driver::new(discipline, UNIT);
    let group = driver.egress.open_group();
    for &(precedence, bytes) in flows {
        driver.arrive_in(group, precedence, 0, bytes);
    }
    driver.serve_all()
}

#[test]
fn urgency_comes_before_size() {
    let flows = [(urgency(3), 1), (urgency(1), 3), (urgency(5), 1)];
    assert_eq!(order(Discipline::Srpt, &flows), "BBBAC");
    assert_eq!(order(Discipline::Fcfs, &flows), "BBBAC");
}

#[test]
fn the_discipline_orders_what_is_equally_urgent() {
    let flows = [(urgency(3), 3), (urgency(3), 1), (urgency(3), 2)];
    assert_eq!(order(Discipline::Srpt, &flows), "BCCAAA");
    assert_eq!(order(Discipline::Fcfs, &flows), "AAABCC");
    assert_eq!(order(Discipline::Fair, &flows), "ABCACA");
}

#[test]
fn incremental_ones_share_and_come_after_those_that_are_not() {
    let flows = [(incremental(3), 3), (incremental(3), 2), (urgency(3), 2)];
    assert_eq!(order(Discipline::Srpt, &flows), "CCABABA");
    assert_eq!(order(Discipline::Fcfs, &flows), "CCABABA");
    let flows = [(incremental(2), 2), (urgency(3), 1)];
    assert_eq!(order(Discipline::Srpt, &flows), "AAB");
}

#[test]
fn an_urgency_past_the_last_is_the_last() {
    let flows = [(urgency(200), 1), (urgency(7), 1), (urgency(6), 1)];
    assert_eq!(order(Discipline::Srpt, &flows), "CAB");
}

#[test]
fn what_a_client_says_counts_on_its_connection_alone() {
    let mut driver = Driver::new(Discipline::Srpt, UNIT);
    let (one, other) = (driver.egress.open_group(), driver.egress.open_group());
    driver.arrive_in(one, urgency(0), 0, 4); // A
    driver.arrive_in(one, urgency(7), 0, 1); // B, behind A
    driver.arrive_in(other, urgency(7), 0, 2); // C
    driver.arrive(3); // D, of an HTTP/1.1 connection
    assert_eq!(driver.egress.waiting_flows(), 4);
    assert_eq!(driver.serve_all(), "CCDDDAAAAB");
    assert_eq!(driver.egress.waiting_flows(), 0);
}

#[test]
fn one_that_cannot_send_holds_nobody_up() {
    let mut driver = Driver::new(Discipline::Srpt, UNIT);
    let group = driver.egress.open_group();
    let urgent = driver.arrive_in(group, urgency(0), 0, 3);
    driver.arrive_in(group, urgency(3), 0, 2);
    assert_eq!(driver.serve(1), "A");
    driver.pause(urgent);
    assert_eq!(driver.serve(1), "B");
    driver.resume(urgent);
    assert_eq!(driver.serve_all(), "AAB");
}

#[test]
fn a_more_urgent_one_that_comes_later_takes_over() {
    let mut driver = Driver::new(Discipline::Srpt, UNIT);
    let group = driver.egress.open_group();
    driver.arrive_in(group, urgency(3), 0, 3);
    assert_eq!(driver.serve(1), "A");
    driver.arrive_in(group, urgency(2), 0, 9);
    assert_eq!(driver.serve(2), "BB");
    driver.arrive_in(group, urgency(1), 0, 1);
    assert_eq!(driver.serve_all(), "CBBBBBBBAA");
}

#[test]
fn classes_come_before_what_a_client_says() {
    let mut driver = Driver::new(Discipline::Srpt, UNIT);
    let group = driver.egress.open_group();
    driver.arrive_in(group, urgency(0), 1, 2);
    driver.arrive_in(group, urgency(7), 0, 2);
    assert_eq!(driver.serve_all(), "BBAA");
}

#[test]
fn a_pool_is_not_held_by_those_who_let_others_go_first() {
    let mut classes = levels(1);
    classes[0].max_concurrency = 1;
    let mut driver = Driver::with_classes(Discipline::Srpt, UNIT, classes);
    let group = driver.egress.open_group();
    driver.arrive_in(group, urgency(5), 0, 3);
    assert_eq!(driver.serve(1), "A");
    driver.arrive_in(group, urgency(0), 0, 2);
    assert_eq!(driver.serve_all(), "AABB");
}

#[test]
fn a_group_that_ends_leaves_its_flows_by_themselves() {
    let mut driver = Driver::new(Discipline::Srpt, UNIT);
    let group = driver.egress.open_group();
    driver.arrive_in(group, urgency(0), 0, 3);
    driver.arrive_in(group, urgency(7), 0, 1);
    driver.egress.close_group(driver.now, group);
    assert_eq!(driver.serve_all(), "BAAA");
    // The same place, another group.
    let next = driver.egress.open_group();
    assert_ne!(next, group);
    driver.arrive_in(group, urgency(0), 0, 2);
    driver.arrive_in(next, urgency(7), 0, 1);
    assert_eq!(driver.serve_all(), "DCC");
}

/// As `levels`, with rates of their own.
fn rated(count: u8) -> Vec<ClassSpec> {
    let mut classes = levels(count);
    for class in &mut classes {
        class.rate_bits_per_s = Some(8_000_000);
    }
    classes
}

#[test]
fn who_let_others_go_first_joins_the_round_where_it_stands() {
    for discipline in [Discipline::Fair, Discipline::Bands(Cutoffs::two_class())] {
        let mut driver = Driver::new(discipline, UNIT);
        let group = driver.egress.open_group();
        let urgent = driver.arrive_in(group, urgency(0), 0, 900);
        driver.arrive_in(group, urgency(7), 0, 900); // B, behind A
        driver.arrive(900); // C, of an HTTP/1.1 connection
        assert_eq!(driver.serve(20), "AC".repeat(10));
        driver.pause(urgent);
        // Ten turns behind, B has as many as C from now on, which was served last.
        assert_eq!(driver.serve(6), "BBCBCB");
        driver.arrive(900); // D
        let next = driver.serve(9);
        for flow in ["B", "C", "D"] {
            assert_eq!(next.matches(flow).count(), 3, "{next}");
        }
    }
}

proptest! {
    /// If no client says anything, connections make no difference; with classes
    /// that have an arbiter, neither.
    #[test]
    fn unsaid_is_ungrouped(flows in prop::collection::vec((1u64..9, 0usize..3, 0usize..2), 1..20)) {
        for (discipline, arbited) in disciplines().into_iter().zip([false, true].repeat(6)) {
            // A connection has one member in SRQ's queues: its shares are among connections.
            if matches!(discipline, Discipline::Srq(_)) {
                continue;
            }
            let classes = || match arbited {
                true => rated(2),
                false => levels(2),
            };
            let mut grouped = Driver::with_classes(discipline.clone(), UNIT, classes());
            let mut plain = Driver::with_classes(discipline, UNIT, classes());
            let groups = [grouped.egress.open_group(), grouped.egress.open_group()];
            for &(bytes, group, class) in &flows {
                match groups.get(group) {
                    Some(&group) => grouped.arrive_in(group, Precedence::default(), class, bytes),
                    None => grouped.arrive_as(class, sprat_scheduler::Size::Exact(bytes), bytes),
                };
                plain.arrive_as(class, sprat_scheduler::Size::Exact(bytes), bytes);
            }
            prop_assert_eq!(grouped.serve_all(), plain.serve_all());
        }
    }

    /// Whatever is said, all is served, the link is never idle, and among
    /// those of a connection that came together the more urgent end first.
    #[test]
    fn the_more_urgent_end_first(
        flows in prop::collection::vec((1u64..6, 0usize..3, 0u8..8, any::<bool>()), 1..25),
    ) {
        for discipline in disciplines() {
            let mut driver = Driver::new(discipline, UNIT);
            let groups = [(); 3].map(|()| driver.egress.open_group());
            for &(bytes, group, urgency, incremental) in &flows {
                let precedence = Precedence { urgency, incremental };
                driver.arrive_in(groups[group], precedence, 0, bytes);
            }
            driver.serve_the_rest();
            let total: u64 = flows.iter().map(|flow| flow.0).sum();
            prop_assert_eq!(driver.services.len() as u64, total);
            let ends: Vec<_> = driver.clients.iter().map(|client| client.finished_at).collect();
            for (one, other) in (0..flows.len()).flat_map(|i| (0..flows.len()).map(move |j| (i, j))) {
                let ((_, group, urgency, _), (_, with, than, _)) = (flows[one], flows[other]);
                if group == with && urgency < than {
                    prop_assert!(ends[one] < ends[other], "{:?}", driver.services);
                }
            }
        }
    }
}
