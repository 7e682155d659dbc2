//! The examples of `[limits]`.

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Shown, event, get, started};
use crate::support::fuse::Hanging;
use crate::support::{Client, End, Server, exchange, is_root, noise, say_skipped, until};

/// `head_size`, `target_size`, `fields`, `body_size`, `chunk_extension_size`, `linger_size`.
#[test]
fn of_small_requests() {
    let (_shown, server) = started("Small requests");
    let check = |request: String, expected: u16| {
        let heard = server.raw(request);
        assert_eq!(heard.statuses(), [expected]);
    };
    let head = |more: &str| format!("GET /none HTTP/1.1\r\nHost: a\r\n{more}\r\n");
    check(head(&format!("X: {}\r\n", "x".repeat(7_000))), 404);
    check(head(&format!("X: {}\r\n", "x".repeat(8_192))), 431);
    let target = |length: usize| format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(length - 1));
    // The name of a file ends at 255 bytes; slashes end nothing.
    check(target(255), 404);
    check(target(1_025), 414);
    let fields = |count: usize| (1..count).map(|number| format!("X-{number}: 1\r\n")).collect::<String>();
    check(head(&fields(50)), 404);
    check(head(&fields(51)), 431);
    let post = |more: &str| format!("POST /none HTTP/1.1\r\nHost: a\r\n{more}");
    let body = |bytes: usize| post(&format!("Content-Length: {bytes}\r\n\r\n{}", "x".repeat(bytes)));
    check(body(65_536), 405);
    check(body(65_537), 413);
    let chunked = |extension: usize| {
        post(&format!("Transfer-Encoding: chunked\r\n\r\n1;{}\r\nx\r\n0\r\n\r\n", "e".repeat(extension)))
    };
    check(chunked(200), 405);
    check(chunked(300), 400);

    // What follows the refusal is read and dropped up to `linger_size`. Until `linger_timeout` the socket
    // would stay for two minutes, which is longer than this waits.
    let mut client = server.client();
    client.send(post("Content-Length: 99999999\r\n\r\n"));
    assert_eq!(client.response().status, 413);
    let address = client.stream.local_addr().unwrap();
    // The other end may be gone before all of it is written.
    let _ = client.stream.write_all(&noise(1, 3 << 20));
    until("the server lets go", || !Server::has_end_of(address));
}

