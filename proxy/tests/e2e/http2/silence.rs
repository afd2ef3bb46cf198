//! Tests of connections to backends that have fallen silent.

use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::Duration;

use http_body_util::BodyExt as _;
use sprat_config::resolved::*;

use super::client::*;
use super::origin::{OK, is_request, over_http2, raw_origin};
use crate::common::*;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Starts an origin that answers only the first request on its first connection, and every request
/// on later ones.
fn falls_silent() -> Origin {
    raw_origin(|connection, mut raw| {
        let mut requests = 0;
        while let Some(request) = raw.find(is_request) {
            requests += 1;
            if connection > 0 || requests == 1 {
                raw.frame(HEADERS, END_HEADERS | END_STREAM, request.stream, OK);
            }
        }
    })
}

fn status(client: &mut Peer, request: &str) -> u16 {
    client.send(request);
    let head = client.head().unwrap();
    let body = head.field("content-length").unwrap_or("0").parse().unwrap();
    let mut rest = vec![0; body];
    std::io::Read::read_exact(&mut client.reader, &mut rest).unwrap();
    head.status()
}

#[test]
fn one_that_is_dead_costs_one_request() {
    type Bound = fn(&mut Route);
    let bounds: [(Bound, &str); 3] = [
        (|route| route.response_timeout = ms(300), "response_timeout"),
        (|route| route.timeout = Some(ms(300)), "route_timeout"),
        (
            |route| {
                route.retry.retry_on.push(RetryOn::Reset);
                route.retry.num_retries = 0;
                route.retry.per_try_timeout = Some(ms(100));
            },
            "per_try_timeout",
        ),
    ];
    for (bound, reason) in bounds {
        let origin = falls_silent();
        let mut config = over_http2(origin.address, 10);
        bound(&mut config.routes[0]);
        // It makes room for the next one.
        with_cluster(&mut config, |cluster| cluster.max_connections = 1);
        let proxy = Proxy::logging(config);
        let mut client = proxy.connect();
        let statuses = [(); 4].map(|()| status(&mut client, &get("/")));
        assert_eq!(statuses, [200, 504, 200, 200]);
        assert_eq!(origin.connections(), 2);
        drop(client);
        assert_eq!(proxy.log_lines(4)[1]["reason"], reason);
        proxy.assert_no_leak();
        proxy.stop();
    }
}

#[test]
fn a_repetition_does_not_go_the_same_way() {
    let origin = falls_silent();
    let mut config = over_http2(origin.address, 10);
    let retry = &mut config.routes[0].retry;
    retry.retry_on.push(RetryOn::Reset);
    retry.num_retries = 1;
    retry.per_try_timeout = Some(ms(100));
    retry.back_off.base = ms(1);
    retry.back_off.max = ms(1);
    let proxy = Proxy::logging(config);
    let mut client = proxy.connect();
    for _ in 0..3 {
        assert_eq!(status(&mut client, &get("/")), 200);
    }
    assert_eq!(origin.connections(), 2);
    assert_eq!(proxy.metric(&["sprat_upstream_retries"]), 1.0);
    drop(client);
    proxy.assert_no_leak();
    proxy.stop();
}

/// Checks that a silent connection is left even if its client gave up earlier than the route's
/// time.
#[test]
fn one_whose_client_did_not_wait_is_left_too() {
    let origin = falls_silent();
    let proxy = Proxy::logging(over_http2(origin.address, 10));
    assert_eq!(status(&mut proxy.connect(), &get("/")), 200);
    let mut impatient = proxy.connect();
    impatient.send(get("/"));
    proxy.wait_metric(&["sprat_upstream_outstanding"], 1.0);
    std::thread::sleep(ms(400));
    reset(impatient);
    proxy.wait_metric(&["sprat_upstream_outstanding"], 0.0);
    assert_eq!(status(&mut proxy.connect(), &get("/")), 200);
    assert_eq!(origin.connections(), 2);
    proxy.assert_no_leak();
    proxy.stop();
}

#[test]
fn one_that_is_heard_again_is_used_again() {
    let (go, gone) = channel::<()>();
    let gone = Mutex::new(gone);
    let origin = raw_origin(move |connection, mut raw| {
        if connection > 0 {
            while let Some(request) = raw.find(is_request) {
                raw.frame(HEADERS, END_HEADERS | END_STREAM, request.stream, OK);
            }
            return;
        }
        let first = raw.find(is_request).unwrap();
        raw.frame(HEADERS, END_HEADERS, first.stream, OK);
        // Nothing for the second.
        raw.find(is_request).unwrap();
        gone.lock().unwrap().recv().unwrap();
        raw.frame(DATA, 0, first.stream, b"hel");
        let third = raw.find(is_request).unwrap();
        raw.frame(HEADERS, END_HEADERS | END_STREAM, third.stream, OK);
        raw.frame(DATA, END_STREAM, first.stream, b"lo");
        while raw.read().is_some() {}
    });
    let mut config = over_http2(origin.address, 10);
    config.routes[0].response_timeout = ms(300);
    let proxy = Proxy::logging(config);
    run(async {
        let client = connect(proxy.address).await;
        let first = client.clone().send_request(request("/1")).await.unwrap();
        assert_eq!(ask(&client, request("/2")).await.status, 504);
        assert_eq!(ask(&client, request("/3")).await.status, 200);
        assert_eq!(origin.connections(), 2);
        go.send(()).unwrap();
        let mut body = first.into_body();
        let frame = body.frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), "hel");
        // By the first connection, or the rest of that would not come.
        assert_eq!(ask(&client, request("/4")).await.status, 200);
        assert_eq!(body.collect().await.unwrap().to_bytes(), "lo");
    });
    assert_eq!(origin.connections(), 2);
    proxy.assert_no_leak();
    proxy.stop();
}

/// Checks that a connection stays on which other requests are answered meanwhile: the endpoint is
/// slow, not silent.
#[test]
fn one_that_is_heard_meanwhile_stays() {
    let origin = raw_origin(|_, mut raw| {
        let slow = raw.find(is_request).unwrap();
        while let Some(request) = raw.find(|frame| is_request(frame) || frame.kind == RST_STREAM) {
            match request.stream == slow.stream {
                true => {}
                false => {
                    raw.frame(HEADERS, END_HEADERS | END_STREAM, request.stream, OK);
                }
            }
        }
    });
    let mut config = over_http2(origin.address, 10);
    config.routes[0].response_timeout = ms(300);
    let proxy = Proxy::logging(config);
    run(async {
        let client = connect(proxy.address).await;
        let slow = client.clone().send_request(request("/slow"));
        let slow = tokio::spawn(slow);
        while proxy.metric(&["sprat_upstream_outstanding"]) != 1.0 {
            tokio::time::sleep(ms(10)).await;
        }
        assert_eq!(ask(&client, request("/2")).await.status, 200);
        assert_eq!(slow.await.unwrap().unwrap().status(), 504);
        assert_eq!(ask(&client, request("/3")).await.status, 200);
    });
    assert_eq!(origin.connections(), 1);
    proxy.assert_no_leak();
    proxy.stop();
}
