//! oha, the stranger's tool for latencies, where it is installed and speaks the row's protocol.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::result::Open;
use crate::Refusal;
use crate::load::{Latency, Plan};
use crate::place::Place;
use crate::scenario::Protocol;

/// A version or an image is asked for.
const QUICK: Duration = Duration::from_secs(30);
/// To connect and to write its report.
const GRACE: Duration = Duration::from_secs(60);
/// What it says of requests that were under way when its time was over: no fault of anybody's.
const AT_THE_END: &str = "aborted due to deadline";

/// Its version, if it is there and the row is one for it.
#[must_use]
pub fn find(place: &Place, plan: &Plan) -> Option<String> {
    if plan.protocol != Protocol::Http1 {
        return None;
    }
    let text = place.run(&["oha", "--version"], QUICK).ok()?;
    text.is_good.then(|| text.out.trim().to_owned())
}

/// Whether its image was built: it takes longer than all others together, so nobody has to.
#[must_use]
pub fn is_image_here(scratch: &Path) -> bool {
    let image = std::env::var("OHA_IMAGE").unwrap_or_else(|_| "scalws-oha:local".to_owned());
    let words = ["docker", "image", "inspect", &image];
    Place::here(scratch).run(&words, QUICK).is_ok_and(|text| text.is_good)
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
    let text = place.need(&words, Duration::from_secs_f64(seconds) + GRACE)?;
    let mut open = read(&text.out, plan.expect.status)?;
    open.rate = rate.round();
    open.tool = version.to_owned();
    Ok(open)
}

/// Its JSON: seconds become microseconds.
///
/// # Errors
/// It is another form, a request failed, or there was an answer of another status.
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
    let errors = all.pointer("/errorDistribution").and_then(Value::as_object);
    if let Some(error) = errors.and_then(|errors| errors.keys().find(|error| *error != AT_THE_END)) {
        return Err(Refusal::new(format!("oha had failed requests: {error}")));
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
