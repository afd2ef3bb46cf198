//! The way out: responses go to clients in the scheduler's order.

mod acknowledged;
mod answer;
mod auto;
mod bursts;
mod counters;
mod flow;
mod flush;
mod gauge;
mod granting;
mod io;
pub(crate) mod kernel;
mod ledger;
mod link;
mod metrics;
mod paced;
mod shared;
mod timer;
mod watch;

use std::convert::Infallible;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use socket2::SockRef;
use sprat_config::resolved::{ClientBy, HeadersWithUnderscores};
use sprat_scheduler::Size;
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::begun::Begun;
use crate::connection::Stream;
use crate::error::Reason;
use crate::gather::Gathered;
use crate::headers::{Head, clean_trailers};
use crate::limits::ClientNumbers;
use crate::read_ahead::ReadAhead;
use crate::record::Record;
use crate::screen::Interim;
use crate::tunnel::Tunnel;

pub(crate) use acknowledged::Delivery;
pub(crate) use bursts::Bursts;
pub(crate) use flush::FlushGate;
pub(crate) use gauge::SocketGauge;
pub(crate) use granting::Granting;
pub(crate) use io::{Io, Socket};
use kernel::{KernelLink, Marked, SocketMark, UNSENT_BYTES};
use link::WorkerLink;
pub(crate) use metrics::UplinkView;
pub(crate) use paced::FirstTurn;
pub(crate) use paced::go_ahead;
use paced::{Paced, head_bytes, pace, send_ahead};
pub(crate) use shared::SharedUplink;

/// How a connection's bytes get onto the uplink.
pub(crate) enum Outlet {
    /// At once.
    Plain,
    /// Debited to the scheduler.
    Gauged(Rc<SocketGauge>),
    /// With a priority.
    Marked(Rc<SocketMark>),
}

/// What a worker sends responses through.
#[derive(Clone)]
pub(crate) enum Uplink {
    /// Everything at once.
    Unlimited,
    /// In the scheduler's order, at the link's pace.
    Paced(Rc<WorkerLink>),
    /// In the order of the kernel's queueing discipline.
    Kernel(Arc<KernelLink>),
}

impl Uplink {
    /// A worker's hold on the uplink; to be called on the worker's runtime.
    ///
    /// # Errors
    ///
    /// No timer can be had from the kernel.
    pub(crate) fn new(shared: &SharedUplink) -> std::io::Result<Self> {
        Ok(match shared {
            SharedUplink::Unlimited => Self::Unlimited,
            SharedUplink::Paced(link) => Self::Paced(WorkerLink::new(Arc::clone(link))?),
            SharedUplink::Kernel(link) => Self::Kernel(Arc::clone(link)),
        })
    }

    /// Whether it is a hold on this one.
    pub(crate) fn is_of(&self, shared: &SharedUplink) -> bool {
        match (self, shared) {
            (Self::Unlimited, SharedUplink::Unlimited) => true,
            (Self::Paced(own), SharedUplink::Paced(link)) => own.is_of(link),
            (Self::Kernel(own), SharedUplink::Kernel(link)) => Arc::ptr_eq(own, link),
            _ => false,
        }
    }

    /// How clients are told apart that share it; none if they do not.
    pub(crate) fn sharing(&self, by: Option<&ClientBy>) -> Option<ClientNumbers> {
        match self {
            Self::Unlimited | Self::Kernel(_) => None,
            Self::Paced(worker) => by.map(|by| ClientNumbers::new(by, worker.client_hasher())),
        }
    }

    /// Makes the grants that are due, for the order is another.
    pub(crate) fn look(&self) {
        if let Self::Paced(worker) = self {
            worker.look();
        }
    }

