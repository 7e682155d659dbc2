//! `scalws-lab bench --docker` with real containers: its rows, and that nothing of them is left, however a run
//! ends. They need an engine and fail without one; only `SKIP_DOCKER=1` leaves them out, and says so.
#![allow(clippy::unwrap_used, reason = "a test says what went wrong by where it stopped")]

mod interrupted;
mod refusals;
mod rows;
mod support;
