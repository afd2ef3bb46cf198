//! The gauge of a client's connection: its account of what it has put on the wire.

use std::cell::{Cell, OnceCell, RefCell};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::Shutdown;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::rc::Rc;

use socket2::SockRef;
use sprat_net::sys;
use sprat_scheduler::{FlowId, GroupId, WireCost};
use tokio::net::TcpStream;

use super::acknowledged::{Delivery, Unacknowledged};
use super::auto::{PassedOver, Writer};
use super::flush::FlushGate;
use super::ledger::{Ledger, SYN_ACK_OPTIONS, counted};
use super::link::WorkerLink;

/// The segments that end a connection: the FIN, and the ACK of the client's.
const CLOSING_SEGMENTS: u64 = 2;

/// The segments that begin a connection: the SYN-ACK, and the ACK of the first request.
const OPENING_SEGMENTS: u64 = 2;

/// A connection's account of what it put on the wire, shared by its socket and the bodies that
/// are written to it. It holds how far the writing has come, and what the uplink has been
/// debited for.
pub struct SocketGauge {
    worker: Rc<WorkerLink>,
    cost: Cell<WireCost>,
    /// The bytes that grants have debited and the socket has yet to take, TLS records' overhead
    /// included.
    promised: Cell<u64>,
    /// The bytes of these that were promised last.
    promised_last: Cell<u64>,
    ledger: RefCell<Ledger>,
    /// The gate that holds a body back until the socket has taken what it gave before.
    pub(crate) gate: FlushGate,
    /// The socket's number on the uplink.
    socket: u64,
    /// A hash of the client's address: round trips differ between networks.
    network: u64,
    /// The bytes that the socket has taken, and the responses that are still on their way.
    unacknowledged: Rc<Unacknowledged>,
    passed_over: Cell<PassedOver>,
    /// The group of an HTTP/2 connection's streams on the uplink.
    group: OnceCell<GroupId>,
    /// The flows that need one of their class's places, those that are over maybe among them.
    placed: RefCell<Vec<FlowId>>,
    /// The chunks given over HTTP/2 that the socket does not have.
    chunks: Cell<usize>,
    /// Whether a response is to come that others wait for.
    announced: Cell<bool>,
    /// Whether the socket is gone.
    closed: Cell<bool>,
}

impl SocketGauge {
    /// Creates the gauge of a connection that has just been accepted, and debits its set-up.
    pub(crate) fn new(worker: &Rc<WorkerLink>, stream: &TcpStream) -> Rc<Self> {
        let cost = wire_cost(stream);
        let gauge = Rc::new(Self {
            worker: Rc::clone(worker),
            cost: Cell::new(cost),
            promised: Cell::new(0),
            promised_last: Cell::new(0),
            ledger: RefCell::new(Ledger::new(worker.now())),
            gate: FlushGate::default(),
            socket: worker.next_socket(),
            network: network(stream),
            unacknowledged: Unacknowledged::new(stream.as_raw_fd()),
            passed_over: Cell::default(),
            group: OnceCell::new(),
            placed: RefCell::default(),
            chunks: Cell::new(0),
            announced: Cell::new(false),
            closed: Cell::new(false),
        });
        // Whatever it is going to ask for: that is known in a moment.
        if worker.awaits_any() {
            gauge.announce();
        }
        let overhead = u64::from(cost.segment_overhead);
        let opening = OPENING_SEGMENTS * overhead + SYN_ACK_OPTIONS;
        worker.connect(opening);
        worker.on_overhead(opening);
        gauge.ledger.borrow_mut().debit(opening);
        gauge
    }

    /// Notes that a request of this class has come, and announces its response if others wait
    /// for it.
    pub fn expect(&self, class: usize) {
        if self.worker.is_awaited(class) {
            self.announce();
        } else {
            self.retract();
        }
    }

    fn announce(&self) {
        if !self.announced.replace(true) {
            self.worker.announce();
        }
    }

