//! Tests of upstreams that behave badly. The client gets the right status, or can tell that the
//! response is cut short. Each case has a log line and a count, and spoils no other response.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use crate::common::*;
use sprat_config::resolved::Rate;

fn upstream_does(
    serve: impl Fn(Peer) + Send + Sync + 'static,
    status: u16,
    reason: &str,
    error: &str,
) {
    let origin = Origin::start(serve);
    let mut config = config(&[origin.address]);
    config.routes[0].response_timeout = Duration::from_millis(400);
    let proxy = Proxy::logging(config);
    let mut client = proxy.connect();
    let answer = client.ask(get("/"));
    assert_eq!(answer.status(), status, "{answer:?}");
    let said = answer.field("proxy-status").unwrap();
    assert!(
        said.starts_with(&format!("sprat; error={error}; details=")),
        "{said}"
    );
    assert_eq!(
        answer.field("content-type"),
        Some("application/problem+json")
    );
    let problem: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(problem["status"], status);
    proxy.wait_metric(&["sprat_upstream_errors_total", reason], 1.0);
    // The client did nothing wrong: its connection goes on.
    assert_eq!(client.ask(get("/")).status(), status);
    drop(client);
    proxy.log_lines(2);
    proxy.wait_metric(&["sprat_failed_requests_total", reason], 2.0);
    proxy.assert_no_leak();
}

#[test]
fn an_upstream_that_closes_before_it_answers_is_502() {
    upstream_does(
        |mut peer| drop(peer.try_message(true)),
        502,
        "connection_terminated",
        "connection_terminated",
    );
}

#[test]
fn an_upstream_that_sends_garbage_is_502() {
    upstream_does(
        |mut peer| {
            peer.try_message(true);
            peer.send("SSH-2.0-OpenSSH_9.2\r\n\r\n");
        },
        502,
        "protocol_error",
        "http_protocol_error",
    );
}

#[test]
fn an_upstream_with_conflicting_lengths_is_502() {
    for lengths in [
        "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        "Content-Length: 3, 4\r\n\r\nabcd",
        "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: x\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    ] {
        upstream_does(
            move |mut peer| {
                peer.try_message(true);
                peer.send(format!("HTTP/1.1 200 OK\r\n{lengths}"));
            },
            502,
            "protocol_error",
            "http_protocol_error",
        );
    }
}

#[test]
fn a_length_that_an_upstream_says_twice_is_said_once() {
    for lengths in ["3, 3", "3\r\nContent-Length: 3"] {
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {lengths}\r\n\r\nabc");
        let origin = Origin::http(move |_| answer.clone());
        let proxy = Proxy::of(&[&origin]);
        let mut client = proxy.connect();
        for method in ["GET", "HEAD"] {
            client.send(format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n"));
            let answer = client.try_message(method == "GET").unwrap();
            assert_eq!(answer.field("content-length"), Some("3"));
        }
    }
}

#[test]
fn an_upstream_that_switches_protocols_unasked_is_502() {
    upstream_does(
        |mut peer| {
            peer.try_message(true);
            peer.send(
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
            );
        },
        502,
        "protocol_error",
        "http_protocol_error",
    );
}

#[test]
fn an_upstream_with_an_oversized_head_is_502() {
    upstream_does(
        |mut peer| {
            peer.try_message(true);
            let large = "x".repeat(70 << 10);
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nX: {large}\r\nContent-Length: 0\r\n\r\n"
            ));
        },
        502,
        "response_head_too_large",
        "http_response_header_section_size",
    );
}

#[test]
fn an_upstream_that_stalls_is_504() {
    upstream_does(
        |mut peer| {
            peer.try_message(true);
            // Until the proxy gives up.
            peer.try_message(true);
        },
        504,
        "response_timeout",
        "http_response_timeout",
    );
}

#[test]
fn an_upstream_that_refuses_is_502() {
    let proxy = Proxy::logging(config(&[free_address()]));
    let answer = proxy.connect().ask(get("/"));
    assert_eq!(answer.status(), 502);
    assert!(
        answer
            .field("proxy-status")
            .unwrap()
            .contains("error=connection_refused")
    );
    proxy.assert_told(
        "sprat_upstream_errors_total",
        "connection_refused",
        Some(502),
    );
}

/// Checks that the bytes sent before the upstream fails reach the client, and that the client can
/// tell that more should follow. Does so with and without reading ahead.
fn upstream_breaks_off(head: &'static str, then: fn(Peer), reason: &str) {
    for is_read_ahead in [false, true] {
        breaks_off(head, then, reason, is_read_ahead);
    }
}

