//! Tests of the code points on the wire, as an observer of the packets to clients sees them.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::tls::{Authority, TlsClient, listener_tls};
use crate::common::*;
use crate::http2::client as http2;
use socket2::{Domain, Protocol, Socket, Type};
use sprat_config::resolved::*;
use sprat_scheduler::marking::Variant;
use sprat_scheduler::{Discipline, Mark, Marking as Rule, Sfd};

const IN: u8 = 10;
const OUT: u8 = 14;
const THRESHOLD: usize = 15 << 10;

/// The payload bytes of a full segment with timestamps.
const SEGMENT: usize = 1448;

/// The most bytes by which a head differs from its assumed size.
const HEAD_ERROR: usize = 100;

/// A packet to a client, with payload or without.
#[derive(Clone, Copy, Debug)]
struct Packet {
    /// The port of the client.
    port: u16,
    sequence: u32,
    bytes: usize,
    /// The octet with the code point and ECN.
    class: u8,
    is_syn: bool,
}

/// An observer of the packets that pass over the loopback interface from one port.
struct Wire {
    packets: Arc<Mutex<Vec<Packet>>>,
}

impl Wire {
    /// Observes the packets from this port. Returns none if this process may not.
    fn of(port: u16) -> Option<Self> {
        /// The values in Linux's include/uapi/linux/if_ether.h.
        const ETH_P_IP: u16 = 0x0800;
        const ETH_P_IPV6: u16 = 0x86dd;
        let packets = Arc::new(Mutex::new(Vec::new()));
        for kind in [ETH_P_IP, ETH_P_IPV6] {
            let protocol = Protocol::from(i32::from(kind.to_be()));
            let socket = Socket::new(Domain::PACKET, Type::DGRAM, Some(protocol));
            let mut socket = match socket {
                Ok(socket) => socket,
                Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                    println!("skipped: seeing packets needs CAP_NET_RAW");
                    return None;
                }
                Err(error) => panic!("{error}"),
            };
            let _ = socket.set_recv_buffer_size(32 << 20);
            let seen = Arc::clone(&packets);
            std::thread::spawn(move || {
                let mut buffer = vec![0; 70_000];
                while let Ok(bytes) = socket.read(&mut buffer) {
                    let packet = parse(&buffer[..bytes], port);
                    seen.lock().unwrap().extend(packet);
                    if Arc::strong_count(&seen) < 2 {
                        return;
                    }
                }
            });
        }
        Some(Self { packets })
    }

    fn to(&self, port: u16) -> Vec<Packet> {
        let packets = self.packets.lock().unwrap();
        packets
            .iter()
            .filter(|own| own.port == port)
            .copied()
            .collect()
    }

    /// Returns the code points of the first `bytes` to a client, each with the places where it
    /// begins and ends. Waits until all have come.
    fn marks(&self, port: u16, bytes: usize) -> Vec<(usize, usize, u8)> {
        let mut marks = Vec::new();
        wait_for(&format!("{bytes} bytes to {port}"), || {
            marks = runs(&self.to(port));
            marks.last().is_some_and(|(_, end, _)| *end >= bytes)
        });
        marks
    }
}

/// Parses a packet of IPv4 or IPv6 with TCP. Returns none if it does not come from the port.
fn parse(packet: &[u8], port: u16) -> Option<Packet> {
    let word =
        |bytes: &[u8], at: usize| Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
    let (class, tcp) = match packet.first()? >> 4 {
        4 => {
            let head = usize::from(packet[0] & 15) * 4;
            let whole = usize::from(word(packet, 2)?);
            // A packet beyond 64 KB does not say its length.
            let end = if whole == 0 { packet.len() } else { whole };
            (packet[1], packet.get(head..end)?)
        }
        6 => {
            let class = (packet[0] << 4) | (packet[1] >> 4);
            let whole = usize::from(word(packet, 4)?);
            let end = if whole == 0 { packet.len() } else { 40 + whole };
            (class, packet.get(40..end)?)
        }
        _ => return None,
    };
    (word(tcp, 0)? == port).then_some(())?;
    let head = usize::from(tcp.get(12)? >> 4) * 4;
    Some(Packet {
        port: word(tcp, 2)?,
        sequence: u32::from_be_bytes(tcp.get(4..8)?.try_into().ok()?),
        bytes: tcp.len() - head,
        class,
        is_syn: tcp[13] & 2 != 0,
    })
}

