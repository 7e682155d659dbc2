//! Signals and the drain (H01, plain part).

use std::net::TcpStream;

use rustix::net::sockopt::set_socket_recv_buffer_size;
use rustix::process::Signal;

use crate::support::fuse::Hanging;
use crate::support::{Client, Server, Site, assert_same, is_root, noise, raise_descriptors, until};

const BIG: usize = 32 << 20;

fn site() -> (Site, Vec<u8>) {
    let site = Site::sample();
    let content = noise(1, BIG);
    site.file("big", &content);
    (site, content)
}

fn start(site: &Site, drain: &str) -> Server {
    let server = format!("workers = 2\ndrain = {drain}\n");
    Server::with(site, &server, &format!("{}{}", site.route(), Server::RESPOND))
}

/// A download whose client has read the head and then waits; most of it is still at the server.
fn paused_download(server: &Server) -> Client {
    let mut client = server.client();
    set_socket_recv_buffer_size(&client.stream, 64 * 1024).unwrap();
    client.send("GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
    let (_, length) = client.head();
    assert_eq!(length, BIG);
    client
}

fn refuses_connections(server: &Server) -> bool {
    TcpStream::connect(server.address).is_err()
}

/// Case H01. On a stop signal the process ends at once and cuts every download; or it waits for idle
/// connections that will never end, until it is killed. Here: first it says that it is not ready,
/// still serving while the balancer takes note; then it takes no more, finishes what runs, and goes.
#[test]
fn a_stop_signal_drains() {
    for signal in [Signal::TERM, Signal::INT, Signal::QUIT] {
        let (site, content) = site();
        let mut server = start(&site, "{ delay = \"2s\", timeout = \"60s\" }");
        assert_eq!(server.admin_get("/readyz").status, 200);
        let mut idle: Vec<Client> = (0..20).map(|_| server.client()).collect();
        for client in &mut idle {
            assert_eq!(client.get("/healthz").status, 200);
        }
        let mut download = paused_download(&server);
        server.signal(signal);

        // The listener stays open for the delay: whoever has not heard yet is served.
        until("readiness to fail", || server.admin_get("/readyz").status == 503);
        assert_eq!(server.get("/x.txt").status, 200, "during the delay");
        assert_eq!(server.admin_get("/livez").status, 200, "draining is not dying");

        until("the listener to close", || refuses_connections(&server));
        for client in &mut idle {
            client.assert_closed();
        }
        assert!(!server.has_exited(), "the download still runs");
        assert_same(&download.bytes(BIG), &content, "the download");
        download.assert_closed();
        assert_eq!(server.wait_exit().code(), Some(0), "{signal:?}");
    }
}

/// Case H01. A request that is under way when the listener closes gets its answer, and that answer
/// says that the connection ends.
#[test]
fn a_request_under_way_is_finished() {
    let (site, _) = site();
    let mut server = start(&site, "{ delay = \"0s\", timeout = \"60s\" }");
    let mut upload = server.client();
    upload.send("POST /r/x HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello");
    // Answered after the upload was accepted and (one worker a connection) read or waiting to be read.
    let mut pinned: Vec<Client> = (0..8).map(|_| server.client()).collect();
    for client in &mut pinned {
        assert_eq!(client.get("/healthz").status, 200);
    }
    server.signal(Signal::TERM);
    until("the listener to close", || refuses_connections(&server));
    upload.send("world");
    let answer = upload.response();
    assert_eq!((answer.status, answer.text().as_str()), (200, "r\n"));
    assert!(answer.closes());
    upload.assert_closed();
    assert_eq!(server.wait_exit().code(), Some(0));
}

/// Case H01. What does not end by the deadline is cut, counted in one line of the log, and the exit
/// is still a clean one.
#[test]
fn the_drain_has_a_deadline() {
    let (site, _) = site();
    let mut server = start(&site, "{ delay = \"0s\", timeout = \"1s\" }");
    let mut downloads: Vec<Client> = (0..3).map(|_| paused_download(&server)).collect();
    server.signal(Signal::TERM);
    assert_eq!(server.wait_exit().code(), Some(0));
    for download in &mut downloads {
        assert!(download.rest().len() < BIG);
    }
    let lines = server.errors.to_end();
    let cut: Vec<_> = lines.iter().filter(|line| line.contains("cut")).collect();
    assert_eq!(cut.len(), 1, "{lines:?}");
    assert!(cut[0].contains('3'), "{}", cut[0]);
}

/// Case H01. An impatient operator sends the signal again: the process ends now, and says by which.
#[test]
fn a_second_signal_ends_at_once() {
    for (first, second, code) in [
        (Signal::TERM, Signal::TERM, 143),
        (Signal::INT, Signal::INT, 130),
        (Signal::TERM, Signal::QUIT, 131),
    ] {
        let (site, _) = site();
        let mut server = start(&site, "{ delay = \"600s\", timeout = \"600s\" }");
        let _download = paused_download(&server);
        server.signal(first);
        until("the first signal to be heard", || server.admin_get("/readyz").status == 503);
        server.signal(second);
        assert_eq!(server.wait_exit().code(), Some(code));
    }
}

/// Case H01. HUP asks for a reload. There is none yet, and the default action would be death: one
/// line says so, and everything goes on, downloads included.
#[test]
fn hup_is_told_and_survived() {
    let (site, content) = site();
    let server = start(&site, "{ delay = \"0s\", timeout = \"60s\" }");
    let mut download = paused_download(&server);
    server.signal(Signal::HUP);
    server.errors.containing("HUP");
    assert_eq!(server.get("/x.txt").status, 200);
    assert_eq!(server.admin_get("/readyz").status, 200);
    assert_same(&download.bytes(BIG), &content, "the download");
    assert_eq!(server.errors.all().iter().filter(|line| line.contains("HUP")).count(), 1);
}

/// An idle server without a connection ends as soon as it is told to.
#[test]
fn an_idle_server_just_ends() {
    let site = Site::sample();
    let mut server = start(&site, "{ delay = \"0s\", timeout = \"600s\" }");
    server.signal(Signal::TERM);
    assert_eq!(server.wait_exit().code(), Some(0));
}

/// The access log of a server that drains is whole: every request that was answered has its line.
#[test]
fn no_log_line_is_lost_at_the_end() {
    let site = Site::sample();
    let mut server = start(&site, "{ delay = \"0s\", timeout = \"60s\" }");
    let mut client = server.client();
    for number in 0..500 {
        assert_eq!(client.get(&format!("/r/{number}")).status, 200);
    }
    drop(client);
    server.signal(Signal::TERM);
    assert_eq!(server.wait_exit().code(), Some(0));
    let lines = server.access.to_end();
    for number in 0..500 {
        let path = format!("\"/r/{number}\"");
        assert_eq!(lines.iter().filter(|line| line.contains(&path)).count(), 1, "{path}");
    }
}

/// What the kernel has queued is taken in before the listener closes. The runtime allows a task 128
/// operations a turn and then says "nothing there", which was taken for an empty queue: connections
/// beyond them were reset with their requests. Here all wait in the queue while the server is stopped.
#[test]
fn all_that_is_queued_is_served_before_the_listener_closes() {
    const QUEUED: usize = 600;
    if !raise_descriptors() {
        skip!("needs 8,192 descriptors");
    }
    let most = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
    if most.trim().parse::<usize>().unwrap() <= QUEUED {
        skip!("needs a queue of more than {QUEUED} connections, here it is {}", most.trim());
    }
    let site = Site::sample();
    let keys = "workers = 1\ndrain = { delay = \"0s\", timeout = \"60s\" }\n";
    let mut server = Server::with(&site, keys, Server::RESPOND);
    assert_eq!(server.get("/healthz").status, 200);
    server.signal(Signal::STOP);
    let mut queued: Vec<Client> = (0..QUEUED).map(|_| server.client()).collect();
    for client in &mut queued {
        client.send("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    server.signal(Signal::TERM);
    server.signal(Signal::CONT);
    for (number, client) in queued.iter_mut().enumerate() {
        assert_eq!(client.response().status, 200, "connection {number}");
        client.assert_closed();
    }
    assert_eq!(server.wait_exit().code(), Some(0));
}

/// A drain waited for connections that had nothing more to get: one that was refused and whose client
/// never closes, one with half a head. With a long deadline of the drain that is how long every
/// deployment took, and at its end they were counted as cut.
#[test]
fn what_has_nothing_to_get_does_not_hold_a_drain() {
    let site = Site::sample();
    let keys = "workers = 1\ndrain = { delay = \"0s\", timeout = \"600s\" }\n";
    let limits = "[limits]\nhead_timeout = \"600s\"\nidle_timeout = \"600s\"\nlinger_timeout = \"600s\"\n";
    let mut server = Server::with(&site, keys, &format!("{limits}{}", Server::RESPOND));
    let mut refused = server.client();
    refused.send("garbage\r\n\r\n");
    assert_eq!(refused.response().status, 400);
    let mut begun: Vec<Client> = (0..3).map(|_| server.client()).collect();
    begun[0].send("G");
    begun[1].send("GET /healthz HTTP/1.1\r\nHost: a\r\nX: ");
    // On a connection that was used before, too.
    assert_eq!(begun[2].get("/healthz").status, 200);
    begun[2].send("GET /he");
    // Accepted after all of them by the only worker.
    assert_eq!(server.get("/healthz").status, 200);
    server.signal(Signal::TERM);
    assert_eq!(server.wait_exit().code(), Some(0));
    let stopped = server.errors.to_end().pop().unwrap();
    let stopped: serde_json::Value = serde_json::from_str(&stopped).unwrap();
    assert_eq!(stopped["connections_cut"], 0, "{stopped}");
}

/// Whether an answer keeps its connection was decided when its request came. Where it waited for a
/// slow disk while the drain began, the client was told to go on with a connection that then closed:
/// its next request was lost without an answer.
#[test]
fn an_answer_that_waited_while_a_drain_began_says_close() {
    if !is_root() {
        skip!("needs root for a FUSE mount");
    }
    let site = Site::sample();
    let mountpoint = site.directory().join("fuse");
    std::fs::create_dir(&mountpoint).unwrap();
    let mut hanging = match Hanging::mount(&mountpoint) {
        Ok(hanging) => hanging,
        Err(why) => skip!("needs FUSE: {why}"),
    };
    let fuse = format!("[[route]]\npath = \"/\"\nstatic = {{ root = '{}' }}\n", mountpoint.display());
    let keys = "workers = 1\ndrain = { delay = \"0s\", timeout = \"60s\" }\n";
    let mut server = Server::with(&site, keys, &fuse);
    let mut client = server.client();
    client.send("GET /file HTTP/1.1\r\nHost: a\r\n\r\n");
    until("the request in the pool", || hanging.waiting() == 1);
    server.signal(Signal::TERM);
    until("the listener to close", || refuses_connections(&server));
    hanging.release();
    let answer = client.response();
    assert_eq!(answer.status, 404);
    assert!(answer.closes(), "{}", answer.head);
    client.assert_closed();
    assert_eq!(server.wait_exit().code(), Some(0));
}
