//! Tests of traces: the trace that a request is part of, the fields and log lines about it, and the
//! spans that a collector gets, read by OpenTelemetry's own decoder.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::*;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use sprat_config::resolved::*;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN: &str = "b7ad6b7169203331";

/// A collector that records the requests it gets.
struct Collector {
    origin: Origin,
    got: Arc<Mutex<Vec<(Message, ExportTraceServiceRequest)>>>,
}

impl Collector {
    /// Starts a collector that answers with these heads in turn, and then with 200.
    fn answering(heads: &[&str]) -> Self {
        let got: Arc<Mutex<Vec<_>>> = Arc::default();
        let (kept, heads) = (
            Arc::clone(&got),
            Mutex::new(
                heads
                    .iter()
                    .map(|own| (*own).to_owned())
                    .collect::<Vec<_>>(),
            ),
        );
        let origin = Origin::http(move |request| {
            let decoded = ExportTraceServiceRequest::decode(&request.body[..]).unwrap();
            kept.lock().unwrap().push((request.clone(), decoded));
            let mut heads = heads.lock().unwrap();
            let head = match heads.is_empty() {
                true => "200 OK\r\n".to_owned(),
                false => heads.remove(0),
            };
            format!("HTTP/1.1 {head}Content-Length: 0\r\n\r\n")
        });
        Self { origin, got }
    }

    fn start() -> Self {
        Self::answering(&[])
    }

    fn spans(&self) -> Vec<Span> {
        let got = self.got.lock().unwrap();
        let scopes = got.iter().flat_map(|(_, own)| &own.resource_spans);
        let scopes = scopes.flat_map(|own| &own.scope_spans);
        scopes.flat_map(|own| own.spans.clone()).collect()
    }

    fn wait(&self, count: usize) -> Vec<Span> {
        wait_for(&format!("{count} spans"), || self.spans().len() >= count);
        self.spans()
    }
}

fn to(address: SocketAddr) -> Tracing {
    Tracing {
        sampling_ppm: 1_000_000,
        parent_based: true,
        otlp: Otlp {
            endpoint: CollectorEndpoint {
                is_secure: false,
                host: address.ip().to_string(),
                port: address.port(),
                authority: address.to_string(),
                path: "/v1/traces".to_owned(),
                span: Default::default(),
            },
            headers: vec![("x-key".to_owned(), "hush".to_owned())],
            ca_file: None,
            resource: vec![("service.name".to_owned(), "edge".to_owned())],
            timeout: Duration::from_secs(5),
            max_queue_size: 2048,
            max_export_batch_size: 512,
            schedule_delay: Duration::from_millis(20),
        },
    }
}

fn traced(origin: &Origin, collector: &Collector) -> Config {
    let mut config = config(&[origin.address]);
    config.tracing = Some(to(collector.origin.address));
    config
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|own| format!("{own:02x}")).collect()
}

fn attributes(all: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |own: &KeyValue| match own.value.as_ref().unwrap().value.as_ref().unwrap() {
        any_value::Value::StringValue(text) => text.clone(),
        any_value::Value::IntValue(number) => number.to_string(),
        any_value::Value::DoubleValue(number) => number.to_string(),
        other => format!("{other:?}"),
    };
    all.iter().map(|own| (own.key.clone(), text(own))).collect()
}

fn named<'a>(spans: &'a [Span], name: &str) -> Vec<&'a Span> {
    spans.iter().filter(|own| own.name == name).collect()
}

/// Starts an origin that answers with the request's trace fields.
fn telling() -> Origin {
    Origin::http(|request| {
        let own = |name| request.field(name).unwrap_or("-").to_owned();
        ok(&format!("{} {}", own("traceparent"), own("tracestate")))
    })
}

fn ask(proxy: &Proxy, fields: &str) -> String {
    let request = format!("GET /a?b=c HTTP/1.1\r\nHost: www.example:81\r\n{fields}\r\n");
    proxy.connect().ask(request).text()
}

