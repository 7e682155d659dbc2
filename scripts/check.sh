#!/usr/bin/env bash
# The gate: everything that must hold before a change lands. Runs all stages even when one fails,
# prints the seconds of each, and ends with a table. Installs what it needs (Debian packages, and
# pinned wheels from PyPI into .local/) and starts or installs Docker where it is not there.
#   SKIP_DOCKER=1 scripts/check.sh          leaves the container tests out, and says so last
#   scripts/check.sh fmt clippy             only these stages
#   scripts/check.sh lab-container          comparisons in containers, which are no part of the gate
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/lib.sh
. scripts/lib.sh

LOGS=.local/check
TOOLS=.local/tools
STAGES=(fmt clippy tests uncached fuzz racer bench instructions doctests docs deny shellcheck hadolint kubernetes container)

# A test that hangs must fail the gate, not hold it: no stage needs half of this on two cores.
STAGE_SECONDS_MAX=1200

bounded() {
    local code=0
    timeout --kill-after=10 "$STAGE_SECONDS_MAX" "$@" || code=$?
    [ "$code" -ne 124 ] || say "ended after $STAGE_SECONDS_MAX s: $*"
    return "$code"
}

# --- the stages, each a function of its own name ---------------------------------------------

stage_fmt() { cargo fmt --all --check; }

# Programs beside the tests have to be named: a plain `cargo test` would run them otherwise.
stage_clippy() {
    bounded cargo clippy --workspace --all-targets --locked -- -D warnings
    bounded cargo clippy --locked --test racer --test guards -- -D warnings
}

# Every integration test binary is called `it`, in every crate, but for the fuzzer and the container
# tests, which have stages of their own. Compiled first: from nothing that has the bound for itself.
stage_tests() {
    local tests=(--workspace --locked --lib --bins --test it --test allocations)
    bounded cargo test "${tests[@]}" --no-run
    bounded cargo test "${tests[@]}"
}

# The same requests where no file is kept open: what holds of a file holds with the cache and without. Left out is
# what the cache itself promises.
stage_uncached() {
    local of_the_cache=(open_files:: contract:: shortage:: metrics::what_is_kept_of_files_is_told
        metrics::every_sum_is_what_the_clients_counted)
    SCALWS_LIMITS__OPEN_FILES=0 bounded cargo test --locked --test it -- "${of_the_cache[@]/#/--skip=}"
}

# A fixed number of inputs from a fixed seed: the same every time. `scripts/long.sh fuzz` goes on.
stage_fuzz() { bounded cargo test --locked --test fuzz; }

# A minute of swapped links, directories, roots and sidecars, in a release build.
stage_racer() { bounded scripts/racer.sh 60; }

# The short form of a comparison, with bounds that only something broken misses: that it runs, checks and
# compares. What it costs is said by scripts/bench.sh on a quiet machine.
stage_bench() {
    bounded scripts/bench.sh --rounds 3 --seconds 1 --warmup 0.3 --servers scalws,nginx \
        --assert 'static-1k:scalws/nginx<=4' --assert 'respond:scalws/nginx<=4' static-1k respond
}

# Counts of instructions repeat where times do not.
stage_instructions() { bounded scripts/instructions.sh; }

stage_doctests() { bounded cargo test --workspace --locked --doc; }

stage_docs() { RUSTDOCFLAGS="-D warnings" bounded cargo doc --workspace --locked --no-deps; }

# The advisory database needs the internet; what can be judged offline is.
stage_deny() { cargo deny --offline check bans licenses sources; }

