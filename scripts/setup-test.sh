#!/usr/bin/env bash
# Installs what the checks and tests need, where it is missing.
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"

CARGO_DENY=0.20.2

"$ROOT/scripts/setup-run.sh"
# The lab's own test makes network namespaces; without these it is skipped.
need ip iproute2
need ethtool ethtool
need shellcheck shellcheck
# The fuzz targets are compiled with libFuzzer, which is C++.
need c++ g++
# The shared store of sizes is tested against a real one.
need redis-server redis-server
# As a backend that compresses, and beside HAProxy in the table of hostile requests.
need nginx nginx-light
# `sprat top` is watched in a terminal of its own.
need tmux tmux
# The filters are tested inside a real Envoy.
envoy=$("$ROOT/scripts/setup-envoy.sh")
"$envoy" --version >/dev/null || die "$envoy does not run here; set ENVOY to a binary that does"

# gRPC passes the proxy between its own client and its own server.
grpc=$("$ROOT/scripts/setup-grpc.sh")
"$grpc" -c 'import grpc' || die "$grpc cannot import grpc"

# The metrics are read by a real Prometheus.
prometheus=$("$ROOT/scripts/setup-prometheus.sh")
"$prometheus/promtool" --version >/dev/null || die "$prometheus/promtool does not run here"

# Whether HTTP/2 is spoken as it should be is asked of h2spec.
if [ ! -x "$ROOT/.tools/bin/h2spec" ]; then
    need go golang-go
    say "Installing h2spec into .tools"
    retry env GOBIN="$ROOT/.tools/bin" go install github.com/summerwind/h2spec/cmd/h2spec@latest ||
        die "h2spec could not be installed"
fi

# Certificates are issued by a real authority.
if [ ! -x "$ROOT/.tools/bin/pebble" ]; then
    need go golang-go
    say "Installing pebble into .tools"
    retry env GOBIN="$ROOT/.tools/bin" go install github.com/letsencrypt/pebble/v2/cmd/pebble@v2.10.1 ||
        die "pebble could not be installed"
fi

# A rustup that was installed with the minimal profile lacks these two.
for tool in fmt clippy; do
    if ! cargo "$tool" --version >/dev/null 2>&1; then
        case $tool in
            fmt) component=rustfmt ;;
            *) component=$tool ;;
        esac
        if has rustup && retry rustup component add "$component"; then
            continue
        fi
        die "cargo $tool is missing: install $component for $(cargo --version)"
    fi
done

# The core is built for wasm32 too; scripts/wasm.sh has another way where this
# one is closed.
if has rustup && ! rustup target list --installed | grep -x wasm32-unknown-unknown >/dev/null; then
    retry rustup target add wasm32-unknown-unknown >/dev/null 2>&1 || true
fi

# Unoptimised on purpose: it builds in one minute and checks in three seconds.
if [ "$("$ROOT/.tools/bin/cargo-deny" --version 2>/dev/null)" != "cargo-deny $CARGO_DENY" ]; then
    say "Installing cargo-deny $CARGO_DENY into .tools"
    retry cargo install --quiet --locked --debug --no-default-features \
        --root "$ROOT/.tools" --target-dir "$ROOT/target/tools" "cargo-deny@$CARGO_DENY" ||
        die "cargo-deny $CARGO_DENY could not be installed"
    rm -rf "$ROOT/target/tools"
fi
