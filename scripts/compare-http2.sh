#!/usr/bin/env bash
# One trace over a few HTTP/2 connections that carry all of its requests, on one
# limited link: nginx and Sprat, one after the other; then the bounds and the
# report. The environment changes it:
#
#   UPLINK=10mbit LOAD=0.9 REQUESTS=18338 SEED=7 CONNECTIONS=20 RESULTS=results/compare-http2
#   SYSTEMS="nginx sprat-fair sprat-srpt"
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"
. "$ROOT/scripts/measure.sh"
. "$ROOT/scripts/lab.sh"

UPLINK=${UPLINK:-10mbit}
LOAD=${LOAD:-0.9}
REQUESTS=${REQUESTS:-18338}
SEED=${SEED:-7}
CONNECTIONS=${CONNECTIONS:-20}
RESULTS=${RESULTS:-results/compare-http2}
SYSTEMS=${SYSTEMS:-nginx sprat-fair sprat-srpt}

cd "$ROOT"
lab_needs nginx
lab_begin sprat-http2 compare-http2

# start SYSTEM: in the farm's namespace.
start() {
    local file=$work/$1.conf
    case $1 in
        nginx)
            lab_nginx http2 'http2_max_concurrent_streams 1000; keepalive_requests 1000000;' >"$file"
            start_process nginx nginx -c "$file"
            ;;
        sprat-*)
            # As many streams as the trace has open at a time: what waits should
            # wait for the link.
            lab_sprat "$UPLINK" "${1#sprat-}" pace 'http2: {max_concurrent_streams: 1000}' >"$file"
            start_process "$1" "$target/sprat" run -c "$file"
            ;;
        *) die "there is no system $1" ;;
    esac
    wait_ready "$1" "${pid_of[$1]}" "${within[@]}" \
        curl -fsS --http2-prior-knowledge --max-time 5 -o /dev/null "http://$FARM:8080/size/10/probe" ||
        die "$1 does not answer: $(cat "$work/$1.log")"
}

lab_up "$UPLINK"
start_origin "$LAB_ORIGINS"
lab_trace "$RESULTS" "$LOAD" keep
results=()
for system in $SYSTEMS; do
    lab_up "$UPLINK"
    start "$system"
    say "== $system, $CONNECTIONS HTTP/2 connections"
    lab_replay "$system" "$RESULTS" "$LOAD" --target "http://$FARM:8080" --http2 "$CONNECTIONS"
    stop_process "$system"
done
lab_bounds "$RESULTS" keep
lab_report "Response times on a $UPLINK link, $CONNECTIONS HTTP/2 connections"
