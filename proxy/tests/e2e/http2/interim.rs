//! Tests of interim responses (RFC 9110 15.2), with each version of HTTP on either side.

use std::future::poll_fn;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use rustls::version::{TLS12, TLS13};
use tokio::io::{AsyncRead, AsyncWrite};

use super::client::*;
use super::origin::*;
use crate::common::tls::*;
use crate::common::*;
use sprat_config::resolved::{Config, Rate};

const NAME: &str = "test.example";

/// An interim response: its status and its `Link`.
type Hint = (u16, Option<String>);

/// Returns the value of a `Link` with so many bytes.
fn link(id: &str, bytes: usize) -> String {
    format!("</{id}-{}.css>; rel=preload", "x".repeat(bytes))
}

/// Returns what the path `/COUNT/BYTES/ID` asks for: so many hints, each with a link of so many
/// bytes.
fn asked(path: &str) -> (usize, usize, &str) {
    let mut parts = path[1..].splitn(3, '/');
    let mut number = || parts.next().unwrap().parse().unwrap();
    let (count, bytes) = (number(), number());
    (count, bytes, parts.next().unwrap())
}

fn hints(path: &str) -> Vec<Hint> {
    let (count, bytes, id) = asked(path);
    (0..count)
        .map(|n| (103, Some(link(&format!("{id}-{n}"), bytes))))
        .collect()
}

/// The behaviour of an origin, of either version.
#[derive(Clone, Default)]
struct Behaviour {
    /// The receiver that the answer to `/held` waits for.
    held: Option<Arc<Mutex<mpsc::Receiver<()>>>>,
}

impl Behaviour {
    fn hold(&self, path: &str) {
        if let Some(held) = self.held.as_ref().filter(|_| path.ends_with("held")) {
            held.lock().unwrap().recv_timeout(PATIENCE).unwrap();
        }
    }
}

/// Starts an origin that speaks HTTP/1.1.
fn old_origin(behaviour: Behaviour) -> Origin {
    Origin::start(move |mut peer| {
        while let Some(request) = peer.head() {
            let path = request.start.split(' ').nth(1).unwrap().to_owned();
            for (status, link) in hints(&path) {
                let link = link.unwrap();
                peer.send(format!(
                    "HTTP/1.1 {status} Early Hints\r\nLink: {link}\r\nConnection: X-Private\r\n\
                     X-Private: 1\r\n\r\n"
                ));
            }
            behaviour.hold(&path);
            let mut body = Vec::new();
            if request.field("expect").is_some() {
                if path.contains("refuse") {
                    peer.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
                    continue;
                }
                if !path.contains("silent") {
                    peer.send("HTTP/1.1 100 Continue\r\n\r\n".repeat(2));
                }
            }
            if let Some(length) = request.field("content-length") {
                body = vec![0; length.parse().unwrap()];
                Read::read_exact(&mut peer.reader, &mut body).unwrap();
            }
            let body = String::from_utf8(body).unwrap();
            let text = format!("{path} {body}");
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nX-Path: {path}\r\nX-Same: same\r\nContent-Length: {}\r\n\r\n{text}",
                text.len()
            ));
        }
    })
}

/// Starts an origin that speaks HTTP/2, with at most so many streams at a time. Also returns the
/// number of its connections.
fn new_origin(behaviour: Behaviour, max_streams: u32) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    let serve = async move {
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        while let Ok((stream, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::SeqCst);
            let behaviour = behaviour.clone();
            tokio::spawn(async move {
                let mut builder = h2::server::Builder::new();
                builder.max_concurrent_streams(max_streams);
                let mut connection = builder.handshake::<_, Bytes>(stream).await.unwrap();
                while let Some(Ok((request, respond))) = connection.accept().await {
                    tokio::spawn(answer(behaviour.clone(), request, respond));
                }
            });
        }
    };
    std::thread::spawn(move || {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        runtime
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap()
            .block_on(serve);
    });
    (address, connections)
}

