//! HTTP/2 with backends.

use std::convert::Infallible;
use std::future::Future;
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body::{Body, Frame};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use sprat_config::resolved::*;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::{Barrier, Notify};

use super::client::*;
use super::common::*;
use super::pattern;

/// An origin that speaks HTTP/2 with prior knowledge and nothing else.
struct Http2Origin {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl Http2Origin {
    fn start<F>(answer: impl Fn(Request<Incoming>) -> F + Clone + Send + 'static) -> Self
    where
        F: Future<Output = Response<AnyBody>> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        listener.set_nonblocking(true).unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        let serve = async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                let answer = answer.clone();
                let service = service_fn(move |request| {
                    let answered = answer(request);
                    async move { Ok::<_, Infallible>(answered.await) }
                });
                let served = http2::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), service);
                tokio::spawn(served);
            }
        };
        std::thread::spawn(move || {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            runtime.enable_all().build().unwrap().block_on(serve);
        });
        Self {
            address,
            connections,
        }
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// Answers with what reached it, trailers included.
async fn mirror(request: Request<Incoming>) -> Response<AnyBody> {
    let (parts, body) = request.into_parts();
    let mut text = format!("{} {} {:?}\n", parts.method, parts.uri, parts.version);
    let body = body.collect().await.unwrap();
    let trailers = body.trailers().cloned().unwrap_or_default();
    for (name, value) in parts.headers.iter().chain(&trailers) {
        text += &format!("{name}: {}\n", value.to_str().unwrap());
    }
    text += "\n";
    text += std::str::from_utf8(&body.to_bytes()).unwrap();
    Response::new(full(text))
}

fn over_http2(origin: SocketAddr, max_streams: usize) -> Config {
    let mut config = config(&[origin]);
    with_cluster(&mut config, |cluster| {
        cluster.http2 = Some(UpstreamHttp2 {
            max_streams,
            stream_window_bytes: 256 << 10,
        });
    });
    config
}

#[test]
fn a_connection_carries_many_requests_and_no_more_than_it_may() {
    let all = Arc::new(Barrier::new(50));
    let origin = Http2Origin::start(move |_| {
        let all = Arc::clone(&all);
        async move {
            all.wait().await;
            Response::new(full(pattern(10_000)))
        }
    });
    let proxy = Proxy::logging(over_http2(origin.address, 20));
    run(async {
        let client = connect(proxy.address).await;
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..50 {
            let client = client.clone();
            tasks.spawn(async move { ask(&client, request("/")).await });
        }
        while let Some(answer) = tasks.join_next().await {
            assert_eq!(answer.unwrap().text(), pattern(10_000));
        }
    });
    // As few as carry them all.
    assert_eq!(origin.connections(), 3);
    proxy.assert_no_leak();
    let lines = proxy.log_lines(50);
    assert!(lines.iter().all(|line| line["aborted"] == false));
    proxy.stop();
}

#[test]
fn another_configuration_serves_the_streams_to_come() {
    let [old, new] = ["old", "new"]
        .map(|name| Http2Origin::start(move |_| async move { Response::new(full(name)) }));
    let before = over_http2(old.address, 10);
    let mut after = before.clone();
    with_cluster(&mut after, |cluster| {
        cluster.endpoints = vec![endpoint(new.address)];
    });
    let proxy = Proxy::start(&before);
    let control = proxy.server.as_ref().unwrap().control();
    run(async {
        let client = connect(proxy.address).await;
        assert_eq!(ask(&client, request("/")).await.text(), "old");
        control.reload(&after).unwrap();
        assert_eq!(ask(&client, request("/")).await.text(), "new");
    });
    proxy.assert_no_leak();
    proxy.stop();
}

/// Requests that waited when another configuration came are served by the old one:
/// on the connections that it has, or on one that goes with them, so that requests
/// of the new one have room.
#[test]
fn what_still_waits_leaves_no_connection_behind() {
    for max_streams in [1, 10] {
        let (go, gone) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (came, mut comes) = unbounded_channel();
        let wait = [("/first", Arc::clone(&go)), ("/second", Arc::clone(&gone))];
        let origin = Http2Origin::start(move |request: Request<Incoming>| {
            let path = request.uri().path().to_owned();
            let wait = wait.iter().find(|(name, _)| *name == path);
            let wait = wait.map(|(_, wait)| Arc::clone(wait));
            came.send(path.clone()).unwrap();
            async move {
                if let Some(wait) = wait {
                    wait.notified().await;
                }
                Response::new(full(path))
            }
        });
        let mut before = over_http2(origin.address, max_streams);
        with_cluster(&mut before, |cluster| {
            cluster.max_connections = 2;
            cluster.max_requests = 2;
        });
        let mut after = before.clone();
        // Another bound, so that the cluster is another.
        with_cluster(&mut after, |cluster| cluster.max_requests = 3);
        let proxy = Proxy::start(&before);
        let control = proxy.server.as_ref().unwrap().control();
        run(async {
            let client = connect(proxy.address).await;
            let ask = |path: &'static str| {
                let client = client.clone();
                tokio::spawn(async move { ask(&client, request(path)).await })
            };
            let first = ask("/first");
            assert_eq!(comes.recv().await.unwrap(), "/first");
            let second = ask("/second");
            assert_eq!(comes.recv().await.unwrap(), "/second");
            let third = ask("/third");
            while proxy.metric(&["sprat_waiting_requests"]) != 1.0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            control.reload(&after).unwrap();
            go.notify_one();
            assert_eq!(first.await.unwrap().text(), "/first");
            assert_eq!(third.await.unwrap().text(), "/third");
            let fourth = ask("/fourth").await.unwrap();
            assert_eq!(fourth.text(), "/fourth");
            gone.notify_one();
            assert_eq!(second.await.unwrap().text(), "/second");
        });
        proxy.assert_no_leak();
        proxy.stop();
    }
}

