//! Fields of a route on all of its answers, and Cache-Control and further fields of files by glob (B01).

use crate::support::{Client, Response, Server, Site};

fn ask(client: &mut Client, request: &str, fields: &str) -> Response {
    client.send(format!("{request} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
    if request.starts_with("HEAD") { client.response_to_head() } else { client.response() }
}

/// How often a field is there.
fn count(answer: &Response, name: &str) -> usize {
    answer.fields.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name)).count()
}

/// A route at `/` that serves the root with further keys of `static`, after further keys of its own.
fn route(site: &Site, keys: &str, of_static: &str) -> String {
    format!("[[route]]\npath = \"/\"\n{keys}\nstatic = {{ root = '{}'{of_static} }}\n", site.root().display())
}

/// A field that guards a site guards it on its errors too, or a page of another origin frames those.
#[test]
fn a_route_has_its_headers_on_every_answer() {
    let site = Site::sample();
    let server = Server::with(&site, "", &route(&site, "headers = { X-A = \"b\", Vary = \"Origin\" }", ""));
    let mut client = server.client();
    let tag = client.get("/x.txt").field("etag").unwrap().to_owned();
    for (request, fields, status) in [
        ("GET /x.txt", "", 200),
        ("GET /x.txt", "Range: bytes=0-1\r\n", 206),
        ("GET /x.txt", "Range: bytes=0-0,2-3\r\n", 206),
        ("GET /x.txt", &*format!("If-None-Match: {tag}\r\n"), 304),
        ("GET /x.txt", "If-Match: \"other\"\r\n", 412),
        ("GET /x.txt", "Range: bytes=99-\r\n", 416),
        ("GET /", "", 200),
        ("GET /empty", "", 200),
        ("GET /docs?q", "", 308),
        ("GET /none", "", 404),
        ("GET /.hidden", "", 404),
        ("DELETE /x.txt", "", 405),
        ("OPTIONS /x.txt", "", 204),
    ] {
        let answer = ask(&mut client, request, fields);
        assert_eq!(answer.status, status, "{request} {fields}");
        assert_eq!((count(&answer, "x-a"), answer.field("x-a")), (1, Some("b")), "{request} {fields}");
        // Beside the server's own, where a coding was negotiated: two lines are one list (RFC 9110 §5.3).
        assert!(answer.head.contains("\r\nVary: Origin\r\n") && count(&answer, "vary") <= 2, "{request}");
        assert_eq!(answer.field("x-content-type-options"), Some("nosniff"), "{request} {fields}");
        if let Some(target) = request.strip_prefix("GET ") {
            // HEAD has no ranges, so that it is not compared where one was asked for.
            let head = ask(&mut client, &format!("HEAD {target}"), fields);
            let fields_of = |answer: &Response| {
                answer.fields.iter().filter(|(name, _)| name != "Date").cloned().collect::<Vec<_>>()
            };
            if !fields.starts_with("Range") {
                assert_eq!((head.status, fields_of(&head)), (status, fields_of(&answer)), "{request}");
            }
        }
    }
}

/// What no route was found for has no route's fields, and one route has none of another's.
#[test]
fn each_kind_of_route_has_its_own() {
    let site = Site::new();
    let routes = "[[route]]\nexact = \"/r\"\nheaders = { X-A = \"1\", Cache-Control = \"max-age=5\" }\n\
        respond = { status = 503, body = \"x\", headers = { X-B = \"2\" } }\n\
        [[route]]\npath = \"/go/\"\nheaders = { X-A = \"3\" }\nsecurity_headers = true\n\
        redirect = { to = \"/r\" }\n\
        [[route]]\nexact = \"/plain\"\nmethods = [\"GET\"]\nheaders = { X-A = \"4\" }\nrespond = {}\n";
    let server = Server::with(&site, "", routes);
    let mut client = server.client();
    let answer = client.get("/r");
    assert_eq!((answer.status, answer.field("x-a"), answer.field("x-b")), (503, Some("1"), Some("2")));
    // The status was the operator's own choice, and so is what caches do with it.
    assert_eq!(answer.field("cache-control"), Some("max-age=5"));
    let answer = client.get("/go/x");
    assert_eq!((answer.status, answer.field("x-a"), answer.field("location")), (308, Some("3"), Some("/r")));
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "strict-origin-when-cross-origin"),
        ("x-frame-options", "DENY"),
        ("cross-origin-opener-policy", "same-origin"),
    ] {
        assert_eq!((count(&answer, name), answer.field(name)), (1, Some(value)));
    }
    assert_eq!(answer.field("content-security-policy"), None);
    assert_eq!(ask(&mut client, "GET /plain", "").field("x-a"), Some("4"));
    for request in ["GET /none", "PUT /plain", "TRACE /r", "OPTIONS *"] {
        let answer = ask(&mut client, request, "");
        assert_eq!(answer.field("x-a"), None, "{request}");
    }
}

