//! Clients that share the link, whatever numbers of flows they have.

use crate::driver::{Driver, Link, UNIT, levels, ms, plain, segments_of, set_floor, share};
use proptest::prelude::*;
use sprat_scheduler::{
    ClassSpec, Discipline, EgressPolicy, FlowSpec, Grant, Precedence, Size, WireCost,
};

const MANY: u64 = 1 << 40;

/// Two clients, and one that comes later.
const X: Option<u64> = Some(77);
const Y: Option<u64> = Some(5);
const Z: Option<u64> = Some(200);

fn shared_by(discipline: Discipline, link: Link, classes: Vec<ClassSpec>) -> Driver {
    let mut driver = Driver::with_classes(discipline, link, classes);
    share(&mut driver.egress, driver.now, true);
    driver
}

fn shared() -> Driver {
    shared_by(Discipline::Srpt, UNIT, levels(16))
}

/// Flows of these sizes arrive, of one client.
fn arrive(driver: &mut Driver, owner: Option<u64>, sizes: &[u64]) -> Vec<usize> {
    driver.owner = owner;
    sizes.iter().map(|&bytes| driver.arrive(bytes)).collect()
}

/// Bytes of these flows from one service on.
fn bytes_of(driver: &Driver, flows: &[usize], from: usize) -> u64 {
    let services = driver.services[from..].iter();
    let own = services.filter(|service| flows.contains(&service.flow));
    own.map(|service| service.bytes).sum()
}

#[test]
fn clients_alternate_and_each_has_its_shortest_first() {
    let mut driver = shared();
    arrive(&mut driver, X, &[3, 1, 2]); // A, B, C
    arrive(&mut driver, Y, &[9]); // D
    assert_eq!(driver.egress.waiting_flows(), 4);
    assert_eq!(driver.serve_all(), "BDCDCDADADADDDD");
    assert_eq!(driver.egress.waiting_flows(), 0);
}

#[test]
fn five_flows_are_no_more_than_one() {
    for discipline in [
        Discipline::Srpt,
        Discipline::Fcfs,
        Discipline::SrptAged {
            ageing_bytes_per_s: 10,
        },
    ] {
        let mut driver = shared_by(discipline, segments_of(1448), levels(1));
        let five = arrive(&mut driver, X, &[MANY; 5]);
        let one = arrive(&mut driver, Y, &[MANY]);
        driver.serve(1000);
        assert_eq!(bytes_of(&driver, &five, 0), 500 * 1448);
        assert_eq!(bytes_of(&driver, &one, 0), 500 * 1448);
    }
}

#[test]
fn without_shares_clients_make_no_difference() {
    let mut driver = Driver::new(Discipline::Srpt, UNIT);
    arrive(&mut driver, X, &[3, 1, 2]);
    arrive(&mut driver, Y, &[4]);
    assert_eq!(driver.serve_all(), "BCCAAADDDD");
    // Nor do they where flows have turns of their own.
    let mut driver = shared_by(Discipline::Fair, UNIT, levels(1));
    arrive(&mut driver, X, &[3, 3]);
    arrive(&mut driver, Y, &[3]);
    assert_eq!(driver.serve_all(), "ABCABCABC");
}

#[test]
fn flows_of_nobody_are_clients_by_themselves() {
    let mut driver = shared();
    arrive(&mut driver, None, &[3, 3]);
    arrive(&mut driver, X, &[3, 3]);
    assert_eq!(driver.serve(9), "ABCABCABC");
    assert_eq!(driver.serve_all(), "DDD");
}

#[test]
fn shares_are_counted_on_the_wire() {
    let mut driver = shared();
    driver.owner = X;
    driver.arrive_over(plain(100, 0), 0, Size::Unknown, MANY);
    driver.owner = Y;
    driver.arrive_over(plain(100, 100), 0, Size::Unknown, MANY);
    assert_eq!(driver.serve(9), "ABAABAABA");
}

