//! What holds after any operations in any order.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
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
    let order = prop_oneof![Just(Order::Size), Just(Order::Fcfs), Just(Order::Edf)];
    let scope = prop_oneof![Just(Scope::Cluster), Just(Scope::Endpoint)];
    (dispatch, order, scope, 1..4_u64, 1..4_usize, 0..6_usize).prop_map(
        |(dispatch, order, scope, endpoints, max_requests, max_waiting)| StationConfig {
            dispatch,
            order,
            scope,
            max_requests,
            max_waiting,
            panic_percent: if max_waiting % 2 == 0 { 50 } else { 0 },
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

/// A station and what its driver knows.
struct Model {
    station: Station,
    max_requests: usize,
    max_waiting: usize,
    scope: Scope,
    running: Vec<(Ticket, usize, usize)>,
    waiting: Vec<(Ticket, usize)>,
}

impl Model {
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
            assert!(running <= self.max_requests);
            assert_eq!(station.load(endpoint).running, running);
            room |= station.is_usable(endpoint) && running < self.max_requests;
        }
        let queues = if self.scope == Scope::Cluster {
            1
        } else {
            endpoints
        };
        assert!(self.waiting.len() <= self.max_waiting * queues);
        // Nobody waits for an endpoint with room, but a class at its limit,
        // or one whose request has tried the endpoints with room.
        if self.scope == Scope::Cluster && room {
            let idle = |&(ticket, class): &(Ticket, usize)| {
                let tried = station.slots[ticket.index()].tried != Tried::default();
                tried || (class == 1 && limited == 1)
            };
            assert!(self.waiting.iter().all(idle), "an endpoint idles");
        }
    }
}

proptest! {
    #[test]
    fn nothing_is_lost_whatever_happens(config in any_config(), steps in steps()) {
        let mut model = Model {
            max_requests: config.max_requests,
            max_waiting: config.max_waiting,
            scope: config.scope,
            station: Station::new(config),
            running: Vec::new(),
            waiting: Vec::new(),
        };
        let mut present: Vec<u64> = (0..model.station.endpoints.slots() as u64).collect();
        let mut out = std::collections::BTreeSet::new();
        let mut now = 0;
        for step in steps {
            match step {
                Step::Arrive { class, bytes, random } => {
                    let arrival = Arrival { class, random, hash: random, ..sized(bytes) };
                    let verdict = model.station.arrive(at(now), &arrival);
                    let none = Ticket { slot: u32::MAX, generation: 0 };
                    model.settle(none, class, verdict);
                }
                Step::Finish(which) if !model.running.is_empty() => {
                    let at_index = which % model.running.len();
                    let (ticket, ..) = model.running.swap_remove(at_index);
                    model.station.finish(at(now), ticket, 1000);
                }
                Step::Fail(which) if !model.running.is_empty() => {
                    let at_index = which % model.running.len();
                    let (ticket, _, class) = model.running.swap_remove(at_index);
                    let verdict = fail(&mut model.station, at(now), ticket);
                    model.settle(ticket, class, verdict);
                }
                Step::Cancel(which) if which % 2 == 0 && !model.waiting.is_empty() => {
                    let at_index = which % model.waiting.len();
                    let (ticket, _) = model.waiting.swap_remove(at_index);
                    model.station.cancel(at(now), ticket);
                }
                Step::Cancel(which) if !model.running.is_empty() => {
                    let at_index = which % model.running.len();
                    let (ticket, ..) = model.running.swap_remove(at_index);
                    model.station.cancel(at(now), ticket);
                }
                Step::Out(which) => {
                    let slots = model.station.endpoints.present();
                    let slot = slots[which % slots.len()];
                    let is_out = out.insert(slot) || !out.remove(&slot);
                    model.station.set_out(at(now), slot, is_out);
                }
                Step::Change(identity) if present != [identity] => {
                    let before = present.len();
                    present.retain(|&known| known != identity);
                    if present.len() == before {
                        present.push(identity);
                    }
                    let specs: Vec<_> = present.iter().map(|&identity| spec(identity)).collect();
                    let slots = model.station.set_endpoints(at(now), &specs);
                    prop_assert_eq!(slots.len(), present.len());
                    out.retain(|slot| slots.contains(slot));
                }
                Step::Pass(passed) => {
                    now += passed;
                    model.station.expire(at(now));
                }
                _ => {}
            }
            model.events();
            model.check();
        }
        // Everybody leaves: every account is at zero.
        for (ticket, ..) in std::mem::take(&mut model.running) {
            model.station.cancel(at(now), ticket);
            model.events();
        }
        while let Some((ticket, ..)) = model.running.pop().or_else(|| {
            model.waiting.pop().map(|(ticket, class)| (ticket, 0, class))
        }) {
            model.station.cancel(at(now), ticket);
            model.events();
        }
        for endpoint in 0..model.station.endpoints.slots() {
            prop_assert_eq!(model.station.load(endpoint), EndpointLoad::default());
        }
        let left = model.station.stats().iter().map(|class| class.running + class.waiting);
        prop_assert_eq!(left.sum::<usize>(), 0);
        prop_assert_eq!(model.station.vacant.len(), model.station.slots.len());
    }
}
