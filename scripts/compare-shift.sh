#!/usr/bin/env bash
# SRQ06's size shift on an uplink, in the lab: 50 requests a second of its retrieval service,
# among which there are long ones for 125 s. Bytes on the wire stand for processor time: the
# link carries in a second what the paper's two processors do, 2,000 ms of work. At most 67
# requests are inside, whatever the system is; one more is refused:
#
#   fair-20        20 responses share the link, 47 wait in order of arrival: the paper's Linux
#   edf, vrd, srq  this policy of the uplink orders all 67
#
# Times are those of requests that ended in the shift, but came_mean_s and came_change, which are
# of those that came in it. SHARE of the requests in it are long: as many as in the simulation
# (reproduce SRQ06 shift-uplink), which fits that to the mean of the paper's Linux. SRQ has five
# intervals before, in which its queues adapt. The environment changes it:
#
#   UPLINK=10mbit SHARE=0.0177 WARM_UP_S=300 SEED=7 RESULTS=results/compare-shift
#   SYSTEMS="fair-20 edf vrd srq"
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"
. "$ROOT/scripts/measure.sh"
. "$ROOT/scripts/lab.sh"

UPLINK=${UPLINK:-10mbit}
SHARE=${SHARE:-0.0177}
WARM_UP_S=${WARM_UP_S:-300}
SEED=${SEED:-7}
RESULTS=${RESULTS:-results/compare-shift}
SYSTEMS=${SYSTEMS:-fair-20 edf vrd srq}
ADMIN=127.0.0.1:9908
# The shift's beginning, its length, and the most requests inside.
BEFORE_S=30
SHIFT_S=125
INSIDE=67

cd "$ROOT"
case $UPLINK in
    *mbit) rate_bits=$((${UPLINK%mbit} * 1000000)) ;;
    *) die "UPLINK is a number of mbit here, such as 10mbit" ;;
esac
need python3 python3
lab_begin sprat-shift reproduce

# payload MS: the bytes of heads and bodies that the link carries in so much work.
payload() { echo $((rate_bits / 8 * $1 / 2000 * 1448 / 1514)); }

# start SYSTEM: a fresh queue and a fresh Sprat.
start() {
    local policy=$1 class='deadline: 2s'
    case $1 in
        fair-*) policy=fair class="max_concurrency: ${1#fair-}" ;;
        # The simulation's quanta.
        srq) policy="{name: srq, quanta: [$(payload 50), $(payload 500)]}" ;;
    esac
    lab_up "$UPLINK"
    cat >"$work/sprat.yaml" <<YAML
