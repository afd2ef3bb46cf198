#!/usr/bin/env bash
# Installs the optimised program, its pages, completions, unit and a first
# configuration.
#
#   PREFIX=/usr/local   where to
#   DESTDIR=            a directory that stands for the root, for who makes a package
#   PROGRAM=            the program to install, instead of target/release/sprat
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"

PREFIX=${PREFIX:-/usr/local}
DESTDIR=${DESTDIR:-}
program=${PROGRAM:-${CARGO_TARGET_DIR:-$ROOT/target}/release/sprat}

[ -x "$program" ] || die "there is no $program: make build"
cd "$ROOT"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# put FILE PLACE [MODE]: below PREFIX.
put() { install -D -m "${3:-644}" "$1" "$DESTDIR$PREFIX/$2"; }

# The lines of a debugger are five times the program.
strip --strip-all -o "$work/sprat" "$program"
put "$work/sprat" bin/sprat 755

mkdir "$work/man"
"$program" man "$work/man"
for page in "$work"/man/*; do
    put "$page" "share/man/man1/${page##*/}"
done

zsh=zsh/site-functions
[ "$PREFIX" != /usr ] || zsh=zsh/vendor-completions
for shell in bash zsh fish; do "$program" completions "$shell" >"$work/$shell"; done
put "$work/bash" share/bash-completion/completions/sprat
put "$work/zsh" "share/$zsh/_sprat"
put "$work/fish" share/fish/vendor_completions.d/sprat.fish

# The unit, without the words on how to install it.
sed -n '/^\[Unit\]/,$p' config/systemd/sprat.service | sed "s|/usr/local/bin/|$PREFIX/bin/|" >"$work/unit"
put "$work/unit" lib/systemd/system/sprat.service
put packaging/sysusers.conf lib/sysusers.d/sprat.conf

# What an administrator has written stays.
[ -e "$DESTDIR/etc/sprat/sprat.yaml" ] ||
    install -D -m 644 packaging/sprat.yaml "$DESTDIR/etc/sprat/sprat.yaml"
[ -z "${DESTDIR:-}" ] || exit 0
say "Installed in $PREFIX. To run it: systemd-sysusers sprat.conf; systemctl daemon-reload; systemctl enable --now sprat"