/// A key, and what ends when its time is over.
type Wait = (&'static str, Box<dyn FnOnce() + Send>);

/// All of `[limits]` that is a time. None of the defaults is below 10 s, and the clock of this test is the
/// server's own: what takes a second is over before three idle connections in a row are, at 2 s each.
#[test]
fn of_short_patience() {
    let shown = Shown::of("Short patience");
    let big = std::fs::File::create(shown.path("/srv/big")).unwrap();
    big.set_len(64 << 20).unwrap();
    let hanging = hang(&shown);
    let server = shown.start();
    let mut waits: Vec<Wait> = Vec::new();
    let address = server.address;
    let refused_late = move |bytes: &'static str| {
        let heard = exchange(address, bytes.as_bytes(), crate::support::Then::Wait);
        assert_eq!((heard.statuses(), heard.end), (vec![408], End::Closed), "{bytes}");
    };
    waits.push(("head_timeout", Box::new(move || refused_late("GET /x.txt HTTP/1.1\r\nHo"))));
    waits.push((
        "body_timeout",
        Box::new(move || refused_late("POST /x.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nx")),
    ));
    let access = server.access.clone();
    waits.push((
        "write_timeout",
        Box::new(move || {
            let mut deaf = Client::connect_with_buffer(address, 4096);
            deaf.send("GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
            access.containing("write_timeout");
        }),
    ));
    waits.push((
        "linger_timeout",
        Box::new(move || {
            let mut client = Client::connect(address);
            client.send("POST /x.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\n");
            assert_eq!(client.response().status, 413);
            // Dropped until then; afterwards the kernel resets what still comes.
            until("the server lets go", || client.stream.write_all(b"x").is_err());
        }),
    ));
    if hanging.is_some() {
        waits.push((
            "wait_timeout",
            Box::new(move || assert_eq!(Client::connect(address).get("/fuse/file").status, 503)),
        ));
    }
    let over: Vec<AtomicBool> = waits.iter().map(|_| AtomicBool::new(false)).collect();
    let names: Vec<&str> = waits.iter().map(|(name, _)| *name).collect();
    std::thread::scope(|scope| {
        for ((_, wait), over) in waits.into_iter().zip(&over) {
            scope.spawn(|| {
                wait();
                over.store(true, Ordering::Relaxed);
            });
        }
        for _ in 0..3 {
            let mut idle = Client::connect(address);
            assert_eq!(idle.get("/x.txt").status, 200);
            idle.assert_closed(); // idle_timeout: the default is as long as a read may take here
        }
        let late: Vec<_> =
            names.iter().zip(&over).filter(|(_, over)| !over.load(Ordering::Relaxed)).collect();
        assert!(late.is_empty(), "not over yet: {late:?}");
    });
}

/// A file system that hangs at `/srv/fuse`, where one can be had.
fn hang(shown: &Shown) -> Option<Hanging> {
    if !is_root() {
        say_skipped("a part of it: needs root for a FUSE mount");
        return None;
    }
    let mountpoint = shown.path("/srv/fuse");
    std::fs::create_dir(&mountpoint).unwrap();
    Hanging::mount(&mountpoint)
        .inspect_err(|why| say_skipped(&format!("a part of it: needs FUSE: {why}")))
        .ok()
}

/// `connections`, `offload_threads`, `offload_queue`, `compressed_size`, `listing_entries`, and one of
/// `codings`. `log_queue_size` is in force too, but lines are lost only once nobody reads the pipe, which
/// takes tens of thousands of requests, and so is `send_buffer`, which a client does not see:
/// `large::a_mib_takes_few_calls_with_a_buffer_of_ours`, `logs::an_unread_log_holds_up_nothing_and_counts_its_loss`.
#[test]
fn of_a_small_container() {
    let shown = Shown::of("A small container");
    for number in 0..12 {
        shown.file(&format!("/srv/many/{number:02}.txt"), b"one of many\n");
    }
    let digits = |bytes: usize| -> Vec<u8> {
        noise(1, bytes).iter().map(|byte| b"0123456789abcdef"[usize::from(byte % 16)]).collect()
    };
    shown.file("/srv/some.txt", &digits(100_000));
    shown.file("/srv/more.txt", &digits(3 << 20));
    let hanging = hang(&shown);
    let server = shown.start();
    let starting = event(&server, "starting");
    assert_eq!((&starting["offload_threads"], &starting["connections"]), (&4.into(), &50.into()));

    let list = get(&server, "/many/", "Accept: application/json");
    let list: serde_json::Value = serde_json::from_slice(&list.body).unwrap();
    assert_eq!((list["truncated"].as_bool(), list["entries"].as_array().unwrap().len()), (Some(true), 10));

    let coding = |target: &str| {
        get(&server, target, "Accept-Encoding: br, gzip").field("content-encoding").map(str::to_owned)
    };
    until("a file of 100 KB is compressed", || coding("/some.txt").is_some());
    assert_eq!(coding("/some.txt").as_deref(), Some("gzip"));
    // What 3 MiB of digits shrink to is larger than all that may be kept: sent, and made anew each time.
    assert_eq!(get(&server, "/more.txt", "Accept-Encoding: gzip").status, 200);
    assert_eq!(event(&server, "no room for compressed files")["bytes"], 1 << 20);

    if let Some(hanging) = &hanging {
        let mut stuck: Vec<Client> = (0..20).map(|_| server.client()).collect();
        for client in &mut stuck {
            client.send("GET /fuse/file HTTP/1.1\r\nHost: a\r\n\r\n");
        }
        event(&server, "offload pool full");
        assert!(hanging.waiting() <= 3, "threads of one root");
    }
    // Those that are stuck have their places too.
    let mut inside: Vec<Client> = Vec::new();
    let refused = (0..51).any(|_| {
        inside.push(server.client());
        inside.last_mut().unwrap().get("/x.txt").status == 503
    });
    assert!(refused, "51 connections");
}
