#!/usr/bin/env bash
# nginx and Sprat side by side on one page: the same requests at the same time, each in
# front of its own farm and behind a limited link of its own. Until Ctrl-C. The
# environment changes it:
#
#   UPLINK=10mbit LOAD=0.9 SEED=7 PAGE=127.0.0.1:8900
#   ONCE=1                 Chromium looks at the page, tries its controls, and leaves
#                          pictures in RESULTS (results/work/demo); then it ends
#   SYSTEMS="nginx sprat"  haproxy too
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"
. "$ROOT/scripts/measure.sh"
. "$ROOT/scripts/lab.sh"

UPLINK=${UPLINK:-10mbit}
LOAD=${LOAD:-0.9}
SEED=${SEED:-7}
PAGE=${PAGE:-127.0.0.1:8900}
SYSTEMS=${SYSTEMS:-nginx sprat}
ONCE=${ONCE:-}
RESULTS=${RESULTS:-$ROOT/results/work/demo}

cd "$ROOT"
lab_needs nginx
lab_needs haproxy
require_free "${PAGE##*:}"
say "Building Sprat (a few minutes the first time)"
if [ -n "$ONCE" ]; then
    . "$ROOT/scripts/browser/setup.sh"
    browser_begin
    cp scripts/browser/demo.mjs "$modules/"
fi
lab_begin sprat-demo demo

# use SYSTEM: what is started from now on is in that system's farm.
use() {
    lab=sprat-demo-$1
    within=(ip netns exec "$lab-farm")
}

labs_down() {
    local system
    for system in $SYSTEMS; do
        use "$system"
        lab_down || true
    done
}
at_end+=(labs_down)

# start SYSTEM: its link, its farm, and itself. nginx and HAProxy write below $work.
start() {
    local file=$work/$1.conf
    use "$1"
    lab_up "$UPLINK"
    # shellcheck disable=SC2086  # it is words
    start_process "origin-$1" "$target/sprat-loadgen" origin --listen=${LAB_ORIGINS// / --listen=}
    case $1 in
        nginx) lab_nginx '' '' >"$file" && start_process nginx nginx -c "$file" ;;
        haproxy) lab_haproxy '' >"$file" && start_process haproxy haproxy -db -f "$file" ;;
        sprat) lab_sprat "$UPLINK" srpt >"$file" && start_process sprat "$target/sprat" run -c "$file" ;;
        *) die "there is no system $1" ;;
    esac
    wait_for "$1" "http://$FARM:8080/size/10/probe"
}

shown=()
for system in $SYSTEMS; do
    start "$system"
    shown+=(--system "$system=http://$FARM:8080,namespace=$lab-client")
done
page=("$target/sprat-loadgen" demo --listen "$PAGE" --uplink "$UPLINK" --load "$LOAD" --seed "$SEED" "${shown[@]}")
if [ -n "$ONCE" ]; then
    within=()
    mkdir -p "$RESULTS"
    start_process demo "${page[@]}"
    wait_for demo "http://$PAGE/"
    seen=$(node "$modules/demo.mjs" "http://$PAGE" "$CHROMIUM" "$RESULTS") ||
        die "the page is not as it should be: $(tail -n 20 "$work/demo.log")"
    kill -INT "${pid_of[demo]}"
    wait "${pid_of[demo]}" || die "the demo has failed: $(tail -n 20 "$work/demo.log")"
    cat "$work/demo.log"
    say "demo: $seen"
    exit 0
fi
cat >&2 <<SAY

Open http://$PAGE: ${SYSTEMS// / and } under the same requests, each behind a link of
$UPLINK, at a load of $LOAD. Ctrl-C stops it all.

SAY
"${page[@]}"
