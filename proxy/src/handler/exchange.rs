//! A request to an upstream, from dispatch to the head of the answer.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use http::header::HOST;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;

use super::Plan;
use crate::error::Reason;
use crate::headers;
use crate::record::Record;
use crate::upload::{Progress, RequestBody, Upload};
use crate::upstream::{Lease, Tried};

/// Endpoints tried for one request that cannot connect, at most.
const CONNECT_ATTEMPTS: usize = 3;

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
        let mut tried = Tried::default();
        let mut may_reuse = true;
        let mut request = self.request.take().ok_or(Reason::ProtocolError)?;
        loop {
            let upstream = self.plan.upstream;
            let mut lease = upstream.dispatch(tried).ok_or(Reason::Unreachable)?;
            let endpoint = lease.endpoint();
            record.endpoint = Some(endpoint);
            let stats = upstream.stats(endpoint);
            let reused = may_reuse && lease.reuse();
            if reused {
                stats.reuses.increment();
            } else if let Err(reason) = Box::pin(self.connect(&mut lease, record)).await {
                drop(lease);
                tried.add(endpoint);
                if tried.count() >= CONNECT_ATTEMPTS.min(upstream.endpoint_count())
                    || reason == Reason::RouteTimeout
                {
                    return Err(reason);
                }
                stats.errors[reason.index()].increment();
                continue;
            }
            if self.plan.hostless {
                let host = upstream.authority(endpoint).clone();
                request.headers_mut().insert(HOST, host);
            }
            stats.requests.increment();
            let spare = reused.then(|| self.spare(&request)).flatten();
            let sender = lease.sender().ok_or(Reason::ConnectionTerminated)?;
            let sent = sender.try_send_request(request);
            record.lease = Some(lease);
            match self.wait(record, sent).await? {
                Ok(response) => return accept(response),
                Err(mut error) => {
                    record.lease = None;
                    let again = error.take_message().or(spare);
                    let reason = self.blame(error.error());
                    match again {
                        Some(again) if reused && reason == Reason::ConnectionTerminated => {
                            stats.retries.increment();
                            request = again;
                            may_reuse = false;
                        }
                        _ => return Err(reason),
                    }
                }
            }
        }
    }

    async fn connect(&self, lease: &mut Lease, record: &Record) -> Result<(), Reason> {
        let bound = self.plan.upstream.cluster().connect_timeout;
        let wake_at = &self.plan.connection.wake_at;
        let now = Instant::now();
        // The timer below wakes this task, not the connection's own.
        wake_at.set(now + bound + Duration::from_secs(1));
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
            self.plan.connection.wake_at.set(at);
            Poll::Pending
        })
        .await
    }

    /// Until when the next step is due, and whose fault it is if it is not
    /// taken.
    fn owed(&self, sent: Instant) -> (Instant, Reason) {
        let route = self.plan.route;
        let client_idle = self.plan.connection.listener.config.stream_idle_timeout;
        match self.upload.as_ref().map(|upload| upload.progress()) {
            None => (sent + route.response_timeout, Reason::ResponseTimeout),
            Some(Progress::Done { at }) => (at + route.response_timeout, Reason::ResponseTimeout),
            Some(Progress::ClientOwes { since }) => (since + client_idle, Reason::BodyTimeout),
            Some(Progress::UpstreamOwes { since }) => {
                (since + route.idle_timeout, Reason::UpstreamWriteTimeout)
            }
        }
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

/// Makes the upstream's header fields those of the response.
fn accept(mut response: Response<Incoming>) -> Result<Response<Incoming>, Reason> {
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        // Nobody asked for it: `Upgrade` is not passed on.
        return Err(Reason::ProtocolError);
    }
    let hop = headers::strip_hop_by_hop(response.headers_mut());
    if hop.unknown_coding {
        return Err(Reason::ProtocolError);
    }
    Ok(response)
}
