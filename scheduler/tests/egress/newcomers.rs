//! Under `fair`, and within a band: flows that come again and again, such as
//! the small responses of kept connections, against one that needs many turns.

use proptest::prelude::*;
use sprat_scheduler::{ClassSpec, Cutoffs, Discipline, Precedence, WireCost};

use crate::driver::{Driver, Link, UNIT, levels};

/// `fair`, and bands of which one holds all flows of these tests.
fn by_turns() -> [Discipline; 2] {
    let cutoffs = Cutoffs::Fixed(vec![100_000_000]);
    [Discipline::Fair, Discipline::Bands(cutoffs)]
}

/// Serves `grants` to a flow A and to four connections that each ask for one
/// byte as soon as they have the last one: who was served, A or another.
fn beside_kept_connections(
    driver: &mut Driver,
    ask: impl Fn(&mut Driver) -> usize,
    grants: usize,
) -> String {
    for _ in 0..4 {
        ask(driver);
    }
    let mut order = String::new();
    for _ in 0..grants {
        let flow = driver.serve_one().expect("five flows are ready");
        if flow != 0 {
            ask(driver);
        }
        order.push(if flow == 0 { 'A' } else { '.' });
    }
    order
}

/// The first round is longer: who came while A had its first turn is behind
/// that, and not behind its second.
const ONE_IN_FIVE: &str = "A........A....A....A....A....A";

#[test]
fn small_responses_that_keep_coming_leave_a_large_one_its_turns() {
    for discipline in by_turns() {
        let mut driver = Driver::new(discipline, UNIT);
        driver.arrive(50);
        let ask = |driver: &mut Driver| driver.arrive(1);
        assert_eq!(beside_kept_connections(&mut driver, ask, 30), ONE_IN_FIVE);
    }
}

#[test]
fn so_do_those_of_a_class_with_a_weight() {
    for discipline in by_turns() {
        let classes = vec![
            ClassSpec {
                weight: 3,
                ..ClassSpec::default()
            };
            2
        ];
        let mut driver = Driver::with_classes(discipline, UNIT, classes);
        driver.arrive(50);
        let ask = |driver: &mut Driver| driver.arrive(1);
        assert_eq!(beside_kept_connections(&mut driver, ask, 30), ONE_IN_FIVE);
    }
}

#[test]
fn so_do_the_streams_of_one_connection() {
    for discipline in by_turns() {
        let mut driver = Driver::new(discipline, UNIT);
        driver.arrive(50);
        let group = driver.egress.open_group();
        let ask = |driver: &mut Driver| driver.arrive_in(group, Precedence::default(), 0, 1);
        assert_eq!(beside_kept_connections(&mut driver, ask, 30), ONE_IN_FIVE);
    }
}

/// And the large one may itself be a stream, behind others in its connection.
#[test]
fn a_large_stream_has_its_turns_among_the_small_ones_of_its_connection() {
    for discipline in by_turns() {
        let mut driver = Driver::new(discipline, UNIT);
        let group = driver.egress.open_group();
        driver.arrive_in(group, Precedence::default(), 0, 50);
        let ask = |driver: &mut Driver| driver.arrive_in(group, Precedence::default(), 0, 1);
        assert_eq!(beside_kept_connections(&mut driver, ask, 30), ONE_IN_FIVE);
    }
}

/// With a place in the pool too; who waits for one waits for that.
#[test]
fn so_do_those_of_a_class_with_a_pool() {
    let mut classes = levels(1);
    classes[0].max_concurrency = 5;
    let mut driver = Driver::with_classes(Discipline::Fair, UNIT, classes);
    driver.arrive(50);
    let ask = |driver: &mut Driver| driver.arrive(1);
    assert_eq!(beside_kept_connections(&mut driver, ask, 30), ONE_IN_FIVE);
}

/// A burst that drains leaves no flow a lead: the large flow has one turn while
/// it lasts, and the next burst is served as the first was.
#[test]
fn bursts_give_a_large_flow_one_turn_each() {
    let mut driver = Driver::new(Discipline::Fair, UNIT);
    driver.arrive(1000);
    for _ in 0..10 {
        let burst: Vec<usize> = (0..20).map(|_| driver.arrive(1)).collect();
        let before = driver.services.len();
        while burst
            .iter()
            .any(|&flow| driver.clients[flow].finished_at.is_none())
        {
            driver.serve_one();
        }
        let services = driver.services[before..].iter();
        let turns = services.filter(|service| service.flow == 0).count();
        assert!((1..=3).contains(&turns), "{turns}");
    }
}

