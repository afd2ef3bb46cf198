#!/usr/bin/env bash
# The dashboard in a browser: Chromium watches a Sprat under load. The queue must move,
# the keyboard reach every control, and nothing be asked of any other host, be refused by
# the page's policy, or be said on the console; 360 px are wide enough. Pictures are left
# in results/work/dashboard. The environment changes it:
#
#   UPLINK_KBIT=20000 LOAD=0.95 WATCH_S=20
#   CHROMIUM=/usr/bin/chromium
#   PARTS=proxy/server/src/observe/admin/dashboard   scripts and styles from the sources, not the binary
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"
. "$ROOT/scripts/measure.sh"
. "$ROOT/scripts/browser/setup.sh"

UPLINK_KBIT=${UPLINK_KBIT:-20000}
LOAD=${LOAD:-0.95}
ORIGINS='9431 9432 9433'
# Nothing listens there: an endpoint that is out of use.
DEAD=127.0.0.1:9434
PROXY=127.0.0.1:9435
ADMIN=127.0.0.1:9436
out=${OUT:-$ROOT/results/work/dashboard}

cd "$ROOT"
browser_begin
cp scripts/browser/dashboard.mjs "$modules/"
measure_begin
mkdir -p "$out"
# shellcheck disable=SC2086  # they are words
require_free $ORIGINS "${DEAD##*:}" "${PROXY##*:}" "${ADMIN##*:}"
for port in $ORIGINS; do
    start_process "origin-$port" node "$modules/check.mjs" serve "$port"
    wait_for "origin-$port" "http://127.0.0.1:$port/"
done
cat >"$work/sprat.yaml" <<YAML
version: 1
admin: {address: "$ADMIN"}
listeners: [{address: "$PROXY"}]
uplink: {rate: ${UPLINK_KBIT}kbit, policy: srpt}
clusters:
  pages:
    endpoints: [127.0.0.1:9431, 127.0.0.1:9432, "$DEAD"]
    health_checks: {http_health_check: {path: /}, interval: 1s, timeout: 1s}
  api: {endpoints: [127.0.0.1:9433]}
classes:
  interactive: {level: 2}
class_rules:
  - match: {prefix: /api}
    class: interactive
routes:
  - match: {prefix: /bytes}
    cluster: pages
  - match: {prefix: /api}
    prefix_rewrite: /
    cluster: api
YAML
start_process sprat "$target/sprat" run -c "$work/sprat.yaml"
wait_for sprat "http://$ADMIN/readyz"
start_process load node "$modules/dashboard.mjs" load "http://$PROXY" "${UPLINK_KBIT}000" "$LOAD"
seen=$(PARTS=${PARTS:+$(realpath "$PARTS")} node "$modules/dashboard.mjs" visit "http://$ADMIN" "$CHROMIUM" "$out") ||
    die "the dashboard is not as it should be: $(tail -n 40 "$work/sprat.log")"
say "dashboard: $seen"
