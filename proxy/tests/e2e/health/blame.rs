//! Tests that tell an endpoint's failures from its client's.

use super::*;

/// Sends a request whose body comes in parts, one every 100 ms.
fn upload(client: &mut Peer, parts: usize) {
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ";
    client.send(format!("{head}{parts}\r\n\r\n"));
    for _ in 0..parts {
        std::thread::sleep(ms(100));
        client.send("x");
    }
}

fn with_bounds(change: impl FnOnce(&mut Route)) -> (Moody, Moody, Proxy) {
    with_cuts_repeated(|config| {
        change(&mut config.routes[0]);
        with_cluster(config, |cluster| {
            cluster.resilience.outlier_detection = Some(OutlierConfig {
                consecutive_local_origin_failure: Some(1),
                ..outliers_for(LONG)
            });
        });
    })
}

#[test]
fn an_attempts_time_begins_when_the_client_has_sent_all() {
    let (slow, _good, proxy) = with_bounds(|route| route.retry.per_try_timeout = Some(ms(150)));
    for _ in 0..2 {
        let mut client = proxy.connect();
        upload(&mut client, 4);
        assert_eq!(client.message().status(), 200);
    }
    assert_eq!(proxy.metric(&["sprat_upstream_errors"]), 0.0);
    assert_eq!(proxy.metric(&["sprat_endpoint_ejected"]), 0.0);
    // From then on it is the endpoint's.
    slow.is(Mood::Stalls);
    let mut client = proxy.connect();
    upload(&mut client, 2);
    assert_eq!(client.message().status(), 504);
    assert_eq!(proxy.metric(&["sprat_endpoint_ejected"]), 1.0);
    slow.is(Mood::Good);
    drop(client);
    proxy.assert_no_leak();
}

#[test]
fn a_body_that_is_not_there_when_the_routes_time_is_up_is_the_clients() {
    let (_first, _other, proxy) = with_bounds(|route| route.timeout = Some(ms(250)));
    let mut client = proxy.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nx");
    assert_eq!(client.message().status(), 408);
    assert_eq!(proxy.metric(&["sprat_endpoint_ejected"]), 0.0);
    assert_eq!(proxy.metric(&["sprat_upstream_errors"]), 0.0);
    assert_eq!(proxy.log_lines(1)[0]["reason"], "body_timeout");
    drop(client);
    proxy.assert_no_leak();
}

#[test]
fn an_endpoint_has_a_fair_part_of_the_routes_time_before_that_counts_against_it() {
    let (slow, _other, proxy) = with_bounds(|route| route.timeout = Some(ms(1000)));
    slow.is(Mood::Stalls);
    // All of it is there after some 600 ms.
    let mut client = proxy.connect();
    upload(&mut client, 6);
    assert_eq!(client.message().status(), 504);
    assert_eq!(slow.requests(), 1);
    assert_eq!(proxy.metric(&["sprat_endpoint_ejected"]), 0.0);
    drop(client);
    proxy.assert_no_leak();
}

#[test]
fn the_routes_time_that_passed_in_the_queue_is_not_the_endpoints() {
    let free = Arc::new(AtomicBool::new(false));
    let [a, b] = [(); 2].map(|()| {
        let free = Arc::clone(&free);
        Origin::start(move |mut peer| {
            while let Some(request) = peer.head() {
                if !request.start.contains("/held") {
                    // Nothing comes.
                    peer.is_closed();
                    return;
                }
                wait_for("the place to become free", || free.load(SeqCst));
                peer.send(ok("held"));
            }
        })
    });
    let mut config = config(&[a.address, b.address]);
    with_cluster(&mut config, |cluster| {
        cluster.max_requests = 1;
        cluster.resilience.outlier_detection = Some(OutlierConfig {
            consecutive_local_origin_failure: Some(1),
            ..outliers_for(LONG)
        });
    });
    // Those that are held have more time.
    let mut held = route(&config.clusters[0]);
    held.matches.path = PathPattern::Exact("/held".to_owned());
    config.routes[0].timeout = Some(ms(1000));
    config.routes.insert(0, held);
    let proxy = Proxy::logging(config);
    let mut busy = [(); 2].map(|()| proxy.connect());
    for client in &mut busy {
        client.send(get("/held"));
    }
    proxy.wait_metric(&["sprat_upstream_outstanding"], 2.0);
    let mut late = proxy.connect();
    late.send(get("/"));
    proxy.wait_metric(&["sprat_waiting_requests"], 1.0);
    std::thread::sleep(ms(600));
    free.store(true, SeqCst);
    for client in &mut busy {
        assert_eq!(client.message().text(), "held");
    }
    // It gets to an endpoint, and has less than half of its time there.
    assert_eq!(late.message().status(), 504);
    // Counted when the answer is over.
    proxy.wait_metric(&["sprat_upstream_errors", "route_timeout"], 1.0);
    assert_eq!(proxy.metric(&["sprat_endpoint_ejected"]), 0.0);
    // One that has all of it is blamed.
    assert_eq!(proxy.connect().ask(get("/")).status(), 504);
    assert_eq!(proxy.metric(&["sprat_endpoint_ejected"]), 1.0);
    drop((busy, late));
    proxy.assert_no_leak();
}

