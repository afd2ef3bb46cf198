//! The part of `sprat explain` that describes a request's route, and what that does.

use std::net::IpAddr;

use http::{HeaderMap, Method, Uri};
use serde_json::{Value, json};
use sprat_config::classify::Asked;
use sprat_config::fields::Fields;
use sprat_config::resolved::{
    Access, Action, BodyBound, BufferedBody, Cluster, HeaderEdits, HostPattern, PathPattern,
    ResponseBuffer, Route, Template,
};
use sprat_config::units::format_bytes;
use sprat_net::error::Reason;

use sprat_server::decide::Way;
use sprat_server::routing::{self, Verdict};

/// The properties of a request that its route's treatment depends on.
pub(super) struct Asking<'a> {
    pub(super) client: IpAddr,
    pub(super) authority: &'a str,
    /// The host that the client asks for, without port.
    pub(super) host: &'a str,
    pub(super) method: &'a Method,
    pub(super) uri: &'a Uri,
    pub(super) headers: &'a HeaderMap,
    pub(super) is_secure: bool,
}

/// Describes a route of the configuration, and what it does with a request, whose cluster is this
/// one if it goes to any.
///
/// # Errors
///
/// The request is refused, as it has no target or location by this route.
pub(super) fn value(
    route: &Route,
    own: &routing::Route,
    asking: &Asking<'_>,
    cluster: Option<&Cluster>,
) -> Result<Value, Reason> {
    let hosts = route.matches.hosts.iter().map(|host| match host {
        HostPattern::Exact(name) => name.clone(),
        HostPattern::Suffix(suffix) => format!("*{suffix}"),
    });
    let path = match (&route.matches.path, &route.conditions.path) {
        (_, Some(regex)) => format!("paths like {}", regex.as_str()),
        (PathPattern::Any, None) => "any path".to_owned(),
        (PathPattern::Exact(path), None) => format!("the path {path}"),
        (PathPattern::Prefix(path), None) => format!("the prefix {path}"),
    };
    let answer = answer(own, asking)?;
    let cluster = cluster.filter(|_| answer.is_null());
    let target = cluster.map(|_| own.target(asking.uri).ok_or(Reason::InvalidTarget));
    let target = target.transpose()?;
    let forward = match &route.action {
        Action::Forward(forward) if cluster.is_some() => Some(forward),
        _ => None,
    };
    let shares = forward.map(|own| {
        let shares = own.clusters.iter().filter(|own| own.weight > 0);
        let share = |own: &sprat_config::resolved::Weighted| {
            json!({"cluster": own.cluster.name, "weight": own.weight})
        };
        shares.map(share).collect::<Vec<_>>()
    });
    let mirrors = forward.map(|own| {
        let mirrors = own.mirrors.iter();
        let mirror =
            mirrors.map(|own| json!({"cluster": own.cluster.name, "percent": own.percent}));
        mirror.collect::<Vec<_>>()
    });
    Ok(json!({
        "number": own.index + 1,
        "hosts": hosts.collect::<Vec<_>>(),
        "path": path,
        "cluster": cluster.map(|own| &own.name),
        "weighted_clusters": shares.filter(|all| all.len() > 1),
        "fallback": forward.and_then(|own| Some(&own.fallback.as_ref()?.name)),
        "mirrors": mirrors.unwrap_or_default(),
        "answer": answer,
        "target": target.map(|own| own.to_string()),
        "max_request_body": route.max_request_body.map(|bound| match bound {
            BodyBound::Unlimited => Value::Null,
            BodyBound::Bytes(bytes) => bytes.into(),
        }),
        "buffer": buffer(route, cluster),
        "access": access(&route.access),
        "request_headers": edits(&route.request_headers),
        "response_headers": edits(&route.response_headers),
    }))
}

/// Describes the answer that any client gets before it is asked who it is: in maintenance,
/// or to a preflight.
fn early_answer(own: &routing::Route, asking: &Asking<'_>) -> Option<Value> {
    if let Some(closed) = own.closed_to(asking.client) {
        let after_s = closed.retry_after.as_secs();
        let status = Reason::Maintenance.facts().status.as_u16();
        return Some(json!({"status": status, "retry_after_s": after_s, "why": "maintenance"}));
    }
    let (status, why) = match own.preflight(asking.method, asking.headers)? {
        Ok(status) => (status, "to a preflight that cors allows"),
        Err(reason) => (
            reason.facts().status,
            "to a preflight that cors does not allow",
        ),
    };
    Some(json!({"status": status.as_u16(), "why": why}))
}

/// Describes the answer that Sprat gives by itself; null if the request goes to a cluster.
fn answer(own: &routing::Route, asking: &Asking<'_>) -> Result<Value, Reason> {
    if let Some(early) = early_answer(own, asking) {
        return Ok(early);
    }
    Ok(match Way::of(own) {
        Way::Forward(_) => Value::Null,
        Way::Redirect(redirect) => {
            let (authority, pattern) = (Some(asking.authority), own.pattern());
            let location = redirect.location(authority, asking.is_secure, asking.uri, pattern);
            let location = location.ok_or(Reason::InvalidTarget)?;
            let location = location.to_str().ok();
            json!({"status": redirect.status().as_u16(), "location": location})
        }
        Way::Respond(status, page) => {
            let bytes = page.map_or(0, |page| page.body.len());
            json!({"status": status.as_u16(), "bytes": bytes})
        }
    })
}

