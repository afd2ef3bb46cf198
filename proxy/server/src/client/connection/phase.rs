//! The phases of connections, and of the answers to their requests.

use std::num::NonZeroUsize;

use tokio::time::Instant;

/// The state of the answer to a request whose head was read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum AnswerPhase {
    /// The handler is at work on the answer.
    Waiting {
        /// The time at which the handler wants to be polled again; `None` if it has
        /// timers of its own.
        until: Option<Instant>,
    },
    /// The head of the response went out: its body follows.
    Responding,
}

impl AnswerPhase {
    /// Returns when the handler wants to be polled again.
    pub(super) fn next_deadline(self) -> Option<Instant> {
        match self {
            Self::Waiting { until } => until,
            Self::Responding => None,
        }
    }
}

/// The state of a connection of HTTP/1.1, as which each begins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Http1Phase {
    /// The connection was accepted, or a request has begun: its head is waited for.
    Head {
        /// The time since which the head has been waited for.
        since: Instant,
        /// Whether any byte of the head has come.
        begun: bool,
    },
    /// A request is being answered.
    Answering(AnswerPhase),
    /// The response went out: the next request is waited for.
    Idle {
        /// The time since which the connection has been idle.
        since: Instant,
    },
}

/// The state of a connection of HTTP/2. Each of its streams has an [`AnswerPhase`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Http2Phase {
    /// Some streams have responses that are not in the socket.
    Answering {
        /// The number of such streams, at least one.
        streams: NonZeroUsize,
    },
    /// The connection has no open stream: the next request is waited for.
    Idle {
        /// The time since which the connection has been idle.
        since: Instant,
    },
}

impl Http2Phase {
    /// Returns the state once another stream has opened.
    pub(super) fn opened(self) -> Self {
        let streams = match self {
            Self::Answering { streams } => streams.saturating_add(1),
            Self::Idle { .. } => NonZeroUsize::MIN,
        };
        Self::Answering { streams }
    }

    /// Returns the state once a stream has closed at `now`.
    pub(super) fn closed(self, now: Instant) -> Self {
        match self {
            Self::Answering { streams } => match NonZeroUsize::new(streams.get() - 1) {
                Some(streams) => Self::Answering { streams },
                None => Self::Idle { since: now },
            },
            Self::Idle { .. } => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_connection_is_idle_when_its_last_stream_has_closed() {
        let start = Instant::now();
        let end = start + Duration::from_secs(1);
        let two = Http2Phase::Idle { since: start }.opened().opened();
        let one = two.closed(end);
        assert!(matches!(one, Http2Phase::Answering { streams } if streams.get() == 1));
        let none = one.closed(end);
        assert_eq!(none, Http2Phase::Idle { since: end });
        // One that never opened changes nothing.
        assert_eq!(none.closed(start), none);
    }
}
