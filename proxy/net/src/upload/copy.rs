//! Copies of a request's body, for clusters that mirror it. The task that sends a copy is
//! never waited for: a copy that falls too far behind is cut.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::{Body, Frame};

use super::UploadError;
use crate::error::Reason;
use crate::pieces;

/// The most bytes of a copy that wait to be sent.
const MAX_BYTES: usize = 256 << 10;

#[derive(Debug, Default)]
struct State {
    chunks: VecDeque<Bytes>,
    bytes: usize,
    /// Whether all of the body has come.
    is_whole: bool,
    /// Whether no more comes, be the copy whole or not.
    has_ended: bool,
    waker: Option<Waker>,
}

impl State {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// The writing end of a copy, which gets a body's chunks as they pass.
#[derive(Debug)]
pub(super) struct Copier(Rc<RefCell<State>>);

/// A body that is the copy of another.
#[derive(Debug)]
pub struct Copied(Rc<RefCell<State>>);

/// Returns the writing end and the reading end of a copy.
pub(super) fn copy() -> (Copier, Copied) {
    let state = Rc::default();
    (Copier(Rc::clone(&state)), Copied(state))
}

impl Copier {
    /// Adds a chunk; returns false if the copy is of no use any more: it is not read, or too far
    /// behind.
    pub(super) fn add(&self, data: &Bytes) -> bool {
        let mut state = self.0.borrow_mut();
        let is_read = Rc::strong_count(&self.0) > 1;
        if !is_read || state.bytes + data.len() > MAX_BYTES {
            return false;
        }
        state.bytes += data.len();
        let rest = match state.chunks.back_mut() {
            Some(last) => pieces::join(last, data.clone()),
            None => Some(data.clone()),
        };
        state.chunks.extend(rest);
        state.wake();
        true
    }

    /// Notes that the body has come to its end, so that the copy is whole.
    pub(super) fn finish(self) {
        self.0.borrow_mut().is_whole = true;
    }
}

impl Drop for Copier {
    fn drop(&mut self) {
        let mut state = self.0.borrow_mut();
        state.has_ended = true;
        state.wake();
    }
}

impl Copied {
    /// Returns the next chunk, the body's end, or an error if the copy was cut.
    pub(super) fn poll_chunk(
        &self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UploadError>>> {
        let mut state = self.0.borrow_mut();
        if state.has_ended && !state.is_whole {
            return Poll::Ready(Some(Err(UploadError(Reason::TruncatedBody))));
        }
        match state.chunks.pop_front() {
            Some(data) => {
                state.bytes -= data.len();
                Poll::Ready(Some(Ok(Frame::data(data))))
            }
            None if state.has_ended => Poll::Ready(None),
            None => {
                state.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Body for Copied {
    type Data = Bytes;
    type Error = UploadError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UploadError>>> {
        self.poll_chunk(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(copied: &Copied) -> Poll<Option<Option<usize>>> {
        let mut cx = Context::from_waker(Waker::noop());
        copied.poll_chunk(&mut cx).map(|frame| {
            frame.map(|frame| frame.ok().and_then(|own| own.data_ref().map(Bytes::len)))
        })
    }

    #[test]
    fn chunks_come_in_order_and_end() {
        let (copier, copied) = copy();
        assert_eq!(next(&copied), Poll::Pending);
        assert!(copier.add(&Bytes::from_static(b"a")));
        assert_eq!(next(&copied), Poll::Ready(Some(Some(1))));
        // Small ones that wait are one.
        assert!(copier.add(&Bytes::from_static(b"b")));
        assert!(copier.add(&Bytes::from_static(b"c")));
        copier.finish();
        assert_eq!(next(&copied), Poll::Ready(Some(Some(2))));
        assert_eq!(next(&copied), Poll::Ready(None));
    }

    #[test]
    fn a_copy_that_falls_behind_is_cut() {
        let (copier, copied) = copy();
        let chunk = Bytes::from(vec![0; MAX_BYTES]);
        assert!(copier.add(&chunk));
        assert!(!copier.add(&Bytes::from_static(b"a")));
        drop(copier);
        assert_eq!(next(&copied), Poll::Ready(Some(None)));
    }

    #[test]
    fn nothing_is_kept_for_nobody() {
        let (copier, copied) = copy();
        drop(copied);
        assert!(!copier.add(&Bytes::from_static(b"a")));
    }
}
