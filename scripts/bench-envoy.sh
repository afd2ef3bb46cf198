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
. "$ROOT/scripts/measure.sh"
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

cd "$ROOT"
measure_begin sprat-loadgen
# shellcheck disable=SC2086  # systems are words
envoy_prepare $SYSTEMS
mkdir -p "$RESULTS"

# start SYSTEM
start() {
    local config='{}'
    [ "${1##*-}" != on ] || config="{\"uplink\": {\"rate\": \"$RATE\"}}"
    envoy_config "$LISTEN" "$ADMIN" 'cluster: farm' "$(envoy_filter "${1%-*}" "$config")" \
        "$(envoy_cluster farm "$ORIGIN")" >"$work/envoy.yaml"
    envoy_start 1
    wait_for envoy "http://$LISTEN/size/0/probe"
}

start_origin "$ORIGIN"

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
            before=$(cpu_ms "${pid_of[envoy]}")
            replay "$system" --trace "$work/trace.csv" --closed "$CLIENTS" --connection keep \
                --target "http://$LISTEN" -o "$work/bench.csv"
            after=$(cpu_ms "${pid_of[envoy]}")
            none_failed "$work/bench.csv" || { cat "$work/replay-$system.log" >&2; die "requests through $system failed"; }
            wall_s=$(awk -F '[:,]' '/"wall_s"/ { print $2 + 0 }' "$work/bench.json")
            awk -v round="$round" -v system="$system" -v bytes="$bytes" -v n="$REQUESTS" -v s="$wall_s" \
                -v ms=$((after - before)) \
                'BEGIN { printf "%s,%s,%s,%.0f,%.2f\n", round, system, bytes, n / s, ms * 1000 / n }' |
                tee -a "$measurements"
        done
        if [ "$round" = 1 ] && [ "$IDLE_S" != 0 ]; then
            sleep 1
            before=$(cpu_ms "${pid_of[envoy]}")
            sleep "$IDLE_S"
            after=$(cpu_ms "${pid_of[envoy]}")
            awk -v system="$system" -v ms=$((after - before)) -v s="$IDLE_S" \
                'BEGIN { printf "%s,%.2f\n", system, ms / 10 / s }' | tee -a "$RESULTS/idle.csv"
        fi
        stop_process envoy
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
