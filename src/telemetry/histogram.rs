//! Histograms of durations: a bucket for each bound and one beyond them, and the sum. Two kinds of writers:
//! a worker that is the only one, and threads of the pool that are several.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bounds of request durations in microseconds: those of the OpenTelemetry HTTP conventions.
pub const REQUEST_BOUNDS_US: [u64; 14] = [
    5_000, 10_000, 25_000, 50_000, 75_000, 100_000, 250_000, 500_000, 750_000, 1_000_000, 2_500_000,
    5_000_000, 7_500_000, 10_000_000,
];

/// Durations of requests; written by one thread.
#[derive(Debug, Default)]
pub struct Durations {
    buckets: [AtomicU64; REQUEST_BOUNDS_US.len() + 1],
    sum_us: AtomicU64,
}

impl Durations {
    /// Adds one. Plain loads and stores: there is one writer.
    pub fn add(&self, duration_us: u64) {
        let place = REQUEST_BOUNDS_US.iter().position(|bound| duration_us <= *bound);
        super::counters::add(&self.buckets[place.unwrap_or(REQUEST_BOUNDS_US.len())], 1);
        super::counters::add(&self.sum_us, duration_us);
    }
}

/// What several of them hold together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sums {
    /// Of each bucket alone, not of those below it.
    pub buckets: Vec<u64>,
    /// Microseconds.
    pub sum_us: u64,
}

impl Default for Sums {
    fn default() -> Sums {
        Sums { buckets: vec![0; REQUEST_BOUNDS_US.len() + 1], sum_us: 0 }
    }
}

impl Sums {
    /// Takes one more in.
    pub fn take(&mut self, durations: &Durations) {
        for (sum, bucket) in self.buckets.iter_mut().zip(&durations.buckets) {
            *sum += bucket.load(Ordering::Relaxed);
        }
        self.sum_us += durations.sum_us.load(Ordering::Relaxed);
    }

    /// How many there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_its_bucket() {
        let durations = Durations::default();
        for duration_us in [0, 5_000, 5_001, 10_000_000, 10_000_001] {
            durations.add(duration_us);
        }
        let mut sums = Sums::default();
        sums.take(&durations);
        sums.take(&durations);
        assert_eq!((sums.buckets[0], sums.buckets[1], sums.buckets[13], sums.buckets[14]), (4, 2, 2, 2));
        assert_eq!((sums.count(), sums.sum_us), (10, 2 * (5_000 + 5_001 + 10_000_000 + 10_000_001)));
    }
}
