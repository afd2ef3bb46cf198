//! Tests of routing, bounds, pools, shutdown and an operator's view, over real sockets.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::*;
use socket2::{Domain, Socket, Type};
use sprat_config::resolved::*;
use sprat_scheduler::{Discipline, WireCost};

fn named(name: &'static str) -> Origin {
    Origin::http(move |request| {
        ok(&format!(
            "{name} {} {}",
            request.start,
            request.field("host").unwrap_or("-")
        ))
    })
}

#[test]
fn hosts_and_paths_choose_the_cluster() {
    let (a, b) = (named("a"), named("b"));
    let mut config = config(&[a.address]);
    let farm = Arc::clone(&config.clusters[0]);
    let other = Arc::new(Cluster {
        name: "other".to_owned(),
        endpoints: vec![endpoint(b.address)],
        ..Cluster::clone(&farm)
    });
    config.clusters.push(Arc::clone(&other));
    config.routes = vec![
        Route {
            matches: RouteMatch {
                hosts: vec![HostPattern::Exact("b.example".to_owned())],
                path: PathPattern::Prefix("/api".to_owned()),
            },
            prefix_rewrite: Some("/v1".to_owned()),
            host_rewrite: Some("inner.example".to_owned()),
            ..route(&other)
        },
        Route {
            matches: RouteMatch {
                hosts: vec![HostPattern::Suffix(".example".to_owned())],
                path: PathPattern::Any,
            },
            ..route(&farm)
        },
    ];
    let proxy = Proxy::start(&config);
    let ask = |host: &str, path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        proxy.connect().ask(request)
    };
    assert_eq!(
        ask("B.example:80", "/api/x?y").text(),
        "b GET /v1/x?y HTTP/1.1 inner.example"
    );
    assert_eq!(
        ask("b.example", "/apix").text(),
        "a GET /apix HTTP/1.1 b.example"
    );
    assert_eq!(
        ask("b.example.:80", "/api").text(),
        "b GET /v1 HTTP/1.1 inner.example"
    );
    let lost = ask("elsewhere", "/");
    assert_eq!(lost.status(), 404);
    assert!(
        lost.field("proxy-status")
            .unwrap()
            .contains("destination_not_found")
    );
    proxy.wait_metric(&["sprat_requests_total", "cluster=\"other\"", "2xx"], 2.0);
    proxy.wait_metric(&["sprat_requests_total", "cluster=\"\"", "4xx"], 1.0);
}

#[test]
fn a_text_client_gets_text() {
    let origin = named("a");
    let mut config = config(&[origin.address]);
    config.routes[0].matches.path = PathPattern::Exact("/only".to_owned());
    let proxy = Proxy::start(&config);
    let answer = proxy
        .connect()
        .ask("GET / HTTP/1.1\r\nHost: a\r\nAccept: text/plain\r\n\r\n");
    assert_eq!(
        answer.field("content-type"),
        Some("text/plain; charset=utf-8")
    );
    assert_eq!(
        answer.text(),
        "404 Not Found: no route matches the request\n"
    );
}

#[test]
fn round_robin_takes_turns() {
    let origins = [named("a"), named("b"), named("c")];
    let proxy = Proxy::of(&[&origins[0], &origins[1], &origins[2]]);
    let mut client = proxy.connect();
    let names: String = (0..6)
        .map(|_| client.ask(get("/")).text().remove(0))
        .collect();
    assert_eq!(names, "abcabc");
}

#[test]
fn an_endpoint_that_refuses_is_passed_over() {
    let origin = named("a");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let refused = listener.local_addr().unwrap();
    drop(listener);
    let proxy = Proxy::logging(config(&[refused, origin.address]));
    let mut client = proxy.connect();
    for _ in 0..4 {
        assert_eq!(client.ask(get("/")).status(), 200);
    }
    assert!(proxy.metric(&["sprat_upstream_errors_total", "connection_refused"]) > 0.0);
    drop(client);
    proxy.assert_no_leak();
}

