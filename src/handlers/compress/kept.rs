//! What is known of files that were compressed or are being compressed: bounded in bytes, and what was not
//! asked for longest leaves first. Plain data behind the lock of the store.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tokio::sync::watch;

use crate::fs::Version;
use crate::limits::{COMPRESSED_ENTRY_BYTES, COMPRESSED_KEPT_MS};
use crate::semantics::encoding::Coding;

/// Entries that leave in one turn of the lock.
const LEAVE_MAX: usize = 64;
/// An entry that is asked for is moved to the young end at most this often.
const TOUCH_MS: u64 = 5_000;

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Way {
    /// The coding.
    pub coding: Coding,
    /// The encoder's level.
    pub level: u8,
}

/// What compressing came to.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    /// Fewer bytes.
    Made(Arc<[u8]>),
    /// Not worth it: not fewer bytes.
    Useless,
    /// The file changed meanwhile or could not be read.
    Failed,
}

/// The end of a work in progress.
pub(super) type Pending = watch::Receiver<Option<Outcome>>;

/// What is known of a version.
#[derive(Debug)]
pub(super) enum Look {
    /// All.
    Known(Outcome),
    /// It is being worked on.
    Pending(Pending),
    /// Nothing, and it cannot be worked on now.
    Busy,
}

/// Device and inode: a file that is written in place replaces what was kept of it.
pub(super) type Key = ((u64, u64), Way);

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) entries: HashMap<Key, Entry>,
    /// Those that are done, the one that was not asked for longest first.
    pub(super) order: BTreeMap<u64, Key>,
    pub(super) next: u64,
    pub(super) kept_bytes: u64,
    pub(super) pending_bytes: u64,
    pub(super) pending_files: u64,
    pub(super) full_until_ms: u64,
    /// What is kept no longer, or never was, and is still being sent: slow clients hold it in memory.
    pub(super) loose: Vec<Arc<[u8]>>,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) version: Version,
    pub(super) value: Value,
}

#[derive(Debug)]
pub(super) enum Value {
    Pending(Pending),
    Done { outcome: Outcome, place: u64, used_ms: u64 },
}

impl Outcome {
    pub(super) fn cost(&self) -> u64 {
        match self {
            Outcome::Made(bytes) => bytes.len() as u64 + COMPRESSED_ENTRY_BYTES,
            Outcome::Useless | Outcome::Failed => COMPRESSED_ENTRY_BYTES,
        }
    }
}

impl State {
    pub(super) fn look(&mut self, key: &Key, version: &Version, now_ms: u64) -> Option<Look> {
        let entry = self.entries.get_mut(key).filter(|entry| entry.version == *version)?;
        let (outcome, place) = match &mut entry.value {
            Value::Pending(pending) => return Some(Look::Pending(pending.clone())),
            Value::Done { outcome, place, used_ms } => {
                let outcome = outcome.clone();
                if now_ms.saturating_sub(*used_ms) < TOUCH_MS {
                    return Some(Look::Known(outcome));
                }
                *used_ms = now_ms;
                (outcome, std::mem::replace(place, self.next))
            }
        };
        self.order.remove(&place);
        self.take_place(*key);
        Some(Look::Known(outcome))
    }

    pub(super) fn take_place(&mut self, key: Key) -> u64 {
        let place = self.next;
        self.next += 1;
        self.order.insert(place, key);
        place
    }

    /// Puts an entry in place of what was kept of another version.
    pub(super) fn put(&mut self, key: Key, entry: Entry) {
        let before = self.entries.insert(key, entry);
        if let Some(Outcome::Made(bytes)) = self.forget(before)
            && Arc::strong_count(&bytes) > 1
        {
            self.loose.push(bytes);
        }
    }

    /// Takes note of what is sent to who asked for it, and not kept.
    pub(super) fn loosen(&mut self, outcome: &Outcome) {
        if let Outcome::Made(bytes) = outcome {
            self.loose.push(Arc::clone(bytes));
        }
    }

    /// Bytes that are sent and not kept; what nobody holds any more is handed out to be freed.
    pub(super) fn loose_bytes(&mut self) -> (u64, Vec<Arc<[u8]>>) {
        // Whoever takes bytes out of here does so under the same lock, so a count of one stays one.
        let free = self.loose.extract_if(.., |bytes| Arc::strong_count(bytes) == 1).collect();
        (self.loose.iter().map(|bytes| bytes.len() as u64).sum(), free)
    }

    fn forget(&mut self, entry: Option<Entry>) -> Option<Outcome> {
        match entry?.value {
            Value::Pending(_) => None,
            Value::Done { outcome, place, .. } => {
                self.order.remove(&place);
                self.kept_bytes -= outcome.cost();
                Some(outcome)
            }
        }
    }

    /// Lets a few of the oldest leave, where there is no room yet. False where they are still in use.
    pub(super) fn make_room(
        &mut self,
        cost: u64,
        bytes_max: u64,
        now_ms: u64,
        left: &mut Vec<Outcome>,
    ) -> bool {
        let mut turns = LEAVE_MAX;
        while self.kept_bytes + cost > bytes_max && turns > 0 {
            turns -= 1;
            let Some((_, key)) = self.order.first_key_value() else { return false };
            let key = *key;
            let used_ms = match self.entries.get(&key).map(|entry| &entry.value) {
                Some(Value::Done { used_ms, .. }) => *used_ms,
                _ => 0,
            };
            if now_ms.saturating_sub(used_ms) < COMPRESSED_KEPT_MS {
                return false;
            }
            let entry = self.entries.remove(&key);
            match self.forget(entry) {
                Some(Outcome::Made(bytes)) if Arc::strong_count(&bytes) > 1 => self.loose.push(bytes),
                outcome => left.extend(outcome),
            }
        }
        true
    }
}
