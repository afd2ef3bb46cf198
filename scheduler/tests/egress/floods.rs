//! Floods of what goes ahead of all flows (TOCS03 2.2.3): they starve no one,
//! whatever they were like before.

use std::time::Duration;

use proptest::prelude::*;
use sprat_scheduler::{
    ClassSpec, Discipline, Egress, FlowId, FlowSpec, Grant, Lane, Pacer, Size, Time, WireCost,
};

use crate::driver::{disciplines, egress, egress_of, levels, ms, plain, seconds_of_calm};

const COST: WireCost = WireCost::ETHERNET_IPV4;

/// Payload of a response without a body: 316 bytes on the wire.
const HEAD_BYTES: u64 = 250;

fn spec(bytes: u64) -> FlowSpec {
    FlowSpec::new(0, Size::Exact(bytes), COST)
}

/// Requests for heads on kept connections, so many a second, and one response
/// with a body.
struct Flood {
    egress: Egress,
    now: Time,
    interval: Duration,
    next: Time,
    /// Heads that wait, which is how many connections there are at most.
    waiting: usize,
    body: Option<(FlowId, u64)>,
    /// Who sent: `h` a head at once, `L` one that had waited, `B` the body.
    order: String,
}

impl Flood {
    fn new(discipline: Discipline, heads_per_s: u32) -> Self {
        Self {
            egress: egress(discipline, Pacer::exact(1_000_000)),
            now: Time::ZERO,
            interval: Duration::from_secs(1) / heads_per_s,
            next: Time::ZERO,
            waiting: 0,
            body: None,
            order: String::new(),
        }
    }

    /// Goes to the next event: a request, or a grant that is due.
    fn step(&mut self) {
        let due = self.egress.next_wakeup().map(|due| due.max(self.now));
        match due {
            Some(due) if due < self.next => {
                self.now = due;
                self.grant();
            }
            _ => {
                self.now = self.next;
                self.next = self.next + self.interval;
                self.ask();
            }
        }
    }

    fn ask(&mut self) {
        if self.waiting == 64 {
            return;
        }
        if self.egress.fast_path(self.now, COST.bytes(HEAD_BYTES)) {
            self.order.push('h');
            return;
        }
        let flow = self
            .egress
            .open(self.now, spec(HEAD_BYTES).in_lane(Lane::Express));
        let flow = flow.expect("there is room for 64");
        self.egress.offer(self.now, flow, HEAD_BYTES);
        self.waiting += 1;
    }

    fn grant(&mut self) {
        let Grant::Send { flow, bytes } = self.egress.grant(self.now) else {
            panic!("a grant is due");
        };
        self.egress.written(self.now, flow, bytes);
        match &mut self.body {
            Some((body, left)) if *body == flow => {
                self.order.push('B');
                *left -= bytes;
                self.egress.offer(self.now, flow, *left);
                if *left == 0 {
                    self.egress.close(self.now, flow);
                    self.body = None;
                }
            }
            _ => {
                self.order.push('L');
                self.waiting -= 1;
                self.egress.close(self.now, flow);
            }
        }
    }

    fn run_until(&mut self, end: Time) {
        while self.next <= end {
            self.step();
        }
    }

    /// What is sent while a response of `bytes` is, and how long it takes.
    fn beside(&mut self, bytes: u64) -> (String, Duration) {
        let flow = self.egress.open(self.now, spec(bytes));
        let flow = flow.expect("there is room for one more");
        self.egress.offer(self.now, flow, bytes);
        self.body = Some((flow, bytes));
        self.order.clear();
        let begun = self.now;
        while self.body.is_some() {
            self.step();
        }
        let took = self.egress.pacer().next_grant_at().since(begun);
        (std::mem::take(&mut self.order), took)
    }
}

/// 650 heads a second are 1.6 times what 1 Mbit/s carries. They have come for
/// so long that they are the average; a response of 5 kB has its half.
#[test]
fn a_flood_above_the_links_rate_leaves_half_of_it_under_every_discipline() {
    for discipline in disciplines() {
        let mut flood = Flood::new(discipline.clone(), 650);
        flood.run_until(ms(100_000));
        let trips = flood.egress.stats().guard_trips;
        let (order, took) = flood.beside(5_000);
        assert_eq!(order, "BLLLLBLLLLLBLLLLLB", "{discipline:?}");
        assert!(took < Duration::from_millis(100), "{took:?}");
        assert_eq!(flood.egress.stats().guard_trips, trips, "it is normal");
    }
}

