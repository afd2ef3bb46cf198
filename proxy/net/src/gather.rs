//! Small pieces of a body, put together where several requests share the connection.
//!
//! An HTTP/2 peer counts small DATA frames that wait to be read. If there are too many, it ends
//! the connection, with all requests on it (Rust's h2 after about a hundred, where the window is
//! the protocol's own). Neither a client nor an endpoint that sends byte by byte may do that to
//! others. A peer that reads at once counts few, but the peer may stall, or the network on the
//! way to it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::begun::with_held;

/// The size from which a piece passes at once, in bytes.
const LARGE_BYTES: usize = 1_024;

/// The least time between two small pieces of a body.
const PAUSE: Duration = Duration::from_millis(5);

/// The number of small pieces after which a peer that has sent nothing meanwhile may have
/// stalled.
const UNHEARD_MAX: u32 = 32;

/// The least time between two small pieces of a body while the peer may have stalled.
const LONG_PAUSE: Duration = Duration::from_millis(100);

/// The number of small pieces that have passed over a connection, of all its bodies, since its
/// peer last sent anything.
#[derive(Debug, Default)]
pub struct Unheard(AtomicU32);

impl Unheard {
    /// Notes that the peer has sent something.
    pub fn end(&self) {
        self.0.store(0, Relaxed);
    }

    /// Counts a small piece that passes; returns the time until the body's next one may.
    pub fn pass(&self) -> Duration {
        let before = self.0.load(Relaxed);
        self.0.store(before.saturating_add(1), Relaxed);
        match before < UNHEARD_MAX {
            true => PAUSE,
            false => LONG_PAUSE,
        }
    }
}

/// A body that passes as it comes, or with its small pieces put together.
#[derive(Debug)]
pub struct Gathered<B: Body> {
    inner: B,
    small: Option<Box<Small<B::Error>>>,
}

/// Small pieces of a body that wait to pass.
#[derive(Debug)]
struct Small<E> {
    bytes: BytesMut,
    /// The frame, the error or the end that came after the small pieces.
    next: Option<Option<Result<Frame<Bytes>, E>>>,
    /// The wait until a small piece may pass again.
    pause: Option<Pin<Box<Sleep>>>,
    /// The connection's count of small pieces since its peer was heard, if it is known.
    unheard: Option<Arc<Unheard>>,
}

impl<B: Body> Gathered<B> {
    /// Wraps a body that passes as it comes.
    pub fn as_it_comes(inner: B) -> Self {
        Self { inner, small: None }
    }

    /// Puts small pieces together from now on. They pass more slowly while `unheard` counts
    /// many.
    pub fn gather(&mut self, unheard: Option<&Arc<Unheard>>) {
        self.small.get_or_insert_with(|| {
            Box::new(Small {
                bytes: BytesMut::new(),
                next: None,
                pause: None,
                unheard: None,
            })
        });
        if let Some(small) = &mut self.small {
            small.unheard = unheard.cloned();
        }
    }

    /// Returns the body that is wrapped.
    pub(crate) fn inner_mut(&mut self) -> &mut B {
        &mut self.inner
    }
}

impl<B: Body<Data = Bytes, Error: Unpin> + Unpin> Body for Gathered<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.get_mut();
        match &mut this.small {
            None => Pin::new(&mut this.inner).poll_frame(cx),
            Some(small) => small.poll(cx, &mut this.inner),
        }
    }

    fn is_end_stream(&self) -> bool {
        let Some(small) = &self.small else {
            return self.inner.is_end_stream();
        };
        let next_is_end = small.next.as_ref().map(Option::is_none);
        small.bytes.is_empty() && next_is_end.unwrap_or_else(|| self.inner.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let held = self.small.as_ref().map_or(0, |small| small.held_bytes());
        with_held(self.inner.size_hint(), held)
    }
}