    /// Prepares a client's socket that has just been accepted.
    ///
    /// The kernel holds little that it cannot send yet, `most` bytes where the
    /// order does not ask for less: so a connection that TCP holds back soon
    /// stops being ready, and the order is decided here; and clients that do
    /// not read cannot fill the kernel's memory, which is everybody's.
    ///
    /// It is not left to what a listening socket hands down: connections may
    /// have come before it could be prepared, or while the rate was another.
    pub(crate) fn accept(&self, stream: &TcpStream, most: u32) -> Outlet {
        let (unsent, outlet) = match self {
            Self::Unlimited => (most, Outlet::Plain),
            Self::Paced(worker) => {
                let outlet = Outlet::Gauged(SocketGauge::new(worker, stream));
                (worker.unsent_bytes().min(most), outlet)
            }
            Self::Kernel(link) => {
                link.accept(stream.as_fd());
                (UNSENT_BYTES, Outlet::Marked(SocketMark::new(link)))
            }
        };
        if let Err(error) = SockRef::from(stream).set_tcp_notsent_lowat(unsent) {
            tracing::debug!(%error, "an accepted socket does not take TCP_NOTSENT_LOWAT");
        }
        outlet
    }

    /// The link's rate, if it is known.
    pub(crate) fn rate_bits_per_s(&self) -> Option<f64> {
        match self {
            Self::Unlimited | Self::Kernel(_) => None,
            Self::Paced(worker) => worker.effective_rate_bits_per_s().map(|rate| rate as f64),
        }
    }

    /// How long what open responses have left would occupy the link, and the
    /// part of that which goes before a class or with it.
    pub(crate) fn backlog(&self, class: usize) -> (Duration, Duration) {
        match self {
            Self::Unlimited | Self::Kernel(_) => Default::default(),
            Self::Paced(worker) => worker.backlog(class),
        }
    }

    /// Sends an upstream's response, whose size is `known` as well as it is.
    pub(crate) async fn respond(
        &self,
        stream: &Stream,
        response: Response<ReadAhead<Begun<Incoming>>>,
        known: Size,
        accepts_json: bool,
        mut record: Box<Record>,
    ) -> Response<Body> {
        record.known = known;
        if let Some(later) = record.later.take() {
            let classifier = &record.generation().classifier;
            record.class = classifier.reclassify(record.class, &later, &Head(response.headers()));
        }
        record.respond(response.status());
        let response = response.map(|body| {
            let mut body = Gathered::as_it_comes(body);
            if stream.is_http2() {
                body.gather(None);
            }
            body
        });
        let inner = match stream.connection.outlet() {
            Outlet::Plain => response.map(Inner::Upstream),
            Outlet::Marked(mark) if response.body().is_end_stream() => {
                mark.unmark();
                response.map(Inner::Upstream)
            }
            Outlet::Marked(mark) => {
                response.map(|body| Inner::Marked(Box::new(Marked::new(body, stream, mark, known))))
            }
            Outlet::Gauged(gauge) if response.body().is_end_stream() || known == Size::Exact(0) => {
                send_ahead(gauge, record.class, head_bytes(stream, &response)).await;
                response.map(Inner::Upstream)
            }
            Outlet::Gauged(gauge) => {
                let turn = record.generation().first_turn(record.class, record.client);
                match pace(stream, gauge, known, turn, response).await {
                    Ok(response) => response.map(|paced| Inner::Paced(Box::new(paced))),
                    Err(reason) => return self.refuse(stream, reason, accepts_json, record).await,
                }
            }
        };
        inner.map(|inner| Body::new(inner, stream, record))
    }

    /// Sends an interim response, which is small and goes ahead.
    pub(crate) async fn interim(&self, stream: &Stream, class: usize, interim: &Interim) {
        let head = stream.interim_head(interim);
        match stream.connection.outlet() {
            Outlet::Plain => {}
            Outlet::Gauged(gauge) => go_ahead(gauge, class, head.len() as u64).await,
            Outlet::Marked(mark) => mark.unmark(),
        }
        stream.write_interim(head).await;
    }

    /// Sends the head of an answer after which the connection is a tunnel.
    pub(crate) async fn switch(
        &self,
        stream: &Stream,
        response: Response<Incoming>,
        mut tunnel: Tunnel,
    ) -> Response<Body> {
        stream.begin_response(None);
        tunnel.record.tunnelled = true;
        tunnel.record.respond(response.status());
        match stream.connection.outlet() {
            Outlet::Plain => {}
            Outlet::Gauged(gauge) => {
                let head = head_bytes(stream, &response);
                send_ahead(gauge, tunnel.record.class, head).await;
            }
            Outlet::Marked(mark) => mark.unmark(),
        }
        stream.connection.switch(Box::new(tunnel));
        response.map(|_| Body {
            inner: Inner::Local(None),
            stream: stream.clone(),
            record: None,
        })
    }
}

