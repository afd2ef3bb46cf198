# What checks with a browser need; sourced after lib.sh, never run.
# shellcheck shell=bash

# browser_begin [BROWSER...]: finds Chromium ($CHROMIUM) and Firefox ($FIREFOX), as far as
# they are among the browsers (chromium if none is given), and installs the packages of
# package.json into $modules, from where their scripts are run.
browser_begin() {
    local browser
    for browser in "${@:-chromium}"; do
        case $browser in
            chromium)
                [ -n "${CHROMIUM:-}" ] || need chromium chromium
                CHROMIUM=${CHROMIUM:-$(command -v chromium)}
                ;;
            firefox)
                [ -n "${FIREFOX:-}" ] || need firefox-esr firefox-esr
                FIREFOX=${FIREFOX:-$(command -v firefox-esr)}
                ;;
        esac
    done
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