/// And so it has while the guard has tripped.
#[test]
fn a_sudden_flood_leaves_half_of_the_link_too() {
    let mut flood = Flood::new(Discipline::Srpt, 6_500);
    flood.next = seconds_of_calm(&mut flood.egress);
    flood.run_until(flood.next + Duration::from_millis(300));
    assert_eq!(flood.egress.stats().guard_trips, 1);
    let (order, _) = flood.beside(5_000);
    assert_eq!(order, "BLLLLBLLLLLBLLLLLB");
}

/// Nor does a large response starve the heads.
#[test]
fn what_waits_to_go_ahead_is_served_in_its_order_beside_any_backlog() {
    let mut flood = Flood::new(Discipline::Srpt, 650);
    flood.run_until(ms(10_000));
    let (order, _) = flood.beside(200_000);
    let turns = order.matches('B').count();
    assert_eq!(turns, 139);
    let heads = order.matches('L').count();
    assert!((650..=680).contains(&heads), "{heads}: half of the bytes");
    assert!(!order.contains('h'), "none overtakes those that wait");
}

/// With no flow that waits the lane has the whole link.
#[test]
fn the_link_is_not_idle_while_heads_wait() {
    let mut flood = Flood::new(Discipline::Srpt, 650);
    flood.run_until(ms(10_000));
    let carried = flood.egress.stats().wire_bytes;
    assert!((1_240_000..=1_270_000).contains(&carried), "{carried}");
}

/// Half of the link without waiting, and a burst: 15,140 bytes on this one.
#[test]
fn what_goes_ahead_takes_half_of_the_link() {
    let mut flood = Flood::new(Discipline::Srpt, 99);
    flood.run_until(ms(10_000));
    assert!(
        !flood.order.contains('L'),
        "a quarter of the link: none waits"
    );
    let mut egress = egress(Discipline::Srpt, Pacer::exact(1_000_000));
    let ahead = (0..99).filter(|_| egress.fast_path(ms(0), 316)).count();
    assert_eq!(ahead, 15_140 / 316);
    assert_eq!(egress.stats().fast_path_refusals, 99 - 47);
    assert_eq!(egress.stats().guard_trips, 0);
}

/// No one can refuse a connection that the kernel has set up; but many of them
/// are a flood, and then what can wait does.
#[test]
fn connections_are_counted() {
    let mut egress = egress(Discipline::Srpt, Pacer::exact(100_000_000));
    let now = seconds_of_calm(&mut egress);
    let before = egress.stats().overhead_bytes;
    (0..100).for_each(|_| egress.connect(now, 200));
    assert_eq!(egress.stats().guard_trips, 0);
    assert!(!egress.fast_path(now, 316));
    assert_eq!(egress.stats().guard_trips, 1);
    assert_eq!(egress.stats().overhead_bytes - before, 20_000);
}

/// The lane goes on while the flows' class waits for its own rate.
#[test]
fn a_class_that_may_not_send_holds_no_head_up() {
    let mut classes = levels(1);
    classes[0].rate_bits_per_s = Some(8);
    let cost = plain(100, 0);
    let mut egress = egress_of(Discipline::Srpt, Pacer::exact(8_000), classes);
    let spec = |bytes| FlowSpec {
        cost,
        ..spec(bytes)
    };
    let open = [(); 4].map(|()| egress.open(ms(0), spec(1).in_lane(Lane::Express)).unwrap());
    let slow = egress.open(ms(0), spec(2)).unwrap();
    egress.offer(ms(0), slow, 1);
    for head in open {
        egress.offer(ms(0), head, 1);
    }
    assert_eq!(egress.waiting_flows(), 5);
    let mut order = Vec::new();
    for now in 0..4 {
        let Grant::Send { flow, .. } = egress.grant(ms(now)) else {
            panic!("heads wait");
        };
        order.push(flow);
        egress.written(ms(now), flow, 1);
        let left = u64::from(flow == slow);
        egress.offer(ms(now), flow, left);
    }
    assert_eq!(order, [open[0], slow, open[1], open[2]]);
    assert_eq!(egress.next_wakeup(), Some(ms(4)));
    // One that leaves is not served.
    egress.close(ms(4), open[3]);
    assert_eq!(egress.waiting_flows(), 1);
    assert!(matches!(egress.grant(ms(4)), Grant::Wait { until } if until > ms(900)));
}

