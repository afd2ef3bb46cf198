//! A request's route: found by its head, and open to the client.

use http::HeaderValue;
use http::header::{HOST, LOCATION};
use http::request::Parts;
use sprat_config::classify::Asked;
use sprat_config::resolved::BodyBound;
use sprat_net::error::{Advice, Denial, Reason};
use sprat_net::headers::Head;

use super::check::{content_length, requested_host};
use super::decide::{Decision, Rules, Way, class_by_user};
use super::local::{Local, NotForwarded};
use super::{bounds, path};
use crate::client::connection::{Connection, Stream};
use crate::exchange::record::Routing;
use crate::setup::generation::Generation;
use crate::setup::routing::{self, EditNeeds, Forward, Peer, Route, Sought, Subject};

/// A request whose route is chosen, before it is known whether the client may use it.
pub(super) struct Chosen<'a> {
    pub(super) stream: &'a Stream,
    pub(super) generation: &'a Generation,
    pub(super) route: &'a Route,
    /// The host that was asked for, with its port if it has one.
    pub(super) asked: Option<HeaderValue>,
    /// Whether the request came over TLS, to Sprat or to a trusted proxy before it.
    pub(super) is_secure: bool,
    /// The target as the client sent it, if that was not in normal form.
    pub(super) sent_target: Option<http::Uri>,
}

impl<'a> Chosen<'a> {
    /// Chooses the route of a request.
    ///
    /// # Errors
    ///
    /// Fails if no route takes the request, or its route is closed to the client, or if the
    /// request is over a bound, or malformed.
    pub(super) fn of(
        stream: &'a Stream,
        generation: &'a Generation,
        parts: &mut Parts,
        terms: &mut Routing,
    ) -> Result<Self, NotForwarded> {
        let connection = &**stream.connection();
        let asked = requested_host(parts)?;
        let host = host_of(asked.as_ref())?;
        // What a target names counts above `Host` (RFC 9112 3.2.2), for conditions, too.
        if let (Some(own), Some(_)) = (&asked, parts.uri.authority()) {
            parts.headers.insert(HOST, own.clone());
        }
        let before = path::check_and_normalize(connection, parts, terms)?;
        let is_secure = connection.is_secure(&parts.headers);
        let route = find_route(
            connection,
            generation,
            parts,
            host,
            is_secure,
            before.other_reading.as_deref(),
            terms,
        )?;
        terms.takes_route(route.index);
        let chosen = Self {
            stream,
            generation,
            route,
            asked,
            is_secure,
            sent_target: before.target,
        };
        if let Some(edits) = &route.edits {
            terms.tells(chosen.subject(parts, &edits.needs));
        }
        if let Some(closed) = route.closed_to(connection.client.peer.ip()) {
            let after_s = closed.retry_after.as_secs();
            return Err(Denial::with(Reason::Maintenance, Advice::later(after_s)).into());
        }
        admit(connection, route, parts)?;
        Ok(chosen)
    }

    /// Returns the host that was asked for, without its port; empty if there is none.
    pub(super) fn host(&self) -> &str {
        host_of(self.asked.as_ref()).unwrap_or_default()
    }

    /// Returns the request in the form that rules ask about; `user` is the client's user,
    /// if known.
    pub(super) fn asked_by<'s>(
        &'s self,
        parts: &'s Parts,
        fields: &'s Head<'s>,
        user: Option<&'s str>,
    ) -> Asked<'s, Head<'s>> {
        let connection = self.stream.connection();
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

    /// Gives the request the class of its user, where rules go by users. The user is known
    /// only after the request's route.
    pub(super) fn classify_user(&self, parts: &Parts, terms: &mut Routing) {
        let Some(user) = terms.user() else { return };
        let fields = Head(&parts.headers);
        let asked = self.asked_by(parts, &fields, None);
        let by_user = class_by_user(&self.generation.classifier, &asked, user);
        let Some((classified, later)) = by_user else {
            return;
        };
        terms.classify(classified.class, later);
        if let Some(gauge) = self.stream.connection().wire.gauge() {
            gauge.expect(classified.class);
        }
    }

    /// Returns what edits of heads may tell of a request.
    pub(super) fn subject(&self, parts: &Parts, needs: &EditNeeds) -> Box<Subject> {
        let connection = self.stream.connection();
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
    /// Fails with Sprat's own answer, if the route asks for that.
    pub(super) fn forward(&self, parts: &Parts) -> Result<&'a Forward, NotForwarded> {
        let local = match Way::of(self.route) {
            Way::Forward(forward) => return Ok(forward),
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
        Err(NotForwarded::Answered(Box::new(local)))
    }
}

/// Finds the request's route, and gives it its class, which the uplink is told to expect.
fn find_route<'a>(
    connection: &Connection,
    generation: &'a Generation,
    parts: &Parts,
    host: &str,
    is_secure: bool,
    other_reading: Option<&str>,
    terms: &mut Routing,
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
    terms.classify(classified.class, later);
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

/// Admits a request to its route, if the route's bounds allow it.
fn admit(connection: &Connection, route: &Route, parts: &Parts) -> Result<(), Denial> {
    if let Some(rate) = &route.rate {
        bounds::admit_by_route(connection, rate, &parts.headers)?;
    }
    match max_request_body(connection, route) {
        Some(bound) if content_length(&parts.headers).is_some_and(|length| length > bound) => {
            Err(Reason::BodyTooLarge.into())
        }
        _ => Ok(()),
    }
}

/// Returns the most bytes that a request's body may have; none if there is no bound.
pub(super) fn max_request_body(connection: &Connection, route: &Route) -> Option<u64> {
    match route.max_request_body {
        None => connection.listener.config.max_request_body,
        Some(BodyBound::Unlimited) => None,
        Some(BodyBound::Bytes(bytes)) => Some(bytes),
    }
}
