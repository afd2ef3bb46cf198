//! Tests of bad input from clients and of clients that behave badly. Each gets the right status or
//! a closed connection, a log line and a count, leaks nothing, and delays no other client.

use std::io::Read;
use std::time::Duration;

use crate::common::*;

fn client_sends(bytes: &str, status: u16, reason: &str) {
    let origin = Origin::http(|_| ok("fine"));
    let proxy = Proxy::of(&[&origin]);
    let mut client = proxy.connect();
    let answer = client.ask(bytes);
    assert_eq!(answer.status(), status, "{answer:?}");
    assert!(client.is_closed());
    proxy.assert_told("sprat_bad_requests_total", reason, Some(status));
    assert_eq!(origin.connections(), 0, "a bad request went upstream");
    assert_eq!(proxy.connect().ask(get("/")).status(), 200);
}

#[test]
fn garbage_is_400() {
    client_sends("\x16\x03\x01 hello\r\n\r\n", 400, "malformed_head");
}

/// Checks that the access log shows as much of a request line as was read, whatever its bytes.
#[test]
fn the_request_line_of_a_400_is_logged() {
    let origin = Origin::http(|_| ok("fine"));
    for (request, line) in [
        (
            "G\"T /a\\b HTTP/1.1\r\nHost: a\r\n\r\n",
            r"G\x22T /a\x5Cb HTTP/1.1",
        ),
        ("GET / HTTP/1.1\r\nHost\x01: a\r\n\r\n", "GET / HTTP/1.1"),
        ("\r\nGET /\x01 HTTP/1.7\r\n\r\n", r"GET /\x01 HTTP/1.7"),
        (
            "POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\nsecret\r\n",
            "POST /p HTTP/1.1",
        ),
    ] {
        let proxy = Proxy::of(&[&origin]);
        // Also behind a request that was answered.
        for before in [0, 1] {
            let mut client = proxy.connect();
            for _ in 0..before {
                assert_eq!(client.ask(get("/before")).status(), 200);
            }
            assert_eq!(client.ask(request).status(), 400);
            assert!(client.is_closed());
        }
        let lines = proxy.log_lines(3);
        for bad in [&lines[0], &lines[2]] {
            assert_eq!(bad["reason"], "malformed_head", "{bad}");
            assert_eq!(bad["request_line"], line);
        }
    }
    // Of a head that ends in the middle, too; and no more than a part of a long one.
    let proxy = Proxy::of(&[&origin]);
    let mut client = proxy.connect();
    client.send(format!("GET /{}", "a".repeat(1000)));
    client.half_close();
    assert!(client.is_closed());
    let line = proxy.log_lines(1).remove(0);
    assert_eq!(line["request_line"].as_str().unwrap().len(), 256, "{line}");
}

#[test]
fn conflicting_content_lengths_are_400() {
    client_sends(
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        400,
        "malformed_head",
    );
}

#[test]
fn a_negative_or_absurd_content_length_is_400() {
    for length in ["-1", "1 2", "0x10", "99999999999999999999999"] {
        let request = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
        client_sends(&request, 400, "malformed_head");
    }
}

#[test]
fn transfer_encoding_with_content_length_is_400() {
    for fields in [
        "Content-Length: 3\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 3",
    ] {
        let request = format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n0\r\n\r\n");
        client_sends(&request, 400, "conflicting_framing");
    }
}

#[test]
fn unknown_transfer_codings_are_refused() {
    client_sends(
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        501,
        "unknown_transfer_coding",
    );
    client_sends(
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n",
        400,
        "malformed_head",
    );
}

#[test]
fn a_missing_or_repeated_or_invalid_host_is_400() {
    for hosts in [
        "",
        "Host: a\r\nHost: a\r\n",
        "Host: a b\r\n",
        "Host: a/b\r\n",
        "Host:\r\n",
    ] {
        let request = format!("GET / HTTP/1.1\r\n{hosts}\r\n");
        client_sends(&request, 400, "invalid_host");
    }
    // Also where it is the target's authority that counts.
    let request = "GET http://a.example/ HTTP/1.1\r\nHost: a b\r\n\r\n";
    client_sends(request, 400, "invalid_host");
}

