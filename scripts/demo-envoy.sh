#!/usr/bin/env bash
# Starts a demo farm and Envoy in front of it, with a filter of Sprat's, until
# Ctrl-C or SIGTERM. The environment changes it:
#
#   CONFIG=head-release   a file of config/envoy/, without its ending: head-release,
#                         held-bodies, paced-egress, priority, sidecar or size-dispatch
#   ONCE=1                tries it, and ends; with CONFIG=all each of them in turn
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"
. "$ROOT/scripts/envoy.sh"

CONFIG=${CONFIG:-head-release}
ADMIN=127.0.0.1:9901
ORIGINS=(9101 9102 9103 9104)
READY_WITHIN_S=20

cd "$ROOT"
if [ -n "${ONCE:-}" ] && [ "$CONFIG" = all ]; then
    for each in config/envoy/*.yaml; do
        CONFIG=$(basename -- "$each" .yaml) "$ROOT/scripts/demo-envoy.sh"
    done
    exit
fi
file=config/envoy/$CONFIG.yaml
[ -f "$file" ] || die "there is no $file: CONFIG is one of $(cd config/envoy && echo *.yaml | sed 's/\.yaml//g')"
need curl curl
kind=wasm
if grep -q dynamic_modules "$file"; then kind=module; fi
port=$(sed -n '/0\.0\.0\.0, port_value: [1-9]/ { s/.*port_value: \([0-9]*\).*/\1/p; q; }' "$file")
origin_pid='' envoy_pid='' work=$(mktemp -d)

stop_all() {
    trap - EXIT
    trap '' INT TERM
    [ -z "$envoy_pid" ] || stop_pid "$envoy_pid"
    [ -z "$origin_pid" ] || stop_pid "$origin_pid"
    rm -rf "$work"
}
trap stop_all EXIT
trap 'say; say "Stopping"; stop_all; exit 0' INT TERM

require_free "${ORIGINS[@]}" "$port" "${ADMIN##*:}"

say "Building the farm and the $kind filter (a few minutes the first time)"
build_programs
envoy_prepare "$kind"
if [ "$kind" = wasm ]; then
    sed "s#target/sprat-filter.wasm#$SPRAT_FILTER_WASM#" "$file" >"$work/envoy.yaml"
else
    cp "$file" "$work/envoy.yaml"
fi

origins_up() {
    local each
    for each in "${ORIGINS[@]}"; do listening "$each" || return 1; done
}
envoy_ready() { curl -fsS --max-time 1 -o /dev/null "http://$ADMIN/ready" 2>/dev/null; }

# In sessions of their own: Ctrl-C is for this script, which then stops them in
# order.
setsid "$target/sprat-loadgen" origin "${ORIGINS[@]/#/--listen=127.0.0.1:}" &
origin_pid=$!
wait_ready "the demo farm (sprat-loadgen origin)" "$origin_pid" origins_up ||
    die "the demo cannot start; the messages are above"
setsid "$envoy" -c "$work/envoy.yaml" --disable-hot-restart --log-level warn &
envoy_pid=$!
wait_ready Envoy "$envoy_pid" envoy_ready || die "the demo cannot start; the messages are above"

# try_once: responses that come whole through the filter, which has counted them.
try_once() {
    local bytes got counted
    for bytes in 2000000 1000 0; do
        got=$(curl -sS --max-time 30 -o /dev/null -w '%{http_code} %{size_download}' "http://127.0.0.1:$port/size/$bytes/try")
        [ "$got" = "200 $bytes" ] || die "$CONFIG: $bytes bytes were asked for, and the answer is $got"
    done
    # Envoy gathers its workers' counters when it is asked; wasm's may be later.
    for _ in $(seq 50); do
        counted=$(curl -fsS "http://$ADMIN/stats" | awk '/sprat/ && $NF + 0 > 0 { n++ } END { print n + 0 }')
        [ "$counted" = 0 ] || break
        sleep 0.1
    done
    [ "$counted" != 0 ] || die "$CONFIG: the filter has counted nothing"
    say "Tried: $CONFIG, whole responses through the $kind filter, counts $counted"
}
if [ -n "${ONCE:-}" ]; then
    try_once
    exit
fi

cat <<TRY

Envoy serves http://127.0.0.1:$port with Sprat's $kind filter
($file). In another terminal:

  A large response, and small ones beside it:
    curl -so /dev/null http://127.0.0.1:$port/size/20000000/large &
    curl -so /dev/null -w '%{size_download} bytes in %{time_total} s\n' http://127.0.0.1:$port/size/1000/small

  What the filter counts:
    curl -s http://$ADMIN/stats | grep sprat

  Another filter, or another use of it:
    CONFIG=paced-egress make demo-envoy    (or priority, sidecar, size-dispatch)

Ctrl-C stops it all.
TRY

# Either one's end is the end: a demo with half its parts only confuses.
wait -n "$origin_pid" "$envoy_pid" || true
die "a part of the demo has ended; its messages are above"
