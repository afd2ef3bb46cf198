//! Tests of the bounds on what one client may take: minimum rates, places, rates, memory.

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::*;
use crate::http2::client::{END_HEADERS, HEADERS, INITIAL_WINDOW_SIZE, Raw, block};
use socket2::{Domain, Socket, Type};
use sprat_config::resolved::*;

const HOUR: Duration = Duration::from_secs(3600);

fn at_least(bytes_per_s: u64, window: Duration) -> Option<MinRate> {
    Some(MinRate {
        bytes_per_s,
        window,
    })
}

fn changed(origin: SocketAddr, change: impl FnOnce(&mut Config)) -> Proxy {
    let mut config = config(&[origin]);
    change(&mut config);
    Proxy::logging(config)
}

fn limited(origin: &Origin, change: impl FnOnce(&mut ListenerLimits)) -> Proxy {
    changed(origin.address, |config| {
        change(&mut config.listeners[0].limits);
    })
}

/// Starts an origin that answers `/N` with N bytes.
fn sized() -> Origin {
    Origin::http(|request| {
        let path = request.start.split(' ').nth(1).unwrap();
        ok(&"x".repeat(path[1..].parse().unwrap()))
    })
}

/// Starts an origin that tells of each request, and answers when the test says so.
fn held() -> (Origin, mpsc::Receiver<()>, mpsc::Sender<()>) {
    let (came, comes) = mpsc::channel();
    let (go, goes) = mpsc::channel();
    let goes = Arc::new(Mutex::new(goes));
    let origin = Origin::http(move |_| {
        came.send(()).unwrap();
        goes.lock().unwrap().recv_timeout(PATIENCE).unwrap();
        ok("fine")
    });
    (origin, comes, go)
}

#[test]
fn a_body_that_dribbles_is_408() {
    let origin = Origin::http(|request| ok(&request.text()));
    let proxy = limited(&origin, |limits| {
        limits.min_rates.request_body = at_least(10_000, Duration::from_millis(300));
    });
    let mut client = proxy.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n");
    client
        .stream()
        .set_read_timeout(Some(Duration::from_millis(10)))
        .unwrap();
    // Always some progress: no idle time-out would ever end it.
    while client.stream().peek(&mut [0]).is_err() {
        client.send("x");
    }
    client.stream().set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(client.message().status(), 408);
    proxy.wait_metric(&["sprat_bad_requests_total", "body_too_slow"], 1.0);
    assert_eq!(proxy.log_lines(1)[0]["reason"], "body_too_slow");
    drop(client);
    proxy.assert_no_leak();
}

#[test]
fn a_client_is_not_cut_for_a_backend_that_does_not_read() {
    let window = Duration::from_secs(1);
    let origin = Origin::start(move |mut peer| {
        // More than a window in which the body stands in the proxy.
        std::thread::sleep(window * 2);
        let request = peer.message();
        peer.send(ok(&request.body.len().to_string()));
    });
    let proxy = limited(&origin, |limits| {
        limits.min_rates.request_body = at_least(1000, window);
    });
    let length = 32 << 20;
    let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
    let mut client = proxy.connect();
    let stream = client.stream().try_clone().unwrap();
    let sending = std::thread::spawn(move || {
        let mut peer = Peer::new(stream);
        peer.send(head);
        // More than the kernel and the proxy hold.
        peer.send(vec![b'x'; length])
    });
    let answer = client.message();
    assert_eq!(answer.text(), length.to_string());
    assert!(sending.join().unwrap());
}

#[test]
fn a_client_that_reads_byte_by_byte_is_cut_at_the_minimum_rate() {
    let origin = sized();
    let proxy = limited(&origin, |limits| {
        limits.min_rates.response = at_least(1000, Duration::from_millis(300));
    });
    let mut slow = proxy.connect();
    slow.send(get("/50000000"));
    let mut other = proxy.connect();
    let cut = || proxy.metric(&["sprat_bad_requests_total", "response_too_slow"]) == 1.0;
    wait_for("the slow client to be cut", || {
        // The kernel does not open the window for single bytes.
        let _ = slow.stream().read(&mut [0]);
        assert_eq!(other.ask(get("/4")).text(), "xxxx");
        cut()
    });
    wait_for("the log to say so", || {
        let lines = proxy.log_lines_at_least(1);
        lines.iter().any(|l| l["reason"] == "response_too_slow")
    });
    drop((slow, other));
    proxy.assert_no_leak();
}

