#!/usr/bin/env bash
# Builds both programs, optimised, into target/release. What is said is for cargo:
#
#   scripts/build.sh --target x86_64-unknown-linux-gnu
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"

cd "$ROOT"
build_release "$@"
