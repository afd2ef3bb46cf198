//! Tests of correct HTTP/1.1, over real sockets.

use std::time::Duration;

use crate::common::*;
use sprat_config::resolved::Rate;

#[test]
fn a_query_goes_on_as_browsers_write_it() {
    let origin = Origin::http(|request| ok(&request.start));
    let proxy = Proxy::of(&[&origin]);
    let target = r"/?path=C:\b&x={}|^`'%zz";
    let answer = proxy.connect().ask(get(target));
    assert_eq!(answer.text(), format!("GET {target} HTTP/1.1"));
    assert_eq!(proxy.connect().ask(get(r"/C:\b")).status(), 400);
}

#[test]
fn serves_and_keeps_connections_on_both_sides() {
    let origin = Origin::http(|request| ok(&format!("you asked {}", request.start)));
    let proxy = Proxy::of(&[&origin]);
    let mut client = proxy.connect();
    for n in 0..5 {
        let answer = client.ask(get(&format!("/{n}?q")));
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.text(), format!("you asked GET /{n}?q HTTP/1.1"));
    }
    assert_eq!(origin.connections(), 1);
    proxy.wait_metric(&["sprat_upstream_reuses_total"], 4.0);
    drop(client);
    proxy.assert_no_leak();
    let lines = proxy.log_lines(5);
    assert_eq!(lines[4]["path"], "/4?q");
    assert_eq!(lines[4]["size_source"], "exact");
    assert_eq!(lines[4]["aborted"], false);
    proxy.stop();
}

fn post(body: &str) -> String {
    let length = body.len();
    format!("POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: {length}\r\n\r\n{body}")
}

/// Starts an origin that answers with the request's body.
fn repeating() -> Origin {
    Origin::http(|request| ok(std::str::from_utf8(&request.body).unwrap()))
}

const PARKED: [&str; 1] = ["sprat_parked_connections"];

#[test]
fn a_connection_that_was_parked_goes_on() {
    let origin = repeating();
    let proxy = Proxy::of(&[&origin]);
    let mut client = proxy.connect();
    for round in ["first", "second"] {
        assert_eq!(client.ask(post(round)).text(), round);
        proxy.wait_metric(&PARKED, 1.0);
    }
    // In parts, and several at once.
    let whole = [post("third"), post("fourth")].concat();
    let (begun, rest) = whole.split_at(10);
    client.send(begun);
    proxy.wait_metric(&PARKED, 0.0);
    client.send(rest);
    assert_eq!(client.message().text(), "third");
    assert_eq!(client.message().text(), "fourth");
    proxy.wait_metric(&PARKED, 1.0);
    // Where a request begins is still known.
    let two_lengths = "Content-Length: 1\r\nContent-Length: 2\r\n\r\n";
    client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{two_lengths}"));
    assert_eq!(client.message().status(), 400);
    assert!(client.is_closed());
    proxy.assert_no_leak();
}

#[test]
fn a_parked_connection_ends_with_its_time_its_client_or_the_server() {
    let origin = repeating();
    let mut config = config(&[origin.address]);
    config.listeners[0].idle_timeout = Duration::from_secs(4);
    let proxy = Proxy::start(&config);
    let parked = || {
        let mut client = proxy.connect();
        assert_eq!(client.ask(post("x")).text(), "x");
        proxy.wait_metric(&PARKED, 1.0);
        client
    };
    assert!(parked().is_closed(), "its time is over");
    proxy.assert_no_leak();
    let mut leaving = parked();
    leaving.half_close();
    assert!(leaving.is_closed());
    proxy.assert_no_leak();
    let mut left = parked();
    proxy.server.as_ref().unwrap().control().drain();
    assert!(left.is_closed());
    proxy.assert_no_leak();
}

#[test]
fn head_has_the_length_and_no_body() {
    let origin = Origin::start(|mut peer| {
        while let Some(request) = peer.try_message(true) {
            let head = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
            let is_head = request.start.starts_with("HEAD");
            peer.send(if is_head {
                head.to_owned()
            } else {
                head.to_owned() + "hello"
            });
        }
    });
    let proxy = Proxy::of(&[&origin]);
    let mut client = proxy.connect();
    client.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
    let answer = client.try_message(false).unwrap();
    assert_eq!(
        (answer.status(), answer.field("content-length")),
        (200, Some("5"))
    );
    assert_eq!(client.ask(get("/")).text(), "hello");
    assert_eq!(origin.connections(), 1);
    drop(client);
    proxy.assert_no_leak();
    let lines = proxy.log_lines(2);
    assert_eq!(
        (&lines[0]["bytes"], &lines[0]["aborted"]),
        (&0.into(), &false.into())
    );
}

