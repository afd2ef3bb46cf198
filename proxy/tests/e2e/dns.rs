//! Tests of endpoints by name, whose addresses come and go.

use std::net::{IpAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::dns::{NameServer, listeners, loopback};
use crate::common::*;
use sprat_config::resolved::*;

const NAME: &str = "web.test";

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Origins on 127.0.0.1, 127.0.0.2 and so on, each of which answers with its number. A request for
/// `/hold` waits for its release.
struct Farm {
    origins: Vec<Origin>,
    requests: Arc<Vec<AtomicUsize>>,
    held: Receiver<u8>,
    go: Sender<()>,
    healthy: Arc<Vec<AtomicBool>>,
}

impl Farm {
    fn start(count: u8) -> Self {
        let requests: Arc<Vec<AtomicUsize>> =
            Arc::new((0..=count).map(|_| Default::default()).collect());
        let healthy: Arc<Vec<AtomicBool>> =
            Arc::new((0..=count).map(|_| AtomicBool::new(true)).collect());
        let (hold, held) = channel();
        let (go, gone) = channel::<()>();
        let gone = Arc::new(Mutex::new(gone));
        let origins = (1..).zip(listeners(count)).map(|(number, listener)| {
            let (requests, hold) = (Arc::clone(&requests), hold.clone());
            let (gone, healthy) = (Arc::clone(&gone), Arc::clone(&healthy));
            Origin::on(listener, move |mut peer| {
                while let Some(request) = peer.try_message(true) {
                    if request.start.contains("/healthz") {
                        let status = match healthy[usize::from(number)].load(SeqCst) {
                            true => "200 OK",
                            false => "500 No",
                        };
                        peer.send(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n"));
                        continue;
                    }
                    requests[usize::from(number)].fetch_add(1, SeqCst);
                    if request.start.contains("/hold") {
                        hold.send(number).unwrap();
                        gone.lock().unwrap().recv().unwrap();
                    }
                    peer.send(ok(&number.to_string()));
                }
            })
        });
        Self {
            origins: origins.collect(),
            requests,
            held,
            go,
            healthy,
        }
    }

    fn port(&self) -> u16 {
        self.origins[0].address.port()
    }

    /// Returns a configuration of one cluster, which finds the origins by a name.
    fn config(&self, server: &NameServer) -> Config {
        let mut config = config(&[]);
        with_cluster(&mut config, |cluster| {
            cluster.dns = server.dns();
            cluster.endpoints = vec![named(NAME, self.port())];
        });
        config
    }

    fn requests(&self, number: u8) -> usize {
        self.requests[usize::from(number)].load(SeqCst)
    }

    fn label(&self, number: u8) -> String {
        format!("endpoint=\"127.0.0.{number}:{}\"", self.port())
    }
}

fn named(host: &str, port: u16) -> Endpoint {
    let host = host.to_owned();
    Endpoint {
        address: EndpointAddress::Name { host, port },
        weight: 1,
        size_range: None,
        reserved: false,
        priority: 0,
    }
}

fn is(addresses: &[u8]) -> Vec<IpAddr> {
    addresses.iter().map(|number| loopback(*number)).collect()
}

/// Waits until the cluster has these endpoints alone.
fn wait_endpoints(proxy: &Proxy, farm: &Farm, numbers: &[u8]) {
    wait_for(&format!("the endpoints to be {numbers:?}"), || {
        let text = proxy.server.as_ref().unwrap().metrics();
        let count = text
            .lines()
            .filter(|line| line.starts_with("sprat_endpoint_used{"));
        count.count() == numbers.len()
            && numbers
                .iter()
                .all(|number| text.contains(&farm.label(*number)))
    });
}

/// Sends a request on a new connection, and returns the answer.
fn ask(proxy: &Proxy) -> Message {
    proxy.connect().ask(get("/"))
}

/// Clients that ask as fast as they are answered, on new connections and on kept ones.
struct Load {
    over: Arc<AtomicBool>,
    clients: Vec<std::thread::JoinHandle<Vec<u16>>>,
}

impl Load {
    fn start(address: std::net::SocketAddr) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let client = |number: usize| {
            let over = Arc::clone(&over);
            std::thread::spawn(move || {
                let mut statuses = Vec::new();
                let mut kept = Peer::connect(address);
                while !over.load(SeqCst) {
                    statuses.push(kept.ask(get("/")).status());
                    if number.is_multiple_of(2) {
                        kept = Peer::connect(address);
                    }
                }
                statuses
            })
        };
        Self {
            clients: (0..4).map(client).collect(),
            over,
        }
    }

    /// Ends the load, checks that all requests were answered with 200, and returns their number.
    fn end(self) -> usize {
        self.over.store(true, SeqCst);
        let clients = self.clients.into_iter();
        let statuses: Vec<u16> = clients.flat_map(|client| client.join().unwrap()).collect();
        assert!(statuses.iter().all(|status| *status == 200), "{statuses:?}");
        statuses.len()
    }
}

#[test]
fn addresses_come_and_go_under_load_and_no_request_fails() {
    let (farm, server) = (Farm::start(4), NameServer::start());
    server.set(NAME, 0, &is(&[1, 2]));
    let mut config = farm.config(&server);
    config.runtime.workers = 2;
    let proxy = Proxy::logging(config);
    wait_endpoints(&proxy, &farm, &[1, 2]);
    // Held at an endpoint that is going to go.
    let mut held = [proxy.connect(), proxy.connect()];
    for held in &mut held {
        held.send(get("/hold"));
    }
    let mut where_held = [farm.held.recv().unwrap(), farm.held.recv().unwrap()];
    where_held.sort_unstable();
    assert_eq!(where_held, [1, 2]);
    let load = Load::start(proxy.address);
    for numbers in [&[2, 3][..], &[3, 4], &[4, 3, 2, 1], &[2], &[3, 4]] {
        server.set(NAME, 0, &is(numbers));
        wait_endpoints(&proxy, &farm, numbers);
        // Those that are there get requests, and the others none.
        let before: Vec<_> = (1..=4).map(|number| farm.requests(number)).collect();
        for &number in numbers {
            let sofar = before[usize::from(number) - 1];
            wait_for("requests", || farm.requests(number) > sofar + 4);
        }
    }
    farm.go.send(()).unwrap();
    farm.go.send(()).unwrap();
    for held in &mut held {
        assert_eq!(held.message().status(), 200);
    }
    assert!(load.end() > 40);
    let gone = farm.requests(1) + farm.requests(2);
    let answers: Vec<_> = (0..4).map(|_| ask(&proxy).text()).collect();
    assert!(
        answers.iter().all(|answer| answer == "3" || answer == "4"),
        "{answers:?}"
    );
    assert_eq!(farm.requests(1) + farm.requests(2), gone);
    let log = proxy.log_lines_at_least(40);
    let endpoint = log.last().unwrap()["endpoint"].as_str().unwrap();
    assert!(endpoint.starts_with("127.0.0."), "{endpoint}");
    drop(held);
    proxy.assert_no_leak();
    proxy.stop();
}

#[test]
fn no_connection_is_kept_to_an_address_that_is_gone() {
    let (ended, end) = channel();
    let ended = Mutex::new(ended);
    let mut sockets = listeners(2);
    let second = Origin::on(sockets.pop().unwrap(), saying("2"));
    let first = Origin::on(sockets.pop().unwrap(), move |mut peer| {
        while peer.try_message(true).is_some() {
            peer.send(ok("1"));
        }
        ended.lock().unwrap().send(()).unwrap();
    });
    let server = NameServer::start();
    server.set(NAME, 0, &is(&[1]));
    let mut config = config(&[]);
    with_cluster(&mut config, |cluster| {
        cluster.dns = server.dns();
        cluster.endpoints = vec![named(NAME, first.address.port())];
    });
    let proxy = Proxy::start(&config);
    assert_eq!(ask(&proxy).text(), "1");
    proxy.wait_metric(&["sprat_upstream_idle_connections"], 1.0);
    server.set(NAME, 0, &is(&[2]));
    end.recv_timeout(PATIENCE).unwrap();
    assert_eq!(ask(&proxy).text(), "2");
    assert_eq!((first.connections(), second.connections()), (1, 1));
    proxy.assert_no_leak();
}

#[test]
fn a_name_server_that_fails_leaves_the_last_answer() {
    let (farm, server) = (Farm::start(2), NameServer::start());
    server.set(NAME, 0, &is(&[1]));
    let proxy = Proxy::start(&farm.config(&server));
    assert_eq!(ask(&proxy).text(), "1");
    server.fail(true);
    let failed = &[
        "sprat_dns_lookups_total",
        "name=\"web.test\"",
        "result=\"failure\"",
    ];
    wait_for("failures", || proxy.metric(failed) > 2.0);
    assert!(proxy.metric(&["sprat_dns_failures_in_a_row"]) > 1.0);
    assert_eq!(
        proxy.metric(&["sprat_dns_addresses", "cluster=\"farm\""]),
        1.0
    );
    assert_eq!(ask(&proxy).text(), "1");
    // So does one that says that the name has none.
    server.set(NAME, 0, &[]);
    server.fail(false);
    let nothing = &["sprat_dns_lookups_total", "result=\"no_address\""];
    wait_for("such answers", || proxy.metric(nothing) > 2.0);
    assert_eq!(ask(&proxy).text(), "1");
    server.set(NAME, 0, &is(&[2]));
    wait_endpoints(&proxy, &farm, &[2]);
    proxy.wait_metric(&["sprat_dns_failures_in_a_row"], 0.0);
    assert_eq!(ask(&proxy).text(), "2");
}

#[test]
fn a_name_that_does_not_resolve_is_503_until_it_does() {
    let (farm, server) = (Farm::start(1), NameServer::start());
    for discovery in [DnsType::Strict, DnsType::Logical] {
        let mut config = farm.config(&server);
        with_cluster(&mut config, |cluster| cluster.dns.discovery = discovery);
        let name = format!("{discovery:?}.test");
        with_cluster(&mut config, |cluster| {
            cluster.endpoints = vec![named(&name, farm.port())];
        });
        let proxy = Proxy::start(&config);
        assert_eq!(ask(&proxy).status(), 503);
        server.set(&name, 0, &is(&[1]));
        wait_for("an answer", || ask(&proxy).status() == 200);
        proxy.assert_no_leak();
    }
}

#[test]
fn a_name_server_that_says_nothing_holds_up_neither_the_start_nor_another() {
    let (farm, server) = (Farm::start(1), NameServer::start());
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let silent = (silent.local_addr().unwrap(), silent);
    server.set(NAME, 0, &is(&[1]));
    let mut config = farm.config(&server);
    with_cluster(&mut config, |cluster| {
        cluster.dns.timeout = ms(200);
        cluster.dns.resolvers = Some(vec![silent.0]);
    });
    let proxy = Proxy::start(&config);
    assert_eq!(ask(&proxy).status(), 503);
    let failed = &["sprat_dns_lookups_total", "result=\"failure\""];
    wait_for("a failure", || proxy.metric(failed) >= 1.0);
    with_cluster(&mut config, |cluster| {
        cluster.dns.timeout = Duration::from_secs(4);
        cluster.dns.resolvers = Some(vec![silent.0, server.address]);
    });
    let proxy = Proxy::start(&config);
    assert_eq!(ask(&proxy).text(), "1");
}

#[test]
fn what_was_known_of_a_name_stands_for_its_time() {
    let (farm, server) = (Farm::start(1), NameServer::start());
    server.set(NAME, 0, &is(&[1]));
    let mut config = farm.config(&server);
    with_cluster(&mut config, |cluster| cluster.dns.max_stale = Some(ms(200)));
    let proxy = Proxy::start(&config);
    assert_eq!(ask(&proxy).text(), "1");
    server.fail(true);
    wait_for("its end", || ask(&proxy).status() == 503);
    assert!(proxy.metric(&["sprat_dns_lookups_total", "result=\"failure\""]) >= 1.0);
    server.fail(false);
    wait_for("an answer", || ask(&proxy).status() == 200);
}

#[test]
fn an_endpoint_that_stays_keeps_its_requests() {
    let (farm, server) = (Farm::start(2), NameServer::start());
    server.set(NAME, 0, &is(&[1]));
    let mut config = farm.config(&server);
    with_cluster(&mut config, |cluster| cluster.max_requests = 1);
    let proxy = Proxy::start(&config);
    let mut held: Vec<_> = (0..3).map(|_| proxy.connect()).collect();
    held[0].send(get("/hold"));
    assert_eq!(farm.held.recv().unwrap(), 1);
    // Waits for a place.
    held[1].send(get("/hold"));
    proxy.wait_metric(&["sprat_waiting_requests"], 1.0);
    server.set(NAME, 0, &is(&[1, 2]));
    // The place is at the endpoint that has come: the other has none.
    assert_eq!(farm.held.recv_timeout(PATIENCE).unwrap(), 2);
    held[2].send(get("/hold"));
    proxy.wait_metric(&["sprat_waiting_requests"], 1.0);
    farm.go.send(()).unwrap();
    farm.held.recv_timeout(PATIENCE).unwrap();
    farm.go.send(()).unwrap();
    farm.go.send(()).unwrap();
    for held in &mut held {
        assert_eq!(held.message().status(), 200);
    }
    assert_eq!(farm.requests(1) + farm.requests(2), 3);
}

#[test]
fn a_logical_name_is_one_endpoint() {
    let (farm, server) = (Farm::start(2), NameServer::start());
    server.set(NAME, 0, &is(&[1, 2]));
    let mut config = farm.config(&server);
    with_cluster(&mut config, |cluster| {
        cluster.dns.discovery = DnsType::Logical;
    });
    let proxy = Proxy::logging(config);
    let mut kept = proxy.connect();
    assert_eq!(kept.ask(get("/")).text(), "1");
    assert_eq!(kept.ask(get("/")).text(), "1");
    server.set(NAME, 0, &is(&[2]));
    proxy.wait_metric(&["sprat_dns_addresses"], 1.0);
    // Its connection stays; the next one goes elsewhere.
    assert_eq!(kept.ask(get("/")).text(), "1");
    let mut held = proxy.connect();
    held.send(get("/hold"));
    assert_eq!(farm.held.recv().unwrap(), 1);
    assert_eq!(kept.ask(get("/")).text(), "2");
    farm.go.send(()).unwrap();
    assert_eq!(held.message().status(), 200);
    let label = format!("endpoint=\"web.test:{}\"", farm.port());
    assert_eq!(
        proxy.metric(&["sprat_upstream_connects_total", &label]),
        2.0
    );
    let log = proxy.log_lines(5);
    assert_eq!(log[0]["endpoint"], format!("web.test:{}", farm.port()));
}

/// Returns a server that answers each request with a number of its own.
fn saying(number: &'static str) -> impl Fn(Peer) + Send + Sync {
    move |mut peer| {
        while peer.try_message(true).is_some() {
            peer.send(ok(number));
        }
    }
}

/// Returns a configuration of one cluster whose name is one endpoint. Each request needs a new
/// connection.
fn logical(server: &NameServer, port: u16) -> Config {
    let mut config = config(&[]);
    with_cluster(&mut config, |cluster| {
        cluster.dns = server.dns();
        cluster.dns.discovery = DnsType::Logical;
        cluster.endpoints = vec![named(NAME, port)];
        cluster.max_idle_connections = 0;
    });
    config
}

#[test]
fn a_logical_name_goes_on_past_an_address_that_says_nothing() {
    let mut sockets = listeners(2);
    let second = Origin::on(sockets.pop().unwrap(), saying("2"));
    let first = sockets.pop().unwrap();
    let _held = black_hole(&first);
    let server = NameServer::start();
    server.set(NAME, 60, &is(&[1, 2]));
    let mut config = logical(&server, second.address.port());
    with_cluster(&mut config, |cluster| {
        cluster.connect_timeout = ms(600);
    });
    let proxy = Proxy::start(&config);
    for _ in 0..3 {
        assert_eq!(ask(&proxy).text(), "2");
    }
    assert_eq!(second.connections(), 3);
    proxy.assert_no_leak();
}

#[test]
fn a_logical_name_begins_where_it_was_met_last() {
    let mut sockets = listeners(2);
    let _second = Origin::on(sockets.pop().unwrap(), saying("2"));
    let first = sockets.pop().unwrap();
    let address = first.local_addr().unwrap();
    drop(first);
    let server = NameServer::start();
    server.set(NAME, 60, &is(&[1, 2]));
    let config = logical(&server, address.port());
    let proxy = Proxy::start(&config);
    assert_eq!(ask(&proxy).text(), "2");
    let first = Origin::on(TcpListener::bind(address).unwrap(), saying("1"));
    for _ in 0..3 {
        assert_eq!(ask(&proxy).text(), "2");
    }
    assert_eq!(first.connections(), 0);
}

#[test]
fn addresses_of_a_kind_that_cannot_be_had_stay() {
    let (farm, server) = (Farm::start(2), NameServer::start());
    let v6: IpAddr = "::1".parse().unwrap();
    server.set(NAME, 0, &[loopback(1), v6]);
    let mut config = farm.config(&server);
    with_cluster(&mut config, |cluster| {
        cluster.dns.lookup_family = LookupFamily::All;
    });
    let v6_label = format!("endpoint=\"[::1]:{}\"", farm.port());
    let used = |proxy: &Proxy, label: &str| proxy.metric(&["sprat_endpoint_used", label]);
    let failed = &["sprat_dns_lookups_total", "result=\"failure\""];
    let proxy = Proxy::start(&config);
    assert_eq!(used(&proxy, &v6_label), 1.0);
    server.fail_v6(true);
    wait_for("failures", || proxy.metric(failed) > 2.0);
    assert_eq!(used(&proxy, &v6_label), 1.0);
    assert!(proxy.metric(&["sprat_dns_failures_in_a_row"]) > 1.0);
    // The other kind goes on.
    server.set(NAME, 0, &[loopback(2)]);
    wait_for("the other address", || used(&proxy, &farm.label(2)) == 1.0);
    assert_eq!(used(&proxy, &farm.label(1)), 0.0);
    assert_eq!(used(&proxy, &v6_label), 1.0);
    // It has none, which is an answer.
    server.fail_v6(false);
    wait_for("its end", || used(&proxy, &v6_label) == 0.0);
    proxy.wait_metric(&["sprat_dns_failures_in_a_row"], 0.0);
    drop(proxy);
    // To begin with, there is what can be had.
    server.fail_v6(true);
    let proxy = Proxy::start(&config);
    assert_eq!(ask(&proxy).text(), "2");
}

#[test]
fn the_family_says_which_addresses_are_used() {
    let (farm, server) = (Farm::start(1), NameServer::start());
    let both = [loopback(1), "::1".parse().unwrap()];
    server.set("both.test", 60, &both);
    server.set("six.test", 60, &both[1..]);
    let (v4, v6) = (
        format!("127.0.0.1:{}", farm.port()),
        format!("[::1]:{}", farm.port()),
    );
    for (family, both, six) in [
        (LookupFamily::V4Preferred, vec![&v4], vec![&v6]),
        (LookupFamily::V4Only, vec![&v4], vec![]),
        (LookupFamily::V6Only, vec![&v6], vec![&v6]),
        (LookupFamily::Auto, vec![&v6], vec![&v6]),
        (LookupFamily::All, vec![&v4, &v6], vec![&v6]),
    ] {
        for (name, expected) in [("both.test", both), ("six.test", six)] {
            let mut config = farm.config(&server);
            with_cluster(&mut config, |cluster| {
                cluster.dns.lookup_family = family;
                cluster.endpoints = vec![named(name, farm.port())];
            });
            let proxy = Proxy::start(&config);
            let text = proxy.server.as_ref().unwrap().metrics();
            let used = |label: &&String| text.contains(&format!("endpoint=\"{label}\""));
            let found: Vec<_> = [&v4, &v6].into_iter().filter(used).collect();
            assert_eq!(found, expected, "{family:?} {name}");
        }
    }
}

#[test]
fn what_two_names_share_is_one_endpoint_and_names_are_asked_for_once() {
    let (farm, server) = (Farm::start(3), NameServer::start());
    server.set("a.test", 60, &is(&[2, 1]));
    server.set("b.test", 60, &is(&[2, 3, 1]));
    let mut config = farm.config(&server);
    with_cluster(&mut config, |cluster| {
        let first = EndpointAddress::Ip(farm.origins[0].address);
        cluster.endpoints = vec![named("a.test", farm.port()), named("b.test", farm.port())];
        cluster.endpoints.push(Endpoint {
            address: first,
            ..named("", 0)
        });
        cluster.dns.max_addresses = 2;
    });
    let mut twin = Cluster::clone(&config.clusters[0]);
    twin.name = "twin".to_owned();
    config.clusters.push(Arc::new(twin));
    let proxy = Proxy::start(&config);
    for cluster in ["farm", "twin"] {
        let cluster = format!("cluster=\"{cluster}\"");
        let of = |number| proxy.metric(&["sprat_endpoint_used", &cluster, &farm.label(number)]);
        // Of the second name the two lowest count.
        assert_eq!([1, 2, 3].map(of), [1.0, 1.0, 0.0]);
        assert_eq!(proxy.metric(&["sprat_dns_addresses", &cluster]), 4.0);
    }
    assert_eq!(server.questions(), 2);
    let answers: Vec<_> = (0..4).map(|_| ask(&proxy).text()).collect();
    // The address that is given stands where it is given.
    assert_eq!(answers, ["2", "1", "2", "1"]);
}

#[test]
fn a_reload_in_the_middle_changes_nothing_for_requests() {
    let (farm, server) = (Farm::start(3), NameServer::start());
    server.set(NAME, 0, &is(&[1]));
    let mut before = farm.config(&server);
    before.runtime.workers = 2;
    // The same, or the listener would be another.
    before.listeners[0].address = free_address().into();
    let proxy = Proxy::start(&before);
    let control = proxy.server.as_ref().unwrap().control();
    let load = Load::start(proxy.address);
    let mut held = proxy.connect();
    held.send(get("/hold"));
    assert_eq!(farm.held.recv().unwrap(), 1);
    let mut after = before.clone();
    for (round, numbers) in [&[1, 2][..], &[3], &[2, 3], &[1, 3]].iter().enumerate() {
        server.set(NAME, 0, &is(numbers));
        with_cluster(&mut after, |cluster| match round {
            // Nothing that the endpoints depend on.
            0 => cluster.connect_timeout = Duration::from_secs(9),
            // How the name is resolved.
            1 => cluster.dns.max_addresses = 10,
            // How one is chosen.
            2 => cluster.dispatch = Dispatch::LeastRequest,
            // Which there are.
            _ => cluster.endpoints.push(endpoint(farm.origins[1].address)),
        });
        control.reload(&after).unwrap();
        let expected = match round {
            3 => &[1, 2, 3][..],
            _ => numbers,
        };
        wait_endpoints(&proxy, &farm, expected);
    }
    farm.go.send(()).unwrap();
    assert_eq!(held.message().status(), 200);
    assert!(load.end() > 20);
    drop(held);
    proxy.assert_no_leak();
}

#[test]
fn addresses_that_come_are_checked_and_those_that_go_are_not() {
    let (farm, server) = (Farm::start(3), NameServer::start());
    farm.healthy[2].store(false, SeqCst);
    server.set(NAME, 0, &is(&[1]));
    let mut config = farm.config(&server);
    with_cluster(&mut config, |cluster| {
        cluster.resilience.healthy_panic_percent = 0;
        cluster.resilience.health_checks = Some(health_checks(PATIENCE));
    });
    let proxy = Proxy::start(&config);
    server.set(NAME, 0, &is(&[1, 2]));
    let second = farm.label(2);
    proxy.wait_metric(&["sprat_endpoint_unhealthy", &second], 1.0);
    let answers: Vec<_> = (0..4).map(|_| ask(&proxy).text()).collect();
    assert_eq!(answers, ["1"; 4]);
    // Gone and back, it is another: nothing is known against it.
    farm.healthy[2].store(true, SeqCst);
    server.set(NAME, 0, &is(&[3]));
    wait_endpoints(&proxy, &farm, &[3]);
    server.set(NAME, 0, &is(&[2]));
    wait_endpoints(&proxy, &farm, &[2]);
    assert_eq!(ask(&proxy).text(), "2");
    proxy.wait_metric(&["sprat_endpoint_unhealthy"], 0.0);
}

#[test]
fn the_system_is_asked_if_nobody_else_is_given() {
    let farm = Farm::start(1);
    let mut config = config(&[]);
    with_cluster(&mut config, |cluster| {
        cluster.endpoints = vec![named("localhost", farm.port())];
    });
    let proxy = Proxy::start(&config);
    assert_eq!(ask(&proxy).text(), "1");
    assert_eq!(proxy.metric(&["sprat_endpoint_used", &farm.label(1)]), 1.0);
}
