#!/usr/bin/env bash
# Builds the proxy-wasm filter twice from nothing, each time from a copy of this
# checkout in a directory of another name, and fails unless the bytes are the
# same. Some minutes. WASM32_TOOLCHAIN=rustup or debian chooses the compiler.
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"

cd "$ROOT"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for copy in one another/place; do
    mkdir -p "$work/$copy"
    # What git has or would add, as it stands here.
    git ls-files -z --cached --others --exclude-standard | tar --null --files-from=- -cf - | tar -xf - -C "$work/$copy"
    (
        unset CARGO_TARGET_DIR
        "$work/$copy/scripts/filter.sh" "$work/$copy/filter.wasm"
    )
    rm -rf "$work/$copy/target"
done
cmp "$work/one/filter.wasm" "$work/another/place/filter.wasm" ||
    die "two builds of the filter differ"
say "The same bytes twice: sha256 $(sha256sum "$work/one/filter.wasm" | cut -d ' ' -f 1)"
