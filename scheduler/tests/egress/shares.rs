//! Who gets how much under `fair`, and within a band.

use crate::driver::{Driver, UNIT, egress, ms, plain, segments_of};
use sprat_scheduler::{
    Cutoffs, Discipline, Egress, FlowId, FlowSpec, Grant, Pacer, Size, WireCost,
};

const MANY: u64 = 1 << 40;

fn served_bytes(driver: &Driver, flow: usize) -> u64 {
    let services = driver.services.iter();
    services
        .filter(|service| service.flow == flow)
        .map(|service| service.bytes)
        .sum()
}

#[test]
fn fair_shares_are_exact() {
    let mut driver = Driver::new(Discipline::Fair, segments_of(1448));
    for _ in 0..7 {
        driver.arrive(MANY);
    }
    driver.serve(7 * 1000);
    for flow in 0..7 {
        assert_eq!(served_bytes(&driver, flow), 1000 * 1448);
    }
}

#[test]
fn shares_within_a_band_are_exact() {
    let mut driver = Driver::new(Discipline::Bands(Cutoffs::paper()), segments_of(1448));
    for _ in 0..3 {
        driver.arrive(MANY);
    }
    driver.serve(3 * 500);
    for flow in 0..3 {
        assert_eq!(served_bytes(&driver, flow), 500 * 1448);
    }
}

#[test]
fn turns_are_counted_in_bytes_not_in_grants() {
    let mut driver = Driver::new(Discipline::Fair, UNIT);
    driver.arrive_over(plain(1000, 0), 0, Size::Unknown, MANY);
    driver.arrive_over(plain(500, 0), 0, Size::Unknown, MANY);
    assert_eq!(driver.serve(9), "ABBABBABB");
    assert_eq!(served_bytes(&driver, 0), served_bytes(&driver, 1));
}

#[test]
fn turns_are_counted_on_the_wire() {
    let mut driver = Driver::new(Discipline::Fair, UNIT);
    driver.arrive_over(plain(100, 0), 0, Size::Unknown, MANY);
    driver.arrive_over(plain(100, 100), 0, Size::Unknown, MANY);
    assert_eq!(driver.serve(9), "ABAABAABA");
}

#[test]
fn a_flow_that_was_away_gets_no_turns_back() {
    let mut driver = Driver::new(Discipline::Fair, UNIT);
    driver.arrive(100);
    driver.arrive(100);
    let away = driver.arrive(100);
    assert_eq!(driver.serve(6), "ABCABC");
    driver.pause(away);
    assert_eq!(driver.serve(8), "ABABABAB");
    driver.resume(away);
    // It joins the round where it stands, and has one turn a round again.
    assert_eq!(driver.serve(7), "CABCABC");
}

#[test]
fn leaving_and_returning_at_once_changes_nothing() {
    let mut driver = Driver::new(Discipline::Fair, UNIT);
    for _ in 0..3 {
        driver.arrive(100);
    }
    for expected in "ABCABCABC".chars() {
        assert_eq!(driver.serve(1), expected.to_string());
        for flow in [2, 0, 1] {
            driver.pause(flow);
            driver.resume(flow);
        }
    }
}

#[test]
fn a_new_flow_takes_its_first_turn_in_the_round_that_is_on() {
    let mut driver = Driver::new(Discipline::Fair, UNIT);
    driver.arrive(100);
    driver.arrive(100);
    assert_eq!(driver.serve(11), "ABABABABABA");
    driver.arrive(100);
    assert_eq!(driver.serve(7), "BCABCAB");
}

fn open_ready(egress: &mut Egress, cost: WireCost) -> FlowId {
    let spec = FlowSpec::new(0, Size::Unknown, cost);
    let flow = egress.open(ms(0), spec).expect("room for another flow");
    egress.offer(ms(0), flow, MANY);
    flow
}

/// A turn of which little was used is not a whole turn.
#[test]
fn a_flow_keeps_the_part_of_its_turn_that_it_did_not_use() {
    let cost = plain(1000, 0);
    let mut egress = egress(Discipline::Fair, Pacer::exact(8_000_000));
    let first = open_ready(&mut egress, cost);
    let second = open_ready(&mut egress, cost);
    let mut served = [0u64; 2];
    for _ in 0..30 {
        let now = egress.pacer().next_grant_at();
        let Grant::Send { flow, bytes } = egress.grant(now) else {
            panic!("both are ready");
        };
        // The first never manages more than a quarter of its turn.
        let bytes = if flow == first { bytes / 4 } else { bytes };
        served[usize::from(flow == second)] += bytes;
        egress.written(now, flow, bytes);
        egress.offer(now, flow, MANY);
    }
    let [slow, fast] = served;
    assert!(slow.abs_diff(fast) <= 1000, "{served:?}");
}

/// Two turns counted in different bands mean different things: a flow that
/// has come far in one must not wait for it in another.
#[test]
fn a_flow_resized_into_another_band_joins_the_round_there() {
    let cutoffs = Cutoffs::Fixed(vec![10]);
    let mut driver = Driver::new(Discipline::Bands(cutoffs), UNIT);
    let long = driver.arrive(1000);
    driver.serve(900);
    driver.resize(long, Size::Exact(904));
    driver.arrive(4);
    assert_eq!(driver.serve(8), "ABABABAB");
}

/// And the other way: it must not go ahead of all who were there before.
#[test]
fn a_flow_resized_into_a_band_that_has_come_far_gets_no_lead() {
    let cutoffs = Cutoffs::Fixed(vec![10]);
    let mut driver = Driver::new(Discipline::Bands(cutoffs), UNIT);
    driver.arrive(1000);
    driver.arrive(1000);
    driver.serve(200);
    let grown = driver.arrive(5);
    driver.resize(grown, Size::Exact(500));
    assert_eq!(driver.serve(6), "CABCAB");
}
