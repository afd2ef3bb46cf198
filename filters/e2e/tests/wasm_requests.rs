//! What the proxy-wasm filter does to requests before the backends, in a real
//! Envoy: the order of those that wait, early discard, subsets of a cluster.

// Clippy's exception for tests does not reach the functions that they call.
#![allow(clippy::unwrap_used)]
#![forbid(unsafe_code)]

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use sprat_filter_e2e::{Bootstrap, Client, Envoy, Protocol, Response, origin, wasm_http_filter};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

const WAITING: &str = "wasmcustom.sprat.waiting";

/// An origin that writes down who is served, and in which order. `/first` is
/// answered when the test says so.
#[derive(Clone)]
struct Origin {
    served: Arc<Mutex<Vec<String>>>,
    first: Arc<Semaphore>,
}

impl Origin {
    async fn start() -> (SocketAddr, Self) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let own = Self {
            served: Arc::default(),
            first: Arc::new(Semaphore::new(0)),
        };
        let shared = own.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let shared = shared.clone();
                tokio::spawn(async move { shared.serve(stream).await });
            }
        });
        (address, own)
    }

    /// Serves one request without a body after the other.
    async fn serve(&self, mut stream: TcpStream) -> Option<()> {
        loop {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.ok()?);
            }
            let path = String::from_utf8(head).ok()?;
            let path = path.split(' ').nth(1)?.to_owned();
            if path == "/first" {
                self.first.acquire().await.ok()?.forget();
            } else {
                self.served.lock().unwrap().push(path);
            }
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
            stream.write_all(answer).await.ok()?;
        }
    }
}

/// Starts an Envoy with the filter, whose route follows it.
async fn start(configuration: &str, farm: SocketAddr) -> Envoy {
    let filter = wasm_http_filter(configuration).unwrap();
    let bootstrap = Bootstrap::new(&[farm]).http_filter(filter).pools(&[]);
    Envoy::start(&bootstrap).await.unwrap()
}

/// Asks on a connection of its own.
fn ask(
    address: SocketAddr,
    protocol: Protocol,
    path: &'static str,
    fields: &'static [(&'static str, &'static str)],
) -> JoinHandle<Response> {
    tokio::spawn(async move {
        let client = Client::connect(address, protocol).await.unwrap();
        client.get_with(path, fields).await.unwrap()
    })
}

#[tokio::test]
async fn those_that_wait_are_served_by_class_and_then_by_size() {
    const GOLD: &[(&str, &str)] = &[("x-tier", "gold")];
    let configuration = r#"{
        "classes": {"gold": {"level": 0}},
        "class_rules": [{"match": {"headers": [{"name": "x-tier"}]}, "class": "gold"}],
        "catalogue": {"manifest": [
            {"path": "/9000", "bytes": 9000}, {"path": "/100", "bytes": 100},
            {"path": "/50000", "bytes": 50000}, {"path": "/5000", "bytes": 5000},
            {"path": "/700", "bytes": 700}, {"path": "/4000000", "bytes": 4000000}]},
        "clusters": {"farm": {"pools": ["farm"], "max_requests": 1,
            "wait_queue": {"order": "size", "max_requests": 100, "timeout": "off"}}}}"#;
    for protocol in Protocol::ALL {
        let (farm, origin) = Origin::start().await;
        let envoy = start(configuration, farm).await;
        let address = envoy.listener("main").await.unwrap();
        let mut answers = vec![ask(address, protocol, "/first", &[])];
        let in_service = "cluster.farm.upstream_rq_active";
        envoy
            .wait_for_stat(in_service, |now| now == 1)
            .await
            .unwrap();
        let asked: [(&str, &[(&str, &str)]); 6] = [
            ("/9000", &[]),
            ("/100", &[]),
            ("/50000", GOLD),
            ("/4000000", &[]),
            ("/5000", GOLD),
            ("/700", &[]),
        ];
        for (number, (path, fields)) in (1..).zip(asked) {
            answers.push(ask(address, protocol, path, fields));
            envoy
                .wait_for_stat(WAITING, |now| now == number)
                .await
                .unwrap();
        }
        origin.first.add_permits(1);
        for answer in answers {
            assert_eq!(answer.await.unwrap().body.as_ref(), b"ok");
        }
        let served = origin.served.lock().unwrap().clone();
        let order = ["/5000", "/50000", "/100", "/700", "/9000", "/4000000"];
        assert_eq!(served, order, "{protocol:?}");
        assert_eq!(envoy.stats().await.unwrap()[WAITING], 0);
        envoy.stop().await.unwrap();
    }
}

