#!/usr/bin/env bash
# One trace through nginx and through Sprat, on one limited link, one system
# after the other; then the bounds and the report. By default at the load where
# order counts most; the environment changes it:
#
#   UPLINK=10mbit LOADS="0.5 0.7 0.9" REQUESTS=18338 SEED=7 RESULTS=results/compare
#   SYSTEMS="nginx haproxy sprat-fair sprat-srpt ..."
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"

UPLINK=${UPLINK:-10mbit}
LOADS=${LOADS:-0.9}
REQUESTS=${REQUESTS:-18338}
SEED=${SEED:-7}
RESULTS=${RESULTS:-results/compare}
SYSTEMS=${SYSTEMS:-nginx haproxy sprat-fair sprat-srpt sprat-bands sprat-two-class sprat-auto sprat-kernel}
LAB=sprat-compare
FARM=198.18.0.1
READY_WITHIN_S=10

cd "$ROOT"
[ "$(id -u)" = 0 ] || die "the lab is made of network namespaces, which needs root: sudo make compare"
case " $SYSTEMS " in *" nginx "*) has nginx || die "nginx is missing: apt-get install nginx-light (and stop the service that it starts), or leave it out of SYSTEMS" ;; esac
if ! has haproxy; then
    case " $SYSTEMS " in *" haproxy "*) say "haproxy is left out: it is not installed" ;; esac
    SYSTEMS=${SYSTEMS/haproxy/}
fi
need ip iproute2
need ethtool ethtool
need curl curl

# As many open requests as this machine allows, in every system alike.
ulimit -n "$(ulimit -H -n)"
cargo build --release --locked --quiet -p sprat -p sprat-loadgen
target=${CARGO_TARGET_DIR:-target}/release
work=$(mktemp -d)
# nginx's worker, which is not root, writes below it.
chmod 755 "$work"
origin_pid='' system_pid='' linked=''

in_farm() { ip netns exec "$LAB-farm" "$@"; }
# For `&`: it becomes the command, so that `$!` is the command's own pid.
become_in_farm() { exec ip netns exec "$LAB-farm" "$@"; }
in_client() { ip netns exec "$LAB-client" "$@"; }

