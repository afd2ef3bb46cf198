//! Tests of the filter behind the SDK, with a stand-in for the host.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::cell::RefCell;

use proxy_wasm::types::{LogLevel, MapType, StreamType};

use crate::body::sprat_on_response_body as proxy_on_response_body;
use crate::context::install;
use fake::host;

mod envoy;
mod fake;
mod parked;

const ROOT: u32 = 1;
const CONTINUE: u32 = 0;
const PAUSE: u32 = 1;

const HALF_REQUEST: u32 = StreamType::HttpRequest as u32;
const HALF_RESPONSE: u32 = StreamType::HttpResponse as u32;

// The SDK's callbacks, as the host calls them.
unsafe extern "C" {
    safe fn proxy_on_context_create(context: u32, root: u32);
    safe fn proxy_on_vm_start(root: u32, bytes: usize) -> bool;
    safe fn proxy_on_configure(root: u32, bytes: usize) -> bool;
    safe fn proxy_on_tick(root: u32);
    safe fn proxy_on_queue_ready(root: u32, queue: u32);
    safe fn proxy_on_request_headers(context: u32, fields: usize, end: bool) -> u32;
    safe fn proxy_on_response_headers(context: u32, fields: usize, end: bool) -> u32;
    safe fn proxy_on_response_trailers(context: u32, fields: usize) -> u32;
    safe fn proxy_on_http_call_response(
        context: u32,
        token: u32,
        fields: usize,
        body: usize,
        trailers: usize,
    );
    safe fn proxy_on_done(context: u32) -> bool;
    safe fn proxy_on_delete(context: u32);
}

thread_local! {
    /// The contexts that the SDK knows on this thread.
    static CONTEXTS: RefCell<Vec<u32>> = RefCell::default();
}

fn create(context: u32, root: u32) {
    proxy_on_context_create(context, root);
    CONTEXTS.with_borrow_mut(|all| all.push(context));
}

fn delete(context: u32) {
    CONTEXTS.with_borrow_mut(|all| all.retain(|own| *own != context));
    proxy_on_delete(context);
}

fn configure(text: &str) -> bool {
    // What an earlier test on this thread has left.
    CONTEXTS
        .take()
        .into_iter()
        .rev()
        .for_each(|context| proxy_on_delete(context));
    install();
    host(|host| {
        host.configuration = text.to_owned();
        host.now_ns = 1_000_000_000_000;
        host.effective = ROOT;
    });
    create(ROOT, 0);
    assert!(proxy_on_vm_start(ROOT, 0));
    proxy_on_configure(ROOT, text.len())
}

/// Begins a stream with a GET for this path, and returns the filter's answer.
fn request(context: u32, path: &str) -> u32 {
    create(context, ROOT);
    let fields = [
        (":method", "GET"),
        (":authority", "a.example"),
        (":path", path),
    ];
    about(context, MapType::HttpRequestHeaders, &fields);
    proxy_on_request_headers(context, 3, true)
}

/// Hands over the head of a stream's response, and returns the filter's answer.
fn response(context: u32, bytes: u64) -> u32 {
    let length = bytes.to_string();
    about(
        context,
        MapType::HttpResponseHeaders,
        &[(":status", "200"), ("content-length", &length)],
    );
    proxy_on_response_headers(context, 2, false)
}

/// Sets the context and the head that the host's next call is about.
fn about(context: u32, head: MapType, fields: &[(&str, &str)]) {
    let owned = fields
        .iter()
        .map(|(n, v)| ((*n).to_owned(), v.as_bytes().to_vec()));
    host(|host| {
        host.effective = context;
        host.heads.insert((context, head as u32), owned.collect());
    });
}

#[test]
fn a_bad_configuration_is_refused_and_logged() {
    assert!(!configure("{\"uplink\": {\"rate\": \"fast\"}}"));
    let log = host(|host| host.log.clone());
    assert!(
        log[0].0 == LogLevel::Error as u32 && log[0].1.contains("configuration:1:"),
        "{log:?}"
    );
}

/// Calls the worker back for its queue, as the host does.
fn called_back() {
    host(|host| host.effective = ROOT);
    proxy_on_queue_ready(ROOT, 0);
}

#[test]
fn with_nothing_on_no_stream_is_known() {
    assert!(configure(""));
    assert_eq!(request(2, "/"), CONTINUE);
    assert_eq!(response(2, 1_000_000), CONTINUE);
    assert_eq!(proxy_on_response_body(2, 1000, false), CONTINUE);
    assert_eq!(proxy_on_response_trailers(2, 1), CONTINUE);
    assert!(proxy_on_done(2));
    delete(2);
    assert_eq!(host(|host| host.metric("sprat.requests.default")), 0);
}

