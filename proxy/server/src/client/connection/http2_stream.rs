//! A request of an HTTP/2 connection and its response: what of it is on its way to
//! the socket, and whether the client takes it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;

use sprat_net::error::Reason;
use sprat_scheduler::limits::Patience;
use sprat_scheduler::{Precedence, Time};
use sprat_uplink::FlushGate;
use tokio::time::Instant;

use super::account::Account;
use super::interim_queue::AwaitsInterims;
use super::phase::{AnswerPhase, StreamPhase};
use super::progress::ResponseProgress;
use super::state::Connection;

/// A request of an HTTP/2 connection and its response.
pub(crate) struct Http2Stream {
    /// The connection that the request came on.
    pub(super) connection: Rc<Connection>,
    /// The stream's number, if that is known.
    pub(super) number: Option<u32>,
    /// The number of the stream's interim responses that the socket does not have yet.
    pub(super) interims: Cell<usize>,
    /// Whether the request is a HEAD, whose answer goes without its body.
    pub(super) bodiless: Cell<bool>,
    /// The phase of the answer, which decides what is waited for and how it ends.
    pub(super) phase: Cell<StreamPhase>,
    /// The progress of the response in hand.
    pub(super) progress: ResponseProgress,
    /// The precedence that the client has asked for.
    pub(super) precedence: Cell<Precedence>,
    /// The gate that opens when the socket has all that the body gave.
    pub(super) gate: FlushGate,
    /// The number of chunks that the body gave and the socket does not have.
    pub(super) in_flight: Cell<usize>,
    /// Whether the body has been asked for more. The connection asks as soon as the
    /// stream's window has room, and only then.
    pub(super) asked: Cell<bool>,
    /// The time when the last byte moved, or the client began to be waited for, in the
    /// connection's open time.
    pub(super) moved_at: Cell<Time>,
    /// The time for which the stream's window has kept chunks here, in the connection's open time.
    pub(super) patience: Cell<Patience>,
    /// Whether the client has got something of the response's body.
    pub(super) begun: Cell<bool>,
    /// Whether the client has cancelled or broken the request.
    pub(super) left: Cell<bool>,
    /// The account of the response, once its body has ended.
    pub(super) finishing: RefCell<Option<Box<dyn Account>>>,
    pub(super) cut: Cell<Option<Reason>>,
    pub(super) waker: RefCell<Option<Waker>>,
}

impl Http2Stream {
    pub(super) fn new(connection: &Rc<Connection>, now: Instant, number: Option<u32>) -> Rc<Self> {
        Rc::new(Self {
            connection: Rc::clone(connection),
            number,
            interims: Cell::new(0),
            bodiless: Cell::new(false),
            phase: Cell::new(StreamPhase::Answering(AnswerPhase::Waiting { until: None })),
            progress: ResponseProgress::default(),
            precedence: Cell::default(),
            gate: FlushGate::default(),
            in_flight: Cell::new(0),
            asked: Cell::new(true),
            moved_at: Cell::new(connection.open_time(now)),
            patience: Cell::default(),
            begun: Cell::new(false),
            left: Cell::new(false),
            finishing: RefCell::new(None),
            cut: Cell::new(None),
            waker: RefCell::new(None),
        })
    }

    /// Notes that the body has given all it has, and keeps the response's account.
    pub(super) fn finish(&self, record: Box<dyn Account>) {
        self.progress.end();
        *self.finishing.borrow_mut() = Some(record);
    }

    /// Completes the response if it has ended and nothing of it is left here.
    pub(super) fn settle(&self) {
        if self.in_flight.get() > 0 {
            return;
        }
        if let Some(record) = self.finishing.take() {
            if self.phase.get() != StreamPhase::Lost {
                record.complete();
                self.phase.set(self.phase.get().ended());
            }
            if let Some(waker) = &*self.waker.borrow() {
                waker.wake_by_ref();
            }
        }
    }

    /// Makes the connection write the head of an interim response, unless the stream is reset;
    /// returns whether it is going to.
    pub(super) fn push_interim(self: &Rc<Self>, head: Vec<u8>) -> bool {
        let Some(http2) = self.connection.http2() else {
            return false;
        };
        let is_open = |number| http2.numbers.borrow().contains(&number);
        if !self.number.is_some_and(is_open) {
            return false;
        }
        http2
            .interims
            .borrow_mut()
            .push(Rc::clone(self) as Rc<_>, head);
        self.connection.wake();
        true
    }

    /// Returns whether more could be sent, if the window of its stream or the
    /// socket had room.
    pub(super) fn awaits_client(&self) -> bool {
        self.in_flight.get() > 0 || !self.asked.get()
    }
}

impl AwaitsInterims for Http2Stream {
    fn number(&self) -> Option<u32> {
        self.number
    }

    fn interim_queued(&self) {
        self.interims.set(self.interims.get() + 1);
    }

    fn interim_written(&self) {
        self.interims.set(self.interims.get() - 1);
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }
}