#[test]
fn one_that_comes_back_has_saved_nothing_up() {
    let mut driver = shared();
    let away = arrive(&mut driver, X, &[1000, 1000]);
    arrive(&mut driver, Y, &[1000]);
    assert_eq!(driver.serve(4), "ACAC");
    away.iter().for_each(|&flow| driver.pause(flow));
    assert_eq!(driver.serve(50), "C".repeat(50));
    away.iter().for_each(|&flow| driver.resume(flow));
    // It is due when C was last, which is a grant before C is again.
    assert_eq!(driver.serve(7), "AACACAC");
    // Nor is one that is new owed what others had.
    arrive(&mut driver, Z, &[1000]);
    let next = driver.serve(9);
    for flow in ["A", "C", "D"] {
        assert_eq!(next.matches(flow).count(), 3, "{next}");
    }
}

#[test]
fn one_that_has_but_one_flow_at_a_time_has_its_share() {
    let mut driver = shared();
    let rest: Vec<_> = arrive(&mut driver, X, &[MANY; 7]);
    for _ in 0..500 {
        arrive(&mut driver, Y, &[1]);
        // Until it has been served: no flow of its stays open between two.
        while driver.serve_one() < Some(7) {}
    }
    let others = bytes_of(&driver, &rest, 0);
    assert!((495..=505).contains(&others), "{others}");
}

/// Nothing is kept of a client in between: one that comes for something small, takes a
/// grant of something large, and goes before that is its debt.
#[test]
fn one_that_always_comes_new_has_no_more_than_its_share() {
    let mut driver = shared_by(Discipline::Srpt, segments_of(1448), levels(1));
    let others: Vec<_> = (0..9)
        .map(|owner| arrive(&mut driver, Some(owner + 1000), &[MANY])[0])
        .collect();
    for _ in 0..4_000 {
        let new = arrive(&mut driver, X, &[100, MANY]);
        for &flow in &new {
            while driver.serve_one() != Some(flow) {}
        }
        driver.egress.close(driver.now, driver.clients[new[1]].id);
    }
    let own = 4_000 * 1_548;
    for other in others {
        let other = bytes_of(&driver, &[other], 0);
        // Once a grant for each client, however long it goes on.
        assert!(own <= other + 11 * 1448, "{own} {other}");
    }
}

#[test]
fn what_is_not_sent_is_given_back() {
    let cost = plain(1000, 0);
    let mut driver = shared_by(Discipline::Srpt, segments_of(1000), levels(1));
    driver.owner = X;
    let slow: Vec<_> = (0..3)
        .map(|_| driver.arrive_over(cost, 0, Size::Unknown, MANY))
        .collect();
    driver.owner = Y;
    let fast = driver.arrive_over(cost, 0, Size::Unknown, MANY);
    for part in [250, 0, u64::MAX, 999].repeat(100) {
        driver.serve_in_part(part);
        let (x, y) = (bytes_of(&driver, &slow, 0), bytes_of(&driver, &[fast], 0));
        assert!(x.abs_diff(y) <= 1000, "{x} {y}");
    }
}

/// One that was away while a grant of its was not used has no more for that than one
/// that comes.
#[test]
fn a_late_refund_is_no_saving() {
    let mut driver = shared();
    let spec = FlowSpec::new(0, Size::Exact(1000), UNIT.cost).of_client(X);
    let late: Vec<_> = (0..30)
        .map(|_| {
            let flow = driver.egress.open(driver.now, spec).unwrap();
            driver.egress.offer(driver.now, flow, 1000);
            driver.now = driver.egress.pacer().next_grant_at();
            let Grant::Send { flow, .. } = driver.egress.grant(driver.now) else {
                panic!("it is ready");
            };
            flow
        })
        .collect();
    arrive(&mut driver, Y, &[MANY]);
    driver.serve(60);
    arrive(&mut driver, X, &[MANY]);
    for flow in late {
        driver.egress.close(driver.now, flow);
    }
    let next = driver.serve(20);
    let own = next.matches('B').count();
    assert!((10..=11).contains(&own), "{next}");
}

