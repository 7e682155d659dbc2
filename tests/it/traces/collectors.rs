//! Case H07: a collector that is not there, does not answer, is slow, or takes nothing. Requests go on, the
//! queue is bounded, one line tells of each change, the end does not wait, and every span is accounted for.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use super::{OFF, start};
use crate::support::collector::{Collector, Manner, Protocol, variables};
use crate::support::{Launch, Scrape, Server, Site, until};

/// Requests to a server with one worker, all of which have spans.
const REQUESTS: usize = 3_000;

struct Case {
    protocol: Protocol,
    address: SocketAddr,
    /// What the collector may take: half a second unless it has to be longer than that.
    timeout_ms: u64,
}

/// Starts a server with one worker that sends spans there, a small queue, and no time to drain.
#[track_caller]
fn server(site: &Site, case: &Case) -> Server {
    let mut variables = variables(case.address, case.protocol);
    variables.push(("OTEL_EXPORTER_OTLP_TIMEOUT", case.timeout_ms.to_string()));
    variables.push(("OTEL_BSP_MAX_QUEUE_SIZE", "100".to_owned()));
    variables.push(("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "50".to_owned()));
    let keys = "workers = 1\ndrain = { delay = \"0s\", timeout = \"1s\" }";
    start(site, keys, &format!("{OFF}{}", Server::RESPOND), &variables)
}

#[track_caller]
fn load(server: &Server) {
    let mut client = server.client();
    for _ in 0..REQUESTS {
        assert_eq!(client.get("/healthz").status, 200);
    }
}

/// Spans of the last line of the process: made, exported, and dropped by cause.
struct Told {
    made: u64,
    exported: u64,
    dropped: Vec<(String, u64)>,
}

impl Told {
    fn lost(&self) -> u64 {
        self.dropped.iter().map(|(_, count)| count).sum()
    }

    fn by(&self, cause: &str) -> u64 {
        self.dropped.iter().find(|(name, _)| name == cause).map_or(0, |(_, count)| *count)
    }
}

fn event(server: &Server, name: &str) -> Value {
    serde_json::from_str(&server.errors.containing(&format!("\"event\":\"{name}\""))).unwrap()
}

/// Milliseconds of the day of a line of the server.
fn time_ms(line: &Value) -> u64 {
    let text = line["timestamp"].as_str().unwrap();
    let number = |range: std::ops::Range<usize>| text[range].parse::<u64>().unwrap();
    ((number(11..13) * 60 + number(14..16)) * 60 + number(17..19)) * 1000 + number(20..23)
}

/// Stops the server; what it tells at its end.
#[track_caller]
fn stop(server: Server) -> Told {
    stop_timed(server).1
}

/// The same with how many milliseconds it took, which have to be within the drain and two seconds.
#[track_caller]
fn stop_timed(mut server: Server) -> (u64, Told) {
    server.signal(Signal::TERM);
    assert_eq!(server.wait_exit().code(), Some(0));
    let (began, ended) = (event(&server, "draining"), event(&server, "stopped"));
    let took_ms = (time_ms(&ended) + 86_400_000 - time_ms(&began)) % 86_400_000;
    assert!(took_ms <= 1_000 + 2_000, "the end took {took_ms} ms");
    let spans = &ended["spans"];
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("no number in {ended}"));
    let dropped = spans["dropped"].as_object().unwrap();
    let told = Told {
        made: number(&spans["made"]),
        exported: number(&spans["exported"]),
        dropped: dropped.iter().map(|(cause, count)| (cause.clone(), number(count))).collect(),
    };
    (took_ms, told)
}

/// How often the server has told of that change.
fn times(server: &Server, event: &str) -> usize {
    server.errors.all().iter().filter(|line| line.contains(&format!("\"event\":\"{event}\""))).count()
}

/// The equation: what was dropped is what was made and not received.
#[track_caller]
fn assert_accounted_for(told: &Told, received: usize) {
    assert_eq!(told.made, REQUESTS as u64, "one span a request");
    assert_eq!(told.exported, received as u64, "received, by the collector's own count");
    assert_eq!(told.lost(), told.made - received as u64, "{:?}", told.dropped);
}

/// The same equation while the server runs, where no span is on its way.
#[track_caller]
fn assert_scraped(server: &Server, received: impl Fn() -> usize) {
    until("all spans to be accounted for", || {
        let page = Scrape::of(server);
        let lost = page.sum("scalws_spans_dropped_total");
        let made = page.count("scalws_spans_made_total");
        made == REQUESTS as u64 && lost == made - received() as u64
    });
}

#[test]
fn refused_connections_cost_spans_and_nothing_else() {
    for protocol in Protocol::BOTH {
        let site = Site::sample();
        let port = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = port.local_addr().unwrap();
        drop(port);
        let server = server(&site, &Case { protocol, address, timeout_ms: 500 });
        load(&server);
        assert_scraped(&server, || 0);
        assert!(Scrape::of(&server).count("scalws_spans_dropped_total{cause=\"unreachable\"}") > 0);
        assert_eq!(times(&server, "traces do not arrive"), 1, "one line a change");
        assert_eq!(event(&server, "traces do not arrive")["cause"], "unreachable");
        // It comes back.
        let listener = TcpListener::bind(address).unwrap();
        let collector = Collector::start_on(listener, protocol, Manner::Takes);
        let mut client = server.client();
        until("a span to arrive", || {
            assert_eq!(client.get("/healthz").status, 200);
            !collector.taken().is_empty()
        });
        server.errors.containing("\"event\":\"traces arrive again\"");
        assert_eq!((times(&server, "traces do not arrive"), times(&server, "traces arrive again")), (1, 1));
        let told = stop(server);
        assert_eq!(told.lost() + collector.taken().len() as u64, told.made, "{:?}", told.dropped);
        assert_eq!(told.exported, collector.taken().len() as u64);
    }
}

/// The kernel takes the connection, and nobody ever answers.
#[test]
fn a_silent_collector_costs_spans_and_nothing_else() {
    for protocol in Protocol::BOTH {
        let site = Site::sample();
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = silent.local_addr().unwrap();
        let server = server(&site, &Case { protocol, address, timeout_ms: 200 });
        load(&server);
        assert_scraped(&server, || 0);
        assert!(Scrape::of(&server).count("scalws_spans_dropped_total{cause=\"timeout\"}") > 0);
        assert_eq!(times(&server, "traces do not arrive"), 1, "one line a change");
        assert_eq!(event(&server, "traces do not arrive")["cause"], "timeout");
        let told = stop(server);
        assert_accounted_for(&told, 0);
        // A batch of 50 in 200 ms: nothing like as many as came.
        assert!(told.by("queue_full") > 0, "the queue is bounded: {:?}", told.dropped);
    }
}

/// A connection whose other end says nothing any more is not held until the kernel gives it up: the next
/// requests go over a new one.
#[test]
fn a_dead_connection_to_a_collector_is_given_up() {
    let site = Site::sample();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let server = server(&site, &Case { protocol: Protocol::Grpc, address, timeout_ms: 400 });
    silent.set_nonblocking(true).unwrap();
    let mut client = server.client();
    let mut connections = Vec::new();
    until("a second connection", || {
        assert_eq!(client.get("/healthz").status, 200);
        connections.extend(silent.accept().ok());
        connections.len() == 2
    });
}

/// Nobody even answers that there is somebody: packets that are dropped look like that. The queue of a
/// listener that takes one connection is full, and the kernel drops what comes on top (listen(2)).
#[test]
fn a_collector_behind_a_black_hole_costs_spans_and_nothing_else() {
    for protocol in Protocol::BOTH {
        let site = Site::sample();
        let hole = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        hole.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        hole.listen(0).unwrap();
        let address = hole.local_addr().unwrap().as_socket().unwrap();
        let connect = || TcpStream::connect_timeout(&address, Duration::from_millis(200));
        let queued: Vec<_> = std::iter::from_fn(|| connect().ok()).take(100).collect();
        assert!(queued.len() < 100, "the queue is never full");
        let server = server(&site, &Case { protocol, address, timeout_ms: 200 });
        load(&server);
        assert_scraped(&server, || 0);
        assert_eq!(times(&server, "traces do not arrive"), 1, "one line a change");
        assert_accounted_for(&stop(server), 0);
        drop(queued);
    }
}

/// The same with all the time that a collector may take by default: the end does not wait for it.
#[test]
fn the_end_does_not_wait_for_a_silent_collector() {
    let site = Site::sample();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let case = Case { protocol: Protocol::Grpc, address: silent.local_addr().unwrap(), timeout_ms: 10_000 };
    let server = server(&site, &case);
    load(&server);
    let told = stop(server);
    assert!(told.by("shutdown") > 0 && told.by("queue_full") > 0, "{:?}", told.dropped);
    assert_accounted_for(&told, 0);
}

/// What the end waits for it waits for at once: the half second of a log that nobody reads is within the second
/// of the spans.
#[test]
fn the_log_and_the_spans_end_together() {
    let site = Site::sample();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let variables = variables(silent.local_addr().unwrap(), Protocol::Grpc);
    let tables = format!("[limits]\nlog_queue_size = \"64KiB\"\n{}", Server::RESPOND);
    let end_ms = || {
        let mut launch = Launch::new(&site, "workers = 1", &tables);
        launch.command.envs(variables.iter().map(|(name, value)| (name, value)));
        let (reader, writer) = std::io::pipe().unwrap();
        launch.command.stdout(writer);
        let server = launch.start();
        let mut client = server.client();
        until("a pipe and a queue that are full", || {
            (0..100).for_each(|_| assert_eq!(client.get("/healthz").status, 200));
            Scrape::of(&server).count("scalws_log_lines_dropped_total{log=\"access\"}") > 0
        });
        drop(client);
        let (took_ms, told) = stop_timed(server);
        assert!(told.by("shutdown") > 0, "{:?}", told.dropped);
        drop(reader);
        took_ms
    };
    // A busy machine makes it longer; nothing makes one after the other shorter than a second and a half.
    let took_ms: Vec<_> = (0..3).map(|_| end_ms()).take_while(|took_ms| *took_ms >= 1_450).collect();
    assert!(took_ms.len() < 3, "{took_ms:?}");
}

/// Slower than the requests come: the queue is full, what it has is sent, and the end sends what it can.
#[test]
fn a_slow_collector_costs_what_the_queue_cannot_hold() {
    for protocol in Protocol::BOTH {
        let site = Site::sample();
        let collector = Collector::start(protocol, Manner::Slow(Duration::from_millis(50)));
        let case = Case { protocol, address: collector.address, timeout_ms: 30_000 };
        let server = server(&site, &case);
        load(&server);
        until("the queue to be sent", || {
            let page = Scrape::of(&server);
            let done = page.count("scalws_spans_exported_total") + page.sum("scalws_spans_dropped_total");
            done == REQUESTS as u64
        });
        assert_scraped(&server, || collector.taken().len());
        assert_eq!(times(&server, "traces do not arrive"), 0, "slow is not down");
        let told = stop(server);
        assert!(told.by("queue_full") > 0, "{:?}", told.dropped);
        assert!(!collector.taken().is_empty());
        assert_accounted_for(&told, collector.taken().len());
    }
}

/// It answers, and takes nothing, or only a part of it: what it says it did not take is dropped.
#[test]
fn a_collector_that_takes_nothing_or_a_part_is_believed() {
    for protocol in Protocol::BOTH {
        for manner in [Manner::Refuses, Manner::TakesBut(1)] {
            let site = Site::sample();
            let collector = Collector::start(protocol, manner);
            let case = Case { protocol, address: collector.address, timeout_ms: 30_000 };
            let server = server(&site, &case);
            load(&server);
            let is_down = usize::from(manner == Manner::Refuses);
            assert_scraped(&server, || collector.taken().len());
            assert_eq!(times(&server, "traces do not arrive"), is_down);
            let told = stop(server);
            assert!(told.by("rejected") > 0, "{:?}", told.dropped);
            assert_accounted_for(&told, collector.taken().len());
        }
    }
}

/// What is in the queue when the process ends is sent, where somebody takes it.
#[test]
fn the_end_sends_what_is_left() {
    for protocol in Protocol::BOTH {
        let site = Site::sample();
        let collector = Collector::start(protocol, Manner::Takes);
        let mut variables = collector.variables();
        // Longer than the test: only the end sends.
        variables.push(("OTEL_BSP_SCHEDULE_DELAY", "3000000".to_owned()));
        let server = start(&site, "workers = 1", &format!("{OFF}{}", Server::RESPOND), &variables);
        for _ in 0..20 {
            assert_eq!(server.get("/healthz").status, 200);
        }
        assert_eq!(collector.taken().len(), 0);
        let told = stop(server);
        assert_eq!((told.made, told.exported, told.lost()), (20, 20, 0));
        assert_eq!(collector.taken().len(), 20);
    }
}