fn with_parent(flags: &str) -> String {
    format!("Traceparent: 00-{TRACE}-{SPAN}-{flags}\r\nTracestate: a=1\r\nTracestate: b=2\r\n")
}

#[test]
fn without_tracing_fields_pass_untouched() {
    let origin = telling();
    let proxy = Proxy::logging(config(&[origin.address]));
    assert_eq!(
        ask(&proxy, "Traceparent: any\r\nTracestate: thing\r\n"),
        "any thing"
    );
    let line = &proxy.log_lines(1)[0];
    assert!(line.get("trace_id").is_none(), "{line}");
}

#[test]
fn a_request_is_part_of_the_trace_that_it_came_with() {
    let (origin, collector) = (telling(), Collector::start());
    let proxy = Proxy::logging(traced(&origin, &collector));
    let told = ask(&proxy, &format!("{}User-Agent: me\r\n", with_parent("01")));
    let spans = collector.wait(2);
    let (server, attempt) = (named(&spans, "GET")[0], named(&spans, "attempt")[0]);
    assert_eq!(hex(&server.trace_id), TRACE);
    assert_eq!(hex(&server.parent_span_id), SPAN);
    assert_eq!(server.trace_state, "a=1,b=2");
    assert_eq!((server.kind, attempt.kind), (2, 3));
    assert_eq!(server.flags, 0x301);
    assert_eq!(attempt.parent_span_id, server.span_id);
    // The backend's span is within the attempt.
    let told_parent = format!("00-{TRACE}-{}-01", hex(&attempt.span_id));
    assert_eq!(told, format!("{told_parent} a=1,b=2"));
    assert!(server.start_time_unix_nano <= attempt.start_time_unix_nano);
    assert!(attempt.end_time_unix_nano <= server.end_time_unix_nano);
    let own = attributes(&server.attributes);
    for (key, value) in [
        ("http.request.method", "GET"),
        ("url.scheme", "http"),
        ("url.path", "/a"),
        ("url.query", "b=c"),
        ("server.address", "www.example"),
        ("server.port", "81"),
        ("client.address", "127.0.0.1"),
        ("user_agent.original", "me"),
        ("network.protocol.version", "1.1"),
        ("http.response.status_code", "200"),
        ("sprat.class", "default"),
        ("sprat.cluster", "farm"),
        ("sprat.endpoint", &origin.address.to_string()),
    ] {
        assert_eq!(own.get(key).map(String::as_str), Some(value), "{key}");
    }
    assert!(!own.contains_key("error.type") && server.status.is_none());
    let attempted = attributes(&attempt.attributes);
    assert_eq!(attempted["http.response.status_code"], "200");
    assert_eq!(attempted["server.port"], origin.address.port().to_string());
    let got = collector.got.lock().unwrap();
    let (request, decoded) = &got[0];
    assert_eq!(request.start, "POST /v1/traces HTTP/1.1");
    assert_eq!(
        request.field("content-type"),
        Some("application/x-protobuf")
    );
    assert_eq!(request.field("x-key"), Some("hush"));
    let resource = decoded.resource_spans[0].resource.as_ref().unwrap();
    assert_eq!(attributes(&resource.attributes)["service.name"], "edge");
    let scope = decoded.resource_spans[0].scope_spans[0].scope.as_ref();
    assert_eq!(scope.unwrap().name, "sprat");
    drop(got);
    let line = &proxy.log_lines(1)[0];
    assert_eq!(line["trace_id"], TRACE);
    assert_eq!(line["span_id"], hex(&server.span_id));
    proxy.wait_metric(&["sprat_traces_exported_total"], 2.0);
}

