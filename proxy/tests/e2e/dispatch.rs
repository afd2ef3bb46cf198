//! Tests of dispatch: the endpoints that requests go to, and the requests that wait or are refused.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::*;
use sprat_config::resolved::{Cluster, Config, Dispatch, PathPattern, SrqOrder, WaitOrder};
use sprat_scheduler::dispatch::Intervals;

/// An origin that answers `/<bytes>/<id>`. A path with `held` waits for [`Held::release`]; the
/// order of the other requests is recorded.
struct Held {
    origin: Origin,
    order: Arc<Mutex<Vec<String>>>,
    entered: Receiver<()>,
    release: Sender<()>,
}

impl Held {
    fn start() -> Self {
        let order = Arc::new(Mutex::new(Vec::new()));
        let (enter, entered) = channel();
        let (release, released) = channel();
        let (enter, released) = (Mutex::new(enter), Mutex::new(released));
        let origin = Origin::http({
            let order = Arc::clone(&order);
            move |request| {
                let path = request.start.split(' ').nth(1).unwrap();
                if path.contains("held") {
                    enter.lock().unwrap().send(()).unwrap();
                    released.lock().unwrap().recv().unwrap();
                } else {
                    order.lock().unwrap().push(path.to_owned());
                }
                let bytes = path.split('/').nth(1).unwrap().parse().unwrap();
                ok(&"x".repeat(bytes))
            }
        });
        Self {
            origin,
            order,
            entered,
            release,
        }
    }

    /// Starts a proxy with a place for one request, and with these changes to its cluster.
    fn proxy(&self, change: impl FnOnce(&mut Cluster)) -> Proxy {
        let mut config = config(&[self.origin.address]);
        with_cluster(&mut config, |cluster| {
            cluster.max_requests = 1;
            change(cluster);
        });
        Proxy::logging(config)
    }

    /// Occupies the only place with a held request.
    fn occupy(&self, proxy: &Proxy) -> Peer {
        let mut busy = proxy.connect();
        busy.send(get("/5/held"));
        self.entered.recv_timeout(PATIENCE).unwrap();
        busy
    }

    fn let_go(&self, mut busy: Peer) {
        self.release.send(()).unwrap();
        assert_eq!(busy.message().status(), 200);
    }

    fn order(&self) -> Vec<String> {
        std::mem::take(&mut *self.order.lock().unwrap())
    }
}

/// Sends these requests one after the other, while the place is taken.
fn queue(proxy: &Proxy, paths: &[&str]) -> Vec<Peer> {
    let ask = |(index, path): (usize, &&str)| {
        let mut client = proxy.connect();
        client.send(get(path));
        proxy.wait_metric(&["sprat_waiting_requests"], (index + 1) as f64);
        client
    };
    paths.iter().enumerate().map(ask).collect()
}

fn answers(clients: Vec<Peer>) {
    for mut client in clients {
        assert_eq!(client.message().status(), 200);
    }
}

const PATHS: [&str; 4] = ["/5000/a", "/10/b", "/70000/c", "/500/d"];

#[test]
fn the_smallest_of_those_who_wait_goes_first() {
    for (order, expected) in [
        (WaitOrder::Size, ["/10/b", "/500/d", "/5000/a", "/70000/c"]),
        (WaitOrder::Fcfs, PATHS),
    ] {
        let held = Held::start();
        let proxy = held.proxy(|cluster| cluster.wait_queue.order = order.clone());
        // The catalogue learns their sizes.
        for path in PATHS {
            assert_eq!(proxy.connect().ask(get(path)).status(), 200);
        }
        held.order();
        let busy = held.occupy(&proxy);
        let clients = queue(&proxy, &PATHS);
        held.let_go(busy);
        answers(clients);
        assert_eq!(held.order(), expected, "{order:?}");
        assert_eq!(proxy.metric(&["admissions", "decision=\"wait\""]), 4.0);
        assert_eq!(proxy.metric(&["queue_wait_seconds_count"]), 4.0);
        let log = proxy.log_lines(9);
        let waited = |line: &&serde_json::Value| line["queue_wait_ms"].as_f64() > Some(0.0);
        assert_eq!(log.iter().filter(waited).count(), 4, "{log:?}");
        proxy.assert_no_leak();
        proxy.stop();
    }
}

