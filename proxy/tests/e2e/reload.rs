//! Tests of reloads while requests go on.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::common::*;
use sprat_config::resolved::*;
use sprat_scheduler::{ClassSpec, Discipline};
use sprat_server::server::Control;

fn named(name: &'static str) -> Origin {
    Origin::http(move |_| ok(name))
}

fn control(proxy: &Proxy) -> Control {
    proxy.server.as_ref().unwrap().control()
}

fn reload(proxy: &Proxy, config: &Config) {
    let waiting = control(proxy).reload(config).unwrap();
    assert!(waiting.is_empty(), "{waiting:?}");
}

/// Returns a configuration with two workers, and with the port that the proxy uses.
fn of(origin: &Origin) -> Config {
    let mut config = config(&[origin.address]);
    config.runtime.workers = 2;
    config.listeners[0].address = free_address().into();
    config
}

#[test]
fn a_kept_connection_is_served_by_the_new_configuration_and_a_request_by_its_own() {
    let (go, gone) = channel::<()>();
    let (enter, entered) = channel::<()>();
    let gone = std::sync::Mutex::new(gone);
    let slow = Origin::http(move |request| {
        if request.start.contains("/slow") {
            enter.send(()).unwrap();
            gone.lock().unwrap().recv().unwrap();
        }
        ok("old")
    });
    let fast = named("new");
    let before = of(&slow);
    let proxy = Proxy::start(&before);
    let mut kept = proxy.connect();
    assert_eq!(kept.ask(get("/")).text(), "old");
    let mut busy = proxy.connect();
    busy.send(get("/slow"));
    entered.recv_timeout(PATIENCE).unwrap();
    let mut after = before;
    with_cluster(&mut after, |cluster| {
        cluster.endpoints = vec![endpoint(fast.address)];
    });
    // Another listener, for connections to come.
    after.listeners[0].max_request_body = Some(1 << 20);
    reload(&proxy, &after);
    assert_eq!(kept.ask(get("/")).text(), "new");
    go.send(()).unwrap();
    assert_eq!(busy.message().text(), "old");
    assert_eq!(busy.ask(get("/")).text(), "new");
    // Series go on: what was counted before is there still.
    proxy.wait_metric(&["sprat_requests_total", "cluster=\"farm\"", "2xx"], 4.0);
    let of_listener = ["sprat_listener_requests_total", "listener=\"test\"", "2xx"];
    proxy.wait_metric(&of_listener, 4.0);
    proxy.wait_metric(&["sprat_config_reloads_total", "good"], 1.0);
    drop((kept, busy));
    proxy.assert_no_leak();
}

#[test]
fn what_a_reload_leaves_is_freed_beside_the_workers() {
    let origin = named("a");
    let small = of(&origin);
    let mut large = small.clone();
    let route = large.routes[0].clone();
    large.routes = (0..2000)
        .map(|number| Route {
            matches: RouteMatch {
                hosts: Vec::new(),
                path: PathPattern::Exact(format!("/{number}")),
            },
            ..route.clone()
        })
        .collect();
    let proxy = Proxy::start(&large);
    let mut kept = proxy.connect();
    assert_eq!(kept.ask(get("/1999")).status(), 200);
    reload(&proxy, &small);
    assert_eq!(kept.ask(get("/other")).status(), 200);
    let is_there = || {
        let mut tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).ok();
        tasks.any(|task| name(task.unwrap()).is_some_and(|own| own.trim() == "disposal"))
    };
    wait_for("the thread that frees the table", is_there);
}

#[test]
fn listeners_come_and_go() {
    let origin = named("a");
    let before = of(&origin);
    let proxy = Proxy::start(&before);
    let mut kept = proxy.connect();
    assert_eq!(kept.ask(get("/")).status(), 200);
    let mut both = before.clone();
    both.listeners.push(Listener {
        name: "second".to_owned(),
        address: free_address().into(),
        ..before.listeners[0].clone()
    });
    // Its bounds change for connections to come.
    both.listeners[0].max_request_body = Some(1);
    reload(&proxy, &both);
    let mut second = Peer::connect(both.listeners[1].address.ip().unwrap());
    assert_eq!(second.ask(get("/")).status(), 200);
    let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab";
    assert_eq!(proxy.connect().ask(post).status(), 413);
    assert_eq!(kept.ask(post).status(), 200);
    let mut one = both.clone();
    one.listeners.remove(0);
    reload(&proxy, &one);
    assert!(kept.is_closed());
    assert!(std::net::TcpStream::connect(before.listeners[0].address.ip().unwrap()).is_err());
    assert_eq!(second.ask(get("/")).status(), 200);
}

