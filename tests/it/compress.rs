//! Compression on the fly (C04, C06): the right bytes under the right fields, never on parts, never
//! where it was not asked for, and never an old version.

use std::fs;
use std::io::Read as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::{Client, Response, Server, Site, assert_same, noise, until};

fn get(client: &mut Client, target: &str, fields: &str) -> Response {
    client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
    client.response()
}

fn accept(client: &mut Client, target: &str, codings: &str) -> Response {
    get(client, target, &format!("Accept-Encoding: {codings}\r\n"))
}

/// Asks until the answer is compressed: a machine under load may be too slow for the first ones, which
/// get the file as it is.
#[track_caller]
fn coded(client: &mut Client, target: &str, codings: &str) -> Response {
    let mut answer = accept(client, target, codings);
    until("an answer is compressed", || {
        let is_coded = answer.field("content-encoding").is_some();
        if !is_coded {
            answer = accept(client, target, codings);
        }
        is_coded
    });
    answer
}

fn decode(answer: &Response) -> Vec<u8> {
    let mut content = Vec::new();
    let coded = answer.body.as_slice();
    match answer.field("content-encoding") {
        None => content.extend_from_slice(coded),
        Some("br") => drop(brotli::Decompressor::new(coded, 4096).read_to_end(&mut content).unwrap()),
        Some("zstd") => drop(zstd::Decoder::new(coded).unwrap().read_to_end(&mut content).unwrap()),
        Some("gzip") => drop(flate2::read::GzDecoder::new(coded).read_to_end(&mut content).unwrap()),
        Some(other) => panic!("{other}"),
    }
    content
}

/// Text that shrinks, but not to nothing.
fn text(seed: u64, bytes: usize) -> Vec<u8> {
    let words = noise(seed, bytes).into_iter().map(|byte| b"aeiounrtsl dhm\n.-0123"[usize::from(byte) % 21]);
    words.collect()
}

fn route(site: &Site, more: &str) -> String {
    site.route().replace(" }\n", &format!(", {more} }}\n"))
}

fn compressing(site: &Site) -> Server {
    Server::with(site, "", &route(site, "compress = true"))
}

#[test]
fn text_is_sent_in_the_coding_that_the_client_likes_best() {
    let site = Site::sample();
    let (script, large) = (text(1, 26_000), text(2, 900_000));
    site.file("app.js", &script);
    site.file("large.css", &large);
    site.file("docs/index.html", &script);
    let server = compressing(&site);
    let mut client = server.client();
    let plain = get(&mut client, "/app.js", "");
    assert_eq!((plain.field("content-encoding"), plain.field("vary")), (None, Some("Accept-Encoding")));
    let plain_tag = plain.field("etag").unwrap().trim_matches('"').to_owned();
    for (accepted, coding, suffix) in [
        ("br, gzip, zstd", "br", "-br"),
        ("gzip;q=1, br;q=0.5", "gzip", "-gz"),
        ("zstd", "zstd", "-zst"),
        ("identity;q=0, gzip", "gzip", "-gz"),
    ] {
        let answer = coded(&mut client, "/app.js", accepted);
        assert_eq!(answer.status, 200);
        assert_eq!(answer.field("content-encoding"), Some(coding), "{}", answer.head);
        assert_eq!(answer.field("vary"), Some("Accept-Encoding"));
        assert_eq!(answer.field("content-type"), Some("text/javascript; charset=utf-8"));
        assert_eq!(answer.field("etag"), Some(&*format!("W/\"{plain_tag}{suffix}\"")));
        assert_eq!(answer.field("last-modified"), plain.field("last-modified"));
        assert_eq!(answer.field("accept-ranges"), None, "a part would be one of the file as it is");
        assert!(answer.body.len() < script.len());
        assert_same(&decode(&answer), &script, coding);
        // HEAD has the fields of GET.
        client.send(format!("HEAD /app.js HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {accepted}\r\n\r\n"));
        let head = client.response_to_head();
        assert_eq!(head.field("content-length"), Some(&*answer.body.len().to_string()));
        assert_eq!(head.field("etag"), answer.field("etag"));
    }
    for target in ["/large.css", "/docs/"] {
        let answer = coded(&mut client, target, "gzip");
        assert_same(&decode(&answer), if target == "/docs/" { &script } else { &large }, target);
    }
    assert!(coded(&mut client, "/large.css", "gzip").body.len() > 200_000, "more than one write");
    for none in ["", "identity", "gzip;q=0", "identity, gzip;q=0.5"] {
        let answer = accept(&mut client, "/app.js", none);
        assert_eq!(answer.field("content-encoding"), None, "{none}");
        assert_same(&answer.body, &script, none);
    }
}

