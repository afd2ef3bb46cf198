//! One uplink, shared by all workers: the core's [`Desk`] behind a mutex
//! whose critical sections are a few heap operations long.

use std::cell::Cell;
use std::fmt;
use std::hash::RandomState;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use sprat_net::clock;
use sprat_scheduler::srq;
use sprat_scheduler::station::ChannelBacklog;
use sprat_scheduler::{
    ClassSpec, Desk, Egress, EgressClassStats, EgressPolicy, EgressStats, FlowId, GroupId,
    MADE_UP_MAX, Pacer, Time,
};
use tokio::time::Instant;

use super::acknowledged::AckWatch;
use super::auto::{AutoRate, Writer};
use super::counters::Counters;
use super::division::{Divided, Division};
use super::ledger::{HORIZON, Settled};
use super::timer::Timer;
use crate::seldom::Seldom;

/// The uplink's scheduler and the tasks that wait for it.
pub struct PacedLink {
    epoch: Instant,
    /// The hasher that gives clients numbers, the same in all workers.
    client_hasher: RandomState,
    next_socket: AtomicU64,
    /// The pacer's rate, to be read without the lock.
    rate_bits_per_s: AtomicU64,
    /// A bit for each class: whether its responses are waited for by classes that take what the
    /// others leave.
    awaited: AtomicU32,
    state: Mutex<State>,
    /// The search for the rate, which is on if the rate is not given.
    auto: AutoRate,
    /// The division of the rate, if other instances send on the link.
    division: Mutex<Option<Division>>,
}

pub(super) struct State {
    pub(super) desk: Desk<Waker>,
    /// The time at which the earliest timer of any worker fires.
    pub(super) timer_at: Option<Time>,
    /// The scheduler's counters as they are published.
    counters: Counters,
    /// The bound on how often the log tells that the guard has tripped.
    floods: Seldom,
}

impl State {
    /// Forgets the timer that is set if it would fire later than the scheduler makes up for, as
    /// after a rise of a rate. No timer is set where all writers wait for places of their class's
    /// pool, of which there may be more now. Returns the wakers of the writers that wait then: the
    /// first to look sets another timer.
    fn overslept(&mut self, now: Time) -> Vec<Waker> {
        let Some(due) = self.desk.next_wakeup() else {
            return Vec::new();
        };
        let due = due.max(now);
        if self.timer_at.is_some_and(|at| at.since(due) <= MADE_UP_MAX) {
            return Vec::new();
        }
        self.timer_at = None;
        self.desk.waiting().cloned().collect()
    }

    /// Debits wire bytes that no grant covers.
    fn debit(&mut self, now: Time, wire_bytes: u64) {
        let before = self.desk.egress().stats();
        self.desk.debit(now, wire_bytes);
        self.count_forgotten(before);
    }

    /// Counts what was debited outside grants since `before` and found no room on the
    /// scheduler's clock. It has gone out all the same.
    fn count_forgotten(&mut self, before: EgressStats) {
        let now = self.desk.egress().stats();
        let debited = now.overhead_bytes.saturating_sub(before.overhead_bytes);
        let taken = now.wire_bytes.saturating_sub(before.wire_bytes);
        self.counters.count_forgotten(debited.saturating_sub(taken));
    }
}

/// The state of SRQ's queues.
#[derive(Clone, Debug)]
pub(crate) struct QueueStatus {
    /// The quantum of each queue but the last, in bytes.
    pub(crate) quanta: Vec<u64>,
    pub(crate) stats: srq::Stats,
    /// Whether the queues give the order; if not, `fair` does.
    pub(crate) is_on: bool,
}

