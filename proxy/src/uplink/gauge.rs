//! What one client connection has put on the wire.

use std::cell::{Cell, OnceCell};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::Shutdown;
use std::os::fd::BorrowedFd;
use std::rc::Rc;

use socket2::SockRef;
use sprat_scheduler::{GroupId, WireCost};
use tokio::net::TcpStream;

use super::flush::FlushGate;
use super::link::WorkerLink;
use crate::sys;

/// Bytes of a SYN-ACK with Linux's options beyond a segment's overhead.
const SYN_ACK_OPTIONS: u64 = 8;

/// Segments that end a connection: the FIN and the ACK of the client's.
const CLOSING_SEGMENTS: u64 = 2;

/// Segments that begin one: the SYN-ACK and the ACK of the first request.
const OPENING_SEGMENTS: u64 = 2;

/// Shared by a connection's socket and the bodies that are written to it: how
/// far the writing has come, and what the uplink has been debited for.
pub(crate) struct SocketGauge {
    worker: Rc<WorkerLink>,
    cost: Cell<WireCost>,
    /// Bytes debited by grants and still to come out of the socket's end,
    /// TLS records' overhead included.
    promised: Cell<u64>,
    /// Wire bytes debited for this connection so far.
    debited: Cell<u64>,
    /// Holds a body back until the socket has taken what it gave before.
    pub(crate) gate: FlushGate,
    /// The socket's number on the uplink.
    socket: u64,
    /// A hash of the client's address: round trips differ between networks.
    network: u64,
    /// Bytes that the socket has taken.
    written: Cell<u64>,
    /// HTTP/2: its streams' group on the uplink.
    group: OnceCell<GroupId>,
    /// HTTP/2: chunks given that the socket does not have.
    chunks: Cell<usize>,
    /// A response is to come that others wait for.
    announced: Cell<bool>,
    /// The socket is gone.
    closed: Cell<bool>,
}

impl SocketGauge {
    /// A connection that has just been accepted: its set-up is debited.
    pub(crate) fn new(worker: &Rc<WorkerLink>, stream: &TcpStream) -> Rc<Self> {
        let cost = wire_cost(stream);
        let gauge = Rc::new(Self {
            worker: Rc::clone(worker),
            cost: Cell::new(cost),
            promised: Cell::new(0),
            debited: Cell::new(0),
            gate: FlushGate::default(),
            socket: worker.next_socket(),
            network: network(stream),
            written: Cell::new(0),
            group: OnceCell::new(),
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
        gauge.debited.set(opening);
        gauge
    }

    /// A request of this class has come.
    pub(crate) fn expect(&self, class: usize) {
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

    /// The response that was expected has come, or will not.
    pub(crate) fn retract(&self) {
        if self.announced.replace(false) {
            self.worker.retract();
        }
    }

    pub(crate) fn cost(&self) -> WireCost {
        self.cost.get()
    }

    /// From now on what is written goes in TLS records.
    pub(crate) fn seal(&self, record_overhead: u32) {
        self.cost.set(WireCost {
            record_overhead,
            ..self.cost.get()
        });
    }

    /// The worker's uplink.
    pub(crate) fn worker(&self) -> &Rc<WorkerLink> {
        &self.worker
    }

    /// `bytes` were granted, debited, and will be written.
    pub(crate) fn promise(&self, bytes: u64) {
        let cost = self.cost.get();
        if self.closed.get() {
            // A stream of HTTP/2 learns of the connection's end after it.
            self.worker.refund(cost.bytes(bytes));
            return;
        }
        self.promised
            .set(self.promised.get() + cost.stream_bytes(bytes));
        self.debited.set(self.debited.get() + cost.bytes(bytes));
    }

    /// The kernel took so many bytes.
    pub(crate) fn wrote(&self, written: usize, socket: BorrowedFd<'_>) {
        let written = written as u64;
        let promised = self.promised.get();
        if written > promised {
            self.debit(self.cost.get().segment_bytes(written - promised));
        }
        self.promised.set(promised.saturating_sub(written));
        self.written.set(self.written.get() + written);
        self.worker
            .on_write(self.socket, self.network, self.written.get(), socket);
    }

    /// The kernel has taken all that was offered.
    pub(crate) fn flushed(&self) {
        self.forgive();
        self.gate.flushed();
    }

    /// The group of its streams.
    pub(crate) fn group(&self) -> GroupId {
        *self.group.get_or_init(|| self.worker.open_group())
    }

    /// A stream of HTTP/2 has given a chunk that was promised.
    pub(crate) fn chunk_given(&self) {
        self.chunks.set(self.chunks.get() + 1);
    }

    /// It is in the socket, or will never be.
    pub(crate) fn chunk_gone(&self) {
        self.chunks.set(self.chunks.get() - 1);
        self.forgive();
    }

    /// With nothing on its way to the socket, what is promised was an
    /// over-estimate of a head's length.
    fn forgive(&self) {
        if self.chunks.get() == 0 {
            self.promised.set(0);
        }
    }

    fn debit(&self, wire_bytes: u64) {
        self.worker.debit(wire_bytes);
        self.debited.set(self.debited.get() + wire_bytes);
    }

    /// The connection ends: settles what was debited by the model with what
    /// the kernel counted, segments, pure acknowledgements and
    /// retransmissions included.
    pub(crate) fn close(&self, socket: BorrowedFd<'_>) {
        if self.worker.is_auto() {
            // A duplicate of the descriptor may live on for a while: what it
            // does not hold back is said to the client now. An error means
            // that the connection is gone.
            let _ = SockRef::from(&socket).shutdown(Shutdown::Both);
        }
        let cost = self.cost.get();
        let overhead = u64::from(cost.segment_overhead);
        let actual = match sys::tcp_info(socket) {
            Ok(info) => {
                let segments = u64::from(info.segs_out) + 1 + CLOSING_SEGMENTS;
                let unsent = cost.segment_bytes(u64::from(info.notsent_bytes));
                info.bytes_sent + segments * overhead + SYN_ACK_OPTIONS + unsent
            }
            // No word of the kernel's: what the model says of what was written.
            Err(_) => {
                let bare = OPENING_SEGMENTS + CLOSING_SEGMENTS;
                cost.segment_bytes(self.written.get()) + bare * overhead + SYN_ACK_OPTIONS
            }
        };
        self.closed.set(true);
        let debited = self.debited.replace(actual);
        if actual > debited {
            self.worker.debit(actual - debited);
        } else {
            self.worker.refund(debited - actual);
        }
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

/// What a connection's bytes cost. To a client on this host the link is taken
/// to be Ethernet: loopback's segments of 64 KB would pace nothing.
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
