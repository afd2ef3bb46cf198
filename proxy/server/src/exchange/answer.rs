//! Responses on their way to clients: an upstream's, and the proxy's own.

mod own;

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::Full;
use hyper::body::Incoming;
use sprat_config::resolved::HeadersWithUnderscores;
use sprat_net::begun::{Begun, with_held};
use sprat_net::clock;
use sprat_net::coding::Coded;
use sprat_net::error::Reason;
use sprat_net::gather::Gathered;
use sprat_net::headers::{Head, clean_trailers};
use sprat_net::read_ahead::{Broken, ReadAhead};
use sprat_net::screen::Interim;
use sprat_scheduler::{Mark, Size};
use sprat_uplink::{
    Course as _, FirstTurn, Granted, Marked, MarkedBytes, Outlet, Paced, WireMarks, go_ahead,
    head_bytes, pace, send_ahead,
};

use crate::client::connection::Stream;
use crate::exchange::bounds::network;
use crate::exchange::record::Record;
use crate::exchange::tunnel::Tunnel;
pub(crate) use own::{answer_options, give, refuse};

/// Sends an upstream's response to the client, by the outlet of its connection.
pub(crate) async fn respond(
    stream: &Stream,
    response: Response<ReadAhead<Coded<Begun<Incoming>>>>,
    accepts_json: bool,
    mut record: Box<Record>,
) -> Response<Body> {
    let size = record.sent.size();
    record.reclassify(&Head(response.headers()));
    record.respond(response.status());
    let response = response.map(|body| {
        let mut body = Gathered::as_it_comes(body);
        if stream.is_http2() {
            body.gather(None);
        }
        body
    });
    let inner = match stream.connection().wire.outlet() {
        Outlet::Plain => response.map(Inner::Upstream),
        Outlet::Marked(mark) if response.body().is_end_stream() => {
            mark.unmark();
            response.map(Inner::Upstream)
        }
        Outlet::Marked(mark) => {
            response.map(|body| Inner::Marked(Box::new(Marked::new(body, stream, mark, size))))
        }
        Outlet::Gauged(gauge) if response.body().is_end_stream() || size == Size::Exact(0) => {
            let head = head_bytes(stream, &response);
            send_ahead(gauge, record.routing().class(), head).await;
            response.map(Inner::Upstream)
        }
        Outlet::Gauged(gauge) => {
            let generation = record.generation();
            let turn = FirstTurn {
                origin: generation.origin(record.routing().cluster()),
                network: network(stream.connection(), generation),
                ..generation.first_turn(record.routing().class(), record.routing().client())
            };
            let noted = record.trace().and_then(|own| own.wait("uplink"));
            let waiting = record.sent.wait();
            let paced = pace(stream, gauge, size, turn, response).await;
            drop(waiting);
            drop(noted);
            if let (Some(trace), Ok(_)) = (record.trace(), &paced) {
                trace.begin_pacing();
            }
            match paced {
                Ok(response) => response.map(Inner::Paced),
                Err(reason) => return refuse(stream, reason, accepts_json, record).await,
            }
        }
    };
    let marked = mark(stream, &record, &inner).await;
    inner.map(|inner| Body::new(stream, record, inner, marked))
}

/// Waits until the packets of a response's head may bear their mark; `None` if they bear none.
async fn mark(
    stream: &Stream,
    record: &Record,
    response: &Response<Inner>,
) -> Option<Box<MarkedBytes>> {
    let marking = record.generation().marking?;
    let granted = response.body().granted_mark();
    let head = head_bytes(stream, response);
    let wire = stream.connection().wire.begin_mark();
    let marks = WireMarks::new(wire, marking, granted.is_some(), head);
    let is_http2 = stream.is_http2();
    let first = granted.flatten().unwrap_or_default();
    marks.begin(first, is_http2).await;
    Some(Box::new(MarkedBytes::new(marks, is_http2)))
}

/// Sends an interim response, which is small and goes ahead.
pub(crate) async fn interim(stream: &Stream, class: usize, interim: &Interim) {
    let head = stream.interim_head(interim);
    match stream.connection().wire.outlet() {
        Outlet::Plain => {}
        Outlet::Gauged(gauge) => go_ahead(gauge, class, head.len() as u64).await,
        Outlet::Marked(mark) => mark.unmark(),
    }
    stream.write_interim(head).await;
}

