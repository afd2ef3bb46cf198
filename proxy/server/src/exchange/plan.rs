//! A request's way, planned from its head: to a cluster, or to an answer of Sprat's own.

use std::rc::Rc;

use http::header::{CONNECTION, CONTENT_LENGTH, HOST, TE};
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, Version};
use http_body::Body;
use sprat_config::resolved::Algorithm;
use sprat_net::coding::negotiate;
use sprat_net::error::Reason;
use sprat_net::headers::{self, Client};
use sprat_net::upload::RequestBody;
use sprat_scheduler::station::{Arrival, ChannelBacklog};
use sprat_sizes::{Destination, Patience, Prober};
use sprat_upstream::{SessionId, Upstream, affinity_hash};
use tokio::time::Instant;

use super::access;
use super::chosen::Chosen;
use super::local::NotForwarded;
use super::offer::Offer;
use super::probe::Heads;
use super::size::Sizes;
use super::trace::Trace;
use crate::client::connection::{Connection, ResponseBounds, Stream};
use crate::exchange::record::{Record, RequestFacts, Routing};
use crate::setup::generation::Generation;
use crate::setup::routing::{Forward, Route, Telling, VouchedField};

/// The way that a request goes, and what has been decided about it.
pub(super) struct Plan<'a> {
    /// The index of the request's class.
    pub(super) class: usize,
    pub(super) stream: &'a Stream,
    pub(super) connection: &'a Connection,
    pub(super) generation: &'a Generation,
    pub(super) route: &'a Route,
    /// The clusters that the request may go to.
    pub(super) forward: &'a Forward,
    pub(super) upstream: &'a Rc<Upstream>,
    pub(super) head_only: bool,
    /// Whether the `Host` of the endpoint is to be sent.
    pub(super) hostless: bool,
    /// Whether the client speaks HTTP/1.0.
    pub(super) is_old: bool,
    pub(super) chunked: bool,
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

impl<'a> Plan<'a> {
    /// Plans a request's way: chooses its route, and checks that the client may use it.
    ///
    /// # Errors
    ///
    /// Fails if the request is refused, or if Sprat answers it by itself.
    pub(super) async fn of(
        stream: &'a Stream,
        generation: &'a Generation,
        parts: &mut Parts,
        facts: &RequestFacts,
        terms: &mut Routing,
    ) -> Result<Self, NotForwarded> {
        let chosen = Chosen::of(stream, generation, parts, terms)?;
        let mut vouched = Vec::new();
        if let Some(access) = &chosen.route.access {
            // Boxed: other requests do not carry its room.
            Box::pin(access::check(access, &chosen, parts, terms)).await?;
            vouched = access.vouched_for(&parts.headers);
            chosen.classify_user(parts, terms);
            // What was found out of the user counts, not what the client has sent.
            if let Some(edits) = &chosen.route.edits {
                terms.tells(chosen.subject(parts, &edits.needs));
            }
        }
        Self::make(chosen, parts, vouched, facts, terms)
    }

    /// Makes a request's plan, and its head that of the upstream request. The client's
    /// `Connection` does not take away the fields that are `vouched` for.
    fn make(
        chosen: Chosen<'a>,
        parts: &mut Parts,
        vouched: Vec<VouchedField>,
        facts: &RequestFacts,
        terms: &mut Routing,
    ) -> Result<Self, NotForwarded> {
        let forward = chosen.forward(parts)?;
        let Chosen {
            stream,
            generation,
            route,
            ..
        } = chosen;
        let connection = &**stream.connection();
        let cluster = pick_cluster(generation, forward);
        terms.goes_to(cluster);
        let host = chosen.host();
        let target = route.target(&parts.uri).ok_or(Reason::InvalidTarget)?;
        let destination = parts.uri.path_and_query().map(|asked| Destination {
            cluster,
            route: route.index,
            host,
            target: asked,
            upstream: target.path_and_query(),
        });
        let resource = destination.and_then(|to| resource(generation, parts, &to));
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
        facts.tell_endpoint(connection.listener.request_ids.as_ref(), &mut parts.headers);
        for field in &vouched {
            parts.headers.remove(&field.name);
        }
        for VouchedField { name, value } in vouched {
            parts.headers.append(name, value);
        }
        edit_head(upstream, route, parts, terms);
        if let Some(offer) = &offer {
            offer.add(&mut parts.headers);
        }
        let plan = Self {
            class: terms.class(),
            hash,
            session,
            trace: facts.trace().cloned(),
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

    /// Returns the request as its cluster's station sees it.
    pub(super) async fn arrival(
        &self,
        record: &mut Record,
        request: &Request<RequestBody>,
    ) -> Arrival {
        match &self.asked {
            _ if !self.upstream.wants_size() => {}
            _ if self.head_only => record.sent.belief().at_request_for_head(),
            Some(asked) => {
                let upstream = &Heads(self.upstream);
                let patience = match self.upstream.wants_size_now() {
                    true => Patience::Probe(Prober { upstream, request }),
                    // It can start at once, whatever its size.
                    false => Patience::None,
                };
                let sizes = Sizes::of(self.generation, self.stream);
                let size = record.sent.belief();
                size.at_request(asked, patience, sizes).await;
            }
            None => {}
        }
        let backlog = match self.upstream.wants_backlog() {
            true => self.generation.uplink.backlog(self.class),
            false => ChannelBacklog::default(),
        };
        Arrival {
            class: self.class,
            size: record.sent.size(),
            hash: self.hash,
            random: fastrand::u64(..),
            channel_backlog: backlog.whole,
            channel_ahead: backlog.ahead,
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

    /// Takes a response's size from its head, and has the catalogue learn it. Where a GET's answer
    /// `is_coded` by Sprat, that to a HEAD tells the length before that, which is not learnt.
    pub(super) async fn believe_head<B: Body>(
        &self,
        response: &Response<B>,
        is_coded: bool,
        record: &mut Record,
    ) {
        let sizes = Sizes::of(self.generation, self.stream);
        let teaches = !(is_coded && self.head_only);
        let asked = self.asked.as_deref().filter(|_| teaches);
        let size = record.sent.belief();
        size.at_head(response, self.head_only, asked, sizes).await;
    }
}

/// Returns what the catalogue is asked for, if it could know the size.
fn resource(
    generation: &Generation,
    parts: &Parts,
    to: &Destination<'_>,
) -> Option<Box<sprat_sizes::Asked>> {
    if parts.method != Method::GET && parts.method != Method::HEAD {
        return None;
    }
    generation.catalogue.asked(to, &parts.headers)
}

/// Returns the index of the cluster that a request goes to; the fallback, if the one picked
/// has no endpoint.
fn pick_cluster(generation: &Generation, forward: &Forward) -> usize {
    let picked = forward.pick(fastrand::u64(..));
    match forward.fallback {
        Some(fallback) if !generation.upstreams[picked].has_endpoint() => fallback,
        _ => picked,
    }
}

/// Changes the head of a request as its route says.
fn edit_head(upstream: &Upstream, route: &Route, parts: &mut Parts, terms: &Routing) {
    let edits = route.edits.as_ref().and_then(|own| own.request.as_ref());
    if let (Some(edits), Some(subject)) = (edits, terms.subject()) {
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

/// Makes the client's header fields those of the upstream request; returns whether the body
/// comes in chunks.
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
