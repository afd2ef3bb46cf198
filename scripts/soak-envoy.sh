#!/usr/bin/env bash
# Half a million requests through Envoy with each filter: sizes from 0 B to 20 MB,
# clients that leave, upstreams that fail, HTTP/1.1 and HTTP/2, retries, trailers.
# Every byte is checked. It fails when one is wrong, a body is cut, a request is
# stuck, Envoy has ended, streams are left over, or its memory grows. wasm holds the
# heads of responses, wasm-bodies their bodies too. The environment changes it:
#
#   REQUESTS=500000 FILTERS="module wasm wasm-bodies" WORKERS=2 LIMITS="1048576 65536" SEED=7
#   UPSTREAM=http1 (or http2) RATE=2gbit CLIENTS=64 DEADLINE=60s RESULTS=results/soak-envoy
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"
. "$ROOT/scripts/measure.sh"
. "$ROOT/scripts/envoy.sh"

REQUESTS=${REQUESTS:-500000}
FILTERS=${FILTERS:-module wasm wasm-bodies}
WORKERS=${WORKERS:-2}
LIMITS=${LIMITS:-1048576 65536}
SEED=${SEED:-7}
UPSTREAM=${UPSTREAM:-http1}
RATE=${RATE:-2gbit}
CLIENTS=${CLIENTS:-64}
# A request without an end after this long is stuck.
DEADLINE=${DEADLINE:-60s}
RESULTS=${RESULTS:-results/soak-envoy}
LISTEN=127.0.0.1:9408
ADMIN=127.0.0.1:9409
ORIGIN=127.0.0.1:9401
SAMPLE_EVERY_S=2
# The most that the last quarter's memory may be above the second quarter's.
GROWTH_PERCENT=15

cd "$ROOT"
measure_begin
# shellcheck disable=SC2086  # filters are words
envoy_prepare $FILTERS
mkdir -p "$RESULTS"

# What a filter has to do: order the uplink, and hold requests back.
filter_config() {
    local hold=''
    [ "$1" != wasm-bodies ] || hold=', "hold": "bodies"'
    printf '{"uplink": {"rate": "%s"%s}, "clusters": {"farm": {"pools": ["farm"], "max_requests": 48, "wait_queue": {"max_requests": 10000, "timeout": "%s"}}}}' \
        "$RATE" "$hold" "$DEADLINE"
}

# start FILTER LIMIT
start() {
    local route='cluster_header: x-sprat-cluster' keys=$SOAK_CLUSTER limit="per_connection_buffer_limit_bytes: $2"
    [ "$UPSTREAM" != http2 ] || keys=${keys/http_protocol_options: \{enable_trailers: true\}/http2_protocol_options: \{\}}
    envoy_config "$LISTEN" "$ADMIN" "$route" "$(envoy_filter "${1%%-*}" "$(filter_config "$1")")" \
        "$(envoy_cluster farm "$ORIGIN" "$keys $limit,")" "$limit" "$SOAK_MANAGER" "$SOAK_HOST" >"$work/envoy.yaml"
    envoy_start "$WORKERS"
    wait_for envoy "http://$ADMIN/ready"
}

# sample FILE: seconds and resident kilobytes, until it is stopped.
sample() {
    local began=$SECONDS
    printf 's,kb\n' >"$1"
    while kill -0 "${pid_of[envoy]}" 2>/dev/null; do
        printf '%s,%s\n' $((SECONDS - began)) "$(resident_kb "${pid_of[envoy]}")" >>"$1"
        sleep "$SAMPLE_EVERY_S"
    done
}

# The most memory in the second and in the last quarter of the samples.
quarters() {
    awk -F , 'NR > 1 { kb[n++] = $2 }
        END {
            for (i = 0; i < n; i++) {
                if (i >= n / 4 && i < n / 2 && kb[i] > second) second = kb[i]
                if (i >= n * 3 / 4 && kb[i] > last) last = kb[i]
            }
            print second + 0, last + 0
        }' "$1"
}

# active: streams that Envoy still has.
active() { curl -fsS "http://$ADMIN/stats?filter=http.main.downstream_rq_active" | awk '{ print $2 }'; }

start_origin "$ORIGIN"
failed=0
printf 'filter,limit,requests,result,second_quarter_kb,last_quarter_kb,left_over\n' >"$RESULTS/summary.csv"
for filter in $FILTERS; do
    for limit in $LIMITS; do
        name=$filter-$limit
        say "== $filter, $WORKERS workers, buffer limits of $limit bytes, $UPSTREAM upstream"
        start "$filter" "$limit"
        start_process sampler sample "$RESULTS/$name-memory.csv"
        result=ok
        "$target/sprat-loadgen" soak --target "http://$LISTEN" --requests "$REQUESTS" --seed "$SEED" \
            --clients "$CLIENTS" --deadline "$DEADLINE" --retries 2>&1 | tee "$RESULTS/$name.txt" || result=wrong
        kill -0 "${pid_of[envoy]}" 2>/dev/null || { result=crashed; cat "$work/envoy.log" >&2; }
        left=unknown
        if [ "$result" != crashed ]; then
            # What was left by its client is given up in a moment.
            for _ in $(seq 50); do
                left=$(active)
                [ "$left" != 0 ] || break
                sleep 0.1
            done
            [ "$left" = 0 ] || result="left over"
        fi
        stop_process sampler 2
        read -r second last <<<"$(quarters "$RESULTS/$name-memory.csv")"
        [ "$second" != 0 ] || say "too short to say whether memory grows"
        if [ "$last" -gt $((second + second * GROWTH_PERCENT / 100)) ]; then
            [ "$result" != ok ] || result=grows
        fi
        stop_process envoy 10
        grep -E '\[(error|critical)\]' "$work/envoy.log" | head -n 20 >"$RESULTS/$name-errors.txt" || true
        printf '%s,%s,%s,%s,%s,%s,%s\n' "$filter" "$limit" "$REQUESTS" "$result" "$second" "$last" "$left" |
            tee -a "$RESULTS/summary.csv"
        [ "$result" = ok ] || failed=1
    done
done
say "Written: $RESULTS/summary.csv"
[ "$failed" = 0 ] || die "a soak did not come through"
