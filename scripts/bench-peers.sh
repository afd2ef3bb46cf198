#!/usr/bin/env bash
# CPU time per request, requests per second and memory per idle connection,
# where the link is not the bottleneck: Sprat (unlimited, and scheduling at
# 100gbit), nginx, HAProxy and Envoy, one worker each, on the loopback interface. The
# machine is slower by a fifth now and then, for seconds or minutes, and so may a process be
# from its start to its end: so all are started anew for each round, take short turns in
# it, and each is compared with the others of its round. The environment changes it:
#
#   SIZES="100 10000 100000 1000000" ROUNDS=5 TURNS=4 CLIENTS=50 RESULTS=results/bench-peers
#   SYSTEMS="haproxy nginx envoy sprat-unlimited sprat-100gbit"
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"
. "$ROOT/scripts/measure.sh"
. "$ROOT/scripts/envoy.sh"

SIZES=${SIZES:-100 10000 100000 1000000}
ROUNDS=${ROUNDS:-5}
TURNS=${TURNS:-4}
CLIENTS=${CLIENTS:-50}
RESULTS=${RESULTS:-results/bench-peers}
SYSTEMS=${SYSTEMS:-haproxy nginx envoy sprat-unlimited sprat-100gbit}
BASELINE=haproxy
ORIGIN=127.0.0.1:9201
ENVOY_ADMIN_PORT=9210
# What a process does in its first seconds alone is left out: Sprat watches a link that it
# does not know yet more closely.
WARM_UP_REQUESTS=150000
IDLE_CONNECTIONS=1000

cd "$ROOT"
available=''
declare -A port_of=()
for system in $SYSTEMS; do
    case $system in
        haproxy | nginx)
            # Without what the others are held against, the figures say nothing.
            if [ "$system" = "$BASELINE" ]; then need "$system" "$system"; fi
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
    port_of[$system]=$((9220 + ${#port_of[@]}))
done

measure_begin

# sprat_config PORT RATE
sprat_config() {
    cat <<YAML
version: 1
runtime: {workers: 1}
admin: {address: 127.0.0.1:$(($1 + 20))}
listeners:
  - address: 127.0.0.1:$1
uplink:
  rate: $2
  policy: srpt
clusters:
  farm:
    endpoints: [$ORIGIN]
routes:
  - cluster: farm
YAML
}

# nginx_in_front PORT
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
        listen 127.0.0.1:$1;
        location / {
            proxy_pass http://farm;
            proxy_http_version 1.1;
            proxy_set_header Connection \"\";
        }
    }"
}

# haproxy_config PORT
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
    bind 127.0.0.1:$1
    default_backend farm
backend farm
    http-reuse always
    server a $ORIGIN
CONF
}

# start SYSTEM
start() {
    local file=$work/$1.conf port=${port_of[$1]}
    require_free "$port"
    case $1 in
        nginx)
            nginx_in_front "$port" >"$file"
            start_process nginx nginx -c "$file"
            ;;
        haproxy)
            haproxy_config "$port" >"$file"
            start_process haproxy haproxy -db -f "$file"
            ;;
        envoy)
            envoy_config "127.0.0.1:$port" "127.0.0.1:$ENVOY_ADMIN_PORT" 'cluster: farm' '' \
                "$(envoy_cluster farm "$ORIGIN")" >"$work/envoy.yaml"
            envoy_start 1
            ;;
        sprat-*)
            sprat_config "$port" "${1#sprat-}" >"$file"
            start_process "$1" "$target/sprat" run -c "$file"
            ;;
        *) die "there is no system $1" ;;
    esac
    wait_for "$1" "http://127.0.0.1:$port/size/10/probe"
}

# requests_for SIZE: those of a turn; of a round, enough for seconds of CPU time.
requests_for() { echo $((40000000000 / ($1 + 200000) / TURNS)); }

# write_trace SIZE COUNT: a trace of equal sizes.
write_trace() {
    awk -v size="$1" -v count="$2" \
        'BEGIN { print "t_s,bytes,path"; for (i = 0; i < count; i++) printf "0,%d,/size/%d/%d\n", size, size, i % 1000 }'
}

