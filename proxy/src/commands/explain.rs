//! The command `sprat explain`, which tells what Sprat would do with a request, and why. It serves
//! nothing, but decides by the same code as the server.

mod order;
mod route;
mod trace;

use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::Context as _;
use http::header::HOST;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use serde_json::{Value, json};
use sprat_config::Config;
use sprat_config::classify::{Asked, Classified, Classifier};
use sprat_config::fields::Fields;
use sprat_config::paths::PathRules;
use sprat_config::resolved::{Access, Class, Cluster, Dispatch, Listener};
use sprat_net::error::Reason;
use sprat_net::framing::Slips;
use sprat_net::headers::{Head, names};
use sprat_net::tls::PeerNames;
use sprat_scheduler::marking::Variant;
use sprat_scheduler::station::{Again, Arrival, Session, Station, Verdict};
use sprat_scheduler::{Mark, Size, Time};
use sprat_sizes::{Destination, offline};
use sprat_upstream::{Sessions, affinity_hash, station_config};

use sprat_server::check::check;
use sprat_server::decide::{Decision, Rules, Way, class_by_user};
use sprat_server::path::refusal;
use sprat_server::routing::{self, Routes, Sought};

/// A request to explain.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Request {
    /// The request: `METHOD URL`, such as `GET http://www.example.org/a.html`.
    #[arg(long, value_name = "METHOD URL", value_parser = RequestLine::from_str)]
    request: RequestLine,
    /// A header field, `NAME: VALUE`; may be given several times.
    #[arg(long = "header", value_name = "NAME: VALUE", value_parser = header)]
    headers: Vec<(HeaderName, HeaderValue)>,
    /// The address of the client
    #[arg(long, value_name = "ADDR", default_value = "192.0.2.1")]
    client: IpAddr,
    /// The code point that the client's packets are marked with, 0 to 63.
    #[arg(long, value_name = "DSCP", value_parser = clap::value_parser!(u8).range(0..64))]
    dscp: Option<u8>,
    /// A file with the certificate that the client has shown, in PEM.
    #[arg(long, value_name = "FILE")]
    client_certificate: Option<PathBuf>,
    /// The user, as `basic_auth` or `ext_authz` of the route would find it.
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// The response's size, as if it had been seen before, such as 20KB.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    size: Option<u64>,
    /// Print the decision as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Debug)]
struct RequestLine {
    method: Method,
    uri: Uri,
}

impl FromStr for RequestLine {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "write METHOD URL, such as 'GET http://www.example.org/a.html'".to_owned();
        let (method, target) = text.split_once(' ').ok_or_else(wrong)?;
        let method = method.parse().map_err(|_| wrong())?;
        let uri: Uri = target.trim().parse().map_err(|_| wrong())?;
        let host = uri.authority().map(http::uri::Authority::as_str);
        match host.and_then(routing::host_without_port) {
            Some(_) => Ok(Self { method, uri }),
            None => Err(wrong()),
        }
    }
}

fn header(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let wrong = || "write NAME: VALUE, such as 'Cookie: tier=gold'".to_owned();
    let (name, value) = text.split_once(':').ok_or_else(wrong)?;
    let name = name.trim().parse().map_err(|_| wrong())?;
    Ok((name, value.trim().parse().map_err(|_| wrong())?))
}

fn size(text: &str) -> Result<u64, String> {
    sprat_config::units::parse_bytes(text).map_err(|error| error.to_string())
}

/// Explains Sprat's treatment of a request, as text or JSON.
///
/// # Errors
///
/// A configuration that cannot be served.
pub(crate) fn run(config: &Config, request: &Request) -> anyhow::Result<String> {
    let mut explained = explain(config, request)?;
    explained["marks"] = marks(config);
    explained["trace"] = trace::value(config, &request.headers);
    match request.json {
        true => Ok(serde_json::to_string_pretty(&explained)?),
        false => Ok(text(&explained)),
    }
}

