#!/usr/bin/env bash
# Mutation tests of the core and of the configuration: the code is changed in one place,
# such as `<` to `<=`, and a test has to fail. cargo-mutants says what mutants there are;
# mutants/ builds all of them at once and runs the tests that reach each. By default what
# changed since BASE is mutated, and a mutant that is missed is a failure. The environment
# changes it:
#
#   BASE=origin/main   or HEAD~3: what is changed since; by default where this branch
#                      left origin/main, or else HEAD~1
#   ALL=1              everything. results/mutants.md has what came of each file; one
#                      that is as it was then, and missed none, is not mutated again, on
#                      another machine either
#   FRESH=1            with ALL: every file
#   FOR_MIN=30         with ALL: begins no mutant of a crate later than this
#   FILES="scheduler/src/pacer.rs ..."   these, whatever has been done
#   PACKAGES="scheduler config" JOBS=2
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"

CARGO_MUTANTS=27.1.0
PACKAGES=${PACKAGES:-scheduler config}
JOBS=${JOBS:-2}
WORK=target/mutants

cd "$ROOT"
if [ "$("$ROOT/.tools/bin/cargo-mutants" mutants --version 2>/dev/null)" != "cargo-mutants $CARGO_MUTANTS" ]; then
    say "Installing cargo-mutants $CARGO_MUTANTS into .tools"
    retry cargo install --quiet --locked --debug --root "$ROOT/.tools" \
        --target-dir "$ROOT/target/tools" "cargo-mutants@$CARGO_MUTANTS" ||
        die "cargo-mutants $CARGO_MUTANTS could not be installed"
    rm -rf "$ROOT/target/tools"
fi
mkdir -p "$WORK"

which_mutants=() report=()
for package in $PACKAGES; do which_mutants+=(--package "sprat-$package"); done
if [ -n "${FILES:-}" ]; then
    for file in $FILES; do which_mutants+=(--file "$file"); done
    report=(--report results/mutants.md --fresh)
elif [ -n "${ALL:-}" ]; then
    report=(--report results/mutants.md)
    [ -z "${FRESH:-}" ] || report+=(--fresh)
    [ -z "${FOR_MIN:-}" ] || report+=(--for-min "$FOR_MIN")
else
    if [ -z "${BASE:-}" ]; then
        BASE=$(git merge-base HEAD origin/main 2>/dev/null || true)
        if [ -z "$BASE" ] || [ "$BASE" = "$(git rev-parse HEAD)" ]; then BASE=HEAD~1; fi
    fi
    git diff "$BASE" -- '*.rs' >"$WORK/changed.diff"
    say "What changed since $(git rev-parse --short "$BASE")"
    which_mutants+=(--in-diff "$WORK/changed.diff")
fi
"$ROOT/.tools/bin/cargo-mutants" mutants --list --json --colors never \
    "${which_mutants[@]}" >"$WORK/list.json" || die "cargo-mutants has failed"
status=0
cargo run --quiet --locked --package sprat-mutants -- "$WORK/list.json" \
    --work "$WORK" --jobs "$JOBS" "${report[@]}" || status=$?
case $status in
    0) ;;
    2) die "mutants were missed: add the test, or say in docs/testing.md and mutants/same.txt why it is the same" ;;
    *) die "the mutants could not be tried" ;;
esac
