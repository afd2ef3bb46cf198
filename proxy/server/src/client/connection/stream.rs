//! A request and its response, apart from the rest of their connection.

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
use super::phase::{AnswerPhase, Http1Phase};
use super::progress::{ResponseBounds, ResponseProgress};
use super::state::Connection;
use crate::client::precedence;

/// A request's place on its connection.
#[derive(Clone)]
pub(crate) enum Stream {
    /// The one request that a connection of HTTP/1.1 has at a time, or a request that
    /// failed before it had a stream.
    Only(Rc<Connection>),
    /// A request of HTTP/2.
    Http2(Rc<Http2Stream>),
}

impl Stream {
    /// Returns the connection that the request came on.
    pub(crate) fn connection(&self) -> &Rc<Connection> {
        match self {
            Self::Only(connection) => connection,
            Self::Http2(stream) => &stream.connection,
        }
    }

    fn progress(&self) -> &ResponseProgress {
        match self {
            Self::Only(connection) => &connection.http1.progress,
            Self::Http2(stream) => &stream.progress,
        }
    }

    fn enter(&self, phase: AnswerPhase) {
        match self {
            Self::Only(connection) => {
                let phase = Http1Phase::Answering(phase);
                connection.http1.phase.set(phase);
            }
            Self::Http2(stream) => stream.phase.set(stream.phase.get().entered(phase)),
        }
    }

    /// Notes that the handler waits, and wants to be polled again at this time.
    pub(crate) fn wait_until(&self, at: Instant) {
        self.enter(AnswerPhase::Waiting { until: Some(at) });
    }

    /// Notes that the handler waits by timers of its own.
    pub(crate) fn wait(&self) {
        self.enter(AnswerPhase::Waiting { until: None });
    }

    /// Notes that the request's head has been read; returns what was wrong with it.
    pub(crate) fn begin_request(&self) -> Slips {
        let connection = match self {
            Self::Only(connection) => connection,
            // Its frames leave no room for them.
            Self::Http2(_) => return Slips::default(),
        };
        self.wait();
        // The next request may be on its way, and is not answered.
        connection.http1.lingers.set(connection.is_ending());
        if let Some(earlier) = &mut *connection.http1.finishing.borrow_mut() {
            // Pipelined: it has been answered, though the socket may not
            // have taken all of it.
            earlier.leave();
        }
        connection.http1.watch.borrow_mut().next_head()
    }

    /// Notes that the response's head goes out; its body follows.
    pub(crate) fn begin_response(&self, bounds: Option<ResponseBounds>) {
        self.enter(AnswerPhase::Responding);
        self.progress().begin(bounds);
    }

    /// Returns whether a response is on its way.
    pub(crate) fn is_responding(&self) -> bool {
        match self {
            Self::Only(connection) => connection.http1.is_responding(),
            Self::Http2(stream) => stream.phase.get().is_responding(),
        }
    }

    /// Returns whether a body that is dropped before it was asked for anything may be one that the
    /// answer goes without. If not, its client has not waited for it. (In HTTP/1.1 hyper asks as
    /// soon as it has the body, if that goes out.)
    pub(crate) fn may_be_bodiless(&self) -> bool {
        match self {
            Self::Only(_) => true,
            Self::Http2(stream) => stream.bodiless.get(),
        }
    }

    /// Returns how long the upstream was waited for since the response began.
    pub(crate) fn upstream_silence(&self) -> Duration {
        self.progress().upstream_silence()
    }

    /// Returns whether the upstream has paused in the midst of the response.
    pub(crate) fn has_paused(&self) -> bool {
        self.progress().has_paused()
    }

    /// Returns whether the client, or the uplink, has kept the upstream from
    /// sending for so long that it may have given up for that.
    pub(crate) fn has_held_up(&self) -> bool {
        self.progress().has_held_up()
    }

    /// Returns whether the upstream is waited for.
    pub(crate) fn is_upstream_silent(&self) -> bool {
        self.progress().is_upstream_silent()
    }

    /// Returns whether a body should give no more for now, because the socket is full.
    /// Bytes read from upstream meanwhile would come in more and smaller pieces, and lie
    /// here. The connection is woken once the socket has room. (In HTTP/2 hyper asks only
    /// for what it has room for.)
    pub(crate) fn hold_back(&self) -> bool {
        let connection = self.connection();
        let blocked = connection.wire.blocked.since().is_some();
        let held = blocked && !self.is_http2();
        connection.wire.holds_back.set(held);
        held
    }

    /// Notes that the response is complete up to what hyper and the socket still
    /// hold. The record is completed when the socket has taken it all.
    pub(crate) fn finish(&self, record: Box<dyn Account>, now: Instant) {
        match self {
            Self::Only(connection) => {
                if connection.http1.finish(record, now) {
                    connection.tell_end();
                }
            }
            Self::Http2(stream) => stream.finish(record),
        }
    }

    /// Makes the connection read from the client for a while, if it ends with the present
    /// answer. The client may still be sending, and the answer is to arrive. (A stream of
    /// HTTP/2 ends by itself.)
    pub(crate) fn close_lingering(&self) {
        if let Self::Only(connection) = self {
            connection.http1.lingers.set(true);
        }
    }

    /// Notes that the client did not want the answer, or has broken its request off.
    pub(crate) fn left(&self) {
        if let Self::Http2(stream) = self {
            stream.left.set(true);
        }
    }

    /// Returns why the request is being cut, if it is.
    pub(crate) fn cut_reason(&self) -> Option<Reason> {
        match self {
            Self::Only(connection) => connection.cut_reason(),
            Self::Http2(stream) => stream.cut.get().or(stream.connection.cut_reason()),
        }
    }
}

impl Course for Stream {
    fn is_http2(&self) -> bool {
        matches!(self, Self::Http2(_))
    }

    fn precedence(&self, response: &HeaderMap) -> Option<Precedence> {
        match self {
            Self::Only(_) => None,
            Self::Http2(stream) => Some(precedence::told(response, stream.precedence.get())),
        }
    }

    fn gate(&self) -> Option<&FlushGate> {
        match self {
            Self::Only(_) => None,
            Self::Http2(stream) => Some(&stream.gate),
        }
    }

    fn upstream_sent(&self) {
        self.progress().upstream_sent();
    }

    fn upstream_silent(&self) {
        self.progress().upstream_silent();
    }
}
