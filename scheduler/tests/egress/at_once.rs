//! Responses that are served at once, without a flow.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::time::Duration;

use proptest::prelude::*;
use sprat_scheduler::{
    ClassSpec, Discipline, Egress, EgressPolicy, FlowId, FlowSpec, Grant, Lane, Pacer, Size, Time,
    WireCost,
};

use crate::driver::{disciplines, levels, ms, set_floor, share};

/// The cost on the wire; a grant is two segments of 110 bytes at most.
const COST: WireCost = WireCost {
    mss: 100,
    segment_overhead: 10,
    connection_overhead: 0,
    record_overhead: 0,
};

/// An uplink on which a byte takes a microsecond.
fn egress(discipline: Discipline, classes: Vec<ClassSpec>) -> Egress {
    let policy = EgressPolicy {
        max_flows: 100,
        classes,
        ..EgressPolicy::new(discipline)
    };
    Egress::new(Pacer::exact(8_000_000), policy)
}

fn spec(class: usize, bytes: u64) -> FlowSpec {
    FlowSpec::new(class, Size::Exact(bytes), COST)
}

/// An uplink and what it has served: when, which of the responses, and how much of it.
struct Link {
    egress: Egress,
    /// Whether responses are served at once where they may be.
    tries: bool,
    flows: Vec<(FlowId, usize, u64)>,
    served: Vec<(Time, usize, u64)>,
    at_once: usize,
}

impl Link {
    fn new(egress: &Egress, tries: bool) -> Self {
        Self {
            egress: egress.clone(),
            tries,
            flows: Vec::new(),
            served: Vec::new(),
            at_once: 0,
        }
    }

    fn arrive(&mut self, now: Time, number: usize, class: usize, bytes: u64) {
        let spec = spec(class, bytes);
        if self.tries && self.egress.serve_at_once(now, &spec, bytes) {
            self.served.push((now, number, bytes));
            self.at_once += 1;
            return;
        }
        let flow = self.egress.open(now, spec).unwrap();
        self.egress.offer(now, flow, bytes);
        self.flows.push((flow, number, bytes));
    }

    fn run(&mut self, mut now: Time, end: Time) {
        loop {
            match self.egress.grant(now) {
                Grant::Send { flow, bytes } => self.write(now, flow, bytes),
                Grant::Wait { until } if until <= end => now = until,
                Grant::Wait { .. } | Grant::Idle => return,
            }
        }
    }

    fn write(&mut self, now: Time, flow: FlowId, bytes: u64) {
        let index = self.flows.iter().position(|own| own.0 == flow).unwrap();
        let (_, number, left) = &mut self.flows[index];
        *left -= bytes;
        self.served.push((now, *number, bytes));
        self.egress.written(now, flow, bytes);
        if *left > 0 {
            self.egress.offer(now, flow, *left);
        } else {
            self.egress.complete(flow);
            self.egress.close(now, flow);
            self.flows.swap_remove(index);
        }
    }

    fn sums(&self) -> String {
        let stats = (self.egress.stats(), self.egress.class_stats());
        format!("{stats:?} {:?}", self.egress.pacer().free_at())
    }
}

/// Plays responses that come so many microseconds apart, in a class and of a size, on a link
/// that serves what it can at once, and on one that does not.
fn both(egress: &Egress, arrivals: &[(u64, usize, u64)]) -> [Link; 2] {
    [true, false].map(|tries| {
        let mut link = Link::new(egress, tries);
        let mut now = Time::ZERO;
        for (number, &(us, class, bytes)) in arrivals.iter().enumerate() {
            let then = now + Duration::from_micros(us);
            link.run(now, then);
            now = then;
            link.arrive(now, number, class, bytes);
            link.run(now, now);
        }
        link.run(now, now + Duration::from_secs(1000));
        link
    })
}

#[test]
fn what_is_small_goes_at_once_on_a_free_link() {
    let mut egress = egress(Discipline::Srpt, levels(2));
    assert!(egress.serve_at_once(ms(0), &spec(1, 200), 200));
    let stats = egress.stats();
    assert_eq!(
        (stats.grants, stats.granted_bytes, stats.wire_bytes),
        (1, 200, 220)
    );
    let class = egress.class_stats()[1];
    assert_eq!(
        (class.opened, class.open_flows, class.granted_bytes),
        (1, 0, 200)
    );
    assert!(
        !egress.serve_at_once(ms(0), &spec(0, 1), 1),
        "it is not free"
    );
    assert!(egress.serve_at_once(ms(1), &spec(0, 1), 1));
}

