#!/usr/bin/env bash
# What docker/Dockerfile runs in the builder, twice with the same flags so that the second call
# finds the first one's dependencies compiled:
#   build.sh dependencies   compile what Cargo.lock names, beside an empty program
#   build.sh server         compile the server, leave it in /out/scalws
# and what docker/lab.Dockerfile runs the same way: `dependencies scalws-lab`, then `lab`.
# BUILD_PROFILE=profiling keeps symbols, line tables and frame pointers, for flamegraphs.
set -euo pipefail

profile="${BUILD_PROFILE:-release}"
host="$(rustc -vV | sed -n 's/^host: //p')"   # arm64 builds the same way as amd64

# The manifest names targets whose sources are not here: an empty file for each.
empty_program() {
    local manifest place main
    for manifest in Cargo.toml lab/Cargo.toml; do
        place="$(dirname "$manifest")"
        for main in src/lib.rs src/main.rs $(sed -n 's/^path = "\(.*\.rs\)"$/\1/p' "$manifest"); do
            mkdir -p "$place/$(dirname "$main")"
            echo 'fn main() {}' > "$place/$main"
        done
        : > "$place/src/lib.rs"
    done
}

# Static, and without paths of the builder in panic messages. The explicit --target keeps
# crt-static away from proc macros, which must stay loadable libraries.
compile() {
    cargo fetch --locked --target "$host"
    local flags="-C target-feature=+crt-static --remap-path-prefix=$PWD=scalws" registry
    for registry in "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/; do
        flags+=" --remap-path-prefix=${registry%/}=crates"
    done
    [ "$profile" != profiling ] || flags+=" -C force-frame-pointers=yes"
    RUSTFLAGS="$flags" cargo build --profile "$profile" --locked --target "$host" --package "$1" --bin "$1"
}

case "${1:-}" in
dependencies)
    empty_program
    compile "${2:-scalws}"
    ;;
lab)
    find src lab -name '*.rs' -exec touch {} +
    compile scalws-lab
    install -D "target/$host/$profile/scalws-lab" /out/scalws-lab
    ;;
server)
    # COPY keeps the times of the sources, which may be older than the empty program's.
    find src -name '*.rs' -exec touch {} +
    compile scalws
    install -D "target/$host/$profile/scalws" /out/scalws
    if readelf --dynamic /out/scalws | grep NEEDED; then
        echo "build.sh: the binary wants shared libraries, and scratch has none" >&2
        exit 1
    fi
    ;;
*)
    echo "usage: build.sh dependencies|server|lab" >&2
    exit 2
    ;;
esac
