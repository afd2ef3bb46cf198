//! Tests of priority classes over real sockets: their order, and the requests that are refused.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::common::*;
use socket2::{Domain, Socket, Type};
use sprat_config::resolved::*;
use sprat_scheduler::Discipline;

/// An origin that answers `/<bytes>/<id>`, and tells of each request that reaches it. A path with
/// `held` waits for its release.
struct Farm {
    origin: Origin,
    reached: Receiver<String>,
    release: Sender<()>,
}

impl Farm {
    fn start() -> Self {
        let (reach, reached) = channel();
        let (release, released) = channel();
        let (reach, released) = (Mutex::new(reach), Mutex::new(released));
        let origin = Origin::http(move |request| {
            let path = request.start.split(' ').nth(1).unwrap();
            reach.lock().unwrap().send(path.to_owned()).unwrap();
            if path.contains("held") {
                released.lock().unwrap().recv().unwrap();
            }
            ok(&"x".repeat(path.split('/').nth(1).unwrap().parse().unwrap()))
        });
        Self {
            origin,
            reached,
            release,
        }
    }

    fn next_reached(&self) -> String {
        self.reached.recv_timeout(PATIENCE).unwrap()
    }

    /// Returns a configuration with these keys at the top level of the file.
    fn config(&self, keys: &str) -> Config {
        let address = self.origin.address;
        let file = format!(
            "version: 1\nadmin: off\nruntime: {{workers: 1}}\n\
             listeners: [{{address: '127.0.0.1:0'}}]\n\
             routes: [{{cluster: farm}}]\n{keys}\n"
        );
        let file = file.replace("ORIGIN", &address.to_string());
        let loaded = sprat_config::parse(&file, "test", &|_| None);
        loaded
            .unwrap_or_else(|errors| panic!("{}", errors.render(false)))
            .config
    }

    fn proxy(&self, keys: &str) -> Proxy {
        Proxy::logging(self.config(keys))
    }

    /// Occupies the only place with a held request.
    fn occupy(&self, proxy: &Proxy) -> Peer {
        let mut busy = proxy.connect();
        busy.send(get("/5/held"));
        assert_eq!(self.next_reached(), "/5/held");
        busy
    }

    fn let_go(&self, mut busy: Peer) {
        self.release.send(()).unwrap();
        assert_eq!(busy.message().status(), 200);
    }
}

fn with_field(path: &str, field: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n{field}\r\n\r\n")
}

/// Sends a request that must wait, and returns its client when it does.
fn queue(proxy: &Proxy, request: &str, class: &str) -> Peer {
    let label = format!("class=\"{class}\"");
    let waiting = ["sprat_waiting_requests", label.as_str()];
    let before = proxy.metric(&waiting);
    let mut client = proxy.connect();
    client.send(request);
    proxy.wait_metric(&waiting, before + 1.0);
    client
}

const ONE_AT_A_TIME: &str = "clusters: {farm: {endpoints: [ORIGIN], max_requests: 1}}\n";

#[test]
fn levels_come_first_where_requests_wait() {
    let farm = Farm::start();
    let proxy = farm.proxy(&format!(
        "{ONE_AT_A_TIME}uplink: {{rate: unlimited}}\n\
         classes: {{gold: {{level: 0}}}}\n\
         class_rules: [{{match: {{cookies: [{{name: tier, value: gold}}]}}, class: gold}}]"
    ));
    let busy = farm.occupy(&proxy);
    let clients = [
        (with_field("/1/p", "Sec-Purpose: prefetch"), "background"),
        (get("/1/d"), "default"),
        (with_field("/1/g", "Cookie: a=b; tier=gold"), "gold"),
    ]
    .map(|(request, class)| queue(&proxy, &request, class));
    farm.let_go(busy);
    for mut client in clients {
        assert_eq!(client.message().status(), 200);
    }
    let order = [(); 3].map(|()| farm.next_reached());
    assert_eq!(order, ["/1/g", "/1/d", "/1/p"]);
    let waited = |class| proxy.metric(&["admissions", class, "decision=\"wait\""]);
    assert_eq!(waited("class=\"gold\""), 1.0);
    assert_eq!(proxy.metric(&["class_responses", "gold", "2xx"]), 1.0);
    assert_eq!(proxy.metric(&["class_bytes", "class=\"gold\""]), 1.0);
    assert_eq!(proxy.metric(&["class_duration_seconds_count", "gold"]), 1.0);
    let mut classes: Vec<String> = proxy
        .log_lines(4)
        .iter()
        .map(|line| line["class"].as_str().unwrap().to_owned())
        .collect();
    classes.sort();
    assert_eq!(classes, ["background", "default", "default", "gold"]);
    proxy.assert_no_leak();
    proxy.stop();
}

