//! The open-file cache: what it may believe, and what it may hold (docs/adr/0034-open-file-cache.md).
//!
//! Every other test of files runs with it on, as it is by default.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::time::{Duration, SystemTime};

use rustix::process::{Resource, Rlimit, getrlimit, prlimit};

use crate::support::fuse_files::Remote;
use crate::support::{Client, Launch, Server, Site, noise, until};

/// Asks often enough that the file is open and its bytes are in memory.
fn warm(client: &mut Client, path: &str) {
    for _ in 0..3 {
        client.get(path);
    }
}

/// A modification time long past, so that the content may be kept in memory at once. The change time of
/// the inode is set by the kernel and has to pass.
fn old_file(site: &Site, name: &str, content: &[u8]) -> std::path::PathBuf {
    let path = site.file(name, content);
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    fs::File::options().write(true).open(&path).unwrap().set_modified(old).unwrap();
    path
}

/// Waits until files that were made before are no longer too young to be kept.
pub fn grow_old(path: &std::path::Path) {
    until("files that are two seconds old", || {
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap();
        now.as_millis() as i64 - fs::metadata(path).unwrap().ctime() * 1000 > 3_200
    });
}

/// An edit in place, a file renamed over it, one that is gone: the look before each answer tells, however
/// lately the path was looked up.
#[test]
fn edits_show_at_once() {
    let site = Site::sample();
    let path = old_file(&site, "page", b"first");
    grow_old(&path);
    // Nobody would wait for the path to be looked up again.
    let server = Server::with(&site, "workers = 1", &site.route_with(", revalidate = \"24h\""));
    let mut client = server.client();
    warm(&mut client, "/page");
    for round in 0..200 {
        // The same size, and the same modification time: the change time alone tells (statx(2)).
        let before = fs::metadata(&path).unwrap().modified().unwrap();
        let content = format!("{:05}", round);
        fs::write(&path, &content).unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_modified(before).unwrap();
        assert_eq!(client.get("/page").body, content.as_bytes());
        warm(&mut client, "/page");
        assert_eq!(client.get("/page").body, content.as_bytes());
    }
    let next = site.file("page.tmp", b"renamed over it");
    fs::rename(next, &path).unwrap();
    assert_eq!(client.get("/page").body, b"renamed over it");
    warm(&mut client, "/page");
    fs::remove_file(&path).unwrap();
    assert_eq!(client.get("/page").status, 404);
}

/// A remote file is not looked at before each answer, as the look may hang. So nothing of it is kept that would
/// be answered by the descriptor: the length and the tag of one version, and the bytes of the next.
#[test]
fn what_a_remote_file_answers_is_of_one_version() {
    let site = Site::sample();
    let mountpoint = site.directory().join("remote");
    fs::create_dir(&mountpoint).unwrap();
    let files = vec![("small", noise(1, 10_000)), ("large", noise(2, 200 << 10))];
    let remote = match Remote::mount(&mountpoint, files.clone()) {
        Ok(remote) => remote,
        Err(why) => skip!("{why}"),
    };
    let route = format!(
        "[[route]]\npath = \"/\"\nstatic = {{ root = '{}', revalidate = \"24h\" }}\n",
        mountpoint.display()
    );
    let server = Server::with(&site, "workers = 1", &route);
    let mut client = server.client();
    for (name, old) in files {
        let path = format!("/{name}");
        warm(&mut client, &path);
        let tag = client.get(&path).field("etag").unwrap().to_owned();
        for new in [noise(3, old.len()), noise(4, old.len() * 3 / 2), noise(5, old.len() / 2)] {
            remote.write(name, &new);
            let whole = client.get(&path);
            let is_old = whole.field("etag") == Some(&tag);
            assert!(
                whole.body == if is_old { &old } else { &new }[..],
                "{name}: tag and bytes of two versions"
            );
            let fields = format!("Range: bytes=100-4099\r\nIf-Range: {tag}\r\n");
            client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
            let part = client.response();
            let expected = if part.status == 206 { &old[100..4_100] } else { &new };
            assert!(part.body == expected, "{name}: {} joins two versions", part.status);
        }
    }
}

