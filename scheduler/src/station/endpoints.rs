//! The endpoints of a station: their use, weights, requests and work.

use std::time::Duration;

use super::config::StationConfig;
use super::measures::DrainRate;
use super::places::{Overcommit, PlaceBound};
use super::priorities::Priorities;
use super::work::{Sharing, Work};
use crate::Time;
use crate::classes::MAX_LEVELS;
use crate::dispatch::{EndpointSpec, View};

/// The factor of all weights, so that a slow start can have less than 1.
const WEIGHT_SCALE: u64 = 1000;

/// The share of the weight that a slow start begins with.
const FIRST_SHARE: f64 = 0.1;

/// The load of an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointLoad {
    /// The number of requests in service.
    pub running: usize,
    /// The number of requests in service that SRQ has in a later queue than the first.
    pub demoted: usize,
    /// The number of requests in service at this endpoint or waiting for it.
    pub requests: usize,
    /// The expected bytes of the responses to `requests`.
    pub work_bytes: u64,
}

#[derive(Clone, Debug)]
struct Endpoint {
    identity: u64,
    /// Whether the endpoint is one of the cluster's. If not, its slot is free for another endpoint
    /// once it has no request left.
    present: bool,
    /// Whether the endpoint is out of use, which a panic overrides.
    out: bool,
    /// Whether the endpoint gets no requests but those that belong to it.
    drains: bool,
    priority: u8,
    weight: u32,
    running: usize,
    /// The requests in service that are in a later queue of SRQ than the first.
    demoted: usize,
    requests: usize,
    work: Work,
    by_level: [u32; MAX_LEVELS],
    /// The rate at which requests end at this endpoint.
    drain: DrainRate,
    /// Whether the endpoint could not be reached.
    down: bool,
    /// The time at which the endpoint came back, while it starts slowly.
    since: Option<Time>,
}

impl Endpoint {
    fn new(spec: &EndpointSpec, by_work: bool) -> Self {
        Self {
            identity: spec.identity,
            present: true,
            out: false,
            drains: false,
            priority: spec.priority,
            weight: spec.weight,
            running: 0,
            demoted: 0,
            requests: 0,
            work: Work::new(by_work),
            by_level: [0; MAX_LEVELS],
            drain: DrainRate::default(),
            down: false,
            since: None,
        }
    }
}

/// All endpoints of a cluster, in slots: each keeps its slot while it has any
/// request, whichever others come and go.
#[derive(Clone, Debug)]
pub(super) struct Endpoints {
    endpoints: Vec<Endpoint>,
    /// The slots of the endpoints that are present, in the order of their specs.
    present: Vec<usize>,
    by_work: bool,
    /// The share of the endpoints that are not out, in percent, below which all
    /// are used.
    healthy_panic_percent: u8,
    panics: bool,
    priorities: Priorities,
    bound: PlaceBound,
    slow_start: Duration,
    sharing: Sharing,
    /// The views of the last pick, whose memory is used again.
    views: Vec<View>,
}

impl Endpoints {
    pub(super) fn new(config: &StationConfig) -> Self {
        let by_work = config.dispatch.counts_work();
        let specs = config.endpoints.iter();
        let mut own = Self {
            endpoints: specs.map(|spec| Endpoint::new(spec, by_work)).collect(),
            present: (0..config.endpoints.len()).collect(),
            by_work,
            healthy_panic_percent: config.healthy_panic_percent,
            panics: false,
            priorities: Priorities::default(),
            bound: PlaceBound {
                max_requests: config.max_requests,
                overcommit: None,
            },
            slow_start: config.slow_start,
            sharing: Sharing::default(),
            views: Vec::with_capacity(config.endpoints.len()),
        };
        own.look_for_panic();
        own
    }

    /// Returns the number of slots, in use or not.
    pub(super) fn slots(&self) -> usize {
        self.endpoints.len()
    }

    /// Returns the slots of the endpoints that are present.
    pub(super) fn present(&self) -> &[usize] {
        &self.present
    }

    /// Returns the slot of an endpoint that is present, by its place among them.
    pub(super) fn slot(&self, place: usize) -> usize {
        self.present[place]
    }

