//! Ranges and the conditions that guard them (B03, B05, B06, B07, A11 for a part of a file).

use std::fs::{self, File};

use rustix::fs::{Advice, fadvise, fsync};
use rustix::net::sockopt::set_socket_recv_buffer_size;

use crate::support::{Client, Response, Server, Site, assert_same, noise};

const MIB: usize = 1 << 20;

fn get(client: &mut Client, target: &str, fields: &str) -> Response {
    client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
    client.response()
}

/// Case B05. `len - n` in unsigned arithmetic wraps, a parse error and an unsatisfiable range are taken
/// for each other, an empty file divides by nothing: a panic, or bytes of somewhere else.
#[test]
fn the_arithmetic_of_one_range() {
    let site = Site::sample();
    let content = noise(1, 50);
    site.file("x", &content);
    site.file("empty", b"");
    let server = Server::of(&site);
    let mut client = server.client();
    for (value, part) in [
        ("bytes=0-0", 0..1),
        ("bytes=0-", 0..50),
        ("bytes=-5", 45..50),
        ("bytes=-500", 0..50),
        ("bytes=40-999999999999999999999999", 40..50),
        ("bytes=49-", 49..50),
        ("Bytes=1-2", 1..3),
        ("bytes=10-19,90-", 10..20),
    ] {
        let answer = get(&mut client, "/x", &format!("Range: {value}\r\n"));
        let expected = format!("bytes {}-{}/50", part.start, part.end - 1);
        assert_eq!((answer.status, answer.field("content-range")), (206, Some(&*expected)), "{value}");
        assert_eq!(answer.body, content[part], "{value}");
    }
    for value in ["bytes=50-", "bytes=-0", "bytes=18446744073709551615-"] {
        let answer = get(&mut client, "/x", &format!("Range: {value}\r\n"));
        assert_eq!((answer.status, answer.field("content-range")), (416, Some("bytes */50")), "{value}");
    }
    for value in ["bytes=5-2", "bytes=a-b", "lines=0-1", "bytes", "", "bytes=0-9,5-14"] {
        let answer = get(&mut client, "/x", &format!("Range: {value}\r\n"));
        assert_eq!((answer.status, answer.field("content-range")), (200, None), "{value}");
        assert_eq!((answer.body.as_slice(), answer.field("accept-ranges")), (&content[..], Some("bytes")));
    }
    assert_eq!(get(&mut client, "/x", "Range: bytes=0-1\r\nRange: bytes=2-3\r\n").status, 200);
    let answer = get(&mut client, "/empty", "Range: bytes=0-\r\n");
    assert_eq!((answer.status, answer.field("content-range")), (416, Some("bytes */0")));
}

/// Parts of a large file: through the stream of large answers, inline and from a cold cache.
#[test]
fn large_parts_are_the_right_bytes() {
    let site = Site::sample();
    let content = noise(2, 8 * MIB);
    let path = site.file("big", &content);
    let server = Server::of(&site);
    let mut client = server.client();
    for is_cold in [false, true] {
        for part in [0..131_072, 1..131_074, 5 * MIB + 3..5 * MIB + 9, MIB - 1..7 * MIB + 1, 3 * MIB..8 * MIB]
        {
            if is_cold {
                let file = File::open(&path).unwrap();
                fsync(&file).unwrap();
                fadvise(&file, 0, None, Advice::DontNeed).unwrap();
            }
            let fields = format!("Range: bytes={}-{}\r\n", part.start, part.end - 1);
            let answer = get(&mut client, "/big", &fields);
            assert_eq!(answer.status, 206);
            assert_same(&answer.body, &content[part], "a part of a large file");
        }
    }
}

/// Takes a multipart/byteranges body apart: each part's Content-Range and bytes (RFC 9110 §14.6).
fn parts(answer: &Response) -> Vec<(String, Vec<u8>)> {
    let content_type = answer.field("content-type").unwrap();
    let boundary = content_type.strip_prefix("multipart/byteranges; boundary=").unwrap();
    let mut rest = answer.body.as_slice();
    let mut parts = Vec::new();
    let delimiter = format!("--{boundary}\r\n").into_bytes();
    let mut first = true;
    loop {
        if !first {
            rest = rest.strip_prefix(b"\r\n").expect("a line break before a boundary");
        }
        first = false;
        let Some(after) = rest.strip_prefix(&delimiter[..]) else {
            assert_eq!(rest, format!("--{boundary}--\r\n").as_bytes(), "the end of the parts");
            return parts;
        };
        let end = after.windows(4).position(|window| window == b"\r\n\r\n").expect("a part has a head");
        let head = String::from_utf8(after[..end].to_vec()).unwrap();
        let range = head.split("Content-Range: ").nth(1).unwrap().to_owned();
        assert!(head.starts_with("Content-Type: "), "{head}");
        let numbers = range.strip_prefix("bytes ").unwrap().split('/').next().unwrap();
        let (start, last) = numbers.split_once('-').unwrap();
        let length = last.parse::<usize>().unwrap() - start.parse::<usize>().unwrap() + 1;
        let body = &after[end + 4..];
        parts.push((range, body[..length].to_vec()));
        rest = &body[length..];
    }
}

