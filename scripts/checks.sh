#!/usr/bin/env bash
# Every check that is not part of `make test`: what needs root, Docker, a browser, Envoy,
# nginx, or the machine for itself. First those that mind no company, beside each other,
# then the others in turn. What they found stands in results/checks.md. It goes on where it
# was, on another machine as well: a check that has passed is run again once something has
# changed of what it exercises, one that has failed, always. The environment changes it:
#
#   LIST=1                 the table alone
#   ONLY="compare soak"    these alone
#   FRESH=1                from the beginning
#   QUICK=1                each as small as it still makes sense: whether it runs, for
#                          its figures say nothing. Bars are not held against it, and
#                          results/checks.md stays as it is
#   UNDER="nice -n -5"     before each command that measures times: beside other work
#   LANES=3                how many of those that wait for a slow link run at a time
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"
. "$ROOT/scripts/check-figures.sh"

# name | minutes | where | command | smaller, for QUICK | how the figure is read | its bar | of
#
# Where: `alone` measures times, and has the machine for itself. `link` waits most of
# its time for a slow link, in namespaces of its own: several of them run at a time. `any`
# measures no time; one of these runs beside them, at the lowest priority. (Real time for
# the others is no way: what of them computes for a second keeps the kernel's own threads
# from the network.)
#
# What it is a check of is directories and files beside its own script; `proxy` stands
# for all that a Sprat is made of and measured with, `filters` for a filter. Tests that
# it does not run are no part of it.
#
# The figure is words NAME=NUMBER, read by a function of check-figures.sh (`in=` is the network
# of the one before it), and the bar says what they have to be. Most commands hold bars of
# their own as well, and fail.
# What is expected is the time on two cores; three times as long is too long.
table() {
    cat <<'TABLE'
book | 8 | any | make book | | booked | pages>=50 | docs book.toml scripts/book-links.py scripts/check-book.py
check-kubernetes | 5 | any | make check-kubernetes | | manifests | manifests>=1 | config/kubernetes config/kustomize scripts/check-kubernetes.py
deb | 15 | any | make deb | | packaged | checks>=7 bytes<=15000000 | proxy packaging config/systemd scripts/install.sh
static | 12 | any | make static | | static | bytes<=17000000 | proxy
module | 5 | any | make module | | bytes_of_module | | filters
filter-reproducible | 12 | any | make filter-reproducible | | hash_of_filter | | filters
simulate | 10 | any | make simulate | | simulated | | scheduler/src measure/src loadgen/src
simulate-networks | 8 | any | make simulate-networks | SEEDS=0..20 | random_networks | breaches<=0 | scheduler/src measure/src loadgen/src
reproduce | 15 | any | QUICK=1 make reproduce | PAPER=EH99 | reproduced | reproduced>=141 not_run<=37 | scheduler/src measure/src loadgen/src loadgen/papers
idle-memory | 8 | any | make idle-memory | CONNECTIONS=1000 | idle_memory | plain<=10000 | proxy
http2-memory | 5 | any | make http2-memory | CONNECTIONS=200 | http2_memory | | proxy
fault-simulation | 25 | any | make fault-simulation | SEEDS=200 | passed_tests | passed>=1 | proxy proxy/tests/faults
fuzz-smoke | 10 | any | make fuzz-smoke | EACH_S=2 | fuzzed | | proxy filters fuzz
failover | 5 | any | make failover | FAULTS=killed | failover | | proxy
config-load | 8 | alone | make config-load | ROUNDS=1 REQUESTS=20000 LOAD_BAR_MS=10000 DELAY_BAR_MS=10000 | config_load | load_ms<=200 delay_ms<=10 | proxy config/benches
soak-reload | 10 | any | make soak-reload | | reloads | reloads>=100 | proxy
demo | 5 | alone | ONCE=1 make demo | WATCH_S=1 | demonstrated | moved>=10 factor>=2 failed<=0 | proxy loadgen/src scripts/browser
demo-envoy | 10 | alone | ONCE=1 CONFIG=all make demo-envoy | | demos | | filters config/envoy
check-browser | 8 | alone | make check-browser | PRIORITIES=all ROUNDS=1 | browser | | proxy scripts/browser
check-dashboard | 8 | alone | make check-dashboard | WATCH_S=1 | dashboard | moved>=10 wrong<=0 | proxy scripts/browser
test-compose | 30 | any | make test-compose | | composed | checks>=1 | proxy Dockerfile docker docker-compose.yml
bench | 10 | alone | make bench | | benches | look_up_ns<=200 | scheduler/src scheduler/benches
mutants | 30 | any | ALL=1 FOR_MIN=${MUTANTS_MIN:-25} make mutants | MUTANTS_MIN=1 | mutated | missed<=0 | scheduler config mutants
slow-clients | 25 | alone | ROUNDS=${ROUNDS:-5} make slow-clients | ROUNDS=1 CONNECTIONS=200 BAR=1000 | slow_clients | worst<=1.2 | proxy
buffering | 5 | alone | make buffering | ROUNDS=1 REQUESTS=500 BAR=1000 | buffering | worst<=1.2 | proxy
background | 25 | alone | make background | DURATION_S=10 | background | light_rate<=1.04 heavy_rate<=1.18 light_idle<=1.1 heavy_idle<=1.1 light_idle_share>=0.8 heavy_idle_share>=0.8 | proxy
starvation | 8 | link | make starvation | VARIANTS=srpt DURATION_S=10 BARS=0 | starved | event_p99_ms<=50 head_max_ms<=1000 large_of_floor>=0.9 | proxy
compare | 25 | link | make compare | REQUESTS=1000 | compared | srpt<=1.15 auto<=1.4 kernel_of_nginx<=0.4 srpt_goodput>=0.99 auto_goodput>=0.98 failed<=0 | proxy
compare-networks | 30 | alone | ONLY="${NETWORKS:-all-2mbit-64k half-2mbit-64k none-rtt40 host-10-rtt* host-100-rtt10 beyond-10-64k change-20-6-20 own-and-shared}" REQUESTS=${REQUESTS:-2000} make compare-networks | NETWORKS=host-10-rtt40 REQUESTS=500 | networks | auto_of_better<=1.05 auto_of_named<=1.25 auto_goodput>=0.99 auto_largest<=1.3 failed<=0 | proxy
find-rate | 5 | alone | STEP_S=${STEP_S:-10} make find-rate | CASES=10mbit STEP_S=5 | rates_found | never<=0 slowest_s<=10 | proxy
compare-simulated | 3 | alone | RUNS="$RESULTS/../compare-networks/runs" make compare-simulated | | simulated_networks | networks>=6 | loadgen/src measure/src scheduler/src results/networks
compare-tls | 8 | link | TLS=1 SYSTEMS='nginx sprat-srpt' make compare | REQUESTS=1000 | compared | srpt<=1.3 failed<=0 | proxy
compare-http2 | 10 | link | make compare-http2 | REQUESTS=1000 | compared | srpt<=1.3 failed<=0 | proxy
compare-counterfactual | 25 | link | make compare-counterfactual | REQUESTS=500 LOADS=0.7 | counterfactual | failed<=0 | proxy
compare-compression | 15 | link | make compare-compression | REQUESTS=500 LOADS=0.7 BAR=1000 | compression | worst<=1.2 | proxy
compare-farm | 35 | link | make compare-farm | REQUESTS=1000 | farm | size>=3 probe>=2 sita>=10 least_work>=4 least_request>=4 failed<=0 | proxy
bench-peers | 25 | alone | make bench-peers | ROUNDS=1 SIZES=10000 | peers | b100<=1.15 b10000<=1.15 b100000<=0.85 b1000000<=0.6 scheduling<=1.03 idle<=10000 | proxy
bench-observability | 8 | alone | make bench-observability | PAIRS=1 REQUESTS=5000 BAR=0 | observed | ratio<=1.03 | proxy
compare-envoy | 30 | link | make compare-envoy | REQUESTS=1000 | compared_envoy | module_1<=1.3 module_2<=1.3 wasm_bodies_1<=1.35 wasm_bodies_2<=1.35 module_goodput>=0.99 wasm_goodput>=0.99 | proxy filters
compare-envoy-farm | 15 | link | make compare-envoy-farm | REQUESTS=1000 | envoy_farm | of_round_robin>=4 of_least_request>=1.5 held>=3 failed<=0 | proxy filters
bench-envoy | 25 | alone | make bench-envoy | ROUNDS=2 IDLE_S=2 | envoy_cost | module_off>=0.95 wasm_off>=0.85 | proxy filters
soak-envoy | 25 | any | REQUESTS=${REQUESTS:-100000} make soak-envoy | REQUESTS=30000 LIMITS=65536 | soaked_envoy | wrong<=0 | filters
soak | 20 | any | SECONDS=${SOAK_S:-900} make soak | SOAK_S=180 | soaked | | proxy
TABLE
}

