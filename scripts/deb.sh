#!/usr/bin/env bash
# Makes a package for Debian, target/package/sprat_*.deb, and checks it: by lintian, and
# by installing, running, removing and purging it in a minimal Debian of its own, for
# which it has to be root. PROGRAM= takes a program that is built already.
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"

CARGO_DEB=3.8.0
SUITE=bookworm
MIRROR=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
MAX_PROGRAM_BYTES=15000000
READY_WITHIN_S=30

cd "$ROOT"
out=$ROOT/target/package
need lintian lintian
need dpkg-shlibdeps dpkg-dev
if [ "$("$ROOT/.tools/bin/cargo-deb" --version 2>/dev/null)" != "cargo-deb $CARGO_DEB" ]; then
    say "Installing cargo-deb $CARGO_DEB into .tools"
    retry cargo install --quiet --locked --debug --no-default-features --force \
        --root "$ROOT/.tools" --target-dir "$ROOT/target/tools" "cargo-deb@$CARGO_DEB" ||
        die "cargo-deb $CARGO_DEB could not be installed"
    rm -rf "$ROOT/target/tools"
fi

if [ -z "${PROGRAM:-}" ]; then
    # What is optimised by counts is larger than the bound, and so may one be that is built.
    SPRAT_BUILT='' PGO=0 build_programs
    PROGRAM=$target/sprat
fi
rm -rf --one-file-system "$out"
PROGRAM=$PROGRAM PREFIX=/usr DESTDIR=$out/root scripts/install.sh
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
{
    printf 'sprat (%s-1) unstable; urgency=medium\n\n' "$version"
    printf '  * What has changed is in CHANGELOG.md.\n\n'
    printf ' -- Sprat developers <sprat-proxy@users.noreply.github.com>  %s\n' \
        "$(date -R -u -d "@$(git log -1 --format=%ct 2>/dev/null || date +%s)")"
} >"$out/changelog"
"$ROOT/.tools/bin/cargo-deb" deb --quiet --no-build --no-strip --locked \
    --manifest-path proxy/Cargo.toml --output "$out/"
deb=$(echo "$out"/sprat_*.deb)
[ -f "$deb" ] || die "there is no package in $out"

checks=0
ok() {
    checks=$((checks + 1))
    say "ok: $*"
}

lintian --fail-on error "$deb" || die "lintian found errors"
ok "lintian: no errors"
bytes=$(stat -c %s "$out/root/usr/bin/sprat")
[ "$bytes" -lt "$MAX_PROGRAM_BYTES" ] || die "the program has $bytes bytes, $MAX_PROGRAM_BYTES are allowed"
ok "the program has $bytes bytes, the package $(stat -c %s "$deb")"

if [ "$(id -u)" != 0 ]; then
    say "Not installed anywhere: that needs root"
    say "$deb: $checks checks passed"
    exit
fi

need debootstrap debootstrap
need curl curl
for port in 8080 9900; do
    if listening "$port"; then die "port $port of 127.0.0.1 is taken"; fi
done
work=$(mktemp -d) pid='' has_proc=false
finish() {
    local status=$?
    trap - EXIT
    [ -z "$pid" ] || stop_pid "$pid"
    ! $has_proc || umount "$tree/proc" || umount -l "$tree/proc"
    rm -rf --one-file-system "$work"
    exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

tree=$work/tree
retry debootstrap --variant=minbase "$SUITE" "$tree" "$MIRROR" || die "debootstrap failed"
printf '#!/bin/sh\nexit 101\n' >"$tree/usr/sbin/policy-rc.d"
chmod +x "$tree/usr/sbin/policy-rc.d"
cp /etc/resolv.conf "$tree/etc/resolv.conf"
cp "$deb" "$tree/sprat.deb"
inside() { chroot "$tree" env DEBIAN_FRONTEND=noninteractive "$@"; }
apt() {
    inside apt-get -q -y --no-install-recommends "$@" >"$work/log" 2>&1 || {
        cat "$work/log" >&2
        die "apt-get $*"
    }
}
# left: what of the package is in the tree, but for what its user is known by.
left() { find "$tree" -xdev -name '*sprat*' ! -path "$tree/sprat.deb" ! -path "$tree/var/cache/*" | sed "s|^$tree||" | sort; }

# Sprat looks there which program it is.
mount -t proc proc "$tree/proc"
has_proc=true
apt install /sprat.deb
ok "installed"
inside sprat check /etc/sprat/sprat.yaml | grep -x '/etc/sprat/sprat.yaml: ok' >/dev/null || die "sprat check"
inside sprat --version
inside getent passwd sprat | grep /usr/sbin/nologin >/dev/null || die "there is no user sprat"
for page in sprat sprat-run sprat-check sprat-explain; do
    [ -s "$tree/usr/share/man/man1/$page.1.gz" ] || die "there is no page of $page"
done
inside bash -n /usr/share/bash-completion/completions/sprat
ok "it checks its configuration; it has a user, pages and completions"

chroot --userspec=sprat "$tree" sprat run -c /etc/sprat/sprat.yaml >"$work/log" 2>&1 &
pid=$!
ready() { [ "$(curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:9900/readyz)" = 200 ]; }
wait_ready "sprat run" "$pid" ready || { cat "$work/log" >&2; die "it does not serve"; }
curl -sS http://127.0.0.1:8080/ | grep '^Sprat is installed' >/dev/null || die "it serves something else"
inside sprat healthcheck -c /etc/sprat/sprat.yaml >/dev/null || die "sprat healthcheck"
stop_pid "$pid"
pid=''
ok "it serves as the user sprat"

echo '# mine' >>"$tree/etc/sprat/sprat.yaml"
apt install --reinstall /sprat.deb
grep -x '# mine' "$tree/etc/sprat/sprat.yaml" >/dev/null || die "the configuration was overwritten"
apt remove sprat
[ -e "$tree/etc/sprat/sprat.yaml" ] || die "remove took the configuration"
[ ! -e "$tree/usr/bin/sprat" ] || die "remove left the program"
ok "remove leaves the configuration alone"
mkdir -p "$tree/var/lib/sprat" "$tree/var/log/sprat"
apt purge sprat
[ -z "$(left)" ] || die "purge left $(left | tr '\n' ' ')"
ok "purge leaves nothing"
say "${deb##*/}: $checks checks passed"