    /// Notes that the expected response has come, or will not.
    pub(crate) fn retract(&self) {
        if self.announced.replace(false) {
            self.worker.retract();
        }
    }

    pub(crate) fn cost(&self) -> WireCost {
        self.cost.get()
    }

    /// Notes that what is written goes in TLS records from now on, whose overhead this is in
    /// bytes.
    pub fn seal(&self, record_overhead: u32) {
        self.cost.set(WireCost {
            record_overhead,
            ..self.cost.get()
        });
    }

    /// Returns the uplink of the worker.
    pub(crate) fn worker(&self) -> &Rc<WorkerLink> {
        &self.worker
    }

    /// Notes that `bytes` were granted and debited, and will be written.
    pub(crate) fn promise(&self, bytes: u64) {
        let cost = self.cost.get();
        if self.closed.get() {
            // A stream of HTTP/2 learns of the connection's end after it.
            self.worker.refund(cost.bytes(bytes));
            return;
        }
        let stream = cost.stream_bytes(bytes);
        self.promised.set(self.promised.get() + stream);
        self.promised_last.set(stream);
        self.ledger.borrow_mut().debit(cost.bytes(bytes));
    }

    /// Notes that the kernel has handed over `bytes` from the client, which acknowledge what it
    /// has. A client that `takes_turns` waits for its answer before it asks for more.
    pub fn read(&self, bytes: usize, takes_turns: bool, socket: BorrowedFd<'_>) {
        self.unacknowledged.heard(takes_turns && bytes > 0);
        self.moved(bytes as u64, socket);
    }

    /// Notes that the kernel took `written` bytes.
    pub fn wrote(&self, written: usize, socket: BorrowedFd<'_>) {
        let written = written as u64;
        let promised = self.promised.get();
        if written > promised {
            self.debit(self.cost.get().segment_bytes(written - promised));
        }
        self.promised.set(promised.saturating_sub(written));
        self.unacknowledged.wrote(written);
        self.moved(written, socket);
        self.worker.on_write(&Writer {
            socket: self.socket,
            network: self.network,
            written: self.unacknowledged.written(),
            bytes: written,
            cost: self.cost.get(),
            fd: socket,
            passed_over: &self.passed_over,
        });
    }

    /// Tells `delivery` when the client has acknowledged all that the kernel took.
    pub fn await_response(&self, delivery: Box<dyn Delivery>) {
        self.unacknowledged
            .await_response(delivery, &self.worker.ack_watch);
    }

    /// Notes that the kernel has taken all that was offered.
    pub fn flushed(&self) {
        self.forgive();
        self.gate.flushed();
    }

    /// Returns the group of the connection's streams.
    pub(crate) fn group(&self) -> GroupId {
        *self.group.get_or_init(|| self.worker.open_group())
    }

    /// Notes that a response of the connection needs one of its class's places.
    pub(crate) fn note_place(&self, flow: FlowId) {
        let mut placed = self.placed.borrow_mut();
        self.worker.retain_open(&mut placed);
        placed.push(flow);
    }

    /// Returns whether other responses wait for a place that one of the connection's has in its
    /// class.
    pub fn is_place_wanted(&self) -> bool {
        let mut placed = self.placed.borrow_mut();
        self.worker.retain_open(&mut placed);
        !placed.is_empty() && self.worker.is_place_wanted(&placed)
    }

    /// Notes that a stream of HTTP/2 has given a chunk that was promised.
    pub fn chunk_given(&self) {
        self.chunks.set(self.chunks.get() + 1);
    }

    /// Notes that a chunk is in the socket, or will never be.
    pub fn chunk_gone(&self) {
        self.chunks.set(self.chunks.get() - 1);
        self.forgive();
    }

    /// Gives back what is still promised if nothing is on its way to the socket: a head's length
    /// was over-estimated.
    fn forgive(&self) {
        if self.chunks.get() > 0 || self.promised.get() == 0 {
            return;
        }
        let over = self.promised.take();
        let last = self.promised_last.get().max(over);
        let cost = self.cost.get();
        self.refund(cost.segment_bytes(last) - cost.segment_bytes(last - over));
    }

