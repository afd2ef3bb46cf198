//! The time at which a client has the whole of a response.
//!
//! The last byte of a response is in the socket long before its client has it; the time between
//! is what a queue on the way costs. The client's TCP acknowledges what has come, and the kernel
//! knows how much of what was written is not acknowledged yet.
//!
//! The kernel is asked when the client sends something, and when the connection ends. It is also
//! asked between times that grow with a response's age, so that what is found late is late by an
//! eighth at most. It is not asked about a small response to a client near by that takes turns
//! and has sent its next request. Such a client has its answer, and the question costs a
//! hundredth of all that a small response does. If nothing else was written since, the kernel
//! also knows when the last acknowledgement came, to a tick of its clock (1 to 10 ms). It is
//! asked for that if some of the response was missing a tick ago.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::pending;
use std::net::Shutdown;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::sync::LazyLock;
use std::time::Duration;

use rustix::time::{ClockId, clock_getres};
use socket2::SockRef;
use sprat_net::clock;
use sprat_net::network;
use sprat_net::sys;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// The least time between the last byte's writing and the first question, and between questions.
const LEAST_INTERVAL: Duration = Duration::from_millis(5);

/// The size of a response that goes out at once, in bytes: the initial window of a connection
/// (RFC 6928), where segments are no smaller than usual.
const SMALL_BYTES: u64 = 10 * 1400;

/// The time after which a response that was not acknowledged is given up.
const PATIENCE: Duration = Duration::from_secs(30);

/// The most responses of a connection that are waited for; the oldest is given up for another.
const RESPONSES_MAX: usize = 128;

/// The most connections of a worker that have ended and are waited for: each costs a descriptor.
const ENDED_MAX: usize = 256;

/// A record that waits until its response is acknowledged. If it is dropped before, that time
/// stays unknown.
pub trait Delivery {
    /// Notes that the client has had the response's last byte since `at`.
    fn acknowledged(self: Box<Self>, at: Instant);
}

/// The responses that a connection's client has not acknowledged as a whole.
pub(super) struct Unacknowledged {
    socket: RefCell<Descriptor>,
    /// The bytes that the socket has taken.
    written: Cell<u64>,
    /// The bytes of these that are known to be acknowledged.
    acknowledged: Cell<u64>,
    /// The least round-trip time to the client, once the kernel has been asked for it.
    round_trip: Cell<Option<Duration>>,
    responses: RefCell<VecDeque<Response>>,
    /// Whether an [`AckWatch`] looks after the connection.
    is_watched: Cell<bool>,
}

/// The descriptor by which the kernel is asked about a connection.
enum Descriptor {
    /// The socket's own, which its owner keeps open until [`Unacknowledged::close`].
    Lent(RawFd),
    /// A duplicate, after the socket has been closed.
    Own(OwnedFd),
    /// The connection has ended, and nothing is asked any more.
    Gone,
}

/// A response that has been written and is waited for.
struct Response {
    /// The number of bytes that the socket had taken with this response's last.
    end: u64,
    written_at: Instant,
    /// The time at which some of it was last known not to be acknowledged.
    missing_at: Instant,
    delivery: Box<dyn Delivery>,
}

impl Unacknowledged {
    pub(super) fn new(socket: RawFd) -> Rc<Self> {
        Rc::new(Self {
            socket: RefCell::new(Descriptor::Lent(socket)),
            written: Cell::default(),
            acknowledged: Cell::default(),
            round_trip: Cell::default(),
            responses: RefCell::default(),
            is_watched: Cell::default(),
        })
    }

    /// Notes that the socket took `bytes` more bytes.
    pub(super) fn wrote(&self, bytes: u64) {
        self.written.set(self.written.get() + bytes);
    }

    /// Returns how many bytes the socket has taken.
    pub(super) fn written(&self) -> u64 {
        self.written.get()
    }

