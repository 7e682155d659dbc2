//! Spans of requests, as a collector gets them over both transports, and as the conventions of OpenTelemetry
//! for HTTP servers have them.

mod collectors;
mod peers;

use std::fs::File;
use std::time::{Duration, SystemTime};

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use scalws::telemetry::spans::{ATTRIBUTES, EVENTS};

use crate::support::collector::{Collector, Manner, Protocol, Taken};
use crate::support::{Client, Launch, Server, Site, noise, until};
use crate::waits::{evict, reads_without_waiting};

const OFF: &str = "[log]\naccess = \"off\"\n";

/// A server of that config with these variables.
#[track_caller]
fn start(site: &Site, server: &str, tables: &str, variables: &[(&str, String)]) -> Server {
    let mut launch = Launch::new(site, server, tables);
    launch.command.envs(variables.iter().map(|(name, value)| (name, value)));
    launch.start()
}

/// One request, and its answer.
#[track_caller]
fn ask(client: &mut Client, line: &str, fields: &str) -> crate::support::Response {
    client.send(format!("{line} HTTP/1.1\r\nHost: Site.example:8080\r\n{fields}\r\n"));
    client.response()
}

/// No attribute or event that the documentation does not name, ids of their length, times in order.
#[track_caller]
fn assert_well_formed(taken: &Taken) {
    let span = &taken.span;
    for name in taken.attributes.keys() {
        assert!(ATTRIBUTES.iter().any(|(known, _)| known == name), "{name} is not documented");
    }
    for event in &span.events {
        assert!(EVENTS.iter().any(|(known, _)| *known == event.name), "{} is not documented", event.name);
    }
    assert_eq!((span.trace_id.len(), span.span_id.len()), (16, 8));
    assert!(span.trace_id.iter().any(|byte| *byte != 0) && span.span_id.iter().any(|byte| *byte != 0));
    assert!([0, 8].contains(&span.parent_span_id.len()));
    assert!(span.start_time_unix_nano <= span.end_time_unix_nano, "{span:?}");
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let age = now.saturating_sub(Duration::from_nanos(span.end_time_unix_nano));
    assert!(age < Duration::from_secs(120), "it ended {age:?} ago");
    assert_eq!(span.flags & 1, 1, "sampled");
}

#[track_caller]
fn named<'t>(taken: &'t [Taken], name: &str) -> &'t Taken {
    let names: Vec<_> = taken.iter().map(|taken| taken.span.name.as_str()).collect();
    let mut found = taken.iter().filter(|taken| taken.span.name == name);
    let first = found.next().unwrap_or_else(|| panic!("no {name:?} in {names:?}"));
    assert!(found.next().is_none(), "{name:?} twice in {names:?}");
    first
}

