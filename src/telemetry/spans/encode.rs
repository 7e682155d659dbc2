//! From a finished request to its spans, by the conventions of OpenTelemetry for HTTP servers (stable since
//! 1.23): one of kind SERVER, its phases as events, and a child for trips to the pool, which tells why.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, SpanKind};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};

use super::Finished;
use crate::semantics::head::split_port;
use crate::semantics::path::Target;
use crate::telemetry::facts::{Kept, LookedUp};
use crate::telemetry::identity::Ids;
use crate::telemetry::kinds::{MethodLabel, Source};

/// Keys of a query whose values are nobody's business (the conventions for `url.query`).
const SECRETS: [&str; 4] = ["AWSAccessKeyId", "Signature", "sig", "X-Goog-Signature"];
/// The trace is sampled: W3C Trace Context, and the field `flags` of a span.
const SAMPLED: u32 = 1;
/// It is known whether the parent is remote, and it is (`flags` of a span, trace.proto).
const PARENT_IS_REMOTE: u32 = 0x300;

/// What spans are encoded with.
pub(super) struct Encoder {
    /// Names of the routes in the order of the config.
    routes: Vec<String>,
    resource: Resource,
    ids: Ids,
}

impl Encoder {
    pub(super) fn new(routes: Vec<String>, resource: &BTreeMap<String, String>) -> Encoder {
        let attributes = resource.iter().map(|(name, value)| match name.as_str() {
            "process.pid" => integer(name, value.parse().unwrap_or_default()),
            _ => text(name, value),
        });
        let resource = Resource { attributes: attributes.collect(), ..Resource::default() };
        Encoder { routes, resource, ids: Ids::default() }
    }

    /// The request to a collector. `offset_ns` is what the wall clock is ahead of the monotonic one.
    pub(super) fn request(&self, batch: &[Finished], offset_ns: i64) -> ExportTraceServiceRequest {
        let scope = InstrumentationScope {
            name: "scalws".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..InstrumentationScope::default()
        };
        let mut spans = Vec::with_capacity(batch.len());
        for finished in batch {
            self.push(&mut spans, finished, offset_ns);
        }
        let scope_spans = vec![ScopeSpans { scope: Some(scope), spans, ..ScopeSpans::default() }];
        let resource_spans =
            ResourceSpans { resource: Some(self.resource.clone()), scope_spans, ..ResourceSpans::default() };
        ExportTraceServiceRequest { resource_spans: vec![resource_spans] }
    }

    fn push(&self, spans: &mut Vec<Span>, finished: &Finished, offset_ns: i64) {
        let record = &finished.record;
        let nanoseconds = |us: u64| (us * 1_000).saturating_add_signed(offset_ns);
        let since_head = |us: u32| nanoseconds(record.head_us + u64::from(us));
        let server = self.server(finished, &nanoseconds, &since_head);
        let child = |name: &str, start_us: u32, end_us: u32, attributes: Vec<KeyValue>| Span {
            trace_id: server.trace_id.clone(),
            span_id: self.ids.next().to_be_bytes().to_vec(),
            parent_span_id: server.span_id.clone(),
            trace_state: server.trace_state.clone(),
            flags: SAMPLED,
            name: name.to_owned(),
            kind: SpanKind::Internal.into(),
            start_time_unix_nano: since_head(start_us),
            end_time_unix_nano: since_head(end_us).max(since_head(start_us)),
            attributes,
            ..Span::default()
        };
        let children = [
            record.facts.why.map(|why| {
                let mut attributes = vec![text("scalws.offload.cause", why.name())];
                let causes: Vec<_> = record
                    .facts
                    .reasons()
                    .map(|why| value(Value::StringValue(why.name().to_owned())))
                    .collect();
                if causes.len() > 1 {
                    let list = Value::ArrayValue(ArrayValue { values: causes });
                    attributes.push(pair("scalws.offload.causes", list));
                }
                let name = if record.facts.looked_up == LookedUp::Pool {
                    "lookup in the pool"
                } else {
                    "work in the pool"
                };
                child(name, record.waited_us, record.resolved_us, attributes)
            }),
            record.body_why.map(|why| {
                let trips = integer("scalws.offload.trips", i64::from(record.body_hops));
                let end_us = record.body_hop_us.saturating_add(record.body_hops_took_us);
                let attributes = vec![text("scalws.offload.cause", why.name()), trips];
                child("body from the pool", record.body_hop_us, end_us, attributes)
            }),
        ];
        spans.push(server);
        spans.extend(children.into_iter().flatten());
    }