    /// Tells `delivery` when all that was written so far is acknowledged.
    pub(super) fn await_response(self: &Rc<Self>, delivery: Box<dyn Delivery>, watch: &AckWatch) {
        let is_gone = matches!(*self.socket.borrow(), Descriptor::Gone);
        // What carries a simulated connection may not be TCP.
        if is_gone || network::is_simulated() {
            return;
        }
        let now = clock::now();
        let mut responses = self.responses.borrow_mut();
        let given_up = match responses.len() {
            RESPONSES_MAX.. => responses.pop_front(),
            _ => None,
        };
        responses.push_back(Response {
            end: self.written.get(),
            written_at: now,
            missing_at: now,
            delivery,
        });
        drop(responses);
        drop(given_up);
        if !self.is_watched.replace(true) {
            watch.add(now + LEAST_INTERVAL, Rc::clone(self));
        }
    }

    /// Notes that something has come from the client, whose TCP thereby acknowledges what it
    /// has. The kernel is asked what that is, unless it is the next request of a client that
    /// `takes_turns`.
    pub(super) fn heard(&self, takes_turns: bool) {
        if self.responses.borrow().is_empty() {
            return;
        }
        let now = clock::now();
        match self.pop_if(|response| takes_turns && self.is_answered(response, now)) {
            Some(response) => self.acknowledge(response, now),
            None => self.look(now),
        }
    }

    /// Returns whether a client that takes turns has a response, since it sends its next
    /// request. A client that does not wait for its answers is at times taken for one that does.
    /// So the response must be the last that was written. What is on its way must be too little
    /// to wait for acknowledgements itself. And it must arrive within the time in which the
    /// kernel would not have been asked.
    fn is_answered(&self, response: &Response, now: Instant) -> bool {
        response.end == self.written.get()
            && response.end - self.acknowledged.get() <= SMALL_BYTES
            && now - response.written_at < LEAST_INTERVAL
            && self.round_trip() < LEAST_INTERVAL
    }

    fn round_trip(&self) -> Duration {
        if let Some(known) = self.round_trip.get() {
            return known;
        }
        let info = match &*self.socket.borrow() {
            Descriptor::Lent(socket) => sys::tcp_info(socket).ok(),
            Descriptor::Own(socket) => sys::tcp_info(socket).ok(),
            Descriptor::Gone => None,
        };
        let micros = info.map_or(u32::MAX, |info| info.min_rtt_us);
        let least = Duration::from_micros(u64::from(micros));
        self.round_trip.set(Some(least));
        least
    }

    fn acknowledge(&self, response: Response, at: Instant) {
        self.acknowledged.set(response.end);
        response.delivery.acknowledged(at);
    }

    /// Notes that the connection ends. If its client has some of a response still to come, a
    /// duplicate of the socket stays open.
    pub(super) fn close(&self, socket: BorrowedFd<'_>, watch: &AckWatch) {
        self.heard(false);
        let mut kept = None;
        if !self.responses.borrow().is_empty() && watch.ended.get() < ENDED_MAX {
            kept = socket.try_clone_to_owned().ok();
        }
        let descriptor = match kept {
            Some(own) => {
                // What the duplicate holds back is said to the client now. An error means
                // that the connection is gone.
                let _ = SockRef::from(&own).shutdown(Shutdown::Both);
                watch.ended.set(watch.ended.get() + 1);
                Descriptor::Own(own)
            }
            None => Descriptor::Gone,
        };
        self.socket.replace(descriptor);
        if matches!(*self.socket.borrow(), Descriptor::Gone) {
            self.give_up();
        }
    }

