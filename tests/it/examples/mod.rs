//! Every example of `docs/config.md`, started as it stands there, and the effect of each of its keys on
//! the wire. Depth is for the modules of the features; here an option that has no effect is found.
//!
//! The only changes: paths lie beneath a directory of the test's own, and ports are chosen by the kernel.

mod files;
mod limits;
mod routes;
mod tls;

use rustix::process::Signal;
use scalws::config::examples::{ALL, Example};

use crate::support::{Client, Launch, Response, Server, Site, until};

/// An example with what it needs, before it is started.
struct Shown {
    example: Example,
    site: Site,
}

impl Shown {
    #[track_caller]
    fn of(title: &str) -> Shown {
        let found: Vec<_> = ALL.iter().filter(|example| example.title == title).collect();
        let [example] = found[..] else { panic!("{} examples with the title {title:?}", found.len()) };
        let shown = Shown { example: *example, site: Site::new() };
        shown.file("/srv/x.txt", b"x marks the spot\n");
        shown.file("/var/log/scalws/none", b"");
        for file in example.files {
            // A file tells its own path.
            shown.file(file, file.as_bytes());
        }
        shown
    }

    /// Writes a file by its path in the example.
    fn file(&self, path: &str, content: &[u8]) {
        self.site.beside(path.trim_start_matches('/'), content);
    }

    /// Where a path of the example is.
    fn path(&self, path: &str) -> std::path::PathBuf {
        self.site.directory().join(path.trim_start_matches('/'))
    }

    #[track_caller]
    fn start(&self) -> Server {
        self.start_warned("nothing")
    }

    /// Starts it; it warns of nothing else.
    #[track_caller]
    fn start_warned(&self, expected: &str) -> Server {
        let mut text = self.example.toml.to_owned();
        for start in ["/srv", "/etc/scalws", "/var/log/scalws"] {
            text = text.replace(&format!("\"{start}"), &format!("\"{}", self.path(start).display()));
        }
        for port in [8080, 8081, 8082, 8443] {
            text = text.replace(&format!(":{port}\""), ":0\"");
        }
        if !text.contains("[server]") {
            text = format!("[server]\nlisten = [\"127.0.0.1:0\"]\nadmin = \"127.0.0.1:0\"\n\n{text}");
        }
        let mut launch = Launch::with_config(&self.site.config(&text), true);
        if !text.contains("[[route]]") {
            launch.command.arg(self.path("/srv"));
        }
        launch.command.envs(self.example.variables.iter().copied());
        let server = launch.start();
        let told = server.errors.all();
        let of_the_machine = "connection limit lowered";
        assert!(
            !told.iter().any(|line| {
                line.contains("\"warn\"") && !line.contains(of_the_machine) && !line.contains(expected)
            }),
            "{told:?}"
        );
        server
    }
}

#[track_caller]
fn started(title: &str) -> (Shown, Server) {
    let shown = Shown::of(title);
    let server = shown.start();
    (shown, server)
}

/// One request on a connection of its own; `head` is all of it but the empty line.
#[track_caller]
fn ask(server: &Server, head: &str) -> Response {
    let mut client = server.client();
    client.send(format!("{}\r\n\r\n", head.replace('\n', "\r\n")));
    client.response()
}

/// A GET with further fields.
#[track_caller]
fn get(server: &Server, target: &str, fields: &str) -> Response {
    ask(server, format!("GET {target} HTTP/1.1\nHost: a\n{fields}").trim_end())
}

/// The event of that name.
#[track_caller]
fn event(server: &Server, name: &str) -> serde_json::Value {
    serde_json::from_str(&server.errors.containing(&format!("\"event\":\"{name}\""))).unwrap()
}

/// An example that nobody starts is an example that may be wrong.
#[test]
fn each_has_a_test() {
    let tests = concat!(
        include_str!("mod.rs"),
        include_str!("files.rs"),
        include_str!("limits.rs"),
        include_str!("routes.rs"),
        include_str!("tls.rs")
    );
    let is_started = |title: &str| {
        tests.contains(&format!("started(\"{title}\")")) || tests.contains(&format!("of(\"{title}\")"))
    };
    let left: Vec<_> = ALL.iter().map(|example| example.title).filter(|title| !is_started(title)).collect();
    assert_eq!(left, [""; 0]);
}

/// `server`: listen, admin, workers, drain with its delay.
#[test]
fn of_the_server() {
    let (_shown, mut server) =
        started("Two addresses, two workers, and time for a load balancer to notice the end");
    let addresses = server.errors.wait_for("two addresses", |lines| {
        let found = lines.iter().filter_map(|line| crate::support::address_of(line, "listening"));
        Some(found.collect::<Vec<_>>()).filter(|found| found.len() == 2)
    });
    for address in addresses {
        assert_eq!(Client::connect(address).get("/x.txt").status, 200);
    }
    assert_eq!(server.workers(), 2);
    assert_eq!(server.admin_get("/readyz").status, 200);
    server.signal(Signal::TERM);
    until("/readyz says 503", || server.admin_get("/readyz").status == 503);
    assert_eq!(server.get("/x.txt").status, 200, "served while others may notice");
    let draining = event(&server, "draining");
    assert_eq!((&draining["delay_ms"], &draining["timeout_ms"]), (&5000.into(), &20000.into()));
    server.signal(Signal::TERM);
    assert_eq!(server.wait_exit().code(), Some(128 + 15));
}

/// `server.drain`: who is in the middle of a request is cut by the timeout.
#[test]
fn of_a_drain() {
    let (_shown, mut server) =
        started("Nobody has to notice first, and who is not done after two seconds is cut");
    let mut client = server.client();
    assert_eq!(client.get("/x.txt").status, 200);
    client.send("POST /x.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n0");
    let address = client.stream.local_addr().unwrap();
    until("the server has read it", || Server::received(address) == 0);
    server.signal(Signal::TERM);
    assert_eq!(server.wait_exit().code(), Some(0));
    let draining = event(&server, "draining");
    assert_eq!((&draining["delay_ms"], &draining["timeout_ms"]), (&0.into(), &2000.into()));
    assert_eq!(event(&server, "stopped")["connections_cut"], 1);
}

/// `telemetry`: traces, slow, errors, request_id; and `server.trusted_proxies`.
#[test]
fn of_telemetry() {
    let (_shown, server) =
        started("Ids for all requests, spans for the failed and the slow, and a proxy whose word counts");
    let answer = get(&server, "/x.txt", "X-Request-Id: from-the-proxy\n");
    assert_eq!(answer.field("x-request-id"), Some("from-the-proxy"));
    assert!(server.access.containing("/x.txt").contains("\"request_id\":\"from-the-proxy\""));
    let traces = event(&server, "traces");
    assert_eq!((&traces["slow_ms"], &traces["errors"]), (&500.into(), &true.into()));
}

#[test]
fn of_a_log() {
    let (_shown, server) = started("Lines as Apache and nginx write them");
    server.get("/x.txt");
    assert!(server.access.containing("\"GET /x.txt HTTP/1.1\" 200 17 ").starts_with("127.0.0.1 - - ["));
}

#[test]
fn of_a_log_in_a_file() {
    let (shown, server) = started("JSON lines in a file of their own");
    server.get("/x.txt");
    let log = || std::fs::read_to_string(shown.path("/var/log/scalws/access.log")).unwrap();
    until("a line in the file", || log().ends_with('\n'));
    let line: serde_json::Value = serde_json::from_str(&log()).unwrap();
    assert!(line.to_string().contains("/x.txt"), "{line}");
    assert_eq!(server.access.all(), [""; 0], "nothing on stdout");
}
