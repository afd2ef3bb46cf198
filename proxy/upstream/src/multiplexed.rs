//! Connections to an endpoint that carry many requests at a time.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use http::uri::Scheme;
use hyper::client::conn::http2::SendRequest;
use sprat_net::gather::Unheard;
use sprat_net::permit::Permit;
use sprat_net::upload::RequestBody;
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

use super::counts::{EndpointCounts, IdleConnections};
use super::heard::{Heard, Silence};
use super::interim::Hears;

/// A worker's HTTP/2 connections to one endpoint.
#[derive(Default)]
pub(super) struct Pool {
    open: Rc<Open>,
    /// The lock of the request that opens a connection. Requests that come meanwhile wait for
    /// that connection, rather than open another.
    pub(super) opening: Mutex<()>,
}

/// The connections that may carry another request.
#[derive(Default)]
struct Open {
    carriers: RefCell<Vec<Rc<Carrier>>>,
    /// Whether a connection is dropped once it carries nothing. No further request comes then,
    /// but those that wait already.
    retired: Cell<bool>,
}

impl Open {
    fn retain(&self, keep: impl FnMut(&Rc<Carrier>) -> bool) {
        self.carriers.borrow_mut().retain(keep);
    }
}

/// A connection that carries requests side by side.
struct Carrier {
    pool: Weak<Open>,
    sender: SendRequest<RequestBody>,
    /// The scheme of the requests' targets.
    scheme: Scheme,
    heard: Arc<Heard>,
    /// The requests that hear interim responses.
    hears: Arc<Hears>,
    /// The silence since a request that was given up in vain. While it lasts, the connection is
    /// taken for dead.
    silence: RefCell<Option<Silence>>,
    /// The number of requests in progress.
    streams: Cell<usize>,
    idle_since: Cell<Instant>,
    /// The connection's place among the idle ones, as long as it carries no request.
    idle: Cell<Option<Permit<IdleConnections>>>,
    shared: Arc<EndpointCounts>,
    /// The sender whose drop tells that the connection is to end.
    _wanted: watch::Sender<()>,
}

impl Carrier {
    fn is_idle(&self) -> bool {
        self.streams.get() == 0
    }

    /// Counts the connection among the idle ones.
    fn rest(&self) {
        let counts = IdleConnections(Arc::clone(&self.shared));
        self.idle.set(Some(Permit::add(counts, 1)));
    }

    /// Returns whether nothing was heard since a request was sent that was given up.
    fn is_silent(&self) -> bool {
        let silence = self.silence.borrow();
        silence.as_ref().is_some_and(Silence::has_heard_nothing)
    }

    /// Takes a place on the connection for one more request.
    fn enter(self: &Rc<Self>) -> StreamSender {
        self.streams.set(self.streams.get() + 1);
        self.idle.take();
        StreamSender {
            sender: self.sender.clone(),
            carrier: Rc::clone(self),
            silence: None,
        }
    }
}

/// A request's place on a connection, given up when this is dropped.
pub struct StreamSender {
    sender: SendRequest<RequestBody>,
    carrier: Rc<Carrier>,
    /// The silence since the request was sent.
    silence: Option<Silence>,
}

impl StreamSender {
    /// Returns the scheme of the targets of requests on the connection.
    pub(super) fn scheme(&self) -> &Scheme {
        &self.carrier.scheme
    }

    /// Returns the count of small pieces that have passed on the connection since anything was
    /// heard.
    pub(super) fn unheard(&self) -> &Arc<Unheard> {
        self.carrier.heard.unheard()
    }

    /// Returns the requests on the connection that hear interim responses.
    pub(super) fn hears(&self) -> &Arc<Hears> {
        &self.carrier.hears
    }

    /// Begins to send the request, beside others on the connection. Returns the silence that
    /// begins with it, and the sender.
    pub(super) fn begin(&mut self) -> (Silence, &mut SendRequest<RequestBody>) {
        let silence = self.carrier.heard.silence();
        self.silence = Some(silence.clone());
        (silence, &mut self.sender)
    }

    pub(super) fn sender(&mut self) -> &mut SendRequest<RequestBody> {
        &mut self.sender
    }

    /// Gives up the request, which had its time. If nothing was heard on the connection since it
    /// was sent, be it of others, no further request goes there until something is.
    pub(super) fn give_up(&mut self) {
        let silence = self.silence.take();
        if let Some(silence) = silence.filter(Silence::has_heard_nothing) {
            self.carrier.silence.replace(Some(silence));
        }
    }
}

impl Drop for StreamSender {
    fn drop(&mut self) {
        // Its client has left, or another answer was sooner.
        if self.silence.as_ref().is_some_and(Silence::is_long) {
            self.give_up();
        }
        let carrier = &self.carrier;
        carrier.streams.set(carrier.streams.get() - 1);
        if carrier.is_idle() {
            carrier.idle_since.set(Instant::now());
            carrier.rest();
            if let Some(pool) = carrier.pool.upgrade()
                && (pool.retired.get() || carrier.is_silent())
            {
                pool.retain(|own| !Rc::ptr_eq(own, carrier));
            }
        }
    }
}

impl Pool {
    /// Takes a place on an open connection with fewer than `max_streams` requests, unless it is
    /// taken for dead.
    pub(super) fn take(&self, max_streams: usize) -> Option<StreamSender> {
        let open = self.open.carriers.borrow();
        let mut open = open.iter();
        let has_room = |own: &&Rc<Carrier>| {
            own.streams.get() < max_streams && !own.sender.is_closed() && !own.is_silent()
        };
        open.find(has_room).map(Carrier::enter)
    }

    /// Adds a connection that has just been opened; returns a place on it.
    pub(super) fn add(
        &self,
        sender: SendRequest<RequestBody>,
        scheme: Scheme,
        heard: Arc<Heard>,
        hears: Arc<Hears>,
        shared: &Arc<EndpointCounts>,
        wanted: watch::Sender<()>,
    ) -> StreamSender {
        let carrier = Rc::new(Carrier {
            pool: Rc::downgrade(&self.open),
            sender,
            scheme,
            heard,
            hears,
            silence: RefCell::default(),
            streams: Cell::new(0),
            idle_since: Cell::new(Instant::now()),
            idle: Cell::default(),
            shared: Arc::clone(shared),
            _wanted: wanted,
        });
        let stream = carrier.enter();
        self.open.carriers.borrow_mut().push(carrier);
        stream
    }

    /// Drops connections that are closed, or were idle for too long. A connection with requests
    /// ends with the last of them.
    pub(super) fn reap(&self, now: Instant, idle_timeout: Duration) {
        self.open.retain(|own| {
            let old = own.is_idle() && now >= own.idle_since.get() + idle_timeout;
            !own.sender.is_closed() && !old
        });
    }

    /// Closes an idle connection; false if there is none.
    pub(super) fn close_one(&self) -> bool {
        let mut closed = false;
        self.open.retain(|own| {
            let close = !closed && own.is_idle();
            closed |= close;
            !close
        });
        closed
    }

    /// Closes every idle connection.
    pub(super) fn close_idle(&self) {
        self.open.retain(|own| !own.is_idle());
    }

    /// Sets whether connections that become idle are closed at once. Until then they carry the
    /// requests that wait already.
    pub(super) fn set_retired(&self, retired: bool) {
        self.open.retired.set(retired);
    }

    /// Returns whether no further request comes to the endpoint.
    pub(super) fn is_retired(&self) -> bool {
        self.open.retired.get()
    }
}