#[test]
fn levels_come_first_and_clients_share_within_them() {
    let mut driver = shared();
    driver.owner = X;
    driver.arrive_as(1, Size::Exact(2), 2); // A
    driver.arrive_as(0, Size::Exact(4), 4); // B
    driver.arrive_as(0, Size::Exact(3), 3); // C
    driver.owner = Y;
    driver.arrive_as(1, Size::Exact(2), 2); // D
    driver.arrive_as(0, Size::Exact(5), 5); // E
    assert_eq!(driver.serve_all(), "CECECEBEBEBBADAD");
}

#[test]
fn classes_with_weights_have_theirs_and_share_them() {
    let class = |weight| ClassSpec {
        weight,
        ..ClassSpec::default()
    };
    let mut driver = shared_by(Discipline::Srpt, UNIT, vec![class(3), class(1)]);
    let flows: Vec<_> = [(0, X), (0, X), (0, X), (0, Y), (1, X), (1, X), (1, Z)]
        .map(|(class, owner)| {
            driver.owner = owner;
            driver.arrive_as(class, Size::Exact(MANY), MANY)
        })
        .into();
    driver.serve(800);
    let of = |flows: &[usize]| bytes_of(&driver, flows, 0);
    assert_eq!(of(&flows[..3]), 300);
    assert_eq!(of(&flows[3..4]), 300);
    assert_eq!(of(&flows[4..6]), 100);
    assert_eq!(of(&flows[6..]), 100);
}

#[test]
fn a_class_with_a_pool_keeps_its_order() {
    let mut classes = levels(1);
    classes[0].max_concurrency = 2;
    let mut driver = shared_by(Discipline::Srpt, UNIT, classes);
    arrive(&mut driver, X, &[3, 1, 2]);
    arrive(&mut driver, Y, &[9]);
    assert_eq!(driver.serve_all(), "BCCAAADDDDDDDDD");
}

#[test]
fn when_the_first_is_closed_the_next_takes_its_place() {
    let mut driver = shared();
    let own = arrive(&mut driver, X, &[2, 3, 4]);
    arrive(&mut driver, Y, &[9]);
    assert_eq!(driver.serve(2), "AD");
    driver.egress.close(driver.now, driver.clients[own[0]].id);
    assert_eq!(driver.egress.waiting_flows(), 3);
    assert_eq!(driver.serve(4), "BDBD");
    driver.pause(own[1]);
    assert_eq!(driver.serve(2), "CD");
    driver.resume(own[1]);
    assert_eq!(driver.serve(4), "BDCD");
}

#[test]
fn a_flow_that_is_resized_has_another_place_among_its_clients() {
    let mut driver = shared();
    let own = arrive(&mut driver, X, &[20, 30]);
    arrive(&mut driver, Y, &[90]);
    assert_eq!(driver.serve(4), "ACAC");
    driver.resize(own[1], Size::Exact(5));
    assert_eq!(driver.serve(4), "BCBC");
    driver.resize(own[1], Size::Exact(70));
    assert_eq!(driver.serve(4), "ACAC");
}

#[test]
fn connections_have_their_order_within_their_client() {
    let urgency = |urgency| Precedence {
        urgency,
        incremental: false,
    };
    let mut driver = shared();
    let group = driver.egress.open_group();
    driver.owner = X;
    driver.arrive_in(group, urgency(5), 0, 1); // A
    driver.arrive_in(group, urgency(1), 0, 4); // B
    driver.arrive(2); // C, on another connection
    driver.owner = Y;
    driver.arrive(9); // D
    assert_eq!(driver.egress.waiting_flows(), 4);
    // Shown are B of the connection, then C, which has less.
    assert_eq!(driver.serve(14), "CDCDBDBDBDBDAD");
    driver.egress.close_group(driver.now, group);
    assert_eq!(driver.serve_all(), "DD");
}

