//! What each endpoint has to do.

use std::time::Duration;

use super::work::{Sharing, Work};
use crate::Time;
use crate::classes::MAX_LEVELS;
use crate::dispatch::{EndpointSpec, View};

/// Weights are multiplied by this, so that a slow start can have less than 1.
const WEIGHT_SCALE: u64 = 1000;

/// A slow start begins with this share of the weight.
const FIRST_SHARE: f64 = 0.1;

/// What an endpoint has to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointLoad {
    /// Requests in service.
    pub running: usize,
    /// Requests in service or waiting for this endpoint.
    pub requests: usize,
    /// Their expected bytes.
    pub work_bytes: u64,
}

#[derive(Clone, Debug)]
struct Endpoint {
    weight: u32,
    running: usize,
    requests: usize,
    work: Work,
    by_level: [u32; MAX_LEVELS],
    /// It could not be reached.
    down: bool,
    /// It has come back then.
    since: Option<Time>,
}

/// All of a cluster.
#[derive(Clone, Debug)]
pub(super) struct Endpoints {
    endpoints: Vec<Endpoint>,
    max_requests: usize,
    slow_start: Duration,
    sharing: Sharing,
    /// Kept from pick to pick.
    views: Vec<View>,
}

impl Endpoints {
    /// `by_work`: the dispatch chooses by the work there is.
    pub(super) fn new(
        specs: &[EndpointSpec],
        by_work: bool,
        max_requests: usize,
        slow_start: Duration,
    ) -> Self {
        let endpoint = |spec: &EndpointSpec| Endpoint {
            weight: spec.weight,
            running: 0,
            requests: 0,
            work: Work::new(by_work),
            by_level: [0; MAX_LEVELS],
            down: false,
            since: None,
        };
        Self {
            endpoints: specs.iter().map(endpoint).collect(),
            max_requests,
            slow_start,
            sharing: Sharing::default(),
            views: Vec::with_capacity(specs.len()),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.endpoints.len()
    }

    pub(super) fn load(&self, endpoint: usize) -> EndpointLoad {
        let endpoint = &self.endpoints[endpoint];
        EndpointLoad {
            running: endpoint.running,
            requests: endpoint.requests,
            work_bytes: endpoint.work.total_bytes(),
        }
    }

    pub(super) fn has_room(&self, endpoint: usize) -> bool {
        self.endpoints[endpoint].running < self.max_requests
    }

    /// A request goes to an endpoint; `order` grows from one to the next.
    pub(super) fn start(&mut self, endpoint: usize, level: u8, bytes: u64, order: u64) {
        self.expect(endpoint, level, bytes);
        let endpoint = &mut self.endpoints[endpoint];
        endpoint.running += 1;
        endpoint.work.started(order);
    }

    /// A request is no longer there: it has its response, or was cut short.
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

    /// A request waits for an endpoint.
    pub(super) fn expect(&mut self, endpoint: usize, level: u8, bytes: u64) {
        let endpoint = &mut self.endpoints[endpoint];
        endpoint.requests += 1;
        endpoint.work.add(bytes);
        endpoint.by_level[lane(level)] += 1;
    }

    /// It no longer does.
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

    /// As a balancer sees them for a request of `level` and `bytes`.
    pub(super) fn views(
        &mut self,
        now: Time,
        level: u8,
        bytes: u64,
        usable: impl Fn(usize, bool) -> bool,
    ) -> &[View] {
        self.views.clear();
        let (slow_start, max_requests) = (self.slow_start, self.max_requests);
        let shared = self.sharing.is_seen();
        let endpoints = self.endpoints.iter_mut().enumerate();
        self.views.extend(endpoints.map(|(index, endpoint)| {
            let weight = endpoint.weight_at(now, slow_start);
            let ahead = &endpoint.by_level[..=lane(level)];
            View {
                usable: usable(index, endpoint.running < max_requests),
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

/// Endpoints that a request has tried. Past the bits, the last stands for all.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tried(u128);

impl Tried {
    pub(super) fn add(&mut self, endpoint: usize) {
        self.0 |= 1 << endpoint.min(127);
    }

    pub(super) fn has(&self, endpoint: usize) -> bool {
        self.0 >> endpoint.min(127) & 1 == 1
    }

    pub(super) fn count(&self) -> usize {
        self.0.count_ones() as usize
    }
}
