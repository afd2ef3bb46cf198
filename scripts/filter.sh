#!/usr/bin/env bash
# Builds the proxy-wasm filter, and checks what comes out: its size, and that
# it asks the host for nothing but proxy-wasm's calls.
# With rustup's target where it is installed; else with Debian's `-web`
# packages, whose compiler builds its own standard library for the target.
# usage: filter.sh [OUT]   (the .wasm file; by default target/sprat-filter.wasm)
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"

TARGET=wasm32-unknown-unknown
MAX_BYTES=1000000

cd "$ROOT"
target_dir=${CARGO_TARGET_DIR:-$ROOT/target}
out=${1:-$target_dir/sprat-filter.wasm}
# No path of this machine in it, so that two checkouts build the same bytes.
home=${CARGO_HOME:-$HOME/.cargo}
flags="--remap-path-prefix=$ROOT=sprat --remap-path-prefix=$home=cargo"

if [ -d "$(rustc --print sysroot)/lib/rustlib/$TARGET" ]; then
    flags="$flags --remap-path-prefix=$(rustc --print sysroot)=rust"
    RUSTFLAGS=$flags cargo build --profile wasm --locked --target "$TARGET" -p sprat-envoy-wasm
    built=$target_dir/$TARGET/wasm/sprat_envoy_wasm.wasm
else
    candidate=$(apt-cache policy rustc-web 2>/dev/null | sed -n 's/^ *Candidate: *\([0-9.]*\).*/\1/p')
    if [ -z "$candidate" ] || ! version_at_least "$candidate" "$RUST_OLDEST"; then
        die "no $TARGET for $(rustc --version): run \`rustup target add $TARGET\`, or install Debian's rustc-web $RUST_OLDEST or later"
    fi
    apt_install rustc-web cargo-web rust-web-src lld-19
    flags="$flags --remap-path-prefix=$(/usr/bin/rustc --print sysroot)=rust"
    # -Zbuild-std is the nightly feature that RUSTC_BOOTSTRAP lets a stable
    # compiler use. A directory of its own: two compilers share no build.
    RUSTFLAGS=$flags RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1 \
        CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=wasm-ld-19 \
        /usr/bin/cargo build --profile wasm --target "$TARGET" -Zbuild-std=std,panic_abort \
        --target-dir "$target_dir/debian-web" -p sprat-envoy-wasm
    built=$target_dir/debian-web/$TARGET/wasm/sprat_envoy_wasm.wasm
fi

python3 "$ROOT/scripts/wasm-imports.py" "$built"
bytes=$(stat -c %s "$built")
[ "$bytes" -le "$MAX_BYTES" ] || die "the filter has $bytes bytes, more than $MAX_BYTES"
mkdir -p "$(dirname -- "$out")"
cp "$built" "$out"
say "$out: $bytes bytes, sha256 $(sha256sum "$out" | cut -d' ' -f1)"
