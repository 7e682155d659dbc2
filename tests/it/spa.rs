//! Single-page apps: which misses are answered with the page, and which stay misses.

use crate::support::{Client, Response, Server, Site, run};

const PAGE: &str = "<!doctype html><div id=app></div>\n";
const HTML: &str = "Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n";

fn app() -> (Site, Server) {
    let site = Site::new();
    site.file("index.html", PAGE.as_bytes());
    site.file("app.js", b"app()\n");
    site.file("docs/index.html", b"docs\n");
    std::fs::create_dir_all(site.root().join("empty")).unwrap();
    let server = Server::with(&site, "workers = 1", &route(&site));
    (site, server)
}

fn route(site: &Site) -> String {
    format!(
        "[[route]]\npath = \"/\"\nstatic = {{ root = '{}', spa = \"/index.html\", spa_exclude = [\"/api/\"] }}\n",
        site.root().display()
    )
}

fn ask(client: &mut Client, method: &str, target: &str, fields: &str) -> Response {
    client.send(format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
    if method == "HEAD" { client.response_to_head() } else { client.response() }
}

/// The page is chosen by these, beside what the coding is chosen by.
fn varies(answer: &Response) -> bool {
    answer.field("vary") == Some("Accept, Sec-Fetch-Mode, Accept-Encoding")
}

/// A visitor reloads `/users/7`, for which there is no file: without the fallback the app is 404. With a
/// fallback for everything a missing script is answered with HTML, which the browser then tries to
/// run, and a program that asks an API for what is not there gets 200.
#[test]
fn navigations_get_the_page_and_programs_the_truth() {
    let (_site, server) = app();
    let mut client = server.client();
    for target in ["/users/7", "/users/", "/users/7?tab=a.b", "/a.b/c", "/empty/", "/apix", "/docs/none"] {
        let answer = ask(&mut client, "GET", target, HTML);
        assert_eq!((answer.status, answer.text().as_str()), (200, PAGE), "{target}");
        assert_eq!(answer.field("content-type"), Some("text/html; charset=utf-8"), "{target}");
        assert!(varies(&answer), "{target}: {}", answer.head);
    }
    for (target, fields) in [
        ("/missing.js", HTML),
        ("/users/7.json", HTML),
        ("/api/users", HTML),
        ("/api", HTML),
        ("/.git/config", HTML),
        ("/a%2fb", HTML),
        ("/users/7", "Accept: */*\r\n"),
        ("/users/7", "Accept: application/json\r\n"),
        ("/users/7", "Accept: text/html;q=0\r\n"),
        ("/users/7", "Accept: text/html\r\nSec-Fetch-Mode: cors\r\n"),
        ("/users/7", ""),
    ] {
        let answer = ask(&mut client, "GET", target, fields);
        assert_eq!(answer.status, 404, "{target} {fields}");
        // Where a visitor gets the page, a cache must not give them what a program got.
        let expected = (target == "/users/7").then_some("Accept, Sec-Fetch-Mode");
        assert_eq!(answer.field("vary"), expected, "{target} {fields}");
    }
    assert_eq!(ask(&mut client, "GET", "/users/7", "Sec-Fetch-Mode: navigate\r\n").text(), PAGE);
}

/// What is there is never hidden by the page, and the page is an answer like any other: HEAD, 304,
/// other methods.
#[test]
fn the_page_is_a_file_like_any_other() {
    let (site, server) = app();
    let mut client = server.client();
    assert_eq!(ask(&mut client, "GET", "/app.js", HTML).text(), "app()\n");
    assert_eq!(ask(&mut client, "GET", "/docs/", HTML).text(), "docs\n");
    assert_eq!(ask(&mut client, "GET", "/docs", HTML).status, 308);
    let whole = ask(&mut client, "GET", "/users/7", HTML);
    let head = ask(&mut client, "HEAD", "/users/7", HTML);
    for name in ["content-length", "content-type", "etag", "vary", "last-modified"] {
        assert_eq!(head.field(name), whole.field(name), "{name}");
    }
    let tag = whole.field("etag").unwrap().to_owned();
    let answer = ask(&mut client, "GET", "/users/8", &format!("{HTML}If-None-Match: {tag}\r\n"));
    assert!(answer.status == 304 && varies(&answer), "{}", answer.head);
    assert_eq!(ask(&mut client, "POST", "/users/7", HTML).status, 405);
    // A new release shows at once.
    site.file("index.html", b"next\n");
    assert_eq!(ask(&mut client, "GET", "/users/7", HTML).text(), "next\n");
    std::fs::remove_file(site.root().join("index.html")).unwrap();
    assert_eq!(ask(&mut client, "GET", "/users/7", HTML).status, 404);
}

/// Names that the kernel's cache does not know go through the pool, and so does their fallback.
#[test]
fn cold_names_get_the_page_too() {
    let (_site, server) = app();
    let mut client = server.client();
    for number in 0..200 {
        let answer = ask(&mut client, "GET", &format!("/cold/{number}"), HTML);
        assert_eq!((answer.status, answer.text().as_str()), (200, PAGE));
        let answer = ask(&mut client, "GET", &format!("/cold/{number}.js"), HTML);
        assert_eq!(answer.status, 404);
    }
}

/// What `explain` asks for is no navigation: without a word about the page it would say 404 of an app that
/// works.
#[test]
fn explain_tells_of_the_page() {
    let site = Site::sample();
    let config = site.config(&route(&site));
    let config = config.to_str().unwrap();
    let check = |target: &str, expected: bool| {
        let told = run(&["explain", "--config", config, "GET", target]).stdout;
        let page = format!("; {}/index.html for a navigation that finds nothing\n", site.root().display());
        assert_eq!(told.contains(&page), expected, "{target}: {told}");
    };
    check("/users/7", true);
    check("/users/", true);
    check("/users/7.js", false);
    check("/api/users", false);
}
