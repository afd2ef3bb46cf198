//! A future whose output stays in one place. A future that waits for another hands its output on,
//! and each such step is a copy: heads have a hundred bytes and more.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// The invariant of a future that a relay has waited for.
pub(super) const RELAYED: &str = "a relay ends when the output is there";

/// A future, and its output once it is there.
pub(super) struct InPlace<'f, F: Future> {
    future: Pin<&'f mut F>,
    output: Option<F::Output>,
}

impl<'f, F: Future> InPlace<'f, F> {
    pub(super) fn new(future: Pin<&'f mut F>) -> Self {
        Self {
            future,
            output: None,
        }
    }

    /// Polls the future, unless its output is there already.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.output.is_none() {
            self.output = Some(ready!(self.future.as_mut().poll(cx)));
        }
        Poll::Ready(())
    }

    /// Returns the output, if the future has ended and the output was not taken.
    pub(super) fn take(&mut self) -> Option<F::Output> {
        self.output.take()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;

    use super::*;

    #[tokio::test]
    async fn an_output_is_kept_until_it_is_taken() {
        let mut polls = 0;
        let future = pin!(poll_fn(|cx| {
            polls += 1;
            cx.waker().wake_by_ref();
            match polls {
                1 => Poll::Pending,
                _ => Poll::Ready(polls),
            }
        }));
        let mut own = InPlace::new(future);
        assert_eq!(own.take(), None);
        poll_fn(|cx| own.poll(cx)).await;
        // It is not polled again once it has ended.
        poll_fn(|cx| own.poll(cx)).await;
        assert_eq!((own.take(), own.take()), (Some(2), None));
    }
}
