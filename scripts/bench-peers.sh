#!/usr/bin/env bash
# CPU time per request, requests per second and memory per idle connection,
# where the link is not the bottleneck: Sprat (unlimited, and scheduling at
# 100gbit), nginx, HAProxy and Envoy, one worker each, in turn, on the loopback
# interface. A process may be slower by a fifth from its start to its end, so each is started
# anew for each round. The environment changes it:
#
#   SIZES="100 10000 100000 1000000" ROUNDS=5 CLIENTS=50 RESULTS=results/bench-peers
#   SYSTEMS="haproxy nginx envoy sprat-unlimited sprat-100gbit"
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"
. "$ROOT/scripts/measure.sh"
. "$ROOT/scripts/envoy.sh"

SIZES=${SIZES:-100 10000 100000 1000000}
ROUNDS=${ROUNDS:-5}
CLIENTS=${CLIENTS:-50}
RESULTS=${RESULTS:-results/bench-peers}
SYSTEMS=${SYSTEMS:-haproxy nginx envoy sprat-unlimited sprat-100gbit}
BASELINE=haproxy
ORIGIN=127.0.0.1:9201
PROXY_PORT=9208
ENVOY_ADMIN_PORT=9210
IDLE_CONNECTIONS=1000

cd "$ROOT"
available=''
for system in $SYSTEMS; do
    case $system in
        haproxy | nginx)
            has "$system" || {
                say "$system is left out: it is not installed (apt-get install $system)"
                continue
            }
            ;;
        envoy)
            envoy=$("$ROOT/scripts/setup-envoy.sh") || {
                say "envoy is left out: it could not be installed"
                continue
            }
            ;;
    esac
    available+=" $system"
done

measure_begin

sprat_config() {
    cat <<YAML
version: 1
runtime: {workers: 1}
admin: {address: 127.0.0.1:9209}
listeners:
  - address: 127.0.0.1:$PROXY_PORT
uplink:
  rate: $1
  policy: srpt
clusters:
  farm:
    endpoints: [$ORIGIN]
routes:
  - cluster: farm
YAML
}

nginx_in_front() {
    # Large responses stay in memory: to spill them to a file would measure disks.
    nginx_config 1 "keepalive_requests 1000000000;
    proxy_buffers 8 64k;
    proxy_buffer_size 64k;
    proxy_max_temp_file_size 0;
    upstream farm {
        server $ORIGIN;
        keepalive 128;
        keepalive_requests 1000000000;
    }
    server {
        listen 127.0.0.1:$PROXY_PORT;
        location / {
            proxy_pass http://farm;
            proxy_http_version 1.1;
            proxy_set_header Connection \"\";
        }
    }"
}

haproxy_config() {
    cat <<CONF
global
    maxconn 8000
    nbthread 1
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
frontend in
    bind 127.0.0.1:$PROXY_PORT
    default_backend farm
backend farm
    http-reuse always
    server a $ORIGIN
CONF
}

# start SYSTEM
start() {
    local file=$work/$1.conf
    require_free "$PROXY_PORT"
    case $1 in
        nginx)
            nginx_in_front >"$file"
            start_process nginx nginx -c "$file"
            ;;
        haproxy)
            haproxy_config >"$file"
            start_process haproxy haproxy -db -f "$file"
            ;;
        envoy)
            envoy_config "127.0.0.1:$PROXY_PORT" "127.0.0.1:$ENVOY_ADMIN_PORT" 'cluster: farm' '' \
                "$(envoy_cluster farm "$ORIGIN")" >"$work/envoy.yaml"
            envoy_start 1
            ;;
        sprat-*)
            sprat_config "${1#sprat-}" >"$file"
            start_process "$1" "$target/sprat" run -c "$file"
            ;;
        *) die "there is no system $1" ;;
    esac
    wait_for "$1" "http://127.0.0.1:$PROXY_PORT/size/10/probe"
}

# A trace of equal sizes, with enough requests for seconds of CPU time.
requests_for() { echo $((40000000000 / ($1 + 200000))); }
write_trace() {
    awk -v size="$1" -v count="$(requests_for "$1")" \
        'BEGIN { print "t_s,bytes,path"; for (i = 0; i < count; i++) printf "0,%d,/size/%d/%d\n", size, size, i % 1000 }'
}

