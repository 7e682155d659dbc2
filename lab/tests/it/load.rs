//! The generator against servers that are right, and against every way of being wrong.

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use scalws_lab::Refusal;
use scalws_lab::load::{Bounds, Expect, Outcome, Plan, Until, check, connect, run};
use scalws_lab::scenario::Protocol;
use sha2::{Digest as _, Sha256};

use crate::scripted::{Scripted, Stream, Then, say};

pub const FRESH: &str = "GET /1k.bin HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
pub const KEPT: &str = "GET /1k.bin HTTP/1.1\r\nHost: localhost\r\n\r\n";

pub fn body() -> Vec<u8> {
    (0..1_024_u32).map(|at| u8::try_from(at % 251).unwrap()).collect()
}

pub fn plan(address: SocketAddr, protocol: Protocol) -> Plan {
    let is_kept = matches!(protocol, Protocol::Http1 | Protocol::Tls | Protocol::H2(..));
    Plan {
        address,
        protocol,
        connections: 3,
        request: if is_kept { KEPT } else { FRESH }.to_owned(),
        expect: expect(&body()),
        until: Until::Requests(20),
        rate: None,
    }
}

pub fn expect(body: &[u8]) -> Expect {
    let sha256 = Sha256::digest(body).iter().map(|byte| format!("{byte:02x}")).collect();
    Expect { status: 200, length: body.len() as u64, sha256 }
}

pub fn answer(body: &[u8]) -> Vec<u8> {
    let mut answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).into_bytes();
    answer.extend_from_slice(body);
    answer
}

#[track_caller]
pub fn refused(outcome: Result<Outcome, Refusal>) -> String {
    outcome.unwrap_err().to_string()
}

/// What a run against a server that always does this is refused with.
#[track_caller]
fn refusal(script: impl Fn(&mut dyn Stream, u64) -> Then + Send + Sync + 'static) -> String {
    let server = Scripted::plain(move |stream, _, number| script(stream, number));
    refused(run(&plan(server.address, Protocol::Http1)))
}

#[test]
fn right_answers_are_counted() {
    let server = Scripted::plain(|stream, request, _| {
        assert_eq!(request, KEPT);
        say(stream, answer(&body()));
        Then::Keep
    });
    let outcome = run(&plan(server.address, Protocol::Http1)).unwrap();
    assert_eq!((outcome.requests, outcome.body_bytes, outcome.connects), (20, 20 * 1_024, 3));
    assert!(outcome.latency_us.p50 <= outcome.latency_us.max);
    let timed = Plan { until: Until::Seconds(0.05), ..plan(server.address, Protocol::Http1) };
    let outcome = run(&timed).unwrap();
    assert!(outcome.requests >= 3 && outcome.seconds > 0.05, "{outcome:?}");
    assert_eq!(check(server.address, Protocol::Http1, KEPT, &expect(&body())), Ok(()));
}

#[test]
fn another_status_is_refused() {
    let what = refusal(|stream, _| {
        say(stream, "HTTP/1.1 404 Not Found\r\nContent-Length: 1024\r\n\r\n");
        Then::Keep
    });
    assert_eq!(what, "the answer to GET /1k.bin has status 404, expected 200");
}

/// Right at first, and wrong in the middle of the window: no sample of answers would find it.
#[test]
fn one_wrong_answer_among_right_ones_is_refused() {
    let answers = AtomicU64::new(0);
    let server = Scripted::plain(move |stream, _, _| {
        let is_wrong = answers.fetch_add(1, Ordering::SeqCst) == 17;
        say(stream, answer(&body()[..if is_wrong { 1_023 } else { 1_024 }]));
        Then::Keep
    });
    let what = refused(run(&plan(server.address, Protocol::Http1)));
    assert_eq!(what, "the answer to GET /1k.bin has Content-Length 1023, expected 1024");
}