# row NAME: its fields, as name, minutes, where, command, smaller, figure, bar, of.
row() {
    local line
    line=$(table | grep "^$1 |") || die "there is no check $1: LIST=1 make checks"
    IFS='|' read -r name minutes where command smaller figure bar of <<<"$line"
    for field in name minutes where command smaller figure bar of; do
        read -r "${field?}" <<<"${!field}" || true
    done
}

names() { table | cut -d ' ' -f 1; }

# What is checked out: the commit, and what was changed since.
tree_key() {
    local changed
    changed=$({
        git diff --binary HEAD -- . ':!results'
        git ls-files --others --exclude-standard -z -- . ':!results' | xargs -0r sha256sum
    } | sha256sum)
    printf '%s' "$(git rev-parse --short=10 HEAD)"
    [ -z "$(git status --porcelain -- . ':!results')" ] || printf '%s' "-changed-${changed:0:8}"
}

# outcome NAME: date, commit, time, verdict and figure, separated by tabs; nothing
# where it has not been run. What was seen on another machine stands in the report.
outcome() {
    local line
    if [ -s "$state/$1/outcome" ]; then
        cat "$state/$1/outcome"
    elif [ -z "$QUICK" ] && line=$(grep "^| $1 | " results/checks.md 2>/dev/null); then
        # name, command, commit, date, time, figure, bar, verdict
        awk -F ' *[|] *' -v OFS='\t' '$4 != "" { print $5, $4, $6, $9, $7 }' <<<"$line"
    fi
}

