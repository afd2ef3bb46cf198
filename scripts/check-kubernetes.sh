#!/usr/bin/env bash
# Checks config/kubernetes/ against the schemas that Istio, Envoy Gateway and
# Kubernetes publish: in their Go modules, and in a package of PyPI.
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"

ISTIO=istio.io/api@v1.31.1
GATEWAY=github.com/envoyproxy/gateway@v1.9.1
PACKAGES=(kubernetes-validate==1.37.0 jsonschema PyYAML)

# module_dir MODULE: where Go has it, once it is there.
module_dir() {
    local told
    # No module of ours is asked about: any directory without one will do.
    told=$(cd / && go mod download -json "$1") || return 1
    sed -n 's/^[[:space:]]*"Dir": "\(.*\)",$/\1/p' <<<"$told"
}

need go golang-go
venv=$ROOT/.tools/kubernetes
if [ "$(cat "$venv/packages" 2>/dev/null)" != "${PACKAGES[*]}" ]; then
    python3 -c 'import venv, ensurepip' 2>/dev/null || apt_install python3-venv
    rm -rf "$venv"
    python3 -m venv "$venv"
    retry "$venv/bin/pip" install --quiet --disable-pip-version-check "${PACKAGES[@]}" ||
        die "pip could not install ${PACKAGES[*]}"
    printf '%s' "${PACKAGES[*]}" >"$venv/packages"
fi
for module in "$ISTIO" "$GATEWAY"; do
    retry module_dir "$module" || die "Go could not download $module"
done
cd "$ROOT"
"$venv/bin/python" scripts/check-kubernetes.py config/kubernetes \
    "$(module_dir "$ISTIO")/kubernetes/customresourcedefinitions.gen.yaml" \
    "$(module_dir "$GATEWAY")/charts/gateway-crds-helm/templates/generated"
say "As Istio ($ISTIO), Envoy Gateway ($GATEWAY) and Kubernetes have them"
