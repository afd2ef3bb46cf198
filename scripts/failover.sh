#!/usr/bin/env bash
# What clients notice when one of four endpoints fails under load: it is killed,
# stalls (SIGSTOP), or answers 500 to everything, and recovers after a while. Over
# real sockets on the loopback interface, a new connection for each request.
#
# The bar, for each fault: from one second after it on, at most one request in a
# thousand fails, and once it has recovered the endpoint gets requests again by
# itself. The environment changes it:
#
#   FAULTS="killed stalled errors" RATE=500 SEED=7 RESULTS=results/failover
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"

FAULTS=${FAULTS:-killed stalled errors}
# Requests a second.
RATE=${RATE:-500}
SEED=${SEED:-7}
RESULTS=${RESULTS:-results/failover}
PROXY=127.0.0.1:9318
ADMIN=127.0.0.1:9319
PORTS=(9311 9312 9313 9314)
# Seconds from the start of the load: the fault, its end, the end of the load.
FAULT_AT=3
RECOVERS_AT=8
ENDS_AT=16
READY_WITHIN_S=10

# A mean request of the workload on the wire (`gen` states loads in it).
MEAN_WIRE_BYTES=6053

cd "$ROOT"
need curl curl
need python3 python3
build_programs
work=$(mktemp -d)
mkdir -p "$RESULTS"
origin_pids=() sprat_pid='' errors_pid='' replay_pid=''
finish() {
    local status=$? pid
    trap - EXIT
    for pid in "${origin_pids[@]}"; do
        kill -CONT "$pid" 2>/dev/null || true
    done
    for pid in $replay_pid $sprat_pid $errors_pid "${origin_pids[@]}"; do
        stop_pid "$pid" 5
    done
    rm -rf "$work"
    exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
ulimit -n "$(ulimit -H -n)"

# wait_for WHAT COMMAND...
wait_for() {
    local what=$1 tenths=$((READY_WITHIN_S * 10))
    shift
    until "$@"; do
        [ "$tenths" != 0 ] || die "waited in vain for $what"
        tenths=$((tenths - 1))
        sleep 0.1
    done
}

# start_origin INDEX
start_origin() {
    "$target/sprat-loadgen" origin --listen "127.0.0.1:${PORTS[$1]}" \
        >"$work/origin-$1.log" 2>&1 &
    origin_pids[$1]=$!
    wait_for "origin $1" listening "${PORTS[$1]}"
}

# In place of the first origin: 500, whatever is asked.
start_errors() {
    python3 - "${PORTS[0]}" >"$work/errors.log" 2>&1 <<'PYTHON' &
import http.server
import sys


class Errors(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(500)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments):
        pass


http.server.ThreadingHTTPServer.request_queue_size = 1024
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Errors).serve_forever()
PYTHON
    errors_pid=$!
}

kill_origin() {
    kill -KILL "${origin_pids[0]}"
    wait "${origin_pids[0]}" 2>/dev/null || true
}

begin_fault() {
    case $1 in
        killed) kill_origin ;;
        stalled) kill -STOP "${origin_pids[0]}" ;;
        errors)
            kill_origin
            start_errors
            ;;
        *) die "there is no fault $1: killed, stalled, errors" ;;
    esac
}

end_fault() {
    case $1 in
        killed) start_origin 0 ;;
        stalled) kill -CONT "${origin_pids[0]}" ;;
        errors)
            stop_pid "$errors_pid" 5
            errors_pid=''
            start_origin 0
            ;;
    esac
}

start_sprat() {
    cat >"$work/sprat.yaml" <<YAML
version: 1
admin: {address: "$ADMIN"}
listeners: [{address: "$PROXY"}]
uplink: {rate: unlimited}
clusters:
  farm:
    endpoints: [$(printf '127.0.0.1:%s, ' "${PORTS[@]}" | sed 's/, $//')]
    connect_timeout: 500ms
    outlier_detection: {base_ejection_time: 2s}
    health_checks:
      http_health_check: {path: /size/0/health}
      interval: 500ms
      timeout: 300ms
      unhealthy_threshold: 1
    slow_start: 2s
routes:
  - cluster: farm
    retry_policy:
      retry_on: [connect-failure, refused-stream, reset, 5xx]
      per_try_timeout: 300ms
YAML
    "$target/sprat" run -c "$work/sprat.yaml" >"$work/sprat.log" 2>&1 &
    sprat_pid=$!
    wait_for sprat curl -fsS --max-time 5 -o /dev/null "http://$PROXY/size/0/probe"
}

# The value of a metric of the first endpoint.
of_first() {
    curl -fsS --max-time 5 "http://$ADMIN/metrics" |
        awk -v name="sprat_$1{" -v endpoint="127.0.0.1:${PORTS[0]}" \
            'index($1, name) == 1 && index($1, endpoint) { print $2 }'
}
all_used() { [ "$(of_first endpoint_used)" = 1 ]; }

# one FAULT: measures it; a line of the table.
one() {
    local fault=$1 before after index
    for index in "${!PORTS[@]}"; do
        start_origin "$index"
    done
    start_sprat
    "$target/sprat-loadgen" replay --trace "$work/trace.csv.gz" --target "http://$PROXY" \
        --name "$fault" --seed "$SEED" -o "$RESULTS/$fault.csv.gz" >"$work/replay.log" 2>&1 &
    replay_pid=$!
    sleep "$FAULT_AT"
    begin_fault "$fault"
    sleep $((RECOVERS_AT - FAULT_AT))
    end_fault "$fault"
    wait_for "the endpoint to be used again" all_used
    before=$(of_first upstream_requests_total)
    wait "$replay_pid" || { cat "$work/replay.log" >&2; die "the replay failed"; }
    replay_pid=''
    after=$(of_first upstream_requests_total)
    zcat "$RESULTS/$fault.csv.gz" | awk -F , -v fault="$fault" -v at="$FAULT_AT" \
        -v served=$((after - before)) '
        NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
        {
            failed = $column["error"] != ""
            began = $column["start_s"]
            if (began >= at + 1) { later++; later_failed += failed }
            else if (began >= at) { first++; first_failed += failed }
            else if (failed) early_failed++
        }
        END {
            ok = !early_failed && later_failed <= later / 1000 && served > 0
            printf "%s,%d,%d,%d,%d,%d,%s\n", fault, first, first_failed, later, later_failed,
                served, ok ? "yes" : "no"
        }' | tee -a "$RESULTS/summary.csv"
    for index in "${!PORTS[@]}"; do
        stop_pid "${origin_pids[$index]}" 5
    done
    origin_pids=()
    stop_pid "$sprat_pid" 5
    sprat_pid=''
}

"$target/sprat-loadgen" gen --seed "$SEED" --requests $((RATE * ENDS_AT)) \
    --uplink "$((RATE * MEAN_WIRE_BYTES * 8 / 1000))kbit" --load 1 \
    -o "$work/trace.csv.gz" >"$work/gen.log" 2>&1 || { cat "$work/gen.log" >&2; die "no trace"; }
say "Requests, and of them failed, in the first second of the fault and later;"
say "requests that the endpoint got once it had recovered; whether the bar is passed"
printf 'fault,first_second,failed,later,failed,served_again,passed\n' | tee "$RESULTS/summary.csv"
for fault in $FAULTS; do
    one "$fault"
done
say "Written: $RESULTS/summary.csv"
! grep -q ',no$' "$RESULTS/summary.csv" || die "the bar is not passed"