#[test]
fn a_listener_moves_between_an_address_and_all_of_them() {
    let origin = named("a");
    let mut config = of(&origin);
    let own = config.listeners[0].address.ip().unwrap();
    let proxy = Proxy::start(&config);
    let mut any = own;
    any.set_ip(std::net::Ipv4Addr::UNSPECIFIED.into());
    for address in [any, own] {
        config.listeners[0].address = address.into();
        reload(&proxy, &config);
        assert_eq!(Peer::connect(own).ask(get("/")).text(), "a");
    }
}

#[test]
fn what_cannot_be_had_leaves_all_as_it_is() {
    let (origin, other) = (named("a"), named("b"));
    let before = of(&origin);
    let proxy = Proxy::start(&before);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut after = before.clone();
    with_cluster(&mut after, |cluster| {
        cluster.endpoints = vec![endpoint(other.address)];
    });
    after.listeners.push(Listener {
        name: "second".to_owned(),
        address: taken.local_addr().unwrap().into(),
        ..before.listeners[0].clone()
    });
    let error = control(&proxy).reload(&after).unwrap_err();
    let error = format!("{error:#}");
    assert!(error.contains("(listener `second`)"), "{error}");
    assert_eq!(proxy.connect().ask(get("/")).text(), "a");
    proxy.wait_metric(&["sprat_config_last_reload_successful"], 0.0);
    drop(taken);
    reload(&proxy, &after);
    assert_eq!(proxy.connect().ask(get("/")).text(), "b");
    proxy.wait_metric(&["sprat_config_last_reload_successful"], 1.0);
    // What only a restart can change stays, and that is said.
    after.runtime.workers = 3;
    let waiting = control(&proxy).reload(&after).unwrap();
    assert_eq!(waiting, ["`runtime.workers` stays 2, not 3"]);
}

#[test]
fn an_unchanged_cluster_keeps_its_connections_places_and_learnt_sizes() {
    let (go, gone) = channel::<()>();
    let gone = std::sync::Mutex::new(gone);
    let origin = Origin::http(move |_| {
        gone.lock().unwrap().recv().unwrap();
        ok("fine")
    });
    let mut before = of(&origin);
    // The kept upstream connection is one worker's.
    before.runtime.workers = 1;
    with_cluster(&mut before, |cluster| cluster.max_requests = 1);
    let proxy = Proxy::start(&before);
    go.send(()).unwrap();
    assert_eq!(proxy.connect().ask(get("/learnt")).status(), 200);
    let mut first = proxy.connect();
    first.send(get("/"));
    proxy.wait_metric(&["sprat_upstream_outstanding"], 1.0);
    let mut after = before.clone();
    let other = Cluster {
        name: "other".to_owned(),
        ..Cluster::clone(&before.clusters[0])
    };
    // In another place than before.
    after.clusters.insert(0, Arc::new(other));
    after.routes[0].idle_timeout = Duration::from_secs(7);
    after.catalogue.max_bytes *= 2;
    reload(&proxy, &after);
    let mut second = proxy.connect();
    second.send(get("/"));
    proxy.wait_metric(&["sprat_waiting_requests", "cluster=\"farm\""], 1.0);
    go.send(()).unwrap();
    go.send(()).unwrap();
    assert_eq!(first.message().status(), 200);
    assert_eq!(second.message().status(), 200);
    assert_eq!(origin.connections(), 1);
    assert!(proxy.metric(&["sprat_catalogue_entries"]) >= 2.0);
}

/// The bytes of a response so large that at this rate the kernel's buffers never hold all of it.
const LARGE: usize = 2 << 20;

