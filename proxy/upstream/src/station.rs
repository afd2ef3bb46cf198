//! A cluster's station, shared by all workers: it decides which requests are served, and which
//! wait.
//!
//! The decisions are those of [`sprat_scheduler::station`]; here they wake tasks. The lock is
//! held for one decision at a time.
//!
//! Under SRQ a place may become free though no request ends, at a time that the station tells
//! ([`Station::next_demotion`]). One of the requests that wait for it keeps that time.

use std::pin::Pin;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use slab::Slab;
use sprat_config::resolved::{Admission, Class, Cluster};
use sprat_config::stations::{self, SizeUse};
use sprat_net::clock;
use sprat_scheduler::dispatch::{EndpointSpec, stable_hash};
use sprat_scheduler::health::Health;
use sprat_scheduler::station::{
    Again, Arrival, ClassStats, Event, Refusal, Session, Station, StationConfig, Ticket, Verdict,
};
use sprat_scheduler::{Size, Time};
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use super::absence::Absence;
use super::account::Account;
use super::members::{Members, Source};
use super::weights::Weights;

/// The station of a cluster, shared by the workers.
#[derive(Debug)]
pub struct SharedStation {
    pub(super) epoch: Instant,
    /// The name of the cluster, for the log.
    pub(super) name: String,
    /// The configured endpoints that its members are made from.
    pub(super) source: Source,
    /// The version of the endpoints: it grows with every change of them.
    pub(super) version: AtomicU64,
    /// The signal that wakes the tasks that follow the endpoints, when these have changed.
    pub(super) replaced: Notify,
    /// The requests that wait while all endpoints are away.
    pub absence: Arc<Absence>,
    /// The time that a request may wait, by class.
    timeouts: Vec<Option<Duration>>,
    limits_classes: bool,
    has_channel_rule: bool,
    size_use: SizeUse,
    /// Whether the station is to be told how requests went.
    pub(super) observes: bool,
    /// The signal that wakes the task that tends the station, when an endpoint's state has
    /// changed.
    pub(super) changed: Arc<Notify>,
    decisions: Mutex<Decisions>,
}

#[derive(Debug)]
pub(super) struct Decisions {
    pub(super) station: Station,
    pub(super) health: Health,
    pub(super) members: Members,
    /// The present endpoints, in order, as the station was told of them.
    pub(super) specs: Vec<EndpointSpec>,
    /// The weights that the operator gave the endpoints while they serve.
    pub(super) weights: Weights,
    pub(super) account: Account,
    /// The requests that wait, each until it has heard the decision.
    parked: Slab<Parked>,
    /// The key in `parked` of the request that has a ticket, by [`Ticket::index`]. A ticket goes
    /// to the next request as soon as its own is refused, which has yet to hear of that.
    keys: Vec<usize>,
    /// The tasks to wake once the lock is free.
    wakers: Vec<Waker>,
    /// The waiting request that has the timer for what changes by itself, if one has.
    timekeeper: Option<Timekeeper>,
}

/// The waiting request whose timer is for all that wait.
#[derive(Clone, Copy, Debug)]
struct Timekeeper {
    /// The key in [`Decisions::parked`].
    key: usize,
    until: Time,
}

/// A request's place at a station.
pub(super) enum Placed {
    /// The request goes to an endpoint now.
    Now(Ticket, usize),
    /// The request waits in a queue.
    Waits(Waiting),
}

/// A waiting request's decision, and the task to wake with it.
#[derive(Debug, Default)]
struct Parked {
    decided: Option<Result<usize, Refusal>>,
    waker: Option<Waker>,
}

impl Decisions {
    /// Hands out what the station has decided; returns the wakers of the tasks to wake.
    pub(super) fn settle(&mut self) -> Vec<Waker> {
        self.hand_out();
        let reminded = self.remind();
        self.wakers.extend(reminded);
        self.account.follow(&self.station, &self.health);
        std::mem::take(&mut self.wakers)
    }

