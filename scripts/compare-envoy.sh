#!/usr/bin/env bash
# One trace on one limited link, in the lab: Envoy alone, with its own bandwidth
# limit, with Sprat's dynamic module (one worker and two), with Sprat's proxy-wasm
# filter, and Sprat itself; then the bounds and the report. The environment
# changes it:
#
#   UPLINK=10mbit RATE=10mbit (what the filters pace at) LOAD=0.9 REQUESTS=18338 SEED=7 RESULTS=results/compare-envoy
#   SYSTEMS="envoy envoy-buffers envoy-limit-1150 module-1 module-2 wasm-1 wasm-2 wasm-bodies-1 wasm-bodies-2 sprat"
#
# wasm holds the heads of responses, wasm-bodies their bodies too.
# envoy-buffers is Envoy with the small buffers that the wasm filter is given;
# envoy-limit-N its bandwidth limit at N KiB/s, for all responses together;
# the number after a filter is that of Envoy's workers.
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"
. "$ROOT/scripts/measure.sh"
. "$ROOT/scripts/lab.sh"
. "$ROOT/scripts/envoy.sh"

UPLINK=${UPLINK:-10mbit}
RATE=${RATE:-$UPLINK}
LOAD=${LOAD:-0.9}
REQUESTS=${REQUESTS:-18338}
SEED=${SEED:-7}
RESULTS=${RESULTS:-results/compare-envoy}
SYSTEMS=${SYSTEMS:-envoy envoy-buffers envoy-limit-1100 envoy-limit-1150 module-1 module-2 wasm-1 wasm-2 wasm-bodies-1 wasm-bodies-2 sprat}
WORKERS=2
ADMIN=127.0.0.1:9901

cd "$ROOT"
lab_begin sprat-envoy compare-envoy
# shellcheck disable=SC2086  # systems are words
envoy_prepare $SYSTEMS

# start SYSTEM: in the farm's namespace.
start() {
    local kind=none config='' workers=$WORKERS tuning
    case $1 in
        sprat)
            lab_sprat "$UPLINK" srpt >"$work/sprat.yaml"
            start_process sprat "$target/sprat" run -c "$work/sprat.yaml"
            wait_for sprat "http://$FARM:8080/size/10/probe"
            return
            ;;
        envoy) ;;
        envoy-buffers) tuning=wasm ;;
        envoy-limit-*) kind=limit config=${1##*-} ;;
        module-* | wasm-*)
            kind=${1%%-*} workers=${1##*-}
            config="{\"uplink\": {\"rate\": \"$RATE\", \"policy\": \"srpt\"}}"
            ;;&
        wasm-bodies-*)
            # Chunks are as small as the module wants them.
            tuning=module
            config="{\"uplink\": {\"rate\": \"$RATE\", \"policy\": \"srpt\", \"hold\": \"bodies\"}}"
            ;;
        module-* | wasm-*) ;;
        *) die "there is no system $1" ;;
    esac
    envoy_config "$FARM:8080" "$ADMIN" 'cluster: farm' "$(envoy_filter "$kind" "$config")" \
        "$(envoy_cluster farm "$LAB_ORIGINS" "$(envoy_cluster_tuning "${tuning:-$kind}")")" \
        "$(envoy_tuning "${tuning:-$kind}")" "delayed_close_timeout: 10s," >"$work/envoy.yaml"
    envoy_start "$workers"
    wait_for envoy "http://$FARM:8080/size/10/probe"
}

directory=$RESULTS/load-$LOAD
lab_trace "$directory" "$LOAD" new
lab_up "$UPLINK"
start_origin "$LAB_ORIGINS"

results=()
for system in $SYSTEMS; do
    lab_up "$UPLINK"
    start "$system"
    say "== $system at $LOAD"
    lab_replay "$system" "$directory" "$LOAD" --target "http://$FARM:8080"
    stop_process sprat
    stop_process envoy
done
lab_bounds "$directory" new
lab_report "Envoy on a $UPLINK link, alone and with Sprat's filters"
