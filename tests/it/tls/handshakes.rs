//! Handshakes that never become one: other protocols (case G05), and clients that stall (case G06).

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Instant;

use rustls::pki_types::ServerName;
use rustls::{ALL_VERSIONS, ClientConfig, ClientConnection};

use crate::support::secure::{Secure, Secured};
use crate::support::{DEADLINE, End, Scrape, Site, Then, drip, exchange, noise, until};

/// The first bytes of a client, as a record.
fn hello(config: &Arc<ClientConfig>) -> Vec<u8> {
    let name = ServerName::try_from("localhost").unwrap();
    let mut client = ClientConnection::new(Arc::clone(config), name).unwrap();
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).unwrap();
    bytes
}

fn ended(secured: &Secured, how: &str) -> u64 {
    Scrape::of(&secured.server).count(&format!("scalws_connections_ended_total{{how=\"{how}\"}}"))
}

/// Case G05. The acceptor's error paths are those that nobody tested: a panic, a loop, a connection that hangs. Here
/// plain HTTP is told what is wrong, and all else gets an alert or a close, long before the deadline of a handshake.
#[test]
fn other_protocols_are_turned_away() {
    let site = Site::sample();
    // Only the server ends these, and not by a deadline: the test would not wait for it.
    let secured = Secured::of(&site, "workers = 1", "[limits]\nhandshake_timeout = \"1h\"\n");
    let plain = exchange(secured.address, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", Then::Wait);
    let answers = plain.answers();
    assert_eq!((answers.len(), answers[0].status, plain.end), (1, 400, End::Closed));
    assert!(answers[0].text().contains("plain HTTP on a port for https") && answers[0].closes());
    until("it to be counted", || ended(&secured, "refused") == 1);
    assert_eq!(ended(&secured, "handshake_failed"), 0);

    let config = secured.authority.client(ALL_VERSIONS);
    let hello = hello(&config);
    // SSL 2.0 as it was sent in 1995; a record of version 3.0 with a length that none has; an alert; data.
    let old = b"\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10\x01\x00\x80\x02\x00\x80\x03\x00\x80";
    let mut bent = hello.clone();
    bent[5] = 0x0e;
    let mut noisy = noise(7, 65_536);
    noisy[0] = 0x16;
    let others: [&[u8]; 7] = [
        old,
        b"\x16\x03\x01\xff\xff\x01",
        b"\x15\x03\x01\x00\x02\x02\x28",
        b"\x17\x03\x03\x00\x01\x00",
        &bent,
        &noisy,
        &[0; 65_536],
    ];
    for (number, bytes) in others.iter().enumerate() {
        let heard = exchange(secured.address, bytes, Then::Wait);
        assert_ne!(heard.end, End::Open, "{number}");
        // An alert, or nothing.
        assert!(heard.bytes.is_empty() || heard.bytes.starts_with(&[0x15, 3]), "{number}: {:?}", heard.bytes);
    }
    until("each to be counted", || ended(&secured, "handshake_failed") == others.len() as u64);
    let heard = exchange(secured.address, b"SSH-2.0-x\r\n", Then::Wait);
    assert_ne!(heard.end, End::Open);
    // One line a second at most, whatever comes.
    let lines = secured.server.errors.all();
    assert!(lines.iter().filter(|line| line.contains("handshake failed")).count() <= 3, "{lines:?}");
    // A port that is looked at is no failure.
    drop(TcpStream::connect(secured.address).unwrap());
    until("it to be counted", || ended(&secured, "client") == 1);
    assert_eq!(secured.client().get("/x.txt").status, 200);
}

/// Case G05. A ClientHello in segments of one byte is slow and right.
#[test]
fn a_hello_may_come_in_single_bytes() {
    let site = Site::sample();
    let secured = Secured::of(&site, "workers = 1", "");
    let config = secured.authority.client(ALL_VERSIONS);
    let name = ServerName::try_from("localhost").unwrap();
    let mut client = ClientConnection::new(config, name).unwrap();
    let mut stream = TcpStream::connect(secured.address).unwrap();
    stream.set_nodelay(true).unwrap();
    client
        .writer()
        .write_all(b"GET /x.txt HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut plain = Vec::new();
    loop {
        while client.wants_write() {
            let mut bytes = Vec::new();
            client.write_tls(&mut bytes).unwrap();
            for byte in bytes {
                stream.write_all(&[byte]).unwrap();
            }
        }
        if client.read_tls(&mut stream).unwrap() == 0 {
            break;
        }
        client.process_new_packets().unwrap();
        let mut part = [0; 4096];
        while let Ok(count @ 1..) = client.reader().read(&mut part) {
            plain.extend_from_slice(&part[..count]);
        }
    }
    assert!(plain.starts_with(b"HTTP/1.1 200 OK") && plain.ends_with(b"x marks the spot\n"));
    // A plain server on the other hand is no TLS server, a byte at a time neither.
    let heard = drip(secured.server.address, &hello(&secured.authority.client(ALL_VERSIONS)), Then::Wait);
    assert_eq!(heard.statuses(), [400]);
}

const SILENT: usize = 400;
const HALF: usize = 400;
const HEARD: usize = 100;

/// A connection on which these bytes were sent.
fn stalled(address: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(bytes).unwrap();
    stream
}

/// Case G06. An accept loop that awaits the handshake is held by one client that sends nothing. Here hundreds stall at
/// every stage of it: others are served meanwhile, each of the stalled has its place, and is let go at the deadline,
/// which a byte now and then does not move.
#[test]
fn stalled_handshakes_hold_up_nobody_and_end() {
    let site = Site::sample();
    let limits = "[limits]\nhandshake_timeout = \"5s\"\nconnections = 2000\n";
    let secured = Secured::of(&site, "workers = 2", limits);
    let config = secured.authority.client(ALL_VERSIONS);
    let hello = hello(&config);
    let all = SILENT + HALF + HEARD;
    let mut streams = Vec::new();
    for number in 0..all {
        let sent = match number {
            _ if number < SILENT => &hello[..0],
            _ if number < SILENT + HALF => &hello[..hello.len() / 2],
            _ => &hello[..],
        };
        streams.push(stalled(secured.address, sent));
    }
    // Their answer has come, and they say no more.
    for stream in &mut streams[SILENT + HALF..] {
        let mut byte = [0; 1];
        stream.read_exact(&mut byte).unwrap();
        assert_eq!(byte[0], 0x16);
    }
    let doing = |page: &Scrape| page.count("scalws_connections{state=\"handshake\"}");
    until("all to be there", || doing(&Scrape::of(&secured.server)) == all as u64);
    let (mut others, start) = (0, Instant::now());
    while doing(&Scrape::of(&secured.server)) > 0 {
        assert!(start.elapsed() < DEADLINE, "they are still there");
        assert_eq!(secured.client().get("/healthz").status, 200);
        assert_eq!(secured.server.get("/healthz").status, 200);
        // One of those that said nothing says something, time and again, and never all of it.
        if others < hello.len() / 2 {
            let _ = streams[0].write(&hello[others..][..1]);
        }
        others += 1;
    }
    let page = Scrape::of(&secured.server);
    assert_eq!(page.count("scalws_refusals_total{limit=\"handshake_timeout\"}"), all as u64);
    assert_eq!(ended(&secured, "handshake_timeout"), all as u64);
    for mut stream in streams {
        // Closed, and nothing more was said.
        let _ = stream.read_to_end(&mut Vec::new());
    }
    eprintln!("{others} were served meanwhile");
}

/// Case G06. Who is in a handshake is a connection: the bound holds them too, and the next one is closed.
#[test]
fn handshakes_are_connections() {
    let site = Site::sample();
    let secured = Secured::of(&site, "workers = 2", "[limits]\nconnections = 3\n");
    let held: Vec<TcpStream> = (0..3).map(|_| stalled(secured.address, b"\x16")).collect();
    let doing = "scalws_connections{state=\"handshake\"}";
    until("all to be there", || Scrape::of(&secured.server).count(doing) == 3);
    let heard = exchange(secured.address, b"", Then::Wait);
    assert!(heard.bytes.is_empty() && heard.end != End::Open);
    assert_eq!(Scrape::of(&secured.server).count("scalws_refusals_total{limit=\"connections\"}"), 1);
    drop(held);
    until("a place", || Scrape::of(&secured.server).count(doing) == 0);
    let mut client = secured.client();
    assert_eq!(client.get("/x.txt").status, 200);
}

/// A client that offers nothing that we speak gets an alert that says so.
#[test]
fn what_nobody_speaks_is_an_alert() {
    let site = Site::sample();
    let secured = Secured::of(&site, "", "");
    let mut config = (*secured.authority.client(ALL_VERSIONS)).clone();
    config.alpn_protocols = vec![b"h3".to_vec()];
    let stream = TcpStream::connect(secured.address).unwrap();
    let mut client = Secure::on(stream, &Arc::new(config), "localhost");
    let error = client.stream.write_all(b"GET").unwrap_err();
    assert!(error.to_string().contains("NoApplicationProtocol"), "{error}");
    assert_eq!(secured.client().get("/x.txt").status, 200);
}
