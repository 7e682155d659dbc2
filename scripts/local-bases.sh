#!/usr/bin/env bash
# Makes the base image of docker/Dockerfile's builder where no container registry answers: Debian
# packages by mmdebstrap, plus this machine's own Rust toolchain. Names it in the git-ignored .env,
# which Compose reads, so that compose.yaml and the Dockerfile stay the same in both worlds.
# What exists is kept; FORCE=1 makes it anew. `--lab` makes the base of docker/lab.Dockerfile too.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

SUITE=bookworm
PACKAGES=gcc,libc6-dev,make,ca-certificates
LOCAL_LAB_BASE_IMAGE=scalws-lab-base:bookworm
LAB_PACKAGES=linux-perf,strace,nginx-light,procps

# The toolchain that rust-toolchain.toml pins; rustup's own directory, not its proxies.
toolchain() {
    have rustc || PATH="$HOME/.cargo/bin:$PATH"
    have rustc || die "no Rust here to put into the image: install the toolchain of rust-toolchain.toml from https://rustup.rs"
    rustc --print sysroot
}

# The parts of this machine's Cargo configuration that say where crates come from. Build settings
# (linkers, wrappers) name things that are not in the image; tokens never leave the machine.
crate_sources() {
    local file
    for file in "${CARGO_HOME:-$HOME/.cargo}/config.toml" "${CARGO_HOME:-$HOME/.cargo}/config"; do
        [ -f "$file" ] || continue
        awk '/^[[:space:]]*\[/ { keep = ($0 ~ /^[[:space:]]*\[(source|registries|registry|http|net)[].]/) }
             keep && !/token|credential/' "$file"
        return
    done
}

# Variables of this machine that lead to the registry, as `docker import --change` takes them.
# A proxy on loopback would not be reachable from the build's own network: left out.
passed_on() {
    local name value
    while IFS='=' read -r name value; do
        case "$name" in
        *TOKEN* | *CREDENTIAL*) ;;
        http_proxy | https_proxy | no_proxy | HTTP_PROXY | HTTPS_PROXY | NO_PROXY | \
            CARGO_SOURCE_* | CARGO_REGISTRIES_* | CARGO_REGISTRY_* | CARGO_HTTP_*)
            case "$value" in
            *127.0.0.1* | *localhost* | */*.pem | */*.crt) [ "${name,,}" = no_proxy ] || continue ;;
            esac
            printf 'ENV %s="%s"\n' "$name" "$value"
            ;;
        esac
    done < <(env)
}

tools() {
    have mmdebstrap && [ -e /usr/share/keyrings/debian-archive-keyring.gpg ] && return
    apt_install mmdebstrap debian-archive-keyring ||
        die "mmdebstrap is missing and could not be installed: run 'apt-get install mmdebstrap debian-archive-keyring' as root"
}

# What lies beside Debian's packages: Rust without its manual, the CA bundle with which this machine
# reaches the registries, and where crates come from.
lay_overlay() {
    local overlay="$1" rust="$2"
    mkdir -p "$overlay/usr/local/cargo" "$overlay/etc/ssl/certs"
    tar -C "$rust" -c bin/cargo bin/rustc lib | tar -C "$overlay/usr/local" -x
    if [ -f /etc/ssl/certs/ca-certificates.crt ]; then
        cp /etc/ssl/certs/ca-certificates.crt "$overlay/etc/ssl/certs/"
    fi
    crate_sources >"$overlay/usr/local/cargo/config.toml"
}

make_builder() {
    local rust work changes=() line
    rust="$(toolchain)"
    tools
    work="$(mktemp -d)"
    # shellcheck disable=SC2064 # the directory as it is named now
    trap "rm -rf '$work'" EXIT
    lay_overlay "$work/overlay" "$rust"
    while IFS= read -r line; do changes+=(--change "$line"); done < <(passed_on)

    say "making $LOCAL_BUILDER_IMAGE from Debian $SUITE and $(rustc --version): about two minutes"
    # shellcheck disable=SC2016 # mmdebstrap's shell expands them, $1 is its root directory
    as_root env "OVERLAY=$work/overlay" mmdebstrap --quiet --variant=minbase \
        --include="$PACKAGES" --customize-hook='cp -a --no-preserve=ownership "$OVERLAY/." "$1/"' \
        "$SUITE" "$work/builder.tar"
    "${DOCKER[@]}" import \
        --change 'ENV PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin' \
        --change 'ENV CARGO_HOME=/usr/local/cargo' \
        ${changes[@]+"${changes[@]}"} "$work/builder.tar" "$LOCAL_BUILDER_IMAGE" >/dev/null
    "${DOCKER[@]}" run --rm --network none "$LOCAL_BUILDER_IMAGE" cargo --version >&2
}

make_lab_base() {
    local work
    tools
    work="$(mktemp -d)"
    # shellcheck disable=SC2064 # the directory as it is named now
    trap "rm -rf '$work'" EXIT
    say "making $LOCAL_LAB_BASE_IMAGE from Debian $SUITE: perf, strace, nginx; about two minutes"
    as_root mmdebstrap --quiet --variant=minbase --include="$LAB_PACKAGES" \
        "$SUITE" "$work/lab.tar"
    "${DOCKER[@]}" import --change 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' \
        "$work/lab.tar" "$LOCAL_LAB_BASE_IMAGE" >/dev/null
    "${DOCKER[@]}" run --rm --network none "$LOCAL_LAB_BASE_IMAGE" perf --version >&2
}

# Rewrites one line of .env and keeps the rest.
name_in_env() {
    local name="$1" image="$2" rest=""
    [ ! -f .env ] || rest="$(grep -v "^$name=" .env || true)"
    { [ -z "$rest" ] || printf '%s\n' "$rest"; printf '%s=%s\n' "$name" "$image"; } >.env.new
    mv .env.new .env
}

# Makes one base unless it is here.
ensure_base() {
    local image="$1" name="$2" make="$3"
    if [ "${FORCE:-0}" = 1 ] || ! "${DOCKER[@]}" image inspect "$image" >/dev/null 2>&1; then
        "$make"
    else
        say "$image is here already (FORCE=1 makes it anew)"
    fi
    name_in_env "$name" "$image"
}

main() {
    ensure_docker || die "Docker does not answer and could not be started"
    ensure_base "$LOCAL_BUILDER_IMAGE" BUILDER_IMAGE make_builder
    say ".env names it; 'docker compose build scalws' uses it"
    if [ "${1:-}" = --lab ]; then
        ensure_base "$LOCAL_LAB_BASE_IMAGE" LAB_BASE_IMAGE make_lab_base
        say ".env names it; 'docker compose --profile profile build' uses it"
    fi
}

main "$@"
