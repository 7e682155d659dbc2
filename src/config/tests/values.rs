//! Every kind of value that is not what its key takes, in a config that is right otherwise.

use super::check;
use crate::config::{Source, load_text};

/// The problems of one key in `[server]`.
fn server(line: &str, expected: &str) {
    check(&format!("[server]\n{line}\n"), &[expected]);
}

/// The problems of one line in a route that is complete otherwise.
fn route(line: &str, expected: &str) {
    let rest = match line.split_once([' ', '.']).map_or("", |(key, _)| key) {
        "respond" | "redirect" | "static" => "path = \"/\"",
        "path" | "exact" => "respond = {}",
        _ => "path = \"/\"\nrespond = {}",
    };
    check(&format!("[[route]]\n{line}\n{rest}\n"), &[expected]);
}

#[test]
fn server_values() {
    let address = "expected an IP address with a port such as \"[::]:8080\" or \"0.0.0.0:80\"";
    let listen = |value: &str, found: &str| {
        server(&format!("listen = [{value}]"), &format!("@2:11: server.listen: {address}, found {found}"));
    };
    listen("\"8080\"", "\"8080\", did you mean \"[::]:8080\"?");
    listen("\":8080\"", "\":8080\", did you mean \"[::]:8080\"?");
    listen("\"*:80\"", "\"*:80\", did you mean \"[::]:80\"?");
    listen("8080", "8080, did you mean \"[::]:8080\"?");
    listen("\"localhost:80\"", "\"localhost:80\", did you mean \"127.0.0.1:80\"?");
    listen("\"0.0.0.0\"", "\"0.0.0.0\", did you mean \"0.0.0.0:8080\"?");
    listen("\"[::]\"", "\"[::]\", did you mean \"[::]:8080\"?");
    listen("\"example.com:80\"", "\"example.com:80\"");
    listen("\"1.2.3.4:99999\"", "\"1.2.3.4:99999\"");
    let list = "@2:10: server.listen: expected a list of addresses such as [\"[::]:8080\"], found";
    server("listen = 8080", &format!("{list} 8080, did you mean [\"[::]:8080\"]?"));
    server("listen = \"[::]:80\"", &format!("{list} \"[::]:80\", did you mean [\"[::]:80\"]?"));
    server("listen = true", &format!("{list} true"));
    server("listen = []", "@2:10: server.listen: expected at least one address, found an empty list");
    server(
        "listen = [\"[::]:80\", \"[::]:80\"]",
        "@2:22: server.listen: expected each address once, found \"[::]:80\"",
    );
    server(
        "admin = \"on\"",
        &format!("@2:9: server.admin: {}, found \"on\"", address.replacen("an", "\"off\" or an", 1)),
    );
    server(
        "admin = \"[::]:8080\"",
        "@2:9: server.admin: expected different addresses for listen and admin, found one in both",
    );
    let workers = "@2:11: server.workers: expected \"auto\" or an integer from 1 to 1024, found";
    for value in ["0", "1025", "-1", "\"many\"", "true"] {
        server(&format!("workers = {value}"), &format!("{workers} {value}"));
    }
    server("workers = \"2\"", &format!("{workers} \"2\", without quotes"));
    server("workers = 1.5", &format!("{workers} a number with a fraction"));
    server("drain = \"8s\"", "@2:9: server.drain: expected a table, found \"8s\"");
    server(
        "trusted_proxies = [\"10.0.0.1\"]",
        "@2:20: server.trusted_proxies: expected a network such as \"10.0.0.0/8\", found \"10.0.0.1\", did you mean \"10.0.0.1/32\"?",
    );
    check("[[server]]\nworkers = 2", &["@1:1: server: expected a table, found a list"]);
}

