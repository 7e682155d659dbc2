//! Large files over TLS: every byte, files that change meanwhile (case A11), slow and deaf readers, crowds, and a
//! drain.

use std::fs;
use std::io::Read as _;
use std::net::TcpStream;

use rustix::net::sockopt::set_socket_recv_buffer_size;
use rustix::process::Signal;
use rustls::version::{TLS12, TLS13};
use rustls::{ALL_VERSIONS, SupportedProtocolVersion};

use crate::support::secure::{Ended, Secure, Secured};
use crate::support::{DEADLINE, Scrape, Site, assert_same, noise, raise_descriptors, until};

const MIB: usize = 1 << 20;
const BIG: usize = 64 * MIB;

/// Asks for `/big` and reads its first mebibyte; the small receive buffer keeps the rest at the server.
fn pause_in_big(secured: &Secured, versions: &[&'static SupportedProtocolVersion]) -> (Secure, Vec<u8>) {
    let stream = TcpStream::connect(secured.address).unwrap();
    set_socket_recv_buffer_size(&stream, 64 * 1024).unwrap();
    let mut client = Secure::on(stream, &secured.authority.client(versions), "localhost");
    client.send("GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let head = client.head();
    assert!(
        head.starts_with("HTTP/1.1 200 ") && head.contains(&format!("Content-Length: {BIG}\r\n")),
        "{head}"
    );
    let start = client.bytes(MIB);
    (client, start)
}

fn big(seed: u64) -> (Site, Vec<u8>, Secured) {
    let site = Site::sample();
    let content = noise(seed, BIG);
    site.file("big", &content);
    let secured = Secured::of(&site, "workers = 2", "");
    (site, content, secured)
}

/// Case A11. A file that became shorter: the stream ends without the word that it is complete, so that no client
/// takes a part for the whole, and no second answer is on it. Once with a request that waits for one, which makes the
/// close a reset, and once without.
#[test]
fn a_truncated_file_cuts_the_stream() {
    for (version, more) in [(&TLS12, true), (&TLS12, false), (&TLS13, false)] {
        let (site, content, secured) = big(1);
        let (mut client, mut found) = pause_in_big(&secured, &[version]);
        fs::File::options().write(true).open(site.root().join("big")).unwrap().set_len(2 << 20).unwrap();
        if more {
            client.send("GET /x.txt HTTP/1.1\r\nHost: localhost\r\n\r\n");
        }
        let (rest, ended) = client.rest();
        found.extend(rest);
        assert_eq!(ended, Ended::Cut);
        assert!(found.len() < BIG, "padding: {}", found.len());
        assert_same(&found, &content[..found.len()], "what was sent before the cut");
        let line = secured.server.access.containing("\"/big\"");
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert!(line["http.response.body.size"].as_u64().unwrap() < BIG as u64, "{line}");
        assert_eq!(secured.client().get("/x.txt").status, 200);
    }
}

/// Case A11. One that grew is sent to its promised length, one that was replaced to its end, and the connection goes on.
#[test]
fn a_grown_and_a_replaced_file_are_sent_as_promised() {
    let (site, content, secured) = big(2);
    let path = site.root().join("big");
    let (mut client, mut found) = pause_in_big(&secured, ALL_VERSIONS);
    fs::File::options().write(true).open(&path).unwrap().set_len((BIG + 8 * MIB) as u64).unwrap();
    client.send("GET /x.txt HTTP/1.1\r\nHost: localhost\r\n\r\n");
    found.extend(client.bytes(BIG - MIB));
    assert_same(&found, &content, "the promised bytes");
    assert_eq!(client.response().body, b"x marks the spot\n");
    site.file("big", &content);
    let (mut client, mut found) = pause_in_big(&secured, ALL_VERSIONS);
    let other = noise(3, 3 * MIB);
    fs::rename(site.beside("other", &other), path).unwrap();
    found.extend(client.bytes(BIG - MIB));
    assert_same(&found, &content, "the old file");
    until("the new file", || client.get("/big").body == other);
}

/// Sizes around those of a record, of a piece, of what is read behind a head and of what is read at once; and parts.
#[test]
fn every_size_and_part_is_whole() {
    let site = Site::sample();
    let sizes = [0, 1, 16_384, 16_385, 49_151, 49_152, 49_153, 65_536, 131_072, 131_073, 262_144, 1_048_577];
    for size in sizes {
        site.file(format!("of-{size}"), &noise(size as u64, size));
    }
    let secured = Secured::of(&site, "workers = 1", "");
    for version in [&TLS12, &TLS13] {
        let mut client = Secure::connect(secured.address, &secured.authority.client(&[version]));
        for size in sizes {
            let body = client.get(&format!("/of-{size}")).body;
            assert_same(&body, &noise(size as u64, size), &format!("{size} bytes"));
        }
        client.send("GET /of-1048577 HTTP/1.1\r\nHost: localhost\r\nRange: bytes=70000-900000\r\n\r\n");
        let part = client.response();
        assert_eq!(part.status, 206);
        assert_same(&part.body, &noise(1_048_577, 1_048_577)[70_000..=900_000], "a part");
    }
}

/// A client that takes a little now and then is slow and served; one that takes nothing is let go, without the word that
/// he has it all.
#[test]
fn who_reads_slowly_is_served_and_who_does_not_is_let_go() {
    let site = Site::sample();
    let content = noise(5, BIG);
    site.file("big", &content);
    let secured = Secured::of(&site, "workers = 1", "[limits]\nwrite_timeout = \"1s\"\n");
    let (mut deaf, _) = pause_in_big(&secured, ALL_VERSIONS);
    let (mut slow, mut found) = pause_in_big(&secured, ALL_VERSIONS);
    let cut = "scalws_connections_ended_total{how=\"write_timeout\"}";
    // Each time less than a piece, and time and again until the deaf one is gone, which takes two deadlines at most.
    while Scrape::of(&secured.server).count(cut) == 0 {
        assert!(found.len() < BIG / 2, "the deaf one is still there");
        found.extend(slow.bytes(2_000));
    }
    found.extend(slow.bytes(BIG - found.len()));
    assert_same(&found, &content, "the slow download");
    assert_eq!(slow.get("/x.txt").status, 200);
    let (rest, ended) = deaf.rest();
    assert!(ended == Ended::Cut && rest.len() < BIG);
    assert_eq!(Scrape::of(&secured.server).count(cut), 1);
}

const CROWD: usize = 1_000;

/// All of them together, shared pages by their share: what the issue allows.
const IDLE_PSS_MAX: u64 = 15 << 20;
const STALLED_PSS_MAX: u64 = 80 << 20;

/// A read buffer for each connection, or ciphertext that grows with the file, and a crowd takes all memory.
#[test]
fn a_crowd_of_idle_and_of_stalled_clients_is_affordable() {
    if !raise_descriptors() {
        skip!("needs 8,192 descriptors");
    }
    let site = Site::sample();
    let content = noise(6, 4 * MIB);
    site.file("big", &content);
    let limits = "[limits]\nwrite_timeout = \"10m\"\nidle_timeout = \"10m\"\n";
    let secured = Secured::of(&site, "workers = 2", limits);
    let server = &secured.server;
    let config = secured.authority.client(ALL_VERSIONS);
    assert_eq!(secured.client().get("/x.txt").status, 200);
    let (at_rest, all_at_rest) = (server.anonymous_bytes(), server.pss_bytes());
    let mut idle: Vec<Secure> = (0..CROWD).map(|_| Secure::connect(secured.address, &config)).collect();
    for client in &mut idle {
        assert_eq!(client.get("/healthz").status, 200);
    }
    let (with_idle, all_with_idle) = (server.anonymous_bytes(), server.pss_bytes());
    drop(idle);
    until("all to be gone", || {
        Scrape::of(server).count("scalws_connections_ended_total{how=\"client\"}") == CROWD as u64 + 1
    });
    let mut stalled: Vec<Secure> = Vec::new();
    for _ in 0..CROWD {
        let stream = TcpStream::connect(secured.address).unwrap();
        set_socket_recv_buffer_size(&stream, 16 * 1024).unwrap();
        let mut client = Secure::on(stream, &config, "localhost");
        client.send("GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n");
        client.head();
        stalled.push(client);
    }
    for _ in 0..100 {
        assert_eq!(secured.client().get("/x.txt").status, 200);
    }
    let (with_stalled, all_with_stalled) = (server.anonymous_bytes(), server.pss_bytes());
    eprintln!(
        "heap: {at_rest} at rest, {with_idle} with {CROWD} idle, {with_stalled} with {CROWD} stalled; \
         PSS: {all_at_rest}, {all_with_idle}, {all_with_stalled}"
    );
    assert!(all_with_idle - all_at_rest < IDLE_PSS_MAX, "{all_with_idle} bytes with {CROWD} idle");
    assert!(all_with_stalled < STALLED_PSS_MAX, "{all_with_stalled} bytes with {CROWD} stalled");
    let mut last = stalled.pop().unwrap();
    assert_same(&last.bytes(4 * MIB), &content, "one of the stalled");
}

/// Case H01 over TLS: idle connections are told that it ends, what runs is finished, who is in a handshake does not
/// hold the drain, and the exit is clean.
#[test]
fn a_drain_finishes_what_runs() {
    let site = Site::sample();
    let content = noise(7, BIG);
    site.file("big", &content);
    let mut secured = Secured::of(&site, "workers = 2\ndrain = { delay = \"0s\", timeout = \"60s\" }", "");
    let mut idle: Vec<Secure> = (0..20).map(|_| secured.client()).collect();
    for client in &mut idle {
        assert_eq!(client.get("/healthz").status, 200);
    }
    let (mut download, mut found) = pause_in_big(&secured, ALL_VERSIONS);
    let mut stalled = TcpStream::connect(secured.address).unwrap();
    let doing = "scalws_connections{state=\"handshake\"}";
    until("it to be accepted", || Scrape::of(&secured.server).count(doing) == 1);
    secured.server.signal(Signal::TERM);
    for client in &mut idle {
        assert_eq!(client.rest(), (vec![], Ended::Told));
    }
    stalled.set_read_timeout(Some(DEADLINE)).unwrap();
    assert_eq!(stalled.read(&mut [0; 1]).unwrap(), 0, "the stalled one is let go");
    assert!(!secured.server.has_exited(), "the download still runs");
    found.extend(download.bytes(BIG - MIB));
    assert_same(&found, &content, "the download");
    assert_eq!(download.rest(), (vec![], Ended::Told));
    assert_eq!(secured.server.wait_exit().code(), Some(0));
}
