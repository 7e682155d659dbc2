//! Which route answers, and what the request says about its host.

use crate::support::{Server, Site};

fn respond(pattern: &str, body: &str) -> String {
    format!("[[route]]\n{pattern}\nrespond = {{ status = 200, body = \"{body}\" }}\n")
}

#[track_caller]
fn check(server: &Server, host: &str, target: &str, expected: &str) {
    check_request(server, &format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"), expected);
}

#[track_caller]
fn check_request(server: &Server, request: &str, expected: &str) {
    let answers = server.raw(request).answers();
    assert_eq!(answers.len(), 1, "{request:?}");
    let found = if answers[0].status == 200 { answers[0].text() } else { answers[0].status.to_string() };
    assert_eq!(found, expected, "{request:?}");
}

/// The order of the Gateway API: host, then exact before the longest prefix, then method. The order
/// in the file never decides, so the same routes are tried forwards and backwards.
#[test]
fn the_most_specific_route_answers_in_any_order() {
    let mut routes = vec![
        respond("path = \"/\"", "root"),
        respond("path = \"/a/\"", "a"),
        respond("path = \"/a/b\"", "a/b"),
        respond("exact = \"/a/b\"", "exact a/b"),
        respond("exact = \"/a/b/\"", "exact a/b/"),
        respond("host = \"www.example.com\"\npath = \"/\"", "www"),
        respond("host = \"www.example.com\"\nexact = \"/a\"", "www exact a"),
        respond("host = \"*.example.com\"\npath = \"/\"", "wild"),
        respond("hosts = [\"one.test\", \"two.test\"]\npath = \"/\"", "hosts"),
        respond("path = \"/m\"\nmethods = [\"POST\"]", "m post"),
        respond("path = \"/m\"", "m any"),
    ];
    for _ in 0..2 {
        let site = Site::new();
        let server = Server::with(&site, "", &routes.concat());
        for (host, target, expected) in [
            ("a", "/", "root"),
            ("a", "/ab", "root"),
            ("a", "/a", "a"),
            ("a", "/a/", "a"),
            ("a", "/a/x", "a"),
            ("a", "/a/bc", "a"),
            ("a", "/a/b", "exact a/b"),
            ("a", "/a/b?q", "exact a/b"),
            ("a", "/a/b/", "exact a/b/"),
            ("a", "/a/b/c", "a/b"),
            ("a", "//a/./x/../b", "exact a/b"),
            ("a", "/%61/b", "exact a/b"),
            ("a", "/a%2fb", "root"),
            ("a", "/A/b", "root"),
            ("www.example.com", "/a", "www exact a"),
            ("www.example.com", "/a/b", "www"),
            ("WWW.Example.COM:8080", "/a/b", "www"),
            ("api.example.com", "/a", "wild"),
            ("x.y.example.com", "/a", "wild"),
            ("example.com", "/a", "a"),
            ("notexample.com", "/a", "a"),
            ("one.test", "/", "hosts"),
            ("two.test:1", "/", "hosts"),
            ("three.test", "/", "root"),
            ("a", "/m", "m any"),
        ] {
            check(&server, host, target, expected);
        }
        check_request(&server, "POST /m HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", "m post");
        check_request(&server, "PUT /m HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", "m any");
        routes.reverse();
    }
}

/// A prefix that serves a directory takes itself off: the root is what appears at the prefix.
#[test]
fn a_directory_appears_at_its_prefix() {
    let site = Site::sample();
    let server = Server::with(&site, "", &(site.route_at("/app/v1/") + &respond("path = \"/\"", "root")));
    assert_eq!(server.get("/app/v1/x.txt").body, b"x marks the spot\n");
    assert_eq!(server.get("/app/v1/").body, b"<p>home</p>\n");
    assert_eq!(server.get("/app/v1/app/v1/x.txt").status, 404);
    assert_eq!(server.get("/app/v1/.well-known/x").status, 404);
    check(&server, "a", "/app/v1x.txt", "root");
    check(&server, "a", "/x.txt", "root");
    check(&server, "a", "/app/v1/../x.txt", "root");
}

/// Matching costs the same for ten thousand routes, so nobody has to count theirs; all are found.
#[test]
fn ten_thousand_routes_are_all_found() {
    let site = Site::new();
    let routes: String = (0..10_000)
        .map(|number| match number % 3 {
            0 => respond(&format!("exact = \"/e/{number}\""), &number.to_string()),
            1 => respond(&format!("path = \"/p/{number}/\""), &number.to_string()),
            _ => respond(&format!("host = \"h{number}.test\"\npath = \"/\""), &number.to_string()),
        })
        .collect();
    let server = Server::with(&site, "", &routes);
    let mut client = server.client();
    for first in (0..10_000).step_by(200) {
        let batch = first..first + 200;
        let requests: String = batch
            .clone()
            .map(|number| match number % 3 {
                0 => format!("GET /e/{number} HTTP/1.1\r\nHost: a\r\n\r\n"),
                1 => format!("GET /p/{number}/deeper/still HTTP/1.1\r\nHost: a\r\n\r\n"),
                _ => format!("GET /x HTTP/1.1\r\nHost: h{number}.test\r\n\r\n"),
            })
            .collect();
        client.send(requests);
        for number in batch {
            assert_eq!(client.response().text(), number.to_string());
        }
    }
    assert_eq!(client.get("/e/10000").status, 404);
}

/// RFC 9112 §3.2: exactly one valid Host for HTTP/1.1; two are how one server is told one name and
/// the next one another.
#[test]
fn exactly_one_valid_host() {
    let site = Site::new();
    let server = Server::with(&site, "", &respond("path = \"/\"", "ok"));
    for (fields, expected) in [
        ("Host: a\r\n", "ok"),
        ("host:a\r\n", "ok"),
        ("Host: [::1]:8080\r\n", "ok"),
        ("Host: 127.0.0.1\r\n", "ok"),
        ("Host: a:\r\n", "ok"),
        ("", "400"),
        ("Host: a\r\nHost: a\r\n", "400"),
        ("Host: a\r\nHost: b\r\n", "400"),
        ("Host: a\r\nhOST: b\r\n", "400"),
        ("Host: a b\r\n", "400"),
        ("Host: a,b\r\nHost: c\r\n", "400"),
        ("Host: a/b\r\n", "400"),
        ("Host: u@a\r\n", "400"),
        ("Host: a?b\r\n", "400"),
        ("Host: a#b\r\n", "400"),
        ("Host: a\\b\r\n", "400"),
        ("Host: a:port\r\n", "400"),
        ("Host: [::1\r\n", "400"),
        ("Host: \u{e9}\r\n", "400"),
        ("Host : a\r\n", "400"),
    ] {
        check_request(&server, &format!("GET / HTTP/1.1\r\n{fields}\r\n"), expected);
    }
    check_request(&server, "GET / HTTP/1.0\r\n\r\n", "ok");
    check_request(&server, "GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", "400");
}

/// RFC 9112 §3.2.2: the host of an absolute target replaces the field, which must be there and valid
/// all the same.
#[test]
fn the_absolute_form_names_the_host() {
    let site = Site::new();
    let routes = respond("host = \"one.test\"\npath = \"/x/\"", "one") + &respond("path = \"/\"", "other");
    let server = Server::with(&site, "", &routes);
    for (target, host, expected) in [
        ("http://one.test/x", "two.test", "one"),
        ("HTTP://ONE.test:80/x/y?q", "two.test", "one"),
        ("http://two.test/x", "one.test", "other"),
        ("http://two.test", "a", "other"),
        ("http://two.test?q", "a", "other"),
        ("http://u@one.test/x", "one.test", "400"),
        ("http:///x", "one.test", "400"),
        ("http://one.test:x/", "one.test", "400"),
        ("ftp://one.test/x", "one.test", "400"),
        ("one.test/x", "one.test", "400"),
        ("one.test:80", "one.test", "400"),
    ] {
        check(&server, host, target, expected);
    }
    check_request(&server, "GET http://one.test/x HTTP/1.1\r\n\r\n", "400");
}

/// A redirect that begins with what the visitor wrote can be turned into one to another site: `//x`
/// and `/\x` are authorities to a browser.
#[test]
fn a_redirect_never_leaves_the_site() {
    let site = Site::new();
    let redirect =
        |path: &str, to: &str| format!("[[route]]\npath = \"{path}\"\nredirect = {{ to = \"{to}\" }}\n");
    let routes = redirect("/go/", "/{rest}")
        + &redirect("/old/", "/new/{rest}")
        + &redirect("/away/", "https://example.org/base/{rest}")
        + &redirect("/fixed", "https://example.org/")
        + "[[route]]\npath = \"/\"\nredirect = { to = \"/home/{rest}\", status = 302 }\n";
    let server = Server::with(&site, "", &routes);
    for (target, status, location) in [
        ("/go/a/b", 308, "/a/b"),
        ("/go", 308, "/"),
        ("/go/", 308, "/"),
        ("/go//evil.example", 308, "/evil.example"),
        ("/go///evil.example/x", 308, "/evil.example/x"),
        ("/go/.//evil.example", 308, "/evil.example"),
        ("/go/x/..//evil.example", 308, "/evil.example"),
        ("/go/\\evil.example", 308, "/%5Cevil.example"),
        ("/go/%2fevil.example", 308, "/%2fevil.example"),
        ("/go/%5cevil.example", 308, "/%5cevil.example"),
        ("/go/%0d%0aSet-Cookie:a=b", 308, "/%0d%0aSet-Cookie:a=b"),
        ("/old/a", 308, "/new/a"),
        ("/old/a/", 308, "/new/a/"),
        ("/old/", 308, "/new/"),
        ("/old/a%20b", 308, "/new/a%20b"),
        ("/old/a?x=1&y=//z", 308, "/new/a?x=1&y=//z"),
        ("/go/?//evil.example", 308, "/?//evil.example"),
        ("/old/../go/x", 308, "/x"),
        ("/away/x", 308, "https://example.org/base/x"),
        ("/away/..//x", 302, "/home/x"),
        ("/fixed", 308, "https://example.org/"),
        ("/", 302, "/home/"),
    ] {
        let answer = server.get(target);
        assert_eq!((answer.status, answer.field("location")), (status, Some(location)), "{target}");
        assert!(answer.field("set-cookie").is_none(), "{target}");
    }
}

/// A target with something behind `{rest}` and a rest that is empty: `//x.example` is another site,
/// though nobody wrote two slashes in a row. And the query belongs before a fragment, where it would be
/// kept from the server.
#[test]
fn a_redirect_with_an_empty_rest_has_one_slash() {
    let site = Site::new();
    let redirect =
        |path: &str, to: &str| format!("[[route]]\npath = \"{path}\"\nredirect = {{ to = \"{to}\" }}\n");
    let routes = redirect("/mid/", "/{rest}/x.example")
        + &redirect("/deep/", "/a/{rest}/b")
        + &redirect("/away/", "https://example.org/{rest}/b")
        + &redirect("/part", "/new#part")
        + &redirect("/own", "/new?own=1#part");
    let server = Server::with(&site, "", &routes);
    for (target, location) in [
        ("/mid", "/x.example"),
        ("/mid/", "/x.example"),
        ("/mid//", "/x.example"),
        ("/mid/.", "/x.example"),
        ("/mid/a/..", "/x.example"),
        ("/mid/?q", "/x.example?q"),
        ("/mid/a", "/a/x.example"),
        ("/mid/a/", "/a/x.example"),
        ("/deep/", "/a/b"),
        ("/deep/c", "/a/c/b"),
        ("/away/", "https://example.org/b"),
        ("/part?q=1", "/new?q=1#part"),
        ("/part", "/new#part"),
        ("/own?q=1", "/new?own=1#part"),
    ] {
        let answer = server.get(target);
        assert_eq!((answer.status, answer.field("location")), (308, Some(location)), "{target}");
    }
}

/// An encoded slash and an encoded backslash were one and the same to the router: a route for
/// `/a%2Fb` alone also answered `/a%5Cb`, another path to everybody before this server.
#[test]
fn an_encoded_slash_is_no_encoded_backslash() {
    let site = Site::new();
    let routes = respond("exact = \"/a%2Fb\"", "slash")
        + &respond("exact = \"/c%5Cd\"", "backslash")
        + &respond("path = \"/\"", "other");
    let server = Server::with(&site, "", &routes);
    for (target, expected) in [
        ("/a%2Fb", "slash"),
        ("/a%2fb", "slash"),
        ("/a%5Cb", "other"),
        ("/a%5cb", "other"),
        ("/a/b", "other"),
        ("/c%5Cd", "backslash"),
        ("/c%5cd", "backslash"),
        ("/c%2Fd", "other"),
        ("/c%2fd", "other"),
    ] {
        check(&server, "a", target, expected);
    }
}

/// `methods` is part of the match: what no route takes is refused, never answered by the wrong one.
#[test]
fn methods_choose_between_routes() {
    let site = Site::new();
    let routes = respond("exact = \"/form\"\nmethods = [\"GET\"]", "show")
        + &respond("exact = \"/form\"\nmethods = [\"POST\", \"PUT\"]", "store");
    let server = Server::with(&site, "", &routes);
    let mut client = server.client();
    for (method, expected) in [("GET", "show"), ("POST", "store"), ("PUT", "store")] {
        client.send(format!("{method} /form HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi"));
        assert_eq!(client.response().text(), expected, "{method}");
    }
    client.send("DELETE /form HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(matches!(client.response().status, 404 | 405));
}

/// A `respond` route sends what it was given: status, fields, and a body from a file.
#[test]
fn respond_sends_what_it_was_given() {
    let site = Site::new();
    let page = site.beside("page.html", b"<p>from a file</p>\n");
    let routes = format!(
        "[[route]]\npath = \"/\"\nrespond = {{ status = 503, content_type = \"text/html\", body_file = '{}', \
         headers = {{ Retry-After = \"60\", X-Why = \"maintenance\" }} }}\n",
        page.display()
    );
    let server = Server::with(&site, "", &routes);
    let answer = server.get("/any/where");
    assert_eq!((answer.status, answer.text().as_str()), (503, "<p>from a file</p>\n"));
    assert_eq!(answer.field("content-type"), Some("text/html"));
    assert_eq!(answer.field("retry-after"), Some("60"));
    assert_eq!(answer.field("x-why"), Some("maintenance"));
    assert!(!answer.closes());
}
