//! Tests of what holds after any operations in any order.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::srq::{MAX_QUEUES, Trigger};

#[derive(Clone, Copy, Debug)]
enum Step {
    Arrive {
        class: usize,
        bytes: u64,
        random: u64,
    },
    Finish(usize),
    Cancel(usize),
    Fail(usize),
    Pass(u64),
    /// An endpoint is taken out, or back in.
    Out(usize),
    /// One of six possible endpoints comes, or goes.
    Change(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let arrive = (0..3_usize, 0..100_000_u64, any::<u64>());
    let arrive = arrive.prop_map(|(class, bytes, random)| Step::Arrive {
        class,
        bytes,
        random,
    });
    let step = prop_oneof![
        4 => arrive,
        2 => any::<usize>().prop_map(Step::Finish),
        1 => any::<usize>().prop_map(Step::Cancel),
        1 => any::<usize>().prop_map(Step::Fail),
        1 => (1..400_u64).prop_map(Step::Pass),
        1 => any::<usize>().prop_map(Step::Out),
        1 => (0..6_u64).prop_map(Step::Change),
    ];
    proptest::collection::vec(step, 1..120)
}

fn any_config() -> impl Strategy<Value = StationConfig> {
    let dispatch = prop_oneof![
        Just(Dispatch::RoundRobin),
        Just(Dispatch::P2c),
        Just(Dispatch::LeastRequest),
        Just(Dispatch::Psqf),
        Just(Dispatch::LeastWork),
        Just(Dispatch::Sita(Intervals::Learnt)),
        Just(Dispatch::Maglev),
    ];
    let order = prop_oneof![
        Just(Order::Size),
        Just(Order::Fcfs),
        Just(Order::Edf),
        Just(Order::Vrd),
        any_srq().prop_map(|order| Order::Srq(Box::new(order))),
    ];
    let scope = prop_oneof![Just(Scope::Cluster), Just(Scope::Endpoint)];
    (dispatch, order, scope, 1..4_u64, 1..4_usize, 0..6_usize).prop_map(
        |(dispatch, order, scope, endpoints, max_requests, max_waiting)| StationConfig {
            dispatch,
            order,
            scope,
            max_requests,
            max_waiting,
            healthy_panic_percent: if max_waiting % 2 == 0 { 50 } else { 0 },
            classes: vec![
                ClassSpec {
                    deadline: Some(ms(300)),
                    drop_late: true,
                    ..level(0)
                },
                ClassSpec {
                    max_concurrency: 1,
                    timeout: Some(ms(200)),
                    ..level(1)
                },
                ClassSpec {
                    drop_thresholds: (0.2, 0.8),
                    ..level(1)
                },
            ],
            ..config(endpoints)
        },
    )
}

/// Returns parameters of SRQ with quanta and intervals that the steps' times come to.
fn any_srq() -> impl Strategy<Value = SrqOrder> {
    let trigger = prop_oneof![Just(Trigger::Always), Just(Trigger::Waiting(1))];
    let large_bytes = prop::option::of(Just(50_000));
    let order = (
        1..=100_u8,
        prop::option::of(0..3_usize),
        trigger,
        large_bytes,
    );
    order.prop_map(|(share, max_overcommit, trigger, large_bytes)| {
        let mut order = SrqOrder {
            max_overcommit,
            large_bytes,
            ..SrqOrder::default()
        };
        order.queues.first_share_percent = share;
        order.queues.trigger = trigger;
        order.queues.interval = ms(700);
        order.queues.samples_min = 2;
        order
    })
}

/// A station and what its driver knows.
struct Model {
    station: Station,
    max_requests: usize,
    /// The most requests that SRQ starts beyond those.
    beyond: usize,
    max_waiting: usize,
    scope: Scope,
    running: Vec<(Ticket, usize, usize)>,
    waiting: Vec<(Ticket, usize)>,
    /// The identities of the endpoints; `out` has the slots that are out.
    present: Vec<u64>,
    out: BTreeSet<usize>,
    now_ms: u64,
}

impl Model {
    fn new(config: StationConfig) -> Self {
        Self {
            max_requests: config.max_requests,
            beyond: match &config.order {
                Order::Srq(order) => order.max_overcommit.unwrap_or(config.max_requests),
                _ => 0,
            },
            max_waiting: config.max_waiting,
            scope: config.scope,
            present: config.endpoints.iter().map(|spec| spec.identity).collect(),
            station: Station::new(config),
            running: Vec::new(),
            waiting: Vec::new(),
            out: BTreeSet::new(),
            now_ms: 0,
        }
    }

    fn apply(&mut self, step: Step) {
        let now = at(self.now_ms);
        match step {
            Step::Arrive {
                class,
                bytes,
                random,
            } => {
                let arrival = Arrival {
                    class,
                    random,
                    hash: random,
                    ..sized(bytes)
                };
                let verdict = self.station.arrive(now, &arrival);
                self.settle(Ticket(SlotKey::NONE), class, verdict);
            }
            Step::Finish(which) if !self.running.is_empty() => {
                let (ticket, ..) = self.running.swap_remove(which % self.running.len());
                self.station.finish(now, ticket, 1000);
            }
            Step::Fail(which) if !self.running.is_empty() => {
                let (ticket, _, class) = self.running.swap_remove(which % self.running.len());
                let verdict = fail(&mut self.station, now, ticket);
                self.settle(ticket, class, verdict);
            }
            Step::Cancel(which) if which % 2 == 0 && !self.waiting.is_empty() => {
                let (ticket, _) = self.waiting.swap_remove(which % self.waiting.len());
                self.station.cancel(now, ticket);
            }
            Step::Cancel(which) if !self.running.is_empty() => {
                let (ticket, ..) = self.running.swap_remove(which % self.running.len());
                self.station.cancel(now, ticket);
            }
            Step::Out(which) => {
                let slots = self.station.endpoints.present();
                let slot = slots[which % slots.len()];
                let is_out = self.out.insert(slot) || !self.out.remove(&slot);
                self.station.set_out(now, slot, is_out);
            }
            Step::Change(identity) if self.present != [identity] => self.change(identity),
            Step::Pass(passed_ms) => {
                self.now_ms += passed_ms;
                // A driver may be late: the next call may be another.
                if passed_ms % 3 > 0 {
                    self.station.expire(at(self.now_ms));
                }
            }
            Step::Finish(_) | Step::Fail(_) | Step::Cancel(_) | Step::Change(_) => {}
        }
    }

