# oha, a load generator by others, for latencies: the version is pinned, its dependencies by its own lock file.
#
# Like docker/lab.Dockerfile it keeps to what the classic builder knows. Never part of the server's image.
ARG BUILDER_IMAGE=rust:1.95-bookworm
ARG LAB_BASE_IMAGE=debian:bookworm-slim

# hadolint ignore=DL3006 -- the tag is in the argument
FROM ${BUILDER_IMAGE} AS builder
ENV CARGO_NET_RETRY=5 \
    CARGO_TERM_COLOR=never
ARG OHA_VERSION=1.16.0
RUN ["bash", "-c", "cargo install oha --locked --version \"=$OHA_VERSION\" --root /out"]

# hadolint ignore=DL3006 -- the tag is in the argument
FROM ${LAB_BASE_IMAGE}
COPY --from=builder /out/bin/oha /usr/local/bin/oha

# Nothing runs by itself: the lab asks with `docker exec`.
ENTRYPOINT []
CMD ["sleep", "infinity"]
