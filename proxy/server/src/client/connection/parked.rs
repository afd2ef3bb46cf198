//! Parked connections: their clients do not use them, and they cost little.
//!
//! A kept connection that its client does not use for a moment is taken back from the HTTP
//! library, with whose buffers and states it would take 14 kB, and its socket alone is
//! watched. With the first byte the library serves it as if it were new. What has come and
//! gone on it (which bytes began a request, who the client is) stands in [`Connection`], and
//! so goes on.

use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use sprat_net::counters::Counter;
use tokio::time::{Instant, sleep_until};

use super::end::End;
use super::phase::Http1Phase;
use super::state::{ClientIo, Connection, Protocol};

/// The time for which a connection is unused before it is parked. It is longer than the
/// pause between two requests of a page, since to begin anew costs some microseconds.
const AFTER: Duration = Duration::from_secs(2);

/// A guard that counts a connection as parked until it is dropped.
struct Parked<'a>(&'a Counter);

impl<'a> Parked<'a> {
    fn of(count: &'a Counter) -> Self {
        count.increment();
        Self(count)
    }
}

impl Drop for Parked<'_> {
    fn drop(&mut self) {
        self.0.decrement();
    }
}

impl Connection {
    /// Returns when the connection is to be parked, if nothing happens until then.
    pub(super) fn parks_at(&self) -> Option<Instant> {
        match self.http1.phase.get() {
            Http1Phase::Idle { since } if self.may_park() => Some(since + AFTER),
            _ => None,
        }
    }

    /// Returns whether nothing is under way, and more may come.
    fn may_park(&self) -> bool {
        matches!(self.protocol(), Protocol::Http1(http1) if http1.is_at_rest())
            && !self.is_ending()
            && self.wire.blocked.since().is_none()
    }

    /// Waits until a parked client has sent something. Returns the connection's end, if
    /// that comes first.
    pub(super) async fn park(&self, io: &ClientIo) -> Option<End> {
        let stats = &self.serving.stats;
        stats.parks.increment();
        let _parked = Parked::of(&stats.parked_connections);
        let mut timer = pin!(sleep_until(Instant::now() + self.idle_bound()));
        poll_fn(|cx| {
            self.register(cx);
            if let Some(reason) = self.cut_reason() {
                return Poll::Ready(Some(End::Cut(reason)));
            }
            if self.is_ending() {
                return Poll::Ready(Some(End::Closed));
            }
            if io.poll_readable(cx).is_ready() {
                return Poll::Ready(None);
            }
            let Http1Phase::Idle { since } = self.http1.phase.get() else {
                return Poll::Ready(None);
            };
            timer.as_mut().reset(since + self.idle_bound());
            timer.as_mut().poll(cx).map(|()| Some(End::Idle))
        })
        .await
    }
}