#[test]
fn the_parent_decides_whether_a_trace_is_sampled() {
    let (origin, collector) = (telling(), Collector::start());
    let mut config = traced(&origin, &collector);
    let proxy = Proxy::start(&config);
    // Not sampled: passed on as it is, with a span of our own, and told to nobody.
    let told = ask(&proxy, &with_parent("00"));
    assert!(told.starts_with(&format!("00-{TRACE}-")), "{told}");
    assert!(
        told.ends_with("-00 a=1,b=2") && !told.contains(SPAN),
        "{told}"
    );
    // Malformed: another trace, and no state of the one before.
    for bad in [
        "00-abc",
        &format!("ff-{TRACE}-{SPAN}-01"),
        &format!("00-{TRACE}-{}-01", "0".repeat(16)),
    ] {
        let told = ask(
            &proxy,
            &format!("Traceparent: {bad}\r\nTracestate: a=1\r\n"),
        );
        assert!(told.starts_with("00-") && !told.contains(TRACE), "{told}");
        assert!(told.ends_with("-01 -"), "{told}");
    }
    // A client cannot have the fields taken away on our connection.
    let named = ask(
        &proxy,
        &format!("{}Connection: traceparent\r\n", with_parent("01")),
    );
    assert!(named.starts_with(&format!("00-{TRACE}-")), "{named}");
    let spans = collector.wait(8);
    let of_trace = spans.iter().filter(|own| hex(&own.trace_id) == TRACE);
    assert_eq!(of_trace.count(), 2);
    // None of what begins here, and what is sampled elsewhere only if that counts.
    let tracing = config.tracing.as_mut().unwrap();
    tracing.sampling_ppm = 0;
    let proxy = Proxy::start(&config);
    assert!(ask(&proxy, "").ends_with("-00 -"));
    assert!(ask(&proxy, &with_parent("01")).ends_with("-01 a=1,b=2"));
    config.tracing.as_mut().unwrap().parent_based = false;
    let proxy = Proxy::start(&config);
    assert!(ask(&proxy, &with_parent("01")).ends_with("-00 a=1,b=2"));
}

#[test]
fn each_attempt_has_a_span_with_its_reason() {
    let (busy, fine) = (
        Origin::http(|_| "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n".to_owned()),
        telling(),
    );
    let collector = Collector::start();
    let mut config = traced(&busy, &collector);
    let route = Route {
        retry: RetryPolicy {
            retry_on: vec![RetryOn::GatewayError],
            ..RetryPolicy::default()
        },
        ..config.routes[0].clone()
    };
    config.routes = vec![route];
    with_cluster(&mut config, |cluster| {
        cluster.endpoints = vec![endpoint(busy.address), endpoint(fine.address)];
    });
    let proxy = Proxy::start(&config);
    let told = ask(&proxy, &with_parent("01"));
    let spans = collector.wait(3);
    let attempts = named(&spans, "attempt");
    let first = attributes(&attempts[0].attributes);
    assert_eq!(first["http.response.status_code"], "503");
    assert_eq!(first["error.type"], "503");
    assert_eq!(attempts[0].status.as_ref().unwrap().code, 2);
    let second = attributes(&attempts[1].attributes);
    assert_eq!(second["http.request.resend_count"], "1");
    assert_eq!(second["sprat.retry.reason"], "gateway-error");
    assert_eq!(second["sprat.endpoint"], fine.address.to_string());
    assert!(told.contains(&hex(&attempts[1].span_id)), "{told}");
}

