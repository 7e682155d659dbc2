# The lab's image: perf, strace, nginx and scalws-lab. Never part of the server's.
#
# Like docker/Dockerfile it serves a machine with a registry (the defaults below) and one without
# (scripts/local-bases.sh --lab makes the base with the same packages and names it in .env), and keeps to
# what the classic builder knows.
ARG BUILDER_IMAGE=rust:1.95-bookworm
ARG LAB_BASE_IMAGE=debian:bookworm-slim

# hadolint ignore=DL3006 -- the tag is in the argument
FROM ${BUILDER_IMAGE} AS builder
WORKDIR /build
ENV CARGO_INCREMENTAL=0 \
    CARGO_NET_RETRY=5 \
    CARGO_TERM_COLOR=never
COPY docker/build.sh /usr/local/bin/build-scalws
COPY Cargo.toml Cargo.lock ./
COPY lab/Cargo.toml lab/
RUN ["bash", "/usr/local/bin/build-scalws", "dependencies", "scalws-lab"]
# The lab counts the server's own code in process, so it is built with it.
COPY src src
COPY lab lab
RUN ["bash", "/usr/local/bin/build-scalws", "lab"]

# hadolint ignore=DL3006 -- the tag is in the argument
FROM ${LAB_BASE_IMAGE}
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# Debian keeps one version of each; result.json names the one that ran.
# hadolint ignore=DL3008
RUN command -v perf strace nginx >/dev/null || { \
      apt-get update -qq && \
      apt-get install -y -qq --no-install-recommends linux-perf strace nginx-light procps && \
      rm -rf /var/lib/apt/lists/*; }
COPY --from=builder /out/scalws-lab /usr/local/bin/scalws-lab

# Nothing runs by itself: the lab asks with `docker exec`.
ENTRYPOINT []
CMD ["sleep", "infinity"]
