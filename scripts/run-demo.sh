#!/usr/bin/env bash
# Builds Sprat and serves a demo farm with it until Ctrl-C or SIGTERM.
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"

CONFIG=config/examples/quickstart.yaml
PROXY=127.0.0.1:8080
ADMIN=127.0.0.1:9900
ORIGINS=(9101 9102 9103)
READY_WITHIN_S=20

cd "$ROOT"
origin_pid='' sprat_pid=''

stop_all() {
    trap - EXIT
    trap '' INT TERM
    # The proxy first: it drains what it serves while the farm is still there.
    [ -z "$sprat_pid" ] || stop_pid "$sprat_pid" 30
    [ -z "$origin_pid" ] || stop_pid "$origin_pid"
}
trap stop_all EXIT
trap 'say; say "Stopping"; stop_all; exit 0' INT TERM

origins_up() {
    local port
    for port in "${ORIGINS[@]}"; do
        listening "$port" || return 1
    done
}

sprat_ready() { curl -fsS --max-time 1 -o /dev/null "http://$ADMIN/readyz" 2>/dev/null; }

say "Building Sprat (a few minutes the first time)"
build_programs
# Not on the terminal: a line for each request would push what to try out of sight.
access_log=$target/demo-access.log

require_free "${ORIGINS[@]}" "${PROXY##*:}" "${ADMIN##*:}"
# In sessions of their own: Ctrl-C is for this script, which then stops them in
# order. (A second signal would make Sprat cut what it is still sending.)
setsid "$target/sprat-loadgen" origin "${ORIGINS[@]/#/--listen=127.0.0.1:}" &
origin_pid=$!
wait_ready "the demo farm (sprat-loadgen origin)" "$origin_pid" origins_up ||
    die "the demo cannot start; the messages are above"
setsid "$target/sprat" run -c "$CONFIG" >"$access_log" &
sprat_pid=$!
wait_ready sprat "$sprat_pid" sprat_ready || die "the demo cannot start; the messages are above"

cat <<TRY

Sprat serves http://$PROXY/size/<bytes>/<any name> from three demo origins, over an
uplink of 10 Mbit/s ($CONFIG).

  In a browser, the dashboard, with the queue as it stands:
    http://$ADMIN/

In another terminal:

  A large response that takes some 16 seconds, and a small one that does not wait
  behind it:
    curl -so /dev/null http://$PROXY/size/20000000/large &
    curl -so /dev/null -w '%{size_download} bytes in %{time_total} s\n' http://$PROXY/size/1000/small

  A minute with a queue, to watch on the dashboard: twenty downloads, and small
  responses beside them. The large number there is what these gain:
    for i in \$(seq 20); do curl -so /dev/null http://$PROXY/size/4000000/\$i & done
    for i in \$(seq 200); do curl -so /dev/null http://$PROXY/size/1000/\$i; sleep 0.3; done

  What it counts, and whether it is ready; a line for each request:
    curl http://$ADMIN/metrics
    curl http://$ADMIN/readyz
    tail -f $access_log

  nginx and Sprat side by side, the same requests, on a page that moves (needs root):
    sudo make demo

Ctrl-C stops it all.
TRY

# Either one's end is the end: a demo with half its parts only confuses.
wait -n "$origin_pid" "$sprat_pid" || true
die "a part of the demo has ended; its messages are above"
