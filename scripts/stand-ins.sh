#!/usr/bin/env bash
# Makes local stand-ins for the base images, from Debian's packages and this
# machine's Rust, in the daemon that DOCKER_HOST names. For machines that cannot
# pull; scripts/test-compose.sh runs it against a daemon of its own.
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"

SUITE=bookworm
MIRROR=${DEBIAN_MIRROR:-http://deb.debian.org/debian}

[ "$(id -u)" = 0 ] || die "debootstrap needs root"
need debootstrap debootstrap
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT

# import DIR IMAGE [CHANGE...]
import() {
    local dir=$1 image=$2 change=()
    shift 2
    for line in "$@"; do
        change+=(--change "$line")
    done
    tar -C "$dir" -c . | docker import "${change[@]}" - "$image" >/dev/null
    say "Made $image"
}

# inside DIR COMMAND...: in the tree, with this machine's resolver.
inside() {
    local dir=$1
    shift
    cp /etc/resolv.conf "$dir/etc/resolv.conf"
    chroot "$dir" env DEBIAN_FRONTEND=noninteractive "$@" >"$work/log" 2>&1 || {
        cat "$work/log" >&2
        die "in the stand-in's tree: $*"
    }
}

say "Making stand-ins for the base images"
base=$work/base
retry debootstrap --variant=minbase "$SUITE" "$base" "$MIRROR"
# No service is to start in a tree that is being filled.
printf '#!/bin/sh\nexit 101\n' >"$base/usr/sbin/policy-rc.d"
chmod +x "$base/usr/sbin/policy-rc.d"
import "$base" "debian:$SUITE-slim" 'CMD ["bash"]'

cp -a "$base" "$work/prometheus"
install -D "$("$ROOT/scripts/setup-prometheus.sh" | tail -n 1)/prometheus" "$work/prometheus/bin/prometheus"
mkdir -p "$work/prometheus/prometheus"
import "$work/prometheus" prom/prometheus:v3.5.0 'ENTRYPOINT ["/bin/prometheus"]' \
    'CMD ["--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/prometheus"]' 'EXPOSE 9090'
rm -rf "$work/prometheus"

# Grafana is in no package of Debian's: this one does nothing, and says so by its label.
import "$base" grafana/grafana:11.6.0 'CMD ["sleep", "infinity"]' 'LABEL sprat.stand-in=grafana'

cp -a "$base" "$work/nginx"
inside "$work/nginx" apt-get -q -y --no-install-recommends install nginx-light
import "$work/nginx" nginx:stable 'CMD ["nginx", "-g", "daemon off;"]' 'EXPOSE 80'
rm -rf "$work/nginx"

inside "$base" apt-get -q -y --no-install-recommends install build-essential ca-certificates
# The authorities that this machine trusts, which a closed network may have added to.
cp /etc/ssl/certs/ca-certificates.crt "$base/etc/ssl/certs/ca-certificates.crt"
sysroot=$(rustc --print sysroot)
mkdir -p "$base/opt/rust/bin" "$base/opt/rust/lib/rustlib"
cp -a "$sysroot"/bin/{cargo,rustc} "$base/opt/rust/bin/"
cp -a "$sysroot"/lib/*.so* "$base/opt/rust/lib/"
cp -a "$sysroot/lib/rustlib/$(rustc -vV | sed -n 's/^host: //p')" "$base/opt/rust/lib/rustlib/"
import "$base" "rust:1-$SUITE" \
    'ENV PATH=/opt/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' \
    'CMD ["bash"]'
