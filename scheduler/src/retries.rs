//! The step that follows a failed attempt at a request, as a pure function: so it is a table.
//!
//! An attempt that fails may be made good in three ways. A connection that was dead, or refused,
//! before the endpoint read the request is replaced by a new one to the same endpoint, which costs
//! the endpoint nothing. Where the endpoint is away, the request may wait for one: the cluster must
//! allow it, and bounds its time. Any other new attempt is a repetition: the route's policy must
//! allow it, the station finds it a place, and the budget counts it
//! ([`Station::step_back`](crate::station::Station::step_back)).

/// The number of an endpoint's connections that may refuse a request one after the other.
pub const REFUSED_CONNECTIONS_MAX: u32 = 3;

/// The rules for what may follow a failure: those of the route for repetitions, and that of the
/// cluster for waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// The most repetitions of a request.
    pub repeats_max: u32,
    /// Whether a request that found no connection is repeated.
    pub connect_failure: bool,
    /// Whether a request that the endpoint left unread is repeated.
    pub refused_stream: bool,
    /// Whether a request that got no response is repeated.
    pub reset: bool,
    /// Whether a request whose endpoint is away waits for one. The cluster says so, not the route.
    pub waits_for_endpoint: bool,
}

/// The history of a request before the attempt that has failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The number of repetitions so far.
    pub repeats: u32,
    /// Whether a dead connection was replaced. That happens once, for all endpoints together: an
    /// endpoint that dies of the request must not get it over and over.
    pub is_replaced: bool,
    /// Whether a response is held that the client gets if no repetition brings another.
    pub holds_response: bool,
}

/// The history of an attempt at one endpoint before the connection that has failed. Each attempt
/// has its own: the two of a hedge are under way at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttemptHistory {
    /// The endpoint's connections, in a row, that have refused the request.
    pub refused_connections: u32,
    /// Whether the attempt has replaced a connection, and takes none that was kept any more.
    pub needs_new_connection: bool,
}

/// The way in which an attempt has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The endpoint let no connection come about.
    Unreached,
    /// The proxy could open no connection for want of something of its own, such as ports.
    Shortage,
    /// The endpoint was about to end the connection, and did not read the request.
    RefusedConnection,
    /// The endpoint has refused this request alone, unread.
    RefusedStream,
    /// The connection ended before anything of the request was sent.
    Untouched,
    /// The connection or the attempt's time ended without a response.
    Reset,
    /// The response has a status after which the route repeats a request.
    Status,
    /// The time for the request as a whole is over.
    OutOfTime,
}

/// The facts of an attempt that has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The way in which the attempt has failed.
    pub failure: Failure,
    /// Whether the reason of the failure is one of an endpoint that is away, and may come back. An
    /// endpoint that, say, refuses TLS is there.
    pub is_away: bool,
    /// Whether the attempt's connection was kept from an earlier request, and dead before the
    /// endpoint could read this one.
    pub was_dead: bool,
    /// Whether the request can be sent again: its body is still there, and either it is
    /// safe to repeat or the endpoint has not read it.
    pub is_repeatable: bool,
    /// The history of the attempt before the connection that has failed.
    pub attempt: AttemptHistory,
}

/// The next step of a request whose attempt has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The request is sent again on a new connection to the same endpoint.
    Reconnect,
    /// The request waits until an endpoint can be reached. That is no repetition: the cluster
    /// bounds its time, not the route its number.
    Wait,
    /// The request asks the station for another place.
    Repeat {
        /// Whether the endpoint may have worked on the request, so that the repetition counts
        /// towards the budget.
        sent: bool,
        /// Whether the station is to know the endpoint as one that could not be reached.
        unreached: bool,
    },
    /// The request ends: the client gets the response that there is, or an error.
    End,
}

/// Decides the next step of a request whose attempt has failed.
pub fn next(allowance: Allowance, history: History, broken: Broken) -> Step {
    if broken.failure == Failure::OutOfTime || !broken.is_repeatable {
        return Step::End;
    }
    let is_late = broken.failure == Failure::RefusedConnection
        && broken.attempt.refused_connections < REFUSED_CONNECTIONS_MAX;
    let is_dead = broken.was_dead && broken.failure.is_unexplained() && !history.is_replaced;
    if is_late || is_dead {
        return Step::Reconnect;
    }
    let is_away = broken.failure == Failure::Unreached && broken.is_away;
    // A response that is held is better than a wait.
    if allowance.waits_for_endpoint && is_away && !history.holds_response {
        return Step::Wait;
    }
    if history.repeats >= allowance.repeats_max || !allowance.allows(broken.failure) {
        return Step::End;
    }
    Step::Repeat {
        sent: broken.failure.is_of_a_connection(),
        unreached: broken.failure == Failure::Unreached,
    }
}

impl Allowance {
    /// The allowance for the proxy's own requests: repetitions after the failures of a route's
    /// `retry_on` by default. Their number has no bound but that each endpoint gets a question
    /// once. They wait for no endpoint: what they ask is soon of no use.
    pub const OF_QUESTIONS: Self = Self {
        repeats_max: u32::MAX,
        connect_failure: true,
        refused_stream: true,
        reset: false,
        waits_for_endpoint: false,
    };

