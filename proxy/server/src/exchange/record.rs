//! What is remembered of a request until it is done, then counted and logged.

use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use sprat_config::classify::Later;
use sprat_net::clock;
use sprat_net::error::{Advice, Fault, Reason};
use sprat_net::screen::Malformed;
use sprat_net::upload::{Progress, Upload};
use sprat_scheduler::{Size, WireCost};
use sprat_uplink::{Course as _, Delivery};
use sprat_upstream::{Endpoint, Held, Lease, SessionOutcome};
use tokio::time::{Instant, sleep};

use super::size::{SizeBelief, Sizes};
use super::trace::{Ended, Trace};
use crate::client::connection::Stream;
use crate::observe::access_log::{Asked, Kept, Line, Logs};
use crate::observe::stats::WorkerStats;
use crate::setup::generation::Generation;
use crate::setup::limits::RequestPlace;
use crate::setup::routing::{Granted, Route, Subject, Telling};

/// The time for which a stream of HTTP/2 stands after its answer, when its body is not wanted.
const UNWANTED_FOR: Duration = Duration::from_secs(1);

/// A request on its way. It counts as open while this lives; dropped before
/// [`Record::complete`], it counts as aborted.
pub(crate) struct Record {
    stream: Stream,
    /// The generation that the request is served by, whatever the configuration becomes meanwhile.
    generation: Rc<Generation>,
    started: Instant,
    request: Option<Box<Asked>>,
    /// The request's identifier, if requests get one.
    request_id: Option<HeaderValue>,
    /// The request's part in a trace, if requests have one.
    pub(super) trace: Option<Rc<Trace>>,
    /// Fields of the response's head that access logs tell of.
    told_response: Kept,
    /// The beginning of the request line, where there is no request.
    unread_line: Option<Box<[u8]>>,
    /// The status sent to the client; none while there is no head.
    status: Option<StatusCode>,
    /// The time at which the response had a head: from then on it is the proxy's to send.
    answered: Option<Instant>,
    /// Bytes of the body handed to the client's connection.
    pub(crate) bytes: u64,
    /// The size of the response's body, as far as it is believed.
    pub(crate) size: SizeBelief,
    /// The time that its bytes waited for the uplink.
    pub(crate) wait: Duration,
    /// The time that it waited for an endpoint.
    pub(crate) queue_wait: Duration,
    /// The advice that the client gets if it is refused.
    pub(crate) advice: Option<Box<Advice>>,
    /// Index of its priority class.
    pub(crate) class: usize,
    /// The number of its client, where clients share the uplink.
    pub(crate) client: Option<u64>,
    /// The rules that may change the class when the response comes.
    pub(crate) later: Option<Later>,
    /// Index of the route, once there is one.
    pub(crate) route: Option<usize>,
    /// The facts of the request that changes of heads may tell, if its route makes any.
    pub(crate) subject: Option<Box<Subject>>,
    /// The page of another origin that may use the response, if its route says so.
    pub(crate) granted: Option<Box<Granted>>,
    /// The user who asks, once that is known.
    pub(crate) user: Option<Box<str>>,
    /// Index of the cluster, once routed.
    pub(crate) cluster: Option<usize>,
    /// The endpoint, once chosen.
    pub(crate) endpoint: Option<Rc<Endpoint>>,
    /// The upstream connection, while it is in use.
    pub(crate) lease: Option<Lease>,
    /// The outcome of its session, where its cluster keeps any.
    pub(crate) session: Option<SessionOutcome>,
    /// The lease once it is shared with what reads ahead, which may end it before
    /// the client has all.
    held: Option<Rc<Held>>,
    /// The request's place among those in progress, where they are counted.
    pub(crate) place: Option<Box<RequestPlace>>,
    /// The request's body, if it has one.
    pub(crate) upload: Option<Rc<Upload>>,
    /// The connection has switched to another protocol: what follows is no
    /// response.
    pub(crate) tunnelled: bool,
    reason: Option<Reason>,
    done: bool,
}