#[test]
fn under_srq_a_request_that_takes_long_lets_another_start() {
    let held = Held::start();
    let mut order = SrqOrder {
        max_overcommit: Some(1),
        ..SrqOrder::default()
    };
    order.queues.first_share_percent = 100;
    order.queues.quanta[0] = 200_000_000;
    let order = WaitOrder::Srq(Box::new(order));
    let proxy = held.proxy(|cluster| cluster.wait_queue.order = order);
    assert_eq!(proxy.connect().ask(get("/1/a")).status(), 200);
    let busy = held.occupy(&proxy);
    let of_queue = |name: &str, queue: usize| {
        let queue = format!("queue=\"{queue}\"");
        proxy.metric(&[name, &queue])
    };
    // Answered while another has the only place, which counts no more after 200 ms.
    assert_eq!(proxy.connect().ask(get("/1/b")).status(), 200);
    assert_eq!(held.order(), ["/1/a", "/1/b"]);
    assert_eq!(of_queue("sprat_cluster_queue_moved_total", 0), 1.0);
    assert_eq!(of_queue("sprat_cluster_queue_requests", 1), 1.0);
    assert_eq!(of_queue("sprat_cluster_queue_quantum_seconds", 0), 0.2);
    assert_eq!(proxy.metric(&["sprat_cluster_queues{"]), 3.0);
    assert_eq!(proxy.metric(&["sprat_cluster_queues_active"]), 1.0);
    held.let_go(busy);
    proxy.assert_no_leak();
    proxy.stop();
}

#[test]
fn the_wait_of_a_request_whose_client_leaves_is_told() {
    let held = Held::start();
    let proxy = held.proxy(|_| {});
    let busy = held.occupy(&proxy);
    queue(&proxy, &["/1/a"]).into_iter().for_each(reset);
    let line = proxy.log_lines(1).remove(0);
    assert_eq!(line["reason"], "client_closed");
    assert!(line["queue_wait_ms"].as_f64() > Some(0.0), "{line}");
    assert_eq!(proxy.metric(&["queue_wait_seconds_count"]), 1.0);
    held.let_go(busy);
    proxy.assert_no_leak();
    proxy.stop();
}

#[test]
fn a_full_queue_refuses_with_advice() {
    let page = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(page.path(), "<h1>Busy</h1>").unwrap();
    let held = Held::start();
    let proxy = held.proxy(|cluster| {
        cluster.wait_queue.max_requests = 1;
        cluster.overload_page = Some(tls::file(page.path()));
    });
    let busy = held.occupy(&proxy);
    let clients = queue(&proxy, &["/1/a"]);
    let mut refused = proxy.connect();
    let answer = refused.ask(get("/1/b"));
    assert_eq!(answer.status(), 503);
    assert_eq!(
        answer.field("content-type"),
        Some("application/problem+json")
    );
    assert_eq!(answer.field("retry-after"), Some("1"));
    assert!(answer.text().contains("as many requests wait as may"));
    // The connection is still good, and a browser gets the page.
    let browser = "GET /1/b HTTP/1.1\r\nHost: a\r\nAccept: text/html,*/*;q=0.8\r\n\r\n";
    let answer = refused.ask(browser);
    assert_eq!(answer.status(), 503);
    assert_eq!(answer.text(), "<h1>Busy</h1>");
    held.let_go(busy);
    answers(clients);
    assert_eq!(held.order(), ["/1/a"]);
    assert_eq!(proxy.metric(&["admissions", "queue_full"]), 2.0);
    assert_eq!(proxy.metric(&["failed_requests", "queue_full"]), 2.0);
    drop(refused);
    proxy.assert_no_leak();
    proxy.stop();
}

#[test]
fn a_request_that_waits_too_long_is_refused() {
    let held = Held::start();
    let proxy = held.proxy(|cluster| {
        cluster.wait_queue.timeout = Some(Duration::from_millis(50));
    });
    let busy = held.occupy(&proxy);
    let answer = proxy.connect().ask(get("/1/a"));
    assert_eq!(answer.status(), 503);
    assert!(answer.text().contains("no endpoint became free in time"));
    held.let_go(busy);
    assert!(held.order().is_empty(), "it never reached the origin");
    proxy.assert_no_leak();
    proxy.stop();
}

#[test]
fn counts_go_on_when_a_reload_makes_another_station() {
    let held = Held::start();
    let mut config = config(&[held.origin.address]);
    with_cluster(&mut config, |cluster| {
        cluster.max_requests = 1;
        cluster.wait_queue.timeout = Some(Duration::from_millis(300));
    });
    let proxy = Proxy::start(&config);
    let counted = |decision: &str| {
        let label = format!("decision=\"{decision}\"");
        proxy.metric(&["sprat_admissions_total", &label])
    };
    let busy = held.occupy(&proxy);
    let mut late = proxy.connect();
    late.send(get("/1/a"));
    proxy.wait_metric(&["sprat_admissions_total", "decision=\"wait\""], 1.0);
    with_cluster(&mut config, |cluster| cluster.max_requests = 2);
    let control = proxy.server.as_ref().unwrap().control();
    control.reload(&config).unwrap();
    // It waits at the former station, and is refused there.
    assert_eq!(late.message().status(), 503);
    assert_eq!(["start", "wait", "queue_timeout"].map(&counted), [1.0; 3]);
    assert_eq!(proxy.connect().ask(get("/1/b")).status(), 200);
    assert_eq!(counted("start"), 2.0);
    held.let_go(busy);
    drop(late);
    proxy.assert_no_leak();
    proxy.stop();
}

