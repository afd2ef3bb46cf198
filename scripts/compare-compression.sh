#!/usr/bin/env bash
# What compression is worth on a limited link, and whether that is what the bytes saved
# predict. The same text is asked for three times at each load: as it is, compressed by
# Sprat, and as plain responses of the very sizes that the compressed ones had. The second
# mean may differ from the third by BAR, either way. The environment changes it:
#
#   UPLINK=10mbit LOADS="0.5 0.7 0.9" REQUESTS=10000 SEED=7 BAR=1.2 RESULTS=results/compare-compression
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"
. "$ROOT/scripts/measure.sh"
. "$ROOT/scripts/lab.sh"

UPLINK=${UPLINK:-10mbit}
LOADS=${LOADS:-0.5 0.7 0.9}
REQUESTS=${REQUESTS:-10000}
SEED=${SEED:-7}
BAR=${BAR:-1.2}
RESULTS=${RESULTS:-results/compare-compression}

cd "$ROOT"
need python3 python3
lab_begin sprat-text compare-compression

# start COMPRESSOR: in the farm's namespace; its log has each body's size.
start() {
    rm -f "$work/access.log"
    {
        lab_sprat "$UPLINK" srpt
        echo "compressor: $1"
        echo "access_log: {path: $work/access.log, format: {text: \"%REQ(:PATH)% %BYTES_SENT%\"}}"
    } >"$work/sprat.yaml"
    start_process sprat "$target/sprat" run -c "$work/sprat.yaml"
    wait_for sprat "http://$FARM:8080/size/10/probe"
}

# through NAME COMPRESSOR DIRECTORY LOAD: the trace in DIRECTORY through a fresh Sprat.
through() {
    local trace=$3/trace.csv.gz
    lab_up "$UPLINK"
    start "$2"
    say "== $1 at $4"
    lab_replay "$1" "$3" "$4" --target "http://$FARM:8080" --header "Accept-Encoding: gzip"
    [ "$(failures "$3/$1.csv.gz")" = 0 ] || die "requests of $trace failed"
    # Its log is whole once it has ended.
    stop_process sprat
}

# as_text DIRECTORY: the trace's responses become text.
as_text() {
    zcat "$1/trace.csv.gz" | sed '2,$ s/$/?text=1/' | gzip >"$1/text.csv.gz"
    mv "$1/text.csv.gz" "$1/trace.csv.gz"
}

# of_sizes LOG FROM TO: the trace FROM with the sizes that the log tells.
of_sizes() {
    python3 - "$@" <<'PYTHON'
"""Writes a trace whose responses have the sizes that an access log tells."""
import csv
import gzip
import sys

log, trace, out = sys.argv[1:]
size_of = {}
with open(log, encoding="ascii") as lines:
    for line in lines:
        path, size = line.split()
        size_of[path] = int(size)
with gzip.open(trace, "rt", newline="") as source, gzip.open(out, "wt", newline="") as target:
    rows = csv.DictReader(source)
    writer = csv.DictWriter(target, rows.fieldnames, lineterminator="\n")
    writer.writeheader()
    before = after = 0
    for number, row in enumerate(rows):
        size = size_of[row["path"]]
        before += int(row["bytes"])
        after += size
        writer.writerow({**row, "bytes": size, "path": f"/size/{size}/{number}"})
print(f"{1 - after / before:.3f}")
PYTHON
}

lab_up "$UPLINK"
start_origin "$LAB_ORIGINS"
results=()
mkdir -p "$RESULTS"
table=$RESULTS/compression.csv
echo "load,bytes_saved,plain_ms,compressed_ms,predicted_ms,compressed_of_plain,compressed_of_predicted" >"$table"
for load in $LOADS; do
    directory=$RESULTS/load-$load
    lab_trace "$directory" "$load" new
    as_text "$directory"
    through plain off "$directory" "$load"
    through compressed '{algorithms: [gzip]}' "$directory" "$load"
    mkdir -p "$directory/predicted"
    saved=$(of_sizes "$work/access.log" "$directory/trace.csv.gz" "$directory/predicted/trace.csv.gz")
    through predicted off "$directory/predicted" "$load"
    awk -v load="$load" -v saved="$saved" -v plain="$(mean_ms "$directory/plain.csv.gz")" \
        -v compressed="$(mean_ms "$directory/compressed.csv.gz")" \
        -v predicted="$(mean_ms "$directory/predicted/predicted.csv.gz")" \
        'BEGIN { printf "%s,%s,%.2f,%.2f,%.2f,%.3f,%.3f\n", load, saved, plain, compressed, predicted,
            compressed / plain, compressed / predicted }' >>"$table"
done
column -s , -t "$table" >&2
say "Written: $table"
awk -F , -v bar="$BAR" 'NR > 1 && ($7 > bar || $7 < 1 / bar) { over = 1 } END { exit over }' "$table" ||
    die "compression is not worth what the bytes saved predict"
