//! The catalogue: what is learnt, listed, asked for by HEAD, and told.

use serde_json::json;
use sprat_filter_e2e::{Envoy, Protocol, origin};

use crate::{bootstrap, client, counter, ends_well, pools};

#[tokio::test]
async fn requests_have_a_class_and_their_responses_tell_it() {
    let config = json!({
        "classes": {"gold": {"level": 0}},
        "class_rules": [
            {"match": {"headers": [{"name": "x-tier", "value": "gold"}]}, "class": "gold"},
            {"match": {"clients": ["127.0.0.1"], "prefix": "/size/2"}, "class": "gold"},
        ],
        "catalogue": {"manifest": [{"path": "/size/777/a", "bytes": 777}]},
        "response_header": "x-sprat",
    });
    let envoy = Envoy::start(&bootstrap(&config)).await.unwrap();
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
        let expected = format!("class=gold, size=777, source={source}, wait_ms=0");
        assert_eq!(listed, expected);
        assert!(told("/size/2/a", &[]).await.starts_with("class=gold, "));
        let prefetch = told("/size/3/a", &[("sec-purpose", "prefetch")]).await;
        assert!(prefetch.starts_with("class=background, "), "{prefetch}");
        let again = told("/size/3/a", &[]).await;
        assert_eq!(again, "class=default, size=3, source=learnt, wait_ms=0");
    }
    assert_eq!(counter(&envoy, "sprat.requests.gold").await, 4);
    assert_eq!(counter(&envoy, "sprat.requests.background").await, 2);
    ends_well(envoy).await;
}

#[tokio::test]
async fn all_workers_choose_a_pool_by_what_one_of_them_has_been_told() {
    let config = json!({"clusters": {"farm": {
        "pools": [{"name": "small", "size_range": {"to": "10KB"}},
                  {"name": "large", "size_range": {"from": "10KB"}}],
        "dispatch": "sita", "head_probe": {"budget": "5s"},
    }}});
    let origins = [("small", origin().unwrap()), ("large", origin().unwrap())];
    let bootstrap = pools(&config, &origins).workers(2);
    let envoy = Envoy::start(&bootstrap).await.unwrap();
    let paths = ["/size/100/a", "/size/50000/a?chunked=1"];
    // Connections are dealt out by the kernel: some to each worker.
    for number in 0..16 {
        let client = client(&envoy, Protocol::ALL[number % 2]).await;
        for path in paths {
            client.get(path).await.unwrap().check(path).unwrap();
        }
    }
    let stats = envoy.stats().await.unwrap();
    // The HEAD of a chunked resource tells no size, and its first response
    // went to the first pool.
    assert_eq!(counter(&envoy, "sprat.head_probe.told").await, 1);
    assert_eq!(counter(&envoy, "sprat.head_probe.useless").await, 1);
    assert_eq!(counter(&envoy, "sprat.size.learnt").await, 30);
    assert_eq!(stats["cluster.small.upstream_rq_total"], 2 + 16 + 1);
    assert_eq!(stats["cluster.large.upstream_rq_total"], 15);
    ends_well(envoy).await;
}

#[tokio::test]
async fn requests_for_one_resource_share_a_probe_and_go_on_when_it_fails() {
    let config = json!({"clusters": {"farm": {
        "pools": ["small", "farm"], "dispatch": "sita",
        "head_probe": {"cluster": "silent", "budget": "200ms", "timeout": "1s"},
    }}});
    // No server accepts what is connected here.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let origins = [
        ("small", origin().unwrap()),
        ("silent", silent.local_addr().unwrap()),
    ];
    let bootstrap = pools(&config, &origins).workers(2);
    let envoy = Envoy::start(&bootstrap).await.unwrap();
    let mut asking = tokio::task::JoinSet::new();
    for number in 0..10 {
        let client = client(&envoy, Protocol::ALL[number % 2]).await;
        asking.spawn(async move {
            let path = "/size/5000/a";
            client.get(path).await.unwrap().check(path).unwrap();
        });
    }
    asking.join_all().await;
    let probes = "dynamicmodulescustom.sprat.head_probe.failed";
    // It ends with its time, or with the stream that it was sent from.
    envoy.wait_for_stat(probes, |n| n > 0).await.unwrap();
    let stats = envoy.stats().await.unwrap();
    let joined = stats["dynamicmodulescustom.sprat.head_probe.joined"];
    let failed = stats[probes];
    assert!(joined > 0 && failed + joined <= 10, "{failed} {joined}");
    assert_eq!(stats["cluster.silent.upstream_rq_total"], failed);
    ends_well(envoy).await;
}
