//! Code points on clients' sockets, which tell routers which packets are IN and which are OUT
//! (SFD02).
//!
//! A packet has the code point that its socket has when the packet leaves. So a connection's
//! next mark waits until all bytes of the mark before are in the socket ([`WireMark`]), but for
//! what the windows of streams keep from it: those bytes bring their mark along when they go. (What
//! the library of HTTP/2 puts together goes with the last chunk's.) The socket's code point waits
//! until all that the socket holds was sent (`poll_mark` of the socket).

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use socket2::SockRef;
use sprat_config::resolved::Marking;
use sprat_scheduler::marking::{FlowMarks, Variant};
use sprat_scheduler::{Mark, Time, WireCost};
use tokio::net::TcpStream;
use tokio::time::Instant;

use sprat_net::sys;

/// The most bytes of a write of a response beyond the threshold, if some of these are promoted:
/// what is a packet to a router is a write here.
const PACKET_BYTES: u64 = 16 << 10;

/// The least value that `TCP_NOTSENT_LOWAT` takes: a socket is writable once all was sent.
const NOTHING_UNSENT: u32 = 1;

/// The number of the next response.
static NEXT_RESPONSE: AtomicU64 = AtomicU64::new(0);

/// Whether the log was told that a socket refuses a code point.
static HAS_COMPLAINED: AtomicBool = AtomicBool::new(false);

/// A mark and its code point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodedMark {
    mark: Mark,
    code_point: u8,
}

/// A connection's mark: what its next bytes want, and what its socket has.
#[derive(Default)]
pub struct WireMark {
    /// The mark and code point of the next bytes; `None` if they want none.
    wanted: Cell<Option<CodedMark>>,
    current: Cell<Option<CodedMark>>,
    /// The traffic class that the socket had before it was marked.
    unmarked: Cell<Option<u32>>,
    /// The socket's `TCP_NOTSENT_LOWAT`, while it is lowered.
    lowered: Cell<Option<u32>>,
    /// The chunks given over HTTP/2 that the socket does not have.
    chunks: Cell<usize>,
    /// Whether the socket may get some of those chunks by itself. If not, the windows of their
    /// streams keep what is left of them, for as long as the client likes.
    is_due: Cell<bool>,
    /// Whether a head or a frame was given over HTTP/1.1 that the socket may not have.
    has_frame: Cell<bool>,
    /// Whether a head was given over HTTP/2 that the socket may not have. It holds up no other
    /// stream, for the connection never hears of a head that was given up.
    has_head: Cell<bool>,
    /// The number of responses that are on their way.
    responses: Cell<usize>,
    /// The tasks that wait until another mark may be given.
    waiting: RefCell<Vec<Waker>>,
}

impl WireMark {
    /// Waits until bytes of this mark may be given; they are the next bytes then.
    fn poll_turn(&self, cx: &Context<'_>, point: CodedMark) -> Poll<()> {
        let mut waiting = self.waiting.borrow_mut();
        let joins = self.wanted.get() == Some(point) && waiting.is_empty();
        if joins || self.is_clear() {
            self.wanted.set(Some(point));
            return Poll::Ready(());
        }
        if !waiting.iter().any(|other| other.will_wake(cx.waker())) {
            waiting.push(cx.waker().clone());
        }
        Poll::Pending
    }

    fn is_clear(&self) -> bool {
        let holds_up = self.chunks.get() > 0 && self.is_due.get();
        !holds_up && !self.has_frame.get()
    }

