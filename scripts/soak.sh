#!/usr/bin/env bash
# An hour of everything at once: requests of every kind whose bytes are checked, over
# HTTP/1.1, HTTP/2 and TLS; clients that leave, reset, read slowly or fall silent;
# WebSockets; backends that die and return; a reload each half a minute. Sprat's
# memory, descriptors, sockets and threads, its connections, requests, flows and
# tunnels are written down every ten seconds; the last quarter is held against the
# first. It fails when anything came otherwise than it had to, when something grew, or
# when something is left at the end. The environment changes it:
#
#   SECONDS=3600 RATE=200mbit CLIENTS=16 SEED=7 RESULTS=results/soak
set -euo pipefail
# What it is before this shell has counted any.
duration=$SECONDS
. "$(dirname -- "$0")/lib.sh"
. "$ROOT/scripts/measure.sh"

[ "$duration" -ge 1 ] || duration=3600
RATE=${RATE:-200mbit}
CLIENTS=${CLIENTS:-16}
SEED=${SEED:-7}
RESULTS=${RESULTS:-results/soak}
PLAIN=127.0.0.1:9708 SECURE=127.0.0.1:9743 ADMIN=127.0.0.1:9709
STEADY=127.0.0.1:9701 FLAKY=(127.0.0.1:9702 127.0.0.1:9703) SOCKETS=127.0.0.1:9704
SAMPLE_EVERY_S=10
RELOAD_EVERY_S=30
# A backend is gone for so long, and there for as long.
DIES_EVERY_S=20
# Requests of one round of the load generator.
ROUND=20000
# The most that the last quarter may be above the first.
GROWTH_PERCENT=15
# What the allocator may keep, and a crowd of clients may vary by.
SLACK_KB=16384 SLACK_COUNT=40
# What is left by its client is given up within this.
END_WITHIN_S=90

cd "$ROOT"
need python3 python3
measure_begin
mkdir -p "$RESULTS"
self_signed soak.example

# configure NUMBER: no two in a row are alike.
configure() {
    local policies=(srpt fair srpt-aged bands) orders=(size fcfs)
    cat >"$work/fresh.yaml" <<YAML
version: 1
admin: {address: $ADMIN}
listeners:
  - {name: plain, address: $PLAIN, request_headers_timeout: 5s, max_tunnels: $((1000 + $1 % 2))}
  - name: secure
    address: $SECURE
    tls:
      certificates: [{certificate_chain: $work/chain.pem, private_key: $work/key.pem}]
uplink: {rate: $RATE, policy: ${policies[$1 % 4]}}
clusters:
  steady: {endpoints: [$STEADY], max_requests: 200, wait_queue: {order: ${orders[$1 % 2]}}}
  flaky:
    endpoints: [${FLAKY[0]}, ${FLAKY[1]}]
    outlier_detection: {}
    health_checks: {interval: 1s, tcp_health_check: {}}
  sockets: {endpoints: [$SOCKETS], connect_timeout: $((5 + $1 % 3))s}
routes:
  - {match: {prefix: /flaky/}, cluster: flaky, prefix_rewrite: /}
  - {match: {prefix: /socket}, cluster: sockets}
  - {cluster: steady, timeout: $((300 + $1 % 5))s}
YAML
    mv "$work/fresh.yaml" "$work/sprat.yaml"
}

# metric NAME: the sum of its values.
metric() {
    curl -fsS --max-time 5 "http://$ADMIN/metrics" |
        awk -v name="$1" '{ split($1, part, "{") } part[1] == name { sum += $NF } END { print sum + 0 }'
}

# counted KIND PID: descriptors, or those that are sockets.
counted() { find "/proc/$2/fd" -lname "$1" 2>/dev/null | wc -l; }

# sample FILE: one line, until Sprat has ended.
sample() {
    local pid=${pid_of[sprat]} began=$SECONDS text
    printf 's,rss_kb,descriptors,sockets,threads,connections,requests,flows,tunnels\n' >"$1"
    while kill -0 "$pid" 2>/dev/null; do
        text=$(curl -fsS --max-time 5 "http://$ADMIN/metrics" || true)
        awk -v head="$((SECONDS - began)),$(resident_kb "$pid"),$(counted '*' "$pid"),$(counted 'socket:*' "$pid"),$(find "/proc/$pid/task" -mindepth 1 -maxdepth 1 | wc -l)" '
            { split($1, part, "{"); sum[part[1]] += $NF }
            END {
                printf "%s,%d,%d,%d,%d\n", head, sum["sprat_open_connections"],
                    sum["sprat_open_requests"], sum["sprat_uplink_open_flows"], sum["sprat_open_tunnels"]
            }' <<<"$text" >>"$1"
        sleep "$SAMPLE_EVERY_S"
    done
}

