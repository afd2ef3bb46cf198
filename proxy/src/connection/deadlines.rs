//! What a connection waits for, and how long it may.

use std::future::Future;
use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use super::serve::End;
use super::stream::past;
use super::{Connection, Phase};
use crate::error::Reason;

/// How long a client that has just been accepted gets to begin, while the
/// server drains.
pub(crate) const NEW_WHILE_DRAINING: Duration = Duration::from_secs(1);

/// How long until a deadline that has passed and stays is looked at again.
const SOON: Duration = Duration::from_millis(5);

impl Connection {
    /// None while nothing is being waited for.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let listener = &self.listener.config;
        let blocked = self.write_blocked_since.get();
        let head = match self.only.phase.get() {
            Phase::Head { since, begun } => Some(since + self.head_bound(begun)),
            _ => None,
        };
        let deadlines = [
            head,
            self.only.next_deadline(listener),
            blocked.map(|since| since + listener.stream_idle_timeout),
            self.drain.borrow().as_ref().and_then(|drain| drain.due()),
            self.http2.get().and_then(|http2| http2.next_deadline(self)),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// How long a head may take; a client that is new when the server drains
    /// is sending it already, or does not mean to.
    fn head_bound(&self, begun: bool) -> Duration {
        let bound = self.listener.config.header_timeout;
        match self.draining.get() && !begun {
            true => bound.min(NEW_WHILE_DRAINING),
            false => bound,
        }
    }

    /// What has taken too long, if anything has.
    pub(super) fn expired(&self, now: Instant) -> Option<End> {
        let listener = &self.listener.config;
        if let Some(drain) = &mut *self.drain.borrow_mut() {
            drain.ask(now);
        }
        if let Some(since) = self.write_blocked_since.get()
            && past(now, since, listener.stream_idle_timeout)
        {
            return Some(End::Cut(Reason::ClientStalled));
        }
        if let Some(reason) = self.only.overdue(now) {
            return Some(End::Cut(reason));
        }
        if let Some(http2) = self.http2.get()
            && let Some(reason) = http2.overdue(now, self)
        {
            return Some(End::Cut(reason));
        }
        match self.only.phase.get() {
            Phase::Head { since, begun } if past(now, since, self.head_bound(begun)) => {
                Some(if begun { End::HeadTimeout } else { End::Idle })
            }
            Phase::Idle { since } if past(now, since, listener.idle_timeout) => Some(End::Idle),
            _ => None,
        }
    }
}

/// Arms the timer for the `next` deadline if that is earlier than what it is
/// armed for; true if it has fired, and deadlines must be looked at. If there
/// is none, it is looked at again `later`.
pub(super) fn rearm(
    next: Option<Instant>,
    later: Duration,
    mut sleep: Pin<&mut Sleep>,
    armed: &mut bool,
    cx: &mut Context<'_>,
) -> bool {
    let fired = *armed && sleep.is_elapsed();
    if let Some(next) = next {
        if fired {
            // A deadline that has passed is dealt with by the caller; should
            // it stay, looking again soon is enough.
            sleep.as_mut().reset(next.max(Instant::now() + SOON));
            *armed = false;
        } else if sleep.deadline() > next && sleep.deadline() > Instant::now() + SOON {
            // One that is armed for soon stays: to be armed again for what has
            // passed would be to fire at once, and again, without an end.
            sleep.as_mut().reset(next);
            *armed = false;
        }
    } else if fired {
        // Nothing to wait for now; the next poll that finds a deadline arms it.
        sleep.as_mut().reset(Instant::now() + later);
        *armed = false;
    }
    if !*armed {
        // Registers the task; from then on the timer wakes it by itself.
        *armed = true;
        return sleep.poll(cx).is_ready() || fired;
    }
    fired
}
