//! A request and its response: what is true of them, and not of the rest of
//! their connection.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use http::HeaderMap;
use sprat_config::resolved::Listener;
use sprat_net::clock;
use sprat_net::error::Reason;
use sprat_net::framing::Slips;
use sprat_scheduler::Precedence;
use sprat_uplink::{Course, FlushGate};
use tokio::time::Instant;

use super::http2_stream::Http2Stream;
use super::{Account, Connection, Phase, ResponseBounds};
use crate::client::precedence;

/// The longest time, in all, for which the upstream may have been kept from sending and
/// is answerable for the end of its response. Servers give up on a client that takes
/// nothing, or too little, after seconds; what passes between two reads is far less.
const HELD_UP_MAX: Duration = Duration::from_secs(1);

/// An upstream that sends nothing for so long in the midst of a response has paused: its
/// response is a stream of events, or the like. As in [`sprat_scheduler::Egress::pause`].
const PAUSE: Duration = Duration::from_millis(100);

/// The progress of a request and its response.
pub(super) struct StreamState {
    pub(super) phase: Cell<Phase>,
    pub(super) bounds: Cell<Option<ResponseBounds>>,
    upstream_silent_since: Cell<Option<Instant>>,
    /// The upstream has sent some of the response's body.
    has_begun: Cell<bool>,
    /// The time for which the upstream was silent since the response began, in all.
    silent: Cell<Duration>,
    /// Whether the response has paused since it began.
    has_paused: Cell<bool>,
    /// Since when nothing was read from the upstream, where that is judged.
    left_since: Cell<Option<Instant>>,
    /// The time for which the upstream was not read, in all, though it may have had something.
    held_up: Cell<Duration>,
}

impl StreamState {
    pub(super) fn new(phase: Phase) -> Self {
        Self {
            phase: Cell::new(phase),
            bounds: Cell::new(None),
            upstream_silent_since: Cell::new(None),
            silent: Cell::default(),
            has_begun: Cell::default(),
            has_paused: Cell::default(),
            left_since: Cell::new(None),
            held_up: Cell::default(),
        }
    }

    /// Notes that the upstream is not waited for any more, if it was.
    pub(super) fn end_silence(&self, now: Instant) {
        if let Some(since) = self.upstream_silent_since.take() {
            let silence = now.saturating_duration_since(since);
            self.silent.set(self.silent.get() + silence);
            if self.has_begun.get() && silence >= PAUSE {
                self.has_paused.set(true);
            }
        }
    }

    /// Notes that the upstream is read again.
    fn resume(&self, now: Instant) {
        if let Some(since) = self.left_since.get() {
            self.left_since.set(Some(now));
            let held_up = self.held_up.get() + now.saturating_duration_since(since);
            self.held_up.set(held_up);
        }
    }

    /// Begins to wait for the client: for the next head, or its rest.
    pub(super) fn begin_wait(&self, now: Instant) {
        let phase = match self.phase.get() {
            Phase::Idle { .. } => Phase::Idle { since: now },
            Phase::Head { begun, .. } => Phase::Head { since: now, begun },
            other => other,
        };
        self.phase.set(phase);
    }

