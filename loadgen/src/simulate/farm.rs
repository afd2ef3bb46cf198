//! Endpoints behind the core's station, in virtual time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use anyhow::{bail, ensure};
use sprat_scheduler::dispatch::EndpointSpec;
use sprat_scheduler::station::{Arrival, Event, Station, StationConfig, Ticket, Verdict};
use sprat_scheduler::{Size, Time};

use super::arrivals::{Arrivals, SimulatedRequest};
use super::measure::ServedRequest;
use super::sizes::SizeDistribution;
use crate::ideal::server::{Sharing, VirtualServer};

/// The number of different resources, for dispatch by affinity; all are asked for equally often.
const RESOURCES: f64 = 5_000.0;

/// The way in which an endpoint serves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct EndpointService {
    /// The cost of a request beside its bytes, in bytes.
    pub(super) request_bytes: f64,
    /// The bytes per second of an endpoint, or of each of its places.
    pub(super) bytes_per_s: f64,
    /// Whether all requests in service at an endpoint share its rate; else each has a place with
    /// the whole of it.
    pub(super) shares: bool,
}

impl EndpointService {
    /// Returns the seconds that a request takes when it is alone.
    pub(super) fn alone_s(&self, bytes: f64) -> f64 {
        (bytes + self.request_bytes) / self.bytes_per_s
    }
}

/// The parameters of one run of endpoints behind a station.
#[derive(Clone, Debug)]
pub(super) struct FarmRunPlan {
    pub(super) station: StationConfig,
    pub(super) service: EndpointService,
    pub(super) seed: u64,
    pub(super) requests: usize,
    pub(super) sizes: SizeDistribution,
    /// The mean seconds between two arrivals.
    pub(super) gap_s: f64,
    /// The share of each class in the requests.
    pub(super) class_shares: Vec<f64>,
}

/// Specifies endpoint `index`, which differs from the others in its identity alone.
pub(super) fn endpoint(index: usize) -> EndpointSpec {
    EndpointSpec {
        weight: 1,
        reserved: false,
        size_range: None,
        identity: hash_of(index as u64),
        priority: 0,
    }
}

fn hash_of(number: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    number.hash(&mut hasher);
    hasher.finish()
}

/// Serves all requests of a plan, in the order of their arrival.
///
/// # Errors
/// When the core breaks one of its promises, or turns a request away.
pub(super) fn simulate(plan: &FarmRunPlan) -> anyhow::Result<Vec<ServedRequest>> {
    let arrivals = Arrivals::new(plan.seed, plan.sizes, plan.gap_s, plan.requests);
    serve(plan, arrivals)
}

/// Serves given requests instead of the plan's own, in the order of their arrival.
///
/// # Errors
/// As [`simulate`].
pub(super) fn serve(
    plan: &FarmRunPlan,
    arrivals: impl Iterator<Item = SimulatedRequest>,
) -> anyhow::Result<Vec<ServedRequest>> {
    let mut farm = FarmRun::new(plan);
    let mut arrivals = arrivals.peekable();
    loop {
        let arrival_ns = arrivals.peek().map(|request| request.at.as_nanos());
        match (farm.servers.next_done_ns(), arrival_ns) {
            (Some(at), next) if next.is_none_or(|next| at <= next) => farm.finish(at)?,
            (_, Some(_)) => {
                if let Some(request) = arrivals.next() {
                    farm.arrive(&request)?;
                }
            }
            (_, None) => break,
        }
        farm.check()?;
    }
    farm.close()
}

/// The requests in service, at all endpoints.
enum Servers {
    /// Requests that each have a place, by the time at which they will be done.
    Places(BinaryHeap<Reverse<(u64, usize)>>),
    Sharing(Vec<Sharing>),
}

impl Servers {
    fn start(&mut self, now: Time, request: usize, endpoint: usize, work: Duration) {
        let work_ns = work.as_nanos() as u64;
        match self {
            Self::Places(ends) => ends.push(Reverse(((now + work).as_nanos(), request))),
            Self::Sharing(endpoints) => {
                endpoints[endpoint].arrive(now.as_nanos(), request, work_ns);
            }
        }
    }

    fn next_done_ns(&self) -> Option<u64> {
        match self {
            Self::Places(ends) => ends.peek().map(|Reverse((at, _))| *at),
            Self::Sharing(endpoints) => {
                let ends = endpoints.iter().filter_map(VirtualServer::next_done_ns);
                ends.min()
            }
        }
    }

    fn take_done(&mut self) -> Option<usize> {
        match self {
            Self::Places(ends) => ends.pop().map(|Reverse((_, request))| request),
            Self::Sharing(endpoints) => {
                let busy = endpoints.iter_mut().filter(|e| e.next_done_ns().is_some());
                busy.min_by_key(|e| e.next_done_ns())?.take_done()
            }
        }
    }
}

struct FarmRun<'a> {
    plan: &'a FarmRunPlan,
    station: Station,
    servers: Servers,
    /// All requests, by their number.
    requests: Vec<PresentRequest>,
    served: Vec<ServedRequest>,
    /// The request of each ticket, by the ticket's index.
    holders: Vec<usize>,
    over: usize,
}

#[derive(Clone, Copy, Debug)]
struct PresentRequest {
    arrived: Time,
    ticket: Option<Ticket>,
}

