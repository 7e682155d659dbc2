//! What the container tests share: the docker command, containers that remove themselves, a client
//! that reads bytes, and directories of a test's own.

mod client;
mod docker;
mod folder;

pub use client::{Response, get, request};
pub use docker::{Container, Image, Project, docker, image};
pub use folder::Folder;

use std::io::Write as _;
use std::time::{Duration, Instant};

/// How long anything may take before a test gives up; far beyond what is ever needed.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Waits for a state that nothing announces.
#[track_caller]
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < DEADLINE, "not within {DEADLINE:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Bytes without a pattern (xorshift): a shifted, repeated or missing block always shows.
pub fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// Says something on the real stderr, past the capture of the test harness.
pub fn say(what: &str) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("?");
    // Nobody to tell if stderr is closed.
    let _ = writeln!(std::io::stderr(), "{name}: {what}");
}

/// True where the caller asked for no container tests.
pub fn is_skipped() -> bool {
    let skipped = std::env::var("SKIP_DOCKER").is_ok_and(|value| value == "1");
    if skipped {
        say("SKIPPED, because SKIP_DOCKER=1: this container test did not run");
    }
    skipped
}

/// First line of every test here.
macro_rules! needs_docker {
    () => {
        if $crate::support::is_skipped() {
            return;
        }
    };
}
