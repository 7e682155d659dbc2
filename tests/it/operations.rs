//! Signals and the drain (H01, plain part).

use std::net::TcpStream;

use rustix::net::sockopt::set_socket_recv_buffer_size;
use rustix::process::Signal;

use crate::support::{Client, Server, Site, assert_same, noise, until};

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