/// The stable conventions for HTTP server spans, attribute by attribute, and the resource, over gRPC and over
/// HTTP with protobuf.
#[test]
fn a_collector_gets_spans_by_the_conventions_over_both_transports() {
    for protocol in Protocol::BOTH {
        let site = Site::sample();
        let collector = Collector::start(protocol, Manner::Takes);
        let mut variables = collector.variables();
        variables.extend([
            ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=s%20k".to_owned()),
            ("OTEL_SERVICE_NAME", "shop".to_owned()),
            ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test".to_owned()),
            ("POD_NAMESPACE", "front".to_owned()),
        ]);
        let tables = format!("{OFF}{}{}", site.route(), Server::RESPOND);
        let server = start(&site, "workers = 1", &tables, &variables);
        // Known to the kernel, so that nothing goes to the pool and no request has a second span.
        assert!(std::fs::metadata(site.root().join("none")).is_err());
        let mut client = server.client();
        let agent = "User-Agent: t/1\r\n";
        assert_eq!(ask(&mut client, "GET /x.txt?a=1&sig=secret&b", agent).status, 200);
        assert_eq!(ask(&mut client, "POST /r/a", "Content-Length: 0\r\n").status, 200);
        assert_eq!(ask(&mut client, "GET http://Site.example:8080/none?q", "").status, 404);
        assert_eq!(ask(&mut client, "BREW /pot", "").status, 501);
        let taken = collector.wait_for(4);
        taken.iter().for_each(assert_well_formed);
        assert_eq!(collector.field("api-key").as_deref(), Some("s k"));

        check_file(&taken);
        let resource = &taken[0].resource;
        let missing =
            taken.iter().find(|taken| taken.number("http.response.status_code") == Some(404)).unwrap();
        assert_eq!((missing.text("url.path"), missing.text("url.query")), (Some("/none"), Some("q")));
        let posted = named(&taken, "POST /r/");
        assert_eq!(
            (posted.text("http.route"), posted.text("scalws.body.source")),
            (Some("/r/"), Some("memory"))
        );
        let brewed = named(&taken, "HTTP");
        assert_eq!(brewed.text("http.request.method"), Some("_OTHER"));
        assert_eq!(brewed.text("http.request.method_original"), Some("BREW"));
        assert_eq!((brewed.text("error.type"), brewed.text("http.route")), (Some("501"), None));
        let code = |taken: &Taken| taken.span.status.as_ref().map(|status| status.code);
        assert_eq!(code(brewed), Some(StatusCode::Error as i32));
        assert_eq!(code(posted), Some(StatusCode::Unset as i32));
        let of = |name: &str| match resource.get(name) {
            Some(Value::StringValue(text)) => Some(text.as_str()),
            _ => None,
        };
        assert_eq!((of("service.name"), of("deployment.environment.name")), (Some("shop"), Some("test")));
        assert_eq!(
            (of("k8s.namespace.name"), of("service.version")),
            (Some("front"), Some(env!("CARGO_PKG_VERSION")))
        );
        assert!(of("service.instance.id").is_some_and(|id| id.len() == 32));
    }
}

/// `OTEL_EXPORTER_OTLP_COMPRESSION` is heeded on both ways.
#[test]
fn spans_are_compressed_where_it_is_asked_for() {
    for (protocol, coding) in [(Protocol::Grpc, "grpc-encoding"), (Protocol::Http, "content-encoding")] {
        for (word, expected) in [("gzip", Some("gzip")), ("none", None)] {
            let site = Site::sample();
            let collector = Collector::start(protocol, Manner::Takes);
            let mut variables = collector.variables();
            variables.push(("OTEL_EXPORTER_OTLP_COMPRESSION", word.to_owned()));
            let server = start(&site, "workers = 1", &format!("{OFF}{}", site.route()), &variables);
            assert_eq!(server.get("/x.txt").status, 200);
            assert_eq!(collector.wait_for(1)[0].text("url.path"), Some("/x.txt"));
            assert_eq!(collector.field(coding).as_deref(), expected, "{coding}, {word}");
        }
    }
}

/// Two requests to one route have spans of one name; they are told apart by their status.
#[track_caller]
fn check_file(taken: &[Taken]) {
    let of_route: Vec<_> = taken.iter().filter(|taken| taken.text("url.path") == Some("/x.txt")).collect();
    let [file] = of_route[..] else { panic!("{} spans for /x.txt", of_route.len()) };
    for (name, expected) in [
        ("http.request.method", "GET"),
        ("url.scheme", "http"),
        ("url.query", "a=1&sig=REDACTED&b"),
        ("http.route", "/"),
        ("server.address", "Site.example"),
        ("client.address", "127.0.0.1"),
        ("network.peer.address", "127.0.0.1"),
        ("network.protocol.name", "http"),
        ("network.protocol.version", "1.1"),
        ("user_agent.original", "t/1"),
        ("scalws.engine", "h1"),
        ("scalws.cache", "miss"),
    ] {
        assert_eq!(file.text(name), Some(expected), "{name}");
    }
    for (name, expected) in
        [("http.response.status_code", 200), ("http.response.body.size", 17), ("server.port", 8080)]
    {
        assert_eq!(file.number(name), Some(expected), "{name}");
    }
    assert_eq!((file.span.kind, file.span.name.as_str()), (SpanKind::Server as i32, "GET /"));
    assert!(file.text("error.type").is_none() && file.text("http.request.method_original").is_none());
    assert!(file.span.parent_span_id.is_empty(), "nobody before it");
    let events = file.events();
    let at = |name: &str| *events.get(name).unwrap_or_else(|| panic!("no {name} in {events:?}"));
    let (start, end) = (file.span.start_time_unix_nano, file.span.end_time_unix_nano);
    assert!(at("accepted") <= start && start <= at("routed"), "{events:?}, {start}");
    assert!(at("routed") <= at("resolved") && at("resolved") <= end, "{events:?}, {end}");
}

