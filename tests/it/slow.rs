//! Clients that are slow on purpose (D11), and ones that take more than their share.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_recv_buffer_size;
use rustix::process::Signal;

use crate::support::{Client, Scrape, Server, Site, assert_same, noise, until};

/// What a slow client does, once a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    SendsNothing,
    DripsItsHead,
    DripsItsBody,
    ReadsAByte,
    IsIdle,
}

struct Slow {
    kind: Kind,
    stream: TcpStream,
    heard: Vec<u8>,
    ended: bool,
}

impl Slow {
    fn connect(server: &Server, kind: Kind) -> Slow {
        let stream = TcpStream::connect(server.address).unwrap();
        let start: &[u8] = match kind {
            Kind::SendsNothing => b"",
            Kind::DripsItsHead => b"G",
            Kind::DripsItsBody => b"POST /r/x HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n",
            Kind::ReadsAByte => b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n",
            Kind::IsIdle => b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n",
        };
        if kind == Kind::ReadsAByte {
            set_socket_recv_buffer_size(&stream, 4096).unwrap();
        }
        (&stream).write_all(start).unwrap();
        stream.set_nonblocking(true).unwrap();
        Slow { kind, stream, heard: Vec::new(), ended: false }
    }

    fn drip(&mut self) {
        let byte: &[u8] = match self.kind {
            Kind::DripsItsHead => b"E",
            Kind::DripsItsBody => b"x",
            Kind::SendsNothing | Kind::ReadsAByte | Kind::IsIdle => return,
        };
        // Closed meanwhile: the read will tell.
        let _ = (&self.stream).write(byte);
    }

