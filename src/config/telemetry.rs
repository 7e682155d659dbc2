//! `[telemetry]`, and the standard variables of OpenTelemetry beside it.
//!
//! What those variables say that makes no sense is a warning and has no effect, as their specification wants
//! it; what the table says is checked like the rest of the config. No key of the table repeats a variable.

use std::time::Duration;

use super::checked::{Protocol, Sampler, Telemetry, Traces};
use super::error::Origin;
use super::expand::Environment;
use super::keys::{SLOW_MS_MAX, TRACES_WORDS};
use super::raw::{Node, Table};
use super::report::Report;
use super::units;
use crate::limits::{
    SPAN_BATCH_LIMIT, SPAN_BATCH_MAX, SPAN_DELAY_MS, SPAN_QUEUE_LIMIT, SPAN_QUEUE_MAX, SPAN_TIMEOUT_MS,
};

/// Paths beneath which collectors take spans (the OTLP specification).
const HTTP_PATH: &str = "/v1/traces";
const GRPC_ENDPOINT: &str = "http://localhost:4317";
const HTTP_ENDPOINT: &str = "http://localhost:4318";

pub(super) fn read(root: &Table, environment: &Environment, report: &mut Report<'_>) -> Telemetry {
    let table = report.table(root, "telemetry");
    let here = ("telemetry", table);
    let read_word = |report: &mut Report<'_>, node: &Node| report.word(node, TRACES_WORDS, "");
    let wanted = report.value(here, "traces", "auto", read_word, |word| format!("{word:?}"));
    let slow_ms = table.get("slow").and_then(|node| {
        let slow_ms = report.duration_ms(node, 0, SLOW_MS_MAX)?;
        report.set("telemetry.slow", format!("{:?}", units::show_ms(slow_ms)), Some(node));
        Some(slow_ms)
    });
    let mut yes_or_no = |name, default| {
        let read = |report: &mut Report<'_>, node: &Node| report.boolean(node);
        report.value(here, name, default, read, |value: &bool| value.to_string())
    };
    let (errors, request_id) = (yes_or_no("errors", true), yes_or_no("request_id", false));
    let mut variables = Variables { environment, report };
    let is_on = match wanted {
        "on" => true,
        "off" => false,
        _ => variables.ask_for_traces(),
    };
    // Said once, and not for what nobody asked for.
    let traces = is_on.then(|| variables.traces()).flatten();
    let slow = slow_ms.map(Duration::from_millis);
    Telemetry { traces: traces.map(|traces| Traces { slow, errors, ..traces }), request_id }
}

/// The variables, and where to say what is wrong with them.
struct Variables<'v, 'r> {
    environment: &'v Environment,
    report: &'v mut Report<'r>,
}

impl Variables<'_, '_> {
    /// A variable that is set; an empty one is not (the specification).
    fn get(&self, name: &str) -> Option<&str> {
        self.environment.get(name)?.to_str().filter(|value| !value.is_empty())
    }

