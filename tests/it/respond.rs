//! JSON documents with values of the environment, as a front end gets its configuration at run time.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Finished, Launch, Site, run_with};

const ROUTE: &str = r#"
[[route]]
exact = "/config.json"
[route.respond]
headers = { "Cache-Control" = "no-store" }
[route.respond.json]
version = 2
api = "${env:SITE_API}"
title = { env = "SITE_TITLE", type = "string" }
retries = { env = "SITE_RETRIES", type = "integer", default = 3 }
ratio = { env = "SITE_RATIO", type = "number", default = 0.5 }
beta = { env = "SITE_BETA", type = "boolean", default = false }
links = [{ name = "a", to = "${env:SITE_API}/a" }]
"#;

fn variables(command: &mut Command, variables: &[(&str, &[u8])]) {
    command.envs(variables.iter().map(|(name, value)| (name, OsStr::from_bytes(value))));
}

fn run(verb: &[&str], environment: &[(&str, &[u8])]) -> Finished {
    let site = Site::new();
    let config = site.config(ROUTE);
    let mut command = Command::new(env!("CARGO_BIN_EXE_scalws"));
    command.args(verb).arg("--config").arg(config);
    variables(&mut command, environment);
    run_with(command)
}

/// A value is put into the text of a document, and one quote in it makes the document invalid, or adds
/// a key; one `</script>` in it, and what follows is run by every visitor.
#[test]
fn whatever_a_variable_holds_the_document_is_valid_and_harmless() {
    for value in [
        "plain",
        "",
        "\"",
        "\\",
        "\", \"admin\": true, \"x\": \"",
        "</script><script>alert(1)</script>",
        "<!--<script>",
        "]]>&amp;'",
        "two\nlines\r\n\tand a tab",
        "\u{1}\u{7f}\u{85}\u{2028}\u{2029}\u{feff}",
        "é 漢 \u{1f600}",
        "${env:SITE_API}",
        "$$",
        "{ env = \"N\", type = \"integer\" }",
    ] {
        let site = Site::new();
        let mut launch = Launch::new(&site, "workers = 1", ROUTE);
        variables(&mut launch.command, &[("SITE_API", value.as_bytes()), ("SITE_TITLE", value.as_bytes())]);
        let server = launch.start();
        let answer = server.get("/config.json");
        assert_eq!(answer.field("content-type"), Some("application/json"));
        assert_eq!(answer.field("cache-control"), Some("no-store"));
        let text = answer.text();
        assert!(!text.contains(['<', '>', '&', '\n', '\r', '\u{2028}', '\u{2029}']), "{text}");
        let document: Value = serde_json::from_str(&text).unwrap();
        let expected = json!({
            "version": 2, "api": value, "title": value, "retries": 3, "ratio": 0.5, "beta": false,
            "links": [{ "name": "a", "to": format!("{value}/a") }],
        });
        assert_eq!(document, expected, "{value:?}");
        let names: Vec<_> = document.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(names, ["version", "api", "title", "retries", "ratio", "beta", "links"], "{text}");
    }
}

#[test]
fn types_come_with_the_values() {
    let site = Site::new();
    let mut launch = Launch::new(&site, "workers = 1", ROUTE);
    let environment: [(&str, &[u8]); 5] = [
        ("SITE_API", b"https://api.example"),
        ("SITE_TITLE", b"007"),
        ("SITE_RETRIES", b"12\n"),
        ("SITE_RATIO", b"1e-3"),
        ("SITE_BETA", b"true"),
    ];
    variables(&mut launch.command, &environment);
    let expected = r#"{"version":2,"api":"https://api.example","title":"007","retries":12,"ratio":0.001,"beta":true,"links":[{"name":"a","to":"https://api.example/a"}]}"#;
    assert_eq!(launch.start().get("/config.json").text(), expected);
}

/// A deployment with the wrong value must fail at its start, not in the browsers of its visitors. The
/// value may be a password that was given to the wrong name: it is in no line.
#[test]
fn what_does_not_fit_stops_the_start_without_its_value() {
    let good: [(&str, &[u8]); 2] = [("SITE_API", b"hunter2"), ("SITE_TITLE", b"hunter2")];
    for (name, value, place, words) in [
        ("SITE_RETRIES", &b"hunter2"[..], ":10:11: ", "an integer"),
        ("SITE_RETRIES", b"1.5", ":10:11: ", "an integer"),
        ("SITE_RETRIES", b"99999999999999999999", ":10:11: ", "an integer"),
        ("SITE_RATIO", b"hunter2", ":11:9: ", "a number"),
        ("SITE_RATIO", b"NaN", ":11:9: ", "a number"),
        ("SITE_BETA", b"yes", ":12:8: ", "true or false"),
        ("SITE_TITLE", b"hunter2\xff", ":9:9: ", "UTF-8"),
        ("SITE_API", b"hunter2\xff", ":8:7: ", "UTF-8"),
    ] {
        let environment: Vec<_> = good.into_iter().chain([(name, value)]).collect();
        for verb in ["check", "serve"] {
            let finished = run(&[verb], &environment);
            assert_eq!(finished.code, Some(78), "{name} {}", finished.stderr);
            let lines = finished.lines();
            let fits = |line: &&str| line.contains(place) && line.contains(words) && line.contains(name);
            assert!(lines.iter().any(fits), "{name}: {lines:?}");
            let shows = String::from_utf8_lossy(value).into_owned();
            assert!(!lines.iter().any(|line| line.contains(&shows)), "{lines:?}");
            assert!(!lines.iter().any(|line| line.contains("hunter2")), "{lines:?}");
        }
    }
    let finished = run(&["check"], &good[..1]);
    assert_eq!(finished.code, Some(78));
    assert!(finished.stderr.contains(":9:9: ") && finished.stderr.contains("SITE_TITLE to be set"));
}

#[test]
fn explain_shows_names_and_no_values() {
    let environment: [(&str, &[u8]); 3] =
        [("SITE_API", b"hunter2"), ("SITE_TITLE", b"hunter2"), ("SITE_RETRIES", b"31337")];
    for verb in [&["explain"][..], &["explain", "GET", "/config.json"], &["check"]] {
        let finished = run(verb, &environment);
        assert_eq!(finished.code, Some(0), "{}", finished.stderr);
        let text = finished.lines().join("\n");
        assert!(!text.contains("hunter2") && !text.contains("31337"), "{text}");
    }
    let text = run(&["explain"], &environment).stdout;
    assert!(text.contains("retries = { env = \"SITE_RETRIES\", type = \"integer\", default = 3 }"), "{text}");
}
