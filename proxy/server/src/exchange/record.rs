//! The record of a request until it is done, when it is counted and logged.

mod facts;
mod routing;
mod sent;
mod upstream_part;

use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use http::request::Parts;
use http::{HeaderMap, Response, StatusCode};
use sprat_net::clock;
use sprat_net::error::{Fault, Reason};
use sprat_net::headers::Head;
use sprat_net::screen::Malformed;
use sprat_net::upload::{Progress, Upload};
use sprat_scheduler::{Size, WireCost};
use sprat_uplink::{Course as _, Delivery};
use sprat_upstream::{Held, Upstream};
use tokio::time::{Instant, sleep};

use super::size::Sizes;
use super::trace::{Ended, Trace};
use crate::client::connection::Stream;
use crate::observe::access_log::{Line, LoggedRequest, Logs};
use crate::observe::stats::WorkerStats;
use crate::setup::generation::Generation;
use crate::setup::limits::RequestPlace;
use crate::setup::routing::{Route, Telling};
pub(crate) use facts::RequestFacts;
pub(crate) use routing::Routing;
pub(crate) use sent::SentAnswer;
pub(crate) use upstream_part::UpstreamPart;

/// The time for which a stream of HTTP/2 stands after its answer, when the rest of its
/// request's body is not wanted.
const UNWANTED_FOR: Duration = Duration::from_secs(1);

/// The record of a request on its way. It counts as open while this lives; dropped before
/// [`Record::complete`], it counts as aborted.
pub(crate) struct Record {
    stream: Stream,
    /// The generation that the request is served by, whatever the configuration becomes meanwhile.
    generation: Rc<Generation>,
    started: Instant,
    pub(super) facts: RequestFacts,
    /// The terms that the request is served by.
    pub(crate) routing: Routing,
    /// The endpoint's part in the request.
    pub(super) upstream: UpstreamPart,
    /// The answer, as far as it has gone out.
    pub(crate) sent: SentAnswer,
    /// The request's place among those in progress, where they are counted.
    place: Option<Box<RequestPlace>>,
    /// The request's body, if it has one.
    upload: Option<Rc<Upload>>,
    reason: Option<Reason>,
    done: bool,
}

impl Record {
    /// Opens the record of a request whose head has just been read. Boxed, for it
    /// is handed on many times.
    pub(crate) fn open(stream: &Stream, parts: &Parts) -> Box<Self> {
        let generation = stream.connection().serving.generation();
        let request = generation.log.as_ref().map(|logs| {
            let needs = logs.needs();
            let is_secure = needs.scheme && stream.connection().is_secure(&parts.headers);
            Box::new(LoggedRequest::of(parts, needs, is_secure))
        });
        Self::new(stream, generation, request)
    }

    /// Opens the record of a request whose head could not be read.
    pub(crate) fn unreadable(stream: &Stream) -> Box<Self> {
        let generation = stream.connection().serving.generation();
        let is_logged = generation.log.is_some();
        let mut own = Self::new(stream, generation, None);
        own.facts.unread_line = stream.connection().unread_line().filter(|_| is_logged);
        own
    }

    /// Opens the record of a request of HTTP/2 that was malformed.
    pub(crate) fn malformed(stream: &Stream, request: Malformed) -> Box<Self> {
        let generation = stream.connection().serving.generation();
        let request = LoggedRequest::of_malformed(request).map(Box::new);
        Self::new(stream, generation, request)
    }

    fn new(
        stream: &Stream,
        generation: Rc<Generation>,
        request: Option<Box<LoggedRequest>>,
    ) -> Box<Self> {
        let serving = &stream.connection().serving;
        serving.stats.open_requests.increment();
        let class = generation.classifier.default_class();
        // Where it is going to be: it is large, and a move is a copy.
        let place = Box::new_uninit();
        let own = Self {
            stream: stream.clone(),
            generation,
            started: clock::now(),
            facts: RequestFacts::new(request),
            routing: Routing::new(class),
            upstream: UpstreamPart::default(),
            sent: SentAnswer::default(),
            place: None,
            upload: None,
            reason: None,
            done: false,
        };
        Box::write(place, own)
    }

    /// Returns the generation that the request is served by.
    pub(crate) fn generation(&self) -> &Rc<Generation> {
        &self.generation
    }

    /// Returns the route that the request goes by, once there is one.
    pub(crate) fn route(&self) -> Option<&Route> {
        self.routing
            .route()
            .map(|index| self.generation.routes.at(index))
    }

    /// Returns the cluster that the request went to, once there is one.
    fn cluster(&self) -> Option<&Rc<Upstream>> {
        self.routing
            .cluster()
            .map(|index| &self.generation.upstreams[index])
    }

