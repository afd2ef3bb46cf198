#!/usr/bin/env bash
# What the filters cost where nothing is scarce: requests per second and CPU time
# per request of Envoy without a filter, with each filter and scheduling off, and
# with it on (at a rate that is never reached); and CPU time while idle. One
# worker, in turn, on the loopback interface. The environment changes it:
#
#   SIZES="1000" ROUNDS=3 CLIENTS=50 REQUESTS=30000 IDLE_S=20 RESULTS=results/bench-envoy
#   SYSTEMS="none module-off wasm-off module-on wasm-on"
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"
. "$ROOT/scripts/envoy.sh"

SIZES=${SIZES:-1000}
ROUNDS=${ROUNDS:-3}
CLIENTS=${CLIENTS:-50}
REQUESTS=${REQUESTS:-30000}
IDLE_S=${IDLE_S:-20}
RESULTS=${RESULTS:-results/bench-envoy}
SYSTEMS=${SYSTEMS:-none module-off wasm-off module-on wasm-on}
RATE=100gbit
LISTEN=127.0.0.1:9608
ADMIN=127.0.0.1:9609
ORIGIN=127.0.0.1:9601
READY_WITHIN_S=20

cd "$ROOT"
need curl curl
cargo build --release --locked --quiet -p sprat-loadgen
# shellcheck disable=SC2086  # systems are words
envoy_prepare $SYSTEMS
work=$(mktemp -d)
mkdir -p "$RESULTS"
ticks_per_s=$(getconf CLK_TCK)
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

# wait_for ADDRESS WHAT PID
wait_for() {
    local tenths=$((READY_WITHIN_S * 10))
    until curl -fsS --max-time 1 -o /dev/null "http://$1/size/0/probe" 2>/dev/null; do
        if [ "$tenths" = 0 ] || ! kill -0 "$3" 2>/dev/null; then
            cat "$work/$2.log" >&2
            die "$2 does not answer at $1"
        fi
        tenths=$((tenths - 1))
        sleep 0.1
    done
}

# start SYSTEM
start() {
    local config='{}'
    [ "${1##*-}" != on ] || config="{\"uplink\": {\"rate\": \"$RATE\"}}"
    envoy_config "$LISTEN" "$ADMIN" 'cluster: farm' "$(envoy_filter "${1%-*}" "$config")" \
        "$(envoy_cluster farm "$ORIGIN")" >"$work/envoy.yaml"
    "$envoy" -c "$work/envoy.yaml" --concurrency 1 --disable-hot-restart --log-level warn \
        >"$work/envoy.log" 2>&1 &
    envoy_pid=$!
    wait_for "$LISTEN" envoy "$envoy_pid"
}

"$target/sprat-loadgen" origin --listen "$ORIGIN" >"$work/origin.log" 2>&1 &
origin_pid=$!
wait_for "$ORIGIN" origin "$origin_pid"

measurements=$RESULTS/measurements.csv
printf 'round,system,bytes,requests_per_s,cpu_us_per_request\n' >"$measurements"
printf 'system,percent_of_a_core\n' >"$RESULTS/idle.csv"
for ((round = 1; round <= ROUNDS; round++)); do
    for system in $SYSTEMS; do
        start "$system"
        for bytes in $SIZES; do
            awk -v n="$REQUESTS" -v bytes="$bytes" 'BEGIN {
                print "t_s,bytes,path"
                for (i = 0; i < n; i++) printf "%.6f,%d,/size/%d/%d\n", i / 1e6, bytes, bytes, i % 100
            }' >"$work/trace.csv"
            before=$(cpu_ticks "$envoy_pid")
            "$target/sprat-loadgen" replay --trace "$work/trace.csv" --closed "$CLIENTS" --connection keep \
                --target "http://$LISTEN" -o "$work/bench.csv" >"$work/replay.log" 2>&1 ||
                { cat "$work/replay.log" >&2; die "the replay through $system failed"; }
            after=$(cpu_ticks "$envoy_pid")
            grep -q ' 0 failed' "$work/replay.log" || { cat "$work/replay.log" >&2; die "requests failed"; }
            wall_s=$(awk -F '[:,]' '/"wall_s"/ { print $2 + 0 }' "$work/bench.json")
            awk -v round="$round" -v system="$system" -v bytes="$bytes" -v n="$REQUESTS" -v s="$wall_s" \
                -v ticks=$((after - before)) -v per_s="$ticks_per_s" \
                'BEGIN { printf "%s,%s,%s,%.0f,%.2f\n", round, system, bytes, n / s, ticks * 1e6 / per_s / n }' |
                tee -a "$measurements"
        done
        if [ "$round" = 1 ] && [ "$IDLE_S" != 0 ]; then
            sleep 1
            before=$(cpu_ticks "$envoy_pid")
            sleep "$IDLE_S"
            after=$(cpu_ticks "$envoy_pid")
            awk -v system="$system" -v ticks=$((after - before)) -v per_s="$ticks_per_s" -v s="$IDLE_S" \
                'BEGIN { printf "%s,%.2f\n", system, ticks * 100 / per_s / s }' | tee -a "$RESULTS/idle.csv"
        fi
        stop_pid "$envoy_pid" 5
        envoy_pid=''
    done
done

# Medians of the rounds, and the throughput next to that without a filter.
tail -n +2 "$measurements" | sort -t , -k 3,3n -k 2,2 -k 4,4n | awk -F , '
    { key = $2 "," $3; if (!(key in n)) order[++keys] = key; rate[key, ++n[key]] = $4; cpu[key] += $5 }
    END {
        print "system,bytes,requests_per_s,of_none,cpu_us_per_request"
        for (k = 1; k <= keys; k++) {
            key = order[k]; split(key, part, ",")
            middle[key] = rate[key, int((n[key] + 1) / 2)]
        }
        for (k = 1; k <= keys; k++) {
            key = order[k]; split(key, part, ",")
            none = middle["none," part[2]]
            printf "%s,%.0f,%s,%.2f\n", key, middle[key], none ? sprintf("%.3f", middle[key] / none) : "", cpu[key] / n[key]
        }
    }' | tee "$RESULTS/summary.csv"
say "Written: $RESULTS/summary.csv, $RESULTS/idle.csv"
