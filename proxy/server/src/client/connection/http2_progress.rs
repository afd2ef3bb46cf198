//! The progress of an HTTP/2 response towards the client, and how long the client may take
//! over it.

use sprat_net::error::Reason;
use sprat_scheduler::Time;
use sprat_uplink::CodedMark;
use tokio::time::Instant;

use super::http2_stream::Http2Stream;

impl Http2Stream {
    /// Returns the stream's next deadline; none while nothing is being waited for.
    pub(super) fn next_deadline(&self, now: Instant) -> Option<Instant> {
        let connection = &self.connection;
        let listener = &connection.listener.config;
        let open = connection.open_time(now);
        // At the soonest: the socket may be full meanwhile.
        let when_open = |due: Time| now + due.since(open);
        let stall = self.moved_at.get() + listener.stream_idle_timeout;
        let stalled = self.awaits_client().then(|| when_open(stall));
        let rules = listener.limits.min_rates.of_response();
        let look = rules.and_then(|rules| {
            let patience = self.patience.get();
            // While the client owes nothing, whether others need its places need not be asked.
            patience.due(&rules.idle)?;
            rules.next_look(&patience, open, connection.is_pressed())
        });
        let judged = look.map(when_open);
        let answer = self.phase.get().next_deadline();
        let progress = self.progress.next_deadline();
        let deadlines = [answer, progress, stalled, judged];
        deadlines.into_iter().flatten().min()
    }

    /// Returns why the stream is to be cut, if something has taken too long.
    pub(super) fn overdue(&self, now: Instant) -> Option<Reason> {
        let connection = &self.connection;
        let listener = &connection.listener.config;
        let open = connection.open_time(now);
        let still = open.since(self.moved_at.get());
        if self.awaits_client() && still >= listener.stream_idle_timeout {
            return Some(Reason::ClientStalled);
        }
        if let Some(rules) = listener.limits.min_rates.of_response() {
            let mut patience = self.patience.get();
            let is_due = patience.waited(open) >= rules.under_load.window;
            let is_too_slow =
                is_due && patience.is_too_slow(open, rules.at(connection.is_pressed()));
            self.patience.set(patience);
            if is_too_slow {
                return Some(Reason::ResponseTooSlow);
            }
        }
        self.progress.overdue(now)
    }

    /// Makes a change to the stream, and notes if the client begins or ceases to be waited for.
    fn change(&self, change: impl FnOnce(&Self)) {
        let before = self.awaits_client();
        change(self);
        let after = self.awaits_client();
        if before == after {
            return;
        }
        let open = self.connection.open_time(Instant::now());
        let mut patience = self.patience.get();
        if after {
            self.moved_at.set(open);
            patience.wait(open);
        } else {
            patience.resume(open);
        }
        self.patience.set(patience);
    }
}

/// The reports of a response's body (`multiplexed`).
impl Http2Stream {
    /// Notes that the body has given a chunk; returns the mark of its packets, if they bear one.
    pub(super) fn given(&self) -> Option<CodedMark> {
        self.change(|own| own.in_flight.set(own.in_flight.get() + 1));
        if let Some(gauge) = self.connection.wire.gauge() {
            gauge.chunk_given();
        }
        self.connection.wire.mark()?.chunk_given()
    }

    /// Notes that bytes of a chunk with this mark are the next for the socket.
    pub(super) fn offered(&self, own: Option<CodedMark>) {
        if let Some(mark) = self.connection.wire.mark() {
            mark.chunk_offered(own);
        }
    }

    /// Notes whether the body has been asked for more. If not, hyper asks as soon as the
    /// stream's window has room.
    pub(super) fn asked(&self, is_asked: bool) {
        self.change(|own| own.asked.set(is_asked));
    }

    /// Notes that the socket takes `bytes` bytes of the body's chunks.
    pub(super) fn moved(&self, bytes: usize) {
        self.moved_at.set(self.connection.open_time(Instant::now()));
        self.begun.set(true);
        let mut patience = self.patience.get();
        patience.moved(bytes as u64);
        self.patience.set(patience);
    }

    /// Notes that a chunk has left the stream: the socket has the `whole` of it, or never will.
    pub(super) fn gone(&self, whole: bool) {
        self.change(|own| own.in_flight.set(own.in_flight.get() - 1));
        if !whole {
            self.phase.set(self.phase.get().lost());
            self.connection.wire.lost();
        }
        if let Some(gauge) = self.connection.wire.gauge() {
            gauge.chunk_gone();
        }
        if let Some(mark) = self.connection.wire.mark() {
            mark.chunk_gone(whole);
        }
        if self.in_flight.get() == 0 {
            self.gate.flushed();
            self.settle();
        }
    }
}