#[test]
fn waits_and_pacing_have_spans() {
    let (enter, entered) = std::sync::mpsc::channel();
    let (go, gone) = std::sync::mpsc::channel::<()>();
    let (enter, gone) = (Mutex::new(enter), Mutex::new(gone));
    let origin = Origin::http(move |_| {
        enter.lock().unwrap().send(()).unwrap();
        gone.lock().unwrap().recv().unwrap();
        ok(&"x".repeat(20_000))
    });
    let collector = Collector::start();
    let mut config = traced(&origin, &collector);
    config.uplink.rate = Rate::Fixed(2_000_000);
    with_cluster(&mut config, |cluster| cluster.max_requests = 1);
    let proxy = Proxy::start(&config);
    let mut first = proxy.connect();
    first.send(get("/1"));
    entered.recv_timeout(PATIENCE).unwrap();
    let mut second = proxy.connect();
    second.send(get("/2"));
    proxy.wait_metric(&["sprat_waiting_requests", "class=\"default\""], 1.0);
    go.send(()).unwrap();
    go.send(()).unwrap();
    assert_eq!(first.message().body.len(), 20_000);
    assert_eq!(second.message().body.len(), 20_000);
    let spans = collector.wait(7);
    let waits = named(&spans, "wait");
    let at = |own: &Span| attributes(&own.attributes)["sprat.wait.for"].clone();
    assert!(waits.iter().any(|own| at(own) == "endpoint"), "{waits:?}");
    let pacing = named(&spans, "pacing");
    assert_eq!(pacing.len(), 2);
    for own in pacing {
        let told = attributes(&own.attributes);
        let number = |key: &str| told[key].parse::<f64>().unwrap();
        assert!(number("sprat.pacing.grants") > 1.0, "{told:?}");
        assert!(number("sprat.pacing.bytes") >= 20_000.0, "{told:?}");
        assert!(number("sprat.pacing.wait_ms") > 10.0, "{told:?}");
        let took = own.end_time_unix_nano - own.start_time_unix_nano;
        assert!(took > 10_000_000, "{took}");
    }
}

#[test]
fn refusals_and_clients_that_go_are_told() {
    let origin = Origin::start(|mut peer| {
        drop(peer.head());
        assert!(peer.is_closed());
    });
    let collector = Collector::start();
    let proxy = Proxy::start(&traced(&origin, &collector));
    let refused = proxy.connect().ask("GET / HTTP/1.1\r\nHost: a b\r\n\r\n");
    assert_eq!(refused.status(), 400);
    let spans = collector.wait(1);
    let own = attributes(&spans[0].attributes);
    assert_eq!(own["http.response.status_code"], "400");
    assert_eq!(own["error.type"], "invalid_host");
    // A client's mistake is no error of the server's.
    assert!(spans[0].status.is_none());
    let mut client = proxy.connect();
    client.send(get("/slow"));
    wait_for("the origin", || origin.connections() == 1);
    reset(client);
    let spans = collector.wait(3);
    let attempt = attributes(&named(&spans, "attempt")[0].attributes);
    assert_eq!(attempt["error.type"], "cancelled");
    let server = spans
        .iter()
        .find(|own| own.kind == 2 && own.status.is_some());
    let server = attributes(&server.unwrap().attributes);
    assert_eq!(server["error.type"], "client_closed");
    assert_eq!(server["http.response.status_code"], "499");
}

#[test]
fn what_is_refused_for_now_is_sent_again() {
    let origin = telling();
    let later = "503 Busy\r\nRetry-After: 1\r\n";
    let collector = Collector::answering(&[later, "429 Slowly\r\n"]);
    let proxy = Proxy::start(&traced(&origin, &collector));
    ask(&proxy, "");
    let spans = collector.wait(6);
    assert_eq!(spans[0], spans[2]);
    assert_eq!(spans[0], spans[4]);
    proxy.wait_metric(&["sprat_traces_exported_total"], 2.0);
    assert_eq!(proxy.metric(&["sprat_traces_export_failures_total"]), 2.0);
    // What would be refused again is not.
    let collector = Collector::answering(&["400 No\r\n"]);
    let proxy = Proxy::start(&traced(&origin, &collector));
    ask(&proxy, "");
    proxy.wait_metric(&["sprat_traces_dropped_total", "rejected"], 2.0);
    ask(&proxy, "");
    proxy.wait_metric(&["sprat_traces_exported_total"], 2.0);
    assert_eq!(collector.spans().len(), 4);
}

