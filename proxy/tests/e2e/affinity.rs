//! Tests of requests that stay with an endpoint or leave it: sessions, and endpoints that drain.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use crate::common::binary::sprat;
use crate::common::*;
use sprat_config::resolved::*;

/// Starts an origin that answers with its name and the cookies that it got.
fn named(name: &'static str) -> Origin {
    Origin::http(move |request| {
        let cookies = request.field("cookie").unwrap_or("no cookie").to_owned();
        format!(
            "HTTP/1.1 200 OK\r\nCache-Control: public, max-age=60\r\nX-Cookies: {cookies}\r\n\
             Content-Length: {}\r\n\r\n{name}",
            name.len()
        )
    })
}

/// Returns a configuration of a cluster with round robin that keeps sessions by the cookie `at`.
fn keeping(origins: &[SocketAddr], change: impl FnOnce(&mut StatefulSession)) -> Config {
    let mut config = config(origins);
    with_cluster(&mut config, |cluster| {
        cluster.dispatch = Dispatch::RoundRobin;
        cluster.wait_queue.scope = WaitScope::Endpoint;
        let mut session = StatefulSession {
            cookie: "at".to_owned(),
            attributes: "; Path=/; HttpOnly; SameSite=Lax".to_owned(),
            strict: false,
            key_file: None,
        };
        change(&mut session);
        cluster.stateful_session = Some(session);
    });
    config
}

/// Sends a request with this cookie, and returns the answer.
fn ask(proxy: &Proxy, cookie: Option<&str>) -> Message {
    let cookie = cookie.map_or(String::new(), |own| format!("Cookie: {own}\r\n"));
    let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{cookie}\r\n");
    proxy.connect().ask(request)
}

/// Returns the cookie that an answer sets, as a client sends it back.
fn cookie_of(answer: &Message) -> Option<String> {
    let (pair, attributes) = answer.field("set-cookie")?.split_once(';').unwrap();
    assert_eq!(attributes, " Path=/; HttpOnly; SameSite=Lax");
    Some(pair.to_owned())
}

/// Returns the number of the cluster's requests with this outcome of their sessions.
fn counted(proxy: &Proxy, outcome: &str) -> f64 {
    let outcome = format!("outcome=\"{outcome}\"");
    proxy.metric(&["sprat_sessions_total", "cluster=\"farm\"", &outcome])
}

