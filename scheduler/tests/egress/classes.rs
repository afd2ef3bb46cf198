//! Classes on the uplink: exact orders and shares, and what holds after any
//! operations.

use std::time::Duration;

use proptest::prelude::*;
use sprat_scheduler::{
    ClassSpec, Discipline, Egress, FlowId, FlowSpec, Grant, Pacer, Size, Time, WireCost,
};

use crate::driver::{Driver, UNIT, egress_of, ms, plain, segments_of};

fn class(level: u8, change: impl FnOnce(&mut ClassSpec)) -> ClassSpec {
    let mut class = ClassSpec {
        level,
        ..ClassSpec::default()
    };
    change(&mut class);
    class
}

fn weight(level: u8, weight: u32) -> ClassSpec {
    class(level, |class| class.weight = weight)
}

/// A response of each class, of so many bytes, in `fcfs`.
fn all_at_once(classes: Vec<ClassSpec>, bytes: &[u64]) -> Driver {
    let mut driver = Driver::with_classes(Discipline::Fcfs, UNIT, classes);
    for (class, &bytes) in bytes.iter().enumerate() {
        driver.arrive_as(class, Size::Exact(bytes), bytes);
    }
    driver
}

#[test]
fn classes_of_one_level_share_by_weight() {
    let classes = || vec![weight(1, 1), weight(1, 2), weight(1, 1)];
    let mut driver = all_at_once(classes(), &[3, 6, 3]);
    assert_eq!(driver.serve_all(), "ABCBABCBABCB");
    // What one leaves, the others get.
    let mut driver = all_at_once(classes(), &[4, 2, 0]);
    assert_eq!(driver.serve_all(), "ABBAAA");
}

#[test]
fn the_discipline_orders_inside_a_class() {
    let classes = vec![weight(1, 1), weight(1, 1)];
    let mut driver = Driver::with_classes(Discipline::Srpt, UNIT, classes);
    driver.arrive_as(0, Size::Exact(2), 2);
    driver.arrive_as(0, Size::Exact(1), 1);
    driver.arrive_as(1, Size::Exact(3), 3);
    assert_eq!(driver.serve_all(), "BCACAC");
}

#[test]
fn levels_come_before_weights() {
    let mut driver = all_at_once(
        vec![weight(2, 1), weight(1, 1), weight(2, 9), weight(0, 1)],
        &[1, 2, 1, 1],
    );
    assert_eq!(driver.serve_all(), "DBBAC");
}

#[test]
fn a_class_that_was_away_gets_nothing_back() {
    let mut driver = Driver::with_classes(
        Discipline::Fcfs,
        UNIT,
        vec![weight(1, 1), weight(1, 1), weight(0, 1)],
    );
    driver.arrive_as(0, Size::Exact(8), 8);
    assert_eq!(driver.serve(4), "AAAA");
    driver.arrive_as(1, Size::Exact(4), 4);
    assert_eq!(driver.serve_all(), "BABABABA");
}

#[test]
fn shares_are_of_bytes_not_of_responses() {
    let classes = vec![weight(1, 1), weight(1, 1)];
    let link = segments_of(100);
    let mut driver = Driver::with_classes(Discipline::Fcfs, link, classes);
    // Segments of 100 bytes against responses of 10.
    driver.arrive_as(0, Size::Exact(300), 300);
    for _ in 0..30 {
        driver.arrive_as(1, Size::Exact(10), 10);
    }
    for _ in 0..13 {
        driver.serve_one();
    }
    let sent = |class: usize| driver.egress.class_stats()[class].granted_bytes;
    assert_eq!((sent(0), sent(1)), (200, 110));
}

#[test]
fn a_rate_is_kept_and_the_others_take_what_it_leaves() {
    // A quarter of the link.
    let limited = class(0, |class| class.rate_bits_per_s = Some(2000));
    let mut driver = all_at_once(vec![limited, weight(1, 1)], &[4, 6]);
    assert_eq!(driver.serve(9), "ABBBABBBA");
    // Alone, it still has its rate and no more.
    assert_eq!(
        driver.egress.grant(driver.now),
        Grant::Wait { until: ms(9) }
    );
    driver.now = ms(9);
    assert_eq!(driver.egress.grant(ms(9)), Grant::Wait { until: ms(12) });
    assert_eq!(driver.egress.next_wakeup(), Some(ms(12)));
    assert_eq!(driver.serve_all(), "A");
    assert_eq!(driver.services[9].at, ms(12));
}

