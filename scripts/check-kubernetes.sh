#!/usr/bin/env bash
# Checks config/kubernetes/, and what kustomize makes of config/kustomize/, against the
# schemas that Istio, Envoy Gateway, Prometheus' operator and Kubernetes publish: in their
# Go modules, and in a package of PyPI. Selectors have to select something of the same build.
# The configurations in them are checked by Sprat, if there is one (SPRAT=, or the one that
# was built).
set -euo pipefail
. "$(dirname -- "$0")/lib.sh"

ISTIO=istio.io/api@v1.31.1
GATEWAY=github.com/envoyproxy/gateway@v1.9.1
OPERATOR=github.com/prometheus-operator/prometheus-operator@v0.85.0
KUSTOMIZE=v5.7.1
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
for module in "$ISTIO" "$GATEWAY" "$OPERATOR"; do
    retry module_dir "$module" || die "Go could not download $module"
done
kustomize=$ROOT/.tools/bin/kustomize
if [ "$("$kustomize" version 2>/dev/null)" != "$KUSTOMIZE" ]; then
    say "Installing kustomize $KUSTOMIZE into .tools"
    retry env GOBIN="$ROOT/.tools/bin" go install "sigs.k8s.io/kustomize/kustomize/v5@$KUSTOMIZE" ||
        die "kustomize could not be installed"
fi

cd "$ROOT"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
check() {
    "$venv/bin/python" scripts/check-kubernetes.py "$1" \
        "$(module_dir "$ISTIO")/kubernetes/customresourcedefinitions.gen.yaml" \
        "$(module_dir "$GATEWAY")/charts/gateway-crds-helm/templates/generated" \
        "$(module_dir "$OPERATOR")/example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml"
}
check config/kubernetes
for overlay in edge shared sidecar-example; do
    mkdir -p "$work/$overlay"
    "$kustomize" build "config/kustomize/$overlay" >"$work/$overlay/all.yaml" || die "kustomize: $overlay"
    # What is said names what was written.
    (set -o pipefail; check "$work/$overlay" | sed "s|^$work|config/kustomize|") || die "$overlay"
done
sprat=${SPRAT:-target/release/sprat}
if [ -x "$sprat" ]; then
    for file in config/kustomize/*/sprat.yaml; do "$sprat" check "$file" || die "$file"; done
fi
say "As Istio ($ISTIO), Envoy Gateway ($GATEWAY), Prometheus' operator ($OPERATOR) and Kubernetes have them"
