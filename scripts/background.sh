#!/usr/bin/env bash
# What background traffic costs the foreground (EH99 5), in the lab: a link that
# the background alone would fill, a light and a heavy foreground, and each of
# the means to keep the former from harming the latter:
#
#   none       no background
#   unmanaged  background in the foreground's own class
#   pool       a class of its own, five at a time (EH99's first mechanism), with
#              a quarter of the weight: EH99's heavy load had 15 clients to those 5
#   priority   that, at the lowest level (its second)
#   rate       that, and 1 Mbit/s for all of it together (its third)
#   idle       idle_only: what the foreground leaves (its future work)
#
# The foreground is an open-loop replay of WebStone's mix of sizes; the
# background is CLIENTS clients back to back on the same mix, as prefetches. The
# environment changes it:
#
#   UPLINK=10mbit DURATION_S=60 POLICY=fair SEED=7 RESULTS=results/background
#   VARIANTS="none unmanaged pool priority rate idle" FOREGROUND="light=0.2 heavy=0.8"
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"
. "$ROOT/scripts/measure.sh"
. "$ROOT/scripts/lab.sh"

UPLINK=${UPLINK:-10mbit}
DURATION_S=${DURATION_S:-60}
POLICY=${POLICY:-fair}
SEED=${SEED:-7}
CLIENTS=${CLIENTS:-20}
RESULTS=${RESULTS:-results/background}
VARIANTS=${VARIANTS:-none unmanaged pool priority rate idle}
FOREGROUND=${FOREGROUND:-light=0.2 heavy=0.8}
ADMIN=127.0.0.1:9908
SETTLE_S=2
# A head, as the origin and Sprat write it.
HEAD_BYTES=220

cd "$ROOT"
case " $VARIANTS " in *" none "*) ;; *) die "VARIANTS needs none: the others are compared with it" ;; esac
case $UPLINK in
    *mbit) rate_bits=$((${UPLINK%mbit} * 1000000)) ;;
    *) die "UPLINK is a number of mbit here, such as 10mbit" ;;
esac
lab_begin sprat-background background

stop_all() {
    stop_process background 1
    stop_process sprat 1
}

# class VARIANT: the class `background`, in YAML.
class() {
    case $1 in
        none | unmanaged) printf 'level: 3' ;;
        pool) printf 'level: 3, weight: 5, max_concurrency: 5' ;;
        priority) printf 'level: 15, max_concurrency: 5' ;;
        rate) printf 'level: 15, max_concurrency: 5, rate: 1mbit' ;;
        idle) printf 'level: 15, idle_only: true' ;;
        *) die "there is no variant $1: none, unmanaged, pool, priority, rate, idle" ;;
    esac
}

# start VARIANT: a fresh queue and a fresh Sprat.
start() {
    lab_up "$UPLINK"
    cat >"$work/sprat.yaml" <<YAML
version: 1
admin: {address: "$ADMIN"}
listeners: [{address: "$FARM:8080"}]
uplink: {rate: $UPLINK, policy: $POLICY}
classes: {default: {level: 3, weight: 15}, background: {$(class "$1")}}
clusters:
  farm:
    endpoints: [127.0.0.1:9101, 127.0.0.1:9102, 127.0.0.1:9103]
    wait_queue: {timeout: off}
routes: [{cluster: farm, response_timeout: 10m}]
YAML
    start_process sprat "$target/sprat" run -c "$work/sprat.yaml"
    wait_for sprat "http://$FARM:8080/size/10/probe"
}

# begin VARIANT: the background.
begin() {
    local field=(--header 'Sec-Purpose: prefetch')
    [ "$1" != unmanaged ] || field=()
    local within=("${from[@]}")
    start_process background "$target/sprat-loadgen" replay --trace "$work/background.csv" \
        --closed "$CLIENTS" --target "http://$FARM:8080" ${field[@]+"${field[@]}"} --timeout 10m \
        -o "$work/background-results.csv"
    sleep "$SETTLE_S"
    kill -0 "${pid_of[background]}" || { cat "$work/background.log" >&2; die "the background ended"; }
}