/// The uplink's state at a moment, for metrics.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkStatus {
    /// The number of responses in progress.
    pub(crate) open_flows: usize,
    /// The number of these that wait for their turn.
    pub(crate) waiting_flows: usize,
    /// The clients that share the link, once in each class; `None` if they do not share it.
    pub(crate) clients: Option<usize>,
    /// The pacer's rate, in bits per second on the wire; `None` if nothing is held back.
    pub(crate) rate_bits_per_s: Option<u64>,
    /// The rate that the link is known to carry, in bits per second on the wire.
    pub(crate) effective_rate_bits_per_s: Option<u64>,
    /// The queue on the link behind the pacer, as a time, as far as the search knows.
    pub(crate) queue: Duration,
    /// The bytes of responses that were granted with the mark IN, and with OUT.
    pub(crate) marked_bytes: [u64; 2],
    /// The instances that share the link; `None` if it is not shared.
    pub(crate) divided: Option<Divided>,
    /// Counters, none of which ever falls.
    pub(crate) stats: EgressStats,
}

/// The counters of each class of the uplink at a moment.
pub(crate) type ClassStatus = Vec<EgressClassStats>;

impl fmt::Debug for PacedLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PacedLink").field(&self.status()).finish()
    }
}

impl PacedLink {
    /// Creates an uplink with no flows.
    pub(crate) fn new(link: Pacer, policy: EgressPolicy) -> Arc<Self> {
        Arc::new(Self {
            awaited: AtomicU32::new(awaited(&policy.classes)),
            auto: AutoRate::new(),
            division: Mutex::new(None),
            epoch: Instant::now(),
            client_hasher: RandomState::new(),
            next_socket: AtomicU64::new(0),
            rate_bits_per_s: AtomicU64::new(link.rate_bits_per_s()),
            state: Mutex::new(State {
                desk: Desk::new(Egress::new(link, policy)),
                timer_at: None,
                counters: Counters::default(),
                floods: Seldom::default(),
            }),
        })
    }

    /// Returns the uplink's state at this moment.
    pub(crate) fn status(&self) -> LinkStatus {
        let effective_rate_bits_per_s = self.effective_rate_bits_per_s();
        // Never under the other lock: who divides takes that under this one.
        let divided = self.division().as_ref().map(Division::status);
        let mut state = self.lock();
        let egress = state.desk.egress();
        let (stats, marked_bytes) = (egress.stats(), egress.marked_bytes());
        LinkStatus {
            open_flows: egress.open_flows(),
            waiting_flows: egress.waiting_flows(),
            clients: egress.clients(),
            rate_bits_per_s: effective_rate_bits_per_s.map(|_| egress.pacer().rate_bits_per_s()),
            effective_rate_bits_per_s,
            queue: self.auto.queue(),
            divided,
            marked_bytes: state.counters.publish_marks(marked_bytes),
            stats: state.counters.publish(stats),
        }
    }

    /// Returns how many bytes on the wire have been debited in all, and not taken back.
    pub fn debited_wire_bytes(&self) -> u64 {
        let state = self.lock();
        let stats = state.desk.egress().stats();
        state.counters.exact(stats).wire_bytes
    }

    /// Returns the counters of each class.
    pub(crate) fn class_status(&self) -> ClassStatus {
        let mut state = self.lock();
        let stats = state.desk.egress().class_stats().to_vec();
        state.counters.publish_classes(stats)
    }

    /// Returns the state of SRQ's queues, if that is the policy.
    pub(crate) fn queues(&self) -> Option<QueueStatus> {
        let state = self.lock();
        let (queues, is_on) = state.desk.egress().queues()?;
        Some(QueueStatus {
            quanta: queues.quanta().to_vec(),
            stats: *queues.stats(),
            is_on,
        })
    }

    /// Returns the search for the rate, which is off if the rate is given.
    pub(crate) fn auto(&self) -> &AutoRate {
        &self.auto
    }

