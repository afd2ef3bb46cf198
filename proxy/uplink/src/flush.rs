//! A gate at which a body waits until the socket has taken what it gave before.

use std::cell::{Cell, RefCell};
use std::task::{Context, Poll, Waker};

/// A connection's gate for its bodies, which opens when its socket has taken what they gave: a
/// connection that TCP holds back is not given more.
#[derive(Default)]
pub struct FlushGate {
    /// Whether a frame has been handed to the HTTP layer and is not all written.
    unflushed: Cell<bool>,
    on_flush: RefCell<Option<Waker>>,
    /// The wakers of other bodies, on a connection that has more than one at a time.
    others: RefCell<Vec<Waker>>,
}

impl FlushGate {
    /// Notes that a frame goes to the HTTP layer.
    pub(crate) fn frame_given(&self) {
        self.unflushed.set(true);
    }

    /// Waits until all that was given is in the socket.
    pub(crate) fn poll_flushed(&self, cx: &Context<'_>) -> Poll<()> {
        if !self.unflushed.get() {
            return Poll::Ready(());
        }
        let mut first = self.on_flush.borrow_mut();
        if first.as_ref().is_none_or(|it| it.will_wake(cx.waker())) {
            *first = Some(cx.waker().clone());
        } else {
            let mut others = self.others.borrow_mut();
            if !others.iter().any(|other| other.will_wake(cx.waker())) {
                others.push(cx.waker().clone());
            }
        }
        Poll::Pending
    }

    /// Notes that the socket has taken all that was offered.
    pub fn flushed(&self) {
        self.unflushed.set(false);
        let first = self.on_flush.borrow_mut().take();
        first.into_iter().for_each(Waker::wake);
        let others = std::mem::take(&mut *self.others.borrow_mut());
        others.into_iter().for_each(Waker::wake);
    }
}
