//! A request and its response: what is true of them, and not of the rest of
//! their connection.

use std::rc::Rc;
use std::time::Duration;

use http::HeaderMap;
use sprat_net::error::Reason;
use sprat_net::framing::Slips;
use sprat_scheduler::Precedence;
use sprat_uplink::{Course, FlushGate};
use tokio::time::Instant;

use super::account::Account;
use super::http2_stream::Http2Stream;
use super::phase::{Phase, ResponseBounds};
use super::state::Connection;
use super::stream_state::StreamState;
use crate::client::precedence;

/// A request's place on its connection.
#[derive(Clone)]
pub(crate) struct Stream {
    /// The connection that it came on.
    pub(crate) connection: Rc<Connection>,
    /// The state of the request in HTTP/2. In HTTP/1.1 there is one request at a
    /// time, which the connection holds.
    pub(super) http2: Option<Rc<Http2Stream>>,
}

impl Stream {
    /// Returns the place of the one request that an HTTP/1.1 connection has at a time.
    pub(crate) fn only(connection: &Rc<Connection>) -> Self {
        Self {
            connection: Rc::clone(connection),
            http2: None,
        }
    }

    fn state(&self) -> &StreamState {
        match &self.http2 {
            None => &self.connection.only,
            Some(stream) => &stream.state,
        }
    }

    /// Notes that the handler waits, and wants to be polled again by then.
    pub(crate) fn wait_until(&self, at: Instant) {
        let until = Some(at);
        self.state().phase.set(Phase::Waiting { until });
    }

    /// Notes that the handler waits by timers of its own.
    pub(crate) fn wait(&self) {
        self.state().phase.set(Phase::Waiting { until: None });
    }

    /// Notes that the request's head has been read; returns what was wrong with it.
    pub(crate) fn begin_request(&self) -> Slips {
        match &self.http2 {
            None => {
                self.wait();
                // The next request may be on its way, and is not answered.
                let is_last = self.connection.is_ending();
                self.connection.http1.lingers.set(is_last);
                if let Some(earlier) = &mut *self.connection.http1.finishing.borrow_mut() {
                    // Pipelined: it has been answered, though the socket may not
                    // have taken all of it.
                    earlier.leave();
                }
                self.connection.http1.watch.borrow_mut().next_head()
            }
            // Its frames leave no room for them.
            Some(_) => Slips::default(),
        }
    }

    /// Notes that the response's head goes out; its body follows.
    pub(crate) fn begin_response(&self, bounds: Option<ResponseBounds>) {
        self.state().begin(bounds);
    }

    /// Returns whether a response is on its way.
    pub(crate) fn is_responding(&self) -> bool {
        self.state().phase.get() == Phase::Responding
    }

    /// Returns how long the upstream was waited for since the response began.
    pub(crate) fn upstream_silence(&self) -> Duration {
        self.state().upstream_silence()
    }

    /// Returns whether the upstream has paused in the midst of the response.
    pub(crate) fn has_paused(&self) -> bool {
        self.state().has_paused()
    }

    /// Returns whether the client, or the uplink, has kept the upstream from
    /// sending for so long that it may have given up for that.
    pub(crate) fn has_held_up(&self) -> bool {
        self.state().has_held_up()
    }

    /// Returns whether it is the upstream that is waited for.
    pub(crate) fn is_upstream_silent(&self) -> bool {
        self.state().is_upstream_silent()
    }

    /// Returns whether a body should give no more for now, for the socket takes
    /// none. What is read from upstream meanwhile would come in more and smaller
    /// pieces, and lie here. The connection is woken when that changes. (In HTTP/2
    /// hyper asks only for what it has room for.)
    pub(crate) fn hold_back(&self) -> bool {
        let blocked = self.connection.wire.blocked.since().is_some();
        let held = blocked && self.http2.is_none();
        self.connection.wire.holds_back.set(held);
        held
    }

    /// Notes that the response is complete up to what hyper and the socket still
    /// hold. The record is completed when the socket has taken it all.
    pub(crate) fn finish(&self, record: Box<dyn Account>, now: Instant) {
        let state = self.state();
        state.end();
        if let Some(stream) = &self.http2 {
            stream.finish(record);
            return;
        }
        if let Some(earlier) = self.connection.http1.finishing.replace(Some(record)) {
            // Pipelined: the earlier response went out before this one began.
            earlier.complete();
        }
        if self.is_responding() {
            // Some of the next head may have come with what was before it.
            let begun = self.connection.http1.watch.borrow().in_head();
            state.phase.set(match begun {
                true => Phase::Head { since: now, begun },
                false => Phase::Idle { since: now },
            });
            self.connection.tell_end();
        }
    }

    /// Reads from the client for a while if the connection ends with the present
    /// answer. The client may still be sending, and the answer is to arrive. (A
    /// stream of HTTP/2 ends by itself.)
    pub(crate) fn close_lingering(&self) {
        self.connection.http1.lingers.set(self.http2.is_none());
    }

    /// Returns why the request is being cut, if it is.
    pub(crate) fn cut_reason(&self) -> Option<Reason> {
        let own = self.http2.as_ref().and_then(|stream| stream.cut.get());
        own.or(self.connection.cut_reason())
    }
}

impl Course for Stream {
    fn is_http2(&self) -> bool {
        self.http2.is_some()
    }

    fn precedence(&self, response: &HeaderMap) -> Option<Precedence> {
        let own = self.http2.as_ref()?;
        Some(precedence::told(response, own.precedence.get()))
    }

    fn gate(&self) -> Option<&FlushGate> {
        self.http2.as_ref().map(|stream| &stream.gate)
    }

    fn upstream_sent(&self) {
        self.state().upstream_sent();
    }

    fn upstream_silent(&self) {
        self.state().upstream_silent();
    }
}
