//! Tests of the PROXY protocol over real sockets.

use std::io::{BufRead as _, Read as _};
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::common::tls::*;
use crate::common::*;
use sprat_config::resolved::*;

const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// Starts an origin that answers with the client's address as the proxy sees it.
fn echo() -> Origin {
    Origin::http(|request| ok(request.field("x-forwarded-for").unwrap()))
}

fn network(address: &str, prefix_len: u8) -> Network {
    Network {
        address: address.parse().unwrap(),
        prefix_len,
    }
}

fn announced(origin: &Origin) -> Config {
    let mut config = config(&[origin.address]);
    config.listeners[0].proxy_protocol = Some(ProxyProtocol {
        trusted: vec![network("127.0.0.0", 8)],
        others_direct: false,
        timeout: PATIENCE,
        max_bytes: 1024,
    });
    config
}

fn results(proxy: &Proxy, result: &str) -> f64 {
    let label = format!("result=\"{result}\"");
    proxy.metric(&["sprat_proxy_headers_total", &label])
}

/// Returns a header of version 2 with these bytes after its length.
fn v2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
    [SIGNATURE, &[0x20 | command, family], &length, rest].concat()
}

fn v2_of(client: [u8; 4]) -> Vec<u8> {
    let rest = [&client[..], &[127, 0, 0, 1, 0x12, 0x34, 0, 80]];
    v2(1, 0x11, &rest.concat())
}

#[test]
fn both_versions_tell_whose_connection_it_is() {
    let origin = echo();
    let mut config = announced(&origin);
    let rule = ClassRule {
        matches: ClassMatch {
            clients: vec![network("192.0.2.0", 24)],
            ..ClassMatch::default()
        },
        class: 1,
        at: None,
    };
    config.classes.rules.insert(0, rule);
    let proxy = Proxy::logging(config);
    let tlvs = [
        &[192, 0, 2, 4, 127, 0, 0, 1, 0, 1, 0, 80][..],
        &[4, 0, 3, 0, 0, 0],
        &[0xee, 0, 1, 9],
    ];
    let v6 = [
        &[0x20, 1, 0xd, 0xb8][..],
        &[0; 11],
        &[7],
        &[0; 15],
        &[1],
        &[0, 9, 0, 80],
    ];
    for (header, client) in [
        (
            b"PROXY TCP4 192.0.2.3 127.0.0.1 5000 80\r\n".to_vec(),
            "192.0.2.3",
        ),
        (
            b"PROXY TCP6 2001:db8::5 ::1 5000 80\r\n".to_vec(),
            "2001:db8::5",
        ),
        (b"PROXY UNKNOWN\r\n".to_vec(), "127.0.0.1"),
        (
            b"PROXY UNKNOWN ffff::1 ffff::2 5000 80\r\n".to_vec(),
            "127.0.0.1",
        ),
        (v2_of([192, 0, 2, 3]), "192.0.2.3"),
        (v2(1, 0x11, &tlvs.concat()), "192.0.2.4"),
        (v2(1, 0x21, &v6.concat()), "2001:db8::7"),
        // LOCAL: a health check of the load balancer's.
        (v2(0, 0, &[]), "127.0.0.1"),
        (v2(0, 0x11, &[1; 12]), "127.0.0.1"),
        // A Unix socket's client.
        (v2(1, 0x31, &[0; 216]), "127.0.0.1"),
    ] {
        // In one piece, then byte by byte.
        for pieces in [1, header.len()] {
            let mut peer = proxy.connect();
            let whole = [&header[..], get("/").as_bytes()].concat();
            for piece in whole.chunks(whole.len().div_ceil(pieces)) {
                assert!(peer.send(piece));
                if pieces > 1 {
                    std::thread::sleep(Duration::from_micros(300));
                }
            }
            assert_eq!(peer.message().text(), client);
            assert_eq!(peer.ask(get("/again")).text(), client);
        }
    }
    for line in proxy.log_lines(40) {
        let named = line["client"].as_str().unwrap();
        let expected = named.starts_with("192.0.2.");
        assert_eq!(line["class"] == "background", expected, "{line}");
    }
    assert_eq!(results(&proxy, "proxied"), 10.0);
    assert_eq!(results(&proxy, "local"), 10.0);
    proxy.assert_no_leak();
}

