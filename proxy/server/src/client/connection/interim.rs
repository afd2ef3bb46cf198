//! Interim responses on their way to a client; hyper's server has no way to send them.
//!
//! Over HTTP/1.1 they are written when hyper has nothing of its own to write: after the
//! previous response, and before the one that they announce. The head of that is given to
//! hyper once they are out. Over HTTP/2 the screen writes them between the library's frames.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Buf;
use sprat_net::hpack;
use sprat_net::screen::Interim;
use tokio::io::AsyncWrite;

use super::state::Connection;
use super::stream::Stream;

impl Stream {
    /// Returns the head of an interim response as this client gets it.
    pub(crate) fn interim_head(&self, interim: &Interim) -> Vec<u8> {
        match self {
            Self::Only(_) => text(interim),
            Self::Http2(_) => block(interim),
        }
    }

    /// Writes the head of an interim response; ends when the connection has taken it. The
    /// request in progress must have no response yet.
    pub(crate) async fn write_interim(&self, head: Vec<u8>) {
        match self {
            Self::Only(connection) => connection
                .http1
                .interim
                .borrow_mut()
                .extend_from_slice(&head),
            Self::Http2(own) => {
                if !own.push_interim(head) {
                    return;
                }
            }
        }
        self.interim_written().await;
    }

    /// Waits until every interim response is written, also those of an attempt that was
    /// given up meanwhile.
    pub(crate) async fn interim_written(&self) {
        poll_fn(|_| {
            let is_written = match self {
                Self::Only(connection) => connection.http1.interim.borrow().is_empty(),
                Self::Http2(own) => own.interims.get() == 0,
            };
            match is_written {
                true => Poll::Ready(()),
                // The connection's task, which is running this or is woken, flushes next.
                false => Poll::Pending,
            }
        })
        .await;
    }
}

impl Connection {
    /// Hands interim responses of HTTP/1.1 to `io`, which has taken all that was written
    /// before them.
    pub(super) fn poll_interim(
        &self,
        cx: &mut Context<'_>,
        mut io: Pin<&mut impl AsyncWrite>,
    ) -> Poll<io::Result<()>> {
        let mut interim = self.http1.interim.borrow_mut();
        if interim.is_empty() {
            return Poll::Ready(Ok(()));
        }
        while !interim.is_empty() {
            let written = ready!(io.as_mut().poll_write(cx, &interim))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            interim.advance(written);
        }
        drop(interim);
        self.wake();
        Poll::Ready(Ok(()))
    }
}

/// Returns an interim response's head as the text of HTTP/1.1.
fn text(interim: &Interim) -> Vec<u8> {
    let status = interim.status;
    let reason = status.canonical_reason().unwrap_or("");
    let mut head = format!("HTTP/1.1 {} {reason}\r\n", status.as_u16()).into_bytes();
    for (name, value) in &interim.headers {
        head.extend_from_slice(name.as_str().as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    head
}

/// Returns an interim response's head as a header block of HTTP/2 that needs no table.
fn block(interim: &Interim) -> Vec<u8> {
    let mut block = Vec::new();
    hpack::encode_status(interim.status, &mut block);
    for (name, value) in &interim.headers {
        hpack::encode_literal(name.as_str().as_bytes(), value.as_bytes(), &mut block);
    }
    block
}
