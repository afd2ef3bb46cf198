//! Requests that wait while all endpoints of their cluster are away, as during a restart.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use sprat_net::permit::{Permit, Permits};
use sprat_scheduler::health::Backoff;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// The pauses between two attempts of one request: short at first, since a restart takes little
/// time, and a few a second later.
const AGAIN: Backoff = Backoff {
    base: Duration::from_millis(20),
    max: Duration::from_millis(250),
};

/// The least pause between two attempts.
const LEAST: Duration = Duration::from_millis(5);

/// The ways in which waiting may end, in the order in which [`Absence::ends`] counts them.
pub const WAIT_RESULTS: [&str; 2] = ["served", "given_up"];

/// The requests of a cluster that wait while its endpoints are away.
#[derive(Debug, Default)]
pub struct Absence {
    waiting: Permits,
    /// The signal that wakes the requests that wait, when an endpoint may be back.
    returned: Notify,
    /// The number of waits that have ended, by [`WAIT_RESULTS`].
    pub ends: [AtomicU64; WAIT_RESULTS.len()],
}

impl Absence {
    /// Returns the number of requests that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.used()
    }

    /// Returns a place among the requests that wait, which lasts to `until`; `None` if `bound`
    /// wait already.
    pub(super) fn join(self: &Arc<Self>, bound: usize, until: Instant) -> Option<Awaiting> {
        let place = self.waiting.take(1, bound)?;
        Some(Awaiting {
            absence: Arc::clone(self),
            until,
            pauses: 0,
            is_served: false,
            _place: place,
        })
    }

    /// Wakes the requests that wait, since an endpoint may be back.
    pub(super) fn end(&self) {
        if self.waiting.used() > 0 {
            self.returned.notify_waiters();
        }
    }
}

/// A request's place among those that wait, given back when this is dropped.
pub struct Awaiting {
    absence: Arc<Absence>,
    until: Instant,
    pauses: u32,
    is_served: bool,
    _place: Permit,
}

impl Awaiting {
    /// Waits until an endpoint is worth another attempt. Returns false if the time is up: the
    /// cluster's, or the request's own, which ends at `deadline`.
    pub async fn pause(&mut self, deadline: Option<Instant>) -> bool {
        let until = deadline.map_or(self.until, |at| at.min(self.until));
        let now = Instant::now();
        if now >= until {
            return false;
        }
        let pause = AGAIN.before(self.pauses, fastrand::u64(..)).max(LEAST);
        self.pauses += 1;
        // Either way it is time to try again.
        let _ = timeout_at((now + pause).min(until), self.absence.returned.notified()).await;
        true
    }

    /// Notes that an endpoint has answered the request.
    pub fn served(&mut self) {
        self.is_served = true;
    }
}

impl Drop for Awaiting {
    fn drop(&mut self) {
        self.absence.ends[usize::from(!self.is_served)].fetch_add(1, Relaxed);
    }
}
