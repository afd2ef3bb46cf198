//! A cluster's station, shared by all workers: who is served, who waits.
//!
//! The decisions are [`sprat_scheduler::station`]'s; here they wake tasks. The
//! lock is held for one decision at a time.

use std::pin::Pin;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use sprat_config::resolved::{Admission, Class, Cluster};
use sprat_config::stations::{self, SizeUse};
use sprat_scheduler::dispatch::EndpointSpec;
use sprat_scheduler::health::Health;
use sprat_scheduler::station::{
    Again, Arrival, ClassStats, Event, Refusal, Station, StationConfig, Ticket, Verdict,
};
use sprat_scheduler::{Size, Time};
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep, sleep};

use super::members::{Members, Source};
use super::stable_hash;

/// A cluster's station.
#[derive(Debug)]
pub(crate) struct SharedStation {
    pub(super) epoch: Instant,
    /// Of the cluster, for the log.
    pub(super) name: String,
    /// What its endpoints are made of.
    pub(super) source: Source,
    /// Of the endpoints: it grows with every change of them.
    pub(super) version: AtomicU64,
    /// Told when the endpoints have changed.
    pub(super) replaced: Notify,
    /// By class: how long a request may wait.
    timeouts: Vec<Option<Duration>>,
    limits_classes: bool,
    has_channel_rule: bool,
    size_use: SizeUse,
    /// Whether it is to be told how requests went.
    pub(super) observes: bool,
    /// Told when an endpoint's state has changed.
    pub(super) changed: Arc<Notify>,
    decisions: Mutex<Decisions>,
}

#[derive(Debug)]
pub(super) struct Decisions {
    pub(super) station: Station,
    pub(super) health: Health,
    pub(super) members: Members,
    /// By [`Ticket::index`].
    parked: Vec<Parked>,
}

/// A task that waits for a decision.
#[derive(Debug, Default)]
struct Parked {
    decided: Option<Result<usize, Refusal>>,
    waker: Option<Waker>,
}

impl Decisions {
    /// Hands out what the station has decided; whom to wake.
    pub(super) fn settle(&mut self) -> Vec<Waker> {
        let mut wakers = Vec::new();
        while let Some(event) = self.station.poll() {
            let (ticket, decided) = match event {
                Event::Started { ticket, endpoint } => (ticket, Ok(endpoint)),
                Event::Refused { ticket, refusal } => (ticket, Err(refusal)),
            };
            let parked = self.park(ticket);
            parked.decided = Some(decided);
            wakers.extend(parked.waker.take());
        }
        wakers
    }

    fn park(&mut self, ticket: Ticket) -> &mut Parked {
        let index = ticket.index();
        if self.parked.len() <= index {
            self.parked.resize_with(index + 1, Parked::default);
        }
        &mut self.parked[index]
    }
}

impl SharedStation {
    /// The station of a cluster, whose endpoints are made of `source`; what
    /// `before` knows of endpoints that it has, too, goes on.
    pub(super) fn new(
        source: Source,
        (cluster, classes, admission): (&Cluster, &[Class], &Admission),
        before: Option<&Self>,
    ) -> Arc<Self> {
        let known = before.map(|before| before.lock().members.by_slot.clone());
        let found = source.members(&known.unwrap_or_default());
        let (present, endpoints): (Vec<_>, _) = found.into_iter().unzip();
        let config = StationConfig {
            endpoints,
            ..station_config(cluster, classes, admission)
        };
        let (dispatch, queue) = (&cluster.dispatch, &cluster.wait_queue);
        let size_use = SizeUse::of(dispatch, cluster.max_requests, queue, classes, admission);
        let specs = &config.classes;
        let resilience = &cluster.resilience;
        let (outliers, thresholds) = (resilience.outlier_detection, resilience.thresholds());
        let mut own = Self {
            observes: outliers.is_some(),
            changed: Arc::default(),
            name: cluster.name.clone(),
            source,
            version: AtomicU64::new(0),
            replaced: Notify::new(),
            epoch: before.map_or_else(Instant::now, |before| before.epoch),
            timeouts: specs.iter().map(|class| class.timeout).collect(),
            limits_classes: specs.iter().any(|class| class.max_concurrency < usize::MAX),
            has_channel_rule: config.admission.channel.is_some(),
            size_use,
            decisions: Mutex::new(Decisions {
                health: Health::new(outliers, thresholds, config.endpoints.len()),
                station: Station::new(config),
                members: Members {
                    present: (0..present.len()).collect(),
                    by_slot: present,
                },
                parked: Vec::new(),
            }),
        };
        if let Some(before) = before {
            own.take_over(before);
        }
        let own = Arc::new(own);
        own.follow_names();
        own
    }

    /// Whether a class may hold back requests that an endpoint has room for.
    pub(super) fn limits_classes(&self) -> bool {
        self.limits_classes
    }

