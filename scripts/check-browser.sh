#!/usr/bin/env bash
# Browsers in front of Sprat: Chromium and Firefox load a page of small responses over TLS
# and HTTP/2 while a download of their own is under way, send a body, and talk over a
# WebSocket; all must arrive, over h2. Safari's requests are replayed as they were recorded.
# The same for what may count of a browser's priorities, in ROUNDS turns: how long the page
# took, and its responses, is printed beside. The environment changes it:
#
#   BROWSERS="chromium firefox safari" PRIORITIES="all urgency none" ROUNDS=3
#   UPLINK=20mbit IMAGES=60 IMAGE_BYTES=20000 DOWNLOAD_BYTES=5000000
#   CHROMIUM=/usr/bin/chromium FIREFOX=/usr/bin/firefox-esr
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"
. "$ROOT/scripts/measure.sh"
. "$ROOT/scripts/browser/setup.sh"

BROWSERS=${BROWSERS:-chromium firefox safari}
PRIORITIES=${PRIORITIES:-all urgency none}
ROUNDS=${ROUNDS:-3}
UPLINK=${UPLINK:-20mbit}
IMAGES=${IMAGES:-60}
IMAGE_BYTES=${IMAGE_BYTES:-20000}
DOWNLOAD_BYTES=${DOWNLOAD_BYTES:-5000000}
ORIGIN_PORT=9421
PROXY=localhost:9428

cd "$ROOT"
# shellcheck disable=SC2086  # they are words
browser_begin $BROWSERS
measure_begin
self_signed localhost
require_free "$ORIGIN_PORT"
start_process origin node "$modules/check.mjs" serve "$ORIGIN_PORT"
wait_for origin "http://127.0.0.1:$ORIGIN_PORT/"

# visit BROWSER PRIORITIES: one page, and whether all of it was as it should be.
visit() {
    local executable=- seen
    case $1 in
        chromium) executable=$CHROMIUM ;;
        firefox) executable=$FIREFOX ;;
    esac
    seen=$(node "$modules/check.mjs" visit "https://$PROXY/" "$1" "$executable" "$IMAGES" "$IMAGE_BYTES" "$DOWNLOAD_BYTES") ||
        die "$1: the page did not load as it should: $(tail -n 5 "$work/sprat.log")"
    say "$1 $2: $seen"
    case $1:$seen in
        safari:*'"protocols":["h2"]}' | *'"protocols":["h2"],"echoed":true}') ;;
        *)
            warn "$1 $2: something other than h2 was spoken, or the WebSocket did not echo"
            failed=1
            ;;
    esac
}

failed=0
for ((round = 1; round <= ROUNDS; round++)); do
    for priorities in $PRIORITIES; do
        require_free "${PROXY##*:}"
        cat >"$work/sprat.yaml" <<YAML
version: 1
listeners:
  - address: 127.0.0.1:${PROXY##*:}
    http2: {priorities: $priorities}
    tls:
      certificates: [{certificate_chain: $work/chain.pem, private_key: $work/key.pem}]
uplink: {rate: $UPLINK, policy: srpt}
clusters:
  farm: {endpoints: [127.0.0.1:$ORIGIN_PORT]}
routes:
  - cluster: farm
YAML
        start_process sprat "$target/sprat" run -c "$work/sprat.yaml"
        wait_for sprat "https://$PROXY/"
        for browser in $BROWSERS; do
            visit "$browser" "$priorities"
        done
        stop_process sprat
    done
done
exit "$failed"
