//! A bounded map for what is looked up again and again, one worker's: the store behind the open-file
//! cache. What was asked for once does not push out what is asked for often (docs/adr/0034-open-file-cache.md).
//!
//! S3-FIFO (Yang et al., SOSP 2023): newcomers wait in a small queue; those asked for again there move to the
//! main one, the others leave but for their hash. Who comes back while that is remembered goes straight to
//! the main queue. A hit moves nothing: it counts, up to three.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::BuildHasher;
use std::rc::Rc;

/// The small queue is a tenth of the whole.
const SMALL_SHARE: usize = 10;
/// Hits that count.
const HITS_MAX: u8 = 3;

/// Names as keys: keyed hashes, as they come from strangers.
type Key = Rc<[u8]>;

/// See the module.
#[derive(Debug)]
pub struct Cache<V> {
    slots: HashMap<Key, Slot<V>, RandomState>,
    small: VecDeque<Key>,
    main: VecDeque<Key>,
    /// Hashes of those that left the small queue, as many as there are entries at most.
    ghosts: HashSet<u64>,
    ghost_order: VecDeque<u64>,
    entries_max: usize,
    weight_max: usize,
    weight: usize,
    /// Of those in the small queue.
    small_weight: usize,
    /// Values that made room for others.
    evicted: u64,
}

#[derive(Debug)]
struct Slot<V> {
    value: V,
    weight: usize,
    hits: u8,
    is_main: bool,
    used_ms: u64,
}

impl<V> Cache<V> {
    /// Room for `entries_max` values that weigh `weight_max` together.
    #[must_use]
    pub fn new(entries_max: usize, weight_max: usize) -> Cache<V> {
        Cache {
            slots: HashMap::default(),
            small: VecDeque::new(),
            main: VecDeque::new(),
            ghosts: HashSet::new(),
            ghost_order: VecDeque::new(),
            entries_max,
            weight_max,
            weight: 0,
            small_weight: 0,
            evicted: 0,
        }
    }

    /// The value of `key`, which is used now.
    pub fn get(&mut self, key: &[u8], now_ms: u64) -> Option<&V> {
        let slot = self.slots.get_mut(key)?;
        slot.hits = (slot.hits + 1).min(HITS_MAX);
        slot.used_ms = now_ms;
        Some(&slot.value)
    }

    /// Keeps a value, in place of the one before it.
    pub fn insert(&mut self, key: &[u8], value: V, weight: usize, now_ms: u64) {
        if self.entries_max == 0 {
            return;
        }
        if let Some(slot) = self.slots.get_mut(key) {
            self.weight = self.weight - slot.weight + weight;
            if !slot.is_main {
                self.small_weight = self.small_weight - slot.weight + weight;
            }
            (slot.value, slot.weight, slot.used_ms) = (value, weight, now_ms);
        } else {
            // Before another takes its place among them.
            let is_main = self.ghosts.remove(&self.hash(key));
            while self.slots.len() >= self.entries_max {
                self.evict();
            }
            let key: Key = key.into();
            let queue = if is_main { &mut self.main } else { &mut self.small };
            queue.push_back(Rc::clone(&key));
            self.weight += weight;
            self.small_weight += if is_main { 0 } else { weight };
            self.slots.insert(key, Slot { value, weight, hits: 0, is_main, used_ms: now_ms });
        }
        self.lighten();
    }

    /// Says that a value weighs more than it did.
    pub fn add_weight(&mut self, key: &[u8], weight: usize) {
        if let Some(slot) = self.slots.get_mut(key) {
            slot.weight += weight;
            self.weight += weight;
            self.small_weight += if slot.is_main { 0 } else { weight };
            self.lighten();
        }
    }

    /// Forgets a value.
    pub fn remove(&mut self, key: &[u8]) {
        let Some(slot) = self.slots.remove(key) else { return };
        self.weight -= slot.weight;
        self.small_weight -= if slot.is_main { 0 } else { slot.weight };
        let queue = if slot.is_main { &mut self.main } else { &mut self.small };
        queue.retain(|queued| **queued != *key);
    }

    /// Forgets what was not used since `since_ms`.
    pub fn sweep(&mut self, since_ms: u64) {
        let before = self.slots.len();
        let (weight, small_weight) = (&mut self.weight, &mut self.small_weight);
        self.slots.retain(|_, slot| {
            let stays = slot.used_ms >= since_ms;
            *weight -= if stays { 0 } else { slot.weight };
            *small_weight -= if stays || slot.is_main { 0 } else { slot.weight };
            stays
        });
        if self.slots.len() < before {
            self.small.retain(|key| self.slots.contains_key(key));
            self.main.retain(|key| self.slots.contains_key(key));
        }
    }

    /// Forgets all but `entries` values.
    pub fn shrink(&mut self, entries: usize) {
        while self.slots.len() > entries {
            self.evict();
        }
    }

    /// Values that are kept, and what they weigh.
    #[must_use]
    pub fn size(&self) -> (usize, usize) {
        (self.slots.len(), self.weight)
    }

    /// Values that made room for others since the start.
    #[must_use]
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    fn lighten(&mut self) {
        while self.weight > self.weight_max && !self.slots.is_empty() {
            self.evict();
        }
    }

    /// Forgets one value: of the small queue while that is over its share of either bound, else of the main one.
    fn evict(&mut self) {
        let is_small_full = self.small.len() > self.entries_max / SMALL_SHARE
            || self.small_weight > self.weight_max / SMALL_SHARE
            || self.main.is_empty();
        if is_small_full && let Some(key) = self.small.pop_front() {
            let slot = self.slots.get_mut(&key).expect("what is queued is in the map");
            if slot.hits > 0 {
                (slot.hits, slot.is_main) = (0, true);
                self.small_weight -= slot.weight;
                self.main.push_back(key);
                return;
            }
            self.remember(&key);
            self.drop_slot(&key);
            return;
        }
        let Some(key) = self.main.pop_front() else { return };
        let slot = self.slots.get_mut(&key).expect("what is queued is in the map");
        if slot.hits > 0 {
            slot.hits -= 1;
            self.main.push_back(key);
        } else {
            self.drop_slot(&key);
        }
    }

    fn drop_slot(&mut self, key: &Key) {
        if let Some(slot) = self.slots.remove(key) {
            self.weight -= slot.weight;
            self.small_weight -= if slot.is_main { 0 } else { slot.weight };
            self.evicted += 1;
        }
    }

    fn remember(&mut self, key: &Key) {
        if self.ghost_order.len() >= self.entries_max
            && let Some(oldest) = self.ghost_order.pop_front()
        {
            self.ghosts.remove(&oldest);
        }
        let hash = self.hash(key);
        if self.ghosts.insert(hash) {
            self.ghost_order.push_back(hash);
        }
    }

    fn hash(&self, key: &[u8]) -> u64 {
        self.slots.hasher().hash_one(key)
    }
}

#[cfg(test)]
mod tests;
