use super::*;
use crate::fake::Bell;

const MBIT: u64 = 1_000_000;

fn at(micros: u64) -> Time {
    Time::from_nanos(micros * 1000)
}

fn settings(rate_mbit: u64) -> Settings {
    Settings {
        rate_bits_per_s: rate_mbit * MBIT,
        policy: Discipline::Srpt,
        max_flows: 4,
        floor_percent: 0,
        classes: Vec::new(),
    }
}

fn link() -> Link {
    Link::new(settings(10), 1)
}

fn bell() -> Arc<Bell> {
    Arc::default()
}

fn waker(bell: &Arc<Bell>) -> Arc<dyn Wake> {
    Arc::clone(bell) as Arc<dyn Wake>
}

/// Asks for the link with a new bell, which must not have rung yet, and returns that.
fn must_wait(link: &Link, now: Time, flow: FlowId, bytes: u64) -> Arc<Bell> {
    let bell = bell();
    let (asked, due) = link.ask(now, flow, bytes, || waker(&bell));
    assert_eq!(asked, Asked::Wait);
    assert!(due.is_some(), "nobody would grant");
    assert_eq!(bell.rung(), 0);
    bell
}

/// Ticks whenever the link asks for it, until it asks no more. Returns the bells in the order in
/// which they rang.
fn order(link: &Link, from: Time, bells: &[&Arc<Bell>], flows: &[(FlowId, u64)]) -> Vec<usize> {
    let mut order = Vec::new();
    let mut now = from;
    loop {
        let due = link.tick(now);
        for (index, bell) in bells.iter().enumerate() {
            if bell.rung() > 0 {
                order.push(index);
                let (flow, bytes) = flows[index];
                link.take_turn(now, flow, bytes).expect("it was woken");
            }
        }
        let Some(due) = due else { break };
        assert!(due > now, "a tick that leads nowhere");
        now = due;
    }
    order
}

#[test]
fn a_free_link_lets_go_at_once_and_debits_the_whole_chunk() {
    let link = link();
    let flow = link.open(at(1000), 0, Size::Exact(16_384)).unwrap();
    let (asked, _) = link.ask(at(1000), flow, 16_384, || panic!("nobody waits"));
    assert_eq!(asked, Asked::Go);
    assert_eq!(link.wire_bytes(), WireCost::ETHERNET_IPV4.bytes(16_384));
}

/// Returns whether a large response is let go within three seconds in which smaller ones ask for
/// more than the link carries.
fn moves_under_overload(floor_percent: u8) -> bool {
    let settings = Settings {
        max_flows: 1_000,
        floor_percent,
        ..settings(1)
    };
    let link = Link::new(settings, 1);
    let large = link.open(at(0), 0, Size::Exact(1 << 20)).unwrap();
    assert_eq!(link.ask(at(0), large, 4096, || panic!()).0, Asked::Go);
    let own = must_wait(&link, at(1), large, 4096);
    let mut waiting: Vec<(FlowId, Arc<Bell>)> = Vec::new();
    for step in 1..300 {
        let now = at(step * 10_000);
        let small = link.open(now, 0, Size::Exact(1_400)).unwrap();
        let rings = bell();
        match link.ask(now, small, 1_400, || waker(&rings)).0 {
            Asked::Go => {
                link.close(now, small);
            }
            Asked::Wait => waiting.push((small, rings)),
        }
        link.tick(now);
        if own.rung() > 0 {
            return true;
        }
        waiting.retain(|(flow, rings)| {
            if rings.rung() > 0 {
                link.take_turn(now, *flow, 1_400).expect("it was woken");
                link.close(now, *flow);
            }
            rings.rung() == 0
        });
    }
    false
}

#[test]
fn what_has_waited_for_a_second_has_its_part_of_a_link_that_is_overloaded() {
    assert!(moves_under_overload(5));
    assert!(!moves_under_overload(0));
}

