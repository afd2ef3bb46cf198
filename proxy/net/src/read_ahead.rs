//! A response's body that is read ahead of its client, as far as there is room: an
//! endpoint's place is held as long as the endpoint needs it, not as long as the
//! client does.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::task::AbortHandle;

use crate::begun::with_held;

/// A share in the room that all bodies of a cluster have.
pub struct Pool {
    used: Arc<AtomicUsize>,
    bound: usize,
    /// Bytes of `used` that are this body's.
    own: usize,
}

impl Pool {
    /// Returns a share of nothing so far in a pool of which `used` bytes are taken.
    pub fn of(used: &Arc<AtomicUsize>, bound: usize) -> Self {
        Self {
            used: Arc::clone(used),
            bound,
            own: 0,
        }
    }

    fn has_room(&self) -> bool {
        self.used.load(Relaxed) < self.bound
    }

    fn take(&mut self, bytes: usize) {
        self.used.fetch_add(bytes, Relaxed);
        self.own += bytes;
    }

    fn give_back(&mut self, bytes: usize) {
        self.used.fetch_sub(bytes, Relaxed);
        self.own -= bytes;
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.give_back(self.own);
    }
}

/// A body that comes as it is asked for, or is read ahead.
pub enum ReadAhead<B: Body> {
    /// As it is asked for.
    Direct(B),
    /// Ahead; by a task, where it was not there at once.
    Ahead(Rc<RefCell<Reading<B>>>, Option<AbortHandle>),
}

/// What has been read of a body, and not been asked for.
pub struct Reading<B: Body> {
    /// None once the client has gone.
    body: Option<B>,
    frames: VecDeque<Frame<Bytes>>,
    /// One frame may be held whatever the bounds, so that the body goes on.
    bound: usize,
    pool: Pool,
    /// Bytes that the body has had so far.
    read: u64,
    /// Trailers came with it: over HTTP/1.1 there is no place for them behind a body
    /// whose head says its length.
    has_trailers: bool,
    end: Option<End<B::Error>>,
    at_end: Option<Box<dyn FnOnce(u64)>>,
    /// Who reads ahead, while there is no room.
    reader: Option<Waker>,
    /// Who asks, while there is nothing.
    client: Option<Waker>,
}

/// How a body ended.
enum End<E> {
    /// With an error; none once the client has been told.
    Failed(Option<E>),
    /// As it should.
    Over,
}

impl<B: Body<Data = Bytes> + Unpin + 'static> ReadAhead<B> {
    /// Returns a body that comes as it is asked for.
    pub fn none(body: B) -> Self {
        Self::Direct(body)
    }

    /// Returns a body of which at most `bound` bytes are read ahead, and no more than
    /// the pool has room for. When all of it has been read, `at_end` is told its length.
    pub fn new(body: B, bound: usize, pool: Pool, at_end: impl FnOnce(u64) + 'static) -> Self {
        let reading = Rc::new(RefCell::new(Reading {
            body: Some(body),
            frames: VecDeque::new(),
            bound,
            pool,
            read: 0,
            has_trailers: false,
            end: None,
            at_end: Some(Box::new(at_end)),
            reader: None,
            client: None,
        }));
        // What is small is there already, and needs no task.
        let at_once = poll_reading(&reading, &mut Context::from_waker(Waker::noop()));
        let task = at_once.is_pending().then(|| {
            let reading = Rc::clone(&reading);
            let task = poll_fn(move |cx| poll_reading(&reading, cx));
            tokio::task::spawn_local(task).abort_handle()
        });
        Self::Ahead(reading, task)
    }
}

/// Reads as much as there is room for; ready when nothing more will come.
fn poll_reading<B: Body<Data = Bytes> + Unpin>(
    reading: &RefCell<Reading<B>>,
    cx: &mut Context<'_>,
) -> Poll<()> {
    let mut own = reading.borrow_mut();
    if own.poll_read(cx).is_pending() {
        return Poll::Pending;
    }
    let is_whole = matches!(own.end, Some(End::Over));
    let at_end = own.at_end.take().filter(|_| is_whole);
    let read = own.read;
    drop(own);
    if let Some(at_end) = at_end {
        at_end(read);
    }
    Poll::Ready(())
}

impl<B: Body<Data = Bytes> + Unpin> Reading<B> {
    fn has_room(&self) -> bool {
        self.frames.is_empty() || (self.pool.own < self.bound && self.pool.has_room())
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.end.is_none() {
            if !self.has_room() {
                self.reader = Some(cx.waker().clone());
                return Poll::Pending;
            }
            let Some(body) = &mut self.body else {
                return Poll::Ready(());
            };
            let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(cx) else {
                return Poll::Pending;
            };
            let ends_with_it = body.is_end_stream();
            match frame {
                Some(Ok(frame)) => {
                    let bytes = frame.data_ref().map_or(0, Bytes::len);
                    self.pool.take(bytes);
                    self.read += bytes as u64;
                    self.has_trailers |= frame.is_trailers();
                    self.frames.push_back(frame);
                    self.end = ends_with_it.then_some(End::Over);
                }
                Some(Err(error)) => self.end = Some(End::Failed(Some(error))),
                None => self.end = Some(End::Over),
            }
            if let Some(client) = self.client.take() {
                client.wake();
            }
        }
        Poll::Ready(())
    }

