//! A body waits here until the socket has taken what it gave before.

use std::cell::{Cell, RefCell};
use std::task::{Context, Poll, Waker};

/// Tells the body on a connection how far its socket has come: a connection
/// that TCP holds back is not given more.
#[derive(Default)]
pub(crate) struct FlushGate {
    /// A frame has been handed to the HTTP layer and is not all written.
    unflushed: Cell<bool>,
    on_flush: RefCell<Option<Waker>>,
}

impl FlushGate {
    /// A frame goes to the HTTP layer.
    pub(crate) fn frame_given(&self) {
        self.unflushed.set(true);
    }

    /// Ready once all that was given is in the socket.
    pub(crate) fn poll_flushed(&self, cx: &Context<'_>) -> Poll<()> {
        if !self.unflushed.get() {
            return Poll::Ready(());
        }
        *self.on_flush.borrow_mut() = Some(cx.waker().clone());
        Poll::Pending
    }

    /// The socket has taken all that was offered.
    pub(crate) fn flushed(&self) {
        self.unflushed.set(false);
        let waker = self.on_flush.borrow_mut().take();
        waker.into_iter().for_each(Waker::wake);
    }
}
