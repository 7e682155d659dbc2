//! ScalWS whose requests have spans: what telemetry costs, beside the same server without it.

use std::net::SocketAddr;

use crate::traces::Spans;

/// How many of its requests have spans, and what becomes of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampled {
    /// One of a hundred, and a collector takes it.
    Percent,
    /// All of them, and a collector takes what the server can send.
    All,
    /// All of them, and nobody listens.
    Down,
}

impl Sampled {
    /// Whether somebody listens.
    #[must_use]
    pub fn has_collector(self) -> bool {
        self != Sampled::Down
    }

    /// With queue, batch and delay as they are without a word about them: that is what users have.
    #[must_use]
    pub fn variables(self, collector: SocketAddr) -> Vec<(&'static str, String)> {
        let ratio = if self == Sampled::Percent { 0.01 } else { 1.0 };
        Spans { collector, ratio }.usual()
    }

    /// For the features of its row.
    #[must_use]
    pub fn note(self) -> &'static str {
        match self {
            Sampled::Percent => "spans of 1 % of the requests, over OTLP/HTTP to the lab's collector",
            Sampled::All => "spans of all requests, over OTLP/HTTP to the lab's collector",
            Sampled::Down => "spans of all requests, and the collector refuses connections",
        }
    }
}
