#!/usr/bin/env bash
# Chen and Mohapatra's admission control (SDIS02, figures 12 and 13) end to end: four origins
# that serve one request at a time, each behind a queue of 100, and Sprat, which admits, chooses
# and lets wait; requests come in bursts. Figure 12, half of them of high priority, with a
# time-out of 60 s:
#
#   unprotected  one level: a full queue refuses both alike. With two levels Sprat displaces,
#                which the paper does not. Who goes first changes no queue's length
#   discarding   that, and early discard of low priority from half of the queues on
#   displacing   two levels, without early discard
#   psqf         two levels, early discard, the shortest queue of one's own level
#
# Figure 13: two levels, early discard, and a time-out of 2 s for all of a request, by the ratio
# of high priority. Loads are shares of what the origins can do. Mean service is the
# paper's 18 ms; what Sprat and sockets take beside is measured first, and taken off. Four
# systems are measured beside each other, each with origins of its own: they mostly wait.
# No root is needed. The environment changes it:
#
#   FIGURES="12 13" SEED=7 RESULTS=results/compare-admission
#   LOADS_12="0.8 1.0 1.25 1.5" DURATION_12_S=40
#   LOADS_13="0.5 0.7 0.8 0.9 1.0 1.25" DURATION_13_S=75 RATIOS="0.3 0.5 0.7 0.9"
#   ARRIVALS=bursts     or poisson, or a log as FILE.csv.gz (t_s,bytes,status,url)
#   MEDIA=traffic       or requests: the other reading of audio and video in its table 2
#   CALIBRATION_REQUESTS=2000
#
#   scripts/compare-admission.sh configuration LANE SYSTEM   prints Sprat's configuration
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"
. "$ROOT/scripts/measure.sh"

FIGURES=${FIGURES:-12 13}
LOADS_12=${LOADS_12:-0.8 1.0 1.25 1.5}
DURATION_12_S=${DURATION_12_S:-40}
LOADS_13=${LOADS_13:-0.5 0.7 0.8 0.9 1.0 1.25}
DURATION_13_S=${DURATION_13_S:-75}
RATIOS=${RATIOS:-0.3 0.5 0.7 0.9}
SEED=${SEED:-7}
ARRIVALS=${ARRIVALS:-bursts}
MEDIA=${MEDIA:-traffic}
RESULTS=${RESULTS:-results/compare-admission}
SYSTEMS_12='unprotected discarding displacing psqf'
LANES='1 2 3 4'
CALIBRATION_REQUESTS=${CALIBRATION_REQUESTS:-2000}
# The shortest service is 9 ms: with much more beside it, delays could not make up for it.
OVERHEAD_MS_MAX=4

# proxy LANE, origins LANE: addresses.
proxy() { printf '127.0.0.1:98%d8' "$1"; }
origins() {
    local each
    for each in 1 2 3 4; do printf '127.0.0.1:98%d%d ' "$1" "$each"; done
}

# configuration LANE SYSTEM
configuration() {
    local endpoints high='level: 1' low='level: 3' discard=', early_discard: {from: 0.5, to: 0.75}'
    local dispatch=least_request timeout=60s
    case $2 in
        unprotected) high='level: 3' discard='' ;;
        discarding) high='level: 3' ;;
        displacing) discard='' ;;
        psqf) dispatch=psqf ;;
        timeout) timeout=2s ;;
        *) die "there is no system $2: $SYSTEMS_12 timeout" ;;
    esac
    endpoints=$(origins "$1")
    endpoints=${endpoints% }
    cat <<YAML
version: 1
admin: off
runtime: {workers: 1}
listeners: [{address: "$(proxy "$1")"}]
uplink: {rate: unlimited}
access_log: {path: "${work:-.}/sprat-$1.access.log", format: {text: '%PATH(NQ)% %RESPONSE_CODE_DETAILS%'}}
classes:
  high: {$high, queue_timeout: $timeout}
  low: {$low, queue_timeout: $timeout$discard}
class_rules:
  - {match: {extensions: [high]}, class: high}
  - {match: {extensions: [low]}, class: low}
