# Functions of the scripts that measure in the lab: two hosts in network
# namespaces, and a limited link between them. Sourced after measure.sh, never run.
# shellcheck shell=bash

# The farm's address on the link.
FARM=198.18.0.1
# Where its servers listen, beside the proxy.
LAB_ORIGINS='127.0.0.1:9101 127.0.0.1:9102 127.0.0.1:9103'

# lab_begin NAME TARGET: as measure_begin, with a farm in which
# everything is started, and a client that replays. TARGET is of the Makefile.
lab_begin() {
    lab=$1
    [ "$(id -u)" = 0 ] || die "the lab is made of network namespaces, which needs root: sudo make $2"
    need ip iproute2
    need ethtool ethtool
    measure_begin
    within=(ip netns exec "$lab-farm")
    from=(ip netns exec "$lab-client")
    at_end+=(lab_down)
}

# lab_up RATE: a fresh queue; nothing of what was measured before stands in it.
lab_up() { "$target/sprat-loadgen" lab up --name "$lab" --rate "$1" >/dev/null; }
lab_down() { "$target/sprat-loadgen" lab down --name "$lab" >/dev/null 2>&1; }

# lab_needs SYSTEM: dies where that one is to be measured ($SYSTEMS) and is missing.
lab_needs() {
    case " $SYSTEMS " in *" $1 "*) has "$1" || die "$1 is missing: apt-get install $1 (for nginx, nginx-light; and stop the service that it starts), or leave it out of SYSTEMS" ;; esac
}

# lab_nginx LISTEN KEYS: nginx in front of the farm's servers. LISTEN is what its
# `listen` says more (ssl, http2), KEYS are directives of the server.
lab_nginx() {
    local servers='' each
    for each in $LAB_ORIGINS; do servers+="server $each; "; done
    nginx_config 2 "upstream farm { ${servers}keepalive 64; }
    server {
        listen $FARM:8080 $1 backlog=4096;
        $2
        location / {
            proxy_pass http://farm;
            proxy_http_version 1.1;
            proxy_set_header Connection \"\";
        }
    }"
}

# lab_haproxy BIND: HAProxy in front of them. BIND is what its `bind` says more.
lab_haproxy() {
    local each number=0
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
    bind $FARM:8080 backlog 4096 $1
    default_backend farm
backend farm
    balance roundrobin
    http-reuse always
CONF
    for each in $LAB_ORIGINS; do echo "    server s$((number += 1)) $each"; done
}

# lab_sprat RATE POLICY [ENGINE [LISTENER]]: Sprat in front of them. LISTENER is one
# more key of its listener.
lab_sprat() {
    cat <<YAML
version: 1
listeners:
  - address: $FARM:8080
    ${4:-}
uplink:
  rate: $1
  policy: $2
  engine: ${3:-pace}
clusters:
  farm:
    endpoints: [${LAB_ORIGINS// /, }]
routes:
  - cluster: farm
YAML
}

# lab_trace DIRECTORY LOAD CONNECTION: the requests that each system is sent.
lab_trace() {
    mkdir -p "$1"
    "$target/sprat-loadgen" gen --seed "$SEED" --requests "$REQUESTS" --uplink "$UPLINK" --load "$2" \
        --connection "$3" -o "$1/trace.csv.gz"
}

# lab_replay SYSTEM DIRECTORY LOAD OPTION...: that trace through the system that runs;
# what came of it is one more of `results`.
lab_replay() {
    "${from[@]}" "$target/sprat-loadgen" replay --trace "$2/trace.csv.gz" --name "$1" --seed "$SEED" \
        --load "$3" --uplink "$UPLINK" -o "$2/$1.csv.gz" "${@:4}"
    results+=("$2/$1.csv.gz")
}

# lab_bounds DIRECTORY CONNECTION: what no system can beat, as two more of `results`.
lab_bounds() {
    "$target/sprat-loadgen" ideal --trace "$1/trace.csv.gz" --uplink "$UPLINK" --connection "$2" -o "$1"
    results+=("$1/ideal-ps.csv" "$1/ideal-srpt.csv")
}

# lab_report TITLE: of all results, into $RESULTS.
lab_report() {
    # shellcheck disable=SC2153  # both are the caller's
    "$target/sprat-loadgen" report "${results[@]}" -o "$RESULTS" --title "$1"
    say "The report: $RESULTS/index.html"
}
