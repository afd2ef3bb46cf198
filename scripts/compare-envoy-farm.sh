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
READY_WITHIN_S=20

# As compare-farm.sh has them: the mean size of the workload, and its bytes on
# the wire with a connection each, which `gen` states loads in.
MEAN_BYTES=5217
MEAN_WIRE_BYTES=6053

cd "$ROOT"
[ "$SERVERS" -le 3 ] || die "SERVERS is 3 at most: the ports after those of two pools are taken"
need curl curl
cargo build --release --locked --quiet -p sprat-loadgen
# shellcheck disable=SC2086  # filters are words
envoy_prepare $FILTERS
ulimit -n "$(ulimit -H -n)"
work=$(mktemp -d)
origin_pid='' envoy_pid=''
finish() {
    local status=$?
    trap - EXIT
    [ -z "$envoy_pid" ] || stop_pid "$envoy_pid" 5
    [ -z "$origin_pid" ] || stop_pid "$origin_pid" 5
    rm -rf "$work"
    exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# wait_for ADDRESS WHAT
wait_for() {
    local tenths=$((READY_WITHIN_S * 10))
    until curl -fsS --max-time 5 -o /dev/null "http://$1/size/0/probe" 2>/dev/null; do
        if [ "$tenths" = 0 ]; then
            cat "$work/$2.log" >&2
            die "$2 does not answer at $1"
        fi
        tenths=$((tenths - 1))
        sleep 0.1
    done
}

# addresses FROM COUNT
addresses() {
    local index list=''
    for ((index = $1; index < $1 + $2; index++)); do list+="127.0.0.1:$((FIRST_PORT + index)) "; done
    printf '%s' "${list% }"
}

# start_origin COUNT OPTION...: in place of the one before.
start_origin() {
    local count=$1 listen=() each
    shift
    for each in $(addresses 0 "$count"); do listen+=(--listen "$each"); done
    [ -z "$origin_pid" ] || stop_pid "$origin_pid" 5
    "$target/sprat-loadgen" origin "${listen[@]}" "$@" >"$work/origin.log" 2>&1 &
    origin_pid=$!
    for each in $(addresses 0 "$count"); do wait_for "$each" origin; done
}

# start_envoy ROUTE FILTER CLUSTERS
start_envoy() {
    [ -z "$envoy_pid" ] || stop_pid "$envoy_pid" 5
    envoy_config "$LISTEN" "$ADMIN" "$1" "$2" "$3" >"$work/envoy.yaml"
    "$envoy" -c "$work/envoy.yaml" --concurrency "$WORKERS" --disable-hot-restart --log-level warn \
        >"$work/envoy.log" 2>&1 &
    envoy_pid=$!
    wait_for "$LISTEN" envoy
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
    local name=$1 origins=$2 capacity=$3 load=$4 overhead_us=$5 options=$6 system
    shift 6
    local directory=$RESULTS/$name
    mkdir -p "$directory"
    # As the link whose load has as many requests a second.
    local uplink=$((capacity * MEAN_WIRE_BYTES / MEAN_BYTES / 1000))kbit
    "$target/sprat-loadgen" gen --seed "$SEED" --requests "$REQUESTS" --uplink "$uplink" \
        --load "$load" -o "$directory/trace.csv.gz" >"$directory/trace.txt"
    say "$name: load $load; mean response time, mean slowdown (over the time of service alone)"
    printf 'system,mean_ms,mean_slowdown,failed\n' | tee "$directory/summary.csv"
    for system in "$@"; do
        start_origin "$origins"
        start_system "$name" "$system"
        # Once through, at full speed: the catalogue learns every size.
        "$target/sprat-loadgen" replay --trace "$directory/trace.csv.gz" --closed 50 \
            --connection keep --target "http://$LISTEN" -o "$work/warm.csv" >/dev/null 2>&1
        # shellcheck disable=SC2086  # options are words
        start_origin "$origins" --bandwidth "${RATE}bit" $options
        "$target/sprat-loadgen" replay --trace "$directory/trace.csv.gz" --target "http://$LISTEN" \
            --timeout 10m --name "$system" --seed "$SEED" --load "$load" \
            -o "$directory/$system.csv.gz" >"$work/replay.log" 2>&1 ||
            { cat "$work/replay.log" >&2; die "the replay of $system failed"; }
        zcat "$directory/$system.csv.gz" | awk -F , -v rate="$RATE" -v overhead_us="$overhead_us" -v name="$system" '
            NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
            $column["error"] != "" { failed++; next }
            {
                ms = $column["response_ms"]
                total += ms; n++
                slowdown += ms / ($column["bytes"] * 8000 / rate + overhead_us / 1000)
            }
            END { printf "%s,%.2f,%.2f,%d\n", name, total / n, slowdown / n, failed }' |
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
