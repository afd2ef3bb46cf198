#!/usr/bin/env bash
# Licences, sources and bans of every dependency; known vulnerabilities too
# where the advisory database can be reached.
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"

DATABASE=https://github.com/RustSec/advisory-db
deny=$ROOT/.tools/bin/cargo-deny

cd "$ROOT"
[ -x "$deny" ] || die "cargo-deny is missing: run scripts/setup-test.sh"
"$deny" --log-level error check --hide-inclusion-graph bans licenses sources

if GIT_TERMINAL_PROMPT=0 retry timeout 20 git ls-remote --exit-code "$DATABASE" HEAD 2>/dev/null; then
    "$deny" --log-level error check --hide-inclusion-graph advisories
else
    say "advisories NOT CHECKED: $DATABASE cannot be reached from here"
fi
