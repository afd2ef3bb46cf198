//! A client's connection: what its request, its socket and its deadlines
//! share.
//!
//! Nothing here arms a timer for each request. The connection has one, armed
//! for the earliest deadline it has seen; when it fires, the deadline is
//! computed anew from the [`Phase`] and the marks that reads, writes and body
//! chunks leave behind.

mod blocked;
mod conclusion;
mod deadlines;
mod drain;
mod frames;
mod half_close;
mod handshake;
mod http2;
mod http2_stream;
mod interim;
mod io;
mod multiplexed;
mod parked;
mod preface;
mod serve;
mod service;
mod socket;
mod stream;

use std::cell::{Cell, OnceCell, RefCell};
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::BytesMut;
use http::{HeaderMap, HeaderValue};
use sprat_config::classify::Certificate;
use sprat_net::clock;
use sprat_net::error::Reason;
use sprat_net::framing::RequestWatch;
use sprat_net::proxy_protocol::Ends;
use sprat_net::tls::Secured;
use sprat_uplink::{Outlet, SocketGauge, WireMark};
use sprat_upstream::Held;

use self::blocked::Blocked;
pub(crate) use self::conclusion::refuse_plain_http;
pub(crate) use self::deadlines::NEW_WHILE_DRAINING;
use self::drain::Drain;
use self::http2::Http2;
pub(crate) use self::io::Io;
pub(crate) use self::serve::serve;
pub(crate) use self::service::{Account, Service, Switched};
pub(crate) use self::stream::Stream;
use self::stream::StreamState;
use crate::setup::listener::ListenerState;
use crate::setup::serving::Serving;
use tokio::time::Instant;

/// The state that a connection is in: what it is waiting for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Phase {
    /// -> a request's first byte came (or the connection was accepted).
    Head {
        /// The moment that it began.
        since: Instant,
        /// Whether any byte came.
        begun: bool,
    },
    /// -> the head was read.
    Waiting {
        /// The time at which the handler wants to be polled again; `None` if it has
        /// timers of its own.
        until: Option<Instant>,
    },
    /// -> the response's head went out.
    Responding,
    /// -> the response went out.
    Idle {
        /// The moment that it began.
        since: Instant,
    },
}

/// Bounds on the response in progress.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResponseBounds {
    /// The longest pause between two chunks of the upstream's body.
    pub(crate) upstream_idle: Duration,
    /// The time by which the exchange must be over.
    pub(crate) deadline: Option<Instant>,
    /// Whether the upstream is judged by how it ends.
    pub(crate) is_judged: bool,
}

