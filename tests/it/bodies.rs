//! Bodies that nobody asked for, pipelining, early answers and Expect (D09, D10).

use std::io::Write as _;

use crate::support::{End, Heard, Response, Scrape, Server, Site, Then, exchange, noise, until};

const INNER: &str = "GET /smuggled HTTP/1.1\r\nHost: a\r\nX: 123456\r\n\r\n";
const NEXT: &str = "GET /y.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
const AFTER: &str = "GET /z.txt HTTP/1.1\r\nHost: a\r\n\r\n";

fn with_length(head: &str, body: &str) -> String {
    format!("{head}Content-Length: {}\r\n\r\n{body}", body.len())
}

fn chunked(head: &str, body: &str) -> String {
    format!("{head}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n", body.len())
}

/// Case D09. A handler that never asks for the body leaves it in the buffer, and the next read takes
/// it for a request: whoever shares the connection gets an answer to a question nobody asked.
#[test]
fn a_body_on_get_is_never_a_request() {
    assert_eq!(INNER.len(), 46);
    let site = Site::sample();
    let server = Server::of(&site);
    let tag = server.get("/x.txt").field("etag").unwrap().to_owned();
    let conditional = format!("If-None-Match: {tag}\r\n");
    for (target, more, status) in [
        ("/x.txt", "", 200),
        ("/healthz", "", 200),
        ("/x.txt", conditional.as_str(), 304),
        ("/none", "", 404),
        ("/docs", "", 308),
        ("/%zz", "", 400),
    ] {
        for frame in [with_length, chunked] {
            let first = frame(&format!("GET {target} HTTP/1.1\r\nHost: a\r\n{more}"), INNER);
            let heard = server.raw_open(format!("{first}{NEXT}{AFTER}"));
            let statuses = heard.statuses();
            // A server may also close instead of reading the body; it may never read a request in it.
            assert!(statuses == [status, 200] || statuses == [status], "{target}: {statuses:?}");
            if let [_, second] = heard.answers().as_slice() {
                assert_eq!(second.body, b"why\n", "{target}");
            }
        }
    }
}

/// Case D09. Nothing after `Connection: close` is answered, whatever the case of the token.
#[test]
fn nothing_after_close_is_answered() {
    let site = Site::sample();
    let server = Server::of(&site);
    for close in ["close", "Close", "keep-alive, close", "x,CLOSE ,y"] {
        for target in ["/x.txt", "/healthz", "/none"] {
            let heard = server.raw_open(format!(
                "GET {target} HTTP/1.1\r\nHost: a\r\nConnection: {close}\r\n\r\n{AFTER}{AFTER}"
            ));
            let answers = heard.answers();
            assert_eq!(answers.len(), 1, "{close}");
            assert!(answers[0].closes(), "{close}");
        }
    }
}

/// HTTP/1.0 closes unless it is asked not to.
#[test]
fn http_1_0_keeps_the_connection_when_asked() {
    let site = Site::sample();
    let server = Server::of(&site);
    let heard = server.raw_open(format!("GET /x.txt HTTP/1.0\r\n\r\n{AFTER}"));
    assert_eq!(heard.statuses(), [200]);
    let mut client = server.client();
    for _ in 0..2 {
        client.send("GET /x.txt HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n");
        let answer = client.response();
        assert_eq!(answer.status, 200);
        assert!(answer.field("connection").is_some_and(|value| value.eq_ignore_ascii_case("keep-alive")));
    }
    client.send("GET /x.txt HTTP/1.0\r\n\r\n");
    assert_eq!(client.response().status, 200);
    client.assert_closed();
}

/// Case D09. Fifty requests in one segment are answered in order, each with its own answer.
#[test]
fn fifty_pipelined_requests_are_answered_in_order() {
    let site = Site::sample();
    for number in 0..10 {
        site.file(format!("f{number}"), format!("file {number}").as_bytes());
    }
    let server = Server::of(&site);
    let tag = server.get("/f0").field("etag").unwrap().to_owned();
    let mut requests = String::new();
    let mut expected = Vec::new();
    for number in 0..50 {
        let file = number % 10;
        let (request, answer) = match number % 5 {
            0 => (format!("GET /f{file}"), (200, format!("file {file}"))),
            1 => (format!("HEAD /f{file}"), (200, String::new())),
            2 => (format!("GET /none/{number}"), (404, String::new())),
            3 => (format!("GET /r/{number}"), (200, "r\n".to_owned())),
            _ => ("GET /f0".to_owned(), (304, String::new())),
        };
        let more = if answer.0 == 304 { format!("If-None-Match: {tag}\r\n") } else { String::new() };
        requests += &format!("{request} HTTP/1.1\r\nHost: a\r\n{more}\r\n");
        expected.push((request.starts_with("HEAD"), answer));
    }
    let heard = server.raw(requests);
    let mut rest = heard.bytes.as_slice();
    for (number, (to_head, (status, body))) in expected.into_iter().enumerate() {
        let (answer, length) = Response::split(rest, to_head).unwrap_or_else(|| panic!("no answer {number}"));
        assert_eq!(answer.status, status, "answer {number}");
        assert!(status == 404 || answer.text() == body, "answer {number}: {:?}", answer.text());
        rest = &rest[length..];
    }
    assert!(rest.is_empty());
}

