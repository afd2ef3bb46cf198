//! What a connection waits for, and how long it may.

use std::future::Future;
use std::pin::Pin;
use std::task::Context;
use std::time::{Duration, Instant};

use tokio::time::Sleep;

use super::{Connection, End, Phase};
use crate::error::Reason;

impl Connection {
    /// None while nothing is being waited for.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let listener = &self.listener.config;
        let phase = match self.only.phase.get() {
            Phase::Head { since, .. } => Some(since + listener.header_timeout),
            Phase::Idle { since } => Some(since + listener.idle_timeout),
            Phase::Waiting => Some(self.only.wake_at.get()),
            Phase::Responding => None,
        };
        let blocked = self.write_blocked_since.get();
        let bounds = self.only.bounds.get();
        let deadlines = [
            phase,
            blocked.map(|since| since + listener.stream_idle_timeout),
            bounds.and_then(|bounds| bounds.deadline),
            bounds
                .zip(self.only.upstream_silent_since.get())
                .map(|(bounds, since)| since + bounds.upstream_idle),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// What has taken too long, if anything has.
    pub(super) fn expired(&self, now: Instant) -> Option<End> {
        let listener = &self.listener.config;
        let past = |since: Instant, bound: Duration| now >= since + bound;
        if let Some(since) = self.write_blocked_since.get()
            && past(since, listener.stream_idle_timeout)
        {
            return Some(End::Cut(Reason::ClientStalled));
        }
        if let Some(bounds) = self.only.bounds.get() {
            if bounds.deadline.is_some_and(|deadline| now >= deadline) {
                return Some(End::Cut(Reason::RouteTimeout));
            }
            if let Some(since) = self.only.upstream_silent_since.get()
                && past(since, bounds.upstream_idle)
            {
                return Some(End::Cut(Reason::UpstreamIdleTimeout));
            }
        }
        match self.only.phase.get() {
            Phase::Head { since, begun } if past(since, listener.header_timeout) => {
                Some(if begun { End::HeadTimeout } else { End::Idle })
            }
            Phase::Idle { since } if past(since, listener.idle_timeout) => Some(End::Idle),
            _ => None,
        }
    }
}

/// Arms the timer for the next deadline if that is earlier than what it is
/// armed for; true if it has fired, and deadlines must be looked at.
pub(super) fn rearm(
    connection: &Connection,
    mut sleep: Pin<&mut Sleep>,
    armed: &mut bool,
    cx: &mut Context<'_>,
) -> bool {
    let fired = *armed && sleep.is_elapsed();
    if let Some(next) = connection.next_deadline() {
        if fired {
            // A deadline that has passed is dealt with by the caller; should
            // it stay, looking again soon is enough.
            let soon = Instant::now() + Duration::from_millis(5);
            sleep.as_mut().reset(next.max(soon).into());
            *armed = false;
        } else if *armed && sleep.deadline() > next.into() {
            sleep.as_mut().reset(next.into());
            *armed = false;
        }
    } else if fired {
        // Nothing to wait for now; the next poll that finds a deadline arms it.
        let later = Instant::now() + connection.listener.config.stream_idle_timeout;
        sleep.as_mut().reset(later.into());
        *armed = false;
    }
    if !*armed {
        // Registers the task; from then on the timer wakes it by itself.
        *armed = true;
        return sleep.poll(cx).is_ready() || fired;
    }
    fired
}
