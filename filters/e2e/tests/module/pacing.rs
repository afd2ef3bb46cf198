//! Responses under an uplink.

use std::time::Duration;

use http_body_util::BodyExt;
use serde_json::json;
use sprat_filter_e2e::{Bootstrap, Client, Envoy, Protocol, Response, origin, soak};

use crate::{
    NAME, STATS, bootstrap, client, counter, ends_well, filter, paced, pools, with_module,
};

#[tokio::test]
async fn it_loads_without_a_warning() {
    let mut bootstrap = bootstrap(&json!({}));
    // As a message of protobuf it loses the order of its keys alone.
    bootstrap.http_filters[0]["typed_config"]["filter_config"] = json!({
        "@type": "type.googleapis.com/google.protobuf.Struct",
        "value": {"uplink": {"policy": "fair"}},
    });
    let envoy = Envoy::start(&bootstrap).await.unwrap();
    let log = envoy.log();
    assert!(log.contains("Dynamic module ABI version"), "{log}");
    assert!(log.contains("matched"), "{log}");
    assert!(!log.contains("deprecated. Please recompile"), "{log}");
    let address = envoy.listener("main").await.unwrap();
    let client = Client::connect(address, Protocol::Http1).await.unwrap();
    let path = "/size/100000/a";
    client.get(path).await.unwrap().check(path).unwrap();
    assert_eq!(counter(&envoy, "sprat_responses_scheduled_total").await, 0);
    ends_well(envoy).await;
}

#[tokio::test]
async fn a_bad_configuration_is_refused_with_its_place() {
    for (config, said) in [
        (json!({"uplink": {"rate": "10mbi"}}), "10mbi"),
        (json!({"uplink": {"rte": "10mbit"}}), "did you mean `rate`"),
        (json!({"uplink": {"rate": "auto"}}), "auto"),
    ] {
        let error = Envoy::start(&bootstrap(&config)).await.unwrap_err();
        let error = error.to_string();
        assert!(error.contains(said), "{said}: {error}");
        assert!(error.contains("sprat:1:"), "no place: {error}");
    }
}

#[tokio::test]
async fn a_configuration_of_a_route_is_refused() {
    let mut bootstrap = bootstrap(&json!({}));
    bootstrap.routes[0]["typed_per_filter_config"] = json!({"sprat": {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilterPerRoute",
        "dynamic_module_config": {"name": NAME},
        "per_route_config_name": "sprat",
    }});
    let error = Envoy::start(&bootstrap).await.unwrap_err().to_string();
    assert!(error.contains("routes have no configuration"), "{error}");
}

#[tokio::test]
async fn bodies_pass_unchanged_over_both_protocols() {
    let paths = [
        "/size/0/a",
        "/size/1/a",
        "/size/1448/b",
        "/size/70000/c",
        "/size/2000000/d",
        "/size/70000/e?chunked=1",
        "/size/0/f?chunked=1",
    ];
    for (workers, limits, http2) in [(1, 0, false), (2, 65_536, false), (2, 4_096, true)] {
        let mut plain = Bootstrap::new(&[origin().unwrap()]).workers(workers);
        if limits > 0 {
            plain = plain.buffer_limits(limits);
        }
        if http2 {
            plain = plain.http2_upstreams();
        }
        let envoy = Envoy::start(&with_module(plain, &paced("200mbit")))
            .await
            .unwrap();
        let address = envoy.listener("main").await.unwrap();
        for protocol in Protocol::ALL {
            let client = Client::connect(address, protocol).await.unwrap();
            let all = paths.map(|path| client.get(path));
            for (response, path) in join(all).await.into_iter().zip(paths) {
                response.unwrap().check(path).unwrap();
            }
            let missing = client.get("/nothing").await.unwrap();
            assert_eq!(missing.status, 404);
        }
        assert!(counter(&envoy, "sprat_released_bytes_total").await > 2 * 2_140_000);
        ends_well(envoy).await;
    }
}