# Bytes of responses that have been given a turn, and the time.
granted() {
    printf '%s %s\n' "$("${within[@]}" curl -fsS "http://$ADMIN/metrics" |
        awk '/^sprat_uplink_granted_bytes_total / { printf "%.0f", $2 }')" "$(date +%s.%N)"
}

# measure LOAD_NAME VARIANT
measure() {
    local file=$RESULTS/$1-$2.csv.gz
    start "$2"
    [ "$2" = none ] || begin "$2"
    granted >"$work/before"
    replay "$2" --trace "$RESULTS/$1.csv.gz" --target "http://$FARM:8080" --seed "$SEED" \
        --uplink "$UPLINK" --timeout 10m -o "$file"
    granted >"$work/after"
    stop_all
    times "$file" >"$work/times"
}

mkdir -p "$RESULTS"
lab_up "$UPLINK"
start_origin "$LAB_ORIGINS"

# More than can be asked for in the time.
"$target/sprat-loadgen" gen --seed $((SEED + 1)) --sizes webstone --files 1000 --uplink "$UPLINK" \
    --requests $((rate_bits * (DURATION_S + 60) / 40000)) -o "$work/background.csv" >/dev/null

say "What the background alone gets, unmanaged"
start unmanaged
begin unmanaged
granted >"$work/before"
sleep $((DURATION_S / 4 + 3))
granted >"$work/after"
stop_all
goodput=$(paste -d ' ' "$work/before" "$work/after" | awk '{ printf "%.0f", ($3 - $1) / ($4 - $2) }')
say "  $goodput bytes per second"

summary=$RESULTS/summary.csv
printf 'foreground,variant,responses,median_ms,q1,median,q3,median_over_none,background_share\n' >"$summary"
for each in $FOREGROUND; do
    load_name=${each%%=*} load=${each#*=}
    # A mean response of 15.7 KB on the wire.
    requests=$(awk -v l="$load" -v r="$rate_bits" -v d="$DURATION_S" 'BEGIN { printf "%.0f", l * r / 8 * d / 15700 }')
    "$target/sprat-loadgen" gen --seed "$SEED" --sizes webstone --files 1000 --uplink "$UPLINK" \
        --load "$load" --requests "$requests" -o "$RESULTS/$load_name.csv.gz" >/dev/null
    for variant in $VARIANTS; do
        say "== $load_name ($load), $variant"
        measure "$load_name" "$variant"
        # EH99 5: a response's time over the best that was seen for its size.
        if [ "$variant" = none ] && [ ! -s "$work/best" ]; then
            sort -n -k1,1 -k2,2 "$work/times" | awk '!seen[$1]++' >"$work/best"
        fi
        foreground=$(awk -v h="$HEAD_BYTES" '{ sum += $1 + h } END { printf "%.0f", sum }' "$work/times")
        share=$(paste -d ' ' "$work/before" "$work/after" | awk -v fg="$foreground" -v c="$goodput" '
            { left = c * ($4 - $2) - fg; printf "%.3f", ($3 - $1 - fg) / left }')
        [ "$variant" != none ] || share=0
        median_ms=$(cut -d ' ' -f 2 "$work/times" | sort -n | awk '{ t[NR] = $1 } END { print t[int((NR + 1) / 2)] }')
        awk 'NR == FNR { best[$1] = $2; next } { print $2 / best[$1] }' "$work/best" "$work/times" | sort -n |
            awk -v fg="$load_name" -v v="$variant" -v m="$median_ms" -v share="$share" -v file="$work/none" '
                { t[NR] = $1 }
                END {
                    q1 = t[int((NR + 3) / 4)]; median = t[int((NR + 1) / 2)]; q3 = t[int((3 * NR + 3) / 4)]
                    if (v == "none") { print median > file; close(file) }
                    getline none < file
                    printf "%s,%s,%d,%.2f,%.2f,%.2f,%.2f,%.3f,%s\n", fg, v, NR, m, q1, median, q3, median / none, share
                }' | tee -a "$summary"
    done
done
column -s , -t "$summary"
say "Written: $summary"
