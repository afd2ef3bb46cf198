#!/usr/bin/env bash
# Installs what building and running Sprat needs, where it is missing.
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"

need curl curl
ensure_rust
