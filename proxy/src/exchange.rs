//! The way of a request: checked, routed, dispatched, sent upstream; its
//! answer handed to the uplink.

pub(crate) mod answer;
mod attempt;
mod blame;
mod bounds;
mod check;
mod dispatch;
mod http2;
mod interim;
mod outcome;
pub(crate) mod path;
mod probe;
pub(crate) mod record;
mod retry;
pub(crate) mod service;
mod spare;
pub(crate) mod tunnel;
mod upgrade;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, HOST, TE, TRANSFER_ENCODING};
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body::Body as _;
use hyper::body::Incoming;
use sprat_config::classify::Asked;
use sprat_config::fields::accepts_json;
use sprat_config::resolved::HeadersWithUnderscores;
use sprat_net::begun::Begun;
use sprat_net::error::Reason;
use sprat_net::headers::{self, Client, Head};
use sprat_net::upload::{LeastRate, RequestBody, Upload};
use sprat_scheduler::Size;
use sprat_scheduler::station::Arrival;
use sprat_sizes::{Destination, Found, Patience, Prober};
use sprat_uplink::Course as _;
use sprat_upstream::{Upstream, affinity_hash};
use tokio::time::Instant;

use self::check::{check, content_length, is_last_hop, make_asterisk, requested_host};
use self::dispatch::Exchange;
use self::interim::Interims;
use self::probe::Heads;
use self::upgrade::Offer;
use crate::client::connection::{Connection, Stream};
use crate::exchange::answer::Body;
use crate::exchange::record::Record;
use crate::setup::generation::Generation;
use crate::setup::routing::{self, Route};

/// Answers a request with the response of an endpoint, or Sprat's own.
pub(crate) async fn handle(stream: Stream, request: Request<Incoming>) -> Response<Body> {
    let slips = stream.begin_request();
    let (mut parts, body) = request.into_parts();
    let mut record = Record::open(&stream, &parts);
    let json = accepts_json(&Head(&parts.headers));
    let generation = Rc::clone(record.generation());
    let checked = match check(&stream.connection, &parts, slips) {
        Ok(()) if stream.is_http2() => http2::admit(&stream.connection, &mut parts),
        checked => checked,
    };
    let underscores = stream.connection.listener.config.underscores;
    let checked = checked.and_then(|()| headers::names::admit(&mut parts.headers, underscores));
    let admitted =
        checked.and_then(|()| bounds::admit(&stream.connection, &parts.headers, &mut record));
    bounds::tell_client(&stream.connection, &parts.headers, &mut record);
    make_asterisk(&mut parts, slips);
    if admitted.is_ok() && is_last_hop(&mut parts) {
        record.upload = unwanted(&parts, body);
        return answer::answer_options(&stream, record).await;
    }
    let plan = admitted.and_then(|()| Plan::make(&stream, &generation, &mut parts, &mut record));
    let plan = match plan {
        Ok(plan) => plan,
        Err(reason) => {
            record.upload = unwanted(&parts, body);
            return answer::refuse(&stream, reason, json, record).await;
        }
    };
    let exchange = plan.exchange(parts, body);
    record.upload.clone_from(&exchange.upload);
    let fetched = exchange.fetch(&mut record).await;
    stream.interim_written().await;
    match fetched {
        Ok(response) if response.status() == StatusCode::SWITCHING_PROTOCOLS => {
            // Boxed: other requests do not carry its room.
            Box::pin(upgrade::switch(exchange.plan, response, record, json)).await
        }
        Ok(response) => {
            let mut response = response.map(Begun::new);
            if let Err(reason) = exchange.begin(response.body_mut(), &mut record).await {
                return answer::refuse(&stream, reason, json, record).await;
            }
            exchange.announce_close(&mut response);
            let known = exchange.plan.known(&response, &mut record).await;
            if let Some(lease) = &record.lease {
                lease.resize(known);
            }
            let bounds = exchange.plan.bounds(&record);
            stream.begin_response(Some(bounds));
            let response = response.map(|body| record.read_ahead(body));
            answer::respond(&stream, response, known, json, record).await
        }
        Err(reason) => {
            record.lease = None;
            answer::refuse(&stream, reason, json, record).await
        }
    }
}

/// The body of a request that is not passed on.
fn unwanted(parts: &Parts, body: Incoming) -> Option<Rc<Upload>> {
    let expects = parts.headers.contains_key(EXPECT);
    let is_over = body.is_end_stream();
    (!is_over).then(|| {
        let dropped = HeadersWithUnderscores::DropHeader;
        RequestBody::streaming(body, expects, None, None, dropped).1
    })
}

