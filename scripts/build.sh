#!/usr/bin/env bash
# Builds both programs into target/release, by what Sprat does: once to count how often each
# of its branches is taken, while scripts/train.sh has it serve, then again by these counts
# (profile-guided optimisation). That takes twice as long. The environment changes it:
#
#   PGO=0   once, without counts, as `cargo build --release` does
#
# It needs llvm-profdata of rustc's own LLVM, which is rustup's component llvm-tools, or
# Debian's package llvm-NN. Where there is none, it builds without counts, and says so.
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"

cd "$ROOT"
counting=$(realpath -m "${CARGO_TARGET_DIR:-target}")/counting

# find_profdata: what merges counts, as $profdata.
find_profdata() {
    local host major own each
    host=$(rustc -vV | sed -n 's/^host: //p')
    major=$(rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
    own=$(rustc --print sysroot)/lib/rustlib/$host/bin/llvm-profdata
    [ -x "$own" ] || ! has rustup || rustup component add llvm-tools >/dev/null 2>&1 || true
    for each in "$own" "llvm-profdata-$major" llvm-profdata; do
        if has "$each" && "$each" --version | grep -q "LLVM version $major\."; then
            profdata=$each
            return 0
        fi
    done
    return 1
}

# count: the profile of the program as it is now.
count() {
    rm -rf --one-file-system "$counting/counts"
    say "Building Sprat to count what it does (PGO=0 leaves that out)"
    # Just as it is built in the end: names of functions hold what a build asks for.
    RUSTFLAGS="${RUSTFLAGS:-} -Cprofile-generate=$counting/counts" \
        LLVM_PROFILE_FILE=/dev/null CARGO_TARGET_DIR=$counting \
        cargo build --release --locked --quiet -p sprat -p sprat-loadgen || die "it does not compile"
    say "Having it serve"
    SPRAT_BUILT=$counting/release COUNTS=$counting/counts "$ROOT/scripts/train.sh" || return 1
    mkdir -p "$(dirname -- "$PROFILE")"
    # With the functions that have not run: they are built for size then.
    "$profdata" merge -o "$PROFILE" "$counting"/counts/sprat-*.profraw || return 1
    rustc -vV >"$PROFILE.rustc"
    rm -rf --one-file-system "$counting"
}

# is_met: whether the program has functions of the names that were counted. Where it has none,
# the counts change nothing, and the compiler does not say so.
is_met() {
    local counted='s/^  .*\(_ZN.*E\):$/\1/p'
    [ "$(comm -12 <("$profdata" show --all-functions "$PROFILE" | sed -n "$counted" | sort -u) \
        <(nm "$target/sprat" | awk '{ print $3 }' | sort -u) | wc -l)" -gt 0 ]
}

# without_counts WHY
without_counts() {
    rm -f "$PROFILE"
    warn "$1: Sprat is built without profile-guided optimisation, and takes up to a tenth more CPU time for small responses"
}

if [ "${PGO:-1}" != 0 ] && ! profile_is_current; then
    if ! find_profdata; then
        without_counts "there is no llvm-profdata of rustc's LLVM (rustup component add llvm-tools)"
    elif ! count; then
        without_counts "what counts has not served"
    fi
fi
say "Building"
build_programs
if profile_is_current && [ -n "${profdata:-}" ] && has nm && ! is_met; then
    die "none of the functions that were counted is in $target/sprat: PGO=0 builds it without counts"
fi
