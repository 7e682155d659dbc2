#!/usr/bin/env bash
# Looks into the server: a dated folder beneath profiles/ with numbers, flamegraphs on and off the CPU,
# system calls, and report.html, one page that needs no network. docs/adr/0027 says how perf runs.
#   scripts/profile.sh static-small
#   scripts/profile.sh --compare nginx static-small    both the same way, side by side
#   scripts/profile.sh --traces cold                   single requests too: the slowest, and why
#   scripts/profile.sh --docker static-small           the server in its image, perf and load beside it
# All options: scripts/profile.sh --help. Rows of the matrix: cargo run -p scalws-lab -- list
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

# Whether one of the words is among the arguments.
is_given() { local word="$1"; shift; [[ " $* " == *" $word "* ]]; }

# Gets a program, or leaves it to the lab's preflight to name what is missing.
get() {
    local program="$1" package="$2"
    have "$program" || [ -x "/usr/sbin/$program" ] && return
    say "installing $package"
    apt_install "$package" || say "$program is missing and could not be installed: apt-get install $package"
}

main() {
    have cargo || PATH="$HOME/.cargo/bin:$PATH"
    have cargo || die "cargo is missing: install Rust from https://rustup.rs (rust-toolchain.toml names the version)"
    say "building the lab"
    cargo build --locked --release --quiet --package scalws-lab || die "the lab does not build"
    if is_given --docker "$@"; then
        prepare_lab_in_docker
    elif ! is_given --help "$@"; then
        get perf linux-perf
        ! is_given nginx "$@" || get nginx nginx-light
    fi
    # In place of this shell: Ctrl-C and the exit code are the lab's.
    exec "${CARGO_TARGET_DIR:-target}/release/scalws-lab" profile "$@"
}

main "$@"