/// Checks that a path and query of 65,535 bytes or more is refused: the http crate cannot hold it.
#[test]
fn a_target_that_is_too_long_is_414() {
    let origin = Origin::http(|_| ok("fine"));
    let mut config = config(&[origin.address]);
    config.listeners[0].max_request_headers = 1 << 20;
    let proxy = Proxy::logging(config);
    let target = "x".repeat(70 << 10);
    let request = format!("GET /{target} HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut client = proxy.connect();
    assert_eq!(client.ask(&request).status(), 414);
    assert!(client.is_closed());
    proxy.assert_told("sprat_bad_requests_total", "target_too_long", Some(414));
    assert_eq!(origin.connections(), 0, "a bad request went upstream");
}

#[test]
fn an_oversized_head_is_431_however_it_arrives() {
    let large = "x".repeat(70 << 10);
    let whole = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {large}\r\n\r\n");
    client_sends(&whole, 431, "head_too_large");
    let endless = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {large}");
    client_sends(&endless, 431, "head_too_large");
    let fields: String = (0..101).map(|n| format!("X-{n}: 1\r\n")).collect();
    let many = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
    client_sends(&many, 431, "head_too_large");
}

#[test]
fn a_truncated_head_is_closed_and_told() {
    let origin = Origin::http(|_| ok("fine"));
    let proxy = Proxy::of(&[&origin]);
    let mut client = proxy.connect();
    client.send("GET / HTTP/1.1\r\nHost: a");
    client.half_close();
    assert!(client.is_closed());
    proxy.assert_told("sprat_bad_requests_total", "truncated_head", None);
}

#[test]
fn a_head_that_never_ends_is_408() {
    let origin = Origin::http(|_| ok("fine"));
    let mut config = config(&[origin.address]);
    config.listeners[0].request_headers_timeout = Duration::from_millis(200);
    let proxy = Proxy::logging(config);
    let mut client = proxy.connect();
    let answer = client.ask("GET / HTTP/1.1\r\nHost: a");
    assert_eq!(answer.status(), 408);
    assert!(client.is_closed());
    proxy.assert_told("sprat_bad_requests_total", "head_timeout", Some(408));
    // Without a byte there is nothing to answer.
    let mut silent = proxy.connect();
    let mut rest = Vec::new();
    silent.reader.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty());
    proxy.assert_no_leak();
}

#[test]
fn a_head_that_has_begun_behind_a_request_and_never_ends_is_408() {
    let origin = Origin::http(|_| ok("fine"));
    let mut config = config(&[origin.address]);
    config.listeners[0].request_headers_timeout = Duration::from_millis(200);
    let proxy = Proxy::logging(config);
    let mut client = proxy.connect();
    let answer = client.ask(get("/") + "GET / HTTP/1.1\r\nHost: a");
    assert_eq!(answer.status(), 200);
    assert_eq!(client.message().status(), 408);
    assert!(client.is_closed());
    let lines = proxy.log_lines(2);
    assert_eq!(lines[1]["reason"], "head_timeout");
    proxy.assert_no_leak();
}

#[test]
fn an_idle_connection_is_closed() {
    let origin = Origin::http(|_| ok("fine"));
    let mut config = config(&[origin.address]);
    config.listeners[0].idle_timeout = Duration::from_millis(200);
    let proxy = Proxy::logging(config);
    let mut client = proxy.connect();
    assert_eq!(client.ask(get("/")).status(), 200);
    assert!(client.is_closed());
    proxy.assert_no_leak();
    assert_eq!(proxy.log_lines(1)[0]["reason"], serde_json::Value::Null);
}

#[test]
fn a_body_shorter_than_announced_ends_the_upstream_request() {
    let (sender, gone) = std::sync::mpsc::channel();
    let origin = Origin::start(move |mut peer| {
        let whole = peer.try_message(true);
        sender.send(whole.is_none()).unwrap();
    });
    let proxy = Proxy::of(&[&origin]);
    let mut client = proxy.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc");
    client.half_close();
    assert!(
        gone.recv_timeout(PATIENCE).unwrap(),
        "the origin saw a whole request"
    );
    assert!(client.is_closed());
    proxy.assert_no_leak();
    let line = proxy.log_lines(1).remove(0);
    let reason = line["reason"].as_str().unwrap();
    assert!(
        ["truncated_body", "client_closed"].contains(&reason),
        "{line}"
    );
}