#[test]
fn a_response_that_its_client_reads_too_slowly_for_the_route_is_no_upstream_error() {
    const BYTES: usize = 32 << 20;
    let large = Origin::start(|mut peer| {
        let request = peer.message();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {BYTES}\r\n\r\n");
        peer.send(head);
        // The rest of a small one never comes.
        let bytes = if request.start.contains("/large") {
            BYTES
        } else {
            9
        };
        peer.send(vec![b'x'; bytes]);
        peer.try_message(true);
    });
    let mut config = config(&[large.address]);
    config.routes[0].timeout = Some(ms(500));
    let proxy = Proxy::logging(config);
    for (path, counted) in [("/large", 0.0), ("/small", 1.0)] {
        let mut client = proxy.connect();
        client.send(get(path));
        assert!(client.head().is_some());
        let failed = ["sprat_failed_requests", "route_timeout"];
        proxy.wait_metric(&failed, 1.0 + counted);
        let errors = ["sprat_upstream_errors", "route_timeout"];
        assert_eq!(proxy.metric(&errors), counted, "{path}");
    }
    proxy.assert_no_leak();
}

#[test]
fn an_endpoint_that_has_enough_of_a_body_that_does_not_come_is_well() {
    // They read the head, and wait for the body for as long as they care to.
    let hasty = |name| {
        Origin::start(move |mut peer| {
            while let Some(request) = peer.head() {
                if request.field("content-length").is_some() {
                    std::thread::sleep(ms(100));
                    return;
                }
                peer.send(ok(name));
            }
        })
    };
    let (a, b) = (hasty("a"), hasty("b"));
    let mut config = config(&[a.address, b.address]);
    with_cluster(&mut config, |cluster| {
        cluster.resilience.outlier_detection = Some(OutlierConfig {
            consecutive_local_origin_failure: Some(1),
            ..outliers_for(LONG)
        });
    });
    let proxy = Proxy::logging(config);
    for _ in 0..4 {
        let mut client = proxy.connect();
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n");
        assert_eq!(client.message().status(), 502);
    }
    assert_eq!(proxy.metric(&["sprat_endpoint_ejected"]), 0.0);
    // One that has all of it is not.
    let mut client = proxy.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi");
    assert_eq!(client.message().status(), 502);
    assert_eq!(proxy.metric(&["sprat_endpoint_ejected"]), 1.0);
    drop(client);
    proxy.assert_no_leak();
}

/// Checks that an endpoint that closes the connection is blamed also while the body comes from a
/// file: that each read waits for a thread is no excuse.
#[test]
fn an_endpoint_that_has_enough_of_a_body_that_is_buffered_is_blamed() {
    const BYTES: usize = 8 << 20;
    let directory = tempfile::tempdir().unwrap();
    let endpoints = [(); 2].map(|()| Origin::start(|mut peer| drop(peer.head())));
    let mut config = config(&[endpoints[0].address, endpoints[1].address]);
    config.routes[0].buffer.request = Some(BufferedBody {
        memory_bytes: 1,
        file: Some(BufferFile {
            directory: tls::file(directory.path()),
            max_bytes: BYTES as u64,
        }),
    });
    with_cluster(&mut config, |cluster| {
        cluster.resilience.outlier_detection = Some(OutlierConfig {
            consecutive_local_origin_failure: Some(1),
            ..outliers_for(LONG)
        });
    });
    let proxy = Proxy::logging(config);
    let mut client = proxy.connect();
    client.send(format!(
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {BYTES}\r\n\r\n"
    ));
    client.send(vec![b'x'; BYTES]);
    assert_eq!(client.message().status(), 502);
    assert_eq!(proxy.metric(&["sprat_endpoint_ejected"]), 1.0);
    drop(client);
    proxy.assert_no_leak();
}

