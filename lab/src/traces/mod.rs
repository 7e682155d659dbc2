//! Requests as their spans tell them: `receiver` is a collector that takes them over OTLP/HTTP, `request` is
//! one of them, `compact` is how many of them are written down, `phases` says where their time went, `told` is what
//! the server itself says of its spans.
//!
//! Deliberately absent: gRPC, JSON, metrics and logs of OTLP. The server that the lab looks at speaks what is here.

pub mod compact;
pub mod phases;
pub mod receiver;
pub mod request;
pub mod told;

use std::net::SocketAddr;

pub use compact::Compact;
pub use receiver::{Keep, Receiver, Taken};
pub use request::{Hop, Request};
pub use told::Told;

/// What a server is told about spans.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spans {
    /// Who takes them, or does not.
    pub collector: SocketAddr,
    /// Of the requests, from 0 to 1.
    pub ratio: f64,
}

/// Requests that may wait for the exporter, the most that the server takes: what a profile does not see of a
/// window shall not be what found no room.
const QUEUE_MAX: &str = "65536";
/// A tenth of the usual second: a window of a second has all of its batches.
const DELAY_MS: &str = "100";

impl Spans {
    /// The standard variables of OpenTelemetry.
    #[must_use]
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        let usual = self.usual();
        let more = [("OTEL_BSP_MAX_QUEUE_SIZE", QUEUE_MAX), ("OTEL_BSP_SCHEDULE_DELAY", DELAY_MS)];
        usual.into_iter().chain(more.map(|(name, value)| (name, value.to_owned()))).collect()
    }

    /// The same with queue and delay as everybody has them who says nothing: for what it costs.
    #[must_use]
    pub fn usual(&self) -> Vec<(&'static str, String)> {
        vec![
            ("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", self.collector)),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf".to_owned()),
            ("OTEL_TRACES_SAMPLER", "traceidratio".to_owned()),
            ("OTEL_TRACES_SAMPLER_ARG", self.ratio.to_string()),
        ]
    }
}
