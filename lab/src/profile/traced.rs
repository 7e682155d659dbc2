//! The window of `--traces`: all requests of a load have spans, perf samples meanwhile, and what was on a CPU while
//! slow requests ran is cut out of the samples (docs/adr/0038-requests-beside-the-flamegraph.md).

use std::path::Path;

use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::record::{self, Walk};
use super::stacks::{Folded, Record, What};
use super::windows::{Course, WARM_UP_SECONDS, picture};
use crate::Refusal;
use crate::traces::phases::{self, Histogram};
use crate::traces::{Compact, Request, Told};

/// Rows of the table.
pub const SLOWEST: usize = 20;
/// The flamegraph is of the slowest of so many, and of no fewer than the table has.
const SLOW_ONE_OF: usize = 100;
/// Of what the server reached in the closed loop: a saturated one shows its queue and little else, and perf, generator
/// and collector have the lab's CPUs together: at half of it the row of 1 MiB was not held.
const SHARE: f64 = 0.1;
/// Requests a second: each has a span of some 500 bytes, which the server's own CPU has to send.
const RATE_MAX: f64 = 5_000.0;
/// The wall clock against the monotonic one, before the window and after it: more was a step, and spans could not be
/// laid over samples.
const STEP_NS_MAX: u64 = 1_000_000;

/// What was found.
#[derive(Debug, Serialize, Deserialize)]
pub struct Traces {
    /// Requests a second of the load.
    pub rate: f64,
    /// How long perf recorded.
    pub seconds: f64,
    /// Requests that ran while it did, by their spans: all below is about them.
    pub requests: u64,
    /// All spans of the server, warm-up included, in its own words.
    pub told: Told,
    /// The slowest of them, the slowest first.
    pub slowest: Vec<Request>,
    /// Where their time went.
    pub phases: Vec<Histogram>,
    /// What was on a CPU meanwhile.
    pub cut: Cut,
    /// File beside the page with all of them.
    pub file: String,
}

/// The samples within the time of slow requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// Slow requests.
    pub requests: u64,
    /// The shortest of them.
    pub from_us: u64,
    /// Those with a sample in their time.
    pub seen: u64,
    /// Their time, what ran at once counted once.
    pub time_us: u64,
    /// Samples in it.
    pub samples: u64,
    /// Of so many.
    pub samples_of: u64,
    /// Flamegraph and folded stacks beside the page; both are empty where there is no sample.
    pub files: (String, String),
}

/// The window, before anybody knows what the spans say.
pub struct Seen {
    records: Vec<Record>,
    rate: f64,
    seconds: f64,
    offset_ns: i64,
    name: String,
    event: &'static str,
}

/// The rate of the load for a server that reached so much.
#[must_use]
pub fn rate(reached: f64) -> f64 {
    (reached * SHARE).clamp(1.0, RATE_MAX)
}

/// Runs the window against a server whose spans somebody takes.
///
/// # Errors
/// An answer is wrong, perf fails, or the clock was set meanwhile.
pub fn look(course: &mut Course<'_>, rate: f64) -> Result<Seen, Refusal> {
    let (seconds, name) = (course.seconds, course.subject.name());
    (course.say)(&format!("{name}: traces, {seconds} s at {rate:.0} requests a second"));
    let event = record::event(course.subject.place())?;
    let walk = course.walk.unwrap_or(Walk::Tables);
    course.edge()?;
    course.load(WARM_UP_SECONDS, Some(rate))?;
    let before = wall_offset_ns()?;
    let (records, _) = course.within(seconds, Some(rate), |perf| perf.on_cpu(event, walk, seconds))?;
    let offset_ns = wall_offset_ns()?;
    if before.abs_diff(offset_ns) > STEP_NS_MAX {
        return Err(Refusal::new("the wall clock was set while requests were looked at: run it again"));
    }
    course.edge()?;
    Ok(Seen { records, rate, seconds, offset_ns, name, event })
}

/// What the wall clock is ahead of the monotonic one. The server dates its spans by the same difference, and perf was
/// told to use the monotonic clock, so that this lays samples over spans. NTP slews both clocks alike; a step moves the
/// wall clock alone. Containers have the clocks of this machine.
fn wall_offset_ns() -> Result<i64, Refusal> {
    let at = |clock: ClockId| {
        let time = clock_gettime(clock).map_err(|error| Refusal::new(format!("clock_gettime: {error}")))?;
        Ok::<i64, Refusal>(time.tv_sec() * 1_000_000_000 + time.tv_nsec())
    };
    Ok(at(ClockId::CLOCK_REALTIME)? - at(ClockId::CLOCK_MONOTONIC)?)
}

