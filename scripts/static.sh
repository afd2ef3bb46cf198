#!/usr/bin/env bash
# Builds a program that needs no library of the system, target/static/sprat, and runs it
# in a root that has nothing else (that needs root). The C library's own, in Rust's glibc
# target; Sprat asks for names itself, and nothing in it opens a library while it runs.
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"

cd "$ROOT"
host=$(rustc -vV | sed -n 's/^host: //p')
target=${CARGO_TARGET_DIR:-$ROOT/target}
# With a target named, build scripts and macros are built as ever.
RUSTFLAGS="${RUSTFLAGS:-} -C target-feature=+crt-static" \
    cargo build --release --locked -p sprat --target "$host"
mkdir -p "$target/static"
strip --strip-all -o "$target/static/sprat" "$target/$host/release/sprat"
program=$target/static/sprat
if readelf --program-headers "$program" | grep -q INTERP; then die "the program asks for a loader"; fi
say "$program: $(stat -c %s "$program") bytes"

[ "$(id -u)" = 0 ] || { say "Not run in an empty root: that needs root"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
cp "$program" "$work/sprat"
cp packaging/sprat.yaml "$work/sprat.yaml"
chroot "$work" /sprat --version
[ "$(chroot "$work" /sprat check /sprat.yaml)" = '/sprat.yaml: ok' ] || die "it does not run in an empty root"
say "It runs in an empty root"
