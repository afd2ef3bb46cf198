//! Dispatch: the choice of the endpoint that gets a cluster's next request.
//!
//! A [`Balancer`] sees each endpoint as a [`View`]: its weight, what it has to do, and whether it
//! may be chosen at all. It keeps no account of its own of what endpoints have to do, so that a
//! cancelled request leaves no trace.

mod affinity;
mod endpoint;
mod intervals;
mod rotation;
mod view;

use crate::mix::mix;
pub use affinity::stable_hash;
use affinity::{Maglev, Ring};
pub use endpoint::EndpointSpec;
pub use intervals::Intervals;
use intervals::SizeIntervals;
use rotation::Rotation;
pub use view::View;
use view::lighter;

/// The rule by which an endpoint is chosen.
#[derive(Clone, Debug, PartialEq)]
pub enum Dispatch {
    /// Each endpoint in turn, by weight (SDIS02's rr).
    RoundRobin,
    /// An endpoint drawn at random, by weight.
    Random,
    /// The less loaded of two endpoints drawn at random, by weight.
    P2c,
    /// The endpoint with the fewest requests for its weight (SDIS02's shortest
    /// queue first, sqf).
    LeastRequest,
    /// The endpoint with the fewest requests of the asked request's level or above (SDIS02's
    /// psqf).
    Psqf,
    /// The endpoint that `Psqf` chooses, with the first `reserved` endpoints kept for
    /// the highest level (SDIS02's rpsq); endpoints may also be marked as reserved.
    Rpsq {
        /// The number of endpoints reserved.
        reserved: usize,
    },
    /// The endpoint with the least work before this request, for its weight. Where it serves in
    /// order, its work is all bytes still to be answered. Where it shares its capacity, each
    /// response counts for at most as much as this one has.
    LeastWork,
    /// The least loaded endpoint of those whose interval of sizes holds the request's, so that
    /// small requests never wait behind large ones (size-interval task assignment;
    /// Harchol-Balter, Crovella, Murta 1998). While all endpoints are seen to share their
    /// capacity, a small request does not wait; learnt intervals are then ignored, and the choice
    /// is that of `LeastWork`.
    Sita(Intervals),
    /// The endpoint that the resource's hash finds on a ring of points: the same resource goes to
    /// the same endpoint, and few move when an endpoint comes or goes.
    RingHash,
    /// The endpoint that the resource's hash finds in a table as even as can be (Eisenbud et al.
    /// 2016, section 3.4).
    Maglev,
}

impl Dispatch {
    /// Returns whether a request belongs to an endpoint, so that it must wait
    /// for that one rather than for any.
    pub fn has_affinity(&self) -> bool {
        matches!(
            self,
            Self::Rpsq { .. } | Self::Sita(_) | Self::RingHash | Self::Maglev
        )
    }

    /// Returns whether the choice depends on the work that endpoints have.
    pub fn counts_work(&self) -> bool {
        matches!(self, Self::LeastWork | Self::Sita(_))
    }
}

/// The properties of a request that the choice may depend on.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// The expected size of the response, in bytes.
    pub bytes: u64,
    /// Whether the request's class is of the highest level.
    pub highest: bool,
    /// The hash of the resource.
    pub hash: u64,
    /// A random number that the caller has drawn for this request.
    pub random: u64,
    /// The index of the asked priority among those that exist: each takes turns of its own.
    pub rotation: usize,
}

/// A balancer that chooses an endpoint for each request.
#[derive(Clone, Debug)]
pub struct Balancer {
    chooser: Chooser,
    /// The turns of each priority, so that one that seldom serves has its own.
    rotations: Vec<Rotation>,
    /// Endpoints that only the highest level may use.
    reserved: Vec<bool>,
}

#[derive(Clone, Debug)]
enum Chooser {
    InTurn,
    Random,
    TwoChoices,
    Least(Load),
    Sized(SizeIntervals),
    Ring(Ring),
    Maglev(Maglev),
}

/// The measure by which an endpoint is the least loaded.
#[derive(Clone, Copy, Debug)]
enum Load {
    Requests,
    RequestsAhead,
    Work,
}

impl Load {
    fn of(self, view: &View) -> u64 {
        match self {
            Self::Requests => view.requests,
            Self::RequestsAhead => view.requests_ahead,
            Self::Work => view.work_bytes,
        }
    }
}