#[test]
fn a_dead_pooled_connection_is_replaced_without_the_client_noticing() {
    // Each connection serves one request, then dies when the next comes.
    let origin = Origin::start(|mut peer| {
        peer.message();
        peer.send(ok("fine"));
        peer.head();
    });
    let proxy = Proxy::of(&[&origin]);
    let mut client = proxy.connect();
    for n in 1..=3 {
        assert_eq!(client.ask(get("/")).text(), "fine");
        assert_eq!(origin.connections(), n);
    }
    proxy.wait_metric(&["sprat_upstream_retries_total"], 2.0);
    // What may have had an effect is not repeated.
    let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(client.ask(post).status(), 502);
    assert_eq!(origin.connections(), 3);
    drop(client);
    proxy.assert_no_leak();
}

#[test]
fn idle_upstream_connections_are_bounded_and_time_out() {
    let gate = Arc::new(std::sync::Barrier::new(3));
    let origin = Origin::http({
        let gate = Arc::clone(&gate);
        move |_| {
            gate.wait();
            ok("fine")
        }
    });
    let mut config = config(&[origin.address]);
    with_cluster(&mut config, |cluster| {
        cluster.max_idle_connections = 2;
        cluster.idle_timeout = Duration::from_millis(1500);
    });
    let proxy = Proxy::start(&config);
    let mut clients: Vec<_> = (0..3).map(|_| proxy.connect()).collect();
    for client in &mut clients {
        client.send(get("/"));
    }
    for client in &mut clients {
        assert_eq!(client.message().text(), "fine");
    }
    assert_eq!(origin.connections(), 3);
    proxy.wait_metric(&["sprat_upstream_connections"], 2.0);
    proxy.wait_metric(&["sprat_upstream_idle_connections"], 2.0);
    proxy.wait_metric(&["sprat_upstream_connections"], 0.0);
}

#[test]
fn connections_to_an_endpoint_are_bounded() {
    let (entered, inside) = std::sync::mpsc::channel();
    let gate = Arc::new(std::sync::Barrier::new(2));
    let origin = Origin::http({
        let gate = Arc::clone(&gate);
        move |_| {
            entered.send(()).unwrap();
            gate.wait();
            ok("fine")
        }
    });
    let mut config = config(&[origin.address]);
    with_cluster(&mut config, |cluster| cluster.max_connections = 1);
    let proxy = Proxy::logging(config);
    let mut first = proxy.connect();
    first.send(get("/"));
    inside.recv_timeout(PATIENCE).unwrap();
    let answer = proxy.connect().ask(get("/"));
    assert_eq!(answer.status(), 503);
    assert!(
        answer
            .field("proxy-status")
            .unwrap()
            .contains("connection_limit_reached")
    );
    gate.wait();
    assert_eq!(first.message().text(), "fine");
    drop(first);
    proxy.assert_no_leak();
}

#[test]
fn a_worker_at_the_bound_gets_a_connection_that_another_keeps_idle() {
    let origin = named("a");
    let mut config = config(&[origin.address]);
    config.runtime.workers = 4;
    with_cluster(&mut config, |cluster| cluster.max_connections = 1);
    let proxy = Proxy::start(&config);
    // The kernel spreads the connections over the workers.
    for _ in 0..40 {
        assert_eq!(proxy.connect().ask(get("/")).status(), 200);
    }
    assert!(proxy.metric(&["sprat_upstream_connections"]) <= 1.0);
    proxy.assert_no_leak();
}

#[test]
fn client_connections_are_bounded() {
    let origin = named("a");
    let mut config = config(&[origin.address]);
    config.listeners[0].max_connections = 2;
    let proxy = Proxy::start(&config);
    let mut kept: Vec<_> = (0..2).map(|_| proxy.connect()).collect();
    for client in &mut kept {
        assert_eq!(client.ask(get("/")).status(), 200);
    }
    assert!(proxy.connect().is_closed());
    proxy.wait_metric(&["sprat_refused_connections_total", "listener_full"], 1.0);
    kept.pop();
    proxy.wait_metric(&["sprat_open_connections"], 1.0);
    assert_eq!(proxy.connect().ask(get("/")).status(), 200);
}

