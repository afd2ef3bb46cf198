//! Tests of what a hedge tells about the endpoint that it was quicker than.

use super::*;

const HEDGED: [&str; 1] = ["sprat_upstream_hedges"];
const EJECTED: [&str; 1] = ["sprat_endpoint_ejected"];

fn hedged(config: &mut Config) {
    config.routes[0].retry.hedge_delay = Some(ms(50));
    with_cluster(config, |cluster| {
        cluster.resilience.outlier_detection = Some(outliers_for(LONG));
    });
}

#[test]
fn an_endpoint_that_is_silent_until_another_has_answered_is_ejected() {
    let (slow, good, proxy) = before_pair(hedged);
    slow.is(Mood::Stalls);
    let mut client = proxy.connect();
    for _ in 0..8 {
        assert_eq!(client.ask(get("/")).text(), "b");
    }
    // Twice in a row it had nothing to say; nobody waits for it after that.
    assert_eq!(proxy.metric(&HEDGED), 2.0);
    assert_eq!(proxy.metric(&EJECTED), 1.0);
    let cause = "consecutive_local_origin_failure";
    assert_eq!(proxy.metric(&["sprat_ejections", cause]), 1.0);
    assert_eq!((slow.requests(), good.requests()), (2, 8));
    drop(client);
    proxy.assert_no_leak();
}

#[test]
fn one_that_says_anything_is_not() {
    // It has read the request, and says so.
    let busy = Origin::start(|mut peer| {
        while peer.try_message(true).is_some() {
            peer.send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
        }
    });
    let good = Moody::start("b");
    let mut config = config(&[busy.address, good.origin.address]);
    hedged(&mut config);
    let proxy = Proxy::logging(config);
    let mut client = proxy.connect();
    for _ in 0..8 {
        assert_eq!(client.ask(get("/")).text(), "b");
    }
    assert_eq!(proxy.metric(&HEDGED), 4.0);
    assert_eq!(proxy.metric(&EJECTED), 0.0);
    drop(client);
    proxy.assert_no_leak();
}

#[test]
fn nor_is_one_that_is_slower_than_an_error() {
    let (slow, bad, proxy) = before_pair(|config| {
        hedged(config);
        with_cluster(config, |cluster| {
            let detection = &mut cluster.resilience.outlier_detection;
            detection.as_mut().unwrap().consecutive_5xx = None;
        });
    });
    slow.is(Mood::Stalls);
    bad.is(Mood::Status(500));
    let mut client = proxy.connect();
    for _ in 0..8 {
        assert_eq!(client.ask(get("/")).status(), 500);
    }
    assert_eq!(proxy.metric(&HEDGED), 4.0);
    assert_eq!(proxy.metric(&EJECTED), 0.0);
    drop(client);
    proxy.assert_no_leak();
}

#[test]
fn one_that_fails_holds_no_place_while_the_hedge_goes_on() {
    let (first, second, proxy) = before_pair(|config| {
        config.routes[0].retry.hedge_delay = Some(ms(50));
    });
    first.is(Mood::Stalls);
    second.is(Mood::Stalls);
    let mut client = proxy.connect();
    client.send(get("/"));
    wait_for("the hedge", || second.requests() == 1);
    assert_eq!(proxy.metric(&["sprat_upstream_outstanding"]), 2.0);
    first.is(Mood::Cuts);
    proxy.wait_metric(&["sprat_upstream_outstanding"], 1.0);
    second.is(Mood::Good);
    assert_eq!(client.message().text(), "b");
    let errors = ["sprat_upstream_errors", "connection_terminated"];
    assert_eq!(proxy.metric(&errors), 1.0);
    drop(client);
    proxy.assert_no_leak();
}

/// Checks that an attempt without a response counts where the other's response, which the route
/// does not want, is better than none.
#[test]
fn one_that_fails_beside_an_unwanted_response_counts() {
    let (first, second, proxy) = before_pair(|config| {
        let retry = &mut config.routes[0].retry;
        retry.hedge_delay = Some(ms(200));
        retry.retry_on = vec![RetryOn::ServerError];
        retry.num_retries = 1;
    });
    first.is(Mood::Stalls);
    second.is(Mood::Stalls);
    let mut client = proxy.connect();
    client.send(get("/"));
    wait_for("the hedge", || second.requests() == 1);
    first.is(Mood::Status(500));
    proxy.wait_metric(&["sprat_upstream_head_seconds_count"], 1.0);
    second.is(Mood::Cuts);
    assert_eq!(client.message().status(), 500);
    // As a hedge, and as a repetition.
    let errors = ["sprat_upstream_errors", "connection_terminated"];
    assert_eq!(proxy.metric(&errors), 2.0);
    drop(client);
    proxy.assert_no_leak();
}

/// Returns the sockets of an address that accepts no connection: as many wait there as may.
fn silent_address() -> (Vec<std::net::TcpStream>, socket2::Socket) {
    use socket2::{Domain, Socket, Type};
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let any: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
    socket.bind(&any.into()).unwrap();
    socket.listen(0).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    let mut waiting = Vec::new();
    while let Ok(stream) = std::net::TcpStream::connect_timeout(&address, ms(300)) {
        waiting.push(stream);
    }
    (waiting, socket)
}

#[test]
fn one_that_no_connection_can_be_opened_to_is() {
    let (_waiting, silent) = silent_address();
    let silent = silent.local_addr().unwrap().as_socket().unwrap();
    let good = Moody::start("b");
    let mut config = config(&[silent, good.origin.address]);
    hedged(&mut config);
    let proxy = Proxy::logging(config);
    let mut client = proxy.connect();
    for _ in 0..8 {
        assert_eq!(client.ask(get("/")).text(), "b");
    }
    assert_eq!(proxy.metric(&HEDGED), 2.0);
    assert_eq!(proxy.metric(&EJECTED), 1.0);
    drop(client);
    proxy.assert_no_leak();
}
