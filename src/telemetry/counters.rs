//! Counters of one worker and the heartbeat that tells whether it lives. Each worker writes its own
//! cache lines; whoever wants a sum reads them all.

use std::sync::atomic::{AtomicU64, Ordering};

/// One worker's numbers; aligned so that two workers never write to one cache line (128: the pair
/// of lines that x86 prefetches together).
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Worker {
    heartbeat_ms: AtomicU64,
    requests: AtomicU64,
    connections: AtomicU64,
}

impl Worker {
    /// Stamps the heartbeat with the monotonic clock.
    pub fn beat(&self, now_ms: u64) {
        self.heartbeat_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Last stamp; 0 before the first.
    #[must_use]
    pub fn last_beat_ms(&self) -> u64 {
        self.heartbeat_ms.load(Ordering::Relaxed)
    }

    /// Counts a finished request. A plain store: the worker is the only writer.
    pub fn request_done(&self) {
        self.requests.store(self.requests.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Requests answered since the start.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Counts a connection that this worker took over.
    pub fn connection_opened(&self) {
        self.connections.store(self.connections.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Connections taken over since the start.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }
}