#[test]
fn a_body_longer_than_announced_is_a_bad_next_request() {
    let origin = Origin::http(|request| ok(&request.text()));
    let proxy = Proxy::of(&[&origin]);
    let mut client = proxy.connect();
    let answer =
        client.ask("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc\x01def\r\n\r\n");
    assert_eq!((answer.status(), answer.text()), (200, "abc".to_owned()));
    assert_eq!(client.message().status(), 400);
    assert!(client.is_closed());
    proxy.wait_metric(&["sprat_bad_requests_total", "malformed_head"], 1.0);
    proxy.log_lines(2);
    proxy.assert_no_leak();
}

#[test]
fn a_malformed_chunk_ends_the_upstream_request() {
    let (sender, gone) = std::sync::mpsc::channel();
    let origin = Origin::start(move |mut peer| {
        sender.send(peer.try_message(true).is_none()).unwrap();
    });
    let proxy = Proxy::of(&[&origin]);
    let mut client = proxy.connect();
    client
        .send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n");
    assert!(
        gone.recv_timeout(PATIENCE).unwrap(),
        "the origin saw a whole request"
    );
    assert!(client.is_closed());
    proxy.log_lines(1);
    proxy.assert_no_leak();
}

#[test]
fn a_bare_line_feed_in_trailers_that_come_later_ends_the_request() {
    let (tell, told) = std::sync::mpsc::channel();
    let origin = Origin::start(move |mut peer| {
        peer.head();
        tell.send(Vec::new()).unwrap();
        let mut rest = Vec::new();
        // A reset will do.
        let _ = peer.reader.read_to_end(&mut rest);
        tell.send(rest).unwrap();
    });
    let proxy = Proxy::of(&[&origin]);
    for end in ["0\r\nX: y\n\r\n", "0\r\n\n"] {
        let mut client = proxy.connect();
        let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        client.send(format!("{head}3\r\nabc\r\n"));
        told.recv_timeout(PATIENCE).unwrap();
        client.send(format!("{end}{}", get("/smuggled")));
        assert_eq!(client.message().status(), 400);
        assert!(client.is_closed());
        let rest = String::from_utf8(told.recv_timeout(PATIENCE).unwrap()).unwrap();
        assert_eq!(rest, "3\r\nabc\r\n");
    }
    proxy.log_lines(2);
    proxy.assert_no_leak();
}

#[test]
fn a_body_over_the_bound_is_413() {
    let origin = Origin::http(|request| ok(&request.text()));
    let mut config = config(&[origin.address]);
    config.listeners[0].max_request_body = Some(1000);
    let proxy = Proxy::logging(config);
    let body = "x".repeat(100_000);
    let mut announced = proxy.connect();
    let answer = announced.ask(format!(
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n{body}"
    ));
    assert_eq!(answer.status(), 413);
    assert_eq!(origin.connections(), 0);
    assert!(announced.is_closed());
    let mut chunked = proxy.connect();
    let answer = chunked.ask(format!(
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n186a0\r\n{body}\r\n0\r\n\r\n"
    ));
    assert_eq!(answer.status(), 413);
    assert!(chunked.is_closed());
    let exact = "x".repeat(1000);
    let answer = proxy.connect().ask(format!(
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n{exact}"
    ));
    assert_eq!((answer.status(), answer.body.len()), (200, 1000));
    proxy.wait_metric(&["sprat_bad_requests_total", "body_too_large"], 2.0);
    proxy.log_lines(3);
    proxy.assert_no_leak();
}

#[test]
fn a_client_that_stops_sending_its_body_is_408() {
    let origin = Origin::http(|request| ok(&request.text()));
    let mut config = config(&[origin.address]);
    config.listeners[0].stream_idle_timeout = Duration::from_millis(200);
    let proxy = Proxy::logging(config);
    let mut client = proxy.connect();
    let answer = client.ask("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc");
    assert_eq!(answer.status(), 408);
    assert!(client.is_closed());
    proxy.assert_told("sprat_bad_requests_total", "body_timeout", Some(408));
}

