//! Requests: where they go, and who waits.

use http_body_util::BodyExt;
use serde_json::{Value, json};
use sprat_filter_e2e::{Bootstrap, Client, Envoy, Protocol, origin, soak};

use crate::{STATS, bootstrap, client, counter, ends_well, filter, pools, stall, with_module};

/// Returns a configuration for one request at a time, for all workers together.
fn one(timeout: &str) -> Value {
    json!({
        "classes": {"gold": {"level": 0}},
        "class_rules": [{"match": {"headers": [{"name": "x-tier"}]}, "class": "gold"}],
        "clusters": {"farm": {"pools": ["farm"], "max_requests": 1,
            "wait_queue": {"max_requests": 20, "timeout": timeout}}},
        "response_header": "x-sprat",
    })
}

async fn waiting(envoy: &Envoy, requests: u64) {
    let name = format!("{STATS}sprat.waiting");
    envoy.wait_for_stat(&name, |n| n == requests).await.unwrap();
}

#[tokio::test]
async fn places_are_counted_for_all_workers_and_given_by_class() {
    let bootstrap = pools(&one("30s"), &[]).workers(2);
    let envoy = Envoy::start(&bootstrap).await.unwrap();
    let first = client(&envoy, Protocol::Http1).await;
    let stalled = stall(&first).await;
    let mut held = tokio::task::JoinSet::new();
    // Dealt out by the kernel: some to each worker.
    for number in 0..16 {
        let client = client(&envoy, Protocol::ALL[number % 2]).await;
        held.spawn(async move {
            let path = format!("/size/9000/{number}");
            client.get(&path).await.unwrap().check(&path).unwrap();
        });
    }
    waiting(&envoy, 16).await;
    let gold = client(&envoy, Protocol::Http1).await;
    let gold = tokio::spawn(async move {
        // It keeps its place for long enough to see that it was the first.
        let path = "/size/1000/gold?fault=stall_body&at=10";
        let request = http::Request::get(path).header("x-tier", "gold");
        let request = request.body(Default::default()).unwrap();
        (gold.send(request).await.unwrap(), gold)
    });
    waiting(&envoy, 17).await;
    let before = envoy.stats().await.unwrap()["cluster.farm.upstream_rq_total"];
    assert_eq!(before, 1);
    drop((stalled, first));
    let (response, gold) = gold.await.unwrap();
    let told = response.headers()["x-sprat"].to_str().unwrap().to_owned();
    assert!(told.starts_with("class=gold, "), "{told}");
    let stats = envoy.stats().await.unwrap();
    assert_eq!(stats["cluster.farm.upstream_rq_total"], 2, "one at a time");
    assert_eq!(stats["dynamicmodulescustom.sprat.waiting"], 16);
    drop((response, gold));
    held.join_all().await;
    assert_eq!(counter(&envoy, "sprat.waiting").await, 0);
    assert_eq!(counter(&envoy, "sprat.waited.default").await, 16);
    ends_well(envoy).await;
}

#[tokio::test]
async fn who_waits_too_long_or_comes_when_all_wait_is_told_why() {
    for protocol in Protocol::ALL {
        let mut config = one("1s");
        config["clusters"]["farm"]["wait_queue"]["max_requests"] = 1.into();
        let envoy = Envoy::start(&pools(&config, &[]).workers(2)).await.unwrap();
        let first = client(&envoy, protocol).await;
        let stalled = stall(&first).await;
        let late = client(&envoy, protocol).await;
        let late = tokio::spawn(async move { late.get("/size/10/a").await.unwrap() });
        waiting(&envoy, 1).await;
        let next = client(&envoy, protocol).await;
        let refused = next.get("/size/10/b").await.unwrap();
        assert_eq!(refused.status, 503);
        assert_eq!(refused.field("retry-after"), Some("1"));
        let page = [("accept", "text/html")];
        let refused_page = next.get_with("/size/10/c", &page).await.unwrap();
        let kind = refused_page.field("content-type");
        assert_eq!(kind, Some("text/html; charset=utf-8"));
        let call = [("content-type", "application/grpc"), ("te", "trailers")];
        let call = next.get_with("/size/10/d", &call).await.unwrap();
        assert_eq!(call.field("grpc-status"), Some("14"), "{call:?}");
        let late = late.await.unwrap();
        for (answer, reason) in [(refused, "queue_full"), (late, "queue_timeout")] {
            assert_eq!(answer.status, 503);
            let kind = answer.field("content-type");
            assert_eq!(kind, Some("application/problem+json"));
            let problem: Value = serde_json::from_slice(&answer.body).unwrap();
            assert_eq!(problem["reason"], reason);
        }
        // The client goes, and its place is free.
        drop((stalled, first));
        let path = "/size/5000/c";
        next.get(path).await.unwrap().check(path).unwrap();
        assert_eq!(counter(&envoy, "sprat.refused.queue_timeout").await, 1);
        assert_eq!(counter(&envoy, "sprat.refused.queue_full").await, 3);
        ends_well(envoy).await;
    }
}

