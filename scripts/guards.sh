#!/usr/bin/env bash
# Takes each guard of tests/guards/table away, one at a time and in a copy of the tree (.local/guards), and
# wants the test named there to fail:
#   guard NAME removed: test NAME failed (good)
# A guard whose test still passes, a text that is not there once, a build that fails, and a test that was
# skipped are errors. docs/threat-model.md has a row for each guard. Takes some minutes.
#   scripts/guards.sh                    all of them
#   scripts/guards.sh beneath if-range   only these
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

ensure_rust
cargo build --locked --test guards >&2
exec cargo test --locked --quiet --test guards -- "$@"
