//! The dynamic module in a real Envoy.

// Clippy's exception for tests does not reach the functions that they call.
#![allow(clippy::unwrap_used)]
#![forbid(unsafe_code)]

mod pacing;
mod requests;
mod sizes;

use std::net::SocketAddr;

use serde_json::{Value, json};
use sprat_filter_e2e::{Bootstrap, Client, Envoy, Protocol, module_filter, origin};

/// Envoy's name of the module, after `lib` and before `.so`.
const NAME: &str = "sprat_envoy";

/// The prefix that Envoy puts before a module's own counters.
const STATS: &str = "dynamicmodulescustom.";

/// Returns a bootstrap whose filter has this configuration.
fn bootstrap(config: &Value) -> Bootstrap {
    with_module(Bootstrap::new(&[origin().expect("an origin")]), config)
}

fn with_module(mut bootstrap: Bootstrap, config: &Value) -> Bootstrap {
    let library = module_filter().expect("the module builds");
    let directory = library
        .parent()
        .expect("a file is in a directory")
        .to_string_lossy()
        .into_owned();
    bootstrap
        .environment
        .push(("ENVOY_DYNAMIC_MODULES_SEARCH_PATH".to_owned(), directory));
    bootstrap.http_filter(filter(config))
}

fn filter(config: &Value) -> Value {
    json!({
        "name": "sprat",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilter",
            "dynamic_module_config": {"name": NAME},
            "filter_name": "sprat",
            "filter_config": {
                "@type": "type.googleapis.com/google.protobuf.StringValue",
                "value": config.to_string(),
            },
        },
    })
}

fn paced(rate: &str) -> Value {
    json!({"uplink": {"rate": rate}})
}

async fn counter(envoy: &Envoy, name: &str) -> u64 {
    let stats = envoy.stats().await.expect("stats");
    let name = format!("{STATS}{name}");
    *stats.get(&name).unwrap_or_else(|| panic!("no {name}"))
}

/// Checks that nothing is left behind and nothing went wrong on the way, and stops Envoy.
async fn ends_well(envoy: Envoy) {
    envoy
        .wait_for_stat("http.main.downstream_rq_active", |active| active == 0)
        .await
        .expect("every stream ends");
    assert_eq!(counter(&envoy, "sprat_panics_total").await, 0);
    envoy.stop().await.expect("an end in order");
}

/// Returns such a bootstrap with a route that follows the filter to these pools, beside `farm`.
fn pools(config: &Value, pools: &[(&str, SocketAddr)]) -> Bootstrap {
    bootstrap(config).pools(pools)
}

async fn client(envoy: &Envoy, protocol: Protocol) -> Client {
    let address = envoy.listener("main").await.unwrap();
    Client::connect(address, protocol).await.unwrap()
}

/// Begins a response whose body stops after ten bytes: its stream stays open.
async fn stall(client: &Client) -> http::Response<hyper::body::Incoming> {
    let request = http::Request::get("/size/1000/a?fault=stall_body&at=10");
    let request = request.body(Default::default()).unwrap();
    client.send(request).await.unwrap()
}
