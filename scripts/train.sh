#!/usr/bin/env bash
# Has a Sprat that counts (scripts/build.sh) serve what Sprats serve: small and large
# responses over kept and new connections, with and without TLS, as HTTP/1.1 and HTTP/2, and
# compressed, on a link without a rate, with one, and with one that is to be found. Its counts
# are in $COUNTS. What is not counted is compiled for size.
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"
. "$ROOT/scripts/measure.sh"

ORIGIN=127.0.0.1:9471
PLAIN_PORT=9472
TLS_PORT=9473
ADMIN=127.0.0.1:9474

sprat_config() {
    cat <<YAML
version: 1
runtime: {workers: 1}
admin: $ADMIN
listeners:
  - address: 127.0.0.1:$PLAIN_PORT
  - address: 127.0.0.1:$TLS_PORT
    tls: {certificates: [{certificate_chain: $work/chain.pem, private_key: $work/key.pem}]}
uplink: {rate: $1}
compressor: {}
access_log: {path: $work/access.log}
clusters:
  farm: {endpoints: [$ORIGIN]}
routes:
  - cluster: farm
YAML
}

# ask SIZE COUNT OPTION...: that many responses of that size; QUERY is part of each target.
ask() {
    awk -v size="$1" -v count="$2" -v query="${QUERY:-}" \
        'BEGIN { print "t_s,bytes,path"; for (i = 0; i < count; i++) printf "0,%d,/size/%d/%d%s\n", size, size, i % 1000, query }' \
        >"$work/trace.csv"
    replay sprat --trace "$work/trace.csv" --closed 50 -o "$work/replay.csv" "${@:3}"
    none_failed "$work/replay.csv" || die "requests of $1 B have failed: $(cat "$work/replay-sprat.log")"
}

# serve RATE
serve() {
    local plain=http://127.0.0.1:$PLAIN_PORT tls=https://127.0.0.1:$TLS_PORT
    sprat_config "$1" >"$work/sprat.yaml"
    LLVM_PROFILE_FILE="$COUNTS/sprat-%p.profraw" start_process sprat "$target/sprat" run -c "$work/sprat.yaml"
    wait_for sprat "http://127.0.0.1:$PLAIN_PORT/size/0/probe"
    ask 100 20000 --connection keep --target "$plain"
    ask 10000 20000 --connection keep --target "$plain"
    ask 100000 4000 --connection keep --target "$plain"
    ask 1000000 400 --connection keep --target "$plain"
    ask 1000 2000 --connection new --target "$plain"
    ask 2000 8000 --http2 8 --target "$plain"
    ask 2000 8000 --connection keep --target "$tls"
    ask 100000 1000 --connection keep --target "$tls"
    ask 1000 500 --connection new-tls --target "$tls"
    QUERY='?text=1' ask 10000 4000 --connection keep --target "$plain" --header 'Accept-Encoding: gzip'
    QUERY='?text=1' ask 100000 200 --connection keep --target "$plain" --header 'Accept-Encoding: gzip'
    # Codings that the replay does not read.
    for coding in br zstd; do
        curl -fsS -H "Accept-Encoding: $coding" "$plain/size/10000/[1-1000]?text=1" >/dev/null
    done
    # HTTP/2, by ALPN.
    curl -fsSk "$tls/size/2000/[1-2000]" >/dev/null
    curl -fsS -o /dev/null "http://$ADMIN/metrics"
    # What it has counted is written as it ends.
    stop_process sprat 30
}

require_free "${ORIGIN##*:}" "$PLAIN_PORT" "$TLS_PORT" "${ADMIN##*:}"
export LLVM_PROFILE_FILE=/dev/null
measure_begin
self_signed localhost
start_origin "$ORIGIN"
for rate in unlimited 100gbit auto; do serve "$rate"; done