#[tokio::test]
async fn a_client_that_goes_while_it_waits_gives_up_its_place() {
    let envoy = Envoy::start(&pools(&one("30s"), &[]).workers(2))
        .await
        .unwrap();
    let first = client(&envoy, Protocol::Http1).await;
    let stalled = stall(&first).await;
    let held = client(&envoy, Protocol::Http2).await;
    let held = tokio::spawn(async move { held.get("/size/90000/a").await.unwrap() });
    let mut going = Vec::new();
    for protocol in Protocol::ALL {
        let gone = client(&envoy, protocol).await;
        going.push(tokio::spawn(async move { gone.get("/size/10/gone").await }));
    }
    waiting(&envoy, 3).await;
    going.iter().for_each(|client| client.abort());
    waiting(&envoy, 1).await;
    drop((stalled, first));
    held.await.unwrap().check("/size/90000/a").unwrap();
    let stats = envoy.stats().await.unwrap();
    let asked = stats["cluster.farm.upstream_rq_total"];
    assert_eq!(asked, 2, "not for those who have gone");
    ends_well(envoy).await;
}

#[tokio::test]
async fn envoys_own_reply_to_a_request_that_is_let_go_is_not_held_for_ever() {
    // The request is held for its probe's budget. Then its pool has no endpoint, and Envoy answers
    // inside of the call that lets it go, while the link is busy: what is held then is never let
    // go.
    let config = json!({
        "uplink": {"rate": "1mbit"},
        "clusters": {
            "a": {"match": {"prefix": "/size/400"}, "pools": ["nobody"], "max_requests": 4,
                  "wait_queue": {"order": "size"},
                  "head_probe": {"cluster": "silent", "budget": "100ms"}},
            "b": {"pools": ["farm"]},
        },
    });
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().unwrap();
    let mut bootstrap = pools(&config, &[("silent", silent)]).buffer_limits(16_384);
    bootstrap.clusters.push(Bootstrap::cluster("nobody", &[]));
    let envoy = Envoy::start(&bootstrap).await.unwrap();
    let large = client(&envoy, Protocol::Http1).await;
    // At this rate it takes seven seconds.
    let request = http::Request::get("/size/900000/large");
    let large_head = large.send(request.body(Default::default()).unwrap()).await;
    for protocol in Protocol::ALL {
        let client = client(&envoy, protocol).await;
        let answer = client.get("/size/400/a").await.unwrap();
        assert_eq!(answer.status, 503, "{answer:?}");
        assert_eq!(answer.body, "no healthy upstream");
    }
    assert!(counter(&envoy, "sprat_waits_total").await > 0, "it is busy");
    drop((large_head, large));
    ends_well(envoy).await;
}

