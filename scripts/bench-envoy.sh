#!/usr/bin/env bash
# What the filters cost where nothing is scarce: requests per second and CPU time
# per request of Envoy without a filter, with each filter and scheduling off, and
# with it on (at a rate that is never reached); and CPU time while idle. One
# worker each, on the loopback interface. They take short turns, many rounds of
# them, and each is compared with the one without a filter in the same round: a
# machine that is shared is now faster, now slower. The environment changes it:
#
#   SIZES="1000" ROUNDS=15 CLIENTS=50 REQUESTS=10000 (a turn) IDLE_S=20 RESULTS=results/bench-envoy
#   SYSTEMS="none module-off wasm-off module-on wasm-on"
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"
. "$ROOT/scripts/measure.sh"
. "$ROOT/scripts/envoy.sh"

SIZES=${SIZES:-1000}
ROUNDS=${ROUNDS:-15}
CLIENTS=${CLIENTS:-50}
REQUESTS=${REQUESTS:-10000}
IDLE_S=${IDLE_S:-20}
RESULTS=${RESULTS:-results/bench-envoy}
SYSTEMS=${SYSTEMS:-none module-off wasm-off module-on wasm-on}
RATE=100gbit
ORIGIN=127.0.0.1:9601
FIRST_PORT=9610

cd "$ROOT"
case " $SYSTEMS " in *" none "*) ;; *) die "SYSTEMS needs none: the others are compared with it" ;; esac
measure_begin sprat-loadgen
# shellcheck disable=SC2086  # systems are words
envoy_prepare $SYSTEMS
mkdir -p "$RESULTS"

# start SYSTEM: on a port of its own, ${port_of[SYSTEM]}.
declare -A port_of=()
start() {
    local config='{}' port=$((FIRST_PORT + 2 * ${#port_of[@]}))
    require_free "$port" $((port + 1))
    port_of[$1]=$port
    [ "${1##*-}" != on ] || config="{\"uplink\": {\"rate\": \"$RATE\"}}"
    envoy_config "127.0.0.1:$port" "127.0.0.1:$((port + 1))" 'cluster: farm' \
        "$(envoy_filter "${1%-*}" "$config")" "$(envoy_cluster farm "$ORIGIN")" >"$work/$1.yaml"
    envoy_start 1 "$1"
    wait_for "$1" "http://127.0.0.1:$port/size/0/probe"
}

# write_trace BYTES
write_trace() {
    awk -v n="$REQUESTS" -v bytes="$1" 'BEGIN {
        print "t_s,bytes,path"
        for (i = 0; i < n; i++) printf "%.6f,%d,/size/%d/%d\n", i / 1e6, bytes, bytes, i % 100
    }' >"$work/$1.csv"
}

# turn SYSTEM BYTES
turn() {
    replay "$1" --trace "$work/$2.csv" --closed "$CLIENTS" --connection keep \
        --target "http://127.0.0.1:${port_of[$1]}" -o "$work/bench.csv"
    none_failed "$work/bench.csv" || { cat "$work/replay-$1.log" >&2; die "requests through $1 failed"; }
}

# measure ROUND SYSTEM BYTES: one line of the measurements.
measure() {
    local before after wall_s
    before=$(cpu_ms "${pid_of[$2]}")
    turn "$2" "$3"
    after=$(cpu_ms "${pid_of[$2]}")
    wall_s=$(awk -F '[:,]' '/"wall_s"/ { print $2 + 0 }' "$work/bench.json")
    awk -v what="$1,$2,$3" -v n="$REQUESTS" -v s="$wall_s" -v ms=$((after - before)) \
        'BEGIN { printf "%s,%.0f,%.2f\n", what, n / s, ms * 1000 / n }'
}

# The idle ones: all at once, after their first requests.
idle() {
    local system
    declare -A before=()
    sleep 1
    for system in $SYSTEMS; do before[$system]=$(cpu_ms "${pid_of[$system]}"); done
    sleep "$IDLE_S"
    for system in $SYSTEMS; do
        awk -v name="$system" -v ms=$(($(cpu_ms "${pid_of[$system]}") - before[$system])) -v s="$IDLE_S" \
            'BEGIN { printf "%s,%.2f\n", name, ms / 10 / s }'
    done
}

start_origin "$ORIGIN"
for system in $SYSTEMS; do start "$system"; done
for bytes in $SIZES; do
    write_trace "$bytes"
    # Compilers and caches warm up.
    for system in $SYSTEMS; do turn "$system" "$bytes"; done
done

printf 'system,percent_of_a_core\n' >"$RESULTS/idle.csv"
if [ "$IDLE_S" != 0 ]; then idle | tee -a "$RESULTS/idle.csv"; fi
measurements=$RESULTS/measurements.csv
read -r -a systems <<<"$SYSTEMS"
printf 'round,system,bytes,requests_per_s,cpu_us_per_request\n' >"$measurements"
for ((round = 1; round <= ROUNDS; round++)); do
    for bytes in $SIZES; do
        # Another one begins each round.
        for ((turn = 0; turn < ${#systems[@]}; turn++)); do
            measure "$round" "${systems[(round + turn) % ${#systems[@]}]}" "$bytes" >>"$measurements"
        done
    done
done

# Over all rounds: the median of the throughput next to that without a filter in
# the same round, and the mean CPU time next to that.
awk -F , '
    NR == 1 { next }
    !(($2, $3) in rounds) { order[++n] = $2 SUBSEP $3 }
    { rate[$2, $3, $1] = $4; cpu[$2, $3] += $5; rounds[$2, $3]++ }
    # The median of a system over the rounds, next to none of that round or alone.
    function median(key, bytes, ratio,    r, i, value, sorted) {
        for (r = 1; r <= rounds[key]; r++) {
            value = rate[key, r] / (ratio ? rate["none", bytes, r] : 1)
            for (i = r; i > 1 && sorted[i - 1] > value; i--) sorted[i] = sorted[i - 1]
            sorted[i] = value
        }
        return sorted[int((rounds[key] + 1) / 2)]
    }
    END {
        print "system,bytes,requests_per_s,of_none,cpu_us_per_request,cpu_of_none"
        for (k = 1; k <= n; k++) {
            split(order[k], part, SUBSEP)
            printf "%s,%s,%.0f,%.3f,%.2f,%.3f\n", part[1], part[2], median(order[k], part[2], 0), \
                median(order[k], part[2], 1), cpu[order[k]] / rounds[order[k]], cpu[order[k]] / cpu["none", part[2]]
        }
    }' "$measurements" | tee "$RESULTS/summary.csv"
say "Written: $RESULTS/summary.csv, $RESULTS/idle.csv"
