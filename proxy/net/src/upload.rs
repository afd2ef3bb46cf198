//! A request's body on its way to the upstream.

mod copy;
mod discard;
mod gate;
mod kept;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use sprat_config::resolved::{HeadersWithUnderscores, MinRate, MinRateRules};
use sprat_scheduler::Time;
use sprat_scheduler::limits::Patience;
use tokio::time::Instant;

pub use self::copy::{Copied, CopyEnd};
use self::copy::{Copier, copy};
use self::discard::discard;
use self::gate::Gate;
pub use self::gate::GateOpener;
use self::kept::Kept;
use crate::begun::with_held;
use crate::error::Reason;
use crate::gather::{Gathered, Unheard};
use crate::headers::clean_trailers;

/// The time for which a buffer's file may be waited for before it is at fault for what fails
/// meanwhile. Each read and each write waits for a thread, however fast the disk is.
const FILE_LATE: Duration = Duration::from_secs(1);

/// The state of a request's body on its way, shared by the request's handler and the task that
/// sends the body upstream.
#[derive(Debug)]
pub struct Upload {
    /// The body as the client sends it.
    body: RefCell<Incoming>,
    /// Whether anything of the body has been read.
    is_read: Cell<bool>,
    /// The part that was taken from the client before the body was sent anywhere.
    kept: RefCell<Option<Box<Kept>>>,
    /// Whether the body's end was taken from the client.
    has_come: Cell<bool>,
    /// The number of the present turn at sending the body. Senders of earlier turns get nothing
    /// more.
    turn: Cell<u32>,
    /// The bytes that may still come; more are an error.
    budget: Cell<Option<u64>>,
    /// Whether the client may wait for a 100 before it sends anything.
    expects: bool,
    /// The way to send that 100; `None` once it was sent, or the body has begun to come.
    ask: RefCell<Option<Ask>>,
    progress: Cell<Progress>,
    failure: Cell<Option<Reason>>,
    /// The rate at which the client must send at least, if there is such a rule.
    rule: Option<LeastRate>,
    /// The treatment of names with underscores in trailers.
    underscores: HeadersWithUnderscores,
    /// The time that the client was waited for, and the bytes that came, in the present window.
    patience: Cell<Patience>,
    epoch: Instant,
    waits_for_progress: RefCell<Option<Waker>>,
    /// The task that sends the body, while it waits.
    sender: RefCell<Option<Waker>>,
    /// Whether the exchange is over, so that the rest is not wanted.
    over: Cell<bool>,
    /// The writing ends of the body's copies.
    copiers: RefCell<Vec<Copier>>,
}

/// The rate at which a client must send at least.
pub struct LeastRate {
    /// The rates with and without load.
    pub rules: MinRateRules,
    /// Whether other requests need this one's place.
    pub is_pressed: Box<dyn Fn() -> bool>,
}

/// A frame from the client, and whether it is the body's last.
type Next = (Frame<Bytes>, bool);

impl LeastRate {
    fn now(&self) -> &MinRate {
        self.rules.at((self.is_pressed)())
    }
}

impl fmt::Debug for LeastRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rules.fmt(f)
    }
}

/// A call that tells a client to send a request's body.
pub struct Ask(Box<dyn FnOnce()>);

impl Ask {
    /// Wraps a function that tells the client.
    pub fn new(ask: impl FnOnce() + 'static) -> Self {
        Self(Box::new(ask))
    }
}

impl fmt::Debug for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ask")
    }
}

/// The stage of a body on its way, and the time since which it has lasted.
#[derive(Clone, Copy, Debug)]
pub enum Progress {
    /// The client owes the next chunk.
    ClientOwes {
        /// The time since which the client has been waited for.
        since: Instant,
    },
    /// The file in which the body is buffered has not taken the last chunk yet, or does not give
    /// the next.
    FileOwes {
        /// The time since which the file has been waited for.
        since: Instant,
    },
    /// The upstream has not taken the last chunk yet.
    UpstreamOwes {
        /// The time since which the upstream has been waited for.
        since: Instant,
    },
    /// All of the body is with the upstream.
    Done {
        /// The time at which the last of the body was passed on.
        at: Instant,
    },
}

