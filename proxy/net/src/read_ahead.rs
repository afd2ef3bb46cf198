//! A response's body that is read ahead of its client, as far as there is room. The endpoint's
//! place is then held as long as the endpoint needs it, not as long as the client does.

mod reading;
#[cfg(test)]
mod spilled;

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use sprat_config::resolved::BufferedBody;
use tokio::task::AbortHandle;

pub use self::reading::{ReadEnd, Reading};
use crate::buffer::Buffers;
use crate::permit::Permit;

/// The longest time, in all, for which a response's sender may be kept from sending, and still be
/// judged by the end of its response. Servers give up on a client that takes nothing, or too
/// little, after seconds; what passes between two reads is far less.
pub const HELD_UP_MAX: Duration = Duration::from_secs(1);

/// The reason why the rest of a body does not come.
#[derive(Debug, thiserror::Error)]
pub enum Broken<E> {
    /// The sender's body failed or ended early.
    #[error(transparent)]
    Body(E),
    /// A part of the body was in a file that cannot be read.
    #[error("a buffered body cannot be read: {0}")]
    File(io::Error),
}

/// A body that comes as it is asked for, or is read ahead.
pub enum ReadAhead<B: Body> {
    /// The body is read as it is asked for.
    Direct(B),
    /// The body is read ahead; by a task, if it was not there at once.
    Ahead(Rc<RefCell<Reading<B>>>, Option<AbortHandle>),
}

