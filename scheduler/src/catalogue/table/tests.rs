use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::catalogue::KeyHasher;

const HASHER: KeyHasher = KeyHasher::new(7, 11);

fn resource(path: &str) -> Resource {
    Resource {
        url: HASHER.url("farm", "host", path),
        values: [0; 4],
    }
}

fn encoded(path: &str, encoding: &str) -> Resource {
    Resource {
        values: [HASHER.value(encoding.as_bytes()), 0, 0, 0],
        ..resource(path)
    }
}

fn bytes(table: &mut Table, path: &str, now_s: u32) -> Option<u64> {
    let known = table.look_up(&resource(path), now_s);
    known.map(|known| known.bytes)
}

#[test]
fn learns_forgets_and_counts() {
    let mut table = Table::new(1 << 20, 60);
    assert_eq!(bytes(&mut table, "/a", 100), None);
    table.learn(&resource("/a"), 1000, 0, 100);
    assert_eq!(bytes(&mut table, "/a", 100), Some(1000));
    assert_eq!(bytes(&mut table, "/a", 159), Some(1000));
    assert_eq!(bytes(&mut table, "/a", 160), None);
    // A clock that went back makes nothing older.
    assert_eq!(bytes(&mut table, "/a", 50), Some(1000));
    table.learn(&resource("/a"), 2000, 0, 160);
    assert_eq!(bytes(&mut table, "/a", 161), Some(2000));
    let expected = TableStats {
        entries: 1,
        insertions: 1,
        evictions: 0,
        expired: 1,
    };
    assert_eq!(table.stats(), expected);
    table.forget(resource("/a").url);
    assert_eq!(bytes(&mut table, "/a", 161), None);
    assert_eq!(table.stats().entries, 0);
}

#[test]
fn what_is_seen_again_is_trusted_more() {
    let mut table = Table::new(1 << 20, 60);
    let mut confidences = Vec::new();
    for bytes in [100, 100, 100, 100, 100, 500] {
        table.learn(&resource("/a"), bytes, 0, 0);
        confidences.push(table.look_up(&resource("/a"), 0).unwrap().confidence);
    }
    assert_eq!(confidences, [0.8, 0.9, 0.95, 0.98, 0.98, 0.8]);
}

#[test]
fn variants_have_sizes_of_their_own() {
    let mut table = Table::new(1 << 20, 60);
    let (gzip, plain) = (encoded("/a", "gzip"), encoded("/a", "identity"));
    table.learn(&gzip, 100, 0b1, 0);
    // Another variant's size is better than none.
    let other = Known {
        bytes: 100,
        confidence: OTHER_VARIANT,
    };
    assert_eq!(table.look_up(&plain, 0), Some(other));
    // An answer without `Vary` does not undo what is known.
    table.learn(&plain, 900, 0, 0);
    let sizes = [&gzip, &plain].map(|asked| table.look_up(asked, 0).unwrap().bytes);
    assert_eq!(sizes, [100, 900]);
    // What does not vary by the field has one size for all.
    table.learn(&encoded("/b", "gzip"), 50, 0, 0);
    let known = table.look_up(&encoded("/b", "identity"), 0).unwrap();
    assert_eq!((known.bytes, known.confidence), (50, 0.8));
}

#[test]
fn ten_million_query_strings_stay_within_their_bytes() {
    const MANY: u64 = 10_000_000;
    let max_bytes = 1 << 20;
    let mut table = Table::new(max_bytes, 60);
    let room = table.capacity();
    assert_eq!(room, max_bytes / 288 * 16);
    // Asked for now and then all the while.
    let popular: Vec<_> = (0..100).map(|n| resource(&format!("/{n}"))).collect();
    for resource in popular.iter().chain(&popular) {
        table.learn(resource, 7, 0, 0);
        assert!(table.look_up(resource, 0).is_some());
    }
    for n in 0..MANY {
        table.learn(&resource(&format!("/?{n}")), n, 0, 0);
        if n % 1000 == 0 {
            table.look_up(&popular[(n / 1000 % 100) as usize], 0);
        }
    }
    assert!(table.bytes() <= max_bytes);
    let stats = table.stats();
    assert_eq!(stats.entries, room);
    assert_eq!(stats.insertions - stats.evictions, room as u64);
    let kept = popular.iter().filter_map(|r| table.look_up(r, 0)).count();
    assert_eq!(kept, popular.len());
}

#[test]
fn too_few_bytes_learn_nothing() {
    let mut table = Table::new(287, 60);
    table.learn(&resource("/a"), 1, 0b1, 0);
    assert_eq!(bytes(&mut table, "/a", 0), None);
    assert_eq!((table.capacity(), table.stats().entries), (0, 0));
}

#[test]
fn a_flood_does_not_evict_what_is_asked_for_often() {
    let mut table = Table::new(288 * 64, 600);
    let popular: Vec<Resource> = (0..512)
        .map(|n| resource(&format!("/popular/{n}")))
        .collect();
    let mut hits = 0;
    for round in 0..40 {
        for (n, resource) in popular.iter().enumerate() {
            match table.look_up(resource, 0) {
                // The first two rounds warm it up.
                Some(known) if round >= 2 => {
                    assert_eq!(known.bytes, n as u64);
                    hits += 1;
                }
                Some(_) => {}
                None => table.learn(resource, n as u64, 0, 0),
            }
            // For each request that is often made, two that never come again.
            for flood in 0..2 {
                let once = resource_of_flood(round, n, flood);
                assert_eq!(table.look_up(&once, 0), None);
                table.learn(&once, 1, 0, 0);
            }
        }
    }
    // Between two requests for one of the popular, 24 others come to its set of
    // 16: least recently used would keep none. The few that are lost are in
    // sets to which more of the popular fall than they hold.
    let share = f64::from(hits) / (38.0 * 512.0);
    assert!(share > 0.95, "{share}");
}

