#!/usr/bin/env bash
# Makes the compiler's profile anew: what is called often and which way branches go, as a
# Sprat found it that was built to count, under loads of several kinds. It is written to
# profile/, and build_release (lib.sh) uses it where the compiler is the same. To be made
# for a release: what has changed since is compiled as without it. The environment
# changes it:
#
#   REQUESTS=30000   of each kind
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"
. "$ROOT/scripts/measure.sh"

REQUESTS=${REQUESTS:-30000}
ORIGIN=127.0.0.1:9231
PLAIN=127.0.0.1:9232 SECURE=127.0.0.1:9233

cd "$ROOT"
need h2load nghttp2-client
llvm=$(rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
merge=$(command -v "llvm-profdata-$llvm" || ls "$(rustc --print sysroot)/lib/rustlib"/*/bin/llvm-profdata 2>/dev/null) || {
    apt_install "llvm-$llvm"
    merge=llvm-profdata-$llvm
}

# config RATE: what most have, and what costs most of what many have.
config() {
    cat <<YAML
version: 1
runtime: {workers: 1}
admin: off
listeners:
  - address: $PLAIN
  - address: $SECURE
    tls: {certificates: [{certificate_chain: $work/chain.pem, private_key: $work/key.pem}]}
uplink: {rate: $1, policy: srpt}
access_log: {path: $work/access.log, format: json}
clusters: {farm: {endpoints: [$ORIGIN]}}
routes:
  - match: {prefix: /size/10001/}
    cluster: farm
    response_headers_to_add: [{name: x-route, value: profile}]
  - cluster: farm
YAML
}

# ask CLIENTS REQUESTS OPTION...: h2load, which has to succeed.
ask() {
    h2load -t 1 -c "$1" -n "$2" "${@:3}" >"$work/h2load.log" 2>&1 ||
        die "h2load failed: $(cat "$work/h2load.log")"
    grep -q " $2 succeeded, 0 failed" "$work/h2load.log" || die "requests failed: $(cat "$work/h2load.log")"
}

# load RATE: a Sprat under that rate gets every kind. It writes what it has counted as it
# ends.
load() {
    local size
    config "$1" >"$work/sprat.yaml"
    start_process sprat "$target/sprat" run -c "$work/sprat.yaml"
    wait_for sprat "http://$PLAIN/size/10/probe"
    for size in 100 10000 10001; do
        ask 32 "$REQUESTS" --h1 "http://$PLAIN/size/$size/a"
        ask 8 "$REQUESTS" -m 8 "https://$SECURE/size/$size/a"
        ask 16 "$((REQUESTS / 2))" --h1 "https://$SECURE/size/$size/a"
    done
    for size in 100000 1000000; do
        ask 32 "$((REQUESTS * 10000 / size))" --h1 "http://$PLAIN/size/$size/a"
        ask 4 "$((REQUESTS * 3000 / size))" -m 8 "https://$SECURE/size/$size/a"
    done
    stop_process sprat 60
}

# The same packages as build_release: the features that they ask for are in the names.
counting=$ROOT/target/counting
say "Building a Sprat that counts, into $counting"
CARGO_TARGET_DIR=$counting RUSTFLAGS="-Cprofile-generate=$counting/raw $PROFILE_FLAGS" \
    cargo build --release --locked --quiet -p sprat -p sprat-loadgen
SPRAT_BUILT=$counting/release measure_begin
self_signed localhost
# The counts of compilers' helpers and of the load generator are of no use.
rm -rf "$counting/raw"
export LLVM_PROFILE_FILE=/dev/null
start_origin "$ORIGIN"
export LLVM_PROFILE_FILE=$counting/raw/%m.profraw
for rate in unlimited 100gbit 200mbit; do
    say "Requests to one with rate: $rate"
    load "$rate"
done
"$merge" merge --sparse -o "$work/sprat.profdata" "$counting"/raw/*.profraw
mkdir -p profile
gzip -9 -n <"$work/sprat.profdata" >profile/sprat.profdata.gz
rustc -V >profile/rustc
say "Written: profile/sprat.profdata.gz, $(stat -c %s profile/sprat.profdata.gz) bytes, for $(cat profile/rustc)"
