//! The bounds on an attempt's time, and its outcome.

use std::cell::RefCell;
use std::fmt;

use http::{Request, Response};
use hyper::body::Incoming;
use sprat_config::resolved::RetryPolicy;
use sprat_net::error::{Fault, Reason};
use sprat_net::upload::RequestBody;
use sprat_scheduler::health::Outcome;
use sprat_scheduler::retries::{Failure, Step};
use sprat_upstream::{Lease, Place, Refused, Silence};
use tokio::time::Instant;

/// The bounds on the time of an attempt.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due<'a> {
    /// The time when the whole exchange began.
    pub(super) started: Instant,
    /// The deadline of the whole exchange.
    pub(super) deadline: Option<Instant>,
    /// Whether the attempt waits by timers of its own, not by the connection's: there may
    /// be several attempts at a time.
    pub(super) own_timers: bool,
    /// The attempt that is to note when the request has been sent, if a second may follow.
    pub(super) sent: Option<&'a Sent>,
}

/// A time by which something must have happened, and the reason for which an attempt fails if it
/// has not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expiry {
    pub(super) at: Instant,
    pub(super) reason: Reason,
}

impl Expiry {
    /// Returns the earlier of two times.
    pub(super) fn earlier(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        [one, other].into_iter().flatten().min_by_key(|own| own.at)
    }
}

/// An attempt that was answered.
pub(super) struct Answer {
    pub(super) response: Response<Incoming>,
    pub(super) lease: Lease,
    /// The time when the response's head was there.
    pub(super) heard: Instant,
}

impl Answer {
    /// Makes an answer of a response that is accepted only now.
    pub(super) fn now(response: Response<Incoming>, lease: Lease) -> Self {
        Self {
            response,
            lease,
            heard: Instant::now(),
        }
    }
}

/// An attempt that got no answer, or one that the route does not want.
pub(super) struct Failed {
    pub(super) reason: Reason,
    pub(super) failure: Failure,
    /// The step that the request goes on with.
    pub(super) step: Step,
    pub(super) lease: Lease,
    /// The request, if it may be sent again.
    pub(super) request: Option<Box<Request<RequestBody>>>,
    /// The response that the client gets if the request is not repeated.
    pub(super) response: Option<Response<Incoming>>,
    /// Whether the attempt is among its endpoint's errors, if it belongs there.
    pub(super) is_counted: bool,
}

/// The last response that led to a repetition, kept in case that brings none.
pub(super) type HeldAnswer = Option<Box<Answer>>;

/// The step that an exchange takes after an attempt that failed.
pub(super) enum Next {
    Attempt(Lease, Box<Request<RequestBody>>),
    /// The exchange takes this answer, after all.
    Answer(Answer),
}

impl Failed {
    /// Returns the word of `retry_on` by which the request is repeated.
    pub(super) fn word(&self, policy: &RetryPolicy) -> Option<&'static str> {
        self.failure.word().or_else(|| {
            let status = self.response.as_ref()?.status();
            policy.word_of_status(status.as_u16())
        })
    }

    /// Counts an attempt that got no response among its endpoint's errors, once, if it failed by
    /// the endpoint's fault. (The one that its request ends with is counted by the request's
    /// record.)
    pub(super) fn count(&mut self) {
        let is_error = self.response.is_none() && self.reason.facts().fault == Fault::Upstream;
        if is_error && !self.is_counted {
            self.lease.endpoint().stats.errors[self.reason.index()].increment();
        }
        self.is_counted = true;
    }

    /// Ends a request that is not repeated: the client gets its response, or the one that is
    /// `held`, which is better than none. If the route's time is up, the held one is not given.
    pub(super) fn end(mut self, held: &mut HeldAnswer) -> Result<Next, Reason> {
        if let Some(response) = self.response {
            return Ok(Next::Answer(Answer::now(response, self.lease)));
        }
        match held.take() {
            Some(answer) if self.reason != Reason::RouteTimeout => {
                self.count();
                Ok(Next::Answer(*answer))
            }
            _ => Err(self.reason),
        }
    }
}

/// The first of two attempts at a request, as the second sees it.
pub(super) struct Sent {
    place: Place,
    silence: RefCell<Option<Silence>>,
}

impl fmt::Debug for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sent").finish_non_exhaustive()
    }
}

impl Sent {
    /// Returns an attempt with this lease, before it is sent.
    pub(super) fn with(lease: &Lease) -> Self {
        Self {
            place: lease.place(),
            silence: RefCell::new(None),
        }
    }

    /// Notes that the request is sent; `silence` begins with that.
    pub(super) fn note(&self, silence: &Silence) {
        self.silence.replace(Some(silence.clone()));
    }

    /// Counts this attempt as one without a response, if its endpoint has sent no byte: the
    /// same request, sent later to another endpoint, has been answered. An answer of 5xx
    /// is no measure.
    pub(super) fn overtaken_by(&self, answer: &Answer) {
        let status = answer.response.status().as_u16();
        let was_silent = match &*self.silence.borrow() {
            Some(silence) => silence.has_heard_nothing(),
            // Who waits for a connection to be closed here waits for us.
            None => self.place.may_connect(),
        };
        if was_silent && Outcome::of_status(status) == Outcome::Success {
            self.place.observe(|| Outcome::NoResponse);
        }
    }
}

/// Returns how an attempt has failed for a reason: `otherwise`, unless the reason says more.
pub(super) fn failure_for(reason: Reason, otherwise: Failure) -> Failure {
    match reason {
        Reason::RouteTimeout => Failure::OutOfTime,
        _ if reason.is_shortage() => Failure::Shortage,
        _ => otherwise,
    }
}

/// Returns how an attempt has failed whose connection or stream ended before there was an answer.
pub(super) fn cut_off(refused: Option<Refused>, is_untouched: bool) -> Failure {
    match refused {
        Some(Refused::Connection) => Failure::RefusedConnection,
        Some(Refused::Stream) => Failure::RefusedStream,
        None if is_untouched => Failure::Untouched,
        None => Failure::Reset,
    }
}

/// Returns whether the reason of a failure is one of an endpoint that is away, and may come back.
pub(super) fn is_away(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::ConnectionRefused
            | Reason::ConnectionTimeout
            | Reason::ConnectionTerminated
            | Reason::Unreachable
            | Reason::NameNotFound
    )
}

/// Returns whether the lack of a response is the endpoint's doing, as far as the reason tells.
pub(super) fn is_of_endpoint(reason: Reason) -> bool {
    !reason.is_shortage() && reason.facts().fault == Fault::Upstream
}

/// Returns whether an endpoint that was `asked` then has had a fair part of a request's time
/// until `now`: at least as much as had passed before.
pub(super) fn had_fair_part(started: Instant, asked: Instant, now: Instant) -> bool {
    now.saturating_duration_since(asked) >= asked.saturating_duration_since(started)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_endpoint_had_a_fair_part_if_it_had_half_of_the_time() {
        let started = Instant::now();
        let had = |asked_ms, now_ms| {
            let at = |ms| started + Duration::from_millis(ms);
            had_fair_part(started, at(asked_ms), at(now_ms))
        };
        for (asked_ms, expected) in [
            (0, true),
            (1, true),
            (2500, true),
            (2501, false),
            (4900, false),
            (5000, false),
        ] {
            assert_eq!(had(asked_ms, 5000), expected, "{asked_ms}");
        }
        // All at once.
        assert!(had(0, 0));
    }
}
