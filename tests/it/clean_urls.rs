//! Clean URLs: `/about` for `about.html`, and where the directory of that name stays.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::support::{Client, Launch, Response, Server, Site, is_root};

const HTML: &str = "text/html; charset=utf-8";

fn route(site: &Site, keys: &str) -> String {
    site.route().replace(" }", &format!(", clean_urls = true{keys} }}"))
}

fn start(site: &Site, keys: &str) -> Server {
    Server::with(site, "workers = 1", &route(site, keys))
}

fn ask(client: &mut Client, method: &str, target: &str, fields: &str) -> Response {
    client.send(format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
    if method == "HEAD" { client.response_to_head() } else { client.response() }
}

fn site() -> Site {
    let site = Site::sample();
    site.file("about.html", b"about");
    site.file("v1.2.html", b"v1.2");
    site.file("docs.html", b"docs page");
    site.file("plain", b"plain");
    site.file("plain.html", b"never");
    site.file("only/index.html", b"only");
    site.file("bad.html/x", b"a directory");
    site.file(".well-known.html", b"SECRET");
    site.file("twice.html.html", b"SECRET");
    site
}

/// Twice each: the first time the kernel may not know the name, and the pool must say the same.
#[test]
fn a_page_stands_for_its_name_without_the_ending() {
    let site = site();
    let server = start(&site, "");
    for (target, body) in [
        ("/about", "about"),
        ("/about?x=1", "about"),
        ("/about.html", "about"),
        ("/v1.2", "v1.2"),
        ("/docs", "docs page"),
        ("/docs.html", "docs page"),
        ("/docs/", "<p>docs</p>\n"),
        ("/docs/index", "<p>docs</p>\n"),
        ("/index", "<p>home</p>\n"),
        ("/plain", "plain"),
    ] {
        for time in ["first", "second"] {
            let answer = server.get(target);
            assert_eq!((answer.status, answer.text().as_str()), (200, body), "{target}, {time} time");
            let content_type = if body == "plain" { "application/octet-stream" } else { HTML };
            assert_eq!(answer.field("content-type"), Some(content_type), "{target}, {time} time");
        }
    }
    for (target, location) in [("/only", "/only/"), ("/only?a=b", "/only/?a=b")] {
        for time in ["first", "second"] {
            let answer = server.get(target);
            assert_eq!(
                (answer.status, answer.field("location")),
                (308, Some(location)),
                "{target}, {time} time"
            );
        }
    }
    // `bad` is no directory, and no redirect is for it.
    for target in
        ["/about/", "/about.html/", "/bad", "/none", "/twice.html", "/.well-known", "/about/x", "/about%2f"]
    {
        for time in ["first", "second"] {
            assert_eq!(server.get(target).status, 404, "{target}, {time} time");
        }
    }
    assert_eq!(server.get("/bad.html").status, 308);
    // Off: nothing of this.
    let server = Server::of(&site);
    assert_eq!((server.get("/about").status, server.get("/docs").status), (404, 308));
}

/// Below a prefix the root's own name is a directory's, whatever lies in it.
#[test]
fn the_name_of_a_route_is_no_page() {
    let site = Site::new();
    site.file(".html", b"SECRET");
    site.file("a.html", b"a");
    let server = Server::with(&site, "", &route(&site, "").replace("\"/\"", "\"/app/\""));
    assert_eq!((server.get("/app").status, server.get("/app").field("location")), (308, Some("/app/")));
    assert_eq!(server.get("/app/a").body, b"a");
    assert_eq!(server.get("/app/").status, 404);
}

/// The page is an answer like any other: its own sidecar, tag, ranges, rules for caches; and a fifo or a
/// closed file in its way is what it always is.
#[test]
fn the_page_is_a_file_like_any_other() {
    let site = site();
    site.file("about.html.gz", b"gzipped");
    mknodat(CWD, site.root().join("pipe"), FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    site.file("pipe.html", b"pipe page");
    for denied in
        [site.file("deny.html", b"SECRET"), site.file("shut", b"SECRET"), site.file("shut.html", b"")]
    {
        if !denied.ends_with("shut.html") {
            fs::set_permissions(denied, fs::Permissions::from_mode(0o0)).unwrap();
        }
    }
    let keys = ", cache_control = [{ glob = \"*.html\", value = \"no-cache\" }]";
    let launch = Launch::new(&site, "workers = 1", &route(&site, keys));
    let server = if is_root() { launch.unprivileged().start() } else { launch.start() };
    let mut client = server.client();
    let whole = ask(&mut client, "GET", "/about", "");
    assert_eq!(whole.field("cache-control"), Some("no-cache"));
    assert_eq!(whole.field("vary"), Some("Accept-Encoding"));
    let same = ask(&mut client, "GET", "/about.html", "");
    assert_eq!((whole.field("etag"), &whole.body), (same.field("etag"), &same.body));
    let head = ask(&mut client, "HEAD", "/about", "");
    assert_eq!((head.status, head.field("content-length")), (200, Some("5")));
    let tag = whole.field("etag").unwrap();
    assert_eq!(ask(&mut client, "GET", "/about", &format!("If-None-Match: {tag}\r\n")).status, 304);
    let part = ask(&mut client, "GET", "/about", "Range: bytes=1-2\r\n");
    assert_eq!((part.status, part.text().as_str()), (206, "bo"));
    let coded = ask(&mut client, "GET", "/about", "Accept-Encoding: gzip\r\n");
    assert_eq!((coded.field("content-encoding"), coded.field("content-type")), (Some("gzip"), Some(HTML)));
    assert_eq!(coded.text(), "gzipped");
    assert_eq!(ask(&mut client, "GET", "/pipe", "").text(), "pipe page");
    for target in ["/deny", "/shut"] {
        let answer = ask(&mut client, "GET", target, "");
        assert_eq!((answer.status, answer.text().contains("SECRET")), (403, false), "{target}");
    }
}

/// The page of a name comes before the page of an app, which comes before 404; a directory that redirects
/// is no miss.
#[test]
fn a_page_comes_before_that_of_an_app() {
    let site = site();
    let server = start(&site, ", spa = \"/index.html\"");
    let html = "Accept: text/html\r\n";
    for (target, body) in [("/about", "about"), ("/users", "<p>home</p>\n"), ("/about/", "<p>home</p>\n")] {
        for _ in 0..2 {
            assert_eq!(ask(&mut server.client(), "GET", target, html).text(), body, "{target}");
        }
    }
    assert_eq!(ask(&mut server.client(), "GET", "/only", html).status, 308);
    assert_eq!(server.get("/users").status, 404);
}

/// Names that the kernel does not know yet take the pool, each in one job, and it finds what the worker
/// finds later.
#[test]
fn cold_names_are_found_in_the_pool() {
    let site = Site::new();
    for number in 0..50 {
        site.file(format!("{number}.html"), b"page");
        site.file(format!("d{number}/index.html"), b"index");
        site.file(format!("both{number}/index.html"), b"index");
        site.file(format!("both{number}.html"), b"both");
    }
    let server = start(&site, "");
    let mut client = server.client();
    for number in 0..50 {
        for time in ["first", "second"] {
            assert_eq!(client.get(&format!("/{number}")).body, b"page", "{number}, {time} time");
            let answer = client.get(&format!("/d{number}"));
            let location = format!("/d{number}/");
            assert_eq!(
                (answer.status, answer.field("location")),
                (308, Some(location.as_str())),
                "{time} time"
            );
            assert_eq!(client.get(&format!("/both{number}")).body, b"both", "{number}, {time} time");
            assert_eq!(client.get(&format!("/none{number}")).status, 404, "{number}, {time} time");
        }
    }
}