#[test]
fn units_and_ranges() {
    let limit = |line: &str, expected: &str| check(&format!("[limits]\n{line}"), &[expected]);
    limit(
        "idle_timeout = 10",
        "@2:16: limits.idle_timeout: expected a duration with a unit (ms, s, m or h), found 10, did you mean \"10s\"?",
    );
    limit(
        "idle_timeout = \"ten\"",
        "@2:16: limits.idle_timeout: expected a duration such as \"30s\" or \"250ms\", found \"ten\"",
    );
    limit("idle_timeout = \"1ms\"", "@2:16: limits.idle_timeout: expected \"1s\" to \"1h\", found \"1ms\"");
    limit(
        "head_size = \"10\"",
        "@2:13: limits.head_size: expected a size with a unit (B, KB, KiB, MB, MiB, …), found \"10\", did you mean \"10B\"?",
    );
    limit("head_size = 1", "@2:13: limits.head_size: expected \"1KiB\" to \"56KiB\", found 1");
    limit(
        "head_size = \"1kb\"",
        "@2:13: limits.head_size: expected a size such as \"64KiB\", or an integer in bytes, found \"1kb\"",
    );
    limit(
        "fields = \"100\"",
        "@2:10: limits.fields: expected an integer from 8 to 256, found \"100\", without quotes",
    );
    check(
        "[log]\naccess = \"jsn\"",
        &[
            "@2:10: log.access: expected \"json\", \"combined\", \"off\" or a table with format and file, found \"jsn\", did you mean \"json\"?",
        ],
    );
    check(
        "[log]\naccess = { format = \"x\", file = \"\" }",
        &[
            "@2:21: log.access.format: expected \"json\", \"combined\", \"off\", found \"x\"",
            "@2:33: log.access.file: expected text, found an empty string",
        ],
    );
}

#[test]
fn route_conditions() {
    check(
        "[[route]]\n",
        &[
            "@1:1: route: expected one of exact and path, found none",
            "@1:1: route: expected one of respond, redirect and static, found none",
        ],
    );
    check(
        "[route]\npath = \"/\"",
        &["@1:1: route: expected tables named [[route]], in double brackets, found a table"],
    );
    check(
        "[[route]]\npath = \"/\"\nexact = \"/\"\nrespond = {}",
        &["@3:9: route.exact: expected one of exact and path, found both"],
    );
    check(
        "[[route]]\npath = \"/\"\nrespond = {}\nredirect = { to = \"/\" }",
        &["@4:12: route.redirect: expected one of respond, redirect and static, found two"],
    );
    let path = |value: &str, hint: &str| {
        let found =
            format!("@2:8: route.path: expected a path such as \"/docs/\", found \"{value}\", {hint}");
        route(&format!("path = \"{value}\""), &found);
    };
    path("x", "which begins with a slash");
    path("", "which begins with a slash");
    path("/a/./b", "without dot segments");
    path("/a/%2e%2E/b", "without dot segments");
    path("/..", "without dot segments");
    path("/a//b", "without empty segments");
    path("//", "without empty segments");
    path("/a%", "broken percent-escape");
    path("/a%00", "encoded NUL in the path");
    path("/a?b", "a query or a fragment is no part of it");
    path("/a/*", "\"path\" covers everything below it; a literal star is \"%2A\"");
    let host = |value: &str, hint: &str| {
        let what = "expected a host without port such as \"www.example.com\" or \"*.example.com\"";
        route(&format!("host = \"{value}\""), &format!("@2:8: route.host: {what}, found \"{value}\"{hint}"));
    };
    host("a.example:8080", ", did you mean \"a.example\"?");
    host("https://a.example/", ", did you mean \"a.example\"?");
    host("a.example.", ", did you mean \"a.example\"?");
    host("*", ", leave the key out to match every host");
    host("a.*.b", "");
    host("a b", "");
    host("", "");
    host("bücher.example", ", write it in its xn-- form");
    route(
        "hosts = []",
        "@2:9: route.hosts: expected at least one host, found an empty list, leave the key out to match every host",
    );
    route("hosts = [\"a\", \"A\"]", "@2:15: route.hosts: expected each host once, found \"A\"");
    route(
        "hosts = \"a\"",
        "@2:9: route.hosts: expected a list of hosts such as [\"www.example.com\"], found \"a\", did you mean [\"a\"]?",
    );
    route(
        "methods = [\"get\"]",
        "@2:12: route.methods: expected one of GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH, found \"get\", did you mean \"GET\"?",
    );
    route(
        "methods = [\"TRACE\"]",
        "@2:12: route.methods: TRACE is always refused by the server, expected another",
    );
    route("methods = [\"GET\", \"GET\"]", "@2:19: route.methods: expected each method once, found \"GET\"");
    route(
        "methods = []",
        "@2:11: route.methods: expected at least one method, found an empty list, leave the key out to match every method",
    );
}