impl<B: Body<Data = Bytes> + Unpin + 'static> ReadAhead<B> {
    /// Returns a body that comes as it is asked for.
    pub fn none(body: B) -> Self {
        Self::Direct(body)
    }

    /// Returns a body of which at most `bound` bytes are read ahead, and no more than `room`
    /// allows. When nothing more of it comes, `at_end` is told how it has ended.
    pub fn new(
        body: B,
        bound: usize,
        room: Permit,
        at_end: impl FnOnce(ReadEnd) + 'static,
    ) -> Self {
        Self::start(Reading::new(body, bound, room, Box::new(at_end)))
    }

    /// Returns a body that is read ahead into memory, and then into a file, as its route is
    /// configured. When nothing more of it comes, `at_end` is told how it has ended.
    pub fn buffered(
        body: B,
        rules: &BufferedBody,
        buffers: &Arc<Buffers>,
        at_end: impl FnOnce(ReadEnd) + 'static,
    ) -> Self {
        let (bound, room) = (rules.memory_bytes, buffers.memory());
        let reading = Reading::new(body, bound, room, Box::new(at_end));
        Self::start(reading.counted_by(buffers, rules.file.as_ref()))
    }

    fn start(reading: Reading<B>) -> Self {
        let reading = Rc::new(RefCell::new(reading));
        // What is small is there already, and needs no task.
        let at_once = reading::poll(&reading, &mut Context::from_waker(Waker::noop()));
        let task = at_once.is_pending().then(|| {
            let reading = Rc::clone(&reading);
            let task = poll_fn(move |cx| reading::poll(&reading, cx));
            tokio::task::spawn_local(task).abort_handle()
        });
        Self::Ahead(reading, task)
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for ReadAhead<B> {
    type Data = Bytes;
    type Error = Broken<B::Error>;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match self.get_mut() {
            Self::Direct(body) => {
                let frame = Pin::new(body).poll_frame(cx);
                frame.map(|frame| frame.map(|frame| frame.map_err(Broken::Body)))
            }
            Self::Ahead(reading, _) => reading.borrow_mut().poll_next(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Direct(body) => body.is_end_stream(),
            Self::Ahead(reading, _) => reading.borrow().is_over(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Direct(body) => body.size_hint(),
            Self::Ahead(reading, _) => reading.borrow().size_hint(),
        }
    }
}

impl<B: Body> Drop for ReadAhead<B> {
    fn drop(&mut self) {
        if let Self::Ahead(reading, task) = self {
            // At once, for the task ends when its turn comes.
            reading.borrow_mut().give_up();
            task.iter().for_each(AbortHandle::abort);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::VecDeque;

    use http_body_util::{BodyExt as _, Full};
    use tokio::task::{LocalSet, yield_now};
    use tokio::time::advance;

    use super::*;
    use crate::permit::Permits;

    /// A body of frames, which come one for each turn of the runtime if it is `slow`.
    struct Script {
        frames: VecDeque<Result<Frame<Bytes>, &'static str>>,
        slow: bool,
        asked: bool,
        left: Rc<Cell<usize>>,
    }

    impl Script {
        fn new(lengths: &[usize], slow: bool) -> (Self, Rc<Cell<usize>>) {
            let left = Rc::new(Cell::new(lengths.len()));
            let data = |length: &usize| Ok(Frame::data(vec![b'x'; *length].into()));
            let frames = lengths.iter().map(data);
            let own = Self {
                frames: frames.collect(),
                slow,
                asked: false,
                left: Rc::clone(&left),
            };
            (own, left)
        }
    }

    impl Body for Script {
        type Data = Bytes;
        type Error = &'static str;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
            if self.slow && !self.asked {
                self.asked = true;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            self.asked = false;
            let next = self.frames.pop_front();
            self.left.set(self.frames.len());
            Poll::Ready(next)
        }
    }

    fn ahead(
        body: Script,
        bound: usize,
        used: &Permits,
    ) -> (ReadAhead<Script>, Rc<Cell<Option<ReadEnd>>>) {
        let told = Rc::new(Cell::new(None));
        let at_end = {
            let told = Rc::clone(&told);
            move |end| told.set(Some(end))
        };
        (ReadAhead::new(body, bound, used.none(100), at_end), told)
    }

    async fn turns() {
        for _ in 0..50 {
            yield_now().await;
        }
    }

    #[tokio::test]
    async fn what_is_there_is_read_at_once_and_the_end_is_told_before_anyone_asks() {
        let run = LocalSet::new();
        run.run_until(async {
            let used = Arc::default();
            let (body, left) = Script::new(&[10, 20], false);
            let (body, told) = ahead(body, 64, &used);
            assert_eq!((told.get(), left.get()), (Some(ReadEnd::Whole(30)), 0));
            assert!(matches!(&body, ReadAhead::Ahead(_, None)));
            assert_eq!(body.size_hint().exact(), Some(30));
            assert_eq!(used.used(), 30);
            assert_eq!(body.collect().await.unwrap().to_bytes().len(), 30);
            assert_eq!(used.used(), 0);
        })
        .await;
    }

    #[tokio::test]
    async fn no_more_is_held_than_the_bounds_say_and_one_frame() {
        let run = LocalSet::new();
        run.run_until(async {
            let used = Permits::default();
            let (body, left) = Script::new(&[30; 10], true);
            let (mut first, told) = ahead(body, 64, &used);
            turns().await;
            // 30, 60 and 90: there is room below 64.
            assert_eq!((used.used(), left.get()), (90, 7));
            // There are 10 left, too few for a frame; there is room for the one
            // that keeps it going, which counts for nothing.
            let (body, other_left) = Script::new(&[30; 10], true);
            let (second, _) = ahead(body, 64, &used);
            turns().await;
            assert_eq!((used.used(), other_left.get()), (90, 9));
            drop(second);
            assert_eq!(told.get(), None);
            let mut bytes = 0;
            while let Some(frame) = first.frame().await {
                bytes += frame.unwrap().data_ref().map_or(0, Bytes::len);
                turns().await;
            }
            assert_eq!((bytes, told.get()), (300, Some(ReadEnd::Whole(300))));
            assert_eq!(used.used(), 0);
        })
        .await;
    }

    #[tokio::test]
    async fn a_client_that_goes_leaves_nothing() {
        let run = LocalSet::new();
        run.run_until(async {
            let used = Permits::default();
            let (body, _) = Script::new(&[30; 10], true);
            let (body, told) = ahead(body, 64, &used);
            turns().await;
            let alive = match &body {
                ReadAhead::Ahead(reading, Some(_)) => Rc::downgrade(reading),
                _ => panic!("it is read by a task"),
            };
            drop(body);
            turns().await;
            assert!(alive.upgrade().is_none());
            assert_eq!((used.used(), told.get()), (0, None));
        })
        .await;
    }

    #[tokio::test]
    async fn a_failure_comes_after_what_was_read_before_it_and_ends_nothing_well() {
        let run = LocalSet::new();
        run.run_until(async {
            let used = Permits::default();
            let (mut body, _) = Script::new(&[10], true);
            body.frames.push_back(Err("broken"));
            let (mut body, told) = ahead(body, 64, &used);
            turns().await;
            // Its place is not held for what the client has still to take.
            assert_eq!(told.get(), Some(ReadEnd::BrokenOff));
            // Nothing says its size: a proxy that wrote a length after it would make a whole
            // response of what is cut.
            let says_no_size = |body: &ReadAhead<Script>| body.size_hint().exact().is_none();
            assert!(!body.is_end_stream() && says_no_size(&body));
            assert!(body.frame().await.unwrap().is_ok());
            let error = body.frame().await.unwrap().unwrap_err();
            assert!(matches!(error, Broken::Body("broken")));
            assert!(body.frame().await.is_none());
            assert!(body.is_end_stream() && says_no_size(&body));
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_sender_that_breaks_off_is_judged_at_once_unless_it_was_held_up() {
        let run = LocalSet::new();
        run.run_until(async {
            let cases = [(10, ReadEnd::BrokenOff), (1500, ReadEnd::Excused)];
            for (wait_ms, end) in cases {
                let (mut body, _) = Script::new(&[30; 3], true);
                body.frames.push_back(Err("broken"));
                let (mut body, told) = ahead(body, 64, &Permits::default());
                turns().await;
                // It has no room to come to the error.
                assert_eq!(told.get(), None);
                advance(Duration::from_millis(wait_ms)).await;
                assert!(body.frame().await.unwrap().is_ok());
                turns().await;
                assert_eq!(told.get(), Some(end));
            }
        })
        .await;
    }

    #[tokio::test]
    async fn a_body_with_trailers_says_no_size() {
        let run = LocalSet::new();
        run.run_until(async {
            let (mut body, _) = Script::new(&[10], false);
            let trailers = http::HeaderMap::new();
            body.frames.push_back(Ok(Frame::trailers(trailers)));
            let (mut body, told) = ahead(body, 64, &Permits::default());
            assert_eq!(told.get(), Some(ReadEnd::Whole(10)));
            for _ in 0..2 {
                assert_eq!(body.size_hint().exact(), None);
                assert!(body.frame().await.unwrap().is_ok());
            }
            assert!(body.frame().await.is_none());
        })
        .await;
    }

    #[tokio::test]
    async fn without_it_a_body_comes_as_it_is() {
        let body = Full::new(Bytes::from_static(b"ab"));
        let body = ReadAhead::none(body);
        assert!(!body.is_end_stream());
        assert_eq!(body.collect().await.unwrap().to_bytes(), "ab");
    }
}
