#!/usr/bin/env bash
# What slow clients cost the others: CONNECTIONS of them that send their head, their
# body, or read, as slowly as they can (slowhttptest), while one normal client asks
# for small responses. Its median time may be 1.2 of what it is without them: before
# they come or after they have left, the smaller of both. Of several rounds the one in the middle counts,
# for the same time changes by more from one second to the next. Then the same with
# the default bounds, but shorter: every slow client must be gone. The environment
# changes it:
#
#   CONNECTIONS=2000 REQUESTS=20000 RATES="unlimited 1gbit" KINDS="headers body read"
#   ROUNDS=9 BAR=1.2 RESULTS=results/slow-clients
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"
. "$ROOT/scripts/measure.sh"

CONNECTIONS=${CONNECTIONS:-2000}
REQUESTS=${REQUESTS:-20000}
RATES=${RATES:-unlimited 1gbit}
KINDS=${KINDS:-headers body read}
ROUNDS=${ROUNDS:-9}
BAR=${BAR:-1.2}
RESULTS=${RESULTS:-results/slow-clients}
ORIGIN=127.0.0.1:9221
PROXY=127.0.0.1:9228
ADMIN=127.0.0.1:9229
# Most of them are there when this share is.
ENOUGH_PERCENT=98
# The bound on slowness in the second part, and when all must be gone.
SHORT_S=3
GONE_WITHIN_S=30

cd "$ROOT"
need slowhttptest slowhttptest
measure_begin
mkdir -p "$RESULTS"
cores_awake
# Slow clients, which would be elsewhere, have what time is left, for slowhttptest at times
# asks for all there is.
left_over=(chrt --idle 0)

# sprat_config RATE TIMEOUT_S MIN_RATES
#
# slowhttptest asks now and then whether the server is still there, and closes before the
# answer has come: without abort_on_close that would be owed for as long as it takes.
sprat_config() {
    cat <<YAML
version: 1
runtime: {workers: 1}
admin: {address: $ADMIN}
listeners:
  - address: $PROXY
    abort_on_close: true
    request_headers_timeout: $2s
    idle_timeout: $2s
    stream_idle_timeout: $2s
    min_rates: $3
uplink:
  rate: $1
clusters:
  farm:
    endpoints: [$ORIGIN]
    max_connections: 10000
    max_idle_connections: 10000
routes:
  - {cluster: farm, response_timeout: 10m}
YAML
}

# start_sprat RATE TIMEOUT_S MIN_RATES
start_sprat() {
    stop_process sprat
    require_free "${PROXY##*:}"
    sprat_config "$@" >"$work/sprat.yaml"
    start_process sprat "${sprat_core[@]}" "$target/sprat" run -c "$work/sprat.yaml"
    wait_for sprat "http://$PROXY/size/10/probe"
}

# gauge NAME: its value now, over all labels.
gauge() {
    curl -fsS --retry 5 --retry-connrefused --retry-delay 1 -o "$work/metrics" "http://$ADMIN/metrics" ||
        die "the metrics cannot be read"
    awk -v name="$1" '{ sub(/[{].*/, "", $1) } $1 == name { value += $NF } END { print int(value) }' "$work/metrics"
}

# attack KIND: as many slow clients as were asked for, in the background.
attack() {
    local options=(-c "$CONNECTIONS" -r 500 -l 600 -p 5 -i 2)
    case $1 in
        headers) options+=(-H -x 24 -u "http://$PROXY/size/1000/slow") ;;
        # The origin answers late, so that the body is what is waited for.
        body) options+=(-B -s 8192 -x 10 -t POST -u "http://$PROXY/size/1000/slow?delay=10m") ;;
        read) options+=(-X -n 2 -w 512 -y 1024 -z 16 -k 1 -u "http://$PROXY/size/8000000/slow") ;;
        *) die "there is no kind of slow client called $1" ;;
    esac
    start_process slow "${left_over[@]}" slowhttptest "${options[@]}"
}

# await_attack: until most slow clients are there, and no more is sent to them: what
# their sockets take until they are full is a download like any other's, which the link
# carries at its rate, and a small response waits for the grant that is under way.
await_attack() {
    local tenths=600
    until [ "$(gauge sprat_open_connections)" -ge $((CONNECTIONS * ENOUGH_PERCENT / 100)) ]; do
        kill -0 "${pid_of[slow]}" 2>/dev/null || die "the slow clients have ended: $(tail -n 20 "$work/slow.log")"
        [ "$tenths" -gt 0 ] || die "only $(gauge sprat_open_connections) slow clients of $CONNECTIONS came"
        tenths=$((tenths - 1))
        sleep 0.1
    done
    local sent=-1 before=-2
    while [ "$sent" != "$before" ]; do
        [ "$tenths" -gt 0 ] || die "the slow clients are sent more and more: $sent bytes"
        tenths=$((tenths - 5))
        sleep 0.5
        before=$sent sent=$(gauge sprat_response_bytes_total)
    done
}