impl Record {
    /// Opens the record of a request whose head has just been read. Boxed, for it
    /// is handed on many times.
    pub(crate) fn open(stream: &Stream, parts: &Parts) -> Box<Self> {
        let generation = stream.connection.serving.generation();
        let request = generation.log.as_ref().map(|logs| {
            let needs = logs.needs();
            let is_secure = needs.scheme && stream.connection.is_secure(&parts.headers);
            Box::new(Asked::of(parts, needs, is_secure))
        });
        Self::new(stream, generation, request)
    }

    /// Opens the record of a request whose head could not be read.
    pub(crate) fn unreadable(stream: &Stream) -> Box<Self> {
        let generation = stream.connection.serving.generation();
        let is_logged = generation.log.is_some();
        let mut own = Self::new(stream, generation, None);
        own.unread_line = stream.connection.unread_line().filter(|_| is_logged);
        own
    }

    /// Opens the record of a request of HTTP/2 that was malformed.
    pub(crate) fn malformed(stream: &Stream, request: Malformed) -> Box<Self> {
        let generation = stream.connection.serving.generation();
        let request = Asked::of_malformed(request).map(Box::new);
        Self::new(stream, generation, request)
    }

    fn new(stream: &Stream, generation: Rc<Generation>, request: Option<Box<Asked>>) -> Box<Self> {
        let serving = &stream.connection.serving;
        serving.stats.open_requests.increment();
        let class = generation.classifier.default_class();
        Box::new(Self {
            stream: stream.clone(),
            generation,
            started: clock::now(),
            request,
            request_id: None,
            trace: None,
            told_response: Kept::default(),
            unread_line: None,
            status: None,
            answered: None,
            bytes: 0,
            size: SizeBelief::none(),
            wait: Duration::ZERO,
            queue_wait: Duration::ZERO,
            advice: None,
            class,
            client: None,
            later: None,
            route: None,
            subject: None,
            granted: None,
            user: None,
            cluster: None,
            endpoint: None,
            lease: None,
            session: None,
            held: None,
            place: None,
            upload: None,
            tunnelled: false,
            reason: None,
            done: false,
        })
    }

    /// Returns the generation that the request is served by.
    pub(crate) fn generation(&self) -> &Rc<Generation> {
        &self.generation
    }

    /// Returns the route that the request goes by, once there is one.
    pub(crate) fn route(&self) -> Option<&Route> {
        self.route.map(|index| self.generation.routes.at(index))
    }

    /// Gives the request its identifier.
    pub(crate) fn identify(&mut self, headers: &mut HeaderMap) {
        let ids = self.stream.connection.listener.request_ids.as_ref();
        self.request_id = ids.map(|ids| ids.give(headers));
    }

    /// Gives the request its part in a trace.
    pub(crate) fn join_trace(&mut self, parts: &Parts) {
        if let Some(tracer) = &self.generation.tracer {
            let is_secure = || self.stream.connection.is_secure(&parts.headers);
            self.trace = Some(Trace::begin(tracer, parts, is_secure));
        }
    }

    /// Sees that the backend is told the request's identifier, and its trace.
    pub(crate) fn keep_identifier(&self, headers: &mut HeaderMap) {
        if let Some(trace) = &self.trace {
            trace.tell(headers);
        }
        let ids = self.stream.connection.listener.request_ids.as_ref();
        if let (Some(ids), Some(id)) = (ids, &self.request_id) {
            ids.keep(headers, id);
        }
    }

    /// Makes the head of a response as the client gets it, and keeps what logs tell of
    /// it.
    pub(crate) fn finish_head<B>(&mut self, response: &mut Response<B>) {
        self.edit_head(response);
        let ids = self.stream.connection.listener.request_ids.as_ref();
        if let (Some(ids), Some(id)) = (ids, &self.request_id) {
            ids.tell(response.headers_mut(), id);
        }
        if let Some(logs) = &self.generation.log {
            self.told_response = logs.needs().of_response(response.headers());
        }
    }

