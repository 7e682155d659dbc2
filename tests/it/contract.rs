//! The contract with the kernel: how many system calls a request may cost, by name.
//!
//! A call more is a few hundred nanoseconds of every request, and no test of behaviour notices it.
//! Counted on the built binary, of all threads that serve: a trip to the pool shows by what the worker then
//! leaves out. epoll_wait is reported apart, because how many requests share one is up to the load.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::open_files;
use crate::support::strace::{Trace, name_of};
use crate::support::{Response, Server, Site, noise};
use crate::waits::reads_without_waiting;

const REQUESTS: usize = 1_000;

/// Calls of a worker that come with the clock: a tick a second turns its wheel, stamps its heartbeat and
/// hands over the log.
const CALLS_A_SECOND: f64 = 10.0;

/// The calls of a request on a kept connection that go to the socket.
const SOCKET: &[&str] = &["recvfrom", "sendto"];
/// The look at a file that is open already.
const LOOK: &[&str] = &["newfstatat"];
/// A file of 1 KiB that is not kept open.
const FILE: &[&str] = &["openat2", "newfstatat", "preadv2", "close"];

struct Row {
    what: &'static str,
    /// Of the route of files.
    keys: &'static str,
    log: &'static str,
    target: &'static str,
    fields: &'static str,
    status: u16,
    calls: &'static [&'static [&'static str]],
}

const UNCACHED: &str = ", revalidate = \"0s\"";
const OFF: &str = "access = \"off\"";

const fn row(what: &'static str, target: &'static str, calls: &'static [&'static [&'static str]]) -> Row {
    Row { what, keys: "", log: OFF, target, fields: "", status: 200, calls }
}

const ROWS: &[Row] = &[
    row("respond", "/healthz", &[SOCKET]),
    Row { log: "access = \"json\"", ..row("respond with an access log", "/healthz", &[SOCKET]) },
    Row { keys: UNCACHED, ..row("uncached 1 KiB", "/1k", &[SOCKET, FILE]) },
    Row {
        keys: UNCACHED,
        log: "access = \"json\"",
        ..row("uncached 1 KiB with an access log", "/1k", &[SOCKET, FILE])
    },
    Row {
        keys: UNCACHED,
        fields: "Accept-Encoding: gzip\r\n",
        ..row("uncached sidecar", "/app.js", &[SOCKET, FILE, &["openat2", "newfstatat", "close"]])
    },
    Row { keys: UNCACHED, status: 404, ..row("uncached 404 of a file", "/none", &[SOCKET, &["openat2"]]) },
    row("cached 1 KiB", "/1k", &[SOCKET, LOOK]),
    Row { fields: "If-None-Match: {etag}\r\n", status: 304, ..row("304", "/1k", &[SOCKET, LOOK]) },
    Row { fields: "Accept-Encoding: gzip\r\n", ..row("sidecar", "/app.js", &[SOCKET, LOOK]) },
    Row { status: 404, ..row("404 of a file", "/none", &[SOCKET]) },
    // The same with the access log on: its lines are written by a thread of their own.
    Row { log: "access = \"json\"", ..row("cached 1 KiB with an access log", "/1k", &[SOCKET, LOOK]) },
    Row {
        log: "access = \"json\"",
        fields: "If-None-Match: {etag}\r\n",
        status: 304,
        ..row("304 with an access log", "/1k", &[SOCKET, LOOK])
    },
    Row {
        log: "access = \"json\"",
        fields: "Accept-Encoding: gzip\r\n",
        ..row("sidecar with an access log", "/app.js", &[SOCKET, LOOK])
    },
    Row {
        log: "access = \"json\"",
        status: 404,
        ..row("404 of a file with an access log", "/none", &[SOCKET])
    },
];

/// A trace of all calls, or a word that there is none; where CI runs there has to be one.
fn trace(server: &Server, site: &Site) -> Option<Trace> {
    match Trace::of(server, site, "all") {
        Ok(trace) => Some(trace),
        Err(why) => {
            assert!(std::env::var_os("CI").is_none(), "the contract was not looked at: {why}");
            crate::support::say_skipped(&why);
            None
        }
    }
}

/// What was counted: calls by name for each request, and how far the clock may have moved them.
struct Counted {
    each: BTreeMap<String, f64>,
    slack: f64,
}

/// Ends the trace of so many requests; without the threads that work by the clock.
fn count(trace: Trace, server: &Server, requests: usize, since: Instant) -> Counted {
    let by_clock = |id: u32, name: &str| {
        id == server.pid().as_raw_nonzero().get().cast_unsigned() || ["admin", "offload"].contains(&name)
    };
    let threads = server.threads().into_iter();
    let left_out: Vec<u32> = threads.filter(|(id, name)| by_clock(*id, name)).map(|(id, _)| id).collect();
    let slack = 0.05 + CALLS_A_SECOND * (since.elapsed().as_secs_f64() + 1.0) / requests as f64;
    let mut each = BTreeMap::new();
    for (_, call) in trace.end().iter().filter(|(thread, _)| !left_out.contains(thread)) {
        *each.entry(name_of(call).to_owned()).or_insert(0.0) += 1.0 / requests as f64;
    }
    if cfg!(debug_assertions) {
        // The standard library looks whether what it closes is open.
        each.remove("fcntl");
    }
    Counted { each, slack }
}

/// Compares with what the contract names; `epoll_wait` is only told.
#[track_caller]
fn check(what: &str, counted: Counted, wanted: &[&[&str]]) {
    let Counted { each: mut found, slack } = counted;
    let waits = found.remove("epoll_wait").unwrap_or_default();
    let total: f64 = found.values().sum();
    eprintln!("{what:34} {total:5.2} calls, {waits:.2} epoll_wait, {slack:.2} may be the clock's");
    assert!(slack < 0.5, "{what}: a machine so slow that nothing can be said");
    let wanted: Vec<&str> = wanted.concat();
    for name in &wanted {
        let times = wanted.iter().filter(|other| *other == name).count() as f64;
        let each = found.get(*name).copied().unwrap_or_default();
        assert!((each - times).abs() < slack, "{what}: {each:.2} {name}, not {times}: {found:#?}");
    }
    let limit = wanted.len() as f64 + slack;
    assert!(total < limit, "{what}: {total:.2} calls, the contract says {}: {found:#?}", wanted.len());
}

fn site() -> Site {
    let site = Site::sample();
    site.file("1k", &noise(1, 1024));
    site.file("app.js", &noise(2, 1024));
    site.file("app.js.gz", &noise(3, 512));
    site
}

fn start(site: &Site, keys: &str, log: &str) -> Server {
    Server::with(site, "workers = 1", &format!("[log]\n{log}\n{}{}", site.route_with(keys), Server::RESPOND))
}

#[test]
fn a_request_costs_the_calls_that_are_written_here() {
    let site = site();
    if !reads_without_waiting(&site) {
        skip!("needs a file system with RWF_NOWAIT for Cargo's target directory");
    }
    // What is fresh is not kept in memory yet.
    open_files::grow_old(&site.root().join("app.js.gz"));
    for row in ROWS {
        let server = start(&site, row.keys, row.log);
        let mut client = server.client();
        let tag = client.get("/1k").field("etag").unwrap().to_owned();
        let fields = row.fields.replace("{etag}", &tag);
        let request = format!("GET {} HTTP/1.1\r\nHost: a\r\n{fields}\r\n", row.target);
        let mut ask = || -> Response {
            client.send(&request);
            client.response()
        };
        // What is asked for first is not in memory.
        for _ in 0..4 {
            assert_eq!(ask().status, row.status, "{}", row.what);
        }
        let Some(trace) = trace(&server, &site) else { return };
        let since = Instant::now();
        for _ in 0..REQUESTS {
            assert_eq!(ask().status, row.status, "{}", row.what);
        }
        check(row.what, count(trace, &server, REQUESTS, since), row.calls);
    }
}

/// A connection for each request. The kernel makes a socket before it says that there is nobody to
/// accept, so a call of accept4 that fails costs as much as one that does not; and what never waits
/// need not be known to epoll. Named here: what each call is for.
#[test]
fn a_new_connection_costs_no_call_that_it_does_not_need() {
    let site = site();
    let server = start(&site, "", OFF);
    let request = "GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let Some(trace) = trace(&server, &site) else { return };
    let since = Instant::now();
    for _ in 0..REQUESTS {
        let mut client = server.client();
        client.send(request);
        assert_eq!(client.response().status, 200);
    }
    let mut counted = count(trace, &server, REQUESTS, since);
    let (found, slack) = (&mut counted.each, counted.slack);
    // Where the request is not there yet when it is accepted: a read that fails, and epoll is told of the
    // socket and of its end.
    let late = found.remove("epoll_ctl").unwrap_or_default() / 2.0;
    *found.entry("recvfrom".to_owned()).or_default() -= late;
    // Is anybody there: once with yes, once with no, at most.
    let looks = found.remove("poll").unwrap_or_default();
    eprintln!("{late:.2} requests came after their connection, {looks:.2} looks at the queue");
    assert!(looks < 2.0 + slack, "{looks:.2} looks at the queue: {found:#?}");
    // SIOCOUTQ: nothing of the answer may be lost with the end of the process (case H01).
    check("a new connection", counted, &[&["accept4", "recvfrom", "sendto", "ioctl", "close"]]);
}