impl Balancer {
    /// Creates a balancer that chooses among `endpoints`.
    pub fn new(dispatch: &Dispatch, endpoints: &[EndpointSpec]) -> Self {
        let chooser = match dispatch {
            Dispatch::RoundRobin => Chooser::InTurn,
            Dispatch::Random => Chooser::Random,
            Dispatch::P2c => Chooser::TwoChoices,
            Dispatch::LeastRequest => Chooser::Least(Load::Requests),
            Dispatch::Psqf | Dispatch::Rpsq { .. } => Chooser::Least(Load::RequestsAhead),
            Dispatch::LeastWork => Chooser::Least(Load::Work),
            Dispatch::Sita(intervals) => Chooser::Sized(SizeIntervals::new(intervals, endpoints)),
            Dispatch::RingHash => Chooser::Ring(Ring::new(endpoints)),
            Dispatch::Maglev => Chooser::Maglev(Maglev::new(endpoints)),
        };
        let first = match dispatch {
            // One is left for all, however few there are at present.
            Dispatch::Rpsq { reserved } => (*reserved).min(endpoints.len().saturating_sub(1)),
            _ => 0,
        };
        let reserved = endpoints.iter().enumerate();
        let mut seen = [false; 256];
        for endpoint in endpoints {
            seen[usize::from(endpoint.priority)] = true;
        }
        let priorities = seen.iter().filter(|&&own| own).count();
        Self {
            chooser,
            rotations: vec![Rotation::new(endpoints.len()); priorities.max(1)],
            reserved: reserved.map(|(i, e)| e.reserved || i < first).collect(),
        }
    }

    /// Replaces the endpoints to choose among. What was learnt of sizes stays.
    pub fn replace(&mut self, dispatch: &Dispatch, endpoints: &[EndpointSpec]) {
        let mut changed = Self::new(dispatch, endpoints);
        if let (Chooser::Sized(intervals), Chooser::Sized(known)) =
            (&mut changed.chooser, &mut self.chooser)
        {
            intervals.inherit(known);
        }
        *self = changed;
    }

    /// Learns from the size of a response, if the intervals are learnt.
    pub fn observe(&mut self, bytes: u64) {
        if let Chooser::Sized(intervals) = &mut self.chooser {
            intervals.observe(bytes);
        }
    }

    /// Returns the interval of each endpoint under [`Dispatch::Sita`]: the sizes from and to
    /// (inclusive), in bytes.
    pub fn intervals(&self) -> Option<&[(u64, u64)]> {
        match &self.chooser {
            Chooser::Sized(intervals) => Some(intervals.ranges()),
            _ => None,
        }
    }

    /// Returns the index of the endpoint for a request; `None` if none may be chosen. `views` has
    /// one view for each endpoint.
    pub fn pick(&mut self, views: &[View], asked: &Asked) -> Option<usize> {
        let reserved = &self.reserved;
        let usable = |index: usize| {
            let kept = reserved.get(index).copied().unwrap_or(false);
            views[index].usable && (asked.highest || !kept)
        };
        let last = self.rotations.len() - 1;
        let rotation = &mut self.rotations[asked.rotation.min(last)];
        match &mut self.chooser {
            Chooser::InTurn => rotation.next(views, usable),
            Chooser::Random => draw(views, asked.random, usable),
            Chooser::TwoChoices => two_choices(views, asked.random, usable),
            Chooser::Least(load) => rotation.least(views, |view| load.of(view), usable),
            Chooser::Sized(intervals) => {
                let shared = |index: usize| views[index].shared || !usable(index);
                if intervals.are_learnt() && (0..views.len()).all(shared) {
                    // No request waits behind another: keeping sizes apart
                    // would only leave capacity unused.
                    return rotation.least(views, |view| view.work_bytes, usable);
                }
                let range = intervals.nearest(asked.bytes, usable)?;
                let inside = |index: usize| usable(index) && intervals.range(index) == range;
                rotation.least(views, |view| view.work_bytes, inside)
            }
            Chooser::Ring(ring) => ring.pick(asked.hash, views.len(), usable),
            Chooser::Maglev(table) => table.pick(asked.hash, views.len(), usable),
        }
    }
}

/// Returns an endpoint drawn by weight.
fn draw(views: &[View], random: u64, usable: impl Fn(usize) -> bool) -> Option<usize> {
    let candidates = || (0..views.len()).filter(|&index| usable(index));
    let total: u64 = candidates().map(|index| views[index].weight.max(1)).sum();
    if total == 0 {
        return None;
    }
    // The high bits of a product: no bias worth speaking of, no division.
    let mut point = ((u128::from(random) * u128::from(total)) >> 64) as u64;
    candidates().find(
        |&index| match point.checked_sub(views[index].weight.max(1)) {
            Some(rest) => {
                point = rest;
                false
            }
            None => true,
        },
    )
}

/// Returns the less loaded of two different endpoints drawn by weight.
fn two_choices(views: &[View], random: u64, usable: impl Fn(usize) -> bool) -> Option<usize> {
    let first = draw(views, random, &usable)?;
    let other = |index: usize| index != first && usable(index);
    let Some(second) = draw(views, mix(random), other) else {
        return Some(first);
    };
    let heavier = lighter(&views[second], &views[first], |view| view.requests);
    Some(if heavier { second } else { first })
}

#[cfg(test)]
mod tests;