    /// Adds an endpoint, or removes it if it is present.
    fn change(&mut self, identity: u64) {
        let before = self.present.len();
        self.present.retain(|&known| known != identity);
        if self.present.len() == before {
            self.present.push(identity);
        }
        let specs: Vec<_> = self.present.iter().map(|&own| spec(own)).collect();
        let slots = self.station.set_endpoints(at(self.now_ms), &specs);
        assert_eq!(slots.len(), self.present.len());
        self.out.retain(|slot| slots.contains(slot));
    }

    /// Cancels all requests, and checks that every account is at zero.
    fn leave(&mut self) {
        let now = at(self.now_ms);
        for (ticket, ..) in std::mem::take(&mut self.running) {
            self.station.cancel(now, ticket);
            self.events();
        }
        while let Some(ticket) = self.running.pop().map(|(ticket, ..)| ticket).or_else(|| {
            let waiting = self.waiting.pop();
            waiting.map(|(ticket, _)| ticket)
        }) {
            self.station.cancel(now, ticket);
            self.events();
        }
        for endpoint in 0..self.station.endpoints.slots() {
            assert_eq!(self.station.load(endpoint), EndpointLoad::default());
        }
        let stats = self.station.stats().iter();
        let left = stats.map(|class| class.running + class.waiting);
        assert_eq!(left.sum::<usize>(), 0);
        assert_eq!(self.station.slots.len(), 0);
        if let Some((queues, _)) = self.station.queues() {
            assert_eq!(queues.stats().members, [0; MAX_QUEUES]);
        }
    }

    fn settle(&mut self, ticket: Ticket, class: usize, verdict: Verdict) {
        match verdict {
            Verdict::Start { ticket, endpoint } => self.running.push((ticket, endpoint, class)),
            Verdict::Wait { ticket } => self.waiting.push((ticket, class)),
            Verdict::Refuse(_) => {
                let known = self.waiting.iter().any(|&(t, _)| t == ticket);
                assert!(!known || ticket.index() == usize::MAX);
            }
        }
    }

    fn events(&mut self) {
        while let Some(event) = self.station.poll() {
            let (Event::Started { ticket, .. } | Event::Refused { ticket, .. }) = event;
            let at = self.waiting.iter().position(|&(t, _)| t == ticket);
            let (_, class) = self.waiting.swap_remove(at.expect("it waited"));
            if let Event::Started { endpoint, .. } = event {
                self.running.push((ticket, endpoint, class));
            }
        }
    }

    fn check(&self) {
        let station = &self.station;
        assert_eq!(station.waiting(), self.waiting.len());
        let endpoints = station.endpoints.slots();
        let limited = self.running.iter().filter(|r| r.2 == 1).count();
        assert!(limited <= 1, "a class over its limit");
        let mut room = false;
        for endpoint in 0..endpoints {
            let running = self.running.iter().filter(|r| r.1 == endpoint).count();
            assert!(running <= self.max_requests + self.beyond);
            let demoted = station.load(endpoint).demoted;
            assert!(demoted <= running);
            assert_eq!(station.load(endpoint).running, running);
            room |= station.is_usable(endpoint) && running < self.max_requests;
        }
        let queues = if self.scope == Scope::Cluster {
            1
        } else {
            endpoints
        };
        assert!(self.waiting.len() <= self.max_waiting * queues);
        // No request waits for an endpoint with room, unless its class is at
        // its limit, or it has tried the endpoints with room.
        if self.scope == Scope::Cluster && room {
            let idle = |&(ticket, class): &(Ticket, usize)| {
                let tried = !station.slots[ticket.slot()].tried.is_empty();
                tried || (class == 1 && limited == 1)
            };
            assert!(self.waiting.iter().all(idle), "an endpoint idles");
        }
        // Each that is in service is in one of SRQ's queues, and the demoted not in the first.
        if let Some((queues, _)) = station.queues() {
            let members = queues.stats().members;
            assert_eq!(members.iter().sum::<u64>(), self.running.len() as u64);
            let demoted = (0..endpoints).map(|own| station.load(own).demoted as u64);
            assert_eq!(members[1..].iter().sum::<u64>(), demoted.sum::<u64>());
            assert!((2..=MAX_QUEUES).contains(&queues.count()));
        }
        let wakeup = station.next_demotion();
        assert!(wakeup.is_none() || !self.waiting.is_empty());
        // And for one that may come to have room.
        for &(ticket, _) in &self.waiting {
            assert!(station.has_untried(ticket), "it waits for nobody");
        }
    }
}

proptest! {
    #[test]
    fn nothing_is_lost_whatever_happens(config in any_config(), steps in steps()) {
        let mut model = Model::new(config);
        for step in steps {
            model.apply(step);
            model.events();
            model.check();
        }
        model.leave();
    }
}
