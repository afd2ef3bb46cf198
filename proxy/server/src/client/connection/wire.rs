//! The sending side of a connection's socket: its link, its bytes, and whether it has room.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

use sprat_uplink::{Outlet, SocketGauge, WireMark};

use super::blocked::Blocked;
use super::drain::Drain;

/// The sending side of a connection's socket.
pub(crate) struct Wire {
    /// The way that the connection's bytes take onto the uplink.
    outlet: Outlet,
    /// The code point of the connection's packets, once they have borne any.
    mark: OnceCell<Rc<WireMark>>,
    /// The times for which the socket was full.
    pub(super) blocked: Blocked,
    /// The watch over how fast the client takes what it asked for, once its socket was full.
    pub(super) drain: RefCell<Option<Box<Drain>>>,
    /// Whether a body waits for the socket to take what is written before it.
    pub(super) holds_back: Cell<bool>,
    written: Cell<u64>,
}

impl Wire {
    /// Makes the sending side of a socket to which nothing was written.
    pub(super) fn new(outlet: Outlet) -> Self {
        Self {
            outlet,
            mark: OnceCell::new(),
            blocked: Blocked::default(),
            drain: RefCell::new(None),
            holds_back: Cell::new(false),
            written: Cell::new(0),
        }
    }

    /// Returns the way that the connection's bytes take onto the uplink.
    pub(crate) fn outlet(&self) -> &Outlet {
        &self.outlet
    }

    /// Returns the gauge of what the connection puts on the uplink, if that is paced.
    pub(crate) fn gauge(&self) -> Option<&Rc<SocketGauge>> {
        match &self.outlet {
            Outlet::Gauged(gauge) => Some(gauge),
            Outlet::Plain | Outlet::Marked(_) => None,
        }
    }

    /// Returns the code point of the connection's packets, if they have borne any.
    pub(crate) fn mark(&self) -> Option<&Rc<WireMark>> {
        self.mark.get()
    }

    /// Returns the code point of the connection's packets, which may bear one from now on.
    pub(crate) fn begin_mark(&self) -> &Rc<WireMark> {
        self.mark.get_or_init(Rc::default)
    }

    /// Returns the bytes that the socket has taken since the connection was accepted.
    pub(crate) fn written(&self) -> u64 {
        self.written.get()
    }

    /// Notes that the socket has taken `bytes` more bytes.
    pub(super) fn wrote(&self, bytes: usize) {
        self.written.set(self.written.get() + bytes as u64);
    }

    /// Notes that the socket has taken all that was offered.
    pub(super) fn flushed(&self) {
        match &self.outlet {
            Outlet::Plain => {}
            Outlet::Gauged(gauge) => gauge.flushed(),
            Outlet::Marked(mark) => mark.flushed(),
        }
        if let Some(mark) = self.mark() {
            mark.flushed();
        }
    }
}
