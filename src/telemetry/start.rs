//! How quick a start was, measured by the process itself: from exec to ready, and to the first 200.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use crate::sys::process;
use crate::telemetry::log::{self, Level};

static HAS_SAID_OK: AtomicBool = AtomicBool::new(false);

/// Logs the first 200 of the process, once.
pub fn first_ok() {
    if !HAS_SAID_OK.swap(true, Ordering::Relaxed) {
        log::event(Level::Info, "first 200", &json!({ "since_exec_ms": process::age_ms() }));
    }
}

/// Logs that every listener is open and every worker runs.
pub fn ready() {
    log::event(Level::Info, "ready", &json!({ "since_exec_ms": process::age_ms() }));
}

/// Logs which config is in force, and what it warns about.
pub fn configured(file: Option<&Path>, digest: &str, warnings: &[String]) {
    let file = file.map(|file| file.display().to_string());
    log::event(Level::Info, "config", &json!({ "file": file, "digest": digest }));
    for warning in warnings {
        log::event(Level::Warn, "config warning", &json!({ "message": warning }));
    }
}
