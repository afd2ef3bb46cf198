#!/usr/bin/env bash
# Each fuzz target for EACH_S seconds, beginning with the committed corpus. What it
# finds beside that stays in target/fuzz-corpus; an input that breaks something is
# in fuzz/artifacts. cargo-fuzz needs unstable options of the compiler: a stable one
# is told to take them. The environment changes it:
#
#   EACH_S=30 TARGETS="config request_heads egress station catalogue"
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"

EACH_S=${EACH_S:-30}
TARGETS=${TARGETS:-config request_heads egress station catalogue}
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
case $(rustc --version) in
    *nightly* | *dev*) ;;
    *) export RUSTC_BOOTSTRAP=1 ;;
esac

failed=''
for target in $TARGETS; do
    found=${CARGO_TARGET_DIR:-$ROOT/target}/fuzz-corpus/$target
    mkdir -p "$found"
    say "== $target, $EACH_S s"
    cargo fuzz run "$target" "$found" "$ROOT/fuzz/corpus/$target" -- \
        -max_total_time="$EACH_S" -max_len="$MAX_BYTES" -timeout=10 -print_final_stats=1 -verbosity=0 ||
        failed+=" $target"
done
[ -z "$failed" ] || die "these targets found something:$failed"
