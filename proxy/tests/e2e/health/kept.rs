//! Tests of kept connections that end: closed between two requests, or by the endpoint during one.

use super::*;

/// Starts an endpoint that answers the first request on each connection, and does `then` with the
/// second. Also returns the number of its requests.
fn second(then: impl Fn(&mut Peer) + Send + Sync + 'static) -> (Origin, Arc<AtomicUsize>) {
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&requests);
    let origin = Origin::start(move |mut peer| {
        let mut is_first = true;
        while peer.try_message(true).is_some() {
            counted.fetch_add(1, SeqCst);
            if !std::mem::take(&mut is_first) {
                return then(&mut peer);
            }
            peer.send(ok("a"));
        }
    });
    (origin, requests)
}

fn outliers(config: &mut Config) {
    with_cluster(config, |cluster| {
        cluster.resilience.outlier_detection = Some(outliers_for(LONG));
    });
}

#[test]
fn one_that_was_closed_meanwhile_is_replaced() {
    let (origin, requests) = second(|_| ());
    let mut config = config(&[origin.address]);
    outliers(&mut config);
    let proxy = Proxy::logging(config);
    let mut client = proxy.connect();
    for _ in 0..4 {
        assert_eq!(client.ask(get("/")).text(), "a");
    }
    assert_eq!(requests.load(SeqCst), 7);
    assert_eq!(proxy.metric(&["sprat_upstream_errors"]), 0.0);
    // What is not safe to repeat is not repeated.
    assert_eq!(client.ask(post()).status(), 502);
    drop(client);
    proxy.assert_no_leak();
}

#[test]
fn one_whose_endpoint_has_looked_at_the_request_is_not() {
    let doings: [fn(&mut Peer); 3] = [
        |_| std::thread::sleep(ms(500)),
        |peer| assert!(peer.send("HTTP/1.1 200 OK\r\ncont")),
        |peer| assert!(peer.send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")),
    ];
    for then in doings {
        let (origin, requests) = second(then);
        let mut config = config(&[origin.address]);
        outliers(&mut config);
        let proxy = Proxy::logging(config);
        let mut client = proxy.connect();
        assert_eq!(client.ask(get("/")).status(), 200);
        assert_eq!(client.ask(get("/")).status(), 502);
        assert_eq!(requests.load(SeqCst), 2);
        let errors = ["sprat_upstream_errors", "connection_terminated"];
        proxy.wait_metric(&errors, 1.0);
        assert_eq!(proxy.metric(&["sprat_upstream_retries"]), 0.0);
        drop(client);
        proxy.assert_no_leak();
    }
}

#[test]
fn one_is_replaced_for_a_request_and_no_more() {
    let bad = Moody::start("a");
    let mut config = config(&[bad.origin.address]);
    let retry = &mut config.routes[0].retry;
    retry.retry_on.push(RetryOn::Reset);
    retry.num_retries = 3;
    retry.back_off.base = ms(1);
    retry.back_off.max = ms(1);
    let proxy = Proxy::logging(config);
    // Four kept connections.
    bad.is(Mood::Stalls);
    let mut clients = [(); 4].map(|()| proxy.connect());
    for client in &mut clients {
        client.send(get("/"));
    }
    wait_for("the requests to arrive", || bad.requests() == 4);
    bad.is(Mood::Good);
    for client in &mut clients {
        assert_eq!(client.message().status(), 200);
    }
    proxy.wait_metric(&["sprat_upstream_idle_connections"], 4.0);
    bad.is(Mood::Cuts);
    assert_eq!(clients[0].ask(get("/")).status(), 502);
    // One in the place of a kept one, and the repetitions that the route has.
    assert_eq!(bad.requests(), 4 + 2 + 3);
    drop(clients);
    proxy.assert_no_leak();
}
