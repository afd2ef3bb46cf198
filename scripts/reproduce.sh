#!/usr/bin/env bash
# The figures and tables of five papers beside what comes out here, row by row, into
# results/papers. What has been run with the same code is not run again. The environment
# changes it:
#
#   QUICK=1                 what can be simulated; else with rows over real
#                           sockets too, which takes root and hours
#   QUICK=1 LAB=1           those minutes, and the rows over real sockets (root, an hour)
#   PAPER=SRQ06             that paper alone
#   SAMPLE=day6.csv.gz      a recorded trace of the World Cup's site (t_s,bytes,status,url),
#                           which some rows need; the repository has none
#   RESULTS=results/papers
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"

RESULTS=${RESULTS:-results/papers}
[ -z "${SAMPLE:-}" ] || SAMPLE=$(realpath -- "$SAMPLE")

cd "$ROOT"
build_programs
"$target/sprat-loadgen" reproduce ${PAPER:+"$PAPER"} \
    ${QUICK:+--quick} ${LAB:+--lab} ${SAMPLE:+--sample "$SAMPLE"} --output "$RESULTS"
