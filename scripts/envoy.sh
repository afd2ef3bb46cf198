# Functions of the scripts that run Envoy with and without Sprat's filters;
# sourced after lib.sh (and measure.sh, for what starts it), never run.
# shellcheck shell=bash

ENVOY_PROTO=type.googleapis.com/envoy.extensions

# envoy_prepare FILTER...: finds Envoy ($envoy), builds the filters that are
# named (none, module, wasm) into $1's place. SPRAT_FILTER_MODULE and
# SPRAT_FILTER_WASM name built ones instead.
envoy_prepare() {
    local each
    envoy=$("$ROOT/scripts/setup-envoy.sh")
    local built=${CARGO_TARGET_DIR:-$ROOT/target}
    for each in "$@"; do
        case $each in
            module*)
                if [ -z "${SPRAT_FILTER_MODULE:-}" ]; then
                    cargo build --release --locked --quiet -p sprat-envoy-module
                    SPRAT_FILTER_MODULE=$built/release/libsprat_envoy.so
                fi
                ;;
            wasm*)
                if [ -z "${SPRAT_FILTER_WASM:-}" ]; then
                    SPRAT_FILTER_WASM=$built/sprat-filter.wasm
                    "$ROOT/scripts/filter.sh" "$SPRAT_FILTER_WASM" >/dev/null
                fi
                ;;
        esac
    done
    if [ -n "${SPRAT_FILTER_MODULE:-}" ]; then
        ENVOY_DYNAMIC_MODULES_SEARCH_PATH=$(dirname -- "$(realpath "$SPRAT_FILTER_MODULE")")
        export ENVOY_DYNAMIC_MODULES_SEARCH_PATH
    fi
    if [ -n "${SPRAT_FILTER_WASM:-}" ]; then SPRAT_FILTER_WASM=$(realpath "$SPRAT_FILTER_WASM"); fi
}

# envoy_filter KIND CONFIG: one entry of `http_filters` and a comma. KIND is
# none, module, wasm or limit (Envoy's bandwidth limit, CONFIG in KiB/s).
envoy_filter() {
    local string="{\"@type\": type.googleapis.com/google.protobuf.StringValue, value: '${2:-}'}"
    case $1 in
        none) ;;
        module)
            printf '{name: sprat, typed_config: {"@type": %s.filters.http.dynamic_modules.v3.DynamicModuleFilter, dynamic_module_config: {name: sprat_envoy}, filter_name: sprat, filter_config: %s}}, ' \
                "$ENVOY_PROTO" "$string"
            ;;
        wasm)
            printf '{name: sprat, typed_config: {"@type": %s.filters.http.wasm.v3.Wasm, config: {name: sprat, vm_config: {runtime: envoy.wasm.runtime.v8, code: {local: {filename: %s}}}, configuration: %s}}}, ' \
                "$ENVOY_PROTO" "$SPRAT_FILTER_WASM" "$string"
            ;;
        limit)
            printf '{name: limit, typed_config: {"@type": %s.filters.http.bandwidth_limit.v3.BandwidthLimit, stat_prefix: limit, enable_mode: RESPONSE, limit_kbps: %s, fill_interval: 0.02s}}, ' \
                "$ENVOY_PROTO" "$2"
            ;;
        *) die "there is no filter $1" ;;
    esac
}

# envoy_cluster NAME "HOST:PORT ..." [KEYS]: an entry of `clusters`; KEYS in flow
# style, each with its comma.
envoy_cluster() {
    local endpoints='' each keys=${3:-}
    for each in $2; do
        endpoints+="{endpoint: {address: {socket_address: {address: ${each%:*}, port_value: ${each##*:}}}}}, "
    done
    case $keys in
        *circuit_breakers*) ;;
        *) keys+=' circuit_breakers: {thresholds: [{max_connections: 100000, max_pending_requests: 100000, max_requests: 100000, max_retries: 100000}]},' ;;
    esac
    printf '    - {name: %s, connect_timeout: 5s,%s load_assignment: {cluster_name: %s, endpoints: [{lb_endpoints: [%s]}]}}\n' \
        "$1" "$keys" "$1" "$endpoints"
}

# What the soak needs of a virtual host, of the connection manager, of a cluster.
SOAK_HOST='include_request_attempt_count: true, retry_policy: {retry_on: "reset,connect-failure", num_retries: 2},'
# Envoy closes on a client that reads nothing for 1 s, as on a busy machine.
SOAK_MANAGER='http_protocol_options: {enable_trailers: true}, delayed_close_timeout: 3s,'
SOAK_CLUSTER=" typed_extension_protocol_options: {envoy.extensions.upstreams.http.v3.HttpProtocolOptions: {\"@type\": $ENVOY_PROTO.upstreams.http.v3.HttpProtocolOptions, explicit_http_config: {http_protocol_options: {enable_trailers: true}}}},"

# envoy_config LISTEN ADMIN ROUTE FILTER CLUSTERS [LISTENER_KEYS] [MANAGER_KEYS]
# [HOST_KEYS]: a whole bootstrap. ROUTE is `cluster: NAME` or `cluster_header:
# FIELD`, FILTER and CLUSTERS are what the functions above print.
envoy_config() {
    cat <<YAML
node: {id: sprat, cluster: sprat}
admin: {address: {socket_address: {address: ${2%:*}, port_value: ${2##*:}}}}
static_resources:
  listeners:
    - name: main
      address: {socket_address: {address: ${1%:*}, port_value: ${1##*:}}}
      ${6:-}
      filter_chains:
        - filters:
            - name: envoy.filters.network.http_connection_manager
              typed_config: {
                "@type": $ENVOY_PROTO.filters.network.http_connection_manager.v3.HttpConnectionManager,
                stat_prefix: main, ${7:-}
                route_config: {virtual_hosts: [{name: all, domains: ["*"], ${8:-}
                  routes: [{match: {prefix: /}, route: {$3, timeout: 0s}}]}]},
                http_filters: [$4
                  {name: router, typed_config: {"@type": $ENVOY_PROTO.filters.http.router.v3.Router}}]}
  clusters:
$5
YAML
}

# envoy_tuning KIND: LISTENER_KEYS and cluster KEYS, in that order on two lines,
# for a slow link, as config/envoy/ has them for the filter.
envoy_tuning() {
    # SO_SNDBUF: what a response that has begun may have on its way.
    local small="socket_options: [{level: 6, name: 25, int_value: 4096, state: STATE_PREBIND}, {level: 1, name: 7, int_value: 2304, state: STATE_PREBIND}]"
    local low='socket_options: [{level: 6, name: 25, int_value: 4096, state: STATE_PREBIND}]'
    case $1 in
        module)
            printf '%s\n      per_connection_buffer_limit_bytes: 2048\n' "$low"
            ;;
        wasm)
            printf '%s\n      per_connection_buffer_limit_bytes: 4096\n' "$small"
            ;;
    esac
}
envoy_cluster_tuning() {
    case $1 in
        module) printf ' per_connection_buffer_limit_bytes: 2048, upstream_bind_config: {source_address: {address: 0.0.0.0, port_value: 0}, socket_options: [{level: 1, name: 8, int_value: 4096, state: STATE_PREBIND}]},' ;;
        wasm) printf ' per_connection_buffer_limit_bytes: 4096,' ;;
    esac
}

# envoy_start WORKERS [NAME]: with the bootstrap in $work/NAME.yaml, in place of the
# one before; as the process of that name, `envoy` by default.
envoy_start() {
    start_process "${2:-envoy}" "$envoy" -c "$work/${2:-envoy}.yaml" --concurrency "$1" \
        --disable-hot-restart --log-level warn
}
