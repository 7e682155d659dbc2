//! Too much, said out loud: sizes, counts, connections (D06).

use rustix::process::{Resource, Rlimit, getrlimit, prlimit};

use crate::support::{Client, End, Heard, Server, Site, until};

#[track_caller]
fn check_said(heard: &Heard, status: u16) {
    assert_eq!(heard.statuses(), [status]);
    assert_eq!(heard.end, End::Closed, "the status must not be overtaken by a reset");
    assert!(heard.answers()[0].closes());
}

fn get(target: &str, fields: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n")
}

/// Case D06. The server closes with input unread, the kernel sends a reset instead of the status,
/// and nobody learns what was too large. Every client here writes all before it reads.
#[test]
fn what_is_too_large_is_told_to_the_client() {
    let site = Site::sample();
    let server = Server::of(&site);
    let long_field = format!("X: {}\r\n", "b".repeat(200_000));
    let many_fields: String = (0..5000).map(|number| format!("X-{number}: 1\r\n")).collect();
    let long_name = format!("{}: 1\r\n", "n".repeat(200_000));
    for target in ["/x.txt", "/healthz"] {
        check_said(&server.raw_open(get(&format!("/{}", "a".repeat(70_000)), "")), 414);
        check_said(&server.raw_open(get(&format!("{target}?{}", "q".repeat(70_000)), "")), 414);
        check_said(&server.raw_open(get(target, &long_field)), 431);
        check_said(&server.raw_open(get(target, &long_name)), 431);
        check_said(&server.raw_open(get(target, &many_fields)), 431);
        let declared = format!("POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\n");
        check_said(&server.raw_open(&declared), 413);
        check_said(&server.raw_open(declared + &"x".repeat(4 << 20)), 413);
        let chunk = format!("{:x}\r\n{}\r\n", 65_536, "x".repeat(65_536));
        let chunked = format!("POST {target} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        check_said(&server.raw_open(chunked + &chunk.repeat(64)), 413);
    }
    assert_eq!(server.get("/x.txt").status, 200);
}

/// Case D06. Bytes without any line end are too large as well, and not kept for ever.
#[test]
fn a_head_without_an_end_is_too_large() {
    let site = Site::sample();
    let server = Server::of(&site);
    for start in ["G", "GET /x.txt HTTP/1.1\r\nHost: a\r\nX: "] {
        let heard = server.raw_open(start.to_owned() + &"G".repeat(300_000));
        let statuses = heard.statuses();
        assert!(matches!(statuses.as_slice(), [400 | 414 | 431 | 501]), "{statuses:?}");
        assert_eq!(heard.end, End::Closed);
    }
}

/// Case D06. The bounds come from the config, and what fits exactly is served.
#[test]
fn the_bounds_are_exact_and_configurable() {
    let site = Site::sample();
    let limits = "[limits]\nbody_size = 10\ntarget_size = 64\nhead_size = \"1KiB\"\nfields = 8\n\
        chunk_extension_size = 20\n";
    let server = Server::with(&site, "", &format!("{limits}{}{}", site.route(), Server::RESPOND));
    let target = |length: usize| format!("/r/{}", "a".repeat(length - 3));
    let post = |frame: &str| server.raw(format!("POST /r/x HTTP/1.1\r\nHost: a\r\n{frame}")).statuses();
    let fields = |count: usize| (1..count).map(|number| format!("X-{number}: 1\r\n")).collect::<String>();
    assert_eq!(server.raw(get(&target(64), "")).statuses(), [200]);
    check_said(&server.raw_open(get(&target(65), "")), 414);
    assert_eq!(server.raw(get("/healthz", &fields(8))).statuses(), [200]);
    check_said(&server.raw_open(get("/healthz", &fields(9))), 431);
    let around = get("/healthz", "X: \r\n").len();
    let filled = |length: usize| get("/healthz", &format!("X: {}\r\n", "b".repeat(length - around)));
    assert_eq!(filled(1024).len(), 1024);
    assert_eq!(server.raw(filled(1024)).statuses(), [200]);
    check_said(&server.raw_open(filled(1025)), 431);
    assert_eq!(post("Content-Length: 10\r\n\r\n0123456789"), [200]);
    assert_eq!(post("Content-Length: 11\r\n\r\n0123456789a"), [413]);
    let chunked = "Transfer-Encoding: chunked\r\n\r\n";
    assert_eq!(post(&format!("{chunked}5\r\n01234\r\n5\r\n56789\r\n0\r\n\r\n")), [200]);
    assert_eq!(post(&format!("{chunked}5\r\n01234\r\n6\r\n56789a\r\n0\r\n\r\n")), [413]);
    assert_eq!(post(&format!("{chunked}5;123456\r\n01234\r\n5;1234567\r\n56789\r\n0\r\n\r\n")), [200]);
    assert_eq!(
        post(&format!("{chunked}5;1234567890\r\n01234\r\n5;12345678901\r\n56789\r\n0\r\n\r\n")),
        [400]
    );
}

/// One over the limit gets 503 and a close, not a silent queue; the limit counts the process and not
/// each worker, so it is tried with three. A place that becomes free is given away again.
#[test]
fn one_connection_too_many_is_503() {
    let site = Site::sample();
    let server = Server::with(&site, "workers = 3", &format!("[limits]\nconnections = 8\n{}", site.route()));
    assert_eq!(server.workers(), 3);
    let mut held: Vec<Client> = (0..8).map(|_| server.client()).collect();
    for client in &mut held {
        assert_eq!(client.get("/x.txt").status, 200);
    }
    for _ in 0..5 {
        check_said(&server.raw_open(""), 503);
    }
    for client in &mut held {
        assert_eq!(client.get("/x.txt").status, 200, "those inside are served on");
    }
    held.truncate(7);
    until("a place for a new connection", || server.get("/x.txt").status == 200);
    // Readiness has a door of its own.
    assert_eq!(server.admin_get("/readyz").status, 200);
}

/// Not HTTP at all: a TLS hello, another protocol's greeting, noise. 400 or a close, and the next
/// visitor notices nothing (case G05, plain port).
#[test]
fn other_protocols_are_turned_away() {
    let site = Site::sample();
    let server = Server::of(&site);
    for bytes in [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" as &[u8],
        b"\x16\x03\x01\xff\xff",
        b"\x80\x2e\x01\x00\x02",
        b"SSH-2.0-x\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\r\n\r\n\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        &crate::support::noise(9, 65_536),
    ] {
        let heard = server.raw(bytes);
        let statuses = heard.statuses();
        assert!(
            statuses.len() <= 1 && statuses.iter().all(|status| *status >= 400),
            "{bytes:?}: {statuses:?}"
        );
    }
    assert_eq!(server.get("/x.txt").status, 200);
}

/// No descriptor is left, so `accept` fails: a server that takes this for the end of its listener, or
/// tries again without a pause, serves nobody from then on. Here those inside are served on, and new
/// ones as soon as there is room.
#[test]
fn running_out_of_descriptors_is_survived() {
    let site = Site::sample();
    let server = Server::with(&site, "workers = 2", &format!("{}{}", site.route(), Server::RESPOND));
    let mut inside: Vec<Client> = (0..4).map(|_| server.client()).collect();
    for client in &mut inside {
        assert_eq!(client.get("/healthz").status, 200);
    }
    let plenty = getrlimit(Resource::Nofile);
    let none = Rlimit { current: Some(3), maximum: plenty.maximum };
    prlimit(Some(server.pid()), Resource::Nofile, none).unwrap();
    let outside: Vec<Client> = (0..50).map(|_| server.client()).collect();
    for _ in 0..100 {
        for client in &mut inside {
            assert_eq!(client.get("/healthz").status, 200);
        }
    }
    prlimit(Some(server.pid()), Resource::Nofile, plenty).unwrap();
    // Those that waited in the backlog are served, and so is everybody after them.
    for mut client in outside {
        assert_eq!(client.get("/healthz").status, 200);
    }
    assert_eq!(server.get("/x.txt").status, 200);
}

/// The same, told: `accept` fails ten times a second, and each time said so; or it said so once in the
/// life of the process, and the next time, days later, nobody learnt why visitors waited. One line for
/// each time that it begins. Those who are connected get a 503 that says when to come back.
#[test]
fn running_out_of_descriptors_is_told_once_each_time() {
    let site = Site::sample();
    // A file that is open already needs no descriptor.
    let route = site.route_with(", revalidate = \"0s\"");
    let server = Server::with(&site, "workers = 1", &format!("{route}{}", Server::RESPOND));
    let mut inside = server.client();
    assert_eq!(inside.get("/healthz").status, 200);
    let plenty = getrlimit(Resource::Nofile);
    let none = Rlimit { current: Some(3), maximum: plenty.maximum };
    let told = || server.errors.all().iter().filter(|line| line.contains("\"accept failed\"")).count();
    for time in 1..=3 {
        prlimit(Some(server.pid()), Resource::Nofile, none).unwrap();
        let outside: Vec<Client> = (0..20).map(|_| server.client()).collect();
        until("a line about accept", || told() >= time);
        let lines = server.errors.all();
        let line = lines.iter().rfind(|line| line.contains("\"accept failed\"")).unwrap();
        assert!(line.contains("ulimit -n"), "{line}");
        let answer = inside.get("/x.txt");
        assert_eq!((answer.status, answer.field("retry-after")), (503, Some("1")));
        // Time for it to fail again, several times.
        std::thread::sleep(std::time::Duration::from_millis(500));
        assert_eq!(told(), time, "{:?}", server.errors.all());
        prlimit(Some(server.pid()), Resource::Nofile, plenty).unwrap();
        for mut client in outside {
            assert_eq!(client.get("/healthz").status, 200);
        }
        assert_eq!(inside.get("/x.txt").status, 200);
    }
}

/// Answered, closed, and the client takes nothing: no limit of the server sees such a connection any
/// more, and the kernel kept it with its bytes for minutes. A thousand of them an hour are memory that
/// no process owns. They end with `write_timeout`.
#[test]
fn connections_that_were_closed_do_not_stay_in_the_kernel() {
    let site = Site::sample();
    site.file("page", &crate::support::noise(1, 100_000));
    let limits = "[limits]\nwrite_timeout = \"1s\"\nlinger_timeout = \"1s\"\n";
    let server = Server::with(&site, "workers = 1", &format!("{limits}{}", site.route()));
    let mut deaf: Vec<Client> = (0..20).map(|_| Client::connect_with_buffer(server.address, 4096)).collect();
    for client in &mut deaf {
        client.send("GET /page HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    }
    server.access.wait_for("line for each of them", |lines| (lines.len() >= deaf.len()).then_some(()));
    let left =
        || deaf.iter().filter(|client| Server::has_end_of(client.stream.local_addr().unwrap())).count();
    until("the end of all of them in the kernel", || left() == 0);
}