    /// Hands out what the station has decided on those that wait.
    fn hand_out(&mut self) {
        while let Some(event) = self.station.poll() {
            let (ticket, decided) = match event {
                Event::Started { ticket, endpoint } => (ticket, Ok(endpoint)),
                Event::Refused { ticket, refusal } => (ticket, Err(refusal)),
            };
            let key = self.keys[ticket.index()];
            let parked = &mut self.parked[key];
            parked.decided = Some(decided);
            self.wakers.extend(parked.waker.take());
            self.release_timekeeper(key);
        }
    }

    /// Returns the waker of the request that is to set its timer: to an earlier time than before,
    /// or because none keeps the time. That one is the timekeeper from now on, so that the next
    /// decision wakes no other. Those that have no waker are polled in any case.
    fn remind(&mut self) -> Option<Waker> {
        let until = self.station.next_demotion()?;
        let key = match self.timekeeper {
            Some(own) if own.until <= until => return None,
            Some(own) => own.key,
            None => {
                let waits = |own: &Parked| own.decided.is_none() && own.waker.is_some();
                let mut parked = self.parked.iter();
                parked.find(|&(_, own)| waits(own))?.0
            }
        };
        self.timekeeper = Some(Timekeeper { key, until });
        self.parked[key].waker.take()
    }

    /// Makes a waiting request the timekeeper, unless another is, and returns the time until which
    /// it is to sleep; none if another keeps the time, or nothing changes by itself.
    fn keep_time(&mut self, key: usize) -> Option<Time> {
        if self.timekeeper.is_some_and(|own| own.key != key) {
            return None;
        }
        let next = self.station.next_demotion();
        self.timekeeper = next.map(|until| Timekeeper { key, until });
        next
    }

    /// Notes that a request keeps the time no more, since it is not waiting.
    fn release_timekeeper(&mut self, key: usize) {
        if self.timekeeper.is_some_and(|own| own.key == key) {
            self.timekeeper = None;
        }
    }

    /// Parks a request that waits; returns its key in `parked`.
    fn park(&mut self, ticket: Ticket) -> usize {
        // The ticket may be that of a request that was refused in the same decision.
        self.hand_out();
        let (index, key) = (ticket.index(), self.parked.insert(Parked::default()));
        if self.keys.len() <= index {
            self.keys.resize(index + 1, usize::MAX);
        }
        self.keys[index] = key;
        key
    }
}

impl SharedStation {
    /// Creates the station of a cluster, with the endpoints of `source`. The counts of the cluster,
    /// and of endpoints that `before` has, too, go on; the rest of what it knows is taken over once
    /// this station is to serve ([`SharedStation::take_over`]).
    pub(super) fn new(
        source: Source,
        cluster: &Cluster,
        classes: &[Class],
        admission: &Admission,
        before: Option<&Self>,
    ) -> Arc<Self> {
        let (known, account) = match before.map(Self::lock) {
            Some(before) => {
                let known = before.members.by_slot.clone();
                (known, Account::new(classes, Some(&before.account)))
            }
            None => (Vec::new(), Account::new(classes, None)),
        };
        let found = source.members(&known);
        let (present, endpoints): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        let config = StationConfig {
            endpoints: endpoints.clone(),
            ..station_config(cluster, classes, admission)
        };
        let (dispatch, queue) = (&cluster.dispatch, &cluster.wait_queue);
        let size_use = SizeUse::of(dispatch, cluster.max_requests, queue, classes, admission);
        let specs = &config.classes;
        let resilience = &cluster.resilience;
        let (outliers, thresholds) = (resilience.outlier_detection, resilience.thresholds());
        let own = Arc::new(Self {
            observes: outliers.is_some(),
            changed: Arc::default(),
            name: cluster.name.clone(),
            source,
            version: AtomicU64::new(0),
            replaced: Notify::new(),
            absence: before.map_or_else(Arc::default, |before| Arc::clone(&before.absence)),
            epoch: before.map_or_else(Instant::now, |before| before.epoch),
            timeouts: specs.iter().map(|class| class.timeout).collect(),
            limits_classes: specs.iter().any(|class| class.max_concurrency < usize::MAX),
            has_channel_rule: config.admission.channel.is_some(),
            size_use,
            decisions: Mutex::new(Decisions {
                specs: endpoints,
                weights: Weights::default(),
                account,
                health: Health::new(outliers, thresholds, config.endpoints.len()),
                station: Station::new(config),
                members: Members {
                    present: (0..present.len()).collect(),
                    by_slot: present,
                },
                parked: Slab::new(),
                keys: Vec::new(),
                wakers: Vec::new(),
                timekeeper: None,
            }),
        });
        own.follow_names();
        own
    }