# verdict_of NAME: by the bar of today, which may have been looser when it was run.
verdict_of() {
    local verdict numbers name minutes where command smaller figure bar of
    IFS=$'\037' read -r _ _ _ verdict numbers < <(outcome "$1" | tr '\t' '\037') || true
    row "$1"
    held_against "$verdict" "$numbers" "$bar"
}

# held_against VERDICT FIGURE BAR: the verdict, unless the figure of what has passed is over
# the bar. With QUICK, bars are not held against it.
held_against() {
    local over=''
    [ -n "$QUICK" ] || [ "$1" != passed ] || over=$(judge "$2" "$3")
    printf '%s' "${over:+over the bar: }${over:-$1}"
}

# stands NAME: whether it has passed, and nothing has changed since of what it is of.
stands() {
    local commit paths=() each
    row "$1"
    [ "$(verdict_of "$1")" = passed ] || return 1
    commit=$(outcome "$1" | cut -f 2)
    case $commit in *changed*) return 1 ;; esac
    git merge-base --is-ancestor "$commit" HEAD 2>/dev/null || return 1
    for each in $of "scripts/${command##*make }.sh"; do
        case $each in
            proxy) paths+=({scheduler,config,import,measure,whatif,top,proxy,proxy/acme,proxy/encoder,proxy/net,proxy/server,proxy/sizes,proxy/traces,proxy/uplink,proxy/upstream,loadgen}/{src,Cargo.toml} Cargo.toml Cargo.lock scripts/lab.sh scripts/measure.sh) ;;
            filters) paths+=({scheduler,config}/{src,Cargo.toml} filters Cargo.toml Cargo.lock) ;;
            *) paths+=("$each") ;;
        esac
    done
    local file
    while read -r file; do
        builds_the_same "$commit" "$file" || return 1
    done < <(
        git diff --name-only --no-renames "$commit" -- "${paths[@]}"
        git ls-files --others --exclude-standard -- "${paths[@]}"
    )
}

