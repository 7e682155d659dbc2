//! Counts answers and how long they took.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::{Latency, Outcome};

/// Three digits: a percentile is off by 1 in 1,000 at most.
const DIGITS: u8 = 3;
/// Nothing takes longer: an open loop may be behind by as long as its window is.
const MICROSECONDS_MAX: u64 = 2 * 86_400 * 1_000_000;

#[derive(Debug)]
pub(super) struct Tally {
    latencies_us: Histogram<u64>,
    body_bytes: u64,
    pub(super) connects: u64,
}

impl Tally {
    pub(super) fn new() -> Tally {
        let latencies_us = Histogram::new_with_bounds(1, MICROSECONDS_MAX, DIGITS)
            .expect("the bounds are constants that the histogram takes");
        Tally { latencies_us, body_bytes: 0, connects: 0 }
    }

    pub(super) fn count(&mut self, took: Duration, body_bytes: u64) {
        self.latencies_us.saturating_record(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        self.body_bytes += body_bytes;
    }

    pub(super) fn outcome(&self, start: Instant, end: Instant) -> Outcome {
        let at = |quantile| self.latencies_us.value_at_quantile(quantile);
        Outcome {
            requests: self.latencies_us.len(),
            seconds: end.saturating_duration_since(start).as_secs_f64(),
            body_bytes: self.body_bytes,
            connects: self.connects,
            latency_us: Latency {
                p50: at(0.5),
                p90: at(0.9),
                p99: at(0.99),
                p99_9: at(0.999),
                max: self.latencies_us.max(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_what_was_counted() {
        let mut tally = Tally::new();
        for took in 1..=1_000 {
            tally.count(Duration::from_micros(took), 7);
        }
        let start = Instant::now();
        let outcome = tally.outcome(start, start + Duration::from_secs(2));
        assert_eq!((outcome.requests, outcome.body_bytes), (1_000, 7_000));
        assert!((outcome.seconds - 2.0).abs() < 1e-9);
        let wanted = Latency { p50: 500, p90: 900, p99: 990, p99_9: 999, max: 1_000 };
        assert_eq!(outcome.latency_us, wanted);
    }
}
