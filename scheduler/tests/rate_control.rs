//! The controller on a simulated link.

mod link_sim;

use std::time::Duration;

use link_sim::{
    Controller, Fixed, Frontier, InFlightWindow, Link, Report, Request, Rng, Sim, ideal_srpt_ms,
    poisson, workload_sizes,
};

const MBIT: u64 = 1_000_000;

fn near(_: &mut Rng) -> (Duration, u64) {
    (Duration::from_micros(100), 1)
}

fn run(name: &str, link: Link, requests: &[Request], seconds: u64, control: impl Controller) -> Report {
    let report = Sim::new(link, 1, requests, control).run(Duration::from_secs(seconds));
    report.print(name);
    report
}

#[test]
fn study() {
    let requests = poisson(7, &workload_sizes(), 18_000, 10 * MBIT, 0.9, near);
    let ideal = ideal_srpt_ms(&requests, 10 * MBIT);
    println!("ideal {ideal:.2}");
    for (name, rate) in [("fixed 9.8", 9_800_000), ("fixed 9.6", 9_600_000), ("fixed 10", 10 * MBIT), ("fixed 10.2", 10_200_000)] {
        let report = run(name, Link::tbf(10 * MBIT), &requests, 200, Fixed(rate));
        println!("{name}: {:.2} {:.2}", report.mean_ms(), report.mean_ms() / ideal);
    }
    for segments in [2, 3, 4, 6] {
        let report = run("window", Link::tbf(10 * MBIT), &requests, 200, InFlightWindow::new(2 * MBIT, segments));
        println!("window {segments}: {:.2} {:.2} unfinished {}", report.mean_ms(), report.mean_ms() / ideal, report.unfinished());
    }
    for start in [2, 10, 500, 1000] {
        let report = run("frontier", Link::tbf(10 * MBIT), &requests, 200, Frontier::new(start * MBIT));
        println!("frontier from {start}: {:.2} {:.2} unfinished {}", report.mean_ms(), report.mean_ms() / ideal, report.unfinished());
    }
}

/// Mean response time over the ideal, from `start_mbit`, on a link.
fn ratio(name: &str, link: Link, start_mbit: u64) -> f64 {
    let requests = poisson(7, &workload_sizes(), 18_000, 10 * MBIT, 0.9, near);
    let report = run(name, link, &requests, 300, Frontier::new(start_mbit * MBIT));
    assert_eq!(report.unfinished(), 0);
    report.mean_ms() / ideal_srpt_ms(&requests, 10 * MBIT)
}

/// `count` clients that each want more than they will get.
fn greedy(count: u64, rtt_us: impl Fn(u64) -> u64) -> Vec<Request> {
    (0..count)
        .map(|i| Request {
            at: Duration::from_millis(i * 3),
            bytes: 1 << 40,
            rtt: Duration::from_micros(rtt_us(i)),
            network: i,
            path_bits_per_s: None,
        })
        .collect()
}

#[test]
fn matrix() {
    for (name, link) in [
        ("tbf", Link::tbf(10 * MBIT)),
        ("wire", Link { burst_bytes: 0, ..Link::tbf(10 * MBIT) }),
        ("delack", Link { quick_acks: 0, ..Link::tbf(10 * MBIT) }),
        ("slowpoll", Link { poll_us: (2000, 5000), ..Link::tbf(10 * MBIT) }),
        ("late", Link { lateness_us: (0, 1000), ..Link::tbf(10 * MBIT) }),
    ] {
        for start in [2, 1000] {
            println!("{name} from {start}: unfinished {:.3}", ratio(name, link.clone(), start));
        }
    }
    let over = |rate: u64, seconds: u64, rtts: &'static [u64]| {
        let count = (rate as f64 * 1.3 * seconds as f64 / 8.0 / 6300.0) as usize;
        poisson(3, &workload_sizes(), count, rate, 1.3, move |rng| {
            let net = rng.next() % 40;
            (Duration::from_micros(rtts[net as usize % rtts.len()]), net)
        })
    };
    const NEAR: &[u64] = &[100];
    const MIXED: &[u64] = &[100, 1000, 20_000, 80_000, 300_000];
    const FAR: &[u64] = &[50_000, 80_000, 120_000, 180_000, 240_000];
    let quick = |rate| Link::tbf(rate);
    let del = |rate| Link { quick_acks: 0, ..Link::tbf(rate) };
    for (name, link, requests, start, seconds) in [
        ("near 1M", quick(MBIT), over(MBIT, 60, NEAR), 1000, 60),
        ("mixed 1M", quick(MBIT), over(MBIT, 60, MIXED), 1000, 60),
        ("mixed 10M", quick(10 * MBIT), over(10 * MBIT, 30, MIXED), 1000, 30),
        ("mixed 10M del", del(10 * MBIT), over(10 * MBIT, 30, MIXED), 1000, 30),
        ("mixed 10M from 2", quick(10 * MBIT), over(10 * MBIT, 30, MIXED), 2, 30),
        ("far 10M", quick(10 * MBIT), over(10 * MBIT, 30, FAR), 1000, 30),
        ("far 10M from 2", quick(10 * MBIT), over(10 * MBIT, 30, FAR), 2, 30),
        ("far 10M del", del(10 * MBIT), over(10 * MBIT, 30, FAR), 1000, 30),
        ("mixed 100M", quick(100 * MBIT), over(100 * MBIT, 10, MIXED), 1000, 10),
        ("mixed 100M from 10", quick(100 * MBIT), over(100 * MBIT, 10, MIXED), 10, 10),
        ("near 1G", quick(1000 * MBIT), over(1000 * MBIT, 3, NEAR), 10, 3),
        ("near 10G", Link { limit_packets: 2000, ..quick(10_000 * MBIT) }, over(10_000 * MBIT, 2, NEAR), 1000, 2),
        ("steps", Link { rates: vec![(Duration::ZERO, 10 * MBIT), (Duration::from_secs(10), 3 * MBIT), (Duration::from_secs(20), 10 * MBIT)], ..quick(10 * MBIT) }, over(10 * MBIT, 30, MIXED), 10, 30),
    ] {
        let report = run(name, link.clone(), &requests, seconds, Frontier::new(start * MBIT));
        let full = link.rates[0].1 as f64 / 1e6;
        let (from, to) = (seconds as f64 / 2.0, seconds as f64);
        println!("{name}: unfinished carried {:.3} queue {:.2} ms rate {:.3} drops {}",
            report.average(from, to, |p| p.carried_mbit) / full,
            report.average(from, to, |p| p.queue_ms),
            report.average(from, to, |p| p.rate_mbit) / full, report.drops);
    }
}
