//! `/metrics`: what the server counts is what its clients saw, also while they are at it.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::{Client, Launch, Scrape, Server, Site, noise, until};
use crate::waits::{evict, reads_without_waiting};

const OFF: &str = "[log]\naccess = \"off\"\n";

fn duration(route: &str, method: &str, class: &str, part: &str) -> String {
    format!(
        "http_server_request_duration_seconds{part}{{http_route=\"{route}\",http_request_method=\"{method}\",status_class=\"{class}\"}}"
    )
}

fn body_bytes(route: &str, method: &str, class: &str) -> String {
    duration(route, method, class, "")
        .replace("http_server_request_duration_seconds", "scalws_response_body_bytes_total")
}

/// What a client has seen: requests and bytes of bodies by route, method and class.
type Seen = BTreeMap<(&'static str, &'static str, String), (u64, u64)>;

/// A request of the mix: its bytes, and the labels under which it has to be counted.
struct Asked {
    head: String,
    route: &'static str,
    method: &'static str,
}

fn mix() -> Vec<Asked> {
    let ask = |line: &str, fields: &str, route, method| Asked {
        head: format!("{line} HTTP/1.1\r\nHost: never-a-label\r\n{fields}\r\n"),
        route,
        method,
    };
    vec![
        ask("GET /x.txt", "", "/", "GET"),
        ask("GET /large", "", "/", "GET"),
        ask("GET /docs", "", "/", "GET"),
        ask("GET /never-there", "", "/", "GET"),
        ask("HEAD /x.txt", "", "/", "HEAD"),
        ask("GET /x.txt", "If-None-Match: *\r\n", "/", "GET"),
        ask("GET /healthz", "", "=/healthz", "GET"),
        ask("POST /r/a?q=never-a-label", "Content-Length: 0\r\n", "/r/", "POST"),
        ask("DELETE /x.txt", "", "/", "DELETE"),
        ask("GET /%00never", "", "", "GET"),
        ask("NEVER-A-LABEL /x.txt", "", "", "_OTHER"),
    ]
}

/// Asks for the whole mix so often on a connection of its own.
fn client(address: std::net::SocketAddr, rounds: usize) -> Seen {
    let mut seen = Seen::new();
    let mut client = Client::connect(address);
    for _ in 0..rounds {
        for Asked { head, route, method } in &mix() {
            client.send(head);
            let answer = if *method == "HEAD" { client.response_to_head() } else { client.response() };
            let class = format!("{}xx", answer.status / 100);
            let of = seen.entry((route, method, class)).or_default();
            *of = (of.0 + 1, of.1 + answer.body.len() as u64);
        }
    }
    seen
}

fn site() -> Site {
    let site = Site::sample();
    site.file("large", &noise(1, 200_000));
    site
}

/// Four clients, two workers, and a scraper who looks all the time: no number ever falls, every histogram is
/// one at every moment, and at the end each sum is what the clients counted.
#[test]
fn every_sum_is_what_the_clients_counted() {
    const CLIENTS: usize = 4;
    const ROUNDS: usize = 150;
    let site = site();
    let tables = format!("{OFF}{}{}", site.route(), Server::RESPOND);
    let server = Server::with(&site, "workers = 2", &tables);
    let is_done = AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        let scraper = scope.spawn(|| {
            let mut before = Scrape::of(&server);
            let mut looks = 0;
            while !is_done.load(Ordering::Relaxed) || looks < 3 {
                let now = Scrape::of(&server);
                now.assert_grown_since(&before);
                before = now;
                looks += 1;
            }
        });
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(|| client(server.address, ROUNDS))).collect();
        let mut seen = Seen::new();
        for client in clients {
            for (labels, (count, bytes)) in client.join().unwrap() {
                let of = seen.entry(labels).or_default();
                *of = (of.0 + count, of.1 + bytes);
            }
        }
        is_done.store(true, Ordering::Relaxed);
        scraper.join().unwrap();
        seen
    });
    let expected: u64 = seen.values().map(|(count, _)| count).sum();
    assert_eq!(expected, (CLIENTS * ROUNDS * mix().len()) as u64);
    // A large file is counted when its last byte is with the kernel, which may be after the client has it.
    let name = "http_server_request_duration_seconds_count";
    until("all requests to be counted", || Scrape::of(&server).sum(name) == expected);
    let page = Scrape::of(&server);
    page.assert_histograms();
    for ((route, method, class), (count, bytes)) in &seen {
        assert_eq!(page.count(&duration(route, method, class, "_count")), *count, "{route} {method} {class}");
        assert_eq!(page.count(&body_bytes(route, method, class)), *bytes, "{route} {method} {class}");
    }
    let series = page.starting(name).count();
    assert_eq!(series, seen.len(), "a series that nobody asked for");
    assert!(page.label_values().all(|value| !value.to_lowercase().contains("never")), "a label of a request");
    let opened = CLIENTS as u64;
    until("all connections to be counted", || {
        Scrape::of(&server).count("scalws_connections_ended_total{how=\"client\"}") == opened
    });
    assert_eq!(page.count("scalws_connections_opened_total"), opened);
    sources_add_up(&page, expected);
}