#[test]
fn dropped_connections_are_refused() {
    let short = refusal(|stream, _| {
        say(stream, &answer(&body())[..602]);
        Then::Close
    });
    assert_eq!(
        short,
        "the answer to GET /1k.bin ends after 561 of 1024 bytes: the server closed the connection"
    );
    let none = refusal(|_, _| Then::Close);
    assert_eq!(
        none,
        "the answer to GET /1k.bin ends before its first byte: the server closed the connection"
    );
    let silent = "the server closed a kept connection without saying so (answers on it: 2): GET /1k.bin";
    let later = refusal(|stream, number| {
        say(stream, answer(&body()));
        if number == 2 { Then::Close } else { Then::Keep }
    });
    assert_eq!(later, silent);
    // The third request is there and not read: the end is a reset.
    let reset = refusal(|stream, number| {
        say(stream, answer(&body()));
        if number == 2 && stream.read_exact(&mut [0]).is_ok() { Then::Close } else { Then::Keep }
    });
    assert_eq!(reset, silent);
}

#[test]
fn a_body_too_long_is_refused() {
    let what = refusal(|stream, _| {
        say(stream, [answer(&body()), b"more".to_vec()].concat());
        Then::Keep
    });
    assert_eq!(what, "the answer to GET /1k.bin is followed by 4 bytes more than it has");
    let what = refusal(|stream, _| {
        say(stream, ["HTTP/1.1 200 OK\r\n\r\n", &"x".repeat(1_025)].concat());
        Then::Close
    });
    assert_eq!(what, "the answer to GET /1k.bin has more than 1024 bytes");
}

#[test]
fn garbage_is_refused() {
    let what = refusal(|stream, _| {
        say(stream, "220 mail.example ESMTP\r\n");
        Then::Keep
    });
    assert_eq!(
        what,
        "the answer to GET /1k.bin is not HTTP/1.1: it begins with \"220 mail.example ESMTP\\r\\n\""
    );
}

/// The stall bound is short here; nothing depends on how long it takes.
#[test]
fn an_answer_that_never_ends_is_refused() {
    let server = Scripted::plain(|stream, _, number| {
        let whole = answer(&body());
        say(stream, &whole[..if number == 3 { 641 } else { whole.len() }]);
        Then::Keep
    });
    let bounds = Bounds { stall: Duration::from_millis(300), ..Bounds::default() };
    let what = refused(connect(&plan(server.address, Protocol::Http1), bounds).unwrap().run());
    assert_eq!(what, "the answer to GET /1k.bin stops after 600 of 1024 bytes: nothing more within 0.3 s");
}

#[test]
fn a_wanted_stop_ends_a_run() {
    let server = Scripted::plain(|_, _, _| Then::Keep);
    let bounds = Bounds { stop: || true, ..Bounds::default() };
    let what = refused(connect(&plan(server.address, Protocol::Http1), bounds).unwrap().run());
    assert_eq!(what, "stopped while load was running");
}

#[test]
fn no_server_is_refused() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let wanted = format!("{address} refuses connections: no server listens there (any more)");
    for protocol in
        [Protocol::Http1, Protocol::Http1Fresh, Protocol::Tls, Protocol::TlsFull, Protocol::H2(1, 1)]
    {
        assert_eq!(refused(run(&plan(address, protocol))), wanted, "{protocol:?}");
    }
    assert_eq!(check(address, Protocol::Http1, KEPT, &expect(&[])).unwrap_err().to_string(), wanted);
}

#[test]
fn a_wrong_hash_is_refused() {
    let server = Scripted::plain(|stream, _, _| {
        let mut body = body();
        body[1_000] ^= 1;
        say(stream, answer(&body));
        Then::Keep
    });
    let wanted = expect(&body());
    let what = check(server.address, Protocol::Http1, KEPT, &wanted).unwrap_err().to_string();
    let mut found = body();
    found[1_000] ^= 1;
    assert_eq!(
        what,
        format!(
            "the answer to GET /1k.bin has a body of sha256 {}, expected {}",
            expect(&found).sha256,
            wanted.sha256
        )
    );
}

