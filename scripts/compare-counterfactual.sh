#!/usr/bin/env bash
# What Sprat tells that `fair` would take, against Sprat under `fair`: the same trace
# through both on one limited link, one after the other, at several loads. The
# environment changes it:
#
#   UPLINK=10mbit LOADS="0.5 0.7 0.9" REQUESTS=18338 SEED=7 RESULTS=results/compare-counterfactual
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"
. "$ROOT/scripts/measure.sh"
. "$ROOT/scripts/lab.sh"

UPLINK=${UPLINK:-10mbit}
LOADS=${LOADS:-0.5 0.7 0.9}
REQUESTS=${REQUESTS:-18338}
SEED=${SEED:-7}
RESULTS=${RESULTS:-results/compare-counterfactual}
ADMIN=127.0.0.1:9900

cd "$ROOT"
need python3 python3
lab_begin sprat-fair compare-counterfactual

# start POLICY: in the farm's namespace, which has its own 127.0.0.1.
start() {
    lab_sprat "$UPLINK" "$1" >"$work/sprat-$1.yaml"
    echo "admin: {address: $ADMIN}" >>"$work/sprat-$1.yaml"
    start_process "sprat-$1" "$target/sprat" run -c "$work/sprat-$1.yaml"
    wait_for "sprat-$1" "http://$FARM:8080/size/10/probe"
}

# told DIRECTORY NAME: a number of what Sprat told since its start.
told() {
    python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["gain"]["since_start"][sys.argv[2]])' \
        "$1/gain.json" "$2"
}

lab_up "$UPLINK"
start_origin "$LAB_ORIGINS"
results=()
mkdir -p "$RESULTS"
told=$RESULTS/told.csv
echo "load,srpt_ms,told_srpt_ms,fair_ms,told_fair_ms,gain,told_gain,fair_off_percent,failed" >"$told"
for load in $LOADS; do
    directory=$RESULTS/load-$load
    lab_trace "$directory" "$load" new
    for policy in fair srpt; do
        lab_up "$UPLINK"
        start "$policy"
        say "== sprat-$policy at $load"
        lab_replay "sprat-$policy" "$directory" "$load" --target "http://$FARM:8080"
        [ "$policy" != srpt ] ||
            "${within[@]}" curl -fsS --max-time 5 -o "$directory/gain.json" "http://$ADMIN/gain"
        stop_process "sprat-$policy"
    done
    failed=$(($(failures "$directory/sprat-fair.csv.gz") + $(failures "$directory/sprat-srpt.csv.gz")))
    awk -v load="$load" -v failed="$failed" \
        -v srpt="$(mean_ms "$directory/sprat-srpt.csv.gz")" -v fair="$(mean_ms "$directory/sprat-fair.csv.gz")" \
        -v told_srpt="$(told "$directory" mean_ms)" -v told_fair="$(told "$directory" fair_mean_ms)" \
        'BEGIN { printf "%s,%.2f,%.2f,%.2f,%.2f,%.2f,%.2f,%.1f,%d\n", load, srpt, told_srpt, fair,
            told_fair, fair / srpt, told_fair / told_srpt, (told_fair / fair - 1) * 100, failed }' >>"$told"
done
lab_report "What Sprat tells of fair, and fair, on a $UPLINK link"
say "Means in ms, by the client and as told by Sprat:"
column -s , -t "$told" >&2