/// Each answer has one source, each lookup one outcome.
fn sources_add_up(page: &Scrape, requests: u64) {
    assert_eq!(page.sum("scalws_answers_total"), requests);
    let each = requests / mix().len() as u64;
    assert_eq!(page.count("scalws_answers_total{source=\"sendfile\"}"), each);
    // HEAD, 304 and OPTIONS have no body, neither has the redirect's HEAD.
    assert_eq!(page.count("scalws_answers_total{source=\"none\"}"), 2 * each);
    // All of static but the method that it does not take.
    assert_eq!(page.sum("scalws_open_file_lookups_total"), 6 * each);
    assert!(page.count("scalws_open_file_lookups_total{result=\"hit\"}") > each);
    assert!(page.count("scalws_open_file_lookups_total{result=\"hit_missing\"}") > each / 2);
}

/// What a connection does is told while it does it, and how it ended afterwards.
#[test]
fn connections_are_told_by_what_they_do_and_how_they_end() {
    let site = site();
    site.file("huge", &vec![0; 32 << 20]);
    let tables = format!("{OFF}{}{}", site.route(), Server::RESPOND);
    let server = Server::with(&site, "workers = 2", &tables);
    let states = |expected: [u64; 4]| {
        until("the connections to be told", || {
            let page = Scrape::of(&server);
            ["idle", "head", "body", "answer"]
                .map(|state| page.count(&format!("scalws_connections{{state=\"{state}\"}}")))
                == expected
        });
    };
    states([0; 4]);
    let idle = server.client();
    let mut half_head = server.client();
    half_head.send("GET /x.txt HTTP/1.1\r\nHo");
    let mut half_body = server.client();
    half_body.send("POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n123");
    let mut slow = Client::connect_with_buffer(server.address, 4096);
    slow.send("GET /huge HTTP/1.1\r\nHost: a\r\n\r\n");
    states([1, 1, 1, 1]);
    let page = Scrape::of(&server);
    assert_eq!(page.count("http_server_active_requests"), 2, "the half body and the slow answer");
    half_body.send("45");
    assert_eq!(half_body.response().status, 200);
    half_head.send("st: a\r\nConnection: close\r\n\r\n");
    assert_eq!(half_head.response().status, 200);
    half_head.assert_closed();
    drop(slow);
    drop(idle);
    server.raw("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n");
    let mut early = server.client();
    early.send("GET /x.txt HTTP/1.1\r\nHo");
    states([1, 1, 0, 0]);
    drop(early);
    states([1, 0, 0, 0]);
    let page = Scrape::of(&server);
    for (how, count) in [("client", 1), ("client_early", 2), ("answered", 1), ("refused", 1)] {
        assert_eq!(page.count(&format!("scalws_connections_ended_total{{how=\"{how}\"}}")), count, "{how}");
    }
    assert_eq!(page.count("scalws_connections_opened_total"), 6);
    assert_eq!(page.count("scalws_request_body_bytes_total"), 5);
    assert_eq!(page.count("scalws_malformed_requests_total"), 1);
    assert_eq!(page.count(&duration("/", "GET", "2xx", "_count")), 2, "the cut answer is counted too");
}