/// Guards against rules that the first of two fields hides the second from, and against a field of
/// the filter's own that a client brings past it by a value that is no text.
#[test]
fn each_field_of_a_name_counts_whatever_its_value() {
    assert!(configure(
        "{classes: {gold: {level: 0}}, \
         class_rules: [{match: {headers: [{name: x-tier, value: gold}]}, class: gold}], \
         clusters: {farm: {match: {prefix: /farm}, pools: [farm]}}}"
    ));
    create(2, ROOT);
    let fields = [
        (":method", "GET"),
        (":authority", "a.example"),
        (":path", "/"),
        ("x-tier", "base"),
        ("x-tier", "gold"),
    ];
    about(2, MapType::HttpRequestHeaders, &fields);
    let head = (2, MapType::HttpRequestHeaders as u32);
    let forged = ("x-sprat-cluster".to_owned(), vec![0xff]);
    host(|host| host.heads.get_mut(&head).unwrap().push(forged));
    assert_eq!(proxy_on_request_headers(2, 6, true), CONTINUE);
    assert_eq!(host(|host| host.metric("sprat.requests.gold")), 1);
    assert_eq!(
        host(|host| host.heads[&head].len()),
        5,
        "the forged one is gone"
    );
}

/// Guards against rules on `Host` that no request meets: Envoy lists it as `:authority`.
#[test]
fn a_rule_on_host_is_about_the_authority() {
    assert!(configure(
        "{classes: {gold: {level: 0}}, \
         class_rules: [{match: {headers: [{name: host, value: a.example}]}, class: gold}], \
         clusters: {farm: {match: {prefix: /farm}, pools: [farm]}}}"
    ));
    assert_eq!(request(2, "/"), CONTINUE);
    assert_eq!(host(|host| host.metric("sprat.requests.gold")), 1);
}

/// Guards against a client that gets past all rules for a path by a byte in it that is no text.
#[test]
fn a_path_that_is_no_text_has_the_rules_of_what_is_text_in_it() {
    assert!(configure(
        "{classes: {gold: {level: 0}}, \
         class_rules: [{match: {prefix: /farm}, class: gold}], \
         clusters: {farm: {match: {prefix: /farm}, pools: [small]}}}"
    ));
    create(2, ROOT);
    let fields = [(":method", "GET"), (":authority", "a.example")];
    about(2, MapType::HttpRequestHeaders, &fields);
    let head = (2, MapType::HttpRequestHeaders as u32);
    let path = (":path".to_owned(), b"/farm/\xff".to_vec());
    host(|host| host.heads.get_mut(&head).unwrap().push(path));
    assert_eq!(proxy_on_request_headers(2, 3, true), CONTINUE);
    assert_eq!(host(|host| host.metric("sprat.requests.gold")), 1);
    let fields = host(|host| host.heads[&head].clone());
    let pool = fields.iter().find(|(name, _)| name == "x-sprat-cluster");
    assert_eq!(pool.unwrap().1, b"small");
}

#[test]
fn a_head_is_held_and_let_go_by_a_tick() {
    assert!(configure("{catalogue: off, uplink: {rate: 10mbit}}"));
    assert_eq!(request(2, "/a"), CONTINUE);
    assert_eq!(response(2, 1 << 20), CONTINUE, "the link is free");
    assert_eq!(request(3, "/b"), CONTINUE);
    assert_eq!(response(3, 2 << 20), PAUSE);
    assert_eq!(host(|host| (host.tick_ms, host.continued.len())), (1, 0));
    host(|host| host.effective = 2);
    proxy_on_done(2);
    delete(2);
    // Not from a callback of a stream: the host calls back at once.
    assert_eq!(host(|host| (host.continued.len(), host.queues[0])), (0, 1));
    assert_eq!(host(|host| host.tick_ms), 0, "nobody waits");
    called_back();
    assert_eq!(host(|host| host.continued.clone()), [(3, HALF_RESPONSE)]);
    assert_eq!(
        host(|host| host.effective),
        ROOT,
        "the callback's own again"
    );
    // A stream that has gone meanwhile is let be.
    assert_eq!(request(4, "/c"), CONTINUE);
    assert_eq!(response(4, 2 << 20), PAUSE);
    host(|host| host.gone = vec![4]);
    proxy_on_done(3);
    called_back();
    assert_eq!(host(|host| host.continued.len()), 1);
    proxy_on_tick(ROOT);
}

#[test]
fn many_that_are_due_at_once_go_by_and_by_and_none_that_is_over() {
    assert!(configure(
        "{clusters: {farm: {pools: [farm], max_requests: 20, wait_queue: {max_requests: 100}}}}"
    ));
    assert!((2..22).all(|context| request(context, "/a") == CONTINUE));
    assert!((22..50).all(|context| request(context, "/a") == PAUSE));
    // Each gives its place to one that waits, of which the first leaves before
    // it is let go.
    for context in 2..=22 {
        proxy_on_done(context);
    }
    called_back();
    assert_eq!(host(|host| host.continued.len()), 16);
    called_back();
    let continued = host(|host| host.continued.clone());
    let next = (23..=42).map(|context| (context, HALF_REQUEST));
    assert_eq!(continued, next.collect::<Vec<_>>());
}