clusters:
  farm:
    endpoints: [${endpoints// /, }]
    dispatch: $dispatch
    max_requests: 1
    wait_queue: {order: fcfs, scope: endpoint, max_requests: 100, timeout: $timeout}
    outlier_detection: off
routes: [{cluster: farm, timeout: $timeout}]
YAML
}

if [ "${1:-}" = configuration ]; then
    configuration "$2" "$3"
    exit
fi

# start LANE SYSTEM: a fresh Sprat.
start() {
    configuration "$1" "$2" >"$work/sprat-$1.yaml"
    rm -f "$work/sprat-$1.access.log"
    start_process "sprat-$1" "$target/sprat" run -c "$work/sprat-$1.yaml"
    wait_for "sprat-$1" "http://$(proxy "$1")/size/10/probe.high"
}

# replay_beside RUN TRACE: a run of each lane, at the same time. Both are prefixes of files,
# which the number of the lane completes.
replay_beside() {
    local lane pid pids=()
    for lane in $LANES; do
        replay "lane-$lane" --trace "$2-$lane.csv.gz" --target "http://$(proxy "$lane")" \
            --timeout 2m "${@:3}" -o "$1-$lane.csv.gz" &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do
        wait "$pid" || die "a replay failed"
    done
}

# calibrate: into $overhead_ms, what a server takes for a request beside its delay.
calibrate() {
    local lane
    for lane in $LANES; do
        python3 scripts/admission.py calibration "$work/calibration-$lane.csv.gz" "$CALIBRATION_REQUESTS"
        start "$lane" unprotected
    done
    # Enough clients that no server is ever idle.
    replay_beside "$work/calibrated" "$work/calibration" --closed 16
    overhead_ms=$(python3 scripts/admission.py overhead "$CALIBRATION_REQUESTS" 4 "$work"/calibrated-?.csv.gz)
    say "A request takes $overhead_ms ms beside its service"
    awk -v found="$overhead_ms" -v most="$OVERHEAD_MS_MAX" 'BEGIN { exit found > most }' ||
        die "that is more than $OVERHEAD_MS_MAX ms: this machine does too much else"
}

# measure FIGURE LOAD DURATION_S: four systems beside each other.
measure() {
    local lane=0 system name systems ratio
    if [ "$1" = 12 ]; then systems=$SYSTEMS_12; else systems=$RATIOS; fi
    say "== figure $1, load $2"
    for system in $systems; do
        lane=$((lane + 1))
        if [ "$1" = 12 ]; then ratio=0.5; else ratio=$system; fi
        python3 scripts/admission.py trace "$work/trace-$lane.csv.gz" "$2" "$ratio" "$3" "$SEED" \
            "$overhead_ms" "$ARRIVALS" "$MEDIA"
        if [ "$1" = 12 ]; then start "$lane" "$system"; else start "$lane" timeout; fi
    done
    replay_beside "$work/run" "$work/trace" --seed "$SEED" --load "$2"
    lane=0
    for system in $systems; do
        lane=$((lane + 1)) name=$1-$2-$system
        # It writes the last lines of its log.
        stop_process "sprat-$lane" 30
        mv "$work/run-$lane.csv.gz" "$RESULTS/$name.csv.gz"
        mv "$work/sprat-$lane.access.log" "$RESULTS/$name.log"
        printf '%s,%s,%s,%s\n' "$1" "$2" "$system" "$name" >>"$RESULTS/runs.csv"
    done
}

case $ARRIVALS in
    bursts | poisson) ;;
    *)
        [ -e "$ARRIVALS" ] || die "there is no $ARRIVALS: ARRIVALS is bursts, poisson or a log"
        ARRIVALS=$(realpath -- "$ARRIVALS")
        ;;
esac
cd "$ROOT"
case $MEDIA in traffic | requests) ;; *) die "MEDIA is traffic or requests" ;; esac
[ "$(wc -w <<<"$RATIOS")" = 4 ] || die "RATIOS are four, one for each of the four systems that run beside each other"
need python3 python3
measure_begin
mkdir -p "$RESULTS"
every_origin=''
for each in $LANES; do every_origin+=$(origins "$each"); done
start_origin "$every_origin"
calibrate
printf 'figure,load,system,name\n' >"$RESULTS/runs.csv"
for each in $FIGURES; do
    case $each in
        12) loads=$LOADS_12 duration_s=$DURATION_12_S ;;
        13) loads=$LOADS_13 duration_s=$DURATION_13_S ;;
        *) die "there is no figure $each: 12, 13" ;;
    esac
    for load in $loads; do measure "$each" "$load" "$duration_s"; done
done
python3 scripts/admission.py summary "$RESULTS"
column -s , -t "$RESULTS/points.csv"
column -s , -t "$RESULTS/summary.csv"
say "Written: $RESULTS/summary.csv"
