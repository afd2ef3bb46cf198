//! The desk: who is woken, when, and with how much.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::time::Duration;

use sprat_scheduler::desk::HEAD_WAIT;
use sprat_scheduler::{
    ClassSpec, Desk, Discipline, Egress, EgressPolicy, FlowId, FlowSpec, Grants, Pacer, Size, Time,
    Turn, srq,
};

use crate::driver::{ms, plain};

/// A desk whose link carries a byte a millisecond, one a grant.
fn desk() -> Desk<char> {
    desk_of(Grants::Quanta)
}

fn desk_of(grants: Grants) -> Desk<char> {
    let policy = EgressPolicy {
        max_flows: 4,
        grants,
        ..EgressPolicy::new(Discipline::Srpt)
    };
    Desk::new(Egress::new(Pacer::exact(8000), policy))
}

fn open(desk: &mut Desk<char>, bytes: u64) -> FlowId {
    let spec = FlowSpec::new(0, Size::Exact(bytes), plain(1, 0));
    desk.open(ms(0), spec).unwrap()
}

/// All who are to be woken now.
fn woken(desk: &mut Desk<char>, now: Time) -> String {
    std::iter::from_fn(|| desk.next(now).copied()).collect()
}

fn turn(bytes: u64, waited_ms: u64) -> Option<Turn> {
    let waited = Duration::from_millis(waited_ms);
    Some(Turn { bytes, waited })
}

#[test]
fn who_asks_on_a_free_link_has_the_turn_and_is_not_woken() {
    let mut desk = desk();
    let flow = open(&mut desk, 2);
    desk.set_waker(flow, 'A');
    assert!(desk.ask(ms(0), flow, 2));
    assert_eq!(woken(&mut desk, ms(0)), "");
    assert_eq!(desk.take(ms(0), flow), turn(1, 0));
    assert_eq!(desk.take(ms(0), flow), None, "once");
    assert_eq!(desk.next_wakeup(), None);
}

#[test]
fn who_waits_is_woken_in_order_and_told_how_long_it_was() {
    let mut desk = desk();
    let flows = [5, 3, 1].map(|bytes| open(&mut desk, bytes));
    for (flow, name) in flows.into_iter().zip("ABC".chars()) {
        desk.ask(ms(0), flow, 1);
        assert_eq!(woken(&mut desk, ms(0)), "");
        if desk.take(ms(0), flow).is_none() {
            desk.set_waker(flow, name);
        }
    }
    assert_eq!(desk.waiting().collect::<String>(), "BC");
    assert_eq!(desk.next_wakeup(), Some(ms(1)));
    assert_eq!(woken(&mut desk, ms(1)), "C");
    assert_eq!(woken(&mut desk, ms(2)), "B");
    assert_eq!(desk.take(ms(3), flows[2]), turn(1, 3));
    assert_eq!(desk.take(ms(3), flows[1]), turn(1, 3));
    assert_eq!(desk.waiting().count(), 0);
}

#[test]
fn asking_for_the_same_again_is_no_news_and_more_joins_what_waits() {
    let mut desk = desk();
    let (first, second) = (open(&mut desk, 9), open(&mut desk, 9));
    assert!(desk.ask(ms(0), first, 1));
    assert_eq!(woken(&mut desk, ms(0)), "");
    assert!(!desk.ask(ms(0), first, 5), "it has a turn to take first");
    assert_eq!(desk.take(ms(0), first), turn(1, 0));
    assert!(desk.ask(ms(0), second, 1));
    assert!(!desk.ask(ms(0), second, 1));
    assert!(desk.ask(ms(0), second, 4));
    assert_eq!(desk.egress().unsent_bytes(), 8 + 9);
}

#[test]
fn what_is_not_taken_is_given_back_and_what_is_taken_is_not() {
    let mut desk = desk();
    let (first, second) = (open(&mut desk, 9), open(&mut desk, 9));
    for flow in [first, second] {
        desk.ask(ms(0), flow, 9);
        assert_eq!(woken(&mut desk, ms(0)), "");
    }
    desk.close(ms(0), first);
    assert_eq!(desk.egress().stats().granted_bytes, 0);
    // The other's turn has come by that; it looks and takes it.
    assert_eq!(woken(&mut desk, ms(0)), "");
    assert_eq!(desk.take(ms(0), second), turn(1, 0));
    desk.close(ms(0), second);
    assert_eq!(desk.egress().stats().granted_bytes, 1);
    assert_eq!(desk.egress().open_flows(), 0);
}

