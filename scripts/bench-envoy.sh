#!/usr/bin/env bash
# What the filters cost where nothing is scarce: requests per second and CPU time
# per request of Envoy without a filter, with each filter and scheduling off, and
# with it on (at a rate that is never reached); and CPU time while idle. One
# worker each, on the loopback interface.
#
# A machine that is shared is now faster, now slower. So they take short turns, and
# each turn of a filter is compared with the turns without one just before and after
# it; what counts is the median of many. Envoy has the last core for itself, its
# clients and the origin the others. none-again is a second Envoy without a filter:
# how far it is from 1 says what the rest is worth. The environment changes it:
#
#   SIZES="1000" ROUNDS=40 CLIENTS=50 REQUESTS=5000 (a turn) IDLE_S=20 RESULTS=results/bench-envoy
#   SYSTEMS="none none-again module-off wasm-off module-on wasm-on"
#
# Beside other work: chrt -r 20 make bench-envoy
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"
. "$ROOT/scripts/measure.sh"
. "$ROOT/scripts/envoy.sh"

SIZES=${SIZES:-1000}
ROUNDS=${ROUNDS:-40}
CLIENTS=${CLIENTS:-50}
REQUESTS=${REQUESTS:-5000}
IDLE_S=${IDLE_S:-20}
RESULTS=${RESULTS:-results/bench-envoy}
SYSTEMS=${SYSTEMS:-none none-again module-off wasm-off module-on wasm-on}
RATE=100gbit
ORIGIN=127.0.0.1:9601
FIRST_PORT=9610

cd "$ROOT"
case " $SYSTEMS " in *" none "*) ;; *) die "SYSTEMS needs none: the others are compared with it" ;; esac
measure_begin
# shellcheck disable=SC2086  # systems are words
envoy_prepare $SYSTEMS
mkdir -p "$RESULTS"
need taskset util-linux
cores=$(nproc)
[ "$cores" -gt 1 ] || die "Envoy needs a core for itself: there is one in all"
other_cores=(taskset -c "0-$((cores - 2))") envoy_core=(taskset -c $((cores - 1)))
from=("${other_cores[@]}")

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

# cpu_ns PID: the CPU time of all its threads so far. The kernel's ticks are too
# coarse for a turn.
cpu_ns() { cat /proc/"$1"/task/*/schedstat | awk '{ total += $1 } END { printf "%.0f\n", total }'; }

# measure ROUND SYSTEM BYTES: one line of the measurements.
measure() {
    local before after wall_s
    before=$(cpu_ns "${pid_of[$2]}")
    turn "$2" "$3"
    after=$(cpu_ns "${pid_of[$2]}")
    wall_s=$(awk -F '[:,]' '/"wall_s"/ { print $2 + 0 }' "$work/bench.json")
    awk -v what="$1,$2,$3" -v n="$REQUESTS" -v s="$wall_s" -v ns=$((after - before)) \
        'BEGIN { printf "%s,%.0f,%.2f\n", what, n / s, ns / 1000 / n }'
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

within=("${other_cores[@]}")
start_origin "$ORIGIN"
within=("${envoy_core[@]}")
for system in $SYSTEMS; do start "$system"; done
for bytes in $SIZES; do
    write_trace "$bytes"
    # Compilers and caches warm up.
    for system in $SYSTEMS; do turn "$system" "$bytes"; done
done

printf 'system,percent_of_a_core\n' >"$RESULTS/idle.csv"
if [ "$IDLE_S" != 0 ]; then idle | tee -a "$RESULTS/idle.csv"; fi
measurements=$RESULTS/measurements.csv
filters=()
for system in $SYSTEMS; do [ "$system" = none ] || filters+=("$system"); done
printf 'round,system,bytes,requests_per_s,cpu_us_per_request\n' >"$measurements"
for bytes in $SIZES; do
    for ((round = 1; round <= ROUNDS; round++)); do
        # Another one begins each round.
        for ((turn = 0; turn < ${#filters[@]}; turn++)); do
            measure "$round" none "$bytes" >>"$measurements"
            measure "$round" "${filters[(round + turn) % ${#filters[@]}]}" "$bytes" >>"$measurements"
        done
    done
    measure "$round" none "$bytes" >>"$measurements"
done

# The medians over all turns; what a turn has of the mean of the two without a
# filter around it, with the quartiles; and how busy Envoy's core was.
awk -F , '
    NR == 1 { next }
    { line++; who[line] = $2; bytes[line] = $3; rate[line] = $4; cpu[line] = $5 }
    function quartile(values, n, which,    i, j, value) {
        for (i = 2; i <= n; i++) {
            value = values[i]
            for (j = i; j > 1 && values[j - 1] > value; j--) values[j] = values[j - 1]
            values[j] = value
        }
        return values[int(1 + (n - 1) * which / 4 + 0.5)]
    }
    # Of the turns of a system: their value, or what it has of that around it.
    function of(key, field, around, which,    i, n, values, part) {
        for (i = 1; i <= line; i++) {
            if (who[i] SUBSEP bytes[i] != key) continue
            part = field == "cpu" ? cpu[i] : field == "rate" ? rate[i] : rate[i] * cpu[i] / 1e6
            if (around && field == "cpu") part /= (cpu[i - 1] + cpu[i + 1]) / 2
            if (around && field == "rate") part /= (rate[i - 1] + rate[i + 1]) / 2
            values[++n] = part
        }
        return quartile(values, n, which)
    }
    END {
        print "system,bytes,requests_per_s,of_none,of_none_quartiles,cpu_us_per_request,cpu_of_none,cpu_quartiles,core_busy"
        for (i = 1; i <= line; i++) {
            key = who[i] SUBSEP bytes[i]
            if (key in seen) continue
            seen[key] = 1
            around = who[i] != "none"
            printf "%s,%s,%.0f,%s,%.2f,%s,%.2f\n", who[i], bytes[i], of(key, "rate", 0, 2), \
                around ? ratios(key, "rate") : "1,", of(key, "cpu", 0, 2), \
                around ? ratios(key, "cpu") : "1,", of(key, "busy", 0, 2)
        }
    }
    function ratios(key, field) {
        return sprintf("%.3f,%.3f-%.3f", of(key, field, 1, 2), of(key, field, 1, 1), of(key, field, 1, 3))
    }' "$measurements" | tee "$RESULTS/summary.csv"
say "Written: $RESULTS/summary.csv, $RESULTS/idle.csv"