/// A body limit that counts what was read, whole or in pieces, and not less.
#[test]
fn a_body_within_its_limit_is_read_to_its_end() {
    let site = Site::sample();
    let server = Server::with(&site, "", &format!("[limits]\nbody_size = \"2MiB\"\n{}", Server::RESPOND));
    let body = noise(1, 2 << 20);
    let mut client = server.client();
    for _ in 0..2 {
        client.send(format!("POST /r/x HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len()));
        for part in body.chunks(100_000) {
            client.send(part);
        }
        assert_eq!(client.response().status, 200);
        client.send("POST /r/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        for part in body.chunks(9_973) {
            client.send(format!("{:X}\r\n", part.len()));
            client.send(part);
            client.send("\r\n");
        }
        client.send("0\r\n\r\n");
        assert_eq!(client.response().status, 200);
    }
}

#[track_caller]
fn check_final(heard: &Heard, status: u16) {
    assert_eq!(heard.end, End::Closed);
    let answers = heard.answers();
    assert_eq!(answers.len(), 1, "{:?}", heard.statuses());
    assert_eq!(answers[0].status, status);
    assert!(answers[0].closes());
}

/// Case D10. The server answers and closes with the body unread: the kernel sends a reset, which
/// overtakes the answer, and the client reports a broken connection instead of a status.
#[test]
fn a_client_that_writes_all_before_it_reads_gets_its_status() {
    let site = Site::sample();
    let server = Server::of(&site);
    let body = vec![b'x'; 8 << 20];
    for target in ["/x.txt", "/r/x", "/none"] {
        let head = format!("POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len());
        let heard = exchange(server.address, &[head.as_bytes(), &body].concat(), Then::Wait);
        check_final(&heard, 413);
        let mut request =
            format!("POST {target} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n").into_bytes();
        for part in body.chunks(65_536) {
            write!(request, "{:x}\r\n", part.len()).unwrap();
            request.extend_from_slice(part);
            request.extend_from_slice(b"\r\n");
        }
        request.extend_from_slice(b"0\r\n\r\n");
        check_final(&exchange(server.address, &request, Then::Wait), 413);
    }
}

/// Case D10. The client asks before it sends; since no handler wants the body, the final answer comes
/// at once, no 100 before it, and the connection ends because the body may or may not follow.
#[test]
fn expect_gets_the_final_answer_at_once() {
    let site = Site::sample();
    let server = Server::of(&site);
    for (target, status) in [("/x.txt", 405), ("/r/x", 200), ("/none", 405)] {
        for frame in ["Content-Length: 5", "Transfer-Encoding: chunked"] {
            for expect in ["100-continue", "100-Continue"] {
                let heard = server.raw_open(format!(
                    "PUT {target} HTTP/1.1\r\nHost: a\r\nExpect: {expect}\r\n{frame}\r\n\r\n"
                ));
                check_final(&heard, status);
            }
        }
    }
    // The same when the client does not wait for leave.
    let heard = server.raw_open(
        "PUT /r/x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 46\r\n\r\n".to_owned()
            + INNER,
    );
    check_final(&heard, 200);
}

/// Case D10. Too large is said before the body is sent; an expectation nobody knows is 417; HTTP/1.0
/// knows none (RFC 9110 §10.1.1).
#[test]
fn expectations_of_other_kinds() {
    let site = Site::sample();
    let server = Server::of(&site);
    let put = "PUT /r/x HTTP/1.1\r\nHost: a\r\n";
    let large = server.raw_open(format!("{put}Expect: 100-continue\r\nContent-Length: 99999999\r\n\r\n"));
    check_final(&large, 413);
    for expect in ["200-maybe", "100-continue, 200-maybe", "nonsense"] {
        let heard = server.raw(format!("{put}Expect: {expect}\r\nContent-Length: 5\r\n\r\nhello"));
        assert_eq!(heard.statuses(), [417], "{expect}");
    }
    let heard = server.raw("PUT /r/x HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!(heard.statuses(), [200]);
}

/// A body that never comes to its end is no request: the client that hangs up gets no 200.
#[test]
fn a_body_that_breaks_off_is_not_answered_as_whole() {
    let site = Site::sample();
    let server = Server::of(&site);
    for request in [
        "POST /r/x HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello",
        "POST /r/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "POST /r/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
        "POST /r/x HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n",
    ] {
        let heard = server.raw(request);
        assert!(heard.statuses().iter().all(|status| *status == 400), "{request:?}: {:?}", heard.statuses());
    }
}

/// Streamed or from the pool: a connection that ends with the answer to `Expect` was answered, not lost.
#[test]
fn connections_that_expect_end_answered() {
    let site = Site::sample();
    site.file("large", &noise(7, 200_000));
    site.file("shown/a", b"");
    let server = Server::with(&site, "workers = 1", &site.route_with(", listing = true"));
    for target in ["/x.txt", "/large", "/shown/"] {
        let mut client = server.client();
        let fields = "Host: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";
        client.send(format!("GET {target} HTTP/1.1\r\n{fields}"));
        assert_eq!(client.response().status, 200, "{target}");
        client.assert_closed();
    }
    until("three ends", || Scrape::of(&server).sum("scalws_connections_ended_total") == 3);
    let answered = Scrape::of(&server).count("scalws_connections_ended_total{how=\"answered\"}");
    assert_eq!(answered, 3, "the others were told as lost");
}
