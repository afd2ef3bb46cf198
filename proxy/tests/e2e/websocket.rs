//! Tests of connections that switch to another protocol (RFC 9110 7.8): WebSocket by a real client
//! and server, others over raw sockets.

use std::io::{ErrorKind, Read as _};
use std::net::TcpStream;
use std::time::Duration;

use crate::common::*;
use sprat_config::resolved::*;
use tungstenite::{Message as Frame, WebSocket};

/// Starts an origin that sends every message back until the client closes.
fn echo() -> Origin {
    Origin::start(|peer| {
        let stream = peer.reader.into_inner();
        let Ok(mut socket) = tungstenite::accept(stream) else {
            return;
        };
        while let Ok(message) = socket.read() {
            if !message.is_close() && socket.send(message).is_err() {
                return;
            }
        }
        // What is left of the closing handshake.
        while socket.flush().is_ok() && socket.read().is_ok() {}
    })
}

fn open(proxy: &Proxy) -> WebSocket<TcpStream> {
    let stream = TcpStream::connect(proxy.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let (socket, answer) = tungstenite::client("ws://test.example/chat", stream).unwrap();
    assert_eq!(answer.status(), 101);
    socket
}

fn say(socket: &mut WebSocket<TcpStream>, message: impl Into<Frame>) {
    let message = message.into();
    socket.send(message.clone()).unwrap();
    assert_eq!(socket.read().unwrap(), message);
}

fn close(mut socket: WebSocket<TcpStream>) {
    socket.close(None).unwrap();
    while socket.read().is_ok() {}
}

#[test]
fn messages_pass_both_ways_and_are_counted() {
    let origin = echo();
    let proxy = Proxy::of(&[&origin]);
    let mut socket = open(&proxy);
    proxy.wait_metric(&["sprat_open_tunnels"], 1.0);
    say(&mut socket, "hello");
    say(&mut socket, vec![7; 1 << 20]);
    // Its endpoint's place is free; its connection is still counted.
    proxy.wait_metric(&["sprat_upstream_outstanding"], 0.0);
    proxy.wait_metric(&["sprat_upstream_connections"], 1.0);
    close(socket);
    let line = &proxy.log_lines(1)[0];
    assert_eq!(line["status"], 101);
    assert!(line["bytes"].as_u64().unwrap() > 1 << 20, "{line}");
    assert_eq!(line["aborted"], false);
    proxy.wait_metric(&["sprat_open_tunnels"], 0.0);
    proxy.wait_metric(&["sprat_tunnels_total"], 1.0);
    assert!(proxy.metric(&["sprat_tunnel_bytes_total", "downstream"]) > f64::from(1 << 20));
    assert!(proxy.metric(&["sprat_tunnel_bytes_total", "upstream"]) > f64::from(1 << 20));
    // It is no response: it has no duration among theirs.
    let durations = proxy.metric(&["sprat_response_duration_seconds_count"]);
    assert!(durations.abs() < 1e-9, "{durations}");
    proxy.assert_no_leak();
}

#[test]
fn a_paced_uplink_paces_tunnels_too() {
    let origin = echo();
    let mut config = config(&[origin.address]);
    config.uplink.rate = Rate::Fixed(200_000_000);
    let proxy = Proxy::start(&config);
    let mut socket = open(&proxy);
    let before = proxy.metric(&["sprat_uplink_granted_bytes_total"]);
    say(&mut socket, vec![7; 1 << 20]);
    let granted = proxy.metric(&["sprat_uplink_granted_bytes_total"]) - before;
    assert!(granted > f64::from(1 << 20), "{granted}");
    // A tunnel where nothing moves is no flow.
    proxy.wait_metric(&["sprat_uplink_open_flows"], 0.0);
    say(&mut socket, "on");
    close(socket);
}

const ASK: &str = "GET /x HTTP/1.1\r\nHost: test.example\r\nConnection: keep-alive, Upgrade\r\n\
                   Upgrade: websocket\r\n\r\n";

const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
                      Upgrade: WebSocket\r\nX-Own: y\r\n\r\n";

#[test]
fn bytes_pass_as_they_are_from_the_first_to_a_half_close() {
    // What would be requests, and such as are refused.
    let odd =
        "GET /#a HTTP/1.1\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n".repeat(99);
    let expected = odd.clone();
    let origin = Origin::start(move |mut peer| {
        let head = peer.head().unwrap();
        assert_eq!(head.field("upgrade"), Some("websocket"));
        assert_eq!(head.field("connection"), Some("upgrade"));
        peer.send(format!("{SWITCH}first"));
        let mut all = String::new();
        peer.reader.read_to_string(&mut all).unwrap();
        assert_eq!(all, expected);
        peer.send("last");
    });
    let proxy = Proxy::of(&[&origin]);
    let mut client = proxy.connect();
    client.send(format!("{ASK}{odd}"));
    let head = client.head().unwrap();
    assert_eq!(head.status(), 101);
    assert_eq!(head.field("upgrade"), Some("WebSocket"));
    assert_eq!(head.field("connection"), Some("upgrade"));
    assert_eq!(head.field("x-own"), Some("y"));
    client.half_close();
    let mut rest = String::new();
    client.reader.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "firstlast");
    let line = &proxy.log_lines(1)[0];
    assert_eq!(
        (&line["bytes"], &line["aborted"]),
        (&9.into(), &false.into())
    );
    proxy.assert_no_leak();
}

