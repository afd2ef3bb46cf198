//! A request's part in a trace: what is noted of it on its way, and its spans at the end.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use http::header::{HOST, USER_AGENT};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Version};
use sprat_net::error::Reason;
use sprat_net::upload::RequestBody;
use sprat_traces::{
    Begun, Kind, Span, SpanId, Spans, TRACEPARENT, TRACESTATE, TraceContext, Tracer, bounded,
};
use sprat_uplink::Granted;
use sprat_upstream::Endpoint;
use tokio::time::Instant;

use super::outcome::{Answer, Failed};

/// The most spans of a request beside its own. Retries and hedges of one route are fewer.
const MAX_CHILDREN: usize = 64;

/// The shortest wait that a trace tells of; a grant that comes at once waits for less.
const MIN_WAIT: Duration = Duration::from_micros(100);

/// A request's part in a trace.
pub(crate) struct Trace {
    pub(crate) context: TraceContext,
    /// The `tracestate` that other systems have written.
    state: Option<String>,
    /// The notes for the spans; none if the trace is not sampled.
    recorded: Option<Box<Recorded>>,
}

/// The notes on a request that is sampled.
struct Recorded {
    parent: Option<SpanId>,
    head: Head,
    children: RefCell<Vec<Child>>,
    /// The number of attempts so far.
    attempts: Cell<u64>,
    /// The reason why the next attempt is made, if it is not the first.
    again: Cell<Option<&'static str>>,
    /// The time since which the response goes out as the uplink grants it.
    paced_since: Cell<Option<Instant>>,
}

/// The parts of a request's head that a span tells, each text cut to the length that it may have.
struct Head {
    method: Method,
    path: String,
    query: Option<String>,
    is_secure: bool,
    host: Option<String>,
    user_agent: Option<Vec<u8>>,
    version: Version,
}

/// A span within a request's.
struct Child {
    id: SpanId,
    began: Instant,
    ended: Instant,
    of: Work,
}

/// The work that a span within a request's stands for.
enum Work {
    /// A wait for an endpoint, or for the uplink.
    Wait { at: &'static str },
    /// An attempt at an endpoint.
    Attempt {
        endpoint: String,
        status: Option<StatusCode>,
        error: Option<&'static str>,
        /// The number of attempts before this one.
        resent: u64,
        why: Option<&'static str>,
    },
    /// A response that goes out as the uplink grants it.
    Pacing { granted: Granted },
}

/// A request at its end, as its own span tells of it.
pub(super) struct Ended<'a> {
    pub(super) started: Instant,
    pub(super) client: std::net::SocketAddr,
    pub(super) status: Option<StatusCode>,
    pub(super) reason: Option<Reason>,
    pub(super) is_aborted: bool,
    pub(super) bytes: u64,
    pub(super) slowdown: Option<f64>,
    pub(super) class: &'a str,
    pub(super) listener: &'a str,
    pub(super) cluster: Option<&'a str>,
    pub(super) endpoint: Option<&'a str>,
}

impl Trace {
    /// Gives a request whose head has just been read its part in a trace.
    pub(super) fn begin(
        tracer: &Tracer,
        parts: &Parts,
        is_secure: impl FnOnce() -> bool,
    ) -> Rc<Self> {
        let Begun {
            context,
            parent,
            state,
        } = tracer.begin(&parts.headers);
        let recorded = context.is_sampled.then(|| {
            Box::new(Recorded {
                parent,
                head: Head::of(parts, is_secure()),
                children: RefCell::default(),
                attempts: Cell::new(0),
                again: Cell::new(None),
                paced_since: Cell::new(None),
            })
        });
        Rc::new(Self {
            context,
            state,
            recorded,
        })
    }

    /// Puts the trace's context into the head that an endpoint gets.
    pub(super) fn tell(&self, headers: &mut HeaderMap) {
        headers.insert(TRACEPARENT, self.context.traceparent(self.context.span));
        let state = self.state.as_deref().map(HeaderValue::from_str);
        match state.and_then(Result::ok) {
            Some(state) => headers.insert(TRACESTATE, state),
            None => headers.remove(TRACESTATE),
        };
    }

