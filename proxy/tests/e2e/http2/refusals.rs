//! Tests of requests that backends over HTTP/2 refuse, reset or leave undone.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http_body_util::BodyExt as _;
use sprat_config::resolved::*;
use tokio::sync::mpsc::unbounded_channel;

use super::client::*;
use super::origin::*;
use crate::common::*;

#[test]
fn what_was_not_looked_at_is_sent_again() {
    let refusing = raw_origin(|_, mut raw| {
        let mut requests = 0;
        while let Some(request) = raw.find(is_request) {
            requests += 1;
            match requests {
                1 => raw.frame(RST_STREAM, 0, request.stream, &REFUSED_STREAM.to_be_bytes()),
                _ => raw.frame(HEADERS, END_HEADERS | END_STREAM, request.stream, OK),
            };
        }
    });
    // The first request is answered, and the second comes too late.
    let leaving = |error: u32| {
        raw_origin(move |connection, mut raw| {
            let first = raw.find(is_request).unwrap();
            raw.frame(HEADERS, END_HEADERS | END_STREAM, first.stream, OK);
            while let Some(request) = raw.find(is_request) {
                if connection > 0 {
                    raw.frame(HEADERS, END_HEADERS | END_STREAM, request.stream, OK);
                    continue;
                }
                raw.go_away(first.stream, error);
                return;
            }
        })
    };
    for origin in [refusing, leaving(0), leaving(ENHANCE_YOUR_CALM)] {
        let proxy = Proxy::logging(over_http2(origin.address, 10));
        let mut client = proxy.connect();
        for _ in 0..2 {
            client.send(get("/"));
            assert_eq!(client.head().unwrap().status(), 200);
        }
        let lines = proxy.log_lines(2);
        assert!(lines.iter().all(|line| line["status"] == 200), "{lines:?}");
        assert_eq!(proxy.metric(&["sprat_upstream_retries_total"]), 1.0);
        proxy.stop();
    }
}

/// Starts an origin that refuses every request. Also returns their number.
fn refusing() -> (Origin, Arc<AtomicUsize>) {
    let requests = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&requests);
    let origin = raw_origin(move |_, mut raw| {
        while let Some(request) = raw.find(is_request) {
            count.fetch_add(1, Ordering::SeqCst);
            raw.frame(RST_STREAM, 0, request.stream, &REFUSED_STREAM.to_be_bytes());
        }
    });
    (origin, requests)
}

#[test]
fn what_is_refused_again_and_again_is_told() {
    let (origin, requests) = refusing();
    let proxy = Proxy::logging(over_http2(origin.address, 10));
    assert_eq!(proxy.connect().ask(get("/")).status(), 502);
    // As often as the route has it repeated.
    assert_eq!(requests.load(Ordering::SeqCst), 3);
    proxy.stop();
}

#[test]
fn what_an_endpoint_does_with_a_stream_is_told() {
    const INTERNAL_ERROR: u32 = 2;
    const HTTP_1_1_REQUIRED: u32 = 13;
    type Answer = fn(&mut Raw, u32);
    let answers: [(Answer, &str); 6] = [
        (
            |raw, stream| {
                raw.frame(RST_STREAM, 0, stream, &INTERNAL_ERROR.to_be_bytes());
            },
            "stream_reset",
        ),
        (
            |raw, stream| {
                raw.frame(RST_STREAM, 0, stream, &HTTP_1_1_REQUIRED.to_be_bytes());
            },
            "stream_reset",
        ),
        (
            |raw, stream| {
                let head = block(&[(":status", "200"), ("a", "b\r\nc: d")]);
                raw.frame(HEADERS, END_HEADERS | END_STREAM, stream, &head);
            },
            "protocol_error",
        ),
        (
            |raw, stream| {
                let head = block(&[(":status", "200"), ("connection", "close")]);
                raw.frame(HEADERS, END_HEADERS | END_STREAM, stream, &head);
            },
            "protocol_error",
        ),
        (
            |raw, stream| {
                let head = block(&[(":status", "200"), ("content-length", "5")]);
                raw.frame(HEADERS, END_HEADERS | END_STREAM, stream, &head);
            },
            "protocol_error",
        ),
        (
            // On a stream that nobody has opened.
            |raw, _| {
                raw.frame(DATA, 0, 101, b"x");
            },
            "protocol_error",
        ),
    ];
    for (answer, reason) in answers {
        let origin = raw_origin(move |_, mut raw| {
            while let Some(request) = raw.find(is_request) {
                answer(&mut raw, request.stream);
            }
        });
        let proxy = Proxy::logging(over_http2(origin.address, 10));
        let answer = proxy.connect().ask(get("/"));
        assert_eq!(answer.status(), 502);
        let told = answer.field("proxy-status").unwrap();
        assert!(told.contains("error=http_protocol_error;"), "{told}");
        proxy.assert_told("sprat_upstream_errors_total", reason, Some(502));
        proxy.stop();
    }
}

