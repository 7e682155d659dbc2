//! The lean generator: one thread that checks every answer's status and length, and the bodies at the
//! edges of each window.
//!
//! It is lean because a heavy one leaves the server idle between its requests, and an idle server pays
//! wake-ups that a busy one does not. `slot` is one connection, `answer` reads what comes on it, `engine`
//! drives all of them from one epoll, `pace` says when a request may go, `tally` counts. `fetch` asks once,
//! at leisure, and `probe` holds such an answer against the fixture. HTTP/2 is the `h2` crate's (`h2`):
//! h2load is leaner but reports sums, and a sum cannot say that every answer was right.
//!
//! Deliberately absent: pipelining, redirects, cookies, name resolution, trust in certificates.

mod answer;
mod command;
mod engine;
mod fetch;
mod h2;
mod pace;
mod probe;
mod slot;
mod tally;
mod tls;

use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use command::Load;
pub use probe::{check, probe};

use crate::Refusal;
use crate::scenario::Protocol;

/// How long an answer may take, from the first byte of its request to the last of its own.
/// The longest that a sound server needs here is 500 connections × 1 MiB over TLS on one CPU: half a second.
pub const STALL: Duration = Duration::from_secs(10);

/// How often the clock is looked at beside the answers: stalls and a wanted stop are noticed that late.
const TICK: Duration = Duration::from_millis(100);

/// When the last request is sent. Answers under way are waited for and count.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Until {
    /// After so many seconds.
    Seconds(f64),
    /// After so many requests.
    Requests(u64),
}

/// What every answer has to have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expect {
    /// Its status.
    pub status: u16,
    /// Bytes of its body as sent, without the framing of chunks.
    pub length: u64,
    /// Hash of that body, in hex: only `check` looks.
    pub sha256: String,
}

/// One window of load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Who is asked.
    pub address: SocketAddr,
    /// How. `H2` says its own number of connections.
    pub protocol: Protocol,
    /// Connections at once.
    pub connections: u32,
    /// The whole request as HTTP/1.1 writes it; HTTP/2 takes its target and fields from there.
    pub request: String,
    /// What has to come.
    pub expect: Expect,
    /// For how long.
    pub until: Until,
    /// Requests a second (open loop): latencies then count from the moment at which a request was due, so
    /// that a server that stalls does not hide the requests that it kept from being sent. `None`: each
    /// connection asks again as soon as it has its answer (closed loop).
    pub rate: Option<f64>,
}

/// What a window gave. All its answers were right, or there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Answers.
    pub requests: u64,
    /// From the first request to the last answer.
    pub seconds: f64,
    /// Bytes of bodies.
    pub body_bytes: u64,
    /// Connections made, those before the window too.
    pub connects: u64,
    /// How long the answers took.
    pub latency_us: Latency,
}

/// Microseconds. Closed loop: from a request's send, or its connect where each has its own connection.
/// Open loop: from when it was due.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latency {
    /// The median.
    pub p50: u64,
    /// One of 10 took longer.
    pub p90: u64,
    /// One of 100 took longer.
    pub p99: u64,
    /// One of 1,000 took longer.
    pub p99_9: u64,
    /// The longest.
    pub max: u64,
}

/// What bounds a run beside its plan.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// See [`STALL`].
    pub stall: Duration,
    /// Whether to stop now; asked ten times a second.
    pub stop: fn() -> bool,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { stall: STALL, stop: || false }
    }
}

/// Connections that are open and have asked nothing yet: what stands between the preparation, whose cost
/// is nobody's request, and the window.
#[derive(Debug)]
pub struct Ready(Kind);

#[derive(Debug)]
enum Kind {
    Engine(Box<engine::Engine>),
    H2(Box<h2::Streams>),
}

/// Opens the connections of a plan, with their TLS handshakes; for `TlsResumed` it collects the first tickets.
///
/// # Errors
/// The plan asks for something that there is not, the server refuses connections, a handshake fails.
pub fn connect(plan: &Plan, bounds: Bounds) -> Result<Ready, Refusal> {
    pace::Pace::check(plan)?;
    Ok(Ready(match plan.protocol {
        Protocol::H2(connections, streams) => {
            Kind::H2(Box::new(h2::Streams::open(plan, connections, streams, bounds)?))
        }
        _ => Kind::Engine(Box::new(engine::Engine::open(plan, bounds)?)),
    }))
}

impl Ready {
    /// The window itself. Blocks the calling thread, which the caller has pinned.
    ///
    /// # Errors
    /// An answer was not what it had to be: the first such ends the run.
    pub fn run(self) -> Result<Outcome, Refusal> {
        match self.0 {
            Kind::Engine(engine) => engine.run(),
            Kind::H2(streams) => streams.run(),
        }
    }
}

/// [`connect`] and [`Ready::run`] with the usual bounds.
///
/// # Errors
/// Theirs.
pub fn run(plan: &Plan) -> Result<Outcome, Refusal> {
    connect(plan, Bounds::default())?.run()
}

/// How a refusal names an answer: by the method and the target of its request.
fn answer_to(request: &str) -> String {
    let line = request.lines().next().unwrap_or_default();
    format!("the answer to {}", line.strip_suffix(" HTTP/1.1").unwrap_or(line))
}

/// Why there is no connection.
fn no_connection(address: SocketAddr, error: &std::io::Error) -> Refusal {
    Refusal::new(match error.kind() {
        std::io::ErrorKind::ConnectionRefused => {
            format!("{address} refuses connections: no server listens there (any more)")
        }
        // 28,232 ports by default; see `slot` for why they do not run out on loopback.
        std::io::ErrorKind::AddrNotAvailable => format!(
            "no free local port for a connection to {address}: widen net.ipv4.ip_local_port_range or wait a minute"
        ),
        _ => format!("no connection to {address}: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn plan() -> Plan {
        Plan {
            address: SocketAddr::from(([127, 0, 0, 1], 80)),
            protocol: Protocol::Http1,
            connections: 1,
            request: "GET /1k.bin HTTP/1.1\r\n\r\n".to_owned(),
            expect: Expect { status: 200, length: 1_024, sha256: String::new() },
            until: Until::Requests(1),
            rate: None,
        }
    }

    /// What goes to a container and what comes back is text.
    #[test]
    fn a_plan_survives_its_json() {
        for plan in [plan(), Plan { protocol: Protocol::H2(8, 32), rate: Some(1.5), ..plan() }] {
            let text = serde_json::to_string(&plan).unwrap();
            assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan);
        }
    }

    #[test]
    fn an_answer_is_named_by_its_request() {
        assert_eq!(answer_to(&plan().request), "the answer to GET /1k.bin");
    }
}