fn explain(config: &Config, request: &Request) -> anyhow::Result<Value> {
    let (parts, other_reading) = match head(request, listener(config, request)?)? {
        Ok(admitted) => admitted,
        Err(refused) => return Ok(explain_refusal(request, refused)),
    };
    let (uri, headers) = (&parts.uri, &parts.headers);
    let sent = &request.request.uri;
    let authority = uri.authority().context("a URL has a host")?;
    let host = routing::host_without_port(authority.as_str()).context("a URL has a host")?;
    let classifier = Classifier::new(&config.classes);
    let file = request.client_certificate.as_deref();
    let shown = file.map(PeerNames::of_file).transpose()?;
    let asked = Asked {
        client: Some(request.client),
        dscp: request.dscp,
        certificate: shown.as_ref().map(PeerNames::as_certificate),
        user: None,
        host,
        path: uri.path(),
        method: parts.method.as_str(),
        fields: &Head(headers),
    };
    let routes = Routes::uncounted(config)?;
    let rules = Rules {
        routes: &routes,
        classifier: &classifier,
    };
    let sought = Sought {
        asked: &asked,
        query: uri.query().unwrap_or_default(),
        is_secure: uri.scheme() == Some(&http::uri::Scheme::HTTPS),
    };
    let decided = match rules.decide(&sought, other_reading.as_deref()) {
        Ok(decided) => {
            let user = request.user.as_deref();
            of_user(decided, config, &classifier, &asked, user)?
        }
        Err(reason) => return Ok(explain_refusal(request, reason)),
    };
    let Decision {
        classified,
        later,
        route,
    } = decided;
    let asking = route::Asking {
        client: request.client,
        authority: authority.as_str(),
        host,
        method: &parts.method,
        uri,
        headers,
        is_secure: sought.is_secure,
    };
    let (size, source) = size_before(config, request, route, &asking)?;
    let mut explained = json!({
        "request": format!("{} {sent}", parts.method),
        "matched_path": Some(uri.path()).filter(|path| *path != sent.path()),
        "client": request.client.to_string(),
        "class": class(&config.classes.list[classified.class]),
        "rule": rule(config, classified),
        "later_rules": later.iter().flatten().map(|&index| later_rule(config, index)).collect::<Vec<_>>(),
        "size": {"bytes": size.bytes(), "source": source},
        "order": order::value(&config.uplink, &config.classes.list[classified.class].spec, size),
        "route": Value::Null,
        "session": Value::Null,
        "endpoints": Value::Null,
    });
    if let Some(own) = route {
        let class = classified.class;
        if let Err(reason) = tell_route(&mut explained, config, own, &asking, class, size)? {
            return Ok(explain_refusal(request, reason));
        }
        explained["route"]["rbac"] = route::verdict(own, &asking, &asked, request.user.as_deref());
    }
    Ok(explained)
}

/// Returns a copy of a cluster in which the endpoints of its file, if it has one, replace its own.
fn with_listed(cluster: &Cluster) -> anyhow::Result<Cluster> {
    let mut own = cluster.clone();
    if let Some(file) = &cluster.endpoints_file {
        let listed = sprat_config::load_endpoints(&file.at.path, cluster);
        own.endpoints = listed.map_err(|errors| anyhow::anyhow!(errors.render(false)))?;
    }
    Ok(own)
}

/// Adds the route's treatment of a request, and the endpoints that its cluster would try. Returns
/// the reason instead if the route refuses the request.
fn tell_route(
    explained: &mut Value,
    config: &Config,
    own: &routing::Route,
    asking: &route::Asking<'_>,
    class: usize,
    size: Size,
) -> anyhow::Result<Result<(), Reason>> {
    let route = &config.routes[own.index];
    let cluster = match Way::of(own) {
        // Where several share the requests, the first that gets any.
        Way::Forward(forward) => Some(&*config.clusters[forward.pick(0)]),
        Way::Redirect(_) | Way::Respond(..) => None,
    };
    explained["route"] = match route::value(route, own, asking, cluster) {
        Ok(told) => told,
        Err(reason) => return Ok(Err(reason)),
    };
    let cluster = cluster.filter(|_| explained["route"]["answer"].is_null());
    if let Some(cluster) = cluster {
        let cluster = &with_listed(cluster)?;
        let client = asking.client.to_canonical().to_string();
        let hash = affinity_hash(cluster.hash_key, client.as_bytes(), asking.host, asking.uri);
        let session = session(cluster, asking.headers)?;
        let arrival = arrival(class, size, hash);
        explained["endpoints"] = endpoints(config, cluster, &arrival, session.at);
        explained["session"] = session.told;
    }
    Ok(Ok(()))
}