#[test]
fn chunks_and_odd_segments_are_put_together() {
    let server = Scripted::plain(|stream, _, number| {
        let body = body();
        let mut whole = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3e8\r\n".to_vec();
        whole.extend_from_slice(&body[..1_000]);
        whole.extend_from_slice(b"\r\n18\r\n");
        whole.extend_from_slice(&body[1_000..]);
        whole.extend_from_slice(b"\r\n0\r\n\r\n");
        let whole = if number.is_multiple_of(2) { answer(&body) } else { whole };
        for piece in whole.chunks([1, 7, 61, 500][usize::try_from(number % 4).unwrap()]) {
            say(stream, piece);
        }
        Then::Keep
    });
    let outcome = run(&plan(server.address, Protocol::Http1)).unwrap();
    assert_eq!((outcome.requests, outcome.body_bytes, outcome.connects), (20, 20 * 1_024, 3));
    assert_eq!(check(server.address, Protocol::Http1, KEPT, &expect(&body())), Ok(()));
}

/// As nginx does after `keepalive_requests`.
#[test]
fn a_close_that_was_announced_makes_a_new_connection() {
    let server = Scripted::plain(|stream, _, number| {
        if number < 4 {
            say(stream, answer(&body()));
            return Then::Keep;
        }
        say(stream, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1024\r\n\r\n");
        say(stream, body());
        Then::Close
    });
    let outcome = run(&Plan { connections: 1, ..plan(server.address, Protocol::Http1) }).unwrap();
    assert_eq!((outcome.requests, outcome.connects), (20, 5));
    assert_eq!(server.connections.load(Ordering::SeqCst), 5);
}

#[test]
fn a_connection_for_each_request() {
    let server = Scripted::plain(|stream, request, number| {
        assert_eq!((request, number), (FRESH, 1));
        say(stream, answer(&body()));
        Then::Close
    });
    let outcome = run(&plan(server.address, Protocol::Http1Fresh)).unwrap();
    assert_eq!((outcome.requests, outcome.connects), (20, 20));
    // It asked for the end and does not get it.
    let server = Scripted::plain(|stream, _, _| {
        say(stream, answer(&body()));
        Then::Keep
    });
    let bounds = Bounds { stall: Duration::from_millis(300), ..Bounds::default() };
    let what = refused(connect(&plan(server.address, Protocol::Http1Fresh), bounds).unwrap().run());
    assert_eq!(what, "the answer to GET /1k.bin is not followed by the end of its connection within 0.3 s");
}

/// The server answers the first request only when the second has long been due; one connection, so the second
/// waits. A latency from the send would hide that.
#[test]
fn an_open_loop_sends_all_that_is_due_and_counts_the_wait() {
    let server = Scripted::plain(|stream, _, number| {
        if number == 1 {
            std::thread::sleep(Duration::from_millis(200));
        }
        say(stream, answer(&body()));
        Then::Keep
    });
    let wanted = Plan {
        connections: 1,
        until: Until::Requests(100),
        rate: Some(500.0),
        ..plan(server.address, Protocol::Http1)
    };
    let outcome = run(&wanted).unwrap();
    assert_eq!((outcome.requests, outcome.connects), (100, 1));
    // 100 requests were due within the 200 ms of the first: the median waited with it. The bound is the
    // arithmetic of the schedule: request 50 was due at 100 ms and could not be answered before 200 ms.
    assert!(outcome.latency_us.p50 >= 90_000, "{outcome:?}");
}

/// Between two requests that are due far apart.
#[test]
fn a_silent_close_of_an_idle_connection_is_refused() {
    let server = Scripted::plain(|stream, _, _| {
        say(stream, answer(&body()));
        Then::Close
    });
    let wanted = Plan { connections: 1, rate: Some(2.0), ..plan(server.address, Protocol::Http1) };
    assert_eq!(
        refused(run(&wanted)),
        "the server closed a kept connection without saying so (answers on it: 1): GET /1k.bin"
    );
}
