//! Odd modification times (B08).

use std::fs::File;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};

use crate::support::{Server, Site, noise};

/// Sets the modification time, also to one before 1970.
fn touch(path: &Path, seconds: i64) {
    let time = Timespec { tv_sec: seconds, tv_nsec: 0 };
    let times = Timestamps { last_access: time, last_modification: time };
    utimensat(CWD, path, &times, AtFlags::empty()).unwrap();
}

/// Case B08. `duration_since(UNIX_EPOCH).unwrap()` panics for a file of 1960; a time in the future makes
/// caches keep a page for ever.
#[test]
fn times_before_1970_and_in_the_future_are_served() {
    let site = Site::sample();
    for (name, seconds) in [("future", 4_070_908_800), ("past", -315_619_200), ("plain", 784_111_777)] {
        touch(&site.file(name, b"content"), seconds);
    }
    let server = Server::of(&site);
    let mut client = server.client();
    for (name, modified) in [
        ("/future", None),
        ("/past", Some("Fri, 01 Jan 1960 00:00:00 GMT")),
        ("/plain", Some("Sun, 06 Nov 1994 08:49:37 GMT")),
    ] {
        let answer = client.get(name);
        assert_eq!((answer.status, answer.field("last-modified")), (200, modified), "{name}");
        assert!(answer.field("etag").is_some(), "{name}");
    }
}

/// Case B08. Image builders and package stores set every time to 0 or 1 s. Size and time then say the
/// same of two releases, and browsers keep the old one for ever: the tag is made from the content.
#[test]
fn flattened_times_have_tags_of_their_content() {
    let site = Site::sample();
    let server = Server::of(&site);
    let mut client = server.client();
    for seconds in [0, 1] {
        let name = format!("release-{seconds}");
        let mut tags = Vec::new();
        for content in ["one", "two", "one"] {
            // As a new layer has it: another file of the same size and time.
            let path = site.file(format!("{name}.new"), content.as_bytes());
            touch(&path, seconds);
            std::fs::rename(&path, site.root().join(&name)).unwrap();
            for _ in 0..2 {
                let answer = client.get(&format!("/{name}"));
                assert_eq!((answer.status, answer.text()), (200, content.to_owned()));
                assert_eq!(answer.field("last-modified"), None);
                tags.push(answer.field("etag").expect("a tag of the content").to_owned());
            }
            let tag = tags.last().unwrap();
            client.send(format!("GET /{name} HTTP/1.1\r\nHost: a\r\nIf-None-Match: {tag}\r\n\r\n"));
            let answer = client.response();
            assert_eq!((answer.status, answer.field("etag")), (304, Some(tag.as_str())));
        }
        assert!(tags[0] == tags[1] && tags[2] == tags[3], "the same version, the same tag: {tags:?}");
        assert!(tags[0] != tags[2] && tags[0] == tags[4], "the tag is the content's: {tags:?}");
    }
}

/// An edit in place that puts the time back shows in the change time, which nobody can set.
#[test]
fn an_edit_with_the_time_put_back_has_another_tag() {
    let site = Site::sample();
    let path = site.file("x", b"one");
    touch(&path, 1);
    let server = Server::of(&site);
    let mut client = server.client();
    let before = client.get("/x").field("etag").unwrap().to_owned();
    std::fs::write(&path, b"two").unwrap();
    touch(&path, 1);
    let after = client.get("/x");
    assert_eq!(after.text(), "two");
    assert_ne!(after.field("etag"), Some(before.as_str()));
}

/// Above 8 MiB a hash would hold a pool thread for too long: no tag is better than a wrong one, and a
/// range that If-Range guards becomes the whole.
#[test]
fn large_files_with_flattened_times_have_no_tag() {
    let site = Site::sample();
    let content = noise(1, (8 << 20) + 1);
    let (large, largest) = (site.file("large", &content), site.file("largest", &content[1..]));
    for path in [&large, &largest] {
        File::open(path).unwrap().set_modified(UNIX_EPOCH + Duration::ZERO).unwrap();
    }
    let server = Server::of(&site);
    let mut client = server.client();
    assert!(client.get("/largest").field("etag").is_some());
    let answer = client.get("/large");
    assert_eq!((answer.field("etag"), answer.field("last-modified")), (None, None));
    client.send("GET /large HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1\r\nIf-Range: \"a\"\r\n\r\n");
    assert_eq!(client.response().body.len(), content.len());
    client.send("GET /large HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1\r\n\r\n");
    assert_eq!(client.response().body, content[..2]);
}