impl Progress {
    /// Returns whether the buffer's file has been waited for so long that it is at fault for what
    /// fails `now`, rather than the endpoint or the client.
    pub fn is_file_late(self, now: Instant) -> bool {
        match self {
            Self::FileOwes { since } => now.saturating_duration_since(since) >= FILE_LATE,
            Self::ClientOwes { .. } | Self::UpstreamOwes { .. } | Self::Done { .. } => false,
        }
    }
}

impl Upload {
    fn in_turn(self: &Rc<Self>) -> RequestBody {
        RequestBody::Streaming(Box::new(Gathered::as_it_comes(Streaming {
            upload: Rc::clone(self),
            turn: self.turn.get(),
            gate: None,
            unwanted: false,
        })))
    }

    /// Returns the body to be sent again, if nothing of it has been read yet, or all of it was
    /// kept.
    pub fn again(self: &Rc<Self>) -> Option<RequestBody> {
        let is_there = !self.is_read.get() || self.is_repeatable();
        if !is_there || self.failure.get().is_some() || self.over.get() {
            return None;
        }
        if let Some(kept) = &mut *self.kept.borrow_mut() {
            kept.rewind();
        }
        self.turn.set(self.turn.get() + 1);
        let since = Instant::now();
        self.progress.set(Progress::UpstreamOwes { since });
        Some(self.in_turn())
    }

    /// Reads and drops as much of the body as has come, since no endpoint wants it. Returns
    /// whether that was the rest, so that another request can follow.
    pub async fn discard(self: &Rc<Self>) -> bool {
        if self.has_come() {
            return true;
        }
        let is_awaited = self.expects && !self.is_read.get();
        if is_awaited || self.failure.get().is_some() || self.over.get() {
            return false;
        }
        self.turn.set(self.turn.get() + 1);
        discard(self.in_turn()).await
    }

    /// Sets how a client that waits for a 100 is asked. That happens once the body is wanted and
    /// does not come by itself.
    pub fn ask_with(&self, ask: Ask) {
        if self.expects {
            *self.ask.borrow_mut() = Some(ask);
        }
    }

    /// Returns a copy of the body, which gets all that comes from now on.
    pub fn copied(&self) -> RequestBody {
        let (copier, copied) = copy();
        self.copiers.borrow_mut().push(copier);
        RequestBody::Copied(copied)
    }

    /// Returns how far the body has got.
    pub fn progress(&self) -> Progress {
        self.progress.get()
    }

    /// Notes that an endpoint's connection gets the request now. The upstream's delay counts
    /// from here: before, the request may have waited for its place for any time.
    pub fn hand_over(&self) {
        if let Progress::UpstreamOwes { .. } = self.progress.get() {
            let since = Instant::now();
            self.progress.set(Progress::UpstreamOwes { since });
        }
    }

    /// Returns whether all of the body is with the upstream.
    pub fn is_done(&self) -> bool {
        matches!(self.progress.get(), Progress::Done { .. })
    }

    fn time(&self, at: Instant) -> Time {
        Time::ZERO + at.saturating_duration_since(self.epoch)
    }

    /// Returns when to look next at a client that is waited for; a time that has passed if it has
    /// been too slow.
    pub fn judged_at(&self, now: Instant) -> Option<Instant> {
        let rule = self.rule.as_ref()?;
        let (now, pressed) = (self.time(now), (rule.is_pressed)());
        let mut patience = self.patience.get();
        // Begins the next window of a client that was fast enough.
        patience.is_too_slow(now, rule.rules.at(pressed));
        self.patience.set(patience);
        let look = rule.rules.next_look(&patience, now, pressed)?;
        Some(self.epoch + look.since(Time::ZERO))
    }