    /// Notes a wait for an endpoint, or for the uplink, from now until what is returned is
    /// dropped.
    pub(super) fn wait(self: &Rc<Self>, at: &'static str) -> Option<NotedWait> {
        self.recorded.as_ref().map(|_| NotedWait {
            trace: Rc::clone(self),
            at,
            began: Instant::now(),
        })
    }

    /// Returns whether the request's spans are sent.
    pub(super) fn is_recorded(&self) -> bool {
        self.recorded.is_some()
    }

    /// Begins an attempt at an endpoint, which is told of the attempt's own span.
    pub(super) fn attempt(
        self: &Rc<Self>,
        endpoint: &Endpoint,
        request: &mut Request<RequestBody>,
    ) -> Option<Attempting> {
        let own = self.recorded.as_ref()?;
        let id = SpanId::random();
        // Not where the route has taken it away.
        if let Some(value) = request.headers_mut().get_mut(TRACEPARENT) {
            *value = self.context.traceparent(id);
        }
        let resent = own.attempts.replace(own.attempts.get() + 1);
        Some(Attempting {
            trace: Rc::clone(self),
            id,
            began: Instant::now(),
            endpoint: endpoint.member.label.clone(),
            resent,
            why: own.again.take(),
            status: None,
            error: Some("cancelled"),
        })
    }

    /// Notes why the next attempt is made.
    pub(super) fn again(&self, why: &'static str) {
        if let Some(own) = &self.recorded {
            own.again.set(Some(why));
        }
    }

    /// Notes that the response goes out as the uplink grants it from now on.
    pub(super) fn begin_pacing(&self) {
        if let Some(own) = &self.recorded {
            own.paced_since.set(Some(Instant::now()));
        }
    }

    /// Notes that no more of the response goes out, and how much was granted.
    pub(super) fn end_pacing(&self, granted: Granted) {
        let since = self
            .recorded
            .as_ref()
            .and_then(|own| own.paced_since.take());
        if let Some(began) = since {
            self.note(SpanId::random(), began, Work::Pacing { granted });
        }
    }

    fn note(&self, id: SpanId, began: Instant, of: Work) {
        let Some(own) = &self.recorded else { return };
        let mut children = own.children.borrow_mut();
        if children.len() < MAX_CHILDREN {
            let ended = Instant::now();
            children.push(Child {
                id,
                began,
                ended,
                of,
            });
        }
    }

    /// Returns the request's spans; none if it is not sampled.
    pub(super) fn end(&self, ended: &Ended<'_>) -> Option<Spans> {
        let own = self.recorded.as_ref()?;
        let clock = Clock::now();
        let mut spans = Spans::default();
        let head = &own.head;
        let (method, is_known) = head.method();
        let span = Span {
            id: self.context.span,
            parent: own.parent,
            is_parent_remote: own.parent.is_some(),
            name: if is_known { method } else { "HTTP" },
            kind: Kind::Server,
            began_unix_ns: clock.unix_ns(ended.started),
            ended_unix_ns: clock.unix_ns(clock.instant),
            state: self.state.as_deref(),
            is_error: ended.is_error(),
        };
        spans.add(&self.context, &span, |out| {
            head.describe(out);
            ended.describe(out);
        });
        for child in own.children.borrow().iter() {
            self.add_child(&mut spans, child, &clock, head);
        }
        Some(spans)
    }

    fn add_child(&self, spans: &mut Spans, child: &Child, clock: &Clock, head: &Head) {
        let (name, kind, is_error) = match &child.of {
            Work::Wait { .. } => ("wait", Kind::Internal, false),
            Work::Attempt { status, error, .. } => {
                let failed = status.is_some_and(|own| own.as_u16() >= 400);
                ("attempt", Kind::Client, failed || error.is_some())
            }
            Work::Pacing { .. } => ("pacing", Kind::Internal, false),
        };
        let span = Span {
            id: child.id,
            parent: Some(self.context.span),
            is_parent_remote: false,
            name,
            kind,
            began_unix_ns: clock.unix_ns(child.began),
            ended_unix_ns: clock.unix_ns(child.ended),
            state: self.state.as_deref(),
            is_error,
        };
        spans.add(&self.context, &span, |out| child.of.describe(head, out));
    }
}

type Attributes<'a, 'b> = &'a mut sprat_traces::Attributes<'b>;

