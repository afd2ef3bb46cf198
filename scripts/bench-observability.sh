#!/usr/bin/env bash
# What it costs to be watched: CPU time per request with everything on (access log in JSON,
# metrics that are scraped, the counterfactual, dashboards that are open, traces at 1%),
# over that with all of it off. Two Sprats of one worker each, on the loopback interface, in
# front of the same origin; one pair of runs after the other, each in the other order than
# the one before, and the ratio is the median of the pairs'. Both pace at a rate that holds
# nothing back: without a rate there is no counterfactual. The environment changes it:
#
#   PAIRS=9 REQUESTS=60000 CLIENTS=32 SIZE=10000 DASHBOARDS=3 RESULTS=results/bench-observability
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"
. "$ROOT/scripts/measure.sh"

PAIRS=${PAIRS:-9}
REQUESTS=${REQUESTS:-60000}
CLIENTS=${CLIENTS:-32}
SIZE=${SIZE:-10000}
DASHBOARDS=${DASHBOARDS:-3}
RATE=${RATE:-100gbit}
RESULTS=${RESULTS:-results/bench-observability}
ORIGIN=127.0.0.1:9221
OFF=127.0.0.1:9222 ON=127.0.0.1:9223 ADMIN=127.0.0.1:9224

cd "$ROOT"
need h2load nghttp2-client
measure_begin
mkdir -p "$RESULTS"

# config LISTENER COUNTERFACTUAL: what both have.
config() {
    cat <<YAML
version: 1
runtime: {workers: 1}
listeners: [{address: $1}]
uplink: {rate: $RATE, counterfactual: $2}
clusters: {farm: {endpoints: [$ORIGIN]}}
routes: [{cluster: farm}]
YAML
}
{
    config "$OFF" false
    echo "admin: off"
} >"$work/off.yaml"
{
    config "$ON" true
    cat <<YAML
admin: {address: $ADMIN}
access_log: {path: $work/access.log, format: json}
tracing:
  otlp: {endpoint: "http://$ORIGIN/size/0/traces", sampling: 1%, schedule_delay: 1s}
YAML
} >"$work/on.yaml"

start_origin "$ORIGIN"
for system in off on; do
    start_process "$system" "$target/sprat" run -c "$work/$system.yaml"
done
wait_for off "http://$OFF/size/10/probe"
wait_for on "http://$ON/size/10/probe"
for ((i = 0; i < DASHBOARDS; i++)); do
    start_process "dashboard-$i" curl -sSN -o /dev/null "http://$ADMIN/events"
done
start_process scraper bash -c "while curl -fsS -o /dev/null http://$ADMIN/metrics; do sleep 1; done"

# measure SYSTEM ADDRESS: microseconds of CPU time per request, the kernel's included.
measure() {
    local before after log=$work/h2load-$1.log
    before=$(cpu_ms "${pid_of[$1]}")
    h2load --h1 -t 1 -c "$CLIENTS" -n "$REQUESTS" "http://$2/size/$SIZE/a" >"$log" 2>&1 ||
        die "h2load failed: $(cat "$log")"
    after=$(cpu_ms "${pid_of[$1]}")
    grep -q " $REQUESTS succeeded, 0 failed" "$log" || die "requests failed: $(cat "$log")"
    awk -v ms=$((after - before)) -v n="$REQUESTS" 'BEGIN { printf "%.2f", ms * 1000 / n }'
}

# Neither begins with cold connections to the origin.
for pair in "off $OFF" "on $ON"; do
    read -r system address <<<"$pair"
    measure "$system" "$address" >/dev/null
done
echo "pair,off_us,on_us,ratio" >"$RESULTS/pairs.csv"
for ((pair = 1; pair <= PAIRS; pair++)); do
    if ((pair % 2)); then
        off=$(measure off "$OFF")
        on=$(measure on "$ON")
    else
        on=$(measure on "$ON")
        off=$(measure off "$OFF")
    fi
    awk -v p="$pair" -v off="$off" -v on="$on" \
        'BEGIN { printf "%d,%s,%s,%.4f\n", p, off, on, on / off }' >>"$RESULTS/pairs.csv"
    tail -n 1 "$RESULTS/pairs.csv"
done

# What is measured was on. The last spans wait for others for a second.
sleep 2
metrics=$(curl -fsS "http://$ADMIN/metrics")
[ -s "$work/access.log" ] || die "there is no access log"
grep -q '^sprat_traces_exported_total [1-9]' <<<"$metrics" || die "no span was sent"

median() { tail -n +2 "$RESULTS/pairs.csv" | cut -d , -f "$1" | sort -g | sed -n "$(((PAIRS + 1) / 2))p"; }
ratio=$(median 4)
say
say "CPU time per request of $SIZE B, medians of $PAIRS pairs: off $(median 2) us, on $(median 3) us, ratio $ratio"
say "Written: $RESULTS/pairs.csv"
if [ "${BAR:-1.03}" != 0 ]; then
    awk -v ratio="$ratio" -v bar="${BAR:-1.03}" 'BEGIN { exit !(ratio <= bar) }' ||
        die "to be watched costs more than ${BAR:-1.03}"
fi
