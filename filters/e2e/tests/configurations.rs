//! Each file of config/envoy/ as it stands, but for its ports and the paths of
//! the filters.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeSet;
use std::net::SocketAddr;

use http::StatusCode;
use sprat_filter_e2e::{
    Client, Envoy, Protocol, Response, checkout, module_filter, origin, wasm_filter,
};

/// Starts a file's Envoy and says where its listener is.
async fn start(file: &str) -> (Envoy, SocketAddr) {
    start_with(file, false).await
}

/// Starts a file's Envoy, with the module in the wasm filter's place if `module`: it takes the same
/// configuration.
async fn start_with(file: &str, module: bool) -> (Envoy, SocketAddr) {
    let path = checkout().join("config/envoy").join(file);
    let mut text = std::fs::read_to_string(path).unwrap();
    if module {
        text = with_module(&text);
    }
    for port in [9901, 10000, 15006] {
        text = text.replace(&format!("port_value: {port}}}"), "port_value: 0}");
    }
    text = text.replace("address: 0.0.0.0", "address: 127.0.0.1");
    for port in 9101..=9104 {
        let own = origin().unwrap().port();
        text = text.replace(
            &format!("port_value: {port}}}"),
            &format!("port_value: {own}}}"),
        );
    }
    let mut environment = Vec::new();
    if text.contains("dynamic_modules") {
        let directory = module_filter().unwrap();
        let directory = directory.parent().unwrap().to_string_lossy().into_owned();
        environment.push(("ENVOY_DYNAMIC_MODULES_SEARCH_PATH".to_owned(), directory));
    } else {
        let wasm = wasm_filter().unwrap();
        text = text.replace("target/sprat-filter.wasm", &wasm.to_string_lossy());
    }
    let envoy = Envoy::start_text(&text, 2, &environment).await.unwrap();
    let address = envoy.listener("main").await.unwrap();
    (envoy, address)
}

fn with_module(text: &str) -> String {
    let wasm = r#""@type": type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm"#;
    let (before, after) = text.split_once(wasm).expect("a wasm filter");
    let (_, configuration) = after
        .split_once("configuration:")
        .expect("its configuration");
    let indent = before.len() - before.trim_end_matches(' ').len();
    let module = [
        r#""@type": type.googleapis.com/envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilter"#,
        "dynamic_module_config: {name: sprat_envoy}",
        "filter_name: sprat",
        "filter_config:",
    ];
    let module = module.join(&format!("\n{}", " ".repeat(indent)));
    format!("{before}{module}{configuration}")
}

async fn asks(envoy: &Envoy, cluster: &str) -> u64 {
    let name = format!("cluster.{cluster}.upstream_rq_total");
    envoy
        .stats()
        .await
        .unwrap()
        .get(&name)
        .copied()
        .unwrap_or(0)
}

/// Checks responses over both protocols, sized and not, small and large.
async fn serves(address: SocketAddr) {
    for protocol in Protocol::ALL {
        let client = Client::connect(address, protocol).await.unwrap();
        for path in [
            "/size/0/a",
            "/size/1000/a",
            "/size/300000/a",
            "/size/70000/b?chunked=1",
        ] {
            client.get(path).await.unwrap().check(path).unwrap();
        }
    }
}

