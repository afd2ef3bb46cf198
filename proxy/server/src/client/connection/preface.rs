//! Tells HTTP/2 from HTTP/1.1 by a connection's first bytes.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use sprat_net::forward_stream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::state::{ClientIo, Connection};

/// The bytes that HTTP/2 begins with (RFC 9113 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Returns whether a connection's listener takes HTTP/2 alone.
pub(super) fn is_required(connection: &Connection) -> bool {
    let http2 = connection.listener.config.http2.as_ref();
    http2.is_some_and(|http2| http2.required)
}

/// The error of a connection that had to begin with the preface and did not.
#[derive(Debug)]
pub(super) struct NotHttp2;

impl std::error::Error for NotHttp2 {}

impl fmt::Display for NotHttp2 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not the preface of HTTP/2")
    }
}

impl NotHttp2 {
    /// Returns whether a missing preface is why hyper gave a connection up.
    pub(super) fn is_cause_of(error: &hyper::Error) -> bool {
        let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref());
        let inner = cause.and_then(io::Error::get_ref);
        inner.is_some_and(<dyn std::error::Error + Send + Sync>::is::<Self>)
    }
}

/// A connection whose first bytes are compared with HTTP/2's preface. They are read like
/// any others, so that a request costs no further system call.
pub(super) struct Prefaced {
    io: ClientIo,
    connection: Rc<Connection>,
    look: PrefaceLook,
}

enum PrefaceLook {
    /// The number of bytes that have come, all of them the preface's.
    Matching(usize),
    /// The look is over; these bytes, if any, have been read and not yet given to the reader.
    Over(Option<Box<Bytes>>),
    /// The preface has come; these bytes are it, and what came with it. Nothing more is
    /// given before [`Prefaced::rewound`].
    Found(Box<Bytes>),
}

impl Prefaced {
    /// Wraps a connection that is known to speak HTTP/2.
    pub(super) fn known(io: ClientIo, connection: &Rc<Connection>) -> Self {
        Self {
            io,
            connection: Rc::clone(connection),
            look: PrefaceLook::Over(None),
        }
    }

    /// Wraps a connection that nothing has been read from.
    pub(super) fn new(io: ClientIo, connection: &Rc<Connection>) -> Self {
        // Under TLS the handshake has decided.
        let open =
            connection.client.secured().is_none() && connection.listener.config.http2.is_some();
        let look = match open {
            true => PrefaceLook::Matching(0),
            false => PrefaceLook::Over(None),
        };
        let connection = Rc::clone(connection);
        Self {
            io,
            connection,
            look,
        }
    }

    /// Restarts the reading with the bytes that were read so far, after the preface was found.
    pub(super) fn rewound(mut self) -> Self {
        if let PrefaceLook::Found(read) = self.look {
            self.look = PrefaceLook::Over(Some(read));
        }
        self
    }

    /// Returns the client's stream, and ends the look.
    pub(super) fn into_inner(self) -> ClientIo {
        self.io
    }

    /// Returns the client's stream, by reference.
    pub(super) fn io(&self) -> &ClientIo {
        &self.io
    }

    /// Keeps bytes that were read already, which the next reader gets first.
    pub(super) fn put_back(&mut self, read: Bytes) {
        self.look = PrefaceLook::Over(Some(Box::new(read)));
    }

    /// Reads until it is clear which protocol the client speaks.
    fn look(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        while let PrefaceLook::Matching(matched) = self.look {
            let before = buffer.filled().len();
            ready!(Pin::new(&mut self.io).poll_read(cx, buffer))?;
            let read = &buffer.filled()[before..];
            let rest = &PREFACE[matched..];
            let compared = read.len().min(rest.len());
            let matches = compared > 0 && read[..compared] == rest[..compared];
            if !matches && compared > 0 && is_required(&self.connection) {
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, NotHttp2)));
            }
            if matched == 0 && !matches {
                self.look = PrefaceLook::Over(None);
                return Poll::Ready(Ok(()));
            }
            let all = BytesMut::from_iter(PREFACE[..matched].iter().chain(read)).freeze();
            buffer.set_filled(before);
            self.look = match (matches, all.len() < PREFACE.len()) {
                (true, true) => PrefaceLook::Matching(all.len()),
                (true, false) => {
                    self.connection.speak_http2(&all);
                    PrefaceLook::Found(Box::new(all))
                }
                (false, _) => PrefaceLook::Over(Some(Box::new(all))),
            };
        }
        self.give(buffer)
    }

    /// Gives the reader the bytes that the look has read.
    fn give(&mut self, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut self.look {
            PrefaceLook::Over(held) => {
                if let Some(bytes) = held {
                    let count = bytes.len().min(buffer.remaining());
                    buffer.put_slice(&bytes[..count]);
                    bytes.advance(count);
                    if bytes.is_empty() {
                        *held = None;
                    }
                }
                Poll::Ready(Ok(()))
            }
            // The connection's task, which is reading, looks for itself.
            PrefaceLook::Matching(_) | PrefaceLook::Found(_) => Poll::Pending,
        }
    }
}

impl AsyncRead for Prefaced {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &self.look {
            PrefaceLook::Over(None) => {
                let Self { io, connection, .. } = &mut *self;
                connection.poll_hear(io, cx, buffer)
            }
            PrefaceLook::Matching(_) => self.look(cx, buffer),
            PrefaceLook::Over(Some(_)) | PrefaceLook::Found(_) => self.give(buffer),
        }
    }
}

impl AsyncWrite for Prefaced {
    forward_stream!(io: poll_write, poll_write_vectored, is_write_vectored, poll_shutdown);

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        ready!(this.connection.poll_interim(cx, Pin::new(&mut this.io)))?;
        Pin::new(&mut self.io).poll_flush(cx)
    }
}