stage_shellcheck() {
    local shellcheck="$TOOLS/bin/shellcheck"
    if [ ! -x "$shellcheck" ]; then
        have shellcheck || apt_install shellcheck
        shellcheck=shellcheck
    fi
    "$shellcheck" --version | sed -n 2p
    "$shellcheck" --external-sources scripts/*.sh docker/*.sh .ci/run
}

stage_hadolint() {
    local file files=(docker/Dockerfile)
    for file in lab/Dockerfile docker/*.Dockerfile; do
        [ ! -f "$file" ] || files+=("$file")
    done
    "$TOOLS/bin/hadolint" "${files[@]}"
}

# Rendered and typed by the script; what must meet, and amounts, by tests that read its results.
stage_kubernetes() {
    local failed=0
    scripts/kubernetes.sh || failed=1
    SCALWS_MANIFESTS="$PWD/.local/kubernetes" bounded cargo test --locked --test it kubernetes:: -- --nocapture ||
        failed=1
    return "$failed"
}

stage_container() {
    ensure_docker || { say "Docker does not answer and could not be installed or started"; return 1; }
    ensure_compose || { say "Docker runs, but Compose could not be had"; return 1; }
    ensure_builder_image || return 1
    bounded cargo test --locked --test container
}

# Comparisons in containers, not among the stages of the gate: from nothing their images take twenty minutes
# more on two cores. For a change of lab/src/containers, and before a release.
stage_lab-container() {
    ensure_docker || { say "Docker does not answer and could not be installed or started"; return 1; }
    ensure_compose || { say "Docker runs, but Compose could not be had"; return 1; }
    ensure_builder_image || return 1
    # Debian's packages for the lab's image, where no registry answers.
    prepare_lab_in_docker
    # Images first, each with a bound of its own: from nothing they take longer than the tests, which find
    # the layers. Nobody builds oha's.
    lab_image scalws release scalws:test
    lab_image scalws
    lab_image load
    bounded cargo test --locked --package scalws-lab --test container
}

# One of the images of lab/tests/container, by its service.
lab_image() {
    BUILD_PROFILE=release SCALWS_IMAGE=scalws:test LAB_IMAGE=scalws-lab:test \
        bounded "${COMPOSE[@]}" --profile bench build "$1"
}

# --- what the stages need ----------------------------------------------------------------------

# For tests that watch system calls or turn the clock; they say so themselves where it is missing.
prepare_packages() {
    local missing=()
    have gcc || missing+=(gcc libc6-dev)
    have strace || missing+=(strace)
    have faketime || missing+=(faketime)
    have git || missing+=(git)
    have curl || missing+=(curl)
    have wget || missing+=(wget)
    # The lab: its reference, certificates, and what looks into a process.
    have nginx || [ -x /usr/sbin/nginx ] || missing+=(nginx-light)
    have openssl || missing+=(openssl)
    have perf || missing+=(linux-perf)
    [ "${#missing[@]}" -eq 0 ] && return
    say "installing ${missing[*]}"
    apt_install "${missing[@]}" || say "could not install ${missing[*]}: the tests that need them will say so"
}

# Where perf reads the names of events. Only for root, who runs in a container or on a machine for tests:
# nobody's own machine gets a mount through sudo. Without it the tests of profiles say that they were left out.
prepare_tracing() {
    [ "$(id -u)" -eq 0 ] && [ ! -e /sys/kernel/tracing/events ] || return 0
    mount -t tracefs nodev /sys/kernel/tracing || say "tracefs cannot be mounted: no profile is tested"
}

prepare_rust() {
    have cargo || PATH="$HOME/.cargo/bin:$PATH"
    have cargo || die "cargo is missing: install Rust from https://rustup.rs (rust-toolchain.toml names the version)"
    export CARGO_TERM_COLOR="${CARGO_TERM_COLOR:-never}"
}

prepare_linters() {
    install_wheels "$TOOLS" scripts/tools.txt || say "the linters are not there: their stages will fail"
}

# Why a stage is left out, or nothing where it runs.
reason_to_skip() {
    case "$1" in
    container) [ "${SKIP_DOCKER:-}" != 1 ] || echo "SKIP_DOCKER=1" ;;
    deny)
        [ -f deny.toml ] || { echo "there is no deny.toml"; return; }
        cargo deny --version >/dev/null 2>&1 || echo "cargo-deny is not installed: cargo install --locked cargo-deny"
        ;;
    esac
}

# --- running and telling -----------------------------------------------------------------------

FAILED=()
TABLE=()

run_stage() {
    local stage="$1" log="$LOGS/$1.log" started=$SECONDS why verdict
    why="$(reason_to_skip "$stage")"
    if [ -n "$why" ]; then
        printf '\n==> %s: left out (%s)\n' "$stage" "$why"
        TABLE+=("$(printf '%-11s %7s  %s' "$stage" - "left out: $why")")
        return
    fi
    printf '\n==> %s\n' "$stage"
    # Not as an `if` condition: errexit would be off inside the stage.
    set +e
    (set -e; "stage_$stage") 2>&1 | tee "$log"
    verdict="${PIPESTATUS[0]}"
    set -e
    if [ "$verdict" -eq 0 ]; then verdict=ok; else verdict=FAILED; FAILED+=("$stage"); fi
    TABLE+=("$(printf '%-11s %6ds  %s' "$stage" $((SECONDS - started)) "$verdict")")
    printf '==> %s: %s after %d s\n' "$stage" "$verdict" $((SECONDS - started))
}

summary() {
    local line stage
    printf '\n%-11s %7s  %s\n' stage time result
    for line in "${TABLE[@]}"; do printf '%s\n' "$line"; done
    printf '%-11s %6ds\n' all "$SECONDS"
    for stage in ${FAILED[@]+"${FAILED[@]}"}; do
        printf '\n--- %s failed; the end of %s/%s.log:\n' "$stage" "$LOGS" "$stage"
        tail -n 30 "$LOGS/$stage.log"
    done
    if [ "${#FAILED[@]}" -gt 0 ]; then printf '\nFAILED: %s\n' "${FAILED[*]}"; else printf '\nall stages passed\n'; fi
    # The last line, always: nobody may take a partial run for a whole one.
    if [ "${SKIP_DOCKER:-}" = 1 ]; then echo "SKIPPED: container tests"; fi
}

main() {
    local stage chosen=("$@")
    [ "${#chosen[@]}" -gt 0 ] || chosen=("${STAGES[@]}")
    for stage in "${chosen[@]}"; do
        declare -F "stage_$stage" >/dev/null || die "no stage '$stage'; there are: ${STAGES[*]}"
    done
    mkdir -p "$LOGS"
    prepare_rust
    prepare_packages
    prepare_tracing
    prepare_linters
    for stage in "${chosen[@]}"; do run_stage "$stage"; done
    summary
    [ "${#FAILED[@]}" -eq 0 ]
}

main "$@"
