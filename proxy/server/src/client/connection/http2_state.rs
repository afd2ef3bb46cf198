//! The state of HTTP/2 on a connection, beyond that of its streams.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::time::Duration;

use sprat_net::error::Reason;
use tokio::time::Instant;

use super::frames::FrameWatch;
use super::interim_queue::InterimQueue;
use super::phase::Http2Phase;
use super::progress::past;

/// The state of HTTP/2 on a connection.
pub(super) struct Http2 {
    /// The connection's phase, which decides what is waited for.
    pub(super) phase: Cell<Http2Phase>,
    pub(super) watch: RefCell<FrameWatch>,
    /// Whether the client, idle for too long, was told that the connection ends. The flag outlasts
    /// the phase: a request that is on its way already is answered.
    pub(super) leaving: Cell<bool>,
    /// The numbers of the streams that have a task, and are not reset.
    pub(super) numbers: RefCell<BTreeSet<u32>>,
    /// Interim responses that the socket does not have yet.
    pub(super) interims: RefCell<InterimQueue>,
}

impl Http2 {
    pub(super) fn new(now: Instant) -> Box<Self> {
        Box::new(Self {
            phase: Cell::new(Http2Phase::Idle { since: now }),
            watch: RefCell::new(FrameWatch::new(now)),
            leaving: Cell::new(false),
            numbers: RefCell::default(),
            interims: RefCell::default(),
        })
    }

    /// Notes that the client is told that the connection ends.
    pub(super) fn leave(&self, now: Instant) {
        self.phase.set(Http2Phase::Idle { since: now });
        self.leaving.set(true);
    }

    /// Returns the reason to cut a client that floods the connection, or that takes longer
    /// than `bound` over a head.
    pub(super) fn overdue(&self, now: Instant, bound: Duration) -> Option<Reason> {
        let watch = self.watch.borrow();
        match watch.block_since() {
            _ if watch.is_flooded() => Some(Reason::Http2Flood),
            Some(since) if past(now, since, bound) => Some(Reason::HeadTimeout),
            _ => None,
        }
    }

    /// Returns when a head that is on its way must be complete: `bound` after it began.
    pub(super) fn next_deadline(&self, bound: Duration) -> Option<Instant> {
        Some(self.watch.borrow().block_since()? + bound)
    }
}
