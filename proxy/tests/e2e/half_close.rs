//! Tests of clients that close their sending side and wait for answers, and of clients that have
//! gone. They run over real sockets, many times over, because the outcome depends on which event
//! comes first.

use std::io::Write as _;
use std::net::Shutdown;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use crate::common::tls::*;
use crate::common::*;
use sprat_config::resolved::*;

const ROUNDS: usize = 100;

/// Starts an origin that answers with the request's body, or `fine`; under `/slow` after a while.
fn origin() -> Origin {
    Origin::http(|request| {
        if request.start.contains("/slow") {
            std::thread::sleep(Duration::from_millis(5));
        }
        ok(match request.body.is_empty() {
            true => "fine",
            false => std::str::from_utf8(&request.body).unwrap(),
        })
    })
}

/// Sends a request and closes the sending side, many times. Checks the answers, and that the
/// connection is closed after them.
#[track_caller]
fn assert_answers(proxy: &Proxy, request: &str, answers: &[(u16, &str)]) {
    for _ in 0..ROUNDS {
        let mut client = proxy.connect();
        client.send(request);
        client.half_close();
        for &(status, body) in answers {
            let answer = client.try_message(true);
            let answer = answer.unwrap_or_else(|| panic!("no answer to {request:?}"));
            assert_eq!(answer.status(), status, "{request:?}: {answer:?}");
            if !body.is_empty() {
                assert_eq!(answer.text(), body);
            }
        }
        assert!(client.is_closed());
    }
    proxy.assert_no_leak();
}

#[test]
fn whole_requests_are_answered() {
    let origin = origin();
    let proxy = Proxy::start(&config(&[origin.address]));
    let post = "POST / HTTP/1.1\r\nHost: a\r\n";
    for path in ["/", "/slow"] {
        assert_answers(&proxy, &get(path), &[(200, "fine")]);
    }
    let with_length = format!("{post}Content-Length: 5\r\n\r\nhello");
    assert_answers(&proxy, &with_length, &[(200, "hello")]);
    let in_chunks = format!("{post}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
    assert_answers(&proxy, &in_chunks, &[(200, "hello")]);
    let pipelined = [get("/slow"), with_length, get("/")].concat();
    let answers = [(200, "fine"), (200, "hello"), (200, "fine")];
    assert_answers(&proxy, &pipelined, &answers);
}

#[test]
fn refusals_are_answers() {
    let origin = origin();
    let proxy = Proxy::start(&config(&[origin.address]));
    for request in [
        "GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ] {
        assert_answers(&proxy, request, &[(400, "")]);
    }
    let behind = get("/") + "GET / HTTP/1.1\nHost: a\r\n\r\n";
    assert_answers(&proxy, &behind, &[(200, "fine"), (400, "")]);
}

#[test]
fn a_response_in_progress_goes_on() {
    const BYTES: usize = 300_000;
    let origin = Origin::http(|_| ok(&"x".repeat(BYTES)));
    let mut config = config(&[origin.address]);
    config.uplink.rate = Rate::Fixed(20_000_000);
    let proxy = Proxy::logging(config);
    let mut client = proxy.connect();
    client.send(get("/"));
    // It has begun.
    client.stream().peek(&mut [0]).unwrap();
    client.half_close();
    assert_eq!(client.message().body.len(), BYTES);
    assert!(client.is_closed());
    let line = proxy.log_lines(1).remove(0);
    assert_eq!(line["aborted"], false, "{line}");
    proxy.assert_no_leak();
}

#[test]
fn a_session_that_is_closed_is_answered() {
    let origin = origin();
    let authority = Authority::new();
    let mut config = config(&[origin.address]);
    config.listeners[0].tls = Some(listener_tls(&[&authority.issue("site", &["a.example"])]));
    let proxy = Proxy::start(&config);
    for round in 0..ROUNDS {
        let mut client = TlsClient::new(&authority).connect(proxy.address, "a.example");
        client.send(get("/slow"));
        let tls = client.reader.get_mut();
        tls.conn.send_close_notify();
        tls.conn.complete_io(&mut tls.sock).unwrap();
        if round % 2 == 0 {
            tls.sock.shutdown(Shutdown::Write).unwrap();
        }
        tls.sock.flush().unwrap();
        assert_eq!(client.message().text(), "fine");
        assert!(client.ends_cleanly());
    }
    proxy.assert_no_leak();
}

/// Starts an origin that never answers. It tells when it has a request, and when the proxy hangs
/// up.
fn silent() -> (Origin, Receiver<&'static str>) {
    let (sender, told) = std::sync::mpsc::channel();
    let origin = Origin::start(move |mut peer| {
        peer.message();
        sender.send("asked").unwrap();
        assert!(peer.is_closed());
        // The test may be over.
        let _ = sender.send("left");
    });
    (origin, told)
}

fn next(told: &Receiver<&'static str>) -> &'static str {
    told.recv_timeout(PATIENCE).unwrap()
}

#[test]
fn a_reset_after_the_end_of_sending_cancels_the_request() {
    let (origin, told) = silent();
    let proxy = Proxy::of(&[&origin]);
    let client = proxy.connect();
    (&mut client.stream())
        .write_all(get("/").as_bytes())
        .unwrap();
    client.half_close();
    assert_eq!(next(&told), "asked");
    reset(client);
    assert_eq!(next(&told), "left");
    let line = proxy.log_lines(1).remove(0);
    assert_eq!(line["reason"], "client_closed");
    proxy.assert_no_leak();
}

#[test]
fn who_takes_the_end_of_sending_for_the_end_cancels_at_once() {
    let (origin, told) = silent();
    let mut config = config(&[origin.address]);
    config.listeners[0].abort_on_close = true;
    let proxy = Proxy::logging(config);
    let mut client = proxy.connect();
    client.send(get("/"));
    assert_eq!(next(&told), "asked");
    client.half_close();
    assert_eq!(next(&told), "left");
    assert!(client.is_closed());
    let line = proxy.log_lines(1).remove(0);
    assert_eq!(line["reason"], "client_closed");
    proxy.assert_no_leak();
}
