//! Tests of a store that proxies share: a real one that is up, down, stopped and full.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc;
use std::time::Duration;

use crate::common::binary::{self, Running};
use crate::common::*;
use sprat_config::resolved::*;

/// A `redis-server` of the test's own, which is killed when this is dropped.
struct Redis {
    child: Child,
    port: u16,
    _directory: tempfile::TempDir,
}

impl Redis {
    fn start(port: u16, more: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let child = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
            .args(["--save", "", "--appendonly", "no", "--dir"])
            .arg(directory.path())
            .args(more)
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed by scripts/setup-test.sh");
        let redis = Self {
            child,
            port,
            _directory: directory,
        };
        wait_for("redis-server to listen", || redis.ask("PING").is_some());
        redis
    }

    /// Sends a command to the store, and returns the first line of its answer.
    fn ask(&self, command: &str) -> Option<String> {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        let mut peer = Peer::new(stream);
        peer.send(format!("{command}\r\n"));
        let mut line = String::new();
        std::io::BufRead::read_line(&mut peer.reader, &mut line).ok()?;
        (!line.is_empty()).then(|| line.trim().to_owned())
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).status();
        assert!(sent.unwrap().success());
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts an origin that never announces a size.
fn chunked() -> Origin {
    Origin::http(|request| {
        let path = request.start.split(' ').nth(1).unwrap();
        let bytes: usize = path[1..].split('/').next().unwrap().parse().unwrap();
        let body = "x".repeat(bytes);
        format!(
            "HTTP/1.1 200 OK\r\nVary: Accept-Encoding\r\nTransfer-Encoding: chunked\r\n\r\n\
             {bytes:x}\r\n{body}\r\n0\r\n\r\n"
        )
    })
}

fn proxy(origin: &Origin, port: u16, change: impl FnOnce(&mut SharedStore)) -> Proxy {
    let mut config = config(&[origin.address]);
    let mut shared = SharedStore {
        url: format!("redis://127.0.0.1:{port}/0"),
        span: Span::default(),
        prefix: "test:".to_owned(),
        phrase: "farm".to_owned(),
        budget: PATIENCE,
        max_queued: 100,
        pause: Duration::from_millis(50),
    };
    change(&mut shared);
    config.catalogue.shared = Some(shared);
    Proxy::logging(config)
}

fn asks(proxy: &Proxy, result: &str) -> f64 {
    let label = format!("result=\"{result}\"");
    proxy.metric(&["sprat_catalogue_lookups_total", "\"shared\"", &label])
}

fn writes(proxy: &Proxy, result: &str) -> f64 {
    let label = format!("result=\"{result}\"");
    proxy.metric(&["sprat_catalogue_store_writes_total", &label])
}

/// Sends requests for new resources until the store answers.
fn warm_up(proxy: &Proxy) {
    let answered = || asks(proxy, "miss") + asks(proxy, "hit");
    let before = answered();
    let mut n = 0;
    wait_for("the store to answer", || {
        n += 1;
        proxy.connect().ask(get(&format!("/1/warm/{before}/{n}")));
        answered() > before
    });
}

#[test]
fn one_proxy_knows_what_another_has_learnt() {
    let redis = Redis::start(free_address().port(), &[]);
    let origin = chunked();
    let first = proxy(&origin, redis.port, |_| {});
    assert_eq!(first.connect().ask(get("/700/a")).body.len(), 700);
    wait_for("it to be written", || writes(&first, "written") >= 2.0);
    let second = proxy(&origin, redis.port, |_| {});
    warm_up(&second);
    second.connect().ask(get("/700/a"));
    let of = |line: &serde_json::Value| line["path"] == "/700/a";
    wait_for("it to be logged", || {
        second.log_lines_at_least(1).iter().any(of)
    });
    let lines = second.log_lines_at_least(1);
    let line = lines.iter().find(|line| of(line)).unwrap();
    assert_eq!(
        (&line["size_layer"], &line["size"]),
        (&"shared".into(), &700.into())
    );
    // It has learnt it: the store is not asked again.
    let hits = asks(&second, "hit");
    second.connect().ask(get("/700/a"));
    assert_eq!(asks(&second, "hit"), hits);
    // Others, with another phrase, share nothing with them.
    let stranger = proxy(&origin, redis.port, |shared| {
        shared.phrase = "mine".to_owned();
    });
    warm_up(&stranger);
    stranger.connect().ask(get("/700/a"));
    assert_eq!(asks(&stranger, "hit"), 0.0);
    assert!(redis.ask("DBSIZE").unwrap().starts_with(':'));
    for proxy in [first, second, stranger] {
        proxy.stop();
    }
}

#[test]
fn a_store_that_is_not_there_costs_nothing_and_may_come_later() {
    let port = free_address().port();
    let origin = chunked();
    let proxy = proxy(&origin, port, |_| {});
    // With a budget of many seconds: whoever waited would be late.
    for n in 0..50 {
        assert_eq!(proxy.connect().ask(get(&format!("/5/{n}"))).status(), 200);
    }
    proxy.wait_metric(&["sprat_catalogue_store_circuit_open"], 1.0);
    assert_eq!(asks(&proxy, "hit") + asks(&proxy, "miss"), 0.0);
    let redis = Redis::start(port, &[]);
    warm_up(&proxy);
    proxy.wait_metric(&["sprat_catalogue_store_circuit_open"], 0.0);
    // It goes, and comes again.
    drop(redis);
    for n in 0..50 {
        assert_eq!(proxy.connect().ask(get(&format!("/6/{n}"))).status(), 200);
    }
    let _redis = Redis::start(port, &[]);
    warm_up(&proxy);
    proxy.stop();
}

#[test]
fn a_store_that_stalls_is_left_alone() {
    let redis = Redis::start(free_address().port(), &[]);
    let origin = chunked();
    let proxy = proxy(&origin, redis.port, |shared| {
        shared.budget = Duration::from_secs(1);
        // Nobody tries again in this test.
        shared.pause = Duration::from_secs(3600);
    });
    warm_up(&proxy);
    redis.signal("STOP");
    let mut n = 0;
    wait_for("the circuit to open", || {
        n += 1;
        assert_eq!(proxy.connect().ask(get(&format!("/5/{n}"))).status(), 200);
        proxy.metric(&["sprat_catalogue_store_circuit_open"]) == 1.0
    });
    // Ten failures would be twice too many: each is a batch.
    assert!(n <= 10, "{n}");
    let errors = asks(&proxy, "error");
    for n in 0..100 {
        assert_eq!(proxy.connect().ask(get(&format!("/6/{n}"))).status(), 200);
    }
    assert_eq!(asks(&proxy, "error"), errors + 100.0);
    wait_for("what is learnt to be dropped", || {
        writes(&proxy, "dropped") >= 200.0
    });
    redis.signal("CONT");
    proxy.stop();
}

#[test]
fn a_store_that_is_full_can_still_be_asked() {
    let redis = Redis::start(
        free_address().port(),
        &["--maxmemory", "1", "--maxmemory-policy", "noeviction"],
    );
    let origin = chunked();
    let proxy = proxy(&origin, redis.port, |_| {});
    warm_up(&proxy);
    wait_for("writes to be refused", || writes(&proxy, "error") >= 2.0);
    let misses = asks(&proxy, "miss");
    for n in 0..20 {
        assert_eq!(proxy.connect().ask(get(&format!("/5/{n}"))).status(), 200);
    }
    assert_eq!(asks(&proxy, "miss"), misses + 20.0);
    assert_eq!(writes(&proxy, "written"), 0.0);
    assert_eq!(proxy.metric(&["sprat_catalogue_store_circuit_open"]), 0.0);
    proxy.stop();
}

/// A relay of connections to a store, some of which fall silent.
struct Relay {
    port: u16,
    opened: Arc<AtomicUsize>,
    /// The number of connections that have fallen silent, the first ones.
    silent: Arc<AtomicUsize>,
}

impl Relay {
    fn start(store: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let relay = Self {
            port: listener.local_addr().unwrap().port(),
            opened: Arc::default(),
            silent: Arc::default(),
        };
        let (opened, silent) = (Arc::clone(&relay.opened), Arc::clone(&relay.silent));
        std::thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let number = opened.fetch_add(1, SeqCst);
                let far = TcpStream::connect(("127.0.0.1", store)).unwrap();
                let back = (far.try_clone().unwrap(), near.try_clone().unwrap());
                for (mut from, mut to) in [(near, far), back] {
                    let silent = Arc::clone(&silent);
                    std::thread::spawn(move || {
                        let mut bytes = [0; 4096];
                        while let Ok(read @ 1..) = from.read(&mut bytes) {
                            if number >= silent.load(SeqCst)
                                && to.write_all(&bytes[..read]).is_err()
                            {
                                return;
                            }
                        }
                    });
                }
            }
        });
        relay
    }

    /// Silences all connections that are open now; they stay open.
    fn fall_silent(&self) {
        self.silent.store(self.opened.load(SeqCst), SeqCst);
    }
}

