#!/usr/bin/env bash
# How soon `rate: auto` knows what the host's link carries, in the lab: the rate that Sprat
# tells is read ten times a second. Each of CASES is a link with its rates in turn, each for
# STEP_S; Sprat begins anew with each case, and does not know that a rate changes. A rate
# counts as found at the first second in which all that is told is within WITHIN percent of the
# truth. Under the TRAFFIC `requests` clients ask for LOAD of the rate, under `downloads` eight
# of them ask for BYTES back to back, and go on while the rate changes. The environment changes it:
#
#   TRAFFIC="requests downloads"
#   CASES="10mbit 30mbit 100mbit 300mbit 1gbit 10mbit,100mbit,10mbit 100mbit,1gbit,100mbit"
#   STEP_S=20 WITHIN=10 LOAD=0.9 BYTES=500000 SEED=7 RESULTS=results/find-rate
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"
. "$ROOT/scripts/measure.sh"
. "$ROOT/scripts/lab.sh"

TRAFFIC=${TRAFFIC:-requests downloads}
CASES=${CASES:-10mbit 30mbit 100mbit 300mbit 1gbit 10mbit,100mbit,10mbit 100mbit,1gbit,100mbit}
STEP_S=${STEP_S:-20}
WITHIN=${WITHIN:-10}
LOAD=${LOAD:-0.9}
BYTES=${BYTES:-500000}
SEED=${SEED:-7}
RESULTS=${RESULTS:-results/find-rate}
ADMIN=127.0.0.1:9109

cd "$ROOT"
need python3 python3
lab_begin sprat-find find-rate
mkdir -p "$RESULTS"

# bits RATE: as a number.
bits() {
    case $1 in
        *gbit) echo "$((${1%gbit} * 1000000000))" ;;
        *mbit) echo "$((${1%mbit} * 1000000))" ;;
        *) die "a rate is a number of mbit or gbit here, such as 10mbit" ;;
    esac
}

cat >"$work/watch.py" <<'PYTHON'
"""Ten times a second: the seconds of a step so far, its rate, the rate that Sprat tells, and the
bytes that clients have got."""
import sys
import time
import urllib.request

address, rate, duration = sys.argv[1], sys.argv[2], float(sys.argv[3])
began = time.monotonic()
tick = 0
while (now := time.monotonic() - began) < duration:
    told, sent = "", ""
    with urllib.request.urlopen(f"http://{address}/metrics") as page:
        for line in page.read().decode().splitlines():
            if line.startswith("sprat_uplink_effective_rate_bytes_per_second "):
                told = int(float(line.split()[1]) * 8)
            elif line.startswith("sprat_uplink_wire_bytes_total"):
                sent = int(float(line.split()[-1])) + (sent or 0)
    print(f"{now:.2f},{rate},{told},{sent}", flush=True)
    tick += 1
    time.sleep(max(0, began + tick / 10 - time.monotonic()))
PYTHON

cat >"$work/sprat.yaml" <<YAML
version: 1
admin: {address: $ADMIN}
listeners: [{address: "$FARM:8080"}]
uplink: {rate: auto}
clusters:
  farm: {endpoints: [${LAB_ORIGINS// /, }]}
routes: [{cluster: farm}]
YAML

# judged FILE: of one step, after how long its rate was found, what part of the samples from then
# on has it, and what part of the link was used.
judged() {
    awk -F , -v within="$WITHIN" '
        { at[NR] = $1; rate = $2; right[NR] = $3 != "" && $3 >= $2 * (1 - within / 100) && $3 <= $2 * (1 + within / 100)
          if (NR == 1) { first = $4; since = $1 } last = $4; until = $1 }
        END {
            for (i = 1; i + 9 <= NR; i++) {
                all = 1
                for (j = i; j < i + 10; j++) all = all && right[j]
                if (all) break
            }
            if (i + 9 <= NR) { for (j = i; j <= NR; j++) of += right[j]; found = sprintf("%.1f", at[i]); share = sprintf("%.2f", of / (NR - i + 1)) }
            printf "%s %s %.2f\n", found == "" ? "never" : found, share == "" ? "0" : share, (last - first) * 8 / (until - since) / rate
        }' "$1"
}

# traffic KIND RATE: what clients ask for, `downloads` in all steps, `requests` in one.
traffic() {
    local -a kept=("${within[@]}")
    case $1 in
        requests)
            "$target/sprat-loadgen" gen --seed "$SEED" --uplink "$2" --load "$LOAD" --connection new \
                --requests "$(awk -v bits="$(bits "$2")" -v load="$LOAD" -v s="$STEP_S" \
                    'BEGIN { printf "%d", 2 * bits / 8 * load * s / 12000 }')" -o "$work/trace.csv.gz" >/dev/null
            within=("${from[@]}")
            start_process traffic "$target/sprat-loadgen" replay --trace "$work/trace.csv.gz" --seed "$SEED" \
                --load "$LOAD" --uplink "$2" --target "http://$FARM:8080" -o "$work/replay.csv.gz"
            ;;
        downloads)
            within=("${from[@]}")
            start_process traffic curl -sS --parallel --parallel-max 8 --parallel-immediate \
                -o /dev/null "http://$FARM:8080/size/$BYTES/[1-1000000]"
            ;;
        *) die "TRAFFIC is requests or downloads, not $1" ;;
    esac
    within=("${kept[@]}")
}

# watch KIND CASE: its steps, one after the other.
watch() {
    local rate number=0 file found right used
    local -a steps
    IFS=, read -r -a steps <<<"$2"
    lab_up "${steps[0]}"
    start_process sprat "$target/sprat" run -c "$work/sprat.yaml"
    wait_for sprat "http://$FARM:8080/size/10/probe"
    for rate in "${steps[@]}"; do
        number=$((number + 1))
        # Downloads go on while the rate changes; requests are asked for by the new one.
        [ "$number" = 1 ] || lab_up "$rate"
        [ "$number" != 1 ] && [ "$1" = downloads ] || traffic "$1" "$rate"
        file=$RESULTS/$1-${2//,/-}-$number.csv
        "${within[@]}" python3 "$work/watch.py" "$ADMIN" "$(bits "$rate")" "$STEP_S" >"$file"
        [ "$1" = downloads ] || stop_process traffic
        read -r found right used < <(judged "$file")
        say "$1, $2, step $number, $rate: found_s=$found right=$right used=$used"
        echo "$1,${2//,/-},$number,$rate,$found,$right,$used" >>"$RESULTS/summary.csv"
    done
    [ "$1" != downloads ] || stop_process traffic
    stop_process sprat
}

lab_up 10mbit
start_origin "$LAB_ORIGINS"
echo 'traffic,case,step,rate,found_s,right,used' >"$RESULTS/summary.csv"
for kind in $TRAFFIC; do
    for each in $CASES; do watch "$kind" "$each"; done
done
say "The figures: $RESULTS/summary.csv"
