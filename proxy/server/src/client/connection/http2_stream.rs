//! A request of an HTTP/2 connection and its response: what of it is on its way to
//! the socket, and whether the client takes it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;

use sprat_net::error::Reason;
use sprat_scheduler::Precedence;
use sprat_scheduler::limits::Patience;
use sprat_uplink::FlushGate;
use tokio::time::Instant;

use super::stream::{StreamState, past};
use super::{Account, Connection, Phase, Stream};

/// A request of an HTTP/2 connection and its response.
pub(super) struct Http2Stream {
    /// The stream's number, if that is known.
    pub(super) number: Option<u32>,
    /// The stream's interim responses that the socket does not have.
    pub(super) interims: Cell<usize>,
    pub(super) state: StreamState,
    /// The precedence that the client has asked for.
    pub(super) precedence: Cell<Precedence>,
    /// Opens when what the body gave is in the socket.
    pub(super) gate: FlushGate,
    /// Chunks that the body gave and the socket does not have.
    pub(super) in_flight: Cell<usize>,
    /// The body is asked for more as soon as its stream's window has room: the connection
    /// asks only then.
    asked: Cell<bool>,
    /// The time when the last byte moved, or the client began to be waited for.
    moved_at: Cell<Instant>,
    /// The time for which its window has kept chunks here, in the connection's open time.
    patience: Cell<Patience>,
    /// One of the chunks will never be sent.
    lost: Cell<bool>,
    /// The client has got something of its body.
    pub(super) begun: Cell<bool>,
    /// The client has got all of it.
    pub(super) answered: Cell<bool>,
    /// The client has cancelled or broken it.
    pub(super) left: Cell<bool>,
    /// The body has ended.
    pub(super) finishing: RefCell<Option<Box<dyn Account>>>,
    pub(super) cut: Cell<Option<Reason>>,
    pub(super) waker: RefCell<Option<Waker>>,
}

impl Http2Stream {
    pub(super) fn new(now: Instant, number: Option<u32>) -> Rc<Self> {
        Rc::new(Self {
            number,
            interims: Cell::new(0),
            state: StreamState::new(Phase::Waiting { until: None }),
            precedence: Cell::default(),
            gate: FlushGate::default(),
            in_flight: Cell::new(0),
            asked: Cell::new(true),
            moved_at: Cell::new(now),
            patience: Cell::default(),
            lost: Cell::new(false),
            begun: Cell::new(false),
            answered: Cell::new(false),
            left: Cell::new(false),
            finishing: RefCell::new(None),
            cut: Cell::new(None),
            waker: RefCell::new(None),
        })
    }

    /// Notes that the body has given all it has.
    pub(super) fn finish(&self, record: Box<dyn Account>) {
        *self.finishing.borrow_mut() = Some(record);
    }

    fn settle(&self) {
        if self.in_flight.get() > 0 {
            return;
        }
        if let Some(record) = self.finishing.take() {
            if !self.lost.get() {
                record.complete();
                self.answered.set(true);
            }
            if let Some(waker) = &*self.waker.borrow() {
                waker.wake_by_ref();
            }
        }
    }

    pub(super) fn next_deadline(&self, now: Instant, connection: &Connection) -> Option<Instant> {
        let listener = &connection.listener.config;
        let bound = listener.stream_idle_timeout;
        let stalled = self.awaits_client().then(|| self.moved_at.get() + bound);
        let rules = listener.limits.min_rates.of_response();
        let due = rules.and_then(|rules| {
            let patience = self.patience.get();
            // While the client owes nothing, whether others need its places need not be asked.
            patience.due(&rules.idle)?;
            patience.due(rules.at(connection.is_pressed()))
        });
        // At the soonest: the socket may be full meanwhile.
        let judged = due.map(|due| now + due.since(connection.open_time(now)));
        let deadlines = [self.state.next_deadline(listener), stalled, judged];
        deadlines.into_iter().flatten().min()
    }

    pub(super) fn overdue(&self, now: Instant, connection: &Connection) -> Option<Reason> {
        let listener = &connection.listener.config;
        let bound = listener.stream_idle_timeout;
        if self.awaits_client() && past(now, self.moved_at.get(), bound) {
            return Some(Reason::ClientStalled);
        }
        if let Some(rules) = listener.limits.min_rates.of_response() {
            let (mut patience, open) = (self.patience.get(), connection.open_time(now));
            let is_due = patience.waited(open) >= rules.under_load.window;
            let is_too_slow =
                is_due && patience.is_too_slow(open, rules.at(connection.is_pressed()));
            self.patience.set(patience);
            if is_too_slow {
                return Some(Reason::ResponseTooSlow);
            }
        }
        self.state.overdue(now)
    }

    /// Returns whether more could be sent, if the window of its stream or the
    /// socket had room.
    fn awaits_client(&self) -> bool {
        self.in_flight.get() > 0 || !self.asked.get()
    }

    /// Changes what the waiting for the client depends on.
    fn change(&self, connection: &Connection, change: impl FnOnce(&Self)) {
        let before = self.awaits_client();
        change(self);
        let after = self.awaits_client();
        if before == after {
            return;
        }
        let now = Instant::now();
        let open = connection.open_time(now);
        let mut patience = self.patience.get();
        if after {
            self.moved_at.set(now);
            patience.wait(open);
        } else {
            patience.resume(open);
        }
        self.patience.set(patience);
    }
}

/// The reports of a response's body (`multiplexed`), which do nothing for HTTP/1.1.
impl Stream {
    /// Notes that the body has given a chunk.
    pub(super) fn given(&self) {
        let Some(own) = &self.http2 else { return };
        own.change(&self.connection, |own| {
            own.in_flight.set(own.in_flight.get() + 1);
        });
        if let Some(gauge) = self.connection.wire.gauge() {
            gauge.chunk_given();
        }
        if let Some(mark) = self.connection.wire.mark() {
            mark.chunk_given();
        }
    }

    /// Notes whether the body has been asked for more; it will be, if not, as soon
    /// as the stream's window has room.
    pub(super) fn asked(&self, is_asked: bool) {
        if let Some(own) = &self.http2 {
            own.change(&self.connection, |own| own.asked.set(is_asked));
        }
    }

    /// Notes that the socket takes `bytes` of what was given.
    pub(super) fn moved(&self, bytes: usize) {
        if let Some(own) = &self.http2 {
            own.moved_at.set(Instant::now());
            own.begun.set(true);
            let mut patience = own.patience.get();
            patience.moved(bytes as u64);
            own.patience.set(patience);
        }
    }

    /// Notes that a chunk is in the socket, as a `whole`, or will never be.
    pub(super) fn gone(&self, whole: bool) {
        let Some(own) = &self.http2 else { return };
        own.change(&self.connection, |own| {
            own.in_flight.set(own.in_flight.get() - 1);
        });
        if !whole {
            own.lost.set(true);
        }
        if let Some(gauge) = self.connection.wire.gauge() {
            gauge.chunk_gone();
        }
        if let Some(mark) = self.connection.wire.mark() {
            mark.chunk_gone();
        }
        if own.in_flight.get() == 0 {
            own.gate.flushed();
            own.settle();
        }
    }

    /// Notes that the client did not want the answer, or has broken its request off.
    pub(crate) fn left(&self) {
        if let Some(own) = &self.http2 {
            own.left.set(true);
        }
    }

    /// Completes the response if it has ended and nothing of it is left here.
    pub(super) fn settle(&self) {
        if let Some(own) = &self.http2 {
            own.settle();
        }
    }
}
