# What checks with a browser need; sourced after lib.sh, never run.
# shellcheck shell=bash

# browser_begin: finds Chromium ($CHROMIUM), and installs the packages of package.json
# into $modules, from where their scripts are run.
browser_begin() {
    if [ -z "${CHROMIUM:-}" ]; then
        need chromium chromium
        CHROMIUM=$(command -v chromium)
    fi
    need node nodejs
    need npm npm
    modules=$ROOT/.tools/browser
    if ! cmp -s "$ROOT/scripts/browser/package.json" "$modules/package.json" || [ ! -d "$modules/node_modules" ]; then
        mkdir -p "$modules"
        cp "$ROOT/scripts/browser/package.json" "$modules/"
        retry npm --prefix "$modules" install --silent --no-audit --no-fund --no-package-lock ||
            die "the packages of scripts/browser/package.json could not be installed"
    fi
    # Where its packages are is where it is run from.
    cp "$ROOT/scripts/browser/check.mjs" "$modules/"
}
