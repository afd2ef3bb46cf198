# Functions shared by the scripts here; sourced, never run.
# shellcheck shell=bash

ROOT=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)

# The oldest Rust that builds Sprat (`rust-version` in Cargo.toml), and the one
# that is installed where there is none: pinned, so that a lint which a later
# Rust adds does not fail a fresh checkout.
RUST_OLDEST=1.89
RUST_INSTALLED=1.95.0

CARGO_HOME=${CARGO_HOME:-${HOME:-/root}/.cargo}
case ":$PATH:" in
    *":$CARGO_HOME/bin:"*) ;;
    *) PATH=$CARGO_HOME/bin:$PATH ;;
esac
export PATH

say() { printf '%s\n' "$*"; }
warn() { printf '%s\n' "$*" >&2; }
die() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

has() { command -v "$1" >/dev/null 2>&1; }

# retry COMMAND...: up to four tries, 2, 4 and 8 seconds apart. What a failed
# try printed is shown only when the last one has failed too.
retry() {
    local pause output
    for pause in 2 4 8 0; do
        if output=$("$@" 2>&1); then
            return 0
        fi
        [ "$pause" = 0 ] || sleep "$pause"
    done
    warn "$output"
    return 1
}

# as_root COMMAND...: runs it as root, by sudo where need be.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif [ -t 0 ]; then
        sudo "$@"
    else
        sudo -n "$@"
    fi
}

can_be_root() {
    [ "$(id -u)" = 0 ] || { has sudo && { [ -t 0 ] || sudo -n true 2>/dev/null; }; }
}

# apt_install PACKAGE...: installs what dpkg does not have yet.
apt_install() {
    local package missing=()
    for package in "$@"; do
        if ! has dpkg-query ||
            ! dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed'; then
            missing+=("$package")
        fi
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    has apt-get || die "these are missing, and there is no apt-get to install them with: ${missing[*]} (Debian's names). Install them, then run this again."
    can_be_root || die "these packages are missing: ${missing[*]}. Run as root: apt-get install ${missing[*]}"
    say "Installing ${missing[*]}"
    # A lock held by another apt (unattended upgrades on a new machine) is
    # waited for, and the lists are as old as the image: refresh them first.
    retry as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get -q -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 update ||
        warn "apt-get update failed; trying with the lists at hand"
    retry as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get -q -y --no-install-recommends -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 \
        install "${missing[@]}" || die "apt-get could not install ${missing[*]}"
}

# venv_with NAME PACKAGE VERSION: installs a package of PyPI into .tools/NAME,
# where it is missing, and prints that directory.
venv_with() {
    local venv=$ROOT/.tools/$1 package=$2 version=$3
    # All of what pip says is read: cut short by an early match, it would fail.
    venv_has() {
        "$venv/bin/pip" show "$package" 2>/dev/null | grep -x "Version: $version" >/dev/null
    }
    if ! venv_has; then
        mkdir -p "$ROOT/.tools"
        # One at a time: tests ask for it in several processes.
        exec 9>"$venv.lock"
        flock 9
    fi
    if ! venv_has; then
        # What apt says belongs on the terminal, not into the path printed here.
        python3 -c 'import venv, ensurepip' 2>/dev/null || apt_install python3-venv >&2
        rm -rf "$venv"
        python3 -m venv "$venv"
        retry "$venv/bin/pip" install --quiet --disable-pip-version-check "$package==$version" ||
            die "$package $version could not be installed by pip"
    fi
    say "$venv"
}

# need COMMAND PACKAGE: installs the package only when the command is missing.
need() { has "$1" || apt_install "$2"; }

# version_at_least HAVE WANT: dotted versions.
version_at_least() {
    [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]
}

cargo_version() { cargo --version 2>/dev/null | cut -d ' ' -f 2 | cut -d - -f 1; }

fetch_and_run_rustup() {
    local installer status
    installer=$(mktemp)
    # The file behind https://sh.rustup.rs, from the host that it downloads
    # from itself: one name fewer to reach.
    curl --proto '=https' --tlsv1.2 -sSf --retry 3 -o "$installer" \
        https://static.rust-lang.org/rustup/rustup-init.sh &&
        sh "$installer" -y -q --no-modify-path --profile minimal --default-toolchain "$RUST_INSTALLED"
    status=$?
    rm -f "$installer"
    return "$status"
}

