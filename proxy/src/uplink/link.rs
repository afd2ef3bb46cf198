//! One uplink, shared by all workers: the core's [`Egress`] behind a mutex
//! whose critical sections are a few heap operations long.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use sprat_scheduler::{
    AtCapacity, ClassSpec, Egress, EgressClassStats, EgressConfig, EgressStats, FlowId, FlowSpec,
    Grant, GroupId, Precedence, Size, Time, WireCost, Write,
};

use super::auto::AutoRate;
use super::timer::Timer;

/// The uplink's scheduler and those who wait for it.
pub(crate) struct PacedLink {
    epoch: Instant,
    next_socket: AtomicU64,
    /// The pacer's, to be read without the lock.
    rate_bits_per_s: AtomicU64,
    /// By class, if one takes what the others leave: whether its responses
    /// are waited for.
    awaited: Vec<bool>,
    state: Mutex<State>,
    /// Finds the rate, if it is not given.
    auto: Option<AutoRate>,
}

struct State {
    egress: Egress,
    /// By [`FlowId::index`].
    waiters: Vec<Waiter>,
    /// When the earliest timer of any worker fires.
    timer_at: Option<Time>,
}

#[derive(Default)]
struct Waiter {
    waker: Option<Waker>,
    /// Granted and not yet fetched.
    granted: u64,
}

impl Waiter {
    fn is_woken_by(&self, waker: &Waker) -> bool {
        matches!(&self.waker, Some(own) if own.will_wake(waker))
    }
}

/// A moment's view of the uplink, for metrics.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkStatus {
    /// Responses in progress.
    pub(crate) open_flows: usize,
    /// Of these, those that wait for their turn.
    pub(crate) waiting_flows: usize,
    /// Bits per second on the wire.
    pub(crate) rate_bits_per_s: u64,
    /// Counters of the scheduler.
    pub(crate) stats: EgressStats,
}

/// A moment's view of the uplink's classes.
pub(crate) type ClassStatus = Vec<EgressClassStats>;

impl fmt::Debug for PacedLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PacedLink").field(&self.status()).finish()
    }
}

impl PacedLink {
    /// An uplink with no flows.
    pub(crate) fn new(config: EgressConfig, auto: Option<AutoRate>) -> Arc<Self> {
        let idle_only = config.classes.iter().any(|class| class.idle_only);
        let awaited =
            |class: &ClassSpec| idle_only && !class.idle_only && class.rate_bits_per_s.is_none();
        Arc::new(Self {
            awaited: config.classes.iter().map(awaited).collect(),
            auto,
            epoch: Instant::now(),
            next_socket: AtomicU64::new(0),
            rate_bits_per_s: AtomicU64::new(config.pacer.rate_bits_per_s()),
            state: Mutex::new(State {
                egress: Egress::new(config),
                waiters: Vec::new(),
                timer_at: None,
            }),
        })
    }

    /// What goes on now.
    pub(crate) fn status(&self) -> LinkStatus {
        let state = self.lock();
        LinkStatus {
            open_flows: state.egress.open_flows(),
            waiting_flows: state.egress.waiting_flows(),
            rate_bits_per_s: state.egress.pacer().rate_bits_per_s(),
            stats: state.egress.stats(),
        }
    }

    /// What goes on in each class.
    pub(crate) fn class_status(&self) -> ClassStatus {
        self.lock().egress.class_stats().to_vec()
    }

    /// The search for the rate, if it is not given.
    pub(crate) fn auto(&self) -> Option<&AutoRate> {
        self.auto.as_ref()
    }

    /// Whether flows wait for their turn.
    pub(crate) fn is_backlogged(&self) -> bool {
        self.lock().egress.waiting_flows() > 0
    }

