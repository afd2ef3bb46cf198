//! A request to an upstream, from dispatch to the head of the answer.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use http::header::HOST;
use http::{HeaderMap, Request, Response, StatusCode};
use hyper::body::Incoming;
use sprat_config::resolved::RetryOn;
use sprat_scheduler::health::Outcome;
use sprat_scheduler::station::Refusal;

use super::Plan;
use super::retry::{Answer, Failed, Next};
use crate::error::{Advice, Fault, Reason, accepts_html};
use crate::headers;
use crate::record::Record;
use crate::upload::{Progress, RequestBody, Upload};
use crate::upstream::{Lease, was_refused};

/// Times that a request is sent to an endpoint again that did not look at it.
const REFUSALS_MAX: usize = 3;

/// Longer than anybody waits in a queue without a bound.
const FAR_OFF: Duration = Duration::from_secs(365 * 86_400);

/// A request to an upstream, until its answer comes.
pub(super) struct Exchange<'a> {
    pub(super) plan: Plan<'a>,
    pub(super) request: std::cell::Cell<Option<Request<RequestBody>>>,
    pub(super) upload: Option<Rc<Upload>>,
}

/// Until when an attempt must have got somewhere.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    /// The whole exchange.
    pub(super) deadline: Option<Instant>,
    /// Waits by timers of its own, not by the connection's: there may be
    /// several attempts at a time.
    pub(super) own_timers: bool,
}

