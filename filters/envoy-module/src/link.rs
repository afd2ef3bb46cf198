//! The uplink that all workers share: the core's [`Egress`] behind a mutex.
//!
//! Streams ask for the link with what they have in hand, and are woken when it
//! is their turn. What goes is always all that is in hand: Envoy lets go of a
//! held body as a whole, so a grant is extended to it.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sprat_scheduler::{
    AtCapacity, ClassSpec, Discipline, Egress, EgressChange, EgressConfig, FlowId, FlowSpec, Grant,
    Pacer, Size, Time, WireCost,
};

use crate::host::Wake;
use crate::timer::Tick;

/// How long a head waits for the first bytes of its body, so that both go out
/// in one segment. A backend that writes them separately does so within this.
const HEAD_WAIT: Duration = Duration::from_millis(2);

/// Client connections whose opening is remembered, so that it is debited once.
const CONNECTIONS_REMEMBERED: usize = 65_536;

/// Arrivals on the fast path may be this many times their moving average
/// (TOCS03 2.2.3), which is what the proxy has by default.
const GUARD_FACTOR: f64 = 4.0;

/// What an uplink is told by the configuration.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settings {
    /// On the wire.
    pub(crate) rate_bits_per_s: u64,
    /// Whom to serve first.
    pub(crate) policy: Discipline,
    /// Responses in progress.
    pub(crate) max_flows: usize,
    /// Priority classes, each under the number that it has in every
    /// configuration of this link.
    pub(crate) classes: Vec<ClassSpec>,
}

/// One uplink.
pub(crate) struct Link {
    state: Mutex<State>,
}

struct State {
    settings: Settings,
    /// Of the configuration that the settings are from.
    generation: u64,
    egress: Egress,
    /// By [`FlowId::index`].
    waiters: Vec<Waiter>,
    /// Heads held back for the first bytes of their bodies, the earliest
    /// first, and until when. Entries may be out of date.
    heads: VecDeque<(Time, FlowId)>,
    connections: BTreeSet<u64>,
}

#[derive(Default)]
struct Waiter {
    flow: Option<FlowId>,
    /// To be woken when granted.
    waker: Option<Arc<dyn Wake>>,
    /// Bytes that the flow is in the queue with.
    asked: u64,
    /// Bytes debited and not yet let go: it is this flow's turn.
    granted: u64,
    /// Bytes of a head that is held back, outside the queue.
    head: u64,
    asked_at: Time,
}

/// What became of a stream's wish to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// Let everything go now.
    Go,
    /// Hold it: the stream is woken when it is its turn.
    Wait,
}

impl Link {
    /// An uplink with no flows, as the configuration of that generation wants
    /// it.
    pub(crate) fn new(settings: Settings, generation: u64) -> Self {
        let egress = Egress::new(EgressConfig {
            discipline: settings.policy.clone(),
            pacer: Pacer::new(settings.rate_bits_per_s),
            max_flows: settings.max_flows,
            guard_factor: GUARD_FACTOR,
            classes: settings.classes.clone(),
        });
        Self {
            state: Mutex::new(State {
                settings,
                generation,
                egress,
                waiters: Vec::new(),
                heads: VecDeque::new(),
                connections: BTreeSet::new(),
            }),
        }
    }

    /// A configuration has come into use. Responses in progress go on under
    /// it; one older than what is in use changes nothing. Who waits may be due
    /// at once, or earlier than before: answers when [`Link::tick`] is.
    pub(crate) fn apply(&self, now: Time, settings: &Settings, generation: u64) -> Option<Time> {
        let mut state = self.lock();
        if generation <= state.generation {
            return None;
        }
        state.generation = generation;
        if state.settings == *settings {
            return None;
        }
        state.egress.set_rate(now, settings.rate_bits_per_s);
        let change = EgressChange {
            discipline: settings.policy.clone(),
            max_flows: settings.max_flows,
            guard_factor: GUARD_FACTOR,
            classes: settings.classes.clone(),
        };
        state.egress.reconfigure(now, change);
        state.settings = settings.clone();
        state.due()
    }

    /// A request has come on a client's connection, which is debited for its
    /// packets if it is a new one.
    pub(crate) fn on_request(&self, now: Time, connection: u64) {
        let mut state = self.lock();
        if !state.connections.insert(connection) {
            return;
        }
        if state.connections.len() > CONNECTIONS_REMEMBERED {
            state.connections.pop_first();
        }
        let opening = u64::from(WireCost::ETHERNET_IPV4.connection_overhead);
        state.egress.connect(now, opening);
    }