    /// Wakes the tasks that wait for another mark, once the socket has all that it can get.
    /// Ends the marks with the last response.
    fn look(&self) {
        if !self.is_clear() {
            return;
        }
        if self.responses.get() == 0 && !self.has_head.get() {
            self.wanted.set(None);
        }
        let waiting = std::mem::take(&mut *self.waiting.borrow_mut());
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Notes that the socket has taken all that was offered.
    pub fn flushed(&self) {
        self.has_frame.set(false);
        self.has_head.set(false);
        self.is_due.set(false);
        self.look();
    }

    /// Notes that a stream of HTTP/2 has given a chunk; returns the mark of its bytes.
    pub fn chunk_given(&self) -> Option<CodedMark> {
        self.chunks.set(self.chunks.get() + 1);
        self.is_due.set(true);
        self.wanted.get()
    }

    /// Notes that bytes of a chunk that was given with this mark are the next for the socket.
    /// The window of their stream may have kept them while others had their turns. If the library
    /// puts several small ones together, they have the mark of the last.
    pub fn chunk_offered(&self, mark: Option<CodedMark>) {
        self.wanted.set(mark);
        self.is_due.set(true);
    }

    /// Notes that a chunk is in the socket, or will never be; `whole` says which.
    pub fn chunk_gone(&self, whole: bool) {
        // Marks may have begun after it was given.
        self.chunks.set(self.chunks.get().saturating_sub(1));
        if !whole {
            // No write may follow. What else is due sets its mark when it is offered.
            self.is_due.set(false);
        }
        self.look();
    }

    /// Returns whether the socket's mark is another than its next bytes want.
    pub fn is_stale(&self) -> bool {
        self.wanted.get() != self.current.get()
    }

    /// Returns whether the socket's mark is to be taken off, and no other set.
    pub fn is_over(&self) -> bool {
        self.wanted.get().is_none() && self.current.get().is_some()
    }

    /// Returns the mark of the bytes that are written now.
    pub fn current(&self) -> Option<Mark> {
        self.current.get().map(|point| point.mark)
    }

    /// Checks that all that was written has been sent. If not, the socket becomes writable as
    /// soon as it has.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if there is something to be sent; else what the kernel says.
    pub fn all_sent(&self, stream: &TcpStream) -> io::Result<()> {
        if sys::unsent(stream)? == 0 {
            return Ok(());
        }
        let socket = SockRef::from(stream);
        if self.lowered.get().is_none() {
            self.lowered.set(Some(socket.tcp_notsent_lowat()?));
            socket.set_tcp_notsent_lowat(NOTHING_UNSENT)?;
        }
        match sys::is_writable(stream)? {
            true => Ok(()),
            false => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Gives the socket, which has sent all that it held, the code point that its next
    /// bytes want.
    pub fn apply(&self, stream: &TcpStream) {
        let wanted = self.wanted.get();
        self.current.set(wanted);
        let socket = SockRef::from(stream);
        let applied = self.set_code_point(&socket, is_ipv4(stream), wanted);
        // A Unix socket has no packets, and no such address.
        if let Err(error) = applied
            && stream.peer_addr().is_ok()
            && !HAS_COMPLAINED.swap(true, Relaxed)
        {
            tracing::warn!(%error, "a client's socket takes no code point");
        }
        if let Some(lowat) = self.lowered.take()
            && let Err(error) = SockRef::from(stream).set_tcp_notsent_lowat(lowat)
        {
            tracing::debug!(%error, "a socket does not take TCP_NOTSENT_LOWAT");
        }
    }

    /// Sets a socket's code point, or takes it off. The kernel keeps the two bits of ECN, which
    /// are TCP's own (RFC 3168). With the type of service the kernel also sets the socket's
    /// priority, by a table that is older than code points: for it `af13` is more urgent than
    /// `af11`. The priority is therefore set back. Otherwise the host's own queue would let OUT
    /// overtake IN, and an order by `SO_PRIORITY` would be lost.
    fn set_code_point(
        &self,
        socket: &SockRef<'_>,
        is_ipv4: bool,
        wanted: Option<CodedMark>,
    ) -> io::Result<()> {
        let before = match self.unmarked.get() {
            Some(before) => before,
            None if is_ipv4 => socket.tos_v4()?,
            None => socket.tclass_v6()?,
        };
        self.unmarked.set(Some(before));
        let class = wanted.map_or(before, |point| u32::from(point.code_point) << 2);
        if !is_ipv4 {
            return socket.set_tclass_v6(class);
        }
        let priority = socket.priority()?;
        socket.set_tos_v4(class)?;
        socket.set_priority(priority)
    }
}

/// Returns whether a socket's packets are of IPv4, as for some clients of `[::]`.
fn is_ipv4(stream: &TcpStream) -> bool {
    let address = stream.peer_addr();
    address.is_ok_and(|address| address.ip().to_canonical().is_ipv4())
}

/// The marks of the bytes of a response or a tunnel.
pub struct WireMarks {
    wire: Rc<WireMark>,
    marking: Marking,
    began: Instant,
    /// The response's number and its marks, if they are given here. Under the uplink's
    /// scheduler, grants bear the marks.
    own: Option<(u64, FlowMarks)>,
}

impl WireMarks {
    /// Returns the marks of a response or a tunnel. If `is_granted`, its grants bear them; if
    /// not, they are given here, after `head` bytes of its own.
    pub fn new(wire: &Rc<WireMark>, marking: Marking, is_granted: bool, head: u64) -> Self {
        wire.responses.set(wire.responses.get() + 1);
        let mut own = FlowMarks::default();
        own.count(head);
        Self {
            wire: Rc::clone(wire),
            marking,
            began: Instant::now(),
            own: (!is_granted).then(|| (NEXT_RESPONSE.fetch_add(1, Relaxed), own)),
        }
    }

    /// Waits until a head of this mark may be given.
    pub async fn begin(&self, mark: Mark, is_http2: bool) {
        let point = self.point(mark);
        poll_fn(|cx| self.wire.poll_turn(cx, point)).await;
        match is_http2 {
            true => self.wire.has_head.set(true),
            false => self.wire.has_frame.set(true),
        }
    }

    /// Marks the next of `available` bytes; returns their mark, and how many have it. They are
    /// `granted` with a mark, or marked here.
    fn next(&mut self, granted: Option<Mark>, available: u64) -> (Mark, u64) {
        let rule = &self.marking.rule;
        let Some((number, own)) = &mut self.own else {
            return (granted.unwrap_or_default(), available);
        };
        let now = Time::ZERO + self.began.elapsed();
        rule.wake(own, now);
        let cost = WireCost::ETHERNET_IPV4;
        let most = match rule.bytes_within(own) {
            // To the end of the segment that crosses the threshold.
            Some(bytes) => cost.payload_in(bytes.div_ceil(u64::from(cost.mss))),
            None if rule.variant == Variant::Sfd => u64::MAX,
            None => PACKET_BYTES,
        };
        let bytes = available.min(most);
        let mark = rule.next(own, bytes, own.draw(*number));
        rule.pass(own, now, bytes);
        (mark, bytes)
    }

    /// Marks the next of `available` bytes of a tunnel, all of whose earlier bytes are in
    /// the socket; returns how many have the mark.
    pub fn turn(&mut self, granted: Option<Mark>, available: usize) -> usize {
        let (mark, bytes) = self.next(granted, available as u64);
        self.wire.wanted.set(Some(self.point(mark)));
        usize::try_from(bytes).unwrap_or(available)
    }

    fn point(&self, mark: Mark) -> CodedMark {
        let code_point = self.marking.code_point(mark);
        CodedMark { mark, code_point }
    }
}

impl Drop for WireMarks {
    fn drop(&mut self) {
        self.wire.responses.set(self.wire.responses.get() - 1);
        self.wire.look();
    }
}

/// A response's bytes that wait to be given with their marks.
pub struct MarkedBytes {
    marks: WireMarks,
    /// Whether the connection is of HTTP/2, so that other streams share it.
    is_http2: bool,
    held: Bytes,
    /// The mark of the next held bytes, and how many have it.
    next: Option<(Mark, u64)>,
}

impl MarkedBytes {
    /// Returns the state for a response, of whose body no byte has come.
    pub fn new(marks: WireMarks, is_http2: bool) -> Self {
        Self {
            marks,
            is_http2,
            held: Bytes::new(),
            next: None,
        }
    }

    /// Returns how many bytes are held here.
    pub fn held(&self) -> u64 {
        self.held.len() as u64
    }

    /// Takes a chunk, with the mark that it was granted. Nothing may be held any more.
    pub fn hold(&mut self, data: Bytes, granted: Option<Mark>) {
        self.next = Some(self.marks.next(granted, data.len() as u64));
        self.held = data;
    }

    /// Gives the next held bytes that have one mark, as soon as that mark may be given.
    pub fn poll_give(&mut self, cx: &Context<'_>) -> Poll<Bytes> {
        let available = self.held();
        let (mark, bytes) = match self.next {
            Some(next) => next,
            None => self.marks.next(None, available),
        };
        self.next = Some((mark, bytes));
        let point = self.marks.point(mark);
        if self.marks.wire.poll_turn(cx, point).is_pending() {
            return Poll::Pending;
        }
        self.next = None;
        if !self.is_http2 {
            self.marks.wire.has_frame.set(true);
        }
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        Poll::Ready(self.held.split_to(bytes.min(self.held.len())))
    }
}

#[cfg(test)]
mod tests {
    use sprat_scheduler::Marking as Rule;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    fn marks(wire: &Rc<WireMark>) -> WireMarks {
        let marking = Marking {
            rule: Rule {
                variant: Variant::Sfd,
                ..Rule::PAPER
            },
            code_points: [10, 14],
        };
        WireMarks::new(wire, marking, false, 0)
    }

    async fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap());
        let (client, accepted) = tokio::join!(client, listener.accept());
        (accepted.unwrap().0, client.unwrap())
    }

    #[tokio::test]
    async fn a_code_point_leaves_the_sockets_priority_as_it_is() {
        for priority in [0, 3] {
            let (socket, _client) = connected().await;
            let own = SockRef::from(&socket);
            own.set_priority(priority).unwrap();
            let wire = Rc::<WireMark>::default();
            let marks = marks(&wire);
            for (mark, class) in [(Mark::In, 40), (Mark::Out, 56)] {
                wire.wanted.set(Some(marks.point(mark)));
                assert!(wire.is_stale());
                wire.apply(&socket);
                assert!(!wire.is_stale());
                assert_eq!(
                    (own.tos_v4().unwrap(), own.priority().unwrap()),
                    (class, priority)
                );
            }
            // With the last response it is over.
            drop(marks);
            assert!(wire.is_over());
            wire.apply(&socket);
            assert_eq!(
                (own.tos_v4().unwrap(), own.priority().unwrap()),
                (0, priority)
            );
        }
    }

    #[tokio::test]
    async fn a_socket_that_holds_something_is_writable_once_it_is_sent() {
        let (mut socket, mut client) = connected().await;
        SockRef::from(&client)
            .set_recv_buffer_size(4 << 10)
            .unwrap();
        let own = SockRef::from(&socket);
        own.set_tcp_notsent_lowat(100_000).unwrap();
        let lowat = own.tcp_notsent_lowat().unwrap();
        let wire = Rc::<WireMark>::default();
        wire.all_sent(&socket).unwrap();
        let written = socket.try_write(&vec![7; 1 << 20]).unwrap();
        let error = wire.all_sent(&socket).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        let reader = tokio::spawn(async move {
            let mut buffer = vec![0; written];
            client.read_exact(&mut buffer).await.unwrap();
            client
        });
        // As the socket waits for it.
        let sent = async {
            loop {
                socket.writable().await.unwrap();
                match socket.try_io(tokio::io::Interest::WRITABLE, || wire.all_sent(&socket)) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    other => return other,
                }
            }
        };
        sent.await.unwrap();
        assert_eq!(sys::unsent(&socket).unwrap(), 0);
        wire.apply(&socket);
        assert_eq!(SockRef::from(&socket).tcp_notsent_lowat().unwrap(), lowat);
        reader.await.unwrap();
        socket.shutdown().await.unwrap();
    }

