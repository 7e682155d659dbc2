//! How quick a start was, measured by the process itself: from exec to ready, and to the first 200.
//!
//! The clock starts with the first line of `main`. The kernel knows when a process was forked, not
//! when it became this program: in a container that is the set-up of its namespaces, not ours. From
//! execve(2) to `main` the static binary needs no loader (the figure stands in docs/adr/0013).

use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use crate::sys::clock;
use crate::telemetry::log::{self, Level};

static BEGIN_US: OnceLock<u64> = OnceLock::new();
static BEGIN_WALL: OnceLock<(i64, u32)> = OnceLock::new();
static READY_MS: OnceLock<u64> = OnceLock::new();
static HAS_SAID_OK: AtomicBool = AtomicBool::new(false);

/// Starts the clock: the first thing that `main` does.
pub fn begin() {
    let _ = BEGIN_US.set(clock::monotonic_us());
    let _ = BEGIN_WALL.set(clock::wall_coarse());
}

/// When that was: seconds since the epoch and milliseconds of the second.
#[must_use]
pub fn wall() -> (i64, u32) {
    BEGIN_WALL.get().copied().unwrap_or_default()
}

fn since_exec_ms() -> Option<u64> {
    BEGIN_US.get().map(|begin| (clock::monotonic_us() - begin) / 1000)
}

/// Logs the first 200 of the process, once.
pub fn first_ok() {
    if !HAS_SAID_OK.swap(true, Ordering::Relaxed) {
        // Ready long before means that nobody asked earlier.
        let fields = json!({ "since_exec_ms": since_exec_ms(), "ready_ms": READY_MS.get() });
        log::event(Level::Info, "first 200", &fields);
    }
}

/// Logs that every listener is open and every worker runs.
pub fn ready() {
    let _ = READY_MS.set(since_exec_ms().unwrap_or(0));
    log::event(Level::Info, "ready", &json!({ "since_exec_ms": since_exec_ms() }));
}

/// Logs which config is in force, and what it warns about.
pub fn configured(file: Option<&Path>, digest: &str, warnings: &[String]) {
    let file = file.map(|file| file.display().to_string());
    log::event(Level::Info, "config", &json!({ "file": file, "digest": digest }));
    for warning in warnings {
        log::event(Level::Warn, "config warning", &json!({ "message": warning }));
    }
}