    /// Notes that the client is waited for from now on.
    fn wait(&self, now: Instant) {
        let mut patience = self.patience.get();
        patience.wait(self.time(now));
        self.patience.set(patience);
    }

    /// Notes that the buffer's file is waited for, from now on if it was not before.
    fn await_file(&self) {
        if !matches!(self.progress.get(), Progress::FileOwes { .. }) {
            let since = Instant::now();
            self.progress.set(Progress::FileOwes { since });
        }
    }

    /// Returns whether the bytes so far, with these, were too few for the time that they took.
    fn is_too_slow(&self, now: Instant, bytes: usize) -> bool {
        let Some(rule) = &self.rule else { return false };
        let mut patience = self.patience.get();
        patience.resume(self.time(now));
        patience.moved(bytes as u64);
        // Before, nothing is judged, and whether other requests need places is not asked.
        let is_due = patience.waited(self.time(now)) >= rule.rules.under_load.window;
        let slow = is_due && patience.is_too_slow(self.time(now), rule.now());
        self.patience.set(patience);
        slow
    }

    /// Wakes a task once all of the body is with the upstream, or the client is waited for.
    pub fn tell_of_progress(&self, waker: &Waker) {
        let mut waiting = self.waits_for_progress.borrow_mut();
        if !waiting.as_ref().is_some_and(|known| known.will_wake(waker)) {
            *waiting = Some(waker.clone());
        }
    }

    /// Ends the exchange: the rest of the body is not sent, and the upstream's connection ends.
    pub fn end(&self) {
        self.over.set(true);
        self.copiers.take();
        self.kept.take();
        if let Some(waker) = self.sender.take() {
            waker.wake();
        }
    }

    fn park(&self, waker: &Waker) {
        let mut sender = self.sender.borrow_mut();
        if !sender.as_ref().is_some_and(|known| known.will_wake(waker)) {
            *sender = Some(waker.clone());
        }
    }

