//! A screen between a connection of HTTP/2 and the library that speaks it. For the library, one
//! malformed message ends the connection, and all that go on beside it, since its decoder of
//! header blocks knows no field that is invalid. RFC 9113 8.1.1 has that message's stream end
//! alone.
//!
//! Header blocks are read on their way to the library (`frames`, `message`). They keep their
//! meaning, up to the first that is malformed: in its place the library gets one that it refuses
//! as it should. From there on the library's table is not the sender's any more. It then gets
//! the blocks of that connection written anew, in a form that needs no table.
//!
//! A message that its sender cuts off without an error (`NO_ERROR`) is whole for the library,
//! whether its end has come or not. If it has not, the library gets another error.
//!
//! The library's server sends no interim responses (RFC 9110 15.2), and its client tells of
//! none. An endpoint's are seen here as they pass. A client's are written here, between the
//! library's frames (`outgoing`). For that, a request has the number of its stream added to its
//! fields, since the library tells of it in no other way.

// The paths are for the fuzz target, which takes this file by its own.
#[path = "screen/frames.rs"]
mod frames;
#[path = "screen/message.rs"]
mod message;
#[path = "screen/outgoing.rs"]
mod outgoing;

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Buf;
use http::{HeaderMap, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::forward_stream;

use self::frames::{Event, Frames, Side};
pub use self::message::Malformed;
use self::outgoing::Outgoing;

/// The octets of the preface that a client begins with (RFC 9113 3.4).
const PREFACE_BYTES: usize = 24;

/// The name of the field with the number of a request's stream. Sprat's is the last of this
/// name; others are the client's own. A request that has one, and no room for Sprat's, is
/// malformed.
const STREAM_FIELD: &str = "sprat-stream";

/// The head of an interim response.
#[derive(Debug)]
pub struct Interim {
    /// The status, from 100 to 199.
    pub status: StatusCode,
    /// The fields as the endpoint sent them.
    pub headers: HeaderMap,
}

/// Takes the number of a request's stream from its fields; `None` if the list had no room for
/// it.
pub fn take_stream(headers: &mut HeaderMap) -> Option<u32> {
    let mut values = headers.get_all(STREAM_FIELD).iter();
    let number = values.next_back()?.to_str().ok()?.parse().ok();
    if values.next().is_none() {
        headers.remove(STREAM_FIELD);
        return number;
    }
    // The others are the client's own.
    let values: Vec<_> = headers.get_all(STREAM_FIELD).iter().cloned().collect();
    headers.remove(STREAM_FIELD);
    for value in &values[..values.len() - 1] {
        headers.append(STREAM_FIELD, value.clone());
    }
    number
}

/// The receiver of what a screen finds on a connection, which may have interim responses to
/// send.
pub trait Peer {
    /// Notes that a request is malformed, and that its stream is reset.
    fn malformed(&self, _request: Malformed) {}

    /// Takes the interim response that an endpoint has sent before its answer on a stream.
    fn interim(&self, _stream: u32, _interim: Interim) {}

    /// Returns the next interim response for a client: its stream, and its fields as a header
    /// block that needs no table.
    fn next_interim(&self) -> Option<(u32, Vec<u8>)> {
        None
    }

    /// Notes that the socket has taken the interim response that was returned last, or will not
    /// get it.
    fn interim_written(&self) {}

    /// Notes that the library has reset a stream.
    fn reset(&self, _stream: u32) {}
}

impl<T: Peer + ?Sized> Peer for Arc<T> {
    fn malformed(&self, request: Malformed) {
        (**self).malformed(request);
    }

    fn interim(&self, stream: u32, interim: Interim) {
        (**self).interim(stream, interim);
    }

    fn next_interim(&self) -> Option<(u32, Vec<u8>)> {
        (**self).next_interim()
    }

    fn interim_written(&self) {
        (**self).interim_written();
    }

    fn reset(&self, stream: u32) {
        (**self).reset(stream);
    }
}

/// A connection with a screen, so that a malformed message ends its stream alone.
pub struct Screened<S, T> {
    pub(crate) stream: S,
    frames: Box<Frames>,
    /// The frames towards a client; `None` for an endpoint's connection.
    outgoing: Option<Box<Outgoing>>,
    told: T,
}

impl<S, T: Peer> Screened<S, T> {
    /// Screens a client's connection, whose lists of fields may have `list_max` octets.
    pub fn client(stream: S, list_max: usize, told: T) -> Self {
        let side = Side::Client { last: 0 };
        Self {
            stream,
            frames: Box::new(Frames::new(side, PREFACE_BYTES, list_max)),
            outgoing: Some(Box::default()),
            told,
        }
    }

    /// Screens an endpoint's connection, whose lists of fields may have `list_max` octets.
    pub fn endpoint(stream: S, list_max: usize, told: T) -> Self {
        Self {
            stream,
            frames: Box::new(Frames::new(Side::Endpoint, 0, list_max)),
            outgoing: None,
            told,
        }
    }

    /// Notes that the library has written the first `count` octets of `slices`.
    fn pass<'a>(&mut self, mut count: usize, slices: impl IntoIterator<Item = &'a [u8]>) {
        let Some(outgoing) = &mut self.outgoing else {
            return;
        };
        let told = &self.told;
        for slice in slices {
            let part = count.min(slice.len());
            outgoing.pass(&slice[..part], &mut |stream| told.reset(stream));
            count -= part;
            if count == 0 {
                return;
            }
        }
    }
}

