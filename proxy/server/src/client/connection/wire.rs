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

    /// Notes that bytes which a body gave will never be written. With room in the socket there may
    /// be nothing else to write, whose end would let the next body give its own.
    pub(super) fn lost(&self) {
        if let Outlet::Marked(mark) = &self.outlet
            && self.blocked.since().is_none()
        {
            mark.flushed();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Waker};

    use bytes::Bytes;
    use http::HeaderMap;
    use http_body::Body as _;
    use http_body_util::Full;
    use sprat_config::resolved::{self, Classes, Engine, KernelEngine, Qdisc, Rate};
    use sprat_scheduler::{Cutoffs, Discipline, Precedence, Size};
    use sprat_uplink::{Course, FlushGate, Marked, SharedUplink, Uplink};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::Instant;

    use super::*;

    /// A stream that notes nothing.
    #[derive(Clone)]
    struct AnyStream;

    impl Course for AnyStream {
        fn is_http2(&self) -> bool {
            true
        }

        fn precedence(&self, _: &HeaderMap) -> Option<Precedence> {
            None
        }

        fn gate(&self) -> Option<&FlushGate> {
            None
        }

        fn upstream_sent(&self) {}

        fn upstream_silent(&self) {}
    }

    /// Returns the sending side of a socket whose responses the kernel orders.
    async fn wire() -> Wire {
        let uplink = resolved::Uplink {
            rate: Rate::Unlimited,
            adapt: false,
            policy: Discipline::Bands(Cutoffs::paper()),
            engine: Engine::Kernel(KernelEngine {
                qdisc: Qdisc::Prio,
                device: None,
            }),
            max_flows: 100,
            guard_factor: 10.0,
            floor_percent: 5,
            counterfactual: false,
            counterfactual_networks: 0,
            share: None,
            marking: None,
            shared: None,
        };
        let shared = SharedUplink::new(&uplink, &Classes::default()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stream = TcpStream::connect(address).await.unwrap();
        Wire::new(Uplink::new(&shared).unwrap().accept(&stream, 1))
    }

    #[tokio::test]
    async fn bytes_that_are_lost_keep_no_other_body_waiting() {
        let wire = wire().await;
        let Outlet::Marked(mark) = wire.outlet() else {
            panic!("the kernel does not order");
        };
        let body = || {
            let whole = Full::new(Bytes::from_static(b"x"));
            Marked::new(whole, &AnyStream, mark, Size::Exact(1))
        };
        let mut bodies = [body(), body(), body()];
        let mut gives = |number: usize| {
            let mut cx = Context::from_waker(Waker::noop());
            Pin::new(&mut bodies[number]).poll_frame(&mut cx).is_ready()
        };
        assert!(gives(0));
        assert!(!gives(1), "the first one's is on its way");
        wire.lost();
        assert!(gives(1));
        // While the socket is full, there is more to write.
        wire.blocked.begin(Instant::now());
        wire.lost();
        assert!(!gives(2));
        wire.flushed();
        assert!(gives(2));
    }
}