    /// Returns the request's next deadline; none while nothing is being waited for.
    pub(super) fn next_deadline(&self, listener: &Listener) -> Option<Instant> {
        let phase = match self.phase.get() {
            Phase::Head { since, .. } => Some(since + listener.header_timeout),
            Phase::Idle { since } => Some(since + listener.idle_timeout),
            Phase::Waiting { until } => until,
            Phase::Responding => None,
        };
        let bounds = self.bounds.get();
        let deadlines = [
            phase,
            bounds.and_then(|bounds| bounds.deadline),
            bounds
                .zip(self.upstream_silent_since.get())
                .map(|(bounds, since)| since + bounds.upstream_idle),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Returns why a response has taken too long, if it has.
    pub(super) fn overdue(&self, now: Instant) -> Option<Reason> {
        let bounds = self.bounds.get()?;
        if bounds.deadline.is_some_and(|deadline| now >= deadline) {
            return Some(Reason::RouteTimeout);
        }
        let silent_since = self.upstream_silent_since.get()?;
        past(now, silent_since, bounds.upstream_idle).then_some(Reason::UpstreamIdleTimeout)
    }
}

/// Returns whether `bound` has passed since then.
pub(super) fn past(now: Instant, since: Instant, bound: Duration) -> bool {
    now >= since + bound
}

/// A request's place on its connection.
#[derive(Clone)]
pub(crate) struct Stream {
    /// The connection that it came on.
    pub(crate) connection: Rc<Connection>,
    /// The state of the request in HTTP/2. In HTTP/1.1 there is one request at a
    /// time, which the connection holds.
    pub(super) http2: Option<Rc<Http2Stream>>,
}

impl Stream {
    /// Returns the place of the one request that an HTTP/1.1 connection has at a time.
    pub(crate) fn only(connection: &Rc<Connection>) -> Self {
        Self {
            connection: Rc::clone(connection),
            http2: None,
        }
    }

    fn state(&self) -> &StreamState {
        match &self.http2 {
            None => &self.connection.only,
            Some(stream) => &stream.state,
        }
    }

    /// Notes that the handler waits, and wants to be polled again by then.
    pub(crate) fn wait_until(&self, at: Instant) {
        let until = Some(at);
        self.state().phase.set(Phase::Waiting { until });
    }

    /// Notes that the handler waits by timers of its own.
    pub(crate) fn wait(&self) {
        self.state().phase.set(Phase::Waiting { until: None });
    }

    /// Notes that the request's head has been read; returns what was wrong with it.
    pub(crate) fn begin_request(&self) -> Slips {
        match &self.http2 {
            None => {
                self.wait();
                // The next request may be on its way, and is not answered.
                let is_last = self.connection.is_ending();
                self.connection.http1.lingers.set(is_last);
                if let Some(earlier) = &mut *self.connection.http1.finishing.borrow_mut() {
                    // Pipelined: it has been answered, though the socket may not
                    // have taken all of it.
                    earlier.leave();
                }
                self.connection.http1.watch.borrow_mut().next_head()
            }
            // Its frames leave no room for them.
            Some(_) => Slips::default(),
        }
    }

    /// Notes that the response's head goes out; its body follows.
    pub(crate) fn begin_response(&self, bounds: Option<ResponseBounds>) {
        let state = self.state();
        state.phase.set(Phase::Responding);
        state.bounds.set(bounds);
        state.upstream_silent_since.set(None);
        state.silent.set(Duration::ZERO);
        state.has_begun.set(false);
        state.has_paused.set(false);
        let judged = bounds.is_some_and(|bounds| bounds.is_judged);
        state.left_since.set(judged.then(clock::now));
        state.held_up.set(Duration::ZERO);
    }

    /// Returns whether a response is on its way.
    pub(crate) fn is_responding(&self) -> bool {
        self.state().phase.get() == Phase::Responding
    }

    /// Returns how long the upstream was waited for since the response began.
    pub(crate) fn upstream_silence(&self) -> Duration {
        self.state().silent.get()
    }

    /// Returns whether the upstream has paused in the midst of the response.
    pub(crate) fn has_paused(&self) -> bool {
        self.state().has_paused.get()
    }

    /// Returns whether the client, or the uplink, has kept the upstream from
    /// sending for so long that it may have given up for that.
    pub(crate) fn has_held_up(&self) -> bool {
        self.state().held_up.get() > HELD_UP_MAX
    }

    /// Returns whether it is the upstream that is waited for.
    pub(crate) fn is_upstream_silent(&self) -> bool {
        self.state().upstream_silent_since.get().is_some()
    }

    /// Returns whether a body should give no more for now, for the socket takes
    /// none. What is read from upstream meanwhile would come in more and smaller
    /// pieces, and lie here. The connection is woken when that changes. (In HTTP/2
    /// hyper asks only for what it has room for.)
    pub(crate) fn hold_back(&self) -> bool {
        let blocked = self.connection.wire.blocked.since().is_some();
        let held = blocked && self.http2.is_none();
        self.connection.wire.holds_back.set(held);
        held
    }

    /// Notes that the response is complete up to what hyper and the socket still
    /// hold. The record is completed when the socket has taken it all.
    pub(crate) fn finish(&self, record: Box<dyn Account>, now: Instant) {
        let state = self.state();
        state.bounds.set(None);
        state.upstream_silent_since.set(None);
        if let Some(stream) = &self.http2 {
            stream.finish(record);
            return;
        }
        if let Some(earlier) = self.connection.http1.finishing.replace(Some(record)) {
            // Pipelined: the earlier response went out before this one began.
            earlier.complete();
        }
        if self.is_responding() {
            // Some of the next head may have come with what was before it.
            let begun = self.connection.http1.watch.borrow().in_head();
            state.phase.set(match begun {
                true => Phase::Head { since: now, begun },
                false => Phase::Idle { since: now },
            });
            self.connection.tell_end();
        }
    }

    /// Reads from the client for a while if the connection ends with the present
    /// answer. The client may still be sending, and the answer is to arrive. (A
    /// stream of HTTP/2 ends by itself.)
    pub(crate) fn close_lingering(&self) {
        self.connection.http1.lingers.set(self.http2.is_none());
    }

    /// Returns why the request is being cut, if it is.
    pub(crate) fn cut_reason(&self) -> Option<Reason> {
        let own = self.http2.as_ref().and_then(|stream| stream.cut.get());
        own.or(self.connection.cut_reason())
    }
}

impl Course for Stream {
    fn is_http2(&self) -> bool {
        self.http2.is_some()
    }

    fn precedence(&self, response: &HeaderMap) -> Option<Precedence> {
        let own = self.http2.as_ref()?;
        Some(precedence::told(response, own.precedence.get()))
    }

    fn gate(&self) -> Option<&FlushGate> {
        self.http2.as_ref().map(|stream| &stream.gate)
    }

    fn upstream_sent(&self) {
        let state = self.state();
        let was_silent = state.upstream_silent_since.get().is_some();
        let is_judged = state.left_since.get().is_some();
        if was_silent || is_judged {
            let now = clock::now();
            match (is_judged, was_silent) {
                // It was read at once.
                (true, true) => state.left_since.set(Some(now)),
                (true, false) => state.resume(now),
                (false, _) => {}
            }
            state.end_silence(now);
        }
        state.has_begun.set(true);
    }

    fn upstream_silent(&self) {
        let state = self.state();
        if state.upstream_silent_since.get().is_none() {
            let now = clock::now();
            state.upstream_silent_since.set(Some(now));
            state.resume(now);
        }
    }
}