    /// Keeps the request's place among those in progress, if they are counted.
    pub(super) fn keep_place(&mut self, place: Option<RequestPlace>) {
        self.place = place.map(Box::new);
    }

    /// Leaves the place among the requests in progress before the record ends.
    pub(super) fn leave_place(&mut self) {
        self.place = None;
    }

    /// Keeps the request's body on its way, if there is one.
    pub(super) fn keep_upload(&mut self, upload: Option<Rc<Upload>>) {
        self.upload = upload;
    }

    /// Returns whether all of the request's body has been sent on to the endpoint.
    pub(super) fn has_sent_on(&self) -> bool {
        self.upload.as_ref().is_none_or(|upload| upload.is_done())
    }

    /// Returns the reason why the request's body failed, if it did.
    pub(super) fn upload_failure(&self) -> Option<Reason> {
        self.upload.as_ref()?.failure()
    }

    /// Gives the request its identifier.
    pub(crate) fn identify(&mut self, headers: &mut HeaderMap) {
        let ids = self.stream.connection().listener.request_ids.as_ref();
        self.facts.request_id = ids.map(|ids| ids.give(headers));
    }

    /// Gives the request its part in a trace.
    pub(crate) fn join_trace(&mut self, parts: &Parts) {
        if let Some(tracer) = &self.generation.tracer {
            let is_secure = || self.stream.connection().is_secure(&parts.headers);
            self.facts.trace = Some(Trace::begin(tracer, parts, is_secure));
        }
    }

    /// Makes the head of a response as the client gets it, and keeps what logs tell of
    /// it.
    pub(crate) fn finish_head<B>(&mut self, response: &mut Response<B>) {
        self.edit_head(response);
        let ids = self.stream.connection().listener.request_ids.as_ref();
        if let (Some(ids), Some(id)) = (ids, &self.facts.request_id) {
            ids.tell(response.headers_mut(), id);
        }
        if let Some(logs) = &self.generation.log {
            self.facts.response = logs.needs().of_response(response.headers());
        }
    }

    /// Changes the head of a response as the route says.
    fn edit_head<B>(&self, response: &mut Response<B>) {
        if let Some(granted) = self.routing.granted() {
            granted.tell(response.headers_mut());
        }
        let edits = self.route().and_then(|route| route.edits.as_ref());
        let edits = edits.and_then(|edits| edits.response.as_ref());
        let (Some(edits), Some(subject)) = (edits, self.routing.subject()) else {
            return;
        };
        let cluster = self.cluster();
        let told = Telling {
            subject,
            cluster: cluster.map_or("", |own| own.name()),
            endpoint: self.upstream.label().unwrap_or_default(),
            response: Some((response.status(), response.headers())),
        };
        let values = edits.values(&told);
        edits.apply(values, response.headers_mut());
    }

    /// Changes the request's class as its rules say of a response with this head.
    pub(crate) fn reclassify(&mut self, head: &Head<'_>) {
        let classifier = &self.generation.classifier;
        let routing = &mut self.routing;
        routing.reclassify(|class, later| classifier.reclassify(class, later, head));
    }

    /// Returns when the request's head had been read.
    pub(crate) fn started(&self) -> Instant {
        self.started
    }

    /// Notes that the head of a response is on its way to the client.
    pub(crate) fn respond(&mut self, status: StatusCode) {
        self.sent.begin(status);
    }

    /// Notes why the request failed; the first reason counts.
    pub(crate) fn fail(&mut self, reason: Reason) {
        let progress = self.upload.as_ref().map(|upload| upload.progress());
        let reason = match (reason, progress) {
            // An endpoint that waits for its client is not silent by itself.
            (Reason::UpstreamIdleTimeout, Some(Progress::ClientOwes { .. })) => Reason::BodyTimeout,
            (Reason::UpstreamIdleTimeout, Some(progress))
                if progress.is_file_late(clock::now()) =>
            {
                Reason::BufferLost
            }
            _ => reason,
        };
        if self.reason.is_none() {
            self.reason = Some(reason);
        }
    }

    /// Ends the upstream's part: its connection serves the next request. What the stream tells
    /// of its silence is kept: a next response may begin on it before the client has this one.
    pub(crate) fn release_upstream(&mut self, now: Instant) {
        self.sent.silence = self.stream.upstream_silence();
        self.sent.has_paused = self.stream.has_paused();
        self.end_upload(true);
        self.upstream.release(now, self.sent.bytes);
    }

