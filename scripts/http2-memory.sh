#!/usr/bin/env bash
# What HTTP/2 connections and streams cost in memory: CONNECTIONS of them, each
# with STREAMS responses that wait because their windows never open. The
# environment changes it:
#
#   CONNECTIONS=2000 STREAMS=50 BYTES=1000
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"
. "$ROOT/scripts/measure.sh"

CONNECTIONS=${CONNECTIONS:-2000}
STREAMS=${STREAMS:-50}
BYTES=${BYTES:-1000}
ADMIN=127.0.0.1:9900

cd "$ROOT"
need python3 python3
measure_begin
start_origin 127.0.0.1:9101
cat >"$work/sprat.yaml" <<YAML
version: 1
admin: {address: $ADMIN}
runtime: {workers: 1}
listeners:
  - address: 127.0.0.1:8080
    idle_timeout: 10m
    stream_idle_timeout: 10m
uplink: {rate: 10gbit, max_flows: 1000000}
clusters:
  farm:
    endpoints: [127.0.0.1:9101]
routes:
  - cluster: farm
YAML
start_process sprat "$target/sprat" run -c "$work/sprat.yaml"
wait_for sprat http://127.0.0.1:8080/size/10/probe

# held: requests in progress.
held() { curl -fsS "http://$ADMIN/metrics" | awk '/^sprat_open_requests/ { print int($2) }'; }

# hold STREAMS: that many on each connection, and none of their bytes taken.
hold() {
    python3 - "$CONNECTIONS" "$1" "$BYTES" <<'PYTHON' >"$work/hold.log" 2>&1 &
import socket, sys, time

connections, streams, size = map(int, sys.argv[1:])


def frame(kind, flags, stream, payload):
    return (len(payload).to_bytes(3, "big") + bytes([kind, flags])
            + stream.to_bytes(4, "big") + payload)


def literal(text):
    return bytes([len(text)]) + text.encode()


def block(*fields):
    return b"".join(b"\0" + literal(name) + literal(value) for name, value in fields)


fields = block((":method", "GET"), (":scheme", "http"), (":authority", "a"),
               (":path", f"/size/{size}/hold"))
# SETTINGS_INITIAL_WINDOW_SIZE = 0.
begin = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"\0\4\0\0\0\0")
requests = b"".join(frame(1, 5, 2 * n + 1, fields) for n in range(streams))
held = []
for _ in range(connections):
    held.append(socket.create_connection(("127.0.0.1", 8080)))
    held[-1].sendall(begin + requests)
    time.sleep(0.002)
time.sleep(3600)
PYTHON
    pid_of[hold]=$!
    started+=(hold)
}

# measure STREAMS
measure() {
    local wanted=$((CONNECTIONS * $1)) before after tenths=1200
    before=$(resident_kb "${pid_of[sprat]}")
    hold "$1"
    until [ "$(held)" = "$wanted" ] &&
        [ "$(curl -fsS "http://$ADMIN/metrics" | awk '/^sprat_open_connections/ { print int($2) }')" -ge "$CONNECTIONS" ]; do
        tenths=$((tenths - 1))
        [ "$tenths" -gt 0 ] || die "$(held) of $wanted streams are held; $(cat "$work/hold.log")"
        sleep 0.1
    done
    sleep 1
    after=$(resident_kb "${pid_of[sprat]}")
    say "$CONNECTIONS connections with $1 streams each: $((after - before)) kB more, $(((after - before) / CONNECTIONS)) kB each"
    stop_process hold
}

measure 0
stop_process sprat
start_process sprat "$target/sprat" run -c "$work/sprat.yaml"
wait_for sprat http://127.0.0.1:8080/size/10/probe
measure "$STREAMS"
