# Functions of the scripts that measure before servers of a limited capacity;
# sourced after measure.sh, never run.
# shellcheck shell=bash

# The mean size of the generated workload, and its bytes on the wire with a
# connection each, which `gen` states loads in.
MEAN_BYTES=5217
MEAN_WIRE_BYTES=6053

# farm_trace TRACE CAPACITY_BITS LOAD REQUESTS SEED: a trace that takes that share
# of what servers of that capacity can do, counted in bodies.
farm_trace() {
    "$target/sprat-loadgen" gen --seed "$5" --requests "$4" --load "$3" \
        --uplink "$(($2 * MEAN_WIRE_BYTES / MEAN_BYTES / 1000))kbit" -o "$1" >"${1%.csv.gz}.txt"
}

# farm_warm TRACE URL: once through at full speed, so that every size is known.
farm_warm() {
    replay warm --trace "$1" --closed 50 --connection keep --target "$2" -o "$work/warm.csv"
    none_failed "$work/warm.csv" || die "requests failed while sizes were learnt: $(cat "$work/replay-warm.log")"
}

# farm_replay NAME DIRECTORY URL LOAD: its trace, on time; into NAME.csv.gz there.
farm_replay() {
    replay "$1" --trace "$2/trace.csv.gz" --target "$3" --timeout 10m --seed "$SEED" --load "$4" \
        -o "$2/$1.csv.gz"
}

# summary_row NAME CSV_GZ RATE_BITS OVERHEAD_MS: mean response time, mean slowdown
# over the time of service alone, failures.
summary_row() {
    times "$2" | awk -v rate="$3" -v overhead="$4" -v name="$1" -v failed="$(failures "$2")" '
        { total += $2; slowdown += $2 / ($1 * 8000 / rate + overhead) }
        END {
            if (!NR) { print "no request of " name " was answered" >"/dev/stderr"; exit 1 }
            printf "%s,%.2f,%.2f,%d\n", name, total / NR, slowdown / NR, failed
        }'
}
