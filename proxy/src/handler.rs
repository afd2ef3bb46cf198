//! The way of a request: checked, routed, dispatched, sent upstream; its
//! answer handed to the uplink.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, HOST, TE, TRANSFER_ENCODING};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body::Body as _;
use hyper::body::Incoming;
use sprat_scheduler::Size;

use crate::catalogue::Key;
use crate::connection::Connection;
use crate::error::{Reason, accepts_json};
use crate::headers::{self, Client};
use crate::record::Record;
use crate::routing::{self, Route};
use crate::uplink::Body;
use crate::upload::{Progress, RequestBody, Upload};
use crate::upstream::{Lease, Tried, Upstream};

/// Endpoints tried for one request that cannot connect, at most.
const CONNECT_ATTEMPTS: usize = 3;

/// Answers a request.
pub(crate) async fn handle(
    connection: Rc<Connection>,
    request: Request<Incoming>,
) -> Response<Body> {
    let both_lengths = connection.begin_request();
    let (mut parts, body) = request.into_parts();
    let mut record = Record::open(&connection, &parts.method, &parts.uri, &parts.headers);
    let json = accepts_json(&parts.headers);
    let uplink = &connection.worker.uplink;
    let checked = check(&connection, &parts, both_lengths);
    let plan = checked.and_then(|()| Plan::make(&connection, &mut parts, &mut record));
    let plan = match plan {
        Ok(plan) => plan,
        Err(reason) => return uplink.refuse(&connection, reason, json, record).await,
    };
    let exchange = plan.exchange(parts, body);
    record.upload.clone_from(&exchange.upload);
    match exchange.fetch(&mut record).await {
        Ok(response) => {
            let known = exchange.plan.known(&response, &mut record);
            let bounds = exchange.plan.bounds(&record);
            connection.begin_response(Some(bounds));
            uplink
                .respond(&connection, response, known, json, record)
                .await
        }
        Err(reason) => {
            record.lease = None;
            uplink.refuse(&connection, reason, json, record).await
        }
    }
}

/// What must hold for any request, wherever it goes.
fn check(connection: &Connection, parts: &Parts, both_lengths: bool) -> Result<(), Reason> {
    if both_lengths {
        return Err(Reason::ConflictingFraming);
    }
    if parts.method == Method::CONNECT || parts.method == Method::TRACE {
        return Err(Reason::MethodRefused);
    }
    if let Some(bound) = connection.listener.config.max_body_bytes
        && content_length(&parts.headers).is_some_and(|length| length > bound)
    {
        return Err(Reason::BodyTooLarge);
    }
    Ok(())
}

fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers
        .get(CONTENT_LENGTH)?
        .to_str()
        .ok()?
        .trim()
        .parse()
        .ok()
}

/// The `Host` that the request is for: its target's, if that has one (RFC 9112
/// 3.2.2). None is right in HTTP/1.0 only.
fn requested_host(parts: &Parts) -> Result<Option<HeaderValue>, Reason> {
    let mut hosts = parts.headers.get_all(HOST).iter();
    let host = hosts.next();
    if hosts.next().is_some() || (host.is_none() && parts.version >= Version::HTTP_11) {
        return Err(Reason::InvalidHost);
    }
    let Some(authority) = parts.uri.authority() else {
        return Ok(host.cloned());
    };
    let scheme = parts.uri.scheme_str();
    if !matches!(scheme, Some("http" | "https")) || authority.as_str().contains('@') {
        return Err(Reason::InvalidTarget);
    }
    HeaderValue::from_str(authority.as_str())
        .map(Some)
        .map_err(|_| Reason::InvalidTarget)
}

/// Where a request goes, and what has been decided about it.
struct Plan<'a> {
    connection: &'a Connection,
    route: &'a Route,
    upstream: &'a Rc<Upstream>,
    head_only: bool,
    /// Whether the `Host` of the endpoint is to be sent.
    hostless: bool,
    chunked: bool,
    key: Option<Key>,
}

