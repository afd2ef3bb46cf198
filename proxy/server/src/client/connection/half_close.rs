//! Clients that have closed their sending side, and wait for their answers.
//!
//! TCP closes each direction by itself, and RFC 9112 9.6 leaves a client free to
//! close its own once it has sent its last request. hyper takes the end of what a
//! client sends for the end of the client. So that end is kept from hyper for as
//! long as an answer is owed, and the socket is watched for a reset instead.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead as _, ReadBuf};

use super::phase::Http1Phase;
use super::state::{ClientIo, Connection, Protocol};

impl Connection {
    /// Reads from the client. While the client is owed an answer, the end of what it sends
    /// is withheld, and only the failure of its connection is reported.
    pub(super) fn poll_hear(
        &self,
        io: &mut ClientIo,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.http1.has_finished_sending.get() {
            let before = buffer.filled().len();
            ready!(Pin::new(&mut *io).poll_read(cx, buffer))?;
            if buffer.filled().len() > before || buffer.remaining() == 0 {
                return Poll::Ready(Ok(()));
            }
            self.http1.has_finished_sending.set(true);
        }
        match self.owes_answer() {
            true => io.poll_failure(cx).map(Err),
            false => Poll::Ready(Ok(())),
        }
    }

    /// Returns whether the client is owed an answer to a whole request, and may close its
    /// sending side meanwhile. In the middle of a body the end of what it sends is an error.
    fn owes_answer(&self) -> bool {
        if self.listener.config.abort_on_close {
            return false;
        }
        let Protocol::Http1(http1) = self.protocol() else {
            return false;
        };
        let is_answering = matches!(http1.phase.get(), Http1Phase::Answering(_));
        let watch = http1.watch.borrow();
        // hyper reads on before the handler gets the head that it has read.
        watch.is_between() && (is_answering || watch.has_head())
    }

    /// Notes that an answer is complete. If the client sends nothing more, the connection
    /// is woken, so that hyper learns of that.
    pub(super) fn tell_end(&self) {
        if self.http1.has_finished_sending.get() {
            self.wake();
        }
    }
}