impl<E> Small<E> {
    /// Returns how many bytes were read and not passed on.
    fn held_bytes(&self) -> u64 {
        let data = match &self.next {
            Some(Some(Ok(frame))) => frame.data_ref(),
            _ => None,
        };
        (self.bytes.len() + data.map_or(0, Bytes::len)) as u64
    }

    /// Returns the body's next frame, with small pieces put together.
    fn poll<B: Body<Data = Bytes, Error = E> + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        body: &mut B,
    ) -> Poll<Option<Result<Frame<Bytes>, E>>> {
        if let Some(next) = self.next.take() {
            return Poll::Ready(next);
        }
        while self.bytes.len() < LARGE_BYTES {
            let next = match Pin::new(&mut *body).poll_frame(cx) {
                Poll::Pending => return self.poll_pause(cx),
                Poll::Ready(next) => next,
            };
            match next {
                Some(Ok(frame)) if is_small(&frame) && !body.is_end_stream() => {
                    self.bytes.extend(frame.into_data().ok());
                }
                next if self.bytes.is_empty() => return Poll::Ready(next),
                next => {
                    self.next = Some(next);
                    break;
                }
            }
        }
        Poll::Ready(Some(Ok(self.pass())))
    }

    /// Passes the small pieces on after the pause, since the body has no more to read for now.
    fn poll_pause(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, E>>> {
        if self.bytes.is_empty() {
            return Poll::Pending;
        }
        if let Some(pause) = &mut self.pause {
            ready!(pause.as_mut().poll(cx));
        }
        let unheard = self.unheard.as_ref();
        let until = Instant::now() + unheard.map_or(PAUSE, |unheard| unheard.pass());
        match &mut self.pause {
            Some(pause) => pause.as_mut().reset(until),
            None => self.pause = Some(Box::pin(sleep_until(until))),
        }
        Poll::Ready(Some(Ok(self.pass())))
    }

    fn pass(&mut self) -> Frame<Bytes> {
        Frame::data(self.bytes.split().freeze())
    }
}