#[test]
fn a_connection_that_has_fallen_silent_is_opened_anew() {
    let redis = Redis::start(free_address().port(), &[]);
    let relay = Relay::start(redis.port);
    let origin = chunked();
    let proxy = proxy(&origin, relay.port, |shared| {
        shared.budget = Duration::from_millis(500);
    });
    warm_up(&proxy);
    let opened = relay.opened.load(SeqCst);
    relay.fall_silent();
    warm_up(&proxy);
    assert!(relay.opened.load(SeqCst) > opened);
    proxy.wait_metric(&["sprat_catalogue_store_circuit_open"], 0.0);
    proxy.stop();
}

/// The bytes that a store sends unasked before the test gives up: far more than the sockets'
/// buffers hold.
const ENDLESS: usize = 128 << 20;

/// Starts a store that answers the first question for sizes without end, after these bytes. Tells
/// how many bytes were taken.
fn endless(begins: &'static str) -> (u16, mpsc::Receiver<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (taken, told) = mpsc::channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = stream.read(&mut bytes) {
                let text = String::from_utf8_lossy(&bytes[..read]).into_owned();
                if text.contains("MGET") {
                    let mut sent = 0;
                    let _ = stream.write_all(begins.as_bytes());
                    while sent < ENDLESS && stream.write_all(&[b'1'; 1 << 16]).is_ok() {
                        sent += 1 << 16;
                    }
                    let _ = taken.send(sent);
                    break;
                }
                let commands = text.lines().filter(|line| line.starts_with('*')).count();
                if stream
                    .write_all("+OK\r\n".repeat(commands).as_bytes())
                    .is_err()
                {
                    break;
                }
            }
        }
    });
    (port, told)
}