    /// The first of several names for the same.
    fn first(&self, names: [&'static str; 2]) -> Option<(&'static str, String)> {
        names.into_iter().find_map(|name| Some((name, self.get(name)?.to_owned())))
    }

    fn warn(&mut self, name: &str, expected: &str) {
        let message = format!("expected {expected}; it has no effect");
        self.report.warning(&Origin::Variable(name.to_owned()), &message);
    }

    /// Nobody who did not name a collector, or asked for this exporter, is connected to one.
    fn ask_for_traces(&mut self) -> bool {
        if self.get("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return false;
        }
        match self.get("OTEL_TRACES_EXPORTER") {
            Some("otlp") => true,
            Some("none") => false,
            Some(_) => {
                self.warn("OTEL_TRACES_EXPORTER", "\"otlp\" or \"none\"");
                false
            }
            None => {
                self.first(["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"]).is_some()
            }
        }
    }

    /// `None` where the collector cannot be reached in this way.
    fn traces(&mut self) -> Option<Traces> {
        let protocol = self.protocol();
        let endpoint = self.endpoint(protocol)?;
        let compression_names = ["OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "OTEL_EXPORTER_OTLP_COMPRESSION"];
        let is_compressed = match self.first(compression_names) {
            None => false,
            Some((name, word)) => {
                if !["gzip", "none"].contains(&word.as_str()) {
                    self.warn(name, "\"gzip\" or \"none\"");
                }
                word == "gzip"
            }
        };
        let timeout_names = ["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"];
        let timeout_ms =
            self.first(timeout_names).and_then(|(name, value)| self.number(name, &value, SLOW_MS_MAX));
        Some(Traces {
            protocol,
            endpoint,
            is_compressed,
            headers: self.headers(),
            timeout: Duration::from_millis(timeout_ms.unwrap_or(SPAN_TIMEOUT_MS)),
            sampler: self.sampler(),
            slow: None,
            errors: true,
            service: self.get("OTEL_SERVICE_NAME").map(str::to_owned),
            resource: self.resource(),
            queue_max: self.count("OTEL_BSP_MAX_QUEUE_SIZE", SPAN_QUEUE_MAX, SPAN_QUEUE_LIMIT),
            batch_max: self.count("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", SPAN_BATCH_MAX, SPAN_BATCH_LIMIT),
            delay: Duration::from_millis(
                self.get("OTEL_BSP_SCHEDULE_DELAY")
                    .map(str::to_owned)
                    .and_then(|value| self.number("OTEL_BSP_SCHEDULE_DELAY", &value, SLOW_MS_MAX))
                    .unwrap_or(SPAN_DELAY_MS),
            ),
        })
    }

    fn protocol(&mut self) -> Protocol {
        let names = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"];
        match self.first(names) {
            None => Protocol::Grpc,
            Some((_, word)) if word == "grpc" => Protocol::Grpc,
            Some((_, word)) if word == "http/protobuf" => Protocol::Http,
            Some((name, _)) => {
                self.warn(name, "\"grpc\" or \"http/protobuf\"");
                Protocol::Grpc
            }
        }
    }

    /// For HTTP the general variable is a base, that of traces a whole URL (the specification).
    fn endpoint(&mut self, protocol: Protocol) -> Option<String> {
        let names = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
        let (name, url) = self.first(names).unwrap_or(match protocol {
            Protocol::Grpc => (names[1], GRPC_ENDPOINT.to_owned()),
            Protocol::Http => (names[1], HTTP_ENDPOINT.to_owned()),
        });
        let Some(rest) = url.strip_prefix("http://").filter(|rest| is_authority_and_path(rest)) else {
            // Not the value: it may hold a password.
            self.warn(name, "a URL such as \"http://collector:4317\"; https is not built yet");
            return None;
        };
        let is_base = name == names[1] && protocol == Protocol::Http;
        let url = format!("http://{rest}");
        Some(if is_base { format!("{}{HTTP_PATH}", url.trim_end_matches('/')) } else { url })
    }

    fn headers(&mut self) -> Vec<(String, String)> {
        let names = ["OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"];
        let Some((name, list)) = self.first(names) else { return Vec::new() };
        self.pairs(name, &list).into_iter().map(|(key, value)| (key.to_ascii_lowercase(), value)).collect()
    }

    fn resource(&mut self) -> Vec<(String, String)> {
        let name = "OTEL_RESOURCE_ATTRIBUTES";
        let list = self.get(name).map(str::to_owned);
        list.map(|list| self.pairs(name, &list)).unwrap_or_default()
    }

    /// `key=value,key=value`, with escapes as in a URL (W3C Baggage). All of them or none.
    fn pairs(&mut self, name: &str, list: &str) -> Vec<(String, String)> {
        let parts = list.split(',').map(str::trim).filter(|part| !part.is_empty());
        let pair = |part: &str| {
            let (key, value) = part.split_once('=')?;
            let (key, value) = (key.trim(), unescape(value.trim())?);
            let is_plain = |text: &str| !text.chars().any(char::is_control);
            (!key.is_empty() && is_plain(key) && is_plain(&value)).then(|| (key.to_owned(), value))
        };
        let pairs: Option<Vec<_>> = parts.map(pair).collect();
        if pairs.is_none() {
            self.warn(name, "a list such as \"key=value,other=value\"");
        }
        pairs.unwrap_or_default()
    }

    fn sampler(&mut self) -> Sampler {
        let name = "OTEL_TRACES_SAMPLER";
        let word = self.get(name).unwrap_or("parentbased_always_on").to_owned();
        let (is_parent_based, kind) = match word.strip_prefix("parentbased_") {
            Some(kind) => (true, kind),
            None => (false, word.as_str()),
        };
        let ratio = match kind {
            "always_on" => 1.0,
            "always_off" => 0.0,
            "traceidratio" => self.ratio(),
            _ => {
                self.warn(
                    name,
                    "\"always_on\", \"always_off\" or \"traceidratio\", each also as \"parentbased_…\"",
                );
                return Sampler { is_parent_based: true, ratio: 1.0 };
            }
        };
        Sampler { is_parent_based, ratio }
    }

    fn ratio(&mut self) -> f64 {
        let name = "OTEL_TRACES_SAMPLER_ARG";
        let Some(text) = self.get(name) else { return 1.0 };
        match text.parse() {
            Ok(ratio) if (0.0..=1.0).contains(&ratio) => ratio,
            _ => {
                self.warn(name, "a number from 0 to 1");
                1.0
            }
        }
    }

    fn number(&mut self, name: &str, text: &str, max: u64) -> Option<u64> {
        let number = text.trim().parse().ok().filter(|number| (1..=max).contains(number));
        if number.is_none() {
            self.warn(name, &format!("an integer from 1 to {max}"));
        }
        number
    }

    fn count(&mut self, name: &str, default: usize, max: usize) -> usize {
        let Some(text) = self.get(name).map(str::to_owned) else { return default };
        let number = self.number(name, &text, max as u64).and_then(|number| usize::try_from(number).ok());
        number.unwrap_or(default)
    }
}

/// A host with or without a port, and a path without control bytes.
fn is_authority_and_path(rest: &str) -> bool {
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    !authority.is_empty()
        && crate::semantics::head::is_authority(authority.as_bytes())
        && path.bytes().all(|byte| byte.is_ascii_graphic())
}

/// `%41` is an A.
fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        if *first == b'%' {
            let digits = std::str::from_utf8(tail.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &tail[2..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).ok()
}