#[test]
fn a_stream_that_is_reset_is_repeated_where_the_route_says_so() {
    let requests = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&requests);
    // On one connection: that it was used before says nothing.
    let origin = raw_origin(move |_, mut raw| {
        while let Some(request) = raw.find(is_request) {
            match count.fetch_add(1, Ordering::SeqCst) {
                0 | 2 => raw.frame(HEADERS, END_HEADERS | END_STREAM, request.stream, OK),
                _ => raw.frame(RST_STREAM, 0, request.stream, &2u32.to_be_bytes()),
            };
        }
    });
    let mut config = over_http2(origin.address, 10);
    for (again, statuses, asked) in [(true, [200, 200], 3), (false, [502, 502], 5)] {
        config.routes[0].retry = RetryPolicy::default();
        if again {
            config.routes[0].retry.retry_on.push(RetryOn::Reset);
        }
        let proxy = Proxy::logging(config.clone());
        for status in statuses {
            let mut client = proxy.connect();
            client.send(get("/"));
            assert_eq!(client.head().unwrap().status(), status);
        }
        assert_eq!(requests.load(Ordering::SeqCst), asked);
        proxy.assert_no_leak();
        proxy.stop();
    }
}

#[test]
fn a_response_that_is_cut_off_without_an_error_is_not_whole() {
    type Cut = fn(&mut Raw, u32);
    let cuts: [Cut; 2] = [
        |raw, stream| {
            raw.frame(RST_STREAM, 0, stream, &[0; 4]);
        },
        |raw, _| raw.go_away(0, 0),
    ];
    for cut in cuts {
        let origin = raw_origin(move |_, mut raw| {
            let Some(request) = raw.find(is_request) else {
                return;
            };
            raw.frame(HEADERS, END_HEADERS, request.stream, OK);
            raw.frame(DATA, 0, request.stream, b"hel");
            cut(&mut raw, request.stream);
            while raw.read().is_some() {}
        });
        let proxy = Proxy::logging(over_http2(origin.address, 10));
        let mut client = proxy.connect();
        client.send(get("/"));
        assert!(client.try_message(true).is_none());
        let line = proxy.log_lines(1).remove(0);
        assert_eq!(line["reason"], "response_incomplete");
        assert_eq!(line["aborted"], true);
        proxy.assert_no_leak();
        proxy.stop();
    }
}

#[test]
fn a_response_that_came_before_the_end_of_its_request_is_whole() {
    let origin = raw_origin(|_, mut raw| {
        let data = raw.find(|frame| frame.kind == DATA).unwrap();
        raw.frame(HEADERS, END_HEADERS, data.stream, OK);
        raw.frame(DATA, END_STREAM, data.stream, b"hello");
        // RFC 9113 8.1: nothing more of the request is wanted.
        raw.frame(RST_STREAM, 0, data.stream, &[0; 4]);
        while raw.read().is_some() {}
    });
    let proxy = Proxy::logging(over_http2(origin.address, 10));
    let begun = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhe";
    let answer = proxy.connect().ask(begun);
    assert_eq!((answer.status(), answer.text().as_str()), (200, "hello"));
    proxy.assert_no_leak();
    proxy.stop();
}

fn pair_over_http2(first: SocketAddr, second: SocketAddr) -> Config {
    let mut config = over_http2(first, 10);
    with_cluster(&mut config, |cluster| {
        cluster.endpoints.push(endpoint(second));
    });
    config
}

