//! How far a response has got, as its upstream sends it.

use std::cell::Cell;
use std::time::Duration;

use sprat_config::resolved::Listener;
use sprat_net::clock;
use sprat_net::error::Reason;
use tokio::time::Instant;

use super::phase::{Phase, ResponseBounds};

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
    bounds: Cell<Option<ResponseBounds>>,
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

    /// Notes that the response's head goes out; its body follows, within `bounds`.
    pub(super) fn begin(&self, bounds: Option<ResponseBounds>) {
        self.phase.set(Phase::Responding);
        self.bounds.set(bounds);
        self.upstream_silent_since.set(None);
        self.silent.set(Duration::ZERO);
        self.has_begun.set(false);
        self.has_paused.set(false);
        let judged = bounds.is_some_and(|bounds| bounds.is_judged);
        self.left_since.set(judged.then(clock::now));
        self.held_up.set(Duration::ZERO);
    }

    /// Notes that the upstream has sent all of the response.
    pub(super) fn end(&self) {
        self.bounds.set(None);
        self.upstream_silent_since.set(None);
    }

    /// Notes that the upstream has sent some of the response.
    pub(super) fn upstream_sent(&self) {
        let was_silent = self.is_upstream_silent();
        let is_judged = self.left_since.get().is_some();
        if was_silent || is_judged {
            let now = clock::now();
            match (is_judged, was_silent) {
                // It was read at once.
                (true, true) => self.left_since.set(Some(now)),
                (true, false) => self.resume(now),
                (false, _) => {}
            }
            self.end_silence(now);
        }
        self.has_begun.set(true);
    }

    /// Notes that the upstream is read and has nothing for now.
    pub(super) fn upstream_silent(&self) {
        if !self.is_upstream_silent() {
            let now = clock::now();
            self.upstream_silent_since.set(Some(now));
            self.resume(now);
        }
    }

    /// Returns whether it is the upstream that is waited for.
    pub(super) fn is_upstream_silent(&self) -> bool {
        self.upstream_silent_since.get().is_some()
    }

    /// Returns how long the upstream was waited for since the response began.
    pub(super) fn upstream_silence(&self) -> Duration {
        self.silent.get()
    }

    /// Returns whether the upstream has paused in the midst of the response.
    pub(super) fn has_paused(&self) -> bool {
        self.has_paused.get()
    }

    /// Returns whether the client, or the uplink, has kept the upstream from
    /// sending for so long that it may have given up for that.
    pub(super) fn has_held_up(&self) -> bool {
        self.held_up.get() > HELD_UP_MAX
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