# measure SYSTEM SIZE ROUND: one line of measurements.csv.
measure() {
    local system=$1 size=$2 before after requests seconds began
    local options=(--trace "$work/$size.csv" --closed "$CLIENTS" --connection keep
        --target "http://127.0.0.1:$PROXY_PORT" -o "$work/replay.csv")
    replay "$system" "${options[@]}" --limit $((CLIENTS * 20))
    # What a process does in its first seconds alone is left out: Sprat watches a link that it
    # does not know yet more closely.
    [ "$size" != "${SIZES%% *}" ] || replay "$system" "${options[@]}"
    requests=$(requests_for "$size")
    before=$(cpu_ms "${pid_of[$system]}")
    began=$(date +%s%N)
    replay "$system" "${options[@]}"
    seconds=$(($(date +%s%N) - began))
    after=$(cpu_ms "${pid_of[$system]}")
    none_failed "$work/replay.csv" || die "requests of $size B through $system failed: $(cat "$work/replay-$system.log")"
    awk -v ms=$((after - before)) -v ns="$seconds" -v n="$requests" -v what="$system,$size,$3" \
        'BEGIN { printf "%s,%d,%.1f,%.0f\n", what, n, ms * 1000 / n, n / (ns / 1e9) }'
}

# idle SYSTEM: bytes per connection that has had one response and waits.
idle() {
    local before after fd fds=() line
    before=$(resident_kb "${pid_of[$1]}")
    for ((i = 0; i < IDLE_CONNECTIONS; i++)); do
        exec {fd}<>"/dev/tcp/127.0.0.1/$PROXY_PORT"
        fds+=("$fd")
        printf 'GET /size/100/idle HTTP/1.1\r\nHost: idle\r\n\r\n' >&"$fd"
        read -r -t 5 -u "$fd" line || die "$1 did not answer connection $i"
    done
    # What was only needed for a moment is given back.
    sleep 3
    after=$(resident_kb "${pid_of[$1]}")
    for fd in "${fds[@]}"; do
        exec {fd}>&-
    done
    echo "$1,$(((after - before) * 1024 / IDLE_CONNECTIONS))"
}

mkdir -p "$RESULTS"
start_origin "$ORIGIN"
for size in $SIZES; do
    write_trace "$size" >"$work/$size.csv"
done

echo "system,bytes,round,requests,cpu_us_per_request,requests_per_s" >"$RESULTS/measurements.csv"
echo "system,bytes_per_idle_connection" >"$RESULTS/idle.csv"
for ((round = 1; round <= ROUNDS; round++)); do
    for system in $available; do
        start "$system"
        if [ "$round" = 1 ]; then
            idle "$system" >>"$RESULTS/idle.csv"
        fi
        for size in $SIZES; do
            measure "$system" "$size" "$round" >>"$RESULTS/measurements.csv"
            tail -n 1 "$RESULTS/measurements.csv"
        done
        stop_process "$system"
    done
done

say
say "Medians of $ROUNDS rounds; in brackets the CPU time over $BASELINE's."
sort -t , -k 2,2n -k 1,1 -k 5,5n "$RESULTS/measurements.csv" | awk -F , -v baseline="$BASELINE" -v rounds="$ROUNDS" '
    $1 == "system" { next }
    { key = $1 "," $2; seen[key]++ }
    seen[key] == int((rounds + 1) / 2) { cpu[key] = $5; rate[key] = $6; order[++n] = key }
    END {
        for (i = 1; i <= n; i++) {
            split(order[i], part, ",")
            base = cpu[baseline "," part[2]]
            printf "%-16s %8d B  %8.1f us %s %8d requests/s\n", part[1], part[2], cpu[order[i]], base ? sprintf("(%.2f)", cpu[order[i]] / base) : "", rate[order[i]]
        }
    }'
tail -n +2 "$RESULTS/idle.csv" | awk -F , '{ printf "%-16s %8d B per idle connection\n", $1, $2 }'
say "Written: $RESULTS/measurements.csv, $RESULTS/idle.csv"
