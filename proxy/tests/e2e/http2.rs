//! Tests of HTTP/2 with clients, over real sockets.

pub(crate) mod client;
mod conformance;
mod hostile;
mod interim;
mod malformed;
mod origin;
mod refusals;
mod silence;
mod translation;
mod uploads;
mod upstream;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use self::client::*;
use crate::common::*;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request};
use http_body_util::BodyExt as _;
use sprat_config::resolved::*;
use sprat_scheduler::Discipline;

fn pattern(bytes: usize) -> String {
    "0123456789abcdef-".chars().cycle().take(bytes).collect()
}

/// Starts an origin that answers `/SIZE` with so many bytes, in a pattern.
fn farm() -> Origin {
    Origin::http(|request| {
        let path = request.start.split(' ').nth(1).unwrap();
        ok(&pattern(path[1..].parse().unwrap()))
    })
}

/// Starts an origin that answers with the request that reached it.
fn mirror() -> Origin {
    Origin::http(|request| {
        let mut text = format!("{}\n", request.start);
        for (name, value) in request.fields.iter().chain(&request.trailers) {
            text += &format!("{name}: {value}\n");
        }
        ok(&(text + "\n" + &request.text()))
    })
}

#[test]
fn where_http2_is_required_http1_is_not_taken() {
    let origin = mirror();
    let mut config = config(&[origin.address]);
    config.listeners[0].http2.as_mut().unwrap().required = true;
    let proxy = Proxy::start(&config);
    let mut old = TcpStream::connect(proxy.address).unwrap();
    old.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nX-Length: enough\r\n\r\n")
        .unwrap();
    let mut told = Vec::new();
    // A reset will do.
    let _ = old.read_to_end(&mut told);
    assert!(!told.starts_with(b"HTTP/"), "{told:?}");
    assert_eq!(origin.connections(), 0);
    run(async {
        let client = connect(proxy.address).await;
        assert_eq!(ask(&client, request("/")).await.status, 200);
    });
    proxy.assert_no_leak();
    proxy.stop();
}