/// The beginning of a response, which is cut short.
const PART: &str = "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf";

/// Starts a proxy before two endpoints that treat each request so. One of them is ejected after
/// `in_a_row` failures.
fn doing(
    in_a_row: u32,
    change: impl FnOnce(&mut Config),
    answer: impl Fn(&mut Peer, &Message) -> bool + Send + Sync + 'static,
) -> (Origin, Proxy) {
    let origin = Origin::start(move |mut peer| {
        while let Some(request) = peer.head() {
            if !answer(&mut peer, &request) {
                return;
            }
        }
    });
    let second = Origin::http(|_| ok("b"));
    let mut config = config(&[origin.address, second.address]);
    with_cluster(&mut config, |cluster| {
        cluster.resilience.outlier_detection = Some(OutlierConfig {
            consecutive_local_origin_failure: Some(in_a_row),
            ..outliers_for(LONG)
        });
    });
    change(&mut config);
    (origin, Proxy::logging(config))
}

/// Answers as the path asks: with the whole response, the half, or none.
fn as_asked(peer: &mut Peer, request: &Message) -> bool {
    if request.start.contains("/whole") {
        return peer.send(ok("a"));
    }
    if request.start.contains("/half") {
        peer.send(PART);
    }
    false
}

/// Sends a request to the first endpoint, then gives the other its turn.
fn ask_first(proxy: &Proxy, path: &str) {
    let mut client = proxy.connect();
    client.send(get(path));
    let is_whole = client.try_message(true).is_some();
    assert_eq!(is_whole, path != "/half", "{path}");
    drop(client);
    proxy.wait_metric(&["sprat_open_requests"], 0.0);
    assert_eq!(proxy.connect().ask(get("/")).text(), "b");
}

#[test]
fn an_endpoint_that_cuts_its_responses_is_ejected() {
    let (_origin, proxy) = doing(3, |_| (), as_asked);
    // What is whole ends the row; a head alone does not, nor begin a new one.
    for path in ["/half", "/half", "/whole", "/half", "/none"] {
        ask_first(&proxy, path);
        assert_eq!(proxy.metric(&["sprat_endpoint_ejected"]), 0.0, "{path}");
    }
    let mut client = proxy.connect();
    client.send(get("/half"));
    assert!(client.try_message(true).is_none());
    proxy.wait_metric(&["sprat_endpoint_ejected"], 1.0);
    let cause = "consecutive_local_origin_failure";
    assert_eq!(proxy.metric(&["sprat_ejections", cause]), 1.0);
    drop(client);
    proxy.assert_no_leak();
}

#[test]
fn an_endpoint_that_stops_in_the_midst_of_its_response_is_ejected() {
    let stops = |peer: &mut Peer, _: &Message| {
        peer.send(PART);
        !peer.is_closed()
    };
    let change = |config: &mut Config| config.routes[0].idle_timeout = ms(100);
    let (_origin, proxy) = doing(1, change, stops);
    let mut client = proxy.connect();
    client.send(get("/"));
    assert!(client.try_message(true).is_none());
    proxy.wait_metric(&["sprat_endpoint_ejected"], 1.0);
    drop(client);
    proxy.assert_no_leak();
}

#[test]
fn a_response_that_its_client_leaves_is_no_failure() {
    let stops = |peer: &mut Peer, _: &Message| {
        peer.send(PART);
        !peer.is_closed()
    };
    let (_origin, proxy) = doing(1, |_| (), stops);
    for _ in 0..2 {
        let mut client = proxy.connect();
        client.send(get("/"));
        assert!(client.head().is_some());
        reset(client);
        proxy.wait_metric(&["sprat_open_requests"], 0.0);
        assert_eq!(proxy.connect().ask(get("/")).text(), "b");
    }
    assert_eq!(proxy.metric(&["sprat_endpoint_ejected"]), 0.0);
    proxy.assert_no_leak();
}