/// A proxy in front may have several users on one connection.
#[test]
fn users_of_one_connection_share_like_others() {
    let mut driver = shared();
    let group = driver.egress.open_group();
    let first = Precedence {
        urgency: 0,
        incremental: false,
    };
    for (owner, precedence) in [(X, first), (Y, Precedence::default()), (X, first)] {
        driver.owner = owner;
        driver.arrive_in(group, precedence, 0, 4);
    }
    assert_eq!(driver.serve_all(), "ABABABABCCCC");
}

#[test]
fn the_floor_reaches_what_its_own_client_hides() {
    let mut driver = shared();
    set_floor(&mut driver.egress, driver.now, 10);
    let small = arrive(&mut driver, X, &[MANY]);
    let hidden = arrive(&mut driver, X, &[MANY + 1]);
    let other = arrive(&mut driver, Y, &[MANY]);
    driver.run_until(ms(1_000));
    assert_eq!(bytes_of(&driver, &hidden, 0), 0);
    let from = driver.services.len();
    driver.run_until(ms(21_000));
    // It has the floor, for nobody else hides anything; that is of its client's share.
    let got = bytes_of(&driver, &hidden, from);
    assert!((1_995..=2_005).contains(&got), "{got}");
    let got = bytes_of(&driver, &small, from);
    assert!((7_995..=8_005).contains(&got), "{got}");
    let got = bytes_of(&driver, &other, from);
    assert!((9_995..=10_005).contains(&got), "{got}");
}

#[test]
fn the_floor_is_no_way_to_a_larger_share() {
    let mut driver = shared();
    set_floor(&mut driver.egress, driver.now, 50);
    let hog = arrive(&mut driver, X, &[MANY; 100]);
    let others: Vec<_> = (0..9)
        .map(|owner| arrive(&mut driver, Some(owner + 1000), &[MANY])[0])
        .collect();
    driver.run_until(ms(2_000));
    let from = driver.services.len();
    driver.run_until(ms(12_000));
    let got = bytes_of(&driver, &hog, from);
    assert!((995..=1_005).contains(&got), "{got}");
    for other in others {
        let got = bytes_of(&driver, &[other], from);
        assert!((995..=1_005).contains(&got), "{got}");
    }
}

#[test]
fn the_floor_reaches_lower_levels() {
    let mut driver = shared();
    set_floor(&mut driver.egress, driver.now, 10);
    driver.owner = X;
    driver.arrive(MANY);
    let mut low = |owner, flows| {
        driver.owner = owner;
        (0..flows)
            .map(|_| driver.arrive_as(3, Size::Exact(MANY), MANY))
            .collect::<Vec<_>>()
    };
    let (one, many) = (low(Y, 1), low(Z, 20));
    driver.run_until(ms(1_000));
    let from = driver.services.len();
    driver.run_until(ms(21_000));
    let (one, many) = (
        bytes_of(&driver, &one, from),
        bytes_of(&driver, &many, from),
    );
    assert!((950..=1_050).contains(&one), "{one}");
    assert!((950..=1_050).contains(&many), "{many}");
    // One that is new there is not owed what the others had.
    driver.egress.close(driver.now, driver.clients[0].id);
    driver.owner = X;
    driver.arrive_as(3, Size::Exact(MANY), MANY);
    let from = driver.services.len();
    driver.serve(300);
    let new = driver.clients.len() - 1;
    let got = bytes_of(&driver, &[new], from);
    assert!((95..=105).contains(&got), "{got}");
}

#[test]
fn the_floor_is_not_lost_as_flows_come_and_go_beside() {
    let mut driver = shared();
    set_floor(&mut driver.egress, driver.now, 10);
    arrive(&mut driver, X, &[MANY]);
    driver.owner = Y;
    let waits = driver.arrive_as(3, Size::Exact(MANY), MANY);
    driver.run_until(ms(1_500));
    let from = driver.services.len();
    let beside = driver.arrive_as(3, Size::Exact(MANY), MANY);
    driver.run_until(ms(11_500));
    for flow in [waits, beside] {
        let got = bytes_of(&driver, &[flow], from);
        assert!((400..=600).contains(&got), "{got}");
    }
    let from = driver.services.len();
    driver.egress.close(driver.now, driver.clients[beside].id);
    driver.run_until(ms(21_500));
    let got = bytes_of(&driver, &[waits], from);
    assert!((995..=1_005).contains(&got), "{got}");
}