impl<S: AsyncWrite + Unpin, T: Peer> Screened<S, T> {
    /// Writes what goes between the library's frames; ready once the library may write.
    fn poll_between(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(outgoing) = &mut self.outgoing else {
            return Poll::Ready(Ok(()));
        };
        loop {
            while !outgoing.unwritten().is_empty() {
                let stream = Pin::new(&mut self.stream);
                let count = ready!(stream.poll_write(cx, outgoing.unwritten()))?;
                if count == 0 {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
                if outgoing.advance(count) {
                    self.told.interim_written();
                }
            }
            if !outgoing.is_between_frames() {
                return Poll::Ready(Ok(()));
            }
            let Some((stream, fields)) = self.told.next_interim() else {
                return Poll::Ready(Ok(()));
            };
            match outgoing.is_lost() {
                true => self.told.interim_written(),
                false => outgoing.write(stream, &fields),
            }
        }
    }
}

impl<S: AsyncRead + Unpin, T: Peer + Unpin> AsyncRead for Screened<S, T> {
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
            let (told, outgoing) = (&this.told, &mut this.outgoing);
            let passed = this.frames.read(read, &mut |event| match event {
                Event::Malformed(request) => told.malformed(request),
                Event::Interim(stream, interim) => told.interim(stream, interim),
                Event::Settings(table_bytes) => {
                    outgoing
                        .iter_mut()
                        .for_each(|own| own.settings(table_bytes));
                }
            });
            buffer.set_filled(before + passed);
            if passed > 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl<S: AsyncWrite + Unpin, T: Peer + Unpin> AsyncWrite for Screened<S, T> {
    forward_stream!(stream: is_write_vectored, poll_shutdown);

    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_between(cx))?;
        let count = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes))?;
        self.pass(count, [bytes]);
        Poll::Ready(Ok(count))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_between(cx))?;
        let count = ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, slices))?;
        self.pass(count, slices.iter().map(|slice| &**slice));
        Poll::Ready(Ok(count))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_between(cx))?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }
}

#[cfg(test)]
#[path = "screen/oracle.rs"]
mod oracle;

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use proptest::prelude::*;

    #[test]
    fn the_number_of_a_stream_is_taken_and_nothing_else() {
        let mut headers = HeaderMap::new();
        assert_eq!(take_stream(&mut headers), None);
        headers.append("a", HeaderValue::from_static("b"));
        headers.append(STREAM_FIELD, HeaderValue::from_static("7"));
        assert_eq!(take_stream(&mut headers), Some(7));
        assert_eq!(headers.len(), 1);
        // A client has such fields of its own.
        for value in ["x", "9", "11"] {
            headers.append(STREAM_FIELD, HeaderValue::from_static(value));
        }
        assert_eq!(take_stream(&mut headers), Some(11));
        let own: Vec<_> = headers.get_all(STREAM_FIELD).iter().collect();
        assert_eq!(own, ["x", "9"]);
    }

    #[test]
    fn the_fuzzers_corpus_is_screened_alike_in_all_parts() {
        crate::corpus::each("http2", oracle::run);
    }

    /// Generates frames, sound and malformed, some of which hold header blocks.
    fn frame() -> impl Strategy<Value = Vec<u8>> {
        let block = prop_oneof![
            prop::collection::vec(any::<u8>(), 0..40),
            prop::sample::select(vec![
                b"\x82\x84\x86\x41\x01a".to_vec(),
                b"\x82\x84\x86\xbe\x40\x01x\x03y z".to_vec(),
                b"\x48\x03103\x40\x04link\x01a".to_vec(),
                b"\xbf\xbe\x88".to_vec(),
                b"\x88".to_vec(),
                b"\x00\x01X\x01y".to_vec(),
                vec![0; 4],
                vec![0; 8],
            ]),
        ];
        let kind = prop::sample::select(vec![0_u8, 1, 1, 1, 3, 4, 7, 8, 9]);
        let flags = prop::sample::select(vec![0_u8, 1, 4, 4, 5, 5, 0xc, 0x24]);
        (block, kind, flags, 0_u8..8).prop_map(|(block, kind, flags, stream)| {
            let length = block.len() as u8;
            [&[0, 0, length, kind, flags, 0, 0, 0, stream], &block[..]].concat()
        })
    }

    proptest! {
        #[test]
        fn what_comes_is_screened_alike_in_all_parts(
            how: [u8; oracle::HOW_BYTES],
            frames in prop::collection::vec(frame(), 0..12),
        ) {
            oracle::run(&[&how[..], &frames.concat()].concat());
        }
    }
}
