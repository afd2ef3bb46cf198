#!/usr/bin/env bash
# Builds the proxy-wasm filter, puts its own answer for bodies in the place of the
# SDK's, and checks what comes out: its size, and that it asks the host for nothing
# but proxy-wasm's calls.
# usage: filter.sh [OUT]   (the .wasm file; by default target/sprat-filter.wasm)
# WASM32_TOOLCHAIN=rustup or debian chooses the compiler (scripts/wasm32.sh).
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"
. "$ROOT/scripts/wasm32.sh"

MAX_BYTES=1000000

cd "$ROOT"
out=${1:-${CARGO_TARGET_DIR:-$ROOT/target}/sprat-filter.wasm}
toolchain=$(wasm32_toolchain) || die "the filter cannot be built"
wasm32_build "$toolchain" --profile wasm -p sprat-envoy-wasm
linked=$wasm32_dir/wasm/sprat_envoy_wasm.wasm
built=$wasm32_dir/wasm/sprat-filter.wasm

python3 "$ROOT/scripts/filter-exports.py" "$linked" "$built"
python3 "$ROOT/scripts/wasm-imports.py" "$built"
bytes=$(stat -c %s "$built")
[ "$bytes" -le "$MAX_BYTES" ] || die "the filter has $bytes bytes, more than $MAX_BYTES"
if grep -aqF -e "$ROOT" -e "$CARGO_HOME" "$built"; then die "a path of this machine is in the filter"; fi
mkdir -p "$(dirname -- "$out")"
cp "$built" "$out"
say "$out: $bytes bytes, sha256 $(sha256sum "$out" | cut -d' ' -f1)"
