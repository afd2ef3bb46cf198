//! The proxy-wasm filter in a real Envoy, where it holds bodies.

// Clippy's exception for tests does not reach the functions that they call.
#![allow(clippy::unwrap_used)]
#![forbid(unsafe_code)]

use serde_json::Value;
use sprat_filter_e2e::{Bootstrap, Client, Envoy, Protocol, origin, soak, wasm_http_filter};
use tokio::task::JoinSet;

const HELD_CHUNKS: &str = "wasmcustom.sprat.held_chunks";
const HELD: &str = "wasmcustom.sprat.held_responses";
const ACTIVE: &str = "http.main.downstream_rq_active";

fn paced(rate: &str) -> Value {
    let configuration = format!("{{uplink: {{rate: {rate}, hold: bodies}}}}");
    wasm_http_filter(&configuration).unwrap()
}

fn bootstrap(rate: &str) -> Bootstrap {
    Bootstrap::new(&[origin().unwrap()]).http_filter(paced(rate))
}

async fn client(envoy: &Envoy, protocol: Protocol) -> Client {
    let address = envoy.listener("main").await.unwrap();
    Client::connect(address, protocol).await.unwrap()
}

/// Checks that nothing is left behind, and stops Envoy.
async fn ends_well(envoy: Envoy) {
    envoy
        .wait_for_stat(ACTIVE, |active| active == 0)
        .await
        .unwrap();
    envoy.wait_for_stat(HELD, |held| held == 0).await.unwrap();
    envoy.stop().await.unwrap();
}

#[tokio::test]
async fn bodies_larger_than_all_buffers_come_unchanged() {
    for (workers, limit, http2) in [(1, 32_768, false), (2, 32_768, true), (2, 4_096, false)] {
        let mut bootstrap = bootstrap("300mbit").workers(workers).buffer_limits(limit);
        if http2 {
            bootstrap = bootstrap.http2_upstreams();
        }
        let envoy = Envoy::start(&bootstrap).await.unwrap();
        let mut streams = JoinSet::new();
        for number in 0..8_usize {
            let client = client(&envoy, Protocol::ALL[number % 2]).await;
            streams.spawn(async move {
                for size in [0, 1, 1448, 70_000, 2_000_000] {
                    let chunked = if number % 3 == 0 { "?chunked=1" } else { "" };
                    let path = format!("/size/{size}/{number}{chunked}");
                    client.get(&path).await.unwrap().check(&path).unwrap();
                }
            });
        }
        while let Some(done) = streams.join_next().await {
            done.unwrap();
        }
        assert!(envoy.stats().await.unwrap()[HELD_CHUNKS] > 8);
        ends_well(envoy).await;
    }
}

#[tokio::test]
async fn a_small_response_overtakes_a_large_one_on_either_worker() {
    // 2 MB take 3 s at this rate; two workers, one link.
    let bootstrap = bootstrap("5mbit").buffer_limits(16_384).workers(2);
    let envoy = Envoy::start(&bootstrap).await.unwrap();
    let large = client(&envoy, Protocol::Http1).await;
    let large = tokio::spawn(async move {
        let path = "/size/2000000/large";
        large.get(path).await.unwrap().check(path).unwrap();
    });
    envoy
        .wait_for_stat(HELD_CHUNKS, |held| held > 2)
        .await
        .unwrap();
    for index in 0..8 {
        let client = client(&envoy, Protocol::Http1).await;
        let path = format!("/size/500/{index}");
        client.get(&path).await.unwrap().check(&path).unwrap();
        assert!(!large.is_finished(), "it was not overtaken");
    }
    large.await.unwrap();
    ends_well(envoy).await;
}

#[tokio::test]
async fn what_has_no_length_or_trailers_comes_whole_out_of_a_crowd() {
    const KNOBS: [&str; 5] = [
        "chunked=1",
        "chunked=1&body_delay=1ms",
        "trailers=1",
        "trailers=1&body_delay=1ms",
        "close=1",
    ];
    // Many are due at once, and their ends make others due.
    let bootstrap = bootstrap("40mbit").for_soak().buffer_limits(65_536);
    let envoy = Envoy::start(&bootstrap).await.unwrap();
    let mut clients = JoinSet::new();
    for number in 0..64_usize {
        let address = envoy.listener("main").await.unwrap();
        clients.spawn(async move {
            for turn in 0..10 {
                let protocol = Protocol::ALL[(number + turn) % 2];
                let client = Client::connect(address, protocol).await.unwrap();
                let size = [0, 1, 700, 9_000, 60_000][(number + turn) % 5];
                let knobs = KNOBS[(number / 5 + turn / 2) % KNOBS.len()];
                let path = format!("/size/{size}/{number}-{turn}?{knobs}");
                let fields = match protocol {
                    Protocol::Http1 => &[("te", "trailers"), ("connection", "te")][..],
                    Protocol::Http2 => &[("te", "trailers")][..],
                };
                let response = client.get_with(&path, fields).await.unwrap();
                response.check(&path).unwrap();
                let trailers = response.trailers.is_some();
                assert_eq!(trailers, knobs.starts_with("trailers"), "{path}");
            }
        });
    }
    clients.join_all().await;
    assert!(envoy.stats().await.unwrap()[HELD_CHUNKS] > 100);
    ends_well(envoy).await;
}

