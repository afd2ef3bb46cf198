//! The authorization server, which is asked whether a request is served.

use std::rc::Rc;
use std::time::Duration;

use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Request, Response};
use hyper::body::Incoming;
use sprat_net::error::Reason;
use sprat_net::headers;
use sprat_net::upload::RequestBody;
use sprat_upstream::Lease;
use tokio::time::Instant;

use crate::exchange::chosen::Chosen;
use crate::exchange::local::{Local, NotForwarded};
use crate::exchange::record::Routing;
use crate::exchange::side::{Side, SideKind, discard, read};
use crate::setup::routing::{Authz, Page, Telling};

/// The most bytes of the server's answer that a client gets.
const MAX_BYTES: usize = 64 << 10;

/// The longest pause in the body of the server's answer.
const PAUSE_MAX: Duration = Duration::from_secs(5);

const METHOD: HeaderName = HeaderName::from_static("x-forwarded-method");
const PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const URI: HeaderName = HeaderName::from_static("x-forwarded-uri");
const FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Asks the server about a request, and puts what it says of the user into the request's head.
///
/// # Errors
///
/// Fails if the server refuses the request, or if it does not answer, unless the route lets
/// requests pass then.
pub(super) async fn check(
    authz: &Authz,
    chosen: &Chosen<'_>,
    parts: &mut Parts,
    terms: &mut Routing,
) -> Result<(), NotForwarded> {
    let request = question(authz, chosen, parts);
    for name in &authz.allowed_upstream_headers {
        headers::remove_alike(&mut parts.headers, name);
    }
    let started = Instant::now();
    let side = Side {
        upstream: Rc::clone(&chosen.generation.upstreams[authz.cluster]),
        request,
        class: terms.class(),
        ends: Some(chosen.stream.connection().client.ends()),
        // It bounds the waits for endpoints, too.
        kind: SideKind::Question {
            started,
            until: started + authz.timeout,
        },
    };
    chosen.stream.wait();
    let Some((lease, answer)) = side.send().await else {
        return match authz.failure_mode_allow {
            true => Ok(()),
            false => Err(Reason::AuthzUnavailable.into()),
        };
    };
    if !answer.status().is_success() {
        return Err(NotForwarded::Answered(Box::new(
            refusal(lease, answer).await,
        )));
    }
    for name in &authz.allowed_upstream_headers {
        for value in answer.headers().get_all(name) {
            parts.headers.append(name, value.clone());
        }
    }
    let user = authz.user_header.as_ref();
    let user = user.and_then(|name| answer.headers().get(name)?.to_str().ok());
    if let Some(user) = user {
        terms.is_of_user(user.into());
    }
    let body = answer.into_body();
    drop(tokio::task::spawn_local(discard(body, lease, PAUSE_MAX)));
    Ok(())
}

/// Makes the question to the server: a request that describes the client's.
fn question(authz: &Authz, chosen: &Chosen<'_>, asked: &Parts) -> Request<RequestBody> {
    let mut request = Request::new(RequestBody::Empty);
    request.uri_mut().clone_from(&authz.path);
    let told = request.headers_mut();
    for name in &authz.told {
        for value in asked.headers.get_all(name) {
            told.append(name, value.clone());
        }
    }
    let scheme = if chosen.is_secure { "https" } else { "http" };
    told.insert(PROTO, HeaderValue::from_static(scheme));
    if let Ok(method) = HeaderValue::from_str(asked.method.as_str()) {
        told.insert(METHOD, method);
    }
    if let Some(host) = &chosen.asked {
        told.insert(HOST, host.clone());
    }
    let target = chosen.sent_target.as_ref().unwrap_or(&asked.uri);
    let target = target.path_and_query();
    if let Some(Ok(uri)) = target.map(|own| HeaderValue::from_str(own.as_str())) {
        told.insert(URI, uri);
    }
    told.insert(FOR, chosen.stream.connection().client.text().clone());
    if let Some((edits, needs)) = &authz.added {
        let subject = chosen.subject(asked, needs);
        let telling = Telling {
            subject: &subject,
            cluster: chosen.generation.upstreams[authz.cluster].name(),
            endpoint: "",
            response: None,
        };
        edits.apply(edits.values(&telling), told);
    }
    request
}

/// Makes the client's answer out of the server's refusal.
async fn refusal(lease: Lease, answer: Response<Incoming>) -> Local {
    let (mut parts, body) = answer.into_parts();
    headers::strip_hop_by_hop(&mut parts.headers);
    parts.headers.remove(CONTENT_LENGTH);
    let content_type = parts.headers.remove(CONTENT_TYPE);
    let body = read(body, lease, MAX_BYTES, PAUSE_MAX)
        .await
        .unwrap_or_default();
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    let mut local = Local::bare(parts.status);
    let fields = parts.headers.iter();
    local.fields = fields
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    local.page = (!body.is_empty()).then(|| Page {
        body: body.into(),
        content_type: content_type.unwrap_or(plain),
    });
    local.reason = Some(Reason::AuthzDenied);
    local
}