    /// Tells of the responses that are acknowledged, as the kernel says. Gives up those that
    /// never will be, or have not been for too long.
    fn look(&self, now: Instant) {
        let (socket, has_ended) = match &*self.socket.borrow() {
            Descriptor::Lent(socket) => (*socket, false),
            Descriptor::Own(socket) => (socket.as_raw_fd(), true),
            Descriptor::Gone => return,
        };
        let Ok(unacknowledged) = sys::unacknowledged(socket) else {
            return self.give_up();
        };
        // The end of sending counts as a byte.
        let missing = u64::from(unacknowledged).saturating_sub(u64::from(has_ended));
        let had = self.written.get().saturating_sub(missing);
        let mut last_heard = None;
        while let Some(response) = self.pop_if(|response| response.end <= had) {
            let at = match missing {
                0 if now - response.missing_at >= tick() => {
                    *last_heard.get_or_insert_with(|| heard_at(socket, now))
                }
                _ => now,
            };
            let at = at.max(response.missing_at);
            self.acknowledge(response, at);
        }
        for response in self.responses.borrow_mut().iter_mut() {
            response.missing_at = now;
        }
        if has_ended && missing > 0 && is_closed(socket) {
            return self.give_up();
        }
        while let Some(late) = self.pop_if(|response| now - response.written_at >= PATIENCE) {
            drop(late);
        }
    }

    /// Takes the oldest response, if `is_one` holds for it.
    fn pop_if(&self, is_one: impl FnOnce(&Response) -> bool) -> Option<Response> {
        let mut responses = self.responses.borrow_mut();
        match responses.front() {
            Some(first) if is_one(first) => responses.pop_front(),
            _ => None,
        }
    }

    fn give_up(&self) {
        let responses = std::mem::take(&mut *self.responses.borrow_mut());
        drop(responses);
    }

    /// Returns when to look next, if a response is waited for.
    fn next_look(&self, now: Instant) -> Option<Instant> {
        let responses = self.responses.borrow();
        let age = now - responses.front()?.written_at;
        Some(now + (age / 8).max(LEAST_INTERVAL))
    }
}

/// Returns the time between two ticks of the kernel's clock.
fn tick() -> Duration {
    static TICK: LazyLock<Duration> = LazyLock::new(|| {
        let tick = clock_getres(ClockId::MonotonicCoarse);
        Duration::try_from(tick).unwrap_or_default()
    });
    *TICK
}

/// Returns when the client's last acknowledgement came.
fn heard_at(socket: RawFd, now: Instant) -> Instant {
    let info = sys::tcp_info(&socket);
    let ago = info.map_or(0, |info| info.last_ack_recv_ms);
    let at = now.checked_sub(Duration::from_millis(u64::from(ago)));
    at.unwrap_or(now)
}

/// Returns whether the connection was reset or given up, so that nothing will come any more.
fn is_closed(socket: RawFd) -> bool {
    /// The state `TCP_CLOSE`, in include/net/tcp_states.h of Linux.
    const CLOSED: u8 = 7;
    sys::tcp_info(&socket).map_or(true, |info| info.state == CLOSED)
}

/// A worker's watch over connections whose clients have not acknowledged all responses.
#[derive(Default)]
pub(super) struct AckWatch {
    /// The connections by the time at which they are to be looked at, and by a number.
    due: RefCell<BTreeMap<(Instant, u64), Rc<Unacknowledged>>>,
    added: Cell<u64>,
    /// The number of watched connections that have ended.
    ended: Cell<usize>,
    /// The signal that wakes the watching task when a connection is due before all others.
    is_first: Notify,
}

impl AckWatch {
    fn add(&self, at: Instant, connection: Rc<Unacknowledged>) {
        let number = self.added.get();
        self.added.set(number + 1);
        let mut due = self.due.borrow_mut();
        due.insert((at, number), connection);
        if (due.first_key_value()).is_some_and(|((_, first), _)| *first == number) {
            self.is_first.notify_one();
        }
    }

