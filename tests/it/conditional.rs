//! Validators and If-None-Match (B01 as far as the first round goes).

use std::fs::File;
use std::time::{Duration, UNIX_EPOCH};

use crate::support::{Client, Response, Server, Site};

fn get(client: &mut Client, target: &str, fields: &str) -> Response {
    client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
    client.response()
}

/// Case B01. Comparing the whole field with the tag, or searching the tag in it, gets lists, weak
/// tags and tags with commas wrong: the page is sent again, or worse, an old one is kept.
#[test]
fn every_form_of_if_none_match() {
    let site = Site::sample();
    let server = Server::of(&site);
    let mut client = server.client();
    let tag = client.get("/x.txt").field("etag").unwrap().to_owned();
    let inner = tag.trim_matches('"').to_owned();
    for (value, status) in [
        (tag.clone(), 304),
        (format!("W/{tag}"), 304),
        (format!("\"a,b\", {tag}"), 304),
        ("*".to_owned(), 304),
        (format!("{tag} , \"z\""), 304),
        (format!("\"z\",{tag}"), 304),
        (format!("W/\"z\", W/{tag}"), 304),
        (format!(",, {tag}"), 304),
        ("\"nope\"".to_owned(), 200),
        ("nope".to_owned(), 200),
        (String::new(), 200),
        (inner.clone(), 200),
        (format!("\"{inner}"), 200),
        (format!("\"x{inner}\""), 200),
        (format!("\"x, {inner}\""), 200),
        (format!("\"{inner}-gz\""), 200),
    ] {
        let answer = get(&mut client, "/x.txt", &format!("If-None-Match: {value}\r\n"));
        assert_eq!(answer.status, status, "{value}");
        assert_eq!(answer.field("etag"), Some(tag.as_str()), "{value}");
        assert_eq!(answer.body.is_empty(), status == 304, "{value}");
    }
    for fields in [
        format!("If-None-Match: \"z\"\r\nIf-None-Match: {tag}\r\n"),
        format!("If-None-Match: {tag}\r\nIf-None-Match: \"z\"\r\n"),
    ] {
        assert_eq!(get(&mut client, "/x.txt", &fields).status, 304, "{fields:?}");
    }
    let two = "If-None-Match: \"y\"\r\nIf-None-Match: \"z\"\r\n";
    assert_eq!(get(&mut client, "/x.txt", two).status, 200);
}

/// Case B01. A condition counts only where the answer would have been 200 (RFC 9110 §13.2.1).
#[test]
fn a_condition_does_not_hide_an_error() {
    let site = Site::sample();
    let server = Server::of(&site);
    let mut client = server.client();
    for (target, status) in [("/none", 404), ("/docs", 308), ("/%zz", 400)] {
        assert_eq!(get(&mut client, target, "If-None-Match: *\r\n").status, status, "{target}");
    }
}

/// Case B01. A 304 has the fields of the 200 that a cache needs, no body, and the connection goes on.
#[test]
fn a_304_has_no_body_and_keeps_the_connection() {
    let site = Site::sample();
    let server = Server::of(&site);
    let mut client = server.client();
    let whole = client.get("/x.txt");
    let tag = whole.field("etag").unwrap().to_owned();
    for _ in 0..3 {
        let answer = get(&mut client, "/x.txt", &format!("If-None-Match: {tag}\r\n"));
        assert_eq!(answer.status, 304);
        assert!(!answer.closes());
        for name in ["etag", "vary", "cache-control"] {
            assert_eq!(answer.field(name), whole.field(name), "{name}");
        }
        assert!(answer.field("date").is_some());
        // A length here must be that of the 200 (RFC 9110 §8.6).
        assert!(answer.field("content-length").is_none_or(|length| length == "17"));
    }
    client.send(format!("HEAD /x.txt HTTP/1.1\r\nHost: a\r\nIf-None-Match: {tag}\r\n\r\n"));
    assert_eq!(client.response_to_head().status, 304);
    assert_eq!(client.get("/x.txt").body, whole.body);
}

/// Two replicas behind a balancer hold copies of one file: their tags must agree, or every second
/// conditional request fetches the page again. A change of content, size or time changes the tag.
#[test]
fn tags_agree_between_replicas_and_change_with_the_file() {
    let time = UNIX_EPOCH + Duration::new(1_700_000_000, 123_456_789);
    let set = |path: &std::path::Path, time| File::open(path).unwrap().set_modified(time).unwrap();
    let sites = [Site::new(), Site::new()];
    let servers = sites.each_ref().map(|site| {
        set(&site.file("x.txt", b"same"), time);
        Server::of(site)
    });
    let tags = servers.each_ref().map(|server| server.get("/x.txt").field("etag").unwrap().to_owned());
    assert_eq!(tags[0], tags[1]);
    assert!(tags[0].starts_with('"') && tags[0].ends_with('"'), "strong: {}", tags[0]);
    let path = sites[0].root().join("x.txt");
    set(&path, time + Duration::from_nanos(1));
    let mut seen = vec![tags[0].clone()];
    let mut check = |why: &str| {
        // What is cached by path may be a second old.
        crate::support::until(why, || {
            let tag = servers[0].get("/x.txt").field("etag").unwrap().to_owned();
            !seen.contains(&tag) && {
                seen.push(tag);
                true
            }
        });
    };
    check("another tag for a file that is a nanosecond younger");
    std::fs::write(&path, b"longer").unwrap();
    set(&path, time);
    check("another tag for another size");
}

/// Last-Modified is the file's time in whole seconds, in the one format that may be sent.
#[test]
fn last_modified_is_the_time_of_the_file() {
    let site = Site::new();
    let path = site.file("x.txt", b"x");
    let time = UNIX_EPOCH + Duration::new(784_111_777, 999_999_999);
    File::open(path).unwrap().set_modified(time).unwrap();
    let server = Server::of(&site);
    let answer = server.get("/x.txt");
    assert_eq!(answer.field("last-modified"), Some("Sun, 06 Nov 1994 08:49:37 GMT"));
}

/// Content types carry their charset where text is text; unknown endings are bytes.
#[test]
fn content_types_follow_the_name() {
    let site = Site::new();
    let server = Server::of(&site);
    for (name, expected) in [
        ("a.html", "text/html; charset=utf-8"),
        ("a.css", "text/css; charset=utf-8"),
        ("a.js", "text/javascript; charset=utf-8"),
        ("a.txt", "text/plain; charset=utf-8"),
        ("a.json", "application/json"),
        ("a.svg", "image/svg+xml"),
        ("a.png", "image/png"),
        ("a.wasm", "application/wasm"),
        ("a.unknown-ending", "application/octet-stream"),
        ("noending", "application/octet-stream"),
        ("A.HTML", "text/html; charset=utf-8"),
    ] {
        site.file(name, b"x");
        let answer = server.get(&format!("/{name}"));
        assert_eq!(answer.field("content-type"), Some(expected), "{name}");
    }
}
