//! The config: whatever stands in the file, it is loaded, or each mistake has its place in one line.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use scalws::config::error::{Origin, Problem};
use scalws::config::{Loaded, Source, explain, load};
use scalws::limits;

use super::engine::{self, Target, ensure};
use super::input::Random;

/// Never in a message: what `${env:…}` stands for may be a password.
const SECRET: &str = "S3CRET-VALUE";

fn source(file: &Path) -> Source {
    let environment = [("SECRET", SECRET), ("PORT", "8080"), ("EMPTY", "")];
    Source {
        file: Some(file.to_owned()),
        environment: environment.map(|(name, value)| (name.to_owned(), OsString::from(value))).into(),
        ..Source::default()
    }
}

fn check_problem(problem: &Problem, text: &str) -> Result<(), String> {
    let shown = problem.to_string();
    ensure!(!shown.contains(|c: char| c.is_control()), "more than one line: {shown:?}");
    ensure!(
        problem.message.len() > 8 && shown.len() < text.len() * 8 + 2_000,
        "a message too long or too short: {shown}"
    );
    ensure!(!shown.contains(SECRET), "a secret is told: {shown}");
    let Origin::File { line, column } = problem.origin else {
        return Err(format!("without a place: {shown}"));
    };
    // At the end of the file, too: what is missing there is missing behind the last line.
    let lines: Vec<&str> = text.split('\n').collect();
    let found = lines.get(line.wrapping_sub(1));
    ensure!(
        found.is_some_and(|found| (1..=found.chars().count() + 1).contains(&column)),
        "a place outside of the file: {shown}"
    );
    Ok(())
}

fn check_loaded(loaded: &Loaded, again: &Loaded) -> Result<(), String> {
    ensure!(loaded.digest == again.digest && loaded.digest.len() == 16, "another digest for the same text");
    for limit in limits::TABLE {
        let value = loaded.config.limits.value(limit.key).unwrap_or_default();
        let is_within = (limit.min..=limit.max).contains(&value) || value == limit.default;
        ensure!(is_within, "{} is {value}", limit.key);
    }
    ensure!(loaded.config.routes.len() < 2_000, "{} routes", loaded.config.routes.len());
    let shown = explain::effective(loaded);
    ensure!(!shown.contains(SECRET), "a secret is shown");
    for warning in &loaded.warnings {
        ensure!(
            !warning.contains(|c: char| c.is_control()) && !warning.contains(SECRET),
            "warning {warning:?}"
        );
    }
    Ok(())
}

/// The settings outside of routes, as they are shown, are a config that means the same.
fn check_shown(loaded: &Loaded, file: &Path) -> Result<(), String> {
    let is_plain = |key: &str| ["server.", "limits."].iter().any(|table| key.starts_with(table));
    // What came through a variable is shown as it was typed.
    let settings = loaded.settings.iter().filter(|setting| is_plain(&setting.key));
    let text: String = settings.map(|setting| format!("{} = {}\n", setting.key, setting.shown)).collect();
    std::fs::write(file, &text).unwrap();
    let again =
        load(&source(file)).map_err(|problems| format!("what is shown is refused: {problems}\n{text}"))?;
    let same = format!("{:?}", again.config.server) == format!("{:?}", loaded.config.server);
    ensure!(
        same && again.config.limits == loaded.config.limits,
        "what is shown means something else: {text}"
    );
    Ok(())
}

fn check(input: &[u8], file: &Path) -> Result<String, String> {
    std::fs::write(file, input).unwrap();
    // What the parser sees: without a byte order mark, and up to where it is no text.
    let text = input.strip_prefix(b"\xef\xbb\xbf").unwrap_or(input);
    let text = String::from_utf8_lossy(text).into_owned();
    let source = source(file);
    match (load(&source), load(&source)) {
        (Ok(loaded), Ok(again)) => {
            check_loaded(&loaded, &again)?;
            check_shown(&loaded, file)?;
            Ok(format!("loaded {} {}", loaded.config.routes.len().min(5), loaded.warnings.len().min(3)))
        }
        (Err(problems), Err(again)) => {
            ensure!(problems == again, "other mistakes for the same text");
            ensure!(!problems.0.is_empty(), "refused without a reason");
            let places: Vec<&Origin> = problems.0.iter().map(|problem| &problem.origin).collect();
            ensure!(places.is_sorted(), "not in the order of the file: {problems}");
            ensure!(problems.exit_code() == 78, "exit code {}", problems.exit_code());
            problems.0.iter().try_for_each(|problem| check_problem(problem, &text))?;
            let kind: String =
                problems.0[0].message.chars().filter(char::is_ascii_alphabetic).take(24).collect();
            Ok(kind)
        }
        _ => Err("taken once and refused once".to_owned()),
    }
}