/// Returns each code point in a connection's bytes, with the places where it begins and ends.
fn runs(packets: &[Packet]) -> Vec<(usize, usize, u8)> {
    let Some(syn) = packets.iter().find(|packet| packet.is_syn) else {
        return Vec::new();
    };
    let first = syn.sequence.wrapping_add(1);
    let mut by_place = BTreeMap::new();
    for packet in packets.iter().filter(|packet| packet.bytes > 0) {
        let place = packet.sequence.wrapping_sub(first) as usize;
        by_place
            .entry(place)
            .or_insert((packet.bytes, packet.class >> 2));
    }
    let mut runs: Vec<(usize, usize, u8)> = Vec::new();
    for (place, (bytes, code_point)) in by_place {
        match runs.last_mut() {
            Some((_, end, last)) if *last == code_point => *end = place + bytes,
            _ => runs.push((place, place + bytes, code_point)),
        }
    }
    runs
}

/// Connects with the segment size of Ethernet.
fn connect(address: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None).unwrap();
    let mss = if address.is_ipv6() { 1440 } else { 1460 };
    socket.set_tcp_mss(mss).unwrap();
    socket.connect(&address.into()).unwrap();
    socket.set_tcp_nodelay(true).unwrap();
    socket.into()
}

fn port(stream: &TcpStream) -> u16 {
    stream.local_addr().unwrap().port()
}

/// Starts an origin that answers `/SIZE` with so many bytes.
fn farm() -> Origin {
    Origin::http(|request| {
        let path = request.start.split(' ').nth(1).unwrap();
        ok(&"x".repeat(path[1..].parse().unwrap()))
    })
}

fn marking(variant: Variant) -> Marking {
    Marking {
        rule: Rule {
            variant,
            ..Rule::PAPER
        },
        code_points: [IN, OUT],
    }
}

fn marked(origin: &Origin, rate: Rate, variant: Variant) -> Config {
    let mut config = config(&[origin.address]);
    config.uplink.rate = rate;
    config.uplink.marking = Some(marking(variant));
    config
}

