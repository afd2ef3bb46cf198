#!/usr/bin/env bash
# The core in virtual time: next to queueing theory, in every order and dispatch,
# in the model of SDIS02, and on the server of SRQ06. The environment changes it:
#
#   SEED=7 RESULTS=results/simulation
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"

SEED=${SEED:-7}
RESULTS=${RESULTS:-results/simulation}

cd "$ROOT"
build_programs
simulate() {
    "$target/sprat-loadgen" simulate "$@" --seed "$SEED" --output "$RESULTS"
    say
}
simulate link --load 0.5,0.7,0.9
simulate waiting --load 0.5,0.7,0.9
simulate dispatch
simulate sdis02
simulate srq