#[test]
fn what_is_refused_goes_elsewhere_be_it_safe_or_not() {
    let (origin, requests) = refusing();
    let (tell, told) = std::sync::mpsc::channel();
    let good = Http2Origin::start(move |request| {
        tell.send(()).unwrap();
        mirror(request)
    });
    let proxy = Proxy::logging(pair_over_http2(origin.address, good.address));
    let empty = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
    for (turn, request) in [get("/a").as_str(), empty].into_iter().enumerate() {
        let mut client = proxy.connect();
        // One of two is at each.
        for _ in 0..2 {
            assert_eq!(client.ask(request).status(), 200);
            told.recv_timeout(PATIENCE).unwrap();
        }
        assert_eq!(requests.load(Ordering::SeqCst), turn + 1);
    }
    // A body of which nothing has been read goes with it.
    let mut texts = Vec::new();
    for _ in 0..2 {
        let mut client = proxy.connect();
        client.send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n");
        told.recv_timeout(PATIENCE).unwrap();
        texts.push(client.ask("hello").text());
    }
    assert!(
        texts.iter().all(|text| text.ends_with("\n\nhello")),
        "{texts:?}"
    );
    assert_eq!(requests.load(Ordering::SeqCst), 3);
    proxy.assert_no_leak();
    proxy.stop();
}

#[test]
fn what_may_have_been_looked_at_is_not_sent_again() {
    // A part of the body is gone with the one that was refused; a request that
    // is not beyond the last one may have been served.
    let refusing = raw_origin(|_, mut raw| {
        let data = raw.find(|frame| frame.kind == DATA).unwrap();
        raw.frame(RST_STREAM, 0, data.stream, &REFUSED_STREAM.to_be_bytes());
        while raw.read().is_some() {}
    });
    let leaving = raw_origin(|_, mut raw| {
        let first = raw.find(is_request).unwrap();
        raw.go_away(first.stream, ENHANCE_YOUR_CALM);
    });
    let begun = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhe";
    for (origin, request) in [(refusing, begun), (leaving, get("/a").as_str())] {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let good = Http2Origin::start(move |request| {
            count.fetch_add(1, Ordering::SeqCst);
            mirror(request)
        });
        let proxy = Proxy::logging(pair_over_http2(origin.address, good.address));
        assert_eq!(proxy.connect().ask(request).status(), 502);
        assert_eq!(asked.load(Ordering::SeqCst), 0);
        assert_eq!(proxy.metric(&["sprat_upstream_retries_total"]), 0.0);
        proxy.assert_no_leak();
        proxy.stop();
    }
}

#[test]
fn a_reset_or_a_client_that_goes_concerns_one_stream() {
    let (tell, mut told) = unbounded_channel();
    let origin = raw_origin(move |_, mut raw| {
        let first = raw.find(is_request).unwrap();
        raw.frame(HEADERS, END_HEADERS, first.stream, OK);
        raw.frame(DATA, 0, first.stream, b"hel");
        let second = raw.find(is_request).unwrap();
        raw.frame(RST_STREAM, 0, first.stream, &2u32.to_be_bytes());
        raw.frame(HEADERS, END_HEADERS, second.stream, OK);
        raw.frame(DATA, 0, second.stream, b"hel");
        let reset = raw.find(|frame| frame.kind == RST_STREAM).unwrap();
        tell.send((reset.stream == second.stream, reset.error()))
            .unwrap();
        let third = raw.find(is_request).unwrap();
        raw.frame(HEADERS, END_HEADERS | END_STREAM, third.stream, OK);
        while raw.read().is_some() {}
    });
    let proxy = Proxy::logging(over_http2(origin.address, 10));
    run(async {
        let client = connect(proxy.address).await;
        let first = client.clone().send_request(request("/1")).await.unwrap();
        let second = client.clone().send_request(request("/2")).await.unwrap();
        assert!(first.into_body().collect().await.is_err());
        let mut body = second.into_body();
        assert_eq!(
            body.frame().await.unwrap().unwrap().into_data().unwrap(),
            "hel"
        );
        drop(body);
        const CANCEL: u32 = 8;
        assert_eq!(told.recv().await.unwrap(), (true, CANCEL));
        assert_eq!(ask(&client, request("/3")).await.status, 200);
    });
    assert_eq!(origin.connections(), 1);
    proxy.assert_no_leak();
    let lines = proxy.log_lines(3);
    assert_eq!(lines[0]["reason"], "response_incomplete");
    assert_eq!(lines[1]["reason"], "client_closed");
    proxy.stop();
}