/// Returns the decision about a request once its route has found out this user.
fn of_user<'a, F: Fields + ?Sized>(
    decided: Decision<'a>,
    config: &Config,
    classifier: &Classifier,
    asked: &Asked<'_, F>,
    user: Option<&str>,
) -> anyhow::Result<Decision<'a>> {
    let Some(user) = user else {
        return Ok(decided);
    };
    let access = decided.route.map(|own| &config.routes[own.index].access);
    anyhow::ensure!(
        access.is_some_and(Access::finds_user),
        "the route of this request finds out no user: leave `--user` out"
    );
    Ok(match class_by_user(classifier, asked, user) {
        Some((classified, later)) => Decision {
            classified,
            later,
            ..decided
        },
        None => decided,
    })
}

/// Returns a request as a station sees it where no other request is under way.
fn arrival(class: usize, size: Size, hash: u64) -> Arrival {
    Arrival {
        class,
        size,
        hash,
        random: 0,
        channel_backlog: Duration::ZERO,
        channel_ahead: Duration::ZERO,
    }
}

/// Returns the size that is known before the response's head, and a text that names its source.
fn size_before(
    config: &Config,
    request: &Request,
    route: Option<&routing::Route>,
    asking: &route::Asking<'_>,
) -> anyhow::Result<(Size, String)> {
    let method = &request.request.method;
    match (*method == Method::HEAD, request.size) {
        (true, _) => {
            let source = "exact: a HEAD request's response has no body";
            Ok((Size::Exact(0), source.to_owned()))
        }
        (false, Some(bytes)) => {
            let size = Size::Estimate {
                bytes,
                confidence: 1.0,
            };
            Ok((
                size,
                "estimate: what --size says the catalogue holds".to_owned(),
            ))
        }
        (false, None) => {
            let asked = route.filter(|_| *method == Method::GET);
            look_up(config, asked, asking)
        }
    }
}

/// Returns the code points that the packets of the response would bear; null without marking.
fn marks(config: &Config) -> Value {
    let Some(marking) = &config.uplink.marking else {
        return Value::Null;
    };
    let rule = &marking.rule;
    let (within, out) = (marking.code_point(Mark::In), marking.code_point(Mark::Out));
    let promoted = match rule.variant {
        Variant::Sfd => String::new(),
        Variant::PSfd => ", of which some are promoted by chance".to_owned(),
        Variant::SSfd => format!(", of which one turn of every {} is promoted", rule.k),
    };
    let why = format!(
        "code point {within} on the first {} bytes, {out} on the rest{promoted}",
        rule.threshold_bytes
    );
    json!({"in": within, "out": out, "threshold_bytes": rule.threshold_bytes, "why": why})
}

/// Looks up the size that `sprat run` would know before the response's head, and its source.
fn look_up(
    config: &Config,
    route: Option<&routing::Route>,
    asking: &route::Asking<'_>,
) -> anyhow::Result<(Size, String)> {
    let found = match route.zip(asking.uri.path_and_query()) {
        Some((route, target)) => {
            let routing::Action::Forward(forward) = &route.action else {
                return Ok((Size::Unknown, "unknown: Sprat answers by itself".to_owned()));
            };
            let cluster = forward.pick(0);
            let upstream = route.target(asking.uri);
            let to = Destination {
                cluster,
                route: route.index,
                host: asking.host,
                target,
                upstream: upstream.as_ref().and_then(Uri::path_and_query),
            };
            offline::look_up(config, &to, asking.headers)?
        }
        None => None,
    };
    Ok(match found {
        Some(found) => (found.size, format!("estimate: {}", found.layer.name())),
        None => {
            let unknown = "unknown: until the first response, the catalogue holds nothing";
            (Size::Unknown, unknown.to_owned())
        }
    })
}

