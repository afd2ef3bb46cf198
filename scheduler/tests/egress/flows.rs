//! The life of a flow: identifiers, capacity, refunds, what is learnt.

use crate::driver::{egress, ms, plain};
use sprat_scheduler::{
    AtCapacity, Cutoffs, Discipline, Egress, EgressPolicy, EgressStats, FlowId, FlowSpec, Grant,
    Pacer, Size, WireCost,
};

const MBIT: u64 = 1_000_000;

fn spec(size: Size) -> FlowSpec {
    FlowSpec::new(0, size, WireCost::ETHERNET_IPV4)
}

fn granted(egress: &mut Egress) -> (FlowId, u64) {
    let now = egress.pacer().next_grant_at();
    match egress.grant(now) {
        Grant::Send { flow, bytes } => (flow, bytes),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_flow_is_granted_at_most_what_is_ready() {
    let mut egress = egress(Discipline::Srpt, Pacer::exact(10 * MBIT));
    let flow = egress.open(ms(0), spec(Size::Exact(5000))).unwrap();
    assert_eq!(egress.grant(ms(0)), Grant::Idle, "nothing is ready");
    egress.offer(ms(0), flow, 10);
    egress.offer(ms(0), flow, 700);
    assert_eq!(granted(&mut egress), (flow, 700), "said again, not added");
    assert_eq!(egress.grant(ms(100)), Grant::Idle, "it has left the queue");
}

#[test]
fn a_flow_with_nothing_ready_is_passed_over() {
    let mut egress = egress(Discipline::Srpt, Pacer::exact(10 * MBIT));
    let small = egress.open(ms(0), spec(Size::Exact(10))).unwrap();
    let large = egress.open(ms(0), spec(Size::Exact(1000))).unwrap();
    egress.offer(ms(0), small, 10);
    egress.offer(ms(0), large, 1000);
    egress.offer(ms(0), small, 0);
    assert_eq!(egress.waiting_flows(), 1);
    assert_eq!(granted(&mut egress), (large, 1000));
}

#[test]
fn an_offer_tells_that_what_was_granted_is_written() {
    let mut egress = egress(Discipline::Srpt, Pacer::exact(10 * MBIT));
    let flow = egress.open(ms(0), spec(Size::Exact(3000))).unwrap();
    let other = egress.open(ms(0), spec(Size::Exact(2000))).unwrap();
    egress.offer(ms(0), flow, 3000);
    assert_eq!(granted(&mut egress), (flow, 1448));
    // With 1552 left it goes before the other, which has 2000.
    egress.offer(ms(0), other, 2000);
    egress.offer(ms(0), flow, 1552);
    assert_eq!(granted(&mut egress), (flow, 1448));
    egress.written(ms(0), flow, 1448);
    egress.written(ms(0), flow, 0);
    assert_eq!(egress.stats().granted_bytes, 2 * 1448, "told once");
}

#[test]
fn what_was_not_sent_is_refunded() {
    let mut egress = egress(Discipline::Srpt, Pacer::exact(8 * MBIT));
    let flow = egress.open(ms(0), spec(Size::Exact(9000))).unwrap();
    egress.offer(ms(0), flow, 9000);
    assert_eq!(granted(&mut egress), (flow, 1448));
    assert_eq!(egress.pacer().backlog(ms(0)), 1514);
    egress.written(ms(0), flow, 100);
    assert_eq!(egress.pacer().backlog(ms(0)), 166);
    assert_eq!(egress.stats().granted_bytes, 100);
}

#[test]
fn closing_refunds_and_leaves_the_queue() {
    let mut egress = egress(Discipline::Srpt, Pacer::exact(8 * MBIT));
    let flow = egress.open(ms(0), spec(Size::Exact(9000))).unwrap();
    let waiting = egress.open(ms(0), spec(Size::Exact(9000))).unwrap();
    egress.offer(ms(0), flow, 9000);
    assert_eq!(granted(&mut egress), (flow, 1448));
    egress.offer(ms(0), waiting, 9000);
    egress.close(ms(0), flow);
    egress.close(ms(0), waiting);
    assert_eq!(egress.pacer().backlog(ms(0)), 0);
    assert_eq!((egress.open_flows(), egress.waiting_flows()), (0, 0));
    assert_eq!(egress.grant(ms(0)), Grant::Idle);
    let expected = EgressStats {
        grants: 1,
        ..EgressStats::default()
    };
    assert_eq!(egress.stats(), expected);
}

/// A refund after the link has idled does not let more than its rate out.
#[test]
fn a_late_refund_is_no_credit() {
    let mut egress = egress(Discipline::Srpt, Pacer::exact(8 * MBIT));
    let flow = egress.open(ms(0), spec(Size::Exact(90_000))).unwrap();
    egress.offer(ms(0), flow, 90_000);
    egress.grant(ms(0));
    egress.written(ms(1000), flow, 0);
    egress.offer(ms(1000), flow, 90_000);
    assert!(matches!(egress.grant(ms(1000)), Grant::Send { .. }));
    egress.offer(ms(1000), flow, 90_000);
    let until = egress.pacer().next_grant_at();
    assert_eq!(until.since(ms(1000)).as_micros(), 1514);
    assert_eq!(egress.grant(ms(1000)), Grant::Wait { until });
}

#[test]
fn identifiers_of_closed_flows_do_nothing() {
    let mut egress = egress(Discipline::Srpt, Pacer::exact(8 * MBIT));
    let stale = egress.open(ms(0), spec(Size::Exact(10))).unwrap();
    egress.close(ms(0), stale);
    let flow = egress.open(ms(0), spec(Size::Exact(5000))).unwrap();
    assert_eq!(flow.index(), stale.index(), "the place is used again");
    assert_ne!(flow, stale);

    egress.offer(ms(0), stale, 10);
    assert_eq!(egress.waiting_flows(), 0);
    egress.offer(ms(0), flow, 5000);
    egress.offer(ms(0), stale, 0);
    assert_eq!(egress.waiting_flows(), 1);
    assert_eq!(granted(&mut egress), (flow, 1448));
    egress.written(ms(0), stale, 0);
    assert_eq!(egress.stats().granted_bytes, 1448, "not refunded");
    egress.resize(ms(0), stale, Size::Exact(1));
    egress.close(ms(0), stale);
    assert_eq!(egress.open_flows(), 1);
    egress.written(ms(0), flow, 1448);
    egress.offer(ms(0), flow, 3552);
    assert_eq!(granted(&mut egress), (flow, 1448));
}

#[test]
fn flows_are_bounded() {
    let mut egress = Egress::new(
        Pacer::exact(8 * MBIT),
        EgressPolicy {
            max_flows: 2,
            guard_factor: 8.0,
            ..EgressPolicy::new(Discipline::Srpt)
        },
    );
    let first = egress.open(ms(0), spec(Size::Unknown)).unwrap();
    let second = egress.open(ms(0), spec(Size::Unknown)).unwrap();
    let full = egress.open(ms(0), spec(Size::Unknown)).unwrap_err();
    assert_eq!(full, AtCapacity { max_flows: 2 });
    assert_eq!(
        full.to_string(),
        "2 flows are open, as many as `max_flows` allows"
    );
    egress.close(ms(0), first);
    let third = egress.open(ms(0), spec(Size::Unknown)).unwrap();
    assert_ne!(third.index(), second.index());
    assert!(third.index() < 2);
}

#[test]
fn cutoffs_are_learnt_from_what_passes() {
    let learnt = || {
        egress(
            Discipline::Bands(Cutoffs::Learnt { classes: 2 }),
            Pacer::exact(8 * MBIT),
        )
    };
    let close_after = |egress: &mut Egress, size: Size, sent: u64| {
        let flow = egress.open(ms(0), spec(size)).unwrap();
        if sent > 0 {
            egress.offer(ms(0), flow, sent);
            granted(egress);
            egress.written(ms(0), flow, sent);
        }
        egress.close(ms(0), flow);
    };
    let paper = [1024, 2048, 5120, 20480, 51200];

    let mut by_size = learnt();
    for _ in 0..511 {
        close_after(&mut by_size, Size::Exact(100_000), 0);
    }
    assert_eq!(by_size.cutoffs(), paper);
    // Clients that leave before anything was sent say nothing of sizes.
    for _ in 0..1000 {
        close_after(&mut by_size, Size::Unknown, 0);
    }
    assert_eq!(by_size.cutoffs(), paper);
    close_after(&mut by_size, Size::Exact(100_000), 0);
    assert_eq!(by_size.cutoffs().len(), 1);
    assert!((100_000..113_000).contains(&by_size.cutoffs()[0]));

    let mut by_bytes = learnt();
    for _ in 0..512 {
        close_after(&mut by_bytes, Size::Unknown, 1000);
    }
    assert_eq!(by_bytes.cutoffs().len(), 1);
    assert!((1000..1130).contains(&by_bytes.cutoffs()[0]));

    // An exact size is counted when it becomes known, and once.
    let mut by_head = learnt();
    for _ in 0..511 {
        let flow = by_head.open(ms(0), spec(Size::Unknown)).unwrap();
        by_head.resize(ms(0), flow, Size::Exact(5000));
        by_head.resize(ms(0), flow, Size::Exact(5001));
        by_head.close(ms(0), flow);
    }
    assert_eq!(by_head.cutoffs(), paper);
}

/// More cutoffs than classes, in no order: they are put right, nothing panics.
#[test]
fn any_cutoffs_are_accepted() {
    for cutoffs in [vec![], vec![0], vec![u64::MAX], (0..1000).rev().collect()] {
        let bands = Discipline::Bands(Cutoffs::Fixed(cutoffs));
        let mut egress = egress(bands, Pacer::exact(8 * MBIT));
        let spec = FlowSpec::new(255, Size::Exact(2000), plain(0, 0));
        let flow = egress.open(ms(0), spec).unwrap();
        egress.offer(ms(0), flow, 2000);
        assert_eq!(granted(&mut egress).0, flow);
        assert!(egress.cutoffs().len() <= 15);
        assert!(egress.cutoffs().is_sorted());
    }
}