#[test]
fn an_endpoint_that_has_enough_of_a_client_that_takes_nothing_is_well() {
    const BYTES: usize = 64 << 20;
    let (gone, left) = std::sync::mpsc::channel();
    let hasty = move |peer: &mut Peer, _: &Message| {
        let bound = Some(ms(1500));
        peer.stream().set_write_timeout(bound).unwrap();
        peer.send(format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {BYTES}\r\n\r\n"
        ));
        assert!(!peer.send(vec![b'x'; BYTES]), "it has enough");
        gone.send(()).unwrap();
        false
    };
    let (_origin, proxy) = doing(1, |_| (), hasty);
    let mut client = proxy.connect();
    client.send(get("/"));
    assert!(client.head().is_some());
    left.recv_timeout(PATIENCE).unwrap();
    assert!(client.is_closed());
    drop(client);
    proxy.wait_metric(&["sprat_failed_requests", "response_incomplete"], 1.0);
    proxy.assert_no_leak();
    assert_eq!(proxy.metric(&["sprat_endpoint_ejected"]), 0.0);
}

#[test]
fn an_endpoint_that_answers_before_it_has_all_may_end_there() {
    let early = |peer: &mut Peer, _: &Message| {
        peer.send(PART);
        std::thread::sleep(ms(50));
        false
    };
    let (_origin, proxy) = doing(1, |_| (), early);
    let mut client = proxy.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n");
    assert!(client.try_message(true).is_none());
    drop(client);
    proxy.assert_no_leak();
    assert_eq!(proxy.metric(&["sprat_endpoint_ejected"]), 0.0);
}

#[test]
fn an_endpoint_whose_heads_break_the_rules_is_ejected() {
    for head in [
        "200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        "200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    ] {
        let answer = move |peer: &mut Peer, _: &Message| peer.send(format!("HTTP/1.1 {head}"));
        let (_origin, proxy) = doing(1, |_| (), answer);
        let mut client = proxy.connect();
        assert_eq!(client.ask(get("/")).status(), 502);
        proxy.wait_metric(&["sprat_endpoint_ejected"], 1.0);
        drop(client);
        proxy.assert_no_leak();
    }
}

/// Makes the link so slow that a response of 1 MB takes more than a minute.
fn slow_link(config: &mut Config) {
    config.uplink.rate = Rate::Fixed(100_000);
}

/// Checks that the endpoint is ejected, and its place free, while a client that waits for 1 MB is
/// still served.
fn is_ejected_at_once(proxy: &Proxy, request: &str, status: u16) {
    let mut client = proxy.connect();
    client.send(request);
    assert_eq!(client.head().unwrap().status(), status);
    proxy.wait_metric(&["sprat_endpoint_ejected"], 1.0);
    proxy.wait_metric(&["sprat_upstream_outstanding"], 0.0);
    assert_eq!(proxy.metric(&["sprat_open_requests"]), 1.0);
    reset(client);
    proxy.assert_no_leak();
}

#[test]
fn an_endpoint_whose_response_breaks_off_before_it_begins_is_ejected_and_its_place_free() {
    let breaks = |peer: &mut Peer, _: &Message| {
        // All at once: the body does not pause before it breaks.
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n";
        let body = "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nnonsense\r\n";
        peer.send(format!("{head}{body}"));
        !peer.is_closed()
    };
    let change = |config: &mut Config| {
        slow_link(config);
        let route = &mut config.routes[0];
        route.compressor = Some(Compressor {
            algorithms: vec![Algorithm::Gzip],
            min_content_length: 0,
            content_types: vec![TextPattern::Exact("text/html".to_owned())],
            exact_up_to: 64 << 10,
            max_streams: 8,
        });
        route.error_pages = vec![ErrorPage {
            statuses: vec![(502, 502)],
            page: Some(Page {
                source: PageSource::Text("x".repeat(1 << 20)),
                content_type: "text/plain".to_owned(),
            }),
            status: None,
            intercept: false,
        }];
    };
    let (_origin, proxy) = doing(1, change, breaks);
    let request = "GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n";
    is_ejected_at_once(&proxy, request, 502);
}

#[test]
fn an_endpoint_that_cuts_a_response_that_waits_in_the_buffer_is_ejected_and_its_place_free() {
    let cuts = |peer: &mut Peer, _: &Message| {
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2000000\r\n\r\n");
        peer.send(vec![b'x'; 1 << 20]);
        false
    };
    let change = |config: &mut Config| {
        slow_link(config);
        config.routes[0].buffer.response = ResponseBuffer::On(BufferedBody {
            memory_bytes: 4 << 20,
            file: None,
        });
    };
    let (_origin, proxy) = doing(1, change, cuts);
    is_ejected_at_once(&proxy, &get("/"), 200);
}