/// The queues of SRQ learn from responses that were written to their end.
#[test]
fn what_is_complete_and_granted_and_not_taken_has_not_been_sent() {
    let discipline = Discipline::Srq(Box::new(srq::Config::bytes()));
    let policy = EgressPolicy::new(discipline);
    let mut desk = Desk::new(Egress::new(Pacer::exact(8000), policy));
    for (is_taken, done) in [(true, 1), (false, 1)] {
        let spec = FlowSpec::new(0, Size::Unknown, plain(1, 0));
        let flow = desk.open(ms(0), spec).unwrap();
        desk.set_waker(flow, 'A');
        desk.wait(ms(0), flow, 1);
        desk.complete(flow);
        let now = desk.next_wakeup().unwrap();
        assert_eq!(woken(&mut desk, now), "A");
        if is_taken {
            assert_eq!(desk.take(now, flow).unwrap().bytes, 1);
        }
        desk.close(now, flow);
        let (queues, _) = desk.egress().queues().unwrap();
        assert_eq!(queues.stats().done.iter().sum::<u64>(), done);
        assert_eq!(queues.stats().members.iter().sum::<u64>(), 0);
    }
}

#[test]
fn a_writer_says_what_it_has_written() {
    let mut desk = desk_of(Grants::Whole);
    let flow = open(&mut desk, 9);
    desk.ask(ms(0), flow, 4);
    assert_eq!(woken(&mut desk, ms(0)), "");
    assert_eq!(desk.take(ms(0), flow), turn(4, 0));
    // More had come meanwhile.
    desk.written(ms(0), flow, 6);
    assert_eq!(desk.egress().stats().granted_bytes, 6);
    desk.ask(ms(6), flow, 3);
    assert_eq!(woken(&mut desk, ms(6)), "");
    assert_eq!(desk.take(ms(6), flow), turn(3, 0));
    desk.written(ms(6), flow, 1);
    desk.close(ms(6), flow);
    assert_eq!(desk.egress().stats().granted_bytes, 7);
}

#[test]
fn a_head_that_is_held_goes_with_its_body_or_by_itself_after_2_ms() {
    let mut desk = desk_of(Grants::Whole);
    let (early, late) = (open(&mut desk, 9), open(&mut desk, 9));
    desk.hold(ms(0), early, 3);
    desk.hold(ms(1), late, 3);
    desk.set_waker(early, 'E');
    desk.set_waker(late, 'L');
    assert_eq!(woken(&mut desk, ms(1)), "");
    assert_eq!(desk.next_wakeup(), Some(ms(0) + HEAD_WAIT));
    // The body has come; it waits with the head, and since the head was there.
    assert!(desk.ask(ms(1), early, 5));
    assert_eq!(woken(&mut desk, ms(1)), "");
    assert_eq!(desk.take(ms(1), early), turn(5, 1));
    assert_eq!(desk.next_wakeup(), Some(ms(1) + HEAD_WAIT), "of the other");
    assert_eq!(woken(&mut desk, ms(5)), "", "the link is busy until then");
    assert_eq!(desk.next_wakeup(), Some(ms(6)));
    assert_eq!(woken(&mut desk, ms(6)), "L");
    assert_eq!(desk.take(ms(6), late), turn(3, 5));
}

#[test]
fn a_head_goes_as_soon_as_its_time_is_over() {
    let mut desk = desk();
    let flow = open(&mut desk, 9);
    desk.set_waker(flow, 'A');
    desk.hold(ms(0), flow, 1);
    let until = ms(0) + HEAD_WAIT;
    assert_eq!(woken(&mut desk, until - Duration::from_nanos(1)), "");
    assert_eq!(woken(&mut desk, until), "A");
}