/// Returns the body that `curl` gets, with a file of cookies that it reads and writes.
fn curl(proxy: &Proxy, jar: &Path) -> String {
    let output = Command::new("curl")
        .args(["-sS", "-b"])
        .arg(jar)
        .arg("-c")
        .arg(jar)
        .arg(format!("http://{}/", proxy.address))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn each_of_two_clients_with_cookies_stays_where_it_began() {
    let origins = ["a", "b", "c"].map(named);
    let proxy = Proxy::logging(keeping(&origins.each_ref().map(|own| own.address), |_| {}));
    let directory = tempfile::tempdir().unwrap();
    let jars = ["one", "two"].map(|name| directory.path().join(name));
    let first = jars.each_ref().map(|jar| curl(&proxy, jar));
    assert_eq!(first, ["a", "b"]);
    for _ in 0..3 {
        assert_eq!(jars.each_ref().map(|jar| curl(&proxy, jar)), first);
    }
    // Turns go on beside them.
    assert_eq!(ask(&proxy, None).text(), "c");
    assert_eq!(counted(&proxy, "new"), 3.0);
    assert_eq!(counted(&proxy, "kept"), 6.0);
    let log = proxy.log_lines(9);
    let kept = |line: &&serde_json::Value| line["session"] == "kept";
    assert_eq!(log.iter().filter(kept).count(), 6, "{log:?}");
}

#[test]
fn a_session_says_no_address_and_its_first_response_is_not_shared() {
    let origin = named("a");
    let proxy = Proxy::start(&keeping(&[origin.address], |_| {}));
    let first = ask(&proxy, None);
    let cookie = cookie_of(&first).unwrap();
    let value = cookie.strip_prefix("at=").unwrap();
    assert!(value.len() == 32 && value.bytes().all(|own| own.is_ascii_hexdigit()));
    assert_eq!(first.field("cache-control"), Some("max-age=60, private"));
    // Later ones are as the endpoint has them, which sees the cookie.
    let second = ask(&proxy, Some(&cookie));
    assert_eq!(cookie_of(&second), None);
    assert_eq!(second.field("cache-control"), Some("public, max-age=60"));
    assert_eq!(second.field("x-cookies"), Some(&*cookie));
    // What Sprat has not said is none.
    let forged = format!("at={}", "0".repeat(32));
    assert!(cookie_of(&ask(&proxy, Some(&forged))).is_some());
    assert_eq!(counted(&proxy, "new"), 2.0);
}

#[test]
fn a_session_moves_from_an_endpoint_that_takes_no_connection() {
    let (gone, stays) = (free_address(), named("stays"));
    let leaves = std::net::TcpListener::bind(gone).unwrap();
    let thread = std::thread::spawn(move || {
        let mut peer = Peer::new(leaves.accept().unwrap().0);
        peer.try_message(true).unwrap();
        peer.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\ngone");
    });
    let proxy = Proxy::start(&keeping(&[gone, stays.address], |_| {}));
    let first = ask(&proxy, None);
    assert_eq!(first.text(), "gone");
    thread.join().unwrap();
    let before = cookie_of(&first).unwrap();
    let moved = ask(&proxy, Some(&before));
    assert_eq!(moved.text(), "stays");
    let after = cookie_of(&moved).unwrap();
    assert_ne!(before, after);
    assert_eq!(cookie_of(&ask(&proxy, Some(&after))), None);
    assert_eq!(counted(&proxy, "moved"), 1.0);
    assert_eq!(counted(&proxy, "kept"), 1.0);
}

#[test]
fn a_strict_session_is_refused_where_its_endpoint_is_gone() {
    let origins = ["a", "b"].map(named);
    let addresses = origins.each_ref().map(|own| own.address);
    let mut before = keeping(&addresses, |own| own.strict = true);
    before.listeners[0].address = free_address().into();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("access.log");
    before.access_log = vec![AccessLog {
        target: LogTarget::File(path.clone()),
        span: Span::default(),
        format: LogFormat::Json,
        filters: Vec::new(),
    }];
    let mut proxy = Proxy::start(&before);
    proxy.log = Some(path);
    let first = ask(&proxy, None);
    assert_eq!(first.text(), "a");
    let cookie = cookie_of(&first).unwrap();
    let mut after = before;
    with_cluster(&mut after, |cluster| cluster.endpoints.truncate(1));
    let control = proxy.server.as_ref().unwrap().control();
    control.reload(&after).unwrap();
    assert_eq!(ask(&proxy, Some(&cookie)).text(), "a");
    with_cluster(&mut after, |cluster| {
        cluster.endpoints = vec![endpoint(addresses[1])];
    });
    control.reload(&after).unwrap();
    let refused = ask(&proxy, Some(&cookie));
    assert_eq!(refused.status(), 503);
    assert_eq!(ask(&proxy, None).text(), "b");
    assert_eq!(counted(&proxy, "refused"), 1.0);
    let log = proxy.log_lines(4);
    let line = log.iter().find(|line| line["status"] == 503).unwrap();
    assert_eq!(line["session"], "refused");
    assert_eq!(line["reason"], "no_healthy_endpoint");
    // Once it is back, so is the session.
    with_cluster(&mut after, |cluster| {
        cluster.endpoints = addresses.map(endpoint).to_vec();
    });
    control.reload(&after).unwrap();
    for _ in 0..3 {
        assert_eq!(ask(&proxy, Some(&cookie)).text(), "a");
    }
}

#[test]
fn a_key_in_a_file_is_that_of_every_process() {
    let origins = ["a", "b"].map(named);
    let addresses = origins.each_ref().map(|own| own.address);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("key");
    let with_key = |text: &str, addresses: &[SocketAddr]| {
        std::fs::write(&file, text).unwrap();
        let config = keeping(addresses, |own| own.key_file = Some(tls::file(&file)));
        Proxy::start(&config)
    };
    let first = with_key("0123456789abcdef", &addresses);
    let cookie = cookie_of(&ask(&first, None)).unwrap();
    // Another process, that has the endpoints in another order.
    let turned = [addresses[1], addresses[0]];
    let second = with_key("0123456789abcdef", &turned);
    for _ in 0..3 {
        let answer = ask(&second, Some(&cookie));
        assert_eq!((answer.text().as_str(), cookie_of(&answer)), ("a", None));
    }
    let third = with_key("0123456789abcdeX", &turned);
    let answer = ask(&third, Some(&cookie));
    assert_eq!(answer.text(), "b");
    assert!(cookie_of(&answer).is_some());
}

#[test]
fn explain_says_where_a_cookie_leads() {
    let origins = ["a", "b"].map(named);
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    std::fs::write(at.join("key"), "0123456789abcdef\n").unwrap();
    let configuration = at.join("sprat.yaml");
    let text = format!(
        "version: 1\nlisteners: [{{address: 127.0.0.1:0}}]\nroutes: [{{cluster: farm}}]\n\
         clusters:\n  farm:\n    endpoints: [{}, {}]\n    dispatch: round_robin\n    \
         stateful_session:\n      cookie: {{name: at}}\n      key_file: '{}'\n",
        origins[0].address,
        origins[1].address,
        at.join("key").display(),
    );
    std::fs::write(&configuration, text).unwrap();
    let explain = |cookie: Option<&str>| {
        let mut command = sprat(&["explain", "--json", "--request", "GET http://a/"]);
        if let Some(cookie) = cookie {
            command.args(["--header", &format!("Cookie: {cookie}")]);
        }
        let output = command.arg("-c").arg(&configuration).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()
    };
    let none = explain(None);
    assert_eq!(none["session"]["endpoint"], serde_json::Value::Null);
    let mut config = keeping(&origins.each_ref().map(|own| own.address), |own| {
        own.key_file = Some(tls::file(&at.join("key")));
    });
    with_cluster(&mut config, |cluster| cluster.endpoints.reverse());
    let proxy = Proxy::start(&config);
    let cookie = cookie_of(&ask(&proxy, None)).unwrap();
    let explained = explain(Some(&cookie));
    let second = origins[1].address.to_string();
    assert_eq!(explained["session"]["endpoint"], *second);
    assert_eq!(explained["endpoints"]["order"][0]["address"], *second);
}

/// Changes one endpoint through the admin listener, and returns the answer's status.
fn change(proxy: &Proxy, what: &str, endpoint: SocketAddr) -> u16 {
    let admin = proxy.server.as_ref().unwrap().admin_address().unwrap();
    let body = format!("{{\"cluster\": \"farm\", \"endpoint\": \"{endpoint}\"}}");
    let request = format!(
        "POST /endpoints/{what} HTTP/1.1\r\nHost: localhost\r\nContent-Type: \
         application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    Peer::connect(admin).ask(request).status()
}

#[test]
fn an_endpoint_that_drains_keeps_strict_sessions_alone_also_over_a_reload() {
    for strict in [false, true] {
        let origins = ["a", "b"].map(named);
        let addresses = origins.each_ref().map(|own| own.address);
        let mut config = keeping(&addresses, |own| own.strict = strict);
        config.admin = Some(admin());
        config.listeners[0].address = free_address().into();
        let proxy = Proxy::start(&config);
        let cookie = cookie_of(&ask(&proxy, None)).unwrap();
        assert_eq!(change(&proxy, "drain", addresses[0]), 200);
        assert_eq!(proxy.metric(&["sprat_endpoint_draining", "farm"]), 1.0);
        let control = proxy.server.as_ref().unwrap().control();
        // The second has a station of its own, which knows of the first's.
        for max_requests in [usize::MAX, 7] {
            with_cluster(&mut config, |cluster| cluster.max_requests = max_requests);
            control.reload(&config).unwrap();
            for _ in 0..3 {
                assert_eq!(ask(&proxy, None).text(), "b");
            }
            let kept = if strict { "a" } else { "b" };
            assert_eq!(ask(&proxy, Some(&cookie)).text(), kept);
        }
        assert_eq!(change(&proxy, "undrain", addresses[0]), 200);
        assert_eq!(proxy.metric(&["sprat_endpoint_draining", "farm"]), 0.0);
        let texts: Vec<_> = (0..4).map(|_| ask(&proxy, None).text()).collect();
        assert!(texts.contains(&"a".to_owned()), "{texts:?}");
    }
}

#[test]
fn what_is_under_way_at_an_endpoint_that_drains_is_finished() {
    let (go, gone) = std::sync::mpsc::channel::<()>();
    let gone = std::sync::Mutex::new(gone);
    let (enter, entered) = std::sync::mpsc::channel::<()>();
    let held = Origin::http(move |_| {
        enter.send(()).unwrap();
        gone.lock().unwrap().recv().unwrap();
        ok("held")
    });
    let other = named("other");
    let mut config = config(&[held.address, other.address]);
    config.admin = Some(admin());
    let proxy = Proxy::start(&config);
    let mut busy = proxy.connect();
    busy.send(get("/"));
    entered.recv_timeout(PATIENCE).unwrap();
    assert_eq!(change(&proxy, "drain", held.address), 200);
    for _ in 0..4 {
        assert_eq!(ask(&proxy, None).text(), "other");
    }
    go.send(()).unwrap();
    assert_eq!(busy.message().text(), "held");
    // Without the other there is none.
    assert_eq!(change(&proxy, "drain", other.address), 200);
    assert_eq!(ask(&proxy, None).status(), 503);
    assert_eq!(change(&proxy, "drain", free_address()), 404);
}

#[test]
fn one_that_stands_by_serves_where_no_other_can_be_reached() {
    let (first, backup) = (named("first"), named("backup"));
    let mut config = config(&[first.address, backup.address]);
    config.admin = Some(admin());
    with_cluster(&mut config, |cluster| cluster.endpoints[1].priority = 1);
    let proxy = Proxy::start(&config);
    for _ in 0..4 {
        assert_eq!(ask(&proxy, None).text(), "first");
    }
    assert_eq!(change(&proxy, "drain", first.address), 200);
    assert_eq!(ask(&proxy, None).text(), "backup");
    // No health is known of this one: its requests are tried elsewhere.
    let mut config = keeping(&[free_address(), backup.address], |_| {});
    with_cluster(&mut config, |cluster| {
        cluster.stateful_session = None;
        cluster.endpoints[1].priority = 1;
    });
    let proxy = Proxy::start(&config);
    for _ in 0..4 {
        assert_eq!(ask(&proxy, None).text(), "backup");
    }
}
