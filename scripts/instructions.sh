#!/usr/bin/env bash
# Counts the instructions of the server's own code for each request under callgrind, and compares them with
# lab/instructions.json: more than 1 % off is an error. A change that is meant is recorded with its commit.
#   scripts/instructions.sh             compares
#   scripts/instructions.sh --record    writes the new counts; prints old and new
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

main() {
    local what=check
    case "${1:-}" in
    "") ;;
    --record) what=record ;;
    *) die "expected --record or nothing, found '$1'" ;;
    esac
    ensure_rust
    have valgrind || apt_install valgrind || die "valgrind is missing: apt-get install valgrind"
    exec cargo run --locked --release --quiet --package scalws-lab --bin scalws-inproc -- "$what"
}

main "$@"