/// Starts an origin whose `/large` has no end within reach. The receiver hears when the proxy hangs
/// up.
fn endless() -> (Origin, std::sync::mpsc::Receiver<()>) {
    let (sender, gone) = std::sync::mpsc::channel();
    let origin = Origin::start(move |mut peer| {
        while let Some(request) = peer.try_message(true) {
            if !request.start.contains("/large") {
                peer.send(ok("fine"));
                continue;
            }
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n");
            let block = [0; 65536];
            while peer.send(block) {}
            let _ = sender.send(());
        }
    });
    (origin, gone)
}

#[test]
fn a_client_that_vanishes_cancels_the_upstream_at_once() {
    let (origin, gone) = endless();
    let proxy = Proxy::of(&[&origin]);
    let mut client = proxy.connect();
    client.send(get("/large"));
    assert_eq!(client.head().unwrap().status(), 200);
    drop(client);
    gone.recv_timeout(PATIENCE).unwrap();
    let line = proxy.log_lines(1).remove(0);
    assert_eq!(
        (&line["reason"], &line["aborted"]),
        (&"client_closed".into(), &true.into())
    );
    proxy.wait_metric(&["sprat_aborted_responses_total"], 1.0);
    proxy.assert_no_leak();
}

#[test]
fn a_client_that_vanishes_before_the_answer_cancels_the_upstream_at_once() {
    let (sender, gone) = std::sync::mpsc::channel();
    let origin = Origin::start(move |mut peer| {
        peer.message();
        sender.send(peer.try_message(true).is_none()).unwrap();
        sender.send(true).unwrap();
    });
    let proxy = Proxy::of(&[&origin]);
    let mut client = proxy.connect();
    client.send(get("/"));
    wait_for("the request to arrive", || {
        proxy.metric(&["sprat_upstream_outstanding"]) == 1.0
    });
    reset(client);
    assert!(gone.recv_timeout(PATIENCE).unwrap());
    let line = proxy.log_lines(1).remove(0);
    assert_eq!(line["reason"], "client_closed");
    proxy.assert_no_leak();
}

