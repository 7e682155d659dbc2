//! `headers`, `security_headers`, `cache_control` and `static.headers`: what they give, and what they cannot be.

use super::super::checked::Handler;
use super::{check, load_with};

const STATIC: &str = "static = { root = \"src\" }";

fn headers(lines: &str) -> String {
    let text = format!("[[route]]\npath = \"/\"\n{lines}");
    let loaded = load_with(&text, &[("SECRET", "hunter2")]).unwrap_or_else(|problems| panic!("{problems}"));
    assert!(!super::super::explain::effective(&loaded).contains("hunter2"));
    let headers = &loaded.config.routes[0].headers;
    headers.iter().map(|(name, value)| format!("{name}: {value}\n")).collect()
}

#[track_caller]
fn refused(lines: &str, expected: &str) {
    check(&format!("[[route]]\npath = \"/\"\n{lines}"), &[expected]);
}

#[test]
fn a_route_has_its_headers_and_those_of_the_preset() {
    let preset = "X-Content-Type-Options: nosniff\nReferrer-Policy: strict-origin-when-cross-origin\n\
                  X-Frame-Options: DENY\nCross-Origin-Opener-Policy: same-origin\n";
    let check = |lines: &str, expected: &str| assert_eq!(headers(lines), expected, "{lines}");
    check("respond = {}", "");
    check(STATIC, "X-Content-Type-Options: nosniff\n");
    check(&format!("{STATIC}\nsecurity_headers = false"), "");
    check(&format!("{STATIC}\nsecurity_headers = true"), preset);
    check("respond = {}\nsecurity_headers = true", preset);
    check("redirect = { to = \"/a\" }\nsecurity_headers = true", preset);
    check("respond = {}\nsecurity_headers = false", "");
    check("respond = {}\nheaders = { X-A = \"${env:SECRET}\" }", "X-A: hunter2\n");
    check("respond = { headers = { X-A = \"1\" } }\nheaders = { X-B = \"2\" }", "X-B: 2\n");
    check(
        &format!("{STATIC}\nheaders = {{ x-content-type-options = \"none\" }}"),
        "x-content-type-options: none\n",
    );
    check(
        "security_headers = true\nheaders = { X-Frame-Options = \"SAMEORIGIN\" }\n\
         respond = { headers = { referrer-policy = \"no-referrer\" } }",
        "X-Frame-Options: SAMEORIGIN\nX-Content-Type-Options: nosniff\nCross-Origin-Opener-Policy: same-origin\n",
    );
    check(
        &format!(
            "{STATIC}\nheaders = {{ Vary = \"Origin\", Cache-Control = \"no-store\" }}\nsecurity_headers = false"
        ),
        "Cache-Control: no-store\nVary: Origin\n",
    );
}

#[test]
fn what_cannot_be_a_header_of_a_route_is_refused() {
    let one = |header: &str, column: usize, expected: &str| {
        let expected = format!("@3:{column}: route.headers.{expected}");
        refused(&format!("headers = {{ {header} }}\nrespond = {{}}"), &expected);
    };
    one("\"X A\" = \"b\"", 13, "X A: expected a field name of letters, digits and hyphens");
    one("Connection = \"b\"", 13, "Connection: expected another field, as the server writes this one itself");
    for name in
        ["ETag", "Content-Type", "content-encoding", "Last-Modified", "Location", "Allow", "Retry-After"]
    {
        let fault = format!("{name}: expected another field, as this one tells of a single answer");
        one(&format!("{name} = \"b\""), 13, &fault);
    }
    one(
        "A = \"b\\r\\nC: d\"",
        17,
        "A: expected a value without control characters and without space around it",
    );
    one("A = 1", 17, "A: expected a string, found 1");
    one("A = \"1\", a = \"2\"", 22, "a: expected each field once, whatever its case");
    refused(
        "headers = 1\nrespond = {}",
        "@3:11: route.headers: expected a table of fields such as { \"X-A\" = \"b\" }, found 1",
    );
    refused(
        "headers = { x-a = \"1\" }\nrespond = { headers = { X-A = \"2\" } }",
        "@3:13: route.headers.x-a: expected each field once, found it in respond.headers too",
    );
    refused(
        "headers = { cache-control = \"no-store\" }\n\
         static = { root = \"src\", cache_control = [{ glob = \"**\", value = \"no-cache\" }] }",
        "@3:13: route.headers.cache-control: expected each field once, found it in static.cache_control too",
    );
    refused(
        "security_headers = \"yes\"\nrespond = {}",
        "@3:20: route.security_headers: expected true or false, found \"yes\"",
    );
}

