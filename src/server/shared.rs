//! What the threads of the process share: the phase of its life and a few counters.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

use super::metrics::Sources;
use crate::admin::Health;
use crate::dev;
use crate::limits::HEARTBEAT_MS_MAX;
use crate::sys::clock::monotonic_coarse_ms;
use crate::telemetry::counters;
use crate::telemetry::exposition::Form;

/// Phase of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// Takes requests.
    Serving,
    /// Still takes requests; ready says no, so that balancers look elsewhere.
    Leaving,
    /// Takes no new connections, finishes what runs.
    Draining,
    /// Hands over its last log lines and ends.
    Ending,
}

/// See the module.
pub(super) struct Shared {
    pub(super) phase: watch::Sender<Phase>,
    /// Open client connections of the process.
    pub(super) connections: AtomicU64,
    pub(super) connections_max: u64,
    /// Listeners of workers that are still open.
    pub(super) listeners_open: AtomicU64,
    /// Workers that have not handed over their last log lines.
    pub(super) workers_running: AtomicU64,
    /// How often a worker was short of descriptors.
    pub(super) short_of_descriptors: Arc<AtomicU64>,
    /// Development mode.
    pub(super) dev: Option<Arc<dev::Changes>>,
    /// Counters of each worker.
    pub(super) workers: Vec<Arc<counters::Worker>>,
}

impl Shared {
    /// `routes`: how many have numbers of their own.
    pub(super) fn new(workers: usize, connections_max: u64, routes: usize) -> Shared {
        Shared {
            phase: watch::Sender::new(Phase::Serving),
            connections: AtomicU64::new(0),
            connections_max,
            listeners_open: AtomicU64::new(0),
            workers_running: AtomicU64::new(0),
            short_of_descriptors: Arc::default(),
            dev: None,
            workers: (0..workers).map(|_| Arc::new(counters::Worker::new(routes))).collect(),
        }
    }

    /// Takes a place for a connection; `None` when all are taken.
    pub(super) fn enter(self: &Arc<Self>) -> Option<Place> {
        // Counted before it is checked, so that the bound holds with any number of workers.
        let place = Place(Arc::clone(self));
        (self.connections.fetch_add(1, Ordering::Relaxed) < self.connections_max).then_some(place)
    }
}

/// A connection's place under the limit; left when dropped.
pub(super) struct Place(Arc<Shared>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Release);
    }
}

/// What the admin port reports.
pub(super) struct Report {
    pub(super) shared: Arc<Shared>,
    /// `None` in tests of the rest.
    pub(super) sources: Option<Sources>,
}

impl Health for Report {
    fn live(&self) -> Result<(), String> {
        let now = monotonic_coarse_ms();
        let silent = |(number, worker): (usize, &Arc<counters::Worker>)| {
            let age = now.saturating_sub(worker.last_beat_ms());
            (age > HEARTBEAT_MS_MAX).then(|| format!("worker {number} silent for {} s", age / 1000))
        };
        let silent: Vec<_> = self.shared.workers.iter().enumerate().filter_map(silent).collect();
        if silent.is_empty() { Ok(()) } else { Err(silent.join(", ")) }
    }

    fn ready(&self) -> Result<(), String> {
        if *self.shared.phase.borrow() == Phase::Serving { Ok(()) } else { Err("draining".to_owned()) }
    }

    fn metrics(&self, form: Form) -> String {
        self.sources.as_ref().map(|sources| sources.page(&self.shared, form)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_stops_stamping_is_named_and_a_drain_is_not_ready() {
        let shared = Arc::new(Shared::new(2, 10, 0));
        let report = Report { shared: Arc::clone(&shared), sources: None };
        let now = monotonic_coarse_ms();
        shared.workers[0].beat(now);
        shared.workers[1].beat(now.saturating_sub(HEARTBEAT_MS_MAX + 2_000));
        let silent = report.live().unwrap_err();
        assert!(silent.starts_with("worker 1 silent for 1"), "{silent}");
        shared.workers[1].beat(now);
        assert_eq!((report.live(), report.ready()), (Ok(()), Ok(())));
        shared.phase.send_replace(Phase::Leaving);
        assert_eq!((report.live(), report.ready()), (Ok(()), Err("draining".to_owned())));
    }

    #[test]
    fn places_are_given_back() {
        let shared = Arc::new(Shared::new(1, 2, 0));
        let places = [shared.enter(), shared.enter(), shared.enter()];
        assert_eq!(places.iter().filter(|place| place.is_some()).count(), 2);
        // The refused one is counted for a moment only: its place was dropped with the refusal.
        assert_eq!(shared.connections.load(Ordering::Relaxed), 2);
        drop(places);
        assert_eq!(shared.connections.load(Ordering::Relaxed), 0);
        assert!(shared.enter().is_some());
    }
}
