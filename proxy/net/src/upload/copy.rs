//! Copies of a request's body, for clusters that mirror it. The task that sends a copy is
//! never waited for: a copy that falls too far behind is cut.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::{Body, Frame};
use tokio::sync::oneshot;

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
    /// Whether the reading end has gone, so that no chunk is taken any more.
    is_abandoned: bool,
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
pub(super) struct Copier {
    state: Rc<RefCell<State>>,
    /// The sender whose drop tells the end.
    _end: oneshot::Sender<()>,
}

/// A body that is the copy of another.
#[derive(Debug)]
pub struct Copied {
    state: Rc<RefCell<State>>,
    end: Option<CopyEnd>,
}

/// The end of the body that a copy is made of.
#[derive(Debug)]
pub struct CopyEnd(oneshot::Receiver<()>);

impl CopyEnd {
    /// Waits until no more of the body comes, be the copy whole or not.
    pub async fn wait(self) {
        // Nothing is sent: the sender goes.
        let _ = self.0.await;
    }
}

/// Returns the writing end and the reading end of a copy.
pub(super) fn copy() -> (Copier, Copied) {
    let state = Rc::default();
    let (sender, end) = oneshot::channel();
    let copier = Copier {
        state: Rc::clone(&state),
        _end: sender,
    };
    let copied = Copied {
        state,
        end: Some(CopyEnd(end)),
    };
    (copier, copied)
}

impl Copier {
    /// Adds a chunk; returns false if the copy is of no use any more: it is not read, or too far
    /// behind.
    pub(super) fn add(&self, data: &Bytes) -> bool {
        let mut state = self.state.borrow_mut();
        if state.is_abandoned || state.bytes + data.len() > MAX_BYTES {
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
        self.state.borrow_mut().is_whole = true;
    }
}

impl Drop for Copier {
    fn drop(&mut self) {
        let mut state = self.state.borrow_mut();
        state.has_ended = true;
        state.wake();
    }
}

impl Copied {
    /// Returns the end of the body that this is a copy of; once, for there is one who waits.
    pub(super) fn take_end(&mut self) -> Option<CopyEnd> {
        self.end.take()
    }

    /// Returns the next chunk, the body's end, or an error if the copy was cut.
    pub(super) fn poll_chunk(
        &self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UploadError>>> {
        let mut state = self.state.borrow_mut();
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

impl Drop for Copied {
    fn drop(&mut self) {
        self.state.borrow_mut().is_abandoned = true;
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

    #[tokio::test]
    async fn the_end_is_told_be_the_copy_whole_or_not() {
        for is_whole in [true, false] {
            let (copier, mut copied) = copy();
            let mut end = Box::pin(copied.take_end().unwrap().wait());
            let mut cx = Context::from_waker(Waker::noop());
            assert!(end.as_mut().poll(&mut cx).is_pending());
            match is_whole {
                true => copier.finish(),
                false => drop(copier),
            }
            end.await;
        }
    }

    #[test]
    fn nothing_is_kept_for_nobody() {
        let (copier, copied) = copy();
        drop(copied);
        assert!(!copier.add(&Bytes::from_static(b"a")));
    }
}