    /// Returns the next frame that the client sends, and whether it is the last.
    fn poll_client(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Next, UploadError>>> {
        let mut body = self.body.borrow_mut();
        let mut frame = match Pin::new(&mut *body).poll_frame(cx) {
            Poll::Pending => {
                if let Some(ask) = self.ask.take() {
                    (ask.0)();
                }
                if !matches!(self.progress.get(), Progress::ClientOwes { .. }) {
                    let since = Instant::now();
                    self.progress.set(Progress::ClientOwes { since });
                    self.wait(since);
                    // The request's handler is to look at the client in time.
                    if let Some(waker) = self.waits_for_progress.take() {
                        waker.wake();
                    }
                }
                return Poll::Pending;
            }
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Ready(Some(Err(_))) => {
                return Poll::Ready(Some(Err(self.fail(Reason::TruncatedBody))));
            }
            Poll::Ready(Some(Ok(frame))) => frame,
        };
        if let Some(trailers) = frame.trailers_mut() {
            clean_trailers(trailers, self.underscores);
        }
        self.is_read.set(true);
        self.ask.take();
        if let (Some(budget), Some(data)) = (self.budget.get(), frame.data_ref()) {
            match budget.checked_sub(data.len() as u64) {
                Some(left) => self.budget.set(Some(left)),
                None => return Poll::Ready(Some(Err(self.fail(Reason::BodyTooLarge)))),
            }
        }
        if let Some(data) = frame.data_ref() {
            let mut copiers = self.copiers.borrow_mut();
            copiers.retain(|copier| copier.add(data));
        }
        let since = Instant::now();
        let bytes = frame.data_ref().map_or(0, Bytes::len);
        let slow = self.is_too_slow(since, bytes);
        // Nothing comes after trailers, and the library does not ask.
        let is_last = body.is_end_stream() || frame.is_trailers();
        if slow && !is_last {
            return Poll::Ready(Some(Err(self.fail(Reason::BodyTooSlow))));
        }
        if !is_last {
            self.progress.set(Progress::UpstreamOwes { since });
        }
        Poll::Ready(Some(Ok((frame, is_last))))
    }

    /// Marks the body's copies as whole.
    fn copies_end(&self) {
        let copiers = self.copiers.take().into_iter();
        copiers.for_each(Copier::finish);
    }

    fn fail(&self, reason: Reason) -> UploadError {
        self.copiers.take();
        self.failure.set(Some(reason));
        UploadError(reason)
    }

    /// Returns the reason why the body failed, if it did.
    pub fn failure(&self) -> Option<Reason> {
        self.failure.get()
    }
}

/// The body of a request to an upstream.
#[derive(Debug)]
pub enum RequestBody {
    /// There is no body.
    Empty,
    /// The body is passed on as the client sends it.
    Streaming(Box<Gathered<Streaming>>),
    /// A copy of another request's body.
    Copied(Copied),
}

/// A body that is passed on as it comes.
#[derive(Debug)]
pub struct Streaming {
    upload: Rc<Upload>,
    /// The turn that this body is sent in, a number of [`Upload::turn`].
    turn: u32,
    gate: Option<Gate>,
    /// Whether the upstream has answered without asking for the body.
    unwanted: bool,
}

impl RequestBody {
    /// Returns a body of at most `max_bytes`, and its state. The client must send it no slower
    /// than `rule` says. `expects` says whether the client waits for a 100.
    pub fn streaming(
        body: Incoming,
        expects: bool,
        max_bytes: Option<u64>,
        rule: Option<LeastRate>,
        underscores: HeadersWithUnderscores,
    ) -> (Self, Rc<Upload>) {
        let now = Instant::now();
        let upload = Rc::new(Upload {
            body: RefCell::new(body),
            is_read: Cell::new(false),
            kept: RefCell::default(),
            has_come: Cell::new(false),
            turn: Cell::new(0),
            budget: Cell::new(max_bytes),
            expects,
            ask: RefCell::new(None),
            progress: Cell::new(Progress::UpstreamOwes { since: now }),
            failure: Cell::new(None),
            rule,
            underscores,
            patience: Cell::default(),
            epoch: now,
            waits_for_progress: RefCell::new(None),
            sender: RefCell::new(None),
            over: Cell::new(false),
            copiers: RefCell::default(),
        });
        (upload.in_turn(), upload)
    }

    /// Holds the body back until the returned opener is used, or the gate's bound passes.
    pub fn hold(&mut self) -> Option<GateOpener> {
        let Self::Streaming(streaming) = self else {
            return None;
        };
        let (gate, opener) = Gate::new();
        streaming.inner_mut().gate = Some(gate);
        Some(opener)
    }

    /// Returns the end of the body that this is a copy of, if it is one; `None` from the second
    /// call on, for one task waits for it.
    pub fn copy_end(&mut self) -> Option<CopyEnd> {
        match self {
            Self::Copied(copied) => copied.take_end(),
            Self::Empty | Self::Streaming(_) => None,
        }
    }