    /// Returns whether a class may hold back requests that an endpoint has room for.
    pub(super) fn limits_classes(&self) -> bool {
        self.limits_classes
    }

    /// Returns what a response's size is used for before the response is asked for.
    pub(super) fn size_use(&self) -> SizeUse {
        self.size_use
    }

    /// Returns whether requests are refused when the uplink is overloaded.
    pub(super) fn has_channel_rule(&self) -> bool {
        self.has_channel_rule
    }

    /// Locks the decisions of the station. A panic in the middle of one ends its worker; the others
    /// go on with what the station has become.
    pub(super) fn lock(&self) -> MutexGuard<'_, Decisions> {
        self.decisions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes one decision, and wakes the tasks that it concerns.
    pub(super) fn decide<T>(&self, decide: impl FnOnce(&mut Station, Time) -> T) -> T {
        self.change(|decisions, now| decide(&mut decisions.station, now))
    }

    fn change<T>(&self, change: impl FnOnce(&mut Decisions, Time) -> T) -> T {
        self.change_at(clock::now(), change)
    }

    fn change_at<T>(&self, now: Instant, change: impl FnOnce(&mut Decisions, Time) -> T) -> T {
        let now = Time::ZERO + now.duration_since(self.epoch);
        let mut decisions = self.lock();
        let decided = change(&mut decisions, now);
        let wakers = decisions.settle();
        drop(decisions);
        wakers.into_iter().for_each(Waker::wake);
        decided
    }

    /// Decides on a request that has come.
    pub(super) fn arrive(
        self: &Arc<Self>,
        arrival: &Arrival,
        session: Option<Session>,
    ) -> Result<Placed, Refusal> {
        self.place(arrival.class, |station, now| {
            station.arrive_in(now, arrival, session)
        })
    }

    /// Decides on a request that is to be tried again.
    pub(super) fn again(self: &Arc<Self>, ticket: Ticket, class: usize) -> Result<Placed, Refusal> {
        self.place(class, |station, now| station.again(now, ticket))
    }

    /// Decides on a request, and parks it if it is to wait, before anything else is decided.
    fn place(
        self: &Arc<Self>,
        class: usize,
        place: impl FnOnce(&mut Station, Time) -> Verdict,
    ) -> Result<Placed, Refusal> {
        self.change(|decisions, now| {
            Ok(match place(&mut decisions.station, now) {
                Verdict::Start { ticket, endpoint } => Placed::Now(ticket, endpoint),
                Verdict::Wait { ticket } => {
                    let key = decisions.park(ticket);
                    Placed::Waits(Waiting::new(self, ticket, key, class))
                }
                Verdict::Refuse(refusal) => return Err(refusal),
            })
        })
    }

    pub(super) fn finish(&self, now: Instant, ticket: Ticket, bytes: u64) {
        self.change_at(now, |decisions, now| {
            decisions.station.finish(now, ticket, bytes);
        });
    }

    pub(super) fn cancel(&self, ticket: Ticket) {
        self.decide(|station, now| station.cancel(now, ticket));
    }

    pub(super) fn step_back(&self, ticket: Ticket, sent: bool) -> Again {
        self.decide(|station, now| station.step_back(now, ticket, sent))
    }

    pub(super) fn unreached(&self, ticket: Ticket) {
        self.lock().station.unreached(ticket);
    }

    pub(super) fn hedge(&self, ticket: Ticket) -> Option<(Ticket, usize)> {
        self.decide(|station, now| station.hedge(now, ticket))
    }

    pub(super) fn reached(&self, ticket: Ticket) {
        self.decide(|station, now| station.reached(now, ticket));
        self.absence.end();
    }

    pub(super) fn resize(&self, ticket: Ticket, size: Size) {
        self.lock().station.resize(ticket, size);
    }