/// Where a request goes, and what has been decided about it.
struct Plan<'a> {
    /// Index of its priority class.
    class: usize,
    stream: &'a Stream,
    connection: &'a Connection,
    generation: &'a Generation,
    route: &'a Route,
    upstream: &'a Rc<Upstream>,
    head_only: bool,
    /// Whether the `Host` of the endpoint is to be sent.
    hostless: bool,
    /// Whether the client speaks HTTP/1.0.
    is_old: bool,
    chunked: bool,
    /// To switch to another protocol.
    offer: Option<Box<Offer>>,
    /// For the catalogue, if it could know the size.
    asked: Option<Box<sprat_sizes::Asked>>,
    /// Of what affinity goes by.
    hash: u64,
}

impl<'a> Plan<'a> {
    /// Routes the request, and makes its head that of the upstream request.
    fn make(
        stream: &'a Stream,
        generation: &'a Generation,
        parts: &mut Parts,
        record: &mut Record,
    ) -> Result<Self, Reason> {
        let connection = &*stream.connection;
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
        let other_reading = match asterisk {
            true => None,
            false => path::normalize(&connection.listener.config.paths, parts, record)?,
        };
        let route = find_route(connection, generation, parts, host, other_reading, record)?;
        record.cluster = Some(route.cluster);
        if let Some(rate) = &route.rate {
            bounds::admit_by_route(connection, rate, &parts.headers, record)?;
        }
        let retrieves = parts.method == Method::GET || parts.method == Method::HEAD;
        let target = route.target(&parts.uri).ok_or(Reason::InvalidTarget)?;
        let resource = match parts.uri.path_and_query() {
            Some(path) if retrieves => {
                let to = Destination {
                    cluster: route.cluster,
                    route: route.index,
                    host,
                    target: path,
                    upstream: target.path_and_query(),
                };
                generation.catalogue.asked(&to, &parts.headers)
            }
            _ => None,
        };
        let upstream = &generation.upstreams[route.cluster];
        let client = connection.peer_text().as_bytes();
        let hash = upstream
            .hash_key()
            .map_or(0, |key| affinity_hash(key, client, host, &parts.uri));
        // With HTTP/2 there is no connection to leave to another protocol.
        let offer = match upstream.is_http2() {
            true => None,
            false => Offer::of(stream, route, parts)?,
        };
        let hostless = asked.is_none() && route.host_rewrite.is_none();
        let is_old = parts.version == Version::HTTP_10;
        let chunked = plan_head(connection, route, parts, asked)?;
        if let Some(offer) = &offer {
            offer.add(&mut parts.headers);
        }
        let plan = Self {
            class: record.class,
            hash,
            stream,
            connection,
            generation,
            route,
            upstream,
            head_only: parts.method == Method::HEAD,
            hostless,
            is_old,
            chunked,
            offer,
            asked: resource,
        };
        parts.uri = target;
        Ok(plan)
    }