#[test]
fn bodiless_statuses_pass() {
    let origin = Origin::http(|request| {
        let status = request.start.split(['/', ' ']).nth(2).unwrap().to_owned();
        match status.as_str() {
            "304" => "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n".to_owned(),
            _ => "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
        }
    });
    let proxy = Proxy::of(&[&origin]);
    let mut client = proxy.connect();
    let answer = client.ask(get("/304"));
    assert_eq!(
        (answer.status(), answer.field("etag")),
        (304, Some("\"x\""))
    );
    let answer = client.ask(get("/204"));
    assert_eq!(answer.status(), 204);
    assert!(answer.field("content-length").is_none());
    assert!(answer.field("transfer-encoding").is_none());
    assert_eq!(client.ask(get("/304")).status(), 304);
    assert_eq!(origin.connections(), 1);
}

/// Checks chunked bodies and trailers in both directions, with and without reading ahead.
#[test]
fn chunked_bodies_and_trailers_pass_both_ways() {
    for is_read_ahead in [false, true] {
        trailers_pass(is_read_ahead);
    }
}

fn trailers_pass(is_read_ahead: bool) {
    let origin = Origin::http(|request| {
        assert_eq!(request.field("transfer-encoding"), Some("chunked"));
        assert_eq!(request.field("te"), Some("trailers"));
        let sum = request.trailers.iter().find(|(name, _)| name == "x-sum");
        let sum = sum.map_or("none", |(_, value)| value);
        format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Check\r\n\r\n\
             {:x}\r\n{}\r\n0\r\nX-Check: {sum}\r\n\r\n",
            request.body.len(),
            request.text()
        )
    });
    let mut config = config(&[origin.address]);
    if is_read_ahead {
        with_cluster(&mut config, |cluster| cluster.max_requests = 100);
        // Heads wait for the uplink, and what is behind them comes meanwhile.
        config.uplink.rate = Rate::Fixed(200_000);
    }
    let proxy = Proxy::logging(config);
    let mut client = proxy.connect();
    for _ in 0..2 {
        let answer = client.ask(
            "POST / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE\r\nTrailer: X-Sum\r\n\
             Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4;ext=1\r\ndefg\r\n0\r\nX-Sum: 7\r\n\r\n",
        );
        assert_eq!(
            (answer.status(), answer.text()),
            (200, "abcdefg".to_owned())
        );
        assert_eq!(answer.trailers, [("x-check".to_owned(), "7".to_owned())]);
    }
    assert_eq!(origin.connections(), 1);
    drop(client);
    proxy.assert_no_leak();
    assert_eq!(proxy.log_lines(2)[0]["size_source"], "unknown");
}

