//! What is believed, and of whom: traces and ids of trusted peers; and which requests have spans.

use std::time::Duration;

use super::{OFF, ask, assert_well_formed, start};
use crate::support::collector::{Collector, Manner, Protocol};
use crate::support::{Scrape, Server, Site, until};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn fields() -> String {
    format!(
        "traceparent: 00-{TRACE}-{PARENT}-01\r\ntracestate: a=1\r\nX-Request-Id: their-id\r\nWant-Server-Timing: 1\r\n"
    )
}

/// A stranger who sends a traceparent could write into anybody's trace, choose what is sampled, and put words
/// into the log. Only peers of `trusted_proxies` are believed; the others get ids of our own.
#[test]
fn only_trusted_peers_are_believed() {
    for is_trusted in [true, false] {
        let site = Site::sample();
        let collector = Collector::start(Protocol::Grpc, Manner::Takes);
        let network = if is_trusted { "127.0.0.0/8" } else { "10.0.0.0/8" };
        let keys = format!("workers = 1\ntrusted_proxies = [\"{network}\"]");
        let tables = format!("[telemetry]\nrequest_id = true\n{}", site.route());
        let server = start(&site, &keys, &tables, &collector.variables());
        let answer = ask(&mut server.client(), "GET /x.txt", &fields());
        let id = answer.field("x-request-id").expect("a request id").to_owned();
        assert_eq!(id == "their-id", is_trusted, "{id}");
        assert!(is_trusted || id.len() == 32, "{id}");
        assert_eq!(answer.field("server-timing").is_some(), is_trusted);
        let taken = collector.wait_for(1);
        let span = &taken[0].span;
        assert_well_formed(&taken[0]);
        assert_eq!(hexadecimal(&span.trace_id) == TRACE, is_trusted);
        assert_eq!(hexadecimal(&span.parent_span_id), if is_trusted { PARENT } else { "" });
        assert_eq!(span.trace_state, if is_trusted { "a=1" } else { "" });
        assert_eq!(taken[0].text("scalws.request_id"), Some(id.as_str()));
        let line: serde_json::Value = serde_json::from_str(&server.access.containing("/x.txt")).unwrap();
        assert_eq!(line["request_id"], id);
        assert_eq!(line["trace_id"], hexadecimal(&span.trace_id));
        assert_eq!(line["span_id"], hexadecimal(&span.span_id));
    }
}

/// Times of phases, in milliseconds, for who asks and is trusted; without any collector too.
#[test]
fn server_timing_is_for_trusted_peers_who_ask() {
    let site = Site::sample();
    let server = start(&site, "trusted_proxies = [\"127.0.0.1/32\"]", &format!("{OFF}{}", site.route()), &[]);
    let mut client = server.client();
    assert!(ask(&mut client, "GET /x.txt", "").field("server-timing").is_none());
    let answer = ask(&mut client, "GET /x.txt", "Want-Server-Timing: 1\r\n");
    let timing = answer.field("server-timing").expect("times").to_owned();
    let durations: Vec<f64> = timing
        .split(", ")
        .map(|part| part.split("dur=").nth(1).unwrap().split(';').next().unwrap().parse().unwrap())
        .collect();
    assert!(timing.starts_with("route;dur=") && timing.contains("resolve;dur="), "{timing}");
    assert!(durations.len() >= 2 && durations.iter().all(|duration| *duration >= 0.0), "{timing}");
    assert!(answer.field("x-request-id").is_none(), "nobody asked for ids");
    let bad = ask(&mut client, "GET /x.txt", "Want-Server-Timing: 0\r\n");
    assert!(bad.field("server-timing").is_none());
}