async fn answer(
    behaviour: Behaviour,
    mut request: Request<h2::RecvStream>,
    mut respond: h2::server::SendResponse<Bytes>,
) -> Option<()> {
    let path = request.uri().path().to_owned();
    let interim = |status: u16| Response::builder().status(status);
    for (status, link) in hints(&path) {
        let hint = interim(status).header("link", link.unwrap());
        respond.send_informational(hint.body(()).unwrap()).ok()?;
        tokio::task::yield_now().await;
    }
    tokio::task::block_in_place(|| behaviour.hold(&path));
    let mut body = Vec::new();
    if request.headers().contains_key("expect") {
        if path.contains("refuse") {
            let refusal = Response::builder().status(403).body(()).unwrap();
            respond.send_response(refusal, true).ok()?;
            return None;
        }
        for _ in 0..if path.contains("silent") { 0 } else { 2 } {
            respond
                .send_informational(interim(100).body(()).unwrap())
                .ok()?;
        }
    }
    while let Some(data) = request.body_mut().data().await {
        body.extend_from_slice(&data.ok()?);
    }
    let text = format!("{path} {}", String::from_utf8(body).unwrap());
    let head = Response::builder()
        .header("x-path", &path)
        .header("x-same", "same")
        .header("content-length", text.len());
    let mut send = respond.send_response(head.body(()).unwrap(), false).ok()?;
    send.send_data(text.into(), true).ok()
}

/// Connects a client of the h2 library, which reports interim responses.
async fn new_client(address: SocketAddr) -> h2::client::SendRequest<Bytes> {
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    new_client_over(stream).await
}

async fn new_client_over(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> h2::client::SendRequest<Bytes> {
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(async move { connection.await.unwrap() });
    client.ready().await.unwrap()
}

/// Connects a client of the h2 library over TLS.
async fn new_tls_client(address: SocketAddr, tls: &TlsClient) -> h2::client::SendRequest<Bytes> {
    let mut config = (*tls.config).clone();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let name = NAME.try_into().unwrap();
    let handshake = tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream);
    new_client_over(handshake.await.unwrap()).await
}

/// The responses to one request.
#[derive(Debug)]
struct Got {
    hints: Vec<Hint>,
    status: u16,
    headers: HeaderMap,
    text: String,
}

/// Sends a request over HTTP/2. Its body, if there is one, is sent after a 100.
async fn ask_new(
    client: &h2::client::SendRequest<Bytes>,
    path: &str,
    body: Option<&'static str>,
    heard: impl FnMut(u16),
) -> Got {
    ask_new_at(client, format!("http://{NAME}{path}"), body, heard).await
}

async fn ask_new_at(
    client: &h2::client::SendRequest<Bytes>,
    uri: String,
    body: Option<&'static str>,
    mut heard: impl FnMut(u16),
) -> Got {
    let mut client = client.clone().ready().await.unwrap();
    let mut request = Request::builder().uri(uri);
    if let Some(body) = body {
        request = request.method("POST").header("expect", "100-continue");
        request = request.header("content-length", body.len());
    }
    let request = request.body(()).unwrap();
    let (mut response, mut send) = client.send_request(request, body.is_none()).unwrap();
    let (mut hints, mut body) = (Vec::new(), body);
    let response = loop {
        let next = poll_fn(|cx| {
            if let Poll::Ready(Some(interim)) = response.poll_informational(cx) {
                return Poll::Ready(Ok(interim.unwrap()));
            }
            std::pin::Pin::new(&mut response).poll(cx).map(Err)
        });
        match next.await {
            Err(response) => break response.unwrap(),
            Ok(interim) if interim.status() == StatusCode::CONTINUE => {
                heard(100);
                hints.push((100, None));
                let body = body.take().expect("one 100");
                send.send_data(body.into(), true).unwrap();
            }
            Ok(interim) => {
                let status = interim.status().as_u16();
                assert!(!interim.headers().contains_key("x-private"));
                let link = interim.headers().get("link");
                hints.push((status, link.map(|link| link.to_str().unwrap().to_owned())));
                heard(status);
            }
        }
    };
    let (parts, mut body) = response.into_parts();
    let mut text = Vec::new();
    while let Some(data) = body.data().await {
        text.extend_from_slice(&data.unwrap());
    }
    Got {
        hints,
        status: parts.status.as_u16(),
        headers: parts.headers,
        text: String::from_utf8(text).unwrap(),
    }
}

