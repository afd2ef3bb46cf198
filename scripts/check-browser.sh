#!/usr/bin/env bash
# A browser in front of Sprat: Chromium loads a page of small responses over TLS and
# HTTP/2 while a download of its own is under way, sends a body, and talks over a
# WebSocket; all must arrive, over h2. The same for what may count of the browser's
# priorities: how long the page took, and its responses, is printed beside. The environment changes it:
#
#   PRIORITIES="all urgency none" UPLINK=20mbit IMAGES=60 IMAGE_BYTES=20000 DOWNLOAD_BYTES=5000000
#   CHROMIUM=/usr/bin/chromium
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"
. "$ROOT/scripts/measure.sh"
. "$ROOT/scripts/browser/setup.sh"

PRIORITIES=${PRIORITIES:-all urgency none}
UPLINK=${UPLINK:-20mbit}
IMAGES=${IMAGES:-60}
IMAGE_BYTES=${IMAGE_BYTES:-20000}
DOWNLOAD_BYTES=${DOWNLOAD_BYTES:-5000000}
ORIGIN_PORT=9421
PROXY=localhost:9428

cd "$ROOT"
browser_begin
measure_begin
self_signed localhost
require_free "$ORIGIN_PORT"
start_process origin node "$modules/check.mjs" serve "$ORIGIN_PORT"
wait_for origin "http://127.0.0.1:$ORIGIN_PORT/"

failed=0
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
    seen=$(node "$modules/check.mjs" visit "https://$PROXY/" "$CHROMIUM" "$IMAGES" "$IMAGE_BYTES" "$DOWNLOAD_BYTES") ||
        die "the page did not load as it should: $(tail -n 5 "$work/sprat.log")"
    say "$priorities: $seen"
    case $seen in
        *'"protocols":["h2"],"echoed":true}') ;;
        *)
            warn "$priorities: something other than h2 was spoken, or the WebSocket did not echo"
            failed=1
            ;;
    esac
    stop_process sprat
done
exit "$failed"