impl Head {
    fn of(parts: &Parts, is_secure: bool) -> Self {
        let text = |text: &str| bounded(text).to_owned();
        let authority = parts.uri.authority().map(|own| own.as_str());
        let host = parts.headers.get(HOST).and_then(|own| own.to_str().ok());
        let agent = parts.headers.get(USER_AGENT).map(HeaderValue::as_bytes);
        Self {
            method: parts.method.clone(),
            path: text(parts.uri.path()),
            query: parts.uri.query().map(|own| text(&without_signatures(own))),
            is_secure,
            host: authority.or(host).map(text),
            // As long as a text may be, and what a last letter may need.
            user_agent: agent.map(|own| own[..own.len().min(1_028)].to_vec()),
            version: parts.version,
        }
    }

    /// Returns the method as spans have it, and whether it is one that is known.
    fn method(&self) -> (&'static str, bool) {
        const KNOWN: [&str; 9] = [
            "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH",
        ];
        let known = KNOWN.iter().find(|own| **own == self.method.as_str());
        known.map_or(("_OTHER", false), |own| (*own, true))
    }

    fn describe(&self, out: Attributes<'_, '_>) {
        let (method, is_known) = self.method();
        out.text("http.request.method", method);
        if !is_known {
            out.text("http.request.method_original", self.method.as_str());
        }
        out.text("url.scheme", if self.is_secure { "https" } else { "http" });
        out.text("url.path", &self.path);
        if let Some(query) = &self.query {
            out.text("url.query", query);
        }
        if let Some(host) = &self.host {
            self.describe_host(host, out);
        }
        if let Some(agent) = &self.user_agent {
            out.bytes("user_agent.original", agent);
        }
        let version = match self.version {
            Version::HTTP_10 => "1.0",
            Version::HTTP_2 => "2",
            _ => "1.1",
        };
        out.text("network.protocol.version", version);
    }

    fn describe_host(&self, host: &str, out: Attributes<'_, '_>) {
        let port_at = host.rfind(':').filter(|at| !host[*at..].contains(']'));
        let (name, port) = match port_at {
            Some(at) => (&host[..at], host[at + 1..].parse().ok()),
            None => (host, None),
        };
        let default = if self.is_secure { 443 } else { 80 };
        out.text("server.address", name.trim_matches(['[', ']']));
        out.number("server.port", port.unwrap_or(default));
    }
}

impl Ended<'_> {
    /// Returns whether the request's span tells of an error; a client's error is none of
    /// the server's.
    fn is_error(&self) -> bool {
        self.is_aborted || self.status.is_some_and(|own| own.is_server_error())
    }

    fn describe(&self, out: Attributes<'_, '_>) {
        out.text(
            "client.address",
            &self.client.ip().to_canonical().to_string(),
        );
        out.number("client.port", self.client.port().into());
        if let Some(status) = self.status {
            out.number("http.response.status_code", status.as_u16().into());
        }
        match (self.reason, self.status) {
            (Some(reason), _) => out.text("error.type", reason.name()),
            (None, Some(status)) if self.is_error() => out.text("error.type", status.as_str()),
            _ => {}
        }
        out.number("http.response.body.size", self.bytes);
        out.text("sprat.class", self.class);
        out.text("sprat.listener", self.listener);
        for (key, value) in [
            ("sprat.cluster", self.cluster),
            ("sprat.endpoint", self.endpoint),
        ] {
            if let Some(value) = value {
                out.text(key, value);
            }
        }
        if let Some(slowdown) = self.slowdown {
            out.real("sprat.slowdown", (slowdown * 1e3).round() / 1e3);
        }
    }
}

impl Work {
    fn describe(&self, head: &Head, out: Attributes<'_, '_>) {
        match self {
            Self::Wait { at } => out.text("sprat.wait.for", at),
            Self::Attempt {
                endpoint,
                status,
                error,
                resent,
                why,
            } => {
                out.text("http.request.method", head.method().0);
                out.text("sprat.endpoint", endpoint);
                describe_endpoint(endpoint, out);
                if let Some(status) = status {
                    out.number("http.response.status_code", status.as_u16().into());
                }
                match (error, status) {
                    (Some(error), _) => out.text("error.type", error),
                    (None, Some(status)) if status.as_u16() >= 400 => {
                        out.text("error.type", status.as_str());
                    }
                    _ => {}
                }
                if *resent > 0 {
                    out.number("http.request.resend_count", *resent);
                }
                if let Some(why) = why {
                    out.text("sprat.retry.reason", why);
                }
            }
            Self::Pacing { granted } => {
                out.number("sprat.pacing.grants", granted.grants);
                out.number("sprat.pacing.bytes", granted.bytes);
                let waited_ms = granted.waited.as_micros() as f64 / 1e3;
                out.real("sprat.pacing.wait_ms", waited_ms);
            }
        }
    }
}

