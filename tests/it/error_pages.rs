//! Pages for errors: what changes with them, what does not, and what happens where they cannot be had.

use std::fs::File;
use std::os::unix::fs::PermissionsExt as _;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::support::{Client, Launch, Response, Server, Site, assert_same, is_root, noise, run, until};
use crate::waits::evict;

const OF_404: &str = "<p>nothing here</p>\n";
const OF_4XX: &str = "<p>your fault</p>\n";
const PLAIN_404: &str = "404 Not Found\n";

/// With pages beneath the root, and in `errors/` beside it pages that name it.
pub fn pages() -> Site {
    let site = Site::sample();
    site.file("404.html", OF_404.as_bytes());
    site.file("e/4xx.html", OF_4XX.as_bytes());
    site.beside("errors/404.html", b"site 404\n");
    site.beside("errors/4xx.txt", b"site 4xx\n");
    site
}

fn of_route(site: &Site, keys: &str) -> String {
    format!("[[route]]\npath = \"/\"\n[route.static]\nroot = '{}'\n{keys}\n", site.root().display())
}

pub fn of_site(site: &Site, pages: &str) -> String {
    format!("[error_pages]\nroot = '{}'\npages = {pages}\n", site.directory().join("errors").display())
}

const BOTH: &str = "error_pages = { \"404\" = \"/404.html\", 4xx = \"/e/4xx.html\" }";