    fn debit(&self, wire_bytes: u64) {
        self.worker.debit(wire_bytes);
        self.ledger.borrow_mut().debit(wire_bytes);
    }

    fn refund(&self, wire_bytes: u64) {
        self.worker.refund(wire_bytes);
        self.ledger.borrow_mut().refund(wire_bytes);
    }

    /// Asks the kernel what has left, if enough bytes and time have passed since it was asked.
    fn moved(&self, bytes: u64, socket: BorrowedFd<'_>) {
        if !self.ledger.borrow_mut().moved(bytes) {
            return;
        }
        let now = self.worker.now();
        if !self.ledger.borrow().is_due(now) {
            return;
        }
        // Without the kernel's word the model's stands until the end.
        if let Ok(info) = sys::tcp_info(&socket) {
            let cost = self.cost.get();
            let promised = cost.segment_bytes(self.promised.get());
            self.settle(counted(cost, &info) + promised);
        }
    }

    fn settle(&self, counted: u64) {
        let now = self.worker.now();
        let link_bytes = self.worker.horizon_bytes();
        let settled = self.ledger.borrow_mut().settle(now, counted, link_bytes);
        self.worker.settle(settled);
    }

    /// Settles what was debited by the model with what the kernel counted, since the connection
    /// ends.
    pub fn close(&self, socket: BorrowedFd<'_>) {
        if self.worker.is_auto() {
            // A duplicate of the descriptor may live on for a while: what it
            // does not hold back is said to the client now. An error means
            // that the connection is gone.
            let _ = SockRef::from(&socket).shutdown(Shutdown::Both);
        }
        let cost = self.cost.get();
        let overhead = u64::from(cost.segment_overhead);
        self.refund(cost.segment_bytes(self.promised.take()));
        self.settle(match sys::tcp_info(&socket) {
            Ok(info) => counted(cost, &info),
            // No word of the kernel's: what the model says of what was written.
            Err(_) => {
                let opening = OPENING_SEGMENTS * overhead + SYN_ACK_OPTIONS;
                cost.segment_bytes(self.unacknowledged.written()) + opening
            }
        });
        self.unacknowledged.close(socket, &self.worker.ack_watch);
        self.debit(CLOSING_SEGMENTS * overhead);
        self.worker.on_overhead(CLOSING_SEGMENTS * overhead);
        self.closed.set(true);
    }
}

impl Drop for SocketGauge {
    fn drop(&mut self) {
        self.retract();
        if let Some(group) = self.group.get() {
            self.worker.close_group(*group);
        }
    }
}

fn network(stream: &TcpStream) -> u64 {
    let mut hasher = DefaultHasher::new();
    stream
        .peer_addr()
        .map(|peer| peer.ip())
        .ok()
        .hash(&mut hasher);
    hasher.finish()
}

