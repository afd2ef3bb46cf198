//! The record of a request until it is done, when it is settled and told of.

mod facts;
mod head;
mod report;
mod routing;
mod sent;
mod settlement;
mod upstream_part;

use std::rc::Rc;
use std::task::Waker;

use http::request::Parts;
use http::{HeaderMap, StatusCode};
use sprat_net::clock;
use sprat_net::error::Reason;
use sprat_net::headers::Head;
use sprat_net::screen::Malformed;
use sprat_net::upload::{Progress, Upload};
use sprat_scheduler::Size;
use sprat_uplink::Course as _;
use sprat_upstream::{Held, SessionOutcome, Upstream};
use tokio::time::Instant;

use super::trace::Trace;
use crate::client::connection::Stream;
use crate::observe::access_log::LoggedRequest;
use crate::setup::generation::Generation;
use crate::setup::limits::RequestPlace;
use crate::setup::routing::Route;
pub(super) use facts::RequestFacts;
pub(super) use routing::Routing;
use sent::SentAnswer;
use upstream_part::UpstreamPart;

/// The record of a request on its way. It counts as open while this lives; dropped before
/// [`Record::complete`], it counts as aborted.
pub(crate) struct Record {
    stream: Stream,
    /// The generation that the request is served by, whatever the configuration becomes meanwhile.
    generation: Rc<Generation>,
    started: Instant,
    facts: RequestFacts,
    /// The terms that the request is served by.
    routing: Routing,
    /// The endpoint's part in the request.
    pub(super) upstream: UpstreamPart,
    /// The answer, as far as it has gone out.
    pub(super) sent: SentAnswer,
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

    /// Returns the terms that the request is served by, as far as they are decided.
    pub(super) fn routing(&self) -> &Routing {
        &self.routing
    }

    /// Returns what a plan tells endpoints of the request, and the terms that it decides.
    pub(super) fn planning(&mut self) -> (&RequestFacts, &mut Routing) {
        (&self.facts, &mut self.routing)
    }

    /// Returns the request's part in a trace, if requests have one.
    pub(super) fn trace(&self) -> Option<&Rc<Trace>> {
        self.facts.trace()
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

    /// Notes the number of the request's client, where clients share the uplink.
    pub(super) fn is_of_client(&mut self, number: Option<u64>) {
        self.routing.is_of_client(number);
    }

    /// Keeps the outcome of the request's session.
    pub(super) fn keep_session(&mut self, outcome: SessionOutcome) {
        self.facts.keep_session(outcome);
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

    /// Keeps the place at an endpoint of a response that may be read ahead: it may be free
    /// before the client has all of the response.
    pub(super) fn holds(&mut self, held: Rc<Held>) {
        self.stream.connection().holds(&held);
        self.upstream.hold(held);
    }

    /// Registers a task to be woken when the endpoint has sent all: the size of what is
    /// buffered is known then, if it was not.
    pub(super) fn tell_end(&self, waker: &Waker) {
        if !matches!(self.sent.size(), Size::Exact(_)) {
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

    /// Counts and logs the request, whose last byte has gone out.
    pub(crate) fn complete(mut self: Box<Self>) {
        self.finish(false);
    }

    /// Closes the record: settles what the request holds, counts it, has the catalogue learn, and
    /// tells traces and logs.
    fn finish(&mut self, aborted: bool) {
        self.done = true;
        self.settle(aborted);
        let end = self.end(aborted);
        self.count(&end);
        if !aborted {
            self.teach();
        }
        self.tell(&end);
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
