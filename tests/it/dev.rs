//! Development mode: pages reload when a file changes, and without the flag nothing of it is there.

use std::fs;
use std::os::unix::fs::symlink;

use rustix::process::Signal;

use crate::support::{Client, Launch, Response, Server, Site, assert_same, noise, until};

const THREAD: &str = "dev-watch";

fn start(site: &Site, server: &str, tables: &str) -> Server {
    let mut launch = Launch::new(site, server, tables);
    launch.command.arg("--dev");
    launch.start()
}

fn dev(site: &Site) -> Server {
    start(site, "workers = 3\n", &site.route())
}

/// The id in a page's script.
#[track_caller]
fn since(page: &Response) -> String {
    let text = page.text();
    let (_, rest) = text.split_once("data-since=\"").unwrap_or_else(|| panic!("no script in {text}"));
    rest.split_once('"').unwrap().0.to_owned()
}

fn script(since: &str) -> String {
    format!("\n<script async src=\"/.scalws/reload.js\" data-since=\"{since}\"></script>\n")
}

/// Puts a file or a directory in its place in one step, so that it is one change on a busy machine too.
fn put(site: &Site, name: &str, content: &[u8]) {
    let (first, rest) = name.split_once('/').map_or((name, None), |(first, rest)| (first, Some(rest)));
    let (next, place) = (site.directory().join("next"), site.root().join(first));
    match rest {
        // Into a directory that is there.
        Some(rest) if place.exists() => {
            fs::rename(site.beside("next", content), place.join(rest)).unwrap();
        }
        Some(rest) => {
            site.beside(format!("next/{rest}"), content);
            fs::rename(next, place).unwrap();
        }
        None => fs::rename(site.beside("next", content), place).unwrap(),
    }
}

fn ask(client: &mut Client, fields: &str, target: &str) {
    client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
}

/// The name and the id of an event; the name is empty where there was none.
#[track_caller]
fn event(answer: &Response) -> (String, String) {
    assert_eq!((answer.status, answer.field("content-type")), (200, Some("text/event-stream")));
    assert_eq!(answer.field("cache-control"), Some("no-store"));
    let text = answer.text();
    assert!(text.starts_with("retry: 500\n") && text.ends_with("\n\n"), "{text:?}");
    let line = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
    let (name, id) = (line("event: "), line("id: ").unwrap());
    // Without data a browser delivers nothing.
    assert_eq!(line("data: "), name.as_ref().map(|_| id.clone()), "{text:?}");
    (name.unwrap_or_default(), id)
}

/// Asks for what came after an id, which has come or will come.
#[track_caller]
fn news(server: &Server, since: &str) -> (String, String) {
    event(&server.get(&format!("/.scalws/events?since={since}")))
}

/// Each step is told to a request that waits for it, with an id of its own.
#[test]
fn every_kind_of_change_is_told() {
    let site = Site::sample();
    site.file("site.css", b"p {}");
    let server = dev(&site);
    let mut id = since(&server.get("/"));
    let mut check = |what: &str, expected: &str, step: &dyn Fn()| {
        let mut waiting = server.client();
        ask(&mut waiting, "", &format!("/.scalws/events?since={id}"));
        step();
        let mut told = event(&waiting.response());
        // Where the step took longer than the wait.
        while told.0.is_empty() {
            told = news(&server, &id);
        }
        assert_eq!(told.0, expected, "{what}");
        assert_ne!(told.1, id, "{what}");
        id = told.1;
    };
    let root = site.root();
    check("a new page", "page", &|| put(&site, "index.html", b"<p>new home</p>\n"));
    check("further down", "page", &|| put(&site, "docs/index.html", b"<p>new docs</p>\n"));
    check("a style sheet", "styles", &|| put(&site, "site.css", b"p { color: red }"));
    check("a new file", "page", &|| put(&site, "new/a/b.js", b"1"));
    check("a renamed file", "page", &|| fs::rename(root.join("x.txt"), root.join("y.txt")).unwrap());
    check("a removed file", "page", &|| fs::remove_file(root.join("y.txt")).unwrap());
    let away = site.directory().join("away");
    check("a removed directory", "page", &|| fs::rename(root.join("new"), &away).unwrap());
    check("an edit in place", "page", &|| drop(site.file("index.html", b"<p>old home</p>\n")));
    // Told in the log as well.
    server.errors.containing("\"style sheets\"");
}