awk -v count="$REQUESTS" \
    'BEGIN { print "t_s,bytes,path"; for (i = 0; i < count; i++) printf "0,10000,/size/10000/%d\n", i % 100 }' >"$work/trace.csv"

# median: of a normal client's response times, in milliseconds.
median() {
    replay normal --trace "$work/trace.csv" --closed 1 --connection keep --target "http://$PROXY" -o "$work/normal.csv.gz"
    [ "$(failures "$work/normal.csv.gz")" = 0 ] || die "requests of the normal client failed: $(cat "$work/replay-normal.log")"
    times "$work/normal.csv.gz" | awk '{ print $2 }' | sort -n |
        awk '{ ms[NR] = $1 } END { printf "%.3f\n", ms[int((NR + 1) / 2)] }'
}

# tcp_memory: the share of what the kernel lets all sockets of this host take, of which
# those of the slow clients and of the origin are a part. With all of it taken every
# connection is slow, whoever serves it.
tcp_memory() {
    awk -v most="$(cut -f 3 /proc/sys/net/ipv4/tcp_mem)" \
        '$1 == "TCP:" { printf "%.2f", $NF / most }' /proc/net/sockstat
}

# round RATE KIND: one measurement, as a line of CSV; its last field is the ratio.
round() {
    local before with there memory after
    before=$(median)
    attack "$2"
    await_attack
    with=$(median)
    memory=$(tcp_memory)
    there=$(gauge sprat_open_connections)
    [ "$there" -ge $((CONNECTIONS * ENOUGH_PERCENT / 100)) ] || die "the slow clients left meanwhile: $there are there"
    stop_process slow
    # Their connections are gone before the next are counted.
    until [ "$(gauge sprat_open_connections)" -le 1 ]; do sleep 0.1; done
    after=$(median)
    awk -v what="$1,$2,$there,$memory" -v before="$before" -v after="$after" -v with="$with" \
        'BEGIN { without = before < after ? before : after
            printf "%s,%s,%s,%s,%.2f\n", what, before, with, after, with / without }'
}

# The memory of an origin elsewhere would not be of this host's.
start_origin "$ORIGIN" --notsent-lowat 16KB
failed=0
echo 'rate,kind,slow_clients,tcp_memory,median_ms_before,median_ms_with,median_ms_after,ratio' >"$RESULTS/latency.csv"
for rate in $RATES; do
    start_sprat "$rate" 600 off
    median >/dev/null
    for kind in $KINDS; do
        for _ in $(seq "$ROUNDS"); do
            round "$rate" "$kind" >"$work/round.csv"
            tee -a "$RESULTS/latency.csv" <"$work/round.csv"
        done
        ratio=$(tail -n "$ROUNDS" "$RESULTS/latency.csv" | awk -F , '{ print $NF }' | sort -n |
            awk '{ ratio[NR] = $1 } END { print ratio[int((NR + 1) / 2)] }')
        say "$kind at $rate: $ratio"
        awk -v ratio="$ratio" -v bar="$BAR" 'BEGIN { exit !(ratio <= bar) }' || {
            warn "$kind at $rate: over the bar of $BAR"
            failed=1
        }
    done
done

echo 'kind,slow_clients,gone_after_s' >"$RESULTS/cut.csv"
for kind in $KINDS; do
    start_sprat unlimited "$SHORT_S" "{window: ${SHORT_S}s}"
    attack "$kind"
    sleep 1
    began=$SECONDS
    # Those that came and those that went.
    until [ "$(gauge sprat_connections_total)" -ge $((CONNECTIONS * ENOUGH_PERCENT / 100)) ] &&
        [ "$(gauge sprat_open_connections)" -le 1 ]; do
        [ $((SECONDS - began)) -lt "$GONE_WITHIN_S" ] || {
            warn "$kind: $(gauge sprat_open_connections) slow clients are still there after $GONE_WITHIN_S s"
            failed=1
            break
        }
        sleep 0.5
    done
    echo "$kind,$(gauge sprat_connections_total),$((SECONDS - began))" | tee -a "$RESULTS/cut.csv"
    stop_process slow
done
say "Written: $RESULTS/latency.csv, $RESULTS/cut.csv"
[ "$failed" = 0 ] || die "slow clients cost the others too much, or stay"
