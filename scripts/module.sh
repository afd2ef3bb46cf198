#!/usr/bin/env bash
# Builds the dynamic module for Envoy, and checks that Envoy loads it without a
# warning and refuses a bad configuration.
# usage: module.sh [OUT]   (by default target/release/libsprat_envoy.so; Envoy
# finds it as libNAME.so in ENVOY_DYNAMIC_MODULES_SEARCH_PATH)
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"

cd "$ROOT"
built=${CARGO_TARGET_DIR:-$ROOT/target}/release/libsprat_envoy.so
out=${1:-$built}
cargo build --release --locked -p sprat-envoy-module
[ "$out" = "$built" ] || install -D "$built" "$out"

envoy=$("$ROOT/scripts/setup-envoy.sh" | tail -n 1)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# load NAME RATE: has Envoy read a configuration with the module, and end.
load() {
    cat >"$work/$1.yaml" <<YAML
static_resources:
  listeners:
    - name: main
      address: {socket_address: {address: 127.0.0.1, port_value: 0}}
      filter_chains:
        - filters:
            - name: envoy.filters.network.http_connection_manager
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                stat_prefix: main
                route_config: {}
                http_filters:
                  - name: sprat
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilter
                      dynamic_module_config: {name: sprat_envoy}
                      filter_name: sprat
                      filter_config:
                        "@type": type.googleapis.com/google.protobuf.Struct
                        value: {uplink: {rate: $2}}
                  - name: envoy.filters.http.router
                    typed_config:
                      "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
YAML
    ENVOY_DYNAMIC_MODULES_SEARCH_PATH=$(dirname -- "$out") \
        "$envoy" --mode validate -c "$work/$1.yaml" >"$work/$1.log" 2>&1
}

load good 10mbit || { cat "$work/good.log" >&2; die "Envoy does not load $out"; }
if grep -q 'is deprecated' "$work/good.log"; then
    grep 'is deprecated' "$work/good.log" >&2
    die "Envoy is of another version than the module is for"
fi
if load bad fast; then die "a bad configuration was taken"; fi
grep -q 'fast' "$work/bad.log" || { cat "$work/bad.log" >&2; die "what is wrong is not told"; }
say "$out: $(stat -c %s "$out") bytes; loads in $("$envoy" --version | sed -n 's/.*version: [^/]*\/\([^/]*\).*/Envoy \1/p')"