impl<'a> FarmRun<'a> {
    fn new(plan: &'a FarmRunPlan) -> Self {
        let endpoints = plan.station.endpoints.iter();
        let servers = if plan.service.shares {
            Servers::Sharing(endpoints.map(|_| Sharing::default()).collect())
        } else {
            Servers::Places(BinaryHeap::new())
        };
        Self {
            plan,
            station: Station::new(plan.station.clone()),
            servers,
            requests: Vec::with_capacity(plan.requests),
            served: Vec::with_capacity(plan.requests),
            holders: Vec::new(),
            over: 0,
        }
    }

    fn arrive(&mut self, request: &SimulatedRequest) -> anyhow::Result<()> {
        let class = class_of(&self.plan.class_shares, request.class);
        let number = self.requests.len();
        self.requests.push(PresentRequest {
            arrived: request.at,
            ticket: None,
        });
        self.served.push(ServedRequest {
            bytes: request.bytes,
            alone_s: self.plan.service.alone_s(request.bytes as f64),
            class,
            ..ServedRequest::default()
        });
        let arrival = Arrival {
            class,
            size: Size::Exact(request.bytes),
            hash: hash_of((request.resource * RESOURCES) as u64),
            random: request.random,
            channel_backlog: Duration::ZERO,
            channel_ahead: Duration::ZERO,
        };
        let verdict = self.station.arrive(request.at, &arrival);
        let (ticket, endpoint) = match verdict {
            Verdict::Start { ticket, endpoint } => (ticket, Some(endpoint)),
            Verdict::Wait { ticket } => (ticket, None),
            Verdict::Refuse(refusal) => bail!(
                "request {number} was turned away: {}",
                refusal.reason.name()
            ),
        };
        self.requests[number].ticket = Some(ticket);
        if self.holders.len() <= ticket.index() {
            self.holders.resize(ticket.index() + 1, number);
        }
        self.holders[ticket.index()] = number;
        if let Some(endpoint) = endpoint {
            self.start(request.at, number, endpoint);
        }
        self.drain(request.at)
    }

    fn start(&mut self, now: Time, request: usize, endpoint: usize) {
        let served = &mut self.served[request];
        let deadline = self.plan.station.classes[served.class].deadline;
        let waited = now.since(self.requests[request].arrived);
        served.late = deadline.is_some_and(|deadline| waited > deadline);
        let work = Duration::from_secs_f64(served.alone_s);
        self.servers.start(now, request, endpoint, work);
    }

    fn finish(&mut self, at_ns: u64) -> anyhow::Result<()> {
        let now = Time::from_nanos(at_ns);
        let Some(request) = self.servers.take_done() else {
            bail!("a job was to be done at {at_ns} ns, and none was");
        };
        let present = &mut self.requests[request];
        let Some(ticket) = present.ticket.take() else {
            bail!("request {request}: over twice");
        };
        self.served[request].response_s = now.since(present.arrived).as_secs_f64();
        self.over += 1;
        let bytes = self.served[request].bytes;
        self.station.finish(now, ticket, bytes);
        self.drain(now)
    }

    /// Starts the requests that the station lets start.
    fn drain(&mut self, now: Time) -> anyhow::Result<()> {
        while let Some(event) = self.station.poll() {
            let Event::Started { ticket, endpoint } = event else {
                bail!("a request was turned away that had been let in: {event:?}");
            };
            let request = self.holders[ticket.index()];
            ensure!(
                self.requests[request].ticket == Some(ticket),
                "request {request}: started with the ticket of another"
            );
            self.start(now, request, endpoint);
        }
        Ok(())
    }

    /// Checks that no endpoint has more in service than it may, and that none
    /// has a place free while a request waits for it.
    fn check(&self) -> anyhow::Result<()> {
        let max_requests = self.plan.station.max_requests;
        let (mut waiting, mut free) = (0, false);
        for endpoint in 0..self.plan.station.endpoints.len() {
            let load = self.station.load(endpoint);
            let waits = load.requests - load.running;
            ensure!(
                load.running <= max_requests,
                "endpoint {endpoint}: {load:?}"
            );
            ensure!(
                load.running == max_requests || waits == 0,
                "endpoint {endpoint} has room while requests wait for it: {load:?}"
            );
            waiting += waits;
            free |= load.running < max_requests;
        }
        // What waits for no endpoint waits for any.
        ensure!(
            !free || self.station.waiting() == waiting,
            "{} requests wait while an endpoint has room",
            self.station.waiting()
        );
        Ok(())
    }

    /// Checks at the end that every request was served and has left nothing behind.
    fn close(self) -> anyhow::Result<Vec<ServedRequest>> {
        let seed = self.plan.seed;
        ensure!(
            self.over == self.requests.len() && self.station.waiting() == 0,
            "seed {seed}: {} of {} requests came to an end",
            self.over,
            self.requests.len()
        );
        for endpoint in 0..self.plan.station.endpoints.len() {
            let load = self.station.load(endpoint);
            ensure!(
                load == sprat_scheduler::station::EndpointLoad::default(),
                "seed {seed}: endpoint {endpoint} is left with {load:?}"
            );
        }
        Ok(self.served)
    }
}

/// Returns the class that a number from 0 to 1 falls into.
pub(super) fn class_of(shares: &[f64], mut uniform: f64) -> usize {
    for (class, share) in shares.iter().enumerate() {
        if uniform < *share {
            return class;
        }
        uniform -= share;
    }
    shares.len().saturating_sub(1)
}

#[cfg(test)]
#[path = "farm/tests.rs"]
mod tests;
