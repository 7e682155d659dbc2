//! perf's own runs: counting, tracing, recording, and what comes out as text. Each lasts as long as the
//! `sleep` behind it, so that none is left over and none has to be told to stop.

use std::time::Duration;

use super::counts::{self, Call};
use super::stacks::{self, Record};
use crate::Refusal;
use crate::place::Place;

/// Samples a second: a prime, so that it does not beat with timers of the server.
pub const FREQUENCY: &str = "997";
/// What is counted in the kernel, without a word for each event.
const COUNTED: &str =
    "task-clock,context-switches,cpu-migrations,page-faults,minor-faults,major-faults,raw_syscalls:sys_enter";
/// Hardware counters, where the machine has them.
const HARDWARE: &str = "cycles,instructions,cache-misses,branch-misses";
/// Of a recording: it ends there.
const SIZE_MAX: &str = "512M";
/// Symbols of a large binary on a busy machine.
const SCRIPT_TIME: Duration = Duration::from_secs(180);
/// For a tool to write its file after its time.
const GRACE: Duration = Duration::from_secs(60);

fn most(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds) + GRACE
}

/// Events in the order in which they were asked for; `None`: this machine does not count it.
pub type Counted = Vec<(String, Option<f64>)>;

/// perf against one process tree.
#[derive(Debug)]
pub struct Perf<'a> {
    /// Where it runs.
    pub place: &'a Place,
    /// Processes, with commas.
    pub pids: String,
}

/// What `perf record` left where it ran.
#[derive(Debug)]
pub struct Recording {
    file: String,
    shown: &'static [&'static str],
}

/// How stacks are walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Walk {
    /// By frame pointers: cheap, and blind behind those wrappers of the C library that use the register
    /// for something else (send, recv, preadv2): 6 of 10 stacks of static-small lost their callers.
    FramePointers,
    /// By unwind tables: copies 32 KiB of stack with each sample. With 16 KiB 9 of 10 stacks were cut off,
    /// with 32 none.
    Tables,
}

impl Walk {
    /// As `perf record --call-graph` has it.
    #[must_use]
    pub fn argument(self) -> &'static str {
        match self {
            Walk::FramePointers => "fp",
            Walk::Tables => "dwarf,32768",
        }
    }
}

/// The event to sample: cycles where the machine counts them.
///
/// # Errors
/// perf does not run.
pub fn event(place: &Place) -> Result<&'static str, Refusal> {
    let text = place.run(&["perf", "stat", "-x,", "-e", "cycles", "true"], GRACE)?;
    let has = counts::perf_stat(&text.err).into_iter().any(|(_, count)| count.is_some());
    Ok(if has { "cycles" } else { "cpu-clock" })
}

impl Perf<'_> {
    /// Of events under way. Without CAP_IPC_LOCK, which the container does not have, half a MiB is the most.
    fn buffer(&self) -> &'static str {
        if self.place.is_container() { "512K" } else { "16M" }
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.place.recordings)
    }

    /// Counts, in the order of the request.
    ///
    /// # Errors
    /// perf fails.
    pub fn count(&self, seconds: f64) -> Result<Counted, Refusal> {
        let (events, time) = (format!("{COUNTED},{HARDWARE}"), seconds.to_string());
        let words = ["perf", "stat", "-x,", "-e", &events, "-p", &self.pids, "--", "sleep", &time];
        let text = self.place.need(&words, most(seconds))?;
        let counts = counts::perf_stat(&text.err);
        let order = events.split(',').map(|event| (event.to_owned(), counts.get(event).copied().flatten()));
        Ok(order.collect())
    }

    /// System calls by name: lost events and rows, of which there are none where it gives no table.
    ///
    /// # Errors
    /// perf cannot be started.
    pub fn trace(&self, seconds: f64) -> Result<(u64, Vec<Call>), Refusal> {
        let time = seconds.to_string();
        let words = ["perf", "trace", "-s", "-m", self.buffer(), "-p", &self.pids, "--", "sleep", &time];
        let text = self.place.run(&words, most(seconds))?;
        let all = format!("{}\n{}", text.out, text.err);
        Ok((counts::lost(&all), counts::perf_trace(&all)))
    }

    /// The same by strace.
    ///
    /// # Errors
    /// It gives no table either.
    pub fn strace(&self, seconds: f64) -> Result<Vec<Call>, Refusal> {
        let (table, time) = (self.path("strace.txt"), seconds.to_string());
        let mut words = vec!["timeout", "-s", "INT", &time, "strace", "-f", "-c", "-o", &table];
        for pid in self.pids.split(',') {
            words.extend(["-p", pid]);
        }
        self.place.run(&words, most(seconds))?;
        let rows = counts::strace(&self.place.need(&["cat", &table], GRACE)?.out);
        if rows.is_empty() {
            return Err(Refusal::new(
                "system calls cannot be counted by name: `perf trace -s` gave no table, nor did `strace -c`",
            ));
        }
        Ok(rows)
    }

    /// Samples on the CPU, into a file to be [`Perf::read`]. Their times are those of CLOCK_MONOTONIC, as perf's own
    /// clock is nobody else's.
    ///
    /// # Errors
    /// perf fails.
    pub fn on_cpu(&self, event: &str, walk: Walk, seconds: f64) -> Result<Recording, Refusal> {
        let (file, time) = (self.path("on.data"), seconds.to_string());
        let graph = walk.argument();
        let words = [
            "perf",
            "record",
            "-e",
            event,
            "-F",
            FREQUENCY,
            "-k",
            "CLOCK_MONOTONIC",
            "--call-graph",
            graph,
            "-m",
            self.buffer(),
            "--max-size",
            SIZE_MAX,
            "-o",
            &file,
            "-p",
            &self.pids,
            "--",
            "sleep",
            &time,
        ];
        self.place.need(&words, most(seconds))?;
        Ok(Recording { file, shown: &[] })
    }

    /// Switches with stacks and their reasons, into a file.
    ///
    /// # Errors
    /// perf fails.
    pub fn off_cpu(&self, walk: Walk, seconds: f64) -> Result<Recording, Refusal> {
        let (file, time) = (self.path("off.data"), seconds.to_string());
        let graph = walk.argument();
        let words = [
            "perf",
            "record",
            "-e",
            "sched:sched_switch",
            "--switch-events",
            "--call-graph",
            graph,
            "-m",
            self.buffer(),
            "--max-size",
            SIZE_MAX,
            "-o",
            &file,
            "-p",
            &self.pids,
            "--",
            "sleep",
            &time,
        ];
        self.place.need(&words, most(seconds))?;
        Ok(Recording { file, shown: &["--show-switch-events"] })
    }

    /// While the server lives: perf takes its binary from `/proc/PID/root`.
    ///
    /// # Errors
    /// perf fails.
    pub fn read(&self, recording: &Recording) -> Result<Vec<Record>, Refusal> {
        let mut words = vec!["perf", "script", "-i", &recording.file];
        words.extend(stacks::SCRIPT_FIELDS);
        words.extend(recording.shown);
        let text = self.place.need(&words, SCRIPT_TIME)?;
        self.place.need(&["rm", "-f", &recording.file], GRACE)?;
        Ok(stacks::read(&text.out))
    }
}
