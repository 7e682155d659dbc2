//! One request out of its spans: that of kind SERVER with its events, and its children, the trips to the pool.

use std::collections::HashMap;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use serde::{Deserialize, Serialize};

/// See the module. Times within it count from its start, in microseconds, which is what the server stamps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Its trace, in hex as the access log has it.
    pub trace: String,
    /// Its span.
    pub span: String,
    /// Method and route.
    pub name: String,
    /// Path as sent.
    pub path: String,
    /// Nanoseconds since 1970 when its head was complete.
    pub start_ns: u64,
    /// From there to the end of its answer.
    pub us: u64,
    /// Until its route was found; `None` where the span does not say.
    pub routed_us: Option<u64>,
    /// Until the answer was known.
    pub resolved_us: Option<u64>,
    /// Until the first bytes of a streamed body went to the kernel.
    pub first_byte_us: Option<u64>,
    /// Of the answer; 0 without one.
    pub status: u64,
    /// `inline` or `pool`.
    pub lookup: String,
    /// What the cache of open files knew.
    pub cache: String,
    /// Where its bytes came from.
    pub source: String,
    /// Why it failed.
    pub error: String,
    /// Its trips to the pool.
    pub hops: Vec<Hop>,
}

/// A trip to the pool, or several in the middle of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hop {
    /// Name of the span.
    pub name: String,
    /// Why.
    pub cause: String,
    /// When it began.
    pub start_us: u64,
    /// How long it took.
    pub us: u64,
    /// How many trips.
    pub trips: u64,
}

impl Request {
    /// When its answer ended.
    #[must_use]
    pub fn end_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.us.saturating_mul(1_000))
    }
}

/// The requests of a message, and how many spans it had. Children whose parent is not in the same message are
/// left out: the server sends them together.
#[must_use]
pub fn requests(message: &ExportTraceServiceRequest) -> (Vec<Request>, u64) {
    let spans = || {
        let scopes = message.resource_spans.iter().flat_map(|resource| &resource.scope_spans);
        scopes.flat_map(|scope| &scope.spans)
    };
    let mut requests = Vec::new();
    let mut places: HashMap<(&[u8], &[u8]), usize> = HashMap::new();
    for span in spans().filter(|span| span.kind == i32::from(SpanKind::Server)) {
        places.insert((&span.trace_id, &span.span_id), requests.len());
        requests.push(request(span));
    }
    for span in spans().filter(|span| span.kind != i32::from(SpanKind::Server)) {
        if let Some(at) = places.get(&(span.trace_id.as_slice(), span.parent_span_id.as_slice())) {
            let start_ns = requests[*at].start_ns;
            requests[*at].hops.push(hop(span, start_ns));
        }
    }
    (requests, spans().count() as u64)
}

fn request(span: &Span) -> Request {
    let start_ns = span.start_time_unix_nano;
    let event = |name: &str| {
        let found = span.events.iter().find(|event| event.name == name)?;
        Some(micros(start_ns, found.time_unix_nano))
    };
    Request {
        trace: hex(&span.trace_id),
        span: hex(&span.span_id),
        name: span.name.clone(),
        path: text(&span.attributes, "url.path"),
        start_ns,
        us: micros(start_ns, span.end_time_unix_nano),
        routed_us: event("routed"),
        resolved_us: event("resolved"),
        first_byte_us: event("first_byte"),
        status: number(&span.attributes, "http.response.status_code"),
        lookup: text(&span.attributes, "scalws.lookup"),
        cache: text(&span.attributes, "scalws.cache"),
        source: text(&span.attributes, "scalws.body.source"),
        error: text(&span.attributes, "error.type"),
        hops: Vec::new(),
    }
}

fn hop(span: &Span, start_ns: u64) -> Hop {
    Hop {
        name: span.name.clone(),
        cause: text(&span.attributes, "scalws.offload.cause"),
        start_us: micros(start_ns, span.start_time_unix_nano),
        us: micros(span.start_time_unix_nano, span.end_time_unix_nano),
        trips: number(&span.attributes, "scalws.offload.trips").max(1),
    }
}

fn micros(from_ns: u64, to_ns: u64) -> u64 {
    to_ns.saturating_sub(from_ns) / 1_000
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn value<'a>(attributes: &'a [KeyValue], name: &str) -> Option<&'a Value> {
    attributes.iter().find(|pair| pair.key == name)?.value.as_ref()?.value.as_ref()
}

fn text(attributes: &[KeyValue], name: &str) -> String {
    match value(attributes, name) {
        Some(Value::StringValue(text)) => text.clone(),
        _ => String::new(),
    }
}

fn number(attributes: &[KeyValue], name: &str) -> u64 {
    match value(attributes, name) {
        Some(Value::IntValue(number)) => u64::try_from(*number).unwrap_or(0),
        _ => 0,
    }
}
