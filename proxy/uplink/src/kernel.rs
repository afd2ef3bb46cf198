//! The engine `kernel`: responses go in the order of the kernel's queueing discipline, which
//! `SO_PRIORITY` tells (TOCS03 2.1, 2.2).
//!
//! A response's socket has the priority of the response's remaining size. It is set anew each
//! time that the size crosses a cutoff. Bytes without a known size keep the priority of an
//! unmarked packet, the highest: SYN-ACKs, acknowledgements, heads.

use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use socket2::SockRef;
use sprat_config::resolved::Qdisc;
use sprat_net::begun::with_held;
use sprat_net::sys::set_max_pacing_rate;
use sprat_scheduler::{Cutoffs, Size, SizeClasses};

use super::Course;
use super::flush::FlushGate;

/// The least `TCP_NOTSENT_LOWAT`, with which a write waits until the kernel has sent all that
/// was written before. A packet has the priority that its socket has when the packet is sent.
/// Bytes that are still unsent when the class changes would go in a class too high.
pub(crate) const MAX_UNSENT_BYTES: u32 = 1;

/// The most bytes of a frame, which the kernel holds for a connection beyond the order.
const FRAME_BYTES: usize = 16 << 10;

/// The multiple of the link's rate at which a connection may send: more than one, so that one
/// connection alone fills the link.
const PACING_GAIN: u64 = 2;

/// The priority of packets that are not marked.
const UNMARKED: u32 = 0;

/// The HTB class that unmarked packets take; those of size classes follow it.
pub const HTB_FAST_CLASS: u32 = 0x10;

/// The major number of the queueing discipline's handle.
pub const HANDLE: u32 = 1;

/// Returns the `SO_PRIORITY` of the first size class.
fn first_priority(qdisc: Qdisc) -> u32 {
    match qdisc {
        // Band 0 is for what is not marked.
        Qdisc::Prio => 1,
        Qdisc::Htb => (HANDLE << 16) + HTB_FAST_CLASS + 1,
    }
}

/// The assignment of priorities to responses, for all workers.
pub struct KernelLink {
    first: u32,
    /// The link's rate, if it is known.
    rate_bits_per_s: Option<u64>,
    classes: Mutex<SizeClasses>,
    complained: AtomicBool,
}

impl KernelLink {
    /// Creates a link with the priorities of `qdisc`, for classes that end at `cutoffs`.
    pub(crate) fn new(qdisc: Qdisc, cutoffs: &Cutoffs, rate_bits_per_s: Option<u64>) -> Arc<Self> {
        Arc::new(Self {
            rate_bits_per_s,
            first: first_priority(qdisc),
            classes: Mutex::new(SizeClasses::new(cutoffs)),
            complained: AtomicBool::new(false),
        })
    }

    /// Prepares a client's socket that has just been accepted.
    ///
    /// If TCP paces a connection at little more than the link's rate, the queueing discipline
    /// holds two of its segments, rather than its whole window. A change of class cannot reach
    /// those segments, and segments after it overtake them.
    pub(crate) fn accept(&self, socket: BorrowedFd<'_>) {
        let Some(rate) = self.rate_bits_per_s else {
            return;
        };
        if let Err(error) = set_max_pacing_rate(socket, PACING_GAIN * rate / 8) {
            tracing::debug!(%error, "an accepted socket does not take SO_MAX_PACING_RATE");
        }
    }

    fn lock(&self) -> MutexGuard<'_, SizeClasses> {
        self.classes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the priority of a response with `remaining` bytes, and how many of these are in
    /// its class.
    fn priority(&self, remaining: u64) -> (u32, u64) {
        let classes = self.lock();
        let class = classes.class(remaining);
        let below = match usize::from(class).checked_sub(1) {
            Some(lower) => classes.cutoffs().get(lower).copied().unwrap_or(0),
            None => 0,
        };
        (
            self.first + u32::from(class),
            remaining - below.min(remaining),
        )
    }

    fn observe(&self, bytes: u64) {
        self.lock().observe(bytes);
    }
}

/// A connection's priority: the one that its response wants, and the one that its socket has.
pub struct SocketMark {
    link: Arc<KernelLink>,
    wanted: std::cell::Cell<u32>,
    current: std::cell::Cell<u32>,
    gate: FlushGate,
}