#[test]
fn the_head_of_a_switch_is_changed_as_any_response_s() {
    let origin = Origin::start(|mut peer| {
        peer.head().unwrap();
        peer.send(SWITCH);
        peer.is_closed();
    });
    let text = format!(
        "version: 1\nadmin: off\nruntime: {{workers: 1}}\n\
         listeners: [{{address: 127.0.0.1:0, request_id: {{in_response: true}}}}]\n\
         clusters: {{a: {{endpoints: ['{}']}}}}\nroutes:\n- cluster: a\n  \
         response_headers_to_remove: [x-own]\n  \
         response_headers_to_set: [{{name: X-Status, value: '%RESPONSE_CODE%'}}]\n",
        origin.address
    );
    let loaded = sprat_config::parse(&text, "test", &|_| None);
    let proxy = Proxy::logging(loaded.unwrap_or_else(|errors| panic!("{errors}")).config);
    let mut client = proxy.connect();
    client.send(ASK);
    let head = client.head().unwrap();
    assert_eq!(head.status(), 101);
    assert_eq!(head.field("upgrade"), Some("WebSocket"));
    assert_eq!(head.field("x-own"), None);
    assert_eq!(head.field("x-status"), Some("101"));
    drop(client);
    let line = proxy.log_lines(1).remove(0);
    assert_eq!(head.field("x-request-id"), line["request_id"].as_str());
    proxy.assert_no_leak();
}

#[test]
fn what_is_not_allowed_is_served_as_if_it_had_not_been_asked() {
    // Says what it was asked to switch to.
    let origin = Origin::http(|request| ok(request.field("upgrade").unwrap_or("nothing")));
    let mut config = config(&[origin.address]);
    let mut closed = config.routes[0].clone();
    closed.matches.path = PathPattern::Prefix("/off".to_owned());
    closed.upgrade = None;
    config.routes.insert(0, closed);
    let proxy = Proxy::start(&config);
    let mut client = proxy.connect();
    for (request, asked) in [
        (
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
            "websocket",
        ),
        (
            "GET /off HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
            "nothing",
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\r\n",
            "nothing",
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n",
            "nothing",
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: h2c, WebSocket/13\r\n\
             Upgrade: irc\r\n\r\n",
            "WebSocket/13",
        ),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
             Content-Length: 2\r\n\r\nab",
            "nothing",
        ),
        (
            "GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive, upgrade\r\nUpgrade: websocket\r\n\r\n",
            "nothing",
        ),
    ] {
        // A refusal is an answer like any other: the connection goes on.
        assert_eq!(client.ask(request).text(), asked, "{request}");
    }
    drop(client);
    proxy.assert_no_leak();
}

