#!/usr/bin/env bash
# Compares servers on this machine: builds the lab and the server, gets nginx where it is missing, and
# leaves tables and raw data in a dated folder. docs/how-to-read-benchmarks.md says what they mean.
#   scripts/bench.sh                                   respond, static-1k and static-1m against nginx
#   scripts/bench.sh --servers scalws,nginx,lighttpd static-1k
#   scripts/bench.sh --base main static-1k             against another commit, in the same rounds
#   scripts/bench.sh --self static-1k                  against itself: what is noise
#   scripts/bench.sh --servers scalws-spans-1,scalws-spans-100,scalws-spans-down,scalws   what spans cost
#   scripts/bench.sh --docker respond static-1k        each server in a container of its own
#   scripts/bench.sh --assert 'static-1k:scalws/nginx<=1.0' static-1k
# All options: scripts/bench.sh --help. Exit code 0: every number is sound and every assertion holds.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

# Whether an option is among the arguments, as `--out DIR` or `--out=DIR`.
is_given() {
    local option="$1" word
    shift
    for word in "$@"; do
        case "$word" in "$option" | "$option"=*) return 0 ;; esac
    done
    return 1
}

prepare_host() {
    # Apart from the lab: together the server would get the feature that lets the lab's in-process benches in.
    say "building the server"
    cargo build --locked --release --quiet --package scalws || die "the build of the server failed"
    # The reference of every table.
    if ! have nginx && [ ! -x /usr/sbin/nginx ]; then
        say "installing nginx-light"
        apt_install nginx-light || die "nginx is missing and could not be installed: apt-get install nginx-light"
    fi
}

main() {
    local lab out=()
    have cargo || PATH="$HOME/.cargo/bin:$PATH"
    have cargo || die "cargo is missing: install Rust from https://rustup.rs (rust-toolchain.toml names the version)"
    lab="${CARGO_TARGET_DIR:-target}/release/scalws-lab"
    say "building the lab"
    cargo build --locked --release --quiet --package scalws-lab || die "the build of the lab failed"
    if is_given --help "$@" || is_given -h "$@"; then
        exec "$lab" bench --help
    fi
    if is_given --docker "$@"; then prepare_lab_in_docker; else prepare_host; fi
    if ! is_given --out "$@"; then
        out=(--out ".local/lab/bench/$(date -u +%Y-%m-%d-%H-%M-%S)")
        mkdir -p "${out[1]}"
    fi
    # In place of this shell: Ctrl-C and the exit code are the lab's.
    exec "$lab" bench ${out[@]+"${out[@]}"} "$@"
}

main "$@"