fn ask(client: &mut Client, method: &str, target: &str, fields: &str) -> Response {
    client.send(format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
    if method == "HEAD" { client.response_to_head() } else { client.response() }
}

/// Fields without what a page and the clock may change.
fn others(answer: &Response) -> Vec<(String, String)> {
    let may_differ = ["content-type", "content-length", "date"];
    let fields = answer.fields.iter().filter(|(name, _)| !may_differ.contains(&&*name.to_ascii_lowercase()));
    let mut fields: Vec<_> = fields.cloned().collect();
    fields.sort();
    fields
}

/// A missing page that is answered with 200 and HTML stays in search engines and caches; one whose page
/// replaces the whole answer loses Allow, Content-Range and the security fields of its route.
#[test]
fn only_body_and_type_are_the_page() {
    let site = pages();
    let headers = "headers = { X-A = \"b\", Cache-Control = \"max-age=99\", Vary = \"Origin\" }\n";
    let route = of_route(&site, BOTH).replace("[route.static]", &format!("{headers}[route.static]"));
    let (with, without) = (
        Server::with(&site, "workers = 1", &route),
        Server::with(&site, "workers = 1", &route.replace(BOTH, "")),
    );
    let (mut with, mut without) = (with.client(), without.client());
    let whole = "HTTP/1.1 404 Not Found\r\nDate: D\r\nContent-Type: text/html; charset=utf-8\r\n\
                 Vary: Origin\r\nX-A: b\r\nX-Content-Type-Options: nosniff\r\nContent-Length: 20\r\n\r\n";
    let answer = ask(&mut with, "GET", "/none", "");
    let date = answer.field("date").unwrap().to_owned();
    assert_eq!((answer.head.replace(&date, "D").as_str(), answer.text().as_str()), (whole, OF_404));
    for (method, target, fields, status, page) in [
        ("GET", "/none", "", 404, OF_404),
        ("GET", "/none", "Accept-Encoding: gzip, br\r\n", 404, OF_404),
        ("GET", "/.git/config", "", 404, OF_404),
        ("GET", "/a%2fb", "", 404, OF_404),
        ("GET", "/none/", "", 404, OF_404),
        ("POST", "/x.txt", "Content-Length: 0\r\n", 405, OF_4XX),
        ("DELETE", "/none", "", 405, OF_4XX),
        ("GET", "/x.txt", "Range: bytes=99-\r\n", 416, OF_4XX),
        ("GET", "/x.txt", "If-Match: \"other\"\r\n", 412, OF_4XX),
    ] {
        let answer = ask(&mut with, method, target, fields);
        let plain = ask(&mut without, method, target, fields);
        assert_eq!((answer.status, answer.text().as_str()), (status, page), "{method} {target}");
        assert_eq!(plain.status, status, "{method} {target}");
        assert_eq!(others(&answer), others(&plain), "{method} {target}");
        assert_eq!(answer.field("content-type"), Some("text/html; charset=utf-8"));
    }
    let answer = ask(&mut with, "GET", "/x.txt", "Range: bytes=99-\r\n");
    assert_eq!(
        (answer.field("content-range"), answer.field("accept-ranges")),
        (Some("bytes */17"), Some("bytes"))
    );
    assert_eq!(
        ask(&mut with, "POST", "/", "Content-Length: 0\r\n").field("allow"),
        Some("GET, HEAD, OPTIONS")
    );
    // What is no error has nothing to do with it.
    for (method, target, fields, status) in [
        ("GET", "/x.txt", "", 200),
        ("GET", "/docs", "", 308),
        ("GET", "/x.txt", "Range: bytes=0-0\r\n", 206),
        ("GET", "/x.txt", "If-None-Match: *\r\n", 304),
        ("OPTIONS", "/none", "", 204),
    ] {
        let answer = ask(&mut with, method, target, fields);
        let plain = ask(&mut without, method, target, fields);
        assert_eq!((answer.status, plain.status), (status, status), "{method} {target}");
        assert_eq!((others(&answer), answer.body), (others(&plain), plain.body), "{method} {target}");
    }
}

/// A page is no representation of what was asked for: had it a tag, the next look at the missing path would
/// be 304, and a Range would cut the page; had it the Cache-Control of its name, caches would keep the 404.
#[test]
fn a_page_has_no_validators_and_no_ranges() {
    let site = pages();
    let keys = format!("{BOTH}\ncache_control = [{{ glob = \"**\", value = \"max-age=99\" }}]");
    let server = Server::with(&site, "workers = 1", &of_route(&site, &keys));
    let mut client = server.client();
    let page = client.get("/404.html");
    assert_eq!((page.status, page.field("cache-control")), (200, Some("max-age=99")));
    let (tag, date) = (page.field("etag").unwrap(), page.field("last-modified").unwrap());
    for fields in [
        format!("If-None-Match: {tag}\r\n"),
        "If-None-Match: *\r\n".to_owned(),
        format!("If-Modified-Since: {date}\r\n"),
        "If-Match: \"other\"\r\n".to_owned(),
        "Range: bytes=0-3\r\n".to_owned(),
        "Range: bytes=9999-\r\n".to_owned(),
        format!("Range: bytes=0-3\r\nIf-Range: {tag}\r\n"),
    ] {
        let answer = ask(&mut client, "GET", "/none", &fields);
        assert_eq!((answer.status, answer.text().as_str()), (404, OF_404), "{fields}");
        for name in ["etag", "last-modified", "accept-ranges", "content-range", "cache-control"] {
            assert_eq!(answer.field(name), None, "{fields}{}", answer.head);
        }
    }
}

#[test]
fn head_has_the_fields_of_the_page_and_no_body() {
    let site = pages();
    site.file("e/4xx.html", &noise(4, 1 << 20));
    let server = Server::with(&site, "workers = 1", &of_route(&site, BOTH));
    let mut client = server.client();
    for (target, length) in [("/none", OF_404.len()), ("/x.txt", 1 << 20)] {
        let fields = "If-Match: \"other\"\r\n";
        let head = ask(&mut client, "HEAD", target, fields);
        let get = ask(&mut client, "GET", target, fields);
        assert_eq!((head.status, get.body.len()), (get.status, length));
        assert_eq!(
            (others(&head), head.field("content-length")),
            (others(&get), get.field("content-length"))
        );
        assert_eq!(head.field("content-type"), get.field("content-type"));
    }
    client.send("HEAD /none HTTP/1.1\r\nHost: a\r\n\r\nGET /y.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((client.response_to_head().status, client.response().text().as_str()), (404, "why\n"));
}

/// The site's pages are for what the server says itself. `respond` is the operator's own answer, and a
/// redirect is none of this; a message that was not understood gets no file at all.
#[test]
fn pages_of_the_site_are_for_errors_of_the_server_itself() {
    let site = pages();
    let routes = format!(
        "{}{}[[route]]\npath = \"/gone\"\nrespond = {{ status = 404, body = \"mine\\n\" }}\n\
         [[route]]\npath = \"/old\"\nredirect = {{ to = \"/new\" }}\n\
         [[route]]\npath = \"/api\"\nmethods = [\"PUT\"]\nrespond = {{}}\n",
        of_site(&site, "{ 4xx = \"/4xx.txt\", 404 = \"/404.html\" }"),
        site.route_at("/files/")
    );
    let server = Server::with(&site, "workers = 1", &routes);
    let mut client = server.client();
    for (method, target, status, body, allow) in [
        ("GET", "/none", 404, "site 404\n", None),
        ("GET", "/files/none", 404, "site 404\n", None),
        ("POST", "/files/x.txt", 405, "site 4xx\n", Some("GET, HEAD, OPTIONS")),
        ("GET", "/api", 405, "site 4xx\n", Some("PUT")),
        ("TRACE", "/files/x.txt", 405, "site 4xx\n", Some("GET, HEAD, OPTIONS")),
        ("GET", "/gone", 404, "mine\n", None),
        ("GET", "/old", 308, "308 Permanent Redirect\n", None),
        ("GET", "/files/x.txt", 200, "x marks the spot\n", None),
        ("BREW", "/none", 501, "501 Not Implemented\n", None),
        ("GET", "/%zz", 400, "400 Bad Request\n", None),
    ] {
        let answer = ask(&mut client, method, target, "");
        assert_eq!((answer.status, answer.text().as_str()), (status, body), "{method} {target}");
        assert_eq!(answer.field("allow"), allow, "{method} {target}");
    }
    let text = ask(&mut client, "TRACE", "/", "");
    assert_eq!(text.field("content-type"), Some("text/plain; charset=utf-8"));
    let heard = server.raw("GET / HTTP/1.1\r\n\r\n");
    assert!(heard.answers()[0].text().starts_with("400 Bad Request: "), "{:?}", heard.answers());
    // An access-log line has the error's status and the size of what was sent.
    let line = server.access.containing("\"/files/none\"");
    assert!(line.contains("\"http.response.status_code\":404"), "{line}");
    assert!(line.contains("\"http.response.body.size\":9"), "{line}");
}

#[test]
fn the_page_of_the_route_wins_and_the_exact_status_does() {
    let site = pages();
    let site_wide = of_site(&site, "{ 404 = \"/404.html\", 4xx = \"/4xx.txt\" }");
    for (own, of_404, of_405) in [
        (BOTH, OF_404, OF_4XX),
        ("error_pages = { 4xx = \"/e/4xx.html\" }", OF_4XX, OF_4XX),
        ("error_pages = { 404 = \"/404.html\" }", OF_404, "site 4xx\n"),
        ("error_pages = { 5xx = \"/404.html\" }", "site 404\n", "site 4xx\n"),
        ("", "site 404\n", "site 4xx\n"),
    ] {
        let server = Server::with(&site, "workers = 1", &format!("{site_wide}{}", of_route(&site, own)));
        let mut client = server.client();
        assert_eq!(ask(&mut client, "GET", "/none", "").text(), of_404, "{own}");
        assert_eq!(ask(&mut client, "POST", "/", "").text(), of_405, "{own}");
    }
}

/// An app's navigation is answered by its page and 200; what `spa` leaves alone is an error like any.
#[test]
fn the_page_of_an_app_comes_first() {
    let site = pages();
    let keys = format!("spa = \"/index.html\"\nspa_exclude = [\"/api/\"]\n{BOTH}");
    let server = Server::with(&site, "workers = 1", &of_route(&site, &keys));
    let mut client = server.client();
    let html = "Accept: text/html\r\n";
    for (target, fields, status, body) in [
        ("/users/7", html, 200, "<p>home</p>\n"),
        ("/api/users", html, 404, OF_404),
        ("/none.js", html, 404, OF_404),
        ("/users/7", "", 404, OF_404),
    ] {
        let answer = ask(&mut client, "GET", target, fields);
        assert_eq!((answer.status, answer.text().as_str()), (status, body), "{target} {fields}");
    }
}

/// Larger than what is read at once: streamed, with the next answer right behind it.
#[test]
fn pages_have_any_size() {
    let site = pages();
    let server = Server::with(&site, "workers = 1", &of_route(&site, BOTH));
    for size in [0, 1, 128 * 1024, 128 * 1024 + 1, 3 << 20] {
        let page = noise(size as u64, size);
        std::fs::rename(site.beside("next", &page), site.root().join("404.html")).unwrap();
        let mut client = server.client();
        client.send("GET /none HTTP/1.1\r\nHost: a\r\n\r\n".repeat(3));
        for _ in 0..3 {
            let answer = client.response();
            assert_eq!(answer.status, 404);
            assert_same(&answer.body, &page, "the page");
        }
        assert_eq!(client.get("/y.txt").text(), "why\n");
    }
}

/// Names that the kernel's cache does not know, and pages that are not in it: through the pool.
#[test]
fn cold_names_and_cold_pages_are_answered_alike() {
    let site = pages();
    let large = noise(5, 1 << 20);
    let small = File::open(site.root().join("404.html")).unwrap();
    let cold = File::open(site.file("e/4xx.html", &large)).unwrap();
    let server = Server::with(&site, "workers = 1", &of_route(&site, BOTH));
    let mut client = server.client();
    for number in 0..50 {
        evict(&small);
        evict(&cold);
        assert_eq!(client.get(&format!("/cold/{number}")).text(), OF_404);
        assert_same(&ask(&mut client, "POST", "/", "").body, &large, "a cold large page");
    }
}

/// Whatever is wrong with a page, the visitor is told what was wrong with the request: the error's own
/// status, in plain text. A second error in its place would hide the first, and its page the second.
#[test]
fn a_page_that_cannot_be_had_leaves_the_error_as_it_was() {
    let site = pages();
    let page = site.root().join("404.html");
    site.beside("secret.html", b"secret\n");
    let config = of_route(&site, BOTH);
    let launch = Launch::new(&site, "workers = 1", &config);
    let server = if is_root() { launch.unprivileged().start() } else { launch.start() };
    let mut client = server.client();
    let mut check = |what: &str, reason: &str| {
        for target in ["/none", "/none/x", "/404.html/"] {
            let answer = ask(&mut client, "GET", target, "");
            assert_eq!((answer.status, answer.text().as_str()), (404, PLAIN_404), "{what}: {target}");
            assert_eq!(answer.field("content-type"), Some("text/plain; charset=utf-8"), "{what}");
        }
        // A throttled line: the next one is due within a second.
        until(what, || {
            assert_eq!(server.get("/none").text(), PLAIN_404);
            let is_told = |line: &String| line.contains("error page not served") && line.contains(reason);
            server.errors.all().iter().any(is_told)
        });
    };
    std::fs::remove_file(&page).unwrap();
    check("it is gone", "not there");
    std::fs::create_dir(&page).unwrap();
    check("a directory", "no regular file");
    std::fs::remove_dir(&page).unwrap();
    site.link("404.html", "../secret.html");
    check("a link that leads outside", "not there");
    std::fs::remove_file(&page).unwrap();
    mknodat(CWD, &page, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    check("a fifo", "no regular file");
    std::fs::remove_file(&page).unwrap();
    site.file("404.html", OF_404.as_bytes());
    std::fs::set_permissions(&page, std::fs::Permissions::from_mode(0o0)).unwrap();
    check("unreadable", "may not be read");
    std::fs::set_permissions(&page, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(server.get("/none").text(), OF_404);
}

/// The pages of the site are a root like any other: a deployment that swaps it is followed.
#[test]
fn the_root_of_the_pages_is_followed() {
    let site = pages();
    let server = Server::with(&site, "workers = 1", &of_site(&site, "{ 404 = \"/404.html\" }"));
    assert_eq!(server.get("/").text(), "site 404\n");
    let (root, old) = (site.directory().join("errors"), site.directory().join("old"));
    site.beside("next/404.html", b"next\n");
    std::fs::rename(&root, &old).unwrap();
    std::fs::rename(site.directory().join("next"), &root).unwrap();
    std::fs::remove_dir_all(&old).unwrap();
    until("the page of the next release", || {
        let answer = server.get("/");
        assert_eq!(answer.status, 404);
        answer.text() == "next\n"
    });
}

#[test]
fn explain_says_what_an_error_would_show() {
    let site = pages();
    let config = format!("{}{}", of_site(&site, "{ 4xx = \"/4xx.txt\" }"), of_route(&site, BOTH));
    let config = site.config(&config).display().to_string();
    let told = run(&["explain", "--config", &config]).stdout;
    let root = site.directory().display().to_string();
    for (line, number) in [
        (format!("error_pages.root = \"{root}/errors\""), 2),
        ("error_pages.pages.4xx = \"/4xx.txt\"".to_owned(), 3),
        ("route.1.static.error_pages.404 = \"/404.html\"".to_owned(), 8),
        ("route.1.static.error_pages.4xx = \"/e/4xx.html\"".to_owned(), 8),
    ] {
        let found = told.lines().find(|found| found.starts_with(&line));
        assert!(found.is_some_and(|found| found.ends_with(&format!(":{number}"))), "{line}: {told}");
    }
    let told = run(&["explain", "--config", &config, "GET", "/none"]).stdout;
    let errors = format!(
        "errors    404 {root}/root/404.html, 4xx {root}/root/e/4xx.html, 4xx {root}/errors/4xx.txt\n"
    );
    assert!(told.contains(&errors), "{told}");
    assert!(told.contains("404 Not Found\n          Content-Type: text/html; charset=utf-8\n"), "{told}");
    assert!(told.contains("\n          Content-Length: 20\n"), "{told}");
}
