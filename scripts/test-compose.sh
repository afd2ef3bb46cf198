#!/usr/bin/env bash
# Brings docker-compose.yml up for real, checks what it serves and reports, and the
# image by itself, and takes it all down. A running Docker daemon is used as it is, and pulls the base
# images; where none runs, one is started with a temporary root of its own, and
# where that cannot pull either, the base images are stand-ins.
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"

PROJECT=sprat-test
READY_WITHIN_S=300
REPLAY_WITHIN_S=600
# Three health checks, 5 s apart and with 5 s each.
HEALTH_KNOWN_WITHIN_S=60
IMAGES=(rust:1-bookworm debian:bookworm-slim nginx:stable prom/prometheus:v3.5.0 grafana/grafana:11.6.0)
MAX_IMAGE_BYTES=30000000

cd "$ROOT"
work=$(mktemp -d)
daemon_pid='' up=false alone=''
compose() {
    if docker compose version >/dev/null 2>&1; then
        docker compose -p "$PROJECT" "$@"
    else
        docker-compose -p "$PROJECT" "$@"
    fi
}

# Docker leaves its bridge, its rules and two settings in the machine's network.
note_network() {
    forward_policy=$(iptables -S FORWARD | sed -n 's/^-P FORWARD //p')
    ip_forward=$(cat /proc/sys/net/ipv4/ip_forward)
    had_bridge=false
    if ip link show docker0 >/dev/null 2>&1; then had_bridge=true; fi
}

restore_network() {
    $had_bridge || ip link delete docker0 2>/dev/null || true
    iptables-save | grep -vi docker |
        sed "s/^:FORWARD [A-Z]*/:FORWARD $forward_policy/" | iptables-restore ||
        warn "the firewall is as Docker left it"
    echo "$ip_forward" >/proc/sys/net/ipv4/ip_forward
}

