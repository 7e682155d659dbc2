//! The access log: one line a request, in a buffer of the worker, handed to the log thread when it is
//! full and once a second. Names are those of the OpenTelemetry HTTP conventions.
//!
//! Nothing of a request can break out of its line: everything outside printable ASCII is escaped.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::IpAddr;

use serde_json::json;

use crate::config::checked::AccessFormat;
use crate::semantics::date;
use crate::sys::clock;
use crate::telemetry::identity::{Identity, push_hexadecimal};
use crate::telemetry::log::{self, Level};
use crate::telemetry::sink::{Sink, Voice};

/// Buffered bytes at which a worker hands its lines over without waiting for the tick.
const BATCH_BYTES: usize = 32 * 1024;
/// Longest target, referer or user agent in a line; the rest is cut and marked.
const VALUE_BYTES_MAX: usize = 2048;

/// What is known of a request when it ends. Empty strings stand for what was not sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Entry<'a> {
    /// Method token as sent.
    pub method: &'a [u8],
    /// Request target as sent.
    pub target: &'a [u8],
    /// `1.0`, `1.1`; empty for a head that could not be read.
    pub version: &'static str,
    /// Host as sent.
    pub host: &'a [u8],
    /// Referer field.
    pub referer: &'a [u8],
    /// User-Agent field.
    pub user_agent: &'a [u8],
    /// Status of the answer; 0 when there was none.
    pub status: u16,
    /// Bytes of the body that were handed to the kernel.
    pub body_bytes: u64,
    /// From the complete head to the end of the answer, in microseconds.
    pub duration_us: u64,
    /// Why the answer ended early; empty when it did not.
    pub error: &'static str,
    /// Its ids, where it has some.
    pub known_as: Option<&'a Identity>,
}

/// One worker's end of the access log.
pub struct AccessLog {
    format: AccessFormat,
    sink: Option<Sink>,
    lines: RefCell<Vec<u8>>,
    count: Cell<u64>,
    /// Time stamp of the last line in its form, and the second (or millisecond) that it stands for.
    stamp: RefCell<(i64, u32, String)>,
}

/// How the log of this format, written to `target`, speaks about itself.
#[must_use]
pub fn voice(format: AccessFormat, target: String) -> Voice {
    let loss_record = match format {
        AccessFormat::Combined => |lost: u64| format!("# {lost} access-log lines lost\n").into_bytes(),
        _ => |lost: u64| format!("{{\"event\":\"access-log lines lost\",\"lines\":{lost}}}\n").into_bytes(),
    };
    let on_change = |target: &str, error: Option<&io::Error>| match error {
        None => log::event(Level::Info, "access log works again", &json!({ "target": target })),
        Some(error) => {
            let hint = match error.kind() {
                io::ErrorKind::BrokenPipe => "nobody reads it: lines are dropped and counted",
                _ => "make room: lines are dropped and counted until there is some",
            };
            let fields = json!({ "target": target, "error": error.to_string(), "hint": hint });
            log::event(Level::Error, "access log fails", &fields);
        }
    };
    Voice { target, loss_record, on_change }
}

impl AccessLog {
    /// Lines go to `sink`; without one nothing is formatted.
    #[must_use]
    pub fn new(format: AccessFormat, sink: Option<Sink>) -> AccessLog {
        let sink = sink.filter(|_| format != AccessFormat::Off);
        let stamp = RefCell::new((i64::MIN, 0, String::new()));
        AccessLog { format, sink, lines: RefCell::default(), count: Cell::new(0), stamp }
    }

    /// Whether lines are wanted: where they are not, nobody needs to keep a head for them.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.sink.is_some()
    }

    /// Adds a line.
    pub fn record(&self, client: IpAddr, entry: &Entry<'_>) {
        if !self.is_on() {
            return;
        }
        let mut lines = self.lines.borrow_mut();
        self.stamp_now();
        match self.format {
            AccessFormat::Combined => combined(&mut lines, &self.stamp.borrow().2, client, entry),
            _ => json(&mut lines, &self.stamp.borrow().2, client, entry),
        }
        self.count.set(self.count.get() + 1);
        let is_full = lines.len() >= BATCH_BYTES;
        drop(lines);
        if is_full {
            self.hand_over();
        }
    }

    /// Hands the buffered lines to the log thread.
    pub fn hand_over(&self) {
        let Some(sink) = &self.sink else { return };
        let lines = self.lines.take();
        if lines.capacity() > 0 {
            sink.send(lines, self.count.replace(0));
        }
    }

    fn stamp_now(&self) {
        let (seconds, milliseconds) = clock::wall_coarse();
        let mut stamp = self.stamp.borrow_mut();
        if (stamp.0, stamp.1) != (seconds, milliseconds) {
            let text = match self.format {
                AccessFormat::Combined => date::common_log(seconds),
                _ => date::rfc3339(seconds, milliseconds),
            };
            *stamp = (seconds, milliseconds, text);
        }
    }
}