/// Case B01. A 304 without Cache-Control leaves the old lifetime in the cache: the file is asked for
/// again with every page, or kept for as long as somebody said years ago.
#[test]
fn files_and_their_304_have_cache_control_by_glob() {
    let site = Site::sample();
    site.file("assets/app.1a2b.js", b"1");
    site.file("assets/page.html", b"2");
    site.file("assets/sub/deep.css", b"3");
    site.file(b"assets/\xff name", b"4");
    let rules = ", cache_control = [\
        { glob = \"assets/**\", value = \"public, max-age=31536000, immutable\" }, \
        { glob = \"*.html\", value = \"no-cache\" }, \
        { glob = \"docs/*\", value = \"never reached\" }]";
    let server = Server::with(&site, "", &route(&site, "", rules));
    let mut client = server.client();
    let kept = Some("public, max-age=31536000, immutable");
    for (target, expected) in [
        ("/assets/app.1a2b.js", kept),
        ("/assets/page.html", kept),
        ("/assets/sub/deep.css", kept),
        ("/assets/%ff%20name", kept),
        ("/a/../assets/app.1a2b.js", kept),
        ("/", Some("no-cache")),
        ("/index.html", Some("no-cache")),
        ("/docs/", Some("no-cache")),
        ("/x.txt", None),
    ] {
        let whole = client.get(target);
        assert_eq!((whole.status, whole.field("cache-control")), (200, expected), "{target}");
        let tag = whole.field("etag").unwrap();
        let not_modified = ask(&mut client, &format!("GET {target}"), &format!("If-None-Match: {tag}\r\n"));
        assert_eq!((not_modified.status, not_modified.field("cache-control")), (304, expected), "{target}");
        let part = ask(&mut client, &format!("GET {target}"), "Range: bytes=0-0\r\n");
        assert_eq!((part.status, part.field("cache-control")), (206, expected), "{target}");
        let head = ask(&mut client, &format!("HEAD {target}"), "");
        assert_eq!((head.status, head.field("cache-control")), (200, expected), "{target}");
    }
    for (request, fields, status) in [
        ("GET /assets/none.js", "", 404),
        ("GET /assets/sub", "", 308),
        ("GET /assets/", "", 404),
        ("POST /assets/app.1a2b.js", "Content-Length: 0\r\n", 405),
        ("OPTIONS /assets/app.1a2b.js", "", 204),
        ("GET /assets/app.1a2b.js", "If-Match: \"x\"\r\n", 412),
        ("GET /assets/app.1a2b.js", "Range: bytes=9-\r\n", 416),
    ] {
        let answer = ask(&mut client, request, fields);
        assert_eq!((answer.status, answer.field("cache-control")), (status, None), "{request} {fields}");
    }
}

/// The page of an app answers paths that have no file: what counts is the name of the page.
#[test]
fn the_page_of_an_app_has_its_own_cache_control() {
    let site = Site::sample();
    let rules = ", spa = \"/index.html\", cache_control = [\
        { glob = \"index.html\", value = \"no-cache\" }, { glob = \"**\", value = \"max-age=60\" }]";
    let server = Server::with(&site, "", &route(&site, "headers = { X-A = \"b\" }", rules));
    let mut client = server.client();
    for _ in 0..2 {
        let page = ask(&mut client, "GET /deep/link", "Accept: text/html\r\n");
        assert_eq!((page.status, page.field("cache-control")), (200, Some("no-cache")));
        assert_eq!((page.field("x-a"), count(&page, "cache-control")), (Some("b"), 1));
        let miss = ask(&mut client, "GET /deep/link.js", "Accept: text/html\r\n");
        assert_eq!((miss.status, miss.field("cache-control"), miss.field("x-a")), (404, None, Some("b")));
        assert_eq!(client.get("/x.txt").field("cache-control"), Some("max-age=60"));
    }
}

/// A new page names an asset whose file comes a second later. Its 404 was sent with the lifetime of the
/// asset, a shared cache kept it, and the page stayed broken until somebody emptied that cache.
#[test]
fn an_error_of_files_is_not_kept_for_the_time_of_a_file() {
    let site = Site::sample();
    let long = route(&site, "headers = { Cache-Control = \"max-age=31536000\", X-A = \"b\" }", "");
    let server = Server::with(&site, "", &long);
    let found = server.get("/x.txt");
    assert_eq!((found.status, found.field("cache-control")), (200, Some("max-age=31536000")));
    let missing = server.get("/none");
    assert_eq!((missing.status, missing.field("cache-control")), (404, None));
    assert_eq!(missing.field("x-a"), Some("b"));
    let server = Server::with(&site, "", &route(&site, "headers = { Cache-Control = \"no-store\" }", ""));
    for target in ["/x.txt", "/none"] {
        assert_eq!(server.get(target).field("cache-control"), Some("no-store"), "{target}");
    }
}

