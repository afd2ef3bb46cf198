//! A client's connection: the state that its requests, its socket and its deadlines share.

use std::cell::{Cell, OnceCell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::HeaderMap;
use sprat_net::error::Reason;
use sprat_net::proxy_protocol::Ends;
use sprat_net::tls::Secured;
use sprat_uplink::Outlet;
use sprat_upstream::Held;
use tokio::time::Instant;

use super::http1::Http1;
use super::http2_state::Http2;
use super::identity::Identity;
use super::io::{Io, Socket};
use super::phase::{Http1Phase, Http2Phase};
use super::wire::Wire;
use crate::setup::listener::ListenerState;
use crate::setup::serving::Serving;

/// The socket of a client, which tells its connection what passes.
pub(crate) type ClientSocket = Socket<Connection>;

/// The stream that HTTP is spoken over with a client.
pub(crate) type ClientIo = Io<Connection>;

/// A protocol that a connection speaks when HTTP has ended on it.
pub(crate) trait Switched {
    /// Runs the protocol to its end; the bytes `early` have been read from the client already.
    fn run(
        self: Box<Self>,
        connection: Rc<Connection>,
        client: ClientIo,
        early: Bytes,
    ) -> Pin<Box<dyn Future<Output = ()>>>;
}

/// The protocol that is spoken on a connection, and its state.
pub(super) enum Protocol<'a> {
    /// HTTP/1.1, also while nothing has come that would tell.
    Http1(&'a Http1),
    /// HTTP/2, of which the client has sent the preface or which TLS has agreed on.
    Http2(&'a Http2),
}

/// The stages of a connection towards its end.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ending {
    /// The connection takes requests.
    Open,
    /// The connection takes no further request, and closes when the present one is answered.
    Draining,
    /// The connection closes now, in the middle.
    Cut(Reason),
}

/// A client's connection and its present state.
pub(crate) struct Connection {
    /// The counters and the generation of the connection's worker, by which its requests
    /// are served.
    pub(crate) serving: Rc<Serving>,
    /// The listener that accepted the connection.
    pub(crate) listener: Arc<ListenerState>,
    /// The time at which the connection was accepted.
    pub(crate) accepted: Instant,
    /// The client at the other end.
    pub(crate) client: Identity,
    /// The sending side of the connection's socket.
    pub(crate) wire: Wire,
    /// The state of HTTP/1.1, with which a connection begins.
    pub(super) http1: Http1,
    /// The state of HTTP/2, once that is spoken.
    http2: OnceCell<Box<Http2>>,
    /// The protocol that the connection is going to speak when HTTP ends on it.
    pub(super) switched: RefCell<Option<Box<dyn Switched>>>,
    /// The places at endpoints that its requests hold, where these are bounded.
    held: RefCell<Vec<Weak<Held>>>,
    ending: Cell<Ending>,
    waker: RefCell<Option<Waker>>,
}

impl Connection {
    /// Makes the state of a connection that has just been accepted.
    pub(crate) fn new(
        serving: Rc<Serving>,
        listener: Arc<ListenerState>,
        ends: Ends,
        dscp: Option<u8>,
        outlet: Outlet,
    ) -> Self {
        let now = Instant::now();
        Self {
            serving,
            listener,
            accepted: now,
            client: Identity::new(ends, dscp),
            wire: Wire::new(outlet),
            http1: Http1::new(now),
            http2: OnceCell::new(),
            switched: RefCell::new(None),
            held: RefCell::default(),
            ending: Cell::new(Ending::Open),
            waker: RefCell::new(None),
        }
    }

    /// Returns whether a request came over TLS, to Sprat or, as its head says, to a
    /// trusted proxy before it.
    pub(crate) fn is_secure(&self, head: &HeaderMap) -> bool {
        let forwarder = &self.listener.forwarder;
        self.client.secured().is_some() || forwarder.was_secure(head, self.client.peer.ip())
    }

    /// Notes that the TLS handshake is through; HTTP begins.
    pub(crate) fn secure(&self, secured: Secured) {
        self.client.secure(secured);
        self.http1.begin(Instant::now());
    }

    /// Returns the protocol that is spoken.
    pub(super) fn protocol(&self) -> Protocol<'_> {
        match self.http2() {
            Some(http2) => Protocol::Http2(http2),
            None => Protocol::Http1(&self.http1),
        }
    }

    /// Returns the state of HTTP/2, if that is spoken.
    pub(super) fn http2(&self) -> Option<&Http2> {
        self.http2.get().map(|http2| &**http2)
    }

    /// Notes that HTTP/2 is spoken, and returns its state.
    pub(super) fn begin_http2(&self, now: Instant) -> &Http2 {
        self.http2.get_or_init(|| Http2::new(now))
    }

    /// Notes that a request of the connection holds this place at an endpoint.
    pub(crate) fn holds(&self, place: &Rc<Held>) {
        let mut held = self.held.borrow_mut();
        held.retain(|other| other.strong_count() > 0);
        held.push(Rc::downgrade(place));
    }

    /// Returns whether others need a place that the connection's requests hold: at
    /// an endpoint, among those of the listener, or among those of a class on the uplink.
    pub(crate) fn is_pressed(&self) -> bool {
        if self.listener.is_short_of_places() {
            return true;
        }
        let held = self.held.borrow();
        let mut places = held.iter().filter_map(Weak::upgrade);
        if places.any(|place| place.is_wanted()) {
            return true;
        }
        let gauge = self.wire.gauge();
        gauge.is_some_and(|gauge| gauge.is_place_wanted())
    }

    // What the worker asks for.

    /// Drains the connection: it takes no further request, and closes when the present one
    /// is answered.
    pub(crate) fn drain(&self) {
        if self.ending.get() == Ending::Open {
            self.ending.set(Ending::Draining);
        }
        if let Protocol::Http1(http1) = self.protocol()
            && http1.is_busy()
        {
            http1.lingers.set(true);
        }
        self.wake();
    }

    /// Closes the connection now, in the middle, for this reason.
    pub(crate) fn cut(&self, reason: Reason) {
        self.end_by(reason);
        self.wake();
    }

    /// Notes why the connection is being cut, for the records of its requests.
    pub(super) fn end_by(&self, reason: Reason) {
        self.ending.set(Ending::Cut(reason));
    }

    /// Returns why the connection is being cut, if it is.
    pub(crate) fn cut_reason(&self) -> Option<Reason> {
        match self.ending.get() {
            Ending::Cut(reason) => Some(reason),
            Ending::Open | Ending::Draining => None,
        }
    }

    /// Returns whether the connection takes no further request.
    pub(super) fn is_ending(&self) -> bool {
        self.ending.get() != Ending::Open
    }

    /// Wakes the connection's task, which then looks at the connection again.
    pub(crate) fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    /// Returns whether a request is in progress.
    pub(crate) fn is_busy(&self) -> bool {
        match self.protocol() {
            Protocol::Http1(http1) => http1.is_busy(),
            Protocol::Http2(http2) => matches!(http2.phase.get(), Http2Phase::Answering { .. }),
        }
    }

    /// Registers this task as the one that [`Connection::wake`] wakes.
    pub(crate) fn register(&self, cx: &Context<'_>) {
        let mut waker = self.waker.borrow_mut();
        if !waker
            .as_ref()
            .is_some_and(|waker| waker.will_wake(cx.waker()))
        {
            *waker = Some(cx.waker().clone());
        }
    }

    /// Returns whether the connection drains, and does not owe its first request an answer.
    /// A client that has just been accepted has not been told to go elsewhere.
    pub(super) fn may_shut_down(&self) -> bool {
        let owes_answer = match self.protocol() {
            Protocol::Http1(http1) => matches!(http1.phase.get(), Http1Phase::Head { .. }),
            // It has a way to say which requests are still answered.
            Protocol::Http2(_) => false,
        };
        self.is_ending() && !owes_answer
    }

    /// Returns the output of `work`, unless the connection is cut meanwhile.
    pub(crate) async fn unless_cut<T>(&self, work: impl Future<Output = T>) -> Result<T, Reason> {
        let mut work = pin!(work);
        poll_fn(|cx| {
            self.register(cx);
            match self.cut_reason() {
                Some(reason) => Poll::Ready(Err(reason)),
                None => work.as_mut().poll(cx).map(Ok),
            }
        })
        .await
    }

    /// Switches to another protocol once the response's head is out.
    pub(crate) fn switch(&self, to: Box<dyn Switched>) {
        self.http1.watch.borrow_mut().stop();
        self.switched.replace(Some(to));
    }

    /// Completes the response whose last byte the socket has taken.
    pub(super) fn settle(&self) {
        if self.wire.blocked.since().is_none() {
            self.http1.settle();
        }
    }
}
