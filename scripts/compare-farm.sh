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

PARTS=${PARTS:-waiting dispatch shared classes}
REQUESTS=${REQUESTS:-15000}
SEED=${SEED:-7}
RESULTS=${RESULTS:-results/farm}
PROXY=127.0.0.1:9308
PORTS=(9301 9302 9303 9304)
READY_WITHIN_S=10
# The keys of a route whose sizes are asked for by HEAD.
PROBE='head_probe: {budget: 50ms, max_concurrent: 64}'

# The mean size of the workload, and its bytes on the wire with a connection
# each, which `gen` states loads in.
MEAN_BYTES=5217
MEAN_WIRE_BYTES=6053

cd "$ROOT"
need curl curl
cargo build --release --locked --quiet -p sprat -p sprat-loadgen
target=${CARGO_TARGET_DIR:-target}/release
work=$(mktemp -d)
origin_pid='' sprat_pid=''
finish() {
    local status=$?
    trap - EXIT
    [ -z "$sprat_pid" ] || stop_pid "$sprat_pid" 5
    [ -z "$origin_pid" ] || stop_pid "$origin_pid" 5
    rm -rf "$work"
    exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
ulimit -n "$(ulimit -H -n)"

answers() { curl -fsS --max-time 5 -o /dev/null "http://$1/size/0/probe" 2>/dev/null; }
# wait_for ADDRESS WHAT
wait_for() {
    local tenths=$((READY_WITHIN_S * 10))
    until answers "$1"; do
        [ "$tenths" != 0 ] || die "$2 does not answer at $1"
        tenths=$((tenths - 1))
        sleep 0.1
    done
}

# start_origin PORTS OPTION...: in place of the one before.
start_origin() {
    local count=$1 listen=() port
    shift
    for port in "${PORTS[@]:0:$count}"; do
        listen+=(--listen "127.0.0.1:$port")
    done
    [ -z "$origin_pid" ] || stop_pid "$origin_pid" 5
    "$target/sprat-loadgen" origin "${listen[@]}" "$@" >"$work/origin.log" 2>&1 &
    origin_pid=$!
    for port in "${PORTS[@]:0:$count}"; do
        wait_for "127.0.0.1:$port" origin
    done
}

# start_sprat ENDPOINTS KEYS [ROUTE_KEYS]: further keys of the cluster, in YAML,
# and of the route.
start_sprat() {
    local endpoints='' port
    for port in "${PORTS[@]:0:$1}"; do
        endpoints+="127.0.0.1:$port, "
    done
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
    [ -z "$sprat_pid" ] || stop_pid "$sprat_pid" 5
    "$target/sprat" run -c "$work/sprat.yaml" >"$work/sprat.log" 2>&1 &
    sprat_pid=$!
    wait_for "$PROXY" sprat
}

# One part: `rate` of body at an endpoint for each request, `slots` requests at
# a time there, and a load.
#
# part NAME ENDPOINTS CAPACITY_BITS LOAD RATE_BITS OVERHEAD_MS ORIGIN_OPTIONS SYSTEMS...
part() {
    local name=$1 endpoints=$2 capacity=$3 load=$4 rate=$5 overhead_ms=$6 options=$7 system
    shift 7
    local directory=$RESULTS/$name
    mkdir -p "$directory"
    # As the link whose load has as many requests a second.
    local uplink=$((capacity * MEAN_WIRE_BYTES / MEAN_BYTES / 1000))kbit
    "$target/sprat-loadgen" gen --seed "$SEED" --requests "$REQUESTS" --uplink "$uplink" \
        --load "$load" -o "$directory/trace.csv.gz" >"$directory/trace.txt"
    say "$name: load $load; mean response time, mean slowdown (over the time of service alone)"
    printf 'system,mean_ms,mean_slowdown,failed\n' >"$directory/summary.csv"
    for system in "$@"; do
        start_origin "$endpoints"
        if [ "${system%%=*}" = probe ]; then
            start_sprat "$endpoints" "${system#*=}" "$PROBE"
        else
            start_sprat "$endpoints" "${system#*=}"
            # Once through, at full speed: the catalogue learns every size.
            "$target/sprat-loadgen" replay --trace "$directory/trace.csv.gz" --closed 50 \
                --connection keep --target "http://$PROXY" -o "$work/warm.csv" >/dev/null 2>&1
        fi
        # shellcheck disable=SC2086  # options are words
        start_origin "$endpoints" --bandwidth "${rate}bit" $options
        "$target/sprat-loadgen" replay --trace "$directory/trace.csv.gz" --target "http://$PROXY" \
            --timeout 10m --name "${system%%=*}" --seed "$SEED" --load "$load" \
            -o "$directory/${system%%=*}.csv.gz" >"$work/replay.log" 2>&1 ||
            { cat "$work/replay.log" >&2; die "the replay of ${system%%=*} failed"; }
        zcat "$directory/${system%%=*}.csv.gz" | awk -F , -v rate="$rate" -v overhead="$overhead_ms" \
            -v name="${system%%=*}" '
            NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
            $column["error"] != "" { failed++; next }
            {
                ms = $column["response_ms"]
                total += ms; n++
                slowdown += ms / ($column["bytes"] * 8000 / rate + overhead)
            }
            END { printf "%s,%.2f,%.2f,%d\n", name, total / n, slowdown / n, failed }' |
            tee -a "$directory/summary.csv"
    done
}

# The mean response time of a finished replay.
mean_ms() {
    zcat "$1" | awk -F , '
        NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
        $column["error"] != "" { failed = 1 }
        { total += $column["response_ms"]; n++ }
        END { if (failed || !n) exit 1; printf "%.2f", total / n }'
}

# Two classes at once, each with half of the load and a trace of its own.
#
# classes_part LOAD RATE_BITS DISPATCHES...
classes_part() {
    local load=$1 rate=$2 dispatch class half directory=$RESULTS/classes pids
    shift 2
    mkdir -p "$directory"
    half=$(awk -v load="$load" 'BEGIN { print load / 2 }')
    local uplink=$((4 * rate * MEAN_WIRE_BYTES / MEAN_BYTES / 1000))kbit seed=$SEED
    for class in high low; do
        "$target/sprat-loadgen" gen --seed "$seed" --requests $((REQUESTS / 2)) --uplink "$uplink" \
            --load "$half" -o "$directory/trace-$class.csv.gz" >"$directory/trace-$class.txt"
        seed=$((seed + 1))
    done
    say "classes: load $load; mean response time in ms of each class"
    printf 'system,high_ms,low_ms\n' >"$directory/summary.csv"
    for dispatch in "$@"; do
        start_origin 4 --bandwidth "${rate}bit" --concurrency 1
        start_sprat 4 "dispatch: $dispatch
    max_requests: 1
    wait_queue: {order: fcfs, scope: endpoint, max_requests: 100000, timeout: off}"
        pids=()
        for class in high low; do
            "$target/sprat-loadgen" replay --trace "$directory/trace-$class.csv.gz" \
                --target "http://$PROXY" --timeout 10m --header "X-Class: $class" \
                --name "$dispatch-$class" -o "$directory/$dispatch-$class.csv.gz" \
                >"$work/replay-$class.log" 2>&1 &
            pids+=($!)
        done
        for pid in "${pids[@]}"; do
            wait "$pid" || { cat "$work"/replay-*.log >&2; die "a replay of $dispatch failed"; }
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
