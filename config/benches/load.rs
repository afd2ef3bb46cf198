//! How long it takes to read a configuration of 1 MB: 10,000 routes, each with a host, a
//! prefix, a field and a cluster.
//!
//! `SPRAT_CONFIG=FILE` has it write the configuration there, too.

use std::fmt::Write as _;
use std::time::Instant;

/// Routes of the configuration.
const ROUTES: usize = 10_000;
/// Clusters that they lead to.
const CLUSTERS: usize = 200;
/// Times that it is read.
const RUNS: usize = 15;

fn main() {
    let text = farm();
    if let Ok(file) = std::env::var("SPRAT_CONFIG") {
        std::fs::write(file, &text).expect("the file can be written");
    }
    let mut times: Vec<_> = (0..RUNS)
        .map(|_| {
            let begun = Instant::now();
            let loaded = sprat_config::parse(&text, "farm.yaml", &|_| None);
            let took = begun.elapsed();
            let loaded = loaded.unwrap_or_else(|errors| panic!("{errors}"));
            assert_eq!(loaded.config.routes.len(), ROUTES);
            took
        })
        .collect();
    times.sort_unstable();
    println!(
        "{} bytes, {ROUTES} routes: median {:.1} ms, fastest {:.1} ms, slowest {:.1} ms of {RUNS}",
        text.len(),
        times[RUNS / 2].as_secs_f64() * 1e3,
        times[0].as_secs_f64() * 1e3,
        times[RUNS - 1].as_secs_f64() * 1e3,
    );
}

/// A farm that fills a configuration.
fn farm() -> String {
    let mut text = "version: 1\nadmin: {address: '127.0.0.1:9911'}\nlisteners: [{address: \
                    '127.0.0.1:9910'}]\nuplink: {rate: unlimited}\nclusters:\n"
        .to_owned();
    for cluster in 0..CLUSTERS {
        writeln!(text, "  c{cluster}: {{endpoints: ['127.0.0.1:9912']}}").expect("a string");
    }
    text += "routes:\n";
    for route in 0..ROUTES {
        writeln!(
            text,
            "- match: {{hosts: [s{}.example.org], prefix: /p{route}, headers: [{{name: x-t, value: \
             a}}]}}\n  cluster: c{}",
            route % 1000,
            route % CLUSTERS
        )
        .expect("a string");
    }
    text
}
