//! The proxy-wasm filter in a real Envoy.

// Clippy's exception for tests does not reach the functions that they call.
#![allow(clippy::unwrap_used)]
#![forbid(unsafe_code)]

use std::net::SocketAddr;

use serde_json::Value;
use sprat_filter_e2e::{Bootstrap, Client, Envoy, Protocol, origin, wasm_http_filter};

/// Returns the filter with a configuration, in the form that Envoy reads.
fn wasm(configuration: &str) -> Value {
    wasm_http_filter(configuration).unwrap()
}

/// Returns a bootstrap with the filter before the farm.
fn bootstrap(configuration: &str) -> Bootstrap {
    Bootstrap::new(&[origin().unwrap()]).http_filter(wasm(configuration))
}

/// Returns such a bootstrap with a route that follows the filter to these pools.
fn pools(configuration: &str, pools: &[(&str, SocketAddr)]) -> Bootstrap {
    bootstrap(configuration).pools(pools)
}

async fn client(envoy: &Envoy, protocol: Protocol) -> Client {
    let address = envoy.listener("main").await.unwrap();
    Client::connect(address, protocol).await.unwrap()
}

#[tokio::test]
async fn a_bad_configuration_fails_the_load_and_says_where() {
    let bootstrap = bootstrap("{\"uplink\": {\"rate\": \"fast\"},\n \"claster\": {}}");
    let error = Envoy::start(&bootstrap).await.unwrap_err().to_string();
    for part in [
        "configuration:1:22",
        "found `fast`",
        "configuration:2:2",
        "did you mean",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[tokio::test]
async fn with_nothing_configured_everything_passes_as_it_came() {
    let envoy = Envoy::start(&bootstrap("{}").workers(2).buffer_limits(65_536))
        .await
        .unwrap();
    for protocol in Protocol::ALL {
        let client = client(&envoy, protocol).await;
        for path in ["/size/0/a", "/size/3000000/a", "/size/70000/a?chunked=1"] {
            client.get(path).await.unwrap().check(path).unwrap();
        }
    }
    let stats = envoy.stats().await.unwrap();
    assert_eq!(
        stats["wasmcustom.sprat.requests.default"], 0,
        "no call at all"
    );
    envoy.stop().await.unwrap();
}

#[tokio::test]
async fn requests_have_a_class_and_their_responses_tell_it() {
    let configuration = r#"{
        "classes": {"gold": {"level": 0}},
        "class_rules": [
            {"match": {"headers": [{"name": "x-tier", "value": "gold"}]}, "class": "gold"},
            {"match": {"clients": ["127.0.0.1"], "prefix": "/size/2"}, "class": "gold"}
        ],
        "catalogue": {"manifest": [{"path": "/size/777/a", "bytes": 777}]},
        "response_header": "x-sprat"
    }"#;
    let envoy = Envoy::start(&bootstrap(configuration)).await.unwrap();
    for protocol in Protocol::ALL {
        let client = client(&envoy, protocol).await;
        let told = async |path: &str, fields: &[(&str, &str)]| {
            let response = client.get_with(path, fields).await.unwrap();
            response.check(path).unwrap();
            response.field("x-sprat").unwrap().to_owned()
        };
        let listed = told("/size/777/a", &[("x-tier", "gold")]).await;
        // What was seen goes before what is written down.
        let source = match protocol {
            Protocol::Http1 => "manifest",
            Protocol::Http2 => "learnt",
        };
        assert_eq!(
            listed,
            format!("class=gold, size=777, source={source}, wait_ms=0")
        );
        assert!(told("/size/2/a", &[]).await.starts_with("class=gold, "));
        let prefetch = told("/size/3/a", &[("sec-purpose", "prefetch")]).await;
        assert!(prefetch.starts_with("class=background, "), "{prefetch}");
        let again = told("/size/3/a", &[]).await;
        assert_eq!(again, "class=default, size=3, source=learnt, wait_ms=0");
    }
    let stats = envoy.stats().await.unwrap();
    assert_eq!(stats["wasmcustom.sprat.requests.gold"], 4);
    assert_eq!(stats["wasmcustom.sprat.requests.background"], 2);
    envoy.stop().await.unwrap();
}

const BY_SIZE: &str = r#"{"clusters": {"farm": {
    "pools": [{"name": "small", "size_range": {"to": "10KB"}},
              {"name": "large", "size_range": {"from": "10KB"}}],
    "dispatch": "sita", "head_probe": {"budget": "5s"}}}}"#;