impl Seen {
    /// Once the server has ended: lays its spans beside the samples, and writes the files.
    ///
    /// # Errors
    /// No span came, or the disk says so.
    pub fn finish(self, spans: &Compact, log: &str, folder: &Path) -> Result<Traces, Refusal> {
        let Seen { records, rate, seconds, offset_ns, name, event } = self;
        let told = Told::read(log)
            .ok_or_else(|| Refusal::new(format!("{name} ended without a word about its spans")))?;
        let requests = within(spans.read(), &records, offset_ns);
        if requests.is_empty() {
            return Err(Refusal::new(format!("no span of a request came ({told})")));
        }
        let (mut cut, folded) = cut(&records, &requests, offset_ns);
        let title = format!("{name}: on CPU while slow requests ran ({event}, {} Hz)", record::FREQUENCY);
        cut.files = picture(folder, &name, "slow-requests", &folded, (&title, "samples"))?;
        let traces = Traces {
            rate,
            seconds,
            requests: requests.len() as u64,
            told,
            slowest: phases::slowest(&requests, SLOWEST).into_iter().cloned().collect(),
            phases: phases::histograms(&requests),
            cut,
            file: format!("{name}-traces.json"),
        };
        let compact = Compact::of(requests, spans.spans, spans.not_kept);
        let text = serde_json::to_string(&compact).map_err(|error| Refusal::new(error.to_string()))?;
        let path = folder.join(&traces.file);
        std::fs::write(&path, text + "\n")
            .map_err(|error| Refusal::new(format!("{}: {error}", path.display())))?;
        Ok(traces)
    }
}

fn samples(records: &[Record]) -> impl Iterator<Item = &Record> {
    records.iter().filter(|record| matches!(record.what, What::Sample(_)))
}

/// Nanoseconds since 1970 of a record.
fn unix_ns(record: &Record, offset_ns: i64) -> u64 {
    record.at_ns.saturating_add_signed(offset_ns)
}

/// The requests that ran between the first sample and the last: perf begins after the load and ends before it, and
/// of the others nobody can say what was on a CPU. All of them where there is no sample at all.
fn within(requests: Vec<Request>, records: &[Record], offset_ns: i64) -> Vec<Request> {
    let times = || samples(records).map(|record| unix_ns(record, offset_ns));
    let (Some(first), Some(last)) = (times().min(), times().max()) else { return requests };
    requests.into_iter().filter(|one| one.start_ns >= first && one.end_ns() <= last).collect()
}

/// The samples in the time of the slowest requests, of all threads of the server: of a request that waits it is the
/// others who run.
#[must_use]
pub fn cut(records: &[Record], requests: &[Request], offset_ns: i64) -> (Cut, Folded) {
    let slow = phases::slowest(requests, (requests.len() / SLOW_ONE_OF).max(SLOWEST));
    let mut windows: Vec<(u64, u64)> = slow.iter().map(|one| (one.start_ns, one.end_ns())).collect();
    windows.sort_unstable();
    let mut merged: Vec<(u64, u64)> = Vec::new();
    for (start, end) in windows {
        match merged.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => merged.push((start, end)),
        }
    }
    let is_in = |at: u64| {
        let next = merged.partition_point(|(start, _)| *start <= at);
        next > 0 && at <= merged[next - 1].1
    };
    let inside: Vec<Record> =
        samples(records).filter(|record| is_in(unix_ns(record, offset_ns))).cloned().collect();
    let mut times: Vec<u64> = inside.iter().map(|record| unix_ns(record, offset_ns)).collect();
    times.sort_unstable();
    let is_seen = |one: &&&Request| {
        let next = times.partition_point(|at| *at < one.start_ns);
        times.get(next).is_some_and(|at| *at <= one.end_ns())
    };
    let found = Cut {
        requests: slow.len() as u64,
        from_us: slow.last().map_or(0, |one| one.us),
        seen: slow.iter().filter(is_seen).count() as u64,
        time_us: merged.iter().map(|(start, end)| (end - start) / 1_000).sum(),
        samples: inside.len() as u64,
        samples_of: samples(records).count() as u64,
        files: (String::new(), String::new()),
    };
    (found, Folded::of(&inside))
}