/// Sends the head of an answer after which the connection is a tunnel.
pub(crate) async fn switch(
    stream: &Stream,
    response: Response<Incoming>,
    mut tunnel: Tunnel,
) -> Response<Body> {
    stream.begin_response(None);
    tunnel.record.sent.begin_tunnel();
    tunnel.record.respond(response.status());
    match stream.connection().wire.outlet() {
        Outlet::Plain => {}
        Outlet::Gauged(gauge) => {
            let head = head_bytes(stream, &response);
            send_ahead(gauge, tunnel.record.routing().class(), head).await;
        }
        Outlet::Marked(mark) => mark.unmark(),
    }
    stream.connection().switch(Box::new(tunnel));
    response.map(|_| Body {
        inner: Inner::Local(None),
        stream: stream.clone(),
        record: None,
        marked: None,
    })
}

/// The body of a response on its way to a client.
pub(crate) struct Body {
    inner: Inner,
    stream: Stream,
    record: Option<Box<Record>>,
    /// The code points that the response's packets bear, if any.
    marked: Option<Box<MarkedBytes>>,
}

/// The body of an upstream's response.
type Upstream = Gathered<ReadAhead<Coded<Begun<Incoming>>>>;

enum Inner {
    Upstream(Upstream),
    Paced(Box<Paced<Upstream, Stream>>),
    Marked(Box<Marked<Upstream, Stream>>),
    Local(Option<Bytes>),
    PacedPage(Box<Paced<Full<Bytes>, Stream>>),
}

impl Body {
    fn new(
        stream: &Stream,
        record: Box<Record>,
        inner: Inner,
        marked: Option<Box<MarkedBytes>>,
    ) -> Self {
        Self {
            inner,
            stream: stream.clone(),
            record: Some(record),
            marked,
        }
    }

    /// Tells the record, and the trace if there is one, that no more of the response goes out.
    fn end(&mut self) {
        let Some(record) = &mut self.record else {
            return;
        };
        if let Some(waited) = self.inner.waited() {
            match &self.inner {
                // The response in whose place it goes may have waited longer, and been refused.
                Inner::PacedPage(_) => record.sent.note_longer_wait(waited),
                _ => record.sent.note_wait(waited),
            }
        }
        if let (Some(trace), Some(granted)) = (record.trace(), self.inner.granted()) {
            trace.end_pacing(granted);
        }
    }

    /// Notes that the last frame has been handed over.
    fn finish(&mut self) {
        self.end();
        if let Some(mut record) = self.record.take() {
            let now = clock::now();
            record.release_upstream(now);
            self.stream.finish(record, now);
        }
    }

    fn fail(&mut self, reason: Reason) {
        self.end();
        if let Some(mut record) = self.record.take() {
            record.fail(reason);
        }
    }
}

impl Inner {
    /// Returns how long the body has waited for the uplink, if that paces it.
    fn waited(&self) -> Option<Duration> {
        match self {
            Self::Paced(paced) => Some(paced.waited()),
            Self::PacedPage(paced) => Some(paced.waited()),
            Self::Upstream(_) | Self::Marked(_) | Self::Local(_) => None,
        }
    }

    /// Returns what the uplink has granted, if it paces the body.
    fn granted(&self) -> Option<Granted> {
        match self {
            Self::Paced(paced) => Some(paced.granted()),
            Self::PacedPage(paced) => Some(paced.granted()),
            Self::Upstream(_) | Self::Marked(_) | Self::Local(_) => None,
        }
    }

    /// Returns the mark of what was granted last, if grants bear marks.
    fn granted_mark(&self) -> Option<Option<Mark>> {
        match self {
            Self::Paced(paced) => Some(paced.mark()),
            Self::PacedPage(paced) => Some(paced.mark()),
            Self::Upstream(_) | Self::Marked(_) | Self::Local(_) => None,
        }
    }

    /// Returns the next frame as it comes from upstream, or from the uplink.
    fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
        stream: &Stream,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken<hyper::Error>>>> {
        let frame = match self {
            Self::Upstream(_) if stream.hold_back() => return Poll::Pending,
            Self::Upstream(incoming) => {
                let Poll::Ready(frame) = Pin::new(incoming).poll_frame(cx) else {
                    stream.upstream_silent();
                    return Poll::Pending;
                };
                stream.upstream_sent();
                frame
            }
            Self::Paced(paced) => ready!(Pin::new(&mut **paced).poll_frame(cx)),
            Self::Marked(marked) => ready!(Pin::new(&mut **marked).poll_frame(cx)),
            Self::Local(text) => text.take().map(|text| Ok(Frame::data(text))),
            Self::PacedPage(paced) => {
                let frame = ready!(Pin::new(&mut **paced).poll_frame(cx));
                frame.map(|frame| frame.map_err(|never| match never {}))
            }
        };
        Poll::Ready(frame)
    }
}

