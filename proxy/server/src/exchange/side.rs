//! Requests of Sprat's own beside a client's: copies, and questions whether a request is
//! served. They hold nothing of the client's. A copy has one attempt; a question is asked
//! again where no endpoint has looked at it.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use http::header::HOST;
use http::{Request, Response, Version};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use sprat_net::error::Reason;
use sprat_net::proxy_protocol::Ends;
use sprat_net::upload::{CopyEnd, RequestBody};
use sprat_scheduler::Size;
use sprat_scheduler::health::Outcome;
use sprat_scheduler::retries::{self, Allowance, AttemptHistory, Failure, History, Step};
use sprat_scheduler::station::Arrival;
use sprat_upstream::{Lease, Refused, SendFailure, Silence, Upstream, broken_reason};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use super::outcome::{cut_off, failure_for, had_fair_part, is_away, is_of_endpoint};
use super::spare::Spare;

/// A request of Sprat's own, beside a client's.
pub(super) struct Side {
    /// The cluster that the request goes to.
    pub(super) upstream: Rc<Upstream>,
    /// The request, with the head that the endpoint gets.
    pub(super) request: Request<RequestBody>,
    /// The index of the request's class.
    pub(super) class: usize,
    /// The ends of the client's connection, for endpoints that are told of them.
    pub(super) ends: Option<Ends>,
    /// The kind of the request, which bounds its time and its attempts.
    pub(super) kind: SideKind,
}

/// The kind of a request of Sprat's own, which bounds its time and its attempts.
#[derive(Clone, Copy)]
pub(super) enum SideKind {
    /// A question, without a body, which may be asked again.
    Question {
        /// The time when the question came up.
        started: Instant,
        /// The time by which the head of an answer is to be there, waits for endpoints
        /// included.
        until: Instant,
    },
    /// A copy, which is not repeated.
    Copy {
        /// The longest time to the head of the answer, from when the copy is sent and the
        /// client has sent all of its body.
        response_timeout: Duration,
    },
}

/// An attempt at a request of Sprat's own that got no answer.
struct BrokenSide {
    reason: Reason,
    facts: retries::Broken,
    /// Whether the failure is held against the endpoint.
    is_own: bool,
    /// The request, if it may be sent again.
    again: Option<Box<Request<RequestBody>>>,
}

impl BrokenSide {
    fn new(
        reason: Reason,
        failure: Failure,
        again: Option<Box<Request<RequestBody>>>,
    ) -> Box<Self> {
        Box::new(Self {
            reason,
            facts: retries::Broken {
                failure: failure_for(reason, failure),
                is_away: is_away(reason),
                was_dead: false,
                // A copy is not, but what a new connection would make good is no failure of
                // its endpoint either.
                is_repeatable: true,
                attempt: AttemptHistory::default(),
            },
            is_own: is_of_endpoint(reason),
            again,
        })
    }

    /// Returns the failure of an attempt whose connection or stream ended before there was
    /// an answer.
    fn cut_off(mut error: SendFailure, silence: &Silence, reused: bool) -> Box<Self> {
        if silence.is_refused() {
            // The endpoint has ended the handshake: there was no connection.
            return Self::new(Reason::TlsAlertReceived, Failure::Unreached, None);
        }
        let is_untouched = error.take_message().is_some();
        let reason = broken_reason(error.error());
        let failure = cut_off(Refused::of(error.error()), is_untouched);
        let mut broken = Self::new(reason, failure, None);
        broken.facts.was_dead = reused && (is_untouched || silence.was_dead());
        // An answer that is no HTTP is an answer.
        broken.facts.is_repeatable =
            matches!(reason, Reason::ConnectionTerminated | Reason::StreamReset);
        broken
    }
}

