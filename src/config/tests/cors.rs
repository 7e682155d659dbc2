//! `cors`: what it means, and what browsers would take for something else.

use super::super::checked::Cors;
use super::super::explain::effective;
use super::{check, load_with};
use crate::semantics::origin::Pattern;

const ENVIRONMENT: &[(&str, &str)] =
    &[("APP", "https://secret.example"), ("BAD", "https://Secret.example"), ("ON", "true")];

fn cors_of(lines: &str) -> Option<Cors> {
    let text = format!("[[route]]\npath = \"/\"\n{lines}");
    let loaded = load_with(&text, ENVIRONMENT).unwrap_or_else(|problems| panic!("{lines}: {problems}"));
    assert!(!effective(&loaded).contains("secret"), "{lines}");
    loaded.config.routes[0].cors.clone()
}

fn words(methods: &str, headers: &str, cors: &Cors) -> bool {
    let found: Vec<_> = cors.methods.iter().map(|method| method.as_str()).collect();
    (found.join(" "), cors.request_headers.join(" ")) == (methods.to_owned(), headers.to_owned())
}

#[test]
fn cors_has_defaults_that_fit_the_route() {
    const EVERY: &str = "GET HEAD POST PUT DELETE PATCH";
    assert_eq!(cors_of("respond = {}"), None);
    assert_eq!(cors_of("respond = {}\ncors = false"), None);
    for (lines, methods) in [
        ("respond = {}", EVERY),
        ("redirect = { to = \"/a\" }", EVERY),
        ("static = { root = \"src\" }", "GET HEAD"),
        ("static = { root = \"src\" }\nmethods = [\"GET\", \"OPTIONS\"]", "GET OPTIONS"),
        ("respond = {}\nmethods = [\"POST\"]", "POST"),
    ] {
        for value in ["true", "\"${env:ON}\"", "{ origins = [\"*\"] }"] {
            let cors = cors_of(&format!("{lines}\ncors = {value}")).unwrap();
            assert_eq!((&cors.origins, cors.max_age_s, cors.credentials), (&None, 600, false));
            assert!(words(methods, "*", &cors) && cors.expose_headers.is_empty(), "{lines} {cors:?}");
        }
    }
    let cors = cors_of(
        "respond = {}\ncors = { origins = [\"${env:APP}\", \"https://*.example.com\", \"null\"], \
         methods = [\"GET\", \"OPTIONS\"], request_headers = [\"X-A\", \"Authorization\"], \
         expose_headers = [\"X-B\"], max_age = \"0s\", credentials = true }",
    );
    let cors = cors.unwrap();
    let origins: Vec<_> = ["https://secret.example", "https://*.example.com", "null"]
        .map(|text| Pattern::parse(text).unwrap())
        .into();
    assert_eq!((&cors.origins, cors.max_age_s, cors.credentials), (&Some(origins), 0, true));
    assert!(words("GET OPTIONS", "x-a authorization", &cors), "{cors:?}");
    assert_eq!(cors.expose_headers, ["X-B"]);
    let cors = cors_of("respond = {}\ncors = { origins = [\"http://a\"], credentials = true }").unwrap();
    assert!(words(EVERY, "", &cors), "{cors:?}");
}

#[track_caller]
fn refused(value: &str, column: usize, expected: &str) {
    let text =
        format!("[[route]]\npath = \"/\"\nmethods = [\"GET\", \"HEAD\"]\nrespond = {{}}\ncors = {value}");
    check(&text, &[&format!("@5:{column}: {expected}")]);
}

#[test]
fn origins_are_written_as_browsers_write_them() {
    let one = |origin: &str, hint: &str| {
        let what =
            "route.cors.origins: expected an origin as browsers write it, such as \"https://app.example\"";
        let comma = if hint.is_empty() { "" } else { ", " };
        refused(
            &format!("{{ origins = [\"{origin}\"] }}"),
            21,
            &format!("{what}, found {origin:?}{comma}{hint}"),
        );
    };
    let meant = "did you mean \"https://app.example\"?";
    one("https://app.example/", meant);
    one("https://app.example/path", meant);
    one("https://App.example", meant);
    one("app.example", meant);
    one("https://app.example:443", meant);
    one("https://app.example.", meant);
    one("http://app.example:80", "did you mean \"http://app.example\"?");
    one("Null", "did you mean \"null\"?");
    one("https://ä.example", "write its host in xn-- form");
    let star = "a star stands for the first labels, as in \"https://*.example.com\"";
    one("https://app.*.example", star);
    one("https://app*.example", star);
    one("https://app.example:*", star);
    one("https://*", star);
    one("https://user@app.example", "");
    let value = "{ origins = [\"${env:BAD}\"] }";
    let text = format!("[[route]]\npath = \"/\"\nrespond = {{}}\ncors = {value}");
    let problems = load_with(&text, ENVIRONMENT).unwrap_err().to_string();
    assert!(problems.contains("found \"${env:BAD}\"") && !problems.to_lowercase().contains("secret"));
}

