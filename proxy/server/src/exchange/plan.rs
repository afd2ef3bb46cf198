//! A request's way, planned from its head: to a cluster, or to an answer of Sprat's own.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, HOST, LOCATION, TE, TRANSFER_ENCODING};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Request, Response, Version};
use http_body::Body;
use hyper::body::Incoming;
use sprat_config::classify::Asked;
use sprat_config::resolved::{Algorithm, BodyBound};
use sprat_net::coding::negotiate;
use sprat_net::error::{Advice, Reason};
use sprat_net::headers::{self, Client, Head};
use sprat_net::upload::{LeastRate, RequestBody};
use sprat_scheduler::station::Arrival;
use sprat_sizes::{Destination, Patience, Prober};
use sprat_uplink::Course as _;
use sprat_upstream::{SessionId, Upstream, affinity_hash};
use tokio::time::Instant;

use super::check::{content_length, requested_host};
use super::decide::{Decision, Rules, Way};
use super::dispatch::Exchange;
use super::interim::Interims;
use super::local::Local;
use super::mirror;
use super::probe::Heads;
use super::size::Sizes;
use super::trace::Trace;
use super::upgrade::Offer;
use super::{access, bounds, buffering, path};
use crate::client::connection::{Connection, ResponseBounds, Stream};
use crate::exchange::record::Record;
use crate::setup::generation::Generation;
use crate::setup::routing::{self, Forward, Needs, Peer, Route, Sought, Subject, Telling};

/// The treatment of a request that goes to no cluster.
pub(super) enum Instead {
    /// The request is refused.
    Refused(Reason),
    /// Sprat answers by itself, as the route says.
    Answered(Box<Local>),
}

impl From<Reason> for Instead {
    fn from(reason: Reason) -> Self {
        Self::Refused(reason)
    }
}

/// The way that a request goes, and what has been decided about it.
pub(super) struct Plan<'a> {
    /// Index of its priority class.
    pub(super) class: usize,
    pub(super) stream: &'a Stream,
    pub(super) connection: &'a Connection,
    pub(super) generation: &'a Generation,
    pub(super) route: &'a Route,
    /// The clusters that it may go to.
    forward: &'a Forward,
    pub(super) upstream: &'a Rc<Upstream>,
    pub(super) head_only: bool,
    /// Whether the `Host` of the endpoint is to be sent.
    pub(super) hostless: bool,
    /// Whether the client speaks HTTP/1.0.
    pub(super) is_old: bool,
    chunked: bool,
    /// The coding that the response may have, if its route compresses any.
    pub(super) coding: Option<Algorithm>,
    /// The offer to switch to another protocol.
    pub(super) offer: Option<Box<Offer>>,
    /// The question for the catalogue, if it could know the size.
    asked: Option<Box<sprat_sizes::Asked>>,
    /// The hash of what affinity goes by.
    hash: u64,
    /// The session that the request belongs to, if its cookie says one.
    pub(super) session: Option<SessionId>,
    /// The request's part in a trace, if requests have one.
    pub(super) trace: Option<Rc<Trace>>,
}

/// A request whose route is chosen, before it is known whether the client may ask.
pub(super) struct Chosen<'a> {
    pub(super) stream: &'a Stream,
    pub(super) generation: &'a Generation,
    pub(super) route: &'a Route,
    /// The host that was asked for, with its port if it has one.
    pub(super) asked: Option<HeaderValue>,
    /// Whether it came over TLS, to Sprat or to a trusted proxy before it.
    pub(super) is_secure: bool,
    /// The target as the client sent it, if that was not in normal form.
    pub(super) sent_target: Option<http::Uri>,
}

impl<'a> Chosen<'a> {
    /// Chooses the route of a request.
    ///
    /// # Errors
    ///
    /// There is none, or the request is over a bound, or wrong.
    pub(super) fn of(
        stream: &'a Stream,
        generation: &'a Generation,
        parts: &mut Parts,
        record: &mut Record,
    ) -> Result<Self, Instead> {
        let connection = &*stream.connection;
        let asked = requested_host(parts)?;
        let host = host_of(asked.as_ref())?;
        // What a target names counts above `Host` (RFC 9112 3.2.2), for conditions, too.
        if let (Some(own), Some(_)) = (&asked, parts.uri.authority()) {
            parts.headers.insert(HOST, own.clone());
        }
        let before = path::check_and_normalize(connection, parts, record)?;
        let is_secure = connection.is_secure(&parts.headers);
        let route = find_route(
            connection,
            generation,
            parts,
            (host, is_secure),
            before.other_reading.as_deref(),
            record,
        )?;
        record.routing.route = Some(route.index);
        let chosen = Self {
            stream,
            generation,
            route,
            asked,
            is_secure,
            sent_target: before.target,
        };
        if let Some(edits) = &route.edits {
            record.routing.subject = Some(chosen.subject(parts, &edits.needs));
        }
        if let Some(closed) = route.closed_to(connection.client.peer.ip()) {
            let after_s = closed.retry_after.as_secs();
            record.advice = Some(Box::new(Advice::later(after_s)));
            return Err(Reason::Maintenance.into());
        }
        admit(connection, route, parts, record)?;
        Ok(chosen)
    }

