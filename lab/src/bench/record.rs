//! What a run leaves behind: every window as it was measured, and all that has to travel with it. The
//! tables are made from this and from nothing else, so that they can be made again.

use serde::{Deserialize, Serialize};

use super::statistics::{self, Spread};
use crate::load::Latency;
use crate::measure::Counters;

/// Of the form below; a reader refuses another.
pub const FORM: u32 = 1;
/// A server that is less busy waits for its generator: PERFORMANCE.md, rule 4.
pub const BUSY_MIN: f64 = 0.95;
/// Fewer rounds have no spread worth the name.
pub const ROUNDS_MIN: u32 = 3;

/// One run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    /// `FORM`.
    pub form: u32,
    /// UTC.
    pub started: String,
    /// As it was typed.
    pub command_line: String,
    /// What `servers::machine` saw.
    pub machine: serde_json::Value,
    /// What holds for all rows.
    pub conditions: Conditions,
    /// In the order of the command line.
    pub cases: Vec<Case>,
    /// Somebody ended it early.
    pub is_interrupted: bool,
}

/// What holds for all rows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Conditions {
    /// Rounds that were asked for.
    pub rounds: u32,
    /// Of each window.
    pub seconds: f64,
    /// Before each window, thrown away.
    pub warmup_seconds: f64,
    /// Of the servers.
    pub server_cpus: Vec<usize>,
    /// Of the generator and the backend.
    pub lab_cpus: Vec<usize>,
    /// They are the same.
    pub is_shared: bool,
    /// Labels of the servers by which the others are divided.
    pub references: Vec<String>,
    /// Servers and generator ran in containers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_docker: bool,
}

/// A scenario with its load.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Case {
    /// Its name.
    pub scenario: String,
    /// What it is about.
    pub what: String,
    /// At once.
    pub connections: u32,
    /// Requests a second that are sent whether or not answers come (open loop); `None`: closed loop.
    pub rate: Option<f64>,
    /// Whether the row is one of a sweep: assertions mean the others.
    pub is_sweep: bool,
    /// Labels by which this row's servers are divided, in place of those of the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<String>,
    /// One for each server.
    pub rows: Vec<Row>,
}

/// A server in a case.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Row {
    /// Its label: unique in a run.
    pub server: String,
    /// What it says of itself.
    pub version: String,
    /// What it has on and off.
    pub features: String,
    /// What it was configured with.
    pub config: String,
    /// Why there is `-` for it: it cannot do this.
    pub lacks: Option<String>,
    /// Why there is no number: a check failed.
    pub refused: Option<String>,
    /// What was measured, of a refused row too: not to be published then.
    pub windows: Vec<Window>,
}

/// One server under load, once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Window {
    /// From 1.
    pub round: u32,
    /// Whole answers, each checked.
    pub requests: u64,
    /// By the generator's clock.
    pub seconds: f64,
    /// Between both looks at the counters.
    pub counted_seconds: f64,
    /// Bytes of bodies.
    pub body_bytes: u64,
    /// Connections made.
    pub connects: u64,
    /// What the server's tree cost between both looks.
    pub cost: Counters,
    /// Its memory after the load, where this user may look.
    pub pss_bytes: Option<u64>,
    /// As the generator saw it.
    pub latency_us: Latency,
}

impl Window {
    /// Nanoseconds are exact as f64 up to 104 days.
    #[must_use]
    pub fn cpu_us_per_request(&self) -> f64 {
        self.cost.cpu_ns as f64 / 1_000.0 / self.requests as f64
    }

    /// A second.
    #[must_use]
    pub fn requests_per_second(&self) -> f64 {
        self.requests as f64 / self.seconds
    }

    /// Of all CPUs of the server: 1 is all the time.
    #[must_use]
    pub fn busy(&self, cpus: usize) -> f64 {
        self.cost.cpu_ns as f64 / 1e9 / self.counted_seconds / cpus as f64
    }
}

impl Row {
    /// Whether its numbers may be shown.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.refused.is_none() && self.lacks.is_none() && !self.windows.is_empty()
    }

    /// Over the rounds; `None` where nothing may be shown.
    #[must_use]
    pub fn spread(&self, of: impl Fn(&Window) -> f64) -> Option<Spread> {
        self.is_sound().then(|| Spread::of(self.windows.iter().map(of))).flatten()
    }

    /// CPU of a request by that of another row, round by round.
    #[must_use]
    pub fn ratio_to(&self, other: &Row) -> Option<Spread> {
        let values = |row: &Row| -> Vec<(u32, f64)> {
            row.windows.iter().map(|window| (window.round, window.cpu_us_per_request())).collect()
        };
        (self.is_sound() && other.is_sound())
            .then(|| statistics::ratio(&values(self), &values(other)))
            .flatten()
    }
}

impl Case {
    /// By whom its servers are divided.
    #[must_use]
    pub fn references<'a>(&'a self, conditions: &'a Conditions) -> &'a [String] {
        if self.references.is_empty() { &conditions.references } else { &self.references }
    }

    /// The row of that label.
    #[must_use]
    pub fn row(&self, server: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.server == server)
    }
}

impl Results {
    /// Every refusal: `scenario, server: reason`.
    #[must_use]
    pub fn refusals(&self) -> Vec<String> {
        let rows = self.cases.iter().flat_map(|case| case.rows.iter().map(move |row| (case, row)));
        rows.filter_map(|(case, row)| {
            Some(format!("{}, {}: {}", case.scenario, row.server, row.refused.as_ref()?))
        })
        .collect()
    }
}