#[tokio::test]
async fn a_low_class_is_turned_away_early_and_told_in_its_own_form() {
    const HTML: &[(&str, &str)] = &[("x-class", "bulk"), ("accept", "text/html,*/*;q=0.8")];
    const JSON: &[(&str, &str)] = &[("x-class", "bulk"), ("accept", "application/json")];
    const IMAGE: &[(&str, &str)] = &[("x-class", "bulk"), ("accept", "image/png")];
    let configuration = r#"{
        "classes": {"bulk": {"level": 9, "early_discard": {"from": 0.01, "to": 0.02}}},
        "class_rules": [{"match": {"headers": [{"name": "x-class"}]}, "class": "bulk"}],
        "admission": {"averaging": "1ms"},
        "clusters": {"farm": {"pools": ["farm"], "max_requests": 1,
            "wait_queue": {"max_requests": 100, "timeout": "off"}}}}"#;
    let (farm, origin) = Origin::start().await;
    let envoy = start(configuration, farm).await;
    let address = envoy.listener("main").await.unwrap();
    let mut answers = vec![ask(address, Protocol::Http1, "/first", &[])];
    // Two hundredths of the queue are two; a moment later the average is there.
    for number in 0..4 {
        envoy
            .wait_for_stat("cluster.farm.upstream_rq_active", |now| now == 1)
            .await
            .unwrap();
        envoy
            .wait_for_stat(WAITING, |now| now == number)
            .await
            .unwrap();
        answers.push(ask(address, Protocol::Http1, "/waits", &[]));
    }
    envoy.wait_for_stat(WAITING, |now| now == 4).await.unwrap();

    for protocol in Protocol::ALL {
        let told = async |fields| {
            let answer = ask(address, protocol, "/bulk", fields).await.unwrap();
            assert_eq!(answer.status, 503);
            let after: u32 = answer.field("retry-after").unwrap().parse().unwrap();
            assert!((1..=3600).contains(&after), "{after}");
            assert!(answer.field("proxy-status").unwrap().starts_with("sprat; "));
            let body = String::from_utf8(answer.body.to_vec()).unwrap();
            let length = body.len().to_string();
            assert_eq!(answer.field("content-length"), Some(length.as_str()));
            (answer.field("content-type").unwrap().to_owned(), body)
        };
        let (form, page) = told(HTML).await;
        assert_eq!(form, "text/html; charset=utf-8");
        assert!(page.contains("<h1>503 Service Unavailable</h1>"), "{page}");
        assert!(page.contains("Try again in "), "{page}");
        let (form, problem) = told(JSON).await;
        assert_eq!(form, "application/problem+json");
        let problem: Value = serde_json::from_str(&problem).unwrap();
        assert_eq!(problem["status"], 503);
        assert_eq!(problem["reason"], "early_discard");
        let (form, text) = told(IMAGE).await;
        assert!(form.starts_with("text/plain"), "{form}");
        assert!(text.starts_with("503 Service Unavailable: "), "{text}");
    }

    // The others still wait, and are served.
    answers.push(ask(address, Protocol::Http2, "/waits", &[]));
    envoy.wait_for_stat(WAITING, |now| now == 5).await.unwrap();
    origin.first.add_permits(1);
    for answer in answers {
        assert_eq!(answer.await.unwrap().body.as_ref(), b"ok");
    }
    let stats = envoy.stats().await.unwrap();
    assert_eq!(stats["wasmcustom.sprat.refused.early_discard"], 6);
    assert_eq!(origin.served.lock().unwrap().as_slice(), ["/waits"; 5]);
    envoy.stop().await.unwrap();
}

/// `header_to_metadata` after the filter makes `envoy.lb` metadata of the field
/// that names the pool: docs/filter.md says so.
#[tokio::test]
async fn a_pool_can_be_a_subset_of_one_cluster() {
    let configuration = r#"{"clusters": {"farm": {
        "pools": [{"name": "small", "size_range": {"to": "10KB"}},
                  {"name": "large", "size_range": {"from": "10KB"}}],
        "dispatch": "sita"}},
        "catalogue": {"manifest": [{"path": "/size/100/a", "bytes": 100},
                                   {"path": "/size/50000/a", "bytes": 50000}]}}"#;
    let (small, large) = (origin().unwrap(), origin().unwrap());
    let mut bootstrap = Bootstrap::new(&[small, large])
        .http_filter(wasm_http_filter(configuration).unwrap())
        .http_filter(json!({
            "name": "pool",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.http.header_to_metadata.v3.Config",
                "request_rules": [{
                    "header": "x-sprat-cluster",
                    "on_header_present": {"metadata_namespace": "envoy.lb", "key": "pool"},
                    "remove": true,
                }],
            },
        }));
    let farm = &mut bootstrap.clusters[0];
    farm["lb_subset_config"] = json!({
        "fallback_policy": "NO_FALLBACK",
        "subset_selectors": [{"keys": ["pool"]}],
    });
    let endpoints = farm["load_assignment"]["endpoints"][0]["lb_endpoints"].as_array_mut();
    for (endpoint, pool) in endpoints.unwrap().iter_mut().zip(["small", "large"]) {
        endpoint["metadata"] = json!({"filter_metadata": {"envoy.lb": {"pool": pool}}});
    }
    let envoy = Envoy::start(&bootstrap).await.unwrap();
    let address = envoy.listener("main").await.unwrap();
    for protocol in Protocol::ALL {
        for path in ["/size/100/a", "/size/50000/a", "/size/50000/a"] {
            let answer = ask(address, protocol, path, &[]).await.unwrap();
            answer.check(path).unwrap();
        }
    }
    let clusters = envoy.admin("/clusters").await.unwrap();
    for (endpoint, requests) in [(small, 2), (large, 4)] {
        let line = format!("farm::{endpoint}::rq_total::{requests}\n");
        assert!(clusters.contains(&line), "{line}{clusters}");
    }
    envoy.stop().await.unwrap();
}
