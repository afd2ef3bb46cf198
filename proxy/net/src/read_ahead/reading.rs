//! The part of a body that has been read, and not been asked for: in memory, then in a file.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use sprat_config::resolved::BufferFile;
use tokio::time::Instant;

use super::{Broken, HELD_UP_MAX};
use crate::begun::with_held;
use crate::buffer::{Batch, Buffers, Fallback, Scratch};
use crate::clock;
use crate::permit::Permit;
use crate::pieces;

/// A body that is read ahead, with the part of it that has not been asked for.
pub struct Reading<B: Body> {
    /// The body; `None` once the client has gone, or a part of it is lost.
    body: Option<B>,
    /// The next frames for the client, in memory.
    front: Queue,
    /// The frames that follow those, and the file that takes them, if there is one.
    spill: Option<Box<Spill>>,
    /// The most bytes in memory. One frame may be held whatever the bound, so that the body goes
    /// on.
    bound: usize,
    room: Permit,
    /// Bytes that have been read and not been asked for, in memory or in the file.
    held: u64,
    /// Bytes that have been read so far, in all.
    read: u64,
    /// Whether trailers came with the body: over HTTP/1.1 there is no place for them behind a
    /// body whose head says its length.
    has_trailers: bool,
    end: Option<End<B::Error>>,
    at_end: Option<Box<dyn FnOnce(ReadEnd)>>,
    /// The time since which there has been no room; none while there is.
    full_since: Option<Instant>,
    /// The time for which the sender was kept from sending, in all.
    held_up: Duration,
    /// The task that reads ahead, while it waits for room.
    reader: Option<Waker>,
    /// The task that serves the client, while it waits for a frame.
    client: Option<Waker>,
    /// The buffers that count early ends and fallbacks, if the route has any.
    buffers: Option<Arc<Buffers>>,
    /// Whether the body has been counted as one that fell back.
    has_fallen_back: bool,
}

/// The way in which the reading of a body has ended, as far as it tells of the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadEnd {
    /// All of the body has been read, which has this many bytes.
    Whole(u64),
    /// The sender has broken off the body.
    BrokenOff,
    /// The rest of the body does not come, for which the sender is not to blame: it was kept
    /// from sending for long, or what it sent is lost.
    Excused,
}

/// The way in which a body has ended.
enum End<E> {
    /// The body has failed with this error; `None` once the client has been told.
    Failed(Option<E>),
    /// A part of the body was in a file and is lost, with this error; `None` once the client has
    /// been told.
    Lost(Option<io::Error>),
    /// The body ended as it should.
    Over,
}

/// Frames in memory, oldest first.
#[derive(Default)]
struct Queue {
    /// The frames, each with whether its bytes are taken from the room. A frame for which there
    /// is no room is held all the same.
    frames: VecDeque<(Frame<Bytes>, bool)>,
    bytes: usize,
    uncounted: usize,
}

/// A file, and the frames that wait to be written to it.
struct Spill {
    scratch: Scratch,
    back: Queue,
    /// The bytes of the batch on its way to the file.
    writing: usize,
    /// Whether the file could not be written.
    has_failed: bool,
}

fn length(frame: &Frame<Bytes>) -> usize {
    frame.data_ref().map_or(0, Bytes::len)
}

impl Queue {
    fn push(&mut self, frame: Frame<Bytes>, is_counted: bool) {
        self.bytes += length(&frame);
        self.uncounted += usize::from(!is_counted);
        let before = match self.frames.back_mut() {
            Some((before, true)) if is_counted => before.data_mut(),
            _ => None,
        };
        let rest = match (frame.into_data(), before) {
            (Ok(data), Some(before)) => pieces::join(before, data).map(Frame::data),
            (Ok(data), None) => Some(Frame::data(data)),
            (Err(trailers), _) => Some(trailers),
        };
        self.frames.extend(rest.map(|frame| (frame, is_counted)));
    }

    fn pop(&mut self) -> Option<(Frame<Bytes>, bool)> {
        let (frame, is_counted) = self.frames.pop_front()?;
        self.bytes -= length(&frame);
        self.uncounted -= usize::from(!is_counted);
        Some((frame, is_counted))
    }

    fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }
}

impl Spill {
    fn is_empty(&self) -> bool {
        self.scratch.is_empty() && self.back.is_empty()
    }

    /// Takes the waiting data, up to the trailers, as a batch to be written.
    fn batch(&mut self, room: &mut Permit) -> Batch {
        let (mut data, mut counted) = (Vec::new(), 0);
        while (self.back.frames.front()).is_some_and(|(frame, _)| frame.is_data()) {
            let Some((frame, is_counted)) = self.back.pop() else {
                break;
            };
            counted += if is_counted { length(&frame) } else { 0 };
            data.extend(frame.into_data());
        }
        let share = room.split(counted);
        Batch { data, share }
    }

