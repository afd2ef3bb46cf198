use std::time::Duration;

use super::*;
use crate::dispatch::{EndpointSpec, Intervals};

mod admission;
mod changes;
mod limits;
mod operations;
mod priorities;
mod sessions;
mod shares;
mod srq;

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
        priority: 0,
    }
}

/// Returns the parameters for one class, with room for one request at each endpoint.
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

/// Tries another endpoint, if there is one, after the ticket's could not be reached.
fn fail(station: &mut Station, now: Time, ticket: Ticket) -> Verdict {
    station.unreached(ticket);
    match station.step_back(now, ticket, false) {
        Again::Elsewhere => station.again(now, ticket),
        _ => {
            station.cancel(now, ticket);
            Verdict::Refuse(Refusal::without_delay(RefusalReason::NoEndpoint))
        }
    }
}

/// Serves all requests that wait, one after the other; returns their order by arrival.
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

/// Returns the order in which four requests of sizes 4, 3, 2, 1 (in hundreds) and these classes are
/// served.
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
    assert_eq!(
        order(Order::Edf, deadlines.clone(), [0, 1, 2, 1]),
        [2, 1, 3, 0]
    );
    // Equal values: the shortest deadline, and again none is last.
    assert_eq!(order(Order::Vrd, deadlines, [0, 1, 2, 1]), [2, 1, 3, 0]);
    let soft = |mut spec: ClassSpec, after| {
        spec.soft_deadline = Some(ms(after));
        spec
    };
    let soft = vec![due(50), soft(due(90), 10)];
    assert_eq!(order(Order::Edf, soft.clone(), [0, 1, 0, 1]), [1, 3, 0, 2]);
    assert_eq!(order(Order::Vrd, soft, [0, 1, 0, 1]), [1, 3, 0, 2]);
    let worth = |value| ClassSpec {
        value,
        ..ClassSpec::default()
    };
    let values = vec![worth(1), worth(9)];
    assert_eq!(order(Order::Value, values, [0, 1, 0, 1]), [1, 3, 0, 2]);
}

#[test]
fn by_value_over_deadline_the_late_come_last() {
    let due = ClassSpec {
        deadline: Some(ms(50)),
        ..ClassSpec::default()
    };
    let mut station = Station::new(StationConfig {
        max_requests: 1,
        order: Order::Vrd,
        classes: vec![due],
        ..config(1)
    });
    let (first, _) = started(station.arrive(at(0), &of_class(0)));
    let late = waits(station.arrive(at(10), &of_class(0)));
    let timely = waits(station.arrive(at(30), &of_class(0)));
    // The first to come is late at 60 ms, the other at 80.
    let mut twin = station.clone();
    assert_eq!(served_from(&mut station, at(59), first), late);
    assert_eq!(served_from(&mut twin, at(60), first), timely);
}

/// Ends a request, and returns the one that starts in its place.
fn served_from(station: &mut Station, now: Time, ticket: Ticket) -> Ticket {
    station.finish(now, ticket, 100);
    match station.poll() {
        Some(Event::Started { ticket, .. }) => ticket,
        other => panic!("{other:?}"),
    }
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
    // The class's limit holds its own request back, and no other.
    started(station.arrive(at(0), &of_class(1)));
    station.finish(at(1), first, 1);
    assert!(matches!(station.poll(), Some(Event::Started { ticket, .. }) if ticket == second));
}

/// Creates a station of two endpoints, whose intervals of sizes are learnt.
fn learning() -> Station {
    Station::new(StationConfig {
        dispatch: Dispatch::Sita(Intervals::Learnt),
        scope: Scope::Endpoint,
        max_requests: 1000,
        ..config(2)
    })
}

#[test]
fn intervals_are_learnt_from_those_who_have_not_finished_too() {
    let mut station = learning();
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

#[test]
fn one_that_was_not_asked_is_not_tried_again_but_does_not_start_slowly() {
    for (is_down, expected) in [(false, 10), (true, 2)] {
        let mut station = Station::new(StationConfig {
            slow_start: ms(10_000),
            ..config(2)
        });
        let (ticket, first) = started(station.arrive(at(0), &sized(1)));
        if is_down {
            station.unreached(ticket);
        }
        assert_eq!(station.step_back(at(0), ticket, false), Again::Elsewhere);
        let (ticket, second) = started(station.again(at(0), ticket));
        assert_eq!(second, 1 - first);
        station.finish(at(0), ticket, 1);
        let mut served = [0_usize; 2];
        for _ in 0..20 {
            let (ticket, endpoint) = started(station.arrive(at(1), &sized(1)));
            station.reached(at(1), ticket);
            station.finish(at(1), ticket, 1);
            served[endpoint] += 1;
        }
        assert!(served[first].abs_diff(expected) <= 1, "{served:?}");
    }
}