# ensure_rust: a C linker, and a cargo that is new enough. Start-up files of the
# user's shell are left alone.
ensure_rust() {
    local found
    if ! has cc; then
        apt_install build-essential
    fi
    found=$(cargo_version || true)
    if [ -n "$found" ] && version_at_least "$found" "$RUST_OLDEST"; then
        return 0
    fi
    if has rustup; then
        say "Installing Rust $RUST_INSTALLED (cargo ${found:-is missing}; $RUST_OLDEST or later is needed)"
        retry rustup toolchain install "$RUST_INSTALLED" --profile minimal --no-self-update ||
            die "rustup could not install Rust $RUST_INSTALLED"
        export RUSTUP_TOOLCHAIN=$RUST_INSTALLED
        return 0
    fi
    need curl curl
    [ -e /etc/ssl/certs/ca-certificates.crt ] || apt_install ca-certificates
    say "Installing Rust $RUST_INSTALLED by rustup (cargo ${found:-is missing}; $RUST_OLDEST or later is needed)"
    retry fetch_and_run_rustup || die "rustup could not be installed. Install Rust $RUST_OLDEST or later (https://rustup.rs), then run this again."
    found=$(cargo_version || true)
    version_at_least "${found:-0}" "$RUST_OLDEST" ||
        die "cargo in $CARGO_HOME/bin is ${found:-missing} after the installation of Rust $RUST_INSTALLED"
    say "Rust is in $CARGO_HOME/bin; for your own shell: . \"$CARGO_HOME/env\""
}

# The counts that Sprat is optimised by; scripts/build.sh makes them.
PROFILE=$(realpath -m "${CARGO_TARGET_DIR:-$ROOT/target}")/profile/sprat.profdata

# profile_is_current: whether they are of these sources and this Rust.
profile_is_current() {
    [ -e "$PROFILE" ] && [ "$(rustc -vV)" = "$(cat "$PROFILE.rustc" 2>/dev/null)" ] &&
        [ -z "$(cd "$ROOT" && find Cargo.* .cargo config import measure proxy scheduler top whatif \
            -newer "$PROFILE" \( -name '*.rs' -o -name '*.toml' -o -name Cargo.lock \) -print -quit)" ]
}

# build_programs: Sprat and the load generator, optimised, by Sprat's counts if there are
# some of it as it is; $target is the directory that has them. Both, whoever asks: one alone
# would want other features of what they share, and all that would be compiled once more.
# SPRAT_BUILT names a directory that has them already; PGO=0 leaves the counts out.
build_programs() {
    if [ -n "${SPRAT_BUILT:-}" ]; then
        target=$(realpath "$SPRAT_BUILT")
        return
    fi
    local flags=${RUSTFLAGS:-}
    if [ "${PGO:-1}" != 0 ] && profile_is_current; then flags+=" -Cprofile-use=$PROFILE"; fi
    (cd "$ROOT" && RUSTFLAGS=$flags cargo build --release --locked --quiet -p sprat -p sprat-loadgen)
    target=${CARGO_TARGET_DIR:-$ROOT/target}/release
}

# listening PORT: whether something accepts connections there on 127.0.0.1.
listening() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# stop_pid PID [SECONDS]: SIGTERM, a bounded wait, then SIGKILL.
stop_pid() {
    local pid=$1 tenths=$((${2:-10} * 10))
    kill -TERM "$pid" 2>/dev/null || return 0
    while kill -0 "$pid" 2>/dev/null && [ "$tenths" -gt 0 ]; do
        sleep 0.1
        tenths=$((tenths - 1))
    done
    kill -KILL "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
}

# require_free PORT...: of 127.0.0.1.
require_free() {
    local port taken=()
    for port in "$@"; do
        if listening "$port"; then taken+=("$port"); fi
    done
    [ ${#taken[@]} -eq 0 ] || die "something listens on port ${taken[*]} of 127.0.0.1 already: stop it (\`ss -ltnp\` shows what it is), then run this again."
}

# wait_ready WHAT PID COMMAND...: until the command succeeds. Fails, and says why,
# when the process has ended or READY_WITHIN_S have passed.
wait_ready() {
    local what=$1 pid=$2 tenths=$((READY_WITHIN_S * 10))
    shift 2
    until "$@"; do
        kill -0 "$pid" 2>/dev/null || { warn "$what has ended"; return 1; }
        [ "$tenths" -gt 0 ] || { warn "$what is not ready after $READY_WITHIN_S s"; return 1; }
        tenths=$((tenths - 1))
        sleep 0.1
    done
}

# code_of: the Rust it reads, without comments, up to the module of tests.
code_of() {
    awk '/^ *\/\// { next }
        $0 == "#[cfg(test)]" { held = 1; next }
        held && $0 == "mod tests {" { exit }
        held { print "#[cfg(test)]"; held = 0 }
        { print }'
}