/// Returns configurations for the three ways to mark: without pacing, beside an order, and by the
/// discipline.
fn ways(origin: &Origin) -> [(&'static str, Config); 3] {
    let rate = Rate::Fixed(80_000_000);
    let mut sfd = marked(origin, rate, Variant::Sfd);
    sfd.uplink.policy = Discipline::Sfd(Sfd {
        marking: marking(Variant::Sfd).rule,
        ..Sfd::PAPER
    });
    [
        ("unlimited", marked(origin, Rate::Unlimited, Variant::Sfd)),
        ("srpt", marked(origin, rate, Variant::Sfd)),
        ("sfd", sfd),
    ]
}

/// Checks the marks of a response in the bytes `from` to `to`: IN for the first bytes, OUT for the
/// rest. The packet that crosses the threshold is IN, and none after it.
fn assert_in_then_out(marks: &[(usize, usize, u8)], (from, to): (usize, usize), what: &str) {
    let of_it = |&(begin, end, _): &(usize, usize, u8)| begin < to && end > from;
    let own: Vec<_> = marks.iter().copied().filter(of_it).collect();
    let [(begin, change, IN), (_, end, OUT)] = own[..] else {
        panic!("{what}: {own:?} from {from} to {to}");
    };
    // One before it may have ended with IN.
    assert!(begin <= from, "{what}");
    assert_eq!(end, to, "{what}");
    let within = change - from;
    assert!(within + HEAD_ERROR > THRESHOLD, "{what}: {within}");
    assert!(
        within <= THRESHOLD + SEGMENT + HEAD_ERROR,
        "{what}: {within}"
    );
}

#[test]
fn the_first_bytes_of_each_response_are_in_and_the_rest_out() {
    let origin = farm();
    for (way, config) in ways(&origin) {
        let proxy = Proxy::start(&config);
        let Some(wire) = Wire::of(proxy.address.port()) else {
            return;
        };
        let stream = connect(proxy.address);
        let port = port(&stream);
        let mut client = Peer::new(stream);
        let mut begin = 0;
        // On a kept connection each begins anew; a small one has no end that is OUT.
        for bytes in [100_000, 200, 60_000, 15_000] {
            let head = client.ask(get(&format!("/{bytes}")));
            assert_eq!(head.body.len(), bytes);
            let marks = wire.marks(port, begin + bytes);
            let end = marks.last().unwrap().1;
            match bytes > THRESHOLD {
                true => assert_in_then_out(&marks, (begin, end), way),
                false => assert_eq!(marks.last().unwrap().2, IN, "{way}: {marks:?}"),
            }
            begin = end;
        }
        // What the proxy says by itself is a response as well.
        assert_eq!(
            client.ask("TRACE / HTTP/1.1\r\nHost: a\r\n\r\n").status(),
            405
        );
        let marks = wire.marks(port, begin + 1);
        assert_eq!(marks.last().unwrap().2, IN, "{way}: {marks:?}");
        let total = marks.last().unwrap().1;
        let of = |mark: &str| proxy.metric(&["sprat_marked_bytes_total", mark]) as usize;
        // A packet may be seen before it is counted.
        wait_for(&format!("{way}: {total} bytes to be counted"), || {
            of("mark=\"in\"") + of("mark=\"out\"") == total
        });
        let out: usize = marks
            .iter()
            .filter(|own| own.2 == OUT)
            .map(|own| own.1 - own.0)
            .sum();
        assert_eq!(of("mark=\"out\""), out, "{way}");
        drop(client);
        proxy.assert_no_leak();
    }
}

#[test]
fn what_is_no_response_is_not_marked() {
    let origin = farm();
    let proxy = Proxy::start(&marked(&origin, Rate::Unlimited, Variant::Sfd));
    let Some(wire) = Wire::of(proxy.address.port()) else {
        return;
    };
    let stream = connect(proxy.address);
    let port = port(&stream);
    let mut client = Peer::new(stream);
    client.ask(get("/40000"));
    // Half a head is acknowledged, and nothing else is said. The client may be quicker than the
    // worker, which takes the mark off when it has written: so the last acknowledgement counts.
    let before = wire.marks(port, 40_000).last().unwrap().1;
    for byte in ["G", "E", "T", " ", "/", "1", "0", " ", "H", "T"] {
        let seen = wire.to(port).len();
        client.send(byte);
        wait_for("an acknowledgement", || wire.to(port).len() > seen);
    }
    let packets = wire.to(port);
    let bare = packets.last().unwrap();
    assert_eq!((bare.bytes, bare.class), (0, 0), "{bare:?}");
    assert!(
        packets
            .iter()
            .filter(|own| own.is_syn)
            .all(|own| own.class == 0)
    );
    client.send("TP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.message().body.len(), 10);
    assert_eq!(wire.marks(port, before + 10).last().unwrap().2, IN);
}

#[test]
fn one_of_four_writes_is_promoted() {
    let origin = farm();
    let mut config = marked(&origin, Rate::Fixed(20_000_000), Variant::SSfd);
    for policy in [Discipline::Fcfs, Discipline::Sfd(Sfd::PAPER)] {
        config.uplink.policy = policy;
        let proxy = Proxy::start(&config);
        let Some(wire) = Wire::of(proxy.address.port()) else {
            return;
        };
        let stream = connect(proxy.address);
        let port = port(&stream);
        Peer::new(stream).ask(get("/100000"));
        let marks = wire.marks(port, 100_000);
        assert!(marks[0].1 - marks[0].0 > THRESHOLD - HEAD_ERROR);
        // Grants of a segment: three, and one.
        assert!(marks.len() > 25, "{marks:?}");
        for pair in marks[1..marks.len() - 1].chunks_exact(2) {
            let [(begin, end, OUT), (_, after, IN)] = pair else {
                panic!("{marks:?}");
            };
            assert!(end - begin <= 3 * SEGMENT, "{marks:?}");
            assert!(after - end <= SEGMENT, "{marks:?}");
        }
    }
    // Where nothing is paced writes are larger.
    config.uplink.rate = Rate::Unlimited;
    let proxy = Proxy::start(&config);
    let wire = Wire::of(proxy.address.port()).unwrap();
    let stream = connect(proxy.address);
    let port = port(&stream);
    Peer::new(stream).ask(get("/1000000"));
    let marks = wire.marks(port, 1_000_000);
    for (begin, end, mark) in &marks[1..] {
        let most = if *mark == IN { 16 << 10 } else { 48 << 10 };
        assert!(end - begin <= most, "{marks:?}");
    }
    assert!(marks.len() > 20, "{marks:?}");
}

#[test]
fn both_families_are_marked_and_ipv4_on_a_listener_for_both() {
    let origin = farm();
    let mut config = marked(&origin, Rate::Unlimited, Variant::Sfd);
    let Ok(free) = std::net::TcpListener::bind("[::]:0") else {
        println!("skipped: no IPv6");
        return;
    };
    let any = free.local_addr().unwrap();
    drop(free);
    config.listeners[0].address = any.into();
    let _proxy = Proxy::start(&config);
    let Some(wire) = Wire::of(any.port()) else {
        return;
    };
    for ip in [
        IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(Ipv6Addr::LOCALHOST),
    ] {
        let stream = connect(SocketAddr::new(ip, any.port()));
        let port = port(&stream);
        Peer::new(stream).ask(get("/50000"));
        let marks = wire.marks(port, 50_000);
        let end = marks.last().unwrap().1;
        assert_in_then_out(&marks, (0, end), &ip.to_string());
    }
}

#[test]
fn a_reload_marks_otherwise_on_the_same_connections() {
    let origin = farm();
    for rate in [Rate::Unlimited, Rate::Fixed(80_000_000)] {
        let mut config = marked(&origin, rate, Variant::Sfd);
        let with = config.uplink.marking;
        config.listeners[0].address = free_address().into();
        config.uplink.marking = None;
        let proxy = Proxy::start(&config);
        let Some(wire) = Wire::of(proxy.address.port()) else {
            return;
        };
        let stream = connect(proxy.address);
        let port = port(&stream);
        let mut client = Peer::new(stream);
        client.ask(get("/30000"));
        let begin = match wire.marks(port, 30_000)[..] {
            [(0, end, 0)] => end,
            ref other => panic!("{other:?}"),
        };
        let other = Marking {
            code_points: [8, 0],
            ..with.unwrap()
        };
        let mut expected = begin;
        for (marking, mark) in [(with, Some(IN)), (Some(other), Some(8)), (None, None)] {
            config.uplink.marking = marking;
            let control = proxy.server.as_ref().unwrap().control();
            assert!(control.reload(&config).unwrap().is_empty());
            client.ask(get("/200"));
            let marks = wire.marks(port, expected + 200);
            expected = marks.last().unwrap().1;
            assert_eq!(marks.last().unwrap().2, mark.unwrap_or(0), "{marks:?}");
        }
    }
}

#[test]
fn responses_over_tls_are_marked() {
    const NAME: &str = "test.example";
    let (origin, authority) = (farm(), Authority::new());
    let issued = authority.issue("site", &[NAME]);
    for (way, mut config) in ways(&origin) {
        config.listeners[0].tls = Some(listener_tls(&[&issued]));
        let proxy = Proxy::start(&config);
        let Some(wire) = Wire::of(proxy.address.port()) else {
            return;
        };
        let stream = connect(proxy.address);
        let port = port(&stream);
        let mut client = TlsClient::new(&authority).try_over(stream, NAME).unwrap();
        for _ in 0..2 {
            assert_eq!(client.ask(get("/60000")).body.len(), 60_000);
        }
        let marks = wire.marks(port, 120_000);
        // The handshake, then twice IN and OUT. The client's session tickets are no
        // response.
        let code_points: Vec<u8> = marks.iter().map(|own| own.2).collect();
        assert_eq!(code_points, [0, IN, OUT, IN, OUT], "{way}: {marks:?}");
        for within in [marks[1], marks[3]] {
            let bytes = within.1 - within.0;
            // Records of TLS add some twenty bytes each.
            assert!(
                (THRESHOLD - HEAD_ERROR..THRESHOLD + 2 * SEGMENT).contains(&bytes),
                "{way}: {bytes}"
            );
        }
    }
}

#[test]
fn each_stream_of_http2_is_marked() {
    let origin = farm();
    for (way, config) in ways(&origin) {
        let proxy = Proxy::start(&config);
        let Some(wire) = Wire::of(proxy.address.port()) else {
            return;
        };
        let ports: Vec<u16> = http2::run(async {
            let client = http2::connect(proxy.address).await;
            for bytes in [80_000, 300] {
                let path = format!("/{bytes}");
                let answer = http2::ask(&client, http2::request(&path)).await;
                assert_eq!(answer.body.len(), bytes);
            }
            // Several at a time: each mark waits for the one before it.
            let both = (
                http2::ask(&client, http2::request("/200000")),
                http2::ask(&client, http2::request("/200001")),
                http2::ask(&client, http2::request("/100")),
            );
            let (one, other, small) = tokio::join!(both.0, both.1, both.2);
            assert_eq!(one.body.len() + other.body.len(), 400_001);
            assert_eq!(small.body.len(), 100);
            let packets = wire.packets.lock().unwrap();
            packets.iter().map(|own| own.port).collect()
        });
        let marks = wire.marks(ports[0], 480_000);
        // Settings, the large one, the small one, then those that share.
        let first: Vec<u8> = marks.iter().map(|own| own.2).collect();
        assert_eq!(first[..4], [0, IN, OUT, IN], "{way}: {marks:?}");
        let within = marks[1].1 - marks[1].0;
        assert!(
            (THRESHOLD - 1_000..THRESHOLD + 2 * SEGMENT).contains(&within),
            "{way}: {within}"
        );
        let sum = |mark| -> usize {
            let own = marks.iter().filter(|own| own.2 == mark);
            own.map(|own| own.1 - own.0).sum()
        };
        // Of three large ones the first bytes each, and all of the small ones.
        let (within, out) = (sum(IN), sum(OUT));
        let expected = 3 * THRESHOLD;
        assert!(
            (expected - 3_000..expected + 8 * SEGMENT).contains(&within),
            "{way}: {within}"
        );
        assert!((430_000..440_000).contains(&out), "{way}: {out}");
    }
}

/// Checks that a stream whose window is closed holds up no other, though their marks differ, and
/// that what the window kept has its own mark when it goes.
#[test]
fn a_stream_that_its_client_does_not_read_holds_up_no_other() {
    let origin = farm();
    for (way, config) in ways(&origin) {
        let proxy = Proxy::start(&config);
        let mut client = http2::Raw::connect(proxy.address, &[(http2::INITIAL_WINDOW_SIZE, 1000)]);
        let open = |client: &mut http2::Raw, stream| {
            let bytes = 100_000_u32.to_be_bytes();
            assert!(client.frame(http2::WINDOW_UPDATE, 0, stream, &bytes));
        };
        assert!(client.get(1, "/20000"));
        let begun = client.find(|frame| frame.kind == http2::DATA && frame.stream == 1);
        assert!(begun.is_some(), "{way}");
        // It has IN and OUT.
        assert!(client.get(3, "/40000"));
        open(&mut client, 3);
        assert!(client.end_of(3).unwrap().ends_stream(), "{way}");
        open(&mut client, 0);
        open(&mut client, 1);
        assert!(client.end_of(1).unwrap().ends_stream(), "{way}");
        let within = || proxy.metric(&["sprat_marked_bytes_total", "mark=\"in\""]) as usize;
        // The first bytes of both.
        wait_for(&format!("{way}: the bytes of IN"), || {
            within() > 2 * THRESHOLD - 3_000
        });
        drop(client);
        proxy.assert_no_leak();
    }
}

/// Runs this test again in a namespace where clients ask for ECN. Returns whether this is that run.
fn in_namespace(test: &str) -> bool {
    const WITHIN: &str = "SPRAT_TEST_WITHIN";
    if std::env::var_os(WITHIN).is_some() {
        return true;
    }
    let own = std::env::current_exe().unwrap();
    let script = "ip link set lo up && echo 1 > /proc/sys/net/ipv4/tcp_ecn && exec \"$0\" \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--net", "sh", "-c", script]).arg(own);
    command
        .args(["--exact", test, "--nocapture"])
        .env(WITHIN, "1");
    match Command::new("unshare").args(["--net", "true"]).status() {
        Ok(status) if status.success() => {
            let output = command.output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(said.contains("test result: ok. 1 passed"), "{said}");
        }
        _ => println!("skipped: a network namespace needs root"),
    }
    false
}