impl Exchange<'_> {
    /// Sends the request, again where that is safe, and waits for the head of
    /// the answer.
    pub(super) async fn fetch(&self, record: &mut Record) -> Result<Response<Incoming>, Reason> {
        let mut request = self.request.take().ok_or(Reason::ProtocolError)?;
        let upstream = self.plan.upstream;
        let arrival = self.plan.arrival(record, &request).await;
        let dispatched = upstream.dispatch(&arrival);
        let mut lease = match self.queue(record, dispatched).await? {
            Ok(lease) => lease,
            Err(refusal) => return Err(self.turned_away(record, &refusal, request.headers())),
        };
        let due = Due {
            deadline: self.plan.deadline(record),
            own_timers: false,
        };
        let mut repeats = 0;
        loop {
            record.endpoint = Some(Rc::clone(lease.endpoint()));
            let outcome = match self.plan.route.retry.hedge_delay {
                None => self.attempt(lease, request, due).await,
                Some(delay) => Box::pin(self.hedged(lease, request, due, delay)).await,
            };
            let failed = match outcome {
                Ok(answer) => return self.accept(record, answer),
                Err(failed) => failed,
            };
            record.endpoint = Some(Rc::clone(failed.lease.endpoint()));
            match Box::pin(self.repeat(record, *failed, repeats)).await? {
                Next::Attempt(next, again) => (lease, request) = (next, again),
                Next::Answer(answer) => return self.accept(record, answer),
            }
            repeats += 1;
        }
    }

    /// Sends the request to the lease's endpoint. A kept connection that has
    /// died meanwhile is no failure: another one is opened.
    pub(super) async fn attempt(
        &self,
        mut lease: Lease,
        mut request: Request<RequestBody>,
        due: Due,
    ) -> Result<Answer, Box<Failed>> {
        let upstream = self.plan.upstream;
        let policy = &self.plan.route.retry;
        let endpoint = Rc::clone(lease.endpoint());
        let stats = &endpoint.stats;
        // What an attempt may take begins with it.
        let tried_until = policy.per_try_timeout.map(|bound| Instant::now() + bound);
        let mut may_reuse = true;
        let mut refusals = 0;
        if upstream.tells_clients() {
            lease.tell(self.plan.stream.connection.ends());
        }
        loop {
            let reused = may_reuse && lease.reuse();
            if reused {
                stats.reuses.increment();
            } else if let Err(reason) = Box::pin(self.connect(&mut lease, due, tried_until)).await {
                blame_endpoint(&lease, reason);
                let again = Some(request);
                return Err(failed(lease, again, RetryOn::ConnectFailure, reason));
            }
            if self.plan.hostless {
                let host = lease.authority().clone();
                request.headers_mut().insert(HOST, host);
            }
            stats.requests.increment();
            let repeatable = reused || upstream.is_http2() || policy.repeats_what_was_sent();
            let spare = repeatable.then(|| self.spare(&request)).flatten();
            let Some(sender) = lease.sender() else {
                let reason = Reason::ConnectionTerminated;
                return Err(failed(lease, spare, RetryOn::Reset, reason));
            };
            if let Err(reason) = sender.prepare(&mut request) {
                return Err(failed(lease, None, RetryOn::Reset, reason));
            }
            let sent = sender.try_send_request(request);
            let mut error = match self.wait(due, tried_until, sent).await {
                Ok(Ok(response)) => return self.judge(lease, spare, response),
                Ok(Err(error)) => error,
                Err(reason) => {
                    blame_endpoint(&lease, reason);
                    // The route's own bounds are not for one attempt alone.
                    let spare = spare.filter(|_| reason == Reason::PerTryTimeout);
                    return Err(failed(lease, spare, RetryOn::Reset, reason));
                }
            };
            let untouched = error.take_message();
            let refused = was_refused(error.error());
            let what = match refused || untouched.is_some() {
                true => RetryOn::RefusedStream,
                false => RetryOn::Reset,
            };
            let reason = self.blame(error.error());
            let stale = reused && reason == Reason::ConnectionTerminated;
            match untouched.or(spare) {
                Some(again) if stale || (refused && refusals < REFUSALS_MAX) => {
                    stats.retries.increment();
                    request = again;
                    may_reuse = false;
                    refusals += usize::from(refused);
                }
                again => {
                    blame_endpoint(&lease, reason);
                    let again = again.filter(|_| reason == Reason::ConnectionTerminated);
                    return Err(failed(lease, again, what, reason));
                }
            }
        }
    }

    /// A response: the answer, unless the route would rather have another.
    fn judge(
        &self,
        lease: Lease,
        spare: Option<Request<RequestBody>>,
        response: Response<Incoming>,
    ) -> Result<Answer, Box<Failed>> {
        let policy = &self.plan.route.retry;
        let status = response.status().as_u16();
        lease.observe(|| Outcome::of_status(status));
        if policy.num_retries == 0 || spare.is_none() || !policy.is_on_status(status) {
            return Ok(Answer { response, lease });
        }
        Err(Box::new(Failed {
            reason: Reason::ProtocolError,
            what: RetryOn::StatusCodes,
            lease,
            request: spare,
            response: Some(response),
        }))
    }

    /// Waits for an endpoint as long as the route allows.
    pub(super) async fn queue<T>(
        &self,
        record: &mut Record,
        dispatched: impl Future<Output = T>,
    ) -> Result<T, Reason> {
        let mut dispatched = pin!(dispatched);
        // The common case: there is one.
        if let Some(outcome) = poll_once(dispatched.as_mut()).await {
            return Ok(outcome);
        }
        let began = Instant::now();
        let deadline = self.plan.deadline(record);
        // The timers below wake this task, not the connection's own.
        let bound = deadline.map_or(FAR_OFF, |at| at.saturating_duration_since(began));
        let stream = self.plan.stream;
        stream.wake_at(began + bound + Duration::from_secs(1));
        let outcome = tokio::time::timeout(bound, dispatched).await;
        record.queue_wait += began.elapsed();
        let stats = self.plan.upstream.counters();
        stats.waited(began.elapsed());
        outcome.map_err(|_| Reason::RouteTimeout)
    }

    /// The cluster does not take the request.
    pub(super) fn turned_away(
        &self,
        record: &mut Record,
        refusal: &Refusal,
        asked: &HeaderMap,
    ) -> Reason {
        let page = self.plan.upstream.overload_page.as_ref();
        record.advice = Some(Box::new(Advice {
            page: page.filter(|_| accepts_html(asked)).cloned(),
            ..Advice::later(refusal.retry_after_s())
        }));
        Reason::of_refusal(refusal.reason)
    }

    async fn connect(
        &self,
        lease: &mut Lease,
        due: Due,
        tried_until: Option<Instant>,
    ) -> Result<(), Reason> {
        let bound = self.plan.upstream.cluster().connect_timeout;
        let now = Instant::now();
        // The timer below wakes this task, not the connection's own.
        let stream = self.plan.stream;
        stream.wake_at(now + bound + Duration::from_secs(1));
        let (at, reason) = earlier(
            due.deadline.map(|at| (at, Reason::RouteTimeout)),
            tried_until.map(|at| (at, Reason::ConnectionTimeout)),
        )
        .unwrap_or((now + bound, Reason::ConnectionTimeout));
        match at.saturating_duration_since(now) {
            left if left < bound => tokio::time::timeout(left, lease.connect())
                .await
                .unwrap_or(Err(reason)),
            _ => lease.connect().await,
        }
    }

    /// A copy of a request that may be sent twice: without a body, and safe to
    /// repeat (RFC 9110 9.2.2) or said to be so.
    pub(super) fn spare(&self, request: &Request<RequestBody>) -> Option<Request<RequestBody>> {
        let safe = request.method().is_idempotent() || self.plan.route.retry.non_idempotent;
        if self.upload.is_some() || !safe {
            return None;
        }
        let mut spare = Request::new(RequestBody::Empty);
        *spare.method_mut() = request.method().clone();
        *spare.uri_mut() = request.uri().clone();
        *spare.headers_mut() = request.headers().clone();
        Some(spare)
    }

    /// Waits for the head of the answer within the bounds on whoever keeps it
    /// waiting.
    async fn wait<T>(
        &self,
        due: Due,
        tried_until: Option<Instant>,
        answer: impl Future<Output = T>,
    ) -> Result<T, Reason> {
        let mut answer = pin!(answer);
        let mut sent = None;
        let bound = earlier(
            due.deadline.map(|at| (at, Reason::RouteTimeout)),
            tried_until.map(|at| (at, Reason::PerTryTimeout)),
        );
        let until = |sent: Instant| match bound {
            Some(bound) if bound.0 < self.owed(sent).0 => bound,
            _ => self.owed(sent),
        };
        if due.own_timers {
            let (at, reason) = until(Instant::now());
            self.plan.stream.wake_at(at + Duration::from_secs(1));
            let answer = tokio::time::timeout_at(at.into(), answer);
            return answer.await.map_err(|_| reason);
        }
        poll_fn(|cx| {
            if let Poll::Ready(answer) = answer.as_mut().poll(cx) {
                return Poll::Ready(Ok(answer));
            }
            if let Some(upload) = &self.upload {
                upload.tell_when_done(cx.waker());
            }
            let now = Instant::now();
            let (at, reason) = until(*sent.get_or_insert(now));
            if now >= at {
                return Poll::Ready(Err(reason));
            }
            self.plan.stream.wake_at(at);
            Poll::Pending
        })
        .await
    }

    /// Until when the next step is due, and whose fault it is if it is not
    /// taken.
    fn owed(&self, sent: Instant) -> (Instant, Reason) {
        let route = self.plan.route;
        let client_idle = self.plan.connection.listener.config.stream_idle_timeout;
        let upload = self.upload.as_ref();
        match upload.map(|upload| upload.progress()) {
            None => (sent + route.response_timeout, Reason::ResponseTimeout),
            Some(Progress::Done { at }) => (at + route.response_timeout, Reason::ResponseTimeout),
            Some(Progress::ClientOwes { since }) => {
                let idle = since + client_idle;
                match upload.and_then(|upload| upload.judged_at(Instant::now())) {
                    Some(at) if at < idle => (at, Reason::BodyTooSlow),
                    _ => (idle, Reason::BodyTimeout),
                }
            }
            Some(Progress::UpstreamOwes { since }) => {
                (since + route.idle_timeout, Reason::UpstreamWriteTimeout)
            }
        }
    }

    /// Makes the upstream's header fields those of the response, unless it
    /// switches protocols.
    fn accept(&self, record: &mut Record, answer: Answer) -> Result<Response<Incoming>, Reason> {
        let Answer {
            mut response,
            lease,
        } = answer;
        record.endpoint = Some(Rc::clone(lease.endpoint()));
        record.lease = Some(lease);
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let offer = self.plan.offer.as_ref();
            let asked = offer.is_some_and(|offer| offer.has(response.headers()));
            return asked.then_some(response).ok_or(Reason::ProtocolError);
        }
        let hop = headers::strip_hop_by_hop(response.headers_mut());
        if hop.unknown_coding {
            return Err(Reason::ProtocolError);
        }
        Ok(response)
    }

    fn blame(&self, error: &hyper::Error) -> Reason {
        if let Some(reason) = self.upload.as_ref().and_then(|upload| upload.failure()) {
            return reason;
        }
        if error.is_parse_too_large() {
            Reason::ResponseHeadTooLarge
        } else if error.is_parse() {
            Reason::ProtocolError
        } else {
            Reason::ConnectionTerminated
        }
    }
}

/// Tells the cluster of an endpoint that gave no response, if that is the
/// endpoint's doing.
fn blame_endpoint(lease: &Lease, reason: Reason) {
    let own = reason.facts().fault == Fault::Upstream && reason != Reason::ConnectionLimit;
    if own {
        lease.observe(|| Outcome::NoResponse);
    }
}

/// What a future has to say at once.
async fn poll_once<T>(mut future: Pin<&mut impl Future<Output = T>>) -> Option<T> {
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// The earlier of two bounds.
fn earlier(
    a: Option<(Instant, Reason)>,
    b: Option<(Instant, Reason)>,
) -> Option<(Instant, Reason)> {
    [a, b].into_iter().flatten().min_by_key(|(at, _)| *at)
}

fn failed(
    lease: Lease,
    request: Option<Request<RequestBody>>,
    what: RetryOn,
    reason: Reason,
) -> Box<Failed> {
    Box::new(Failed {
        reason,
        what,
        lease,
        request,
        response: None,
    })
}
