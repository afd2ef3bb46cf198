#!/usr/bin/env bash
# Builds the core for wasm32: the proof that it has no clock, socket or thread.
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"
. "$ROOT/scripts/wasm32.sh"

cd "$ROOT"
toolchain=$(wasm32_toolchain) || {
    say "wasm32 build NOT CHECKED"
    exit 0
}
wasm32_build "$toolchain" --release -p sprat-scheduler