#[test]
fn the_least_remaining_goes_first() {
    let link = link();
    let busy = link.open(at(0), 0, Size::Exact(100_000)).unwrap();
    assert_eq!(link.ask(at(0), busy, 4096, || panic!()).0, Asked::Go);
    let sizes = [50_000, 500, 5_000];
    let flows = sizes.map(|size| link.open(at(1), 0, Size::Exact(size)).unwrap());
    let hands = [4096, 500, 4096];
    let bells: Vec<_> = flows
        .iter()
        .zip(hands)
        .map(|(&flow, bytes)| must_wait(&link, at(2), flow, bytes))
        .collect();
    let bells: Vec<_> = bells.iter().collect();
    let turns: Vec<_> = flows.into_iter().zip(hands).collect();
    assert_eq!(order(&link, at(3), &bells, &turns), [1, 2, 0]);
}

#[test]
fn what_is_left_of_a_second_of_waiting_counts_with_the_next() {
    let link = link();
    let busy = link.open(at(0), 0, Size::Exact(100_000)).unwrap();
    let wait = |from_us, until_us| {
        link.ask(at(from_us), busy, 1000, || panic!());
        let flow = link.open(at(from_us), 0, Size::Exact(200)).unwrap();
        must_wait(&link, at(from_us), flow, 200);
        link.tick(at(until_us));
        let seconds = link.take_turn(at(until_us), flow, 200).unwrap();
        link.close(at(until_us), flow);
        seconds
    };
    assert_eq!(wait(0, 1_600_000), 1);
    assert_eq!(wait(5_000_000, 6_600_000), 2);
    assert_eq!(wait(9_000_000, 9_700_000), 0);
}

#[test]
fn what_joins_a_chunk_that_waits_is_debited_too() {
    let link = link();
    let busy = link.open(at(0), 0, Size::Exact(100_000)).unwrap();
    link.ask(at(0), busy, 1000, || panic!());
    let before = link.wire_bytes();
    let flow = link.open(at(1), 0, Size::Exact(9_000)).unwrap();
    let bell = must_wait(&link, at(1), flow, 2_000);
    link.tick(at(10_000));
    assert_eq!(bell.rung(), 1);
    // Between the grant and the hook 1,000 more have come.
    assert!(link.take_turn(at(10_001), flow, 3_000).is_some());
    let wire_bytes = link.wire_bytes() - before;
    assert_eq!(wire_bytes, WireCost::ETHERNET_IPV4.bytes(3_000));
    assert!(link.take_turn(at(10_002), flow, 3_000).is_none(), "once");
}

#[test]
fn a_chunk_that_comes_after_the_grant_goes_with_it() {
    let link = link();
    let busy = link.open(at(0), 0, Size::Exact(100_000)).unwrap();
    link.ask(at(0), busy, 1000, || panic!());
    let flow = link.open(at(1), 0, Size::Exact(9_000)).unwrap();
    let bell = must_wait(&link, at(1), flow, 2_000);
    link.tick(at(10_000));
    let (asked, _) = link.ask(at(10_001), flow, 4_000, || panic!("it is its turn"));
    assert_eq!(asked, Asked::Go);
    assert_eq!(bell.rung(), 1);
    // The wake that was on its way finds nothing to do.
    assert!(link.take_turn(at(10_002), flow, 0).is_none());
}

#[test]
fn who_leaves_before_its_turn_gives_it_back() {
    let link = link();
    let busy = link.open(at(0), 0, Size::Exact(100_000)).unwrap();
    link.ask(at(0), busy, 1000, || panic!());
    let before = link.wire_bytes();
    let flow = link.open(at(1), 0, Size::Exact(9_000)).unwrap();
    let bell = must_wait(&link, at(1), flow, 2_000);
    link.tick(at(10_000));
    assert_eq!(bell.rung(), 1);
    link.close(at(10_001), flow);
    assert_eq!(link.wire_bytes(), before);
    // Its place is another's now, whom the old wake does not concern.
    let next = link.open(at(10_001), 0, Size::Exact(10)).unwrap();
    assert!(link.take_turn(at(10_002), flow, 2_000).is_none());
    assert_eq!(link.ask(at(20_000), next, 10, || panic!()).0, Asked::Go);
}