#[tokio::test]
async fn a_route_never_follows_what_a_client_has_sent() {
    let config = json!({"clusters": {
        "a": {"match": {"prefix": "/size/1"}, "pools": ["open"], "header": "x-pool"},
        "b": {"match": {"prefix": "/size/2"}, "pools": ["open"]},
    }});
    let origins = [("open", origin().unwrap()), ("closed", origin().unwrap())];
    let mut bootstrap = pools(&config, &origins);
    let mut other = bootstrap.routes[0].clone();
    other["match"] = json!({"prefix": "/size/1"});
    other["route"]["cluster_header"] = "x-pool".into();
    bootstrap.routes.insert(0, other);
    let envoy = Envoy::start(&bootstrap).await.unwrap();
    for protocol in Protocol::ALL {
        let client = client(&envoy, protocol).await;
        let forged = [("x-sprat-cluster", "closed"), ("x-pool", "closed")];
        for path in ["/size/1/a", "/size/2/a"] {
            let response = client.get_with(path, &forged).await.unwrap();
            response.check(path).unwrap();
        }
        let nowhere = client.get_with("/size/3/a", &forged).await.unwrap();
        assert_eq!(nowhere.status, 503, "no group matches, and so no route");
    }
    let stats = envoy.stats().await.unwrap();
    assert_eq!(stats["cluster.open.upstream_rq_total"], 4);
    assert_eq!(stats["cluster.closed.upstream_rq_total"], 0);
    ends_well(envoy).await;
}

#[tokio::test]
async fn a_subset_of_one_cluster_is_chosen_by_metadata() {
    let config = json!({
        "catalogue": {"manifest": [
            {"path": "/size/100/a", "bytes": 100}, {"path": "/size/50000/a", "bytes": 50000},
        ]},
        "clusters": {"farm": {
            "pools": [{"name": "small", "size_range": {"to": "10KB"}},
                      {"name": "large", "size_range": {"from": "10KB"}}],
            "dispatch": "sita", "metadata_key": "pool",
        }},
    });
    let servers = [("small", origin().unwrap()), ("large", origin().unwrap())];
    let mut bootstrap = bootstrap(&config);
    let endpoints = servers.map(|(pool, address)| {
        json!({
            "endpoint": {"address": {"socket_address": {
                "address": "127.0.0.1", "port_value": address.port(),
            }}},
            "metadata": {"filter_metadata": {"envoy.lb": {"pool": pool}}},
        })
    });
    let farm = &mut bootstrap.clusters[0];
    farm["load_assignment"]["endpoints"] = json!([{"lb_endpoints": endpoints}]);
    farm["lb_subset_config"] = json!({
        "fallback_policy": "NO_FALLBACK", "subset_selectors": [{"keys": ["pool"]}],
    });
    let envoy = Envoy::start(&bootstrap).await.unwrap();
    let client = client(&envoy, Protocol::Http1).await;
    for _ in 0..5 {
        for path in ["/size/100/a", "/size/50000/a", "/size/50000/a"] {
            client.get(path).await.unwrap().check(path).unwrap();
        }
    }
    let told = envoy.admin("/clusters").await.unwrap();
    for ((_, address), requests) in servers.iter().zip([5, 10]) {
        let line = format!("farm::{address}::rq_total::{requests}");
        assert!(told.contains(&line), "no {line} in {told}");
    }
    ends_well(envoy).await;
}

/// Answers each request with how many bytes its body had, and their sum.
async fn weighing() -> std::net::SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let weigh = async |request: http::Request<hyper::body::Incoming>| {
        let body = request.into_body().collect().await?.to_bytes();
        let told = format!("{} {}", body.len(), sum(&body));
        Ok::<_, hyper::Error>(http::Response::new(told))
    };
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = hyper::service::service_fn(weigh);
            let connection = hyper::server::conn::http1::Builder::new()
                .serve_connection(hyper_util::rt::TokioIo::new(stream), service);
            tokio::spawn(connection);
        }
    });
    address
}

fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().map(|&byte| u64::from(byte)).sum()
}

#[tokio::test]
async fn the_body_of_a_request_waits_with_it_and_comes_in_whole() {
    let config = json!({"clusters": {
        "a": {"match": {"prefix": "/weigh"}, "pools": ["scales"], "max_requests": 1},
        "b": {"pools": ["farm"]},
    }});
    let scales = weighing().await;
    let bootstrap = pools(&config, &[("scales", scales)])
        .workers(2)
        .buffer_limits(32_768);
    let envoy = Envoy::start(&bootstrap).await.unwrap();
    let body: Vec<u8> = (0..700_000_u32).map(|n| (n % 251) as u8).collect();
    let sum = sum(&body);
    let body = bytes::Bytes::from(body);
    let mut sent = tokio::task::JoinSet::new();
    for number in 0..8 {
        let client = client(&envoy, Protocol::ALL[number % 2]).await;
        let body = body.clone();
        sent.spawn(async move {
            let request = http::Request::post("/weigh").body(body.into()).unwrap();
            let response = client.send(request).await.unwrap();
            sprat_filter_e2e::Response::read(response).await.unwrap()
        });
    }
    for response in sent.join_all().await {
        assert_eq!(response.status, 200, "{response:?}");
        assert_eq!(response.body, format!("700000 {sum}"));
    }
    assert!(counter(&envoy, "sprat.waited.default").await > 0);
    ends_well(envoy).await;
}