#[test]
fn a_switch_that_nobody_asked_for_is_an_error() {
    let origin = Origin::start(|mut peer| {
        while let Some(request) = peer.head() {
            let protocol = match request.start.contains("/other") {
                true => "irc",
                false => "websocket",
            };
            peer.send(SWITCH.replace("WebSocket", protocol));
        }
    });
    let proxy = Proxy::of(&[&origin]);
    let mut client = proxy.connect();
    assert_eq!(client.ask(get("/")).status(), 502);
    assert_eq!(client.ask(ASK.replace("/x", "/other")).status(), 502);
    drop(client);
    proxy.assert_no_leak();
}

#[test]
fn tunnels_are_bounded_and_end_when_idle() {
    let origin = echo();
    let mut config = config(&[origin.address]);
    config.listeners[0].max_tunnels = 1;
    config.routes[0].upgrade.as_mut().unwrap().idle_timeout = Duration::from_millis(500);
    let proxy = Proxy::logging(config);
    let mut socket = open(&proxy);
    let refused = proxy.connect().ask(ASK);
    assert_eq!(refused.status(), 503);
    assert!(
        refused.text().contains("tunnel_limit"),
        "{}",
        refused.text()
    );
    assert!(socket.read().is_err(), "nothing is said, and it ends");
    let lines = proxy.log_lines(2);
    assert_eq!(lines[1]["reason"], "tunnel_idle");
    assert_eq!(lines[1]["aborted"], true);
    close(open(&proxy));
    proxy.assert_no_leak();
}

#[test]
fn tunnels_are_no_requests_in_progress() {
    let origin = echo();
    let mut config = config(&[origin.address]);
    let limits = &mut config.listeners[0].limits;
    limits.max_requests = Some(1);
    limits.per_client.max_requests = Some(1);
    let proxy = Proxy::start(&config);
    let [mut first, mut second] = [open(&proxy), open(&proxy)];
    say(&mut first, "hello");
    say(&mut second, "hello");
    [first, second].into_iter().for_each(close);
    proxy.assert_no_leak();
}

#[test]
fn who_finds_all_connections_taken_by_tunnels_does_not_wait_for_them() {
    let origin = echo();
    for of_the_cluster in [false, true] {
        let mut config = config(&[origin.address]);
        with_cluster(&mut config, |cluster| {
            // More than a client of a test waits.
            cluster.connect_timeout = 3 * PATIENCE;
            match of_the_cluster {
                true => cluster.resilience.max_connections = 2,
                false => cluster.max_connections = 2,
            }
        });
        let proxy = Proxy::logging(config);
        let mut sockets = [open(&proxy), open(&proxy)];
        for socket in &mut sockets {
            say(socket, "hello");
        }
        let refused = proxy.connect().ask(get("/"));
        assert_eq!(refused.status(), 503);
        assert!(
            refused.text().contains("connection_limit"),
            "{}",
            refused.text()
        );
        // Nobody else's request: one that ends makes room.
        let [first, second] = sockets;
        close(first);
        proxy.wait_metric(&["sprat_upstream_connections"], 1.0);
        let mut third = open(&proxy);
        say(&mut third, "hello");
        close(second);
        close(third);
        proxy.assert_no_leak();
    }
}

#[test]
fn tunnels_go_on_through_a_reload_and_a_drain_until_its_bound() {
    let origin = echo();
    let mut config = config(&[origin.address]);
    config.runtime.drain_timeout = Duration::from_millis(500);
    let mut proxy = Proxy::logging(config.clone());
    let mut socket = open(&proxy);
    let control = proxy.server.as_ref().unwrap().control();
    with_cluster(&mut config, |cluster| cluster.max_connections = 7);
    config.routes[0].upgrade = None;
    control.reload(&config).unwrap();
    say(&mut socket, "on");
    let mut client = proxy.connect();
    client.send(ASK);
    control.drain();
    say(&mut socket, "still on");
    // The bound on the drain.
    proxy.server.take().unwrap().join().unwrap();
    let mut byte = [0];
    let ended = socket.get_mut().read(&mut byte);
    let ended = ended.map_err(|error| error.kind());
    assert!(
        matches!(ended, Ok(0) | Err(ErrorKind::ConnectionReset)),
        "{ended:?}"
    );
}