    fn allows(self, failure: Failure) -> bool {
        match failure {
            Failure::Unreached | Failure::Shortage => self.connect_failure,
            Failure::RefusedConnection | Failure::RefusedStream | Failure::Untouched => {
                self.refused_stream
            }
            Failure::Reset => self.reset,
            // The route has looked at the status before it called it a failure.
            Failure::Status => true,
            Failure::OutOfTime => false,
        }
    }
}

impl History {
    /// Notes that an `attempt` goes on with a new connection after this failure
    /// ([`Step::Reconnect`]).
    pub fn reconnect(&mut self, attempt: &mut AttemptHistory, failure: Failure) {
        attempt.needs_new_connection = true;
        match failure {
            Failure::RefusedConnection => attempt.refused_connections += 1,
            // The connection was dead.
            _ => self.is_replaced = true,
        }
    }
}

impl Failure {
    /// Returns the word of `retry_on` for the failure; `None` for a status, for which there are
    /// several.
    pub fn word(self) -> Option<&'static str> {
        match self {
            Self::Unreached | Self::Shortage => Some("connect-failure"),
            Self::RefusedConnection | Self::RefusedStream | Self::Untouched => {
                Some("refused-stream")
            }
            Self::Reset | Self::OutOfTime => Some("reset"),
            Self::Status => None,
        }
    }

    /// Returns whether the connection ended without a reason from the endpoint.
    fn is_unexplained(self) -> bool {
        matches!(self, Self::Untouched | Self::Reset)
    }

    /// Returns whether there was a connection at all.
    fn is_of_a_connection(self) -> bool {
        !matches!(self, Self::Unreached | Self::Shortage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Failure; 8] = [
        Failure::Unreached,
        Failure::Shortage,
        Failure::RefusedConnection,
        Failure::RefusedStream,
        Failure::Untouched,
        Failure::Reset,
        Failure::Status,
        Failure::OutOfTime,
    ];
    const EVERYTHING: Allowance = Allowance {
        repeats_max: 2,
        connect_failure: true,
        refused_stream: true,
        reset: true,
        waits_for_endpoint: false,
    };
    const NOTHING: Allowance = Allowance {
        repeats_max: 2,
        connect_failure: false,
        refused_stream: false,
        reset: false,
        waits_for_endpoint: false,
    };
    const WAITING: Allowance = Allowance {
        waits_for_endpoint: true,
        ..EVERYTHING
    };
    const UNREACHED: Step = Step::Repeat {
        sent: false,
        unreached: true,
    };
    const UNSENT: Step = Step::Repeat {
        sent: false,
        unreached: false,
    };
    const SENT: Step = Step::Repeat {
        sent: true,
        unreached: false,
    };

    fn broken(failure: Failure) -> Broken {
        Broken {
            failure,
            is_away: false,
            was_dead: false,
            is_repeatable: true,
            attempt: AttemptHistory::default(),
        }
    }

    fn away(failure: Failure) -> Broken {
        Broken {
            is_away: true,
            ..broken(failure)
        }
    }

    fn refused(failure: Failure) -> Broken {
        let attempt = AttemptHistory {
            refused_connections: REFUSED_CONNECTIONS_MAX,
            needs_new_connection: true,
        };
        Broken {
            attempt,
            ..broken(failure)
        }
    }

    fn dead(failure: Failure) -> Broken {
        Broken {
            was_dead: true,
            ..broken(failure)
        }
    }

    /// A row of the table: the allowance, the history, how each failure breaks, and its step.
    type Row = (Allowance, History, fn(Failure) -> Broken, [Step; 8]);

    fn steps(allowance: Allowance, history: History, of: fn(Failure) -> Broken) -> [Step; 8] {
        ALL.map(|failure| next(allowance, history, of(failure)))
    }

    #[test]
    fn each_failure_has_its_step() {
        use Step::{End, Reconnect};
        let fresh = History::default();
        let replaced = History {
            is_replaced: true,
            ..fresh
        };
        let used_up = History {
            repeats: 2,
            ..fresh
        };
        // In the order of `ALL`.
        let table: [Row; 8] = [
            (
                EVERYTHING,
                fresh,
                broken,
                [UNREACHED, UNSENT, Reconnect, SENT, SENT, SENT, SENT, End],
            ),
            (
                EVERYTHING,
                fresh,
                dead,
                [
                    UNREACHED, UNSENT, Reconnect, SENT, Reconnect, Reconnect, SENT, End,
                ],
            ),
            (
                EVERYTHING,
                replaced,
                dead,
                [UNREACHED, UNSENT, Reconnect, SENT, SENT, SENT, SENT, End],
            ),
            (
                EVERYTHING,
                fresh,
                refused,
                [UNREACHED, UNSENT, SENT, SENT, SENT, SENT, SENT, End],
            ),
            (
                NOTHING,
                fresh,
                broken,
                [End, End, Reconnect, End, End, End, SENT, End],
            ),
            (
                NOTHING,
                fresh,
                dead,
                [End, End, Reconnect, End, Reconnect, Reconnect, SENT, End],
            ),
            (
                EVERYTHING,
                used_up,
                broken,
                [End, End, Reconnect, End, End, End, End, End],
            ),
            (
                EVERYTHING,
                used_up,
                dead,
                [End, End, Reconnect, End, Reconnect, Reconnect, End, End],
            ),
        ];
        for (row, (allowance, history, of, expected)) in table.into_iter().enumerate() {
            assert_eq!(steps(allowance, history, of), expected, "row {row}");
        }
    }

    #[test]
    fn an_absent_endpoint_is_waited_for_where_the_cluster_says_so() {
        use Step::{End, Reconnect, Wait};
        let fresh = History::default();
        let held = History {
            holds_response: true,
            ..fresh
        };
        let used_up = History {
            repeats: 2,
            ..fresh
        };
        let waiting_alone = Allowance {
            waits_for_endpoint: true,
            ..NOTHING
        };
        // In the order of `ALL`.
        let rest = [UNSENT, Reconnect, SENT, SENT, SENT, SENT, End];
        let none = [End, Reconnect, End, End, End, End, End];
        let row = |first: Step, rest: [Step; 7]| {
            let mut all = [first; 8];
            all[1..].copy_from_slice(&rest);
            all
        };
        let table: [Row; 6] = [
            (WAITING, fresh, away, row(Wait, rest)),
            // The endpoint is there.
            (WAITING, fresh, broken, row(UNREACHED, rest)),
            // The cluster does not say so.
            (EVERYTHING, fresh, away, row(UNREACHED, rest)),
            // There is a response.
            (WAITING, held, away, row(UNREACHED, rest)),
            // The route's rules are for repetitions.
            (WAITING, used_up, away, row(Wait, none)),
            (waiting_alone, used_up, away, row(Wait, none)),
        ];
        for (row, (allowance, history, of, expected)) in table.into_iter().enumerate() {
            assert_eq!(steps(allowance, history, of), expected, "row {row}");
        }
    }

    #[test]
    fn connections_are_replaced_as_often_as_each_kind_may() {
        let mut history = History::default();
        let mut attempt = AttemptHistory::default();
        let mut failures = Vec::new();
        let order = [
            Failure::RefusedConnection,
            Failure::Reset,
            Failure::RefusedConnection,
            Failure::Untouched,
            Failure::RefusedConnection,
            Failure::RefusedConnection,
        ];
        for failure in order {
            let broken = Broken {
                attempt,
                ..dead(failure)
            };
            if next(NOTHING, history, broken) == Step::Reconnect {
                history.reconnect(&mut attempt, failure);
                assert!(attempt.needs_new_connection);
                failures.push(failure);
            }
        }
        // The second dead connection is not replaced, nor the fourth that has refused.
        assert_eq!(failures, [order[0], order[1], order[2], order[4]]);
        assert_eq!(attempt.refused_connections, REFUSED_CONNECTIONS_MAX);
        assert!(history.is_replaced);
        // Another endpoint gets as many refusals again, but no second dead connection.
        let steps = [Failure::RefusedConnection, Failure::Reset]
            .map(|failure| next(NOTHING, history, dead(failure)));
        assert_eq!(steps, [Step::Reconnect, Step::End]);
    }

    #[test]
    fn a_failure_has_the_word_that_allows_its_repetition() {
        for failure in ALL {
            let word = failure.word();
            let allowance = Allowance {
                connect_failure: word == Some("connect-failure"),
                refused_stream: word == Some("refused-stream"),
                reset: word == Some("reset"),
                ..NOTHING
            };
            let is_over = failure == Failure::OutOfTime;
            assert_eq!(allowance.allows(failure), !is_over, "{failure:?}");
        }
        assert_eq!(Failure::Status.word(), None);
    }

    #[test]
    fn each_cause_is_allowed_by_itself() {
        let only = |connect_failure, refused_stream, reset| Allowance {
            connect_failure,
            refused_stream,
            reset,
            ..NOTHING
        };
        let repeated =
            |allowance| steps(allowance, History::default(), refused).map(|step| step != Step::End);
        let rows = [
            (
                only(true, false, false),
                [true, true, false, false, false, false, true, false],
            ),
            (
                only(false, true, false),
                [false, false, true, true, true, false, true, false],
            ),
            (
                only(false, false, true),
                [false, false, false, false, false, true, true, false],
            ),
        ];
        for (allowance, expected) in rows {
            assert_eq!(repeated(allowance), expected, "{allowance:?}");
        }
    }

    #[test]
    fn a_request_that_cannot_be_sent_again_ends_whatever_is_allowed() {
        for failure in ALL {
            let gone = Broken {
                is_away: true,
                is_repeatable: false,
                ..dead(failure)
            };
            assert_eq!(next(WAITING, History::default(), gone), Step::End);
        }
    }
}
