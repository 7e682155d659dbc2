//! oha, the stranger's tool for latencies, where it is installed and speaks the row's protocol.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::result::Open;
use crate::Refusal;
use crate::load::{Latency, Plan};
use crate::place::Place;
use crate::scenario::Protocol;

/// Its version, if it is here and the row is one for it.
#[must_use]
pub fn find(plan: &Plan) -> Option<String> {
    if plan.protocol != Protocol::Http1 {
        return None;
    }
    let output = Command::new("oha").arg("--version").output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Drives at a fixed rate; latencies from the time each request was due (`--latency-correction`).
///
/// # Errors
/// It fails, or an answer had another status.
pub fn run(place: &Place, version: &str, plan: &Plan, seconds: f64, rate: f64) -> Result<Open, Refusal> {
    let mut lines = plan.request.split("\r\n");
    let target = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap_or("/");
    let url = format!("http://{}{target}", plan.address);
    let (time, connections, rate_text) =
        (format!("{seconds}s"), plan.connections.to_string(), format!("{}", rate.round()));
    let mut words = vec![
        "oha",
        "--no-tui",
        "--output-format",
        "json",
        "--latency-correction",
        "--disable-compression",
        "-z",
        &time,
        "-c",
        &connections,
        "-q",
        &rate_text,
    ];
    for field in lines.filter(|line| !line.is_empty() && !line.to_ascii_lowercase().starts_with("host:")) {
        words.extend(["-H", field]);
    }
    words.push(&url);
    let text = place.need(&words, Duration::from_secs_f64(seconds) + Duration::from_secs(60))?;
    let mut open = read(&text.out, plan.expect.status)?;
    open.rate = rate.round();
    open.tool = version.to_owned();
    Ok(open)
}

/// Its JSON: seconds become microseconds.
///
/// # Errors
/// It is another form, or there was an answer of another status.
pub fn read(text: &str, status: u16) -> Result<Open, Refusal> {
    let all: Value =
        serde_json::from_str(text).map_err(|error| Refusal::new(format!("oha's report: {error}")))?;
    let number = |path: &str| {
        let found = all.pointer(path).and_then(Value::as_f64);
        found.ok_or_else(|| Refusal::new(format!("oha's report has no number at {path}")))
    };
    let statuses = all.pointer("/statusCodeDistribution").and_then(Value::as_object);
    let others = statuses.is_none_or(|statuses| statuses.keys().any(|key| *key != status.to_string()));
    if others {
        return Err(Refusal::new(format!("oha had answers with another status than {status}")));
    }
    let micros = |path: &str| number(path).map(|seconds| (seconds * 1e6).round() as u64);
    Ok(Open {
        rate: 0.0,
        reached: number("/summary/requestsPerSec")?,
        tool: "oha".to_owned(),
        latency_us: Latency {
            p50: micros("/latencyPercentiles/p50")?,
            p90: micros("/latencyPercentiles/p90")?,
            p99: micros("/latencyPercentiles/p99")?,
            p99_9: micros("/latencyPercentiles/p99.9")?,
            max: micros("/summary/slowest")?,
        },
    })
}