    /// Changes the head of a response as the route says.
    fn edit_head<B>(&self, response: &mut Response<B>) {
        if let Some(granted) = &self.granted {
            granted.tell(response.headers_mut());
        }
        let edits = self.route().and_then(|route| route.edits.as_ref());
        let edits = edits.and_then(|edits| edits.response.as_ref());
        let (Some(edits), Some(subject)) = (edits, &self.subject) else {
            return;
        };
        let cluster = self.cluster.map(|index| &self.generation.upstreams[index]);
        let told = Telling {
            subject,
            cluster: cluster.map_or("", |own| own.name()),
            endpoint: (self.endpoint.as_ref()).map_or("", |own| &own.member.label),
            response: Some((response.status(), response.headers())),
        };
        let values = edits.values(&told);
        edits.apply(values, response.headers_mut());
    }

    /// Notes that rules were matched with another path than the client sent.
    pub(crate) fn matched(&mut self, path: String) {
        if let Some(request) = &mut self.request {
            request.matched(path);
        }
    }

    /// Returns when the request's head had been read.
    pub(crate) fn started(&self) -> Instant {
        self.started
    }

    /// Notes that the head of a response is on its way to the client.
    pub(crate) fn respond(&mut self, status: StatusCode) {
        self.status = Some(status);
        self.answered.get_or_insert_with(clock::now);
    }

    /// Notes the first thing that went wrong.
    pub(crate) fn fail(&mut self, reason: Reason) {
        let progress = self.upload.as_ref().map(|upload| upload.progress());
        let reason = match (reason, progress) {
            // An endpoint that waits for its client is not silent by itself.
            (Reason::UpstreamIdleTimeout, Some(Progress::ClientOwes { .. })) => Reason::BodyTimeout,
            _ => reason,
        };
        if self.reason.is_none() {
            self.reason = Some(reason);
        }
    }

    /// Ends the upstream's part: its connection serves the next request.
    pub(crate) fn release_upstream(&mut self, now: Instant) {
        self.end_upload(true);
        if let Some(lease) = self.lease.take() {
            lease.release(now, self.bytes);
        }
        if let Some(held) = self.held.take() {
            held.release(now, self.bytes);
        }
    }

    /// Notes that the upstream's part may be over before the client has all of the response.
    pub(crate) fn holds(&mut self, held: Rc<Held>) {
        self.stream.connection.holds(&held);
        self.held = Some(held);
    }

    /// Registers a task to be woken when the endpoint has sent all: the size of what is
    /// buffered is known then, if it was not.
    pub(crate) fn tell_end(&self, waker: &Waker) {
        if let (Some(held), false) = (&self.held, matches!(self.size.size(), Size::Exact(_))) {
            held.tell_end(waker);
        }
    }

    /// Returns whether nothing of the request's body is still to come on its connection,
    /// now that the rest is not wanted.
    pub(crate) async fn has_all(&self, stream: &Stream) -> bool {
        match &self.upload {
            Some(upload) if !stream.is_http2() => upload.discard().await,
            _ => true,
        }
    }

    /// Ends the upload: what is not with the upstream yet is not wanted any more.
    /// The client may still be sending it, and hears the answer if it `listens`.
    fn end_upload(&mut self, listens: bool) {
        let Some(upload) = self.upload.take() else {
            return;
        };
        upload.end();
        if upload.has_come() {
            return;
        }
        self.stream.close_lingering();
        if listens && self.stream.is_http2() {
            // Dropped, its stream is reset: RFC 9113 8.1 has that after an answer,
            // but some clients forget the answer for it (curl 7.88). So it stands
            // for a while, and takes no more than its window.
            drop(tokio::task::spawn_local(async move {
                sleep(UNWANTED_FOR).await;
                drop(upload);
            }));
        }
    }

    /// Counts and logs the request, whose last byte has gone out.
    pub(crate) fn complete(mut self) {
        self.finish(false);
    }

    /// Tells the cluster of an endpoint that has not given all of its response, if
    /// that is its own doing.
    fn blame_endpoint(&mut self) {
        let own = match self.reason {
            Some(Reason::UpstreamIdleTimeout) => true,
            // One that could not send for long may have had enough.
            Some(Reason::ResponseIncomplete) => !self.stream.has_held_up(),
            _ => return,
        };
        let had_all = self.upload.as_ref().is_none_or(|upload| upload.is_done());
        if !own || !had_all {
            return;
        }
        if let Some(lease) = &mut self.lease {
            lease.ends_badly();
        }
        if let Some(held) = &self.held {
            held.ends_badly();
        }
    }

