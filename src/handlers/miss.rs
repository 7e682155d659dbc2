//! From causes to statuses, in one table (cases A01, A03, A08). What cannot be served for a
//! permission is 403; what is no regular file, or lies outside, cannot be told from what is not there.

use serde_json::json;

use crate::fs::Miss;
use crate::message::Reply;
use crate::offload::Full;
use crate::telemetry::log::{Level, Throttle};

/// Seconds after which a client may ask again for what is busy (RFC 9110 §10.2.3).
const RETRY_AFTER_S: &str = "1";

// A file system that fails, fails every request: one line a second for each cause.
static BUSY: Throttle = Throttle::new();
static FAILED: Throttle = Throttle::new();
static FULL: Throttle = Throttle::new();
static SLOW: Throttle = Throttle::new();

/// The answer to a miss.
#[must_use]
pub fn reply(miss: &Miss) -> Reply {
    match miss {
        Miss::NotFound | Miss::NotRegular => Reply::plain(404),
        Miss::Forbidden => Reply::plain(403),
        Miss::Busy(error) => {
            BUSY.event(Level::Warn, "file busy", json!({ "error": error.to_string() }));
            busy()
        }
        Miss::Io(error) => {
            FAILED.event(Level::Error, "file failed", json!({ "error": error.to_string() }));
            Reply::plain(500)
        }
    }
}

/// The answer when the offload pool takes no more.
#[must_use]
pub fn pool_full(_: Full) -> Reply {
    FULL.event(
        Level::Warn,
        "offload pool full",
        json!({ "hint": "a slow file system, or raise offload_queue" }),
    );
    busy()
}

/// The answer when the offload pool took too long.
#[must_use]
pub fn too_slow() -> Reply {
    SLOW.event(Level::Warn, "file system too slow", json!({ "limit": "wait_timeout" }));
    busy()
}

fn busy() -> Reply {
    Reply::plain_with(503, &[("Retry-After", RETRY_AFTER_S)])
}