    /// Returns whether other requests need the places that are taken.
    pub(super) fn is_short_of_places(&self) -> bool {
        self.decide(|station, now| station.is_short_of_places(now))
    }

    pub(super) fn has_room(&self) -> bool {
        self.decide(Station::has_room)
    }

    /// Returns the counts of what has happened in the cluster so far, by class. How many requests
    /// wait and run is this station's own.
    pub fn stats(&self) -> Vec<ClassStats> {
        let mut decisions = self.lock();
        let own = &mut *decisions;
        own.account.stats(&own.station, &own.health)
    }
}

/// Returns a cluster's station as the core is told of it.
pub fn station_config(
    cluster: &Cluster,
    classes: &[Class],
    admission: &Admission,
) -> StationConfig {
    let endpoints = cluster.endpoints.iter().map(|endpoint| EndpointSpec {
        weight: endpoint.weight,
        reserved: endpoint.reserved,
        priority: endpoint.priority,
        size_range: endpoint.size_range,
        identity: stable_hash(&[endpoint.address.to_string().as_bytes()]),
    });
    let station = stations::station_config(
        endpoints.collect(),
        cluster.max_requests,
        &cluster.dispatch,
        &cluster.wait_queue,
        cluster.slow_start,
        classes,
        admission,
    );
    let resilience = &cluster.resilience;
    StationConfig {
        healthy_panic_percent: resilience.healthy_panic_percent,
        max_active: resilience.max_requests,
        max_pending: resilience.max_pending_requests,
        retry_budget: resilience.retry_budget,
        ..station
    }
}

/// A request that waits for an endpoint. If this is dropped before the request has one, it gives
/// up its place.
pub(super) struct Waiting {
    station: Arc<SharedStation>,
    pub(super) ticket: Ticket,
    /// The key in [`Decisions::parked`].
    key: usize,
    expiry: Option<Pin<Box<Sleep>>>,
    /// The timer for what changes by itself, while this request keeps the time.
    timer: Option<Pin<Box<Sleep>>>,
    /// Whether the request has its endpoint, so that the ticket is no longer given up with this.
    started: bool,
}

