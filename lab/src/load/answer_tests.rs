//! Answers in whole and in pieces of every size.

use super::*;

const WANT: Want = Want { status: 200, length: Some(5) };

/// Fed in pieces of so many bytes: the body, or what is wrong; then what was left over.
fn read(text: &str, want: Want, piece: usize) -> Result<(Vec<u8>, usize, bool), String> {
    let (mut answer, mut body, mut left) = (Answer::default(), Vec::new(), 0);
    for piece in text.as_bytes().chunks(piece) {
        let mut sink = |piece: Piece<'_>| {
            if let Piece::Body(bytes) = piece {
                body.extend_from_slice(bytes);
            }
        };
        left += if answer.is_done() { piece.len() } else { answer.feed(piece, want, &mut sink)? };
    }
    answer.close(want, "closed")?;
    assert_eq!(answer.body_bytes(), body.len() as u64);
    Ok((body, left, answer.closes()))
}

/// Whatever the pieces, the same comes out.
fn check(text: &str, want: Want, wanted: Result<(&str, usize, bool), &str>) {
    let wanted = wanted.map(|(body, left, closes)| (body.as_bytes().to_vec(), left, closes));
    for piece in (1..=text.len()).rev() {
        assert_eq!(read(text, want, piece), wanted.clone().map_err(str::to_owned), "{text:?} by {piece}");
    }
}

#[test]
fn sound_answers() {
    check("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", WANT, Ok(("hello", 0, false)));
    check("HTTP/1.1 200\r\ncontent-length:5\r\nDate: x\r\n\r\nhello", WANT, Ok(("hello", 0, false)));
    check(
        "HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 5\r\n\r\nhello",
        WANT,
        Ok(("hello", 0, true)),
    );
    check("HTTP/1.1 200 OK\r\n\r\nhello", WANT, Ok(("hello", 0, true)));
    check("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHT", WANT, Ok(("hello", 2, false)));
    let nothing = Want { status: 304, length: Some(0) };
    check("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", nothing, Ok(("", 0, false)));
    let empty = Want { status: 404, length: Some(0) };
    check("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", empty, Ok(("", 0, false)));
    let any = Want { status: 404, length: None };
    check("HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone", any, Ok(("none", 0, false)));
}

#[test]
fn chunks() {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunked = |chunks: &str| format!("{head}{chunks}");
    check(&chunked("5\r\nhello\r\n0\r\n\r\n"), WANT, Ok(("hello", 0, false)));
    check(&chunked("2;a=b\r\nhe\r\n03\r\nllo\r\n00\r\nX: y\r\n\r\nH"), WANT, Ok(("hello", 1, false)));
    check(&chunked("4\r\nhell\r\n0\r\n\r\n"), WANT, Err("has 4 bytes, expected 5"));
    check(&chunked("x\r\n"), WANT, Err("has broken chunks after 0 bytes"));
    check(&chunked("5\nhello"), WANT, Err("has broken chunks after 0 bytes"));
    check(&chunked("\r\n"), WANT, Err("has broken chunks after 0 bytes"));
    check(&chunked("5\r\nhelloo\r\n"), WANT, Err("has broken chunks after 5 bytes"));
    check(&chunked("2\r\nhe\r\n"), WANT, Err("ends after 2 bytes of its body: closed"));
    check(&chunked(&"1".repeat(16)), WANT, Err("has broken chunks after 0 bytes"));
    let both = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n";
    check(both, WANT, Err("has both Content-Length and chunks"));
    let other = "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n";
    check(other, WANT, Err("has another Transfer-Encoding than chunked"));
}

#[test]
fn wrong_answers() {
    let ok = |rest: &str| format!("HTTP/1.1 200 OK\r\n{rest}");
    check("HTTP/1.1 404 Not Found\r\n\r\n", WANT, Err("has status 404, expected 200"));
    check("HTTP/1.1 100 Continue\r\n\r\n", WANT, Err("has status 100, expected 200"));
    check(&ok("Content-Length: 4\r\n\r\n"), WANT, Err("has Content-Length 4, expected 5"));
    check(&ok("Content-Length: 5\r\n\r\nhel"), WANT, Err("ends after 3 of 5 bytes: closed"));
    check(&ok("\r\nhel"), WANT, Err("has 3 bytes, expected 5"));
    check(&ok("Content-Le"), WANT, Err("ends after 27 bytes of its head: closed"));
    check(&ok("Content-Length: +5\r\n\r\n"), WANT, Err("has a Content-Length that is no number"));
    let twice = ok("Content-Length: 5\r\nContent-Length: 5\r\n\r\n");
    check(&twice, WANT, Err("has two Content-Lengths"));
    check("HTTP/1.1 200 OK\nX", WANT, Err("has a line of its head without CR"));
    check("HTTP/1.1 2x0 OK\r\n\r\n", WANT, Err("has a status line without a status"));
    assert_eq!(read("", WANT, 1), Err("ends before its first byte: closed".to_owned()));
    let garbage = read("SSH-2.0-x\r\n", WANT, 99);
    assert_eq!(garbage, Err("is not HTTP/1.1: it begins with \"SSH-2.0-x\\r\\n\"".to_owned()));
    let old = read("HTTP/1.0 200 OK\r\n\r\nhello", WANT, 1);
    assert_eq!(old, Err("is not HTTP/1.1: it begins with \"HTTP/1.0\"".to_owned()));
    let endless = read(&ok(&"X: y\r\n".repeat(HEAD_BYTES_MAX)), WANT, 100);
    assert_eq!(endless, Err(format!("has a head of more than {HEAD_BYTES_MAX} bytes")));
}

#[test]
fn a_body_may_be_counted_without_being_read() {
    let mut answer = Answer::default();
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe";
    assert_eq!(answer.feed(head, WANT, &mut |_| {}), Ok(0));
    assert_eq!(answer.skippable(), 3);
    answer.skip(2);
    assert!(!answer.is_done());
    answer.skip(1);
    assert!(answer.is_done());
    assert_eq!(answer.body_bytes(), 5);
}