#[test]
fn a_pool_holds_its_class_back_and_no_other() {
    let farm = Farm::start();
    let proxy = farm.proxy(
        "clusters: {farm: {endpoints: [ORIGIN]}}\nuplink: {rate: unlimited}\n\
         classes: {bulk: {max_concurrency: 1}}\n\
         class_rules: [{match: {extensions: [iso]}, class: bulk}]",
    );
    let mut busy = proxy.connect();
    busy.send(get("/5/held.iso"));
    assert_eq!(farm.next_reached(), "/5/held.iso");
    let mut second = queue(&proxy, &get("/1/b.iso"), "bulk");
    assert_eq!(proxy.connect().ask(get("/1/a")).status(), 200);
    assert_eq!(farm.next_reached(), "/1/a");
    farm.let_go(busy);
    assert_eq!(second.message().status(), 200);
    drop(second);
    proxy.assert_no_leak();
    proxy.stop();
}

#[test]
fn a_class_has_a_time_out_of_its_own() {
    let farm = Farm::start();
    let proxy = farm.proxy(&format!(
        "{ONE_AT_A_TIME}uplink: {{rate: unlimited}}\n\
         classes: {{hasty: {{queue_timeout: 50ms}}}}\n\
         class_rules: [{{match: {{methods: [HEAD]}}, class: hasty}}]"
    ));
    let busy = farm.occupy(&proxy);
    let patient = queue(&proxy, &get("/1/a"), "default");
    let mut hasty = proxy.connect();
    hasty.send("HEAD /1/b HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(hasty.head().unwrap().status(), 503);
    let refused = ["admissions", "class=\"hasty\"", "queue_timeout"];
    assert_eq!(proxy.metric(&refused), 1.0);
    farm.let_go(busy);
    answered(patient);
    drop(hasty);
    proxy.assert_no_leak();
    proxy.stop();
}

fn answered(mut client: Peer) {
    assert_eq!(client.message().status(), 200);
}

#[test]
fn low_classes_are_discarded_early_and_told_why() {
    let farm = Farm::start();
    let proxy = farm.proxy(
        "clusters: {farm: {endpoints: [ORIGIN], max_requests: 1, \
                           wait_queue: {max_requests: 4}}}\n\
         uplink: {rate: unlimited}\nadmission: {averaging: 0s}\n\
         classes: {background: {level: 15, early_discard: {from: 0.1, to: 0.5}}}",
    );
    let busy = farm.occupy(&proxy);
    let waiting = ["/1/a", "/1/b"].map(|path| queue(&proxy, &get(path), "default"));
    // Half of the queue is taken: the second threshold.
    let mut low = proxy.connect();
    let answer = low.ask(with_field("/1/c", "Sec-Purpose: prefetch"));
    assert_eq!(answer.status(), 503);
    assert!(answer.field("retry-after").is_some());
    let problem: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(problem["reason"], "early_discard");
    assert_eq!(problem["status"], 503);
    let waits = queue(&proxy, &get("/1/d"), "default");
    let discarded = ["admissions", "class=\"background\"", "early_discard"];
    assert_eq!(proxy.metric(&discarded), 1.0);
    farm.let_go(busy);
    waiting.into_iter().for_each(answered);
    answered(waits);
    drop(low);
    proxy.assert_no_leak();
    proxy.stop();
}

#[test]
fn an_overloaded_uplink_refuses_large_low_requests() {
    let farm = Farm::start();
    let proxy = farm.proxy(
        "clusters: {farm: {endpoints: [ORIGIN]}}\nuplink: {rate: 1mbit}\n\
         classes: {bulk: {level: 9}}\n\
         class_rules: [{match: {prefix: /500000}, class: bulk}]\n\
         admission: {channel: {max_backlog: 3s, large: 100KB, level: 9}}",
    );
    let begin = |path: &str| {
        let mut client = proxy.connect();
        client.send(get(path));
        assert_eq!(client.head().unwrap().status(), 200);
        client
    };
    // The catalogue learns the size from the head.
    drop(begin("/500000/bulk"));
    proxy.wait_metric(&["sprat_uplink_open_flows"], 0.0);
    // 4 s of the link.
    let _large = begin("/501000/x");
    let answer = proxy.connect().ask(get("/500000/bulk"));
    assert_eq!(answer.status(), 503);
    assert!(answer.text().contains("\"reason\":\"channel_overload\""));
    let refused = ["admissions", "class=\"bulk\"", "channel_overload"];
    assert_eq!(proxy.metric(&refused), 1.0);
    // What is small, or of another class, passes.
    assert_eq!(proxy.connect().ask(get("/100/small")).status(), 200);
    proxy.stop();
}

#[test]
fn marked_connections_have_their_class() {
    let farm = Farm::start();
    let proxy = farm.proxy(
        "clusters: {farm: {endpoints: [ORIGIN]}}\nuplink: {rate: unlimited}\n\
         classes: {voice: {level: 0}}\n\
         class_rules: [{match: {dscp: [ef]}, class: voice}]",
    );
    for (tos, class) in [(0xb8, "voice"), (0, "default")] {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_tos_v4(tos).unwrap();
        socket.connect(&proxy.address.into()).unwrap();
        let mut client = Peer::new(socket.into());
        assert_eq!(client.ask(get("/1/a")).status(), 200);
        let label = format!("class=\"{class}\"");
        proxy.wait_metric(&["class_responses", &label, "2xx"], 1.0);
    }
    proxy.stop();
}

#[test]
fn marked_connections_of_ipv4_have_their_class_on_a_socket_of_ipv6() {
    let any = (std::net::Ipv6Addr::UNSPECIFIED, 0);
    if std::net::TcpListener::bind(any).is_err() {
        println!("this machine has no IPv6");
        return;
    }
    let farm = Farm::start();
    let mut config = farm.config(
        "clusters: {farm: {endpoints: [ORIGIN]}}\nuplink: {rate: unlimited}\n\
         classes: {voice: {level: 0}}\n\
         class_rules: [{match: {dscp: [ef]}, class: voice}]",
    );
    config.listeners[0].address = std::net::SocketAddr::from(any).into();
    let proxy = Proxy::logging(config);
    let port = proxy.address.port();
    for (tos, class) in [(0xb8, "voice"), (0, "default")] {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_tos_v4(tos).unwrap();
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], port));
        socket.connect(&address.into()).unwrap();
        let mut client = Peer::new(socket.into());
        assert_eq!(client.ask(get("/1/a")).status(), 200);
        let label = format!("class=\"{class}\"");
        proxy.wait_metric(&["class_responses", &label, "2xx"], 1.0);
    }
    // The log has its address as the client has it.
    for line in proxy.log_lines(2) {
        let client = line["client"].as_str().unwrap();
        assert!(client.starts_with("127.0.0.1:"), "{client}");
    }
    proxy.stop();
}