#[test]
fn idle_connections_are_closed() {
    let origin = Http2Origin::start(mirror);
    let mut config = over_http2(origin.address, 10);
    with_cluster(&mut config, |cluster| {
        cluster.idle_timeout = Duration::from_millis(100);
    });
    let proxy = Proxy::start(&config);
    assert_eq!(proxy.connect().ask(get("/")).status(), 200);
    proxy.wait_metric(&["sprat_upstream_connections"], 0.0);
    proxy.wait_metric(&["sprat_upstream_idle_connections"], 0.0);
    assert_eq!(proxy.connect().ask(get("/")).status(), 200);
    assert_eq!(origin.connections(), 2);
    proxy.stop();
}

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
    // Chunks and trailers; what is expected is answered here.
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
        !text.contains("transfer-encoding") && !text.contains("expect"),
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

/// A body that gives what is polled from a function.
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

/// A body that gives what is sent to it.
fn channel() -> (UnboundedSender<&'static str>, AnyBody) {
    let (sender, mut receiver) = unbounded_channel();
    let told = move |cx: &mut Context<'_>| {
        let told: Poll<Option<&str>> = receiver.poll_recv(cx);
        told.map(|told| told.map(|text| Frame::data(text.into())))
    };
    (sender, Polled(told).boxed())
}

/// Gives back what it gets, then a status.
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

/// What gRPC asks of a proxy: messages in both directions while neither has
/// ended, trailers, and trailers alone.
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

/// An origin whose frames are written by hand: each connection is given to
/// `serve` with its number, after the preface and both sides' settings.
fn raw_origin(serve: impl Fn(usize, Raw) + Send + Sync + 'static) -> Origin {
    let count = AtomicUsize::new(0);
    Origin::start(move |peer| {
        use std::io::Read as _;
        let mut stream = peer.stream().try_clone().unwrap();
        stream.read_exact(&mut [0; PREFACE.len()]).unwrap();
        let mut raw = Raw { stream };
        raw.frame(SETTINGS, 0, 0, &[]);
        raw.find(|frame| frame.kind == SETTINGS && frame.flags == 0)
            .unwrap();
        raw.frame(SETTINGS, ACK, 0, &[]);
        serve(count.fetch_add(1, Ordering::SeqCst), raw);
    })
}

fn is_request(frame: &RawFrame) -> bool {
    frame.kind == HEADERS
}

/// `:status: 200`, by the static table.
const OK: &[u8] = &[0x88];

const REFUSED_STREAM: u32 = 7;
const ENHANCE_YOUR_CALM: u32 = 11;

impl Raw {
    fn go_away(&mut self, last_stream: u32, error: u32) {
        let said = [last_stream, error].map(u32::to_be_bytes).concat();
        self.frame(GOAWAY, 0, 0, &said);
    }
}

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

/// Refuses all; and tells of each request.
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
fn health_checks_are_over_http_2_where_requests_are() {
    let status = Arc::new(std::sync::atomic::AtomicU16::new(0));
    let told = Arc::clone(&status);
    let origin = Http2Origin::start(move |request| {
        let asked = format!("{} {:?}", request.uri(), request.version());
        let status = told.load(Ordering::SeqCst);
        async move {
            if status == 0 {
                std::future::pending::<()>().await;
            }
            assert_eq!(asked, "http://well.example/healthz HTTP/2.0");
            let mut response = Response::new(full("well?"));
            *response.status_mut() = status.try_into().unwrap();
            response
        }
    });
    let mut config = over_http2(origin.address, 10);
    with_cluster(&mut config, |cluster| {
        cluster.resilience.health_checks = Some(HealthChecks {
            http: Some(HttpHealthCheck {
                path: "/healthz".to_owned(),
                host: Some("well.example".to_owned()),
                method: "GET".to_owned(),
                expected_statuses: vec![(200, 299)],
            }),
            interval: Duration::from_millis(20),
            jitter_percent: 10,
            timeout: Duration::from_millis(300),
            thresholds: Thresholds {
                healthy: 1,
                unhealthy: 1,
            },
        });
    });
    let proxy = Proxy::start(&config);
    for (answer, unhealthy) in [(0, 1.0), (200, 0.0), (503, 1.0), (204, 0.0)] {
        status.store(answer, Ordering::SeqCst);
        proxy.wait_metric(&["sprat_endpoint_unhealthy"], unhealthy);
    }
    proxy.stop();
}

#[test]
fn interim_responses_are_passed_over() {
    let origin = raw_origin(|_, mut raw| {
        while let Some(request) = raw.find(is_request) {
            let early = block(&[(":status", "103"), ("link", "</a.css>; rel=preload")]);
            raw.frame(HEADERS, END_HEADERS, request.stream, &early);
            raw.frame(HEADERS, END_HEADERS, request.stream, OK);
            raw.frame(DATA, END_STREAM, request.stream, b"hello");
        }
    });
    let proxy = Proxy::logging(over_http2(origin.address, 10));
    assert_eq!(proxy.connect().ask(get("/")).text(), "hello");
    run(async {
        let client = connect(proxy.address).await;
        assert_eq!(ask(&client, request("/")).await.text(), "hello");
    });
    proxy.stop();
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
