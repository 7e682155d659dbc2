//! What the tests share: a server of one's own, a directory of one's own, and a client that reads bytes.

mod client;
pub mod collector;
pub mod fuse;
pub mod fuse_files;
pub mod memory;
mod mount;
mod scrape;
pub mod secure;
mod server;
mod site;
pub mod trace;
pub mod strace;

pub use client::{Client, End, Heard, Response, Then, drip, exchange};
pub use mount::Mounted;
pub use scrape::Scrape;
pub use server::{Finished, Launch, Lines, Server, address_of, run, run_with};
pub use site::Site;

use std::io::Write as _;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// How long anything may take before a test gives up. Far beyond what is ever needed: the machine
/// may be busy, and a test that fails because it is slow says nothing.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Waits for a state that nothing announces.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < DEADLINE, "not within {DEADLINE:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Bytes without a pattern (xorshift), the same for the same seed: a shifted, repeated or missing
/// block always shows.
pub fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2).wrapping_add(0x9e37_79b9_7f4a_7c15) | 1;
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

/// Whether two long byte strings are equal; says where they part instead of printing them.
#[track_caller]
pub fn assert_same(found: &[u8], expected: &[u8], what: &str) {
    if found != expected {
        let at = found.iter().zip(expected).position(|(a, b)| a != b);
        panic!("{what}: {} bytes instead of {}, first difference at {at:?}", found.len(), expected.len());
    }
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Descriptors for thousands of connections, or `false`: this process holds one end of each, and the
/// server, which inherits the limit, the other.
pub fn raise_descriptors() -> bool {
    let limit = getrlimit(Resource::Nofile);
    let wanted = 8_192;
    if limit.current.is_none_or(|current| current >= wanted) {
        return true;
    }
    let raised = Rlimit { current: Some(wanted), maximum: limit.maximum };
    limit.maximum.is_none_or(|maximum| maximum >= wanted) && setrlimit(Resource::Nofile, raised).is_ok()
}

/// Whether a program can be started here.
pub fn has_program(name: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|directory| directory.join(name).is_file()))
}

/// Says on the real stderr, past the capture of the test harness, that a test did not run.
pub fn say_skipped(why: &str) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("?");
    // Nobody to tell if stderr is closed.
    let _ = writeln!(std::io::stderr(), "SKIPPED {name}: {why}");
}

/// Ends the test without a verdict, loudly.
macro_rules! skip {
    ($($why:tt)*) => {{
        $crate::support::say_skipped(&format!($($why)*));
        return;
    }};
}
