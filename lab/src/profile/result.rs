//! What a profile holds: the shape of `result.json`, which the page is made from.

use serde::{Deserialize, Serialize};

use super::counts::Call;
use super::stacks::Symbol;
use super::switches::Sum;
use super::traced::Traces;
use crate::load::Latency;
use crate::measure::Counters;

/// All of a run.
#[derive(Debug, Serialize, Deserialize)]
pub struct Document {
    /// The row of the matrix.
    pub scenario: String,
    /// What it is about.
    pub what: String,
    /// UTC, RFC 3339.
    pub date: String,
    /// As it was called.
    pub command: String,
    /// The machine, by name.
    pub machine: serde_json::Value,
    /// CPUs and what else holds for all subjects, by name.
    pub setup: Vec<(String, String)>,
    /// What a reader has to know before the numbers.
    pub notes: Vec<String>,
    /// The servers: ours first.
    pub subjects: Vec<Profile>,
}

/// One server.
#[derive(Debug, Serialize, Deserialize)]
pub struct Profile {
    /// Its name in the matrix.
    pub name: String,
    /// What it says of itself.
    pub version: String,
    /// How it was built or where it comes from.
    pub flags: String,
    /// Its configuration.
    pub config: String,
    /// Each window, in order: what ran and what it is good for.
    pub windows: Vec<Window>,
    /// Numbers of the plain window.
    pub plain: Plain,
    /// Latencies at a fixed rate.
    pub open: Open,
    /// Memory.
    pub memory: Memory,
    /// Counted in the kernel while nothing else looked: event, count; `None`: not countable here.
    pub counted: Vec<(String, Option<f64>)>,
    /// Requests while that was counted.
    pub counted_requests: u64,
    /// System calls by name.
    pub calls: Calls,
    /// On a CPU.
    pub on_cpu: OnCpu,
    /// Off it.
    pub off_cpu: OffCpu,
    /// Single requests, where they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traces: Option<Traces>,
}

/// A stretch of time.
#[derive(Debug, Serialize, Deserialize)]
pub struct Window {
    /// Its name.
    pub name: String,
    /// Seconds of load.
    pub seconds: f64,
    /// What ran and what it is good for.
    pub what: String,
}

/// Closed loop, nothing else running.
#[derive(Debug, Serialize, Deserialize)]
pub struct Plain {
    /// Requests that were answered and checked.
    pub requests: u64,
    /// How long.
    pub seconds: f64,
    /// Requests a second.
    pub rate: f64,
    /// Microseconds of CPU a request.
    pub cpu_us: f64,
    /// How busy the server's CPUs were, of 1.
    pub busy: f64,
    /// Raw counts of the window.
    pub counters: Counters,
    /// Latencies of the closed loop.
    pub latency_us: Latency,
}

/// Open loop: a fixed rate, latencies from the time each request was due.
#[derive(Debug, Serialize, Deserialize)]
pub struct Open {
    /// Asked for, requests a second.
    pub rate: f64,
    /// Reached.
    pub reached: f64,
    /// Who drove.
    pub tool: String,
    /// Latencies.
    pub latency_us: Latency,
}

/// Memory.
#[derive(Debug, Serialize, Deserialize)]
pub struct Memory {
    /// Highest PSS that was seen.
    pub pss_peak_bytes: u64,
    /// Looks between the windows.
    pub looks: u32,
    /// Peak of the container's cgroup, page cache included; containers only.
    pub cgroup_peak_bytes: Option<u64>,
}

/// System calls.
#[derive(Debug, Serialize, Deserialize)]
pub struct Calls {
    /// Who counted by name.
    pub tool: String,
    /// Requests in that window.
    pub requests: u64,
    /// Events that the tool says it lost.
    pub lost: u64,
    /// By name.
    pub rows: Vec<Call>,
}

/// Where time on a CPU goes.
#[derive(Debug, Serialize, Deserialize)]
pub struct OnCpu {
    /// The event that was sampled.
    pub event: String,
    /// How stacks were walked.
    pub walk: String,
    /// Samples.
    pub samples: u64,
    /// Frames without a name, of a hundred.
    pub unknown_percent: f64,
    /// Stacks that do not reach back to the start of their thread, of a hundred.
    pub rootless_percent: f64,
    /// Hottest symbols.
    pub hottest: Vec<Symbol>,
    /// Files beside this one: flamegraph and folded stacks.
    pub files: (String, String),
}

/// Where time off it goes.
#[derive(Debug, Serialize, Deserialize)]
pub struct OffCpu {
    /// Waited for something.
    pub blocked: Sum,
    /// Had to make room.
    pub preempted: Sum,
    /// Switches without both of their ends or without a stack.
    pub unpaired: u64,
    /// Requests in that window, about.
    pub requests: u64,
    /// Frames without a name, of a hundred.
    pub unknown_percent: f64,
    /// Stacks that do not reach back to the start of their thread, of a hundred.
    pub rootless_percent: f64,
    /// Files beside this one: flamegraph and folded stacks.
    pub files: (String, String),
}
