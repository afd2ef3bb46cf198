#!/usr/bin/env bash
# Mutation tests of the core and of the configuration (cargo-mutants): the code is
# changed in one place, such as `<` to `<=`, and a test has to fail. By default what
# changed since BASE is mutated. Fails where a mutant is missed. The environment
# changes it:
#
#   BASE=origin/main   or HEAD~3: what is changed since; by default where this branch
#                      left origin/main, or else HEAD~1
#   ALL=1              everything, file by file. results/mutants.md has what came of
#                      each; a file that is as it was then is not mutated again, on
#                      another machine either
#   FILES="scheduler/src/pacer.rs ..."   these, whatever has been done
#   FOR_MIN=60         begins no file later than this; all by default
#   PACKAGES="scheduler config" JOBS=1 CPU_S=30 RESULTS=results/work/mutants
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"

CARGO_MUTANTS=27.1.0
PACKAGES=${PACKAGES:-scheduler config}
JOBS=${JOBS:-1}
CPU_S=${CPU_S:-30}
RESULTS=${RESULTS:-results/work/mutants}
REPORT=results/mutants.md

cd "$ROOT"
if [ "$("$ROOT/.tools/bin/cargo-mutants" mutants --version 2>/dev/null)" != "cargo-mutants $CARGO_MUTANTS" ]; then
    say "Installing cargo-mutants $CARGO_MUTANTS into .tools"
    retry cargo install --quiet --locked --debug --root "$ROOT/.tools" \
        --target-dir "$ROOT/target/tools" "cargo-mutants@$CARGO_MUTANTS" ||
        die "cargo-mutants $CARGO_MUTANTS could not be installed"
    rm -rf "$ROOT/target/tools"
fi
mkdir -p "$RESULTS"
RESULTS=$(cd "$RESULTS" && pwd)

# mutate DIRECTORY OPTION...: 2 is a mutant that was missed, 3 one that ran out of time.
mutate() {
    local status=0
    mkdir -p "$1"
    "$ROOT/.tools/bin/cargo-mutants" mutants --output "$1" --colors never "${@:2}" || status=$?
    case $status in
        0 | 2 | 3) ;;
        *) die "cargo-mutants has failed" ;;
    esac
}

# count DIRECTORY NAME: of a list of its results.
count() { { cat "$1/mutants.out/$2.txt" 2>/dev/null || true; } | wc -l; }

# lines DIRECTORY NAME: of a list of its results, and of those before it.
lines() { { cat "$1"/mutants.out/{previously_,}"$2".txt 2>/dev/null || true; } | sort -u | wc -l; }

# changed: what changed since BASE, in copies of the tree.
changed() {
    local work=$RESULTS/changed package packages=()
    for package in $PACKAGES; do packages+=(--package "sprat-$package"); done
    if [ -z "${BASE:-}" ]; then
        BASE=$(git merge-base HEAD origin/main 2>/dev/null || true)
        if [ -z "$BASE" ] || [ "$BASE" = "$(git rev-parse HEAD)" ]; then BASE=HEAD~1; fi
    fi
    rm -rf "$work"
    mkdir -p "$work"
    git diff "$BASE" -- '*.rs' >"$work/changed.diff"
    say "What changed since $(git rev-parse --short "$BASE")"
    mutate "$work" "${packages[@]}" --jobs "$JOBS" --in-diff "$work/changed.diff"
    sed 's/^/missed: /' "$work/mutants.out/missed.txt" 2>/dev/null || true
    say "Mutants: $(count "$work" caught) caught, $(count "$work" missed) missed," \
        "$(count "$work" timeout) ran out of time, $(count "$work" unviable) do not compile"
    [ "$(count "$work" missed)" = 0 ] ||
        die "mutants were missed: add the test, or say in docs/testing.md why it is the same"
}

# row_of FILE: what the report says of it.
row_of() { grep -F "| \`$1\` |" "$REPORT" 2>/dev/null || true; }

# hash_of FILE: of its code, which comments and unit tests are no part of.
hash_of() { code_of <"$1" | git hash-object --stdin | cut -c 1-10; }

# stands FILE: whether what the report says is of the code as it is.
stands() { [[ $(row_of "$1") == *"| $(hash_of "$1") |"* ]]; }