#[test]
fn a_head_waits_two_milliseconds_for_its_body() {
    let link = link();
    let flow = link.open(at(0), 0, Size::Exact(1_000)).unwrap();
    let bell = bell();
    let due = link.hold_head(at(0), flow, 200, waker(&bell));
    assert_eq!(due, Some(at(2_000)));
    assert_eq!(link.tick(at(1_999)), Some(at(2_000)));
    assert_eq!(bell.rung(), 0);
    link.tick(at(2_000));
    assert_eq!(bell.rung(), 1);
    assert!(link.take_turn(at(2_001), flow, 200).is_some());
    assert_eq!(link.wire_bytes(), WireCost::ETHERNET_IPV4.bytes(200));
}

#[test]
fn a_head_whose_body_comes_waits_no_more() {
    let link = link();
    let flow = link.open(at(0), 0, Size::Exact(1_000)).unwrap();
    let bell = bell();
    link.hold_head(at(0), flow, 200, waker(&bell));
    let (asked, due) = link.ask(at(1), flow, 1_000, || panic!("it has a waker"));
    assert_eq!(asked, Asked::Go);
    assert_eq!(due, None, "nothing is left to do");
    assert_eq!(link.tick(at(5_000)), None);
    assert_eq!(bell.rung(), 0);
}

#[test]
fn a_connection_is_debited_once() {
    let link = link();
    let opening = u64::from(WireCost::ETHERNET_IPV4.connection_overhead);
    link.on_request(at(0), 7);
    assert_eq!(link.wire_bytes(), opening);
    link.on_request(at(1), 7);
    assert_eq!(link.wire_bytes(), opening);
    link.on_request(at(1), 8);
    assert_eq!(link.wire_bytes(), 2 * opening);
}

/// Guards against a full memory that takes an old connection for a new one at each request.
#[test]
fn a_connection_that_is_forgotten_is_not_debited_again() {
    let link = link();
    for connection in 0..CONNECTIONS_REMEMBERED as u64 + 10 {
        link.on_request(at(0), connection);
    }
    let before = link.wire_bytes();
    // The link is idle by then, and would count it.
    for seconds in 60..63 {
        link.on_request(at(seconds * 1_000_000), 0);
    }
    assert_eq!(link.wire_bytes(), before);
}

#[test]
fn no_more_flows_than_allowed() {
    let link = link();
    let flows: Vec<_> = (0..4).map(|_| link.open(at(0), 0, Size::Unknown)).collect();
    assert!(flows.iter().all(Option::is_some));
    assert_eq!(link.open(at(0), 0, Size::Unknown), None);
    link.close(at(1), flows[0].unwrap());
    assert!(link.open(at(1), 0, Size::Unknown).is_some());
}

#[test]
fn settings_change_under_those_who_wait() {
    let link = link();
    let busy = link.open(at(0), 0, Size::Exact(100_000)).unwrap();
    link.ask(at(0), busy, 1448, || panic!());
    let large = link.open(at(1), 0, Size::Exact(50_000)).unwrap();
    let small = link.open(at(2), 0, Size::Exact(500)).unwrap();
    let bells = [
        must_wait(&link, at(3), large, 4096),
        must_wait(&link, at(3), small, 500),
    ];
    let fcfs = Settings {
        policy: Discipline::Fcfs,
        ..settings(100)
    };
    // Ten times the rate: a stream that waits is not left to wait for the old time.
    let due = link.apply(at(4), &fcfs, 2).expect("somebody waits");
    assert!(due < at(200), "{due:?}");
    assert_eq!(link.rate_bits_per_s(), 100 * MBIT);
    let bells: Vec<_> = bells.iter().collect();
    let turns = [(large, 4096), (small, 500)];
    assert_eq!(order(&link, at(5), &bells, &turns), [0, 1]);
    // What was there before does not come back.
    link.apply(at(6), &settings(10), 1);
    assert_eq!(link.rate_bits_per_s(), 100 * MBIT);
}