    /// Locks the division of the rate, which is `None` if the rate is not divided.
    pub(super) fn division(&self) -> MutexGuard<'_, Option<Division>> {
        self.division.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts another policy in force from now on.
    pub(crate) fn change(&self, policy: EgressPolicy) {
        let bits = awaited(&policy.classes);
        self.awaited.store(bits, Ordering::Relaxed);
        let now = self.now();
        let mut state = self.lock();
        state.desk.reconfigure(now, policy);
        // A class may have a higher rate of its own now, or a larger pool.
        let woken = state.overslept(now);
        drop(state);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Returns, for each class, how long the response that has gone longest without a turn has
    /// waited for one.
    pub(crate) fn longest_waits(&self) -> Vec<Duration> {
        let now = self.now();
        self.lock().desk.egress().longest_waits(now)
    }

    /// Returns whether flows wait for their turn.
    pub(crate) fn is_backlogged(&self) -> bool {
        self.lock().desk.egress().waiting_flows() > 0
    }

    /// Changes the link's rate.
    pub(crate) fn set_rate(&self, rate_bits_per_s: u64) {
        let woken = self.change_rate(rate_bits_per_s);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Changes the link's rate. The caller must wake the tasks that are returned once it holds no
    /// lock.
    #[must_use]
    pub(crate) fn change_rate(&self, rate_bits_per_s: u64) -> Vec<Waker> {
        self.apply_rate(&mut self.lock(), rate_bits_per_s)
    }

    /// Changes the link's rate to what a search, by its number, has found; returns whether that
    /// search goes on. A search that is over changes nothing.
    pub(super) fn set_found_rate(&self, search: u64, rate_bits_per_s: u64) -> bool {
        // One who gives a rate ends the search first, and sets the rate under
        // this lock: whichever of the two is here first, the given rate stays.
        let mut state = self.lock();
        let goes_on = self.auto.goes_on(search);
        let woken = match goes_on {
            true => self.apply_rate(&mut state, rate_bits_per_s),
            false => Vec::new(),
        };
        drop(state);
        woken.into_iter().for_each(Waker::wake);
        goes_on
    }

    /// Changes the rate of the pacer. The caller must wake the tasks that are returned once the
    /// lock is released.
    #[must_use]
    fn apply_rate(&self, state: &mut State, rate_bits_per_s: u64) -> Vec<Waker> {
        let now = self.now();
        state.desk.set_rate(now, rate_bits_per_s);
        self.rate_bits_per_s
            .store(rate_bits_per_s, Ordering::Relaxed);
        state.overslept(now)
    }

    /// Returns the rate, in bits per second on the wire.
    pub(super) fn rate_bits_per_s(&self) -> u64 {
        self.rate_bits_per_s.load(Ordering::Relaxed)
    }

    /// Returns the rate that the link is known to carry, in bits per second on the wire, as it
    /// is named or was found. Returns `None` while a search has found no link.
    pub(super) fn effective_rate_bits_per_s(&self) -> Option<u64> {
        match self.auto.is_on() {
            true => self.auto.effective_rate_bits_per_s(),
            false => Some(self.rate_bits_per_s()),
        }
    }

    pub(crate) fn now(&self) -> Time {
        self.time_at(clock::now())
    }

    fn time_at(&self, instant: Instant) -> Time {
        Time::ZERO + instant.saturating_duration_since(self.epoch)
    }

    /// Locks the state of the link. No code panics while it holds the lock; if one did, the queue
    /// is still the best there is.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a bit for each class whose responses are waited for by classes that take what the
/// others leave.
fn awaited(classes: &[ClassSpec]) -> u32 {
    let waiting = classes.iter().any(|class| class.idle_only);
    let awaited = |class: &ClassSpec| !class.idle_only && class.rate_bits_per_s.is_none();
    let classes = classes.iter().take(u32::BITS as usize).enumerate();
    let bits = classes.map(|(index, class)| u32::from(waiting && awaited(class)) << index);
    bits.sum()
}

/// A worker's hold on the uplink, shared by all that send through it there. When it is dropped,
/// the driver knows that none does any more.
pub struct WorkerLink(Rc<LinkDriver>);

impl WorkerLink {
    /// Takes a worker's hold. Must be called on the worker's runtime, whose reactor the timer
    /// joins.
    pub(crate) fn new(link: Arc<PacedLink>) -> std::io::Result<Rc<Self>> {
        Ok(Rc::new(Self(Rc::new(LinkDriver::new(link)?))))
    }

    /// Returns the driver that makes this worker's grants.
    pub(crate) fn driver(&self) -> Rc<LinkDriver> {
        Rc::clone(&self.0)
    }
}

impl Deref for WorkerLink {
    type Target = LinkDriver;

    fn deref(&self) -> &LinkDriver {
        &self.0
    }
}

impl Drop for WorkerLink {
    fn drop(&mut self) {
        self.0.is_left.set(true);
    }
}

/// A worker's part of the uplink: the shared scheduler and the worker's own timer.
pub struct LinkDriver {
    pub(super) link: Arc<PacedLink>,
    pub(super) ack_watch: AckWatch,
    timer: Timer,
    /// The time that was asked for last, by the machine's clock and the uplink's.
    asked: Cell<(Instant, Time)>,
    /// Whether the worker's hold was dropped.
    is_left: Cell<bool>,
}

impl LinkDriver {
    fn new(link: Arc<PacedLink>) -> std::io::Result<Self> {
        let epoch = link.epoch;
        Ok(Self {
            link,
            ack_watch: AckWatch::default(),
            timer: Timer::new()?,
            asked: Cell::new((epoch, Time::ZERO)),
            is_left: Cell::new(false),
        })
    }

    /// Returns the time on the uplink's clock. A response asks for it some ten times, nearly
    /// always at the same instant.
    pub(crate) fn now(&self) -> Time {
        let instant = clock::now();
        let (known, time) = self.asked.get();
        if instant == known {
            return time;
        }
        let time = self.link.time_at(instant);
        self.asked.set((instant, time));
        time
    }

    /// Returns whether this drives the uplink `link`.
    pub(crate) fn is_of(&self, link: &Arc<PacedLink>) -> bool {
        Arc::ptr_eq(&self.link, link)
    }

    /// Returns whether the worker's hold was dropped, and no flow is open on the uplink.
    pub(crate) fn is_unused(&self) -> bool {
        self.is_left.get() && self.link.lock().desk.egress().open_flows() == 0
    }

    /// Makes the grants that are due.
    pub(crate) fn look(&self) {
        let mut state = self.link.lock();
        let granted = self.grant_due(&mut state, self.now());
        drop(state);
        granted.into_iter().for_each(Waker::wake);
    }

    /// Makes grants whenever the link gets free, and looks after acknowledgements; runs as long
    /// as the worker.
    pub(crate) async fn run(self: Rc<Self>) {
        tokio::select! {
            () = self.ack_watch.run() => {}
            () = self.grant() => {}
        }
    }

    async fn grant(&self) {
        while self.timer.fired().await.is_ok() {
            self.link.lock().timer_at = None;
            self.look();
        }
    }

    /// Returns the rate, in bits per second on the wire.
    pub(crate) fn rate_bits_per_s(&self) -> u64 {
        self.link.rate_bits_per_s()
    }

    /// Returns the rate that the link is known to carry, as
    /// [`PacedLink::effective_rate_bits_per_s`] does.
    pub(crate) fn effective_rate_bits_per_s(&self) -> Option<u64> {
        self.link.effective_rate_bits_per_s()
    }

    /// Returns how many bytes the kernel may hold unsent for a connection: about 2 ms of the
    /// link, at least two segments.
    pub(crate) fn max_unsent_bytes(&self) -> u32 {
        const LEAST: u64 = 2 * 1514;
        const MOST: u64 = 128 << 10;
        let bytes = self.rate_bits_per_s() / 8 / 500;
        u32::try_from(bytes.clamp(LEAST, MOST)).unwrap_or(u32::MAX)
    }

    /// Tells the search that a client's socket has taken bytes.
    pub(super) fn on_write(&self, writer: &Writer<'_>) {
        if self.link.auto.is_watching() {
            let position = self.link.lock().desk.egress().stats().wire_bytes;
            self.link.auto.on_write(self.now(), position, writer);
        }
    }

    /// Tells the search of the packets without payload by which a connection is set up or ends.
    pub(super) fn on_overhead(&self, wire_bytes: u64) {
        if self.link.auto.is_watching() {
            self.link.auto.on_overhead(self.now(), wire_bytes);
        }
    }

    /// Forgets the flows that are over.
    pub(crate) fn retain_open(&self, flows: &mut Vec<FlowId>) {
        // Most connections have none, and need no lock.
        if !flows.is_empty() {
            let state = self.link.lock();
            flows.retain(|&flow| state.desk.is_open(flow));
        }
    }

    /// Returns whether one of these flows has a place in its class that others wait for.
    pub(crate) fn is_place_wanted(&self, flows: &[FlowId]) -> bool {
        let state = self.link.lock();
        let mut flows = flows.iter();
        flows.any(|&flow| state.desk.egress().is_place_wanted(flow))
    }

    /// Returns the hasher that gives the link's clients their numbers.
    pub(crate) fn client_hasher(&self) -> RandomState {
        self.link.client_hasher.clone()
    }

    /// Returns a number that no other socket on the uplink has had.
    pub(crate) fn next_socket(&self) -> u64 {
        self.link.next_socket.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns whether a search for the rate is under way.
    pub(crate) fn is_auto(&self) -> bool {
        self.link.auto.is_on()
    }

    /// Debits wire bytes that went out and that no grant covered.
    pub(crate) fn debit(&self, wire_bytes: u64) {
        self.link.lock().debit(self.now(), wire_bytes);
    }

    /// Takes back `wire_bytes` that were debited and never went out.
    pub(crate) fn refund(&self, wire_bytes: u64) {
        let now = self.now();
        self.link.lock().desk.refund(now, wire_bytes);
    }

    /// Corrects what was debited for a connection. Bytes that left long ago are counted; they
    /// neither hold grants up nor count as the link's present progress.
    pub(super) fn settle(&self, settled: Settled) {
        let mut state = self.link.lock();
        state.counters.count_past(settled.past);
        let bytes = settled.present.unsigned_abs();
        match settled.present {
            0 => {}
            1.. => state.debit(self.now(), bytes),
            _ => state.desk.refund(self.now(), bytes),
        }
    }

    /// Returns how many bytes the link carries in [`HORIZON`], the time that a settlement looks
    /// back.
    pub(super) fn horizon_bytes(&self) -> u64 {
        let bits = u128::from(self.rate_bits_per_s()) * HORIZON.as_millis() / 1000;
        u64::try_from(bits / 8).unwrap_or(u64::MAX)
    }

    /// Returns whether a class's responses are to be announced, since they are waited for by
    /// classes that take what the others leave.
    pub(crate) fn is_awaited(&self, class: usize) -> bool {
        let awaited = self.link.awaited.load(Ordering::Relaxed);
        1u32.checked_shl(class as u32)
            .is_some_and(|bit| awaited & bit != 0)
    }

    /// Returns whether any class's responses are to be announced.
    pub(crate) fn awaits_any(&self) -> bool {
        self.link.awaited.load(Ordering::Relaxed) != 0
    }

    /// Announces a response, as [`Egress::announce`] does.
    pub(crate) fn announce(&self) {
        let now = self.now();
        self.link.lock().desk.announce(now);
    }

    /// Takes an announcement back, as [`Egress::retract`] does; flows that waited for it may
    /// have their turn.
    pub(crate) fn retract(&self) {
        let now = self.now();
        let mut state = self.link.lock();
        state.desk.retract(now);
        let granted = self.grant_due(&mut state, now);
        drop(state);
        granted.into_iter().for_each(Waker::wake);
    }

    /// Opens a group, as [`Egress::open_group`] does.
    pub(crate) fn open_group(&self) -> GroupId {
        self.link.lock().desk.egress_mut().open_group()
    }

    /// Closes a group, as [`Egress::close_group`] does.
    pub(crate) fn close_group(&self, group: GroupId) {
        let now = self.now();
        self.link.lock().desk.close_group(now, group);
    }

    /// Returns how long the link would be occupied by all that is left, and by what goes before
    /// a class or with it, as [`Egress::backlog`] and [`Egress::backlog_ahead`] do.
    pub(crate) fn backlog(&self, class: usize) -> ChannelBacklog {
        let now = self.now();
        let state = self.link.lock();
        let egress = state.desk.egress();
        ChannelBacklog {
            whole: egress.backlog(now),
            ahead: egress.backlog_ahead(now, class),
        }
    }

    /// Takes the fast path for `wire_bytes`, if they may have it, as [`Egress::fast_path`] does.
    pub(crate) fn fast_path(&self, wire_bytes: u64) -> bool {
        self.arrive(|desk, now| desk.fast_path(now, wire_bytes))
    }

    /// Debits a connection's set-up, as [`Egress::connect`] does.
    pub(crate) fn connect(&self, wire_bytes: u64) {
        self.arrive(|desk, now| desk.connect(now, wire_bytes));
    }

    /// Lets something small arrive at the desk. If that trips the guard, the log says so, once a
    /// minute at most.
    fn arrive<T>(&self, arrival: impl FnOnce(&mut Desk<Waker>, Time) -> T) -> T {
        let now = self.now();
        let mut state = self.link.lock();
        let before = state.desk.egress().stats();
        let outcome = arrival(&mut state.desk, now);
        state.count_forgotten(before);
        let tripped = state.desk.egress().stats().guard_trips > before.guard_trips;
        let unsaid = tripped.then(|| state.floods.note(now)).flatten();
        drop(state);
        if let Some(trips) = unsaid {
            tracing::warn!(
                trips,
                "connections and small responses come far faster than on average: \
                 until that passes, small responses wait for their turns"
            );
        }
        outcome
    }

    /// Makes all grants that are due, and arms the timer for the next. The caller must wake the
    /// tasks that got one once the lock is released.
    #[must_use]
    pub(super) fn grant_due(&self, state: &mut State, now: Time) -> Vec<Waker> {
        let mut granted = Vec::new();
        while let Some(waker) = state.desk.next(now) {
            granted.push(waker.clone());
        }
        if let Some(until) = state.desk.next_wakeup()
            && state.timer_at.is_none_or(|at| until < at)
        {
            state.timer_at = Some(until);
            self.timer.arm(until.since(now));
        }
        granted
    }
}

impl Drop for LinkDriver {
    fn drop(&mut self) {
        // It may have been this worker's timer, which never fires now: the flows that wait have
        // to arm another's.
        let mut state = self.link.lock();
        state.timer_at = None;
        let waiting: Vec<_> = state.desk.waiting().cloned().collect();
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use sprat_scheduler::{Discipline, Pacer};

    use super::*;
    use crate::seldom::said;

    #[tokio::test(start_paused = true)]
    async fn floods_are_told_of_once_a_minute() {
        let link = PacedLink::new(
            Pacer::exact(10_000_000_000),
            EgressPolicy {
                max_flows: 8,
                ..EgressPolicy::new(Discipline::Srpt)
            },
        );
        let worker = WorkerLink::new(Arc::clone(&link)).unwrap();
        let (log, _listening) = said::listen();
        let seconds = Duration::from_secs;
        // Before there is something to compare it with nothing is a flood.
        for _ in 0..4 {
            (0..150).for_each(|_| worker.connect(100));
            tokio::time::advance(seconds(1)).await;
        }
        assert_eq!(link.status().stats.guard_trips, 0);
        tokio::time::advance(seconds(60)).await;
        // Each flood trips the guard, and is over before the next.
        for (flood, pause) in [20, 20, 30, 20].map(seconds).into_iter().enumerate() {
            (0..150).for_each(|_| worker.connect(100));
            assert_eq!(link.status().stats.guard_trips, flood as u64 + 1);
            tokio::time::advance(pause).await;
        }
        let log = log.text();
        let trips = log.lines().filter_map(|line| line.split("trips=").nth(1));
        assert_eq!(trips.collect::<Vec<_>>(), ["1", "3"], "{log}");
    }
}