#[tokio::test]
async fn a_pool_is_chosen_by_what_a_probe_tells_and_then_by_what_is_learnt() {
    let origins = [("small", origin().unwrap()), ("large", origin().unwrap())];
    let envoy = Envoy::start(&pools(BY_SIZE, &origins)).await.unwrap();
    let client = client(&envoy, Protocol::Http1).await;
    for path in [
        "/size/100/a",
        "/size/50000/a",
        "/size/50000/a",
        "/size/100/a",
    ] {
        client.get(path).await.unwrap().check(path).unwrap();
    }
    let stats = envoy.stats().await.unwrap();
    // Two probes by HEAD, to the first pool.
    assert_eq!(stats["cluster.small.upstream_rq_total"], 2 + 2);
    assert_eq!(stats["cluster.large.upstream_rq_total"], 2);
    assert_eq!(stats["wasmcustom.sprat.head_probe.told"], 2);
    assert_eq!(stats["wasmcustom.sprat.size.learnt"], 2);
    envoy.stop().await.unwrap();
}

#[tokio::test]
async fn workers_know_what_another_has_learnt() {
    let origins = [("small", origin().unwrap()), ("large", origin().unwrap())];
    let configuration = BY_SIZE.replace(", \"head_probe\": {\"budget\": \"5s\"}", "");
    let envoy = Envoy::start(&pools(&configuration, &origins).workers(2))
        .await
        .unwrap();
    // Connections are dealt out by the kernel: some to each worker.
    for number in 0..16 {
        let client = client(&envoy, Protocol::Http1).await;
        let path = "/size/50000/a";
        client.get(path).await.unwrap().check(path).unwrap();
        if number > 0 {
            let stats = envoy.stats().await.unwrap();
            assert_eq!(stats["cluster.small.upstream_rq_total"], 1);
        }
    }
    envoy.stop().await.unwrap();
}

const ONE: &str = r#"{
    "classes": {"gold": {"level": 0}},
    "class_rules": [{"match": {"headers": [{"name": "x-tier"}]}, "class": "gold"}],
    "clusters": {"farm": {"pools": ["farm"], "max_requests": 1,
        "wait_queue": {"max_requests": 2, "timeout": "1s"}}}}"#;

/// Begins a response whose body stops after ten bytes: its stream stays open.
async fn stall(client: &Client) -> http::Response<hyper::body::Incoming> {
    let request = http::Request::get("/size/1000/a?fault=stall_body&at=10");
    client
        .send(request.body(Default::default()).unwrap())
        .await
        .unwrap()
}

#[tokio::test]
async fn over_the_limit_requests_wait_and_are_told_when_there_are_too_many() {
    for protocol in Protocol::ALL {
        let envoy = Envoy::start(&pools(ONE, &[])).await.unwrap();
        let first = client(&envoy, protocol).await;
        let stalled = stall(&first).await;
        let waiting = "wasmcustom.sprat.waiting";
        let (low, high) = (
            client(&envoy, protocol).await,
            client(&envoy, protocol).await,
        );
        let low = tokio::spawn(async move { low.get("/size/10/low").await.unwrap() });
        envoy.wait_for_stat(waiting, |now| now == 1).await.unwrap();
        let high = tokio::spawn(async move {
            let tier = [("x-tier", "gold")];
            high.get_with("/size/10/high", &tier).await.unwrap()
        });
        envoy.wait_for_stat(waiting, |now| now == 2).await.unwrap();

        let refused = client(&envoy, protocol)
            .await
            .get("/size/10/b")
            .await
            .unwrap();
        assert_eq!(refused.status, 503);
        assert_eq!(refused.field("retry-after"), Some("1"));
        assert_eq!(
            refused.field("content-type"),
            Some("application/problem+json")
        );
        let problem: Value = serde_json::from_slice(&refused.body).unwrap();
        assert_eq!(problem["reason"], "queue_full");

        // Nothing is served: their time runs out.
        for waits in [low, high] {
            let answer = waits.await.unwrap();
            assert_eq!(answer.status, 503);
            let problem: Value = serde_json::from_slice(&answer.body).unwrap();
            assert_eq!(problem["reason"], "queue_timeout");
        }
        // The client goes, and its place is free.
        drop((stalled, first));
        let next = client(&envoy, protocol).await;
        let path = "/size/5000/c";
        next.get(path).await.unwrap().check(path).unwrap();
        let stats = envoy.stats().await.unwrap();
        assert_eq!(stats[waiting], 0);
        assert_eq!(stats["wasmcustom.sprat.refused.queue_timeout"], 2);
        envoy.stop().await.unwrap();
    }
}