    fn read(&mut self) {
        let mut part = [0; 4096];
        let length = if self.kind == Kind::ReadsAByte { 1 } else { part.len() };
        match (&self.stream).read(&mut part[..length]) {
            Ok(0) => self.ended = true,
            Ok(length) => self.heard.extend_from_slice(&part[..length]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => self.ended = true,
        }
    }
}

/// Case D11. A deadline that starts anew with every byte never comes: two hundred connections that
/// send one byte a second are two hundred places taken for ever. Every kind of slowness has its own
/// deadline, and meanwhile everybody else is served.
#[test]
fn slow_clients_are_let_go_and_hurt_nobody() {
    let site = Site::sample();
    site.file("big", &noise(1, 16 << 20));
    let limits = "[limits]\nhead_timeout = \"2s\"\nidle_timeout = \"2s\"\nbody_timeout = \"2s\"\n\
        write_timeout = \"2s\"\nlinger_timeout = \"1s\"\n";
    let tables = format!("{limits}{}{}", site.route(), Server::RESPOND);
    let server = Server::with(&site, "workers = 2", &tables);
    assert_eq!(server.get("/healthz").status, 200);
    until("the sockets of a server at rest", || server.sockets() < 32);
    let at_rest = server.sockets();

    let kinds = [Kind::SendsNothing, Kind::DripsItsHead, Kind::DripsItsBody, Kind::ReadsAByte, Kind::IsIdle];
    let mut slow: Vec<Slow> =
        kinds.iter().flat_map(|kind| (0..200).map(|_| Slow::connect(&server, *kind))).collect();
    let mut second = Instant::now();
    let mut served = 0;
    // The readers of one byte a second cannot see that they were cut; the server's sockets tell.
    until("the end of all slow clients, at the server", || {
        assert_eq!(server.get(["/healthz", "/x.txt"][served % 2]).status, 200);
        served += 1;
        if second.elapsed() >= Duration::from_secs(1) {
            second = Instant::now();
            slow.iter_mut().for_each(Slow::drip);
            slow.iter_mut().for_each(Slow::read);
        }
        server.sockets() <= at_rest
    });
    assert!(served > 10);
    for client in &mut slow {
        client.stream.set_nonblocking(false).unwrap();
        client.stream.set_read_timeout(Some(crate::support::DEADLINE)).unwrap();
        let end = if client.ended { Ok(0) } else { client.stream.read_to_end(&mut client.heard) };
        let is_over = match &end {
            Ok(_) => true,
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        };
        assert!(is_over, "{:?}: {end:?} after {} bytes", client.kind, client.heard.len());
        let heard = String::from_utf8_lossy(&client.heard[..client.heard.len().min(300)]);
        match client.kind {
            Kind::SendsNothing | Kind::DripsItsHead => {
                assert!(heard.is_empty() || heard.starts_with("HTTP/1.1 408 "), "{:?}: {heard}", client.kind);
            }
            Kind::DripsItsBody => assert!(heard.starts_with("HTTP/1.1 408 "), "{:?}: {heard}", client.kind),
            Kind::ReadsAByte => assert!(client.heard.len() < 16 << 20, "all of it was sent"),
            Kind::IsIdle => assert_eq!(heard.matches("HTTP/1.1 ").count(), 1, "{heard}"),
        }
    }
}

/// Case D11, the other side: a client that is slow but moves on is not cut, however long it takes.
#[test]
fn a_download_that_moves_on_outlives_the_deadlines() {
    let site = Site::sample();
    let content = noise(2, 24 << 20);
    site.file("big", &content);
    let limits = "[limits]\nhead_timeout = \"1s\"\nidle_timeout = \"1s\"\nbody_timeout = \"1s\"\nwrite_timeout = \"2s\"\n";
    let server = Server::with(&site, "workers = 1", &format!("{limits}{}", site.route()));
    let mut client = server.client();
    set_socket_recv_buffer_size(&client.stream, 64 * 1024).unwrap();
    client.send("GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
    let (_, length) = client.head();
    let mut found = Vec::new();
    while found.len() < length {
        found.extend(client.bytes((2 << 20).min(length - found.len())));
        std::thread::sleep(Duration::from_millis(500));
    }
    assert_same(&found, &content, "a download of six seconds");
}

/// A connection is idle from when its last answer was taken, also where the head before it came in two parts:
/// for a slow reader that is long after the answer was known. And what is known is no request any more.
#[test]
fn a_slow_reader_is_not_idle_after_half_a_head() {
    let site = Site::sample();
    let body = site.beside("body", &noise(3, 1 << 20));
    site.file("large", &noise(4, 300_000));
    let tables = format!(
        "[limits]\nidle_timeout = \"1s\"\nsend_buffer = \"64KiB\"\n{}[[route]]\nexact = \"/mib\"\nrespond = \
         {{ body_file = '{}' }}\n",
        site.route(),
        body.display()
    );
    let server = Server::with(&site, "workers = 1", &tables);
    let mut client = Client::connect_with_buffer(server.address, 16 * 1024);
    // Its send buffer is decided with a large file.
    assert_eq!(client.get("/large").status, 200);
    let is_in = |state: &str| {
        let page = Scrape::of(&server);
        let is_one = page.count(&format!("scalws_connections{{state=\"{state}\"}}")) == 1;
        is_one && page.count("http_server_active_requests") == 0
    };
    client.send("GET /mib HTTP/1.1\r\nHo");
    until("half a head", || is_in("head"));
    client.send("st: a\r\n\r\n");
    until("an answer that is not taken", || is_in("send"));
    std::thread::sleep(Duration::from_millis(1_500));
    assert_eq!(client.response().body.len(), 1 << 20);
    assert_eq!(client.get("/x.txt").status, 200, "closed, as if it had been idle");
}

/// A client that downloads as fast as it can fills every turn of its worker: an autotuned socket
/// takes hundreds of megabytes without a pause. The others must get theirs in between.
#[test]
fn a_fast_download_leaves_room_for_others() {
    let site = Site::sample();
    let path = site.root().join("sparse");
    std::fs::File::create(&path).unwrap().set_len(4 << 30).unwrap();
    let server = Server::with(&site, "workers = 1", &site.route());
    std::thread::scope(|scope| {
        let downloads: Vec<_> = (0..2).map(|_| server.client()).collect();
        for download in &downloads {
            let mut stream = download.stream.try_clone().unwrap();
            stream.write_all(b"GET /sparse HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            scope.spawn(move || std::io::copy(&mut stream, &mut std::io::sink()));
        }
        let mut client = server.client();
        for _ in 0..200 {
            assert_eq!(client.get("/x.txt").status, 200);
        }
        // All of these were answered while the downloads ran.
        for download in &downloads {
            download.stream.shutdown(std::net::Shutdown::Both).unwrap();
        }
    });
}

/// A client that asks and asks and never reads: answers may not pile up, so the server stops
/// reading; once the client reads, each request has its answer.
#[test]
fn a_client_that_never_reads_is_not_read_any_further() {
    let site = Site::sample();
    site.file("page", &noise(3, 8192));
    let server = Server::with(&site, "workers = 1", &site.route());
    let mut client = server.client();
    let request = format!("GET /page HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(2000)).into_bytes();
    client.stream.set_nonblocking(true).unwrap();
    let (mut sent, mut stuck_since) = (0, Instant::now());
    while stuck_since.elapsed() < Duration::from_secs(1) {
        match (&client.stream).write(&request[sent % request.len()..]) {
            Ok(length) => {
                sent += length;
                stuck_since = Instant::now();
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                std::thread::sleep(Duration::from_millis(10))
            }
            Err(error) => panic!("{error}"),
        }
        // Megabytes of requests fit into the buffers of the kernel; more would be in the server.
        assert!(sent < 64 << 20, "the server reads for ever");
    }
    assert!(server.pss_bytes() < 64 << 20, "{} bytes", server.pss_bytes());
    client.stream.set_nonblocking(false).unwrap();
    for number in 0..sent / request.len() {
        assert_eq!(client.response().body.len(), 8192, "answer {number}");
    }
}

/// A socket tells that it takes more when a third of a send buffer of megabytes is free: a phone that
/// reads 160 KB a second needs longer for that than `write_timeout`, and was reset in the middle of a
/// healthy download. What the client acknowledges counts: ten seconds of it are many such times.
/// Whoever acknowledges nothing is still reset.
#[test]
fn a_download_slower_than_a_send_buffer_goes_on() {
    let site = Site::sample();
    let content = noise(4, 24 << 20);
    site.file("big", &content);
    let limits = "[limits]\nwrite_timeout = \"1s\"\n";
    let server = Server::with(&site, "workers = 1", &format!("{limits}{}", site.route()));
    let download = |target: &str| {
        let mut client = Client::connect_with_buffer(server.address, 32 * 1024);
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let (_, length) = client.head();
        assert_eq!(length, content.len());
        client
    };
    let mut dead = download("/big?dead");
    let mut slow = download("/big?slow");
    let mut found = Vec::new();
    for _ in 0..100 {
        found.extend(slow.bytes(16 * 1024));
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_same(&found, &content[..found.len()], "the slow download");
    // Its end is told when it is cut, and nothing else has told of one so far.
    server.access.containing("\"dead\"");
    assert!(!server.access.all().iter().any(|line| line.contains("\"slow\"")));
    assert!(dead.rest().len() < content.len(), "all of it was sent");
    // Once it reads quickly, the slow one has the rest as well.
    found.extend(slow.bytes(content.len() - found.len()));
    assert_same(&found, &content, "the slow download to its end");
}

/// A client that pipelines without end had its worker to itself for as long as bytes came, tens of
/// thousands of requests in a row, and all the others of that worker waited. The log of the only
/// worker tells the order of its answers, whatever the threads of this test are given.
#[test]
fn a_pipelining_client_leaves_turns_to_others() {
    const PIPELINED: usize = 100_000;
    const OTHERS: usize = 20;
    // For each of the others a turn of the one that pipelines would be 640 in all.
    const BETWEEN_MAX: usize = 2_000;
    let site = Site::sample();
    let tables = format!("[limits]\nlog_queue_size = \"256MiB\"\n{}", Server::RESPOND);
    let server = Server::with(&site, "workers = 1", &tables);
    let mut pipelining = server.client();
    let mut others: Vec<_> = (0..OTHERS).map(|_| server.client()).collect();
    for client in others.iter_mut().chain([&mut pipelining]) {
        assert_eq!(client.get("/r/first").status, 200);
    }
    // What everybody sends waits in the sockets, in this order.
    server.signal(Signal::STOP);
    let mut writer = pipelining.stream.try_clone().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let request = b"GET /r/p HTTP/1.1\r\nHost: a\r\n\r\n";
            writer.write_all(&request.repeat(PIPELINED)).unwrap();
        });
        until("a full socket", || Server::received(pipelining.stream.local_addr().unwrap()) > 32 * 1024);
        for client in &mut others {
            client.send("GET /r/other HTTP/1.1\r\nHost: a\r\n\r\n");
        }
        server.signal(Signal::CONT);
        for _ in 0..PIPELINED {
            assert_eq!(pipelining.response().status, 200);
        }
    });
    for client in &mut others {
        assert_eq!(client.response().status, 200);
    }
    let all = OTHERS + 1 + PIPELINED + OTHERS;
    let lines =
        server.access.wait_for("line for each request", |lines| (lines.len() >= all).then(|| lines.to_vec()));
    let last = lines.iter().rposition(|line| line.contains("\"/r/other\"")).unwrap();
    let between = lines[..last].iter().filter(|line| line.contains("\"/r/p\"")).count();
    assert!(between < BETWEEN_MAX, "{between} requests of one client before {OTHERS} others");
}

/// A deadline was looked at only when nothing was there to read: for a client that sends without a
/// pause it never came, and one connection kept its place, and the worker busy, for as long as the
/// length allowed that it had promised. Here that is a tebibyte.
#[test]
fn bytes_that_keep_coming_do_not_carry_a_deadline_along() {
    let site = Site::sample();
    let limits = "[limits]\nbody_timeout = \"1s\"\nbody_size = \"1TiB\"\n";
    let server = Server::with(&site, "workers = 1", &format!("{limits}{}", Server::RESPOND));
    let head = "POST /r/x HTTP/1.1\r\nHost: a\r\n";
    let length = format!("{head}Content-Length: 1099511627776\r\n\r\n");
    let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\nffffffffff\r\n");
    // So many that the worker always finds more to read, with each of them.
    let mut clients: Vec<_> = (0..16).map(|_| server.client()).collect();
    let part = vec![b'x'; 256 * 1024];
    std::thread::scope(|scope| {
        for (number, client) in clients.iter_mut().enumerate() {
            client.send([&length, &chunked][number % 2]);
            let mut writer = client.stream.try_clone().unwrap();
            let part = &part;
            // Until the server is done with it.
            scope.spawn(move || while writer.write_all(part).is_ok() {});
        }
        // Also when the test fails: its writers would go on.
        let shut = ShutOnDrop(clients.iter().map(|client| client.stream.try_clone().unwrap()).collect());
        until("an answer for each of them", || {
            shut.0.iter().all(|stream| {
                stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
                let mut start = [0; 12];
                let length = stream.peek(&mut start).unwrap_or(0);
                assert_eq!(&start[..length], &b"HTTP/1.1 408"[..length]);
                length == start.len()
            })
        });
    });
}

/// Ends connections from both sides.
struct ShutOnDrop(Vec<TcpStream>);

impl Drop for ShutOnDrop {
    fn drop(&mut self) {
        // Closed already: all the better.
        self.0.iter().for_each(|stream| drop(stream.shutdown(std::net::Shutdown::Both)));
    }
}
