//! The directives of nginx that no other module reads: those that Sprat needs no setting for, and
//! the advice about the others.

/// The directives that Sprat needs no setting for: it does the same by itself, or they tune what it
/// does not have.
const NEEDLESS: &str = "\
    absolute_redirect accept_mutex chunked_transfer_encoding client_body_buffer_size \
    client_body_in_file_only client_body_in_single_buffer client_body_temp_path \
    client_header_buffer_size connection_pool_size daemon default_type env error_log \
    etag events fastcgi_buffer_size fastcgi_buffering fastcgi_buffers \
    fastcgi_busy_buffers_size fastcgi_hide_header fastcgi_index fastcgi_intercept_errors \
    fastcgi_param fastcgi_read_timeout fastcgi_send_timeout fastcgi_split_path_info \
    fastcgi_temp_path grpc_buffer_size gzip_buffers gzip_comp_level gzip_disable \
    gzip_http_version gzip_proxied gzip_static gzip_vary http \
    http2 http2_max_concurrent_streams http2_recv_buffer_size http3 if_modified_since \
    ignore_invalid_headers include keepalive_disable keepalive_requests keepalive_time \
    lingering_close lingering_time lingering_timeout listen load_module log_not_found \
    log_subrequest max_ranges multi_accept open_file_cache open_file_cache_errors \
    open_file_cache_min_uses open_file_cache_valid output_buffers pcre_jit pid \
    port_in_redirect postpone_output proxy_buffer_size proxy_buffering proxy_buffers \
    proxy_busy_buffers_size proxy_headers_hash_bucket_size proxy_headers_hash_max_size \
    proxy_http_version proxy_ignore_client_abort proxy_max_temp_file_size \
    proxy_request_buffering \
    proxy_socket_keepalive proxy_ssl_protocols proxy_ssl_session_reuse \
    proxy_temp_file_write_size proxy_temp_path real_ip_recursive recursive_error_pages \
    request_pool_size reset_timedout_connection resolver_timeout rewrite_log \
    scgi_temp_path sendfile sendfile_max_chunk send_lowat server_name_in_redirect \
    server_names_hash_bucket_size server_names_hash_max_size server_tokens ssl \
    ssl_buffer_size ssl_dhparam ssl_ecdh_curve ssl_prefer_server_ciphers \
    ssl_session_cache ssl_session_timeout tcp_nodelay tcp_nopush thread_pool \
    timer_resolution types types_hash_bucket_size types_hash_max_size use user \
    uwsgi_param uwsgi_temp_path variables_hash_bucket_size variables_hash_max_size \
    worker_connections worker_cpu_affinity worker_priority worker_processes \
    worker_rlimit_core worker_rlimit_nofile worker_shutdown_timeout working_directory \
    zone";

/// The directives that other modules carry over where they count.
const USED: &str = "\
    add_header allow auth_basic client_body_timeout client_header_timeout client_max_body_size \
    deny error_page expires grpc_pass grpc_read_timeout grpc_set_header if internal \
    keepalive_timeout large_client_header_buffers limit_except limit_req limit_req_zone mirror \
    proxy_connect_timeout proxy_hide_header proxy_intercept_errors proxy_next_upstream \
    proxy_next_upstream_timeout proxy_next_upstream_tries proxy_pass proxy_read_timeout \
    proxy_set_header proxy_ssl_certificate proxy_ssl_certificate_key proxy_ssl_name \
    proxy_ssl_server_name proxy_ssl_trusted_certificate return rewrite send_timeout server \
    server_name ssl_certificate ssl_certificate_key ssl_client_certificate ssl_protocols \
    ssl_session_tickets ssl_verify_client ssl_verify_depth underscores_in_headers";