/// Each limit under its key, once for each refusal and under no other.
#[test]
fn refusals_are_told_by_their_limit() {
    let site = site();
    let limits = "[limits]\nhead_size = \"1KiB\"\ntarget_size = \"64B\"\nfields = 8\nbody_size = \"10B\"\n\
        chunk_extension_size = \"4B\"\nhead_timeout = \"1s\"\nbody_timeout = \"1s\"\nconnections = 3\n";
    let tables = format!("{OFF}{limits}{}{}", site.route(), Server::RESPOND);
    let server = Server::with(&site, "workers = 1", &tables);
    let fields = "X: y\r\n".repeat(8);
    let long = "y".repeat(1024);
    for (status, request) in [
        (431, format!("GET / HTTP/1.1\r\nHost: a\r\nX: {long}\r\n\r\n")),
        (414, format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(64))),
        (431, format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n")),
        (413, "POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n".to_owned()),
        (
            400,
            "POST /healthz HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1;abcdef=1\r\n"
                .to_owned(),
        ),
        (408, "GET / HT".to_owned()),
        (408, "POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n1".to_owned()),
    ] {
        let heard = String::from_utf8(server.raw_open(request).bytes).unwrap();
        assert!(heard.starts_with(&format!("HTTP/1.1 {status} ")), "{heard}");
    }
    until("places for connections", || Scrape::of(&server).sum("scalws_connections{") == 0);
    let places: Vec<_> = (0..3)
        .map(|_| {
            let mut client = server.client();
            assert_eq!(client.get("/healthz").status, 200);
            client
        })
        .collect();
    assert_eq!(server.client().get("/healthz").status, 503);
    drop(places);
    let page = Scrape::of(&server);
    for (limit, count) in [
        ("head_size", 1),
        ("target_size", 1),
        ("fields", 1),
        ("body_size", 1),
        ("chunk_extension_size", 1),
        ("head_timeout", 1),
        ("body_timeout", 1),
        ("connections", 1),
        ("write_timeout", 0),
        ("wait_timeout", 0),
        ("offload_queue", 0),
    ] {
        assert_eq!(page.count(&format!("scalws_refusals_total{{limit=\"{limit}\"}}")), count, "{limit}");
    }
    assert_eq!(page.count("scalws_malformed_requests_total"), 0, "a limit is no malformed message");
    let refused = ["_OTHER", "POST"].map(|method| page.count(&duration("", method, "4xx", "_count")));
    assert_eq!(refused, [4, 3], "where the head was understood its method is known");
}

/// Where files come from, and why they went to the pool.
#[test]
fn trips_to_the_pool_have_their_reason() {
    let site = site();
    if !reads_without_waiting(&site) {
        skip!("needs a file system with RWF_NOWAIT for Cargo's target directory");
    }
    let flat = File::open(site.file("flat", b"a file of a build tool")).unwrap();
    flat.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    let text = "a text that shrinks ".repeat(1000);
    site.file("text.txt", text.as_bytes());
    let cold = site.file("cold", &noise(2, 1 << 20));
    site.file("shown/a", b"");
    let keys = ", listing = true, compress = true, revalidate = \"0s\", precompressed = false";
    let server = Server::with(&site, "workers = 1", &format!("{OFF}{}", site.route_with(keys)));
    let mut client = server.client();
    let mut ask = |target: &str, fields: &str| {
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
        assert_eq!(client.response().status, 200, "{target}");
    };
    ask("/flat", "");
    // The first time the name of an index that is not there has to be looked up in the pool as well.
    ask("/shown/", "");
    ask("/shown/", "");
    ask("/text.txt", "Accept-Encoding: gzip\r\n");
    ask("/x.txt", "");
    let hops = |page: &Scrape, during: &str, cause: &str| {
        page.count(&format!("scalws_request_hops_total{{during=\"{during}\",cause=\"{cause}\"}}"))
    };
    // The kernel may keep what it is asked to drop for a moment.
    let cold = File::open(cold).unwrap();
    until("a file that was cold", || {
        evict(&cold);
        ask("/cold", "");
        hops(&Scrape::of(&server), "body", "cold_data") > 0
    });
    let page = Scrape::of(&server);
    for cause in ["content_tag", "compress"] {
        assert_eq!(hops(&page, "lookup", cause), 1, "{cause}");
    }
    assert!(hops(&page, "lookup", "listing") >= 1);
    assert_eq!(page.count("scalws_lookups_total{lane=\"pool\",cause=\"content_tag\"}"), 1);
    assert!(page.count("scalws_lookups_total{lane=\"inline\",cause=\"\"}") >= 3);
    assert!(page.count("scalws_answers_total{source=\"pread\"}") >= 1);
    until("the last answer to be counted", || {
        Scrape::of(&server).count("scalws_answers_total{source=\"sendfile\"}") > 0
    });
    assert!(page.count("scalws_compressed_files") == 1 && page.count("scalws_compressed_bytes") > 0);
    let ran = page.count("scalws_offload_run_seconds_count");
    assert!(ran >= 4 && page.count("scalws_offload_jobs_taken_total") >= ran, "{ran} jobs");
    assert!(page.count("scalws_offload_wait_seconds_count") >= ran, "who ran has waited");
    page.assert_histograms();
}