#[test]
fn both_versions_are_served_on_one_listener() {
    let origin = mirror();
    let proxy = Proxy::of(&[&origin]);
    run(async {
        let client = connect(proxy.address).await;
        for n in 0..3 {
            let answer = ask(&client, request(&format!("/{n}?q"))).await;
            assert_eq!(answer.status, 200);
            let text = answer.text();
            assert!(
                text.starts_with(&format!("GET /{n}?q HTTP/1.1\n")),
                "{text}"
            );
            assert!(text.contains("host: test.example\n"), "{text}");
            assert!(text.contains("via: 2.0 sprat\n"), "{text}");
        }
    });
    // What only begins like the preface is HTTP/1.1's.
    for method in ["GET", "PUT", "PRI", "PRISM"] {
        let text = format!("{method} /x HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
        let answer = proxy.connect().ask(text);
        assert!(answer.text().starts_with(&format!("{method} /x HTTP/1.1")));
    }
    proxy.assert_no_leak();
    let lines = proxy.log_lines(7);
    assert_eq!(
        (&lines[2]["path"], &lines[2]["host"]),
        (&"/2?q".into(), &"test.example".into())
    );
    assert_eq!(lines[2]["aborted"], false);
    proxy.stop();
}

#[test]
fn an_options_goes_no_further_than_it_may() {
    let origin = mirror();
    let proxy = Proxy::of(&[&origin]);
    run(async {
        let client = connect(proxy.address).await;
        for (hops, kept) in [("5", Some("max-forwards: 4\n")), ("0", None)] {
            let mut options = request("/a");
            *options.method_mut() = http::Method::OPTIONS;
            let hops = HeaderValue::from_static(hops);
            options.headers_mut().insert("max-forwards", hops);
            let answer = ask(&client, options).await;
            assert_eq!(answer.status, 200);
            match kept {
                Some(field) => assert!(answer.text().contains(field)),
                None => assert_eq!(answer.text(), ""),
            }
        }
    });
    proxy.assert_no_leak();
}

#[test]
fn the_preface_may_come_in_pieces() {
    let origin = farm();
    let proxy = Proxy::of(&[&origin]);
    let mut raw = Raw::connect(proxy.address, &[]);
    raw.stream.shutdown(std::net::Shutdown::Both).unwrap();
    for part in [1, 5, 23, 30] {
        let mut stream = TcpStream::connect(proxy.address).unwrap();
        stream.set_nodelay(true).unwrap();
        let begin = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
        let request = frame(
            HEADERS,
            END_HEADERS | END_STREAM,
            1,
            &get_fields("/10", &[]),
        );
        for bytes in [begin, request].concat().chunks(part) {
            stream.write_all(bytes).unwrap();
            // Lets them arrive one by one, mostly; either way is right.
            std::thread::sleep(Duration::from_micros(200));
        }
        raw.stream = stream;
        let end = raw.end_of(1).unwrap();
        assert_eq!((end.kind, end.payload.len()), (DATA, 10), "parts of {part}");
    }
    // Not the preface after all.
    let mut peer = proxy.connect();
    for bytes in [&b"PR"[..], b"I * HTTP/2.0\r\n", b"Host: a\r\n\r\n"] {
        assert!(peer.send(bytes));
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(peer.is_closed());
    drop((raw, peer));
    proxy.assert_no_leak();
    proxy.stop();
}

#[test]
fn it_can_be_switched_off() {
    let origin = farm();
    let mut config = config(&[origin.address]);
    config.listeners[0].http2 = None;
    let proxy = Proxy::start(&config);
    let mut peer = proxy.connect();
    assert!(peer.send([PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()));
    assert!(peer.is_closed());
    proxy.stop();
}

#[test]
fn what_has_no_body_has_none() {
    let origin = Origin::start(|mut peer| {
        while let Some(request) = peer.try_message(true) {
            let path = request.start.split(' ').nth(1).unwrap().to_owned();
            peer.send(match path.as_str() {
                "/304" => "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n",
                "/204" => "HTTP/1.1 204 No Content\r\n\r\n",
                _ => "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
            });
        }
    });
    let mut config = config(&[origin.address]);
    config.routes[0].matches.path = PathPattern::Prefix("/".to_owned());
    config.routes[0].matches.hosts = vec![HostPattern::Exact("test.example".to_owned())];
    for rate in [Rate::Unlimited, Rate::Fixed(100_000_000)] {
        config.uplink.rate = rate;
        let proxy = Proxy::logging(config.clone());
        run(async {
            let client = connect(proxy.address).await;
            let answer = ask(&client, request("/304")).await;
            assert_eq!(
                (answer.status, answer.headers["etag"].as_bytes()),
                (304, &b"\"x\""[..])
            );
            assert_eq!(ask(&client, request("/204")).await.status, 204);
            let head = |host: &str| {
                let uri = format!("http://{host}/");
                Request::head(uri).body(empty()).unwrap()
            };
            let answer = ask(&client, head("test.example")).await;
            assert_eq!((answer.status, answer.body.len()), (200, 0));
            assert_eq!(answer.headers["content-length"], "5");
            // Sprat's own answer.
            let answer = ask(&client, head("elsewhere.example")).await;
            assert_eq!((answer.status, answer.body.len()), (404, 0));
        });
        proxy.assert_no_leak();
        let lines = proxy.log_lines(4);
        assert!(
            lines.iter().all(|line| line["aborted"] == false),
            "{lines:?}"
        );
        proxy.stop();
    }
}

#[test]
fn a_204_has_no_length_whatever_its_backend_says() {
    let origin =
        Origin::http(|_| "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n".to_owned());
    let proxy = Proxy::of(&[&origin]);
    let answer = proxy.connect().ask(get("/"));
    assert_eq!(
        (answer.status(), answer.field("content-length")),
        (204, None)
    );
    run(async {
        let client = connect(proxy.address).await;
        let answer = ask(&client, request("/")).await;
        assert_eq!(answer.status, 204);
        assert!(!answer.headers.contains_key("content-length"));
    });
    proxy.assert_no_leak();
    proxy.stop();
}

/// Checks that a request is answered that crosses the GOAWAY of an idle connection, and comes
/// before its end.
#[test]
fn a_request_that_comes_as_an_idle_connection_ends_is_answered() {
    let origin = Origin::http(|_| {
        // Longer than a connection without a request stays.
        std::thread::sleep(Duration::from_millis(1500));
        ok("late")
    });
    let mut config = config(&[origin.address]);
    config.listeners[0].idle_timeout = Duration::from_millis(200);
    let proxy = Proxy::logging(config);
    let mut raw = Raw::connect(proxy.address, &[]);
    assert!(raw.get(1, "/"));
    assert_eq!(
        raw.find(|frame| frame.kind == DATA).unwrap().payload,
        b"late"
    );
    let told = raw.find(|frame| frame.kind == GOAWAY).unwrap();
    assert_eq!(told.error(), 0);
    assert!(raw.get(3, "/"));
    let answer = raw.find(|frame| frame.kind == DATA && frame.stream == 3);
    assert_eq!(answer.unwrap().payload, b"late");
    while raw.read().is_some() {}
    let lines = proxy.log_lines(2);
    assert!(lines.iter().all(|line| line["status"] == 200), "{lines:?}");
    proxy.assert_no_leak();
    proxy.stop();
}

#[test]
fn a_cookie_in_many_parts_is_one_field() {
    let origin = mirror();
    let proxy = Proxy::of(&[&origin]);
    run(async {
        let client = connect(proxy.address).await;
        let mut many = request("/");
        for n in 0..180 {
            let crumb = HeaderValue::try_from(format!("name{n}=value")).unwrap();
            many.headers_mut().append("cookie", crumb);
        }
        let answer = ask(&client, many).await;
        assert_eq!(answer.status, 200);
        assert!(answer.text().contains("; name179=value\n"));
    });
    proxy.stop();
}

#[test]
fn bodies_trailers_and_cookies_pass() {
    let origin = mirror();
    let proxy = Proxy::of(&[&origin]);
    run(async {
        let client = connect(proxy.address).await;
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", HeaderValue::from_static("42"));
        let body = pieces(&["hello ", "world"], trailers);
        let post = Request::post("http://test.example/up")
            .header("cookie", "a=1")
            .header("cookie", "b=2")
            .header("te", "trailers")
            .header("trailer", "x-sum")
            .body(body)
            .unwrap();
        let answer = ask(&client, post).await;
        let text = answer.text();
        assert!(text.starts_with("POST /up HTTP/1.1\n"), "{text}");
        assert!(text.contains("cookie: a=1; b=2\n"), "{text}");
        assert!(text.contains("transfer-encoding: chunked\n"), "{text}");
        assert!(text.contains("x-sum: 42\n"), "{text}");
        assert!(text.ends_with("\n\nhello world"), "{text}");
        let counted = Request::put("http://test.example/up")
            .body(full("counted"))
            .unwrap();
        let answer = ask(&client, counted).await;
        assert!(
            answer.text().contains("content-length: 7\n"),
            "{}",
            answer.text()
        );
        assert!(answer.text().ends_with("\n\ncounted"));
    });
    proxy.assert_no_leak();
    proxy.stop();
}

/// Checks that waiting uploads leave room for the one in service, under the defaults: each waits in
/// the window of its own stream.
#[test]
fn uploads_that_wait_leave_room_for_the_one_in_service() {
    const WAITING: usize = 30;
    let origin = Origin::http(|request| ok(&request.body.len().to_string()));
    let text = format!(
        "version: 1\nadmin: off\nruntime: {{workers: 1}}\nuplink: {{rate: unlimited}}\n\
         listeners: [{{address: 127.0.0.1:0}}]\n\
         clusters: {{a: {{endpoints: ['{}'], max_requests: 1}}}}\nroutes: [{{cluster: a}}]\n",
        origin.address
    );
    let loaded = sprat_config::parse(&text, "test", &|_| None);
    let proxy = Proxy::start(&loaded.unwrap_or_else(|errors| panic!("{errors}")).config);
    let until = async |part: &str, value: f64| {
        while proxy.metric(&[part]) != value {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    run(async {
        let client = connect(proxy.address).await;
        let post = |body| {
            let request = Request::post("http://test.example/up").body(body).unwrap();
            let client = client.clone();
            tokio::spawn(async move { ask(&client, request).await })
        };
        let (feed, body) = fed();
        feed.send(Bytes::from_static(b"x")).unwrap();
        let first = post(body);
        until("sprat_upstream_outstanding", 1.0).await;
        // As much as a stream's window takes, from each.
        let waiting: Vec<_> = (0..WAITING)
            .map(|_| post(full(vec![b'x'; 64 << 10])))
            .collect();
        until("sprat_waiting_requests", WAITING as f64).await;
        // Their bodies have had time to come before more of the first one does.
        tokio::time::sleep(Duration::from_millis(200)).await;
        feed.send(Bytes::from(vec![b'x'; 512 << 10])).unwrap();
        drop(feed);
        let length = (512 << 10) + 1;
        assert_eq!(first.await.unwrap().text(), length.to_string());
        for answer in waiting {
            assert_eq!(answer.await.unwrap().text(), "65536");
        }
    });
    proxy.assert_no_leak();
    proxy.stop();
}

#[test]
fn response_trailers_pass() {
    let origin = Origin::http(|_| {
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n\
         5\r\nhello\r\n0\r\nx-sum: 42\r\n\r\n"
            .to_owned()
    });
    for rate in [Rate::Unlimited, Rate::Fixed(100_000_000)] {
        let mut config = config(&[origin.address]);
        config.uplink.rate = rate;
        let proxy = Proxy::logging(config);
        run(async {
            let client = connect(proxy.address).await;
            let mut request = request("/");
            let headers = request.headers_mut();
            headers.insert("te", HeaderValue::from_static("trailers"));
            let answer = ask(&client, request).await;
            assert_eq!(answer.text(), "hello");
            assert_eq!(answer.trailers.unwrap()["x-sum"], "42");
        });
        proxy.assert_no_leak();
        assert_eq!(proxy.log_lines(1)[0]["aborted"], false);
        proxy.stop();
    }
}

/// Returns the size of the response that is complete first: a large one, or a small one asked for
/// after it on the same connection. The small one is many grants long: on a busy machine the large
/// one has at times nothing in hand when the link is free, and one of those goes ahead.
fn first_complete(policy: Discipline) -> usize {
    let origin = farm();
    let mut config = config(&[origin.address]);
    config.uplink.rate = Rate::Fixed(8_000_000);
    config.uplink.policy = policy;
    let proxy = Proxy::start(&config);
    let first = run(async {
        let client = connect(proxy.address).await;
        let mut sender = client.clone();
        let large = sender.send_request(request("/1000000")).await.unwrap();
        let large = whole(large);
        let small = ask(&client, request("/30000"));
        tokio::pin!(large, small);
        let first = tokio::select! {
            answer = &mut large => answer,
            answer = &mut small => answer,
        };
        let rest = match first.body.len() {
            30_000 => large.await,
            _ => small.await,
        };
        for answer in [&first, &rest] {
            assert_eq!(answer.text(), pattern(answer.body.len()));
        }
        assert_eq!(first.body.len() + rest.body.len(), 1_030_000);
        first.body.len()
    });
    proxy.assert_no_leak();
    proxy.wait_metric(&["sprat_uplink_open_flows"], 0.0);
    proxy.stop();
    first
}

#[test]
fn the_policy_orders_the_streams_of_a_connection() {
    assert_eq!(first_complete(Discipline::Srpt), 30_000);
    assert_eq!(first_complete(Discipline::Fair), 30_000);
    assert_eq!(first_complete(Discipline::Fcfs), 1_000_000);
}

#[test]
fn a_thousand_streams_of_twenty_connections_are_whole() {
    let origin = farm();
    for (rate, acknowledged) in [(Rate::Unlimited, 0.0), (Rate::Fixed(1_000_000_000), 1000.0)] {
        let mut config = config(&[origin.address]);
        config.uplink.rate = rate;
        config.runtime.workers = 2;
        let proxy = Proxy::start(&config);
        run(async {
            let mut tasks = tokio::task::JoinSet::new();
            for _ in 0..20 {
                let client = connect(proxy.address).await;
                for n in 0..50 {
                    let client = client.clone();
                    tasks.spawn(async move {
                        let size = n * 997;
                        let answer = ask(&client, request(&format!("/{size}"))).await;
                        assert_eq!(answer.text(), pattern(size));
                    });
                }
            }
            while let Some(ended) = tasks.join_next().await {
                ended.unwrap();
            }
        });
        // Where responses are paced it is known when their clients have them.
        let count = "sprat_response_acknowledged_seconds_count";
        proxy.wait_metric(&[count], acknowledged);
        proxy.assert_no_leak();
        proxy.stop();
    }
}

/// Returns the order in which responses on one connection are complete. Another connection has the
/// link until all of them wait for it.
fn order_of(origin: &Origin, asked: &[(&'static str, Option<&'static str>)]) -> Vec<&'static str> {
    order_where(origin, Priorities::All, asked)
}

fn order_where(
    origin: &Origin,
    priorities: Priorities,
    asked: &[(&'static str, Option<&'static str>)],
) -> Vec<&'static str> {
    let mut config = config(&[origin.address]);
    config.listeners[0].address = free_address().into();
    config.listeners[0].http2.as_mut().unwrap().priorities = priorities;
    // So slow that the first response takes 80 s, and its client's buffers seconds.
    config.uplink.adapt = false;
    config.uplink.rate = Rate::Fixed(100_000);
    config.uplink.policy = Discipline::Srpt;
    config.uplink.floor_percent = 0;
    // It is before all others by its class.
    let [above, below] = ["default", "background"].map(|name| {
        let mut names = config.classes.list.iter().map(|class| &*class.name);
        names.position(|own| own == name).unwrap()
    });
    config.classes.rules[0].class = above;
    config.classes.default = below;
    let proxy = Proxy::start(&config);
    let mut first = Raw::connect(proxy.address, &[(INITIAL_WINDOW_SIZE, 1 << 20)]);
    let block = get_fields("/1000000", &[("sec-purpose", "prefetch")]);
    assert!(first.frame(HEADERS, END_HEADERS | END_STREAM, 1, &block));
    assert!(first.find(|frame| frame.kind == DATA).is_some());
    let mut client = Raw::connect(proxy.address, &[(INITIAL_WINDOW_SIZE, 1 << 20)]);
    assert!(client.frame(WINDOW_UPDATE, 0, 0, &(1u32 << 20).to_be_bytes()));
    for (&(path, priority), stream) in asked.iter().zip((1..).step_by(2)) {
        let priority = priority.map(|priority| ("priority", priority));
        let block = get_fields(path, priority.as_slice());
        assert!(client.frame(HEADERS, END_HEADERS | END_STREAM, stream, &block));
    }
    proxy.wait_metric(&["sprat_uplink_open_flows"], asked.len() as f64 + 1.0);
    config.uplink.rate = Rate::Fixed(2_000_000);
    let control = proxy.server.as_ref().unwrap().control();
    assert!(control.reload(&config).unwrap().is_empty());
    drop(first);
    // By the wire: who reads late may find the ends of two at once.
    let (mut order, mut bodies) = (Vec::new(), vec![Vec::new(); asked.len()]);
    while order.len() < asked.len() {
        let frame = client.find(|frame| frame.stream > 0).unwrap();
        let index = frame.stream as usize / 2;
        if frame.kind == DATA {
            bodies[index].extend_from_slice(&frame.payload);
        }
        if frame.ends_stream() {
            let path = asked[index].0;
            let body = String::from_utf8(std::mem::take(&mut bodies[index])).unwrap();
            assert_eq!(body, pattern(path[1..].parse().unwrap()));
            order.push(path);
        }
    }
    drop(client);
    proxy.stop();
    order
}

#[test]
fn a_client_says_what_it_wants_first() {
    let plain = Origin::http(|request| {
        let path = request.start.split(' ').nth(1).unwrap();
        ok(&pattern(path[1..].parse().unwrap()))
    });
    let asked = [("/30000", None), ("/40000", None), ("/50000", None)];
    assert_eq!(order_of(&plain, &asked), ["/30000", "/40000", "/50000"]);
    let asked = [
        ("/30000", Some("u=5")),
        ("/40000", None),
        ("/50000", Some("u=1")),
    ];
    assert_eq!(order_of(&plain, &asked), ["/50000", "/40000", "/30000"]);
    // Served together, both are complete after one that is not incremental.
    let asked = [
        ("/30000", Some("i")),
        ("/31000", Some("i")),
        ("/60000", None),
    ];
    assert_eq!(order_of(&plain, &asked), ["/60000", "/30000", "/31000"]);
    // Where that does not count, size decides among those of one urgency.
    let asked = [
        ("/30000", Some("u=4, i")),
        ("/40000", Some("i")),
        ("/60000", None),
    ];
    let order = order_where(&plain, Priorities::Urgency, &asked);
    assert_eq!(order, ["/40000", "/60000", "/30000"]);
    let order = order_where(&plain, Priorities::None, &asked);
    assert_eq!(order, ["/30000", "/40000", "/60000"]);
    // The origin knows better.
    let origin = Origin::http(|request| {
        let path = request.start.split(' ').nth(1).unwrap();
        let bytes: usize = path[1..].parse().unwrap();
        let urgency = 7_usize.saturating_sub(bytes / 10_000);
        let field = format!("OK\r\nPriority: u={urgency}");
        ok(&pattern(bytes)).replacen("OK", &field, 1)
    });
    let asked = [
        ("/30000", Some("u=0")),
        ("/40000", None),
        ("/50000", Some("u=7")),
    ];
    assert_eq!(order_of(&origin, &asked), ["/50000", "/40000", "/30000"]);
}

/// Checks that streams are assigned to the client that their request names: a proxy in front may
/// have all users on one connection.
#[test]
fn streams_are_of_the_client_that_their_request_names() {
    let origin = farm();
    let order = |share| {
        let mut config = config(&[origin.address]);
        config.uplink.rate = Rate::Fixed(2_000_000);
        config.uplink.share = share;
        let proxy = Proxy::start(&config);
        run(async {
            // Nobody's turn comes before all have asked: this is smaller by its rank.
            let other = connect(proxy.address).await;
            let busy = tokio::spawn(async move { ask(&other, request("/29000")).await });
            let client = connect(proxy.address).await;
            let mut tasks = tokio::task::JoinSet::new();
            for (bytes, user) in [(30_000, "a"), (40_000, "a"), (50_000, "a"), (60_000, "b")] {
                let mut request = request(&format!("/{bytes}"));
                let user = HeaderValue::from_static(user);
                request.headers_mut().insert("x-user", user);
                let client = client.clone();
                tasks.spawn(async move { ask(&client, request).await.body.len() });
            }
            let mut order = Vec::new();
            while let Some(ended) = tasks.join_next().await {
                order.push(ended.unwrap());
            }
            busy.await.unwrap();
            order
        })
    };
    assert_eq!(order(None), [30_000, 40_000, 50_000, 60_000]);
    let by_user = Some(ClientBy::Header("x-user".to_owned()));
    assert_eq!(order(by_user), [30_000, 60_000, 40_000, 50_000]);
}

#[test]
fn a_refusal_concerns_its_stream_alone() {
    let origin = farm();
    let mut config = config(&[origin.address]);
    config.listeners[0].max_request_body = Some(10);
    let proxy = Proxy::logging(config);
    run(async {
        let client = connect(proxy.address).await;
        let mut large = request("/5");
        *large.method_mut() = http::Method::POST;
        *large.body_mut() = full(vec![0; 100_000]);
        let refused = ask(&client, large).await;
        assert_eq!(refused.status, 413);
        assert!(refused.headers.get("connection").is_none());
        assert_eq!(ask(&client, request("/5")).await.text(), pattern(5));
        let mut connect = request("/");
        *connect.method_mut() = http::Method::TRACE;
        assert_eq!(ask(&client, connect).await.status, 405);
        assert_eq!(ask(&client, request("/5")).await.text(), pattern(5));
    });
    proxy.wait_metric(&["sprat_connections_total"], 1.0);
    proxy.assert_no_leak();
    proxy.stop();
}

#[test]
fn an_origin_that_breaks_off_resets_its_stream_alone() {
    let origin = Origin::start(|mut peer| {
        let request = peer.message();
        let short = request.start.contains("short");
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel");
        if !short {
            peer.send("lo");
        }
    });
    let proxy = Proxy::of(&[&origin]);
    run(async {
        let client = connect(proxy.address).await;
        let response = client
            .clone()
            .send_request(request("/short"))
            .await
            .unwrap();
        assert!(response.into_body().collect().await.is_err());
        assert_eq!(ask(&client, request("/")).await.text(), "hello");
    });
    proxy.assert_no_leak();
    let lines = proxy.log_lines(2);
    assert_eq!(lines[0]["reason"], "response_incomplete");
    assert_eq!(lines[0]["aborted"], true);
    proxy.stop();
}

#[test]
fn a_drain_lets_streams_end() {
    let origin = Origin::start(|mut peer| {
        peer.message();
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel");
        std::thread::sleep(Duration::from_millis(300));
        peer.send("lo");
    });
    let proxy = Proxy::of(&[&origin]);
    let control = proxy.server.as_ref().unwrap().control();
    run(async {
        let client = connect(proxy.address).await;
        let response = client.clone().send_request(request("/")).await.unwrap();
        control.drain();
        assert_eq!(whole(response).await.text(), "hello");
        while !client.is_closed() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    proxy.wait_metric(&["sprat_open_connections"], 0.0);
    proxy.stop();
}
