//! Tests of connections to backends over HTTP/2: their number, their lifetime, and the backend's
//! health.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use sprat_config::resolved::*;
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::{Barrier, Notify};

use super::client::*;
use super::origin::*;
use super::pattern;
use crate::common::*;

#[test]
fn a_connection_carries_many_requests_and_no_more_than_it_may() {
    let all = Arc::new(Barrier::new(50));
    let origin = Http2Origin::start(move |_| {
        let all = Arc::clone(&all);
        async move {
            all.wait().await;
            Response::new(full(pattern(10_000)))
        }
    });
    let proxy = Proxy::logging(over_http2(origin.address, 20));
    run(async {
        let client = connect(proxy.address).await;
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..50 {
            let client = client.clone();
            tasks.spawn(async move { ask(&client, request("/")).await });
        }
        while let Some(answer) = tasks.join_next().await {
            assert_eq!(answer.unwrap().text(), pattern(10_000));
        }
    });
    // As few as carry them all.
    assert_eq!(origin.connections(), 3);
    proxy.assert_no_leak();
    let lines = proxy.log_lines(50);
    assert!(lines.iter().all(|line| line["aborted"] == false));
    proxy.stop();
}

#[test]
fn another_configuration_serves_the_streams_to_come() {
    let [old, new] = ["old", "new"]
        .map(|name| Http2Origin::start(move |_| async move { Response::new(full(name)) }));
    let before = over_http2(old.address, 10);
    let mut after = before.clone();
    with_cluster(&mut after, |cluster| {
        cluster.endpoints = vec![endpoint(new.address)];
    });
    let proxy = Proxy::start(&before);
    let control = proxy.server.as_ref().unwrap().control();
    run(async {
        let client = connect(proxy.address).await;
        assert_eq!(ask(&client, request("/")).await.text(), "old");
        control.reload(&after).unwrap();
        assert_eq!(ask(&client, request("/")).await.text(), "new");
    });
    proxy.assert_no_leak();
    proxy.stop();
}

/// Checks that requests that wait at a reload are served under the old configuration. They use its
/// connections, or one that ends with them, so that requests of the new one have room.
#[test]
fn what_still_waits_leaves_no_connection_behind() {
    for max_streams in [1, 10] {
        let (go, gone) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (came, mut comes) = unbounded_channel();
        let wait = [("/first", Arc::clone(&go)), ("/second", Arc::clone(&gone))];
        let origin = Http2Origin::start(move |request: Request<Incoming>| {
            let path = request.uri().path().to_owned();
            let wait = wait.iter().find(|(name, _)| *name == path);
            let wait = wait.map(|(_, wait)| Arc::clone(wait));
            came.send(path.clone()).unwrap();
            async move {
                if let Some(wait) = wait {
                    wait.notified().await;
                }
                Response::new(full(path))
            }
        });
        let mut before = over_http2(origin.address, max_streams);
        with_cluster(&mut before, |cluster| {
            cluster.max_connections = 2;
            cluster.max_requests = 2;
        });
        let mut after = before.clone();
        // Another bound, so that the cluster is another.
        with_cluster(&mut after, |cluster| cluster.max_requests = 3);
        let proxy = Proxy::start(&before);
        let control = proxy.server.as_ref().unwrap().control();
        run(async {
            let client = connect(proxy.address).await;
            let ask = |path: &'static str| {
                let client = client.clone();
                tokio::spawn(async move { ask(&client, request(path)).await })
            };
            let first = ask("/first");
            assert_eq!(comes.recv().await.unwrap(), "/first");
            let second = ask("/second");
            assert_eq!(comes.recv().await.unwrap(), "/second");
            let third = ask("/third");
            while proxy.metric(&["sprat_waiting_requests"]) != 1.0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            control.reload(&after).unwrap();
            go.notify_one();
            assert_eq!(first.await.unwrap().text(), "/first");
            assert_eq!(third.await.unwrap().text(), "/third");
            let fourth = ask("/fourth").await.unwrap();
            assert_eq!(fourth.text(), "/fourth");
            gone.notify_one();
            assert_eq!(second.await.unwrap().text(), "/second");
        });
        proxy.assert_no_leak();
        proxy.stop();
    }
}

#[test]
fn idle_connections_are_closed() {
    let origin = Http2Origin::start(mirror);
    let mut config = over_http2(origin.address, 10);
    with_cluster(&mut config, |cluster| {
        cluster.idle_timeout = Duration::from_millis(100);
    });
    let proxy = Proxy::start(&config);
    assert_eq!(proxy.connect().ask(get("/")).status(), 200);
    proxy.wait_metric(&["sprat_upstream_connections"], 0.0);
    proxy.wait_metric(&["sprat_upstream_idle_connections"], 0.0);
    assert_eq!(proxy.connect().ask(get("/")).status(), 200);
    assert_eq!(origin.connections(), 2);
    proxy.stop();
}

#[test]
fn health_checks_are_over_http_2_where_requests_are() {
    let status = Arc::new(std::sync::atomic::AtomicU16::new(0));
    let told = Arc::clone(&status);
    let origin = Http2Origin::start(move |request| {
        let asked = format!("{} {:?}", request.uri(), request.version());
        let status = told.load(Ordering::SeqCst);
        async move {
            if status == 0 {
                std::future::pending::<()>().await;
            }
            assert_eq!(asked, "http://well.example/healthz HTTP/2.0");
            let mut response = Response::new(full("well?"));
            *response.status_mut() = status.try_into().unwrap();
            response
        }
    });
    let mut config = over_http2(origin.address, 10);
    with_cluster(&mut config, |cluster| {
        cluster.resilience.health_checks = Some(HealthChecks {
            http: Some(HttpHealthCheck {
                path: "/healthz".to_owned(),
                host: Some("well.example".to_owned()),
                method: "GET".to_owned(),
                expected_statuses: vec![(200, 299)],
            }),
            interval: Duration::from_millis(20),
            jitter_percent: 10,
            timeout: Duration::from_millis(300),
            thresholds: Thresholds {
                healthy: 1,
                unhealthy: 1,
            },
        });
    });
    let proxy = Proxy::start(&config);
    for (answer, unhealthy) in [(0, 1.0), (200, 0.0), (503, 1.0), (204, 0.0)] {
        status.store(answer, Ordering::SeqCst);
        proxy.wait_metric(&["sprat_endpoint_unhealthy"], unhealthy);
    }
    proxy.stop();
}
