//! A screen between a connection of HTTP/2 and the library that speaks it, which takes
//! one malformed message for the end of the connection, and of all that go on beside it:
//! its decoder of header blocks knows no field that is invalid. RFC 9113 8.1.1 has that
//! message's stream end alone.
//!
//! Header blocks are read on their way to the library (`frames`, `message`). All pass as
//! they are, up to the first that is malformed: in its place the library gets one that it
//! refuses as it should. From there on the library's table is not the sender's any more,
//! so that it gets blocks of that connection written anew, which need no table.

mod frames;
mod message;

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Buf;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use self::frames::{Frames, Side};
pub(crate) use self::message::Malformed;

/// Octets that a client begins with (RFC 9113 3.4).
const PREFACE_BYTES: usize = 24;

/// Who is told of requests that are malformed.
pub(crate) trait Tell {
    /// One has come, and its stream is reset.
    fn malformed(&self, request: Malformed);
}

/// An endpoint's side has no requests.
impl Tell for () {
    fn malformed(&self, _: Malformed) {}
}

/// A connection whose malformed messages the library can take.
pub(crate) struct Screened<S, T> {
    stream: S,
    frames: Box<Frames>,
    told: T,
}

impl<S, T> Screened<S, T> {
    /// A client's, whose lists of fields may have so many octets.
    pub(crate) fn client(stream: S, list_max: usize, told: T) -> Self {
        let side = Side::Client { last: 0 };
        let frames = Box::new(Frames::new(side, PREFACE_BYTES, list_max));
        Self {
            stream,
            frames,
            told,
        }
    }
}

impl<S> Screened<S, ()> {
    /// An endpoint's, whose lists of fields may have so many octets.
    pub(crate) fn endpoint(stream: S, list_max: usize) -> Self {
        let frames = Box::new(Frames::new(Side::Endpoint, 0, list_max));
        Self {
            stream,
            frames,
            told: (),
        }
    }
}

impl<S: AsyncRead + Unpin, T: Tell + Unpin> AsyncRead for Screened<S, T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buffer.filled().len();
        loop {
            let ready = this.frames.ready();
            if !ready.is_empty() {
                let count = ready.len().min(buffer.remaining());
                buffer.put_slice(&ready[..count]);
                ready.advance(count);
                return Poll::Ready(Ok(()));
            }
            ready!(Pin::new(&mut this.stream).poll_read(cx, buffer))?;
            let read = &buffer.filled()[before..];
            if read.is_empty() {
                this.frames.end();
                if this.frames.ready().is_empty() {
                    return Poll::Ready(Ok(()));
                }
                continue;
            }
            let told = &this.told;
            let passed = this
                .frames
                .read(read, &mut |request| told.malformed(request));
            buffer.set_filled(before + passed);
            if passed > 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl<S: AsyncWrite + Unpin, T: Unpin> AsyncWrite for Screened<S, T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
