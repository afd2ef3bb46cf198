use proptest::prelude::*;

use super::*;
use crate::dispatch::Intervals;

mod changes;

fn at(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn spec(identity: u64) -> EndpointSpec {
    EndpointSpec {
        weight: 1,
        reserved: false,
        size_range: None,
        identity,
    }
}

/// One class, room for one request at each endpoint.
fn config(endpoints: u64) -> StationConfig {
    StationConfig {
        max_requests: 1,
        ..StationConfig::new(
            Dispatch::LeastRequest,
            (0..endpoints).map(spec).collect(),
            vec![ClassSpec::default()],
            100,
        )
    }
}

fn level(level: u8) -> ClassSpec {
    ClassSpec {
        level,
        ..ClassSpec::default()
    }
}

fn sized(bytes: u64) -> Arrival {
    Arrival {
        class: 0,
        size: Size::Exact(bytes),
        hash: 0,
        random: 0,
        channel_backlog: Duration::ZERO,
        channel_ahead: Duration::ZERO,
    }
}

fn of_class(class: usize) -> Arrival {
    Arrival {
        class,
        ..sized(1000)
    }
}

fn started(verdict: Verdict) -> (Ticket, usize) {
    match verdict {
        Verdict::Start { ticket, endpoint } => (ticket, endpoint),
        other => panic!("not started: {other:?}"),
    }
}

fn waits(verdict: Verdict) -> Ticket {
    match verdict {
        Verdict::Wait { ticket } => ticket,
        other => panic!("does not wait: {other:?}"),
    }
}

fn refused(verdict: Verdict) -> RefusalReason {
    match verdict {
        Verdict::Refuse(refusal) => refusal.reason,
        other => panic!("not refused: {other:?}"),
    }
}

/// Its endpoint could not be reached: another, if there is one.
fn fail(station: &mut Station, now: Time, ticket: Ticket) -> Verdict {
    match station.step_back(now, ticket, false) {
        Again::Elsewhere => station.again(now, ticket),
        _ => {
            station.cancel(now, ticket);
            Verdict::Refuse(Refusal::without_delay(RefusalReason::NoEndpoint))
        }
    }
}

/// Serves all who wait, one after the other; their order by arrival.
fn served(station: &mut Station, first: Ticket, waiting: &[Ticket]) -> Vec<usize> {
    let (mut running, mut order) = (first, Vec::new());
    for now in 1.. {
        station.finish(at(now), running, 1000);
        match station.poll() {
            Some(Event::Started { ticket, .. }) => {
                running = ticket;
                order.push(waiting.iter().position(|&w| w == ticket).unwrap());
            }
            Some(other) => panic!("{other:?}"),
            None => break,
        }
    }
    order
}

#[test]
fn the_smallest_goes_first() {
    let mut station = Station::new(config(1));
    let (first, endpoint) = started(station.arrive(at(0), &sized(10)));
    assert_eq!(endpoint, 0);
    let waiting = [500, 20, 9000, 20].map(|bytes| waits(station.arrive(at(0), &sized(bytes))));
    assert_eq!(station.waiting(), 4);
    assert_eq!(served(&mut station, first, &waiting), [1, 3, 0, 2]);
    assert_eq!(station.load(0), EndpointLoad::default());
    assert_eq!(station.stats()[0].started, 1);
    assert_eq!(station.stats()[0].waited, 4);
}

#[test]
fn an_unknown_size_waits_as_the_mean() {
    let mut station = Station::new(config(1));
    for bytes in [1000, 3000] {
        let (ticket, _) = started(station.arrive(at(0), &sized(1)));
        station.finish(at(0), ticket, bytes);
    }
    let (first, _) = started(station.arrive(at(0), &sized(1)));
    let unknown = Arrival {
        size: Size::Unknown,
        ..sized(0)
    };
    let waiting = [sized(2001), unknown, sized(1999)];
    let waiting = waiting.map(|arrival| waits(station.arrive(at(0), &arrival)));
    assert_eq!(served(&mut station, first, &waiting), [2, 1, 0]);
}

/// The order in which four of sizes 4, 3, 2, 1 (in hundreds) and these classes
/// are served.
fn order(order: Order, classes: Vec<ClassSpec>, of: [usize; 4]) -> Vec<usize> {
    let mut station = Station::new(StationConfig {
        classes,
        order,
        ..config(1)
    });
    let (first, _) = started(station.arrive(at(0), &of_class(0)));
    let arrivals = of.iter().zip([400, 300, 200, 100]);
    let waiting: Vec<_> = arrivals
        .map(|(&class, bytes)| {
            let arrival = Arrival {
                class,
                ..sized(bytes)
            };
            waits(station.arrive(at(0), &arrival))
        })
        .collect();
    served(&mut station, first, &waiting)
}

#[test]
fn each_order_is_as_it_says() {
    let same = || vec![level(0)];
    assert_eq!(order(Order::Fcfs, same(), [0; 4]), [0, 1, 2, 3]);
    assert_eq!(order(Order::Size, same(), [0; 4]), [3, 2, 1, 0]);
    // A higher level goes first in every order.
    let levels = || vec![level(0), level(1)];
    assert_eq!(order(Order::Fcfs, levels(), [1, 0, 1, 0]), [1, 3, 0, 2]);
    assert_eq!(order(Order::Size, levels(), [1, 0, 1, 0]), [3, 1, 2, 0]);
    let due = |after| ClassSpec {
        deadline: Some(ms(after)),
        ..ClassSpec::default()
    };
    let deadlines = vec![level(0), due(50), due(20)];
    assert_eq!(order(Order::Edf, deadlines, [0, 1, 2, 1]), [2, 1, 3, 0]);
    let worth = |value| ClassSpec {
        value,
        ..ClassSpec::default()
    };
    let values = vec![worth(1), worth(9)];
    assert_eq!(order(Order::Value, values, [0, 1, 0, 1]), [1, 3, 0, 2]);
}

#[test]
fn whoever_is_free_first_takes_the_first() {
    let mut station = Station::new(config(2));
    let (a, at_a) = started(station.arrive(at(0), &sized(1)));
    let (b, at_b) = started(station.arrive(at(0), &sized(1)));
    assert_eq!((at_a, at_b), (0, 1));
    let c = waits(station.arrive(at(0), &sized(1)));
    let d = waits(station.arrive(at(0), &sized(2)));
    station.finish(at(1), b, 1);
    let expected = |ticket, endpoint| Some(Event::Started { ticket, endpoint });
    assert_eq!(station.poll(), expected(c, 1));
    station.finish(at(1), a, 1);
    assert_eq!(station.poll(), expected(d, 0));
    assert_eq!(station.poll(), None);
}

#[test]
fn a_request_may_belong_to_an_endpoint() {
    let mut station = Station::new(StationConfig {
        dispatch: Dispatch::Sita(Intervals::Fixed(vec![100])),
        scope: Scope::Endpoint,
        ..config(2)
    });
    let (small, endpoint) = started(station.arrive(at(0), &sized(10)));
    assert_eq!(endpoint, 0);
    // Though the other endpoint is idle.
    let next = waits(station.arrive(at(0), &sized(20)));
    let (_, endpoint) = started(station.arrive(at(0), &sized(1000)));
    assert_eq!(endpoint, 1);
    assert_eq!(station.load(0).requests, 2);
    station.finish(at(1), small, 10);
    assert_eq!(
        station.poll(),
        Some(Event::Started {
            ticket: next,
            endpoint: 0
        })
    );
}

#[test]
fn full_queues_refuse_or_displace() {
    let mut station = Station::new(StationConfig {
        classes: vec![level(0), level(1)],
        max_waiting: 2,
        ..config(1)
    });
    started(station.arrive(at(0), &of_class(1)));
    let low = [10, 20].map(|bytes| {
        let arrival = Arrival {
            class: 1,
            ..sized(bytes)
        };
        waits(station.arrive(at(0), &arrival))
    });
    let another = station.arrive(at(0), &of_class(1));
    assert_eq!(refused(another), RefusalReason::QueueFull);
    // The last of the lowest level gives way to a higher level, not to its own.
    waits(station.arrive(at(0), &of_class(0)));
    match station.poll() {
        Some(Event::Refused { ticket, refusal }) => {
            assert_eq!((ticket, refusal.reason), (low[1], RefusalReason::Displaced));
        }
        other => panic!("{other:?}"),
    }
    waits(station.arrive(at(0), &of_class(0)));
    assert!(station.poll().is_some());
    let full = station.arrive(at(0), &of_class(0));
    assert_eq!(refused(full), RefusalReason::QueueFull);
    assert_eq!(station.waiting(), 2);
    let counted = station.stats();
    assert_eq!(counted[1].refused[RefusalReason::Displaced.index()], 2);
    assert_eq!(counted[1].refused[RefusalReason::QueueFull.index()], 1);
}

#[test]
fn a_class_has_its_pool() {
    let limited = ClassSpec {
        max_concurrency: 1,
        ..level(0)
    };
    let mut station = Station::new(StationConfig {
        classes: vec![limited, level(5)],
        max_requests: 3,
        ..config(1)
    });
    let (first, _) = started(station.arrive(at(0), &of_class(0)));
    let second = waits(station.arrive(at(0), &of_class(0)));
    // Its own limit holds it back, and nobody else.
    started(station.arrive(at(0), &of_class(1)));
    station.finish(at(1), first, 1);
    assert!(matches!(station.poll(), Some(Event::Started { ticket, .. }) if ticket == second));
}

#[test]
fn time_is_up_for_those_who_wait_too_long() {
    let patient = ClassSpec {
        timeout: Some(ms(500)),
        ..level(0)
    };
    let mut station = Station::new(StationConfig {
        classes: vec![patient, level(0)],
        ..config(1)
    });
    let (first, _) = started(station.arrive(at(0), &of_class(0)));
    let early = waits(station.arrive(at(100), &of_class(0)));
    waits(station.arrive(at(200), &of_class(0)));
    waits(station.arrive(at(0), &of_class(1)));
    assert_eq!(station.next_wakeup(), Some(at(600)));
    station.expire(at(599));
    assert_eq!(station.poll(), None);
    station.expire(at(600));
    match station.poll() {
        Some(Event::Refused { ticket, refusal }) => {
            assert_eq!((ticket, refusal.reason), (early, RefusalReason::Timeout));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(station.next_wakeup(), Some(at(700)));
    assert_eq!(station.waiting(), 2);
    // A void ticket changes nothing.
    station.cancel(at(600), early);
    station.finish(at(600), early, 1);
    assert_eq!(station.waiting(), 2);
    station.finish(at(601), first, 1);
    assert!(station.poll().is_some());
}

#[test]
fn late_ones_are_dropped_not_delayed() {
    let media = ClassSpec {
        deadline: Some(ms(25)),
        drop_late: true,
        ..level(0)
    };
    let mut station = Station::new(StationConfig {
        classes: vec![media],
        ..config(1)
    });
    // One every 10 ms.
    for n in 0..10 {
        let (ticket, _) = started(station.arrive(at(n * 10), &of_class(0)));
        station.finish(at(n * 10 + 10), ticket, 1);
    }
    let (first, _) = started(station.arrive(at(100), &of_class(0)));
    for _ in 0..3 {
        waits(station.arrive(at(100), &of_class(0)));
    }
    // Three before it: 30 ms.
    let late = station.arrive(at(100), &of_class(0));
    assert_eq!(refused(late), RefusalReason::Late);
    // The server stalls: who has missed the deadline is not started.
    station.finish(at(126), first, 1);
    for _ in 0..3 {
        match station.poll() {
            Some(Event::Refused { refusal, .. }) => {
                assert_eq!(refusal.reason, RefusalReason::Late);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(station.poll(), None);
    assert_eq!(station.load(0), EndpointLoad::default());
}

#[test]
fn nobody_gives_way_to_one_who_would_be_late() {
    let media = ClassSpec {
        deadline: Some(ms(15)),
        drop_late: true,
        ..level(0)
    };
    let mut station = Station::new(StationConfig {
        classes: vec![media, level(1)],
        max_waiting: 3,
        ..config(1)
    });
    // One every 10 ms.
    for n in 0..10 {
        let (ticket, _) = started(station.arrive(at(n * 10), &of_class(0)));
        station.finish(at(n * 10 + 10), ticket, 1);
    }
    started(station.arrive(at(100), &of_class(0)));
    waits(station.arrive(at(100), &of_class(0)));
    waits(station.arrive(at(100), &of_class(0)));
    waits(station.arrive(at(100), &of_class(1)));
    // The queue is full, and two before it are 20 ms.
    let late = station.arrive(at(100), &of_class(0));
    assert_eq!(refused(late), RefusalReason::Late);
    assert_eq!(station.poll(), None, "the low one waits on");
}

#[test]
fn intervals_are_learnt_from_those_who_have_not_finished_too() {
    let mut station = Station::new(StationConfig {
        dispatch: Dispatch::Sita(Intervals::Learnt),
        scope: Scope::Endpoint,
        max_requests: 1000,
        ..config(2)
    });
    let before = station.intervals().unwrap().to_vec();
    for _ in 0..256 {
        let (small, _) = started(station.arrive(at(0), &sized(1000)));
        station.finish(at(0), small, 1000);
        // It is known only when its response begins, and never ends.
        let (large, _) = started(station.arrive(at(0), &unsized_arrival()));
        station.resize(large, Size::Exact(100_000));
    }
    let after = station.intervals().unwrap();
    assert_ne!(after, before);
    // The large ones are almost all of the load.
    assert!((10_000..100_000).contains(&after[0].1), "{after:?}");
}

fn unsized_arrival() -> Arrival {
    Arrival {
        size: Size::Unknown,
        ..sized(0)
    }
}

#[test]
fn without_displacement_a_full_queue_is_full_for_all() {
    for scope in [Scope::Cluster, Scope::Endpoint] {
        let mut station = Station::new(StationConfig {
            classes: vec![level(0), level(1)],
            max_waiting: 2,
            scope,
            admission: Admission {
                displace: false,
                ..Admission::default()
            },
            ..config(1)
        });
        started(station.arrive(at(0), &of_class(1)));
        waits(station.arrive(at(0), &of_class(1)));
        waits(station.arrive(at(0), &of_class(1)));
        let high = station.arrive(at(0), &of_class(0));
        assert_eq!(refused(high), RefusalReason::QueueFull);
        assert_eq!(station.poll(), None);
        assert_eq!(station.waiting(), 2);
    }
}

#[test]
fn early_discard_takes_low_levels_first() {
    let low = ClassSpec {
        drop_thresholds: (0.25, 0.5),
        ..level(1)
    };
    let mut station = Station::new(StationConfig {
        classes: vec![level(0), low],
        admission: Admission {
            averaging: Duration::ZERO,
            ..Admission::default()
        },
        ..config(1)
    });
    started(station.arrive(at(0), &of_class(0)));
    let drawn = |station: &mut Station, random| {
        let arrival = Arrival {
            random,
            ..of_class(1)
        };
        station.arrive(at(1), &arrival)
    };
    for _ in 0..25 {
        waits(drawn(&mut station, 0));
    }
    // 37 of 100 wait: half way from the first threshold to the second.
    for _ in 0..12 {
        waits(station.arrive(at(1), &of_class(0)));
    }
    let below_half = u64::MAX / 100 * 47;
    let above_half = u64::MAX / 100 * 53;
    let discarded = drawn(&mut station, below_half);
    assert_eq!(refused(discarded), RefusalReason::EarlyDiscard);
    waits(drawn(&mut station, above_half));
    for _ in 0..12 {
        waits(station.arrive(at(1), &of_class(0)));
    }
    // 50: all of the low level, none of the high one.
    let discarded = drawn(&mut station, u64::MAX);
    assert_eq!(refused(discarded), RefusalReason::EarlyDiscard);
    for _ in 0..50 {
        waits(station.arrive(at(1), &of_class(0)));
    }
    assert_eq!(station.waiting(), 100);
}

#[test]
fn an_overloaded_channel_refuses_large_ones_of_low_priority() {
    let mut station = Station::new(StationConfig {
        classes: vec![level(0), level(5)],
        max_requests: 10,
        admission: Admission {
            channel: Some(ChannelRule {
                max_backlog: ms(100),
                large_bytes: 10_000,
                level: 3,
            }),
            ..Admission::default()
        },
        ..config(1)
    });
    let mut ask = |class, bytes, backlog| {
        let arrival = Arrival {
            class,
            channel_backlog: ms(backlog),
            ..sized(bytes)
        };
        station.arrive(at(0), &arrival)
    };
    assert_eq!(refused(ask(1, 10_000, 101)), RefusalReason::ChannelOverload);
    started(ask(1, 9_999, 101));
    started(ask(1, 10_000, 100));
    started(ask(0, 10_000, 101));
}

#[test]
fn an_overloaded_channel_refuses_what_would_be_late() {
    let media = ClassSpec {
        deadline: Some(ms(50)),
        drop_late: true,
        ..level(1)
    };
    let mut station = Station::new(StationConfig {
        classes: vec![media],
        max_requests: 10,
        admission: Admission {
            channel: Some(ChannelRule {
                max_backlog: ms(100),
                large_bytes: 10_000,
                level: 3,
            }),
            ..Admission::default()
        },
        ..config(1)
    });
    let mut ask = |backlog, ahead| {
        let arrival = Arrival {
            channel_backlog: ms(backlog),
            channel_ahead: ms(ahead),
            ..sized(10)
        };
        station.arrive(at(0), &arrival)
    };
    assert_eq!(refused(ask(101, 51)), RefusalReason::Late);
    started(ask(101, 50));
    started(ask(100, 51));
}

#[test]
fn others_are_tried_before_a_request_is_refused() {
    let mut station = Station::new(StationConfig {
        max_requests: 2,
        ..config(3)
    });
    let (ticket, first) = started(station.arrive(at(0), &sized(1)));
    let (same, second) = started(fail(&mut station, at(0), ticket));
    assert_eq!(same, ticket);
    let (_, third) = started(fail(&mut station, at(0), ticket));
    let mut tried = [first, second, third];
    tried.sort_unstable();
    assert_eq!(tried, [0, 1, 2]);
    assert_eq!(
        refused(fail(&mut station, at(0), ticket)),
        RefusalReason::NoEndpoint
    );
    for endpoint in 0..3 {
        assert_eq!(station.load(endpoint), EndpointLoad::default());
    }
}

#[test]
fn a_full_endpoint_redirects() {
    let mut station = Station::new(StationConfig {
        dispatch: Dispatch::RingHash,
        scope: Scope::Endpoint,
        max_waiting: 1,
        ..config(2)
    });
    // All have one hash: one endpoint, its queue, then the other one.
    let (_, first) = started(station.arrive(at(0), &sized(1)));
    waits(station.arrive(at(0), &sized(1)));
    let (_, other) = started(station.arrive(at(0), &sized(1)));
    assert_ne!(first, other);
    waits(station.arrive(at(0), &sized(1)));
    let full = station.arrive(at(0), &sized(1));
    assert_eq!(refused(full), RefusalReason::QueueFull);
}

#[test]
fn an_endpoint_that_has_come_back_starts_slowly() {
    let mut station = Station::new(StationConfig {
        dispatch: Dispatch::RoundRobin,
        max_requests: usize::MAX,
        slow_start: ms(1000),
        ..config(2)
    });
    let (ticket, endpoint) = started(station.arrive(at(0), &sized(1)));
    assert_eq!(endpoint, 0);
    started(fail(&mut station, at(0), ticket));
    let mut next = || started(station.arrive(at(0), &sized(1)));
    let (ticket, _) = std::iter::repeat_with(&mut next)
        .take(4)
        .find(|&(_, endpoint)| endpoint == 0)
        .expect("its turn comes");
    station.reached(at(0), ticket);
    let mut share = |now| {
        let picks = (0..110).map(|_| started(station.arrive(at(now), &sized(1))).1);
        picks.filter(|&endpoint| endpoint == 0).count()
    };
    let shares = [share(0), share(500), share(1000)];
    assert!(shares[0].abs_diff(10) <= 1, "{shares:?}");
    assert!(shares[1].abs_diff(37) <= 1, "{shares:?}");
    assert!(shares[2].abs_diff(55) <= 1, "{shares:?}");
}

#[test]
fn what_is_learnt_of_a_size_counts() {
    let mut station = Station::new(StationConfig {
        max_requests: 9,
        ..config(1)
    });
    let unknown = Arrival {
        size: Size::Unknown,
        ..sized(0)
    };
    let (ticket, _) = started(station.arrive(at(0), &unknown));
    station.resize(ticket, Size::Exact(5000));
    assert_eq!(station.load(0).work_bytes, 5000);
    station.cancel(at(0), ticket);
    assert_eq!(station.load(0), EndpointLoad::default());
}

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