/// Returns what a connection's bytes cost on the wire. To a client on this host the link is
/// taken to be Ethernet: loopback's segments of 64 KB would pace nothing.
fn wire_cost(stream: &TcpStream) -> WireCost {
    let usual = WireCost::ETHERNET_IPV4;
    let Ok(peer) = stream.peer_addr().map(|peer| peer.ip().to_canonical()) else {
        return usual;
    };
    if peer.is_loopback() {
        return usual;
    }
    WireCost {
        mss: SockRef::from(stream).tcp_mss().unwrap_or(usual.mss).max(1),
        // An IPv6 header is 20 bytes longer.
        segment_overhead: usual.segment_overhead + if peer.is_ipv6() { 20 } else { 0 },
        ..usual
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use sprat_scheduler::{Discipline, EgressPolicy, Pacer};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::link::PacedLink;

    const SEGMENT: u64 = WireCost::ETHERNET_IPV4.segment_overhead as u64;
    const OPENING: u64 = OPENING_SEGMENTS * SEGMENT + SYN_ACK_OPTIONS;

    /// Makes a connection on an uplink of its own; returns its gauge, its socket and its
    /// client's.
    async fn connected() -> (Rc<SocketGauge>, TcpStream, TcpStream) {
        let link = PacedLink::new(
            Pacer::exact(1_000_000),
            EgressPolicy {
                max_flows: 8,
                ..EgressPolicy::new(Discipline::Srpt)
            },
        );
        let worker = WorkerLink::new(link).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap());
        let (client, accepted) = tokio::join!(client, listener.accept());
        let socket = accepted.unwrap().0;
        (SocketGauge::new(&worker, &socket), socket, client.unwrap())
    }

    fn debited(gauge: &SocketGauge) -> u64 {
        gauge.worker.link.status().stats.wire_bytes
    }

    async fn write(gauge: &SocketGauge, socket: &mut TcpStream, bytes: usize) {
        socket.write_all(&vec![b'x'; bytes]).await.unwrap();
        gauge.wrote(bytes, socket.as_fd());
        gauge.flushed();
    }

    #[tokio::test]
    async fn a_head_shorter_than_promised_costs_what_it_is() {
        let (gauge, mut socket, _client) = connected().await;
        let mut wire_bytes = OPENING;
        for (promised, written) in [(178, 150), (278, 250), (1460, 1432), (20, 20), (1, 30)] {
            gauge.worker.debit(gauge.cost().bytes(promised));
            gauge.promise(promised);
            write(&gauge, &mut socket, written).await;
            wire_bytes += written as u64 + SEGMENT;
            // What was not promised is taken for a segment of its own.
            wire_bytes += if written as u64 > promised {
                SEGMENT
            } else {
                0
            };
            assert_eq!(debited(&gauge), wire_bytes, "{promised} {written}");
        }
    }

    #[tokio::test]
    async fn an_uploads_acknowledgements_are_debited_before_its_end() {
        let (gauge, mut socket, mut client) = connected().await;
        let upload = tokio::spawn(async move {
            client.write_all(&vec![b'x'; 32 << 20]).await.unwrap();
            client
        });
        let mut buffer = vec![0; 8 << 10];
        let mut left = 32 << 20;
        while left > 0 {
            let bytes = socket.read(&mut buffer).await.unwrap();
            gauge.read(bytes, true, socket.as_fd());
            left -= bytes;
        }
        let before = debited(&gauge);
        let info = sys::tcp_info(&socket).unwrap();
        let sent = counted(gauge.cost(), &info);
        gauge.close(socket.as_fd());
        assert!(info.segs_out > 100, "{info:?}");
        // At the end a twentieth at most is left to be told.
        assert!(before > sent - sent / 20, "{before} of {sent}");
        assert_eq!(debited(&gauge), sent + CLOSING_SEGMENTS * SEGMENT);
        drop(upload.await);
    }

    #[tokio::test]
    async fn what_was_promised_and_not_written_is_given_back_at_the_end() {
        let (gauge, mut socket, _client) = connected().await;
        gauge.worker.debit(gauge.cost().bytes(5_000));
        gauge.promise(5_000);
        socket.write_all(&[b'x'; 1_000]).await.unwrap();
        gauge.wrote(1_000, socket.as_fd());
        let info = sys::tcp_info(&socket).unwrap();
        gauge.close(socket.as_fd());
        let sent = counted(gauge.cost(), &info);
        let stats = gauge.worker.link.lock().desk.egress().stats();
        assert_eq!(stats.wire_bytes, sent + CLOSING_SEGMENTS * SEGMENT);
        // A stream of HTTP/2 learns of it later.
        gauge.worker.debit(gauge.cost().bytes(700));
        gauge.promise(700);
        assert_eq!(gauge.worker.link.lock().desk.egress().stats(), stats);
    }
}