/// Sends a request over HTTP/1.1. Its body, if there is one, is sent after a 100.
fn ask_old<S: Read + Write>(
    client: &mut Peer<S>,
    path: &str,
    body: Option<&'static str>,
    mut heard: impl FnMut(u16),
) -> Got {
    match body {
        None => client.send(get(path)),
        Some(body) => client.send(format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n",
            body.len()
        )),
    };
    let (mut hints, mut body) = (Vec::new(), body);
    let head = loop {
        let head = client.head().unwrap();
        match head.status() {
            100 => {
                hints.push((100, None));
                heard(100);
                client.send(body.take().expect("one 100"));
            }
            status @ 101..200 => {
                assert_eq!(head.field("x-private"), None);
                hints.push((status, head.field("link").map(str::to_owned)));
                heard(status);
            }
            _ => break head,
        }
    };
    let mut text = vec![0; head.field("content-length").unwrap().parse().unwrap()];
    Read::read_exact(&mut client.reader, &mut text).unwrap();
    let mut headers = HeaderMap::new();
    if let Some(path) = head.field("x-path") {
        headers.insert("x-path", path.parse().unwrap());
    }
    Got {
        hints,
        status: head.status(),
        headers,
        text: String::from_utf8(text).unwrap(),
    }
}

/// Runs a test on a proxy before an origin of each version.
fn proxies(behaviour: impl Fn() -> Behaviour, each: impl FnMut(Proxy, &str)) {
    proxies_with(|_| (), behaviour, each);
}

/// Runs a test on a proxy before an origin of each version, with a change to the configuration.
fn proxies_with(
    change: impl Fn(&mut Config),
    behaviour: impl Fn() -> Behaviour,
    mut each: impl FnMut(Proxy, &str),
) {
    for rate in [Rate::Unlimited, Rate::Fixed(100_000_000)] {
        let old = old_origin(behaviour());
        let mut before_old = config(&[old.address]);
        before_old.uplink.rate = rate;
        change(&mut before_old);
        each(Proxy::logging(before_old), "an origin of HTTP/1.1");
        let (new, _) = new_origin(behaviour(), 100);
        let mut before_new = over_http2(new, 50);
        before_new.uplink.rate = rate;
        change(&mut before_new);
        each(Proxy::logging(before_new), "an origin of HTTP/2");
    }
}

const PATHS: [&str; 6] = [
    "/1/0/a",
    "/0/0/b",
    "/2/0/c",
    "/1/2000/d",
    "/3/20000/e",
    "/1/0/a",
];

fn assert_got(got: &Got, path: &str, origin: &str) {
    assert_eq!(got.hints, hints(path), "{path} of {origin}");
    assert_eq!((got.status, &*got.text), (200, &*format!("{path} ")));
    assert_eq!(got.headers["x-path"], path);
}

#[test]
fn interim_responses_pass_between_all_versions() {
    proxies(Behaviour::default, |proxy, origin| {
        let mut old = Peer::connect(proxy.address);
        for path in PATHS {
            assert_got(&ask_old(&mut old, path, None, |_| ()), path, origin);
        }
        run(async {
            let new = new_client(proxy.address).await;
            for path in PATHS {
                assert_got(&ask_new(&new, path, None, |_| ()).await, path, origin);
            }
        });
        // HTTP/1.0 has none.
        let text = "GET /2/0/x HTTP/1.0\r\nHost: a\r\n\r\n";
        assert_eq!(proxy.connect().ask(text).status(), 200);
        drop(old);
        proxy.assert_no_leak();
        let lines = proxy.log_lines(2 * PATHS.len() + 1);
        assert!(lines.iter().all(|line| line["status"] == 200), "{lines:?}");
        proxy.stop();
    });
}

