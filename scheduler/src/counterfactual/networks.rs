//! Sums of the times that responses took, and would have taken, by their clients' networks.
//!
//! A bounded number of networks has sums of its own; all others share those of
//! [`Networks::other`]. When a network loses its place, its sums are added to the shared ones. So
//! all sums together are those of all responses, and the shared ones never fall.

use std::time::Duration;

use super::tally::{Span, Sums, Times, Took};
use crate::Time;

/// The most networks without a place whose responses are counted, so that those with many get
/// one. As in the algorithm Space-Saving (Metwally, Agrawal, El Abbadi, ICDT 2005), they include
/// each network with more than one in 64 of the responses without a place.
const CANDIDATES_MAX: usize = 64;

/// The time after which ranks halve, so that a network keeps its place by what it asks for now.
const HALVING: Duration = Duration::from_secs(600);

/// The least time between two changes of places. Each may be a new series in the metrics, which a
/// client with many addresses must not be able to make at will.
const CHANGE_EVERY: Duration = Duration::from_secs(60);

/// The factor by which a candidate's rank must exceed that of the network whose place it takes,
/// so that equals do not take turns.
const TIMES_THE_RANK: u64 = 2;

/// The network that a client is in: the bits of an address, and how many of them count. The
/// driver decides how the bytes hold them; they only tell networks apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Network(pub [u8; 17]);

/// Sums of response times by network.
#[derive(Clone, Debug, Default)]
pub struct Networks {
    /// The number of networks that may have sums of their own.
    most: usize,
    placed: Vec<Placed>,
    candidates: Vec<Candidate>,
    other: Sums,
    halved_at: Time,
    changed_at: Option<Time>,
}

/// A network with sums of its own.
#[derive(Clone, Debug)]
struct Placed {
    network: Network,
    /// The number of the network's responses, halved every [`HALVING`].
    rank: u64,
    sums: Sums,
}

/// A network without sums of its own, whose responses are counted.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    network: Network,
    rank: u64,
    /// The part of the rank that may belong to networks whose candidacy this one took over.
    doubt: u64,
}

impl Networks {
    /// Changes how many networks may have sums of their own; those of the least rank lose theirs.
    pub(super) fn set_most(&mut self, most: usize) {
        self.most = most;
        if self.placed.len() > most {
            // Of equals the one that came first stays.
            self.placed.sort_by_key(|own| std::cmp::Reverse(own.rank));
            for own in self.placed.drain(most..) {
                self.other.merge(&own.sums);
            }
        }
        if most == 0 {
            *self = Self::default();
        }
    }

    /// Counts a response that has ended on both links.
    pub(super) fn add(&mut self, now: Time, network: Option<Network>, took: Took) {
        if self.most == 0 {
            return;
        }
        self.halve(now);
        let Some(network) = network else {
            return self.other.add(now, took);
        };
        if let Some(placed) = self.placed.iter_mut().find(|it| it.network == network) {
            placed.rank += 1;
            return placed.sums.add(now, took);
        }
        if self.placed.len() < self.most {
            self.candidates.retain(|it| it.network != network);
            let mut sums = Sums::default();
            sums.add(now, took);
            let rank = 1;
            return self.placed.push(Placed {
                network,
                rank,
                sums,
            });
        }
        self.other.add(now, took);
        let candidate = self.count(network);
        self.give_place(now, candidate);
    }

    /// Counts a response of a network without a place; returns its index among the
    /// candidates.
    fn count(&mut self, network: Network) -> usize {
        let known = (self.candidates.iter()).position(|it| it.network == network);
        let index = known.unwrap_or_else(|| {
            let fresh = Candidate {
                network,
                rank: 0,
                doubt: 0,
            };
            if self.candidates.len() < CANDIDATES_MAX {
                self.candidates.push(fresh);
                return self.candidates.len() - 1;
            }
            let ranks = self.candidates.iter().map(|it| it.rank).enumerate();
            let (least, rank) = ranks.min_by_key(|&(_, rank)| rank).unwrap_or_default();
            let doubt = rank;
            self.candidates[least] = Candidate {
                rank,
                doubt,
                ..fresh
            };
            least
        });
        self.candidates[index].rank += 1;
        index
    }

    /// Gives a candidate the place of the network of the least rank, if it has far more
    /// responses for certain.
    fn give_place(&mut self, now: Time, candidate: usize) {
        let is_early = (self.changed_at).is_some_and(|at| now.since(at) < CHANGE_EVERY);
        let Some(least) = self.placed.iter_mut().min_by_key(|own| own.rank) else {
            return;
        };
        let Candidate {
            network,
            rank,
            doubt,
        } = self.candidates[candidate];
        let is_more = rank - doubt > least.rank.saturating_mul(TIMES_THE_RANK);
        if is_early || !is_more {
            return;
        }
        let fresh = Placed {
            network,
            rank: rank - doubt,
            sums: Sums::default(),
        };
        let gone = std::mem::replace(least, fresh);
        self.other.merge(&gone.sums);
        self.candidates[candidate] = Candidate {
            network: gone.network,
            rank: gone.rank,
            doubt: 0,
        };
        self.changed_at = Some(now);
    }

    /// Halves all ranks as often as is due.
    fn halve(&mut self, now: Time) {
        let periods = now.since(self.halved_at).as_secs() / HALVING.as_secs();
        if periods == 0 {
            return;
        }
        let times = u32::try_from(periods).unwrap_or(u32::MAX);
        self.halved_at = self.halved_at + HALVING.saturating_mul(times);
        let half = |rank: u64| rank.checked_shr(times).unwrap_or_default();
        for own in &mut self.placed {
            own.rank = half(own.rank);
        }
        for own in &mut self.candidates {
            (own.rank, own.doubt) = (half(own.rank), half(own.doubt));
        }
    }

    /// Returns the times in a span up to `now` of each network with sums of its own, in no
    /// particular order.
    pub fn each(&self, now: Time, span: Span) -> impl Iterator<Item = (Network, Times)> {
        (self.placed.iter()).map(move |own| (own.network, own.sums.times(now, span)))
    }

    /// Returns the times of all other networks, and of responses whose client's network is not
    /// known; none if no network may have sums of its own.
    pub fn other(&self, now: Time, span: Span) -> Option<Times> {
        (self.most > 0).then(|| self.other.times(now, span))
    }
}

#[cfg(test)]
mod tests;