impl<'a> Plan<'a> {
    /// Routes the request, and makes its head that of the upstream request.
    fn make(
        connection: &'a Connection,
        parts: &mut Parts,
        record: &mut Record,
    ) -> Result<Self, Reason> {
        let worker = &connection.worker;
        let asked = requested_host(parts)?;
        let host = match &asked {
            Some(host) => {
                let text = host.to_str().map_err(|_| Reason::InvalidHost)?;
                routing::host_without_port(text).ok_or(Reason::InvalidHost)?
            }
            None => "",
        };
        let path = parts.uri.path();
        let asterisk = path == "*" && parts.method == Method::OPTIONS;
        if !asterisk && !path.starts_with('/') {
            return Err(Reason::InvalidTarget);
        }
        let route = routing::find(&worker.routes, host, path).ok_or(Reason::NoRoute)?;
        record.cluster = Some(route.cluster);
        let retrieves = parts.method == Method::GET || parts.method == Method::HEAD;
        let key = match parts.uri.path_and_query() {
            Some(path) if retrieves => {
                worker
                    .catalogue
                    .key(route.cluster, host.as_bytes(), path.as_str())
            }
            _ => None,
        };
        let plan = Self {
            connection,
            route,
            upstream: &worker.upstreams[route.cluster],
            head_only: parts.method == Method::HEAD,
            hostless: asked.is_none() && route.host_rewrite.is_none(),
            chunked: plan_head(connection, route, parts, asked)?,
            key,
        };
        parts.uri = route.target(&parts.uri).ok_or(Reason::InvalidTarget)?;
        Ok(plan)
    }

    fn exchange(self, parts: Parts, body: Incoming) -> Exchange<'a> {
        let mut request = Request::from_parts(parts, RequestBody::Empty);
        let mut upload = None;
        if !body.is_end_stream() {
            let bound = self.connection.listener.config.max_body_bytes;
            let (body, progress) = RequestBody::streaming(body, bound);
            *request.body_mut() = body;
            upload = Some(progress);
            if request.headers().contains_key(EXPECT)
                && let Some(opener) = request.body_mut().hold()
            {
                hyper::ext::on_informational(&mut request, move |interim| {
                    if interim.status() == StatusCode::CONTINUE {
                        opener.open();
                    }
                });
            }
        } else {
            request.headers_mut().remove(EXPECT);
        }
        if self.chunked && upload.is_some() {
            let chunked = HeaderValue::from_static("chunked");
            request.headers_mut().insert(TRANSFER_ENCODING, chunked);
        }
        Exchange {
            plan: self,
            request: std::cell::Cell::new(Some(request)),
            upload,
        }
    }

    fn bounds(&self, record: &Record) -> crate::connection::ResponseBounds {
        crate::connection::ResponseBounds {
            upstream_idle: self.route.idle_timeout,
            deadline: self.deadline(record),
        }
    }

    fn deadline(&self, record: &Record) -> Option<Instant> {
        self.route.timeout.map(|timeout| record.started() + timeout)
    }

    /// What is known of the size of the response's body; has the catalogue
    /// learn what can be learnt.
    fn known(&self, response: &Response<Incoming>, record: &mut Record) -> Size {
        let worker = &self.connection.worker;
        let teaches = response.status() == StatusCode::OK;
        if self.head_only {
            if let (true, Some(key), Some(length)) =
                (teaches, &self.key, content_length(response.headers()))
            {
                worker.learn(key, length);
            }
            return Size::Exact(0);
        }
        if let Some(length) = response.body().size_hint().exact() {
            if let (true, Some(key)) = (teaches, &self.key) {
                worker.learn(key, length);
            }
            return Size::Exact(length);
        }
        let Some(key) = &self.key else {
            return Size::Unknown;
        };
        record.learn = teaches.then_some(*key);
        worker.estimate(key)
    }
}

/// Makes the client's header fields those of the upstream request; true if the
/// body comes in chunks.
fn plan_head(
    connection: &Connection,
    route: &Route,
    parts: &mut Parts,
    asked: Option<HeaderValue>,
) -> Result<bool, Reason> {
    let hop = headers::strip_hop_by_hop(&mut parts.headers);
    if hop.unknown_coding {
        return Err(Reason::UnknownTransferCoding);
    }
    if hop.takes_trailers {
        let headers = &mut parts.headers;
        headers.insert(TE, HeaderValue::from_static("trailers"));
        headers.insert(CONNECTION, HeaderValue::from_static("te"));
    }
    let client = Client {
        ip: connection.peer.ip(),
        text: connection.peer_text(),
        host: asked.as_ref(),
        version: parts.version,
    };
    let forwarder = &connection.listener.forwarder;
    forwarder.add(&mut parts.headers, &client);
    if let Some(host) = &route.host_rewrite {
        parts.headers.insert(HOST, host.clone());
    } else if let (Some(host), Some(_)) = (asked, parts.uri.authority()) {
        parts.headers.insert(HOST, host);
    }
    parts.version = Version::HTTP_11;
    Ok(hop.chunked)
}

/// A request to an upstream, until its answer comes.
struct Exchange<'a> {
    plan: Plan<'a>,
    request: std::cell::Cell<Option<Request<RequestBody>>>,
    upload: Option<Rc<Upload>>,
}

impl Exchange<'_> {
    /// Sends the request, again where that is safe, and waits for the head of
    /// the answer.
    async fn fetch(&self, record: &mut Record) -> Result<Response<Incoming>, Reason> {
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