#[test]
fn a_body_that_has_come_stays_where_it_waits_when_its_heads_time_is_over() {
    let mut desk = desk();
    let flow = open(&mut desk, 9);
    desk.set_waker(flow, 'A');
    desk.debit(ms(0), 4);
    desk.hold(ms(0), flow, 1);
    assert!(desk.wait(ms(1), flow, 9));
    assert_eq!(woken(&mut desk, ms(0) + HEAD_WAIT), "");
    assert_eq!(desk.waiting().collect::<String>(), "A");
    assert_eq!(woken(&mut desk, ms(4)), "A");
    assert_eq!(desk.take(ms(4), flow), turn(1, 4));
}

#[test]
fn a_head_whose_client_has_gone_is_held_for_no_one() {
    let mut desk = desk();
    let gone = open(&mut desk, 9);
    desk.hold(ms(0), gone, 3);
    desk.set_waker(gone, 'G');
    assert_eq!(desk.next_wakeup(), Some(ms(0) + HEAD_WAIT));
    desk.close(ms(0), gone);
    assert_eq!(desk.next_wakeup(), None);
    // Whoever has the slot next is not taken for it.
    let next = open(&mut desk, 1);
    assert_eq!(next.index(), gone.index());
    assert_eq!(desk.waker(next), None);
    assert_eq!(woken(&mut desk, ms(9)), "");
    assert!(!desk.ask(ms(9), gone, 1));
    assert_eq!(desk.take(ms(9), gone), None);
    desk.close(ms(9), gone);
    assert_eq!(desk.egress().open_flows(), 1);
}

#[test]
fn a_flow_is_open_until_it_is_closed_and_its_place_may_be_anothers() {
    let mut desk = desk();
    let first = open(&mut desk, 2);
    desk.set_waker(first, 'A');
    assert!(desk.is_open(first));
    assert_eq!(desk.waker(first), Some(&'A'));
    desk.close(ms(0), first);
    assert!(!desk.is_open(first));
    assert_eq!(desk.waker(first), None);
    let second = open(&mut desk, 2);
    desk.set_waker(second, 'B');
    assert!(desk.is_open(second) && !desk.is_open(first));
    assert_eq!(desk.waker(first), None, "its place is the second's");
}

#[test]
fn another_policy_is_another_order() {
    let ends = |reconfigures: bool| {
        let mut desk = desk();
        let flows = [5, 3].map(|bytes| open(&mut desk, bytes));
        for (flow, name) in flows.into_iter().zip("AB".chars()) {
            desk.set_waker(flow, name);
            desk.wait(ms(0), flow, 1);
        }
        if reconfigures {
            desk.reconfigure(ms(0), EgressPolicy::new(Discipline::Fcfs));
        }
        woken(&mut desk, ms(0))
    };
    assert_eq!(ends(false), "B");
    assert_eq!(ends(true), "A");
}

#[test]
fn flows_are_bounded() {
    let mut desk = desk();
    for _ in 0..4 {
        open(&mut desk, 1);
    }
    let spec = FlowSpec::new(0, Size::Exact(1), plain(1, 0));
    assert!(desk.open(ms(0), spec).is_err());
}

/// A class that takes what others leave waits for those that are announced, though the
/// link is free: the desk says until when, or a driver would ask without a pause.
#[test]
fn who_waits_for_others_that_are_to_come_is_not_asked_for_before() {
    let classes = vec![
        ClassSpec::default(),
        ClassSpec {
            idle_only: true,
            ..ClassSpec::default()
        },
    ];
    let policy = EgressPolicy {
        classes,
        ..EgressPolicy::new(Discipline::Srpt)
    };
    let mut desk = Desk::new(Egress::new(Pacer::exact(8_000_000), policy));
    desk.egress_mut().announce(ms(0));
    let spec = FlowSpec::new(1, Size::Exact(9), plain(1, 0));
    let flow = desk.open(ms(0), spec).unwrap();
    desk.ask(ms(0), flow, 9);
    assert_eq!(woken(&mut desk, ms(0)), "");
    assert_eq!(desk.take(ms(0), flow), None);
    let at = desk
        .next_wakeup()
        .expect("nothing is heard of the other one day");
    assert!(at > ms(0));
    desk.set_waker(flow, 'I');
    assert_eq!(woken(&mut desk, at), "I");
}