#[test]
fn a_pool_has_so_many_responses_begun() {
    let limited = class(0, |class| class.max_concurrency = 2);
    let classes = vec![limited, weight(1, 1)];
    let mut driver = Driver::with_classes(Discipline::Fair, UNIT, classes);
    for bytes in [2, 2, 1] {
        driver.arrive_as(0, Size::Exact(bytes), bytes);
    }
    // C waits for a place; round robin between the two that have one.
    assert_eq!(driver.serve(2), "AB");
    // One that cannot send keeps its place.
    driver.pause(0);
    assert_eq!(driver.serve(1), "B");
    assert_eq!(driver.serve(1), "C");
    driver.resume(0);
    assert_eq!(driver.serve_all(), "A");
}

#[test]
fn a_full_pool_leaves_the_link_to_others() {
    let limited = class(0, |class| class.max_concurrency = 1);
    let mut driver = all_at_once(vec![limited, weight(1, 1)], &[2, 2]);
    driver.arrive_as(0, Size::Exact(1), 1);
    assert_eq!(driver.serve(1), "A");
    driver.pause(0);
    assert_eq!(driver.serve_all(), "BB");
    assert_eq!(driver.egress.grant(driver.now), Grant::Idle);
    driver.resume(0);
    assert_eq!(driver.serve_all(), "AC");
}

fn background() -> ClassSpec {
    class(15, |class| class.idle_only = true)
}

#[test]
fn idle_only_waits_for_what_has_begun() {
    let mut driver = all_at_once(vec![weight(0, 1), background()], &[3, 3]);
    assert_eq!(driver.serve(2), "AA");
    driver.pause(0);
    // A may be back at any moment: 5 ms without a sign of it, from the last.
    let last = driver.services[1].at;
    assert_eq!(driver.serve(1), "B");
    assert_eq!(driver.services[2].at, last + Duration::from_millis(5));
    driver.resume(0);
    // It is done: nothing to wait for.
    assert_eq!(driver.serve_all(), "ABB");
    assert_eq!(
        driver.services[4].at,
        driver.services[3].at + Duration::from_millis(1)
    );
}

#[test]
fn idle_only_waits_for_what_is_announced() {
    let mut driver = all_at_once(vec![weight(0, 1), background()], &[0, 3]);
    driver.egress.close(ms(0), driver.clients[0].id);
    driver.egress.announce(ms(0));
    assert_eq!(driver.egress.grant(ms(0)), Grant::Wait { until: ms(5) });
    driver.egress.retract();
    assert_eq!(driver.serve(1), "B");
}

#[test]
fn idle_only_goes_after_every_level_whatever_its_own() {
    let first = class(0, |class| class.idle_only = true);
    let mut driver = all_at_once(vec![first, weight(15, 1)], &[2, 2]);
    assert_eq!(driver.serve_all(), "BBAA");
}

#[test]
fn a_limited_class_does_not_hold_idle_only_back() {
    let limited = class(0, |class| class.rate_bits_per_s = Some(2000));
    let mut driver = all_at_once(vec![limited, background()], &[2, 3]);
    assert_eq!(driver.serve_all(), "ABBBA");
    assert_eq!(driver.services[3].at, ms(3));
}

/// Whatever the foreground does, the background keeps nine tenths of what it
/// leaves, after a start of 50 ms.
#[test]
fn the_background_is_held_back_for_a_tenth_of_its_own_time_at_most() {
    let mut driver = all_at_once(vec![weight(0, 1), background()], &[1_000_000, 1_000_000]);
    driver.pause(0);
    for now in 0..11_050 {
        // Never ready for long, always alive.
        driver.egress.ready(driver.now, driver.clients[0].id, 1);
        driver.pause(0);
        driver.run_until(ms(now + 1));
    }
    let sent = driver.egress.class_stats()[1].granted_bytes;
    assert!((9_990..10_010).contains(&sent), "{sent} of 11,050");
}

