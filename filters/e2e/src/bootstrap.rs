//! A configuration of Envoy, as JSON that tests can change.

use std::net::SocketAddr;

use serde_json::{Value, json};

/// A configuration of Envoy with one listener on a free port of the loopback, `main`, in front of
/// the cluster `farm`. The parts are Envoy's own protobuf messages as JSON.
#[derive(Clone, Debug)]
pub struct Bootstrap {
    /// The `envoy.config.listener.v3.Listener`, without its filter chains.
    pub listener: Value,
    /// The `HttpConnectionManager` of the listener, without its HTTP filters and routes.
    pub manager: Value,
    /// The HTTP filters before the router.
    pub http_filters: Vec<Value>,
    /// The routes of the only virtual host.
    pub routes: Vec<Value>,
    /// Further keys of the virtual host, added to its domains and routes.
    pub virtual_host: Value,
    /// The clusters, each an `envoy.config.cluster.v3.Cluster`.
    pub clusters: Vec<Value>,
    /// Top-level keys of the bootstrap beside `admin` and the resources.
    pub further: Value,
    /// The number of worker threads.
    pub workers: u16,
    /// The environment variables of the process, beside this process's own.
    pub environment: Vec<(String, String)>,
    /// Whether the listener comes from a file that Envoy watches, so that
    /// [`Envoy::replace_listener`](crate::Envoy::replace_listener) can change it.
    pub listener_by_file: bool,
}

impl Bootstrap {
    /// Creates a bootstrap that routes all requests to the farm, round robin, with no filter and
    /// one worker.
    pub fn new(origins: &[SocketAddr]) -> Self {
        Self {
            listener: json!({"name": "main", "address": address(([127, 0, 0, 1], 0).into())}),
            manager: json!({
                "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
                "stat_prefix": "main",
            }),
            http_filters: Vec::new(),
            routes: vec![json!({
                "match": {"prefix": "/"},
                "route": {"cluster": "farm", "timeout": "0s"},
            })],
            virtual_host: json!({}),
            clusters: vec![Self::cluster("farm", origins)],
            further: json!({}),
            workers: 1,
            environment: Vec::new(),
            listener_by_file: false,
        }
    }

    /// Creates a static cluster whose circuit breakers never open, without health checks.
    pub fn cluster(name: &str, endpoints: &[SocketAddr]) -> Value {
        let endpoints: Vec<Value> = endpoints
            .iter()
            .map(|endpoint| json!({"endpoint": {"address": address(*endpoint)}}))
            .collect();
        let most = 100_000;
        json!({
            "name": name,
            "connect_timeout": "5s",
            "circuit_breakers": {"thresholds": [{
                "max_connections": most, "max_pending_requests": most,
                "max_requests": most, "max_retries": most,
            }]},
            "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": endpoints}]},
        })
    }

    /// Adds an HTTP filter as the last before the router.
    #[must_use]
    pub fn http_filter(mut self, filter: Value) -> Self {
        self.http_filters.push(filter);
        self
    }

    /// Sets the number of worker threads.
    #[must_use]
    pub fn workers(mut self, workers: u16) -> Self {
        self.workers = workers;
        self
    }

    /// Sets the buffer limits of the listener and of every cluster, in bytes. With HTTP/2, Envoy
    /// buffers a stream's window of its body whatever the limits. So the window is set too, but not
    /// below its least of 65,535 bytes.
    #[must_use]
    pub fn buffer_limits(mut self, bytes: u32) -> Self {
        let key = "per_connection_buffer_limit_bytes";
        self.listener[key] = bytes.into();
        let window = json!({"initial_stream_window_size": bytes.max(65_535)});
        self.manager["http2_protocol_options"] = window;
        for cluster in &mut self.clusters {
            cluster[key] = bytes.into();
        }
        self
    }

    /// Makes Envoy speak HTTP/2 with prior knowledge to every cluster.
    #[must_use]
    pub fn http2_upstreams(self) -> Self {
        self.upstreams(&json!({"http2_protocol_options": {}}))
    }

    /// Sets all that [`soak`](crate::soak) needs: trailers over HTTP/1.1 on both sides, and retries
    /// of requests that were reset before a response's head, with their number in the request.
    /// Upstreams speak HTTP/1.1.
    #[must_use]
    pub fn for_soak(mut self) -> Self {
        self.manager["http_protocol_options"] = json!({"enable_trailers": true});
        // On a busy machine a client may read nothing for its default of 1 s.
        self.manager["delayed_close_timeout"] = "3s".into();
        self.virtual_host = json!({
            "include_request_attempt_count": true,
            "retry_policy": {"retry_on": "reset,connect-failure", "num_retries": 2},
        });
        self.upstreams(&json!({"http_protocol_options": {"enable_trailers": true}}))
    }

    fn upstreams(mut self, protocol: &Value) -> Self {
        for cluster in &mut self.clusters {
            cluster["typed_extension_protocol_options"] = json!({
                "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                    "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                    "explicit_http_config": protocol,
                }
            });
        }
        self
    }

    /// Returns the listener with its filter chain.
    pub fn whole_listener(&self) -> Value {
        let mut filters = self.http_filters.clone();
        filters.push(json!({
            "name": "envoy.filters.http.router",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router",
            },
        }));
        let mut manager = self.manager.clone();
        manager["http_filters"] = filters.into();
        let mut host = json!({"name": "all", "domains": ["*"], "routes": self.routes});
        extend(&mut host, &self.virtual_host);
        manager["route_config"] = json!({"virtual_hosts": [host]});
        let mut listener = self.listener.clone();
        listener["filter_chains"] = json!([{"filters": [{
            "name": "envoy.filters.network.http_connection_manager",
            "typed_config": manager,
        }]}]);
        listener
    }

    /// Renders the whole configuration; the listener comes from the file `lds` if one is given.
    pub(crate) fn render(&self, lds: Option<&str>) -> Value {
        let mut whole = json!({
            "node": {"id": "test", "cluster": "test"},
            "admin": {"address": address(([127, 0, 0, 1], 0).into())},
            "static_resources": {"clusters": self.clusters},
        });
        match lds {
            Some(path) => {
                whole["dynamic_resources"] = json!({
                    "lds_config": {"resource_api_version": "V3", "path_config_source": {"path": path}},
                });
            }
            None => whole["static_resources"]["listeners"] = json!([self.whole_listener()]),
        }
        extend(&mut whole, &self.further);
        whole
    }

    /// Renders the file from which Envoy reads the listener.
    pub(crate) fn render_lds(&self) -> Value {
        let mut listener = self.whole_listener();
        listener["@type"] = "type.googleapis.com/envoy.config.listener.v3.Listener".into();
        json!({"resources": [listener]})
    }
}

fn extend(object: &mut Value, further: &Value) {
    if let (Some(object), Some(further)) = (object.as_object_mut(), further.as_object()) {
        object.extend(further.clone());
    }
}

fn address(address: SocketAddr) -> Value {
    json!({"socket_address": {"address": address.ip().to_string(), "port_value": address.port()}})
}
