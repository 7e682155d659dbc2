//! Files and whole trees that change under the server (A11 over plain HTTP, A12).

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_recv_buffer_size;

use crate::support::{Client, Mounted, Server, Site, assert_same, is_root, noise, until};

const MIB: usize = 1 << 20;
const BIG: usize = 64 * MIB;

/// Asks for `/big` and reads its first mebibyte; the small receive buffer keeps the rest at the server.
fn pause_in_big(server: &Server) -> (Client, Vec<u8>) {
    let mut client = server.client();
    set_socket_recv_buffer_size(&client.stream, 64 * 1024).unwrap();
    client.send("GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
    let (head, length) = client.head();
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert_eq!(length, BIG);
    let start = client.bytes(MIB);
    (client, start)
}

/// Case A11. The file becomes shorter than what was promised: `read` returns 0, which is taken for
/// "done", and the next answer ends up inside the promised body; or the loop spins for ever.
#[test]
fn a_truncated_file_ends_the_connection() {
    let site = Site::sample();
    let content = noise(1, BIG);
    site.file("big", &content);
    let server = Server::of(&site);
    let (mut client, mut found) = pause_in_big(&server);
    fs::File::options().write(true).open(site.root().join("big")).unwrap().set_len(2 << 20).unwrap();
    client.send("GET /x.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    found.extend(client.rest());
    assert!(found.len() < BIG, "padding: {}", found.len());
    assert_same(&found, &content[..found.len()], "what was sent before the cut");
    // The log tells: fewer bytes than promised.
    let line = server.access.containing("\"/big\"");
    let line: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert!(line["http.response.body.size"].as_u64().unwrap() < BIG as u64, "{line}");
    assert_eq!(server.get("/x.txt").status, 200);
}

/// Case A11. The file grows: exactly what was promised is sent, and the connection goes on.
#[test]
fn a_grown_file_is_sent_to_its_promised_length() {
    let site = Site::sample();
    grow(&site, &site.root());
}

/// The same of a tmpfs, where nobody has to look first how much of the file is there.
#[test]
fn a_grown_file_of_memory_is_sent_to_its_promised_length() {
    if !is_root() {
        skip!("needs root for a mount");
    }
    let site = Site::sample();
    let memory = match Mounted::small_disk(&site, 128 * 1024) {
        Ok(memory) => memory,
        Err(why) => skip!("needs a tmpfs: {why}"),
    };
    fs::write(memory.path().join("x.txt"), "x marks the spot\n").unwrap();
    grow(&site, memory.path());
}

#[track_caller]
fn grow(site: &Site, root: &std::path::Path) {
    let (content, path) = (noise(2, BIG), root.join("big"));
    fs::write(&path, &content).unwrap();
    let route = format!("[[route]]\npath = \"/\"\nstatic = {{ root = '{}' }}\n", root.display());
    let server = Server::with(site, "", &route);
    let (mut client, mut found) = pause_in_big(&server);
    fs::File::options().write(true).open(path).unwrap().set_len((BIG + 8 * MIB) as u64).unwrap();
    client.send("GET /x.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    found.extend(client.bytes(BIG - MIB));
    assert_same(&found, &content, "the promised bytes");
    assert_eq!(client.response().body, b"x marks the spot\n");
}

/// Case A11. The file is replaced by a rename: the old one is sent to its end, the next request gets
/// the new one, with the new length.
#[test]
fn a_replaced_file_is_sent_as_it_was() {
    let site = Site::sample();
    let content = noise(3, BIG);
    let path = site.file("big", &content);
    let server = Server::of(&site);
    let (mut client, mut found) = pause_in_big(&server);
    let other = noise(4, 3 * MIB);
    fs::rename(site.beside("other", &other), path).unwrap();
    found.extend(client.bytes(BIG - MIB));
    assert_same(&found, &content, "the old file");
    until("the new file", || client.get("/big").body == other);
}

/// A file edited in place, or replaced, is seen by the next request, small as it may be.
#[test]
fn an_edit_shows() {
    let site = Site::sample();
    let server = Server::of(&site);
    let mut client = server.client();
    for version in 0..20 {
        let content = format!("version {version}");
        if version % 2 == 0 {
            site.file("x.txt", content.as_bytes());
        } else {
            fs::rename(site.beside("new", content.as_bytes()), site.root().join("x.txt")).unwrap();
        }
        // By path a second late at most.
        until("the new version", || client.get("/x.txt").text() == content);
    }
    fs::remove_file(site.root().join("x.txt")).unwrap();
    until("that it is gone", || client.get("/x.txt").status == 404);
}

/// Case A12. The root is a link that every deploy moves. A server that opened the directory once
/// holds on to the old tree: after `rm -rf releases/1` everything is 404 until a restart.
#[test]
fn a_root_that_is_swapped_is_followed() {
    let site = Site::new();
    let content = noise(5, BIG);
    for release in ["1", "2", "3"] {
        site.beside(format!("releases/{release}/index.html"), release.as_bytes());
    }
    site.beside("releases/1/big", &content);
    let current = site.directory().join("current");
    symlink("releases/1", &current).unwrap();
    let route = format!("[[route]]\npath = \"/\"\nstatic = {{ root = '{}' }}\n", current.display());
    let server = Server::with(&site, "workers = 2", &route);
    assert_eq!(server.get("/").body, b"1");
    let (mut download, mut found) = pause_in_big(&server);

    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stop = StopOnDrop(&done);
        let visitors: Vec<_> = (0..4).map(|_| scope.spawn(|| visit(&server, &done))).collect();
        for release in ["2", "3"] {
            let next = site.directory().join("c.tmp");
            symlink(format!("releases/{release}"), &next).unwrap();
            fs::rename(&next, &current).unwrap();
            until("the new release, on every worker", || {
                (0..20).all(|_| server.get("/").body == release.as_bytes())
            });
            let old: u32 = release.parse::<u32>().unwrap() - 1;
            fs::remove_dir_all(site.directory().join(format!("releases/{old}"))).unwrap();
            // Long enough for every root to be looked up again.
            std::thread::sleep(Duration::from_millis(2500));
        }
        drop(stop);
        for visitor in visitors {
            let (answers, bad) = visitor.join().unwrap();
            assert!(answers > 0);
            assert!(bad.is_empty(), "of {answers} answers: {bad:?}");
        }
    });
    found.extend(download.bytes(BIG - MIB));
    assert_same(&found, &content, "the download that began in release 1");
}

/// What is kept open is of the release that it was opened in, however long its names may be believed.
#[test]
fn a_swapped_root_ends_what_is_kept() {
    let site = Site::new();
    for release in ["1", "2"] {
        site.beside(format!("releases/{release}/page.html"), release.as_bytes());
    }
    let current = site.directory().join("current");
    symlink("releases/1", &current).unwrap();
    let keys = format!("root = '{}', revalidate = \"24h\"", current.display());
    let server =
        Server::with(&site, "workers = 2", &format!("[[route]]\npath = \"/\"\nstatic = {{ {keys} }}\n"));
    let mut clients: Vec<_> = (0..20).map(|_| server.client()).collect();
    let mut all_have = |body: &[u8]| clients.iter_mut().all(|client| client.get("/page.html").body == body);
    assert!(all_have(b"1") && all_have(b"1"));
    let next = site.directory().join("c.tmp");
    symlink("releases/2", &next).unwrap();
    fs::rename(&next, &current).unwrap();
    until("the new release, from every worker", || all_have(b"2"));
}

/// Tells the visitors to stop, also when the test fails before it gets there.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Asks for the index until told to stop; returns how often, and all answers that were no release.
fn visit(server: &Server, done: &AtomicBool) -> (usize, Vec<(u16, String)>) {
    let (mut answers, mut bad) = (0, Vec::new());
    while !done.load(Ordering::Relaxed) {
        let mut client = server.client();
        for _ in 0..50 {
            let answer = client.get("/");
            answers += 1;
            if answer.status != 200 || !matches!(answer.text().as_str(), "1" | "2" | "3") {
                bad.push((answer.status, answer.text()));
            }
        }
    }
    (answers, bad)
}

/// Case A12, as Kubernetes does it: the root stays, `..data` in it is swapped by a rename.
#[test]
fn a_mounted_config_map_is_followed() {
    let site = Site::new();
    for version in ["1", "2"] {
        site.file(format!("..version_{version}/page.html"), version.as_bytes());
    }
    site.link("..data", "..version_1");
    site.link("page.html", "..data/page.html");
    let server = Server::of(&site);
    let mut client = server.client();
    assert_eq!(client.get("/page.html").body, b"1");
    site.link("..data_tmp", "..version_2");
    fs::rename(site.root().join("..data_tmp"), site.root().join("..data")).unwrap();
    fs::remove_dir_all(site.root().join("..version_1")).unwrap();
    until("the new version", || client.get("/page.html").body == b"2");
}

/// Case A12. A root that is gone for a while (a slow deploy) is a miss and not the end: it is served
/// again as soon as it is back.
#[test]
fn a_root_that_comes_back_is_served_again() {
    let site = Site::sample();
    let server = Server::of(&site);
    let mut client = server.client();
    assert_eq!(client.get("/x.txt").status, 200);
    let away = site.directory().join("away");
    fs::rename(site.root(), &away).unwrap();
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(2) {
        // The tree still exists: either it is served from where it went, or it is a miss.
        assert!(matches!(client.get("/x.txt").status, 200 | 404 | 503));
    }
    site.file("x.txt", b"new");
    until("the new tree", || client.get("/x.txt").body == b"new");
}

/// Case A12, during a drain. Roots were looked up again only until the stop signal: a deployment that
/// moved the link while the balancer still sent requests, and removed the old release, made all of
/// them 404. The delay here has no end within the test.
#[test]
fn a_root_that_is_swapped_during_the_delay_of_a_drain_is_followed() {
    let site = Site::new();
    for release in ["1", "2"] {
        site.beside(format!("releases/{release}/index.html"), release.as_bytes());
    }
    let current = site.directory().join("current");
    symlink("releases/1", &current).unwrap();
    let route = format!("[[route]]\npath = \"/\"\nstatic = {{ root = '{}' }}\n", current.display());
    let server = Server::with(&site, "workers = 1\ndrain = { delay = \"600s\", timeout = \"1s\" }\n", &route);
    assert_eq!(server.get("/").body, b"1");
    server.signal(rustix::process::Signal::TERM);
    until("the drain", || server.admin_get("/readyz").status == 503);
    let next = site.directory().join("c.tmp");
    symlink("releases/2", &next).unwrap();
    fs::rename(&next, &current).unwrap();
    fs::remove_dir_all(site.directory().join("releases/1")).unwrap();
    until("the new release", || server.get("/").body == b"2");
    for _ in 0..200 {
        assert_eq!(server.get("/").body, b"2");
    }
}
