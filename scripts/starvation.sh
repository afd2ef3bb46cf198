#!/usr/bin/env bash
# What those get who could starve, in the lab: an event stream that has sent a megabyte,
# behind eight clients that download 500 KB back to back; and, where LOAD of what the link
# carries is asked for, the head of every response and a download of LARGE bytes. Each
# under every variant of the uplink's keys, POLICY or POLICY-FLOOR. Bars, for the first
# variant (BARS=0: none): an event's delay has a p99 of at most 50 ms, every head comes
# within a second, and the large download gets 0.9 or more of its part of the floor, which it
# shares with all that are under way for a second. The environment
# changes it:
#
#   UPLINK=10mbit LOAD=1.05 DURATION_S=40 LARGE=20000000 SEED=7 RESULTS=results/starvation
#   VARIANTS="srpt srpt-0 srpt-aged fair"
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"
. "$ROOT/scripts/measure.sh"
. "$ROOT/scripts/lab.sh"

UPLINK=${UPLINK:-10mbit}
LOAD=${LOAD:-1.05}
DURATION_S=${DURATION_S:-40}
LARGE=${LARGE:-20000000}
SEED=${SEED:-7}
RESULTS=${RESULTS:-results/starvation}
VARIANTS=${VARIANTS:-srpt srpt-0 srpt-aged fair}
BARS=${BARS:-1}
EVENTS=127.0.0.1:9104
DEFAULT_FLOOR=5

cd "$ROOT"
case $UPLINK in
    *mbit) rate_bits=$((${UPLINK%mbit} * 1000000)) ;;
    *) die "UPLINK is a number of mbit here, such as 10mbit" ;;
esac
need python3 python3
lab_begin sprat-starve starvation
mkdir -p "$RESULTS"
clients=$ROOT/scripts/starvation-clients.py

# start VARIANT: a fresh queue and a fresh Sprat.
start() {
    local policy=$1 floor=$DEFAULT_FLOOR
    case $1 in *-[0-9]*) policy=${1%-*} floor=${1##*-} ;; esac
    stop_process sprat 1
    lab_up "$UPLINK"
    cat >"$work/sprat.yaml" <<YAML
version: 1
listeners: [{address: "$FARM:8080"}]
uplink: {rate: $UPLINK, policy: $policy, floor: $floor%}
clusters:
  farm: {endpoints: [${LAB_ORIGINS// /, }]}
  events: {endpoints: ["$EVENTS"]}
routes:
  - {match: {prefix: /events}, cluster: events, response_timeout: 10m}
  - {cluster: farm, response_timeout: 10m}
YAML
    start_process sprat "$target/sprat" run -c "$work/sprat.yaml"
    wait_for sprat "http://$FARM:8080/size/10/probe"
}

# figure LINE NAME: a number in a line of NAME=NUMBER.
figure() { tr ' ' '\n' <<<"$1" | sed -n "s/^$2=//p"; }

# hold LINE NAME HOW BAR: a bar of the first variant's.
failed='' bars=''
hold() {
    awk -v got="$(figure "$1" "$2")" -v how="$3" -v want="$4" \
        'BEGIN { exit !(how == "<=" ? got + 0 <= want + 0 : got + 0 >= want + 0) }' || failed+=" $2$3$4"
}

lab_up "$UPLINK"
start_origin "$LAB_ORIGINS"
start_process events python3 "$clients" origin "$EVENTS"
requests=$(awk -v rate="$rate_bits" -v load="$LOAD" -v s="$DURATION_S" \
    'BEGIN { printf "%d", 2 * rate / 8 * load * (s + 10) / 12000 }')
"$target/sprat-loadgen" gen --seed "$SEED" --requests "$requests" --uplink "$UPLINK" --load "$LOAD" \
    --connection new -o "$work/trace.csv.gz"
floor_bytes=$(awk -v rate="$rate_bits" -v percent="$DEFAULT_FLOOR" 'BEGIN { printf "%.0f", rate / 8 * percent / 100 * 1460 / 1538 }')

summary=$RESULTS/summary.md
{
    printf '# Who could starve\n\nAt %s for %s s: an event stream behind downloads, and at a load of %s the heads and a\ndownload of %s bytes, whose floor is %s bytes/s of payload.\n\n' \
        "$UPLINK" "$DURATION_S" "$LOAD" "$LARGE" "$floor_bytes"
    printf '| uplink | event p50, p99, max ms | head p99, max ms | mean ms | large: head ms | bytes/s | of its part of the floor | longest pause s |\n'
    printf '| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |\n'
} >"$summary"
first=${VARIANTS%% *}
for variant in $VARIANTS; do
    say "== $variant"
    start "$variant"
    events=$("${from[@]}" python3 "$clients" events "$FARM:8080" "$DURATION_S")
    say "   $events"
    start "$variant"
    overload=$("${from[@]}" python3 "$clients" overload "$FARM:8080" "$DURATION_S" "$work/trace.csv.gz" "$LARGE")
    overload+=" large_of_floor=$(awk -v got="$(figure "$overload" large_bytes_per_s)" -v floor="$floor_bytes" \
        -v part="$(figure "$overload" floor_part)" 'BEGIN { printf "%.3f", got / floor / part }')"
    say "   $overload"
    printf '| `%s` | %s, %s, %s | %s, %s | %s | %s | %s | %s | %s |\n' "$variant" \
        "$(figure "$events" event_p50_ms)" "$(figure "$events" event_p99_ms)" "$(figure "$events" event_max_ms)" \
        "$(figure "$overload" head_p99_ms)" "$(figure "$overload" head_max_ms)" "$(figure "$overload" mean_ms)" \
        "$(figure "$overload" large_head_ms)" "$(figure "$overload" large_bytes_per_s)" \
        "$(figure "$overload" large_of_floor)" "$(figure "$overload" large_longest_pause_s)" >>"$summary"
    if [ "$variant" = "$first" ] && [ "$BARS" != 0 ]; then
        hold "$events" event_p99_ms "<=" 50
        hold "$overload" head_max_ms "<=" 1000
        hold "$overload" large_head_ms "<=" 1000
        hold "$overload" large_of_floor ">=" 0.9
    fi
    if [ "$variant" = "$first" ]; then bars="$events $overload"; fi
done
cat "$summary"
say "first: $bars"
[ -z "$failed" ] || die "not held:$failed"
