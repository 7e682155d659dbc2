#!/usr/bin/env bash
# The race of links, directories, roots and sidecars that are swapped while they are asked for
# (tests/it/racer), for so many seconds. Prints one line,
#   requests=N swaps=M inside=…% miss=…% escapes=0 5xx=0
# where inside and miss are shares of all requests that went to names which change. Fails, and says why
# on stderr, with fewer than 100,000 requests or 10,000 swaps, with less than 1 % inside or missing, and
# with any byte from outside, any 5xx, and any answer that was never there.
#   scripts/racer.sh 60               as the gate has it
#   scripts/racer.sh requests 1000000 so many requests instead
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

USAGE="usage: scripts/racer.sh SECONDS (a whole number, 1 to 86400), or: scripts/racer.sh requests N"

main() {
    local unit=seconds number
    if [ "${1:-}" = requests ]; then
        unit=requests
        shift
    fi
    [ $# -eq 1 ] || die "$USAGE"
    number="$1"
    [[ "$number" =~ ^[1-9][0-9]{0,11}$ ]] || die "not a number of $unit: '$number'; $USAGE"
    [ "$unit" = requests ] || [ "$number" -le 86400 ] || die "more than a day: '$number' seconds; $USAGE"
    ensure_rust
    # Built apart, so that its time is none of the race's and its messages none of ours.
    cargo build --locked --release --test racer >&2
    exec cargo test --locked --quiet --release --test racer -- "$unit" "$number"
}

main "$@"
