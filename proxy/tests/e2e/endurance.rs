//! Tests of one reload after another under load: no connection is dropped, no request fails, and
//! memory does not grow. They are short here; `make soak-reload` runs them at length.

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use crate::common::binary::{Running, run};
use crate::common::*;
use tungstenite::WebSocket;

/// The amount of reloads and load in a run.
struct Bar {
    reloads: u32,
    between: Duration,
    websockets: usize,
    requests_per_s: u32,
}

/// Starts an origin that echoes WebSockets, and answers all other requests.
fn origin() -> Origin {
    Origin::start(|mut peer| {
        let mut first = [0; 4];
        while peer.stream().peek(&mut first).is_ok_and(|count| count == 4) {
            if &first == b"GET " && !asks_for_websocket(&peer) {
                let request = peer.message();
                peer.send(ok(&request.start));
                continue;
            }
            let stream = peer.reader.into_inner();
            let Ok(mut socket) = tungstenite::accept(stream) else {
                return;
            };
            while let Ok(message) = socket.read() {
                if socket.send(message).is_err() {
                    return;
                }
            }
            return;
        }
    })
}

fn asks_for_websocket(peer: &Peer) -> bool {
    let mut head = [0; 16];
    let count = peer.stream().peek(&mut head).unwrap_or(0);
    head[..count].starts_with(b"GET /socket")
}

/// Returns the `number`th configuration, which differs from the one before it.
fn configuration(number: u32, origin: SocketAddr, ports: [SocketAddr; 3]) -> String {
    let [listener, second, admin] = ports;
    let second = match number % 2 {
        0 => String::new(),
        _ => format!("\n  - {{name: second, address: '{second}'}}"),
    };
    let classes = match number % 3 {
        0 => "classes: {gold: {level: 1}}",
        1 => "classes: {silver: {level: 2, weight: 3}, gold: {level: 2}}",
        _ => "",
    };
    let order = ["size", "fcfs"][number as usize % 2];
    let policy = ["srpt", "fair", "srpt-aged"][number as usize % 3];
    let rate = 900 + number % 7;
    format!(
        "version: 1\nadmin: {{address: '{admin}'}}\nlisteners:\n  - {{name: first, address: '{listener}', \
         max_connections: {}}}{second}\nuplink: {{rate: {rate}mbit, policy: {policy}}}\n{classes}\n\
         clusters:\n  farm: {{endpoints: ['{origin}'], max_requests: {}, wait_queue: {{order: {order}}}, \
         max_connections: 20000}}\n  other: {{endpoints: ['{origin}']}}\nroutes:\n  \
         - {{match: {{prefix: /n{number}}}, cluster: other}}\n  - {{cluster: farm}}\n",
        10_000 + number,
        1000 + number % 5,
    )
}

/// Sends requests at a steady rate until `over` is set, mostly on a kept connection, and checks
/// each answer. The thread returns the number of requests.
fn load(address: SocketAddr, per_s: u32, over: &Arc<AtomicBool>) -> JoinHandle<u32> {
    let over = Arc::clone(over);
    spawn(move || {
        let pause = Duration::from_secs(1) / per_s;
        let mut kept = Peer::connect(address);
        let mut asked = 0;
        while !over.load(Ordering::SeqCst) {
            let begun = Instant::now();
            // The same few again: what is learnt of sizes does not grow.
            let path = format!("/{}", asked % 100);
            if asked % 10 == 0 {
                kept = Peer::connect(address);
            }
            let answer = kept.ask(get(&path));
            assert_eq!(answer.status(), 200);
            assert_eq!(answer.text(), format!("GET {path} HTTP/1.1"));
            asked += 1;
            sleep(pause.saturating_sub(begun.elapsed()));
        }
        asked
    })
}