    /// A new response of `size` bytes with its head; none if as many are open
    /// as may be.
    pub(crate) fn open(&self, now: Time, class: usize, size: Size) -> Option<FlowId> {
        self.enter(class, size, |egress, spec| egress.open(now, spec))
    }

    /// A flow of `bytes` that [`Link::fast_path`] refused; none if as many are
    /// open as may be.
    pub(crate) fn open_express(&self, now: Time, class: usize, bytes: u64) -> Option<FlowId> {
        let size = Size::Exact(bytes);
        self.enter(class, size, |egress, spec| egress.open_express(now, spec))
    }

    fn enter(
        &self,
        class: usize,
        size: Size,
        open: impl FnOnce(&mut Egress, FlowSpec) -> Result<FlowId, AtCapacity>,
    ) -> Option<FlowId> {
        let spec = FlowSpec {
            class,
            size,
            cost: WireCost::ETHERNET_IPV4,
            client: None,
        };
        let mut state = self.lock();
        let flow = open(&mut state.egress, spec).ok()?;
        if state.waiters.len() <= flow.index() {
            state.waiters.resize_with(flow.index() + 1, Waiter::default);
        }
        state.waiters[flow.index()] = Waiter {
            flow: Some(flow),
            ..Waiter::default()
        };
        Some(flow)
    }

    /// Holds a head of `bytes` back for a moment, in which the body may come.
    /// After that it asks by itself. Answers when [`Link::tick`] is due.
    pub(crate) fn hold_head(
        &self,
        now: Time,
        flow: FlowId,
        bytes: u64,
        waker: Arc<dyn Wake>,
    ) -> Option<Time> {
        let mut state = self.lock();
        let waiter = state.waiter(flow)?;
        waiter.head = bytes;
        waiter.waker = Some(waker);
        waiter.asked_at = now;
        state.heads.push_back((now + HEAD_WAIT, flow));
        state.due()
    }

    /// The stream has `bytes` in hand, all together, and wants to write them.
    /// Also answers when [`Link::tick`] is due.
    pub(crate) fn ask(
        &self,
        now: Time,
        flow: FlowId,
        bytes: u64,
        waker: impl FnOnce() -> Arc<dyn Wake>,
    ) -> (Asked, Option<Time>) {
        let mut state = self.lock();
        let Some(waiter) = state.waiter(flow) else {
            return (Asked::Go, None);
        };
        if waiter.granted > 0 {
            state.let_go(now, flow, bytes);
            return (Asked::Go, state.due());
        }
        waiter.head = 0;
        if waiter.asked == 0 {
            waiter.asked_at = now;
        }
        waiter.asked = bytes;
        // Whoever asks is not woken by a grant that is made at once.
        let known = waiter.waker.take();
        state.egress.ready(now, flow, bytes);
        state.grant_due(now);
        let granted = state.waiter(flow).is_some_and(|own| own.granted > 0);
        if granted {
            state.let_go(now, flow, bytes);
        }
        let waker = if granted {
            known
        } else {
            Some(known.unwrap_or_else(waker))
        };
        if let Some(own) = state.waiter(flow) {
            own.waker = waker;
        }
        let due = state.due();
        (if granted { Asked::Go } else { Asked::Wait }, due)
    }

    /// The stream was woken with `bytes` in hand: whether it is its turn, and
    /// how long it has waited. If it is, all of it is debited and goes.
    pub(crate) fn take_turn(&self, now: Time, flow: FlowId, bytes: u64) -> Option<Duration> {
        let mut state = self.lock();
        let waiter = state.waiter(flow).filter(|waiter| waiter.granted > 0)?;
        let waited = now.since(waiter.asked_at);
        state.let_go(now, flow, bytes);
        Some(waited)
    }

    /// The response is over, or its client has left. What was granted and did
    /// not go is given to others, which is why [`Link::tick`] may be due.
    pub(crate) fn close(&self, now: Time, flow: FlowId) -> Option<Time> {
        let mut state = self.lock();
        if let Some(waiter) = state.waiter(flow) {
            *waiter = Waiter::default();
        }
        state.egress.close(now, flow);
        state.grant_due(now);
        state.due()
    }

