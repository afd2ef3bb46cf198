#!/usr/bin/env bash
# A hundred reloads in a minute under load, with a thousand open WebSockets: none
# dropped, no request failed, no memory grown.
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"

cd "$ROOT"
# A WebSocket has two descriptors in the test and two in Sprat.
ulimit -n 16384 || die "it takes 16384 descriptors: raise the hard limit (ulimit -Hn)"
cargo test --locked -p sprat --test e2e endurance -- --ignored --nocapture
