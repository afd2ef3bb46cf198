use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT_ENCODING, VARY};
use http::{HeaderMap, HeaderValue};

use tokio::time::Instant;

use super::*;
use crate::learnt::Learnt;

fn memory(max_bytes: usize) -> Memory {
    Memory {
        learnt: Arc::new(Learnt::new(max_bytes, Duration::from_secs(60))),
        hasher: KeyHasher::new(1, 2),
        vary: vec!["accept-encoding".to_owned()],
        kinds: vec![0],
        clusters: vec!["farm".to_owned()],
        started: Instant::now(),
        started_unix_s: 1_800_000_000,
    }
}

fn catalogue(max_bytes: usize) -> Catalogue {
    with_memory(memory(max_bytes))
}

fn with_memory(memory: Memory) -> Catalogue {
    Catalogue {
        memory: Arc::new(memory),
        sources: Sources {
            document_roots: vec![None],
            probes: vec![None],
            ..Sources::default()
        },
        estimator: None,
    }
}

fn asked(catalogue: &Catalogue, target: &str, encoding: &'static str) -> Asked {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(encoding));
    *ask(catalogue, target, &headers).unwrap()
}

fn ask(catalogue: &Catalogue, target: &str, headers: &HeaderMap) -> Option<Box<Asked>> {
    let to = Destination {
        cluster: 0,
        route: 0,
        host: "host",
        target: &target.parse().unwrap(),
        upstream: None,
    };
    catalogue.asked(&to, headers)
}

fn look_up(catalogue: &Catalogue, asked: &Asked) -> Option<u64> {
    let found = catalogue.in_memory(asked, &LayerStats::default());
    found.and_then(|found| found.size.bytes())
}

fn varying(by: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(VARY, HeaderValue::from_static(by))])
}

#[test]
fn variants_are_told_apart_where_the_response_says_so() {
    let catalogue = catalogue(1 << 20);
    for (path, vary, of_plain) in [
        ("/a", "Origin, accept-Encoding", 900),
        ("/b", "Origin", 900),
    ] {
        let gzip = asked(&catalogue, path, "gzip");
        let plain = asked(&catalogue, path, "identity");
        catalogue.learn(&catalogue.lesson(&gzip, &varying(vary)), 100);
        catalogue.learn(&catalogue.lesson(&plain, &varying(vary)), 900);
        let of_gzip = if path == "/a" { 100 } else { 900 };
        assert_eq!(look_up(&catalogue, &gzip), Some(of_gzip), "{path}");
        assert_eq!(look_up(&catalogue, &plain), Some(of_plain), "{path}");
    }
}

#[test]
fn a_flood_of_query_strings_stays_within_its_bytes() {
    let max_bytes = 1 << 20;
    let catalogue = Arc::new(catalogue(max_bytes));
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let catalogue = Arc::clone(&catalogue);
            std::thread::spawn(move || {
                for n in 0..250_000 {
                    let asked = asked(&catalogue, &format!("/?{thread}-{n}"), "gzip");
                    catalogue.learn(&catalogue.lesson(&asked, &HeaderMap::new()), n);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    let (bytes, capacity) = catalogue.memory.learnt.bytes_and_capacity();
    assert!(
        bytes <= max_bytes && capacity > 50_000,
        "{bytes} {capacity}"
    );
    let stats = catalogue.memory.learnt.stats();
    assert_eq!(stats.insertions, 1_000_000);
    assert_eq!(stats.entries, capacity);
}

#[test]
fn zero_bytes_switch_it_off() {
    let catalogue = catalogue(0);
    assert!(ask(&catalogue, "/a", &HeaderMap::new()).is_none());
}

#[test]
fn a_snapshot_brings_sizes_back_into_a_table_of_another_size() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sizes");
    let before = catalogue(1 << 20);
    for n in 0..500 {
        let asked = asked(&before, &format!("/{n}"), "gzip");
        before.learn(&before.lesson(&asked, &varying("accept-encoding")), n);
    }
    assert_eq!(before.memory.save(&path).unwrap(), 1000);
    let mut after = memory(2 << 20);
    after.hasher = KeyHasher::new(3, 4);
    after.restore(&path, false);
    let after = with_memory(after);
    for n in 0..500 {
        let asked = asked(&after, &format!("/{n}"), "gzip");
        assert_eq!(look_up(&after, &asked), Some(n));
    }
    // One that tells variants apart by something else cannot use it.
    let mut other = memory(1 << 20);
    other.vary.clear();
    other.restore(&path, false);
    assert_eq!(other.learnt.stats().entries, 0);
    // Those who share a store keep the secret that they share.
    let mut sharing = memory(1 << 20);
    sharing.hasher = KeyHasher::from_phrase(b"phrase");
    sharing.restore(&path, true);
    assert_eq!(sharing.learnt.stats().entries, 0);
    assert_eq!(sharing.hasher, KeyHasher::from_phrase(b"phrase"));
    // Nor is a damaged one used.
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let mut cold = memory(1 << 20);
    cold.restore(&path, false);
    assert_eq!(cold.learnt.stats().entries, 0);
}