#[tokio::test]
async fn another_configuration_takes_over_while_requests_wait_and_responses_are_held() {
    let mut config = one("30s");
    config["uplink"] = json!({"rate": "500kbit"});
    config["clusters"]["farm"]["max_requests"] = 2.into();
    let mut bootstrap = pools(&config, &[]).workers(2).buffer_limits(16_384);
    bootstrap.listener_by_file = true;
    let envoy = Envoy::start(&bootstrap).await.unwrap();
    let get = |client: Client, path: &'static str| {
        tokio::spawn(async move { client.get(path).await.unwrap().check(path).unwrap() })
    };
    // Both places are taken by responses that are held back at this rate.
    let mut old = Vec::new();
    for path in ["/size/300000/a", "/size/300001/b"] {
        old.push(get(client(&envoy, Protocol::Http1).await, path));
    }
    let waits = format!("{STATS}sprat_waits_total");
    envoy.wait_for_stat(&waits, |n| n > 1).await.unwrap();
    for path in ["/size/5000/c", "/size/5000/d"] {
        old.push(get(client(&envoy, Protocol::Http2).await, path));
    }
    waiting(&envoy, 2).await;

    let mut bad = bootstrap.clone();
    bad.http_filters = vec![filter(&json!({"clusters": {"farm": {"pools": []}}}))];
    envoy.replace_listener(&bad).await.unwrap_err();
    waiting(&envoy, 2).await;

    // The same places at a higher rate; then others.
    config["uplink"]["rate"] = "100mbit".into();
    bootstrap.http_filters = vec![filter(&config)];
    envoy.replace_listener(&bootstrap).await.unwrap();
    let same = get(client(&envoy, Protocol::Http1).await, "/size/2000/e");
    config["clusters"]["farm"]["max_requests"] = 3.into();
    bootstrap.http_filters = vec![filter(&config)];
    envoy.replace_listener(&bootstrap).await.unwrap();
    let other = client(&envoy, Protocol::Http1).await;
    let response = other.get("/size/5000/c").await.unwrap();
    response.check("/size/5000/c").unwrap();
    for client in old.into_iter().chain([same]) {
        client.await.unwrap();
    }
    assert_eq!(counter(&envoy, "sprat.waiting").await, 0);
    ends_well(envoy).await;
}

#[tokio::test]
async fn the_soak_changes_nothing_while_requests_wait() {
    let config = json!({
        "uplink": {"rate": "1gbit"},
        "clusters": {"farm": {
            "pools": ["farm"], "max_requests": 6,
            "wait_queue": {"order": "size", "max_requests": 10_000, "timeout": "60s"},
            "head_probe": {"budget": "20ms"},
        }},
        "response_header": "x-sprat",
    });
    let plain = || Bootstrap::new(&[origin().unwrap()]).for_soak();
    for plain in [
        plain().buffer_limits(65_536).workers(2),
        plain().http2_upstreams(),
    ] {
        let mut bootstrap = with_module(plain, &config);
        bootstrap.routes[0]["route"] = json!({
            "cluster_header": "x-sprat-cluster", "timeout": "0s",
        });
        let envoy = Envoy::start(&bootstrap).await.unwrap();
        let address = envoy.listener("main").await.unwrap();
        let tally = soak(address, 2000, 1_000_000).await.unwrap();
        assert!(tally.meant > 20 && tally.left > 40, "{tally:?}");
        assert!(counter(&envoy, "sprat.waited.default").await > 100);
        assert_eq!(counter(&envoy, "sprat.waiting").await, 0);
        ends_well(envoy).await;
    }
}