    fn server(
        &self,
        finished: &Finished,
        nanoseconds: &dyn Fn(u64) -> u64,
        since_head: &dyn Fn(u32) -> u64,
    ) -> Span {
        let Finished { record, identity, status, .. } = finished;
        let method = MethodLabel::word(record.method.place());
        let route = self.route(finished);
        // The conventions: `HTTP` where the method is not known.
        let verb = if record.method == MethodLabel::OTHER { "HTTP" } else { method };
        let name = route.map_or_else(|| verb.to_owned(), |route| format!("{verb} {route}"));
        let event = |name: &str, time_unix_nano: u64| Event {
            time_unix_nano,
            name: name.to_owned(),
            ..Event::default()
        };
        let mut events = Vec::new();
        if finished.accepted_us != 0 {
            events.push(event("accepted", nanoseconds(finished.accepted_us)));
        }
        for (name, us) in [
            ("routed", record.routed_us),
            ("resolved", record.resolved_us),
            ("first_byte", record.first_byte_us),
        ] {
            if us != 0 {
                events.push(event(name, since_head(us)));
            }
        }
        let is_failed = *status >= 500 || ["file_shrank", "file_failed"].contains(&finished.error);
        let code = if is_failed { StatusCode::Error } else { StatusCode::Unset };
        let has_parent = identity.parent_id != 0;
        Span {
            trace_id: identity.trace_id.to_be_bytes().to_vec(),
            span_id: identity.span_id.to_be_bytes().to_vec(),
            parent_span_id: if has_parent { identity.parent_id.to_be_bytes().to_vec() } else { Vec::new() },
            trace_state: String::from_utf8_lossy(&identity.trace_state).into_owned(),
            flags: SAMPLED | if has_parent { PARENT_IS_REMOTE } else { 0 },
            name,
            kind: SpanKind::Server.into(),
            start_time_unix_nano: nanoseconds(record.head_us),
            end_time_unix_nano: nanoseconds(finished.end_us),
            attributes: attributes(finished, method, route),
            events,
            status: Some(Status { code: code.into(), ..Status::default() }),
            ..Span::default()
        }
    }

    fn route(&self, finished: &Finished) -> Option<&str> {
        let number = usize::from(finished.record.facts.route).checked_sub(1)?;
        self.routes.get(number).map(String::as_str)
    }
}

/// `url.path` and `url.query` of a request target, also of one in absolute form (RFC 9112 §3.2.2). What is no
/// target is shown as it came.
fn path_and_query(target: &[u8]) -> (&[u8], &[u8]) {
    match Target::parse(target) {
        Ok(Target::Path { path, query, .. }) => (path, query.unwrap_or_default()),
        Ok(Target::Asterisk) | Err(_) => (target, &[]),
    }
}

fn attributes(finished: &Finished, method: &str, route: Option<&str>) -> Vec<KeyValue> {
    let Finished { record, identity, status, error, .. } = finished;
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (path, query) = path_and_query(&finished.target);
    let (host, port) = split_port(&finished.host);
    let client = finished.client.to_canonical().to_string();
    let error = if error.is_empty() && *status >= 500 { status.to_string() } else { (*error).to_owned() };
    let lookup = match record.facts.looked_up {
        LookedUp::No => "",
        LookedUp::Inline => "inline",
        LookedUp::Pool => "pool",
    };
    let original = if record.method == MethodLabel::OTHER { lossy(&finished.method) } else { String::new() };
    let source = if record.source == Source::None { "" } else { record.source.name() };
    let texts = [
        ("http.request.method", method.to_owned()),
        ("http.request.method_original", original),
        ("url.scheme", "http".to_owned()),
        ("url.path", lossy(path)),
        ("url.query", redacted(&lossy(query))),
        ("http.route", route.unwrap_or_default().to_owned()),
        ("error.type", error),
        ("server.address", lossy(host)),
        ("client.address", client.clone()),
        ("network.peer.address", client),
        ("network.protocol.name", "http".to_owned()),
        ("network.protocol.version", finished.version.to_owned()),
        ("user_agent.original", lossy(&finished.user_agent)),
        ("scalws.engine", "h1".to_owned()),
        ("scalws.request_id", lossy(&identity.request_id)),
        ("scalws.lookup", lookup.to_owned()),
        ("scalws.cache", Kept::ALL[record.facts.kept as usize].1.to_owned()),
        ("scalws.body.source", source.to_owned()),
        ("scalws.file_system", record.facts.file_system.name().to_owned()),
    ];
    let mut found: Vec<_> = texts
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| text(name, &value))
        .collect();
    if *status != 0 {
        found.push(integer("http.response.status_code", i64::from(*status)));
    }
    found.push(integer("http.response.body.size", i64::try_from(finished.body_bytes).unwrap_or(i64::MAX)));
    let port = port.and_then(|port| std::str::from_utf8(port).ok()?.parse::<i64>().ok());
    found.extend(port.map(|port| integer("server.port", port)));
    found
}

/// The query without what the conventions call secret.
fn redacted(query: &str) -> String {
    let parts = query.split('&').map(|part| match part.split_once('=') {
        Some((key, _)) if SECRETS.contains(&key) => format!("{key}=REDACTED"),
        _ => part.to_owned(),
    });
    parts.collect::<Vec<_>>().join("&")
}

fn value(value: Value) -> AnyValue {
    AnyValue { value: Some(value) }
}

fn pair(name: &str, of: Value) -> KeyValue {
    KeyValue { key: name.to_owned(), value: Some(value(of)), ..KeyValue::default() }
}

fn text(name: &str, of: &str) -> KeyValue {
    pair(name, Value::StringValue(of.to_owned()))
}

fn integer(name: &str, of: i64) -> KeyValue {
    pair(name, Value::IntValue(of))
}
