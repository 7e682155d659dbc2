//! Whole configs against the lines they earn (case H06). One mistake, one line; nothing follows from it.

use super::*;

mod cors;
mod documents;
mod fields;
mod pages;
mod sources;
mod telemetry;
mod tls;
mod values;

/// Loads `text` as `scalws.toml` with these variables.
fn load_with(text: &str, environment: &[(&str, &str)]) -> Result<Loaded, Problems> {
    let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), value.into())).collect();
    load_text(&Source { environment, ..Source::default() }, "scalws.toml", text)
}

fn lines(found: Result<Loaded, Problems>) -> Vec<String> {
    found.map_or_else(|problems| problems.0.iter().map(ToString::to_string).collect(), |_| Vec::new())
}

/// The problems of `text`; `@` stands for `scalws.toml:`.
fn check(text: &str, expected: &[&str]) {
    let expected: Vec<_> = expected.iter().map(|line| line.replacen('@', "scalws.toml:", 1)).collect();
    assert_eq!(lines(load_with(text, &[])), expected, "{text}");
}

#[test]
fn these_are_no_mistakes() {
    for text in [
        "",
        "\r\n# nothing\r\n",
        "[server]\r\nworkers = 2\r\n",
        "server.workers = \"auto\"",
        "[server]\nlisten = [\"[::]:8080\", \"0.0.0.0:80\", \"127.0.0.1:0\", \"127.0.0.1:0\"]\nadmin = \"off\"",
        "[server]\ndrain = { delay = \"5s\", timeout = \"20s\" }",
        "[server.drain]\ndelay = \"250ms\"",
        "[limits]\nbody_size = \"64KiB\"\nhead_size = 2048\nidle_timeout = \"5m\"\nconnections = 7",
        "[log]\naccess = \"off\"",
        "[log]\naccess = { format = \"combined\", file = \"/tmp/access.log\" }",
        "[[route]]\nexact = \"/version\"\nrespond = { body = \"1.0\\n\" }",
        "[[route]]\npath = \"/old/\"\nredirect = { to = \"/new/{rest}\", status = 301 }",
        "[[route]]\npath = \"/\"\n[route.static]\nroot = \"src\"\nindex = []\nsymlinks = \"none\"",
        "[[route]]\npath = \"/\"\nhost = \"[::1]\"\nmethods = [\"GET\", \"HEAD\"]\nrespond = { status = 204 }",
        // Ranked by the router, so no two of them match the same.
        "[[route]]\npath = \"/a\"\nrespond = {}\n[[route]]\nexact = \"/a\"\nrespond = {}\n\
         [[route]]\npath = \"/a\"\nmethods = [\"GET\"]\nrespond = {}\n\
         [[route]]\npath = \"/a\"\nmethods = [\"HEAD\"]\nrespond = {}\n\
         [[route]]\npath = \"/a\"\nhost = \"a\"\nrespond = {}\n\
         [[route]]\npath = \"/a\"\nhosts = [\"b\", \"*.a\"]\nrespond = {}\n\
         [[route]]\nexact = \"/a/\"\nrespond = {}",
    ] {
        check(text, &[]);
    }
}

#[test]
fn unknown_keys_are_named_with_what_may_be_meant() {
    check(
        "[[route]]\npath = \"/\"\nstatic = { rooot = \"src\" }",
        &["@3:12: unknown key \"rooot\" in static, did you mean \"root\"?"],
    );
    check(
        "[[route]]\npath = \"/\"\n[route.static]\nrooot = \"src\"",
        &["@4:1: unknown key \"rooot\" in static, did you mean \"root\"?"],
    );
    check(
        "[servr]\nworkers = 0",
        &["@1:2: unknown key \"servr\" at the top level, did you mean \"server\"?"],
    );
    check("workers = 2", &["@1:1: unknown key \"workers\" at the top level, it belongs in server"]);
    check("[log]\nworkers = 2", &["@2:1: unknown key \"workers\" in log, it belongs in server"]);
    check("[log]\nxyz = 2", &["@2:1: unknown key \"xyz\" in log, expected one of access"]);
    check(
        "[limits]\nbody-size = 2",
        &["@2:1: unknown key \"body-size\" in limits, did you mean \"body_size\"?"],
    );
    check(
        "[server.drain]\ntimeot = \"1s\"",
        &["@2:1: unknown key \"timeot\" in drain, did you mean \"timeout\"?"],
    );
    check(
        "[[routes]]\npath = 1",
        &["@1:3: unknown key \"routes\" at the top level, did you mean \"route\"?"],
    );
    check("[log]\n\"a\\nb\" = 1", &["@2:1: unknown key \"a\\nb\" in log, expected one of access"]);
    // The value of an unknown key is nobody's business.
    check("[log]\nxyz = \"${env:UNSET}\"", &["@2:1: unknown key \"xyz\" in log, expected one of access"]);
}