    #[tokio::test]
    async fn another_mark_waits_until_the_one_before_is_out_and_then_has_its_turn() {
        let wire = Rc::<WireMark>::default();
        let marks = marks(&wire);
        let [within, out] = [marks.point(Mark::In), marks.point(Mark::Out)];
        let turn = |point| {
            let waker = Waker::noop();
            wire.poll_turn(&Context::from_waker(waker), point)
        };
        assert!(turn(within).is_ready());
        wire.chunk_given();
        assert!(turn(within).is_ready(), "the same goes with it");
        wire.chunk_given();
        assert!(turn(out).is_pending());
        assert!(turn(within).is_pending(), "another waits already");
        wire.chunk_gone(true);
        assert!(turn(out).is_pending());
        wire.chunk_gone(true);
        assert!(turn(out).is_ready());
        // A head that is never written holds up no other.
        wire.has_head.set(true);
        assert!(turn(within).is_ready());
        drop(marks);
        assert_eq!(wire.wanted.get(), Some(within));
        wire.flushed();
        assert_eq!(wire.wanted.get(), None);
    }

    #[tokio::test]
    async fn what_a_window_keeps_holds_up_no_other_mark_and_brings_its_own_along() {
        let wire = Rc::<WireMark>::default();
        let marks = marks(&wire);
        let [within, out] = [marks.point(Mark::In), marks.point(Mark::Out)];
        let turn = |point| {
            let waker = Waker::noop();
            wire.poll_turn(&Context::from_waker(waker), point)
        };
        assert!(turn(within).is_ready());
        let kept = wire.chunk_given();
        assert!(turn(out).is_pending());
        // The socket has what the window let through.
        wire.chunk_offered(kept);
        wire.flushed();
        assert!(turn(out).is_ready());
        wire.chunk_given();
        assert!(turn(within).is_pending(), "the other is on its way");
        // Its client has reset it, and nothing more is written.
        wire.chunk_gone(false);
        assert!(turn(within).is_ready());
        assert!(turn(out).is_ready());
        wire.chunk_offered(kept);
        assert_eq!(wire.wanted.get(), Some(within));
        assert!(turn(out).is_pending());
        wire.chunk_gone(true);
        assert!(turn(out).is_ready());
    }
}
