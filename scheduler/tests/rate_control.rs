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