    /// Puts small pieces of the body together, since other requests share the upstream's
    /// connection.
    pub fn gather(&mut self, unheard: &Arc<Unheard>) {
        if let Self::Streaming(streaming) = self {
            streaming.gather(Some(unheard));
        }
    }
}

impl Streaming {
    fn poll_wanted(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UploadError>>> {
        if let Some(gate) = &mut self.gate {
            self.unwanted = !ready!(gate.poll_wanted(cx));
            self.gate = None;
        }
        if self.unwanted {
            return Poll::Pending;
        }
        let mut kept = self.upload.kept.borrow_mut();
        if let Some(own) = &mut *kept {
            let Poll::Ready(kept_frame) = own.poll_frame(cx) else {
                self.upload.await_file();
                return Poll::Pending;
            };
            match kept_frame {
                Some(Ok(frame)) => {
                    match own.is_whole() && own.is_drained() {
                        true => self.done(),
                        // It has taken all before.
                        false => {
                            let since = Instant::now();
                            self.upload.progress.set(Progress::UpstreamOwes { since });
                        }
                    }
                    return Poll::Ready(Some(Ok(frame)));
                }
                Some(Err(reason)) => return self.fail(reason),
                None if own.is_whole() => {
                    self.done();
                    return Poll::Ready(None);
                }
                // The rest comes from the client.
                None => *kept = None,
            }
        }
        drop(kept);
        match ready!(self.upload.poll_client(cx)) {
            None => {
                self.done();
                Poll::Ready(None)
            }
            Some(Err(error)) => Poll::Ready(Some(Err(error))),
            Some(Ok((frame, is_last))) => {
                if is_last {
                    self.done();
                }
                Poll::Ready(Some(Ok(frame)))
            }
        }
    }

    /// Notes that the body has come to its end, and is with the upstream.
    fn done(&self) {
        self.upload.has_come.set(true);
        self.passed();
    }

    /// Returns whether no byte of the body is left to send. Trailers have no place behind a
    /// length, so hyper does not ask for them there.
    fn has_nothing_left(&self) -> bool {
        let is_over = || self.upload.body.borrow().size_hint().exact() == Some(0);
        match &*self.upload.kept.borrow() {
            Some(kept) => kept.left() == 0 && (kept.is_whole() || is_over()),
            None => is_over(),
        }
    }

    /// Notes that all of the body is with the upstream.
    fn passed(&self) {
        if !self.upload.is_done() {
            self.upload.copies_end();
            let at = Instant::now();
            self.upload.progress.set(Progress::Done { at });
            if let Some(waker) = self.upload.waits_for_progress.take() {
                waker.wake();
            }
        }
    }

    fn fail(&self, reason: Reason) -> Poll<Option<Result<Frame<Bytes>, UploadError>>> {
        Poll::Ready(Some(Err(self.upload.fail(reason))))
    }
}

impl Drop for Streaming {
    /// Notes that all of the body is with the upstream if nothing of its length is left. Over
    /// HTTP/1.1 hyper asks for no more then: not for the end, which an HTTP/2 client may tell in
    /// a frame of its own.
    fn drop(&mut self) {
        let upload = &self.upload;
        let is_in_turn = self.turn == upload.turn.get() && !upload.over.get();
        // While the client owes the end, the upstream is waiting for it.
        let is_owed = matches!(upload.progress(), Progress::UpstreamOwes { .. });
        if is_in_turn && is_owed && upload.failure().is_none() && self.has_nothing_left() {
            self.passed();
        }
    }
}

/// The error of a body that could not be passed on.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.facts().detail)]
pub struct UploadError(Reason);

impl Body for Streaming {
    type Data = Bytes;
    type Error = UploadError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UploadError>>> {
        let this = self.get_mut();
        if this.turn != this.upload.turn.get() {
            // No failure of the body's: a later turn sends it.
            return Poll::Ready(Some(Err(UploadError(Reason::TruncatedBody))));
        }
        if this.upload.over.get() {
            return this.fail(Reason::TruncatedBody);
        }
        let polled = this.poll_wanted(cx);
        if polled.is_pending() {
            this.upload.park(cx.waker());
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        let kept = self.upload.kept.borrow();
        let is_drained = kept.as_ref().is_none_or(|own| own.is_drained());
        is_drained && self.upload.body.borrow().is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.upload.body.borrow().size_hint();
        match &*self.upload.kept.borrow() {
            Some(kept) if kept.has_trailers() => SizeHint::default(),
            Some(kept) if kept.is_whole() => SizeHint::with_exact(kept.left()),
            Some(kept) => with_held(rest, kept.left()),
            None => rest,
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = UploadError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, UploadError>>> {
        match self.get_mut() {
            Self::Empty => Poll::Ready(None),
            Self::Streaming(streaming) => Pin::new(&mut **streaming).poll_frame(cx),
            Self::Copied(copied) => copied.poll_chunk(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Streaming(streaming) => streaming.is_end_stream(),
            Self::Copied(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Streaming(streaming) => streaming.size_hint(),
            Self::Copied(_) => SizeHint::default(),
        }
    }
}
