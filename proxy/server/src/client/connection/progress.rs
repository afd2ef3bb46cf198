//! The progress of a response, as its upstream sends it.

use std::cell::Cell;
use std::time::Duration;

use sprat_net::clock;
use sprat_net::error::Reason;
use sprat_net::read_ahead::HELD_UP_MAX;
use tokio::time::Instant;

/// The shortest silence of an upstream, in the midst of a response, that counts as a pause.
/// Such a response is a stream of events, or the like. As in
/// [`sprat_scheduler::Egress::pause`].
const PAUSE: Duration = Duration::from_millis(100);

/// Bounds on the response in progress.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResponseBounds {
    /// The longest pause between two chunks of the upstream's body.
    pub(crate) upstream_idle: Duration,
    /// The time by which the exchange must be over.
    pub(crate) deadline: Option<Instant>,
    /// Whether the upstream is judged by how it ends.
    pub(crate) is_judged: bool,
}

/// The state of an upstream towards the response that it sends.
#[derive(Clone, Copy, Debug, Default)]
enum SendState {
    /// The upstream owes nothing: no response has begun, or all of it has come.
    #[default]
    Done,
    /// The upstream is not read for now: what it sent is passed on.
    Unread {
        /// The time when the upstream was last read; unset where it is not judged.
        since: Option<Instant>,
    },
    /// The upstream is read, and has nothing for now.
    Silent {
        /// The time since which the upstream has been silent.
        since: Instant,
    },
}

/// Whether a response has paused since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Steadiness {
    /// The body has not begun to come.
    #[default]
    NotBegun,
    /// The body has come without a pause.
    Steady,
    /// The body has paused in the midst.
    Paused,
}

/// The progress of a response, and how long its upstream was silent or not read.
#[derive(Default)]
pub(super) struct ResponseProgress {
    bounds: Cell<Option<ResponseBounds>>,
    send_state: Cell<SendState>,
    steadiness: Cell<Steadiness>,
    /// The time for which the upstream was silent since the response began, in all.
    silent: Cell<Duration>,
    /// The time for which the upstream was not read, in all, though it may have had something.
    held_up: Cell<Duration>,
}

impl ResponseProgress {
    /// Notes that the response's head goes out; its body follows, within `bounds`.
    pub(super) fn begin(&self, bounds: Option<ResponseBounds>) {
        self.bounds.set(bounds);
        self.steadiness.set(Steadiness::NotBegun);
        self.silent.set(Duration::ZERO);
        self.held_up.set(Duration::ZERO);
        self.leave_unread(clock::now);
    }

    /// Notes that the upstream has sent all of the response.
    pub(super) fn end(&self) {
        self.bounds.set(None);
        self.send_state.set(SendState::Done);
    }

    /// Notes that the upstream has sent some of the response.
    pub(super) fn upstream_sent(&self) {
        match self.send_state.get() {
            SendState::Silent { .. } => self.end_silence(clock::now()),
            SendState::Unread { since: Some(since) } => {
                let now = clock::now();
                self.hold_up(since, now);
                self.leave_unread(|| now);
            }
            SendState::Unread { since: None } | SendState::Done => {}
        }
        if self.steadiness.get() == Steadiness::NotBegun {
            self.steadiness.set(Steadiness::Steady);
        }
    }

    /// Notes that the upstream is read and has nothing for now.
    pub(super) fn upstream_silent(&self) {
        if self.is_upstream_silent() {
            return;
        }
        let now = clock::now();
        if let SendState::Unread { since: Some(since) } = self.send_state.get() {
            self.hold_up(since, now);
        }
        self.send_state.set(SendState::Silent { since: now });
    }

    /// Returns whether the upstream is waited for.
    pub(super) fn is_upstream_silent(&self) -> bool {
        matches!(self.send_state.get(), SendState::Silent { .. })
    }

    /// Returns how long the upstream was waited for since the response began.
    pub(super) fn upstream_silence(&self) -> Duration {
        self.silent.get()
    }

    /// Returns whether the upstream has paused in the midst of the response.
    pub(super) fn has_paused(&self) -> bool {
        self.steadiness.get() == Steadiness::Paused
    }

    /// Returns whether the client, or the uplink, has kept the upstream from
    /// sending for so long that it may have given up for that.
    pub(super) fn has_held_up(&self) -> bool {
        self.held_up.get() > HELD_UP_MAX
    }