fn is_small(frame: &Frame<Bytes>) -> bool {
    let data = frame.data_ref();
    data.is_some_and(|data| data.len() < LARGE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderMap;
    use std::collections::VecDeque;
    use std::future::poll_fn;
    use tokio::time::sleep;

    /// A body whose pieces come each after some milliseconds; `None` is an error.
    struct Source {
        pieces: VecDeque<(u64, Option<Frame<Bytes>>)>,
        wait: Option<Pin<Box<Sleep>>>,
    }

    impl Body for Source {
        type Data = Bytes;
        type Error = &'static str;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
            let Some((after_ms, _)) = self.pieces.front() else {
                return Poll::Ready(None);
            };
            if *after_ms > 0 {
                let after = Duration::from_millis(*after_ms);
                let wait = self.wait.get_or_insert_with(|| Box::pin(sleep(after)));
                ready!(wait.as_mut().poll(cx));
                self.wait = None;
            }
            let piece = self.pieces.pop_front();
            Poll::Ready(piece.map(|(_, frame)| frame.ok_or("cut")))
        }

        fn is_end_stream(&self) -> bool {
            self.pieces.is_empty()
        }

        fn size_hint(&self) -> SizeHint {
            let frames = self.pieces.iter().filter_map(|(_, frame)| frame.as_ref());
            let data = frames.filter_map(Frame::data_ref);
            SizeHint::with_exact(data.map(|data| data.len() as u64).sum())
        }
    }

    fn data(length: usize) -> Option<Frame<Bytes>> {
        Some(Frame::data(vec![b'a'; length].into()))
    }

    /// Returns when each frame came out, in ms, and its length: none for trailers and errors.
    async fn gathered(
        pieces: impl IntoIterator<Item = (u64, Option<Frame<Bytes>>)>,
    ) -> Vec<(u64, Option<usize>)> {
        gathered_to(None, pieces).await
    }

    async fn gathered_to(
        unheard: Option<&Arc<Unheard>>,
        pieces: impl IntoIterator<Item = (u64, Option<Frame<Bytes>>)>,
    ) -> Vec<(u64, Option<usize>)> {
        let began = Instant::now();
        let mut body = Gathered::as_it_comes(Source {
            pieces: pieces.into_iter().collect(),
            wait: None,
        });
        body.gather(unheard);
        let mut left = body.size_hint().exact().unwrap();
        let mut passed = Vec::new();
        loop {
            let is_end = body.is_end_stream();
            let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await else {
                assert!(is_end, "the end was not announced");
                assert_eq!(left, 0);
                return passed;
            };
            assert!(!is_end, "there was more after the end");
            let length = frame.ok().and_then(|frame| frame.into_data().ok());
            let length = length.map(|data| data.len());
            left -= length.unwrap_or(0) as u64;
            assert_eq!(body.size_hint().exact(), Some(left));
            passed.push((began.elapsed().as_millis() as u64, length));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_now_and_then_is_not_held() {
        let pieces = [(0, data(3)), (10, data(1)), (6, data(1_023))];
        let expected = [(0, Some(3)), (10, Some(1)), (16, Some(1_023))];
        assert_eq!(gathered(pieces).await, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_at_once_passes_at_once() {
        let pieces = (0..300).map(|_| (0, data(7)));
        // 147 of them are the first that come to 1,024 bytes. The last is known
        // to be the last when it comes.
        let expected = [
            (0, Some(1_029)),
            (0, Some(1_029)),
            (0, Some(35)),
            (0, Some(7)),
        ];
        assert_eq!(gathered(pieces).await, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn byte_by_byte_passes_a_frame_every_five_milliseconds() {
        let passed = gathered((0..1_000).map(|_| (1, data(1)))).await;
        assert_eq!(passed[..3], [(1, Some(1)), (6, Some(5)), (11, Some(5))]);
        assert_eq!(passed.len(), 202);
        let bytes: usize = passed.iter().filter_map(|(_, bytes)| *bytes).sum();
        assert_eq!(bytes, 1_000);
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_has_said_nothing_gets_fewer() {
        let unheard = Arc::<Unheard>::default();
        let times = |passed: Vec<(u64, _)>| passed.into_iter().map(|(ms, _)| ms);
        let pieces = || (0..1_000).map(|_| (1, data(1)));
        let passed = times(gathered_to(Some(&unheard), pieces()).await);
        // Every fifth millisecond for as long as may be, and then now and then.
        let often = (0..=UNHEARD_MAX).map(|n| u64::from(5 * n + 1));
        let seldom = (1..=8).map(|n| u64::from(5 * UNHEARD_MAX + 1) + 100 * n);
        assert_eq!(
            passed.take(41).collect::<Vec<_>>(),
            often.chain(seldom).collect::<Vec<_>>()
        );
        // The next body, too, until something is heard.
        let two = || [(0, data(1)), (1, data(1)), (200, data(1))];
        let passed = times(gathered_to(Some(&unheard), two()).await);
        assert_eq!(passed.collect::<Vec<_>>(), [0, 100, 201]);
        unheard.end();
        let passed = times(gathered_to(Some(&unheard), two()).await);
        assert_eq!(passed.collect::<Vec<_>>(), [0, 5, 201]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_follows_small_pieces_keeps_its_place() {
        let pieces = [
            (0, data(9_000)),
            (0, data(1)),
            (0, data(2)),
            (0, data(9_000)),
            (1, data(3)),
            (1, Some(Frame::trailers(HeaderMap::new()))),
        ];
        let expected = [
            (0, Some(9_000)),
            (0, Some(3)),
            (0, Some(9_000)),
            (1, Some(3)),
            (2, None),
        ];
        assert_eq!(gathered(pieces).await, expected);
        // An error as well: what came before it is passed on.
        let pieces = [(0, data(1)), (1, data(2)), (1, None)];
        let expected = [(0, Some(1)), (2, Some(2)), (2, None)];
        assert_eq!(gathered(pieces).await, expected);
    }
}
