#!/usr/bin/env bash
# What order and dispatch are worth where the backends are the bottleneck, end
# to end over real sockets on the loopback interface, on one trace:
#
#   waiting   one endpoint that serves 8 requests at a time, each in a time
#             proportional to its size plus a tenth of the mean; Sprat holds the
#             others and lets them in first come first served, or smallest first:
#             by sizes seen before, or from a cold catalogue by HEAD probes
#   dispatch  four endpoints that serve one request at a time
#   shared    four endpoints that share their capacity among their requests
#   classes   four endpoints that serve one request at a time, with a queue for
#             each; half of the requests are of a higher class (SDIS02)
#
# Sizes are known, as Sprat has seen each response once, but for the probes. The
# environment changes it:
#
#   PARTS="waiting dispatch shared classes" REQUESTS=15000 SEED=7 RESULTS=results/farm
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"
. "$ROOT/scripts/measure.sh"
. "$ROOT/scripts/farm.sh"

PARTS=${PARTS:-waiting dispatch shared classes}
REQUESTS=${REQUESTS:-15000}
SEED=${SEED:-7}
RESULTS=${RESULTS:-results/farm}
PROXY=127.0.0.1:9308
ORIGINS=(127.0.0.1:9301 127.0.0.1:9302 127.0.0.1:9303 127.0.0.1:9304)
# The keys of a route whose sizes are asked for by HEAD.
PROBE='head_probe: {budget: 50ms, max_concurrent: 64}'

cd "$ROOT"
measure_begin

# start_sprat ENDPOINTS KEYS [ROUTE_KEYS]: further keys of the cluster, in YAML,
# and of the route.
start_sprat() {
    local endpoints
    endpoints=$(printf '%s, ' "${ORIGINS[@]:0:$1}")
    cat >"$work/sprat.yaml" <<YAML
version: 1
admin: off
listeners: [{address: "$PROXY"}]
uplink: {rate: unlimited}
classes: {high: {level: 1}}
class_rules: [{match: {headers: [{name: x-class, value: high}]}, class: high}]
clusters:
  farm:
    endpoints: [${endpoints%, }]
    max_connections: 20000
    $2
routes: [{cluster: farm, response_timeout: 10m${3:+, $3}}]
YAML
    start_process sprat "$target/sprat" run -c "$work/sprat.yaml"
    wait_for sprat "http://$PROXY/size/0/probe"
}

# One part: `rate` of body at an endpoint for each request, `slots` requests at
# a time there, and a load.
#
# part NAME ENDPOINTS CAPACITY_BITS LOAD RATE_BITS OVERHEAD_MS ORIGIN_OPTIONS SYSTEMS...
part() {
    local name=$1 endpoints=$2 capacity=$3 load=$4 rate=$5 overhead_ms=$6 options=$7 system
    shift 7
    local directory=$RESULTS/$name origins="${ORIGINS[*]:0:$endpoints}"
    mkdir -p "$directory"
    farm_trace "$directory/trace.csv.gz" "$capacity" "$load" "$REQUESTS" "$SEED"
    say "$name: load $load; mean response time, mean slowdown (over the time of service alone)"
    printf 'system,mean_ms,mean_slowdown,failed\n' >"$directory/summary.csv"
    for system in "$@"; do
        start_origin "$origins"
        if [ "${system%%=*}" = probe ]; then
            start_sprat "$endpoints" "${system#*=}" "$PROBE"
        else
            start_sprat "$endpoints" "${system#*=}"
            farm_warm "$directory/trace.csv.gz" "http://$PROXY"
        fi
        # shellcheck disable=SC2086  # options are words
        start_origin "$origins" --bandwidth "${rate}bit" $options
        farm_replay "${system%%=*}" "$directory" "http://$PROXY" "$load"
        summary_row "${system%%=*}" "$directory/${system%%=*}.csv.gz" "$rate" "$overhead_ms" |
            tee -a "$directory/summary.csv"
    done
}

# The mean response time of a finished replay.
mean_ms() {
    [ "$(failures "$1")" = 0 ] || die "requests failed: $1"
    times "$1" | awk '{ total += $2 } END { printf "%.2f", total / NR }'
}

# Two classes at once, each with half of the load and a trace of its own.
#
# classes_part LOAD RATE_BITS DISPATCHES...
classes_part() {
    local load=$1 rate=$2 dispatch class half directory=$RESULTS/classes pids
    shift 2
    mkdir -p "$directory"
    half=$(awk -v load="$load" 'BEGIN { print load / 2 }')
    local seed=$SEED
    for class in high low; do
        farm_trace "$directory/trace-$class.csv.gz" $((4 * rate)) "$half" $((REQUESTS / 2)) "$seed"
        seed=$((seed + 1))
    done
    say "classes: load $load; mean response time in ms of each class"
    printf 'system,high_ms,low_ms\n' >"$directory/summary.csv"
    for dispatch in "$@"; do
        start_origin "${ORIGINS[*]}" --bandwidth "${rate}bit" --concurrency 1
        start_sprat 4 "dispatch: $dispatch
    max_requests: 1
    wait_queue: {order: fcfs, scope: endpoint, max_requests: 100000, timeout: off}"
        pids=()
        for class in high low; do
            replay "$dispatch-$class" --trace "$directory/trace-$class.csv.gz" --timeout 10m \
                --target "http://$PROXY" --header "X-Class: $class" \
                -o "$directory/$dispatch-$class.csv.gz" &
            pids+=($!)
        done
        for pid in "${pids[@]}"; do
            wait "$pid" || die "a replay of $dispatch failed"
        done
        printf '%s,%s,%s\n' "$dispatch" "$(mean_ms "$directory/$dispatch-high.csv.gz")" \
            "$(mean_ms "$directory/$dispatch-low.csv.gz")" | tee -a "$directory/summary.csv"
    done
}

for each in $PARTS; do
    case $each in
        waiting)
            # 8 at a time at 2 Mbit/s each; a tenth of the mean on top.
            rate=2000000
            overhead_us=$((MEAN_BYTES * 8 * 100000 / rate))
            part waiting 1 $((8 * rate * 10 / 11)) 0.9 "$rate" "$((overhead_us / 1000)).$(printf %03d $((overhead_us % 1000)))" \
                "--concurrency 8 --overhead ${overhead_us}us" \
                'fcfs=max_requests: 8
    wait_queue: {order: fcfs, max_requests: 100000, timeout: off}' \
                'size=max_requests: 8
    wait_queue: {order: size, max_requests: 100000, timeout: off}' \
                'probe=max_requests: 8
    wait_queue: {order: size, max_requests: 100000, timeout: off}'
            ;;
        dispatch | shared)
            rate=2000000
            options='--concurrency 1'
            [ "$each" = dispatch ] || options=
            part "$each" 4 $((4 * rate)) 0.8 "$rate" 0 "$options" \
                'round_robin=dispatch: round_robin' \
                'least_request=dispatch: least_request' \
                'least_work=dispatch: least_work' \
                'sita=dispatch: sita'
            ;;
        classes) classes_part 0.9 2000000 round_robin least_request psqf rpsq ;;
        *) die "there is no part $each: waiting, dispatch, shared, classes" ;;
    esac
done
say "Written: $RESULTS/*/summary.csv"
