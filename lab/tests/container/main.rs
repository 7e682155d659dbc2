//! `scalws-lab bench --docker` and `scripts/profile.sh --docker` with real containers: their rows, and that
//! nothing of them is left, however a run ends. `scripts/check.sh lab-container` runs it.
//! They need an engine and fail without one; only `SKIP_DOCKER=1` leaves them out, and says so.
#![allow(clippy::unwrap_used, reason = "a test says what went wrong by where it stopped")]
#![allow(unreachable_pub, reason = "nothing is exported from a test binary")]

mod interrupted;
mod profile;
mod refusals;
mod rows;
#[path = "../it/scripts/run.rs"]
#[expect(dead_code, reason = "small disks and the lab without a script are the other binary's")]
mod run;
mod support;
