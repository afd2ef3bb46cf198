//! What a client keeps waiting is not its endpoint's failure.

use super::*;

/// A request whose body comes in parts of 100 ms.
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