/// An id that could break a line or a field is not passed on, whoever sent it.
#[test]
fn an_id_that_is_none_is_replaced() {
    let site = Site::sample();
    let tables = format!("[telemetry]\nrequest_id = true\n{}", site.route());
    let server = start(&site, "trusted_proxies = [\"127.0.0.1/32\"]", &tables, &[]);
    let mut client = server.client();
    for bad in ["a b", "a\"b", &"x".repeat(129), ""] {
        let answer = ask(&mut client, "GET /x.txt", &format!("X-Request-Id: {bad}\r\n"));
        let id = answer.field("x-request-id").expect("a request id");
        assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{bad:?} became {id}");
    }
    // Nor is what cannot be read without one: who complains of a 400 has something to name.
    for broken in ["GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "GET / HTTP/1.1\r\nHost : a\r\n\r\n"] {
        let mut client = server.client();
        client.send(broken);
        let refused = client.response();
        let id = refused.field("x-request-id").expect("a request id").to_owned();
        assert_eq!((refused.status, id.len()), (400, 32));
        until("its line", || server.access.all().iter().any(|line| line.contains(&id)));
    }
    // One of an answer before must not be that of the next.
    let mut client = server.client();
    let one = ask(&mut client, "GET /x.txt", "").field("x-request-id").unwrap().to_owned();
    let other = ask(&mut client, "GET /x.txt", "").field("x-request-id").unwrap().to_owned();
    assert_ne!(one, other);
}

/// The sampler said no to all of them; the failed and the slow have spans all the same, and no others.
#[test]
fn the_failed_and_the_slow_are_chosen_at_the_end() {
    let site = Site::sample();
    let collector = Collector::start(Protocol::Http, Manner::Takes);
    let mut variables = collector.variables();
    variables.push(("OTEL_TRACES_SAMPLER", "always_off".to_owned()));
    let failed = "[[route]]\nexact = \"/failed\"\nrespond = { status = 503 }\n";
    let tables = format!("{OFF}[telemetry]\nslow = \"400ms\"\n{}{}{failed}", site.route(), Server::RESPOND);
    let server = start(&site, "workers = 1", &tables, &variables);
    let mut client = server.client();
    for _ in 0..200 {
        assert_eq!(client.get("/x.txt").status, 200);
    }
    // Strangers do not choose by what the engine refuses.
    assert_eq!(ask(&mut client, "BREW /pot", "").status, 501);
    assert_eq!(ask(&mut client, "GET /failed", "").status, 503);
    // A client that takes its time with the body of its request.
    client.send("POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n1");
    std::thread::sleep(Duration::from_millis(500));
    client.send("2");
    assert_eq!(client.response().status, 200);
    until("two spans", || collector.taken().len() >= 2);
    let taken = collector.taken();
    let names: Vec<_> = taken.iter().map(|taken| taken.span.name.as_str()).collect();
    assert!(names.contains(&"GET =/failed") && names.contains(&"POST =/healthz"), "{names:?}");
    // A machine that was away for that long makes other requests slow as well.
    let is_slow = |span: &opentelemetry_proto::tonic::trace::v1::Span| {
        span.end_time_unix_nano - span.start_time_unix_nano >= 400_000_000
    };
    assert!(taken.iter().all(|taken| taken.span.name == "GET =/failed" || is_slow(&taken.span)), "{names:?}");
    assert!(taken.len() < 50, "{names:?}");
}

/// A tenth of the traces, decided before any span exists: the rest makes none at all.
#[test]
fn the_ratio_is_that_of_the_sampler() {
    const REQUESTS: u64 = 4_000;
    let site = Site::sample();
    let collector = Collector::start(Protocol::Grpc, Manner::Takes);
    let mut variables = collector.variables();
    variables.push(("OTEL_TRACES_SAMPLER", "traceidratio".to_owned()));
    variables.push(("OTEL_TRACES_SAMPLER_ARG", "0.1".to_owned()));
    variables.push(("OTEL_BSP_MAX_QUEUE_SIZE", "10000".to_owned()));
    let server = start(&site, "workers = 2", &format!("{OFF}{}", Server::RESPOND), &variables);
    let mut client = server.client();
    for _ in 0..REQUESTS {
        assert_eq!(client.get("/healthz").status, 200);
    }
    let made = Scrape::of(&server).count("scalws_spans_made_total");
    // 400 and six times the deviation of 19.
    assert!((286..514).contains(&made), "{made} of {REQUESTS} at a tenth");
    collector.wait_for(usize::try_from(made).unwrap());
    until("the count of the server", || Scrape::of(&server).count("scalws_spans_exported_total") == made);
}