stop_system() {
    if [ -n "$system_pid" ]; then stop_pid "$system_pid" 5; fi
    system_pid=''
    if [ -n "$linked" ]; then
        in_farm "$target/sprat" link remove -c "$linked"
        linked=''
    fi
}
finish() {
    local status=$?
    trap - EXIT
    stop_system || true
    [ -z "$origin_pid" ] || stop_pid "$origin_pid" 5
    "$target/sprat-loadgen" lab down --name "$LAB" >/dev/null 2>&1 || true
    rm -rf "$work"
    exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# answers ADDRESS:PORT: in the farm, where the link is not in the way.
answers() { in_farm curl -fsS --max-time 1 -o /dev/null "http://$1/size/10/probe" 2>/dev/null; }
# wait_for ADDRESS:PORT NAME PID
wait_for() {
    local tenths=$((READY_WITHIN_S * 10))
    until answers "$1" && kill -0 "$3" 2>/dev/null; do
        if [ "$tenths" = 0 ] || ! kill -0 "$3" 2>/dev/null; then
            cat "$work/$2.log" >&2
            die "$2 does not answer at $1"
        fi
        tenths=$((tenths - 1))
        sleep 0.1
    done
}

# sprat_config RATE POLICY [ENGINE]
sprat_config() {
    cat <<YAML
version: 1
listeners:
  - address: $FARM:8080
uplink:
  rate: $1
  policy: $2
  engine: ${3:-pace}
clusters:
  farm:
    endpoints: [127.0.0.1:9101, 127.0.0.1:9102, 127.0.0.1:9103]
routes:
  - cluster: farm
YAML
}

nginx_config() {
    cat <<CONF
daemon off;
pid $work/nginx.pid;
error_log $work/nginx.log warn;
worker_processes 2;
events { worker_connections 8192; }
http {
    access_log off;
    client_body_temp_path $work/nginx-body;
    proxy_temp_path $work/nginx-proxy;
    fastcgi_temp_path $work/nginx-fastcgi;
    uwsgi_temp_path $work/nginx-uwsgi;
    scgi_temp_path $work/nginx-scgi;
    upstream farm {
        server 127.0.0.1:9101;
        server 127.0.0.1:9102;
        server 127.0.0.1:9103;
        keepalive 64;
    }
    server {
        listen $FARM:8080 backlog=4096;
        location / {
            proxy_pass http://farm;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
        }
    }
}
CONF
}

haproxy_config() {
    cat <<CONF
global
    maxconn 8000
    nbthread 2
defaults
    mode http
    timeout connect 5s
    timeout client 300s
    timeout server 300s
frontend in
    bind $FARM:8080 backlog 4096
    default_backend farm
backend farm
    balance roundrobin
    http-reuse always
    server a 127.0.0.1:9101
    server b 127.0.0.1:9102
    server c 127.0.0.1:9103
CONF
}

# start SYSTEM: in the farm's namespace, as $system_pid.
start() {
    local file=$work/$1.conf
    ! answers "$FARM:8080" || die "something answers at $FARM:8080 before $1 is started"
    case $1 in
        nginx) nginx_config >"$file" ;;
        haproxy) haproxy_config >"$file" ;;
        sprat-fair) sprat_config "$UPLINK" fair >"$file" ;;
        sprat-srpt) sprat_config "$UPLINK" srpt >"$file" ;;
        sprat-bands) sprat_config "$UPLINK" bands >"$file" ;;
        sprat-two-class) sprat_config "$UPLINK" '{name: bands, cutoffs: two-class}' >"$file" ;;
        sprat-auto) sprat_config auto srpt >"$file" ;;
        sprat-kernel) sprat_config "$UPLINK" bands '{name: kernel, qdisc: htb, device: uplink}' >"$file" ;;
        *) die "there is no system $1" ;;
    esac
    case $1 in
        nginx) become_in_farm nginx -c "$file" >"$work/$1.log" 2>&1 & ;;
        haproxy) become_in_farm haproxy -db -f "$file" >"$work/$1.log" 2>&1 & ;;
        sprat-kernel)
            in_farm "$target/sprat" link apply --replace -c "$file"
            linked=$file
            become_in_farm "$target/sprat" run -c "$file" >"$work/$1.log" 2>&1 &
            ;;
        *) become_in_farm "$target/sprat" run -c "$file" >"$work/$1.log" 2>&1 & ;;
    esac
    system_pid=$!
    wait_for "$FARM:8080" "$1" "$system_pid"
}

"$target/sprat-loadgen" lab up --name "$LAB" --rate "$UPLINK"
become_in_farm "$target/sprat-loadgen" origin --listen 127.0.0.1:9101 --listen 127.0.0.1:9102 \
    --listen 127.0.0.1:9103 >"$work/origin.log" 2>&1 &
origin_pid=$!
wait_for 127.0.0.1:9103 origin "$origin_pid"

# at LOAD: every system on one trace, and the bounds.
at() {
    local load=$1 directory=$RESULTS/load-$1 system
    local trace=$directory/trace.csv.gz
    mkdir -p "$directory"
    "$target/sprat-loadgen" gen --seed "$SEED" --requests "$REQUESTS" --uplink "$UPLINK" --load "$load" -o "$trace"
    for system in $SYSTEMS; do
        # A fresh queue for each: nothing of the last one stands in it.
        "$target/sprat-loadgen" lab up --name "$LAB" --rate "$UPLINK" >/dev/null
        start "$system"
        say "== $system at $load"
        in_client "$target/sprat-loadgen" replay --trace "$trace" --target "http://$FARM:8080" \
            --name "$system" --seed "$SEED" --load "$load" --uplink "$UPLINK" -o "$directory/$system.csv.gz"
        stop_system
        results+=("$directory/$system.csv.gz")
    done
    "$target/sprat-loadgen" ideal --trace "$trace" --uplink "$UPLINK" -o "$directory"
    results+=("$directory/ideal-ps.csv" "$directory/ideal-srpt.csv")
}

results=()
for load in $LOADS; do
    at "$load"
done
"$target/sprat-loadgen" report "${results[@]}" -o "$RESULTS" \
    --title "Response times on a $UPLINK link"
say "The report: $RESULTS/index.html"
