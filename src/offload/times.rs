//! How long jobs waited for a thread of the pool, and how long they ran: buckets and a sum, written by
//! several threads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Bounds in microseconds: from a lookup that was warm after all to `wait_timeout`.
pub const BOUNDS_US: [u64; 13] =
    [50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 50_000, 100_000, 1_000_000, 10_000_000, 30_000_000];

/// See the module.
#[derive(Debug, Default)]
pub struct Times {
    buckets: [AtomicU64; BOUNDS_US.len() + 1],
    sum_us: AtomicU64,
}

impl Times {
    pub(super) fn add(&self, time: Duration) {
        let time_us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let place = BOUNDS_US.iter().position(|bound| time_us <= *bound).unwrap_or(BOUNDS_US.len());
        self.buckets[place].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(time_us, Ordering::Relaxed);
    }

    /// Each bucket alone, and the sum of all in microseconds.
    #[must_use]
    pub fn read(&self) -> (Vec<u64>, u64) {
        let buckets = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect();
        (buckets, self.sum_us.load(Ordering::Relaxed))
    }
}
