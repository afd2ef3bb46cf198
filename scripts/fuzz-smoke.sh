#!/usr/bin/env bash
# Each fuzz target for EACH_S seconds, beginning with the committed inputs. What it
# finds beside them stays in target/fuzz-corpus; an input that breaks something is in
# fuzz/artifacts, and makes this fail. What is fuzzed has no unsafe code, so that no
# sanitizer is needed and the stable compiler will do; with a nightly one,
# SANITIZER=address. The environment changes it:
#
#   EACH_S=30 TARGETS="config filter request_heads ..." SANITIZER=none
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"

EACH_S=${EACH_S:-30}
TARGETS=${TARGETS:-config filter request_heads http2 proxy_protocol manifest egress station catalogue access_log}
SANITIZER=${SANITIZER:-none}
CARGO_FUZZ=0.13.2
# An input of more bytes says nothing new, and takes longer.
MAX_BYTES=4096

cd "$ROOT"
if [ "$("$ROOT/.tools/bin/cargo-fuzz" --version 2>/dev/null)" != "cargo-fuzz $CARGO_FUZZ" ]; then
    say "Installing cargo-fuzz $CARGO_FUZZ into .tools"
    retry cargo install --quiet --locked --debug --root "$ROOT/.tools" \
        --target-dir "$ROOT/target/tools" "cargo-fuzz@$CARGO_FUZZ" ||
        die "cargo-fuzz $CARGO_FUZZ could not be installed"
    rm -rf "$ROOT/target/tools"
fi
PATH=$ROOT/.tools/bin:$PATH
# libFuzzer is C++.
has c++ || apt_install g++

built=${CARGO_TARGET_DIR:-$ROOT/target}
failed=''
for target in $TARGETS; do
    found=$built/fuzz-corpus/$target
    mkdir -p "$found"
    say "== $target, $EACH_S s"
    cargo fuzz build --sanitizer "$SANITIZER" --target-dir "$built/fuzz" "$target" || die "$target does not compile"
    cargo fuzz run --sanitizer "$SANITIZER" --target-dir "$built/fuzz" "$target" "$found" "$ROOT/fuzz/corpus/$target" -- \
        -max_total_time="$EACH_S" -max_len="$MAX_BYTES" -timeout=10 -print_final_stats=1 -verbosity=0 ||
        failed+=" $target"
done
[ -z "$failed" ] || die "these targets found something:$failed (the input is in fuzz/artifacts)"