#[test]
fn an_interim_response_comes_before_there_is_an_answer() {
    let (heard, hears) = mpsc::channel();
    let hears = Arc::new(Mutex::new(hears));
    let behaviour = || Behaviour {
        held: Some(Arc::clone(&hears)),
    };
    proxies(behaviour, |proxy, origin| {
        let mut old = Peer::connect(proxy.address);
        let path = "/1/10/held";
        let got = ask_old(&mut old, path, None, |_| heard.send(()).unwrap());
        assert_got(&got, path, origin);
        run(async {
            let new = new_client(proxy.address).await;
            let got = ask_new(&new, path, None, |_| heard.send(()).unwrap()).await;
            assert_got(&got, path, origin);
        });
        drop(old);
        proxy.assert_no_leak();
        proxy.stop();
    });
}

/// Checks interim responses over TLS, where they are written as records of their own beside the
/// library's.
#[test]
fn interim_responses_pass_over_tls() {
    let (heard, hears) = mpsc::channel();
    let hears = Arc::new(Mutex::new(hears));
    let behaviour = || Behaviour {
        held: Some(Arc::clone(&hears)),
    };
    let authority = Authority::new();
    let issued = authority.issue("site", &[NAME]);
    let secure = |config: &mut Config| {
        config.listeners[0].tls = Some(listener_tls(&[&issued]));
    };
    let held = "/1/10/held";
    // An answer that is held waits until the client has its hint.
    let hear = |path: &str| {
        if path == held {
            heard.send(()).unwrap();
        }
    };
    proxies_with(secure, behaviour, |proxy, origin| {
        for version in [&TLS12, &TLS13] {
            let tls = TlsClient::with(&authority, &[version], None);
            let mut old = tls.connect(proxy.address, NAME);
            for path in PATHS.into_iter().chain([held]) {
                let got = ask_old(&mut old, path, None, |_| hear(path));
                assert_got(&got, path, origin);
            }
            let mut expected = hints("/1/0/up");
            expected.push((100, None));
            let got = ask_old(&mut old, "/1/0/up", Some("hello"), |_| ());
            assert_eq!((got.hints, &*got.text), (expected.clone(), "/1/0/up hello"));
            run(async {
                let new = new_tls_client(proxy.address, &tls).await;
                let uri = |path: &str| format!("https://{NAME}{path}");
                for path in PATHS.into_iter().chain([held]) {
                    let got = ask_new_at(&new, uri(path), None, |_| hear(path));
                    assert_got(&got.await, path, origin);
                }
                let got = ask_new_at(&new, uri("/1/0/up"), Some("hello"), |_| ()).await;
                assert_eq!((got.hints, &*got.text), (expected, "/1/0/up hello"));
            });
        }
        proxy.assert_no_leak();
        let lines = proxy.log_lines(4 * (PATHS.len() + 2));
        assert!(lines.iter().all(|line| line["status"] == 200), "{lines:?}");
        proxy.stop();
    });
}

#[test]
fn a_client_is_asked_for_its_body_once_and_only_if_its_backend_asks() {
    proxies(Behaviour::default, |proxy, origin| {
        let mut expected = hints("/1/0/up");
        expected.push((100, None));
        let served = |got: &Got| {
            assert_eq!(got.hints, expected, "{origin}: {got:?}");
            assert_eq!((got.status, &*got.text), (200, "/1/0/up hello"));
        };
        let refused = |got: &Got| {
            assert_eq!((got.status, &*got.hints), (403, &[][..]), "{origin}");
        };
        // One that says nothing gets the body after a while.
        let silent = |got: &Got| {
            assert_eq!(
                (got.status, &*got.hints),
                (200, &[(100, None)][..]),
                "{origin}"
            );
            assert_eq!(got.text, "/0/0/silent hello");
        };
        let mut old = Peer::connect(proxy.address);
        served(&ask_old(&mut old, "/1/0/up", Some("hello"), |_| ()));
        silent(&ask_old(&mut old, "/0/0/silent", Some("hello"), |_| ()));
        refused(&ask_old(&mut old, "/0/0/refuse", Some("hello"), |_| ()));
        run(async {
            let new = new_client(proxy.address).await;
            for path in ["/0/0/refuse", "/1/0/up", "/0/0/silent", "/1/0/up"] {
                let got = ask_new(&new, path, Some("hello"), |_| ()).await;
                match path {
                    "/1/0/up" => served(&got),
                    "/0/0/silent" => silent(&got),
                    _ => refused(&got),
                }
            }
        });
        drop(old);
        proxy.assert_no_leak();
        proxy.stop();
    });
}