#[test]
fn a_client_that_does_not_read_is_cut_and_delays_nobody() {
    let (origin, gone) = endless();
    let mut config = config(&[origin.address]);
    config.listeners[0].stream_idle_timeout = Duration::from_millis(500);
    let proxy = Proxy::logging(config);
    let mut stalled = proxy.connect();
    stalled.send(get("/large"));
    let mut served = 0;
    let mut other = proxy.connect();
    while gone.try_recv().is_err() {
        assert_eq!(other.ask(get("/")).text(), "fine");
        served += 1;
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(served > 0);
    proxy.wait_metric(&["sprat_bad_requests_total", "client_stalled"], 1.0);
    drop((stalled, other));
    proxy.assert_no_leak();
}

#[test]
fn a_client_that_reads_byte_by_byte_is_cut_and_delays_nobody() {
    let (origin, gone) = endless();
    let mut config = config(&[origin.address]);
    config.listeners[0].stream_idle_timeout = Duration::from_millis(500);
    let proxy = Proxy::logging(config);
    let mut slow = proxy.connect();
    slow.send(get("/large"));
    let mut other = proxy.connect();
    let mut byte = [0];
    while gone.try_recv().is_err() {
        // The kernel's buffers hide single bytes from the proxy's socket.
        let _ = slow.stream().read(&mut byte);
        assert_eq!(other.ask(get("/")).text(), "fine");
        std::thread::sleep(Duration::from_millis(5));
    }
    proxy.wait_metric(&["sprat_bad_requests_total", "client_stalled"], 1.0);
    drop((slow, other));
    proxy.assert_no_leak();
}

/// Checks that the body of a refused request is read if it is there. If more of it is to come, the
/// answer says that the connection ends.
#[test]
fn an_unwanted_body_costs_the_connection_only_if_it_is_still_to_come() {
    let proxy = Proxy::start(&config(&[free_address()]));
    let post =
        |fields: &str, body: &str| format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n{body}");
    let chunks = "5\r\nhello\r\n".repeat(20);
    let large = "a".repeat(1 << 20);
    for (request, goes_on) in [
        (post("Content-Length: 5", "hello"), true),
        (
            post("Transfer-Encoding: chunked", &format!("{chunks}0\r\n\r\n")),
            true,
        ),
        (post("Content-Length: 5", "hell"), false),
        (post("Transfer-Encoding: chunked", &chunks), false),
        (post("Content-Length: 1048576", &large), false),
        // It is not asked for what is not wanted.
        (post("Content-Length: 5\r\nExpect: 100-continue", ""), false),
    ] {
        let mut client = proxy.connect();
        let answer = client.ask(&request);
        assert_eq!(answer.status(), 502, "{answer:?}");
        let says = answer.field("connection");
        assert_eq!(says, (!goes_on).then_some("close"), "{request:.60}");
        if goes_on {
            assert_eq!(client.ask(&request).status(), 502);
        } else {
            assert!(client.is_closed(), "{request:.60}");
        }
    }
    proxy.assert_no_leak();
}

/// Checks an answer that comes before the end of the request's body, from a backend that does not
/// want the rest: the connection ends, and the answer says so.
#[test]
fn an_answer_before_the_end_of_the_request_says_that_the_connection_ends() {
    let origin = Origin::start(|mut peer| {
        while let Some(head) = peer.head() {
            peer.send(ok("fine"));
            if head.start.starts_with("POST") {
                // It stays, and wants nothing of the body.
                peer.is_closed();
            }
        }
    });
    let proxy = Proxy::of(&[&origin]);
    for fields in [
        "Content-Length: 5",
        "Transfer-Encoding: chunked",
        "Content-Length: 5\r\nExpect: 100-continue",
    ] {
        let mut client = proxy.connect();
        let answer = client.ask(format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n"));
        assert_eq!(answer.text(), "fine");
        assert_eq!(answer.field("connection"), Some("close"), "{fields}");
        assert!(client.is_closed());
    }
    // Of one that has come it does not.
    let mut client = proxy.connect();
    assert_eq!(client.ask(get("/")).field("connection"), None);
    assert_eq!(client.ask(get("/")).text(), "fine");
}

/// Checks that a client that writes everything before it reads gets its answer, however large its
/// body is.
#[test]
fn a_refusal_reaches_a_client_that_goes_on_sending() {
    const BYTES: usize = 64 << 20;
    let origin = Origin::start(|mut peer| {
        while peer.head().is_some() {
            peer.send("HTTP/1.1 413 Too much\r\nContent-Length: 0\r\n\r\n");
        }
    });
    for bound in [Some(1000), None] {
        let mut config = config(&[origin.address]);
        config.listeners[0].max_request_body = bound;
        let proxy = Proxy::logging(config);
        let mut client = proxy.connect();
        client.send(format!(
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {BYTES}\r\n\r\n"
        ));
        let part = [b'x'; 64 << 10];
        let sent = (0..BYTES / part.len()).take_while(|_| client.send(part));
        assert_eq!(sent.count(), BYTES / part.len());
        assert_eq!(client.message().status(), 413);
        assert!(client.is_closed());
        proxy.log_lines(1);
        proxy.assert_no_leak();
    }
}

/// Checks that a client's broken body is counted as the client's fault, even if the backend has
/// begun to answer and waits for the rest.
#[test]
fn a_client_that_fails_its_body_after_the_response_has_begun_is_told_of() {
    let origin = Origin::start(|mut peer| {
        while peer.head().is_some() {
            peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
            peer.is_closed();
        }
    });
    let mut config = config(&[origin.address]);
    config.routes[0].idle_timeout = Duration::from_millis(300);
    config.listeners[0].max_request_body = Some(1000);
    let rest = "x".repeat(2000);
    for (more, reason) in [("", "body_timeout"), (&*rest, "body_too_large")] {
        let proxy = Proxy::logging(config.clone());
        let mut client = proxy.connect();
        client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        assert_eq!(client.head().unwrap().status(), 200);
        if !more.is_empty() {
            client.send(format!("{:x}\r\n{more}\r\n", more.len()));
        }
        assert!(client.is_closed());
        proxy.assert_told("sprat_bad_requests_total", reason, Some(200));
        assert_eq!(proxy.metric(&["sprat_upstream_errors_total"]), 0.0);
    }
}
