//! The house keeps its own rules: layers, unsafe, the one pool, opening paragraphs, documents.

use std::path::{Path, PathBuf};

/// Each room with the rooms it may import, in the order of `src/lib.rs`: an arrow never points down
/// that page, nor to a room that is not named here. `lib.rs` and `main.rs` stand outside and see all.
const ROOMS: &[(&str, &[&str])] = &[
    ("limits", &[]),
    ("sys", &[]),
    ("offload", &["limits"]),
    ("semantics", &[]),
    ("fs", &["limits", "sys", "offload", "semantics"]),
    ("tls", &["limits", "sys", "semantics"]),
    ("config", &["limits", "semantics", "tls"]),
    ("message", &["semantics", "fs"]),
    ("telemetry", &["limits", "sys", "offload", "semantics", "config"]),
    ("handlers", &["limits", "sys", "offload", "semantics", "fs", "config", "message", "telemetry"]),
    ("route", &["limits", "semantics", "fs", "config", "message", "telemetry", "handlers"]),
    ("dev", &["limits", "sys", "semantics", "fs", "message", "telemetry"]),
    ("connection", &["limits", "sys", "offload", "semantics", "fs", "message", "telemetry", "handlers"]),
    ("admin", &["limits", "semantics", "message", "telemetry"]),
    (
        "server",
        &[
            "limits",
            "sys",
            "offload",
            "semantics",
            "fs",
            "tls",
            "config",
            "message",
            "telemetry",
            "handlers",
            "route",
            "dev",
            "connection",
            "admin",
        ],
    ),
];

const LINES_MAX: usize = 400;

fn house() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: impl AsRef<Path>) -> String {
    let path = house().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every file below a directory of the house with that ending, by its path in the house, sorted.
fn files(directory: &str, ending: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut open = vec![house().join(directory)];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|found| found == ending) {
                let text = std::fs::read_to_string(&path).unwrap();
                found.push((path.strip_prefix(house()).unwrap().to_owned(), text));
            }
        }
    }
    found.sort();
    found
}

/// Fails with all offences at once.
#[track_caller]
fn check(offences: &[String]) {
    assert!(offences.is_empty(), "{}", offences.join("\n"));
}

/// The room of a file under `src/`: `src/fs/root.rs` and `src/fs.rs` are both `fs`.
fn room(path: &Path) -> String {
    let first = path.components().nth(1).unwrap().as_os_str().to_str().unwrap();
    first.trim_end_matches(".rs").to_owned()
}

/// The rooms that a line of code names after `crate::`, one or a group in braces.
fn imports(text: &str) -> Vec<String> {
    let code: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = code.join("\n");
    let mut found = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        if code[..at].ends_with('$') {
            continue;
        }
        let rest = &code[at + 7..];
        let name =
            |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
        let Some(group) = rest.strip_prefix('{') else {
            found.push(name(rest));
            continue;
        };
        let (mut depth, mut start) = (0_u32, true);
        for (at, c) in group.char_indices() {
            match c {
                '}' if depth == 0 => break,
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' => start = depth == 0,
                _ if start && !c.is_whitespace() => {
                    found.push(name(&group[at..]));
                    start = false;
                }
                _ => {}
            }
        }
    }
    found
}

#[test]
fn the_reader_of_imports_reads() {
    let text = "use crate::fs::{Root, Miss};\n// crate::server\nuse crate::{\n    message::{Reply, Body},\n    limits,\n};\n";
    assert_eq!(imports(text), ["fs", "message", "limits"]);
    assert_eq!(imports("let x = crate::sys::open(crate::config::X);"), ["sys", "config"]);
}

#[test]
fn the_map_lists_the_rooms_in_order() {
    let map = read("src/lib.rs");
    let rooms = map.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'));
    assert!(rooms.eq(ROOMS.iter().map(|(room, _)| *room)), "src/lib.rs and the list here differ");
}

#[test]
fn arrows_point_up_the_map() {
    for (number, (room, below)) in ROOMS.iter().enumerate() {
        for other in *below {
            assert!(ROOMS[..number].iter().any(|(known, _)| known == other), "{room} may not import {other}");
        }
    }
    let mut offences = Vec::new();
    for (path, text) in files("src", "rs") {
        let room = room(&path);
        if room == "lib" || room == "main" {
            continue;
        }
        let Some((_, allowed)) = ROOMS.iter().find(|(known, _)| *known == room) else {
            offences.push(format!("{}: `{room}` is no room of the list", path.display()));
            continue;
        };
        for import in imports(&text) {
            if import != room && !allowed.contains(&import.as_str()) {
                offences.push(format!("{}: `{room}` imports `{import}`", path.display()));
            }
        }
    }
    check(&offences);
}

/// Lines of code that contain a word of its own, not in a comment and not as a part of another.
fn lines_with(text: &str, word: &str) -> Vec<usize> {
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let code = text.lines().enumerate().map(|(number, line)| (number, line.split("//").next().unwrap()));
    code.filter(|(_, line)| {
        line.match_indices(word).any(|(at, _)| {
            !is_part(line[..at].chars().next_back()) && !is_part(line[at + word.len()..].chars().next())
        })
    })
    .map(|(number, _)| number + 1)
    .collect()
}

