//! Sidecars and Accept-Encoding (C01, C04, C05, C06 as far as nothing is compressed on the fly: that is
//! `compress`).

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use crate::support::{Client, Launch, Response, Server, Site, assert_same, is_root, noise};

fn get(client: &mut Client, target: &str, fields: &str) -> Response {
    client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
    client.response()
}

fn accept(client: &mut Client, target: &str, codings: &str) -> Response {
    get(client, target, &format!("Accept-Encoding: {codings}\r\n"))
}

/// Status, coding, length, body, and whether caches are told.
#[track_caller]
fn check(answer: &Response, coding: Option<&str>, body: &[u8]) {
    assert_eq!(answer.status, 200, "{}", answer.head);
    assert_eq!(answer.field("content-encoding"), coding, "{}", answer.head);
    assert_eq!(answer.field("vary"), Some("Accept-Encoding"), "{}", answer.head);
    assert_eq!(answer.field("content-length"), Some(&*body.len().to_string()), "{}", answer.head);
    assert_same(&answer.body, body, "the body");
}

fn comparable(answer: &Response) -> Vec<(String, String)> {
    answer.fields.iter().filter(|(name, _)| !name.eq_ignore_ascii_case("date")).cloned().collect()
}

/// Puts the time of a file's modification back.
fn age(path: &Path, seconds: u64) {
    let file = File::open(path).unwrap();
    let time = file.metadata().unwrap().modified().unwrap() - Duration::from_secs(seconds);
    file.set_modified(time).unwrap();
}

/// Case C01. `contains("gzip")`: `gzip;q=0` gets gzip, `broccoli` gets br, and who wrote
/// `identity;q=0, gzip` gets what it excluded.
#[test]
fn accept_encoding_is_a_grammar() {
    let site = Site::sample();
    for (name, content) in [("app.js", "plain"), ("app.js.gz", "in gzip"), ("app.js.br", "as brotli")] {
        site.file(name, content.as_bytes());
    }
    let server = Server::of(&site);
    let mut client = server.client();
    let bytes_of = |coding| match coding {
        Some("gzip") => "in gzip",
        Some("br") => "as brotli",
        _ => "plain",
    };
    for (value, coding) in [
        ("gzip", Some("gzip")),
        ("gzip;q=0", None),
        ("gzip ; q=0.000", None),
        ("br;q=0, gzip", Some("gzip")),
        ("gzip;q=0.5, br;q=1", Some("br")),
        ("gzip;q=1, br;q=0.5", Some("gzip")),
        ("*", Some("br")),
        ("*;q=0", None),
        ("identity;q=0, gzip", Some("gzip")),
        // Nothing is acceptable, and the file is sent all the same.
        ("identity;q=0, *;q=0", None),
        ("identity;q=0, zstd", None),
        ("identity, gzip;q=0.5", None),
        ("GZIP", Some("gzip")),
        ("x-gzip", Some("gzip")),
        ("gzipx", None),
        ("broccoli", None),
        ("br;q=2", None),
        (";;,", None),
        ("", None),
        ("gzip, deflate, br, zstd", Some("br")),
        ("zstd, gzip", Some("gzip")),
    ] {
        check(&accept(&mut client, "/app.js", value), coding, bytes_of(coding).as_bytes());
    }
    check(&get(&mut client, "/app.js", ""), None, b"plain");
    let two_lines = "Accept-Encoding: gzip\r\nAccept-Encoding: br;q=0.1\r\n";
    check(&get(&mut client, "/app.js", two_lines), Some("gzip"), b"in gzip");
}

