//! A response's body whose first frame can be awaited while the response's head may still
//! change.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::timeout;

/// A body, and its first frame if that has been read.
#[derive(Debug)]
pub struct Begun<B> {
    inner: B,
    /// The first frame, if it has been read; an inner `None` stands for the body's end.
    first: Option<Box<Option<Frame<Bytes>>>>,
}

impl<B: Body<Data = Bytes> + Unpin> Begun<B> {
    /// Wraps a body of which nothing has been read.
    pub fn new(inner: B) -> Self {
        Self { inner, first: None }
    }

    /// Waits for the first frame, but no longer than `within`.
    ///
    /// # Errors
    ///
    /// The body fails before its first frame.
    pub async fn begin(&mut self, within: Duration) -> Result<(), B::Error> {
        let read = poll_fn(|cx| match Pin::new(&mut self.inner).poll_frame(cx) {
            Poll::Ready(read) => Poll::Ready(Some(read)),
            Poll::Pending => Poll::Ready(None),
        });
        let read = match read.await {
            Some(read) => read,
            // The common case needs no timer.
            None => {
                let next = poll_fn(|cx| Pin::new(&mut self.inner).poll_frame(cx));
                match timeout(within, next).await {
                    Ok(read) => read,
                    Err(_) => return Ok(()),
                }
            }
        };
        self.first = Some(Box::new(read.transpose()?));
        Ok(())
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Begun<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.first.take() {
            Some(first) => Poll::Ready(first.map(Ok)),
            None => Pin::new(&mut self.inner).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.first {
            Some(first) => first.is_none(),
            None => self.inner.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        let first = self.first.as_ref().and_then(|first| (**first).as_ref());
        let held = first.and_then(Frame::data_ref).map_or(0, Bytes::len) as u64;
        with_held(self.inner.size_hint(), held)
    }
}

/// Returns the size hint of a body of which `held_bytes` were read and not passed on; `rest` is
/// the hint of what was not read.
pub fn with_held(mut rest: SizeHint, held_bytes: u64) -> SizeHint {
    if let Some(upper) = rest.upper() {
        rest.set_upper(upper + held_bytes);
    }
    rest.set_lower(rest.lower() + held_bytes);
    rest
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http_body_util::{BodyExt as _, Empty, Full};

    use super::*;

    const SOON: Duration = Duration::from_millis(2);

    /// A body that never yields a frame; `Failing` fails at once.
    struct Silent;
    struct Failing;

    impl Body for Silent {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Pending
        }
    }

    impl Body for Failing {
        type Data = Bytes;
        type Error = &'static str;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
            Poll::Ready(Some(Err("broken")))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_read_first_is_given_first() {
        let mut body = Begun::new(Full::new(Bytes::from_static(b"hello")));
        body.begin(SOON).await.unwrap();
        assert_eq!(body.size_hint().exact(), Some(5));
        assert!(!body.is_end_stream());
        assert_eq!(body.collect().await.unwrap().to_bytes(), "hello");
        let mut empty = Begun::new(Empty::<Bytes>::new());
        empty.begin(SOON).await.unwrap();
        assert!(empty.is_end_stream());
        let mut late = Begun::new(Silent);
        late.begin(SOON).await.unwrap();
        assert!(late.first.is_none());
        assert_eq!(Begun::new(Failing).begin(SOON).await, Err("broken"));
    }
}
