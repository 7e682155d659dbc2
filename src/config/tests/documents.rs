//! JSON documents of `respond`: what is sent, what is refused, and what is shown of it.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use super::super::*;
use super::{lines, load_with};

const VARIABLES: [(&str, &str); 12] = [
    ("API", "https://hunter2/?a=1&b=2"),
    ("EVIL", "</script><script>alert(\"1\")\\\n\u{2028}\u{2029}\u{0}\u{7f}é\u{1f600}"),
    ("N", " 3\n"),
    ("NEGATIVE", "-0"),
    ("HALF", "0.5"),
    ("WORD", "hunter2"),
    ("YES", "true"),
    ("EMPTY", ""),
    ("HUGE", "9007199254740992"),
    ("MOST", "9007199254740991"),
    ("ENDLESS", "1e999"),
    ("TRICK", "${env:N}\", \"x\": 1"),
];

fn load(json: &str) -> Result<Loaded, Problems> {
    load_with(&format!("[[route]]\nexact = \"/\"\nrespond = {{ json = {json} }}"), &VARIABLES)
}

#[track_caller]
fn sent(json: &str, expected: &str) {
    let loaded = load(json).unwrap_or_else(|problems| panic!("{json}: {problems}"));
    let Handler::Respond(respond) = &loaded.config.routes[0].handler else { panic!("respond") };
    let found = std::str::from_utf8(&respond.body).unwrap();
    assert_eq!(found, expected, "{json}");
    assert_eq!(respond.content_type.as_deref(), Some("application/json"));
    serde_json::from_str::<serde_json::Value>(found).unwrap();
    let shown = explain::effective(&loaded);
    assert!(!shown.contains("hunter2"), "{shown}");
}

/// The one problem of `json`, which begins in column 20; `@` stands for its place and key.
#[track_caller]
fn refused(json: &str, column: usize, expected: &str) {
    let expected = expected.replacen('@', &format!("scalws.toml:3:{column}: route.respond.json"), 1);
    assert_eq!(lines(load(json)), [expected], "{json}");
}

#[test]
fn documents_are_sent_in_the_order_of_the_file() {
    sent(
        "{ z = 1, a = [true, \"x\", 1.5, []], m = { y = {}, b = \"\" } }",
        "{\"z\":1,\"a\":[true,\"x\",1.5,[]],\"m\":{\"y\":{},\"b\":\"\"}}",
    );
    sent("{ b.z = 1, a = 2, b.c = 3 }", "{\"b\":{\"z\":1,\"c\":3},\"a\":2}");
    sent("[1, -2, 1_000.0, 0x10]", "[1,-2,1000.0,16]");
    sent("{ \"\" = 1, \"a\\\"<b\" = 2 }", "{\"\":1,\"a\\\"\\u003cb\":2}");
    let text = "[[route]]\nexact = \"/\"\n[route.respond.json]\nz = 1\n[[route.respond.json.list]]\nk = 1\n\
                [[route.respond.json.list]]\nk = 2\n[route.respond.json.a]\nb = 1\n";
    let loaded = load_with(text, &[]).unwrap();
    let Handler::Respond(respond) = &loaded.config.routes[0].handler else { panic!("respond") };
    assert_eq!(respond.body, b"{\"z\":1,\"list\":[{\"k\":1},{\"k\":2}],\"a\":{\"b\":1}}");
}

#[test]
fn variables_become_values_of_their_type() {
    let one = |kind: &str, name: &str, rest: &str, expected: &str| {
        let json = format!("{{ a = {{ env = \"{name}\", type = \"{kind}\"{rest} }} }}");
        sent(&json, &format!("{{\"a\":{expected}}}"));
    };
    one("string", "API", "", "\"https://hunter2/?a=1\\u0026b=2\"");
    one(
        "string",
        "EVIL",
        "",
        "\"\\u003c/script\\u003e\\u003cscript\\u003ealert(\\\"1\\\")\\\\\\n\\u2028\\u2029\\u0000\u{7f}é\u{1f600}\"",
    );
    one("string", "N", "", "\" 3\\n\"");
    one("string", "EMPTY", "", "\"\"");
    one("string", "EMPTY", ", default = \"<\"", "\"\\u003c\"");
    one("string", "TRICK", "", "\"${env:N}\\\", \\\"x\\\": 1\"");
    one("integer", "N", "", "3");
    one("integer", "NEGATIVE", "", "0");
    one("integer", "MOST", "", "9007199254740991");
    one("integer", "UNSET", ", default = 7", "7");
    one("integer", "EMPTY", ", default = -7", "-7");
    one("number", "N", "", "3");
    one("number", "HALF", "", "0.5");
    one("number", "UNSET", ", default = 1", "1");
    one("number", "UNSET", ", default = 1.25", "1.25");
    one("boolean", "YES", "", "true");
    one("boolean", "UNSET", ", default = false", "false");
    one("integer", "UNSET", ", default = \"${env:N}\"", "3");
    sent("{ env = \"YES\", type = \"boolean\" }", "true");
    sent(
        "{ a = \"${env:EVIL}\" }",
        "{\"a\":\"\\u003c/script\\u003e\\u003cscript\\u003ealert(\\\"1\\\")\\\\\\n\\u2028\\u2029\\u0000\u{7f}é\u{1f600}\"}",
    );
    sent("[\"${env:TRICK}\", \"${env:UNSET:-&}\"]", "[\"${env:N}\\\", \\\"x\\\": 1\",\"\\u0026\"]");
    // Other keys, or fewer: a table like any other.
    sent("{ env = \"N\" }", "{\"env\":\"N\"}");
    sent("{ env = \"N\", type = \"integer\", x = 1 }", "{\"env\":\"N\",\"type\":\"integer\",\"x\":1}");
}