    /// Returns the host that was asked for, without its port; empty if there is none.
    pub(super) fn host(&self) -> &str {
        host_of(self.asked.as_ref()).unwrap_or_default()
    }

    /// Returns the request as rules ask about it; `user` is who asks, if that is known.
    pub(super) fn asked_by<'s>(
        &'s self,
        parts: &'s Parts,
        fields: &'s Head<'s>,
        user: Option<&'s str>,
    ) -> Asked<'s, Head<'s>> {
        let connection = &self.stream.connection;
        Asked {
            client: Some(connection.client.peer.ip()),
            dscp: connection.client.dscp,
            certificate: connection.client.certificate(),
            user,
            host: self.host(),
            path: parts.uri.path(),
            method: parts.method.as_str(),
            fields,
        }
    }

    /// Gives the request the class of the user who asks, where rules go by users: its route
    /// had to be known first.
    fn classify_user(&self, parts: &Parts, record: &mut Record) {
        let classifier = &self.generation.classifier;
        let Some(user) = record
            .routing
            .user
            .as_deref()
            .filter(|_| classifier.wants_user())
        else {
            return;
        };
        let fields = Head(&parts.headers);
        let asked = self.asked_by(parts, &fields, Some(user));
        let classified = classifier.classify(&asked);
        record.routing.later = classifier.later(&asked, classified);
        record.routing.class = classified.class;
        if let Some(gauge) = self.stream.connection.wire.gauge() {
            gauge.expect(classified.class);
        }
    }

    /// Keeps of a request what the changes of heads may tell.
    pub(super) fn subject(&self, parts: &Parts, needs: &Needs) -> Box<Subject> {
        let connection = &self.stream.connection;
        let peer = Peer {
            client: connection.client.peer,
            local_port: connection.client.ends().local.port(),
            is_secure: self.is_secure,
            certificate: connection.client.certificate(),
        };
        let target = self.sent_target.as_ref().unwrap_or(&parts.uri);
        Box::new(Subject::new(
            &peer,
            parts,
            target,
            self.asked.as_ref(),
            needs,
        ))
    }

    /// Returns the clusters that the request may go to.
    ///
    /// # Errors
    ///
    /// The route has Sprat answer by itself.
    fn forward(&self, parts: &Parts) -> Result<&'a Forward, Instead> {
        let connection = &self.stream.connection;
        let local = match Way::of(self.route, connection.client.peer.ip()) {
            Way::Forward(forward) => return Ok(forward),
            Way::Closed(_) => return Err(Reason::Maintenance.into()),
            Way::Redirect(redirect) => {
                let authority = self.asked.as_ref().and_then(|own| own.to_str().ok());
                let pattern = self.route.pattern();
                let location = redirect.location(authority, self.is_secure, &parts.uri, pattern);
                let location = location.ok_or(Reason::InvalidTarget)?;
                Local {
                    fields: vec![(LOCATION, location)],
                    ..Local::bare(redirect.status())
                }
            }
            Way::Respond(status, page) => Local {
                page: page.cloned(),
                ..Local::bare(status)
            },
        };
        Err(Instead::Answered(Box::new(local)))
    }
}

impl<'a> Plan<'a> {
    /// Plans a request's way: its route is chosen, and the client may ask.
    ///
    /// # Errors
    ///
    /// It is refused, or Sprat answers it by itself.
    pub(super) async fn of(
        stream: &'a Stream,
        generation: &'a Generation,
        parts: &mut Parts,
        record: &mut Record,
    ) -> Result<Self, Instead> {
        let chosen = Chosen::of(stream, generation, parts, record)?;
        let mut vouched = Vec::new();
        if let Some(access) = &chosen.route.access {
            // Boxed: other requests do not carry its room.
            Box::pin(access::check(access, &chosen, parts, record)).await?;
            vouched = access.vouched_for(&parts.headers);
            chosen.classify_user(parts, record);
            // What was found out of the user counts, not what the client has sent.
            if let Some(edits) = &chosen.route.edits {
                record.routing.subject = Some(chosen.subject(parts, &edits.needs));
            }
        }
        Self::make(chosen, parts, record, vouched)
    }