#[test]
fn what_is_no_header_is_not_served() {
    let origin = echo();
    let proxy = Proxy::start(&announced(&origin));
    let cases: [Vec<u8>; 9] = [
        get("/").into(),
        b"PROXY TCP4 192.0.2.1 127.0.0.1 5000\r\nGET / HTTP/1.1\r\n\r\n".to_vec(),
        b"PROXY TCP4 192.0.2.300 127.0.0.1 5000 80\r\n\r\n".to_vec(),
        b"PROXY TCP4 192.0.2.1 127.0.0.1 5000 80\nGET / HTTP/1.1\r\n\r\n".to_vec(),
        b"PROXY SCTP 192.0.2.1 127.0.0.1 5000 80\r\n\r\n".to_vec(),
        format!("PROXY TCP4 192.0.2.1 {}\r\n", "1".repeat(100)).into(),
        v2(1, 0x11, &[0; 1009]),
        v2(2, 0x11, &[0; 12]),
        v2(1, 0x11, &[0; 4]),
    ];
    for (index, header) in cases.iter().enumerate() {
        let mut peer = proxy.connect();
        peer.send(header);
        assert!(peer.try_message(true).is_none(), "{index}");
        wait_for(&format!("refusal {index}"), || {
            results(&proxy, "malformed") == index as f64 + 1.0
        });
    }
    assert_eq!(origin.connections(), 0);
    let mut cut_off = proxy.connect();
    cut_off.send(&SIGNATURE[..5]);
    drop(cut_off);
    wait_for("the end to be seen", || results(&proxy, "closed") == 1.0);
    proxy.assert_no_leak();
}

#[test]
fn only_the_trusted_are_believed() {
    let origin = echo();
    let mut config = announced(&origin);
    let own = config.listeners[0].proxy_protocol.as_mut().unwrap();
    own.trusted = vec![network("10.0.0.0", 8)];
    let refusing = Proxy::start(&config);
    let mut peer = refusing.connect();
    peer.send(v2_of([192, 0, 2, 3]));
    assert!(peer.is_closed());
    wait_for("it to be counted", || {
        results(&refusing, "untrusted") == 1.0
    });
    let own = config.listeners[0].proxy_protocol.as_mut().unwrap();
    own.others_direct = true;
    let direct = Proxy::start(&config);
    assert_eq!(direct.connect().ask(get("/")).text(), "127.0.0.1");
    // What it says about itself is not HTTP.
    let forged = direct
        .connect()
        .ask("PROXY TCP4 192.0.2.3 127.0.0.1 5000 80\r\n\r\n");
    assert_eq!(forged.status(), 400);
}

#[test]
fn a_header_has_its_time_and_holds_up_no_shutdown() {
    let origin = echo();
    let mut config = announced(&origin);
    let own = config.listeners[0].proxy_protocol.as_mut().unwrap();
    own.timeout = Duration::from_millis(100);
    let proxy = Proxy::start(&config);
    let mut slow = proxy.connect();
    slow.send(b"PROXY TCP4 ");
    assert!(slow.is_closed());
    wait_for("it to be counted", || results(&proxy, "timeout") == 1.0);
    proxy.stop();
    let proxy = Proxy::start(&announced(&origin));
    let _waits = proxy.connect();
    proxy.stop();
}

#[test]
fn it_comes_before_tls() {
    let (origin, authority) = (echo(), Authority::new());
    let mut config = announced(&origin);
    config.listeners[0].tls = Some(listener_tls(&[&authority.issue("site", &["a.example"])]));
    config.uplink.rate = Rate::Fixed(100_000_000);
    let proxy = Proxy::start(&config);
    for header in [
        v2_of([192, 0, 2, 9]),
        b"PROXY TCP4 192.0.2.9 127.0.0.1 1 2\r\n".to_vec(),
    ] {
        let mut plain = proxy.connect();
        assert!(plain.send(header));
        let stream = plain.reader.into_inner();
        let mut peer = TlsClient::new(&authority)
            .try_over(stream, "a.example")
            .unwrap();
        assert_eq!(peer.ask(get("/")).text(), "192.0.2.9");
    }
}

