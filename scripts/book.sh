#!/usr/bin/env bash
# Builds the documents as a book (mdBook) into target/book, and follows its links. A
# warning fails. OPEN=1 opens it in a browser.
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"

MDBOOK=0.5.4
mdbook=$ROOT/.tools/bin/mdbook

cd "$ROOT"
need python3 python3
if [ "$("$mdbook" --version 2>/dev/null)" != "mdbook v$MDBOOK" ]; then
    say "Installing mdbook $MDBOOK into .tools"
    # Without its server, which nothing here uses.
    retry nice -n 10 cargo install --quiet --locked --debug --no-default-features --features search \
        --root "$ROOT/.tools" --target-dir "$ROOT/target/tools" "mdbook@$MDBOOK" ||
        die "mdbook $MDBOOK could not be installed"
    rm -rf "$ROOT/target/tools"
fi

told=$(mktemp)
trap 'rm -f "$told"' EXIT
"$mdbook" build >"$told" 2>&1 || { cat "$told" >&2; die "mdbook failed"; }
if grep -E 'WARN|ERROR' "$told" >&2; then
    cat "$told" >&2
    die "mdbook has warned"
fi
python3 scripts/check-book.py target/book
say "The book is in target/book/index.html"
[ -z "${OPEN:-}" ] || xdg-open target/book/index.html