    /// Keeps the place at an endpoint of a response that may be read ahead: it may be free
    /// before the client has all of the response.
    pub(super) fn holds(&mut self, held: Rc<Held>) {
        self.stream.connection().holds(&held);
        self.upstream.hold(held);
    }

    /// Registers a task to be woken when the endpoint has sent all: the size of what is
    /// buffered is known then, if it was not.
    pub(super) fn tell_end(&self, waker: &Waker) {
        if !matches!(self.sent.size.size(), Size::Exact(_)) {
            self.upstream.tell_end(waker);
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

    /// Ends the upload: the part of the body that the upstream does not have is not wanted
    /// any more. The client may still be sending it, and gets the answer if it `listens`.
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
    pub(crate) fn complete(mut self: Box<Self>) {
        self.finish(false);
    }

    /// Reports an endpoint that has not given all of its response to its cluster, if that
    /// is its own doing.
    fn blame_endpoint(&mut self) {
        let own = match self.reason {
            Some(Reason::UpstreamIdleTimeout) => true,
            // One that could not send for long may have had enough.
            Some(Reason::ResponseIncomplete) => !self.stream.has_held_up(),
            _ => return,
        };
        if !own || !self.has_sent_on() {
            return;
        }
        self.upstream.ends_badly();
    }

    /// Settles all that the request has been counted in, and logs it.
    fn finish(&mut self, aborted: bool) {
        self.done = true;
        self.blame_endpoint();
        self.upstream.cancel();
        self.end_upload(!aborted);
        let took = clock::now() - self.started;
        self.count_answer();
        self.count_failure(aborted);
        let slowdown = self.slowdown();
        self.count_time(took, slowdown, aborted);
        let slowdown = slowdown.filter(|_| !aborted);
        self.trace(slowdown, aborted);
        let connection = self.stream.connection();
        let told = ToldLater {
            stats: Arc::clone(&connection.serving.stats),
            started: self.started,
            bytes: self.sent.bytes,
            line: self.line(took, slowdown, aborted),
        };
        let gauge = self.stream.connection().wire.gauge();
        if let Some(gauge) = gauge.filter(|_| !aborted && !self.sent.tunnelled) {
            gauge.await_response(Box::new(told));
        }
    }

    /// Counts the answer by its status, for its class, its listener and its cluster.
    fn count_answer(&self) {
        let connection = self.stream.connection();
        let stats = &connection.serving.stats;
        stats.open_requests.decrement();
        if !self.sent.tunnelled {
            stats.response_bytes.add(self.sent.bytes);
        }
        let class = self
            .sent_status()
            .map_or(5, |status| usize::from(status.as_u16() / 100 - 1).min(5));
        self.generation.classes[self.routing.class()].responses[class].increment();
        let listener = connection.serving.stats_of(&connection.listener);
        listener.responses[class].increment();
        let cluster = self.cluster().map(|own| own.counters());
        cluster.map_or(&stats.unrouted, |cluster| &cluster.responses)[class].increment();
    }

    /// Counts the reason why the request went wrong, if it did.
    fn count_failure(&self, aborted: bool) {
        let Some(reason) = self.reason else {
            return;
        };
        if let Reason::ClientClosed | Reason::TruncatedBody = reason {
            self.stream.left();
        }
        let stats = &self.stream.connection().serving.stats;
        stats.failures[reason.index()].increment();
        // Cut by the route's bound while the client, or the uplink, was waited for.
        let is_others =
            aborted && reason == Reason::RouteTimeout && !self.stream.is_upstream_silent();
        if reason.facts().fault == Fault::Upstream && !is_others {
            self.upstream.count_error(reason);
        }
    }

    /// Returns the response's slowdown; none if the uplink has no rate, or for a stream or
    /// a tunnel.
    fn slowdown(&self) -> Option<f64> {
        let rate = self.generation.uplink.rate_bits_per_s()?;
        let took = clock::now() - self.sent.answered?;
        if self.is_stream() {
            return None;
        }
        let own = took.saturating_sub(self.sent.silence);
        slowdown(self.sent.bytes, own, rate)
    }

    /// Returns whether the response has paused, or became a tunnel.
    fn is_stream(&self) -> bool {
        self.sent.tunnelled || self.sent.has_paused
    }

    /// Counts the time of the response, or that it was aborted, and has the catalogue learn
    /// its size.
    fn count_time(&mut self, took: Duration, slowdown: Option<f64>, aborted: bool) {
        let stats = &self.stream.connection().serving.stats;
        if aborted {
            stats.aborted.increment();
        } else if !self.sent.tunnelled {
            let bytes = self.sent.bytes;
            stats.observe(bytes, took, slowdown);
            self.generation.classes[self.routing.class()].observe(bytes, took);
            let cluster = self.cluster().map(|own| own.counters());
            cluster.inspect(|cluster| cluster.durations.took(took));
            // How much of an event stream one client has heard says nothing of the next.
            if !self.is_stream() {
                let sizes = Sizes::of(&self.generation, &self.stream);
                self.sent.size.at_end(bytes, sizes);
            }
        }
    }

    /// Sends the request's spans to the collector, if it is sampled.
    fn trace(&self, slowdown: Option<f64>, is_aborted: bool) {
        let (Some(trace), Some(tracer)) = (&self.facts.trace, &self.generation.tracer) else {
            return;
        };
        let connection = self.stream.connection();
        let spans = trace.end(&Ended {
            started: self.started,
            client: connection.client.peer,
            status: self.told_status(),
            reason: self.reason,
            is_aborted,
            bytes: self.sent.bytes,
            slowdown,
            class: self.generation.classifier.name(self.routing.class()),
            listener: &connection.listener.name,
            cluster: self.cluster().map(|own| own.name()),
            endpoint: self.upstream.label(),
        });
        if let Some(spans) = spans {
            tracer.send(spans);
        }
    }

    /// Returns the status that the client got. One that went away before any of the
    /// body was sent got none.
    fn sent_status(&self) -> Option<StatusCode> {
        let has_gone = matches!(self.reason, Some(Reason::ClientClosed));
        let got_nothing = has_gone && self.sent.bytes == 0 && !self.sent.tunnelled;
        self.sent.status.filter(|_| !got_nothing)
    }

    /// Returns the status that the client got, or the one that stands for the reason why
    /// there was none.
    fn told_status(&self) -> Option<StatusCode> {
        let instead = || self.reason.map(|own| own.facts().status);
        self.sent_status().or_else(instead)
    }

    /// Makes the request's line in access logs, if there are any.
    fn line(
        &mut self,
        duration: Duration,
        slowdown: Option<f64>,
        aborted: bool,
    ) -> Option<(Logs, Box<Line>)> {
        let logs = self.generation.log.clone()?;
        let connection = self.stream.connection();
        let shown = connection
            .client
            .certificate()
            .filter(|_| logs.needs().certificate);
        let peer = shown.map(|own| {
            let common_name = own.common_name.unwrap_or_default().to_owned();
            Box::new([own.dns.join(","), own.uris.join(","), common_name])
        });
        let mut facts = std::mem::take(&mut self.facts);
        let matched = self.routing.take_matched();
        if let (Some(request), Some(path)) = (&mut facts.request, matched) {
            request.matched(path);
        }
        let line = Line {
            ended: std::time::SystemTime::now(),
            duration,
            acknowledged: None,
            client: connection.client.peer,
            local_port: connection.client.ends().local.port(),
            listener: Arc::clone(&connection.listener.name),
            tls: connection.client.secured().map(|own| own.terms),
            peer,
            request_id: facts.request_id,
            trace: facts.trace.as_ref().map(|own| own.context),
            response: facts.response,
            request: facts.request,
            unread_line: facts.unread_line,
            status: self.told_status(),
            bytes: self.sent.bytes,
            size: self.sent.told_size(),
            size_layer: self.sent.size.layer(),
            wait: self.sent.wait,
            queue_wait: self.upstream.waited(),
            slowdown,
            class: Arc::clone(self.generation.classifier.name(self.routing.class())),
            user: self.routing.take_user(),
            cluster: self.cluster().map(|own| own.cluster()),
            endpoint: self.upstream.member().map(Arc::clone),
            session: facts.session,
            reason: self.reason,
            aborted,
        };
        Some((logs, Box::new(line)))
    }
}

/// The facts still to be told of a response when its client has acknowledged it, or when
/// the wait for that is over.
struct ToldLater {
    stats: Arc<WorkerStats>,
    started: Instant,
    bytes: u64,
    line: Option<(Logs, Box<Line>)>,
}

impl Delivery for ToldLater {
    fn acknowledged(mut self: Box<Self>, at: Instant) {
        let took = at - self.started;
        self.stats.observe_acknowledged(self.bytes, took);
        if let Some((_, line)) = &mut self.line {
            line.acknowledged = Some(took);
        }
    }
}

impl Drop for ToldLater {
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

/// Returns a response's slowdown: the time that it `took` over the time that the link alone
/// needs; none if it has no body. The time counts from when its head was there, less the
/// waits for its endpoint. The slowdown is 1 at least: what the kernel holds at the end is
/// still on its way.
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