/// Every key of the documentation, so that new ones are fuzzed without being named here.
static KEYS: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let rows = include_str!("../../docs/config.md").lines();
    rows.filter_map(|row| row.strip_prefix("| `")?.split('`').next()).collect()
});

fn make(random: &mut Random) -> Vec<u8> {
    let value = |random: &mut Random| match random.below(4) {
        0 => random.number(),
        1 => format!("\"{}{}\"", random.number(), random.of(&["s", "ms", "h", "KiB", "GB", "", " s"])),
        _ => random
            .of(&[
                "true",
                "\"\"",
                "[]",
                "{}",
                "\"auto\"",
                "\"off\"",
                "\"127.0.0.1:0\"",
                "[\"[::]:8080\", \":1\"]",
                "1.5",
                "-1",
                "\"${env:SECRET}\"",
                "\"${env:NONE}\"",
                "\"${env:NONE:-3s}\"",
                "\"$$\"",
                "1979-05-27",
                "{ delay = \"1s\" }",
                "{ format = \"json\", file = \"x\" }",
                "\"combined\"",
                "[\"10.0.0.0/8\"]",
                "\"\\u00e9\\n\"",
                "'a'",
            ])
            .to_owned(),
    };
    let setting = |random: &mut Random| {
        let near = ["heda_size", "\"\"", "drain.delay", "drain.timeout"];
        let key = if random.once_in(8) { random.of(&near) } else { random.of(&KEYS) };
        format!("{key} = {}", value(random))
    };
    let lines = |random: &mut Random| format!("{}\n", setting(random));
    let route = |random: &mut Random| {
        let place = random.of(&[
            "path = \"/\"",
            "path = \"/a/\"",
            "exact = \"/v\"",
            "exact = \"/v/../x\"",
            "host = \"a.example\"\npath = \"/\"",
            "hosts = [\"*.example\", \"b\"]\nexact = \"/\"",
            "methods = [\"GET\"]\npath = \"/m\"",
            "path = \"a\"",
            "",
            "headers = { \"X-A\" = \"b\" }\npath = \"/h\"",
            "security_headers = true\npath = \"/s\"",
        ]);
        let action = random.of(&[
            "static = { root = \".\" }", "static = { root = \"/none\", spa = \"/index.html\" }", "respond = { body = \"1\" }",
            "respond = { status = 204 }", "redirect = { to = \"/new/{rest}\", status = 301 }", "redirect = { to = \"//x\" }",
            "respond = { json = { a = [1, \"</script>\"], b = { env = \"PORT\", type = \"integer\" } } }", "proxy = { to = [] }", "",
            "static = { root = \".\", cache_control = [{ glob = \"*.{js,css}\", value = \"no-cache\" }, { glob = \"[\", value = \"\" }] }",
            "respond = { body = \"${env:SECRET}\", headers = { \"Cache-Control\" = \"${env:SECRET}\" } }",
            "redirect = { to = \"https://${env:SECRET}/\" }", "static = { root = \"${env:SECRET}\" }",
        ]);
        if random.once_in(3) {
            let handler = random.of(&[
                "static = { root = \".\"",
                "respond = { status = 200",
                "redirect = { to = \"/\"",
            ]);
            return format!(
                "[[route]]\n{place}\n{}{handler}, {} }}\n",
                random.several(1, "", lines),
                setting(random)
            );
        }
        format!("[[route]]\n{place}\n{action}\n")
    };
    let tables = |random: &mut Random| {
        let name = random.of(&["[server]", "[limits]", "[log]", "[tls]", "[sever]", "[server.drain]"]);
        format!("{name}\n{}", random.several(4, "", lines))
    };
    format!("{}{}", random.several(3, "", tables), random.several(3, "", route)).into_bytes()
}

#[test]
fn configs() {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join("scalws.toml");
    let mut random = Random::new(1);
    let mut seeds: Vec<Vec<u8>> = (0..20).map(|_| make(&mut random)).collect();
    seeds.push(include_bytes!("../../deploy/kubernetes/overlays/configmap/scalws.toml").to_vec());
    seeds.push(b"\xef\xbb\xbf[server]\r\nworkers = 1\r\n".to_vec());
    let target = Target {
        name: "config",
        inputs: 1_000,
        seeds,
        words: &[
            "=",
            "\n",
            "\"",
            "'",
            "[",
            "]",
            "{",
            "}",
            "[[route]]\n",
            "[server]\n",
            ".",
            ",",
            "#",
            "\\",
            "\\u0000",
            "${env:SECRET}",
            "${",
            "\u{e9}",
            "\r\n",
            "\0",
            "true",
            "\"\"\"",
            "path = \"/\"\n",
            "static = { root = \".\" }\n",
            "limits.fields = 8\n",
            "-",
            "1e9",
        ],
        make,
        kinds_min: 30,
    };
    engine::run(&target, &|input| check(input, &file));
    let _ = std::fs::remove_dir_all(&directory);
}