impl Waiting {
    fn new(station: &Arc<SharedStation>, ticket: Ticket, key: usize, class: usize) -> Self {
        Self {
            station: Arc::clone(station),
            ticket,
            key,
            expiry: station.timeouts[class].map(|timeout| Box::pin(sleep(timeout))),
            timer: None,
            started: false,
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
        loop {
            let mut decisions = this.station.lock();
            let parked = &mut decisions.parked[this.key];
            if let Some(decided) = parked.decided.take() {
                this.started = decided.is_ok();
                return Poll::Ready(decided);
            }
            parked.waker = Some(cx.waker().clone());
            let Some(next) = decisions.keep_time(this.key) else {
                this.timer = None;
                return Poll::Pending;
            };
            drop(decisions);
            let at = this.station.epoch + next.since(Time::ZERO);
            let timer = (this.timer).get_or_insert_with(|| Box::pin(sleep_until(at)));
            if timer.deadline() != at {
                timer.as_mut().reset(at);
            }
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            // A turn's time may be before the timer's.
            let now = clock::now().max(at);
            this.station
                .change_at(now, |decisions, now| decisions.station.expire(now));
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.station.change(|decisions, now| {
            decisions.release_timekeeper(self.key);
            decisions.parked.remove(self.key);
            // It may have been given an endpoint meanwhile: that is free again.
            // A refusal has left nothing.
            if !self.started {
                decisions.station.cancel(now, self.ticket);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use sprat_scheduler::station::RefusalReason;
    use tokio::time::advance;

    use super::*;
    use crate::SharedCluster;
    use crate::dns::Names;

    /// Makes a station of one endpoint that serves one request at a time; others wait for 100 ms.
    fn station() -> Arc<SharedStation> {
        with("max_requests: 1, wait_queue: {timeout: 100ms}")
    }

    /// Makes a station of one endpoint that serves two requests at a time. One that has been there
    /// for 50 ms lets another start, of which there may be two at a time.
    fn with_srq() -> Arc<SharedStation> {
        with(
            "max_requests: 2, wait_queue: {timeout: 1m, order: {name: srq, first_share: 50%, \
             max_overcommit: 1}}",
        )
    }

    fn with(keys: &str) -> Arc<SharedStation> {
        with_classes(keys, "")
    }

    /// Makes a station of one endpoint; `classes` is the file's line about them.
    fn with_classes(keys: &str, classes: &str) -> Arc<SharedStation> {
        let text = format!(
            "version: 1\nlisteners: [{{address: 127.0.0.1:0}}]\nroutes: [{{cluster: farm}}]\n\
             clusters: {{farm: {{endpoints: ['127.0.0.1:1'], {keys}}}}}\n{classes}"
        );
        let loaded = sprat_config::parse(&text, "test.yaml", &|_| None);
        let config = loaded.unwrap().config;
        let cluster = SharedCluster::new(&config.clusters[0], &config, &Names::default());
        Arc::clone(&cluster.unwrap().station)
    }

    fn arrive(station: &Arc<SharedStation>, class: usize) -> Placed {
        let arrival = Arrival {
            class,
            size: Size::Unknown,
            hash: 0,
            random: 0,
            channel_backlog: Duration::ZERO,
            channel_ahead: Duration::ZERO,
        };
        let placed = station.arrive(&arrival, None);
        placed.expect("there is room to wait")
    }

    /// Queues a request that comes while the endpoint has another.
    fn queue(station: &Arc<SharedStation>) -> Waiting {
        queue_of(station, 0)
    }

    fn queue_of(station: &Arc<SharedStation>, class: usize) -> Waiting {
        match arrive(station, class) {
            Placed::Waits(waiting) => waiting,
            Placed::Now(..) => panic!("the endpoint was free"),
        }
    }

    fn start(station: &Arc<SharedStation>) -> Ticket {
        match arrive(station, 0) {
            Placed::Now(ticket, 0) => ticket,
            _ => panic!("the endpoint was not free"),
        }
    }

    /// Returns the decision that a waiting request hears now, if there is one.
    async fn heard(waiting: &mut Waiting) -> Option<Result<usize, RefusalReason>> {
        poll_fn(|cx| match Pin::new(&mut *waiting).poll(cx) {
            Poll::Ready(heard) => Poll::Ready(Some(heard.map_err(|refusal| refusal.reason))),
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_comes_before_a_refusal_is_heard_does_not_hear_it() {
        let station = station();
        let served = start(&station);
        let mut late = queue(&station);
        assert_eq!(heard(&mut late).await, None);
        advance(Duration::from_millis(200)).await;
        station.decide(Station::expire);
        let mut next = queue(&station);
        assert_eq!(late.ticket.index(), next.ticket.index());
        assert_eq!(heard(&mut next).await, None);
        assert_eq!(heard(&mut late).await, Some(Err(RefusalReason::Timeout)));
        drop(late);
        assert_eq!(heard(&mut next).await, None);
        station.finish(Instant::now(), served, 0);
        assert_eq!(heard(&mut next).await, Some(Ok(0)));
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_comes_as_a_late_one_is_refused_does_not_hear_it() {
        let station = with_classes(
            "max_requests: 2, wait_queue: {timeout: 1m, order: {name: srq, first_share: 50%, \
             max_overcommit: 1}}",
            "classes: {gold: {level: 1, deadline: 20ms, drop_late: true}}\n",
        );
        let _served = [start(&station), start(&station)];
        // The class `default` comes after that of the file, and its level is lower.
        let (mut late, mut other) = (queue(&station), queue_of(&station, 1));
        assert_eq!(heard(&mut late).await, None);
        assert_eq!(heard(&mut other).await, None);
        advance(Duration::from_millis(60)).await;
        // A place is free since 50 ms, which the next one finds out.
        let mut next = queue(&station);
        assert_eq!(late.ticket.index(), next.ticket.index());
        assert_eq!(heard(&mut late).await, Some(Err(RefusalReason::Late)));
        assert_eq!(heard(&mut other).await, Some(Ok(0)));
        assert_eq!(heard(&mut next).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn one_who_leaves_before_it_hears_that_it_may_start_holds_nothing() {
        let station = station();
        let served = start(&station);
        let (left, mut next) = (queue(&station), queue(&station));
        station.finish(Instant::now(), served, 0);
        assert_eq!(heard(&mut next).await, None);
        drop(left);
        assert_eq!(heard(&mut next).await, Some(Ok(0)));
        // What it has is its own: only waiting is over.
        let ticket = next.ticket;
        drop(next);
        let last = queue(&station);
        drop(last);
        station.finish(Instant::now(), ticket, 0);
        station.finish(Instant::now(), start(&station), 0);
        let decisions = station.lock();
        assert!(decisions.parked.is_empty());
        assert_eq!(decisions.station.active(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_starts_when_one_is_beyond_its_quantum() {
        let station = with_srq();
        let served = [start(&station), start(&station)];
        let mut waiting = [queue(&station), queue(&station)];
        for _ in 0..2 {
            for own in &mut waiting {
                assert_eq!(heard(own).await, None);
            }
            advance(Duration::from_millis(40)).await;
        }
        // The first keeps the time, and starts; three are as many as there may be.
        let [first, second] = &mut waiting;
        assert_eq!(heard(first).await, Some(Ok(0)));
        advance(Duration::from_secs(1)).await;
        assert_eq!(heard(second).await, None);
        station.finish(Instant::now(), served[0], 0);
        assert_eq!(heard(second).await, Some(Ok(0)));
        assert!(station.lock().timekeeper.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn another_keeps_the_time_when_the_first_has_gone() {
        let station = with_srq();
        let _served = [start(&station), start(&station)];
        let mut first = queue(&station);
        assert_eq!(heard(&mut first).await, None);
        let second = tokio::spawn(queue(&station));
        tokio::task::yield_now().await;
        let keeper = station.lock().timekeeper.map(|own| own.key);
        let key = first.key;
        assert_eq!(keeper, Some(key));
        drop(first);
        let keeper = station.lock().timekeeper.map(|own| own.key);
        assert!(keeper.is_some_and(|own| own != key));
        // Before its time in the queue is up.
        let started = second.await.expect("it does not panic");
        assert_eq!(started.map_err(|refusal| refusal.reason), Ok(0));
    }

    #[tokio::test(start_paused = true)]
    async fn when_the_timekeeper_leaves_one_other_is_woken() {
        let station = with_srq();
        let _served = [start(&station), start(&station)];
        let mut waiting = [(); 4].map(|()| queue(&station));
        for own in &mut waiting {
            assert_eq!(heard(own).await, None);
        }
        let asleep = || {
            let decisions = station.lock();
            let all = decisions.parked.iter();
            all.filter(|(_, own)| own.waker.is_some()).count()
        };
        assert_eq!(asleep(), 4);
        let [first, mut others @ ..] = waiting;
        drop(first);
        assert_eq!(asleep(), 2);
        // Decisions before that one is polled wake none.
        station.has_room();
        station.is_short_of_places();
        assert_eq!(asleep(), 2);
        // It keeps the time.
        for own in &mut others {
            assert_eq!(heard(own).await, None);
        }
        advance(Duration::from_millis(60)).await;
        assert_eq!(heard(&mut others[0]).await, Some(Ok(0)));
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_is_kept_anew_when_one_starts_that_is_sooner_beyond_its_quantum() {
        let station = with(
            "max_requests: 1, wait_queue: {timeout: 1m, order: {name: srq, first_share: 100%, \
             max_overcommit: 1}}",
        );
        let long = start(&station);
        advance(Duration::from_millis(60)).await;
        // The first is beyond its quantum, and another starts and is as well.
        let short = start(&station);
        advance(Duration::from_millis(60)).await;
        let mut first = queue(&station);
        let second = tokio::spawn(queue(&station));
        tokio::task::yield_now().await;
        let until = || station.lock().timekeeper.map(|own| own.until);
        let before = until().expect("the second keeps the time");
        station.finish(Instant::now(), short, 0);
        assert_eq!(heard(&mut first).await, Some(Ok(0)));
        tokio::task::yield_now().await;
        assert!(until().expect("it still does") < before);
        station.finish(Instant::now(), long, 0);
        assert!(second.await.expect("it does not panic").is_ok());
    }
}