/// Case C06. A filter that does not know about ranges cuts the compressed bytes by offsets of the plain
/// ones, and the two halves of a download do not fit together.
#[test]
fn parts_and_what_may_not_be_changed_go_out_as_they_are() {
    let site = Site::sample();
    let script = text(3, 20_000);
    for name in ["app.js", "fixed.js", "other/app.js"] {
        site.file(name, &script);
    }
    let cache = "compress = true, cache_control = [{ glob = 'fixed.js', value = 'max-age=5, No-Transform' }]";
    let other = site.route_at("/fixed/").replace(" }\n", ", compress = true }\n");
    let tables = format!("{}{other}headers = {{ Cache-Control = 'no-transform' }}\n", route(&site, cache));
    let server = Server::with(&site, "", &tables);
    let mut client = server.client();
    let weak = coded(&mut client, "/app.js", "gzip").field("etag").unwrap().to_owned();
    let strong = get(&mut client, "/app.js", "").field("etag").unwrap().to_owned();

    let part = get(&mut client, "/app.js", "Accept-Encoding: gzip\r\nRange: bytes=100-299\r\n");
    assert_eq!((part.status, part.field("content-encoding")), (206, None));
    assert_eq!(part.field("etag"), Some(&*strong));
    assert_same(&part.body, &script[100..300], "a part");
    // The tag of the compressed answer is weak, so that no half of one is joined with another.
    let fields = format!("Accept-Encoding: gzip\r\nRange: bytes=100-\r\nIf-Range: {weak}\r\n");
    let whole = get(&mut client, "/app.js", &fields);
    assert_eq!(whole.status, 200);
    assert_same(&decode(&whole), &script, "If-Range does not hold");

    let fields = "Accept-Encoding: gzip\r\nCache-Control: max-age=0, no-transform\r\n";
    for (target, fields) in [
        ("/app.js", fields),
        ("/fixed.js", "Accept-Encoding: gzip\r\n"),
        ("/fixed/app.js", "Accept-Encoding: gzip\r\n"),
    ] {
        let answer = get(&mut client, target, fields);
        assert_eq!((answer.status, answer.field("content-encoding")), (200, None), "{target}");
        assert_same(&answer.body, &script, target);
    }

    // Conditions are of what would be sent.
    let check = |client: &mut Client, fields: &str, status: u16| {
        let answer = get(client, "/app.js", &format!("Accept-Encoding: gzip\r\n{fields}\r\n"));
        assert_eq!(answer.status, status, "{fields}");
        answer
    };
    let not_modified = check(&mut client, &format!("If-None-Match: {weak}"), 304);
    assert_eq!(not_modified.field("etag"), Some(&*weak));
    assert_eq!(not_modified.field("vary"), Some("Accept-Encoding"));
    check(&mut client, &format!("If-None-Match: {strong}"), 200);
    check(&mut client, &format!("If-Match: {weak}"), 412);
    check(&mut client, "If-Match: *", 200);
}

/// Case C06. Small bodies grow, pictures grow, and what is noise grows.
#[test]
fn what_does_not_shrink_is_left_alone() {
    let site = Site::sample();
    site.file("tiny.js", &text(4, 1_023));
    site.file("just.js", &text(4, 1_024));
    site.file("huge.js", &text(5, 100_001));
    site.file("noise.txt", &noise(6, 40_000));
    site.file("logo.png", &text(7, 5_000));
    site.file("archive.tar.gz", &text(7, 5_000));
    site.file("unknown", &text(7, 5_000));
    let server = Server::with(&site, "", &route(&site, "compress = { max_size = '100KB' }"));
    let mut client = server.client();
    coded(&mut client, "/just.js", "gzip");
    for (target, varies) in [
        ("/tiny.js", true),
        ("/huge.js", true),
        ("/noise.txt", true),
        ("/empty", true),
        ("/logo.png", false),
        ("/archive.tar.gz", false),
        ("/unknown", true),
    ] {
        let plain = get(&mut client, target, "");
        for _ in 0..2 {
            let answer = accept(&mut client, target, "br, zstd, gzip");
            assert_eq!(answer.field("content-encoding"), None, "{target}");
            assert_eq!(answer.field("etag"), plain.field("etag"), "{target}: what is sent is the file");
            assert_same(&answer.body, &plain.body, target);
            assert_eq!(answer.field("vary").is_some(), varies, "{target}");
        }
    }
}

