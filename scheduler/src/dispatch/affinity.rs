//! Affinity: requests for the same resource go to the same endpoint.

use std::hash::Hasher as _;

use siphasher::sip::SipHasher13;

use super::endpoint::EndpointSpec;
use crate::mix::mix;

/// Returns a hash for affinity to go by: the same for the same parts, in every process.
pub fn stable_hash(parts: &[&[u8]]) -> u64 {
    let mut hasher = SipHasher13::new();
    for part in parts {
        hasher.write_u64(part.len() as u64);
        hasher.write(part);
    }
    hasher.finish()
}

/// The number of points on the ring for each unit of weight.
const POINTS: u64 = 160;

/// The most points on the ring in all: larger weights are scaled down to it.
const POINTS_MAX: u64 = 1 << 16;

/// The entries of Maglev's table: a prime, a hundred times the endpoints that a cluster is
/// expected to have (Eisenbud et al. 2016, section 5.3).
const TABLE: usize = 65_537;

/// Returns all places, from `start` on and then those before it.
fn around<T: Copy>(places: &[T], start: usize) -> impl Iterator<Item = T> {
    let (before, after) = places.split_at(start);
    after.iter().chain(before).copied()
}

/// Returns the first usable endpoint at `places`, which are of `count` endpoints. If none is
/// usable, it does not walk over tens of thousands of places to find that out.
fn first_usable(
    mut places: impl Iterator<Item = u32>,
    count: usize,
    usable: impl Fn(usize) -> bool,
) -> Option<usize> {
    if !(0..count).any(&usable) {
        return None;
    }
    let first = places.find(|&index| usable(index as usize));
    first.map(|index| index as usize)
}

/// The ring of consistent hashing (Karger et al. 1997): points, ascending, each with its
/// endpoint.
#[derive(Clone, Debug)]
pub(super) struct Ring(Vec<(u64, u32)>);

impl Ring {
    pub(super) fn new(endpoints: &[EndpointSpec]) -> Self {
        let weights: u64 = endpoints.iter().map(|e| u64::from(e.weight)).sum();
        let scale = (weights * POINTS).max(POINTS_MAX);
        let mut points = Vec::new();
        for (index, endpoint) in (0..).zip(endpoints) {
            let count = u64::from(endpoint.weight) * POINTS * POINTS_MAX / scale;
            let mut point = endpoint.identity;
            for _ in 0..count.max(1) {
                point = mix(point);
                points.push((point, index));
            }
        }
        points.sort_unstable();
        Self(points)
    }

    /// Returns the first usable endpoint on the ring from the hash's place on, of `count`
    /// endpoints.
    pub(super) fn pick(
        &self,
        hash: u64,
        count: usize,
        usable: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let hash = mix(hash);
        let start = self.0.partition_point(|&(point, _)| point < hash);
        let places = around(&self.0, start).map(|(_, index)| index);
        first_usable(places, count, usable)
    }
}

/// The look-up table of Maglev hashing: an endpoint for each entry.
#[derive(Clone, Debug)]
pub(super) struct Maglev(Vec<u32>);

impl Maglev {
    pub(super) fn new(endpoints: &[EndpointSpec]) -> Self {
        const FREE: u32 = u32::MAX;
        let heaviest = endpoints.iter().map(|e| e.weight).max().unwrap_or(1);
        let mut table = vec![FREE; TABLE];
        if endpoints.is_empty() {
            return Self(Vec::new());
        }
        // Each endpoint claims the entries of a permutation of its own.
        let mut claims: Vec<(usize, usize, u64)> = endpoints
            .iter()
            .map(|endpoint| {
                let offset = mix(endpoint.identity) % TABLE as u64;
                let skip = mix(!endpoint.identity) % (TABLE as u64 - 1) + 1;
                (offset as usize, skip as usize, 0)
            })
            .collect();
        let mut left = TABLE;
        while left > 0 {
            for (index, (endpoint, claim)) in endpoints.iter().zip(&mut claims).enumerate() {
                // A lighter one sits out rounds.
                claim.2 += u64::from(endpoint.weight);
                if claim.2 < u64::from(heaviest) || left == 0 {
                    continue;
                }
                claim.2 -= u64::from(heaviest);
                while table[claim.0] != FREE {
                    claim.0 = (claim.0 + claim.1) % TABLE;
                }
                table[claim.0] = index as u32;
                left -= 1;
            }
        }
        Self(table)
    }

    /// Returns the endpoint of the hash's entry, or of the next one that is usable; there
    /// are `count` endpoints.
    pub(super) fn pick(
        &self,
        hash: u64,
        count: usize,
        usable: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let start = mix(hash).checked_rem(self.0.len() as u64)? as usize;
        first_usable(around(&self.0, start), count, usable)
    }
}