/// Starts an origin that tells the first bytes of each connection, and answers every request with
/// the number of its connection.
fn told() -> (Origin, Receiver<Vec<u8>>) {
    let (tell, told) = channel();
    let (tell, number) = (Mutex::new(tell), AtomicUsize::new(0));
    let origin = Origin::start(move |mut peer| {
        let own = number.fetch_add(1, SeqCst);
        let mut header = Vec::new();
        if peer.reader.fill_buf().unwrap().starts_with(b"PROXY") {
            peer.reader.read_until(b'\n', &mut header).unwrap();
        } else {
            header.resize(16, 0);
            peer.reader.read_exact(&mut header).unwrap();
            let rest = u16::from_be_bytes([header[14], header[15]]);
            header.resize(16 + usize::from(rest), 0);
            peer.reader.read_exact(&mut header[16..]).unwrap();
        }
        tell.lock().unwrap().send(header).unwrap();
        while peer.try_message(true).is_some() {
            peer.send(ok(&own.to_string()));
        }
    });
    (origin, told)
}

#[test]
fn backends_are_told_and_no_two_clients_share_a_connection() {
    for version in [ProxyVersion::V1, ProxyVersion::V2] {
        let (origin, told) = told();
        let mut config = config(&[origin.address]);
        with_cluster(&mut config, |c| c.proxy_protocol = Some(version));
        let proxy = Proxy::start(&config);
        let mut clients = [proxy.connect(), proxy.connect()];
        for (number, client) in clients.iter_mut().enumerate() {
            let own = client.stream().local_addr().unwrap();
            assert_eq!(client.ask(get("/")).text(), number.to_string());
            let header = told.recv_timeout(PATIENCE).unwrap();
            let to = proxy.address;
            let expected = match version {
                ProxyVersion::V1 => {
                    let (from, port) = (own.port(), to.port());
                    format!("PROXY TCP4 127.0.0.1 127.0.0.1 {from} {port}\r\n").into_bytes()
                }
                ProxyVersion::V2 => {
                    let ports = [own.port().to_be_bytes(), to.port().to_be_bytes()];
                    let ends = [127, 0, 0, 1, 127, 0, 0, 1];
                    v2(1, 0x11, &[&ends[..], &ports.concat()].concat())
                }
            };
            assert_eq!(header, expected);
        }
        // Each goes on with its own.
        for (number, client) in clients.iter_mut().enumerate() {
            assert_eq!(client.ask(get("/")).text(), number.to_string());
        }
        assert_eq!(origin.connections(), 2);
        drop(clients);
        proxy.assert_no_leak();
    }
}

#[test]
fn a_load_balancers_word_goes_on_to_backends() {
    let (origin, told) = told();
    let mut config = announced(&origin);
    with_cluster(&mut config, |c| c.proxy_protocol = Some(ProxyVersion::V1));
    let proxy = Proxy::start(&config);
    let header = "PROXY TCP4 192.0.2.3 198.51.100.7 5000 443\r\n";
    let mut peer = proxy.connect();
    assert!(peer.send(header));
    assert_eq!(peer.ask(get("/")).text(), "0");
    assert_eq!(told.recv_timeout(PATIENCE).unwrap(), header.as_bytes());
    // Of nobody: who is connected speaks for itself.
    let mut peer = proxy.connect();
    let own = peer.stream().local_addr().unwrap().port();
    assert!(peer.send("PROXY UNKNOWN\r\n"));
    assert_eq!(peer.ask(get("/")).text(), "1");
    let port = proxy.address.port();
    let expected = format!("PROXY TCP4 127.0.0.1 127.0.0.1 {own} {port}\r\n");
    assert_eq!(told.recv_timeout(PATIENCE).unwrap(), expected.as_bytes());
}

#[test]
fn what_is_kept_for_clients_that_have_gone_makes_way() {
    let (origin, _told) = told();
    let mut config = config(&[origin.address]);
    with_cluster(&mut config, |cluster| {
        cluster.proxy_protocol = Some(ProxyVersion::V1);
        cluster.max_idle_connections = 1;
    });
    let proxy = Proxy::start(&config);
    for number in 0..3 {
        let mut client = proxy.connect();
        for _ in 0..2 {
            assert_eq!(client.ask(get("/")).text(), number.to_string());
        }
    }
    proxy.assert_no_leak();
    proxy.wait_metric(&["sprat_upstream_idle_connections"], 1.0);
}