    /// Something small that goes ahead of everything, of `bytes` in a segment
    /// of its own; false if it has to wait for its turn.
    pub(crate) fn fast_path(&self, now: Time, bytes: u64) -> bool {
        let wire_bytes = WireCost::ETHERNET_IPV4.bytes(bytes);
        self.lock().egress.fast_path(now, wire_bytes)
    }

    /// Bytes that go without waiting and are debited all the same.
    pub(crate) fn debit(&self, now: Time, bytes: u64) {
        let wire_bytes = WireCost::ETHERNET_IPV4.bytes(bytes);
        self.lock().egress.debit(now, wire_bytes);
    }

    /// See [`Egress::backlog`] and [`Egress::backlog_ahead`].
    pub(crate) fn backlog(&self, now: Time, class: usize) -> (Duration, Duration) {
        let state = self.lock();
        let egress = &state.egress;
        (egress.backlog(now), egress.backlog_ahead(now, class))
    }

    /// On the wire.
    #[cfg(test)]
    pub(crate) fn rate_bits_per_s(&self) -> u64 {
        self.lock().egress.pacer().rate_bits_per_s()
    }

    /// Of its classes, by number.
    #[cfg(test)]
    pub(crate) fn levels(&self) -> Vec<u8> {
        let classes = &self.lock().settings.classes;
        classes.iter().map(|class| class.level).collect()
    }

    /// Responses in progress.
    #[cfg(test)]
    pub(crate) fn open_flows(&self) -> usize {
        self.lock().egress.open_flows()
    }

    /// Wire bytes debited so far.
    #[cfg(test)]
    pub(crate) fn wire_bytes(&self) -> u64 {
        self.lock().egress.stats().wire_bytes
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic in here leaves the order wrong at worst, never the bodies.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tick for Link {
    /// Makes the grants that are due.
    fn tick(&self, now: Time) -> Option<Time> {
        let mut state = self.lock();
        while let Some(&(until, flow)) = state.heads.front() {
            if until > now {
                break;
            }
            state.heads.pop_front();
            // Its body has come, or its client has left.
            let Some(waiter) = state.waiter(flow).filter(|waiter| waiter.head > 0) else {
                continue;
            };
            let head = std::mem::take(&mut waiter.head);
            waiter.asked = head;
            state.egress.ready(now, flow, head);
        }
        state.grant_due(now);
        state.due()
    }
}

impl State {
    fn waiter(&mut self, flow: FlowId) -> Option<&mut Waiter> {
        let waiter = self.waiters.get_mut(flow.index())?;
        (waiter.flow == Some(flow)).then_some(waiter)
    }

    /// Makes all grants that are due. Those who get one are woken under the
    /// lock: [`Link::close`] takes it too, so that none is woken after its
    /// stream is gone.
    fn grant_due(&mut self, now: Time) {
        while let Grant::Send { flow, bytes } = self.egress.grant(now) {
            let Some(waiter) = self.waiter(flow) else {
                continue;
            };
            let whole = waiter.asked.max(bytes);
            waiter.granted = whole;
            waiter.asked = 0;
            if let Some(waker) = &waiter.waker {
                waker.wake();
            }
            self.egress.extend(now, flow, whole - bytes);
        }
    }

    /// `bytes` go, which may be more than were asked for: they were joined by
    /// others while they waited.
    fn let_go(&mut self, now: Time, flow: FlowId, bytes: u64) {
        let Some(waiter) = self.waiter(flow) else {
            return;
        };
        let granted = std::mem::take(&mut waiter.granted);
        self.egress.extend(now, flow, bytes.saturating_sub(granted));
        self.egress.sent(now, flow, bytes);
    }

    /// When something is to be done if nothing happens before.
    fn due(&mut self) -> Option<Time> {
        while let Some(&(_, flow)) = self.heads.front() {
            if self.waiter(flow).is_some_and(|waiter| waiter.head > 0) {
                break;
            }
            self.heads.pop_front();
        }
        let grant = self.egress.next_wakeup();
        let head = self.heads.front().map(|&(until, _)| until);
        match (grant, head) {
            (Some(grant), Some(head)) => Some(grant.min(head)),
            (one, other) => one.or(other),
        }
    }
}

#[cfg(test)]
mod tests;
