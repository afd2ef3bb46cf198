//! A client's connection: what its request, its socket and its deadlines
//! share, and the loop that drives it.
//!
//! Nothing here arms a timer for each request. The connection has one, armed
//! for the earliest deadline it has seen; when it fires, the deadline is
//! computed anew from the [`Phase`] and the marks that reads, writes and body
//! chunks leave behind.

mod conclusion;
mod deadlines;
mod stream;

use std::cell::{Cell, OnceCell, RefCell};
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use http::HeaderValue;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use sprat_config::classify::Certificate;
use tokio::net::TcpStream;
use tokio::time::sleep_until;

use self::conclusion::conclude;
use self::deadlines::rearm;
pub(crate) use self::stream::Stream;
use self::stream::StreamState;
use crate::error::Reason;
use crate::framing::RequestWatch;
use crate::handler;
use crate::record::Record;
use crate::tls::{self, Secured};
use crate::uplink::{Io, Outlet, Socket, SocketGauge};
use crate::worker::{ListenerState, Worker};

/// What a connection is waiting for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Phase {
    /// -> a request's first byte came (or the connection was accepted).
    Head {
        /// When.
        since: Instant,
        /// Whether any byte came.
        begun: bool,
    },
    /// -> the head was read; the handler keeps [`Stream::wake_at`].
    Waiting,
    /// -> the response's head went out.
    Responding,
    /// -> the response went out.
    Idle {
        /// When.
        since: Instant,
    },
}

/// Bounds on the response in progress.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResponseBounds {
    /// Between two chunks of the upstream's body.
    pub(crate) upstream_idle: Duration,
    /// When the exchange must be over.
    pub(crate) deadline: Option<Instant>,
}

/// A client's connection.
pub(crate) struct Connection {
    /// The worker that owns it.
    pub(crate) worker: Rc<Worker>,
    /// The listener that accepted it.
    pub(crate) listener: Rc<ListenerState>,
    /// The other end.
    pub(crate) peer: SocketAddr,
    peer_text: OnceCell<HeaderValue>,
    /// The code point that the client's packets are marked with, if a rule
    /// wants it.
    pub(crate) dscp: Option<u8>,
    /// How its bytes get onto the uplink.
    outlet: Outlet,
    /// What the TLS handshake came to.
    secured: OnceCell<Box<Secured>>,
    /// The request in progress.
    only: StreamState,
    watch: RefCell<RequestWatch>,
    write_blocked_since: Cell<Option<Instant>>,
    /// A body waits for the socket to take what is written before it.
    holding_back: Cell<bool>,
    written: Cell<u64>,
    /// Responses handed over to hyper whose bytes may not be in the socket
    /// yet.
    finishing: RefCell<Option<Box<Record>>>,
    waker: RefCell<Option<Waker>>,
    draining: Cell<bool>,
    cut: Cell<Option<Reason>>,
    lingers: Cell<bool>,
}

impl Connection {
    /// A connection that has just been accepted.
    pub(crate) fn new(
        worker: Rc<Worker>,
        listener: Rc<ListenerState>,
        peer: SocketAddr,
        dscp: Option<u8>,
        outlet: Outlet,
    ) -> Self {
        let now = Instant::now();
        Self {
            worker,
            listener,
            peer,
            peer_text: OnceCell::new(),
            dscp,
            outlet,
            secured: OnceCell::new(),
            only: StreamState::new(
                now,
                Phase::Head {
                    since: now,
                    begun: false,
                },
            ),
            watch: RefCell::default(),
            write_blocked_since: Cell::new(None),
            holding_back: Cell::new(false),
            written: Cell::new(0),
            finishing: RefCell::new(None),
            waker: RefCell::new(None),
            draining: Cell::new(false),
            cut: Cell::new(None),
            lingers: Cell::new(false),
        }
    }

    /// The peer's address as text, for forwarding headers.
    pub(crate) fn peer_text(&self) -> &HeaderValue {
        self.peer_text.get_or_init(|| {
            let ip = self.peer.ip().to_canonical();
            HeaderValue::try_from(ip.to_string()).expect("an address is visible ASCII")
        })
    }

    /// How its bytes get onto the uplink.
    pub(crate) fn outlet(&self) -> &Outlet {
        &self.outlet
    }

    /// What its TLS handshake came to; none in plain text.
    pub(crate) fn secured(&self) -> Option<&Secured> {
        self.secured.get().map(|secured| &**secured)
    }

