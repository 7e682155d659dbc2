//! CORS: what pages of other origins may read, and what a preflight is answered (the HTTP-CORS protocol
//! of the Fetch standard).

use crate::support::{Client, Response, Server, Site};

const APP: &str = "https://app.example";
const ALLOW_ORIGIN: &str = "access-control-allow-origin";

fn ask(client: &mut Client, request: &str, fields: &str) -> Response {
    client.send(format!("{request} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
    if request.starts_with("HEAD") { client.response_to_head() } else { client.response() }
}

/// A preflight for `target`.
fn preflight(client: &mut Client, target: &str, origin: &str, method: &str, names: &str) -> Response {
    let names = match names {
        "" => String::new(),
        names => format!("Access-Control-Request-Headers: {names}\r\n"),
    };
    let fields = format!("Origin: {origin}\r\nAccess-Control-Request-Method: {method}\r\n{names}");
    ask(client, &format!("OPTIONS {target}"), &fields)
}

/// The fields of the protocol, in their order.
fn leave(answer: &Response) -> Vec<(String, String)> {
    let fields = answer.fields.iter().map(|(name, value)| (name.to_lowercase(), value.clone()));
    fields.filter(|(name, _)| name.starts_with("access-control-")).collect()
}

/// Whether `name` is among what the answer says it varies by.
fn varies_by(answer: &Response, name: &str) -> bool {
    let lines = answer.fields.iter().filter(|(known, _)| known.eq_ignore_ascii_case("vary"));
    lines.flat_map(|(_, value)| value.split(", ")).any(|known| known == name)
}

#[track_caller]
fn assert_leave(answer: &Response, expected: &[(&str, &str)]) {
    let expected: Vec<_> = expected.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    assert_eq!(leave(answer), expected, "{}", answer.head);
}

/// An answer to a preflight that a browser refuses: nothing of it looks like leave.
#[track_caller]
fn assert_refused(answer: &Response) {
    assert_leave(answer, &[]);
    assert_eq!((answer.status, answer.body.len()), (204, 0), "{}", answer.head);
    for name in ["Origin", "Access-Control-Request-Method", "Access-Control-Request-Headers"] {
        assert!(varies_by(answer, name), "{}", answer.head);
    }
}

fn files(site: &Site, keys: &str, of_static: &str) -> String {
    format!("[[route]]\npath = \"/\"\n{keys}\nstatic = {{ root = '{}'{of_static} }}\n", site.root().display())
}

/// Requests for files with the status of each answer.
fn requests(tag: &str) -> Vec<(&'static str, String, u16)> {
    vec![
        ("GET /x.txt", String::new(), 200),
        ("HEAD /x.txt", String::new(), 200),
        ("GET /x.txt", "Range: bytes=0-1\r\n".into(), 206),
        ("GET /x.txt", "Range: bytes=0-0,2-3\r\n".into(), 206),
        ("GET /x.txt", format!("If-None-Match: {tag}\r\n"), 304),
        ("GET /x.txt", "If-Match: \"other\"\r\n".into(), 412),
        ("GET /x.txt", "Range: bytes=99-\r\n".into(), 416),
        ("GET /", String::new(), 200),
        ("GET /docs?q", String::new(), 308),
        ("GET /none", String::new(), 404),
        ("GET /.hidden", String::new(), 404),
        ("DELETE /x.txt", String::new(), 405),
        ("OPTIONS /x.txt", String::new(), 204),
    ]
}

/// A page asks whether its file is still fresh and gets a 304 without the field: the browser forgets
/// that it was allowed, and the page breaks on the second visit. One that cannot read an error shows a
/// network failure instead of "not found".
#[test]
fn the_fields_are_on_all_answers_of_files() {
    let site = Site::sample();
    let origins = "cors = { origins = [\"https://app.example\"], expose_headers = [\"ETag\", \"X-A\"], \
        credentials = true }";
    for (keys, varies) in [("cors = true", false), (origins, true)] {
        let server = Server::with(&site, "", &files(&site, keys, ""));
        let mut client = server.client();
        let tag = client.get("/x.txt").field("etag").unwrap().to_owned();
        for (request, fields, status) in requests(&tag) {
            for (origin, is_allowed) in [(Some(APP), true), (Some("https://b.example"), false), (None, false)]
            {
                let origin = origin.map_or_else(String::new, |origin| format!("Origin: {origin}\r\n"));
                let answer = ask(&mut client, request, &format!("{fields}{origin}"));
                assert_eq!(answer.status, status, "{request} {fields}");
                match (varies, is_allowed) {
                    (false, _) => assert_leave(&answer, &[(ALLOW_ORIGIN, "*")]),
                    (true, false) => assert_leave(&answer, &[]),
                    (true, true) => assert_leave(
                        &answer,
                        &[
                            (ALLOW_ORIGIN, APP),
                            ("access-control-allow-credentials", "true"),
                            ("access-control-expose-headers", "ETag, X-A"),
                        ],
                    ),
                }
                // A cache that has the answer for one origin must not give it to another, nor to a
                // request without one, nor the other way round.
                assert_eq!(varies_by(&answer, "Origin"), varies, "{}", answer.head);
                assert!(answer.fields.iter().filter(|(name, _)| name == "Vary").count() <= 1);
                assert_eq!(answer.field("x-content-type-options"), Some("nosniff"));
            }
        }
    }
}

/// What waits for the pool, and the page of an app, are answers like the others; a route without `cors`
/// and what has no route have none of its fields.
#[test]
fn every_kind_of_route_has_its_own() {
    let site = Site::sample();
    let routes = files(&site, "cors = { origins = [\"https://app.example\"] }", ", spa = \"/index.html\"")
        + "[[route]]\npath = \"/r/\"\ncors = true\nredirect = { to = \"/x.txt\" }\n\
           [[route]]\nexact = \"/fixed\"\ncors = { origins = [\"https://*.app.example:8443\", \"null\"] }\n\
           headers = { Vary = \"X-A\" }\nrespond = { status = 503, body = \"x\" }\n\
           [[route]]\nexact = \"/bare\"\nmethods = [\"GET\"]\nrespond = {}\n";
    let server = Server::with(&site, "", &routes);
    let mut client = server.client();
    let from = |origin: &str| format!("Origin: {origin}\r\n");
    for number in 0..200 {
        let fields = format!("{}Accept: text/html\r\n", from(APP));
        let page = ask(&mut client, &format!("GET /cold/{number}"), &fields);
        assert_leave(&page, &[(ALLOW_ORIGIN, APP)]);
        assert_eq!(page.field("vary"), Some("Origin, Accept, Sec-Fetch-Mode, Accept-Encoding"));
        let miss = ask(&mut client, &format!("GET /cold/{number}.js"), &from(APP));
        assert_eq!((miss.status, miss.field(ALLOW_ORIGIN)), (404, Some(APP)));
    }
    let redirect = ask(&mut client, "POST /r/", "Content-Length: 0\r\n");
    assert_eq!((redirect.status, redirect.field(ALLOW_ORIGIN)), (308, Some("*")));
    for (origin, is_allowed) in [
        ("https://x.app.example:8443", true),
        ("null", true),
        ("https://app.example:8443", false),
        (APP, false),
    ] {
        let fixed = ask(&mut client, "GET /fixed", &from(origin));
        assert_eq!((fixed.status, fixed.field(ALLOW_ORIGIN)), (503, is_allowed.then_some(origin)));
        assert!(varies_by(&fixed, "Origin") && varies_by(&fixed, "X-A"), "{}", fixed.head);
    }
    for request in ["GET /bare", "TRACE /fixed", "OPTIONS *"] {
        let answer = ask(&mut client, request, &from(APP));
        assert_leave(&answer, &[]);
        assert!(!varies_by(&answer, "Origin"), "{request}");
    }
}

/// An allow list that looks for a piece of the origin has been the hole of many sites: whoever owns
/// `app.example.evil.com` reads what the visitor's cookies open.
#[test]
fn an_origin_is_allowed_as_a_whole_or_not_at_all() {
    let site = Site::sample();
    let keys = "cors = { origins = [\"https://app.example\", \"https://*.example.com\", \"http://[::1]:3000\"], \
        credentials = true }";
    let server = Server::with(&site, "", &files(&site, keys, ""));
    let mut client = server.client();
    let mut check = |lines: &str, expected: Option<&str>| {
        for _ in 0..2 {
            let answer = ask(&mut client, "GET /x.txt", lines);
            assert_eq!((answer.status, answer.field(ALLOW_ORIGIN)), (200, expected), "{lines:?}");
            let fields = format!("{lines}Access-Control-Request-Method: GET\r\n");
            let answer = ask(&mut client, "OPTIONS /x.txt", &fields);
            assert_eq!((answer.status, answer.field(ALLOW_ORIGIN)), (204, expected), "{lines:?}");
            let credentials = answer.field("access-control-allow-credentials");
            assert_eq!(credentials, expected.map(|_| "true"), "{lines:?}");
        }
    };
    for origin in [
        "https://app.example",
        "https://www.example.com",
        "https://a.b-c.example.com",
        "https://evil-app.example.com",
        "http://[::1]:3000",
    ] {
        check(&format!("Origin: {origin}\r\n"), Some(origin));
        check(&format!("oRIGIN: \t{origin} \r\n"), Some(origin));
    }
    for origin in [
        "https://evil-app.example",
        "https://app.example.evil.com",
        "https://app.example:8443",
        "https://app.example:443",
        "http://app.example",
        "https://app.example.",
        "https://app.example/",
        "https://app.exampl",
        "https://App.example",
        "HTTPS://app.example",
        "app.example",
        "https://app.example https://app.example",
        "https://app.example, https://app.example",
        "*",
        "null",
        "",
        "https://example.com",
        "https://.example.com",
        "https://evilexample.com",
        "https://www.example.com.evil.com",
        "https://www.example.com:8443",
        "https://www.example.com.",
        "https://evil.com/.example.com",
        "https://evil.com#.example.com",
        "https://evil.com\\.example.com",
        "https://u:p@www.example.com",
        "https://www..example.com",
        "https://a\tb.example.com",
        "https://a\u{e4}.example.com",
        "https://*.example.com",
    ] {
        check(&format!("Origin: {origin}\r\n"), None);
    }
    // Nobody knows which of two was meant.
    check("Origin: https://app.example\r\nOrigin: https://app.example\r\n", None);
    check("Origin: https://app.example\r\nOrigin: https://evil.example\r\n", None);
}

/// The browser asks before it sends what a form could not; the answer says everything that is allowed,
/// not what was asked for.
#[test]
fn a_preflight_is_answered_with_what_is_allowed() {
    let site = Site::sample();
    let routes = files(&site, "cors = true\nheaders = { X-A = \"b\" }", "")
        + "[[route]]\npath = \"/api/\"\ncors = { origins = [\"https://app.example\"], methods = [\"GET\", \"PUT\"], \
             request_headers = [\"Content-Type\", \"Authorization\"], expose_headers = [\"X-B\"], \
             max_age = \"2h\", credentials = true }\nrespond = { status = 503, body = \"x\" }\n\
           [[route]]\npath = \"/any/\"\ncors = true\nheaders = { X-A = \"c\" }\nredirect = { to = \"/x.txt\" }\n";
    let server = Server::with(&site, "", &routes);
    let mut client = server.client();
    let every = |methods| {
        [
            (ALLOW_ORIGIN, "*"),
            ("access-control-allow-methods", methods),
            ("access-control-allow-headers", "*"),
            ("access-control-max-age", "600"),
        ]
    };
    // No file has to be there, nor may one be looked for.
    for target in ["/x.txt", "/none", "/.hidden", "/docs"] {
        let answer = preflight(&mut client, target, APP, "GET", "x-a,content-type");
        assert_eq!((answer.status, answer.field("allow")), (204, Some("GET, HEAD, OPTIONS")));
        assert_eq!((answer.field("x-a"), answer.field("content-length")), (Some("b"), None));
        assert_eq!(
            answer.field("vary"),
            Some("Origin, Access-Control-Request-Method, Access-Control-Request-Headers")
        );
        assert_leave(&answer, &every("GET, HEAD"));
    }
    let answer = preflight(&mut client, "/any/x", "null", "DELETE", "");
    assert_eq!((answer.status, answer.field("x-a"), answer.field("location")), (204, Some("c"), None));
    assert_leave(&answer, &every("GET, HEAD, POST, PUT, DELETE, PATCH"));
    let answer = preflight(&mut client, "/api/x", APP, "PUT", "AUTHORIZATION, content-type");
    assert_eq!((answer.status, answer.body.len(), answer.field("allow")), (204, 0, None));
    assert_leave(
        &answer,
        &[
            (ALLOW_ORIGIN, APP),
            ("access-control-allow-credentials", "true"),
            ("access-control-allow-methods", "GET, PUT"),
            ("access-control-allow-headers", "content-type, authorization"),
            ("access-control-max-age", "7200"),
        ],
    );
    for (target, origin, method, names) in [
        ("/x.txt", APP, "PUT", ""),
        ("/x.txt", APP, "get", ""),
        ("/x.txt", APP, "FOO", ""),
        ("/x.txt", APP, "TRACE", ""),
        ("/x.txt", APP, "GET, HEAD", ""),
        ("/x.txt", APP, "", ""),
        ("/x.txt", APP, "GET", "authorization"),
        ("/x.txt", APP, "GET", "x-a,Authorization"),
        ("/x.txt", APP, "GET", "x a"),
        ("/api/x", "https://evil.example", "PUT", ""),
        ("/api/x", "null", "PUT", ""),
        ("/api/x", APP, "POST", ""),
        ("/api/x", APP, "PUT", "x-b"),
        ("/api/x", APP, "PUT", "content-type,x-b"),
        ("/any/x", APP, "OPTIONS", ""),
    ] {
        let answer = preflight(&mut client, target, origin, method, names);
        assert_refused(&answer);
        let allow = (target == "/x.txt").then_some("GET, HEAD, OPTIONS");
        assert_eq!(answer.field("allow"), allow, "{method}");
    }
    // The same fields in two lines are one list (RFC 9110 §5.3).
    let two = "Access-Control-Request-Headers: content-type\r\nAccess-Control-Request-Headers: x-b\r\n";
    let fields = format!("Origin: {APP}\r\nAccess-Control-Request-Method: PUT\r\n{two}");
    assert_refused(&ask(&mut client, "OPTIONS /api/x", &fields));
    assert_eq!(client.get("/x.txt").status, 200);
}

/// OPTIONS without the fields of a preflight means what it always did.
#[test]
fn options_that_is_no_preflight_is_answered_as_ever() {
    let site = Site::sample();
    let routes = files(&site, "cors = true", "")
        + "[[route]]\nexact = \"/fixed\"\ncors = true\nrespond = { status = 503, body = \"x\" }\n\
           [[route]]\nexact = \"/get\"\nmethods = [\"GET\"]\ncors = true\nrespond = {}\n";
    let server = Server::with(&site, "", &routes);
    let mut client = server.client();
    for fields in [
        "",
        "Origin: https://app.example\r\n",
        "Access-Control-Request-Method: GET\r\n",
        "Origin: https://a\r\nAccess-Control-Request-Method: GET\r\nAccess-Control-Request-Method: GET\r\n",
        "Origin: https://a\r\nAccess-Control-Request-Headers: x-a\r\n",
    ] {
        let answer = ask(&mut client, "OPTIONS /x.txt", fields);
        assert_eq!((answer.status, answer.field("allow")), (204, Some("GET, HEAD, OPTIONS")), "{fields}");
        assert_leave(&answer, &[(ALLOW_ORIGIN, "*")]);
        let answer = ask(&mut client, "OPTIONS /fixed", fields);
        assert_eq!((answer.status, answer.text().as_str()), (503, "x"), "{fields}");
        assert_leave(&answer, &[(ALLOW_ORIGIN, "*")]);
        // Nothing takes OPTIONS there but the files at `/`, as before.
        assert_eq!(ask(&mut client, "OPTIONS /get", fields).field("allow"), Some("GET, HEAD, OPTIONS"));
    }
    // And no other method is a preflight.
    let fields = format!("Origin: {APP}\r\nAccess-Control-Request-Method: GET\r\n");
    let answer = ask(&mut client, "GET /x.txt", &fields);
    assert_eq!((answer.status, answer.field("access-control-allow-methods")), (200, None));
}

/// A route for GET never sees an OPTIONS by its method, so that its pages could not be let in; and a
/// route that takes every method would let through what the route behind the question never allowed.
#[test]
fn a_preflight_finds_the_route_of_the_request_that_it_asks_for() {
    let site = Site::new();
    let respond = |pattern: &str, methods: &str, cors: &str, status: u16| {
        let methods = if methods.is_empty() { String::new() } else { format!("methods = [{methods}]\n") };
        let cors = if cors.is_empty() { String::new() } else { format!("cors = {cors}\n") };
        format!("[[route]]\n{pattern}\n{methods}{cors}respond = {{ status = {status}, body = \"x\" }}\n")
    };
    let one = "{ origins = [\"https://app.example\"] }";
    let mut routes = vec![
        respond("path = \"/\"", "", "true", 200),
        respond("path = \"/get\"", "\"GET\"", one, 200),
        respond("path = \"/get/put\"", "\"PUT\"", "", 200),
        respond("path = \"/own\"", "\"GET\", \"PUT\"", one, 200),
        respond("exact = \"/own\"", "\"OPTIONS\"", "", 202),
        respond("path = \"/own/deep\"", "\"OPTIONS\"", "", 203),
        respond("exact = \"/pair\"", "\"GET\"", one, 200),
        respond("exact = \"/pair\"", "\"OPTIONS\"", "", 202),
        respond("exact = \"/both\"", "\"GET\", \"OPTIONS\"", one, 200),
        respond("host = \"h\"\npath = \"/only\"", "\"GET\"", one, 200),
        respond("host = \"h\"\npath = \"/\"", "\"OPTIONS\", \"PUT\"", "", 202),
    ];
    for _ in 0..2 {
        let server = Server::with(&site, "", &routes.concat());
        let mut client = server.client();
        // The narrow route decides, by its own origins.
        let answer = preflight(&mut client, "/get/x", APP, "GET", "");
        assert_eq!((answer.status, answer.field("access-control-allow-methods")), (204, Some("GET")));
        assert_eq!(answer.field(ALLOW_ORIGIN), Some(APP));
        assert_refused(&preflight(&mut client, "/get/x", "https://b.example", "GET", ""));
        // PUT is for the route at `/` there, and for one without leave below it.
        assert_eq!(preflight(&mut client, "/get/x", APP, "PUT", "").field(ALLOW_ORIGIN), Some("*"));
        assert_refused(&preflight(&mut client, "/get/put", APP, "PUT", ""));
        assert_eq!(preflight(&mut client, "/get/put", APP, "GET", "").field(ALLOW_ORIGIN), Some(APP));
        // A route of its own for OPTIONS, as specific or more so.
        for (target, status) in [("/own", 202), ("/own/deep/x", 203), ("/pair", 202)] {
            let answer = preflight(&mut client, target, APP, "GET", "");
            assert_eq!((answer.status, answer.text().as_str()), (status, "x"), "{target}");
            assert_leave(&answer, &[]);
        }
        let answer = preflight(&mut client, "/own/x", APP, "PUT", "");
        assert_eq!((answer.status, answer.field(ALLOW_ORIGIN)), (204, Some(APP)));
        let answer = preflight(&mut client, "/both", APP, "GET", "");
        assert_eq!((answer.status, answer.field(ALLOW_ORIGIN)), (204, Some(APP)));
        assert_eq!(ask(&mut client, "OPTIONS /both", "").status, 200);
        // Another host.
        for (target, method, status, expected) in
            [("/only", "GET", 204, Some(APP)), ("/only", "PUT", 202, None), ("/x", "GET", 202, None)]
        {
            client.send(format!(
                "OPTIONS {target} HTTP/1.1\r\nHost: h\r\nOrigin: {APP}\r\n\
                 Access-Control-Request-Method: {method}\r\n\r\n"
            ));
            let answer = client.response();
            assert_eq!((answer.status, answer.field(ALLOW_ORIGIN)), (status, expected), "{target} {method}");
        }
        routes.reverse();
    }
    // Without a route that takes OPTIONS at all.
    let server = Server::with(&site, "", &respond("exact = \"/get\"", "\"GET\"", one, 200));
    let mut client = server.client();
    assert_eq!(preflight(&mut client, "/get", APP, "GET", "").field(ALLOW_ORIGIN), Some(APP));
    assert_refused(&preflight(&mut client, "/get", APP, "PUT", ""));
    assert_refused(&preflight(&mut client, "/get", APP, "PROPFIND", ""));
    assert_eq!(ask(&mut client, "OPTIONS /get", "").status, 405);
    assert_eq!(preflight(&mut client, "/none", APP, "GET", "").status, 404);
}
