//! What a crowd of slow and idle connections costs.

use rustix::net::sockopt::set_socket_recv_buffer_size;

use crate::support::{Client, Server, Site, assert_same, noise, raise_descriptors};

const SLOW: usize = 1_000;
const IDLE: usize = 1_000;

/// For the whole process with all 2,000 connections, of a build without optimisation: nothing is read
/// for a socket that is full.
const PSS_BYTES_MAX: u64 = 32 << 20;

/// Heap of one idle connection: its task, its place on the wheel and with the reactor. Measured: 1,389 to
/// 1,425 bytes, of which 80 are the record of a request and what else is counted (docs/adr/0035).
const IDLE_BYTES_MAX: u64 = 1_550;

/// A buffer a connection that grows with the file, or one that is kept while nothing happens: a
/// thousand phones in a tunnel take all memory. And those who are fast must not notice them.
#[test]
fn a_thousand_slow_readers_and_a_thousand_idle_ones_are_affordable() {
    if !raise_descriptors() {
        skip!("needs 8,192 descriptors");
    }
    let site = Site::sample();
    let content = noise(1, 4 << 20);
    site.file("big", &content);
    let limits = "[limits]\nwrite_timeout = \"10m\"\nidle_timeout = \"10m\"\n";
    let server = Server::with(&site, "workers = 2", &format!("{limits}{}{}", site.route(), Server::RESPOND));
    assert_eq!(server.get("/x.txt").status, 200);
    let at_rest = server.anonymous_bytes();

    let mut idle: Vec<Client> = (0..IDLE).map(|_| server.client()).collect();
    for client in &mut idle {
        assert_eq!(client.get("/healthz").status, 200);
    }
    let with_idle = server.anonymous_bytes();
    let mut slow: Vec<Client> = (0..SLOW)
        .map(|_| {
            let mut client = server.client();
            set_socket_recv_buffer_size(&client.stream, 16 * 1024).unwrap();
            client.send("GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
            client
        })
        .collect();
    for client in &mut slow {
        let (head, length) = client.head();
        assert!(head.starts_with("HTTP/1.1 200 ") && length == content.len());
    }
    for number in 0..1_000 {
        assert_eq!(server.get(["/x.txt", "/healthz"][number % 2]).status, 200);
    }
    let (with_slow, with_all) = (server.anonymous_bytes(), server.pss_bytes());
    eprintln!(
        "heap: {at_rest} at rest, {with_idle} with {IDLE} idle, {with_slow} with {SLOW} slow readers too; \
         PSS: {with_all}"
    );
    assert!(
        with_idle < at_rest + (IDLE as u64) * IDLE_BYTES_MAX,
        "{with_idle} bytes with {IDLE} idle connections"
    );
    assert!(with_all < PSS_BYTES_MAX, "{with_all} bytes, {PSS_BYTES_MAX} are allowed");

    // They are all still served; a few are read to their end.
    for client in idle.iter_mut().step_by(50) {
        assert_eq!(client.get("/healthz").status, 200);
    }
    drop(idle);
    for mut client in slow.into_iter().step_by(200) {
        assert_same(&client.bytes(content.len()), &content, "a slow download");
        assert_eq!(client.get("/x.txt").status, 200);
    }
}
