//! A request and its response: what is true of them, and not of the rest of
//! their connection.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;

use super::{Connection, Phase, ResponseBounds};
use crate::error::Reason;
use crate::framing::Slips;
use crate::record::Record;

/// How far a request has got.
pub(super) struct StreamState {
    /// When the handler wants to be polled again.
    pub(super) wake_at: Cell<Instant>,
    pub(super) phase: Cell<Phase>,
    pub(super) bounds: Cell<Option<ResponseBounds>>,
    pub(super) upstream_silent_since: Cell<Option<Instant>>,
}

impl StreamState {
    pub(super) fn new(now: Instant, phase: Phase) -> Self {
        Self {
            wake_at: Cell::new(now),
            phase: Cell::new(phase),
            bounds: Cell::new(None),
            upstream_silent_since: Cell::new(None),
        }
    }
}

/// A request's place on its connection.
#[derive(Clone)]
pub(crate) struct Stream {
    /// The connection that it came on.
    pub(crate) connection: Rc<Connection>,
}

impl Stream {
    /// The one that an HTTP/1.1 connection has at a time.
    pub(crate) fn only(connection: &Rc<Connection>) -> Self {
        Self {
            connection: Rc::clone(connection),
        }
    }

    fn state(&self) -> &StreamState {
        &self.connection.only
    }

    /// The handler wants to be polled again by then.
    pub(crate) fn wake_at(&self, at: Instant) {
        self.state().wake_at.set(at);
    }

    /// The request's head has been read; what was wrong with it.
    pub(crate) fn begin_request(&self) -> Slips {
        self.state().phase.set(Phase::Waiting);
        self.connection.watch.borrow_mut().next_head()
    }

    /// The response's head goes out; its body follows.
    pub(crate) fn begin_response(&self, bounds: Option<ResponseBounds>) {
        let state = self.state();
        state.phase.set(Phase::Responding);
        state.bounds.set(bounds);
        state.upstream_silent_since.set(None);
    }

    /// Whether a response is on its way.
    pub(crate) fn is_responding(&self) -> bool {
        self.state().phase.get() == Phase::Responding
    }

    /// The upstream has sent a chunk.
    pub(crate) fn upstream_sent(&self) {
        self.state().upstream_silent_since.set(None);
    }

    /// The client could take more than the upstream has sent.
    pub(crate) fn upstream_silent(&self) {
        let since = &self.state().upstream_silent_since;
        if since.get().is_none() {
            since.set(Some(Instant::now()));
        }
    }

    /// Whether a body should give no more for now, for the socket takes none:
    /// what is read from upstream meanwhile would come in more and smaller
    /// pieces, and lie here. The connection is woken when that changes.
    pub(crate) fn hold_back(&self) -> bool {
        let blocked = self.connection.write_blocked_since.get().is_some();
        self.connection.holding_back.set(blocked);
        blocked
    }

    /// The response is complete up to what hyper and the socket still hold;
    /// the record is completed when the socket has taken it all.
    pub(crate) fn finish(&self, record: Box<Record>) {
        let state = self.state();
        state.bounds.set(None);
        state.upstream_silent_since.set(None);
        if let Some(earlier) = self.connection.finishing.replace(Some(record)) {
            // Pipelined: the earlier response went out before this one began.
            earlier.complete();
        }
        if self.is_responding() {
            state.phase.set(Phase::Idle {
                since: Instant::now(),
            });
        }
    }

    /// The connection ends with the present answer, while the client may still
    /// be sending: it is read for a while, so that the answer arrives.
    pub(crate) fn close_lingering(&self) {
        self.connection.lingers.set(true);
    }

    /// Why it is being cut, if it is.
    pub(crate) fn cut_reason(&self) -> Option<Reason> {
        self.connection.cut_reason()
    }
}