    fn finish(&mut self, aborted: bool) {
        self.done = true;
        self.blame_endpoint();
        if let Some(held) = self.held.take() {
            held.cancel();
        }
        self.end_upload(!aborted);
        let duration = clock::now() - self.started;
        let generation = &self.generation;
        let stats = &self.stream.connection.serving.stats;
        let counters = &generation.classes[self.class];
        stats.open_requests.decrement();
        if !self.tunnelled {
            stats.response_bytes.add(self.bytes);
        }
        let class = self
            .sent_status()
            .map_or(5, |status| usize::from(status.as_u16() / 100 - 1).min(5));
        counters.responses[class].increment();
        let connection = &self.stream.connection;
        let listener = connection.serving.stats_of(&connection.listener);
        listener.responses[class].increment();
        let cluster = self.cluster;
        let cluster = cluster.map(|index| generation.upstreams[index].counters());
        cluster.map_or(&stats.unrouted, |cluster| &cluster.responses)[class].increment();
        if let Some(Reason::ClientClosed | Reason::TruncatedBody) = self.reason {
            self.stream.left();
        }
        if let Some(reason) = self.reason {
            stats.failures[reason.index()].increment();
            // Cut by the route's bound while the client, or the uplink, was waited for.
            let is_others =
                aborted && reason == Reason::RouteTimeout && !self.stream.is_upstream_silent();
            let fault = reason.facts().fault;
            if let (Some(endpoint), Fault::Upstream, false) = (&self.endpoint, fault, is_others) {
                endpoint.stats.errors[reason.index()].increment();
            }
        }
        let is_stream = self.tunnelled || self.stream.has_paused();
        let slowdown = match (generation.uplink.rate_bits_per_s(), self.answered) {
            (Some(rate), Some(answered)) if !is_stream => {
                let own = clock::now() - answered;
                let own = own.saturating_sub(self.stream.upstream_silence());
                slowdown(self.bytes, own, rate)
            }
            _ => None,
        };
        if aborted {
            stats.aborted.increment();
        } else if !self.tunnelled {
            stats.observe(self.bytes, duration, slowdown);
            counters.observe(self.bytes, duration);
            cluster.inspect(|cluster| cluster.durations.took(duration));
            // How much of an event stream one client has heard says nothing of the next.
            if !is_stream {
                let sizes = Sizes::of(&self.generation, &self.stream);
                self.size.at_end(self.bytes, sizes);
            }
        }
        self.trace(slowdown.filter(|_| !aborted), aborted);
        let told = Told {
            stats: Arc::clone(stats),
            started: self.started,
            bytes: self.bytes,
            line: self.line(duration, slowdown, aborted),
        };
        if let (Some(gauge), false) = (self.stream.connection.gauge(), aborted || self.tunnelled) {
            gauge.await_response(Box::new(told));
        }
    }

    /// Sends the request's spans to the collector, if it is sampled.
    fn trace(&self, slowdown: Option<f64>, is_aborted: bool) {
        let (Some(trace), Some(tracer)) = (&self.trace, &self.generation.tracer) else {
            return;
        };
        let connection = &self.stream.connection;
        let cluster = self.cluster.map(|at| &self.generation.upstreams[at]);
        let spans = trace.end(&Ended {
            started: self.started,
            client: connection.peer,
            status: self
                .sent_status()
                .or(self.reason.map(|own| own.facts().status)),
            reason: self.reason,
            is_aborted,
            bytes: self.bytes,
            slowdown,
            class: self.generation.classifier.name(self.class),
            listener: &connection.listener.name,
            cluster: cluster.map(|own| own.name()),
            endpoint: (self.endpoint.as_ref()).map(|own| own.member.label.as_str()),
        });
        if let Some(spans) = spans {
            tracer.send(spans);
        }
    }