/// Checks that each stream gets its own interim responses, whatever its neighbours do: some have
/// none, and some are given up by their client, before or after they have a stream to the backend.
#[test]
fn interim_responses_go_to_their_own_streams() {
    // The backend takes fewer streams than are given to the library.
    let (origin, connections) = new_origin(Behaviour::default(), 7);
    for rate in [Rate::Unlimited, Rate::Fixed(100_000_000)] {
        let mut config = over_http2(origin, 200);
        config.uplink.rate = rate;
        let proxy = Proxy::start(&config);
        run(async {
            // From here on the library knows the backend's bound.
            let first = new_client(proxy.address).await;
            ask_new(&first, "/0/0/first", None, |_| ()).await;
            for round in 0..5 {
                let client = new_client(proxy.address).await;
                let asking = (0..90).map(|n| {
                    let client = client.clone();
                    tokio::spawn(async move {
                        let path = format!("/{}/{}/{round}-{n}", n % 4, 7 * (n % 50));
                        let asked = ask_new(&client, &path, None, |_| ());
                        // 18 of 90: of 20 that it has not looked at yet, the library says goodbye.
                        if n % 5 == 1 {
                            // It may have been answered already.
                            let bound = Duration::from_micros(40 * n);
                            let _ = tokio::time::timeout(bound, asked).await;
                        } else {
                            let got = asked.await;
                            assert_got(&got, &path, "HTTP/2");
                            assert_eq!(got.headers["x-same"], "same");
                        }
                    })
                });
                for asked in asking.collect::<Vec<_>>() {
                    asked.await.unwrap();
                }
            }
        });
        proxy.assert_no_leak();
        proxy.stop();
    }
    assert_eq!(connections.load(Ordering::SeqCst), 2);
}

#[test]
fn interim_responses_of_http2_are_bounded() {
    let (origin, _) = new_origin(Behaviour::default(), 100);
    let proxy = Proxy::start(&over_http2(origin, 10));
    let whole = |got: Got, path: &str, max: usize| {
        assert_eq!(got.hints, hints(path)[..max]);
        assert_eq!((got.status, &*got.text), (200, &*format!("{path} ")));
    };
    // In number; and together, as one head is.
    for (path, max) in [("/300/0/a", 100), ("/20/8000/b", 8)] {
        let mut old = Peer::connect(proxy.address);
        whole(ask_old(&mut old, path, None, |_| ()), path, max);
        run(async {
            let new = new_client(proxy.address).await;
            whole(ask_new(&new, path, None, |_| ()).await, path, max);
        });
    }
    proxy.assert_no_leak();
    proxy.stop();
}

/// Checks that the first header block after a client's setting of a small table announces the
/// table's size, whichever block that is (RFC 7541 4.2).
#[test]
fn a_client_with_a_small_table_is_told_of_it_by_the_first_block() {
    let origin = old_origin(Behaviour::default());
    let proxy = Proxy::of(&[&origin]);
    const HEADER_TABLE_SIZE: u16 = 1;
    for (size, begins) in [(0, &[0x20, 8][..]), (30, &[0x3e, 8]), (9000, &[8])] {
        let mut raw = Raw::connect(proxy.address, &[(HEADER_TABLE_SIZE, size)]);
        raw.find(|frame| frame.kind == SETTINGS && frame.flags == ACK)
            .unwrap();
        assert!(raw.get(1, "/1/0/a"));
        let early = raw.find(|frame| frame.kind == HEADERS).unwrap();
        assert_eq!((early.stream, early.flags), (1, END_HEADERS));
        assert!(early.payload.starts_with(begins), "{:?}", early.payload);
        let last = raw.find(|frame| frame.kind == HEADERS).unwrap();
        let said = &begins[..begins.len() - 1];
        assert!(last.payload.starts_with(&[said, &[0x88]].concat()));
        assert!(raw.end_of(1).unwrap().ends_stream());
    }
    proxy.assert_no_leak();
    proxy.stop();
}