impl Side {
    /// Sends the request, and returns the answer with its lease; none if there is no answer.
    pub(super) async fn send(self) -> Option<(Lease, Response<Incoming>)> {
        let Self {
            upstream,
            mut request,
            class,
            ends,
            kind,
        } = self;
        let arrival = arrival(class);
        let ends = ends.filter(|_| upstream.tells_clients());
        let is_hostless = !request.headers().contains_key(HOST);
        let placed = kind.bound(upstream.dispatch(&arrival, None)).await;
        let mut lease = placed.ok()?.ok()?;
        let mut history = History::default();
        let mut attempt = AttemptHistory::default();
        loop {
            if let Some(ends) = ends {
                lease.tell(ends);
            }
            if is_hostless {
                let host = lease.authority().clone();
                request.headers_mut().insert(HOST, host);
            }
            let may_reuse = !attempt.needs_new_connection;
            let mut broken = match kind.attempt(&mut lease, request, may_reuse).await {
                Ok(answer) => return Some((lease, answer)),
                Err(broken) => *broken,
            };
            broken.facts.attempt = attempt;
            let endpoint = Rc::clone(lease.endpoint());
            let step = retries::next(Allowance::OF_QUESTIONS, history, broken.facts);
            if broken.is_own && step != Step::Reconnect {
                lease.observe(|| Outcome::NoResponse);
                endpoint.stats.errors[broken.reason.index()].increment();
            }
            request = *broken.again?;
            match step {
                // None waits: what a question is allowed has no wait in it.
                Step::End | Step::Wait => return None,
                Step::Reconnect => history.reconnect(&mut attempt, broken.facts.failure),
                Step::Repeat { sent, unreached } => {
                    if unreached {
                        lease.unreached();
                    }
                    // Elsewhere or not at all, for a client waits.
                    let Some((away, true)) = lease.step_back(sent) else {
                        return None;
                    };
                    lease = kind.bound(away.again()).await.ok()?.ok()?;
                    attempt = AttemptHistory::default();
                }
            }
            endpoint.stats.retries.increment();
        }
    }
}

impl SideKind {
    /// Waits for a step on the way to an answer; for a question, only until its time is up.
    async fn bound<T>(self, step: impl Future<Output = T>) -> Result<T, Reason> {
        match self {
            Self::Question { until, .. } => {
                let waited = timeout_at(until, step).await;
                waited.map_err(|_| Reason::RouteTimeout)
            }
            Self::Copy { .. } => Ok(step.await),
        }
    }

    /// Waits until a request that is sent now, with a copy of a body that has this `end`, is
    /// to have the head of its answer; returns the reason for the failure otherwise.
    async fn overdue(self, end: Option<CopyEnd>) -> Reason {
        match self {
            Self::Question { until, .. } => {
                sleep_until(until).await;
                Reason::RouteTimeout
            }
            Self::Copy { response_timeout } => {
                // The copy comes as fast as the client sends, which is bounded, and is cut if
                // its endpoint falls behind.
                if let Some(end) = end {
                    end.wait().await;
                }
                sleep(response_timeout).await;
                Reason::ResponseTimeout
            }
        }
    }

    /// Waits for the head of the `answer` to a request that is sent now, until it is overdue.
    async fn answered<T>(
        self,
        mut answer: Pin<&mut impl Future<Output = T>>,
        end: Option<CopyEnd>,
    ) -> Result<T, Reason> {
        let mut overdue = pin!(self.overdue(end));
        poll_fn(|cx| match answer.as_mut().poll(cx) {
            Poll::Ready(answer) => Poll::Ready(Ok(answer)),
            Poll::Pending => overdue.as_mut().poll(cx).map(Err),
        })
        .await
    }

    /// Returns whether an endpoint that was `asked` from then on may be blamed for the end
    /// of an attempt. It may not if a question's time had largely passed before.
    fn had_its_time(self, asked: Instant, reason: Reason) -> bool {
        match self {
            Self::Question { started, .. } if reason == Reason::RouteTimeout => {
                had_fair_part(started, asked, Instant::now())
            }
            _ => true,
        }
    }

