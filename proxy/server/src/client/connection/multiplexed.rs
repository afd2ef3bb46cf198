//! The body of a response on an HTTP/2 connection, which knows when the socket has taken
//! what it gave.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};
use sprat_uplink::CodedMark;

use super::http2_stream::Http2Stream;

/// A response's body on an HTTP/2 connection.
pub(super) struct Multiplexed<B> {
    body: Option<B>,
    stream: Rc<Http2Stream>,
}

impl<B: Body<Data = Bytes> + Unpin> Multiplexed<B> {
    /// Wraps a response's body for its stream. A `bodiless` response goes without: over
    /// HTTP/2 hyper leaves it to Sprat to send no body after a HEAD request.
    pub(super) fn new(body: B, stream: Rc<Http2Stream>, bodiless: bool) -> Self {
        let body = (!bodiless).then_some(body);
        let new = Self { body, stream };
        if bodiless {
            new.stream.settle();
        } else if !new.is_end_stream() {
            new.stream.asked(false);
        }
        new
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Multiplexed<B> {
    type Data = Chunk;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Chunk>, B::Error>>> {
        let this = self.get_mut();
        let Some(body) = &mut this.body else {
            return Poll::Ready(None);
        };
        this.stream.asked(true);
        let frame = ready!(Pin::new(body).poll_frame(cx));
        let frame = frame
            .map(|frame| frame.map(|frame| frame.map_data(|data| Chunk::new(data, &this.stream))));
        if let Some(Ok(frame)) = &frame
            && frame.is_data()
        {
            this.stream.asked(false);
        }
        // After the last there may be nothing that tells when it is through.
        this.stream.settle();
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(B::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body
            .as_ref()
            .map_or(SizeHint::with_exact(0), B::size_hint)
    }
}

impl<B> Drop for Multiplexed<B> {
    fn drop(&mut self) {
        // Its end may be told only now: a body that is empty is never polled.
        self.body = None;
        self.stream.settle();
    }
}

/// Bytes of a body, which tell their stream how many of them the socket has taken.
pub(super) struct Chunk {
    bytes: Bytes,
    stream: Rc<Http2Stream>,
    /// The mark of the packets that the bytes go in, if these bear any.
    mark: Option<CodedMark>,
}

impl Chunk {
    fn new(bytes: Bytes, stream: &Rc<Http2Stream>) -> Self {
        Self {
            bytes,
            stream: Rc::clone(stream),
            mark: stream.given(),
        }
    }
}

impl Buf for Chunk {
    fn remaining(&self) -> usize {
        self.bytes.len()
    }

    fn chunk(&self) -> &[u8] {
        // The library asks for them when it is about to write them.
        self.stream.offered(self.mark);
        &self.bytes
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        self.stream.moved(count);
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        self.stream.gone(self.bytes.is_empty());
    }
}