#[test]
fn codings_types_and_sidecars_have_their_say() {
    let site = Site::sample();
    for name in ["a.css", "a.csv", "b.css"] {
        site.file(name, &text(8, 9_000));
    }
    site.file("b.css.gz", b"in a sidecar");
    let only = "compress = { codings = ['gzip'], types = ['text/css'] }";
    let server = Server::with(&site, "", &route(&site, only));
    let mut client = server.client();
    assert_eq!(coded(&mut client, "/a.css", "br, gzip;q=0.1").field("content-encoding"), Some("gzip"));
    assert_eq!(accept(&mut client, "/a.css", "br, zstd").field("content-encoding"), None);
    assert_eq!(accept(&mut client, "/a.csv", "gzip").field("content-encoding"), None);
    assert_same(&accept(&mut client, "/b.css", "br, gzip").body, b"in a sidecar", "a sidecar goes first");
    drop(client);

    // Without sidecars Vary stands where something is compressed, and nowhere else.
    let without = "precompressed = false, compress = { types = ['text/css'] }";
    let server = Server::with(&site, "", &route(&site, without));
    let mut client = server.client();
    let answer = coded(&mut client, "/b.css", "gzip");
    assert_same(&decode(&answer), &text(8, 9_000), "b.css");
    assert_eq!(get(&mut client, "/b.css", "").field("vary"), Some("Accept-Encoding"));
    assert_eq!(get(&mut client, "/a.csv", "").field("vary"), None);
}

/// A cache in memory is where old pages live on.
#[test]
fn a_changed_file_is_never_answered_with_its_old_bytes() {
    let site = Site::sample();
    let server = compressing(&site);
    let mut client = server.client();
    let path = site.root().join("page.html");
    for round in 0..20 {
        let page = text(100 + round, 3_000);
        if round % 2 == 0 {
            // In place, to the same length.
            fs::write(&path, &page).unwrap();
        } else {
            site.beside("fresh", &page);
            fs::rename(site.directory().join("fresh"), &path).unwrap();
        }
        for coding in ["gzip", "br", "zstd", "identity"] {
            assert_same(&decode(&accept(&mut client, "/page.html", coding)), &page, coding);
        }
    }
}

#[test]
fn while_a_file_is_replaced_every_answer_is_one_whole_version() {
    let site = Site::sample();
    let versions: Arc<Vec<Vec<u8>>> = Arc::new((0..8).map(|version| text(50 + version, 40_000)).collect());
    site.file("page.html", &versions[0]);
    let server = Server::with(&site, "workers = 2", &route(&site, "compress = true"));
    let stop = Arc::new(AtomicBool::new(false));
    let (written, stopped) = (Arc::clone(&versions), Arc::clone(&stop));
    let directory = site.directory().to_owned();
    let writer = std::thread::spawn(move || {
        for version in written.iter().cycle() {
            if stopped.load(Ordering::Relaxed) {
                return;
            }
            fs::write(directory.join("fresh"), version).unwrap();
            fs::rename(directory.join("fresh"), directory.join("root/page.html")).unwrap();
        }
    });
    let mut client = server.client();
    for round in 0..300 {
        let answer = accept(&mut client, "/page.html", ["gzip", "br;q=0.5, zstd", "identity"][round % 3]);
        assert_eq!(answer.status, 200, "{}", answer.head);
        let content = decode(&answer);
        assert!(versions.contains(&content), "{} bytes of no version", content.len());
    }
    stop.store(true, Ordering::Relaxed);
    writer.join().unwrap();
    // Under load every answer may lose the race, and is sent as it is. The last version rests.
    let last = decode(&coded(&mut client, "/page.html", "gzip"));
    assert_same(&last, &fs::read(site.root().join("page.html")).unwrap(), "the last version");
}

#[test]
fn a_hundred_clients_that_come_at_once_get_the_same_bytes() {
    let site = Site::sample();
    let script = text(9, 200_000);
    site.file("app.js", &script);
    site.file("index.html", &script);
    let server = Server::with(&site, "workers = 2", &route(&site, "compress = true, spa = '/index.html'"));
    let mut clients: Vec<Client> = (0..100).map(|_| server.client()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        let target = if number % 2 == 0 { "/app.js" } else { "/some/page" };
        client.send(format!(
            "GET {target} HTTP/1.1\r\nHost: a\r\nAccept: text/html\r\nAccept-Encoding: zstd\r\n\r\n"
        ));
    }
    for client in &mut clients {
        let answer = client.response();
        assert_eq!(answer.status, 200);
        assert_same(&decode(&answer), &script, "app.js");
    }
}