version: 1
admin: {address: "$ADMIN"}
listeners: [{address: "$FARM:8080", max_requests: $INSIDE, min_rates: off}]
uplink: {rate: $UPLINK, policy: $policy, floor: 0%}
classes: {default: {$class}}
clusters:
  farm: {endpoints: [${LAB_ORIGINS// /, }], wait_queue: {order: fcfs, timeout: off}}
routes: [{cluster: farm, response_timeout: 10m}]
YAML
    start_process sprat "$target/sprat" run -c "$work/sprat.yaml"
    wait_for sprat "http://$FARM:8080/size/10/probe"
}

mkdir -p "$RESULTS"
python3 - "$RESULTS" "$rate_bits" "$SHARE" "$WARM_UP_S" "$SEED" "$BEFORE_S" "$SHIFT_S" <<'PYTHON'
"""Writes the requests of the warm-up and of the shift, and those of the shift alone."""
import gzip
import random
import sys

rate_bits, share, warm_up_s, seed, before_s, shift_s = map(float, sys.argv[2:])
dice = random.Random(int(seed))


def retrieval():
    """Draws a time in ms; a tenth is of a bounded Pareto distribution."""
    if dice.random() < 0.1:
        span = 1 - (46 / 2732) ** 1.5
        return 46 / (1 - dice.random() * span) ** (1 / 1.5)
    return 1.43 * (46 / 1.43) ** dice.random()


def body(ms):
    """Returns the bytes of a body; its connection, headers and head are work, too."""
    wire = rate_bits / 8 / 2000 * ms
    return max(1, round((wire - 330) * 1448 / 1514 - 220))


requests = []
for number in range(round((warm_up_s + before_s + shift_s) * 50)):
    at_s = number / 50 - warm_up_s
    ordinary, long = retrieval(), 1000 + 1732 * dice.random()
    is_long = dice.random() < share and at_s >= before_s
    requests.append((at_s, body(long if is_long else ordinary)))
for name, begins_s in (("warm-up", -warm_up_s), ("shift", 0)):
    with gzip.open(f"{sys.argv[1]}/trace-{name}.csv.gz", "wt") as out:
        out.write("t_s,bytes,path\n")
        for number, (at_s, size) in enumerate(requests):
            if at_s >= begins_s:
                out.write(f"{at_s - begins_s:.3f},{size},/size/{size}/{number}\n")
PYTHON

lab_up "$UPLINK"
start_origin "$LAB_ORIGINS"
measured=()
for system in $SYSTEMS; do
    trace=shift from_s=$BEFORE_S
    # No other policy adapts to what was before.
    [ "$system" != srq ] || trace=warm-up from_s=$((WARM_UP_S + BEFORE_S))
    say "== $system"
    start "$system"
    replay "$system" --trace "$RESULTS/trace-$trace.csv.gz" --target "http://$FARM:8080" \
        --seed "$SEED" --uplink "$UPLINK" --timeout 10m -o "$RESULTS/$system.csv.gz"
    if [ "$system" = srq ]; then
        "${within[@]}" curl -fsS "http://$ADMIN/metrics" | grep '^sprat_uplink_queue' || warn "srq tells no queues"
    fi
    stop_process sprat
    measured+=("$system=$from_s")
done

python3 - "$RESULTS" "$SHIFT_S" "${measured[@]}" <<'PYTHON'
"""Writes the summary: a line for each system, whose shift begins at so many seconds."""
import csv
import gzip
import sys

directory, shift_s, *systems = sys.argv[1:]
columns = "system,mean_s,change,ended_per_s,p99_s,refused,failed,came_mean_s,came_change"
lines, first_mean_s, first_came_mean_s = [columns], None, None
for name, from_s in (each.split("=") for each in systems):
    begins_s, ends_s = float(from_s), float(from_s) + float(shift_s)
    came, refused, failed, times_s, came_times_s = 0, 0, 0, [], []
    with gzip.open(f"{directory}/{name}.csv.gz", "rt", newline="") as source:
        for row in csv.DictReader(source):
            time_s = float(row["response_ms"]) / 1000
            is_refused = row["error"] == "status"
            if begins_s <= float(row["t_s"]) < ends_s:
                came += 1
                refused += is_refused
                failed += bool(row["error"]) and not is_refused
                if not row["error"]:
                    came_times_s.append(time_s)
            if not row["error"] and begins_s <= float(row["start_s"]) + time_s < ends_s:
                times_s.append(time_s)
    times_s.sort()
    ended = len(times_s)
    if ended == 0 or not came_times_s:
        sys.exit(f"{name}: no response has ended in the shift, or of those that came in it")
    mean_s = sum(times_s) / ended
    first_mean_s = first_mean_s or mean_s
    came_mean_s = sum(came_times_s) / len(came_times_s)
    first_came_mean_s = first_came_mean_s or came_mean_s
    lines.append(
        f"{name},{mean_s:.4f},{mean_s / first_mean_s - 1:.4f},{ended / float(shift_s):.2f},"
        f"{times_s[ended * 99 // 100]:.3f},{refused / came:.4f},{failed},"
        f"{came_mean_s:.4f},{came_mean_s / first_came_mean_s - 1:.4f}"
    )
with open(f"{directory}/summary.csv", "w", encoding="ascii") as out:
    out.write("\n".join(lines) + "\n")
PYTHON
column -s , -t "$RESULTS/summary.csv"
say "Written: $RESULTS/summary.csv"
