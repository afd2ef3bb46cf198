//! Drivers that cannot cut what they have to write: grants cover all of it, and what is
//! written beyond a grant is charged afterwards.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use sprat_scheduler::{
    Discipline, Egress, EgressPolicy, FlowId, FlowSpec, Grant, Grants, Pacer, Size, WireCost,
};

use crate::driver::ms;

const MBIT: u64 = 1_000_000;

fn egress(grants: Grants) -> Egress {
    let policy = EgressPolicy {
        grants,
        ..EgressPolicy::new(Discipline::Srpt)
    };
    Egress::new(Pacer::exact(10 * MBIT), policy)
}

fn spec(bytes: u64) -> FlowSpec {
    FlowSpec::new(0, Size::Exact(bytes), WireCost::ETHERNET_IPV4)
}

fn next(egress: &mut Egress, at_ms: u64) -> FlowId {
    match egress.grant(ms(at_ms)) {
        Grant::Send { flow, .. } => flow,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_whole_chunk_is_granted_and_debited_at_once() {
    let mut egress = egress(Grants::Whole);
    let flow = egress.open(ms(0), spec(4096)).unwrap();
    egress.offer(ms(0), flow, 4096);
    assert_eq!(egress.grant(ms(0)), Grant::Send { flow, bytes: 4096 });
    let wire_bytes = WireCost::ETHERNET_IPV4.bytes(4096);
    assert_eq!(egress.stats().wire_bytes, wire_bytes);
    assert_eq!(egress.stats().granted_bytes, 4096);
    let until = ms(0) + egress.pacer().time_for(wire_bytes);
    assert_eq!(egress.pacer().next_grant_at(), until);
    // What the client left without is given back.
    egress.close(ms(0), flow);
    assert_eq!(egress.stats().wire_bytes, 0);
    assert_eq!(egress.stats().granted_bytes, 0);
    assert_eq!(egress.class_stats()[0].granted_bytes, 0);
}

#[test]
fn what_is_written_beyond_a_grant_is_charged_as_a_larger_grant_would_have_been() {
    let (mut whole, mut parts) = (egress(Grants::Whole), egress(Grants::Quanta));
    for egress in [&mut whole, &mut parts] {
        let flow = egress.open(ms(0), spec(9000)).unwrap();
        egress.offer(ms(0), flow, 4096);
        assert_eq!(next(egress, 0), flow);
        egress.written(ms(0), flow, 4096);
        // And under no grant at all.
        egress.written(ms(0), flow, 4096);
    }
    assert_eq!(whole.stats(), parts.stats());
    assert_eq!(whole.class_stats(), parts.class_stats());
    assert_eq!(whole.stats().granted_bytes, 8192);
    assert_eq!(whole.unsent_bytes(), 9000 - 8192);
    let free_at = whole.pacer().next_grant_at();
    assert_eq!(free_at, parts.pacer().next_grant_at());
    assert!(free_at > ms(6));
}

#[test]
fn what_was_written_whole_counts_as_attained() {
    let mut egress = egress(Grants::Quanta);
    let large = egress.open(ms(0), spec(10_000)).unwrap();
    egress.offer(ms(0), large, 9_000);
    assert_eq!(next(&mut egress, 0), large);
    egress.written(ms(0), large, 9_000);
    // 1,000 left against 2,000: the large one has become the smaller.
    let small = egress.open(ms(0), spec(2_000)).unwrap();
    egress.offer(ms(0), small, 2_000);
    egress.offer(ms(0), large, 1_000);
    assert_eq!(next(&mut egress, 100), large);
}

#[test]
fn a_class_with_a_rate_waits_for_what_was_written_beyond_a_grant() {
    let class = sprat_scheduler::ClassSpec {
        rate_bits_per_s: Some(MBIT),
        ..sprat_scheduler::ClassSpec::default()
    };
    let policy = EgressPolicy {
        classes: vec![class],
        ..EgressPolicy::new(Discipline::Srpt)
    };
    let mut egress = Egress::new(Pacer::exact(10 * MBIT), policy);
    let flow = egress.open(ms(0), spec(100_000)).unwrap();
    egress.offer(ms(0), flow, 12_500);
    assert_eq!(next(&mut egress, 0), flow);
    egress.written(ms(0), flow, 12_500);
    egress.offer(ms(0), flow, 12_500);
    assert!(matches!(egress.grant(ms(99)), Grant::Wait { until } if until > ms(100)));
}

#[test]
fn what_a_flow_that_is_gone_has_written_is_nothing() {
    let mut egress = egress(Grants::Quanta);
    let flow = egress.open(ms(0), spec(10)).unwrap();
    egress.close(ms(0), flow);
    egress.written(ms(0), flow, 10_000);
    assert_eq!(egress.stats().wire_bytes, 0);
}