#[test]
fn it_can_begin_and_end_while_flows_wait() {
    let mut driver = Driver::new(Discipline::Srpt, UNIT);
    let group = driver.egress.open_group();
    driver.owner = X;
    driver.arrive_in(group, Precedence::default(), 0, 10); // A
    driver.arrive_in(group, Precedence::default(), 0, 11); // B
    arrive(&mut driver, Y, &[20]); // C
    assert_eq!(driver.serve(2), "AA");
    share(&mut driver.egress, driver.now, true);
    assert_eq!(driver.egress.waiting_flows(), 3);
    assert_eq!(driver.serve(6), "ACACAC");
    share(&mut driver.egress, driver.now, false);
    assert_eq!(driver.egress.waiting_flows(), 3);
    assert_eq!(driver.serve(5), "AAAAA");
    // Where flows have turns clients have none; afterwards they do again.
    share(&mut driver.egress, driver.now, true);
    let mut change = |discipline| {
        let change = EgressPolicy {
            max_flows: 1000,
            guard_factor: 8.0,
            classes: levels(2),
            discipline,
            ..driver.egress.policy().clone()
        };
        driver.egress.reconfigure(driver.now, change);
        driver.serve(6)
    };
    assert_eq!(change(Discipline::Fair), "BCBCBC");
    assert_eq!(change(Discipline::Srpt), "BCBCBC");
    assert_eq!(driver.serve_all(), "BCBCBCBCBCCCCCCC");
}

/// What is done to flows of two clients that always have something to send, and of others.
#[derive(Clone, Debug)]
enum Op {
    Arrive {
        owner: u64,
        bytes: u64,
    },
    Serve {
        grants: usize,
        part: u64,
    },
    /// A flow is away, and comes back at the next.
    Pause {
        flow: usize,
    },
    Close {
        flow: usize,
    },
    Resize {
        flow: usize,
        bytes: u64,
    },
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (0u64..6, 1u64..40_000).prop_map(|(owner, bytes)| Op::Arrive { owner, bytes }),
        8 => (1usize..30, prop_oneof![3 => Just(u64::MAX), 1 => 0u64..1500])
            .prop_map(|(grants, part)| Op::Serve { grants, part }),
        2 => (0usize..60).prop_map(|flow| Op::Pause { flow }),
        1 => (0usize..60).prop_map(|flow| Op::Close { flow }),
        1 => (0usize..60, 0u64..40_000).prop_map(|(flow, bytes)| Op::Resize { flow, bytes }),
    ]
}