    /// Sends the request to the lease's endpoint, and waits for the head of the answer.
    async fn attempt(
        self,
        lease: &mut Lease,
        mut request: Request<RequestBody>,
        may_reuse: bool,
    ) -> Result<Response<Incoming>, Box<BrokenSide>> {
        let is_question = matches!(self, Self::Question { .. });
        let asked = Instant::now();
        let reused = may_reuse && lease.reuse(asked);
        if !reused {
            let connected = self.bound(lease.connect()).await;
            if let Err(reason) = connected.unwrap_or_else(Err) {
                let again = is_question.then(|| Box::new(request));
                let mut broken = BrokenSide::new(reason, Failure::Unreached, again);
                broken.is_own &= self.had_its_time(asked, reason);
                return Err(broken);
            }
        }
        lease.endpoint().stats.requests.increment();
        let spare = is_question.then(|| Spare::of(&request));
        let has_body = !matches!(request.body(), RequestBody::Empty);
        let sender = lease.sender().ok_or(Reason::ConnectionTerminated);
        let prepared = sender.and_then(|sender| sender.prepare(&mut request).map(|()| sender));
        let sender = prepared.map_err(|reason| BrokenSide::new(reason, Failure::Reset, None))?;
        let end = request.body_mut().copy_end();
        let (silence, answer) = sender.try_send_request(request);
        let answered = self.answered(pin!(answer), end).await;
        let error = match answered {
            Ok(Ok(answer)) => {
                if answer.version() == Version::HTTP_10 {
                    lease.spend();
                }
                let status = answer.status().as_u16();
                lease.observe(|| Outcome::of_status(status));
                return Ok(answer);
            }
            Ok(Err(error)) => error,
            Err(overdue) => {
                let mut broken = BrokenSide::new(overdue, Failure::Reset, None);
                broken.is_own &= self.had_its_time(asked, overdue);
                if broken.is_own {
                    lease.give_up();
                }
                return Err(broken);
            }
        };
        let mut broken = BrokenSide::cut_off(error, &silence, reused);
        broken.again = spare.map(Spare::request);
        // A copy's body may have ended the connection: its client has left, or it was not
        // taken as fast as the client's own.
        broken.is_own &= !has_body;
        Err(broken)
    }
}

/// Returns the arrival of a request of this class, of which nothing more is known.
fn arrival(class: usize) -> Arrival {
    Arrival {
        class,
        size: Size::Unknown,
        hash: fastrand::u64(..),
        random: fastrand::u64(..),
        channel_backlog: Duration::ZERO,
        channel_ahead: Duration::ZERO,
    }
}

/// Reads the body of an answer of at most `max_bytes` bytes, each chunk within
/// `idle_timeout`, so that its connection serves another request. Returns none if the body
/// is longer, or does not end.
pub(super) async fn read(
    mut body: Incoming,
    lease: Lease,
    max_bytes: usize,
    idle_timeout: Duration,
) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    while let Some(frame) = timeout(idle_timeout, body.frame()).await.ok()? {
        if let Some(data) = frame.ok()?.data_ref() {
            if bytes.len() + data.len() > max_bytes {
                return None;
            }
            bytes.extend_from_slice(data);
        }
    }
    lease.release(Instant::now(), bytes.len() as u64);
    Some(bytes)
}

/// Reads the body of an answer to its end, however long, and throws it away. Returns none
/// if a chunk does not come in time.
pub(super) async fn discard(
    mut body: Incoming,
    lease: Lease,
    idle_timeout: Duration,
) -> Option<()> {
    let mut bytes = 0;
    while let Some(frame) = timeout(idle_timeout, body.frame()).await.ok()? {
        bytes += frame.ok()?.data_ref().map_or(0, |data| data.len() as u64);
    }
    lease.release(Instant::now(), bytes);
    Some(())
}
