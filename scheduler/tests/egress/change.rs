//! Another order for an uplink in use: exact orders before and after.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use sprat_scheduler::{ClassSpec, Discipline, Egress, EgressPolicy, FlowId, FlowSpec, Grant, Size};

use crate::driver::{egress, egress_of, levels, ms, plain};

/// Flows that send a byte each millisecond, one at a time.
struct Flows {
    egress: Egress,
    open: Vec<(FlowId, u64)>,
    now_ms: u64,
}

impl Flows {
    fn new(egress: Egress) -> Self {
        Self {
            egress,
            open: Vec::new(),
            now_ms: 0,
        }
    }

    fn open(&mut self, class: usize, bytes: u64) {
        let now = ms(self.now_ms);
        let size = Size::Exact(bytes);
        let cost = plain(1, 0);
        let spec = FlowSpec::new(class, size, cost);
        let id = self.egress.open(now, spec).unwrap();
        self.egress.offer(now, id, bytes);
        self.open.push((id, bytes));
    }

    /// Returns which flows send the next `count` bytes, by order of arrival: `A`
    /// is first. A dot is a millisecond in which none may.
    fn served(&mut self, count: usize) -> String {
        let mut order = String::new();
        while order.len() < count {
            let now = ms(self.now_ms);
            self.now_ms += 1;
            let Grant::Send { flow, bytes } = self.egress.grant(now) else {
                order.push('.');
                continue;
            };
            assert_eq!(bytes, 1);
            let at = self.open.iter().position(|&(id, _)| id == flow).unwrap();
            order.push(char::from(b'A' + at as u8));
            self.open[at].1 -= 1;
            let left = self.open[at].1;
            self.egress.written(now, flow, 1);
            match left {
                0 => self.egress.close(now, flow),
                _ => self.egress.offer(now, flow, left),
            }
        }
        order
    }

    fn change(&mut self, discipline: Discipline, classes: Vec<ClassSpec>) {
        self.change_to(discipline, classes, 1000);
    }

    /// By size, with so many flows.
    fn bound(&mut self, max_flows: usize) {
        self.change_to(Discipline::Srpt, levels(16), max_flows);
    }

    fn change_to(&mut self, discipline: Discipline, classes: Vec<ClassSpec>, max_flows: usize) {
        let change = EgressPolicy {
            max_flows,
            guard_factor: 8.0,
            classes,
            ..EgressPolicy::new(discipline)
        };
        self.egress.reconfigure(ms(self.now_ms), change);
    }
}

fn pacer() -> sprat_scheduler::Pacer {
    sprat_scheduler::Pacer::exact(8000)
}

#[test]
fn those_that_wait_take_their_place_in_the_new_order() {
    let mut flows = Flows::new(egress(Discipline::Fcfs, pacer()));
    for bytes in [4, 1, 2, 3] {
        flows.open(0, bytes);
    }
    assert_eq!(flows.served(1), "A");
    flows.change(Discipline::Srpt, levels(16));
    assert_eq!(flows.served(3), "BCC");
    flows.change(Discipline::Fair, levels(16));
    assert_eq!(flows.served(4), "ADAD");
    flows.change(Discipline::Fcfs, levels(16));
    assert_eq!(flows.served(3), "AD.");
    assert_eq!(flows.egress.open_flows(), 0);
}

#[test]
fn another_number_of_flows_may_be_open_and_those_that_are_stay() {
    let mut flows = Flows::new(egress(Discipline::Fcfs, pacer()));
    let spec = FlowSpec::new(0, Size::Exact(1), plain(1, 0));
    for bytes in [50, 5, 1] {
        flows.open(0, bytes);
    }
    flows.bound(2);
    assert_eq!(flows.served(2), "CB", "all three wait on");
    assert!(flows.egress.open(ms(2), spec).is_err(), "two are open");
    flows.bound(3);
    assert!(flows.egress.open(ms(2), spec).is_ok());
}

