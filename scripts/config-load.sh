#!/usr/bin/env bash
# What a configuration of 1 MB costs: how long it takes to load, and how long a reload
# keeps a request waiting. 10,000 routes are reloaded again and again, each time with
# other conditions, while clients ask on CONNECTIONS kept connections, one request after
# the other. The delay is how much longer the longest response takes than without reloads;
# of several rounds the one in the middle counts. The environment changes it:
#
#   CONNECTIONS=8 REQUESTS=60000 ROUNDS=3 LOAD_BAR_MS=200 DELAY_BAR_MS=10
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"
. "$ROOT/scripts/measure.sh"

CONNECTIONS=${CONNECTIONS:-8}
REQUESTS=${REQUESTS:-60000}
ROUNDS=${ROUNDS:-3}
LOAD_BAR_MS=${LOAD_BAR_MS:-200}
DELAY_BAR_MS=${DELAY_BAR_MS:-10}
RESULTS=${RESULTS:-results/config-load}
# As in config/benches/load.rs.
PROXY=127.0.0.1:9910
ADMIN=127.0.0.1:9911
ORIGIN=127.0.0.1:9912

cd "$ROOT"
measure_begin
mkdir -p "$RESULTS"

SPRAT_CONFIG=$work/farm.yaml cargo bench --quiet --locked -p sprat-config --bench load >"$work/bench.log" 2>&1 ||
    { cat "$work/bench.log" >&2; die "the benchmark failed"; }
load=$(sed -n 's/.*median \([0-9.]*\) ms.*/\1/p' "$work/bench.log")
# What no other route takes goes to the origin.
cp "$work/farm.yaml" "$work/a.yaml"
echo '- cluster: c0' >>"$work/a.yaml"
sed 's/name: x-t, value: a/name: x-t, value: b/' "$work/a.yaml" >"$work/b.yaml"
cp "$work/a.yaml" "$work/sprat.yaml"

awk -v count="$REQUESTS" \
    'BEGIN { print "t_s,bytes,path"; for (i = 0; i < count; i++) print "0,100,/size/100/0" }' >"$work/trace.csv"

# reloads: how many have succeeded so far.
reloads() {
    curl -fsS --max-time 10 "http://$ADMIN/metrics" |
        awk '/^sprat_config_reloads_total/ && /good/ { n += $NF } END { print n + 0 }'
}

# longest NAME: the longest response time of a replay, in milliseconds.
longest() {
    replay "$1" --trace "$work/trace.csv" --closed "$CONNECTIONS" --connection keep \
        --target "http://$PROXY" -o "$work/$1.csv.gz"
    [ "$(failures "$work/$1.csv.gz")" = 0 ] || die "requests failed: $(cat "$work/replay-$1.log")"
    times "$work/$1.csv.gz" | awk '$2 > max { max = $2 } END { printf "%.2f\n", max }'
}

# keep_reloading: one reload after the other, the next half a second after the last.
keep_reloading() {
    local number=0 wanted file
    while [ ! -e "$work/over" ]; do
        number=$((number + 1))
        file=a
        [ $((number % 2)) = 0 ] || file=b
        cp "$work/$file.yaml" "$work/next.yaml"
        mv "$work/next.yaml" "$work/sprat.yaml"
        wanted=$(($(reloads) + 1))
        kill -HUP "${pid_of[sprat]}"
        until [ "$(reloads)" -ge "$wanted" ]; do sleep 0.05; done
        sleep 0.5
    done
}

start_origin "$ORIGIN"
start_process sprat "$target/sprat" run -c "$work/sprat.yaml"
wait_for sprat "http://$PROXY/size/0/probe"
longest warm >/dev/null
echo 'longest_ms_without,longest_ms_with,delay_ms,reloads' >"$RESULTS/reloads.csv"
for _ in $(seq "$ROUNDS"); do
    without=$(longest without)
    before=$(reloads)
    rm -f "$work/over"
    keep_reloading &
    reloading=$!
    with=$(longest with)
    : >"$work/over"
    wait "$reloading"
    awk -v without="$without" -v with="$with" -v reloads=$(($(reloads) - before)) \
        'BEGIN { delay = with - without; printf "%s,%s,%.2f,%d\n", without, with, (delay > 0 ? delay : 0), reloads }' |
        tee -a "$RESULTS/reloads.csv"
done
delay=$(tail -n "$ROUNDS" "$RESULTS/reloads.csv" | cut -d , -f 3 | sort -n |
    awk '{ delay[NR] = $1 } END { print delay[int((NR + 1) / 2)] }')
count=$(awk -F , 'NR > 1 { n += $4 } END { print n + 0 }' "$RESULTS/reloads.csv")
[ "$count" -ge "$ROUNDS" ] || die "the load was over before there was a reload: raise REQUESTS"
say "load_ms=$load delay_ms=$delay reloads=$count"
say "Written: $RESULTS/reloads.csv"
awk -v load="$load" -v delay="$delay" -v load_bar="$LOAD_BAR_MS" -v delay_bar="$DELAY_BAR_MS" \
    'BEGIN { exit !(load + 0 <= load_bar + 0 && delay + 0 <= delay_bar + 0) }' ||
    die "over the bar of $LOAD_BAR_MS ms to load, or $DELAY_BAR_MS ms for a request"