#[test]
fn cache_control_is_a_list_of_globs_with_values() {
    let load = |list: &str| {
        let text = format!("[[route]]\npath = \"/\"\nstatic = {{ root = \"src\", cache_control = {list} }}");
        load_with(&text, &[("SECRET", "hunter2"), ("BAD", "[hunter2")])
    };
    let loaded =
        load("[{ glob = \"a/**\", value = \"x\" }, { value = \"${env:SECRET}\", glob = \"*.js\" }]").unwrap();
    let Handler::Static(files) = &loaded.config.routes[0].handler else { panic!("static") };
    let rules: Vec<_> = files.cache_control.iter().map(|rule| (rule.glob.glob(), &*rule.value)).collect();
    assert_eq!(rules, [("a/**", "x"), ("**/*.js", "hunter2")]);
    let shown = loaded.settings.iter().find(|setting| setting.key == "route.1.static.cache_control").unwrap();
    assert_eq!(
        shown.shown,
        "[{ glob = \"a/**\", value = \"x\" }, { glob = \"*.js\", value = \"${env:SECRET}\" }]"
    );
    let matches = |glob: &str, path: &str| {
        let loaded = load(&format!("[{{ glob = \"{glob}\", value = \"x\" }}]")).unwrap();
        let Handler::Static(files) = &loaded.config.routes[0].handler else { panic!("static") };
        files.cache_control[0].glob.compile_matcher().is_match(path)
    };
    assert!(matches("*.html", "index.html") && matches("*.html", "a/b/index.html"));
    assert!(matches("/*.html", "index.html") && !matches("/*.html", "a/index.html"));
    assert!(matches("assets/**", "assets/a/b") && !matches("assets/**", "x/assets/a"));
    assert!(!matches("assets/*", "assets/a/b") && matches("**", "a/b/c") && matches("*", "a/b/c"));
    load("[]").unwrap();
    let one = |list: &str, column: usize, expected: &str| {
        let found = super::lines(load(list));
        assert_eq!(found, [format!("scalws.toml:3:{column}: {expected}")], "{list}");
    };
    let list = "route.static.cache_control: expected a list such as [{ glob = \"**\", value = \"no-cache\" }], found";
    one("\"no-cache\"", 42, &format!("{list} \"no-cache\""));
    one("{ glob = \"**\", value = \"x\" }", 42, &format!("{list} a table"));
    one("[{ glob = \"**\" }]", 43, "route.static.cache_control: expected value, found none");
    one("[{ value = \"x\" }]", 43, "route.static.cache_control: expected glob, found none");
    one(
        "[{ glb = \"**\", value = \"x\" }]",
        45,
        "unknown key \"glb\" in cache_control, did you mean \"glob\"?",
    );
    one(
        "[{ glob = \"**\", value = \"\" }]",
        66,
        "route.static.cache_control.value: expected text, found an empty string",
    );
    one(
        "[{ glob = \"**\", value = \"a\\nb\" }]",
        66,
        "route.static.cache_control.value: expected a value without control characters and without space around it",
    );
    let glob = "route.static.cache_control.glob: expected a glob such as \"assets/**\", found";
    one(
        "[{ glob = \"[a\", value = \"x\" }]",
        52,
        &format!("{glob} \"[a\", unclosed character class; missing ']'"),
    );
    one("[{ glob = \"${env:BAD}\", value = \"x\" }]", 52, &format!("{glob} \"${{env:BAD}}\""));

    // Bounds, as every worker builds all of them.
    let long = "a".repeat(513);
    let expected = "route.static.cache_control.glob: expected a glob of at most 512 bytes";
    one(&format!("[{{ glob = \"{long}\", value = \"x\" }}]"), 52, expected);
    let many =
        |count| format!("[{}]", vec!["{ glob = \"{a,b}/**/x*[0-9].css\", value = \"x\" }"; count].join(", "));
    load(&many(200)).unwrap();
    one(&many(201), 42, "route.static.cache_control: expected at most 200 globs");
}