#[test]
fn a_route_bounds_the_wait_too() {
    let held = Held::start();
    let mut config = config(&[held.origin.address]);
    with_cluster(&mut config, |cluster| {
        cluster.max_requests = 1;
        cluster.wait_queue.timeout = None;
    });
    // The one that is held is not to be cut, which would free its place.
    let mut held_route = route(&config.clusters[0]);
    held_route.matches.path = PathPattern::Exact("/5/held".to_owned());
    config.routes[0].timeout = Some(Duration::from_millis(300));
    config.routes.insert(0, held_route);
    let proxy = Proxy::logging(config);
    let busy = held.occupy(&proxy);
    assert_eq!(proxy.connect().ask(get("/1/a")).status(), 504);
    held.release.send(()).unwrap();
    drop(busy);
    proxy.assert_no_leak();
    proxy.stop();
}

#[test]
fn who_leaves_the_queue_leaves_no_trace() {
    let held = Held::start();
    let proxy = held.proxy(|_| {});
    let busy = held.occupy(&proxy);
    let mut clients = queue(&proxy, &["/1/a", "/1/b", "/1/c"]);
    reset(clients.remove(1));
    proxy.wait_metric(&["sprat_waiting_requests"], 2.0);
    held.let_go(busy);
    answers(clients);
    assert_eq!(held.order(), ["/1/a", "/1/c"]);
    proxy.assert_no_leak();
    proxy.stop();
}

/// Starts origins that answer with their index, and as many bytes more as the path says.
fn numbered(count: usize) -> Vec<Origin> {
    let origin = |index| {
        Origin::http(move |request| {
            let bytes = request.start.split('/').nth(1).unwrap();
            ok(&format!("{index}{}", "x".repeat(bytes.parse().unwrap())))
        })
    };
    (0..count).map(origin).collect()
}

fn farm(origins: &[Origin], dispatch: Dispatch) -> Config {
    let addresses: Vec<_> = origins.iter().map(|origin| origin.address).collect();
    let mut config = config(&addresses);
    with_cluster(&mut config, |cluster| cluster.dispatch = dispatch);
    config
}

/// Returns the index of the origin that answered.
fn served_by(client: &mut Peer, path: &str) -> u8 {
    let answer = client.ask(get(path));
    assert_eq!(answer.status(), 200);
    answer.body[0] - b'0'
}

#[test]
fn a_resource_keeps_its_endpoint() {
    let origins = numbered(4);
    for dispatch in [Dispatch::RingHash, Dispatch::Maglev] {
        let proxy = Proxy::logging(farm(&origins, dispatch));
        let mut client = proxy.connect();
        let mut used = [false; 4];
        for resource in 0..40 {
            let path = format!("/1/{resource}");
            let first = served_by(&mut client, &path);
            assert_eq!(served_by(&mut client, &path), first);
            used[usize::from(first)] = true;
        }
        assert_eq!(used, [true; 4]);
    }
}

#[test]
fn each_size_has_its_endpoint_once_it_is_known() {
    let origins = numbered(2);
    let sita = Dispatch::Sita(Intervals::Fixed(vec![1000]));
    let proxy = Proxy::logging(farm(&origins, sita));
    let mut client = proxy.connect();
    for path in ["/10/a", "/5000/b", "/20/c", "/9000/d"] {
        served_by(&mut client, path);
    }
    for (path, endpoint) in [("/10/a", 0), ("/5000/b", 1), ("/20/c", 0), ("/9000/d", 1)] {
        assert_eq!(served_by(&mut client, path), endpoint, "{path}");
    }
}

#[test]
fn every_dispatch_serves_and_passes_over_a_dead_endpoint() {
    let origins = numbered(2);
    let dead = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    for dispatch in [
        Dispatch::RoundRobin,
        Dispatch::Random,
        Dispatch::P2c,
        Dispatch::LeastRequest,
        Dispatch::Psqf,
        Dispatch::Rpsq { reserved: 1 },
        Dispatch::LeastWork,
        Dispatch::Sita(Intervals::Learnt),
        Dispatch::RingHash,
        Dispatch::Maglev,
    ] {
        let mut config = farm(&origins, dispatch.clone());
        with_cluster(&mut config, |cluster| {
            cluster.endpoints.insert(0, endpoint(dead));
        });
        let proxy = Proxy::logging(config);
        let mut client = proxy.connect();
        for resource in 0..12 {
            served_by(&mut client, &format!("/{}/{resource}", resource * 100));
        }
        drop(client);
        proxy.assert_no_leak();
        proxy.stop();
    }
}