/// Case C04. The length or the time of the first file is used with the bytes of the second: the answer
/// is cut, or padded, or one tag stands for two contents.
#[test]
fn a_sidecar_has_its_own_length_and_tag_and_the_type_of_its_original() {
    let site = Site::sample();
    let (plain, gz, br) = (noise(1, 40), noise(2, 90), noise(3, 70));
    let (big, big_zst) = (noise(4, 700_000), noise(5, 300_000));
    for (name, content) in [
        ("tiny.js", &plain),
        ("tiny.js.gz", &gz),
        ("tiny.js.br", &br),
        ("a.css", &big),
        ("a.css.zst", &big_zst),
        ("docs/index.html", &plain),
        ("docs/index.html.gz", &gz),
        // Sidecars of a sidecar, which nobody should get.
        ("tiny.js.gz.gz", &br),
        ("tiny.js.br.gz", &gz),
    ] {
        site.file(name, content);
    }
    let server = Server::of(&site);
    let mut client = server.client();
    let mut tags = Vec::new();
    for (coding, suffix, body) in [("identity", "", &plain), ("gzip", "-gz", &gz), ("br", "-br", &br)] {
        let answer = accept(&mut client, "/tiny.js", coding);
        check(&answer, Some(coding).filter(|coding| *coding != "identity"), body);
        assert_eq!(answer.field("content-type"), Some("text/javascript; charset=utf-8"));
        let tag = answer.field("etag").unwrap().to_owned();
        assert!(tag.ends_with(&format!("{suffix}\"")), "{tag}");
        tags.push(tag);
    }
    tags.sort();
    tags.dedup();
    assert_eq!(tags.len(), 3);
    let answer = accept(&mut client, "/a.css", "zstd");
    check(&answer, Some("zstd"), &big_zst);
    assert_eq!(answer.field("content-type"), Some("text/css; charset=utf-8"));
    check(&accept(&mut client, "/a.css", "gzip, br"), None, &big);
    let answer = accept(&mut client, "/docs/", "gzip");
    check(&answer, Some("gzip"), &gz);
    assert_eq!(answer.field("content-type"), Some("text/html; charset=utf-8"));
    let by_name = accept(&mut client, "/tiny.js.gz", "gzip");
    assert_eq!((by_name.status, by_name.field("content-type")), (200, Some("application/gzip")));
    assert_eq!((by_name.field("content-encoding"), by_name.field("vary")), (None, None));
    assert_eq!(by_name.body, gz);
    // Its type does not tell that it is compressed; its name does.
    let by_name = accept(&mut client, "/tiny.js.br", "gzip");
    assert_eq!((by_name.status, by_name.field("content-encoding")), (200, None));
    assert_eq!(by_name.body, br);
}

/// The worker and the pool choose the same. A name in a fresh directory that is not there is unknown to
/// the kernel, so the first request goes to the pool; the next ones find all names in its cache.
#[test]
fn the_pool_and_the_worker_choose_alike() {
    let site = Site::sample();
    for number in 0..4 {
        for (name, content) in [("index.html", "plain"), ("index.html.gz", "in gzip"), ("x.txt", "x")] {
            site.file(format!("d{number}/{name}"), content.as_bytes());
        }
        let stale = site.file(format!("d{number}/x.txt.zst"), b"stale");
        age(&stale, 10);
    }
    let server = Server::with(&site, "workers = 1", &site.route());
    let mut client = server.client();
    for (number, target) in ["/d0/", "/d1/index.html", "/d2/x.txt", "/d3/none.txt"].into_iter().enumerate() {
        let answers = [(); 3].map(|()| accept(&mut client, target, "gzip, br, zstd"));
        for answer in &answers {
            assert_eq!((answer.status, &answer.body), (answers[0].status, &answers[0].body), "{target}");
            assert_eq!(comparable(answer), comparable(&answers[0]), "{target}");
        }
        match number {
            0 | 1 => check(&answers[0], Some("gzip"), b"in gzip"),
            2 => check(&answers[0], None, b"x"),
            _ => assert_eq!((answers[0].status, answers[0].field("vary")), (404, None)),
        }
    }
}