#[test]
fn a_connect_that_hangs_is_504() {
    // A full backlog makes the kernel drop further SYNs.
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let any: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
    socket.bind(&any.into()).unwrap();
    socket.listen(0).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    let filler = std::net::TcpStream::connect(address).unwrap();
    let mut config = config(&[address]);
    with_cluster(&mut config, |cluster| {
        cluster.connect_timeout = Duration::from_millis(300);
    });
    let proxy = Proxy::logging(config);
    let answer = proxy.connect().ask(get("/"));
    assert_eq!(answer.status(), 504);
    assert!(
        answer
            .field("proxy-status")
            .unwrap()
            .contains("error=connection_timeout")
    );
    drop(filler);
    proxy.wait_metric(&["sprat_upstream_errors_total", "connection_timeout"], 1.0);
    proxy.assert_no_leak();
}

#[test]
fn a_name_is_looked_up_and_one_without_an_address_is_503() {
    let origin = named("a");
    let mut config = config(&[origin.address]);
    let port = origin.address.port();
    with_cluster(&mut config, |cluster| {
        cluster.endpoints[0].address = EndpointAddress::Name {
            host: "localhost".to_owned(),
            port,
        };
    });
    assert_eq!(Proxy::start(&config).connect().ask(get("/")).status(), 200);
    with_cluster(&mut config, |cluster| {
        cluster.endpoints[0].address = EndpointAddress::Name {
            host: "nothing.invalid".to_owned(),
            port,
        };
    });
    let answer = Proxy::start(&config).connect().ask(get("/"));
    assert_eq!(answer.status(), 503);
    assert!(
        answer
            .field("proxy-status")
            .unwrap()
            .contains("error=destination_unavailable")
    );
}

#[test]
fn a_response_to_a_client_that_does_not_read_is_not_held_in_memory() {
    let sent = Arc::new(AtomicUsize::new(0));
    let origin = Origin::start({
        let sent = Arc::clone(&sent);
        move |mut peer| {
            peer.message();
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 209715200\r\n\r\n");
            let block = vec![7; 1 << 20];
            for _ in 0..200 {
                if !peer.send(&block) {
                    return;
                }
                sent.fetch_add(block.len(), Ordering::SeqCst);
            }
        }
    });
    let proxy = Proxy::of(&[&origin]);
    let mut client = proxy.connect();
    client.send(get("/"));
    assert_eq!(client.head().unwrap().status(), 200);
    // Until the origin gets nothing more through.
    let mut before = usize::MAX;
    wait_for("back-pressure", || {
        std::thread::sleep(Duration::from_millis(300));
        let now = sent.load(Ordering::SeqCst);
        std::mem::replace(&mut before, now) == now
    });
    // The rest is in the kernels' socket buffers (at most some MB each).
    assert!(before < 40 << 20, "{before} bytes are on their way");
    let mut rest = vec![0; 1 << 20];
    let mut read = 0;
    while read < 200 << 20 {
        let count = std::io::Read::read(&mut client.reader, &mut rest).unwrap();
        assert!(count > 0 && rest[..count].iter().all(|&byte| byte == 7));
        read += count;
    }
    drop(client);
    assert_eq!(proxy.log_lines(1)[0]["bytes"], 200 << 20);
    proxy.assert_no_leak();
}

#[test]
fn an_upload_is_not_held_in_memory_and_arrives_whole() {
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let origin = Origin::start(move |mut peer| {
        let head = peer.head().unwrap();
        assert_eq!(head.field("content-length"), Some("104857600"));
        wait.lock().unwrap().recv_timeout(PATIENCE).unwrap();
        let mut sink = vec![0; 1 << 20];
        let mut left = 104_857_600;
        while left > 0 {
            left -= std::io::Read::read(&mut peer.reader, &mut sink).unwrap();
        }
        peer.send(ok("thanks"));
    });
    let proxy = Proxy::of(&[&origin]);
    let mut client = proxy.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 104857600\r\n\r\n");
    let sent = Arc::new(AtomicUsize::new(0));
    let mut writer = client.stream().try_clone().unwrap();
    let counter = Arc::clone(&sent);
    let upload = std::thread::spawn(move || {
        let block = vec![1; 1 << 20];
        for _ in 0..100 {
            std::io::Write::write_all(&mut writer, &block).unwrap();
            counter.fetch_add(block.len(), Ordering::SeqCst);
        }
    });
    let mut before = usize::MAX;
    wait_for("back-pressure", || {
        std::thread::sleep(Duration::from_millis(300));
        let now = sent.load(Ordering::SeqCst);
        std::mem::replace(&mut before, now) == now
    });
    assert!(before < 40 << 20, "{before} bytes are on their way");
    go.send(()).unwrap();
    upload.join().unwrap();
    assert_eq!(client.message().text(), "thanks");
}