#[test]
fn the_background_sends_less_at_a_time() {
    let mut egress = egress_of(
        Discipline::Srpt,
        Pacer::exact(10_000_000),
        vec![
            weight(0, 1),
            background(),
            class(3, |class| class.rate_bits_per_s = Some(1_000_000)),
            class(3, |class| class.rate_bits_per_s = Some(90_000_000)),
        ],
    );
    let mut grant = |class| {
        let cost = WireCost::ETHERNET_IPV4;
        let size = Size::Exact(10_000);
        let flow = egress.open(ms(0), FlowSpec { class, size, cost }).unwrap();
        egress.ready(ms(0), flow, 10_000);
        let now = egress.pacer().next_grant_at();
        let Grant::Send { bytes, .. } = egress.grant(now) else {
            panic!("the link is free");
        };
        egress.close(now, flow);
        bytes
    };
    assert_eq!(grant(0), 1448);
    assert_eq!(grant(1), 512);
    assert_eq!(grant(2), 512);
    assert_eq!(grant(3), 512);
}

#[test]
fn the_backlog_is_what_is_left_to_send() {
    let mut driver = Driver::new(Discipline::Fcfs, segments_of(1000));
    assert_eq!(driver.egress.backlog(ms(0)), Duration::ZERO);
    driver.arrive(100_000);
    driver.arrive_as(0, Size::Unknown, 50_000);
    let left = |driver: &Driver| driver.egress.backlog(driver.now).as_millis();
    // With the headers that Ethernet would add, and 1 MB/s.
    let expected = u128::from(WireCost::ETHERNET_IPV4.bytes(150_000) / 1000);
    assert_eq!(left(&driver), expected);
    driver.run_until(ms(50));
    let expected = u128::from(WireCost::ETHERNET_IPV4.bytes(100_000) / 1000);
    assert_eq!(left(&driver), expected);
    driver.egress.close(ms(50), driver.clients[0].id);
    assert_eq!(
        left(&driver),
        u128::from(WireCost::ETHERNET_IPV4.bytes(50_000) / 1000)
    );
    driver.serve_the_rest();
    assert_eq!(
        driver.egress.backlog(driver.now + Duration::from_millis(1)),
        Duration::ZERO
    );
}

#[test]
fn the_backlog_ahead_of_a_class_is_what_goes_before_it() {
    let classes = vec![weight(3, 1), weight(1, 1), background(), weight(3, 1)];
    let driver = all_at_once(classes, &[3000, 5000, 7000, 9000]);
    let ms_of = |bytes| Duration::from_millis(WireCost::ETHERNET_IPV4.bytes(bytes));
    let ahead = |class| driver.egress.backlog_ahead(ms(0), class);
    assert_eq!(ahead(1), ms_of(5000));
    assert_eq!(ahead(0), ms_of(5000 + 3000 + 9000));
    assert_eq!(ahead(2), ms_of(24_000));
    assert_eq!(driver.egress.backlog(ms(0)), ms_of(24_000));
}

/// A sequence of operations on classes; flows and classes round and round.
#[derive(Clone, Copy, Debug)]
enum Op {
    Open { class: usize, bytes: u64 },
    Ready { flow: usize },
    Pause { flow: usize },
    Serve { part: u64 },
    Close { flow: usize },
    Announce,
    Retract,
    Pass(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0usize..8, 1u64..40).prop_map(|(class, bytes)| Op::Open { class, bytes }),
        2 => (0usize..40).prop_map(|flow| Op::Ready { flow }),
        2 => (0usize..40).prop_map(|flow| Op::Pause { flow }),
        10 => prop_oneof![3 => Just(u64::MAX), 1 => 0u64..2].prop_map(|part| Op::Serve { part }),
        1 => (0usize..40).prop_map(|flow| Op::Close { flow }),
        1 => Just(Op::Announce),
        1 => Just(Op::Retract),
        3 => (0u64..8_000).prop_map(Op::Pass),
    ]
}