# through SYSTEM TRACE OPTION...: replays a trace, of which no request may fail.
through() {
    replay "$1" --trace "$2" --closed "$CLIENTS" --connection keep \
        --target "http://127.0.0.1:${port_of[$1]}" -o "$work/replay.csv" "${@:3}"
    none_failed "$work/replay.csv" || die "requests through $1 failed: $(cat "$work/replay-$1.log")"
}

# measure SIZE ROUND: a line of measurements.csv for each system, which have taken turns.
measure() {
    local size=$1 round=$2 system turn before began requests
    local -A ms=() ns=()
    requests=$(requests_for "$size")
    for system in $available; do
        ms[$system]=0 ns[$system]=0
        through "$system" "$work/$size.csv" --limit $((CLIENTS * 20))
    done
    for ((turn = 0; turn < TURNS; turn++)); do
        for system in $available; do
            before=$(cpu_ms "${pid_of[$system]}")
            began=$(date +%s%N)
            through "$system" "$work/$size.csv"
            ns[$system]=$((ns[$system] + $(date +%s%N) - began))
            ms[$system]=$((ms[$system] + $(cpu_ms "${pid_of[$system]}") - before))
        done
    done
    for system in $available; do
        awk -v ms="${ms[$system]}" -v ns="${ns[$system]}" -v n=$((requests * TURNS)) -v what="$system,$size,$round" \
            'BEGIN { printf "%s,%d,%.1f,%.0f\n", what, n, ms * 1000 / n, n / (ns / 1e9) }'
    done
}

# idle SYSTEM: bytes per connection that has had one response and waits.
idle() {
    local before after fd fds=() line
    before=$(resident_kb "${pid_of[$1]}")
    for ((i = 0; i < IDLE_CONNECTIONS; i++)); do
        exec {fd}<>"/dev/tcp/127.0.0.1/${port_of[$1]}"
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
    write_trace "$size" "$(requests_for "$size")" >"$work/$size.csv"
done
write_trace 100 "$WARM_UP_REQUESTS" >"$work/warm-up.csv"

echo "system,bytes,round,requests,cpu_us_per_request,requests_per_s" >"$RESULTS/measurements.csv"
echo "system,bytes_per_idle_connection" >"$RESULTS/idle.csv"
for ((round = 1; round <= ROUNDS; round++)); do
    for system in $available; do
        start "$system"
        if [ "$round" = 1 ]; then
            idle "$system" >>"$RESULTS/idle.csv"
        fi
        through "$system" "$work/warm-up.csv"
    done
    for size in $SIZES; do
        measure "$size" "$round" | tee -a "$RESULTS/measurements.csv"
    done
    for system in $available; do stop_process "$system"; done
done

say
say "Medians of $ROUNDS rounds; in brackets the CPU time over $BASELINE's of the same round."
sort -t , -k 2,2n -k 1,1 -k 3,3n "$RESULTS/measurements.csv" | awk -F , -v baseline="$BASELINE" '
    function median(list, parts, count, i, j, kept) {
        count = split(list, parts, " ")
        for (i = 2; i <= count; i++) {
            kept = parts[i] + 0
            for (j = i - 1; j > 0 && parts[j] + 0 > kept; j--) parts[j + 1] = parts[j]
            parts[j + 1] = kept
        }
        return parts[int((count + 1) / 2)]
    }
    $1 == "system" { next }
    {
        key = $1 "," $2
        if (!(key in cpu)) order[++keys] = key
        cpu[key] = cpu[key] " " $5; rate[key] = rate[key] " " $6; rounds[key] = rounds[key] " " $3
        cpu_of[key, $3] = $5
    }
    END {
        for (i = 1; i <= keys; i++) {
            key = order[i]
            split(key, part, ",")
            ratios = ""
            count = split(rounds[key], of, " ")
            for (j = 1; j <= count; j++) {
                base = cpu_of[baseline "," part[2], of[j]]
                if (base) ratios = ratios " " cpu_of[key, of[j]] / base
            }
            over = ratios == "" ? "" : sprintf("(%.2f)", median(ratios))
            printf "%-16s %8d B  %8.1f us %s %8d requests/s\n", part[1], part[2], median(cpu[key]), over, median(rate[key])
        }
    }'
tail -n +2 "$RESULTS/idle.csv" | awk -F , '{ printf "%-16s %8d B per idle connection\n", $1, $2 }'
say "Written: $RESULTS/measurements.csv, $RESULTS/idle.csv"
