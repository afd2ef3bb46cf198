//! Interim responses on an HTTP/1.1 connection, for which hyper's server has no way.
//!
//! They are written when hyper has nothing of its own to write: between the response
//! before and that which they announce, whose head is not given to hyper before they
//! are out.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Buf;
use tokio::io::AsyncWrite;

use super::Connection;

impl Connection {
    /// Writes an interim response; ends when the connection has taken it. The request
    /// in progress must have no response yet.
    pub(crate) async fn write_interim(&self, head: &[u8]) {
        self.interim.borrow_mut().extend_from_slice(head);
        self.interim_written().await;
    }

    /// Waits until every interim response is written, also those of an attempt that was
    /// given up meanwhile.
    pub(crate) async fn interim_written(&self) {
        poll_fn(|_| match self.interim.borrow().is_empty() {
            true => Poll::Ready(()),
            // The connection's task, which is running this, flushes next.
            false => Poll::Pending,
        })
        .await;
    }

    /// Hands interim responses to `io`, all that was written before them being there.
    pub(super) fn poll_interim(
        &self,
        cx: &mut Context<'_>,
        mut io: Pin<&mut impl AsyncWrite>,
    ) -> Poll<io::Result<()>> {
        let mut interim = self.interim.borrow_mut();
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