#[test]
fn a_reply_without_end_is_not_read_to_the_end() {
    let origin = chunked();
    for begins in ["$999999999999\r\n", "*2147483647\r\n$1\r\n", "+", "*2\r\n:"] {
        let (port, told) = endless(begins);
        let proxy = proxy(&origin, port, |_| {});
        assert_eq!(proxy.connect().ask(get("/5/a")).status(), 200);
        let taken = told.recv_timeout(PATIENCE).expect("it is asked");
        assert!(taken < ENDLESS / 2, "{begins:?}: {taken} bytes");
        assert_eq!(proxy.connect().ask(get("/5/b")).status(), 200);
        proxy.stop();
    }
}

/// The rate of the link that instances share, in bits per second.
const TOTAL: u64 = 24_000_000;

/// Starts a proxy that shares its uplink with other instances.
fn sharer(origin: &Origin, port: u16) -> Proxy {
    let mut config = config(&[origin.address]);
    config.uplink.rate = Rate::Fixed(TOTAL);
    config.uplink.shared = Some(SharedUplink {
        url: format!("redis://127.0.0.1:{port}/0"),
        key: "test:uplink".to_owned(),
        lease: Duration::from_secs(1),
        instances: 3,
    });
    Proxy::start(&config)
}

/// Starts a process that shares the same uplink.
fn sharing_process(origin: &Origin, port: u16, directory: &std::path::Path) -> Running {
    let file = binary::write(directory, origin.address, "");
    let text = std::fs::read_to_string(&file).unwrap();
    let uplink = format!(
        "uplink: {{rate: 24mbit, shared: {{url: 'redis://127.0.0.1:{port}/0', \
         key: 'test:uplink', lease: 1s, instances: 3}}}}"
    );
    std::fs::write(&file, text.replace("uplink: {rate: unlimited}", &uplink)).unwrap();
    Running::start(&file)
}