fn breaks_off(head: &'static str, then: fn(Peer), reason: &str, is_read_ahead: bool) {
    let origin = Origin::start(move |mut peer| {
        peer.try_message(true);
        peer.send(head);
        then(peer);
    });
    let mut config = config(&[origin.address]);
    config.routes[0].idle_timeout = Duration::from_millis(300);
    if is_read_ahead {
        with_cluster(&mut config, |cluster| cluster.max_requests = 100);
        // Heads wait for the uplink, and what is behind them comes meanwhile.
        config.uplink.rate = Rate::Fixed(200_000);
    }
    let proxy = Proxy::logging(config);
    let mut client = proxy.connect();
    client.send(get("/"));
    assert!(
        client.try_message(true).is_none(),
        "the response looks whole"
    );
    proxy.wait_metric(&["sprat_failed_requests_total", reason], 1.0);
    proxy.wait_metric(&["sprat_aborted_responses_total"], 1.0);
    let line = proxy.log_lines(1).remove(0);
    assert_eq!(
        (&line["aborted"], &line["status"]),
        (&true.into(), &200.into())
    );
    assert_eq!(line["reason"], reason);
    assert_eq!(line["bytes"], 3);
    proxy.assert_no_leak();
}

const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n";
const COUNTED: &str = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc";

#[test]
fn an_upstream_that_closes_mid_body_truncates_the_response() {
    upstream_breaks_off(COUNTED, drop, "response_incomplete");
    upstream_breaks_off(CHUNKED, drop, "response_incomplete");
}

#[test]
fn an_upstream_that_stalls_mid_body_is_cut() {
    let stall: fn(Peer) = |mut peer| drop(peer.try_message(true));
    upstream_breaks_off(COUNTED, stall, "upstream_idle_timeout");
    upstream_breaks_off(CHUNKED, stall, "upstream_idle_timeout");
}

#[test]
fn an_upstream_that_sends_a_malformed_chunk_truncates_the_response() {
    upstream_breaks_off(
        CHUNKED,
        |mut peer| {
            peer.send("nonsense\r\n");
            peer.try_message(true);
        },
        "response_incomplete",
    );
}

#[test]
fn an_upstream_that_sends_too_much_spoils_no_other_response() {
    let origin = Origin::http(|_| ok("fine") + "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil");
    let proxy = Proxy::of(&[&origin]);
    let mut client = proxy.connect();
    for _ in 0..5 {
        assert_eq!(client.ask(get("/")).text(), "fine");
        wait_for("the spoilt connection to be closed", || {
            proxy.metric(&["sprat_upstream_connections"]) == 0.0
        });
    }
    drop(client);
    proxy.log_lines(5);
    wait_for("no connection upstream", || {
        proxy.metric(&["sprat_upstream_connections"]) == 0.0
    });
}

#[test]
fn the_whole_exchange_is_bounded() {
    // A chunk now and then keeps every idle time-out quiet.
    let origin = Origin::start(|mut peer| {
        let request = peer.message();
        if request.start.contains("/head") {
            std::thread::sleep(Duration::from_millis(1500));
        }
        peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        while peer.send("1\r\nx\r\n") {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let mut config = config(&[origin.address]);
    config.routes[0].timeout = Some(Duration::from_millis(500));
    let proxy = Proxy::logging(config);
    let mut client = proxy.connect();
    assert_eq!(client.ask(get("/head")).status(), 504);
    client.send(get("/body"));
    assert!(client.try_message(true).is_none());
    proxy.wait_metric(&["sprat_failed_requests_total", "route_timeout"], 2.0);
    proxy.log_lines(2);
    proxy.assert_no_leak();
}

#[test]
fn an_upstream_is_not_blamed_while_the_client_is_waited_for() {
    const BYTES: usize = 32 << 20;
    let sent = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sent);
    let origin = Origin::start(move |mut peer| {
        peer.message();
        peer.send(format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {BYTES}\r\n\r\n"
        ));
        let part = [b'x'; 64 << 10];
        // With pauses, so that the proxy has to wait for each part.
        while count.load(SeqCst) < BYTES && peer.send(part) {
            count.fetch_add(part.len(), SeqCst);
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    let mut config = config(&[origin.address]);
    config.routes[0].idle_timeout = Duration::from_millis(300);
    let proxy = Proxy::logging(config);
    let mut client = proxy.connect();
    client.send(get("/"));
    // Until every buffer on the way is full, and for longer than the upstream
    // may be silent.
    let mut before = 0;
    wait_for("the upstream to be held back", || {
        std::thread::sleep(Duration::from_millis(700));
        std::mem::replace(&mut before, sent.load(SeqCst)) == sent.load(SeqCst) && before > 0
    });
    assert!(before < BYTES, "the buffers took all of it");
    assert_eq!(client.message().body.len(), BYTES);
    drop(client);
    proxy.assert_no_leak();
}