# builds_the_same COMMIT FILE: whether what is built of it is as it was: a file of
# tests, or one that differs in comments or in the module of tests at its end.
builds_the_same() {
    case $2 in
        */src/tests.rs | */src/*/tests.rs | */src/tests/*.rs | */src/*/tests/*.rs) return 0 ;;
        *.rs) ;;
        *) return 1 ;;
    esac
    [ -e "$2" ] && git cat-file -e "$1:$2" 2>/dev/null &&
        [ "$(git show "$1:$2" | code_of)" = "$(code_of <"$2")" ]
}

# judge FIGURE BAR: prints what is over the bar.
judge() {
    local each want got over=''
    for each in $2; do
        [[ $each =~ ^([a-z0-9_]+)([<>]=)(.*)$ ]] || die "a bar is NAME<=NUMBER or NAME>=NUMBER, not $each"
        want=${BASH_REMATCH[3]}
        got=$(tr ' ' '\n' <<<"$1" | sed -n "s/^${BASH_REMATCH[1]}=//p")
        awk -v got="$got" -v want="$want" -v how="${BASH_REMATCH[2]}" 'BEGIN {
            if (got !~ /^-?[0-9.]+$/) exit 1
            exit !(how == "<=" ? got + 0 <= want + 0 : got + 0 >= want + 0)
        }' || over+=" $each"
    done
    printf '%s' "${over# }"
}

# run_one NAME UNDER: runs it, with UNDER before its command, and writes down how it went.
run_one() {
    row "$1"
    local out=$state/$name log=$state/$name/log began=$SECONDS status=0 verdict=passed numbers='' over
    rm -rf "$out"
    mkdir -p "$out"
    local small=()
    [ -z "$QUICK" ] || read -r -a small <<<"$smaller"
    # In a group of its own, all of which is told to end when the time is over.
    # shellcheck disable=SC2086  # it is words
    env "${small[@]}" RESULTS="$out" \
        timeout --kill-after=60 $((minutes * 3))m $2 bash -c "$command" >"$log" 2>&1 &
    wait $! || status=$?
    numbers=$(figure_"$figure" 2>/dev/null | tr '\n' ' ' | sed 's/ *$//') || true
    if [ "$status" = 124 ] || [ "$status" = 137 ]; then
        verdict="stopped after $((minutes * 3)) minutes"
    elif [ "$status" != 0 ]; then
        verdict="failed: $(last_words "$log")"
    elif [ -z "$QUICK" ]; then
        over=$(judge "$numbers" "$bar")
        [ -z "$over" ] || verdict="over the bar: $over"
    fi
    local took
    took=$(duration $((SECONDS - began)))
    printf '%s\t%s\t%s\t%s\t%s\n' "$(date -u +%F)" "$key" "$took" "$verdict" "$numbers" >"$out/outcome"
    say "    $name: $verdict, $took${numbers:+: $numbers}"
    [ "$verdict" = passed ] || say "    what it said: $log"
}

# last_words LOG: why it failed, in one line.
last_words() {
    local words
    words=$(grep -a '^error' "$1" | tail -n 1 || true)
    words=${words:-$(tail -n 1 "$1")}
    printf '%s' "${words//$ROOT\//}" | tr '\t|`' "  '" | cut -c 1-160
}

duration() {
    if [ "$1" -lt 60 ]; then printf '%d s' "$1"; else printf '%d min' $((($1 + 30) / 60)); fi
}

# report: results/checks.md, from all that was ever run.
report() {
    local each date commit took verdict numbers written
    [ -z "$QUICK" ] || return 0
    written=results/work/checks.md.$BASHPID
    {
        printf '# Checks\n\n'
        printf 'What is not part of `make test`, as `make checks` ran each last, and at\n'
        printf 'which commit. The figures are explained where the documents quote them.\n\n'
        printf '| check | command | commit | date | time | figure | bar | verdict |\n'
        printf '| --- | --- | --- | --- | ---: | --- | --- | --- |\n'
        for each in $(names); do
            row "$each"
            date='' commit='' took='' verdict='' numbers=''
            # A tab is white space to `read`, which would join empty fields.
            IFS=$'\037' read -r date commit took verdict numbers < <(outcome "$each" | tr '\t' '\037') || true
            verdict=$(held_against "$verdict" "$numbers" "$bar")
            printf '| %s | `%s` | %s | %s | %s | %s | %s | %s |\n' "$each" "$command" \
                "$commit" "$date" "$took" "$numbers" "$bar" "${verdict:-not run}"
        done
    } >"$written"
    mv "$written" results/checks.md
    chmod 644 results/checks.md
}

list() {
    local each
    printf '%-22s %7s  %-5s  %s\n' check minutes where command
    for each in $(names); do
        row "$each"
        printf '%-22s %7s  %-5s  %s%s\n' "$each" "$minutes" "$where" "$command" "${bar:+  ($bar)}"
    done
}

# minutes_of NAME...: what they are expected to take, one after the other.
minutes_of() {
    local each sum=0
    for each in "$@"; do
        row "$each"
        sum=$((sum + minutes))
    done
    echo "$sum"
}

# announce WHERE NUMBER OF NAME
announce() {
    row "$4"
    say "$(date +%H:%M) $1 $2/$3: $4, about $minutes min"
}

# in_turn WHERE UNDER NAME...: one after the other.
in_turn() {
    local each number=0 under=$2
    trap 'stop_running; exit 130' TERM
    for each in "${@:3}"; do
        announce "$1" $((number += 1)) $(($# - 2)) "$each"
        run_one "$each" "$under"
        report
    done
}

# beside NAME...: so many lanes at a time.
beside() {
    local each number=0 lane lanes=()
    for each in "$@"; do
        while [ ${#lanes[@]} -ge "$LANES" ]; do
            wait -n "${lanes[@]}" || true
            for lane in "${!lanes[@]}"; do kill -0 "${lanes[lane]}" 2>/dev/null || unset "lanes[lane]"; done
            report
        done
        announce link $((number += 1)) $# "$each"
        in_lane "$each" "${UNDER:-}" &
        lanes+=($!)
    done
    [ ${#lanes[@]} -eq 0 ] || wait "${lanes[@]}" || true
    report
}

in_lane() {
    trap 'stop_running; exit 130' TERM
    run_one "$@"
}

cd "$ROOT"
if [ -n "${LIST:-}" ]; then
    list
    exit
fi
QUICK=${QUICK:-} LANES=${LANES:-3}
key=$(tree_key)
state=results/work/checks${QUICK:+-quick}
mkdir -p "$state"
# What runs now, and what runs beside it, each with all that it has started.
stop_running() {
    local pids
    mapfile -t pids < <(jobs -rp)
    [ ${#pids[@]} -eq 0 ] || kill -TERM "${pids[@]}"
    wait || true
}
trap 'stop_running; exit 130' INT TERM

selected=() slow=() any=()
for each in ${ONLY:-$(names)}; do
    row "$each"
    if [ -z "${FRESH:-}" ] && stands "$each"; then continue; fi
    case $where in
        link) slow+=("$each") ;;
        any) any+=("$each") ;;
        alone) selected+=("$each") ;;
    esac
done
say "$key: $((${#slow[@]} + ${#any[@]} + ${#selected[@]})) checks to run," \
    "about $(duration $(($(minutes_of "${slow[@]}") * 60 / LANES + $(minutes_of "${any[@]}" "${selected[@]}") * 60)))${QUICK:+ at full length}"
in_turn any 'nice -n 19' "${any[@]}" &
beside "${slow[@]}"
wait
in_turn alone "${UNDER:-}" "${selected[@]}"
report

failed=''
for each in ${ONLY:-$(names)}; do
    [ "$(verdict_of "$each")" = passed ] || failed+=" $each"
done
[ -n "$QUICK" ] || say "Written: results/checks.md"
[ -z "$failed" ] || die "not passed:$failed"
say "All have passed."
