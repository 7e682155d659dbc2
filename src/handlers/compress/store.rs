//! Compressed files in memory, for all workers: each version of a file is compressed once, whoever asks
//! first, and the others wait for the same bytes (docs/adr/0020-compression.md).
//!
//! Bounded twice: by the bytes that are kept, and by those that are being worked on. What does not fit
//! is not compressed. The lock is held for a lookup or a few insertions, never for a read or an encoder.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::json;
use tokio::sync::watch;

use super::encode::encode;
use super::kept::{Entry, Key, Look, Outcome, State, Value, Way};
use crate::fs::{OpenFile, Version, read};
use crate::limits::{
    COMPRESS_WAIT_MS_MAX, COMPRESSED_FULL_MS, COMPRESSING_BYTES_MAX, COMPRESSING_FILES_MAX, Limits,
};
use crate::offload::{Lane, Pool};
use crate::sys::clock::monotonic_coarse_ms;
use crate::telemetry::log::{Level, Throttle};

static FULL: Throttle = Throttle::new();
static FAILED: Throttle = Throttle::new();

/// See the module.
#[derive(Debug)]
pub struct Store {
    lane: Lane,
    bytes_max: u64,
    /// How long a request waits for its bytes.
    pub(super) wait: Duration,
    state: Mutex<State>,
}

impl Store {
    /// An empty store that works in `pool`.
    #[must_use]
    pub fn new(limits: &Limits, pool: Pool) -> Arc<Store> {
        // Half at most, as the file was looked for before: at `wait_timeout` it would be 503.
        let wait = Duration::from_millis(COMPRESS_WAIT_MS_MAX.min(limits.wait_ms_max / 2));
        let (lane, bytes_max) = (pool.narrow_lane(), limits.compressed_bytes_max);
        Arc::new(Store { lane, bytes_max, wait, state: Mutex::default() })
    }

    /// Bytes that are kept, and of how many files, for those who count.
    #[must_use]
    pub fn kept(&self) -> (u64, u64) {
        let state = self.lock();
        (state.kept_bytes, state.order.len() as u64)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of `version`, without starting anything.
    #[must_use]
    pub(super) fn known(&self, version: &Version, way: Way) -> Option<Look> {
        self.lock().look(&(version.file(), way), version, monotonic_coarse_ms())
    }

    /// What is known of `file`; has it compressed where nothing is.
    pub(super) fn get(self: &Arc<Self>, file: &OpenFile, way: Way) -> Look {
        let version = Version::of(file.stat());
        let key = (version.file(), way);
        let now_ms = monotonic_coarse_ms();
        let mut state = self.lock();
        // Again under this lock: whoever came first does the work.
        if let Some(look) = state.look(&key, &version, now_ms) {
            return look;
        }
        let (loose_bytes, _free) = state.loose_bytes();
        let has_room = state.pending_bytes + loose_bytes + version.size() <= COMPRESSING_BYTES_MAX
            && state.pending_files < COMPRESSING_FILES_MAX;
        if now_ms < state.full_until_ms || !has_room {
            return Look::Busy;
        }
        let (sender, pending) = watch::channel(None);
        state.pending_bytes += version.size();
        state.pending_files += 1;
        state.put(key, Entry { version, value: Value::Pending(pending.clone()) });
        drop(state);
        let work = Work { store: Arc::clone(self), key, version, sender, outcome: Outcome::Failed };
        // Where no descriptor is free, `work` is dropped, and says so to whoever waits.
        let _ = read::version_in_pool(file, move |content| {
            if let Some(content) = content {
                let lane = work.store.lane;
                lane.detach(move || work.encode(&content));
            }
        });
        Look::Pending(pending)
    }

    /// Takes in what a work came to, and what it no longer holds.
    fn finish(&self, key: &Key, version: &Version, outcome: &Outcome) {
        {
            let mut state = self.lock();
            state.pending_bytes -= version.size();
            state.pending_files -= 1;
        }
        let cost = outcome.cost();
        loop {
            // Freed after the lock.
            let mut left = Vec::new();
            let mut state = self.lock();
            let is_mine =
                |entry: &Entry| entry.version == *version && matches!(entry.value, Value::Pending(_));
            if !state.entries.get(key).is_some_and(is_mine) {
                state.loosen(outcome);
                return;
            }
            let now_ms = monotonic_coarse_ms();
            if matches!(outcome, Outcome::Failed) || !state.make_room(cost, self.bytes_max, now_ms, &mut left)
            {
                state.entries.remove(key);
                state.loosen(outcome);
                if !matches!(outcome, Outcome::Failed) {
                    state.full_until_ms = now_ms + COMPRESSED_FULL_MS;
                    drop(state);
                    tell_no_room(self.bytes_max);
                }
                return;
            }
            if state.kept_bytes + cost <= self.bytes_max {
                let place = state.take_place(*key);
                let value = Value::Done { outcome: outcome.clone(), place, used_ms: now_ms };
                state.kept_bytes += cost;
                state.entries.insert(*key, Entry { version: *version, value });
                return;
            }
        }
    }
}

fn tell_no_room(bytes_max: u64) {
    let fields = json!({ "bytes": bytes_max, "hint": "raise compressed_size in [limits]" });
    FULL.event(Level::Warn, "no room for compressed files", fields);
}

/// A work in progress. However it ends, those who wait for it are told.
struct Work {
    store: Arc<Store>,
    key: Key,
    version: Version,
    sender: watch::Sender<Option<Outcome>>,
    outcome: Outcome,
}

impl Work {
    fn encode(mut self, content: &[u8]) {
        let (_, Way { coding, level }) = self.key;
        // Also what an encoder that panics leaves: it would do so each time.
        self.outcome = Outcome::Useless;
        match encode(coding, level, content) {
            Ok(coded) if coded.len() < content.len() => {
                let made = Outcome::Made(coded.into());
                // Larger than all that may be kept: it would be made again for each request.
                match made.cost() <= self.store.bytes_max {
                    true => self.outcome = made,
                    false => tell_no_room(self.store.bytes_max),
                }
            }
            Ok(_) => {}
            Err(error) => {
                let fields = json!({ "coding": coding.name(), "error": error.to_string() });
                FAILED.event(Level::Error, "compression failed", fields);
            }
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.store.finish(&self.key, &self.version, &self.outcome);
        self.sender.send_replace(Some(self.outcome.clone()));
    }
}

#[cfg(test)]
mod tests;