/// Returns the listener that a request comes to: the one on its target's port, or else the first.
fn listener<'c>(config: &'c Config, request: &Request) -> anyhow::Result<&'c Listener> {
    let uri = &request.request.uri;
    let has_port = |own: &&Listener| {
        let port = own.address.ip().map(|address| address.port());
        port.is_some() && port == uri.port_u16()
    };
    let listener = config.listeners.iter().find(has_port);
    let listener = listener.or(config.listeners.first());
    listener.context("a configuration has a listener")
}

/// Returns a request's head as rules see it, its path in normal form, or the reason for which its
/// listener refuses it. The text is the path's other reading, if rules may match that.
fn head(
    request: &Request,
    listener: &Listener,
) -> anyhow::Result<Result<(Parts, Option<String>), Reason>> {
    let RequestLine { method, uri } = &request.request;
    let (mut parts, ()) = http::Request::new(()).into_parts();
    parts.method.clone_from(method);
    parts.uri.clone_from(uri);
    parts.headers = request.headers.iter().cloned().collect();
    let authority = uri.authority().context("a URL has a host")?;
    let host = HeaderValue::from_str(authority.as_str())?;
    parts.headers.insert(HOST, host);
    let underscores = listener.headers_with_underscores;
    let checked = check(&parts, Slips::default())
        .and_then(|()| names::admit(&mut parts.headers, underscores));
    if let Err(reason) = checked {
        return Ok(Err(reason));
    }
    let normal = normalize(&listener.paths, uri)?;
    Ok(normal.map(|(uri, other_reading)| {
        parts.uri = uri;
        (parts, other_reading)
    }))
}

/// Returns a request's target in normal form, and its path's other reading, or the reason to refuse
/// it.
fn normalize(
    rules: &PathRules,
    uri: &Uri,
) -> anyhow::Result<Result<(Uri, Option<String>), Reason>> {
    let normal = match rules.normal(uri.path()) {
        Ok(normal) if normal.redirects => return Ok(Err(Reason::PathRedirect)),
        Ok(normal) if *normal.path == *uri.path() => {
            return Ok(Ok((uri.clone(), normal.other_reading)));
        }
        Ok(normal) => normal,
        Err(abnormal) => return Ok(Err(refusal(abnormal))),
    };
    let target = routing::with_path(uri, &normal.path);
    let target = target.context("the path is no target")?;
    Ok(Ok((target, normal.other_reading)))
}

fn explain_refusal(request: &Request, reason: Reason) -> Value {
    let RequestLine { method, uri } = &request.request;
    let facts = reason.facts();
    json!({
        "request": format!("{method} {uri}"),
        "client": request.client.to_string(),
        "refused": {
            "status": facts.status.as_u16(),
            "reason": facts.name,
            "why": facts.detail,
        },
    })
}

