//! The table of guards and the threat model fit the house. That each guard is noticed when it is gone takes
//! minutes and is for `scripts/guards.sh`; this tells at once when an edit elsewhere made a guard's text
//! or a row wrong.

#[path = "../guards/table/mod.rs"]
mod table;

use std::collections::BTreeSet;
use std::path::Path;

use crate::cases::test_exists;
use table::guards;

/// Milestone M2 wants each guard of a promise; this is the least that may ever be left.
const GUARDS_MIN: usize = 60;

fn read(file: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap_or_default()
}

#[track_caller]
fn check(offences: &[String]) {
    assert!(offences.is_empty(), "{}", offences.join("\n"));
}

#[test]
fn every_guard_can_be_taken_away_and_has_its_test() {
    let mut offences = Vec::new();
    for guard in guards() {
        let count = read(guard.file).matches(guard.old).count();
        if count != 1 {
            offences.push(format!("{}: its text stands {count} times in {}", guard.name, guard.file));
        }
        if guard.old == guard.new {
            offences.push(format!("{}: nothing is taken away", guard.name));
        }
        if !test_exists(guard.test) {
            offences.push(format!("{}: there is no test `{}`", guard.name, guard.test));
        }
    }
    check(&offences);
    let names: BTreeSet<_> = guards().map(|guard| guard.name).collect();
    assert_eq!(names.len(), guards().count(), "a name stands twice");
    assert!(names.len() >= GUARDS_MIN, "{} guards", names.len());
}

/// A row of the threat model: what stands in backticks in its last three columns.
struct Row {
    line: String,
    /// File, and the functions in it.
    places: Vec<String>,
    tests: Vec<String>,
    guard: Option<String>,
}

fn rows() -> Vec<Row> {
    let quoted = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    let text = read("docs/threat-model.md");
    let lines = text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| Guarantee"));
    lines
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').collect();
            let [_, places, tests, guard] = cells.as_slice() else { panic!("four columns in {line}") };
            let (places, tests, guard) = (quoted(places), quoted(tests), quoted(guard).pop());
            Row { line: line.to_owned(), places, tests, guard }
        })
        .collect()
}

#[test]
fn the_threat_model_has_a_row_for_each_guard() {
    let rows = rows();
    let mut offences = Vec::new();
    for row in &rows {
        let Some((file, functions)) = row.places.split_first() else {
            offences.push(format!("no guard: {}", row.line));
            continue;
        };
        let text = read(file);
        for function in functions {
            let name = function.rsplit("::").next().unwrap();
            if !text.contains(&format!("fn {name}")) && !text.contains(&format!("const {name}")) {
                offences.push(format!("no `{function}` in {file}: {}", row.line));
            }
        }
        if text.is_empty() || row.tests.is_empty() {
            offences.push(format!("no such file, or no test: {}", row.line));
        }
        let missing = row.tests.iter().filter(|test| !test_exists(test));
        offences.extend(missing.map(|test| format!("there is no test `{test}`: {}", row.line)));
        if let Some(name) = &row.guard
            && !guards().any(|guard| guard.name == name)
        {
            offences.push(format!("no guard `{name}` in tests/guards: {}", row.line));
        }
    }
    for guard in guards() {
        let mine: Vec<_> = rows.iter().filter(|row| row.guard.as_deref() == Some(guard.name)).collect();
        let fits = |row: &&Row| row.places[0] == guard.file && row.tests == [guard.test];
        if mine.len() != 1 || !mine.iter().all(fits) {
            let (file, test) = (guard.file, guard.test);
            offences.push(format!("{}: one row with `{file}` and `{test}`, not {}", guard.name, mine.len()));
        }
    }
    check(&offences);
    assert!(read("docs/threat-model.md").contains("../SECURITY.md"));
    assert!(read("SECURITY.md").contains("docs/threat-model.md"));
}
