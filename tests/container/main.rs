//! The container tests: the real `docker/Dockerfile` and `compose.yaml`, driven by the docker command.
//!
//! The image is built once for all of them. Each test runs containers with names of its own and
//! removes them, whatever happens. They need an engine and fail without one; only `SKIP_DOCKER=1`
//! leaves them out, and says so. No test asserts a time: where a bound matters, the engine's own
//! KILL is the judge (`docker stop -t`), and figures are printed.
#![allow(clippy::unwrap_used, reason = "a test says what went wrong by where it stopped")]
#![allow(unreachable_pub, reason = "nothing is exported from a test binary")]

#[macro_use]
mod support;

mod composed;
mod deploy;
mod drain;
mod drain_long;
mod image;
mod kubernetes;
mod layers;
mod quota;
mod start;