    /// Puts back the data of a batch that could not be written. Pieces beyond the batch's share
    /// of the room are held without room.
    fn put_back(&mut self, batch: Batch, room: &mut Permit) {
        let mut left = batch.share.amount();
        room.join(batch.share);
        let mut before = Queue::default();
        for data in batch.data {
            let is_counted = data.len() <= left;
            left -= if is_counted { data.len() } else { 0 };
            before.push(Frame::data(data), is_counted);
        }
        while let Some((frame, is_counted)) = self.back.pop() {
            before.push(frame, is_counted);
        }
        self.back = before;
    }
}

/// The next frame of a body, or the reason why there is none.
type NextFrame<E> = Result<Frame<Bytes>, Broken<E>>;

impl<B: Body> Reading<B> {
    pub(super) fn new(
        body: B,
        bound: usize,
        room: Permit,
        at_end: Box<dyn FnOnce(ReadEnd)>,
    ) -> Self {
        Self {
            body: Some(body),
            front: Queue::default(),
            spill: None,
            bound,
            room,
            held: 0,
            read: 0,
            has_trailers: false,
            end: None,
            at_end: Some(at_end),
            full_since: None,
            held_up: Duration::ZERO,
            reader: None,
            client: None,
            buffers: None,
            has_fallen_back: false,
        }
    }

    /// Lets `buffers` count early ends and fallbacks, and `file` take what memory does not.
    pub(super) fn counted_by(mut self, buffers: &Arc<Buffers>, file: Option<&BufferFile>) -> Self {
        self.buffers = Some(Arc::clone(buffers));
        self.spill = file.map(|rules| {
            Box::new(Spill {
                scratch: Scratch::new(buffers, rules),
                back: Queue::default(),
                writing: 0,
                has_failed: false,
            })
        });
        self
    }

    /// Notes that the client has gone: nothing more is read.
    pub(super) fn give_up(&mut self) {
        drop(self.body.take());
    }

    fn is_empty(&self) -> bool {
        self.front.is_empty() && self.spill.as_ref().is_none_or(|own| own.is_empty())
    }

    fn has_room(&self) -> bool {
        let spill = self.spill.as_ref();
        let (bytes, uncounted) = spill.map_or((0, 0), |own| {
            (own.back.bytes + own.writing, own.back.uncounted)
        });
        let is_over = self.front.uncounted + uncounted > 0;
        // A file takes one frame after the other, however large, and full memory is.
        let is_on_its_way =
            spill.is_some_and(|own| !own.has_failed && own.back.is_empty() && own.writing == 0);
        is_on_its_way
            || self.is_empty()
            || (!is_over && self.front.bytes + bytes < self.bound && self.room.has_room())
    }

    /// Counts that no more of the body is kept for now, once for each body.
    fn fall_back(&mut self, reason: Fallback) {
        if let (Some(buffers), false) = (&self.buffers, self.has_fallen_back) {
            self.has_fallen_back = true;
            buffers.falls_back(reason);
        }
    }

    /// Ends the body with an error, since a part of it is lost in the file, and the rest with
    /// it.
    fn lose(&mut self, error: io::Error) {
        self.body = None;
        self.spill = None;
        self.end = Some(End::Lost(Some(error)));
        self.wake_client();
    }