/// The advice about directives that Sprat has no setting for, by how their names begin.
const ADVICE: &[(&str, &str)] = &[
    (
        "gzip",
        "there is one `compressor` for all, and one of a route in its place",
    ),
    (
        "gunzip",
        "Sprat does not decompress: what backends send passes",
    ),
    (
        "brotli",
        "there is one `compressor` for all, and one of a route in its place",
    ),
    (
        "zstd",
        "there is one `compressor` for all, and one of a route in its place",
    ),
    (
        "auth_",
        "see `basic_auth`, `ext_authz` and `rbac` of the route",
    ),
    (
        "root",
        "Sprat serves no files: have a file server do it, and a route lead there",
    ),
    (
        "alias",
        "Sprat serves no files: have a file server do it, and a route lead there",
    ),
    (
        "index",
        "Sprat serves no files: have a file server do it, and a route lead there",
    ),
    (
        "autoindex",
        "Sprat serves no files: have a file server do it, and a route lead there",
    ),
    (
        "try_files",
        "Sprat serves no files: have a file server do it, and a route lead there",
    ),
    (
        "empty_gif",
        "Sprat serves no files: have a file server do it, and a route lead there",
    ),
    (
        "charset",
        "Sprat does not change content types: have the backends name the charset",
    ),
    (
        "fastcgi",
        "Sprat speaks HTTP alone: put an HTTP server before the application",
    ),
    (
        "uwsgi",
        "Sprat speaks HTTP alone: have the application serve HTTP",
    ),
    (
        "scgi",
        "Sprat speaks HTTP alone: have the application serve HTTP",
    ),
    (
        "memcached",
        "Sprat speaks HTTP alone: have the application serve HTTP",
    ),
    (
        "proxy_cache",
        "Sprat keeps no responses: put a cache before or behind it",
    ),
    (
        "proxy_no_cache",
        "Sprat keeps no responses: put a cache before or behind it",
    ),
    (
        "proxy_store",
        "Sprat keeps no responses: put a cache before or behind it",
    ),
    (
        "proxy_ignore_headers",
        "Sprat takes no orders from backends' fields, and keeps no responses",
    ),
    (
        "proxy_cookie",
        "Sprat does not edit cookies: have the backend set the right ones",
    ),
    (
        "proxy_redirect",
        "Sprat does not edit `Location`: have the backend send the right one",
    ),
    ("proxy_bind", "Sprat's own address is the system's choice"),
    ("proxy_limit_rate", "have the uplink paced, and its classes"),
    ("proxy_method", "Sprat passes methods on"),
    ("proxy_set_body", "Sprat passes bodies on"),
    ("proxy_pass_request", "Sprat passes heads and bodies on"),
    (
        "proxy_pass_header",
        "Sprat passes the fields on that nginx hides; `Server` is one",
    ),
    (
        "proxy_send_timeout",
        "what a backend is slow to take counts as slow to answer",
    ),
    (
        "proxy_ssl_verify",
        "Sprat verifies by default; see `tls` of the cluster",
    ),
    (
        "proxy_ssl_ciphers",
        "Sprat's ciphers are those with forward secrecy and AEAD",
    ),
    ("sub_filter", "Sprat does not edit bodies"),
    ("add_before_body", "Sprat does not edit bodies"),
    ("add_after_body", "Sprat does not edit bodies"),
    ("ssi", "Sprat does not edit bodies"),
    ("add_trailer", "Sprat adds no trailers"),
    ("image_filter", "Sprat does not edit bodies"),
    ("xslt", "Sprat does not edit bodies"),
    ("dav_", "Sprat serves no files"),
    ("mp4", "Sprat serves no files"),
    ("flv", "Sprat serves no files"),
    ("otel_", "see `tracing`: spans are sent by OTLP over HTTP"),
    (
        "opentracing",
        "see `tracing`: spans are sent by OTLP over HTTP",
    ),
    ("aio", "Sprat serves no files"),
    ("directio", "Sprat serves no files"),
    ("disable_symlinks", "Sprat serves no files"),
    ("read_ahead", "Sprat serves no files"),
    (
        "map",
        "maps are carried over where they choose the upstream alone",
    ),
    ("geo", "have routes match `clients`"),
    (
        "split_clients",
        "shares are carried over where they choose the upstream alone",
    ),
    (
        "set",
        "variables are carried over where their values are fixed",
    ),
    (
        "stub_status",
        "the admin listener tells of Sprat, at `/metrics`",
    ),
    ("status", "the admin listener tells of Sprat, at `/metrics`"),
    ("stream", "Sprat is a proxy for HTTP alone"),
    ("mail", "Sprat is a proxy for HTTP alone"),
    (
        "ssl_ciphers",
        "Sprat's ciphers are those with forward secrecy and AEAD",
    ),
    (
        "ssl_conf_command",
        "Sprat's TLS is that of rustls; see docs/tls.md",
    ),
    (
        "ssl_stapling",
        "Sprat staples no OCSP answers; clients do without",
    ),
    ("ssl_trusted_certificate", "Sprat staples no OCSP answers"),
    (
        "ssl_early_data",
        "Sprat takes no early data: clients send it again",
    ),
    (
        "ssl_reject_handshake",
        "a client that asks for an unknown name gets the first certificate",
    ),
    ("limit_rate", "have a class with a `rate`"),
    (
        "limit_conn",
        "`per_client` of the listener bounds clients; `circuit_breakers` clusters",
    ),
    ("mirror_request_body", "copies have their bodies"),
    (
        "resolver",
        "`dns.resolvers` of a cluster takes the addresses of servers",
    ),
    ("health_check", "see `health_checks` of the cluster"),
    ("sticky", "see `stateful_session` of the cluster"),
    ("perl", "Sprat runs no scripts"),
    ("js_", "Sprat runs no scripts"),
    ("lua_", "Sprat runs no scripts"),
    ("content_by_lua", "Sprat runs no scripts"),
    ("rewrite_by_lua", "Sprat runs no scripts"),
    ("header_filter_by_lua", "Sprat runs no scripts"),
    ("body_filter_by_lua", "Sprat runs no scripts"),
    ("log_by_lua", "Sprat runs no scripts"),
    ("userid", "Sprat sets no cookies"),
    ("types", "Sprat serves no files"),
    ("open_log_file_cache", "Sprat keeps its log open"),
];

/// The directives that keep requests out of the block that they stand in. If Sprat cannot do the
/// same, requests are refused there.
const GUARDS: &str = "\
    access_by_lua access_by_lua_block access_by_lua_file auth_basic auth_digest auth_gss \
    auth_jwt auth_jwt_require auth_ldap auth_oidc auth_pam auth_request js_access \
    modsecurity oidc secure_link secure_link_md5 ssl_crl ssl_ocsp valid_referers";

/// Returns whether Sprat needs no setting for a directive.
pub(super) fn is_needless(name: &str) -> bool {
    NEEDLESS.split_whitespace().any(|own| own == name)
}

/// Returns whether other modules carry a directive over where it counts.
pub(super) fn is_used(name: &str) -> bool {
    USED.split_whitespace().any(|own| own == name)
}

/// Returns the advice about a directive that Sprat has no setting for.
pub(super) fn advice(name: &str) -> Option<&'static str> {
    let (_, told) = ADVICE.iter().find(|(start, _)| name.starts_with(start))?;
    Some(told)
}

/// Returns the names of the directives that keep requests out of their block.
pub(super) fn guards() -> impl Iterator<Item = &'static str> {
    GUARDS.split_whitespace()
}

/// Returns whether a directive keeps requests out of its block.
pub(super) fn is_guard(name: &str) -> bool {
    guards().any(|own| own == name)
}
