//! Where a message ends, and what is refused because nobody could be sure (D02, D03).
//!
//! A body of unknown length is the door of request smuggling: every doubt is an error and a close.

use crate::support::{End, Server, Site, Then, drip, exchange};

const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";

/// One answer, 400 (or one of `also`), and then the server ends the connection; whole and byte by byte.
#[track_caller]
fn check_refused(server: &Server, request: &[u8], also: &[u16]) {
    let whole = exchange(server.address, request, Then::Wait);
    let dripped = drip(server.address, request, Then::Wait);
    for (how, heard) in [("whole", whole), ("byte by byte", dripped)] {
        let shown = String::from_utf8_lossy(&request[..request.len().min(200)]);
        assert_eq!(heard.end, End::Closed, "{how}: {shown:?}");
        let answers = heard.answers();
        assert_eq!(answers.len(), 1, "{how}: {shown:?} got {:?}", heard.statuses());
        let status = answers[0].status;
        assert!(status == 400 || also.contains(&status), "{how}: {shown:?} got {status}");
        assert!(answers[0].closes(), "{how}: {shown:?} does not say that it closes");
    }
}

#[track_caller]
fn check_understood(server: &Server, request: &[u8], statuses: &[u16]) {
    for heard in
        [exchange(server.address, request, Then::HalfClose), drip(server.address, request, Then::HalfClose)]
    {
        assert_eq!(heard.statuses(), statuses, "{:?}", String::from_utf8_lossy(request));
    }
}

/// Case D02. Two servers in a row read the same field differently: one sees `chunked`, the other a
/// field it does not know, and what one takes for a body is the next request for the other.
#[test]
fn a_transfer_encoding_in_disguise_is_refused() {
    let site = Site::sample();
    let server = Server::of(&site);
    for fields in [
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: identity",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding: identity, chunked",
        "Transfer-Encoding: chunked, chunked",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: \"chunked\"",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        "Transfer-Encoding : chunked",
        "Transfer-Encoding\t: chunked",
        "Transfer-Encoding:\x0bchunked",
        "Transfer-Encoding: chunked\x0c",
        "Transfer-Encoding: chunked\0",
        " Transfer-Encoding: chunked",
        "X: y\r\n Transfer-Encoding: chunked",
        "X: y\r\n\tTransfer-Encoding: chunked",
        "X: y\nTransfer-Encoding: chunked",
        "X: y\rTransfer-Encoding: chunked",
        "Transfer-Encoding:\r\n chunked",
        "Transfer-Encoding: chunked;q=1",
        "Transfer-Encoding: ",
        "Transfer-Encoding: ,chunked",
        "Transfer-Encoding: chunked,",
    ] {
        for target in ["/r/x", "/x.txt"] {
            let request = format!("POST {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n0\r\n\r\n{SMUGGLED}");
            check_refused(&server, request.as_bytes(), &[501]);
        }
    }
}

/// Case D02. White space around the value and the case of the name mean nothing: these are chunked.
#[test]
fn a_plain_transfer_encoding_is_understood() {
    let site = Site::sample();
    let server = Server::of(&site);
    for fields in [
        "Transfer-Encoding: chunked\t",
        "Transfer-Encoding:chunked",
        "transfer-encoding: \t chunked ",
        "TRANSFER-ENCODING: Chunked",
    ] {
        for (target, status) in [("/r/x", 200), ("/x.txt", 405)] {
            let request = format!("POST {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n0\r\n\r\n{SMUGGLED}");
            check_understood(&server, request.as_bytes(), &[status, 404]);
        }
    }
}

/// Case D02. A message with a length *and* chunks has two ends; which one counts depends on the reader.
#[test]
fn a_length_beside_chunks_is_refused() {
    let site = Site::sample();
    let server = Server::of(&site);
    for fields in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 5",
        "Content-Length: 0\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: nonsense",
    ] {
        for target in ["/r/x", "/x.txt"] {
            let request = format!("POST {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n0\r\n\r\n{SMUGGLED}");
            check_refused(&server, request.as_bytes(), &[]);
        }
    }
    // HTTP/1.0 has no chunks: the framing of such a message is faulty (RFC 9112 §6.1).
    let request = format!(
        "POST /r/x HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{SMUGGLED}"
    );
    check_refused(&server, request.as_bytes(), &[501]);
}

/// A length that is not one plain number (RFC 9112 §6.3): readers that take the first, the last or
/// what `strtol` makes of it disagree about where the next request starts.
#[test]
fn a_length_that_is_no_number_is_refused() {
    let site = Site::sample();
    let server = Server::of(&site);
    for fields in [
        "Content-Length: +5",
        "Content-Length: -5",
        "Content-Length: 5 5",
        "Content-Length: 0x5",
        "Content-Length: 5;",
        "Content-Length: ",
        "Content-Length: 5,6",
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: \u{b}5",
        "Content-Length : 5",
        "Content-Length: 5e0",
        "Content-Length: 18446744073709551621", // 2^64 + 5
    ] {
        let request = format!("POST /r/x HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\nhello{SMUGGLED}");
        check_refused(&server, request.as_bytes(), &[413]);
    }
}

