//! Spans of requests that have ended, on their way to a collector: a bounded queue, and a thread with a
//! runtime of its own that makes them and sends them. A worker hands over what they are made of, and never
//! waits (docs/adr/0036-spans-after-the-request.md).

mod attributes;
mod encode;
mod export;
mod resource;
mod transport;

pub use attributes::{ATTRIBUTES, EVENTS};
pub use export::{Exporter, start};
pub use resource::{Surroundings, of_process};

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc;

use crate::limits::SPAN_VALUE_BYTES_MAX;
use crate::telemetry::access::Entry;
use crate::telemetry::identity::Identity;
use crate::telemetry::kinds::Lost;
use crate::telemetry::record::Record;

/// What the spans of one request are made of.
#[derive(Clone, Debug)]
pub struct Finished {
    /// Its record.
    pub record: Record,
    /// Its ids.
    pub identity: Identity,
    /// Microseconds of the monotonic clock when its answer ended.
    pub end_us: u64,
    /// When its connection was accepted, where it is the first on it; else 0.
    pub accepted_us: u64,
    /// The peer.
    pub client: IpAddr,
    /// Method token as sent.
    pub method: Box<[u8]>,
    /// Target as sent.
    pub target: Box<[u8]>,
    /// Host as sent.
    pub host: Box<[u8]>,
    /// User-Agent field.
    pub user_agent: Box<[u8]>,
    /// As in [`Entry`].
    pub version: &'static str,
    /// As in [`Entry`].
    pub status: u16,
    /// As in [`Entry`].
    pub body_bytes: u64,
    /// As in [`Entry`].
    pub error: &'static str,
}

impl Finished {
    /// A copy of what is known when the answer ends.
    #[must_use]
    pub fn new(record: Record, identity: Identity, client: IpAddr, entry: &Entry<'_>) -> Finished {
        let own = |value: &[u8]| value[..value.len().min(SPAN_VALUE_BYTES_MAX)].into();
        Finished {
            record,
            identity,
            end_us: record.head_us.saturating_add(entry.duration_us),
            accepted_us: 0,
            client,
            method: own(entry.method),
            target: own(entry.target),
            host: own(entry.host),
            user_agent: own(entry.user_agent),
            version: entry.version,
            status: entry.status,
            body_bytes: entry.body_bytes,
            error: entry.error,
        }
    }

    /// How many spans it makes: one, and one for the trips to the pool before the answer and one for those in
    /// the middle of it.
    #[must_use]
    pub fn spans(&self) -> u64 {
        1 + u64::from(self.record.facts.hops != 0) + u64::from(self.record.body_hops != 0)
    }
}

/// What became of all spans. `made` is the sum of the others and of those that wait.
#[derive(Debug, Default)]
pub struct Tally {
    made: AtomicU64,
    exported: AtomicU64,
    lost: [AtomicU64; Lost::COUNT],
}

impl Tally {
    /// Spans that were chosen.
    #[must_use]
    pub fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    /// Spans that a collector said it took.
    #[must_use]
    pub fn exported(&self) -> u64 {
        self.exported.load(Ordering::Relaxed)
    }

    /// Spans that were lost so.
    #[must_use]
    pub fn lost(&self, lost: Lost) -> u64 {
        self.lost[lost as usize].load(Ordering::Relaxed)
    }

    /// For the last line of the process.
    #[must_use]
    pub fn told(&self) -> serde_json::Value {
        let lost: serde_json::Map<_, _> =
            Lost::ALL.iter().map(|lost| (lost.name().to_owned(), self.lost(*lost).into())).collect();
        serde_json::json!({ "made": self.made(), "exported": self.exported(), "dropped": lost })
    }

    fn lose(&self, lost: Lost, spans: u64) {
        self.lost[lost as usize].fetch_add(spans, Ordering::Relaxed);
    }

    fn export(&self, spans: u64) {
        self.exported.fetch_add(spans, Ordering::Relaxed);
    }
}

/// One worker's end of the queue.
#[derive(Clone, Debug)]
pub struct Queue {
    sender: mpsc::Sender<Finished>,
    tally: Arc<Tally>,
}

impl Queue {
    /// A queue of so many requests, and where they come out.
    fn new(requests_max: usize) -> (Queue, mpsc::Receiver<Finished>) {
        let (sender, receiver) = mpsc::channel(requests_max);
        (Queue { sender, tally: Arc::default() }, receiver)
    }

    /// Hands over a request; what finds no room is counted.
    pub fn send(&self, finished: Finished) {
        let spans = finished.spans();
        self.tally.made.fetch_add(spans, Ordering::Relaxed);
        match self.sender.try_send(finished) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(_)) => self.tally.lose(Lost::QueueFull, spans),
            Err(mpsc::error::TrySendError::Closed(_)) => self.tally.lose(Lost::Shutdown, spans),
        }
    }

    /// For tests of others.
    #[cfg(test)]
    pub(super) fn to_nobody() -> Queue {
        Queue::new(1).0
    }
}
