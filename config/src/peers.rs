//! The words of nginx, HAProxy, Envoy, Caddy and Traefik that stand for something that Sprat names
//! otherwise. An operator who writes one by habit is told Sprat's.

/// Returns what to write in place of another proxy's word; none for any other word.
pub(crate) fn ours(word: &str) -> Option<&'static str> {
    let word = word.to_ascii_lowercase().replace('-', "_");
    let found = WORDS.iter().find(|(theirs, _)| *theirs == word);
    found.map(|(_, ours)| *ours)
}

/// The other proxies' words, with hyphens as underscores, and what does the same in Sprat.
const WORDS: &[(&str, &str)] = &[
    (
        "return",
        "`direct_response: {status: ..., body: ...}`, or `redirect`, of a route",
    ),
    (
        "rewrite",
        "`prefix_rewrite` or `regex_rewrite` of a route, or `redirect`",
    ),
    (
        "add_header",
        "`response_headers_to_add` of a route, a list of `{name, value}`",
    ),
    (
        "set_header",
        "`request_headers_to_set` or `response_headers_to_set` of a route",
    ),
    (
        "del_header",
        "`request_headers_to_remove` or `response_headers_to_remove` of a route",
    ),
    (
        "http_request",
        "`request_headers_to_set`, `redirect` or `direct_response` of a route",
    ),
    ("http_response", "`response_headers_to_set` of a route"),
    (
        "proxy_set_header",
        "`request_headers_to_set` of a route, a list of `{name, value}`",
    ),
    (
        "proxy_hide_header",
        "`response_headers_to_remove` of a route",
    ),
    ("header_up", "`request_headers_to_set` of a route"),
    ("header_down", "`response_headers_to_set` of a route"),
    ("proxy_pass", "`cluster` of a route"),
    ("reverse_proxy", "`cluster` of a route"),
    ("default_backend", "a last route without `match`"),
    ("use_backend", "`cluster` of a route"),
    ("backend", "`clusters`"),
    ("eds_cluster_config", "`endpoints_file` of a cluster"),
    ("lb_try_duration", "`wait_for_endpoint` of a cluster"),
    ("backends", "`clusters`"),
    ("upstream", "`clusters`"),
    ("upstreams", "`clusters`"),
    ("services", "`clusters`"),
    (
        "server",
        "`endpoints` of a cluster, or `match: {hosts: [...]}` of a route",
    ),
    ("servers", "`endpoints` of a cluster"),
    ("lb_endpoints", "`endpoints` of a cluster"),
    ("frontend", "`listeners`"),
    ("frontends", "`listeners`"),
    ("entrypoints", "`listeners`"),
    ("listen", "`listeners`, each with an `address`"),
    ("bind", "`listeners`, each with an `address`"),
    ("server_name", "`match: {hosts: [...]}` of a route"),
    ("location", "`match: {prefix: ...}` of a route"),
    ("path_prefix", "`prefix`"),
    ("pathprefix", "`prefix`"),
    ("regex", "`safe_regex`"),
    ("domains", "`match: {hosts: [...]}` of a route"),
    (
        "virtual_hosts",
        "`routes`, each with `match: {hosts: [...]}`",
    ),
    ("acl", "`match` of a route"),
    ("error_page", "`error_pages` of a route"),
    ("errorfile", "`error_pages` of a route"),
    (
        "client_max_body_size",
        "`max_request_body` of a listener or a route",
    ),
    (
        "client_header_timeout",
        "`request_headers_timeout` of a listener",
    ),
    ("client_body_timeout", "`stream_idle_timeout` of a listener"),
    ("keepalive_timeout", "`idle_timeout` of a listener"),
    ("proxy_connect_timeout", "`connect_timeout` of a cluster"),
    (
        "proxy_read_timeout",
        "`response_timeout` and `idle_timeout` of a route",
    ),
    ("proxy_send_timeout", "`idle_timeout` of a route"),
    ("proxy_next_upstream", "`retry_policy` of a route"),
    ("limit_req", "`rate_limit` of a listener or a route"),
    ("limit_conn", "`per_client` of a listener"),
    (
        "limit_rate",
        "a class with a `rate`, and a rule of `class_rules`",
    ),
    (
        "maxconn",
        "`max_requests` of a cluster, or `max_connections` of a listener",
    ),
    ("mirror", "`request_mirror_policies` of a route"),
    ("split_clients", "`weighted_clusters` of a route"),
    (
        "otel_exporter",
        "`tracing: {otlp: {endpoint: ...}}`, at the top of the file",
    ),
    ("otel_service_name", "`service_name` of `tracing.otlp`"),
    ("otel_trace", "`sampling` of `tracing.otlp`"),
    ("open_telemetry", "`otlp` of `tracing`"),
    ("opentelemetry", "`tracing: {otlp: {endpoint: ...}}`"),
    ("random_sampling", "`sampling` of `tracing.otlp`"),
    ("samplerate", "`sampling` of `tracing.otlp`"),
    ("balance", "`dispatch` of a cluster"),
    ("lb_policy", "`dispatch` of a cluster"),
    ("lb_algo", "`dispatch` of a cluster"),
    ("least_conn", "`dispatch: least_request` of a cluster"),
    ("leastconn", "`dispatch: least_request`"),
    ("least_request", "`dispatch: least_request`"),
    ("roundrobin", "`dispatch: round_robin`"),
    ("round_robin", "`dispatch: round_robin`"),
    (
        "ip_hash",
        "`dispatch: {name: maglev, key: client}` of a cluster",
    ),
    (
        "source",
        "`dispatch: {name: maglev, key: client}` of a cluster",
    ),
    ("uri", "`dispatch: maglev` of a cluster"),
    (
        "ssl_certificate",
        "`tls: {certificates: [...]}` of a listener",
    ),
    ("ssl", "`tls`"),
    ("worker_processes", "`runtime: {workers: ...}`"),
    ("nbthread", "`runtime: {workers: ...}`"),
    ("worker_connections", "`max_connections` of a listener"),
    ("log_format", "`access_log: {format: {text: ...}}`"),
    (
        "stats",
        "`admin`, whose `/metrics` and `/endpoints` tell of the same",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_told_in_whatever_case() {
        assert_eq!(ours("leastconn"), Some("`dispatch: least_request`"));
        assert_eq!(ours("round-robin"), Some("`dispatch: round_robin`"));
        assert_eq!(ours("Proxy_Pass"), Some("`cluster` of a route"));
        assert_eq!(ours("lactose"), None);
    }

    #[test]
    fn each_word_stands_once() {
        for (at, (word, _)) in WORDS.iter().enumerate() {
            assert!(WORDS[..at].iter().all(|(other, _)| other != word), "{word}");
        }
    }

    /// Checks that each `dispatch` that the advice mentions is accepted.
    #[test]
    fn dispatches_that_are_told_are_dispatches() {
        let told = WORDS.iter().filter_map(|(_, told)| {
            let (_, code) = told.split_once("`dispatch: ")?;
            code.split('`').next()
        });
        let told: Vec<_> = told.collect();
        assert!(told.len() > 5, "{told:?}");
        for dispatch in told {
            let file = format!(
                "version: 1\nlisteners: [{{address: 0.0.0.0:80}}]\nroutes: [{{cluster: a}}]\n\
                 clusters: {{a: {{endpoints: [d:1], dispatch: {dispatch}}}}}\n"
            );
            let read = crate::parse(&file, "test", &|_| None);
            assert!(read.is_ok(), "{dispatch}");
        }
    }
}