#[test]
fn the_bits_of_ecn_are_kept() {
    if !in_namespace("marks::the_bits_of_ecn_are_kept") {
        return;
    }
    let origin = farm();
    let proxy = Proxy::start(&marked(&origin, Rate::Unlimited, Variant::Sfd));
    let wire = Wire::of(proxy.address.port()).unwrap();
    let stream = connect(proxy.address);
    let port = port(&stream);
    Peer::new(stream).ask(get("/50000"));
    let marks = wire.marks(port, 50_000);
    assert_in_then_out(&marks, (0, marks.last().unwrap().1), "with ECN");
    let packets = wire.to(port);
    let with_data = packets.iter().filter(|packet| packet.bytes > 0);
    // ECT(0), RFC 3168 5.
    // The kernel cuts large ones into segments later than where they are seen.
    assert!(with_data.clone().count() >= 4);
    for packet in with_data {
        assert_eq!(packet.class & 3, 2, "{packet:?}");
    }
}

#[test]
fn a_slow_client_gets_its_marks_too() {
    let origin = farm();
    let proxy = Proxy::start(&marked(&origin, Rate::Unlimited, Variant::SSfd));
    let Some(wire) = Wire::of(proxy.address.port()) else {
        return;
    };
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4 << 10).unwrap();
    socket.set_tcp_mss(1460).unwrap();
    socket.connect(&proxy.address.into()).unwrap();
    let mut stream = TcpStream::from(socket);
    let port = port(&stream);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    std::io::Write::write_all(&mut stream, get("/300000").as_bytes()).unwrap();
    let mut got = 0;
    let mut buffer = [0; 3_000];
    while got < 300_000 {
        got += stream.read(&mut buffer).unwrap();
        std::thread::sleep(Duration::from_micros(300));
    }
    let marks = wire.marks(port, 300_000);
    let bytes = |mark| -> usize {
        let own = marks.iter().filter(|own| own.2 == mark);
        own.map(|own| own.1 - own.0).sum()
    };
    // What is unsent when the mark changes is waited for: the sums hold as they were
    // written.
    let of = |mark: Mark| {
        let label = format!("mark=\"{}\"", mark.name());
        proxy.metric(&["sprat_marked_bytes_total", &label]) as usize
    };
    wait_for("the bytes of each mark to be counted", || {
        [of(Mark::In), of(Mark::Out)] == [bytes(IN), bytes(OUT)]
    });
    assert!(bytes(OUT) > 100_000 && bytes(IN) > 60_000, "{marks:?}");
}
