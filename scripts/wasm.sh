#!/usr/bin/env bash
# Builds the core for wasm32: the proof that it has no clock, socket or thread.
# With rustup's target where it is installed; else with Debian's `-web`
# packages, whose compiler builds its own standard library for the target.
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"

TARGET=wasm32-unknown-unknown

cd "$ROOT"
if [ -d "$(rustc --print sysroot)/lib/rustlib/$TARGET" ]; then
    exec cargo build --release --locked --target "$TARGET" -p sprat-scheduler
fi

candidate=$(apt-cache policy rustc-web 2>/dev/null | sed -n 's/^ *Candidate: *\([0-9.]*\).*/\1/p')
if [ -z "$candidate" ] || ! version_at_least "$candidate" "$RUST_OLDEST"; then
    say "wasm32 build NOT CHECKED: no $TARGET for $(rustc --version), and no rustc-web $RUST_OLDEST or later"
    exit 0
fi
apt_install rustc-web cargo-web rust-web-src lld-19
# -Zbuild-std is the nightly feature that RUSTC_BOOTSTRAP lets a stable compiler
# use. A directory of its own: two compilers share no build.
RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1 CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=wasm-ld-19 \
    exec /usr/bin/cargo build --release --target "$TARGET" -Zbuild-std=std,panic_abort \
    --target-dir target/debian-web -p sprat-scheduler
