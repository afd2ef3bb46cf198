//! An entry of the table, and how it is packed into 16 bytes.

use super::key::Key;

/// The largest size that an entry can hold, in bytes: 1 TiB less one. A larger size is stored as
/// this one.
pub const MAX_KNOWN_BYTES: u64 = (1 << 40) - 1;

/// The largest value of an entry's two-bit counts.
pub(super) const COUNT_MAX: u8 = 3;

/// An entry packed into 16 bytes, as it lies in memory and in snapshots. The fields and their
/// bits: the key (48), the time in seconds (32), the size (40), the fields that tell variants
/// apart (4), hits (2), agreements (2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed(pub [u64; 2]);

/// The size of a resource or of a variant, with its time and the trust in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) key: Key,
    pub(super) learnt_s: u32,
    /// The response's size in bytes, at most [`MAX_KNOWN_BYTES`].
    pub(super) bytes: u64,
    /// The request's fields that tell the resource's variants apart: bit `n` for the `n`-th.
    pub(super) fields: u8,
    /// The look-ups that found the entry, at most 3, less those that saved it from eviction.
    pub(super) hits: u8,
    /// The number of times in a row that about the same size was seen again; at most 3.
    pub(super) agreements: u8,
}

impl Entry {
    pub(super) fn new(key: Key, bytes: u64, fields: u8, learnt_s: u32) -> Self {
        Self {
            key,
            learnt_s,
            bytes: bytes.min(MAX_KNOWN_BYTES),
            fields,
            hits: 0,
            agreements: 0,
        }
    }

    /// Updates the entry with the size and the `Vary` fields of a new response.
    pub(super) fn learn(&mut self, bytes: u64, fields: u8, now_s: u32) {
        let bytes = bytes.min(MAX_KNOWN_BYTES);
        // A page that changes by an eighth keeps its place in the order.
        self.agreements = match bytes.abs_diff(self.bytes) <= self.bytes / 8 {
            true => COUNT_MAX.min(self.agreements + 1),
            false => 0,
        };
        self.bytes = bytes;
        self.fields = fields;
        self.learnt_s = now_s;
    }

    pub(super) fn is_expired(&self, now_s: u32, ttl_s: u32) -> bool {
        now_s.saturating_sub(self.learnt_s) >= ttl_s
    }

    pub(super) fn pack(&self) -> Packed {
        let key = self.key.bits();
        Packed([
            ((key >> 16) << 32) | u64::from(self.learnt_s),
            ((key & 0xffff) << 48)
                | (self.bytes << 8)
                | (u64::from(self.fields & 0xf) << 4)
                | (u64::from(self.hits) << 2)
                | u64::from(self.agreements),
        ])
    }
}

impl Packed {
    /// Returns the key of the resource.
    pub const fn key(self) -> Key {
        let [high, low] = self.0;
        Key::from_bits(((high >> 32) << 16) | (low >> 48))
    }

    pub(super) const fn unpack(self) -> Entry {
        let [high, low] = self.0;
        Entry {
            key: self.key(),
            learnt_s: high as u32,
            bytes: (low >> 8) & MAX_KNOWN_BYTES,
            fields: ((low >> 4) & 0xf) as u8,
            hits: ((low >> 2) & 3) as u8,
            agreements: (low & 3) as u8,
        }
    }

    /// Makes an entry of its parts: the key's bits, the size, the fields that tell variants
    /// apart, how often the size was seen again, and when it was learnt, in seconds.
    pub fn from_parts(key: u64, bytes: u64, fields: u8, agreements: u8, learnt_s: u32) -> Self {
        let mut entry = Entry::new(Key::from_bits(key), bytes, fields, learnt_s);
        entry.agreements = agreements.min(COUNT_MAX);
        entry.pack()
    }

    /// Returns the request's fields that tell the resource's variants apart (bit `n` for the
    /// `n`-th).
    pub const fn fields(self) -> u8 {
        self.unpack().fields
    }

    /// Returns how often in a row about the same size was seen again; at most 3.
    pub const fn agreements(self) -> u8 {
        self.unpack().agreements
    }

    /// Returns the response's size in bytes.
    pub const fn bytes(self) -> u64 {
        self.unpack().bytes
    }

    /// Returns the time at which the size was learnt, in seconds.
    pub const fn learnt_s(self) -> u32 {
        self.0[0] as u32
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_packed_is_unpacked(
            key in 0_u64..1 << 48, learnt_s: u32, bytes in 0..=MAX_KNOWN_BYTES,
            fields in 0_u8..16, hits in 0_u8..4, agreements in 0_u8..4,
        ) {
            let key = Key::from_bits(key);
            let entry = Entry { key, learnt_s, bytes, fields, hits, agreements };
            let packed = entry.pack();
            prop_assert_eq!(packed.unpack(), entry);
            prop_assert_eq!(
                (packed.key(), packed.bytes(), packed.learnt_s()),
                (key, bytes, learnt_s)
            );
        }
    }

    #[test]
    fn agreement_counts_and_ends() {
        let mut entry = Entry::new(Key::from_bits(1), 1000, 0, 0);
        for (bytes, agreements) in [(1000, 1), (1100, 2), (1100, 3), (1100, 3), (2000, 0)] {
            entry.learn(bytes, 0, 1);
            assert_eq!((entry.bytes, entry.agreements), (bytes, agreements));
        }
        entry.learn(u64::MAX, 0, 1);
        assert_eq!(entry.bytes, MAX_KNOWN_BYTES);
    }

    #[test]
    fn parts_make_an_entry_and_are_told_of_it() {
        let packed = Packed::from_parts(0xabcd, 1500, 0b1010, 2, 77);
        assert_eq!((packed.fields(), packed.agreements()), (0b1010, 2));
        assert_eq!((packed.bytes(), packed.learnt_s()), (1500, 77));
        assert_eq!(packed.key().bits(), 0xabcd);
        let absurd = Packed::from_parts(0, u64::MAX, 0, u8::MAX, 0);
        assert_eq!((absurd.bytes(), absurd.agreements()), (MAX_KNOWN_BYTES, 3));
    }
}
