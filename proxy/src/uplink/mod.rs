//! The way out: response bodies, and the bytes that the socket really takes.

use std::convert::Infallible;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Response;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use sprat_scheduler::Size;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::connection::Connection;
use crate::error::Reason;
use crate::record::Record;

/// What a worker sends responses through.
#[derive(Clone, Debug, Default)]
pub(crate) struct Uplink;

impl Uplink {
    /// Sends an upstream's response, whose size is `known` as well as it is.
    pub(crate) async fn respond(
        &self,
        connection: &Rc<Connection>,
        response: Response<Incoming>,
        known: Size,
        mut record: Record,
    ) -> Response<Body> {
        record.known = known;
        record.respond(response.status());
        response.map(|incoming| Body {
            inner: Inner::Upstream(incoming),
            connection: Rc::clone(connection),
            record: Some(record),
        })
    }

    /// Sends an answer of the proxy itself.
    pub(crate) fn refuse(
        &self,
        connection: &Rc<Connection>,
        reason: Reason,
        accepts_json: bool,
        mut record: Record,
    ) -> Response<Body> {
        connection.begin_response(None);
        if reason.ends_connection() {
            connection.close_lingering();
        }
        let response = reason.response(accepts_json);
        record.known = Size::Exact(response.body().len() as u64);
        record.fail(reason);
        record.respond(response.status());
        response.map(|text| Body {
            inner: Inner::Local(Some(text)),
            connection: Rc::clone(connection),
            record: Some(record),
        })
    }
}

/// The body of a response on its way to a client.
pub(crate) struct Body {
    inner: Inner,
    connection: Rc<Connection>,
    record: Option<Record>,
}

enum Inner {
    Upstream(Incoming),
    Local(Option<Bytes>),
}

impl Body {
    /// The last frame has been handed over.
    fn finish(&mut self) {
        if let Some(mut record) = self.record.take() {
            record.release_upstream();
            self.connection.finish(record);
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
        let polled = match &mut this.inner {
            Inner::Upstream(incoming) => Pin::new(incoming).poll_frame(cx),
            Inner::Local(text) => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
        };
        let Poll::Ready(frame) = polled else {
            this.connection.upstream_silent();
            return Poll::Pending;
        };
        this.connection.upstream_sent();
        match frame {
            Some(Ok(frame)) => {
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
                this.fail(Reason::ResponseIncomplete);
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
            Inner::Local(text) => text.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.inner {
            Inner::Upstream(incoming) => incoming.size_hint(),
            Inner::Local(text) => SizeHint::with_exact(text.as_ref().map_or(0, Bytes::len) as u64),
        }
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        // A response without a body is never polled; hyper drops it unread.
        let unread = matches!(self.inner, Inner::Local(_)) && self.connection.is_responding();
        if self.is_end_stream() || unread {
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

/// A client's socket that tells its [`Connection`] what passes through.
pub(crate) struct Io<T> {
    inner: T,
    connection: Rc<Connection>,
}

impl<T> Io<T> {
    /// Wraps an accepted socket.
    pub(crate) fn new(inner: T, connection: Rc<Connection>) -> Self {
        Self { inner, connection }
    }

    fn note(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(Ok(bytes)) => self.connection.on_written(bytes),
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.connection.on_write_blocked(),
        }
        written
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Io<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buffer))?;
        self.connection.on_read(&buffer.filled()[before..]);
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Io<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.note(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(cx, slices);
        self.note(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