/// A response of 50 kB on 1 Mbit/s beside four connections that ask for 100
/// bytes back to back: a fifth of the link is 2.1 s.
#[test]
fn a_fifth_of_the_link_is_a_fifth() {
    let link = Link {
        rate_bits_per_s: 1_000_000,
        cost: WireCost::ETHERNET_IPV4,
    };
    let mut driver = Driver::new(Discipline::Fair, link);
    driver.arrive(50_000);
    for _ in 0..4 {
        driver.arrive(100);
    }
    while driver.clients[0].finished_at.is_none() {
        if driver.serve_one() != Some(0) {
            driver.arrive(100);
        }
    }
    let done_ms = driver.clients[0].finished_at.unwrap().as_nanos() / 1_000_000;
    assert!((1_900..=2_200).contains(&done_ms), "{done_ms} ms");
}

/// What comes where, on a connection: after how many grants, and how much.
#[derive(Clone, Debug)]
struct Visit {
    gap: usize,
    bytes: u64,
}

fn visits() -> impl Strategy<Value = Vec<Vec<Visit>>> {
    let bytes = prop_oneof![3 => 1u64..400, 2 => 400u64..1449, 1 => 1449u64..9000];
    let gap = prop_oneof![3 => Just(0usize), 1 => 1usize..20];
    let visit = (gap, bytes).prop_map(|(gap, bytes)| Visit { gap, bytes });
    let connection = prop::collection::vec(visit, 1..12);
    prop::collection::vec(connection, 1..10)
}

/// A connection that repeats its visits for ever.
struct Connection {
    visits: Vec<Visit>,
    next: usize,
    /// The grant after which it comes again; none while it is served.
    due: Option<usize>,
    flow: Option<usize>,
}

/// Serves `grants` to a flow of many bytes and to connections that come again and again.
/// Returns how many wire bytes the flow lacks at most, over any grants in a row, of the
/// bytes by the flows that waited.
fn worst_lack(
    discipline: Discipline,
    visits: Vec<Vec<Visit>>,
    grouped: bool,
    grants: usize,
) -> i64 {
    let link = Link {
        rate_bits_per_s: 10_000_000,
        cost: WireCost::ETHERNET_IPV4,
    };
    let mut driver = Driver::new(discipline, link);
    let group = driver.egress.open_group();
    driver.arrive(1514 * grants as u64);
    let mut connections: Vec<Connection> = visits
        .into_iter()
        .map(|visits| Connection {
            visits,
            next: 0,
            due: Some(0),
            flow: None,
        })
        .collect();
    // By grant: what the flow had, what all had, and how many waited.
    let mut served: Vec<(i64, i64, i64)> = Vec::new();
    for grant in 0..grants {
        for connection in &mut connections {
            if connection.due.is_some_and(|due| due <= grant) {
                let visit = connection.visits[connection.next].clone();
                connection.next = (connection.next + 1) % connection.visits.len();
                let flow = match grouped {
                    true => driver.arrive_in(group, Precedence::default(), 0, visit.bytes),
                    false => driver.arrive(visit.bytes),
                };
                connection.flow = Some(flow);
                connection.due = None;
            }
        }
        let waiting = driver.egress.waiting_flows() as i64;
        let flow = driver.serve_one().expect("the flow of many bytes is ready");
        let service = *driver.services.last().expect("one was served");
        let wire_bytes = driver.wire_bytes(&service) as i64;
        served.push((if flow == 0 { wire_bytes } else { 0 }, wire_bytes, waiting));
        for connection in &mut connections {
            let own = connection.flow;
            if own.is_some_and(|own| driver.clients[own].finished_at.is_some()) {
                connection.flow = None;
                connection.due = Some(grant + 1 + connection.visits[connection.next].gap);
            }
        }
    }
    let from = |from| {
        let (mut own, mut all, mut most) = (0, 0, 0);
        served[from..].iter().map(move |(flow, grant, waiting)| {
            own += flow;
            all += grant;
            most = most.max(*waiting);
            (all + most - 1) / most - own
        })
    };
    (0..served.len()).flat_map(from).max().unwrap_or(0)
}

/// A response of 2,844 bytes between small ones, again and again: each small one would be
/// ahead of its turn by what it is smaller, and the large flow behind by 19 kB after 6,400
/// grants.
#[test]
fn small_responses_after_larger_ones_gain_nothing_by_it() {
    for discipline in by_turns() {
        let visit = |bytes| Visit { gap: 0, bytes };
        let visits = [818, 2844, 842, 286, 163].map(visit).to_vec();
        let lack = worst_lack(discipline, vec![visits], false, 6400);
        assert!(lack <= 2 * 1514, "{lack}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Over any grants in a row a flow that waits all along has its part of
    /// them: the bytes by the flows that waited, but for two segments.
    #[test]
    fn no_flow_gets_less_than_its_share(
        discipline in prop::sample::select(by_turns().to_vec()),
        connections in visits(),
        grouped in any::<bool>(),
    ) {
        let lack = worst_lack(discipline, connections, grouped, 400);
        prop_assert!(lack <= 2 * 1514, "{lack}");
    }
}
