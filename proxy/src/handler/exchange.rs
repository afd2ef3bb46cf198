//! A request to an upstream, from dispatch to the head of the answer.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use http::header::HOST;
use http::{HeaderMap, Request, Response, StatusCode};
use hyper::body::Incoming;
use sprat_scheduler::station::{Refusal, RefusalReason};
use tokio::time::Instant;

use super::Plan;
use crate::error::{Advice, Reason, accepts_html};
use crate::headers;
use crate::record::Record;
use crate::upload::{Progress, RequestBody, Upload};
use crate::upstream::{Lease, was_refused};

/// Endpoints tried for one request that cannot connect, at most.
const CONNECT_ATTEMPTS: usize = 3;

/// Times that a request is sent again which an endpoint did not look at.
const REFUSALS_MAX: usize = 3;

/// Longer than anybody waits in a queue without a bound.
const FAR_OFF: Duration = Duration::from_secs(365 * 86_400);

/// A request to an upstream, until its answer comes.
pub(super) struct Exchange<'a> {
    pub(super) plan: Plan<'a>,
    pub(super) request: std::cell::Cell<Option<Request<RequestBody>>>,
    pub(super) upload: Option<Rc<Upload>>,
}

impl Exchange<'_> {
    /// Sends the request, again where that is safe, and waits for the head of
    /// the answer.
    pub(super) async fn fetch(&self, record: &mut Record) -> Result<Response<Incoming>, Reason> {
        let mut attempts = 0;
        let mut refusals = 0;
        let mut may_reuse = true;
        let mut request = self.request.take().ok_or(Reason::ProtocolError)?;
        let upstream = self.plan.upstream;
        let arrival = self.plan.arrival(record, &request).await;
        let dispatched = upstream.dispatch(&arrival);
        let mut lease = match self.queue(record, dispatched).await? {
            Ok(lease) => lease,
            Err(refusal) => return Err(self.turned_away(record, &refusal, request.headers())),
        };
        loop {
            let endpoint = lease.endpoint();
            record.endpoint = Some(endpoint);
            if upstream.tells_clients() {
                lease.tell(self.plan.stream.connection.ends());
            }
            let stats = upstream.stats(endpoint);
            let reused = may_reuse && lease.reuse();
            if reused {
                stats.reuses.increment();
            } else if let Err(reason) = Box::pin(self.connect(&mut lease, record)).await {
                attempts += 1;
                if attempts >= CONNECT_ATTEMPTS.min(upstream.endpoint_count())
                    || reason == Reason::RouteTimeout
                {
                    return Err(reason);
                }
                stats.errors[reason.index()].increment();
                lease = match self.queue(record, lease.elsewhere()).await? {
                    Ok(lease) => lease,
                    Err(None) => return Err(reason),
                    Err(Some(refusal)) if refusal.reason == RefusalReason::NoEndpoint => {
                        return Err(reason);
                    }
                    Err(Some(refusal)) => {
                        return Err(self.turned_away(record, &refusal, request.headers()));
                    }
                };
                continue;
            }
            if self.plan.hostless {
                let host = upstream.authority(endpoint).clone();
                request.headers_mut().insert(HOST, host);
            }
            stats.requests.increment();
            let repeatable = reused || upstream.is_http2();
            let spare = repeatable.then(|| self.spare(&request)).flatten();
            let sender = lease.sender().ok_or(Reason::ConnectionTerminated)?;
            sender.prepare(&mut request)?;
            let sent = sender.try_send_request(request);
            record.lease = Some(lease);
            match self.wait(record, sent).await? {
                Ok(response) => return self.accept(response),
                Err(mut error) => {
                    let kept = record.lease.take();
                    let again = error.take_message().or(spare);
                    let reason = self.blame(error.error());
                    let refused = was_refused(error.error()) && refusals < REFUSALS_MAX;
                    match again {
                        Some(again)
                            if refused || (reused && reason == Reason::ConnectionTerminated) =>
                        {
                            stats.retries.increment();
                            request = again;
                            may_reuse = false;
                            refusals += usize::from(refused);
                            lease = kept.ok_or(reason)?;
                        }
                        _ => return Err(reason),
                    }
                }
            }
        }
    }

    /// Waits for an endpoint as long as the route allows.
    async fn queue<T>(
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
    fn turned_away(&self, record: &mut Record, refusal: &Refusal, asked: &HeaderMap) -> Reason {
        let page = self.plan.upstream.overload_page.as_ref();
        record.advice = Some(Box::new(Advice {
            page: page.filter(|_| accepts_html(asked)).cloned(),
            ..Advice::later(refusal.retry_after_s())
        }));
        Reason::of_refusal(refusal.reason)
    }

    async fn connect(&self, lease: &mut Lease, record: &Record) -> Result<(), Reason> {
        let bound = self.plan.upstream.cluster().connect_timeout;
        let now = Instant::now();
        // The timer below wakes this task, not the connection's own.
        let stream = self.plan.stream;
        stream.wake_at(now + bound + Duration::from_secs(1));
        let left = self.plan.deadline(record).map(|at| at - now.min(at));
        match left {
            Some(left) if left < bound => tokio::time::timeout(left, lease.connect())
                .await
                .unwrap_or(Err(Reason::RouteTimeout)),
            _ => lease.connect().await,
        }
    }

    /// A copy of a request that may be sent twice: without a body, and safe to
    /// repeat (RFC 9110 9.2.2).
    fn spare(&self, request: &Request<RequestBody>) -> Option<Request<RequestBody>> {
        if self.upload.is_some() || !request.method().is_idempotent() {
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
    async fn wait<T>(&self, record: &Record, answer: impl Future<Output = T>) -> Result<T, Reason> {
        let mut answer = pin!(answer);
        let mut sent = None;
        let deadline = self.plan.deadline(record);
        poll_fn(|cx| {
            if let Poll::Ready(answer) = answer.as_mut().poll(cx) {
                return Poll::Ready(Ok(answer));
            }
            if let Some(upload) = &self.upload {
                upload.tell_when_done(cx.waker());
            }
            let now = Instant::now();
            let (mut at, mut reason) = self.owed(*sent.get_or_insert(now));
            if let Some(deadline) = deadline
                && deadline < at
            {
                (at, reason) = (deadline, Reason::RouteTimeout);
            }
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
    fn accept(&self, mut response: Response<Incoming>) -> Result<Response<Incoming>, Reason> {
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

/// What a future has to say at once.
async fn poll_once<T>(mut future: Pin<&mut impl Future<Output = T>>) -> Option<T> {
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}
