//! Spans as a server sends them, taken by the lab's collector over a socket, and what the lab makes of them.
//! `RECORD=1` writes what is expected anew.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::span::{Event, SpanKind};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message as _;
use scalws_lab::profile::stacks::{Record, What};
use scalws_lab::profile::traced::cut;
use scalws_lab::report;
use scalws_lab::traces::phases::{self, Phase};
use scalws_lab::traces::{Compact, Keep, Receiver, Request};

use super::profile::{data, golden};

/// A second of 2026, in nanoseconds.
const START_NS: u64 = 1_796_000_000_000_000_000;

fn attribute(name: &str, value: Value) -> KeyValue {
    KeyValue { key: name.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

fn text(name: &str, value: &str) -> KeyValue {
    attribute(name, Value::StringValue(value.to_owned()))
}

/// Request `number` begins so many microseconds after the first and takes so long.
fn server(number: u8, after_us: u64, us: u64) -> Span {
    let start = START_NS + after_us * 1_000;
    let event = |name: &str, us: u64| Event {
        time_unix_nano: start + us * 1_000,
        name: name.to_owned(),
        ..Event::default()
    };
    Span {
        trace_id: vec![number; 16],
        span_id: vec![number; 8],
        name: "GET /".to_owned(),
        kind: SpanKind::Server.into(),
        start_time_unix_nano: start,
        end_time_unix_nano: start + us * 1_000,
        attributes: vec![
            text("url.path", "/1m.bin?<script>"),
            attribute("http.response.status_code", Value::IntValue(200)),
            text("scalws.body.source", "sendfile"),
            text("scalws.cache", "hit"),
            text("scalws.lookup", "inline"),
        ],
        events: vec![event("routed", 1), event("resolved", 4), event("first_byte", 6)],
        ..Span::default()
    }
}

fn hop(of: &Span, name: &str, cause: &str, after_us: u64, us: u64) -> Span {
    let start = of.start_time_unix_nano + after_us * 1_000;
    Span {
        trace_id: of.trace_id.clone(),
        span_id: vec![200 + of.span_id[0]; 8],
        parent_span_id: of.span_id.clone(),
        name: name.to_owned(),
        kind: SpanKind::Internal.into(),
        start_time_unix_nano: start,
        end_time_unix_nano: start + us * 1_000,
        attributes: vec![
            text("scalws.offload.cause", cause),
            attribute("scalws.offload.trips", Value::IntValue(3)),
        ],
        ..Span::default()
    }
}

fn message(spans: Vec<Span>) -> Vec<u8> {
    let scope_spans = vec![ScopeSpans { spans, ..ScopeSpans::default() }];
    let resource_spans = vec![ResourceSpans { scope_spans, ..ResourceSpans::default() }];
    ExportTraceServiceRequest { resource_spans }.encode_to_vec()
}

/// Three requests; the second had to wait for the disk in the middle of its answer.
fn three() -> Vec<Span> {
    let (first, second, third) = (server(1, 0, 40), server(2, 100, 5_000), server(3, 200, 90));
    let waited = hop(&second, "body from the pool", "cold_data", 100, 4_500);
    let stranger = hop(&server(9, 0, 1), "lookup in the pool", "cold_name", 0, 1);
    vec![first, second, waited, third, stranger]
}

/// Head and body by hand: the collector is spoken to in bytes.
fn ask(address: SocketAddr, head: &str, body: &[u8]) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let fields = format!("Host: x\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
    let (line, more) = head.split_once('\n').unwrap_or((head, ""));
    write!(stream, "{line} HTTP/1.1\r\n{fields}{more}\r\n").unwrap();
    stream.write_all(body).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let body = answer.split_once("\r\n\r\n").unwrap().1.to_owned();
    (status, body)
}

const POST: &str = "POST /v1/traces\nContent-Type: application/x-protobuf\r\n";

fn any() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn requests() -> Vec<Request> {
    let receiver = Receiver::start(any(), Keep::First, None).unwrap();
    assert_eq!(ask(receiver.address(), POST, &message(three())), (200, String::new()));
    receiver.taken().requests
}

#[test]
fn what_is_sent_is_taken_and_all_else_is_refused() {
    let receiver = Receiver::start(any(), Keep::First, None).unwrap();
    let check = |head: &str, body: &[u8], expected: u16| {
        assert_eq!(ask(receiver.address(), head, body).0, expected, "{head}");
    };
    check(POST, b"no protobuf", 400);
    check("POST /v1/traces\nContent-Type: application/json\r\n", b"{}", 415);
    check("POST /v1/metrics\nContent-Type: application/x-protobuf\r\n", b"", 404);
    check("GET /", b"", 404);
    assert_eq!((receiver.taken().messages, receiver.taken().spans), (0, 0));
    check(POST, &message(three()), 200);
    check(POST, &message(vec![server(4, 0, 1)]), 200);
    let taken = receiver.taken();
    assert_eq!((taken.messages, taken.spans, taken.requests.len(), taken.not_kept), (2, 6, 4, 0));
    let second = &taken.requests[1];
    assert_eq!((second.trace.as_str(), second.us, second.resolved_us), (&*"02".repeat(16), 5_000, Some(4)));
    assert_eq!(
        (second.hops.len(), second.hops[0].cause.as_str(), second.hops[0].us),
        (1, "cold_data", 4_500)
    );
}

#[test]
fn only_the_latest_are_kept_where_that_is_wanted_and_sizes_are_not_read() {
    let receiver = Receiver::start(any(), Keep::Latest(2), None).unwrap();
    ask(receiver.address(), POST, &message(three()));
    let taken = receiver.taken();
    let spans: Vec<&str> = taken.requests.iter().map(|one| &one.span[..2]).collect();
    assert_eq!((spans, taken.not_kept), (vec!["02", "03"], 1));
    let receiver = Receiver::start(any(), Keep::Sizes, None).unwrap();
    assert_eq!(ask(receiver.address(), POST, b"no protobuf").0, 200);
    assert_eq!((receiver.messages(), receiver.taken().bytes, receiver.taken().spans), (1, 11, 0));
}

#[test]
fn the_file_is_small_and_says_the_same() {
    let requests = requests();
    let compact = Compact::of(requests.clone(), 5, 0);
    let text = serde_json::to_string(&compact).unwrap() + "\n";
    golden("traces.json", &text);
    let again: Compact = serde_json::from_str(&data("traces.json")).unwrap();
    assert_eq!(again.read(), requests);
}

#[test]
fn phases_follow_one_another_and_trips_lie_within() {
    let requests = requests();
    let phases = phases::of(&requests[1]);
    let expected = [
        (Phase::Route, 0, 1),
        (Phase::Resolve, 1, 3),
        (Phase::FirstByte, 4, 2),
        (Phase::Send, 6, 4_994),
        (Phase::PoolDuring, 100, 4_500),
    ];
    assert_eq!(phases, expected);
    // A span that was chosen at the end knows less, and all of it is one stretch.
    let bare = Request { routed_us: None, resolved_us: None, first_byte_us: None, ..requests[1].clone() };
    assert_eq!(phases::of(&bare)[0], (Phase::Send, 0, 5_000));
    let slowest: Vec<u64> = phases::slowest(&requests, 2).iter().map(|one| one.us).collect();
    assert_eq!(slowest, [5_000, 90]);
    let histograms = phases::histograms(&requests);
    assert_eq!((histograms[0].phase, histograms[0].requests, histograms[0].max_us), (None, 3, 5_000));
    // 40 lies from 32 on, 90 from 64 on, 5,000 from 4,096 on.
    let filled: Vec<usize> = (0..14).filter(|place| histograms[0].buckets[*place] > 0).collect();
    assert_eq!(filled, [6, 7, 13]);
    assert_eq!(histograms.last().unwrap().phase, Some(Phase::PoolDuring));
}

#[test]
fn tables_show_who_waited_and_why() {
    let requests = requests();
    let slowest = phases::slowest(&requests, 20);
    golden("traces-slowest.html", &report::traces::table(&slowest));
    golden("traces-phases.html", &report::traces::histograms(&phases::histograms(&requests)));
    let table = data("traces-slowest.html");
    assert!(table.contains("<b>cold_data</b>: body from the pool, 4\u{202f}500 µs in 3 trips"));
    assert!(table.contains("&lt;script&gt;") && !table.contains("<script>"));
}

#[test]
fn the_page_of_the_collector_is_whole_and_fetches_nothing() {
    let receiver = Receiver::start(any(), Keep::Latest(10), Some(report::traces::page)).unwrap();
    let (status, empty) = ask(receiver.address(), "GET /", b"");
    assert_eq!(status, 200);
    assert!(empty.contains("No request yet"), "{empty}");
    ask(receiver.address(), POST, &message(three()));
    let (_, page) = ask(receiver.address(), "GET /", b"");
    for text in ["The slowest of them", "cold_data", &"02".repeat(16), "pool, within the answer"] {
        assert!(page.contains(text), "{text}");
    }
    for fetching in ["src=", "href=", "url(", "@import", "http://", "https://"] {
        assert!(!page.contains(fetching), "{fetching}");
    }
}

fn sample(at_us: u64, offset_ns: i64) -> Record {
    let at_ns = (START_NS + at_us * 1_000).checked_add_signed(-offset_ns).unwrap();
    Record { comm: "worker".to_owned(), thread: 1, at_ns, what: What::Sample(Vec::new()) }
}

/// Samples are dated by the monotonic clock and spans by the wall clock: the difference decides what is inside.
#[test]
fn samples_are_cut_to_the_time_of_slow_requests() {
    let offset_ns = i64::try_from(START_NS).unwrap() - 77_000_000_000;
    let requests = requests();
    // Of three requests all are slow: 0 to 40, and 100 to 5,100 with that from 200 to 290 within.
    let at = [0, 40, 41, 99, 100, 5_100, 5_101];
    let records: Vec<Record> = at.iter().map(|at| sample(*at, offset_ns)).collect();
    let (found, folded) = cut(&records, &requests, offset_ns);
    assert_eq!((found.samples, found.samples_of, folded.total()), (4, 7, 4));
    assert_eq!((found.requests, found.seen, found.time_us, found.from_us), (3, 2, 5_040, 40));
    // A millisecond beside is another picture.
    assert_ne!(cut(&records, &requests, offset_ns + 1_000_000).0.samples, 4);
    let (none, folded) = cut(&records[3..4], &requests, offset_ns);
    assert_eq!((none.samples, none.seen, folded.total()), (0, 0, 0));
    assert!(report::traces::cut_facts(&none).contains("No sample fell into their time"));
}