/// Sends messages over each WebSocket in turn until `over` is set, and checks each echo. The thread
/// returns the number of rounds.
fn talk(mut sockets: Vec<WebSocket<TcpStream>>, over: &Arc<AtomicBool>) -> JoinHandle<usize> {
    let over = Arc::clone(over);
    spawn(move || {
        let mut rounds = 0;
        let mut last = false;
        while !last {
            // Once more when it is over: each is still there.
            last = over.load(Ordering::SeqCst);
            for (number, socket) in sockets.iter_mut().enumerate() {
                let message = tungstenite::Message::from(format!("{number} {rounds}"));
                socket
                    .send(message.clone())
                    .expect("no WebSocket is dropped");
                assert_eq!(socket.read().expect("no WebSocket is dropped"), message);
            }
            rounds += 1;
            sleep(Duration::from_millis(50));
        }
        rounds
    })
}

fn open(address: SocketAddr) -> WebSocket<TcpStream> {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    tungstenite::client("ws://test.example/socket", stream)
        .unwrap()
        .0
}

/// Returns the bytes of memory that a process occupies.
fn resident_bytes(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    line.split_whitespace()
        .nth(1)
        .unwrap()
        .parse::<u64>()
        .unwrap()
        << 10
}

fn metric_of(admin: SocketAddr, parts: &[&str]) -> f64 {
    let answer = Peer::connect(admin)
        .ask("GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    metric(&answer.text(), parts)
}

/// Replaces a file as a whole, so that no reader finds half of it.
fn write(path: &Path, text: &str) {
    let fresh = path.with_extension("new");
    std::fs::write(&fresh, text).unwrap();
    std::fs::rename(&fresh, path).unwrap();
}

fn endure(bar: &Bar) {
    let origin = origin();
    let ports = [free_address(), free_address(), free_address()];
    let [address, _, admin] = ports;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sprat.yaml");
    write(&path, &configuration(0, origin.address, ports));
    let running = Running::of(&mut run(&path));
    let sockets: Vec<_> = (0..bar.websockets).map(|_| open(address)).collect();
    let over = Arc::default();
    let talking = talk(sockets, &over);
    let loads: Vec<_> = (0..2)
        .map(|_| load(address, bar.requests_per_s / 2, &over))
        .collect();
    let warm = bar.reloads / 5;
    let mut before = 0;
    for number in 1..=bar.reloads {
        let begun = Instant::now();
        write(&path, &configuration(number, origin.address, ports));
        running.signal("HUP");
        wait_for(&format!("reload {number}"), || {
            metric_of(admin, &["sprat_config_reloads_total", "good"]) >= f64::from(number)
        });
        // It is what is served by: only its own route leads there.
        assert_eq!(
            Peer::connect(address)
                .ask(get(&format!("/n{number}")))
                .status(),
            200
        );
        wait_for("it to be counted", || {
            let counted = &["sprat_requests_total", "cluster=\"other\"", "2xx"];
            metric_of(admin, counted) >= f64::from(number)
        });
        if number == warm {
            before = resident_bytes(running.child.id());
        }
        sleep(bar.between.saturating_sub(begun.elapsed()));
    }
    over.store(true, Ordering::SeqCst);
    let asked: u32 = loads.into_iter().map(|load| load.join().unwrap()).sum();
    let rounds = talking.join().unwrap();
    let after = resident_bytes(running.child.id());
    println!(
        "{} reloads, {asked} requests, {} WebSockets in {rounds} rounds: none dropped, none failed; \
         memory {} kB after {warm} reloads, {} kB at the end",
        bar.reloads,
        bar.websockets,
        before >> 10,
        after >> 10,
    );
    assert!(metric_of(admin, &["sprat_requests_total", "5xx"]).abs() < 0.5);
    assert!(metric_of(admin, &["sprat_config_reloads_total", "bad"]).abs() < 0.5);
    let generous = before + before / 10 + (8 << 20);
    assert!(
        after < generous,
        "memory has grown from {before} to {after} bytes"
    );
}

#[test]
fn reloads_drop_nothing_and_leak_nothing() {
    endure(&Bar {
        reloads: 20,
        between: Duration::from_millis(50),
        websockets: 50,
        requests_per_s: 100,
    });
}

#[test]
#[ignore = "a minute, and thousands of descriptors: make soak-reload"]
fn a_hundred_reloads_in_a_minute_with_a_thousand_websockets() {
    endure(&Bar {
        reloads: 100,
        between: Duration::from_millis(600),
        websockets: 1000,
        requests_per_s: 200,
    });
}