#[test]
fn unsafe_lives_in_sys_alone() {
    let mut offences = Vec::new();
    // Spelled apart, or this very line would be found.
    let word = concat!("un", "safe");
    for (path, text) in files("src", "rs").into_iter().chain(files("tests", "rs")) {
        if path.starts_with("src/sys") || path == Path::new("src/sys.rs") {
            continue;
        }
        offences.extend(lines_with(&text, word).iter().map(|line| format!("{}:{line}", path.display())));
        let allowed = text.contains(concat!("allow(un", "safe_code"));
        // The room itself is let in where it is declared.
        if allowed && path != Path::new("src/lib.rs") {
            offences.push(format!("{}: lets itself in", path.display()));
        }
    }
    check(&offences);
}

#[test]
fn only_offload_may_block() {
    let mut offences = Vec::new();
    for (path, text) in files("src", "rs") {
        if path != Path::new("src/offload.rs") && !path.starts_with("src/offload") {
            let lines = lines_with(&text, concat!("spawn_", "blocking"));
            offences.extend(lines.iter().map(|line| format!("{}:{line}", path.display())));
        }
    }
    check(&offences);
}

#[test]
fn every_file_opens_with_what_it_is_for() {
    let mut offences = Vec::new();
    for (path, text) in files("src", "rs").into_iter().chain(files("tests", "rs")) {
        if !text.starts_with("//! ") {
            offences.push(path.display().to_string());
        }
    }
    check(&offences);
}

#[test]
fn files_are_a_sitting_long() {
    let mut offences = Vec::new();
    for (path, text) in files("src", "rs").into_iter().chain(files("tests", "rs")) {
        let lines = text.lines().count();
        if lines > LINES_MAX {
            offences.push(format!("{}: {lines} lines", path.display()));
        }
    }
    check(&offences);
}

#[test]
fn decisions_are_short_and_numbered_without_a_gap() {
    let mut offences = Vec::new();
    let mut numbers = Vec::new();
    for (path, text) in files("docs/adr", "md") {
        let name = path.file_name().unwrap().to_str().unwrap();
        let lines = text.lines().count();
        let number = name.split('-').next().and_then(|number| number.parse::<usize>().ok());
        if let Some(number) = number.filter(|number| *number > 0) {
            numbers.push(number);
            if !(20..=45).contains(&lines) {
                offences.push(format!("{name}: {lines} lines"));
            }
        } else if lines > 45 {
            offences.push(format!("{name}: {lines} lines"));
        }
    }
    check(&offences);
    assert!(numbers.contains(&6), "the resolver's decision is ADR-0006");
    assert_eq!(numbers, (1..=numbers.len()).collect::<Vec<_>>());
}

#[test]
fn every_limit_is_documented() {
    let text = read("docs/limits.md");
    let mut offences = Vec::new();
    for limit in scalws::limits::TABLE {
        let row = text.lines().find(|line| line.contains(&format!("`{}`", limit.key)));
        match row {
            None => offences.push(format!("docs/limits.md does not name `{}`", limit.key)),
            Some(row) if !row.contains(limit.reason) => {
                offences.push(format!("docs/limits.md has another reason for `{}`", limit.key));
            }
            Some(_) => {}
        }
    }
    check(&offences);
}

/// Lines of the fenced code blocks.
fn commands(text: &str) -> Vec<&str> {
    let mut inside = false;
    let mut found = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            inside = !inside;
        } else if inside {
            found.push(line.trim().trim_start_matches("$ "));
        }
    }
    found
}

#[test]
fn the_commands_of_the_readme_exist() {
    use std::os::unix::fs::PermissionsExt as _;
    let readme = read("README.md");
    let manifest = read("Cargo.toml");
    let compose = read("compose.yaml");
    let commands = commands(&readme);
    let mut offences = Vec::new();
    for command in &commands {
        let words: Vec<&str> = command.split_ascii_whitespace().collect();
        for word in &words {
            let word = word.trim_start_matches("./");
            if word.starts_with("scripts/") {
                let mode =
                    std::fs::metadata(house().join(word)).map(|metadata| metadata.permissions().mode());
                if !mode.is_ok_and(|mode| mode & 0o111 != 0) {
                    offences.push(format!("{command}: no executable {word}"));
                }
            }
        }
        for pair in words.windows(2) {
            if matches!(pair[0], "--test" | "--bin" | "--bench" | "-p" | "--package")
                && words[0] == "cargo"
                && !manifest.contains(&format!("name = \"{}\"", pair[1]))
            {
                offences.push(format!("{command}: no target {}", pair[1]));
            }
        }
        if let Some(at) = words.windows(3).position(|words| words == ["docker", "compose", "up"]) {
            for service in
                words[at + 3..].iter().take_while(|word| **word != "#").filter(|word| !word.starts_with('-'))
            {
                if !compose.contains(&format!("\n  {service}:")) {
                    offences.push(format!("{command}: no service {service}"));
                }
            }
        }
    }
    for promised in ["scripts/up.sh", "scripts/check.sh"] {
        if !commands.iter().any(|command| command.contains(promised)) {
            offences.push(format!("README.md does not show {promised}"));
        }
    }
    check(&offences);
}
