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

/// The state of a request of HTTP/2 whose head was read.
///
/// Only a response that has begun can lose a chunk, or reach the client as a whole. One that has
/// lost a chunk never does. So the states exclude each other, and the last two are final.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum StreamPhase {
    /// The request is being answered, and nothing of the response is lost.
    Answering(AnswerPhase),
    /// A chunk of the response will never be sent. Its body may still go on.
    Lost,
    /// The client has got all of the response.
    Answered,
}

impl StreamPhase {
    /// Returns the state once the answer has entered a phase of its own.
    pub(super) fn entered(self, phase: AnswerPhase) -> Self {
        match self {
            Self::Answering(_) => Self::Answering(phase),
            Self::Lost | Self::Answered => self,
        }
    }

    /// Returns the state once a chunk is known never to be sent.
    pub(super) fn lost(self) -> Self {
        match self {
            Self::Answering(_) | Self::Lost => Self::Lost,
            Self::Answered => self,
        }
    }

    /// Returns the state once the body has ended, and nothing of it is left here.
    pub(super) fn ended(self) -> Self {
        match self {
            Self::Answering(_) | Self::Answered => Self::Answered,
            Self::Lost => self,
        }
    }

    /// Returns whether the head of the response went out.
    pub(super) fn is_responding(self) -> bool {
        match self {
            Self::Answering(phase) => phase == AnswerPhase::Responding,
            Self::Lost | Self::Answered => true,
        }
    }

    /// Returns when the handler wants to be polled again.
    pub(super) fn next_deadline(self) -> Option<Instant> {
        match self {
            Self::Answering(phase) => phase.next_deadline(),
            Self::Lost | Self::Answered => None,
        }
    }
}

/// The state of a connection of HTTP/2. Each of its streams has a [`StreamPhase`].
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

    const RESPONDING: StreamPhase = StreamPhase::Answering(AnswerPhase::Responding);

    #[test]
    fn a_response_is_lost_in_part_or_taken_as_a_whole() {
        let waiting = StreamPhase::Answering(AnswerPhase::Waiting { until: None });
        assert_eq!(waiting.entered(AnswerPhase::Responding), RESPONDING);
        assert_eq!(RESPONDING.ended(), StreamPhase::Answered);
        assert_eq!(RESPONDING.lost(), StreamPhase::Lost);
        // Other chunks are lost as well, or are sent; then the body ends.
        assert_eq!(StreamPhase::Lost.lost(), StreamPhase::Lost);
        assert_eq!(StreamPhase::Lost.ended(), StreamPhase::Lost);
        assert_eq!(StreamPhase::Answered.lost(), StreamPhase::Answered);
        assert_eq!(StreamPhase::Answered.ended(), StreamPhase::Answered);
        for over in [StreamPhase::Lost, StreamPhase::Answered] {
            assert_eq!(over.entered(AnswerPhase::Responding), over);
        }
    }

    #[test]
    fn a_handler_is_polled_again_at_the_time_that_it_has_named_last() {
        let at = Instant::now();
        let later = at + Duration::from_secs(1);
        let waiting = |until| AnswerPhase::Waiting { until };
        let first = StreamPhase::Answering(waiting(Some(at)));
        assert_eq!(first.next_deadline(), Some(at));
        let second = first.entered(waiting(Some(later)));
        assert_eq!(second.next_deadline(), Some(later));
        assert_eq!(second.entered(waiting(None)).next_deadline(), None);
        assert!(!second.is_responding());
        for phase in [RESPONDING, StreamPhase::Lost, StreamPhase::Answered] {
            assert!(phase.is_responding());
            assert_eq!(phase.next_deadline(), None);
        }
    }

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