#[test]
fn a_refused_request_is_answered_and_a_probe_is_sent() {
    assert!(configure(
        "{clusters: {farm: {pools: [small, large], max_requests: 1, dispatch: sita, \
         wait_queue: {max_requests: 0}, head_probe: {cluster: small}}}}"
    ));
    assert_eq!(request(2, "/a"), PAUSE);
    let (cluster, head) = host(|host| host.calls[0].clone());
    assert_eq!(cluster, "small");
    assert_eq!(head[0], (":method".to_owned(), "HEAD".to_owned()));
    about(
        ROOT,
        MapType::HttpCallResponseHeaders,
        &[(":status", "200"), ("content-length", "7")],
    );
    proxy_on_http_call_response(ROOT, 1, 2, 0, 0);
    called_back();
    assert_eq!(host(|host| host.continued.clone()), [(2, HALF_REQUEST)]);
    assert_eq!(host(|host| host.metric("sprat.head_probe.told")), 1);
    // Its place is taken, and so is none to wait in.
    let mut contexts = 3..8;
    let refused = contexts.any(|context| {
        request(context, "/a");
        host(|host| {
            host.answered
                .iter()
                .any(|(own, status, _)| (*own, *status) == (context, 503))
        })
    });
    assert!(refused);
}

#[test]
fn a_request_that_the_host_itself_answers_is_neither_answered_nor_let_go() {
    assert!(configure(
        "{clusters: {farm: {pools: [farm], max_requests: 1, \
         wait_queue: {max_requests: 1, timeout: 2s}}}}"
    ));
    assert_eq!(request(2, "/a"), CONTINUE);
    assert_eq!(request(3, "/a"), PAUSE);
    // After a timeout of its own, say; its stream is not over.
    assert_eq!(response(3, 10), CONTINUE);
    assert_eq!(request(4, "/a"), PAUSE);
    assert_eq!(host(|host| host.answered.len()), 0, "the queue has room");
    host(|host| {
        host.now_ns += 3_000_000_000;
        host.effective = ROOT;
    });
    proxy_on_tick(ROOT);
    let answered = || host(|host| host.answered.iter().map(|own| own.0).collect::<Vec<_>>());
    assert_eq!(answered(), [4]);
    // Its place at the pool may have come when it is answered so.
    assert_eq!(request(5, "/a"), PAUSE);
    host(|host| host.effective = 2);
    proxy_on_done(2);
    assert_eq!(response(5, 10), CONTINUE);
    assert_eq!(request(6, "/a"), CONTINUE, "the place is free");
    called_back();
    assert_eq!(host(|host| host.continued.len()), 0);
    assert_eq!(answered(), [4]);
}

#[test]
fn bodies_are_held_and_what_has_gone_is_not_let_go_again() {
    const STOP_AND_WATERMARK: u32 = 2;
    assert!(configure(
        "{catalogue: off, uplink: {rate: 10mbit, hold: bodies}}"
    ));
    for large in [2, 3] {
        assert_eq!(request(large, "/large"), CONTINUE);
    }
    assert_eq!(response(2, 1 << 20), CONTINUE, "the link is free");
    assert_eq!(proxy_on_response_body(2, 16 << 10, false), CONTINUE);
    assert_eq!(proxy_on_response_body(2, 2_000, false), STOP_AND_WATERMARK);
    assert_eq!(response(3, 1 << 20), PAUSE, "a head, as heads are held");
    assert_eq!(host(|host| host.tick_ms), 1);
    // Both are due, and the host is told so when it calls back.
    host(|host| host.now_ns += 13_000_000);
    assert_eq!(request(4, "/larger"), CONTINUE);
    assert_eq!(response(4, 2 << 20), PAUSE);
    assert_eq!(host(|host| (host.continued.len(), host.queues[0])), (0, 1));
    // In the meantime more comes for one of them: it takes along what is held.
    host(|host| host.effective = 2);
    assert_eq!(proxy_on_response_body(2, 1_000, false), CONTINUE);
    assert_eq!(host(|host| host.continued.len()), 0);
    called_back();
    assert_eq!(host(|host| host.queues[0]), 0);
    assert_eq!(host(|host| host.continued.clone()), [(3, HALF_RESPONSE)]);
    // Trailers wait with what is before them.
    host(|host| host.effective = 2);
    assert_eq!(proxy_on_response_body(2, 1_000, false), STOP_AND_WATERMARK);
    assert_eq!(proxy_on_response_trailers(2, 1), PAUSE);
}

/// Guards against a queue that two workers share: one was called for streams that the other had to
/// release.
#[test]
fn workers_that_begin_at_the_same_time_have_queues_of_their_own() {
    let text = "uplink: {rate: 10mbit}";
    assert!(configure(text));
    for root in 2..10 {
        host(|host| host.effective = root);
        create(root, 0);
        assert!(proxy_on_configure(root, text.len()));
    }
    assert_eq!(host(|host| host.queues.len()), 9);
}