#[test]
fn the_uplink_changes_under_a_response_in_progress() {
    let origin = Origin::http(|_| ok(&"x".repeat(LARGE)));
    let mut before = of(&origin);
    before.uplink.rate = Rate::Fixed(100_000);
    let proxy = Proxy::start(&before);
    let mut client = proxy.connect();
    client.send(get("/"));
    proxy.wait_metric(&["sprat_uplink_waiting_flows"], 1.0);
    let class = |name: &str, spec| Class {
        name: name.to_owned(),
        spec,
        queue_timeout: QueueTimeout::Cluster,
    };
    for (policy, idle_only) in [(Discipline::Fair, false), (Discipline::Srpt, true)] {
        let mut after = before.clone();
        after.uplink.policy = policy;
        let spec = ClassSpec {
            idle_only,
            ..ClassSpec::default()
        };
        after.classes.list.insert(0, class("first", spec));
        after.classes.default += 1;
        for rule in &mut after.classes.rules {
            rule.class += 1;
        }
        reload(&proxy, &after);
        // In the class that it was in, whatever its number in the file.
        proxy.wait_metric(&["sprat_uplink_class_flows", "class=\"default\""], 1.0);
    }
    // What has begun goes on as a client by itself, and beside those that are new.
    for (share, clients) in [
        (Some(ClientBy::Client), 2.0),
        (Some(ClientBy::Header("x-user".to_owned())), 2.0),
        (None, 0.0),
    ] {
        before.uplink.share = share;
        reload(&proxy, &before);
        let news = [(); 2].map(|()| {
            let mut client = proxy.connect();
            client.send(get("/"));
            client
        });
        proxy.wait_metric(&["sprat_uplink_waiting_flows"], 3.0);
        proxy.wait_metric(&["sprat_uplink_clients"], clients);
        drop(news);
        proxy.wait_metric(&["sprat_uplink_open_flows"], 1.0);
    }
    before.uplink.rate = Rate::Auto;
    reload(&proxy, &before);
    before.uplink.rate = Rate::Fixed(1_000_000_000);
    reload(&proxy, &before);
    assert_eq!(client.message().body.len(), LARGE);
    proxy.wait_metric(&["sprat_uplink_rate_bytes_per_second"], 125e6);
    // Another kind of uplink: kept connections end with their next answer.
    before.uplink.rate = Rate::Unlimited;
    reload(&proxy, &before);
    assert!(client.is_closed());
    assert_eq!(proxy.connect().ask(get("/")).body.len(), LARGE);
    before.uplink.rate = Rate::Fixed(500_000_000);
    reload(&proxy, &before);
    assert_eq!(proxy.connect().ask(get("/")).body.len(), LARGE);
    proxy.wait_metric(&["sprat_uplink_open_flows"], 0.0);
}

#[test]
fn the_access_log_moves() {
    let origin = named("a");
    let proxy = Proxy::logging(of(&origin));
    assert_eq!(proxy.connect().ask(get("/one")).status(), 200);
    let mut after = of(&origin);
    after.listeners[0].address = proxy.address.into();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("other.log");
    after.access_log = vec![AccessLog {
        target: LogTarget::File(path.clone()),
        span: Span::default(),
        format: LogFormat::Combined,
        filters: Vec::new(),
    }];
    reload(&proxy, &after);
    assert_eq!(proxy.connect().ask(get("/two")).status(), 200);
    wait_for("a line in the other log", || {
        std::fs::read_to_string(&path).unwrap().contains("GET /two")
    });
    assert_eq!(proxy.log_lines(1)[0]["path"], "/one");
}

#[test]
fn a_server_that_drains_follows_no_other_configuration() {
    let (go, gone) = channel::<()>();
    let (enter, entered) = channel::<()>();
    let gone = std::sync::Mutex::new(gone);
    let origin = Origin::http(move |_| {
        enter.send(()).unwrap();
        gone.lock().unwrap().recv().unwrap();
        ok("fine")
    });
    let before = of(&origin);
    let proxy = Proxy::start(&before);
    let mut busy = proxy.connect();
    busy.send(get("/"));
    entered.recv_timeout(PATIENCE).unwrap();
    control(&proxy).drain();
    let mut both = before.clone();
    both.listeners.push(Listener {
        name: "second".to_owned(),
        address: free_address().into(),
        ..before.listeners[0].clone()
    });
    let error = control(&proxy).reload(&both).unwrap_err();
    assert_eq!(error.to_string(), "the server is stopping");
    // Whoever comes after it may have the address.
    drop(std::net::TcpListener::bind(both.listeners[1].address.ip().unwrap()).unwrap());
    go.send(()).unwrap();
    assert_eq!(busy.message().text(), "fine");
}

#[test]
fn listeners_whose_ports_the_kernel_chooses_are_told_apart_by_name() {
    let origin = Origin::http(|request| ok(request.field("via").unwrap()));
    let mut config = of(&origin);
    let listener = config.listeners.remove(0);
    for name in ["one", "two"] {
        let mut own = Listener {
            name: name.to_owned(),
            address: "127.0.0.1:0".parse().unwrap(),
            ..listener.clone()
        };
        own.forwarding.via = Some(name.to_owned());
        config.listeners.push(own);
    }
    let proxy = Proxy::start(&config);
    let addresses = proxy.server.as_ref().unwrap().addresses();
    config.listeners.reverse();
    reload(&proxy, &config);
    for (address, via) in addresses.iter().zip(["1.1 one", "1.1 two"]) {
        assert_eq!(Peer::connect(*address).ask(get("/")).text(), via);
    }
}