#[test]
fn a_get_with_a_chunked_body_keeps_it() {
    let origin = Origin::http(|request| ok(&request.text()));
    let proxy = Proxy::of(&[&origin]);
    let answer = proxy.connect().ask(
        "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    );
    assert_eq!(answer.text(), "abc");
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let origin = Origin::http(|request| ok(&request.start));
    let proxy = Proxy::of(&[&origin]);
    let mut client = proxy.connect();
    client.send(get("/1") + &get("/2") + &get("/3"));
    for n in 1..=3 {
        assert_eq!(client.message().text(), format!("GET /{n} HTTP/1.1"));
    }
    drop(client);
    proxy.assert_no_leak();
    proxy.log_lines(3);
}

#[test]
fn an_http_10_client_gets_what_it_understands() {
    let origin = Origin::http(|request| {
        assert!(request.start.ends_with("HTTP/1.1"), "{request:?}");
        assert!(request.field("host").is_some());
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n".to_owned()
    });
    let proxy = Proxy::of(&[&origin]);
    let mut client = proxy.connect();
    let answer = client.ask("GET / HTTP/1.0\r\n\r\n");
    assert_eq!(answer.text(), "abc");
    assert!(answer.field("transfer-encoding").is_none());
    assert!(client.is_closed());
    // It cannot be kept, whatever the client asks for.
    let mut client = proxy.connect();
    let answer = client.ask("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_eq!(answer.text(), "abc");
    assert_eq!(answer.field("connection"), Some("close"));
}

#[test]
fn a_backend_that_speaks_http_10_spoils_no_message() {
    let origin = Origin::http(|request| {
        assert!(request.start.ends_with("HTTP/1.1"), "{request:?}");
        let fields = "Connection: keep-alive\r\nContent-Length";
        let body = request.text();
        format!("HTTP/1.0 200 OK\r\n{fields}: {}\r\n\r\n{body}", body.len())
    });
    let proxy = Proxy::of(&[&origin]);
    let mut client = proxy.connect();
    let post = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    for _ in 0..3 {
        let answer = client.ask(get("/"));
        assert_eq!(answer.start, "HTTP/1.1 200 OK");
        // hyper would have sent it in 1.0, without a body.
        let answer = client.ask(format!("{post}3\r\nabc\r\n0\r\n\r\n"));
        assert_eq!(answer.text(), "abc");
    }
}

#[test]
fn a_response_without_length_ends_with_the_connection() {
    let origin = Origin::start(|mut peer| {
        peer.message();
        peer.send("HTTP/1.1 200 OK\r\n\r\nuntil the end");
    });
    let proxy = Proxy::of(&[&origin]);
    let mut client = proxy.connect();
    let answer = client.ask(get("/"));
    assert_eq!(answer.text(), "until the end");
    assert_eq!(answer.field("transfer-encoding"), Some("chunked"));
    assert_eq!(client.ask(get("/")).text(), "until the end");
}

#[test]
fn expect_continue_asks_the_client_only_when_the_upstream_does() {
    let origin = Origin::start(|mut peer| {
        while let Some(request) = peer.head() {
            assert_eq!(request.field("expect"), Some("100-continue"));
            if request.start.contains("/refuse") {
                peer.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
                continue;
            }
            peer.send("HTTP/1.1 100 Continue\r\n\r\n");
            let mut body = [0; 5];
            std::io::Read::read_exact(&mut peer.reader, &mut body).unwrap();
            peer.send(ok(&String::from_utf8_lossy(&body)));
        }
    });
    let proxy = Proxy::of(&[&origin]);
    let head = |path| {
        format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
        )
    };
    let mut client = proxy.connect();
    client.send(head("/"));
    let interim = client.head().unwrap();
    assert_eq!(interim.status(), 100);
    let answer = client.ask("hello");
    assert_eq!((answer.status(), answer.text()), (200, "hello".to_owned()));
    // An early final answer comes instead, and the body is never asked for.
    client.send(head("/refuse"));
    assert_eq!(client.head().unwrap().status(), 403);
    drop(client);
    proxy.assert_no_leak();
    proxy.log_lines(2);
}

#[test]
fn expect_continue_is_not_held_up_by_a_silent_upstream() {
    let origin = Origin::http(|request| ok(&request.text()));
    let proxy = Proxy::of(&[&origin]);
    let mut client = proxy.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    assert_eq!(client.head().unwrap().status(), 100);
    assert_eq!(client.ask("hello").text(), "hello");
}

#[test]
fn hop_by_hop_fields_stay_on_their_hop() {
    let origin = Origin::http(|request| {
        let names: Vec<_> = request
            .fields
            .iter()
            .map(|(name, _)| name.as_str())
            .collect();
        let body = names.join(" ");
        format!(
            "HTTP/1.1 200 OK\r\nConnection: X-Private\r\nX-Private: 1\r\nKeep-Alive: timeout=5\r\n\
             X-Public: 2\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    });
    let proxy = Proxy::of(&[&origin]);
    let answer = proxy.connect().ask(
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, X-Secret, Upgrade\r\nX-Secret: 1\r\n\
         Keep-Alive: 5\r\nProxy-Connection: keep-alive\r\nUpgrade: h2c\r\nTE: gzip\r\n\
         Accept: */*\r\n\r\n",
    );
    assert_eq!(
        answer.text(),
        "host accept x-forwarded-for x-forwarded-proto x-forwarded-host via"
    );
    assert_eq!(answer.field("x-public"), Some("2"));
    for gone in ["x-private", "keep-alive", "connection"] {
        assert!(answer.field(gone).is_none(), "{answer:?}");
    }
    assert!(answer.field("date").is_some());
}

#[test]
fn the_backend_is_told_about_the_client() {
    let origin = Origin::http(|request| {
        let told = |name| request.field(name).unwrap_or("-").to_owned();
        ok(&[
            "x-forwarded-for",
            "x-forwarded-proto",
            "x-forwarded-host",
            "forwarded",
            "via",
        ]
        .map(told)
        .join("|"))
    });
    let mut config = config(&[origin.address]);
    config.listeners[0].forwarding.forwarded = true;
    let request = "GET / HTTP/1.1\r\nHost: www.example:81\r\nX-Forwarded-For: 192.0.2.1\r\n\
                   X-Forwarded-Proto: https\r\nForwarded: for=192.0.2.1\r\nVia: 1.0 edge\r\n\r\n";
    let untrusting = Proxy::start(&config);
    assert_eq!(
        untrusting.connect().ask(request).text(),
        "127.0.0.1|http|www.example:81|for=127.0.0.1;host=\"www.example:81\";proto=http|\
         1.0 edge, 1.1 sprat"
    );
    config.listeners[0].forwarding.trusted = vec![sprat_config::resolved::Network {
        address: "127.0.0.0".parse().unwrap(),
        prefix_len: 8,
    }];
    let trusting = Proxy::start(&config);
    assert_eq!(
        trusting.connect().ask(request).text(),
        "192.0.2.1, 127.0.0.1|https|www.example:81|for=192.0.2.1, \
         for=127.0.0.1;host=\"www.example:81\";proto=http|1.0 edge, 1.1 sprat"
    );
}

#[test]
fn targets_in_every_form() {
    let origin = Origin::http(|request| {
        ok(&format!(
            "{} {}",
            request.start,
            request.field("host").unwrap()
        ))
    });
    let proxy = Proxy::of(&[&origin]);
    let mut client = proxy.connect();
    let answer = client.ask("GET http://b.example:8080/x?y HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(answer.text(), "GET /x?y HTTP/1.1 b.example:8080");
    let answer = client.ask("GET http://b.example HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(answer.text(), "GET / HTTP/1.1 b.example");
    let answer = client.ask("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(answer.text(), "OPTIONS * HTTP/1.1 a");
    let answer = client.ask("OPTIONS http://b.example HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(answer.text(), "OPTIONS * HTTP/1.1 b.example");
    let answer = client.ask("OPTIONS http://b.example/ HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(answer.text(), "OPTIONS / HTTP/1.1 b.example");
    for refused in [
        "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n",
        "TRACE / HTTP/1.1\r\nHost: a\r\n\r\n",
    ] {
        let mut client = proxy.connect();
        let answer = client.ask(refused);
        assert_eq!(answer.status(), 405, "{refused}");
        assert!(answer.field("allow").unwrap().contains("GET"));
    }
    for bad in [
        "GET * HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET ftp://a/x HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET http://user@a/x HTTP/1.1\r\nHost: a\r\n\r\n",
    ] {
        assert_eq!(proxy.connect().ask(bad).status(), 400, "{bad}");
    }
}

/// Checks that an OPTIONS goes no further than `Max-Forwards` allows (RFC 9110 7.6.2).
#[test]
fn an_options_goes_no_further_than_it_may() {
    let origin = Origin::http(|request| ok(request.field("max-forwards").unwrap_or("-")));
    let proxy = Proxy::of(&[&origin]);
    let mut client = proxy.connect();
    let options = |hops: &str, body: &str| {
        format!(
            "OPTIONS /a HTTP/1.1\r\nHost: a\r\nMax-Forwards: {hops}\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    assert_eq!(client.ask(options("5", "")).text(), "4");
    assert_eq!(client.ask(options("1", "hello")).text(), "0");
    for body in ["", "hello"] {
        let last = client.ask(options("0", body));
        assert_eq!((last.status(), last.text()), (200, String::new()));
        assert!(last.field("allow").unwrap().contains("OPTIONS"), "{last:?}");
    }
    // For other methods it means nothing, and a TRACE goes nowhere.
    let get = "GET /a HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\n\r\n";
    assert_eq!(client.ask(get).text(), "0");
    let trace = "TRACE /a HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\n\r\n";
    assert_eq!(client.ask(trace).status(), 405);
    drop(client);
    let lines = proxy.log_lines(6);
    assert_eq!(lines[2]["reason"], serde_json::Value::Null, "{}", lines[2]);
    assert_eq!(lines[2]["status"], 200);
    proxy.assert_no_leak();
}

#[test]
fn versions_are_read_as_those_that_are_known() {
    let origin = Origin::http(|request| ok(&request.start));
    let proxy = Proxy::of(&[&origin]);
    let mut client = proxy.connect();
    for minor in 1..=9 {
        let answer = client.ask(format!("GET /a HTTP/1.{minor}\r\nHost: a\r\n\r\n"));
        assert_eq!(answer.text(), "GET /a HTTP/1.1");
        assert!(answer.start.starts_with("HTTP/1.1 200 "), "{answer:?}");
    }
    // In pieces, too.
    for piece in ["GET /a HTT", "P/1.", "7", "\r\nHost: a\r", "\n\r\n"] {
        client.send(piece);
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(client.message().text(), "GET /a HTTP/1.1");
    let answer = client.ask("GET /a HTTP/3.0\r\nHost: a\r\n\r\n");
    assert_eq!(answer.status(), 505);
    assert!(client.is_closed());
    assert_eq!(proxy.log_lines(11)[10]["reason"], "version_not_supported");
}

/// Checks that an endpoint's interim responses are passed on as they come (RFC 9110 15.2).
#[test]
fn interim_responses_pass() {
    let (heard, hears) = std::sync::mpsc::channel();
    let hears = std::sync::Mutex::new(hears);
    let origin = Origin::start(move |mut peer| {
        while let Some(request) = peer.try_message(true) {
            let is_last = request.start.contains("/last");
            peer.send(
                "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\
                 Connection: X-Private\r\nX-Private: 1\r\n\r\n",
            );
            if is_last {
                // The client has it before there is an answer.
                hears.lock().unwrap().recv_timeout(PATIENCE).unwrap();
            }
            peer.send(format!(
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n{}",
                ok("whole")
            ));
        }
    });
    let mut config = config(&[origin.address]);
    for rate in [Rate::Unlimited, Rate::Fixed(100_000_000)] {
        config.uplink.rate = rate;
        let proxy = Proxy::logging(config.clone());
        let mut client = proxy.connect();
        // Pipelined: each response after its own, and after what was before.
        client.send(["/a", "/b", "/last"].map(get).concat());
        for path in ["/a", "/b", "/last"] {
            let hints = client.head().unwrap();
            assert_eq!(hints.status(), 103);
            assert_eq!(hints.field("link"), Some("</a.css>; rel=preload"));
            assert_eq!(hints.field("x-private"), None);
            assert_eq!(hints.field("connection"), None);
            if path == "/last" {
                heard.send(()).unwrap();
            }
            // That the body may come is for Sprat to say, which was not asked.
            assert_eq!(client.head().unwrap().status(), 102);
            let answer = client.ask("");
            assert_eq!((answer.status(), answer.text()), (200, "whole".to_owned()));
        }
        // HTTP/1.0 has none.
        let mut old = proxy.connect();
        let answer = old.ask("GET / HTTP/1.0\r\nHost: a\r\n\r\n");
        assert_eq!(answer.status(), 200);
        drop((client, old));
        proxy.assert_no_leak();
        let lines = proxy.log_lines(4);
        assert!(lines.iter().all(|line| line["status"] == 200), "{lines:?}");
        proxy.stop();
    }
}

#[test]
fn interim_responses_without_end_are_bounded() {
    let origin = Origin::http(|_| "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(300) + &ok("whole"));
    let proxy = Proxy::of(&[&origin]);
    let mut client = proxy.connect();
    client.send(get("/"));
    let mut interims = 0;
    let answer = loop {
        match client.head().unwrap() {
            head if head.status() == 103 => interims += 1,
            head => break head,
        }
    };
    assert_eq!((interims, answer.status()), (100, 200));
    drop(client);
    proxy.assert_no_leak();
    proxy.stop();
}