    /// Makes the head of a request that of the upstream request. The client's `Connection`
    /// does not take away the fields that are `vouched` for.
    fn make(
        chosen: Chosen<'a>,
        parts: &mut Parts,
        record: &mut Record,
        vouched: Vec<(HeaderName, HeaderValue)>,
    ) -> Result<Self, Instead> {
        let forward = chosen.forward(parts)?;
        let Chosen {
            stream,
            generation,
            route,
            ..
        } = chosen;
        let connection = &*stream.connection;
        let cluster = pick_cluster(generation, forward);
        record.routing.cluster = Some(cluster);
        let host = chosen.host();
        let target = route.target(&parts.uri).ok_or(Reason::InvalidTarget)?;
        let resource = resource(generation, parts, host, (cluster, route.index, &target));
        let upstream = &generation.upstreams[cluster];
        let client = connection.client.text().as_bytes();
        let hash = upstream
            .hash_key()
            .map_or(0, |key| affinity_hash(key, client, host, &parts.uri));
        // Before the route takes the cookie away.
        let session = upstream.find_session(&parts.headers);
        // With HTTP/2 there is no connection to leave to another protocol.
        let offer = match upstream.is_http2() {
            true => None,
            false => Offer::of(stream, route, parts)?,
        };
        let coding =
            (route.compressor.as_ref()).and_then(|own| negotiate(&parts.headers, &own.algorithms));
        let asked = chosen.asked;
        let hostless = asked.is_none() && route.host_rewrite.is_none();
        let is_old = parts.version == Version::HTTP_10;
        let chunked = plan_head(connection, route, parts, asked)?;
        record.keep_identifier(&mut parts.headers);
        for (name, _) in &vouched {
            parts.headers.remove(name);
        }
        for (name, value) in vouched {
            parts.headers.append(name, value);
        }
        edit_head(upstream, route, parts, record);
        if let Some(offer) = &offer {
            offer.add(&mut parts.headers);
        }
        let plan = Self {
            class: record.routing.class,
            hash,
            session,
            trace: record.facts.trace.clone(),
            stream,
            connection,
            generation,
            route,
            forward,
            upstream,
            head_only: parts.method == Method::HEAD,
            hostless,
            is_old,
            chunked,
            coding,
            offer,
            asked: resource,
        };
        parts.uri = target;
        Ok(plan)
    }

    /// Makes the request that goes upstream, and what is needed on its way.
    pub(super) fn exchange(self, parts: Parts, body: Incoming) -> Exchange<'a> {
        let mut request = Request::from_parts(parts, RequestBody::Empty);
        let (mut upload, mut opener) = (None, None);
        let is_kept = !body.is_end_stream()
            && buffering::keeps_request(self.route, self.offer.is_some(), request.headers());
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
            let mut expects = request.headers().contains_key(EXPECT);
            let max_bytes = max_body_bytes(self.connection, self.route);
            let (body, progress) =
                RequestBody::streaming(body, expects, max_bytes, rule, config.underscores);
            *request.body_mut() = body;
            upload = Some(progress);
            if is_kept {
                // It has been asked for by then.
                request.headers_mut().remove(EXPECT);
                expects = false;
            }
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
        if !self.forward.mirrors.is_empty() && self.offer.is_none() {
            mirror::copy(&self, self.forward, &request, upload.as_ref());
        }
        // HTTP/1.0 has none.
        let bytes_max = self.upstream.max_header_bytes();
        let interims = (!self.is_old).then(|| Interims::new(bytes_max));
        // Over HTTP/1.1 the library asks for a body that is waited for.
        if let (true, Some(upload), Some(interims)) = (self.stream.is_http2(), &upload, &interims) {
            upload.ask_with(interims.asking());
        }
        Exchange {
            is_kept,
            interims,
            opener,
            plan: self,
            request: Cell::new(Some(request)),
            upload,
            history: Cell::default(),
        }
    }

    /// Returns what the cluster is told of the request.
    pub(super) async fn arrival(
        &self,
        record: &mut Record,
        request: &Request<RequestBody>,
    ) -> Arrival {
        match &self.asked {
            _ if !self.upstream.wants_size() => {}
            _ if self.head_only => record.sent.size.is_exactly(0),
            Some(asked) => {
                let upstream = &Heads(self.upstream);
                let patience = match self.upstream.wants_size_now() {
                    true => Patience::Probe(Prober { upstream, request }),
                    // It can start at once, whatever its size.
                    false => Patience::None,
                };
                let sizes = Sizes::of(self.generation, self.stream);
                record.sent.size.at_request(asked, patience, sizes).await;
            }
            None => {}
        }
        let (channel_backlog, channel_ahead) = match self.upstream.wants_backlog() {
            true => self.generation.uplink.backlog(self.class),
            false => Default::default(),
        };
        Arrival {
            class: self.class,
            size: record.sent.size.size(),
            hash: self.hash,
            random: fastrand::u64(..),
            channel_backlog,
            channel_ahead,
        }
    }

    /// Returns how long the response may take.
    pub(super) fn bounds(&self, record: &Record) -> ResponseBounds {
        ResponseBounds {
            upstream_idle: self.route.idle_timeout,
            deadline: self.deadline(record),
            is_judged: self.upstream.observes(),
        }
    }

    /// Returns when the exchange must be over.
    pub(super) fn deadline(&self, record: &Record) -> Option<Instant> {
        self.route.timeout.map(|timeout| record.started() + timeout)
    }

    /// Believes what a response's head says of its size; has the catalogue learn it.
    pub(super) async fn believe_head<B: Body>(&self, response: &Response<B>, record: &mut Record) {
        let sizes = Sizes::of(self.generation, self.stream);
        let (size, asked) = (&mut record.sent.size, self.asked.as_deref());
        size.at_head(response, self.head_only, asked, sizes).await;
    }
}