#[tokio::test]
async fn a_held_request_goes_on_when_a_place_is_free() {
    let envoy = Envoy::start(&pools(&ONE.replace("\"1s\"", "\"30s\""), &[]))
        .await
        .unwrap();
    let first = client(&envoy, Protocol::Http1).await;
    let stalled = stall(&first).await;
    let held = client(&envoy, Protocol::Http2).await;
    let held = tokio::spawn(async move { held.get("/size/90000/a").await.unwrap() });
    let gone = client(&envoy, Protocol::Http1).await;
    let gone = tokio::spawn(async move { gone.get("/size/10/gone").await });
    envoy
        .wait_for_stat("wasmcustom.sprat.waiting", |now| now == 2)
        .await
        .unwrap();
    gone.abort();
    envoy
        .wait_for_stat("wasmcustom.sprat.waiting", |now| now == 1)
        .await
        .unwrap();
    drop((stalled, first));
    held.await.unwrap().check("/size/90000/a").unwrap();
    let stats = envoy.stats().await.unwrap();
    assert_eq!(
        stats["cluster.farm.upstream_rq_total"], 2,
        "not for who has gone"
    );
    envoy.stop().await.unwrap();
}

#[tokio::test]
async fn heads_are_held_and_no_body_is_changed() {
    let configuration = r#"{"uplink": {"rate": "200mbit"}}"#;
    let bootstrap = bootstrap(configuration).workers(2).buffer_limits(65_536);
    let envoy = Envoy::start(&bootstrap).await.unwrap();
    let mut streams = Vec::new();
    for number in 0..40_u32 {
        let protocol = Protocol::ALL[number as usize % 2];
        let client = client(&envoy, protocol).await;
        streams.push(tokio::spawn(async move {
            for size in [0, 100, 20_000, 300_000, 1_000_000] {
                let chunked = if number % 3 == 0 { "?chunked=1" } else { "" };
                let path = format!("/size/{size}/{number}{chunked}");
                client.get(&path).await.unwrap().check(&path).unwrap();
            }
        }));
    }
    for stream in streams {
        stream.await.unwrap();
    }
    let held = "wasmcustom.sprat.held_responses";
    envoy.wait_for_stat(held, |now| now == 0).await.unwrap();
    assert!(envoy.stats().await.unwrap()["wasmcustom.sprat.held"] > 0);
    envoy.stop().await.unwrap();
}

#[tokio::test]
async fn another_configuration_takes_over_while_streams_wait() {
    let mut bootstrap = pools(ONE, &[]);
    bootstrap.listener_by_file = true;
    let envoy = Envoy::start(&bootstrap).await.unwrap();
    let first = client(&envoy, Protocol::Http1).await;
    let stalled = stall(&first).await;
    let held = client(&envoy, Protocol::Http1).await;
    let held = tokio::spawn(async move { held.get("/size/10/a").await.unwrap() });
    envoy
        .wait_for_stat("wasmcustom.sprat.waiting", |now| now == 1)
        .await
        .unwrap();
    bootstrap.http_filters = vec![wasm(r#"{"response_header": "x-sprat"}"#)];
    bootstrap.routes = Bootstrap::new(&[]).routes;
    envoy.replace_listener(&bootstrap).await.unwrap();
    let next = client(&envoy, Protocol::Http1).await;
    let response = next.get("/size/10/b").await.unwrap();
    response.check("/size/10/b").unwrap();
    assert!(response.field("x-sprat").is_some());
    // Under the old one, the time of the request that waited runs out.
    assert_eq!(held.await.unwrap().status, 503);
    drop((stalled, first));
    bootstrap.http_filters = vec![wasm(r#"{"nonsense": 1}"#)];
    let error = envoy.replace_listener(&bootstrap).await.unwrap_err();
    assert!(format!("{error:#}").contains("nonsense") || envoy.log().contains("nonsense"));
    next.get("/size/10/c").await.unwrap();
    envoy.stop().await.unwrap();
}