finish() {
    local status=$?
    trap - EXIT
    [ -z "$alone" ] || docker rm -f "$alone" >/dev/null 2>&1 || true
    if $up; then
        [ "$status" = 0 ] || compose logs --tail=60 >&2 || true
        compose down --volumes --timeout 20 >/dev/null 2>&1 || warn "compose down failed"
    fi
    if [ -n "$daemon_pid" ]; then
        stop_pid "$daemon_pid" 30
        restore_network
    fi
    rm -rf --one-file-system "$work"
    exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

start_daemon() {
    [ "$(id -u)" = 0 ] || die "no Docker daemon answers, and starting one needs root: start Docker, or run this as root"
    need dockerd docker.io
    need ip iproute2
    note_network
    export DOCKER_HOST=unix://$work/docker.sock
    dockerd --data-root "$work/data" --exec-root "$work/exec" --pidfile "$work/pid" \
        -H "$DOCKER_HOST" >"$work/dockerd.log" 2>&1 &
    daemon_pid=$!
    local tenths=300
    until docker info >/dev/null 2>&1; do
        if ! kill -0 "$daemon_pid" 2>/dev/null || [ "$tenths" = 0 ]; then
            tail -n 5 "$work/dockerd.log" >&2
            die "dockerd did not start"
        fi
        tenths=$((tenths - 1))
        sleep 0.1
    done
    say "Started a Docker daemon of its own (pid $daemon_pid)"
}

provide_images() {
    local image
    for image in "${IMAGES[@]}"; do
        docker image inspect "$image" >/dev/null 2>&1 && continue
        docker pull -q "$image" >/dev/null 2>&1 && continue
        # Someone else's daemon never gets images under names that are not ours.
        [ -n "$daemon_pid" ] || die "this Docker daemon cannot pull $image. Load it, or stop the daemon: this test then starts its own, with stand-ins."
        say "$image cannot be pulled"
        "$ROOT/scripts/stand-ins.sh"
        return
    done
}

# expect WHAT WANTED GOT
expect() {
    [ "$2" = "$3" ] || die "$1: wanted $2, got $3"
    checks=$((checks + 1))
    say "ok: $1 ($2)"
}

# wait_until SECONDS WHAT COMMAND...
wait_until() {
    local left=$1 what=$2
    shift 2
    until "$@"; do
        [ "$left" -gt 0 ] || die "$what did not come in time"
        left=$((left - 1))
        sleep 1
    done
}

# is_in_health STATE CONTAINER
is_in_health() { [ "$(docker inspect -f '{{.State.Health.Status}}' "$2" 2>/dev/null)" = "$1" ]; }
serves() { is_in_health healthy "$(compose ps -q sprat)"; }
container_of_load() { docker ps -aq --filter "label=com.docker.compose.project=$PROJECT" --filter "label=com.docker.compose.service=load"; }
has_ended() {
    local container
    container=$(container_of_load)
    [ -n "$container" ] && [ "$(docker inspect -f '{{.State.Status}}' "$container")" = exited ]
}

check_files() {
    local path bytes got
    # The largest, the smallest, and one between.
    while IFS=, read -r _ bytes path; do
        got=$(curl -sS --max-time 60 -o /dev/null -w '%{http_code} %{size_download}' "http://127.0.0.1:8080$path")
        expect "GET $path" "200 $bytes" "$got"
    done < <(sort -t , -k 2,2n "$1" | sed -n '1p;1500p;$p')
    expect "GET of no file" 404 "$(curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:8080/no-such-file)"
}

# megabytes BYTES
megabytes() { awk -v bytes="$1" 'BEGIN { printf "%.1f MB", bytes / 1e6 }'; }

# The image by itself: what is in it, and its health check where there is no admin
# listener to ask.
check_image() {
    expect "user of the image" 10001:10001 "$(docker image inspect -f '{{.Config.User}}' sprat)"
    # There is no shell in it to look with.
    local bytes size kept=$work/kept.tar container
    container=$(docker create sprat)
    docker export "$container" >"$kept"
    docker rm "$container" >/dev/null
    expect "certificate authorities" 1 "$(tar -tf "$kept" | grep -cx etc/ssl/certs/ca-certificates.crt || true)"
    bytes=$(tar -xOf "$kept" usr/local/bin/sprat | wc -c)
    size=$(docker image inspect -f '{{.Size}}' sprat)
    [ "$size" -le "$MAX_IMAGE_BYTES" ] || die "the image has $size bytes, $MAX_IMAGE_BYTES are allowed"
    say "the image has $(megabytes "$size"), the program in it $(megabytes "$bytes")"

    cat >"$work/alone.yaml" <<YAML
version: 1
admin: off
listeners: [{address: "0.0.0.0:8080"}]
uplink: {rate: unlimited}
clusters: {farm: {endpoints: ["127.0.0.1:8081"]}}
routes: [{cluster: farm}]
YAML
    chmod 644 "$work/alone.yaml"
    alone=$(docker run -d -v "$work/alone.yaml:/etc/sprat/sprat.yaml:ro" sprat)
    wait_until "$HEALTH_KNOWN_WITHIN_S" "a healthy sprat without an admin listener" is_in_health healthy "$alone"
    expect "health under admin: off" healthy "$(docker inspect -f '{{.State.Health.Status}}' "$alone")"
    docker kill -s STOP "$alone" >/dev/null
    wait_until "$HEALTH_KNOWN_WITHIN_S" "an unhealthy sprat that stands still" is_in_health unhealthy "$alone"
    expect "health of one that stands still" unhealthy "$(docker inspect -f '{{.State.Health.Status}}' "$alone")"
    docker rm -f "$alone" >/dev/null
    alone=''
}

has docker || need dockerd docker.io
docker compose version >/dev/null 2>&1 || need docker-compose docker-compose
need curl curl
docker info >/dev/null 2>&1 || start_daemon
provide_images
for port in 8080 9900 9090 3000; do
    if listening "$port"; then die "port $port of 127.0.0.1 is taken"; fi
done

checks=0
rm -rf results/compose
compose build >"$work/build.log" 2>&1 || {
    tail -n 40 "$work/build.log" >&2
    die "compose build failed"
}
up=true
compose up -d
wait_until "$READY_WITHIN_S" "a healthy sprat" serves
sprat_is() { docker inspect -f "$1" "$(compose ps -q sprat)"; }
expect "user of the proxy" 10001 "$(awk '/^Uid:/ { print $2 }' "/proc/$(sprat_is '{{.State.Pid}}')/status")"
expect "its root is read-only" true "$(sprat_is '{{.HostConfig.ReadonlyRootfs}}')"
expect "GET /readyz" 200 "$(curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:9900/readyz)"
expect "sprat's metrics" 200 "$(curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:9900/metrics)"

# asked QUERY: the number that Prometheus answers.
asked() {
    curl -sS --get --data-urlencode "query=$1" http://127.0.0.1:9090/api/v1/query |
        sed -n 's/.*"value":\[[0-9.]*,"\([^"]*\)"\].*/\1/p'
}
scraped() { [ "$(asked 'up{job="sprat"}')" = 1 ]; }
wait_until "$READY_WITHIN_S" "a scrape of sprat" scraped
expect "sprat, as Prometheus sees it" 1 "$(asked 'up{job="sprat"}')"
if [ "$(docker image inspect -f '{{index .Config.Labels "sprat.stand-in"}}' grafana/grafana:11.6.0)" = grafana ]; then
    say "Grafana's image cannot be pulled: what it is given is held against Prometheus by the tests of the metrics alone"
else
    shown() { curl -sf http://127.0.0.1:3000/api/dashboards/uid/sprat >/dev/null; }
    wait_until "$READY_WITHIN_S" "Grafana's dashboard" shown
    expect "Grafana's dashboard" 200 "$(curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:3000/api/dashboards/uid/sprat)"
fi

wait_until "$REPLAY_WITHIN_S" "the end of the replay" has_ended
expect "exit status of the replay" 0 "$(docker inspect -f '{{.State.ExitCode}}' "$(container_of_load)")"
wanted=3000
expect "rows of results" "$wanted" "$(tail -n +2 results/compose/sprat.csv | grep -c .)"
expect "rows with an error" 0 "$(tail -n +2 results/compose/sprat.csv | awk -F , '$NF != ""' | grep -c . || true)"
[ -s results/compose/index.html ] || die "the report has no index.html"

trace=$work/trace.csv
docker run --rm --entrypoint cat -v "${PROJECT}_files:/srv/files:ro" sprat-loadgen /srv/files/trace.csv | tail -n +2 >"$trace"
check_files "$trace"
for origin in origin-1 origin-2 origin-3; do
    expect "state of $origin" running "$(docker inspect -f '{{.State.Status}}' "$(compose ps -q "$origin")")"
done
check_image
say "docker-compose.yml: $checks checks passed"