/// Gives the request its class, which the uplink is told to expect, and its route.
fn find_route<'a>(
    connection: &Connection,
    generation: &'a Generation,
    parts: &Parts,
    (host, is_secure): (&str, bool),
    other_reading: Option<&str>,
    record: &mut Record,
) -> Result<&'a Route, Reason> {
    let asked = Asked {
        client: Some(connection.client.peer.ip()),
        dscp: connection.client.dscp,
        certificate: connection.client.certificate(),
        user: None,
        host,
        path: parts.uri.path(),
        method: parts.method.as_str(),
        fields: &Head(&parts.headers),
    };
    let sought = Sought {
        asked: &asked,
        query: parts.uri.query().unwrap_or_default(),
        is_secure,
    };
    let rules = Rules {
        routes: &generation.routes,
        classifier: &generation.classifier,
    };
    let Decision {
        classified,
        later,
        route,
    } = rules.decide(&sought, other_reading)?;
    record.routing.class = classified.class;
    record.routing.later = later;
    if let Some(gauge) = connection.wire.gauge() {
        gauge.expect(classified.class);
    }
    route.ok_or(Reason::NoRoute)
}

/// Returns the host of a request without its port, empty if the request has none.
fn host_of(asked: Option<&HeaderValue>) -> Result<&str, Reason> {
    let Some(asked) = asked else { return Ok("") };
    let text = asked.to_str().map_err(|_| Reason::InvalidHost)?;
    routing::host_without_port(text).ok_or(Reason::InvalidHost)
}

/// Returns what the catalogue is asked for, if it could know the size: it is told the
/// cluster, the route and the target upstream.
fn resource(
    generation: &Generation,
    parts: &Parts,
    host: &str,
    (cluster, route, target): (usize, usize, &http::Uri),
) -> Option<Box<sprat_sizes::Asked>> {
    if parts.method != Method::GET && parts.method != Method::HEAD {
        return None;
    }
    let to = Destination {
        cluster,
        route,
        host,
        target: parts.uri.path_and_query()?,
        upstream: target.path_and_query(),
    };
    generation.catalogue.asked(&to, &parts.headers)
}

/// Takes a request that goes by a route, if its bounds allow it.
fn admit(
    connection: &Connection,
    route: &Route,
    parts: &Parts,
    record: &mut Record,
) -> Result<(), Reason> {
    if let Some(rate) = &route.rate {
        bounds::admit_by_route(connection, rate, &parts.headers, record)?;
    }
    match max_body_bytes(connection, route) {
        Some(bound) if content_length(&parts.headers).is_some_and(|length| length > bound) => {
            Err(Reason::BodyTooLarge)
        }
        _ => Ok(()),
    }
}

/// Returns how many bytes a request's body may have; none is without bound.
fn max_body_bytes(connection: &Connection, route: &Route) -> Option<u64> {
    match route.max_request_body {
        None => connection.listener.config.max_body_bytes,
        Some(BodyBound::Unlimited) => None,
        Some(BodyBound::Bytes(bytes)) => Some(bytes),
    }
}

/// Returns the cluster that a request goes to.
fn pick_cluster(generation: &Generation, forward: &Forward) -> usize {
    let picked = forward.pick(fastrand::u64(..));
    match forward.fallback {
        Some(fallback) if !generation.upstreams[picked].has_endpoint() => fallback,
        _ => picked,
    }
}

/// Changes the head of a request as its route says.
fn edit_head(upstream: &Upstream, route: &Route, parts: &mut Parts, record: &Record) {
    let edits = route.edits.as_ref().and_then(|own| own.request.as_ref());
    if let (Some(edits), Some(subject)) = (edits, &record.routing.subject) {
        let told = Telling {
            subject,
            cluster: upstream.name(),
            endpoint: "",
            response: None,
        };
        let values = edits.values(&told);
        edits.apply(values, &mut parts.headers);
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
        ip: connection.client.peer.ip(),
        text: connection.client.text(),
        host: asked.as_ref(),
        version: parts.version,
        secure: connection.client.secured().is_some(),
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
