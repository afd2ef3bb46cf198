//! Tests of the parts of a message that pass between a client and a backend over HTTP/2.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body::{Body, Frame};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use sprat_config::resolved::*;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::client::*;
use super::origin::*;
use crate::common::*;

#[test]
fn http_1_is_translated_both_ways() {
    let origin = Http2Origin::start(mirror);
    let proxy = Proxy::logging(over_http2(origin.address, 10));
    let mut client = proxy.connect();
    let answer = client.ask(
        "GET /a?b HTTP/1.1\r\nHost: test.example:81\r\nConnection: keep-alive, x-gone, upgrade\r\n\
         X-Gone: 1\r\nKeep-Alive: 1\r\nUpgrade: websocket\r\n\r\n",
    );
    let text = answer.text();
    assert!(
        text.starts_with("GET http://test.example:81/a?b HTTP/2.0\n"),
        "{text}"
    );
    assert!(text.contains("via: 1.1 sprat\n"), "{text}");
    for gone in ["\nhost:", "connection", "keep-alive", "x-gone", "upgrade"] {
        assert!(!text.contains(gone), "{text}");
    }
    assert_eq!(
        answer.field("content-length"),
        Some(&*text.len().to_string())
    );
    // Chunks and trailers; what is expected is asked of the endpoint, which is silent.
    let head = "POST /up HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\
                TE: trailers\r\nConnection: te\r\nExpect: 100-continue\r\n\r\n";
    assert!(client.send(head));
    assert_eq!(client.head().unwrap().status(), 100);
    let text = client.ask("5\r\nhello\r\n0\r\nX-Sum: 42\r\n\r\n").text();
    assert!(text.starts_with("POST http://a/up HTTP/2.0\n"), "{text}");
    assert!(
        text.contains("te: trailers\n") && text.contains("x-sum: 42\n"),
        "{text}"
    );
    assert!(
        !text.contains("transfer-encoding") && text.contains("expect: 100-continue\n"),
        "{text}"
    );
    assert!(text.ends_with("\n\nhello"), "{text}");
    // No Host: the endpoint's.
    let answer = proxy.connect().ask("GET / HTTP/1.0\r\n\r\n").text();
    let first = format!("GET http://{}/ HTTP/2.0\n", origin.address);
    assert!(answer.starts_with(&first), "{answer}");
    assert_eq!(origin.connections(), 1);
    drop(client);
    proxy.assert_no_leak();
    proxy.stop();
}

#[test]
fn response_trailers_reach_http_1() {
    let origin = Http2Origin::start(|_| async {
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", HeaderValue::from_static("42"));
        let mut response = Response::new(pieces(&["hel", "lo"], trailers));
        let field = HeaderValue::from_static("x-sum");
        response.headers_mut().insert("trailer", field);
        response
    });
    let proxy = Proxy::logging(over_http2(origin.address, 10));
    let request = "GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: te\r\n\r\n";
    let answer = proxy.connect().ask(request);
    assert_eq!(answer.text(), "hello");
    assert_eq!(answer.trailers, [("x-sum".to_owned(), "42".to_owned())]);
    proxy.stop();
}

/// A body whose frames a function returns when it is polled.
struct Polled<F>(F);

impl<F> Body for Polled<F>
where
    F: FnMut(&mut Context<'_>) -> Poll<Option<Frame<Bytes>>> + Unpin,
{
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        (self.0)(cx).map(|frame| frame.map(Ok))
    }
}

/// Returns a body, and the sender of its pieces.
fn channel() -> (UnboundedSender<&'static str>, AnyBody) {
    let (sender, mut receiver) = unbounded_channel();
    let told = move |cx: &mut Context<'_>| {
        let told: Poll<Option<&str>> = receiver.poll_recv(cx);
        told.map(|told| told.map(|text| Frame::data(text.into())))
    };
    (sender, Polled(told).boxed())
}

/// Returns a body that gives back the request's, followed by a status as trailers.
fn echo(mut said: Incoming) -> AnyBody {
    let answer = move |cx: &mut Context<'_>| {
        let frame = match said.is_end_stream() {
            true => None,
            false => ready!(Pin::new(&mut said).poll_frame(cx)),
        };
        let status = || {
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", HeaderValue::from_static("0"));
            Frame::trailers(trailers)
        };
        Poll::Ready(Some(frame.map_or_else(status, |frame| frame.unwrap())))
    };
    Polled(answer).boxed()
}