/// A pool's places, a class's rate and its pages are for its flows.
#[test]
fn what_waits_to_go_ahead_takes_nothing_of_its_class() {
    let pool = ClassSpec {
        max_concurrency: 1,
        rate_bits_per_s: Some(8_000),
        ..ClassSpec::default()
    };
    let mut egress = egress_of(Discipline::Srpt, Pacer::exact(8_000), vec![pool]);
    let spec = |bytes| FlowSpec {
        cost: plain(1, 0),
        ..spec(bytes)
    };
    let head = egress.open(ms(0), spec(9).in_lane(Lane::Express)).unwrap();
    egress.offer(ms(0), head, 9);
    assert_eq!(egress.backlog_ahead(ms(0), 0), egress.backlog(ms(0)));
    assert!(egress.backlog(ms(0)) > Duration::ZERO);
    assert!(matches!(egress.grant(ms(0)), Grant::Send { flow, .. } if flow == head));
    egress.written(ms(0), head, 1);
    let flow = egress.open(ms(0), spec(1)).unwrap();
    egress.offer(ms(0), flow, 1);
    assert!(matches!(egress.grant(ms(1)), Grant::Send { flow: next, .. } if next == flow));
    egress.close(ms(1), flow);
    egress.close(ms(1), head);
    assert_eq!(egress.unsent_bytes(), 0);
}

/// What comes at a link, a millisecond after what came before.
#[derive(Clone, Copy, Debug)]
enum Arrival {
    Small(u64),
    Connection(u64),
    Debit(u64),
    Nothing,
}

fn arrival() -> impl Strategy<Value = Arrival> {
    prop_oneof![
        3 => (66u64..4_000).prop_map(Arrival::Small),
        2 => (66u64..4_000).prop_map(Arrival::Connection),
        1 => (0u64..1 << 40).prop_map(Arrival::Debit),
        1 => Just(Arrival::Nothing),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Whatever wants to go ahead, or has gone, a flow that waits has a tenth
    /// of the link: half of the fifth that debits leave.
    #[test]
    fn a_flow_has_a_tenth_of_the_link_whatever_floods_it(
        discipline in prop::sample::select(disciplines()),
        arrivals in prop::collection::vec(arrival(), 1..50),
        factor in prop::sample::select(vec![1u64, 3]),
    ) {
        const RATE: u64 = 8_000_000;
        const RUN_MS: u64 = 3_000;
        let mut egress = egress(discipline, Pacer::exact(RATE));
        let body = egress.open(ms(0), spec(1 << 30)).unwrap();
        egress.offer(ms(0), body, 1 << 20);
        let mut own = 0;
        for (at, arrival) in (0..RUN_MS).zip(arrivals.iter().cycle()) {
            match *arrival {
                Arrival::Small(bytes) => {
                    for _ in 0..factor {
                        if egress.fast_path(ms(at), COST.bytes(bytes)) {
                            continue;
                        }
                        if let Ok(flow) = egress.open(ms(at), spec(bytes).in_lane(Lane::Express)) {
                            egress.offer(ms(at), flow, bytes);
                        }
                    }
                }
                Arrival::Connection(wire_bytes) => egress.connect(ms(at), wire_bytes),
                Arrival::Debit(wire_bytes) => egress.debit(ms(at), wire_bytes),
                Arrival::Nothing => {}
            }
            let mut now = ms(at);
            while now < ms(at + 1) {
                match egress.grant(now) {
                    Grant::Send { flow, bytes } => {
                        egress.written(now, flow, bytes);
                        if flow == body {
                            own += COST.bytes(bytes);
                            egress.offer(now, flow, 1 << 20);
                        } else {
                            // In one segment, or it would have more to send.
                            egress.close(now, flow);
                        }
                    }
                    Grant::Wait { until } => now = until,
                    Grant::Idle => break,
                }
            }
        }
        let carried = RATE / 8 * RUN_MS / 1000;
        let burst = RATE / 8 / 10;
        prop_assert!((own + 2 * 1514) * 10 + 5 * burst >= carried, "{own} of {carried}");
    }
}