/// A page that reloads at once must not find the root of a second ago, on no worker: it would not be
/// told again.
#[test]
fn a_swapped_root_is_served_before_it_is_told() {
    let site = Site::new();
    for release in ["1", "2", "3", "4"] {
        site.beside(format!("releases/{release}/index.html"), release.as_bytes());
    }
    let current = site.directory().join("current");
    symlink("releases/1", &current).unwrap();
    let route = format!("[[route]]\npath = \"/\"\nstatic = {{ root = '{}' }}\n", current.display());
    let server = start(&site, "workers = 3\n", &route);
    let mut id = since(&server.get("/"));
    for release in ["2", "3", "4"] {
        let next = site.directory().join("next");
        symlink(format!("releases/{release}"), &next).unwrap();
        fs::rename(&next, &current).unwrap();
        let mut told = news(&server, &id);
        while told.0.is_empty() {
            told = news(&server, &id);
        }
        assert_eq!(told.0, "page");
        id = told.1;
        for _ in 0..20 {
            let page = server.get("/");
            assert_eq!(page.text(), format!("{release}{}", script(&id)));
        }
    }
}

/// Between two requests of a page nobody waits: the id tells what was missed, once.
#[test]
fn what_changes_between_two_requests_is_not_lost() {
    let site = Site::sample();
    let limits = "[limits]\nwait_timeout = \"1s\"\n";
    let server = start(&site, "workers = 2\n", &format!("{limits}{}", site.route()));
    let page = since(&server.get("/"));
    assert_eq!(news(&server, &page), (String::new(), page.clone()), "nothing has changed");
    // Nor for a client that knows nothing yet.
    assert_eq!(event(&server.get("/.scalws/events")), (String::new(), page.clone()));

    put(&site, "x.txt", b"new");
    server.errors.containing("files changed");
    let (name, first) = news(&server, &page);
    assert_eq!(name, "page");
    assert_eq!(news(&server, &first), (String::new(), first.clone()), "told once");
    // A browser that connects again: the address is the page's, the field is newer.
    let mut client = server.client();
    for (known, expected) in [(&first, ""), (&page, "page")] {
        ask(&mut client, &format!("Last-Event-ID: {known}\r\n"), &format!("/.scalws/events?since={page}"));
        assert_eq!(event(&client.response()), (expected.to_owned(), first.clone()));
    }
    // HEAD waits for nothing.
    client.send("HEAD /.scalws/events HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response_to_head().field("content-type"), Some("text/event-stream"));
    // After a restart no page is up to date.
    let restarted = dev(&site);
    assert_eq!(news(&restarted, &first).0, "page");
}

/// The script is behind every page, whatever its size, and the length of HEAD is that of GET.
#[test]
fn pages_carry_the_script() {
    let site = Site::sample();
    let big = noise(1, 3 << 20);
    site.file("big.html", &big);
    site.file("middle.html", &big[..200_000]);
    site.file("empty.html", b"");
    let spa = format!("spa = \"/index.html\", root = '{}'", site.root().display());
    let routes = format!(
        "[[route]]\npath = \"/\"\nstatic = {{ {spa} }}\n[[route]]\nexact = \"/r\"\n\
         respond = {{ status = 418, body = \"<p>r\", content_type = \"text/html\" }}\n"
    );
    let server = start(&site, "workers = 1\n", &routes);
    let id = since(&server.get("/"));
    let mut client = server.client();
    let mut check = |target: &str, status: u16, file: &[u8]| {
        // What a browser would ask a page that it has, all of it to no effect.
        let fields = "Accept: text/html\r\nAccept-Encoding: gzip, br\r\nRange: bytes=0-1\r\n\
            If-None-Match: *\r\nIf-Modified-Since: Fri, 31 Dec 9999 23:59:59 GMT\r\n";
        ask(&mut client, fields, target);
        let page = client.response();
        assert_eq!(page.status, status, "{target}");
        assert_same(&page.body, &[file, script(&id).as_bytes()].concat(), target);
        for name in ["etag", "last-modified", "accept-ranges", "content-encoding"] {
            assert_eq!(page.field(name), None, "{target}");
        }
        assert_eq!(page.field("cache-control"), Some("no-store"), "{target}");
        client.send(format!("HEAD {target} HTTP/1.1\r\nHost: a\r\nAccept: text/html\r\n\r\n"));
        let head = client.response_to_head();
        assert_eq!(head.field("content-length"), page.field("content-length"), "{target}");
    };
    // A sidecar has no script: it is left aside for pages.
    site.file("index.html.gz", b"\x1f\x8b");
    check("/", 200, b"<p>home</p>\n");
    check("/docs/index.html", 200, b"<p>docs</p>\n");
    check("/empty.html", 200, b"");
    check("/middle.html", 200, &big[..200_000]);
    check("/big.html", 200, &big);
    check("/users/7", 200, b"<p>home</p>\n");
    check("/r", 418, b"<p>r");
    // What a person sees instead of a page that is being built reloads as well.
    let missing =
        b"<!doctype html>\n<meta name=\"color-scheme\" content=\"light dark\">\n<pre>404 Not Found\n</pre>\n";
    check("/missing.html", 404, missing);

    let script = server.get("/.scalws/reload.js");
    assert_eq!(script.field("content-type"), Some("text/javascript; charset=utf-8"));
    assert!(script.text().contains("new EventSource(\"/.scalws/events"), "{}", script.text());
}

/// Everything else is sent as it is, with its conditions, ranges and codings, and asked for anew.
#[test]
fn what_is_no_page_is_left_alone() {
    let site = Site::sample();
    site.file("app.js", b"let a = 1;\n");
    site.file("app.js.gz", b"\x1f\x8bnot really");
    let rules = "cache_control = [{ glob = \"**\", value = \"max-age=31536000, immutable\" }]";
    let root = site.root();
    let route = format!("[[route]]\npath = \"/\"\nstatic = {{ root = '{}', {rules} }}\n", root.display());
    let server = start(&site, "workers = 1\n", &route);
    let mut client = server.client();
    let mut get = |target: &str, fields: &str| {
        ask(&mut client, fields, target);
        let answer = client.response();
        assert_eq!(answer.field("cache-control"), Some("no-cache"), "{target}");
        answer
    };
    let script = get("/app.js", "");
    assert_eq!(script.body, b"let a = 1;\n");
    let tag = script.field("etag").expect("a tag").to_owned();
    assert_eq!(get("/app.js", &format!("If-None-Match: {tag}\r\n")).status, 304);
    assert_eq!(get("/app.js", "Range: bytes=4-4\r\n").body, b"a");
    assert_eq!(get("/app.js", "Accept-Encoding: gzip\r\n").field("content-encoding"), Some("gzip"));
    // Kept for ever by a browser, a redirect outlives the directory.
    assert_eq!(get("/docs", "").status, 308);
    assert_eq!(get("/missing.js", "").text(), "404 Not Found\n");
    // HTML that a script fetches is data.
    assert_eq!(get("/index.html", "Sec-Fetch-Dest: empty\r\n").body, b"<p>home</p>\n");
    client.send("POST /.scalws/events HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    let refused = client.response();
    assert_eq!((refused.status, refused.field("allow")), (405, Some("GET, HEAD")));
}

/// A page that waits for a change would hold the end of the process for as long as it waits. The
/// drain's deadline is shorter than that here, so it would be cut instead of answered.
#[test]
fn a_waiting_page_does_not_hold_a_drain() {
    let site = Site::sample();
    let mut server =
        start(&site, "workers = 2\ndrain = { delay = \"0s\", timeout = \"10s\" }\n", &site.route());
    let id = since(&server.get("/"));
    let mut waiting: Vec<Client> = (0..8).map(|_| server.client()).collect();
    for client in &mut waiting {
        // The answer to the first says that the second was read.
        assert_eq!(client.get("/x.txt").status, 200);
        ask(client, "", &format!("/.scalws/events?since={id}"));
    }
    server.signal(Signal::INT);
    assert_eq!(server.wait_exit().code(), Some(0));
    for client in &mut waiting {
        assert_eq!(event(&client.response()), (String::new(), id.clone()));
        client.assert_closed();
    }
    let stopped = server.errors.to_end().pop().unwrap();
    let stopped: serde_json::Value = serde_json::from_str(&stopped).unwrap();
    assert_eq!(stopped["connections_cut"], 0, "{stopped}");
}

/// A page waits, and its tab is closed. Then the drain answers it, and the client's kernel answers with a
/// reset. What was not acknowledged stays counted for ever after that, so the connection was waited for
/// until `write_timeout`: every Ctrl-C took the whole 8 s of the drain.
#[test]
fn a_page_that_has_left_does_not_hold_a_drain() {
    let site = Site::sample();
    let keys = "workers = 1\ndrain = { delay = \"0s\", timeout = \"10s\" }\n";
    let mut server = start(&site, keys, &site.route());
    let id = since(&server.get("/"));
    let mut leaving = server.client();
    assert_eq!(leaving.get("/x.txt").status, 200);
    ask(&mut leaving, "", &format!("/.scalws/events?since={id}"));
    let address = leaving.stream.local_addr().unwrap();
    until("the question to be read", || Server::received(address) == 0);
    drop(leaving);
    // Answered after it by the only worker.
    assert_eq!(server.get("/x.txt").status, 200);
    server.signal(Signal::INT);
    assert_eq!(server.wait_exit().code(), Some(0));
    let stopped = server.errors.to_end().pop().unwrap();
    let stopped: serde_json::Value = serde_json::from_str(&stopped).unwrap();
    assert_eq!(stopped["connections_cut"], 0, "{stopped}");
}

/// A page is asked for again the moment that it was changed: what was believed a moment before is not what it
/// may show.
#[test]
fn what_changed_shows_at_once() {
    let site = Site::sample();
    site.file("one", b"one");
    site.file("two", b"two");
    symlink("one", site.root().join("link")).unwrap();
    let server = dev(&site);
    let mut client = server.client();
    for _ in 0..3 {
        assert_eq!((client.get("/new.css").status, client.get("/link").body), (404, b"one".to_vec()));
    }
    site.file("new.css", b"p {}");
    symlink("two", site.root().join("next-link")).unwrap();
    fs::rename(site.root().join("next-link"), site.root().join("link")).unwrap();
    assert_eq!((client.get("/new.css").status, client.get("/link").body), (200, b"two".to_vec()));
}

/// Off means absent: no address, no thread, no byte.
#[test]
fn without_the_flag_nothing_is_there() {
    let site = Site::sample();
    let has_thread = |server: &Server| server.threads().iter().any(|(_, name)| name == THREAD);
    let is_said = |server: &Server| server.errors.all().iter().any(|line| line.contains("development"));
    let off = Server::of(&site);
    off.workers();
    assert_eq!(off.get("/.scalws/events").status, 404);
    assert_eq!(off.get("/.scalws/reload.js").status, 404);
    let page = off.get("/");
    assert_eq!(page.body, b"<p>home</p>\n");
    assert!(page.field("etag").is_some() && page.field("cache-control").is_none(), "{}", page.head);
    assert!(!has_thread(&off) && !is_said(&off));

    let on = dev(&site);
    on.workers();
    assert_ne!(on.get("/").body, b"<p>home</p>\n");
    assert!(has_thread(&on) && is_said(&on));
}