/// Returns which is complete first: a response of class `background`, or one asked for after it.
/// The discipline alone would complete the first one first.
fn first_complete(background: &str) -> &'static str {
    let farm = Farm::start();
    let mut config = farm.config(&format!(
        "clusters: {{farm: {{endpoints: [ORIGIN]}}}}\nuplink: {{rate: 4mbit}}\n\
         classes: {{background: {background}}}\n\
         class_rules: [{{match: {{urgency: [7]}}, class: background}}]"
    ));
    config.uplink.policy = Discipline::Fcfs;
    let proxy = Proxy::start(&config);
    let (done, order) = channel();
    let (mut low, mut high) = (proxy.connect(), proxy.connect());
    low.send(with_field("/600000/low", "Priority: u=7"));
    // It has begun.
    low.stream().peek(&mut [0]).unwrap();
    let low_done = done.clone();
    let reader = std::thread::spawn(move || {
        let message = low.message();
        low_done.send("background").unwrap();
        message.body.len()
    });
    let answer = high.ask(get("/100000/high"));
    done.send("foreground").unwrap();
    drop(high);
    assert_eq!(answer.body.len(), 100_000);
    assert_eq!(reader.join().unwrap(), 600_000);
    proxy.assert_no_leak();
    proxy.wait_metric(&["sprat_uplink_open_flows"], 0.0);
    let sent = proxy.metric(&["uplink_class_bytes", "class=\"background\""]);
    assert!(sent >= 600_000.0, "{sent}");
    proxy.stop();
    order.recv().unwrap()
}

#[test]
fn the_uplink_serves_classes_by_level_rate_and_idleness() {
    assert_eq!(first_complete("{level: 2}"), "background");
    // One level: half the link each, by weight.
    assert_eq!(first_complete("{level: 3}"), "foreground");
    assert_eq!(first_complete("{level: 15}"), "foreground");
    assert_eq!(first_complete("{level: 0, idle_only: true}"), "foreground");
    assert_eq!(first_complete("{level: 0, rate: 2mbit}"), "foreground");
}

#[test]
fn the_type_of_a_response_decides_its_place_on_the_uplink() {
    let origin = Origin::http(|request| {
        let path = request.start.split(' ').nth(1).unwrap();
        let kind = path.rsplit('/').next().unwrap();
        format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {kind}/x; a=b\r\nContent-Length: 5000\r\n\r\n{}",
            "x".repeat(5000)
        )
    });
    let farm = Farm {
        origin,
        ..Farm::start()
    };
    let proxy = farm.proxy(
        "clusters: {farm: {endpoints: [ORIGIN]}}\nuplink: {rate: 8mbit}\n\
         classes: {bulk: {level: 5}, gold: {level: 1}}\n\
         class_rules: [\
         {match: {prefix: /own, response_types: [video/*]}, class: bulk},\
         {match: {prefix: /own/gold}, class: gold},\
         {match: {response_types: [audio/x]}, class: bulk}]",
    );
    for (path, class) in [
        ("/own/video", "bulk"),
        ("/own/gold/video", "bulk"),
        // The rule that the request matched goes before the last.
        ("/own/gold/audio", "gold"),
        ("/other/audio", "bulk"),
        ("/other/video", "default"),
    ] {
        let label = format!("class=\"{class}\"");
        let sent = ["sprat_uplink_class_bytes", label.as_str()];
        let before = proxy.metric(&sent);
        assert_eq!(proxy.connect().ask(get(path)).status(), 200);
        assert!(proxy.metric(&sent) >= before + 5000.0, "{path}: {class}");
    }
    proxy.assert_no_leak();
}