/// A cold file, an unknown tag: the hop to the pool is a span of its own, and says why.
#[test]
fn a_trip_to_the_pool_is_a_span_with_its_reason() {
    let site = Site::sample();
    if !reads_without_waiting(&site) {
        skip!("needs a file system with RWF_NOWAIT for Cargo's target directory");
    }
    let flat = File::open(site.file("flat", b"a file of a build tool")).unwrap();
    flat.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    let cold = File::open(site.file("cold", &noise(2, 1 << 20))).unwrap();
    let collector = Collector::start(Protocol::Grpc, Manner::Takes);
    let server = start(&site, "workers = 1", &format!("{OFF}{}", site.route()), &collector.variables());
    assert_eq!(server.get("/flat").status, 200);
    let taken = collector.wait_for(2);
    taken.iter().for_each(assert_well_formed);
    let (parent, child) = (named(&taken, "GET /"), named(&taken, "lookup in the pool"));
    assert_eq!(child.text("scalws.offload.cause"), Some("content_tag"));
    assert_eq!(parent.text("scalws.lookup"), Some("pool"));
    assert_is_child(child, parent);
    assert!(child.span.end_time_unix_nano > child.span.start_time_unix_nano, "it took some time");

    // The kernel may keep what it is asked to drop for a moment.
    let is_child = |taken: &Taken| taken.span.name == "body from the pool";
    until("a file that was cold", || {
        evict(&cold);
        assert_eq!(server.get("/cold").status, 200);
        collector.taken().iter().any(is_child)
    });
    let taken = collector.taken();
    let child = taken.iter().find(|taken| is_child(taken)).unwrap();
    let is_parent = |taken: &&Taken| taken.span.span_id == child.span.parent_span_id;
    let parent = taken.iter().find(is_parent).expect("the request's own span");
    assert_eq!(child.text("scalws.offload.cause"), Some("cold_data"));
    assert!(child.number("scalws.offload.trips") >= Some(1));
    assert_eq!(
        (parent.text("scalws.body.source"), parent.text("scalws.lookup")),
        (Some("sendfile"), Some("inline"))
    );
    assert!(parent.events().contains_key("first_byte"), "{:?}", parent.events());
    assert_is_child(child, parent);
}

#[track_caller]
fn assert_is_child(child: &Taken, parent: &Taken) {
    assert_eq!(child.span.kind, SpanKind::Internal as i32);
    assert_eq!(child.span.parent_span_id, parent.span.span_id);
    assert_eq!(child.span.trace_id, parent.span.trace_id);
    assert!(child.span.start_time_unix_nano >= parent.span.start_time_unix_nano);
    assert!(child.span.end_time_unix_nano <= parent.span.end_time_unix_nano);
}

/// Nobody asked: no thread, no connection, no field, no id.
#[test]
fn without_a_collector_nothing_of_it_exists() {
    let site = Site::sample();
    let server = Server::of(&site);
    let mut client = server.client();
    let fields = "X-Request-Id: a\r\nWant-Server-Timing: 1\r\ntraceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n";
    let answer = ask(&mut client, "GET /x.txt", fields);
    assert!(answer.field("x-request-id").is_none() && answer.field("server-timing").is_none());
    assert!(server.threads().iter().all(|(_, name)| name != "telemetry"));
    let line = server.access.containing("/x.txt");
    assert!(["trace_id", "span_id", "request_id"].iter().all(|name| !line.contains(name)), "{line}");
}