    /// Makes `specs` the present endpoints, and returns the slots of the new ones, which start
    /// slowly. Endpoints that have a slot already keep it, and most of what is known of them.
    pub(super) fn replace(&mut self, now: Time, specs: &[EndpointSpec]) -> Tried {
        let mut kept = vec![None; specs.len()];
        for (slot, endpoint) in self.endpoints.iter_mut().enumerate() {
            let mut places = specs.iter().zip(&mut kept);
            let place = places.find(|(spec, kept)| {
                kept.is_none() && endpoint.in_use() && spec.identity == endpoint.identity
            });
            if let Some((spec, kept)) = place {
                endpoint.weight = spec.weight;
                endpoint.priority = spec.priority;
                // It may have been on its way out.
                let was_present = std::mem::replace(&mut endpoint.present, true);
                endpoint.out &= was_present;
                endpoint.drains &= was_present;
                *kept = Some(slot);
            } else {
                endpoint.present = false;
            }
        }
        self.present.clear();
        let mut new = Tried::default();
        for (spec, kept) in specs.iter().zip(kept) {
            let slot = kept.unwrap_or_else(|| {
                let slot = self.add(now, spec);
                new.add(slot);
                slot
            });
            self.present.push(slot);
        }
        self.look_for_panic();
        new
    }

    fn add(&mut self, now: Time, spec: &EndpointSpec) -> usize {
        let endpoint = Endpoint {
            since: Some(now),
            ..Endpoint::new(spec, self.by_work)
        };
        let free = self.endpoints.iter().position(|known| !known.in_use());
        match free {
            Some(slot) => {
                self.endpoints[slot] = endpoint;
                slot
            }
            None => {
                self.endpoints.push(endpoint);
                self.endpoints.len() - 1
            }
        }
    }

    /// Takes an endpoint out of use, or back in; an endpoint that comes back starts slowly.
    pub(super) fn set_out(&mut self, now: Time, endpoint: usize, out: bool) {
        let endpoint = &mut self.endpoints[endpoint];
        if std::mem::replace(&mut endpoint.out, out) && !out {
            endpoint.since = Some(now);
        }
        self.look_for_panic();
    }

    /// Makes an endpoint drain, so that it gets no requests but those that belong to it, or ends
    /// its drain, after which it starts slowly.
    pub(super) fn set_draining(&mut self, now: Time, endpoint: usize, drains: bool) {
        let endpoint = &mut self.endpoints[endpoint];
        if std::mem::replace(&mut endpoint.drains, drains) && !drains {
            endpoint.since = Some(now);
        }
        self.look_for_panic();
    }

    /// Returns whether an endpoint drains.
    pub(super) fn is_draining(&self, endpoint: usize) -> bool {
        self.endpoints[endpoint].drains
    }

    /// Returns the slot of the endpoint with this identity, if requests that belong there may be
    /// sent there.
    pub(super) fn well(&self, identity: u64) -> Option<usize> {
        let mut present = self.present.iter().copied();
        present.find(|&slot| self.endpoints[slot].identity == identity && self.is_well(slot))
    }

    pub(super) fn start_slowly(&mut self, now: Time, endpoint: usize) {
        self.endpoints[endpoint].since = Some(now);
    }

    fn look_for_panic(&mut self) {
        // One that drains is away because the operator wants it so, and serves in no panic.
        let staying = || {
            let present = self.present.iter().map(|&slot| &self.endpoints[slot]);
            present.filter(|endpoint| !endpoint.drains)
        };
        let healthy = staying().filter(|endpoint| !endpoint.out).count();
        let is_short = healthy * 100 < staying().count() * usize::from(self.healthy_panic_percent);
        let present = self.present.iter().map(|&slot| &self.endpoints[slot]);
        let each = present.map(|own| (own.priority, !own.out && !own.drains));
        self.priorities = Priorities::of(each);
        self.panics = is_short && !self.priorities.suffice();
    }

    /// Returns the shares of requests that the priorities get.
    pub(super) fn priorities(&self) -> &Priorities {
        &self.priorities
    }

    /// Returns the priority of an endpoint.
    pub(super) fn priority(&self, endpoint: usize) -> u8 {
        self.endpoints[endpoint].priority
    }

    /// Returns whether so few endpoints are not out that all are used.
    pub(super) fn panics(&self) -> bool {
        self.panics
    }

    /// Returns whether any request may be sent to the endpoint.
    pub(super) fn is_usable(&self, endpoint: usize) -> bool {
        self.is_well(endpoint) && !self.endpoints[endpoint].drains
    }