impl SocketMark {
    /// Creates the mark of a connection that has just been accepted.
    pub(crate) fn new(link: &Arc<KernelLink>) -> Rc<Self> {
        Rc::new(Self {
            link: Arc::clone(link),
            wanted: UNMARKED.into(),
            current: UNMARKED.into(),
            gate: FlushGate::default(),
        })
    }

    /// Gives the socket, before a write, the priority that its bytes want.
    pub fn apply(&self, socket: BorrowedFd<'_>) {
        let wanted = self.wanted.get();
        if self.current.replace(wanted) == wanted {
            return;
        }
        if let Err(error) = SockRef::from(&socket).set_priority(wanted)
            && !self.link.complained.swap(true, Ordering::Relaxed)
        {
            tracing::error!(
                %error,
                priority = wanted,
                "SO_PRIORITY is refused: responses go out in one class. Priorities above 6 \
                 need CAP_NET_RAW: setcap cap_net_raw+ep, or AmbientCapabilities=CAP_NET_RAW"
            );
        }
    }

    /// Notes that the kernel has taken all that was offered.
    pub fn flushed(&self) {
        self.gate.flushed();
    }

    /// Marks the next bytes of a response with `remaining` bytes; returns how many of them may
    /// go before the rest is marked anew.
    pub(crate) fn next_class(&self, remaining: u64) -> usize {
        let (priority, bytes) = self.link.priority(remaining);
        self.wanted.set(priority);
        let in_class = usize::try_from(bytes.max(1)).unwrap_or(usize::MAX);
        in_class.min(FRAME_BYTES)
    }

    /// Notes that the next bytes have no known size.
    pub fn unmark(&self) {
        self.wanted.set(UNMARKED);
    }
}

/// A body whose bytes have the priority of its remaining size.
pub struct Marked<B, C> {
    inner: B,
    mark: Rc<SocketMark>,
    stream: C,
    size: Size,
    sent: u64,
    chunk: Bytes,
}

impl<B: Body<Data = Bytes> + Unpin, C: Course> Marked<B, C> {
    /// Creates the marked body of a response of `size` bytes on this connection.
    pub fn new(inner: B, stream: &C, mark: &Rc<SocketMark>, size: Size) -> Self {
        if let Size::Exact(bytes) = size {
            mark.link.observe(bytes);
        }
        let body = Self {
            inner,
            mark: Rc::clone(mark),
            stream: stream.clone(),
            size,
            sent: 0,
            chunk: Bytes::new(),
        };
        // The head goes with the body, unless it goes before the size is known.
        if size.bytes().is_some() {
            body.next_class();
        }
        body
    }

    /// Marks the next bytes of the body; returns how many of them may go with that priority.
    fn next_class(&self) -> usize {
        let remaining = match self.size.bytes() {
            Some(bytes) if self.sent < bytes => bytes - self.sent,
            // Unknown, or outgrown: by what it has got so far.
            _ => self.sent,
        };
        self.mark.next_class(remaining)
    }
}

impl<B: Body<Data = Bytes> + Unpin, C: Course + Unpin> Body for Marked<B, C> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.get_mut();
        ready!(this.mark.gate.poll_flushed(cx));
        if this.chunk.is_empty() {
            let Poll::Ready(frame) = Pin::new(&mut this.inner).poll_frame(cx) else {
                this.stream.upstream_silent();
                return Poll::Pending;
            };
            this.stream.upstream_sent();
            match frame.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => this.chunk = data,
                Some(Ok(Err(trailers))) => return Poll::Ready(Some(Ok(trailers))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
        let bytes = this.chunk.len().min(this.next_class());
        let data = this.chunk.split_to(bytes);
        this.sent += bytes as u64;
        this.mark.gate.frame_given();
        Poll::Ready(Some(Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        self.chunk.is_empty() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        with_held(self.inner.size_hint(), self.chunk.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_follow_the_papers_table() {
        let prio = KernelLink::new(Qdisc::Prio, &Cutoffs::paper(), None);
        // Remaining bytes: band, and bytes until the next.
        assert_eq!(prio.priority(100), (1, 100));
        assert_eq!(prio.priority(1024), (1, 1024));
        assert_eq!(prio.priority(1025), (2, 1));
        assert_eq!(prio.priority(60 << 10), (6, 10 << 10));
        let htb = KernelLink::new(Qdisc::Htb, &Cutoffs::two_class(), None);
        assert_eq!(htb.priority(1000).0, 0x1_0011);
        assert_eq!(htb.priority(2000).0, 0x1_0012);
    }
}