#[test]
fn a_client_that_reads_slowly_but_enough_is_served() {
    let origin = sized();
    let proxy = changed(origin.address, |config| {
        let listener = &mut config.listeners[0];
        listener.limits.min_rates.response = at_least(100, Duration::from_secs(1));
    });
    let length = 20_000_000;
    let mut client = proxy.connect();
    client.send(get(&format!("/{length}")));
    let mut read = client.head().unwrap().body.len();
    let mut part = vec![0; 64 << 10];
    // The first megabytes slowly: the socket is full for longer than a window.
    while read < length {
        let count = client.reader.read(&mut part).unwrap();
        assert!(count > 0, "cut after {read} bytes");
        read += count;
        if read < 8_000_000 {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    proxy.wait_metric(&["sprat_bad_requests_total"], 0.0);
}

/// Returns the bytes of a response that the kernel takes for a client that reads nothing.
fn taken_unread(proxy: &Proxy) -> u64 {
    let lines = proxy.log_lines(0).len();
    // Its own buffer is small, and does not grow.
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(&proxy.address.into()).unwrap();
    let mut client = Peer::new(socket.into());
    client.send(get("/50000000"));
    let lines = proxy.log_lines_at_least(lines + 1);
    let last = lines.last().unwrap();
    assert_eq!(last["reason"], "client_stalled");
    last["bytes"].as_u64().unwrap()
}

#[test]
fn the_kernel_holds_little_for_a_client_that_does_not_read() {
    let origin = sized();
    let taken = |most: u32| {
        let proxy = changed(origin.address, |config| {
            let listener = &mut config.listeners[0];
            listener.stream_idle_timeout = Duration::from_millis(300);
            listener.max_unsent_bytes = most;
        });
        taken_unread(&proxy)
    };
    let (little, default, any) = (taken(4 << 10), taken(128 << 10), taken(u32::MAX));
    // The bound, what the kernel rounds up to, and what was sent.
    assert!(little < 96 << 10, "{little}");
    assert!((128 << 10..512 << 10).contains(&default), "{default}");
    assert!(any > 1 << 20, "{any}");
}

#[test]
fn a_client_that_the_uplink_paces_is_not_cut() {
    let origin = sized();
    let proxy = changed(origin.address, |config| {
        config.uplink.rate = Rate::Fixed(400_000);
        let rates = &mut config.listeners[0].limits.min_rates;
        // Thousands of times what the uplink carries.
        rates.response = at_least(1 << 30, Duration::from_millis(20));
    });
    let clients: Vec<_> = (0..3)
        .map(|_| {
            let mut client = proxy.connect();
            client.send(get("/10000"));
            client
        })
        .collect();
    for mut client in clients {
        assert_eq!(client.message().body.len(), 10_000);
    }
    proxy.wait_metric(&["sprat_bad_requests_total"], 0.0);
}

#[test]
fn connections_of_one_client_are_bounded() {
    let origin = Origin::http(|_| ok("fine"));
    let proxy = limited(&origin, |limits| {
        limits.per_client.max_connections = Some(2);
    });
    let mut first = proxy.connect();
    let mut second = proxy.connect();
    assert_eq!(first.ask(get("/")).status(), 200);
    assert_eq!(second.ask(get("/")).status(), 200);
    assert!(proxy.connect().is_closed());
    proxy.wait_metric(&["sprat_refused_connections_total", "client_full"], 1.0);
    // Another client has places of its own.
    let mut other = proxy.connect_from([127, 0, 0, 2]);
    assert_eq!(other.ask(get("/")).status(), 200);
    drop((first, other));
    wait_for("the place to be free again", || {
        let mut third = proxy.connect();
        third.send(get("/")) && third.try_message(true).is_some()
    });
    drop(second);
    proxy.assert_no_leak();
}

/// Checks a bound of one request: the second is refused and told when to ask again, and afterwards
/// there is a place again.
fn one_place(change: impl FnOnce(&mut ListenerLimits), status: u16, reason: &str) {
    let (origin, comes, go) = held();
    let proxy = limited(&origin, change);
    let mut first = proxy.connect();
    first.send(get("/"));
    comes.recv_timeout(PATIENCE).unwrap();
    let mut second = proxy.connect();
    let refused = second.ask(get("/"));
    assert_eq!(refused.status(), status);
    assert_eq!(refused.field("retry-after"), Some("1"));
    assert!(refused.text().contains(reason), "{refused:?}");
    go.send(()).unwrap();
    assert_eq!(first.message().status(), 200);
    proxy.wait_metric(&["sprat_open_requests"], 0.0);
    go.send(()).unwrap();
    // The refusal did not cost the connection.
    assert_eq!(second.ask(get("/")).status(), 200);
    drop((first, second));
    proxy.assert_no_leak();
}

#[test]
fn requests_in_progress_of_one_client_are_bounded() {
    one_place(
        |limits| limits.per_client.max_requests = Some(1),
        429,
        "client_full",
    );
}

#[test]
fn requests_that_are_pipelined_are_in_progress_one_after_the_other() {
    let origin = sized();
    for change in [
        (|limits| limits.per_client.max_requests = Some(1)) as fn(&mut ListenerLimits),
        |limits| limits.max_requests = Some(1),
    ] {
        let proxy = limited(&origin, change);
        let mut client = proxy.connect();
        client.send(get("/10").repeat(5));
        for _ in 0..5 {
            assert_eq!(client.message().status(), 200);
        }
    }
}

#[test]
fn requests_in_progress_on_a_listener_are_bounded() {
    one_place(|limits| limits.max_requests = Some(1), 503, "listener_full");
}

/// Gives each endpoint so many places, with no queue for more.
fn with_places(config: &mut Config, places: usize, read_ahead: Option<ReadAhead>) {
    with_cluster(config, |cluster| {
        cluster.max_requests = places;
        cluster.wait_queue.max_requests = 0;
        cluster.read_ahead = read_ahead;
    });
    // Clients' sockets take little of what their clients do not.
    config.listeners[0].max_unsent_bytes = 4 << 10;
}

/// Sends a request from a client that reads nothing, and whose receive buffer is small.
fn unreading(proxy: &Proxy, path: &str) -> Peer {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(&proxy.address.into()).unwrap();
    let mut client = Peer::new(socket.into());
    client.send(get(path));
    client
}

#[test]
fn clients_that_read_nothing_hold_no_place_that_the_endpoint_needs_no_more() {
    let origin = sized();
    for (rate, read_ahead, status) in [
        (Rate::Unlimited, Some((250_000, 10_000_000)), 200),
        // Our own order is no reason to hold a place either.
        (Rate::Fixed(1_000_000), Some((250_000, 10_000_000)), 200),
        (Rate::Unlimited, None, 503),
        // Not for each of them, or for all together.
        (Rate::Unlimited, Some((2_000, 10_000_000)), 503),
        (Rate::Unlimited, Some((250_000, 2_000)), 503),
    ] {
        let proxy = changed(origin.address, |config| {
            config.uplink.rate = rate;
            let read_ahead = read_ahead.map(|(per_response, total)| ReadAhead {
                per_response,
                total,
            });
            with_places(config, 2, read_ahead);
        });
        let slow: Vec<_> = (0..2).map(|_| unreading(&proxy, "/200000")).collect();
        proxy.wait_metric(&["sprat_open_requests"], 2.0);
        let outstanding = || proxy.metric(&["sprat_upstream_outstanding"]);
        if status == 200 {
            wait_for("the endpoint to be free", || outstanding() == 0.0);
            assert!(proxy.metric(&["sprat_read_ahead_bytes"]) > 100_000.0);
        }
        let mut other = proxy.connect();
        assert_eq!(
            other.ask(get("/4")).status(),
            status,
            "{rate:?} {read_ahead:?}"
        );
        // They get what they asked for when they want it.
        for mut client in slow {
            assert_eq!(client.message().body.len(), 200_000);
        }
        proxy.wait_metric(&["sprat_read_ahead_bytes"], 0.0);
        drop(other);
        proxy.assert_no_leak();
    }
}

#[test]
fn what_is_read_ahead_is_whole_for_who_takes_it_in_bits() {
    let origin = sized();
    let proxy = changed(origin.address, |config| {
        let little = ReadAhead {
            per_response: 20_000,
            total: 50_000,
        };
        with_places(config, 100, Some(little));
    });
    let readers: Vec<_> = (0..8)
        .map(|_| {
            let mut client = unreading(&proxy, "/700000");
            std::thread::spawn(move || client.message().body.len())
        })
        .collect();
    for reader in readers {
        assert_eq!(reader.join().unwrap(), 700_000);
    }
    proxy.assert_no_leak();
}

/// Returns whether a client that is slow, but above the least rate, is cut from the only place.
/// `others` says whether another client wants the place.
fn slow_reader_in_the_only_place(change: impl FnOnce(&mut Config), others: bool) -> bool {
    let origin = sized();
    let proxy = changed(origin.address, |config| {
        change(config);
        let rates = &mut config.listeners[0].limits.min_rates;
        rates.response = at_least(1, Duration::from_millis(300));
        // More than a client can take.
        rates.response_under_load = at_least(1 << 40, Duration::from_millis(300));
    });
    let slow = unreading(&proxy, "/50000000");
    proxy.wait_metric(&["sprat_open_requests"], 1.0);
    let cut = || proxy.metric(&["sprat_bad_requests_total", "response_too_slow"]) == 1.0;
    let mut part = vec![0; 64 << 10];
    for _ in 0..150 {
        let _ = slow.stream().read(&mut part).unwrap();
        std::thread::sleep(Duration::from_millis(10));
        if others && proxy.connect().ask(get("/4")).status() == 200 {
            wait_for("the log to say why", cut);
            return true;
        }
    }
    cut()
}

#[test]
fn a_slow_client_is_cut_when_others_need_its_place() {
    type Change = fn(&mut Config);
    let changes: [Change; 2] = [
        |config| with_places(config, 1, None),
        |config| config.listeners[0].limits.max_requests = Some(1),
    ];
    for change in changes {
        assert!(slow_reader_in_the_only_place(change, true));
        // And not where nobody does.
        assert!(!slow_reader_in_the_only_place(change, false));
    }
}

/// Checks that a client is found too slow though no client needed its place when Sprat began to wait
/// for it, and nothing has moved since.
#[test]
fn a_client_that_takes_nothing_is_cut_once_others_need_its_place() {
    const LARGE: &str = "/50000000";
    type Holder = fn(&Proxy) -> TcpStream;
    let holds: [Holder; 2] = [
        |proxy| unreading(proxy, LARGE).stream().try_clone().unwrap(),
        |proxy| {
            let mut raw = Raw::connect(proxy.address, &[(INITIAL_WINDOW_SIZE, 0)]);
            assert!(raw.get(1, LARGE));
            raw.stream
        },
    ];
    let origin = sized();
    for hold in holds {
        let window = Duration::from_millis(300);
        let proxy = changed(origin.address, |config| {
            let listener = &mut config.listeners[0];
            listener.request_headers_timeout = HOUR;
            listener.stream_idle_timeout = HOUR;
            listener.limits.max_requests = Some(1);
            listener.limits.min_rates.response = at_least(1, HOUR);
            listener.limits.min_rates.response_under_load = at_least(1 << 40, window);
        });
        let held = hold(&proxy);
        proxy.wait_metric(&["sprat_open_requests"], 1.0);
        // It is waited for, and was looked at.
        std::thread::sleep(2 * window);
        wait_for("the place to be free", || {
            proxy.connect().ask(get("/4")).status() == 200
        });
        proxy.wait_metric(&["sprat_bad_requests_total", "response_too_slow"], 1.0);
        drop(held);
        proxy.assert_no_leak();
    }
}

#[test]
fn a_slow_reader_is_cut_when_others_need_its_place_on_the_uplink() {
    let origin = sized();
    let proxy = changed(origin.address, |config| {
        config.uplink.rate = Rate::Fixed(1_000_000_000);
        config.classes.list[config.classes.default]
            .spec
            .max_concurrency = 1;
        // The endpoint's place is free before the client has anything.
        let all = ReadAhead {
            per_response: 10_000_000,
            total: 10_000_000,
        };
        with_places(config, 1, Some(all));
        let rates = &mut config.listeners[0].limits.min_rates;
        rates.response = at_least(1, Duration::from_secs(600));
        // More than a client can take.
        rates.response_under_load = at_least(1 << 40, Duration::from_millis(300));
    });
    let mut slow = unreading(&proxy, "/8000000");
    assert_eq!(slow.head().unwrap().status(), 200);
    // So that it takes 20 s to the end.
    let reads = std::thread::spawn(move || {
        let mut part = [0; 4 << 10];
        while matches!(slow.stream().read(&mut part), Ok(1..)) {
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    proxy.wait_metric(&["sprat_upstream_outstanding"], 0.0);
    assert_eq!(proxy.metric(&["sprat_uplink_open_flows"]), 1.0);
    assert_eq!(proxy.connect().ask(get("/4")).status(), 200);
    wait_for("the log to say why", || {
        proxy.metric(&["sprat_bad_requests_total", "response_too_slow"]) == 1.0
    });
    reads.join().unwrap();
    proxy.assert_no_leak();
}

#[test]
fn a_slow_upload_is_cut_when_others_need_its_place() {
    let origin = Origin::http(|request| ok(&request.text()));
    let proxy = limited(&origin, |limits| {
        limits.max_requests = Some(1);
        limits.min_rates.request_body = at_least(1, Duration::from_secs(600));
        limits.min_rates.request_body_under_load = at_least(10_000, Duration::from_millis(300));
    });
    let mut slow = proxy.connect();
    slow.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n");
    proxy.wait_metric(&["sprat_open_requests"], 1.0);
    wait_for("the place to be free", || {
        slow.send("x");
        std::thread::sleep(Duration::from_millis(10));
        proxy.connect().ask(get("/")).status() == 200
    });
    assert_eq!(slow.message().status(), 408);
}

/// Sends the head of a request whose body does not come, over HTTP/1.1 or HTTP/2.
fn bodiless(proxy: &Proxy, is_http2: bool) -> TcpStream {
    if !is_http2 {
        let mut client = proxy.connect();
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n");
        return client.stream().try_clone().unwrap();
    }
    let mut raw = Raw::connect(proxy.address, &[]);
    let head = block(&[
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "test.example"),
        (":path", "/"),
    ]);
    assert!(raw.frame(HEADERS, END_HEADERS, 1, &head));
    raw.stream
}

/// Starts a proxy that waits for the bodies of requests as long as the least rates say.
fn patient(origin: &Origin, change: impl FnOnce(&mut ListenerLimits)) -> Proxy {
    changed(origin.address, |config| {
        config.routes[0].idle_timeout = HOUR;
        let listener = &mut config.listeners[0];
        listener.request_headers_timeout = HOUR;
        listener.stream_idle_timeout = HOUR;
        change(&mut listener.limits);
    })
}

#[test]
fn a_client_that_sends_nothing_of_a_body_is_too_slow() {
    let origin = Origin::http(|request| ok(&request.text()));
    for is_http2 in [false, true] {
        let proxy = patient(&origin, |limits| {
            limits.min_rates.request_body = at_least(1000, Duration::from_millis(300));
        });
        let held = bodiless(&proxy, is_http2);
        proxy.wait_metric(&["sprat_bad_requests_total", "body_too_slow"], 1.0);
        drop(held);
        proxy.assert_no_leak();
    }
}

/// Checks that such a client is found too slow under load though no client needed its place when
/// Sprat began to wait for it.
#[test]
fn a_client_that_sends_nothing_is_cut_once_others_need_its_place() {
    let origin = Origin::http(|request| ok(&request.text()));
    for is_http2 in [false, true] {
        let window = Duration::from_millis(300);
        let proxy = patient(&origin, |limits| {
            limits.max_requests = Some(1);
            limits.min_rates.request_body = at_least(1, HOUR);
            limits.min_rates.request_body_under_load = at_least(1000, window);
        });
        let held = bodiless(&proxy, is_http2);
        proxy.wait_metric(&["sprat_open_requests"], 1.0);
        // It is waited for, and was looked at.
        std::thread::sleep(2 * window);
        wait_for("the place to be free", || {
            proxy.connect().ask(get("/")).status() == 200
        });
        proxy.wait_metric(&["sprat_bad_requests_total", "body_too_slow"], 1.0);
        drop(held);
        proxy.assert_no_leak();
    }
}

/// Checks that a client whose body is buffered is not cut for the places of its cluster: it holds
/// none of them yet.
#[test]
fn an_upload_that_is_buffered_is_not_cut_for_a_place_at_an_endpoint() {
    let free = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&free);
    let origin = Origin::http(move |request| {
        wait_for("the place to become free", || told.load(SeqCst));
        ok(&request.text())
    });
    let window = Duration::from_millis(300);
    let proxy = changed(origin.address, |config| {
        config.routes[0].buffer.request = Some(BufferedBody {
            memory_bytes: 1000,
            file: None,
        });
        with_cluster(config, |cluster| cluster.max_requests = 1);
        let rates = &mut config.listeners[0].limits.min_rates;
        rates.request_body = at_least(1, HOUR);
        rates.request_body_under_load = at_least(1000, window);
    });
    let mut upload = proxy.connect();
    upload.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n01234");
    proxy.wait_metric(&["sprat_open_requests"], 1.0);
    let mut holder = proxy.connect();
    holder.send(get("/"));
    proxy.wait_metric(&["sprat_upstream_outstanding"], 1.0);
    let mut waiter = proxy.connect();
    waiter.send(get("/"));
    proxy.wait_metric(&["sprat_waiting_requests"], 1.0);
    std::thread::sleep(4 * window);
    upload.send("56789");
    free.store(true, SeqCst);
    assert_eq!(upload.message().text(), "0123456789");
    for mut client in [holder, waiter] {
        assert_eq!(client.message().status(), 200);
    }
    drop(upload);
    proxy.assert_no_leak();
}

fn three_an_hour(key: ClientBy) -> Option<RateLimit> {
    Some(RateLimit {
        key,
        bucket: Bucket {
            max_tokens: 3,
            interval: HOUR,
        },
        max_keys: 1000,
    })
}

#[test]
fn a_client_that_asks_too_often_is_429() {
    let origin = Origin::http(|_| ok("fine"));
    let proxy = limited(&origin, |limits| {
        limits.rate_limit = three_an_hour(ClientBy::Client);
    });
    let mut client = proxy.connect();
    for _ in 0..3 {
        assert_eq!(client.ask(get("/")).status(), 200);
    }
    // Whichever connection it comes over.
    for client in [&mut client, &mut proxy.connect()] {
        let refused = client.ask(get("/"));
        assert_eq!(refused.status(), 429);
        let field = |name| refused.field(name).unwrap();
        let retry_after: u64 = field("retry-after").parse().unwrap();
        assert!((1..=3600).contains(&retry_after));
        assert_eq!(field("ratelimit-policy"), "\"requests\";q=3;w=10800");
        assert_eq!(
            field("ratelimit"),
            format!("\"requests\";r=0;t={retry_after}")
        );
    }
    proxy.wait_metric(&["sprat_bad_requests_total", "rate_limited"], 2.0);
}

#[test]
fn a_route_may_count_by_a_header_field() {
    let origin = Origin::http(|_| ok("fine"));
    let proxy = changed(origin.address, |config| {
        let mut counted = route(&config.clusters[0]);
        counted.matches.path = PathPattern::Prefix("/api".to_owned());
        counted.rate_limit = three_an_hour(ClientBy::Header("x-key".to_owned()));
        config.routes.insert(0, counted);
    });
    let mut client = proxy.connect();
    let mut ask = |path: &str, key: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n{key}\r\n");
        client.ask(request).status()
    };
    // Without the field it is the address that counts.
    for key in ["X-Key: a\r\n", "X-Key: b\r\n", ""] {
        let statuses = [(); 4].map(|()| ask("/api", key));
        assert_eq!(statuses, [200, 200, 200, 429], "{key}");
    }
    assert_eq!(ask("/other", "X-Key: a\r\n"), 200);
}

fn overloaded(origin: &Origin, heap: HeapBounds) -> Proxy {
    changed(origin.address, |config| {
        config.overload_manager = Some(OverloadManager {
            heap,
            refresh_interval: Duration::from_millis(10),
        });
    })
}

#[test]
fn requests_are_refused_when_memory_is_short() {
    let origin = Origin::http(|_| ok("fine"));
    // A share of what there is that any process needs.
    let proxy = overloaded(
        &origin,
        HeapBounds {
            max_bytes: 1 << 40,
            stop_accepting_requests: 1e-9,
            stop_accepting_connections: 1.0,
        },
    );
    wait_for("a refusal", || {
        let mut client = proxy.connect();
        let answer = client.ask(get("/"));
        if answer.status() == 200 {
            return false;
        }
        assert_eq!(answer.status(), 503);
        assert_eq!(answer.field("retry-after"), Some("1"));
        assert!(answer.text().contains("heap_full"));
        assert!(client.is_closed());
        true
    });
    proxy.assert_no_leak();
}

#[test]
fn connections_are_refused_and_exchanges_ended_when_memory_is_out() {
    let (origin, comes, go) = held();
    let proxy = overloaded(
        &origin,
        HeapBounds {
            max_bytes: 1,
            stop_accepting_requests: 0.9,
            stop_accepting_connections: 0.9,
        },
    );
    // Accepted before or after the first look: it does not last.
    let mut early = proxy.connect();
    early.send(get("/"));
    assert!(early.is_closed());
    proxy.wait_metric(&["sprat_open_connections"], 0.0);
    wait_for("a connection to be refused", || {
        assert!(proxy.connect().is_closed());
        proxy.metric(&["sprat_refused_connections_total", "heap_full"]) > 0.0
    });
    if comes.try_recv().is_ok() {
        go.send(()).unwrap();
    }
    proxy.assert_no_leak();
}