const WIRE: Link = Link {
    rate_bits_per_s: 10_000_000,
    cost: WireCost::ETHERNET_IPV4,
};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Two clients that always have something to send are never further apart, in wire
    /// bytes, than two of the largest grants, whatever numbers of flows they have and
    /// whatever others do; and all that others were to have they have in the end.
    #[test]
    fn clients_that_always_wait_have_the_same(
        flows in [1usize..40, 1usize..40],
        costs in [(1u32..3000, 0u32..100), (1u32..3000, 0u32..100)],
        ops in prop::collection::vec(op(), 1..60),
        fcfs in any::<bool>(),
    ) {
        let discipline = if fcfs { Discipline::Fcfs } else { Discipline::Srpt };
        let mut driver = shared_by(discipline, WIRE, levels(1));
        let mut owners = Vec::new();
        let mut largest = 1514i64;
        for (owner, count) in (0u64..).zip(flows) {
            let (mss, overhead) = costs[owner as usize];
            let cost = plain(mss, overhead);
            largest = largest.max(375).max(cost.bytes(u64::from(mss)) as i64);
            for more in 0..count as u64 {
                driver.owner = Some(owner);
                driver.arrive_over(cost, 0, Size::Exact(MANY + more), MANY + more);
                owners.push(owner);
            }
        }
        // The first of each of the two is never touched.
        let always = [0, flows[0]];
        let mut away = None;
        for op in ops {
            match op {
                Op::Arrive { owner, bytes } => {
                    driver.owner = Some(owner);
                    driver.arrive(bytes);
                    owners.push(owner);
                }
                Op::Serve { grants, part } => {
                    for _ in 0..grants {
                        driver.serve_in_part(part);
                    }
                }
                Op::Pause { flow } => {
                    let flow = flow % owners.len();
                    if let Some(back) = away.take() {
                        driver.resume(back);
                    }
                    if !always.contains(&flow) && driver.clients[flow].finished_at.is_none() {
                        driver.pause(flow);
                        away = Some(flow);
                    }
                }
                Op::Close { flow } => {
                    let flow = flow % owners.len();
                    if !always.contains(&flow) && away != Some(flow) {
                        let client = &mut driver.clients[flow];
                        client.finished_at.get_or_insert(driver.now);
                        client.left = 0;
                        driver.egress.close(driver.now, client.id);
                    }
                }
                Op::Resize { flow, bytes } => driver.resize(flow % owners.len(), Size::Exact(bytes)),
            }
            let waiting = driver.clients.iter().filter(|client| client.left > 0).count();
            prop_assert_eq!(
                driver.egress.waiting_flows(),
                waiting - usize::from(away.is_some())
            );
        }
        let (mut lead, mut least, mut most) = (0i64, 0i64, 0i64);
        for service in &driver.services {
            let wire_bytes = driver.wire_bytes(service) as i64;
            match owners[service.flow] {
                0 => lead += wire_bytes,
                1 => lead -= wire_bytes,
                _ => {}
            }
            (least, most) = (least.min(lead), most.max(lead));
        }
        prop_assert!(most - least <= 2 * largest, "{least} to {most} of {largest}");
        // Nor has one that comes and goes ever gained more on one that waits than a grant
        // for each of the six, and one.
        for other in 2..6 {
            let (mut gain, mut most) = (0i64, 0i64);
            for service in &driver.services {
                let wire_bytes = driver.wire_bytes(service) as i64;
                match owners[service.flow] {
                    0 => gain = (gain - wire_bytes).max(0),
                    owner if owner == other => gain += wire_bytes,
                    _ => {}
                }
                most = most.max(gain);
            }
            prop_assert!(most <= 7 * largest, "{other} gained {most} of {largest}");
        }
        if let Some(back) = away {
            driver.resume(back);
        }
        for flow in 0..flows[0] + flows[1] {
            driver.egress.close(driver.now, driver.clients[flow].id);
            driver.clients[flow].left = 0;
        }
        driver.serve_the_rest();
        prop_assert!(driver.clients.iter().all(|client| client.left == 0));
        prop_assert_eq!(driver.egress.waiting_flows(), 0);
    }

    /// One client that shares with no other is served as if nothing were shared.
    #[test]
    fn a_client_alone_has_the_disciplines_order(
        sizes in prop::collection::vec((1u64..9, 0usize..3), 1..20),
        aged in any::<bool>(),
    ) {
        let discipline = match aged {
            true => Discipline::SrptAged { ageing_bytes_per_s: 1000 },
            false => Discipline::Srpt,
        };
        let mut with = shared_by(discipline.clone(), UNIT, levels(3));
        let mut without = Driver::with_classes(discipline, UNIT, levels(3));
        for driver in [&mut with, &mut without] {
            driver.owner = X;
            let group = driver.egress.open_group();
            for &(bytes, class) in &sizes {
                match class {
                    0 => driver.arrive_in(group, Precedence::default(), class, bytes),
                    _ => driver.arrive_as(class, Size::Exact(bytes), bytes),
                };
            }
        }
        prop_assert_eq!(with.serve_all(), without.serve_all());
    }
}