    /// Looks at connections whenever they are due; runs as long as the worker.
    pub(super) async fn run(&self) {
        loop {
            let next = self.due.borrow().first_key_value().map(|((at, _), _)| *at);
            let is_due = async {
                match next {
                    Some(at) => sleep_until(at).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                () = is_due => self.look(Instant::now()),
                () = self.is_first.notified() => {}
            }
        }
    }

    fn look(&self, now: Instant) {
        while let Some(connection) = self.pop_due(now) {
            if !connection.responses.borrow().is_empty() {
                connection.look(now);
            }
            match connection.next_look(now) {
                Some(at) => self.add(at, connection),
                None => self.let_go(&connection),
            }
        }
    }

    fn pop_due(&self, now: Instant) -> Option<Rc<Unacknowledged>> {
        let mut due = self.due.borrow_mut();
        let first = due.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    fn let_go(&self, connection: &Unacknowledged) {
        connection.is_watched.set(false);
        let own = matches!(*connection.socket.borrow(), Descriptor::Own(_));
        if own {
            connection.socket.replace(Descriptor::Gone);
            self.ended.set(self.ended.get() - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;
    use std::sync::mpsc::{Receiver, Sender, channel};

    use socket2::{Domain, Socket, Type};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    /// A delivery that sends when its response was acknowledged, or `None` if that stays
    /// unknown.
    struct Told(Sender<Option<Instant>>);

    impl Delivery for Told {
        fn acknowledged(self: Box<Self>, at: Instant) {
            self.0.send(Some(at)).unwrap();
        }
    }

    impl Drop for Told {
        fn drop(&mut self) {
            let _ = self.0.send(None);
        }
    }

    /// A connection whose client has little room for bytes that it does not read.
    struct Link {
        watch: Rc<AckWatch>,
        unacknowledged: Rc<Unacknowledged>,
        server: TcpStream,
        client: TcpStream,
    }

    impl Link {
        async fn new() -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let client = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            client.set_recv_buffer_size(4096).unwrap();
            client
                .connect(&listener.local_addr().unwrap().into())
                .unwrap();
            client.set_nonblocking(true).unwrap();
            let (server, _) = listener.accept().await.unwrap();
            let watch = Rc::new(AckWatch::default());
            let own = Rc::clone(&watch);
            tokio::task::spawn_local(async move { own.run().await });
            Self {
                watch,
                unacknowledged: Unacknowledged::new(server.as_raw_fd()),
                server,
                client: TcpStream::from_std(client.into()).unwrap(),
            }
        }

        /// Writes a response to the socket, and expects its acknowledgement.
        async fn respond(&mut self, bytes: usize) -> Receiver<Option<Instant>> {
            self.server.write_all(&vec![b'x'; bytes]).await.unwrap();
            self.unacknowledged.wrote(bytes as u64);
            self.expect()
        }

        /// Expects the acknowledgement of the responses so far.
        fn expect(&self) -> Receiver<Option<Instant>> {
            let (sender, told) = channel();
            let told_when = Box::new(Told(sender));
            self.unacknowledged.await_response(told_when, &self.watch);
            told
        }

        fn close(self) -> TcpStream {
            self.unacknowledged.close(self.server.as_fd(), &self.watch);
            self.client
        }
    }

    /// A number of bytes that a client's buffer does not take, and the server's does.
    const MANY: usize = 100_000;

    async fn read(client: &mut TcpStream, bytes: usize) {
        client.read_exact(&mut vec![0; bytes]).await.unwrap();
    }

    async fn outcome(told: &Receiver<Option<Instant>>) -> Option<Instant> {
        let start = Instant::now();
        loop {
            if let Ok(outcome) = told.try_recv() {
                return outcome;
            }
            assert!(start.elapsed() < PATIENCE, "nothing was told");
            tokio::time::sleep(LEAST_INTERVAL).await;
        }
    }

    fn local<T>(work: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build_local(tokio::runtime::LocalOptions::default())
            .unwrap();
        runtime.block_on(work)
    }

    #[test]
    fn a_response_is_acknowledged_when_the_client_has_it() {
        local(async {
            let mut link = Link::new().await;
            let small = link.respond(100).await;
            assert!(outcome(&small).await.unwrap() <= Instant::now());
            let large = link.respond(MANY).await;
            tokio::time::sleep(8 * LEAST_INTERVAL).await;
            assert!(large.try_recv().is_err(), "the client has not read it");
            let reads = Instant::now();
            read(&mut link.client, 100 + MANY).await;
            let at = outcome(&large).await.unwrap();
            // The kernel's clock ticks every 10 ms, or more often.
            assert!(at + Duration::from_millis(10) >= reads);
        });
    }

    /// Reads the client's request, with which its kernel has acknowledged all before it.
    async fn ask(link: &mut Link, takes_turns: bool) {
        link.client.write_all(b"next").await.unwrap();
        read(&mut link.server, 4).await;
        link.unacknowledged.heard(takes_turns);
    }

    #[test]
    fn what_comes_from_the_client_is_asked_about_at_once() {
        local(async {
            let mut link = Link::new().await;
            let told = link.respond(100).await;
            read(&mut link.client, 100).await;
            ask(&mut link, false).await;
            assert!(told.try_recv().unwrap().is_some(), "before the watch looks");
        });
    }

    #[test]
    fn the_next_request_of_one_who_takes_turns_says_that_it_has_a_small_response() {
        local(async {
            let mut link = Link::new().await;
            let first = link.respond(100).await;
            read(&mut link.client, 100).await;
            ask(&mut link, true).await;
            assert!(first.try_recv().unwrap().is_some());
            assert!(link.unacknowledged.round_trip() < LEAST_INTERVAL);
            // The kernel cannot be asked any more.
            let descriptor = Descriptor::Lent(-1);
            let kept = link.unacknowledged.socket.replace(descriptor);
            let second = link.respond(100).await;
            link.unacknowledged.heard(true);
            assert!(second.try_recv().unwrap().is_some());
            let third = link.respond(100).await;
            link.unacknowledged.heard(false);
            assert!(third.try_recv().unwrap().is_none(), "by others it is asked");
            link.unacknowledged.socket.replace(kept);
        });
    }

    #[test]
    fn whether_the_client_has_more_than_a_small_response_the_kernel_says() {
        local(async {
            let mut link = Link::new().await;
            link.unacknowledged.round_trip.set(Some(Duration::ZERO));
            let large = link.respond(MANY).await;
            link.unacknowledged.heard(true);
            assert!(large.try_recv().is_err(), "the client has not read it");
            let small = link.respond(100).await;
            link.unacknowledged.heard(true);
            assert!(small.try_recv().is_err(), "it is behind the other");
            read(&mut link.client, MANY + 100).await;
            assert!(outcome(&large).await.is_some() && outcome(&small).await.is_some());
            // By itself, but something else has been written since.
            let followed = link.respond(100).await;
            link.unacknowledged.wrote(1);
            link.unacknowledged.heard(true);
            assert!(followed.try_recv().is_err());
            // Where the client is far away the kernel would be asked before its answer.
            link.unacknowledged.round_trip.set(Some(LEAST_INTERVAL));
            link.unacknowledged.socket.replace(Descriptor::Lent(-1));
            let far = link.respond(100).await;
            link.unacknowledged.heard(true);
            assert!(far.try_recv().unwrap().is_none());
        });
    }

    #[test]
    fn a_connection_that_has_ended_is_waited_for() {
        local(async {
            let mut link = Link::new().await;
            let watch = Rc::clone(&link.watch);
            let told = link.respond(MANY).await;
            let mut client = link.close();
            assert_eq!(watch.ended.get(), 1);
            assert!(told.try_recv().is_err());
            let mut all = Vec::new();
            client.read_to_end(&mut all).await.unwrap();
            assert_eq!(all.len(), MANY);
            assert!(outcome(&told).await.is_some());
            while watch.ended.get() > 0 {
                tokio::time::sleep(LEAST_INTERVAL).await;
            }
        });
    }

    #[test]
    fn a_client_that_resets_leaves_it_unknown() {
        local(async {
            let mut link = Link::new().await;
            let told = link.respond(MANY).await;
            let client = link.close();
            // With bytes unread its end is a reset.
            drop(client);
            assert_eq!(outcome(&told).await, None);
        });
    }

    #[test]
    fn responses_that_are_waited_for_are_bounded() {
        local(async {
            let mut link = Link::new().await;
            let first = link.respond(MANY).await;
            let others: Vec<_> = (0..RESPONSES_MAX).map(|_| link.expect()).collect();
            assert_eq!(first.try_recv().unwrap(), None);
            assert!(others.iter().all(|told| told.try_recv().is_err()));
            drop(link);
        });
    }
}