    /// Changes the link's rate.
    pub(crate) fn set_rate(&self, rate_bits_per_s: u64) {
        let now = self.now();
        self.lock().egress.set_rate(now, rate_bits_per_s);
        self.rate_bits_per_s
            .store(rate_bits_per_s, Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> Time {
        Time::ZERO + self.epoch.elapsed()
    }

    /// No code panics while it holds the lock; if one did, the queue is still
    /// the best there is.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A worker's hold on the uplink: the shared scheduler and the worker's own
/// timer.
pub(crate) struct WorkerLink {
    link: Arc<PacedLink>,
    timer: Timer,
}

impl WorkerLink {
    /// Must be called on the worker's runtime, whose reactor the timer joins.
    pub(crate) fn new(link: Arc<PacedLink>) -> std::io::Result<Rc<Self>> {
        Ok(Rc::new(Self {
            link,
            timer: Timer::new()?,
        }))
    }

    /// Grants whenever the link gets free; runs as long as the worker.
    pub(crate) async fn run(self: Rc<Self>) {
        while self.timer.fired().await.is_ok() {
            let mut state = self.link.lock();
            state.timer_at = None;
            let granted = self.grant_due(&mut state, self.link.now());
            drop(state);
            granted.into_iter().for_each(Waker::wake);
        }
    }

    /// Bits per second on the wire.
    pub(crate) fn rate_bits_per_s(&self) -> u64 {
        self.link.rate_bits_per_s.load(Ordering::Relaxed)
    }

    /// Bytes that the kernel may hold unsent for a connection: about 2 ms of
    /// the link, at least two segments.
    pub(crate) fn unsent_bytes(&self) -> u32 {
        const LEAST: u64 = 2 * 1514;
        const MOST: u64 = 128 << 10;
        let bytes = self.rate_bits_per_s() / 8 / 500;
        u32::try_from(bytes.clamp(LEAST, MOST)).unwrap_or(u32::MAX)
    }

    /// A client's socket has taken bytes, `written` in all.
    pub(crate) fn on_write(&self, socket: u64, network: u64, written: u64, fd: BorrowedFd<'_>) {
        if let Some(auto) = &self.link.auto {
            let position = self.link.lock().egress.stats().wire_bytes;
            let write = Write {
                socket,
                network,
                written,
                position,
            };
            auto.on_write(self.link.now(), write, fd);
        }
    }

    /// A number that no other socket on the uplink has had.
    pub(crate) fn next_socket(&self) -> u64 {
        self.link.next_socket.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether the rate is being searched for.
    pub(crate) fn is_auto(&self) -> bool {
        self.link.auto.is_some()
    }

    /// Wire bytes went out that no grant covered.
    pub(crate) fn debit(&self, wire_bytes: u64) {
        self.link.lock().egress.debit(self.link.now(), wire_bytes);
    }

    /// Of what was debited, `wire_bytes` never went out.
    pub(crate) fn refund(&self, wire_bytes: u64) {
        self.link.lock().egress.refund(wire_bytes);
    }

    /// Whether a class's responses are waited for by those that take what
    /// others leave, so that they are to be announced.
    pub(crate) fn is_awaited(&self, class: usize) -> bool {
        self.link.awaited.get(class) == Some(&true)
    }

    /// Whether any class's are.
    pub(crate) fn awaits_any(&self) -> bool {
        self.link.awaited.contains(&true)
    }

    /// See [`Egress::announce`].
    pub(crate) fn announce(&self) {
        let now = self.link.now();
        self.link.lock().egress.announce(now);
    }

    /// See [`Egress::retract`]; those who waited for it may have their turn.
    pub(crate) fn retract(&self) {
        let now = self.link.now();
        let mut state = self.link.lock();
        state.egress.retract();
        let granted = self.grant_due(&mut state, now);
        drop(state);
        granted.into_iter().for_each(Waker::wake);
    }

    /// See [`Egress::open_group`].
    pub(crate) fn open_group(&self) -> GroupId {
        self.link.lock().egress.open_group()
    }

    /// See [`Egress::close_group`].
    pub(crate) fn close_group(&self, group: GroupId) {
        let now = self.link.now();
        self.link.lock().egress.close_group(now, group);
    }

    /// See [`Egress::backlog`] and [`Egress::backlog_ahead`].
    pub(crate) fn backlog(&self, class: usize) -> (Duration, Duration) {
        let now = self.link.now();
        let state = self.link.lock();
        let egress = &state.egress;
        (egress.backlog(now), egress.backlog_ahead(now, class))
    }

    /// See [`Egress::fast_path`].
    pub(crate) fn fast_path(&self, wire_bytes: u64) -> bool {
        let now = self.link.now();
        let mut state = self.link.lock();
        let trips = state.egress.stats().guard_trips;
        let ahead = state.egress.fast_path(now, wire_bytes);
        let tripped = state.egress.stats().guard_trips > trips;
        drop(state);
        if tripped {
            tracing::warn!(
                "arrivals on the fast path are far above their average: \
                 until that passes they go in the ordinary order"
            );
        }
        ahead
    }

    /// Makes all grants that are due and arms the timer for the next. Those
    /// who got one are to be woken once the lock is released.
    #[must_use]
    fn grant_due(&self, state: &mut State, now: Time) -> Vec<Waker> {
        let mut granted = Vec::new();
        loop {
            match state.egress.grant(now) {
                Grant::Send { flow, bytes } => {
                    let waiter = &mut state.waiters[flow.index()];
                    waiter.granted = bytes;
                    granted.extend(waiter.waker.take());
                }
                Grant::Wait { until } => {
                    if state.timer_at.is_none_or(|at| until < at) {
                        state.timer_at = Some(until);
                        self.timer.arm(until.since(now));
                    }
                    return granted;
                }
                Grant::Idle => return granted,
            }
        }
    }
}

/// A response's place on the uplink, given up when dropped.
pub(crate) struct Flow {
    worker: Rc<WorkerLink>,
    id: FlowId,
    /// Bytes the flow is in the queue with.
    asked: u64,
    asked_at: Time,
    waited: Duration,
}

impl Flow {
    /// A new flow that has nothing to send yet; in HTTP/2, with its place
    /// among those of its connection.
    pub(crate) fn open(
        worker: &Rc<WorkerLink>,
        class: usize,
        size: Size,
        cost: WireCost,
        place: Option<(GroupId, Precedence)>,
    ) -> Result<Self, AtCapacity> {
        let now = worker.link.now();
        let mut state = worker.link.lock();
        let spec = FlowSpec { class, size, cost };
        let id = match place {
            None => state.egress.open(now, spec)?,
            Some((group, precedence)) => state.egress.open_in(now, spec, group, precedence)?,
        };
        if state.waiters.len() <= id.index() {
            state.waiters.resize_with(id.index() + 1, Waiter::default);
        }
        Ok(Self {
            worker: Rc::clone(worker),
            id,
            asked: 0,
            asked_at: now,
            waited: Duration::ZERO,
        })
    }

    /// Asks for the link with `available` bytes to send; ready with how many
    /// of them may be written now.
    pub(crate) fn poll_grant(&mut self, cx: &mut Context<'_>, available: u64) -> Poll<u64> {
        let now = self.worker.link.now();
        let mut state = self.worker.link.lock();
        let mut woken = Vec::new();
        if self.asked == 0 {
            self.asked_at = now;
        }
        if state.waiters[self.id.index()].granted == 0 && self.asked != available {
            state.egress.ready(now, self.id, available);
            self.asked = available;
            // Without a waker: a grant made here is fetched below.
            state.waiters[self.id.index()].waker = None;
            woken = self.worker.grant_due(&mut state, now);
        }
        let waiter = &mut state.waiters[self.id.index()];
        let granted = std::mem::take(&mut waiter.granted);
        if granted == 0 && !waiter.is_woken_by(cx.waker()) {
            waiter.waker = Some(cx.waker().clone());
        }
        drop(state);
        woken.into_iter().for_each(Waker::wake);
        if granted == 0 {
            return Poll::Pending;
        }
        self.asked = 0;
        self.waited += now.since(self.asked_at);
        Poll::Ready(granted)
    }

    /// How long its bytes have waited for the uplink.
    pub(crate) fn waited(&self) -> Duration {
        self.waited
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        let now = self.worker.link.now();
        let mut state = self.worker.link.lock();
        let unused = std::mem::take(&mut state.waiters[self.id.index()]).granted;
        if unused == 0 {
            state.egress.sent(now, self.id, u64::MAX);
        }
        state.egress.close(now, self.id);
        let woken = self.worker.grant_due(&mut state, now);
        drop(state);
        woken.into_iter().for_each(Waker::wake);
    }
}
