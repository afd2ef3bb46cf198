//! What a look-up costs, by the number of sizes that are known: the hash of a
//! resource (`key`), the table alone (`look_up`), and both (`asked`).
//!
//! `cargo bench -p sprat-scheduler --bench catalogue`

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use sprat_scheduler::catalogue::{KeyHasher, Resource, Table};

const ENTRIES: [usize; 3] = [1_000, 100_000, 1_000_000];

const HASHER: KeyHasher = KeyHasher::new(1, 2);

fn url(n: usize) -> String {
    format!("/assets/2026/11/{n}/image-large.jpg?v={n}")
}

fn resource(url: &str) -> Resource {
    Resource {
        url: HASHER.url("farm", "www.example.org", url),
        values: [HASHER.value(b"gzip, deflate, br, zstd"), 0, 0, 0],
    }
}

/// A table with so many entries, and the URLs of some in no order. They lie
/// one after the other: it is the table's memory that is to be waited for.
fn table(entries: usize) -> (Table, String) {
    // A tenth more room than is needed, as sets fill unevenly.
    let mut table = Table::new(entries * 18 * 11 / 10 + 4096, u32::MAX);
    for n in 0..entries {
        table.learn(&resource(&url(n)), n as u64, 0, 0);
    }
    let asked = (0..65_536).map(|n| url(n * 7_919_317 % entries) + "\n");
    (table, asked.collect())
}

fn look_ups(c: &mut Criterion) {
    let mut group = c.benchmark_group("catalogue");
    for entries in ENTRIES {
        let (mut table, asked) = table(entries);
        let mut next = asked.lines().cycle();
        let resources: Vec<Resource> = asked.lines().map(resource).collect();
        let mut known = resources.iter().cycle();
        group.bench_with_input(BenchmarkId::new("look_up", entries), &entries, |b, _| {
            b.iter(|| known.next().map(|resource| table.look_up(resource, 1)));
        });
        group.bench_with_input(BenchmarkId::new("asked", entries), &entries, |b, _| {
            b.iter(|| {
                let url = next.next().unwrap_or_default();
                black_box(table.look_up(&resource(url), 1))
            });
        });
        let mut n = 0_u64;
        group.bench_with_input(BenchmarkId::new("learn", entries), &entries, |b, _| {
            b.iter(|| {
                n += 1;
                let url = next.next().unwrap_or_default();
                table.learn(&resource(url), black_box(n), 0, 1);
            });
        });
    }
    let url = url(7);
    group.bench_function("key", |b| b.iter(|| resource(black_box(&url))));
    group.finish();
}

criterion_group!(benches, look_ups);
criterion_main!(benches);