fn resource_of_flood(round: usize, n: usize, flood: usize) -> Resource {
    resource(&format!("/search?q={round}-{n}-{flood}"))
}

#[test]
fn parts_hold_what_a_whole_holds() {
    let mut parts = Table::split(1 << 20, 8, 60);
    let asked = |n: u64| encoded(&format!("/{n}"), "gzip");
    let part = |n: u64| Table::part_of(asked(n).url, 8);
    for n in 0..2000 {
        parts[part(n)].learn(&asked(n), n, 0b1, 0);
    }
    for n in 0..2000 {
        let known = parts[part(n)].look_up(&asked(n), 0).unwrap();
        assert_eq!((known.bytes, known.confidence), (n, 0.8));
    }
    assert!(parts.iter().all(|part| part.stats().entries > 300));
    assert!(parts.iter().map(Table::bytes).sum::<usize>() <= 1 << 20);
}

#[test]
fn entries_move_to_a_table_of_another_size() {
    let mut before = Table::new(100_000, 60);
    for n in 0..1000 {
        before.learn(&resource(&format!("/{n}")), n, 0, n as u32 / 100);
    }
    let mut after = Table::split(300_000, 4, 60);
    let mut restored = 0;
    for (packed, asked_again) in before.entries(62) {
        let part = Table::part_of(packed.key(), 4);
        assert!(after[part].restore(packed, asked_again, 62));
        restored += 1;
    }
    // Those of the first three seconds have expired.
    assert_eq!(restored, 700);
    for n in [300, 555, 999] {
        let asked = resource(&format!("/{n}"));
        let part = &mut after[Table::part_of(asked.url, 4)];
        assert_eq!(part.look_up(&asked, 62).unwrap().bytes, n);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Learn(u8, u64, u8),
    LookUp(u8),
    Wait(u8),
    Forget(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0_u8..60, 0_u64..5000, 0_u8..16).prop_map(|(n, b, f)| Step::Learn(n, b, f)),
        4 => (0_u8..60).prop_map(Step::LookUp),
        1 => (0_u8..20).prop_map(Step::Wait),
        1 => (0_u8..60).prop_map(Step::Forget),
    ]
}

proptest! {
    /// Checks that a table tells only the size last learnt, within its time, and never holds more
    /// entries than it has room for.
    #[test]
    fn it_says_what_was_last_learnt_or_nothing(steps in prop::collection::vec(step(), 1..300)) {
        let mut table = Table::new(288 * 3, 30);
        let mut last: HashMap<u8, (u64, u32)> = HashMap::new();
        let mut now_s = 0;
        for step in steps {
            match step {
                Step::Learn(n, bytes, fields) => {
                    table.learn(&resource(&n.to_string()), bytes, fields, now_s);
                    last.insert(n, (bytes, now_s));
                }
                Step::LookUp(n) => {
                    if let Some(known) = table.look_up(&resource(&n.to_string()), now_s) {
                        let (bytes, learnt_s) = last[&n];
                        prop_assert_eq!(known.bytes, bytes);
                        prop_assert!(now_s - learnt_s < 30);
                    }
                }
                Step::Wait(seconds) => now_s += u32::from(seconds),
                Step::Forget(n) => {
                    table.forget(resource(&n.to_string()).url);
                    last.remove(&n);
                }
            }
            prop_assert!(table.stats().entries <= table.capacity());
        }
        let held = table.entries(0).count();
        prop_assert_eq!(held, table.stats().entries);
    }
}

#[test]
fn memory_is_divided_into_sets_of_288_bytes() {
    let table = Table::new(1 << 20, 60);
    assert_eq!(table.bytes(), 3640 * 288);
    assert_eq!(table.capacity(), 3640 * 16);
    assert_eq!(sets_of_a_part(288 * 8 - 1, 4), 1);
    // No more than the highest 32 bits of a key tell apart, in all parts together.
    assert_eq!(sets_of_a_part(usize::MAX, 1), u32::MAX as usize);
    assert_eq!(sets_of_a_part(usize::MAX, 2), (1 << 31) - 1);
}

#[test]
fn what_gives_way_and_what_is_restored_is_counted() {
    let mut table = Table::new(288, 60);
    for n in 0..19 {
        table.learn(&resource(&format!("/{n}")), n, 0, 0);
    }
    let expected = TableStats {
        entries: 16,
        insertions: 19,
        evictions: 3,
        expired: 0,
    };
    assert_eq!(table.stats(), expected);
    let mut after = Table::new(288, 60);
    for (packed, asked_again) in table.entries(0) {
        assert!(after.restore(packed, asked_again, 0));
    }
    let restored = TableStats {
        entries: 16,
        ..TableStats::default()
    };
    assert_eq!(after.stats(), restored);
}

#[test]
fn counts_of_parts_add_up() {
    let counts = |entries, others: [u64; 3]| TableStats {
        entries,
        insertions: others[0],
        evictions: others[1],
        expired: others[2],
    };
    let mut sum = counts(2, [3, 4, 5]);
    sum += counts(10, [20, 30, 40]);
    assert_eq!(sum, counts(12, [23, 34, 45]));
}