#[test]
fn an_announcement_holds_the_idle_back_until_it_is_retracted() {
    let idle = ClassSpec {
        idle_only: true,
        ..ClassSpec::default()
    };
    let policy = EgressPolicy {
        classes: vec![ClassSpec::default(), idle],
        ..EgressPolicy::new(Discipline::Srpt)
    };
    let mut desk = Desk::new(Egress::new(Pacer::exact(8_000_000), policy));
    desk.announce(ms(0));
    let spec = FlowSpec::new(1, Size::Exact(9), plain(1, 0));
    let flow = desk.open(ms(0), spec).unwrap();
    desk.set_waker(flow, 'I');
    desk.wait(ms(0), flow, 9);
    assert_eq!(woken(&mut desk, ms(0)), "");
    desk.retract(ms(0));
    assert_eq!(woken(&mut desk, ms(0)), "I");
}

/// A desk whose flows are in SRQ's queues.
fn desk_of_queues() -> Desk<char> {
    let config = srq::Config::bytes();
    let policy = EgressPolicy::new(Discipline::Srq(Box::new(config)));
    Desk::new(Egress::new(Pacer::exact(8000), policy))
}

fn done(desk: &Desk<char>) -> u64 {
    desk.egress().queues().unwrap().0.stats().done[0]
}

#[test]
fn one_that_has_asked_for_all_is_done_when_it_has_all() {
    for (completes, takes, expected) in [(true, true, 1), (true, false, 0), (false, true, 0)] {
        let mut desk = desk_of_queues();
        let spec = FlowSpec::new(0, Size::Unknown, plain(1, 0));
        let flow = desk.open(ms(0), spec).unwrap();
        desk.ask(ms(0), flow, 1);
        if completes {
            desk.complete(flow);
        }
        assert_eq!(woken(&mut desk, ms(0)), "");
        if takes {
            assert_eq!(desk.take(ms(0), flow), turn(1, 0));
        }
        desk.close(ms(1), flow);
        assert_eq!(done(&desk), expected, "{completes} {takes}");
    }
}

#[test]
fn a_head_goes_when_its_time_is_up_and_a_body_that_has_come_waits_on() {
    let mut desk = desk_of(Grants::Whole);
    let (alone, body, busy) = (open(&mut desk, 9), open(&mut desk, 9), open(&mut desk, 8));
    desk.set_waker(alone, 'A');
    desk.hold(ms(0), alone, 3);
    assert_eq!(woken(&mut desk, ms(0) + HEAD_WAIT), "A");
    // The link is busy until 5 ms, and then for 8 more.
    desk.ask(ms(2), busy, 8);
    assert_eq!(woken(&mut desk, ms(5)), "");
    desk.set_waker(body, 'B');
    desk.hold(ms(5), body, 3);
    desk.wait(ms(6), body, 5);
    assert_eq!(woken(&mut desk, ms(7)), "");
    assert_eq!(desk.waiting().collect::<String>(), "B");
    assert_eq!(woken(&mut desk, ms(13)), "B");
    assert_eq!(desk.take(ms(13), body), turn(5, 8));
}

#[test]
fn after_a_pause_a_writer_is_as_one_that_is_new() {
    let turn_after = |pauses: bool| {
        let mut desk = desk();
        let spec = FlowSpec::new(0, Size::Unknown, plain(1, 0));
        let stream = desk.open(ms(0), spec).unwrap();
        for at in 0..9 {
            desk.ask(ms(at), stream, 1);
            assert_eq!(woken(&mut desk, ms(at)), "");
            assert_eq!(desk.take(ms(at), stream), turn(1, 0));
        }
        desk.wait(ms(9), stream, 0);
        if pauses {
            desk.pause(ms(9), stream);
        }
        let other = open(&mut desk, 5);
        for (flow, name) in [(stream, 'S'), (other, 'O')] {
            desk.set_waker(flow, name);
            desk.wait(ms(109), flow, 1);
        }
        woken(&mut desk, ms(109))
    };
    assert_eq!(turn_after(false), "O");
    assert_eq!(turn_after(true), "S");
}