/// Checks what gRPC needs from a proxy: messages in both directions while neither side has ended,
/// trailers, and trailers alone.
#[test]
fn grpc_passes() {
    let origin = Http2Origin::start(|request: Request<Incoming>| async move {
        assert_eq!(request.headers()["te"], "trailers");
        assert_eq!(request.headers()["content-type"], "application/grpc");
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        let mut response = match request.uri().path() {
            // Each message is answered before the next is sent.
            "/echo.Echo/Stream" => Response::new(echo(request.into_body())),
            "/echo.Echo/Unary" => {
                let said = request.into_body().collect().await.unwrap().to_bytes();
                assert_eq!(said, "hello");
                Response::new(pieces(&["hello"], trailers))
            }
            _ => {
                let mut response = Response::new(empty());
                let status = HeaderValue::from_static("12");
                response.headers_mut().insert("grpc-status", status);
                response
            }
        };
        let kind = HeaderValue::from_static("application/grpc");
        response.headers_mut().insert("content-type", kind);
        response
    });
    for rate in [Rate::Unlimited, Rate::Fixed(100_000_000)] {
        let mut config = over_http2(origin.address, 10);
        config.uplink.rate = rate;
        let proxy = Proxy::logging(config);
        let call = |method: &str, body| {
            Request::post(format!("http://test.example/echo.Echo/{method}"))
                .header("te", "trailers")
                .header("content-type", "application/grpc")
                .body(body)
                .unwrap()
        };
        run(async {
            let client = connect(proxy.address).await;
            let answer = ask(&client, call("Unary", full("hello"))).await;
            assert_eq!((answer.status, answer.text()), (200, "hello"));
            assert_eq!(answer.trailers.unwrap()["grpc-status"], "0");
            let answer = ask(&client, call("Unknown", full("hello"))).await;
            assert_eq!(answer.headers["grpc-status"], "12");
            let (say, body) = channel();
            let response = client.clone().send_request(call("Stream", body));
            let mut heard = response.await.unwrap().into_body();
            for word in ["one", "two", "three"] {
                say.send(word).unwrap();
                let frame = heard.frame().await.unwrap().unwrap();
                assert_eq!(frame.into_data().unwrap(), word);
            }
            drop(say);
            let last = heard.frame().await.unwrap().unwrap();
            assert_eq!(last.into_trailers().unwrap()["grpc-status"], "0");
        });
        proxy.assert_no_leak();
        let lines = proxy.log_lines(3);
        assert!(
            lines.iter().all(|line| line["aborted"] == false),
            "{lines:?}"
        );
        proxy.stop();
    }
}

#[test]
fn a_response_without_a_body_may_end_after_its_head() {
    let origin = raw_origin(|_, mut raw| {
        while let Some(request) = raw.find(is_request) {
            // `/204`, `/304`, or an empty 200.
            let status = match request.stream {
                1 => "204",
                3 => "304",
                _ => "200",
            };
            let length = [(":status", status), ("content-length", "0")];
            let fields = block(&length[..if status == "200" { 2 } else { 1 }]);
            raw.frame(HEADERS, END_HEADERS, request.stream, &fields);
            std::thread::sleep(Duration::from_millis(20));
            raw.frame(DATA, END_STREAM, request.stream, b"");
        }
    });
    let proxy = Proxy::logging(over_http2(origin.address, 10));
    let mut client = proxy.connect();
    for status in [204, 304, 200] {
        assert_eq!(client.ask(get("/")).status(), status);
    }
    client.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.head().unwrap().status(), 200);
    run(async {
        let client = connect(proxy.address).await;
        let mut head = request("/");
        *head.method_mut() = http::Method::HEAD;
        assert_eq!(ask(&client, head).await.status, 200);
        assert_eq!(ask(&client, request("/")).await.status, 200);
    });
    drop(client);
    let lines = proxy.log_lines(6);
    for line in &lines {
        assert_eq!(
            (&line["aborted"], &line["reason"]),
            (&false.into(), &serde_json::Value::Null)
        );
    }
    proxy.assert_no_leak();
    proxy.stop();
}

/// Checks that trailers pass without fields that belong to one connection. In HTTP/2 such fields
/// would cost the end of the stream.
#[test]
fn trailers_pass_without_what_has_no_place_there() {
    let origin = Http2Origin::start(mirror);
    let proxy = Proxy::logging(over_http2(origin.address, 10));
    let post = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n\
                   0\r\nConnection: close\r\nKeep-Alive: 1\r\nTE: gzip\r\nHost: evil\r\n\
                   X-Forwarded-For: 198.51.100.1\r\nX-Sum: 42\r\n\r\n";
    let text = proxy.connect().ask(post).text();
    assert!(text.ends_with("\n\nhello"), "{text}");
    assert!(text.contains("x-sum: 42\n"), "{text}");
    for gone in ["connection", "keep-alive", "te:", "evil", "198.51.100.1"] {
        assert!(!text.contains(gone), "{text}");
    }
    proxy.assert_no_leak();
    proxy.stop();
    let origin = Origin::http(|_| {
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum, connection\r\n\r\n\
         5\r\nhello\r\n0\r\nConnection: close\r\nX-Sum: 42\r\n\r\n"
            .to_owned()
    });
    let proxy = Proxy::of(&[&origin]);
    let old = "GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: te\r\n\r\n";
    let answer = proxy.connect().ask(old);
    assert_eq!(answer.trailers, [("x-sum".to_owned(), "42".to_owned())]);
    run(async {
        let client = connect(proxy.address).await;
        let answer = ask(&client, request("/")).await;
        assert_eq!(answer.text(), "hello");
        let trailers = answer.trailers.unwrap();
        assert_eq!(
            (trailers.len(), &trailers["x-sum"]),
            (1, &"42".parse().unwrap())
        );
    });
    proxy.assert_no_leak();
    proxy.stop();
}
