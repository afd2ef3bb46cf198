#!/usr/bin/env bash
# Mutation tests of the core and of the configuration (cargo-mutants): the code is
# changed in one place, such as `<` to `<=`, and a test has to fail. By default what
# changed since BASE is mutated. Fails where a mutant is missed. The environment
# changes it:
#
#   BASE=origin/main   or HEAD~3: what is changed since; by default where this branch
#                      left origin/main, or else HEAD~1
#   ALL=1              everything, in SHARDS=40 parts; parts that are done at this
#                      commit are not done again
#   PACKAGES="sprat-scheduler sprat-config" JOBS=1 RESULTS=results/work/mutants
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"

CARGO_MUTANTS=27.1.0
PACKAGES=${PACKAGES:-sprat-scheduler sprat-config}
SHARDS=${SHARDS:-40}
JOBS=${JOBS:-1}
RESULTS=${RESULTS:-results/work/mutants}

cd "$ROOT"
if [ "$("$ROOT/.tools/bin/cargo-mutants" mutants --version 2>/dev/null)" != "cargo-mutants $CARGO_MUTANTS" ]; then
    say "Installing cargo-mutants $CARGO_MUTANTS into .tools"
    retry cargo install --quiet --locked --debug --root "$ROOT/.tools" \
        --target-dir "$ROOT/target/tools" "cargo-mutants@$CARGO_MUTANTS" ||
        die "cargo-mutants $CARGO_MUTANTS could not be installed"
    rm -rf "$ROOT/target/tools"
fi

packages=()
for package in $PACKAGES; do packages+=(--package "$package"); done

# mutate DIRECTORY OPTION...: 2 is a mutant that was missed, 3 one that ran out of time.
mutate() {
    local status=0
    mkdir -p "$1"
    "$ROOT/.tools/bin/cargo-mutants" mutants "${packages[@]}" --jobs "$JOBS" --output "$1" \
        --colors never "${@:2}" || status=$?
    case $status in
        0 | 2 | 3) ;;
        *) die "cargo-mutants has failed" ;;
    esac
}

# lines NAME: of a list in all parts' results.
lines() { find "$work" -path "*/mutants.out/$1.txt" -exec cat {} +; }

if [ -n "${ALL:-}" ]; then
    work=$RESULTS/all-$(git rev-parse --short=10 HEAD)
    for ((shard = 0; shard < SHARDS; shard++)); do
        part=$work/$shard-of-$SHARDS
        [ ! -e "$part/done" ] || continue
        say "== part $((shard + 1)) of $SHARDS"
        rm -rf "$part"
        mutate "$part" --shard "$shard/$SHARDS"
        touch "$part/done"
    done
else
    if [ -z "${BASE:-}" ]; then
        BASE=$(git merge-base HEAD origin/main 2>/dev/null || true)
        if [ -z "$BASE" ] || [ "$BASE" = "$(git rev-parse HEAD)" ]; then BASE=HEAD~1; fi
    fi
    work=$RESULTS/changed
    rm -rf "$work"
    mkdir -p "$work"
    git diff "$BASE" -- '*.rs' >"$work/changed.diff"
    say "What changed since $(git rev-parse --short "$BASE")"
    mutate "$work" --in-diff "$work/changed.diff"
fi

caught=$(lines caught | wc -l) missed=$(lines missed | wc -l)
timeout=$(lines timeout | wc -l) unviable=$(lines unviable | wc -l)
lines missed | sed 's/^/missed: /'
say "Mutants: $caught caught, $missed missed, $timeout ran out of time, $unviable do not compile"
[ "$missed" = 0 ] || die "$missed mutants were missed: add the test, or say in docs/testing.md why it is the same"