/// A client's connection and its present state.
pub(crate) struct Connection {
    /// The counters and the generation of its worker, which its requests are served by.
    pub(crate) serving: Rc<Serving>,
    /// The listener that accepted it.
    pub(crate) listener: Arc<ListenerState>,
    /// The time at which the connection was accepted.
    pub(crate) accepted: Instant,
    /// The address of the other end.
    pub(crate) peer: SocketAddr,
    peer_text: OnceCell<HeaderValue>,
    /// The code point that the client's packets are marked with, if a rule
    /// wants it.
    pub(crate) dscp: Option<u8>,
    /// The address that the client is connected to.
    local: SocketAddr,
    /// The way that the connection's bytes take onto the uplink.
    outlet: Outlet,
    /// The code point of its packets, once they have borne any.
    wire_mark: OnceCell<Rc<WireMark>>,
    /// The outcome of the TLS handshake; unset in plain text.
    secured: OnceCell<Box<Secured>>,
    /// The request in progress; with HTTP/2, whether there is any.
    only: StreamState,
    /// The state that HTTP/2 needs, once it is spoken.
    http2: OnceCell<Box<Http2>>,
    watch: RefCell<RequestWatch>,
    /// The client has closed its sending side.
    has_finished_sending: Cell<bool>,
    write_blocked: Blocked,
    /// The watch over how fast the client takes what it asked for, once its socket was full.
    drain: RefCell<Option<Box<Drain>>>,
    /// The places at endpoints that its requests hold, where these are bounded.
    held: RefCell<Vec<Weak<Held>>>,
    /// A body waits for the socket to take what is written before it.
    holding_back: Cell<bool>,
    written: Cell<u64>,
    /// Responses handed over to hyper whose bytes may not be in the socket
    /// yet.
    finishing: RefCell<Option<Box<dyn Account>>>,
    /// Interim responses that the socket does not have yet.
    interim: RefCell<BytesMut>,
    /// The protocol that the connection is going to speak when HTTP ends on it.
    switched: RefCell<Option<Box<dyn Switched>>>,
    waker: RefCell<Option<Waker>>,
    draining: Cell<bool>,
    cut: Cell<Option<Reason>>,
    lingers: Cell<bool>,
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
            peer: ends.client,
            peer_text: OnceCell::new(),
            dscp,
            outlet,
            local: ends.local,
            wire_mark: OnceCell::new(),
            secured: OnceCell::new(),
            only: StreamState::new(Phase::Head {
                since: now,
                begun: false,
            }),
            http2: OnceCell::new(),
            watch: RefCell::default(),
            has_finished_sending: Cell::new(false),
            write_blocked: Blocked::default(),
            drain: RefCell::new(None),
            held: RefCell::default(),
            holding_back: Cell::new(false),
            written: Cell::new(0),
            finishing: RefCell::new(None),
            interim: RefCell::default(),
            switched: RefCell::new(None),
            waker: RefCell::new(None),
            draining: Cell::new(false),
            cut: Cell::new(None),
            lingers: Cell::new(false),
        }
    }

    /// Returns the peer's address as text, for forwarding headers.
    pub(crate) fn peer_text(&self) -> &HeaderValue {
        self.peer_text.get_or_init(|| {
            let ip = self.peer.ip().to_canonical();
            HeaderValue::try_from(ip.to_string()).expect("an address is visible ASCII")
        })
    }

    /// Returns both ends of the connection, for backends that are told of them.
    pub(crate) fn ends(&self) -> Ends {
        Ends {
            client: self.peer,
            local: self.local,
        }
    }

    /// Returns the way that the connection's bytes take onto the uplink.
    pub(crate) fn outlet(&self) -> &Outlet {
        &self.outlet
    }

    /// Returns the outcome of the TLS handshake; none in plain text.
    pub(crate) fn secured(&self) -> Option<&Secured> {
        self.secured.get().map(|secured| &**secured)
    }

    /// Returns whether a request came over TLS, to Sprat or, as its head says, to a
    /// trusted proxy before it.
    pub(crate) fn is_secure(&self, head: &HeaderMap) -> bool {
        let forwarder = &self.listener.forwarder;
        self.secured().is_some() || forwarder.was_secure(head, self.peer.ip())
    }

    /// Returns the certificate that the client has shown, for rules about classes.
    pub(crate) fn certificate(&self) -> Option<Certificate<'_>> {
        let peer = self.secured()?.peer.as_ref()?;
        Some(peer.as_certificate())
    }

    /// Notes that the TLS handshake is through; HTTP begins.
    pub(crate) fn secure(&self, secured: Secured) {
        // There is one handshake.
        let _ = self.secured.set(Box::new(secured));
        self.only.phase.set(Phase::Head {
            since: Instant::now(),
            begun: false,
        });
    }

    /// Returns the gauge of what the connection puts on the uplink, if that is paced.
    pub(crate) fn gauge(&self) -> Option<&Rc<SocketGauge>> {
        match &self.outlet {
            Outlet::Gauged(gauge) => Some(gauge),
            Outlet::Plain | Outlet::Marked(_) => None,
        }
    }

    /// Returns the code point of the connection's packets, if they have borne any.
    pub(crate) fn wire_mark(&self) -> Option<&Rc<WireMark>> {
        self.wire_mark.get()
    }

    /// Returns the code point of the connection's packets, which may bear one from now on.
    pub(crate) fn mark_wire(&self) -> &Rc<WireMark> {
        self.wire_mark.get_or_init(Rc::default)
    }

    /// Notes that a request of the connection holds this place.
    pub(crate) fn holds(&self, place: &Rc<Held>) {
        let mut held = self.held.borrow_mut();
        held.retain(|other| other.strong_count() > 0);
        held.push(Rc::downgrade(place));
    }

    /// Returns whether others need a place that the connection's requests hold: at
    /// an endpoint, or among those of the listener.
    pub(crate) fn is_pressed(&self) -> bool {
        if self.listener.is_short_of_places() {
            return true;
        }
        let held = self.held.borrow();
        let mut places = held.iter().filter_map(Weak::upgrade);
        places.any(|place| place.is_wanted())
    }

    // What the worker asks for.

    /// Takes no further request: the connection closes when the present one is answered.
    pub(crate) fn drain(&self) {
        self.draining.set(true);
        if self.is_busy() && self.http2.get().is_none() {
            self.lingers.set(true);
        }
        self.wake();
    }

    /// Closes the connection now.
    pub(crate) fn cut(&self, reason: Reason) {
        self.cut.set(Some(reason));
        self.wake();
    }

    /// Returns why the connection is being cut, if it is.
    pub(crate) fn cut_reason(&self) -> Option<Reason> {
        self.cut.get()
    }

    /// Wakes the connection's task, which then looks at the connection again.
    pub(crate) fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    /// Returns whether a request is in progress.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(
            self.only.phase.get(),
            Phase::Waiting { .. } | Phase::Responding | Phase::Head { begun: true, .. }
        ) || self.finishing.borrow().is_some()
    }

    /// Returns whether what comes next begins a request, and all before it are answered: so a
    /// client of HTTP/1.1 sends it that waits for its answers.
    pub(crate) fn takes_turns(&self) -> bool {
        let is_idle = matches!(self.only.phase.get(), Phase::Idle { .. });
        is_idle && self.http2.get().is_none() && self.watch.borrow().is_between()
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

    /// Returns whether the connection drains, and does not owe its first request an
    /// answer: a client that has just been accepted has not been told to go elsewhere.
    fn may_shut_down(&self) -> bool {
        let is_new = matches!(self.only.phase.get(), Phase::Head { .. });
        // HTTP/2 has a way to say which requests are still answered.
        self.draining.get() && (!is_new || self.http2.get().is_some())
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
        self.watch.borrow_mut().stop();
        self.switched.replace(Some(to));
    }

    /// Completes the response whose last byte the socket has taken.
    fn settle(&self) {
        if self.write_blocked.since().is_none()
            && let Some(record) = self.finishing.take()
        {
            record.complete();
            self.only.begin_wait(clock::now());
        }
    }
}