/// What is kept of files, told by each worker's tick.
#[test]
fn what_is_kept_of_files_is_told() {
    let site = site();
    let tables = format!("{OFF}[limits]\nopen_files = 2\n{}", site.route());
    let server = Server::with(&site, "workers = 1", &tables);
    for target in ["/empty", "/y.txt", "/docs/", "/x.txt", "/none"] {
        server.get(target);
    }
    until("the worker to tell", || {
        // Its bytes are kept when it is no longer young.
        let bytes = server.get("/x.txt").body.len() as u64;
        let page = Scrape::of(&server);
        page.count("scalws_open_files") == 2
            && page.count("scalws_missing_files") == 1
            && page.count("scalws_open_files_evicted_total") == 2
            && page.count("scalws_open_files_bytes") == bytes
    });
}

/// Which build with which config, since when, and whether its workers live.
#[test]
fn the_process_tells_who_it_is() {
    let site = site();
    let server = Server::with(&site, "workers = 2", &site.route());
    let page = Scrape::of(&server);
    let config: serde_json::Value =
        serde_json::from_str(&server.errors.containing("\"event\":\"config\"")).unwrap();
    let digest = config["digest"].as_str().unwrap();
    assert_eq!(page.count(&format!("scalws_config_info{{digest=\"{digest}\"}}")), 1);
    assert_eq!(page.count(&format!("scalws_build_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION"))), 1);
    for worker in [0, 1] {
        let age = page.value(&format!("scalws_worker_heartbeat_age_seconds{{worker=\"{worker}\"}}"));
        assert!(age < 60.0, "{age}");
    }
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs_f64();
    let age = now - page.value("process_start_time_seconds");
    assert!((-2.0..120.0).contains(&age), "started {age} s ago");
}

/// The form that the scraper asks for; and a door that only the admin port has.
#[test]
fn openmetrics_is_there_for_those_who_ask() {
    let site = site();
    let server = Server::of(&site);
    let mut client = Client::connect(server.admin.unwrap());
    client.send("GET /metrics HTTP/1.1\r\nHost: a\r\nAccept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n\r\n");
    let answer = client.response();
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!((answer.status, answer.field("content-type")), (200, Some(kind)));
    let text = answer.text();
    assert!(text.ends_with("\n# EOF\n") && text.contains("# TYPE scalws_refusals counter\n"), "{text}");
    Scrape::parse(&text).assert_histograms();
    client.send("POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(client.response().status, 405);
    assert_eq!(server.get("/metrics").status, 404, "not on the site");
}

/// Lines that nobody reads are counted where a scraper sees them.
#[test]
fn dropped_log_lines_are_counted() {
    let site = site();
    let tables = format!("[limits]\nlog_queue_size = \"64KiB\"\n{}", Server::RESPOND);
    let (reader, writer) = std::io::pipe().unwrap();
    let mut launch = Launch::new(&site, "workers = 2", &tables);
    launch.command.stdout(writer);
    let server = launch.start();
    let batch = "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n".repeat(100);
    let mut client = server.client();
    let dropped = || Scrape::of(&server).count("scalws_log_lines_dropped_total{log=\"access\"}");
    until("a pipe and a queue that are full", || {
        client.send(&batch);
        (0..100).for_each(|_| assert_eq!(client.response().status, 200));
        dropped() > 0
    });
    drop(reader);
}
