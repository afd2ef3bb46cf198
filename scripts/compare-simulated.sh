#!/usr/bin/env bash
# The runs of `make compare-networks` again in virtual time: the same topologies, traces and
# askers, and what the simulator's mean and goodput are of the measured ones. Networks that
# are not modelled (trunks, two proxies, loss on the way to the server) are named. The
# environment changes it:
#
#   RESULTS=results/networks     where simulated.md goes
#   RUNS=results/networks/runs   where the measured runs are
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"
. "$ROOT/scripts/measure.sh"

RESULTS=${RESULTS:-results/networks}
RUNS=${RUNS:-$RESULTS/runs}

cd "$ROOT"
mkdir -p "$RESULTS"
[ -d "$RUNS" ] || die "there are no runs in $RUNS: sudo make compare-networks"
measure_begin

# figure_of FILE SYSTEM COLUMN: of a replay's summary.
figure_of() {
    awk -F , -v name="$2" -v wanted="$3" '
        NR == 1 { for (i = 1; i <= NF; i++) if ($i == wanted) at = i; next }
        $1 == name { print $at }' "$1"
}

unmodelled=''
table=$work/table
while IFS=, read -r name _ _ _ named arrivals instances; do
    [ "$name" != network ] || continue
    for directory in "$RUNS/$name"/seed-*; do
        [ -e "$directory/summary.csv" ] || continue
        seed=${directory##*-}
        systems=fair,unlimited,auto options=()
        if [ -n "$named" ]; then systems+=,watched options=(--named "$named"); fi
        if [ "$instances" != 1 ] || ! "$target/sprat-loadgen" simulate network --topology "loadgen/networks/$name.yaml" \
            --trace "$directory/trace.csv.gz" --seed "$seed" --systems "$systems" "${options[@]}" \
            -o "$work/$name" >/dev/null 2>"$work/error"; then
            unmodelled+=" $name"
            continue
        fi
        for pair in nginx:fair unlimited:unlimited named:watched auto:auto; do
            ms=$(figure_of "$directory/summary.csv" "${pair%:*}" mean_ms)
            bytes=$(figure_of "$directory/summary.csv" "${pair%:*}" goodput_bytes_per_s)
            [ -n "$ms" ] || continue
            awk -F , -v of="${pair#*:}" -v name="$name" -v shown="${pair%:*}" -v ms="$ms" -v bytes="$bytes" '
                NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
                $column["system"] == of {
                    mean = $column["mean_ms"]; rate = $column["throughput_mbit_per_s"]
                    printf "%s,%s,%.1f,%.1f,%.3f,%.2f,%.2f,%.3f\n", name, shown, ms, mean, mean / ms,
                        bytes * 8e-6, rate, rate / (bytes * 8e-6) }' "$work/$name/networks.csv" >>"$table"
        done
    done
done <loadgen/networks/matrix.csv

[ -s "$table" ] || die "no run of $RUNS could be simulated"
{
    printf '| network | system | measured ms | simulated ms | ratio | measured Mbit/s | simulated Mbit/s | ratio |\n'
    printf '| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n'
    awk -F , '{ printf "| %s | %s | %s | %s | %.2f | %s | %s | %.2f |\n", $1, $2, $3, $4, $5, $6, $7, $8 }' "$table"
} >"$RESULTS/simulated.md"
awk -F , '
    function within(ratio) { return ratio > 1 / 1.15 && ratio < 1.15 }
    { runs++; good += within($5) && within($8)
      if (!($1 in seen)) { seen[$1] = 1; networks++ }
      if (!within($5) || !within($8)) bad[$1] = 1 }
    END { for (each in bad) apart++
          printf "Simulated: %d of %d runs within 15%% in mean and goodput, %d of %d networks in all of theirs\n",
              good, runs, networks - apart, networks }' "$table"
[ -z "$unmodelled" ] || say "Not modelled:$unmodelled"
say "Written: $RESULTS/simulated.md"