/// Checks that an invalid interim response of HTTP/2 ends its stream, or is not passed on.
#[test]
fn interim_responses_that_are_none_do_not_pass() {
    let origin = raw_origin(|_, mut raw| {
        while let Some(request) = raw.find(is_request) {
            let stream = request.stream;
            match stream {
                // Another protocol is for HTTP/1.1.
                1 => raw.frame(HEADERS, END_HEADERS, stream, &block(&[(":status", "101")])),
                // It ends with it.
                3 => {
                    let early = block(&[(":status", "103")]);
                    raw.frame(HEADERS, END_HEADERS | END_STREAM, stream, &early);
                    continue;
                }
                // Malformed.
                5 => {
                    let early = block(&[(":status", "103"), ("x-a", "b\u{1}")]);
                    raw.frame(HEADERS, END_HEADERS, stream, &early);
                    continue;
                }
                // By its table, which the library has only as literals by now.
                _ => {
                    let early = [b"\x48\x03103".as_slice(), b"\x40\x04link\x04</a>"].concat();
                    raw.frame(HEADERS, END_HEADERS, stream, &early);
                    raw.frame(HEADERS, END_HEADERS, stream, &[0xbf, 0xbe])
                }
            };
            raw.frame(HEADERS, END_HEADERS, stream, OK);
            raw.frame(DATA, END_STREAM, stream, b"hello");
        }
    });
    let proxy = Proxy::logging(over_http2(origin.address, 10));
    run(async {
        let client = new_client(proxy.address).await;
        let early = (103, Some("</a>".to_owned()));
        for (status, hints) in [
            (200, vec![]),
            (502, vec![]),
            (502, vec![]),
            (200, vec![early.clone(), early]),
        ] {
            let got = ask_new(&client, "/", None, |_| ()).await;
            assert_eq!((got.status, got.hints), (status, hints));
        }
    });
    assert_eq!(origin.connections(), 1);
    proxy.assert_no_leak();
    proxy.stop();
}

#[test]
fn an_answer_is_in_time_behind_an_interim_response_that_its_client_does_not_take() {
    let (go, goes) = mpsc::channel();
    let goes = Mutex::new(goes);
    let origin = Origin::http(move |request| {
        if request.start.contains("/large") {
            return ok(&"x".repeat(16_000_000));
        }
        goes.lock().unwrap().recv_timeout(PATIENCE).unwrap();
        "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n".to_owned() + &ok("fine")
    });
    let mut config = config(&[origin.address]);
    config.routes[0].response_timeout = Duration::from_secs(2);
    config.listeners[0].max_unsent_bytes = 4 << 10;
    let proxy = Proxy::start(&config);
    let mut client = Raw::connect(proxy.address, &[(INITIAL_WINDOW_SIZE, 1 << 25)]);
    assert!(client.frame(WINDOW_UPDATE, 0, 0, &(1u32 << 25).to_be_bytes()));
    assert!(client.get(1, "/hinted"));
    assert!(client.get(3, "/large"));
    assert!(client.find(|frame| frame.kind == DATA).is_some());
    // The socket is full by then, and is so until the answer's time is over.
    std::thread::sleep(Duration::from_millis(300));
    go.send(()).unwrap();
    std::thread::sleep(Duration::from_secs(2));
    let heads = [(); 2].map(|()| {
        let head = client.find(|frame| (frame.kind, frame.stream) == (HEADERS, 1));
        head.unwrap().status()
    });
    // 103 is in no static table.
    assert_eq!(heads, [None, Some(200)]);
    drop(client);
    proxy.assert_no_leak();
    proxy.stop();
}