fn any_class() -> impl Strategy<Value = ClassSpec> {
    let pool = prop_oneof![3 => Just(usize::MAX), 1 => 1usize..3];
    let rate = prop_oneof![3 => Just(None), 1 => (500u64..20_000).prop_map(Some)];
    (0u8..3, 1u32..4, pool, rate, prop::bool::weighted(0.2)).prop_map(
        |(level, weight, max_concurrency, rate_bits_per_s, idle_only)| ClassSpec {
            level,
            weight,
            max_concurrency,
            rate_bits_per_s,
            idle_only,
            ..ClassSpec::default()
        },
    )
}

struct Flow {
    id: FlowId,
    class: usize,
    left: u64,
    ready: bool,
    open: bool,
    /// Has been granted something.
    begun: bool,
}

struct Model {
    classes: Vec<ClassSpec>,
    egress: Egress,
    now: Time,
    flows: Vec<Flow>,
    announced: usize,
    /// When, and how many wire bytes, by class.
    sent: Vec<Vec<(Time, u64)>>,
}

impl Model {
    fn new(classes: Vec<ClassSpec>) -> Self {
        Self {
            egress: egress_of(Discipline::Srpt, Pacer::exact(8000), classes.clone()),
            now: Time::ZERO,
            flows: Vec::new(),
            announced: 0,
            sent: vec![Vec::new(); classes.len()],
            classes,
        }
    }

    fn pick(&self, flow: usize) -> Option<usize> {
        let flow = flow.checked_rem(self.flows.len())?;
        self.flows[flow].open.then_some(flow)
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Open { class, bytes } => {
                let class = class % self.classes.len();
                let size = Size::Exact(bytes);
                let cost = plain(1, 0);
                let spec = FlowSpec { class, size, cost };
                let id = self.egress.open(self.now, spec).expect("there is room");
                self.egress.ready(self.now, id, bytes);
                self.flows.push(Flow {
                    id,
                    class,
                    left: bytes,
                    ready: true,
                    open: true,
                    begun: false,
                });
            }
            Op::Ready { flow } | Op::Pause { flow } => {
                if let Some(flow) = self.pick(flow) {
                    let flow = &mut self.flows[flow];
                    flow.ready = matches!(op, Op::Ready { .. });
                    let bytes = if flow.ready { flow.left } else { 0 };
                    self.egress.ready(self.now, flow.id, bytes);
                }
            }
            Op::Serve { part } => {
                self.serve(part);
            }
            Op::Close { flow } => {
                if let Some(flow) = self.pick(flow) {
                    self.close(flow);
                }
            }
            Op::Announce => {
                self.announced += 1;
                self.egress.announce(self.now);
            }
            Op::Retract if self.announced > 0 => {
                self.announced -= 1;
                self.egress.retract();
            }
            Op::Retract => {}
            Op::Pass(micros) => self.now = self.now + Duration::from_micros(micros),
        }
        let waiting = self.flows.iter().filter(|flow| flow.ready).count();
        assert_eq!(self.egress.waiting_flows(), waiting);
        for (class, stats) in self.egress.class_stats().iter().enumerate() {
            let open = self.flows.iter().filter(|f| f.open && f.class == class);
            assert_eq!(stats.open_flows, open.count());
        }
    }

    fn close(&mut self, flow: usize) {
        let flow = &mut self.flows[flow];
        self.egress.close(self.now, flow.id);
        (flow.open, flow.ready) = (false, false);
    }

    /// Whether a flow's class lets it send now, as far as its pool goes.
    fn has_place(&self, flow: &Flow) -> bool {
        let places = self.flows.iter();
        let taken = places.filter(|f| f.open && f.begun && f.class == flow.class);
        flow.begun || taken.count() < self.classes[flow.class].max_concurrency
    }

    fn serve(&mut self, part: u64) -> bool {
        let limited = |class: &ClassSpec| class.rate_bits_per_s.is_some();
        match self.egress.grant(self.now) {
            Grant::Send { flow, bytes } => {
                let granted = self.flows.iter().position(|f| f.id == flow);
                let granted = granted.expect("it was opened");
                self.check_turn(granted);
                let bytes_sent = bytes.min(part);
                self.egress.sent(self.now, flow, bytes_sent);
                let flow = &mut self.flows[granted];
                assert!(flow.ready && (1..=flow.left).contains(&bytes));
                flow.left -= bytes_sent;
                flow.begun = true;
                self.sent[flow.class].push((self.now, bytes_sent));
                if flow.left == 0 {
                    self.close(granted);
                } else {
                    self.egress.ready(self.now, flow.id, flow.left);
                }
                true
            }
            Grant::Wait { until } => {
                assert!(until > self.now);
                until_is_due(self, until);
                false
            }
            Grant::Idle => {
                // Work conservation: only full pools leave the link idle for
                // good, with somebody ready.
                let mut ready = self.flows.iter().filter(|flow| flow.ready);
                assert!(
                    !ready.any(|flow| self.has_place(flow) && !limited(&self.classes[flow.class]))
                );
                false
            }
        }
    }

    /// Nobody of a higher level could have gone, and idle-only goes last.
    fn check_turn(&self, granted: usize) {
        let flow = &self.flows[granted];
        assert!(self.has_place(flow), "the pool was full");
        let own = &self.classes[flow.class];
        for other in self.flows.iter().filter(|other| other.ready) {
            let class = &self.classes[other.class];
            if class.rate_bits_per_s.is_none() && self.has_place(other) {
                let before = (class.idle_only, class.level) < (own.idle_only, own.level);
                assert!(!before, "{class:?} should go before {own:?}");
            }
        }
    }

    /// In any window, no more than the rate and one byte.
    fn check_rates(&self) {
        for (class, sent) in self.classes.iter().zip(&self.sent) {
            let Some(rate) = class.rate_bits_per_s else {
                continue;
            };
            for (first, &(from, _)) in sent.iter().enumerate() {
                let mut bytes = 0;
                for &(at, more) in &sent[first..] {
                    bytes += more;
                    let carried = at.since(from).as_secs_f64() * rate as f64 / 8.0;
                    assert!(bytes as f64 <= carried + 1.01, "{bytes} in {carried}");
                }
            }
        }
    }

    /// Whatever has happened, all that is ready is sent in the end.
    fn drain(&mut self) {
        while self.announced > 0 {
            self.apply(Op::Retract);
        }
        for flow in 0..self.flows.len() {
            self.apply(Op::Ready { flow });
        }
        let mut waits = 0;
        while self.egress.waiting_flows() > 0 {
            if self.serve(u64::MAX) {
                waits = 0;
                continue;
            }
            waits += 1;
            assert!(waits < 4, "time passes and nothing is sent");
            let wakeup = self.egress.next_wakeup().expect("somebody is ready");
            let Grant::Wait { until } = self.egress.grant(self.now) else {
                panic!("idle though somebody is ready");
            };
            self.now = until.max(wakeup);
        }
        assert!(
            self.flows
                .iter()
                .all(|flow| !flow.open && flow.left == 0 || !flow.ready)
        );
    }
}

