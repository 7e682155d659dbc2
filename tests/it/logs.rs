//! The access log: what a line says, and that it never holds up a request (H05).

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::Value;

use crate::support::{Launch, Mounted, Server, Site, address_of, until};

fn parse(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// One line a request, with the names of OpenTelemetry's conventions, as they are.
#[test]
fn a_line_says_what_happened() {
    let site = Site::sample();
    let server = Server::of(&site);
    let mut client = server.client();
    client.send(
        "GET /x.txt?a=%20b HTTP/1.1\r\nHost: a\r\nUser-Agent: tester/1\r\nReferer: http://b/\r\nCookie: s=secret\r\n\r\n",
    );
    assert_eq!(client.response().status, 200);
    let line = server.access.containing("/x.txt");
    let value = parse(&line);
    assert_eq!(value["http.request.method"], "GET");
    assert_eq!(value["url.path"], "/x.txt");
    assert_eq!(value["url.query"], "a=%20b");
    assert_eq!(value["http.response.status_code"], 200);
    assert_eq!(value["http.response.body.size"], 17);
    assert_eq!(value["client.address"], "127.0.0.1");
    assert_eq!(value["user_agent.original"], "tester/1");
    assert_eq!(value["http.request.header.referer"], "http://b/");
    assert_eq!(value["network.protocol.version"], "1.1");
    assert!(value["duration_us"].is_u64(), "{line}");
    let timestamp = value["timestamp"].as_str().unwrap();
    assert!(timestamp.ends_with('Z') || timestamp.contains('+'), "UTC with its offset: {timestamp}");
    assert!(!line.contains("secret"));
}

/// Refused requests have a line as well, and one line each.
#[test]
fn every_answer_has_its_line() {
    let site = Site::sample();
    let server = Server::with(&site, "workers = 1", &format!("{}{}", site.route(), Server::RESPOND));
    for request in [
        "GET /none HTTP/1.1\r\nHost: a\r\n\r\n",
        "FOO /healthz HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /x.txt HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "HEAD /x.txt HTTP/1.0\r\n\r\n",
        "garbage\r\n\r\n",
    ] {
        assert!(!server.raw(request).bytes.is_empty());
    }
    let lines = server.access.wait_for("fifth line", |lines| (lines.len() >= 5).then(|| lines.to_vec()));
    let statuses: Vec<_> =
        lines.iter().map(|line| parse(line)["http.response.status_code"].as_u64()).collect();
    assert_eq!(statuses, [404, 501, 400, 200, 400].map(Some));
    let head =
        lines.iter().map(|line| parse(line)).find(|line| line["http.request.method"] == "HEAD").unwrap();
    assert_eq!(head["http.response.body.size"], 0);
    assert_eq!(head["network.protocol.version"], "1.0");
}

/// A visitor who writes line ends, quotes or terminal codes into a field writes no line of the log.
#[test]
fn a_log_line_cannot_be_forged() {
    let site = Site::sample();
    let evil = "a\"b\\c\t{\"forged\":1}\u{1b}[31m\u{e9}";
    for format in ["json", "combined"] {
        let log = format!("[log]\naccess = \"{format}\"\n{}", site.route());
        let server = Server::with(&site, "workers = 1", &log);
        // What may stand in a field is logged safely; what may not is refused.
        let allowed = evil.replace('\u{1b}', "");
        for agent in [allowed.as_str(), evil, "a\u{7f}b"] {
            server.raw(format!("GET /x.txt HTTP/1.1\r\nHost: a\r\nUser-Agent: {agent}\r\n\r\n"));
        }
        server.raw("GET /%0a%22forged%22 HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(server.get("/last").status, 404);
        server.access.containing("/last");
        let lines = server.access.all();
        assert_eq!(lines.len(), 5, "{lines:?}");
        for line in &lines {
            assert!(!line.contains('\u{1b}') && !line.contains('\u{7f}') && !line.contains('\r'), "{line:?}");
            if format == "json" {
                assert!(parse(line).get("forged").is_none());
            }
        }
    }
}

/// The combined format is what existing tools read.
#[test]
fn the_combined_format() {
    let site = Site::sample();
    let server = Server::with(&site, "", &format!("[log]\naccess = \"combined\"\n{}", site.route()));
    server.raw("GET /x.txt?q HTTP/1.1\r\nHost: a\r\nUser-Agent: t \"1\"\r\nReferer: http://b/\r\n\r\n");
    let line = server.access.containing("/x.txt");
    assert!(line.starts_with("127.0.0.1 - - ["), "{line}");
    assert!(line.contains("] \"GET /x.txt?q HTTP/1.1\" 200 17 \"http://b/\" \"t "), "{line}");
    assert!(line.ends_with('"'), "{line}");
    let rest = &line[line.find('[').unwrap() + 1..];
    assert!(rest.contains(" +0000] "), "{line}");
}

#[test]
fn the_log_can_be_off_or_in_a_file() {
    let site = Site::sample();
    let off = Server::with(&site, "", &format!("[log]\naccess = \"off\"\n{}", site.route()));
    assert_eq!(off.get("/x.txt").status, 200);
    let file = site.directory().join("access.log");
    let log = format!("[log]\naccess = {{ format = \"json\", file = '{}' }}\n", file.display());
    for _ in 0..2 {
        let server = Server::with(&site, "", &format!("{log}{}", site.route()));
        assert_eq!(server.get("/x.txt").status, 200);
        let lines = || std::fs::read_to_string(&file).unwrap_or_default().lines().count();
        let before = lines();
        assert_eq!(server.get("/x.txt").status, 200);
        until("the line in the file", || lines() > before.max(1) || lines() >= 2);
        assert!(server.access.all().is_empty());
    }
    assert!(off.access.all().is_empty());
}

/// Sends that many requests over a few connections and reads every answer.
fn request_many(address: std::net::SocketAddr, total: usize) {
    let mut clients: Vec<_> = (0..4).map(|_| crate::support::Client::connect(address)).collect();
    let batch = "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n".repeat(100);
    for _ in 0..total / 400 {
        for client in &mut clients {
            client.send(&batch);
        }
        for client in &mut clients {
            for _ in 0..100 {
                assert_eq!(client.response().status, 200);
            }
        }
    }
}

/// The number in a record that tells about lost lines.
fn lost_in(line: &str) -> Option<u64> {
    let value: Value = serde_json::from_str(line).ok()?;
    let told = value
        .as_object()?
        .iter()
        .any(|(key, value)| key.contains("lost") || value.as_str().is_some_and(|text| text.contains("lost")));
    if !told {
        return None;
    }
    value.as_object()?.iter().find_map(|(key, value)| {
        value.as_u64().filter(|_| key.contains("lost") || key.contains("count") || key.contains("lines"))
    })
}

/// Case H05. Nobody reads stdout: the pipe fills at 64 KiB, the write blocks the worker, and the site
/// stands still because a log collector does. Here lines are dropped and counted, every request is
/// answered, and afterwards the log says how many are missing: none is unaccounted for.
#[test]
fn an_unread_log_holds_up_nothing_and_counts_its_loss() {
    let site = Site::sample();
    let tables = format!("[limits]\nlog_queue_size = \"64KiB\"\n{}{}", site.route(), Server::RESPOND);
    let mut launch = Launch::new(&site, "workers = 2\nadmin = \"off\"", &tables);
    let mut child = launch.command.spawn().unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let address = loop {
        let mut line = String::new();
        assert_ne!(errors.read_line(&mut line).unwrap(), 0, "the server ended");
        if let Some(address) = address_of(&line, "listening") {
            break address;
        }
    };
    // From here on nobody reads either stream.
    request_many(address, 20_000);
    let access = crate::support::Lines::of(child.stdout.take().unwrap());
    let told = crate::support::Lines::of(errors);
    // The reader is back: one more request, so that there is a line after the gap.
    crate::support::Client::connect(address).get("/healthz");
    let lost: std::cell::Cell<u64> = std::cell::Cell::new(0);
    until("all lines, or the number of those that are lost", || {
        let (access, told) = (access.all(), told.all());
        lost.set(access.iter().chain(&told).filter_map(|line| lost_in(line)).sum());
        let written = access.iter().filter(|line| line.contains("/healthz")).count() as u64;
        written + lost.get() == 20_001
    });
    assert!(lost.get() > 0, "twenty thousand lines do not fit into a pipe and 64 KiB");
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Case H05. The reader is gone: the write fails with EPIPE, and the default is to die of it.
#[test]
fn a_closed_log_kills_nothing() {
    let site = Site::sample();
    let tables = format!("{}{}", site.route(), Server::RESPOND);
    let (reader, writer) = std::io::pipe().unwrap();
    let mut launch = Launch::new(&site, "workers = 2", &tables);
    launch.command.stdout(Stdio::from(writer));
    let mut server = launch.start();
    drop(reader);
    request_many(server.address, 20_000);
    assert!(!server.has_exited());
    assert_eq!(server.admin_get("/livez").status, 200);
}

/// Case H05. Both streams are closed, standard error too.
#[test]
fn both_streams_closed_kills_nothing() {
    let site = Site::sample();
    let tables = format!("{}{}", site.route(), Server::RESPOND);
    let mut launch = Launch::new(&site, "workers = 2\nadmin = \"off\"", &tables);
    let mut child = launch.command.spawn().unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    let address = loop {
        line.clear();
        assert_ne!(errors.read_line(&mut line).unwrap(), 0, "the server ended");
        if let Some(address) = address_of(&line, "listening") {
            break address;
        }
    };
    drop(errors);
    drop(child.stdout.take());
    request_many(address, 4_000);
    // A line for stderr as well: HUP always has one.
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    request_many(address, 4_000);
    assert!(child.try_wait().unwrap().is_none());
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Case H05. The disk is full: the requests are answered, and stderr says what is wrong.
#[test]
fn a_full_disk_kills_nothing() {
    let site = Site::sample();
    let log = "[log]\naccess = { format = \"json\", file = \"/dev/full\" }\n";
    let mut server = Server::with(&site, "workers = 2", &format!("{log}{}{}", site.route(), Server::RESPOND));
    request_many(server.address, 20_000);
    assert!(!server.has_exited());
    server.errors.containing("/dev/full");
    // Told, not repeated for each of twenty thousand lines.
    assert!(server.errors.all().len() < 1000, "{} lines", server.errors.all().len());
}

/// A disk that is full in the middle of a line left half of one, and when there was room again the next
/// line was written behind it: two lines in one, that no tool reads, and neither was counted. Here a
/// torn line is ended, alone, and every request has a line or is among the lost.
#[test]
fn a_full_disk_tears_no_two_lines() {
    if !crate::support::is_root() {
        skip!("needs root for a small disk");
    }
    let site = Site::sample();
    let disk = match Mounted::small_disk(&site, 512) {
        Ok(disk) => disk,
        Err(why) => skip!("needs tmpfs: {why}"),
    };
    let (log, filler) = (disk.path().join("access.log"), disk.path().join("filler"));
    std::fs::write(&filler, vec![0; 256 << 10]).unwrap();
    let table = format!("[log]\naccess = {{ format = \"json\", file = '{}' }}\n", log.display());
    let server = Server::with(&site, "workers = 2", &format!("{table}{}", Server::RESPOND));
    // Some 200 bytes each: more than the 256 KiB that are left, less than 512.
    request_many(server.address, 1_600);
    server.errors.containing("access.log");
    std::fs::remove_file(&filler).unwrap();
    request_many(server.address, 400);
    until("a line or a loss for each request", || {
        let text = std::fs::read_to_string(&log).unwrap();
        let lines: Vec<&str> = text.split_terminator('\n').collect();
        let lost: u64 = lines.iter().filter_map(|line| lost_in(line)).sum();
        let whole = lines
            .iter()
            .filter(|line| line.contains("/healthz") && serde_json::from_str::<Value>(line).is_ok());
        lost > 0 && whole.count() as u64 + lost == 2_000
    });
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(text.ends_with('\n'));
    let torn: Vec<&str> = text.lines().filter(|line| serde_json::from_str::<Value>(line).is_err()).collect();
    assert!(torn.len() <= 1, "{torn:?}");
    assert!(torn.iter().all(|line| line.matches("timestamp").count() <= 1), "{torn:?}");
}