    fn exchange(self, parts: Parts, body: Incoming) -> Exchange<'a> {
        let mut request = Request::from_parts(parts, RequestBody::Empty);
        let (mut upload, mut opener) = (None, None);
        if !body.is_end_stream() {
            let config = &self.connection.listener.config;
            let rules = config.limits.min_rates.of_request_body();
            let rule = rules.map(|rules| LeastRate {
                rules,
                is_pressed: {
                    let listener = Arc::clone(&self.connection.listener);
                    let upstream = Rc::clone(self.upstream);
                    Box::new(move || listener.is_short_of_places() || upstream.is_short_of_places())
                },
            });
            let expects = request.headers().contains_key(EXPECT);
            let max_bytes = config.max_body_bytes;
            let (body, progress) =
                RequestBody::streaming(body, expects, max_bytes, rule, config.underscores);
            *request.body_mut() = body;
            upload = Some(progress);
            if expects {
                opener = request.body_mut().hold();
            }
        } else {
            request.headers_mut().remove(EXPECT);
        }
        if self.chunked && upload.is_some() {
            let chunked = HeaderValue::from_static("chunked");
            request.headers_mut().insert(TRANSFER_ENCODING, chunked);
        }
        // HTTP/1.0 has none.
        let bytes_max = self.upstream.max_header_bytes();
        let interims = (!self.is_old).then(|| Interims::new(bytes_max));
        // Over HTTP/1.1 the library asks for a body that is waited for.
        if let (true, Some(upload), Some(interims)) = (self.stream.is_http2(), &upload, &interims) {
            upload.ask_with(interims.asking());
        }
        Exchange {
            interims,
            opener,
            plan: self,
            request: Cell::new(Some(request)),
            upload,
            replaced: Cell::new(false),
        }
    }

    /// Has the catalogue asked; notes what it says.
    async fn ask(&self, record: &mut Record, looking: impl Future<Output = Option<Found>>) -> Size {
        self.stream.wait();
        let found = looking.await;
        record.layer = found.map(|found| found.layer);
        found.map_or(Size::Unknown, |found| found.size)
    }

    /// What the cluster is told of the request.
    async fn arrival(&self, record: &mut Record, request: &Request<RequestBody>) -> Arrival {
        let size = match &self.asked {
            _ if !self.upstream.wants_size() => Size::Unknown,
            _ if self.head_only => Size::Exact(0),
            Some(asked) => {
                let upstream = &Heads(self.upstream);
                let patience = match self.upstream.wants_size_now() {
                    true => Patience::Probe(Prober { upstream, request }),
                    // It can start at once, whatever its size.
                    false => Patience::None,
                };
                let catalogue = &self.generation.catalogue;
                let stats = &self.connection.serving.stats.catalogue;
                let looking = catalogue.lookup_with_source(asked, patience, stats);
                self.ask(record, looking).await
            }
            None => Size::Unknown,
        };
        record.expected = size;
        let (channel_backlog, channel_ahead) = match self.upstream.wants_backlog() {
            true => self.generation.uplink.backlog(self.class),
            false => Default::default(),
        };
        Arrival {
            class: self.class,
            size,
            hash: self.hash,
            random: fastrand::u64(..),
            channel_backlog,
            channel_ahead,
        }
    }

    fn bounds(&self, record: &Record) -> crate::client::connection::ResponseBounds {
        crate::client::connection::ResponseBounds {
            upstream_idle: self.route.idle_timeout,
            deadline: self.deadline(record),
            is_judged: self.upstream.observes(),
        }
    }

    fn deadline(&self, record: &Record) -> Option<Instant> {
        self.route.timeout.map(|timeout| record.started() + timeout)
    }

    /// What is known of the size of the response's body; has the catalogue
    /// learn what can be learnt.
    async fn known(&self, response: &Response<Begun<Incoming>>, record: &mut Record) -> Size {
        let catalogue = &self.generation.catalogue;
        let stats = &self.connection.serving.stats.catalogue;
        let asked = self.asked.as_ref();
        let lesson = asked.map(|asked| catalogue.lesson(asked, response.headers()));
        let teaches = response.status() == StatusCode::OK;
        let length = match self.head_only {
            true => content_length(response.headers()),
            false => response.body().size_hint().exact(),
        };
        if let (true, Some(lesson), Some(length)) = (teaches, &lesson, length) {
            if !self.head_only {
                record.compare(lesson, length);
            }
            catalogue.learn(lesson, length);
        }
        let bodiless = [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED];
        if self.head_only || bodiless.contains(&response.status()) {
            return Size::Exact(0);
        }
        if let Some(length) = length {
            return Size::Exact(length);
        }
        let Some(lesson) = lesson else {
            return Size::Unknown;
        };
        let size = match record.expected {
            Size::Unknown => {
                let looking = catalogue.lookup_of_response(&lesson, stats);
                self.ask(record, looking).await
            }
            expected => expected,
        };
        record.expected = size;
        record.lesson = teaches.then(|| Box::new(lesson));
        size
    }
}

/// Gives the request its class, which the uplink is told to expect, and its route.
fn find_route<'a>(
    connection: &Connection,
    generation: &'a Generation,
    parts: &Parts,
    host: &str,
    other_reading: Option<String>,
    record: &mut Record,
) -> Result<&'a Route, Reason> {
    let classifier = &generation.classifier;
    let asked = Asked {
        client: Some(connection.peer.ip()),
        dscp: connection.dscp,
        certificate: connection.certificate(),
        host,
        path: parts.uri.path(),
        method: parts.method.as_str(),
        fields: &Head(&parts.headers),
    };
    let classified = classifier.classify(&asked);
    record.class = classified.class;
    record.later = classifier.later(&asked, classified);
    let routes = &generation.routes;
    if other_reading.is_some_and(|other| !path::has_same_rules(routes, classifier, &asked, &other))
    {
        return Err(Reason::EscapedSlash);
    }
    if let Some(gauge) = connection.gauge() {
        gauge.expect(classified.class);
    }
    routes.find(host, asked.path).ok_or(Reason::NoRoute)
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
        secure: connection.secured().is_some(),
    };
    let forwarder = &connection.listener.forwarder;
    forwarder.add(&mut parts.headers, &client);
    if let Some(host) = &route.host_rewrite {
        parts.headers.insert(HOST, host.clone());
    } else if let (Some(host), Some(_)) = (asked, parts.uri.authority()) {
        parts.headers.insert(HOST, host);
    }
    // A body of HTTP/2 needs no length.
    let lengthless = || !parts.headers.contains_key(CONTENT_LENGTH);
    let chunked = hop.chunked || (parts.version == Version::HTTP_2 && lengthless());
    parts.version = Version::HTTP_11;
    Ok(chunked)
}
