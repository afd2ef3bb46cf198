//! What a connection of HTTP/2 has beyond any other.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use sprat_net::error::Reason;
use tokio::time::Instant;

use super::frames::FrameWatch;
use super::http2_stream::Http2Stream;
use super::interim_queue::InterimQueue;
use super::stream_state::past;

/// The state that an HTTP/2 connection has beyond that of any other.
pub(super) struct Http2 {
    pub(super) watch: RefCell<FrameWatch>,
    /// Streams whose responses are not in the socket.
    pub(super) open: Cell<usize>,
    /// The connection was not used for long: the client was told that it ends.
    pub(super) leaving: Cell<bool>,
    /// The stream whose task is to be started next.
    pub(super) starting: RefCell<Option<Rc<Http2Stream>>>,
    /// The numbers of the streams that have a task, and are not reset.
    pub(super) numbers: RefCell<BTreeSet<u32>>,
    /// Interim responses that the socket does not have yet.
    pub(super) interims: RefCell<InterimQueue>,
}

impl Http2 {
    pub(super) fn new(now: Instant) -> Box<Self> {
        Box::new(Self {
            watch: RefCell::new(FrameWatch::new(now)),
            open: Cell::new(0),
            leaving: Cell::new(false),
            starting: RefCell::new(None),
            numbers: RefCell::default(),
            interims: RefCell::default(),
        })
    }

    /// Returns the reason to cut a client that floods the connection, or is late with a head:
    /// that is to take no longer than `bound`.
    pub(super) fn overdue(&self, now: Instant, bound: Duration) -> Option<Reason> {
        let watch = self.watch.borrow();
        match watch.block_since() {
            _ if watch.is_flooded() => Some(Reason::Http2Flood),
            Some(since) if past(now, since, bound) => Some(Reason::HeadTimeout),
            _ => None,
        }
    }

    /// Returns when a head must be complete that may take no longer than `bound`, if one is
    /// on its way.
    pub(super) fn next_deadline(&self, bound: Duration) -> Option<Instant> {
        Some(self.watch.borrow().block_since()? + bound)
    }
}