#[test]
fn what_browsers_would_not_honour_is_refused() {
    refused(
        "1",
        8,
        "route.cors: expected true, false, or a table such as { origins = [\"https://app.example\"] }, found 1",
    );
    refused("\"*\"", 8, "route.cors: expected true or false, found \"*\"");
    refused("{}", 8, "route.cors: expected origins, found none");
    refused("{ orgins = [\"*\"] }", 10, "unknown key \"orgins\" in cors, did you mean \"origins\"?");
    refused("{ origins = [] }", 20, "route.cors.origins: expected 1 to 200 origins, found 0");
    refused(
        "{ origins = \"*\" }",
        20,
        "route.cors.origins: expected a list of origins such as [\"https://app.example\"], found \"*\", did you mean [\"*\"]?",
    );
    let many: Vec<_> = (0..201).map(|number| format!("\"http://a{number}\"")).collect();
    let found = "route.cors.origins: expected 1 to 200 origins, found 201";
    refused(&format!("{{ origins = [{}] }}", many.join(", ")), 20, found);
    refused(
        "{ origins = [\"http://a\", \"http://a\"] }",
        33,
        "route.cors.origins: expected each origin once, found \"http://a\"",
    );
    refused(
        "{ origins = [\"*\"], credentials = true }",
        21,
        "route.cors.origins: expected origins by name beside credentials = true, found \"*\", any site could read what the visitor's cookies open",
    );
    for key in ["request_headers", "expose_headers"] {
        let value = format!("{{ origins = [\"http://a\"], credentials = true, {key} = [\"*\"] }}");
        let expected = format!(
            "route.cors.{key}: expected fields by name beside credentials = true, found \"*\", a star is a name like any other there"
        );
        refused(&value, 58 + key.len(), &expected);
    }
    let rest = |keys: &str, column: usize, expected: &str| {
        refused(&format!("{{ origins = [\"*\"], {keys} }}"), column, &format!("route.cors.{expected}"));
    };
    rest(
        "request_headers = [\"X A\"]",
        46,
        "request_headers: expected a field name of letters, digits and hyphens, found \"X A\"",
    );
    rest(
        "request_headers = [\"X-A\", \"x-a\"]",
        53,
        "request_headers: expected each field once, whatever its case, found \"x-a\"",
    );
    let many: Vec<_> = (0..101).map(|number| format!("\"x{number}\"")).collect();
    rest(
        &format!("expose_headers = [{}]", many.join(", ")),
        44,
        "expose_headers: expected at most 100 names",
    );
    rest("methods = []", 37, "methods: expected at least one method, found an empty list");
    rest("methods = [\"GET\", \"GET\"]", 45, "methods: expected each method once, found \"GET\"");
    rest(
        "methods = [\"PUT\"]",
        38,
        "methods: expected a method that the route answers, one of GET, HEAD, found \"PUT\"",
    );
    rest("max_age = \"1500ms\"", 37, "max_age: expected whole seconds, found \"1500ms\"");
    rest("max_age = \"25h\"", 37, "max_age: expected \"0s\" to \"24h\", found \"25h\"");
    rest(
        "max_age = 600",
        37,
        "max_age: expected a duration with a unit (ms, s, m or h), found 600, did you mean \"600s\"?",
    );
    rest("credentials = 1", 41, "credentials: expected true or false, found 1");
}

#[test]
fn a_field_of_cors_is_given_by_cors_alone() {
    let fault = "expected another field, as cors of the route writes this one";
    check(
        "[[route]]\npath = \"/\"\ncors = true\nheaders = { access-control-allow-origin = \"b\", X-A = \"b\" }\n\
         respond = { headers = { Access-Control-Max-Age = \"1\" } }",
        &[
            &format!("@4:13: route.headers.access-control-allow-origin: {fault}"),
            &format!("@5:25: route.respond.headers.Access-Control-Max-Age: {fault}"),
        ],
    );
    check(
        "[[route]]\npath = \"/\"\ncors = true\nstatic = { root = \"src\", headers = [{ glob = \"*\", \
         headers = { Access-Control-Allow-Origin = \"*\" } }] }",
        &[&format!("@4:63: route.static.headers.headers.Access-Control-Allow-Origin: {fault}")],
    );
    // By hand, or switched off, they are fields like others.
    for cors in ["", "cors = false\n"] {
        let text = format!(
            "[[route]]\npath = \"/\"\n{cors}headers = {{ Access-Control-Allow-Origin = \"*\" }}\nrespond = {{}}"
        );
        check(&text, &[]);
    }
}

#[test]
fn every_origin_makes_others_idle() {
    let text = "[[route]]\npath = \"/\"\nrespond = {}\ncors = { origins = [\"https://app.example\", \"*\"] }";
    let loaded = load_with(text, &[]).unwrap();
    assert_eq!(loaded.config.routes[0].cors.as_ref().unwrap().origins, None);
    assert_eq!(loaded.warnings, ["scalws.toml:4:44: route.cors.origins: \"*\" allows the others too"]);
}
