//! The uplink that all workers share: the core's [`Desk`] behind a mutex.
//!
//! Streams ask for the link with the bytes that they have in hand, and are woken when it is their
//! turn. All that is in hand goes at once, because Envoy releases a held body as a whole; so a
//! grant is extended to it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sprat_filter::Connections;
use sprat_scheduler::station::ChannelBacklog;
use sprat_scheduler::{
    ClassSpec, Desk, Discipline, Egress, EgressPolicy, FlowId, FlowSpec, Grants, Lane, Pacer, Size,
    Time, WireCost,
};

use crate::host::Wake;
use crate::timer::Tick;

/// The client connections that are remembered, so that the opening of each is debited once.
const CONNECTIONS_REMEMBERED: usize = 65_536;

/// The settings of an uplink, from the configuration.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settings {
    /// The rate of the link on the wire, in bits per second.
    pub(crate) rate_bits_per_s: u64,
    /// The discipline that orders responses.
    pub(crate) policy: Discipline,
    /// The most responses in progress.
    pub(crate) max_flows: usize,
    /// The part of the link for the response that has waited longest, in percent.
    pub(crate) floor_percent: u8,
    /// The priority classes, each under the number that it has in every configuration of this link.
    pub(crate) classes: Vec<ClassSpec>,
}

impl Settings {
    /// Returns the core's policy for the link: Envoy releases a chunk as a whole. Arrivals on the
    /// fast path are guarded as the proxy's default has it.
    fn egress_policy(&self) -> EgressPolicy {
        EgressPolicy {
            max_flows: self.max_flows,
            floor_percent: self.floor_percent,
            classes: self.classes.clone(),
            grants: Grants::Whole,
            ..EgressPolicy::new(self.policy.clone())
        }
    }
}

/// An uplink that the streams of all workers share.
pub(crate) struct Link {
    state: Mutex<LinkState>,
}

struct LinkState {
    settings: Settings,
    /// The generation of the configuration that the settings are from.
    generation: u64,
    desk: Desk<Arc<dyn Wake>>,
    connections: Connections,
    /// The part of chunks' waits below a whole second: Envoy's counters have no fractions.
    waited: Duration,
}

/// The answer to a stream that asks to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// All bytes in hand may go now.
    Go,
    /// The bytes are held, and the stream is woken when it is its turn.
    Wait,
}

impl Link {
    /// Creates an uplink without flows, with the settings of the configuration of that generation.
    pub(crate) fn new(settings: Settings, generation: u64) -> Self {
        let link = Pacer::new(settings.rate_bits_per_s);
        let egress = Egress::new(link, settings.egress_policy());
        Self {
            state: Mutex::new(LinkState {
                settings,
                generation,
                desk: Desk::new(egress),
                connections: Connections::new(CONNECTIONS_REMEMBERED),
                waited: Duration::ZERO,
            }),
        }
    }

    /// Puts a configuration into use, under which responses in progress go on. A generation older
    /// than the one in use changes nothing. Returns the time of the next [`Link::tick`] if the
    /// settings changed: streams that wait may be due earlier than before.
    pub(crate) fn apply(&self, now: Time, settings: &Settings, generation: u64) -> Option<Time> {
        let mut state = self.lock();
        if generation <= state.generation {
            return None;
        }
        state.generation = generation;
        if state.settings == *settings {
            return None;
        }
        let egress = state.desk.egress_mut();
        egress.set_rate(now, settings.rate_bits_per_s);
        egress.reconfigure(now, settings.egress_policy());
        state.settings = settings.clone();
        state.desk.next_wakeup()
    }

    /// Notes that a request has come on a client's connection. A new connection is debited for its
    /// packets.
    pub(crate) fn on_request(&self, now: Time, connection: u64) {
        let mut state = self.lock();
        if !state.connections.is_new(connection) {
            return;
        }
        let opening = u64::from(WireCost::ETHERNET_IPV4.connection_overhead);
        state.desk.egress_mut().connect(now, opening);
    }

    /// Opens a flow for a response of `size` bytes with its head; none if too many are open.
    pub(crate) fn open(&self, now: Time, class: usize, size: Size) -> Option<FlowId> {
        let spec = FlowSpec::new(class, size, WireCost::ETHERNET_IPV4);
        self.lock().desk.open(now, spec).ok()
    }

    /// Opens an express flow of `bytes` that [`Link::fast_path`] refused; none if too many are
    /// open.
    pub(crate) fn open_express(&self, now: Time, class: usize, bytes: u64) -> Option<FlowId> {
        let spec = FlowSpec::new(class, Size::Exact(bytes), WireCost::ETHERNET_IPV4);
        let spec = spec.in_lane(Lane::Express);
        self.lock().desk.open(now, spec).ok()
    }

    /// Holds a head of `bytes` for a moment in which the body may come; then the head asks by
    /// itself. Returns the time of the next [`Link::tick`].
    pub(crate) fn hold_head(
        &self,
        now: Time,
        flow: FlowId,
        bytes: u64,
        waker: Arc<dyn Wake>,
    ) -> Option<Time> {
        let mut state = self.lock();
        state.desk.hold(now, flow, bytes);
        state.desk.set_waker(flow, waker);
        state.desk.next_wakeup()
    }