fn json(out: &mut Vec<u8>, stamp: &str, client: IpAddr, entry: &Entry<'_>) {
    let (path, query) = match memchr::memchr(b'?', entry.target) {
        Some(at) => (&entry.target[..at], &entry.target[at + 1..]),
        None => (entry.target, &[] as &[u8]),
    };
    out.extend_from_slice(b"{\"timestamp\":\"");
    out.extend_from_slice(stamp.as_bytes());
    out.extend_from_slice(b"\",\"client.address\":\"");
    push_display(out, client.to_canonical());
    out.push(b'"');
    for (name, value) in [
        ("http.request.method", entry.method),
        ("url.path", path),
        ("url.query", query),
        ("network.protocol.version", entry.version.as_bytes()),
        ("server.address", entry.host),
    ] {
        json_text(out, name, value);
    }
    for (name, value) in [
        ("http.response.status_code", u64::from(entry.status)),
        ("http.response.body.size", entry.body_bytes),
        ("duration_us", entry.duration_us),
    ] {
        out.extend_from_slice(b",\"");
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\":");
        push_display(out, value);
    }
    json_text(out, "http.request.header.referer", entry.referer);
    json_text(out, "user_agent.original", entry.user_agent);
    json_text(out, "error.type", entry.error.as_bytes());
    if let Some(identity) = entry.known_as {
        json_ids(out, identity);
    }
    out.extend_from_slice(b"}\n");
}

/// The ids of a request: those that it has.
fn json_ids(out: &mut Vec<u8>, identity: &Identity) {
    json_text(out, "request_id", &identity.request_id);
    for (name, number, digits) in
        [("trace_id", identity.trace_id, 32), ("span_id", u128::from(identity.span_id), 16)]
    {
        if number != 0 {
            out.extend_from_slice(b",\"");
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"\":\"");
            push_hexadecimal(out, number, digits);
            out.push(b'"');
        }
    }
}

/// `,"name":"value"`, nothing for an empty value.
fn json_text(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    if value.is_empty() {
        return;
    }
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":\"");
    escape(out, value, |out, byte| match byte {
        b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
        // Bytes above ASCII as the code points of Latin-1: readable where it was that, and no byte is lost.
        _ => push_display(out, format_args!("\\u{byte:04x}")),
    });
    out.push(b'"');
}

fn combined(out: &mut Vec<u8>, stamp: &str, client: IpAddr, entry: &Entry<'_>) {
    let quoted = |out: &mut Vec<u8>, value: &[u8]| {
        let value = if value.is_empty() { b"-" as &[u8] } else { value };
        escape(out, value, |out, byte| push_display(out, format_args!("\\x{byte:02X}")));
    };
    push_display(out, client.to_canonical());
    push_display(out, format_args!(" - - [{stamp}] \""));
    quoted(out, entry.method);
    out.push(b' ');
    quoted(out, entry.target);
    if !entry.version.is_empty() {
        push_display(out, format_args!(" HTTP/{}", entry.version));
    }
    push_display(out, format_args!("\" {} {} \"", entry.status, entry.body_bytes));
    quoted(out, entry.referer);
    out.extend_from_slice(b"\" \"");
    quoted(out, entry.user_agent);
    out.extend_from_slice(b"\"\n");
}

fn escape(out: &mut Vec<u8>, value: &[u8], special: impl Fn(&mut Vec<u8>, u8)) {
    let cut = &value[..value.len().min(VALUE_BYTES_MAX)];
    for byte in cut {
        match byte {
            b'"' | b'\\' => special(out, *byte),
            0x20..=0x7e => out.push(*byte),
            _ => special(out, *byte),
        }
    }
    if cut.len() < value.len() {
        out.extend_from_slice(b"...");
    }
}

fn push_display(out: &mut Vec<u8>, value: impl std::fmt::Display) {
    use std::io::Write;
    write!(out, "{value}").expect("writing to memory cannot fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: Entry<'_> = Entry {
        method: b"GET",
        target: b"/a\"\\?q=1\x1b\xe9",
        version: "1.1",
        host: b"h",
        referer: b"",
        user_agent: b"x\r\n{\"a\":1}",
        status: 200,
        body_bytes: 7,
        duration_us: 12,
        error: "",
        known_as: None,
    };

    #[test]
    fn a_json_line_is_one_object_whatever_was_sent() {
        let mut out = Vec::new();
        json(&mut out, "T", IpAddr::from([127, 0, 0, 1]), &ENTRY);
        assert_eq!(out.iter().filter(|byte| **byte == b'\n').count(), 1);
        let line: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(line["url.path"], "/a\"\\");
        assert_eq!(line["url.query"], "q=1\u{1b}\u{e9}");
        assert_eq!(line["user_agent.original"], "x\r\n{\"a\":1}");
        assert_eq!(line["http.response.status_code"], 200);
        assert!(line.get("http.request.header.referer").is_none());
    }

    #[test]
    fn a_request_is_logged_with_the_ids_that_it_has() {
        let line = |identity: &Identity| {
            let mut out = Vec::new();
            json(&mut out, "T", IpAddr::from([127, 0, 0, 1]), &Entry { known_as: Some(identity), ..ENTRY });
            serde_json::from_slice::<serde_json::Value>(&out).unwrap()
        };
        let all = Identity {
            trace_id: 0xab,
            span_id: 1,
            request_id: b"r-1".as_slice().into(),
            ..Identity::default()
        };
        let found = line(&all);
        assert_eq!(found["trace_id"], "000000000000000000000000000000ab");
        assert_eq!((&found["span_id"], &found["request_id"]), (&"0000000000000001".into(), &"r-1".into()));
        let none = line(&Identity::default());
        assert!(["trace_id", "span_id", "request_id"].iter().all(|name| none.get(name).is_none()));
    }

    #[test]
    fn a_combined_line_cannot_be_forged() {
        let mut out = Vec::new();
        let mapped: IpAddr = "::ffff:192.0.2.1".parse().unwrap();
        combined(&mut out, "T", mapped, &ENTRY);
        let expected = "192.0.2.1 - - [T] \"GET /a\\x22\\x5C?q=1\\x1B\\xE9 HTTP/1.1\" 200 7 \"-\" \"x\\x0D\\x0A{\\x22a\\x22:1}\"\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
