//! Hashes that stand for resources.

use std::borrow::Cow;
use std::hash::Hasher as _;

use siphasher::sip128::{Hasher128 as _, SipHasher13};

/// The most request header fields by which the variants of a resource are told
/// apart.
pub const MAX_VARY: usize = 4;

/// A 48-bit hash of a resource, or of one of its variants.
///
/// Two of a million resources in a table share one with a probability of 0.2%
/// (n²/2⁴⁹); an unknown resource is taken for a known one in one of 10⁸
/// look-ups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(u64);

/// The number of bits of a [`Key`].
const KEY_BITS: u32 = 48;

/// The number of a key's highest bits that all variants of a resource share, so that they lie in
/// the same part of a split table.
const SHARED_BITS: u32 = 16;

impl Key {
    /// Makes a key of a hash's lowest 48 bits.
    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits & ((1 << KEY_BITS) - 1))
    }

    /// Returns the hash, which is below 2⁴⁸.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Returns the index of the part that the key falls into, of `count` equal parts of the keys'
    /// range.
    pub(crate) const fn part(self, count: u64) -> u64 {
        // The highest 32 bits: the product fits, for there are fewer parts.
        ((self.0 >> 16) * count) >> 32
    }
}

/// A resource as a request asks for it: its URL, and the fields that may choose a variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resource {
    /// The key of the resource's cluster and URL.
    pub url: Key,
    /// The hashes of the values of the request's fields that may tell variants apart.
    pub values: [u32; MAX_VARY],
}

impl Resource {
    /// Returns the key of the variant that the fields in `fields` (bit `n` for the `n`-th) tell
    /// apart, or the URL's own key if `fields` is 0.
    pub fn variant(&self, fields: u8) -> Key {
        if fields == 0 {
            return self.url;
        }
        let mut hasher = SipHasher13::new_with_keys(self.url.0, u64::from(fields));
        for (field, value) in self.values.iter().enumerate() {
            if fields & (1 << field) != 0 {
                hasher.write_u32(*value);
            }
        }
        let low = KEY_BITS - SHARED_BITS;
        let own = hasher.finish() & ((1 << low) - 1);
        Key(((self.url.0 >> low) << low) | own)
    }
}

/// A hasher that makes keys. Its secret keeps clients from aiming at one place of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyHasher {
    k0: u64,
    k1: u64,
}

impl KeyHasher {
    /// Creates a hasher with a secret of 128 bits: SipHash's two words. The same secret makes the
    /// same keys.
    pub const fn new(k0: u64, k1: u64) -> Self {
        Self { k0, k1 }
    }

    /// Creates a hasher with a secret made of a pass phrase, for proxies that share a store.
    pub fn from_phrase(phrase: &[u8]) -> Self {
        let mut hasher = SipHasher13::new();
        hasher.write(phrase);
        let hash = hasher.finish128();
        Self::new(hash.h1, hash.h2)
    }

    /// Returns the two words of the secret that keys are hashed with.
    pub const fn secret(&self) -> [u64; 2] {
        [self.k0, self.k1]
    }

    /// Returns the key of a URL; `target` is its path and query. The case of
    /// the host's letters does not count.
    pub fn url(&self, cluster: &str, host: &str, target: &str) -> Key {
        let mut hasher = SipHasher13::new_with_keys(self.k0, self.k1);
        hasher.write_usize(cluster.len());
        hasher.write(cluster.as_bytes());
        let host = match host.bytes().any(|b| b.is_ascii_uppercase()) {
            true => Cow::Owned(host.to_ascii_lowercase()),
            false => Cow::Borrowed(host),
        };
        hasher.write_usize(host.len());
        hasher.write(host.as_bytes());
        hasher.write(target.as_bytes());
        Key::from_bits(hasher.finish128().h1)
    }

    /// Returns the hash of a header field's value: spaces and the case of
    /// letters do not count.
    pub fn value(&self, value: &[u8]) -> u32 {
        let mut hasher = SipHasher13::new_with_keys(self.k0, self.k1);
        // The hasher is slow with single bytes.
        for chunk in value.chunks(64) {
            let (mut plain, mut len) = ([0; 64], 0);
            for byte in chunk.iter().filter(|byte| !byte.is_ascii_whitespace()) {
                plain[len] = byte.to_ascii_lowercase();
                len += 1;
            }
            hasher.write(&plain[..len]);
        }
        hasher.finish128().h1 as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASHER: KeyHasher = KeyHasher::new(1, 2);

    #[test]
    fn cluster_host_and_target_make_the_key() {
        let keys = [
            HASHER.url("farm", "host", "/a"),
            HASHER.url("far", "mhost", "/a"),
            HASHER.url("farm", "hos", "t/a"),
            HASHER.url("farm", "host", "/a?"),
            HASHER.url("farm", "host", "/A"),
            KeyHasher::new(1, 3).url("farm", "host", "/a"),
        ];
        for (index, key) in keys.iter().enumerate() {
            assert!(keys[index + 1..].iter().all(|other| other != key));
        }
        assert_eq!(HASHER.url("farm", "HOST", "/a"), keys[0]);
    }

    #[test]
    fn variants_differ_by_the_fields_that_count() {
        let url = HASHER.url("farm", "host", "/a");
        let value = |text: &str| HASHER.value(text.as_bytes());
        let resource = |first, second| Resource {
            url,
            values: [value(first), value(second), 0, 0],
        };
        let (gzip, br) = (resource("gzip, br", "x"), resource("br", "x"));
        assert_eq!(gzip.variant(0), url);
        assert_ne!(gzip.variant(0b01), br.variant(0b01));
        assert_eq!(gzip.variant(0b10), br.variant(0b10));
        assert_ne!(gzip.variant(0b01), gzip.variant(0b11));
        assert_eq!(resource("GZIP,br", "y").variant(0b01), gzip.variant(0b01));
        for field in 0..MAX_VARY {
            let mut other = gzip;
            other.values[field] += 1;
            assert_ne!(other.variant(1 << field), gzip.variant(1 << field));
            assert_eq!(
                other.variant(0b1111 ^ (1 << field)),
                gzip.variant(0b1111 ^ (1 << field))
            );
        }
        for fields in 0..16 {
            let variant = gzip.variant(fields);
            assert_eq!(variant.part(1 << 16), url.part(1 << 16));
        }
    }

    #[test]
    fn parts_cover_the_range_evenly() {
        let mut seen = [0_u32; 7];
        for n in 0..70_000 {
            let key = HASHER.url("farm", "host", &format!("/{n}"));
            seen[key.part(7) as usize] += 1;
        }
        assert!(seen.iter().all(|n| (9_500..10_500).contains(n)), "{seen:?}");
    }

    #[test]
    fn a_hasher_keeps_its_secret() {
        assert_eq!(HASHER.secret(), [1, 2]);
        let phrase = KeyHasher::from_phrase(b"a phrase");
        let [k0, k1] = phrase.secret();
        assert_eq!(KeyHasher::new(k0, k1), phrase);
        assert_ne!(KeyHasher::from_phrase(b"another"), phrase);
    }
}