fn rate_bits_per_s(proxy: &Proxy) -> u64 {
    (proxy.metric(&["sprat_uplink_rate_bytes_per_second"]) * 8.0) as u64
}

/// Waits until each proxy knows of `count` instances, and has an even part of the link.
fn wait_even(all: &[&Proxy], count: u64) {
    for proxy in all {
        proxy.wait_metric(&["sprat_uplink_instances"], count as f64);
        wait_for("an even share", || rate_bits_per_s(proxy) == TOTAL / count);
    }
}

#[test]
fn a_link_is_divided_among_the_instances_that_live() {
    let redis = Redis::start(free_address().port(), &[]);
    let origin = Origin::http(|_| ok("fine"));
    let (first, second) = (sharer(&origin, redis.port), sharer(&origin, redis.port));
    // Before anything is heard a third of it is taken: that is what the file says.
    wait_even(&[&first, &second], 2);
    let directory = tempfile::tempdir().unwrap();
    let mut third = sharing_process(&origin, redis.port, directory.path());
    wait_even(&[&first, &second], 3);
    // One that is killed says no farewell. What others are asked goes on.
    third.child.kill().unwrap();
    third.child.wait().unwrap();
    for proxy in [&first, &second] {
        assert_eq!(proxy.connect().ask(get("/")).text(), "fine");
    }
    wait_even(&[&first, &second], 2);
    let _again = sharing_process(&origin, redis.port, directory.path());
    wait_even(&[&first, &second], 3);
    // One that is stopped says farewell; who is left has its part.
    second.stop();
    wait_even(&[&first], 2);
    first.stop();
}

#[test]
fn who_has_more_to_send_has_more_of_the_link() {
    let redis = Redis::start(free_address().port(), &[]);
    let body = "x".repeat(64 << 20);
    let origin = Origin::http(move |request| match request.start.contains("/large") {
        true => ok(&body),
        false => ok("fine"),
    });
    let (busy, idle) = (sharer(&origin, redis.port), sharer(&origin, redis.port));
    wait_even(&[&busy, &idle], 2);
    let mut client = busy.connect();
    client.send(get("/large"));
    let reads = std::thread::spawn(move || {
        let mut piece = [0; 65536];
        while matches!(client.reader.read(&mut piece), Ok(1..)) {}
    });
    // An idle one keeps a quarter of its half.
    wait_for("the idle one to give", || {
        rate_bits_per_s(&idle) == TOTAL / 8 && rate_bits_per_s(&busy) == TOTAL / 8 * 7
    });
    assert_eq!(idle.connect().ask(get("/")).text(), "fine");
    drop(busy);
    reads.join().unwrap();
    idle.stop();
}

#[test]
fn a_link_stays_divided_while_the_store_is_away() {
    let port = free_address().port();
    let redis = Redis::start(port, &[]);
    let origin = Origin::http(|_| ok("fine"));
    let (first, second) = (sharer(&origin, port), sharer(&origin, port));
    wait_even(&[&first, &second], 2);
    drop(redis);
    let failures = |proxy: &Proxy| proxy.metric(&["sprat_uplink_store_failures_total"]);
    wait_for("reports to fail", || {
        failures(&first) >= 4.0 && failures(&second) >= 4.0
    });
    // As many as were there last, be they alive or not.
    second.stop();
    assert_eq!(rate_bits_per_s(&first), TOTAL / 2);
    assert_eq!(first.connect().ask(get("/")).text(), "fine");
    let _redis = Redis::start(port, &[]);
    wait_even(&[&first], 1);
    first.stop();
}
