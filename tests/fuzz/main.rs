//! A fuzzer on the stable compiler: every parser that reads what strangers or operators write, by an
//! in-process loop over seeds, mutations and well-formed inputs that a generator makes.
//!
//! Each target asserts what must hold of any input, not only that nothing panics. The gate runs a fixed
//! number of inputs from a fixed seed; `FUZZ_SECONDS=60 FUZZ_SEED=7` runs each target that long
//! (`scripts/long.sh fuzz`). A failing input is made smaller and printed as a literal, for a test.
#![allow(clippy::unwrap_used, reason = "a test says what went wrong by where it stopped")]
#![allow(clippy::print_stdout, reason = "scripts/long.sh records the line that each target prints")]
#![allow(unreachable_pub, reason = "nothing is exported from a test binary")]

mod chunked;
mod config;
mod engine;
mod fields;
mod http1;
mod input;
mod path;
mod rules;

#[path = "../it/support/memory.rs"]
mod memory;