/// Case D03. One lenient line reader for fields and chunks, or a number parser that takes signs and
/// spaces: the body ends elsewhere for the server behind.
#[test]
fn chunks_outside_the_grammar_are_refused() {
    let site = Site::sample();
    let server = Server::of(&site);
    for chunks in [
        "5\nhello\r\n0\r\n\r\n",
        "5\r\nhello\n0\r\n\r\n",
        "5\r\nhello\r\n0\n\r\n",
        "5\r\nhello\r\n0\r\n\n",
        "5\rhello\r\n0\r\n\r\n",
        "5;a=\nx\r\nhello\r\n0\r\n\r\n",
        "5;a=\"\nx\"\r\nhello\r\n0\r\n\r\n",
        "5;a=\"\r\n\"\r\nhello\r\n0\r\n\r\n",
        "5;\x01\r\nhello\r\n0\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        "5 \r\nhello\r\n0\r\n\r\n",
        " 5\r\nhello\r\n0\r\n\r\n",
        "FFFFFFFFFFFFFFFFF\r\n",
        "10000000000000005\r\nhello\r\n0\r\n\r\n",
        "5\r\nhelloXX0\r\n\r\n",
        "5\r\nhello0\r\n\r\n\r\n",
        "-1\r\n",
        "+5\r\nhello\r\n0\r\n\r\n",
        "5_0\r\nhello\r\n0\r\n\r\n",
        "\r\nhello\r\n0\r\n\r\n",
        "g\r\n",
        ";a\r\nhello\r\n0\r\n\r\n",
        "0\r\nX: y\nZ: w\r\n\r\n",
        "0\r\nno colon\r\n\r\n",
        "0\r\nX : y\r\n\r\n",
        "0\r\n folded\r\n\r\n",
        "0\r\n: y\r\n\r\n",
    ] {
        for target in ["/r/x", "/x.txt"] {
            let request = format!(
                "POST {target} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}{SMUGGLED}"
            );
            check_refused(&server, request.as_bytes(), &[413]);
        }
    }
}

/// Case D03. What the grammar allows is understood, and a trailer never becomes a field of its own
/// or of the next request.
#[test]
fn chunks_within_the_grammar_are_understood() {
    let site = Site::sample();
    let server = Server::of(&site);
    for chunks in [
        "0\r\n\r\n",
        "5\r\nhello\r\n0\r\n\r\n",
        "a\r\nhelloworld\r\nA\r\nhelloworld\r\n000\r\n\r\n",
        "00000005\r\nhello\r\n0\r\n\r\n",
        "5;a\r\nhello\r\n0;b=c;d=\"e;\\\" f\"\r\n\r\n",
        "5\r\n0\r\n\r\n\r\n0\r\n\r\n",
        "0\r\nX-Trailer: 1\r\nConnection: close\r\nContent-Length: 7\r\nHost: b\r\nTransfer-Encoding: chunked\r\n\r\n",
    ] {
        for (target, status) in [("/r/x", 200), ("/x.txt", 405)] {
            let request = format!(
                "POST {target} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}{SMUGGLED}"
            );
            check_understood(&server, request.as_bytes(), &[status, 404]);
        }
    }
}

/// Case D03. Extensions count for nothing and so escape every body limit: one of a mebibyte, or one
/// kibibyte with each byte of the body, keeps a worker busy for free.
#[test]
fn chunk_extensions_are_bounded() {
    let site = Site::sample();
    let server = Server::of(&site);
    let one_long = format!("5;{}\r\nhello\r\n0\r\n\r\n", "x".repeat(1 << 20));
    let many_short = format!("1;{}\r\nx\r\n", "x".repeat(1024)).repeat(500) + "0\r\n\r\n";
    for chunks in [one_long, many_short] {
        for target in ["/r/x", "/x.txt"] {
            let heard = server.raw_open(format!(
                "POST {target} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}{SMUGGLED}"
            ));
            assert_eq!((heard.statuses(), heard.end), (vec![400], End::Closed), "{target}");
        }
    }
}

/// RFC 9112 §2.2: an empty line before a request is forgiven; old clients send one after a body.
#[test]
fn an_empty_line_before_a_request_is_forgiven() {
    let site = Site::sample();
    let server = Server::of(&site);
    let get = "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n";
    let post = "POST /r/x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello\r\n";
    check_understood(&server, format!("\r\n{get}").as_bytes(), &[200]);
    check_understood(&server, format!("{post}{get}{post}").as_bytes(), &[200, 200, 200]);
}
