#!/usr/bin/env bash
# Random networks in virtual time (docs/networks-simulated.md): in how many of them `auto`
# breaks a bound beside `unlimited` and `fair`. The environment changes it:
#
#   SEEDS=0..1000 RESULTS=results/simulated-networks
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"

SEEDS=${SEEDS:-0..1000}
RESULTS=${RESULTS:-results/simulated-networks}

cd "$ROOT"
build_programs
"$target/sprat-loadgen" simulate network --seeds "$SEEDS" --systems fair,unlimited,auto \
    --output "$RESULTS"