impl Body {
    /// Returns the next frame, whose bytes have one mark if responses are marked.
    fn poll_marked(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken<hyper::Error>>>> {
        let Some(marked) = &mut self.marked else {
            return self.inner.poll_frame(cx, &self.stream);
        };
        if marked.held() == 0 {
            match ready!(self.inner.poll_frame(cx, &self.stream)) {
                Some(Ok(frame)) if frame.is_data() => {
                    let data = frame.into_data().unwrap_or_default();
                    if data.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(data))));
                    }
                    marked.hold(data, self.inner.granted_mark().flatten());
                }
                other => return Poll::Ready(other),
            }
        }
        let data = ready!(marked.poll_give(cx));
        Poll::Ready(Some(Ok(Frame::data(data))))
    }

    fn is_held(&self) -> bool {
        self.marked.as_ref().is_some_and(|marked| marked.held() > 0)
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
        let Poll::Ready(frame) = this.poll_marked(cx) else {
            if let Some(record) = &this.record {
                record.tell_end(cx.waker());
            }
            return Poll::Pending;
        };
        match frame {
            Some(Ok(mut frame)) => {
                if let Some(trailers) = frame.trailers_mut() {
                    clean_trailers(trailers, HeadersWithUnderscores::Allow);
                }
                if let (Some(data), Some(record)) = (frame.data_ref(), &mut this.record) {
                    record.sent.add(data.len());
                }
                // hyper does not poll again after trailers.
                if frame.is_trailers() || this.is_end_stream() {
                    this.finish();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Some(Err(error)) => {
                let record = this.record.as_ref();
                let own = record.and_then(|record| record.upload_failure());
                this.fail(own.unwrap_or_else(|| reason_of(&error)));
                Poll::Ready(Some(Err(error.into())))
            }
            None => {
                this.finish();
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        if self.is_held() {
            return false;
        }
        match &self.inner {
            Inner::Upstream(incoming) => incoming.is_end_stream(),
            Inner::Paced(paced) => paced.is_end_stream(),
            Inner::Marked(marked) => marked.is_end_stream(),
            Inner::Local(text) => text.is_none(),
            Inner::PacedPage(paced) => paced.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        let held = self.marked.as_ref().map_or(0, |marked| marked.held());
        let hint = match &self.inner {
            Inner::Upstream(incoming) => incoming.size_hint(),
            Inner::Paced(paced) => paced.size_hint(),
            Inner::Marked(marked) => marked.size_hint(),
            Inner::Local(text) => SizeHint::with_exact(text.as_ref().map_or(0, Bytes::len) as u64),
            Inner::PacedPage(paced) => paced.size_hint(),
        };
        with_held(hint, held)
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        // A response without a body is never polled; hyper drops it unread. A backend
        // may say that it ends only after its head, as HTTP/2 can.
        let is_empty = match (&self.inner, &self.record) {
            (Inner::Local(text), _) => {
                text.as_ref().is_none_or(Bytes::is_empty) || self.stream.may_be_bodiless()
            }
            // One that has begun, and not ended, has a body, and a client that has left.
            (Inner::PacedPage(_), Some(record)) => {
                record.sent.is_empty() && self.stream.may_be_bodiless()
            }
            (_, Some(record)) => record.sent.size() == Size::Exact(0),
            (_, None) => false,
        };
        if self.is_end_stream() || (is_empty && self.stream.is_responding()) {
            self.finish();
        }
        // Where the client has gone, the record is still here.
        self.end();
    }
}

/// Returns why the rest of a response does not come, if its request's body is not the reason.
fn reason_of(broken: &Broken<hyper::Error>) -> Reason {
    match broken {
        Broken::Body(_) => Reason::ResponseIncomplete,
        Broken::File(error) => {
            tracing::warn!(%error, "a buffered response cannot be read");
            Reason::BufferLost
        }
    }
}

/// The error of a response's body that ends early, or whose buffered part cannot be read.
/// The client's connection is closed, which tells the client so.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the upstream ended the response's body: {0}")]
    Upstream(hyper::Error),
    #[error("what was buffered of the response's body is lost: {0}")]
    Buffer(std::io::Error),
}

impl From<Broken<hyper::Error>> for BodyError {
    fn from(broken: Broken<hyper::Error>) -> Self {
        match broken {
            Broken::Body(error) => Self::Upstream(error),
            Broken::File(error) => Self::Buffer(error),
        }
    }
}

impl From<Infallible> for BodyError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}
