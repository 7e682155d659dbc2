//! Allocations and bytes for each of 10,000 requests on one connection, beside axum with the same fixed
//! answer. A test binary of its own: the allocator counts for the whole process.

#![allow(clippy::unwrap_used, reason = "in a test the line says it best")]

use std::alloc::System;

use scalws_lab::fixture::Fixture;
use scalws_lab::inproc::{OneFile, PING, REQUEST, RESPOND, UNCHANGED, kept, serve, site};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static GLOBAL: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const REQUESTS: usize = 10_000;

/// A name that leads to nothing.
const NOTHING: &str = "GET /none.bin HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAccept: */*\r\n\r\n";
/// What a client sends that has other versions: each tag is looked at.
const OTHER_TAGS: &str =
    "GET /1k.bin HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nIf-None-Match: \"a\", W/\"b\"\r\n\r\n";

/// Allocations and bytes of a request, without what a connection costs once.
fn each(mut run: impl FnMut(usize)) -> (f64, f64) {
    let mut count = |requests| {
        let region = Region::new(GLOBAL);
        run(requests);
        let change = region.change();
        (change.allocations + change.reallocations, change.bytes_allocated)
    };
    count(10);
    let (one, all) = (count(1), count(REQUESTS + 1));
    let of = |all: usize, one: usize| all.saturating_sub(one) as f64 / REQUESTS as f64;
    (of(all.0, one.0), of(all.1, one.1))
}

fn axum(requests: usize) {
    use axum::{Router, routing::get};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let app = Router::new().route("/ping", get(|| async { "pong\n" }));
        let server = tokio::spawn(async move { axum::serve(listener, app).await });
        let mut client = tokio::net::TcpStream::connect(address).await.unwrap();
        let mut buffer = [0; 4096];
        for _ in 0..requests {
            client.write_all(PING.as_bytes()).await.unwrap();
            let count = client.read(&mut buffer).await.unwrap();
            assert!(buffer[..count].ends_with(b"pong\n"));
        }
        server.abort();
    });
}

#[test]
fn requests_allocate_no_more_than_stated() {
    let scratch = std::env::temp_dir().join(format!("scalws-allocations-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).unwrap();
    let fixture = Fixture::lay_out(&scratch).unwrap();
    let respond = each(|count| {
        serve(Box::new(site(RESPOND, &scratch).unwrap()), PING, count).unwrap();
    });
    let file = each(|count| {
        let service = OneFile::new(&fixture.root().join("1k.bin")).unwrap();
        serve(Box::new(service), REQUEST, count).unwrap();
    });
    let of_kept = |request| {
        each(|count| {
            serve(Box::new(kept(fixture.root()).unwrap()), request, count).unwrap();
        })
    };
    let (whole, unchanged) = (of_kept(REQUEST), of_kept(UNCHANGED));
    let (nothing, changed) = (of_kept(NOTHING), of_kept(OTHER_TAGS));
    let missing = each(|count| {
        serve(Box::new(site(RESPOND, &scratch).unwrap()), REQUEST, count).unwrap();
    });
    let axum = each(axum);
    std::fs::remove_dir_all(&scratch).unwrap();
    for (name, (allocations, bytes)) in [
        ("respond", respond),
        ("file of 1 KiB", file),
        ("the same, kept", whole),
        ("304 of it", unchanged),
        ("other tags", changed),
        ("404 of a file", nothing),
        ("404", missing),
        ("axum respond", axum),
    ] {
        println!("{name:14} {allocations:6.2} allocations, {bytes:8.1} bytes a request");
    }
    // The number that stands here is the one that was measured when the line was written.
    assert!(respond.0 <= 0.1, "respond: {respond:?}");
    for row in [whole, unchanged, changed, nothing, missing] {
        assert!(row.0 <= 0.1, "{row:?}");
    }
    assert!(file.0 <= 12.0, "a file: {file:?}");
}
