//! The race of `tests/it/racer` for as long as wanted: `scripts/racer.sh SECONDS` lines it up. Says one
//! line on stdout, what is wrong on stderr, and ends with 1 where anything is.
#![allow(clippy::unwrap_used, reason = "a test says what went wrong by where it stopped")]
#![allow(clippy::print_stderr, clippy::print_stdout, reason = "this is a program for people and scripts")]
#![allow(dead_code, reason = "it has what the integration tests share, and uses a part of it")]
#![allow(unused_macros, unused_imports, reason = "see above")]
#![allow(unreachable_pub, reason = "nothing is exported from a test binary")]

#[path = "../it/racer/mod.rs"]
mod racer;
#[macro_use]
#[path = "../it/support/mod.rs"]
mod support;

use std::process::ExitCode;
use std::time::Duration;

use racer::{Floors, REVALIDATE, Until, race};

/// Below these a race says nothing.
const FLOORS: Floors = Floors { requests: 100_000, swaps: 10_000, percent: 1 };
const USAGE: &str = "usage: racer seconds N | racer requests N, with N a whole number above 0";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(until) = until(&arguments) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let [looked_up, kept] = REVALIDATE.map(|revalidate| race(until, revalidate, true));
    let result = looked_up.and(kept);
    let objections = result.objections(FLOORS);
    for objection in &objections {
        eprintln!("{objection}");
    }
    println!("{result}");
    if objections.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn until(arguments: &[String]) -> Option<Until> {
    let [unit, number] = arguments else { return None };
    let number = number.parse().ok().filter(|number| *number > 0)?;
    match unit.as_str() {
        // Half of it for each way.
        "seconds" => Some(Until::Time(Duration::from_secs(number) / 2)),
        "requests" => Some(Until::Requests(number.div_ceil(2))),
        _ => None,
    }
}