#[test]
fn sizes_are_learnt_and_used_when_none_is_announced() {
    let origin = Origin::http(|_| {
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n".to_owned()
    });
    let proxy = Proxy::of(&[&origin]);
    let mut client = proxy.connect();
    for path in ["/a", "/a", "/b"] {
        assert_eq!(client.ask(get(path)).text(), "abc");
    }
    let lines = proxy.log_lines(3);
    let known: Vec<_> = lines
        .iter()
        .map(|line| (&line["size_source"], &line["size"]))
        .collect();
    assert_eq!(known[0], (&"unknown".into(), &serde_json::Value::Null));
    assert_eq!(known[1], (&"estimate".into(), &3.into()));
    assert_eq!(known[2].0, "unknown");
    proxy.wait_metric(&["sprat_catalogue_lookups_total", "hit"], 1.0);
    proxy.wait_metric(&["sprat_catalogue_lookups_total", "miss"], 2.0);
    proxy.wait_metric(&["sprat_catalogue_entries"], 2.0);
}

#[test]
fn a_drain_finishes_what_is_open_and_accepts_no_more() {
    let (entered, inside) = std::sync::mpsc::channel();
    let gate = Arc::new(std::sync::Barrier::new(2));
    let origin = Origin::http({
        let gate = Arc::clone(&gate);
        move |request| {
            if request.start.contains("/slow") {
                entered.send(()).unwrap();
                gate.wait();
            }
            ok("fine")
        }
    });
    let mut config = config(&[origin.address]);
    config.admin = Some(admin());
    let mut proxy = Proxy::logging(config);
    let admin = proxy.server.as_ref().unwrap().admin_address().unwrap();
    let ready = || Peer::connect(admin).ask(get("/readyz")).status();
    assert_eq!(ready(), 200);
    let mut idle = proxy.connect();
    assert_eq!(idle.ask(get("/")).status(), 200);
    let mut busy = proxy.connect();
    busy.send(get("/slow"));
    inside.recv_timeout(PATIENCE).unwrap();
    proxy.server.as_ref().unwrap().control().drain();
    assert!(idle.is_closed());
    wait_for("the listener to close", || {
        std::net::TcpStream::connect(proxy.address).is_err()
    });
    assert_eq!(ready(), 503);
    assert_eq!(Peer::connect(admin).ask(get("/livez")).status(), 200);
    gate.wait();
    let answer = busy.message();
    assert_eq!(
        (answer.text(), answer.field("connection")),
        ("fine".to_owned(), Some("close"))
    );
    assert!(busy.is_closed());
    proxy.server.take().unwrap().join().unwrap();
    assert_eq!(proxy.log_lines(2)[1]["aborted"], false);
}

#[test]
fn a_drain_is_bounded() {
    let origin = Origin::start(|mut peer| {
        peer.message();
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc");
        peer.head();
    });
    let mut config = config(&[origin.address]);
    config.runtime.drain_timeout = Duration::from_millis(300);
    let mut proxy = Proxy::logging(config);
    let mut client = proxy.connect();
    client.send(get("/"));
    assert_eq!(client.head().unwrap().status(), 200);
    let server = proxy.server.take().unwrap();
    server.control().drain();
    server.join().unwrap();
    assert!(client.is_closed());
    let line = proxy.log_lines(1).remove(0);
    assert_eq!(
        (&line["reason"], &line["aborted"]),
        (&"shutdown".into(), &true.into())
    );
}