    /// Returns whether requests that belong to an endpoint may be sent there.
    fn is_well(&self, endpoint: usize) -> bool {
        let endpoint = &self.endpoints[endpoint];
        endpoint.present && (self.panics || !endpoint.out)
    }

    pub(super) fn load(&self, endpoint: usize) -> EndpointLoad {
        let endpoint = &self.endpoints[endpoint];
        EndpointLoad {
            running: endpoint.running,
            demoted: endpoint.demoted,
            requests: endpoint.requests,
            work_bytes: endpoint.work.total_bytes(),
        }
    }

    /// Returns whether a request that belongs to an endpoint could start there now.
    pub(super) fn has_room(&self, endpoint: usize) -> bool {
        self.is_well(endpoint) && self.endpoints[endpoint].has_room(self.bound)
    }

    /// Sets by how much endpoints may be overcommitted.
    pub(super) fn set_overcommit(&mut self, overcommit: Option<Overcommit>) {
        self.bound.overcommit = overcommit;
    }

    /// Notes that a request in service is not in SRQ's first queue any more.
    pub(super) fn demote(&mut self, endpoint: usize) {
        self.endpoints[endpoint].demoted += 1;
    }

    /// Notes that a request that was demoted is over.
    pub(super) fn forget_demoted(&mut self, endpoint: usize) {
        self.endpoints[endpoint].demoted -= 1;
    }

    /// Notes that a request goes to an endpoint; `order` grows from one request to the next.
    pub(super) fn start(&mut self, now: Time, endpoint: usize, level: u8, bytes: u64, order: u64) {
        self.expect(endpoint, level, bytes);
        let endpoint = &mut self.endpoints[endpoint];
        if endpoint.running == 0 {
            endpoint.drain.resumed(now);
        }
        endpoint.running += 1;
        endpoint.work.started(order);
    }

    /// Notes that a request is no longer at its endpoint; its response was `whole`, or cut short.
    pub(super) fn finish(
        &mut self,
        endpoint: usize,
        level: u8,
        bytes: u64,
        order: u64,
        whole: bool,
    ) {
        self.unexpect(endpoint, level, bytes);
        let endpoint = &mut self.endpoints[endpoint];
        endpoint.running -= 1;
        endpoint.work.ended(order, whole, &mut self.sharing);
    }

    /// Notes that the response to a request of an endpoint is over.
    pub(super) fn drained(&mut self, now: Time, endpoint: usize) {
        self.endpoints[endpoint].drain.finished(now);
    }

    /// Returns the rate at which requests end at an endpoint.
    pub(super) fn drain(&self, endpoint: usize) -> &DrainRate {
        &self.endpoints[endpoint].drain
    }

    /// Notes that a request waits for an endpoint.
    pub(super) fn expect(&mut self, endpoint: usize, level: u8, bytes: u64) {
        let endpoint = &mut self.endpoints[endpoint];
        endpoint.requests += 1;
        endpoint.work.add(bytes);
        endpoint.by_level[lane(level)] += 1;
    }

    /// Notes that a request no longer waits for an endpoint.
    pub(super) fn unexpect(&mut self, endpoint: usize, level: u8, bytes: u64) {
        let endpoint = &mut self.endpoints[endpoint];
        endpoint.requests -= 1;
        endpoint.work.remove(bytes);
        endpoint.by_level[lane(level)] -= 1;
    }

    pub(super) fn resize(&mut self, endpoint: usize, before: u64, after: u64) {
        let work = &mut self.endpoints[endpoint].work;
        work.remove(before);
        work.add(after);
    }

    pub(super) fn failed(&mut self, endpoint: usize) {
        self.endpoints[endpoint].down = true;
    }

    pub(super) fn reached(&mut self, now: Time, endpoint: usize) {
        let endpoint = &mut self.endpoints[endpoint];
        if std::mem::take(&mut endpoint.down) {
            endpoint.since = Some(now);
        }
    }

