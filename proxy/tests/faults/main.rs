//! Tests of the proxy among clients and backends that fail, in virtual time.
//!
//! The whole run follows from its seed: the configuration, the requests, the answers, the delays
//! and the cuts. The proxy's own code runs, on sockets of the kernel. The network is simulated in
//! [`wire`], and time in [`time`].
//!
//! ```text
//! SEED=17 cargo test -p sprat --test faults        # one run, its trace printed
//! SEEDS=10000 cargo test -p sprat --test faults    # many; FROM=10000 the next
//! ```

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod backend;
mod client;
mod counts;
mod health;
mod http;
mod http2;
mod judge;
mod pipelined;
mod plan;
mod planted;
mod settings;
mod time;
mod tunnel;
mod wire;
mod world;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The number of runs, if the environment does not say otherwise.
const SEEDS: u64 = 200;

fn number(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    Some(value.parse().expect("a number"))
}

#[test]
fn nothing_is_lost_doubled_mixed_up_or_kept() {
    if let Some(seed) = number("SEED") {
        let outcome = world::run(seed);
        println!("{:#?}\n{}", plan::Plan::new(seed), outcome.trace.join("\n"));
        assert!(outcome.wrong.is_empty(), "{:#?}", outcome.wrong);
        return;
    }
    let first = number("FROM").unwrap_or(0);
    let (next, last) = (
        AtomicU64::new(first),
        first + number("SEEDS").unwrap_or(SEEDS),
    );
    let work = || {
        let mut wrong = Vec::new();
        loop {
            let seed = next.fetch_add(1, Relaxed);
            if seed >= last {
                return wrong;
            }
            let found = world::run(seed).wrong;
            if let Some(first) = found.first() {
                wrong.push(format!(
                    "{first}\n  and {} more: SEED={seed} cargo test -p sprat --test faults",
                    found.len() - 1
                ));
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let wrong = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let found = threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap());
        found.collect::<Vec<_>>()
    });
    assert!(
        wrong.is_empty(),
        "{} of {} runs:\n{}",
        wrong.len(),
        last - first,
        wrong.join("\n")
    );
}

fn assert_faultless(seeds: &[u64]) {
    for seed in seeds {
        let wrong = world::run(*seed).wrong;
        assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}");
    }
}

/// Guards against a deadline that has passed and is looked at again without a pause, so that no
/// time passes.
#[test]
fn a_deadline_that_has_passed_does_not_keep_a_worker_busy() {
    assert_faultless(&[999, 1374]);
}

/// Guards against sending bytes that come one by one in as many small frames. A late reader takes
/// these for a flood, and ends a connection that others share: backends in the first seed, clients
/// in the others.
#[test]
fn what_comes_in_small_pieces_is_no_flood() {
    assert_faultless(&[7508, 33452, 45325]);
}

/// Guards against taking a response that its backend cut for a whole one, before its head is
/// written. One had been given a wrong length, and one without a length seemed whole.
#[test]
fn what_a_backend_cuts_is_never_whole() {
    assert_faultless(&[537, 9519]);
}

/// Checks that a grant to a response that never went out is refunded. The metrics, which had been
/// read meanwhile, do not fall; the uplink's own sum does.
#[test]
fn what_was_taken_back_is_not_taken_for_sent() {
    assert_faultless(&[9205]);
}

/// Checks that unused connections to backends end. With HTTP/2 that is when the requests are over
/// that waited at a reload. With HTTP/1.1 it is when the endpoint reads nothing of a request that
/// is over.
#[test]
fn connections_that_nobody_wants_end() {
    assert_faultless(&[123_269, 141_227, 313_135]);
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in 0..16 {
        let (once, again) = (world::run(seed), world::run(seed));
        assert!(once.trace.len() > 10, "seed {seed}");
        if once.fingerprint() != again.fingerprint() {
            let mut both = once.trace.iter().zip(&again.trace);
            let parted = both.find(|(one, other)| one != other);
            panic!("seed {seed}: {parted:#?}");
        }
    }
}
