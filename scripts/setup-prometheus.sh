#!/usr/bin/env bash
# Unpacks Debian's Prometheus into .tools/prometheus, where it is missing, and
# prints that directory: `prometheus` and `promtool` are in it. The package is not
# installed, for that would start a service.
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"

there=$ROOT/.tools/prometheus

if [ ! -x "$there/promtool" ] || [ ! -x "$there/prometheus" ]; then
    has apt-get || die "there is no apt-get: put prometheus and promtool into $there"
    mkdir -p "$ROOT/.tools"
    # One at a time, and what is there is whole.
    exec 9>"$there.lock"
    flock 9
fi
if [ ! -x "$there/promtool" ] || [ ! -x "$there/prometheus" ]; then
    work=$(mktemp -d "$ROOT/.tools/prometheus.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    download() { (cd "$work" && apt-get -q -o Acquire::Retries=3 download prometheus); }
    if ! download >/dev/null 2>&1; then
        # The lists are as old as the image, or missing.
        retry as_root apt-get -q -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 update
        retry download || die "Prometheus could not be downloaded: put prometheus and promtool into $there"
    fi
    dpkg -x "$work"/prometheus_*.deb "$work/files"
    mkdir -p "$there"
    mv "$work/files/usr/bin/prometheus" "$work/files/usr/bin/promtool" "$there"
fi
say "$there"