#[test]
fn routes_that_match_the_same_are_refused() {
    let two = |first: &str, second: &str| {
        // One line of conditions or two: the second pattern stands in line 6 either way.
        let text = format!("[[route]]\nrespond = {{}}\n{first}\n\n[[route]]\n{second}\nrespond = {{}}");
        let text = if first.contains('\n') { text.replace("\n\n", "\n") } else { text };
        check(
            &text,
            &[
                "@6:1: route: matches the same requests as the route in line 3, expected another host, path or methods",
            ],
        );
    };
    two("path = \"/a\"", "path = \"/a/\"");
    two("path = \"/%61\"", "path = \"/a\"");
    two("exact = \"/a\"", "exact = \"/a\"");
    two("path = \"/a\"\nhosts = [\"x\", \"y\"]", "path = \"/a\"\nhost = \"Y\"");
    two("path = \"/a\"\nmethods = [\"GET\", \"PUT\"]", "path = \"/a\"\nmethods = [\"PUT\"]");
}

#[test]
fn handler_values() {
    route(
        "respond = { status = 101 }",
        "@2:22: route.respond.status: expected an integer from 200 to 599, found 101",
    );
    route(
        "respond = { status = 204, body = \"x\" }",
        "@2:34: route.respond.body: expected no body, as status 204 never has a body",
    );
    route(
        "respond = { body = \"x\", body_file = \"y\" }",
        "@2:37: route.respond.body_file: expected one of body, body_file and json, found two",
    );
    route(
        "respond = { body_file = \"/nope\" }",
        "@2:25: route.respond.body_file: expected a readable file of at most 1 MiB, found \"/nope\", which does not exist",
    );
    route(
        "respond = { body_file = \"src\" }",
        "@2:25: route.respond.body_file: expected a readable file of at most 1 MiB, found \"src\", which is no regular file",
    );
    route(
        "respond = { content_type = \"text/html\" }",
        "@2:28: route.respond.content_type: expected body, body_file or json beside it",
    );
    route(
        "respond = { headers = { \"X A\" = \"b\" } }",
        "@2:25: route.respond.headers.X A: expected a field name of letters, digits and hyphens",
    );
    route(
        "respond = { headers = { Date = \"b\" } }",
        "@2:25: route.respond.headers.Date: expected another field, as the server writes this one itself",
    );
    route(
        "respond = { headers = { A = \"b\\r\\nC: d\" } }",
        "@2:29: route.respond.headers.A: expected a value without control characters and without space around it",
    );
    route("respond = { headers = { A = 1 } }", "@2:29: route.respond.headers.A: expected a string, found 1");
    route(
        "respond = { headers = { A = \"1\", a = \"2\" } }",
        "@2:34: route.respond.headers.a: expected each field once, whatever its case",
    );
    route("redirect = { status = 302 }", "@2:12: route.redirect: expected to, found none");
    route(
        "redirect = { to = \"/\", status = 304 }",
        "@2:33: route.redirect.status: expected 301, 302, 303, 307 or 308, found 304",
    );
    check(
        "[[route]]\nexact = \"/\"\nredirect = { to = \"/{rest}\" }",
        &[
            "@3:19: route.redirect.to: expected no {rest}, as an exact route leaves nothing, found \"/{rest}\"",
        ],
    );
    check(
        "[[route]]\nexact = \"/\"\nstatic = { root = \"src\" }",
        &["@2:9: route.exact: expected path beside static, found exact"],
    );
    check(
        "[[route]]\npath = \"/\"\nmethods = [\"GET\", \"POST\"]\nstatic = { root = \"src\" }",
        &[
            "@3:11: route.methods: expected GET, HEAD or OPTIONS, the methods that static answers, found a list",
        ],
    );
    route("static = {}", "@2:10: route.static: expected root, found none");
    route(
        "static = { root = \"/nope\" }",
        "@2:19: route.static.root: expected a readable directory, found \"/nope\", which does not exist",
    );
    route(
        "static = { root = \"Cargo.toml\" }",
        "@2:19: route.static.root: expected a readable directory, found \"Cargo.toml\", which is no directory",
    );
    for name in ["", ".index", "a/b"] {
        route(
            &format!("static = {{ root = \"src\", index = [\"{name}\"] }}"),
            &format!(
                "@2:35: route.static.index: expected a plain file name such as \"index.html\", found \"{name}\""
            ),
        );
    }
    route(
        "static = { root = \"src\", symlinks = true }",
        "@2:37: route.static.symlinks: expected \"inside\", \"none\", found true",
    );
    route(
        "static = { root = \"src\", listing = \"html\" }",
        "@2:36: route.static.listing: expected true or false, found \"html\"",
    );
    route(
        "static = { root = \"src\", clean_urls = 1 }",
        "@2:39: route.static.clean_urls: expected true or false, found 1",
    );
    route(
        "static = { root = \"src\", compress = \"true\" }",
        "@2:37: route.static.compress: expected true, false or a table, found \"true\", without quotes",
    );
    for (inside, expected) in [
        ("level = 5", "unknown key \"level\" in compress, did you mean \"br_level\"?"),
        (
            "codings = []",
            "route.static.compress.codings: expected at least one coding, found a list, false turns compression off",
        ),
        (
            "codings = [\"gz\"]",
            "route.static.compress.codings: expected \"br\", \"zstd\", \"gzip\", found \"gz\", did you mean \"gzip\"?",
        ),
        ("gzip_level = 10", "route.static.compress.gzip_level: expected an integer from 1 to 9, found 10"),
        (
            "max_size = \"1GiB\"",
            "route.static.compress.max_size: expected \"1B\" to \"32MiB\", found \"1GiB\"",
        ),
        (
            "types = [\"*\"]",
            "route.static.compress.types: expected a type without parameters such as \"text/*\", found \"*\"",
        ),
        (
            "types = []",
            "route.static.compress.types: expected at least one type, found a list, false turns compression off",
        ),
        (
            "min_size = \"9MiB\"",
            "route.static.compress.min_size: expected min_size up to max_size, found \"9MiB\" and \"8MiB\"",
        ),
        (
            "max_size = 1000",
            "route.static.compress.max_size: expected min_size up to max_size, found \"1KiB\" and \"1000B\"",
        ),
    ] {
        let problems = load_text(
            &Source::default(),
            "scalws.toml",
            &format!("[[route]]\npath = \"/\"\nstatic = {{ root = \"src\", compress = {{ {inside} }} }}"),
        )
        .unwrap_err();
        assert!(problems.to_string().ends_with(&format!(": {expected}\n")), "{problems}");
    }
    route(
        "static = { root = \"src\", revalidate = 1 }",
        "@2:39: route.static.revalidate: expected a duration with a unit (ms, s, m or h), found 1, did you mean \"1s\"?",
    );
    route(
        "static = { root = \"src\", spa = \"/index.html\" }",
        "@2:32: route.static.spa: expected a file beneath root such as \"/index.html\", found \"/index.html\", which is no file there",
    );
    for page in ["index.html", "", "/", "/../x", "/a%2fb"] {
        route(
            &format!("static = {{ root = \"src\", spa = \"{page}\" }}"),
            &format!(
                "@2:32: route.static.spa: expected a path that begins with a slash, such as \"/index.html\", found \"{page}\""
            ),
        );
    }
    route(
        "static = { root = \"src\", spa_exclude = \"/api/\" }",
        "@2:40: route.static.spa_exclude: expected a list of paths such as [\"/api/\"], found \"/api/\", did you mean [\"/api/\"]?",
    );
}
