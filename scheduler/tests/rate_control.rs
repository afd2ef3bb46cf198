//! The controller on a simulated link: the real egress, TCP-like clients, a
//! drop-tail queue. Everything is seeded; `SPRAT_TRAJECTORY=1 cargo test -p
//! sprat-scheduler --test rate_control -- --nocapture` prints the runs.

mod link_sim;

use std::time::Duration;

use link_sim::{
    Controller, Fixed, Frontier, InFlightWindow, Link, Report, Request, Rng, Sim, ideal_srpt_ms,
    poisson, workload_sizes,
};

const MBIT: u64 = 1_000_000;

/// Round trips in microseconds; eight networks have each.
const NEAR: &[u64] = &[100];
const MIXED: &[u64] = &[100, 1000, 20_000, 80_000, 300_000];
const FAR: &[u64] = &[50_000, 80_000, 120_000, 180_000, 240_000];

fn run(
    name: &str,
    link: Link,
    requests: &[Request],
    seconds: u64,
    control: impl Controller,
) -> Report {
    let report = Sim::new(link, 1, requests, control).run(Duration::from_secs(seconds));
    report.print(name);
    report
}

fn lab_workload() -> (Vec<Request>, f64) {
    let near = |_: &mut Rng| (Duration::from_micros(100), 1);
    let requests = poisson(7, &workload_sizes(), 18_000, 10 * MBIT, 0.9, near);
    let ideal = ideal_srpt_ms(&requests, 10 * MBIT);
    (requests, ideal)
}

/// Mean response time of the lab's workload over the ideal.
fn ratio(name: &str, link: Link, control: impl Controller) -> f64 {
    let (requests, ideal) = lab_workload();
    let report = run(name, link, &requests, 300, control);
    assert_eq!(report.unfinished(), 0, "{name}");
    let ratio = report.mean_ms() / ideal;
    println!("{name}: {ratio:.3} of ideal SRPT");
    ratio
}

/// More than the link carries, so that it is always busy.
fn overload(rate: u64, seconds: u64, rtts: &'static [u64]) -> Vec<Request> {
    let count = (rate as f64 * 1.3 * seconds as f64 / 8.0 / 6300.0) as usize;
    poisson(3, &workload_sizes(), count, rate, 1.3, move |rng| {
        let network = rng.next() % (8 * rtts.len() as u64);
        let rtt = rtts[network as usize % rtts.len()];
        (Duration::from_micros(rtt), network)
    })
}

#[test]
fn comes_near_ideal_srpt_from_any_start() {
    for start in [2, 10, 500, 1000] {
        let name = format!("from {start} Mbit/s");
        let ratio = ratio(&name, Link::tbf(10 * MBIT), Frontier::new(start * MBIT));
        assert!(ratio < 1.33, "{name}: {ratio:.3}");
    }
}

#[test]
fn holds_on_other_links_clients_and_drivers() {
    let lab = Link::tbf(10 * MBIT);
    let wire = Link {
        burst_bytes: 0,
        ..lab.clone()
    };
    let delayed_acks = Link {
        quick_acks: 0,
        ..lab.clone()
    };
    let late_timers = Link {
        lateness_us: (0, 1000),
        ..lab.clone()
    };
    let slow_polls = Link {
        poll_us: (2000, 5000),
        ..lab
    };
    for (name, link, bound) in [
        ("wire", wire, 1.33),
        ("delayed acknowledgements", delayed_acks, 1.35),
        ("late timers", late_timers, 1.35),
        ("slow polls", slow_polls, 1.55),
    ] {
        for start in [2, 1000] {
            let ratio = ratio(name, link.clone(), Frontier::new(start * MBIT));
            assert!(ratio < bound, "{name} from {start}: {ratio:.3}");
        }
    }
}

/// The alternatives: a number that is 2% too high, and a bound on the bytes in
/// flight.
#[test]
fn beats_a_wrong_number_and_a_window() {
    let lab = Link::tbf(10 * MBIT);
    let ours = ratio("frontier", lab.clone(), Frontier::new(2 * MBIT));
    let exact = ratio("fixed at the link's rate", lab.clone(), Fixed(10 * MBIT));
    let high = ratio("fixed 2% above", lab.clone(), Fixed(10_200_000));
    let window = ratio("window", lab, InFlightWindow::new(2 * MBIT, 3));
    assert!(exact < ours && ours < window && ours < high);
}

#[test]
fn converges_within_seconds_and_keeps_the_queue_short() {
    let requests = overload(10 * MBIT, 15, NEAR);
    for start in [2, 500] {
        let name = format!("overload from {start} Mbit/s");
        let report = run(
            &name,
            Link::tbf(10 * MBIT),
            &requests,
            15,
            Frontier::new(start * MBIT),
        );
        let rate = report.average(3.0, 15.0, |p| p.rate_mbit);
        let carried = report.average(3.0, 15.0, |p| p.carried_mbit);
        let queue = report.average(3.0, 15.0, |p| p.queue_ms);
        println!("{name}: pacer {rate:.2}, carried {carried:.2} Mbit/s, queue {queue:.2} ms");
        assert!((9.5..10.6).contains(&rate), "{name}: {rate}");
        assert!(carried > 9.8, "{name}: {carried}");
        assert!(queue < 6.0, "{name}: {queue}");
    }
}

