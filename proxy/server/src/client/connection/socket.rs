//! A connection's reactions to what its socket reports.

use std::io;
use std::os::fd::BorrowedFd;

use sprat_net::clock;
use sprat_net::error::Reason;
use sprat_scheduler::Time;
use sprat_uplink::Outlet;
use tokio::time::Instant;

use super::drain::{Drain, Look, Taken};
use super::http2_state::Http2;
use super::io::SocketWatch;
use super::phase::Http1Phase;
use super::state::{Connection, Protocol};
use super::wire::Wire;

impl SocketWatch for Connection {
    fn wire(&self) -> &Wire {
        &self.wire
    }

    fn takes_turns(&self) -> bool {
        match self.protocol() {
            Protocol::Http1(http1) => {
                let is_idle = matches!(http1.phase.get(), Http1Phase::Idle { .. });
                is_idle && http1.watch.borrow().is_between()
            }
            Protocol::Http2(_) => false,
        }
    }

    fn on_read(&self, bytes: &mut [u8]) -> io::Result<()> {
        let http1 = match self.protocol() {
            Protocol::Http1(http1) => http1,
            Protocol::Http2(http2) => {
                self.on_frames(http2, bytes);
                return Ok(());
            }
        };
        http1.hear();
        let mut watch = http1.watch.borrow_mut();
        watch.read(bytes);
        match watch.broken() {
            Some(why) => Err(io::Error::new(io::ErrorKind::InvalidData, why)),
            None => Ok(()),
        }
    }

    fn on_written(&self, bytes: usize) {
        self.wire.wrote(bytes);
        if let Some(mark) = self.wire.mark().and_then(|mark| mark.current()) {
            self.serving.stats.marked_bytes[mark.index()].add(bytes as u64);
        }
        if self.wire.blocked.since().is_none() {
            return;
        }
        let now = clock::now();
        self.wire.blocked.end(now);
        if let Some(drain) = &mut *self.wire.drain.borrow_mut() {
            drain.resume(now);
        }
    }

    fn on_write_blocked(&self, socket: BorrowedFd<'_>) {
        let began = self.wire.blocked.since().is_none();
        let mut drain = self.wire.drain.borrow_mut();
        match &mut *drain {
            Some(drain) if !began => self.judge(drain, socket),
            Some(drain) => drain.wait(clock::now()),
            None => {
                let rules = self.listener.config.limits.min_rates.of_response();
                *drain = rules.map(|rules| {
                    let taken = Taken::of(socket, self.wire.written());
                    Box::new(Drain::new(rules, clock::now(), taken))
                });
            }
        }
        if began {
            self.wire.blocked.begin(clock::now());
            // From now on it is the client who is waited for: the upstream may
            // have sent more, which is not read.
            self.http1.progress.end_silence(clock::now());
        }
    }

    fn on_flushed(&self) {
        self.wire.flushed();
        if self.wire.holds_back.take() {
            self.wake();
        }
    }
}

impl Connection {
    /// Returns what has come of a request line of which no request was made, if any.
    pub(crate) fn unread_line(&self) -> Option<Box<[u8]>> {
        let watch = self.http1.watch.borrow();
        let line = watch.unread_line();
        (!line.is_empty()).then(|| line.into())
    }

    fn on_frames(&self, http2: &Http2, bytes: &[u8]) {
        let mut watch = http2.watch.borrow_mut();
        watch.read(clock::now(), bytes, self.wire.written());
        if watch.is_flooded() {
            self.cut(Reason::Http2Flood);
        }
    }

    /// Notes that the client speaks HTTP/2, and has said so with these bytes.
    pub(super) fn speak_http2(&self, bytes: &[u8]) {
        let now = clock::now();
        self.on_frames(self.begin_http2(now), bytes);
    }

    /// Returns the connection's open time, a clock that stands while the socket is full. A
    /// stream that waits by this clock waits for its own window.
    pub(super) fn open_time(&self, now: Instant) -> Time {
        let life = now.saturating_duration_since(self.accepted);
        Time::ZERO + life.saturating_sub(self.wire.blocked.total(now))
    }

    /// Cuts a client that has taken too little of what it asked for.
    fn judge(&self, drain: &mut Drain, socket: BorrowedFd<'_>) {
        let now = clock::now();
        let queued_here = matches!(self.wire.outlet(), Outlet::Marked(_));
        let taken = || Taken::of(socket, self.wire.written());
        match drain.look(now, taken, queued_here, self.is_pressed()) {
            Look::NotDue => {}
            // The socket's buffer hides it, but there is progress.
            Look::Enough => self.wire.blocked.begin(now),
            Look::TooSlow => self.cut(Reason::ResponseTooSlow),
        }
    }
}