/// Returns a query with `REDACTED` for the values that sign requests to stores of objects,
/// as OpenTelemetry's conventions have it (`url.query`).
fn without_signatures(query: &str) -> Cow<'_, str> {
    const NAMES: [&str; 4] = ["AWSAccessKeyId", "Signature", "sig", "X-Goog-Signature"];
    let is_one = |pair: &str| {
        pair.split_once('=')
            .is_some_and(|own| NAMES.contains(&own.0))
    };
    if !query.split('&').any(is_one) {
        return Cow::Borrowed(query);
    }
    let pairs = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, _)) if NAMES.contains(&name) => format!("{name}=REDACTED"),
        _ => pair.to_owned(),
    });
    Cow::Owned(pairs.collect::<Vec<_>>().join("&"))
}

/// Describes an endpoint by its label, which is an address or a name with a port.
fn describe_endpoint(label: &str, out: Attributes<'_, '_>) {
    let Some((host, port)) = label.rsplit_once(':') else {
        return out.text("server.address", label);
    };
    out.text("server.address", host.trim_matches(['[', ']']));
    if let Ok(port) = port.parse::<u16>() {
        out.number("server.port", port.into());
    }
}

/// A moment by the wall clock and by the monotonic one.
struct Clock {
    unix: Duration,
    instant: Instant,
}

impl Clock {
    fn now() -> Self {
        Self {
            unix: SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default(),
            instant: Instant::now(),
        }
    }

    /// Returns the time of an instant, in nanoseconds since 1970.
    fn unix_ns(&self, at: Instant) -> u64 {
        let unix = self
            .unix
            .saturating_sub(self.instant.saturating_duration_since(at));
        u64::try_from(unix.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// A wait that goes on until this is dropped, and is noted then.
pub(super) struct NotedWait {
    trace: Rc<Trace>,
    at: &'static str,
    began: Instant,
}

impl Drop for NotedWait {
    fn drop(&mut self) {
        if self.began.elapsed() >= MIN_WAIT {
            let of = Work::Wait { at: self.at };
            self.trace.note(SpanId::random(), self.began, of);
        }
    }
}

/// An attempt that goes on until this is dropped; it was cancelled if no outcome was told.
pub(super) struct Attempting {
    trace: Rc<Trace>,
    id: SpanId,
    began: Instant,
    endpoint: String,
    resent: u64,
    why: Option<&'static str>,
    status: Option<StatusCode>,
    error: Option<&'static str>,
}

impl Attempting {
    /// Ends the attempt with its outcome.
    pub(super) fn end(mut self, outcome: &Result<Answer, Box<Failed>>) {
        (self.status, self.error) = match outcome {
            Ok(answer) => (Some(answer.response.status()), None),
            Err(failed) => match &failed.response {
                Some(response) => (Some(response.status()), None),
                None => (None, Some(failed.reason.name())),
            },
        };
    }
}

impl Drop for Attempting {
    fn drop(&mut self) {
        let of = Work::Attempt {
            endpoint: std::mem::take(&mut self.endpoint),
            status: self.status,
            error: self.error,
            resent: self.resent,
            why: self.why,
        };
        self.trace.note(self.id, self.began, of);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_not_told() {
        for (query, told) in [
            ("a=b&sig", "a=b&sig"),
            (
                "a=b&sig=c&d=&Signature=",
                "a=b&sig=REDACTED&d=&Signature=REDACTED",
            ),
            ("X-Goog-Signature=a=b", "X-Goog-Signature=REDACTED"),
            ("SIG=a", "SIG=a"),
        ] {
            assert_eq!(without_signatures(query), told);
        }
    }
}
