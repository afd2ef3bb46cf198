//! The proxy-wasm filter as part of Envoy's configuration.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::{Bootstrap, wasm_filter};

/// Returns the proxy-wasm filter with a configuration, as JSON for Envoy.
///
/// # Errors
/// When the filter does not build.
pub fn wasm_http_filter(configuration: &str) -> anyhow::Result<Value> {
    Ok(json!({
        "name": "sprat",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm",
            "config": {
                "name": "sprat",
                "root_id": "sprat",
                "configuration": {
                    "@type": "type.googleapis.com/google.protobuf.StringValue",
                    "value": configuration,
                },
                "vm_config": {
                    "vm_id": "sprat",
                    "runtime": "envoy.wasm.runtime.v8",
                    "code": {"local": {"filename": wasm_filter()?}},
                },
            },
        },
    }))
}

impl Bootstrap {
    /// Adds these clusters beside `farm`, and lets the filter choose a request's cluster.
    #[must_use]
    pub fn pools(mut self, pools: &[(&str, SocketAddr)]) -> Self {
        self.routes = vec![json!({
            "match": {"prefix": "/"},
            "route": {"cluster_header": "x-sprat-cluster", "timeout": "0s"},
        })];
        let own = pools.iter().map(|(name, at)| Self::cluster(name, &[*at]));
        self.clusters.extend(own);
        self
    }
}