# one FILE TREE: mutates a file in a tree that is nobody else's, where nothing but the
# file's crate has to be built again. Its own tests first, with fewer cases: they catch
# nearly all. What they miss all of the crate's tests get.
#
# An endless loop is known by its processor time, or a busy machine would be taken for
# one: the kernel ends tests that have used CPU_S, and they have failed then.
one() {
    local file=$1 tree=$2 package=sprat-${1%%/*} out
    out=$RESULTS/files/${file//\//-}
    rm -rf "$out"
    mkdir -p "$out"
    local common=(--in-place --dir "$tree" --file "$file" --package "$package"
        --baseline skip --build-timeout 1800)
    local host runner
    host=$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')
    runner=CARGO_TARGET_${host}_RUNNER
    (
        export CARGO_TARGET_DIR=$tree/target
        export "$runner=prlimit --cpu=$CPU_S"
        PROPTEST_CASES=16 mutate "$out" "${common[@]}" --timeout 900 -- \
            --lib -- --skip ten_million
        if [ "$(count "$out" missed)" != 0 ]; then
            export "$runner=prlimit --cpu=$((10 * CPU_S))"
            mutate "$out" "${common[@]}" --timeout 3600 --iterate
        fi
    ) >"$out/log" 2>&1 || die "$file: $(tail -n 1 "$out/log")"
    git -C "$tree" diff --quiet || die "$tree was left changed"
    local caught
    caught=$(lines "$out" caught)
    printf '| `%s` | %s | %s | %s | %s | %s |\n' "$file" \
        "$(hash_of "$file")" "$caught" "$(count "$out" timeout)" \
        "$(count "$out" missed)" \
        "$(lines "$out" unviable)" >"$out/row"
    # A file that has nothing to mutate has no lists.
    cat "$out/mutants.out/missed.txt" >"$out/missed" 2>/dev/null || true
    say "$file: $caught caught, $(count "$out" missed) missed"
    mapfile -t every < <(sources)
    (
        flock 9
        report "${every[@]}"
    ) 9>"$RESULTS/lock"
}

# report FILE...: the rows that stand, those of now among them, and their sum.
report() {
    local file out written
    written=$(mktemp)
    {
        printf '# Mutants\n\nWhat `ALL=1 make mutants` found in each file, with the hash of its code then.\n'
        printf 'Out of time: the mutant has the tests wait or loop for ever, and so is caught.\n\n'
        printf '| file | code | caught | out of time | missed | do not compile |\n'
        printf '| --- | --- | ---: | ---: | ---: | ---: |\n'
        for file in "$@"; do
            out=$RESULTS/files/${file//\//-}
            if [ -s "$out/row" ]; then cat "$out/row"; else row_of "$file"; fi
        done
        printf '\n## Missed\n\n'
        for file in "$@"; do
            out=$RESULTS/files/${file//\//-}
            if [ -e "$out/missed" ]; then
                sed 's/^/    /' "$out/missed"
            else
                grep -F "    $file:" "$REPORT" 2>/dev/null || true
            fi
        done
    } >"$written"
    awk -F ' *[|] *' '/^\| `/ { caught += $4; late += $5; missed += $6; files++ } END {
        all = caught + late + missed
        if (all) printf "\n## Score\n\n%d of %d mutants in %d files: %.1f%%.\n", \
            caught + late, all, files, 100 * (caught + late) / all }' "$written" >>"$written.score"
    cat "$written.score" >>"$written"
    rm -f "$written.score"
    mv "$written" "$REPORT"
    chmod 644 "$REPORT"
}

# whole FILE...: those of them that are to be mutated, by JOBS at a time.
whole() {
    local file job todo=$RESULTS/todo until=$((SECONDS + ${FOR_MIN:-100000} * 60))
    : >"$todo"
    for file in "$@"; do
        if [ -n "${FILES:-}" ] || ! stands "$file"; then printf '%s\n' "$file" >>"$todo"; fi
    done
    say "$(wc -l <"$todo") of $# files to mutate"
    rm -rf "$RESULTS/files"
    local jobs=()
    for ((job = 0; job < JOBS; job++)); do
        local tree=$RESULTS/tree-$job
        [ -d "$tree" ] || git worktree add --quiet --detach "$tree" HEAD
        git -C "$tree" checkout --quiet --force --detach "$(git rev-parse HEAD)"
        (
            for package in $PACKAGES; do
                CARGO_TARGET_DIR=$tree/target cargo test --quiet --locked --manifest-path \
                    "$tree/Cargo.toml" --package "sprat-$package" >"$RESULTS/baseline-$job" 2>&1 ||
                    die "the tests fail without any change: $RESULTS/baseline-$job"
            done
            number=0
            while read -r file; do
                number=$((number + 1))
                [ $((number % JOBS)) = "$job" ] || continue
                [ "$SECONDS" -lt "$until" ] || break
                one "$file" "$tree"
            done <"$todo"
        ) &
        jobs+=($!)
    done
    trap 'kill "${jobs[@]}" 2>/dev/null; exit 130' INT TERM
    local status=0
    for job in "${jobs[@]}"; do wait "$job" || status=$?; done
    [ "$status" = 0 ] || die "a part has failed"
    say "Written: $REPORT"
}

# sources: all files that have code to mutate.
sources() {
    local package
    for package in $PACKAGES; do
        git ls-files "$package/src/*.rs" | grep -Ev '(^|/)tests(/|\.rs$)'
    done
}

if [ -n "${FILES:-}" ]; then
    # shellcheck disable=SC2086  # it is words
    whole $FILES
elif [ -n "${ALL:-}" ]; then
    mapfile -t every < <(sources)
    whole "${every[@]}"
else
    changed
fi
