# Builds for wasm32, sourced after lib.sh, never run: with rustup's target where
# it is installed; else with Debian's `-web` packages, whose compiler builds its
# own standard library for the target. WASM32_TOOLCHAIN=rustup or debian chooses.
# shellcheck shell=bash

WASM32=wasm32-unknown-unknown

# wasm32_toolchain: prints rustup or debian. Fails, and says why, if there is
# neither.
wasm32_toolchain() {
    local candidate
    if [ "${WASM32_TOOLCHAIN:-rustup}" = rustup ] && [ -d "$(rustc --print sysroot)/lib/rustlib/$WASM32" ]; then
        echo rustup
        return
    fi
    [ "${WASM32_TOOLCHAIN:-debian}" = debian ] || {
        warn "no $WASM32 for $(rustc --version): run \`rustup target add $WASM32\`"
        return 1
    }
    candidate=$(apt-cache policy rustc-web 2>/dev/null | sed -n 's/^ *Candidate: *\([0-9.]*\).*/\1/p')
    if [ -z "$candidate" ] || ! version_at_least "$candidate" "$RUST_OLDEST"; then
        warn "no $WASM32 for $(rustc --version): run \`rustup target add $WASM32\`, or install Debian's rustc-web $RUST_OLDEST or later"
        return 1
    fi
    echo debian
}

# wasm32_build TOOLCHAIN CARGO_OPTION...: builds, with the flags in RUSTFLAGS and
# with no path of this machine in what is built, so that two checkouts build the
# same bytes; $wasm32_dir has what was built, by profile.
wasm32_build() {
    local toolchain=$1 flags registry target_dir=${CARGO_TARGET_DIR:-$ROOT/target}
    shift
    flags="${RUSTFLAGS:-} --remap-path-prefix=$ROOT=sprat --remap-path-prefix=$CARGO_HOME=cargo"
    # Where crates come from is in no module: it would be longer, and another elsewhere.
    cargo fetch --quiet --locked
    for registry in "$CARGO_HOME"/registry/src/*/; do
        flags+=" --remap-path-prefix=${registry%/}=crates"
    done
    if [ "$toolchain" = rustup ]; then
        RUSTFLAGS="$flags --remap-path-prefix=$(rustc --print sysroot)=rust" \
            cargo build --locked --target "$WASM32" "$@"
        wasm32_dir=$target_dir/$WASM32
        return
    fi
    apt_install rustc-web cargo-web rust-web-src lld-19
    # -Zbuild-std is the nightly feature that RUSTC_BOOTSTRAP lets a stable
    # compiler use; it has no --locked. With optimize_for_size a sort is some
    # hundred bytes, not five thousand for each type. A directory of its own: two
    # compilers share no build.
    RUSTFLAGS="$flags --remap-path-prefix=$(/usr/bin/rustc --print sysroot)=rust" \
        RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1 CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=wasm-ld-19 \
        /usr/bin/cargo build --target "$WASM32" -Zbuild-std=std,panic_abort -Zbuild-std-features=optimize_for_size \
        --target-dir "$target_dir/debian-web" "$@"
    wasm32_dir=$target_dir/debian-web/$WASM32
}