#[test]
fn a_class_changes_under_its_flows() {
    let mut flows = Flows::new(egress(Discipline::Fcfs, pacer()));
    flows.open(0, 2);
    flows.open(1, 2);
    assert_eq!(flows.served(1), "A");
    let mut swapped = levels(2);
    swapped.reverse();
    flows.change(Discipline::Fcfs, swapped);
    // Its classes stay: there were sixteen, and the rest are of level 0, which
    // they share.
    flows.open(15, 1);
    assert_eq!(flows.served(4), "BCBA");
    assert_eq!(flows.egress.class_stats().len(), 16);
}

#[test]
fn weights_pools_and_idle_classes_come_and_go() {
    let spec = ClassSpec::default;
    let mut flows = Flows::new(egress_of(Discipline::Fcfs, pacer(), levels(2)));
    flows.open(0, 6);
    flows.open(1, 6);
    assert_eq!(flows.served(1), "A");
    // One level, and shares of it.
    let twice = ClassSpec {
        weight: 2,
        ..spec()
    };
    flows.change(Discipline::Fcfs, vec![spec(), twice]);
    let served = flows.served(6);
    assert_eq!(served.matches('B').count(), 4, "{served}");
    // A pool with one place, which is B's: it has begun.
    let pool = ClassSpec {
        max_concurrency: 1,
        ..spec()
    };
    flows.change(Discipline::Fcfs, vec![spec(), pool]);
    flows.open(1, 1);
    let served = flows.served(6);
    assert_eq!(served.replace('A', ""), "BBC");
    assert_eq!(flows.egress.open_flows(), 0);
}

#[test]
fn who_has_begun_keeps_the_place_in_its_pool() {
    let pool = |places| ClassSpec {
        max_concurrency: places,
        ..ClassSpec::default()
    };
    let mut flows = Flows::new(egress_of(Discipline::Srpt, pacer(), vec![pool(2)]));
    flows.open(0, 5);
    flows.open(0, 4);
    assert_eq!(flows.served(1), "B");
    flows.change(Discipline::Fcfs, vec![pool(2)]);
    assert_eq!(flows.served(1), "A");
    // Both have begun: a smaller one does not begin beside them, though they
    // are one more than may be by now.
    flows.change(Discipline::Srpt, vec![pool(1)]);
    flows.open(0, 1);
    assert_eq!(flows.served(8), "BBBAAAAC");
    assert_eq!(flows.egress.open_flows(), 0);
}

#[test]
fn a_class_owes_its_rate_what_it_owed() {
    let rated = |rate| ClassSpec {
        rate_bits_per_s: Some(rate),
        ..ClassSpec::default()
    };
    // A tenth of the link's: one byte each ten milliseconds.
    let mut flows = Flows::new(egress_of(Discipline::Fcfs, pacer(), vec![rated(800)]));
    flows.open(0, 9);
    assert_eq!(flows.served(2), "A.");
    flows.change(Discipline::Srpt, vec![rated(800)]);
    assert_eq!(flows.served(9), "........A");
}

#[test]
fn what_was_announced_is_waited_for_by_what_becomes_idle_only() {
    let mut flows = Flows::new(egress_of(Discipline::Fcfs, pacer(), levels(2)));
    flows.egress.announce(ms(0));
    let idle_only = ClassSpec {
        idle_only: true,
        ..ClassSpec::default()
    };
    flows.change(Discipline::Fcfs, vec![ClassSpec::default(), idle_only]);
    flows.open(1, 3);
    assert_eq!(flows.served(2), "..");
    flows.egress.retract();
    assert_eq!(flows.served(1), "A");
    // Nothing is left of it when the class is like others again.
    flows.egress.announce(ms(3));
    flows.change(Discipline::Fcfs, levels(2));
    assert_eq!(flows.served(2), "AA");
}

#[test]
fn what_was_debited_is_still_on_the_link() {
    let mut flows = Flows::new(egress(Discipline::Srpt, pacer()));
    flows.egress.debit(ms(0), 3);
    flows.change(Discipline::Fcfs, levels(16));
    flows.open(0, 1);
    assert_eq!(flows.served(4), "...A");
}
