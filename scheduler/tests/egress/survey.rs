//! What a look at the open flows finds: which, in which order, and what it says of each.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use sprat_scheduler::{
    Discipline, Egress, FlowId, FlowSpec, FlowState, Grant, Lane, Pacer, Size, Survey, SurveyedFlow,
};

use crate::driver::{disciplines, egress, ms, plain};

/// A link that carries a byte a millisecond, one a grant.
fn unit(discipline: Discipline) -> Egress {
    egress(discipline, Pacer::exact(8000))
}

fn spec(class: usize, size: Size) -> FlowSpec {
    FlowSpec::new(class, size, plain(1, 0))
}

fn open(egress: &mut Egress, class: usize, size: Size) -> FlowId {
    egress.open(ms(0), spec(class, size)).unwrap()
}

/// All of it, and in how many pieces.
fn look(egress: &Egress, now_ms: u64, most: usize) -> (Vec<SurveyedFlow>, usize) {
    let (mut survey, mut pieces) = (Survey::new(most), 1);
    while egress.survey(ms(now_ms), &mut survey) {
        pieces += 1;
    }
    (survey.finish(), pieces)
}

fn numbers(egress: &Egress, most: usize) -> Vec<u64> {
    let (flows, _) = look(egress, 0, most);
    flows.iter().map(|flow| flow.number).collect()
}

const ESTIMATE: Size = Size::Estimate {
    bytes: 2,
    confidence: 0.5,
};

#[test]
fn each_flow_is_told_of_as_it_is() {
    let mut egress = unit(Discipline::Srpt);
    let sending = spec(0, Size::Exact(3)).of_origin(7);
    let sending = egress.open(ms(0), sending).unwrap();
    let waiting = open(&mut egress, 1, ESTIMATE);
    let idle = open(&mut egress, 1, Size::Unknown);
    egress.offer(ms(0), sending, 3);
    assert!(matches!(egress.grant(ms(0)), Grant::Send { bytes: 1, .. }));
    egress.offer(ms(0), waiting, 2);
    let (flows, pieces) = look(&egress, 0, 9);
    assert_eq!(pieces, 1);
    let known = |flow: &SurveyedFlow| {
        let (sent, left) = (flow.sent_bytes, flow.left_bytes);
        (flow.state, flow.class, flow.origin, sent, left)
    };
    use FlowState::{Idle, Sending, Waiting};
    let expected = [
        (Sending, 0, 7, 1, Some(2)),
        (Waiting, 1, 0, 0, Some(2)),
        (Idle, 1, 0, 0, None),
    ];
    assert_eq!(flows.iter().map(known).collect::<Vec<_>>(), expected);
    let since = flows.iter().map(|flow| flow.waits_since);
    assert_eq!(since.collect::<Vec<_>>(), [None, Some(ms(0)), None]);
    let sizes = flows.iter().map(|flow| flow.size);
    let expected = [Size::Exact(3), ESTIMATE, Size::Unknown];
    assert_eq!(sizes.collect::<Vec<_>>(), expected);
    // It has more, and the link is busy with what it was granted.
    egress.offer(ms(0), sending, 2);
    assert_eq!(look(&egress, 0, 9).0[0].state, Sending);
    egress.offer(ms(0), sending, 0);
    // That has left, and it waits again later.
    let (flows, _) = look(&egress, 1, 9);
    assert_eq!((flows[1].number, flows[1].state), (0, Idle));
    egress.offer(ms(2), sending, 2);
    let (flows, _) = look(&egress, 2, 9);
    assert_eq!((flows[0].number, flows[0].waits_since), (0, Some(ms(2))));
    for gone in [sending, waiting, idle] {
        egress.close(ms(3), gone);
    }
    assert_eq!(look(&egress, 3, 9).0, []);
}

#[test]
fn what_outgrows_its_estimate_has_an_unknown_rest() {
    let mut egress = unit(Discipline::Srpt);
    let flow = open(&mut egress, 0, ESTIMATE);
    for (at, left) in [(0, Some(1)), (1, None), (2, None)] {
        egress.offer(ms(at), flow, 1);
        assert!(matches!(egress.grant(ms(at)), Grant::Send { .. }));
        let (flows, _) = look(&egress, at, 1);
        let seen = (flows[0].sent_bytes, flows[0].left_bytes);
        assert_eq!(seen, (at + 1, left));
    }
    // What is known exactly is told exactly.
    egress.resize(ms(3), flow, Size::Exact(3));
    assert_eq!(look(&egress, 3, 1).0[0].left_bytes, Some(0));
}

/// Grants come in the order of the list, whatever the discipline, one flow at a time.
#[test]
fn those_who_wait_stand_in_the_order_of_their_turns() {
    for discipline in disciplines() {
        let mut egress = unit(discipline.clone());
        for (class, bytes) in [(1, 1), (0, 9), (0, 2), (2, 1), (0, 5)] {
            let flow = open(&mut egress, class, Size::Exact(bytes));
            egress.offer(ms(0), flow, bytes);
        }
        let head = spec(2, Size::Exact(4)).in_lane(Lane::Express);
        let head = egress.open(ms(0), head).unwrap();
        egress.offer(ms(0), head, 4);
        for at in 0..6 {
            let next = numbers(&egress, 6)[0];
            let Grant::Send { flow, .. } = egress.grant(ms(at)) else {
                panic!("{discipline:?}: the link is free");
            };
            let (flows, _) = look(&egress, at, 1);
            assert_eq!(flows[0].number, next, "{discipline:?} at {at} ms");
            assert_eq!(flows[0].state, FlowState::Sending);
            egress.close(ms(at), flow);
        }
    }
}

#[test]
fn the_first_are_kept_of_many() {
    let mut egress = unit(Discipline::Srpt);
    for number in 0..500 {
        // 7 and 500 have no common factor: every size is there once.
        let flow = open(&mut egress, 0, Size::Exact(1 + number * 7 % 500));
        egress.offer(ms(0), flow, 1);
    }
    let all = numbers(&egress, 1000);
    assert_eq!(all.len(), 500);
    for most in [0, 1, 2, 3, 200, 499, 500] {
        assert_eq!(numbers(&egress, most), all[..most], "{most}");
    }
}

/// A look holds its driver's lock for so many at a time.
#[test]
fn many_are_looked_at_in_pieces_each_once() {
    let mut egress = Egress::new(
        Pacer::exact(8000),
        sprat_scheduler::EgressPolicy::new(Discipline::Fcfs),
    );
    let flows: Vec<_> = (0..10_000)
        .map(|_| open(&mut egress, 0, Size::Unknown))
        .collect();
    let (found, pieces) = look(&egress, 0, 20_000);
    assert_eq!((found.len(), pieces), (10_000, 3));
    let mut numbers: Vec<_> = found.iter().map(|flow| flow.number).collect();
    numbers.dedup();
    assert_eq!(numbers, (0..10_000).collect::<Vec<_>>());
    // The last alone is left, in a slot far behind.
    for &flow in &flows[..9_999] {
        egress.close(ms(0), flow);
    }
    let (found, pieces) = look(&egress, 0, 200);
    assert_eq!((found.len(), found[0].number, pieces), (1, 9_999, 3));
}