/// Describes how much of bodies is buffered for slow clients: of requests, then of responses.
fn buffer(route: &Route, cluster: Option<&Cluster>) -> Vec<String> {
    let Some(cluster) = cluster else {
        return Vec::new();
    };
    let body = |own: &BufferedBody| {
        let memory = format_bytes(own.memory_bytes as u64);
        let file = own.file.as_ref().map(|file| {
            let (path, most) = (file.directory.path.display(), format_bytes(file.max_bytes));
            format!(", then up to {most} in {path}")
        });
        format!("up to {memory} in memory{}", file.unwrap_or_default())
    };
    let request = route.buffer.request.as_ref();
    let request = request.map(|own| format!("requests: {}", body(own)));
    let response = match &route.buffer.response {
        ResponseBuffer::On(own) => Some(body(own)),
        ResponseBuffer::Off => None,
        ResponseBuffer::Auto => cluster.read_ahead.map(|own| {
            let memory = format_bytes(own.per_response as u64);
            format!("up to {memory} in memory, where places are bounded (read_ahead)")
        }),
    };
    let response = response.map(|own| format!("responses: {own}"));
    request.into_iter().chain(response).collect()
}

/// Describes the route's checks of a client, in the order in which they are made.
fn access(access: &Access) -> Vec<String> {
    let cors = access.cors.as_ref().map(|own| {
        let origins = own.origins.len();
        format!("cors: {origins} origins")
    });
    let rules = access.rbac.len();
    let rbac = (rules > 0).then(|| format!("rbac: {rules} rules, of which the first decides"));
    let basic = access.basic_auth.as_ref();
    let basic = basic.map(|own| format!("basic_auth: a user of {}", own.users_file.path.display()));
    let authz = access.ext_authz.as_ref();
    let authz = authz.map(|own| format!("ext_authz: {} asks {}", own.cluster.name, own.path));
    [cors, rbac, basic, authz].into_iter().flatten().collect()
}

/// Returns the verdict of the route's `rbac` rules on a request; null if it has none, or if the
/// request is answered before they are asked.
pub(super) fn verdict<F: Fields + ?Sized>(
    route: &routing::Route,
    asking: &Asking<'_>,
    asked: &Asked<'_, F>,
    user: Option<&str>,
) -> Value {
    if early_answer(route, asking).is_some() {
        return Value::Null;
    }
    match route.verdict(&Asked { user, ..*asked }) {
        None => Value::Null,
        Some(Verdict::Passes) => "lets this request pass".into(),
        Some(Verdict::Refused) => "refuses this request: 403".into(),
        Some(Verdict::RefusedWithoutUser) => {
            "refuses this request, as no user's: 403 (`--user` says whose)".into()
        }
    }
}

/// Describes the edits of a head, one a line.
fn edits(edits: &HeaderEdits) -> Vec<String> {
    let pair = |verb: &'static str| {
        move |(name, value): &(String, Template)| format!("{verb} {name}: {}", value.as_str())
    };
    let removed = edits.remove.iter().map(|name| format!("remove {name}"));
    let set = edits.set.iter().map(pair("set"));
    let added = edits.add.iter().map(pair("add"));
    removed.chain(set).chain(added).collect()
}

/// Describes a route in lines, each with the name that stands before it.
pub(super) fn lines(route: &Value) -> Vec<(&'static str, String)> {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let hosts = route["hosts"].as_array().map(Vec::as_slice);
    let hosts: Vec<String> = hosts.unwrap_or_default().iter().map(word).collect();
    let hosts = match hosts.is_empty() {
        true => "any host".to_owned(),
        false => hosts.join(", "),
    };
    let (number, path) = (&route["number"], word(&route["path"]));
    let is_for = format!("{number} ({hosts}, {path})");
    let mut out = Vec::new();
    match (&route["answer"], &route["weighted_clusters"]) {
        (Value::Null, Value::Array(shares)) => {
            let all: u64 = shares.iter().filter_map(|own| own["weight"].as_u64()).sum();
            let share =
                |own: &Value| format!("{} ({} of {all})", word(&own["cluster"]), own["weight"]);
            let shares: Vec<_> = shares.iter().map(share).collect();
            out.push(("route", format!("{is_for} to {}", shares.join(" or "))));
        }
        (Value::Null, _) => {
            out.push(("route", format!("{is_for} to {}", word(&route["cluster"]))));
        }
        (answer, _) => {
            out.push(("route", is_for));
            let told = match (&answer["location"], &answer["why"]) {
                (Value::String(location), _) => format!(" {location}"),
                (_, Value::String(why)) => format!(" {why}"),
                _ => format!(", {} bytes", answer["bytes"]),
            };
            out.push(("answer", format!("{}{told}", answer["status"])));
        }
    }
    if !route["fallback"].is_null() {
        let fallback = word(&route["fallback"]);
        out.push(("fallback", format!("{fallback}, while no endpoint is well")));
    }
    for mirror in route["mirrors"].as_array().into_iter().flatten() {
        let cluster = word(&mirror["cluster"]);
        out.push((
            "mirror",
            format!("{cluster}, {} of 100 requests", mirror["percent"]),
        ));
    }
    if let Some(verdict) = route["rbac"].as_str() {
        out.push(("access", format!("rbac {verdict}")));
    }
    for (key, name) in [
        ("access", "access"),
        ("buffer", "buffer"),
        ("request_headers", "request"),
        ("response_headers", "response"),
    ] {
        let edits = route[key].as_array().into_iter().flatten();
        out.extend(edits.map(|edit| (name, word(edit))));
    }
    out
}