    /// Notes that the upstream is not waited for any more, if it was.
    pub(super) fn end_silence(&self, now: Instant) {
        let SendState::Silent { since } = self.send_state.get() else {
            return;
        };
        let silence = now.saturating_duration_since(since);
        self.silent.set(self.silent.get() + silence);
        if self.steadiness.get() == Steadiness::Steady && silence >= PAUSE {
            self.steadiness.set(Steadiness::Paused);
        }
        self.leave_unread(|| now);
    }

    /// Notes that the upstream is not read from `now` on.
    fn leave_unread(&self, now: impl FnOnce() -> Instant) {
        let is_judged = self.bounds.get().is_some_and(|bounds| bounds.is_judged);
        let since = is_judged.then(now);
        self.send_state.set(SendState::Unread { since });
    }

    /// Counts the time for which the upstream was not read.
    fn hold_up(&self, since: Instant, now: Instant) {
        let held_up = self.held_up.get() + now.saturating_duration_since(since);
        self.held_up.set(held_up);
    }

    /// Returns the response's next deadline; none while nothing is being waited for.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let bounds = self.bounds.get()?;
        let idle = match self.send_state.get() {
            SendState::Silent { since } => Some(since + bounds.upstream_idle),
            SendState::Unread { .. } | SendState::Done => None,
        };
        [bounds.deadline, idle].into_iter().flatten().min()
    }

    /// Returns why a response has taken too long, if it has.
    pub(super) fn overdue(&self, now: Instant) -> Option<Reason> {
        let bounds = self.bounds.get()?;
        if bounds.deadline.is_some_and(|deadline| now >= deadline) {
            return Some(Reason::RouteTimeout);
        }
        let SendState::Silent { since } = self.send_state.get() else {
            return None;
        };
        past(now, since, bounds.upstream_idle).then_some(Reason::UpstreamIdleTimeout)
    }
}

/// Returns whether the time `bound` has passed from `since` to `now`.
pub(super) fn past(now: Instant, since: Instant, bound: Duration) -> bool {
    now >= since + bound
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const STEP: Duration = Duration::from_millis(700);

    fn bounds(is_judged: bool) -> Option<ResponseBounds> {
        Some(ResponseBounds {
            upstream_idle: Duration::from_secs(10),
            deadline: None,
            is_judged,
        })
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_time_in_which_it_is_not_read_is_held_against_us() {
        let progress = ResponseProgress::default();
        progress.begin(bounds(true));
        progress.upstream_sent();
        // It is waited for until the socket is full, and not read afterwards.
        progress.upstream_silent();
        advance(STEP).await;
        progress.end_silence(clock::now());
        advance(STEP).await;
        progress.upstream_silent();
        assert!(!progress.has_held_up());
        progress.upstream_sent();
        advance(STEP).await;
        progress.upstream_sent();
        assert!(progress.has_held_up());
        assert_eq!(progress.upstream_silence(), STEP);
        // Where it is not judged, no time is taken.
        progress.begin(bounds(false));
        advance(4 * STEP).await;
        progress.upstream_sent();
        assert!(!progress.has_held_up());
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_is_one_in_the_midst_of_a_response() {
        let progress = ResponseProgress::default();
        progress.begin(bounds(false));
        progress.upstream_silent();
        advance(STEP).await;
        progress.upstream_sent();
        assert!(!progress.has_paused());
        progress.upstream_silent();
        advance(PAUSE / 2).await;
        progress.upstream_sent();
        assert!(!progress.has_paused());
        progress.upstream_silent();
        advance(PAUSE).await;
        progress.upstream_sent();
        progress.upstream_sent();
        assert!(progress.has_paused());
        progress.begin(bounds(false));
        assert!(!progress.has_paused());
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_upstream_is_overdue_in_time() {
        let progress = ResponseProgress::default();
        let start = Instant::now();
        progress.begin(bounds(false));
        assert_eq!(progress.next_deadline(), None);
        progress.upstream_silent();
        let idle = start + Duration::from_secs(10);
        assert_eq!(progress.next_deadline(), Some(idle));
        assert_eq!(progress.overdue(idle - Duration::from_millis(1)), None);
        assert_eq!(progress.overdue(idle), Some(Reason::UpstreamIdleTimeout));
        progress.end();
        assert_eq!(progress.next_deadline(), None);
        assert_eq!(progress.overdue(idle), None);
    }
}