/// An edit of what has a sidecar shows within a second, however long paths are believed: a look at the sidecar
/// says nothing of its original.
#[test]
fn edits_of_what_has_a_sidecar_show() {
    let site = Site::sample();
    let (path, _) = (old_file(&site, "app.js", b"plain"), site.file("app.js.gz", b"coded"));
    let server = Server::with(&site, "workers = 1", &site.route_with(", revalidate = \"24h\""));
    let mut client = server.client();
    let mut ask = || {
        client.send("GET /app.js HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
        client.response().body
    };
    (0..3).for_each(|_| assert_eq!(ask(), b"coded"));
    grow_old(&path);
    fs::write(&path, b"edited").unwrap();
    until("the edit of an original", || ask() == b"edited");
}

/// Who asks for the list of a directory does not hold the index open that is no longer there.
#[test]
fn a_deleted_index_is_let_go() {
    let site = Site::sample();
    let index = site.file("d/index.html", b"index");
    site.file("d/other", b"other");
    let keys = ", listing = true, revalidate = \"50ms\"";
    let server = Server::with(&site, "workers = 1", &site.route_with(keys));
    let mut client = server.client();
    warm(&mut client, "/d/");
    assert_eq!(open_in(&server, &site), 1);
    fs::remove_file(index).unwrap();
    until("the deleted index is closed", || {
        assert_eq!(client.get("/d/").status, 200);
        open_in(&server, &site) == 0
    });
}

/// Bytes and descriptors have bounds of their own.
#[test]
fn without_room_for_bytes_descriptors_are_kept() {
    let site = Site::sample();
    let page = old_file(&site, "page", b"page");
    grow_old(&page);
    let tables = format!("[limits]\nopen_files_size = \"0B\"\n{}", site.route_with(", revalidate = \"24h\""));
    let server = Server::with(&site, "workers = 1", &tables);
    let mut client = server.client();
    warm(&mut client, "/page");
    assert_eq!(open_in(&server, &site), 1);
}

/// What the path leads to is looked up again after `revalidate`: a link that leads elsewhere, a file where
/// there was none, a sidecar that is new. With `"0s"` each of them shows at once.
#[test]
fn names_are_looked_up_again() {
    let check = |keys: &str, is_at_once: bool| {
        let site = Site::sample();
        site.file("one", b"one");
        site.file("two", b"two");
        site.file("app.js", b"plain");
        symlink("one", site.root().join("link")).unwrap();
        let server = Server::with(&site, "workers = 1", &site.route_with(keys));
        let mut client = server.client();
        let mut shows = |what: &str, request: &str, expected: &[u8], change: &dyn Fn()| {
            let mut ask = || {
                client.send(format!("GET {request}Host: a\r\n\r\n"));
                client.response().body
            };
            (0..3).for_each(|_| assert_ne!(ask(), expected, "{what}"));
            change();
            if is_at_once {
                assert_eq!(ask(), expected, "{what}");
            } else {
                until(what, || ask() == expected);
            }
        };
        shows("the new end of a link", "/link HTTP/1.1\r\n", b"two", &|| {
            symlink("two", site.root().join("tmp")).unwrap();
            fs::rename(site.root().join("tmp"), site.root().join("link")).unwrap();
        });
        shows("a new file", "/new HTTP/1.1\r\n", b"new", &|| drop(site.file("new", b"new")));
        let request = "/app.js HTTP/1.1\r\nAccept-Encoding: gzip\r\n";
        shows("a new sidecar", request, b"coded", &|| drop(site.file("app.js.gz", b"coded")));
    };
    check("", false);
    check(", revalidate = \"50ms\"", false);
    check(", revalidate = \"0s\"", true);
}

/// One name is several things: with a slash, for who takes a coding, on another route.
#[test]
fn what_is_kept_is_kept_apart() {
    let site = Site::sample();
    site.file("d/index.html", b"index");
    site.file("app.js", b"plain");
    site.file("app.js.gz", b"gzip");
    site.file("app.js.br", b"brotli");
    let other = site.beside("other/app.js", b"other");
    site.beside("other/index.html", b"index of the other");
    let route = format!(
        "{}[[route]]\npath = \"/o/\"\nstatic = {{ root = '{}' }}\n",
        site.route(),
        other.parent().unwrap().display()
    );
    let server = Server::with(&site, "workers = 1", &route);
    let mut client = server.client();
    let mut ask = |path: &str, codings: &str| {
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {codings}\r\n\r\n"));
        client.response()
    };
    for _ in 0..3 {
        assert_eq!((ask("/d", "").status, ask("/d/", "").status), (308, 200));
        assert_eq!(ask("/app.js", "identity").body, b"plain");
        assert_eq!(ask("/app.js", "gzip").body, b"gzip");
        assert_eq!(ask("/app.js", "gzip, br").body, b"brotli");
        assert_eq!(ask("/app.js", "gzip, br;q=0.5").body, b"gzip");
        assert_eq!(ask("/o/app.js", "gzip").body, b"other");
        assert_eq!(ask("/app.js/", "gzip").status, 404);
        // What is beneath the route is the same empty path, with its slash and without.
        assert_eq!((ask("/o/", "").status, ask("/o", "").status), (200, 308));
    }
}

/// Open descriptors of the server that lead beneath the root.
fn open_in(server: &Server, site: &Site) -> usize {
    let directory = format!("/proc/{}/fd", server.pid().as_raw_nonzero());
    let mut count = 0;
    for entry in fs::read_dir(directory).unwrap().flatten() {
        let target = fs::read_link(entry.path()).unwrap_or_default();
        count += usize::from(target.starts_with(site.root()) && target != site.root());
    }
    count
}

/// Thousands of names leave a bounded number of descriptors, whatever the number of workers; what nobody
/// asks for is closed, and the disk gets its space back.
#[test]
fn descriptors_are_bounded_and_given_back() {
    const FILES: usize = 300;
    let site = Site::sample();
    for number in 0..FILES {
        site.file(format!("f/{number}"), b"content");
    }
    let limits = "[limits]\nopen_files = 30\nmissing_files = 30\n";
    let server = Server::with(&site, "workers = 3", &format!("{limits}{}", site.route()));
    let mut clients: Vec<_> = (0..12).map(|_| server.client()).collect();
    for number in 0..FILES {
        for client in &mut clients {
            assert_eq!(client.get(&format!("/f/{number}")).body, b"content");
            assert_eq!(client.get(&format!("/none/{number}")).status, 404);
        }
        assert!(open_in(&server, &site) <= 30, "{} open", open_in(&server, &site));
    }
    assert!(open_in(&server, &site) > 0);
    until("what is idle is closed", || open_in(&server, &site) == 0);
}

/// A process that may have few descriptors keeps a quarter of them for files, whatever its config says:
/// the others are for who connects.
#[test]
fn few_descriptors_are_not_all_for_files() {
    let site = Site::sample();
    for number in 0..90 {
        site.file(format!("f/{number}"), b"content");
    }
    let tables = format!("[limits]\nopen_files = 1000\n{}", site.route());
    let server = Launch::new(&site, "workers = 1", &tables).with_descriptors(120).start();
    let mut client = server.client();
    for number in 0..90 {
        assert_eq!(client.get(&format!("/f/{number}")).body, b"content");
        assert!(open_in(&server, &site) <= 30, "{} open", open_in(&server, &site));
    }
    assert!(open_in(&server, &site) > 0);
}

/// Strangers who ask for a hundred thousand names that are not there cost no more memory than a few
/// thousand of them.
#[test]
fn names_that_are_not_there_leave_memory_bounded() {
    let site = Site::sample();
    // Lines of a log that wait for their reader would be counted too.
    let server = Server::with(&site, "workers = 1", &format!("[log]\naccess = \"off\"\n{}", site.route()));
    let mut client = server.client();
    let mut ask = |from: usize, to: usize| {
        let mut number = from;
        while number < to {
            let batch: String = (number..(number + 100))
                .map(|number| format!("GET /none-{number:0200} HTTP/1.1\r\nHost: a\r\n\r\n"))
                .collect();
            client.send(batch);
            (0..100).for_each(|_| assert_eq!(client.response().status, 404));
            number += 100;
        }
    };
    ask(0, 40_000);
    let before = server.pss_bytes();
    ask(40_000, 140_000);
    let growth = server.pss_bytes().saturating_sub(before);
    // The names alone are 20 MB.
    assert!(growth < 6 << 20, "{growth} bytes more");
}

fn highest_descriptor(server: &Server) -> u64 {
    let directory = format!("/proc/{}/fd", server.pid().as_raw_nonzero());
    let numbers = fs::read_dir(directory).unwrap().flatten();
    numbers.map(|entry| entry.file_name().to_str().unwrap().parse().unwrap()).max().unwrap()
}

/// Where no descriptor is left, those that are kept for later give way to who comes now: that accepting fails
/// is told when there are none of them any more.
#[test]
fn kept_descriptors_give_way() {
    let site = Site::sample();
    site.file("one", b"one");
    site.file("two", b"two");
    // None is let go of for its age.
    let server = Server::with(&site, "workers = 1", &site.route_with(", revalidate = \"24h\""));
    let mut client = server.client();
    for path in ["/one", "/two", "/x.txt"] {
        warm(&mut client, path);
    }
    // No number below the limit is free: connections that nobody uses take what is left.
    let plenty = getrlimit(Resource::Nofile);
    let full = Rlimit { current: Some(highest_descriptor(&server) + 1), maximum: plenty.maximum };
    prlimit(Some(server.pid()), Resource::Nofile, full).unwrap();
    let mut others = Vec::new();
    until("connections have the place of all that was kept", || {
        others.push(server.client());
        // In use, so that none is closed for being idle.
        ["/one", "/two", "/x.txt"].into_iter().for_each(|path| drop(client.get(path)));
        server.errors.all().iter().any(|line| line.contains("accept failed"))
    });
    prlimit(Some(server.pid()), Resource::Nofile, plenty).unwrap();
    assert_eq!(client.get("/one").body, b"one");
}

/// The bytes of small files are kept in memory, and the answer is the same from there: whole, in part,
/// unchanged, without a body.
#[test]
fn an_answer_from_memory_is_the_same() {
    let site = Site::sample();
    let content = noise(7, 20_000);
    let path = old_file(&site, "page.html", &content);
    grow_old(&path);
    let answers = |keys: &str| {
        let server = Server::with(&site, "workers = 1", &site.route_with(keys));
        let mut client = server.client();
        let whole = client.get("/page.html");
        let tag = whole.field("etag").unwrap().to_owned();
        let mut all = Vec::new();
        for _ in 0..4 {
            for more in [
                String::new(),
                "Range: bytes=5-99\r\n".to_owned(),
                "Range: bytes=0-0,19999-\r\n".to_owned(),
                "Range: bytes=20000-\r\n".to_owned(),
                format!("If-None-Match: {tag}\r\n"),
                format!("If-None-Match: \"x\"\r\nIf-None-Match: {tag}\r\n"),
                "If-Match: \"x\"\r\n".to_owned(),
                format!("If-Range: {tag}\r\nRange: bytes=1-1\r\n"),
                "If-Range: \"x\"\r\nRange: bytes=1-1\r\n".to_owned(),
                "If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT\r\n".to_owned(),
                "If-Unmodified-Since: Sat, 01 Jan 2000 00:00:00 GMT\r\n".to_owned(),
            ] {
                client.send(format!("GET /page.html HTTP/1.1\r\nHost: a\r\n{more}\r\n"));
                let mut answer = client.response();
                // What differs from answer to answer: the moment, and the line between parts.
                answer.head = without(&answer.head, &["date:", "content-type: multipart"]);
                if answer.body.starts_with(b"--") {
                    answer.body.drain(..40);
                    let end = answer.body.len() - 40;
                    answer.body.truncate(end);
                }
                all.push((more, answer.status, answer.head, answer.body.len()));
            }
        }
        all
    };
    let (kept, looked_up) = (answers(""), answers(", revalidate = \"0s\""));
    for (kept, looked_up) in kept.iter().zip(&looked_up) {
        assert_eq!(kept, looked_up);
    }
}

fn without(head: &str, starts: &[&str]) -> String {
    let is_out = |line: &&str| starts.iter().any(|start| line.to_ascii_lowercase().starts_with(start));
    head.lines().filter(|line| !is_out(line)).collect::<Vec<_>>().join("\n")
}