#[test]
fn a_collector_that_is_silent_costs_spans_and_nothing_else() {
    let origin = telling();
    let silent = Origin::start(|mut peer| assert!(peer.is_closed()));
    let mut config = config(&[origin.address]);
    let mut tracing = to(silent.address);
    tracing.otlp.max_queue_size = 4;
    tracing.otlp.max_export_batch_size = 2;
    tracing.otlp.timeout = Duration::from_millis(300);
    config.tracing = Some(tracing);
    let mut proxy = Proxy::start(&config);
    for _ in 0..10 {
        assert!(ask(&proxy, "").ends_with("-01 -"));
    }
    // Two are being sent, four wait: of twenty.
    proxy.wait_metric(&["sprat_traces_dropped_total", "queue_full"], 14.0);
    assert_eq!(proxy.metric(&["sprat_traces_queued"]), 4.0);
    // It ends all the same.
    let server = proxy.server.take().unwrap();
    let began = std::time::Instant::now();
    server.control().drain();
    server.join().unwrap();
    assert!(began.elapsed() < PATIENCE);
}

#[test]
fn what_waits_is_sent_at_the_end() {
    let (origin, collector) = (telling(), Collector::start());
    let mut config = traced(&origin, &collector);
    let otlp = &mut config.tracing.as_mut().unwrap().otlp;
    otlp.schedule_delay = Duration::from_secs(3600);
    let mut proxy = Proxy::start(&config);
    for _ in 0..3 {
        ask(&proxy, "");
    }
    assert!(collector.spans().is_empty());
    let server = proxy.server.take().unwrap();
    server.control().drain();
    server.join().unwrap();
    assert_eq!(collector.spans().len(), 6);
}

#[test]
fn a_reload_changes_where_spans_go() {
    let (origin, one, other) = (telling(), Collector::start(), Collector::start());
    let mut config = traced(&origin, &one);
    config.listeners[0].address = free_address().into();
    let proxy = Proxy::start(&config);
    ask(&proxy, "");
    one.wait(2);
    let control = proxy.server.as_ref().unwrap().control();
    config.tracing.as_mut().unwrap().otlp = to(other.origin.address).otlp;
    control.reload(&config).unwrap();
    ask(&proxy, "");
    other.wait(2);
    assert_eq!(one.spans().len(), 2);
    // Counts go on.
    proxy.wait_metric(&["sprat_traces_exported_total"], 4.0);
    config.tracing = None;
    control.reload(&config).unwrap();
    assert_eq!(ask(&proxy, "Traceparent: x\r\n"), "x -");
}

#[test]
fn a_collector_is_believed_by_its_certificate() {
    let (origin, collector) = (telling(), Collector::start());
    let authority = tls::Authority::new();
    let issued = authority.issue("collector", &["localhost"]);
    let mut front = config(&[collector.origin.address]);
    front.listeners[0].tls = Some(tls::listener_tls(&[&issued]));
    let front = Proxy::start(&front);
    let mut config = traced(&origin, &collector);
    let otlp = &mut config.tracing.as_mut().unwrap().otlp;
    otlp.endpoint.is_secure = true;
    otlp.endpoint.host = "localhost".to_owned();
    otlp.endpoint.port = front.address.port();
    otlp.ca_file = Some(tls::file(&authority.file()));
    let proxy = Proxy::start(&config);
    ask(&proxy, "");
    collector.wait(2);
    // Another authority's word does not count.
    let stranger = tls::Authority::new();
    let otlp = &mut config.tracing.as_mut().unwrap().otlp;
    otlp.ca_file = Some(tls::file(&stranger.file()));
    let proxy = Proxy::start(&config);
    ask(&proxy, "");
    proxy.wait_metric(&["sprat_traces_export_failures_total"], 1.0);
    assert_eq!(collector.spans().len(), 2);
}