#[tokio::test]
async fn clients_that_leave_while_parked_leave_nothing_behind() {
    let bootstrap = bootstrap("1mbit").buffer_limits(16_384).workers(2);
    let envoy = Envoy::start(&bootstrap).await.unwrap();
    for protocol in Protocol::ALL {
        let mut clients = Vec::new();
        for index in 0..30 {
            let client = client(&envoy, protocol).await;
            clients.push(tokio::spawn(async move {
                let _ = client.get(&format!("/size/5000000/{index}")).await;
            }));
        }
        envoy
            .wait_for_stat(ACTIVE, |active| active >= 30)
            .await
            .unwrap();
        envoy.wait_for_stat(HELD, |held| held > 0).await.unwrap();
        clients.iter().for_each(|client| client.abort());
        envoy
            .wait_for_stat(ACTIVE, |active| active == 0)
            .await
            .unwrap();
    }
    let client = client(&envoy, Protocol::Http1).await;
    client.get("/size/500/a").await.unwrap();
    ends_well(envoy).await;
}

#[tokio::test]
async fn a_backend_that_resets_while_its_response_is_parked_harms_no_other() {
    let bootstrap = bootstrap("5mbit").buffer_limits(16_384).workers(2);
    let envoy = Envoy::start(&bootstrap).await.unwrap();
    let path = "/size/500000/large";
    let large = client(&envoy, Protocol::Http1).await;
    let large = tokio::spawn(async move { large.get(path).await.unwrap().check(path).unwrap() });
    envoy
        .wait_for_stat(HELD_CHUNKS, |held| held > 2)
        .await
        .unwrap();
    for protocol in Protocol::ALL {
        let cut = client(&envoy, protocol).await;
        let cut = cut.get("/size/400000/cut?fault=reset_body&at=100000").await;
        assert!(cut.is_err(), "it was cut, and told as whole");
    }
    large.await.unwrap();
    ends_well(envoy).await;
}

#[tokio::test]
async fn another_configuration_takes_over_while_bodies_are_parked() {
    let mut slow = bootstrap("4mbit").buffer_limits(16_384).workers(2);
    slow.listener_by_file = true;
    let envoy = Envoy::start(&slow).await.unwrap();
    let parked = client(&envoy, Protocol::Http1).await;
    let path = "/size/1000000/parked";
    let parked = tokio::spawn(async move { parked.get(path).await.unwrap().check(path).unwrap() });
    envoy
        .wait_for_stat(HELD_CHUNKS, |held| held > 2)
        .await
        .unwrap();
    let mut fast = slow.clone();
    fast.http_filters = vec![paced("100mbit")];
    envoy.replace_listener(&fast).await.unwrap();
    let client = client(&envoy, Protocol::Http1).await;
    let path = "/size/200000/after";
    client.get(path).await.unwrap().check(path).unwrap();
    parked.await.unwrap();
    ends_well(envoy).await;
}

#[tokio::test]
async fn the_soak_changes_nothing() {
    let plain = || Bootstrap::new(&[origin().unwrap()]).for_soak();
    for bootstrap in [
        plain(),
        plain().buffer_limits(65_536).workers(2),
        plain().http2_upstreams().workers(2),
    ] {
        let envoy = Envoy::start(&bootstrap.http_filter(paced("1gbit")))
            .await
            .unwrap();
        let address = envoy.listener("main").await.unwrap();
        let tally = soak(address, 2000, 1_000_000).await.unwrap();
        assert!(tally.meant > 20 && tally.left > 40, "{tally:?}");
        assert!(envoy.stats().await.unwrap()["wasmcustom.sprat.requests.default"] > 1000);
        ends_well(envoy).await;
    }
}
