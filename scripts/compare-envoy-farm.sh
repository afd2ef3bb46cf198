#!/usr/bin/env bash
# What order and dispatch are worth inside Envoy where the backends are the
# bottleneck, on the loopback interface, on one trace:
#
#   dispatch  two pools of servers that serve one request at a time: Envoy's round
#             robin and least request over all of them; with a filter that sends
#             each request to the pool of its size
#   held      one server that does 8 requests at a time, heavy-tailed sizes: Envoy's
#             own pending queue (circuit breaker: max_requests 8 by connections);
#             with a filter that holds the others, smallest first
#
# Sizes are known, as Envoy has seen each response once. The environment changes
# it:
#
#   PARTS="dispatch held" FILTERS=wasm WORKERS=1 SERVERS=2 (in each pool)
#   REQUESTS=15000 SEED=7 RESULTS=results/compare-envoy-farm
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"
. "$ROOT/scripts/measure.sh"
. "$ROOT/scripts/farm.sh"
. "$ROOT/scripts/envoy.sh"

PARTS=${PARTS:-dispatch held}
FILTERS=${FILTERS:-wasm}
WORKERS=${WORKERS:-1}
SERVERS=${SERVERS:-2}
REQUESTS=${REQUESTS:-15000}
SEED=${SEED:-7}
RESULTS=${RESULTS:-results/compare-envoy-farm}
LISTEN=127.0.0.1:9508
ADMIN=127.0.0.1:9509
FIRST_PORT=9501
RATE=2000000

cd "$ROOT"
[ "$SERVERS" -le 3 ] || die "SERVERS is 3 at most: the ports after those of two pools are taken"
measure_begin
# shellcheck disable=SC2086  # filters are words
envoy_prepare $FILTERS

# addresses FROM COUNT
addresses() {
    local index list=''
    for ((index = $1; index < $1 + $2; index++)); do list+="127.0.0.1:$((FIRST_PORT + index)) "; done
    printf '%s' "${list% }"
}

# start_envoy ROUTE FILTER CLUSTERS
start_envoy() {
    envoy_config "$LISTEN" "$ADMIN" "$1" "$2" "$3" >"$work/envoy.yaml"
    envoy_start "$WORKERS"
    wait_for envoy "http://$LISTEN/size/0/probe"
}

# start_system PART SYSTEM
start_system() {
    local all config queue='"wait_queue": {"order": "size", "max_requests": 100000, "timeout": "off"}'
    all=$(addresses 0 $((2 * SERVERS)))
    case $1:$2 in
        dispatch:envoy-round-robin) start_envoy 'cluster: farm' '' "$(envoy_cluster farm "$all" ' lb_policy: ROUND_ROBIN,')" ;;
        dispatch:envoy-least-request) start_envoy 'cluster: farm' '' "$(envoy_cluster farm "$all" ' lb_policy: LEAST_REQUEST,')" ;;
        dispatch:*)
            config="{\"clusters\": {\"farm\": {\"pools\": [\"small\", \"large\"], \"dispatch\": \"sita\", \"max_requests\": $SERVERS, $queue}}}"
            start_envoy 'cluster_header: x-sprat-cluster' "$(envoy_filter "$2" "$config")" \
                "$(envoy_cluster small "$(addresses 0 "$SERVERS")" ' lb_policy: LEAST_REQUEST,')
$(envoy_cluster large "$(addresses "$SERVERS" "$SERVERS")" ' lb_policy: LEAST_REQUEST,')"
            ;;
        held:envoy)
            # HTTP/1.1: a connection is a request, and the others are pending.
            start_envoy 'cluster: farm' '' "$(envoy_cluster farm "$(addresses 0 1)" \
                ' circuit_breakers: {thresholds: [{max_connections: 8, max_pending_requests: 100000, max_requests: 100000}]},')"
            ;;
        held:*)
            config="{\"clusters\": {\"farm\": {\"pools\": [\"farm\"], \"max_requests\": 8, $queue}}}"
            start_envoy 'cluster_header: x-sprat-cluster' "$(envoy_filter "$2" "$config")" \
                "$(envoy_cluster farm "$(addresses 0 1)")"
            ;;
    esac
}

# part NAME ORIGINS CAPACITY_BITS LOAD OVERHEAD_US ORIGIN_OPTIONS SYSTEMS...
part() {
    local name=$1 origins capacity=$3 load=$4 overhead_ms options=$6 system
    origins=$(addresses 0 "$2")
    overhead_ms=$(awk -v us="$5" 'BEGIN { print us / 1000 }')
    shift 6
    local directory=$RESULTS/$name
    mkdir -p "$directory"
    farm_trace "$directory/trace.csv.gz" "$capacity" "$load" "$REQUESTS" "$SEED"
    say "$name: load $load; mean response time, mean slowdown (over the time of service alone)"
    printf 'system,mean_ms,mean_slowdown,failed\n' | tee "$directory/summary.csv"
    for system in "$@"; do
        start_origin "$origins"
        start_system "$name" "$system"
        farm_warm "$directory/trace.csv.gz" "http://$LISTEN"
        # shellcheck disable=SC2086  # options are words
        start_origin "$origins" --bandwidth "${RATE}bit" $options
        farm_replay "$system" "$directory" "http://$LISTEN" "$load"
        summary_row "$system" "$directory/$system.csv.gz" "$RATE" "$overhead_ms" |
            tee -a "$directory/summary.csv"
    done
}

for each in $PARTS; do
    case $each in
        dispatch)
            # A hundredth of the mean on top, or an empty body takes no time.
            overhead_us=$((MEAN_BYTES * 8 * 10000 / RATE))
            # shellcheck disable=SC2086  # filters are words
            part dispatch $((2 * SERVERS)) $((2 * SERVERS * RATE * 100 / 101)) 0.8 "$overhead_us" \
                "--concurrency 1 --overhead ${overhead_us}us" \
                envoy-round-robin envoy-least-request $FILTERS
            ;;
        held)
            # 8 at a time, and a tenth of the mean on top.
            overhead_us=$((MEAN_BYTES * 8 * 100000 / RATE))
            # shellcheck disable=SC2086  # filters are words
            part held 1 $((8 * RATE * 10 / 11)) 0.9 "$overhead_us" \
                "--concurrency 8 --overhead ${overhead_us}us" envoy $FILTERS
            ;;
        *) die "there is no part $each: dispatch, held" ;;
    esac
done
say "Written: $RESULTS/*/summary.csv"