/// Case C05. Existence is the only test: a page that was edited is served as it was for years, to
/// browsers alone, and `curl` shows the right one.
#[test]
fn stale_orphaned_and_odd_sidecars_are_passed_over() {
    let site = Site::sample();
    site.file("page.html", b"new page");
    age(&site.file("page.html.gz", b"old page"), 1);
    site.file("only.txt.gz", b"orphan");
    site.file("dir.gz", b"sidecar of a directory");
    site.file("dir/x.txt", b"x");
    site.file("d.txt", b"beside a directory");
    fs::create_dir(site.root().join("d.txt.gz")).unwrap();
    site.file("e.txt", b"beside nothing");
    site.file("e.txt.gz", b"");
    site.file("none.txt", b"");
    site.file("none.txt.gz", b"");
    site.file("two.txt", b"two");
    age(&site.file("two.txt.br", b"old"), 1);
    site.file("two.txt.gz", b"in gzip");
    site.beside("secret", b"SECRET");
    site.file("l.txt", b"beside a link");
    site.link("l.txt.gz", "../secret");
    let server = Server::of(&site);
    let mut client = server.client();
    // Twice: through the pool, and by the worker.
    for _ in 0..2 {
        for (target, body) in [
            ("/page.html", b"new page" as &[u8]),
            ("/d.txt", b"beside a directory"),
            ("/e.txt", b"beside nothing"),
            ("/none.txt", b""),
            ("/l.txt", b"beside a link"),
        ] {
            check(&accept(&mut client, target, "gzip, br"), None, body);
        }
        check(&accept(&mut client, "/two.txt", "gzip, br"), Some("gzip"), b"in gzip");
        assert_eq!(accept(&mut client, "/only.txt", "gzip").status, 404);
        let answer = accept(&mut client, "/dir", "gzip");
        assert_eq!((answer.status, answer.field("location")), (308, Some("/dir/")));
    }
    // A sidecar that is made again is served at once, and so is the page that was changed after it.
    site.file("page.html.gz", b"newer");
    check(&accept(&mut client, "/page.html", "gzip"), Some("gzip"), b"newer");
    age(&site.root().join("page.html.gz"), 1);
    check(&accept(&mut client, "/page.html", "gzip"), None, b"new page");
    let told = server.errors.all();
    let told = told.iter().filter(|line| line.contains("page.html.gz")).count();
    assert_eq!(told, 1, "one line for one file");
}

/// Case C05. A sidecar that cannot be read is 403 or 500 for browsers alone.
#[test]
fn an_unreadable_sidecar_is_passed_over() {
    let site = Site::sample();
    site.file("u.txt", b"readable");
    let denied = site.file("u.txt.gz", b"SECRET");
    fs::set_permissions(&denied, fs::Permissions::from_mode(0o0)).unwrap();
    let launch = Launch::new(&site, "", &site.route());
    let launch = if is_root() { launch.unprivileged() } else { launch };
    let server = launch.start();
    let mut client = server.client();
    for _ in 0..2 {
        check(&accept(&mut client, "/u.txt", "gzip"), None, b"readable");
    }
    assert!(server.errors.containing("sidecar not served").contains("u.txt.gz"));
    assert_eq!(server.get("/u.txt.gz").status, 403);
}

/// Case C06. Offsets of the plain file in an answer that says gzip; a 304 that a cache files under the
/// wrong coding; a picture that is compressed twice.
#[test]
fn ranges_and_conditions_are_of_the_coding_that_is_sent() {
    // What is kept answers 304 by fields of its own.
    for keys in ["", ", revalidate = \"0s\""] {
        ranges_and_conditions(keys);
    }
}