# reload_often: until Sprat has ended.
reload_often() {
    local number=0
    while sleep "$RELOAD_EVERY_S" && kill -HUP "${pid_of[sprat]}" 2>/dev/null; do
        number=$((number + 1))
        configure "$number"
    done
}

# die_and_return: the flaky backends in turn; ends with its own backend.
die_and_return() {
    local at=0 backend=''
    trap '[ -z "$backend" ] || kill "$backend"; exit 0' TERM
    while :; do
        "$target/sprat-loadgen" origin --listen "${FLAKY[at % 2]}" >/dev/null 2>&1 &
        backend=$!
        sleep "$DIES_EVERY_S" &
        wait $!
        kill -KILL "$backend"
        wait "$backend" 2>/dev/null || true
        at=$((at + 1))
    done
}

# check_bytes: rounds of requests whose every byte is checked, until the time is over.
check_bytes() {
    local seed=$SEED round requests=0
    while [ "$SECONDS" -lt "$ends_at" ]; do
        round=$("$target/sprat-loadgen" soak --target "http://$PLAIN" --requests "$ROUND" \
            --seed "$seed" --clients "$CLIENTS" --largest 5000000 --deadline 120s 2>&1) || {
            printf '%s\n' "$round"
            return 1
        }
        requests=$((requests + ROUND)) seed=$((seed + 1))
    done
    printf '%s requests, every byte right\n' "$requests"
}

# quarters FILE: of each column the mean and the most, in the first quarter and in the
# last, the very first samples left out; what has grown makes it fail.
quarters() {
    awk -F , -v percent="$GROWTH_PERCENT" -v slack_kb="$SLACK_KB" -v slack="$SLACK_COUNT" '
        NR == 1 { columns = NF; for (i = 2; i <= NF; i++) name[i] = $i; next }
        { n++; for (i = 2; i <= NF; i++) value[n, i] = $i }
        END {
            warm = int(n / 20)
            size = int((n - warm) / 4)
            if (size < 1) { print "too short to say whether anything grows"; exit }
            printf "%-12s %12s %12s %12s %12s\n", "", "first: mean", "most", "last: mean", "most"
            for (i = 2; i <= columns; i++) {
                sum[1] = sum[2] = most[1] = most[2] = 0
                for (k = 1; k <= size; k++) {
                    for (q = 1; q <= 2; q++) {
                        v = value[q == 1 ? warm + k : n - size + k, i]
                        sum[q] += v
                        if (v > most[q]) most[q] = v
                    }
                }
                printf "%-12s %12.0f %12.0f %12.0f %12.0f\n", name[i], sum[1] / size, most[1], sum[2] / size, most[2]
                allowed = most[1] * (1 + percent / 100) + (name[i] == "rss_kb" ? slack_kb : slack)
                if (sum[2] / size > allowed) { print name[i] " has grown"; grown = 1 }
            }
            exit grown
        }' "$1"
}

configure 0
start_origin "$STEADY"
start_process flaky die_and_return
ends_at=$((SECONDS + duration))
start_process crowd python3 scripts/soak-clients.py "$duration" "$PLAIN" "$SECURE" "$SOCKETS"
start_process sprat "$target/sprat" run -c "$work/sprat.yaml"
wait_for sprat "http://$PLAIN/size/0/probe"
say "$duration s, $RATE; each $SAMPLE_EVERY_S s a line in $RESULTS/samples.csv"
start_process sampler sample "$RESULTS/samples.csv"
start_process reloads reload_often
failed=''
check_bytes >"$RESULTS/requests.txt" || failed+=' bytes'
cat "$RESULTS/requests.txt"
wait "${pid_of[crowd]}" || failed+=' clients'
tee "$RESULTS/clients.txt" <"$work/crowd.log"
stop_process reloads
kill -0 "${pid_of[sprat]}" 2>/dev/null || failed+=' ended'
for ((left_s = END_WITHIN_S; left_s > 0; left_s--)); do
    # One is the question's own.
    left=$(($(metric sprat_open_requests) + $(metric sprat_uplink_open_flows) + $(metric sprat_open_tunnels)))
    [ "$left" -gt 0 ] || break
    sleep 1
done
[ "$left" = 0 ] || failed+=' left-over'
say "left at the end: $left requests, flows and tunnels; $(metric sprat_config_reloads_total) reloads"
stop_process sampler
cp "$work/sprat.log" "$RESULTS/sprat.log"
! grep -q panicked "$work/sprat.log" || failed+=' panicked'
quarters "$RESULTS/samples.csv" | tee "$RESULTS/quarters.txt" || failed+=' growth'
[ -z "$failed" ] || die "wrong:$failed (see $RESULTS)"
say "Nothing was wrong, nothing has grown, nothing is left."