#[test]
fn every_file_has_its_test() {
    let files: BTreeSet<String> = std::fs::read_dir(checkout().join("config/envoy"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let tested = [
        "head-release.yaml",
        "held-bodies.yaml",
        "paced-egress.yaml",
        "priority.yaml",
        "sidecar.yaml",
        "size-dispatch.yaml",
    ];
    assert_eq!(files, tested.map(str::to_owned).into());
}

#[tokio::test]
async fn sizes_go_to_their_pools() {
    for module in [false, true] {
        sizes_go_to_their_pools_with(module).await;
    }
}

async fn sizes_go_to_their_pools_with(module: bool) {
    let (envoy, address) = start_with("size-dispatch.yaml", module).await;
    serves(address).await;
    let client = Client::connect(address, Protocol::Http1).await.unwrap();
    // Learnt, or told by HEAD; each worker that is new to it may ask once.
    for path in ["/size/500/s", "/size/50000/l"] {
        client.get(path).await.unwrap().check(path).unwrap();
    }
    for (path, pool, other) in [
        ("/size/500/s", "small", "large"),
        ("/size/50000/l", "large", "small"),
    ] {
        let before = (asks(&envoy, pool).await, asks(&envoy, other).await);
        for _ in 0..10 {
            client.get(path).await.unwrap().check(path).unwrap();
        }
        let after = (asks(&envoy, pool).await, asks(&envoy, other).await);
        assert_eq!(after, (before.0 + 10, before.1), "{path}");
    }
    envoy.stop().await.unwrap();
}

#[tokio::test]
async fn bulk_is_turned_away_early_and_told_why() {
    for module in [false, true] {
        bulk_is_turned_away_with(module).await;
    }
}

async fn bulk_is_turned_away_with(module: bool) {
    let (envoy, address) = start_with("priority.yaml", module).await;
    serves(address).await;
    let mut bulk = tokio::task::JoinSet::new();
    let flood = std::sync::Arc::new(Client::connect(address, Protocol::Http2).await.unwrap());
    // Eight at a time for 100 ms each: most of these wait, for longer than the
    // average of the queue looks back.
    for index in 0..300 {
        let flood = flood.clone();
        bulk.spawn(async move {
            if index >= 200 {
                tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            }
            let path = format!("/size/100/{index}?delay=100ms");
            flood.get_with(&path, &[("x-class", "bulk")]).await.unwrap()
        });
    }
    let api = Client::connect(address, Protocol::Http1).await.unwrap();
    let served = api
        .get_with("/size/100/api", &[("x-class", "api")])
        .await
        .unwrap();
    served.check("/size/100/api").unwrap();
    assert!(
        served
            .field("x-sprat")
            .is_some_and(|told| told.contains("api")),
        "{served:?}"
    );
    let answers = bulk.join_all().await;
    let refused: Vec<_> = answers
        .iter()
        .filter(|answer| answer.status == StatusCode::SERVICE_UNAVAILABLE)
        .collect();
    assert!(
        !refused.is_empty() && refused.len() < 300,
        "{}",
        refused.len()
    );
    for answer in refused {
        assert_eq!(
            answer.field("content-type"),
            Some("application/problem+json")
        );
        assert!(answer.field("retry-after").is_some(), "{answer:?}");
    }
    envoy.stop().await.unwrap();
}

#[tokio::test]
async fn the_module_lets_the_small_overtake() {
    overtakes("paced-egress.yaml").await;
}

#[tokio::test]
async fn the_wasm_filter_that_holds_bodies_lets_the_small_overtake() {
    overtakes("held-bodies.yaml").await;
}

async fn overtakes(file: &str) {
    let (envoy, address) = start(file).await;
    serves(address).await;
    let large = Client::connect(address, Protocol::Http1).await.unwrap();
    // At 10 Mbit/s it takes eight seconds.
    let path = "/size/10000000/l";
    let request = http::Request::get(path).body(Default::default()).unwrap();
    let head = large.send(request).await.unwrap();
    let rest = tokio::spawn(Response::read(head));
    let small = Client::connect(address, Protocol::Http1).await.unwrap();
    for index in 0..20 {
        let path = format!("/size/2000/{index}");
        small.get(&path).await.unwrap().check(&path).unwrap();
    }
    assert!(!rest.is_finished(), "nothing is paced");
    rest.await.unwrap().unwrap().check(path).unwrap();
    envoy.stop().await.unwrap();
}

#[tokio::test]
async fn heads_are_released() {
    let (envoy, address) = start("head-release.yaml").await;
    serves(address).await;
    let mut all = tokio::task::JoinSet::new();
    for index in 0..60 {
        all.spawn(async move {
            let protocol = Protocol::ALL[index % 2];
            let client = Client::connect(address, protocol).await.unwrap();
            let path = format!("/size/{}/{index}", (index % 7) * 10_000);
            client.get(&path).await.unwrap().check(&path).unwrap();
        });
    }
    all.join_all().await;
    envoy.stop().await.unwrap();
}

#[tokio::test]
async fn the_sidecar_serves() {
    let (envoy, address) = start("sidecar.yaml").await;
    serves(address).await;
    assert_eq!(asks(&envoy, "service").await, 8);
    envoy.stop().await.unwrap();
}
