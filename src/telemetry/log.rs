//! Events: what the operator should know, on stderr, as JSON lines or as text on a terminal.
//!
//! Process-wide, because every room may have something to say and none may wait for it.

use std::io::IsTerminal;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Map, Value, json};

use crate::semantics::date;
use crate::sys::clock;
use crate::telemetry::sink::{Sink, Voice};

/// How much an event matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Part of a normal life.
    Info,
    /// Something was refused or lost, the server goes on.
    Warn,
    /// Something that the operator has to repair.
    Error,
}

impl Level {
    fn as_str(self) -> &'static str {
        match self {
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Error => "error",
        }
    }
}

/// Time between two lines of one throttled event.
const THROTTLE_MS: u64 = 1000;
/// Events that wait for a reader of stderr; more are dropped and counted.
const QUEUED_BYTES_MAX: u64 = 1 << 20;

static SINK: OnceLock<(Sink, bool)> = OnceLock::new();

/// Starts the log thread. Events before it, or without it, are dropped: tests of the library.
///
/// # Errors
/// The thread cannot be started.
pub fn start() -> std::io::Result<()> {
    let as_text = std::io::stderr().is_terminal();
    let loss = |lost: u64| {
        let lost = json!({ "lines": lost });
        line(Level::Warn, "log lines lost", &lost, false)
    };
    // Where stderr itself fails there is nobody left to tell.
    let voice = Voice { target: "stderr".to_owned(), loss_record: loss, on_change: |_, _| {} };
    let sink = Sink::start("log", std::io::stderr(), QUEUED_BYTES_MAX, voice)?;
    let _ = SINK.set((sink, as_text));
    Ok(())
}

/// Writes one event: a short constant name, and an object with what differs.
pub fn event(level: Level, name: &'static str, fields: &Value) {
    if let Some((sink, as_text)) = SINK.get() {
        sink.send(line(level, name, fields, *as_text), 1);
    }
}

/// Keeps an event that may come with every request to one line a second, with the number of times.
#[derive(Debug, Default)]
pub struct Throttle {
    last_ms: AtomicU64,
    times: AtomicU64,
}

impl Throttle {
    /// For a `static`.
    #[must_use]
    pub const fn new() -> Throttle {
        Throttle { last_ms: AtomicU64::new(0), times: AtomicU64::new(0) }
    }

    /// Writes the event, or counts it for the line that a later one will write; says whether it wrote.
    pub fn event(&self, level: Level, name: &'static str, mut fields: Value) -> bool {
        let times = self.times.fetch_add(1, Ordering::Relaxed) + 1;
        let (now, last) = (clock::monotonic_coarse_ms(), self.last_ms.load(Ordering::Relaxed));
        let is_due = now.saturating_sub(last) >= THROTTLE_MS || last == 0;
        let is_mine =
            is_due && self.last_ms.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if is_mine {
            self.times.fetch_sub(times, Ordering::Relaxed);
            fields["times"] = times.into();
            event(level, name, &fields);
        }
        is_mine
    }
}

/// Lines that nobody took in time, since the start.
#[must_use]
pub fn lost_lines() -> u64 {
    SINK.get().map_or(0, |(sink, _)| sink.lost_lines())
}

/// Waits for the queue at the end of the process, within a bound.
pub fn flush() {
    if let Some((sink, _)) = SINK.get() {
        sink.flush();
    }
}

fn line(level: Level, name: &str, fields: &Value, as_text: bool) -> Vec<u8> {
    let (seconds, milliseconds) = clock::wall_coarse();
    let time = date::rfc3339(seconds, milliseconds);
    let empty = Map::new();
    let fields = fields.as_object().unwrap_or(&empty);
    let mut text = if as_text {
        let mut text = format!("{time} {:5} {name}", level.as_str());
        for (key, value) in fields {
            text.push_str(&format!(" {key}={value}"));
        }
        text
    } else {
        let mut object = Map::new();
        object.insert("timestamp".into(), time.into());
        object.insert("level".into(), level.as_str().into());
        object.insert("event".into(), name.into());
        object.extend(fields.iter().map(|(key, value)| (key.clone(), value.clone())));
        Value::Object(object).to_string()
    };
    text.push('\n');
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_whatever_it_holds() {
        let fields = json!({ "path": "a\nb\u{1b}[31m", "count": 3 });
        let json = String::from_utf8(line(Level::Warn, "x", &fields, false)).unwrap();
        assert_eq!(json.matches('\n').count(), 1);
        let object: Value = serde_json::from_str(&json).unwrap();
        assert_eq!((&object["event"], &object["count"]), (&json!("x"), &json!(3)));
        let text = String::from_utf8(line(Level::Info, "x", &fields, true)).unwrap();
        assert!(text.ends_with("info  x path=\"a\\nb\\u001b[31m\" count=3\n"), "{text}");
    }
}
