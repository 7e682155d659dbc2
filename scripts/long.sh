#!/usr/bin/env bash
# The long forms of tests, too slow for the gate: run before a release and after a change of the
# engine or of the drain. Writes its own result, with date and commit, into docs/long-runs.md.
#   scripts/long.sh              all of them
#   scripts/long.sh drains       only these
#   FUZZ_SECONDS=300 scripts/long.sh fuzz
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

RECORD=docs/long-runs.md
LOGS=.local/long
RUNS=(properties drains racer guards fuzz)

# Every property test, with 20,000 cases instead of a few hundred.
run_properties() { PROPTEST_CASES="${PROPTEST_CASES:-20000}" cargo test --locked --release --lib --test it; }

# A hundred containers stopped under load: no answer may end in its middle.
run_drains() {
    ensure_docker
    ensure_compose
    ensure_builder_image
    cargo test --locked --test container -- --ignored --nocapture drain_long
}

# Ten million requests against writers that swap links, directories, roots and sidecars.
run_racer() { scripts/racer.sh requests "${RACER_REQUESTS:-10000000}"; }

# Every guard taken away in a copy: its test has to fail.
run_guards() { scripts/guards.sh; }

# Each target of the fuzzer for an hour by the clock, from a seed that it prints; as many at a time as there are
# cores, or as RUST_TEST_THREADS says. The line of a target says what CPU time it got.
run_fuzz() {
    FUZZ_SECONDS="${FUZZ_SECONDS:-3600}" cargo test --locked --release --test fuzz -- --nocapture
}

# What the run itself counted, from its log: a line for each target of the fuzzer, or the last one.
figures() {
    if grep -q -E 'fuzz [a-z0-9-]+: [0-9]+ inputs' "$LOGS/$1.log"; then
        grep -o -E 'fuzz [a-z0-9-]+: [0-9]+ inputs.*' "$LOGS/$1.log" | sed 's/^fuzz //' | paste -s -d ';' | sed 's/;/; /g'
        return
    fi
    { grep -E 'whole answers|^requests=|^guards=' "$LOGS/$1.log" || grep -E 'test result:' "$LOGS/$1.log"; } |
        tail -n 1 | sed 's/^[a-z_:]*: //; s/|//g'
}

# The newest run stands first; older ones stay.
record() {
    local name="$1" verdict="$2" seconds="$3" commit line
    commit="$(git rev-parse --short HEAD)$(git diff --quiet HEAD || echo ' with changes')"
    line="| $(date -u +%F) | $commit | $name | $verdict: $(figures "$name" || true) | $seconds s | $(nproc) cores |"
    mkdir -p "$(dirname "$RECORD")"
    if [ ! -f "$RECORD" ]; then
        cat >"$RECORD" <<'HEAD'
# Long runs

Written by `scripts/long.sh`, which also says what each run is; the newest stands first.

| Date | Commit | Run | Result | Time | Machine |
|---|---|---|---|---|---|
HEAD
    fi
    sed -i "/^|---/a $line" "$RECORD"
}

run() {
    local name="$1" started=$SECONDS verdict=passed
    say "$name"
    set +e
    (set -e; "run_$name") 2>&1 | tee "$LOGS/$name.log"
    [ "${PIPESTATUS[0]}" -eq 0 ] || verdict=FAILED
    set -e
    record "$name" "$verdict" $((SECONDS - started))
    [ "$verdict" = passed ]
}

main() {
    local name failed=0 chosen=("$@")
    [ "${#chosen[@]}" -gt 0 ] || chosen=("${RUNS[@]}")
    for name in "${chosen[@]}"; do
        declare -F "run_$name" >/dev/null || die "no run '$name'; there are: ${RUNS[*]}"
    done
    mkdir -p "$LOGS"
    for name in "${chosen[@]}"; do run "$name" || failed=1; done
    say "recorded in $RECORD"
    return "$failed"
}

main "$@"
