#!/usr/bin/env bash
# What an idle connection costs: CONNECTIONS of them, each of which has had one
# response, held open in plain text and under TLS 1.3, and the growth of Sprat's
# memory (what the kernel counts as the process's own: RssAnon).
#
#   CONNECTIONS=10000 RESULTS=results/idle-memory
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"
. "$ROOT/scripts/measure.sh"

CONNECTIONS=${CONNECTIONS:-10000}
RESULTS=${RESULTS:-results/idle-memory}
PLAIN=127.0.0.1:18480 SECURE=127.0.0.1:18443 ORIGIN=127.0.0.1:18401

cd "$ROOT"
measure_begin
[ "$(ulimit -n)" -gt $((CONNECTIONS + 200)) ] ||
    die "$(ulimit -n) open files are allowed here: give CONNECTIONS less than that, or raise the limit"
self_signed idle.example
cat >"$work/sprat.yaml" <<YAML
version: 1
admin: off
runtime: {workers: 1}
listeners:
  - address: $PLAIN
    idle_timeout: 1h
  - address: $SECURE
    idle_timeout: 1h
    tls:
      certificates: [{certificate_chain: $work/chain.pem, private_key: $work/key.pem}]
uplink:
  rate: ${RATE:-unlimited}
clusters:
  farm:
    endpoints: [$ORIGIN]
routes:
  - cluster: farm
YAML

# anonymous_kb PID: its own memory.
anonymous_kb() { awk '$1 == "RssAnon:" { print $2 }' "/proc/$1/status"; }

# hold LABEL URL: a fresh proxy, the connections, and what they cost.
hold() {
    local before after fifo=$work/hold.fifo holder
    start_process sprat "$target/sprat" run -c "$work/sprat.yaml"
    wait_for sprat "$2/size/100/hold"
    before=$(anonymous_kb "${pid_of[sprat]}")
    rm -f "$fifo"
    mkfifo "$fifo"
    "$target/sprat-loadgen" hold --target "$2" --connections "$CONNECTIONS" <"$fifo" >"$work/hold.log" 2>&1 &
    holder=$!
    exec {open}>"$fifo"
    until grep -q '^holding' "$work/hold.log"; do
        kill -0 "$holder" 2>/dev/null || die "the connections cannot be held: $(cat "$work/hold.log")"
        sleep 0.2
    done
    # What was only needed for a moment is given back.
    sleep 3
    after=$(anonymous_kb "${pid_of[sprat]}")
    exec {open}>&-
    wait "$holder" || die "$(cat "$work/hold.log")"
    stop_process sprat
    echo "$1,$CONNECTIONS,$(((after - before) * 1024 / CONNECTIONS))" | tee -a "$RESULTS/idle-memory.csv"
}

mkdir -p "$RESULTS"
start_origin "$ORIGIN"
echo "connection,connections,bytes_each" >"$RESULTS/idle-memory.csv"
hold plain "http://$PLAIN"
hold tls "https://$SECURE"
say "Written: $RESULTS/idle-memory.csv"