    fn wake_client(&mut self) {
        if let Some(client) = self.client.take() {
            client.wake();
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_empty()
            && matches!(
                self.end,
                Some(End::Over | End::Failed(None) | End::Lost(None))
            )
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        let rest = match (&self.end, &self.body) {
            (None, Some(body)) => body.size_hint(),
            (Some(End::Over), _) if !self.has_trailers => SizeHint::with_exact(0),
            // It may have been longer: what came of it is not its size, and a
            // response that is cut must not seem whole.
            _ => SizeHint::default(),
        };
        with_held(rest, self.held)
    }

    /// Keeps a frame that was read, in memory or for the file.
    fn keep(&mut self, frame: Frame<Bytes>) {
        let bytes = length(&frame);
        let is_counted = self.room.extend(bytes);
        self.held += bytes as u64;
        self.read += bytes as u64;
        self.has_trailers |= frame.is_trailers();
        let is_much = self.front.bytes >= self.bound / 2 || !is_counted;
        match &mut self.spill {
            Some(spill) if !spill.is_empty() || (is_much && !spill.has_failed) => {
                spill.back.push(frame, is_counted);
            }
            _ => self.front.push(frame, is_counted),
        }
    }

    /// Continues the writing to the file: takes back a batch that has arrived there, and starts
    /// the next where memory has no room.
    fn write(&mut self, cx: &mut Context<'_>) {
        loop {
            let has_room = self.has_room() || self.end.is_some();
            let Some(spill) = &mut self.spill else {
                return;
            };
            if spill.scratch.is_writing() {
                let Poll::Ready(written) = spill.scratch.poll_written(cx) else {
                    return;
                };
                spill.writing = 0;
                match written {
                    Ok(batch) => drop(batch),
                    Err(batch) => {
                        spill.has_failed = true;
                        match batch {
                            Some(batch) => spill.put_back(batch, &mut self.room),
                            None => {
                                self.lose(io::Error::other("no thread has written it"));
                                return;
                            }
                        }
                        self.fall_back(Fallback::Io);
                    }
                }
                self.wake_client();
                continue;
            }
            if has_room || spill.has_failed || spill.back.bytes == 0 {
                return;
            }
            spill.scratch.reuse();
            let batch = spill.batch(&mut self.room);
            let bytes = batch.bytes();
            match spill.scratch.write(batch) {
                Ok(()) => spill.writing = usize::try_from(bytes).unwrap_or(usize::MAX),
                Err((reason, batch)) => {
                    spill.put_back(batch, &mut self.room);
                    self.fall_back(reason);
                    return;
                }
            }
        }
    }
}

/// Reads as much as there is room for. Ready when nothing more will come, and all of it is in
/// its place in memory or in the file.
pub(super) fn poll<B: Body<Data = Bytes> + Unpin>(
    reading: &RefCell<Reading<B>>,
    cx: &mut Context<'_>,
) -> Poll<()> {
    let mut own = reading.borrow_mut();
    let polled = own.poll_read(cx);
    let end = match &own.end {
        None => return polled,
        Some(End::Over) => ReadEnd::Whole(own.read),
        // A sender that could not send for long may have had enough.
        Some(End::Failed(_)) if own.held_up <= HELD_UP_MAX => ReadEnd::BrokenOff,
        Some(End::Failed(_) | End::Lost(_)) => ReadEnd::Excused,
    };
    let at_end = own.at_end.take();
    let is_early = at_end.is_some() && own.held > 0 && matches!(end, ReadEnd::Whole(_));
    if let Some(buffers) = own.buffers.as_ref().filter(|_| is_early) {
        buffers.ends_early();
    }
    drop(own);
    if let Some(at_end) = at_end {
        at_end(end);
    }
    polled
}

impl<B: Body<Data = Bytes> + Unpin> Reading<B> {
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            self.write(cx);
            if self.end.is_some() {
                let writes = self.spill.as_ref().is_some_and(|own| own.writing > 0);
                return if writes {
                    Poll::Pending
                } else {
                    Poll::Ready(())
                };
            }
            if !self.has_room() {
                let has_file = self.spill.as_ref().is_some_and(|own| !own.has_failed);
                if !has_file {
                    self.fall_back(match self.front.bytes < self.bound {
                        true => Fallback::TotalMemory,
                        false => Fallback::Memory,
                    });
                }
                self.full_since.get_or_insert_with(clock::now);
                self.reader = Some(cx.waker().clone());
                return Poll::Pending;
            }
            if let Some(since) = self.full_since.take() {
                self.held_up += clock::now().saturating_duration_since(since);
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
                    self.keep(frame);
                    self.end = ends_with_it.then_some(End::Over);
                }
                Some(Err(error)) => self.end = Some(End::Failed(Some(error))),
                None => self.end = Some(End::Over),
            }
            self.wake_client();
        }
    }

    /// Returns the next frame for the client.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<NextFrame<B::Error>>> {
        loop {
            if let Some((frame, is_counted)) = self.front.pop() {
                let bytes = length(&frame);
                self.held -= bytes as u64;
                if is_counted {
                    self.room.shrink(bytes);
                }
                if self.has_room()
                    && let Some(reader) = self.reader.take()
                {
                    reader.wake();
                }
                return Poll::Ready(Some(Ok(frame)));
            }
            match &mut self.spill {
                Some(spill) if spill.scratch.unread() > 0 => {
                    match ready!(spill.scratch.poll_read(cx)) {
                        Ok(data) => {
                            let is_counted = self.room.extend(data.len());
                            self.front.push(Frame::data(data), is_counted);
                        }
                        Err(error) => self.lose(error),
                    }
                }
                Some(spill) if spill.writing == 0 && !spill.back.is_empty() => {
                    self.front = std::mem::take(&mut spill.back);
                }
                Some(spill) if spill.writing > 0 => {
                    self.client = Some(cx.waker().clone());
                    return Poll::Pending;
                }
                _ => break,
            }
        }
        match &mut self.end {
            Some(End::Failed(error)) => Poll::Ready(error.take().map(|own| Err(Broken::Body(own)))),
            Some(End::Lost(error)) => Poll::Ready(error.take().map(|own| Err(Broken::File(own)))),
            Some(End::Over) => Poll::Ready(None),
            None => {
                self.client = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}