#[test]
fn several_workers_share_the_port_and_the_counts() {
    let origin = named("a");
    let mut config = config(&[origin.address]);
    config.runtime.workers = 3;
    let proxy = Proxy::start(&config);
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let address = proxy.address;
            std::thread::spawn(move || {
                for _ in 0..25 {
                    assert_eq!(Peer::connect(address).ask(get("/")).status(), 200);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    proxy.wait_metric(&["sprat_requests_total", "cluster=\"farm\"", "2xx"], 200.0);
    proxy.wait_metric(&["sprat_response_duration_seconds_count"], 200.0);
    proxy.assert_no_leak();
}

/// Connects a client whose receive buffer is small.
fn narrow(proxy: &Proxy) -> Peer {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(&proxy.address.into()).unwrap();
    Peer::new(socket.into())
}

#[test]
fn a_response_is_told_of_when_its_client_has_acknowledged_it() {
    const UNREAD_FOR: Duration = Duration::from_millis(200);
    const COUNT: &[&str] = &["sprat_response_acknowledged_seconds_count"];
    let origin = Origin::http(|_| ok(&"x".repeat(20_000)));
    let mut config = config(&[origin.address]);
    config.uplink.rate = Rate::Fixed(100_000_000);
    let proxy = Proxy::logging(config);
    for (number, close) in ["keep-alive", "close"].into_iter().enumerate() {
        let mut client = narrow(&proxy);
        client.send(format!(
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: {close}\r\n\r\n"
        ));
        let [written, told] = [number as f64 + 1.0, number as f64];
        proxy.wait_metric(&["sprat_response_duration_seconds_count"], written);
        std::thread::sleep(UNREAD_FOR);
        assert_eq!(proxy.metric(COUNT), told, "{close}");
        assert_eq!(client.message().body.len(), 20_000);
        proxy.wait_metric(COUNT, written);
        let lines = proxy.log_lines(number + 1);
        let line = &lines[number];
        let [all_ms, written_ms] =
            ["acknowledged_ms", "duration_ms"].map(|key| line[key].as_f64().unwrap());
        let unread_ms = UNREAD_FOR.as_secs_f64() * 1e3;
        assert!(all_ms >= written_ms.max(unread_ms), "{line}");
    }
    // One that goes away without it leaves that open, and its line is there.
    let client = {
        let mut client = narrow(&proxy);
        client.send(get("/"));
        proxy.wait_metric(&["sprat_response_duration_seconds_count"], 3.0);
        client
    };
    drop(client);
    let lines = proxy.log_lines(3);
    assert!(lines[2]["acknowledged_ms"].is_null(), "{lines:?}");
    assert_eq!(proxy.metric(COUNT), 2.0);
}

/// Checks that slowdown counts the link's time alone, without the backend's.
#[test]
fn slowdown_counts_the_links_time_alone() {
    let origin = Origin::http(|request| {
        std::thread::sleep(Duration::from_millis(200));
        match request.start.contains("/empty") {
            true => ok(""),
            false => ok(&"x".repeat(1000)),
        }
    });
    let mut config = config(&[origin.address]);
    config.uplink.rate = Rate::Fixed(1_000_000);
    let proxy = Proxy::logging(config);
    let mut client = proxy.connect();
    assert_eq!(client.ask(get("/empty")).status(), 200);
    assert_eq!(client.ask(get("/full")).status(), 200);
    proxy.wait_metric(&["sprat_response_slowdown_ratio_count"], 1.0);
    let lines = proxy.log_lines(2);
    assert!(lines[0]["slowdown"].is_null(), "{lines:?}");
    let [all_ms, slowdown] = ["duration_ms", "slowdown"].map(|key| lines[1][key].as_f64().unwrap());
    let ideal_ms = WireCost::ETHERNET_IPV4.bytes(1000) as f64 * 8.0 / 1e3;
    let own_ms = (all_ms - 200.0).max(ideal_ms);
    assert!(slowdown * ideal_ms < own_ms + 0.1, "{lines:?}");
}

#[test]
fn slowdown_leaves_out_what_the_backend_takes_between_its_pieces() {
    const PIECES: usize = 10;
    const APART: Duration = Duration::from_millis(40);
    let origin = Origin::start(|mut peer| {
        while peer.try_message(true).is_some() {
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
            for _ in 0..PIECES {
                std::thread::sleep(APART);
                peer.send("x".repeat(1000 / PIECES));
            }
        }
    });
    let mut config = config(&[origin.address]);
    config.uplink.rate = Rate::Fixed(1_000_000);
    let proxy = Proxy::logging(config);
    assert_eq!(proxy.connect().ask(get("/")).status(), 200);
    let line = &proxy.log_lines(1)[0];
    let [all_ms, slowdown] = ["duration_ms", "slowdown"].map(|key| line[key].as_f64().unwrap());
    let ideal_ms = WireCost::ETHERNET_IPV4.bytes(1000) as f64 * 8.0 / 1e3;
    // The first piece is waited for with the head.
    let backend_ms = (PIECES - 1) as f64 * APART.as_secs_f64() * 1e3;
    let own_ms = (all_ms - backend_ms).max(ideal_ms);
    assert!(slowdown * ideal_ms < own_ms + 0.1, "{line}");
}

/// Checks that a client that leaves while its response waits for the link is logged as 499.
#[test]
fn a_client_that_has_gone_before_its_response_is_499() {
    let origin = Origin::http(|_| ok(&"x".repeat(50_000)));
    let mut config = config(&[origin.address]);
    config.uplink.rate = Rate::Fixed(200_000);
    config.uplink.policy = Discipline::Fcfs;
    let proxy = Proxy::logging(config);
    let mut first = proxy.connect();
    first.send(get("/first"));
    first.stream().peek(&mut [0]).unwrap();
    let mut second = proxy.connect();
    second.send(get("/second"));
    proxy.wait_metric(&["sprat_uplink_open_flows"], 2.0);
    reset(second);
    let line = proxy.log_lines(1).remove(0);
    assert_eq!(
        (&line["path"], &line["status"]),
        (&"/second".into(), &499.into())
    );
    assert_eq!(
        (&line["bytes"], &line["reason"]),
        (&0.into(), &"client_closed".into())
    );
    assert_eq!(line["aborted"], true);
    // No status was sent.
    proxy.wait_metric(&["sprat_requests_total", "code=\"none\""], 1.0);
    // This one's head has gone out with a part of its body: it got a 200.
    drop(first);
    let lines = proxy.log_lines(2);
    assert_eq!(
        (&lines[1]["status"], &lines[1]["aborted"]),
        (&200.into(), &true.into())
    );
}

#[test]
fn the_admin_listener_answers() {
    let origin = named("a");
    let mut config = config(&[origin.address]);
    config.admin = Some(admin());
    let proxy = Proxy::start(&config);
    assert_eq!(proxy.connect().ask(get("/")).status(), 200);
    let admin = proxy.server.as_ref().unwrap().admin_address().unwrap();
    let mut client = Peer::connect(admin);
    assert!(client.ask(get("/")).text().contains("/metrics"));
    wait_for("the request to be counted", || {
        let text = client.ask(get("/metrics")).text();
        metric(&text, &["sprat_requests_total", "farm", "2xx"]) == 1.0
    });
    assert_eq!(client.ask(get("/nothing")).status(), 404);
    assert_eq!(
        client
            .ask("POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
            .status(),
        405
    );
}

#[test]
fn the_log_is_reopened_after_rotation() {
    let origin = named("a");
    let proxy = Proxy::of(&[&origin]);
    assert_eq!(proxy.connect().ask(get("/1")).status(), 200);
    proxy.log_lines(1);
    let path = proxy.log.as_ref().unwrap();
    std::fs::rename(path, path.with_extension("1")).unwrap();
    proxy.server.as_ref().unwrap().control().reopen_log();
    assert_eq!(proxy.connect().ask(get("/2")).status(), 200);
    wait_for("a new log", || path.exists());
    assert_eq!(proxy.log_lines(1)[0]["path"], "/2");
}

#[test]
fn curl_is_served() {
    let origin = Origin::http(|request| ok(&format!("{} {}", request.start, request.body.len())));
    let proxy = Proxy::of(&[&origin]);
    let curl = |arguments: &[&str]| {
        let url = format!("http://{}/x", proxy.address);
        let output = Command::new("curl")
            .args(["-sS", "--max-time", "20"])
            .args(arguments)
            .arg(url)
            .output();
        let output = output.expect("curl is installed");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(curl(&[]), "GET /x HTTP/1.1 0");
    let large = "x".repeat(3000);
    assert_eq!(curl(&["-d", &large]), "POST /x HTTP/1.1 3000");
    assert_eq!(
        curl(&["-H", "Expect: 100-continue", "-d", &large]),
        "POST /x HTTP/1.1 3000"
    );
    assert_eq!(
        curl(&["-H", "Transfer-Encoding: chunked", "-d", "abc"]),
        "POST /x HTTP/1.1 3"
    );
    assert!(curl(&["-i", "--http1.0"]).starts_with("HTTP/1.0 200 OK\r\n"));
    proxy.assert_no_leak();
}
