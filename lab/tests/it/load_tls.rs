//! The generator over TLS and HTTP/2: handshakes are what the row says, answers are checked all the same.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use scalws_lab::load::{Expect, Plan, Until, check, run};
use scalws_lab::scenario::Protocol;

use crate::load::{FRESH, KEPT, answer, body, expect, plan};
use crate::scripted::{Scripted, Then, say, tls_config};

fn server(config: rustls::ServerConfig, size: usize) -> Scripted {
    Scripted::tls(config, move |stream, request, _| {
        say(stream, answer(&body().repeat(size)));
        if request.contains("Connection: close") { Then::Close } else { Then::Keep }
    })
}

#[test]
fn kept_connections_over_tls() {
    let server = server(tls_config(b"http/1.1"), 1);
    let outcome = run(&plan(server.address, Protocol::Tls)).unwrap();
    assert_eq!((outcome.requests, outcome.body_bytes, outcome.connects), (20, 20 * 1_024, 3));
    check(server.address, Protocol::Tls, KEPT, &expect(&body())).unwrap();
    let status = Expect { status: 206, ..expect(&body()) };
    let what = run(&Plan { expect: status, ..plan(server.address, Protocol::Tls) }).unwrap_err();
    assert_eq!(what.to_string(), "the answer to GET /1k.bin has status 200, expected 206");
}

/// Many records for an answer, in pieces as the kernel has them.
#[test]
fn a_mebibyte_over_tls() {
    let server = server(tls_config(b"http/1.1"), 1_024);
    let wanted = Plan { expect: expect(&body().repeat(1_024)), ..plan(server.address, Protocol::Tls) };
    let outcome = run(&wanted).unwrap();
    assert_eq!((outcome.requests, outcome.body_bytes), (20, 20 << 20));
    check(server.address, Protocol::Tls, KEPT, &wanted.expect).unwrap();
}

#[test]
fn handshakes_are_full_or_resumed_as_the_row_says() {
    let server = server(tls_config(b"http/1.1"), 1);
    let outcome = run(&plan(server.address, Protocol::TlsFull)).unwrap();
    assert_eq!((outcome.requests, outcome.connects), (20, 20));
    // Three more before the window, for the first tickets.
    let outcome = run(&plan(server.address, Protocol::TlsResumed)).unwrap();
    assert_eq!((outcome.requests, outcome.connects), (20, 23));
    check(server.address, Protocol::TlsResumed, FRESH, &expect(&body())).unwrap();
}

/// A resumed handshake that brings one ticket, as OpenSSL's do, replaces the one that it took: first tickets
/// have to come of full ones, or three connections at once are short of them.
#[test]
fn one_ticket_for_each_handshake_is_enough() {
    let mut config = tls_config(b"http/1.1");
    config.send_tls13_tickets = 1;
    let server = server(config, 1);
    let outcome = run(&plan(server.address, Protocol::TlsResumed)).unwrap();
    assert_eq!((outcome.requests, outcome.connects), (20, 23));
}

#[test]
fn a_server_that_resumes_nothing_is_refused() {
    let mut config = tls_config(b"http/1.1");
    config.send_tls13_tickets = 0;
    let server = server(config, 1);
    let what = run(&plan(server.address, Protocol::TlsResumed)).unwrap_err().to_string();
    assert_eq!(what, "the answer to GET /1k.bin came after a full handshake, expected a resumed one");
}

#[test]
fn plain_text_where_tls_is_expected_is_refused() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        say(&mut socket, answer(&body()));
        // The client's hello, read to its end, so that the answer is not lost to a reset.
        drop(std::io::copy(&mut socket, &mut std::io::sink()));
    });
    let what = check(address, Protocol::Tls, KEPT, &expect(&body())).unwrap_err().to_string();
    assert!(what.starts_with(&format!("the TLS handshake with {address} failed: ")), "{what}");
    server.join().unwrap();
}

/// Says farewell (GOAWAY) on each connection after so many answers; 0: never.
fn h2_server(status: u16, length: usize, farewell: u64) -> (SocketAddr, Arc<AtomicU64>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let connections = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&connections);
    // Ends with the process: nothing of it is waited for.
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            listener.set_nonblocking(true).unwrap();
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(tls_config(b"h2")));
            while let Ok((socket, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let stream = acceptor.accept(socket).await.unwrap();
                    let mut connection = h2::server::handshake(stream).await.unwrap();
                    let mut answers = 0;
                    while let Some(Ok((request, mut reply))) = connection.accept().await {
                        assert_eq!(request.uri().path(), "/1k.bin");
                        let head = http::Response::builder().status(status).body(()).unwrap();
                        let mut stream = reply.send_response(head, false).unwrap();
                        stream.send_data(Bytes::from(body()[..length].to_vec()), true).unwrap();
                        answers += 1;
                        if answers == farewell {
                            connection.graceful_shutdown();
                        }
                    }
                });
            }
        });
    });
    (address, connections)
}

#[test]
fn streams_of_http2() {
    let (address, connections) = h2_server(200, 1_024, 0);
    let outcome = run(&plan(address, Protocol::H2(2, 4))).unwrap();
    assert_eq!((outcome.requests, outcome.body_bytes, outcome.connects), (20, 20 * 1_024, 2));
    assert_eq!(connections.load(Ordering::SeqCst), 2);
    check(address, Protocol::H2(2, 4), KEPT, &expect(&body())).unwrap();
    let open = run(&Plan { rate: Some(10.0), ..plan(address, Protocol::H2(2, 4)) }).unwrap_err().to_string();
    assert_eq!(open, "an open loop over HTTP/2 is not offered: ask with HTTP/1.1 or TLS");
}

#[test]
fn wrong_answers_over_http2_are_refused() {
    let (address, _) = h2_server(404, 1_024, 0);
    let what = run(&plan(address, Protocol::H2(2, 4))).unwrap_err().to_string();
    assert_eq!(what, "the answer to GET /1k.bin has status 404, expected 200");
    let (address, _) = h2_server(200, 1_023, 0);
    let what = run(&plan(address, Protocol::H2(2, 4))).unwrap_err().to_string();
    assert_eq!(what, "the answer to GET /1k.bin has 1023 bytes, expected 1024");
    let wrong = Expect { length: 1_023, sha256: "00".to_owned(), status: 200 };
    let what = check(address, Protocol::H2(2, 4), KEPT, &wrong).unwrap_err().to_string();
    assert!(what.starts_with("the answer to GET /1k.bin has a body of sha256 "), "{what}");
}

/// As nginx does after `keepalive_requests`.
#[test]
fn a_farewell_of_http2_makes_a_new_connection() {
    let (address, connections) = h2_server(200, 1_024, 10);
    let wanted = Plan { until: Until::Requests(100), ..plan(address, Protocol::H2(1, 4)) };
    let outcome = run(&wanted).unwrap();
    assert_eq!(outcome.requests, 100);
    assert!(outcome.connects > 1, "{outcome:?}");
    assert_eq!(connections.load(Ordering::SeqCst), outcome.connects);
}