    /// The next frame for the client.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        if let Some(frame) = self.frames.pop_front() {
            self.pool.give_back(frame.data_ref().map_or(0, Bytes::len));
            if self.has_room()
                && let Some(reader) = self.reader.take()
            {
                reader.wake();
            }
            return Poll::Ready(Some(Ok(frame)));
        }
        match &mut self.end {
            Some(End::Failed(error)) => Poll::Ready(error.take().map(Err)),
            Some(End::Over) => Poll::Ready(None),
            None => {
                self.client = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for ReadAhead<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.get_mut() {
            Self::Direct(body) => Pin::new(body).poll_frame(cx),
            Self::Ahead(reading, _) => reading.borrow_mut().poll_next(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Direct(body) => body.is_end_stream(),
            Self::Ahead(reading, _) => {
                let own = reading.borrow();
                let ended = matches!(own.end, Some(End::Over | End::Failed(None)));
                own.frames.is_empty() && ended
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Direct(body) => body.size_hint(),
            Self::Ahead(reading, _) => {
                let own = reading.borrow();
                let rest = match (&own.end, &own.body) {
                    (None, Some(body)) => body.size_hint(),
                    (Some(End::Over), _) if !own.has_trailers => SizeHint::with_exact(0),
                    // It may have been longer: what came of it is not its size, and a
                    // response that is cut must not seem whole.
                    _ => SizeHint::default(),
                };
                with_held(rest, own.pool.own as u64)
            }
        }
    }
}

impl<B: Body> Drop for ReadAhead<B> {
    fn drop(&mut self) {
        if let Self::Ahead(reading, task) = self {
            // At once, for the task ends when its turn comes.
            drop(reading.borrow_mut().body.take());
            task.iter().for_each(AbortHandle::abort);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use http_body_util::{BodyExt as _, Full};
    use tokio::task::{LocalSet, yield_now};

    use super::*;

    /// A body of frames that come one for each turn of the runtime, if `slow`.
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
        used: &Arc<AtomicUsize>,
    ) -> (ReadAhead<Script>, Rc<Cell<Option<u64>>>) {
        let told = Rc::new(Cell::new(None));
        let at_end = {
            let told = Rc::clone(&told);
            move |bytes| told.set(Some(bytes))
        };
        let pool = Pool::of(used, 100);
        (ReadAhead::new(body, bound, pool, at_end), told)
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
            assert_eq!((told.get(), left.get()), (Some(30), 0));
            assert!(matches!(&body, ReadAhead::Ahead(_, None)));
            assert_eq!(body.size_hint().exact(), Some(30));
            assert_eq!(used.load(Relaxed), 30);
            assert_eq!(body.collect().await.unwrap().to_bytes().len(), 30);
            assert_eq!(used.load(Relaxed), 0);
        })
        .await;
    }

    #[tokio::test]
    async fn no_more_is_held_than_the_bounds_say_and_one_frame() {
        let run = LocalSet::new();
        run.run_until(async {
            let used = Arc::<AtomicUsize>::default();
            let (body, left) = Script::new(&[30; 10], true);
            let (mut first, told) = ahead(body, 64, &used);
            turns().await;
            // 30, 60 and 90: there is room below 64.
            assert_eq!((used.load(Relaxed), left.get()), (90, 7));
            // The pool has 10 left, and takes one frame more; then none has room
            // but for the one that keeps it going.
            let (body, other_left) = Script::new(&[30; 10], true);
            let (second, _) = ahead(body, 64, &used);
            turns().await;
            assert_eq!((used.load(Relaxed), other_left.get()), (120, 9));
            drop(second);
            assert_eq!(told.get(), None);
            let mut bytes = 0;
            while let Some(frame) = first.frame().await {
                bytes += frame.unwrap().data_ref().map_or(0, Bytes::len);
                turns().await;
            }
            assert_eq!((bytes, told.get()), (300, Some(300)));
            assert_eq!(used.load(Relaxed), 0);
        })
        .await;
    }

    #[tokio::test]
    async fn a_client_that_goes_leaves_nothing() {
        let run = LocalSet::new();
        run.run_until(async {
            let used = Arc::<AtomicUsize>::default();
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
            assert_eq!((used.load(Relaxed), told.get()), (0, None));
        })
        .await;
    }

    #[tokio::test]
    async fn a_failure_comes_after_what_was_read_before_it_and_ends_nothing_well() {
        let run = LocalSet::new();
        run.run_until(async {
            let used = Arc::<AtomicUsize>::default();
            let (mut body, _) = Script::new(&[10], true);
            body.frames.push_back(Err("broken"));
            let (mut body, told) = ahead(body, 64, &used);
            turns().await;
            // Nothing says its size: whoever wrote a length after it would make a whole
            // response of what is cut.
            let says_no_size = |body: &ReadAhead<Script>| body.size_hint().exact().is_none();
            assert!(!body.is_end_stream() && says_no_size(&body));
            assert!(body.frame().await.unwrap().is_ok());
            assert_eq!(body.frame().await.unwrap().unwrap_err(), "broken");
            assert!(body.frame().await.is_none());
            assert!(body.is_end_stream() && says_no_size(&body));
            assert_eq!(told.get(), None);
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
            let (mut body, told) = ahead(body, 64, &Arc::default());
            assert_eq!(told.get(), Some(10));
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