    /// Asks to write the `bytes` that the stream has in hand, all together. Returns the answer, and
    /// the time of the next [`Link::tick`].
    pub(crate) fn ask(
        &self,
        now: Time,
        flow: FlowId,
        bytes: u64,
        waker: impl FnOnce() -> Arc<dyn Wake>,
    ) -> (Asked, Option<Time>) {
        let mut state = self.lock();
        if !state.desk.is_open(flow) {
            return (Asked::Go, None);
        }
        state.desk.ask(now, flow, bytes);
        state.grant_due(now);
        let asked = match state.take_turn(now, flow, bytes) {
            Some(_) => Asked::Go,
            None => Asked::Wait,
        };
        if asked == Asked::Wait && state.desk.waker(flow).is_none() {
            state.desk.set_waker(flow, waker());
        }
        (asked, state.desk.next_wakeup())
    }

    /// Takes the turn of a stream that was woken with `bytes` in hand: all of them are debited and
    /// go. Returns the whole seconds by which the waits of all streams have grown; the fraction is
    /// kept for the next call. Returns none if it is not the stream's turn.
    pub(crate) fn take_turn(&self, now: Time, flow: FlowId, bytes: u64) -> Option<u64> {
        let mut state = self.lock();
        let waited = state.take_turn(now, flow, bytes)?;
        state.waited += waited;
        let seconds = state.waited.as_secs();
        state.waited -= Duration::from_secs(seconds);
        Some(seconds)
    }

    /// Closes the flow of a response that has ended, or whose client has gone. Its unused grant
    /// goes to other flows. Returns the time of the next [`Link::tick`].
    pub(crate) fn close(&self, now: Time, flow: FlowId) -> Option<Time> {
        let mut state = self.lock();
        state.desk.close(now, flow);
        state.grant_due(now);
        state.desk.next_wakeup()
    }

    /// Lets `bytes` in a segment of their own go ahead of everything; false if they have to wait
    /// for their turn.
    pub(crate) fn fast_path(&self, now: Time, bytes: u64) -> bool {
        let wire_bytes = WireCost::ETHERNET_IPV4.bytes(bytes);
        self.lock().desk.egress_mut().fast_path(now, wire_bytes)
    }

    /// Debits bytes that go without waiting for a grant.
    pub(crate) fn debit(&self, now: Time, bytes: u64) {
        let wire_bytes = WireCost::ETHERNET_IPV4.bytes(bytes);
        self.lock().desk.egress_mut().debit(now, wire_bytes);
    }

    /// Returns the link's backlog in time, as [`Egress::backlog`], and the part of it that goes
    /// before a class, as [`Egress::backlog_ahead`].
    pub(crate) fn backlog(&self, now: Time, class: usize) -> ChannelBacklog {
        let state = self.lock();
        let egress = state.desk.egress();
        ChannelBacklog {
            whole: egress.backlog(now),
            ahead: egress.backlog_ahead(now, class),
        }
    }

    /// Returns the link's rate on the wire.
    #[cfg(test)]
    pub(crate) fn rate_bits_per_s(&self) -> u64 {
        self.lock().desk.egress().pacer().rate_bits_per_s()
    }

    /// Returns the levels of the classes, in the order of their numbers.
    #[cfg(test)]
    pub(crate) fn levels(&self) -> Vec<u8> {
        let classes = &self.lock().settings.classes;
        classes.iter().map(|class| class.level).collect()
    }

    /// Returns the number of responses in progress.
    #[cfg(test)]
    pub(crate) fn open_flows(&self) -> usize {
        self.lock().desk.egress().open_flows()
    }

    /// Returns the wire bytes debited so far.
    #[cfg(test)]
    pub(crate) fn wire_bytes(&self) -> u64 {
        self.lock().desk.egress().stats().wire_bytes
    }

    fn lock(&self) -> MutexGuard<'_, LinkState> {
        // A panic in here leaves the order wrong at worst, never the bodies.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tick for Link {
    /// Makes the grants that are due.
    fn tick(&self, now: Time) -> Option<Time> {
        let mut state = self.lock();
        state.grant_due(now);
        state.desk.next_wakeup()
    }
}

impl LinkState {
    /// Makes all grants that are due. Those who get one are woken under the
    /// lock: [`Link::close`] takes it too, so that none is woken after its
    /// stream is gone.
    fn grant_due(&mut self, now: Time) {
        while let Some(waker) = self.desk.next(now) {
            waker.wake();
        }
    }

    /// Lets `bytes` go if it is their turn, which may be more than were asked for: they
    /// were joined by others while they waited. Returns how long they have waited.
    fn take_turn(&mut self, now: Time, flow: FlowId, bytes: u64) -> Option<Duration> {
        let turn = self.desk.take(now, flow)?;
        self.desk.written(now, flow, bytes);
        Some(turn.waited)
    }
}

#[cfg(test)]
mod tests;