    /// Returns the status that the client got. One that went away before any of the
    /// body was sent got none.
    fn sent_status(&self) -> Option<StatusCode> {
        let has_gone = matches!(self.reason, Some(Reason::ClientClosed));
        let got_nothing = has_gone && self.bytes == 0 && !self.tunnelled;
        self.status.filter(|_| !got_nothing)
    }

    /// Returns the size that was known when the response began, as lines tell it.
    fn told_size(&self) -> Size {
        match self.status {
            Some(_) if !self.tunnelled => self.size.size(),
            _ => Size::Unknown,
        }
    }

    fn line(
        &mut self,
        duration: Duration,
        slowdown: Option<f64>,
        aborted: bool,
    ) -> Option<(Logs, Box<Line>)> {
        let generation = Rc::clone(&self.generation);
        let logs = generation.log.clone()?;
        let connection = &self.stream.connection;
        let shown = connection
            .certificate()
            .filter(|_| logs.needs().certificate);
        let peer = shown.map(|own| {
            let common_name = own.common_name.unwrap_or_default().to_owned();
            Box::new([own.dns.join(","), own.uris.join(","), common_name])
        });
        let line = Line {
            ended: std::time::SystemTime::now(),
            duration,
            acknowledged: None,
            client: connection.peer,
            local_port: connection.ends().local.port(),
            listener: Arc::clone(&connection.listener.name),
            tls: connection.secured().map(|own| own.terms),
            peer,
            request_id: self.request_id.take(),
            trace: self.trace.as_ref().map(|own| own.context),
            response: std::mem::take(&mut self.told_response),
            request: self.request.take(),
            unread_line: self.unread_line.take(),
            status: self.sent_status().or(self.reason.map(|r| r.facts().status)),
            bytes: self.bytes,
            size: self.told_size(),
            size_layer: self.size.source(),
            wait: self.wait,
            queue_wait: self.queue_wait,
            slowdown: slowdown.filter(|_| !aborted),
            class: Arc::clone(generation.classifier.name(self.class)),
            user: self.user.take(),
            cluster: self
                .cluster
                .map(|index| generation.upstreams[index].cluster()),
            endpoint: (self.endpoint.as_ref()).map(|own| Arc::clone(&own.member)),
            session: self.session,
            reason: self.reason,
            aborted,
        };
        Some((logs, Box::new(line)))
    }
}

/// The facts still to be told of a response when its client has acknowledged it, or when
/// the wait for that is over.
struct Told {
    stats: Arc<WorkerStats>,
    started: Instant,
    bytes: u64,
    line: Option<(Logs, Box<Line>)>,
}

impl Delivery for Told {
    fn acknowledged(mut self: Box<Self>, at: Instant) {
        let took = at - self.started;
        self.stats.observe_acknowledged(self.bytes, took);
        if let Some((_, line)) = &mut self.line {
            line.acknowledged = Some(took);
        }
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        if let Some((logs, line)) = self.line.take() {
            self.stats.log_lines_dropped.add(logs.send(&line));
        }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if !self.done {
            let why = self.stream.cut_reason().unwrap_or(Reason::ClientClosed);
            self.fail(why);
            self.finish(true);
        }
    }
}

/// Returns how many times as long a response took as the link alone needs for it, from
/// when its head was there, less what its backend was waited for; none if it has no body.
/// It is 1 at least: what the kernel holds at the end is still on its way.
fn slowdown(bytes: u64, took: Duration, rate_bits_per_s: f64) -> Option<f64> {
    let ideal_s = WireCost::ETHERNET_IPV4.bytes(bytes) as f64 * 8.0 / rate_bits_per_s;
    (bytes > 0).then(|| (took.as_secs_f64() / ideal_s).max(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slowdown_compares_with_the_link_alone() {
        let took = Duration::from_secs(1);
        let bytes = WireCost::ETHERNET_IPV4.bytes(1000);
        let expected = 1e6 / (bytes as f64 * 8.0);
        let got = slowdown(1000, took, 1e6).unwrap();
        assert!((got - expected).abs() < 1e-9);
        assert_eq!(slowdown(1000, Duration::ZERO, 1e6), Some(1.0));
        assert_eq!(slowdown(0, took, 1e6), None);
    }
}