/// The body of a response on its way to a client.
pub(crate) struct Body {
    inner: Inner,
    stream: Stream,
    record: Option<Box<Record>>,
}

enum Inner {
    Upstream(Gathered<ReadAhead<Begun<Incoming>>>),
    Paced(Box<Paced<Gathered<ReadAhead<Begun<Incoming>>>>>),
    Marked(Box<Marked<Gathered<ReadAhead<Begun<Incoming>>>>>),
    Local(Option<Bytes>),
}

impl Body {
    fn new(inner: Inner, stream: &Stream, record: Box<Record>) -> Self {
        Self {
            inner,
            stream: stream.clone(),
            record: Some(record),
        }
    }

    /// The last frame has been handed over.
    fn finish(&mut self) {
        if let Some(mut record) = self.record.take() {
            if let Inner::Paced(paced) = &self.inner {
                record.wait = paced.waited();
            }
            let now = Instant::now();
            record.release_upstream(now);
            self.stream.finish(record, now);
        }
    }

    fn fail(&mut self, reason: Reason) {
        if let Some(mut record) = self.record.take() {
            record.fail(reason);
        }
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let frame = match &mut this.inner {
            Inner::Upstream(_) if this.stream.hold_back() => return Poll::Pending,
            Inner::Upstream(incoming) => {
                let Poll::Ready(frame) = Pin::new(incoming).poll_frame(cx) else {
                    this.stream.upstream_silent();
                    return Poll::Pending;
                };
                this.stream.upstream_sent();
                frame
            }
            Inner::Paced(paced) => ready!(Pin::new(&mut **paced).poll_frame(cx)),
            Inner::Marked(marked) => ready!(Pin::new(&mut **marked).poll_frame(cx)),
            Inner::Local(text) => text.take().map(|text| Ok(Frame::data(text))),
        };
        match frame {
            Some(Ok(mut frame)) => {
                if let Some(trailers) = frame.trailers_mut() {
                    clean_trailers(trailers, HeadersWithUnderscores::Allow);
                }
                if let (Some(data), Some(record)) = (frame.data_ref(), &mut this.record) {
                    record.bytes += data.len() as u64;
                }
                // hyper does not poll again after trailers.
                if frame.is_trailers() || this.is_end_stream() {
                    this.finish();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Some(Err(error)) => {
                let record = this.record.as_ref();
                let own = record.and_then(|record| record.upload.as_ref()?.failure());
                this.fail(own.unwrap_or(Reason::ResponseIncomplete));
                Poll::Ready(Some(Err(BodyError(error))))
            }
            None => {
                this.finish();
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.inner {
            Inner::Upstream(incoming) => incoming.is_end_stream(),
            Inner::Paced(paced) => paced.is_end_stream(),
            Inner::Marked(marked) => marked.is_end_stream(),
            Inner::Local(text) => text.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.inner {
            Inner::Upstream(incoming) => incoming.size_hint(),
            Inner::Paced(paced) => paced.size_hint(),
            Inner::Marked(marked) => marked.size_hint(),
            Inner::Local(text) => SizeHint::with_exact(text.as_ref().map_or(0, Bytes::len) as u64),
        }
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        // A response without a body is never polled; hyper drops it unread. A backend
        // may say that it ends only after its head, as HTTP/2 can.
        let is_empty = matches!(self.inner, Inner::Local(_))
            || (self.record.as_ref()).is_some_and(|record| record.known == Size::Exact(0));
        if self.is_end_stream() || (is_empty && self.stream.is_responding()) {
            self.finish();
        }
    }
}

/// The upstream ended the body early; the client's connection is closed, which
/// tells it so.
#[derive(Debug, thiserror::Error)]
#[error("the upstream ended the response's body: {0}")]
pub(crate) struct BodyError(hyper::Error);

impl From<Infallible> for BodyError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}
