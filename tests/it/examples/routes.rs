//! The examples of routes, `respond`, `redirect`, `cors` and the error pages of the site.

use super::{ask, get, started};

/// `error_pages`: `root` and `pages`. The class `5xx` is not shown: what no route answers is 404.
#[test]
fn of_error_pages() {
    let (_shown, server) = started("Pages for what no route answers");
    assert_eq!(server.get("/").text(), "home\n");
    let answer = server.get("/none");
    assert_eq!((answer.status, answer.text().as_str()), (404, "/srv/errors/404.html"));
}

/// `host`, `hosts`, `exact`, `path`, `methods`, `headers`, `security_headers`, and each kind of handler.
#[test]
fn of_routes() {
    let (_shown, server) = started("Files for one host, an answer for others, and an old place");
    let of = |host: &str, line: &str| {
        ask(&server, &format!("{line} HTTP/1.1\nHost: {host}\nOrigin: https://b.example"))
    };
    let page = of("www.example.com", "GET /");
    assert_eq!((page.status, page.text().as_str()), (200, "/srv/www/index.html"));
    assert_eq!(page.field("content-security-policy"), Some("default-src 'self'"));
    assert_eq!(page.field("x-frame-options"), Some("DENY"), "security_headers");
    assert_eq!(page.field("access-control-allow-origin"), None, "cors is the other route's");
    assert_eq!(of("other.example.com", "GET /").status, 404, "host");
    for host in ["api.example.com", "v1.api.example.com"] {
        let answer = of(host, "GET /version");
        assert_eq!((answer.status, answer.text().as_str()), (200, "1.0\n"), "{host}");
        assert_eq!(answer.field("access-control-allow-origin"), Some("*"), "cors");
    }
    assert_eq!(of("api.example.com", "GET /version/1").status, 404, "exact");
    assert_eq!(of("api.example.com", "DELETE /version").status, 405, "methods");
    let moved = of("www.example.com", "GET /blog/2026/news");
    assert_eq!((moved.status, moved.field("location")), (308, Some("https://blog.example.com/2026/news")));
}

/// `route.cors`: all of its keys.
#[test]
fn of_cors() {
    let (_shown, server) = started("An application on another origin, with cookies");
    let from = |origin: &str| get(&server, "/api/x", &format!("Origin: {origin}"));
    for origin in ["https://app.example.com", "https://pr-7.preview.example.com"] {
        let answer = from(origin);
        assert_eq!(answer.field("access-control-allow-origin"), Some(origin));
        assert_eq!(answer.field("access-control-allow-credentials"), Some("true"));
        assert_eq!(answer.field("access-control-expose-headers"), Some("X-Request-Cost"));
    }
    assert_eq!(from("https://evil.example").field("access-control-allow-origin"), None);
    let preflight = |method: &str, field: &str| {
        ask(
            &server,
            &format!(
                "OPTIONS /api/x HTTP/1.1\nHost: a\nOrigin: https://app.example.com\n\
                 Access-Control-Request-Method: {method}\nAccess-Control-Request-Headers: {field}"
            ),
        )
    };
    let answer = preflight("PUT", "x-token");
    assert_eq!((answer.status, answer.field("access-control-max-age")), (204, Some("3600")));
    assert!(answer.field("access-control-allow-methods").is_some_and(|methods| methods.contains("PUT")));
    let names = answer.field("access-control-allow-headers").unwrap_or_default().to_ascii_lowercase();
    assert!(names.contains("x-token"), "{}", answer.head);
    for (method, field) in [("DELETE", "x-token"), ("PUT", "x-other")] {
        assert_eq!(preflight(method, field).field("access-control-allow-origin"), None, "{method} {field}");
    }
}

/// `route.respond`: all of its keys.
#[test]
fn of_fixed_answers() {
    let (_shown, server) =
        started("A fixed answer, one from a file, and settings of the environment for a page");
    let answer = server.get("/teapot/x");
    assert_eq!((answer.status, answer.text().as_str()), (418, "<p>short and stout</p>\n"));
    assert_eq!(answer.field("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(answer.field("cache-control"), Some("no-store"));
    assert_eq!(server.get("/robots.txt").text(), "/etc/scalws/robots.txt");
    let settings = server.get("/config.json");
    assert_eq!(settings.text().trim_end(), r#"{"api":"https://api.example.com","retries":5}"#);
    assert_eq!(settings.field("content-type"), Some("application/json"));
}

#[test]
fn of_redirects() {
    let (_shown, server) = started("A page that moved, for ever and for now");
    for (target, status, location) in
        [("/old/a/b", 301, "/new/a/b"), ("/sale", 302, "https://shop.example.com/summer")]
    {
        let answer = server.get(target);
        assert_eq!((answer.status, answer.field("location")), (status, Some(location)));
    }
}