/// Browsers believe the type of a file unless they are let guess; what is said of it can be changed.
#[test]
fn files_are_not_sniffed_unless_somebody_says_so() {
    let site = Site::sample();
    for (keys, expected) in [
        ("", Some("nosniff")),
        ("security_headers = true", Some("nosniff")),
        ("security_headers = false", None),
        ("headers = { X-Content-Type-Options = \"other\" }", Some("other")),
    ] {
        let server = Server::with(&site, "", &route(&site, keys, ""));
        for target in ["/x.txt", "/none", "/docs"] {
            let answer = server.get(target);
            assert_eq!(answer.field("x-content-type-options"), expected, "{keys} {target}");
            assert!(count(&answer, "x-content-type-options") <= 1);
        }
        let frames = server.get("/").field("x-frame-options").map(str::to_owned);
        assert_eq!(frames.as_deref(), (keys == "security_headers = true").then_some("DENY"));
    }
}

/// A field that one kind of file needs stood on no file or on all of them: a page that may be framed made
/// every page frameable. What is said of a file wins over what is said of the route.
#[test]
fn files_have_further_fields_by_glob() {
    let site = Site::sample();
    site.file("app.wasm", b"1234");
    site.file("embed/page.html", b"<p>embed</p>\n");
    let rules = ", spa = \"/embed/page.html\", cache_control = [{ glob = \"*.wasm\", value = \"no-cache\" }], headers = [\
        { glob = \"*.html\", headers = { X-A = \"page\", X-B = \"page\" } }, \
        { glob = \"*.wasm\", headers = { Cross-Origin-Resource-Policy = \"cross-origin\" } }, \
        { glob = \"embed/**\", headers = { x-frame-options = \"SAMEORIGIN\", x-a = \"embed\" } }]";
    let keys = "security_headers = true\nheaders = { X-A = \"route\", X-C = \"route\" }";
    let server = Server::with(&site, "", &route(&site, keys, rules));
    let mut client = server.client();
    let names = ["x-a", "x-b", "x-c", "x-frame-options", "cross-origin-resource-policy", "cache-control"];
    let mut check = |request: &str, fields: &str, status: u16, expected: [Option<&str>; 6]| {
        let answer = ask(&mut client, request, fields);
        // `field` also sees to it that each is there once.
        let found = names.map(|name| answer.field(name));
        assert_eq!((answer.status, found), (status, expected), "{request} {fields}");
        assert_eq!(answer.field("x-content-type-options"), Some("nosniff"), "{request}");
        answer.field("etag").map(str::to_owned)
    };
    let (route, deny) = (Some("route"), Some("DENY"));
    let wasm = [route, None, route, deny, Some("cross-origin"), Some("no-cache")];
    let page = [Some("page"), Some("page"), route, deny, None, None];
    let embed = [Some("embed"), Some("page"), route, Some("SAMEORIGIN"), None, None];
    for (target, expected) in [
        ("/app.wasm", wasm),
        ("/index.html", page),
        ("/", page),
        ("/docs/", page),
        ("/embed/page.html", embed),
        ("/x.txt", [route, None, route, deny, None, None]),
    ] {
        let tag = check(&format!("GET {target}"), "", 200, expected).unwrap();
        check(&format!("HEAD {target}"), "", 200, expected);
        check(&format!("GET {target}"), "Range: bytes=0-1\r\n", 206, expected);
        check(&format!("GET {target}"), "Range: bytes=0-0,2-3\r\n", 206, expected);
        check(&format!("GET {target}"), &format!("If-None-Match: {tag}\r\n"), 304, expected);
    }
    // The page of an app has the fields of its own name, wherever it stands; cold names too.
    for number in 0..100 {
        check(&format!("GET /deep/{number}"), "Accept: text/html\r\n", 200, embed);
    }
    // What is no file has the route's.
    let none = [route, None, route, deny, None, None];
    for (request, fields, status) in [
        ("GET /none.wasm", "", 404),
        ("GET /embed", "", 308),
        ("GET /embed/none.html", "", 404),
        ("OPTIONS /app.wasm", "", 204),
        ("DELETE /app.wasm", "", 405),
        ("GET /app.wasm", "If-Match: \"x\"\r\n", 412),
        ("GET /app.wasm", "Range: bytes=9-\r\n", 416),
    ] {
        check(request, fields, status, none);
    }
}