#[test]
fn what_needs_a_flow_is_not_served_at_once() {
    let fresh = || egress(Discipline::Srpt, levels(2));
    let refused = |mut egress: Egress, spec: FlowSpec, bytes: u64| {
        let before = egress.stats();
        assert!(!egress.serve_at_once(ms(1000), &spec, bytes), "{spec:?}");
        assert_eq!(egress.stats(), before);
    };
    refused(fresh(), spec(0, 201), 201);
    refused(fresh(), spec(0, 0), 0);
    refused(fresh(), spec(0, 1).in_lane(Lane::Express), 1);
    refused(fresh(), FlowSpec::new(0, Size::Unknown, COST), 1);
    let mut shared = fresh();
    share(&mut shared, ms(0), true);
    refused(shared, spec(0, 1), 1);
    let mut waited_for = fresh();
    let flow = waited_for.open(ms(0), spec(0, 900)).unwrap();
    waited_for.offer(ms(0), flow, 900);
    refused(waited_for, spec(0, 1), 1);
    let weight = |weight| ClassSpec {
        weight,
        ..ClassSpec::default()
    };
    let weighted = egress(Discipline::Srpt, vec![weight(1), weight(2)]);
    refused(weighted, spec(0, 1), 1);
    let none = EgressPolicy {
        max_flows: 0,
        ..EgressPolicy::new(Discipline::Srpt)
    };
    refused(Egress::new(Pacer::exact(8_000_000), none), spec(0, 1), 1);
}

#[test]
fn disciplines_that_keep_an_account_of_flows_serve_none_at_once() {
    for discipline in disciplines() {
        let by_flows = matches!(
            discipline,
            Discipline::Edf | Discipline::Vrd | Discipline::Srq(_) | Discipline::Sfd(_)
        );
        let mut egress = egress(discipline.clone(), levels(1));
        let is_served = egress.serve_at_once(ms(0), &spec(0, 1), 1);
        assert_eq!(is_served, !by_flows, "{discipline:?}");
    }
}

proptest! {
    /// Whatever comes, each is served when it would be, and so are all others.
    #[test]
    fn what_is_served_at_once_changes_nothing_for_others(
        arrivals in prop::collection::vec((0_u64..900, 0_usize..3, 1_u64..900), 1..60),
        floor in 0_u8..50,
    ) {
        for discipline in disciplines() {
            let takes_turns = matches!(discipline, Discipline::Fair | Discipline::Bands(_));
            let mut egress = egress(discipline, levels(3));
            set_floor(&mut egress, ms(0), floor);
            let [tries, other] = both(&egress, &arrivals);
            prop_assert_eq!(tries.sums(), other.sums());
            prop_assert_eq!(tries.served.len(), other.served.len());
            if !takes_turns {
                prop_assert_eq!(tries.served, other.served);
            }
        }
    }
}

#[test]
fn under_little_load_most_are_served_at_once() {
    let arrivals: Vec<_> = (0..100)
        .map(|number| (200 + number % 7 * 100, 0, 90))
        .collect();
    let [tries, other] = both(&egress(Discipline::Srpt, levels(1)), &arrivals);
    assert_eq!((tries.at_once, other.at_once), (100, 0));
    assert_eq!(tries.served, other.served);
}

#[test]
fn what_a_lower_level_had_at_once_is_part_of_its_floor() {
    let mut egress = egress(Discipline::Srpt, levels(2));
    set_floor(&mut egress, ms(0), 10);
    // The lower level has a response in each 20 ms of a second, and then one that waits for
    // the floor, behind one of 3 s.
    let mut arrivals = vec![(20_000, 1, 200); 50];
    arrivals.extend([(20_000, 0, 3_000_000), (0, 1, 100_000)]);
    let [tries, other] = both(&egress, &arrivals);
    assert_eq!((tries.at_once, other.at_once), (50, 0));
    assert_eq!(tries.served, other.served);
}
