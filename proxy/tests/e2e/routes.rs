//! Tests of what routes do besides choosing a cluster by host and path, over real sockets.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::*;
use sprat_config::resolved::*;

/// Returns a configuration with these routes, whose clusters `a` and `b` are these origins.
fn with_routes(a: &Origin, b: &Origin, routes: &str) -> Config {
    let text = format!(
        "version: 1\nadmin: off\nruntime: {{workers: 1}}\nuplink: {{rate: unlimited}}\n\
         listeners: [{{address: 127.0.0.1:0}}]\n\
         clusters: {{a: {{endpoints: ['{}']}}, b: {{endpoints: ['{}']}}}}\nroutes:\n{routes}\n",
        a.address, b.address
    );
    let loaded = sprat_config::parse(&text, "test", &|_| None);
    loaded.unwrap_or_else(|errors| panic!("{errors}")).config
}

/// Starts an origin that answers with its name and the request's head.
fn echo(name: &'static str) -> Origin {
    Origin::http(move |request| {
        let fields = request.fields.iter();
        let fields: String = fields
            .map(|(name, value)| format!("\n{name}: {value}"))
            .collect();
        let body = format!("{name} {}{fields}", request.start);
        format!(
            "HTTP/1.1 200 OK\r\nServer: echo\r\nX-One: 1\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    })
}

fn ask(proxy: &Proxy, line: &str, fields: &str) -> Message {
    proxy.connect().ask(format!(
        "{line} HTTP/1.1\r\nHost: www.example.org\r\n{fields}\r\n"
    ))
}

#[test]
fn methods_fields_parameters_and_cookies_choose_the_route() {
    let (a, b) = (echo("a"), echo("b"));
    let proxy = Proxy::start(&with_routes(
        &a,
        &b,
        "- {match: {methods: [PUT]}, cluster: b}\n\
         - {match: {headers: [{name: X-Tier, value: gold}]}, cluster: b}\n\
         - {match: {query_parameters: [{name: v, safe_regex: '[0-9]+'}]}, cluster: b}\n\
         - {match: {cookies: [{name: beta}]}, cluster: b}\n\
         - {match: {safe_regex: '/u/[0-9]+'}, cluster: b}\n\
         - {match: {clients: [127.0.0.2/32]}, cluster: b}\n\
         - {match: {prefix: /strict, headers: [{name: X-Key, invert_match: true}]}, direct_response: {status: 401}}\n\
         - {cluster: a}",
    ));
    let serves = |line: &str, fields: &str| {
        let answer = ask(&proxy, line, fields);
        assert_eq!(answer.status(), 200, "{line} {fields}: {answer:?}");
        answer.text()[..1].to_owned()
    };
    assert_eq!(serves("GET /", ""), "a");
    assert_eq!(serves("PUT /", "Content-Length: 0\r\n"), "b");
    assert_eq!(serves("GET /", "x-tier: gold\r\n"), "b");
    assert_eq!(serves("GET /", "x-tier: golden\r\n"), "a");
    assert_eq!(serves("GET /?a=b&v=12", ""), "b");
    assert_eq!(serves("GET /?%76=%31", ""), "b");
    assert_eq!(serves("GET /?v=x", ""), "a");
    assert_eq!(serves("GET /", "Cookie: a=b; beta=1\r\n"), "b");
    assert_eq!(serves("GET /u/12", ""), "b");
    // In normal form.
    assert_eq!(serves("GET /u/x/../%31", ""), "b");
    assert_eq!(serves("GET /u/12/x", ""), "a");
    let request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let from_second = proxy.connect_from([127, 0, 0, 2]).ask(request);
    assert_eq!(from_second.text()[..1], *"b");
    assert_eq!(ask(&proxy, "GET /strict", "").status(), 401);
    assert_eq!(serves("GET /strict", "X-Key: 1\r\n"), "a");
    proxy.assert_no_leak();
}

/// Checks that the host in a request's target takes precedence over `Host` (RFC 9112 3.2.2): for
/// conditions, and in the backend's request.
#[test]
fn a_condition_on_host_sees_the_host_that_is_asked_for() {
    let (a, b) = (echo("a"), echo("b"));
    let routes = "- {match: {headers: [{name: Host, safe_regex: '(?i)inner\\.[a-z.]+'}]}, cluster: b}\n\
                  - {cluster: a}";
    let proxy = Proxy::start(&with_routes(&a, &b, routes));
    for (line, host, expected) in [
        ("GET /", "inner.example", "b"),
        ("GET /", "other.example", "a"),
        ("GET http://inner.example/", "other.example", "b"),
        ("GET http://other.example/", "inner.example", "a"),
    ] {
        let request = format!("{line} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let answer = proxy.connect().ask(request);
        assert_eq!(answer.text()[..1], *expected, "{line} {host}");
    }
    proxy.assert_no_leak();
}

#[test]
fn heads_are_changed_on_both_ways() {
    let (a, b) = (echo("a"), echo("b"));
    let proxy = Proxy::start(&with_routes(
        &a,
        &b,
        "- cluster: a\n  request_headers_to_add: [{name: X-List, value: more}]\n  \
           request_headers_to_set:\n  - {name: X-Client, value: '%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%'}\n  \
           - {name: X-Asked, value: '%REQ(:METHOD)% %REQ(:PATH)% %REQ(X-In)% 100%%'}\n  \
           - {name: X-Forged, value: '%REQ(X-Absent)%'}\n  \
           request_headers_to_remove: [x-secret]\n  \
           response_headers_to_add: [{name: X-One, value: 2}]\n  \
           response_headers_to_set:\n  - {name: X-From, value: '%UPSTREAM_CLUSTER% %UPSTREAM_HOST% %RESPONSE_CODE% %RESP(X-One)%'}\n  \
           - {name: X-Echo, value: '%REQ(X-In)%'}\n  \
           response_headers_to_remove: [Server]",
    ));
    let fields = "X-In: in\r\nX-Secret: s\r\nX-Forged: f\r\nX-List: one\r\nX-Client: 6.6.6.6\r\n";
    let answer = ask(&proxy, "GET /x/../%61?q", fields);
    let text = answer.text().to_ascii_lowercase();
    assert!(text.contains("x-client: 127.0.0.1"), "{text}");
    assert!(text.contains("x-asked: get /x/../%61?q in 100%"), "{text}");
    assert!(
        text.contains("x-list: one\n") && text.contains("x-list: more"),
        "{text}"
    );
    for gone in ["x-secret", "x-forged", "6.6.6.6"] {
        assert!(!text.contains(gone), "{gone}: {text}");
    }
    assert_eq!(answer.field("server"), None);
    assert_eq!(answer.field("x-echo"), Some("in"));
    let from = format!("a {} 200 1", a.address);
    assert_eq!(answer.field("x-from"), Some(&*from));
    let ones = answer
        .fields
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("x-one"));
    let ones: Vec<_> = ones.map(|(_, value)| value.as_str()).collect();
    assert_eq!(ones, ["1", "2"]);
    proxy.assert_no_leak();
}

#[test]
fn sprat_redirects_and_answers() {
    let (a, b) = (echo("a"), echo("b"));
    let page = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(page.path(), "x".repeat(100_000)).unwrap();
    let mut config = with_routes(
        &a,
        &b,
        &format!(
            "- match: {{path: /old}}\n  redirect: {{path_redirect: /new, response_code: 308}}\n\
             - match: {{prefix: /api}}\n  redirect: {{host_redirect: api.example.org, prefix_rewrite: /, strip_query: true}}\n\
             - match: {{path: /hello}}\n  direct_response: {{status: 200, body: hello}}\n  \
               response_headers_to_set: [{{name: X-Asked, value: '%REQ(:AUTHORITY)%'}}]\n\
             - match: {{path: /empty}}\n  direct_response: {{status: 204}}\n\
             - match: {{path: /large}}\n  direct_response: {{status: 200, file: '{}'}}\n\
             - redirect: {{https_redirect: true}}\n- cluster: a",
            page.path().display()
        ),
    );
    config.listeners[0].forwarding.trusted = vec![Network {
        address: "127.0.0.1".parse().unwrap(),
        prefix_len: 32,
    }];
    config.uplink.rate = Rate::Fixed(50_000_000);
    let proxy = Proxy::start(&config);
    let mut client = proxy.connect();
    let mut ask = |line: &str, fields: &str| {
        client.ask(format!(
            "{line} HTTP/1.1\r\nHost: www.example.org:81\r\n{fields}\r\n"
        ))
    };
    let old = ask("GET /old?a=b", "");
    assert_eq!(old.status(), 308);
    assert_eq!(
        old.field("location"),
        Some("http://www.example.org:81/new?a=b")
    );
    let api = ask("GET /api/v1?a=b", "");
    assert_eq!(api.status(), 301);
    assert_eq!(api.field("location"), Some("http://api.example.org/v1"));
    let hello = ask("GET /hello", "");
    assert_eq!((hello.status(), hello.text()), (200, "hello".to_owned()));
    assert_eq!(
        hello.field("content-type"),
        Some("text/plain; charset=utf-8")
    );
    assert_eq!(hello.field("x-asked"), Some("www.example.org:81"));
    // A request's body is read, so that the connection goes on.
    let posted = ask("POST /hello", "Content-Length: 0\r\n");
    assert_eq!(posted.status(), 200);
    let large = ask("GET /large", "");
    assert_eq!((large.status(), large.text().len()), (200, 100_000));
    let plain = ask("GET /any?q", "");
    assert_eq!(
        plain.field("location"),
        Some("https://www.example.org/any?q")
    );
    // What came over TLS to a trusted proxy is not sent there again.
    let secure = ask("GET /any?q", "X-Forwarded-Proto: https\r\n");
    assert_eq!(secure.status(), 200, "{secure:?}");
    drop(client);
    proxy.assert_no_leak();
}

/// Checks that a route's bound on bodies holds where Sprat answers by itself.
#[test]
fn a_route_that_redirects_bounds_bodies() {
    let (a, b) = (echo("a"), echo("b"));
    let routes = "- match: {path: /old}\n  redirect: {path_redirect: /new}\n  \
                  max_request_body: 1KB\n- cluster: a";
    let proxy = Proxy::start(&with_routes(&a, &b, routes));
    for (bytes, status) in [(1024, 301), (1025, 413)] {
        let body = "x".repeat(bytes);
        let request =
            format!("POST /old HTTP/1.1\r\nHost: a\r\nContent-Length: {bytes}\r\n\r\n{body}");
        assert_eq!(proxy.connect().ask(request).status(), status);
    }
}

/// Checks that a request with an unknown transfer coding is refused even where no backend gets it:
/// the bytes behind it can be read in two ways.
#[test]
fn an_unknown_transfer_coding_is_refused_on_a_route_that_redirects() {
    let (a, b) = (echo("a"), echo("b"));
    let routes = "- match: {path: /old}\n  redirect: {path_redirect: /new}\n- cluster: a";
    let proxy = Proxy::start(&with_routes(&a, &b, routes));
    let hidden = get("/hidden");
    for codings in [
        "gzip, chunked",
        "gzip, gzip, gzip, gzip, gzip, gzip, chunked",
    ] {
        let mut client = proxy.connect();
        assert_eq!(client.ask(get("/old")).status(), 301);
        client.send(format!(
            "POST /old HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: {codings}\r\n\r\n\
             {:x}\r\n{hidden}\r\n0\r\n\r\n{}",
            hidden.len(),
            get("/after")
        ));
        assert_eq!(client.message().status(), 501, "{codings}");
        assert!(client.try_message(true).is_none(), "{codings}");
    }
    assert_eq!(a.connections(), 0);
    proxy.assert_no_leak();
}

#[test]
fn no_body_is_told_of_where_none_may_be() {
    let (a, b) = (echo("a"), echo("b"));
    let routes = "- match: {path: /empty}\n  direct_response: {status: 204}\n- match: {path: /hello}\n  \
                  direct_response: {status: 200, body: hello}\n- cluster: a";
    let proxy = Proxy::start(&with_routes(&a, &b, routes));
    let mut client = proxy.connect();
    client.send("GET /empty HTTP/1.1\r\nHost: a\r\n\r\n");
    let empty = client.try_message(false).unwrap();
    assert_eq!((empty.status(), empty.field("content-length")), (204, None));
    client.send("HEAD /hello HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = client.try_message(false).unwrap();
    assert_eq!(
        (head.status(), head.field("content-length")),
        (200, Some("5"))
    );
    assert_eq!(client.ask(get("/hello")).text(), "hello");
}

#[test]
fn clusters_share_requests_by_weight() {
    let (a, b) = (echo("a"), echo("b"));
    let routes = "- weighted_clusters: [{cluster: a, weight: 3}, {cluster: b, weight: 1}]";
    let proxy = Proxy::start(&with_routes(&a, &b, routes));
    let mut client = proxy.connect();
    let by_a = (0..1000).filter(|_| client.ask(get("/")).text().starts_with('a'));
    let by_a = by_a.count();
    // Six standard deviations.
    assert!((668..832).contains(&by_a), "{by_a}");
}

#[test]
fn a_cluster_without_endpoints_that_are_well_leaves_its_requests_to_the_fallback() {
    let (a, b) = (echo("a"), echo("b"));
    let mut config = with_routes(&a, &b, "- {cluster: a, fallback: b}");
    let dead = free_address();
    let mut cluster = Cluster::clone(&config.clusters[0]);
    cluster.endpoints[0].address = EndpointAddress::Ip(dead);
    cluster.resilience.health_checks = Some(health_checks(Duration::from_millis(200)));
    cluster.resilience.healthy_panic_percent = 0;
    let cluster = Arc::new(cluster);
    config.clusters[0] = Arc::clone(&cluster);
    if let Action::Forward(forward) = &mut config.routes[0].action {
        forward.clusters[0].cluster = cluster;
    }
    let proxy = Proxy::start(&config);
    wait_for("the fallback", || {
        let answer = proxy.connect().ask(get("/"));
        answer.status() == 200 && answer.text().starts_with('b')
    });
}

#[test]
fn pages_take_the_place_of_errors() {
    let failing = Origin::http(|request| match request.start.contains("/fails") {
        true => "HTTP/1.1 500 Oops\r\nContent-Length: 6\r\nX-Secret: 1\r\n\r\nstack!".to_owned(),
        false => ok("fine"),
    });
    let b = echo("b");
    let dead = free_address();
    let mut config = with_routes(
        &failing,
        &b,
        "- match: {prefix: /b}\n  cluster: b\n  error_pages: [{status: [502, 503], body: down, response_code: 503}]\n\
         - match: {prefix: /fails}\n  cluster: a\n  error_pages:\n  \
           - {status: [500], body: '{}', content_type: application/json, intercept: true}\n\
         - match: {path: /fails-openly}\n  cluster: a\n  error_pages: [{status: [5xx], body: no}]\n\
         - cluster: a",
    );
    let mut cluster = Cluster::clone(&config.clusters[1]);
    cluster.endpoints[0].address = EndpointAddress::Ip(dead);
    let cluster = Arc::new(cluster);
    config.clusters[1] = Arc::clone(&cluster);
    config.routes[0].action = Action::to(cluster);
    let proxy = Proxy::start(&config);
    let mut client = proxy.connect();
    let down = client.ask(get("/b"));
    assert_eq!((down.status(), down.text()), (503, "down".to_owned()));
    assert_eq!(down.field("content-type"), Some("text/html; charset=utf-8"));
    for _ in 0..20 {
        let replaced = client.ask(get("/fails"));
        assert_eq!((replaced.status(), replaced.text()), (500, "{}".to_owned()));
        assert_eq!(replaced.field("content-type"), Some("application/json"));
        assert_eq!(replaced.field("x-secret"), None);
    }
    // What was thrown away was read: its connections serve on.
    assert!(failing.connections() <= 3, "{}", failing.connections());
    let open = client.ask(get("/fails-openly"));
    assert_eq!((open.status(), open.text()), (500, "stack!".to_owned()));
    assert_eq!(client.ask(get("/")).text(), "fine");
    drop(client);
    proxy.assert_no_leak();
}

#[test]
fn maintenance_serves_a_few_alone() {
    let (a, b) = (echo("a"), echo("b"));
    let mut config = with_routes(
        &a,
        &b,
        "- match: {path: /status}\n  cluster: a\n  maintenance: off\n\
         - cluster: a\n  maintenance: {exempt: [127.0.0.2], retry_after: 2m}\n  \
           error_pages: [{status: [503], body: soon}]",
    );
    config.access_log = Vec::new();
    let proxy = Proxy::start(&config);
    let closed = proxy.connect().ask(get("/"));
    assert_eq!((closed.status(), closed.text()), (503, "soon".to_owned()));
    assert_eq!(closed.field("retry-after"), Some("120"));
    assert_eq!(
        proxy.connect_from([127, 0, 0, 2]).ask(get("/")).status(),
        200
    );
    assert_eq!(proxy.connect().ask(get("/status")).status(), 200);
}

#[test]
fn a_route_bounds_the_bodies_of_its_requests() {
    let (a, b) = (echo("a"), echo("b"));
    let mut config = with_routes(
        &a,
        &b,
        "- {match: {path: /large}, cluster: a, max_request_body: 100}\n\
         - {match: {path: /any}, cluster: a, max_request_body: unlimited}\n- cluster: a",
    );
    config.listeners[0].max_request_body = Some(10);
    let proxy = Proxy::start(&config);
    let status = |path: &str, length: usize| {
        let body = "x".repeat(length);
        let request =
            format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}");
        proxy.connect().ask(request).status()
    };
    assert_eq!(status("/", 10), 200);
    assert_eq!(status("/", 11), 413);
    assert_eq!(status("/large", 100), 200);
    assert_eq!(status("/large", 101), 413);
    assert_eq!(status("/any", 5000), 200);
    // Without a length it is known as it comes.
    let chunked = "POST /large HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunk = format!("{chunked}65\r\n{}\r\n0\r\n\r\n", "x".repeat(101));
    assert_eq!(proxy.connect().ask(chunk).status(), 413);
}

#[test]
fn mirrors_get_copies_and_clients_wait_for_none() {
    let a = echo("a");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let stuck = Arc::new(AtomicUsize::new(0));
    let (noted, held) = (Arc::clone(&seen), Arc::clone(&stuck));
    let mirror = Origin::http(move |request| {
        let body = request.text();
        noted.lock().unwrap().push((request.start.clone(), body));
        if request.start.contains("/stuck") {
            held.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_secs(3));
        }
        "HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\nno".to_owned()
    });
    let routes = "- {cluster: a, prefix_rewrite: /v1, match: {prefix: /v}, request_mirror_policies: [{cluster: b}]}\n\
                  - {cluster: a, request_mirror_policies: [{cluster: b}]}";
    let proxy = Proxy::start(&with_routes(&a, &mirror, routes));
    assert_eq!(ask(&proxy, "GET /v/x?y", "").status(), 200);
    let body = "b".repeat(50_000);
    let post = format!("POST /form HTTP/1.1\r\nHost: a\r\nContent-Length: 50000\r\n\r\n{body}");
    assert_eq!(proxy.connect().ask(post).status(), 200);
    let chunked = "POST /chunks HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    assert_eq!(proxy.connect().ask(chunked).status(), 200);
    wait_for("the copies", || seen.lock().unwrap().len() == 3);
    let mut copies = seen.lock().unwrap().clone();
    copies.sort();
    assert_eq!(
        copies[0],
        ("GET /v1/x?y HTTP/1.1".to_owned(), String::new())
    );
    assert_eq!(
        copies[1],
        ("POST /chunks HTTP/1.1".to_owned(), "abc".to_owned())
    );
    assert_eq!(copies[2], ("POST /form HTTP/1.1".to_owned(), body));
    proxy.wait_metric(&["sprat_mirrored_requests_total", "answered"], 3.0);
    // A mirror that does not answer holds nobody up: the answer is there while the copy
    // is not.
    assert_eq!(ask(&proxy, "GET /stuck", "").status(), 200);
    wait_for("the copy to be stuck", || {
        stuck.load(Ordering::Relaxed) == 1
    });
    proxy.assert_no_leak();
}

/// Checks that a mirror is not blamed for a client that takes longer for its body than
/// `response_timeout`.
#[test]
fn a_mirror_has_its_time_from_when_the_copy_has_come() {
    let (a, mirror) = (echo("a"), echo("b"));
    let routes = "- {cluster: a, response_timeout: 1s, request_mirror_policies: [{cluster: b}]}";
    let proxy = Proxy::start(&with_routes(&a, &mirror, routes));
    let mut client = proxy.connect();
    assert!(client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello"));
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(client.ask("hello").status(), 200);
    proxy.wait_metric(&["sprat_mirrored_requests_total", "answered"], 1.0);
    assert_eq!(proxy.metric(&["sprat_upstream_errors_total"]), 0.0);
    drop(client);
    proxy.assert_no_leak();
}

#[test]
fn explain_tells_what_a_route_does() {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../config/examples/routes.yaml"
    );
    let explain = |request: &str, more: &[&str]| {
        let mut arguments = vec!["explain", "-c", file, "--request", request];
        arguments.extend_from_slice(more);
        let output = binary::sprat(&arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let moved = explain("GET http://old.example.org/a?b", &[]);
    assert!(
        moved.contains("answer    308 https://www.example.org/a?b\n"),
        "{moved}"
    );
    let robots = explain("GET http://www.example.org/robots.txt", &[]);
    assert!(
        robots.contains(
            "route     1 (www.example.org, the path /robots.txt)\nanswer    200, 29 bytes\n"
        ),
        "{robots}"
    );
    let shared = explain("GET http://www.example.org/", &[]);
    for line in [
        "to app (95 of 100) or next (5 of 100)\n",
        "fallback  sorry, while no endpoint is well\n",
        "mirror    next, 10 of 100 requests\n",
        "request   remove x-internal\n",
        "response  add x-served-by: %UPSTREAM_CLUSTER%\n",
    ] {
        assert!(shared.contains(line), "{line}: {shared}");
    }
    let api = "POST http://www.example.org/api/v1";
    let json = explain(
        api,
        &["--header", "Content-Type: application/json", "--json"],
    );
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["route"]["number"], 4, "{json}");
    assert_eq!(json["route"]["cluster"], "app");
    assert_eq!(json["route"]["max_request_body"], 1 << 20);
    let other = explain(api, &[]);
    assert!(other.contains("route     7 "), "{other}");
}

#[test]
fn explain_refuses_and_answers_what_the_server_does() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("sprat.yaml");
    let text = "version: 1\nadmin: off\nlisteners:\n\
         - {address: '127.0.0.1:8080', headers_with_underscores_action: drop_header}\n\
         - {address: '127.0.0.1:8081', headers_with_underscores_action: reject_request}\n\
         clusters: {old: {endpoints: ['127.0.0.1:1']}, new: {endpoints: ['127.0.0.1:2']}}\n\
         classes: {gold: {level: 1}}\n\
         class_rules: [{match: {headers: [{name: X_Tier}]}, class: gold}]\n\
         routes:\n\
         - match: {hosts: [img.test]}\n  cluster: new\n  \
         regex_rewrite: {pattern: '^/img(.*)$', substitution: '/assets/\\1'}\n\
         - {match: {prefix: /app}, cluster: new, cors: {allow_origins: ['https://one.test']}}\n\
         - weighted_clusters: [{cluster: old, weight: 0}, {cluster: new, weight: 1}]\n";
    std::fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let asks = "Access-Control-Request-Method: PUT";
    let (one, two) = ("Origin: https://one.test", "Origin: https://two.test");
    for (request, headers, expected) in [
        (
            "GET http://h:8080/",
            &["X_Tier: 1"][..],
            "class     default, ",
        ),
        (
            "GET http://h:8081/",
            &["X_Tier: 1"],
            "refused   400 underscore_in_name: ",
        ),
        ("GET http://h/", &[], "(any host, any path) to new\n"),
        ("GET http://h/", &[], "endpoints 1. 127.0.0.1:2\n"),
        ("GET http://img.test/img/x", &[], " to new\n"),
        (
            "GET http://img.test/img../x",
            &[],
            "refused   400 invalid_target: ",
        ),
        (
            "OPTIONS http://h/app",
            &[one, asks],
            "answer    204 to a preflight that cors allows\n",
        ),
        (
            "OPTIONS http://h/app",
            &[two, asks],
            "answer    403 to a preflight that cors does not allow\n",
        ),
        ("OPTIONS http://h/app", &[two], " to new\n"),
        ("TRACE http://h/", &[], "refused   405 method_refused: "),
    ] {
        let mut arguments = vec!["explain", "-c", file, "--request", request];
        arguments.extend(headers.iter().flat_map(|own| ["--header", *own]));
        let output = binary::sprat(&arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let told = String::from_utf8(output.stdout).unwrap();
        assert!(told.contains(expected), "{request}: {told}");
    }
}