fn class(class: &Class) -> Value {
    let spec = &class.spec;
    let pool = Some(spec.max_concurrency).filter(|&pool| pool < usize::MAX);
    json!({
        "name": class.name,
        "level": spec.level,
        "weight": spec.weight,
        "max_concurrency": pool,
        "rate_bits_per_s": spec.rate_bits_per_s,
        "idle_only": spec.idle_only,
        "soft_deadline_ms": spec.soft_deadline.or(spec.deadline).map(millis),
        "deadline_ms": spec.deadline.map(millis),
        "value": spec.value,
    })
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn rule(config: &Config, classified: Classified) -> Value {
    let Some(index) = classified.rule else {
        return json!({"number": null, "line": null, "file": null, "why": "no rule matches"});
    };
    let at = config.classes.rules[index].at.as_ref();
    let why = match at {
        Some(at) => format!("rule {} of class_rules, line {at}, matches", index + 1),
        None => "built in: the client says that it is prefetching".to_owned(),
    };
    let (line, file) = (at.map(|at| at.line), at.and_then(|at| at.file.as_ref()));
    json!({"number": line.map(|_| index + 1), "line": line, "file": file, "why": why})
}

/// Describes a class rule that decides only when the response's type is known.
fn later_rule(config: &Config, index: usize) -> Value {
    let rule = &config.classes.rules[index];
    let name = &config.classes.list[rule.class].name;
    let at = rule.at.as_ref();
    let line = at.map_or(String::new(), |at| format!(", line {at}"));
    let types = rule.matches.response_types.iter().map(ToString::to_string);
    let types: Vec<_> = types.collect();
    let why = format!(
        "{name} on the uplink if of type {} (rule {} of class_rules{line})",
        types.join(" or "),
        index + 1,
    );
    let (line, file) = (at.map(|at| at.line), at.and_then(|at| at.file.as_ref()));
    json!({
        "number": index + 1,
        "line": line,
        "file": file,
        "class": name,
        "types": types,
        "why": why,
    })
}

/// The session that a request's cookies name, and its description.
struct AskedSession {
    at: Option<Session>,
    told: Value,
}

/// Finds the session of a request at a cluster, as far as it can be known without the server.
fn session(cluster: &Cluster, headers: &HeaderMap) -> anyhow::Result<AskedSession> {
    let Some(sessions) = Sessions::of(cluster)? else {
        return Ok(AskedSession {
            at: None,
            told: Value::Null,
        });
    };
    let config = cluster.stateful_session.as_ref();
    let has_key = config.is_some_and(|own| own.key_file.is_some());
    let (name, id) = (sessions.cookie(), sessions.find(headers));
    let labels = cluster.endpoints.iter().map(|own| own.address.to_string());
    let label = id.and_then(|id| { labels }.find(|label| sessions.id(label) == id));
    let why = match (&label, id) {
        (Some(label), _) => format!("the cookie `{name}` leads to {label}, before dispatch"),
        (None, Some(_)) if sessions.is_strict() => {
            format!("the cookie `{name}` is of an endpoint that is not there: answered 503")
        }
        (None, Some(_)) => {
            format!("the cookie `{name}` is of an endpoint that is not there: dispatch chooses")
        }
        (None, None) if !has_key => format!(
            "no `key_file`: only the process that has set a cookie `{name}` can tell what it says"
        ),
        (None, None) => format!("no cookie `{name}` of this key: dispatch chooses, and sets it"),
    };
    let told = json!({
        "cookie": name,
        "strict": sessions.is_strict(),
        "endpoint": label,
        "why": why,
    });
    let at = id.map(|id| sessions.session(id, label.as_deref()));
    Ok(AskedSession { at, told })
}

/// Returns the endpoints in the order in which a cluster without other requests would try them.
fn endpoints(
    config: &Config,
    cluster: &Cluster,
    arrival: &Arrival,
    session: Option<Session>,
) -> Value {
    let specs = station_config(cluster, &config.classes.list, &config.admission);
    let mut station = Station::new(specs);
    let intervals = station.intervals().map(<[_]>::to_vec);
    let mut order = Vec::new();
    let mut verdict = station.arrive_in(Time::ZERO, arrival, session);
    while let Verdict::Start { ticket, endpoint } = verdict {
        let own = &cluster.endpoints[endpoint];
        let interval = intervals.as_ref().map(|intervals| intervals[endpoint]);
        order.push(json!({
            "address": own.address.to_string(),
            "weight": own.weight,
            "reserved": own.reserved,
            "priority": own.priority,
            "sizes": interval.map(|(from, to)| json!({"from": from, "to": to})),
        }));
        verdict = match station.step_back(Time::ZERO, ticket, false) {
            Again::Elsewhere => station.again(Time::ZERO, ticket),
            Again::Here | Again::Nowhere | Again::Denied => break,
        };
    }
    let why = match cluster.dispatch {
        Dispatch::RoundRobin => "in turn, by weight; this is the first turn",
        Dispatch::Random => "at random, by weight; this is one draw",
        Dispatch::P2c => "the less loaded of two drawn at random; this is one draw",
        Dispatch::LeastRequest => "the fewest requests for its weight; all are idle here",
        Dispatch::Psqf => "the fewest requests of this class's level or above; all are idle here",
        Dispatch::Rpsq { .. } => {
            "the fewest requests of this class's level or above, reserved endpoints for the \
             highest class alone; all are idle here"
        }
        Dispatch::LeastWork => "the least work before it for its weight; all are idle here",
        Dispatch::Sita(_) => "the one whose interval the size falls into, then those above",
        Dispatch::RingHash | Dispatch::Maglev => "by the hash of what it asks for",
    };
    let waits = cluster
        .wait_for_endpoint
        .map(|time| time.as_millis() as u64);
    json!({
        "order": order,
        "why": why,
        "wait_for_endpoint_ms": waits,
        "queues": order::queues_before(cluster, arrival.size),
    })
}

/// Describes a class in one line: its name, level, bounds and deadlines.
fn described(class: &Value) -> String {
    let mut described = format!(
        "{}, level {}",
        class["name"].as_str().unwrap_or_default(),
        class["level"]
    );
    for (key, name) in [
        ("max_concurrency", "at a time"),
        ("rate_bits_per_s", "bit/s for all of it"),
    ] {
        if !class[key].is_null() {
            let _ = write!(described, ", {} {name}", class[key]);
        }
    }
    if !class["deadline_ms"].is_null() {
        let (soft, hard) = (&class["soft_deadline_ms"], &class["deadline_ms"]);
        let _ = write!(described, ", worth {} until {soft} ms", class["value"]);
        if soft != hard {
            let _ = write!(described, " and something until {hard} ms");
        }
    }
    if class["idle_only"] == true {
        described.push_str(", only while the others have nothing");
    }
    described
}

fn text(explained: &Value) -> String {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut out = String::new();
    let mut line = |name: &str, text: &str| {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{name:<10}{text}");
    };
    line("request", &word(&explained["request"]));
    if !explained["matched_path"].is_null() {
        line("matched", &word(&explained["matched_path"]));
    }
    line("client", &word(&explained["client"]));
    let refused = &explained["refused"];
    if !refused.is_null() {
        let (status, reason) = (&refused["status"], word(&refused["reason"]));
        let why = word(&refused["why"]);
        line("refused", &format!("{status} {reason}: {why}"));
        return out;
    }
    let route = &explained["route"];
    if route.is_null() {
        line("route", "none: the request is answered 404");
    } else {
        for (name, text) in route::lines(route) {
            line(name, &text);
        }
    }
    line("class", &described(&explained["class"]));
    line("rule", &word(&explained["rule"]["why"]));
    for later in explained["later_rules"].as_array().into_iter().flatten() {
        line("response", &word(&later["why"]));
    }
    let size = &explained["size"];
    let source = word(&size["source"]);
    match size["bytes"].as_u64() {
        Some(bytes) => line("size", &format!("{bytes} bytes, {source}")),
        None => line("size", &source),
    }
    line("order", &word(&explained["order"]["why"]));
    if !explained["marks"].is_null() {
        line("marks", &word(&explained["marks"]["why"]));
    }
    if !explained["trace"].is_null() {
        line("trace", &word(&explained["trace"]["why"]));
    }
    if !explained["session"].is_null() {
        line("session", &word(&explained["session"]["why"]));
    }
    let order = explained["endpoints"]["order"].as_array();
    for (index, endpoint) in order.into_iter().flatten().enumerate() {
        let name = if index == 0 { "endpoints" } else { "" };
        let mut described = format!("{}. {}", index + 1, word(&endpoint["address"]));
        let sizes = &endpoint["sizes"];
        if !sizes.is_null() {
            let _ = write!(described, " ({} to {} bytes)", sizes["from"], sizes["to"]);
        }
        if endpoint["priority"] != 0 {
            let _ = write!(described, " (stands by, priority {})", endpoint["priority"]);
        }
        line(name, &described);
    }
    if !explained["endpoints"].is_null() {
        line("", &word(&explained["endpoints"]["why"]));
    }
    if let Some(waits) = explained["endpoints"]["wait_for_endpoint_ms"].as_u64() {
        line(
            "",
            &format!("where none can be reached it waits up to {waits} ms for one"),
        );
    }
    if let Some(queues) = explained["endpoints"]["queues"].as_str() {
        line("", queues);
    }
    out
}