/// Waits for all of these responses, at once where the connection can.
async fn join<const N: usize>(
    all: [impl Future<Output = anyhow::Result<Response>>; N],
) -> Vec<anyhow::Result<Response>> {
    let mut all: Vec<_> = all.into_iter().map(Box::pin).collect();
    let mut done: Vec<Option<anyhow::Result<Response>>> = (0..N).map(|_| None).collect();
    std::future::poll_fn(|cx| {
        for (future, done) in all.iter_mut().zip(&mut done) {
            if done.is_none()
                && let std::task::Poll::Ready(response) = future.as_mut().poll(cx)
            {
                *done = Some(response);
            }
        }
        if done.iter().all(Option::is_some) {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    done.into_iter().flatten().collect()
}

#[tokio::test]
async fn a_small_response_overtakes_a_large_one() {
    // 2 MB take 3 s at this rate; two workers, one link.
    let bootstrap = bootstrap(&paced("5mbit")).buffer_limits(16_384).workers(2);
    let envoy = Envoy::start(&bootstrap).await.unwrap();
    let address = envoy.listener("main").await.unwrap();
    let large = tokio::spawn(async move {
        let client = Client::connect(address, Protocol::Http1).await.unwrap();
        let path = "/size/2000000/large";
        client.get(path).await.unwrap().check(path).unwrap();
    });
    let name = format!("{STATS}sprat_waits_total");
    envoy.wait_for_stat(&name, |waits| waits > 2).await.unwrap();
    for index in 0..8 {
        let client = Client::connect(address, Protocol::Http1).await.unwrap();
        let path = format!("/size/500/{index}");
        client.get(&path).await.unwrap().check(&path).unwrap();
        assert!(!large.is_finished(), "it was not overtaken");
    }
    large.await.unwrap();
    ends_well(envoy).await;
}

#[tokio::test]
async fn a_higher_class_goes_first_whatever_its_size() {
    // First come, first served within a class: size does not help.
    let config = json!({
        "uplink": {"rate": "5mbit", "policy": "fcfs"},
        "classes": {"gold": {"level": 0}},
        "class_rules": [{"match": {"headers": [{"name": "x-class", "value": "gold"}]}, "class": "gold"}],
    });
    let bootstrap = bootstrap(&config).buffer_limits(16_384).workers(2);
    let envoy = Envoy::start(&bootstrap).await.unwrap();
    let address = envoy.listener("main").await.unwrap();
    let first = tokio::spawn(async move {
        let client = Client::connect(address, Protocol::Http1).await.unwrap();
        let path = "/size/1500000/first";
        client.get(path).await.unwrap().check(path).unwrap();
    });
    let name = format!("{STATS}sprat_waits_total");
    envoy.wait_for_stat(&name, |waits| waits > 2).await.unwrap();
    let client = Client::connect(address, Protocol::Http1).await.unwrap();
    let path = "/size/200000/gold";
    let gold = client.get_with(path, &[("x-class", "gold")]).await;
    gold.unwrap().check(path).unwrap();
    assert!(!first.is_finished(), "its class did not help");
    first.await.unwrap();
    ends_well(envoy).await;
}

#[tokio::test]
async fn a_head_goes_before_a_body_that_does_not_come() {
    let envoy = Envoy::start(&bootstrap(&paced("10mbit"))).await.unwrap();
    let address = envoy.listener("main").await.unwrap();
    for protocol in Protocol::ALL {
        let client = Client::connect(address, protocol).await.unwrap();
        let path = "/size/1000/a?fault=stall_body&at=0";
        let request = http::Request::get(path).body(Default::default()).unwrap();
        let response = client.send(request).await.unwrap();
        assert_eq!(response.status(), 200);
    }
    ends_well(envoy).await;
}

#[tokio::test]
async fn over_http2_no_more_is_held_of_a_response_than_its_window() {
    // All that is held goes at once: 2 MB in the chunks of Envoy's default would
    // be two or three.
    let bootstrap = bootstrap(&paced("20mbit")).buffer_limits(16_384);
    let envoy = Envoy::start(&bootstrap).await.unwrap();
    let client = client(&envoy, Protocol::Http2).await;
    let path = "/size/2000000/a";
    client.get(path).await.unwrap().check(path).unwrap();
    assert!(counter(&envoy, "sprat_waits_total").await > 10);
    ends_well(envoy).await;
}

#[tokio::test]
async fn clients_that_leave_while_parked_leave_nothing_behind() {
    let bootstrap = bootstrap(&paced("1mbit")).buffer_limits(16_384).workers(2);
    let envoy = Envoy::start(&bootstrap).await.unwrap();
    let address = envoy.listener("main").await.unwrap();
    for protocol in Protocol::ALL {
        let mut clients = Vec::new();
        for index in 0..50 {
            let client = Client::connect(address, protocol).await.unwrap();
            clients.push(tokio::spawn(async move {
                let _ = client.get(&format!("/size/5000000/{index}")).await;
            }));
        }
        envoy
            .wait_for_stat("http.main.downstream_rq_active", |active| active >= 50)
            .await
            .unwrap();
        clients.iter().for_each(|client| client.abort());
        envoy
            .wait_for_stat("http.main.downstream_rq_active", |active| active == 0)
            .await
            .unwrap();
    }
    // What they held is free: the link owes them nothing.
    let client = Client::connect(address, Protocol::Http1).await.unwrap();
    client.get("/size/500/a").await.unwrap();
    ends_well(envoy).await;
}

#[tokio::test]
async fn a_reload_changes_the_rate_under_streams_that_are_parked() {
    let mut slow = bootstrap(&paced("500kbit"))
        .buffer_limits(16_384)
        .workers(2);
    slow.listener_by_file = true;
    let envoy = Envoy::start(&slow).await.unwrap();
    let address = envoy.listener("main").await.unwrap();
    // 48 s each at the old rate, twice that together.
    let parked: Vec<_> = (0..2)
        .map(|index| {
            tokio::spawn(async move {
                let client = Client::connect(address, Protocol::Http1).await.unwrap();
                let path = format!("/size/3000000/{index}");
                client.get(&path).await.unwrap().check(&path).unwrap();
            })
        })
        .collect();
    let name = format!("{STATS}sprat_waits_total");
    envoy.wait_for_stat(&name, |waits| waits > 2).await.unwrap();

    let mut bad = slow.clone();
    bad.http_filters = vec![filter(&json!({"uplink": {"rate": "fast"}}))];
    let error = envoy.replace_listener(&bad).await.unwrap_err().to_string();
    assert!(error.contains("fast"), "{error}");
    assert!(parked.iter().all(|client| !client.is_finished()));
    let client = Client::connect(address, Protocol::Http1).await.unwrap();
    client.get("/size/100/a").await.unwrap();

    let mut fast = slow.clone();
    fast.http_filters = vec![filter(&paced("100mbit"))];
    envoy.replace_listener(&fast).await.unwrap();
    let address = envoy.listener("main").await.unwrap();
    let client = Client::connect(address, Protocol::Http1).await.unwrap();
    client.get("/size/100/a").await.unwrap();
    // Only at the new rate does this end within the test's patience.
    for client in parked {
        let ended = tokio::time::timeout(Duration::from_secs(30), client).await;
        ended.expect("they go on at the old rate").unwrap();
    }
    ends_well(envoy).await;
}

#[tokio::test]
async fn the_soak_changes_nothing() {
    let plain = || Bootstrap::new(&[origin().unwrap()]).for_soak();
    for plain in [
        plain(),
        plain().buffer_limits(65_536).workers(2),
        plain().http2_upstreams(),
    ] {
        let envoy = Envoy::start(&with_module(plain, &paced("1gbit")))
            .await
            .unwrap();
        let address = envoy.listener("main").await.unwrap();
        let tally = soak(address, 2000, 1_000_000).await.unwrap();
        assert!(tally.meant > 20 && tally.left > 40, "{tally:?}");
        assert!(counter(&envoy, "sprat_responses_scheduled_total").await > 1000);
        ends_well(envoy).await;
    }
}

/// Answers at once with 40,000 bytes, and takes the request's body slowly.
async fn hasty() -> std::net::SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let answer = async |request: http::Request<hyper::body::Incoming>| {
        let mut body = request.into_body();
        tokio::spawn(async move {
            while let Some(Ok(_)) = body.frame().await {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        let body = http_body_util::Full::new(bytes::Bytes::from(vec![b'x'; 40_000]));
        Ok::<_, std::convert::Infallible>(http::Response::new(body))
    };
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = hyper::service::service_fn(answer);
            let connection = hyper::server::conn::http1::Builder::new()
                .serve_connection(hyper_util::rt::TokioIo::new(stream), service);
            tokio::spawn(connection);
        }
    });
    address
}

#[tokio::test]
async fn a_response_is_let_go_while_its_request_is_still_coming() {
    let config = json!({
        "uplink": {"rate": "2mbit"},
        "clusters": {
            "a": {"match": {"prefix": "/upload"}, "pools": ["hasty"]},
            "b": {"pools": ["farm"]},
        },
    });
    let bootstrap = pools(&config, &[("hasty", hasty().await)]).buffer_limits(16_384);
    let envoy = Envoy::start(&bootstrap).await.unwrap();
    let large = client(&envoy, Protocol::Http1).await;
    // At this rate it takes eight seconds.
    let request = http::Request::get("/size/2000000/large");
    let large_head = large.send(request.body(Default::default()).unwrap()).await;
    for protocol in Protocol::ALL {
        let client = client(&envoy, protocol).await;
        let body = bytes::Bytes::from(vec![b'y'; 2_000_000]);
        let request = http::Request::post("/upload").body(body.into()).unwrap();
        let response = Response::read(client.send(request).await.unwrap()).await;
        assert_eq!(response.unwrap().body.len(), 40_000);
    }
    assert!(counter(&envoy, "sprat_waits_total").await > 2);
    drop((large_head, large));
    ends_well(envoy).await;
}
