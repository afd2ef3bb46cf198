#!/usr/bin/env bash
# What slow readers cost those who share a backend with them that serves one request at a
# time: READERS clients ask for BYTES each and read nothing, while one normal client asks
# for small responses. Its mean time may be 1.2 of what it is without them, the smaller of
# before and after; of several rounds the one in the middle counts. Once with responses
# buffered in memory, once in files. The environment changes it:
#
#   READERS=50 BYTES=1000000 REQUESTS=5000 ROUNDS=5 BAR=1.2 RESULTS=results/buffering
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"
. "$ROOT/scripts/measure.sh"

READERS=${READERS:-50}
BYTES=${BYTES:-1000000}
REQUESTS=${REQUESTS:-5000}
ROUNDS=${ROUNDS:-5}
BAR=${BAR:-1.2}
RESULTS=${RESULTS:-results/buffering}
ORIGIN=127.0.0.1:9241
PROXY=127.0.0.1:9248
ADMIN=127.0.0.1:9249
# All readers' responses are at the proxy by then.
READ_WITHIN_S=60

cd "$ROOT"
need python3 python3
measure_begin
mkdir -p "$RESULTS"
cores_awake

# start_sprat BUFFER
start_sprat() {
    stop_process sprat
    require_free "${PROXY##*:}"
    cat >"$work/sprat.yaml" <<YAML
version: 1
runtime: {workers: 1}
admin: {address: $ADMIN}
listeners: [{address: $PROXY, min_rates: off, stream_idle_timeout: 10m}]
uplink: {rate: 1gbit}
clusters:
  one_worker: {endpoints: [$ORIGIN], max_requests: 1}
buffer: {response: $1, max_total_memory: 128MB}
routes: [{cluster: one_worker}]
YAML
    start_process sprat "${sprat_core[@]}" "$target/sprat" run -c "$work/sprat.yaml"
    wait_for sprat "http://$PROXY/size/10/probe"
}

# value NAME: of a metric, now.
value() {
    curl -fsS --retry 5 --retry-connrefused --retry-delay 1 -o "$work/metrics" "http://$ADMIN/metrics" ||
        die "the metrics cannot be read"
    awk -v name="$1" '$1 == name { value = $2 } END { print int(value) }' "$work/metrics"
}

cat >"$work/readers.py" <<'PYTHON'
"""Connections that ask for a response and read nothing of it."""
import socket
import sys
import time

host, port, count, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
held = []
for number in range(count):
    reader = socket.socket()
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    reader.connect((host, port))
    reader.sendall(f"GET /size/{size}/{number} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    held.append(reader)
time.sleep(3600)
PYTHON

awk -v count="$REQUESTS" \
    'BEGIN { print "t_s,bytes,path"; for (i = 0; i < count; i++) printf "0,1000,/size/1000/%d\n", i % 100 }' >"$work/trace.csv"

# mean: of a normal client's response times, in milliseconds.
mean() {
    replay normal --trace "$work/trace.csv" --closed 1 --connection keep --target "http://$PROXY" -o "$work/normal.csv.gz"
    [ "$(failures "$work/normal.csv.gz")" = 0 ] || die "requests of the normal client failed: $(cat "$work/replay-normal.log")"
    times "$work/normal.csv.gz" | awk '{ sum += $2 } END { printf "%.4f\n", sum / NR }'
}

# round KIND: one measurement, as a line of CSV; its last field is the ratio.
round() {
    local before with after ended tenths
    before=$(mean)
    ended=$(value sprat_buffered_early_ends_total)
    start_process readers python3 "$work/readers.py" "${PROXY%:*}" "${PROXY##*:}" "$READERS" "$BYTES"
    tenths=$((READ_WITHIN_S * 10))
    until [ $(($(value sprat_buffered_early_ends_total) - ended)) -ge "$READERS" ]; do
        [ "$tenths" -gt 0 ] || die "the backend is not done with the readers' responses"
        tenths=$((tenths - 1))
        sleep 0.1
    done
    with=$(mean)
    [ "$(value sprat_open_requests)" -ge "$READERS" ] || die "the readers have left"
    stop_process readers
    until [ "$(value sprat_open_requests)" -le 1 ]; do sleep 0.1; done
    after=$(mean)
    awk -v what="$1,$READERS" -v before="$before" -v after="$after" -v with="$with" \
        'BEGIN { without = before < after ? before : after
            printf "%s,%s,%s,%s,%.2f\n", what, before, with, after, with / without }'
}

start_origin "$ORIGIN"
failed=0
echo 'buffer,readers,mean_ms_before,mean_ms_with,mean_ms_after,ratio' >"$RESULTS/latency.csv"
for kind in memory file; do
    case $kind in
        memory) start_sprat '{memory: 2MB}' ;;
        file) start_sprat "{memory: 64KB, file: {path: $work}}" ;;
    esac
    mean >/dev/null
    for _ in $(seq "$ROUNDS"); do
        round "$kind" >"$work/round.csv"
        tee -a "$RESULTS/latency.csv" <"$work/round.csv"
    done
    ratio=$(tail -n "$ROUNDS" "$RESULTS/latency.csv" | awk -F , '{ print $NF }' | sort -n |
        awk '{ ratio[NR] = $1 } END { print ratio[int((NR + 1) / 2)] }')
    say "buffer in $kind: $ratio"
    awk -v ratio="$ratio" -v bar="$BAR" 'BEGIN { exit !(ratio <= bar) }' || {
        warn "buffer in $kind: over the bar of $BAR"
        failed=1
    }
done
say "Written: $RESULTS/latency.csv"
[ "$failed" = 0 ] || die "slow readers cost the others too much"