    /// What a response's size is used for before it is asked for.
    pub(super) fn size_use(&self) -> SizeUse {
        self.size_use
    }

    /// Whether requests are refused when the uplink is overloaded.
    pub(super) fn has_channel_rule(&self) -> bool {
        self.has_channel_rule
    }

    /// A panic in the middle of a decision ends its worker; the others go on
    /// with what the station has become.
    pub(super) fn lock(&self) -> MutexGuard<'_, Decisions> {
        self.decisions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// While nobody else has it.
    pub(super) fn decisions(&mut self) -> &mut Decisions {
        self.decisions
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// One decision, and the wake-ups that follow from it.
    fn decide<T>(&self, decide: impl FnOnce(&mut Station, Time) -> T) -> T {
        let now = Time::ZERO + self.epoch.elapsed();
        let mut decisions = self.lock();
        let decided = decide(&mut decisions.station, now);
        let wakers = decisions.settle();
        drop(decisions);
        wakers.into_iter().for_each(Waker::wake);
        decided
    }

    pub(super) fn arrive(&self, arrival: &Arrival) -> Verdict {
        self.decide(|station, now| station.arrive(now, arrival))
    }

    pub(super) fn finish(&self, ticket: Ticket, bytes: u64) {
        self.decide(|station, now| station.finish(now, ticket, bytes));
    }

    pub(super) fn cancel(&self, ticket: Ticket) {
        self.decide(|station, now| station.cancel(now, ticket));
    }

    pub(super) fn step_back(&self, ticket: Ticket, sent: bool) -> Again {
        self.decide(|station, now| station.step_back(now, ticket, sent))
    }

    pub(super) fn again(&self, ticket: Ticket) -> Verdict {
        self.decide(|station, now| station.again(now, ticket))
    }

    pub(super) fn hedge(&self, ticket: Ticket) -> Option<(Ticket, usize)> {
        self.decide(|station, now| station.hedge(now, ticket))
    }

    pub(super) fn reached(&self, ticket: Ticket) {
        self.decide(|station, now| station.reached(now, ticket));
    }

    pub(super) fn resize(&self, ticket: Ticket, size: Size) {
        self.lock().station.resize(ticket, size);
    }

    pub(super) fn has_room(&self) -> bool {
        self.lock().station.has_room()
    }

    /// What has happened so far, by class.
    pub(crate) fn stats(&self) -> Vec<ClassStats> {
        self.lock().station.stats().to_vec()
    }
}

/// What the core is told of a cluster.
pub(crate) fn station_config(
    cluster: &Cluster,
    classes: &[Class],
    admission: &Admission,
) -> StationConfig {
    let endpoints = cluster.endpoints.iter().map(|endpoint| EndpointSpec {
        weight: endpoint.weight,
        reserved: endpoint.reserved,
        size_range: endpoint.size_range,
        identity: stable_hash(&[endpoint.address.to_string().as_bytes()]),
    });
    let station = stations::station_config(
        (endpoints.collect(), cluster.max_requests),
        &cluster.dispatch,
        &cluster.wait_queue,
        cluster.slow_start,
        classes,
        admission,
    );
    let resilience = &cluster.resilience;
    StationConfig {
        panic_percent: resilience.panic_percent,
        max_active: resilience.max_requests,
        max_pending: resilience.max_pending_requests,
        retry_budget: resilience.retry_budget,
        ..station
    }
}

/// A request that waits for an endpoint. Dropped before it has one, it gives
/// up its place.
pub(super) struct Waiting {
    station: Arc<SharedStation>,
    ticket: Ticket,
    expiry: Option<Pin<Box<Sleep>>>,
    decided: bool,
}

impl Waiting {
    pub(super) fn new(station: &Arc<SharedStation>, ticket: Ticket, class: usize) -> Self {
        Self {
            station: Arc::clone(station),
            ticket,
            expiry: station.timeouts[class].map(|timeout| Box::pin(sleep(timeout))),
            decided: false,
        }
    }
}

impl Future for Waiting {
    type Output = Result<usize, Refusal>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let Some(expiry) = &mut this.expiry
            && expiry.as_mut().poll(cx).is_ready()
        {
            this.expiry = None;
            this.station.decide(Station::expire);
        }
        let mut decisions = this.station.lock();
        let parked = decisions.park(this.ticket);
        match parked.decided.take() {
            Some(decided) => {
                this.decided = true;
                Poll::Ready(decided)
            }
            None => {
                parked.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.decided {
            return;
        }
        let mut decisions = self.station.lock();
        let parked = decisions.park(self.ticket);
        parked.waker = None;
        // It may have been given an endpoint meanwhile: that is free again. A
        // refusal has left nothing.
        let refused = matches!(parked.decided.take(), Some(Err(_)));
        drop(decisions);
        if !refused {
            self.station.cancel(self.ticket);
        }
    }
}
