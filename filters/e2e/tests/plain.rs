//! The harness with no filter at all: what fails here is not a filter's fault.

#![forbid(unsafe_code)]

use std::net::TcpListener;

use serde_json::json;
use sprat_filter_e2e::{Bootstrap, Client, Envoy, Protocol, origin, soak};

#[tokio::test]
async fn plain_envoy_serves_both_protocols() {
    let bootstrap = Bootstrap::new(&[origin().unwrap()]).workers(2);
    let envoy = Envoy::start(&bootstrap).await.unwrap();
    let address = envoy.listener("main").await.unwrap();
    for protocol in Protocol::ALL {
        let client = Client::connect(address, protocol).await.unwrap();
        for path in [
            "/size/0/a",
            "/size/1000/a",
            "/size/3000000/a",
            "/size/70000/a?chunked=1",
        ] {
            let response = client.get(path).await.unwrap();
            response.check(path).unwrap();
        }
        let missing = client.get("/nothing").await.unwrap();
        assert_eq!(missing.status, 404);
    }
    let asked = envoy.stats().await.unwrap()["cluster.farm.upstream_rq_total"];
    assert_eq!(asked, 10);
    assert!(envoy.memory_bytes().unwrap() > 1_000_000);
    envoy.stop().await.unwrap();
}

#[tokio::test]
async fn streams_of_one_connection_do_not_wait_for_each_other() {
    let envoy = Envoy::start(&Bootstrap::new(&[origin().unwrap()]).buffer_limits(65_536))
        .await
        .unwrap();
    let address = envoy.listener("main").await.unwrap();
    let client = Client::connect(address, Protocol::Http2).await.unwrap();
    let stalled = "/size/1000/a?fault=stall_body&at=10";
    let request = http::Request::get(stalled)
        .body(Default::default())
        .unwrap();
    let head = client.send(request).await.unwrap();
    assert_eq!(head.status(), 200);
    client
        .get("/size/200000/b")
        .await
        .unwrap()
        .check("/size/200000/b")
        .unwrap();
    drop(head);
    envoy.stop().await.unwrap();
}

#[tokio::test]
async fn a_listener_is_replaced_while_envoy_runs() {
    let mut bootstrap = Bootstrap::new(&[origin().unwrap()]);
    bootstrap.listener_by_file = true;
    let envoy = Envoy::start(&bootstrap).await.unwrap();
    let address = envoy.listener("main").await.unwrap();
    let client = Client::connect(address, Protocol::Http1).await.unwrap();
    assert_eq!(client.get("/size/1/a").await.unwrap().status, 200);

    bootstrap.routes = vec![json!({
        "match": {"prefix": "/"},
        "direct_response": {"status": 418},
    })];
    envoy.replace_listener(&bootstrap).await.unwrap();
    let address = envoy.listener("main").await.unwrap();
    let client = Client::connect(address, Protocol::Http1).await.unwrap();
    assert_eq!(client.get("/size/1/a").await.unwrap().status, 418);

    bootstrap.manager["nonsense"] = 1.into();
    let error = envoy
        .replace_listener(&bootstrap)
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("nonsense"), "{error}");
    envoy.stop().await.unwrap();
}

#[tokio::test]
async fn what_envoy_refuses_is_told() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut bootstrap = Bootstrap::new(&[taken.local_addr().unwrap()]);
    bootstrap.clusters[0]["no_such_key"] = 1.into();
    let error = Envoy::start(&bootstrap).await.unwrap_err().to_string();
    assert!(error.contains("no_such_key"), "{error}");
}

#[tokio::test]
async fn a_body_that_was_changed_does_not_pass() {
    let address = origin().unwrap();
    let client = Client::connect(address, Protocol::Http1).await.unwrap();
    let mut response = client.get("/size/5000/a").await.unwrap();
    response.check("/size/5000/a").unwrap();
    assert!(response.check("/size/5000/b").is_err());
    response.body = response.body.slice(1..);
    assert!(response.check("/size/5000/a").is_err());
    assert!(client.get("/size/5000/a?fault=short").await.is_err());
}

#[tokio::test]
async fn plain_envoy_bears_the_soak() {
    for bootstrap in [
        Bootstrap::new(&[origin().unwrap()]).for_soak(),
        Bootstrap::new(&[origin().unwrap()])
            .for_soak()
            .buffer_limits(65_536)
            .workers(2),
        Bootstrap::new(&[origin().unwrap()])
            .for_soak()
            .http2_upstreams(),
    ] {
        let envoy = Envoy::start(&bootstrap).await.unwrap();
        let address = envoy.listener("main").await.unwrap();
        let tally = soak(address, 2000, 1_000_000).await.unwrap();
        assert!(tally.meant > 20 && tally.left > 40, "{tally:?}");
        envoy
            .wait_for_stat("http.main.downstream_rq_active", |active| active == 0)
            .await
            .unwrap();
        envoy.stop().await.unwrap();
    }
}