    /// The certificate that the client has shown, for rules about classes.
    pub(crate) fn certificate(&self) -> Option<Certificate<'_>> {
        let peer = self.secured()?.peer.as_ref()?;
        Some(peer.as_certificate())
    }

    /// The TLS handshake is through; HTTP begins.
    pub(crate) fn secure(&self, secured: Secured) {
        // There is one handshake.
        let _ = self.secured.set(Box::new(secured));
        self.only.phase.set(Phase::Head {
            since: Instant::now(),
            begun: false,
        });
    }

    /// What it puts on the uplink, if that is paced.
    pub(crate) fn gauge(&self) -> Option<&Rc<SocketGauge>> {
        match &self.outlet {
            Outlet::Gauged(gauge) => Some(gauge),
            Outlet::Plain | Outlet::Marked(_) => None,
        }
    }

    // What the socket reports (`uplink::Io`).

    /// These bytes have just been read from the socket.
    pub(crate) fn on_read(&self, bytes: &[u8]) {
        let phase = &self.only.phase;
        match phase.get() {
            Phase::Idle { .. } => phase.set(Phase::Head {
                since: Instant::now(),
                begun: true,
            }),
            Phase::Head {
                since,
                begun: false,
            } => {
                phase.set(Phase::Head { since, begun: true });
            }
            _ => {}
        }
        self.watch.borrow_mut().read(bytes);
    }

    /// So many bytes have just been taken by the socket.
    pub(crate) fn on_written(&self, bytes: usize) {
        self.written.set(self.written.get() + bytes as u64);
        self.write_blocked_since.set(None);
    }

    /// The socket has taken all that was offered.
    pub(crate) fn on_flushed(&self) {
        match &self.outlet {
            Outlet::Plain => {}
            Outlet::Gauged(gauge) => gauge.flushed(),
            Outlet::Marked(mark) => mark.flushed(),
        }
        if self.holding_back.take() {
            self.wake();
        }
    }

    /// The socket takes no more for now.
    pub(crate) fn on_write_blocked(&self) {
        if self.write_blocked_since.get().is_none() {
            self.write_blocked_since.set(Some(Instant::now()));
        }
    }

    /// Bytes that the socket has taken since the connection was accepted.
    pub(crate) fn written(&self) -> u64 {
        self.written.get()
    }

    // What the worker asks for.

    /// No further request: closes when the present one is answered.
    pub(crate) fn drain(&self) {
        self.draining.set(true);
        self.wake();
    }

    /// Closes now.
    pub(crate) fn cut(&self, reason: Reason) {
        self.cut.set(Some(reason));
        self.wake();
    }

    /// Why it is being cut, if it is.
    pub(crate) fn cut_reason(&self) -> Option<Reason> {
        self.cut.get()
    }

    /// Has the connection's task look at it again.
    pub(crate) fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    /// Has [`Connection::wake`] wake this task.
    pub(crate) fn register(&self, cx: &Context<'_>) {
        let mut waker = self.waker.borrow_mut();
        if !waker
            .as_ref()
            .is_some_and(|waker| waker.will_wake(cx.waker()))
        {
            *waker = Some(cx.waker().clone());
        }
    }

    /// Completes the response whose last byte the socket has taken.
    fn settle(&self) {
        if self.write_blocked_since.get().is_none()
            && let Some(record) = self.finishing.take()
        {
            record.complete();
        }
    }
}

/// Why a connection's loop ended.
enum End {
    /// hyper is done with it.
    Closed,
    /// hyper gave it up.
    Failed(hyper::Error),
    /// A kept connection was not used again.
    Idle,
    /// The head did not arrive.
    HeadTimeout,
    /// It must end in the middle.
    Cut(Reason),
}

/// Serves a connection to its end.
pub(crate) async fn serve(connection: Rc<Connection>, stream: TcpStream) {
    let io = match &connection.listener.tls {
        None => Io::plain(Socket::new(stream, Rc::clone(&connection))),
        // Boxed: a connection does not carry a handshake's room.
        Some(tls) => match Box::pin(tls::accept(&connection, tls, stream)).await {
            Some(io) => io,
            None => return,
        },
    };
    let io = TokioIo::new(io);
    let service = service_fn({
        let connection = Rc::clone(&connection);
        move |request| {
            let stream = Stream::only(&connection);
            // Boxed: an idle connection does not carry a request's room.
            Box::pin(async move { Ok::<_, Infallible>(handler::handle(stream, request).await) })
        }
    });
    let mut http = connection.listener.http.serve_connection(io, service);
    let first = connection.next_deadline().unwrap_or_else(Instant::now);
    let mut sleep = pin!(sleep_until(first.into()));
    let mut armed = false;
    let end = poll_fn(|cx| {
        connection.register(cx);
        loop {
            if let Some(reason) = connection.cut.get() {
                return Poll::Ready(End::Cut(reason));
            }
            if connection.draining.get() {
                Pin::new(&mut http).graceful_shutdown();
            }
            match Pin::new(&mut http).poll(cx) {
                Poll::Ready(Ok(())) => return Poll::Ready(End::Closed),
                Poll::Ready(Err(error)) => return Poll::Ready(End::Failed(error)),
                Poll::Pending => connection.settle(),
            }
            if !rearm(&connection, sleep.as_mut(), &mut armed, cx) {
                return Poll::Pending;
            }
            if let Some(end) = connection.expired(Instant::now()) {
                return Poll::Ready(end);
            }
        }
    })
    .await;
    if let End::Cut(reason) = &end {
        // Before hyper drops the response, whose record asks for it.
        connection.cut.set(Some(*reason));
    }
    let parts = http.into_parts();
    // Boxed: an idle connection does not carry the room that its end needs.
    Box::pin(conclude(&connection, end, parts.io.into_inner())).await;
}