    /// Returns the present endpoints as a balancer sees them for a request of `level` and `bytes`.
    /// If a `priority` is given, endpoints of others are not to be used. `usable` is called with
    /// each slot and whether it has room.
    pub(super) fn views(
        &mut self,
        now: Time,
        level: u8,
        bytes: u64,
        priority: Option<u8>,
        usable: impl Fn(usize, bool) -> bool,
    ) -> &[View] {
        self.views.clear();
        let (slow_start, bound) = (self.slow_start, self.bound);
        let shared = self.sharing.is_seen();
        let (endpoints, panics) = (&mut self.endpoints, self.panics);
        self.views.extend(self.present.iter().map(|&slot| {
            let endpoint = &mut endpoints[slot];
            let weight = endpoint.weight_at(now, slow_start);
            let ahead = &endpoint.by_level[..=lane(level)];
            View {
                usable: (panics || !endpoint.out)
                    && !endpoint.drains
                    && priority.is_none_or(|own| own == endpoint.priority)
                    && usable(slot, endpoint.has_room(bound)),
                weight,
                requests: endpoint.requests as u64,
                requests_ahead: ahead.iter().map(|&count| u64::from(count)).sum(),
                work_bytes: endpoint.work.ahead_of(bytes, shared),
                shared,
            }
        }));
        &self.views
    }
}

impl Endpoint {
    /// Returns whether the slot cannot be given to another endpoint.
    fn in_use(&self) -> bool {
        self.present || self.requests > 0
    }

    fn has_room(&self, bound: PlaceBound) -> bool {
        bound.admits(self.running, self.demoted)
    }

    fn weight_at(&mut self, now: Time, slow_start: Duration) -> u64 {
        let full = u64::from(self.weight) * WEIGHT_SCALE;
        let Some(since) = self.since else { return full };
        let up = now.since(since);
        if up >= slow_start {
            self.since = None;
            return full;
        }
        let share = up.as_secs_f64() / slow_start.as_secs_f64();
        (full as f64 * share.max(FIRST_SHARE)) as u64
    }
}

fn lane(level: u8) -> usize {
    usize::from(level).min(MAX_LEVELS - 1)
}

/// The slots of endpoints that a request has tried, a bit for each. Few clusters have more
/// than the first word holds, and few requests fail: only these have others allocated.
#[derive(Clone, Debug, Default)]
pub(super) struct Tried {
    first: u128,
    /// The words after the first, as far as there is a bit in them.
    others: Box<[u128]>,
}

/// The number of slots in a word of [`Tried`].
const WORD: usize = 128;

impl Tried {
    pub(super) fn add(&mut self, endpoint: usize) {
        let bit = 1_u128 << (endpoint % WORD);
        let Some(other) = (endpoint / WORD).checked_sub(1) else {
            self.first |= bit;
            return;
        };
        if other >= self.others.len() {
            let mut words = std::mem::take(&mut self.others).into_vec();
            words.resize(other + 1, 0);
            self.others = words.into_boxed_slice();
        }
        self.others[other] |= bit;
    }

    pub(super) fn has(&self, endpoint: usize) -> bool {
        let word = match (endpoint / WORD).checked_sub(1) {
            None => self.first,
            Some(other) => self.others.get(other).copied().unwrap_or(0),
        };
        (word >> (endpoint % WORD)) & 1 == 1
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first == 0 && self.others.iter().all(|&word| word == 0)
    }

    /// Forgets these slots, which other endpoints have now.
    pub(super) fn forget(&mut self, slots: &Self) {
        self.first &= !slots.first;
        for (word, gone) in self.others.iter_mut().zip(slots.others.iter()) {
            *word &= !gone;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_has_a_lane_and_those_past_the_last_share_it() {
        assert_eq!([0, 1, 14, 15, 16, 255].map(lane), [0, 1, 14, 15, 15, 15]);
    }

    #[test]
    fn each_slot_that_was_tried_is_known_by_itself() {
        let added = [0, 126, 127, 128, 150, 255, 256, 4095];
        let mut tried = Tried::default();
        assert!(tried.is_empty());
        for (index, &slot) in added.iter().enumerate() {
            tried.add(slot);
            let known = (0..5000).filter(|&slot| tried.has(slot));
            assert!(known.eq(added[..=index].iter().copied()), "{slot}");
        }
        let mut gone = Tried::default();
        for slot in [1, 127, 150, 4095, 4999] {
            gone.add(slot);
        }
        tried.forget(&gone);
        let known = (0..5000).filter(|&slot| tried.has(slot));
        assert!(known.eq([0, 126, 128, 255, 256]));
        gone.forget(&gone.clone());
        assert!(gone.is_empty() && !tried.is_empty());
    }

    #[test]
    fn what_few_requests_have_takes_little_of_each() {
        assert!(size_of::<Tried>() <= 32);
        let mut tried = Tried::default();
        tried.add(127);
        assert_eq!(tried.others.len(), 0);
    }
}