#[test]
fn what_no_document_can_hold_is_refused_without_its_value() {
    let one = |kind: &str, name: &str, expected: &str| {
        let json = format!("{{ a = {{ env = \"{name}\", type = \"{kind}\" }} }}");
        refused(&json, 26, &format!("@.a: {expected}"));
    };
    let integer = "expected an integer from -2^53+1 to 2^53-1 in the environment variable";
    for name in ["WORD", "HALF", "EMPTY", "HUGE", "YES"] {
        one("integer", name, &format!("{integer} {name}"));
    }
    for name in ["WORD", "ENDLESS", "EMPTY"] {
        one("number", name, &format!("expected a number in the environment variable {name}"));
    }
    for name in ["WORD", "N", "EMPTY"] {
        one("boolean", name, &format!("expected true or false in the environment variable {name}"));
    }
    one(
        "integer",
        "UNSET",
        "expected the environment variable UNSET to be set, or a default as in { env = \"UNSET\", type = \"integer\", default = … }",
    );
    let default = |kind: &str, default: &str, expected: &str| {
        let json = format!("{{ env = \"N\", type = \"{kind}\", default = {default} }}");
        refused(&json, 54 + kind.len(), &format!("@.default: expected {expected}"));
    };
    default("string", "1", "a string, found 1");
    default("integer", "\"1\"", "an integer from -2^53+1 to 2^53-1, found \"1\"");
    default("integer", "1.0", "an integer from -2^53+1 to 2^53-1, found a number with a fraction");
    default("number", "nan", "a number, found a number with a fraction");
    default("boolean", "\"${env:WORD}\"", "true or false, found \"${env:WORD}\"");
    let name = "expected the name of a variable such as \"API_URL\", found";
    for found in ["\"A-B\"", "\"\"", "1", "\"${env:WORD}\""] {
        refused(&format!("{{ env = {found}, type = \"string\" }}"), 28, &format!("@.env: {name} {found}"));
    }
    refused(
        "{ env = \"production\", type = \"strng\" }",
        49,
        "@.type: expected \"string\", \"integer\", \"number\", \"boolean\" (a table with exactly env and type is a variable), found \"strng\", did you mean \"string\"?",
    );
}

#[test]
fn what_json_does_not_have_is_refused() {
    refused("\"{}\"", 20, "@: expected a table or a list such as { api = \"${env:API}\" }, found \"{}\"");
    refused("1", 20, "@: expected a table or a list such as { api = \"${env:API}\" }, found 1");
    for date in ["1979-05-27T07:32:00Z", "1979-05-27", "07:32:00"] {
        refused(
            &format!("[{date}]"),
            21,
            "@: expected a value that JSON has, found a date, write it as a string",
        );
    }
    for number in ["inf", "-inf", "nan"] {
        refused(&format!("[{number}]"), 21, "@: expected a finite number, as JSON has no other");
    }
    refused(
        "[9007199254740992]",
        21,
        "@: expected an integer that a browser reads as it is (at most 2^53-1), found 9007199254740992, write it as a string",
    );
    assert_eq!(
        lines(load("[1], body = \"x\"")),
        ["scalws.toml:3:32: route.respond.body: expected one of body, body_file and json, found two"]
    );
    let two = lines(load("[99999999999999999999999999999999999999999, { a = nan }, \"${env:UNSET}\"]"));
    assert_eq!(two.len(), 3, "{two:?}");
    let text = "[[route]]\nexact = \"/\"\nrespond = { status = 204, json = [] }";
    assert_eq!(
        lines(load_with(text, &[])),
        ["scalws.toml:3:34: route.respond.json: expected no json, as status 204 never has a body"]
    );
}

#[test]
fn a_variable_that_is_no_text_is_refused() {
    let environment = [("B".to_owned(), OsString::from_vec(b"hunter2\xff".to_vec()))].into();
    let source = Source { environment, ..Source::default() };
    let text =
        "[[route]]\nexact = \"/\"\nrespond = { json = [{ env = \"B\", type = \"string\" }, \"${env:B}\"] }";
    assert_eq!(
        lines(load_text(&source, "scalws.toml", text)),
        [
            "scalws.toml:3:21: route.respond.json: expected UTF-8 in the environment variable B",
            "scalws.toml:3:53: route.respond.json: expected UTF-8 in the environment variable B",
        ]
    );
}

#[test]
fn what_is_shown_is_what_was_typed() {
    let loaded =
        load("{ \"a b\" = \"${env:WORD}\", n = { env = \"N\", type = \"integer\", default = 1.0 } }");
    assert_eq!(lines(loaded).len(), 1);
    let loaded =
        load("{ \"a b\" = \"${env:WORD}\", n = { env = \"N\", type = \"integer\" }, l = [1.0, {}] }")
            .unwrap();
    let shown = &loaded.settings.iter().find(|setting| setting.key == "route.1.respond.json").unwrap().shown;
    assert_eq!(
        shown,
        "{ \"a b\" = \"${env:WORD}\", n = { env = \"N\", type = \"integer\" }, l = [1.0, {}] }"
    );
    let warnings = load("{ a = { env = \"N\", typ = \"integer\" } }").unwrap().warnings;
    assert_eq!(
        warnings,
        [
            "scalws.toml:3:39: route.respond.json.a is sent as it is: a variable has exactly env, type and perhaps default"
        ]
    );
}
