#!/usr/bin/env bash
# Installs gRPC for Python from PyPI into .tools, where it is missing, and prints
# the path of the Python that has it.
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"

venv=$(venv_with grpc grpcio 1.85.1)
say "$venv/bin/python"