/// To wait is right if the link is busy, or whoever is ready is limited or in
/// the background.
fn until_is_due(model: &Model, until: Time) {
    if model.egress.pacer().next_grant_at() > model.now {
        assert_eq!(until, model.egress.pacer().next_grant_at());
        return;
    }
    for flow in model.flows.iter().filter(|flow| flow.ready) {
        let class = &model.classes[flow.class];
        let waits = class.rate_bits_per_s.is_some() || class.idle_only || !model.has_place(flow);
        assert!(waits, "the link is free, and {class:?} may send");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Bytes are conserved, levels and pools and rates are kept, and the link
    /// idles only when a class's own limit, or what has begun, says so.
    #[test]
    fn classes_keep_their_contract(
        classes in prop::collection::vec(any_class(), 1..6),
        ops in prop::collection::vec(op(), 1..200),
    ) {
        let mut model = Model::new(classes);
        ops.into_iter().for_each(|op| model.apply(op));
        model.drain();
        model.check_rates();
        let sent: u64 = model.sent.iter().flatten().map(|&(_, bytes)| bytes).sum();
        prop_assert_eq!(model.egress.stats().granted_bytes, sent);
        let by_class = model.egress.class_stats().iter().map(|stats| stats.granted_bytes);
        prop_assert_eq!(by_class.sum::<u64>(), sent);
    }
}
