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
case " $SYSTEMS " in *" nginx "*) has nginx || die "nginx is missing: apt-get install nginx-light (and stop the service that it starts), or leave it out of SYSTEMS" ;; esac
lab_begin sprat-http2 compare-http2 sprat sprat-loadgen

# sprat_config POLICY
sprat_config() {
    cat <<YAML
version: 1
listeners:
  - address: $FARM:8080
    # As many as the trace has open at a time: what waits should wait for the link.
    http2: {max_concurrent_streams: 1000}
uplink:
  rate: $UPLINK
  policy: $1
clusters:
  farm:
    endpoints: [127.0.0.1:9101, 127.0.0.1:9102, 127.0.0.1:9103]
routes:
  - cluster: farm
YAML
}

# start SYSTEM: in the farm's namespace.
start() {
    local file=$work/$1.conf
    case $1 in
        nginx)
            lab_nginx http2 'http2_max_concurrent_streams 1000; keepalive_requests 1000000;' >"$file"
            start_process nginx nginx -c "$file"
            ;;
        sprat-*)
            sprat_config "${1#sprat-}" >"$file"
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
mkdir -p "$RESULTS"
trace=$RESULTS/trace.csv.gz
"$target/sprat-loadgen" gen --seed "$SEED" --requests "$REQUESTS" --uplink "$UPLINK" \
    --load "$LOAD" --connection keep -o "$trace"
results=()
for system in $SYSTEMS; do
    lab_up "$UPLINK"
    start "$system"
    say "== $system, $CONNECTIONS HTTP/2 connections"
    "${from[@]}" "$target/sprat-loadgen" replay --trace "$trace" --target "http://$FARM:8080" \
        --http2 "$CONNECTIONS" --name "$system" --seed "$SEED" --load "$LOAD" --uplink "$UPLINK" \
        -o "$RESULTS/$system.csv.gz"
    stop_process "$system"
    results+=("$RESULTS/$system.csv.gz")
done
"$target/sprat-loadgen" ideal --trace "$trace" --uplink "$UPLINK" --connection keep -o "$RESULTS"
results+=("$RESULTS/ideal-ps.csv" "$RESULTS/ideal-srpt.csv")
"$target/sprat-loadgen" report "${results[@]}" -o "$RESULTS" \
    --title "Response times on a $UPLINK link, $CONNECTIONS HTTP/2 connections"
say "The report: $RESULTS/index.html"
