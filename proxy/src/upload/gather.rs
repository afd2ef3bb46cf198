//! A body's small pieces, put together for a connection that others share.
//!
//! HTTP/2 servers count small DATA frames that wait to be read against a peer,
//! and end the connection, with all that is on it, when there are too many
//! (Rust's h2 after about a hundred, where the window is the protocol's own). A
//! client that sends byte by byte must not be able to do that to others.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::Frame;
use tokio::time::{Instant, Sleep, sleep_until};

/// Pieces of so many bytes pass as they are.
const LARGE_BYTES: usize = 1_024;

/// So long after a small piece the next one passes at the soonest.
const PAUSE: Duration = Duration::from_millis(5);

/// What a body gives when it is polled.
type Polled<E> = Poll<Option<Result<Frame<Bytes>, E>>>;

/// Small pieces that have not been passed on.
#[derive(Debug, Default)]
pub(super) struct Gather {
    bytes: BytesMut,
    /// What came after them: a frame, or the end.
    next: Option<Option<Frame<Bytes>>>,
    /// When a small piece may pass again.
    pause: Option<Pin<Box<Sleep>>>,
}

impl Gather {
    /// Bytes that were read and not passed on.
    pub(super) fn held_bytes(&self) -> usize {
        let next = self.next.as_ref().and_then(Option::as_ref);
        let next = next.and_then(Frame::data_ref);
        self.bytes.len() + next.map_or(0, Bytes::len)
    }

    /// Whether nothing is left of a body that `is_read` to its end, or not.
    pub(super) fn is_end(&self, is_read: bool) -> bool {
        self.bytes.is_empty() && self.next.as_ref().map_or(is_read, Option::is_none)
    }

    /// The next frame of a body that `poll_frame` reads.
    pub(super) fn poll<E>(
        &mut self,
        cx: &mut Context<'_>,
        mut poll_frame: impl FnMut(&mut Context<'_>) -> Polled<E>,
    ) -> Polled<E> {
        if let Some(next) = self.next.take() {
            return Poll::Ready(next.map(Ok));
        }
        while self.bytes.len() < LARGE_BYTES {
            let next = match poll_frame(cx) {
                Poll::Pending => return self.poll_pause(cx),
                Poll::Ready(next) => next.transpose(),
            };
            match next {
                Ok(Some(frame)) if is_small(&frame) => {
                    self.bytes.extend(frame.into_data().ok());
                }
                Ok(next) if !self.bytes.is_empty() => {
                    self.next = Some(next);
                    break;
                }
                next => return Poll::Ready(next.transpose()),
            }
        }
        Poll::Ready(Some(Ok(self.pass())))
    }

    /// There is nothing more to read for now.
    fn poll_pause<E>(&mut self, cx: &mut Context<'_>) -> Polled<E> {
        if self.bytes.is_empty() {
            return Poll::Pending;
        }
        if let Some(pause) = &mut self.pause {
            ready!(pause.as_mut().poll(cx));
        }
        let until = Instant::now() + PAUSE;
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
    use std::convert::Infallible;
    use std::future::poll_fn;
    use tokio::time::sleep;

    /// Pieces of a body, each after some milliseconds.
    struct Source {
        pieces: VecDeque<(u64, Frame<Bytes>)>,
        wait: Option<Pin<Box<Sleep>>>,
    }

    impl Source {
        fn new(pieces: impl IntoIterator<Item = (u64, Frame<Bytes>)>) -> Self {
            Self {
                pieces: pieces.into_iter().collect(),
                wait: None,
            }
        }

        fn poll(&mut self, cx: &mut Context<'_>) -> Polled<Infallible> {
            let Some((after_ms, _)) = self.pieces.front() else {
                return Poll::Ready(None);
            };
            if *after_ms > 0 {
                let after = Duration::from_millis(*after_ms);
                let wait = self.wait.get_or_insert_with(|| Box::pin(sleep(after)));
                ready!(wait.as_mut().poll(cx));
                self.wait = None;
            }
            Poll::Ready(self.pieces.pop_front().map(|(_, frame)| Ok(frame)))
        }
    }

    fn data(length: usize) -> Frame<Bytes> {
        Frame::data(vec![b'a'; length].into())
    }

    /// What comes out, and when: lengths, or none for trailers.
    async fn gathered(mut source: Source) -> Vec<(u64, Option<usize>)> {
        let began = Instant::now();
        let mut gather = Gather::default();
        let mut passed = Vec::new();
        while let Some(frame) = poll_fn(|cx| gather.poll(cx, |cx| source.poll(cx))).await {
            let frame = frame.unwrap();
            let at_ms = began.elapsed().as_millis() as u64;
            passed.push((at_ms, frame.data_ref().map(Bytes::len)));
        }
        assert!(gather.is_end(true));
        assert_eq!(gather.held_bytes(), 0);
        passed
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_now_and_then_is_not_held() {
        let source = Source::new([(0, data(3)), (10, data(1)), (6, data(1_023))]);
        let expected = [(0, Some(3)), (10, Some(1)), (16, Some(1_023))];
        assert_eq!(gathered(source).await, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_at_once_passes_at_once() {
        let source = Source::new((0..300).map(|_| (0, data(7))));
        // 147 of them are the first that come to 1,024 bytes.
        let expected = [(0, Some(1_029)), (0, Some(1_029)), (0, Some(42))];
        assert_eq!(gathered(source).await, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn byte_by_byte_passes_a_frame_every_five_milliseconds() {
        let source = Source::new((0..1_000).map(|_| (1, data(1))));
        let passed = gathered(source).await;
        assert_eq!(passed.len(), 201);
        assert_eq!(passed[..2], [(1, Some(1)), (6, Some(5))]);
        let bytes: usize = passed.iter().filter_map(|(_, bytes)| *bytes).sum();
        assert_eq!(bytes, 1_000);
    }

    #[tokio::test(start_paused = true)]
    async fn large_pieces_and_trailers_keep_their_place() {
        let source = Source::new([
            (0, data(9_000)),
            (0, data(1)),
            (0, data(2)),
            (0, data(9_000)),
            (1, data(3)),
            (1, Frame::trailers(HeaderMap::new())),
        ]);
        let expected = [
            (0, Some(9_000)),
            (0, Some(3)),
            (0, Some(9_000)),
            (1, Some(3)),
            (2, None),
        ];
        assert_eq!(gathered(source).await, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_piece_is_told_from_others() {
        let mut source = Source::new([(0, data(1)), (0, data(2_000))]);
        let mut gather = Gather::default();
        let mut ends = Vec::new();
        while poll_fn(|cx| gather.poll(cx, |cx| source.poll(cx)))
            .await
            .is_some()
        {
            let is_read = source.pieces.is_empty();
            ends.push((gather.held_bytes(), gather.is_end(is_read)));
        }
        assert_eq!(ends, [(2_000, false), (0, true)]);
    }
}
