//! A cache of a slow source's answers, "I do not know" among them.

use super::key::{Key, Resource};
use super::table::Table;

/// Answers of a source, kept for a while so that the proxy does not ask again: sizes, and
/// the resources whose size the source does not know (a negative cache). Bounded in bytes.
#[derive(Clone, Debug)]
pub struct Answers {
    sizes: Table,
    unknown: Table,
}

impl Answers {
    /// Creates a cache of at most `max_bytes`, half of them for what the source does not know.
    pub fn new(max_bytes: usize, ttl_s: u32, negative_ttl_s: u32) -> Self {
        Self {
            sizes: Table::new(max_bytes / 2, ttl_s),
            unknown: Table::new(max_bytes / 2, negative_ttl_s),
        }
    }

    /// Returns the source's answer if it is kept: a size, or `Some(None)` where it knows none.
    pub fn get(&mut self, key: Key, now_s: u32) -> Option<Option<u64>> {
        let resource = plain(key);
        if let Some(known) = self.sizes.look_up(&resource, now_s) {
            return Some(Some(known.bytes));
        }
        let unknown = self.unknown.look_up(&resource, now_s);
        unknown.map(|_| None)
    }

    /// Remembers the source's answer: a size, or `None` where it knows none.
    pub fn put(&mut self, key: Key, answer: Option<u64>, now_s: u32) {
        match answer {
            Some(bytes) => self.sizes.learn(&plain(key), bytes, 0, now_s),
            None => {
                self.sizes.forget(key);
                self.unknown.learn(&plain(key), 0, 0, now_s);
            }
        }
    }
}

/// Returns the resource of a URL that has no variants.
pub(super) fn plain(url: Key) -> Resource {
    Resource {
        url,
        values: [0; super::MAX_VARY],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_are_kept_for_their_time() {
        let mut answers = Answers::new(10_000, 100, 10);
        let (a, b) = (Key::from_bits(1), Key::from_bits(2));
        assert_eq!(answers.get(a, 0), None);
        answers.put(a, Some(7), 0);
        answers.put(b, None, 0);
        assert_eq!(
            (answers.get(a, 9), answers.get(b, 9)),
            (Some(Some(7)), Some(None))
        );
        assert_eq!(
            (answers.get(a, 10), answers.get(b, 10)),
            (Some(Some(7)), None)
        );
        answers.put(a, None, 20);
        assert_eq!(answers.get(a, 20), Some(None));
        // A size outweighs an earlier "unknown".
        answers.put(a, Some(8), 21);
        assert_eq!(answers.get(a, 21), Some(Some(8)));
        assert_eq!(answers.get(a, 121), None);
    }
}
