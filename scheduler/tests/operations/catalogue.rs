//! A table of sizes under any look-ups, lessons and losses, next to a model that
//! forgets nothing.

use std::collections::HashMap;

use sprat_scheduler::catalogue::{Key, KeyHasher, MAX_KNOWN_BYTES, Resource, Table};

use crate::bytes::Bytes;

const HASHER: KeyHasher = KeyHasher::new(1, 2);
const TTL_S: u32 = 100;

/// Runs what the bytes say.
pub(crate) fn run(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    // None, one set, or a few.
    let Some(size) = bytes.below(5) else { return };
    let mut table = Table::new(usize::from(size) * 300, TTL_S);
    let occupied = table.bytes();
    let mut known: HashMap<Key, (u64, u32)> = HashMap::new();
    let mut now_s = 0;
    while let Some(()) = step(&mut bytes, &mut table, &mut known, &mut now_s) {
        assert_eq!(table.bytes(), occupied);
        let entries = table.entries(now_s).count();
        assert!(entries <= table.capacity(), "{entries} entries");
    }
}

fn step(
    bytes: &mut Bytes<'_>,
    table: &mut Table,
    known: &mut HashMap<Key, (u64, u32)>,
    now_s: &mut u32,
) -> Option<()> {
    let op = bytes.below(8)?;
    let url = HASHER.url("farm", "", &format!("/{}", bytes.next()?));
    let resource = Resource {
        url,
        values: [0; 4],
    };
    match op {
        0..4 => {
            if let Some(found) = table.look_up(&resource, *now_s) {
                let (size, learnt_s) = known[&url];
                assert_eq!(found.bytes, size.min(MAX_KNOWN_BYTES));
                assert!((0.0..=1.0).contains(&found.confidence));
                assert!(*now_s - learnt_s < TTL_S, "past its time");
            }
        }
        4..6 => {
            let size = bytes.amount()?;
            table.learn(&resource, size, 0, *now_s);
            known.insert(url, (size, *now_s));
        }
        6 => {
            table.forget(url);
            assert!(table.look_up(&resource, *now_s).is_none());
        }
        _ => *now_s += u32::from(bytes.next()?),
    }
    Some(())
}
