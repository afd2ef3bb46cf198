#!/usr/bin/env bash
# One trace on one limited link, in the lab: Envoy alone, with its own bandwidth
# limit, with Sprat's dynamic module (one worker and two), with Sprat's proxy-wasm
# filter, and Sprat itself; then the bounds and the report. The environment
# changes it:
#
#   UPLINK=10mbit RATE=10mbit (what the filters pace at) LOAD=0.9 REQUESTS=18338 SEED=7 RESULTS=results/compare-envoy
#   SYSTEMS="envoy envoy-limit-1150 module-1 module-2 wasm-1 wasm-2 sprat"
#
# envoy-limit-N is Envoy's bandwidth limit at N KiB/s, for all responses together;
# the number after a filter is that of Envoy's workers.
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"
. "$ROOT/scripts/envoy.sh"

UPLINK=${UPLINK:-10mbit}
RATE=${RATE:-$UPLINK}
LOAD=${LOAD:-0.9}
REQUESTS=${REQUESTS:-18338}
SEED=${SEED:-7}
RESULTS=${RESULTS:-results/compare-envoy}
SYSTEMS=${SYSTEMS:-envoy envoy-limit-1100 envoy-limit-1150 module-1 module-2 wasm-1 wasm-2 sprat}
WORKERS=2
LAB=sprat-envoy
FARM=198.18.0.1
ADMIN=127.0.0.1:9901
ORIGINS='127.0.0.1:9101 127.0.0.1:9102 127.0.0.1:9103'
READY_WITHIN_S=20

cd "$ROOT"
[ "$(id -u)" = 0 ] || die "the lab is made of network namespaces, which needs root: sudo make compare-envoy"
need ip iproute2
need ethtool ethtool
need curl curl
ulimit -n "$(ulimit -H -n)"
cargo build --release --locked --quiet -p sprat -p sprat-loadgen
# shellcheck disable=SC2086  # systems are words
envoy_prepare $SYSTEMS
work=$(mktemp -d)
origin_pid='' system_pid=''

in_farm() { ip netns exec "$LAB-farm" "$@"; }
# For `&`: it becomes the command, so that `$!` is the command's own pid.
become_in_farm() { exec ip netns exec "$LAB-farm" "$@"; }
in_client() { ip netns exec "$LAB-client" "$@"; }

finish() {
    local status=$?
    trap - EXIT
    [ -z "$system_pid" ] || stop_pid "$system_pid" 5
    [ -z "$origin_pid" ] || stop_pid "$origin_pid" 5
    "$target/sprat-loadgen" lab down --name "$LAB" >/dev/null 2>&1 || true
    rm -rf "$work"
    exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# wait_for ADDRESS:PORT NAME PID: asked in the farm, where the link is not in
# the way.
wait_for() {
    local tenths=$((READY_WITHIN_S * 10))
    until in_farm curl -fsS --max-time 1 -o /dev/null "http://$1/size/10/probe" 2>/dev/null; do
        if [ "$tenths" = 0 ] || ! kill -0 "$3" 2>/dev/null; then
            cat "$work/$2.log" >&2
            die "$2 does not answer at $1"
        fi
        tenths=$((tenths - 1))
        sleep 0.1
    done
}

sprat_config() {
    cat <<YAML
version: 1
listeners: [{address: "$FARM:8080"}]
uplink: {rate: $UPLINK, policy: srpt}
clusters: {farm: {endpoints: [${ORIGINS// /, }]}}
routes: [{cluster: farm}]
YAML
}

# start SYSTEM: in the farm's namespace, as $system_pid.
start() {
    local kind=none config='' workers=$WORKERS
    case $1 in
        sprat)
            sprat_config >"$work/sprat.yaml"
            become_in_farm "$target/sprat" run -c "$work/sprat.yaml" >"$work/$1.log" 2>&1 &
            system_pid=$!
            wait_for "$FARM:8080" "$1" "$system_pid"
            return
            ;;
        envoy) ;;
        envoy-limit-*) kind=limit config=${1##*-} ;;
        module-* | wasm-*)
            kind=${1%-*} workers=${1##*-}
            config="{\"uplink\": {\"rate\": \"$RATE\", \"policy\": \"srpt\"}}"
            ;;
        *) die "there is no system $1" ;;
    esac
    envoy_config "$FARM:8080" "$ADMIN" 'cluster: farm' "$(envoy_filter "$kind" "$config")" \
        "$(envoy_cluster farm "$ORIGINS" "$(envoy_cluster_tuning "$kind")")" \
        "$(envoy_tuning "$kind")" "delayed_close_timeout: 10s," >"$work/envoy.yaml"
    become_in_farm "$envoy" -c "$work/envoy.yaml" --concurrency "$workers" --disable-hot-restart \
        --log-level warn >"$work/$1.log" 2>&1 &
    system_pid=$!
    wait_for "$FARM:8080" "$1" "$system_pid"
}

directory=$RESULTS/load-$LOAD
mkdir -p "$directory"
trace=$directory/trace.csv.gz
"$target/sprat-loadgen" gen --seed "$SEED" --requests "$REQUESTS" --uplink "$UPLINK" --load "$LOAD" -o "$trace"
"$target/sprat-loadgen" lab up --name "$LAB" --rate "$UPLINK"
# shellcheck disable=SC2086  # addresses are words
become_in_farm "$target/sprat-loadgen" origin ${ORIGINS//127/--listen 127} >"$work/origin.log" 2>&1 &
origin_pid=$!
wait_for "${ORIGINS##* }" origin "$origin_pid"

results=()
for system in $SYSTEMS; do
    # A fresh queue for each: nothing of the last one stands in it.
    "$target/sprat-loadgen" lab up --name "$LAB" --rate "$UPLINK" >/dev/null
    start "$system"
    say "== $system at $LOAD"
    in_client "$target/sprat-loadgen" replay --trace "$trace" --target "http://$FARM:8080" \
        --name "$system" --seed "$SEED" --load "$LOAD" --uplink "$UPLINK" -o "$directory/$system.csv.gz"
    stop_pid "$system_pid" 5
    system_pid=''
    results+=("$directory/$system.csv.gz")
done
"$target/sprat-loadgen" ideal --trace "$trace" --uplink "$UPLINK" -o "$directory"
results+=("$directory/ideal-ps.csv" "$directory/ideal-srpt.csv")
"$target/sprat-loadgen" report "${results[@]}" -o "$RESULTS" \
    --title "Envoy on a $UPLINK link, alone and with Sprat's filters"
say "The report: $RESULTS/index.html"