#[test]
fn nothing_follows_from_a_mistake_that_was_reported() {
    check(
        "[[route]]\npth = \"/\"\nrespond = {}",
        &["@2:1: unknown key \"pth\" in route, did you mean \"path\"?"],
    );
    check(
        "[[route]]\npath = \"/\"\nrespnd = {}",
        &["@3:1: unknown key \"respnd\" in route, did you mean \"respond\"?"],
    );
    check(
        "[[route]]\npath = \"/\"\nroot = \"src\"",
        &["@3:1: unknown key \"root\" in route, it belongs in static"],
    );
    check(
        "[[route]]\npath = \"/\"\nredirect = { too = \"/a\" }",
        &["@3:14: unknown key \"too\" in redirect, did you mean \"to\"?"],
    );
    check("[[route]]\npath = 1\nrespond = {}", &["@2:8: route.path: expected a string, found 1"]);
    check(
        "[[route]]\npath = \"/\"\nstatic = 1",
        &["@3:10: route.static: expected a table such as { … }, found 1"],
    );
    check(
        "[[route]]\npath = \"/\"\nproxy = { to = [\"http://app\"] }",
        &["@3:1: route.proxy is not built yet in this version, expected no such key"],
    );
    for target in ["static = { dir = \"src\" }", "static = { path = \"src\" }", "redirect = { url = \"/a\" }"]
    {
        let problems = load_with(&format!("[[route]]\npath = \"/\"\n{target}"), &[]).unwrap_err();
        assert_eq!(problems.0.len(), 1, "{problems}");
    }
    check("[server]\nworkers = = 2\n", &["@2:11: extra `=`, expected nothing"]);
    check("[[route]]\npath = \"/\nrespond = {}", &["@2:10: invalid basic string, expected `\"`"]);
    check("[server\nworkers = 2\n", &["@1:8: unclosed table, expected `]`"]);
    check("[[route]\npath = \"/\"\nrespond = {}", &["@1:9: unclosed array table, expected `]`"]);
    check("[[route]]\npath = \"/\"\nrespond = {\n", &["@3:12: unclosed inline table, expected `}`"]);
    check(
        "[server]\nlisten = [\n  8080\n  8081\n]",
        &["@4:3: missing comma between array elements, expected `,`"],
    );
    check("[log]\naccess = \"\"\"json\n", &["@3:1: invalid multi-line basic string, expected `\"`"]);
    check(
        "[server]\nworkers 2\n[log]\naccess = 1",
        &[
            "@2:9: key with no value, expected `=`",
            "@4:10: log.access: expected \"json\", \"combined\", \"off\" or a table with format and file, found 1",
        ],
    );
    check(
        "[server]\nworkers = 0\nworkers = 1",
        &[
            "@2:11: server.workers: expected \"auto\" or an integer from 1 to 1024, found 0",
            "@3:1: duplicate key \"workers\", expected once in its table",
        ],
    );
}

#[test]
fn five_mistakes_are_five_lines_in_their_order() {
    check(
        "[server]\nlisten = \"8080\"\nworkerz = 2\n\n[limits]\nhead_timeout = \"10\"\n\n\
         [[route]]\npath = \"/\"\nstatic = { rooot = \"/srv\" }\n\n\
         [[route]]\npath = \"/x/../y\"\nredirect = { to = \"//evil\" }\n",
        &[
            "@2:10: server.listen: expected a list of addresses such as [\"[::]:8080\"], found \"8080\", did you mean [\"[::]:8080\"]?",
            "@3:1: unknown key \"workerz\" in server, did you mean \"workers\"?",
            "@6:16: limits.head_timeout: expected a duration with a unit (ms, s, m or h), found \"10\", did you mean \"10s\"?",
            "@10:12: unknown key \"rooot\" in static, did you mean \"root\"?",
            "@13:8: route.path: expected a path such as \"/docs/\", found \"/x/../y\", without dot segments",
            "@14:19: route.redirect.to: expected one slash at its start, as \"//\" would begin a host, found \"//evil\"",
        ],
    );
}

mod soup {
    //! Any text, however broken, ends in a config or in lines with places; never in a panic.

    use proptest::prelude::*;

    use super::load_with;
    use crate::config::error::Origin;

    const TOKENS: [&str; 39] = [
        "[server]",
        "[[route]]",
        "[route.static]",
        "[log]",
        "[limits]",
        "[tls]",
        "[",
        "]",
        "{",
        "}",
        "=",
        ",",
        ".",
        "\n",
        "\n",
        "\r\n",
        "\"",
        "'",
        "\"\"\"",
        "#",
        "ä",
        "\u{0}",
        "path",
        "\"/\"",
        "respond",
        "static",
        "root",
        "\"src\"",
        "workers",
        "access",
        "listen",
        "2",
        "true",
        "\"${env:A}\"",
        "drain",
        "json",
        "{ env = \"A\", type = \"integer\" }",
        "[route.respond.json]",
        " ",
    ];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn any_text_ends_in_lines(tokens in proptest::collection::vec(proptest::sample::select(&TOKENS[..]), 0..40)) {
            let text = tokens.concat();
            if let Err(problems) = load_with(&text, &[("A", "hunter2")]) {
                for problem in &problems.0 {
                    let line = problem.to_string();
                    prop_assert!(!line.contains('\n') && !line.contains("hunter2"), "{}", line);
                    let Origin::File { line, column } = problem.origin else { panic!("{problem}") };
                    prop_assert!((1..=text.lines().count() + 1).contains(&line) && column > 0, "{}", problem);
                }
                prop_assert!(!problems.0.is_empty());
            }
        }
    }
}