#[track_caller]
fn ranges_and_conditions(keys: &str) {
    let site = Site::sample();
    let (plain, gz) = (noise(6, 500), noise(7, 300));
    site.file("app.js", &plain);
    site.file("app.js.gz", &gz);
    site.file("logo.png", &plain);
    site.file("logo.png.gz", &gz);
    let server = Server::with(&site, "", &site.route_with(keys));
    let mut client = server.client();
    let gzip = "Accept-Encoding: gzip\r\n";
    let whole = get(&mut client, "/app.js", gzip);
    check(&whole, Some("gzip"), &gz);
    assert_eq!(whole.field("accept-ranges"), Some("bytes"));
    let part = get(&mut client, "/app.js", &format!("{gzip}Range: bytes=290-\r\n"));
    assert_eq!((part.status, part.field("content-range")), (206, Some("bytes 290-299/300")));
    assert_eq!((part.field("content-encoding"), part.field("vary")), (Some("gzip"), Some("Accept-Encoding")));
    assert_same(&part.body, &gz[290..], "a part of the sidecar");
    let none = get(&mut client, "/app.js", &format!("{gzip}Range: bytes=400-\r\n"));
    assert_eq!((none.status, none.field("content-range")), (416, Some("bytes */300")));
    assert_eq!(none.field("content-encoding"), None, "of the text that tells of it");
    // Parts in one body would be decoded with the text around them.
    check(&get(&mut client, "/app.js", &format!("{gzip}Range: bytes=0-1,5-6\r\n")), Some("gzip"), &gz);
    let parts = get(&mut client, "/app.js", "Range: bytes=0-1,5-6\r\n");
    assert_eq!((parts.status, parts.field("vary")), (206, Some("Accept-Encoding")));

    let tag = whole.field("etag").unwrap();
    let plain_tag = get(&mut client, "/app.js", "").field("etag").unwrap().to_owned();
    let same = get(&mut client, "/app.js", &format!("{gzip}If-None-Match: {tag}\r\n"));
    assert_eq!((same.status, same.field("vary")), (304, Some("Accept-Encoding")));
    assert_eq!((same.field("etag"), same.field("content-encoding")), (Some(tag), None));
    let same = get(&mut client, "/app.js", &format!("If-None-Match: {plain_tag}\r\n"));
    assert_eq!((same.status, same.field("vary")), (304, Some("Accept-Encoding")));
    for fields in [
        format!("If-None-Match: {tag}\r\n"),
        format!("{gzip}If-None-Match: {plain_tag}\r\n"),
        format!("{gzip}If-Range: {plain_tag}\r\nRange: bytes=0-1\r\n"),
    ] {
        assert_eq!(get(&mut client, "/app.js", &fields).status, 200, "{fields}");
    }
    let failed = get(&mut client, "/app.js", &format!("{gzip}If-Match: {plain_tag}\r\n"));
    assert_eq!((failed.status, failed.field("content-encoding")), (412, None));

    for fields in [gzip, "Accept-Encoding: *\r\nRange: bytes=0-1\r\n", ""] {
        let get = get(&mut client, "/app.js", fields.split_inclusive('\n').next().unwrap_or(""));
        client.send(format!("HEAD /app.js HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
        assert_eq!(comparable(&client.response_to_head()), comparable(&get), "{fields}");
    }
    let logo = get(&mut client, "/logo.png", gzip);
    assert_eq!((logo.field("content-encoding"), logo.field("vary")), (None, None));
    assert_same(&logo.body, &plain, "a picture is compressed already");
}

/// Where they are off nothing is looked for, and caches need not keep answers apart.
#[test]
fn sidecars_can_be_left_out() {
    let site = Site::sample();
    site.file("app.js", b"plain");
    site.file("app.js.gz", b"in gzip");
    let route = site.route().replace(" }", ", precompressed = false }");
    let server = Server::with(&site, "", &route);
    let answer = accept(&mut server.client(), "/app.js", "gzip");
    assert_eq!((answer.status, answer.body.as_slice()), (200, b"plain" as &[u8]));
    assert_eq!((answer.field("content-encoding"), answer.field("vary")), (None, None));
}

/// The root itself has no name, and what would be its sidecar is a hidden file.
#[test]
fn a_root_has_no_sidecar() {
    let site = Site::sample();
    site.file(".gz", b"SECRET");
    let server = Server::with(&site, "", &site.route_at("/docs/"));
    let answer = accept(&mut server.client(), "/docs", "gzip");
    assert_eq!((answer.status, answer.field("location")), (308, Some("/docs/")));
}
