#!/usr/bin/env bash
# Everything that must hold before a change lands. Stops at the first check
# that fails; the tests themselves all run, and their count is the last line.
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"

DISK_MB=8000

# Tests wait far longer than they compute: for sockets, timers, processes.
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$((4 * $(nproc)))}

cd "$ROOT"
# A fresh checkout is built once: what would only make the next build quicker
# costs it half of the disk that it takes.
target=${CARGO_TARGET_DIR:-target}
if [ ! -d "$target/debug" ]; then
    export CARGO_INCREMENTAL=0
    free=$(df --output=avail -m . | tail -n 1)
    [ "$free" -ge "$DISK_MB" ] ||
        warn "only $((free)) MB of disk are free here; a fresh build and the tests take about $DISK_MB"
fi

step() {
    local name=$1 began=$SECONDS
    shift
    say "== $name"
    "$@" || die "$name failed: $*"
    say "== $name: $((SECONDS - began)) s"
}

check_scripts() {
    printf '%s\0' scripts/*.sh | xargs -0 -n 8 -P "$(nproc)" shellcheck --severity=warning
}

run_tests() {
    local log status=0
    log=$(mktemp)
    # The documentation's examples first: they are few, and the counts of what
    # counts stand at the end.
    {
        cargo test --workspace --locked --no-fail-fast --doc &&
            cargo test --workspace --locked --no-fail-fast --lib --bins --tests
    } 2>&1 | tee "$log" || status=$?
    awk '/^test result:/ { passed += $4; failed += $6; ignored += $8 }
         END { printf "tests: %d passed, %d failed, %d skipped\n", passed, failed, ignored }' "$log"
    rm -f "$log"
    return "$status"
}

step "scripts" check_scripts
step "format" cargo fmt --all --check
step "clippy" cargo clippy --workspace --all-targets --locked -- -D warnings
step "fuzz targets" cargo clippy --manifest-path fuzz/Cargo.toml --locked -- -D warnings
step "documentation" env RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked
step "wasm32" scripts/wasm.sh
step "dependencies" scripts/deny.sh
say "== tests"
run_tests