/// Case B06. A thousand overlapping ranges, each a buffer or a pass over the file: a request of 10 KB
/// costs gigabytes. Here a few disjoint ones are parts, anything else is the file, once.
#[test]
fn several_ranges_are_parts_or_the_whole_once() {
    let site = Site::sample();
    let (small, big) = (noise(3, 50), noise(4, 2 * MIB));
    site.file("x.css", &small);
    site.file("big", &big);
    let server = Server::of(&site);
    let mut client = server.client();
    let answer = get(&mut client, "/x.css", "Range: bytes=0-0,-1\r\n");
    assert_eq!((answer.status, answer.field("content-range")), (206, None));
    let expected = [
        ("bytes 0-0/50".to_owned(), small[..1].to_vec()),
        ("bytes 49-49/50".to_owned(), small[49..].to_vec()),
    ];
    assert_eq!(parts(&answer), expected);
    let answer = get(&mut client, "/big", "Range: bytes=1000000-1999999, 0-9, 300000-600000\r\n");
    assert_eq!(answer.status, 206);
    let found = parts(&answer);
    for ((_, body), part) in found.iter().zip([1_000_000..2_000_000, 0..10, 300_000..600_001]) {
        assert_same(body, &big[part], "a part of several");
    }
    assert_eq!(found.len(), 3);
    let many: String = (0..1300).map(|at| format!(",{at}-{at}")).collect();
    for value in [format!("bytes=0-{many}"), format!("bytes={}", &many[1..]), "bytes=0-,0-0".to_owned()] {
        let answer = get(&mut client, "/big", &format!("Range: {value}\r\n"));
        assert_eq!(answer.status, 200);
        assert_same(&answer.body, &big, "the whole, once");
    }
}

/// Case B07. A range is for GET alone (RFC 9110 §14.2), and the pipelined request behind a HEAD of
/// parts is answered.
#[test]
fn head_knows_no_range() {
    let site = Site::sample();
    let server = Server::of(&site);
    let mut client = server.client();
    client.send("HEAD /x.txt HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1\r\n\r\nGET /x.txt HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1\r\n\r\n");
    let head = client.response_to_head();
    assert_eq!((head.status, head.field("content-length")), (200, Some("17")));
    assert_eq!(client.response().body, b"x ");
}

/// Case B03. The two conditions that "must match" are missing, and a download goes on across two
/// versions of a file: a file that nobody ever published.
#[test]
fn what_must_match_is_looked_at_first() {
    let site = Site::sample();
    let server = Server::of(&site);
    let mut client = server.client();
    let whole = client.get("/x.txt");
    let (tag, date) =
        (whole.field("etag").unwrap().to_owned(), whole.field("last-modified").unwrap().to_owned());
    let old = "Sun, 06 Nov 1994 08:49:37 GMT";
    for (fields, status) in [
        ("If-Match: \"nope\"".to_owned(), 412),
        (format!("If-Match: W/{tag}"), 412),
        (format!("If-Match: {tag}"), 200),
        (format!("If-Match: \"a\"\r\nIf-Match: \"b\", {tag}"), 200),
        ("If-Match: *".to_owned(), 200),
        (format!("If-Unmodified-Since: {old}"), 412),
        (format!("If-Unmodified-Since: {date}"), 200),
        ("If-Unmodified-Since: yesterday".to_owned(), 200),
        (format!("If-Match: {tag}\r\nIf-Unmodified-Since: {old}"), 200),
        (format!("If-Modified-Since: {date}"), 304),
        (format!("If-Modified-Since: {old}"), 200),
        (format!("If-None-Match: \"z\"\r\nIf-Modified-Since: {date}"), 200),
        (format!("If-Match: \"nope\"\r\nIf-None-Match: {tag}"), 412),
        (format!("If-Range: {tag}\r\nRange: bytes=0-1"), 206),
        (format!("If-Range: W/{tag}\r\nRange: bytes=0-1"), 200),
        ("If-Range: \"z\"\r\nRange: bytes=0-1".to_owned(), 200),
        (format!("If-Range: {old}\r\nRange: bytes=0-1"), 200),
        (format!("If-Range: \"z\"\r\nIf-Range: {tag}\r\nRange: bytes=0-1"), 200),
        (format!("If-None-Match: {tag}\r\nRange: bytes=0-1"), 304),
        ("If-Match: \"nope\"\r\nRange: bytes=90-".to_owned(), 412),
    ] {
        let answer = get(&mut client, "/x.txt", &format!("{fields}\r\n"));
        assert_eq!(answer.status, status, "{fields}");
    }
    assert_eq!(get(&mut client, "/none", "If-Match: *\r\n").status, 404);
}

/// Case A11 for a part: the file becomes shorter while a part of it is sent, or grows.
#[test]
fn a_file_that_changes_under_a_part() {
    const BIG: usize = 64 * MIB;
    for (name, size, is_whole) in [("shrinks", 4 * MIB, false), ("grows", 80 * MIB, true)] {
        let site = Site::sample();
        let content = noise(5, BIG);
        let path = site.file(name, &content);
        let server = Server::of(&site);
        let mut client = server.client();
        set_socket_recv_buffer_size(&client.stream, 64 * 1024).unwrap();
        client.send(format!("GET /{name} HTTP/1.1\r\nHost: a\r\nRange: bytes=1048576-\r\n\r\n"));
        let (head, length) = client.head();
        assert!(head.starts_with("HTTP/1.1 206 "), "{head}");
        assert_eq!(length, BIG - MIB);
        let mut found = client.bytes(MIB);
        fs::File::options().write(true).open(path).unwrap().set_len(size as u64).unwrap();
        client.send("GET /x.txt HTTP/1.1\r\nHost: a\r\n\r\n");
        if is_whole {
            found.extend(client.bytes(BIG - 2 * MIB));
            assert_same(&found, &content[MIB..], "the promised bytes");
            assert_eq!(client.response().body, b"x marks the spot\n");
        } else {
            found.extend(client.rest());
            assert!(found.len() < BIG - MIB, "padding: {}", found.len());
            assert_same(&found, &content[MIB..MIB + found.len()], "what was sent before the cut");
        }
    }
}