#[test]
fn fills_the_link_whatever_the_round_trips() {
    for (name, rate, rtts, quick_acks, start, seconds, least) in [
        ("near 1M", 1, NEAR, 16, 1000, 60, 0.97),
        ("mixed 1M", 1, MIXED, 16, 1000, 60, 0.96),
        ("mixed 10M", 10, MIXED, 16, 1000, 30, 0.95),
        ("mixed 10M from 2", 10, MIXED, 16, 2, 30, 0.95),
        ("mixed 10M, delayed", 10, MIXED, 0, 1000, 30, 0.94),
        ("far 10M", 10, FAR, 16, 1000, 30, 0.95),
        ("far 10M, delayed", 10, FAR, 0, 1000, 30, 0.92),
        ("mixed 100M from 10", 100, MIXED, 16, 10, 10, 0.95),
    ] {
        let link = Link {
            quick_acks,
            ..Link::tbf(rate * MBIT)
        };
        let requests = overload(rate * MBIT, seconds, rtts);
        let report = run(name, link, &requests, seconds, Frontier::new(start * MBIT));
        let (from, to) = (seconds as f64 / 2.0, seconds as f64);
        let carried = report.average(from, to, |p| p.carried_mbit) / rate as f64;
        let queue = report.average(from, to, |p| p.queue_ms);
        println!("{name}: carried {carried:.3} of the link, queue {queue:.2} ms");
        assert!(carried > least, "{name}: {carried:.3}");
        assert!(queue < 60.0, "{name}: {queue:.2}");
    }
}

#[test]
fn follows_a_link_that_changes_its_rate() {
    let at = Duration::from_secs;
    let link = Link {
        rates: vec![
            (Duration::ZERO, 10 * MBIT),
            (at(10), 3 * MBIT),
            (at(20), 10 * MBIT),
        ],
        ..Link::tbf(10 * MBIT)
    };
    let requests = overload(10 * MBIT, 30, NEAR);
    let report = run("steps", link, &requests, 30, Frontier::new(10 * MBIT));
    for (from, to, rate) in [(3.0, 10.0, 10.0), (12.0, 20.0, 3.0), (22.0, 30.0, 10.0)] {
        let carried = report.average(from, to, |p| p.carried_mbit) / rate;
        let queue = report.average(from, to, |p| p.queue_ms);
        println!("{from} to {to} s: carried {carried:.3} of the link, queue {queue:.2} ms");
        assert!(carried > 0.95, "{from}: {carried}");
        assert!(queue < 20.0, "{from}: {queue}");
    }
}

/// 20 Mbit/s offered to a link of 10 Gbit/s.
#[test]
fn does_not_throttle_where_the_uplink_is_not_the_bottleneck() {
    let rtt = |rng: &mut Rng| (Duration::from_micros(200), rng.next() % 8);
    let requests = poisson(5, &workload_sizes(), 6000, 20 * MBIT, 1.0, rtt);
    let link = Link {
        limit_packets: 1000,
        ..Link::tbf(10_000 * MBIT)
    };
    let free = run(
        "unlimited",
        link.clone(),
        &requests,
        60,
        Fixed(10_000 * MBIT),
    )
    .mean_ms();
    for (start, bound) in [(1000, 1.15), (30, 2.0)] {
        let report = run(
            "auto",
            link.clone(),
            &requests,
            60,
            Frontier::new(start * MBIT),
        );
        let ratio = report.mean_ms() / free;
        println!("from {start} Mbit/s: {ratio:.3} of unlimited");
        assert!(ratio < bound, "from {start}: {ratio:.3}");
    }
}

/// Half of the clients sit behind 2 Mbit/s each; their queues are not ours.
#[test]
fn slow_clients_do_not_slow_the_others() {
    let rtt = |rng: &mut Rng| {
        let network = rng.next() % 8;
        (Duration::from_millis(5 + 3 * network), network)
    };
    let mut requests = poisson(5, &workload_sizes(), 12_000, 100 * MBIT, 0.5, rtt);
    for slow in requests.iter_mut().step_by(2) {
        slow.path_bits_per_s = Some(2 * MBIT);
    }
    let link = Link::tbf(100 * MBIT);
    let fixed = run("fixed", link.clone(), &requests, 60, Fixed(98 * MBIT)).mean_ms();
    let ours = run("auto", link, &requests, 60, Frontier::new(1000 * MBIT)).mean_ms();
    println!("slow clients: {:.3} of a right number", ours / fixed);
    assert!(ours < 1.1 * fixed, "{ours:.2} against {fixed:.2} ms");
}