#[test]
fn files_have_further_fields_by_glob() {
    let load = |list: &str| {
        let text = format!("[[route]]\npath = \"/\"\nstatic = {{ root = \"src\", headers = {list} }}");
        load_with(&text, &[("SECRET", "hunter2")])
    };
    let rules = "[{ glob = \"*.wasm\", headers = { X-A = \"1\", X-B = \"${env:SECRET}\" } }, \
                 { glob = \"a/**\", headers = { x-a = \"2\" } }]";
    let loaded = load(rules).unwrap();
    let Handler::Static(files) = &loaded.config.routes[0].handler else { panic!("static") };
    let found: Vec<_> = files.headers.iter().map(|rule| (rule.glob.glob(), &rule.headers[..])).collect();
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let expected = [pair("X-A", "1"), pair("X-B", "hunter2")];
    assert_eq!(found, [("**/*.wasm", &expected[..]), ("a/**", &[pair("x-a", "2")][..])]);
    let shown = super::super::explain::effective(&loaded);
    assert!(
        shown.contains("route.1.static.headers.glob = \"a/**\"") && !shown.contains("hunter2"),
        "{shown}"
    );
    load("[]").unwrap();

    let one = |list: &str, column: usize, expected: &str| {
        let found = super::lines(load(list));
        assert_eq!(found, [format!("scalws.toml:3:{column}: {expected}")], "{list}");
    };
    let example = "{ glob = \"*.wasm\", headers = { \"X-A\" = \"b\" } }";
    one(
        "{ X-A = \"b\" }",
        36,
        &format!("route.static.headers: expected a list such as [{example}], found a table"),
    );
    one("[1]", 37, &format!("route.static.headers: expected a table such as {example}, found 1"));
    one("[{ glob = \"*\" }]", 37, "route.static.headers: expected headers, found none");
    one("[{ headers = { A = \"b\" } }]", 37, "route.static.headers: expected glob, found none");
    one(
        "[{ glb = \"*\", headers = { A = \"b\" } }]",
        39,
        "unknown key \"glb\" in headers, did you mean \"glob\"?",
    );
    let field = |header: &str, column: usize, expected: &str| {
        let list = format!("[{{ glob = \"*\", headers = {{ {header} }} }}]");
        one(&list, column, &format!("route.static.headers.headers{expected}"));
    };
    field("", 61, ": expected at least one field, found an empty table");
    field(
        "Cache-Control = \"no-cache\"",
        63,
        ".Cache-Control: expected another field, as this one belongs in static.cache_control",
    );
    field("vary = \"A\"", 63, ".vary: expected another field, as this one belongs in headers of the route");
    field("ETag = \"A\"", 63, ".ETag: expected another field, as this one tells of a single answer");
    field("Date = \"A\"", 63, ".Date: expected another field, as the server writes this one itself");
    field("A = \"1\", a = \"2\"", 72, ".a: expected each field once, whatever its case");
    field(
        "A = \"b\\nC: d\"",
        67,
        ".A: expected a value without control characters and without space around it",
    );
    let many =
        |count| format!("[{}]", vec!["{ glob = \"*.js\", headers = { A = \"b\" } }"; count].join(", "));
    load(&many(200)).unwrap();
    one(&many(201), 36, "route.static.headers: expected at most 200 globs");
}
