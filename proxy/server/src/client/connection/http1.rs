//! The state of HTTP/1.1 on a client's connection: its phase, and what outlasts a request.

use std::cell::{Cell, RefCell};

use bytes::BytesMut;
use sprat_net::clock;
use sprat_net::framing::RequestWatch;
use tokio::time::Instant;

use super::account::Account;
use super::phase::{AnswerPhase, Http1Phase};
use super::progress::ResponseProgress;

/// The state of HTTP/1.1 on a connection. Once HTTP/2 is spoken it rests.
pub(super) struct Http1 {
    /// The connection's phase, which decides what is waited for.
    pub(super) phase: Cell<Http1Phase>,
    /// The progress of the response in hand.
    pub(super) progress: ResponseProgress,
    /// The watch over where requests begin and end in what the client sends.
    pub(super) watch: RefCell<RequestWatch>,
    /// Whether the client has closed its sending side.
    pub(super) has_finished_sending: Cell<bool>,
    /// A response handed over to hyper whose bytes may not be in the socket yet.
    pub(super) finishing: RefCell<Option<Box<dyn Account>>>,
    /// Interim responses that the socket does not have yet.
    pub(super) interim: RefCell<BytesMut>,
    /// Whether the connection is read for a while when it ends with the present answer.
    pub(super) lingers: Cell<bool>,
}

impl Http1 {
    /// Makes the state of a connection that has just been accepted.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            phase: Cell::new(Http1Phase::Head {
                since: now,
                begun: false,
            }),
            progress: ResponseProgress::default(),
            watch: RefCell::default(),
            has_finished_sending: Cell::new(false),
            finishing: RefCell::new(None),
            interim: RefCell::default(),
            lingers: Cell::new(false),
        }
    }

    /// Waits anew for the client's first head, once its TLS handshake is through.
    pub(super) fn begin(&self, now: Instant) {
        self.phase.set(Http1Phase::Head {
            since: now,
            begun: false,
        });
    }

    /// Notes that the client has sent something.
    pub(super) fn hear(&self) {
        let since = match self.phase.get() {
            Http1Phase::Idle { .. } => clock::now(),
            Http1Phase::Head { since, .. } => since,
            Http1Phase::Answering(_) => return,
        };
        self.phase.set(Http1Phase::Head { since, begun: true });
    }

    /// Returns whether a request is in progress.
    pub(super) fn is_busy(&self) -> bool {
        let is_begun = match self.phase.get() {
            Http1Phase::Head { begun, .. } => begun,
            Http1Phase::Answering(_) => true,
            Http1Phase::Idle { .. } => false,
        };
        is_begun || self.is_finishing()
    }

    /// Returns whether the response to a request is on its way.
    pub(super) fn is_responding(&self) -> bool {
        self.phase.get() == Http1Phase::Answering(AnswerPhase::Responding)
    }

    /// Returns whether the socket has still to take the end of a response. Until
    /// then the client can't be late with its next request, though it may have sent
    /// some of it.
    pub(super) fn is_finishing(&self) -> bool {
        self.finishing.borrow().is_some()
    }

    /// Notes that the response is complete up to what hyper and the socket still hold.
    /// Returns whether it was the one in progress.
    pub(super) fn finish(&self, record: Box<dyn Account>, now: Instant) -> bool {
        self.progress.end();
        if let Some(earlier) = self.finishing.replace(Some(record)) {
            // Pipelined: the earlier response went out before this one began.
            earlier.complete();
        }
        let was_responding = self.is_responding();
        if was_responding {
            // Some of the next head may have come with what was before it.
            let begun = self.watch.borrow().in_head();
            self.phase.set(match begun {
                true => Http1Phase::Head { since: now, begun },
                false => Http1Phase::Idle { since: now },
            });
        }
        was_responding
    }

    /// Completes the response whose last byte the socket has taken, and begins to wait for
    /// the client: for the next head, or its rest.
    pub(super) fn settle(&self) {
        let Some(record) = self.finishing.take() else {
            return;
        };
        record.complete();
        let now = clock::now();
        self.phase.set(match self.phase.get() {
            Http1Phase::Idle { .. } => Http1Phase::Idle { since: now },
            Http1Phase::Head { begun, .. } => Http1Phase::Head { since: now, begun },
            answering @ Http1Phase::Answering(_) => answering,
        });
    }

    /// Returns whether nothing is left to read or to write, beyond what the socket holds.
    pub(super) fn is_at_rest(&self) -> bool {
        !self.is_finishing()
            && !self.has_finished_sending.get()
            && self.interim.borrow().is_empty()
            && self.watch.borrow().is_between()
    }
}
